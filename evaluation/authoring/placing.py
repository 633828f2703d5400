"""Copies or links the files of a side to the paths that the rules of a challenge expect."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.authoring.class_plan import Plan, class_values, is_nameless, needs_classes
from evaluation.authoring.sides import FoundFile, FoundSide
from evaluation.findings import fault, quote
from evaluation.findings.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Placing:
    """A folder for the files of a challenge, and whether they are copied or linked.

    placed   files that were put before: a second link to one would look like a submitted reference
    """

    folder: Path
    copy: bool
    placed: set[Path] = field(default_factory=set)

    def put(self, source: Path, name: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not self.copy and source.resolve() not in self.placed:
            self.placed.add(source.resolve())
            try:
                os.link(source.resolve(), target)
                return
            except OSError:  # another file system
                pass
        shutil.copyfile(source, target)


def stage(
    side: FoundSide,
    plan: Plan,
    cases: Mapping[str, str],
    below: str,
    placing: Placing,
    ignore: Sequence[str] = (),
) -> dict[str, Any]:
    """Put the files of a side below a folder, named like their cases; gives the keys of their rules.

    cases   the name of each case on this side, by its name in the challenge
    ignore  names of classes that are not scored; numbers that are none are labels
    """
    prefix = "reference/" if below == "reference" else ""
    keys = {"format": side.format, "files": f"{prefix}{{case}}{side.suffix}", **side.keys}
    with_classes = side.class_file
    if side.is_shared:
        keys["files"] = f"{prefix}all{side.suffix}"
        file = next(iter(side.cases.values())).files[0]
        placing.put(file.path, f"{below}/all{side.suffix}")
        other = {case: own for case, own in cases.items() if own != case and side.cases[own].index is None}
        keys |= {"case_key": other} if other else {}
        left_over = tuple(
            case.called for name, case in side.cases.items() if case.called and name not in cases.values()
        )
        keys |= {"skip_cases": left_over} if left_over else {}
    elif side.has_class_files:
        if len(plan) == 1:
            got = "a file for each class, but the classes are not on both sides"
            raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got=got))
        keys["files"] = f"{prefix}{{case}}/{{class}}{side.suffix}"
    is_named = not is_nameless(plan) and with_classes is not None and with_classes.class_key == "class_table"
    if not is_named and not needs_classes(side, plan, ignore):
        with_classes = None
    for case, name in cases.items():
        if not side.is_shared:
            for file in side.cases[name].files:
                file = file if with_classes else replace(file, classes=None)
                put_file(file, case, plan, below, placing)
    if with_classes is not None:
        keys[with_classes.class_key] = f"{prefix}{{case}}{with_classes.class_ending}"
    needs_numbers = side.format in ("conic_array", "pannuke_masks")
    numbered = [(name, list[str]()) for name in ignore if name in side.numbers]
    if needs_numbers or ((len(plan) > 1 or numbered) and side.numbers):
        keys["class_values"] = class_values(side, [*plan, *numbered])
    labels = [name for name in ignore if is_number(name) and name not in side.classes]
    if below != "reference":  # where a number above 0 is the id of a nucleus
        labels = [name for name in labels if int(name) < 0]
    if labels and side.format == "label_image":
        keys["not_annotated"] = [int(name) for name in labels]
    return keys


def is_number(name: str) -> bool:
    """Whether what is not scored may be a label of an image."""
    return name.removeprefix("-").isdecimal()


def put_file(file: FoundFile, case: str, plan: Plan, below: str, placing: Placing) -> None:
    if file.of_class:
        own = file.of_class.casefold()
        name = next(
            (n for n, aliases in plan if own in {n.casefold(), *(a.casefold() for a in aliases)}), file.of_class
        )
        placing.put(file.path, f"{below}/{case}/{name}{file.suffix}")
        return
    placing.put(file.path, f"{below}/{case}{file.suffix}")
    if file.classes is not None:
        placing.put(file.classes, f"{below}/{case}{file.class_ending}")
