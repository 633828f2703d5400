"""The command 'rank': from folders of results, from files of the platform, and from a table of scores as CSV."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import ranking_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluation import Challenge
from evaluation.board.board import DEFAULT_RANKING, rank_given
from evaluation.board.document import leaderboard_document
from evaluation.board.rules import parse_columns
from evaluation.board.score_csv import read_scores
from evaluation.challenge.rules import RankingRules
from evaluation.commands import main as cli
from evaluation.commands.main import run
from evaluation.files.results.documents import as_json
from evaluation.findings.errors import ChallengeBroken, WrongUsage
from evaluation.scoring.score import check_columns

HEADER = "team,case,group,metric,value"


@pytest.fixture(scope="module")
def results(board: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of the three teams that were scored, not to be changed."""
    return Path(shutil.copytree(board / "results", tmp_path_factory.mktemp("results") / "of_teams",
                                ignore=shutil.ignore_patterns("empty")))  # fmt: skip


@pytest.fixture
def copied(results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(results, tmp_path / "results"))


def rank(folder: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit code of the command, and what it wrote."""
    code = cli.run(["rank", "--output", str(folder / "board"), *map(str, arguments)])
    path = folder / "board/leaderboard.json"
    return code, json.loads(path.read_text(), parse_constant=pytest.fail) if path.exists() else {}


def test_the_page_shows_all_families_of_given_results_side_by_side(made, results, tmp_path, capsys):
    code, document = rank(tmp_path, "--challenge", made.challenge, "--results", results, "--report")
    assert code == 0
    page = (tmp_path / "board/leaderboard.html").read_text()
    tables = page.split('id="scores-detection"')[1].split("<h2")[0]
    for team in document["teams"]:
        metrics = json.loads((results / team["name"] / "metrics.json").read_text())
        for path in ("detection.precision", "classification.accuracy", "segmentation.iou_class_mean", "panoptic.sq"):
            family, name = path.split(".")
            assert f'data-value="{metrics[family][name]["group_mean"]}"' in tables
    assert "All teams side by side" in capsys.readouterr().out


def rank_csv(folder: Path, *rows: str, header: str = HEADER, columns: str = "pq:descending", more: Any = ()) -> Any:
    (folder / "scores.csv").write_text("\n".join([header, *rows, ""]))
    of_columns = [part for column in columns.split() for part in ("--column", column)]
    return rank(folder, "--scores", folder / "scores.csv", *of_columns, *more)


def places(document: dict[str, Any]) -> dict[str, float]:
    return {team["name"]: team["position"] for team in document["teams"]}


def values(document: dict[str, Any], column: int = 0) -> dict[str, float]:
    return {team["name"]: team["columns"][column]["value"] for team in document["teams"]}


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_are_ranked_as_the_leaderboard_of_their_submissions(made, board, tmp_path) -> None:
    """A rejected team of the leaderboard is still told."""
    for folder in (board, board / "results"):
        code, found = rank(tmp_path, "--challenge", made.challenge, "--results", folder)
        assert (code, [row["code"] for row in found["not_ranked"]]) == (0, ["empty-submission"])
        for name in ("leaderboard.json", "leaderboard.csv"):
            assert (tmp_path / "board" / name).read_bytes() == (board / name).read_bytes()


def test_downloaded_files_at_any_depth_are_ranked_by_their_means(made, copied, tmp_path) -> None:
    """So are all results if one of them lacks its details; and groups alone cannot be ranked without them."""
    downloads, arguments = tmp_path / "downloads", ("--challenge", made.challenge, "--results")
    for place in ("june/outliner/metrics.json", "finder.json", "late/namer.json"):
        (downloads / place).parent.mkdir(parents=True, exist_ok=True)
        team = Path(place).parent.name if place.endswith("metrics.json") else Path(place).stem
        metrics = json.loads((copied / team / "metrics.json").read_text())
        assert as_json(metrics) == (copied / team / "metrics.json").read_text()
        (downloads / place).write_text(json.dumps(metrics))  # copied through another JSON writer
    (copied / "namer/details.json").unlink()
    for folder in (downloads, copied):
        code, found = rank(tmp_path, *arguments, folder)
        assert (code, places(found)) == (0, {"outliner": 1, "finder": 2, "namer": 3})
        assert (found["stability"]["undefined"], found["columns"][0]["significance"]) == ("no-units", None)
        assert found["teams"][0]["rank_interval"] is None
        for setting in ("method=test_then_rank", "ex_aequo=true"):
            assert rank(tmp_path, *arguments, folder, "--set", setting)[0] == 2


def edited(path: Path, *keys: str | int, value: Any = None) -> None:
    """A JSON file with another value at a place; None: without it."""
    document = json.loads(path.read_text())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    if value is None:
        del inner[keys[-1]]
    path.write_text(json.dumps(document))


F1 = ("detection", "f1", "group_mean")


def with_an_odd_number(place: str, value: Any) -> Any:
    def change(folder: Path) -> None:
        metrics, details = folder / "namer/metrics.json", folder / "namer/details.json"
        if place == "groups of details.json":
            for rule, paths in json.loads(details.read_text())["score_paths"].items():
                edited(details, "groups", "P2", "rules", rule, "scores", paths.index("detection.f1"), value=value)
        elif place == "metrics in details.json":  # as the platform keeps them
            edited(details, "metrics", value=json.loads(metrics.read_text()))
            edited(details, "metrics", *F1, value=value)
        else:
            edited(metrics, *F1, value=value)
        if place == "metrics.json alone":
            details.unlink()

    return change


@pytest.mark.parametrize("change, code, place", [
    (lambda folder: (folder / "namer/metrics.json").write_text("{"), "not-json", "'namer/metrics.json'"),
    (lambda folder: edited(folder / "namer/metrics.json", *F1, value=np.nan), "not-json", "'namer/metrics.json'"),
    (lambda folder: edited(folder / "namer/metrics.json", *F1, value="high"), "not-metrics", "'namer/metrics.json'"),
    (lambda folder: (folder / "predictions.json").write_text("[]"), "not-metrics", "'predictions.json'"),
    (lambda folder: edited(folder / "namer/details.json", "challenge", "hash", value="0" * 64), "not-metrics",
     "'namer/details.json'"),
    (lambda folder: edited(folder / "namer/details.json", "groups", "P2"), "not-metrics", "'namer/details.json'"),
    (lambda folder: (folder / "namer/details.json").write_text('{"a": 1'), "not-metrics", "'namer/details.json'"),
    (lambda folder: (folder / "namer").rename(folder / "na[red]mer"), "invalid-team", "'na[red]mer'"),
    *((with_an_odd_number("metrics.json", odd), "not-metrics", "namer")
      for odd in (1e300, -1e308, 2**80, 9.1e18, True, [0.5], {"low": 0.5}, "0.5")),
    *((with_an_odd_number(place, odd), "not-metrics", "namer") for odd in (2**80, True)
      for place in ("groups of details.json", "metrics.json alone", "metrics in details.json")),
])  # fmt: skip
def test_a_damaged_result_is_left_out_and_the_others_are_ranked(made, copied, tmp_path, change, code, place) -> None:
    change(copied)
    status, document = rank(tmp_path, "--challenge", made.challenge, "--results", copied)
    ((found, reason),) = [(row["code"], row["reason"]) for row in document["not_ranked"]]
    assert (status, found, place in reason) == (0, code, True)
    left_out = set() if "predictions" in place else {"namer"}
    assert {team["name"] for team in document["teams"]} == set(made.submissions) - left_out


def test_the_largest_number_is_ranked(made, copied, tmp_path) -> None:
    for name in made.submissions:
        edited(copied / name / "metrics.json", *F1, value=1e18 if name == "namer" else -1e18)
    code, board = rank(tmp_path, "--challenge", made.challenge, "--results", copied)
    assert (code, values(board)["namer"]) == (0, 10**18)


def test_a_result_that_is_left_out_names_no_hidden_group(made, copied, tmp_path) -> None:
    challenge = Path(shutil.copytree(made.challenge, tmp_path / "challenge"))
    with (challenge / "challenge.toml").open("a") as rules:
        rules.write('\n[submission]\ncase_names = "hidden"\n')
    for path in copied.glob("*/*.json"):
        if path.stem in ("metrics", "details"):
            edited(path, "challenge", "hash", value=Challenge.load(challenge).hash)
    edited(copied / "namer/details.json", "groups", "P2", "rules", value=1)
    code, board = rank(tmp_path, "--challenge", challenge, "--results", copied)
    (row,) = board["not_ranked"]
    assert (code, row["code"], "P2" in row["reason"]) == (0, "not-metrics", False)


@pytest.mark.parametrize("change, codes, place", [
    (lambda folder: edited(folder / "namer/metrics.json", "challenge", "hash", value="0" * 64),
     ["different-challenges", "not-metrics"], "000000000000… in 'namer'"),
    (lambda folder: shutil.copyfile(folder / "namer/metrics.json", folder / "namer.json"),
     ["duplicate-team"], "'namer'"),  # names are looked at first
    (lambda folder: [path.write_text("{") for path in folder.rglob("metrics.json")],
     ["not-json", "not-metrics"], "'finder/metrics.json', 'namer/metrics.json', 'outliner/metrics.json'"),
    (lambda folder: shutil.rmtree(folder), ["no-submission"], "results"),
    (lambda folder: shutil.rmtree(folder) or folder.mkdir(), ["no-teams"], ""),
])  # fmt: skip
def test_results_that_cannot_be_ranked_are_told(made, copied, tmp_path, capsys, change, codes, place) -> None:
    (copied / "predictions.json").write_text("[]")
    change(copied)
    assert rank(tmp_path, "--challenge", made.challenge, "--results", copied)[0] == 2
    printed = capsys.readouterr().err
    assert sorted(set(re.findall(r"\[([a-z]+-[a-z]+)\]", printed))) == codes
    assert place in printed
    assert not (tmp_path / "board").exists()


def test_another_method_can_be_tried_without_a_change_of_the_challenge(made, results, tmp_path) -> None:
    settings = ("--set", "method=median_of_ranks", "--set", "samples=100")
    _, found = rank(tmp_path, "--challenge", made.challenge, "--results", results, *settings)
    assert (found["ranking"]["method"], found["ranking"]["samples"]) == ("median_of_ranks", 100)


@pytest.mark.parametrize("arguments, code", [
    ((), "missing-option"),
    (("--results", "r", "--scores", "s"), "missing-option"),
    (("--results", "r"), "missing-option"),
    (("--results", "r", "--challenge", "CHALLENGE", "--column", "a:ascending"), "contradictory-rules"),
    (("--scores", "s", "--challenge", "CHALLENGE", "--column", "a:ascending"), "contradictory-rules"),
    (("--scores", "s"), "no-submission"),
    (("--scores", "s", "--column", "a"), "invalid-rule"),
    (("--scores", "s", "--column", "a:up"), "invalid-rule"),
    (("--scores", "s", "--column", ":ascending"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending:0"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending:nan"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending", "--column", "a:descending"), "contradictory-rules"),
    (("--scores", "s", "--column", "a:ascending", "--set", "method"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending", "--set", "columns=[]"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending", "--set", "method=best"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending", "--set", "seeds=1"), "unknown-key"),
    (("--scores", "s", "--column", "a:ascending", "--set", "samples=1"), "invalid-rule"),
    (("--scores", "s", "--column", "a:ascending", "--column", "b:ascending", "--set", "method=absolute"),
     "invalid-rule"),
    (("--scores", "s", "--challenge", "nowhere"), "no-challenge"),
])  # fmt: skip
def test_wrong_options_are_told(made, tmp_path, capsys, arguments, code) -> None:
    given_arguments = [made.challenge if argument == "CHALLENGE" else argument for argument in arguments]
    assert rank(tmp_path, *given_arguments)[0] == 2
    assert f"[{code}]" in capsys.readouterr().err


# --- scores as CSV ----------------------------------------------------------------------------------------------------


TWO = ["alpha,a,P1,pq,0.9", "alpha,b,P2,pq,0.1", "alpha,c,P2,pq,0.3",
       "beta,a,P1,pq,0.6", "beta,b,P2,pq,0.4", "beta,c,P2,pq,0.45"]  # fmt: skip


@pytest.mark.parametrize("columns, more, expected, units", [
    # alpha: (0.9 + (0.1 + 0.3) / 2) / 2; beta: (0.6 + (0.4 + 0.45) / 2) / 2
    ("pq:descending", (), {"alpha": 0.55, "beta": 0.5125}, {"number": 2, "kind": "patients"}),
    ("pq.group_mean:descending", (), {"alpha": 0.55, "beta": 0.5125}, {"number": 2, "kind": "patients"}),
    # over the three cases alpha has 1.3 / 3 and beta 1.45 / 3
    ("pq.case_mean:descending", (), {"beta": 0.483333, "alpha": 0.433333}, {"number": 2, "kind": "patients"}),
    ("pq:descending", ("--unit", "case"), {"beta": 0.483333, "alpha": 0.433333}, {"number": 3, "kind": "cases"}),
])  # fmt: skip
def test_places_are_those_of_means_over_groups_or_cases(tmp_path, columns, more, expected, units) -> None:
    code, found = rank_csv(tmp_path, *TWO, columns=columns, more=more)
    assert (code, values(found), found["units"]) == (0, expected, units)
    assert [*places(found)] == [*expected]
    equal = [row.replace("0.45", "0.6") for row in TWO]
    if columns == "pq:descending" and not more:
        assert places(rank_csv(tmp_path, *equal)[1]) == {"alpha": 1, "beta": 1}


def test_every_case_is_a_group_where_none_is_given(tmp_path) -> None:
    rows = ["alpha,a,pq,0.5", "alpha,b,pq,0.7", "beta,a,pq,0.6", "beta,b,pq,0.5"]
    _, found = rank_csv(tmp_path, *rows, header="team,case,metric,value")
    assert values(found) == {"alpha": 0.6, "beta": 0.55}
    assert found["units"] == {"number": 2, "kind": "cases"}


def test_columns_have_directions_and_weights(tmp_path) -> None:
    """pq: 1, 2, 3; hd: 3, 2, 1, with twice the weight: 7, 6, 5."""
    rows = [
        f"{team},a,P1,{metric},{3 - n}" for n, team in enumerate(("alpha", "beta", "gamma")) for metric in ("pq", "hd")
    ]
    _, found = rank_csv(tmp_path, *rows, columns="pq:descending hd:ascending:2")
    combined = {team["name"]: (team["position"], team["combined"]) for team in found["teams"]}
    assert combined == {"gamma": (1, 5), "beta": (2, 6), "alpha": (3, 7)}


FOUR = ["alpha,a,P1,pq,0.5", "alpha,b,P2,pq,0.1", "beta,a,P1,pq,0.4", "beta,b,P2,pq,0.4"]
METHODS = ("sum_of_ranks", "absolute", "aggregate_then_rank", "rank_then_aggregate", "test_then_rank")


@pytest.mark.parametrize("missing", ["worst", "unranked", "complete_cases"])
def test_a_row_that_is_absent_and_an_empty_cell_are_the_same(tmp_path, missing) -> None:
    for method in METHODS[:-1]:
        more = ("--set", f"missing={missing}", "--set", f"method={method}")
        _, empty = rank_csv(tmp_path, FOUR[0], "alpha,b,P2,pq,", *FOUR[2:], more=more)
        _, absent = rank_csv(tmp_path, FOUR[0], *FOUR[2:], more=more)
        assert absent == empty, method


@pytest.mark.parametrize("missing, expected, told", [
    ("worst", {"alpha": 0.25, "beta": 0.4}, "0 is used, the worst value there is."),
    ("unranked", {"beta": 0.4}, "The team is not ranked."),
    ("complete_cases", {"alpha": 0.5, "beta": 0.4}, "1 case is excluded for all teams."),
])  # fmt: skip
def test_missing_values_are_told_with_what_became_of_them(tmp_path, missing, expected, told, capsys) -> None:
    _, found = rank_csv(tmp_path, FOUR[0], *FOUR[2:], more=("--set", f"missing={missing}"))
    assert values(found) == expected
    assert found["findings"][0].startswith("[incomplete-scores] 'scores.csv', team 'alpha': no value for 1 of 2 cases")
    assert found["findings"][0].endswith(told)
    assert "[incomplete-scores]" in capsys.readouterr().out
    assert [row["reason"] for row in found["not_ranked"]] == (["no value in pq"] if missing == "unranked" else [])


@pytest.mark.parametrize("missing", ["worst", "complete_cases"])
def test_the_worst_team_does_not_gain_from_cases_that_others_lack(tmp_path, missing) -> None:
    """Three teams of 40 cases; the two good ones lack one case each."""
    level, lacks = {"bad": 0.3, "good": 0.8, "fair": 0.7}, {"bad": -1, "good": 3, "fair": 5}
    rows = [f"{team},c{case},{case},pq,{level[team] + case / 1000}" for team in level for case in range(40)
            if case != lacks[team]]  # fmt: skip
    for method in METHODS[:-1] if missing == "worst" else METHODS:
        _, found = rank_csv(tmp_path, *rows, more=("--set", f"missing={missing}", "--set", f"method={method}"))
        assert places(found) == {"good": 1, "fair": 2, "bad": 3}, method


def test_a_case_without_a_value_of_any_team_counts_for_nobody_and_one_that_some_have_is_the_worst(tmp_path) -> None:
    _, found = rank_csv(tmp_path, FOUR[0], "alpha,b,P2,pq,", FOUR[2], "beta,b,P2,pq,")
    assert (values(found), found["findings"]) == ({"alpha": 0.5, "beta": 0.4}, [])
    rows = ["alpha,a,P1,pq,0.9", "alpha,b,P2,pq,", "beta,a,P1,pq,0.8", "beta,b,P2,pq,0.6"]
    assert places(rank_csv(tmp_path, *rows)[1]) == {"beta": 1, "alpha": 2}  # 0.7 beside 0.45


LONG = """alpha,a,dice,0.5
alpha,b,dice,0.7
beta,a,dice,0.4
beta,b,dice,0.9
alpha,a,hd,3
alpha,b,hd,9
beta,a,hd,4
beta,b,hd,1
"""
OF_TEAMS = "alpha,beta\na,0.5,0.4\nb,0.7,0.9\n"


@pytest.mark.parametrize("text, columns, told", [
    (f"case,{OF_TEAMS}", ["score"], "the columns 'alpha' and 'beta'; expected a row for each value"),
    (f"Image,{OF_TEAMS}", ["score"], "Each column is read as a team"),
    ("case,alpha,scanner,beta\na,0.5,A,0.4\nb,0.7,B,0.9\n", ["score"], "the columns 'alpha' and 'beta'"),
    (',case,"alpha",beta\n0,a,0.5,0.4\n1,b,0.7,0.9\n', ["score"], "wide-table"),
    ("Unnamed: 0,case,alpha,beta\n0,a,0.5,0.4\n1,b,0.7,0.9\n", ["score"], "wide-table"),
    ("case,metric,alpha,beta\na,dice,0.5,0.4\nb,dice,0.7,0.9\na,hd,3,4\nb,hd,9,1\n", ["dice", "hd"], "wide-table"),
    ("team,case,dice,hd\nalpha,a,.5,3\nalpha,b,.7,9\nbeta,a,.4,4\nbeta,b,.9,1\n", ["dice", "hd"], ""),
    ("algorithm,image_id,dice\nalpha,a,.5\nalpha,b,.7\nbeta,a,.4\nbeta,b,.9\n", ["dice"], ""),
    ("team,case,dice,hd\nalpha,a,.5,3\nalpha,b,.7,9\nbeta,a,.4,4\nbeta,b,.9,1\n", ["dice"], "the metric 'hd'"),
    ("team,case,value\nalpha,a,.5\nalpha,b,.7\nbeta,a,.4\nbeta,b,.9\n", ["value"], "unknown-direction"),
    ("model,case,Score\nalpha,a,.5\nalpha,b,.7\nbeta,a,.4\nbeta,b,.9\n", ["Score"], "write 'ascending' if"),
    (
        "team,metric,a,b\nalpha,dice,.5,.7\nbeta,dice,.4,.9\nalpha,hd,3,9\nbeta,hd,4,1\n",
        ["dice", "hd"],
        "as a case",
    ),
])  # fmt: skip
def test_wide_tables_of_scores_are_read(text, columns, told, tmp_path, capsys) -> None:
    def ranked(name: str, text: str, columns: list[str]) -> dict:
        (tmp_path / f"{name}.csv").write_text(text)
        asked = [f"--column={name}:{'ascending' if name == 'hd' else 'descending'}" for name in columns]
        assert run(["rank", "--scores", str(tmp_path / f"{name}.csv"), *asked, "--output", str(tmp_path / name)]) == 0
        return json.loads((tmp_path / name / "leaderboard.json").read_text())

    expected = ranked("long", f"team,case,metric,value\n{LONG}", ["dice", *columns[1:]])
    capsys.readouterr()
    found = ranked("wide", text, columns)
    assert (places(found), values(found)) == (places(expected), values(expected))
    printed = capsys.readouterr().out
    assert told in " ".join(printed.split()) if told else "[" not in printed


def test_more_teams_than_can_be_compared_are_refused(tmp_path, capsys) -> None:
    assert rank_csv(tmp_path, *(f"t{team},a,P1,pq,0.5" for team in range(3_001)))[0] == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "3,001 teams; expected at most 3,000 teams, since each is compared with each other" in told
    assert "Rank fewer teams at a time" in told


def test_a_difference_that_rounds_to_zero_has_no_sign(tmp_path, capsys) -> None:
    """One team is ahead by 0.00001 on the mean, and behind by 0.00002 in half of the cases."""
    rows = (f"{team},c{case},P1,pq,{0.5 + case / 1000 + (team == 'b') * (1e-5, 3e-5, -2e-5, 2e-5)[case % 4]:.6f}"
            for team in "ab" for case in range(8))  # fmt: skip
    assert rank_csv(tmp_path, *rows)[0] == 0
    written = "".join(path.read_text() for path in (tmp_path / "board").glob("leaderboard.*"))
    assert re.search(r'-[0-9.]+e-0[5-9]|"-0.0000[0-9]|-0.0000[1-9]', written), "no negative number to be rounded"
    printed = capsys.readouterr().out
    assert "0.0000" in printed and not re.search(r"[-−]0\.0+(?![0-9])", printed)


def test_so_are_more_results_and_more_submissions(made, tmp_path, capsys) -> None:
    for team in range(3_001):
        (tmp_path / "many" / f"t{team}").mkdir(parents=True)
        (tmp_path / "many" / f"t{team}" / "metrics.json").write_text("{}")
    sides = ["--challenge", str(made.challenge), "--output", str(tmp_path / "out")]
    for asked in (["rank", "--results"], ["leaderboard", "--submissions"]):
        assert run([asked[0], *sides, asked[1], str(tmp_path / "many")]) == 2
        assert "3,001 teams; expected at most 3,000 teams" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text, asked, told", [
    ("team,dice,hd\nalpha,.5,3\n", ("--column", "dice:descending"), "Also accepted"),
    ("name,dice\na,.5\n", ("--column", "dice:descending"), "Also accepted"),
    ("case,scanner\na,A\n", ("--column", "dice:descending"), "Also accepted"),
    ("case\na\n", ("--column", "dice:descending"), "Also accepted"),
    (f"case,{OF_TEAMS}", (), "'score'"),
    (f"{HEADER}\nalpha,a,P1,pq,0.5\nalpha,a,P1,hd,3\n", (), "'hd' or 'pq'"),
    (f"{HEADER}\nalpha,a,P1,pq,0.5\n", ("--column", "pq.pooled:descending"), "nothing can be pooled"),
    *(
        (f"{HEADER.replace(column, 'other')}\nalpha,a,P1,pq,0.5\n", ("--column", "pq:descending"),
         f"no column '{column}'; expected team,case,metric,value or task,case,algorithm,value")
        for column in ("team", "case", "metric", "value")
    ),
])  # fmt: skip
def test_what_can_be_no_table_of_scores_is_told_and_so_are_the_metrics_that_it_has(text, asked, told, tmp_path, capsys):
    (tmp_path / "s.csv").write_text(text)
    assert run(["rank", "--scores", str(tmp_path / "s.csv"), *asked, "--output", str(tmp_path / "o")]) == 2
    assert told in capsys.readouterr().err


def test_metrics_without_a_column_are_left_out_with_a_warning(tmp_path) -> None:
    _, found = rank_csv(tmp_path, "alpha,a,P1,pq,0.5", "alpha,a,P1,time,not measured")
    assert len(found["findings"]) == 1
    assert found["findings"][0].startswith("[unused-metric] 'scores.csv': rows of the metric 'time'")


@pytest.mark.parametrize("rows, code", [
    (["alpha,a,P1,pq,high"], "invalid-score"),
    (["alpha,a,P1,pq,inf"], "invalid-score"),
    (["alpha,a,P1,pq,1e999"], "invalid-score"),
    (["alpha,a,P1,pq,-1e300"], "invalid-score"),
    (["alpha,a,P1,pq,NA"], "invalid-score"),
    (["alpha,a,P1,pq,0.5", "alpha,a,P1,pq,0.5"], "duplicate-row"),
    (["alpha,a,P1,pq,0.5", "beta,a,P2,pq,0.5"], "wrong-group"),
    ([",a,P1,pq,0.5"], "invalid-team"),
    (["al\x1b[31mpha,a,P1,pq,0.5"], "invalid-team"),
    (["x" * 201 + ",a,P1,pq,0.5"], "invalid-team"),
    (["alpha,,P1,pq,0.5"], "unknown-case"),
    (["alpha,a,P1,pd,0.5"], "missing-metric"),
    ([], "missing-metric"),
    (["alpha,a,P1,pq"], "invalid-csv"),
])  # fmt: skip
def test_rows_that_cannot_be_read_are_told(tmp_path, capsys, rows, code) -> None:
    assert rank_csv(tmp_path, *rows)[0] == 2
    printed = capsys.readouterr().err
    assert f"[{code}]" in printed
    assert "\x1b" not in printed


def test_the_table_of_challenger_is_read(tmp_path) -> None:
    rows = ("T1,a,alpha,0.9", "T1,b,alpha,0.7", "T1,a,beta,0.5", "T1,b,beta,0.6")
    _, found = rank_csv(tmp_path, *rows, header="task,case,algorithm,value", columns="T1:descending")
    assert values(found) == {"alpha": 0.8, "beta": 0.55}


def test_names_of_teams_can_be_anything_that_prints(tmp_path, capsys) -> None:
    names = ["[red]alpha[/red]", "β-team/2", "=1+1", "'; DROP TABLE teams"]
    rows = [f'"{name}",a,P1,pq,0.{place}' for place, name in enumerate(names, start=1)]
    code, found = rank_csv(tmp_path, *rows)
    assert code == 0
    assert {team["name"] for team in found["teams"]} == set(names)
    assert "[red]alpha[/red]" in capsys.readouterr().out
    with (tmp_path / "board/leaderboard.csv").open(newline="") as file:
        assert {row["team"] for row in csv.DictReader(file)} == {name.replace("=1", "'=1") for name in names}


def test_a_challenge_gives_columns_and_checks_cases(made, tmp_path, capsys) -> None:
    columns = [("detection.f1", 0.5), ("classification.balanced_accuracy.group_mean", 0.4),
               ("segmentation.iou_class_mean", 0.3), ("segmentation.hausdorff_px", 7)]  # fmt: skip
    rows = [f"alpha,{case},{metric},{value}" for case in ("P1_1", "P2_1") for metric, value in columns]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["team,case,metric,value", *rows, ""]))
    code, found = rank(tmp_path, "--challenge", made.challenge, "--scores", path)
    assert code == 0
    assert [cell["value"] for cell in found["teams"][0]["columns"]] == [0.5, 0.4, 0.3, 7]
    path.write_text("\n".join(["team,case,metric,value", *rows, "alpha,P9_1,detection.f1,0.5", ""]))
    assert rank(tmp_path, "--challenge", made.challenge, "--scores", path)[0] == 2
    assert "[unknown-case] 'scores.csv', line 10: 'P9_1' is not a case of this challenge" in capsys.readouterr().err
    path.write_text("team,case,group,metric,value\nalpha,P1_1,P2,detection.f1,0.5\n" +
                    "".join(f"alpha,P1_1,P2,{metric},{value}\n" for metric, value in columns[1:]))  # fmt: skip
    assert rank(tmp_path, "--challenge", made.challenge, "--scores", path)[0] == 2
    assert "[wrong-group] 'scores.csv', line 2: of 'P2'" in capsys.readouterr().err


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000))
def test_the_order_of_rows_and_columns_changes_nothing(tmp_path, seed) -> None:
    rng = random.Random(seed)
    rows = [
        {"team": f"t{team}", "case": f"c{case}", "group": f"P{case // 2}", "metric": "pq", "value": rng.random()}
        for team in range(4)
        for case in range(5)
    ]
    rules = RankingRules(**DEFAULT_RANKING, columns=parse_columns(["pq:descending"]))
    found = []
    for _ in range(2):
        names = list(rows[0])
        rng.shuffle(rows)
        rng.shuffle(names)
        with (tmp_path / "scores.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
        found.append(read_scores(tmp_path / "scores.csv", rules, unit="group").table)
    first, second = found
    assert (first.teams, first.units) == (second.teams, second.units)
    assert first.overall.tolist() == second.overall.tolist()
    assert first.by_unit is not None
    assert second.by_unit is not None
    assert first.by_unit.tolist() == second.by_unit.tolist()
    expected = {(row["team"], row["case"]): row["value"] for row in rows}
    of_groups = [
        [statistics.fmean(expected["t0", f"c{case}"] for case in range(5) if case // 2 == group) for group in range(3)]
    ]
    assert first.by_unit[0].tolist()[0] == pytest.approx(of_groups[0], abs=1e-6)
    assert first.overall[0, 0] == pytest.approx(statistics.fmean(of_groups[0]), abs=1e-6)


# --- published scores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column, expected", [
    ("F1:ascending", "'descending', because higher values are better"),
    ("pq:ascending", "'descending'"),
    ("panoptic.pq.group_mean:ascending", "'descending'"),
    ("hausdorff_px:descending", "'ascending', because lower values are better"),
    ("Hausdorff:descending:2", "'ascending'"),
    *((column, "which puts the worst team first") for column in (
        "hd:descending", "HD95.case_mean:descending", "AJI+:ascending", "mPQ:ascending", "DQ:ascending",
        "AP50:ascending", "F1-score:ascending", "Hausdorff distance:descending", "ARE:descending",
        "thresholds.f1_iou50.case_mean:ascending", "detection.per_class.A.f1.case_mean:ascending")),
    ("f1:descending", ""),
    ("hausdorff95_px:ascending", ""),
    ("our own f1 loss:ascending", ""),
    ("loss.f1:ascending", ""),
])  # fmt: skip
def test_a_known_metric_in_the_wrong_direction_is_refused(column: str, expected: str) -> None:
    try:
        parse_columns([column])
        said = ""
    except WrongUsage as error:
        said = str(error.findings[0])
    assert bool(said) == bool(expected) and expected in said, said


@pytest.mark.parametrize("path, direction", [
    ("detection.f1.pooled", "ascending"), ("segmentation.hausdorff_px.group_mean", "descending"),
    ("alternatives.centroid_closest_first.detection.f1.pooled", "ascending"),
])  # fmt: skip
def test_a_column_of_a_challenge_in_the_wrong_direction_is_refused(path: str, direction: str) -> None:
    ranking = ranking_by(columns=({"path": path, "direction": direction},))
    with pytest.raises(ChallengeBroken) as error:
        check_columns(Challenge.from_preset("recommended", name="test", ranking=ranking))
    (finding,) = error.value.findings
    assert path in str(finding) and "puts the worst team first" in str(finding)


def gappy(folder: Path, missing: str) -> dict[str, Any]:
    """The board of A, who leads by 0.1 in all of 16 cases that both have, and lacks 14 of B's 30."""
    scores = random.Random(4)
    lines = ["team,case,metric,value"]
    for case in range(30):
        level = 0.5 + 0.2 * scores.random()
        lines += [f"B,c{case:02},pq,{level}"]
        lines += [f"A,c{case:02},pq,{level + 0.1 + 0.01 * scores.random()}"] if case < 16 else []
    lines += [f"C,c{case:02},pq,{0.1 * scores.random()}" for case in range(30)]
    path = folder / "scores.csv"
    path.write_text("\n".join([*lines, ""]))
    return leaderboard_document(
        rank_given(
            None, results=None, scores=path, columns=["pq:descending"], settings=[f"missing={missing}"], unit="group"
        )
    )


def facts_in(document: dict[str, Any]) -> dict[str, str]:
    return {fact["fact"]: f"{fact['value']} | {fact['rests_on']}" for fact in document["facts"]}


def test_a_value_that_stands_in_the_place_of_a_missing_one_is_no_evidence(tmp_path: Path) -> None:
    """B is ahead only since A's missing values count as the worst: on the cases that both have A is the better one."""
    document = gappy(tmp_path, "worst")
    known = facts_in(document)
    assert [team["name"] for team in document["teams"]] == ["B", "A", "C"]
    decided = "on the cases that all teams have 'A' first; 'A' lacks 14 of 30 values, counted as the worst"
    assert decided in known["decided by"]
    assert known["significance"].startswith(
        "p = 0.0001 against 'A' (the values favour 'A', so no claim); p = 0.0001 against 'C', significant"
    )
    (pair,) = [of for of in document["columns"][0]["differences"] if (of["first"], of["second"]) == ("A", "B")]
    assert (pair["units"], pair["verdict"], pair["ahead"]) == (16, "better", 1)
    assert pair["p_value"] == 0.0001  # no drawn signs of 9,999 are as extreme as the observed ones
    # without the cases that A lacks, said of all; and without A, of which nothing is said
    known = facts_in(gappy(tmp_path, "complete_cases"))
    assert (
        known["first"].startswith("'A' sum of ranks 1")
        and "lacks 14 of 30 values, excluded for all teams" in known["decided by"]
    )
    assert known["significance"].count(", significant") == 2
    first = facts_in(gappy(tmp_path, "unranked"))["first"]
    assert first.startswith("'B' sum of ranks 1 ('C' 2) | 2 teams, ") and first.endswith("1 entry not ranked")


# --- the platform's export of a leaderboard ---------------------------------------------------------------------------


def evaluation_of(user: str, metrics: Any, created: str, **other: Any) -> dict[str, Any]:
    """An evaluation as the API of the platform describes it."""
    value = {"socket": {"slug": "metrics-json-file", "kind": "Anything"}, "value": metrics, "file": None, "image": None}
    more = {"socket": {"slug": "nuclei-evaluation-details"}, "value": None, "file": "https://x/1", "image": None}
    return {
        "pk": f"{user}-{created}", "method": "https://x/2", "created": f"2026-11-{created}T10:00:00.5Z", "rank": 1,
        "published": True, "rank_score": 1.5, "rank_per_metric": {"a.b": 1}, "status": "Succeeded", "title": "a",
        "outputs": [more, value],
        "submission": {"pk": "1", "creator": {"username": user}, "comment": "said \"hi\",\nthen\u2028more"},
        **other,
    }  # fmt: skip


def export_csv(rows: list[dict[str, Any]]) -> str:
    """The rows as the platform's renderer writes them: what is nested as JSON."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, sorted(rows[0]))
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()})
    return text.getvalue()


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_export_of_the_platform_is_ranked_and_stored_for_the_next_phase(form, demo, tmp_path, capsys):
    where = ["--challenge", str(demo.challenge)]
    submissions = demo.submissions["finder"].parent
    assert run(["leaderboard", *where, "--submissions", str(submissions), "--output", str(tmp_path / "board")]) == 0
    metrics = {
        team: json.loads((tmp_path / f"board/results/{team}/metrics.json").read_text()) for team in demo.submissions
    }
    other_rules = {**metrics["namer"], "challenge": {**metrics["namer"]["challenge"], "hash": "0" * 64}}
    rows = [
        evaluation_of("finder", metrics["namer"], "02"),
        evaluation_of("finder", metrics["finder"], "03"),
        evaluation_of("finder", other_rules, "04"),
        evaluation_of("namer", metrics["finder"], "09", status="Failed", outputs=[]),
        evaluation_of("namer", metrics["namer"], "05"),
        evaluation_of("outliner", metrics["finder"], "08", published=False),
        evaluation_of("outliner", metrics["outliner"], "01"),
    ]
    file = tmp_path / f"export.{form}"
    file.write_text(export_csv(rows) if form == "csv" else json.dumps({"count": 7, "results": rows}))
    capsys.readouterr()
    store = tmp_path / "leaderboard"
    options = ["--results", str(file), "--output", str(tmp_path / "ranked"), "--store", str(store)]
    assert run(["rank", *where, *options]) == 0
    printed = capsys.readouterr().out
    for why in (
        "not succeeded",
        "not published",
        "of other rules or cases",
        "replaced by a newer submission of the user",
    ):
        assert f"Ignored: 1 evaluation, {why}." in printed
    boards = [json.loads((tmp_path / name / "leaderboard.json").read_text()) for name in ("board", "ranked")]
    board, ranked = ([(team["name"], team["position"], team["combined"]) for team in one["teams"]] for one in boards)
    assert board == ranked
    for team in demo.submissions:
        assert json.loads((store / f"{team}.json").read_text()) == metrics[team]


def test_what_is_no_export_is_told(demo, tmp_path, capsys):
    for text in ("a,b\n1,2\n", "{}", "[1]", '{"results": [{}]}', "", "\0"):
        (tmp_path / "export.csv").write_text(text)
        options = ["--results", str(tmp_path / "export.csv"), "--output", str(tmp_path / "out")]
        assert run(["rank", "--challenge", str(demo.challenge), *options]) == 2
        assert "[not-metrics] 'export.csv': no export of a leaderboard" in capsys.readouterr().err
