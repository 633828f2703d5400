"""From scores of teams to ranks, significance and stability.

In: arrays of scores, a row for each team. Out: ranks, p-values, shares of samples. The leaderboard and the analysis of
rankings import it.
"""

from evaluation.ranking.kendall import kendall_tau
from evaluation.ranking.methods import Ranking, needs_units, positions_of, rank_teams, unit_values
from evaluation.ranking.ranks import rank_values
from evaluation.ranking.significance import Comparison, compare_teams, ex_aequo_positions
from evaluation.ranking.stability import RankSamples, Stability, bootstrap_ranks, rank_by_values

__all__ = [
    "Comparison",
    "RankSamples",
    "Ranking",
    "Stability",
    "bootstrap_ranks",
    "compare_teams",
    "ex_aequo_positions",
    "kendall_tau",
    "needs_units",
    "positions_of",
    "rank_by_values",
    "rank_teams",
    "rank_values",
    "unit_values",
]
