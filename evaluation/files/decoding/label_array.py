"""Checks for label images from any file: one plane of integers of the case's size."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.streams import check_bytes
from evaluation.findings import Finding, fault
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import LabelRuns
from nuclei_metrics.model.annotations import count_regions, count_tops, present_labels, runs_of, split_labels
from nuclei_metrics.model.arrays import RUNS_AT_ONCE, Integers, distinct, expand

LARGEST_LABEL = 2**63 - 1
SPACING_TOLERANCE = 0.01
UM_PER_MM = 1000.0
CLASSES_AT_MOST = 10  # labels, above which they are no classes
REGIONS_OF_A_CLASS = 4
FIRST_RUNS = 1000
SOME = 4  # different labels below 0; of more none stands for the background
VOIDS = (2**8 - 1, 2**16 - 1, 2**32 - 1)
EXPECTED_LABELS = "0 for background and 1, 2, 3, … for nuclei"


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """Header information of an image, and how to read it.

    where       the file, or the part of it, for messages
    shape       of the array
    read        returns the array; allocates memory only after its size is checked
    dtype       of the array; None if unknown before reading
    spacing_mm  the size of a pixel along x and y; None if the format has no pixel size
    pages       images of one channel along the first axis
    bands       returns an image of one channel in bands of rows, from the top; None if it is read as a whole
    """

    where: str
    shape: tuple[int, ...]
    read: Callable[[], npt.NDArray[Any]]
    dtype: np.dtype[Any] | None = None
    spacing_mm: Sequence[float] | None = None
    pages: int = 1
    bands: Callable[[], Iterator[npt.NDArray[Any]]] | None = None


def check_labels(
    array: npt.NDArray[Any], *, where: str, shape_yx: tuple[int, int], first_row: int = 0, but: Collection[int] = ()
) -> Integers:
    """Check an array, and return it as labels, integer (H, W): 0 is background, every other value one instance.

    array     (H, W), or with axes of length 1 before or after; integers, booleans (one instance), or floats with
              integer values. It is not changed, and copied only if its values or bytes must be converted.
    shape_yx  (H, W) px of the case
    first_row of the array in the image, for messages, if it is a band of it
    but       values below 0 that it may have

    Integers keep their type. Labels may have gaps and may be as large as 2^63 - 1.

    Raises InputFault with all faults: wrong-shape, not-numeric, not-finite, fractional-label, negative-label,
    label-too-large.

    >>> check_labels(np.array([[[0.0, 7.0, 7.0]]]), where="'a.npy'", shape_yx=(1, 3))
    array([[0, 7, 7]], dtype=int32)
    """
    expected = EXPECTED_LABELS
    labels = check_integers(array, where=where, shape_yx=shape_yx, expected=expected, first_row=first_row)
    if labels.size and labels.dtype.kind == "i" and labels.min() < 0:
        judged = np.where(np.isin(labels, [value for value in but if value < 0]), 0, labels) if but else labels
        if faults := _label_faults(judged, where, expected, first_row):
            raise InputFault(*faults)
    return labels


def check_integers(
    array: npt.NDArray[Any], *, where: str, shape_yx: tuple[int, int], expected: str, first_row: int = 0
) -> Integers:
    """Return an array as integers (H, W) of any sign; otherwise as ``check_labels``. ``expected`` describes them."""
    check_dtype(array.dtype, where=where)
    plane: Any = array.reshape(check_shape(array.shape, where=where, shape_yx=shape_yx))  # of any kind of number
    if plane.dtype.kind == "b":
        plane = plane.view(np.uint8)
    if not plane.dtype.isnative:
        plane = plane.astype(plane.dtype.newbyteorder("="))
    if plane.dtype.kind == "f":
        return _whole_numbers(plane, where, expected, first_row)
    if plane.dtype == np.uint64 and plane.size and int(plane.max()) > LARGEST_LABEL:
        raise InputFault(*_label_faults(plane, where, expected, first_row))
    integers: Integers = plane
    return integers


def _whole_numbers(plane: npt.NDArray[np.floating[Any]], where: str, expected: str, first_row: int) -> Integers:
    """Return floats as int32, or int64 if they need it. Raises InputFault if one of them is no whole number."""
    with np.errstate(invalid="ignore"):
        low, high = float(plane.min(initial=0)), float(plane.max(initial=0))
        fits = low >= -(2.0**63) and high < 2.0**63  # false for NaN
        narrow = low >= -(2.0**31) and high < 2.0**31
        dtype: type[np.integer[Any]] = np.int32 if narrow else np.int64
        numbers: Integers | None = plane.astype(dtype) if fits else None
    if numbers is None or not np.array_equal(numbers, plane):
        raise InputFault(*_label_faults(plane, where, expected, first_row))
    return numbers


def _label_faults(plane: npt.NDArray[Any], where: str, expected: str, first_row: int) -> list[Finding]:
    """Return all faults of the values of a label image, one finding for each kind of fault."""
    finite = np.isfinite(plane)
    values = plane if finite.all() else np.where(finite, plane, 0)
    faults = []
    for code, find in (  # one mask after the other, for memory
        ("not-finite", lambda: ~finite),
        ("fractional-label", lambda: np.floor(values) != values),
        ("negative-label", lambda: values < 0),
        ("label-too-large", lambda: values >= 2.0**63 if plane.dtype.kind == "f" else values > LARGEST_LABEL),
    ):
        wrong: npt.NDArray[np.bool_] = find()
        if count := int(np.count_nonzero(wrong)):
            row, column = divmod(int(wrong.argmax()), plane.shape[1])
            first = plane[row, column]
            shown = first if plane.dtype.kind == "f" else int(first)
            low, high = plane[wrong].min(), plane[wrong].max()
            value, size = {"negative-label": low, "label-too-large": high}.get(code, shown), plane.size
            row += first_row
            if code == "negative-label" and plane.dtype.kind == "i" and len(np.unique(plane[wrong])) > SOME:
                bits = 8 * plane.dtype.itemsize
                faults.append(
                    fault(
                        "negative-label", where, wording="overflow", expected=expected, bits=bits, wrong=count,
                        pixels=size, value=value, row=row, column=column,
                    )
                )  # fmt: skip
                continue
            faults.append(
                fault(code, where, expected=expected, wrong=count, pixels=size, value=value, row=row, column=column)
            )
    return faults


def check_dtype(dtype: np.dtype[Any], *, where: str) -> None:
    """Refuse anything that is not numbers. Raises InputFault ("not-numeric"; "pickle" for Python objects)."""
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return
    if dtype.kind == "O":
        raise refused("pickle", where)
    kinds = {"f": "numbers of more than 64 bits", "c": "complex numbers", "U": "texts", "S": "texts", "V": "records"}
    raise refused("not-numeric", where, kind=kinds.get(dtype.kind, "another kind of values"))


def check_shape(shape: tuple[int, ...], *, where: str, shape_yx: tuple[int, int], channels: int = 1) -> tuple[int, ...]:
    """``shape_yx``, if an array of this shape is one plane of that size; axes of length 1 at either end do not count.

    With several channels: (H, W, channels) or (channels, H, W), whichever it is. Called with the shape in a file's
    header, before any memory is taken. Raises InputFault ("wrong-shape").

    >>> check_shape((1, 20, 30), where="'a.tif'", shape_yx=(20, 30))
    (20, 30)
    >>> check_shape((20, 30, 2, 1), where="'a.tif'", shape_yx=(20, 30), channels=2)
    (20, 30, 2)
    """
    accepted = [shape_yx] if channels == 1 else [(*shape_yx, channels), (channels, *shape_yx)]
    for wanted in accepted:
        for first in range(len(shape) - len(wanted) + 1):
            last = first + len(wanted)
            if shape[first:last] == wanted and set(shape[:first] + shape[last:]) <= {1}:
                return wanted
    height, width = shape_yx
    sizes = tuple(size for size in shape if size != 1)
    got, found = "", sizes if len(sizes) == 2 else shape[:2]
    fix = "Write the labels at the size of the image, without resizing or cropping."
    if len(sizes) == 2 and sizes == (width, height):
        fix = "Height and width are swapped: write the transposed array (labels.T in numpy, labels.' in MATLAB)."
    elif len(sizes) <= 2 and len(shape) >= 2:
        if 0 in shape:
            got, fix = "an empty array", "For an image without nuclei write an image of zeros."
    else:
        got = f"an array of {' x '.join(str(size) for size in shape[:8])}" if shape else "a single number"
        if channels == 1 and (sizes[:2] == shape_yx or sizes[-2:] == shape_yx):
            fix = "These are several planes, such as colours or one per class: write one plane of labels."
    wanted_channels = ""
    if channels > 1:
        wanted_channels = f", with {channels} channels"
        fix = "Write the ids of the nuclei in one channel and their classes in the other."
    if got:
        raise refused(
            "wrong-shape",
            where,
            wording="array",
            got=got,
            fix=fix,
            height=height,
            width=width,
            channels=wanted_channels,
        )
    raise refused("wrong-shape", where, fix=fix, found=found, height=height, width=width, channels=wanted_channels)


def check_spacing(spacing_mm: Sequence[float], spacing_um: float | None, where: str) -> None:
    """Refuse an image with another pixel size than the case. Writers use 1 mm for unknown, and some write um for mm."""
    sides_um = [side * UM_PER_MM for side in spacing_mm[:2]]
    if spacing_um is None or sides_um == [UM_PER_MM] * 2:
        return
    for sides in (sides_um, spacing_mm[:2]):
        if all(abs(side - spacing_um) <= SPACING_TOLERANCE * spacing_um for side in sides):
            return
    raise refused("wrong-spacing", where, x=sides_um[0], y=sides_um[1], spacing_um=spacing_um)


def find_binary_mask(labels: LabelRuns, *, where: str) -> tuple[Finding, ...]:
    """Warn if there is one label only (1, or 255) and its pixels are apart: all nuclei would count as one.

    The same if there are a few labels and most of them have many separate regions, as classes have. Legal, since an
    instance may have several parts, but hardly ever meant.

    >>> from nuclei_metrics.model.annotations import runs_of
    >>> find_binary_mask(runs_of(np.array([[1, 0, 1]])), where="'a.npy'")[0].code
    'binary-mask'
    >>> find_binary_mask(runs_of(np.array([[1, 0, 2]])), where="'a.npy'")
    ()
    >>> find_binary_mask(runs_of(np.array([[1, 0, 2, 0] * 4])), where="'a.npy'")[0].got
    '2 labels with 8 separate regions'
    """
    if len(set(labels.value[:FIRST_RUNS].tolist())) > CLASSES_AT_MOST:
        return ()
    present = present_labels(labels)
    if not 0 < len(present) <= CLASSES_AT_MOST:
        return ()
    if len(present) == 1:
        regions = count_regions(labels)
        return (fault("binary-mask", where, regions=regions, label=present[0]),) if regions > 1 else ()
    if len(labels.value) <= RUNS_AT_ONCE:  # beyond, count_tops would take much memory
        tops = count_tops(labels, present)
        if 2 * int((tops >= REGIONS_OF_A_CLASS).sum()) <= len(present):
            return ()
    parts = [count_regions(split_labels(labels, [label])[1]) for label in present]
    if 2 * sum(number >= REGIONS_OF_A_CLASS for number in parts) <= len(parts):
        return ()
    return (fault("binary-mask", where, wording="classes", labels=len(present), regions=sum(parts)),)


def values_of_masks(images: Iterable[LabelRuns]) -> set[int]:
    """Return the values of images that are masks, in which nuclei have no numbers; nothing for labels.

    Masks have one value with separate regions in some image, or the values of classes (``find_binary_mask``), except
    values that may mean unannotated regions (``find_void``). The search stops at the first image with labels.

    >>> from nuclei_metrics.model.annotations import runs_of
    >>> one, two = runs_of(np.array([[255, 0, 255]])), runs_of(np.array([[1, 0, 2]]))
    >>> values_of_masks([one, one]), values_of_masks([one, two]), values_of_masks([])
    ({255}, set(), set())
    >>> values_of_masks([runs_of(np.array([[1, 0, 2, 0] * 4]))])
    {1, 2}
    """
    values: set[int] = set()
    is_told = False
    for labels in images:
        if find_void(labels, where=""):
            labels, _ = split_labels(labels, [int(labels.value.max())])
        is_mask = bool(find_binary_mask(labels, where=""))
        present = distinct(labels.value).tolist()
        if len(present) > 1 and not is_mask:
            return set()
        values |= set(present)
        is_told |= is_mask
    return values if is_told else set()


def find_edges(labels: LabelRuns, *, where: str) -> tuple[Finding, ...]:
    """Refuse a mask in which some values are edges: grey edges, contours, or outlines that are drawn and not filled.

    A value is an edge if its regions are one or two pixels wide, and nearly all touch another value, or if it surrounds
    all regions of another value.

    >>> from nuclei_metrics.model.annotations import runs_of
    >>> ring = np.pad(np.full((6, 6), 255), 1, constant_values=99)
    >>> find_edges(runs_of(np.tile(np.pad(ring, 2), 4)), where="'a.png'")[0].got
    "the value '99', around the regions of other values"
    >>> find_edges(runs_of(np.tile(np.pad(0 * ring + 9, 2), 4)), where="'a.png'")
    ()
    """
    from scipy import ndimage  # few images need it

    plane, square = _plane_of(labels), np.ones((3, 3), np.bool_)
    values = present_labels(labels)
    if len(values) > CLASSES_AT_MOST:
        return ()
    edges = sorted(_values_around(plane))
    for value in values:
        mask = plane == value
        if value in edges or ndimage.binary_erosion(mask, square).any():
            continue
        regions, count = ndimage.label(mask, square)
        beside = ndimage.binary_dilation((plane != 0) & ~mask, square) & mask
        if len(values) > 1 and len(np.unique(regions[beside])) > 0.9 * count:
            edges.append(value)
        elif len(values) == 1 and 2 * mask.sum() < ndimage.binary_fill_holes(mask).sum():
            return (fault("mask-edges", where, wording="outlines"),)
    inside = [value for value in values if value not in edges]
    if not edges or not inside:
        return ()
    wording = "grey" if max(edges) < max(inside) > CLASSES_AT_MOST else ""
    return (fault("mask-edges", where, wording=wording, values=list(map(str, edges)), half=(max(inside) + 1) // 2),)


def _values_around(plane: npt.NDArray[Any]) -> set[int]:
    """Return the values that surround all regions of another value, two or more, as contours surround insides."""
    from scipy import ndimage

    beside: dict[int, set[int]] = {}
    for one, other in ((plane[1:], plane[:-1]), (plane[:, 1:], plane[:, :-1])):
        pairs = np.unique(np.stack([one, other])[:, one != other], axis=1).T.tolist()
        for value, touched in (*pairs, *(reversed(pair) for pair in pairs)):
            beside.setdefault(value, set()).add(touched)
    inside = [value for value, around in beside.items() if value and len(around) == 1 and not around & {0}]
    edges = {next(iter(beside[value])) for value in inside if ndimage.label(plane == value)[1] > 1}
    return {value for value in edges if 0 in beside[value]}


def _plane_of(runs: LabelRuns) -> npt.NDArray[Any]:
    """Return the labels as an array (H, W)."""
    plane = np.zeros(math.prod(runs.shape_yx), runs.value.dtype)
    plane[expand(runs.start, runs.stop)] = np.repeat(runs.value, runs.stop - runs.start)
    return plane.reshape(runs.shape_yx)


def find_void(labels: LabelRuns, *, where: str) -> tuple[Finding, ...]:
    """Warn if the largest label may mean an unannotated region or the background.

    It is the largest number of 8, 16 or 32 bits, more than twice the next label, and the largest of the image's type;
    or the other labels leave no gap.

    >>> from nuclei_metrics.model.annotations import runs_of
    >>> find_void(runs_of(np.array([[1, 2, 0, 255]])), where="'a.npy'")[0].code
    'not-annotated'
    >>> find_void(runs_of(np.array([[3, 0, 255]])), where="'a.npy'")
    ()
    """
    if not len(labels.value) or int(labels.value.max()) not in VOIDS:
        return ()
    *others, largest = present_labels(labels)
    if not others or others[-1] > largest // 2:
        return ()
    if largest != np.iinfo(labels.value.dtype).max and others[-1] != len(others):
        return ()
    pixels = int((labels.stop - labels.start)[labels.value == largest].sum())
    return (fault("not-annotated", where, label=largest, pixels=pixels, most=others[-1]),)


# --- Masks in which nuclei have no numbers of their own: connected components, by scikit-image. -----------------------


LABEL_BYTES = 8  # of a pixel, for the plane and its components


def label_components(
    runs: LabelRuns, connectivity: int, *, where: str, bytes_limit: int
) -> tuple[LabelRuns, tuple[Finding, ...]]:
    """Give every set of touching pixels with equal values other than 0 a label: 1, 2, 3, … row by row.

    connectivity  4: pixels touch by their sides; 8: also by their corners

    The finding describes the effect: touching nuclei are joined, separate parts are split. Raises
    InputFault (too-large).

    >>> labels, (finding,) = label_components(runs_of(np.array([[1, 0], [0, 1]])), 4, where="'a.png'", bytes_limit=100)
    >>> labels.value.tolist(), finding.got
    ([1, 2], '2 regions of touching pixels, each a nucleus; 1 if corners touched, 2 of one pixel')
    """
    from skimage.measure import label  # slow to import, and few need it

    check_bytes(LABEL_BYTES * math.prod(runs.shape_yx), "a mask", where, bytes_limit)
    values = np.unique(runs.value, return_inverse=True)[1].astype(np.int32) + 1
    plane = np.zeros(math.prod(runs.shape_yx), np.int32)
    length = runs.stop - runs.start
    first = np.repeat(runs.start - np.cumsum(length) + length, length)
    plane[first + np.arange(len(first))] = np.repeat(values, length)
    plane = plane.reshape(runs.shape_yx)
    components, count = label(plane, return_num=True, connectivity=1 if connectivity == 4 else 2)
    if not count:
        return runs_of(components.astype(np.int32)), ()
    _, other = label(plane, return_num=True, connectivity=2 if connectivity == 4 else 1)
    specks = int((np.bincount(components.ravel())[1:] == 1).sum())
    corners = "touched" if connectivity == 4 else "did not touch"
    return runs_of(components.astype(np.int32)), (
        fault("components", where, count=count, other=other, corners=corners, specks=specks),
    )
