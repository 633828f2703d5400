"""The files of each case of a submission, for all layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluation.findings import Finding


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file of a case, and the files that go with it.

    class_id    the class of everything in it, or 0: the file says it
    companions  names of these files by the key of the rules that has their pattern: class_map, class_table
    """

    name: str
    class_id: int
    companions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file of all cases; ``class_id`` as in ``CaseFile``."""

    name: str
    class_id: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of a submission by case.

    files         files of each case by its name, in the order of their classes; no entry for a case without files
    missing       cases of cases.csv without any file; which cases a shared file lacks is known when it has been read
    findings      what is wrong, errors and warnings, sorted
    shared_files  files that hold all cases, in the order of their classes
    inputs        names of the images and files that the platform's jobs were given
    """

    files: dict[str, tuple[CaseFile, ...]]
    missing: frozenset[str]
    findings: tuple[Finding, ...]
    shared_files: tuple[SharedFile, ...] = ()
    inputs: frozenset[str] = frozenset()
