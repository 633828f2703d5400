"""The basis of most metrics: true positives, false negatives and false positives, of a case and of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.metrics.metric import OF_POINTS, Reasons, code, why_undefined
from nuclei_metrics.model.annotations import ClassPresence
from nuclei_metrics.model.arrays import Bool, Float64, Int16, Int32, Int64
from nuclei_metrics.model.counts import MatchCounts, Matches, OverlapTable, PredictionList, Scores, Units
from nuclei_metrics.model.instances import Instances, concatenated_or_none


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """True positives, false positives and false negatives of each unit, int64 (B,).

    undefined  why a score that needs a true positive, or one side, has no value there, int8 (B,)
    """

    tp: Int64
    fp: Int64
    fn: Int64
    undefined: Reasons

    @property
    def references(self) -> Int64:
        return self.tp + self.fn

    @property
    def all_nuclei(self) -> Int64:
        """True positives, false positives and false negatives; 0 where both sides are empty."""
        return self.tp + self.fp + self.fn


def hits(units: Units, class_id: int = 0) -> Hits:
    """The counts of all nuclei with their classes ignored (0), or of one class; made once for all metrics.

    Of a class: a matched pair is a true positive if both sides have the class. A pair with two classes is a false
    positive of one and a false negative of the other.
    """
    name = f"hits/{class_id}"
    if name not in units.cache:
        confusion = units.sum("confusion")
        if class_id:
            tp = confusion[:, class_id, class_id]
            fp, fn = confusion[:, :, class_id].sum(axis=1) - tp, confusion[:, class_id].sum(axis=1) - tp
        else:
            tp = confusion[:, 1:, 1:].sum(axis=(1, 2))
            fp, fn = confusion[:, 0].sum(axis=1), confusion[:, :, 0].sum(axis=1)
        units.cache[name] = np.stack([tp, fp, fn])
        units.cache[f"{name}/undefined"] = why_undefined(tp + fn, tp + fp)
    tp, fp, fn = units.cache[name]
    return Hits(tp, fp, fn, units.cache[f"{name}/undefined"])


def class_ids(units: Units) -> range:
    return range(1, units.sum("confusion").shape[1])


def if_present(units: Units, score: Scores, present: ClassPresence, class_id: int = 0) -> Scores:
    """A score of a class, or of all (0), that counts only where the class occurs.

    present   "either": as it is, since a class that is in neither side has no score; "reference": undefined
              "no-reference" where the reference has no nucleus of the class, so that predictions of it cost nothing
    """
    if present == "either":
        return score
    absent = (hits(units, class_id).references == 0) & (score.reason == 0)
    return Scores(np.where(absent, np.nan, score.value), np.where(absent, code("no-reference"), score.reason))


def matched(units: Units) -> Int64:
    """Confusion matrix of the matched pairs, (B, C, C): rows reference, columns prediction."""
    matrix: Int64 = units.sum("confusion")[:, 1:, 1:]
    return matrix


# --- measure ----------------------------------------------------------------------------------------------------------

# From matches to counts: everything that scores are made of, measured once.

NOTHING: Mapping[str, Float64] = {}


def count_matches(
    reference: Instances,
    prediction: Instances,
    matches: Matches,
    *,
    classes: int,
    measures: Mapping[str, Float64] = NOTHING,
    missing: bool = False,
    spacing_um: float | None = None,
    areas: bool = False,
) -> MatchCounts:
    """Count one case, and store the measures of its pairs.

    If the instances of a side are points, measures of outlines are left out.

    classes     C; every instance has a class id of 1…C, else ValueError
    measures    by name, of each matched pair (see ``overlap_measures`` and ``shape_measures``)
    missing     the case was not submitted (``prediction`` is empty)
    spacing_um  size of a pixel, or None
    areas       whether to store the area of the reference nucleus of each pair
    """
    (counts,) = count_cases(
        [(reference, prediction)],
        matches,
        classes=classes,
        measures=measures,
        missing=[missing],
        spacing_um=[spacing_um],
        areas=areas,
    )
    return counts


def count_cases(
    sides: Sequence[tuple[Instances, Instances]],
    matches: Matches,
    *,
    classes: int,
    measures: Mapping[str, Float64],
    missing: Sequence[bool],
    spacing_um: Sequence[float | None],
    areas: bool = False,
) -> list[MatchCounts]:
    """``count_matches`` of several cases; ``matches`` and ``measures`` are those of joined cases."""
    bounds = [np.cumsum([0, *(len(of_case[side]) for of_case in sides)]) for side in (0, 1)]
    class_id = [np.concatenate([of_case[side].class_id for of_case in sides]) for side in (0, 1)]
    totals = [_class_counts_of_cases(*of_side, classes) for of_side in zip(class_id, bounds, strict=True)]
    left, right = matches.reference_index, matches.prediction_index
    pair_class = np.stack([class_id[0][left], class_id[1][right]], axis=1)
    confusion = np.zeros((len(sides), classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (np.searchsorted(bounds[0], left, "right") - 1, pair_class[:, 0], pair_class[:, 1]), 1)
    confusion[:, 0, 1:] = totals[1] - confusion[:, 1:, 1:].sum(axis=1)
    confusion[:, 1:, 0] = totals[0] - confusion[:, 1:, 1:].sum(axis=2)
    found_class = np.zeros(len(class_id[1]), np.int16)
    found_class[right] = pair_class[:, 0]
    pair_bound, first_prediction = np.searchsorted(left, bounds[0]).tolist(), bounds[1].tolist()
    counts = []
    for case, (reference, prediction) in enumerate(sides):
        pairs, of_prediction = slice(*pair_bound[case : case + 2]), slice(*first_prediction[case : case + 2])
        outlines = reference.point_yx is None and prediction.point_yx is None
        probability, of_class = prediction.probability, prediction.class_probability
        if probability is None and len(prediction) == 0:
            probability = np.empty(0, np.float64)
        counts.append(
            MatchCounts(
                confusion=confusion[case],
                pair_class=pair_class[pairs],
                measures={name: values[pairs] for name, values in measures.items() if outlines or name in OF_POINTS},
                pair_probability=None if of_class is None else of_class[right[pairs] - of_prediction.start],
                pair_area_px=reference.areas_px()[left[pairs] - bounds[0][case]] if areas else None,
                predictions=PredictionList(prediction.class_id, found_class[of_prediction], probability),
                missing=missing[case],
                diagonal_px=float(np.hypot(reference.shape_yx[0] - 1, reference.shape_yx[1] - 1)),
                spacing_um=spacing_um[case],
                outlines=outlines,
            )
        )
    return counts


def _class_counts_of_cases(class_id: Int16, bound: Int64, classes: int) -> Int64:
    """``class_counts`` of each case, int64 (K, C); the instances of case k are ``bound[k]`` to ``bound[k + 1]``."""
    if len(class_id) and not 1 <= class_id.min() <= class_id.max() <= classes:
        raise ValueError(f"class ids are {class_id.min()} to {class_id.max()}, not 1 to {classes}")
    cases = len(bound) - 1
    place = np.repeat(np.arange(cases) * (classes + 1), np.diff(bound)) + class_id
    return np.bincount(place, minlength=cases * (classes + 1)).reshape(cases, classes + 1)[:, 1:]


def overlap_measures(matches: Matches) -> dict[str, Float64]:
    """IoU, ``I / U``, and Dice, ``2 I / (A + B) = 2 I / (U + I)``, of each matched pair, float64 (T,)."""
    intersection, union = matches.intersection_px, matches.union_px
    with np.errstate(invalid="ignore"):
        return {"iou": intersection / union, "dice": 2 * intersection / (union + intersection)}


def shape_measures(cases: JoinedCases, matches: Matches) -> dict[str, Float64]:
    """Of each matched pair, float64 (T,): area_ratio, ``B / A``, and centroid_distance_px, which points have too."""
    left, right = matches.reference_index, matches.prediction_index
    reference_yx, prediction_yx = cases.centroids_yx
    offset_yx = reference_yx[left] - prediction_yx[right]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "area_ratio": cases.prediction.areas_px()[right] / cases.reference.areas_px()[left],
            "centroid_distance_px": np.hypot(*offset_yx.T),
        }


def class_counts(instances: Instances, classes: int) -> Int64:
    """Number of instances of each class, int64 (C,)."""
    if len(instances) and not 1 <= instances.class_id.min() <= instances.class_id.max() <= classes:
        raise ValueError(f"class ids are {instances.class_id.min()} to {instances.class_id.max()}, not 1 to {classes}")
    return np.bincount(instances.class_id, minlength=classes + 1)[1:].astype(np.int64)


# --- joined -----------------------------------------------------------------------------------------------------------

# Several cases as one image: what is counted in a hundred small images then costs no more than in a large one.


@dataclass(frozen=True, eq=False)
class JoinedCases:
    """K cases below each other. Instances and pairs are numbered through, case by case; points lose their positions.

    reference, prediction, table   of all cases
    shapes_yx                      (H, W) px of each case, int64 (K, 2)
    reference_bound, prediction_bound   int64 (K + 1,): instances of case k are those from ``bound[k]`` to
                                        ``bound[k + 1]``
    """

    reference: Instances
    prediction: Instances
    table: OverlapTable
    shapes_yx: Int64
    reference_bound: Int64
    prediction_bound: Int64

    def __len__(self) -> int:
        return len(self.shapes_yx)

    @cached_property
    def ranks(self) -> tuple[Int64, Int64]:
        """``Instances.position_rank`` of both sides, int64 (N,) and (M,): it decides ties."""
        return self.reference.position_rank(), self.prediction.position_rank()

    def reference_case(self) -> Int64:
        """The case of each reference instance, int64 (N,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.reference_bound))

    def prediction_case(self) -> Int64:
        """The case of each predicted instance, int64 (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.prediction_bound))

    @cached_property
    def centroids_yx(self) -> tuple[Float64, Float64]:
        """``Instances.centroids_yx`` of both sides, in the coordinates of their cases."""
        cases = self.reference_case(), self.prediction_case()
        tops = np.cumsum(self.shapes_yx[:, 0]) - self.shapes_yx[:, 0]
        reference, prediction = (
            side.centroids_yx(tops[case]) for side, case in zip((self.reference, self.prediction), cases, strict=True)
        )
        return reference, prediction

    def join_tables(self, tables: Sequence[OverlapTable]) -> OverlapTable:
        """Join the overlap tables of all cases."""
        return _join_tables(tables, self.reference_bound, self.prediction_bound)

    def join_matches(self, matches: Sequence[Matches]) -> Matches:
        """Join the matches of all cases."""
        return Matches(
            _numbered_through([of_case.reference_index for of_case in matches], self.reference_bound),
            _numbered_through([of_case.prediction_index for of_case in matches], self.prediction_bound),
            np.concatenate([of_case.intersection_px for of_case in matches]),
            np.concatenate([of_case.union_px for of_case in matches]),
        )

    def pair_bound(self) -> Int64:
        """Return where the pairs of each case begin in the table, and where the last ones end, int64 (K + 1,)."""
        return np.searchsorted(self.table.reference_index, self.reference_bound)


def join_cases(cases: Sequence[tuple[Instances, Instances, OverlapTable]]) -> JoinedCases:
    """Reference, prediction and overlap table of each case as one image; at least one.

    The order of pixels inside a case stays, so ties are decided as before.

    >>> one = Instances((1, 2), np.array([1]), np.arange(1), np.array([1]), np.array([2]), np.array([0]))
    >>> table = OverlapTable(np.array([0]), np.array([0]), np.array([1]), np.array([1]), np.array([1]))
    >>> joined = join_cases([(one, one, table)] * 3)
    >>> joined.reference.run_start.tolist(), joined.table.prediction_index.tolist()
    ([1, 3, 5], [0, 1, 2])
    """
    references, predictions, tables = zip(*cases, strict=True)
    bounds = [np.cumsum([0, *(len(of_case) for of_case in side)]) for side in (references, predictions)]
    table = _join_tables(tables, *bounds)
    reference, prediction = join_images(references), join_images(predictions)
    shapes_yx = np.array([reference.shape_yx for reference in references], np.int64)
    return JoinedCases(reference, prediction, table, shapes_yx, *bounds)


def join_images(images: Sequence[Instances]) -> Instances:
    """The instances of several images as those of one image, in which they lie below each other."""
    if len(images) == 1:
        return images[0]
    heights, widths = np.array([image.shape_yx for image in images], np.int64).T
    runs = [len(image.run_start) for image in images]
    size = np.array([len(image) for image in images])
    width, tops = int(widths.max()), np.cumsum(heights) - heights
    start = np.concatenate([image.run_start for image in images])
    by = np.repeat(tops * width, runs)
    if (widths < width).any():
        narrow = np.repeat(np.maximum(widths, 1), runs)
        by += start // narrow * (width - narrow)
    known = [image for image in images if len(image)]
    return Instances(
        shape_yx=(int(heights.sum()), width),
        class_id=np.concatenate([image.class_id for image in images]),
        source_id=np.concatenate([image.source_id for image in images]),
        run_start=start + by,
        run_stop=np.concatenate([image.run_stop for image in images]) + by,
        run_instance=np.concatenate([image.run_instance for image in images])
        + np.repeat(np.cumsum(size) - size, runs).astype(np.int32),
        probability=concatenated_or_none([image.probability for image in known]),
        class_probability=concatenated_or_none([image.class_probability for image in known]),
    )


def _join_tables(tables: Sequence[OverlapTable], reference_bound: Int64, prediction_bound: Int64) -> OverlapTable:
    return OverlapTable(
        _numbered_through([of_case.reference_index for of_case in tables], reference_bound),
        _numbered_through([of_case.prediction_index for of_case in tables], prediction_bound),
        np.concatenate([of_case.intersection_px for of_case in tables]),
        np.concatenate([of_case.reference_area_px for of_case in tables]),
        np.concatenate([of_case.prediction_area_px for of_case in tables]),
    )


def _numbered_through(indices: Sequence[npt.NDArray[Any]], bounds: Int64) -> npt.NDArray[Any]:
    """Turn indices of instances in their case into indices in all joined cases."""
    return np.concatenate([index + index.dtype.type(first) for index, first in zip(indices, bounds, strict=False)])


def sum_cases(values: npt.NDArray[Any], bound: Int64) -> Int64:
    """Sums of whole numbers, those of case k from ``bound[k]`` to ``bound[k + 1]``; int64 (K,)."""
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[bound])


def best_rows(
    index: Int32, partner_index: Int32, value: npt.NDArray[Any], partner_rank: Int64, tie: Float64 | None = None
) -> Int64:
    """For each instance in ``index``, in their order, the row with the largest value; none is negative.

    Ties: the partner with the largest ``tie``, if there is one, then the one that comes first by ``partner_rank``.
    """
    number = np.bincount(index)
    best = np.empty(len(number), np.int64)
    best[index] = np.arange(len(index))  # the only row, if there is one
    highest = np.zeros(len(number), value.dtype)
    np.maximum.at(highest, index, value)
    rivals = np.flatnonzero((number[index] > 1) & (value == highest[index]))
    who: npt.NDArray[Any] = index[rivals]
    ties = [] if tie is None else [-tie[rivals]]
    order = np.lexsort((partner_rank[partner_index[rivals]], *ties, who))
    first = order[np.append(True, who[order[1:]] != who[order[:-1]])[: len(order)]]
    best[who[first]] = rivals[first]
    return best[number > 0]


def best_partners(
    index: Int32, partner_index: Int32, value: npt.NDArray[Any], iou: Float64, rank: Int64, partner_rank: Int64
) -> Int64:
    """For each instance in ``index``, in their order, the row of its partner with the largest value.

    Ties: the partner with the largest IoU, then the one that comes first. Of instances that are equal to each other,
    and to several partners, the first takes the first of these, the second the second, and so on: so each nucleus of a
    copy has a partner of its own.

    >>> twins = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)
    >>> best_partners(*twins, np.ones(4), np.ones(4), np.arange(2), np.arange(2)).tolist()
    [0, 3]
    """
    best = best_rows(index, partner_index, value, partner_rank, iou)
    equal = np.flatnonzero(iou == 1)
    equal = equal[np.bincount(index[equal])[index[equal]] > 1] if len(equal) else equal
    if len(equal):
        equal = equal[np.lexsort((partner_rank[partner_index[equal]], index[equal]))]
        who, start, partners = np.unique(index[equal], return_index=True, return_counts=True)
        twins = partner_index[equal[start]]  # the first partner of all that are equal
        order = np.lexsort((rank[who], twins))
        place = np.empty(len(who), np.int64)
        place[order] = np.arange(len(who)) - np.searchsorted(twins[order], twins[order])
        best[np.searchsorted(np.unique(index), who)] = equal[start + place % partners]
    return best


# --- the kinds of errors ----------------------------------------------------------------------------------------------


# What is wrong with each nucleus of a case: every nucleus has exactly one kind. ``ignored`` are those that left both
# sides because of an ignore region, before anything was matched or counted.
# After TIDE (Bolya et al., ECCV 2020). Splits and merges are pieces in the sense of Coelho, Shariff, Murphy (ISBI
# 2009). docs/report.md says it in words.


KINDS = ("right", "missed", "spurious", "wrong_class", "poor_outline", "split", "merged", "duplicate", "ignored")
RIGHT, MISSED, SPURIOUS, WRONG_CLASS, POOR_OUTLINE, SPLIT, MERGED, DUPLICATE, IGNORED = range(len(KINDS))
SHARE_DIVISOR = 10  # nuclei have to do with each other if they share one tenth

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorKinds:
    """The kind of every nucleus of a case under one matching rule: indices into ``KINDS``.

    reference   int8 (N,), never SPURIOUS nor IGNORED
    prediction  int8 (M,), never MISSED nor IGNORED
    """

    reference: Codes
    prediction: Codes


def sort_errors(
    reference: Instances,
    prediction: Instances,
    table: OverlapTable,
    matches: Matches,
    *,
    misnamed: Matches | None = None,
    twins: tuple[Int64, Int64] | None = None,
    ranks: tuple[Int64, Int64] | None = None,
) -> ErrorKinds:
    """Sort every nucleus of a case into exactly one kind, in this order.

    1. Matched pairs: ``right`` if their classes are equal, else ``wrong_class``. Predictions without a match are
       ``duplicate`` if they share more than half of the smaller of the two with a matched one: ``twins``, pairs of
       predictions as ``find_twins`` finds them.
    2. ``misnamed``, of a class-aware rule: the pairs of the same rule with the classes ignored. Those that were not
       matched but for their classes are ``wrong_class``.
    3. ``split``: the pieces of a nucleus that are nobody's match, and the nucleus if it has none. Pieces are two or
       more predictions, each with more than half of its pixels in the nucleus and on a tenth of it at least, that share
       more than half of it in all. A nucleus with a match counts if the match is one of its pieces.
    4. ``merged``: the same with the sides swapped.
    5. ``poor_outline``: pairs of what is left, one to one, the highest IoU first, that have an IoU of 1/10 or more.
    6. ``missed`` and ``spurious``: the rest.

    Points overlap nothing, so 3 to 5 find nothing there. Ties are decided by ``Instances.position_order``.

    >>> row = Instances((1, 6), np.array([1, 1]), np.arange(2), np.array([0, 3]), np.array([3, 5]), np.array([0, 1]))
    >>> one = Instances((1, 6), np.array([1]), np.arange(1), np.array([0]), np.array([6]), np.array([0]))
    >>> table = OverlapTable(np.array([0, 1]), np.array([0, 0]), np.array([3, 2]), np.array([3, 2]), np.array([6]))
    >>> nothing = Matches(*np.empty((4, 0), np.int64))
    >>> found = sort_errors(row, one, table, nothing)
    >>> [KINDS[code] for code in found.reference], [KINDS[code] for code in found.prediction]
    (['merged', 'merged'], ['merged'])
    """
    kinds = np.full(len(reference), MISSED, np.int8), np.full(len(prediction), SPURIOUS, np.int8)
    partner = np.full(len(reference), -1, np.int64)  # the prediction that found it
    for pairs in (matches, misnamed):
        if pairs is None:
            continue
        left, right = pairs.reference_index, pairs.prediction_index
        equal = reference.class_id[left] == prediction.class_id[right]
        if pairs is misnamed:
            chosen = np.flatnonzero(~equal & (kinds[0][left] == MISSED) & (kinds[1][right] == SPURIOUS))
            left, right, equal = left[chosen], right[chosen], equal[chosen]
        kinds[0][left] = kinds[1][right] = np.where(equal, RIGHT, WRONG_CLASS)
        partner[left] = right
        if pairs is matches and twins is not None:
            is_matched = np.zeros(len(prediction), np.bool_)
            is_matched[right] = True
            both = np.concatenate([np.stack(twins), np.stack(twins[::-1])], axis=1)
            kinds[1][both[0, ~is_matched[both[0]] & is_matched[both[1]]]] = DUPLICATE
    if len(table.reference_index) == 0:
        return ErrorKinds(*kinds)
    areas = table.reference_area_px, table.prediction_area_px
    ranks = ranks or (reference.position_rank(), prediction.position_rank())
    index = table.reference_index, table.prediction_index
    is_pair = partner[index[0]] == index[1]
    for kind, whole, piece in ((SPLIT, 0, 1), (MERGED, 1, 0)):
        free = kinds[whole] == (MISSED, SPURIOUS)[whole], kinds[piece] == (MISSED, SPURIOUS)[piece]
        rows = _rows_of_pieces(
            index[whole], index[piece], table.intersection_px, areas[whole], areas[piece], *free, is_pair, ranks[whole]
        )
        for side, is_free in ((whole, free[0]), (piece, free[1])):
            nuclei = index[side][rows]
            kinds[side][nuclei[is_free[nuclei]]] = kind
    poor = _rows_of_poor_outlines(table, kinds[0] == MISSED, kinds[1] == SPURIOUS, *ranks)
    kinds[0][index[0][poor]] = kinds[1][index[1][poor]] = POOR_OUTLINE
    return ErrorKinds(*kinds)


def _rows_of_pieces(
    whole: Int32,
    piece: Int32,
    shared_px: Int64,
    whole_area_px: Int64,
    piece_area_px: Int64,
    whole_is_free: Bool,
    piece_is_free: Bool,
    is_pair: Bool,
    whole_rank: Int64,
) -> Int64:
    """The rows of the overlap table in which a nucleus of one side is covered in pieces by those of the other.

    whole, piece, shared_px, is_pair   of each row; ``is_pair``: the two found each other
    whole_area_px, whole_is_free, …    of each nucleus; free: it has no kind yet
    """
    rows = np.flatnonzero(
        (2 * shared_px > piece_area_px[piece])
        & (SHARE_DIVISOR * shared_px >= whole_area_px[whole])
        & (piece_is_free[piece] | is_pair)
    )
    rows = rows[best_rows(piece[rows], whole[rows], shared_px[rows], whole_rank)]  # wholes may overlap each other
    size = len(whole_area_px)
    number = np.bincount(whole[rows], minlength=size)
    covered_px = np.zeros(size, np.int64)
    np.add.at(covered_px, whole[rows], shared_px[rows])
    taken = np.bincount(whole[rows], weights=is_pair[rows], minlength=size) > 0
    is_whole = (number > 1) & (2 * covered_px > whole_area_px) & (whole_is_free | taken)
    return rows[is_whole[whole[rows]]]


def _rows_of_poor_outlines(
    table: OverlapTable,
    reference_is_free: Bool,
    prediction_is_free: Bool,
    reference_rank: Int64,
    prediction_rank: Int64,
) -> Int64:
    """The rows of the overlap table of pairs with IoU >= 1/10, one to one, the highest IoU first.

    Of equal IoU the prediction that comes first is preferred, then the reference. One pair after the other: where
    nuclei lie side by side, each may wait for the one before it, so that what can be taken at once is often one pair.
    """
    left, right, union_px = table.reference_index, table.prediction_index, table.union_px()
    rows = np.flatnonzero(SHARE_DIVISOR * table.intersection_px >= union_px)
    rows = rows[reference_is_free[left[rows]] & prediction_is_free[right[rows]]]
    iou = table.intersection_px[rows] / union_px[rows]  # equal fractions give equal floats
    rows = rows[np.lexsort((reference_rank[left[rows]], prediction_rank[right[rows]], -iou))]
    free = bytearray(b"\1") * len(reference_is_free), bytearray(b"\1") * len(prediction_is_free)
    taken = []
    for row, i, j in zip(rows.tolist(), left[rows].tolist(), right[rows].tolist(), strict=True):
        if free[0][i] and free[1][j]:
            free[0][i] = free[1][j] = 0
            taken.append(row)
    return np.array(taken, np.int64)
