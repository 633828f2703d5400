"""From the counts of cases to the scores of the data set, and the result that the files are written from."""

from __future__ import annotations

import math
import pickle
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import StringIO
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson

from evaluation.challenge import Challenge
from evaluation.challenge.rules import PublishRules, RankingColumn, RankingRules
from evaluation.files.results.documents import (
    Ranks,
    as_json,
    case_entries,
    case_head,
    details_document,
    expanded_details,
    metrics_document,
    objects_csv,
    published_metrics,
)
from evaluation.files.results.files import write_together
from evaluation.findings import Finding, did_you_mean, fault, listed
from evaluation.findings.errors import ChallengeBroken
from nuclei_metrics.aggregation import (
    Bootstrap,
    Column,
    bootstrap,
    join_tables,
    mean_of_units,
    penalise,
    stack_cases,
    unite,
)
from nuclei_metrics.aggregation.units import PenalisedScores
from nuclei_metrics.metrics import FAMILIES, METRIC_FAMILIES, Metric, metrics_of
from nuclei_metrics.model.annotations import AGGREGATIONS, STRATUM_MEAN, AggregationUnit, Case
from nuclei_metrics.model.arrays import Float64
from nuclei_metrics.model.counts import (
    Better,
    CaseResult,
    CaseTable,
    Interval,
    MetricScores,
    SharedCounts,
    Units,
    UnitScores,
)
from nuclei_metrics.papers import meanings_of

if TYPE_CHECKING:
    import pandas

KINDS_OF_UNITS: Mapping[AggregationUnit, str] = {"pooled": "pooled", "group": "groups", "case": "cases"}
MEANS: Mapping[str, str] = {"pooled": "pooled", "groups": "group_mean", "cases": "case_mean"}
UNIT_OF_MEAN: Mapping[str, AggregationUnit] = {"pooled": "pooled", "group_mean": "group", "case_mean": "case"}


class ScoredCases:
    """Counted cases, sorted by group and name, with their data for scores and files.

    The processed cases are sent to another process; the rest stays packed until requested.

    writes  objects.csv will be written: each process makes the rows of its cases
    """

    writes = True

    def __init__(self, challenge: Challenge, results: Iterable[CaseResult], *, writes: bool = True) -> None:
        self.challenge, self.writes = challenge, writes
        self.results = tuple(sorted(results, key=lambda result: _place_of(result.case)))

    @classmethod
    def joined(cls, challenge: Challenge, parts: Sequence[ScoredCases]) -> ScoredCases:
        """Join the cases of a challenge; the cases of this process are processed together."""
        here = [part for part in parts if "results" in vars(part)]
        if here:
            results = chain.from_iterable(part.results for part in here)
            parts = [cls(challenge, results), *(part for part in parts if part not in here)]
        if len(parts) == 1 and here:
            return parts[0]
        cases = [case for part in parts for case in part.cases]
        order = sorted(range(len(cases)), key=lambda index: _place_of(cases[index]))
        rows, joined = np.array(order), cls.__new__(cls)
        heads = list(chain.from_iterable(part.heads for part in parts))
        tables = [part.tables for part in parts]
        vars(joined).update(
            challenge=challenge,
            cases=[cases[index] for index in order],
            tables={rule: join_tables([of_part[rule] for of_part in tables], rows) for rule in tables[0]},
            heads=[heads[index] for index in order],
            packed=list(chain.from_iterable(part.packed for part in parts)),
        )
        if "objects" in vars(parts[-1]):
            objects = list(chain.from_iterable(part.objects[1:] for part in parts))
            joined.objects = [parts[0].objects[0], *(objects[index] for index in order)]
        return joined

    @cached_property
    def results(self) -> tuple[CaseResult, ...]:
        results = chain.from_iterable(map(pickle.loads, self.packed))
        return tuple(sorted(results, key=lambda result: _place_of(result.case)))

    @cached_property
    def packed(self) -> list[bytes]:
        return [pickle.dumps(self.results)]

    @cached_property
    def cases(self) -> list[Case]:
        return [result.case for result in self.results]

    @cached_property
    def tables(self) -> dict[str, CaseTable]:
        """The counts of the cases, by matching rule."""
        passes = enumerate(self.challenge.matching.passes)
        return {rule: case_table(self.challenge, self.results, rule, primary=index == 0) for index, (rule, _) in passes}

    @cached_property
    def heads(self) -> list[dict[str, Any]]:
        """What details.json has of each case beside its scores."""
        return [case_head(result) for result in self.results]

    @cached_property
    def objects(self) -> list[str]:
        """The parts of objects.csv: the header, and the rows of each case."""
        return objects_csv(self.results, self.challenge.class_names, self.challenge.metrics.measures)

    def __getstate__(self) -> dict[str, Any]:
        names = ("cases", "tables", "heads", "packed", *(["objects"] if self.writes else []))
        return {name: getattr(self, name) for name in names}


def _place_of(case: Case) -> tuple[str, str]:
    return case.group, case.name


@dataclass(frozen=True, repr=False)
class Result:
    """A scored submission: all cases, and the scores of the data set.

    ``metrics``, ``details`` and ``objects`` are the contents of the files that the commands write.

    scored  its cases
    units   by the name of the matching rule ("counted" if missing), then "cases", "groups", "pooled", "strata"
    scores  by the name of the matching rule
    intervals  confidence intervals by the path of metrics.json; empty if the challenge does not ask for any
    ranks   by the path in the table ``leaderboard`` of metrics.json, each a number, or None with the reason for it
    """

    challenge: Challenge
    scored: ScoredCases
    units: dict[str, dict[str, UnitScores]]
    scores: dict[str, tuple[MetricScores, ...]]
    findings: tuple[Finding, ...] = ()
    intervals: Mapping[tuple[str, ...], Interval] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=dict)

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """The counts of each case."""
        return self.scored.results

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """metrics.json as nested tables; numbers are rounded to six decimals, undefined values are None."""
        return metrics_document(self.challenge, self.scores, self.intervals, self.ranks)

    @cached_property
    def entries(self) -> dict[Case, bytes]:
        """What details.json has of each case."""
        of_cases = {rule: kinds["cases"] for rule, kinds in self.units.items()}
        return dict(zip(self.scored.cases, case_entries(self.challenge, self.scored.heads, of_cases), strict=True))

    @cached_property
    def details(self) -> dict[str, Any]:
        """details.json as nested tables."""
        cases = {case.name: orjson.loads(entry) for case, entry in self.entries.items()}
        return expanded_details({**self.written_details, "cases": cases})

    @cached_property
    def written_details(self) -> dict[str, Any]:
        """details.json as it is written."""
        return details_document(self.challenge, self.entries, self.units, self.scores, self.findings)

    @cached_property
    def objects(self) -> str:
        """objects.csv: one row per matched pair, false negative and false positive, and matching rule."""
        return "".join(self.scored.objects)

    def value(self, path: str) -> float | None:
        """The number of a metric such as ``"panoptic.pq"``, as it is shown: the mean that the rules name.

        With an aggregation, ``"panoptic.pq.pooled"``, or any other path of metrics.json, the number that is there.
        A name that papers use, such as ``"AJI"`` or ``"mPQ+"``, is found as by ``evaluation explain``.
        None if it is undefined. Raises ValueError if missing, and for a name with several readings here.
        """
        if (found := self._number_at(path)) is not None:
            return found[0]
        meanings = meanings_of(str(path))
        here = {meaning: number for meaning in meanings if (number := self._number_at(meaning)) is not None}
        if len(set(here.values())) == 1:
            return next(iter(here.values()))[0]
        listed_here = "; ".join(f"{meaning} ({meanings[meaning]})" for meaning in here or meanings)
        if here:
            raise ValueError(f"{path!r} can mean {len(here)} scores; expected one of these paths: {listed_here}")
        if meanings and "." not in path:
            raise ValueError(f"no number for {path!r}, which is not measured here: {listed_here}")
        raise ValueError(f"no number at {path!r}; {self.near(str(path))}")

    def _number_at(self, path: str) -> tuple[float | None] | None:
        """Return the number at a path of metrics.json, None if it is undefined; no tuple if missing."""
        node: Any = self.metrics
        try:
            for key in path.split("."):
                node = node[key]
            if isinstance(node, Mapping):
                node = node[MEANS[KINDS_OF_UNITS[self.challenge.aggregation.unit]]]
            return (None if node is None else float(node),)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    def near(self, path: str) -> str:
        """A sentence that suggests similar paths, for a path without a number."""
        metrics = [(".".join(metric.path), metric.means) for metric in next(iter(self.scores.values()))]
        known = [name for name, _ in metrics] + [f"{name}.{mean}" for name, means in metrics for mean in means]
        last = path.rpartition(".")[2]
        same = [name for name in known if last and last in name.split(".")][:3]
        families = dict.fromkeys(name.partition(".")[0] for name, _ in metrics)
        if (family := path.partition(".")[0]) in FAMILIES and family not in families:
            return f"the metrics here are of the families {listed(families, 20)}"
        near = did_you_mean(path, known) or (f"Did you mean {listed(same)}?" if same else "")
        return f"expected a metric such as 'detection.f1', or a path of metrics.json. {near}".rstrip()

    def __repr__(self) -> str:
        cases = len(self.scored.cases)
        return f"Result({self.challenge.name!r}, {cases} {'case' if cases == 1 else 'cases'})"

    def to_frame(self, level: Literal["scores", "cases", "nuclei"] = "scores") -> pandas.DataFrame:
        """A pandas table. Needs pandas, the extra ``notebook``.

        scores  a row for each number of metrics.json: path, value, low, high
        cases   a row for each case: its group, its nuclei, and every score of it
        nuclei  the rows of objects.csv under the first matching rule: matched pairs, false negatives and false
                positives
        """
        pandas = import_pandas()
        if level not in (levels := ("scores", "cases", "nuclei")):
            raise ValueError(f"no level {level!r}; expected {listed(levels)}")
        rule = next(iter(self.scores))
        if level == "nuclei":
            nuclei = pandas.read_csv(StringIO(self.objects))
            return nuclei[nuclei["rule"] == rule].reset_index(drop=True)
        if level == "cases":
            units = self.units[rule]["cases"]
            frame = pandas.DataFrame({".".join(path): scores.value for path, scores in units.scores.items()})
            frame.insert(0, "case", list(units.names))
            frame.insert(1, "group", [case.group for case in self.scored.cases])
            return frame
        rows = []
        for metric in self.scores[rule]:
            for aggregation, mean in metric.means.items():
                path = (*metric.path, aggregation)
                interval = self.intervals.get(path, Interval(None, None))
                rows.append((".".join(path), mean.score.value, interval.low, interval.high))
        return pandas.DataFrame(rows, columns=["path", "value", "low", "high"])

    def texts(self, *, public: bool = False) -> dict[str, str]:
        """The contents of the files by their names, in the order in which they are written.

        public   for the platform: [publish] defines the content of metrics.json and the names of the other files, and
                 details.json contains all scores under ``metrics`` if metrics.json does not
        """
        details, metrics = self.written_details, self.metrics
        names = PublishRules.model_construct()
        if public:
            names, metrics = self.challenge.publish, published_metrics(metrics, self.challenge)
            details = details if metrics == self.metrics else {**details, "metrics": self.metrics}
        return {
            names.details: as_json(details, lines=("cases", "groups")),
            names.objects: self.objects,
            "metrics.json": as_json(metrics),
        }

    def write(self, folder: Path | str, *, public: bool = False) -> None:
        """Write details.json, objects.csv and, last, metrics.json: if it exists, all files exist. ``public`` as in
        ``texts``.
        """
        write_together(Path(folder), self.texts(public=public))


def rank_paths(rules: RankingRules) -> list[tuple[str, ...]]:
    """The ranks in the table ``leaderboard`` of metrics.json: by all columns, their sum, and in each column."""
    return [("position",), ("sum_of_ranks",), *(("rank", *column.path.split(".")) for column in rules.columns)]


def import_pandas() -> Any:
    """pandas. Raises ImportError with a remedy."""
    try:
        import pandas
    except ImportError:
        raise ImportError("tables need pandas; install it: pip install pandas") from None
    return pandas


def summarise(
    challenge: Challenge, cases: Iterable[CaseResult] | ScoredCases, findings: Sequence[Finding] = ()
) -> Result:
    """Add up the cases and score every unit: each case, each group, and all pooled, under each matching rule."""
    scored = cases if isinstance(cases, ScoredCases) else ScoredCases(challenge, cases)
    units, scores = {}, {}
    intervals: dict[tuple[str, ...], Interval] = {}
    for index, (rule, metrics) in enumerate(_metrics_of_rules(challenge).items()):
        units[rule], by_metric = _score_units(metrics, scored, rule, challenge)
        scores[rule] = tuple(
            _average_units(metric, by_metric[metric.path], units[rule], scored.cases, challenge) for metric in metrics
        )
        prefix = ("alternatives", rule) if index else ()
        table = scored.tables[rule]
        of_cases = {path: of_metric["cases"] for path, of_metric in by_metric.items()}
        intervals |= confidence_intervals(challenge, scored.cases, table, metrics, scores[rule], prefix, of_cases)
    return Result(challenge, scored, units, scores, tuple(findings), intervals)


def _metrics_of_rules(challenge: Challenge) -> dict[str, tuple[Metric, ...]]:
    """The metrics under each matching rule."""
    return {
        rule: metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0)
        for index, (rule, class_aware) in enumerate(challenge.matching.passes)
    }


def case_table(challenge: Challenge, cases: Sequence[CaseResult], rule: str, *, primary: bool) -> CaseTable:
    shared = [result.shared for result in cases]
    if not primary:  # every rule needs the numbers of nuclei of each size, and nothing else of these
        shared = [SharedCounts({k: v for k, v in of_case.sums.items() if k == "size_nuclei"}) for of_case in shared]
    measures, areas_mm2 = challenge.metric_choice().measures, [challenge.area_mm2(result.case) for result in cases]
    return stack_cases([result.counts[rule] for result in cases], shared, measures=measures, areas_mm2=areas_mm2)


def _members_of(cases: Sequence[Case]) -> dict[str, dict[str, list[int]]]:
    """List the rows of the cases in every unit, by kind and name; there are strata only if cases.csv has some."""
    groups: dict[str, list[int]] = {}
    strata: dict[str, list[int]] = {}
    for row, case in enumerate(cases):
        groups.setdefault(case.group, []).append(row)
        strata.setdefault(case.stratum, []).append(row)
    members = {"cases": {case.name: [row] for row, case in enumerate(cases)}, "groups": groups}
    members["pooled"] = {"all": list(range(len(cases)))}
    if "" not in strata:
        members["strata"] = dict(sorted(strata.items()))
    return members


# A metric as it enters means over the units of a kind, by the path of the metric, then the kind.
PenalisedByMetric = dict[tuple[str, ...], dict[str, PenalisedScores]]


def _score_units(
    metrics: Sequence[Metric], scored: ScoredCases, rule: str, challenge: Challenge
) -> tuple[dict[str, UnitScores], PenalisedByMetric]:
    """The units of every kind under one matching rule: every formula is evaluated once, for all unions of cases."""
    table, members = scored.tables[rule], _members_of(scored.cases)
    of_units = [rows for of_kind in members.values() for rows in of_kind.values()]
    unions = [rows for rows in of_units if len(rows) > 1]
    numbers = iter(range(len(table), len(table) + len(unions)))
    place = np.array([next(numbers) if len(rows) > 1 else rows[0] for rows in of_units])
    bounds = accumulate((len(of_kind) for of_kind in members.values()), initial=0)
    places = {kind: place[slice(*ends)] for kind, ends in zip(members, pairwise(bounds), strict=True)}
    together = unite(table, [*([row] for row in range(len(table))), *unions])
    by_metric, units = {}, {}
    for metric in metrics:
        scores_of_all = penalised(metric, together, challenge)
        by_metric[metric.path] = {kind: scores_of_all.part(at) for kind, at in places.items()}
    for kind, of_kind in members.items():
        scores = {path: of_metric[kind].scores for path, of_metric in by_metric.items()}
        units[kind] = UnitScores(tuple(of_kind), unite(table, list(of_kind.values())), scores)
    return units, by_metric


def _average_units(
    metric: Metric,
    of_metric: Mapping[str, PenalisedScores],
    units: Mapping[str, UnitScores],
    cases: Sequence[Case],
    challenge: Challenge,
) -> MetricScores:
    """One metric: pooled, and its means over groups, cases and, if there are some, strata."""
    means = {name: mean_of_units(of_metric[kind]) for kind, name in MEANS.items()}
    if "strata" in of_metric:
        unit = challenge.aggregation.unit
        kind = "strata" if unit == "pooled" else KINDS_OF_UNITS[unit]
        strata = _strata_of(units[kind].names, kind, cases)
        means[STRATUM_MEAN] = mean_of_units(of_metric[kind], strata)
    return MetricScores(metric.path, means)


def confidence_intervals(
    challenge: Challenge,
    cases: Sequence[Case],
    table: CaseTable,
    metrics: Sequence[Metric],
    scores: Sequence[MetricScores],
    prefix: tuple[str, ...],
    of_cases: Mapping[tuple[str, ...], PenalisedScores],
) -> dict[tuple[str, ...], Interval]:
    """The required confidence intervals under one matching rule, by their paths in metrics.json.

    prefix    of the paths of the rule: "" for the first rule. Undefined numbers have no entry.
    of_cases  the scores of the cases by metric
    """
    rules = challenge.confidence
    if rules is None:
        return {}
    main = next(name for name in aggregations_of(challenge) if name.startswith(challenge.aggregation.unit))
    wanted = {tuple(path.split(".")) for path in rules.columns}
    chosen = [
        (index, aggregation)
        for index, metric in enumerate(metrics)
        for aggregation, mean in scores[index].means.items()
        if mean.score.value is not None
        and (
            (*prefix, *metric.path, aggregation) in wanted
            if wanted
            else not prefix and aggregation == main and "per_class" not in metric.path
        )
    ]
    indices = sorted({index for index, _ in chosen})
    columns = [
        Column(
            indices.index(index),
            challenge.aggregation.unit if aggregation == STRATUM_MEAN else UNIT_OF_MEAN[aggregation],
            of_strata=aggregation == STRATUM_MEAN,
            bounds=(metrics[index].lowest, _highest(metrics[index], table)),
        )
        for index, aggregation in chosen
    ]

    def evaluate(units: Units) -> Float64:
        return np.stack([penalised(metrics[index], units, challenge).value for index in indices], axis=1)

    groups, strata = (
        np.unique([getattr(case, name) for case in cases], return_inverse=True)[1] for name in ("group", "stratum")
    )
    settings = Bootstrap(rules.samples, rules.seed, rules.level, rules.method, rules.resample)
    intervals: tuple[Interval, ...] = ()
    if columns:
        of_case = np.stack([of_cases[metrics[index].path].value for index in indices], axis=1)
        intervals = bootstrap(table, groups, columns, evaluate, settings, strata=strata, of_case=of_case)
    few = [
        index for index in indices if rules.method == "by_groups" and _has_few_nuclei(challenge, table, metrics[index])
    ]
    return {
        (*prefix, *metrics[index].path, aggregation): (
            Interval(None, None, "few-nuclei") if interval.reason is None and index in few else interval
        )
        for (index, aggregation), interval in zip(chosen, intervals, strict=True)
    }


def _highest(metric: Metric, table: CaseTable) -> float:
    """Return the bound of the values of a metric: for distances the longest diagonal of the images."""
    return float(table.largest[metric.worst].max()) if isinstance(metric.worst, str) else metric.highest


FEWEST_NUCLEI = 50  # of the reference, of which "by_groups" makes an interval: docs/confidence.md


def _has_few_nuclei(challenge: Challenge, table: CaseTable, metric: Metric) -> bool:
    """Return whether the reference has too few nuclei for an interval, or too few of the class of a metric."""
    if challenge.are_counts:
        return False
    of_class = table.sums["confusion"].sum(axis=(0, 2))[1:]
    if "per_class" in metric.path:
        of_class = of_class[[challenge.class_names.index(metric.path[metric.path.index("per_class") + 1])]]
    return int(of_class.sum()) < FEWEST_NUCLEI


def penalised(metric: Metric, units: Units, challenge: Challenge) -> PenalisedScores:
    """Give penalised units the worst value, before means over units."""
    undefined, worst = challenge.aggregation.undefined, metric.worst_of(units)
    return penalise(metric.evaluate(units), units, worst, undefined=undefined, counts_missed=metric.counts_missed)


def _strata_of(names: Sequence[str], kind: str, cases: Sequence[Case]) -> list[list[int]]:
    """The indices of the units of each stratum; strata themselves are separate units."""
    name_of_unit = {"strata": "stratum", "groups": "group", "cases": "name"}[kind]
    stratum_of = {getattr(case, name_of_unit): case.stratum for case in cases}
    strata: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        strata.setdefault(stratum_of[name], []).append(index)
    return [strata[name] for name in sorted(strata)]


def aggregations_of(challenge: Challenge) -> tuple[str, ...]:
    """The names of the aggregations that results of a challenge have."""
    has_strata = bool(challenge.cases) and all(case.stratum for case in challenge.cases)
    return (*MEANS.values(), *([STRATUM_MEAN] if has_strata else []))


# --- columns that may be named ----------------------------------------------------------------------------------------


AGGREGATIONS_OF_MEANS = (*AGGREGATIONS, STRATUM_MEAN)


def check_columns(challenge: Challenge) -> None:
    """Refuse columns of a ranking, or of confidence intervals, that no result can have."""
    columns = {
        "ranking.columns": challenge.ranking.paths if challenge.ranking else (),
        "ranking.require": challenge.ranking.floor_paths if challenge.ranking else (),
        "confidence.columns": challenge.confidence.columns if challenge.confidence else (),
    }
    if not any(columns.values()):
        return
    metrics = {
        ".".join((*prefix, *metric.path)): metric
        for index, (rule, class_aware) in enumerate(challenge.matching.passes)
        for prefix in [("alternatives", rule) if index else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=class_aware, primary=index == 0)
    }
    known = {f"{metric}.{aggregation}" for metric in metrics for aggregation in aggregations_of(challenge)}
    faults = [
        _unknown_column(challenge, f"challenge.toml: {key}", path, metrics, known)
        for key, paths in columns.items()
        for path in paths
        if path not in known
    ]
    faults += [
        fault("contradictory-rules", "challenge.toml: ranking.require", wording="no-floor", path=path)
        for path in columns["ranking.require"]
        if path in known and not _is_score(metrics[path.rpartition(".")[0]])
    ]
    if challenge.ranking:
        better = {f"{metric}.{name}": metrics[metric].better for metric in metrics for name in AGGREGATIONS_OF_MEANS}
        faults += wrong_directions("challenge.toml: ranking.columns", challenge.ranking.columns, better)
    if faults:
        raise ChallengeBroken(*faults)


def wrong_directions(where: str, columns: Iterable[RankingColumn], better: Mapping[str, Better]) -> list[Finding]:
    """List ranked columns with the wrong direction for their metric: they would put the worst team first."""
    expected = {"higher": "descending", "lower": "ascending"}
    return [
        fault(
            "contradictory-rules",
            where,
            wording="wrong-direction",
            path=column.path,
            direction=column.direction,
            better=better[column.path],
            right=expected[better[column.path]],
        )
        for column in columns
        if expected.get(better.get(column.path, ""), column.direction) != column.direction
    ]


def better_by_name(paths: Iterable[str]) -> dict[str, Better]:
    """Return which direction is better at paths of a table of scores that name a metric of this program.

    A path may be the bare name of a metric, in any case, with or without its unit.

    >>> better_by_name(["F1", "hausdorff", "panoptic.pq.group_mean", "price"])
    {'F1': 'higher', 'hausdorff': 'lower', 'panoptic.pq.group_mean': 'higher'}
    """
    named = {path: {metric.better for metric in metrics} for path, metrics in _metrics_by_name(paths).items()}
    return {path: better.pop() for path, better in named.items() if len(better) == 1}


def worst_by_name(paths: Iterable[str]) -> dict[str, float]:
    """Return the worst value of the metric that a path of a table of scores names; None if it is unknown or unbounded.

    >>> worst_by_name(["f1", "kappa", "hausdorff", "price"])
    {'f1': 0.0, 'kappa': -1.0}
    """
    named = {
        path: {metric.lowest if metric.better == "higher" else math.inf for metric in metrics}
        for path, metrics in _metrics_by_name(paths).items()
    }
    return {path: ends.pop() for path, ends in named.items() if len(ends) == 1 and math.isfinite(min(ends))}


def _metrics_by_name(paths: Iterable[str]) -> dict[str, list[Metric]]:
    """List the metrics of this program that a path of a table of scores may name, as here or in papers."""
    from evaluation.findings.metric_pages import general_path  # which few commands need

    metrics = {}
    for path in paths:
        words = general_path(path.split("."))
        meanings = [meaning.split(".") for meaning in (meanings_of(words[0]) if len(words) == 1 else [path])]
        keys = {key for meaning in meanings for key in (tuple(meaning), general_path(meaning))}
        known = chain.from_iterable(METRIC_FAMILIES.values())
        if found := [one for one in known if keys & {one.path, tuple(key for key in one.path if key[0] != "<")}]:
            metrics[path] = found
    return metrics


def _is_score(metric: Metric) -> bool:
    """Return whether a number can have a minimum: it is a score from 0 to 1 where higher is better."""
    return metric.better == "higher" and metric.highest == 1.0


def _unknown_column(
    challenge: Challenge, where: str, path: str, metrics: Collection[str], known: Collection[str]
) -> Finding:
    """The finding for a path that no result of a challenge has.

    Its family is not requested, it is a mean over strata without strata, or anything else.
    """
    family, listed = path.partition(".")[0], challenge.metrics.family_names
    if family in FAMILIES and family not in listed:
        return fault("invalid-rule", where, wording="family-not-listed", path=path, family=family, listed=listed)
    metric, _, aggregation = path.rpartition(".")
    if aggregation == STRATUM_MEAN and metric in metrics:
        return fault("contradictory-rules", where, wording="cases-without-stratum", path=path)
    return fault("invalid-rule", where, wording="unknown-column", name=path, known=known)
