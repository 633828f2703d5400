"""The same readers, called where files of participants are decoded: in a child process that can do nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from evaluation.decoding.guard import Bounds, bounds_of, decode
from evaluation.findings.errors import InputFault
from evaluation.formats import NO_COMPANIONS, Companions, Request, read_annotations, read_collection
from evaluation.model import Annotations, Case, Collection

BY_NAME = (".nii", ".nii.gz", ".nrrd")  # SimpleITK reads files of a name only


def begin_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS, *, owner: str
) -> Callable[[], Annotations]:
    """``read_annotations``, begun in another process; what is returned waits for it. The streams stay open until then.

    owner   the submission: a process that has seen the files of one sees none of another

    Raises InputFault, also if decoding takes too much.
    """
    streams = [stream, *(opened for opened, _ in companions.values())]
    wheres = {key: where for key, (_, where) in companions.items()}
    answers = decode(
        f"{__name__}:yield_annotations",
        streams,
        (request, case, wheres),
        where=request.where,
        owner=owner,
        bounds=bounds_for(streams, request, [case]),
        writes=request.name.lower().endswith(BY_NAME),
    )

    def found() -> Annotations:
        (annotations,) = answers
        return annotations  # type: ignore[no-any-return]

    return found


def yield_annotations(
    streams: Sequence[BinaryIO], request: Request, case: Case, wheres: Mapping[str, str]
) -> Iterator[Annotations]:
    """What ``read_annotations`` gives, in the child."""
    companions = dict(zip(wheres, zip(streams[1:], wheres.values(), strict=True), strict=True))
    yield read_annotations(streams[0], request, case, companions)


def read_collection_guarded(stream: BinaryIO, request: Request, cases: Mapping[str, Case], *, owner: str) -> Collection:
    """As ``read_collection``; the cases can be gone through once, in their order."""
    bounds = bounds_for([stream], request, list(cases.values()))
    answers = decode(
        f"{__name__}:yield_collection",
        [stream],
        (request, dict(cases)),
        where=request.where,
        owner=owner,
        bounds=bounds,
    )
    names, unknown, findings = next(answers)
    return Collection(CasesInOrder(names, answers), unknown, findings)


def yield_collection(streams: Sequence[BinaryIO], request: Request, cases: Mapping[str, Case]) -> Iterator[Any]:
    """The names of the cases and what is said of none, then annotations or faults of each case, in the child."""
    found = read_collection(streams[0], request, cases)
    yield tuple(found.cases), dict(found.unknown), found.findings
    for name in found.cases:
        try:
            yield found.cases[name]
        except InputFault as fault:
            yield fault.findings


class CasesInOrder(Mapping[str, Annotations]):
    """What comes from the child, one case after the other."""

    def __init__(self, names: Sequence[str], answers: Iterator[Any]) -> None:
        self.names = names
        self.answers = zip(names, answers, strict=False)

    def __getitem__(self, name: str) -> Annotations:
        for present, answer in self.answers:
            if present == name:
                if isinstance(answer, Annotations):
                    return answer
                raise InputFault(*answer)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def bounds_for(streams: Sequence[BinaryIO], request: Request, cases: Sequence[Case]) -> Bounds:
    """Bounds from the size of the files and of the images."""
    file_bytes = sum(stream.seek(0, os.SEEK_END) for stream in streams)
    pixels = sum(case.height * case.width for case in cases)
    return bounds_of(file_bytes, pixels, request.limits.bytes_per_file)
