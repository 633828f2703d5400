"""A dry run: the built image scores a submission to a challenge of yours as it does on the platform.

``/input`` is a link to a read-only folder, the ground truth is at its place, ``/tmp`` is empty, no network, and
memory and processes are limited. ``./test.sh --image [CHALLENGE] [SUBMISSION] [--jobs]`` calls it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from container.engine import Ended, Engine
from container.job_tree import write_job_tree
from evaluation.challenge import Challenge
from evaluation.files.submission.jobs import JOBS_FILE
from evaluation.folders.demo import write_demo
from evaluation.platform.phase import phase_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="./test.sh --image", description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("image")
    parser.add_argument("challenge", nargs="?", type=Path, help="folder of the challenge; without one: the demo")
    parser.add_argument("submission", nargs="?", type=Path, help="folder or ZIP, or a folder with predictions.json")
    parser.add_argument("--jobs", action="store_true", help="make the jobs of an algorithm phase of a folder")
    parser.add_argument("--output", type=Path, default=Path("dry_run"), help="folder for the results [dry_run]")
    options = parser.parse_args()
    if (options.challenge is None) != (options.submission is None):
        parser.error("name a challenge and a submission to it, or neither")
    os.umask(0o022)  # the image's user reads the folders
    with tempfile.TemporaryDirectory(prefix="dry-run-") as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        demo = write_demo(scratch / "demo") if options.challenge is None else None
        folder_of_challenge = demo.challenge if demo else options.challenge.resolve()
        given = demo.submissions["finder"] if demo else options.submission.resolve()
        challenge = Challenge.load(folder_of_challenge)
        as_input = _unpacked(challenge, given, scratch, jobs=options.jobs)
        engine = Engine.of(options.engine, options.image, scratch)
        print(f"Scoring {given.name} with {options.image} ...", flush=True)
        ended = engine.score(as_input, folder_of_challenge)
    return _told(challenge, ended, options.output)


def _unpacked(challenge: Challenge, given: Path, scratch: Path, *, jobs: bool) -> Path:
    """Return the folder that the platform would mount as /input."""
    folder = scratch / "input"
    if jobs:
        folder.mkdir()
        write_job_tree(challenge, given, folder)
    elif zipfile.is_zipfile(given):
        with zipfile.ZipFile(given) as packed:
            packed.extractall(folder)
    elif given.is_file():
        folder.mkdir()
        shutil.copyfile(given, folder / "predictions.csv")
    else:
        folder = given
    if challenge.submission.socket is not None and not (folder / JOBS_FILE).is_file():
        print(f"There is no {JOBS_FILE}: scored as an uploaded ZIP. With --jobs the folder becomes jobs.", flush=True)
    return folder


def _told(challenge: Challenge, ended: Ended, output: Path) -> int:
    """Write the results, and print the scores, the last line, and which named outputs are missing."""
    print(f"Exit code {ended.code} after {ended.seconds:.1f} s.")
    if ended.last:
        print(f"Last line, which participants see: {ended.last}")
    if ended.code != 0:
        return 1
    output.mkdir(parents=True, exist_ok=True)
    for name, content in ended.files.items():
        (output / name).write_bytes(content)
    metrics = json.loads(ended.files["metrics.json"])
    for column in challenge.ranking.columns if challenge.ranking else ():
        print(f"{column.path}: {_value(metrics, column.path)}")
    named = [socket.relative_path for socket in phase_of(challenge).support.evaluation_outputs]
    lacking = [name for name in named if name not in ended.files]
    if lacking:
        print(f"Not written, although the phase names it as an output: {', '.join(lacking)}")
    print(f"Written to {output}: {', '.join(sorted(ended.files))}")
    return 1 if lacking else 0


def _value(metrics: Any, path: str) -> Any:
    for key in path.split("."):
        metrics = metrics[key]
    return metrics


if __name__ == "__main__":
    sys.exit(main())
