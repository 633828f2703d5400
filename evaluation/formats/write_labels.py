"""Instances as label images: TIFF, and MoNuSAC's "n-ary masks" for MATLAB.

The same instances always give the same bytes: no file holds a date or the name of a program.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.findings.errors import refused
from evaluation.model import Instances, Int64

LARGEST_NUMBER = np.iinfo(np.int32).max
MAT_HEADER = b"MATLAB 5.0 MAT-file, an n-ary mask"  # 116 bytes of text, where scipy writes the date
MAT_BYTES = (1 << 32) - 1024  # a little less than a variable in a MATLAB 5 file can have

Labels = npt.NDArray[np.integer[Any]]


def write_label_tiff(instances: Instances, *, where: str = "nuclei") -> bytes:
    """A TIFF of (H, W) px, uint16 or, for numbers above 65,535, int32: 0 background, else the number of the nucleus.

    The number is the ``source_id`` if these are distinct whole numbers from 1 to 2^31 - 1, else the position in
    ``instances``, 1…N. ``where`` says what is written, for messages. Raises InputFault: overlap-in-label-map, and
    unsupported-shape for points.
    """
    return tiff(paint(instances, instance_numbers(instances.source_id), where))


def write_class_tiff(instances: Instances, numbers: Sequence[int] | None = None, *, where: str = "nuclei") -> bytes:
    """A TIFF as that of ``write_label_tiff``, with the number of the class in every pixel of a nucleus.

    numbers   class id c has the number ``numbers[c - 1]``; None: c itself

    Nuclei without a class (id 0) and those of ignore classes (below 0) have the number 0, as the background has.
    """
    class_id = np.maximum(instances.class_id.astype(np.int64), 0)
    if numbers is not None:
        class_id = np.array([0, *numbers], np.int64)[class_id]
    return tiff(paint(instances, class_id, where))


def write_nary_mat(instances: Instances, class_id: int | None = None, *, where: str = "nuclei") -> bytes:
    """A MATLAB 5 file with the nuclei of a class (None: of all) in ``n_ary_mask``, integer (H, W), 0 background.

    Numbers, and what is raised, as in ``write_label_tiff``; also too-large for images of 2^30 px and more.
    """
    chosen = np.ones(len(instances), np.bool_) if class_id is None else instances.class_id == class_id
    number = np.zeros(len(instances), np.int64)
    number[chosen] = instance_numbers(instances.source_id[chosen])
    labels = paint(instances, number, where)
    if labels.nbytes > MAT_BYTES:
        raise refused("too-large", where, wording="for-matlab", size=labels.nbytes, limit=MAT_BYTES)
    return mat_bytes(labels)


def mat_bytes(labels: Labels) -> bytes:
    """A MATLAB 5 file with the variable ``n_ary_mask``, without a date."""
    file = io.BytesIO()
    scipy.io.savemat(file, {"n_ary_mask": labels}, do_compression=True)
    return MAT_HEADER.ljust(116) + file.getvalue()[116:]


def instance_numbers(source_id: npt.NDArray[Any]) -> Int64:
    """The numbers by which instances stand in a label image, int64 (N,)."""
    texts = [str(source) for source in source_id]
    if all(re.fullmatch("[1-9][0-9]{0,9}", text) for text in texts) and len(set(texts)) == len(texts):
        number = np.array(texts, dtype=np.int64)
        if number.max(initial=0) <= LARGEST_NUMBER:
            return number
    return np.arange(1, len(source_id) + 1)


def paint(instances: Instances, number: Int64, where: str) -> Labels:
    """The number of the nucleus in every pixel, (H, W); nuclei with the number 0 are left out. Raises InputFault."""
    if instances.point_yx is not None and len(instances):
        raise refused("unsupported-shape", where, wording="points-in-label-image")
    run = np.flatnonzero(number[instances.run_instance])
    start, stop = instances.run_start[run], instances.run_stop[run]
    if contested := contested_px(start, stop):
        raise refused("overlap-in-label-map", where, pixels=contested)
    height, width = instances.shape_yx
    dtype = np.uint16 if number.max(initial=0) <= np.iinfo(np.uint16).max else np.int32
    # Steps up where runs begin and down where they stop; their sums may wrap around on the way and come out right.
    steps: Labels = np.zeros(height * width + 1, dtype)
    value: Labels = number[instances.run_instance[run]].astype(dtype)
    steps[start] = value
    steps[stop] = steps[stop] - value
    return np.asarray(np.cumsum(steps, dtype=dtype, out=steps)[:-1].reshape(height, width))


def contested_px(start: Int64, stop: Int64) -> int:
    """How many pixels lie in two runs or more; runs are sorted by start."""
    reach = np.maximum.accumulate(stop)[:-1]  # of all runs before each
    shared_stop = np.minimum(stop[1:], reach)
    is_shared = shared_stop > start[1:]
    shared_start, shared_stop = start[1:][is_shared], shared_stop[is_shared]
    counted_to = np.concatenate([[0], np.maximum.accumulate(shared_stop)])[: len(shared_stop)]
    return int(np.maximum(shared_stop - np.maximum(shared_start, counted_to), 0).sum())


def tiff(labels: Labels) -> bytes:
    """One deflated page."""
    import tifffile  # slow to import, and readers share this file with writers

    file = io.BytesIO()
    tifffile.imwrite(file, labels, compression="zlib", photometric="minisblack", metadata=None, software=False)
    return file.getvalue()
