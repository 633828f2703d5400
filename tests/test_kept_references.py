"""References that are kept between submissions: the same bytes, and nothing is used that changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from evaluation import Challenge
from evaluation.model import Case
from evaluation.scoring import read as module
from evaluation.scoring.read import KeptReferences, file_states, rules_of_references
from evaluation.scoring.street import score_submission
from evaluation.submission import CaseFile

FROZEN = Path(__file__).parent / "golden/frozen"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases whose reference is read from now on, with nothing kept."""
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0)
    monkeypatch.setattr(module, "kept_references", KeptReferences())
    monkeypatch.setattr("evaluation.scoring.street.kept_references", module.kept_references)
    found: list[str] = []
    own = module.read_reference
    monkeypatch.setattr(module, "read_reference", lambda *of: (found.append(of[2].name), own(*of))[1])
    return found


def challenge(folder: Path) -> Path:
    shutil.copytree(FROZEN / "challenge", folder / "challenge")
    return folder / "challenge"


def score(folder: Path, team: str) -> dict[str, str]:
    return score_submission(folder, FROZEN / "submissions" / team, workers=1).texts()


def test_a_third_submission_reads_no_reference_and_has_the_same_bytes(tmp_path: Path, read: list[str]) -> None:
    folder = challenge(tmp_path)
    alone = {team: score(folder, team) for team in ("finder", "namer", "outliner")}
    cases = len(read) // 2
    assert sorted(read[:cases]) == sorted(read[cases:])  # the first two submissions
    assert {team: score(folder, team) for team in alone} == alone and len(read) == 2 * cases
    module.kept_references.pickled.clear()
    assert {team: score(folder, team) for team in alone} == alone


def test_what_changed_is_read_again(tmp_path: Path, read: list[str]) -> None:
    folder = challenge(tmp_path)
    first, *_ = [score(folder, "finder") for _ in range(3)]
    read.clear()
    path = sorted((folder / "reference").rglob("*.xml"))[0]
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace('X="1', 'X="2'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same size and time of change
    assert score(folder, "finder") != first and read == [path.stem]
    path.write_text(text)
    assert score(folder, "finder") == first


def test_other_rules_of_the_reference_have_other_entries(tmp_path: Path, read: list[str]) -> None:
    folder = challenge(tmp_path)
    for _ in range(3):
        score(folder, "finder")
    loaded = Challenge.load(folder)
    other = loaded.model_copy(update={"reference": loaded.reference.model_copy(update={"overlap": "smallest"})})
    assert rules_of_references(other) != rules_of_references(loaded)
    read.clear()
    score_submission(folder, FROZEN / "submissions/finder", workers=1, challenge=other)
    assert len(read) == len(loaded.cases)


def test_what_has_just_changed_is_not_kept(tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED_SECONDS", 3600)
    folder = challenge(tmp_path)
    for _ in range(3):
        score(folder, "finder")
    assert module.kept_references.pickled == {} and len(read) == 3 * len(Challenge.load(folder).cases)


def test_the_memory_is_bounded_and_goes_to_the_rules_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 100)
    kept = KeptReferences()
    for case in "abc":
        kept.add(("rules", "folder", case, "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["a", "b"] and kept.size == 80
    kept.add(("others", "folder", "c", "state"), bytes(40))
    assert [key[2] for key in kept.pickled] == ["c"] and kept.size == 40


def test_a_reference_that_may_change_unseen_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reference_files", lambda *case: ())
    monkeypatch.setattr(module, "read_reference", lambda *case: "read")
    case = Case("a", "a", 5, 5)
    for state, entries in (("", 0), ("a state", 1)):
        monkeypatch.setattr(module, "file_states", lambda *case, state=state: state)
        kept = KeptReferences()
        assert [kept.read(None, Path("folder"), case, "rules") for _ in range(3)] == ["read"] * 3  # type: ignore[arg-type]
        assert len(kept.pickled) == entries


def test_another_file_with_the_size_and_the_time_of_the_old_one_has_another_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0)
    files = [CaseFile("a.xml", 0)]
    for name, text in (("a.xml", "old"), ("b.xml", "new")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, ns=(0, 10**18))
    before = file_states(tmp_path, files)
    (tmp_path / "b.xml").replace(tmp_path / "a.xml")
    assert "" != before != file_states(tmp_path, files)
    monkeypatch.setattr(module, "SETTLED_SECONDS", 3600)
    assert file_states(tmp_path, files) == ""
