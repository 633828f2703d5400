"""The challenge as a whole: its rules, its cases and its hash."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from evaluation.challenge.documents import (
    CASES_FILE,
    CHALLENGE_FILE,
    parse_toml,
    read_cases,
    read_challenge_text,
    read_rules,
    resolve_preset,
)
from evaluation.challenge.formats import (
    FormatRules,
    RuleFault,
    Rules,
    contradiction,
    dotted,
    faults_of,
    keys_of_formats,
)
from evaluation.challenge.matching_rules import MATCHING_RULES, MatchingRules
from evaluation.challenge.rules import (
    IN_EVERY_FORMAT,
    MEASURING,
    AggregationRules,
    AuditRules,
    ClassRules,
    ConfidenceRules,
    LimitRules,
    MetricRules,
    PublishRules,
    RankingRules,
    ReferenceRules,
    SubmissionRules,
)
from evaluation.findings import Finding, counted, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.metrics import unknown_metrics
from nuclei_metrics.model import Case, ClassTable, MetricChoice, um_to_px

MAX_CLASSES = 1000
NO_SCORE: Mapping[str, Any] = {  # what changes no score; and the ranking
    "limits": True,
    "audit": True,
    "publish": True,
    "submission": {"case_names"},
    "classes": {"__all__": {"colour"}},
}


class Challenge(Rules):
    """A resolved challenge: all rules written out, and the cases.

    >>> challenge = Challenge.from_preset("monusac2020", name="example", cases=[Case("a", "P1", 100, 120)])
    >>> challenge.class_names
    ('Epithelial', 'Lymphocyte', 'Neutrophil', 'Macrophage')
    >>> challenge.matching.rules[0].rule
    'iou_above'
    """

    format_version: Literal[1]
    name: Annotated[str, Field(min_length=1, max_length=200)]
    version: Annotated[str, Field(min_length=1, max_length=64)] = "1"
    classes: Annotated[tuple[ClassRules, ...], Field(min_length=1, max_length=MAX_CLASSES)]
    reference: Annotated[ReferenceRules, IN_EVERY_FORMAT["reference"]]
    submission: Annotated[SubmissionRules, IN_EVERY_FORMAT["submission"]]
    matching: MatchingRules
    metrics: MetricRules
    aggregation: AggregationRules
    confidence: ConfidenceRules | None = None
    ranking: RankingRules | None = None
    publish: PublishRules = PublishRules.model_construct()
    audit: AuditRules = AuditRules.model_construct()
    limits: LimitRules = LimitRules.model_construct()
    cases: tuple[Case, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def match_nothing(cls, document: Any) -> Any:
        """Matching rules; empty only if a side contains numbers of nuclei."""
        if isinstance(document, Mapping) and document.get("matching", {}) in ({}, {"rules": ()}):
            sides = [document.get(side) for side in ("reference", "submission")]
            if any(isinstance(rules, Mapping) and rules.get("format") == "counts_csv" for rules in sides):
                return {**document, "matching": MatchingRules.model_construct(rules=())}
        return document

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        spellings = [s.casefold() for rules in self.classes for s in {rules.name, *rules.aliases}]
        spellings += [name.casefold() for name in self.reference.ignore.classes]
        twice = sorted({spelling for spelling in spellings if spellings.count(spelling) > 1})
        if twice:
            raise contradiction(
                "classes",
                f"{twice[0]!r} is the name of two classes",
                "names and aliases that differ from each other and from reference.ignore.classes, also when upper "
                "and lower case are the same",
            )
        self.check_sides()
        self.check_counts()
        self.check_metrics()
        if self.publish.metrics == "ranked" and not self.ranked_paths:
            raise contradiction("publish.metrics", "'ranked' without a column in [ranking]", "'scores', or a ranking")
        return self

    def check_sides(self) -> None:
        """Refuse contradictions between the rules of a side and the classes or cases."""
        for side, rules in (("reference", self.reference), ("submission", self.submission)):
            extra = set(self.reference.ignore.classes)
            for key in ("class_values", "colours"):
                values = rules.value(key)
                if values is not None and not set(self.class_names) <= set(values) <= set(self.class_names) | extra:
                    expected = f"one value per class: {listed(self.class_names)}"
                    raise contradiction(f"{side}.{key}", f"values for {listed(sorted(values))}", expected)
            if left_out := sorted(name for name in rules.skip_classes if name.casefold() in self.class_ids()):
                got = f"{listed(left_out)}, which the challenge asks for"
                expected = "names that are not classes, aliases or ignore classes"
                raise contradiction(f"{side}.skip_classes", got, expected)
            if rules.value("not_annotated") and not self.reference.ignore.classes:
                got = "labels, but reference.ignore.classes is empty"
                raise contradiction(f"{side}.not_annotated", got, "a name there for unannotated regions")
            if len(self.classes) > 1 and not rules.tells_class:
                got = "no {class} and no class_map although there are several classes"
                fix = "Write {class} in 'files', or add class_map or class_table. 'init' needs a sample with classes."
                raise contradiction(f"{side}.files", got, "a key that defines the class of a nucleus", fix)
            for key, is_used, column in (
                ("units", rules.value("units") not in (None, "px"), "spacing_um"),
                ("format", rules.needs_index, "index"),
            ):
                if is_used:
                    self.check_column(f"{side}.{key}", repr(getattr(rules, key)), column)
            too_large = [case.name for case in self.cases if case.height * case.width > self.limits.pixels_per_image]
            if rules.dense and too_large:
                got = f"{self.limits.pixels_per_image:,}, but case {quote(too_large[0])} has more"
                raise contradiction("limits.pixels_per_image", got, f"a limit that the images of {CASES_FILE} keep")
        for index, rule in enumerate(self.matching.rules):
            if (self.reference.are_points or self.submission.are_points) and rule.needs_pixels:
                fitting = listed(name for name, kind in MATCHING_RULES.items() if kind.takes_points)
                expected = f"a rule that needs no pixels, {fitting}, with a radius"
                raise contradiction(f"matching.rules.{index}.rule", f"{rule.rule!r} for points", expected)
        if self.reference.are_points and self.reference.ignore.classes:
            expected = "no such key, since points mark no region; to ignore annotations, use skip_classes"
            raise contradiction("reference.ignore.classes", "given for points", expected)

    def check_column(self, key: str, setting: str, column: str) -> None:
        """Refuse a rule that needs a column of cases.csv which is empty for some cases."""
        if lacking := sum(getattr(case, column) is None for case in self.cases):
            raise RuleFault(
                fault("contradictory-rules", key, wording="empty-column", setting=setting, column=column, cases=lacking)
            )

    def check_counts(self) -> None:
        """Refuse everything except counting if a side contains numbers of nuclei."""
        if not self.are_counts:
            return
        side = "reference" if self.reference.are_counts else "submission"
        beside = f"given although {side}.format is 'counts_csv'"
        if self.matching.rules:
            raise contradiction("matching.rules", beside, "no matching, since numbers cannot be paired")
        if self.metrics.family_names != ("counting",):
            expected = "'counting' alone, since only numbers of nuclei can be compared"
            raise contradiction("metrics.families", f"{listed(self.metrics.families, last='and')}, {beside}", expected)
        for key, is_given in (
            ("ignore.classes", bool(self.reference.ignore.classes)),
            ("overlap", self.reference.overlap == "ignore"),
        ):
            if is_given:
                expected = "no such key, since numbers of nuclei have no positions"
                raise contradiction(f"reference.{key}", beside, expected)

    def check_metrics(self) -> None:
        """Refuse contradictions between the metrics and the classes or cases."""
        known = {name.casefold() for name in self.class_names}
        for grouping, groups in self.metrics.class_groups.items():
            members = [name.casefold() for names in groups.values() for name in names]
            if len(set(members)) < len(members) or not set(members) <= known:
                expected = f"each of {listed(self.class_names)} once at the most"
                raise contradiction(f"metrics.class_groups.{grouping}", listed(sorted(members), 20), expected)
        for name, metrics in unknown_metrics(self.metric_choice()).items():
            where, wording = "metrics.families", "unknown-metric"
            family, some = name.partition(".")[0], list(metrics)[:3]
            raise RuleFault(
                fault("invalid-rule", where, wording=wording, name=name, known=metrics, family=family, examples=some)
            )
        needs = {
            f"matching.rules.{index}.radius_um": rule.needs_spacing for index, rule in enumerate(self.matching.rules)
        }
        needs |= {f"metrics.measures: {name}": name.endswith("_um") for name in self.metrics.measures}
        needs["metrics.tolerance_um"] = self.metrics.tolerance_um is not None
        for key, is_used in needs.items():
            if is_used:
                self.check_column(key, "given", "spacing_um")
        if self.metrics.false_positives and self.metrics.per == "mm2":
            lacking = [case.name for case in self.cases if self.area_mm2(case) is None]
            if lacking:
                got = f"'mm2', but area_mm2 and spacing_um are empty for {counted(len(lacking), 'case')}"
                raise contradiction("metrics.per", got, f"one of them for every case in {CASES_FILE}")

    def area_mm2(self, case: Case) -> float | None:
        """The annotated area of a case, from cases.csv or the image size; None if unknown."""
        if case.area_mm2 is not None or case.spacing_um is None:
            return case.area_mm2
        return case.height * case.width * (case.spacing_um / 1000) ** 2

    def tolerance_px(self, case: Case) -> float | None:
        """The tolerance of surface Dice and boundary IoU in an image; None if missing."""
        rules = self.metrics
        if rules.tolerance_um is None or case.spacing_um is None:
            return rules.tolerance_px
        return float(um_to_px(rules.tolerance_um, case.spacing_um))

    def metric_choice(self) -> MetricChoice:
        """The measures, as arguments of the engine."""
        rules, ids = self.metrics, self.class_ids()
        as_written = fields(MetricChoice)
        choice: dict[str, Any] = {
            key.name: getattr(rules, key.name) for key in as_written if key.name in MetricRules.model_fields
        }
        return MetricChoice(
            **{
                **choice,
                "families": rules.family_names,
                "metrics": tuple(name for name in rules.families if "." in name),
                "class_names": self.class_names,
                "measures": rules.measures if MEASURING & set(rules.family_names) else ("iou",),
                "class_groups": {
                    grouping: {group: tuple(ids[name.casefold()] for name in names) for group, names in groups.items()}
                    for grouping, groups in rules.class_groups.items()
                },
                "sizes_px": rules.sizes_px,
                "class_present": self.aggregation.class_present,
                "guessed": sum(not of_class.only_predicted for of_class in self.classes),
            }
        )

    @property
    def ranked_paths(self) -> tuple[str, ...]:
        """The paths of metrics.json that decide the rank: columns, then minimum scores."""
        columns, floors = (self.ranking.columns, self.ranking.require) if self.ranking else ((), ())
        return (*(column.path for column in columns), *(floor.path for floor in floors))

    @property
    def are_counts(self) -> bool:
        """Return whether nuclei are counted and never paired, since one side contains only numbers."""
        return self.reference.are_counts or self.submission.are_counts

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the scored classes; class id c is ``class_names[c - 1]``."""
        return tuple(rules.name for rules in self.classes)

    def class_spellings(self) -> tuple[str, ...]:
        """Names and aliases of all classes as written, ignore classes last, without empty names."""
        scored = (spelling for rules in self.classes for spelling in (rules.name, *rules.aliases) if spelling)
        return (*scored, *self.reference.ignore.classes)

    def class_table(self, rules: FormatRules) -> ClassTable:
        """How the files of a side name the classes."""
        ids = self.class_ids()
        numbers = rules.value("class_values") or {}
        values = {number: ids[name.casefold()] for name, of_class in numbers.items() for number in of_class}
        return ClassTable(self.class_names, ids, values, frozenset(name.casefold() for name in rules.skip_classes))

    def class_ids(self) -> dict[str, int]:
        """Class id by case-folded name or alias: 1…C for scored classes, -1…-I for ignore classes."""
        ids = {
            spelling.casefold(): index
            for index, rules in enumerate(self.classes, start=1)
            for spelling in (rules.name, *rules.aliases)
        }
        ids.update({name.casefold(): -index for index, name in enumerate(self.reference.ignore.classes, start=1)})
        return ids

    @property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of resolved rules and cases: equal hashes, equal scoring.

        Excludes rules that change no score: limits, rankings, audits, publishing, class colours and the secrecy of case
        names. Also excludes keys with their default value, so that a new key does not change old hashes; a default must
        never change.
        """
        return hash_of(self.model_dump(mode="json", exclude_defaults=True, exclude={**NO_SCORE, "ranking": True}))

    @property
    def ranking_hash(self) -> str:
        """SHA-256 over [ranking] and [audit]: equal hashes, equal ranking rules; computed like ``hash``."""
        return hash_of(self.model_dump(mode="json", exclude_defaults=True, include={"ranking", "audit"}))

    @classmethod
    def load(cls, folder: Path | str) -> Challenge:
        """Read challenge.toml and cases.csv of a folder. Raises ChallengeBroken with all faults."""
        path, cases_path = Path(folder) / CHALLENGE_FILE, Path(folder) / CASES_FILE
        try:
            rules = read_rules(path)
            cases = read_cases(read_challenge_text(cases_path))
            try:
                return cls.build({**rules, "cases": cases})
            except ChallengeBroken as broken:
                written = parse_toml(read_challenge_text(path))
                raise ChallengeBroken(*(of_preset(problem, written) for problem in broken.findings)) from None
        except RecursionError:
            raise ChallengeBroken(fault("invalid-toml", CHALLENGE_FILE, wording="too-deep")) from None

    @classmethod
    def from_preset(cls, preset: str, *, name: str, cases: Iterable[Case] = (), **rules: Any) -> Challenge:
        """A challenge from a preset, without files; ``rules`` are tables of challenge.toml that win over the preset."""
        document = {"format_version": 1, "name": name, "preset": preset, **rules}
        return cls.build({**resolve_preset(document), "cases": tuple(cases)})

    @classmethod
    def build(cls, document: Mapping[str, Any]) -> Challenge:
        """Validate resolved rules. Raises ChallengeBroken with one finding per fault, each naming its key."""
        try:
            return cls.model_validate(tuples_for_lists(document))
        except ValidationError as error:
            faults = error.errors()
            if len(faults) > 1:  # a list whose only item is at fault is too short, too
                faults = [problem for problem in faults if problem["type"] != "too_short"]
            raise ChallengeBroken(*(finding for problem in faults for finding in _findings_of(problem))) from None


def hash_of(document: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical JSON of a document."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def of_preset(problem: Finding, written: Mapping[str, Any]) -> Finding:
    """The fault, with the name of the preset if its key is there and not in the file of the challenge."""
    place, _, keys = problem.where.partition(": ")
    if place != CHALLENGE_FILE or "preset" not in written:
        return problem
    node: Any = written
    for key in keys.split("."):
        node = node.get(key) if isinstance(node, dict) else node  # lists are not merged
    is_own = node is not None or problem.code == "missing-rule"
    return problem if is_own else replace(problem, where=f"{problem.where}, of the preset {quote(written['preset'])}")


def tuples_for_lists(value: Any) -> Any:
    """Convert the lists of TOML to the tuples of frozen rules, for strict validation. None is the same as no key."""
    if isinstance(value, Mapping):
        return {key: tuples_for_lists(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return tuple(tuples_for_lists(item) for item in value)
    return value


def _findings_of(problem: Any) -> list[Finding]:
    """One pydantic error as findings that name the key as it is in challenge.toml."""
    location, table, (key, kinds) = _table_at(problem["loc"])
    where = f"{CHALLENGE_FILE}: {dotted(*location)}"
    match problem["type"]:
        case "extra_forbidden" if location[-1] in keys_of_formats() and "format" in table.model_fields:
            (format,) = get_args(table.model_fields["format"].annotation)
            return [fault("contradictory-rules", where, wording="only-own-keys", format=format, shape="")]
        case "extra_forbidden":
            known = sorted((table.model_fields.keys() | ({"preset"} if table is Challenge else set())) - {"cases"})
            return [fault("unknown-key", where, wording="rule", name=str(location[-1]), known=known)]
        case "union_tag_not_found":
            return [fault("missing-rule", f"{where}.{key}")]
        case "union_tag_invalid":
            tag, known, what = problem["ctx"]["tag"], list(kinds), "matching rules"
            return [fault("invalid-rule", f"{where}.{key}", wording="unknown-table", name=tag, known=known, what=what)]
        case "model_type" | "model_attributes_type":
            return [fault("invalid-rule", where, got=quote(problem.get("input")), expected="a table")]
    return [replace(finding, where=f"{CHALLENGE_FILE}: {finding.where}") for finding in faults_of(problem, location)]


def _table_at(loc: Sequence[str | int]) -> tuple[list[str | int], type[Rules], tuple[str, Mapping[str, type[Rules]]]]:
    """The keys of a value in challenge.toml, without keys added by pydantic, and the model of its table.

    Last, the key that chooses among several models, and these, if the value is such a table.
    """
    location: list[str | int] = []
    table: type[Rules] = Challenge
    key, kinds = "", dict[str, type[Rules]]()
    for part in loc:
        if part in kinds:
            table, key, kinds = kinds[str(part)], "", {}
            continue
        location.append(part)
        if isinstance(part, str):
            if table is Challenge and part in IN_EVERY_FORMAT:
                models: list[type[Rules]] = [*IN_EVERY_FORMAT[part].models.values()]
            else:
                models = list(_models_in(table.model_fields[part].annotation)) if part in table.model_fields else []
            key = next((key for key in ("format", "rule") if models and key in models[0].model_fields), "")
            kinds = {get_args(model.model_fields[key].annotation)[0]: model for model in models} if key else {}
            table = models[0] if models and not key else table
    return location, table, (key, kinds)


def _models_in(annotation: Any) -> Iterator[type[Rules]]:
    """The pydantic models that a value may be an instance of."""
    if isinstance(annotation, type) and issubclass(annotation, Rules):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


# --- the pages of matching rules and of keys, for ``evaluation explain WORD`` -----------------------------------------


def rule_names() -> list[str]:
    """All matching rules, and all keys of challenge.toml."""
    return [*MATCHING_RULES, *dict.fromkeys(key for _, table in tables() for key in table.model_fields)]


def explain_rule(word: str) -> str:
    """The page of a matching rule, or the meaning of a key of challenge.toml in each table; empty if missing.

    >>> print(explain_rule("COVERAGE").splitlines()[0])
    # metrics.coverage, a key of challenge.toml
    """
    wanted = word.strip("[]").casefold().rpartition(".")[2].replace(" ", "_").replace("-", "_")
    parts = []
    if wanted in MATCHING_RULES:
        from nuclei_metrics.matching import rules  # only now: scipy takes its time

        text = cleandoc(getattr(rules, f"match_{wanted}").__doc__ or "").partition("\n\n>>>")[0].replace("``", "`")
        parts.append(f"# {wanted}, a matching rule\n\n{text}\n\nThis rule: docs/matching.md#{wanted}")
    keys: dict[str, str] = {}
    for name, table in tables():
        path = ".".join(filter(None, (name, wanted)))
        if wanted in table.model_fields and ("." not in word or word.casefold() == path):
            keys[path] = keys.get(path) or entries(table).get(wanted, "")
    for path, entry in keys.items():
        where = f"This table: docs/challenge.md#{path.partition('.')[0] if '.' in path else 'rules'}"
        parts.append("\n\n".join(filter(None, (f"# {path}, a key of challenge.toml", entry, where))))
    return "\n\n".join(parts)


def tables() -> Iterator[tuple[str, type[Rules]]]:
    """The tables of challenge.toml by their names, the whole file, "", first; then their content."""
    waiting: list[tuple[str, type[Rules]]] = [("", Challenge)]
    while waiting:
        name, table = waiting.pop(0)
        yield name, table
        for key, field in table.model_fields.items():
            waiting += [(".".join(filter(None, (name, key))), kind) for kind in _models_in(field.annotation)]


def entries(table: type[Rules]) -> Mapping[str, str]:
    """The text for each key in the docstring of a table: ``key, key   text``, with indented continuation lines."""
    texts: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", cleandoc(table.__doc__ or "")):
        names, _, text = block.partition(" ") if "," not in block.partition("  ")[0] else block.partition("  ")
        for name in re.split(r",\s*", names):
            if name in table.model_fields and text.startswith(" "):
                texts[name] = " ".join(text.split()).replace("``", "`")
    return texts
