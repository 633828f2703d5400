"""What is wrong with each nucleus of a case: every nucleus has exactly one kind.

After TIDE (Bolya et al., ECCV 2020). Splits and merges are pieces in the sense of Coelho, Shariff, Murphy (ISBI 2009).
docs/report.md says it in words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.metrics.overlap import best_rows
from evaluation.model import Bool, Instances, Int32, Int64, Matches, OverlapTable

KINDS = ("right", "missed", "spurious", "wrong_class", "poor_outline", "split", "merged")
RIGHT, MISSED, SPURIOUS, WRONG_CLASS, POOR_OUTLINE, SPLIT, MERGED = range(len(KINDS))
SHARE_DIVISOR = 10  # nuclei have to do with each other if they share one tenth

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorKinds:
    """The kind of every nucleus of a case under one matching rule: indices into ``KINDS``.

    reference   int8 (N,), never SPURIOUS
    prediction  int8 (M,), never MISSED
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
    if len(table.reference_index) == 0:
        return ErrorKinds(*kinds)
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
    poor = rows_of_poor_outlines(table, kinds[0] == MISSED, kinds[1] == SPURIOUS, *ranks)
    kinds[0][index[0][poor]] = kinds[1][index[1][poor]] = POOR_OUTLINE
    return ErrorKinds(*kinds)


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
        & (SHARE_DIVISOR * shared_px >= whole_area_px[whole])
        & (piece_is_free[piece] | is_pair)
    )
    rows = rows[best_rows(piece[rows], whole[rows], shared_px[rows], whole_rank)]  # wholes may overlap each other
    size = len(whole_area_px)
    number = np.bincount(whole[rows], minlength=size)
    covered_px = sum_by(whole[rows], shared_px[rows], size)
    taken = np.bincount(whole[rows], weights=is_pair[rows], minlength=size) > 0
    is_whole = (number > 1) & (2 * covered_px > whole_area_px) & (whole_is_free | taken)
    return rows[is_whole[whole[rows]]]


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


def sum_by(index: Int32 | Int64, values: Int64, size: int) -> Int64:
    """Sums of whole numbers by index, int64 (size,)."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, values)
    return sums
