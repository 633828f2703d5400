"""Files of results: together or not at all, in the forms that other programs read."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from evaluation import score_submission
from evaluation.board.board import rank_folder, rank_result
from evaluation.board.document import board_form, leaderboard_document
from evaluation.board.stored import read_details, read_metrics
from evaluation.board.teams import ResultFolder
from evaluation.challenge import Challenge
from evaluation.commands.look import explain
from evaluation.files.results import files
from evaluation.files.results.documents import (
    DetailsFile,
    MetricsFile,
    as_json,
    cell_text,
    cell_texts,
    number_texts,
    rounded,
    rounded_list,
    safe_cell,
)
from evaluation.files.results.files import all_or_none, remove_results, write_atomically, write_together
from evaluation.findings.errors import InputFault, WrongUsage

FIRST = {"a": "1", "b": "2", "c": "3"}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def full_after(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The disk is full when so many files have been written."""
    calls = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) > number:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("number", range(3))
def test_a_full_disk_leaves_nothing_of_this_call_and_all_of_an_earlier_one(tmp_path, monkeypatch, number):
    write_together(tmp_path / "old", FIRST)
    full_after(monkeypatch, number)
    for name, there in (("new", {}), ("old", FIRST)):
        with pytest.raises(OSError, match="No space"):
            write_together(tmp_path / name, {"a": "4", "b": "5", "c": "6"})
        assert contents(tmp_path / name) == there


def test_a_name_that_is_taken_by_a_folder_leaves_no_part(tmp_path):
    remove_results(tmp_path / "new")  # where there is no folder nothing is removed
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError, match="b"):
        write_together(tmp_path, FIRST)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_the_last_file_of_an_earlier_call_is_never_beside_newer_ones(tmp_path, monkeypatch):
    """As one would find the folder who looks between two renames."""
    write_together(tmp_path, FIRST)
    seen = []
    replace = Path.replace

    def look(self: Path, target: Path) -> Path:
        seen.append(sorted(path.name for path in tmp_path.iterdir() if path.name[0] != "."))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", look)
    write_together(tmp_path, {"a": "4", "b": "5", "c": "6"})
    assert seen == [[], ["a"], ["a", "b"]]
    assert contents(tmp_path) == {"a": "4", "b": "5", "c": "6"}


BEFORE = {"b": "of before", "other": "stays"}


@pytest.mark.parametrize(("there", "failing"), [({}, 1), ({}, 3), (BEFORE, 1), (BEFORE, 2), (BEFORE, 3), (BEFORE, 4)])
def test_of_files_put_in_place_at_the_end_all_are_there_or_none(tmp_path, monkeypatch, there, failing):
    """Whichever rename fails; with a file that was there before, there is one more."""
    monkeypatch.setattr(files, "_placed_counts", [0, 0])
    folder = tmp_path / "new" / "folder"
    if there:
        folder.mkdir(parents=True)
    for name, content in there.items():
        (folder / name).write_text(content)
    before = sorted(tmp_path.rglob("*"))
    rename, calls = Path.rename, []

    def fail(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    def write() -> None:
        with all_or_none(folder) as keep:
            for name, content in FIRST.items():
                keep(name, content.encode())

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="No space"):
        write()
    assert sorted(tmp_path.rglob("*")) == before
    assert not there or contents(folder) == there
    assert files.note_of_placed() == ""
    write()
    assert contents(folder) == there | FIRST
    assert files.note_of_placed() == "files that were complete before are kept: 3"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_of_files_for_the_end_none_is_there_after_a_fault(tmp_path):
    with pytest.raises(ValueError, match="told"), all_or_none(tmp_path / "out") as keep:
        keep("a", b"1")
        raise ValueError("told")
    assert list(tmp_path.iterdir()) == []


def test_what_was_put_in_place_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_placed_counts", [0, 0])
    write_atomically(tmp_path / "one", "1")
    write_together(tmp_path, FIRST)
    full_after(monkeypatch, 0)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "two", "2")
    assert files.note_of_placed() == "files that were complete before are kept: 4"
    monkeypatch.undo()
    write_together(tmp_path, {"metrics.json": "{}", "details.json": "{}"})
    assert files.note_of_placed().startswith("results that were complete before are kept: ")


KILLED = """
import os, signal, sys
from pathlib import Path
from evaluation.files.results import files
files.held_signals = lambda _: os.kill(os.getpid(), signal.SIGKILL)
files.write_together(Path(sys.argv[1]), {"details.json": "1", "objects.csv": "2", "metrics.json": "3"})
"""
SECOND = {"details.json": "4", "objects.csv": "5", "metrics.json": "6"}
KEPT = {".metrics.json": "of others", ".metrics.json.backup00": "of others", ".a.12345678": "of others"}


@pytest.mark.parametrize("then", ["scored", "refused"])
def test_what_a_killed_program_left_is_removed_by_the_next(tmp_path, then):
    for name, content in KEPT.items():
        (tmp_path / name).write_text(content)
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False).returncode == -signal.SIGKILL
    assert len(contents(tmp_path)) == len(KEPT) + len(SECOND)
    if then == "scored":
        write_together(tmp_path, SECOND)
        assert contents(tmp_path) == KEPT | SECOND
    else:
        remove_results(tmp_path)
        assert contents(tmp_path) == KEPT


def test_files_that_another_program_is_writing_stay(tmp_path, monkeypatch):
    """The other waits until this one is done."""
    write_new = files.write_new
    other: list[subprocess.Popen[bytes]] = []
    code = KILLED.replace("files.held_signals", "_")

    def write_slowly(path: Path, data: bytes) -> None:
        write_new(path, data)
        if not other:
            other.append(subprocess.Popen([sys.executable, "-c", code, tmp_path]))
            with pytest.raises(subprocess.TimeoutExpired):
                other[0].wait(1)

    monkeypatch.setattr(files, "write_new", write_slowly)
    write_together(tmp_path, SECOND)
    assert other[0].wait() == 0
    assert contents(tmp_path) == {"details.json": "1", "objects.csv": "2", "metrics.json": "3"}


def test_many_values_are_rounded_as_one_by_one():
    """Ratios of areas have ties at the seventh decimal that numpy's own rounding takes for others (1/640)."""
    generator = np.random.default_rng(1)
    ratios = generator.integers(0, 2000, 20000) / generator.choice([128, 640, 1280, 6400, 999], 20000)
    ties = (generator.integers(0, 10**7, 20000) + 0.5) / 1e6
    large = generator.random(2000) * 10.0 ** generator.integers(-9, 17, 2000)
    values = np.concatenate([ratios, -ties, ties, large])
    assert [*map(repr, rounded_list(values))] == [repr(rounded(value)) for value in values.tolist()]
    with pytest.raises(ValueError, match="no number of JSON"):
        rounded_list(np.array([1.0, np.nan]))


def test_cells_of_objects_csv_are_those_of_a_csv_writer():
    for text in ("a", "a b", 'a"b', "a,b", '"', "", "x\n,", "=1+1", 7, 1.5, None, "é;,"):
        text_of_writer = io.StringIO()
        csv.writer(text_of_writer, lineterminator="\n").writerow([safe_cell(text), "x"])
        assert f"{cell_text(text)},x\n" == text_of_writer.getvalue()


@given(
    st.lists(
        st.text(alphabet=st.sampled_from('ab1_ é./:#-=+@,;"\n\r\t\0|'), max_size=6) | st.integers(-3, 3) | st.none()
    )
)
def test_many_cells_are_those_of_each(values: list[object]) -> None:
    for some in (values, [value for value in values if isinstance(value, str)], ["a" * 200, "1/2", *values]):
        assert list(cell_texts(some)) == list(map(cell_text, some))
    assert cell_texts(["a" * 201]) == [cell_text("a" * 201)] != ["a" * 201]


def test_numbers_of_objects_csv_are_written_as_str_writes_them() -> None:
    random = np.random.default_rng(1)
    for exponent in range(-8, 19):
        values = [round(value, 6) for value in (random.random(500) * 10.0**exponent).tolist()]
        values += [10.0**exponent, -(10.0**exponent), 0.0]
        assert number_texts(values) == [str(value) for value in values]
        assert [text for value in values for text in number_texts([value])] == [str(value) for value in values]
    assert number_texts([]) == []


# --- the forms of what is written, which other programs read ----------------------------------------------------------


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
    for software, told in (({"format_version": 2}, "input should be 1"), ({}, "field required")):
        document["software"] = {"version": document["software"]["version"], **software}
        (tmp_path / "metrics.json").write_text(json.dumps(document))
        with pytest.raises(InputFault, match=rf"'software\.format_version' is wrong: {told}"):
            read_metrics(tmp_path / "metrics.json", where="'metrics.json'")


def test_results_and_boards_have_the_published_forms_and_say_their_version(results: Path) -> None:
    details = DetailsFile.model_validate_json((results / "finder/details.json").read_text())
    metrics = MetricsFile.model_validate_json((results / "finder/metrics.json").read_text())
    board = leaderboard_document(rank_folder(FROZEN / "challenge", ResultFolder(results), {}))
    read = board_form().validate_json(orjson.dumps(board), strict=True)
    version = board["software"]["format_version"]
    assert metrics.software.format_version == details.software.format_version == version == 1
    challenge = Challenge.load(FROZEN / "challenge")
    assert board["challenge"]["ranking_hash"] == details.challenge.ranking_hash
    assert [team.name for team in read.teams] == [team["name"] for team in board["teams"]]
    assert details.challenge.ranking_hash == metrics.challenge.ranking_hash == challenge.ranking_hash != challenge.hash


def test_details_are_read_as_the_nested_tables_that_they_were_written_from(results: Path, tmp_path: Path) -> None:
    of_one = score_submission(FROZEN / "challenge", FROZEN / "submissions/finder")
    assert read_details(results / "finder/details.json", where="details") == json.loads(as_json(of_one.details))
    written = json.loads((results / "finder/details.json").read_text())
    alone = [name for name, of_group in written["groups"].items() if len(of_group["cases"]) == 1]
    assert alone == [name for name, of_group in written["groups"].items() if "rules" not in of_group] != []
    for change in (lambda of: of["score_paths"].clear(), lambda of: of["cases"].clear()):
        change(document := json.loads(json.dumps(written)))
        (tmp_path / "details.json").write_text(json.dumps(document))
        with pytest.raises(InputFault, match="a score without a path, or a patient without cases"):
            read_details(tmp_path / "details.json", where="details")


def test_another_ranking_has_another_hash_of_its_own_and_the_same_hash_of_the_rules(results: Path) -> None:
    challenge = Challenge.load(FROZEN / "challenge")
    board = rank_folder(FROZEN / "challenge", ResultFolder(results), {"ties": "average"})
    assert board.challenge is not None and board.challenge["hash"] == challenge.hash
    assert board.challenge["ranking_hash"] != challenge.ranking_hash
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


@pytest.mark.parametrize("file, keys", [
    ("metrics.json", {"challenge", "software", "undefined"}),
    ("details.json", {"challenge", "software", "classes", "findings", "cases", "groups", "pooled", "score_paths"}),
    ("leaderboard.json", {"challenge", "software", "ranking", "teams", "not_ranked"}),
    ("challenge.toml", {"format_version", "name", "classes", "reference", "submission", "metrics", "aggregation"}),
])  # fmt: skip
def test_explain_prints_the_schema_of_a_document(file: str, keys: set[str]) -> None:
    printed = json.loads(CliRunner().invoke(explain, ["--schema", file], catch_exceptions=False).stdout)
    assert printed["$schema"].endswith("2020-12/schema")
    assert keys <= set(printed["required"])
    assert "cases" not in printed["properties"] or file == "details.json"


def test_details_say_what_the_system_lacks_to_confine_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ([], ["Landlock", "seccomp"]):
        monkeypatch.setattr("evaluation.files.results.documents.missing_here", lambda missing=missing: missing)
        result = score_submission(FROZEN / "challenge", FROZEN / "submissions/finder")
        details = DetailsFile.model_validate_json(result.texts()["details.json"])
        assert (details.software.unconfined, "unconfined" in result.metrics["software"]) == (missing, False)
