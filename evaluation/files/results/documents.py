"""What programs read of a result: metrics.json, details.json and objects.csv.

metrics.json has the scores, and nothing of the reference; details.json has everything, for administrators. Both are
strict JSON with sorted keys, six decimals and no dot in a key.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from itertools import chain, islice, pairwise, repeat
from operator import getitem
from typing import Annotated, Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, StringConstraints
from typing_extensions import TypeAliasType

from evaluation.challenge import COUNTED, Challenge
from evaluation.files.results import __version__
from evaluation.files.system import missing_here
from evaluation.findings import Finding, render_findings
from nuclei_metrics.metrics import metrics_of
from nuclei_metrics.metrics.counts import KINDS
from nuclei_metrics.metrics.every_nucleus import coverage_curve
from nuclei_metrics.model import (
    Case,
    CaseResult,
    Float64,
    Int32,
    Int64,
    Interval,
    MatchCounts,
    Matches,
    Measure,
    MetricScores,
    ObjectList,
    UnitScores,
)
from nuclei_metrics.model.arrays import blocks
from nuclei_metrics.model.counts import UNDEFINED_REASONS
from nuclei_metrics.model.instances import RasterisationReport

DECIMALS = 6
Ranks = Mapping[tuple[str, ...], tuple[float | None, str | None]]  # a number, or None and the reason, by its path
ABSENT: Any = object()  # the value of a field that a document does not have
PARTS_OF_SCORES = {"f1": ("precision", "recall"), "pq": ("sq", "rq")}  # harmonic mean, product


def metrics_document(
    challenge: Challenge,
    scores: Mapping[str, Sequence[MetricScores]],
    intervals: Mapping[tuple[str, ...], Interval],
    ranks: Ranks,
) -> dict[str, Any]:
    """The content of metrics.json.

    ``scores`` by the name of the matching rule; the first rule fills the top level, the rest are under
    ``alternatives.<name>``. ``intervals`` by the path of the number, ``ranks`` by the path in the table
    ``leaderboard``. The standard deviation over the units of a mean has the path of the mean in
    ``standard_deviations``. A value is a number or null with the reason at the same path under ``undefined``.
    Raises pydantic's ValidationError if the document is not of the form that other tools rely on.
    """
    document: dict[str, Any] = {"challenge": identity(challenge), "software": software()}
    undefined: dict[str, Any] = {}
    for index, (rule, metrics) in enumerate(scores.items()):
        prefix = () if index == 0 else ("alternatives", rule)
        for metric in metrics:
            for aggregation, mean in metric.means.items():
                path = (*prefix, *metric.path, aggregation)
                _put(document, path, rounded(mean.score.value))
                if mean.score.value is None:
                    _put(undefined, path, mean.score.undefined)
                if mean.deviation is not None:
                    _put(document, (DEVIATIONS, *path), rounded(mean.deviation))
    for path, interval in intervals.items():
        ends = {"low": rounded(interval.low), "high": rounded(interval.high)}
        _put(document, ("confidence_intervals", *path), ends)
        if interval.reason is not None:
            _put(undefined, ("confidence_intervals", *path), interval.reason)
    for path, (rank, reason) in ranks.items():
        _put(document, ("leaderboard", *path), number(rank))
        if reason is not None:
            _put(undefined, ("leaderboard", *path), reason)
    document["undefined"] = undefined
    MetricsFile.model_validate(document)
    return document


def published_metrics(document: Mapping[str, Any], challenge: Challenge) -> dict[str, Any]:
    """Return metrics.json as [publish] lets everybody see it: at most ``PUBLISHED_BYTES``, and no value of one patient.

    If there are too many scores, ``_LESS_NEEDED`` scores are omitted, one kind after the other; ranked scores stay.
    Raises pydantic's ValidationError as ``metrics_document`` does.
    """
    ranked = _ranked_metrics(document, challenge.ranked_paths)
    if challenge.publish.metrics == "ranked":
        return ranked
    for path in challenge.ranked_paths:  # "Score error" of the platform's columns
        with suppress(KeyError):
            keys = (DEVIATIONS, *path.split("."))
            _put(ranked, keys, reduce(getitem, keys, document))
    for number in range(len(_LESS_NEEDED) + 1):
        public = _merged(_without(document, _LESS_NEEDED[:number]), ranked)
        if len(as_json(public).encode()) <= PUBLISHED_BYTES:
            MetricsFile.model_validate(public)
            return public
    return ranked


PUBLISHED_BYTES = 100_000  # the platform reads the file for every row of its leaderboard
DEVIATIONS = "standard_deviations"
_LESS_NEEDED = (DEVIATIONS, "alternatives", "per_class")


def _without(tree: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return nested tables without some keys, and without tables that have no other keys than these.

    >>> _without({"a": {"b": 1, "c": 2}, "d": {"c": 3}, "undefined": {}}, {"c"})
    {'a': {'b': 1}, 'undefined': {}}
    """
    left = {key: _without(value, keys) if isinstance(value, Mapping) else value for key, value in tree.items()}
    return {key: value for key, value in left.items() if key not in keys and (value != {} or tree[key] == {})}


def _merged(tree: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested tables of two documents in one; if both have a value it is the same."""
    merged = dict(tree)
    for key, value in other.items():
        merged[key] = _merged(tree.get(key, {}), value) if isinstance(value, Mapping) else value
    return merged


def _ranked_metrics(document: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Return the part of metrics.json that ranks: the numbers at ``paths``, their parts, intervals, reasons and ranks.

    Raises pydantic's ValidationError as ``metrics_document`` does.
    """
    public = {key: document[key] for key in ("challenge", "software", "leaderboard") if key in document}
    public["undefined"] = {key: why for key, why in document["undefined"].items() if key == "leaderboard"}
    for path in chain.from_iterable(map(_with_parts, paths)):
        for table in ((), ("undefined",), ("confidence_intervals",), ("undefined", "confidence_intervals")):
            try:
                _put(public, (*table, *path), reduce(getitem, (*table, *path), document))
            except KeyError:  # no interval, nothing undefined, or no such part
                continue
    MetricsFile.model_validate(public)
    return public


def _with_parts(path: str) -> list[tuple[str, ...]]:
    """A path of metrics.json, and the paths of its parts, if they have paths.

    >>> _with_parts("detection.f1.pooled")[1:]
    [('detection', 'precision', 'pooled'), ('detection', 'recall', 'pooled')]
    """
    *family, name, aggregation = path.split(".")
    whole, mark, threshold = name.partition("_")
    names = [name, *(f"{part}{mark}{threshold}" for part in PARTS_OF_SCORES.get(whole, ()))]
    return [(*family, each, aggregation) for each in names]


def identity(challenge: Challenge) -> dict[str, str]:
    """The challenge: its name and version, and the hashes of the rules that scores and that ranks depend on."""
    hashes = {"hash": challenge.hash, "ranking_hash": challenge.ranking_hash}
    return {"name": challenge.name, "version": challenge.version, **hashes}


def software() -> dict[str, Any]:
    """The program that writes a document, and the version of its form."""
    return {"version": __version__, "format_version": FORMAT_VERSION}


def _put(tree: dict[str, Any], path: Iterable[str], value: Any) -> None:
    """Set a value at a path of nested tables."""
    *tables, key = path
    for table in tables:
        tree = tree.setdefault(table, {})
    tree[key] = value


def rounded(value: float | None) -> float | None:
    """Six decimals, so that the platform's exact comparison agrees with the printed numbers; never -0.0.

    Raises ValueError for NaN and infinity, which orjson would write as null.
    """
    return None if value is None else _round_one(float(value))


def _round_one(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return round(value, DECIMALS) + 0.0


def rounded_list(values: Float64) -> list[float]:
    """``rounded`` for many values, (N,).

    numpy also rounds the product with 10^6, which can create false ties: values near a tie, and large values, are
    rounded one by one.

    >>> rounded_list(np.array([2 / 3, 5e-7, -1e-9])), round(5e-7, 6)
    ([0.666667, 0.0, 0.0], 0.0)
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * 10**DECIMALS
        whole = np.rint(scaled)
        is_sure = (np.abs(np.abs(scaled - whole) - 0.5) > 1e-3) & (np.abs(scaled) < 2**40)
    numbers: list[float] = (whole / 10**DECIMALS + 0.0).tolist()
    for index in np.flatnonzero(~is_sure).tolist():
        numbers[index] = _round_one(float(values[index]))
    return numbers


def number(value: float | None) -> float | int | None:
    """Six decimals, integers without a point; None if unknown.

    >>> number(2.0), number(2.5), number(float("nan"))
    (2, 2.5, None)
    """
    if value is None or math.isnan(value):
        return None
    decimal = rounded(value) or 0.0
    return int(decimal) if decimal.is_integer() else decimal


class PValue(float):
    """A p-value, which is written with six significant digits, so that a small one is not 0."""

    def written(self) -> float | int | None:
        """The number as JSON contains it; None for NaN.

        >>> [PValue(value).written() for value in (0.012345678, 3.0000001e-12, 1.0)]
        [0.0123457, 3e-12, 1]
        """
        decimal = float(f"{self:.6g}")
        return None if math.isnan(self) else int(decimal) if decimal.is_integer() else decimal


def encoded(value: Any) -> Any:
    """A record as JSON contains it: the fields of a dataclass or a named tuple are keys, numbers are as in ``number``.

    Fields that are ``ABSENT`` are omitted, NaN becomes None, arrays become lists, and ``class_`` the key "class".

    >>> encoded({"a": Interval(0.5, math.nan), "b": (1.0, "c", None)})
    {'a': {'low': 0.5, 'high': None, 'reason': None}, 'b': [1, 'c', None]}
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value.written() if isinstance(value, PValue) else number(value)
    if is_dataclass(value):
        known = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name.removesuffix("_"): encoded(item) for name, item in known if item is not ABSENT}
    if isinstance(value, np.ndarray):
        return encoded(value.tolist())
    if hasattr(value, "_asdict"):
        return encoded(value._asdict())
    if isinstance(value, Mapping):
        return {key: encoded(item) for key, item in value.items()}
    return list(map(encoded, value)) if isinstance(value, list | tuple) else value


def as_json(document: Mapping[str, Any], *, lines: Sequence[str] = ()) -> str:
    """Write strict JSON with sorted keys; the same bytes for the same content.

    lines   tables with one line per entry: thousands of entries are less than half as large

    >>> print(as_json({"a": {"y": {"z": 1}, "x": [2, 3]}}, lines=["a"]), end="")
    {
      "a": {
        "x": [2,3],
        "y": {"z":1}
      }
    }
    """
    of_lines = {name: {key: _as_line(entry) for key, entry in document[name].items()} for name in lines}
    options = _JSON_OPTIONS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps({**document, **of_lines}, option=options).decode()


_JSON_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def _as_line(entry: Any) -> orjson.Fragment:
    """Write an entry of a table as one line, unless it is written."""
    return orjson.Fragment(entry if isinstance(entry, bytes) else orjson.dumps(entry, option=_JSON_OPTIONS))


# --- details.json -----------------------------------------------------------------------------------------------------


def _columns_of(record: RasterisationReport) -> dict[str, Any]:
    """Return the fields of a record by name; ``asdict`` copies each value."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


COVERAGES = tuple(round(0.05 * step, 2) for step in range(1, 21))


def case_head(result: CaseResult) -> dict[str, Any]:
    """Return what the entry of a case in details.json has beside its scores."""
    return {
        "group": result.case.group,
        "submitted": not result.missing,
        "ignored_predictions": result.ignored_predictions,
        "rasterisation": None if result.rasterisation is None else _columns_of(result.rasterisation),
        **({} if result.case.spacing_um is None else {"spacing_um": result.case.spacing_um}),
    }


def case_entries(
    challenge: Challenge, heads: Sequence[Mapping[str, Any]], units: Mapping[str, UnitScores]
) -> list[bytes]:
    """Write the entry of each case in details.json. ``units``: the cases, by the name of the matching rule."""
    measures = challenge.metrics.measures
    rules = {
        rule: _unit_entries(scored, np.arange(len(heads)), paired=rule != COUNTED, measures=measures)
        for rule, scored in units.items()
    }
    entries = ({**head, "rules": {rule: next(of_rule) for rule, of_rule in rules.items()}} for head in heads)
    # What orjson returns keeps several times its size.
    return [bytes(memoryview(orjson.dumps(entry, option=_JSON_OPTIONS))) for entry in entries]


def details_document(
    challenge: Challenge,
    cases: Mapping[Case, bytes],
    units: Mapping[str, Mapping[str, UnitScores]],
    scores: Mapping[str, Sequence[MetricScores]],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """The content of details.json as it is written: scores of a unit in the order of ``score_paths``.

    A patient with a single case has the scores of that case. ``expanded_details`` makes nested tables of it.

    cases   written content of each case
    units   ``units[rule]["groups" | "pooled" | "strata"]``
    scores  as in metrics.json; source of the numbers of units that were excluded from a mean, or penalised
    """
    members: dict[str, list[str]] = {}
    for case in cases:
        members.setdefault(case.group, []).append(case.name)
    rules: dict[str, dict[str, Any]] = {}  # by kind and name of the unit
    for rule, kinds in units.items():
        for kind in [kind for kind in kinds if kind != "cases"]:
            scored = kinds[kind]
            rows = [row for row, name in enumerate(scored.names) if kind != "groups" or len(members[name]) > 1]
            for row, entry in zip(
                rows, _unit_entries(scored, np.array(rows, np.int64), paired=rule != COUNTED), strict=True
            ):
                _put(rules, (kind, scored.names[row], rule), entry)
    document = {
        "challenge": {**identity(challenge), "rules": challenge.model_dump(mode="json", exclude={"cases"})},
        "software": {**software(), **({"unconfined": missing} if (missing := missing_here()) else {})},
        "classes": ["none", *challenge.class_names],
        "findings": render_findings(findings),
        "cases": {case.name: entry for case, entry in cases.items()},
        "groups": {
            group: {"cases": sorted(names)} | ({"rules": rules["groups"][group]} if len(names) > 1 else {})
            for group, names in members.items()
        },
        "score_paths": {rule: [".".join(path) for path in kinds["pooled"].scores] for rule, kinds in units.items()},
        "pooled": {"rules": rules["pooled"]["all"]},
        "means": {rule: _means_entry(metrics) for rule, metrics in scores.items()},
    }
    if "covered" in challenge.metrics.families:
        document["coverage_curves"] = coverage_curves(challenge, units)
    if "strata" in rules:
        document["strata"] = {stratum: {"rules": of_rules} for stratum, of_rules in rules["strata"].items()}
    return document


def coverage_curves(challenge: Challenge, units: Mapping[str, Mapping[str, UnitScores]]) -> dict[str, Any]:
    """The curves that pages draw: the quality of the best share of the reference nuclei, pooled, over the share.

    ``{"coverage": [0.05, …, 1], "rules": {rule: {"iou": […], "iou_class_mean": […], …}}}``; null if it is undefined.
    """
    choice = challenge.metric_choice()
    rules: dict[str, Any] = {}
    for rule, of_kind in units.items():
        rules[rule] = {}
        for metric in metrics_of(replace(choice, families=("covered",), metrics=()), class_aware=False):
            if metric.page != "covered.class_recall":
                name = metric.path[-1]
                curve = coverage_curve(
                    of_kind["pooled"].units,
                    cast(Measure, name.removesuffix("_class_mean")),
                    COVERAGES,
                    metric.highest if metric.better == "lower" else None,
                    by_class=name.endswith("_class_mean"),
                )
                values = curve.tolist()
                rules[rule][metric.path[-1]] = [None if math.isnan(value) else rounded(value) for value in values]
    return {"coverage": list(COVERAGES), "rules": rules}


def _unit_entries(
    of_kind: UnitScores, rows: Int64, *, paired: bool, measures: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield counts, scores and undefined values of some units of a kind.

    paired    False: nuclei of both sides were only counted, per class
    measures  of matched pairs in objects.csv: then all other sums are reported, too, so that
              pooled scores of any of these units can be computed again
    """
    units = of_kind.units
    shown = ("cases", "missing", "empty", "confusion", *(measures or ()))
    more = {} if measures is None else {name: units.sum(name)[rows] for name in units.table.sums if name not in shown}
    confusion, cases, missing = (units.sum(name)[rows] for name in ("confusion", "cases", "missing"))
    if paired:
        counts = {
            "true_positives": confusion[:, 1:, 1:].sum(axis=(1, 2)).tolist(),
            "false_positives": confusion[:, 0].sum(axis=1).tolist(),
            "false_negatives": confusion[:, :, 0].sum(axis=1).tolist(),
            "confusion_matrix": confusion.tolist(),
        }
    else:
        counts = {side: units.sum(f"count_{side}")[rows].tolist() for side in ("reference", "prediction")}
    counts = {"cases": cases.tolist(), "missing_cases": missing.tolist(), **counts}
    has_sums = np.zeros(len(rows), np.bool_)
    for values in more.values():
        has_sums |= values.reshape(len(values), -1).any(axis=1)
    sums = {name: values.tolist() for name, values in more.items()}
    columns: list[list[float | None]] = []
    undefined: list[dict[str, list[int]]] = [{} for _ in rows]
    for place, scores in enumerate(of_kind.scores.values()):
        reason = scores.reason[rows]
        columns.append([*rounded_list(np.where(reason == 0, scores.value[rows], 0.0))])
        for index in np.flatnonzero(reason).tolist():
            columns[place][index] = None
            undefined[index].setdefault(UNDEFINED_REASONS[reason[index] - 1], []).append(place)
    for index, reasons in enumerate(undefined):
        of_unit: dict[str, Any] = {key: of_all[index] for key, of_all in counts.items()}
        if has_sums[index]:
            of_unit["sums"] = {key: values[index] for key, values in sums.items()}
        yield {"counts": of_unit, "scores": [column[index] for column in columns], "undefined": reasons}


def expanded_details(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return details.json with the scores of each unit as nested tables, and the reasons at the same paths.

    Raises KeyError, IndexError, TypeError, AttributeError or RecursionError if scores and paths do not fit.

    >>> rules = {"iou": {"counts": {}, "scores": [0.5, None], "undefined": {"one-class": [1]}}}
    >>> written = {"score_paths": {"iou": ["detection.f1", "classification.mcc"]}, "pooled": {"rules": rules},
    ...            "cases": {}, "groups": {}}
    >>> expanded_details(written)["pooled"]["rules"]["iou"]["undefined"]
    {'classification': {'mcc': 'one-class'}}
    """
    paths = {rule: [tuple(path.split(".")) for path in of_rule] for rule, of_rule in document["score_paths"].items()}
    places = {rule: _tree_of({path: place for place, path in enumerate(of_rule)}) for rule, of_rule in paths.items()}

    def expanded(unit: Mapping[str, Any]) -> dict[str, Any]:
        rules = {}
        for rule, of_rule in unit["rules"].items():
            reasons = {paths[rule][place]: reason for reason, of in of_rule["undefined"].items() for place in of}
            scores, undefined = _filled(places[rule], of_rule["scores"]), _tree_of(reasons)
            rules[rule] = {**of_rule, "scores": scores, "undefined": undefined}
        return {**unit, "rules": rules}

    tables = {table: {name: expanded(unit) for name, unit in document[table].items()} for table in ("cases", "strata")
              if table in document}  # fmt: skip
    groups = {
        name: expanded(unit) if "rules" in unit else {**unit, "rules": _without_sums(tables["cases"][unit["cases"][0]])}
        for name, unit in document["groups"].items()
    }
    whole = {key: value for key, value in document.items() if key != "score_paths"}
    return {**whole, **tables, "groups": groups, "pooled": expanded(document["pooled"])}


def _without_sums(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of a case as scores of its patient, who has no other case."""
    return {
        rule: {**of_rule, "counts": {key: value for key, value in of_rule["counts"].items() if key != "sums"}}
        for rule, of_rule in case["rules"].items()
    }


def _tree_of(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        _put(tree, path, value)
    return tree


def _filled(places: Mapping[str, Any], row: Sequence[Any]) -> dict[str, Any]:
    """Return a list of places with their values as nested tables."""
    return {key: row[place] if isinstance(place, int) else _filled(place, row) for key, place in places.items()}


def _means_entry(metrics: Sequence[MetricScores]) -> dict[str, Any]:
    """For each mean its standard deviation over units, and how many entered it, were omitted and were penalised."""
    entry: dict[str, Any] = {}
    for metric in metrics:
        for aggregation, mean in metric.means.items():
            if aggregation != "pooled":
                units: dict[str, Any] = {
                    "units": mean.units, "left_out": mean.left_out, "penalised": mean.penalised,
                    "standard_deviation": rounded(mean.deviation),
                }  # fmt: skip
                _put(entry, (*metric.path, aggregation), units)
    return entry


# --- the forms of documents -------------------------------------------------------------------------------------------


# What the platform, rankings and notebooks may rely on in metrics.json, details.json and leaderboard.json.
# A form has a version, ``software.format_version``. New keys do not change it. One whose keys mean something else would
# have version 2, and this program would refuse it.


Key = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^.]+$")]
LARGEST_SCORE = 9e18  # no score is larger, and whatever ranks or draws it has room for whole numbers up to 2^63
Number = Annotated[float, Field(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]
ScoreTree = TypeAliasType("ScoreTree", "dict[Key, ScoreTree | Number | None]")
ReasonTree = TypeAliasType("ReasonTree", "dict[Key, ReasonTree | str]")


FormatVersion = Literal[1]
(FORMAT_VERSION,) = get_args(FormatVersion)
JsonTable = dict[str, Any]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def in_file(form: Any) -> GetPydanticSchema:
    """Describe a field of a record that has another type in its file than in the program."""
    return GetPydanticSchema(lambda _, handler: handler(form))


Value = Annotated[float, in_file(Number | None)]  # NaN is null
Values = Annotated[Float64, in_file(list[Number | None])]


class _StrictForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class ChallengeIdentity(_StrictForm):
    """Which rules the scores were created with: equal hashes, equal rules and cases.

    ``ranking_hash``: the hash of [ranking] and [audit].
    """

    name: str
    version: str
    hash: Hash
    ranking_hash: Hash


class Software(_StrictForm):
    version: str
    format_version: FormatVersion


class _Families(_StrictForm):
    """``<family>.<metric>.<aggregation>``; a family that the challenge does not use is absent."""

    detection: ScoreTree | None = None
    classification: ScoreTree | None = None
    segmentation: ScoreTree | None = None
    panoptic: ScoreTree | None = None
    covered: ScoreTree | None = None
    overall: ScoreTree | None = None
    thresholds: ScoreTree | None = None
    curves: ScoreTree | None = None
    sizes: ScoreTree | None = None
    overlap: ScoreTree | None = None
    objects: ScoreTree | None = None
    partition: ScoreTree | None = None
    counting: ScoreTree | None = None


class Leaderboard(_StrictForm):
    """The rank of this result among earlier results of the same challenge; under ``rank`` the paths of the columns.

    subtask  the rank by the columns of each subtask alone, if there are several
    """

    position: Number | None
    sum_of_ranks: Number | None
    submissions: Annotated[int, Field(ge=0)]
    rank: ScoreTree
    subtask: dict[Key, Number | None] = {}


class MetricsFile(_Families):
    """metrics.json: finite numbers, or null with the reason at the same path under ``undefined``; no dot in a key."""

    challenge: ChallengeIdentity
    software: Software
    leaderboard: Leaderboard | None = None
    alternatives: dict[Key, _Families] = {}
    confidence_intervals: ScoreTree | None = None
    standard_deviations: ScoreTree | None = None
    undefined: ReasonTree


class _SoftwareOfDetails(Software):
    """``unconfined``: missing confinements of the processes that decode submissions."""

    unconfined: list[str] = []


class _RulesOfDetails(ChallengeIdentity):
    rules: JsonTable


class _Open(BaseModel):
    """A part with optional further keys."""

    model_config = ConfigDict(strict=True, defer_build=True)


class _ScoredUnit(_Open):
    """Scores in the order of ``score_paths``; ``undefined``: the places without a score, by reason."""

    counts: JsonTable
    scores: list[Number | None]
    undefined: dict[str, list[int]]


class _OfUnit(_Open):
    """A case, a group, or all cases: counts, scores, and reasons for undefined scores, by matching rule."""

    rules: dict[str, _ScoredUnit]


class _OfGroup(_Open):
    """A patient; with a single case, ``rules`` are omitted, because the case has them."""

    cases: list[str]
    rules: dict[str, _ScoredUnit] | None = None


class _OfCase(_OfUnit):
    group: str
    submitted: bool
    spacing_um: float | None = None


class DetailsFile(_Open):
    """details.json, for administrators; ``metrics`` contains all scores where metrics.json was published with less."""

    challenge: _RulesOfDetails
    software: _SoftwareOfDetails
    classes: list[str]
    findings: list[str]
    cases: dict[str, _OfCase]
    groups: dict[str, _OfGroup]
    pooled: _OfUnit
    score_paths: dict[str, list[str]]
    means: dict[str, Any]
    metrics: MetricsFile | None = None


class ReferenceFile(_Open):
    """reference.json next to a leaderboard: the hash of the reference files of each case. For organisers."""

    cases: dict[str, str]


class StudyFile(_Open):
    """Common beginning of audit.json and sensitivity.json; only their pages read the rest."""

    challenge: ChallengeIdentity | None
    software: dict[str, str]


# --- tables as CSV, and objects.csv -----------------------------------------------------------------------------------


CELL_CHARACTERS = 200
PLAIN_CELL = re.compile(r"\w[\w ./:#-]*")
PLAIN_LINES = re.compile(rf"(?:\w[\w ./:#-]{{0,{CELL_CHARACTERS - 1}}}\n)*+")
FORMULA = re.compile(r"(^|[,;|])(\s*)(?=[=+\-@＝＋－＠])")  # wide signs count, too


def safe_cell(value: object, limit: int = CELL_CHARACTERS) -> object:
    """A cell as it is written. Numbers stay; a text loses its control characters, and its middle if it is long.

    An apostrophe is put before '=', '+', '-' or '@' at the start, or after other cell separators (';', '|').

    >>> safe_cell("12/7"), safe_cell(-5), safe_cell("=HYPERLINK(1)"), safe_cell("a\\nb;@c")
    ('12/7', -5, "'=HYPERLINK(1)", "a?b;'@c")
    """
    if not isinstance(value, str) or (len(value) <= limit and PLAIN_CELL.fullmatch(value)):
        return value
    text = value if len(value) <= limit else f"{value[: limit * 2 // 3]}…{value[-limit // 3 :]}"
    text = "".join(character if character.isprintable() else "?" for character in text)
    return FORMULA.sub(r"\1\2'", text)


def cell_text(value: object) -> str:
    """A safe cell as it is in a file, between commas.

    >>> cell_text(7), cell_text("a,b"), cell_text(None)
    ('7', '"a,b"', '')
    """
    text = "" if value is None else str(safe_cell(value))
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def cell_texts(values: Sequence[object]) -> Sequence[str]:
    """``cell_text`` of every text; fast for many plain texts.

    >>> cell_texts(["12/7", "a"]), cell_texts(["12/7", "a\\nb"]), cell_texts([7, "=1"])
    (['12/7', 'a'], ['12/7', 'a?b'], ['7', "'=1"])
    """
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        lines = "\n".join([*texts, ""])
        if lines.count("\n") == len(texts) and PLAIN_LINES.fullmatch(lines):
            return texts
    return list(map(cell_text, values))


def csv_table(header: Sequence[str], rows: Iterable[Iterable[object]], limit: int = CELL_CHARACTERS) -> str:
    """A table of safe cells, with its header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell, limit) for cell in row] for row in rows)
    return text.getvalue()


# --- objects.csv ------------------------------------------------------------------------------------------------------


OBJECT_COLUMNS = (
    "case",
    "group",
    "rule",
    "outcome",
    "reference_id",
    "reference_class",
    "reference_area_px",
    "prediction_id",
    "prediction_class",
    "prediction_area_px",
)
NEAREST_COLUMNS = ("kind", "row", "column", "nearest_id", "nearest_iou", "nearest_distance_px", "taken_by")
OBJECTS_AT_ONCE, OBJECTS_TOGETHER = 1 << 16, 1 << 13  # rows, and nuclei of several cases, that are written at a time
OUTCOMES = ("matched", "missed", "spurious", "ignored")


def objects_csv(results: Sequence[CaseResult], class_names: Sequence[str], measures: Sequence[str]) -> list[str]:
    """The object table as CSV, in parts: the header, then the rows of each case.

    One row per matched pair, false negative, false positive and ignored nucleus, in this order under every matching
    rule. After ``measures``, the last columns explain why a nucleus is not matched (docs/results.md). Cells
    without a value are empty: points have no area, and nuclei without pixels have no IoU, Dice and Hausdorff distance.
    Ids come from untrusted files: ``cell_texts``.
    """
    header = ",".join((*OBJECT_COLUMNS, *measures, *NEAREST_COLUMNS))
    names = np.array(["", *class_names], object)
    rows = [text for together in _alike(results) for text in _object_rows(together, names, measures)]
    return [f"{header}\n", *rows]


def _alike(results: Sequence[CaseResult]) -> Iterator[list[CaseResult]]:
    """Yield cases one after the other that have the same columns, small cases together: they are written as one."""
    batch: list[CaseResult] = []
    held, columns = 0, None
    for result in results:
        size, own = len(result.reference.area_px) + len(result.prediction.area_px), _columns_known(result)
        if batch and (own != columns or held + size > OBJECTS_TOGETHER):
            yield batch
            batch, held = [], 0
        batch.append(result)
        held, columns = held + size, own
    if batch:
        yield batch


def _columns_known(result: CaseResult) -> tuple[object, ...]:
    """Return the names of the columns that have values in a case, and which sides have areas."""
    sides = result.reference, result.prediction
    of_sides = [(list(side.kinds), bool(side.area_px.any())) for side in sides]
    of_rules = [(rule, list(result.counts[rule].measures), result.counts[rule].outlines) for rule in result.matches]
    return of_sides, of_rules, result.case.name if result.ignored else ""  # alone: ``_join_results`` leaves them out


def _join_results(results: Sequence[CaseResult]) -> tuple[CaseResult, tuple[Int64, Int64]]:
    """Return cases with the same columns as one case, as in objects.csv, and the case of each nucleus."""
    sides = [result.reference for result in results], [result.prediction for result in results]
    sizes = [np.array([len(side.area_px) for side in of_side]) for of_side in sides]
    first = [np.cumsum(size) - size for size in sizes]
    joined = [_join_lists(*of_side) for of_side in ((sides[0], first[1]), (sides[1], first[0]))]
    matches, counts = dict[str, Matches](), dict[str, MatchCounts]()
    for rule in results[0].matches:
        of_cases = [result.matches[rule] for result in results]
        index = [
            np.concatenate([getattr(one, f"{side}_index") + at for one, at in zip(of_cases, of_side, strict=True)])
            for side, of_side in zip(("reference", "prediction"), first, strict=True)
        ]
        pixels = [np.concatenate([getattr(one, name) for one in of_cases]) for name in ("intersection_px", "union_px")]
        matches[rule] = Matches(index[0].astype(np.int32), index[1].astype(np.int32), *pixels)
        measured = [result.counts[rule].measures for result in results]
        values = {name: np.concatenate([of_case[name] for of_case in measured]) for name in measured[0]}
        counts[rule] = replace(results[0].counts[rule], measures=values)
    one = replace(results[0], reference=joined[0], prediction=joined[1], matches=matches, counts=counts)
    case = [np.repeat(np.arange(len(results)), size) for size in sizes]
    return one, (case[0], case[1])


def _join_lists(lists: Sequence[ObjectList], first_other: Int64) -> ObjectList:
    """Return the nuclei of one side of several cases; ``first_other``: the first nucleus of the other side of each."""
    columns = {
        name: np.concatenate([getattr(of_case, name) for of_case in lists])
        for name in ("source_id", "class_id", "area_px", "centroid_yx", "nearest_iou", "nearest_px")
    }
    nearest = [np.where(one.nearest < 0, -1, one.nearest + at) for one, at in zip(lists, first_other, strict=True)]
    kinds = {rule: np.concatenate([one.kinds[rule] for one in lists]) for rule in lists[0].kinds}
    return ObjectList(**columns, nearest=np.concatenate(nearest), kinds=kinds)


def _object_rows(results: Sequence[CaseResult], names: npt.NDArray[Any], measures: Sequence[str]) -> list[str]:
    """Return the rows of each case in objects.csv; the cases have the same columns."""
    joined, case = (results[0], None) if len(results) == 1 else _join_results(results)
    texts = [_side_texts(side, names) for side in (joined.reference, joined.prediction)]
    labels = [[cell_text(result.case.name), cell_text(result.case.group)] for result in results]
    lines: list[str] = []
    places: list[Int64] = []
    for number, rule in enumerate(joined.matches):
        starts = np.array([",".join((*of_case, cell_text(rule))) for of_case in labels], object)
        for outcome, columns, rows in _object_columns(joined, rule, texts, names, measures):
            side = 1 if rows[0] is None else 0
            of_case = None if case is None else case[side][rows[side]]
            first = repeat(f"{starts[0]},{OUTCOMES[outcome]}") if of_case is None else (
                starts[of_case] + f",{OUTCOMES[outcome]}"
            ).tolist()  # fmt: skip
            lines += map(",".join, zip(first, *columns, strict=False))
            if of_case is not None:
                places.append((of_case * len(joined.matches) + number) * len(OUTCOMES) + outcome)
    if case is None:
        return ["\n".join([*lines, ""])]
    place = np.concatenate([*places, np.empty(0, np.int64)])
    ordered = [lines[index] for index in np.argsort(place, kind="stable").tolist()]
    ends = np.cumsum(np.bincount(place // (len(joined.matches) * len(OUTCOMES)), minlength=len(results))).tolist()
    return ["\n".join([*ordered[first:end], ""]) for first, end in pairwise([0, *ends])]


Cells = Iterable[str]
Indices = Int32 | Int64  # of instances of a side
BLANK: list[Cells] = [repeat("")]
_KIND_TEXTS = np.array(KINDS, object)
Texts = list[npt.NDArray[Any]]  # id, class and area of each instance of a side


def _side_texts(side: ObjectList, names: npt.NDArray[Any]) -> Texts:
    """The id, class and area of each instance of a side as texts, for all matching rules."""
    are_numbers = side.source_id.dtype.kind in "iu"
    ids, areas = side.source_id.tolist(), number_texts(side.area_px.tolist())
    texts = number_texts(ids) if are_numbers else cell_texts(ids)
    return [np.array(texts, object), names[side.class_id], np.array(areas, object)]


def _object_columns(
    result: CaseResult, rule: str, texts: Sequence[Texts], names: npt.NDArray[Any], measures: Sequence[str]
) -> Iterator[tuple[int, list[Cells], Sequence[Indices | None]]]:
    """Yield an outcome, its columns for some rows at a time, and the nuclei of both sides in these rows, if any.

    A text that all rows have is endless.
    """
    matches, counts = result.matches[rule], result.counts[rule]
    scored = list(zip((result.reference, result.prediction), texts, strict=True))
    matched = matches.reference_index, matches.prediction_index
    missed, spurious = (others(len(side.area_px), index) for (side, _), index in zip(scored, matched, strict=True))
    outcomes: list[tuple[int, list[tuple[ObjectList, Texts]], tuple[Indices | None, Indices | None], int]] = [
        (0, scored, matched, len(matches)),
        (1, scored, (missed, None), len(missed)),
        (2, scored, (None, spurious), len(spurious)),
    ]
    for name, ignored in result.ignored.items():
        every, own = np.arange(len(ignored.class_id)), (ignored, _side_texts(ignored, names))
        outcomes.append((3, [own, own], (every, None) if name == "reference" else (None, every), len(every)))
    for outcome, sides, indices, number in outcomes:
        for rows in blocks(number, OBJECTS_AT_ONCE):
            chosen = [None if index is None else index[rows] for index in indices]
            cells: list[Cells] = []
            for (side, of_side), index in zip(sides, chosen, strict=True):
                cells += _side_columns(of_side, side, index, counts)
            values = len(measures) * BLANK if outcome else _measure_columns(counts, rows, measures)
            reasons = _nearest_columns(sides, chosen, rule, matches if outcome < 3 else matches.part(slice(0), 0, 0))
            yield outcome, [*cells, *values, *reasons], chosen


def _nearest_columns(
    sides: Sequence[tuple[ObjectList, Texts]], chosen: Sequence[Indices | None], rule: str, matches: Matches
) -> list[Cells]:
    """The kind of each chosen instance, its best candidate on the other side, and the match of this candidate."""
    swapped = chosen[0] is None
    (own, (own_ids, *_)), (_, (other_ids, *_)) = sides[:: -1 if swapped else 1]
    rows = chosen[1] if chosen[0] is None else chosen[0]
    if rows is None or rule not in own.kinds:
        return len(NEAREST_COLUMNS) * BLANK
    kinds: Cells = _KIND_TEXTS[own.kinds[rule][rows]].tolist()
    centroids = [_texts_of_known(values) for values in own.centroid_yx[rows].T]
    if chosen[0] is not None and chosen[1] is not None:
        return [kinds, *centroids, *4 * BLANK]
    pairs = (matches.reference_index, matches.prediction_index)[:: -1 if swapped else 1]
    partner = np.full(len(other_ids) + 1, -1, np.int64)  # the last one stands for no candidate
    partner[pairs[1]] = pairs[0]
    nearest = own.nearest[rows]
    columns: list[Cells] = [np.append(other_ids, "")[nearest].tolist()]
    for values in (own.nearest_iou[rows], own.nearest_px[rows]):
        columns.append(_texts_of_known(np.where(nearest >= 0, values, np.nan)))
    return [kinds, *centroids, *columns, np.append(own_ids, "")[partner[nearest]].tolist()]


def _texts_of_known(values: Float64) -> list[str]:
    known = ~np.isnan(values)
    texts = number_texts(rounded_list(np.where(known, values, 0.0)))
    if known.all():
        return texts
    return [text if is_known else "" for text, is_known in zip(texts, known.tolist(), strict=True)]


def others(count: int, matched: Int32) -> Int64:
    """The indices of the unmatched instances of ``count``, ascending."""
    is_matched = np.zeros(count, np.bool_)
    is_matched[matched] = True
    return np.flatnonzero(~is_matched)


def _side_columns(texts: Texts, side: ObjectList, index: Indices | None, counts: MatchCounts) -> list[Cells]:
    """Id, class and area in px of the chosen instances of a side, empty for None; points have no area."""
    if index is None:
        return 3 * BLANK
    ids, classes, areas = (column[index].tolist() for column in texts)
    are_points = not counts.outlines and not side.area_px.any()
    return [ids, classes, repeat("") if are_points else areas]


def _measure_columns(counts: MatchCounts, pairs: slice, measures: Sequence[str]) -> list[Cells]:
    """The measures of pairs, written at once; empty cells for missing measures."""
    number = pairs.stop - pairs.start
    known = [counts.measures[name][pairs] for name in measures if name in counts.measures]
    texts = iter(number_texts(rounded_list(np.concatenate([np.empty(0), *known]))))
    return [list(islice(texts, number)) if name in counts.measures else repeat("") for name in measures]


def number_texts(values: Sequence[float]) -> list[str]:
    """Numbers as ``str`` writes them. orjson is faster, but writes exponents and numbers below 0.0001 differently.

    >>> number_texts([0.25, 3.0, 1e-05])
    ['0.25', '3.0', '1e-05']
    """
    text = orjson.dumps(values).decode()[1:-1]
    texts = text.split(",") if text else []
    if "e" in text or "0.0000" in text:
        return [str(value) if "e" in one or "0.0000" in one else one for one, value in zip(texts, values, strict=True)]
    return texts
