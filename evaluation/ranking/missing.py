"""Teams without a value in units in which others have one: the rules, the same for all methods of ranking."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.model import Bool, Float64, Gaps, Int64, MissingValues, ScoreTable


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Values without gaps.

    values    float64 (T, K, G)
    lacking   int64 (T, K), in how many units a team lacks a value that another team has
    left_out  int64 (K,), units that no team is judged by, since a team lacks a value there (``complete_cases``)
    worst     float64 (K,), the value that took the place of missing ones (``worst``), else NaN
    """

    values: Float64
    lacking: Int64
    left_out: Int64
    worst: Float64


def settle_gaps(values: Float64, higher_is_better: Bool, missing: MissingValues) -> Settled:
    """Settle the gaps of teams in columns and units, float64 (T, K, G): NaN of a team where another team has a value.

    worst           the worst value that any team has in any unit of the column takes their place
    unranked        a team with a gap has no value at all in the column
    complete_cases  the unit is left out in this column for all teams

    A team without any value in a column has none there under every rule, and takes no unit from others. A unit in which
    no team has a value counts for nobody.

    >>> values = np.array([[[0.9, np.nan, 0.7]], [[0.5, 0.2, 0.6]]])
    >>> settle_gaps(values, np.array([True]), "worst").values.tolist()
    [[[0.9, 0.2, 0.7]], [[0.5, 0.2, 0.6]]]
    >>> settle_gaps(values, np.array([True]), "complete_cases").values.tolist()
    [[[0.9, nan, 0.7]], [[0.5, nan, 0.6]]]
    """
    absent = np.isnan(values)
    is_in = ~absent.all(axis=2, keepdims=True)
    gaps = absent & is_in & ~absent.all(axis=0)
    lacking = (absent & ~absent.all(axis=0)).sum(axis=2)
    in_units = gaps.any(axis=0)
    worst = np.full(values.shape[1], np.nan)
    found = values.copy()
    if missing == "worst":
        known = np.isfinite(values).any(axis=(0, 2))
        signed = np.where(higher_is_better[:, None], values, -values)
        worst[known] = np.nanmin(signed[:, known], axis=(0, 2)) * np.where(higher_is_better[known], 1, -1)
        found = np.where(gaps, worst[:, None], values)
    elif missing == "unranked":
        found[gaps.any(axis=2)] = np.nan
    else:
        found[:, in_units] = np.nan
    left_out = in_units.sum(axis=1) if missing == "complete_cases" else np.zeros(values.shape[1], np.int64)
    return Settled(found, lacking, np.asarray(left_out, np.int64), worst)


def keep_complete_units(table: ScoreTable) -> ScoreTable:
    """The table with those units only, column by column, in which every team has a value that has any.

    A column that loses a unit is the mean over the others: what it was over all units is not known of them.
    """
    if table.by_unit is None:
        return table
    settled = settle_gaps(table.by_unit, table.higher_is_better, "complete_cases")
    known = ~np.isnan(settled.values)
    number = known.sum(axis=2)
    means = np.where(known, settled.values, 0.0).sum(axis=2) / np.maximum(number, 1)
    overall = np.where(settled.left_out > 0, np.where(number > 0, means, np.nan), table.overall)
    gaps = Gaps(settled.lacking, settled.left_out, len(table.units), settled.values)
    return replace(table, by_unit=settled.values, overall=overall, gaps=table.gaps or gaps)
