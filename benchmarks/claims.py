"""What tests and intervals claim, simulated: prints the tables of docs/ranking.md and docs/confidence.md.

python -m benchmarks.claims tests         how often equal teams are called significantly better, by each test
python -m benchmarks.claims power         how often the better team is found
python -m benchmarks.claims intervals     how often 95 % intervals hold the true value
python -m benchmarks.claims pooled        the same of pooled numbers, with patients of unequal size
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from nuclei_metrics.aggregation.units import (
    Bootstrap,
    Column,
    Method,
    bootstrap,
    percentile_interval,
    standard_errors,
    studentised_interval,
)
from nuclei_metrics.model import CaseTable, Float64, Int64, Units
from nuclei_metrics.ranking.declared_test import ComparedTeams, compare_in_columns
from nuclei_metrics.ranking.significance import Test

LEVEL = 0.05
TEAMS, PATIENTS = (2, 5, 10), (6, 10, 25, 50)
TESTS: tuple[Test, ...] = ("sign_flips", "friedman_nemenyi", "wilcoxon_holm")
BOARDS = ("all alike", "ties", "unequal sizes", "gaps", "each fails in one of ten", "one fails in one of ten")
FAILURE, SKILL = 0.5, 0.05  # what a failure costs, and how much teams differ in a patient


def board_of_equals(name: str, random: np.random.Generator, teams: int, units: int, columns: int) -> Float64:
    """Values of teams with the same true mean, (T, K, N): patients differ by 0.12, teams inside a patient by 0.05.

    ties                      rounded to twentieths
    unequal sizes             patients have lognormal numbers of nuclei (sigma 1.2): small ones are noisier
    gaps                      one value in ten is missing
    each fails in one of ten  a value that is 0.5 lower in one patient of ten, for each team by itself
    one fails in one of ten   only the first team does; it is better in the others, so that the means are equal
    """
    noise = random.normal(0, SKILL, (teams, columns, units))
    if name == "unequal sizes":
        noise /= np.sqrt(random.lognormal(0, 1.2, units))
    values = 0.8 + random.normal(0, 0.12, (1, columns, units)) + noise
    if name == "ties":
        values = np.round(values * 20) / 20
    if name == "gaps":
        values[random.random(values.shape) < 0.1] = np.nan
    if name.endswith("fails in one of ten"):
        failing = slice(None) if name.startswith("each") else slice(1)
        failed = random.random((teams, 1, units))[failing] < 0.1
        values[failing] += FAILURE * (0.1 - failed)
    return values


def compare(test: Test, values: Float64) -> ComparedTeams:
    columns = values.shape[1]
    return compare_in_columns(
        values, higher_is_better=np.ones(columns, np.bool_), weights=np.ones(columns), test=test, level=LEVEL
    )


def false_claims(
    test: Test, name: str, *, teams: int, units: int, columns: int, boards: int, seed: int
) -> tuple[float, float]:
    """Share of boards of equal teams on which a team is called better in any column, and over the columns together."""
    random = np.random.default_rng([seed, teams, units, columns, BOARDS.index(name)])
    in_columns = together = 0
    for _ in range(boards):
        found = compare(test, board_of_equals(name, random, teams, units, columns))
        in_columns += any(bool(column.better.any()) for column in found.columns)
        together += found.together is not None and bool(found.together.better.any())
    return in_columns / boards, together / boards


def true_claims(test: Test, *, teams: int, units: int, columns: int, boards: int, seed: int) -> tuple[float, float]:
    """Share of the other teams that the first one is found to be better than, in columns and over them together.

    It is better in every column by the standard deviation of the differences.
    """
    random = np.random.default_rng([seed, teams, units, columns])
    in_columns = together = 0.0
    for _ in range(boards):
        values = board_of_equals("all alike", random, teams, units, columns)
        values[0] += SKILL * np.sqrt(2)
        found = compare(test, values)
        in_columns += float(np.mean([column.better[0, 1:] == 1 for column in found.columns]))
        together += 0 if found.together is None else float((found.together.better[0, 1:] == 1).mean())
    return in_columns / boards, together / boards


POPULATIONS = ("normal", "beta 8:2", "beta 4:1/2", "one in ten fails")
METHODS: tuple[Method, ...] = ("percentile", "by_groups")


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
        "by_groups": studentised_interval(replicates, estimate, errors[:-1], errors[-1], 0.95),
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


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def table_of_tests(boards: int) -> None:
    rows = []
    for test in TESTS:
        for teams in TEAMS:
            for units in PATIENTS:
                row = [test, str(teams), str(units)]
                for name in BOARDS:
                    found = false_claims(test, name, teams=teams, units=units, columns=3, boards=boards, seed=1)
                    row.append(" / ".join(map(percent, found if test == "sign_flips" else found[:1])))
                rows.append(row)
                print(row, file=sys.stderr, flush=True)  # progress
    print_table(["test", "teams", "patients", *BOARDS], rows)


def table_of_power(boards: int) -> None:
    rows = []
    for teams in TEAMS:
        for units in PATIENTS:
            found = [true_claims(test, teams=teams, units=units, columns=3, boards=boards, seed=1) for test in TESTS]
            rows.append([str(teams), str(units), percent(found[0][1]), *(percent(each[0]) for each in found)])
    print_table(["teams", "patients", "sign_flips, together", *TESTS], rows)


TABLES = {
    "tests": table_of_tests,
    "power": table_of_power,
    "intervals": table_of_intervals,
    "pooled": table_of_pooled_intervals,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=tuple(TABLES))
    parser.add_argument("--boards", type=int, default=2000, help="for each row")
    arguments = parser.parse_args()
    TABLES[arguments.table](arguments.boards)


if __name__ == "__main__":
    main()
