"""Ranks along an axis and weighted medians, against scipy, numpy and slow literal versions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from evaluation.challenge.rules import RankingRules
from evaluation.model import Missing, MissingValues, Ties
from evaluation.ranking.methods import SCORE_ROUNDING, rank_values, weighted_median

TIES = get_args(Ties)
NAN = math.nan

with_gaps = st.lists(st.sampled_from([NAN, -1.5, 0.0, 0.25, 0.5]), max_size=12)
any_values = st.lists(st.floats(allow_nan=False, allow_infinity=True), max_size=12)


def literal_ranks(values, ties: str, missing: str) -> list[float]:
    """Ranks of a list in which the lowest is best, from the definitions; NaN is nobody's neighbour but NaN's."""

    def key(value):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)

    keys = [key(value) for value in values]
    ranks = []
    for own in keys:
        better = sum(other < own for other in keys)
        equal = sum(other == own for other in keys)
        rank = {
            "min": better + 1,
            "average": better + (equal + 1) / 2,
            "dense": len({other for other in keys if other < own}) + 1,
        }[ties]
        ranks.append(NAN if own[0] and missing == "unranked" else float(rank))
    return ranks


def test_the_names_of_the_rules_are_those_of_the_challenge():
    rules = RankingRules.model_fields
    assert rules["ties"].annotation == Ties
    assert rules["missing"].annotation == MissingValues


@pytest.mark.parametrize("ties", TIES)
@given(values=any_values, higher=st.booleans())
def test_ranks_are_those_of_scipy(ties, values, higher):
    array = np.array(values, np.float64)
    expected = rankdata(-array if higher else array, method=ties)
    assert rank_values(array, higher_is_better=higher, ties=ties).tolist() == expected.tolist()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("missing", get_args(Missing))
@given(values=with_gaps, higher=st.booleans())
def test_values_that_are_missing_rank_after_all_others_or_not_at_all(ties, missing, values, higher):
    found = rank_values(np.array(values, np.float64), higher_is_better=higher, ties=ties, missing=missing)
    expected = literal_ranks([-value for value in values] if higher else values, ties, missing)
    np.testing.assert_array_equal(found, expected)


def test_a_missing_value_is_worse_than_an_infinite_one():
    values = np.array([np.inf, NAN, 3.0])
    assert rank_values(values, higher_is_better=False, ties="min", missing="worst").tolist() == [2, 3, 1]
    assert rank_values(-values, higher_is_better=True, ties="min", missing="worst").tolist() == [2, 3, 1]


@pytest.mark.parametrize("ties", TIES)
def test_leading_axes_are_ranked_one_by_one(ties):
    values = np.random.default_rng(3).choice([0.1, 0.2, 0.3, np.nan], (4, 3, 2, 9))
    found = rank_values(values, higher_is_better=True, ties=ties, missing="worst", tolerance=SCORE_ROUNDING)
    for place in np.ndindex(4, 3, 2):
        np.testing.assert_array_equal(found[place], literal_ranks((-values[place]).tolist(), ties, "worst"))


def test_sums_that_differ_by_rounding_are_equal_only_with_a_tolerance():
    values = np.array([0.1 + 0.2, 0.3])
    assert rank_values(values, higher_is_better=False, ties="min").tolist() == [2, 1]
    assert rank_values(values, higher_is_better=False, ties="min", tolerance=SCORE_ROUNDING).tolist() == [1, 1]


def test_the_tolerance_grows_with_values_above_one():
    values = np.array([1e6 + 5e-4, 1e6, 0.0, 2e-9])
    assert rank_values(values, higher_is_better=False, ties="min", tolerance=SCORE_ROUNDING).tolist() == [3, 3, 1, 2]


def test_means_of_a_thousand_ranks_are_not_cut_off_at_a_decimal():
    # k / 1024 has ten decimals and ends with 5: to round to nine of them would part what differs by rounding
    values = np.array([1 / 1024 - 1e-13, 1 / 1024 + 1e-13, 2 / 1024])
    assert rank_values(values, higher_is_better=False, ties="min", tolerance=SCORE_ROUNDING).tolist() == [1, 1, 3]


def test_the_tolerance_parts_infinities_from_numbers_and_from_each_other():
    values = np.array([-np.inf, 0.0, np.inf, np.inf, -np.inf])
    assert rank_values(values, higher_is_better=False, ties="min", tolerance=SCORE_ROUNDING).tolist() == [1, 3, 4, 4, 1]
    assert rank_values(values[[0, 2]], higher_is_better=False, ties="min", tolerance=SCORE_ROUNDING).tolist() == [1, 2]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_no_teams_and_no_samples_have_no_ranks(ties, shape):
    assert rank_values(np.empty(shape), higher_is_better=True, ties=ties, tolerance=SCORE_ROUNDING).shape == shape


# --- weighted medians -------------------------------------------------------------------------------------------------


def literal_median(pairs: list[tuple[float, Fraction]]) -> float:
    """The middle of all m with as much weight below as above: the definition, in fractions."""
    pairs = sorted((value, weight) for value, weight in pairs if weight > 0)
    half = sum(weight for _, weight in pairs) / 2
    reached = [(value, sum(w for v, w in pairs if v <= value)) for value, _ in pairs]
    low = next(value for value, below in reached if below >= half)
    high = next(value for value, below in reached if below > half)
    return (low + high) / 2


weighted = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), min_size=1, max_size=9)


@given(pairs=weighted, scale=st.sampled_from([1, 3, 7, 10, 1000]))
def test_a_weighted_median_has_half_of_the_weight_on_either_side(pairs, scale):
    values, weights = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    expected = literal_median([(value, Fraction(weight)) for value, weight in pairs])
    assert weighted_median(values, weights / scale).item() == expected


@given(values=st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_with_equal_weights_it_is_the_median(values):
    array = np.array(values, np.float64)
    for weight in (1.0, 0.1, 1 / 3):
        assert weighted_median(array, np.full(len(values), weight)).item() == np.median(array)


@given(pairs=weighted)
def test_whole_weights_are_repetitions(pairs):
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    found = weighted_median(values.astype(np.float64), weights.astype(np.float64)).item()
    assert found == np.median(np.repeat(values, weights))


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.3], [0.1, 0.7, 0.8]])
def test_exactly_half_is_found_although_tenths_do_not_add_up(weights):
    # 0.1 + 0.2 is above 0.6 / 2 in floating point, and 0.1 + 0.7 below 1.6 / 2
    assert weighted_median(np.array([1.0, 2.0, 5.0]), np.array(weights)).item() == 3.5


def test_missing_values_have_no_weight():
    values = np.array([[np.nan, 1.0, 4.0], [np.nan] * 3])
    np.testing.assert_array_equal(weighted_median(values, np.array([5.0, 1.0, 1.0])), [2.5, np.nan])
    np.testing.assert_array_equal(weighted_median(np.empty((2, 0)), np.empty(0)), [np.nan, np.nan])
