"""Time and peak memory of ranking made tables of scores: places, significance, stability. Prints a markdown table.

    python -m benchmarks.ranking                     all boards, some minutes
    python -m benchmarks.ranking --boards challenge  one of them
    python -m benchmarks.ranking --whole             what `rank` does of 2,263 teams x 106 units, and of 106 x 2,263

Boards are made from a seed: teams of different strength, units of different difficulty, columns that go together.
Scores have six decimals, as in metrics.json. ``dsb2018`` has the size of the second stage of the Data Science Bowl
2018: 2,263 submissions, 106 images; ``challenge`` that of a usual challenge: 20 teams, 25 patients.

Each row is a process of its own, with as many threads as numpy takes. *Ranking* is the board itself by all columns.
*Significance* is Friedman's test and the test of all pairs of teams, in every column, with places ex aequo. *Stability*
is the bootstrap over units, with rank intervals, frequencies, probabilities of being first and Kendall's tau, and the
ranking without each unit. *Tau between rankings* is Kendall's tau between all pairs of 50 rankings of the same teams,
as the audit needs it. Memory is the most that the process held up to there, with Python and its libraries. The goal,
for the two boards that the default method ranks, is a minute and 2 GB on 2 cores: with 2,263 teams and 1,000 samples;
and 10 seconds with 20 teams and 10,000 samples.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from time import process_time

import numpy as np

from benchmarks.run import ROOT, machine, peak_bytes, timed
from evaluation.board.board import build_board
from evaluation.board.document import leaderboard_json
from evaluation.challenge.rules import RankingColumn, RankingRules
from nuclei_metrics.aggregation.units import Method
from nuclei_metrics.model import Float64, ScoreTable
from nuclei_metrics.ranking.methods import Aggregate, needs_units, positions_of, rank_teams, unit_values
from nuclei_metrics.ranking.significance import Int8, Test, compare_teams, ex_aequo_positions
from nuclei_metrics.ranking.stability import RankSamples, bootstrap_ranks, kendall_tau, rank_by_values

COLUMNS = ("detection.f1", "panoptic.pq", "segmentation.dice", "segmentation.hausdorff_px")
LOWER_IS_BETTER = ("segmentation.hausdorff_px",)
RANKINGS = 50
GIGABYTE = 10**9


@dataclass(frozen=True, slots=True)
class Board:
    """One row of the table. ``seconds`` and ``gigabytes`` are the goal, None if there is none."""

    teams: int
    units: int
    samples: int
    method: Method
    aggregate: Aggregate
    test: Test
    seconds: float | None = None
    gigabytes: float | None = None

    @property
    def label(self) -> str:
        aggregate = f" ({self.aggregate})" if needs_units(self.method) else ""
        size = f"{self.teams:,} teams x {self.units} units x {len(COLUMNS)} columns"
        return f"{size}: `{self.method}`{aggregate}, `{self.test}`, {self.samples:,} samples"


DSB2018 = Board(2263, 106, 1000, "sum_of_ranks", "mean", "friedman_nemenyi", seconds=60, gigabytes=2)
CHALLENGE = Board(20, 25, 10_000, "sum_of_ranks", "mean", "friedman_nemenyi", seconds=10, gigabytes=2)
BOARDS = {
    "dsb2018": DSB2018,
    "dsb2018_wilcoxon": replace(
        DSB2018, test="wilcoxon_holm", method="aggregate_then_rank", seconds=None, gigabytes=None
    ),
    "dsb2018_units": replace(DSB2018, method="rank_then_aggregate", seconds=None, gigabytes=None),
    "challenge": CHALLENGE,
    "challenge_median": replace(
        CHALLENGE, method="rank_then_aggregate", aggregate="median", test="wilcoxon_holm", seconds=None, gigabytes=None
    ),
}


WHOLE = {  # teams, units, keys of [ranking]
    f"{teams:,} teams x {units:,} units: {' '.join(settings.values()) or 'defaults'}": (teams, units, settings)
    for teams, units in ((2263, 106), (106, 2263))
    for settings in ({}, {"method": "test_then_rank"}, {"test": "wilcoxon_holm"})
}


def make_table(teams: int, units: int, seed: int = 2018) -> ScoreTable:
    """A table of scores of teams in units, all of them known."""
    random = np.random.default_rng(seed)
    strength = random.normal(0, 0.8, (teams, 1, 1)) + random.normal(0, 0.3, (teams, len(COLUMNS), 1))
    difficulty = random.normal(0, 0.7, (1, 1, units)) + random.normal(0, 0.3, (1, len(COLUMNS), units))
    noise = random.normal(0, 0.5, (teams, len(COLUMNS), units))
    share = 1 / (1 + np.exp(-(0.8 + strength - difficulty + noise)))
    higher_is_better = np.array([name not in LOWER_IS_BETTER for name in COLUMNS])
    by_unit = np.asarray(np.round(np.where(higher_is_better[:, None], share, 20 * (1 - share)), 6), np.float64)
    return ScoreTable(
        teams=tuple(f"team_{number:04d}" for number in range(teams)),
        columns=COLUMNS,
        higher_is_better=higher_is_better,
        weights=np.ones(len(COLUMNS)),
        overall=np.round(by_unit.mean(axis=2), 6),
        units=tuple(f"unit_{number:03d}" for number in range(units)),
        by_unit=by_unit,
    )


def ranker(table: ScoreTable, board: Board) -> RankSamples:
    """The function that ranks samples by the method of a board."""
    found = unit_values(table, method=board.method, ties="min", missing="worst")

    def rank(values: Float64) -> Float64:
        return positions_of(
            values,
            higher_is_better=found.higher_is_better,
            weights=table.weights,
            method=board.method,
            ties="min",
            missing="worst",
        )

    return rank_by_values(found.by_unit, rank, aggregate=board.aggregate)


def measure(board: Board) -> dict[str, float]:
    """Seconds of each step on one board, and the peak memory of this process in bytes."""
    table = make_table(board.teams, board.units)
    assert table.by_unit is not None
    by_unit: Float64 = table.by_unit
    position = np.empty(board.teams)
    better: list[Int8] = []

    def rank() -> None:
        found = rank_teams(table, method=board.method, ties="min", missing="worst", aggregate=board.aggregate)
        position[:] = found.position

    def compare() -> None:
        for column, higher_is_better in enumerate(table.higher_is_better):
            found = compare_teams(
                by_unit[:, column], higher_is_better=bool(higher_is_better), test=board.test, level=0.05
            )
            ex_aequo_positions(found)
            better.append(found.better)

    def draw() -> None:
        bootstrap_ranks(ranker(table, board), position, units=board.units, samples=board.samples, seed=1)

    def correlate() -> None:
        noise = np.random.default_rng(1).normal(0, 0.1 * board.teams, (RANKINGS, board.teams))
        rankings = np.round(position + noise)
        np.stack([kendall_tau(row, rankings) for row in rankings])

    seconds = {work.__name__: timed(work) for work in (rank, compare, draw)}
    return {**seconds, "peak": peak_bytes(), "correlate": timed(correlate)}


def measure_apart(name: str) -> dict[str, float]:
    """``measure`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.ranking", "--measure", name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure_whole(name: str) -> dict[str, float]:
    """Wall clock and processor seconds of ``build_board`` with everything that `rank` writes, and the peak memory."""
    teams, units, settings = WHOLE[name]
    directions = {True: "descending", False: "ascending"}
    columns = tuple(
        RankingColumn(path=f"{path}.case_mean", direction=directions[path not in LOWER_IS_BETTER]) for path in COLUMNS
    )
    plain = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05}
    rules = RankingRules(**{**plain, **settings}, columns=columns)
    table = make_table(teams, units)
    began = process_time()
    wall = timed(lambda: leaderboard_json(build_board(table, rules)))
    return {"wall": wall, "processor": process_time() - began, "peak": peak_bytes()}


def row_of(board: Board, found: dict[str, float]) -> str:
    total = found["rank"] + found["compare"] + found["draw"]
    goal, memory_goal = (f" (goal: at most {limit:g})" if limit else "" for limit in (board.seconds, board.gigabytes))
    return (
        f"| {board.label} | {found['rank']:.2f} | {found['compare']:.2f} | {found['draw']:.2f} | {total:.2f}{goal} "
        f"| {found['peak'] / GIGABYTE:.2f}{memory_goal} | {found['correlate']:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of ranking.")
    parser.add_argument("--boards", nargs="+", default=list(BOARDS), choices=list(BOARDS))
    parser.add_argument("--whole", action="store_true", help="Everything that the command rank computes.")
    parser.add_argument("--measure", choices=[*BOARDS, *WHOLE], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if name := arguments.measure:
        print(json.dumps(measure_whole(name) if name in WHOLE else measure(BOARDS[name])))
        return
    print(machine().removesuffix(" One process, one thread each."), end="\n\n")
    if arguments.whole:
        print("| `rank`, without reading | wall clock, s | processor, s (goal: at most 60) | peak, GB (at most 2) |")
        print("| --- | --- | --- | --- |")
        for name in WHOLE:
            found = measure_apart(name)
            peak = found["peak"] / GIGABYTE
            print(f"| {name} | {found['wall']:.0f} | {found['processor']:.0f} | {peak:.2f} |", flush=True)
        return
    print(
        "| | ranking, s | significance, s | stability, s | all three, s | peak memory, GB | tau between rankings, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.boards:
        print(row_of(BOARDS[name], measure_apart(name)), flush=True)


if __name__ == "__main__":
    main()
