"""What became of each nucleus of a case under the first matching rule, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.analysis.error_costs import sort_case
from evaluation.challenge import Challenge
from evaluation.instances.runs import select_instances
from evaluation.metrics.errors import MERGED, MISSED, RIGHT, SPURIOUS, WRONG_CLASS, ErrorKinds
from evaluation.model import Bool, Float64, Instances, Int32, Int64, OverlapTable
from evaluation.report.pictures.states import STATES, State
from evaluation.scoring.match import MatchedCase

NONE = -1
MATCHED_STATE, MISSED_STATE, SPURIOUS_STATE, WRONG_STATE = (
    STATES.index(state) for state in ("matched", "missed", "spurious", "wrong_class")
)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCase:
    """A case whose nuclei are coloured. States are places in ``STATES``.

    kinds     of errors
    reference_state, prediction_state  int8 (N,) and (M,)
    ignored   predictions that left because of the ignore region; none of a case that was not submitted
    mistakes  what is not right, or not exactly so
    """

    matched: MatchedCase
    kinds: ErrorKinds
    reference_state: npt.NDArray[np.int8]
    prediction_state: npt.NDArray[np.int8]
    ignored: Instances
    mistakes: Mistakes

    def states(self) -> dict[State, int]:
        """How many nuclei there are of each state; matched and wrong_class: pairs, as far as there is a pair."""
        left = np.bincount(self.reference_state, minlength=len(STATES))
        right = np.bincount(self.prediction_state, minlength=len(STATES))
        counts: dict[State, int] = {
            state: int(max(left[i], right[i]))
            for i, state in enumerate(STATES)
            if state not in ("ignored", "contested")
        }
        return {**counts, "ignored": len(self.ignored)}


@dataclass(frozen=True, slots=True, eq=False)
class Mistakes:
    """What is not right, (K,) each: a nucleus, or a pair of them.

    kind       int8, as in ``metrics.errors``; RIGHT: matched, but with pixels on one side only
    reference, prediction   int32, indices; -1: none
    loss_px    int64. Of a matched pair the pixels on one side only, or all if its classes differ; else all of what
               is not matched. 0 for points
    iou        float64, NaN without a partner or without pixels
    """

    kind: npt.NDArray[np.int8]
    reference: Int32
    prediction: Int32
    loss_px: Int64
    iou: Float64

    def __len__(self) -> int:
        return len(self.kind)


def judge_case(challenge: Challenge, matched: MatchedCase, submitted: Instances | None) -> JudgedCase:
    """Judge a matched case. ``submitted``: the prediction before the ignore region; None: not submitted."""
    kinds = sort_case(challenge, matched)
    return JudgedCase(
        matched=matched,
        kinds=kinds,
        reference_state=states_of(kinds.reference, MISSED_STATE),
        prediction_state=states_of(kinds.prediction, SPURIOUS_STATE),
        ignored=matched.prediction if submitted is None else ignored_of(matched, submitted),
        mistakes=find_mistakes(matched, kinds),
    )


def ignored_of(matched: MatchedCase, submitted: Instances) -> Instances:
    """The predictions that left because of the ignore region, with all their pixels."""
    left = np.ones(len(submitted), np.bool_)
    left[slice(None) if matched.kept is None else matched.kept] = False
    return select_instances(submitted, left)


def states_of(kind: npt.NDArray[np.int8], unmatched: int) -> npt.NDArray[np.int8]:
    """The state of each nucleus of a side by the kind of its error."""
    state = np.full(len(kind), unmatched, np.int8)
    state[kind == RIGHT] = MATCHED_STATE
    state[kind == WRONG_CLASS] = WRONG_STATE
    return state


def find_mistakes(matched: MatchedCase, kinds: ErrorKinds) -> Mistakes:
    """All mistakes of a case, each once.

    A pair under the first matching rule is one. Any other nucleus of the reference goes with the prediction that it
    shares most pixels with, if its kind says that there is one; of several in one prediction only the largest has one.
    A prediction has a mistake of its own if it is part of none of these.
    """
    pairs = next(iter(matched.matches.values()))
    table = matched.table
    sides = [matched.reference.instances, matched.prediction]
    unmatched = [np.ones(len(side), np.bool_) for side in sides]
    unmatched[0][pairs.reference_index] = False
    unmatched[1][pairs.prediction_index] = False
    partner = [best_partners(table, side, len(of_side)) for side, of_side in enumerate(sides)]
    partner[0][kinds.reference == MISSED] = NONE
    partner[1][kinds.prediction == SPURIOUS] = NONE

    single = np.flatnonzero(unmatched[0])
    single = single[is_largest(single, partner[0][single], kinds.reference[single] == MERGED, table.reference_area_px)]
    with_partner = partner[1] != NONE
    of_reference = np.zeros(len(sides[1]), np.bool_)
    chosen = partner[1][with_partner]
    of_reference[with_partner] = unmatched[0][chosen] & (kinds.reference[chosen] == kinds.prediction[with_partner])
    alone = np.flatnonzero(unmatched[1] & ~of_reference)
    reference = np.concatenate([pairs.reference_index, single, partner[1][alone]]).astype(np.int32)
    prediction = np.concatenate([pairs.prediction_index, partner[0][single], alone]).astype(np.int32)
    kind = np.concatenate([kinds.reference[pairs.reference_index], kinds.reference[single], kinds.prediction[alone]])
    return measured(kind.astype(np.int8), reference, prediction, table, unmatched)


def measured(
    kind: npt.NDArray[np.int8], reference: Int32, prediction: Int32, table: OverlapTable, unmatched: Sequence[Bool]
) -> Mistakes:
    """Mistakes with what they cost; a matched pair without a pixel on one side only is none."""
    lost = [np.append(side, False) for side in unmatched]  # the last one stands for no nucleus
    counted = [lost[0][reference] | (kind == WRONG_CLASS), lost[1][prediction] | (kind == WRONG_CLASS)]
    areas = [np.append(side, 0) for side in (table.reference_area_px, table.prediction_area_px)]
    own = [areas[0][reference], areas[1][prediction]]
    shared = shared_px(table, reference, prediction)
    loss = counted[0] * own[0] + counted[1] * own[1] - (counted[0] & counted[1]) * shared
    is_right = kind == RIGHT
    loss[is_right] = (own[0] + own[1] - 2 * shared)[is_right]
    iou = np.full(len(kind), np.nan)
    np.divide(shared, own[0] + own[1] - shared, out=iou, where=(own[0] > 0) & (own[1] > 0))
    kept = ~is_right | (loss > 0)
    return Mistakes(kind[kept], reference[kept], prediction[kept], loss[kept], iou[kept])


def shared_px(table: OverlapTable, reference: Int32, prediction: Int32) -> Int64:
    """Pixels that are in both nuclei of each pair, int64 (K,); 0 for -1."""
    if len(table.intersection_px) == 0:
        return np.zeros(len(reference), np.int64)
    across = len(table.prediction_area_px) + 1
    key = (table.reference_index + np.int64(1)) * across + table.prediction_index + 1
    wanted = (reference + np.int64(1)) * across + prediction + 1
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.where(key[place] == wanted, table.intersection_px[place], 0)


def best_partners(table: OverlapTable, side: int, count: int) -> Int64:
    """The nucleus of the other side that each shares most pixels with, the first of several, int64 (count,); or -1."""
    index = (table.reference_index, table.prediction_index)
    order = np.lexsort((index[1 - side], -table.intersection_px, index[side]))
    owner, first = np.unique(index[side][order], return_index=True)
    partner = np.full(count, NONE, np.int64)
    partner[owner] = index[1 - side][order[first]]
    return partner


def is_largest(single: Int64, partner: Int64, merged: Bool, area_px: Int64) -> Bool:
    """Which nuclei tell of a mistake: all, but of those that are merged in one prediction only the largest."""
    kept = ~merged | (partner == NONE)
    candidates = np.flatnonzero(~kept)
    order = candidates[np.lexsort((single[candidates], -area_px[single[candidates]], partner[candidates]))]
    _, first = np.unique(partner[order], return_index=True)
    kept[order[first]] = True
    return np.asarray(kept, np.bool_)
