"""Time and peak memory of this program and of its peers, in one run on one machine, as a table with ratios.

    python -m benchmarks.run                                   prints the tables, from memory and from files
    python -m benchmarks.run --write benchmarks/README.md      and puts them between the two markers of that file, with
                                                               a plot beside it
    HOVER_NET=FOLDER python -m benchmarks.run                  with HoVer-Net, from a checkout of vqdang/hover_net

Every measurement is a process of its own that loads a set, and then does the job and the yardstick in turn: the
yardstick is ``np.sum`` over the label maps of both sides. Processes of all contenders alternate, round by round.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import files, plot
from benchmarks.label_maps import LabelMaps

ROOT = Path(__file__).resolve().parents[1]
PLOT = Path(__file__).with_name("times.svg")
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
PACKAGES = ("numpy", "scipy", "scikit-image", "numba", "stardist", "panoptica", "cellpose", "torch", "torchmetrics")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the table.

    label       what it is, for the table
    rival       the contender of ours that does the same job, for the ratio
    limit       the goal: at most this many times the yardstick; None for peers
    goal        for peers: at least this many times slower than ours; None for ours
    most        the goal for more work: at most this many times its rival
    seconds     the goal: at most this long
    """

    label: str
    rival: str
    limit: float | None = None
    goal: float | None = None
    most: float | None = None
    seconds: float | None = None


CONTENDERS = {
    "sum": Contender("`np.sum` of both label maps, once", "sum"),
    "counts": Contender("this program: matching with all counts", "counts", limit=2),
    "hausdorff": Contender("this program: the same with both Hausdorff distances", "hausdorff", limit=8),
    "families": Contender(
        "this program: all families of metrics, all measures, scores of all units", "hausdorff", most=2
    ),
    "bootstrap": Contender(
        "this program: percentile intervals of all their numbers, 2,000 samples", "bootstrap", seconds=1
    ),
    "stardist": Contender("stardist `matching(thresh=0.5, report_matches=True)`", "counts", goal=10),
    "panoptica": Contender("panoptica with IoU, HD and HD95", "hausdorff", goal=18),
    "cellpose": Contender("cellpose `average_precision(threshold=[0.5])`", "counts"),
    "torchmetrics": Contender("torchmetrics `PanopticQuality`, labels as instances of one class", "counts"),
    "hover_net": Contender("HoVer-Net `get_fast_pq`, after `remap_label`", "counts"),
}
MEMORY_LIMIT = 3  # times the bytes of the label maps, which are among them


# --- the jobs: each takes all images and gives, for each, (pairs, sum of their Hausdorff distances or None) ----------

Job = Callable[[Any], list[tuple[int, float | None]]]


def sum_job() -> Job:
    return each(lambda maps: (int(maps.reference.sum() + maps.prediction.sum()) and 0, None))


def each(job: Callable[[LabelMaps], tuple[int, float | None]]) -> Job:
    """The job of a contender that takes one image at a time."""
    return lambda images: [job(maps) for maps in images]


def our_job(hausdorff: bool) -> Job:
    from benchmarks.label_maps import count_label_maps

    def job(images: Sequence[LabelMaps]) -> list[tuple[int, float | None]]:
        counts = count_label_maps(images, hausdorff=hausdorff)
        return [(c.true_positives, float(c.measures["hausdorff_px"].sum()) if hausdorff else None) for c in counts]

    return job


def stardist_job() -> Job:
    from stardist.matching import matching

    return each(lambda maps: (matching(maps.reference, maps.prediction, thresh=0.5, report_matches=True).tp, None))


def panoptica_job() -> Job:
    """Its fastest setting that does the job: no global metrics, no derived results, crops and boxes as by default.

    Worker processes stay off: one process, as for all others.
    """
    import panoptica

    panoptica.disable_citation_reminder()
    evaluator = panoptica.Panoptica_Evaluator(
        expected_input=panoptica.InputType.UNMATCHED_INSTANCE,
        instance_matcher=panoptica.NaiveThresholdMatching(
            matching_metric=panoptica.Metric.IOU, matching_threshold=0.5, strict_threshold=True
        ),
        instance_metrics=[panoptica.Metric.IOU, panoptica.Metric.HD, panoptica.Metric.HD95],
        global_metrics=[],
    )

    def job(maps: LabelMaps) -> tuple[int, float | None]:
        (result,) = evaluator.evaluate(maps.prediction, maps.reference, result_all=False).values()
        distances = result.get_list_metric(panoptica.Metric.HD, mode=panoptica.MetricMode.ALL) if result.tp else []
        return result.tp, float(sum(distances))

    return each(job)


def cellpose_job() -> Job:
    from cellpose.metrics import average_precision

    return each(lambda maps: (int(average_precision([maps.reference], [maps.prediction], [0.5])[1].sum()), None))


def torchmetrics_job() -> Job:
    import torch
    from torchmetrics.detection import PanopticQuality

    torch.set_num_threads(1)

    def job(maps: LabelMaps) -> tuple[int, float | None]:
        metric = PanopticQuality(things={1}, stuffs={0})
        sides = (np.stack([labels > 0, labels], axis=-1)[None] for labels in (maps.prediction, maps.reference))
        metric.update(*map(torch.from_numpy, sides))
        return int(metric.true_positives[0]), None  # of the nuclei; the background is the other entry

    return each(job)


def hover_net_job() -> Job:
    """Its code is not packaged: it is read from a folder."""
    sys.path.append(os.environ["HOVER_NET"])
    from metrics.stats_utils import get_fast_pq, remap_label

    def job(maps: LabelMaps) -> tuple[int, float | None]:
        _, (matched, *_) = get_fast_pq(remap_label(maps.reference), remap_label(maps.prediction))
        return len(matched), None

    return each(job)


def families_job() -> Job:
    from benchmarks.families import score_families

    def job(images: Sequence[LabelMaps]) -> list[tuple[int, float | None]]:
        counts = [of_rule for case in score_families(images).cases for of_rule in case.counts.values()]
        return [(c.true_positives, float(c.measures["hausdorff_px"].sum())) for c in counts]

    return job


def bootstrap_job() -> Job:
    """Only the intervals; its ``PREPARATIONS`` score what they are made from."""
    from benchmarks.families import bootstrap_all

    return lambda scored: [(0, None)] * (len(bootstrap_all(scored)) > 0)


def score_for_bootstrap(images: Sequence[LabelMaps]) -> Any:
    from benchmarks.families import ask_for_intervals

    return ask_for_intervals(images)


JOBS: dict[str, Callable[[], Job]] = {
    "sum": sum_job,
    "counts": lambda: our_job(False),
    "hausdorff": lambda: our_job(True),
    "families": families_job,
    "bootstrap": bootstrap_job,
    "stardist": stardist_job,
    "panoptica": panoptica_job,
    "cellpose": cellpose_job,
    "torchmetrics": torchmetrics_job,
    "hover_net": hover_net_job,
}


PREPARATIONS: dict[str, Callable[[Sequence[LabelMaps]], Any]] = {"bootstrap": score_for_bootstrap}  # not measured


# --- one measurement: a process of its own --------------------------------------------------------------------------


def measure(contender: str, set_name: str, seconds: float) -> dict[str, Any]:
    """Load a set, do job and yardstick in turn for about ``seconds`` (at least once), and tell times and memory."""
    from benchmarks import sets
    from benchmarks.label_maps import draw_label_maps
    from benchmarks.synthesis import Mistakes, seeded

    job, prepare = JOBS[contender](), PREPARATIONS.get(contender, list)
    for warm_up in range(3):  # compiles what is compiled at first use
        job(prepare([draw_label_maps(seeded(warm_up), (120, 150), 12, Mistakes(grow_px=1, missed=0.1))]))
    baseline = resident_bytes()
    images = sets.SETS[set_name]()
    array_bytes = sum(maps.reference.nbytes + maps.prediction.nbytes for maps in images)
    limit_memory()

    def total() -> None:
        for maps in images:
            maps.reference.sum()
            maps.prediction.sum()

    given = prepare(images)
    total()
    times: list[float] = []
    yardstick: list[float] = []
    results: list[tuple[int, float | None]] = []
    begin = time.perf_counter()
    while not times or (time.perf_counter() - begin < seconds and len(times) < 25):
        yardstick.append(timed(total))
        results.clear()
        times.append(timed(lambda: results.extend(job(given))))
    pairs = sum(result[0] for result in results)
    distances = [result[1] for result in results if result[1] is not None]
    return {
        "times": times,
        "yardstick": yardstick,
        "peak": (peak_bytes() - baseline) / array_bytes,
        "pairs": pairs,
        "hausdorff_px": sum(distances) / pairs if distances and pairs else None,
        "set": sets.describe(set_name, images),
    }


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def resident_bytes() -> int:
    """What the process holds now; where the system does not tell, the most it held so far."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """The most memory the process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def limit_memory() -> None:
    """Let a job that asks for more memory than there is fail by itself, and not the machine."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        resource.setrlimit(resource.RLIMIT_AS, (int(0.85 * physical), resource.RLIM_INFINITY))
    except (OSError, ValueError):  # not every system has the limit
        return


# --- all measurements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """All rounds of one contender on one set; ``failure`` says what happened instead."""

    times: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    peak: float = 0.0
    pairs: int = 0
    hausdorff_px: float | None = None
    failure: str = ""
    description: str = ""


def run_all(
    set_name: str, contenders: Iterable[str], rounds: int, seconds: float, minutes: float
) -> dict[str, Outcome]:
    """Every contender in every round. One that fails or takes too long is not asked again."""
    outcomes: dict[str, Outcome] = {}
    for number in range(1, rounds + 1):
        for name in contenders:
            before = outcomes.get(name, Outcome())
            if before.failure:
                continue
            print(f"{set_name}, round {number} of {rounds}: {name}", file=sys.stderr, flush=True)
            outcomes[name] = add_round(before, in_own_process(name, set_name, seconds, minutes))
    return outcomes


def in_own_process(contender: str, set_name: str, seconds: float, minutes: float) -> dict[str, Any] | str:
    """The result of one measurement, or a sentence that says why there is none."""
    command = [sys.executable, "-m", "benchmarks.run", "--measure", contender, set_name, "--seconds", str(seconds)]
    environment = {**os.environ, **ONE_THREAD}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60 * minutes, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {minutes:g} minutes"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return f"fails: {lines[-1][:160]}".replace("|", "/")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def add_round(before: Outcome, result: dict[str, Any] | str) -> Outcome:
    if isinstance(result, str):
        return Outcome(failure=result)
    # The yardstick of a process is its shortest run: it is what the machine can do.
    ratios = [duration / min(result["yardstick"]) for duration in result["times"]]
    return Outcome(
        times=(*before.times, *result["times"]),
        ratios=(*before.ratios, min(ratios)),
        peak=max(before.peak, result["peak"]),
        pairs=result["pairs"],
        hausdorff_px=result["hausdorff_px"],
        description=result["set"],
    )


# --- the table ------------------------------------------------------------------------------------------------------


def table(set_name: str, outcomes: dict[str, Outcome], rounds: int) -> str:
    """One set as a markdown table."""
    described = next((outcome.description for outcome in outcomes.values() if outcome.description), set_name)
    lines = [
        f"**{described}**",
        "",
        "| | seconds, shortest (median) | times `np.sum` | times ours | peak memory, times the label maps "
        "| matched pairs | mean Hausdorff, px |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, outcome in outcomes.items():
        contender = CONTENDERS[name]
        if outcome.failure:
            lines.append(f"| {contender.label} | {outcome.failure} | | | | | |")
            continue
        ratio = statistics.median(outcome.ratios)
        spread = f" ({min(outcome.ratios):.1f} to {max(outcome.ratios):.1f})" if rounds > 1 else ""
        against = outcomes.get(contender.rival)
        ours = ""
        if contender.rival != name and against is not None and against.times:
            ours = f"{min(outcome.times) / min(against.times):.1f}"
            ours += f" (goal: at least {contender.goal:g})" if contender.goal else ""
            ours += f" (goal: at most {contender.most:g})" if contender.most else ""
        lines.append(
            f"| {contender.label} | {min(outcome.times):.3f} ({statistics.median(outcome.times):.3f})"
            f"{f', goal: at most {contender.seconds:g}' if contender.seconds else ''} "
            f"| {ratio:.1f}{spread}{f', goal: at most {contender.limit:g}' if contender.limit else ''} | {ours} "
            f"| {outcome.peak:.2f}{f' (goal: at most {MEMORY_LIMIT})' if contender.limit else ''} "
            f"| {outcome.pairs if outcome.pairs else ''} "
            f"| {f'{outcome.hausdorff_px:.3f}' if outcome.hausdorff_px is not None else ''} |"
        )
    return "\n".join(lines)


def machine() -> str:
    """Processor, system and versions, in one sentence."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = models[0] if models else model
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if installed(name)]
    gigabytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{model}, {os.cpu_count()} cores, {gigabytes:.0f} GiB, {platform.system()}; "
        f"Python {platform.python_version()}, {', '.join(versions)}. One process, one thread each."
    )


def installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def write_between_markers(path: Path, text: str) -> None:
    """Replace what stands between the markers of a file."""
    content = path.read_text("utf-8")
    head, begin, rest = content.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no lines '{BEGIN}' and '{END}'")
    path.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of this program and of its peers.")
    parser.add_argument("--sets", nargs="+", default=["monusac_like", "slide"], choices=["monusac_like", "slide"])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contender (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="for each process, at least one run (%(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="when a process is given up (default: %(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the tables between the markers of this file")
    parser.add_argument("--measure", nargs=2, metavar=("CONTENDER", "SET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure, arguments.seconds)))
        return
    subprocess.run([sys.executable, "-m", "benchmarks.sets", *arguments.sets], cwd=ROOT, check=True)
    head = f"Measured on {time.strftime('%Y-%m-%d')}: {machine()}"
    found = {
        name: run_all(name, arguments.contenders, arguments.rounds, arguments.seconds, arguments.minutes)
        for name in arguments.sets
    }
    command = [sys.executable, "-m", "benchmarks.files", "--json", "--rounds", str(arguments.rounds), "--set"]
    from_files: dict[str, files.Measured] = {
        name: json.loads(subprocess.run([*command, name], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        for name in ("monusac_like", "patches")
    }
    tables = [table(name, outcomes, arguments.rounds) for name, outcomes in found.items()]
    tables += [files.table(of_set, name) for name, of_set in from_files.items()]
    print("\n\n".join([head, *tables]))
    if arguments.write:
        plot.draw(
            {CONTENDERS[name].label: of for name, of in found["monusac_like"].items()}, from_files["monusac_like"], PLOT
        )
        write_between_markers(arguments.write, "\n\n".join([head, f"![Times and memory]({PLOT.name})", *tables]))


if __name__ == "__main__":
    main()
