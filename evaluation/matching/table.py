"""The overlap table: which instances share pixels, and how many. Made once a case; all rules and metrics read it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evaluation.model import Instances, Int32, Int64, OverlapTable
from evaluation.model.intervals import overlaps, row_bands


def overlap_table(reference: Instances, prediction: Instances) -> OverlapTable:
    """The sparse table of all pairs of instances that share at least one pixel, exact, also if instances overlap.

    Cost: proportional to the runs of both sides (times their layers) plus a sort of the pieces that they share, in
    bands of rows, one after the other; never a dense reference x prediction table. Raises ValueError if the images
    differ in shape.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> table = overlap_table(
    ...     instances_from_labels(np.array([[1, 1, 0, 2]])), instances_from_labels(np.array([[0, 5, 5, 5]]))
    ... )
    >>> table.reference_index.tolist(), table.prediction_index.tolist(), table.intersection_px.tolist()
    ([0, 1], [0, 0], [1, 1])
    """
    if reference.shape_yx != prediction.shape_yx:
        raise ValueError(f"reference is {reference.shape_yx} px, prediction {prediction.shape_yx} px (height, width)")
    bands = [
        shared_in_band(reference.part(left), prediction.part(right))
        for left, right in row_bands([reference.run_start, prediction.run_start], reference.shape_yx[1])
    ]
    return OverlapTable(
        *(bands[0] if len(bands) == 1 else sum_pieces(bands, len(prediction))),
        reference_area_px=reference.areas_px(),
        prediction_area_px=prediction.areas_px(),
    )


Pieces = tuple[Int32, Int32, Int64]  # reference index, prediction index, pixels of both


def shared_in_band(reference: Instances, prediction: Instances) -> Pieces:
    """Pairs that share pixels in a band of rows, sorted."""
    pieces = [
        shared_pieces(reference, left, prediction, right)
        for left in disjoint_layers(reference)
        for right in disjoint_layers(prediction)
    ]
    return sum_pieces(pieces, len(prediction))


def sum_pieces(pieces: Sequence[Pieces], predictions: int) -> Pieces:
    columns = zip(*pieces, strict=True)
    left, right, length = (np.concatenate(column) for column in columns)
    return sum_by_pair(left, right, length, predictions)


def disjoint_layers(instances: Instances) -> list[npt.NDArray[np.intp] | slice]:
    """Split the runs into layers within which no two overlap: greedy interval colouring, nearly always one or two.

    A run starts a new stack wherever it begins inside the one before; the nth run of a stack goes to layer n. Returns
    one index per layer; every layer is sorted by ``run_start``.
    """
    start, stop = instances.run_start, instances.run_stop
    if np.all(start[1:] >= stop[:-1]):
        return [slice(None)]
    layers: list[npt.NDArray[np.intp] | slice] = []
    left = np.arange(len(start))
    while left.size:
        kept = greedy_disjoint(start[left], stop[left])
        layers.append(left[kept])
        left = left[~kept]
    return layers


def greedy_disjoint(start: Int64, stop: Int64) -> npt.NDArray[np.bool_]:
    """Mark runs, in order of their starts, that do not overlap a marked one before them.

    A run that begins at or after the end of all runs before it is always marked. Between two such runs (a *cluster* of
    mutually reaching runs, short in practice) marks are propagated cluster by cluster in parallel.
    """
    reach = np.maximum.accumulate(stop)
    free = np.ones(len(start), np.bool_)
    free[1:] = start[1:] >= reach[:-1]
    marked = free.copy()
    cluster_start = np.flatnonzero(free)
    end = stop[cluster_start].copy()
    position = cluster_start + 1
    limit = np.append(cluster_start[1:], len(start))
    active = np.flatnonzero(position < limit)
    while active.size:
        at = position[active]
        fits = start[at] >= end[active]
        marked[at] = fits
        end[active[fits]] = stop[at[fits]]
        position[active] += 1
        active = active[position[active] < limit[active]]
    return marked


def shared_pieces(
    reference: Instances,
    left: npt.NDArray[np.intp] | slice,
    prediction: Instances,
    right: npt.NDArray[np.intp] | slice,
) -> Pieces:
    """Stretches of pixels in a run of both layers: reference index, prediction index, length."""
    a, b, start, stop = overlaps(
        reference.run_start[left], reference.run_stop[left], prediction.run_start[right], prediction.run_stop[right]
    )
    return reference.run_instance[left][a], prediction.run_instance[right][b], stop - start


def sum_by_pair(reference_index: Int32, prediction_index: Int32, length: Int64, predictions: int) -> Pieces:
    """Add up the pieces of each pair; pairs sorted by reference, then prediction."""
    if len(length) == 0:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    pair, total = sum_by_key(reference_index.astype(np.int64) * predictions + prediction_index, length)
    reference_of_pair, prediction_of_pair = np.divmod(pair, predictions)
    return reference_of_pair.astype(np.int32), prediction_of_pair.astype(np.int32), total


def sum_by_key(key: Int64, value: Int64) -> tuple[Int64, Int64]:
    """The distinct keys, sorted, and the sum of the values of each; at least one, none negative.

    Key and value are packed into one int64 where they fit, since sorting values is several times faster than sorting
    indices.
    """
    bits = int(value.max()).bit_length()
    if int(key.max()).bit_length() + bits < 64:
        packed = (key << bits) | value
        packed.sort()
        key, value = packed >> bits, packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
        key, value = key[order], value[order]
    first = np.flatnonzero(key[1:] != key[:-1]) + 1
    first = np.concatenate([[0], first])
    return key[first], np.add.reduceat(value, first)
