"""The state of each nucleus of a case under the first matching rule, such as matched or missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.analysis.error_costs import sort_case
from evaluation.challenge import Challenge
from evaluation.instances.runs import select_instances
from evaluation.metrics.errors import RIGHT, WRONG_CLASS, ErrorKinds
from evaluation.model import Instances
from evaluation.report.pictures.states import STATES
from evaluation.scoring.match import MatchedCase

MATCHED_STATE, MISSED_STATE, SPURIOUS_STATE, WRONG_STATE = (
    STATES.index(state) for state in ("matched", "missed", "spurious", "wrong_class")
)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCase:
    """A case with the state of each nucleus. States are indices in ``STATES``.

    kinds     of errors
    reference_state, prediction_state  int8 (N,) and (M,)
    ignored   predictions that left because of the ignore region; none of a case that was not submitted
    """

    matched: MatchedCase
    kinds: ErrorKinds
    reference_state: npt.NDArray[np.int8]
    prediction_state: npt.NDArray[np.int8]
    ignored: Instances


def judge_case(challenge: Challenge, matched: MatchedCase, submitted: Instances | None) -> JudgedCase:
    """Judge a matched case. ``submitted``: the prediction before the ignore region; None: not submitted."""
    kinds = sort_case(challenge, matched)
    return JudgedCase(
        matched=matched,
        kinds=kinds,
        reference_state=states_of(kinds.reference, MISSED_STATE),
        prediction_state=states_of(kinds.prediction, SPURIOUS_STATE),
        ignored=matched.prediction if submitted is None else ignored_of(matched, submitted),
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
