"""The sentences of a board: each is true of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from boards import ranked, score_table
from scipy.stats import rankdata, ttest_rel

from benchmarks.claims import BOARDS, board_of_equals
from evaluation.board.document import leaderboard_document
from evaluation.board.verdict import share_text, verdict_sentences, why_no_samples
from nuclei_metrics.ranking.differences import paired_differences

RANDOM = np.random.default_rng(12)


def board(values: Any, **settings: Any) -> dict[str, Any]:
    """leaderboard.json of teams A, B, … or A0, A1, …, float (T, G) or (T, K, G)."""
    of = np.array(values, float)
    of = of[:, None] if of.ndim == 2 else of
    teams, columns, units = of.shape
    table = score_table(
        of, teams=tuple("ABCDEFGH"[:teams] if teams < 9 else (f"A{place}" for place in range(teams))),
        columns=tuple(f"column.c{place}" for place in range(columns)), overall=np.round(np.nanmean(of, axis=2), 6),
        units=tuple(f"P{place:02}" for place in range(units)),
    )  # fmt: skip
    return leaderboard_document(ranked(table, **{"samples": 300, **settings}))


def noise(*shape: int, size: float = 0.02) -> np.ndarray:
    return RANDOM.normal(0, size, shape)


LEVELS = RANDOM.normal(0.7, 0.1, 30)
DOMINANT = np.array([[0.2], [0.1], [0.0]]) + LEVELS + noise(3, 30)
ALIKE = LEVELS + noise(3, 30) - np.array([[0.0], [0.001], [0.002]])
NEAR = np.stack([LEVELS, LEVELS - 0.0002 + noise(30, size=0.0003), LEVELS - 0.3 + noise(30)])
OUTLIER = np.stack(
    [np.r_[np.full(29, 0.5), 0.9] + noise(30, size=0.002), np.r_[np.full(29, 0.51), 0.0] + noise(30, size=0.002)]
)
TURNS = np.array([[3.0, 2, 1], [1, 3, 2], [2, 1, 3]])
CYCLIC = np.tile(TURNS, (1, 7)) + noise(3, 21, size=0.01)
ONE_COLUMN = np.stack([DOMINANT, LEVELS + noise(3, 30), LEVELS + noise(3, 30)], axis=1)
OPPOSED = np.stack([DOMINANT, DOMINANT, DOMINANT[::-1]], axis=1)
CASES: dict[str, tuple[Callable[[], dict[str, Any]], list[str], list[str]]] = {
    "dominant": (
        lambda: board(DOMINANT),
        [
            "'A' is first of 3 teams.",
            "In 100 % of the bootstrap samples of these 30 patients",
            "'A' is significantly better than 'B' and 'C'.",
            "methods of ranking agree",
            "No single patient",
        ],
        ["not significant", "shares"],
    ),
    "indistinguishable": (
        lambda: board(ALIKE),
        ["The difference from 'C' or 'A' is not significant", "Without any one of 4"],
        ["better than", "100 %"],
    ),
    "near-identical beside one that is far": (
        lambda: board(NEAR, margin=0.01),
        ["better than 'C'; 'B' differs from 'A' by no more than the margin."],
        ["not significant"],
    ),
    "one outlier": (
        lambda: board(OUTLIER),
        [
            "'A' is first of 2",
            "The difference from 'B' is not significant, and 'B' is ahead in 29 of 30 patients.",
            "Without patient P29 the first rank would change.",
        ],
        ["better than", "agree", "would show it"],
    ),
    "cyclic": (lambda: board(CYCLIC), ["is not significant"], ["better than", "No single"]),
    "one patient": (
        lambda: board(DOMINANT[:, :1]),
        ["'A' ranks first in the one patient; 1 patient is too few for a significance test (6 are the least)."],
        ["better than", "decides", "significant;", "samples"],
    ),
    "two patients": (
        lambda: board(DOMINANT[:, :2]),
        ["in all 2 patients; 2 patients are too few"],
        ["not significant", "samples"],
    ),
    "four patients": (
        lambda: board(DOMINANT[:2, :4]),
        ["'A' is better than 'B' in all 4 patients; 4 patients are too few for a significance test (6 are the least)."],
        ["not significant", "samples"],
    ),
    "four patients, one of them lost and one shared": (
        lambda: board([[0.9, 0.9, 0.5, 0.7], [0.8, 0.8, 0.6, 0.7]]),
        ["'A' is better than 'B' in 2 of 4 patients and as good in 1; 4 patients are too few"],
        [],
    ),
    "four patients, two columns": (
        lambda: board(np.stack([DOMINANT[:2, :4], DOMINANT[:2, :4]], axis=1)),
        ["'A' ranks first in all 4 patients; 4"],
        ["better than"],
    ),
    "equal in one of two columns": (
        lambda: board(np.stack([ALIKE[:2], [LEVELS, LEVELS]], axis=1)),
        [
            "'B' is first of 2 teams.",
            "The difference from 'A' is not significant.",
        ],
        ["no more than the margin", "same values"],
    ),
    "ties": (
        lambda: board([LEVELS, LEVELS, LEVELS - 0.2]),
        [
            "'A' and 'B' share the first rank of 3 teams.",
            "'B' has the same values as 'A'.",
            "In 100 % of the bootstrap samples of these 30 patients the teams have this order.",
        ],
        ["'A' is first", "margin"],
    ),
    "all equal": (
        lambda: board([LEVELS] * 3),
        ["'A', 'B' and 'C' share the first rank of 3 teams", "'B' and 'C' have the same values as 'A'."],
        ["better than"],
    ),
    "one column decides": (
        lambda: board(ONE_COLUMN),
        ["better than 'C' and 'B' in column c0.", "is first alone, and in", "it shares the first rank."],
        ["at least one"],
    ),
    "a column opposes": (
        lambda: board(OPPOSED),
        [
            "'A' is significantly better than 'B' and 'C' in at least one of 3 columns; "
            "'B' and 'C' are significantly better than 'A' in column c2."
        ],
        ["but", "But"],
    ),
    "cherry-picker": (
        lambda: board([[0.99] + [np.nan] * 29, LEVELS, LEVELS - 0.2]),
        ["'A' is first of 3 teams; 'A' lacks 29 of 30 values.", "1 common patient is too few"],
        ["better than"],
    ),
    "one team": (lambda: board(DOMINANT[:1]), ["'A' is first of 1 team."], ["samples", "better"]),
    "no value": (lambda: board(np.full((2, 5), np.nan) * 1.0), ["No team is ranked."], ["first"]),
    "one of three without a value": (
        lambda: board([LEVELS, LEVELS - 0.2, [np.nan] * 30]),
        ["'C' lacks 30 of 30 values.", "better than 'B'; 'C' and 'A' have no values in common: too few for a test."],
        ["not significant"],
    ),
    "patients missing": (
        lambda: board(np.where(np.arange(30) % 7, DOMINANT, np.nan)),
        ["'A' is first of 3 teams.", "better than 'B' and 'C'"],
        ["lacks"],
    ),
    "two dominant groups": (
        lambda: board(np.vstack([DOMINANT[0] + 0.3 + noise(2, 30), LEVELS + noise(2, 30)])),
        ["better than 'C' and 'D'; the difference from 'A' is not significant"],
        [],
    ),
    "many teams": (
        lambda: board(np.linspace(0.6, 0, 8)[:, None] + LEVELS + noise(8, 30, size=0.01)),
        ["first of 8 teams", "better than all 7 other teams."],
        [],
    ),
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", CASES)
def test_the_verdict_of_a_board_whose_truth_is_known(name: str) -> None:
    make, says, never = CASES[name]
    verdict = make()["verdict"]
    assert len(verdict) <= 5
    text = " ".join(verdict)
    assert [part for part in says if part not in text] == [], text
    assert [part for part in never if part in text] == [], text


@pytest.mark.parametrize("teams", [60, 210])
def test_of_many_teams_those_are_compared_with_the_first(teams: int) -> None:
    """Each team is a little behind the one before it, in every patient; in the other column all are equal."""
    values = np.zeros((teams, 2, 30)) + LEVELS
    values[:, 0] -= np.arange(teams)[:, None] / 1000
    document = board(values, samples=100)
    assert {of["first"] for of in document["columns"][0]["differences"]} == {"A0"}
    beaten = f"'A0' is significantly better than all {teams - 1} other teams in column c0."
    assert beaten in document["verdict"], document["verdict"]
    near = " ".join(board(LEVELS + noise(teams, 1, 30), samples=100)["verdict"])
    assert f"{teams - 4} more is not significant" in near and "better than" not in near, near


def test_pairs_with_one_team_are_those_of_all_pairs() -> None:
    every = paired_differences(DOMINANT, higher_is_better=True, level=0.05)
    chosen = paired_differences(DOMINANT, higher_is_better=True, level=0.05, rows=[1])
    for name in ("units", "mean", "low", "high", "effect", "ahead"):
        assert np.array_equal(getattr(every, name)[[1]], getattr(chosen, name)), name


def test_differences_are_those_of_scipy() -> None:
    found = paired_differences(DOMINANT, higher_is_better=False, level=0.05)
    expected = ttest_rel(DOMINANT[1], DOMINANT[0]).confidence_interval(1 - 0.05 / 3)
    assert (found.low[0, 1], found.high[0, 1]) == pytest.approx(tuple(expected))
    apart = DOMINANT[1] - DOMINANT[0]
    assert found.effect[0, 1] == pytest.approx(apart.mean() / apart.std(ddof=1))
    assert found.ahead[0, 1] == (apart > 0).mean()
    assert (found.mean == -found.mean.T).all()


@pytest.mark.parametrize("values, margin, inside", [
    (DOMINANT, 0.05, False),
    (DOMINANT, 0.5, True),
    # Rounded values can differ by the same everywhere by chance: 1/16 in five patients, 1/32 in six.
    ([[0.8] * 5, [0.7] * 5], 0.1, False),
    ([[0.8] * 6, [0.7] * 6], 0.1, True),
    ([[(0.1 + 0.2 + 0.3) / 3] * 6, [(0.3 + 0.2 + 0.1) / 3] * 6], 0.0, True),  # added up in another order
    ([[0.9, np.nan], [0.8, 0.7]], 1.0, False),  # one common patient
])  # fmt: skip
def test_a_difference_lies_within_the_margin_if_its_interval_does(values: Any, margin: float, inside: bool) -> None:
    of = np.array(values, float)
    found = paired_differences(of, higher_is_better=True, level=0.05)
    assert found.within(margin + 1e-12)[0, 1] == inside
    common = ~np.isnan(of[:2]).any(axis=0)
    assert found.mean[0, 1] == pytest.approx((of[0] - of[1])[common].mean())
    assert (found.units[0, 1], np.isnan(found.low[0, 1])) == (common.sum(), common.sum() == 1)


def test_of_a_ranking_that_is_not_that_of_the_samples_nothing_is_said_of_them() -> None:
    """The published numbers are others than the means of the patients, as pooled ones are."""
    overall, teams = np.array([[0.4], [0.6]]), ("A", "B")
    table = score_table(DOMINANT[:2, None], teams=teams, columns=("f.pq.pooled",), overall=overall)
    document = leaderboard_document(ranked(table))
    assert document["verdict"][:3] == [
        "'B' is first of 2 teams.",
        "'A' is significantly better than 'B' in f PQ (mean over patients).",
        "How often 'B' would be first in bootstrap samples is not known: "
        "f PQ cannot be computed again for samples of the patients.",
    ]
    assert document["teams"][0]["probability_of_first"] is None


def test_shares_are_not_rounded_to_certainty() -> None:
    assert [share_text(value) for value in (0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "0 %", "less than 1 %", "50 %", "more than 99 %", "100 %"
    ]  # fmt: skip


def test_one_unit_is_called_what_it_is_and_one_team_is_one_team() -> None:
    document = board(DOMINANT[:, :1])
    document["units"]["kind"] = "cases"
    assert why_no_samples(document) == "there is one case only"
    assert "1 case is too few" in " ".join(verdict_sentences(document))


# --- what a verdict claims holds on boards of known truth: made ones, whose seeds are parameters ----------------------


def board_document(values: np.ndarray) -> dict[str, Any]:
    """leaderboard.json of teams T0, T1, …, float (T, K, G)."""
    names = tuple(f"T{team}" for team in range(len(values)))
    columns = tuple(f"column.c{index}" for index in range(values.shape[1]))
    units = tuple(f"P{unit:02}" for unit in range(values.shape[2]))
    table = score_table(values, teams=names, columns=columns, units=units, overall=np.round(mean(values), 6))
    return leaderboard_document(ranked(table, samples=100))


@cache
def drawn_board(name: str, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Teams and patients in number by chance, and how much better each team is."""
    random = np.random.default_rng([seed, BOARDS.index(name)])
    teams, units, columns = random.integers(2, 11), random.integers(4, 51), random.integers(1, 4)
    values = board_of_equals(name, random, teams, units, columns) + random.normal(0, 0.03, (teams, columns, 1))
    return values, board_document(values)


def places(values: np.ndarray) -> np.ndarray:
    """Of teams by values (T, K): those of the sum of ranks. A team without a value is last."""
    lowest = np.where(np.isnan(values), -np.inf, np.round(values, 6))
    return rankdata(rankdata(-lowest, method="min", axis=0).sum(axis=1).round(9), method="min")


def mean(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    total = np.where(known, values, 0).sum(axis=-1)
    return np.where(known.any(axis=-1), total / np.maximum(known.sum(axis=-1), 1), np.nan)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BOARDS)
def test_each_sentence_that_counts_is_right(name: str, seed: int) -> None:
    """Who is first, in how many patients, in which samples, and without which patient: counted again, literally."""
    values, document = drawn_board(name, seed)
    text, names = " ".join(document["verdict"]), [f"T{team}" for team in range(len(values))]
    units = values.shape[-1]
    first = {names[team] for team in np.flatnonzero(places(mean(values)) == 1)}
    said = re.match(r"(.*?) (?:is first|share the first rank) of", document["verdict"][0])
    assert (
        said
        and set(re.findall(r"'(T\d)'", said[1])) <= first
        and len(first) == sum(team["position"] == 1 for team in document["teams"])
    )
    without = [
        index for index in range(units) if {names[team] for team in
        np.flatnonzero(places(mean(np.delete(values, index, axis=-1))) == 1)} != first
    ]  # fmt: skip
    if units < 6:
        assert "significant;" not in text and "significantly" not in text and "too few" in text
    if units < 5:
        assert "samples" not in text and "decides" not in text
    elif not without:
        assert "No single patient decides the first rank." in text
    elif len(without) == 1:
        assert f"Without patient P{without[0]:02} the first rank would change." in text
    else:
        assert f"Without any one of {len(without)} patients (P{without[0]:02}" in text
    lead = document["teams"][0]
    if units >= 5 and len(first) == 1:
        drawn = np.random.default_rng(seed).integers(0, units, (400, units))
        own = names.index(lead["name"])
        found = np.array([places(mean(values[..., sample])) for sample in drawn])
        best = found == 1
        alone = (best[:, own] & (best.sum(axis=1) == 1)).mean()
        assert abs(alone - lead["first_alone"]) < 0.26  # 100 samples here, 400 there: 4 standard errors
    assert not re.search(r"(^|[.;] )[Bb]ut ", text) and "cannot be told apart" not in text
    assert len(document["verdict"]) <= 5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BOARDS)
def test_the_sentence_about_methods_counts_orders_and_who_is_first(name: str, seed: int) -> None:
    """Counted again from the ranks under each method: orders, others alone, others beside, some of the same."""
    _, document = drawn_board(name, seed)
    names = [team["name"] for team in document["teams"]]
    first = {team["name"] for team in document["teams"] if team["position"] == document["teams"][0]["position"]}
    orders: dict[tuple[int, ...], set[str]] = {}
    for method in document["methods"]:
        places = [np.inf if place is None else place for place in method["places"]]
        order = tuple(int(place) for place in rankdata(places, method="min"))
        orders[order] = {name for name, place in zip(names, order, strict=True) if place == 1}
    sentence = next(of for of in document["verdict"] if "methods of ranking" in of)
    if all(of == first for of in orders.values()):
        assert sentence == f"All {len(document['methods'])} methods of ranking agree on the first rank."
        return
    assert f"{len(document['methods'])} methods of ranking give {len(orders)} different orders" in sentence
    for words, expected in (
        ("another team is first", sum(not of & first for of in orders.values())),
        ("others share the first rank", sum(bool(of & first and of - first) for of in orders.values())),
        ("only some of those who share the first rank are first", sum(of < first for of in orders.values())),
    ):
        found = re.search(rf"{words} in (\d+)", sentence)
        assert (int(found[1]) if found else 0) == expected, (sentence, orders)


def test_the_share_of_samples_is_no_forecast() -> None:
    """Of two equal teams and ten patients the first one is first in about 77 % of the samples, where 50 % is true."""
    shares = []
    for seed in range(40):
        document = board_document(board_of_equals("all alike", np.random.default_rng(seed), 2, 10, 1))
        shares.append(document["teams"][0]["first_alone"])
    assert 0.73 < np.mean(shares) < 0.82
