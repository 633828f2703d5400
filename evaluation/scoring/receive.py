"""A submission before its cases are read: which file is which case, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.decoding.content import HEAD_BYTES, ZARR_FOLDER, foreign_content, is_of_zarr
from evaluation.findings import Finding, quote
from evaluation.findings.errors import InputFault, SubmissionRejected
from evaluation.formats.images import DOCUMENTS, list_images
from evaluation.model import Annotations
from evaluation.scoring.read import read_shared, reference_side, submission_side
from evaluation.submission import CaseFile, SubmissionFiles, collection_findings, find_case_files, open_submission
from evaluation.submission.files import unsafe

CaseContent = Annotations | tuple[CaseFile, ...]  # of files of all cases, or files of its own
ZIP_IN_ZIP = "a ZIP, which is not opened: hand in that one, or its files"


def rejection(challenge: Challenge, findings: Iterable[Finding], inputs: Iterable[str] = ()) -> SubmissionRejected:
    """The exception for a submission with faults. ``inputs``: names of the images that jobs had as input."""
    names = {name for case in challenge.cases for name in (case.name, case.group)} | set(inputs)
    return SubmissionRejected(*findings).hiding(names if challenge.submission.case_names == "hidden" else ())


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedSubmission:
    """A submission as far as it is known before its cases are read: what belongs to each case, and findings."""

    files: SubmissionFiles
    contents: Mapping[str, CaseContent]
    findings: tuple[Finding, ...]
    inputs: frozenset[str] = frozenset()

    @property
    def has_errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


def check_links(challenge: Challenge, files: SubmissionFiles, folder: Path) -> None:
    """Refuse a file that is one of the challenge under another name (a hard link), which would score its own reference.

    Raises SubmissionRejected ("unsafe-path").
    """
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


def named_by_content(finding: Finding, files: SubmissionFiles) -> Finding:
    """A finding that nothing was found, with what the first file is if it is another tool's."""
    if finding.code != "no-case-found" or not files.names:
        return finding
    what = ZARR_FOLDER if any(map(is_of_zarr, files.names)) else ""
    with suppress(InputFault), files.open(files.names[0]) as stream:
        head = stream.read(HEAD_BYTES)
        is_zip = head.startswith(b"PK") and files.names[0].lower().endswith(".zip")
        what = what or (ZIP_IN_ZIP if is_zip else foreign_content(head))
    return replace(finding, fix=f"{finding.fix} {quote(files.names[0], 120)} is {what}.") if what else finding


def with_image_ids(challenge: Challenge, folder: Path) -> Challenge:
    """The challenge with the ids of its images, under which results of COCO name them, if its reference has them.

    Nothing changes if cases.csv has the column ``index``, or if there is no reference, as at a participant's.
    """
    rules = challenge.reference
    path = folder / rules.files
    formats = {rules.format, challenge.submission.format}
    is_known = any(case.index is not None for case in challenge.cases)
    if is_known or not (rules.is_shared and formats <= set(DOCUMENTS) and path.is_file()):
        return challenge
    try:
        with path.open("rb") as stream:
            images = list_images(stream, reference_side(challenge, folder).request(quote(path.name), path.name, 0))
    except InputFault:  # told where the reference is read
        return challenge
    ids = {name: int(image.id) for image in images for name in image.names if image.id and image.id.isdecimal()}
    cases = [replace(case, index=ids.get(rules.key_of(case))) for case in challenge.cases]
    return challenge.model_copy(update={"cases": tuple(cases)})


def receive_submission(challenge: Challenge, path: Path, folder: Path | None = None) -> ReceivedSubmission:
    """Find the files of every case; files that hold all cases are read here. Raises SubmissionRejected, WrongUsage.

    folder   of the challenge, whose reference may tell the ids of images
    """
    try:
        files = open_submission(path, challenge.limits)
    except SubmissionRejected as error:
        raise rejection(challenge, error.findings) from None
    layout = find_case_files(files, challenge)
    if not layout.shared_files:
        findings_named = tuple(named_by_content(finding, files) for finding in layout.findings)
        return ReceivedSubmission(files, layout.files, findings_named, layout.inputs)
    cases = (challenge if folder is None else with_image_ids(challenge, folder)).cases
    shared = read_shared(submission_side(challenge, files), cases, layout.shared_files)
    unmatched = collection_findings(challenge, shared.mentioned, shared.unknown)
    findings = (*layout.findings, *shared.faults, *shared.warnings, *([] if shared.faults else unmatched))
    return ReceivedSubmission(files, shared.cases, findings)
