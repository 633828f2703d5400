"""What whole slides cost: time, memory and the share of each stage at 10,000, 100,000 and 1,000,000 nuclei a side.

    python -m benchmarks.scale                             prints the tables
    python -m benchmarks.scale --write docs/scale.md       and puts them between the two markers of that file

Every size is a process of its own that does what ``evaluation score`` does, from the GeoJSON files of both sides to
metrics.json, details.json and objects.csv. Peers get the same nuclei as two label maps.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import cache_folder
from benchmarks.label_maps import LabelMaps
from benchmarks.run import CONTENDERS, JOBS, ONE_THREAD, limit_memory, machine, peak_bytes, timed, write_between_markers
from benchmarks.slides import DRAWN, KINDS, SLIDES, draw_tile, write_slide
from benchmarks.synthesis import label_map
from evaluation.scoring import street as pipeline

ROOT = Path(__file__).resolve().parents[1]
STAGES = {  # what a stage does, and the functions that do it; what they call belongs to the stage of the callee
    "read: parse JSON": (
        "evaluation.files.decoding.json.JsonText.parse",
        "evaluation.files.formats.geojson._decode_features",
    ),
    "read: cut, check, make arrays": ("evaluation.scoring.read.read_case",),
    "outlines to runs": ("evaluation.scoring.read.convert_parts", "nuclei_metrics.instances.prepare.convert_parts"),
    "overlap rule": ("evaluation.scoring.read.prepare_reference",),
    "match": ("evaluation.scoring.street.match_cases",),
    "measure": ("evaluation.scoring.street.measure_cases",),
    "summarise": ("evaluation.scoring.street.summarise",),
    "write": ("evaluation.scoring.score.Result.write",),
}
HERE = "evaluation.scoring.read.submission_side"  # files are decoded by the process that is measured


class Stopwatch:
    """Processor time and the highest memory of each stage; the time of a stage within another is its own."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((*STAGES, "the rest"), 0.0)
        self.peak = dict.fromkeys(self.seconds, 0)
        self.within = ["the rest"]
        self.last = time.process_time()

    def note(self) -> None:
        """Credit the stage at hand with what has been since the last time."""
        now = time.process_time()
        stage = self.within[-1]
        self.seconds[stage] += now - self.last
        self.peak[stage] = max(self.peak[stage], take_peak())
        self.last = time.process_time()

    @contextmanager
    def running(self, stage: str) -> Iterator[None]:
        self.note()
        self.within.append(stage)
        try:
            yield
        finally:
            self.note()
            self.within.pop()

    def watched(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            with self.running(stage):
                return function(*given, **named)

        return call


def take_peak() -> int:
    """The most memory that the process held since the last call, or ever where the system cannot forget it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return peak_bytes()
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(peak.split()[1])


def measure(folder: Path) -> dict[str, Any]:
    """Score a slide in this process, the decoding of the prediction included."""
    # What is imported at first use shall not be measured.
    pipeline.score_submission(*parts_of(slide_folder(1_000, "geojson")), workers=1)
    before = take_peak()
    watch = Stopwatch()
    began = time.perf_counter()
    with ExitStack() as patched, tempfile.TemporaryDirectory() as output:
        for stage, names in STAGES.items():
            for name in names:
                patched.enter_context(patch(name, watch.watched(stage, resolve_name(name))))
        side = resolve_name(HERE)
        patched.enter_context(patch(HERE, lambda *given: replace(side(*given), owner="")))
        result = pipeline.score_submission(*parts_of(folder), workers=1)
        result.write(output)
        watch.note()
    wall = time.perf_counter() - began
    case = result.cases[0]
    whole, peak_of_one = measure_command(folder)
    return {
        "whole": whole,
        "peak_of_one": peak_of_one,
        "nuclei": [len(case.reference.area_px), len(case.prediction.area_px)],
        "pairs": [len(matches) for matches in case.matches.values()],
        "pixels": case.case.height * case.case.width,
        "covered": int(case.reference.area_px.sum()),
        "before": before,
        "wall": wall,
        "seconds": watch.seconds,
        "peak": watch.peak,
        "hausdorff_px": result.value("segmentation.hausdorff_px.pooled"),
    }


def measure_command(folder: Path) -> tuple[float, int]:
    """Processor time of ``evaluation score --workers 1`` from start to end, and the memory of its largest process."""
    challenge, submission = map(str, parts_of(folder))
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, "-m", "evaluation", "score", "--challenge", challenge, "--submission", submission]
        subprocess.run([*command, "--output", output, "--workers", "1"], check=True, capture_output=True, cwd=ROOT)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss


def parts_of(folder: Path) -> tuple[Path, Path]:
    return folder / "challenge", folder / "submission"


def slide_folder(nuclei: int, kind: str) -> Path:
    """The files of a slide, made and kept in the cache at the first call."""
    folder = cache_folder() / f"scale-{kind}-{nuclei}"
    if not (folder / "complete").is_file():
        write_slide(folder, SLIDES[nuclei], kind=kind)
        (folder / "complete").touch()
    return folder


# --- the model ------------------------------------------------------------------------------------------------------


def predict(file_bytes: int, nuclei: int, rows: int, pairs: int, lines: int) -> tuple[float, float]:
    """Seconds of processor time beyond the start of the program, and bytes of memory, by the model of docs/scale.md.

    file_bytes, nuclei, rows   of both sides together; rows of pixels of all nuclei
    pairs                      that are measured, each once
    lines                      of objects.csv
    """
    seconds = 7e-9 * file_bytes + 2e-6 * nuclei + 0.45e-6 * rows + 12e-6 * pairs + 2.5e-6 * lines
    return seconds, 110e6 + 200 * nuclei + 36 * rows


def predict_slide(nuclei: int) -> tuple[float, float]:
    """The same for the slides of this benchmark, whose nuclei are 26 rows high."""
    sides = 2.02 * nuclei
    return predict(round(620 * sides), round(sides), round(26 * sides), round(0.92 * nuclei), round(2.2 * nuclei))


# --- peers ------------------------------------------------------------------------------------------------------------


def measure_peer(contender: str, nuclei: int) -> dict[str, Any]:
    """Let a peer match the same nuclei, as two label maps that are in memory already."""
    job = JOBS[contender]()
    limit_memory()
    slide = SLIDES[nuclei]
    sides = [np.zeros(slide.shape_yx, np.int32) for _ in range(2)]
    drawn = [draw_tile(slide, number) for number in range(min(DRAWN, slide.rows * slide.columns))]
    for side, labels in enumerate(sides):
        tiles = [label_map(pair[side], (slide.tile_px, slide.tile_px))[0] for pair in drawn]
        known = 0
        for number in range(slide.rows * slide.columns):
            row, column = (slide.tile_px * place for place in divmod(number, slide.columns))
            tile = tiles[number % DRAWN]
            labels[row : row + slide.tile_px, column : column + slide.tile_px] = np.where(tile, tile + known, 0)
            known += int(tile.max())
    none = np.empty(0, np.int16)
    results: list[tuple[int, float | None]] = []
    seconds = timed(lambda: results.extend(job([LabelMaps(*sides, none, none)])))
    return {"seconds": seconds, "peak": peak_bytes(), "pairs": results[0][0]}


# --- all measurements -----------------------------------------------------------------------------------------------


def in_own_process(what: str, nuclei: int, kind: str, minutes: float) -> dict[str, Any] | str:
    """The result of one measurement, or a sentence that says why there is none."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", what, str(nuclei), kind]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            capture_output=True,
            text=True,
            timeout=60 * minutes,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {minutes:g} minutes"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return "not enough memory" if "MemoryError" in lines[-1] else f"fails: {lines[-1][:160]}".replace("|", "/")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stage_table(found: dict[int, dict[str, Any]]) -> str:
    """Processor time per nucleus of the reference and share of each stage at each size; memory of all."""
    lines = [
        "| us of processor time a nucleus (share); peak memory | "
        + " | ".join(f"{nuclei:,} nuclei a side" for nuclei in found)
        + " |",
        "| --- |" + " --- |" * len(found),
    ]
    for stage in (*STAGES, "the rest"):
        cells = []
        for nuclei, of_size in found.items():
            seconds, total = of_size["seconds"][stage], sum(of_size["seconds"].values())
            cells.append(f"{1e6 * seconds / nuclei:.1f} ({seconds / total:.0%})")
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    cells = []
    for nuclei, of_size in found.items():
        total = sum(of_size["seconds"].values())
        peak = max(of_size["peak"].values())
        cells.append(f"**{1e6 * total / nuclei:.1f}**, {peak / 1e9:.2f} GB; {total:.1f} s")
    lines.append("| **all** | " + " | ".join(cells) + " |")
    cells = [
        f"**{1e6 * of_size['whole'] / nuclei:.1f}**, {of_size['peak_of_one'] / 1e9:.2f} GB"
        for nuclei, of_size in found.items()
    ]
    lines.append("| `score --workers 1`, start and decoding process included | " + " | ".join(cells) + " |")
    guesses = [(nuclei, *predict_slide(nuclei)) for nuclei in found]
    cells = [f"{1e6 * seconds / nuclei:.1f}, {peak / 1e9:.2f} GB" for nuclei, seconds, peak in guesses]
    lines.append("| the model | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def peer_table(found: dict[tuple[str, int], dict[str, Any] | str]) -> str:
    lines = [
        "| peer, from label maps in memory | nuclei a side | seconds | peak memory | matched pairs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (name, nuclei), of_peer in found.items():
        label = CONTENDERS[name].label
        if isinstance(of_peer, str):
            lines.append(f"| {label} | {nuclei:,} | {of_peer} | | |")
        else:
            peak = f"{of_peer['peak'] / 1e9:.2f} GB"
            lines.append(f"| {label} | {nuclei:,} | {of_peer['seconds']:.1f} | {peak} | {of_peer['pairs']:,} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of whole slides, stage by stage.")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000], choices=list(SLIDES))
    parser.add_argument("--kind", default="geojson", choices=list(KINDS))
    parser.add_argument("--peers", nargs="*", default=["stardist", "panoptica"], choices=["stardist", "panoptica"])
    parser.add_argument("--minutes", type=float, default=10, help="when a process is given up (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the markers of this file")
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "NUCLEI", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        what, nuclei, kind = arguments.measure[0], int(arguments.measure[1]), arguments.measure[2]
        print(json.dumps(measure(slide_folder(nuclei, kind)) if what == "us" else measure_peer(what, nuclei)))
        return
    ours: dict[int, dict[str, Any]] = {}
    for nuclei in arguments.sizes:
        slide_folder(nuclei, arguments.kind)
        found = in_own_process("us", nuclei, arguments.kind, 60)
        if isinstance(found, str):
            raise SystemExit(f"{nuclei:,} nuclei: {found}")
        print(nuclei, json.dumps(found), file=sys.stderr, flush=True)
        ours[nuclei] = found
    peers = {
        (name, nuclei): in_own_process(name, nuclei, arguments.kind, arguments.minutes)
        for name in arguments.peers
        for nuclei in arguments.sizes
    }
    when = f"Measured on {time.strftime('%Y-%m-%d')}: {machine()}"
    text = "\n\n".join([when, stage_table(ours), *([peer_table(peers)] if peers else [])])
    print(text)
    if arguments.write:
        write_between_markers(arguments.write, text)


if __name__ == "__main__":
    main()
