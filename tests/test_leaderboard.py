"""Leaderboards: every team scored once, ranked, and told; and the place of one result among earlier ones."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import statistics
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import EDGES, METHODS, SEPARATE, ranked, ranking_by, table_of
from findings import Bench
from scipy.io import loadmat, savemat
from scipy.stats import friedmanchisquare, rankdata
from test_real_data import monusac_challenge

from evaluation import Challenge, score_submission
from evaluation.board import stored, teams
from evaluation.board.board import board_of_challenge, rank_result
from evaluation.board.document import leaderboard_document, leaderboard_json
from evaluation.board.facts import why_no_samples
from evaluation.board.rules import load_ranked
from evaluation.board.team_scores import TeamScores, plan_columns, values_of_groups
from evaluation.challenge import preset_names
from evaluation.commands import main as cli
from evaluation.files.results.documents import MetricsFile, as_json
from evaluation.folders.demo import TEAMS, DemoPaths
from evaluation.platform.phase import phase_of, phase_titles
from evaluation.scoring.street import score_then
from nuclei_metrics.metrics import metrics_of

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = (
    ("detection.f1.group_mean", "descending"),
    ("classification.balanced_accuracy.group_mean", "descending"),
    ("segmentation.iou_class_mean.group_mean", "descending"),
    ("segmentation.hausdorff_px.group_mean", "ascending"),
)


@pytest.fixture(scope="module")
def first_board(made: DemoPaths, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of 'leaderboard' for the demo, a fourth team whose file is no MATLAB file among them."""
    folder = tmp_path_factory.mktemp("board")
    submissions = folder / "submissions"
    for team, path in made.submissions.items():
        shutil.copytree(path, submissions / team)
    shutil.make_archive(str(submissions / "namer_zipped"), "zip", submissions / "namer")
    shutil.copytree(submissions / "finder", submissions / "broken")
    (submissions / "broken/P1/P1_1/Epithelial/1.mat").write_bytes(b"not a MATLAB file")
    assert leaderboard(made.challenge, submissions, folder / "out") == 0
    return folder


def leaderboard(challenge: Path, submissions: Path, output: Path, *more: object) -> int:
    """The exit code of the command."""
    arguments = ["--challenge", challenge, "--submissions", submissions, "--output", output, "--workers", 1, *more]
    return cli.run(["leaderboard", *map(str, arguments)])


def document_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "leaderboard.json").read_text(), parse_constant=pytest.fail)
    return found


def number_at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[key]
    return document


# --- the command ------------------------------------------------------------------------------------------------------


def test_values_are_those_of_metrics_json_and_places_those_of_the_sum_of_competition_ranks(first_board: Path) -> None:
    found = document_of(first_board / "out")
    by_name = {team["name"]: team for team in found["teams"]}
    results = [json.loads((first_board / f"out/results/{name}/metrics.json").read_text()) for name in by_name]
    sums = np.zeros(4)
    for place, (path, direction) in enumerate(COLUMNS):
        values = [number_at(metrics, path) for metrics in results]
        assert [(of["columns"][place]["path"], of["columns"][place]["value"]) for of in by_name.values()] == [
            (path, value) for value in values
        ]
        sums += rankdata(np.array(values) * (1 if direction == "ascending" else -1), method="min")
    assert [team["combined"] for team in found["teams"]] == sums.tolist()
    assert [team["position"] for team in found["teams"]] == rankdata(sums, method="min").tolist()
    namer, zipped = by_name["namer"], by_name["namer_zipped"]  # a folder and its ZIP
    assert (namer["position"], namer["columns"]) == (zipped["position"], zipped["columns"])
    assert namer["equal"] == ["finder", "namer_zipped", "outliner"]  # as docs/leaderboards.md tells
    (row,) = found["not_ranked"]
    assert (row["name"], row["code"]) == ("broken", "wrong-format")
    assert row["reason"].startswith("[wrong-format] ") and "P1_1/Epithelial/1.mat" in row["reason"]


def test_the_csv_says_what_the_json_says(first_board: Path) -> None:
    document = document_of(first_board / "out")
    rows = list(csv.DictReader(io.StringIO((first_board / "out/leaderboard.csv").read_text())))
    for row, team in zip(rows, document["teams"], strict=False):
        assert row["team"] == team["name"]
        of_team = [team["position"], team["combined"], team["probability_of_first"]]
        assert [float(row[key]) for key in ("position", "combined", "probability_of_first")] == of_team
        for cell in team["columns"]:
            assert (float(row[cell["path"]]), float(row[f"{cell['path']}.rank"])) == (cell["value"], cell["rank"])
    assert [(row["team"], row["not_ranked"], row["position"]) for row in rows[len(document["teams"]) :]] == [
        (row["name"], row["code"], "") for row in document["not_ranked"]
    ]


def test_friedman_is_that_of_scipy_on_the_groups_of_details_json(first_board: Path) -> None:
    document = document_of(first_board / "out")
    found, samples = document["columns"][0]["significance"], []
    for team in document["teams"]:
        details = first_board / f"out/results/{team['name']}/details.json"
        groups = stored.read_details(details, where="details")["groups"]
        samples.append([groups[name]["rules"]["iou_above"]["scores"]["detection"]["f1"] for name in sorted(groups)])
    assert found["friedman"]["statistic"] == pytest.approx(friedmanchisquare(*samples).statistic, abs=1e-6)
    assert (found["friedman"]["distribution"], found["units"]) == ("exact", 4)


def test_progress_goes_to_stderr_and_the_table_to_stdout(copied, capsys) -> None:
    shutil.copytree(copied / "submissions/namer", copied / "submissions/late")
    capsys.readouterr()
    assert again(copied) == 0
    printed = capsys.readouterr()
    assert re.fullmatch(r"5 submissions in \d+ s: 1 scored, 3 kept, 1 not ranked; [\d,.]+ a minute\n", printed.err)
    assert "finder" in printed.out
    assert re.search(r"broken +wrong-format +\[wrong-format\] case ", printed.out)


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the submissions that are scored from now on."""
    scored: list[str] = []

    def counting(*task: Any) -> Any:
        scored.append(task[-2].stem)
        return score_then(*task)

    monkeypatch.setattr(teams, "score_then", counting)
    return scored


FILE = "case_017/Lymphocyte.tif"


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny challenge with four teams that are scored, one of them broken."""
    folder = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        Bench(folder, None, patch).make(
            "label_image by class", ranking=ranking_by("detection.f1.group_mean", method="absolute")
        )
    for team in ("broken", "finder", "namer"):
        shutil.copytree(folder / "submission", folder / "submissions" / team)
    shutil.make_archive(str(folder / "submissions/zipped"), "zip", folder / "submission")
    (folder / "submissions/broken" / FILE).write_bytes(b"not a TIFF file")
    assert again(folder) == 0
    return folder


@pytest.fixture
def copied(scored_once: Path, tmp_path: Path) -> Path:
    """The same, all of which may be changed."""
    return Path(shutil.copytree(scored_once, tmp_path, dirs_exist_ok=True))


def again(folder: Path) -> int:
    return leaderboard(folder / "challenge", folder / "submissions", folder / "out")


def appended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def exchanged(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


EVERYBODY = ["broken", "finder", "namer", "zipped"]
CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {  # what changes, and who is scored again
    "a file of the submission": (lambda of: appended(of / "submissions/finder" / FILE), ["finder"]),
    "the name of a file": (
        lambda of: (of / "submissions/finder" / FILE).rename(of / "submissions/finder" / f"{FILE}f"), ["finder"],
    ),
    "a further file": (lambda of: (of / "submissions/finder/README").write_text("notes"), ["finder"]),
    "an edited result": (lambda of: exchanged(of / "out/results/finder/metrics.json", '"f1"', '"f2"'), ["finder"]),
    "a result that was cut short": (lambda of: os.truncate(of / "out/results/finder/details.json", 1000), ["finder"]),
    "no key": (lambda of: (of / "out/results/finder/key.json").unlink(), ["finder"]),
    "a spoilt key": (lambda of: (of / "out/results/finder/key.json").write_text("["), ["finder"]),
    "a further team": (
        lambda of: shutil.copytree(of / "submissions/namer", of / "submissions/newcomer"), ["newcomer"],
    ),
    "a rejected submission that was mended": (
        lambda of: shutil.copyfile(of / "submissions/finder" / FILE, of / "submissions/broken" / FILE), ["broken"],
    ),
    "a rule": (
        lambda of: exchanged(of / "challenge/challenge.toml", 'undefined = "skip"', 'undefined = "worst"'), EVERYBODY,
    ),
    "a limit": (lambda of: exchanged(of / "challenge/challenge.toml", "name =", "limits.json_depth = 31\nname ="),
                EVERYBODY),
    "the reference": (lambda of: appended(of / "challenge/reference" / FILE), EVERYBODY),
    "the cases": (lambda of: exchanged(of / "challenge/cases.csv", ",P2,", ",P3,"), EVERYBODY),
    "the version": (lambda of: None, EVERYBODY),
    "a file beside the challenge": (lambda of: (of / "challenge/notes.txt").write_text("scores nothing"), []),
    "an image beside the reference": (
        lambda of: (of / "challenge/reference/case_017/case_017.svs").write_bytes(b"pixels"), [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_scored_again_and_nothing_else(copied, counted, change, monkeypatch):
    make, expected = CHANGES[change]
    before = [(copied / "out" / name).read_bytes() for name in ("leaderboard.json", "leaderboard.csv")]
    make(copied)
    monkeypatch.setattr(teams, "__version__", "99" if change == "the version" else teams.__version__)
    assert again(copied) == 0
    assert counted == expected
    if not expected:
        assert [(copied / "out" / name).read_bytes() for name in ("leaderboard.json", "leaderboard.csv")] == before
    board = document_of(copied / "out")
    told = {row["name"] for row in board["teams"]}, {row["name"] for row in board["not_ranked"]}
    assert told[0] >= {"finder", "namer", "zipped", *expected} - {"broken"}
    assert told[1] == (set() if expected == ["broken"] else {"broken"})


def test_a_submission_that_is_rejected_now_keeps_no_old_result(copied: Path) -> None:
    (copied / "submissions/finder" / FILE).write_bytes(b"nothing")
    assert again(copied) == 0
    assert [path.name for path in (copied / "out/results/finder").iterdir()] == ["key.json"]
    assert [row["name"] for row in document_of(copied / "out")["not_ranked"]] == ["broken", "finder"]


def test_another_ranking_ranks_what_is_scored_already(copied: Path, counted: list[str]) -> None:
    before = document_of(copied / "out")
    exchanged(copied / "challenge/challenge.toml", 'method = "absolute"', 'method = "median_of_ranks"')
    assert again(copied) == 0
    assert counted == []
    after = document_of(copied / "out")
    assert (before["ranking"]["method"], after["ranking"]["method"]) == ("absolute", "median_of_ranks")
    differ = {key for key, value in before["challenge"].items() if after["challenge"][key] != value}
    assert differ == {"ranking_hash"}


def test_an_interrupted_call_goes_on_where_it_stopped(copied, counted, monkeypatch):
    shutil.rmtree(copied / "out")
    counting = teams.score_then

    def interrupted(*task: Any) -> Any:
        if task[-2].name == "namer":
            raise KeyboardInterrupt
        return counting(*task)

    monkeypatch.setattr(teams, "score_then", interrupted)
    assert again(copied) == 130
    assert counted == ["broken", "finder"]
    monkeypatch.setattr(teams, "score_then", counting)
    assert again(copied) == 0
    assert counted == ["broken", "finder", "namer", "zipped"]


def test_a_worker_that_died_is_tried_again_the_next_time(copied: Path, counted: list[str], monkeypatch) -> None:
    from evaluation.findings import Finding
    from evaluation.findings.errors import WorkerDied

    counting = teams.score_then

    def dying(*task: Any) -> Any:
        if task[-2].name == "newcomer":
            raise WorkerDied(Finding("worker-died", "one of 2 workers", "ended", "enough memory"))
        return counting(*task)

    monkeypatch.setattr(teams, "score_then", dying)
    shutil.copytree(copied / "submissions/namer", copied / "submissions/newcomer")
    assert again(copied) == 0
    assert [row["code"] for row in document_of(copied / "out")["not_ranked"]][1:] == ["worker-died"]
    monkeypatch.setattr(teams, "score_then", counting)
    assert again(copied) == 0
    assert counted == ["newcomer"]
    assert "newcomer" in {team["name"] for team in document_of(copied / "out")["teams"]}


def test_a_broken_reference_is_the_organisers_fault(copied: Path, capsys) -> None:
    (copied / "challenge/reference" / FILE).write_bytes(b"not a TIFF file")
    assert again(copied) == 3
    shutil.rmtree(copied / "challenge/reference/case_017")
    assert again(copied) == 3
    assert "[missing-file]" in capsys.readouterr().err


def test_a_csv_file_of_all_cases_is_a_team(bench: Bench) -> None:
    bench.make("rle_csv", ranking=ranking_by("detection.f1.group_mean", method="absolute"))
    (file,) = Path("submission").rglob("*.csv")
    Path("submissions").mkdir()
    shutil.copyfile(file, "submissions/alpha.csv")
    shutil.copytree("submission", "submissions/beta")
    Path("submissions/README.md").write_text("notes")
    bench.run("leaderboard", "--challenge", "challenge", "--submissions", "submissions", "--output", "out")
    found = document_of(Path("out"))
    told = [(team["name"], team["position"], team["columns"][0]["value"]) for team in found["teams"]]
    assert told == [("alpha", 1, 1), ("beta", 1, 1)]
    assert found["findings"][0].startswith("[unused-file] 'README.md': not used")


def test_names_of_cases_stay_hidden_where_the_challenge_hides_them(copied: Path) -> None:
    path = copied / "challenge/challenge.toml"
    path.write_text(path.read_text().replace("missing_case =", 'case_names = "hidden", missing_case ='))
    assert again(copied) == 0
    (row,) = document_of(copied / "out")["not_ranked"]
    assert "‹case›" in row["reason"]
    assert "case_017" not in (copied / "out/leaderboard.json").read_text()


def test_the_output_may_lie_among_the_submissions(copied: Path) -> None:
    folder = copied / "submissions"
    for _ in range(2):
        assert leaderboard(copied / "challenge", folder, folder / "out") == 0
        assert [team["name"] for team in document_of(folder / "out")["teams"]] == ["finder", "namer", "zipped"]


def test_a_team_with_an_odd_name_is_left_out_and_the_others_are_ranked(copied: Path, capsys) -> None:
    odd = ["a'b", " alpha", "=cmd", "x" * 201, "na\x1b[31mmer", "line\nbreak"]
    for name in odd:
        shutil.copytree(copied / "submissions/finder", copied / "submissions" / name)
    assert again(copied) == 0
    document = document_of(copied / "out")
    assert [team["name"] for team in document["teams"]] == ["finder", "namer", "zipped"]
    left_out = [row for row in document["not_ranked"] if row["code"] == "invalid-team"]
    assert len(left_out) == len(odd) == len(document["not_ranked"]) - 1
    assert all(row["name"].isprintable() and "expected a name of letters" in row["reason"] for row in left_out)
    assert (copied / "out" / "leaderboard.csv").read_text().count("[invalid-team]") == len(odd)
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("names, code", [
    (["alpha", "ALPHA.zip"], "duplicate-team"),
    (["a'b"], "invalid-team"),
    ([" alpha"], "invalid-team"),
    ([], "no-teams"),
    (None, "no-submission"),
])  # fmt: skip
def test_folders_that_make_no_teams_are_wrong_usage(made, tmp_path, capsys, names, code) -> None:
    for name in names or ():
        path = tmp_path / "submissions" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"") if path.suffix else path.mkdir()
    if names == []:
        (tmp_path / "submissions").mkdir()
    assert leaderboard(made.challenge, tmp_path / "submissions", tmp_path / "out") == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_nobody_left_to_rank_is_a_board_without_places(made, tmp_path) -> None:
    (tmp_path / "submissions/empty").mkdir(parents=True)
    assert leaderboard(made.challenge, tmp_path / "submissions", tmp_path / "out") == 0
    found = document_of(tmp_path / "out")
    assert (found["teams"], found["stability"]["undefined"]) == ([], "no-teams")
    assert [row["code"] for row in found["not_ranked"]] == ["empty-submission"]


# --- what groups bring into a mean ------------------------------------------------------------------------------------


@pytest.mark.parametrize("undefined", ["skip", "worst"])
def test_the_mean_of_what_groups_bring_is_the_number_in_metrics_json(made, tmp_path, undefined) -> None:
    """Also with a patient that was not submitted, half of one, and one in which nothing is matched."""
    challenge_folder = changed_challenge(made, tmp_path, f'[aggregation]\nundefined = "{undefined}"\n')
    submission = Path(shutil.copytree(made.submissions["finder"], tmp_path / "submission"))
    shutil.rmtree(submission / "P1")
    shutil.rmtree(submission / "P2/P2_1")
    shutil.rmtree(submission / "P4")
    unmatched(made.submissions["finder"], submission, "P4/*", "Macrophage")
    result = score_submission(challenge_folder, submission)
    columns = plan_columns(result.challenge, paths_with(result.challenge, "group_mean"))
    penalised = 0
    for column in columns:
        values = values_of_groups(result.challenge, result.details, column)
        known = values[~np.isnan(values)].tolist()
        expected = result.value(column.path)
        if expected is None:
            assert not known, column.path
        else:
            assert statistics.fmean(known) == pytest.approx(expected, abs=2e-6, rel=1e-7), column.path
            plain = result.details["groups"]["P1"]["rules"][column.rule]["scores"]
            penalised += number_at(plain, ".".join(column.metric.path)) is None and not np.isnan(values[0])
    assert penalised > 20  # the patient that was not submitted costs the worst value where it has none


def changed_challenge(made: DemoPaths, folder: Path, more: str) -> Path:
    """A copy of the demo's challenge with more rules."""
    challenge = Path(shutil.copytree(made.challenge, folder / "challenge"))
    with (challenge / "challenge.toml").open("a") as toml:
        toml.write(more)
    return challenge


def paths_with(challenge: Challenge, *aggregations: str) -> list[str]:
    """Of all metrics under all matching rules."""
    return [
        ".".join((*prefix, *metric.path, aggregation))
        for aggregation in aggregations
        for place, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if place else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=place == 0)
    ]


def unmatched(source: Path, submission: Path, cases: str, name: str) -> None:
    """For each of the cases, instead of what was submitted, one nucleus of one pixel in a corner, of a class."""
    for case in sorted(source.glob(cases)):
        labels = np.zeros_like(loadmat(next(case.glob("*/1.mat")))["n_ary_mask"])
        labels[0, 0] = 1
        target = submission / case.relative_to(source) / name / "1.mat"
        target.parent.mkdir(parents=True)
        savemat(target, {"n_ary_mask": labels})


@pytest.mark.parametrize("unit", ["case", "group"])
def test_what_a_group_brings_is_made_of_its_own_scores_or_of_those_of_its_cases(unit, made, tmp_path):
    """A mean over strata has the unit of the challenge; a pooled number has groups."""
    folder = changed_challenge(made, tmp_path, f'[aggregation]\nunit = "{unit}"\n')
    header, *rows = (folder / "cases.csv").read_text().split()
    strata = [f"{row},{'lung' if ',P1,' in row or ',P2,' in row else 'kidney'}" for row in rows]
    (folder / "cases.csv").write_text("\n".join([f"{header},stratum", *strata, ""]))
    result = score_submission(folder, made.submissions["namer"])

    def f1_of(entry: dict[str, Any], rule: str = "iou_above") -> float:
        return float(entry["rules"][rule]["scores"]["detection"]["f1"])

    groups, cases = result.details["groups"], result.details["cases"].values()
    names = ("P1", "P2", "P3", "P4")
    of_cases = [statistics.fmean(f1_of(of) for of in cases if of["group"] == name) for name in names]
    of_groups = [f1_of(groups[name]) for name in names]
    assert of_cases != pytest.approx(of_groups, abs=1e-6)
    other = "best_iou_centroid_inside"
    for path, expected in {
        "detection.f1.case_mean": of_cases,
        "detection.f1.stratum_mean": of_cases if unit == "case" else of_groups,
        f"alternatives.{other}.detection.f1.pooled": [f1_of(groups[name], other) for name in names],
    }.items():
        (column,) = plan_columns(result.challenge, [path])
        assert values_of_groups(result.challenge, result.details, column).tolist() == pytest.approx(expected, abs=1e-9)


# --- from a table to a board ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", EDGES)
def test_every_edge_gives_a_board_that_can_be_written(edge: str) -> None:
    for method, missing, ex_aequo in product(METHODS, ["worst", "unranked"], [False, True]):
        board = ranked(table_of(EDGES[edge]), method=method, missing=missing, ex_aequo=ex_aequo)
        document = json.loads(leaderboard_json(board), parse_constant=pytest.fail)
        names = [row["name"] for row in document["teams"] + document["not_ranked"]]
        assert len(set(names)) == len(names) == len(EDGES[edge][0]), (method, missing, ex_aequo)
        assert all(row["position"] >= 1 for row in document["teams"])
        assert not document["teams"] or document["teams"][0]["position"] == 1


def test_an_undefined_column_ranks_nobody_and_says_so() -> None:
    board = ranked(table_of(EDGES["an undefined column"]))
    why = ("no-value", "no team has a value in any column")
    assert [(row.code, row.reason) for row in board.not_ranked] == [why] * 2


def test_one_group_tests_and_draws_nothing_and_says_so() -> None:
    board = ranked(table_of(EDGES["one group"]))
    assert [row.position for row in board.teams] == [1, 2, 3]
    assert board.columns[0].significance is not None
    assert (board.columns[0].significance.undefined, board.stability.undefined) == ("one-unit", "one-unit")
    assert board.teams[0].probability_of_first is None
    assert leaderboard_document(board)["teams"][0]["rank_interval"] is None


def test_equal_values_share_the_better_place_and_are_listed_by_name() -> None:
    board = ranked(table_of([[[0.5, 0.7], [0.9, 0.3], [0.1, 0.1], [0.8, 0.8]]]))
    found = [(row.name, row.position, row.equal) for row in board.teams]
    assert found[:2] == [("team 3", 1, ()), ("team 0", 2, ("team 1",))]
    assert found[2:] == [("team 1", 2, ("team 0",)), ("team 2", 4, ())]


def test_teams_that_cannot_be_told_apart_share_a_place_when_the_challenge_says_so() -> None:
    """Mean ranks 1, 2, 3 over five patients, critical difference 1.48: only the first and the last differ."""
    plain = ranked(table_of([SEPARATE]))
    shared = ranked(table_of([SEPARATE]), ex_aequo=True, test="friedman_nemenyi")
    assert [row.position for row in plain.teams] == [1, 2, 3]
    assert [(row.name, row.position) for row in shared.teams] == [("team 0", 1), ("team 1", 1), ("team 2", 3)]
    assert shared.teams[0].equal == ("team 1",)
    assert "share a rank" in shared.ranking["in_words"]


def test_places_of_several_columns_are_shared_column_by_column() -> None:
    backwards = SEPARATE[::-1]
    board = ranked(table_of([SEPARATE, SEPARATE, backwards]), ex_aequo=True, test="friedman_nemenyi")
    assert {row.name: (tuple(cell.rank for cell in row.columns), row.combined) for row in board.teams} == {
        "team 0": ((1, 1, 3), 5),
        "team 1": ((1, 1, 1), 3),
        "team 2": ((3, 3, 1), 7),
    }


def test_unranked_teams_are_in_no_test_and_no_sample() -> None:
    values = [*SEPARATE, [np.nan] * 5]
    with_gap, without = ranked(table_of([values]), missing="unranked"), ranked(table_of([SEPARATE]))
    assert [row.name for row in with_gap.not_ranked] == ["team 3"]
    documents = [leaderboard_document(board) for board in (with_gap, without)]
    assert documents[0]["teams"] == documents[1]["teams"]
    tested = documents[0]["columns"][0]["significance"]["teams"]
    assert [team["name"] for team in tested] == ["team 0", "team 1", "team 2"]


def test_a_sample_draws_whole_patients() -> None:
    """A team is ahead unless the second of two patients is drawn twice: in three quarters of the samples."""
    board = ranked(table_of([[[0.9, 0.5], [0.6, 0.7]]]), samples=2000)
    assert board.teams[0].probability_of_first == pytest.approx(0.75, abs=0.04)
    assert board.stability.first_changes_without == ["P0"]


@pytest.mark.parametrize(("case_names", "shown"), [("public", "P1"), ("hidden", "patient 1")])
def test_patients_are_named_unless_the_challenge_hides_them(made, case_names, shown) -> None:
    """Without P1 the second team is first; a leaderboard is published."""
    challenge, rules = load_ranked(made.challenge)
    submission = challenge.submission.model_copy(update={"case_names": case_names})
    scores = [
        TeamScores(name, np.full(4, np.mean(of_groups)), np.tile(of_groups, (4, 1)))
        for name, of_groups in (("a", [0.9, 0.5, 0.5, 0.5]), ("b", [0.6, 0.55, 0.55, 0.55]))
    ]
    columns = tuple(column.model_copy(update={"direction": "descending"}) for column in rules.columns)
    board = board_of_challenge(
        challenge.model_copy(update={"submission": submission}),
        rules.model_copy(update={"columns": columns}),
        scores,
        (),
        (),
    )
    found = board.stability
    assert (found.first_changes_without, found.most_changes_without) == ([shown], shown)
    assert board.unit_names[0] == shown


def test_another_seed_gives_other_samples_and_the_same_seed_the_same() -> None:
    rng = np.random.default_rng(5)
    table = table_of(rng.random((1, 5, 7)))
    one, same, other = (leaderboard_json(ranked(table, seed=seed)) for seed in (1, 1, 2))
    assert one == same != other


def test_more_than_two_hundred_teams_are_written_without_what_is_known_of_pairs() -> None:
    board = ranked(table_of(np.random.default_rng(1).random((1, 201, 6))))
    document = leaderboard_document(board)
    assert "places" not in document["teams"][0]
    tested = document["columns"][0]["significance"]
    assert "cliques" not in tested
    assert isinstance(tested["teams"][0]["better_than"], int)
    assert len(leaderboard_json(board)) < 201 * 1200


def test_every_rule_that_has_an_effect_stands_in_the_words() -> None:
    table = table_of([SEPARATE, SEPARATE])
    words = {
        json.dumps(settings): ranked(table, **settings).ranking["in_words"]
        for settings in (
            *({"method": method} for method in METHODS if method != "absolute"),
            {"method": "rank_then_aggregate", "aggregate": "median"},
            {"ties": "dense"},
            {"ties": "average"},
            {"missing": "unranked"},
            {"test": "wilcoxon_holm"},
            {"significance_level": 0.01},
            {"ex_aequo": True},
        )
    }
    assert len(set(words.values())) == len(words)


@pytest.mark.parametrize("method", ["aggregate_then_rank", "rank_then_aggregate", "test_then_rank"])
def test_what_was_ranked_is_told_where_it_is_not_the_value(method: str) -> None:
    board = ranked(table_of([SEPARATE]), method=method, test="friedman_nemenyi")
    row = leaderboard_document(board)["teams"][0]["columns"][0]
    expected = {"aggregate_then_rank": 0.84, "rank_then_aggregate": 1, "test_then_rank": 0.5}
    assert row["ranked_by"] == pytest.approx(expected[method])
    assert "ranked_by" not in leaderboard_document(ranked(table_of([SEPARATE])))["teams"][0]["columns"][0]


def test_nothing_is_drawn_if_tests_rank() -> None:
    document = leaderboard_document(ranked(table_of([[[0.9] * 8, [0.1] * 8]]), method="test_then_rank", samples=100))
    assert [(row["position"], row["rank_interval"]) for row in document["teams"]] == [(1, None), (2, None)]
    assert why_no_samples(document).startswith("tests rank the teams, and a ")


# --- one result among earlier ones ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(made: DemoPaths) -> dict[str, dict[str, Any]]:
    return {team: score_submission(made.challenge, path).metrics for team, path in made.submissions.items()}


@pytest.fixture
def with_earlier(made: DemoPaths, results: dict[str, dict[str, Any]], tmp_path: Path) -> Path:
    """The demo's challenge, which keeps the results of two teams."""
    challenge = Path(shutil.copytree(made.challenge, tmp_path / "challenge"))
    (challenge / "leaderboard").mkdir()
    for team, name in (("finder", "secret_team"), ("namer", "baseline")):
        (challenge / f"leaderboard/{name}.json").write_text(as_json(results[team]))
    return challenge


def score(challenge: Path, submission: Path, output: Path, *more: object) -> dict[str, Any]:
    """metrics.json of the command."""
    arguments = ["--challenge", challenge, "--submission", submission, "--output", output, "--workers", 1, *more]
    assert cli.run(["score", *map(str, arguments)]) == 0
    metrics: dict[str, Any] = json.loads((output / "metrics.json").read_text())
    MetricsFile.model_validate(metrics)
    return metrics


def told_of_others(output: Path) -> list[str]:
    findings = json.loads((output / "details.json").read_text())["findings"]
    return [line for line in findings if line.startswith("[other-leaderboard]")]


def test_score_writes_the_place_among_earlier_results_and_no_name_of_theirs(made, with_earlier, results, tmp_path):
    written = score(with_earlier, made.submissions["outliner"], tmp_path / "out")
    board = written.pop("leaderboard")
    assert written == results["outliner"]
    assert board == {
        "position": 1,
        "submissions": 3,
        "sum_of_ranks": 7,
        "rank": {
            "detection": {"f1": {"group_mean": 3}},
            "classification": {"balanced_accuracy": {"group_mean": 2}},
            "segmentation": {"iou_class_mean": {"group_mean": 1}, "hausdorff_px": {"group_mean": 1}},
        },
        "subtask": {"detection": 3, "classification": 2, "segmentation": 1},
    }
    for path in (tmp_path / "out").iterdir():
        assert "secret_team" not in path.read_text(), path.name


def test_a_stored_result_of_the_same_team_is_no_rival(made, with_earlier, tmp_path) -> None:
    finder = made.submissions["finder"]
    for team, others in [("secret_team", 2), ("unknown to all", 3), ("", 3)]:
        found = score(with_earlier, finder, tmp_path / f"out {team}", *(["--team", team] if team else []))
        assert found["leaderboard"]["submissions"] == others
    (with_earlier / "leaderboard/baseline.json").unlink()
    assert "leaderboard" not in score(with_earlier, finder, tmp_path / "alone", "--team", "secret_team")


def test_without_earlier_results_there_is_no_block(made, results, tmp_path) -> None:
    for name in ("none", "empty"):
        challenge = Path(shutil.copytree(made.challenge, tmp_path / name))
        if name == "empty":
            (challenge / "leaderboard").mkdir()
            (challenge / "leaderboard/README.md").write_text("nothing yet")
        written = score(challenge, made.submissions["finder"], tmp_path / f"out_{name}")
        assert written == results["finder"], "nothing changes"


def test_without_a_ranking_the_block_is_absent(with_earlier, made) -> None:
    result = score_submission(with_earlier, made.submissions["finder"])
    unranked = result.challenge.model_copy(update={"ranking": None})
    from dataclasses import replace

    assert "leaderboard" not in rank_result(with_earlier, replace(result, challenge=unranked)).metrics


def test_stored_results_that_may_not_be_looked_into_are_told(with_earlier, made, tmp_path, monkeypatch):
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "leaderboard" and allowed(path, mode))
    monkeypatch.setattr(Path, "glob", lambda path, pattern: iter(()))  # what it finds there without permission
    assert "leaderboard" not in score(with_earlier, made.submissions["finder"], tmp_path / "out")
    (line,) = told_of_others(tmp_path / "out")
    assert "'leaderboard': permission denied; expected a folder that everybody may read." in line


def test_results_of_other_challenges_are_left_out_with_a_warning(with_earlier, made, results, tmp_path) -> None:
    other = json.loads(as_json(results["namer"]))
    other["challenge"]["hash"] = "0" * 64
    (with_earlier / "leaderboard/baseline.json").write_text(as_json(other))
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out")["leaderboard"]["submissions"] == 2
    assert told_of_others(tmp_path / "out")[0].startswith("[other-leaderboard] 'leaderboard/baseline.json'")
    (with_earlier / "leaderboard/secret_team.json").unlink()
    assert "leaderboard" not in score(with_earlier, made.submissions["outliner"], tmp_path / "alone")


BROKEN = (b"", b"{", b"[]", b"{}", b'{"challenge": NaN}', b"[" * 10_000, b"\xff\xfe", b'{"challenge": {"name": "x"}}')


def test_broken_earlier_results_are_left_out_and_cost_nobody_the_score(with_earlier, made, tmp_path) -> None:
    without = score(with_earlier, made.submissions["outliner"], tmp_path / "without")
    for number, content in enumerate(BROKEN):
        (with_earlier / f"leaderboard/broken {number}.json").write_bytes(content)
    for path in list((with_earlier / "leaderboard").glob("[!b]*.json")):  # as the platform wraps a result
        wrapped = [{"interface": {"slug": slug}, "value": of} for slug, of in
                   (("other", 1), ("metrics-json-file", json.loads(path.read_text())))]  # fmt: skip
        path.write_text(json.dumps(wrapped))
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == without
    (told,) = told_of_others(tmp_path / "out")
    assert "'leaderboard/broken 0.json': an empty file" in told and f"; {len(BROKEN) - 3} more)" in told


def test_store_writes_what_goes_into_the_next_ground_truth(made, tmp_path) -> None:
    submissions = made.submissions["finder"].parent
    assert leaderboard(made.challenge, submissions, tmp_path / "board", "--store", tmp_path / "store") == 0
    shutil.copytree(made.challenge, tmp_path / "next")
    shutil.copytree(tmp_path / "store", tmp_path / "next" / "leaderboard")
    found = score(tmp_path / "next", made.submissions["finder"], tmp_path / "out")
    assert found["leaderboard"]["submissions"] == 4


def test_the_first_run_of_the_image_writes_ranks(own_demo: DemoPaths, tmp_path) -> None:
    shipped = Path(__file__).resolve().parents[1] / "ground_truth"
    for team, folder in own_demo.submissions.items():
        found = score(own_demo.challenge, folder, tmp_path / team)
        kept = json.loads((shipped / f"leaderboard/{team}.json").read_text())
        assert {**kept, "software": found["software"]} == found
    for more, expected in (((), (4, 1)), (("--team", "namer"), (3, 2))):  # a team that is not named is its own rival
        ranks = score(shipped, own_demo.submissions["namer"], tmp_path / f"out{len(more)}", *more)["leaderboard"]
        assert (ranks["submissions"], ranks["position"]) == expected


def test_an_undefined_column_takes_the_place_where_the_challenge_says_so(with_earlier, made, tmp_path) -> None:
    """Nothing is matched: Hausdorff distances and accuracies are undefined."""
    unmatched(made.submissions["finder"], tmp_path / "submission", "*/*", "Neutrophil")
    board = score(with_earlier, tmp_path / "submission", tmp_path / "worst")["leaderboard"]
    assert (board["position"], board["sum_of_ranks"], board["submissions"]) == (3, 12, 3)
    rank_otherwise(with_earlier, 'missing = "unranked"')
    metrics = score(with_earlier, tmp_path / "submission", tmp_path / "unranked")
    assert (metrics["leaderboard"]["position"], metrics["leaderboard"]["submissions"]) == (None, 2)
    assert metrics["undefined"]["leaderboard"]["position"] == "no-value"


def rank_otherwise(challenge: Path, rule: str) -> None:
    """Add a rule of the ranking, and give the earlier results of the challenge its present hash."""
    with (challenge / "challenge.toml").open("a") as toml:
        toml.write(f"[ranking]\n{rule}\n")
    for path in (challenge / "leaderboard").glob("*.json"):
        metrics = json.loads(path.read_text())
        metrics["challenge"]["hash"] = Challenge.load(challenge).hash
        path.write_text(as_json(metrics))


@pytest.mark.parametrize("rule", ['method = "rank_then_aggregate"', "ex_aequo = true"])
def test_a_place_that_needs_more_than_means_is_null_with_the_reason(with_earlier, made, tmp_path, rule) -> None:
    rank_otherwise(with_earlier, rule)
    metrics = score(with_earlier, made.submissions["outliner"], tmp_path / "out")
    assert (metrics["leaderboard"]["position"], metrics["leaderboard"]["sum_of_ranks"]) == (None, 7)
    of_subtasks = dict.fromkeys(("detection", "classification", "segmentation"), "needs-details")
    assert metrics["undefined"]["leaderboard"] == {"position": "needs-details", "subtask": of_subtasks}


# --- the settings of a phase ------------------------------------------------------------------------------------------


def paths_of(settings: dict[str, Any]) -> list[str]:
    return [settings["score_jsonpath"], *(column["path"] for column in settings["extra_results_columns"])]


def test_every_path_of_the_phase_is_a_number_in_metrics_json(made, results, capsys) -> None:
    assert cli.run(["phase", "--challenge", str(made.challenge), "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert [(path, order) for path, order in zip(
        paths_of(settings),
        [settings["score_default_sort"], *(column["order"] for column in settings["extra_results_columns"])],
        strict=True,
    )] == [(path, {"ascending": "asc", "descending": "desc"}[direction]) for path, direction in COLUMNS]  # fmt: skip
    errors = [settings["score_error_jsonpath"], *(column["error_path"] for column in settings["extra_results_columns"])]
    assert errors == [f"standard_deviations.{path}" for path in paths_of(settings)]
    for metrics in results.values():
        for path in [*paths_of(settings), *errors]:
            assert type(number_at(metrics, path)) is float, path


def test_every_preset_that_ranks_has_settings_whose_paths_its_results_have() -> None:
    for preset in preset_names():
        challenge = Challenge.from_preset(preset, name="test")
        if challenge.ranking is None or not challenge.ranking.columns:
            continue
        settings = phase_of(challenge).document()["settings"]
        assert (settings["submissions_limit_per_user_per_period"], settings["submission_limit_period"]) == (1, 7)
        assert set(paths_of(settings)) <= {*paths_with(challenge, "pooled", "group_mean", "case_mean", "stratum_mean")}
        titles = [settings["score_title"], *(column["title"] for column in settings["extra_results_columns"])]
        assert len(set(titles)) == len(titles), preset
        assert all(0 < len(title) <= 64 for title in titles), preset


@pytest.mark.parametrize("change, choice, told", [
    ({"method": "sum_of_ranks"}, "avg", ""),
    ({"method": "mean_of_ranks"}, "avg", ""),
    ({"method": "median_of_ranks"}, "med", ""),
    ({"method": "rank_then_aggregate"}, "avg", "method = 'rank_then_aggregate'"),
    ({"ties": "dense"}, "avg", "ties"),
    ({"missing": "worst"}, "avg", "missing"),
    ({"ex_aequo": True}, "avg", "ex_aequo"),
])  # fmt: skip
def test_the_nearest_rules_of_the_platform_are_set_and_what_it_cannot_do_is_told(change, choice, told) -> None:
    challenge = Challenge.from_preset("monusac2020", name="test")
    rules = challenge.ranking.model_copy(update={"missing": "unranked", **change})
    document = phase_of(challenge.model_copy(update={"ranking": rules})).document()
    assert document["settings"]["scoring_method_choice"] == choice
    lines = [line for line in document["explanation"] if line.startswith("Not on the platform: ")]
    assert [told in line for line in lines] == ([True] if told else [])


def test_titles_that_are_equal_get_their_aggregation() -> None:
    paths = ["detection.f1.pooled", "detection.f1.case_mean"]
    assert phase_titles(paths) == ["Detection f1 pooled", "Detection f1 case mean"]


def test_the_settings_in_the_guide_are_those_that_the_command_prints() -> None:
    page = (ROOT / "docs/organisers.md").read_text()
    settings = phase_of(Challenge.from_preset("recommended", name="test")).document()["settings"]
    order = {"desc": "Descending", "asc": "Ascending"}[settings["score_default_sort"]]
    assert f"| `{settings['score_title']}`, `{settings['score_jsonpath']}`, *{order}* |" in page
    limit = settings["submissions_limit_per_user_per_period"], settings["submission_limit_period"]
    assert f"| Limit of submissions | {limit[0]} in {limit[1]} days" in page


@pytest.mark.parametrize("command, more", [
    ("phase", ()),
    ("leaderboard", ("--submissions", "submission", "--output", "out")),
    ("rank", ("--results", "submission", "--output", "out")),
    ("audit", ("--submissions", "submission", "--output", "out")),
])  # fmt: skip
def test_a_challenge_that_does_not_rank_is_told(bench, capsys, command, more) -> None:
    for given in ({}, {"ranking": ranking_by()}):
        bench.make("label_image by class", **given)
        assert cli.run([command, "--challenge", "challenge", *more]) == 3
        assert "[no-ranking] challenge.toml: ranking: no " in capsys.readouterr().err


# --- the demo ---------------------------------------------------------------------------------------------------------


def test_the_demo_shows_the_leaderboard_that_the_page_shows(tmp_path, capsys) -> None:
    assert cli.run(["demo", "--output", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    rows = [line.rstrip() for line in printed.splitlines() if re.match(r"  \d\u2002", line)]
    assert [line.split()[1] for line in rows] == ["finder", "namer", "outliner"]
    document = document_of(tmp_path / "demo")
    text = (ROOT / "docs/leaderboards.md").read_text()
    assert set(rows) <= {line.rstrip() for line in text.splitlines()}
    known = printed[printed.index("  fact  ") : printed.index("Ranked teams")].splitlines()
    assert {line.rstrip() for line in known if line.startswith("  ")} <= {line.rstrip() for line in text.splitlines()}
    assert [fact["fact"] for fact in document["facts"]][:2] == ["first", "columns together"]
    assert [team["name"] for team in document["teams"]] == ["finder", "namer", "outliner"]
    assert set(TEAMS) == {team["name"] for team in document["teams"]}


# --- real data --------------------------------------------------------------------------------------------------------


def test_a_real_submission_is_before_its_worsened_copies(shared_data: Path, tmp_path: Path) -> None:
    """MoNuSAC's forms: the submission, a copy without Lymphocytes of one image, and one without a patient."""
    challenge = monusac_challenge(shared_data, tmp_path / "challenge")
    source = shared_data / "monusac_challenge/submission"
    for name in ("whole", "without_lymphocytes", "without_a_patient"):
        for path in source.rglob("*.mat"):
            target = tmp_path / "submissions" / name / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(tmp_path / "submissions/without_lymphocytes/P2/P2_1/Lymphocyte")
    shutil.rmtree(tmp_path / "submissions/without_a_patient/P1")
    assert leaderboard(challenge, tmp_path / "submissions", tmp_path / "out") == 0
    found = document_of(tmp_path / "out")
    assert [team["name"] for team in found["teams"]][-1] == "without_a_patient"
    by_name = {team["name"]: team for team in found["teams"]}
    expected = json.loads((shared_data / "monusac_challenge/expected.json").read_text())["strict_iou"]
    values = {cell["path"]: cell["value"] for cell in by_name["whole"]["columns"]}
    assert values["segmentation.hausdorff_px.group_mean"] == pytest.approx(expected["hausdorff_px"], abs=1e-6)
    metrics = json.loads((tmp_path / "out/results/without_a_patient/metrics.json").read_text())
    assert by_name["without_a_patient"]["columns"][0]["value"] == metrics["detection"]["f1"]["group_mean"]


def test_what_a_killed_call_left_half_written_leaves_with_the_result(tmp_path: Path) -> None:
    unfinished = [".key.json.a1b2c3d4", ".details.json.zzzzzzzz"]
    for name in ("metrics.json", "key.json", *unfinished, "notes.txt", ".key.json.mine"):
        (tmp_path / name).write_text("{}")
    stored.forget(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".key.json.mine", "notes.txt"]
