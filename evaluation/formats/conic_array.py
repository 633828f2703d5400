"""Arrays of CoNIC 2022: the instances and classes of all images in one .npy file, N x H x W x 2.

Channel 0 holds the ids of the nuclei, channel 1 the class number of every pixel. With one class, and where the path
tells the class, N x H x W ids are enough. https://conic-challenge.grand-challenge.org/Submission/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np

from evaluation.decoding.label_array import check_labels, check_shape, find_binary_mask
from evaluation.findings import quote
from evaluation.formats.case_array import CaseArray, DecodedCases, case_index, check_cases, wrong_array
from evaluation.formats.example import Example, npy_bytes
from evaluation.formats.format import Format, Request
from evaluation.formats.label_image import classes_in
from evaluation.model import Annotations, Case, Collection, LabelImage
from evaluation.model.label_runs import runs_of

IDS, CLASSES = 0, 1


def read_conic_array_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """The nuclei of all cases; the index of a case along the first axis is ``Case.index``.

    stream  stays open as long as ``Collection.cases`` is read from: a case is decoded when it is asked for

    The array may hold more images than there are cases. Raises InputFault: wrong-shape, and those of ``CaseArray``;
    asking for a case: wrong-shape, unknown-class-value, and those of ``check_labels``.
    """
    array = CaseArray(stream, request)
    needs_classes = len(request.classes.names) > 1 and not request.file_class
    if not (len(array.shape) == 4 and array.shape[3] == 2) and (needs_classes or len(array.shape) != 3):
        expected = "images x rows x columns x 2, of ids and classes"
        fix = "Write numpy.stack([ids, classes], axis=-1) of all images."
        raise wrong_array(request.where, array.shape, expected, fix)
    check_cases(array, cases)
    return Collection(DecodedCases(cases, lambda case: decode_case(array, request, case)))


def decode_case(array: CaseArray, request: Request, case: Case) -> Annotations:
    """The nuclei of one case."""
    where = f"{request.where}, case {quote(case.name)}"
    check_shape(array.shape[1:3], where=where, shape_yx=case.shape_yx)
    planes = array.of_case(case_index(case))
    has_classes = planes.ndim == 3
    ids = np.ascontiguousarray(planes[..., IDS]) if has_classes else planes
    labels = runs_of(check_labels(ids, where=where, shape_yx=case.shape_yx))
    class_map = None
    if has_classes and not request.file_class:
        class_map = runs_of(classes_in(planes[..., CLASSES], request.classes, where=where, shape_yx=case.shape_yx))
    class_id = request.file_class or (0 if has_classes else request.classes.of_nameless)
    image = LabelImage(labels, class_id, class_map, source=request.name)
    return Annotations((image,), find_binary_mask(labels, where=where))


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    ordered = sorted(cases, key=lambda case: case.index or 0)
    return npy_bytes(np.stack([np.stack([made.labels(case), made.class_numbers(case)], axis=-1) for case in ordered]))


FORMAT = Format(
    words="NumPy array, cases x height x width x 2 (nuclei, classes)",
    read_all=read_conic_array_collection,
    example=example,
)
