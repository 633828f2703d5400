"""What the program knows of a format beside its rules: the record at the end of each format's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evaluation.model import Annotations, Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. ``docs/development.md`` says how to add one.

    words      what participants hand in
    explain    sentences for them about the keys that only this format has
    read       the annotations of a case from a stream, a ``Request``, the case, and the files that go with it by key
    read_all   those of all cases from a stream, a ``Request`` and the cases by their names in such files
    example    a valid file, from an ``Example``, its cases (one, unless the file holds all), and the name of its class,
               None if it holds all
    companion  one that goes with it, from an ``Example``, the key that has its pattern, and its cases
    """

    words: str
    explain: Callable[[Any], list[str]] = lambda _: []
    read: Callable[..., Annotations] | None = None
    read_all: Callable[..., Collection] | None = None
    example: Callable[..., bytes]
    companion: Callable[..., bytes] | None = None
