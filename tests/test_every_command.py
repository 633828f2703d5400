"""What ``score`` reads, every other command reads too, in every format; or its line names what is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from every_format import SIDES, rules_of, write_challenge

from evaluation.challenge import format_rules
from evaluation.commands.main import run

COLOURS = ("a picture in colour", "a picture in colour")
TWO_CHANNELS = ("an image of three axes", "an image of three axes")
NOT_READ = {  # where rules say what files cannot say: the cause that compare and init name; "" where one reads them
    "polygons_json in mm": ("Check the units", "Check the units"),
    "points_csv without header": ("a table without a header", "a table without a header"),
    "rle_csv": ("a value for the size of 'c1'", "height ''"),
    "rle_csv by rows": ("the start 0; expected pairs of start (from 1)", "the start 0; expected pairs of start"),
    "label_image channel npz": ("", "ids of nuclei in one channel and classes in a second channel"),
    "label_image channel mha": TWO_CHANNELS,
    "yolo_txt": ("a value for the size of 'c1'", ""),
    "colour_map": COLOURS,
    "colour_map dilated": COLOURS,
}


def outcome(command: list[object], capsys: pytest.CaptureFixture[str], metrics: Path) -> str:
    """Return "" if both sides are the same nuclei of the same classes, else what is printed."""
    code = run([*map(str, command), "--output", str(metrics.parent), "--workers", "1"])
    printed = " ".join(capsys.readouterr().err.split())
    if code:
        return printed
    scores = json.loads(metrics.read_text())
    found = scores["detection"]["f1"]["pooled"], scores["classification"]["balanced_accuracy"]["pooled"]
    return "" if found == (1.0, 1.0) else f"other scores: {found}"


@pytest.mark.parametrize("kind", SIDES)
def test_compare_and_init_read_what_score_reads(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    by_compare, by_init = NOT_READ.get(kind, ("", ""))
    told = outcome(["compare", challenge / "reference", submission], capsys, tmp_path / "compared" / "metrics.json")
    assert (by_compare in told) if by_compare else told == ""

    begun = tmp_path / "begun"
    shutil.copytree(challenge / "reference", begun / "reference")
    code = run(["init", str(begun), "--submission", str(submission)])
    told = " ".join(capsys.readouterr().err.split())
    if code == 0:
        command = ["score", "--challenge", begun, "--submission", submission]
        told = outcome(command, capsys, tmp_path / "scored" / "metrics.json")
    assert (by_init in told) if by_init else (code, told) == (0, "")


@pytest.mark.parametrize("kind", SIDES)
def test_validate_and_convert_read_every_format(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    command: list[object] = ["validate", "--challenge", challenge, "--submission", submission]
    assert run(list(map(str, command))) == 0, capsys.readouterr().err
    target = "platform" if format_rules(**rules_of(kind)).are_points else "geojson"
    for source, output in (("reference", "a"), (str(submission), "b")):
        command = ["convert", source, tmp_path / output, "--challenge", challenge, "--to", target]
        assert run(list(map(str, command))) == 0, capsys.readouterr().err
    command = ["compare", tmp_path / "a", tmp_path / "b"]
    assert outcome(command, capsys, tmp_path / "compared" / "metrics.json") == ""
