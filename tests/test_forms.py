"""Files that version 0.1 wrote, unchanged, and the forms of what is written today.

``golden/kept_0.1`` was made by the commits c74de0c (first), db75ab5 (second: another hash, leaderboards) and 943016d
(last) of this program, from two cases of the demo.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluation import score_submission
from evaluation.challenge import Challenge
from evaluation.commands.explain import explain
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.leaderboard.board import rank_folder, rank_result, read_earlier
from evaluation.leaderboard.document import leaderboard_document
from evaluation.leaderboard.team_scores import read_metrics
from evaluation.leaderboard.teams import ResultFolder
from evaluation.report.results_folder import page_of_results
from evaluation.results.schema import DetailsFile, LeaderboardFile

GOLDEN = Path(__file__).parent / "golden"
KEPT = GOLDEN / "kept_0.1"
FROZEN = GOLDEN / "frozen"


TEAMS_OF = [("first", ["finder", "namer"]), ("second", ["finder"]), ("last", ["finder"])]


@pytest.mark.parametrize(("folder", "teams"), TEAMS_OF)
def test_results_of_version_0_1_are_ranked_by_their_groups(folder: str, teams: list[str]) -> None:
    board = rank_folder(KEPT / "challenge", ResultFolder(KEPT / folder), {})
    assert [team.name for team in board.teams] == teams
    assert board.versions == ("0.1.0",)
    for team in board.teams:
        metrics = json.loads((KEPT / folder / team.name / "metrics.json").read_text())
        assert team.values[0] == metrics["detection"]["f1"]["group_mean"]
        assert sum(team.by_unit[0]) / 2 == pytest.approx(team.values[0], abs=1e-6)


@pytest.mark.parametrize("changed", ["cases", "rules"])
@pytest.mark.parametrize("folder", ["first", "second"])
def test_results_of_version_0_1_of_other_cases_or_rules_are_refused(tmp_path: Path, folder: str, changed: str) -> None:
    shutil.copytree(KEPT / "challenge", tmp_path / "challenge")
    if changed == "cases":
        (tmp_path / "challenge" / "cases.csv").write_text("case,group,height,width,spacing_um\nP1_1,P1,280,330,0.25\n")
    else:
        with (tmp_path / "challenge" / "challenge.toml").open("a") as stream:
            stream.write('[reference]\noverlap = "last"\n')
    with pytest.raises(WrongUsage) as refused:
        rank_folder(tmp_path / "challenge", ResultFolder(KEPT / folder), {})
    assert [finding.code for finding in refused.value.findings] == ["different-challenges"]


def test_pages_are_made_of_leaderboards_and_results_of_version_0_1() -> None:
    for folder in ("second", "last"):
        assert "finder" in str(page_of_results(KEPT / folder))
    for folder in ("first", "second", "last"):
        assert page_of_results(KEPT / folder / "finder").sections


def test_stored_results_of_version_0_1_are_ranked_beside_a_submission() -> None:
    challenge = Challenge.load(KEPT / "challenge")
    files = [KEPT / folder / "finder" / "metrics.json" for folder in ("second", "last")]
    earlier, findings = read_earlier(files, challenge)
    assert len(earlier) == 1 and not findings  # both have one name


def test_a_result_of_a_form_that_is_not_known_yet_is_refused(tmp_path: Path) -> None:
    document = json.loads((KEPT / "last" / "finder" / "metrics.json").read_text())
    document["software"]["format_version"] = 2
    (tmp_path / "metrics.json").write_text(json.dumps(document))
    with pytest.raises(InputFault, match=r"'software\.format_version' is wrong: input should be 1"):
        read_metrics(tmp_path / "metrics.json", where="'metrics.json'")


def test_results_and_boards_have_the_published_forms_and_say_their_version(tmp_path: Path) -> None:
    scored = score_submission(FROZEN / "challenge", FROZEN / "submissions" / "finder")
    result = rank_result(FROZEN / "challenge", scored)
    for name, text in result.texts().items():
        (tmp_path / "finder").mkdir(exist_ok=True)
        (tmp_path / "finder" / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    details = DetailsFile.model_validate_json((tmp_path / "finder" / "details.json").read_text())
    board = leaderboard_document(rank_folder(FROZEN / "challenge", ResultFolder(tmp_path), {}))
    read = LeaderboardFile.model_validate(board)
    assert details.software.format_version == read.software.format_version == 1
    assert result.metrics["software"]["format_version"] == 1
    challenge = Challenge.load(FROZEN / "challenge")
    assert read.challenge is not None and read.challenge.ranking_hash == details.challenge.ranking_hash
    assert read.challenge.ranking_hash == challenge.ranking_hash != challenge.hash
    for folder in ("first", "second", "last"):
        old = DetailsFile.model_validate_json((KEPT / folder / "finder" / "details.json").read_text())
        assert old.software.version == "0.1.0"
    for folder in ("second", "last"):
        LeaderboardFile.model_validate_json((KEPT / folder / "leaderboard.json").read_text())


def test_another_ranking_has_another_hash_of_its_own_and_the_same_hash_of_the_rules() -> None:
    challenge = Challenge.load(FROZEN / "challenge")
    assert challenge.ranking is not None
    board = rank_folder(KEPT / "challenge", ResultFolder(KEPT / "last"), {"ties": "average"})
    assert board.identity["hash"] == Challenge.load(KEPT / "challenge").hash
    assert board.identity["ranking_hash"] != challenge.ranking_hash
    audited = challenge.model_copy(update={"audit": challenge.audit.model_copy(update={"fraction": 0.25})})
    assert (audited.hash == challenge.hash) and audited.ranking_hash != challenge.ranking_hash


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("metrics.json", {"challenge", "software", "undefined"}),
        ("details.json", {"challenge", "software", "classes", "findings", "cases", "groups", "pooled", "means"}),
        ("leaderboard.json", {"challenge", "software", "ranking", "teams", "not_ranked"}),
        ("challenge.toml", {"format_version", "name", "classes", "reference", "submission", "metrics", "aggregation"}),
    ],
)
def test_explain_prints_the_schema_of_a_document(file: str, keys: set[str]) -> None:
    printed = json.loads(CliRunner().invoke(explain, ["--schema", file], catch_exceptions=False).stdout)
    assert printed["$schema"].endswith("2020-12/schema")
    assert keys <= set(printed["required"])
    assert "cases" not in printed["properties"] or file == "details.json"
