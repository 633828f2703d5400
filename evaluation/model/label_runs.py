"""Planes of whole numbers as runs of equal values: what a label image is from the moment it is decoded.

A plane may come in bands of rows, so that a slide is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import scipy

from evaluation.model import Int64, LabelRuns
from evaluation.model.arrays import Integers
from evaluation.model.intervals import distinct, overlaps, row_bands

BLOCK_PX = 1 << 17  # what a block touches stays in the cache


class TooManyRuns(Exception):
    """The runs of a plane take more bytes than they may."""


def find_runs(plane: Integers) -> tuple[Int64, Int64, Integers]:
    """Maximal stretches of equal values other than 0 inside a row: start and stop in the flat plane, and their value.

    Goes through the plane in blocks of whole rows, so that all that is as large as a block stays in the cache.
    """
    width = plane.shape[1]
    flat = np.ascontiguousarray(plane).reshape(-1)
    step = max(1, BLOCK_PX // max(width, 1)) * width
    changed = np.empty(min(step, flat.size), np.bool_)
    starts, stops, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [flat[:0]]
    for begin in range(0, flat.size, max(step, 1)):
        block = flat[begin : begin + step]
        differs = changed[: block.size]
        np.not_equal(block[1:], block[:-1], out=differs[1:])
        differs[::width] = True
        edge = np.flatnonzero(differs)
        value = block[edge]
        edge += begin
        inside = np.flatnonzero(value)
        starts.append(edge[inside])
        values.append(value[inside])
        inside += 1
        stops.append(np.append(edge, begin + block.size)[inside])
    return np.concatenate(starts), np.concatenate(stops), np.concatenate(values)


def runs_of(plane: Integers) -> LabelRuns:
    """A plane as runs.

    >>> runs = runs_of(np.array([[0, 7, 7], [7, 0, -2]]))
    >>> runs.start.tolist(), runs.stop.tolist(), runs.value.tolist()
    ([1, 3, 5], [3, 4, 6], [7, 7, -2])
    """
    return runs_of_bands([plane], (plane.shape[0], plane.shape[1]))


def runs_of_bands(bands: Iterable[Integers], shape_yx: tuple[int, int], *, bytes_limit: int | None = None) -> LabelRuns:
    """A plane that comes as bands of whole rows, from the top, as runs.

    bytes_limit   of the runs; None for any. Raises TooManyRuns above it.
    """
    pieces: list[tuple[Int64, Int64, Integers]] = []
    row = size = 0
    for band in bands:
        start, stop, value = find_runs(band)
        offset = row * shape_yx[1]
        pieces.append((start + offset, stop + offset, value) if offset else (start, stop, value))
        row += len(band)
        size += start.nbytes + stop.nbytes + value.nbytes
        if bytes_limit is not None and size > bytes_limit:
            raise TooManyRuns
    if len(pieces) == 1:
        return LabelRuns(shape_yx, *pieces[0])
    return LabelRuns(shape_yx, *(np.concatenate([piece[part] for piece in pieces]) for part in range(3)))


def present_labels(runs: LabelRuns) -> list[int]:
    """The values that occur, ascending.

    >>> present_labels(runs_of(np.array([[0, 7, 7, 2]])))
    [2, 7]
    """
    labels: list[int] = distinct(runs.value).tolist()
    return labels


def split_labels(runs: LabelRuns, labels: Iterable[int]) -> tuple[LabelRuns, LabelRuns]:
    """The plane without some of its values, and these alone.

    >>> [part.value.tolist() for part in split_labels(runs_of(np.array([[0, 7, 2, 2, -1]])), [2, -1])]
    [[7], [2, -1]]
    """
    bounds = np.iinfo(runs.value.dtype)
    asked = np.array([label for label in labels if bounds.min <= label <= bounds.max], runs.value.dtype)
    chosen = np.isin(runs.value, asked)
    rest, parts = (
        LabelRuns(runs.shape_yx, runs.start[part], runs.stop[part], runs.value[part]) for part in (~chosen, chosen)
    )
    return rest, parts


def count_tops(runs: LabelRuns, labels: Sequence[int]) -> Int64:
    """Runs of each label with none of the same label above them, int64 (L,): as many as it has regions, or more.

    Much faster than ``count_regions``. ``labels`` are all that occur, ascending. A run touches those of the row above
    by sides and corners.

    >>> count_tops(runs_of(np.array([[1, 0, 1, 2], [1, 1, 1, 0], [0, 0, 0, 2]])), [1, 2]).tolist()
    [2, 2]
    """
    width = max(runs.shape_yx[1], 1)
    stride, row = width + 2, runs.start // width  # a run that looks one pixel to each side does not reach the next row
    start, stop = runs.start + 2 * row + 1, runs.stop + 2 * row + 1
    above, below, *_ = overlaps(start - 1 + stride, stop + 1 + stride, start, stop)
    is_top = np.ones(len(start), np.bool_)
    is_top[below[runs.value[above] == runs.value[below]]] = False
    return np.bincount(np.searchsorted(labels, runs.value[is_top]), minlength=len(labels))


def count_regions(runs: LabelRuns) -> int:
    """Number of 8-connected regions of the pixels that are not 0, whatever their values.

    >>> count_regions(runs_of(np.array([[1, 0, 0, 1], [0, 1, 0, 1]])))
    2
    """
    width = runs.shape_yx[1]
    stride = width + 2  # a run that looks one pixel to each side does not reach the next row
    regions = 0  # that are closed: they do not reach the last row that was looked at
    start_above = stop_above = region_above = np.empty(0, np.int64)  # of that row
    for (band,) in row_bands([runs.start], width):
        row = runs.start[band] // max(width, 1)
        if len(row) == 0:
            continue
        start = np.concatenate([start_above, runs.start[band] + 2 * row + 1])
        stop = np.concatenate([stop_above, runs.stop[band] + 2 * row + 1])
        beside = np.flatnonzero(start[1:] == stop[:-1])
        above, below, *_ = overlaps(start - 1 + stride, stop + 1 + stride, start, stop)
        # Nodes are runs; behind them come the regions of the row above, which have joined further up.
        links = [beside, above, np.arange(len(region_above))], [beside + 1, below, len(start) + region_above]
        edges = np.concatenate(links[0]), np.concatenate(links[1])
        nodes = len(start) + len(distinct(region_above))
        graph = scipy.sparse.coo_array((np.ones(len(edges[0]), np.int8), edges), shape=(nodes, nodes))
        components, region = scipy.sparse.csgraph.connected_components(graph, directed=False)
        last = len(start_above) + np.searchsorted(row, row[-1])
        start_above, stop_above = start[last:], stop[last:]
        reaching, region_above = np.unique(region[last : len(start)], return_inverse=True)
        regions += int(components) - len(reaching)
    return regions + len(distinct(region_above))
