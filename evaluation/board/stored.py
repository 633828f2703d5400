"""Stored result files, and the key that identifies the inputs of a result."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from pydantic import ValidationError

from evaluation.challenge import LimitRules
from evaluation.files.decoding.csv import Table, read_table
from evaluation.files.decoding.json import JsonText, check_keys, read_json, resting_collector
from evaluation.files.results.documents import DetailsFile, MetricsFile, ReferenceFile, expanded_details
from evaluation.findings import quote
from evaluation.findings.errors import refused
from nuclei_metrics.model import Bool

KEY_FILE, RESULTS, REFERENCE_FILE = "key.json", "results", "reference.json"
RESULT_FILES = ("metrics.json", "details.json", "objects.csv")
HASH_BYTES = 1 << 20
KEY_FILE_BYTES = 1 << 20
METRICS_BYTES = 10_000_000
DETAILS_BYTES = 500_000_000
OBJECTS_BYTES = 500_000_000
OBJECTS_ROWS = 5_000_000


@dataclass(frozen=True, slots=True)
class Unranked:
    """A team without a rank: the code of the first thing that is wrong, and all of it in one line.

    values  in the columns of the ranking, if the team was scored; None: undefined
    """

    name: str
    code: str
    reason: str
    values: tuple[float | None, ...] = ()


# --- reading ---------------------------------------------------------------------------------------------------------


def read_metrics(path: Path, *, where: str) -> dict[str, Any]:
    """Read a metrics.json, also as the platform wraps it. Raises InputFault: not-metrics, …"""
    try:
        with path.open("rb") as stream:
            document = _unwrapped(read_json(stream, where=where, limits=LimitRules(bytes_per_file=METRICS_BYTES)))
        MetricsFile.model_validate(document)
    except (OSError, ValidationError, RecursionError) as error:
        raise refused("not-metrics", where, got=_why_refused(error)) from None
    metrics: dict[str, Any] = document
    return metrics


def _unwrapped(document: Any) -> Any:
    """Take the result out of the platform's list ``[{"interface": …, "value": …}]``; other values stay unchanged.

    >>> _unwrapped([{"interface": {"slug": "metrics-json-file"}, "value": {"challenge": {}}}])
    {'challenge': {}}
    """
    items = document if isinstance(document, list) else []
    values = [item.get("value") for item in items if isinstance(item, dict) and {"interface", "socket"} & item.keys()]
    return next((value for value in values if isinstance(value, dict) and "challenge" in value), document)


def _why_refused(error: OSError | ValueError | RecursionError) -> str:
    """Return why a document cannot be read, or the first thing that is wrong with its form, and where."""
    if isinstance(error, OSError):
        return (error.strerror or "not readable").lower()
    if not isinstance(error, ValidationError):
        return "tables nested too deeply" if isinstance(error, RecursionError) else "not JSON"
    problem = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in problem["loc"] if part != "function-after")
    return f"{quote(path, 100)} is wrong: {problem['msg'][:100].lower()}" if path else "no object of scores"


def read_details(path: Path, *, where: str) -> dict[str, Any]:
    """Read a details.json, as ``read_document`` does, with scores as nested tables."""
    document = read_document(path, DetailsFile.model_validate_json, where=where)
    try:
        return expanded_details(document)
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError):
        got = "a score without a path, or a patient without cases"
        raise refused("not-metrics", where, wording="not-our-form", got=got, name=path.name) from None


def read_reference_hashes(board: Path) -> dict[str, str] | None:
    """Read the hashes of the reference files of each case next to a leaderboard.json, or in its folder; None: unknown.

    Raises InputFault as ``read_document``.
    """
    path = (board if board.is_dir() else board.parent) / REFERENCE_FILE
    if not path.is_file():
        return None
    hashes: dict[str, str] = read_document(path, ReferenceFile.model_validate_json, where=quote(path.name))["cases"]
    return hashes


def read_document(path: Path, check_form: Callable[[bytes | bytearray], object], *, where: str) -> dict[str, Any]:
    """Read JSON that this program wrote, which may be large, and check its form.

    Raises InputFault: not-metrics, too-large, too-deep.
    """
    try:
        with path.open("rb") as stream:
            data = JsonText(stream, where, LimitRules(bytes_per_file=DETAILS_BYTES)).text
        with resting_collector():
            document: dict[str, Any] = orjson.loads(data)
        check_keys(data, where)
        check_form(data)
    except (OSError, ValidationError, RecursionError, orjson.JSONDecodeError) as error:
        raise refused("not-metrics", where, wording="not-our-form", got=_why_refused(error), name=path.name) from None
    return document


def read_objects(objects: Path | bytes | None) -> Table | None:
    """Read the table of an objects.csv, a file or its content; None if missing. Raises InputFault, OSError."""
    if objects is None or (isinstance(objects, Path) and not objects.is_file()):
        return None
    with BytesIO(objects) if isinstance(objects, bytes) else objects.open("rb") as stream:
        return read_table(stream, where="'objects.csv'", bytes_limit=OBJECTS_BYTES, rows_limit=OBJECTS_ROWS)


def rows_with(table: Table, column: str, text: str) -> Bool:
    """Find the rows with a text in a column."""
    texts, text_of_row = table.categories(table.need(column))
    return np.asarray(text_of_row == (texts.index(text) if text in texts else -1))


def all_metrics(metrics: Mapping[str, Any], details: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return all scores of a result: from its details.json if the published metrics.json has fewer."""
    unpublished = details.get("metrics") if details else None
    return unpublished if isinstance(unpublished, Mapping) else metrics


def score_or_nan(metrics: Mapping[str, Any], path: str) -> float:
    """Return the number at a path of metrics.json; NaN if it is null or not there."""
    node = value_at(metrics, path.split("."))
    return math.nan if node is None or isinstance(node, Mapping) else float(node)


def value_at(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    node: Any = tree
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


# --- what a result depends on ----------------------------------------------------------------------------------------


def add_text(digest: Any, *texts: str) -> None:
    """Hash texts, each with its length, so that no two lists of texts are the same bytes."""
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)


def add_file(digest: Any, name: str, stream: BinaryIO) -> None:
    """Hash the name of a file, and the hash of its content."""
    add_text(digest, name, hashed(stream))


def hashed(stream: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a stream, read in pieces."""
    digest = hashlib.sha256()
    while piece := stream.read(HASH_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashed(stream)


def read_key(folder: Path) -> dict[str, Any]:
    """Read the key file of a result folder; empty if missing or unreadable."""
    try:
        with (folder / KEY_FILE).open("rb") as stream:
            content = orjson.loads(stream.read(KEY_FILE_BYTES))
    except (OSError, orjson.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def holds_result(folder: Path, key: str, names: tuple[str, ...] = RESULT_FILES) -> bool:
    """Return whether a folder contains the complete, unchanged result (or rejection) for this key."""
    content = read_key(folder)
    files = content.get("files")
    if not key or content.get("key") != key:
        return False
    if not isinstance(files, dict):
        return rejection_in(content, "") is not None
    with suppress(OSError):
        return all(files.get(name) == file_hash(folder / name) for name in names)
    return False


def rejection_in(content: dict[str, Any], name: str) -> Unranked | None:
    """Return the team that a key file records as rejected, or None."""
    code, reason = content.get("code"), content.get("reason")
    return Unranked(name, code, reason) if isinstance(code, str) and isinstance(reason, str) else None


def forget(folder: Path) -> None:
    """Delete an outdated result, key file first, and its partial files.

    Other files in the folder stay.
    """
    for name in (KEY_FILE, *RESULT_FILES):
        (folder / name).unlink(missing_ok=True)
        for unfinished in folder.glob(f".{name}.????????"):
            unfinished.unlink()
