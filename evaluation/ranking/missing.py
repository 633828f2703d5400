"""Teams without a value in units in which others have one: the rules, the same for all methods of ranking."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.model import Float64, Gaps, Int64, MissingValues, ScoreTable


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Values without gaps.

    values    float64 (T, K, G), what ranks
    own       float64 (T, K, G), what is evidence: the same without values that stand in the place of missing ones
    lacking   int64 (T, K), in how many units a team lacks a value that another team has
    left_out  int64 (K,), units that no team is judged by, since a team lacks a value there (``complete_cases``)
    """

    values: Float64
    own: Float64
    lacking: Int64
    left_out: Int64


def settle_gaps(values: Float64, worst: Float64, missing: MissingValues) -> Settled:
    """Settle the gaps of teams in columns and units, float64 (T, K, G): NaN of a team where another team has a value.

    worst           the worst value that the metric can have, float64 (K,), takes their place; where there is none, NaN,
                    a team with a gap has no value at all in the column, so that it ranks after all others there
    unranked        a team with a gap has no value at all in the column
    complete_cases  the unit is left out in this column for all teams

    A team without any value in a column has none there under every rule, and takes no unit from others. A unit in which
    no team has a value counts for nobody. What a gap costs under ``worst`` does not depend on the values of any team:
    else the worst team could have the value of the next one by leaving its own out.

    >>> values = np.array([[[0.9, np.nan, 0.7]], [[0.5, 0.2, 0.6]]])
    >>> settle_gaps(values, np.array([0.0]), "worst").values.tolist()
    [[[0.9, 0.0, 0.7]], [[0.5, 0.2, 0.6]]]
    >>> settle_gaps(values, np.array([np.nan]), "worst").values.tolist()
    [[[nan, nan, nan]], [[0.5, 0.2, 0.6]]]
    >>> settle_gaps(values, np.array([0.0]), "complete_cases").values.tolist()
    [[[0.9, nan, 0.7]], [[0.5, nan, 0.6]]]
    """
    absent = np.isnan(values)
    is_in = ~absent.all(axis=2, keepdims=True)
    gaps = absent & is_in & ~absent.all(axis=0)
    lacking = (absent & ~absent.all(axis=0)).sum(axis=2)
    in_units = gaps.any(axis=0)
    left_out = np.zeros(values.shape[1], np.int64)
    if missing == "complete_cases":
        found = np.where(in_units, np.nan, values)
        return Settled(found, found, lacking, np.asarray(in_units.sum(axis=1)))
    found = np.where(gaps, worst[:, None], values)
    found[gaps.any(axis=2) & (np.isnan(worst) | (missing == "unranked"))] = np.nan
    return Settled(found, values, lacking, left_out)


def has_replaced(table: ScoreTable) -> bool:
    """Whether values stand in the place of missing ones: then methods that rank by tests cannot be trusted.

    They make differences vary more, so that these are significant less often: who is worse by little in all units would
    gain by leaving one out.
    """
    if table.gaps is None or table.by_unit is None:
        return False
    return bool((np.isnan(table.gaps.by_unit) & ~np.isnan(table.by_unit)).any())


def keep_complete_units(table: ScoreTable) -> ScoreTable:
    """The table with those units only, column by column, in which every team has a value that has any.

    A column that loses a unit is the mean over the others: what it was over all units is not known of them.
    """
    if table.by_unit is None:
        return table
    settled = settle_gaps(table.by_unit, np.full(len(table.columns), np.nan), "complete_cases")
    known = ~np.isnan(settled.values)
    number = known.sum(axis=2)
    means = np.where(known, settled.values, 0.0).sum(axis=2) / np.maximum(number, 1)
    overall = np.where(settled.left_out > 0, np.where(number > 0, means, np.nan), table.overall)
    gaps = Gaps(settled.lacking, settled.left_out, len(table.units), settled.values)
    return replace(table, by_unit=settled.values, overall=overall, gaps=table.gaps or gaps)
