"""``findings.toml``, code by code: all of it takes tomllib 20 ms, the tables of one code take it 0.2."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("findings.toml")


@cache
def texts() -> dict[str, str]:
    """The tables of each code, as they are written."""
    parts = re.split(r"^(?=\[[a-z0-9-]+\]$)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part[1 : part.index("]")]: part for part in parts[1:]}


@cache
def entry(code: str) -> Mapping[str, Any]:
    """The page of a code, its usual wording, and tables of the others. Raises LookupError if there is no such code."""
    if code not in texts():
        raise LookupError(f"no finding has the code {code!r}")
    table: Mapping[str, Any] = tomllib.loads(texts()[code])[code]
    return table


@cache
def wording_of(code: str, wording: str) -> tuple[str, str, str]:
    """What is got, what is expected and what to do, as templates; "" for what it leaves to the caller.

    Raises LookupError if there is no such wording.
    """
    usual = entry(code)
    words = {**usual, **(usual[wording] if wording else {})}
    return on_one_line(words.get("got", "")), on_one_line(words.get("expected", "")), on_one_line(words.get("fix", ""))


def on_one_line(text: str) -> str:
    """A text that may stand in several lines of the file."""
    return " ".join(text.split())
