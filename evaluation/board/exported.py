"""The platform's export of a leaderboard as a folder of results: CSV of the page, or JSON of its API.

The platform has no download of a single metrics.json. Its export has a row for each evaluation, in which ``outputs``
and ``submission`` are JSON. Of each user the newest evaluation counts that succeeded, is published and has the hash of
the challenge as it is now: after a re-evaluation old results stay in the export.
"""

from __future__ import annotations

import csv
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import orjson

from evaluation.board.stored import METRICS_BYTES
from evaluation.challenge import Challenge, is_safe_name
from evaluation.files.results.documents import as_json
from evaluation.findings import counted, fault, quote
from evaluation.findings.errors import WrongUsage

_METRICS_SOCKET = "metrics-json-file"
_SUCCEEDED = "Succeeded"
_NEEDED = ("created", "outputs", "published", "status", "submission")


def unpack_export(path: Path, challenge: Challenge, folder: Path) -> list[str]:
    """Write ``<user>.json`` for each user of an export; return lines on omissions. Raises WrongUsage."""
    newest: dict[str, tuple[str, dict[str, Any]]] = {}
    left_out = Counter[str]()
    for row in _rows(path):
        user, metrics = row["user"], _metrics_of(row)
        if why := _why_left_out(row, user, metrics, challenge):
            left_out[why] += 1
            continue
        if user in newest:
            left_out["replaced by a newer submission of the user"] += 1
        if user not in newest or row["created"] > newest[user][0]:
            newest[user] = row["created"], metrics
    if not newest:
        raise WrongUsage(fault("no-teams", quote(path.name, 120), wording="in-results"))
    for user, (_, metrics) in newest.items():
        (folder / f"{user}.json").write_text(as_json(metrics), encoding="utf-8", newline="\n")
    return [f"Ignored: {counted(number, 'evaluation')}, {why}." for why, number in sorted(left_out.items())]


def _rows(path: Path) -> list[dict[str, Any]]:
    """Read the evaluations of an export. Raises WrongUsage for any other file."""
    try:
        text = path.read_text("utf-8-sig")
        if text.lstrip().startswith(("{", "[")):
            document = orjson.loads(text)
            rows = document["results"] if isinstance(document, dict) else document
        else:
            csv.field_size_limit(METRICS_BYTES)
            rows = list(csv.DictReader(StringIO(text, newline="")))
            for row in rows:
                row |= {key: orjson.loads(row[key]) for key in ("outputs", "submission")}
        if not rows:
            raise ValueError("no rows")
        evaluations = [{key: row[key] for key in _NEEDED} for row in rows]
        for row in evaluations:
            row["user"] = str(row["submission"]["creator"]["username"])
    except (OSError, csv.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        got = "no export of a leaderboard" + (f" (no {error})" if isinstance(error, KeyError) else "")
        raise WrongUsage(fault("not-metrics", quote(path.name, 120), wording="no-export", got=got)) from None
    return evaluations


def _metrics_of(row: dict[str, Any]) -> dict[str, Any]:
    """The content of the metrics.json of an evaluation; empty if missing."""
    for output in row["outputs"]:
        socket = output.get("socket") or output.get("interface") or {}
        if socket.get("slug") == _METRICS_SOCKET and isinstance(output.get("value"), dict):
            value: dict[str, Any] = output["value"]
            return value
    return {}


def _why_left_out(row: dict[str, Any], user: str, metrics: dict[str, Any], challenge: Challenge) -> str:
    """Return why an evaluation does not count, "" if it does."""
    if row["status"] != _SUCCEEDED:
        return "not succeeded"
    if str(row["published"]).casefold() != "true":
        return "not published"
    if metrics.get("challenge", {}).get("hash") != challenge.hash:
        return "of other rules or cases"
    return "" if is_safe_name(user) else "user name not usable as a file name"
