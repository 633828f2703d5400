"""Time of comparing teams in pairs on their common nuclei, from files objects.csv. Prints a line for each step.

    python -m benchmarks.common_nuclei                  100 teams, 15,000 reference nuclei of 101 images and 25 patients

The files are made from a seed: each team matches 60 to 95 % of the nuclei and has as many spurious ones as it misses;
two matching rules, IoU and Hausdorff distance. The goal is 30 seconds for reading all files and comparing all pairs.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.run import machine, peak_bytes
from evaluation.board.matched_nuclei import compare_teams_on_common, compared_measures, read_matched_nuclei
from evaluation.board.rules import ranking_of
from evaluation.challenge import Challenge
from evaluation.files.results.documents import OBJECT_COLUMNS, encoded
from nuclei_metrics.model import Case

IMAGES, PATIENTS, MEASURES = 101, 25, ("iou", "dice", "hausdorff_px", "hausdorff95_px")


def make_challenge() -> Challenge:
    cases = tuple(Case(f"c{n:03}", f"p{n * PATIENTS // IMAGES:02}", 1000, 1000) for n in range(IMAGES))
    return Challenge.from_preset("recommended", name="common nuclei").model_copy(update={"cases": cases})


def write_objects(path: Path, challenge: Challenge, nuclei: int, random: np.random.Generator) -> None:
    """An objects.csv as ``score`` writes it."""
    image = np.sort(np.random.default_rng(0).integers(0, IMAGES, nuclei)).tolist()
    is_matched = random.random(nuclei) < random.uniform(0.6, 0.95)
    iou, hausdorff = random.beta(8, 2, nuclei).round(6).tolist(), random.gamma(2, 1.5, nuclei).round(6).tolist()
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*OBJECT_COLUMNS, *MEASURES))
        for rule, _ in challenge.matching.passes:
            for n, matched in enumerate(is_matched.tolist()):
                case = challenge.cases[image[n]]
                start, reference = (case.name, case.group, rule), (f"1/{n}", f"class {n % 4}", 100 + n % 900)
                prediction = (n, f"class {n % 4}", 100)
                if matched:
                    writer.writerow(
                        (*start, "matched", *reference, *prediction, iou[n], iou[n], hausdorff[n], hausdorff[n])
                    )
                else:
                    writer.writerow((*start, "missed", *reference, *7 * ("",)))
                    writer.writerow((*start, "spurious", *3 * ("",), *prediction, *4 * ("",)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of comparisons on common nuclei.")
    parser.add_argument("--teams", type=int, default=100)
    parser.add_argument("--nuclei", type=int, default=15_000)
    arguments = parser.parse_args()
    challenge, random = make_challenge(), np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        files = {f"team {n:03}": Path(folder, f"{n}.csv") for n in range(arguments.teams)}
        for path in files.values():
            write_objects(path, challenge, arguments.nuclei, random)
        begin = time.perf_counter()
        rules = ranking_of(challenge)
        found = read_matched_nuclei(challenge, compared_measures(challenge, rules), files)
        common = compare_teams_on_common(challenge, rules, found, sorted(files))
        seconds = time.perf_counter() - begin
    compared = sum(pair.by == "quality" for pair in common.pairs)
    print(machine())
    print(
        f"{arguments.teams} teams x {arguments.nuclei:,} reference nuclei, {len(common.pairs):,} pairs, "
        f"{compared:,} of them compared by {' and '.join(found.measures)}: {seconds:.1f} s (goal: 30), "
        f"peak memory {peak_bytes() / 1e9:.2f} GB, {len(json.dumps(encoded(common))) / 1e6:.1f} MB of leaderboard.json"
    )


if __name__ == "__main__":
    main()
