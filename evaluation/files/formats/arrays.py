"""Arrays of labels: arrays with all cases along the first axis (CoNIC 2022, PanNuke), and MATLAB files.

CoNIC: N x H x W x 2. Channel 0 contains the ids of the nuclei, channel 1 the class number of every pixel. With
one class, or a class in the path, N x H x W ids are enough.
https://conic-challenge.grand-challenge.org/Submission/

PanNuke: one channel of ids for each class, the last channel for the background; H x W x C for one image, N x H x W x C
for all. The arrays of PanNuke are float64 and have C = 6. Nuclei of different channels may have the same id, and may
share pixels. Gamper et al., "PanNuke Dataset Extension, Insights and Baselines", arXiv:2003.10778.

MATLAB files are MoNuSAC's "n-ary masks", one label image, and files of HoVer-Net, CoNSeP and Lizard.
HoVer-Net has a label image with the class of each nucleus next to it::

    inst_map    (H, W) ids, which may have gaps
    inst_type   (N, 1) class numbers, in ascending order of the ids; if there is ``inst_uid``, in its order
    inst_uid    (N, 1) ids; nuclei with too short outlines are missing there and in ``inst_type``
    type_map    (H, W) class numbers

Lizard has ``class`` and ``id`` for ``inst_type`` and ``inst_uid``. ``infer/tile.py`` and
``models/hovernet/post_proc.py`` in https://github.com/vqdang/hover_net; Graham et al., Medical Image Analysis 58
(2019).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.label_array import (
    check_dtype,
    check_integers,
    check_labels,
    check_shape,
    find_binary_mask,
)
from evaluation.files.decoding.mat_file import MatFile, Variable, choose_variable, read_mat_labels
from evaluation.files.decoding.pixels import read_npy_header
from evaluation.files.decoding.streams import (
    NPY_MAGIC,
    Plain,
    check_content,
    cut_off,
    damage_told,
    read_array,
    stream_size,
)
from evaluation.files.formats import label_image
from evaluation.files.formats.format import (
    CasesOnDemand,
    Example,
    Format,
    ListedImage,
    Request,
    SizeYx,
    noting,
    npy_bytes,
    plain_size,
)
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Case, Int16, Int64, LabelImage, LabelRuns
from nuclei_metrics.model.annotations import present_labels, runs_of

NPY_WORDS = "a NumPy file"


class CaseArray:
    """An array of all cases in a .npy file; only its header is read before a case is requested.

    stream   seekable; stays open as long as cases are requested
    shape    of the whole array, (N, …)

    Needs memory for one case; for all cases if the first axis runs fastest in the file. Raises InputFault: too-large,
    wrong-format, pickle, unreadable-file, not-numeric.
    """

    def __init__(self, stream: BinaryIO, request: Request) -> None:
        self.stream = stream
        self.where = request.where
        self.bytes_limit = request.limits.bytes_per_file
        size = stream_size(stream, where=self.where, bytes_limit=self.bytes_limit)
        check_content(stream, where=self.where, magics=(NPY_MAGIC,), name=NPY_WORDS)
        with damage_told(self.where, NPY_WORDS):
            self.header = read_npy_header(Plain(stream))
            self.start = stream.tell()
        check_dtype(self.header.dtype, where=self.where)
        self.shape = self.header.shape
        if self.start + math.prod(self.shape) * self.header.dtype.itemsize > size:
            raise cut_off(self.where)
        self.whole: npt.NDArray[Any] | None = None

    def of_case(self, index: int) -> npt.NDArray[Any]:
        """Read the part of the case with this index, in the shape without the first axis."""
        if self.header.fortran:
            if self.whole is None:
                self.whole = self.read(self.shape, 0, fortran=True)
            return np.asarray(self.whole[index])
        shape = self.shape[1:]
        return self.read(shape, index * math.prod(shape) * self.header.dtype.itemsize)

    def read(self, shape: tuple[int, ...], offset: int, *, fortran: bool = False) -> npt.NDArray[Any]:
        with damage_told(self.where, NPY_WORDS):
            self.stream.seek(self.start + offset)
            source, dtype, limit = Plain(self.stream), self.header.dtype, self.bytes_limit
            return read_array(source, shape, dtype, where=self.where, bytes_limit=limit, fortran=fortran)


def _decoded_cases(cases: Mapping[str, Case], decode: Callable[[Case], Annotations]) -> Collection:
    """Decode each case of an array when it is requested; they are listed in the order in which they are in the file."""
    by_name = {case.name: case for case in sorted(cases.values(), key=_index_of_case)}
    return Collection(CasesOnDemand(tuple(by_name), lambda name: decode(by_name[name])))


def _index_of_case(case: Case) -> int:
    """Return the index of a case in arrays, from 0; the rules see to it that every case has one."""
    if case.index is None:
        raise ValueError(f"the case {case.name!r} has no index")
    return case.index


def _check_case_count(array: CaseArray, cases: Mapping[str, Case]) -> None:
    """Refuse an array that has too few cases. Raises InputFault ("wrong-shape")."""
    last = max(cases.values(), key=_index_of_case, default=None)
    if last is not None and (index := _index_of_case(last)) >= (images := array.shape[0]):
        case, wording, needed = last.name, "too-few-images", index + 1
        raise refused("wrong-shape", array.where, wording=wording, images=images, case=case, index=index, needed=needed)


def _one_image(
    labels: LabelRuns,
    request: Request,
    where: str,
    class_map: LabelRuns | None = None,
    of_instance: Int16 | None = None,
) -> Annotations:
    """Create annotations of one label image; without classes in the file it has the class of the challenge."""
    class_id = request.file_class
    if class_map is None and of_instance is None:
        class_id = class_id or request.classes.of_nameless
    image = LabelImage(labels, class_id, class_map, source=request.name, class_of_instance=of_instance)
    return Annotations((image,), find_binary_mask(labels, where=where))


def _wrong_array(where: str, shape: tuple[int, ...], wanted: str, advice: str) -> InputFault:
    got = f"an array of {' x '.join(map(str, shape[:8]))}" if shape else "a single number"
    return refused("wrong-shape", where, wording="array", got=got, expected=wanted, fix=advice)


# --- CoNIC: ids and classes -------------------------------------------------------------------------------------------


ID_CHANNEL, CLASS_CHANNEL = 0, 1


def _read_conic_array_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the nuclei of all cases; the index of a case along the first axis is ``Case.index``.

    stream  stays open as long as ``Collection.cases`` is read from: a case is decoded when it is requested

    The array may contain more images than there are cases. Raises InputFault: wrong-shape, and as ``CaseArray``;
    asking for a case: wrong-shape, unknown-class-value, and as ``check_labels``.
    """
    array = CaseArray(stream, request)
    needs_classes = len(request.classes.names) > 1 and not request.file_class
    if not (len(array.shape) == 4 and array.shape[3] == 2) and (needs_classes or len(array.shape) != 3):
        expected = "images x rows x columns x 2, of ids and classes"
        fix = "Write numpy.stack([ids, classes], axis=-1) of all images."
        raise _wrong_array(request.where, array.shape, expected, fix)
    _check_case_count(array, cases)
    return _decoded_cases(cases, lambda case: _decode_case(array, request, case))


def _decode_case(array: CaseArray, request: Request, case: Case) -> Annotations:
    """Decode the nuclei of one case."""
    where = f"{request.where}, case {quote(case.name)}"
    check_shape(array.shape[1:3], where=where, shape_yx=case.shape_yx)
    planes = array.of_case(_index_of_case(case))
    has_classes = planes.ndim == 3
    ids = np.ascontiguousarray(planes[..., ID_CHANNEL]) if has_classes else planes
    labels = runs_of(check_labels(ids, where=where, shape_yx=case.shape_yx))
    class_map = None
    if has_classes and not request.file_class:
        class_map = runs_of(
            label_image.class_ids_in(planes[..., CLASS_CHANNEL], request.classes, where=where, shape_yx=case.shape_yx)
        )
    return _one_image(labels, request, where, class_map)


def _example_of_conic_array(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    ordered = sorted(cases, key=lambda case: case.index or 0)
    return npy_bytes(np.stack([np.stack([made.labels(case), made.class_numbers(case)], axis=-1) for case in ordered]))


# --- PanNuke: a channel for each class --------------------------------------------------------------------------------


def _read_pannuke_masks(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the nuclei of one case: one label image for each class. ``class_values`` contains the channels, from 0.

    The last channel is omitted if no class names it; other channels without a class must be empty. Raises InputFault:
    wrong-shape, unnamed-channel, and as ``CaseArray`` and ``check_labels``.
    """
    array = CaseArray(stream, request)
    _check_channels(array.shape, ("rows", "columns"), request)
    check_shape(array.shape[:2], where=request.where, shape_yx=case.shape_yx)
    return _channels_of(array.read(array.shape, 0, fortran=array.header.fortran), request, case, request.where)


def _read_pannuke_masks_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """Read the nuclei of all cases; the index of a case along the first axis is ``Case.index``.

    stream  stays open as long as ``Collection.cases`` is read from: a case is decoded when it is requested

    The array may contain more images than there are cases. Raises InputFault: wrong-shape, and as ``CaseArray``;
    asking for a case: wrong-shape, unnamed-channel, and as ``check_labels``.
    """
    array = CaseArray(stream, request)
    _check_channels(array.shape, ("images", "rows", "columns"), request)
    _check_case_count(array, cases)

    def decode(case: Case) -> Annotations:
        where = f"{request.where}, case {quote(case.name)}"
        check_shape(array.shape[1:3], where=where, shape_yx=case.shape_yx)
        return _channels_of(array.of_case(_index_of_case(case)), request, case, where)

    return _decoded_cases(cases, decode)


def _check_channels(shape: tuple[int, ...], axes: tuple[str, ...], request: Request) -> None:
    """Refuse arrays without the axes and a last axis for the channels."""
    needed = max(request.classes.values) + 1
    if len(shape) == len(axes) + 1 and shape[-1] >= needed:
        return
    expected = f"{' x '.join(axes)} x channels, at least {needed} channels"
    fix = "Write one channel of ids for each class, as the last axis."
    raise _wrong_array(request.where, shape, expected, fix)


def _channels_of(planes: npt.NDArray[Any], request: Request, case: Case, where: str) -> Annotations:
    """Create label images of the channels that have a class. Raises InputFault with the faults of all channels."""
    parts: list[LabelImage] = []
    faults: list[Finding] = []
    warnings: list[Finding] = []
    for channel in range(planes.shape[2]):
        class_id = request.classes.values.get(channel)
        if class_id is None and channel == planes.shape[2] - 1:
            continue
        place = f"{where}, channel {channel}"
        plane = np.ascontiguousarray(planes[..., channel])
        with noting(faults):
            if class_id is None:
                _check_empty(plane, place, request)
                continue
            labels = runs_of(check_labels(plane, where=place, shape_yx=case.shape_yx))
            parts.append(LabelImage(labels, request.file_class or class_id, source=f"channel {channel}"))
            warnings += find_binary_mask(labels, where=place)
    if faults:
        raise InputFault(*faults)
    return Annotations(tuple(parts), tuple(warnings))


def _check_empty(plane: npt.NDArray[Any], place: str, request: Request) -> None:
    """Refuse nuclei in a channel that no class names."""
    if not plane.any():
        return
    labels = check_labels(plane, where=place, shape_yx=(plane.shape[0], plane.shape[1]))
    count = len(present_labels(runs_of(labels)))
    raise refused("unnamed-channel", place, nuclei=count, channels=", ".join(label_image.named_values(request.classes)))


def _example_of_pannuke_masks(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    images = []
    for case in sorted(cases, key=lambda case: case.index or 0):
        numbers, channels = made.class_numbers(case), 1 + max(5, *made.values.values())
        is_own = (numbers[..., np.newaxis] == np.arange(channels)) & (made.labels(case)[..., np.newaxis] > 0)
        images.append(np.where(is_own, made.labels(case)[..., np.newaxis], np.uint16(0)))
    return npy_bytes(np.stack(images) if made.rules.is_shared else images[0])


# --- MATLAB: n-ary masks ----------------------------------------------------------------------------------------------


def _read_nary_mat(
    stream: BinaryIO, request: Request, case: Case, *, class_map: tuple[BinaryIO, str] | None = None
) -> Annotations:
    """Read the label image of a MATLAB file: every positive value is one nucleus.

    class_map   an image with the class number of every pixel, and its location, for messages

    Raises InputFault as ``read_mat_labels`` and ``read_class_map``. A warning, "binary-mask", is among the
    findings.
    """
    limit = request.limits.bytes_per_file
    labels = runs_of(read_mat_labels(stream, where=request.where, shape_yx=case.shape_yx, bytes_limit=limit))
    classes = None if class_map is None else label_image.read_class_map(class_map[0], request, case, where=class_map[1])
    return _one_image(labels, request, request.where, classes)


def _example_of_nary_mat(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    return label_image.write_nary_mat(made.instances(cases[0], class_name))


# --- HoVer-Net and Lizard ---------------------------------------------------------------------------------------------


IDS, TYPE_MAP = "inst_map", "type_map"
TYPES = {"inst_type": ("inst_uid",), "class": ("id", "nuclei_id")}  # and where their ids stand


def _read_hovernet_mat(stream: BinaryIO, request: Request, case: Case) -> Annotations:
    """Read the nuclei of ``inst_map``: one label image, with the class of each nucleus.

    The class comes from ``inst_type``; without it, from most of the nucleus's pixels in ``type_map``. The number 0, or
    a missing entry in ``inst_uid``, mean no class (0). Entries for ids that are not in the map are ignored. Types are
    not read if the path contains the class or the challenge has no numbers (``class_values``).

    Raises InputFault: no-mask-variable, not-numeric, wrong-length, unknown-class-value, and as ``MatFile`` and
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
            class_of_instance = _classes_of_instances(mat, types, np.array(present_labels(labels), np.int64), request)
        elif type_map is not None:
            place, shape_yx = f"{where}, {quote(TYPE_MAP)}", case.shape_yx
            check_shape(type_map.shape, where=place, shape_yx=shape_yx)
            class_map = runs_of(label_image.class_ids_in(mat.read(type_map), classes, where=place, shape_yx=shape_yx))
    return _one_image(labels, request, where, class_map, class_of_instance)


def variable_of(mat: MatFile, *names: str) -> Variable | None:
    """Find the variable with the first of these names in the file; None if missing.

    Raises InputFault if it contains no plain numbers, or is there twice.
    """
    name = next((name for name in names if any(variable.name == name for variable in mat.variables)), "")
    named = [variable for variable in mat.variables if variable.name == name]
    if len(named) > 1:
        raise refused("no-mask-variable", mat.where, wording="twice", name=name, times=len(named))
    if named and named[0].kind is not None:
        raise refused("not-numeric", mat.where, wording="variable", kind=named[0].kind, name=name)
    return named[0] if named else None


def _classes_of_instances(mat: MatFile, types: Variable, present: Int64, request: Request) -> Int16:
    """Find the class id of each of the present labels, int16 (N,), 0 without a class."""
    where, name, id_name = mat.where, types.name, TYPES[types.name][0]
    ids = _ids_of_types(mat, types)
    ids = present if ids is None else ids
    expected = label_image.describe_class_values(request.classes)
    numbers = _read_vector(mat, types, expected)
    if (count := len(numbers)) != (nuclei := len(ids)):
        wording = "other-number-of-classes"
        raise refused("wrong-length", where, wording=wording, types=name, ids=id_name, classes=count, nuclei=nuclei)
    class_id = label_image.known_classes(numbers, request.classes)
    is_known = class_id != label_image.NO_CLASS
    if not is_known.all():

        def type_fault(number: int, count: int) -> Finding:
            place, id = f"{where}, {quote(types.name)}", ids[numbers == number][0]
            code, wording = "unknown-class-value", "of-nuclei"
            return fault(code, place, wording=wording, expected=expected, value=number, nuclei=count, id=id)

        raise InputFault(*label_image.for_values(numbers[~is_known], type_fault))
    if not len(ids):
        return np.zeros(len(present), np.int16)
    order = np.argsort(ids)
    entry = np.minimum(np.searchsorted(ids[order], present), len(ids) - 1)
    return np.where(ids[order][entry] == present, class_id[order][entry], 0).astype(np.int16)


def _ids_of_types(mat: MatFile, types: Variable) -> Int64 | None:
    """Read the ids of the nuclei with classes in ``types``; None if missing."""
    if (variable := variable_of(mat, *TYPES[types.name])) is None:
        return None
    ids, name = _read_vector(mat, variable, "ids from 1").astype(np.int64), types.name
    if repeated := len(ids) - len(np.unique(ids)):
        wording, where, ids_name, found = "repeated-ids", mat.where, TYPES[name][0], variable.name
        raise refused("wrong-length", where, wording=wording, types=name, ids=ids_name, repeated=repeated, found=found)
    return ids


def _read_vector(mat: MatFile, variable: Variable, expected: str) -> npt.NDArray[np.integer[Any]]:
    """Read the whole numbers of a column, or row, of numbers."""
    count = math.prod(variable.shape)
    if not count:
        return np.empty(0, np.int64)
    where = f"{mat.where}, {quote(variable.name)}"
    if max(variable.shape) != count:
        sizes = " x ".join(f"{size:,}" for size in variable.shape[:8])
        raise refused("wrong-length", where, wording="no-column-of-numbers", sizes=sizes)
    column = mat.read(variable).reshape(-1, 1)
    return check_integers(column, where=where, shape_yx=(count, 1), expected=expected).reshape(-1)


def _example_of_hovernet_mat(made: Example, cases: Sequence[Case], class_name: str | None) -> bytes:
    from scipy import io as scipy_io

    classes = [made.values[name] for _, name in made.classes_of(cases[0], class_name)]
    file = io.BytesIO()
    content = {IDS: made.labels(cases[0]), "inst_type": np.array(classes, np.int32).reshape(-1, 1)}
    scipy_io.savemat(file, content, do_compression=True)
    return file.getvalue()


# --- what shows the formats, and the images of a file -----------------------------------------------------------------


MOST_CHANNELS = 16


def _are_masks(shape: tuple[int, ...]) -> bool:
    """Return whether an array has the shape of masks: of all images four axes, of one three, and a few channels."""
    return len(shape) in (3, 4) and 2 < shape[-1] <= MOST_CHANNELS and (len(shape) == 4 or shape[0] > 2)


def _list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """List the images of an array N x H x W (x C), which has numbers for them; of PanNuke's H x W x C the only one."""
    shape = CaseArray(stream, request).shape
    if len(shape) == 3 and request.rules.file_holds == "either" and not request.rules.is_shared:
        return [ListedImage((), None, plain_size([*shape[:2]]))]
    size_yx = plain_size(list(shape[1:3]))
    return [ListedImage((), index, size_yx) for index in range(shape[0] if len(shape) > 2 else 0)]


def _size_in_mat(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    mat = MatFile(stream, where=request.where, bytes_limit=request.limits.bytes_per_file)
    is_nary = request.rules.format == "nary_mat"
    variable = choose_variable(mat.variables, request.where) if is_nary else variable_of(mat, IDS)
    return None if variable is None else label_image.plane_of(variable.shape, ())


FORMATS = {
    "conic_array": Format(
        "NumPy array, cases x height x width x 2 (nuclei, classes)",
        _example_of_conic_array,
        read_all=_read_conic_array_collection,
        detect=lambda file: file.what if len(file.shape) == 4 and file.shape[3] == 2 else "",
        list_images=_list_images,
    ),
    "pannuke_masks": Format(
        "NumPy array, height x width x channels, the nuclei of a class in each channel",
        _example_of_pannuke_masks,
        read=_read_pannuke_masks,
        read_all=_read_pannuke_masks_collection,
        detect=lambda file: file.what if _are_masks(file.shape) else "",
        list_images=_list_images,
    ),
    "hovernet_mat": Format(
        "MATLAB file of HoVer-Net (`inst_map`, `inst_type`) or Lizard (`inst_map`, `class`, `id`)",
        _example_of_hovernet_mat,
        read=_read_hovernet_mat,
        detect=lambda file: file.what if file.kind == "matlab" and IDS in file.names else "",
        find_size=_size_in_mat,
    ),
    "nary_mat": Format(
        "MATLAB file with the labels in `n_ary_mask`",
        _example_of_nary_mat,
        read=_read_nary_mat,
        detect=lambda file: file.what if file.kind == "matlab" else "",
        find_size=_size_in_mat,
    ),
}
