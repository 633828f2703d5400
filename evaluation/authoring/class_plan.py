"""Which classes are scored, decided from the classes in the files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from evaluation.authoring.sides import NAMELESS, FoundSide
from evaluation.findings import Finding, fault, listed, quote
from evaluation.findings.errors import WrongUsage

IGNORED = "ambiguous"  # the class that the preset does not score
UNNAMED = "description"  # ImageScope's name of a class that was given none, as in MoNuSeg's files
UNUSED_NUMBER = 30_000
Plan = list[tuple[str, list[str]]]  # names of the classes, and other spellings


def plan_classes(
    reference: FoundSide, models: Mapping[str, FoundSide], given: str | None
) -> tuple[Plan, list[Finding]]:
    """The classes that are scored, and what is worth knowing about those that only one side has."""
    everything = distinct(name for side in (reference, *models.values()) for name in side.classes)
    ignored = {IGNORED} if has_ignored(reference) else set()
    one: Plan = [(NAMELESS, [*(name for name in everything if name.casefold() not in {NAMELESS, *ignored}), ""])]
    if is_none(given):
        return one, []
    if given is not None:
        plan = parsed_classes(given)
        if any(word.casefold() in ignored for name, aliases in plan for word in (name, *aliases)):
            raise WrongUsage(fault("nothing-to-compare", "--classes", wording="not-scored", what=IGNORED))
        return plan, []
    if {name.casefold() for name in everything} == {UNNAMED}:
        return one, []
    of_reference = [name for name in distinct(reference.classes) if name.casefold() not in ignored]
    of_models = {
        model: [name for name in side.classes if name.casefold() not in ignored] for model, side in models.items()
    }
    silent = [model for model, names in of_models.items() if not names]
    if not of_reference and len(silent) == len(models):
        return one, []
    if not of_reference or silent:
        who, others = (
            ("the reference", "the prediction")
            if not of_reference
            else (f"prediction {quote(silent[0])}", "the reference")
        )
        return one, [
            fault(
                "classes-differ", who, wording="left-out", got=f"{others} tells classes, this side does not", advice=""
            )
        ]
    known = {name.casefold() for name in of_reference}
    findings: list[Finding] = []
    names = list(of_reference)
    for model, of_model in of_models.items():
        own = [name for name in of_model if name.casefold() not in known]
        where = f"prediction {quote(model)}"
        if len(own) == len(of_model) and len(known) + len(own) > 2:
            example = ",".join(f"{a}={b}" for a, b in zip(of_reference, own, strict=False))
            what = (
                f"its classes are {listed(own, last='and')}, those of the reference {listed(of_reference, last='and')}"
            )
            advice = f" Say which are the same, for example: --classes '{example}'."
            return one, [fault("classes-differ", where, wording="left-out", got=what, advice=advice)]
        if len(own) == len(of_model):
            return one, []
        for name in own:
            what = f"the class {quote(name)} is not in the reference"
            findings.append(
                fault("classes-differ", where, got=what, known=of_reference, example=f"{of_reference[0]}={name}")
            )
        names += [name for name in own if name.casefold() not in {n.casefold() for n in names}]
    return [named_class(name) for name in names], findings


def is_none(given: str | None) -> bool:
    """Whether the option ``--classes`` says that classes are left out."""
    return given is not None and given.strip() == "none"


def distinct(names: Iterable[str]) -> list[str]:
    """Names as they are written first; those that differ in capitals only are one.

    >>> distinct(["Tumour", "stroma", "tumour"])
    ['Tumour', 'stroma']
    """
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.casefold(), name)
    return list(found.values())


def has_ignored(side: FoundSide) -> bool:
    return any(name.casefold() == IGNORED for name in side.classes)


def is_nameless(plan: Plan) -> bool:
    """Whether all nuclei are of one class, whatever their files call them."""
    return "" in plan[0][1]


def needs_classes(side: FoundSide, plan: Plan, *, is_reference: bool) -> bool:
    """Whether the class maps or tables of a side are used.

    If all nuclei are of one class, only tables of the reference are, for the nuclei that it calls ambiguous.
    """
    file = side.class_file
    is_table = file is not None and file.class_key == "class_table"
    return len(plan) > 1 or (is_reference and is_table and has_ignored(side))


def named_class(name: str) -> tuple[str, list[str]]:
    """A class with a name that challenge.toml may have, and its own spelling."""
    plain = re.sub(r"[^A-Za-z0-9 _+-]", "_", name)[:64]
    plain = plain if re.match("[A-Za-z0-9]", plain) else f"class {plain}"[:64]
    return plain, [] if plain == name else [name]


def parsed_classes(given: str) -> Plan:
    """``tumour=neoplastic=1,stroma`` as names with other spellings. Raises ValueError for a spelling of two classes.

    >>> parsed_classes("tumour=neoplastic=1, stroma")
    [('tumour', ['neoplastic', '1']), ('stroma', [])]
    """
    plan = []
    for part in filter(str.strip, given.split(",")):
        name, *aliases = (word.strip() for word in part.split("="))
        plain, own = named_class(name)
        plan.append((plain, distinct([plain, *own, *filter(None, aliases)])[1:]))
    spellings = [word for name, aliases in plan for word in (name, *aliases)]
    twice = next((word for n, word in enumerate(spellings) if len(distinct(spellings[: n + 1])) <= n), None)
    if not plan or twice is not None:
        got = f"the classes {given!r}" + (f" with {twice!r} twice" if twice is not None else "")
        raise ValueError(f"{got}; expected names, each once, such as 'tumour=1,stroma=2'")
    return plan


def class_values(side: FoundSide, plan: Plan) -> dict[str, Any]:
    """The numbers that stand for each class in the files of a side; 0 is the background, but in PanNuke's channels."""
    lowest = 0 if side.format == "pannuke_masks" else 1
    values: dict[str, Any] = {}
    for index, (name, aliases) in enumerate(plan):
        spellings = [name, *aliases]
        known = sorted(
            {side.numbers[s] for s in spellings if s in side.numbers}
            | {int(s) for s in spellings if s.isdecimal() and int(s) >= lowest}
        )
        values[name] = known if len(known) > 1 else known[0] if known else UNUSED_NUMBER + index
    return values
