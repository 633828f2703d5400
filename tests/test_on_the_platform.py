"""The program as the platform runs it: a read-only /input behind a link, no arguments, an environment of its own.

Each run has a root of its own in a mount namespace (``platform_root.sh``). Ranks and sums are compared with those of
the command ``rank``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import real_challenges as real

from evaluation.commands.main import run

ROOT = Path(__file__).resolve().parents[1]
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
FAMILIES = {"detection", "classification", "segmentation", "panoptic"}
FILES = ["details.json", "metrics.json", "objects.csv"]


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    if shutil.which(NAMESPACE[0]) is None or subprocess.run([*NAMESPACE, "true"], check=False).returncode:
        pytest.skip("NOT TESTED AS ON THE PLATFORM: this system allows no mount namespace")


def run_on_platform(folder: Path, submission: Path, challenge: Path) -> tuple[int, list[str], Path]:
    """The exit code, the lines on stderr, and the output of ``evaluation score`` on the platform."""
    output, root = folder / "output", folder / "root"
    output.mkdir(parents=True)
    root.mkdir()
    script = Path(__file__).with_name("platform_root.sh")
    python = f"{ROOT}{os.pathsep}{ROOT / 'library'}"
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": python, "LOG_LEVEL": "INFO"}
    done = subprocess.run(
        [*NAMESPACE, "sh", script, root, submission, challenge, output, sys.executable, "-m", "evaluation", "score"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines(), output


def test_a_folder_of_predictions_is_scored_and_ranked_as_by_rank(demo, tmp_path):
    where = ["--challenge", str(demo.challenge)]
    given = ["--submissions", str(demo.submissions["finder"].parent), "--store", str(tmp_path / "store")]
    assert run(["leaderboard", *where, *given, "--output", str(tmp_path / "board")]) == 0
    challenge = Path(shutil.copytree(demo.challenge, tmp_path / "challenge"))
    shutil.copytree(tmp_path / "store", challenge / "leaderboard")
    code, lines, output = run_on_platform(tmp_path / "run", demo.submissions["namer"], challenge)
    assert (code, lines) == (0, [])
    assert sorted(path.name for path in output.iterdir()) == FILES
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics.keys() >= FAMILIES
    assert len((output / "metrics.json").read_bytes()) <= 100_000
    for name in ("P1_1", "P2", "P3_3"):
        assert name not in (output / "metrics.json").read_text()
    (tmp_path / "store" / "this.json").write_bytes((output / "metrics.json").read_bytes())
    board = ["--results", str(tmp_path / "store"), "--output", str(tmp_path / "ranked")]
    assert run(["rank", *where, *board]) == 0
    ranked = json.loads((tmp_path / "ranked/leaderboard.json").read_text())
    (this,) = [team for team in ranked["teams"] if team["name"] == "this"]
    found = metrics["leaderboard"]
    assert (found["position"], found["sum_of_ranks"], found["submissions"]) == (this["position"], this["combined"], 4)
    for cell in this["columns"]:
        node = found["rank"]
        for key in cell["path"].split("."):
            node = node[key]
        assert node == cell["rank"]


@pytest.mark.parametrize("challenge_of", ["puma", "monkey"])
def test_real_trees_of_algorithm_phases_are_scored(challenge_of, shared_data, tmp_path):
    if challenge_of == "puma":
        pair = real.puma(shared_data, tmp_path, real.puma_polygons(shared_data))
    else:
        pair = real.monkey_on_the_platform(shared_data, tmp_path)
    reference = pair.challenge / "reference"
    if any(path.is_symlink() for path in reference.rglob("*")):
        reference.rename(tmp_path / "links")
        shutil.copytree(tmp_path / "links", reference, copy_function=shutil.copyfile)
    code, lines, output = run_on_platform(tmp_path / "run", pair.submission, pair.challenge)
    assert (code, lines) == (0, [])
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["detection"]["f1"]["pooled"] == 1
    assert "leaderboard" not in metrics
    rules = pair.challenge / "challenge.toml"
    rules.write_text(rules.read_text().replace("socket = ", 'input = "another", socket = '))
    code, lines, output = run_on_platform(tmp_path / "wrong", pair.submission, pair.challenge)
    assert code == 3
    assert "[invalid-job]" in lines[0] and "Organisers: name the input" in lines[0]
    assert lines[-1].startswith("The challenge itself has a fault")
    assert list(output.iterdir()) == []


def test_what_a_participant_reads_of_a_wrong_submission(demo, tmp_path):
    code, lines, output = run_on_platform(tmp_path / "run", demo.challenge / "reference", demo.challenge)
    assert code == 1
    assert lines[-1].startswith("Submission rejected: [no-case-found] ")
    assert "It contains 8 images as aperio_xml" in lines[-1]
    assert "evaluation convert P1/P1_1.xml OUTPUT --to nary_mat" in lines[-1]
    assert len(lines[-1]) < 1000 and list(output.iterdir()) == []
