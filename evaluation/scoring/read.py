"""From files to the instances of a case, by the rules of the challenge; all faults of a case are reported at once."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import numpy as np

from evaluation.challenge import Challenge, FormatRules, LimitRules
from evaluation.challenge.formats import filled
from evaluation.files.decoding import guard
from evaluation.files.decoding.annotations import Annotations, Collection, library_faults
from evaluation.files.decoding.guard import MOST_FILES, seconds_of, seconds_of_images
from evaluation.files.formats import (
    OpenFile,
    Request,
    begin_annotations,
    begin_several,
    module_of,
    read_annotations,
    read_collection,
    read_collection_guarded,
)
from evaluation.files.submission import CaseFile, PlacedFiles, SubmissionFiles
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, refused
from evaluation.scoring.match import SeenNuclei, label_signs, reach_of_images, see_nuclei
from nuclei_metrics.instances.plausible import outlines_around_others, select_outlines
from nuclei_metrics.instances.prepare import PreparedReference, convert_parts, prepare_reference
from nuclei_metrics.instances.runs import empty_region, instances_from_label_image, select_instances
from nuclei_metrics.model.annotations import Case, ClassTable, Counts, LabelImage, Outlines, Part, Points
from nuclei_metrics.model.arrays import Int64, distinct
from nuclei_metrics.model.instances import Instances, join_instances

SUFFIX_LIBRARIES = {".tif": "imagecodecs", ".tiff": "imagecodecs", ".png": "imagecodecs", ".mat": "scipy.io"}
# Read by scipy.io and SimpleITK.
MAY_CRASH = (".mat", ".nii", ".nii.gz", ".nrrd")
_TOGETHER = MOST_FILES, 1 << 23, 1 << 24  # files, their pixels and bytes: as many are decoded with one request
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
ReferenceFolder = Path | PlacedFiles  # a challenge folder, or the files of a reference wherever they are
SLOW_FILES = 3  # of a submission that take too long to decode; then nothing more of it is decoded


@dataclass(frozen=True)
class Side:
    """How the files of the reference, or of a submission, are opened and read.

    owner   of the files: a decoder process serves one owner; "": they are decoded in this process, like reference files
            in formats with crash-safe libraries
    shown   the name of a file in messages
    """

    rules: FormatRules
    classes: ClassTable
    limits: LimitRules
    open: Callable[[str], BinaryIO]
    owner: str
    shown: Callable[[str], str] = str

    def request(self, where: str, name: str, class_id: int) -> Request:
        return Request(
            where=where, name=name, rules=self.rules, classes=self.classes, limits=self.limits, file_class=class_id
        )


def prepare_decoders(challenge: Challenge) -> None:
    """Fork the decoders, with the modules that they need, before any of the reference is read."""
    from evaluation.files.decoding.guard import prepare  # an empty submission is refused without it

    rules = (challenge.reference, challenge.submission)
    modules = {module_of(side.format) for side in rules}
    suffixes = {PurePosixPath(side.files).suffix for side in rules}
    modules |= {SUFFIX_LIBRARIES[suffix] for suffix in suffixes & SUFFIX_LIBRARIES.keys()}
    prepare(*modules)


def submission_side(challenge: Challenge, files: SubmissionFiles) -> Side:
    classes = challenge.class_table(challenge.submission)
    return Side(challenge.submission, classes, challenge.limits, files.open, str(files.path), files.shown)


def place_of(folder: ReferenceFolder, name: str) -> str:
    """Return the path of a file of the reference."""
    return folder.place(name) if isinstance(folder, PlacedFiles) else f"{folder}/{name}"


def reference_side(challenge: Challenge, folder: ReferenceFolder) -> Side:
    prepare_decoders(challenge)
    shown = folder.shown if isinstance(folder, PlacedFiles) else str

    def open_reference(name: str) -> BinaryIO:
        try:
            return open(place_of(folder, name), "rb")  # noqa: PTH123, of thousands of files: a Path costs more than this
        except OSError as error:
            raise _unreadable_file(shown(name), error) from None

    classes = challenge.class_table(challenge.reference)
    names = (challenge.reference.files, challenge.reference.value("class_map") or "")
    owner = "reference" if any(name.endswith(MAY_CRASH) for name in names) else ""
    return Side(challenge.reference, classes, challenge.limits, open_reference, owner, shown)


_FilesOfCase = tuple[Case, Sequence[CaseFile]]


# --- files of one case ------------------------------------------------------------------------------------------------


def read_case(side: Side, case: Case, files: Sequence[CaseFile], begun: Sequence[BegunFile] = ()) -> Annotations:
    """Decode all files of a case and join their annotations. Raises InputFault with all faults of all files.

    begun   the first of them, which are being decoded already
    """
    read: list[Annotations] = []
    faults: list[Finding] = []
    before = seconds_of(side.owner)
    for index, file in enumerate(files):
        try:
            read.append((begun[index] if index < len(begun) else BegunFile(side, case, file)).finish())
        except InputFault as error:
            faults += error.findings
            if (slow := slow_files(faults)) >= SLOW_FILES:
                faults += not_looked_at(f"case {quote(case.name)}", index + 1, len(files), "files", slow=slow)
                break
        if side.owner and (seconds := seconds_overdrawn(side.owner, before, [case])):
            faults += not_looked_at(f"case {quote(case.name)}", index + 1, len(files), "files", seconds=seconds)
            break
    if faults:
        raise InputFault(*faults)
    if len(read) == 1:
        return read[0]
    return Annotations(
        tuple(part for annotations in read for part in annotations.parts),
        tuple(finding for annotations in read for finding in annotations.findings),
    )


class BegunFile:
    """A file of a case with its companions; its decoding has begun, or begins on request."""

    def __init__(self, side: Side, case: Case, file: CaseFile) -> None:
        self.streams = ExitStack()
        self.fault: InputFault | None = None
        try:
            self.file = self.open(side, case, file)
        except InputFault as error:
            self.fault = error
        else:
            self.find: Callable[[], Annotations] = partial(self.read, side.owner)

    def open(self, side: Side, case: Case, file: CaseFile) -> OpenFile:
        stream = self.streams.enter_context(side.open(file.name))
        companions = {
            key: (self.streams.enter_context(side.open(name)), _where_of(side, case, name))
            for key, name in file.companions.items()
        }
        request = side.request(_where_of(side, case, file.name), file.name, file.class_id)
        return OpenFile(stream, request, case, companions)

    def read(self, owner: str) -> Annotations:
        opened = self.file.stream, self.file.request, self.file.case, self.file.companions
        return begin_annotations(*opened, owner=owner)() if owner else read_annotations(*opened)

    def drop(self) -> None:
        """Abandon the decoding of this file."""
        self.find = partial(Annotations, ())  # the process that decodes it ends with its iterator
        self.streams.close()

    def finish(self) -> Annotations:
        """Wait for the decoded annotations of this file. Raises InputFault."""
        with self.streams:
            if self.fault:
                raise self.fault
            return self.find()


def _begin_files(side: Side, cases: Sequence[_FilesOfCase]) -> list[list[BegunFile]]:
    """Begin to decode the files of cases, all with one request."""
    begun = [[BegunFile(side, case, file) for file in files] for case, files in cases]
    opened = [file for of_case in begun for file in of_case if file.fault is None]
    if opened and side.owner:
        for file, find in zip(opened, begin_several([file.file for file in opened], owner=side.owner), strict=True):
            file.find = find
    return begun


def slow_files(faults: Sequence[Finding]) -> int:
    """Return how many files took too long to decode."""
    return sum(finding.code == "too-slow" for finding in faults)


def seconds_for(cases: Sequence[Case]) -> int:
    """Return the processor time that all files of a submission may take together."""
    return seconds_of_images([case.height * case.width for case in cases])


def seconds_overdrawn(owner: str, before: float, cases: Sequence[Case]) -> int:
    """Return ``seconds_for`` cases if the files of an owner have taken more since ``before``, otherwise 0."""
    spent = seconds_of(owner) - before
    return seconds if spent > guard.LEAST_SECONDS and spent > (seconds := seconds_for(cases)) else 0


def not_looked_at(where: str, done: int, number: int, what: str, *, slow: int = 0, seconds: int = 0) -> list[Finding]:
    """Report that files or cases were not decoded because earlier ones took too long; otherwise nothing.

    slow     how many files took too long
    seconds  that all files may take together, if they took more
    """
    if done == number:
        return []
    rest = number - done
    if slow < SLOW_FILES:
        return [fault("too-slow", where, wording="all-together", seconds=seconds, rest=rest, number=number, what=what)]
    return [fault("too-slow", where, wording="not-looked-at", slow=slow, rest=rest, number=number, what=what)]


def _where_of(side: Side, case: Case, name: str) -> str:
    return f"case {quote(case.name)}, {quote(side.shown(name), 120)}"


# --- files of all cases -----------------------------------------------------------------------------------------------


@dataclass
class SharedCases:
    """The annotations of each case in files that contain all cases.

    cases     annotations by name of the case; label images are runs already, which are small
    unknown   how many entries each image has that is no case
    faults    the fault; a case with a fault has no annotations but counts as mentioned
    """

    cases: dict[str, Annotations] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


def read_shared(side: Side, cases: Sequence[Case], files: Sequence[CaseFile]) -> SharedCases:
    """Read the files that contain all cases: one file, or one per class."""
    keys = {side.rules.key_of(case): case for case in cases}
    shared, before = SharedCases(), seconds_of(side.owner)
    for index, file in enumerate(files):
        where = quote(side.shown(file.name), 120)
        try:
            with side.open(file.name) as stream:
                request = side.request(where, file.name, file.class_id)
                if side.owner:
                    collection = read_collection_guarded(stream, request, keys, owner=side.owner)
                else:
                    collection = read_collection(stream, request, keys)
                shared.unknown.update(collection.unknown)
                shared.warnings += collection.findings
                for name in collection.cases:
                    shared.mentioned.add(name)
                    _add_shared_case(shared, name, collection)
        except InputFault as error:
            shared.faults += error.findings
            if (slow := slow_files(shared.faults)) >= SLOW_FILES:
                shared.faults += not_looked_at("files of all cases", index + 1, len(files), "files", slow=slow)
                break
        if side.owner and (seconds := seconds_overdrawn(side.owner, before, cases)):
            shared.faults += not_looked_at("files of all cases", index + 1, len(files), "files", seconds=seconds)
            break
    return shared


def _add_shared_case(shared: SharedCases, name: str, collection: Collection) -> None:
    try:
        content_read = collection.cases[name]
    except InputFault as error:  # arrays are decoded case by case
        shared.faults += error.findings
        return
    parts = tuple(
        instances_from_label_image(part) if isinstance(part, LabelImage) else part for part in content_read.parts
    )
    before = shared.cases.get(name, Annotations(()))
    shared.cases[name] = Annotations((*before.parts, *parts), (*before.findings, *content_read.findings))


# --- the two sides ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ReadPrediction:
    """The prediction of a case: its instances, its warnings, and the counts for warnings about the whole submission.

    class_counts      nuclei of each class, int64 (C,), if its file contains nothing but their numbers; then there are
                      no instances. None: they are counted from the instances
    """

    instances: Instances
    findings: tuple[Finding, ...]
    seen: SeenNuclei
    class_counts: Int64 | None = None


def begin_predictions(
    challenge: Challenge, files: SubmissionFiles, inputs: Sequence[tuple[Case, Annotations | Sequence[CaseFile] | None]]
) -> Generator[list[list[BegunFile]]]:
    """Yield the files of cases as decoding begins: all files of small cases, the first file of a large case."""
    prepare_decoders(challenge)
    side = submission_side(challenge, files)
    cases = [(case, () if content is None or isinstance(content, Annotations) else content) for case, content in inputs]
    for group in _decoded_together(files, cases):
        several = len(group) > 1
        begun = _begin_files(side, [(case, of_case if several else of_case[:1]) for case, of_case in group])
        try:
            yield begun
        finally:
            for file in chain.from_iterable(begun):
                file.drop()


def _decoded_together(files: SubmissionFiles, cases: Sequence[_FilesOfCase]) -> list[list[_FilesOfCase]]:
    """Group the cases: small cases up to the limit of a request, large cases alone."""
    groups: list[list[_FilesOfCase]] = []
    held = np.array(_TOGETHER)
    for case, of_case in cases:
        names = [name for file in of_case for name in file.names]
        pixels, size = case.height * case.width * len(of_case), 0
        with suppress(InputFault, OSError):  # told when it is opened
            size = sum(map(files.size, names))
        held += (len(names), pixels, size)
        if (held > _TOGETHER).any() or not groups:
            groups.append([])
            held[:] = len(names), pixels, size
        groups[-1].append((case, of_case))
    return groups


def read_prediction(
    challenge: Challenge,
    files: SubmissionFiles,
    case: Case,
    content: Annotations | Sequence[CaseFile],
    begun: Sequence[BegunFile] = (),
    side: Side | None = None,
) -> ReadPrediction:
    """The predicted instances of a case, from its files or from shared files. ``look_together`` checks the labels.

    begun   the first of its files, which are being decoded already

    Raises InputFault with all faults.
    """
    side = submission_side(challenge, files) if side is None else side
    content_read = content if isinstance(content, Annotations) else read_case(side, case, content, begun)
    if (counts := _counts_of(content_read.parts)) is not None:
        seen = SeenNuclei(case.name, int(counts.sum()))
        return ReadPrediction(join_instances([], case.shape_yx), content_read.findings, seen, counts)
    where = f"case {quote(case.name)}"
    _check_class_probabilities(content_read.parts, where)
    parts, regions = _without_regions(in_image(content_read.parts, case, side.rules), side.rules, where)
    with library_faults():
        converted = convert_parts(parts, case.shape_yx, **_how_drawn(side.rules), where=where)
    _check_instances(converted.instances, side.limits, where)
    nuclei = converted.scored_before + converted.ignored_before
    outside = max(converted.outside, nuclei - len(converted.instances))  # outlines may have got their nearest pixel
    findings = [*content_read.findings, *regions, *outside_image(outside, nuclei, case, where)]
    instances = converted.instances
    if converted.ignored_before:
        names = challenge.reference.ignore.classes
        findings.append(fault("not-scored", where, number=converted.ignored_before, nuclei=nuclei, names=names))
        instances = select_instances(instances, instances.class_id >= 0)
    return ReadPrediction(instances, tuple(findings), see_nuclei(challenge, case, instances, nuclei, outside))


def look_together(challenge: Challenge, read: Sequence[tuple[Case, ReadPrediction]]) -> list[ReadPrediction]:
    """Add signs that labels are no nuclei to the findings of predictions, and their reach; small images together."""
    images = [(f"case {quote(case.name)}", prediction.instances) for case, prediction in read]
    reaches = reach_of_images([prediction.instances for _, prediction in read])
    return [
        replace(prediction, findings=(*prediction.findings, *signs), seen=replace(prediction.seen, reach=reach))
        for (_, prediction), signs, reach in zip(read, label_signs(images, challenge.submission), reaches, strict=True)
    ]


def read_reference(
    challenge: Challenge,
    folder: ReferenceFolder,
    case: Case,
    content: Annotations | Sequence[CaseFile] | None = None,
    side: Side | None = None,
    *,
    with_geometry_report: bool = False,
) -> PreparedReference:
    """The reference instances of a case, from its files or from shared files. Raises InputFault.

    side   ``reference_side``, if known
    """
    side = reference_side(challenge, folder) if side is None else side
    rules = challenge.reference
    where = f"case {quote(case.name)}"
    if not isinstance(content, Annotations):
        files = reference_files(challenge, folder, case) if content is None else content
        content = read_case(side, case, files)
        where = _where_of(side, case, files[0].name)
    if (counts := _counts_of(content.parts)) is not None:
        nothing = join_instances([], case.shape_yx)
        return PreparedReference(
            nothing, empty_region(), annotations=int(counts.sum()), findings=content.findings, class_counts=counts
        )
    parts, regions = _without_regions(in_image(content.parts, case, rules), rules, f"reference of {where}")
    if "reference_index" in challenge.matching.published_faults:
        parts = [_numbered(part) if isinstance(part, Outlines) else part for part in parts]
    with library_faults():
        prepared = prepare_reference(
            parts,
            case.shape_yx,
            overlap=rules.overlap,
            overlap_scope=rules.overlap_scope,
            **_how_drawn(rules),
            ignore_policy=rules.ignore.policy,
            ignore_fraction=rules.ignore.fraction,
            count_crossed=count_self_intersecting if with_geometry_report else None,
            where=where,
        )
    _check_instances(prepared.instances, side.limits, where)
    lying_outside = outside_image(prepared.outside, prepared.annotations, case, f"reference of {where}")
    return replace(prepared, findings=(*content.findings, *regions, *lying_outside))


def _without_regions(parts: list[Part], rules: FormatRules, where: str) -> tuple[list[Part], list[Finding]]:
    """Remove outlines of scored classes around more than five nuclei, with a warning, if the rules require it."""
    if rules.value("regions") != "leave_out":
        return parts, []
    around = [
        outlines_around_others(part) & (part.class_id >= 0) if isinstance(part, Outlines) else None for part in parts
    ]
    number = sum(int(regions.sum()) for regions in around if regions is not None)
    if not number:
        return parts, []
    kept = [
        select_outlines(part, ~regions) if isinstance(part, Outlines) and regions is not None else part
        for part, regions in zip(parts, around, strict=True)
    ]
    return kept, [replace(fault("left-out", where, wording="around-others", number=number), count=number)]


def count_self_intersecting(outlines: Outlines) -> int:
    """Outlines with a ring that crosses or touches itself (``shapely.is_simple``), from three vertices on."""
    count = np.diff(outlines.ring_start)
    chosen = count >= 3
    if not chosen.any():
        return 0
    points = outlines.points_xy[np.repeat(chosen, count)]
    import shapely  # slow to import, and only the report of a rasterisation needs it

    rings = shapely.linearrings(points, indices=np.repeat(np.arange(chosen.sum()), count[chosen]))
    return len(distinct(outlines.ring_instance[chosen][~shapely.is_simple(rings)]))


def _how_drawn(rules: FormatRules) -> dict[str, Any]:
    """The rules by which outlines become pixels, None in formats without them."""
    return {key: rules.value(key) for key in ("vertices", "origin", "vanished")}


def _numbered(outlines: Outlines) -> Outlines:
    """Number outlines by their order in the file, from 1, as in masks painted one by one."""
    return replace(outlines, source_id=np.arange(1, len(outlines) + 1).astype(object))


def reference_files(challenge: Challenge, folder: ReferenceFolder, case: Case) -> tuple[CaseFile, ...]:
    """The files of the reference of a case, in the order of the classes. Raises InputFault if missing."""
    rules = challenge.reference

    def existing(pattern: str, class_name: str = "") -> str | None:
        name = filled(pattern, case, class_name)
        return next((each for each in (name, f"{name}.gz") if _is_there(folder, each)), None)

    patterns = {key: pattern for key in rules.companions if (pattern := rules.value(key)) is not None}
    companions = {key: name for key, pattern in patterns.items() if (name := existing(pattern)) is not None}
    case_files = [
        CaseFile(name, class_id, companions)
        for name, class_id in _files_of_classes(challenge, partial(existing, rules.files))
    ]
    missing = [pattern for key, pattern in patterns.items() if key not in companions]
    if not case_files or missing:
        pattern = rules.files if not case_files else missing[0]
        name = filled(pattern, case, challenge.class_names[0])
        raise refused("missing-file", quote(name), wording="no-reference")
    return tuple(case_files)


def _is_there(folder: ReferenceFolder, name: str) -> bool:
    """Return whether the reference has a file. Raises InputFault if a folder does not let us look."""
    try:
        return stat.S_ISREG(os.stat(place_of(folder, name)).st_mode)  # noqa: PTH116, as in ``reference_side``
    except OSError as error:
        if error.errno in _NOT_THERE:
            return False
        raise _unreadable_file(name, error) from None


def _unreadable_file(name: str, error: OSError) -> InputFault:
    return refused("unreadable-file", quote(name), got=(error.strerror or "not readable").lower())


def _files_of_classes(challenge: Challenge, existing: Callable[[str], str | None]) -> list[tuple[str, int]]:
    """The reference files of a case, or of all cases, with their classes, in the order of the classes.

    existing  the file with this spelling of the class in its name, None if missing

    Lower case, upper case and capitals are tried next to the spelling of the challenge, as submissions may write them.
    Raises InputFault ("duplicate-file") for two files of a class: their nuclei would count twice.
    """
    if "{class}" not in challenge.reference.files:
        name = existing("")
        return [] if name is None else [(name, 0)]
    class_ids = challenge.class_ids()
    names: dict[int, str] = {}
    for spelling in challenge.class_spellings():
        variants = (spelling, spelling.lower(), spelling.upper(), spelling.capitalize(), spelling.title())
        name = next(filter(None, map(existing, variants)), None)
        if name is None:
            continue
        class_id = class_ids[spelling.casefold()]
        if (other := names.setdefault(class_id, name)) != name:
            raise refused("duplicate-file", quote(name, 120), wording="twice-for-class", other=other)
    return [(name, class_id) for class_id, name in names.items()]


def read_shared_reference(challenge: Challenge, folder: ReferenceFolder) -> SharedCases | None:
    """The reference of all cases, if shared files contain it; every case must be in it. Raises InputFault."""
    rules = challenge.reference
    if not rules.is_shared:
        return None
    files = shared_reference_files(challenge, folder)
    shared = read_shared(reference_side(challenge, folder), challenge.cases, files)
    missing = [case.name for case in challenge.cases if case.name not in shared.mentioned]
    faults = [fault("missing-file", quote(rules.files), wording="no-reference-entry", case=name) for name in missing]
    if shared.faults or faults:
        raise InputFault(*(shared.faults or faults))
    return shared


def shared_reference_files(challenge: Challenge, folder: ReferenceFolder) -> list[CaseFile]:
    """The file with the reference of all cases, or the files of the classes. Raises InputFault."""
    pattern = challenge.reference.files
    if "{class}" not in pattern:
        return [CaseFile(pattern, 0)]

    def existing(class_name: str) -> str | None:
        name = pattern.replace("{class}", class_name)
        return name if _is_there(folder, name) else None

    return [CaseFile(name, class_id) for name, class_id in _files_of_classes(challenge, existing)]


def in_image(parts: Sequence[Part], case: Case, rules: FormatRules) -> list[Part]:
    """Move parts, so that their coordinates count from the corner of the image and not of its slide."""
    if rules.coordinates == "image":
        return list(parts)
    offset = np.array(case.offset_xy)
    return [
        replace(part, points_xy=part.points_xy - offset) if isinstance(part, Outlines | Points) else part
        for part in parts
    ]


def _counts_of(parts: Sequence[Part]) -> Int64 | None:
    """Number of nuclei of each class, int64 (C,), if a case has only these numbers; None for any other case."""
    counts = [part.per_class for part in parts if isinstance(part, Counts)]
    return np.sum(counts, axis=0) if counts else None


def _check_class_probabilities(parts: Sequence[Part], where: str) -> None:
    """Raise InputFault if only some files of a prediction have class probabilities."""
    has_them = [
        isinstance(part, Outlines | Points | Instances) and part.class_probability is not None
        for part in parts
        if isinstance(part, LabelImage) or len(part)
    ]
    if any(has_them) and not all(has_them):
        having, files, wording = sum(has_them), len(has_them), "some-files-without-probabilities"
        raise refused("missing-probability", where, wording=wording, having=having, files=files)


def outside_image(outside: int, nuclei: int, case: Case, where: str) -> list[Finding]:
    """Warn of nuclei that can never match: outside the image, or without a pixel in it."""
    if not outside:
        return []
    return [fault("outside-image", where, outside=outside, nuclei=nuclei, width=case.width, height=case.height)]


def _check_instances(instances: Instances, limits: LimitRules, where: str) -> None:
    """Raise InputFault if there are too many instances, or some without a class."""
    if len(instances) > limits.instances_per_case:
        nuclei, limit = len(instances), limits.instances_per_case
        raise refused("too-large", where, wording="too-many-nuclei", nuclei=nuclei, limit=limit)
    if not instances.class_id.all():
        nameless = np.flatnonzero(instances.class_id == 0)
        first_ids = instances.source_id[nameless[:3]].tolist()
        raise refused("instance-without-class", where, count=len(nameless), first_ids=first_ids)


# --- kept references --------------------------------------------------------------------------------------------------


KEPT_BYTES = 32_000_000  # in each process
MET_ONCE_BYTES = 320  # what the key of a reference that was met once counts
SETTLED_SECONDS = 2  # a file that changed later may change again without another time
NO_RULES_OF_REFERENCES = {"cases", "submission", "metrics", "aggregation", "ranking", "audit", "publish", "confidence"}

Made = TypeVar("Made")
StoreKey = tuple[str, ...]  # rules, folder, case, state of its files


class Store:
    """A cache of pickled results of this process by all inputs; ``b""``: computed once so far.

    A result is kept when it is computed for the second time, so scoring one submission takes no more time and memory,
    and of many submissions only the first two read a reference.
    """

    def __init__(self) -> None:
        self.pickled: dict[StoreKey, bytes] = {}
        self.size = 0

    def kept(self, key: StoreKey, make: Callable[[], Made]) -> Made:
        """Return the result of ``make``, from the store if possible; a key that ends with "" is never stored."""
        if content := self.pickled.get(key):
            made: Made = pickle.loads(content)
            return made
        made = make()
        if key[-1]:
            self.add(key, pickle.dumps(made, pickle.HIGHEST_PROTOCOL) if key in self.pickled else b"")
        return made

    def add(self, key: StoreKey, content: bytes) -> None:
        """Store a new result if there is room; otherwise first remove results of other rules or folders."""
        size = len(content) or MET_ONCE_BYTES
        if self.size + size > KEPT_BYTES:
            self.pickled = {other: pickled for other, pickled in self.pickled.items() if other[:2] == key[:2]}
            self.size = sum(len(pickled) or MET_ONCE_BYTES for pickled in self.pickled.values())
        if self.size + size <= KEPT_BYTES:
            self.pickled[key] = content
            self.size += size


store = Store()


def kept_references(
    challenge: Challenge,
    folder: ReferenceFolder,
    cases: Sequence[tuple[Case, Annotations | None]],
    rules: str,
    side: Side,
) -> list[PreparedReference | InputFault]:
    """``read_reference`` of cases, from the store as long as their files have the same names, sizes, inodes and times.

    cases   each with its annotations, if a file of all cases has them
    rules   ``rules_of_references``

    The faults of a case are returned in its place. Labels of small images are checked together.
    """
    read: list[PreparedReference | InputFault] = []
    wheres: list[str] = []
    for case, content in cases:
        where = f"case {quote(case.name)}"
        try:
            if content is None:
                files = reference_files(challenge, folder, case)
                where = _where_of(side, case, files[0].name) if files else where
                key = rules, place_of(folder, ""), repr(case), file_states(folder, files)
                reading = partial(read_reference, challenge, folder, case, files, side)
                read.append(store.kept(key, reading))
            else:
                read.append(read_reference(challenge, folder, case, content, side))
        except InputFault as error:
            read.append(error)
        wheres.append(where)
    sides = [(index, one) for index, one in enumerate(read) if isinstance(one, PreparedReference)]
    images = [(f"reference of {wheres[index]}", one.instances) for index, one in sides]
    for (index, one), signs in zip(sides, label_signs(images, challenge.reference), strict=True):
        read[index] = replace(one, findings=(*one.findings, *signs))
    return read


def rules_of_references(challenge: Challenge) -> str:
    """All rules that a prepared reference may depend on."""
    return challenge.model_dump_json(exclude=NO_RULES_OF_REFERENCES)


def file_states(folder: ReferenceFolder, files: Sequence[CaseFile]) -> str:
    """Describe the state of files by names, sizes, inodes and times; "" if one is gone or has just changed."""
    states = []
    settled_ns = time.time_ns() - SETTLED_SECONDS * 1_000_000_000
    for name, class_id in ((name, file.class_id) for file in files for name in file.names):
        try:
            state = os.lstat(place_of(folder, name))
        except OSError:
            return ""
        if not stat.S_ISREG(state.st_mode) or max(state.st_mtime_ns, state.st_ctime_ns) > settled_ns:
            return ""
        states.append((name, class_id, state.st_size, state.st_ino, state.st_mtime_ns, state.st_ctime_ns))
    return repr(states)
