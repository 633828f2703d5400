"""MATLAB files of every version: MoNuSAC's "n-ary masks", one label image; and those of HoVer-Net, CoNSeP and Lizard.

HoVer-Net has a label image with the class of each nucleus beside it::

    inst_map    (H, W) ids, which may have gaps
    inst_type   (N, 1) class numbers, in ascending order of the ids; if there is ``inst_uid``, in its order
    inst_uid    (N, 1) ids; nuclei whose outline has too few points are left out there and in ``inst_type``
    type_map    (H, W) class numbers

Lizard has ``class`` and ``id`` for ``inst_type`` and ``inst_uid``. ``infer/tile.py`` and
``models/hovernet/post_proc.py`` in https://github.com/vqdang/hover_net; Graham et al., Medical Image Analysis 58
(2019).
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.label_array import check_integers, check_labels, check_shape, find_binary_mask
from evaluation.decoding.mat_file import MatFile, Variable, read_mat_labels
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, refused
from evaluation.formats import label_image
from evaluation.formats.format import Example, Request
from evaluation.model import Annotations, Case, Int16, Int64, LabelImage, LabelRuns
from evaluation.model.annotations import present_labels, runs_of


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
    classes = None if class_map is None else label_image.read_class_map(class_map[0], request, case, where=class_map[1])
    class_id = request.file_class or (0 if classes is not None else request.classes.of_nameless)
    image = LabelImage(labels, class_id, classes, source=request.name)
    return Annotations((image,), find_binary_mask(labels, where=request.where))


def example_of_nary_mat(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return label_image.write_nary_mat(made.instances(cases[0], class_name))


# --- HoVer-Net and Lizard ---------------------------------------------------------------------------------------------


IDS, TYPE_MAP = "inst_map", "type_map"
TYPES = {"inst_type": ("inst_uid",), "class": ("id", "nuclei_id")}  # and where their ids stand


def read_hovernet_mat(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """The nuclei of ``inst_map``: one label image, with the class of each nucleus.

    The class is that in ``inst_type``; without it, that of most of the nucleus's pixels in ``type_map``. The number 0,
    and having no entry in ``inst_uid``, give the class 0, none. Entries of ids that are not in the map do not matter.
    Types are not looked at if the path tells the class or the challenge gives no numbers (``class_values``).

    Raises InputFault: no-mask-variable, not-numeric, wrong-length, unknown-class-value, and those of ``MatFile`` and
    ``check_labels``. A warning, "binary-mask", is among the findings.
    """
    where, classes = request.where, request.classes
    mat = MatFile(stream, where=where, bytes_limit=request.limits.bytes_per_file)
    ids = variable_of(mat, IDS)
    if ids is None:
        names = [variable.name for variable in mat.variables]
        raise refused("no-mask-variable", where, wording="no-id", name=IDS, names=names)
    check_shape(ids.shape, where=where, shape_yx=case.shape_yx)
    labels = runs_of(check_labels(mat.read(ids), where=where, shape_yx=case.shape_yx))
    class_of_instance: Int16 | None = None
    class_map: LabelRuns | None = None
    if not request.file_class and classes.values:
        types, type_map = variable_of(mat, *TYPES), variable_of(mat, TYPE_MAP)
        if types is not None:
            class_of_instance = classes_of_instances(mat, types, np.array(present_labels(labels), np.int64), request)
        elif type_map is not None:
            place, shape_yx = f"{where}, {quote(TYPE_MAP)}", case.shape_yx
            check_shape(type_map.shape, where=place, shape_yx=shape_yx)
            class_map = runs_of(label_image.class_ids_in(mat.read(type_map), classes, where=place, shape_yx=shape_yx))
    has_classes = class_of_instance is not None or class_map is not None
    class_id = request.file_class or (0 if has_classes else classes.of_nameless)
    image = LabelImage(labels, class_id, class_map, source=request.name, class_of_instance=class_of_instance)
    return Annotations((image,), find_binary_mask(labels, where=where))


def variable_of(mat: MatFile, *names: str) -> Variable | None:
    """The variable of plain numbers that has the first of these names that there is; None if there is none.

    Raises InputFault.
    """
    name = next((name for name in names if any(variable.name == name for variable in mat.variables)), "")
    named = [variable for variable in mat.variables if variable.name == name]
    if len(named) > 1:
        raise refused("no-mask-variable", mat.where, wording="twice", name=name, times=len(named))
    if named and named[0].kind is not None:
        raise refused("not-numeric", mat.where, wording="variable", kind=named[0].kind, name=name)
    return named[0] if named else None


def classes_of_instances(mat: MatFile, types: Variable, present: Int64, request: Request) -> Int16:
    """The class id of each of the present labels, int16 (N,), 0 if it has none."""
    where, count = mat.where, math.prod(types.shape)
    name, id_name = types.name, TYPES[types.name][0]
    ids = ids_of_types(mat, types)
    ids = present if ids is None else ids
    if count != (nuclei := len(ids)):
        wording = "other-number-of-classes"
        raise refused("wrong-length", where, wording=wording, types=name, ids=id_name, classes=count, nuclei=nuclei)
    expected = label_image.describe_class_values(request.classes)
    numbers = read_vector(mat, types, expected)
    class_id = label_image.known_classes(numbers, request.classes)
    is_known = class_id != label_image.NO_CLASS
    if not is_known.all():
        each = np.unique(numbers[~is_known], return_counts=True)

        def type_fault(number: int, count: int) -> Finding:
            place, words = f"{where}, {quote(types.name)}", "of-nuclei"
            first_id = ids[numbers == number][0]
            return fault(
                "unknown-class-value", place, wording=words, expected=expected, value=number, nuclei=count, id=first_id
            )

        raise InputFault(*label_image.for_values(*each, type_fault))
    if not len(ids):
        return np.zeros(len(present), np.int16)
    order = np.argsort(ids)
    entry = np.minimum(np.searchsorted(ids[order], present), len(ids) - 1)
    return np.where(ids[order][entry] == present, class_id[order][entry], 0).astype(np.int16)


def ids_of_types(mat: MatFile, types: Variable) -> Int64 | None:
    """The ids of the nuclei whose classes ``types`` has, None if the file does not say them."""
    if (variable := variable_of(mat, *TYPES[types.name])) is None:
        return None
    ids = read_vector(mat, variable, "ids from 1").astype(np.int64)
    if again := len(ids) - len(np.unique(ids)):
        wording, name, name_of_ids = "repeated-ids", types.name, variable.name
        raise refused(
            "wrong-length",
            mat.where,
            wording=wording,
            types=name,
            ids=TYPES[name][0],
            repeated=again,
            found=name_of_ids,
        )
    return ids


def read_vector(mat: MatFile, variable: Variable, expected: str) -> npt.NDArray[np.integer[Any]]:
    """The whole numbers of a column, or row, of numbers."""
    count = math.prod(variable.shape)
    if not count:
        return np.empty(0, np.int64)
    where = f"{mat.where}, {quote(variable.name)}"
    if max(variable.shape) != count:
        sizes = " x ".join(f"{size:,}" for size in variable.shape[:8])
        raise refused("wrong-length", where, wording="no-column-of-numbers", sizes=sizes)
    column = mat.read(variable).reshape(-1, 1)
    return check_integers(column, where=where, shape_yx=(count, 1), expected=expected).reshape(-1)


def example_of_hovernet_mat(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    from scipy import io as scipy_io

    classes = [made.values[name] for _, name in made.classes_of(cases[0], class_name)]
    file = io.BytesIO()
    content = {IDS: made.labels(cases[0]), "inst_type": np.array(classes, np.int32).reshape(-1, 1)}
    scipy_io.savemat(file, content, do_compression=True)
    return file.getvalue()
