"""The programs of examples/ run as they are, and print and write what their page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
SHOWN = {  # what is printed, and the files that are written
    "compare_two_models.py": ("AJI of finder: 0.7933\nAJI of namer: 0.6115\n", ["compare.html"]),
    "challenge_from_qupath.py": (
        "Rasterisation of the reference",
        ["qupath_challenge/challenge.toml", "qupath_challenge/cases.csv", "board/leaderboard.html"],
    ),
    "validation_loop.py": ("epoch 3: PQ 1.000, mean over patients 1.000, F1 1.000\n", []),
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs_and_shows_what_its_page_says(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'library'}"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    printed, files = SHOWN[name]
    assert printed in done.stdout
    for path in files:
        assert (tmp_path / path).stat().st_size > 0, path
        assert f"`{Path(path).name}`" in text() or f"`{path}`" in text(), path


def test_the_page_of_the_examples_names_each_of_them() -> None:
    assert set(re.findall(r"`python examples/(\w+\.py)`", text())) == set(SHOWN)
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWN)


def text() -> str:
    return (EXAMPLES / "README.md").read_text()
