"""Which teams can be told apart, against scipy, scikit-posthocs, the tables of Demsar and literal definitions."""

from __future__ import annotations

import json
import math
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pytest
import scikit_posthocs
from boards import published_pq_by_patient
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pandas import DataFrame
from scipy.stats import (
    binomtest,
    chi2,
    friedmanchisquare,
    norm,
    permutation_test,
    rankdata,
    studentized_range,
    wilcoxon,
)
from statsmodels.stats.multitest import multipletests

from benchmarks.claims import false_claims
from nuclei_metrics.ranking.significance import (
    PairwiseTest,
    compare_teams,
    critical_difference,
    ex_aequo_positions,
    exact_tail,
    friedman_test,
    range_tail,
    rank_differences,
    rank_sums,
)

TESTS = ("friedman_nemenyi", "wilcoxon_holm")
NAN = math.nan

# Demsar 2006, table 5 (a): q of the Nemenyi test for 2 to 10 classifiers
DEMSAR_Q = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}
# Demsar 2006, table 6: AUC of C4.5 and three variants (m, cf, m+cf) on 14 data sets. The last but one has .975 twice in
# print, but ranks 2 and 3: .9751 brings them out, as in the tests of scipy
DEMSAR_AUC = """
.763 .768 .771 .798  .599 .591 .590 .569  .954 .971 .968 .967  .628 .661 .654 .657  .882 .888 .886 .898
.936 .931 .916 .931  .661 .668 .609 .685  .583 .583 .563 .625  .775 .838 .866 .875  1 1 1 1
.940 .962 .965 .962  .619 .666 .614 .669  .972 .981 .9751 .975  .957 .978 .946 .970
"""


def compare(values, test="friedman_nemenyi", higher_is_better=True, level=0.05) -> PairwiseTest:
    return compare_teams(np.array(values, float), higher_is_better=higher_is_better, test=test, level=level)


def approximately(values, **settings) -> PairwiseTest:
    """As above, by chi-square and the range of normal values also where there are few units."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nuclei_metrics.ranking.significance.rank_sums", lambda doubled: None)
        return compare(values, **settings)


def random_values(seed: int, teams: int, units: int, levels: int | None = None) -> np.ndarray:
    """Teams of unequal strength; with ``levels`` values are whole and many are tied."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(teams, units)) + random.normal(size=units) + random.normal(size=(teams, 1)) / 2
    return values if levels is None else np.clip(np.round(values * levels / 3), -levels, levels)


def with_rank_sums(sums: tuple[int, ...], units: int) -> np.ndarray:
    """Values without ties whose ranks in units, 1 for the highest, have these sums.

    Two teams change places in some unit, again and again, unless that takes the sums further away.
    """
    random = np.random.default_rng(1)
    ranks = np.tile(np.arange(1, len(sums) + 1), (units, 1))
    off = np.array(sums) - ranks.sum(axis=0)
    assert off.sum() == 0
    while off.any():
        unit, i, j = random.integers([units, len(sums), len(sums)])
        step = ranks[unit, j] - ranks[unit, i]
        if abs(off[i] - step) + abs(off[j] + step) <= abs(off[i]) + abs(off[j]):
            ranks[unit, [i, j]] = ranks[unit, [j, i]]
            off[i], off[j] = off[i] - step, off[j] + step
    assert ranks.sum(axis=0).tolist() == list(sums)
    return -ranks.T.astype(float)


def pair_places(comparison: PairwiseTest) -> set[tuple[int, int]]:
    """(better, worse)."""
    return {(int(i), int(j)) for i, j in np.argwhere(comparison.better > 0)}


# --- Friedman ---------------------------------------------------------------------------------------------------------


@given(arrays(np.int64, st.tuples(st.integers(3, 6), st.integers(2, 8)), elements=st.integers(0, 3)))
def test_friedman_is_that_of_scipy_with_any_ties(values):
    found = approximately(values)
    if (values == values[0]).all():
        assert (found.statistic, found.p_value) == (0, 1)
    else:
        expected = friedmanchisquare(*values.astype(float))
        assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)


@pytest.mark.parametrize(
    "wins, losses, equal", [(5, 0, 0), (7, 2, 4), (3, 3, 1), (0, 0, 6), (40, 20, 30), (600, 20, 0)]
)
def test_friedman_of_two_teams_is_the_sign_test(wins, losses, equal):
    first = [1.0] * wins + [0.0] * losses + [0.5] * equal
    second = [0.0] * wins + [1.0] * losses + [0.5] * equal
    found = compare([first, second])
    statistic = (wins - losses) ** 2 / (wins + losses) if wins + losses else 0
    assert found.statistic == pytest.approx(statistic, abs=1e-12)
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1
    assert (found.p_value, found.p_values[0, 1]) == pytest.approx((expected, expected), rel=1e-9)
    assert found.distribution == found.pair_distribution == "exact"
    assert bool(found.better[0, 1]) == (expected <= 0.05)
    assert approximately([first, second]).p_value == pytest.approx(2 * norm.sf(math.sqrt(statistic)), abs=1e-12)


def test_friedman_in_whole_numbers_does_not_overflow_for_a_large_board():
    found = friedman_test(np.tile(np.arange(1, 2264) * 2, (106, 1)))
    assert found.statistic == 106 * 2262  # all units agree: N (k - 1)


# --- Nemenyi ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [None, 1, 3])
@pytest.mark.parametrize(("teams", "units"), [(2, 9), (3, 2), (4, 25), (12, 40), (30, 7)])
def test_nemenyi_is_that_of_scikit_posthocs(teams, units, levels):
    values = random_values(7 * teams + units, teams, units, levels)
    expected = scikit_posthocs.posthoc_nemenyi_friedman(values.T).to_numpy()
    np.testing.assert_allclose(approximately(values).p_values, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("number", [2, 3, 10, 100, 2263, 10_000])
def test_the_tail_of_the_range_is_that_of_scipy(number):
    width = np.array([0.0, 0.3, 2.0, 4.0, 5.5, 6.5, 7.5, 9.0, 15.0])
    expected = studentized_range.sf(width, number, math.inf)
    np.testing.assert_allclose(range_tail(width, number), expected, rtol=0, atol=1e-9)


def test_a_critical_difference_is_found_for_any_level_and_number_of_teams():
    for teams in (2, 20, 20_000):
        found = [critical_difference(teams, 10, level) for level in (1e-300, 1e-6, 0.05, 0.5, 1 - 1e-6)]
        assert found == sorted(found, reverse=True)
        assert found[-1] > 0


@pytest.mark.parametrize("level", DEMSAR_Q)
def test_critical_values_are_those_of_demsar(level):
    for teams, expected in enumerate(DEMSAR_Q[level], 2):
        # his are those of a printed table of q, divided by sqrt(2): the last digit may be one off
        assert critical_difference(teams, 1, level) / math.sqrt(teams * (teams + 1) / 6) == pytest.approx(
            expected, abs=0.0011
        )


def test_the_example_of_demsar():
    auc = np.array(DEMSAR_AUC.split(), float).reshape(14, 4).T
    found = approximately(auc, level=0.10)
    assert found.mean_ranks.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    uncorrected = 12 * 14 / 20 * (sum(found.mean_ranks**2) - 25)
    assert uncorrected == pytest.approx(9.28, abs=0.01)  # his, without a correction for ties
    assert (found.statistic, found.p_value) == pytest.approx((10.2283464566929, 0.0167215803284414))  # matlab and R
    assert found.critical_difference == pytest.approx(1.12, abs=0.005)
    assert approximately(auc).critical_difference == pytest.approx(1.25, abs=0.005)
    # "the difference between C4.5 and C4.5+m+cf is significant at 0.10", and 3.143 - 2.000 is above 1.12 as well
    assert pair_places(found) == {(3, 0), (1, 0)}
    assert found.cliques == ((3, 1, 2), (2, 0))
    assert pair_places(compare(auc)) == set()


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3, 0.999])
def test_teams_differ_from_the_critical_difference_on(level):
    values = random_values(3, 12, 30)
    found = compare(values, level=level)
    apart = np.abs(found.mean_ranks - found.mean_ranks[:, None])
    assert found.p_value <= level
    assert ((apart >= found.critical_difference - 1e-9) == (found.better != 0))[apart > 0].all()
    assert ((found.p_values <= level) == (found.better != 0))[apart > 0].all()
    assert (found.better[apart > 0] * (found.mean_ranks[:, None] - found.mean_ranks)[apart > 0] <= 0).all()


def test_pairs_differ_only_if_friedman_finds_a_difference_at_all():
    # 25 patients, rank sums 50, 62, 63, 75: chi-square 12 / 500 * 313 = 7.512 of 3 degrees of freedom
    found = compare(with_rank_sums((50, 62, 63, 75), 25))
    assert found.statistic == pytest.approx(7.512)
    assert found.p_value > 0.05 > found.p_values[0, 3]
    assert pair_places(found) == set()
    assert found.cliques == ((0, 1, 2, 3),)
    assert pair_places(compare(with_rank_sums((50, 62, 63, 75), 25), level=0.06)) == {(0, 3)}


# --- the paper and its data -------------------------------------------------------------------------------------------


def rank_sums_of(p_value: float) -> list[tuple[int, ...]]:
    """Every set of rank sums of four teams in 25 units without ties whose Friedman test has this p-value."""
    spread = chi2.isf(p_value, 3) * 25 * 20 / 12
    triples = np.array(list(combinations_with_replacement(range(25, 101), 3)))
    sums = np.column_stack([triples, 250 - triples.sum(axis=1)])
    fits = (sums[:, 3] >= sums[:, 2]) & (abs(((sums - 62.5) ** 2).sum(axis=1) - spread) < 1e-6)
    return [tuple(one) for one in sums[fits].tolist()]


@pytest.mark.parametrize("table", ["pq_friedman_p", "table4_iou_friedman_p"])
def test_published_friedman_p_values_are_reached(shared_data, table):
    """The scores behind them are not published; but a p-value of 25 patients leaves few sums of ranks."""
    published = json.loads((shared_data / "lessons_from_monusac_tables.json").read_text())[table]
    for condition, p_value in published.items():
        possible = [with_rank_sums(sums, 25) for sums in rank_sums_of(p_value)]
        assert possible
        assert all(approximately(values).p_value == pytest.approx(p_value, abs=1e-12) for values in possible)
        if table == "pq_friedman_p":  # what the paper concludes; border-removed: nothing differs
            found = [pair_places(compare(values)) for values in possible]
            only_team_3 = {(0, 3), (1, 3), (2, 3)}
            assert found.count(only_team_3) == 1 if "dilated" in condition else not any(found), condition


def test_the_published_scores_of_monusac_by_patient(shared_data):
    """Mean over patients of PQ: mean over the images of the mean over the classes present."""
    _, values = published_pq_by_patient(shared_data)
    found, expected = approximately(values), friedmanchisquare(*values)
    assert (found.statistic, found.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    nemenyi = scikit_posthocs.posthoc_nemenyi_friedman(values.T).to_numpy()
    np.testing.assert_allclose(found.p_values, nemenyi, rtol=0, atol=1e-9)
    assert ex_aequo_positions(found).tolist() == ex_aequo_positions(compare(values)).tolist() == [4, 2, 2, 1]


# --- Wilcoxon ---------------------------------------------------------------------------------------------------------


@given(arrays(np.int64, st.tuples(st.just(2), st.integers(2, 13)), elements=st.integers(-4, 4)))
def test_wilcoxon_with_any_ties_is_exact(values):
    """Against all ways to give each rank to one of the two."""
    difference = (values[0] - values[1])[values[0] != values[1]]
    ranks = rankdata(np.abs(difference))
    won = ranks[difference > 0].sum()
    sums = (np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks)) & 1) @ ranks
    expected = min(1, 2 * min((sums <= won).mean(), (sums >= won).mean()))
    assert compare(values, "wilcoxon_holm").p_values[0, 1] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("units", "levels"), [(8, None), (40, None), (300, 2)])
def test_holm_is_that_of_scikit_posthocs(units, levels):
    values = random_values(units, 6, units, levels)
    long = DataFrame({"team": np.repeat(np.arange(6), units), "value": values.ravel()})
    expected = scikit_posthocs.posthoc_wilcoxon(long, val_col="value", group_col="team", p_adjust="holm").to_numpy()
    np.testing.assert_allclose(compare(values, "wilcoxon_holm").p_values, expected, rtol=0, atol=1e-9)


def test_wilcoxon_of_many_teams_is_that_of_scipy_for_each_pair():
    values = random_values(1, 150, 106, 30)  # more than one block of pairs for each team
    first, second = np.triu_indices(150, 1)
    of_pairs = wilcoxon(values[first], values[second], axis=1, method="asymptotic").pvalue
    expected = multipletests(of_pairs, method="holm")[1]
    np.testing.assert_allclose(compare(values, "wilcoxon_holm").p_values[first, second], expected, rtol=1e-9)


def test_the_exact_distribution_of_fifty_ranks_adds_up():
    tail = exact_tail((1 << 50) - 1, 50)
    assert len(tail) == 50 * 51 + 1
    assert (tail[0], tail[-1]) == (2.0**-50, 1.0)
    assert tail[50 * 51 // 2 - 1] + tail[50 * 51 // 2] == pytest.approx(1)


@pytest.mark.parametrize(("level", "significant"), [(1 / 16, True), (0.0624, False)])
def test_a_p_value_equal_to_the_level_is_significant(level, significant):
    # five wins of five: 2 / 2^5
    found = compare([[2, 3, 4, 5, 6], [1, 1, 1, 1, 1]], "wilcoxon_holm", level=level)
    assert found.p_values[0, 1] == 1 / 16
    assert pair_places(found) == ({(0, 1)} if significant else set())


def test_the_sign_of_wilcoxon_is_the_sum_of_ranks_not_the_number_of_wins():
    # the first is a little worse in 8 of 20 units, and much better in 12
    first = np.concatenate([np.full(12, 1.0), np.full(8, -0.01)]) + np.linspace(0, 1e-3, 20)
    found = compare([first, np.zeros(20)], "wilcoxon_holm")
    assert pair_places(found) == {(0, 1)}
    assert pair_places(compare([first, np.zeros(20)], "wilcoxon_holm", higher_is_better=False)) == {(1, 0)}


# --- cliques and places -----------------------------------------------------------------------------------------------


def literal_cliques(found: PairwiseTest) -> set[frozenset[int]]:
    """All maximal groups of two or more teams of which no two differ."""
    groups = [
        set(group)
        for size in range(2, len(found.better) + 1)
        for group in combinations(range(len(found.better)), size)
        if not found.better[np.ix_(group, group)].any()
    ]
    return {frozenset(group) for group in groups if not any(group < other for other in groups)}


@pytest.mark.parametrize("seed", range(4))
def test_nemenyi_cliques_are_all_maximal_groups_without_a_difference(seed):
    found = compare(random_values(seed, 7, 40, 2 if seed % 2 else None), level=0.2)
    assert {frozenset(clique) for clique in found.cliques} == literal_cliques(found)
    assert len(set(found.cliques)) == len(found.cliques)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("seed", range(4))
def test_cliques_are_maximal_stretches_of_the_order_of_mean_ranks(seed, test):
    found = compare(random_values(seed, 8, 30), test)
    order = np.argsort(found.mean_ranks, kind="stable").tolist()
    stretches = [
        order[first:stop]
        for first in range(8)
        for stop in range(first + 2, 9)
        if not found.better[np.ix_(order[first:stop], order[first:stop])].any()
    ]
    maximal = [one for one in stretches if not any(set(one) < set(other) for other in stretches)]
    assert [list(clique) for clique in found.cliques] == maximal


def test_places_are_competition_ranks_of_the_number_of_better_teams():
    # mean ranks 1, 2, 3.2, 3.8 in 10 units; the critical difference is 1.48
    values = -np.array([[1, 2, 3, 4]] * 8 + [[1, 2, 4, 3]] * 2, float).T
    found = approximately(values)
    assert found.critical_difference == pytest.approx(1.483, abs=0.001)
    assert pair_places(found) == {(0, 2), (0, 3), (1, 3)}
    assert ex_aequo_positions(found).tolist() == [1, 1, 3, 4]
    assert found.cliques == ((0, 1), (1, 2), (2, 3))


def test_places_count_the_teams_that_are_better_not_those_that_are_worse():
    alike = with_rank_sums((50, 50, 50), 25)
    assert ex_aequo_positions(compare(np.vstack([alike, np.full(25, 9.0)]))).tolist() == [2, 2, 2, 1]
    assert ex_aequo_positions(compare(np.vstack([alike, np.full(25, -9.0)]))).tolist() == [1, 1, 1, 4]


# --- nothing to compare -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values, reason, compared, units, left_out", [
    (np.zeros((0, 3)), "one-team", [], 0, 3),
    ([[0.5, 0.6, 0.7]], "one-team", [True], 3, 0),
    ([[0.5, 0.6, NAN], [NAN] * 3], "one-team", [True, False], 2, 1),
    (np.zeros((3, 0)), "one-team", [False] * 3, 0, 0),
    ([[0.5], [0.6], [0.7]], "one-unit", [True] * 3, 1, 0),
    ([[0.5, NAN], [0.6, 0.1]], "one-unit", [True] * 2, 1, 1),
    ([[0.5, NAN], [NAN, 0.1]], "no-complete-unit", [True] * 2, 0, 2),
])  # fmt: skip
def test_what_cannot_be_tested_has_a_reason(values, reason, compared, units, left_out):
    for test in TESTS:
        found = compare(values, test)
        assert (found.undefined, found.compared.tolist()) == (reason, compared)
        assert (found.units, found.left_out) == (units, left_out)
        assert (found.statistic, found.p_value, found.critical_difference, found.cliques) == (None, None, None, ())
        assert np.isnan(found.p_values).all() and np.isnan(found.mean_ranks).all() and not found.better.any()
        assert ex_aequo_positions(found)[found.compared].tolist() == [1] * sum(compared)
        assert np.isnan(ex_aequo_positions(found)[~found.compared]).all()


@pytest.mark.parametrize("test", TESTS)
def test_teams_that_are_equal_in_every_unit_do_not_differ_however_many_they_are(test):
    for values in (np.zeros((2, 2)), np.ones((20, 5)), np.tile(np.linspace(0.1, 0.9, 60), (4, 1))):
        found = compare(values, test, level=0.999)
        assert (found.undefined, found.statistic, found.p_value) == (None, 0, 1)
        assert (found.p_values == 1).all() and not found.better.any()
        assert found.cliques == (tuple(range(len(values))),)
        assert ex_aequo_positions(found).tolist() == [1] * len(values)


@pytest.mark.parametrize("test", TESTS)
def test_a_unit_without_a_value_of_one_team_is_left_out_for_all(test):
    values = random_values(5, 4, 20)
    gaps = np.insert(np.insert(values, 7, values[:, 0], axis=1), 3, 0.0, axis=1)
    gaps[2, 8] = gaps[0, 3] = gaps[1, 3] = NAN
    full, found = compare(values, test), compare(gaps, test)
    assert (found.units, found.left_out, full.left_out) == (20, 2, 0)
    assert (found.p_values == full.p_values).all() and (found.better == full.better).all()
    assert (found.statistic, found.cliques) == (full.statistic, full.cliques)


@pytest.mark.parametrize("test", TESTS)
def test_a_team_without_any_value_is_in_no_test(test):
    values = random_values(6, 4, 30)
    full, found = compare(values, test), compare(np.insert(values, 1, NAN, axis=0), test)
    others = [0, 2, 3, 4]
    assert found.compared.tolist() == [True, False, True, True, True]
    assert (found.p_values[np.ix_(others, others)] == full.p_values).all()
    assert np.isnan(found.p_values[1]).all() and np.isnan(found.p_values[:, 1]).all() and not found.better[1].any()
    assert np.isnan(found.mean_ranks[1]) and (found.mean_ranks[others] == full.mean_ranks).all()
    assert found.critical_difference == full.critical_difference
    assert found.cliques == tuple(tuple(others[team] for team in clique) for clique in full.cliques)
    assert np.isnan(ex_aequo_positions(found)[1])
    assert (ex_aequo_positions(found)[others] == ex_aequo_positions(full)).all()


def test_a_level_that_is_no_probability_and_a_table_of_several_columns_are_refused():
    for level in (0, 1, -0.05, NAN):
        with pytest.raises(ValueError, match="level"):
            compare([[0, 1], [1, 0]], level=level)
    with pytest.raises(ValueError, match="axes"):
        compare(np.zeros((2, 2, 2)))


# --- what must not matter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
@given(arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(2, 16)), elements=st.integers(0, 5)), st.randoms())
def test_the_order_of_teams_and_units_does_not_matter(test, values, random):
    teams, units = list(range(values.shape[0])), list(range(values.shape[1]))
    random.shuffle(teams)
    random.shuffle(units)
    found, moved = compare(values, test), compare(values[np.ix_(teams, units)], test)
    assert (found.p_values[np.ix_(teams, teams)] == moved.p_values).all()
    assert (found.better[np.ix_(teams, teams)] == moved.better).all()
    assert (found.statistic, found.p_value) == (moved.statistic, moved.p_value)


@pytest.mark.parametrize("test", TESTS)
@given(arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(2, 16)), elements=st.integers(0, 5)))
def test_a_distance_is_a_score_turned_round(test, values):
    found, turned = compare(values, test), compare(-values, test, higher_is_better=False)
    worse = compare(values, test, higher_is_better=False)
    assert (found.p_values == turned.p_values).all() and (found.mean_ranks == turned.mean_ranks).all()
    assert (worse.better == -found.better).all() and (worse.p_values == found.p_values.T).all()
    assert worse.mean_ranks == pytest.approx(len(values) + 1 - found.mean_ranks)


def test_what_differs_by_rounding_only_is_tied():
    first = np.array([0.3, 0.5, 0.7, 0.1 + 0.2, 0.4, 0.7 + 0.2, 0.9, 0.2])
    second = np.array([0.1, 0.3, 0.5, 0.3, 0.6, 0.9, 0.7 + 0.2, 0.9])
    assert len(set(np.abs(first - second)[[0, 1, 2, 4]])) > 1
    assert (first[[3, 6]] > second[[3, 6]]).all() and first[5] < second[5]
    whole = compare([[3, 5, 7, 3, 4, 9, 9, 2], [1, 3, 5, 3, 6, 9, 9, 9]], "wilcoxon_holm")
    found = compare([first, second], "wilcoxon_holm")
    assert (found.p_values == whole.p_values).all() and found.mean_ranks.tolist() == whole.mean_ranks.tolist()
    # but small differences are differences
    assert compare([first * 1e-9, second * 1e-9], "wilcoxon_holm").p_values[0, 1] == whole.p_values[0, 1]


def test_a_board_of_many_teams_is_told_apart_like_a_small_one():
    """All 2,263 teams of the second stage of DSB 2018: p-values depend on the difference of mean ranks alone."""
    values = random_values(4, 2263, 106)
    found = compare(values)
    apart = np.abs(found.mean_ranks[:40, None] - found.mean_ranks[None, :40])
    some = apart[np.triu_indices(40, 1)][::78]
    width = some * math.sqrt(12 * 106 / (2263 * 2264))
    expected = studentized_range.sf(width, 2263, math.inf)
    np.testing.assert_allclose(found.p_values[:40, :40][np.triu_indices(40, 1)][::78], expected, rtol=0, atol=1e-9)
    assert all(len(one) > 1 for one in found.cliques)
    starts = [found.mean_ranks[one[0]] for one in found.cliques]
    assert all(first <= second for first, second in pairwise(starts))


@pytest.mark.parametrize("units", [3, 12, 60])
def test_pairs_without_ties_have_the_signed_ranks_of_those_beside_tied_ones(units):
    """One by one against scipy's ranks, with ties and zeros in every third pair."""
    random = np.random.default_rng(units)
    difference = random.normal(0, 1, (40, units))
    difference[::3] = np.round(difference[::3])
    found = rank_differences(difference, 1e-12)
    for pair, row in enumerate(difference):
        apart = row[row != 0]
        ranks = rankdata(np.abs(apart))
        sizes = np.unique(ranks, return_counts=True)[1]
        assert found.differing[pair] == len(apart)
        assert found.doubled_won[pair] == 2 * ranks[apart > 0].sum()
        assert found.ties[pair] == (sizes**3 - sizes).sum()
        begins = np.append(True, np.diff(np.sort(np.abs(apart))) > 1e-12)[: len(apart)]
        bits = sum(1 << place for place in np.flatnonzero(begins).tolist())
        assert found.pattern[pair] == (bits if len(apart) <= 50 else 0)


# --- by permutation: Friedman's test and signed ranks -----------------------------------------------------------------


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
    assert found.distribution == ("exact" if data == THREE else "approximation")
    assert found.p_value == pytest.approx(COIN[data], abs=0.0005 if data == THREE else 0.005)


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


def test_a_p_value_below_one_in_ten_thousand_is_told_from_another():
    """Drawn orders could not: ten teams in the same order in 20 units, and in 40."""
    few, many = (compare(np.arange(10)[:, None] + np.zeros(units)).p_value for units in (20, 40))
    assert 0 < many < few < 1e-20


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


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(("teams", "units", "name"), [(2, 8, "all alike"), (3, 6, "ties"), (5, 8, "all alike")])
def test_equal_teams_differ_in_at_most_a_share_of_the_boards_that_is_the_level(test, teams, units, name):
    """800 boards: a true rate of 5% gives more than 7% of them in one of 200 runs."""
    assert false_claims(test, name, teams=teams, units=units, columns=1, boards=800, seed=5)[0] <= 0.07


def test_signed_ranks_with_ties_are_those_of_coin():
    first = [1.1, 0.4, 0.9, 1.5, 0.3, 0.8, -0.2, 0.3, 0.3]  # coin: wilcoxsign_test(…, distribution = "exact")
    assert compare([first, [0.0] * 9], "wilcoxon_holm").p_values[0, 1] == 0.0078125
