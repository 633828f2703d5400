"""ROI files of ImageJ: a header of 64 bytes, coordinates, and a second header with name and group; big-endian.

``ij/io/RoiDecoder.java`` in https://github.com/imagej/ImageJ. Coordinates count from the corner of the first pixel.
Not by roifile: 2026.2.10 takes an outline whose file is cut at 76 of 212 bytes without a word.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.decoding.streams import Damaged

Rings = list[npt.NDArray[np.float64]]

ROI_MAGIC = b"Iout"
HEADER_BYTES, HEADER2_BYTES = 64, 52
POLYGON, RECTANGLE, OVAL, FREEHAND, TRACED, POINT = 0, 1, 2, 7, 8, 10
KINDS = {3: "a line", 4: "a freehand line", 5: "a polyline", 6: "no ROI", 9: "an angle"}
SUBTYPES = {1: "a text", 2: "an arrow", 4: "an image"}
SUBPIXEL = 128
OVAL_STEPS = 32  # vertices of a quarter: the outline is at most 0.03 % of the radius too small
CURVE_STEPS = 16
MAX_RINGS = 1000
MAX_PATH = 100_000
COMMANDS = {0: 2, 1: 2, 2: 4, 3: 6, 4: 0}  # move, line, quadratic and cubic curve, close: how many numbers follow


@dataclass(frozen=True, slots=True)
class Roi:
    """A region.

    parts   of an area: the rings of each part, float64 (V, 2), x and y, the first one its outline, the others holes; of
            points one ring of them
    other   what it is, if it is neither an area nor points
    """

    parts: tuple[Rings, ...]
    is_point: bool
    name: str
    group: int
    other: str = ""


def read_roi(data: bytes) -> Roi:
    """What a .roi file describes. Raises Damaged."""
    if not data.startswith(ROI_MAGIC) or len(data) < HEADER_BYTES:
        raise Damaged("no ROI of ImageJ")
    version, kind, top, left, bottom, right, count = struct.unpack_from(">hBxhhhhH", data, 4)
    path_size, subtype, options, arc, header2 = struct.unpack_from(">i8xhh2xh4xi", data, 36)
    is_subpixel = bool(options & SUBPIXEL) and version >= 222
    name, group = name_and_group(data, header2)
    other = SUBTYPES.get(subtype, "") or KINDS.get(kind, "")
    if other or (kind == RECTANGLE and path_size <= 0 and arc > 0):
        return Roi((), False, name, group, other or "a rounded rectangle")
    if kind in (RECTANGLE, OVAL):
        if path_size > 0:
            return Roi(parts_of(rings_of_path(numbers_at(data, HEADER_BYTES, path_size, ">f4"))), False, name, group)
        box = [left, top, right - left, bottom - top]
        if is_subpixel and version >= 223:
            box = list(struct.unpack_from(">4f", data, 18))
        x, y, width, height = box
        ring = UNIT_SQUARE if kind == RECTANGLE else UNIT_OVAL
        return Roi(([ring * (width, height) + (x, y)],), False, name, group)
    if kind not in (POLYGON, FREEHAND, TRACED, POINT):
        raise Damaged(f"a ROI of the unknown type {kind}")
    if count == 0:
        (count,) = struct.unpack_from(">i", data, 18)
    if is_subpixel:
        ring = numbers_at(data, HEADER_BYTES + 4 * count, 2 * count, ">f4").reshape(2, -1).T
    else:
        ring = numbers_at(data, HEADER_BYTES, 2 * count, ">u2").reshape(2, -1).T + np.array([left, top])
    return Roi(([ring],), kind == POINT, name, group)


def name_and_group(data: bytes, header2: int) -> tuple[str, int]:
    """From the second header, which old files do not have."""
    if not 0 < header2 <= len(data) - HEADER2_BYTES:
        return "", 0
    start, length, group = struct.unpack_from(">ii6xB", data, header2 + 16)
    inside = start > 0 and length > 0 and start + 2 * length <= len(data)
    return data[start : start + 2 * length].decode("utf-16-be", "replace") if inside else "", group


def numbers_at(data: bytes, start: int, count: int, dtype: str) -> npt.NDArray[np.float64]:
    if not 0 <= count <= (len(data) - start) // np.dtype(dtype).itemsize:
        raise Damaged(f"{count:,} coordinates in {len(data):,} bytes")
    return np.frombuffer(data, dtype, count, start).astype(np.float64)


def oval() -> npt.NDArray[np.float64]:
    """A circle in the unit square: ((1 - t²) / (1 + t²), 2 t / (1 + t²)), which is the same on every machine."""
    t = np.arange(OVAL_STEPS) / OVAL_STEPS
    quarter = np.stack([(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)], axis=1)
    turned = quarter[:, ::-1] * (-1, 1)
    return np.concatenate([quarter, turned, -quarter, -turned]) / 2 + 0.5


UNIT_SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
UNIT_OVAL = oval()


def rings_of_path(path: npt.NDArray[np.float64]) -> Rings:
    """The rings of a composite ROI; curves become lines."""
    if len(path) > MAX_PATH:
        raise Damaged(f"a path of {len(path):,} numbers")
    rings: list[list[Any]] = []
    at = 0
    while at < len(path):
        command = path[at]
        size = COMMANDS.get(command, len(path))  # a number that is no command: more than there is
        if at + size >= len(path) or (command != 0 and not rings):
            raise Damaged("a path that cannot be followed")
        values = path[at + 1 : at + 1 + size].reshape(-1, 2)
        if command == 0:
            rings.append([])
        if command in (2, 3):
            rings[-1] += curve([rings[-1][-1], *values])
        else:
            rings[-1] += list(values)
        if len(rings) > MAX_RINGS:
            raise Damaged(f"more than {MAX_RINGS:,} parts")
        at += 1 + size
    return [np.array(ring) for ring in rings if len(ring) > 1]


def curve(controls: list[Any]) -> list[Any]:
    """Points of a Bézier curve, without its first, by de Casteljau's construction."""
    t = (np.arange(1, CURVE_STEPS + 1) / CURVE_STEPS)[:, np.newaxis]
    points = [np.broadcast_to(control, (CURVE_STEPS, 2)) for control in controls]
    while len(points) > 1:
        points = [(1 - t) * first + t * second for first, second in pairwise(points)]
    return list(points[0])


def parts_of(rings: Rings) -> tuple[Rings, ...]:
    """Outlines with their holes: rings that turn the other way than the largest one, in the box of one that does not.

    ImageJ writes outlines and holes in opposite directions.
    """
    if not rings:
        return ([],)
    areas = np.array([turning(ring) for ring in rings])
    is_outer = np.sign(areas) == np.sign(areas[np.abs(areas).argmax()])
    boxes = np.array([[*ring.min(axis=0), *-ring.max(axis=0)] for ring in rings])
    parts = [(boxes[index], [rings[index]]) for index in np.flatnonzero(is_outer)]
    alone = []
    for index in np.flatnonzero(~is_outer):
        around = [part for box, part in parts if (boxes[index] >= box).all()]
        if around:
            around[0].append(rings[index])
        else:
            alone.append([rings[index]])
    return (*(part for _, part in parts), *alone)


def turning(ring: npt.NDArray[np.float64]) -> float:
    """Twice the area of a ring, negative if it turns the other way."""
    x, y = (ring - ring[0]).T
    return float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))
