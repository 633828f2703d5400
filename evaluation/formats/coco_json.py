"""COCO JSON: a data set, a list of results, or the masks that mmdetection predicts for one image.

::

    {"images": [{"id": 7, "file_name": "a.png", "height": 4, "width": 5}], "categories": [{"id": 1, "name": "plasma"}],
     "annotations": [{"image_id": 7, "category_id": 1, "segmentation": …, "iscrowd": 0, "score": 0.9}]}
    [{"image_id": 7, "category_id": 1, "segmentation": …, "score": 0.9}]
    {"labels": [0], "scores": [0.9], "masks": […]}

A segmentation is a list of polygons ``[x1, y1, x2, y2, …]``, together one nucleus, or a run-length code
``{"size": [H, W], "counts": …}``, compressed or not (see ``run_lengths``). Files may be compressed with gzip.
https://cocodataset.org/#format-data, https://cocodataset.org/#format-results
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.decoding.streams import check_number, damage_told
from evaluation.findings import FAULTS_NAMED, quote
from evaluation.findings.errors import InputFault, refusal
from evaluation.formats.annotation_lists import NUMBERS
from evaluation.formats.coco_document import (
    Document,
    Nuclei,
    Nucleus,
    NucleusTable,
    Places,
    images_of_case,
    read_all,
    read_document,
    read_one,
)
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request, are_coordinates
from evaluation.formats.run_lengths import CodeRuns, instances_from_runs, join_runs, runs_of_counts
from evaluation.model import Annotations, Case, Collection, Float64, Instances, Int64, Outlines, Part
from evaluation.model.intervals import expand

SEGMENTATION = "a list of polygons [x1, y1, x2, y2, …], or an object with 'size' and 'counts'"


def read_coco_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The nuclei of one case from its own file: those of its only image, or of the image that is named like the case.

    Classes, crowds, probabilities and faults as in ``read_coco_json_collection``; the lists that mmdetection writes for
    one image are read too. Raises InputFault, also "other-case" if there are several images and none is the case.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from evaluation.model import ClassTable
    >>> rules = format_rules(format="coco_json", files="{case}.json", vertices="exact", origin="pixel_corner",
    ...                     vanished="drop")
    >>> request = Request(where="'a.json'", name="a.json", rules=rules, classes=ClassTable(("plasma",), {"plasma": 1}),
    ...                   limits=LimitRules())
    >>> text = b'[{"image_id": 7, "segmentation": {"size": [2, 3], "counts": [1, 3, 2]}, "score": 0.5}]'
    >>> (nuclei,) = read_coco_json(io.BytesIO(text), request, Case("a", "a", 2, 3)).parts
    >>> nuclei.run_start.tolist(), nuclei.run_stop.tolist(), nuclei.class_id.tolist(), nuclei.probability.tolist()
    ([1, 3], [2, 5], [1], [0.5])
    """
    with damage_told(request.where, "a COCO JSON file"):
        document, places = images_of_case(stream, request, case)
        return read_one(SegmentedNuclei(document, places, request), case)


def read_coco_json_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """The nuclei of all cases from one file.

    case         the image of an annotation by its ``file_name``, with or without folders and suffix, else by its id
    class        by the name of the category if that is a class, else by its number in ``class_values``; without either
                 the class of nuclei without a name
    crowds       (``iscrowd`` 1) hold several nuclei: kept if their class is an ignore class, else left out with a
                 warning
    codes        without a pixel are left out with a warning, or refused if ``vanished`` is "error"
    probability  ``score``

    ``source_id`` is the id of the annotation, or its position from 0. Nuclei are in the order of the file, but if a
    case has both, those with polygons come before those with codes. Raises InputFault: not-json, too-large, too-deep,
    not-coco, invalid-annotation, unknown-class, unsupported-shape, invalid-coordinate, invalid-rle, too-complex-runs,
    wrong-shape, vanished-outline, invalid-probability, missing-probability.
    """
    with damage_told(request.where, "a COCO JSON file"):
        document = read_document(stream, request)
        if document.is_one_image:
            fix = "Write a list of results, each with its 'image_id'."
            raise refusal("not-coco", request.where, got="the masks of one image, without its name", fix=fix)
        return read_all(SegmentedNuclei(document, Places(document, cases), request))


class SegmentedNuclei(Nuclei):
    """Nuclei with polygons or run-length codes."""

    def __init__(self, document: Document, places: Places, request: Request) -> None:
        super().__init__(document, places, request)
        self.outlined = OutlineTable()
        self.coded = CodeTable()
        self.size = 0  # numbers in segmentations

    def add_shape(self, nucleus: Nucleus, entry: Mapping[str, Any]) -> None:
        """Note the polygons or the code of a nucleus."""
        number, segmentation = nucleus.number, entry.get("segmentation")
        if type(segmentation) is dict and segmentation:
            size, counts = segmentation.get("size"), segmentation.get("counts")
            if type(size) is not list or len(size) != 2 or set(map(type, size)) != {int}:
                self.fault(
                    "invalid-annotation", number, expected="[height, width] of the image", of="'size' is", value=size
                )
            elif type(counts) is not list and type(counts) is not str:
                self.fault(
                    "invalid-annotation",
                    number,
                    expected="a list of numbers, or a text",
                    of="'counts' is",
                    value=counts,
                )
            elif self.places.check_shape(self.place(number), size[0], size[1], self.places.cases[nucleus.case]):
                self.size += len(counts)
                self.coded.add(nucleus, counts)
        elif type(segmentation) is list and any(segmentation):
            if any(type(ring) is not list for ring in segmentation):
                found = "'segmentation' is a list of other things than lists"
                self.fault("invalid-annotation", number, got=found, expected=SEGMENTATION)
            elif len(segmentation) > 2 and all(len(ring) == 2 for ring in segmentation):
                found = f"'segmentation' is a list of {len(segmentation):,} pairs"
                self.fault("invalid-annotation", number, got=found, expected=SEGMENTATION)
            else:
                self.size += sum(map(len, segmentation))
                self.outlined.add(nucleus, segmentation)
        elif segmentation is None or type(segmentation) is list or segmentation == {}:
            self.fault("unsupported-shape", number, wording="no-segmentation", expected=SEGMENTATION)
        else:
            self.fault("invalid-annotation", number, expected=SEGMENTATION, of="'segmentation' is", value=segmentation)

    def add_vanished(self, number: int) -> None:
        """Note a code without a pixel."""
        if self.request.rules.value("vanished") == "error":
            self.fault("vanished-outline", number, wording="code")
        else:
            self.warnings.fault("left-out", self.place(number), wording="code-left-out")

    def settle(self) -> None:
        """Make arrays of the segmentations that have come since the last time."""
        what, limits = "vertices and runs", self.request.limits
        check_number(self.size // 2, what, "vertices_per_file", self.request.where, limits)
        self.outlined.settle(self)
        self.coded.settle(self)

    def parts(self) -> Iterator[tuple[int, Part]]:
        yield from self.outlined.outlines()
        yield from self.coded.instances(self.places, self.request)


class OutlineTable(NucleusTable):
    """Nuclei with polygons."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[list[list[Any]]] = []
        self.ring_count: list[int] = []
        self.ring_size: list[Int64] = [np.empty(0, np.int64)]
        self.numbers: list[Float64] = [np.empty(0)]

    def add(self, nucleus: Nucleus, polygons: list[list[Any]]) -> None:
        self.nuclei.append(nucleus)
        self.ring_count.append(len(polygons))
        self.pending.append(polygons)

    def settle(self, nuclei: SegmentedNuclei) -> None:
        """Make arrays of the polygons that have come; ``nuclei`` takes note of what are no pairs of numbers."""
        rings = list(chain.from_iterable(self.pending))
        size = np.fromiter(map(len, rings), np.int64, len(rings))
        if NUMBERS.issuperset(map(type, chain.from_iterable(rings))):
            numbers = np.fromiter(chain.from_iterable(rings), np.float64)
        else:
            plain = (number if type(number) in NUMBERS else np.nan for number in chain.from_iterable(rings))
            numbers = np.fromiter(plain, np.float64)
        owner = np.repeat(np.arange(self.settled, len(self.nuclei)), self.ring_count[self.settled :])
        first = np.cumsum(size) - size
        odd = np.flatnonzero(size % 2)
        bad = np.flatnonzero(~are_coordinates(numbers))
        for ring in odd[:FAULTS_NAMED].tolist():
            nuclei.fault("invalid-coordinate", self.nuclei[owner[ring]].number, wording="odd-polygon", value=size[ring])
        for index in bad[:FAULTS_NAMED].tolist():
            ring = int(np.searchsorted(first, index, "right")) - 1
            value = rings[ring][index - int(first[ring])]
            nuclei.fault("invalid-coordinate", self.nuclei[owner[ring]].number, wording="in-turn", value=value)
        nuclei.faults.count_rest("invalid-coordinate", len(odd))
        nuclei.faults.count_rest("invalid-coordinate", len(bad))
        self.numbers.append(numbers)
        self.ring_size.append(size // 2)
        self.settled = len(self.nuclei)
        self.pending.clear()

    def outlines(self) -> Iterator[tuple[int, Outlines]]:
        """The number of each case that has outlines, and they; after all have been settled without a fault."""
        points = np.concatenate(self.numbers).reshape(-1, 2)
        ring_start = np.concatenate([[0], np.cumsum(np.concatenate(self.ring_size))])
        ring_count = np.array(self.ring_count, np.int64)
        first_ring = np.cumsum(ring_count) - ring_count
        for case, chosen in self.by_case():
            ring = expand(first_ring[chosen], first_ring[chosen] + ring_count[chosen])
            start, stop = ring_start[ring], ring_start[ring + 1]
            outlines = Outlines(
                points_xy=points[expand(start, stop)],
                ring_start=np.concatenate([[0], np.cumsum(stop - start)]),
                ring_instance=np.repeat(np.arange(len(chosen), dtype=np.int32), ring_count[chosen]),
                ring_is_hole=np.zeros(len(ring), np.bool_),
                **self.described(chosen),
            )
            yield case, outlines


class CodeTable(NucleusTable):
    """Nuclei with run-length codes."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[list[Any] | str] = []
        self.runs: list[CodeRuns] = [CodeRuns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]

    def add(self, nucleus: Nucleus, code: list[Any] | str) -> None:
        self.nuclei.append(nucleus)
        self.pending.append(code)

    def settle(self, nuclei: SegmentedNuclei) -> None:
        """Make runs of the codes that have come; codes without a pixel are left out, of which ``nuclei`` takes note."""
        fresh = self.nuclei[self.settled :]
        shapes = [nuclei.places.cases[nucleus.case].shape_yx for nucleus in fresh]
        pixels = np.array([height * width for height, width in shapes], np.int64)
        try:
            runs = runs_of_counts(self.pending, lambda index: nuclei.place(fresh[index].number), pixels=pixels)
        except InputFault as error:
            for finding in error.findings:
                nuclei.faults.include(finding)
            runs = self.runs[0]
        else:
            has_pixels = np.bincount(runs.instance, minlength=len(fresh)) > 0
            for index in np.flatnonzero(~has_pixels).tolist():
                nuclei.add_vanished(fresh[index].number)
            self.nuclei[self.settled :] = [fresh[index] for index in np.flatnonzero(has_pixels).tolist()]
            instance = self.settled + np.cumsum(has_pixels)[runs.instance] - 1
            runs = CodeRuns(runs.start, runs.length, instance.astype(np.int32))
        self.runs.append(runs)
        self.settled = len(self.nuclei)
        self.pending.clear()

    def instances(self, places: Places, request: Request) -> Iterator[tuple[int, Instances]]:
        """The number of each case that has codes, and their pixels; after all have been settled without a fault.

        Raises InputFault ("too-complex-runs").
        """
        runs = join_runs(self.runs)
        edges = np.searchsorted(runs.instance, np.arange(len(self.nuclei) + 1))
        for number, chosen in self.by_case():
            case = places.cases[number]
            index = expand(edges[chosen], edges[chosen + 1])
            count = edges[chosen + 1] - edges[chosen]
            instances = instances_from_runs(
                runs.start[index],
                runs.length[index],
                np.repeat(np.arange(len(chosen), dtype=np.int32), count),
                shape_yx=case.shape_yx,
                pixel_order="column",
                where=f"{request.where}, case {quote(case.name)}",
                **self.described(chosen),
            )
            yield number, instances


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    annotations: list[dict[str, Any]] = []
    for image_id, case in enumerate(cases, start=1):
        for name, ring in made.rings(case):
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": made.names.index(name) + 1,
                    "segmentation": [ring.reshape(-1).tolist()],
                    "iscrowd": 0,
                }
            )
    return orjson.dumps({"images": made.images(cases), "annotations": annotations, "categories": made.categories()})


FORMAT = Format(
    words="COCO JSON",
    read=read_coco_json,
    read_all=read_coco_json_collection,
    example=example,
)
