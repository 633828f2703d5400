"""Ranked pairs (Tideman 1987): duels of teams, decided by ballots, the clearest duels first.

Every patient and column is a ballot that puts the teams in order. A sum of ranks counts how many teams stand between
two others, so that an entry, or the second entry of a team, can turn the order of teams that it has nothing to do with.
A duel asks two teams only.
"""

from __future__ import annotations

import numpy as np
import scipy

from evaluation.model import Bool, Float64

EQUAL = 1e-9  # margins that differ by less are equal: they are sums of weights


def majority_margins(ranks: Float64, weights: Float64) -> Float64:
    """Ballots on which the team of the row is ahead, less those on which it is behind, weighted; float64 (T, T).

    ranks    float64 (T, K, G), of the teams on each ballot, 1 is best; NaN: the ballot says nothing about the team
    weights  float64 (K,), of the ballots of each column

    >>> majority_margins(np.array([[[1.0, 2.0, 1.0]], [[2.0, 1.0, 2.0]]]), np.ones(1)).tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    margins = np.empty((len(ranks), len(ranks)))
    for team, own in enumerate(ranks):
        margins[team] = ((own < ranks).sum(axis=2) - (own > ranks).sum(axis=2)) @ weights
    return margins


def lock_pairs(margins: Float64) -> Bool:
    """Which team stands before which, bool (T, T), a partial order: of a margin of 0, or in a cycle, neither may.

    margins  float64 (T, T), antisymmetric

    Duels are locked from the clearest to the closest, but not those that close a cycle with those before. Duels with
    equal margins are looked at together: one that lies on a cycle of them and what is locked is left out. So no order
    of names plays a part, and teams that stand side by side on all ballots, as the entries of one team do, change
    nothing between others, nor who of the others stands before or behind them ("independence of clones").

    T. N. Tideman: Independence of clones as a criterion for voting rules. Social Choice and Welfare 4, 1987.

    A beats B by 8, B beats C by 6, C beats A by 4: the last duel closes a cycle.

    >>> lock_pairs(np.array([[0, 8, -4], [-8, 0, 6], [4, -6, 0.0]])).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    wins = margins > EQUAL
    locked = wins & ~on_cycles(wins)
    rest = wins & ~locked
    while rest.any():
        equal = rest & (margins >= margins[rest].max() - EQUAL)
        locked |= equal & ~on_cycles(locked | equal)
        rest &= ~equal
    return reach(locked)


def on_cycles(edges: Bool) -> Bool:
    """Which edges of a graph lie on a cycle: both ends can be reached from each other."""
    _, part = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(edges), directed=True, connection="strong"
    )
    return np.asarray(edges & (part[:, None] == part))


def reach(edges: Bool) -> Bool:
    """Which team can be reached from which along edges."""
    found = edges
    while True:
        further = found | (found.astype(np.float32) @ found.astype(np.float32) > 0)
        if np.array_equal(further, found):
            return found
        found = further
