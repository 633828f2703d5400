"""The frozen dataclasses that travel down the street, and the names of the rules they obey.

Conventions: arguments and fields come as reference, prediction. Arrays index ``yx``, outlines ``xy``; the order is in
the name. A *run* is a half-open interval ``[start, stop)`` of the row-major flat pixel index of an image; it never
crosses the end of a row. Instances are tables of runs, so that two nuclei may lie on one pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

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
IgnorePolicy = Literal["clip", "drop_overlapping", "drop_centroid", "drop_unmatched"]
BorderRule = Literal["open", "closed"]
AggregationUnit = Literal["pooled", "group", "case"]
UndefinedRule = Literal["skip", "worst"]
ClassPresence = Literal["either", "reference"]
Perturbation = Literal["none", "eroded", "dilated", "shifted"]  # of predictions, by a pixel

AGGREGATIONS = ("pooled", "group_mean", "case_mean")
RUNS_SUMMED_AT_ONCE = 1 << 18
WITH_FRACTION: tuple[IgnorePolicy, ...] = ("drop_overlapping", "drop_unmatched")  # policies that need one
STRATUM_MEAN = "stratum_mean"  # beside them if cases.csv names strata


@dataclass(frozen=True, slots=True)
class Case:
    """One image that is scored: a row of cases.csv. ``group`` is the patient (the case itself if none is given).

    ``index`` is the place of the case, from 0, in arrays that hold all cases; None if there are no such arrays.
    ``offset_xy`` is the upper left corner of the image in the slide it was cut from, px.
    ``stratum`` is what groups belong to (tissue, organ, centre), "" if cases.csv names none.
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
    class_probability  float32 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    ring_start: Int64
    ring_instance: Int32
    ring_is_hole: Bool
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float32 | None = None
    class_probability: Float32 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Nuclei that are points, as a file describes them, before any rule is applied.

    points_xy    float64 (N, 2)  in the file's own coordinates, but in px
    class_id     int16 (N,)      as in ``Outlines``; points are in document order
    source_id    object (N,)
    probability  float32 (N,)    confidence of each point in 0…1, or None
    class_probability  float32 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float32 | None = None
    class_probability: Float32 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many nuclei of each class an image has, as a file tells that does not say where they are.

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
    class_id   the class of all its instances (one file per class), 0 if ``class_map`` tells it
    class_map  the class id (1…C) of every pixel, 0 not given, below 0 for ignore classes, or None
    source     name of the file, for messages; goes before the ids in the object table when a case has several files
    class_of_instance  int16 (N,), the class id of each label in ascending order of the labels, or None
    """

    labels: LabelRuns
    class_id: int = 0
    class_map: LabelRuns | None = None
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
    class_probability  float32 (N, C)  probability of each class in 0…1, in the order of the classes, or None
    """

    shape_yx: tuple[int, int]
    class_id: Int16
    source_id: npt.NDArray[Any]
    run_start: Int64
    run_stop: Int64
    run_instance: Int32
    probability: Float32 | None = None
    point_yx: Float64 | None = None
    class_probability: Float32 | None = None

    def __len__(self) -> int:
        return len(self.class_id)

    def part(self, runs: slice) -> Instances:
        """All instances, with some of the runs."""
        return replace(
            self,
            run_start=self.run_start[runs],
            run_stop=self.run_stop[runs],
            run_instance=self.run_instance[runs],
        )

    def areas_px(self) -> Int64:
        """Number of pixels of each instance, int64 (N,). Summed as integers, so exact."""
        totals = np.zeros(len(self) + 1, np.int64)
        np.add.at(totals, self.run_instance, self.run_stop - self.run_start)
        return totals[:-1]

    def first_pixels(self) -> Int64:
        """Flat index of the first pixel of each instance, int64 (N,); H * W for an instance without pixels.

        It orders instances without looking at their ids: ties are decided by it first.
        """
        first = np.full(len(self), self.shape_yx[0] * self.shape_yx[1], np.int64)
        first[self.run_instance[::-1]] = self.run_start[::-1]
        return first

    def position_order(self) -> Int64:
        """All instances in the order of their positions: the tie rule ``first_pixel``, int64 (N,).

        It owes nothing to ids or to the place in a file. Outlines by their first pixel (row by row), then by area, then
        the one that has the first pixel in which they differ; points by y, then x. Instances in exactly one place: by
        class, then the more probable one first. Only those that agree in everything but their ids keep the order of
        the file.

        >>> one = {"shape_yx": (2, 3), "class_id": np.ones(2, np.int16), "source_id": np.array([3, 7])}
        >>> runs = np.array([1, 3]), np.array([3, 5]), np.array([1, 0], np.int32)
        >>> Instances(**one, run_start=runs[0], run_stop=runs[1], run_instance=runs[2]).position_order().tolist()
        [1, 0]
        """
        if self.point_yx is not None:
            y, x = self.point_yx.T
            return np.lexsort((*keys_of_nature(self), x, y))
        first, areas = self.first_pixels(), self.areas_px()
        order = np.lexsort((areas, first))
        same = (first[order[1:]] == first[order[:-1]]) & (areas[order[1:]] == areas[order[:-1]])
        same &= areas[order[1:]] > 0
        if not same.any():
            return order
        tied = np.zeros(len(self), np.bool_)
        tied[order[1:][same]] = tied[order[:-1][same]] = True
        return np.lexsort((*keys_of_nature(self), rank_of_pixels(self, tied), areas, first))

    def position_rank(self) -> Int64:
        """The place of each instance in ``position_order``, int64 (N,)."""
        rank = np.empty(len(self), np.int64)
        rank[self.position_order()] = np.arange(len(self))
        return rank

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
        sums_twice = np.zeros((2, len(self)), np.int64)
        for first in range(0, len(self.run_start), RUNS_SUMMED_AT_ONCE):
            runs = slice(first, first + RUNS_SUMMED_AT_ONCE)
            start, length = self.run_start[runs], self.run_stop[runs] - self.run_start[runs]
            row = start // width
            column_twice = 2 * (start - row * width) + length - 1
            np.add.at(sums_twice[0], self.run_instance[runs], 2 * row * length)
            np.add.at(sums_twice[1], self.run_instance[runs], column_twice * length)
        return sums_twice, self.areas_px()


def keys_of_nature(instances: Instances) -> list[npt.NDArray[Any]]:
    """What tells instances in one place apart, as keys of ``np.lexsort``: the last one counts first."""
    keys: list[npt.NDArray[Any]] = [instances.class_id]
    if instances.probability is not None:
        keys.insert(0, -instances.probability)
    if instances.class_probability is not None:
        keys[:0] = [-column for column in instances.class_probability.T[::-1]]
    return keys


def rank_of_pixels(instances: Instances, wanted: Bool) -> Int64:
    """A rank by the set of pixels, the same for the same set, int64 (N,); 0 where it is not wanted.

    Of two sets the one that has the first pixel in which they differ comes first.
    """
    runs = np.flatnonzero(wanted[instances.run_instance])
    runs = runs[np.argsort(instances.run_instance[runs], kind="stable")]
    # Big-endian numbers compare as their bytes do; the run that stops later has the pixel.
    left_over = instances.shape_yx[0] * instances.shape_yx[1] - instances.run_stop[runs]
    bounds = np.stack([instances.run_start[runs], left_over], axis=1).astype(">i8")
    last = np.cumsum(np.bincount(instances.run_instance[runs], minlength=len(instances)))
    chosen = np.flatnonzero(wanted)
    pixels = [bounds[0 if i == 0 else last[i - 1] : last[i]].tobytes() for i in chosen.tolist()]
    rank_of = {key: rank for rank, key in enumerate(sorted(set(pixels)))}
    rank = np.zeros(len(instances), np.int64)
    rank[chosen] = [rank_of[key] for key in pixels]
    return rank


Part = Outlines | Points | LabelImage | Instances | Counts


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


Family = Literal[
    "detection",
    "classification",
    "segmentation",
    "panoptic",
    "thresholds",
    "curves",
    "overlap",
    "objects",
    "counting",
]
Measure = Literal[
    "iou",
    "dice",
    "boundary_iou",
    "surface_dice",
    "hausdorff_px",
    "hausdorff95_px",
    "mean_surface_distance_px",
    "centroid_distance_px",
    "hausdorff_um",
    "hausdorff95_um",
    "mean_surface_distance_um",
    "centroid_distance_um",
    "area_ratio",
]


@dataclass(frozen=True, slots=True)
class MetricChoice:
    """What is to be measured: the table ``metrics`` of a challenge, in the words of the engine.

    families      in the order of metrics.json
    class_names   class id c is ``class_names[c - 1]``
    measures      what is measured on each matched pair
    class_groups  by the name of a grouping: its groups, each a name and class ids
    iou_thresholds  ascending; for the families thresholds and curves
    false_positives, per   where the FROC curve is read: false positives per "image" or per "mm2"
    class_probabilities    whether predictions come with the probability of each class
    class_present          where a class must occur in a unit to count there
    """

    families: tuple[Family, ...]
    class_names: tuple[str, ...]
    measures: tuple[Measure, ...] = ("iou", "dice", "hausdorff_px", "hausdorff95_px")
    class_groups: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    iou_thresholds: tuple[float, ...] = ()
    false_positives: tuple[float, ...] = ()
    per: Literal["image", "mm2"] = "image"
    class_probabilities: bool = False
    class_present: ClassPresence = "either"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchCounts:
    """What was counted and measured in one case under one matching rule.

    confusion      int64 (C + 1, C + 1), rows reference, columns prediction, index 0 "none": ``confusion[0, c]`` are
                   spurious predictions of class c, ``confusion[c, 0]`` missed nuclei, ``confusion[0, 0]`` is 0
    pair_class     int16 (T, 2)    class of the reference and of the prediction of each matched pair
    measures       by name, float64 (T,), of each matched pair; what is not asked for or cannot be measured is absent
    pair_probability  float32 (T, C)   class probabilities of the prediction of each pair, or None
    predictions    what is known of every prediction
    missing        the case was not submitted
    diagonal_px    of the image: no Hausdorff distance can be larger
    spacing_um     size of a pixel, or None
    outlines       False: one side is points, so there are no areas and boundaries to compare
    """

    confusion: Int64
    pair_class: Int16
    measures: Mapping[str, Float64]
    pair_probability: Float32 | None = None
    predictions: PredictionList
    missing: bool = False
    diagonal_px: float
    spacing_um: float | None = None
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


@dataclass(frozen=True, slots=True, eq=False)
class PredictionList:
    """All predictions of a case, (M,): what curves over their confidence are made of.

    class_id      int16, their classes
    found_class   int16, class of the reference nucleus that each found, 0 if it is spurious
    probability   float32, or None if a prediction has none
    """

    class_id: Int16
    found_class: Int16
    probability: Float32 | None


@dataclass(frozen=True, slots=True, eq=False)
class SharedCounts:
    """What is counted in one case whatever the matching rule.

    sums   by name, statistics that add up over cases (see ``CaseTable``)
    hits   bool (M, K): which prediction found a nucleus of its class at which IoU threshold, taken in order of
           confidence; None if not asked for
    """

    sums: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    hits: Bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PairSamples:
    """Matched pairs of all cases, (T,): for what does not add up, such as medians.

    case               int64, row of the case in the table
    class_id           int16 (T, 2), class of the reference and of the prediction
    measures           by name, float64
    class_probability  float32 (T, C) of the predictions, or None if a case does not give them
    """

    case: Int64
    class_id: Int16
    measures: Mapping[str, Float64]
    class_probability: Float32 | None


@dataclass(frozen=True, slots=True, eq=False)
class PredictionSamples:
    """Predictions of all cases, (M,): for curves over their confidence.

    case         int64, row of the case in the table
    class_id, found_class  int16 as in ``PredictionList``
    probability  float32, or None if a prediction of any case has none
    hits         bool (M, K) as in ``SharedCounts``, or None
    """

    case: Int64
    class_id: Int16
    found_class: Int16
    probability: Float32 | None
    hits: Bool | None


@dataclass(frozen=True, slots=True, eq=False)
class CaseTable:
    """All cases under one matching rule, a row each: what every score is made of.

    sums         by name, (U, ...), statistics that add up. Always there: ``cases`` (1), ``missing``, ``points`` (1 if
                 the case has no outlines to compare), all int64 (U,), and ``confusion`` int64 (U, C + 1, C + 1). For
                 each measure ``<measure>``, float64 (U, C, 2): its sum over the matched pairs by class of the
                 reference, first those that were predicted as another class, then those as the same. The rest belongs
                 to a family and is described there.
    largest      by name, float64 (U,), of which a union of cases has the largest: ``diagonal_px``, ``diagonal_um``
                 (NaN without spacing)
    area_mm2     float64 (U,), NaN if not known
    """

    sums: Mapping[str, npt.NDArray[Any]]
    largest: Mapping[str, Float64]
    area_mm2: Float64
    pairs: PairSamples
    predictions: PredictionSamples

    def __len__(self) -> int:
        return len(self.sums["cases"])


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """B units, each a union of cases: single cases, groups, all cases, or samples of a bootstrap.

    weights  sparse int64 (B, U): how often each case is in each unit; scipy's csr_array
    """

    table: CaseTable
    weights: Any
    cache: dict[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    def sum(self, name: str) -> npt.NDArray[Any]:
        """A statistic of ``CaseTable.sums`` added up over the cases of each unit, (B, ...)."""
        if name not in self.cache:
            rows = self.table.sums[name]
            self.cache[name] = (self.weights @ rows.reshape(len(rows), -1)).reshape(len(self), *rows.shape[1:])
        return self.cache[name]

    def largest(self, name: str) -> Float64:
        """The largest value among the cases of each unit, float64 (B,); every unit has a case."""
        values = self.table.largest[name][self.weights.indices]
        return np.asarray(np.maximum.reduceat(values, self.weights.indptr[:-1]))

    def area_mm2(self) -> Float64:
        """Area of all cases of each unit, float64 (B,); NaN if that of one is not known."""
        return np.asarray(self.weights @ self.table.area_mm2)


UndefinedReason = Literal[
    "no-instances",
    "no-reference",
    "no-prediction",
    "nothing-matched",
    "one-class",
    "class-aware-matching",
    "points-only",
    "no-probability",
    "constant-reference",
    "no-spacing",
    "no-units",
]
UNDEFINED_REASONS: tuple[UndefinedReason, ...] = get_args(UndefinedReason)


@dataclass(frozen=True, slots=True)
class Score:
    """A finite number, or None with the reason why there is none. Never NaN."""

    value: float | None
    undefined: UndefinedReason | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One metric of B units.

    value   float64 (B,), NaN where it is undefined
    reason  int8 (B,), 0 where it is defined, else 1 + the place of the reason in ``UNDEFINED_REASONS``
    """

    value: Float64
    reason: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.value)

    def at(self, unit: int) -> Score:
        reason = int(self.reason[unit])
        return Score(None, UNDEFINED_REASONS[reason - 1]) if reason else Score(float(self.value[unit]))


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


NoInterval = Literal["one-group", "undefined", "often-undefined", "outside-samples"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends of a confidence interval, or None with the reason why there is none.

    one-group        there are fewer than two groups
    undefined        the number itself is undefined
    often-undefined  it is undefined in more than a tenth of the samples
    outside-samples  it lies outside all samples, so that BCa has no correction for it
    """

    low: float | None
    high: float | None
    reason: NoInterval | None = None


Better = Literal["higher", "lower", "one"]


@dataclass(frozen=True, slots=True)
class MetricScores:
    """One metric on the whole data set. ``path`` is its place in metrics.json, without the aggregation.

    means   by the name of the aggregation, in the order of ``AGGREGATIONS``
    better  "one": a ratio whose best value is 1
    """

    path: tuple[str, ...]
    better: Better
    means: Mapping[str, UnitMean]


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores:
    """Units of one kind (cases, groups, or all pooled) under one matching rule, and what every metric says of each.

    names   of the units, (B,)
    scores  by the path of the metric
    """

    names: tuple[str, ...]
    units: Units
    scores: Mapping[tuple[str, ...], Scores]


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
    shared: SharedCounts = SharedCounts()
    rasterisation: RasterisationReport | None = None


# --- ranking ----------------------------------------------------------------------------------------------------------

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
Missing = Literal["worst", "unranked"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """What is ranked: the values of teams in columns, on the whole data set and in each of its units.

    teams    (T,) names, in ascending order
    columns  (K,) paths of metrics.json
    higher_is_better  bool (K,)
    weights  float64 (K,), above 0
    overall  float64 (T, K), the numbers of metrics.json; NaN: undefined, or not known
    units    (G,) names of groups (patients), or of cases where there are no groups, in ascending order
    by_unit  float64 (T, K, G), the same of each unit; NaN where it is undefined. None if only ``overall`` is known
    """

    teams: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: Bool
    weights: Float64
    overall: Float64
    units: tuple[str, ...] = ()
    by_unit: Float64 | None = None
