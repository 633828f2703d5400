"""Copies or links the files of a side to the paths that the rules of a challenge expect."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.authoring.class_plan import Plan, is_nameless, keys_of, needs_classes
from evaluation.authoring.source import Source, SourceFile
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
    side: Source, plan: Plan, cases: Mapping[str, str], below: str, placing: Placing, ignore: Sequence[str] = ()
) -> dict[str, Any]:
    """Put the files of a side below a folder, named like their cases; gives the keys of their rules.

    cases   the name of each case on this side, by its name in the challenge
    ignore  names of classes that are not scored; numbers that are none are labels
    """
    prefix = "reference/" if below == "reference" else ""
    keys = keys_of(side, plan, f"{prefix}{{case}}{side.suffix}", ignore)
    if side.is_shared:
        keys["files"] = f"{prefix}all{side.suffix}"
        placing.put(side.files()[0].path, f"{below}/all{side.suffix}")
        if other := {case: own for case, own in cases.items() if own != case and side.cases[own].index is None}:
            keys["case_key"] = other
        skipped = tuple(one.called for name, one in side.cases.items() if one.called and name not in cases.values())
        return keys | ({"skip_cases": skipped} if skipped else {})
    if side.has_class_files:
        if len(plan) == 1:
            got = "a file for each class, but the classes are not on both sides"
            raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), got=got))
        keys["files"] = f"{prefix}{{case}}/{{class}}{side.suffix}"
    class_file = side.class_file
    if class_file is not None:
        is_named = not is_nameless(plan) and class_file.class_key == "class_table"
        class_file = class_file if is_named or needs_classes(side, plan, ignore) else None
    if class_file is not None:
        keys[class_file.class_key] = f"{prefix}{{case}}{class_file.class_ending}"
    for case, name in cases.items():
        for file in side.cases[name].files:
            put_file(file if class_file else replace(file, classes=None), case, plan, below, placing)
    labels = [int(name) for name in ignore if is_number(name) and name not in side.classes]
    if below != "reference":  # where a number above 0 is the id of a nucleus
        labels = [label for label in labels if label < 0]
    if labels and side.format == "label_image":
        keys["not_annotated"] = labels
    return keys


def is_number(name: str) -> bool:
    """Whether what is not scored may be a label of an image."""
    return name.removeprefix("-").isdecimal()


def put_file(file: SourceFile, case: str, plan: Plan, below: str, placing: Placing) -> None:
    if file.of_class:
        own = file.of_class.casefold()
        spelt = (name for name, aliases in plan if own in map(str.casefold, (name, *aliases)))
        placing.put(file.path, f"{below}/{case}/{next(spelt, file.of_class)}{file.suffix}")
        return
    placing.put(file.path, f"{below}/{case}{file.suffix}")
    if file.classes is not None:
        placing.put(file.classes, f"{below}/{case}{file.class_ending}")
