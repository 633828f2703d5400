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
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from findings import Bench
from scipy.stats import friedmanchisquare, rankdata
from test_real_data import monusac_challenge

from evaluation import Challenge, score_submission
from evaluation.authoring.demo import TEAMS, DemoPaths
from evaluation.challenge import preset_names
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.commands import main as cli
from evaluation.leaderboard import stored, teams
from evaluation.leaderboard.board import board_of_challenge, build_board, rank_result
from evaluation.leaderboard.document import Board, leaderboard_document, leaderboard_json
from evaluation.leaderboard.rules import load_ranked, phase_settings, phase_titles
from evaluation.leaderboard.team_scores import TeamScores, plan_columns, team_of_documents, values_of_groups
from evaluation.leaderboard.teams import score_teams
from evaluation.metrics import metrics_of
from evaluation.model import ScoreTable
from evaluation.results.documents import MetricsFile, as_json
from evaluation.scoring.score import without_place
from evaluation.scoring.street import score_then

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


def test_places_are_those_of_the_sum_of_competition_ranks(first_board: Path) -> None:
    found = document_of(first_board / "out")
    names = ["finder", "namer", "namer_zipped", "outliner"]
    results = [json.loads((first_board / f"out/results/{name}/metrics.json").read_text()) for name in names]
    sums = np.zeros(4)
    for path, direction in COLUMNS:
        values = np.array([number_at(metrics, path) for metrics in results])
        sums += rankdata(values if direction == "ascending" else -values, method="min")
    expected = dict(zip(names, zip(rankdata(sums, method="min"), sums, strict=True), strict=True))
    assert {team["name"]: (team["position"], team["combined"]) for team in found["teams"]} == expected
    positions = [team["position"] for team in found["teams"]]
    assert positions == sorted(positions)


def test_a_folder_and_its_zip_share_a_place(first_board: Path) -> None:
    by_name = {team["name"]: team for team in document_of(first_board / "out")["teams"]}
    assert by_name["namer"]["equal"] == ["finder", "namer_zipped", "outliner"]  # as docs/leaderboards.md tells
    assert by_name["namer"]["position"] == by_name["namer_zipped"]["position"]
    assert by_name["namer"]["columns"] == by_name["namer_zipped"]["columns"]


def test_a_rejected_team_stays_in_the_board_with_its_code_and_reason(first_board: Path) -> None:
    (row,) = document_of(first_board / "out")["not_ranked"]
    assert (row["name"], row["code"]) == ("broken", "wrong-format")
    assert row["reason"].startswith(f"[{row['code']}] ")
    assert "P1_1/Epithelial/1.mat" in row["reason"]


def test_values_and_ranks_are_those_of_metrics_json(first_board: Path) -> None:
    for team in document_of(first_board / "out")["teams"]:
        metrics = json.loads((first_board / f"out/results/{team['name']}/metrics.json").read_text())
        for (path, _), cell in zip(COLUMNS, team["columns"], strict=True):
            assert cell["path"] == path
            assert cell["value"] == number_at(metrics, path)


def test_the_csv_says_what_the_json_says(first_board: Path) -> None:
    document = document_of(first_board / "out")
    rows = list(csv.DictReader(io.StringIO((first_board / "out/leaderboard.csv").read_text())))
    ranked, unranked = rows[: len(document["teams"])], rows[len(document["teams"]) :]
    for row, team in zip(ranked, document["teams"], strict=True):
        assert (row["team"], float(row["position"]), float(row["combined"])) == (
            team["name"],
            team["position"],
            team["combined"],
        )
        for cell in team["columns"]:
            assert float(row[cell["path"]]) == cell["value"]
            assert float(row[f"{cell['path']}.rank"]) == cell["rank"]
        assert float(row["probability_of_first"]) == team["probability_of_first"]
    assert [(row["team"], row["not_ranked"], row["position"]) for row in unranked] == [
        (row["name"], row["code"], "") for row in document["not_ranked"]
    ]


def test_friedman_is_that_of_scipy_on_the_groups_of_details_json(first_board: Path) -> None:
    found = document_of(first_board / "out")["columns"][0]["significance"]
    groups = {
        name: json.loads((first_board / f"out/results/{name}/details.json").read_text())["groups"]
        for name in ("finder", "namer", "namer_zipped", "outliner")
    }
    samples = [
        [of["rules"]["iou_above"]["scores"]["detection"]["f1"] for _, of in sorted(of_team.items())]
        for of_team in groups.values()
    ]
    expected = friedmanchisquare(*samples)
    assert found["friedman"]["statistic"] == pytest.approx(expected.statistic, abs=1e-6)
    doubled = (2 * rankdata(np.array(samples).T, axis=1)).astype(int)
    sums = np.array([np.sum(order, axis=0) for order in product(*(set(permutations(of)) for of in doubled.tolist()))])
    as_extreme = (sums**2).sum(axis=1) >= (doubled.sum(axis=0) ** 2).sum()
    assert found["friedman"]["p_value"] == pytest.approx(as_extreme.mean(), rel=1e-5)
    assert found["friedman"]["distribution"] == "exact"
    assert found["units"] == 4


def test_shares_of_places_and_of_the_first_place_add_up(first_board: Path) -> None:
    teams_found = document_of(first_board / "out")["teams"]
    assert sum(team["probability_of_first"] for team in teams_found) == pytest.approx(1, abs=1e-5)
    for team in teams_found:
        assert sum(place["share"] for place in team["places"]) == pytest.approx(1, abs=1e-5)
        assert team["rank_interval"]["low"] <= team["rank_interval"]["high"]


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

    def counting(finish: Any, folder: Path, path: Path, **options: Any) -> Any:
        scored.append(path.stem)
        return score_then(finish, folder, path, **options)

    monkeypatch.setattr(teams, "score_then", counting)
    return scored


FILE = "case_017/Lymphocyte.tif"


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny challenge with four teams that are scored, one of them broken."""
    folder = tmp_path_factory.mktemp("scored")
    column = {"path": "detection.f1.group_mean", "direction": "descending"}
    ranking = {"method": "absolute", "ties": "min", "significance_level": 0.05, "columns": [column]}
    with pytest.MonkeyPatch.context() as patch:
        Bench(folder, None, patch).make("label_image by class", ranking=ranking)
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


def test_a_second_call_scores_nothing_and_writes_the_same_bytes(copied: Path, counted: list[str]) -> None:
    before = [(copied / "out" / name).read_bytes() for name in ("leaderboard.json", "leaderboard.csv")]
    assert again(copied) == 0
    assert counted == []
    assert [(copied / "out" / name).read_bytes() for name in ("leaderboard.json", "leaderboard.csv")] == before


def test_one_new_submission_is_the_only_one_that_is_scored(copied: Path, counted: list[str]) -> None:
    shutil.copytree(copied / "submissions/namer", copied / "submissions/newcomer")
    assert again(copied) == 0
    assert counted == ["newcomer"]
    assert len(document_of(copied / "out")["teams"]) == 4


def appended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def exchanged(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


OF_A_TEAM: dict[str, Callable[[Path, Path], object]] = {  # what becomes of a submission, and of its result
    "a file of the submission": lambda team, _: appended(team / FILE),
    "the name of a file": lambda team, _: (team / FILE).rename((team / FILE).with_suffix(".tiff")),
    "a further file": lambda team, _: (team / "README").write_text("notes"),
    "an edited result": lambda _, result: exchanged(result / "metrics.json", '"f1"', '"f2"'),
    "a result that was cut short": lambda _, result: os.truncate(result / "details.json", 1000),
    "no key": lambda _, result: (result / "key.json").unlink(),
    "a spoilt key": lambda _, result: (result / "key.json").write_text("["),
}


@pytest.mark.parametrize("change", OF_A_TEAM)
def test_what_changed_is_scored_again_and_nothing_else(copied: Path, counted: list[str], change: str) -> None:
    OF_A_TEAM[change](copied / "submissions/finder", copied / "out/results/finder")
    assert again(copied) == 0
    assert counted == ["finder"]


def test_a_rejected_submission_that_was_mended_is_scored(copied: Path, counted: list[str]) -> None:
    shutil.copyfile(copied / "submissions/finder" / FILE, copied / "submissions/broken" / FILE)
    assert again(copied) == 0
    assert counted == ["broken"]
    assert document_of(copied / "out")["not_ranked"] == []


def test_a_submission_that_is_rejected_now_keeps_no_old_result(copied: Path) -> None:
    (copied / "submissions/finder" / FILE).write_bytes(b"nothing")
    assert again(copied) == 0
    assert [path.name for path in (copied / "out/results/finder").iterdir()] == ["key.json"]
    assert [row["name"] for row in document_of(copied / "out")["not_ranked"]] == ["broken", "finder"]


OF_ALL: dict[str, Callable[[Path], object]] = {
    "a rule": lambda challenge: exchanged(challenge / "challenge.toml", 'undefined = "skip"', 'undefined = "worst"'),
    "a limit": lambda challenge: exchanged(challenge / "challenge.toml", "name =", "limits.json_depth = 31\nname ="),
    "the reference": lambda challenge: appended(challenge / "reference" / FILE),
    "the cases": lambda challenge: exchanged(challenge / "cases.csv", ",P2,", ",P3,"),
    "the version": lambda challenge: None,
}


@pytest.mark.parametrize("change", OF_ALL)
def test_another_challenge_or_program_scores_all_again(copied, counted, change, monkeypatch):
    OF_ALL[change](copied / "challenge")
    monkeypatch.setattr(teams, "__version__", "99" if change == "the version" else teams.__version__)
    assert again(copied) == 0
    assert counted == ["broken", "finder", "namer", "zipped"]


def test_another_ranking_ranks_what_is_scored_already(copied: Path, counted: list[str]) -> None:
    path = copied / "challenge/challenge.toml"
    path.write_text(path.read_text().replace('method = "absolute"', 'method = "median_of_ranks"'))
    before = document_of(copied / "out")
    assert again(copied) == 0
    assert counted == []
    after = document_of(copied / "out")
    same = {"name", "version", "hash"}
    assert {key: after["challenge"][key] for key in same} == {key: before["challenge"][key] for key in same}
    assert after["challenge"]["ranking_hash"] != before["challenge"]["ranking_hash"]
    assert (before["ranking"]["method"], after["ranking"]["method"]) == ("absolute", "median_of_ranks")


def test_images_beside_the_reference_change_no_key(copied: Path, counted: list[str]) -> None:
    (copied / "challenge/reference/case_017/case_017.svs").write_bytes(b"pixels")
    (copied / "challenge/notes.txt").write_text("nothing is scored by these")
    assert again(copied) == 0
    assert counted == []


def test_an_interrupted_call_goes_on_where_it_stopped(copied, counted, monkeypatch):
    shutil.rmtree(copied / "out")
    counting = teams.score_then

    def interrupted(finish: Any, folder: Path, path: Path, **options: Any) -> Any:
        if path.name == "namer":
            raise KeyboardInterrupt
        return counting(finish, folder, path, **options)

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

    def dying(finish: Any, folder: Path, path: Path, **options: Any) -> Any:
        if path.name == "newcomer":
            raise WorkerDied(Finding("worker-died", "one of 2 workers", "ended", "enough memory"))
        return counting(finish, folder, path, **options)

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


def test_a_csv_file_of_all_cases_is_a_team(tmp_path, capsys, monkeypatch) -> None:
    bench = Bench(tmp_path, capsys, monkeypatch)
    column = {"path": "detection.f1.group_mean", "direction": "descending"}
    bench.make(
        "rle_csv", ranking={"method": "absolute", "ties": "min", "significance_level": 0.05, "columns": [column]}
    )
    (file,) = Path("submission").rglob("*.csv")
    Path("submissions").mkdir()
    shutil.copyfile(file, "submissions/alpha.csv")
    shutil.copytree("submission", "submissions/beta")
    Path("submissions/README.md").write_text("notes")
    bench.run("leaderboard", "--challenge", "challenge", "--submissions", "submissions", "--output", "out")
    found = document_of(Path("out"))
    assert [(team["name"], team["position"], team["columns"][0]["value"]) for team in found["teams"]] == [
        ("alpha", 1, 1),
        ("beta", 1, 1),
    ]
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


@pytest.mark.parametrize("name", ["a'b", " alpha", "=cmd", "x" * 201, "na\x1b[31mmer", "line\nbreak"])
def test_a_team_with_an_odd_name_is_left_out_and_the_others_are_ranked(made, tmp_path, capsys, name) -> None:
    shutil.copytree(made.submissions["finder"], tmp_path / "submissions" / "finder")
    shutil.copytree(made.submissions["finder"], tmp_path / "submissions" / name)
    assert leaderboard(made.challenge, tmp_path / "submissions", tmp_path / "out") == 0
    document = document_of(tmp_path / "out")
    assert [team["name"] for team in document["teams"]] == ["finder"]
    (left_out,) = document["not_ranked"]
    assert left_out["code"] == "invalid-team"
    assert left_out["name"].isprintable()
    assert "expected a name of letters" in left_out["reason"]
    assert "[invalid-team]" in (tmp_path / "out" / "leaderboard.csv").read_text()
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("names, code", [
    (["alpha", "ALPHA.zip"], "duplicate-team"),
    (["a'b"], "invalid-team"),
    ([" alpha"], "invalid-team"),
    ([], "no-teams"),
])  # fmt: skip
def test_folders_that_make_no_teams_are_wrong_usage(made, tmp_path, capsys, names, code) -> None:
    (tmp_path / "submissions").mkdir()
    for name in names:
        path = tmp_path / "submissions" / name
        path.write_bytes(b"") if path.suffix else path.mkdir()
    assert leaderboard(made.challenge, tmp_path / "submissions", tmp_path / "out") == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_no_folder_of_submissions_is_wrong_usage(made, tmp_path, capsys) -> None:
    assert leaderboard(made.challenge, tmp_path / "nowhere", tmp_path / "out") == 2
    assert "[no-submission]" in capsys.readouterr().err


def test_nobody_left_to_rank_is_a_board_without_places(made, tmp_path) -> None:
    (tmp_path / "submissions/empty").mkdir(parents=True)
    assert leaderboard(made.challenge, tmp_path / "submissions", tmp_path / "out") == 0
    found = document_of(tmp_path / "out")
    assert (found["teams"], found["stability"]["undefined"]) == ([], "no-teams")
    assert [row["code"] for row in found["not_ranked"]] == ["empty-submission"]


# --- what groups bring into a mean ------------------------------------------------------------------------------------


def every_column(challenge: Challenge, aggregation: str) -> list[RankingColumn]:
    return [
        RankingColumn(path=".".join((*prefix, *metric.path, aggregation)), direction="descending")
        for place, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if place else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=place == 0)
    ]


@pytest.mark.parametrize("undefined", ["skip", "worst"])
def test_the_mean_of_what_groups_bring_is_the_number_in_metrics_json(made, tmp_path, undefined) -> None:
    """Also with a patient that was not submitted, half of one, and one in which nothing is matched."""
    challenge_folder = Path(shutil.copytree(made.challenge, tmp_path / "challenge"))
    with (challenge_folder / "challenge.toml").open("a") as toml:
        toml.write(f'[aggregation]\nundefined = "{undefined}"\n')
    submission = Path(shutil.copytree(made.submissions["finder"], tmp_path / "submission"))
    shutil.rmtree(submission / "P1")
    shutil.rmtree(submission / "P2/P2_1")
    for path in (submission / "P4").rglob("1.mat"):
        shutil.copyfile(submission / "P2/P2_2/Lymphocyte/1.mat", path)
    shutil.rmtree(submission / "P4")
    for case in ("P4_1", "P4_2"):
        (submission / "P4" / case / "Macrophage").mkdir(parents=True)
        source = next((made.submissions["finder"] / "P4" / case).glob("*/1.mat"))
        (submission / "P4" / case / "Macrophage/1.mat").write_bytes(blank_like(source))
    result = score_submission(challenge_folder, submission)
    columns = plan_columns(result.challenge, every_column(result.challenge, "group_mean"))
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


def blank_like(path: Path) -> bytes:
    """A label image of the same size with one nucleus of one pixel in a corner."""
    from scipy.io import loadmat, savemat

    labels = np.zeros_like(loadmat(path)["n_ary_mask"])
    labels[0, 0] = 1
    stream = io.BytesIO()
    savemat(stream, {"n_ary_mask": labels})
    return stream.getvalue()


def test_a_group_brings_into_a_case_mean_the_mean_of_its_cases(made: DemoPaths) -> None:
    result = score_submission(made.challenge, made.submissions["namer"])
    (column,) = plan_columns(result.challenge, [RankingColumn(path="detection.f1.case_mean", direction="descending")])
    values = values_of_groups(result.challenge, result.details, column)
    cases = result.details["cases"]
    expected = [
        statistics.fmean(
            of["rules"]["iou_above"]["scores"]["detection"]["f1"] for of in cases.values() if of["group"] == group
        )
        for group in ("P1", "P2", "P3", "P4")
    ]
    assert values.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("unit", "by_case"), [("case", True), ("group", False)])
def test_a_group_brings_into_a_mean_over_strata_what_the_unit_of_the_challenge_is(unit, by_case, made, tmp_path):
    folder = Path(shutil.copytree(made.challenge, tmp_path / "challenge"))
    header, *rows = (folder / "cases.csv").read_text().split()
    strata = [f"{row},{'lung' if ',P1,' in row or ',P2,' in row else 'kidney'}" for row in rows]
    (folder / "cases.csv").write_text("\n".join([f"{header},stratum", *strata, ""]))
    with (folder / "challenge.toml").open("a") as toml:
        toml.write(f'[aggregation]\nunit = "{unit}"\n')
    result = score_submission(folder, made.submissions["namer"])
    path = "detection.f1.stratum_mean"
    (column,) = plan_columns(result.challenge, [RankingColumn(path=path, direction="descending")])
    values = values_of_groups(result.challenge, result.details, column)

    def f1_of(entry: dict[str, Any]) -> float:
        return float(entry["rules"]["iou_above"]["scores"]["detection"]["f1"])

    groups = ("P1", "P2", "P3", "P4")
    cases = result.details["cases"].values()
    mean_of_cases = [statistics.fmean(f1_of(of) for of in cases if of["group"] == group) for group in groups]
    of_groups = [f1_of(result.details["groups"][group]) for group in groups]
    assert mean_of_cases != pytest.approx(of_groups, abs=1e-6)
    assert values.tolist() == pytest.approx(mean_of_cases if by_case else of_groups, abs=1e-9)


def test_teams_are_ranked_by_their_worst_group(made: DemoPaths, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made.challenge, tmp_path / "challenge"))
    with (folder / "challenge.toml").open("a") as toml:
        toml.write('[aggregation]\nworst = "group"\n')
    path = "detection.f1.worst_group"
    for name, submission in made.submissions.items():
        result = score_submission(folder, submission)
        (column,) = plan_columns(result.challenge, [RankingColumn(path=path, direction="descending")])
        values = values_of_groups(result.challenge, result.details, column)
        assert result.value(path) == pytest.approx(values.min(), abs=1e-6), name
        assert values.min() < values.max()


def test_a_group_brings_its_own_score_into_a_pooled_column(made: DemoPaths) -> None:
    result = score_submission(made.challenge, made.submissions["namer"])
    path = "alternatives.best_iou_centroid_inside.detection.f1.pooled"
    (column,) = plan_columns(result.challenge, [RankingColumn(path=path, direction="descending")])
    assert column.rule == "best_iou_centroid_inside"
    values = values_of_groups(result.challenge, result.details, column)
    groups = result.details["groups"]
    assert values.tolist() == [
        groups[name]["rules"][column.rule]["scores"]["detection"]["f1"] for name in ("P1", "P2", "P3", "P4")
    ]


# --- from a table to a board ------------------------------------------------------------------------------------------


def table_of(by_unit: Any, *, higher: bool = True) -> ScoreTable:
    """A table of one column for each list of lists: by_unit[column][team][unit]."""
    values = np.moveaxis(np.array(by_unit, float), 0, 1)
    columns, units = values.shape[1:]
    known = ~np.isnan(values)
    total = np.where(known, values, 0).sum(axis=2)
    return ScoreTable(
        teams=tuple(f"team {number}" for number in range(len(values))),
        columns=tuple(f"a.m{column}.group_mean" for column in range(columns)),
        higher_is_better=np.full(columns, higher),
        weights=np.ones(columns),
        overall=np.divide(total, known.sum(axis=2), out=np.full(total.shape, np.nan), where=known.any(axis=2)),
        units=tuple(f"P{unit}" for unit in range(units)),
        by_unit=values,
    )


def rules_of(table: ScoreTable, **more: Any) -> RankingRules:
    columns = tuple(
        RankingColumn(path=path, direction="descending" if higher else "ascending")
        for path, higher in zip(table.columns, table.higher_is_better, strict=True)
    )
    document = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "samples": 100}
    return RankingRules(columns=columns, **document | more)


def ranked(table: ScoreTable, **more: Any) -> Board:
    return build_board(table, rules_of(table, **more))


METHODS = (
    "sum_of_ranks", "mean_of_ranks", "median_of_ranks", "absolute", "aggregate_then_rank", "rank_then_aggregate",
    "test_then_rank", "ranked_pairs", "better_teams",
)  # fmt: skip
EDGES = {
    "one team": [[[0.5, 0.6, 0.7]]],
    "two teams": [[[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]]],
    "one group": [[[0.5], [0.6], [0.7]]],
    "one team in one group": [[[0.5]]],
    "a constant column": [[[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]],
    "an undefined column": [[[np.nan, np.nan], [np.nan, np.nan]]],
    "a team without a value": [[[0.5, 0.6], [np.nan, np.nan], [0.4, 0.3]]],
    "no common group": [[[0.5, np.nan], [np.nan, 0.6]]],
}


@pytest.mark.parametrize("ex_aequo", [False, True])
@pytest.mark.parametrize("missing", ["worst", "unranked"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("edge", EDGES)
def test_every_edge_gives_a_board_that_can_be_written(edge, method, missing, ex_aequo) -> None:
    board = ranked(table_of(EDGES[edge]), method=method, missing=missing, ex_aequo=ex_aequo)
    document = json.loads(leaderboard_json(board), parse_constant=pytest.fail)
    names = {row["name"] for row in document["teams"]} | {row["name"] for row in document["not_ranked"]}
    assert len(names) == len(EDGES[edge][0]) == len(document["teams"]) + len(document["not_ranked"])
    assert all(row["position"] >= 1 for row in document["teams"])
    assert not document["teams"] or document["teams"][0]["position"] == 1 or board.ranking["ties"] == "average"


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


SEPARATE = [[0.9, 0.8, 0.9, 0.7, 0.9], [0.8, 0.7, 0.8, 0.6, 0.8], [0.1, 0.2, 0.3, 0.1, 0.1]]


def test_teams_that_cannot_be_told_apart_share_a_place_when_the_challenge_says_so() -> None:
    """Mean ranks 1, 2, 3 over five patients, critical difference 1.48: only the first and the last differ."""
    plain, shared = ranked(table_of([SEPARATE])), ranked(table_of([SEPARATE]), ex_aequo=True)
    assert [row.position for row in plain.teams] == [1, 2, 3]
    assert [(row.name, row.position) for row in shared.teams] == [("team 0", 1), ("team 1", 1), ("team 2", 3)]
    assert shared.teams[0].equal == ("team 1",)
    assert "share a rank" in shared.ranking["in_words"]


def test_places_of_several_columns_are_shared_column_by_column() -> None:
    backwards = SEPARATE[::-1]
    board = ranked(table_of([SEPARATE, SEPARATE, backwards]), ex_aequo=True)
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
    row = leaderboard_document(ranked(table_of([SEPARATE]), method=method))["teams"][0]["columns"][0]
    expected = {"aggregate_then_rank": 0.84, "rank_then_aggregate": 1, "test_then_rank": 0.5}
    assert row["ranked_by"] == pytest.approx(expected[method])
    assert "ranked_by" not in leaderboard_document(ranked(table_of([SEPARATE])))["teams"][0]["columns"][0]


def test_the_bootstrap_of_test_then_rank_tests_in_every_sample() -> None:
    board = ranked(table_of([[[0.9] * 8, [0.1] * 8]]), method="test_then_rank", samples=100)
    assert [(row.position, row.probability_of_first, row.rank_interval) for row in board.teams] == [
        (1, 1, {"low": 1, "high": 1}),
        (2, 0, {"low": 2, "high": 2}),
    ]


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


def score(challenge: Path, submission: Path, output: Path, *more: object) -> int:
    arguments = ["--challenge", challenge, "--submission", submission, "--output", output, "--workers", 1, *more]
    return cli.run(["score", *map(str, arguments)])


def test_score_writes_the_place_among_earlier_results(made, with_earlier, results, tmp_path) -> None:
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == 0
    written = json.loads((tmp_path / "out/metrics.json").read_text())
    MetricsFile.model_validate(written)
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
    }


def test_a_stored_result_of_the_same_team_is_no_rival(made, with_earlier, results, tmp_path) -> None:
    finder = made.submissions["finder"]
    for team, others in [("secret_team", 2), ("unknown to all", 3), ("", 3)]:
        assert score(with_earlier, finder, tmp_path / f"out {team}", *(["--team", team] if team else [])) == 0
        board = json.loads((tmp_path / f"out {team}/metrics.json").read_text())["leaderboard"]
        assert board["submissions"] == others
    (with_earlier / "leaderboard/baseline.json").unlink()
    assert score(with_earlier, finder, tmp_path / "alone", "--team", "secret_team") == 0
    assert_no_stored_results(json.loads((tmp_path / "alone/metrics.json").read_text()))


def test_names_of_other_teams_are_in_no_output(made, with_earlier, tmp_path) -> None:
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == 0
    for path in (tmp_path / "out").iterdir():
        assert "secret_team" not in path.read_text(), path.name


def assert_no_stored_results(metrics: dict[str, Any]) -> None:
    """All ranks are null, each with the reason at the same path."""
    assert metrics["leaderboard"].pop("submissions") == 1
    paths = ["position", "sum_of_ranks", *(f"rank.{path}" for path, _ in COLUMNS)]
    for path in paths:
        assert number_at(metrics["leaderboard"], path) is None
        assert number_at(metrics["undefined"]["leaderboard"], path) == "no-stored-results"


def test_without_earlier_results_the_reason_stands_under_undefined(made, results, tmp_path) -> None:
    for name in ("none", "empty"):
        challenge = Path(shutil.copytree(made.challenge, tmp_path / name))
        if name == "empty":
            (challenge / "leaderboard").mkdir()
            (challenge / "leaderboard/README.md").write_text("nothing yet")
        assert score(challenge, made.submissions["finder"], tmp_path / f"out_{name}") == 0
        written = json.loads((tmp_path / f"out_{name}/metrics.json").read_text())
        MetricsFile.model_validate(written)
        assert_no_stored_results(written)
        del written["leaderboard"], written["undefined"]["leaderboard"]
        assert written == results["finder"], "nothing else changes"


def test_without_a_ranking_the_block_is_absent(with_earlier, made) -> None:
    result = score_submission(with_earlier, made.submissions["finder"])
    unranked = result.challenge.model_copy(update={"ranking": None})
    from dataclasses import replace

    assert "leaderboard" not in rank_result(with_earlier, replace(result, challenge=unranked)).metrics
    assert "leaderboard" not in without_place(replace(result, challenge=unranked)).metrics


def test_stored_results_that_may_not_be_looked_into_are_told(with_earlier, made, results, tmp_path, monkeypatch):
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "leaderboard" and allowed(path, mode))
    monkeypatch.setattr(Path, "glob", lambda path, pattern: iter(()))  # what it finds there without permission
    assert score(with_earlier, made.submissions["finder"], tmp_path / "out") == 0
    assert_no_stored_results(json.loads((tmp_path / "out/metrics.json").read_text()))
    told = "[other-leaderboard] 'leaderboard': permission denied; expected a folder that everybody may read."
    findings = json.loads((tmp_path / "out/details.json").read_text())["findings"]
    assert [line[: len(told)] for line in findings if line.startswith("[other-leaderboard]")] == [told]


def test_results_of_other_challenges_are_left_out_with_a_warning(with_earlier, made, results, tmp_path) -> None:
    other = json.loads(as_json(results["namer"]))
    other["challenge"]["hash"] = "0" * 64
    (with_earlier / "leaderboard/baseline.json").write_text(as_json(other))
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == 0
    assert json.loads((tmp_path / "out/metrics.json").read_text())["leaderboard"]["submissions"] == 2
    findings = json.loads((tmp_path / "out/details.json").read_text())["findings"]
    assert [line for line in findings if line.startswith("[other-leaderboard] 'leaderboard/baseline.json'")]
    (with_earlier / "leaderboard/secret_team.json").unlink()
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "alone") == 0
    assert_no_stored_results(json.loads((tmp_path / "alone/metrics.json").read_text()))


BROKEN = (b"", b"{", b"[]", b"{}", b'{"challenge": NaN}', b"[" * 10_000, b"\xff\xfe", b'{"challenge": {"name": "x"}}')


def test_broken_earlier_results_are_left_out_and_cost_nobody_the_score(with_earlier, made, tmp_path) -> None:
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "without") == 0
    for number, content in enumerate(BROKEN):
        (with_earlier / f"leaderboard/broken {number}.json").write_bytes(content)
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == 0
    assert (tmp_path / "out/metrics.json").read_bytes() == (tmp_path / "without/metrics.json").read_bytes()
    findings = json.loads((tmp_path / "out/details.json").read_text())["findings"]
    (told,) = (finding for finding in findings if finding.startswith("[other-leaderboard]"))
    assert "'leaderboard/broken 0.json': an empty file" in told and f"; {len(BROKEN) - 3} more)" in told


def test_an_earlier_result_may_be_wrapped_as_the_platform_does(with_earlier, made, tmp_path) -> None:
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "plain") == 0
    for path in (with_earlier / "leaderboard").glob("*.json"):
        slug = {"interface": {"slug": "metrics-json-file"}, "value": json.loads(path.read_text())}
        path.write_text(json.dumps([{"interface": {"slug": "other"}, "value": 1}, slug]))
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "wrapped") == 0
    written = [(tmp_path / name / "metrics.json").read_bytes() for name in ("plain", "wrapped")]
    assert written[0] == written[1]


def test_store_writes_what_goes_into_the_next_ground_truth(made, tmp_path) -> None:
    submissions = made.submissions["finder"].parent
    assert leaderboard(made.challenge, submissions, tmp_path / "board", "--store", tmp_path / "store") == 0
    shutil.copytree(made.challenge, tmp_path / "next")
    shutil.copytree(tmp_path / "store", tmp_path / "next" / "leaderboard")
    assert score(tmp_path / "next", made.submissions["finder"], tmp_path / "out") == 0
    assert json.loads((tmp_path / "out/metrics.json").read_text())["leaderboard"]["submissions"] == 4


def test_the_first_run_of_the_image_writes_ranks(own_demo: DemoPaths, tmp_path) -> None:
    shipped = Path(__file__).resolve().parents[1] / "ground_truth"
    for team, folder in own_demo.submissions.items():
        assert score(own_demo.challenge, folder, tmp_path / team) == 0
        found, kept = (
            json.loads(path.read_text())
            for path in (tmp_path / team / "metrics.json", shipped / f"leaderboard/{team}.json")
        )
        assert found.pop("leaderboard")["position"] is None  # the demo's challenge itself keeps no results
        del found["undefined"]["leaderboard"]
        assert {**kept, "software": found["software"]} == found
    assert score(shipped, own_demo.submissions["namer"], tmp_path / "out") == 0
    ranks = json.loads((tmp_path / "out/metrics.json").read_text())["leaderboard"]
    assert (ranks["submissions"], ranks["position"]) == (4, 2)  # its own earlier result is a rival: the team is unknown
    assert score(shipped, own_demo.submissions["namer"], tmp_path / "known", "--team", "namer") == 0
    ranks = json.loads((tmp_path / "known/metrics.json").read_text())["leaderboard"]
    assert (ranks["submissions"], ranks["position"]) == (3, 3)


def test_an_undefined_column_takes_the_place_where_the_challenge_says_so(with_earlier, made, tmp_path) -> None:
    """Nothing is matched: Hausdorff distances and accuracies are undefined."""
    submission = tmp_path / "submission"
    for path in sorted(made.submissions["finder"].glob("*/*")):
        source = next(path.glob("*/1.mat"))
        target = submission / path.relative_to(made.submissions["finder"]) / "Neutrophil/1.mat"
        target.parent.mkdir(parents=True)
        target.write_bytes(blank_like(source))
    assert score(with_earlier, submission, tmp_path / "worst") == 0
    board = json.loads((tmp_path / "worst/metrics.json").read_text())["leaderboard"]
    assert (board["position"], board["sum_of_ranks"], board["submissions"]) == (3, 12, 3)

    with (with_earlier / "challenge.toml").open("a") as toml:
        toml.write('[ranking]\nmissing = "unranked"\n')
    renew_hashes(with_earlier)
    assert score(with_earlier, submission, tmp_path / "unranked") == 0
    metrics = json.loads((tmp_path / "unranked/metrics.json").read_text())
    assert (metrics["leaderboard"]["position"], metrics["leaderboard"]["submissions"]) == (None, 2)
    assert metrics["undefined"]["leaderboard"]["position"] == "no-value"


def renew_hashes(challenge: Path) -> None:
    """Give the earlier results of a challenge its present hash."""
    for path in (challenge / "leaderboard").glob("*.json"):
        metrics = json.loads(path.read_text())
        metrics["challenge"]["hash"] = Challenge.load(challenge).hash
        path.write_text(as_json(metrics))


@pytest.mark.parametrize("rule", ['method = "rank_then_aggregate"', "ex_aequo = true"])
def test_a_place_that_needs_more_than_means_is_null_with_the_reason(with_earlier, made, tmp_path, rule) -> None:
    with (with_earlier / "challenge.toml").open("a") as toml:
        toml.write(f"[ranking]\n{rule}\n")
    renew_hashes(with_earlier)
    assert score(with_earlier, made.submissions["outliner"], tmp_path / "out") == 0
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert (metrics["leaderboard"]["position"], metrics["leaderboard"]["sum_of_ranks"]) == (None, 7)
    assert metrics["undefined"]["leaderboard"] == {"position": "needs-details"}


# --- the settings of a phase ------------------------------------------------------------------------------------------


def paths_of(settings: dict[str, Any]) -> list[str]:
    return [settings["score_jsonpath"], *(column["path"] for column in settings["extra_results_columns"])]


def test_every_path_of_the_phase_is_a_number_in_metrics_json(made, results, capsys) -> None:
    assert cli.run(["phase", "--challenge", str(made.challenge)]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert [(path, order) for path, order in zip(
        paths_of(settings),
        [settings["score_default_sort"], *(column["order"] for column in settings["extra_results_columns"])],
        strict=True,
    )] == [(path, {"ascending": "asc", "descending": "desc"}[direction]) for path, direction in COLUMNS]  # fmt: skip
    for metrics in results.values():
        for path in paths_of(settings):
            assert type(number_at(metrics, path)) is float, path


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_has_settings_whose_paths_its_results_have(preset: str) -> None:
    challenge = Challenge.from_preset(preset, name="test")
    if challenge.ranking is None or not challenge.ranking.columns:
        pytest.skip("this preset does not rank")
    settings = phase_settings(challenge)["settings"]
    assert (settings["submissions_limit_per_user_per_period"], settings["submission_limit_period"]) == (1, 7)
    known = {column.path for name in ("pooled", "group_mean", "case_mean", "stratum_mean")
             for column in every_column(challenge, name)}  # fmt: skip
    assert set(paths_of(settings)) <= known
    titles = [settings["score_title"], *(column["title"] for column in settings["extra_results_columns"])]
    assert len(set(titles)) == len(titles)
    assert all(0 < len(title) <= 64 for title in titles)


@pytest.mark.parametrize(
    "method, choice",
    [("sum_of_ranks", "avg"), ("mean_of_ranks", "avg"), ("median_of_ranks", "med"), ("rank_then_aggregate", "avg")],
)
def test_the_scoring_method_is_the_nearest_that_the_platform_has(method: str, choice: str) -> None:
    challenge = Challenge.from_preset("monusac2020", name="test")
    rules = challenge.ranking.model_copy(update={"method": method})
    document = phase_settings(challenge.model_copy(update={"ranking": rules}))
    assert document["settings"]["scoring_method_choice"] == choice
    told = [line for line in document["explanation"] if f"method = '{method}'" in line]
    assert bool(told) == (method == "rank_then_aggregate")


@pytest.mark.parametrize("change", [{"ties": "dense"}, {"missing": "worst"}, {"ex_aequo": True}])
def test_what_the_platform_cannot_do_is_told(change: dict[str, Any]) -> None:
    challenge = Challenge.from_preset("monusac2020", name="test")
    rules = challenge.ranking.model_copy(update={"missing": "unranked", **change})
    lines = phase_settings(challenge.model_copy(update={"ranking": rules}))["explanation"]
    (line,) = [line for line in lines if line.startswith("Not on the platform: ")]
    assert next(iter(change)) in line


def test_titles_that_are_equal_get_their_aggregation() -> None:
    paths = ["detection.f1.pooled", "detection.f1.case_mean"]
    assert phase_titles(paths) == ["Detection f1 pooled", "Detection f1 case mean"]


def test_the_settings_in_the_guide_are_those_that_the_command_prints() -> None:
    page = (ROOT / "docs/organisers.md").read_text()
    settings = phase_settings(Challenge.from_preset("recommended", name="test"))["settings"]
    order = {"desc": "Descending", "asc": "Ascending"}[settings["score_default_sort"]]
    assert f"| `{settings['score_title']}`, `{settings['score_jsonpath']}`, *{order}* |" in page
    limit = settings["submissions_limit_per_user_per_period"], settings["submission_limit_period"]
    assert f"| Limit of submissions | {limit[0]} in {limit[1]} days" in page


@pytest.mark.parametrize("command", ["phase", "leaderboard", "rank"])
@pytest.mark.parametrize("columns", [None, ()])
def test_a_challenge_that_does_not_rank_is_told(tmp_path, capsys, monkeypatch, command, columns) -> None:
    bench = Bench(tmp_path, capsys, monkeypatch)
    ranking = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": []}
    bench.make("label_image by class", **({} if columns is None else {"ranking": ranking}))
    more = {
        "phase": (),
        "leaderboard": ("--submissions", "submission", "--output", "out"),
        "rank": ("--results", "submission", "--output", "out"),
    }[command]
    assert cli.run([command, "--challenge", "challenge", *more]) == 3
    assert "[no-ranking] challenge.toml: ranking: no " in capsys.readouterr().err


# --- the demo ---------------------------------------------------------------------------------------------------------


def test_the_demo_shows_the_leaderboard_that_the_page_shows(tmp_path, capsys) -> None:
    assert cli.run(["demo", "--output", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    rows = [line.rstrip() for line in printed.splitlines() if re.match(r"  \d\u2002", line)]
    assert [line.split()[1] for line in rows] == ["finder", "outliner", "namer"]
    document = document_of(tmp_path / "demo")
    text = (ROOT / "docs/leaderboards.md").read_text()
    assert set(rows) <= {line.rstrip() for line in text.splitlines()}
    assert " ".join(document["verdict"]) in " ".join(text.split())
    assert [team["name"] for team in document["teams"]] == ["finder", "outliner", "namer"]
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


def test_scores_of_teams_can_be_had_without_the_command(made: DemoPaths, tmp_path: Path) -> None:
    challenge, rules = load_ranked(made.challenge)
    shutil.copytree(made.submissions["finder"], tmp_path / "submissions/finder")
    columns = plan_columns(challenge, rules.columns)
    found = score_teams(made.challenge, challenge, columns, tmp_path / "submissions", tmp_path / "out")
    result = score_submission(made.challenge, made.submissions["finder"])
    expected = team_of_documents("finder", challenge, columns, result.metrics, result.details)
    assert found.unranked == ()
    assert found.scores[0].overall.tolist() == expected.overall.tolist()
    assert found.scores[0].by_unit.tolist() == expected.by_unit.tolist()


def test_what_a_killed_call_left_half_written_leaves_with_the_result(tmp_path: Path) -> None:
    unfinished = [".key.json.a1b2c3d4", ".details.json.zzzzzzzz"]
    for name in ("metrics.json", "key.json", *unfinished, "notes.txt", ".key.json.mine"):
        (tmp_path / name).write_text("{}")
    stored.forget(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".key.json.mine", "notes.txt"]
