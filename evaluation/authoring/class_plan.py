"""Which classes are scored, decided from the classes in the files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evaluation.authoring.sides import NAMELESS, FoundSide
from evaluation.findings import Finding, listed, quote
from evaluation.findings.comparison import ClassesDiffer, ClassesLeftOut

IGNORED = "ambiguous"  # the class that the preset does not score
UNUSED_NUMBER = 30_000
Plan = list[tuple[str, list[str]]]  # names of the classes, and other spellings


def plan_classes(
    reference: FoundSide, models: Mapping[str, FoundSide], given: str | None
) -> tuple[Plan, list[Finding]]:
    """The classes that are scored, and what is worth knowing about those that only one side has."""
    everything = dict.fromkeys(name for side in (reference, *models.values()) for name in side.classes)
    one: Plan = [(NAMELESS, [*(name for name in everything if name.casefold() != NAMELESS), ""])]
    if given is not None:
        return (one, []) if given.strip() == "none" else (parsed_classes(given), [])
    of_reference = [name for name in reference.classes if name.casefold() != IGNORED]
    silent = [model for model, side in models.items() if not side.classes]
    if not everything:
        return one, []
    if not of_reference or silent:
        who, others = (
            ("the reference", "the prediction")
            if not of_reference
            else (f"prediction {quote(silent[0])}", "the reference")
        )
        return one, [ClassesLeftOut(f"{others} tells classes, this side does not", "").at(who)]
    known = {name.casefold() for name in of_reference}
    findings: list[Finding] = []
    names = list(of_reference)
    for model, side in models.items():
        own = [name for name in side.classes if name.casefold() not in {*known, IGNORED}]
        where = f"prediction {quote(model)}"
        if len(own) == len(side.classes) and len(known) + len(own) > 2:
            example = ",".join(f"{a}={b}" for a, b in zip(of_reference, own, strict=False))
            what = (
                f"its classes are {listed(own, last='and')}, those of the reference {listed(of_reference, last='and')}"
            )
            advice = f" Say which are the same, for example: --classes '{example}'."
            return one, [ClassesLeftOut(what, advice).at(where)]
        if len(own) == len(side.classes):
            return one, []
        for name in own:
            what = f"the class {quote(name)} is not in the reference"
            findings.append(ClassesDiffer(what, of_reference, f"{of_reference[0]}={name}").at(where))
        names += [name for name in own if name.casefold() not in {n.casefold() for n in names}]
    return [named_class(name) for name in names], findings


def named_class(name: str) -> tuple[str, list[str]]:
    """A class with a name that challenge.toml may have, and its own spelling."""
    plain = re.sub(r"[^A-Za-z0-9 _+-]", "_", name)[:64]
    plain = plain if re.match("[A-Za-z0-9]", plain) else f"class {plain}"[:64]
    return plain, [] if plain == name else [name]


def parsed_classes(given: str) -> Plan:
    """``tumour=neoplastic=1,stroma`` as names with other spellings.

    >>> parsed_classes("tumour=neoplastic=1, stroma")
    [('tumour', ['neoplastic', '1']), ('stroma', [])]
    """
    plan = []
    for part in given.split(","):
        name, *aliases = (word.strip() for word in part.split("="))
        plain, own = named_class(name)
        plan.append((plain, [*own, *filter(None, aliases)]))
    return plan


def class_values(side: FoundSide, plan: Plan) -> dict[str, Any]:
    """The numbers that stand for each class in the files of a side."""
    values: dict[str, Any] = {}
    for index, (name, aliases) in enumerate(plan):
        spellings = [name, *aliases]
        known = sorted(
            {side.numbers[s] for s in spellings if s in side.numbers} | {int(s) for s in spellings if s.isdecimal()}
        )
        values[name] = known if len(known) > 1 else known[0] if known else UNUSED_NUMBER + index
    return values
