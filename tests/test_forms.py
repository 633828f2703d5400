"""The forms of what is written, which other programs read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluation import score_submission
from evaluation.challenge import Challenge
from evaluation.commands.look import explain
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.leaderboard.board import rank_folder, rank_result
from evaluation.leaderboard.document import leaderboard_document
from evaluation.leaderboard.team_scores import read_metrics
from evaluation.leaderboard.teams import ResultFolder
from evaluation.results.schema import DetailsFile, LeaderboardFile, MetricsFile

GOLDEN = Path(__file__).parent / "golden"
FROZEN = GOLDEN / "frozen"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``score`` writes for a team of the frozen challenge."""
    folder = tmp_path_factory.mktemp("results")
    rank_result(FROZEN / "challenge", score_submission(FROZEN / "challenge", FROZEN / "submissions/finder")).write(
        folder / "finder"
    )
    return folder


def test_a_result_of_another_form_is_refused(results: Path, tmp_path: Path) -> None:
    document = json.loads((results / "finder/metrics.json").read_text())
    document["software"]["format_version"] = 2
    (tmp_path / "metrics.json").write_text(json.dumps(document))
    with pytest.raises(InputFault, match=r"'software\.format_version' is wrong: input should be 1"):
        read_metrics(tmp_path / "metrics.json", where="'metrics.json'")
    del document["software"]["format_version"]
    (tmp_path / "metrics.json").write_text(json.dumps(document))
    with pytest.raises(InputFault, match=r"'software\.format_version' is wrong: field required"):
        read_metrics(tmp_path / "metrics.json", where="'metrics.json'")


def test_results_and_boards_have_the_published_forms_and_say_their_version(results: Path) -> None:
    details = DetailsFile.model_validate_json((results / "finder/details.json").read_text())
    metrics = MetricsFile.model_validate_json((results / "finder/metrics.json").read_text())
    board = leaderboard_document(rank_folder(FROZEN / "challenge", ResultFolder(results), {}))
    read = LeaderboardFile.model_validate(board)
    assert {of.software.format_version for of in (metrics, details, read)} == {1}
    challenge = Challenge.load(FROZEN / "challenge")
    assert read.challenge is not None and read.challenge.ranking_hash == details.challenge.ranking_hash
    assert read.challenge.ranking_hash == metrics.challenge.ranking_hash == challenge.ranking_hash != challenge.hash


def test_another_ranking_has_another_hash_of_its_own_and_the_same_hash_of_the_rules(results: Path) -> None:
    challenge = Challenge.load(FROZEN / "challenge")
    board = rank_folder(FROZEN / "challenge", ResultFolder(results), {"ties": "average"})
    assert board.identity["hash"] == challenge.hash
    assert board.identity["ranking_hash"] != challenge.ranking_hash
    audited = challenge.model_copy(update={"audit": challenge.audit.model_copy(update={"fraction": 0.25})})
    assert (audited.hash == challenge.hash) and audited.ranking_hash != challenge.ranking_hash


@pytest.mark.parametrize("changed", ["cases", "rules"])
def test_results_of_other_cases_or_rules_are_refused(results: Path, tmp_path: Path, changed: str) -> None:
    shutil.copytree(FROZEN / "challenge", tmp_path / "challenge")
    if changed == "cases":
        rows = (tmp_path / "challenge/cases.csv").read_text().splitlines()
        (tmp_path / "challenge/cases.csv").write_text("\n".join(rows[:-1]) + "\n")
    else:
        with (tmp_path / "challenge/challenge.toml").open("a") as stream:
            stream.write('[reference]\noverlap = "last"\n')
    with pytest.raises(WrongUsage) as refused:
        rank_folder(tmp_path / "challenge", ResultFolder(results), {})
    assert [finding.code for finding in refused.value.findings] == ["different-challenges"]


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


def test_details_say_what_the_system_lacks_to_confine_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ([], ["Landlock", "seccomp"]):
        monkeypatch.setattr("evaluation.results.documents.missing_here", lambda missing=missing: missing)
        result = score_submission(FROZEN / "challenge", FROZEN / "submissions/finder")
        details = DetailsFile.model_validate(result.details)
        assert (details.software.unconfined, "unconfined" in result.metrics["software"]) == (missing, False)
