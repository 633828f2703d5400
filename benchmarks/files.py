"""From files to files: scoring label TIFFs with class tables, beside reading their pixels and doing nothing else.

The set ``monusac_like`` is written as zlib label TIFFs and class tables in CSV, with a challenge that has the rules of
the preset ``monusac2020``. Every measurement is a process of its own, from the start of Python to its end, with its
children; the contenders alternate, round by round. The floor is a process that imports tifffile, calls ``imread`` for
every file of both sides and ends. Ratios are of processor time, which other work on the machine changes least.

``--set patches`` writes 2,700 small images without class tables, as the peers read them, and one class.

The peers do the same work from the same files; those that are not installed are left out.

    python -m benchmarks.files                    five rounds; prints a table, beside the ratios of the last release
    python -m benchmarks.files --set patches --rounds 1
    python -m benchmarks.files --keep             at a release: writes benchmarks/ratios.json
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import cache_folder

Measured = dict[str, list[dict[str, float]]]  # of each contender in each round, as ``measure`` gives it

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
ONE_CLASS_TOML = """\
format_version = 1
name = "Patches"
preset = "monusac2020"

[[classes]]
name = "Nucleus"

[reference]
format = "label_image"
files = "reference/{case}.tif"
overlap = "keep"
overlap_scope = "image"

[submission]
format = "label_image"
files = "{case}.tif"
missing_case = "worst"
"""
READ_PIXELS = """\
import pathlib, sys, tifffile
folder = pathlib.Path(sys.argv[1])
sides = [sorted(folder.glob(side)) for side in ("challenge/reference/*.tif", "submission/*.tif")]
pairs = ([tifffile.imread(path, maxworkers=1) for path in pair] for pair in zip(*sides, strict=True))
"""
STARDIST = """\
from stardist.matching import matching_dataset
print(matching_dataset(*zip(*pairs), thresh=0.5, show_progress=False))
"""
PANOPTICA = """\
import panoptica
from panoptica import InputType, Metric, NaiveThresholdMatching, Panoptica_Evaluator
panoptica.disable_citation_reminder()
judge = Panoptica_Evaluator(expected_input=InputType.UNMATCHED_INSTANCE, instance_matcher=NaiveThresholdMatching(),
    instance_metrics=[Metric.IOU, Metric.HD, Metric.HD95], global_metrics=[], verbose=False, log_times=False)
for reference, prediction in pairs:
    judge.evaluate(prediction, reference)
"""
CONTENDERS = {
    "floor": "`tifffile.imread` of both sides",
    "one": "`evaluation score --workers 1`",
    "score": "`evaluation score`",
    "compare": "`evaluation compare`, with intervals",
    "empty": "`evaluation score` of an empty submission",
    "version": "`evaluation --version`",
    "stardist": "stardist, `imread` and `matching_dataset`",
    "panoptica": "panoptica, `imread` and `evaluate` with IoU, HD and HD95",
}
PEERS = {"stardist": STARDIST, "panoptica": PANOPTICA}
LAST_RELEASE = Path(__file__).with_name("ratios.json")


def files(set_name: str = "monusac_like") -> Path:
    """The folder with ``challenge`` and ``submission``, made at the first call and kept in the cache of the sets."""
    folder = cache_folder() / f"{set_name}-files-{FORMAT}"
    if (folder / "complete").is_file():
        return folder
    import numpy as np
    import tifffile

    from benchmarks.sets import IMAGES_OF_PATIENT, SETS

    sides = {"reference": folder / "challenge" / "reference", "prediction": folder / "submission"}
    for parent in sides.values():
        parent.mkdir(parents=True, exist_ok=True)
    has_classes = set_name == "monusac_like"
    (folder / "challenge" / "challenge.toml").write_text(CHALLENGE_TOML if has_classes else ONE_CLASS_TOML)
    rows = ["case,group,height,width"]
    images = SETS[set_name]()
    patients = np.repeat(np.arange(1, len(IMAGES_OF_PATIENT) + 1), IMAGES_OF_PATIENT)
    if not has_classes:
        patients = np.arange(len(images))
    for index, (maps, patient) in enumerate(zip(images, patients.tolist(), strict=True)):
        height, width = maps.reference.shape
        rows.append(f"image{index:03},patient{patient:02},{height},{width}")
        for side, parent in sides.items():
            labels, class_of = getattr(maps, side), getattr(maps, f"{side}_class")
            tifffile.imwrite(parent / f"image{index:03}.tif", labels, compression="zlib")
            if not has_classes:
                continue
            table = [f"{label},{CLASSES[class_of[label - 1] - 1]}" for label in np.unique(labels[labels > 0]).tolist()]
            (parent / f"image{index:03}.csv").write_text("\n".join(("id,class", *table, "")))
    (folder / "challenge" / "cases.csv").write_text("\n".join((*rows, "")))
    (folder / "complete").touch()
    return folder


def arguments(job: str, folder: Path, scratch: Path) -> list[str]:
    """Arguments of Python."""
    if job == "floor":
        return ["-c", f"{READ_PIXELS}\nfor _ in pairs:\n    pass\n", str(folder)]
    if job in PEERS:
        return ["-W", "ignore", "-c", READ_PIXELS + PEERS[job], str(folder)]
    if job == "compare":
        return ["-m", "evaluation", "compare", str(folder / "challenge" / "reference"), str(folder / "submission")]
    if job == "version":
        return ["-m", "evaluation", "--version"]
    (scratch / "empty").mkdir(exist_ok=True)
    submission = scratch / "empty" if job == "empty" else folder / "submission"
    paths = {"challenge": folder / "challenge", "submission": submission, "output": scratch / "output"}
    chosen = ["--workers", "1"] if job == "one" else []
    return ["-m", "evaluation", "score", *(word for key, path in paths.items() for word in (f"--{key}", path)), *chosen]


def measure(job: str, folder: Path, scratch: Path) -> dict[str, float]:
    """Seconds by the clock and of processor time of a process and its children, and peak resident memory in MB.

    From the start of Python to its end, with bytecode, as it is installed. The system counts the memory of the process
    that starts another as the other's, so this module imports nothing large.
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
    return {"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1000}


def measure_all(rounds: int, set_name: str = "monusac_like") -> Measured:
    """All rounds of each contender."""
    subprocess.run([sys.executable, "-c", f"from benchmarks.files import files; files({set_name!r})"], check=True)
    folder = files(set_name)
    jobs = [job for job in CONTENDERS if job not in PEERS or importlib.util.find_spec(job)]
    found: Measured = {job: [] for job in jobs}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds + 1):
            for job in jobs:
                print(f"from files, round {number} of {rounds}: {job}", file=sys.stderr, flush=True)
                measured = measure(job, folder, Path(scratch))
                found[job] += [measured] * (number > 0)  # the first one writes bytecode
    return found


def table(found: Measured, set_name: str = "monusac_like") -> str:
    """All contenders as a markdown table; those of ``monusac_like`` beside the ratios of the last release."""
    least, ratios, before = least_of(found), ratios_of(found), json.loads(LAST_RELEASE.read_text())
    heads = ("", "seconds, shortest (median)", "processor time, s", "times the floor", f"in {before['version']}")
    images = {"monusac_like": "101 images", "patches": "2,700 images of 256 x 256 px, 25 nuclei each"}[set_name]
    lines = [f"**From files to files: {images} of `{set_name}`**", ""]
    known = before["ratios"] if set_name == "monusac_like" else {}
    lines += ["| " + " | ".join((*heads, "peak memory, MB")) + " |", "| --- " * (len(heads) + 1) + "|"]
    for job, one in least.items():
        median = statistics.median(each["seconds"] for each in found[job])
        lines.append(
            f"| {CONTENDERS[job]} | {one['seconds']:.2f} ({median:.2f}) | {one['processor']:.2f} | {ratios[job]} "
            f"| {known.get(job, '')} | {one['memory']:,.0f} |"
        )
    return "\n".join(lines)


def least_of(found: Measured) -> dict[str, dict[str, float]]:
    return {job: {key: min(one[key] for one in of_job) for key in of_job[0]} for job, of_job in found.items()}


def ratios_of(found: Measured) -> dict[str, float]:
    """Processor time over that of the floor."""
    least = least_of(found)
    return {job: round(one["processor"] / least["floor"]["processor"], 1) for job, one in least.items()}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", choices=("monusac_like", "patches"), default="monusac_like", dest="set_name")
    parser.add_argument("--keep", action="store_true", help="the ratios of this release, in benchmarks/ratios.json")
    parser.add_argument("--json", action="store_true", help="print all that was measured")
    options = parser.parse_args()
    found = measure_all(options.rounds, options.set_name)
    print(json.dumps(found) if options.json else table(found, options.set_name))
    if options.keep:
        ratios = {job: ratio for job, ratio in ratios_of(found).items() if job not in PEERS}
        from evaluation.files.results import __version__

        LAST_RELEASE.write_text(json.dumps({"version": __version__, "ratios": ratios}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
