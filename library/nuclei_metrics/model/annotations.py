"""Scored data as files describe them: cases and classes; outlines, points, counts, planes of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model.arrays import Bool, Float64, Int16, Int32, Int64, Integers, distinct, overlaps, row_bands
from nuclei_metrics.model.instances import Instances


@dataclass(frozen=True, slots=True)
class Case:
    """One image that is scored: a row of cases.csv. ``group`` is the patient (the case itself if none is given).

    ``index`` is the number of the case in files of all cases: its place from 0 in arrays, the id of its image in
    COCO's results; None if there are no such files.
    ``offset_xy`` is the upper left corner of the image in the slide it was cut from, px.
    ``stratum`` is the tissue, organ or centre of a group, "" if cases.csv has none.
    ``area_mm2`` is the area that was annotated, if it is not the image.
    """

    name: str
    group: str
    height: int
    width: int
    spacing_um: float | None = None
    index: int | None = None
    offset_xy: tuple[float, float] = (0.0, 0.0)
    stratum: str = ""
    area_mm2: float | None = None

    @property
    def shape_yx(self) -> tuple[int, int]:
        return self.height, self.width


@dataclass(frozen=True, slots=True)
class ClassTable:
    """How the files of one side name the classes.

    names    names of the scored classes; class id c is ``names[c - 1]``
    ids      class id by case-folded name or alias: 1…C scored, -1…-I ignore classes; "" means no name
    values   class id by the number that stands for it in files; empty if the challenge gives no numbers
    skipped  case-folded names of annotations that are left out, such as regions of interest
    """

    names: tuple[str, ...]
    ids: Mapping[str, int]
    values: Mapping[int, int] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()

    @property
    def of_nameless(self) -> int:
        """The class of a nucleus whose file names none: the only class of the challenge, or 0 if it has several."""
        return 1 if len(self.names) == 1 else self.ids.get("", 0)


# --- the names of the rules that the stages obey ----------------------------------------------------------------------


OverlapRule = Literal["keep", "last", "first", "smallest", "class_order", "ignore"]
OverlapScope = Literal["class", "image"]
VanishedRule = Literal["drop", "pixel", "error"]
VerticesRule = Literal["exact", "truncate"]
OriginRule = Literal["pixel_centre", "pixel_corner"]
IgnorePolicy = Literal["clip", "drop_overlapping", "drop_centroid", "drop_unmatched"]
BorderRule = Literal["open", "closed"]
AggregationUnit = Literal["pooled", "group", "case"]
UndefinedRule = Literal["skip", "worst"]
ClassPresence = Literal["either", "reference"]
WITH_FRACTION: tuple[IgnorePolicy, ...] = ("drop_overlapping", "drop_unmatched")  # policies that need one
AGGREGATIONS = ("pooled", "group_mean", "case_mean")
STRATUM_MEAN = "stratum_mean"  # beside them if cases.csv names strata
RankingMethod = Literal[
    "sum_of_ranks",
    "mean_of_ranks",
    "median_of_ranks",
    "absolute",
    "aggregate_then_rank",
    "rank_then_aggregate",
    "test_then_rank",
]
Aggregate = Literal["mean", "median"]
Ties = Literal["min", "average", "dense"]
Missing = Literal["worst", "unranked"]  # of ranks
MissingValues = Literal["worst", "unranked", "complete_cases"]


# --- what files say of a case -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Polygons as a file describes them, before any rule is applied: rings of vertices that belong to instances.

    points_xy      float64 (V, 2)  vertices of all rings, one after the other, in the file's own coordinates
    ring_start     int64 (K + 1,)  ring k has the vertices ``points_xy[ring_start[k]:ring_start[k + 1]]``; it closes
                   by itself, and a last vertex that repeats the first changes nothing
    ring_instance  int32 (K,)      0…N-1, ascending; an instance has one outer ring or more, and holes
    ring_is_hole   bool (K,)       True: its pixels are taken away from the outer ring of the instance before it
    class_id       int16 (N,)      1…C scored class, 0 not given, -1…-I ignore class; instances are in document order
    source_id      object (N,)     the id or index in the file, for messages and the object table
    probability    float64 (N,)    confidence of each instance in 0…1, or None
    class_probability  float64 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    ring_start: Int64
    ring_instance: Int32
    ring_is_hole: Bool
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float64 | None = None
    class_probability: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Nuclei that are points, as a file describes them, before any rule is applied.

    points_xy    float64 (N, 2)  in the file's own coordinates, but in px
    class_id     int16 (N,)      as in ``Outlines``; points are in document order
    source_id    object (N,)
    probability  float64 (N,)    confidence of each point in 0…1, or None
    class_probability  float64 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float64 | None = None
    class_probability: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The number of nuclei of each class in an image, from a file without their positions.

    per_class  int64 (C,)  in the order of the classes
    """

    per_class: Int64

    def __len__(self) -> int:
        return int(self.per_class.sum())


@dataclass(frozen=True, slots=True, eq=False)
class LabelRuns:
    """A plane of whole numbers as runs of equal values; where there is no run, it is 0.

    shape_yx      (H, W) px
    start, stop   int64 (R,), half-open intervals of the row-major flat index, ascending, disjoint, each in one row
    value         integer (R,), not 0
    """

    shape_yx: tuple[int, int]
    start: Int64
    stop: Int64
    value: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LabelImage:
    """One decoded label image: every positive value is one instance.

    labels     of the pixels, none of them negative
    class_id   the class of all its instances (one file per class), 0 if ``class_map`` has the classes
    class_map  the class id (1…C) of every pixel, 0 not given, below 0 for ignore classes, or None
    source     name of the file, for messages; goes before the ids in the object table when a case has several files
    class_of_instance  int16 (N,), the class id of each label in ascending order of the labels, or None
    """

    labels: LabelRuns
    class_id: int = 0
    class_map: LabelRuns | None = None
    source: str = ""
    class_of_instance: Int16 | None = None


Part = Outlines | Points | LabelImage | Instances | Counts


# --- planes as runs ---------------------------------------------------------------------------------------------------


# Planes of whole numbers as runs of equal values: what a label image is from the moment it is decoded.
# A plane may come in bands of rows, so that a slide is never in memory as a whole.


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
        edge = differs.nonzero()[0]
        value = block.take(edge)
        inside = value.nonzero()[0]
        edge += begin
        starts.append(edge.take(inside))
        values.append(value.take(inside))
        behind = np.empty_like(edge)
        behind[:-1], behind[-1] = edge[1:], begin + block.size
        stops.append(behind.take(inside))
    if len(starts) == 2:
        return starts[1], stops[1], values[1]
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


_FEW_LINKS = 1 << 16  # which take less time than the import of scipy.sparse


def connect(left: Int64, right: Int64, nodes: int) -> Integers:
    """Return a number for each node, equal for nodes that links connect, (nodes,)."""
    if len(left) > _FEW_LINKS:
        import scipy

        graph = scipy.sparse.coo_array((np.ones(len(left), np.int8), (left, right)), shape=(nodes, nodes))
        region: Integers = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
        return region
    first = np.arange(nodes)  # of the nodes that are known to be connected
    while True:
        one, other = first[left], first[right]
        apart = np.flatnonzero(one != other)
        if not len(apart):
            return first
        left, right, one, other = left[apart], right[apart], one[apart], other[apart]
        np.minimum.at(first, np.maximum(one, other), np.minimum(one, other))
        while (first != (nearer := first[first])).any():
            first = nearer


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
        region = connect(*edges, len(start) + len(distinct(region_above)))
        last = len(start_above) + np.searchsorted(row, row[-1])
        start_above, stop_above = start[last:], stop[last:]
        reaching, region_above = np.unique(region[last : len(start)], return_inverse=True)
        regions += len(distinct(region)) - len(reaching)
    return regions + len(distinct(region_above))
