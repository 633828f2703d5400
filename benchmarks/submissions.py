"""Many small submissions on two workers of a Dask cluster: what each costs beyond its scoring, and the memory.

python -m benchmarks.submissions [NUMBER] [FOLDER]

Each submission has one case of the demo, of which only detection is measured. The scheduler and the client are one
process here. Times are those of processors, so that a busy machine tells nearly the same.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil
from distributed import LocalCluster

from evaluation import score_submission
from evaluation.board.board import score_and_rank, write_board
from evaluation.folders.demo import write_demo
from evaluation.scoring.executors import connect

WORKERS = 2
RULES = """
[metrics]
families = ["detection"]
[ranking]
require = []
columns = [{ path = "detection.f1.group_mean", direction = "descending" }]
"""
ALONE = 40  # submissions that are scored without a cluster, to know what scoring costs


def make(folder: Path, number: int) -> Path:
    """A challenge with one case, and so many submissions; the folder of submissions."""
    demo = write_demo(folder)
    cases = folder / "challenge/cases.csv"
    cases.write_text("\n".join(cases.read_text().splitlines()[:2]) + "\n")
    with (folder / "challenge/challenge.toml").open("a") as toml:
        toml.write(RULES)
    skills = list(demo.submissions.values())
    for place in range(number):
        target = folder / "teams" / f"team_{place:05d}" / "P1"
        target.mkdir(parents=True)
        shutil.copytree(skills[place % 3] / "P1/P1_1", target / "P1_1")
    return folder / "teams"


def of_workers(this: psutil.Process) -> float:
    """Seconds of processors that the child processes have taken."""
    return sum(child.cpu_times().user + child.cpu_times().system for child in this.children(recursive=True))


def main(number: int, folder: Path) -> None:
    teams = make(folder, number)
    challenge = folder / "challenge"
    began = time.process_time()
    for place in range(ALONE):
        score_submission(challenge, teams / f"team_{place % number:05d}", workers=1).texts()
    alone = (time.process_time() - began) / ALONE
    this = psutil.Process()
    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(f"{number} submissions, {WORKERS} workers; scoring one alone takes {1000 * alone:.0f} ms")
        memory: list[int] = []
        seen: set[str] = set()
        for call in ("all are new", "nothing is new, first look", "nothing is new", "one is new"):
            if call == "one is new":
                shutil.copytree(teams / "team_00000", teams / "team_new")
            began, ours, theirs = time.perf_counter(), time.process_time(), of_workers(this)
            memory.clear()
            seen.clear()

            def told(name: str, outcome: str, trace: str) -> None:
                seen.add(name)
                if len(seen) % max(1, number // 4) == 0:
                    memory.append(this.memory_info().rss >> 20)

            with connect(cluster.scheduler_address) as executor:
                board = score_and_rank(challenge, teams, folder / "out", executor=executor, note=told)
            ours, theirs = time.process_time() - ours, of_workers(this) - theirs
            scored = time.perf_counter() - began
            write_board(folder / "out", board)
            each = f"{1000 * ours / number:.1f} ms of scheduler and client, {1000 * theirs / number:.1f} ms of workers"
            print(f"{call}: {scored:.1f} s by the clock with the ranking; for each submission {each}; "
                  f"memory of scheduler and client after each quarter: {memory} MB", flush=True)  # fmt: skip
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"highest memory of scheduler and client {peak} MB; load of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    if len(sys.argv) > 2:
        main(count, Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(count, Path(temporary))
