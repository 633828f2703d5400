"""Files of participants are decoded here: the same readers are called in a child process that can do nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from evaluation.decoding.guard import Bounds, bounds_of, broke_off, decode
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.formats import NO_COMPANIONS, Companions, Request, read_annotations, read_collection
from evaluation.formats.format import CasesOnDemand
from evaluation.model import Annotations, Case, Collection, Counts, Instances, LabelImage, LabelRuns

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
    bounds, writes = bounds_for(streams, request, [case]), request.name.lower().endswith(BY_NAME)
    task, arguments = f"{__name__}:yield_annotations", (request, case, wheres)
    answers = decode(task, streams, arguments, where=request.where, owner=owner, bounds=bounds, writes=writes)

    def found() -> Annotations:
        annotations = next(answers, None)
        if next(answers, None) is not None:
            raise broke_off(request.where, 0)
        return checked(annotations, request, case)

    return found


def checked(annotations: Any, request: Request, case: Case) -> Annotations:
    """Check that a decoder's answer is one that a reader can give: images of the right size, and classes that exist.

    Raises InputFault.
    """
    lowest, highest = min(0, *request.classes.ids.values()), len(request.classes.names)
    fits = isinstance(annotations, Annotations)
    for part in annotations.parts if fits else ():
        planes: list[LabelRuns | Instances] = []
        ids, width = [getattr(part, "class_id", 0)], getattr(part, "class_probability", None)
        match part:
            case LabelImage(labels=labels, class_map=class_map, class_of_instance=of_instance):
                planes += [labels] if class_map is None else [labels, class_map]
                ids += [each for each in (class_map and class_map.value, of_instance) if each is not None]
            case Instances():
                planes.append(part)
            case Counts():
                width = part.per_class
        fits &= all(tuple(plane.shape_yx) == case.shape_yx for plane in planes)
        fits &= width is None or width.shape[-1] == highest
        fits &= all(lowest <= np.min(each, initial=0) and np.max(each, initial=0) <= highest for each in ids)
    if not fits:
        raise broke_off(request.where, 0)
    return annotations  # type: ignore[no-any-return]


def yield_annotations(
    streams: Sequence[BinaryIO], request: Request, case: Case, wheres: Mapping[str, str]
) -> Iterator[Annotations]:
    """What ``read_annotations`` gives, in the child."""
    companions = dict(zip(wheres, zip(streams[1:], wheres.values(), strict=True), strict=True))
    yield read_annotations(streams[0], request, case, companions)


def read_collection_guarded(stream: BinaryIO, request: Request, cases: Mapping[str, Case], *, owner: str) -> Collection:
    """As ``read_collection``; the cases can be gone through once, in their order."""
    bounds, task = bounds_for([stream], request, list(cases.values())), f"{__name__}:yield_collection"
    answers = decode(task, [stream], (request, dict(cases)), where=request.where, owner=owner, bounds=bounds)
    by_name = {case.name: case for case in cases.values()}

    def decode_next(name: str) -> Annotations:
        """The answer about a case; those about cases before it, which are not wanted, are skipped."""
        answer = next((answer for present, answer in present_answers if present == name), None)
        if isinstance(answer, tuple) and answer and are_findings(answer):
            raise InputFault(*answer)
        return checked(answer, request, by_name[name])

    match next(answers, None):
        case (tuple(names), Mapping() as unknown, tuple(findings)) if set(names) <= by_name.keys():
            present_answers = zip(names, answers, strict=False)
            if all(type(count) is int for count in unknown.values()) and are_findings(findings):
                return Collection(CasesOnDemand(names, decode_next), unknown, findings)
    raise broke_off(request.where, 0)


def are_findings(items: Iterable[Any]) -> bool:
    return all(isinstance(item, Finding) for item in items)


def yield_collection(streams: Sequence[BinaryIO], request: Request, cases: Mapping[str, Case]) -> Iterator[Any]:
    """The names of the cases and what is said of none, then annotations or faults of each case, in the child."""
    collection = read_collection(streams[0], request, cases)
    yield tuple(collection.cases), dict(collection.unknown), collection.findings
    for name in collection.cases:
        try:
            yield collection.cases[name]
        except InputFault as fault:
            yield fault.findings


def bounds_for(streams: Sequence[BinaryIO], request: Request, cases: Sequence[Case]) -> Bounds:
    """Bounds from the size of the files and of the images."""
    file_bytes = sum(stream.seek(0, os.SEEK_END) for stream in streams)
    pixels = sum(case.height * case.width for case in cases)
    return bounds_of(file_bytes, pixels, request.limits.bytes_per_file)
