"""Every preset loads, is taken over by its name, and scores a perfect submission."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from preset_files import score, squares_xml, write

from evaluation import Challenge
from evaluation.authoring.kit import example_files
from evaluation.challenge import preset_names
from evaluation.commands.main import run
from evaluation.model import Case

MADE = (
    Case("c1", "P1", 20, 30, 0.25, 0, stratum="one", area_mm2=0.02),
    Case("c2", "P1", 20, 30, 0.25, 1, stratum="one", area_mm2=0.03),
    Case("c3", "P2", 20, 30, 0.25, 2, stratum="two", area_mm2=0.02),
)


def copied_preset(preset: str, folder: Path) -> Challenge:
    """A challenge as ``evaluation init`` writes it, with the made cases."""
    assert run(["init", "--preset", preset, str(folder)]) == 0
    header = "case,group,height,width,spacing_um,index,stratum,area_mm2"
    rows = [f"{c.name},{c.group},{c.height},{c.width},{c.spacing_um},{c.index},{c.stratum},{c.area_mm2}" for c in MADE]
    (folder / "cases.csv").write_text("\n".join([header, *rows, ""]))
    return Challenge.load(folder)


def example_squares(challenge: Challenge) -> list[tuple[str, list[tuple[int, int, int, int]]]]:
    """The three nuclei of the example files: squares of 6 px in a row, of the classes in turn."""
    classes = challenge.class_names
    squares = [(0, 5, 6 * index, 6 * index + 5) for index in range(3)]
    return [(name, [s for i, s in enumerate(squares) if i % len(classes) == k]) for k, name in enumerate(classes)]


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_is_taken_over_by_its_name_and_scores_a_perfect_submission(preset, tmp_path):
    challenge = copied_preset(preset, tmp_path / "challenge")
    assert challenge.cases == MADE
    written = tomllib.loads((tmp_path / "challenge" / "challenge.toml").read_text())
    assert set(written) <= {"format_version", "name", "version", "preset", "publish"}
    left_out = {"cases", "name", "publish"}  # init publishes what ranks
    of_preset = Challenge.from_preset(preset, name="x")
    assert challenge.model_dump(exclude=left_out) == of_preset.model_dump(exclude=left_out)
    for side, root in ((challenge.reference, "challenge"), (challenge.submission, "submission")):
        for name, content in example_files(challenge, side, challenge.cases).items():
            truncated = side.value("vertices") == "truncate"  # the squares of the examples lie on edges of pixels
            write(tmp_path / root / name, squares_xml(example_squares(challenge)) if truncated else content)
    result = score((tmp_path / "challenge", tmp_path / "submission"))
    assert challenge.ranking is not None and challenge.ranking.columns
    for column in challenge.ranking.columns:
        value = result.value(column.path)
        if value is None:
            node: Any = result.metrics["undefined"]
            for key in column.path.split("."):
                node = node[key]
            assert node in ("no-probability", "one-class", "constant-reference"), column.path
        else:
            best = 1.0 if column.direction == "descending" else 0.0
            assert value == pytest.approx(best, abs=1e-9), column.path
