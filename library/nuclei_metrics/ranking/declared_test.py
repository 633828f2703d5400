"""The declared test of a ranking: what "significant", "better" and "too few" rest on, on every screen.

``compare_in_columns`` tests teams in each column, and over the columns together, by the test that a challenge declares:
flipped signs (``sign_flips``), Friedman with Nemenyi, or Wilcoxon's signed ranks with Holm (``significance``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.ranking import sign_flips
from nuclei_metrics.ranking.methods import rank_values
from nuclei_metrics.ranking.significance import (
    AT_LEVEL,
    VALUE_ROUNDING,
    Distribution,
    NoTest,
    PairwiseTest,
    Test,
    compare_teams,
    fill_pairs,
    find_cliques,
)

Int8 = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnsTogether:
    """The test of teams over all columns together: of the sum over columns of sum d / sqrt(sum d^2), by their weights.

    p_values  float64 (T, T), of each pair, corrected for the number of pairs; symmetric, with 1 in the diagonal
    better    int8 (T, T): 1 if the row is significantly better than the column, -1 if worse, 0 if neither
    """

    p_values: Float64
    better: Int8

    def in_order(self, position: Float64) -> ColumnsTogether:
        """Return the test in the direction of a ranking, float64 (T,): a team is better only than teams behind it."""
        is_ranked_so = np.sign(position - position[:, None]) * self.better > 0
        return replace(self, better=np.where(is_ranked_so, self.better, np.int8(0)))

    def rank_set(self) -> tuple[Int64, Int64]:
        """Compute the ranks that each team can have, the best and the worst, int64 (T,) each.

        1 + number of teams significantly better, and T - number of teams significantly worse: the sets of all teams
        hold together with the level (Al Mohamad et al. 2022; Mogstad et al. 2024).
        """
        return 1 + (self.better < 0).sum(axis=1), len(self.better) - (self.better > 0).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedTeams:
    """The declared test of T teams in K columns: what "significant", "better" and "too few" rest on, everywhere.

    columns   (K,)
    together  None for several columns under a test that has no statistic of several columns
    """

    columns: tuple[PairwiseTest, ...]
    together: ColumnsTogether | None


def compare_in_columns(
    values: Float64, *, higher_is_better: Bool, weights: Float64, test: Test, level: float
) -> ComparedTeams:
    """Test the differences between teams in each column, and over the columns together, by the declared test.

    values   float64 (T, K, G), of each team in each column and unit; NaN where there is none
    weights  float64 (K,), of the columns

    ``sign_flips`` corrects for all pairs in all columns. The other tests take each column by itself, as published. Of
    one column the test together is that of the column.

    >>> values = np.array([[[0.9, 0.8, 0.9, 0.7, 0.9, 0.8]], [[0.8, 0.7, 0.8, 0.6, 0.8, 0.7]]])
    >>> found = compare_in_columns(
    ...     values, higher_is_better=np.array([True]), weights=np.ones(1), test="sign_flips", level=0.05)
    >>> found.columns[0].p_values[0, 1].item(), found.columns[0].better.tolist(), found.columns[0].least_units
    (0.03125, [[0, 1], [-1, 0]], 6)
    """
    if test == "sign_flips":
        return _flip_in_columns(values, higher_is_better, weights, level)
    columns = tuple(
        compare_teams(values[:, index], higher_is_better=bool(higher), test=test, level=level)
        for index, higher in enumerate(higher_is_better)
    )
    return _of_one_column(columns[0]) if len(columns) == 1 else ComparedTeams(columns, None)


def _of_one_column(column: PairwiseTest) -> ComparedTeams:
    together = None if column.undefined else ColumnsTogether(column.p_values, column.better)
    return ComparedTeams((column,), together)


def _flip_in_columns(values: Float64, higher_is_better: Bool, weights: Float64, level: float) -> ComparedTeams:
    """Compare teams by flipped signs, as in ``compare_in_columns``."""
    pairs = sign_flips.PairedValues(values, higher_is_better)
    rows = np.flatnonzero(pairs.units)
    flipped = sign_flips.flip_signs(lambda chosen: pairs.terms(rows[chosen]), len(rows), pairs.varying)
    p_values, ahead = np.full(pairs.units.shape, np.nan), np.zeros(pairs.units.shape, np.int8)
    p_values.flat[rows], ahead.flat[rows] = flipped.p_values, flipped.ahead
    by_pairs: Distribution = "exact" if flipped.is_exact else "monte_carlo"
    columns = [
        _column_of_flips(values[:, index], pairs.units[index], p_values[index], ahead[index], level, by_pairs, higher)
        for index, higher in enumerate(higher_is_better.tolist())
    ]
    if len(columns) == 1:
        return _of_one_column(columns[0])
    tested = np.flatnonzero(pairs.units.any(axis=0))
    of_sums = sign_flips.flip_signs(
        lambda chosen: pairs.terms_together(weights, tested[chosen]), len(tested), pairs.varying
    )
    sums, sides = np.full(len(pairs.first), np.nan), np.zeros(len(pairs.first), np.int8)
    sums[tested], sides[tested] = of_sums.p_values, of_sums.ahead
    return ComparedTeams(tuple(columns), _together(sums, sides, level) if len(tested) else None)


def _together(p_values: Float64, ahead: Int8, level: float) -> ColumnsTogether:
    square = fill_pairs(p_values, p_values, 1.0)
    return ColumnsTogether(square, (fill_pairs(ahead, -ahead, 0.0) * (square <= level * AT_LEVEL)).astype(np.int8))


def _column_of_flips(
    values: Float64, common: Int64, p_values: Float64, ahead: Int8, level: float, how: Distribution, higher: bool
) -> PairwiseTest:
    """Describe the test of a column, (T, N), by the p-values of its pairs, (P,), with their ``common`` units."""
    known = ~np.isnan(values)
    compared = np.asarray(known.any(axis=1))
    units = int((known.sum(axis=0) > 1).sum())
    undefined: NoTest | None = "one-team" if compared.sum() < 2 else None
    if undefined is None and (most := int(common.max())) < 2:
        undefined = "one-unit" if most else "no-complete-unit"
    together = _together(p_values, ahead, level)
    square, better = together.p_values, together.better
    square[~compared], square[:, ~compared] = np.nan, np.nan
    mean_ranks = np.full(len(values), np.nan)
    if undefined is not None:
        square, better = np.full_like(square, np.nan), np.zeros_like(better)
    else:
        ranks = rank_values(values.T, higher_is_better=higher, ties="average", tolerance=VALUE_ROUNDING).T
        mean_ranks[compared] = np.nanmean(ranks[compared], axis=1)
    return PairwiseTest(
        test="sign_flips",
        level=level,
        undefined=undefined,
        compared=compared,
        units=units,
        left_out=values.shape[1] - units,
        least_units=sign_flips.fewest_units(level),
        statistic=None,
        p_value=None,
        distribution=None,
        pair_distribution=None if undefined else how,
        mean_ranks=mean_ranks,
        critical_difference=None,
        p_values=square,
        better=better,
        cliques=find_cliques(mean_ranks, better),
    )
