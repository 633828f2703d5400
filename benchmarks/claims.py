"""What tests and intervals claim, simulated: prints the tables of docs/ranking.md and docs/confidence.md.

python -m benchmarks.claims tests         how often equal teams are told apart
python -m benchmarks.claims columns       the same in any of several columns
python -m benchmarks.claims intervals     how often 95 % intervals hold the true value
python -m benchmarks.claims pooled        the same of pooled numbers, with patients of unequal size
python -m benchmarks.claims differences   how often paired differences call equal teams better, and others equivalent
python -m benchmarks.claims verdicts      how often the verdict of a board of equal teams calls one significantly better
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from evaluation.board.board import build_board
from evaluation.board.document import leaderboard_document
from evaluation.challenge.rules import RankingColumn, RankingRules
from nuclei_metrics.aggregation.units import (
    Bootstrap,
    Column,
    Method,
    bca_interval,
    bootstrap,
    percentile_interval,
    standard_errors,
    studentised_interval,
)
from nuclei_metrics.model import CaseTable, Float64, Int64, ScoreTable, Units
from nuclei_metrics.ranking.differences import BETTER, EQUIVALENT, WORSE, across_columns, paired_differences
from nuclei_metrics.ranking.significance import PairwiseTest, Test, compare_teams

LEVEL = 0.05
TEAMS, PATIENTS = (2, 3, 4, 5, 10, 20), (4, 6, 8, 10, 15, 25, 50, 51)
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


def any_difference_in_columns(
    test: Test, *, teams: int, units: int, columns: int, boards: int, seed: int
) -> dict[str, float]:
    """Share of boards of equal teams with a significant difference in any column: each by itself, and all together."""
    random = np.random.default_rng([seed, teams, units, columns])
    each = together = 0
    for _ in range(boards):
        tests: list[PairwiseTest | None] = [
            compare_teams(equal_teams(random, teams, units, None), higher_is_better=True, test=test, level=LEVEL)
            for _ in range(columns)
        ]
        each += any(of is not None and bool(of.better.any()) for of in tests)
        together += any(across_columns(tests))
    return {"each": each / boards, "together": together / boards}


def table_of_columns(boards: int) -> None:
    rows = []
    for teams, units, columns in ((2, 10, 4), (4, 10, 4), (4, 25, 4), (4, 25, 8), (10, 25, 4), (20, 50, 4)):
        found = [
            any_difference_in_columns(test, teams=teams, units=units, columns=columns, boards=boards, seed=1)
            for test in TESTS
        ]
        shares = [percent(of[key]) for of in found for key in ("each", "together")]
        rows.append([str(teams), str(units), str(columns), *shares])
    head = [
        "teams",
        "patients",
        "columns",
        "Nemenyi: each column",
        "all together",
        "Wilcoxon–Holm: each",
        "all together",
    ]
    print_table(head, rows)


POPULATIONS = ("normal", "beta 8:2", "beta 4:1/2", "one in ten fails")
METHODS: tuple[Method, ...] = ("percentile", "bca", "studentised")


def population(name: str, random: np.random.Generator, shape: tuple[int, int]) -> tuple[Float64, float]:
    """Scores of patients, and their true mean: normal 0.8 ± 0.1; Beta(8, 2), 0.8 ± 0.12; Beta(4, 1/2), 0.89 ± 0.13 with
    many near 1; or 0.85 ± 0.05 but one patient in ten at 0.3."""
    if name == "normal":
        return random.normal(0.8, 0.1, shape), 0.8
    if name == "one in ten fails":
        return np.where(random.random(shape) < 0.1, 0.3, 0.85) + random.normal(0, 0.05, shape), 0.795
    a, b = (8.0, 2.0) if name == "beta 8:2" else (4.0, 0.5)
    return random.beta(a, b, shape), a / (a + b)


def coverage(name: str, groups: int, *, sets: int, seed: int, samples: int = 999) -> dict[Method, float]:
    """Share of made data sets whose 95 % interval of the mean over groups holds the true mean, by method."""
    random = np.random.default_rng([seed, groups, POPULATIONS.index(name)])
    values, true = population(name, random, (groups, sets))
    weights: Int64 = random.multinomial(groups, np.full(groups, 1 / groups), samples)
    replicates, estimate = weights @ values / groups, values.mean(axis=0)
    jackknife = (groups * estimate - values) / (groups - 1)
    every = np.concatenate([weights, np.ones((1, groups), np.int64)])
    errors = standard_errors(every, np.concatenate([replicates, estimate[None]]), estimate, jackknife, values)
    ends = {
        "percentile": percentile_interval(replicates, 0.95),
        "bca": bca_interval(replicates, estimate, jackknife, 0.95),
        "studentised": studentised_interval(replicates, estimate, errors[:-1], errors[-1], 0.95),
    }
    return {name: float(((of[:, 0] <= true) & (true <= of[:, 1])).mean()) for name, of in ends.items()}  # type: ignore[misc]


def pooled_coverage(groups: int, *, sets: int, seed: int, samples: int = 999, mean: int = 100) -> dict[Method, float]:
    """Share of made data sets whose 95 % interval of the pooled recall holds the true 0.8, by method.

    Patients have unequal numbers of nuclei, lognormal around ``mean`` (sigma 0.7); a share is found: Beta(8, 2).
    """
    random = np.random.default_rng([seed, groups])
    held = dict.fromkeys(METHODS, 0)

    def recall(units: Units) -> Float64:
        return np.asarray(units.sum("found") / units.sum("nuclei"))[:, None]

    for draw in range(sets):
        nuclei = np.maximum(1, np.rint(mean * random.lognormal(0, 0.7, groups))).astype(np.int64)
        found = random.binomial(nuclei, random.beta(8, 2, groups))
        sums = {"cases": np.ones(groups, np.int64), "found": found, "nuclei": nuclei}
        table = CaseTable(sums, {}, np.ones(groups), None, None)  # type: ignore[arg-type]
        for method in METHODS:
            rules = Bootstrap(samples=samples, seed=draw, level=0.95, method=method, stages="groups")
            (interval,) = bootstrap(table, np.arange(groups), [Column(0, "pooled", bounds=(0, 1))], recall, rules)
            held[method] += interval.low is not None and interval.low <= 0.8 <= (interval.high or 0)
    return {method: number / sets for method, number in held.items()}


def table_of_pooled_intervals(sets: int) -> None:
    rows = []
    for groups, mean in ((5, 3), (5, 10), *((groups, 100) for groups in (5, 8, 10, 15, 25, 50, 100))):
        found = pooled_coverage(groups, sets=sets, seed=1, mean=mean)
        rows.append([str(groups), str(mean), *(percent(found[method]) for method in METHODS)])
        print(rows[-1], file=sys.stderr, flush=True)  # progress
    print_table(["patients of unequal size", "nuclei of each", *METHODS], rows)


def table_of_intervals(sets: int) -> None:
    rows = []
    for name in POPULATIONS:
        for groups in (5, 8, 10, 15, 20, 25, 50):
            found = coverage(name, groups, sets=sets, seed=1)
            rows.append([name, str(groups), *(percent(found[method]) for method in METHODS)])
    print_table(["patients' scores", "patients", *METHODS], rows)


def wrong_verdicts(*, teams: int, units: int, outliers: bool, boards: int, seed: int) -> tuple[float, float]:
    """Share of boards of equal teams on which some team is called better than another one; and of boards on which the
    first team is better than all others by exactly the margin, on which some pair with it is called equivalent.

    outliers  one patient in ten fails, for each team by itself: a value that is 0.5 lower
    """
    random = np.random.default_rng([seed, teams, units, outliers])
    better = equivalent = 0
    margin = 0.05
    for _ in range(boards):
        values = equal_teams(random, teams, units, None)
        if outliers:
            values -= 0.5 * (random.random(values.shape) < 0.1)
        equal = paired_differences(values, higher_is_better=True, level=LEVEL)
        better += bool((equal.verdict == BETTER).any())
        values[0] += margin
        apart = paired_differences(values, higher_is_better=True, level=LEVEL, margin=margin)
        equivalent += bool((apart.verdict[0, 1:] == EQUIVALENT).any())
    return better / boards, equivalent / boards


def table_of_differences(boards: int) -> None:
    rows = []
    for teams in (2, 4, 10):
        for units in (5, 8, 25, 50):
            found = [
                wrong_verdicts(teams=teams, units=units, outliers=of, boards=boards, seed=1) for of in (False, True)
            ]
            rows.append([str(teams), str(units), *(percent(share) for of in found for share in of)])
    head = ["equal teams called better", "teams a margin apart called equivalent"]
    print_table(["teams", "patients", *head, *(f"one in ten fails: {of}" for of in head)], rows)


BOARDS = ("all alike", "ties", "unequal sizes", "one in ten fails", "gaps")


def board_of_equals(name: str, random: np.random.Generator, teams: int, units: int, columns: int) -> Float64:
    """Values of equally good teams, (T, K, N): as ``equal_teams``, and

    ties              rounded to tenths
    unequal sizes     patients have lognormal numbers of nuclei (sigma 1.2): what is random in a small one is large
    one in ten fails  one patient in ten has a value that is 0.5 lower, for each team by itself
    gaps              one value in ten is missing
    """
    values = 0.8 + random.normal(0, 0.12, (1, columns, units))
    noise = random.normal(0, 0.05, (teams, columns, units))
    if name == "unequal sizes":
        noise /= np.sqrt(random.lognormal(0, 1.2, units))
    values = values + noise
    if name == "ties":
        values = np.round(values, 1)
    if name == "one in ten fails":
        values -= 0.5 * (random.random(values.shape) < 0.1)
    if name == "gaps":
        values[random.random(values.shape) < 0.1] = np.nan
    return values


def board_document(values: Float64) -> dict[str, Any]:
    """The leaderboard of values (T, K, N), with its verdict."""
    teams, columns, units = values.shape
    paths = tuple(f"column.c{index}" for index in range(columns))
    table = ScoreTable(
        tuple(f"T{index}" for index in range(teams)), paths, np.ones(columns, np.bool_), np.ones(columns),
        np.round(np.nanmean(values, axis=2), 6), tuple(f"P{index:02}" for index in range(units)), values,
    )  # fmt: skip
    ranked = tuple(RankingColumn(path=path, direction="descending") for path in paths)
    rules = RankingRules(columns=ranked, method="sum_of_ranks", ties="min", significance_level=LEVEL, samples=100)
    return leaderboard_document(build_board(table, rules))


def false_claims(name: str, *, teams: int, units: int, columns: int, boards: int, seed: int) -> float:
    """Share of boards of equal teams whose verdict calls a team significantly better than another one.

    The verdict compares the first team with each other one, by the differences of all columns at level / columns.
    """
    random = np.random.default_rng([seed, teams, units, columns, BOARDS.index(name)])
    claims = 0
    for _ in range(boards):
        values = board_of_equals(name, random, teams, units, columns)
        ranks = rankdata(-np.nanmean(values, axis=2), method="min", axis=0).sum(axis=1)
        found = [
            paired_differences(
                values[:, index], higher_is_better=True, level=LEVEL / columns, rows=[int(ranks.argmin())]
            )
            for index in range(columns)
        ]
        claims += any(bool(np.isin(of.verdict, (BETTER, WORSE)).any()) for of in found)
    return claims / boards


def table_of_verdicts(boards: int) -> None:
    rows = []
    for teams in (2, 4, 10):
        for columns in (1, 4):
            for units in (5, 10, 25, 50):
                found = [
                    false_claims(name, teams=teams, units=units, columns=columns, boards=boards, seed=1)
                    for name in BOARDS
                ]
                rows.append([str(teams), str(columns), str(units), *map(percent, found)])
                print(rows[-1], file=sys.stderr, flush=True)  # progress
    print_table(["teams", "columns", "patients", *BOARDS], rows)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def table_of_tests(boards: int, numbers: Sequence[int] = TEAMS, patients: Sequence[int] = PATIENTS) -> None:
    rows = []
    for teams in numbers:
        for units in patients:
            shares = [
                percent(any_difference(test, teams=teams, units=units, levels=levels, boards=boards, seed=1))
                for test in TESTS
                for levels in (None, 2)
            ]
            rows.append([str(teams), str(units), *shares])
            print(rows[-1], file=sys.stderr, flush=True)  # progress
    print_table(["teams", "patients", "Nemenyi", "with ties", "Wilcoxon–Holm", "with ties"], rows)


TABLES = {
    "tests": table_of_tests,
    "columns": table_of_columns,
    "intervals": table_of_intervals,
    "pooled": table_of_pooled_intervals,
    "differences": table_of_differences,
    "verdicts": table_of_verdicts,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=tuple(TABLES))
    parser.add_argument("--boards", type=int, default=2000, help="for each row")
    parser.add_argument("--teams", type=int, nargs="+", default=TEAMS, help="of the table of tests")
    parser.add_argument("--patients", type=int, nargs="+", default=PATIENTS, help="of the same")
    arguments = parser.parse_args()
    if arguments.table == "tests":
        table_of_tests(arguments.boards, arguments.teams, arguments.patients)
        return
    TABLES[arguments.table](arguments.boards)


if __name__ == "__main__":
    main()
