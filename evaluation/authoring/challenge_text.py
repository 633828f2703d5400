"""challenge.toml and cases.csv as texts, from tables."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TABLES = ("classes", "reference", "submission", "matching", "metrics", "aggregation", "ranking", "confidence")


def heading_of(preset: str) -> list[str]:
    return [
        f"Made by 'evaluation init': the rules of the preset '{preset}', and what differs from it.",
        f"All rules of the preset, with comments: 'evaluation explain presets {preset}', docs/presets.md#{preset}.",
    ]


def tables_above(preset: str, name: str) -> dict[str, Any]:
    """What every challenge.toml that takes a preset begins with."""
    return {"format_version": 1, "name": name, "version": "1", "preset": preset}


def challenge_text(heading: Sequence[str], document: Mapping[str, Any]) -> str:
    """The document as TOML: comments, single keys, then its tables in their usual order."""
    lines = [f"# {line}" for line in heading]
    lines += [f"{key} = {toml_value(value)}" for key, value in document.items() if key not in TABLES]
    for table in TABLES:
        value = document.get(table)
        if isinstance(value, Mapping):
            lines += ["", f"[{table}]", *(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())]
        elif value:
            for row in value:
                lines += ["", f"[[{table}]]", *(f"{toml_key(key)} = {toml_value(item)}" for key, item in row.items())]
    return "\n".join([*lines, ""])


def toml_value(value: Any) -> str:
    """A value on one line.

    >>> toml_value({"a b": [1, "x"], "c": True})
    '{ "a b" = [1, "x"], c = true }'
    """
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def toml_key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").replace("-", "").isalnum() else toml_string(key)


def toml_string(text: str) -> str:
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"'}.get(c, c if c.isprintable() else f"\\u{min(ord(c), 0xFFFF):04x}") for c in text
    )
    return f'"{escaped}"'


def table_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
