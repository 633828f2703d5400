"""Rankings of teams: real leaderboards, the platform's ranks, challengeR's data, published tables, and properties.

What is expected of real data is worked out here, slowly, in fractions where sums decide.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from statistics import mean, median
from typing import get_args

import numpy as np
import pytest
from boards import METHODS, published_pq, published_pq_by_patient, score_table
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from nuclei_metrics.model import Aggregate, Missing, RankingMethod, ScoreTable, Ties
from nuclei_metrics.ranking.methods import aggregate_units, needs_units, positions_of, rank_teams, unit_values
from nuclei_metrics.ranking.significance import compare_teams

OF_COLUMNS = tuple(method for method in METHODS if not needs_units(method))
TIES = get_args(Ties)
NAN = math.nan


def table_of(overall, **more) -> ScoreTable:
    """A table of which only the numbers of the data set are known, ``overall[team][column]``."""
    return score_table(np.array(overall, np.float64)[..., None], **{"units": (), "by_unit": None, **more})


def some_test(table: ScoreTable):
    """A test matrix: 1 where the row has at least two more units above the column's than below; None without units."""
    if table.by_unit is None:
        return None
    filled = np.nan_to_num(table.by_unit * np.where(table.higher_is_better[:, None], 1, -1), nan=-100)
    above = np.sign(filled[:, None] - filled).sum(axis=-1)
    return np.moveaxis(above >= 2, -1, 0).astype(np.int8)


def positions(table: ScoreTable, method: RankingMethod = "mean_of_ranks", **options) -> list[float]:
    rules = {"ties": "min", "missing": "worst"} | options
    return rank_teams(table, method=method, test_matrix=some_test(table), **rules).position.tolist()


def literal_rank(value, values, *, higher: bool = False) -> int:
    """Competition rank: one more than there are better ones."""
    return 1 + sum((other > value) if higher else (other < value) for other in values)


# --- real leaderboards ------------------------------------------------------------------------------------------------

BOARDS = (
    "dentex", "isles22", "neurips-cellseg", "panther-task1", "puma-track1-task1", "puma-track1-task2",
    "puma-track2-task2", "seg_a", "topbrain-track2", "topcow-track1-task1", "topcow-track1-task3",
    "topcow-track2-task1", "topcow-track2-task3", "usenhance",
)  # fmt: skip
# The files do not say what is better. In every column one direction gives the published positions, and only one.
LOWER_IS_BETTER = {
    ("isles22", "lesion_count_diff"),
    ("isles22", "abs_volume_diff"),
    ("panther-task1", "hd95"),
    ("panther-task1", "masd"),
    ("panther-task1", "rmse"),
    ("seg_a", "hd_50pc"),
    *((board, column) for board in BOARDS for column in ("b0_error", "hd95", "neighbor_error") if board[:3] == "top"),
}


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_board(shared_data: Path, board: str) -> tuple[ScoreTable, np.ndarray, list[dict[str, str]]]:
    rows = read_rows(shared_data / "leaderboards" / f"{board}.csv")
    columns = [name[: -len("_position")] for name in rows[0] if name.endswith("_position") and name != "mean_position"]
    higher = [(board, column) not in LOWER_IS_BETTER for column in columns]
    table = table_of([[float(row[column]) for column in columns] for row in rows], higher=higher)
    published = np.array([[float(row[f"{column}_position"]) for column in columns] for row in rows])
    return replace(table, columns=tuple(columns)), published, rows


def test_all_leaderboards_are_looked_at(shared_data):
    assert {path.stem for path in (shared_data / "leaderboards").glob("*.csv")} == set(BOARDS)


@pytest.mark.parametrize("board", BOARDS)
def test_a_real_leaderboard_is_reproduced(shared_data, board):
    table, published, rows = read_board(shared_data, board)
    found = rank_teams(table, method="mean_of_ranks", ties="min", missing="unranked")
    np.testing.assert_array_equal(found.rank_by_column, published)
    assert [round(value, 2) for value in found.combined.tolist()] == [float(row["mean_position"]) for row in rows]
    assert (np.diff(found.position) >= 0).all()  # in the published order
    sums = rank_teams(table, method="sum_of_ranks", ties="min", missing="unranked")
    np.testing.assert_array_equal(sums.combined, published.sum(axis=1))
    np.testing.assert_array_equal(sums.position, found.position)


def test_teams_that_are_listed_one_below_the_other_may_share_a_place(shared_data):
    """The rows of the published tables are numbered through; their mean positions are equal in these boards."""
    found = {board: positions(read_board(shared_data, board)[0]) for board in BOARDS}
    alone = {board for board, of in found.items() if len(set(of)) == len(of)}
    assert alone == {"dentex", "puma-track1-task2", "puma-track2-task2", "seg_a", "topbrain-track2",
                     "topcow-track2-task1"}  # fmt: skip
    assert found["neurips-cellseg"] == [1, 2, 3, 4, 4, 6, 6, 8, 9, 9]
    assert found["topcow-track1-task3"] == [1, 1, 3, 4, 5, 6]


# --- the platform -----------------------------------------------------------------------------------------------------


def platform_cases(shared_data):
    return json.loads((shared_data / "peer_cases.json").read_text())["grand_challenge_ranks"][0]


@pytest.mark.parametrize("number", range(10))
def test_the_platforms_own_test_is_met(shared_data, number):
    """Its 0 is "not ranked"; unpublished results are not among the teams. Every result needs all shown columns."""
    case = platform_cases(shared_data)
    name, places, scores = case["cases"][number]
    method, *columns = name.split()
    directions = dict(zip(columns[::2], columns[1::2], strict=True))
    published = [result for result in case["results"] if result.get("published", True)]
    overall = [[result.get(column, NAN) for column in "ab"] for result in published]
    table = table_of(overall, higher=[directions.get(column, "desc") == "desc" for column in "ab"])
    method = {"mean": "mean_of_ranks", "median": "median_of_ranks"}.get(method, method)
    found = rank_teams(table, method=method, ties="min", missing="unranked")
    assert np.nan_to_num(found.position).tolist() == places[: len(published)]
    assert np.nan_to_num(found.combined).tolist() == scores[: len(published)]
    assert found.why == {"team 5": "no value in a.m1.group_mean", "team 6": "no value in a.m0.group_mean"}


def test_the_platforms_ranks_of_combined_scores_are_met(shared_data):
    case = json.loads((shared_data / "peer_cases.json").read_text())["grand_challenge_ranks"][1]
    values = np.array(case["combined_rank_scores"], np.float64)[:, None]
    assert positions(table_of(values, higher=[False]), "absolute") == case["ranks"]


# --- challengeR -------------------------------------------------------------------------------------------------------


def read_task(shared_data: Path, task: str) -> list[list[Fraction]]:
    """Values of each algorithm in each case, as written."""
    values: dict[str, dict[int, Fraction]] = defaultdict(dict)
    for row in read_rows(shared_data / "challengeR" / "data_matrix.csv"):
        if row["task"] == task:
            values[row["alg_name"]][int(row["case"])] = Fraction(row["value"])
    assert sorted(values) == ["A1", "A2", "A3", "A4", "A5"]
    return [[of_case[case] for case in sorted(of_case)] for _, of_case in sorted(values.items())]


# Places of A1 … A5 by means, by ranks in cases and by the tests of challengeR, kept so that they cannot change unseen.
EXPECTED = {
    "c_ideal": ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),
    "c_random": ([1, 2, 5, 3, 4], [1, 3, 5, 2, 4], [1, 2, 2, 2, 2]),
    "c_worstcase": ([1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
}


def task_table(values: list[list[Fraction]]) -> ScoreTable:
    return score_table([[[float(value) for value in row]] for row in values])


@pytest.mark.parametrize("task", EXPECTED)
@pytest.mark.parametrize("aggregate", [mean, median])
def test_challenger_aggregate_then_rank_and_rank_then_aggregate(shared_data, task, aggregate):
    values = read_task(shared_data, task)
    in_case = [[literal_rank(value, case, higher=True) for value in case] for case in zip(*values, strict=True)]
    of_ranks = [aggregate([Fraction(rank) for rank in ranks]) for ranks in zip(*in_case, strict=True)]
    of_values = [aggregate(row) for row in values]
    for place, (method, combined) in enumerate((("aggregate_then_rank", of_values), ("rank_then_aggregate", of_ranks))):
        expected = [literal_rank(value, combined, higher=place == 0) for value in combined]
        found = rank_teams(task_table(values), method=method, ties="min", missing="worst", aggregate=aggregate.__name__)
        assert found.position.tolist() == expected
        np.testing.assert_allclose(found.values[:, 0], [float(value) for value in combined], rtol=1e-12)
        if aggregate is mean:
            assert expected == EXPECTED[task][place]


@pytest.mark.parametrize("task", EXPECTED)
def test_challenger_test_then_rank(shared_data, task):
    """Its own test, one-sided signed ranks with a continuity correction, is that of scipy."""
    table = task_table(read_task(shared_data, task))
    values = table.by_unit[:, 0]
    own = np.zeros((5, 5), np.int8)
    for one, other in permutations(range(5), 2):
        apart = np.round(values[one] - values[other], 12)
        if apart.any():
            own[one, other] = (
                wilcoxon(apart, alternative="greater", correction=True, method="asymptotic").pvalue <= 0.05
            )
    all_differ = EXPECTED[task][0] if task == "c_ideal" else [1] * 5
    ours = {test: compare_teams(values, higher_is_better=True, test=test, level=0.05).better
            for test in ("friedman_nemenyi", "wilcoxon_holm")}  # fmt: skip
    for matrix, expected in ((own, EXPECTED[task][2]), *((matrix, all_differ) for matrix in ours.values())):
        found = rank_teams(table, method="test_then_rank", ties="min", missing="worst", test_matrix=matrix[None])
        assert found.position.tolist() == expected


def test_the_published_cases_of_challenger_are_met():
    """tests/testthat: test-rankThenAggregate.R, test-aggregateThenRank.R."""
    for values, higher, expected in (
        ([0.6, 0.8], False, [1, 2]), ([0.6, 0.8], True, [2, 1]), ([0.6, 0.6], True, [1, 1]),
        ([NAN, 0.8], True, [2, 1]),  # "assigns worst rank for NA"
    ):  # fmt: skip
        assert positions(score_table([[[of]] for of in values], higher=higher), "rank_then_aggregate") == expected
    two_cases = score_table([[[0.6, 0.4]], [[0.8, 1.0]]], higher=False)
    found = rank_teams(two_cases, method="aggregate_then_rank", ties="min", missing="worst")
    assert (found.values.ravel().tolist(), found.position.tolist()) == ([0.5, 0.9], [1, 2])


# --- MoNuSAC 2020 -----------------------------------------------------------------------------------------------------


def test_the_published_order_of_monusac_and_the_order_by_patients(shared_data):
    """SJTU_426, IVG, Dark Brotherhood, Amirreza Mahbod. Nobody swaps if images are averaged per patient first."""
    of_image, patient = published_pq(shared_data)
    teams, by_patient = published_pq_by_patient(shared_data)
    assert teams == ["Amirreza Mahbod", "Dark Brotherhood", "IVG", "SJTU_426"]
    by_image = np.array([[of_image[team, image] for image in patient] for team in teams])
    for values, expected in (
        (by_image, [0.3890, 0.4792, 0.5084, 0.5793]),
        (by_patient, [0.3917, 0.4942, 0.5099, 0.5841]),
    ):
        table = score_table(values[:, None])
        found = rank_teams(table, method="aggregate_then_rank", ties="min", missing="worst")
        assert found.values[:, 0].round(4).tolist() == expected
        assert found.position.tolist() == positions(table, "rank_then_aggregate") == [4, 3, 2, 1]
        assert positions(table, "aggregate_then_rank", aggregate="median") == [4, 3, 2, 1]


# --- every method, step by step ---------------------------------------------------------------------------------------


def test_ranks_are_combined_by_weighted_sum_mean_and_median():
    # ranks 1 2 / 2 1 / 3 3 in two columns that count 1 and 3
    table = table_of([[0.9, 7], [0.8, 5], [0.7, 9]], higher=[True, False], weights=[1, 3])
    for method, combined, expected in (
        ("sum_of_ranks", [7, 5, 12], [2, 1, 3]),
        ("mean_of_ranks", [7 / 4, 5 / 4, 3], [2, 1, 3]),
        ("median_of_ranks", [2, 1, 3], [2, 1, 3]),
        ("absolute", [1, 2, 3], [1, 2, 3]),
    ):
        found = rank_teams(table, method=method, ties="min", missing="worst")
        assert found.rank_by_column.tolist() == [[1, 2], [2, 1], [3, 3]]
        assert (found.combined.tolist(), found.position.tolist()) == (combined, expected), method
        assert found.values.tolist() == table.overall.tolist()


def test_the_tie_rule_holds_in_columns_and_in_the_result():
    table = table_of([[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.1, 0.1]])
    assert positions(table, ties="min") == [3, 1, 1, 4]  # ranks 1 3, 2 1, 2 1, 4 3
    assert positions(table, ties="average") == [3, 1.5, 1.5, 4]  # ranks 1 3.5, 2.5 1.5, 2.5 1.5, 4 3.5
    assert positions(table, ties="dense") == [1, 1, 1, 2]  # ranks 1 2, 2 1, 2 1, 3 2


def test_mean_ranks_that_are_equal_in_fractions_share_a_place():
    # (1 + 1 + 2) / 3 in tenths: 0.1 + 0.1 + 0.2 and 0.2 + 0.1 + 0.1 differ in the last bit
    table = table_of([[3, 2, 3], [2, 3, 3], [1, 1, 1]], weights=[0.1, 0.1, 0.7])
    assert rank_teams(table, method="sum_of_ranks", ties="min", missing="worst").position.tolist() == [1, 1, 3]


def test_columns_of_single_numbers_are_compared_exactly():
    assert positions(table_of([[0.3], [0.1 + 0.2]]), "absolute") == [2, 1]


def test_means_over_units_or_cases_are_not():
    by_unit = [[[0.1, 0.2, 0.3]], [[0.3, 0.2, 0.1]], [[0.2, 0.2, 0.1]]]
    assert len(set(np.sum(by_unit, axis=2).ravel())) == 3
    assert positions(score_table(by_unit), "aggregate_then_rank") == [1, 1, 3]
    equal = [[[np.mean([0.3, 0.3, 0.6, 0.6, 0.6])]], [[np.mean([0.6, 0.6, 0.6, 0.3, 0.3])]]]
    assert equal[0] != equal[1]
    assert positions(score_table(equal), "rank_then_aggregate") == [1, 1]


def test_mean_and_median_over_units_rank_differently():
    by_unit = [[[0.9, 0.5, 0.1]], [[0.4, 0.6, 0.45]]]  # means .5, .483; medians .5, .45; ranks 1 2 2, 2 1 1
    assert positions(score_table(by_unit), "aggregate_then_rank", aggregate="mean") == [1, 2]
    assert positions(score_table(by_unit), "aggregate_then_rank", aggregate="median") == [1, 2]
    assert positions(score_table(by_unit), "rank_then_aggregate", aggregate="mean") == [2, 1]
    skewed = score_table([[[0.0, 0.6, 0.6]], [[0.5, 0.5, 0.5]]])
    assert positions(skewed, "aggregate_then_rank", aggregate="mean") == [2, 1]
    assert positions(skewed, "aggregate_then_rank", aggregate="median") == [1, 2]
    several = score_table(
        [[[9, 9, 9, 1, 1]], [[8, 8, 8, 9, 9]], [[7, 7, 7, 8, 8]], [[6, 6, 6, 7, 7]], [[5, 5, 5, 6, 6]]]
    )
    found = rank_teams(several, method="rank_then_aggregate", ties="min", missing="worst", aggregate="mean")
    assert found.values.ravel().tolist() == [2.6, 1.6, 2.6, 3.6, 4.6]
    found = rank_teams(several, method="rank_then_aggregate", ties="min", missing="worst", aggregate="median")
    assert found.values.ravel().tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("ties, expected", [("min", [2, 1, 2.5]), ("average", [2.25, 1.25, 2.5]), ("dense", [2, 1, 2])])
def test_the_tie_rule_holds_in_each_group(ties, expected):
    # the first group by min 1 1 3, by average 1.5 1.5 3, dense 1 1 2; the second one 3 1 2
    table = score_table([[[0.5, 0.1]], [[0.5, 0.9]], [[0.4, 0.2]]])
    found = rank_teams(table, method="rank_then_aggregate", ties=ties, missing="worst")
    assert found.values.ravel().tolist() == expected


def test_several_columns_of_units_give_the_weighted_mean_of_their_ranks():
    by_unit = [[[0.9, 0.7], [5, 7]], [[0.5, 0.6], [4, 2]], [[0.1, 0.2], [3, 5]]]
    table = score_table(by_unit, higher=[True, False], weights=[1, 2])
    for method in ("aggregate_then_rank", "rank_then_aggregate"):
        found = rank_teams(table, method=method, ties="min", missing="worst")
        assert found.rank_by_column[:, 0].tolist() == [1, 2, 3]
        np.testing.assert_allclose(found.combined, (found.rank_by_column @ [1, 2]) / 3)
    # distances: means 6, 3, 4; in the units ranks 3 2 1 and 3 1 2
    assert rank_teams(table, method="aggregate_then_rank", ties="min", missing="worst").combined.tolist() == [
        pytest.approx(value) for value in (7 / 3, 4 / 3, 7 / 3)
    ]


def test_wins_are_counted_per_column():
    matrix = np.zeros((2, 3, 3), np.int8)
    matrix[0, 0, 1:], matrix[0, 1:, 0] = 1, -1  # the first team beats both in column 0
    matrix[1, 2, 0], matrix[1, 0, 2] = 1, -1  # the third one beats the first in column 1
    found = rank_teams(
        table_of(np.ones((3, 2)), higher=[True, False]),
        method="test_then_rank",
        ties="min",
        missing="worst",
        test_matrix=matrix,
    )
    assert found.values.tolist() == [[1, 0], [0, 0], [0, 0.5]]
    assert found.rank_by_column.tolist() == [[1, 2], [2, 2], [2, 1]]
    assert found.position.tolist() == [1, 3, 1]


# --- missing values ---------------------------------------------------------------------------------------------------


def test_a_team_without_a_value_is_last_in_that_column_or_not_ranked():
    table = table_of([[0.9, NAN], [0.8, 0.3], [0.7, 0.2]])
    worst = rank_teams(table, method="sum_of_ranks", ties="min", missing="worst")
    assert worst.rank_by_column.tolist() == [[1, 3], [2, 1], [3, 2]]
    assert (worst.position.tolist(), worst.why) == ([2, 1, 3], {})
    without = rank_teams(table, method="sum_of_ranks", ties="min", missing="unranked")
    np.testing.assert_array_equal(without.rank_by_column, [[NAN, NAN], [1, 1], [2, 2]])  # takes no rank from others
    np.testing.assert_array_equal(without.position, [NAN, 1, 2])
    assert without.why == {"team 0": "no value in a.m1.group_mean"}


def test_nobody_is_ranked_if_nobody_has_a_value():
    table, matrix = score_table(np.full((3, 2, 4), NAN)), np.zeros((2, 3, 3), np.int8)
    for method, missing in product(METHODS, get_args(Missing)):
        found = rank_teams(table, method=method, ties="min", missing=missing, test_matrix=matrix)
        for numbers in (found.position, found.combined, found.rank_by_column):
            assert np.isnan(numbers).all(), (method, missing)
        assert found.why == dict.fromkeys(table.teams, "no team has a value in any column")
        assert not found.left_out.any()


def test_a_unit_without_a_value_costs_the_last_rank_in_it_or_the_place():
    by_unit = [[[0.9, NAN, NAN]], [[0.8, 0.2, NAN]], [[0.7, 0.1, NAN]]]
    worst = rank_teams(score_table(by_unit), method="rank_then_aggregate", ties="min", missing="worst")
    assert worst.values.ravel().tolist() == [2, 1.5, 2.5]  # ranks 1 3, 2 1, 3 2; nobody has the third unit
    without = rank_teams(score_table(by_unit), method="rank_then_aggregate", ties="min", missing="unranked")
    np.testing.assert_array_equal(without.values.ravel(), [NAN, 1, 2])
    np.testing.assert_array_equal(without.position, [NAN, 1, 2])
    assert without.why == {"team 0": "no value in a.m0.group_mean in 1 of 3 cases or patients"}
    assert worst.left_out.tolist() == without.left_out.tolist() == [[1], [0], [0]]


def test_the_reason_counts_columns_and_names_no_group():
    by_unit = np.ones((2, 3, 4))
    by_unit[0, 1:, :3] = NAN
    table = replace(score_table(by_unit), units=("secret1", "secret2", "secret3", "secret4"))
    found = rank_teams(table, method="rank_then_aggregate", ties="min", missing="unranked")
    assert found.why == {
        "team 0": "no value in a.m1.group_mean in 3 of 4 cases or patients, and in 1 more of 3 columns"
    }
    found = rank_teams(table_of([[NAN, NAN, NAN], [1, 2, 3]]), method="absolute", ties="min", missing="unranked")
    assert found.why == {"team 0": "no value in a.m0.group_mean, and in 2 more of 3 columns"}


def test_a_group_without_a_value_is_no_reason_where_only_columns_count():
    table = score_table([[[0.9, NAN], [NAN, NAN]], [[0.8, 0.2], [0.5, 0.5]]])
    for method in ("sum_of_ranks", "aggregate_then_rank"):
        found = rank_teams(table, method=method, ties="min", missing="unranked")
        assert found.why == {"team 0": "no value in a.m1.group_mean"}
        assert found.left_out.tolist() == [[1, 2], [0, 0]]


def test_wins_over_teams_that_are_not_ranked_do_not_count():
    # the second team beats only the first, which is not ranked; the third beats the second
    matrix = np.array([[[0, -1, 0], [1, 0, -1], [0, 1, 0]]], np.int8)
    table = table_of([[NAN], [0.5], [0.6]])
    found = rank_teams(table, method="test_then_rank", ties="min", missing="unranked", test_matrix=matrix)
    np.testing.assert_array_equal(found.values.ravel(), [NAN, 0, 1])
    found = rank_teams(table, method="test_then_rank", ties="min", missing="worst", test_matrix=matrix)
    np.testing.assert_array_equal(found.values.ravel(), [NAN, 0.5, 0.5])
    assert found.position.tolist() == [3, 1, 1]


# --- small tables and wrong ones --------------------------------------------------------------------------------------


def test_one_team_is_first_and_equal_teams_share_a_place():
    for method, (ties, shared), missing in product(
        METHODS, {"min": 1, "average": 2, "dense": 1}.items(), get_args(Missing)
    ):
        rules = {"method": method, "ties": ties, "missing": missing}
        assert positions(score_table([[[0.5]]]), **rules) == [1]
        assert positions(score_table(np.full((3, 2, 1), 0.5)), **rules) == [shared] * 3, rules
        assert positions(score_table(np.empty((0, 2, 3))), **rules) == []


@pytest.mark.parametrize("method", [method for method in METHODS if method != "absolute"])
def test_a_constant_column_changes_no_position(method):
    by_unit = np.random.default_rng(5).integers(0, 4, (6, 1, 7)).astype(np.float64)
    more = np.concatenate([by_unit, np.ones_like(by_unit)], axis=1)
    if method == "median_of_ranks":  # half of the weight on each: the mean of both ranks
        more = np.concatenate([more, by_unit], axis=1)
    assert positions(score_table(more), method) == positions(score_table(by_unit), method)


def test_what_a_method_needs_is_asked_for():
    rules = {"ties": "min", "missing": "worst"}
    for method in ("aggregate_then_rank", "rank_then_aggregate"):
        with pytest.raises(ValueError, match="units are not known"):
            rank_teams(table_of([[1]]), method=method, **rules)
    with pytest.raises(ValueError, match="matrix"):
        rank_teams(score_table([[[1]]]), method="test_then_rank", **rules)
    for method in METHODS:
        with pytest.raises(ValueError, match="without a column"):
            rank_teams(score_table(np.empty((2, 0, 3))), method=method, **rules)


def test_the_table_is_left_as_it_is():
    table = score_table([[[0.9, NAN]], [[0.8, 0.2]], [[NAN, NAN]]])
    before = (table.overall.copy(), table.by_unit.copy())
    for method, missing in product(METHODS, get_args(Missing)):
        positions(table, method, missing=missing)
    np.testing.assert_array_equal(table.overall, before[0])
    np.testing.assert_array_equal(table.by_unit, before[1])


# --- properties -------------------------------------------------------------------------------------------------------


@st.composite
def tables(draw, *, gaps: bool = True) -> ScoreTable:
    teams, columns, units = (draw(st.integers(1, most)) for most in (6, 3, 4))
    numbers = st.sampled_from([*([NAN] if gaps else []), 0.0, 0.25, 0.5, 1.0, 2.0])
    values = draw(st.lists(numbers, min_size=teams * columns * units, max_size=teams * columns * units))
    weights = draw(st.lists(st.sampled_from([0.1, 0.2, 0.3, 1.0]), min_size=columns, max_size=columns))
    higher = draw(st.lists(st.booleans(), min_size=columns, max_size=columns))
    return score_table(np.array(values).reshape(teams, columns, units), higher=higher, weights=weights)


rules = st.fixed_dictionaries(
    {
        "method": st.sampled_from(METHODS),
        "ties": st.sampled_from(TIES),
        "missing": st.sampled_from(get_args(Missing)),
        "aggregate": st.sampled_from(get_args(Aggregate)),
    }
)


def pick_teams(table: ScoreTable, order: list[int]) -> ScoreTable:
    return replace(
        table,
        teams=tuple(table.teams[team] for team in order),
        overall=table.overall[order],
        by_unit=table.by_unit[order],
    )


@given(table=tables(), options=rules, data=st.data())
def test_the_order_and_the_names_of_the_teams_change_nothing(table, options, data):
    order = data.draw(st.permutations(range(len(table.teams))))
    found = positions(table, **options)
    renamed = replace(pick_teams(table, order), teams=tuple(f"R{place}" for place in range(len(order))))
    np.testing.assert_array_equal(positions(renamed, **options), np.array(found)[order])


@given(table=tables(), options=rules)
def test_turning_a_column_and_its_direction_changes_nothing(table, options):
    turned = replace(table, overall=-table.overall, by_unit=-table.by_unit, higher_is_better=~table.higher_is_better)
    np.testing.assert_array_equal(positions(turned, **options), positions(table, **options))


@given(table=tables(), options=rules)
def test_only_the_order_of_the_values_counts_but_for_means_and_medians(table, options):
    if options["method"] == "aggregate_then_rank":
        options["method"] = "rank_then_aggregate"

    def stretch(values):
        return np.exp(2 * values) - 7

    stretched = replace(table, overall=stretch(table.overall), by_unit=stretch(table.by_unit))
    np.testing.assert_array_equal(positions(stretched, **options), positions(table, **options))


@given(table=tables(gaps=False), options=rules)
def test_a_team_that_is_last_everywhere_changes_nobody_elses_place(table, options):
    if options["method"] == "test_then_rank":
        options["method"] = "rank_then_aggregate"
    last = np.where(table.higher_is_better, -9.0, 9.0)
    more = replace(
        table,
        teams=(*table.teams, "Z"),
        overall=np.vstack([table.overall, last]),
        by_unit=np.concatenate([table.by_unit, np.broadcast_to(last[:, None], (1, *table.by_unit.shape[1:]))]),
    )
    found = positions(more, **options)
    assert found[:-1] == positions(table, **options)
    assert found[-1] > max(found[:-1])


@given(table=tables(), options=rules)
def test_a_team_that_is_better_everywhere_is_not_behind(table, options):
    """A copy of the first team that gains in every unit; teams with gaps keep them."""
    gain = np.where(table.higher_is_better, 0.5, -0.5)
    more = replace(
        table,
        teams=(*table.teams, "Z"),
        overall=np.vstack([table.overall, table.overall[:1] + gain]),
        by_unit=np.concatenate([table.by_unit, table.by_unit[:1] + gain[:, None]]),
    )
    found = positions(more, **options)
    assert not found[-1] > found[0]
    assert math.isnan(found[-1]) == math.isnan(found[0])


@given(table=tables(), options=rules)
def test_positions_are_ranks_of_the_ranked_teams(table, options):
    options["ties"] = "min"
    found = positions(table, **options)
    ranked = [place for place in found if not math.isnan(place)]
    assert ranked == [literal_rank(place, ranked) for place in ranked]
    if options["missing"] == "worst":
        assert len(ranked) in (0, len(found))
    why = rank_teams(table, test_matrix=some_test(table), **options).why
    assert set(why) == {team for team, place in zip(table.teams, found, strict=True) if math.isnan(place)}


def independence(method: RankingMethod, columns: list[list[float]]) -> tuple[list[float], list[float]]:
    """Positions of the first two teams alone and among all; every column is a unit as well."""
    values = np.array(columns, np.float64).T
    one_column = method in ("absolute", *METHODS[4:])
    by_unit = values[:, None, :] if one_column else np.repeat(values[:, :, None], 1, axis=2)
    table = score_table(by_unit)
    return positions(pick_teams(table, [0, 1]), method), positions(table, method)[:2]


# A is before B in four of six columns. C and D are behind B in every one.
INDEPENDENT = [[4, 3, 2, 1]] * 4 + [[1, 4, 3, 2]] * 2


@pytest.mark.parametrize("method", ["sum_of_ranks", "mean_of_ranks", "rank_then_aggregate"])
def test_ranks_violate_the_independence_of_irrelevant_alternatives(method):
    """A wins against B alone: 8 against 10. With C and D, which no one would call first, A has 12 and B 10."""
    assert independence(method, INDEPENDENT) == ([1, 2], [2, 1])


@given(table=tables(gaps=False), missing=st.sampled_from(get_args(Missing)), data=st.data())
def test_one_column_of_values_is_independent_of_irrelevant_alternatives(table, missing, data):
    """absolute, and aggregate_then_rank with one column: who is before whom is a matter of the two."""
    one = replace(
        table,
        columns=table.columns[:1],
        higher_is_better=table.higher_is_better[:1],
        weights=table.weights[:1],
        overall=table.overall[:, :1],
        by_unit=table.by_unit[:, :1],
    )
    some = data.draw(st.lists(st.sampled_from(range(len(table.teams))), unique=True, min_size=1))
    for method in ("absolute", "aggregate_then_rank"):
        all_places = np.array(positions(one, method, missing=missing))[some]
        places = np.array(positions(pick_teams(one, some), method, missing=missing))
        before = np.sign(places[:, None] - places)
        np.testing.assert_array_equal(before, np.sign(all_places[:, None] - all_places))


# --- samples of a bootstrap -------------------------------------------------------------------------------------------


@given(table=tables(), options=rules)
def test_all_units_once_are_ranked_as_the_table_is(table, options):
    if options["method"] == "test_then_rank":  # has its own way, tested elsewhere
        options["method"] = "mean_of_ranks"
    aggregate = options.pop("aggregate")
    if not needs_units(options["method"]):
        aggregate = "mean"
    found = unit_values(table, method=options["method"], ties=options["ties"], missing=options["missing"])
    values = aggregate_units(found.by_unit, aggregate)
    places = positions_of(
        np.stack([values, values]), higher_is_better=found.higher_is_better, weights=table.weights, **options
    )
    expected = positions(table, aggregate=aggregate, **options)
    np.testing.assert_array_equal(places, [expected, expected])


@pytest.mark.parametrize("method", OF_COLUMNS)
@pytest.mark.parametrize("missing", get_args(Missing))
def test_leading_axes_are_ranked_one_by_one(method, missing):
    values = np.random.default_rng(2).choice([0.1, 0.2, 0.3, 0.4, np.nan], (5, 4, 7, 3), p=[0.2375] * 4 + [0.05])
    values[0, 0] = np.nan
    rules = {"higher_is_better": np.array([True, False, True]), "weights": np.array([1.0, 2.0, 0.5])}
    found = positions_of(values, method=method, ties="average", missing=missing, **rules)
    for place in np.ndindex(5, 4):
        table = table_of(values[place], higher=rules["higher_is_better"], weights=rules["weights"])
        np.testing.assert_array_equal(found[place], positions(table, method, ties="average", missing=missing))
