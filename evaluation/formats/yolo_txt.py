"""YOLO's text files for segmentation: a line for each nucleus, with the number of its class and its outline.

::

    0 0.681 0.485 0.670 0.487 0.676 0.487            class x1 y1 x2 y2 x3 y3 …
    1 0.504 0.000 0.501 0.004 0.498 0.004 0.93       with the confidence as the last number

Coordinates are shares of the width and height of the image, which cases.csv has. Ultralytics divides pixels that count
from the corner of the first one: ``origin`` is ``pixel_corner``.
https://docs.ultralytics.com/datasets/segment, ``Results.save_txt`` in https://github.com/ultralytics/ultralytics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from evaluation.challenge.formats import YoloTxtRules
from evaluation.decoding.csv import numbers_of
from evaluation.decoding.polygons import Ring
from evaluation.decoding.streams import memory_told, plain_chunks
from evaluation.formats.annotation_lists import NUCLEI_AT_ONCE, NucleusLists
from evaluation.formats.classes import SKIPPED, UNKNOWN, class_of_text
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case

BEYOND_IMAGE = 0.01  # a share of the image; Ultralytics allows it too
FEWEST = 6  # numbers of an outline
NUMBERS_OF_BOX = (4, 5)  # numbers of a box, without and with its confidence


def read_yolo_txt(stream: BinaryIO, request: Request[YoloTxtRules], case: Case) -> Annotations:
    """The outlines of a file in the order of its lines; ``source_id`` is the line, from 1. An empty file has none.

    The class is that of the number, by ``class_values``; in a challenge of one class without them it does not matter.
    An odd number of coordinates ends with the probability, which all nuclei have or none.

    Raises InputFault: too-large, invalid-annotation, invalid-coordinate, unknown-class, invalid-probability,
    missing-probability.
    """
    with memory_told(request.where):
        data = b"".join(plain_chunks(stream, request.where, request.limits.bytes_per_file))
        nuclei = NucleusLists(request, case, "line")
        for line in data.splitlines():
            nuclei.next_annotation()
            if words := line.split():
                add_line(nuclei, request, words, case)
            if nuclei.number % NUCLEI_AT_ONCE == 0:
                nuclei.settle()
        nuclei.settle()
        return nuclei.annotations()


def add_line(nuclei: NucleusLists, request: Request[YoloTxtRules], words: list[bytes], case: Case) -> None:
    """Add the nucleus of a line."""
    text, numbers = words[0].decode("utf-8", "replace"), numbers_of(words[1:])
    class_id = request.file_class or class_of_text(text, request.classes)
    if class_id == UNKNOWN and not request.classes.values:
        class_id = request.classes.of_nameless or UNKNOWN
    if class_id == SKIPPED:
        return
    if class_id == UNKNOWN:
        nuclei.names.add_unknown(text, nuclei.place())
        class_id = 0
    if len(numbers) < FEWEST:
        wording = "box-in-line" if len(numbers) in NUMBERS_OF_BOX else "no-outline-in-line"
        nuclei.fault("invalid-annotation", wording=wording, words=len(words))
        return
    vertices = numbers[: len(numbers) // 2 * 2]
    if len(wrong := np.flatnonzero(~(np.abs(vertices - 0.5) <= 0.5 + BEYOND_IMAGE))):
        nuclei.fault("invalid-coordinate", wording="no-share", text=words[1 + wrong[0]].decode("utf-8", "replace"))
        return
    probability = float(numbers[-1]) if len(numbers) % 2 else None
    ring = Ring(vertices.reshape(-1, 2) * (case.width, case.height))
    nuclei.add_outline([[ring]], class_id, nuclei.number, probability, None)


def example(made: Example[YoloTxtRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    size = (cases[0].width, cases[0].height)
    lines = [
        " ".join(map(str, [made.values[name], *(ring / size).ravel().tolist()]))
        for name, ring in made.rings(cases[0], class_name)
    ]
    return "".join(f"{line}\n" for line in lines).encode()


FORMATS = {
    "yolo_txt": Format(
        words="YOLO's text files: a line `class x1 y1 x2 y2 …` for each nucleus, in shares of width and height",
        read=read_yolo_txt,
        example=example,
    )
}
