"""Ranks, medians and areas of weighted unions, and the methods that rank by pairs of teams."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from nuclei_metrics.metrics import order_statistics
from nuclei_metrics.metrics.order_statistics import (
    Blocks,
    median_of_units,
    rank,
    tie_numbers,
    weighted_auroc,
    write_out,
)
from nuclei_metrics.model import Missing, Ties, Units
from nuclei_metrics.ranking.methods import SCORE_ROUNDING, rank_values, weighted_median

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


@pytest.mark.parametrize("ties", TIES)
def test_leading_axes_are_ranked_one_by_one(ties):
    values = np.random.default_rng(3).choice([0.1, 0.2, 0.3, np.nan], (4, 3, 2, 9))
    found = rank_values(values, higher_is_better=True, ties=ties, missing="worst", tolerance=SCORE_ROUNDING)
    for place in np.ndindex(4, 3, 2):
        np.testing.assert_array_equal(found[place], literal_ranks((-values[place]).tolist(), ties, "worst"))


def test_the_tolerance_makes_equal_what_differs_by_rounding_and_nothing_else():
    """It grows with values above one, cuts nothing off at a decimal, and parts infinities from numbers."""
    below = 1 / 1024  # has ten decimals and ends with 5: to round to nine of them would part what differs by rounding
    for values, expected in (
        ([0.1 + 0.2, 0.3], [1, 1]),
        ([1e6 + 5e-4, 1e6, 0.0, 2e-9], [3, 3, 1, 2]),
        ([below - 1e-13, below + 1e-13, 2 * below], [1, 1, 3]),
        ([-np.inf, 0.0, np.inf, np.inf, -np.inf], [1, 3, 4, 4, 1]),
        ([-np.inf, np.inf], [1, 2]),
        ([np.inf, NAN, 3.0], [2, 3, 1]),  # a missing value is worse than an infinite one
    ):
        rules = {"higher_is_better": False, "ties": "min", "missing": "worst"}
        assert rank_values(np.array(values), tolerance=SCORE_ROUNDING, **rules).tolist() == expected
    assert rank_values(np.array([0.1 + 0.2, 0.3]), **rules).tolist() == [2, 1]


def test_no_teams_and_no_samples_have_no_ranks():
    for ties, shape in product(TIES, [(0,), (3, 0), (0, 3)]):
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


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.3], [0.1, 0.7, 0.8]])
def test_exactly_half_is_found_although_tenths_do_not_add_up(weights):
    # 0.1 + 0.2 is above 0.6 / 2 in floating point, and 0.1 + 0.7 below 1.6 / 2
    assert weighted_median(np.array([1.0, 2.0, 5.0]), np.array(weights)).item() == 3.5


def test_missing_values_have_no_weight():
    values = np.array([[np.nan, 1.0, 4.0], [np.nan] * 3])
    np.testing.assert_array_equal(weighted_median(values, np.array([5.0, 1.0, 1.0])), [2.5, np.nan])
    np.testing.assert_array_equal(weighted_median(np.empty((2, 0)), np.empty(0)), [np.nan, np.nan])


# --- medians and areas under ROC curves of weighted unions of cases, against the unions written out -------------------


KINDS = ("cases", "groups", "pooled", "bootstrap", "leave one out")


def weights_of(kind: str, cases: int, random: np.random.Generator) -> np.ndarray:
    """A row a unit: how often each case is in it."""
    if kind == "cases":
        return np.eye(cases, dtype=np.int64)
    if kind == "groups":
        return (np.arange(cases) % max(1, cases // 2) == np.arange(max(1, cases // 2))[:, None]).astype(np.int64)
    if kind == "pooled":
        return np.ones((1, cases), np.int64)
    if kind == "leave one out":
        return 1 - np.eye(cases, dtype=np.int64)
    return random.multinomial(cases, np.full(cases, 1 / cases), size=12)


def units_of(weights: np.ndarray) -> Units:
    """Only the weights of their cases are asked for, no table."""
    return Units(None, csr_array(weights))


def entries(seed: int, cases: int, number: int, levels: int):
    """Values with many ties, sides and cases."""
    random = np.random.default_rng(seed)
    return (
        random.integers(0, levels, number) / levels,
        random.random(number) < 0.5,
        random.integers(0, cases, number),
        random,
    )


@pytest.fixture(params=["as it is", "in small pieces"])
def pieces(request, monkeypatch):
    """What is done at once must not matter."""
    if request.param == "in small pieces":
        monkeypatch.setattr(order_statistics, "CHUNK", 64)
        monkeypatch.setattr(order_statistics, "LARGEST_TABLE", 24)


any_entries = {
    "seed": st.integers(0, 2**32 - 1),
    "cases": st.integers(1, 9),
    "number": st.integers(0, 60),
    "levels": st.sampled_from([1, 3, 1000]),
    "kind": st.sampled_from(KINDS),
}


@given(**any_entries)
def test_a_median_is_numpy_s_of_the_union_written_out(seed, cases, number, levels, kind):
    values, _, case, random = entries(seed, cases, number, levels)
    weights = weights_of(kind, cases, random)
    found = median_of_units(values, case, units_of(weights))
    for row, value in zip(weights, found, strict=True):
        union = np.repeat(values, row[case])
        np.testing.assert_array_equal(value, np.median(union) if len(union) else np.nan)


@given(**any_entries)
def test_an_area_under_the_roc_curve_is_scikit_learn_s_of_the_union_written_out(seed, cases, number, levels, kind):
    score, positive, case, random = entries(seed, cases, number, levels)
    weights = weights_of(kind, cases, random)
    found = weighted_auroc(score, positive, case, units_of(weights))
    for row, value in zip(weights, found, strict=True):
        sides, scores = np.repeat(positive, row[case]), np.repeat(score, row[case])
        if sides.any() and not sides.all():
            assert value == pytest.approx(roc_auc_score(sides, scores), abs=1e-13)
        else:
            assert np.isnan(value)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest_kernel", [0, 2**11])
def test_every_way_to_count_wins_gives_the_same_fraction(kind, largest_kernel, monkeypatch):
    monkeypatch.setattr(order_statistics, "LARGEST_KERNEL", largest_kernel)
    score, positive, case, random = entries(6, 7, 300, 40)
    weights = weights_of(kind, 7, random)
    found = weighted_auroc(score.astype(np.float64), positive, case, units_of(weights))
    for row, value in zip(weights, found, strict=True):
        n = row[case]
        high, low = score[positive], score[~positive]
        wins = 2 * (high[:, None] > low) + (high[:, None] == low).astype(int)
        total = int((n[positive][:, None] * n[~positive] * wins).sum())
        assert value == float(Fraction(total, int(2 * n[positive].sum() * n[~positive].sum())))


def test_the_kernel_is_chosen_for_a_bootstrap_of_few_cases(monkeypatch):
    score, positive, case, random = entries(7, 7, 300, 40)
    units = units_of(weights_of("bootstrap", 7, random))
    expected = weighted_auroc(score, positive, case, units)
    monkeypatch.setattr(order_statistics, "wins_by_steps", None)
    np.testing.assert_array_equal(weighted_auroc(score, positive, case, units), expected)


@pytest.mark.parametrize("kind", ["cases", "bootstrap"])
def test_the_order_of_the_entries_does_not_change_a_digit(kind):
    values, positive, case, random = entries(9, 6, 200, 30)
    units = units_of(weights_of(kind, 6, random))
    shuffled = random.permutation(200)
    again = values[shuffled], positive[shuffled], case[shuffled]
    np.testing.assert_array_equal(median_of_units(again[0], again[2], units), median_of_units(values, case, units))
    np.testing.assert_array_equal(weighted_auroc(*again, units), weighted_auroc(values, positive, case, units))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("share", [0, 10**6], ids=["running sums", "products"])
@pytest.mark.parametrize("kind", KINDS)
def test_places_and_steps_are_those_of_a_loop_over_the_entries(kind, share, monkeypatch):
    monkeypatch.setattr(order_statistics, "LARGEST_SHARE", share)
    if share:
        monkeypatch.setattr(order_statistics, "LARGEST_TABLE", 10**6)
    _, right, case, random = entries(10, 6, 90, 2)
    tie = tie_numbers(np.sort(random.integers(0, 30, 90) / 30))
    weights = weights_of(kind, 6, random)
    for ranking in (write_out(case, csr_array(weights)), Blocks(case, csr_array(weights))):
        np.testing.assert_array_equal(ranking.number, weights[:, case].sum(axis=1))
        for place in (0, 1, 44, 89, 90):
            before = ranking.before(np.full(len(weights), place))
            np.testing.assert_array_equal(before, weights[:, case[:place]].sum(axis=1))
        for wanted in (0, 7):
            unions = [np.repeat(np.arange(90), row[case]) for row in weights]
            found = ranking.find(np.full(len(weights), wanted))
            for union, place in zip(unions, found, strict=True):
                assert len(union) <= wanted or place == union[wanted]
        units = 0
        for steps in ranking.steps(right, tie, every=True):
            for unit in range(steps.first, steps.stop):
                begin, stop = steps.start[unit - steps.first], steps.start[unit - steps.first + 1]
                n = weights[unit][case]
                points = {(int(n[tie <= t].sum()), int(n[(tie <= t) & right].sum())) for t in tie}
                read = set(zip(steps.all[begin:stop].tolist(), steps.right[begin:stop].tolist(), strict=True))
                assert read | {(0, 0)} == points | {(0, 0)}
                units += 1
        assert units == len(weights)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("levels", [30, 1000])
def test_steps_that_are_left_out_change_no_precision_at_any_recall(levels, written):
    """The best precision at so many right entries or more, with every step and without those that are left out."""
    _, right, case, random = entries(12, 6, 90, 2)
    tie = tie_numbers(np.sort(random.integers(0, levels, 90) / levels))
    weights = csr_array(weights_of("bootstrap", 6, random))
    ranking = write_out(case, weights) if written else Blocks(case, weights)
    found, number = [], []
    for every in (True, False):
        best = {}
        for steps in ranking.steps(right, tie, every=every):
            for unit in range(steps.first, steps.stop):
                of = slice(*steps.start[unit - steps.first : unit - steps.first + 2])
                hit, precision = steps.right[of], steps.right[of] / np.maximum(steps.all[of], 1)
                for needed in range(1, 1 + weights.toarray()[unit][case[right]].sum()):
                    best[unit, needed] = precision[hit >= needed].max()
        found.append(best)
        number.append(sum(len(steps.right) for steps in ranking.steps(right, tie, every=every)))
    assert found[0] == found[1]
    assert number[1] < number[0]


def test_a_bootstrap_is_not_written_out():
    case = np.repeat(np.arange(20), 10)
    many = units_of(np.random.default_rng(11).multinomial(20, np.full(20, 1 / 20), size=50))
    assert isinstance(rank(case, many), Blocks)
    assert not isinstance(rank(case, units_of(np.eye(20, dtype=np.int64))), Blocks)


def test_without_entries_nothing_is_defined():
    none, units = np.empty(0), units_of(np.eye(3, dtype=np.int64))
    assert np.isnan(median_of_units(none, none.astype(np.int64), units)).all()
    assert np.isnan(weighted_auroc(none, none.astype(bool), none.astype(np.int64), units)).all()


@given(columns=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=9))
def test_kinds_are_the_distinct_columns(columns):
    weights, kind = units_of(np.array(columns).T).kinds
    assert weights.toarray().T[kind].tolist() == columns
    assert len({tuple(column) for column in columns}) == weights.shape[1]
