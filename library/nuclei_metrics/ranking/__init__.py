"""From scores of teams to ranks, significance and stability.

In: arrays of scores, a row for each team. Out: ranks, p-values, shares of samples. The leaderboard and the analysis of
rankings import it.
"""
