"""Names of files in submissions: which are safe to read, which operating systems leave behind, and findings."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import replace

from evaluation.challenge import LimitRules
from evaluation.findings import EXAMPLES_SHOWN, Finding, fault, quote
from evaluation.findings.errors import SubmissionRejected

MAX_NAME_CHARACTERS = 1000
MAX_PART_CHARACTERS = 255
LITTER = {"__macosx", ".ds_store", "thumbs.db", "desktop.ini", "icon\r"}
ROOT = "submission"
OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
PLATFORM_CSV = "predictions.csv"  # what the platform makes of a CSV file that is handed in as it is


def is_litter(part: str) -> bool:
    """Whether a part of a name is what operating systems leave behind."""
    return part.casefold() in LITTER or part.startswith("._")


def what_is_unsafe(name: str) -> str:
    """Why a name is refused, or "".

    >>> what_is_unsafe("P1/../../etc/passwd")
    "a name with '..'"
    >>> what_is_unsafe("P1/P1_1.mat")
    ''
    """
    parts = name.split("/")
    if not name.isprintable():
        return "a name with control characters or broken ones"
    if "\\" in name:
        return "a name with a backslash"
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        return "an absolute path"
    if ".." in parts:
        return "a name with '..'"
    if "" in parts or "." in parts:
        return "a name with an empty part or '.'"
    if len(name) > MAX_NAME_CHARACTERS or max(len(part) for part in parts) > MAX_PART_CHARACTERS:
        return f"a name of {len(name):,} characters"
    return ""


def checked_names(names: Iterable[str], faults: Faults, limits: LimitRules) -> tuple[str, ...]:
    """The names, sorted. Raises SubmissionRejected if there are none, too many, or unsafe ones."""
    safe = []
    for name in names:
        if why := what_is_unsafe(name):
            faults.add(unsafe(name, why))
        safe.append(name)
        if len(safe) > limits.files_per_submission:
            raise SubmissionRejected(fault("too-many-files", ROOT, limit=limits.files_per_submission))
    if faults.findings:
        raise SubmissionRejected(*faults.findings)
    if not safe:
        raise SubmissionRejected(fault("empty-submission", ROOT))
    return tuple(sorted(safe))


def check_total(sizes: Iterable[int], limits: LimitRules) -> None:
    """Refuse files whose sizes add up to more than a submission may have. Raises SubmissionRejected."""
    if (total := sum(sizes)) > limits.bytes_per_submission:
        raise SubmissionRejected(
            fault("too-large", ROOT, wording="too-many-bytes-in-all", size=total, limit=limits.bytes_per_submission)
        )


class Faults:
    """Findings; of each kind the first few are listed, the others counted."""

    def __init__(self) -> None:
        self.by_kind: dict[tuple[str, str], list[Finding]] = {}

    def add(self, finding: Finding) -> None:
        alike = self.by_kind.setdefault((finding.code, finding.got), [])
        if len(alike) < EXAMPLES_SHOWN:
            alike.append(finding)
        else:
            alike[-1] = replace(alike[-1], count=alike[-1].count + 1)

    @property
    def findings(self) -> list[Finding]:
        return [finding for alike in self.by_kind.values() for finding in alike]


def unsafe(name: str, why: str) -> Finding:
    return fault("unsafe-path", quote(name), wording="backslash" if "backslash" in why else "", got=why)


def unreadable(name: str, why: str) -> Finding:
    return fault("unreadable-file", quote(name), wording="damaged-in-submission", got=why)


def why_unreadable(error: OSError) -> str:
    """Why a file could not be read. Raises the error where space, memory or open files of the machine have run out."""
    if error.errno in OF_THE_MACHINE:
        raise error
    return (error.strerror or "not readable").lower()
