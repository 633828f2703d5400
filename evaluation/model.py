"""The frozen dataclasses that travel down the street, and the names of the rules they obey.

Conventions: arguments and fields come as reference, prediction. Arrays index ``yx``, outlines ``xy``; the order is in
the name. A *run* is a half-open interval ``[start, stop)`` of the row-major flat pixel index of an image; it never
crosses the end of a row. Instances are tables of runs, so that two nuclei may lie on one pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evaluation.findings import Finding

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

OverlapRule = Literal["keep", "last", "first", "smallest", "class_order", "ignore"]
OverlapScope = Literal["class", "image"]
VanishedRule = Literal["drop", "pixel", "error"]
VerticesRule = Literal["exact", "truncate", "nearest"]
OriginRule = Literal["pixel_centre", "pixel_corner"]
IgnorePolicy = Literal["clip", "drop_overlapping", "drop_centroid"]
BorderRule = Literal["open", "closed"]
AggregationUnit = Literal["pooled", "group", "case"]
UndefinedRule = Literal["skip", "worst"]

AGGREGATIONS = ("pooled", "group_mean", "case_mean")


@dataclass(frozen=True, slots=True)
class Case:
    """One image that is scored: a row of cases.csv. ``group`` is the patient (the case itself if none is given).

    ``index`` is the place of the case, from 0, in arrays that hold all cases; None if there are no such arrays.
    ``offset_xy`` is the upper left corner of the image in the slide it was cut from, px.
    """

    name: str
    group: str
    height: int
    width: int
    spacing_um: float | None = None
    index: int | None = None
    offset_xy: tuple[float, float] = (0.0, 0.0)

    @property
    def shape_yx(self) -> tuple[int, int]:
        return self.height, self.width


@dataclass(frozen=True, slots=True)
class ClassTable:
    """How the files of one side name the classes.

    names    names of the scored classes; class id c is ``names[c - 1]``
    ids      class id by case-folded name or alias: 1…C scored, -1…-I ignore classes; "" stands for no name
    values   class id by the number that stands for it in files; empty if the challenge gives no numbers
    skipped  case-folded names of annotations that are left out, such as regions of interest
    """

    names: tuple[str, ...]
    ids: Mapping[str, int]
    values: Mapping[int, int] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()

    @property
    def of_nameless(self) -> int:
        """The class of nuclei in formats that name no class: the only one, or 0 if there are several."""
        return 1 if len(self.names) == 1 else self.ids.get("", 0)


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
    probability    float32 (N,)    confidence of each instance in 0…1, or None
    """

    points_xy: Float64
    ring_start: Int64
    ring_instance: Int32
    ring_is_hole: Bool
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float32 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Nuclei that are points, as a file describes them, before any rule is applied.

    points_xy    float64 (N, 2)  in the file's own coordinates, but in px
    class_id     int16 (N,)      as in ``Outlines``; points are in document order
    source_id    object (N,)
    probability  float32 (N,)    confidence of each point in 0…1, or None
    """

    points_xy: Float64
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float32 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class LabelImage:
    """One decoded label image: every positive value is one instance.

    labels     integer (H, W), 0 background
    class_id   the class of all its instances (one file per class), 0 if ``class_map`` tells it
    class_map  integer (H, W) with the class id (1…C) of every pixel, 0 not given, or None
    source     name of the file, for messages; goes before the ids in the object table when a case has several files
    class_of_instance  int16 (N,), the class id of each label in ascending order of the labels, or None
    """

    labels: npt.NDArray[np.integer[Any]]
    class_id: int = 0
    class_map: npt.NDArray[np.integer[Any]] | None = None
    source: str = ""
    class_of_instance: Int16 | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelMaps:
    """Reference and prediction of one image as label maps, 0 background; instances of a side do not overlap.

    reference, prediction              integer (H, W)
    reference_class, prediction_class  int16 (N,) and (M,), class ids in ascending order of the labels
    """

    reference: npt.NDArray[np.integer[Any]]
    prediction: npt.NDArray[np.integer[Any]]
    reference_class: Int16
    prediction_class: Int16


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The instances of one image as runs.

    Runs are sorted by ``run_start``; those of different instances may overlap (equal starts come in any order),
    those of one instance neither overlap nor touch in a row.

    shape_yx      (H, W) px
    class_id      int16 (N,)    1…C, 0 = class not given
    source_id     int64 or object (N,)   the id in the file, for messages and the object table
    run_start, run_stop   int64 (R,)     half-open intervals of the row-major flat index
    run_instance  int32 (R,)    0…N-1
    probability   float32 (N,)  confidence of each instance in 0…1, or None
    point_yx      float64 (N, 2), for nuclei that are points without pixels; whole numbers are pixel centres; or None
    """

    shape_yx: tuple[int, int]
    class_id: Int16
    source_id: npt.NDArray[Any]
    run_start: Int64
    run_stop: Int64
    run_instance: Int32
    probability: Float32 | None = None
    point_yx: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)

    def areas_px(self) -> Int64:
        """Number of pixels of each instance, int64 (N,). Summed as integers, so exact."""
        totals = np.zeros(len(self) + 1, np.int64)
        np.add.at(totals, self.run_instance, self.run_stop - self.run_start)
        return totals[:-1]

    def first_pixels(self) -> Int64:
        """Flat index of the first pixel of each instance, int64 (N,); H * W for an instance without pixels.

        It orders instances without looking at their ids: ties are decided by it.
        """
        first = np.full(len(self), self.shape_yx[0] * self.shape_yx[1], np.int64)
        first[self.run_instance[::-1]] = self.run_start[::-1]
        return first

    def centroids_yx(self) -> Float64:
        """Centroid of each instance, px, float64 (N, 2): the mean of its pixel centres, or its point.

        Pixel centres are whole numbers and summed as such; the one division is the only rounding. NaN for an instance
        that has neither pixels nor a point.
        """
        if self.point_yx is not None:
            return self.point_yx
        sums_twice, area = self.coordinate_sums_twice_yx()
        with np.errstate(invalid="ignore"):
            return np.asarray((sums_twice / (2 * area)).T)

    def centroid_pixels_yx(self) -> Int64:
        """Pixel that holds the centroid of each instance, int64 (N, 2), computed in integers.

        The centroid is the mean of the pixel centres; exactly between two pixels it belongs to the later one
        (``floor(mean + 1/2)``), which does not change when an image is shifted. Instances without pixels get -1.
        """
        sums_twice, area = self.coordinate_sums_twice_yx()
        pixels = (sums_twice + area) // np.maximum(2 * area, 1)
        pixels[:, area == 0] = -1
        return pixels.T

    def coordinate_sums_twice_yx(self) -> tuple[Int64, Int64]:
        """Twice the sums of rows and of columns of the pixels of each instance, int64 (2, N), and its area, (N,)."""
        width = self.shape_yx[1]
        length = self.run_stop - self.run_start
        row = self.run_start // width
        column_twice = 2 * (self.run_start - row * width) + length - 1
        sums_twice = np.zeros((2, len(self)), np.int64)
        np.add.at(sums_twice[0], self.run_instance, 2 * row * length)
        np.add.at(sums_twice[1], self.run_instance, column_twice * length)
        return sums_twice, self.areas_px()


Part = Outlines | Points | LabelImage | Instances


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """What a file says about one case: parts in the order of the file, and warnings about what was left out."""

    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """What a file says about many cases.

    cases     by the name of the case; a case that the file does not mention has no entry, one that it mentions without
              nuclei has an empty one
    unknown   what the file says of images that are no cases: how many entries each name has
    findings  warnings about what was left out
    """

    cases: Mapping[str, Annotations]
    unknown: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A set of pixels of one image: sorted, disjoint runs, int64 (R,) each."""

    run_start: Int64
    run_stop: Int64

    def area_px(self) -> int:
        return int((self.run_stop - self.run_start).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class RasterisationReport:
    """What happened when the outlines of one file became pixels.

    outlines                        outlines of scored classes in the file
    ignore_outlines                 outlines of ignore classes
    contested_px                    pixels covered by two or more outlines of scored classes
    contested_px_by_cover           the same by the number of outlines: {2: …, 3: …}
    outlines_that_lost_pixels       outlines whose pixels went, in part, to another one under the overlap rule
    outlines_lost_whole             outlines that covered pixels and keep none under the overlap rule (source ids)
    outlines_vanished               outlines that cover no pixel centre of the image (source ids)
    outlines_self_intersecting      outlines of which a ring crosses or touches itself; None: not looked for
    outlines_outside                outlines with a vertex outside 0 <= x < width, 0 <= y < height
    vertices_outside                those vertices, as they stand in the file
    outlines_with_holes, outlines_multi_part

    The last five count outlines of ignore classes too.
    """

    outlines: int
    ignore_outlines: int
    contested_px: int
    contested_px_by_cover: dict[int, int]
    outlines_that_lost_pixels: int
    outlines_lost_whole: tuple[str, ...]
    outlines_vanished: tuple[str, ...]
    outlines_self_intersecting: int | None
    outlines_outside: int
    vertices_outside: int
    outlines_with_holes: int
    outlines_multi_part: int


@dataclass(frozen=True, slots=True, eq=False)
class OverlapTable:
    """Which reference and prediction instances share pixels, and how many. Sparse; sorted by reference, prediction.

    reference_index, prediction_index  int32 (P,)
    intersection_px                    int64 (P,), at least 1
    reference_area_px (N,), prediction_area_px (M,)   int64, of all instances, in or out of the table
    """

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    reference_area_px: Int64
    prediction_area_px: Int64

    def union_px(self) -> Int64:
        """Pixels in either instance of each pair, int64 (P,)."""
        areas = self.reference_area_px[self.reference_index] + self.prediction_area_px[self.prediction_index]
        return areas - self.intersection_px


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The matched pairs of one image under one rule; each instance is in one pair at the most.

    reference_index, prediction_index   int32 (T,), sorted by reference_index
    intersection_px, union_px           int64 (T,); 0 if one side is points
    """

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    union_px: Int64

    def __len__(self) -> int:
        return len(self.reference_index)


@dataclass(frozen=True, slots=True, eq=False)
class Boundaries:
    """Boundary pixels of instances: those of instance i are ``points_yx[:, first[i] : first[i] + size[i]]``.

    points_yx    int32 (2, B)
    first, size  int64 (K,)
    """

    points_yx: Int32
    first: Int64
    size: Int64

    def points_of(self, index: int) -> Int32:
        """Points of one instance, int32 (n, 2)."""
        return self.points_yx[:, self.first[index] : self.first[index] + self.size[index]].T


@dataclass(frozen=True, slots=True, eq=False)
class MatchCounts:
    """All that scores are made of, for one case or for several added up, under one matching rule.

    confusion      int64 (C + 1, C + 1), rows reference, columns prediction, index 0 "none": ``confusion[0, c]`` are
                   spurious predictions of class c, ``confusion[c, 0]`` missed nuclei, ``confusion[0, 0]`` is 0
    pair_class     int16 (T, 2)    class of the reference and of the prediction of each matched pair
    iou, dice      float64 (T,)    of each matched pair; empty without outlines
    hausdorff_px, hausdorff95_px   float64 (T,), empty without outlines, or if the challenge does not ask for them
    cases, missing_cases           how many cases were added up, and how many of them were not submitted
    diagonal_px    the longest image diagonal: no Hausdorff distance can be larger
    outlines       False: one side is points, so there are no areas and boundaries to compare
    """

    confusion: Int64
    pair_class: Int16
    iou: Float64
    dice: Float64
    hausdorff_px: Float64
    hausdorff95_px: Float64
    cases: int
    missing_cases: int
    diagonal_px: float
    outlines: bool = True

    @property
    def true_positives(self) -> int:
        return int(self.confusion[1:, 1:].sum())

    @property
    def false_positives(self) -> int:
        return int(self.confusion[0].sum())

    @property
    def false_negatives(self) -> int:
        return int(self.confusion[:, 0].sum())


UndefinedReason = Literal[
    "no-instances",
    "no-reference",
    "no-prediction",
    "nothing-matched",
    "one-class",
    "class-aware-matching",
    "points-only",
    "no-units",
]


@dataclass(frozen=True, slots=True)
class Score:
    """A finite number, or None with the reason why there is none. Never NaN."""

    value: float | None
    undefined: UndefinedReason | None = None


@dataclass(frozen=True, slots=True)
class UnitMean:
    """A mean over units (groups or cases), and what became of each unit.

    score     the mean, or undefined: the reason of the only unit, "no-units" if none of several has a value
    units     how many units entered the mean
    left_out  how many were left out because the value is undefined there
    charged   how many entered with the worst value: not submitted, or undefined at a cost
    """

    score: Score
    units: int
    left_out: int
    charged: int


@dataclass(frozen=True, slots=True)
class MetricScores:
    """One metric on the whole data set. ``path`` is its place in metrics.json, without the aggregation."""

    path: tuple[str, ...]
    better: Literal["higher", "lower"]
    pooled: UnitMean
    group_mean: UnitMean
    case_mean: UnitMean


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores:
    """Counts and scores of one unit (a case, a group, or all) under one matching rule."""

    counts: MatchCounts
    scores: dict[tuple[str, ...], Score]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectList:
    """The instances of one side of a case, for the object table: ids in the file, classes, areas; (N,) each."""

    source_id: npt.NDArray[Any]
    class_id: Int16
    area_px: Int64


@dataclass(frozen=True, slots=True, eq=False)
class CaseResult:
    """All that was counted in one case; ``matches`` and ``counts`` by the name of the matching rule.

    missing              the case was not submitted
    ignored_predictions  predictions that left because of an ignore region
    """

    case: Case
    missing: bool
    reference: ObjectList
    prediction: ObjectList
    ignored_predictions: int
    matches: dict[str, Matches]
    counts: dict[str, MatchCounts]
    rasterisation: RasterisationReport | None = None
