"""The scores of teams as they are ranked: numbers of metrics.json, and of each group from details.json.

What a group contributes to a mean is computed here from details.json, so that a result folder of any age can be ranked
with everything that is known: scores of its cases and groups, and which cases were not submitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError

from evaluation.aggregation import penalise, unite
from evaluation.challenge import Challenge, LimitRules
from evaluation.challenge.rules import Floor, RankingColumn, RankingRules
from evaluation.decoding.json import check_keys, read_json, read_text, resting_collector
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import ChallengeBroken, InputFault, refused
from evaluation.leaderboard.resampled import Tables, are_empty, bare_table, columns_in_samples, ordered_cases
from evaluation.metrics import Metric, metrics_of
from evaluation.model import OF_STRATA, UNDEFINED_REASONS, Float64, Scores, ScoreTable
from evaluation.ranking.methods import needs_units
from evaluation.ranking.stability import sample_weights
from evaluation.results.schema import LARGEST_SCORE, DetailsFile, LeaderboardFile, MetricsFile
from evaluation.scoring.score import aggregations_of

METRICS_BYTES = 10_000_000
DETAILS_BYTES = 500_000_000


@dataclass(frozen=True, slots=True, eq=False)
class TeamScores:
    """What is known of one team in the columns of a ranking.

    overall  float64 (K,), NaN: undefined
    by_unit  float64 (K, G) as in ``ScoreTable``, or None if only ``overall`` is known
    floors   float64 (F,), its numbers at the floors of the ranking; empty if there are none or they are not known
    samples  float64 (R, K + F) as in ``ScoreTable``, or None
    version  of the program that scored it
    """

    name: str
    overall: Float64
    by_unit: Float64 | None = None
    version: str = ""
    floors: Float64 = field(default_factory=lambda: np.empty(0))
    samples: Float64 | None = None


@dataclass(frozen=True, slots=True)
class Unranked:
    """A team without a place: the code of the first thing that is wrong, and all of it in one line.

    values  in the columns of the ranking, if the team was scored; None: undefined
    """

    name: str
    code: str
    reason: str
    values: tuple[float | None, ...] = ()


def ranking_of(challenge: Challenge) -> RankingRules:
    """The table [ranking] with a column at least. Raises ChallengeBroken ("no-ranking") if there is none."""
    if challenge.ranking is not None and challenge.ranking.columns:
        return challenge.ranking
    wording = "" if challenge.ranking is None else "no-columns"
    raise ChallengeBroken(fault("no-ranking", "challenge.toml: ranking", wording=wording))


def score_table(teams: Sequence[TeamScores], rules: RankingRules, units: Sequence[str]) -> ScoreTable:
    """The table that is ranked, teams in ascending order, without those that the rules do not rank.

    Values of units are kept if they are known for every team of it.
    """
    ranked, columns = (team for team in teams if team.name not in rules.unranked), rules.columns
    ordered = sorted(ranked, key=lambda team: team.name)
    known = [team.by_unit for team in ordered if team.by_unit is not None]
    complete = len(known) == len(ordered) > 0
    samples = [team.samples for team in ordered if team.samples is not None]
    floors = [team.floors if len(team.floors) else np.full(len(rules.require), np.nan) for team in ordered]
    return ScoreTable(
        teams=tuple(team.name for team in ordered),
        columns=tuple(column.path for column in columns),
        higher_is_better=np.array([column.direction == "descending" for column in columns], np.bool_),
        weights=np.array([column.weight for column in columns], np.float64),
        overall=np.stack([team.overall for team in ordered]) if ordered else np.empty((0, len(columns))),
        units=tuple(units) if complete else (),
        by_unit=np.stack(known) if complete else None,
        floors=tuple(floor.path for floor in rules.require),
        at_least=tuple(floor.at_least for floor in rules.require),
        floor_values=np.stack(floors) if rules.require and ordered else None,
        samples=np.stack(samples) if complete and len(samples) == len(ordered) else None,
        seed=rules.seed,
    )


def groups_of(challenge: Challenge) -> tuple[str, ...]:
    """The groups of a challenge in ascending order: the units of its rankings."""
    return tuple(sorted({case.group for case in challenge.cases}))


def scores_entry(scores: TeamScores) -> dict[str, Any]:
    """Scores as JSON, NaN as None: what an audit keeps of a run."""
    units = None if scores.by_unit is None else listing(scores.by_unit)
    parts = {"overall": listing(scores.overall), "by_unit": units, "floors": listing(scores.floors)}
    return {**parts, "version": scores.version}


def scores_from_entry(team: str, entry: dict[str, Any]) -> TeamScores:
    """What ``scores_entry`` wrote."""
    overall, floors = (np.array(entry[part], np.float64) for part in ("overall", "floors"))
    units = None if entry["by_unit"] is None else np.array(entry["by_unit"], np.float64).reshape(len(overall), -1)
    return TeamScores(team, overall, units, entry["version"], floors)


def listing(values: Float64) -> list[Any]:
    """Numbers as nested lists, None for NaN."""
    return np.where(np.isnan(values), None, values).tolist()  # type: ignore[call-overload, no-any-return]


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A column of a ranking, and where its numbers come from: the metric, the matching rule, the aggregation."""

    path: str
    metric: Metric
    rule: str
    aggregation: str

    def is_by_case(self, challenge: Challenge) -> bool:
        """Whether it is a mean over cases, not over groups."""
        of_cases = self.aggregation in OF_STRATA and challenge.aggregation.unit == "case"
        return of_cases or self.aggregation == "case_mean"


def as_columns(paths: Iterable[str]) -> tuple[RankingColumn, ...]:
    return tuple(RankingColumn(path=path, direction="descending") for path in paths)


def plan_columns(challenge: Challenge, columns: Sequence[RankingColumn]) -> list[PlannedColumn]:
    """The columns of a ranking of results of a challenge, which must have them (``check_columns``)."""
    known, planned = metrics_by_path(challenge), []
    for column in columns:
        of_metric, _, aggregation = column.path.rpartition(".")
        planned.append(PlannedColumn(column.path, *known[of_metric], aggregation))
    return planned


def every_column(challenge: Challenge) -> list[PlannedColumn]:
    """All numbers that a result of a challenge has."""
    pairs = product(metrics_by_path(challenge).items(), aggregations_of(challenge))
    return [PlannedColumn(f"{path}.{name}", metric, rule, name) for (path, (metric, rule)), name in pairs]


def metrics_by_path(challenge: Challenge) -> dict[str, tuple[Metric, str]]:
    """The metrics of a challenge and their matching rules, by their paths in metrics.json without the aggregation."""
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
    """The scores of a team from the content of its metrics.json and, if it is known, of its details.json.

    tables  its cases under a matching rule: then its numbers in samples are computed as well

    Raises InputFault ("not-metrics") if details.json is not of this result.
    """
    scores = all_metrics(metrics, details)
    for column in columns:
        if isinstance(value_at(scores, column.path.split(".")), Mapping):
            raise refused("not-metrics", where, got=f"{quote(column.path)} is no number")
    overall = np.array([number_at(scores, column.path) for column in columns])
    version = metrics["software"]["version"]
    floors = floor_values(scores, challenge.ranking.require if challenge.ranking else ())
    if details is None:
        return TeamScores(name, overall, None, version, floors)
    try:
        if details["challenge"]["hash"] != metrics["challenge"]["hash"]:
            raise refused("not-metrics", where, got="of another challenge than the metrics.json beside it")
        by_unit = np.stack([values_of_groups(challenge, details, column) for column in columns])
        samples = None if tables is None else values_in_samples(challenge, columns, details, tables)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise refused(
            "not-metrics", where, wording="not-its-details", got="not all scores of all cases and groups", metrics="it"
        ) from None
    return TeamScores(name, overall, by_unit, version, floors, samples)


def all_metrics(metrics: Mapping[str, Any], details: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """All scores of a result: those of its details.json if its metrics.json was published with less."""
    unpublished = details.get("metrics") if details else None
    return unpublished if isinstance(unpublished, Mapping) else metrics


def floor_values(metrics: Mapping[str, Any], require: Sequence[Floor]) -> Float64:
    """The numbers of metrics.json at the floors of a ranking, float64 (F,); NaN where there is none."""
    return np.array([number_at(metrics, floor.path) for floor in require], np.float64)


def number_at(metrics: Mapping[str, Any], path: str) -> float:
    """The number at a path of metrics.json; NaN if it is null or not there."""
    node = value_at(metrics, path.split("."))
    return math.nan if node is None or isinstance(node, Mapping) else float(node)


def values_of_groups(challenge: Challenge, details: Mapping[str, Any], column: PlannedColumn) -> Float64:
    """What each group contributes to a column, float64 (G,); NaN for groups that are left out.

    It is what the column would be if the data set were that group alone, as it enters a mean: cases that were not
    submitted are penalised. For ``group_mean`` the mean of these values is the number in metrics.json;
    for ``case_mean`` the value of a group is the mean over its cases.
    """
    if not column.is_by_case(challenge):
        return values_of_units(challenge, details, column, "group")
    value = values_of_units(challenge, details, column, "case")
    cases = ordered_cases(challenge)
    of_group = [value[[case.group == group for case in cases]] for group in groups_of(challenge)]
    known = [values[~np.isnan(values)] for values in of_group]
    return np.array([math.fsum(values.tolist()) / len(values) if len(values) else math.nan for values in known])


def values_of_units(
    challenge: Challenge, details: Mapping[str, Any], column: PlannedColumn, kind: Literal["case", "group", "pooled"]
) -> Float64:
    """What each case (``ordered_cases``) or group brings into the mean of a column, NaN for those that are left out."""
    metric, cases = column.metric, ordered_cases(challenge)
    names = [case.name for case in cases] if kind == "case" else groups_of(challenge)
    entries = [details[f"{kind}s"][name]["rules"][column.rule] for name in names]
    scores = scores_of(
        [(value_at(entry["scores"], metric.path), value_at(entry["undefined"], metric.path)) for entry in entries]
    )
    of_cases = [details["cases"][case.name] for case in cases]
    missing = [not entry["submitted"] for entry in of_cases]
    counts = [entry["rules"][column.rule]["counts"] for entry in of_cases]
    empty = [entry["submitted"] and are_empty(counted) for entry, counted in zip(of_cases, counts, strict=True)]
    rows: dict[str, list[int]] = {}
    for row, case in enumerate(cases):
        rows.setdefault(case.name if kind == "case" else case.group, []).append(row)
    units = unite(bare_table(cases, missing, empty), [rows[name] for name in names])
    undefined, counts_missed = challenge.aggregation.undefined, metric.counts_missed
    return penalise(scores, units, metric.worst_of(units), undefined=undefined, counts_missed=counts_missed).value


def values_in_samples(
    challenge: Challenge, columns: Sequence[PlannedColumn], details: Mapping[str, Any], tables: Tables
) -> Float64 | None:
    """The columns and floors of the ranking of a challenge in its samples, float64 (R, K + F), as in ``ScoreTable``.

    None where they follow from the values of groups: if there are no floors, and all columns are means over groups, or
    are ranked by the values of groups.
    """
    rules = challenge.ranking
    of_groups = all(column.aggregation == "group_mean" for column in columns)
    if rules is None or (not rules.require and (of_groups or needs_units(rules.method))):
        return None
    floors = plan_columns(challenge, as_columns(floor.path for floor in rules.require))
    weights = sample_weights(len(groups_of(challenge)), rules.samples, rules.seed)

    def values(column: PlannedColumn, kind: Literal["case", "group", "pooled"]) -> Float64:
        return values_of_units(challenge, details, column, kind)

    return columns_in_samples(challenge, [*columns, *floors], values, tables, weights)


def value_at(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    node: Any = tree
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def scores_of(entries: Sequence[tuple[Any, Any]]) -> Scores:
    """Numbers, or None with the reason, of several units. Raises ValueError for what is neither."""
    if not all(
        number is None or (type(number) in (int, float) and abs(number) <= LARGEST_SCORE) for number, _ in entries
    ):
        raise ValueError
    value = np.array([math.nan if number is None else float(number) for number, _ in entries])
    reason = [0 if number is not None else 1 + UNDEFINED_REASONS.index(why) for number, why in entries]
    return Scores(value, np.array(reason, np.int8))


# --- files ------------------------------------------------------------------------------------------------------------


def read_metrics(path: Path, *, where: str) -> dict[str, Any]:
    """The content of a metrics.json, also as the platform wraps it. Raises InputFault: not-metrics, …"""
    try:
        with path.open("rb") as stream:
            document = unwrapped(read_json(stream, where=where, limits=LimitRules(bytes_per_file=METRICS_BYTES)))
        MetricsFile.model_validate(document)
    except OSError as error:
        raise refused("not-metrics", where, got=(error.strerror or "not readable").lower()) from None
    except (ValidationError, RecursionError) as error:
        raise refused("not-metrics", where, got=why_invalid(error)) from None
    metrics: dict[str, Any] = document
    return metrics


def unwrapped(document: Any) -> Any:
    """The value in the platform's list ``[{"interface": …, "value": …}]`` that is a result; others stay as they are.

    >>> unwrapped([{"interface": {"slug": "metrics-json-file"}, "value": {"challenge": {}}}])
    {'challenge': {}}
    """
    items = document if isinstance(document, list) else []
    values = [item.get("value") for item in items if isinstance(item, dict) and {"interface", "socket"} & item.keys()]
    return next((value for value in values if isinstance(value, dict) and "challenge" in value), document)


def why_invalid(error: ValidationError | RecursionError) -> str:
    """The first thing that is wrong with the form of a document, and where."""
    if isinstance(error, RecursionError):
        return "tables nested too deeply"
    problem = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in problem["loc"] if part != "function-after")
    return f"{quote(path, 100)} is wrong: {problem['msg'][:100].lower()}" if path else "no object of scores"


def read_details(path: Path, *, where: str) -> dict[str, Any]:
    """The content of a details.json, as ``read_document``."""
    return read_document(path, DetailsFile, where=where)


def read_board(path: Path) -> dict[str, Any]:
    """A leaderboard.json, or that of a folder, as ``read_document``."""
    path = path / "leaderboard.json" if path.is_dir() else path
    return read_document(path, LeaderboardFile, where=quote(path.name))


def read_document(path: Path, form: type[BaseModel], *, where: str) -> dict[str, Any]:
    """What this program wrote as JSON, which may be large, if it has its form.

    Raises InputFault: not-metrics, too-large, too-deep.
    """

    def not_ours(why: str) -> Finding:
        return fault("not-metrics", where, wording="not-our-form", got=why, name=path.name)

    try:
        with path.open("rb") as stream:
            document = plain_object(stream, where, LimitRules(bytes_per_file=DETAILS_BYTES))
        form.model_validate(document)
    except OSError as error:
        raise InputFault(not_ours((error.strerror or "not readable").lower())) from None
    except (ValidationError, RecursionError) as error:
        raise InputFault(not_ours(why_invalid(error))) from None
    return document


def plain_object(stream: BinaryIO, where: str, limits: LimitRules) -> dict[str, Any]:
    data = read_text(stream, where, limits)
    try:
        with resting_collector():
            document = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise refused("not-metrics", where, wording="not-its-details", got="not JSON", metrics="it") from None
    check_keys(data, where)
    if not isinstance(document, dict):
        raise refused("not-metrics", where, wording="not-its-details", got="no object", metrics="it")
    return document
