"""metrics.json: the scores, and nothing of the reference. Strict JSON, sorted keys, six decimals, no dot in a key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import getitem
from typing import Any

import numpy as np
import orjson

from evaluation.challenge import Challenge
from evaluation.model import Float64, Interval, MetricScores
from evaluation.results.schema import FORMAT_VERSION, MetricsFile
from evaluation.results.version import __version__

DECIMALS = 6
PARTS = {"f1": ("precision", "recall"), "pq": ("sq", "rq")}  # harmonic mean, product


def metrics_document(
    challenge: Challenge,
    scores: Mapping[str, Sequence[MetricScores]],
    intervals: Mapping[tuple[str, ...], Interval],
) -> dict[str, Any]:
    """The content of metrics.json.

    ``scores`` by the name of the matching rule; the first rule fills the top level, the others stand under
    ``alternatives.<name>``. ``intervals`` by the path of the number. A value is a number or null; for null the same
    path under ``undefined`` holds the reason.
    Raises pydantic's ValidationError if the document is not of the form that other tools rely on.
    """
    document: dict[str, Any] = {"challenge": identity(challenge), "software": software()}
    undefined: dict[str, Any] = {}
    for index, (rule, metrics) in enumerate(scores.items()):
        prefix = () if index == 0 else ("alternatives", rule)
        for metric in metrics:
            for aggregation, mean in metric.means.items():
                path = (*prefix, *metric.path, aggregation)
                put(document, path, rounded(mean.score.value))
                if mean.score.value is None:
                    put(undefined, path, mean.score.undefined)
    for path, interval in intervals.items():
        for end in ("low", "high"):
            put(document, ("confidence_intervals", *path, end), rounded(getattr(interval, end)))
        if interval.reason is not None:
            put(undefined, ("confidence_intervals", *path), interval.reason)
    document["undefined"] = undefined
    MetricsFile.model_validate(document)
    return document


def published_metrics(document: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """What of metrics.json participants may read: the numbers at ``paths``, their parts, intervals, reasons, and ranks.

    Raises pydantic's ValidationError as ``metrics_document`` does.
    """
    kept = {key: document[key] for key in ("challenge", "software", "leaderboard") if key in document}
    kept["undefined"] = {key: of for key, of in document["undefined"].items() if key == "leaderboard"}
    for path in chain.from_iterable(map(with_parts, paths)):
        for table in ((), ("undefined",), ("confidence_intervals",), ("undefined", "confidence_intervals")):
            try:
                put(kept, (*table, *path), reduce(getitem, (*table, *path), document))
            except KeyError:  # no interval, nothing undefined, or no such part
                continue
    MetricsFile.model_validate(kept)
    return kept


def with_parts(path: str) -> list[tuple[str, ...]]:
    """A path of metrics.json, and those of the numbers that it is made of, if they have names of their own.

    >>> with_parts("detection.f1.pooled")[1:]
    [('detection', 'precision', 'pooled'), ('detection', 'recall', 'pooled')]
    """
    *family, name, aggregation = path.split(".")
    whole, mark, threshold = name.partition("_")
    names = [name, *(f"{part}{mark}{threshold}" for part in PARTS.get(whole, ()))]
    return [(*family, each, aggregation) for each in names]


def identity(challenge: Challenge) -> dict[str, str]:
    """Which challenge: its name and version, and the hashes of the rules that scores and that places depend on."""
    hashes = {"hash": challenge.hash, "ranking_hash": challenge.ranking_hash}
    return {"name": challenge.name, "version": challenge.version, **hashes}


def software() -> dict[str, Any]:
    """The program that writes a document, and the version of its form."""
    return {"version": __version__, "format_version": FORMAT_VERSION}


def put(tree: dict[str, Any], path: Iterable[str], value: Any) -> None:
    """Set a value at a path of nested tables."""
    *tables, key = path
    for table in tables:
        tree = tree.setdefault(table, {})
    tree[key] = value


def rounded(value: float | None) -> float | None:
    """Six decimals, so that the platform's comparison for exact equality means what people read; never -0.0.

    Raises ValueError for NaN and infinity, which orjson would write as null.
    """
    return None if value is None else round_one(float(value))


def round_one(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return round(value, DECIMALS) + 0.0


def rounded_list(values: Float64) -> list[float]:
    """``rounded`` for many values, (N,).

    numpy's product with 10^6 is rounded, too, which can make a tie of what is none: values near a tie, and large ones,
    are rounded one by one.

    >>> rounded_list(np.array([2 / 3, 5e-7, -1e-9])), round(5e-7, 6)
    ([0.666667, 0.0, 0.0], 0.0)
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values * 10**DECIMALS
        whole = np.rint(scaled)
        is_sure = (np.abs(np.abs(scaled - whole) - 0.5) > 1e-3) & (np.abs(scaled) < 2**40)
    found: list[float] = (whole / 10**DECIMALS + 0.0).tolist()
    for index in np.flatnonzero(~is_sure).tolist():
        found[index] = round_one(float(values[index]))
    return found


def as_json(document: Mapping[str, Any]) -> str:
    """Strict JSON with sorted keys; the same bytes for the same content."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(document, option=options).decode()
