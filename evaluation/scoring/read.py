"""From files to the instances of a case, by the rules of the challenge; all faults of a case come at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np

from evaluation.challenge import Challenge, FormatRules, LimitRules
from evaluation.decoding.guard import prepare
from evaluation.findings import Finding, quote
from evaluation.findings.errors import InputFault
from evaluation.formats import Companions, Request, read_annotations, read_collection
from evaluation.formats.guarded import read_annotations_guarded, read_collection_guarded
from evaluation.instances.labels import instances_from_label_image
from evaluation.instances.parts import convert_parts, join_instances
from evaluation.instances.prepare import PreparedReference, prepare_reference
from evaluation.instances.runs import empty_region
from evaluation.model import (
    Annotations,
    Case,
    ClassTable,
    Collection,
    Counts,
    Instances,
    Int64,
    LabelImage,
    Outlines,
    Part,
    Points,
)
from evaluation.submission import CaseFile, SharedFile, SubmissionFiles

LIBRARIES = {".tif": "imagecodecs", ".tiff": "imagecodecs", ".png": "imagecodecs", ".mat": "scipy.io"}
MAY_CRASH = (".mat", ".nii", ".nii.gz", ".nrrd")  # read by scipy.io, HDF5 and SimpleITK
OUTSIDE_FIX = "Check the units, the order of x and y, and whether coordinates count from the image or the slide."


@dataclass(frozen=True)
class Side:
    """How the files of the reference, or of a submission, are opened and read.

    owner   whose files they are: a process that decodes files of one owner sees none of another; "": they are decoded
            here, as those of a reference are in formats whose libraries damaged files cannot crash
    """

    rules: FormatRules
    classes: ClassTable
    limits: LimitRules
    open: Callable[[str], BinaryIO]
    owner: str

    def request(self, where: str, name: str, class_id: int) -> Request:
        return Request(
            where=where, name=name, rules=self.rules, classes=self.classes, limits=self.limits, file_class=class_id
        )


def submission_side(challenge: Challenge, files: SubmissionFiles) -> Side:
    classes = challenge.class_table(challenge.submission)
    return Side(challenge.submission, classes, challenge.limits, files.open, owner=str(files.path))


def reference_side(challenge: Challenge, folder: Path) -> Side:
    rules = (challenge.reference, challenge.submission)
    modules = {f"evaluation.formats.{side.format}" for side in rules}
    modules |= {LIBRARIES[suffix] for side in rules if (suffix := PurePosixPath(side.files).suffix) in LIBRARIES}
    prepare(*sorted(modules))  # before any of the reference is read

    def open_reference(name: str) -> BinaryIO:
        try:
            return (folder / name).open("rb")
        except OSError as error:
            got = (error.strerror or "not readable").lower()
            raise InputFault(Finding("unreadable-file", quote(name), got, "a file that can be read")) from None

    classes = challenge.class_table(challenge.reference)
    names = (challenge.reference.files, challenge.reference.class_map or "")
    owner = "reference" if any(name.endswith(MAY_CRASH) for name in names) else ""
    return Side(challenge.reference, classes, challenge.limits, open_reference, owner=owner)


# --- files of one case ------------------------------------------------------------------------------------------------


def read_case(side: Side, case: Case, files: Sequence[CaseFile]) -> Annotations:
    """What all files of a case say. Raises InputFault with all faults of all files."""
    found: list[Annotations] = []
    faults: list[Finding] = []
    for file in files:
        try:
            found.append(read_case_file(side, case, file))
        except InputFault as fault:
            faults += fault.findings
    if faults:
        raise InputFault(*faults)
    return Annotations(
        tuple(part for annotations in found for part in annotations.parts),
        tuple(finding for annotations in found for finding in annotations.findings),
    )


def read_case_file(side: Side, case: Case, file: CaseFile) -> Annotations:
    """What one file of a case, with the files that go with it, says."""
    names = {"class_map": file.class_map_name, "class_table": file.class_table_name, "segments": file.segments_name}
    with ExitStack() as opened:
        stream = opened.enter_context(side.open(file.name))
        companions = {
            key: (opened.enter_context(side.open(name)), place(case, name)) for key, name in names.items() if name
        }
        request = side.request(place(case, file.name), file.name, file.class_id)
        if not side.owner:
            return read_annotations(stream, request, case, Companions(**companions))
        return read_annotations_guarded(stream, request, case, Companions(**companions), owner=side.owner)


def place(case: Case, name: str) -> str:
    return f"case {quote(case.name)}, {quote(name, 120)}"


# --- files of all cases -----------------------------------------------------------------------------------------------


@dataclass
class SharedCases:
    """What the files that hold all cases say of each of them.

    cases     annotations by name of the case; label images are runs already, which are small
    unknown   how many entries each image has that is no case
    faults    what is wrong; a case with a fault has no annotations but counts as mentioned
    """

    cases: dict[str, Annotations] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


def read_shared(side: Side, cases: Sequence[Case], files: Sequence[SharedFile]) -> SharedCases:
    """Read the files that hold all cases: one, or one for each class."""
    keys = {filled(side.rules.case_key, case): case for case in cases}
    found = SharedCases()
    for file in files:
        where = quote(file.name, 120)
        try:
            with side.open(file.name) as stream:
                request = side.request(where, file.name, file.class_id)
                if side.owner:
                    collection = read_collection_guarded(stream, request, keys, owner=side.owner)
                else:
                    collection = read_collection(stream, request, keys)
                found.unknown.update(collection.unknown)
                found.warnings += collection.findings
                for name in collection.cases:
                    found.mentioned.add(name)
                    add_shared_case(found, name, collection)
        except InputFault as fault:
            found.faults += fault.findings
    return found


def add_shared_case(found: SharedCases, name: str, collection: Collection) -> None:
    try:
        said = collection.cases[name]
    except InputFault as fault:  # arrays are decoded case by case
        found.faults += fault.findings
        return
    parts = tuple(instances_from_label_image(part) if isinstance(part, LabelImage) else part for part in said.parts)
    before = found.cases.get(name, Annotations(()))
    found.cases[name] = Annotations((*before.parts, *parts), (*before.findings, *said.findings))


# --- the two sides ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ReadPrediction:
    """The prediction of a case: its instances, and warnings.

    nuclei, outside   how many nuclei its files have, and how many of them lie outside the image or cover no pixel of it
    class_counts      nuclei of each class, int64 (C,), if its file holds nothing but their numbers; then there are no
                      instances. None: they are counted from the instances
    """

    instances: Instances
    findings: tuple[Finding, ...]
    nuclei: int
    outside: int
    class_counts: Int64 | None = None


def read_prediction(
    challenge: Challenge, files: SubmissionFiles, case: Case, content: Annotations | Sequence[CaseFile]
) -> ReadPrediction:
    """The predicted instances of a case, from its files or from what shared files say of it.

    Raises InputFault with all faults.
    """
    side = submission_side(challenge, files)
    said = content if isinstance(content, Annotations) else read_case(side, case, content)
    files.close()
    if (counts := counts_of(said.parts)) is not None:
        return ReadPrediction(join_instances([], case.shape_yx), said.findings, int(counts.sum()), 0, counts)
    check_class_probabilities(said.parts, f"case {quote(case.name)}")
    rules = side.rules
    converted = convert_parts(
        in_image(said.parts, case, rules),
        case.shape_yx,
        vertices=rules.vertices,
        origin=rules.origin,
        vanished=rules.vanished,
        where=f"case {quote(case.name)}",
    )
    where = f"case {quote(case.name)}"
    check_instances(converted.instances, side.limits, where)
    nuclei = converted.scored_before
    outside = max(converted.outside, nuclei - len(converted.instances))  # outlines may have got their nearest pixel
    told = outside_image(outside, nuclei, case, where)
    return ReadPrediction(converted.instances, (*said.findings, *told), nuclei, outside)


def read_reference(
    challenge: Challenge,
    folder: Path,
    case: Case,
    content: Annotations | None = None,
    *,
    with_geometry_report: bool = False,
) -> PreparedReference:
    """The reference instances of a case, from its files or from what shared files say of it. Raises InputFault."""
    side = reference_side(challenge, folder)
    rules = challenge.reference
    where = f"case {quote(case.name)}"
    if content is None:
        files = reference_files(challenge, folder, case)
        content = read_case(side, case, files)
        where = place(case, files[0].name)
    if (counts := counts_of(content.parts)) is not None:
        nothing = join_instances([], case.shape_yx)
        return PreparedReference(
            nothing, empty_region(), annotations=int(counts.sum()), findings=content.findings, class_counts=counts
        )
    parts = in_image(content.parts, case, rules)
    if "reference_index" in challenge.matching.published_faults:
        parts = [numbered(part) if isinstance(part, Outlines) else part for part in parts]
    prepared = prepare_reference(
        parts,
        case.shape_yx,
        overlap=rules.overlap,
        overlap_scope=rules.overlap_scope,
        vanished=rules.vanished,
        vertices=rules.vertices,
        origin=rules.origin,
        ignore_policy=rules.ignore.policy,
        ignore_fraction=rules.ignore.fraction,
        with_geometry_report=with_geometry_report,
        where=where,
    )
    check_instances(prepared.instances, side.limits, where)
    told = outside_image(prepared.outside, prepared.annotations, case, f"reference of {where}")
    return replace(prepared, findings=(*content.findings, *told))


def numbered(outlines: Outlines) -> Outlines:
    """The outlines with their place in the file, from 1, as their id: their number in masks painted one by one."""
    return replace(outlines, source_id=np.arange(1, len(outlines) + 1).astype(object))


def reference_files(challenge: Challenge, folder: Path, case: Case) -> tuple[CaseFile, ...]:
    """The files of the reference of a case, in the order of the classes. Raises InputFault if there are none."""
    rules = challenge.reference

    def existing(pattern: str | None, class_name: str = "") -> str | None:
        if pattern is None:
            return None
        name = filled(pattern, case, class_name)
        return next((found for found in (name, f"{name}.gz") if (folder / found).is_file()), None)

    companions = [existing(pattern) for pattern in (rules.class_map, rules.class_table, rules.segments)]
    found = [
        CaseFile(name, class_id, *companions)
        for name, class_id in files_of_classes(challenge, partial(existing, rules.files))
    ]
    patterns = (rules.files, rules.class_map, rules.class_table, rules.segments)
    missing = [pattern for pattern, name in zip(patterns[1:], companions, strict=True) if pattern and name is None]
    if not found or missing:
        pattern = rules.files if not found else missing[0]
        name = filled(pattern, case, challenge.class_names[0])
        raise InputFault(
            Finding("missing-file", quote(name), "no such file", "the reference of every case in cases.csv")
        )
    return tuple(found)


def files_of_classes(challenge: Challenge, existing: Callable[[str], str | None]) -> list[tuple[str, int]]:
    """The reference files of a case, or of all cases, and the class of each, in the order of the classes.

    existing  the file in whose name a class is spelled like this, None if there is none

    Lower case, upper case and capitals are tried beside the spelling of the challenge, as submissions may write them.
    Raises InputFault ("duplicate-file") for two files of a class: their nuclei would count twice.
    """
    if "{class}" not in challenge.reference.files:
        name = existing("")
        return [] if name is None else [(name, 0)]
    class_ids = challenge.class_ids()
    found: dict[int, str] = {}
    for spelling in challenge.class_spellings():
        variants = (spelling, spelling.lower(), spelling.upper(), spelling.capitalize(), spelling.title())
        name = next(filter(None, map(existing, variants)), None)
        if name is None:
            continue
        class_id = class_ids[spelling.casefold()]
        if (other := found.setdefault(class_id, name)) != name:
            got, expected = f"files of a class twice; the other is {quote(other, 120)}", "one file for each class"
            raise InputFault(Finding("duplicate-file", quote(name, 120), got, expected, "Remove one of them."))
    return [(name, class_id) for class_id, name in found.items()]


def read_shared_reference(challenge: Challenge, folder: Path) -> SharedCases | None:
    """The reference of all cases, if shared files hold it; every case must be in it. Raises InputFault."""
    rules = challenge.reference
    if not rules.is_shared:
        return None
    files = [SharedFile(rules.files, 0)]
    if "{class}" in rules.files:

        def existing(class_name: str) -> str | None:
            name = rules.files.replace("{class}", class_name)
            return name if (folder / name).is_file() else None

        files = [SharedFile(name, class_id) for name, class_id in files_of_classes(challenge, existing)]
    found = read_shared(reference_side(challenge, folder), challenge.cases, files)
    missing = [case.name for case in challenge.cases if case.name not in found.mentioned]
    faults = [
        Finding("missing-file", quote(rules.files), f"no entry for case {quote(name)}", "every case in cases.csv")
        for name in missing
        if not found.faults
    ]
    if found.faults or faults:
        raise InputFault(*found.faults, *faults)
    return found


def filled(pattern: str, case: Case, class_name: str = "") -> str:
    """A pattern with the names of a case, and of a class, in it."""
    return pattern.replace("{case}", case.name).replace("{group}", case.group).replace("{class}", class_name)


def in_image(parts: Sequence[Part], case: Case, rules: FormatRules) -> list[Part]:
    """The parts with coordinates that count from the corner of the image, not of its slide."""
    if rules.coordinates == "image":
        return list(parts)
    offset = np.array(case.offset_xy)
    return [
        replace(part, points_xy=part.points_xy - offset) if isinstance(part, Outlines | Points) else part
        for part in parts
    ]


def counts_of(parts: Sequence[Part]) -> Int64 | None:
    """Nuclei of each class of a case of which only these numbers are known, int64 (C,); None for any other."""
    counts = [part.per_class for part in parts if isinstance(part, Counts)]
    return np.sum(counts, axis=0) if counts else None


def check_class_probabilities(parts: Sequence[Part], where: str) -> None:
    """Raise InputFault if some files of a prediction have the probabilities of the classes and others do not."""
    has_them = [
        isinstance(part, Outlines | Points | Instances) and part.class_probability is not None
        for part in parts
        if isinstance(part, LabelImage) or len(part)
    ]
    if any(has_them) and not all(has_them):
        got = f"class probabilities in {sum(has_them):,} of {len(has_them):,} files with nuclei"
        expected = "a probability of each class for every nucleus, or for none"
        raise InputFault(Finding("missing-probability", where, got, expected))


def outside_image(outside: int, nuclei: int, case: Case, where: str) -> list[Finding]:
    """A warning about nuclei that can never be matched, for where they lie or for their size."""
    if outside == 0:
        return []
    verb = "lies" if outside == 1 else "lie"
    got = f"{outside:,} of {nuclei:,} nuclei {verb} outside the image, or on no pixel of it"
    expected = f"x below {case.width:,} and y below {case.height:,}, in px"
    return [Finding("outside-image", where, got, expected, OUTSIDE_FIX)]


def check_instances(instances: Instances, limits: LimitRules, where: str) -> None:
    """Raise InputFault if there are too many instances, or some without a class."""
    if len(instances) > limits.instances_per_case:
        raise InputFault(
            Finding(
                "too-large",
                where,
                f"{len(instances):,} nuclei",
                f"at most {limits.instances_per_case:,}",
                "Check that labels are not probabilities; the limit is limits.instances_per_case in challenge.toml.",
            )
        )
    nameless = np.flatnonzero(instances.class_id == 0)
    if len(nameless):
        shown = ", ".join(quote(instances.source_id[index]) for index in nameless[:3])
        raise InputFault(
            Finding(
                "instance-without-class",
                where,
                f"{len(nameless):,} {'nucleus has' if len(nameless) == 1 else 'nuclei have'} no class (ids {shown})",
                "a class for every nucleus",
                "Write the class of every nucleus where the challenge expects it.",
            )
        )
