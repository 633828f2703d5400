"""Counts and measures of cases; counts add up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model.annotations import Case, ClassPresence
from nuclei_metrics.model.arrays import Bool, Float64, Int16, Int32, Int64
from nuclei_metrics.model.instances import RasterisationReport

Measure = Literal[
    "iou",
    "dice",
    "boundary_iou",
    "surface_dice",
    "surface_dice_length",
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
MEASURES: tuple[Measure, ...] = get_args(Measure)


@dataclass(frozen=True, slots=True, eq=False)
class MetricChoice:
    """The chosen metrics and measures: the table ``metrics`` of a challenge, in the words of the engine.

    families      of metrics, in the order of the challenge
    metrics       names of single metrics: of a family of which some are named, only those
    class_names   class id c is ``class_names[c - 1]``
    guessed       number of classes among which a false negative counts as a guess; None: all of them
    measures      what is measured on each matched pair
    class_groups  by the name of a grouping: its groups, each a name and class ids
    iou_thresholds  ascending; for the families thresholds and curves
    false_positives, per   where the FROC curve is read: false positives per "image" or per "mm2"
    class_probabilities    whether predictions come with the probability of each class
    sizes_px       by name, the smallest and the largest area of the nuclei of a size, px
    class_present          where a class must occur in a unit to count there
    coverage       share of the reference nuclei that the family covered looks at; at most six decimals
    distance_cap_px, distance_cap_um   of distances in the families covered and overall: what a false negative costs,
                   and the most that a pair can cost
    """

    families: tuple[str, ...]
    class_names: tuple[str, ...]
    measures: tuple[Measure, ...] = ("iou", "dice", "hausdorff_px", "hausdorff95_px")
    class_groups: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    iou_thresholds: tuple[float, ...] = ()
    false_positives: tuple[float, ...] = ()
    per: Literal["image", "mm2"] = "image"
    class_probabilities: bool = False
    sizes_px: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    class_present: ClassPresence = "either"
    metrics: tuple[str, ...] = ()
    coverage: float | None = None
    distance_cap_px: float | None = None
    distance_cap_um: float | None = None
    guessed: int | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same content in the same order, the order of the results."""
        return isinstance(other, MetricChoice) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchCounts:
    """The counts and measures of one case under one matching rule.

    confusion      int64 (C + 1, C + 1), rows reference, columns prediction, index 0 "none": ``confusion[0, c]`` are
                   spurious predictions of class c, ``confusion[c, 0]`` false negatives, ``confusion[0, 0]`` is 0
    pair_class     int16 (T, 2)    class of the reference and of the prediction of each matched pair
    measures       by name, float64 (T,), of each matched pair; what is not asked for or cannot be measured is absent
    pair_probability  float64 (T, C)   class probabilities of the prediction of each pair, or None
    pair_area_px   int64 (T,)      area of the reference nucleus of each pair, or None if no metric asks for it
    predictions    the list of predictions
    missing        the case was not submitted
    diagonal_px    of the image: no Hausdorff distance can be larger
    spacing_um     size of a pixel, or None
    outlines       False: one side is points, so there are no areas and boundaries to compare
    """

    confusion: Int64
    pair_class: Int16
    measures: Mapping[str, Float64]
    pair_probability: Float64 | None = None
    pair_area_px: Int64 | None = None
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
    """All predictions of a case, (M,), for curves over their confidence.

    class_id      int16, their classes
    found_class   int16, class of the reference nucleus that each found, 0 if it is spurious
    probability   float64, or None if a prediction has none
    """

    class_id: Int16
    found_class: Int16
    probability: Float64 | None


@dataclass(frozen=True, slots=True, eq=False)
class SharedCounts:
    """The counts of one case that do not depend on the matching rule.

    sums   by name, statistics that add up over cases (see ``CaseTable``)
    hits   bool (M, K): which prediction found a nucleus of its class at which IoU threshold, taken in order of
           confidence; None if not asked for
    size_hits  int8 (M, S, K): the same for the nuclei of each size, 1 right, 0 wrong, -1 ignored; None if not asked for
    """

    sums: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    hits: Bool | None = None
    size_hits: npt.NDArray[np.int8] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PairSamples:
    """Matched pairs of all cases, (T,): for what does not add up, such as medians.

    case               int64, row of the case in the table
    class_id           int16 (T, 2), class of the reference and of the prediction
    measures           by name, float64
    class_probability  float64 (T, C) of the predictions, or None if a case does not give them
    area_px            int64, of the reference nuclei, or None if no metric asks for it
    """

    case: Int64
    class_id: Int16
    measures: Mapping[str, Float64]
    class_probability: Float64 | None
    area_px: Int64 | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PredictionSamples:
    """Predictions of all cases, (M,): for curves over their confidence.

    case         int64, row of the case in the table
    class_id, found_class  int16 as in ``PredictionList``
    probability  float64, or None if a prediction of any case has none
    hits, size_hits  as in ``SharedCounts``, or None
    """

    case: Int64
    class_id: Int16
    found_class: Int16
    probability: Float64 | None
    hits: Bool | None
    size_hits: npt.NDArray[np.int8] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CaseTable:
    """All cases under one matching rule, one row per case: the input of every score.

    sums         by name, (U, ...), statistics that add up. Always there: ``cases`` (1), ``missing``, ``empty`` (1 if it
                 was submitted without a prediction although the reference has nuclei), ``points`` (1 if the case has no
                 outlines to compare), all int64 (U,), and ``confusion`` int64 (U, C + 1, C + 1). For
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
class Unions:
    """B units of U cases, each with at least one case, once: like weights, but without scipy, which is slow to import.

    indices  int64, the cases of all units, one unit after the other
    indptr   int64 (B + 1,), where those of each unit begin, and the end
    """

    indices: Int64
    indptr: Int64
    cases: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.cases

    @property
    def data(self) -> Int64:
        """The weight of each case in its unit, which is 1."""
        return np.ones(len(self.indices), np.int64)

    def __getitem__(self, units: slice) -> Unions:
        """Consecutive units."""
        first, last, _ = units.indices(len(self.indptr) - 1)
        begin, end = self.indptr[first], self.indptr[last]
        return Unions(self.indices[begin:end], self.indptr[first : last + 1] - begin, self.cases)

    def __matmul__(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (U,) or (U, K) added up over the cases of each unit, in their order, as scipy does: the same digits.

        >>> Unions(np.array([0, 1, 1]), np.array([0, 2, 3]), 2) @ np.array([0.5, 2.0])
        array([2.5, 2. ])
        """
        taken = values[self.indices]
        if values.dtype.kind != "f":
            return np.asarray(np.add.reduceat(taken, self.indptr[:-1], axis=0, dtype=np.int64))
        units, columns = len(self.indptr) - 1, math.prod(values.shape[1:])
        unit = np.repeat(np.arange(units), np.diff(self.indptr))
        place = unit[:, None] * columns + np.arange(columns)
        return np.bincount(place.ravel(), taken.ravel(), units * columns).reshape(units, *values.shape[1:])

    def tocsr(self) -> Any:
        """Convert the weights to scipy's csr_array."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), self.shape)


@dataclass(frozen=True, eq=False)
class Units:
    """B units, each a union of cases: single cases, groups, all cases, or samples of a bootstrap.

    weights  how often each case is in each unit, (B, U): ``Unions``, or scipy's csr_array of int64
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

    @cached_property
    def holders(self) -> Int64:
        """Count the units of each case, int64 (U,)."""
        return np.bincount(self.weights.indices, minlength=self.weights.shape[1])

    @cached_property
    def kinds(self) -> tuple[Any, Int64]:
        """Cases that every unit holds equally often are of one kind, as those of a group are in a bootstrap.

        Weights of the kinds, csr_array of int64 (B, K), and the kind of each case, int64 (U,).
        """
        columns, known = self.weights.tocsr().tocsc(), dict[tuple[bytes, bytes], int]()
        held = ((columns.indices[a:b].tobytes(), columns.data[a:b].tobytes()) for a, b in pairwise(columns.indptr))
        kind = np.array([known.setdefault(column, len(known)) for column in held], np.int64)
        return columns[:, np.unique(kind, return_index=True)[1]].tocsr(), kind

    def largest(self, name: str) -> Float64:
        """The largest value among the cases of each unit, float64 (B,); every unit has a case."""
        values = self.table.largest[name][self.weights.indices]
        return np.asarray(np.maximum.reduceat(values, self.weights.indptr[:-1]))

    def area_mm2(self) -> Float64:
        """Area of all cases of each unit, float64 (B,); NaN if that of one is not known."""
        return np.asarray(self.weights @ self.table.area_mm2)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectList:
    """The instances of one side of a case, for the object table: ids in the file, classes, areas; (N,) each.

    centroid_yx  float64 (N, 2), NaN: no pixels
    nearest  int64 (N,), the best candidate on the other side (``nearest_candidates``), -1: the other side is empty
    nearest_iou, nearest_px  float64 (N,), its IoU, and the distance of the centroids, NaN: not known
    kinds    by matching rule, int8 (N,), the kind of error (``sort_errors``)
    """

    source_id: npt.NDArray[Any]
    class_id: Int16
    area_px: Int64
    centroid_yx: Float64 = field(default_factory=lambda: np.empty((0, 2)))
    nearest: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    nearest_iou: Float64 = field(default_factory=lambda: np.empty(0))
    nearest_px: Float64 = field(default_factory=lambda: np.empty(0))
    kinds: Mapping[str, npt.NDArray[np.int8]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class CaseResult:
    """All that was counted in one case; ``matches`` and ``counts`` by the name of the matching rule.

    missing              the case was not submitted
    ignored              nuclei that left because of an ignore region, by side; a side without any is not there
    """

    case: Case
    missing: bool
    reference: ObjectList
    prediction: ObjectList
    matches: dict[str, Matches]
    counts: dict[str, MatchCounts]
    shared: SharedCounts = SharedCounts()
    rasterisation: RasterisationReport | None = None
    ignored: Mapping[str, ObjectList] = field(default_factory=dict)

    @property
    def ignored_predictions(self) -> int:
        return len(self.ignored["prediction"].class_id) if "prediction" in self.ignored else 0


# --- Scores: numbers, or why there is none, with their intervals. -----------------------------------------------------


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
    """A finite number, or None with the reason why there is none. Never NaN.

    >>> Score(0.5), Score(None, "no-instances"), Score(None, "no-instances").value_or(0.0)
    (Score(0.5), Score(None, 'no-instances'), 0.0)
    """

    value: float | None
    undefined: UndefinedReason | None = None

    def __float__(self) -> float:
        """Return the value. Raises ValueError with the reason if there is none, so that no invented number is shown."""
        if self.value is None:
            raise ValueError(f"undefined: {self.undefined}; value_or() decides what it is worth")
        return self.value

    def value_or(self, instead: float) -> float:
        """Return the value, or the caller's substitute for an undefined score."""
        return instead if self.value is None else self.value

    def __repr__(self) -> str:
        return f"Score({self.value!r})" if self.undefined is None else f"Score(None, {self.undefined!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One metric of B units.

    value   float64 (B,), NaN where it is undefined
    reason  int8 (B,), 0 where it is defined, else 1 + the index of the reason in ``UNDEFINED_REASONS``
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
    """A mean over units (groups or cases), and the number of units by treatment.

    score     the mean, or undefined: the reason of the only unit, "no-units" if none of several has a value
    units     how many units entered the mean
    left_out  how many were left out because the value is undefined there
    penalised   how many entered with the worst value: not submitted, or undefined at a cost
    deviation   standard deviation of the units that entered, with n - 1; None for fewer than three, and for strata
    """

    score: Score
    units: int
    left_out: int
    penalised: int
    deviation: float | None = None


NoInterval = Literal["one-group", "few-groups", "few-nuclei", "undefined", "often-undefined"]


@dataclass(frozen=True, slots=True)
class Interval:
    """The ends of a confidence interval, or None with the reason why there is none.

    one-group        there are fewer than two groups
    few-groups       there are too few groups for an interval
    few-nuclei       the reference has too few nuclei, or too few of the class
    undefined        the number itself is undefined
    often-undefined  it is undefined in more than a tenth of the samples
    """

    low: float | None
    high: float | None
    reason: NoInterval | None = None


Better = Literal["higher", "lower", "one"]


@dataclass(frozen=True, slots=True)
class MetricScores:
    """One metric on the whole data set. ``path`` is its address in metrics.json, without the aggregation.

    means   by the name of the aggregation, in the order of ``AGGREGATIONS``
    """

    path: tuple[str, ...]
    means: Mapping[str, UnitMean]


@dataclass(frozen=True, slots=True, eq=False)
class UnitScores:
    """Units of one kind (cases, groups, or all pooled) under one matching rule, and their scores in every metric.

    names   of the units, (B,)
    scores  by the path of the metric
    """

    names: tuple[str, ...]
    units: Units
    scores: Mapping[tuple[str, ...], Scores]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Values that a team lacks although another team has them, and how the ranking treats them.

    lacking   int64 (T, K), how many values a team lacks
    left_out  int64 (K,), how many are left out for all teams
    values    how many there are of a team in a column: as many as cases, or as units
    by_unit   float64 (T, K, G), as in ``ScoreTable``, NaN where it rests on a value that was put in the place of one
    """

    lacking: Int64
    left_out: Int64
    values: int
    by_unit: Float64


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """The values of teams in the ranked columns, on the whole data set and in each of its units.

    teams    (T,) names, in ascending order
    columns  (K,) paths of metrics.json
    higher_is_better  bool (K,)
    weights  float64 (K,), above 0
    overall  float64 (T, K), the numbers of metrics.json; NaN: undefined, or not known
    units    (G,) names of groups (patients), or of cases where there are no groups, in ascending order
    by_unit  float64 (T, K, G), the same of each unit; NaN where it is undefined. None if only ``overall`` is known
    floors   (F,) paths of numbers that a team needs to stand before those that lack it, and ``at_least`` how much
    floor_values  float64 (T, F), the numbers of the teams; NaN is below any floor. None if there are no floors
    samples  float64 (T, R, K + F), the numbers in columns and at floors in samples of units: in all units, without each
             of them in turn, and in those drawn with ``seed`` (``sample_weights``). None: they follow from ``by_unit``
    gaps     the treatment of values that a team lacks and another team has; None: they are NaN in ``by_unit``
    """

    teams: tuple[str, ...]
    columns: tuple[str, ...]
    higher_is_better: Bool
    weights: Float64
    overall: Float64
    units: tuple[str, ...] = ()
    by_unit: Float64 | None = None
    floors: tuple[str, ...] = ()
    at_least: tuple[float, ...] = ()
    floor_values: Float64 | None = None
    samples: Float64 | None = None
    seed: int = 1
    gaps: Gaps | None = None

    def below_floor(self) -> Bool:
        """Return which teams fail a floor, bool (T,)."""
        if self.floor_values is None:
            return np.zeros(len(self.teams), np.bool_)
        return np.asarray(~(self.floor_values >= np.array(self.at_least)).all(axis=1))


# --- Which nuclei of the two sides overlap, and which are matched. ----------------------------------------------------


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

    def part(self, chosen: Bool) -> OverlapTable:
        """Return the table with only the chosen pairs, bool (P,), and unchanged instances on both sides."""
        pairs = self.reference_index[chosen], self.prediction_index[chosen], self.intersection_px[chosen]
        return OverlapTable(*pairs, self.reference_area_px, self.prediction_area_px)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of one instance of the reference and one of the prediction of an image, and how they overlap.

    reference_index, prediction_index   int32 (T,), sorted by reference_index
    intersection_px, union_px           int64 (T,); 0 if one side is points
    """

    reference_index: Int32
    prediction_index: Int32
    intersection_px: Int64
    union_px: Int64

    def __len__(self) -> int:
        return len(self.reference_index)

    def columns(self, chosen: npt.NDArray[Any]) -> tuple[Int32, Int32, Int64, Int64]:
        """The four columns of some pairs: of those at these indices, or where it is true."""
        indices = self.reference_index[chosen], self.prediction_index[chosen]
        return *indices, self.intersection_px[chosen], self.union_px[chosen]


@dataclass(frozen=True, slots=True, eq=False)
class Matches(Pairs):
    """The matched pairs of one image under one rule; each instance is in one pair at the most."""

    def part(self, pairs: slice, first_reference: int, first_prediction: int) -> Matches:
        """Return some pairs, with indices that count from these instances."""
        return Matches(
            self.reference_index[pairs] - np.int32(first_reference),
            self.prediction_index[pairs] - np.int32(first_prediction),
            self.intersection_px[pairs],
            self.union_px[pairs],
        )
