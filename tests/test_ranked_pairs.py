"""Ranked pairs: worked by hand, against Tideman's words step by step, and independent of clones."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_leaderboard import ranked, table_of
from test_ranking_methods import INDEPENDENT, independence, units_only

from evaluation.ranking.methods import lock_pairs, majority_margins, rank_teams

RULES = {"ties": "min", "missing": "worst"}


def ballots_of(*votes: tuple[int, str], teams: str) -> np.ndarray:
    """Ranks (T, 1, G) from ballots such as (42, "MNCK"), as often as they were cast."""
    each = [[ballot.index(team) + 1 for team in teams] for times, ballot in votes for _ in range(times)]
    return np.array(each, np.float64).T[:, None, :]


def order_of(ranks: np.ndarray, teams: str) -> str:
    """The teams in their order, those that share a place in brackets."""
    before = lock_pairs(majority_margins(ranks, np.ones(1))).sum(axis=0)
    places = sorted(set(before.tolist()))
    return "".join(
        names if len(names) == 1 else f"({names})"
        for names in ("".join(t for t, n in zip(teams, before, strict=True) if n == place) for place in places)
    )


def literal_order(margins: np.ndarray) -> np.ndarray:
    """Tideman's method where no two margins are equal: lock the duels one by one, skip those that close a cycle."""
    teams = len(margins)
    duels = sorted(((margins[a, b], a, b) for a, b in permutations(range(teams), 2) if margins[a, b] > 0), reverse=True)
    locked: set[tuple[int, int]] = set()

    def leads(start: int, end: int) -> bool:
        seen, todo = {start}, [start]
        while todo:
            team = todo.pop()
            fresh = {b for a, b in locked if a == team} - seen
            seen |= fresh
            todo += fresh
        return end in seen

    for _, a, b in duels:
        if not leads(b, a):
            locked.add((a, b))
    found = np.zeros((teams, teams), bool)
    for a, b in permutations(range(teams), 2):
        found[a, b] = leads(a, b)
    return found


def test_the_capital_of_tennessee() -> None:
    """The textbook's ballots: Nashville beats every other city, Memphis loses to every other."""
    votes = [(42, "MNCK"), (26, "NCKM"), (15, "CKNM"), (17, "KCNM")]
    assert order_of(ballots_of(*votes, teams="MNCK"), "MNCK") == "NCKM"


def test_the_weakest_duel_of_a_cycle_is_left_out() -> None:
    """Nine ballots: A beats B by 7 to 2, B beats C by 6 to 3, C beats A by 5 to 4. The last one is left out."""
    ranks = ballots_of((4, "ABC"), (3, "CAB"), (2, "BCA"), teams="ABC")
    assert majority_margins(ranks, np.ones(1)).tolist() == [[0, 5, -1], [-5, 0, 3], [1, -3, 0]]
    assert order_of(ranks, "ABC") == "ABC"


def test_a_cycle_of_equal_duels_leaves_all_in_one_place() -> None:
    assert order_of(ballots_of((1, "ABC"), (1, "BCA"), (1, "CAB"), teams="ABC"), "ABC") == "(ABC)"
    assert order_of(ballots_of((2, "ABCD"), (2, "BCAD"), (2, "CABD"), teams="ABCD"), "ABCD") == "(ABC)D"


@given(st.integers(2, 7), st.randoms(use_true_random=False))
def test_without_equal_margins_it_is_the_literal_method(teams: int, random) -> None:
    upper = random.sample(range(1, 100), teams * (teams - 1) // 2)
    margins = np.zeros((teams, teams))
    margins[np.triu_indices(teams, 1)] = [value * random.choice([-1, 1]) for value in upper]
    margins -= margins.T
    assert lock_pairs(margins).tolist() == literal_order(margins).tolist()


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3), st.integers(1, 8))
def test_it_is_an_order_and_names_play_no_part(seed: int, teams: int, columns: int, units: int) -> None:
    random = np.random.default_rng(seed)
    ranks = random.integers(1, 4, (teams, columns, units)).astype(np.float64)
    before = lock_pairs(majority_margins(ranks, np.ones(columns)))
    assert not (before & before.T).any()
    assert not np.diagonal(before).any()
    assert ((before.astype(int) @ before.astype(int) > 0) <= before).all(), "what stands before that stands before too"
    order = random.permutation(teams)
    again = lock_pairs(majority_margins(ranks[order], np.ones(columns)))
    assert again.tolist() == before[np.ix_(order, order)].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3), st.integers(1, 8), st.integers(1, 3))
def test_clones_change_nothing_between_others_nor_who_is_first(
    seed: int, teams: int, columns: int, units: int, clones: int
) -> None:
    """Entries of a team that stand beside it on every ballot, in any order among themselves; or are just the same."""
    random = np.random.default_rng(seed)
    values = random.integers(0, 6, (teams, columns, units)).astype(np.float64)
    team = int(random.integers(teams))
    entries = np.repeat(values[team][None], clones, axis=0)
    if random.random() < 0.7:
        values[team] += 0.5  # no other team is equal, so that there is room beside it
        entries += 0.5 + random.integers(-2, 3, (clones, columns, units)) / 10
    weights = random.integers(1, 3, columns).astype(np.float64)
    before = lock_pairs(majority_margins(-values, weights))
    cloned = lock_pairs(majority_margins(-np.concatenate([values, entries]), weights))
    group = np.array([*range(teams), *[team] * clones])
    others = np.flatnonzero(group != team)
    assert cloned[np.ix_(others, others)].tolist() == before[np.ix_(others, others)].tolist()
    for entry in np.flatnonzero(group == team):
        assert cloned[entry, others].tolist() == before[team, others].tolist()
        assert cloned[others, entry].tolist() == before[others, team].tolist()
    first = set(np.flatnonzero(~before.any(axis=0)).tolist())
    assert set(group[~cloned.any(axis=0)].tolist()) == first


def test_a_sum_of_ranks_is_turned_by_clones_and_ranked_pairs_are_not() -> None:
    """A beats B in four of six patients; entries behind B that beat A in the other two make B first by ranks."""
    alone, among_others = independence("ranked_pairs", INDEPENDENT)
    assert alone == among_others == [1, 2]
    alone, among_others = independence("rank_then_aggregate", INDEPENDENT)
    assert (alone, among_others) == ([1, 2], [2, 1])


def test_weights_of_columns_are_weights_of_their_ballots() -> None:
    values = np.array([[[0.9, 0.9], [0.1, 0.1]], [[0.5, 0.5], [0.5, 0.5]]])
    table = units_only(values)
    for weights, expected in [([1, 1], [1, 1]), ([2, 1], [1, 2]), ([1, 3], [2, 1])]:
        found = rank_teams(replace(table, weights=np.array(weights, float)), method="ranked_pairs", **RULES)
        assert found.position.tolist() == expected


def test_a_team_without_a_value_loses_the_ballot_or_is_not_ranked() -> None:
    table = units_only(np.array([[[0.9, np.nan, np.nan]], [[0.5, 0.5, np.nan]], [[0.4, 0.6, np.nan]]]))
    found = rank_teams(table, method="ranked_pairs", **RULES)
    assert found.combined.tolist() == [0, 0, 0], "one ballot each, and the third patient says nothing"
    found = rank_teams(table, method="ranked_pairs", ties="min", missing="unranked")
    assert found.position.tolist()[1:] == [1, 1]
    assert np.isnan(found.position[0])


def test_a_board_by_ranked_pairs_has_samples_and_words() -> None:
    board = ranked(table_of([[[0.9] * 8, [0.1] * 8, [0.5] * 8]]), method="ranked_pairs", samples=100)
    assert [(row.name, row.position, row.combined, row.first) for row in board.teams] == [
        ("team 0", 1, 0, 1),
        ("team 2", 2, 1, 0),
        ("team 1", 3, 2, 0),
    ]
    assert "ballot" in board.words
    with pytest.raises(ValueError, match="units"):
        rank_teams(replace(units_only([[[1.0]]]), by_unit=None), method="ranked_pairs", **RULES)
