"""A submission before its cases are read: which file is which case, and how much memory each case takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.challenge import Challenge, FormatRules
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.streams import HEAD_BYTES, ZARR_FOLDER, foreign_content, is_of_zarr
from evaluation.files.formats.detect import list_images
from evaluation.files.submission import (
    CaseFile,
    PlacedFiles,
    SubmissionFiles,
    collection_findings,
    find_case_files,
    open_of_challenge,
    rejection,
)
from evaluation.files.submission.files import unsafe
from evaluation.files.submission.jobs import INPUTS_FILE
from evaluation.findings import Finding, quote
from evaluation.findings.errors import InputFault
from evaluation.scoring import read as reading
from evaluation.scoring.read import ReferenceFolder, SharedCases
from evaluation.scoring.workers import CASE_BYTES
from nuclei_metrics.model import Case, Instances

CaseContent = Annotations | tuple[CaseFile, ...]  # of files of all cases, or files of its own
ZIP_IN_ZIP = "a ZIP, which is not opened: submit this ZIP, or its files"


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedSubmission:
    """A submission before its cases are read: the content of each case, and findings."""

    files: SubmissionFiles
    contents: Mapping[str, CaseContent]
    findings: tuple[Finding, ...]
    inputs: frozenset[str] = frozenset()

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


def check_links(challenge: Challenge, files: SubmissionFiles, folder: ReferenceFolder) -> None:
    """Refuse hard links to files of the challenge, which would score the reference itself.

    Raises SubmissionRejected ("unsafe-path").
    """
    if isinstance(folder, PlacedFiles):
        return
    linked = {identity: name for name in files.names for identity in files.linked_identities(name)}
    if not linked:
        return
    inside = files.path.resolve()
    own = {
        (status.st_dev, status.st_ino)
        for path in folder.rglob("*")
        if not path.resolve().is_relative_to(inside)
        for status in [path.stat()]
    }
    if forbidden := sorted(name for identity, name in linked.items() if identity in own):
        raise rejection(challenge, [unsafe(name, "a file of the challenge under another name") for name in forbidden])


def _named_by_content(finding: Finding, files: SubmissionFiles) -> Finding:
    """Report that no file was found, and the type of the first file if it comes from another tool."""
    name = next((name for name in files.names if name != INPUTS_FILE), None)
    if finding.code != "no-case-found" or name is None:
        return finding
    what = ZARR_FOLDER if any(map(is_of_zarr, files.names)) else ""
    with suppress(InputFault), files.open(name) as stream:
        head = stream.read(HEAD_BYTES)
        is_zip = head.startswith(b"PK") and name.lower().endswith(".zip")
        what = what or (ZIP_IN_ZIP if is_zip else foreign_content(head))
    return finding.advised(f"{quote(name, 120)} is {what}.") if what else finding


def _with_image_ids(challenge: Challenge, folder: ReferenceFolder) -> Challenge:
    """The challenge with the ids of its images, under which results of COCO name them, if its reference has them.

    Nothing changes if cases.csv has the column ``index``, or if there is no reference, as at a participant's.
    """
    rules = challenge.reference
    path = Path(reading.place_of(folder, rules.files))
    are_results = rules.image_ids and challenge.submission.image_ids
    is_known = any(case.index is not None for case in challenge.cases)
    if is_known or not (rules.is_shared and are_results and path.is_file()):
        return challenge
    try:
        with path.open("rb") as stream:
            side = reading.reference_side(challenge, folder)
            images = list_images(stream, side.request(quote(path.name), path.name, 0))
    except InputFault:  # told where the reference is read
        return challenge
    ids = {name: int(image.id) for image in images for name in image.names if image.id and image.id.isdecimal()}
    cases = [replace(case, index=ids.get(rules.key_of(case))) for case in challenge.cases]
    return challenge.model_copy(update={"cases": tuple(cases)})


def receive_submission(
    challenge: Challenge, path: Path | SubmissionFiles, folder: ReferenceFolder | None = None
) -> ReceivedSubmission:
    """Find the files of every case; files that contain all cases are read here. Raises SubmissionRejected, WrongUsage.

    folder   of the challenge; its reference may contain the ids of images
    """
    files = path if isinstance(path, SubmissionFiles) else open_of_challenge(path, challenge)
    layout = find_case_files(files, challenge)
    if not layout.shared_files:
        findings_named = tuple(_named_by_content(finding, files) for finding in layout.findings)
        return ReceivedSubmission(files, layout.files, findings_named, layout.inputs)
    cases = (challenge if folder is None else _with_image_ids(challenge, folder)).cases
    shared = reading.read_shared(reading.submission_side(challenge, files), cases, layout.shared_files)
    unmatched = collection_findings(challenge, shared.mentioned, shared.unknown)
    findings = (*layout.findings, *shared.faults, *shared.warnings, *([] if shared.faults else unmatched))
    return ReceivedSubmission(files, shared.cases, findings)


# --- memory, estimated by constants that were measured ----------------------------------------------------------------


BYTES_PER_PIXEL = 16
BYTES_PER_TEXT_BYTE = 10  # and of a compressed label image, for its runs
TIFF_ROWS_AT_ONCE = 2048  # of a TIFF of labels; its tiles are seldom higher
GZIP_RATIO = 12  # of annotations as text


def memory_needs(
    challenge: Challenge,
    cases: Sequence[Case],
    *,
    folder: ReferenceFolder | None = None,
    shared: SharedCases | None = None,
    files: SubmissionFiles | None = None,
    contents: Mapping[str, Annotations | Sequence[CaseFile]] | None = None,
) -> list[int]:
    """Bytes of memory that each case takes beyond the program itself, by the formula above.

    folder     of the reference, if it is read
    shared     content of reference files with all cases
    files      of the submission, if it is read, with ``contents`` of each case
    """
    needs = []
    for case in cases:
        sides = [0]
        if shared is not None:
            sides.append(BYTES_PER_TEXT_BYTE * _array_bytes(shared.cases[case.name]))
        elif folder is not None:
            of_reference: Sequence[CaseFile] = ()
            with suppress(InputFault):  # told when they are read
                of_reference = reading.reference_files(challenge, folder, case)
            file_bytes = _unpacked_bytes(of_reference, lambda name: os.stat(reading.place_of(folder, name)).st_size)  # noqa: PTH116
            sides.append(_side_bytes(challenge.reference, case, file_bytes))
        content = (contents or {}).get(case.name)
        if isinstance(content, Annotations):
            sides.append(BYTES_PER_TEXT_BYTE * _array_bytes(content))
        elif content is not None and files is not None:
            sides.append(_side_bytes(challenge.submission, case, _unpacked_bytes(content, files.size)))
        needs.append(CASE_BYTES + 3 * max(sides) // 2)
    return needs


def _side_bytes(rules: FormatRules, case: Case, file_bytes: int) -> int:
    """Memory that reading one side of a case takes.

    >>> from evaluation.challenge import Challenge
    >>> rules = Challenge.from_preset("monusac2020", name="an example")
    >>> case = Case("image", "patient", 1000, 1000)
    >>> _side_bytes(rules.reference, case, 200_000), _side_bytes(rules.submission, case, 200_000)
    (2000000, 16200000)
    """
    if rules.dense:
        needs_plane = rules.value("class_channel") is not None or rules.value("components") is not None
        if rules.files.endswith((".tif", ".tiff")) and not needs_plane:  # decoded in bands
            rows = min(case.height, TIFF_ROWS_AT_ONCE)
            return BYTES_PER_PIXEL * rows * case.width + BYTES_PER_TEXT_BYTE * file_bytes
        return BYTES_PER_PIXEL * case.height * case.width + file_bytes
    return BYTES_PER_TEXT_BYTE * file_bytes


def _unpacked_bytes(files: Sequence[CaseFile], size: Callable[[str], int]) -> int:
    """Return the bytes of the files of a case, up to one that cannot be opened; of gzip files an estimate."""
    total = 0
    with suppress(InputFault, OSError, RuntimeError):
        for name in (name for file in files for name in file.names):
            total += size(name) * (GZIP_RATIO if name.endswith(".gz") else 1)
    return total


def _array_bytes(annotations: Annotations) -> int:
    """Bytes of the coordinates or runs that are in memory already."""
    arrays = (
        part.run_start if isinstance(part, Instances) else getattr(part, "points_xy", None)
        for part in annotations.parts
    )
    return sum(array.nbytes for array in arrays if array is not None)
