"""The challenge that a comparison is: which classes are scored, which files are which case, the rules, their text."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, LimitRules, is_safe_name
from evaluation.challenge.documents import RECOMMENDED, overlaps_of, read_cases, resolve_preset, with_overlap_rule
from evaluation.challenge.formats import FORMATS, Overlaps, PointRules
from evaluation.files.formats import format_of
from evaluation.files.results.files import write_atomically
from evaluation.files.submission import PlacedFiles
from evaluation.findings import Finding, fault, listed, quote
from evaluation.findings.errors import WrongUsage
from evaluation.folders.hints import hint_about_size
from evaluation.folders.pairs import Pairing, pair_models, pairing_words, unpaired
from evaluation.folders.pieces import pixels_of
from evaluation.folders.places import join_classes
from evaluation.folders.source import ARRAY_FORMATS, NAMELESS, OF_NUCLEI, Size, Source, SourceCase
from evaluation.scoring.score import FEWEST_NUCLEI
from nuclei_metrics.aggregation.units import FEWEST_GROUPS

IGNORED = "ambiguous"  # the class that the preset does not score
IMAGESCOPE_UNNAMED = "description"  # ImageScope's name of a class that was given none, as in MoNuSeg's files
NO_CLASSES = frozenset(("", NAMELESS, "nuclei", "cell", "cells", IMAGESCOPE_UNNAMED))  # names that tell no class apart
PANOPTIC_WITHOUT_CLASSES = ("panoptic.binary.pq", "panoptic.binary.sq", "panoptic.binary.rq")
UNUSED_NUMBER = 30_000
ClassNames = list[tuple[str, list[str]]]  # names of the classes, and other spellings
TABLES = ("classes", "reference", "submission", "matching", "metrics", "aggregation", "ranking", "confidence")
CONFIDENCE = {"level": 0.95, "samples": 2000, "seed": 1, "method": "by_groups", "resample": "groups"}
RADIUS_PX = 12.0


@dataclass(frozen=True, slots=True)
class _MatchChoice:
    """A matching rule by the word that ``compare --match`` has for it: "iou=0.7", "centroid=12", "any_overlap".

    key    of the number after the word, "": no number; number None: the number of the preset, if any
    words  the rule in a sentence that begins with "nuclei"
    """

    rule: str
    key: str
    words: str
    number: float | None = None

    def table(self) -> dict[str, Any]:
        """The table [matching] of challenge.toml."""
        rule = {"name": self.rule, "rule": self.rule, "class_aware": False, "ties": "first_pixel"}
        return {"rules": [{**rule, self.key: self.number} if self.key else rule]}

    def __str__(self) -> str:
        return f"nuclei {self.words.format(self.number)}"


MATCHES: Mapping[str, _MatchChoice] = {
    "iou": _MatchChoice("iou_above", "threshold", "with an IoU above {:g} match", 0.5),
    "centroid": _MatchChoice(
        "centroid_closest_first", "radius_px", "with centroids within {:g} px match, the closest first", RADIUS_PX
    ),
    "hausdorff": _MatchChoice(
        "hausdorff_closest_first", "radius_px", "with a Hausdorff distance up to {:g} px match, the closest first"
    ),
    "any_overlap": _MatchChoice(
        "best_iou_any_overlap", "", "match the prediction of the highest IoU, from one shared pixel on"
    ),
    "best_iou_centroid_inside": _MatchChoice(
        "best_iou_centroid_inside", "", "match the prediction of the highest IoU if its centroid is inside"
    ),
}
TABLES_OF_POINTS: dict[str, Any] = {
    "matching": MATCHES["centroid"].table(),
    "metrics": {"families": ["detection", "classification", "counting"], "boundary": "open"},
    "ranking": {
        "method": "sum_of_ranks",
        "ties": "min",
        "significance_level": 0.05,
        "require": [],
        "columns": [{"path": "detection.f1.group_mean", "direction": "descending"}],
    },
}
MEASURED = ("detection", "classification", "segmentation", "panoptic", "covered", "overall", "thresholds", "overlap")
IOU_THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
ONE_CLASS: dict[str, Any] = {  # without the scores that compare classes
    "ranking": {
        "columns": [
            {"path": "detection.f1.group_mean", "direction": "descending"},
            {"path": "covered.surface_dice.group_mean", "direction": "descending"},
        ]
    }
}


def tables_above(preset: str, name: str) -> dict[str, Any]:
    """Write the keys that every challenge.toml with a preset begins with."""
    return {"format_version": 1, "name": name, "version": "1", "preset": preset}


def challenge_text(heading: Sequence[str], document: Mapping[str, Any]) -> str:
    """The document as TOML: comments, single keys, then its tables in their usual order."""
    lines = [f"# {line}" for line in heading]
    lines += [f"{key} = {toml_value(value)}" for key, value in document.items() if key not in TABLES]
    for table in TABLES:
        value = document.get(table)
        if isinstance(value, Mapping):
            lines += ["", f"[{table}]", *(f"{_toml_key(key)} = {toml_value(item)}" for key, item in value.items())]
        elif value:
            for row in value:
                lines += ["", f"[[{table}]]", *(f"{_toml_key(key)} = {toml_value(item)}" for key, item in row.items())]
    return "\n".join([*lines, ""])


def toml_value(value: Any) -> str:
    """A value on one line.

    >>> toml_value({"a b": [1, "x"], "c": True})
    '{ "a b" = [1, "x"], c = true }'
    """
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml_key(key)} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def _toml_key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else _toml_string(key)


def _toml_string(text: str) -> str:
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"'}.get(c, c if c.isprintable() else f"\\u{min(ord(c), 0xFFFF):04x}") for c in text
    )
    return f'"{escaped}"'


def table_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# --- classes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """The classes that are scored, decided by the reference or by ``--classes``, never by the number of models.

    classes      classes of the reference, then classes of predictions only (``foreign``)
    one_class    how nuclei are combined into one class, whatever the files
    without      models without comparable classes: only their nuclei are combined into one class
    findings     warnings about classes of one side
    """

    classes: ClassNames
    one_class: ClassNames
    foreign: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def plan_classes(
    reference: Source, models: Mapping[str, Source], option: str | None, ignore: Sequence[str] = ()
) -> ClassPlan:
    """Decide which classes are scored. Raises WrongUsage for a class in ``option`` that the reference does not score.

    ignore  names of classes that are not scored, too
    """
    everything = distinct_names(name for side in (reference, *models.values()) for name in side.classes)
    ignored = {name.casefold() for name in ignored_classes(reference, ignore)}
    one: ClassNames = [(NAMELESS, [*(name for name in everything if name.casefold() not in {NAMELESS, *ignored}), ""])]
    if is_none(option):
        return ClassPlan(one, one)
    if option is not None:
        plan = parsed_classes(option)
        words = (word for name, aliases in plan for word in (name, *aliases))
        if (word := next((word for word in words if word.casefold() in ignored), None)) is not None:
            raise WrongUsage(fault("nothing-to-compare", "--classes", wording="not-scored", what=word))
        return ClassPlan(plan, one)
    if {name.casefold() for name in everything} == {IMAGESCOPE_UNNAMED}:
        return ClassPlan(one, one)
    reference_names = [name for name in distinct_names(reference.classes) if name.casefold() not in ignored]
    names_of_models = {
        model: [name for name in side.classes if name.casefold() not in ignored] for model, side in models.items()
    }
    if not reference_names:
        got = "the prediction has classes, the reference does not"
        says = [fault("classes-differ", "the reference", wording="left-out", got=got, advice="")]
        named = {name.casefold() for names in names_of_models.values() for name in names} - NO_CLASSES
        return ClassPlan(one, one, findings=tuple(says if named else []))
    known = {name.casefold() for name in reference_names}
    own = {model: [name for name in names if name.casefold() not in known] for model, names in names_of_models.items()}
    without = [model for model, names in names_of_models.items() if len(own[model]) == len(names)]
    findings = [
        finding
        for model in without
        if (finding := _why_one_class(model, reference_names, own[model], has_place=len(without) == len(models)))
    ]
    if models and len(without) == len(models):
        return ClassPlan(one, one, findings=tuple(findings))
    for model, names in own.items():
        for name in names if model not in without else ():
            got, where = f"the class {quote(name)} is not in the reference", f"prediction {quote(model)}"
            example = ",".join([f"{reference_names[0]}={name}", *reference_names[1:]])
            findings.append(fault("classes-differ", where, got=got, known=reference_names, example=example))
    foreign = distinct_names(name for model, names in own.items() if model not in without for name in names)
    classes = [_named_class(name) for name in [*reference_names, *foreign]]
    foreign = [name for name, _ in classes[len(reference_names) :]]
    return ClassPlan(classes, one, tuple(foreign), tuple(without), tuple(findings))


def _why_one_class(model: str, known: Sequence[str], own: Sequence[str], *, has_place: bool) -> Finding | None:
    """Return why the nuclei of a model are taken as one class; nothing if the names are no classes.

    has_place  the model is ranked with the others, because classes are not compared
    """
    if len(known) == 1 and NO_CLASSES.issuperset(name.casefold() for name in (*known, *own)):
        return None
    where, advice = f"prediction {quote(model)}", ""
    got = "the reference has classes, the prediction does not"
    if own:
        example = ",".join(f"{a}={b}" for a, b in zip(known, own, strict=False))
        got = f"its classes are {listed(own, last='and')}, the classes of the reference are {listed(known, last='and')}"
        advice = f" Map equal classes, for example: --classes '{example}'."
    is_ranked = has_place or len(known) == 1
    return fault("classes-differ", where, wording="left-out" if is_ranked else "one-class", got=got, advice=advice)


def is_none(option: str | None) -> bool:
    """Return whether the option ``--classes`` states that classes are omitted."""
    return option is not None and option.strip() == "none"


def distinct_names(names: Iterable[str]) -> list[str]:
    """Drop names that differ from an earlier one in capitals only.

    >>> distinct_names(["Tumour", "stroma", "tumour"])
    ['Tumour', 'stroma']
    """
    spellings: dict[str, str] = {}
    for name in names:
        spellings.setdefault(name.casefold(), name)
    return list(spellings.values())


def has_ignored(side: Source) -> bool:
    return any(name.casefold() == IGNORED for name in side.classes)


def ignored_classes(reference: Source, ignore: Sequence[str]) -> list[str]:
    """List the classes of a reference that are not scored, as its files spell them: by the option and the preset."""
    spelt = {name.casefold(): name for name in reference.classes}
    names = [*([IGNORED.capitalize()] if has_ignored(reference) else []), *(spelt.get(n.casefold(), n) for n in ignore)]
    return distinct_names(names)


def _is_nameless(plan: ClassNames) -> bool:
    """Return whether all nuclei are of one class, whatever their files call them."""
    return "" in plan[0][1]


def needs_classes(side: Source, plan: ClassNames, ignored: Collection[str] = ()) -> bool:
    """Return whether the class maps or tables of a side are to be read.

    Even with one class they are needed for unscored classes, such as ambiguous nuclei.
    """
    file = side.class_file
    is_table = file is not None and file.class_key == "class_table"
    return len(plan) > 1 or (is_table and has_ignored(side)) or not set(ignored).isdisjoint(side.classes)


def _named_class(name: str) -> tuple[str, list[str]]:
    """A class with a valid name for challenge.toml, and its original spelling."""
    plain = re.sub(r"[^A-Za-z0-9 _+-]", "_", name)[:64]
    plain = plain if re.match("[A-Za-z0-9]", plain) else f"class {plain}"[:64]
    return plain, [] if plain == name else [name]


def spellings_of(option: str | None) -> list[str]:
    """List all spellings of the classes in the option ``--classes``; empty if it names no class."""
    plan = [] if option is None or is_none(option) else parsed_classes(option)
    return [word for name, aliases in plan for word in (name, *aliases)]


def parsed_classes(option: str) -> ClassNames:
    """``tumour=neoplastic=1,stroma`` as names with other spellings. Raises ValueError for a spelling of two classes.

    >>> parsed_classes("tumour=neoplastic=1, stroma")
    [('tumour', ['neoplastic', '1']), ('stroma', [])]
    """
    plan = []
    for part in filter(str.strip, option.split(",")):
        name, *aliases = (word.strip() for word in part.split("="))
        plain, own = _named_class(name)
        plan.append((plain, distinct_names([plain, *own, *filter(None, aliases)])[1:]))
    spellings = [word for name, aliases in plan for word in (name, *aliases)]
    twice = next((word for n, word in enumerate(spellings) if len(distinct_names(spellings[: n + 1])) <= n), None)
    if not plan or twice is not None:
        got = f"the classes {option!r}" + (f" with {twice!r} twice" if twice is not None else "")
        raise ValueError(f"{got}; expected names, each once, such as 'tumour=1,stroma=2'")
    return plan


def keys_of_side(side: Source, plan: ClassNames, files: str, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """Create the rules of a side with files at ``files``, with the numbers of its classes, if any.

    ignore  names of classes that are not scored
    """
    numbered = [(name, list[str]()) for name in ignore if name in side.numbers]
    keys = {"format": side.format, "files": files, **side.keys}
    if side.format in ARRAY_FORMATS or ((len(plan) > 1 or numbered) and side.numbers):
        keys["class_values"] = class_values(side, [*plan, *numbered])
    return keys


def class_values(side: Source, plan: ClassNames) -> dict[str, Any]:
    """The numbers that mean each class in the files of a side; 0 is the background, but in PanNuke's channels."""
    lowest = 0 if side.format == "pannuke_masks" else 1
    values: dict[str, Any] = {}
    for index, (name, aliases) in enumerate(plan):
        spellings = [name, *aliases]
        numbers = {side.numbers[word] for word in spellings if word in side.numbers}
        numbers |= {int(word) for word in spellings if word.isdecimal() and int(word) >= lowest}
        known = sorted(numbers)
        values[name] = known if len(known) > 1 else known[0] if known else UNUSED_NUMBER + index
    return values


# --- rules ------------------------------------------------------------------------------------------------------------


def parsed_match(text: str) -> _MatchChoice:
    """Read the value of ``--match``, such as "hausdorff=6". Raises ValueError.

    >>> parsed_match("centroid").number, parsed_match("iou=0.7").table()["rules"][0]["threshold"]
    (12.0, 0.7)
    """
    word, sign, number = text.partition("=")
    if (choice := MATCHES.get(word)) is None:
        raise ValueError(f"{text!r} is no matching rule; expected {listed(MATCHES, 20, last='or')}")
    if sign:
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        most = 0.99 if choice.key == "threshold" else 1e9
        if not choice.key or not 0 <= value <= most:
            expected = f"a number from 0 to {most:g} after '='" if choice.key else f"{word!r} alone"
            raise ValueError(f"{text!r}; expected {expected}")
        choice = replace(choice, number=value)
    if choice.key and choice.number is None:
        raise ValueError(f"{text!r} without a radius; expected a radius in px, such as '{word}=6'")
    return choice


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of a comparison: matching rule (None: of the preset); further families of metrics.

    as_one  nuclei have one class, whatever the files
    """

    match: _MatchChoice | None = None
    families: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    as_one: bool = False

    def match_of(self, *, points: bool) -> _MatchChoice:
        """The matching rule; points always match by distance."""
        choice = self.match or MATCHES["centroid" if points else "iou"]
        return choice if not points or choice.rule == MATCHES["centroid"].rule else MATCHES["centroid"]

    def tables(self, party: Party) -> dict[str, Any]:
        """The tables that differ from the preset."""
        classes, foreign = len(party.plan), len(party.foreign)
        families = [name for name in (*MEASURED, *self.families) if classes > 1 or name != "classification"]
        if party.drops_classes:
            families = [name for name in families if name != "panoptic"] + list(PANOPTIC_WITHOUT_CLASSES)
        tables: dict[str, Any] = {
            "metrics": {"families": list(dict.fromkeys(families)), "iou_thresholds": list(IOU_THRESHOLDS)}
        }
        if self.match is not None:
            tables["matching"] = self.match.table()
        return {**(ONE_CLASS if classes - foreign == 1 else {}), **tables}


@dataclass(frozen=True, slots=True, eq=False)
class Party:
    """Models with the same rules, and their classes; ``foreign`` classes are not in the reference."""

    models: Mapping[str, Source]
    plan: ClassNames
    foreign: tuple[str, ...] = ()
    are_points: bool = False

    @property
    def drops_classes(self) -> bool:
        """Return whether the files name classes that are not compared."""
        return _is_nameless(self.plan) and not NO_CLASSES.issuperset(name.casefold() for name in self.plan[0][1])

    def ranks(self, other: Party) -> bool:
        """Return whether models of another party can be ranked with these: the ranking does not use classes."""
        return self.are_points == other.are_points and len(self.plan) - len(self.foreign) <= 1


def safe_name(name: str) -> str:
    """A name that cases, groups and teams may have."""
    plain = "".join(c if c.isalnum() or c in " _-.+@" else "_" for c in name)[:200].strip(" .")
    return plain if is_safe_name(plain) else "image"


def free_name(name: str, taken: set[str]) -> str:
    """Return a name for files that differs from all earlier names in more than case, as Windows and macOS need.

    taken   the names before, without case; the new one is added

    >>> taken: set[str] = set()
    >>> [free_name(name, taken) for name in ("a", "A", "b")]
    ['a', 'A_2', 'b']
    """
    number, free = 2, name
    while free.casefold() in taken:
        number, free = number + 1, f"{name}_{number}"
    taken.add(free.casefold())
    return free


# --- the challenge ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _PairedCase:
    """An image of the reference, by its name there, with the predictions of the models, and its size, px."""

    name: str
    reference: SourceCase
    predictions: Mapping[str, SourceCase]
    size_yx: Size

    def misfits(self) -> dict[str, Size]:
        """The sizes of predictions that differ."""
        sizes = {model: case.size_yx for model, case in self.predictions.items()}
        return {model: size for model, size in sizes.items() if size is not None and size != self.size_yx}


@dataclass(frozen=True, slots=True, eq=False)
class _MadeChallenge:
    """The rules for each model, the files of both sides in their places, and findings and assumptions, in words.

    cases  by their names in the rules
    texts  of challenge.toml and cases.csv
    """

    rules: Mapping[str, Challenge]
    reference: PlacedFiles
    submissions: Mapping[str, PlacedFiles]
    cases: Mapping[str, _PairedCase]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    texts: Mapping[str, str]

    def save(self, folder: Path) -> None:
        """Write a challenge with the reference, and the predictions of each model in ``submissions/<model>``."""
        for name, text in self.texts.items():
            write_atomically(folder / name, text)
        sides = {folder: self.reference, **{folder / "submissions" / m: files for m, files in self.submissions.items()}}
        for below, files in sides.items():
            for name in files.names:
                (below / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(files.place(name), below / name)


def make_challenge(reference: Source, party: Party, wanted: Wanted, workspace: Path) -> _MadeChallenge:
    """Create rules for the detected files. Raises WrongUsage. ``workspace``: for joined files."""
    plan = party.plan
    reference, *predictions = (
        _with_joined_classes(side, plan, workspace, is_wanted=wanted.as_one or not _is_nameless(plan))
        for side in (reference, *party.models.values())
    )
    models = dict(zip(party.models, predictions, strict=True))
    pairings = pair_models(reference, models)
    cases, findings = _paired_cases(reference, models, pairings)
    findings = [
        *(finding for side in (reference, *models.values()) for finding in side.findings),
        *chain.from_iterable(unpaired(one.without_prediction, one.without_reference, m) for m, one in pairings.items()),
        *findings,
    ]
    backgrounds = [name for name in wanted.ignore if _is_background_of(name, models.values(), reference)]
    ignored = [name for name in wanted.ignore if name not in backgrounds]
    names = {case: one.name for case, one in cases.items()}
    of_reference, reference_files = _place_files(reference, plan, names, "reference/", ignored)
    documents, submissions = {}, {}
    for model, side in models.items():
        pairs = pairings[model].pairs
        chosen = {case: pairs[one.name] for case, one in cases.items() if one.name in pairs}
        table, submissions[model] = _place_files(side, plan, chosen, "", wanted.ignore)
        documents[model] = document_of(reference, party, of_reference, table, wanted)
    groups = {case: safe_name(one.reference.group) if one.reference.group else case for case, one in cases.items()}
    indices = _index_rows(cases)
    rows: list[list[object]] = [["case", "group", "height", "width", *(["index"] if indices else [])]]
    rows += [[case, groups[case], *one.size_yx, *indices.get(case, [])] for case, one in cases.items()]
    heading = [
        "Written by 'evaluation compare' from the detected files; all other rules come from the preset.",
        "The files of the reference were copied and renamed.",
    ]
    texts = {CHALLENGE_FILE: challenge_text(heading, next(iter(documents.values()))), CASES_FILE: table_text(rows)}
    notes = [f"Reference {reference.words()}", *reference.notes]
    for model, side in models.items():
        notes += [f"Prediction {side.words()}", *side.notes, *pairing_words(pairings[model])]
    if len(plan) == 1 and not reference.classes:
        notes.append("One class: the reference has no classes.")
    notes.append(_rules_in_a_sentence(reference, models, groups, wanted) + _overlap_words(documents))
    if ignored:
        named = listed(ignored, 20, last="and")
        notes.append(f"Not scored: regions that the reference marks as {named} (--ignore).")
    if backgrounds:
        notes.append(f"The label {listed(backgrounds, last='and')} of predictions is their background (--ignore).")
    listed_cases = read_cases(texts[CASES_FILE])
    rules = {
        model: Challenge.build({**resolve_preset(dict(document)), "cases": listed_cases})
        for model, document in documents.items()
    }
    return _MadeChallenge(rules, reference_files, submissions, cases, tuple(notes), tuple(findings), texts)


def faults_of_sizes(made: _MadeChallenge) -> list[Finding]:
    """Return which sizes differ, and how the images would match (turned, scaled), as far as trying some of them
    shows."""
    faults = []
    for model, rules in made.rules.items():
        misfits = {case: one.misfits() for case, one in made.cases.items()}
        sizes = {case: of_models[model] for case, of_models in misfits.items() if model in of_models}
        if not sizes:
            continue
        fix = hint_about_size(rules, made.reference, made.submissions[model], sizes) or None
        for case, size in sizes.items():
            one = made.cases[case]
            where = f"{quote(one.name)}, prediction {quote(model)}"
            faults.append(fault("sizes-differ", where, fix=fix, found=shown(size), size=shown(one.size_yx)))
    return faults


def document_of(
    reference: Source, party: Party, of_reference: Mapping[str, Any], of_submission: Mapping[str, Any], wanted: Wanted
) -> dict[str, Any]:
    """The tables of challenge.toml: the preset, changes to it, and the rule for overlapping nuclei."""
    points = party.are_points
    ignore: dict[str, Any] = {} if has_ignored(reference) or points else {"ignore": {"classes": []}}
    if wanted.ignore:
        ignore = {"ignore": {"classes": list(wanted.ignore), "policy": "drop_unmatched", "fraction": 0.5}}
    if any(finding.code == "nested-classes" for finding in reference.findings):
        ignore |= {"overlap": "smallest", "overlap_scope": "image"}  # if not kept: no cell swallows its nucleus
    special = wanted.tables(party)
    if points:
        special = {**TABLES_OF_POINTS, "matching": wanted.match_of(points=True).table()}
    if points and len(party.plan) == 1:
        families = [name for name in TABLES_OF_POINTS["metrics"]["families"] if name != "classification"]
        special = {**special, "metrics": {**special["metrics"], "families": families}}
    document = {
        **tables_above(RECOMMENDED, f"Comparison with {safe_name(reference.path.resolve().name)}"),
        "classes": [
            {
                "name": name,
                **({"aliases": aliases} if aliases else {}),
                **({"only_predicted": True} if name in party.foreign else {}),
            }
            for name, aliases in party.plan
        ],
        "reference": {**of_reference, **ignore},
        "submission": {**of_submission, "missing_case": "worst", "missing_class_file": "empty"},
        **special,
        "confidence": CONFIDENCE,
    }
    return with_overlap_rule(document)


def holds_points(side: Source) -> bool:
    return side.keys.get("shape") == "point" or issubclass(FORMATS[side.format], PointRules)


def _rules_in_a_sentence(
    reference: Source, models: Mapping[str, Source], groups: Mapping[str, str], wanted: Wanted
) -> str:
    """How nuclei are matched and scores are averaged; ``groups``: the patient of each image."""
    points = any(holds_points(side) for side in (reference, *models.values()))
    choice = wanted.match_of(points=points)
    matched = (
        f"points within {choice.number:g} px match, the closest first"
        if points
        else f"{choice}, whatever their classes"
    )
    number = len(set(groups.values()))
    unit = "images" if number == len(groups) else f"{number} patients"
    if number == 1:
        means = f"no intervals, since there is one {'image' if len(groups) == 1 else 'patient'}"
    elif number < FEWEST_GROUPS:
        means = f"means over {unit}, no intervals, since {number} {unit.split()[-1]} are too few"
    else:
        means = f"means over {unit}, with 95% intervals from {FEWEST_NUCLEI} nuclei on"
    return f"Rules: preset '{RECOMMENDED}': {matched}; {means}."


def _overlap_words(rules: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rule for overlapping nuclei of the reference, by model where models have different rules."""
    models: dict[str, list[str]] = {}
    for model, document in rules.items():
        if overlaps_of(document["reference"]) not in (None, Overlaps.NONE) and "overlap" in document["reference"]:
            models.setdefault(document["reference"]["overlap"], []).append(model)
    if len(models) == 1:
        return f" Overlapping nuclei of the reference: {next(iter(models))}."
    words = [f"{rule} for {listed(names, last='and')}" for rule, names in models.items()]
    return f" Overlapping nuclei of the reference: {'; '.join(words)}." if words else ""


# --- names, sizes -----------------------------------------------------------------------------------------------------


def _paired_cases(
    reference: Source, models: Mapping[str, Source], pairings: Mapping[str, Pairing]
) -> tuple[dict[str, _PairedCase], list[Finding]]:
    """The cases by their names in the challenge, and warnings about their sizes. Raises WrongUsage.

    The size comes from the reference, otherwise from the first model with a size, otherwise from the outermost nucleus.
    """
    cases: dict[str, _PairedCase] = {}
    taken: set[str] = set()
    unknown: dict[str, Size] = {}
    for name, case in reference.cases.items():
        pairs = {model: pairing.pairs[name] for model, pairing in pairings.items() if name in pairing.pairs}
        predictions = {model: models[model].cases[own] for model, own in pairs.items()}
        of_case = (case, *predictions.values())
        size = next((side.size_yx for side in of_case if side.size_yx is not None), None)
        if size is None:
            extents = [side.extent_yx for side in of_case if side.extent_yx is not None] or [(1, 1)]
            size = unknown[name] = (max(y for y, _ in extents), max(x for _, x in extents))
        cases[free_name(safe_name(name), taken)] = _PairedCase(name, case, predictions, size)
    if not unknown:
        return cases, []
    first = next(iter(unknown))
    for side in (reference, *models.values()):
        if places := format_of(side.format).places:
            units, or_else = places
            lacking, where = f"the size of {quote(first)}", quote(str(side.path), 200)
            fix = "Put the images next to the files, with the same names." + or_else
            raise WrongUsage(
                fault("nothing-to-compare", where, wording="no-scale", units=units, lacking=lacking, fix=fix)
            )
    return cases, [fault("size-unknown", *map(quote, unknown), size=shown(unknown[first]))]


def shown(size_yx: tuple[int, int]) -> str:
    return f"{size_yx[0]} x {size_yx[1]}"


def _index_rows(cases: Mapping[str, _PairedCase]) -> dict[str, list[int]]:
    """Find the place of each case in arrays of all cases. Raises WrongUsage if several arrays disagree."""
    indices: dict[str, list[int]] = {}
    for name, case in cases.items():
        known = {side.index for side in (case.reference, *case.predictions.values()) if side.index is not None}
        if len(known) > 1:
            raise WrongUsage(fault("nothing-to-compare", quote(name), got="arrays with images in another order"))
        if known:
            indices[name] = [*known]
    return indices


def _place_files(
    side: Source, plan: ClassNames, cases: Mapping[str, str], prefix: str, ignore: Sequence[str] = ()
) -> tuple[dict[str, Any], PlacedFiles]:
    """The keys of the rules of a side, and its files under the names of their cases.

    cases   the name of each case on this side, by its name in the rules
    prefix  of names: "reference/", or ""
    ignore  names of unscored classes; other numbers are labels
    """
    keys = keys_of_side(side, plan, f"{prefix}{{case}}{side.suffix}", ignore)
    places: dict[str, str] = {}
    called: dict[str, str] = {}

    def place(name: str, path: Path, own_name: str) -> None:
        places[prefix + name] = str(path.absolute())
        called[prefix + name] = str(side.path if side.path.name == own_name else side.path / own_name)

    if side.has_class_files:
        keys["files"] = f"{prefix}{{case}}/{{class}}{side.suffix}"
    class_file = None if side.is_shared else side.class_file
    if class_file is not None:
        is_named = not _is_nameless(plan) and class_file.class_key == "class_table"
        class_file = class_file if is_named or needs_classes(side, plan, ignore) else None
    if class_file is not None:
        keys[class_file.class_key] = f"{prefix}{{case}}{class_file.class_ending}"
    if side.is_shared:
        (file, *_) = side.files()
        keys["files"] = f"{prefix}all{side.suffix}"
        place(f"all{side.suffix}", file.path, file.name)
        if other := {case: own for case, own in cases.items() if own != case and side.cases[own].index is None}:
            keys["case_key"] = other
        if skipped := [one.called for name, one in side.cases.items() if one.called and name not in cases.values()]:
            keys["skip_cases"] = tuple(skipped)
    for case, name in cases.items() if not side.is_shared else ():
        for file in side.cases[name].files:
            target = f"{case}/{_planned_name(plan, file.of_class)}" if file.of_class else case
            place(f"{target}{file.suffix}", file.path, file.name)
            if class_file is not None and file.classes is not None and not file.of_class:
                own_name = str(PurePosixPath(file.name).with_name(file.classes.name))
                place(f"{target}{file.class_ending}", file.classes, own_name)
    labels = [int(name) for name in ignore if is_number(name) and name not in side.classes]
    if not prefix:  # where a number above 0 is the id of a nucleus
        labels = [label for label in labels if label < 0 or covers_half(side, label)]
    if labels and side.format == "label_image":
        keys["not_annotated"] = labels
    return keys, PlacedFiles(side.path, places, LimitRules(), called)


def _planned_name(plan: ClassNames, spelling: str) -> str:
    """The name of the class that is spelt so, or the spelling."""
    folded = spelling.casefold()
    return next((name for name, more in plan if folded in map(str.casefold, (name, *more))), spelling)


def _with_joined_classes(side: Source, plan: ClassNames, workspace: Path, *, is_wanted: bool) -> Source:
    """A side with joined files per class and image, if several of its classes are compared as one.

    Raises WrongUsage for files that cannot be joined, and if nobody wants it and the names are no words for nuclei.
    """
    for image in side.cases.values():
        if len({(file.of_class, file.suffix) for file in image.files}) < len(image.files):
            two = " and ".join(quote(file.name) for file in image.files[:2])
            fix = "Pass the files of one kind, or give each image a name of its own."
            got = f"two files for one image, {two}"
            raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got=got, fix=fix))
    of_class = {file.of_class: _planned_name(plan, file.of_class) for file in side.files() if file.of_class}
    if len({*of_class.values()}) == len(of_class):
        return side
    two = " and ".join(quote(file.name) for file in next(iter(side.cases.values())).files[:2])
    got = f"several files of one class for an image, such as {two}"
    fix = "Convert them to label images ('evaluation convert'), or compare their classes."
    if not is_wanted and not all(map(OF_NUCLEI.search, of_class)):
        got = "a file for each class, but the classes are not on both sides"
        fix = f"If {two} are two label images for one image, name the files of one kind."
        fix += " If they are classes, combine them: --classes none." * (side.format == "label_image")
    elif (joined := join_classes(side, of_class, workspace)) is not None:
        return joined
    raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got=got, fix=fix))


def _is_background_of(name: str, models: Collection[Source], reference: Source) -> bool:
    """Return whether a label is the background of a model; in the reference it is the id of a nucleus, or absent."""
    if not is_number(name) or int(name) < 0 or name in reference.classes or covers_half(reference, int(name)):
        return False
    return any(covers_half(side, int(name)) for side in models)


def covers_half(side: Source, label: int) -> bool:
    """Return whether a label has more than half of the first image of a side, as a background has."""
    array = pixels_of(side.files()[0], as_colours=False) if side.format == "label_image" else None
    return array is not None and bool((array == label).mean() > 0.5)


def is_number(name: str) -> bool:
    """Return whether an unscored name is a number, so that it may be a label."""
    return name.removeprefix("-").isdecimal()
