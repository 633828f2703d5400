"""Wins in samples of units, against the tests themselves, sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.ranking.sampled_tests import behind, wins_in_samples
from evaluation.ranking.significance import compare_teams
from evaluation.ranking.stability import draw_units


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
    ("teams", "units", "levels"), [(3, 20, None), (5, 40, None), (4, 40, 2), (6, 300, None), (6, 300, 2)]
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
    monkeypatch.setattr("evaluation.ranking.sampled_tests.BYTES_KEPT", 0)
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
