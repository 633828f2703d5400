"""``init`` in a folder whose reference has another form than the preset: its rules follow from the files there."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from evaluation.authoring.challenge_text import challenge_text, heading_of, tables_above
from evaluation.authoring.class_plan import Plan, class_values, has_ignored, needs_classes, plan_classes
from evaluation.authoring.compare import OF_POINTS, ONE_CLASS, are_points
from evaluation.authoring.look import look
from evaluation.authoring.names import pair_names
from evaluation.authoring.sides import NAMELESS, FoundFile, FoundSide
from evaluation.challenge import Challenge
from evaluation.challenge.documents import RECOMMENDED, resolve_preset
from evaluation.challenge.formats import FORMATS
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import WrongUsage
from evaluation.submission.jobs import JOBS_FILE

REFERENCE = "reference"
PLACES = ("files", "class_map", "class_table")
TOLD = ("shape", "tool")  # keys that the content of a file decides


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
    in_place  the files lie where the preset expects them: if their format is the preset's, only their classes differ

    Raises WrongUsage if nothing there can be read, or if files of one form lie in places of several.
    """
    if sample is not None and (sample / JOBS_FILE).is_file():
        raise WrongUsage(
            fault(
                "nothing-to-compare",
                quote(str(sample), 200),
                wording="of-platform",
                got=f"{JOBS_FILE}, a download from the platform",
            )
        )
    with tempfile.TemporaryDirectory(prefix="evaluation-init-") as workspace:
        (Path(workspace) / "reference").mkdir()
        (Path(workspace) / "sample").mkdir()
        reference = look(folder / REFERENCE, Path(workspace) / "reference")
        found = None if sample is None else look(sample, Path(workspace) / "sample")
        planned = plan_classes(reference, {}, None)
        plan, findings = planned.classes, planned.findings
        tables = tables_of(reference, found or reference, plan, preset)
        expected = Challenge.from_preset(preset, name=preset)
        if in_place and not reference.has_pictures and has_form(expected, reference):
            ignore = {key: value for key, value in tables["reference"].items() if key == "ignore"}
            tables |= {"reference": ignore, "submission": {}}
        elif sample is None and preset != RECOMMENDED and is_of(expected, reference):
            tables = {"reference": {key: tables["reference"][key] for key in PLACES if key in tables["reference"]}}
        document = tables_above(preset, name) | {key: value for key, value in tables.items() if value}
    notes, sizes = [f"Reference {reference.words()}"], dict[str, tuple[int, int]]()
    if found is not None:
        notes.append(f"Submission {found.words()}")
        pairs = pair_names(reference.cases, found.cases).pairs
        sizes = {name: size for name, other in pairs.items() if (size := found.cases[other].size_yx) is not None}
    return Looked(challenge_text(heading_of(preset), document), tuple(notes), (*reference.findings, *findings), sizes)


def has_other_content(folder: Path, challenge: Challenge) -> bool:
    """Whether the files of a reference have another format than a challenge expects, or classes that it does not know.

    Numbers stand for any class.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="evaluation-init-") as workspace:
            found = look(folder / REFERENCE, Path(workspace))
    except WrongUsage:
        return False
    return found.has_pictures or not is_of(challenge, found)


def is_of(challenge: Challenge, found: FoundSide) -> bool:
    known = {*challenge.class_ids(), NAMELESS}
    return has_form(challenge, found) and (
        bool(found.numbers) or all(name.casefold() in known for name in found.classes)
    )


def has_form(challenge: Challenge, found: FoundSide) -> bool:
    """Whether the files of a reference have the format that a challenge expects, its shape, and its files of classes.

    Of one class these are not needed.
    """
    rules, file = challenge.reference, found.class_file
    is_one = len(found.classes) < 2
    is_same = all(found.keys[key] == rules.value(key) for key in TOLD if key in found.keys)
    return (
        found.format == rules.format and is_same and (file is None or is_one or rules.value(file.class_key) is not None)
    )


def tables_of(reference: FoundSide, submission: FoundSide, plan: Plan, preset: str) -> dict[str, Any]:
    """The tables that differ from the preset."""
    below = resolve_preset({"preset": preset})
    points = are_points(reference) or are_points(submission)
    of_reference = {**keys_of(reference, plan), "files": pattern_of(reference, f"{REFERENCE}/")}
    of_submission = {**keys_of(submission, plan), "files": pattern_of(submission, "")}
    for side, of_side, before in ((reference, of_reference, f"{REFERENCE}/"), (submission, of_submission, "")):
        is_asked = len(plan) > 1 or of_side is of_reference  # of one class, submissions need not say what is ambiguous
        if is_asked and needs_classes(side, plan) and (file := side.class_file) is not None:
            of_side[file.class_key] = pattern_of(side, before, of_classes=True)
    if below["reference"].get("ignore", {}).get("classes") and not (has_ignored(reference) or points):
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


def pattern_of(side: FoundSide, before: str, *, of_classes: bool = False) -> str:
    """The pattern of the files of a side, or of their files of classes, with {case}, {group} and {class}.

    Raises WrongUsage if they need several.
    """
    files = [file for case in side.cases.values() for file in case.files]
    if of_classes:
        files = [
            replace(file, name=str(PurePosixPath(file.name).with_name(file.classes.name)))
            for file in files
            if file.classes is not None
        ]
    if side.is_shared:
        return before + files[0].name
    has_groups = any(file.group and f"{file.group}/" in file.name for file in files)
    patterns = {pattern_of_file(file, has_groups) for file in files}
    if len(patterns) > 1 and not has_groups:  # a folder for each patient, with one image
        in_folders = [replace(file, group=PurePosixPath(file.name).parent.name) for file in files]
        of_folders = {pattern_of_file(file, has_groups=True) for file in in_folders}
        patterns = of_folders if len(of_folders) == 1 else patterns
    if len(patterns) > 1:
        got = f"files in places that no one pattern describes, such as {' and '.join(map(quote, sorted(patterns)[:2]))}"
        raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), wording="several-places", got=got))
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
