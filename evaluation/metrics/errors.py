"""What is wrong with each nucleus of a case, and what the counts of the case would be if one kind of error went.

After TIDE (Bolya et al., ECCV 2020): every nucleus has exactly one kind, an oracle corrects one kind at a time, and the
difference of the scores is what the kind costs. Splits and merges are pieces in the sense of Coelho, Shariff, Murphy
(ISBI 2009). docs/errors.md says it in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evaluation.metrics.overlap import best_rows
from evaluation.model import Bool, Float64, Instances, Int32, Int64, MatchCounts, Matches, OverlapTable, PredictionList
from evaluation.model.intervals import merge_runs, overlaps

KINDS = ("right", "missed", "spurious", "wrong_class", "poor_outline", "split", "merged")
RIGHT, MISSED, SPURIOUS, WRONG_CLASS, POOR_OUTLINE, SPLIT, MERGED = range(len(KINDS))
ALL = "all"  # every kind corrected at once
OUTLINES = ("iou", "dice")  # the measures of an outline that correcting knows
SHARE = 10  # nuclei have to do with each other if they share one tenth

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Redrawn:
    """Reference nuclei, (K,), and how well they are outlined once a kind of error is corrected: IoU = shared / union.

    reference_index  int64, each once
    shared_px, union_px  float64
    """

    reference_index: Int64
    shared_px: Float64
    union_px: Float64


@dataclass(frozen=True, slots=True, eq=False)
class ErrorKinds:
    """The kind of every nucleus of a case under one matching rule: indices into ``KINDS``.

    reference   int8 (N,), never SPURIOUS
    prediction  int8 (M,), never MISSED
    redrawn     by kind, the outlines that correcting it changes or brings
    """

    reference: Codes
    prediction: Codes
    redrawn: Mapping[int, Redrawn]


def sort_errors(
    reference: Instances,
    prediction: Instances,
    table: OverlapTable,
    matches: Matches,
    *,
    misnamed: Matches | None = None,
) -> ErrorKinds:
    """Sort every nucleus of a case into exactly one kind, in this order.

    1. Matched pairs: ``right`` if their classes are equal, else ``wrong_class``.
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
    redrawn = {POOR_OUTLINE: drawn_right(matches.reference_index)}
    for pairs in (matches, misnamed):
        if pairs is None:
            continue
        left, right = pairs.reference_index, pairs.prediction_index
        equal = reference.class_id[left] == prediction.class_id[right]
        if pairs is misnamed:
            kept = np.flatnonzero(~equal & (kinds[0][left] == MISSED) & (kinds[1][right] == SPURIOUS))
            left, right, equal = left[kept], right[kept], equal[kept]
            of_pixels = (px[kept].astype(np.float64) for px in (pairs.intersection_px, pairs.union_px))
            redrawn[WRONG_CLASS] = Redrawn(left.astype(np.int64), *of_pixels)
        kinds[0][left] = kinds[1][right] = np.where(equal, RIGHT, WRONG_CLASS)
        partner[left] = right
    if len(table.reference_index) == 0:
        return ErrorKinds(*kinds, redrawn)
    areas = table.reference_area_px, table.prediction_area_px
    ranks = reference.position_rank(), prediction.position_rank()
    index = table.reference_index, table.prediction_index
    is_pair = partner[index[0]] == index[1]
    for kind, whole, piece in ((SPLIT, 0, 1), (MERGED, 1, 0)):
        free = kinds[whole] == (MISSED, SPURIOUS)[whole], kinds[piece] == (MISSED, SPURIOUS)[piece]
        rows = rows_of_pieces(
            index[whole], index[piece], table.intersection_px, areas[whole], areas[piece], *free, is_pair, ranks[whole]
        )
        for side, is_free in ((whole, free[0]), (piece, free[1])):
            nuclei = index[side][rows]
            kinds[side][nuclei[is_free[nuclei]]] = kind
        redrawn[kind] = unite_pieces(reference, prediction, table, rows) if kind == SPLIT else part_pieces(table, rows)
    poor = rows_of_poor_outlines(table, kinds[0] == MISSED, kinds[1] == SPURIOUS, *ranks)
    kinds[0][index[0][poor]] = kinds[1][index[1][poor]] = POOR_OUTLINE
    redrawn[POOR_OUTLINE] = drawn_right(np.concatenate([matches.reference_index, index[0][poor]]))
    return ErrorKinds(*kinds, redrawn)


def drawn_right(reference_index: Int32 | Int64) -> Redrawn:
    """Nuclei whose outline becomes that of the reference."""
    ones = np.ones(len(reference_index))
    return Redrawn(reference_index.astype(np.int64), ones, ones)


def rows_of_pieces(
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
        & (SHARE * shared_px >= whole_area_px[whole])
        & (piece_is_free[piece] | is_pair)
    )
    rows = rows[best_rows(piece[rows], whole[rows], shared_px[rows], whole_rank)]  # wholes may overlap each other
    size = len(whole_area_px)
    number = np.bincount(whole[rows], minlength=size)
    covered_px = sum_by(whole[rows], shared_px[rows], size)
    taken = np.bincount(whole[rows], weights=is_pair[rows], minlength=size) > 0
    is_whole = (number > 1) & (2 * covered_px > whole_area_px) & (whole_is_free | taken)
    return rows[is_whole[whole[rows]]]


def unite_pieces(reference: Instances, prediction: Instances, table: OverlapTable, rows: Int64) -> Redrawn:
    """Split nuclei with their pieces united, as sets of pixels: pieces may overlap each other."""
    wholes, group = np.unique(table.reference_index[rows], return_inverse=True)
    apart = reference.shape_yx[0] * reference.shape_yx[1] + 1  # each group in an image of its own, with a gap between
    of_whole, of_piece = np.full(len(reference), -1, np.int64), np.full(len(prediction), -1, np.int64)
    of_whole[wholes] = np.arange(len(wholes))
    of_piece[table.prediction_index[rows]] = group
    left = merge_runs(*runs_of_groups(reference, of_whole, apart))
    right = merge_runs(*runs_of_groups(prediction, of_piece, apart))
    *_, start, stop = overlaps(*left, *right)
    shared_px, united_px = (sum_by(begin // apart, end - begin, len(wholes)) for begin, end in ((start, stop), right))
    union_px = table.reference_area_px[wholes] + united_px - shared_px
    return Redrawn(wholes.astype(np.int64), shared_px.astype(np.float64), union_px.astype(np.float64))


def runs_of_groups(instances: Instances, group: Int64, apart: int) -> tuple[Int64, Int64]:
    """Start and stop of the runs of instances in a group (-1: in none); those of group g lie g images further."""
    of_run = group[instances.run_instance]
    chosen = of_run >= 0
    first = of_run[chosen] * apart
    return instances.run_start[chosen] + first, instances.run_stop[chosen] + first


def part_pieces(table: OverlapTable, rows: Int64) -> Redrawn:
    """Merged nuclei with the prediction parted among them: each gets what it shares with the prediction.

    Pixels of the prediction in none of them are shared in proportion to that: correcting a merge corrects no outline.
    """
    left, right, shared_px = table.reference_index[rows], table.prediction_index[rows], table.intersection_px[rows]
    covered_px = sum_by(right, shared_px, len(table.prediction_area_px))
    outside_px = np.maximum(table.prediction_area_px - covered_px, 0)
    dealt_px = outside_px[right] * shared_px / covered_px[right]
    return Redrawn(left.astype(np.int64), shared_px.astype(np.float64), table.reference_area_px[left] + dealt_px)


def rows_of_poor_outlines(
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
    rows = np.flatnonzero(SHARE * table.intersection_px >= union_px)
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


def sum_by(index: Int32 | Int64, values: Int64, size: int) -> Int64:
    """Sums of whole numbers by index, int64 (size,)."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, values)
    return sums


# --- correcting -------------------------------------------------------------------------------------------------------


def corrected_counts(
    counts: MatchCounts, reference: Instances, prediction: Instances, matches: Matches, kinds: ErrorKinds, kind: str
) -> MatchCounts:
    """The counts of a case if every nucleus of one kind were right, the rest as it is. ``kind`` may be ``ALL``.

    Reference nuclei of the kind are found and named right; predictions of the kind that are no pair's are gone; matched
    pairs of it are renamed. Outlines, as IoU and Dice:

    - missed: not known, NaN, to be filled in with those of an average nucleus; the case counts as submitted
    - spurious, wrong class: as they are
    - poor outline: 1, of all matched pairs too
    - split: the nucleus with its pieces united; merged: with its part of the prediction (see ``part_pieces``)
    - all: every nucleus is found, named and outlined right, and there is nothing else

    What is left out: all other measures, probabilities, and the list of predictions. What published faults of counting
    add to the counts stays.
    """
    if kind == ALL:
        return all_right(counts, reference)
    code, classes = KINDS.index(kind), len(counts.confusion)
    pair_class = counts.pair_class.copy()
    if code == WRONG_CLASS:
        pair_class[:, 1] = pair_class[:, 0]
    found = unmatched(kinds.reference == code, matches.reference_index)
    gone = unmatched(kinds.prediction == code, matches.prediction_index)
    found_class = reference.class_id[found]
    pair_class = np.concatenate([pair_class, np.stack([found_class, found_class], axis=1)])
    confusion = counts.confusion.copy()
    confusion[1:, 1:] = 0
    np.add.at(confusion, tuple(pair_class.T), 1)
    confusion[:, 0] -= np.bincount(found_class, minlength=classes)
    removed = np.bincount(prediction.class_id[gone], minlength=classes)
    confusion[0] = np.maximum(confusion[0] - removed, 0)  # published faults leave some out
    pair = np.full(len(reference), -1, np.int64)
    pair[np.concatenate([matches.reference_index, found])] = np.arange(len(pair_class))
    measures = {}
    for name, values in outlines_of(counts).items():
        measures[name] = np.concatenate([values, np.full(len(found), np.nan)])
        if redrawn := kinds.redrawn.get(code):
            at = pair[redrawn.reference_index]
            measures[name][at[at >= 0]] = measure_of(name, redrawn)[at >= 0]
    return replace(
        bare(counts),
        confusion=confusion,
        pair_class=pair_class,
        measures=measures,
        missing=counts.missing and code != MISSED,
    )


def all_right(counts: MatchCounts, reference: Instances) -> MatchCounts:
    """The counts of a case whose prediction is its reference."""
    return replace(
        bare(counts),
        confusion=np.diag(np.bincount(reference.class_id, minlength=len(counts.confusion))),
        pair_class=np.stack([reference.class_id, reference.class_id], axis=1),
        measures={name: np.ones(len(reference)) for name in outlines_of(counts)},
        missing=False,
    )


def bare(counts: MatchCounts) -> MatchCounts:
    """The counts of a case without what correcting knows nothing of: other measures, probabilities and predictions."""
    none = np.empty(0, np.int16)
    return replace(
        counts,
        measures=outlines_of(counts),
        pair_probability=None,
        pair_area_px=None,
        predictions=PredictionList(none, none, None),
    )


def outlines_of(counts: MatchCounts) -> dict[str, Float64]:
    """Those measures of the pairs that a corrected outline has."""
    return {name: values for name, values in counts.measures.items() if name in OUTLINES}


def measure_of(name: str, redrawn: Redrawn) -> Float64:
    shared, union = redrawn.shared_px, redrawn.union_px
    return shared / union if name == "iou" else 2 * shared / (union + shared)


def unmatched(chosen: Bool, matched_index: Int32) -> Int64:
    """The chosen instances that are in no pair, int64."""
    chosen = chosen.copy()
    chosen[matched_index] = False
    return np.flatnonzero(chosen)
