"""Scores of many units at once, and why a value is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import UNDEFINED_REASONS, Bool, Float64, Scores, UndefinedReason

Reasons = npt.NDArray[np.int8]
Numbers = npt.NDArray[Any]


def code(reason: UndefinedReason) -> np.int8:
    """The number that stands for a reason in ``Scores.reason``."""
    return np.int8(1 + UNDEFINED_REASONS.index(reason))


def why_undefined(references: Numbers, predictions: Numbers) -> Reasons:
    """Why a score that needs matched pairs, or one side, has no value, from how many there are on either side, (B,)."""
    without_reference = np.where(predictions == 0, code("no-instances"), code("no-reference"))
    with_reference = np.where(predictions == 0, code("no-prediction"), code("nothing-matched"))
    return np.where(references == 0, without_reference, with_reference)


def ratio(numerator: Numbers, denominator: Numbers, reason: Reasons | np.int8) -> Scores:
    """``numerator / denominator`` of each unit; undefined for the reason where the denominator is 0."""
    return scores(numerator / np.where(denominator == 0, 1, denominator), denominator != 0, reason)


def scores(value: Numbers, defined: Bool, reason: Reasons | np.int8) -> Scores:
    """The values where they are defined, the reason elsewhere."""
    return Scores(
        np.where(defined, value, np.nan).astype(np.float64, copy=False), np.where(defined, np.int8(0), reason)
    )


def undefined(units: int, reason: UndefinedReason) -> Scores:
    """No value in any unit."""
    return Scores(np.full(units, np.nan), np.full(units, code(reason)))


def mean_of(parts: Sequence[Scores], reason: Reasons | np.int8) -> Scores:
    """Mean over those parts (classes, thresholds) that are defined, unit by unit; the reason where none is.

    Added up in the order of the parts, so always to the same digits.
    """
    total: Float64 = np.zeros(len(parts[0]))
    number = np.zeros(len(parts[0]), np.int64)
    for part in parts:
        defined = part.reason == 0
        total[defined] += part.value[defined]
        number += defined
    return ratio(total, number, reason)
