"""The example algorithm of a kit on pictures of the demo's reference, and as a baseline on the demo's board."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
from scipy import ndimage

from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.folders.demo import TEAMS
from evaluation.platform.phase import phase_of
from evaluation.scoring.rasterise import rasterise_reference

JOB = {
    "pk": "0a", "status": "Succeeded",
    "inputs": [{"image": {"name": "P1_1.tif"}, "socket": {"slug": "he-image", "kind": "Image"}}],
    "outputs": [{"socket": {"slug": "nuclei-polygons", "kind": "Multiple polygons", "super_kind": "File",
                            "relative_path": "nuclei-polygons.json"}}],
}  # fmt: skip
ALGORITHM = Path("kit") / "example_algorithm"
Algorithm = Callable[[Path, Path], None]  # reads the first folder, writes into the second


def algorithm_phase(demo: Path, folder: Path, jobs: Path | None = None) -> Path:
    """A challenge that ``init`` makes of the demo's reference and a predictions.json; sizes are those of the demo."""
    if jobs is None:
        jobs = folder / "predictions.json"
        jobs.write_text(json.dumps([JOB]))
    challenge = folder / "challenge"
    shutil.copytree(demo / "challenge" / "reference", challenge / "reference")
    assert run(["init", str(challenge), "--name", "Demo", "--submission", str(jobs)]) == 0
    shutil.copy(demo / "challenge" / "cases.csv", challenge)
    return challenge


def picture_of(case: Any, instances: Any) -> np.ndarray:
    """An image in the colours of H&E, with noise."""
    flat = np.zeros(case.height * case.width, np.float64)
    for start, stop in zip(instances.run_start, instances.run_stop, strict=True):
        flat[start:stop] = 1
    stained = ndimage.gaussian_filter(flat.reshape(case.shape_yx), 1)[..., None]
    noise = np.random.default_rng(1).normal(0, 6, (*case.shape_yx, 3))
    return np.clip(np.array([235, 190, 215]) * (1 - stained) + np.array([90, 60, 140]) * stained + noise, 0, 255)


def write_kit_and_inputs(demo: Path, folder: Path, kind: str) -> Path:
    """Write a challenge whose jobs have an output of a kind, its kit, and ``inputs/<case>``; returns the challenge."""
    jobs = folder / "predictions.json"
    jobs.write_text(json.dumps([{**JOB, "outputs": [{"socket": {"slug": "nuclei", "kind": kind}}]}]))
    challenge = algorithm_phase(demo, folder, jobs)
    assert run(["kit", "--challenge", str(challenge), "--output", str(folder / "kit")]) == 0
    (socket,) = phase_of(Challenge.load(challenge)).support.inputs
    _, prepared = rasterise_reference(demo / "challenge", workers=1)
    for case, reference in prepared:
        place = folder / "inputs" / case.name / socket.relative_path
        place.mkdir(parents=True)
        picture = SimpleITK.GetImageFromArray(picture_of(case, reference.instances).astype(np.uint8), isVector=True)
        picture.SetSpacing((0.00025, 0.00025))
        SimpleITK.WriteImage(picture, str(place / "0b.mha"))
    return challenge


def write_jobs(challenge: Path, folder: Path, algorithm: Algorithm) -> Path:
    """Run the algorithm on ``inputs/<case>`` as the platform does, once for each; returns the tree of jobs."""
    tree, listed = folder / "tree", []
    (socket,) = phase_of(Challenge.load(challenge)).support.outputs
    for given in sorted((folder / "inputs").iterdir()):
        output = tree / f"pk-{given.name}" / "output"
        output.mkdir(parents=True)
        algorithm(given, output)
        image = {"image": {"name": f"{given.name}.tif"}, "socket": {"slug": "he-image"}}
        described = {"slug": "nuclei", "kind": socket.kind, "relative_path": socket.relative_path}
        listed.append({"pk": f"pk-{given.name}", "status": "Succeeded", "inputs": [image],
                       "outputs": [{"socket": described}]})  # fmt: skip
    (tree / "predictions.json").write_text(json.dumps(listed))
    return tree


def board_with_baseline(demo: Path, folder: Path, challenge: Path, tree: Path) -> dict[str, Any]:
    """The leaderboard of the demo, whose teams hand in masks, with the jobs of the algorithm as an unranked entry."""
    teams = folder / "board" / "submissions"
    shutil.copytree(demo / "submissions", teams)
    shutil.copytree(demo / "challenge", folder / "board" / "challenge")
    masks = folder / "board" / "masks"
    assert run(["convert", "--challenge", str(challenge), str(tree), str(masks), "--to", "nary_mat"]) == 0
    for path in masks.iterdir():
        case, _, name = path.stem.rpartition("_")
        place = teams / "baseline" / case.partition("_")[0] / case / name
        place.mkdir(parents=True)
        path.rename(place / "1.mat")
    rules = folder / "board" / "challenge" / "challenge.toml"
    rules.write_text(f'{rules.read_text()}\n[ranking]\nunranked = ["baseline"]\n')
    command = ["leaderboard", "--challenge", rules.parent, "--submissions", teams, "--output", folder / "board"]
    assert run([*map(str, command), "--workers", "1"]) == 0
    board: dict[str, Any] = json.loads((folder / "board" / "leaderboard.json").read_text())
    assert {team["name"] for team in board["teams"]} == set(TEAMS)
    return board
