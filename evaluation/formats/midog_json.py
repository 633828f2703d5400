"""MIDOG JSON: boxes around cells, in the frame of COCO; a nucleus is the point in the middle of its box.

::

    {"images": [{"id": 1, "file_name": "001.tiff", "height": 5412, "width": 7215}],
     "categories": [{"id": 1, "name": "mitotic figure"}, {"id": 2, "name": "not mitotic figure"}],
     "annotations": [{"image_id": 1, "category_id": 2, "bbox": [4336, 346, 4386, 396]}]}

Unlike in COCO a box is ``[x1, y1, x2, y2]``, two corners. The second category are hard negatives, cells that look
alike: name them under ``skip_classes``. Files may be compressed with gzip.
M. Aubreville et al., "A comprehensive multi-domain dataset for mitotic figure detection", Scientific Data 10:484, 2023.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.decoding.streams import damage_told
from evaluation.findings.errors import refusal
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
from evaluation.model import Annotations, Case, Collection, Float64, Part, Points

BOX = "[x1, y1, x2, y2], two corners of the box"


def read_midog_json(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The nuclei of one case from its own file: those of its only image, or of the image that is named like the case.

    Raises InputFault as ``read_midog_json_collection`` does, also "other-case" if there are several images and none is
    the case.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from evaluation.model import ClassTable
    >>> request = Request(where="'a.json'", name="a.json", limits=LimitRules(), classes=ClassTable(("cell",), {}),
    ...                   rules=format_rules(format="midog_json", files="{case}.json", origin="pixel_corner"))
    >>> text = b'{"annotations": [{"image_id": 1, "bbox": [10, 20, 15, 40]}]}'
    >>> read_midog_json(io.BytesIO(text), request, Case("a", "a", 100, 100)).parts[0].points_xy.tolist()
    [[12.5, 30.0]]
    """
    with damage_told(request.where, "a MIDOG JSON file"):
        document, places = images_of_case(stream, request, case)
        check_form(document)
        return read_one(BoxedNuclei(document, places, request), case)


def read_midog_json_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """The nuclei of all cases from one file: the middle ((x1 + x2) / 2, (y1 + y2) / 2) of each box, px of the file.

    Images, classes and ``score`` as in ``read_coco_json_collection``. Raises InputFault: not-json, too-large, too-deep,
    not-coco, invalid-annotation, unknown-class, wrong-shape, invalid-coordinate (also for corners in the wrong order,
    as COCO's own boxes of width and height have), invalid-probability, missing-probability.
    """
    with damage_told(request.where, "a MIDOG JSON file"):
        document = read_document(stream, request)
        check_form(document)
        return read_all(BoxedNuclei(document, Places(document, cases), request))


def check_form(document: Document) -> None:
    if document.is_one_image:
        raise refusal("not-coco", document.where, got="masks", fix="Write boxes, or name the format 'coco_json'.")


class BoxedNuclei(Nuclei):
    """Nuclei with boxes of two corners."""

    def __init__(self, document: Document, places: Places, request: Request) -> None:
        super().__init__(document, places, request)
        self.table = NucleusTable()
        self.pending: list[list[float]] = []
        self.middles_xy: list[Float64] = [np.empty((0, 2))]

    def add_shape(self, nucleus: Nucleus, entry: Mapping[str, Any]) -> None:
        box = entry.get("bbox")
        if type(box) is not list or len(box) != 4 or not NUMBERS.issuperset(map(type, box)):
            if box is None:
                self.fault("invalid-annotation", nucleus.number, got="no 'bbox'", expected=BOX)
            else:
                self.fault("invalid-annotation", nucleus.number, expected=BOX, of="'bbox' is", value=box)
            return
        self.table.nuclei.append(nucleus)
        self.pending.append(box)

    def settle(self) -> None:
        boxes = np.array(self.pending, np.float64).reshape(-1, 4)
        in_order = (boxes[:, :2] <= boxes[:, 2:]).all(axis=1)
        usable = are_coordinates(boxes).all(axis=1)
        for index in np.flatnonzero(~(in_order & usable)).tolist():
            number = self.table.nuclei[self.table.settled + index].number
            self.fault("invalid-coordinate", number, wording="no-box", box=self.pending[index], wanted=BOX)
        self.middles_xy.append((boxes[:, :2] + boxes[:, 2:]) / 2)
        self.table.settled = len(self.table.nuclei)
        self.pending.clear()

    def parts(self) -> Iterator[tuple[int, Part]]:
        middles_xy = np.concatenate(self.middles_xy)
        for case, chosen in self.table.by_case():
            yield case, Points(points_xy=middles_xy[chosen], **self.table.described(chosen))


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    annotations: list[dict[str, Any]] = []
    for image_id, case in enumerate(cases, start=1):
        for name, x, y in made.marks(case):
            box, category = [x - 25, y - 25, x + 25, y + 25], made.names.index(name) + 1
            annotations.append({"id": len(annotations) + 1, "image_id": image_id, "category_id": category, "bbox": box})
    return orjson.dumps({"images": made.images(cases), "annotations": annotations, "categories": made.categories()})


FORMAT = Format(
    words="MIDOG JSON, a box for each nucleus",
    read=read_midog_json,
    read_all=read_midog_json_collection,
    example=example,
)
