"""What the program knows of a format beside its rules: the record at the end of each format's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from typing_extensions import TypeVar

from evaluation.challenge import FormatRules, LimitRules
from evaluation.decoding.streams import COORDINATE_LIMIT
from evaluation.model import Annotations, Bool, ClassTable, Collection, Float64, Int32, Int64, Outlines


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


# --- What a reader has to know besides the bytes. ---------------------------------------------------------------------


RulesT = TypeVar("RulesT", bound=FormatRules, default=FormatRules, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[RulesT]):
    """How to read a file.

    where       the file, and its case if it has one, for messages; in quotes
    name        name of the file; its suffix tells image formats apart
    rules       the rules of the side that the file belongs to
    classes     how its files name the classes
    limits      bounds on what is read
    file_class  the class of everything in the file, if its path tells; 0: the file tells
    """

    where: str
    name: str
    rules: RulesT
    classes: ClassTable
    limits: LimitRules
    file_class: int = 0


# --- Coordinates in files: which numbers can be some, and what their units are worth. ---------------------------------


UM_PER_UNIT = {"um": 1.0, "mm": 1000.0}


def are_coordinates(numbers: Float64) -> Bool:
    """Which numbers are coordinates: between -1e9 and 1e9 px; NaN is none. The shape stays."""
    return np.asarray(np.abs(numbers) <= COORDINATE_LIMIT)


def um_and_spacing(units: str | None, spacing_um: float | Float64 | None) -> tuple[float, float | Float64 | None]:
    """The factor and the divisor that make px of coordinates: um for a unit, and um for a px.

    1 and None for px, or if a format has no units.
    """
    if units in (None, "px"):
        return 1.0, None
    return UM_PER_UNIT[units], np.nan if spacing_um is None else spacing_um


def outlines_of_rings(
    points_xy: Float64, size: Int64, owner: Int64 | Int32 | None = None, is_hole: Bool | None = None, **columns: Any
) -> Outlines:
    """Outlines of rings that follow each other, with so many vertices each, and the columns of their nuclei.

    owner    which nucleus each ring is a part of; None: each is one
    is_hole  None: no ring is one
    """
    return Outlines(
        points_xy=points_xy,
        ring_start=np.concatenate([np.zeros(1, np.int64), np.cumsum(size)]),
        ring_instance=np.asarray(np.arange(len(size)) if owner is None else owner, np.int32),
        ring_is_hole=np.zeros(len(size), np.bool_) if is_hole is None else is_hole,
        **columns,
    )
