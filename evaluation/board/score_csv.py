"""A table of scores as CSV: a row for each team, case and metric. For challenges that were scored by another program.

``team,case,group,metric,value``, in any order of rows and columns; ``group`` may be absent, then every case is a
group. challengeR's ``task,case,algorithm,value`` is the same with a task for a metric. A table with a column for
each team, metric or case becomes such a one (``_long_table``). An empty value is undefined: it is excluded from
means. A row that is not there is another matter: a team that lacks a row which other teams have has no value in
that column, since a mean over the other cases would reward leaving one out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np

from evaluation.board.team_scores import TeamScores, refuse_many_teams
from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingColumn, RankingRules
from evaluation.files.decoding.csv import Table, numbers_of, read_table
from evaluation.files.results.documents import LARGEST_SCORE
from evaluation.findings import (
    FAULTS_NAMED,
    Finding,
    counted,
    did_you_mean,
    fault,
    first_named_of,
    listed,
    quote,
    with_rest,
)
from evaluation.findings.errors import InputFault, WrongUsage, faults_as, refused
from evaluation.scoring.score import better_by_name, worst_by_name
from nuclei_metrics.model import Bool, Float64, Gaps, Int64, MissingValues, ScoreTable
from nuclei_metrics.model.annotations import STRATUM_MEAN
from nuclei_metrics.ranking.methods import Settled, needs_units, settle_gaps
from nuclei_metrics.ranking.stability import sample_means, sample_weights

BYTES_LIMIT = 2_000_000_000
ROWS_LIMIT = 20_000_000
VALUES_LIMIT = 100_000_000  # teams x columns x cases
WEIGHTS_LIMIT = 50_000_000  # samples x cases
NAME_CHARACTERS = 200
MEANS_OVER_UNITS = ("group_mean", "case_mean")
COLUMN_NAMES = {  # of columns, of which the first is ours; challengeR has algorithm and task
    "team": ("team", "algorithm", "method", "model"),
    "case": ("case", "image", "image_id", "image_name", "case_id"),
    "metric": ("metric", "task", "measure"),
    "value": ("value", "score"),
}
ONE_METRIC = "score"  # the metric of a table that names none
UNNAMED = re.compile(r"(unnamed: ?\d+)?", re.IGNORECASE)  # columns that pandas and R add

UnitKind = Literal["group", "case"]


@dataclass(frozen=True, slots=True, eq=False)
class ScoresInFile:
    """The table of a file; ``unit_name`` is the plural name of its units.

    shown  entries that are not ranked, and not in the table
    names  of all entries of the file
    """

    table: ScoreTable
    unit_name: str
    findings: tuple[Finding, ...] = ()
    shown: tuple[TeamScores, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _ScoresOfCases:
    """The scores of a file ``where``, by names in ascending order.

    values         float64 (T, K, C), by team, column of the ranking and case; NaN: an empty cell, or no row
    has_row        bool (T, C), whether the file has a row of a team and a case
    group_of_case  int64 (C,)
    """

    where: str
    teams: tuple[str, ...]
    cases: tuple[str, ...]
    groups: tuple[str, ...]
    group_of_case: Int64
    values: Float64
    has_row: Bool


def read_scores(path: Path, rules: RankingRules, *, unit: UnitKind, challenge: Challenge | None = None) -> ScoresInFile:
    """Read the scores of a CSV file in the columns of a ranking.

    Entries that the rules do not rank are shown, without a value in a column if they lack values of other entries.
    Columns that are no means over the units are computed in the samples of the ranking, too, if it goes by the columns.
    """
    columns, unranked = rules.columns, rules.unranked
    draw = None if needs_units(rules.method) else (rules.samples, rules.seed)
    every, findings = read_rows(path, columns, challenge)
    scores = table_of_rows(without_teams(every, unranked), columns, unit=unit, missing=rules.missing, draw=draw)
    shown: list[TeamScores] = []
    if set(unranked) & set(every.teams):
        table = table_of_rows(every, columns, unit=unit, missing="unranked").table
        assert table.by_unit is not None
        units = [table.units.index(name) for name in scores.table.units]
        shown = [
            TeamScores(name, table.overall[team], table.by_unit[team][:, units])
            for team, name in enumerate(table.teams)
            if name in unranked
        ]
    return replace(scores, findings=(*findings, *scores.findings), shown=tuple(shown), names=every.teams)


def without_teams(scores: _ScoresOfCases, teams: Collection[str]) -> _ScoresOfCases:
    """Omit the scores of some teams, and cases and groups that only these have.

    The values are copied in the order of a table without these teams, on which the last digit of sums depends. Raises
    WrongUsage ("no-teams") if no team remains.
    """
    is_left = np.array([name not in teams for name in scores.teams], np.bool_)
    if is_left.all():
        return scores
    if not is_left.any():
        raise WrongUsage(fault("no-teams", scores.where, wording="in-scores"))
    has_case = np.asarray(scores.has_row[is_left].any(axis=0))
    groups, group_of_case = np.unique(scores.group_of_case[has_case], return_inverse=True)
    return _ScoresOfCases(
        scores.where,
        teams=tuple(compress(scores.teams, is_left)),
        cases=tuple(compress(scores.cases, has_case)),
        groups=tuple(scores.groups[group] for group in groups),
        group_of_case=group_of_case,
        values=np.ascontiguousarray(scores.values[is_left][..., has_case]),
        has_row=scores.has_row[is_left][:, has_case],
    )


def read_rows(
    path: Path, columns: Sequence[RankingColumn], challenge: Challenge | None
) -> tuple[_ScoresOfCases, list[Finding]]:
    """Read the rows of a CSV file that belong to the columns of a ranking, and warn about other rows.

    columns    a metric in the file is the path of a column, or that path without ``.group_mean`` or ``.case_mean``
    challenge  if given, cases and groups must match cases.csv

    Raises WrongUsage with all faults: no-submission, no-teams, invalid-csv, missing-column, too-large,
    invalid-team, unknown-case, wrong-group, invalid-score, duplicate-row, missing-metric.
    """
    try:
        return rows_of_columns(_open_scores(path), columns, challenge)
    except InputFault as error:
        hint = "Rank fewer teams at a time."  # the limits of challenge.toml do not hold for this file
        raise WrongUsage(
            *(replace(one, fix=hint) if one.code == "too-large" else one for one in error.findings)
        ) from None


def table_of_rows(
    scores: _ScoresOfCases,
    columns: Sequence[RankingColumn],
    *,
    unit: UnitKind,
    missing: MissingValues,
    mean: UnitKind | None = None,
    draw: tuple[int, int] | None = None,
) -> ScoresInFile:
    """Create the table that is ranked from the scores of cases.

    columns  the end of a path defines the column: the mean over cases, or over groups of the means of their cases.
             A column that ends otherwise is the mean over ``unit``
    unit     the unit of comparisons and samples
    missing  treatment of teams without values of cases: ``settle_gaps``. No row is the same as an empty cell
    mean     if given, all columns are means over these units, whatever the ends of their paths
    draw     number of samples and seed: then columns that are no means over the units are computed in samples, too
    """
    higher = np.array([column.direction == "descending" for column in columns], np.bool_)
    worst = worst_by_name(column.path for column in columns)
    ends = np.array([worst.get(column.path, np.nan) for column in columns])
    settled = settle_gaps(scores.values, ends, missing)
    values, groups = settled.values, (scores.group_of_case, len(scores.groups))
    by_group = _means_of_groups(values, *groups)
    overall = {"case": _mean_of_known(values), "group": _mean_of_known(by_group)}
    means = [mean or aggregation_of(column.path, unit) for column in columns]
    table = ScoreTable(
        teams=scores.teams,
        columns=tuple(column.path for column in columns),
        higher_is_better=higher,
        weights=np.array([column.weight for column in columns], np.float64),
        overall=np.stack([np.round(overall[kind][:, k], 6) + 0.0 for k, kind in enumerate(means)], axis=1),
        units=scores.groups if unit == "group" else scores.cases,
        by_unit=np.round(by_group if unit == "group" else values, 6),
        samples=None if draw is None else _in_samples(values, scores, unit, means, *draw),
        seed=1 if draw is None else draw[1],
        gaps=_gaps_of(settled, *(groups if unit == "group" else (np.arange(len(scores.cases)), len(scores.cases)))),
    )
    name = "cases" if unit == "case" or len(scores.groups) == len(scores.cases) else "patients"
    return ScoresInFile(table, name, tuple(incomplete(settled, scores, columns, missing, ends)))


def metrics_in(path: Path) -> list[str]:
    """List the metrics that a file of scores names, for messages. Raises WrongUsage."""
    with faults_as(WrongUsage):
        table, needed, _ = _long_table(_open_scores(path))
        return sorted(table.categories(needed["metric"])[0])


def _open_scores(path: Path) -> Table:
    """Read the table of a CSV file. Raises WrongUsage if it cannot be opened, InputFault for the fault."""
    try:
        with path.open("rb") as stream:
            where = quote(path.name, 120)
            return read_table(stream, where=where, bytes_limit=BYTES_LIMIT, rows_limit=ROWS_LIMIT)
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or "not readable").lower()
        raise WrongUsage(fault("no-submission", quote(path, 200), wording="no-scores", got=why)) from None


def aggregation_of(path: str, unit: UnitKind) -> UnitKind:
    """Return the unit of the mean of a column, from the end of its path."""
    ending = path.rpartition(".")[2]
    return {"group_mean": "group", "case_mean": "case"}.get(ending, unit)  # type: ignore[return-value]


# --- rows -------------------------------------------------------------------------------------------------------------


def rows_of_columns(
    table: Table, columns: Sequence[RankingColumn], challenge: Challenge | None
) -> tuple[_ScoresOfCases, list[Finding]]:
    """Find the rows that belong to columns, and warn about other rows. Raises InputFault with all faults."""
    table, needed, findings = _long_table(table)
    metrics, metric_of_row = table.categories(needed["metric"])
    column_of_metric = _match_columns(metrics, columns, table.where)
    column_of_row = column_of_metric[metric_of_row] if len(table) else np.empty(0, np.int64)
    unused = [metric for metric, column in zip(metrics, column_of_metric.tolist(), strict=True) if column < 0]
    findings += [fault("unused-metric", table.where, metric=metric) for metric in unused[:FAULTS_NAMED]]
    findings += _unknown_directions(columns)
    table, column_of_row = table.take(column_of_row >= 0), column_of_row[column_of_row >= 0]
    if not len(table):
        raise refused("no-teams", table.where, wording="in-scores")

    teams, team_of_row = table.categories(needed["team"])
    refuse_many_teams(len(teams), table.where)
    cases, case_of_row = table.categories(needed["case"])
    group_column = table.find(["group"])
    groups, group_of_row = table.categories(group_column) if group_column is not None else (list(cases), case_of_row)
    value, faults = _read_values(table, needed["value"])
    faults += _beyond_worst(table, needed["value"], columns, column_of_row, value)
    faults += _name_faults(table, "team", teams, team_of_row) + _name_faults(table, "case", cases, case_of_row)
    of_case, group_faults = _groups_of_cases(table, cases, case_of_row, groups, group_of_row)
    faults += group_faults
    faults += _challenge_faults(table, challenge, cases, case_of_row, of_case) if challenge else []
    of_teams, of_cases, limit = len(teams), len(cases), VALUES_LIMIT
    if of_teams * len(columns) * of_cases > limit:
        where = table.where
        faults.append(fault("too-large", where, wording="too-many-scores", teams=of_teams, cases=of_cases, limit=limit))
    else:
        faults += duplicates(table, columns, [team_of_row, column_of_row, case_of_row], [teams, cases])
    if faults:
        raise InputFault(*faults)

    (team_names, place_of_team), (case_names, place_of_case), (group_names, place_of_group) = map(
        _sorted_names, (teams, cases, of_case)
    )
    values = np.full((len(teams), len(columns), len(cases)), np.nan)
    has_row = np.zeros((len(teams), len(cases)), np.bool_)
    team, case = place_of_team[team_of_row], place_of_case[case_of_row]
    values[team, column_of_row, case], has_row[team, case] = value, True
    group_of_case = place_of_group[np.argsort(place_of_case)]
    return _ScoresOfCases(table.where, team_names, case_names, group_names, group_of_case, values, has_row), findings


def _unknown_directions(columns: Sequence[RankingColumn]) -> list[Finding]:
    """Warn of columns that name no metric of this program: a wrong direction would put the worst team first."""
    known = better_by_name([column.path for column in columns])
    return [
        fault("unknown-direction", "ranking", column=column.path, direction=column.direction, opposite=opposite)
        for column in columns
        if column.path not in known
        for opposite in {"ascending", "descending"} - {column.direction}
    ]


def _sorted_names(names: Sequence[str]) -> tuple[tuple[str, ...], Int64]:
    """Sort the different names, and return the index of each name there.

    >>> _sorted_names(["b", "a", "b"])
    (('a', 'b'), array([1, 0, 1]))
    """
    ordered = sorted(set(names))
    index_of = {name: index for index, name in enumerate(ordered)}
    return tuple(ordered), np.array([index_of[name] for name in names], np.int64)


def _in_rows(rows: Int64, make: Callable[[int], Finding]) -> list[Finding]:
    """Create the faults of these rows; the first rows are named, the rest is counted."""
    return with_rest([make(row) for row in rows[:FAULTS_NAMED].tolist()], len(rows))


def _long_table(table: Table) -> tuple[Table, dict[str, int], list[Finding]]:
    """Turn a table into one with a row for each value; return where its four columns are, and a warning if it was wide.

    A table is wide if it lacks the column of values, and the column of teams, cases or metrics. Then each other
    column with numbers is one of these (a team if the table has only cases). Values without a metric get the name of
    their column. Raises InputFault ("missing-column").
    """
    columns = {name: column for name, names in COLUMN_NAMES.items() if (column := table.find(names)) is not None}
    lacking = [name for name in COLUMN_NAMES if name not in columns]
    if not lacking:
        return table, columns, []
    group = table.find(["group"])
    known = {*columns.values(), *([] if group is None else [group])}
    others = [column for column, name in enumerate(table.names) if column not in known and not UNNAMED.fullmatch(name)]
    wide: list[int] = []
    if lacking == ["metric"] and not others:
        wide = [columns["value"]]
    elif "value" in lacking and (len(lacking) == 2 or lacking == ["team", "metric", "value"]):
        wide = [column for column in others if not np.isnan(numbers_of(table.cells(column))).all()]
    if not wide:
        raise refused("missing-column", table.where, wording="of-scores", lacking=lacking)
    if len(wide) * len(table) > ROWS_LIMIT:
        raise refused("too-large", table.where, wording="too-many-rows", limit=ROWS_LIMIT)
    made = _melted(
        table, sorted(known - {*wide}), wide, lacking[0], {"metric": ONE_METRIC} if len(lacking) == 3 else {}
    )
    names = listed((table.names[column] for column in wide), 5, last="and")
    findings = [] if lacking[0] == "metric" else [fault("wide-table", table.where, columns=names, what=lacking[0])]
    return made, {name: made.find(COLUMN_NAMES[name]) or 0 for name in COLUMN_NAMES}, findings


def _melted(
    table: Table, constant_columns: Sequence[int], wide: Sequence[int], name: str, constant: Mapping[str, str]
) -> Table:
    """Create a row of each cell of some columns.

    name      of the column in which their names are then; their cells are in the column "value"
    constant  further columns, each with the same text in all rows
    """
    texts = [*(table.names[column].encode() for column in wide), *(text.encode() for text in constant.values())]
    stop = len(table.data) + np.cumsum([len(text) for text in texts])
    start = stop - [len(text) for text in texts]
    rows = len(table) * len(wide)

    def spread(cells: Int64, added: Int64) -> Int64:
        of_names = np.tile(added[: len(wide)], len(table))
        same = [np.full(rows, edge) for edge in added[len(wide) :]]
        return np.column_stack(
            [np.repeat(cells[:, constant_columns], len(wide), axis=0), of_names, cells[:, wide].ravel(), *same]
        )

    return Table(
        table.where,
        table.data + b"".join(texts),
        (*(table.names[column] for column in constant_columns), name, "value", *constant),
        spread(table.start, start),
        spread(table.stop, stop),
        np.repeat(table.line, len(wide)),
    )


def _match_columns(metrics: Sequence[str], columns: Sequence[RankingColumn], where: str) -> Int64:
    """Find the column of each metric of a file, int64, -1 for none. Raises InputFault for columns without a metric."""
    index_of: dict[str, int] = {}
    for index, column in enumerate(columns):
        metric, _, ending = column.path.rpartition(".")
        if ending in ("pooled", STRATUM_MEAN):
            expected = "a column that is a mean over cases or patients; nothing can be pooled from scores"
            raise refused("invalid-rule", f"column {quote(column.path, 120)}", got=quote(ending), expected=expected)
        if ending in MEANS_OVER_UNITS:
            index_of.setdefault(metric, index)
        index_of[column.path] = index
    matched = np.array([index_of.get(metric, -1) for metric in metrics], np.int64)
    lacking = [
        fault("missing-metric", where, name=column.path, known=metrics)
        for index, column in enumerate(columns)
        if index not in set(matched.tolist())
    ]
    if lacking:
        raise InputFault(*lacking)
    return matched


def _read_values(table: Table, column: int) -> tuple[Float64, list[Finding]]:
    """Read the values, NaN for empty cells, and list faults of other cells."""
    cells = table.cells(column)
    value = numbers_of(cells)
    is_empty = np.array([not cell.strip() for cell in cells], np.bool_)
    wrong = np.flatnonzero(~(np.abs(value) <= LARGEST_SCORE) & ~is_empty)
    value[is_empty] = np.nan
    return value, _in_rows(wrong, lambda row: fault("invalid-score", table.place(row), value=table.text(row, column)))


def _beyond_worst(
    table: Table, column: int, columns: Sequence[RankingColumn], column_of_row: Int64, value: Float64
) -> list[Finding]:
    """Find scores worse than the worst possible value of their metric."""
    worst = worst_by_name(ranking_column.path for ranking_column in columns)
    ends = np.array([worst.get(ranking_column.path, -np.inf) for ranking_column in columns])

    def too_bad(row: int) -> Finding:
        path = columns[column_of_row[row]].path
        expected = f"at least {worst[path]:g}, the worst value of {quote(path, 120)}"
        return fault("invalid-score", table.place(row), value=table.text(row, column), expected=expected)

    return _in_rows(np.flatnonzero(value < ends[column_of_row]), too_bad)


def _name_faults(table: Table, column: str, names: Sequence[str], name_of_row: Int64) -> list[Finding]:
    """Find names that are empty, too long or not printable, each with the first rows that have them."""
    code = "invalid-team" if column == "team" else "unknown-case"
    wrong = [index for index, name in enumerate(names) if not (0 < len(name) <= NAME_CHARACTERS and name.isprintable())]
    faults = []
    for index in wrong[:FAULTS_NAMED]:
        rows = np.flatnonzero(name_of_row == index)
        places = [table.place(row) for row in rows[:3].tolist()]
        name = names[index]
        faults.append(fault(code, *places, wording="unprintable", total=len(rows), name=name, limit=NAME_CHARACTERS))
    return with_rest(faults, int(np.isin(name_of_row, wrong).sum()))


def _groups_of_cases(
    table: Table, cases: Sequence[str], case_of_row: Int64, groups: Sequence[str], group_of_row: Int64
) -> tuple[list[str], list[Finding]]:
    """Find the group of each case (the case itself without a group), and cases in two groups."""
    pairs, first = np.unique(case_of_row * max(len(groups), 1) + group_of_row, return_index=True)
    of_case: dict[int, int] = {}
    faults = []
    for pair, row in sorted(zip(pairs.tolist(), first.tolist(), strict=True), key=lambda item: item[1]):
        case, group = divmod(pair, len(groups))
        if of_case.setdefault(case, group) != group:
            name, own, before = cases[case], groups[group], groups[of_case[case]]
            place = table.place(row)
            faults.append(fault("wrong-group", place, wording="two-groups", case=name, group=own, before=before))
    names = [groups[of_case[case]] or cases[case] for case in range(len(cases))]
    return names, first_named_of(faults)


def _challenge_faults(
    table: Table, challenge: Challenge, cases: Sequence[str], case_of_row: Int64, groups: Sequence[str]
) -> list[Finding]:
    """Find cases that cases.csv does not list, or puts into another group."""
    known = {case.name: case.group for case in challenge.cases}
    has_groups, names = table.find(["group"]) is not None, list(known)
    wrong = [
        index
        for index, (name, group) in enumerate(zip(cases, groups, strict=True))
        if name not in known or (has_groups and known[name] != group)
    ]
    first_row = np.unique(case_of_row, return_index=True)[1]

    def fault_of(index: int) -> Finding:
        name, at = cases[index], table.place(int(first_row[index]))
        if name in known:
            return fault("wrong-group", at, wording="other", group=groups[index], own_group=known[name])
        near = did_you_mean(name, names)
        return fault("unknown-case", at, wording="case-in-scores", fix=near, name=name, known=names, what="")

    return with_rest([fault_of(index) for index in wrong[:FAULTS_NAMED]], len(wrong))


def duplicates(
    table: Table, columns: Sequence[RankingColumn], of_row: Sequence[Int64], names: Sequence[Sequence[str]]
) -> list[Finding]:
    """Find rows with the team, the column and the case of a row before them."""
    team, column, case = of_row
    teams, cases = names
    key = (team * len(columns) + column) * len(cases) + case
    is_again = np.ones(len(key), np.bool_)
    is_again[np.unique(key, return_index=True)[1]] = False

    def again(row: int) -> Finding:
        path, of_team, of_case = columns[column[row]].path, teams[team[row]], cases[case[row]]
        return fault("duplicate-row", table.place(row), wording="score", path=path, team=of_team, case=of_case)

    return _in_rows(np.flatnonzero(is_again), again)


# --- values -----------------------------------------------------------------------------------------------------------


def _means_of_groups(values: Float64, group_of_case: Int64, groups: int) -> Float64:
    """Average over the cases of each group, NaN omitted, (..., C) -> (..., G); NaN where nothing is left."""
    by_group = np.full((*values.shape[:-1], groups), np.nan)
    for group in range(groups):
        by_group[..., group] = _mean_of_known(values[..., group_of_case == group])
    return by_group


def _in_samples(
    values: Float64, scores: _ScoresOfCases, unit: UnitKind, means: Sequence[UnitKind], samples: int, seed: int
) -> Float64 | None:
    """Compute columns, means over ``means``, in samples of units, float64 (T, R, K), from values of cases, (T, K, C).

    In a sample of cases a group has the drawn cases with their counts. None if all are means over the units, and
    if there are more than ``WEIGHTS_LIMIT`` weights of cases.
    """
    if all(mean == unit for mean in means) or len(scores.cases) == len(scores.groups):
        return None
    if samples * len(scores.cases) > WEIGHTS_LIMIT:
        return None
    of_case, groups = scores.group_of_case, len(scores.groups)
    weights = sample_weights(groups if unit == "group" else len(scores.cases), samples, seed)
    by_case = weights[:, of_case] if unit == "group" else weights
    over_cases = sample_means(values, by_case)
    if unit == "group":
        over_groups = sample_means(_means_of_groups(values, of_case, groups), weights)
    else:
        parts = [sample_means(values[..., of_case == group], by_case[:, of_case == group]) for group in range(groups)]
        over_groups = _mean_of_known(np.stack(parts, axis=-1))
    means_in_samples: Float64 = np.where(np.array(means) == "case", over_cases, over_groups)
    return np.moveaxis(np.round(means_in_samples, 6), 0, 1)


def _gaps_of(settled: Settled, group_of_case: Int64, groups: int) -> Gaps | None:
    """Return the values of cases after gaps are treated, (T, K, C); None without gaps."""
    if not settled.lacking.any():
        return None
    own = settled.own
    gaps = np.isnan(own) & ~np.isnan(own).all(axis=0)
    by_unit = _means_of_groups(own, group_of_case, groups)
    for group in range(groups):
        by_unit[..., group][gaps[..., group_of_case == group].any(axis=-1)] = np.nan
    return Gaps(settled.lacking, settled.left_out, own.shape[-1], by_unit)


def _mean_of_known(values: Float64) -> Float64:
    """Average along the last axis, NaN omitted; NaN where nothing is left."""
    known = ~np.isnan(values)
    number = np.asarray(known.sum(axis=-1))
    total = np.where(known, values, 0.0).sum(axis=-1)
    means: Float64 = np.divide(total, number, out=np.full(number.shape, np.nan), where=number > 0)
    return means


def incomplete(
    settled: Settled, scores: _ScoresOfCases, columns: Sequence[RankingColumn], missing: MissingValues, worst: Float64
) -> list[Finding]:
    """Warn about teams that lack values of other teams, and report the treatment.

    worst  the worst values that the metrics can have, float64 (K,), NaN if missing
    """
    findings = []
    for team, column in np.argwhere(settled.lacking > 0).tolist():
        lacking, path = int(settled.lacking[team, column]), columns[column].path
        cases = counted(int(settled.left_out[column]), "case is", "cases are")
        why = {
            "worst": f"{worst[column]:g} is used, the worst value there is"
            if np.isfinite(worst[column])
            else "The team ranks after all other teams in this column, because the metric has no worst value",
            "unranked": "The team is not ranked",
            "complete_cases": f"{cases} excluded for all teams",
        }[missing]
        if np.isnan(settled.own[team, column]).all() and missing != "unranked":
            why = "The team has no value in this column"
        where, number = f"{scores.where}, team {quote(scores.teams[team])}", len(scores.cases)
        findings.append(fault("incomplete-scores", where, lacking=lacking, cases=number, path=path, consequence=why))
    return first_named_of(findings)
