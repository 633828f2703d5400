"""Samples are of the very ranking: every column is what scoring the drawn patients again would give."""

from __future__ import annotations

import string
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import nuclei

from evaluation import Challenge
from evaluation.challenge.rules import Floor, RankingRules
from evaluation.leaderboard.board import board_of_challenge, not_resampled, rank_table, sample_ranker
from evaluation.leaderboard.document import leaderboard_document
from evaluation.leaderboard.resampled import columns_in_samples, stored_tables, tables_of_result
from evaluation.leaderboard.score_csv import read_scores
from evaluation.leaderboard.team_scores import (
    TeamScores,
    as_columns,
    groups_of,
    number_at,
    plan_columns,
    score_table,
    team_of_documents,
    values_of_units,
)
from evaluation.model import Instances
from evaluation.ranking.stability import sample_weights
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.score import Result

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
    columns = plan_columns(result.challenge, as_columns(paths))
    tables = (
        stored_tables(result.challenge, result.details, tmp_path / "objects.csv")
        if stored
        else tables_of_result(result)
    )
    random = np.random.default_rng(1)
    weights = np.concatenate([np.ones((1, 6), int), random.multinomial(6, [1 / 6] * 6, 12)])
    found = columns_in_samples(
        result.challenge,
        columns,
        lambda column, kind: values_of_units(result.challenge, result.details, column, kind),
        tables,
        weights,
    )
    for row, times in zip(found, weights, strict=True):
        again = score(challenge, *draw(images, groups, times)).metrics
        expected = [number_at(again, path) for path in paths]
        wrong = [
            (path, one, other)
            for path, one, other in zip(paths, row, expected, strict=True)
            if not np.isclose(one, other, rtol=2e-6, atol=2e-6, equal_nan=True)
        ]
        assert wrong == [], (times, wrong[:5], len(wrong))


QUALITIES = {"A": 0.55, "B": 0.6, "C": 0.65, "D": 0.5}


@cache
def team_result(name: str) -> Result:
    return score(challenge_of(FAMILIES[:5]), *images_of(list(QUALITIES).index(name), QUALITIES[name]))


@cache
def drawn_metrics(name: str, times: tuple[int, ...]) -> dict[str, Any]:
    images, groups = images_of(list(QUALITIES).index(name), QUALITIES[name])
    return score(challenge_of(FAMILIES[:5]), *draw(images, groups, np.array(times))).metrics


def team_scores(rules: RankingRules, folder: Path | None = None) -> list[TeamScores]:
    teams = []
    for name in QUALITIES:
        result = team_result(name)
        challenge = result.challenge.model_copy(update={"ranking": rules})
        tables = tables_of_result(result)
        if folder is not None:
            result.write(folder / name)
            tables = stored_tables(challenge, result.details, folder / name / "objects.csv")
        columns = plan_columns(challenge, rules.columns)
        teams.append(team_of_documents(name, challenge, columns, result.metrics, result.details, tables=tables))
    return teams


COLUMNS = {
    "pooled": ["covered.iou_class_mean.pooled", "covered.class_recall.pooled", "segmentation.iou.pooled"],
    "means over cases": ["panoptic.pq.case_mean", "detection.f1.case_mean"],
    "strata and groups": ["panoptic.pq.stratum_mean", "detection.f1.group_mean"],
}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("floor", [None, "detection.f1.group_mean", "detection.recall.pooled"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_sample_is_ranked_as_the_drawn_patients_would_be(
    columns: str, floor: str | None, stored: bool, tmp_path: Path
) -> None:
    """Floors included: in some samples another team is below."""
    at_least = {"detection.f1.group_mean": 0.46, "detection.recall.pooled": 0.42}.get(floor or "", 0.0)
    rules = RankingRules(
        method="sum_of_ranks",
        ties="min",
        significance_level=0.05,
        samples=100,
        columns=as_columns(COLUMNS[columns]),
        require=(Floor(path=floor, at_least=at_least),) if floor else (),
    )
    table = score_table(team_scores(rules, tmp_path if stored else None), rules, groups_of(team_result("A").challenge))
    weights = sample_weights(6, rules.samples, rules.seed)[::14]
    found = sample_ranker(table, rules)(weights)
    assert len({tuple(row) for row in found.tolist()}) > 1
    if floor:
        assert table.samples is not None
        below = table.samples[:, ::14, -1] < at_least
        assert (below.any(axis=1) & ~below.all(axis=1)).any()  # in some samples a team is below the floor
    for row, times in zip(found, weights.tolist(), strict=True):
        again = [
            TeamScores(
                name,
                np.array([number_at(metrics, column.path) for column in rules.columns]),
                floors=np.array([number_at(metrics, of.path) for of in rules.require]),
            )
            for name in QUALITIES
            for metrics in [drawn_metrics(name, tuple(times))]
        ]
        np.testing.assert_array_equal(row, rank_table(score_table(again, rules, ()), rules)[0])


def board_of(rules: RankingRules, teams: list[TeamScores]) -> dict[str, Any]:
    challenge = team_result("A").challenge.model_copy(update={"ranking": rules})
    return leaderboard_document(board_of_challenge(challenge, rules, teams, (), ()))


def rules_of(*paths: str, **settings: Any) -> RankingRules:
    plain = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "samples": 100}
    return RankingRules(columns=as_columns(paths), **(plain | settings))


def test_without_the_pairs_nothing_is_said_of_columns_that_are_made_of_them(tmp_path: Path) -> None:
    """The counts of details.json are enough for F1, not for an IoU; the reason names the column."""
    rules = rules_of("detection.f1.pooled", "covered.iou_class_mean.pooled")
    teams = team_scores(rules, tmp_path)
    known = board_of(rules, teams)
    assert known["stability"]["undefined"] is None
    for name in QUALITIES:
        (tmp_path / name / "objects.csv").write_text("case\n")
    challenge = team_result("A").challenge.model_copy(update={"ranking": rules})
    without = []
    for name in QUALITIES:
        result = team_result(name)
        tables = stored_tables(challenge, result.details, tmp_path / name / "objects.csv")
        columns = plan_columns(challenge, rules.columns)
        without.append(team_of_documents(name, challenge, columns, result.metrics, result.details, tables=tables))
    document = board_of(rules, without)
    assert document["stability"]["undefined"] == "not-resampled"
    assert document["stability"]["columns"] == ["covered.iou_class_mean.pooled"]
    said = " ".join(document["verdict"])
    assert "covered IoU (class mean) cannot be computed again for samples of the patients." in said
    assert "bootstrap samples of" not in said and "decides" not in said
    for before, after in zip(teams, without, strict=True):
        assert before.samples is not None and after.samples is not None
        np.testing.assert_array_equal(before.samples[:, 0], after.samples[:, 0])


def test_the_worst_patient_of_a_sample_is_not_known() -> None:
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
    found = read_scores(path, rules.columns, unit=unit, draw=(rules.samples, rules.seed))
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
