"""From files to files: scoring label TIFFs with class tables, beside reading their pixels and doing nothing else.

The set ``monusac_like`` is written as zlib label TIFFs and class tables in CSV, with a challenge that has the rules of
the preset ``monusac2020``. Every measurement is a process of its own; the contenders alternate, round by round. The
floor is ``tifffile.imread`` of both sides.

    python -m benchmarks.files                    five rounds; prints a table
    python -m benchmarks.files --rounds 1
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile

from benchmarks.sets import IMAGES_OF_PATIENT, cache_folder, monusac_like

FORMAT = 1  # to be raised when the files change
CLASSES = ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")
CHALLENGE_TOML = """\
format_version = 1
name = "MoNuSAC-like label images"
preset = "monusac2020"

[reference]
format = "label_image"
files = "reference/{case}.tif"
class_table = "reference/{case}.csv"
overlap = "keep"
overlap_scope = "image"

[submission]
format = "label_image"
files = "{case}.tif"
class_table = "{case}.csv"
missing_case = "worst"
missing_class_file = "empty"
"""
CONTENDERS = {
    "floor": "`tifffile.imread` of both sides",
    "one": "`score --workers 1`",
    "score": "`score`",
}


def files() -> Path:
    """The folder with ``challenge`` and ``submission``, made at the first call and kept in the cache of the sets."""
    folder = cache_folder() / f"monusac_like-files-{FORMAT}"
    if (folder / "complete").is_file():
        return folder
    sides = {"reference": folder / "challenge" / "reference", "prediction": folder / "submission"}
    for parent in sides.values():
        parent.mkdir(parents=True, exist_ok=True)
    (folder / "challenge" / "challenge.toml").write_text(CHALLENGE_TOML)
    rows = ["case,group,height,width"]
    patients = np.repeat(np.arange(1, len(IMAGES_OF_PATIENT) + 1), IMAGES_OF_PATIENT)
    for index, (maps, patient) in enumerate(zip(monusac_like(), patients.tolist(), strict=True)):
        height, width = maps.reference.shape
        rows.append(f"image{index:03},patient{patient:02},{height},{width}")
        for side, parent in sides.items():
            labels, class_of = getattr(maps, side), getattr(maps, f"{side}_class")
            tifffile.imwrite(parent / f"image{index:03}.tif", labels, compression="zlib")
            table = [f"{label},{CLASSES[class_of[label - 1] - 1]}" for label in np.unique(labels[labels > 0]).tolist()]
            (parent / f"image{index:03}.csv").write_text("\n".join(("id,class", *table, "")))
    (folder / "challenge" / "cases.csv").write_text("\n".join((*rows, "")))
    (folder / "complete").touch()
    return folder


def read_pixels(folder: Path) -> None:
    for path in sorted(folder.rglob("*.tif")):
        tifffile.imread(path, maxworkers=1)


def score(folder: Path, workers: int | None) -> None:
    from evaluation.commands.main import run

    chosen = [] if workers is None else ["--workers", str(workers)]
    with tempfile.TemporaryDirectory() as output:
        paths = ["--challenge", str(folder / "challenge"), "--submission", str(folder / "submission")]
        if code := run(["score", *paths, "--output", output, *chosen]):
            raise SystemExit(code)


JOBS: dict[str, Callable[[Path], None]] = {
    "floor": read_pixels,
    "one": lambda folder: score(folder, 1),
    "score": lambda folder: score(folder, None),
}


def measure(job: str, folder: Path) -> dict[str, float]:
    """Seconds by the clock and of processor time (children too), and peak resident memory in MB, of a new process."""
    environment = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}}
    command = [sys.executable, "-m", "benchmarks.files", "--job", job, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_job(job: str, folder: Path) -> dict[str, float]:
    """Imports count: a run on the platform is one process."""
    begin = time.perf_counter()
    JOBS[job](folder)
    seconds = time.perf_counter() - begin
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "seconds": seconds,
        "processor": sum(one.ru_utime + one.ru_stime for one in usage),
        "memory": max(one.ru_maxrss for one in usage) / 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--job", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run_job(options.job[0], Path(options.job[1]))))
        return 0
    folder = files()
    found = {job: [] for job in CONTENDERS}
    for _ in range(options.rounds):
        for job in CONTENDERS:
            found[job].append(measure(job, folder))
    floor = min(one["seconds"] for one in found["floor"])
    print("| | seconds, shortest (median) | times the floor | processor time, s | peak memory, MB |")
    print("| --- | --- | --- | --- | --- |")
    for job, label in CONTENDERS.items():
        seconds = [one["seconds"] for one in found[job]]
        processor, memory = (min(one[name] for one in found[job]) for name in ("processor", "memory"))
        print(
            f"| {label} | {min(seconds):.2f} ({statistics.median(seconds):.2f}) | {min(seconds) / floor:.1f} "
            f"| {processor:.2f} | {memory:,.0f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
