"""MATLAB files with one label image, MoNuSAC's "n-ary masks"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from evaluation.decoding.label_array import find_binary_mask
from evaluation.formats.case_array import read_mat_labels
from evaluation.formats.example import Example
from evaluation.formats.format import Format, Request
from evaluation.formats.label_image import example_class_map, read_class_map
from evaluation.formats.write_labels import write_nary_mat
from evaluation.model import Annotations, Case, LabelImage
from evaluation.model.label_runs import runs_of


def read_nary_mat(
    stream: BinaryIO, request: Request, case: Case, *, class_map: tuple[BinaryIO, str] | None = None
) -> Annotations:
    """The label image of a MATLAB file: every positive value is one nucleus.

    class_map   an image with the class number of every pixel, and where it is, for messages

    Raises InputFault: those of ``read_mat_labels`` and ``read_class_map``. A warning, "binary-mask", is among the
    findings.
    """
    limit = request.limits.bytes_per_file
    labels = runs_of(read_mat_labels(stream, where=request.where, shape_yx=case.shape_yx, bytes_limit=limit))
    classes = None if class_map is None else read_class_map(class_map[0], request, case, where=class_map[1])
    class_id = request.file_class or (0 if classes is not None else request.classes.of_nameless)
    image = LabelImage(labels, class_id, classes, source=request.name)
    return Annotations((image,), find_binary_mask(labels, where=request.where))


def example(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return write_nary_mat(made.instances(cases[0], class_name))


FORMAT = Format(
    words="MATLAB file with the labels in `n_ary_mask`",
    read=read_nary_mat,
    example=example,
    companion=example_class_map,
)
