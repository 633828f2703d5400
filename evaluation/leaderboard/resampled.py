"""The columns of a ranking in samples of groups: what a team's numbers would be if other groups had been drawn.

Means over cases, groups and strata follow from the values in details.json. A pooled number follows from the counts of
the cases there, and from the matched pairs in objects.csv, by the formula of its metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from evaluation.aggregation.intervals import Column, Samples, group_units, score_samples
from evaluation.aggregation.table import measure_sums
from evaluation.challenge import Challenge
from evaluation.decoding.csv import numbers_of
from evaluation.findings.errors import InputFault
from evaluation.leaderboard.matched_nuclei import read_objects, rows_with
from evaluation.model import (
    OF_STRATA,
    STRATUM_MEAN,
    AggregationUnit,
    Case,
    CaseTable,
    Float64,
    Int16,
    Int64,
    PairSamples,
    PredictionSamples,
    Unions,
    Units,
)
from evaluation.ranking.stability import at_once
from evaluation.scoring.score import UNIT_OF_MEAN, Result, penalised

if TYPE_CHECKING:
    from evaluation.leaderboard.team_scores import PlannedColumn

Tables = Callable[[str], CaseTable | None]
ValuesOfUnits = Callable[["PlannedColumn", AggregationUnit], Float64]


def ordered_cases(challenge: Challenge) -> list[Case]:
    """The cases of a challenge in the order of the rows of a table."""
    return sorted(challenge.cases, key=lambda case: (case.group, case.name))


def columns_in_samples(
    challenge: Challenge,
    columns: Sequence[PlannedColumn],
    values: ValuesOfUnits,
    tables: Tables,
    weights: Int16 | Int64,
) -> Float64:
    """Each column in samples of groups, float64 (R, K) with six decimals; NaN where it is undefined or not known.

    values   what each case (in the order of ``ordered_cases``) or group brings into the mean of a column
    tables   the table of all cases under a matching rule; None: it is not known
    weights  how often each sample has each group, whole numbers (R, G)
    """
    cases = ordered_cases(challenge)
    groups, strata = (
        np.unique([getattr(case, name) for case in cases], return_inverse=True)[1] for name in ("group", "stratum")
    )
    in_samples = np.full((len(weights), len(columns)), np.nan)
    for rule in dict.fromkeys(column.rule for column in columns):
        of_rule = [k for k, column in enumerate(columns) if column.rule == rule]
        units = {k: unit_of(challenge, columns[k]) for k in of_rule}
        table = tables(rule) if "pooled" in units.values() else bare_table(cases, (), ())
        if table is None:
            continue
        known = [k for k in of_rule if units[k] and (units[k] != "pooled" or is_known(columns[k], table, challenge))]
        if known:
            in_samples[:, known] = score_known(
                challenge, {k: (columns[k], units[k]) for k in known}, values, table, weights, groups, strata
            )
    return np.round(in_samples, 6) + 0.0


def score_known(
    challenge: Challenge,
    columns: Mapping[int, tuple[PlannedColumn, AggregationUnit | None]],
    values: ValuesOfUnits,
    table: CaseTable,
    weights: Int16 | Int64,
    groups: Int64,
    strata: Int64,
) -> Float64:
    """``columns_in_samples`` of columns under one matching rule."""
    of_case, of_group = np.full((len(groups), len(columns)), np.nan), np.full((weights.shape[1], len(columns)), np.nan)
    for index, (column, unit) in enumerate(columns.values()):
        if unit == "case":
            of_case[:, index] = values(column, unit)
        elif unit == "group":
            of_group[:, index] = values(column, unit)

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
        if unit is not None
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


def unit_of(challenge: Challenge, column: PlannedColumn) -> AggregationUnit | None:
    """What a column is the mean over, or pooled; None: the worst of some means, of which no sample tells."""
    if column.aggregation == STRATUM_MEAN:
        return challenge.aggregation.unit
    return None if column.aggregation in OF_STRATA else UNIT_OF_MEAN.get(column.aggregation)


def is_known(column: PlannedColumn, table: CaseTable, challenge: Challenge) -> bool:
    """Whether a table has what the metric of a column is made of."""
    every = Unions(np.arange(len(table)), np.array([0, len(table)]), len(table))
    try:
        penalised(column.metric, Units(table, every), challenge)
    except KeyError:
        return False
    return True


# --- tables -----------------------------------------------------------------------------------------------------------


def tables_of_result(result: Result) -> Tables:
    """The tables of a result that was just made."""
    return lambda rule: result.units[rule]["pooled"].units.table


def stored_tables(challenge: Challenge, details: Mapping[str, Any], objects: Path | None) -> Tables:
    """The tables of a stored result; what its files do not hold (such as confidences) is not in them.

    objects  its objects.csv; without it, or if it is of no use, there are no pairs, and no measures of them
    """
    cases = ordered_cases(challenge)

    def table_of(rule: str) -> CaseTable:
        entries = [details["cases"][case.name] for case in cases]
        counts = [entry["rules"][rule]["counts"] for entry in entries]
        missing = [not entry["submitted"] for entry in entries]
        empty = [entry["submitted"] and are_empty(count) for entry, count in zip(entries, counts, strict=True)]
        table = bare_table(cases, missing, empty)
        more = [count.get("sums", {}) for count in counts]
        sums = dict(table.sums) | {name: np.array([count[name] for count in more]) for name in more[0]}
        pairs = table.pairs
        if "confusion_matrix" in counts[0]:
            sums["confusion"] = np.array([count["confusion_matrix"] for count in counts], np.int64)
            pairs = stored_pairs(challenge, cases, rule, objects) or pairs
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


def stored_pairs(challenge: Challenge, cases: Sequence[Case], rule: str, objects: Path | None) -> PairSamples | None:
    """The matched pairs of an objects.csv under a matching rule; None if there is none, or it cannot be read."""
    if objects is None or not objects.is_file():
        return None
    row_of = {case.name.encode(): row for row, case in enumerate(cases)}
    class_of = {name.encode(): index for index, name in enumerate(challenge.class_names, start=1)}
    try:
        table = read_objects(objects)
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
    """Whether a case has nuclei in the reference and none in the prediction, by its counts in details.json."""
    if "confusion_matrix" not in counts:  # numbers of nuclei only
        return bool(sum(counts["prediction"]) == 0 < sum(counts["reference"]))
    predicted = counts["true_positives"] + counts["false_positives"]
    return bool(predicted == 0 < counts["true_positives"] + counts["false_negatives"])


def bare_table(cases: Sequence[Case], missing: Sequence[bool], empty: Sequence[bool]) -> CaseTable:
    """Cases of which only that is known which a penalty depends on: missing and empty cases, image sizes."""
    diagonal = np.array([np.hypot(case.height - 1, case.width - 1) for case in cases])
    spacing = np.array([np.nan if case.spacing_um is None else case.spacing_um for case in cases])
    rows, none, zeros = np.empty(0, np.int64), np.empty(0, np.int16), np.zeros(len(cases), np.int64)
    return CaseTable(
        sums={
            "cases": np.ones(len(cases), np.int64),
            "missing": np.array(missing, np.int64) if len(missing) else zeros,
            "empty": np.array(empty, np.int64) if len(empty) else zeros,
            "points": zeros,
        },
        largest={"diagonal_px": diagonal, "diagonal_um": diagonal * spacing},
        area_mm2=np.full(len(cases), np.nan),
        pairs=PairSamples(rows, np.empty((0, 2), np.int16), {}, None),
        predictions=PredictionSamples(rows, none, none, None, None),
    )
