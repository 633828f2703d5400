"""The scores of teams as they are ranked: numbers of metrics.json, and of each group from details.json.

Contributions of groups to means are computed from details.json, so that a result folder of any age can be ranked
with its full scores per case and group, and with its missing cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy

from evaluation.board.stored import all_metrics, read_objects, rows_with, score_or_nan, value_at
from evaluation.challenge import Challenge
from evaluation.challenge.rules import Floor, RankingRules
from evaluation.files.decoding.csv import numbers_of
from evaluation.files.results.documents import LARGEST_SCORE
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused
from evaluation.scoring.score import UNIT_OF_MEAN, Result, aggregations_of, penalised
from nuclei_metrics.aggregation import penalise, unite
from nuclei_metrics.aggregation.units import Column, Samples, group_units, measure_sums, score_samples
from nuclei_metrics.metrics import Metric, metrics_of
from nuclei_metrics.model import UNDEFINED_REASONS, Case, Float64, Int16, Int64, Scores, ScoreTable, Units
from nuclei_metrics.model.annotations import STRATUM_MEAN, AggregationUnit
from nuclei_metrics.model.counts import CaseTable, PairSamples, PredictionSamples, Unions
from nuclei_metrics.ranking.methods import needs_units
from nuclei_metrics.ranking.stability import at_once, sample_weights

_TEAMS_LIMIT = 3_000  # each is compared with each: 0.8 GB


def refuse_many_teams(number: int, where: str) -> None:
    """Raise InputFault ("too-large") for more teams than can be compared with each other."""
    if number > _TEAMS_LIMIT:
        raise refused("too-large", where, wording="too-many-teams", teams=number, limit=_TEAMS_LIMIT)


@dataclass(frozen=True, slots=True, eq=False)
class TeamScores:
    """Information on one team in the columns of a ranking.

    overall  float64 (K,), NaN: undefined
    by_unit  float64 (K, G) as in ``ScoreTable``, or None without scores per unit
    floors   float64 (F,), its numbers at the floors of the ranking; empty if missing or unknown
    samples  float64 (R, K + F) as in ``ScoreTable``, or None
    version  of the program that scored it
    """

    name: str
    overall: Float64
    by_unit: Float64 | None = None
    version: str = ""
    floors: Float64 = field(default_factory=lambda: np.empty(0))
    samples: Float64 | None = None


def score_table(teams: Sequence[TeamScores], rules: RankingRules, units: Sequence[str]) -> ScoreTable:
    """Create the table that is ranked, teams in ascending order, without unranked teams.

    Values of units are kept if known for every team of it.
    """
    ranked, columns = (team for team in teams if team.name not in rules.unranked), rules.columns
    ordered = sorted(ranked, key=lambda team: team.name)
    known = [team.by_unit for team in ordered if team.by_unit is not None]
    complete = len(known) == len(ordered) > 0
    samples = [team.samples for team in ordered if team.samples is not None]
    floors = [team.floors if len(team.floors) else np.full(len(rules.require), np.nan) for team in ordered]
    return ScoreTable(
        teams=tuple(team.name for team in ordered),
        columns=rules.paths,
        higher_is_better=np.array([column.direction == "descending" for column in columns], np.bool_),
        weights=np.array([column.weight for column in columns], np.float64),
        overall=np.stack([team.overall for team in ordered]) if ordered else np.empty((0, len(columns))),
        units=tuple(units) if complete else (),
        by_unit=np.stack(known) if complete else None,
        floors=rules.floor_paths,
        at_least=tuple(floor.at_least for floor in rules.require),
        floor_values=np.stack(floors) if rules.require and ordered else None,
        samples=np.stack(samples) if complete and len(samples) == len(ordered) else None,
        seed=rules.seed,
    )


def groups_of(challenge: Challenge) -> tuple[str, ...]:
    """List the groups of a challenge in ascending order: the units of its rankings."""
    return tuple(sorted({case.group for case in challenge.cases}))


def scores_entry(scores: TeamScores) -> dict[str, Any]:
    """Write scores as JSON, NaN as None, for the cache of an audit."""
    arrays = {"overall": scores.overall, "by_unit": scores.by_unit, "floors": scores.floors}
    lists = {
        name: None if values is None else np.where(np.isnan(values), None, values).tolist()  # type: ignore[call-overload]
        for name, values in arrays.items()
    }
    return {**lists, "version": scores.version}


def scores_from_entry(team: str, entry: dict[str, Any]) -> TeamScores:
    """Read what ``scores_entry`` wrote."""
    overall, floors = (np.array(entry[part], np.float64) for part in ("overall", "floors"))
    units = None if entry["by_unit"] is None else np.array(entry["by_unit"], np.float64).reshape(len(overall), -1)
    return TeamScores(team, overall, units, entry["version"], floors)


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column of a ranking, and the source of its numbers: the metric, the matching rule, the aggregation."""

    path: str
    metric: Metric
    rule: str
    aggregation: str

    def unit_of_mean(self, challenge: Challenge) -> AggregationUnit:
        """Return the unit of the mean of the column, or "pooled"."""
        return challenge.aggregation.unit if self.aggregation == STRATUM_MEAN else UNIT_OF_MEAN[self.aggregation]


def plan_columns(challenge: Challenge, paths: Iterable[str]) -> list[PlannedColumn]:
    """Plan columns of numbers of results of a challenge, which must have them (``check_columns``)."""
    known = _metrics_by_path(challenge)
    parts = [(path, *path.rpartition(".")[::2]) for path in paths]
    return [PlannedColumn(path, *known[of_metric], aggregation) for path, of_metric, aggregation in parts]


def every_column(challenge: Challenge) -> list[PlannedColumn]:
    """Plan all numbers that a result of a challenge has."""
    pairs = product(_metrics_by_path(challenge).items(), aggregations_of(challenge))
    return [PlannedColumn(f"{path}.{name}", metric, rule, name) for (path, (metric, rule)), name in pairs]


def _metrics_by_path(challenge: Challenge) -> dict[str, tuple[Metric, str]]:
    """List the metrics of a challenge and their matching rules, by their paths without the aggregation."""
    known = {}
    for index, (rule, class_aware) in enumerate(challenge.matching.passes):
        prefix = ("alternatives", rule) if index else ()
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0):
            known[".".join((*prefix, *metric.path))] = (metric, rule)
    return known


def team_of_documents(
    name: str,
    challenge: Challenge,
    columns: Sequence[PlannedColumn],
    metrics: Mapping[str, Any],
    details: Mapping[str, Any] | None,
    *,
    tables: Tables | None = None,
    where: str = "details.json",
) -> TeamScores:
    """Read the scores of a team in its metrics.json and, if known, its details.json.

    tables   its cases under a matching rule, to compute its numbers in samples

    Raises InputFault ("not-metrics") if details.json is not of this result.
    """
    scores = all_metrics(metrics, details)
    for column in columns:
        if isinstance(value_at(scores, column.path.split(".")), Mapping):
            raise refused("not-metrics", where, got=f"{quote(column.path)} is no number")
    overall = np.array([score_or_nan(scores, column.path) for column in columns])
    version = metrics["software"]["version"]
    floors = floor_values(scores, challenge.ranking.require if challenge.ranking else ())
    if details is None:
        return TeamScores(name, overall, None, version, floors)
    try:
        if details["challenge"]["hash"] != metrics["challenge"]["hash"]:
            raise refused("not-metrics", where, got="not from the challenge of the metrics.json in the same folder")
        by_unit = np.stack([values_of_groups(challenge, details, column) for column in columns])
        samples = None if tables is None else _values_in_samples(challenge, columns, details, tables)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise refused(
            "not-metrics", where, wording="not-its-details", got="not all scores of all cases and groups", metrics="it"
        ) from None
    return TeamScores(name, overall, by_unit, version, floors, samples)


def floor_values(metrics: Mapping[str, Any], require: Sequence[Floor]) -> Float64:
    """Return the numbers of metrics.json at the floors of a ranking, float64 (F,); NaN if missing."""
    return np.array([score_or_nan(metrics, floor.path) for floor in require], np.float64)


def values_of_groups(challenge: Challenge, details: Mapping[str, Any], column: PlannedColumn) -> Float64:
    """Compute the contribution of each group to a column, float64 (G,); NaN for omitted groups.

    The contribution is the column of a data set with only this group; missing cases are penalised. For ``group_mean``
    the mean of the contributions is the number in metrics.json; for ``case_mean`` a group has the mean over its cases.
    """
    if column.unit_of_mean(challenge) != "case":
        return values_of_units(challenge, details, column, "group")
    value = values_of_units(challenge, details, column, "case")
    cases = ordered_cases(challenge)
    of_group = [value[[case.group == group for case in cases]] for group in groups_of(challenge)]
    known = [values[~np.isnan(values)] for values in of_group]
    return np.array([math.fsum(values.tolist()) / len(values) if len(values) else math.nan for values in known])


def values_of_units(
    challenge: Challenge, details: Mapping[str, Any], column: PlannedColumn, kind: Literal["case", "group", "pooled"]
) -> Float64:
    """Compute the value of each case (``ordered_cases``) or group in the mean of a column; NaN: omitted."""
    metric, cases = column.metric, ordered_cases(challenge)
    names = [case.name for case in cases] if kind == "case" else groups_of(challenge)
    entries = [details[f"{kind}s"][name]["rules"][column.rule] for name in names]
    scores = _scores_of(
        [(value_at(entry["scores"], metric.path), value_at(entry["undefined"], metric.path)) for entry in entries]
    )
    rows: dict[str, list[int]] = {}
    for row, case in enumerate(cases):
        rows.setdefault(case.name if kind == "case" else case.group, []).append(row)
    units = unite(_bare_table(cases, details, column.rule), [rows[name] for name in names])
    undefined, counts_missed = challenge.aggregation.undefined, metric.counts_missed
    return penalise(scores, units, metric.worst_of(units), undefined=undefined, counts_missed=counts_missed).value


def _values_in_samples(
    challenge: Challenge, columns: Sequence[PlannedColumn], details: Mapping[str, Any], tables: Tables
) -> Float64 | None:
    """Compute the columns and floors of a ranking in its samples, float64 (R, K + F), as in ``ScoreTable``.

    None if they follow from the values of groups: without floors, if all columns are means over groups or are ranked by
    the values of groups.
    """
    rules = challenge.ranking
    of_groups = all(column.aggregation == "group_mean" for column in columns)
    if rules is None or (not rules.require and (of_groups or needs_units(rules.method))):
        return None
    floors = plan_columns(challenge, rules.floor_paths)
    weights = sample_weights(len(groups_of(challenge)), rules.samples, rules.seed)
    values = partial(values_of_units, challenge, details)
    return columns_in_samples(challenge, [*columns, *floors], values, tables, weights)


def _scores_of(entries: Sequence[tuple[Any, Any]]) -> Scores:
    """Read numbers, or None with the reason, of several units. Raises ValueError for other values."""
    if not all(
        number is None or (type(number) in (int, float) and abs(number) <= LARGEST_SCORE) for number, _ in entries
    ):
        raise ValueError
    value = np.array([math.nan if number is None else float(number) for number, _ in entries])
    reason = [0 if number is not None else 1 + UNDEFINED_REASONS.index(why) for number, why in entries]
    return Scores(value, np.array(reason, np.int8))


# --- in samples of groups --------------------------------------------------------------------------------------------


Tables = Callable[[str], CaseTable | None]
ValuesOfUnits = Callable[["PlannedColumn", AggregationUnit], Float64]


def ordered_cases(challenge: Challenge) -> list[Case]:
    """Sort the cases of a challenge as the rows of a table are."""
    return sorted(challenge.cases, key=lambda case: (case.group, case.name))


def columns_in_samples(
    challenge: Challenge,
    columns: Sequence[PlannedColumn],
    values: ValuesOfUnits,
    tables: Tables,
    weights: Int16 | Int64,
) -> Float64:
    """Compute each column in samples of groups, float64 (R, K), six decimals; NaN if undefined or unknown.

    values   the value of each case (in the order of ``ordered_cases``) or group in the mean of a column
             tables   the table of all cases under a matching rule; None: unknown
                      weights  count of each group in each sample, integers (R, G)
    """
    in_samples = np.full((len(weights), len(columns)), np.nan)
    for rule in dict.fromkeys(column.rule for column in columns):
        of_rule = [k for k, column in enumerate(columns) if column.rule == rule]
        units = {k: columns[k].unit_of_mean(challenge) for k in of_rule}
        table = tables(rule) if "pooled" in units.values() else _bare_table(ordered_cases(challenge))
        if table is None:
            continue
        known = [k for k in of_rule if units[k] != "pooled" or _is_known(columns[k], table, challenge)]
        if known:
            planned = {k: (columns[k], units[k]) for k in known}
            in_samples[:, known] = _score_known(challenge, planned, values, table, weights)
    return np.round(in_samples, 6) + 0.0


def _score_known(
    challenge: Challenge,
    columns: Mapping[int, tuple[PlannedColumn, AggregationUnit]],
    values: ValuesOfUnits,
    table: CaseTable,
    weights: Int16 | Int64,
) -> Float64:
    """Compute columns under one matching rule in samples of groups."""
    cases = ordered_cases(challenge)
    groups, strata = (
        np.unique([getattr(case, name) for case in cases], return_inverse=True)[1] for name in ("group", "stratum")
    )
    of_case, of_group = np.full((len(groups), len(columns)), np.nan), np.full((weights.shape[1], len(columns)), np.nan)
    for index, (column, unit) in enumerate(columns.values()):
        if unit != "pooled":
            (of_case if unit == "case" else of_group)[:, index] = values(column, unit)

    def evaluate(units: Units) -> Float64:
        nothing = np.full(len(units), np.nan)
        return np.stack(
            [
                penalised(column.metric, units, challenge).value if unit == "pooled" else nothing
                for column, unit in columns.values()
            ],
            axis=1,
        )

    wanted = [
        Column(index, unit, of_strata=column.aggregation == STRATUM_MEAN)
        for index, (column, unit) in enumerate(columns.values())
    ]
    size, of_groups = at_once(len(groups)), group_units(groups)
    parts = [
        score_samples(
            table,
            Samples(scipy.sparse.csr_array(weights[begin : begin + size].astype(np.int64)), of_groups),
            of_case,
            wanted,
            evaluate,
            strata,
            of_group=of_group,
        )
        for begin in range(0, len(weights), size)
    ]
    return np.concatenate(parts)


def _is_known(column: PlannedColumn, table: CaseTable, challenge: Challenge) -> bool:
    """Return whether a table has the inputs of the metric of a column."""
    every = Unions(np.arange(len(table)), np.array([0, len(table)]), len(table))
    try:
        penalised(column.metric, Units(table, every), challenge)
    except KeyError:
        return False
    return True


# --- tables -----------------------------------------------------------------------------------------------------------


def tables_of_result(result: Result) -> Tables:
    """Return the tables of a new result."""
    return lambda rule: result.units[rule]["pooled"].units.table


def stored_tables(challenge: Challenge, details: Mapping[str, Any], objects: Path | None) -> Tables:
    """Create the tables of a stored result; content missing from its files (such as confidences) is absent.

    objects  its objects.csv; without it, or if it is of no use, there are no pairs, and no measures of them
    """
    cases = ordered_cases(challenge)

    def table_of(rule: str) -> CaseTable:
        counts = [details["cases"][case.name]["rules"][rule]["counts"] for case in cases]
        table = _bare_table(cases, details, rule)
        more = [count.get("sums", {}) for count in counts]
        sums = dict(table.sums) | {name: np.array([count[name] for count in more]) for name in more[0]}
        pairs = table.pairs
        if "confusion_matrix" in counts[0]:
            sums["confusion"] = np.array([count["confusion_matrix"] for count in counts], np.int64)
            pairs = _stored_pairs(challenge, cases, rule, objects) or pairs
            sums |= measure_sums(pairs, len(cases), len(challenge.class_names))
        areas = [challenge.area_mm2(case) for case in cases]
        return CaseTable(
            sums=sums,
            largest=table.largest,
            area_mm2=np.array([np.nan if area is None else area for area in areas]),
            pairs=pairs,
            predictions=table.predictions,
        )

    return table_of


def _stored_pairs(challenge: Challenge, cases: Sequence[Case], rule: str, objects: Path | None) -> PairSamples | None:
    """Read the matched pairs of an objects.csv under a matching rule; None if missing, or it cannot be read."""
    row_of = {case.name.encode(): row for row, case in enumerate(cases)}
    class_of = {name.encode(): index for index, name in enumerate(challenge.class_names, start=1)}
    try:
        if (table := read_objects(objects)) is None:
            return None
        rows = table.take(np.flatnonzero(rows_with(table, "rule", rule) & rows_with(table, "outcome", "matched")))
        case = np.array([row_of[name] for name in rows.cells(rows.need("case"))], np.int64)
        sides = [
            [class_of[name] for name in rows.cells(rows.need(f"{side}_class"))] for side in ("reference", "prediction")
        ]
        measures = {name: numbers_of(rows.cells(rows.need(name))) for name in challenge.metric_choice().measures}
        area = numbers_of(rows.cells(rows.need("reference_area_px")))
    except (InputFault, KeyError):
        return None
    return PairSamples(
        case=case,
        class_id=np.array(sides, np.int16).T.reshape(-1, 2),
        measures={name: values for name, values in measures.items() if not np.isnan(values).any()},
        class_probability=None,
        area_px=None if np.isnan(area).any() else area.astype(np.int64),
    )


def are_empty(counts: Mapping[str, Any]) -> bool:
    """Return whether a case has reference nuclei but no predicted nuclei, from its counts."""
    if "confusion_matrix" not in counts:  # numbers of nuclei only
        return bool(sum(counts["prediction"]) == 0 < sum(counts["reference"]))
    predicted = counts["true_positives"] + counts["false_positives"]
    return bool(predicted == 0 < counts["true_positives"] + counts["false_negatives"])


def _bare_table(cases: Sequence[Case], details: Mapping[str, Any] | None = None, rule: str = "") -> CaseTable:
    """Create a table of cases with only the inputs of penalties.

    These are the sizes of images and, from details.json, which cases are missing or empty under a matching rule.
    """
    entries = [details["cases"][case.name] for case in cases] if details else []
    missing = [not entry["submitted"] for entry in entries]
    empty = [entry["submitted"] and are_empty(entry["rules"][rule]["counts"]) for entry in entries]
    diagonal = np.array([np.hypot(case.height - 1, case.width - 1) for case in cases])
    spacing = np.array([np.nan if case.spacing_um is None else case.spacing_um for case in cases])
    rows, none, zeros = np.empty(0, np.int64), np.empty(0, np.int16), np.zeros(len(cases), np.int64)
    return CaseTable(
        sums={
            "cases": np.ones(len(cases), np.int64),
            "missing": np.array(missing, np.int64) if details else zeros,
            "empty": np.array(empty, np.int64) if details else zeros,
            "points": zeros,
        },
        largest={"diagonal_px": diagonal, "diagonal_um": diagonal * spacing},
        area_mm2=np.full(len(cases), np.nan),
        pairs=PairSamples(rows, np.empty((0, 2), np.int16), {}, None),
        predictions=PredictionSamples(rows, none, none, None, None),
    )
