"""Samples of patients, and how stable a ranking is in them."""

from __future__ import annotations

import itertools
import string
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from boards import published_pq_by_patient, ranking_by
from hypothesis import given
from hypothesis import strategies as st
from pictures import nuclei

from evaluation import Challenge
from evaluation.board.board import board_of_challenge
from evaluation.board.document import leaderboard_document
from evaluation.board.facts import why_no_samples
from evaluation.board.ranked_table import not_resampled, rank_table, sample_ranker
from evaluation.board.score_csv import read_scores
from evaluation.board.stored import score_or_nan
from evaluation.board.team_scores import (
    TeamScores,
    columns_in_samples,
    groups_of,
    plan_columns,
    score_table,
    stored_tables,
    tables_of_result,
    team_of_documents,
    values_of_units,
)
from evaluation.challenge.rules import Floor, RankingRules
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.score import Result
from nuclei_metrics.aggregation.units import resample
from nuclei_metrics.model import Instances
from nuclei_metrics.ranking import stability
from nuclei_metrics.ranking.stability import (
    SMALL,
    bootstrap_ranks,
    draw_units,
    kendall_tau,
    rank_by_values,
    rank_intervals,
    sample_means,
    sample_medians,
    sample_weights,
)

Image = tuple[Instances, Instances | None]
SIZES = (1, 3, 1, 2, 1, 4)  # images of each patient
FAMILIES = [
    *("detection", "classification", "segmentation", "panoptic", "covered"),
    *("overall", "thresholds", "counting", "overlap", "objects"),
]


def challenge_of(families: list[str] = FAMILIES) -> Challenge:
    return Challenge.from_preset(
        "recommended",
        name="samples",
        classes=[{"name": "lymphocyte"}, {"name": "tumor"}],
        metrics={
            "families": families,
            "coverage": 0.5,
            "distance_cap_px": 5.0,
            **({"iou_thresholds": [0.5, 0.7]} if "thresholds" in families else {}),
        },
    )


def image(random: np.random.Generator, quality: float) -> tuple[np.ndarray, np.ndarray]:
    """Nuclei in a grid of fields, and what a team makes of them: missed, of another class or size, spurious."""
    reference, prediction = (np.full((14, 28), ".") for _ in range(2))
    letters = iter(string.ascii_lowercase)
    for top in (0, 7):
        for left in range(0, 28, 7):
            letter = next(letters)
            kind = str.upper if random.random() < 0.4 else str.lower
            size = random.integers(3, 6, 2)
            if random.random() < 0.8:
                reference[top : top + size[0], left : left + size[1]] = kind(letter)
                if random.random() > quality:
                    continue
                size = size + random.integers(-1, 2, 2)
                if random.random() > quality:
                    kind = str.swapcase if kind(letter).islower() else str.lower
            elif random.random() < quality:
                continue
            prediction[top : top + size[0], left : left + size[1]] = kind(letter)
    return reference, prediction


def images_of(seed: int, quality: float) -> tuple[dict[str, Image], dict[str, str]]:
    """The images of a team, one of them not submitted and one empty; references are the same for all teams."""
    images, groups = {}, {}
    for patient, number in enumerate(SIZES):
        for index in range(number):
            name = f"image_{patient}_{index}"
            reference, _ = image(np.random.default_rng([7, patient, index]), 1)
            _, prediction = image(np.random.default_rng([7, patient, index]), quality)
            if quality < 1:
                noisy = np.random.default_rng([seed, patient, index]).random(prediction.shape) < 0.02
                prediction = np.where(noisy, ".", prediction)
            if (patient, index) == (3, 1) and seed % 2:
                prediction = np.full(prediction.shape, ".")
            images[name] = nuclei(reference), None if (patient, index) == (5, seed % 4) else nuclei(prediction)
            groups[name] = f"patient_{patient}"
    return images, groups


def draw(
    images: dict[str, Image], groups: dict[str, str], weights: np.ndarray
) -> tuple[dict[str, Image], dict[str, str]]:
    """The images of a sample of patients, a patient that was drawn twice being two patients."""
    drawn, of_drawn = {}, {}
    for name, group in groups.items():
        for again in range(int(weights[int(group.rpartition("_")[2])])):
            drawn[f"{name}_{again}"], of_drawn[f"{name}_{again}"] = images[name], f"{group}_{again}"
    return drawn, of_drawn


def score(challenge: Challenge, images: dict[str, Image], groups: dict[str, str]) -> Result:
    strata = {name: f"organ_{int(name.split('_')[1]) % 2}" for name in images}
    return score_instances(challenge, images, groups=groups, strata=strata)


def every_path(result: Result) -> list[str]:
    (of_rule, *_) = result.scores.values()
    found = [".".join((*metric.path, mean)) for metric in of_rule for mean in metric.means]
    assert len(found) > 200
    return found


@pytest.mark.parametrize("stored", [False, True])
def test_every_number_in_a_sample_is_that_of_the_drawn_patients_scored_again(stored: bool, tmp_path: Path) -> None:
    challenge = challenge_of()
    images, groups = images_of(3, 0.7)
    result = score(challenge, images, groups)
    result.write(tmp_path)
    paths = every_path(result)
    columns = plan_columns(result.challenge, paths)
    tables = (
        stored_tables(result.challenge, result.details, tmp_path / "objects.csv")
        if stored
        else tables_of_result(result)
    )
    weights = np.concatenate([np.ones((1, 6), int), np.random.default_rng(1).multinomial(6, [1 / 6] * 6, 8)])
    found = columns_in_samples(
        result.challenge,
        columns,
        lambda column, kind: values_of_units(result.challenge, result.details, column, kind),
        tables,
        weights,
    )
    for row, times in zip(found, weights.tolist(), strict=True):
        again = drawn_again(tuple(times))
        expected = [score_or_nan(again, path) for path in paths]
        wrong = [
            (path, one, other)
            for path, one, other in zip(paths, row, expected, strict=True)
            if not np.isclose(one, other, rtol=2e-6, atol=2e-6, equal_nan=True)
        ]
        assert wrong == [], (times, wrong[:5], len(wrong))


@cache
def drawn_again(times: tuple[int, ...]) -> dict[str, Any]:
    return score(challenge_of(), *draw(*images_of(3, 0.7), np.array(times))).metrics


QUALITIES = {"A": 0.55, "B": 0.6, "C": 0.65, "D": 0.5}


@cache
def team_result(name: str) -> Result:
    return score(challenge_of(FAMILIES[:5]), *images_of(list(QUALITIES).index(name), QUALITIES[name]))


@cache
def drawn_metrics(name: str, times: tuple[int, ...]) -> dict[str, Any]:
    images, groups = images_of(list(QUALITIES).index(name), QUALITIES[name])
    return score(challenge_of(FAMILIES[:5]), *draw(images, groups, np.array(times))).metrics


def team_scores(rules: RankingRules, folder: Path | None = None, objects: str | None = None) -> list[TeamScores]:
    """From memory, or from files, of which ``objects`` may replace objects.csv."""
    teams = []
    for name in QUALITIES:
        result = team_result(name)
        challenge = result.challenge.model_copy(update={"ranking": rules})
        tables = tables_of_result(result)
        if folder is not None:
            result.write(folder / name)
            path = folder / name / "objects.csv"
            path.write_text(path.read_text() if objects is None else objects)
            tables = stored_tables(challenge, result.details, path)
        columns = plan_columns(challenge, rules.paths)
        teams.append(team_of_documents(name, challenge, columns, result.metrics, result.details, tables=tables))
    return teams


COLUMNS = {
    "pooled": ["covered.iou_class_mean.pooled", "covered.class_recall.pooled", "segmentation.iou.pooled"],
    "means over cases": ["panoptic.pq.case_mean", "detection.f1.case_mean"],
    "strata and groups": ["panoptic.pq.stratum_mean", "detection.f1.group_mean"],
}


@pytest.mark.parametrize("stored, floor, columns", [
    (False, None, "pooled"), (True, "detection.f1.group_mean", "pooled"), (False, "detection.recall.pooled", "pooled"),
    (True, None, "means over cases"), (False, "detection.f1.group_mean", "means over cases"),
    (True, "detection.recall.pooled", "means over cases"), (True, None, "strata and groups"),
    (False, "detection.f1.group_mean", "strata and groups"), (True, "detection.recall.pooled", "strata and groups"),
])  # fmt: skip
def test_a_sample_is_ranked_as_the_drawn_patients_would_be(columns, floor, stored, tmp_path):
    """Floors included: in some samples another team is below."""
    at_least = {"detection.f1.group_mean": 0.46, "detection.recall.pooled": 0.42}.get(floor or "", 0.0)
    rules = rules_of(*COLUMNS[columns], require=(Floor(path=floor, at_least=at_least),) if floor else ())
    table = score_table(team_scores(rules, tmp_path if stored else None), rules, groups_of(team_result("A").challenge))
    weights = sample_weights(6, rules.samples, rules.seed)[::14]
    found = sample_ranker(table, rules)(weights)
    assert len({tuple(row) for row in found.tolist()}) > 1
    if floor:
        assert table.samples is not None
        below = table.samples[:, ::14, -1] < at_least
        assert (below.any(axis=1) & ~below.all(axis=1)).any()  # in some samples a team is below the floor
    for row, times in zip(found, weights.tolist(), strict=True):
        again = []
        for name in QUALITIES:
            metrics = drawn_metrics(name, tuple(times))
            values, floors = (np.array([score_or_nan(metrics, of.path) for of in part])
                              for part in (rules.columns, rules.require))  # fmt: skip
            again.append(TeamScores(name, values, floors=floors))
        np.testing.assert_array_equal(row, rank_table(score_table(again, rules, ()), rules)[0])


def board_of(rules: RankingRules, teams: list[TeamScores]) -> dict[str, Any]:
    challenge = team_result("A").challenge.model_copy(update={"ranking": rules})
    return leaderboard_document(board_of_challenge(challenge, rules, teams, (), ()))


def rules_of(*paths: str, **settings: Any) -> RankingRules:
    return RankingRules.model_validate(ranking_by(*paths, **{"samples": 100, **settings}))


def test_without_the_pairs_nothing_is_said_of_columns_that_are_made_of_them(tmp_path: Path) -> None:
    """The counts of details.json are enough for F1, not for an IoU; the reason names the column."""
    rules = rules_of("detection.f1.pooled", "covered.iou_class_mean.pooled")
    teams = team_scores(rules, tmp_path)
    assert board_of(rules, teams)["stability"]["undefined"] is None
    without = team_scores(rules, tmp_path, objects="case\n")
    document = board_of(rules, without)
    assert document["stability"]["undefined"] == "not-resampled"
    assert document["stability"]["columns"] == ["covered.iou_class_mean.pooled"]
    assert why_no_samples(document) == "covered IoU (class mean) cannot be computed again for samples of the patients"
    assert not any("without patient" in fact["value"] for fact in document["facts"])
    for before, after in zip(teams, without, strict=True):
        assert before.samples is not None and after.samples is not None
        np.testing.assert_array_equal(before.samples[:, 0], after.samples[:, 0])


def test_a_column_of_another_number_of_the_same_patients_is_not_drawn_again() -> None:
    rules = rules_of("detection.f1.group_mean")
    table = score_table(team_scores(rules), rules, groups_of(team_result("A").challenge))
    assert not_resampled(table, rules) == []
    moved = replace(table, overall=table.overall - 0.01)  # as of a column that is another number of the same patients
    assert not_resampled(moved, rules) == ["detection.f1.group_mean"]
    assert not_resampled(moved, rules.model_copy(update={"method": "rank_then_aggregate"})) == []


@pytest.mark.parametrize(("unit", "ending"), [("group", "case_mean"), ("case", "group_mean")])
def test_samples_of_a_csv_are_of_the_means_that_rank(unit: Any, ending: str, tmp_path: Path) -> None:
    """Patients with 1 to 4 images: a sample is ranked by the mean over its images, or over its patients."""
    random = np.random.default_rng(5)
    values = {
        (team, patient, image): random.random()
        for team in "ABC"
        for patient, number in enumerate(SIZES)
        for image in range(number)
    }
    lines = [f"{team},{patient}_{image},P{patient},pq,{value!r}" for (team, patient, image), value in values.items()]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["team,case,group,metric,value", *lines, ""]))
    rules = rules_of(f"pq.{ending}")
    found = read_scores(path, rules, unit=unit)
    table = found.table
    assert not_resampled(table, rules) == []
    weights = sample_weights(len(table.units), rules.samples, rules.seed)
    moved = 0
    for times, positions in zip(weights, sample_ranker(table, rules)(weights), strict=True):
        means = []
        for team in "ABC":
            drawn: dict[int, list[float]] = {}
            for (of, patient, image), value in values.items():
                name = f"P{patient}" if unit == "group" else f"{patient}_{image}"
                drawn.setdefault(patient, []).extend([value] * times[table.units.index(name)] if of == team else [])
            kept = [of for of in drawn.values() if of]
            over_cases = sum(map(sum, kept)) / sum(map(len, kept))
            over_groups = sum(sum(of) / len(of) for of in kept) / len(kept)
            means.append(over_cases if ending == "case_mean" else over_groups)
        expected = [1 + sum(round(other, 6) > round(mean, 6) for other in means) for mean in means]
        assert positions.tolist() == expected
        moved += positions.tolist() != [1.0, 2.0, 3.0]
    assert 0 < moved < len(weights)


# --- kendall's tau against scipy, the bootstrap of rankings against one in plain Python, and odd tables ---------------


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


@pytest.mark.parametrize("teams", [2, SMALL - 1, SMALL, 2 * SMALL + 1, 2263])
def test_tau_is_that_of_scipy_for_any_number_of_teams(teams):
    random = np.random.default_rng(teams)
    first, second = random.integers(0, 2 * teams, (2, 3, teams)).astype(float)
    expected = [scipy.stats.kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(kendall_tau(first, second), expected, rtol=0, atol=1e-12)


def test_tau_is_undefined_without_two_teams_that_differ_and_takes_infinite_values_as_values():
    for first, second in (
        ([], []), ([1], [1]), ([1, 1, 1], [1, 2, 3]), ([1, 2, NAN], [NAN, 1, 2]), ([NAN, NAN], [NAN, NAN])
    ):  # fmt: skip
        assert np.isnan(kendall_tau(first, second))
    assert kendall_tau([1.0, 2.0, np.inf, np.inf], [1.0, 2.0, 3.0, 3.0]) == 1


def test_tau_of_all_pairs_of_rankings_is_that_of_each_pair():
    random = np.random.default_rng(7)
    rankings = random.integers(1, 8, (6, 9)).astype(float)
    rankings[2, 3] = rankings[4, :8] = NAN
    found = np.stack([kendall_tau(row, rankings) for row in rankings])
    for a, b in itertools.product(range(6), repeat=2):
        assert found[a, b] == pytest.approx(literal_tau(rankings[a], rankings[b]), abs=1e-12, nan_ok=True)


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
def test_how_much_is_held_at_once_changes_nothing(monkeypatch, aggregate):
    by_unit = scores(5, 8)
    by_unit[1, 2:] = NAN
    expected = found_of(by_unit, samples=60, aggregate=aggregate)
    monkeypatch.setattr(stability, "SAMPLE_ENTRIES_AT_ONCE", 50)
    found = found_of(by_unit, samples=60, aggregate=aggregate)
    for name in ("low", "high", "ranks", "frequency", "unranked"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.first, expected.first, rtol=0, atol=1e-12)
    assert found.tau == expected.tau
    np.testing.assert_array_equal(found.left_out.positions, expected.left_out.positions)


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


def test_one_team_is_first_and_has_no_tau_and_a_table_without_values_or_teams_ranks_nobody():
    found = found_of([[0.5, 0.6, 0.1]])
    assert (found.low.tolist(), found.high.tolist(), found.first.tolist()) == ([1], [1], [1])
    assert np.isnan(found.tau.mean)
    assert (found.tau.defined, found.tau.same_order, found.left_out.most) == (0, 1, None)
    found = found_of(np.full((3, 4), NAN))
    assert (found.unranked.tolist(), found.first.tolist()) == ([1, 1, 1], [0, 0, 0])
    assert np.isnan([found.low, found.high]).all()
    assert found.tau.same_order == 1
    assert not found.left_out.changes_first.any()
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


# --- real scores ------------------------------------------------------------------------------------------------------


def test_of_monusac_2020_the_ends_hold_and_the_middle_swaps_in_every_fifth_sample(shared_data):
    _, by_unit = published_pq_by_patient(shared_data)
    assert by_unit.shape == (4, 25)
    found = found_of(by_unit, samples=10_000)
    assert found.of_units.tolist() == [4, 3, 2, 1]
    assert (found.low.tolist(), found.high.tolist()) == ([4, 2, 2, 1], [4, 3, 3, 1])
    ahead = by_unit[2] - by_unit[1]
    in_theory = scipy.stats.norm.cdf(ahead.mean() / ahead.std() * 5)  # means of 25 patients are about normal
    assert found.tau.same_order == pytest.approx(in_theory, abs=0.02)
    assert found.left_out.most is None
