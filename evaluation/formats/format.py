"""What the program knows of a format beside its rules: the record at the end of each format's file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluation.formats.example import Example
from evaluation.model import Annotations, Case, Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format. ``docs/development.md`` says how to add one.

    words      what participants hand in
    read       the annotations of a case from a stream, a ``Request``, the case, and the files that go with it by key
    read_all   those of all cases from a stream, a ``Request`` and the cases by their names in such files
    example    a valid file for some cases (one of them, unless the file holds all), and for one class if it is given
    companion  an example of a file that goes with it, by the key that has its pattern
    """

    words: str
    read: Callable[..., Annotations] | None = None
    read_all: Callable[..., Collection] | None = None
    example: Callable[[Example, Sequence[Case], str | None], bytes]
    companion: Callable[[Example, str, Sequence[Case]], bytes] | None = None
