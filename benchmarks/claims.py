"""What tests and intervals claim, simulated: prints the tables of docs/ranking.md and docs/confidence.md.

    python -m benchmarks.claims tests         how often equal teams are told apart
    python -m benchmarks.claims columns       the same in any of several columns
    python -m benchmarks.claims intervals     how often 95 % intervals hold the true value
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from evaluation.model import Float64
from evaluation.ranking.significance import Test, compare_teams

LEVEL = 0.05
TESTS: tuple[Test, ...] = ("friedman_nemenyi", "wilcoxon_holm")


def equal_teams(random: np.random.Generator, teams: int, units: int, levels: int | None) -> Float64:
    """Values of teams that are equally good, (T, N): units differ by 0.12, teams inside a unit by 0.05.

    levels  then values are rounded, so that teams are tied: about so many values occur inside a unit
    """
    noise = random.normal(0, 0.05, (teams, units))
    if levels is not None:
        noise = np.round(noise / 0.2 * levels) * 0.2 / levels
    return 0.8 + random.normal(0, 0.12, units) + noise


def any_difference(test: Test, *, teams: int, units: int, levels: int | None, boards: int, seed: int) -> float:
    """Share of boards of equal teams in which some difference is called significant."""
    random = np.random.default_rng([seed, teams, units, levels or 0])
    found = (
        compare_teams(equal_teams(random, teams, units, levels), higher_is_better=True, test=test, level=LEVEL)
        for _ in range(boards)
    )
    return sum(bool(of.better.any()) for of in found) / boards


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def table_of_tests(boards: int) -> None:
    rows = []
    for teams in (2, 3, 4, 5, 10, 20):
        for units in (4, 6, 8, 10, 15, 25, 50, 51, 100):
            shares = [
                percent(any_difference(test, teams=teams, units=units, levels=levels, boards=boards, seed=1))
                for test in TESTS
                for levels in (None, 2)
            ]
            rows.append([str(teams), str(units), *shares])
    print_table(["teams", "patients", "Nemenyi", "with ties", "Wilcoxon–Holm", "with ties"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("tests",))
    parser.add_argument("--boards", type=int, default=2000, help="for each row")
    arguments = parser.parse_args()
    {"tests": table_of_tests}[arguments.table](arguments.boards)


if __name__ == "__main__":
    main()
