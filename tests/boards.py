"""Tables of scores of a few teams, the boards that are made of them, and the published scores of MoNuSAC 2020."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.board.board import build_board
from evaluation.board.document import Board
from evaluation.challenge.rules import RankingRules
from evaluation.report.page import Cell
from nuclei_metrics.model import ScoreTable
from nuclei_metrics.ranking.methods import aggregate_units

METHODS = (
    "sum_of_ranks", "mean_of_ranks", "median_of_ranks", "absolute", "aggregate_then_rank", "rank_then_aggregate",
    "test_then_rank",
)  # fmt: skip
SEPARATE = [[0.9, 0.8, 0.9, 0.7, 0.9], [0.8, 0.7, 0.8, 0.6, 0.8], [0.1, 0.2, 0.3, 0.1, 0.1]]
NAN = float("nan")
EDGES = {
    "one team": [[[0.5, 0.6, 0.7]]],
    "two teams": [[[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]]],
    "one group": [[[0.5], [0.6], [0.7]]],
    "one team in one group": [[[0.5]]],
    "a constant column": [[[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]],
    "an undefined column": [[[NAN, NAN], [NAN, NAN]]],
    "a team without a value": [[[0.5, 0.6], [NAN, NAN], [0.4, 0.3]]],
    "no common group": [[[0.5, NAN], [NAN, 0.6]]],
}


def score_table(by_unit: Any, /, *, higher: Any = True, weights: Any = 1.0, **more: Any) -> ScoreTable:
    """``by_unit[team][column][unit]``; the number of the data set is the mean over the units that have one."""
    values = np.array(by_unit, float)
    teams, columns, units = values.shape
    fields = {
        "teams": tuple(f"team {number}" for number in range(teams)),
        "columns": tuple(f"a.m{number}.group_mean" for number in range(columns)),
        "higher_is_better": np.full(columns, higher),
        "weights": np.full(columns, weights, np.float64),
        "overall": aggregate_units(values, "mean"),
        "units": tuple(f"P{number}" for number in range(units)),
        "by_unit": values,
    }
    return ScoreTable(**fields | more)


def table_of(by_unit: Any, /, **more: Any) -> ScoreTable:
    """The same of ``by_unit[column][team][unit]``."""
    return score_table(np.moveaxis(np.array(by_unit, float), 0, 1), **more)


def ranking_by(*paths: str, **more: Any) -> dict[str, Any]:
    """The table of a challenge that ranks by the sum of ranks in columns of which higher values are better."""
    columns = tuple({"path": path, "direction": "descending"} for path in paths)
    return {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": columns, **more}


def rules_of(table: ScoreTable, **more: Any) -> RankingRules:
    """The sum of ranks in the columns of a table, or other rules."""
    columns = tuple(
        {"path": path, "direction": "descending" if higher else "ascending"}
        for path, higher in zip(table.columns, table.higher_is_better, strict=True)
    )
    return RankingRules.model_validate(ranking_by(**{"samples": 100, "columns": columns, **more}))


def ranked(table: ScoreTable, **more: Any) -> Board:
    return build_board(table, rules_of(table, **more))


def published_pq(shared_data: Path) -> tuple[dict[tuple[str, str], float], dict[str, str]]:
    """PQ of each team and image of MoNuSAC 2020, the mean over the classes present; and the patient of each image."""
    values, patient = defaultdict(list), {}
    with (shared_data / "monusac2020_published_pq.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            values[row["team"], row["image"]].append(float(row["pq"]))
            patient[row["image"]] = row["patient"]
    return {key: float(np.mean(of)) for key, of in values.items()}, patient


def published_pq_by_patient(shared_data: Path) -> tuple[list[str], np.ndarray]:
    """The teams, and their means over the images of each patient, float64 (T, 25)."""
    of_image, patient = published_pq(shared_data)
    teams, patients = sorted({team for team, _ in of_image}), sorted(set(patient.values()))
    images = [[image for image, of in patient.items() if of == name] for name in patients]
    return teams, np.array([[np.mean([of_image[team, image] for image in of]) for of in images] for team in teams])


def values_of(row: tuple[Any, ...]) -> list[Any]:
    return [cell.value if isinstance(cell, Cell) else cell for cell in row]
