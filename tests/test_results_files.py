"""Files that belong together appear together, and after a fault none of them is there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from evaluation.results import files
from evaluation.results.files import write_atomically, write_together

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
    assert seen == [["a", "b"]] * 3
    assert contents(tmp_path) == {"a": "4", "b": "5", "c": "6"}


def test_what_was_put_in_place_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "written", [])
    write_atomically(tmp_path / "one", "1")
    write_together(tmp_path, FIRST)
    full_after(monkeypatch, 0)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "two", "2")
    assert files.written == ["one", "a", "b", "c"]
