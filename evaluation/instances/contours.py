"""Contours from runs: pieces of known length at the corners of pixels, as Nikolov et al. define them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.instances.boundary import RunsByInstance, boundaries_of, choose_runs, join_boundaries
from evaluation.model import Boundaries, Contours, Int64
from evaluation.model.intervals import distinct, expand

# Of the pixels upper left, upper right, lower left, lower right (8, 4, 2, 1): pieces along a side, and across a corner.
STRAIGHT = np.array([0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0])
DIAGONAL = np.array([0, 1, 1, 0, 1, 0, 2, 1, 1, 2, 0, 1, 0, 1, 1, 0])


def contours_of(by_instance: RunsByInstance, chosen: npt.NDArray[np.integer[Any]]) -> Contours:
    """The contour of each chosen instance: a piece at every corner of pixels with pixels in and out around it.

    Point (y, x) is the upper left corner of pixel (y, x). Two neighbours of the four pixels around it make a piece of
    length 1, one pixel or three make one of 1 / sqrt(2), two opposite ones two of these. The border of the image is
    outside. The points of an entry come row by row. Costs in proportion to the boundary pixels, and a search in the
    runs for each.

    >>> from evaluation.instances.boundary import runs_by_instance
    >>> from evaluation.instances.labels import instances_from_labels
    >>> two = contours_of(runs_by_instance(instances_from_labels(np.array([[1, 1]]))), np.array([0]))
    >>> two.points.size.tolist(), two.straight.sum().tolist(), two.diagonal.sum().tolist()
    ([6], 2, 4)
    """
    height, width = by_instance.shape_yx
    boundary = boundaries_of(by_instance, chosen, border="closed")
    entry = np.repeat(np.arange(len(chosen)), boundary.size)
    y, x = boundary.points_yx[:, expand(boundary.first, boundary.first + boundary.size)].astype(np.int64)
    line = width + 2  # with a column on either side of the image, and a row above and below

    def key(entry: Int64, y: Int64, x: Int64) -> Int64:
        return (entry * (height + 2) + y) * line + x

    corners = distinct(np.concatenate([key(entry, y + down, x + right) for down in (0, 1) for right in (0, 1)]))
    runs = choose_runs(by_instance, chosen)
    row = runs.row.astype(np.int64) + 1
    start, stop = key(runs.entry, row, runs.begin + np.int64(1)), key(runs.entry, row, runs.end + np.int64(1))
    code = np.zeros(len(corners), np.int64)
    for value, step in ((8, 0), (4, 1), (2, line), (1, line + 1)):
        run = np.searchsorted(start, corners + step, side="right") - 1
        code += value * ((run >= 0) & (corners + step < stop[run]))
    mixed = (code > 0) & (code < 15)
    corners, code = corners[mixed], code[mixed]
    entry, rest = np.divmod(corners, (height + 2) * line)
    size = np.bincount(entry, minlength=len(chosen))
    points = Boundaries(np.stack(np.divmod(rest, line)).astype(np.int32), np.cumsum(size) - size, size)
    return Contours(points, STRAIGHT[code], DIAGONAL[code])


def join_contours(parts: Sequence[Contours]) -> Contours:
    """The contours of several images, one after the other."""
    return Contours(
        join_boundaries([part.points for part in parts]),
        np.concatenate([part.straight for part in parts]),
        np.concatenate([part.diagonal for part in parts]),
    )
