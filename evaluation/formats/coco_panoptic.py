"""COCO panoptic: a PNG image of the ids of segments, and a JSON file that says what the segments are.

An id is R + 256 G + 65536 B; 0 is no segment. In the JSON file::

    {"images": [{"id": 7, "file_name": "a.jpg"}], "categories": [{"id": 1, "name": "plasma"}],
     "annotations": [{"image_id": 7, "file_name": "a.png", "segments_info": [{"id": 3, "category_id": 1}]}]}

https://cocodataset.org/#format-data, section 4 (panoptic segmentation). The "2 channel" PNG files of panopticapi hold
the category in R and the number inside the category in G: another format, which is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from evaluation.challenge.base import filled
from evaluation.decoding.chunks import too_many
from evaluation.decoding.png import read_png
from evaluation.decoding.streams import damage_told
from evaluation.findings import Finding
from evaluation.findings.annotations import Crowd
from evaluation.findings.coco import (
    NoSegments,
    NotCoco,
    SegmentMismatch,
    SegmentsWithoutPixels,
    SeveralSegmentLists,
)
from evaluation.findings.errors import InputFault
from evaluation.findings.json_files import InvalidSegmentId, OtherValueOf
from evaluation.findings.labels import NoPanopticPng
from evaluation.formats.annotation_lists import Faults
from evaluation.formats.classes import SKIPPED, UNKNOWN
from evaluation.formats.coco_document import CategoryClasses, Document, read_document
from evaluation.formats.example import Example, image_bytes
from evaluation.formats.format import Format
from evaluation.formats.request import Request
from evaluation.model import Annotations, Case, Int32, Int64, LabelImage
from evaluation.model.label_runs import runs_of

IDS = 1 << 24
SHOWN_IDS = 3


def read_coco_panoptic(
    stream: BinaryIO, request: Request, case: Case, *, segments: tuple[BinaryIO, str] | None
) -> Annotations:
    """The segments of a panoptic PNG that are nuclei, as a label image with the class of each.

    segments  the JSON file, and its name for messages. The entry for the image is the one whose ``file_name`` is the
              name of the PNG, or whose image is named like the case; folders and suffixes do not count

    The class of a segment is found as in ``read_coco_json_collection``. Segments of skipped classes become background;
    so do crowds (``iscrowd`` 1), with a warning, unless their class is an ignore class. Every segment must have pixels
    and every id in the image must be that of a segment.

    Raises InputFault: too-large, wrong-format, unsupported-format, wrong-shape, unreadable-file for the PNG; not-json,
    too-large, too-deep, not-coco, invalid-annotation, no-segments, segment-mismatch, unknown-class for the JSON file.
    """
    assert segments is not None  # the rule "segments" is required
    with damage_told(request.where, "a PNG file"):
        ids = read_ids(stream, request, case)
        is_present = np.zeros(IDS, np.bool_)
        is_present[ids] = True
        is_present[0] = False
        present = np.flatnonzero(is_present)
        if len(present) > (limit := request.limits.instances_per_case):
            raise InputFault(too_many(request.where, "segments", limit, "instances_per_case"))
    with damage_told(segments[1], "a COCO JSON file"):
        class_of, warnings = read_segments(*segments, present, request, case)
    listed = np.array([class_of[id] for id in present.tolist()], np.int64)
    is_nucleus = listed != SKIPPED
    if not is_nucleus.all():
        is_present[present[~is_nucleus]] = False
        ids[~is_present[ids]] = 0
    class_id = listed[is_nucleus].astype(np.int16)
    return Annotations((LabelImage(runs_of(ids), class_of_instance=class_id, source=request.name),), tuple(warnings))


def read_ids(stream: BinaryIO, request: Request, case: Case) -> Int32:
    """The id at each pixel, int32 (H, W)."""
    limit = request.limits.bytes_per_file
    samples = read_png(stream, where=request.where, shape_yx=case.shape_yx, bytes_limit=limit)
    if samples.ndim != 3 or samples.shape[2] != 3 or samples.dtype != np.uint8:
        channels = 1 if samples.ndim == 2 else samples.shape[2]
        raise InputFault(NoPanopticPng(channels, samples.dtype.itemsize * 8).at(request.where))
    ids = samples[:, :, 2].astype(np.int32)
    for channel in (1, 0):
        ids <<= 8
        ids |= samples[:, :, channel]
    return ids


def read_segments(
    stream: BinaryIO, where: str, present: Int64, request: Request, case: Case
) -> tuple[dict[int, int], list[Finding]]:
    """The class id, or SKIPPED, of each segment of an image, by its id, and warnings."""
    document = read_document(stream, request, where=where)
    if document.is_one_image or not document.list_name:
        raise InputFault(NotCoco("no list 'annotations'").at(where))
    place, entries = find_entry(document, request, case)
    faults, warnings = Faults(where), Faults(where)
    classes = CategoryClasses(document, request)
    class_of: dict[int, int] = {}
    for index, entry in enumerate(entries):
        of_segment = f"{place}.segments_info[{index}]"
        id = entry.get("id") if type(entry) is dict else None
        if type(id) is not int or not 1 <= id < IDS or id in class_of:
            again = " again" if type(id) is int and id in class_of else ""
            faults.add(InvalidSegmentId(id, again, IDS - 1), of_segment)
            continue
        class_of[id] = class_of_segment(entry, of_segment, classes, faults, warnings)
    compare_ids(np.array(list(class_of), np.int64), present, place, faults)
    wrong = [*classes.names.findings(where), *faults.findings()]
    if wrong:
        raise InputFault(*wrong)
    return class_of, warnings.findings()


def class_of_segment(
    entry: Mapping[str, Any], place: str, classes: CategoryClasses, faults: Faults, warnings: Faults
) -> int:
    """The class id of a segment, or SKIPPED; 0 for one that is noted as a fault."""
    category = entry.get("category_id")
    if type(category) is not int and type(category) is not str and not classes.names.file_class:
        faults.add(OtherValueOf("'category_id' is", category, "a whole number or a name"), place)
        return 0
    class_id = classes.look_up(str(category))
    if class_id == UNKNOWN:
        classes.add_unknown(str(category), place)
        return 0
    if entry.get("iscrowd") == 1 and class_id >= 0:
        warnings.add(Crowd(), place)
        return SKIPPED
    return class_id


def find_entry(document: Document, request: Request, case: Case) -> tuple[str, list[Any]]:
    """The place of the entry of an image, and its segments. Raises InputFault: no-segments, invalid-annotation."""
    key = request.rules.key_of(case)
    wanted = {stem(name) for name in (request.name, case.name, key)} | {case.name, key}
    found: list[tuple[str, Any]] = []
    number = 0
    for piece in document.pieces:
        for entry in piece:
            if type(entry) is dict and is_entry_of(entry, document, wanted):
                found.append((f"annotations[{number}]", entry.get("segments_info")))
            number += 1
    if len(found) != 1:
        name = request.name.rpartition("/")[2]
        fault = SeveralSegmentLists(len(found), name) if found else NoSegments(number, name)
        raise InputFault(fault.at(document.where))
    place, entries = found[0]
    if type(entries) is not list:
        no_list = OtherValueOf("'segments_info' is", entries, "a list of segments")
        raise InputFault(no_list.at(f"{document.where}, {place}"))
    return place, entries


def is_entry_of(entry: Mapping[str, Any], document: Document, wanted: set[str]) -> bool:
    name = entry.get("file_name")
    if type(name) is str:
        return stem(name) in wanted
    image = entry.get("image_id")
    return type(image) in (int, str) and not wanted.isdisjoint(document.names(str(image)))


def stem(name: str) -> str:
    base = name.replace("\\", "/").rpartition("/")[2]
    return base.rpartition(".")[0] or base


def compare_ids(listed: Int64, present: Int64, place: str, faults: Faults) -> None:
    """Note ids of segments without pixels, and ids of pixels that are no segment."""
    if len(only := np.setdiff1d(present, listed)):
        faults.add(SegmentMismatch(shown(only)), place)
    if len(only := np.setdiff1d(listed, present)):
        faults.add(SegmentsWithoutPixels(shown(only)), place)


def shown(ids: npt.NDArray[np.int64]) -> str:
    """A few ids in words."""
    first = ", ".join(str(id) for id in ids[:SHOWN_IDS].tolist())
    rest = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    return f"{'ids' if len(ids) > 1 else 'the id'} {first}{rest}"


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    ids = made.labels(cases[0]).astype(np.uint32)
    return image_bytes(np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=-1).astype(np.uint8), ".png")


def example_segments(made: Example, key: str, cases: Sequence[Case]) -> bytes:
    annotations = [
        {
            "image_id": case.name,
            "file_name": filled(made.rules.files, case).rpartition("/")[2],
            "segments_info": [
                {"id": label, "category_id": made.names.index(name) + 1, "iscrowd": 0}
                for label, name in made.classes_of(case)
            ],
        }
        for case in cases
    ]
    return orjson.dumps({"annotations": annotations, "categories": made.categories()})


FORMAT = Format(
    words="COCO panoptic PNG (id = R + 256 G + 65536 B) and JSON",
    read=read_coco_panoptic,
    example=example,
    companion=example_segments,
)
