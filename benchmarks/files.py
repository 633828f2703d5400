"""From files to files: scoring label TIFFs with class tables, beside reading their pixels and doing nothing else.

The set ``monusac_like`` is written as zlib label TIFFs and class tables in CSV, with a challenge that has the rules of
the preset ``monusac2020``. Every measurement is a process of its own, from the start of Python to its end, with its
children; the contenders alternate, round by round. The floor is a process that imports tifffile, calls ``imread`` for
every file of both sides and ends. Ratios are of processor time, which other work on the machine changes least.

    python -m benchmarks.files                    five rounds; prints a table, beside the ratios of the last release
    python -m benchmarks.files --rounds 1
    python -m benchmarks.files --keep             at a release: writes benchmarks/ratios.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile

from benchmarks.sets import IMAGES_OF_PATIENT, cache_folder, monusac_like
from evaluation.results.version import __version__

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
    "empty": "`score` of an empty submission",
    "version": "`evaluation --version`",
}
LAST_RELEASE = Path(__file__).with_name("ratios.json")
READ_PIXELS = """\
import pathlib, sys, tifffile
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.tif")):
    tifffile.imread(path, maxworkers=1)
"""


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


def arguments(job: str, folder: Path, scratch: Path) -> list[str]:
    """Arguments of Python."""
    if job == "floor":
        return ["-c", READ_PIXELS, str(folder)]
    if job == "version":
        return ["-m", "evaluation", "--version"]
    (scratch / "empty").mkdir(exist_ok=True)
    submission = scratch / "empty" if job == "empty" else folder / "submission"
    paths = {"challenge": folder / "challenge", "submission": submission, "output": scratch / "output"}
    chosen = ["--workers", "1"] if job == "one" else []
    return ["-m", "evaluation", "score", *(word for key, path in paths.items() for word in (f"--{key}", path)), *chosen]


def measure(job: str, folder: Path, scratch: Path) -> dict[str, float]:
    """Seconds by the clock and of processor time of a process and its children, and peak resident memory in MB.

    From the start of Python to its end, with bytecode, as it is installed.
    """
    environment = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(cache_folder() / "bytecode")
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments(job, folder, scratch)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    _, status, usage = os.wait4(process.pid, 0)  # with the children that it has waited for
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != (job == "empty"):
        raise SystemExit(f"{CONTENDERS[job]} ended with {process.returncode}")
    return {
        "seconds": seconds,
        "processor": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss / 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="the ratios of this release, in benchmarks/ratios.json")
    options = parser.parse_args()
    folder = files()
    found: dict[str, list[dict[str, float]]] = {job: [] for job in CONTENDERS}
    with tempfile.TemporaryDirectory() as scratch:
        for job in CONTENDERS:
            measure(job, folder, Path(scratch))  # writes bytecode
        for _ in range(options.rounds):
            for job in CONTENDERS:
                found[job].append(measure(job, folder, Path(scratch)))
    least = {job: {key: min(one[key] for one in of_job) for key in of_job[0]} for job, of_job in found.items()}
    ratios = {job: round(one["processor"] / least["floor"]["processor"], 1) for job, one in least.items()}
    before = json.loads(LAST_RELEASE.read_text())
    heads = ("", "seconds, shortest (median)", "processor time, s", "times the floor", f"in {before['version']}")
    print("| " + " | ".join((*heads, "peak memory, MB")) + " |")
    print("| --- " * (len(heads) + 1) + "|")
    for job, label in CONTENDERS.items():
        median = statistics.median(one["seconds"] for one in found[job])
        print(
            f"| {label} | {least[job]['seconds']:.2f} ({median:.2f}) | {least[job]['processor']:.2f} | {ratios[job]} "
            f"| {before['ratios'][job]} | {least[job]['memory']:,.0f} |"
        )
    if options.keep:
        LAST_RELEASE.write_text(json.dumps({"version": __version__, "ratios": ratios}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
