"""Ranks along an axis: 1 is best. All leading axes are ranked at once, so that samples of a bootstrap cost no loop."""

from __future__ import annotations

import numpy as np

from evaluation.model import Bool, Float64, Missing, Ties

ROUNDING = 1e-9  # what may lie between two numbers that were added up in another order, and are equal


def rank_values(
    values: Float64, *, higher_is_better: bool, ties: Ties, missing: Missing = "unranked", tolerance: float = 0.0
) -> Float64:
    """Ranks along the last axis, float64 of the shape (..., T) of the values; 1 is best.

    ties       what equal values get: "min" 1, 2, 2, 4; "average" 1, 2.5, 2.5, 4; "dense" 1, 2, 2, 3
    missing    what NaN gets: "unranked" NaN, and no rank is taken from the others; "worst" the rank after all others,
               which all NaN share by the tie rule (if all are NaN, they share the first)
    tolerance  0: values are equal if they are the same number, as on the platform. Above: two neighbours in the order
               are equal if they lie no further apart than this, times their size where that is above 1. Take
               ``ROUNDING`` for whatever was added up

    Nothing but the order counts, and no rank depends on the order of the teams.

    >>> values = np.array([0.5, 0.7, 0.5, 0.9, np.nan])
    >>> rank_values(values, higher_is_better=True, ties="min").tolist()
    [3.0, 2.0, 3.0, 1.0, nan]
    >>> rank_values(values, higher_is_better=False, ties="average", missing="worst").tolist()
    [1.5, 3.0, 1.5, 4.0, 5.0]
    """
    ascending = -values if higher_is_better else values
    order = np.argsort(ascending, axis=-1)  # NaN come last
    ordered = np.take_along_axis(ascending, order, axis=-1)
    in_order = number_ties(find_ties(ordered, tolerance), ties)
    if missing == "unranked":
        in_order[np.isnan(ordered)] = np.nan
    ranks = np.empty_like(in_order)
    np.put_along_axis(ranks, order, in_order, axis=-1)
    return ranks


def find_ties(ordered: Float64, tolerance: float) -> Bool:
    """Where a new rank begins in ascending values (..., T) with NaN at the end, bool (..., T). NaN are equal."""
    begins = np.ones(ordered.shape, np.bool_)
    lower, upper = ordered[..., :-1], ordered[..., 1:]
    if tolerance == 0:
        apart = lower != upper
    else:
        size = np.clip(np.abs(lower), 1, np.finfo(np.float64).max)
        with np.errstate(invalid="ignore"):  # between two infinities lies nothing
            apart = upper - lower > tolerance * size
    begins[..., 1:] = np.where(np.isnan(upper), ~np.isnan(lower), apart)
    return begins


def number_ties(begins: Bool, ties: Ties) -> Float64:
    """Ranks of entries in order, float64 (..., T), from where a new rank begins, bool (..., T).

    >>> begins = np.array([True, True, False, True])
    >>> number_ties(begins, "average").tolist(), number_ties(begins, "dense").tolist()
    ([1.0, 2.5, 2.5, 4.0], [1.0, 2.0, 2.0, 3.0])
    """
    if ties == "dense":
        return np.cumsum(begins, axis=-1).astype(np.float64)
    number = begins.shape[-1]
    index = np.arange(1.0, number + 1)
    first = np.maximum.accumulate(np.where(begins, index, 0), axis=-1)
    if ties == "min":
        return first
    ends = np.ones(begins.shape, np.bool_)
    ends[..., :-1] = begins[..., 1:]
    last = np.minimum.accumulate(np.where(ends, index, number)[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray((first + last) / 2)


def weighted_median(values: Float64, weights: Float64) -> Float64:
    """Medians along the last axis, (..., N) -> (...): half of the weight lies below, half above.

    In ascending order the first value at which the weights add up to more than half of them all; if they add up to
    exactly half at a value, the mean of that one and the next. With equal weights the median as it is known, and with
    whole weights that of the values, each written as often as its weight says. NaN are left out; NaN where none is
    left. ``weights`` are 0 or more and broadcast to the values; only their proportions count.

    >>> weighted_median(np.array([1.0, 4.0, 2.0]), np.array([2.0, 1.0, 1.0])).item()
    1.5
    """
    if values.shape[-1] == 0:
        return np.full(values.shape[:-1], np.nan)
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    spread = np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=-1)
    below = np.cumsum(np.where(np.isnan(ordered), 0.0, spread), axis=-1)
    half = below[..., -1:] / 2
    lower, upper = (
        np.take_along_axis(ordered, np.argmax(reached, axis=-1)[..., None], axis=-1)[..., 0]
        for reached in (below >= half * (1 - ROUNDING), below > half * (1 + ROUNDING))
    )
    return np.where(half[..., 0] > 0, (lower + upper) / 2, np.nan)
