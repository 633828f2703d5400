"""Tests between teams by permutation, and in samples of the units."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare, permutation_test, rankdata
from test_significance import compare

from benchmarks.claims import any_difference
from evaluation.ranking.differences import behind, wins_in_samples
from evaluation.ranking.significance import compare_teams, rank_sums
from evaluation.ranking.stability import draw_units

# --- by permutation ---------------------------------------------------------------------------------------------------


# 12 units of 5 teams, 6 units of 3 teams; p of friedman_test(…, distribution = approximate(nresample = 2000000)) of the
# R package coin 1.4-2: its Monte-Carlo error is below 0.0005
FIVE = "31220 41231 30122 22140 43211 31023 20241 42130 12321 31202 41123 32011"
THREE = "953 862 781 944 653 562"
COIN = {FIVE: 0.001873, THREE: 0.008306}


def doubled_ranks(values) -> np.ndarray:
    return (2 * rankdata(values, axis=1)).astype(np.int64)


@pytest.mark.parametrize("data", COIN)
def test_friedman_is_that_of_coin(data):
    found = compare(np.array([[int(value) for value in unit] for unit in data.split()]).T)
    assert found.p_value == pytest.approx(COIN[data], abs=0.002 if found.distribution == "monte_carlo" else 0.0005)


@settings(max_examples=25, deadline=None)
@given(arrays(np.int64, st.tuples(st.just(3), st.integers(2, 4)), elements=st.integers(0, 3)))
def test_friedman_is_the_exact_permutation_test_of_scipy(values):
    if any(len(set(unit)) > 1 for unit in values.T.tolist()):
        expected = permutation_test(
            values.astype(float),
            lambda *teams, axis: friedman_literally(np.stack(np.broadcast_arrays(*teams)), axis),
            permutation_type="samples",
            n_resamples=np.inf,
            alternative="greater",
            vectorized=True,
        )
        found = compare(values)
        assert found.distribution == "exact"
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)


def friedman_literally(values: np.ndarray, axis: int) -> np.ndarray:
    """Sum of the squared sums of ranks, which grows with Friedman's statistic, rounded."""
    assert axis == -1
    return np.round((rankdata(values, axis=0).sum(axis=-1) ** 2).sum(axis=0), 6)


@pytest.mark.parametrize("values", [[[1, 2, 3], [4, 4, 1]], [[1, 2, 2, 5], [0, 3, 1, 1]], [[1, 2, 3, 4]] * 3])
def test_pairs_are_compared_with_the_widest_range_in_all_orders(values):
    doubled = doubled_ranks(np.array(values))
    orders = product(*[list(permutations(unit)) for unit in doubled.tolist()])
    widths = np.array([np.ptp(np.sum(order, axis=0)) for order in orders])
    found = rank_sums(doubled)
    possible = np.unique(widths)
    assert found.width_tail(possible) == pytest.approx([(widths >= width).mean() for width in possible])


def test_draws_agree_with_the_exact_distribution(monkeypatch):
    doubled = doubled_ranks(np.random.default_rng(4).integers(0, 6, (12, 4)))
    exact = rank_sums(doubled)
    monkeypatch.setattr("evaluation.ranking.significance.SUMS", 0)
    drawn = rank_sums(doubled, draws=40_000)
    assert (exact.how, drawn.how) == ("exact", "monte_carlo")
    widths = np.unique(exact.width)
    assert np.abs(exact.width_tail(widths) - drawn.width_tail(widths)).max() < 0.01
    spreads = np.unique(exact.spread)[::20].tolist()
    assert max(abs(exact.spread_tail(one) - drawn.spread_tail(one)) for one in spreads) < 0.01


def test_a_drawn_p_value_is_never_0():
    found = compare(np.arange(6)[:, None] + np.zeros(20))
    assert (found.distribution, found.p_value) == ("monte_carlo", 1 / 10_000)


def test_many_units_have_the_approximation():
    values = np.random.default_rng(2).normal(size=(5, 51))
    found = compare(values)
    assert found.distribution == found.pair_distribution == "approximation"
    assert found.p_value == pytest.approx(friedmanchisquare(*values).pvalue)


def test_wilcoxon_is_exact_where_two_teams_differ_in_few_of_many_units():
    first = np.zeros(80)
    first[:5] = [0.1, 0.2, 0.3, 0.3, 0.5]  # 5 : 0, so 2 / 2^5; the normal distribution says 0.042
    found = compare([first, np.zeros(80)], "wilcoxon_holm")
    assert found.p_values[0, 1] == 0.0625
    assert (found.pair_distribution, found.better[0, 1]) == ("exact", 0)


@pytest.mark.parametrize("test", ["friedman_nemenyi", "wilcoxon_holm"])
@pytest.mark.parametrize(("teams", "units", "levels"), [(2, 4, None), (2, 8, None), (3, 6, 2), (5, 8, None)])
def test_equal_teams_differ_in_at_most_a_share_of_the_boards_that_is_the_level(test, teams, units, levels):
    """800 boards: a true rate of 5 % gives more than 7 % of them in one of 200 runs."""
    assert any_difference(test, teams=teams, units=units, levels=levels, boards=800, seed=5) <= 0.07


def test_signed_ranks_with_ties_are_those_of_coin():
    first = [1.1, 0.4, 0.9, 1.5, 0.3, 0.8, -0.2, 0.3, 0.3]  # coin: wilcoxsign_test(…, distribution = "exact")
    assert compare([first, [0.0] * 9], "wilcoxon_holm").p_values[0, 1] == 0.0078125


# --- in samples of the units ------------------------------------------------------------------------------------------


def made(teams, units, seed=1, levels=None):
    random = np.random.default_rng(seed)
    values = random.normal(size=(teams, units)) + random.normal(size=units) + np.linspace(0, 1, teams)[:, None]
    return values if levels is None else np.round(values * levels)


def literal(values, weights, test, higher):
    units = np.arange(values.shape[1])
    compare = [
        compare_teams(values[:, np.repeat(units, times)], higher_is_better=higher, test=test, level=0.05)
        for times in weights
    ]
    return np.array([(one.better == 1).sum(axis=1) for one in compare])


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(("teams", "units", "levels"), [(2, 9, None), (3, 12, 2), (4, 70, None), (25, 30, None)])
def test_friedman_and_nemenyi_in_samples_are_those_of_the_samples(teams, units, levels, higher):
    values = made(teams, units, levels=levels)
    values[1, 3] = np.nan
    weights = next(draw_units(units, samples=60, seed=4, at_once=60))
    found = wins_in_samples(values, higher_is_better=higher, test="friedman_nemenyi", level=0.05)(weights)
    assert (found == literal(values, weights, "friedman_nemenyi", higher)).all()
    assert found.any()


@pytest.mark.parametrize(
    "teams, units, levels", [(3, 20, None), (5, 40, None), (4, 40, 2), (6, 300, None), (6, 300, 2)]
)
def test_wilcoxon_in_samples_is_nearly_that_of_the_samples(teams, units, levels):
    values = made(teams, units, levels=levels)
    weights = next(draw_units(units, samples=100, seed=4, at_once=100))
    found = wins_in_samples(values, higher_is_better=True, test="wilcoxon_holm", level=0.05)(weights)
    expected = literal(values, weights, "wilcoxon_holm", True)
    assert (found == expected).mean() > 0.93
    assert abs((found - expected).mean()) < 0.05
    assert expected.any()


def test_wilcoxon_without_single_units_is_that_of_the_others():
    values, weights = made(5, 120), 1 - np.eye(120, dtype=np.int64)
    found = wins_in_samples(values, higher_is_better=True, test="wilcoxon_holm", level=0.05)(weights)
    assert (found == literal(values, weights, "wilcoxon_holm", True)).mean() > 0.99


def test_what_is_not_kept_is_worked_out_again(monkeypatch):
    values, weights = made(5, 80), next(draw_units(80, samples=20, seed=4, at_once=20))
    kept = wins_in_samples(values, higher_is_better=True, test="wilcoxon_holm", level=0.05)(weights)
    monkeypatch.setattr("evaluation.ranking.differences.BYTES_KEPT", 0)
    again = wins_in_samples(values, higher_is_better=True, test="wilcoxon_holm", level=0.05)(weights)
    assert (kept == again).all()


@pytest.mark.parametrize("test", ["friedman_nemenyi", "wilcoxon_holm"])
def test_samples_without_two_common_units_and_single_teams_win_nothing(test):
    values = np.array([[0.5, np.nan, 0.7], [0.1, 0.2, np.nan], [np.nan] * 3])
    weights = np.array([[3, 0, 0], [1, 1, 1], [0, 3, 0]])
    assert not wins_in_samples(values, higher_is_better=True, test=test, level=0.05)(weights).any()
    assert not wins_in_samples(values[:1], higher_is_better=True, test=test, level=0.05)(weights).any()


def test_how_many_are_behind_is_counted_pair_by_pair():
    random = np.random.default_rng(4)
    sums, width = random.integers(0, 60, (30, 17)), random.choice([0.5, 3.0, 7.2, 59.0, np.inf], 30)
    for row, of_row, at_least in zip(behind(sums, width), sums.tolist(), width.tolist(), strict=True):
        assert row.tolist() == [sum(other - mine >= at_least for other in of_row) for mine in of_row]
