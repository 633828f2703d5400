"""Zarr stores that are folders: written by zarr itself, read as one file wherever files are read."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tifffile

from evaluation.authoring.convert import convert_file
from evaluation.challenge import LimitRules
from evaluation.commands.main import run
from evaluation.findings.errors import InputFault
from evaluation.submission import open_submission
from evaluation.submission.stores import pack_folder

zarr = pytest.importorskip("zarr")
LABELS = np.zeros((40, 60), np.uint16)
LABELS[2:12, 3:13], LABELS[20:30, 32:44], LABELS[15:19, 3:9] = 1, 2, 3
TWO = np.where(LABELS == 3, 0, LABELS)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ome_zarr(path: str, labels: np.ndarray = LABELS, format: int = 2) -> None:
    """As OME-Zarr lays a label out: below labels/, beside the image, with a smaller scale."""
    group = zarr.open_group(path, mode="w", zarr_format=format)
    group.create_array("0", shape=labels.shape, dtype="u1", chunks=(16, 16))[:] = 7
    for scale in (0, 1):
        level = labels[:: scale + 1, :: scale + 1]
        group.create_array(f"labels/cells/{scale}", shape=level.shape, dtype="u2", chunks=(16, 16))[:] = level


def score_of(out: str) -> float:
    metrics = json.loads(next(Path(out).rglob("metrics.json")).read_text())
    return float(metrics["detection"]["recall"]["pooled"])


@pytest.mark.parametrize("format", [2, 3])
def test_what_zarr_wrote_into_a_folder_comes_back(format):
    ome_zarr("a.zarr", format=format)
    written = convert_file(Path("a.zarr"), Path("out"), "label_tiff").files
    np.testing.assert_array_equal(tifffile.imread(written[0]) > 0, LABELS > 0)
    assert len(np.unique(tifffile.imread(written[0]))) == 4


def test_folders_of_stores_are_compared():
    for case in ("a", "b"):
        ome_zarr(f"ref/{case}.ome.zarr")
        ome_zarr(f"pred/{case}.zarr", TWO, format=3)
    assert run(["compare", "ref", "pred", "--output", "out"]) == 0
    assert score_of("out") == 0.666667


def test_a_store_alone_and_several_in_a_zip_are_compared():
    ome_zarr("a.zarr")
    ome_zarr("sent/a.zarr", TWO)
    assert run(["compare", "a.zarr", "sent/a.zarr", "--output", "out"]) == 0
    assert score_of("out") == 0.666667
    for case in ("a", "b"):
        ome_zarr(f"both/{case}.zarr")
    shutil.make_archive("both", "zip", "both")
    assert run(["compare", "both", "both.zip", "--output", "zipped"]) == 0
    assert score_of("zipped") == 1.0


@pytest.mark.parametrize("handed_in", ["sent", "sent.zip"])
def test_a_reference_and_a_submission_may_be_folders_of_stores(handed_in):
    for case in ("a", "b"):
        ome_zarr(f"mine/reference/{case}.zarr")
        ome_zarr(f"sent/{case}.zarr", TWO)
    shutil.make_archive("sent", "zip", "sent")
    assert run(["init", "mine"]) == 0
    assert "{case}.zarr.zip" in Path("mine/challenge.toml").read_text()
    assert run(["score", "--challenge", "mine", "--submission", handed_in, "--output", "out"]) == 0
    assert score_of("out") == 0.666667
    ome_zarr("mine/reference/c.zarr")
    assert run(["init", "--refresh", "mine"]) == 0
    assert "c,c,40,60" in Path("mine/cases.csv").read_text()


# --- hostile ----------------------------------------------------------------------------------------------------------


def findings_of(capsys: pytest.CaptureFixture[str], submission: str) -> str:
    ome_zarr("mine/reference/a.zarr")
    assert run(["init", "mine"]) == 0
    capsys.readouterr()
    assert run(["score", "--challenge", "mine", "--submission", submission, "--output", "out"]) == 1
    return capsys.readouterr().err


def test_a_chunk_that_is_a_link_out_of_the_submission_is_refused(capsys):
    ome_zarr("sent/a.zarr")
    Path("secret").write_bytes(b"secret")
    chunk = Path("sent/a.zarr/labels/cells/0/0.0")
    chunk.unlink()
    chunk.symlink_to(Path("secret").resolve())
    assert "[unsafe-path]" in findings_of(capsys, "sent")


def test_a_chunk_that_is_the_reference_under_another_name_is_refused(capsys):
    ome_zarr("mine/reference/a.zarr")
    shutil.copytree("mine/reference/a.zarr", "sent/a.zarr")
    assert run(["init", "mine"]) == 0
    for kind in ("0/.zarray", "labels/cells/0/0.0"):
        Path("sent/a.zarr", kind).unlink()
        os.link(Path("mine/reference/a.zarr", kind), Path("sent/a.zarr", kind))
    capsys.readouterr()
    assert run(["score", "--challenge", "mine", "--submission", "sent", "--output", "out"]) == 1
    assert "a file of the challenge under another name" in capsys.readouterr().err


def test_stores_have_the_bytes_of_one_file():
    ome_zarr("sent/a.zarr")
    total = sum(path.stat().st_size for path in Path("sent").rglob("*") if path.is_file())
    for limit, refused in ((total, False), (total - 1, True)):
        limits = LimitRules(bytes_per_file=limit)
        files = open_submission(Path("sent"), limits)
        assert files.names == ("a.zarr.zip",)
        assert files.size("a.zarr.zip") == total
        for opened in (lambda f=files: f.open("a.zarr.zip"), lambda n=limits: pack_folder(Path("sent/a.zarr"), n)):
            if refused:
                with pytest.raises(InputFault, match="too-large"):
                    opened()
            else:
                with opened() as stream:
                    assert zipfile.ZipFile(stream).testzip() is None


def test_a_store_and_its_zip_are_two_files(capsys):
    ome_zarr("sent/a.zarr")
    with zipfile.ZipFile("sent/a.zarr.zip", "w") as archive:
        archive.writestr("x", "")
    names = open_submission(Path("sent"), LimitRules()).names
    assert "a.zarr.zip" in names
    assert "a.zarr/.zgroup" in names


def test_more_files_than_a_submission_may_have_are_refused(capsys):
    ome_zarr("sent/a.zarr")
    ome_zarr("mine/reference/a.zarr")
    assert run(["init", "mine"]) == 0
    with Path("mine/challenge.toml").open("a") as rules:
        rules.write("\n[limits]\nfiles_per_submission = 3\n")
    capsys.readouterr()
    assert run(["score", "--challenge", "mine", "--submission", "sent", "--output", "out"]) == 1
    assert "[too-many-files]" in capsys.readouterr().err


def test_a_pipe_in_a_store_is_refused(capsys):
    ome_zarr("sent/a.zarr")
    os.mkfifo("sent/a.zarr/labels/cells/0/9.9")
    assert "[unsafe-path]" in findings_of(capsys, "sent")
    assert run(["compare", "mine/reference", "sent"]) == 2
    assert run(["convert", "sent/a.zarr", "out", "--to", "geojson"]) == 1
