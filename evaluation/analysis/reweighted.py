"""A table of scores with another weight of a column, or without one of its patients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluation.challenge.rules import RankingRules
from evaluation.leaderboard.score_csv import mean_of_known
from evaluation.model import ScoreTable

FACTORS = (0.0, 0.5, 2.0)  # of the weight of each column
PATIENTS_UP_TO = 200  # that are left out one by one
ALL = "all"


def other_weights(rules: RankingRules, factors: tuple[float, ...] | None) -> dict[str, tuple[int, float]]:
    """Each column with each factor, by what it is called; none for one column, whose weight changes nothing."""
    if len(rules.columns) == 1:
        return {}
    return {
        f"{column.path} without" if factor == 0 else f"{column.path} x {factor:g}": (index, factor)
        for index, column in enumerate(rules.columns)
        for factor in (FACTORS if factors is None else factors)
        if factor != 1
    }


def other_patients(units: tuple[str, ...], *, wanted: bool, notes: list[str]) -> tuple[str, ...]:
    """What is called the table without each patient; nothing for one patient, and for too many (a note says so)."""
    if not wanted or len(units) < 2:
        return ()
    if len(units) > PATIENTS_UP_TO:
        notes.append(f"Patients are not left out one by one: there are {len(units):,}, more than {PATIENTS_UP_TO}.")
        return ()
    return tuple(f"without {unit}" for unit in units)


def reweighted(table: ScoreTable, rules: RankingRules, column: int, factor: float) -> tuple[ScoreTable, RankingRules]:
    """The table and its rules with a multiple of the weight of a column; 0: without the column."""
    columns = list(rules.columns)
    if factor:
        columns[column] = columns[column].model_copy(update={"weight": columns[column].weight * factor})
        weights = np.array([of.weight for of in columns])
        return replace(table, weights=weights), rules.model_copy(update={"columns": tuple(columns)})
    kept = np.arange(len(columns)) != column
    left = replace(
        table,
        columns=tuple(path for path, is_in in zip(table.columns, kept, strict=True) if is_in),
        higher_is_better=table.higher_is_better[kept],
        weights=table.weights[kept],
        overall=table.overall[:, kept],
        by_unit=None if table.by_unit is None else table.by_unit[:, kept],
    )
    return left, rules.model_copy(update={"columns": (*columns[:column], *columns[column + 1 :])})


def without_unit(table: ScoreTable, unit: int) -> ScoreTable:
    """The table without a patient. A column changes as the mean over the patients does, also one that is pooled.

    Floors stay those of all patients.
    """
    assert table.by_unit is not None
    left = np.delete(table.by_unit, unit, axis=2)
    change = mean_of_known(left) - mean_of_known(table.by_unit)
    units = (*table.units[:unit], *table.units[unit + 1 :])
    return replace(table, overall=np.round(table.overall + change, 6) + 0.0, units=units, by_unit=left)
