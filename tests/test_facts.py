"""The facts of a board: each is true of it, and the same on terminal, page, in the file and in Python."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import ranked, ranking_by, score_table
from rich.console import Console
from scipy.stats import rankdata, ttest_rel

from benchmarks.claims import BOARDS, board_of_equals
from evaluation.board.board import build_board
from evaluation.board.document import leaderboard_document
from evaluation.board.facts import facts_of, why_no_samples
from evaluation.board.titles import short_titles
from evaluation.challenge.rules import RankingRules
from evaluation.commands.main import run
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.terminal import section_renderables
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


def facts(document: dict[str, Any]) -> dict[str, str]:
    """What is known, by what it is of: the value and, behind a bar, what it rests on."""
    return {one["fact"]: f"{one['value']} | {one['rests_on']}" for one in document["facts"]}


CASES: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, str], tuple[str, ...]]] = {  # parts, and what is absent
    "dominant": (
        lambda: board(DOMINANT),
        {
            "first": r"'A' sum of ranks 1 \('B' 2 and 'C' 3\) \| 3 teams, 1 column, 30 patients",
            "significance": r"p = 0.0001 against 'B', significant.* \| signs of whole",
            "column c0": r"'A' 0.\d+ ahead of 'B' \(0.\d+ to 0.\d+\), p = 0.0001, significant",
            "rank set": r"'A': rank 1 of 3 \| 0 teams significantly better, 2 teams significantly worse",
            "first in other methods": r"in 6 of 6 \| ",
        },
        ("decided by",),
    ),
    "medians": (
        lambda: board(DOMINANT, method="aggregate_then_rank", aggregate="median"),
        {"column c0": r"mean difference over 30 patients; ahead in [\d.]+; ranked by the median"},
        (),
    ),
    "indistinguishable": (
        lambda: board(ALIKE),
        {"rank set": "rank 1 to 3 of 3", "decided by": r"without any one of \d+ patients \(P"},
        (),
    ),
    "near-identical beside one that is far": (lambda: board(NEAR, margin=0.01), {"column c0": "within the margin"}, ()),
    "one outlier": (
        lambda: board(OUTLIER),
        {
            "column c0": r"'A' .* ahead of 'B' .* \| mean difference over 30 patients; ahead in 1$",
            "first in other methods": "in 4 of 5; 'B' in 1 ",
            "decided by": "without patient P29 the first rank changes",
        },
        (),
    ),
    "one patient": (
        lambda: board(DOMINANT[:, :1]),
        {"significance": r"too few for the test \| 1 patient; the test needs 6"},
        ("rank set",),
    ),
    "four patients": (
        lambda: board(DOMINANT[:2, :4]),
        {"significance": r"too few for the test \| 4 patients; the test needs 6", "column c0": "ahead in 4$"},
        (),
    ),
    "ties": (
        lambda: board([LEVELS, LEVELS, LEVELS - 0.2]),
        {
            "first": r"'A' and 'B' share the first rank: sum of ranks 1 \('C' 3\)",
            "column c0": "'A' and 'B' have the same mean",
        },
        (),
    ),
    "a column opposes": (
        lambda: board(OPPOSED),
        {
            "column c0": "'A' .* ahead of 'B' .* significant",
            "column c2": "'C' .* ahead of 'A' .* significant",
            "columns together": "against 'B'",
        },
        (),
    ),
    "cherry-picker": (
        lambda: board([[0.99] + [np.nan] * 29, LEVELS, LEVELS - 0.2]),
        {"first": "'A' sum", "decided by": "'A' lacks 29 of 30 values, without a rank in the column"},
        (),
    ),
    "one team": (
        lambda: board(DOMINANT[:1]),
        {"first": r"'A' sum of ranks 1 \| 1 team, "},
        ("significance", "rank set"),
    ),
    "no value": (lambda: board(np.full((2, 5), np.nan)), {}, ("first", "significance")),
    "the declared test": (
        lambda: board(DOMINANT, test="wilcoxon_holm"),
        {"significance": r"significant.*\| Wilcoxon and Holm; 30 patients"},
        (),
    ),
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", CASES)
def test_the_facts_of_a_board_whose_truth_is_known(name: str) -> None:
    make, says, absent = CASES[name]
    known = facts(make())
    for fact, pattern in says.items():
        assert re.search(pattern, known.get(fact, "")), known
    assert not set(absent) & set(known), known


def test_what_decides_is_told_by_the_rule_without_which_others_are_first() -> None:
    """B is better by far, but below the minimum; B weighs little; A lacks what it would win by."""
    rules = {"require": ({"path": "column.c0", "at_least": 0.5},), "columns": columns_of(2)}
    low, high = np.full((2, 8), 0.6) + noise(2, 8), np.full((2, 8), 0.9) + noise(2, 8)
    low[0], high[0] = 0.7, 0.4
    floor = board_with(np.stack([low, high]), **rules, floor=0)
    assert leaders_of(floor) == ["A"] and "without the minimum 'A' and 'B' first" in facts(floor)["decided by"]
    opposed = np.stack([[LEVELS + 0.1, LEVELS], [LEVELS, LEVELS + 0.1]])
    weighted = board_with(opposed, columns=columns_of(2, weights=(1, 3)), weights=[1.0, 3.0])
    assert leaders_of(weighted) == ["B"] and "with equal weights 'A' and 'B' first" in facts(weighted)["decided by"]
    equal = board_with(opposed, columns=columns_of(2))
    assert "decided by" not in facts(equal) or "weights" not in facts(equal)["decided by"]


def test_gaps_are_counted_over_all_columns_and_told_if_they_decide(tmp_path: Path) -> None:
    """The board of the study: A is better in every column where it has a value, and lacks four of each twelve."""
    rows = [f"{team},c{case},{metric},{0.9 - 0.1 * place + case / 1000}" for place, team in enumerate("AB")
            for case in range(12) for metric in ("dice", "iou") if team == "B" or case >= 4]  # fmt: skip
    (tmp_path / "scores.csv").write_text("\n".join(["team,case,metric,value", *rows, ""]))
    columns = ["--column", "dice:descending", "--column", "iou:descending"]
    assert run(["rank", "--scores", str(tmp_path / "scores.csv"), *columns, "--output", str(tmp_path / "out")]) == 0
    document = json.loads((tmp_path / "out/leaderboard.json").read_text())
    assert leaders_of(document) == ["B"]
    decided = facts(document)["decided by"]
    assert "on the cases that all teams have 'A' first" in decided
    assert "'A' lacks 8 of 24 values, counted as the worst" in decided


def leaders_of(document: dict[str, Any]) -> list[str]:
    return [team["name"] for team in document["teams"] if team["position"] == document["teams"][0]["position"]]


def columns_of(number: int, weights: tuple[float, ...] = ()) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"path": f"column.c{place}", "direction": "descending", "weight": (weights or (1,) * number)[place]}
        for place in range(number)
    )


def board_with(values: np.ndarray, *, columns: Any, floor: int | None = None, weights: Any = 1.0, **more: Any) -> Any:
    """leaderboard.json under rules of its own; ``floor``: the column that has a minimum of 0.5."""
    overall = np.round(values.mean(axis=2), 6)
    floors = {} if floor is None else {
        "floors": (f"column.c{floor}",), "at_least": (0.5,), "floor_values": overall[:, [floor]]
    }  # fmt: skip
    table = score_table(
        values, teams=tuple("ABCD"[: len(values)]), columns=tuple(one["path"] for one in columns), overall=overall,
        weights=weights, **floors,
    )  # fmt: skip
    rules = RankingRules.model_validate(ranking_by(*(one["path"] for one in columns)) | {"columns": columns, **more})
    return leaderboard_document(build_board(table, rules.model_copy(update={"samples": 100})))


@pytest.mark.parametrize("teams", [60, 210])
def test_of_many_teams_those_are_compared_with_the_first(teams: int) -> None:
    """Each team is a little behind the one before it, in every patient; in the other column all are equal."""
    values = np.zeros((teams, 2, 30)) + LEVELS
    values[:, 0] -= np.arange(teams)[:, None] / 1000
    document = board(values, samples=100)
    assert {of["first"] for of in document["columns"][0]["differences"]} == {"A0"}
    known = facts(document)
    assert re.search(r"'A0' 0.0010 ahead of 'A1' .*significant", known["column c0"]), known


def test_teams_with_the_same_values_are_equal_in_all_patients_and_within_no_margin() -> None:
    document = board(np.tile(np.linspace(0.4, 0.9, 8), (2, 1)), samples=100)
    assert facts(document)["column c0"].endswith("p = 1 | mean difference over 8 patients; equal in all")


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


def test_of_a_ranking_that_is_not_that_of_the_samples_the_difference_says_what_it_is_the_mean_of() -> None:
    """The published numbers are others than the means of the patients, as pooled ones are."""
    overall, teams = np.array([[0.4], [0.6]]), ("A", "B")
    table = score_table(DOMINANT[:2, None], teams=teams, columns=("f.pq.pooled",), overall=overall)
    document = leaderboard_document(ranked(table))
    assert leaders_of(document) == ["B"]
    assert re.search(r"'A' 0.\d+ ahead of 'B' .*significant \| mean difference over 30", facts(document)["f PQ"])
    assert "significant" not in facts(document)["significance"].partition(" |")[0].replace("in favour", "")
    assert why_no_samples(document) == "f PQ cannot be computed again for samples of the patients"
    assert document["teams"][0]["probability_of_first"] is None


def test_one_unit_is_called_what_it_is_and_one_team_is_one_team() -> None:
    document = board(DOMINANT[:, :1])
    document["units"]["kind"] = "cases"
    assert why_no_samples(document) == "there is one case only"
    assert "1 case; the test needs 6" in " ".join(fact.rests_on for fact in facts_of(document))


# --- what facts claim holds on boards of known truth: made ones, whose seeds are parameters ---------------------------


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


WALKED = [(name, seed) for name in BOARDS for seed in range(2)]
STUDIED = ("equalgap", "gap4", "holm10", "outlier")


@pytest.mark.parametrize(("name", "seed"), WALKED)
def test_each_fact_is_what_a_literal_count_says(name: str, seed: int) -> None:
    """Who is first, by how much and in how many patients, under which methods, and without which patient."""
    values, document = drawn_board(name, seed)
    known, names = facts(document), [f"T{team}" for team in range(len(values))]
    units = values.shape[-1]
    first = {names[team] for team in np.flatnonzero(places(mean(values)) == 1)}
    assert set(re.findall(r"'(T\d)'", re.split("share|sum", known["first"])[0])) <= first
    assert len(first) == len(leaders_of(document))
    few = "too few" in " ".join(known.values())
    assert few == (units < 6)
    for index, column in enumerate(document["columns"]):
        text = known.get(column["path"].replace(".", " "))
        if text is None or not (said := re.match(r"'(T\d)' ([\d.]+) ahead of '(T\d)'", text)):
            continue
        ahead, behind = (values[names.index(said[place]), index] for place in (1, 3))
        difference = (ahead - behind)[~np.isnan(ahead - behind)]
        assert abs(difference.mean() - float(said[2])) < 6e-5
        wins = (difference > 0).sum() + (difference == 0).sum() / 2
        assert f"mean difference over {len(difference)} patient" in text and text.endswith(f"ahead in {wins:g}")
    without = [
        index for index in range(units) if {names[team] for team in
        np.flatnonzero(places(mean(np.delete(values, index, axis=-1))) == 1)} != first
    ]  # fmt: skip
    decided = known.get("decided by", "")
    if document["stability"]["undefined"] is None:
        assert (f"without patient P{without[0]:02} another" in decided) if len(without) == 1 else True
        assert (f"without any one of {len(without)} patients (P" in decided) == (len(without) > 1)
    others = [one for one in document["methods"] if one["method"] != "sum_of_ranks"]
    same = [
        one["method"] for one in others
        if {team["name"] for team, place in zip(document["teams"], one["places"], strict=True)
            if place == min(p for p in one["places"] if p is not None)} == set(leaders_of(document))
    ]  # fmt: skip
    assert known["first in other methods"].startswith(f"in {len(same)} of {len(others)}")


def rendered(document: dict[str, Any]) -> tuple[str, str]:
    """All that the terminal prints of the page of a board, and the page, as plain text on one line each."""
    page = leaderboard_page(document)
    stream = io.StringIO()
    console = Console(file=stream, width=4000, highlight=False)
    for section in page.sections:
        for part in section_renderables(section):
            console.print(part)
    text = html.unescape(re.sub(r"<[^>]+>", " ", page_html(page)))
    return " ".join(stream.getvalue().split()), " ".join(text.split())


def claims_in(document: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Every pair of which a column says that the first is significantly better: (column, better, worse)."""
    found = set()
    for column in document["columns"]:
        tested = column["significance"]
        for team in (tested or {}).get("teams", ()):
            found |= {(column["path"], team["name"], other) for other in team["better_than"]}
    return found


def study_board(name: str, shared_study: Path, folder: Path) -> dict[str, Any]:
    source = shared_study / f"{name}.csv"
    metrics = sorted({line.split(",")[-2] for line in source.read_text().splitlines()[1:]})
    columns = [part for metric in metrics for part in ("--column", f"{metric}:descending")]
    assert run(["rank", "--scores", str(source), *columns, "--output", str(folder)]) == 0
    document: dict[str, Any] = json.loads((folder / "leaderboard.json").read_text())
    return document


def check_that_all_screens_agree(document: dict[str, Any]) -> None:
    """No fact, table or page of one board contradicts another."""
    terminal, page = rendered(document)
    assert [fact["fact"] for fact in document["facts"]] == [fact.fact for fact in facts_of(document)]
    for fact in document["facts"]:
        for part in (fact["value"], fact["rests_on"]):
            assert " ".join(part.split()) in terminal and " ".join(part.split()) in page, part
    known, claims = facts(document), claims_in(document)
    kinds = {fact["fact"] for fact in document["facts"]} - set(short_titles([c["path"] for c in document["columns"]]))
    assert len(kinds) + 1 <= 6, kinds
    for column in document["columns"]:
        tested = column["significance"]
        if not tested or tested["undefined"]:
            continue
        for pair in column.get("differences", ()):
            winner = {"better": (pair["first"], pair["second"]), "worse": (pair["second"], pair["first"])}
            stated = winner.get(pair["verdict"])
            said = {claim[1:] for claim in claims if claim[0] == column["path"]} & {
                (pair["first"], pair["second"]), (pair["second"], pair["first"])
            }  # fmt: skip
            if len(document["teams"]) <= 50:
                assert said == ({stated} if stated else set()), (column["path"], pair)
            if pair["units"] < tested["least_units"]:
                assert not stated
    titles = dict(zip(short_titles([c["path"] for c in document["columns"]]), document["columns"], strict=True))
    for title, column in titles.items():
        text = known.get(title, "").partition(" |")[0]
        names = re.findall(r"'([^']+)'", text)
        if " ahead of " not in text:
            continue
        said = {(column["path"], names[2], names[0])} if "significant:" in text else set()
        said |= {(column["path"], names[0], names[1])} if text.endswith(", significant") else set()
        pairs = {(column["path"], names[0], names[1]), (column["path"], names[1], names[0])}
        assert said == claims & pairs, text
    leader, together = document["teams"][0], document["together"]
    if together:
        tested = next(team for team in together["teams"] if team["name"] == leader["name"])
        text = known.get("columns together", known.get("significance", ""))
        for other in re.findall(r"against '([^']+)', significant", text):
            assert other in tested["better_than"]
        low, high = leader["rank_set"]["low"], leader["rank_set"]["high"]
        assert low == 1 + len(tested["worse_than"]) and high == len(document["teams"]) - len(tested["better_than"])
        if "rank set" in known:
            assert known["rank set"].startswith(f"'{leader['name']}': rank {low}")
    if "too few" in " ".join(known.values()):
        assert not claims and "significantly better in" not in terminal


@pytest.mark.parametrize(("name", "seed"), WALKED)
def test_terminal_page_and_file_of_a_made_board_agree_in_every_claim(name: str, seed: int) -> None:
    check_that_all_screens_agree(drawn_board(name, seed)[1])


@pytest.mark.parametrize("test", ["sign_flips", "wilcoxon_holm", "friedman_nemenyi"])
@pytest.mark.parametrize("values", ["DOMINANT", "OUTLIER", "OPPOSED", "ONE_COLUMN", "CYCLIC"])
def test_screens_agree_under_every_declared_test(values: str, test: str) -> None:
    check_that_all_screens_agree(board(globals()[values], test=test))


@pytest.mark.parametrize("test, units, told", [
    ("wilcoxon_holm", 60, "; normal approximation)"), ("wilcoxon_holm", 12, "; exact)"),
    ("friedman_nemenyi", 60, ", chi-squared approximation)"), ("sign_flips", 60, "; from drawn signs)"),
    ("sign_flips", 8, "; exact)"),
])  # fmt: skip
def test_a_page_names_the_distribution_of_its_p_values(test: str, units: int, told: str) -> None:
    values = np.random.default_rng(3).normal(size=(3, units))
    assert told in page_html(leaderboard_page(board(values, test=test)))


@pytest.mark.real_data
@pytest.mark.parametrize("name", STUDIED)
def test_screens_of_the_boards_that_contradicted_themselves_agree(name: str, shared_data: Path, tmp_path: Path) -> None:
    boards = shared_data.parent / "study" / "boards"
    if not boards.is_dir():
        pytest.skip("the boards of the study are not there")
    check_that_all_screens_agree(study_board(name, boards, tmp_path))


def test_the_share_of_samples_is_no_forecast() -> None:
    """Of two equal teams and ten patients the first one is first in about 77% of the samples, where 50% is true."""
    shares = []
    for seed in range(40):
        document = board_document(board_of_equals("all alike", np.random.default_rng(seed), 2, 10, 1))
        shares.append(document["teams"][0]["first_alone"])
    assert 0.73 < np.mean(shares) < 0.82
