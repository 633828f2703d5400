"""Kendall's tau against scipy, the bootstrap of rankings against one in plain Python, and odd tables."""

from __future__ import annotations

import csv
import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evaluation.aggregation.intervals import resample
from evaluation.ranking import stability
from evaluation.ranking.methods import positions_of
from evaluation.ranking.stability import (
    SMALL,
    bootstrap_ranks,
    count_pairs,
    draw_units,
    kendall_tau,
    rank_by_values,
    rank_intervals,
    sample_means,
    sample_medians,
)

NAN = float("nan")
POSITIONS = st.sampled_from([1.0, 1.5, 2.0, 3.0, 4.0, 7.0, NAN])


def best_first(values, ties="min"):
    """Positions (S, T) by the first column of values (S, T, K), the highest first; NaN are unranked."""
    return scipy.stats.rankdata(-values[:, :, 0], method=ties, axis=1, nan_policy="omit")


def found_of(by_unit, *, samples=200, seed=1, aggregate="mean", rank=best_first):
    by_unit = np.asarray(by_unit, float)[:, None, :]
    ranker = rank_by_values(by_unit, rank, aggregate=aggregate)
    position = ranker(np.ones((1, by_unit.shape[2]), np.int64))[0]
    return bootstrap_ranks(ranker, position, units=by_unit.shape[2], samples=samples, seed=seed)


def scores(teams, units, *, seed=0, spread=0.2):
    """Coarse scores, so that means tie now and then, of teams that differ by 1/32 from one to the next."""
    random = np.random.default_rng(seed)
    return np.round((random.random((teams, units)) * spread - np.arange(teams)[:, None] / 32) * 16) / 16


# --- Kendall's tau ----------------------------------------------------------------------------------------------------


def literal_tau(first, second):
    kept = [(a, b) for a, b in zip(first, second, strict=True) if a == a and b == b]
    if len(kept) < 2 or len({a for a, _ in kept}) == 1 or len({b for _, b in kept}) == 1:
        return NAN
    return scipy.stats.kendalltau(*zip(*kept, strict=True), variant="b").statistic


@given(st.lists(st.tuples(POSITIONS, POSITIONS), max_size=3 * SMALL))
def test_tau_is_that_of_scipy_for_ties_and_unranked_teams(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    assert kendall_tau(first, second) == pytest.approx(literal_tau(first, second), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("teams", [2, SMALL - 1, SMALL, 2 * SMALL - 1, 2 * SMALL, 2 * SMALL + 1, 100, 2263])
def test_tau_is_that_of_scipy_for_any_number_of_teams(teams):
    random = np.random.default_rng(teams)
    first, second = random.integers(0, 2 * teams, (2, 3, teams)).astype(float)
    expected = [scipy.stats.kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(kendall_tau(first, second), expected, rtol=0, atol=1e-12)


def test_tau_of_values_that_are_infinite_ranks_them_as_values():
    assert kendall_tau([1.0, 2.0, np.inf, np.inf], [1.0, 2.0, 3.0, 3.0]) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [([], []), ([1], [1]), ([1, 1, 1], [1, 2, 3]), ([1, 2, NAN], [NAN, 1, 2]), ([NAN, NAN], [NAN, NAN])],
)
def test_tau_is_undefined_without_two_teams_that_differ(first, second):
    assert np.isnan(kendall_tau(first, second))


def test_tau_of_all_pairs_of_rankings_is_that_of_each_pair():
    random = np.random.default_rng(7)
    rankings = random.integers(1, 8, (6, 9)).astype(float)
    rankings[2, 3] = rankings[4, :8] = NAN
    found = np.stack([kendall_tau(row, rankings) for row in rankings])
    for a, b in itertools.product(range(6), repeat=2):
        assert found[a, b] == pytest.approx(literal_tau(rankings[a], rankings[b]), abs=1e-12, nan_ok=True)


@given(arrays(np.float64, (2, 7), elements=st.sampled_from([1.0, 2.0, 3.0, 4.0])))
def test_changed_pairs_are_those_whose_order_is_another_one(rankings):
    first, second = rankings
    changed = sum(
        np.sign(first[i] - first[j]) != np.sign(second[i] - second[j]) for i, j in itertools.combinations(range(7), 2)
    )
    assert count_pairs(first, second).changed() == changed


# --- the bootstrap ----------------------------------------------------------------------------------------------------


def literal_ranks(values):
    """Competition ranks of numbers, the highest first; None stays None."""
    return [None if v is None else 1 + sum(w is not None and w > v for w in values) for v in values]


def literal_mean(values):
    known = [Fraction(float(v)) for v in values if v == v]
    return sum(known) / len(known) if known else None


def literal_bootstrap(by_unit, samples, seed):
    """Rankings in all samples: means in fractions, one sample after the other, with the draws of the intervals."""
    units = len(by_unit[0])
    drawn = np.concatenate(
        [part.cases().toarray() for part in resample(np.arange(units), samples=samples, seed=seed, stages="groups")]
    )
    return [
        literal_ranks([literal_mean([v for v, n in zip(row, times, strict=True) for _ in range(n)]) for row in by_unit])
        for times in drawn.tolist()
    ]


def test_the_bootstrap_is_that_in_plain_python_with_the_same_draws():
    by_unit = scores(6, 7)
    by_unit[2, 3:] = by_unit[5, 1:] = by_unit[0, 0] = NAN
    samples = 300
    rankings = literal_bootstrap(by_unit, samples, seed=5)
    full = literal_ranks([literal_mean(row) for row in by_unit])
    found = found_of(by_unit, samples=samples, seed=5)
    assert found.samples == samples
    assert found.reason is None
    assert found.of_units.tolist() == full
    assert any(len(set(ranking)) < 6 for ranking in rankings)  # teams tie
    assert any(None in ranking for ranking in rankings)  # and are not ranked, in some samples
    for team in range(6):
        had = sorted(ranking[team] for ranking in rankings if ranking[team] is not None)
        tail = len(had) * 25 // 1000
        assert (found.low[team], found.high[team]) == (had[tail], had[-1 - tail])
        assert found.unranked[team] == pytest.approx(1 - len(had) / samples)
        for rank, share in zip(found.ranks, found.frequency[team], strict=True):
            assert share == had.count(rank) / samples
        first = sum(Fraction(ranking[team] == 1, ranking.count(1)) for ranking in rankings) / samples
        assert found.first[team] == pytest.approx(float(first), abs=1e-12)
    taus = [literal_tau(full, [NAN if rank is None else rank for rank in ranking]) for ranking in rankings]
    defined = sorted(tau for tau in taus if tau == tau)
    assert found.tau.mean == pytest.approx(np.mean(defined))
    assert found.tau.median == pytest.approx(np.median(defined))
    assert found.tau.low == pytest.approx(defined[len(defined) * 25 // 1000])
    assert found.tau.defined == len(defined) / samples
    assert found.tau.same_order == sum(ranking == full for ranking in rankings) / samples


def test_leaving_out_each_unit_is_ranking_the_others():
    by_unit = scores(6, 7)
    by_unit[2, 3:] = by_unit[5, 1:] = NAN
    by_unit[5, 0] = 0.9  # first, and without the first unit not ranked
    full = literal_ranks([literal_mean(row) for row in by_unit])
    found = found_of(by_unit).left_out
    for unit in range(7):
        ranking = literal_ranks([literal_mean(np.delete(row, unit)) for row in by_unit])
        positions = [NAN if rank is None else rank for rank in ranking]
        np.testing.assert_array_equal(found.positions[unit], positions)
        last = [99 if rank is None else rank for rank in ranking]
        assert found.changed_pairs[unit] == sum(
            np.sign(full[i] - full[j]) != np.sign(last[i] - last[j]) for i, j in itertools.combinations(range(6), 2)
        )
        assert found.changes_first[unit] == ([r == 1 for r in ranking] != [r == 1 for r in full])
    assert found.most == int(np.argmax(found.changed_pairs))


@pytest.mark.parametrize("aggregate", ["mean", "median"])
@pytest.mark.parametrize("entries", [1, 50])
def test_how_much_is_held_at_once_changes_nothing(monkeypatch, aggregate, entries):
    by_unit = scores(5, 8)
    by_unit[1, 2:] = NAN
    expected = found_of(by_unit, aggregate=aggregate)
    monkeypatch.setattr(stability, "ENTRIES_AT_ONCE", entries)
    found = found_of(by_unit, aggregate=aggregate)
    for name in ("low", "high", "ranks", "frequency", "unranked"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.first, expected.first, rtol=0, atol=1e-12)
    assert found.tau == expected.tau
    np.testing.assert_array_equal(found.left_out.positions, expected.left_out.positions)


def test_intervals_are_mirrored_when_the_worst_is_first():
    by_unit = np.random.default_rng(2).random((7, 9))
    found = found_of(by_unit)
    turned = found_of(-by_unit)
    np.testing.assert_array_equal(turned.low, 8 - found.high)
    np.testing.assert_array_equal(turned.high, 8 - found.low)


@given(st.lists(st.sampled_from([1.0, 1.5, 2.0, 3.0, 6.0]), min_size=1, max_size=130))
def test_an_interval_leaves_out_at_most_a_fortieth_at_each_end_and_no_end_could_be_nearer(had):
    ranks = np.array([1.0, 1.5, 2.0, 3.0, 6.0])
    (low,), (high,) = rank_intervals(ranks, np.array([[had.count(rank) for rank in ranks]]))
    tail = Fraction(len(had), 40)
    assert sum(rank < low for rank in had) <= tail < sum(rank <= low for rank in had)
    assert sum(rank > high for rank in had) <= tail < sum(rank >= high for rank in had)


def test_teams_with_the_same_scores_tie_in_every_sample_and_share_the_first_place():
    row = np.random.default_rng(0).random(300)  # of which a BLAS product gives equal teams different means
    found = found_of([row] * 7, samples=50)
    assert found.first.tolist() == pytest.approx([1 / 7] * 7)
    assert found.ranks.tolist() == [1]
    assert found.tau.same_order == 1
    assert not found.left_out.changed_pairs.any()


# --- odd tables -------------------------------------------------------------------------------------------------------


def test_nothing_is_drawn_from_one_unit_or_none():
    def never(weights):
        raise AssertionError

    for units, reason in ((0, "no-units"), (1, "one-unit")):
        found = bootstrap_ranks(never, np.array([1.0, 2.0]), units=units, samples=100, seed=1)
        assert (found.samples, found.reason) == (0, reason)
        assert np.isnan([found.low, found.high, found.first, found.unranked]).all()
        assert found.frequency.shape == (2, 0)
        assert np.isnan(found.tau.mean)
        assert found.left_out.positions.shape == (0, 2)
        assert found.left_out.most is None


def test_one_team_is_first_and_has_no_tau():
    found = found_of([[0.5, 0.6, 0.1]])
    assert (found.low.tolist(), found.high.tolist(), found.first.tolist()) == ([1], [1], [1])
    assert np.isnan(found.tau.mean)
    assert (found.tau.defined, found.tau.same_order) == (0, 1)
    assert found.left_out.most is None


def test_a_team_that_is_not_ranked_in_some_samples_is_not_the_same_ranking():
    found = found_of([[0.5, 0.6], [0.1, NAN]], samples=1000)
    missed = found.unranked[1]
    assert 0.2 < missed < 0.3  # in a quarter of the samples the second unit is drawn twice
    assert found.tau.same_order == 1 - missed
    assert found.tau.defined == 1 - missed
    assert (found.low[1], found.high[1]) == (2, 2)
    np.testing.assert_allclose(found.frequency.sum(axis=1) + found.unranked, 1, rtol=0, atol=1e-12)


def test_a_table_without_any_value_ranks_nobody():
    found = found_of(np.full((3, 4), NAN))
    assert found.unranked.tolist() == [1, 1, 1]
    assert found.first.tolist() == [0, 0, 0]
    assert np.isnan([found.low, found.high]).all()
    assert found.tau.same_order == 1
    assert not found.left_out.changes_first.any()


def test_a_table_without_teams_has_no_rows():
    found = found_of(np.empty((0, 4)))
    assert found.low.shape == found.first.shape == (0,)
    assert found.left_out.positions.shape == (4, 0)


# --- values of samples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("average", "literal"), [(sample_means, np.mean), (sample_medians, np.median)])
def test_a_sample_is_its_units_written_out(average, literal):
    random = np.random.default_rng(1)
    by_unit = random.random((4, 3, 6))
    by_unit[0, 0] = by_unit[1, :, 2:5] = by_unit[2, 1, 0] = NAN
    weights = next(draw_units(6, samples=40, seed=1, at_once=40))
    found = average(by_unit, weights)
    for sample, team, column in np.ndindex(found.shape):
        values = np.repeat(by_unit[team, column], weights[sample])
        known = values[~np.isnan(values)]
        expected = literal(known) if len(known) else NAN
        assert found[sample, team, column] == pytest.approx(expected, rel=1e-14, nan_ok=True)


def test_several_columns_are_ranked_by_the_method_of_the_challenge():
    by_unit = np.random.default_rng(3).random((5, 2, 12))

    def rank(values):
        return positions_of(
            values,
            higher_is_better=np.array([True, False]),
            weights=np.array([2.0, 1.0]),
            method="sum_of_ranks",
            ties="min",
            missing="worst",
        )

    weights = next(draw_units(12, samples=30, seed=1, at_once=30))
    found = rank_by_values(by_unit, rank)(weights)
    for sample, times in enumerate(weights):
        means = np.repeat(by_unit, times, axis=2).mean(axis=2)
        ranks = 2 * scipy.stats.rankdata(-means[:, 0]) + scipy.stats.rankdata(means[:, 1])
        assert found[sample].tolist() == scipy.stats.rankdata(ranks, method="min").tolist()


# --- real scores ------------------------------------------------------------------------------------------------------


def patient_means(path):
    """PQ of each team and patient: the mean over the classes of an image, then over the images of the patient."""
    images = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            images.setdefault((row["team"], row["patient"], row["image"]), []).append(float(row["pq"]))
    patients = {}
    for (team, patient, _), values in sorted(images.items()):
        patients.setdefault(team, {}).setdefault(patient, []).append(np.mean(values))
    return list(patients), np.array([[np.mean(of[name]) for name in sorted(of)] for of in patients.values()])


def test_of_monusac_2020_the_ends_hold_and_the_middle_swaps_in_every_fifth_sample(shared_data):
    teams, by_unit = patient_means(shared_data / "monusac2020_published_pq.csv")
    assert teams == ["Amirreza Mahbod", "Dark Brotherhood", "IVG", "SJTU_426"]
    assert by_unit.shape == (4, 25)
    found = found_of(by_unit, samples=10_000)
    assert found.of_units.tolist() == [4, 3, 2, 1]
    assert (found.low.tolist(), found.high.tolist()) == ([4, 2, 2, 1], [4, 3, 3, 1])
    ahead = by_unit[2] - by_unit[1]
    in_theory = scipy.stats.norm.cdf(ahead.mean() / ahead.std() * 5)  # means of 25 patients are about normal
    assert found.tau.same_order == pytest.approx(in_theory, abs=0.02)
    assert found.left_out.most is None
