"""``init`` in a folder whose reference has another form than the preset: its rules follow from the files there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.authoring.challenge_text import challenge_text, heading_of, tables_above
from evaluation.authoring.class_plan import IGNORED, Plan, class_values, plan_classes
from evaluation.authoring.compare import OF_POINTS, ONE_CLASS, are_points
from evaluation.authoring.found import look_at
from evaluation.authoring.pairing import pair_names
from evaluation.authoring.sides import NAMELESS, FoundFile, FoundSide
from evaluation.challenge import Challenge
from evaluation.challenge.documents import RECOMMENDED, resolve_preset
from evaluation.challenge.formats import FORMATS
from evaluation.findings import Finding, quote
from evaluation.findings.comparison import NothingToCompare
from evaluation.findings.errors import WrongUsage

REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Looked:
    """challenge.toml as a text, what was found in words, findings, and the sizes of cases that a sample tells."""

    text: str
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    sizes: Mapping[str, tuple[int, int]]


def text_by_looking(folder: Path, preset: str, name: str, sample: Path | None, *, in_place: bool) -> Looked:
    """challenge.toml for what lies in ``reference/`` of a folder.

    sample    a submission, whose format becomes that of the submissions; None: they look like the reference
    in_place  the files lie where the preset expects them: only their classes differ

    Raises WrongUsage if nothing there can be read, or if files of one form lie in places of several.
    """
    with tempfile.TemporaryDirectory(prefix="evaluation-init-") as workspace:
        (Path(workspace) / "reference").mkdir()
        (Path(workspace) / "sample").mkdir()
        reference = look_at(folder / REFERENCE, Path(workspace) / "reference")
        found = None if sample is None else look_at(sample, Path(workspace) / "sample")
        plan, findings = plan_classes(reference, {}, None)
        tables = tables_of(reference, found or reference, plan, preset)
        if in_place:
            ignore = {key: value for key, value in tables["reference"].items() if key == "ignore"}
            tables |= {"reference": ignore, "submission": {}}
        document = tables_above(preset, name) | {key: value for key, value in tables.items() if value}
    notes, sizes = [f"Reference {reference.words()}"], dict[str, tuple[int, int]]()
    if found is not None:
        notes.append(f"Submission {found.words()}")
        pairs = pair_names(reference.cases, found.cases).pairs
        sizes = {name: size for name, other in pairs.items() if (size := found.cases[other].size_yx) is not None}
    return Looked(challenge_text(heading_of(preset), document), tuple(notes), (*reference.findings, *findings), sizes)


def has_other_classes(folder: Path, challenge: Challenge) -> bool:
    """Whether the files of a reference name classes that a challenge does not know; numbers stand for any class."""
    try:
        with tempfile.TemporaryDirectory(prefix="evaluation-init-") as workspace:
            found = look_at(folder / REFERENCE, Path(workspace))
    except WrongUsage:
        return False
    known = {*challenge.class_ids(), NAMELESS}
    return not found.numbers and any(name.casefold() not in known for name in found.classes)


def tables_of(reference: FoundSide, submission: FoundSide, plan: Plan, preset: str) -> dict[str, Any]:
    """The tables that differ from the preset."""
    below = resolve_preset({"preset": preset})
    points = are_points(reference) or are_points(submission)
    of_reference = {**keys_of(reference, plan), "files": pattern_of(reference, f"{REFERENCE}/")}
    of_submission = {**keys_of(submission, plan), "files": pattern_of(submission, "")}
    for side, of_side, before in ((reference, of_reference, f"{REFERENCE}/"), (submission, of_submission, "")):
        if side.has_class_maps and len(plan) > 1:
            of_side["class_map"] = class_map_pattern(side, before)
    ignored = [name for name in reference.classes if name.casefold() == IGNORED]
    if below["reference"].get("ignore", {}).get("classes") and not (ignored or points):
        of_reference["ignore"] = {"classes": []}
    colours = {of_class["name"]: of_class.get("colour") for of_class in below["classes"]}
    classes = [
        {"name": name}
        | ({"aliases": aliases} if aliases else {})
        | ({"colour": colour} if (colour := colours.get(name)) else {})
        for name, aliases in plan
    ]
    special: Mapping[str, Any] = {}
    if preset == RECOMMENDED:
        special = OF_POINTS if points else ONE_CLASS if len(plan) == 1 else {}
    for name, table in (("reference", of_reference), ("submission", of_submission)):
        if table["format"] == below[name]["format"]:
            for key in [key for key, value in table.items() if below[name].get(key) == value]:
                del table[key]
    return {"classes": classes, "reference": of_reference, "submission": of_submission, **special}


def keys_of(side: FoundSide, plan: Plan) -> dict[str, Any]:
    keys = {"format": side.format, "files": "", **side.keys}
    is_needed = len(plan) > 1 or side.format in ("conic_array", "pannuke_masks")
    if FORMATS[side.format].model_fields.get("class_values") and side.numbers and is_needed:
        keys["class_values"] = class_values(side, plan)
    return keys


def pattern_of(side: FoundSide, before: str) -> str:
    """The pattern of the files of a side, with {case}, {group} and {class}. Raises WrongUsage if they need several."""
    files = [file for case in side.cases.values() for file in case.files]
    if side.is_shared:
        return before + files[0].name
    has_groups = any(file.group and f"{file.group}/" in file.name for file in files)
    patterns = {pattern_of_file(file, has_groups) for file in files}
    if len(patterns) > 1:
        got = f"files in places that no one pattern describes, such as {' and '.join(map(quote, sorted(patterns)[:2]))}"
        raise WrongUsage(NothingToCompare(got).at(quote(str(side.path), 200)))
    return before + patterns.pop()


def pattern_of_file(file: FoundFile, has_groups: bool) -> str:
    *folders, name = re.sub(r"\.gz$", "", file.name, flags=re.IGNORECASE).split("/")
    fields = {"{class}": file.of_class, "{case}": file.case, "{group}": file.group if has_groups else ""}
    for field, text in fields.items():
        if text and folders and field != "{case}":
            folders = [field if folder == text else folder for folder in folders]
    if file.case in folders:
        folders = ["{case}" if folder == file.case else folder for folder in folders]
    elif name.startswith(file.case):
        name = "{case}" + name[len(file.case) :]
        if file.of_class and name.startswith(f"{{case}}_{file.of_class}"):
            name = "{case}_{class}" + name[len("{case}_" + file.of_class) :]
    return "/".join([*folders, name])


def class_map_pattern(side: FoundSide, before: str) -> str:
    """The pattern of the class maps, which lie beside their label images."""
    file = next(file for case in side.cases.values() for file in case.files if file.class_map)
    assert file.class_map is not None
    pattern = pattern_of(side, before)
    return pattern.rpartition("{case}")[0] + "{case}" + file.class_map.name[len(file.case) :]
