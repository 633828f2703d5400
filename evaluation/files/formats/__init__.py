"""A file for each family of formats: readers, what participants submit, examples; rules are in ``challenge.formats``.

Readers turn decoded values into annotations, and check everything on the way in. Files of participants are read by the
same readers in a child process that can do nothing else.

In: streams and a ``Request``. Out: ``Annotations`` or a ``Collection``; bytes when a format is written.
``scoring`` and the rooms above may import it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from evaluation.challenge.formats import FORMATS
from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.guard import Bounds, bounds_of, broke_off, decode, reader_faults_told
from evaluation.files.decoding.streams import SPLIT, damage_told
from evaluation.files.formats.format import CasesOnDemand, Format, Request
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault, NoRoomBeside
from nuclei_metrics.model import Case, Counts, Instances, LabelImage, LabelRuns

__all__ = [
    "Format",
    "OpenFile",
    "Request",
    "all_formats",
    "begin_annotations",
    "begin_several",
    "format_of",
    "module_of",
    "read_annotations",
    "read_collection",
    "read_collection_guarded",
]

BY_NAME = (".nii", ".nii.gz", ".nrrd")  # SimpleITK reads files of a name only

Companions = Mapping[str, tuple[BinaryIO, str]]
NO_COMPANIONS: Companions = MappingProxyType({})
_FAMILIES = {  # modules of formats, in the order of detection; the modules of others are called like their format
    "arrays": ("conic_array", "pannuke_masks", "hovernet_mat", "nary_mat"),
    "label_image": ("label_image", "colour_map"),
    "run_lengths": ("rle_csv",),
    "tables": ("nucls_csv", "points_csv", "counts_csv"),
    "geojson": ("geojson",),
    "listed_nuclei": ("yolo_txt", "polygons_json", "points_json", "contours_json"),
    "coco": ("coco_json", "midog_json"),
    "annotation_xml": ("asap_xml", "aperio_xml"),
}


def module_of(name: str) -> str:
    """Return the module that a format is in."""
    family = next((family for family, formats in _FAMILIES.items() if name in formats), name)
    return f"{__name__}.{family}"


@cache
def format_of(name: str) -> Format:
    """Return a format; its module is imported on first use, so that a challenge pays only for the formats it has."""
    formats: Mapping[str, Format] = import_module(module_of(name)).FORMATS
    return formats[name]


def all_formats() -> Iterator[tuple[str, Format]]:
    """Yield every format, in the order of detection."""
    for name in dict.fromkeys([*chain.from_iterable(_FAMILIES.values()), *FORMATS]):
        yield name, format_of(name)


def read_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS
) -> Annotations:
    """Read the annotations of one case, in the format of the rules. Raises InputFault with all faults.

    companions  streams of the files that go with it, and their names for messages, by the key that has their pattern
    """
    read = format_of(request.rules.format).read
    if read is None:
        raise ValueError(f"{request.rules.format} has no files of one case")
    with reader_faults_told(request.where), _memory_told(request):
        return read(stream, request, case, **companions)


def read_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the annotations of all cases, by their names in the file. Raises InputFault with all faults.

    The stream stays open as long as the collection is read from: large arrays are decoded case by case.
    """
    read_all = format_of(request.rules.format).read_all
    if read_all is None:
        raise ValueError(f"{request.rules.format} has no files of all cases")
    with reader_faults_told(request.where), _memory_told(request):
        return read_all(stream, request, cases)


def _memory_told(request: Request) -> AbstractContextManager[None]:
    """Turn MemoryError of a reader of text into a finding; readers of pixels do that themselves."""
    return nullcontext() if request.rules.dense else damage_told(request.where, "a text", fix=SPLIT)


# --- The same in another process, for files of participants. ----------------------------------------------------------


def begin_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS, *, owner: str
) -> Callable[[], Annotations]:
    """Start ``read_annotations`` in the decoder; return a function that waits for the result. Streams stay open.

    owner   the submission: a decoder process serves one submission only

    Raises InputFault, also if decoding takes too much.
    """
    streams = [stream, *(opened for opened, _ in companions.values())]
    wheres = {key: where for key, (_, where) in companions.items()}
    bounds, writes = _bounds_for(streams, request, [case]), request.name.lower().endswith(BY_NAME)
    task, arguments = f"{__name__}:yield_annotations", (request, case, wheres)
    answers = decode(task, streams, arguments, where=request.where, owner=owner, bounds=bounds, writes=writes)

    def wait() -> Annotations:
        annotations = next(answers, None)
        if next(answers, None) is not None:
            raise broke_off(request.where, 0)
        return _checked(annotations, request, case)

    return wait


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open file of a case, the request for its annotations, and the files that go with it."""

    stream: BinaryIO
    request: Request
    case: Case
    companions: Companions

    @property
    def streams(self) -> list[BinaryIO]:
        return [self.stream, *(opened for opened, _ in self.companions.values())]


def begin_several(files: Sequence[OpenFile], *, owner: str) -> list[Callable[[], Annotations]]:
    """Begin ``begin_annotations`` for several small files with one request, which costs little more than for one file.

    Each function that is returned waits for the annotations of its file. If decoding takes too much for any of them,
    each file is decoded by itself when its annotations are requested. Streams stay open until then.
    """
    jobs = [(file.request, file.case, {key: where for key, (_, where) in file.companions.items()}) for file in files]
    each = [_bounds_for(file.streams, file.request, [file.case]) for file in files]
    bounds = Bounds(max(one.memory_bytes for one in each), max(one.seconds for one in each))
    streams = [stream for file in files for stream in file.streams]
    writes = any(file.request.name.lower().endswith(BY_NAME) for file in files)
    task, where = f"{__name__}:_yield_several", files[0].request.where
    answers = decode(task, streams, (jobs,), where=where, owner=owner, bounds=bounds, writes=writes)

    @cache
    def of_all() -> Sequence[Any]:
        with suppress(InputFault, NoRoomBeside):
            match [*answers]:
                case [tuple(of_files)] if len(of_files) == len(files):
                    return of_files
        return ()

    def wait(index: int) -> Annotations:
        file = files[index]
        if not (of_files := of_all()):
            return begin_annotations(file.stream, file.request, file.case, file.companions, owner=owner)()
        if of_files[index] and _are_findings(of_files[index]):
            raise InputFault(*of_files[index])
        return _checked(of_files[index], file.request, file.case)

    return [partial(wait, index) for index in range(len(files))]


def _yield_several(
    streams: Sequence[BinaryIO], jobs: Sequence[tuple[Request, Case, Mapping[str, str]]]
) -> Iterator[tuple[Annotations | tuple[Finding, ...], ...]]:
    """Read the annotations of several files, in the child process: of each its annotations or findings."""
    remaining, answers = iter(streams), list[Annotations | tuple[Finding, ...]]()
    for request, case, wheres in jobs:
        try:
            answers += yield_annotations([next(remaining), *islice(remaining, len(wheres))], request, case, wheres)
        except InputFault as fault:
            answers.append(fault.findings)
    yield tuple(answers)


def _checked(annotations: Any, request: Request, case: Case) -> Annotations:
    """Check that a decoder's answer is possible for a reader: images of the right size, and classes that exist.

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
    """Read the annotations of a file, in the child process."""
    companions = dict(zip(wheres, zip(streams[1:], wheres.values(), strict=True), strict=True))
    yield read_annotations(streams[0], request, case, companions)


def read_collection_guarded(stream: BinaryIO, request: Request, cases: Mapping[str, Case], *, owner: str) -> Collection:
    """Read a collection in another process; its cases can be gone through once, in their order."""
    bounds, task = _bounds_for([stream], request, list(cases.values())), f"{__name__}:_yield_collection"
    answers = decode(task, [stream], (request, dict(cases)), where=request.where, owner=owner, bounds=bounds)
    by_name = {case.name: case for case in cases.values()}

    def decode_next(name: str) -> Annotations:
        """Return the annotations of one case, discarding earlier cases in the stream."""
        answer = next((answer for present, answer in present_answers if present == name), None)
        if answer and _are_findings(answer):
            raise InputFault(*answer)
        return _checked(answer, request, by_name[name])

    match next(answers, None):
        case (tuple(names), Mapping() as unknown, tuple(findings)) if set(names) <= by_name.keys():
            present_answers = zip(names, answers, strict=False)
            if all(type(count) is int for count in unknown.values()) and _are_findings(findings):
                return Collection(CasesOnDemand(names, decode_next), unknown, findings)
    raise broke_off(request.where, 0)


def _are_findings(items: Any) -> bool:
    return isinstance(items, tuple) and all(isinstance(item, Finding) for item in items)


def _yield_collection(streams: Sequence[BinaryIO], request: Request, cases: Mapping[str, Case]) -> Iterator[Any]:
    """Yield the names of the cases and unknown names, then annotations or faults of each case, in the child process."""
    collection = read_collection(streams[0], request, cases)
    yield tuple(collection.cases), dict(collection.unknown), collection.findings
    for name in collection.cases:
        try:
            yield collection.cases[name]
        except InputFault as fault:
            yield fault.findings


def _bounds_for(streams: Sequence[BinaryIO], request: Request, cases: Sequence[Case]) -> Bounds:
    """Bound the decoding of files by their size and the size of the images."""
    file_bytes = sum(stream.seek(0, os.SEEK_END) for stream in streams)
    pixels = sum(case.height * case.width for case in cases)
    return bounds_of(file_bytes, pixels, request.limits.bytes_per_file)
