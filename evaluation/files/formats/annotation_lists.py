"""Annotations from a JSON parser as Python lists: checked, and converted to arrays in few steps.

A reader passes one annotation after the other, with unchanged lists of coordinates. They become arrays when a piece of
the file is complete: only loops of the interpreter and of NumPy touch single numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np

from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.streams import check_number
from evaluation.files.formats.format import Request, are_coordinates, outlines_of_rings, to_px
from evaluation.files.formats.sheet import NUMBERS, UNKNOWN, Sheet, json_of, numbers_in
from evaluation.findings import listed, quote
from nuclei_metrics.model import Bool, Case, Float64, Int64, Outlines, Points

NUCLEI_AT_ONCE = 1 << 12


class ListSheet(Sheet):
    """Rows of nuclei in file order. Subclasses store the shapes.

    number   of the current annotation, from 1, or from 0 if its place is an index
    numbers  of the annotation of each nucleus
    """

    probability_name = "probability"  # for messages

    def __init__(self, request: Request, place: Callable[[int], str]) -> None:
        super().__init__(request, place)
        self.number = 0
        self.numbers: list[int] = []
        self.class_id: list[int] = []
        self.source_id: list[Any] = []
        self.probability: list[Any] = []

    @property
    def here(self) -> str:
        """Return the place of the current annotation."""
        return self.place(self.number)

    def fault(self, code: str, number: int | None = None, /, **words: Any) -> None:
        """Record faults of the current annotation, or of an annotation by number."""
        self.faults.fault(code, self.place(self.number if number is None else number), **words)

    def class_of(self, name: object) -> int:
        """Return the class id of the current annotation: SKIPPED, or 0 for an unknown one, which is recorded."""
        class_id = self.look_up(name)
        if class_id == UNKNOWN:
            self.note_unknown(name, self.number)
            return 0
        return class_id

    def columns(self) -> dict[str, Any]:
        """Create the columns of all nuclei. Raises InputFault with all faults of the file."""
        values, probability = self.probability, None
        if values.count(None) < len(values):
            probability, is_missing = numbers_in(values)
            rows, names = (probability.reshape(-1, 1), is_missing.reshape(-1, 1)), [self.probability_name]
            self.check_probabilities(*rows, self.numbers, names, lambda row, _: json_of(values[row]))
        return self.checked_columns(self.class_id, self.source_id, probability)


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """The rings of some nuclei, in the order of the file.

    points_xy  float64 (V, 2)                    size     int64 (R,), vertices of each ring, at least one
    owner      int64 (R,), index of its nucleus  is_hole  bool (R,)
    """

    points_xy: Float64
    size: Int64
    owner: Int64
    is_hole: Bool


class NucleusLists(ListSheet):
    """The nuclei of a file, as they come: outlines or points, never both.

    closed  rings repeat their first vertex at the end, which is dropped

    Limits are checked before arrays are created. Coordinates become px by the units of the rules and the case.
    """

    def __init__(self, request: Request, case: Case, kind: str, *, closed: bool = False) -> None:
        super().__init__(request, lambda number: f"{kind} {number:,}")
        self.closed = closed
        self.of_points = request.rules.are_points
        self.scale = request.rules.value("units"), case.spacing_um
        self.counted = f"{kind}s or nuclei", "instances_per_case", request.where, request.limits
        self.most = request.limits.instances_per_case
        self.rings: list[Any] = []  # lists of positions, of the piece at hand
        self.ring_number: list[int] = []
        self.ring_instance: list[int] = []
        self.ring_is_hole: list[bool] = []
        self.vertices = 0
        self.points_xy: list[Float64] = [np.empty((0, 2))]
        self.ring_size: list[Int64] = [np.empty(0, np.int64)]

    # --- one annotation ---------------------------------------------------------------------------------------------

    def next_annotation(self) -> None:
        """Count an annotation, nucleus or not. Raises InputFault if there are more than nuclei may be in a case."""
        self.number += 1
        if self.number > self.most:  # a call for each annotation would be slow
            check_number(self.number, *self.counted)

    def refuse_shape(self, what: str, kind: str, wanted: Sequence[str], fix: str) -> None:
        """Record that the current annotation, or a part of it, does not have the shape of nuclei: it is a fault, or
        left out.
        """
        if self.request.rules.value("other_shapes") == "skip":
            wording = "geometry-left-out"
            self.left_out.fault("left-out", self.here, wording=wording, what=what, type=kind, wanted=wanted)
        else:
            wording = "other-geometry"
            self.fault("unsupported-shape", wording=wording, fix=fix, what=what, type=kind, wanted=wanted)

    def add_nucleus(self, positions: Any, class_id: int, source_id: object, probability: object = None) -> None:
        """Add a nucleus that is a point, or the outline of one ring."""
        if self.of_points:
            self.add_points([positions], class_id, [source_id], probability)
        else:
            self.add_outline([[positions]], class_id, source_id, probability)

    def add_outline(self, parts: list[list[Any]], class_id: int, source_id: object, probability: object = None) -> None:
        """Add a nucleus with one or more parts: lists of rings, which are lists of positions; the first ring is the
        outline, the rest are holes.

        Holes without a vertex are omitted, a part without a vertex is a fault.
        """
        instance = len(self.class_id)
        for part in parts:
            if not part or not part[0]:
                self.fault("empty-polygon")
                return
            is_hole = False
            for ring in part:
                if ring:
                    self.rings.append(ring)
                    self.ring_number.append(self.number)
                    self.ring_instance.append(instance)
                    self.ring_is_hole.append(is_hole)
                is_hole = True
        self.add_nuclei([source_id], class_id, probability)

    def add_points(self, positions: Any, class_id: int, source_ids: list[Any], probability: object = None) -> None:
        """Add nuclei that are points, with the same class and probability."""
        self.rings.append(positions)
        self.ring_number.append(self.number)
        self.add_nuclei(source_ids, class_id, probability)

    def add_nuclei(self, source_ids: list[Any], class_id: int, probability: object) -> None:
        """Add a row for each nucleus of the current annotation."""
        count = len(source_ids)
        if len(self.class_id) + count > self.most:
            check_number(len(self.class_id) + count, *self.counted)
        self.source_id += source_ids
        self.class_id += [class_id] * count
        self.probability += [probability] * count
        self.numbers += [self.number] * count

    # --- a piece of the file ----------------------------------------------------------------------------------------

    def add_outlines(self, rings: Rings, class_id: list[int], source_id: list[str], probability: list[Any]) -> bool:
        """Add all nuclei of a piece of the file; ``settle`` need not be called for it.

        False, and nothing is added, if a vertex is no usable coordinate. Raises InputFault: too-large.

        class_id, source_id, probability   of each nucleus
        """
        points = to_px(rings.points_xy, *self.scale)
        if not are_coordinates(points).all():
            return False
        count, before = len(class_id), len(self.class_id)
        numbers = range(self.number + 1, self.number + count + 1)
        self.number += count
        check_number(max(self.number, before + count), *self.counted)
        self.check_vertices(rings.size)
        self.keep(points, rings.size)
        self.ring_instance += (rings.owner + before).tolist()
        self.ring_is_hole += rings.is_hole.tolist()
        self.class_id += class_id
        self.source_id += source_id
        self.probability += probability
        self.numbers += numbers
        return True

    def settle(self) -> None:
        """Convert the coordinates read since the last call to arrays. Raises InputFault: too-large."""
        size = np.fromiter(map(len, self.rings), np.int64, len(self.rings))
        self.check_vertices(size)
        positions = list(chain.from_iterable(self.rings))
        points = to_px(_points_of(positions), *self.scale)
        self.check_positions(~np.all(are_coordinates(points), axis=1), size, positions)
        self.keep(points, size)
        self.rings.clear()
        self.ring_number.clear()

    def check_vertices(self, size: Int64) -> None:
        """Count the vertices of rings. Raises InputFault: too-large."""
        self.vertices += int(size.sum())
        check_number(self.vertices, "vertices", "vertices_per_file", self.request.where, self.request.limits)

    def keep(self, points: Float64, size: Int64) -> None:
        """Add the vertices of rings, in px, to the file."""
        if self.closed:
            points, size = _without_closing_vertices(points, size)
        self.points_xy.append(points)
        self.ring_size.append(size)

    def check_positions(self, is_wrong: Bool, size: Int64, positions: list[Any]) -> None:
        """Record vertices of the current piece that are not pairs of usable numbers."""
        stop, numbers = np.cumsum(size), np.array(self.ring_number)

        def at(vertex: int) -> tuple[str, str, str]:
            ring = int(np.searchsorted(stop, vertex, "right"))
            first, last = np.searchsorted(numbers, numbers[ring]), np.searchsorted(numbers, numbers[ring], "right")
            place = self.place(numbers[ring])
            if last - first > 1:
                place += f", ring {ring - first + 1}"
            if size[ring] > 1:
                place += f", vertex {vertex - stop[ring] + size[ring] + 1}"
            return place, "the position", json_of(positions[vertex])

        self.check_coordinates(is_wrong, at)

    # --- the whole file ---------------------------------------------------------------------------------------------

    def annotations(self) -> Annotations:
        """Return all nuclei, and ignored annotations. Raises InputFault with all faults of the file."""
        columns = self.columns()
        points_xy = np.concatenate(self.points_xy)
        if self.of_points:
            return Annotations((Points(points_xy, **columns),), tuple(self.left_out.findings()))
        owner, is_hole = np.array(self.ring_instance, np.int32), np.array(self.ring_is_hole, np.bool_)
        outlines = outlines_of_rings(points_xy, np.concatenate(self.ring_size), owner, is_hole, **columns)
        return Annotations((outlines,), tuple(self.left_out.findings()))


def _points_of(positions: list[Any]) -> Float64:
    """Convert positions [x, y] or [x, y, z] to float64 (V, 2); NaN for other values.

    >>> _points_of([[1, 2], [3, 4.5, 0], [True, 1]]).tolist()
    [[1.0, 2.0], [3.0, 4.5], [nan, nan]]
    """
    if set(map(type, positions)) == {list} and min(sizes := set(map(len, positions))) >= 2:
        of_one_size = positions if len(sizes) == 1 else map(itemgetter(0, 1), positions)
        numbers = list(chain.from_iterable(of_one_size))
        if NUMBERS.issuperset(map(type, numbers)):
            return np.array(numbers, np.float64).reshape(len(positions), -1)[:, :2]
    return np.array([_xy_or_nan(position) for position in positions], np.float64).reshape(-1, 2)


def _xy_or_nan(position: object) -> tuple[float, float]:
    if isinstance(position, list) and len(position) >= 2 and NUMBERS.issuperset(map(type, position[:2])):
        return position[0], position[1]
    return np.nan, np.nan


def _without_closing_vertices(points: Float64, size: Int64) -> tuple[Float64, Int64]:
    """Drop last vertices that repeat the first; return the vertices and the size of each ring."""
    stop = np.cumsum(size)
    last = stop[size > 1] - 1
    first = (stop - size)[size > 1]
    closing = last[(points[first] == points[last]).all(axis=1)]
    stays = np.ones(len(points), np.bool_)
    stays[closing] = False
    size = size.copy()
    size[np.searchsorted(stop, closing, "right")] -= 1
    return points.compress(stays, axis=0), size


def root_words(root: object) -> str:
    """Describe a value of a JSON file, for messages."""
    if isinstance(root, list):
        return "a list"
    if not isinstance(root, dict):
        return f"the value {quote(json_of(root))}"
    if isinstance(root.get("type"), str):
        return f"an object of the type {quote(root['type'])}"
    return f"an object with the keys {listed(root).replace(' or ', ' and ')}" if root else "an empty object"


# --- writing ----------------------------------------------------------------------------------------------------------


def names_and_probabilities(
    nuclei: Outlines | Points, class_names: Sequence[str]
) -> list[tuple[str | None, float | None]]:
    """Return the name of the class and the probability of each nucleus, None if missing.

    class_names  class id c has the name ``class_names[c - 1]``; 0 has no name

    Raises ValueError for other ids, such as ids of ignore classes.
    """
    class_id, probability = nuclei.class_id.tolist(), nuclei.probability
    if unknown := {*class_id} - {*range(len(class_names) + 1)}:
        raise ValueError(f"class id {min(unknown)} has no name; leave such nuclei out before writing")
    names = [None, *class_names]
    probabilities = [None] * len(class_id) if probability is None else probability.tolist()
    return [(names[each], value) for each, value in zip(class_id, probabilities, strict=True)]
