"""Which classes are scored, decided from the classes in the files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.authoring.source import ARRAYS, NAMELESS, Source
from evaluation.findings import Finding, fault, listed, quote
from evaluation.findings.errors import WrongUsage

IGNORED = "ambiguous"  # the class that the preset does not score
UNNAMED = "description"  # ImageScope's name of a class that was given none, as in MoNuSeg's files
UNUSED_NUMBER = 30_000
Plan = list[tuple[str, list[str]]]  # names of the classes, and other spellings


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """The classes that are scored, decided by the reference or by ``--classes``, never by the number of models.

    classes      those of the reference, then those that only predictions name (``foreign``)
    one_class    how nuclei are taken as one class, whatever the files say
    without      models whose classes cannot be compared: their nuclei are taken as one class, those of others are not
    findings     what is worth knowing about classes that only one side has
    """

    classes: Plan
    one_class: Plan
    foreign: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def plan_classes(
    reference: Source, models: Mapping[str, Source], option: str | None, ignore: Sequence[str] = ()
) -> ClassPlan:
    """Decide which classes are scored. Raises WrongUsage for a class in ``option`` that the reference does not score.

    ignore  names of classes that are not scored, too
    """
    everything = distinct(name for side in (reference, *models.values()) for name in side.classes)
    ignored = {name.casefold() for name in ignored_classes(reference, ignore)}
    one: Plan = [(NAMELESS, [*(name for name in everything if name.casefold() not in {NAMELESS, *ignored}), ""])]
    if is_none(option):
        return ClassPlan(one, one)
    if option is not None:
        plan = parsed_classes(option)
        words = (word for name, aliases in plan for word in (name, *aliases))
        if (word := next((word for word in words if word.casefold() in ignored), None)) is not None:
            raise WrongUsage(fault("nothing-to-compare", "--classes", wording="not-scored", what=word))
        return ClassPlan(plan, one)
    if {name.casefold() for name in everything} == {UNNAMED}:
        return ClassPlan(one, one)
    reference_names = [name for name in distinct(reference.classes) if name.casefold() not in ignored]
    names_of_models = {
        model: [name for name in side.classes if name.casefold() not in ignored] for model, side in models.items()
    }
    if not reference_names:
        got = "the prediction tells classes, this side does not"
        says = [fault("classes-differ", "the reference", wording="left-out", got=got, advice="")]
        return ClassPlan(one, one, findings=tuple(says if any(names_of_models.values()) else []))
    known = {name.casefold() for name in reference_names}
    own = {model: [name for name in names if name.casefold() not in known] for model, names in names_of_models.items()}
    without = [model for model, names in names_of_models.items() if len(own[model]) == len(names)]
    findings = [
        finding
        for model in without
        if (finding := why_one_class(model, reference_names, own[model], has_place=len(without) == len(models)))
    ]
    if models and len(without) == len(models):
        return ClassPlan(one, one, findings=tuple(findings))
    for model, names in own.items():
        for name in names if model not in without else ():
            got, example = f"the class {quote(name)} is not in the reference", f"{reference_names[0]}={name}"
            where = f"prediction {quote(model)}"
            findings.append(fault("classes-differ", where, got=got, known=reference_names, example=example))
    foreign = distinct(name for model, names in own.items() if model not in without for name in names)
    classes = [named_class(name) for name in [*reference_names, *foreign]]
    foreign = [name for name, _ in classes[len(reference_names) :]]
    return ClassPlan(classes, one, tuple(foreign), tuple(without), tuple(findings))


def why_one_class(model: str, known: Sequence[str], own: Sequence[str], *, has_place: bool) -> Finding | None:
    """Why the nuclei of a model are taken as one class, unless each side has one.

    has_place  it is ranked with the others, since none is compared by classes
    """
    if len(known) == len(own) == 1:
        return None
    where, advice = f"prediction {quote(model)}", ""
    got = "the reference tells classes, this side does not"
    if own:
        example = ",".join(f"{a}={b}" for a, b in zip(known, own, strict=False))
        got = f"its classes are {listed(own, last='and')}, those of the reference {listed(known, last='and')}"
        advice = f" Say which are the same, for example: --classes '{example}'."
    is_ranked = has_place or len(known) == 1
    return fault("classes-differ", where, wording="left-out" if is_ranked else "one-class", got=got, advice=advice)


def is_none(option: str | None) -> bool:
    """Whether the option ``--classes`` says that classes are left out."""
    return option is not None and option.strip() == "none"


def distinct(names: Iterable[str]) -> list[str]:
    """Names as they are written first; those that differ in capitals only are one.

    >>> distinct(["Tumour", "stroma", "tumour"])
    ['Tumour', 'stroma']
    """
    spellings: dict[str, str] = {}
    for name in names:
        spellings.setdefault(name.casefold(), name)
    return list(spellings.values())


def has_ignored(side: Source) -> bool:
    return any(name.casefold() == IGNORED for name in side.classes)


def ignored_classes(reference: Source, ignore: Sequence[str]) -> list[str]:
    """What is not scored of a reference, as its files spell it: the names that are given, and what the preset names."""
    spelt = {name.casefold(): name for name in reference.classes}
    names = [*([IGNORED.capitalize()] if has_ignored(reference) else []), *(spelt.get(n.casefold(), n) for n in ignore)]
    return distinct(names)


def is_nameless(plan: Plan) -> bool:
    """Whether all nuclei are of one class, whatever their files call them."""
    return "" in plan[0][1]


def needs_classes(side: Source, plan: Plan, ignored: Collection[str] = ()) -> bool:
    """Whether the class maps or tables of a side are used.

    If all nuclei are of one class, they are for those that are not scored: tables may call them ambiguous.
    """
    file = side.class_file
    is_table = file is not None and file.class_key == "class_table"
    return len(plan) > 1 or (is_table and has_ignored(side)) or not set(ignored).isdisjoint(side.classes)


def named_class(name: str) -> tuple[str, list[str]]:
    """A class with a name that challenge.toml may have, and its own spelling."""
    plain = re.sub(r"[^A-Za-z0-9 _+-]", "_", name)[:64]
    plain = plain if re.match("[A-Za-z0-9]", plain) else f"class {plain}"[:64]
    return plain, [] if plain == name else [name]


def parsed_classes(option: str) -> Plan:
    """``tumour=neoplastic=1,stroma`` as names with other spellings. Raises ValueError for a spelling of two classes.

    >>> parsed_classes("tumour=neoplastic=1, stroma")
    [('tumour', ['neoplastic', '1']), ('stroma', [])]
    """
    plan = []
    for part in filter(str.strip, option.split(",")):
        name, *aliases = (word.strip() for word in part.split("="))
        plain, own = named_class(name)
        plan.append((plain, distinct([plain, *own, *filter(None, aliases)])[1:]))
    spellings = [word for name, aliases in plan for word in (name, *aliases)]
    twice = next((word for n, word in enumerate(spellings) if len(distinct(spellings[: n + 1])) <= n), None)
    if not plan or twice is not None:
        got = f"the classes {option!r}" + (f" with {twice!r} twice" if twice is not None else "")
        raise ValueError(f"{got}; expected names, each once, such as 'tumour=1,stroma=2'")
    return plan


def keys_of(side: Source, plan: Plan, files: str, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """The keys of the rules of a side whose files lie at ``files``, with the numbers of its classes where it has some.

    ignore  names of classes that are not scored
    """
    numbered = [(name, list[str]()) for name in ignore if name in side.numbers]
    keys = {"format": side.format, "files": files, **side.keys}
    if side.format in ARRAYS or ((len(plan) > 1 or numbered) and side.numbers):
        keys["class_values"] = class_values(side, [*plan, *numbered])
    return keys


def class_values(side: Source, plan: Plan) -> dict[str, Any]:
    """The numbers that stand for each class in the files of a side; 0 is the background, but in PanNuke's channels."""
    lowest = 0 if side.format == "pannuke_masks" else 1
    values: dict[str, Any] = {}
    for index, (name, aliases) in enumerate(plan):
        spellings = [name, *aliases]
        numbers = {side.numbers[word] for word in spellings if word in side.numbers}
        numbers |= {int(word) for word in spellings if word.isdecimal() and int(word) >= lowest}
        known = sorted(numbers)
        values[name] = known if len(known) > 1 else known[0] if known else UNUSED_NUMBER + index
    return values
