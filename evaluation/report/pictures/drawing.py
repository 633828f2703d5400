"""Outlines of both sides on the image: solid ones are the reference, broken ones the prediction.

Lines follow the borders of pixels exactly, at any scale, and have a dark edge, so that they are seen on any tissue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.instances.runs import select_instances
from evaluation.instances.trace import trace_outlines
from evaluation.model import Float64, Instances, Int64, Outlines, Region
from evaluation.report.illustrated import STATE_COLOURS, STATES
from evaluation.report.pictures.views import View

Rgb = npt.NDArray[np.uint8]
Side = Literal["reference", "prediction"]

PLAIN = (244, 244, 244)  # background without an image
BODY = (222, 222, 228)  # of a nucleus there
EDGE = (255, 255, 255)  # of lines on an image
DASH, GAP = 5, 4  # px along broken lines
EDGE_PX = 3  # how far a line reaches, with its edge
NUCLEI_AT_ONCE = 20_000  # whose outlines are held together
HATCH = 6  # px between the lines of an ignore region
ORDER = tuple(
    STATES.index(state) for state in ("ignored", "matched", "wrong_class", "spurious", "missed")
)  # last on top
MATCHED = STATES.index("matched")
COLOURS: Mapping[int, tuple[int, int, int]] = {
    index: tuple(bytes.fromhex(STATE_COLOURS[state][1:]))  # type: ignore[misc]
    for index, state in enumerate(STATES)
}


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSide:
    """Nuclei of one side of a case, outlines or points, with the state of each, int8 (N,)."""

    side: Side
    instances: Instances
    state: npt.NDArray[np.int8]

    @property
    def points_xy(self) -> Float64 | None:
        """Points, from the corner of the image; None for nuclei with outlines."""
        points_yx = self.instances.point_yx
        return None if points_yx is None else points_yx[:, ::-1] + 0.5

    def traced(self, view: View) -> Iterator[tuple[Int64, Outlines]]:
        """Indices and outlines of the nuclei with a run in the view, some at a time: outlines take much room."""
        nuclei = self.instances
        row, begin = np.divmod(nuclei.run_start, nuclei.shape_yx[1])
        end = begin + (nuclei.run_stop - nuclei.run_start)
        seen = (row >= view.y0 - 1) & (row <= view.y1) & (end >= view.x0) & (begin <= view.x1)
        chosen = np.unique(nuclei.run_instance[seen]).astype(np.int64)
        for first in range(0, len(chosen), NUCLEI_AT_ONCE):
            part = chosen[first : first + NUCLEI_AT_ONCE]
            wanted = np.zeros(len(nuclei), np.bool_)
            wanted[part] = True
            yield part, trace_outlines(select_instances(nuclei, wanted))


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """All that a picture of a case may show.

    nuclei      of the reference, runs in any order: bodies on a plain background
    ignore      the region where nothing is scored
    contested   pixels inside several outlines of the reference
    """

    shape_yx: tuple[int, int]
    sides: tuple[DrawnSide, ...]
    nuclei: Region
    ignore: Region
    contested: Region


def overlay_png(
    drawing: Drawing, view: View, background: Rgb | None = None, *, subject: Mapping[Side, int] | None = None
) -> bytes:
    """The picture as a PNG; see ``draw``."""
    from imagecodecs import png_encode  # slow to import, and few need it

    return bytes(png_encode(draw(drawing, view, background, subject=subject), level=6))


def draw(
    drawing: Drawing, view: View, background: Rgb | None = None, *, subject: Mapping[Side, int] | None = None
) -> Rgb:
    """The picture, uint8 (H, W, 3).

    background  the image in this view, uint8 (h, w, 3), not yet enlarged; None: plain
    subject     the nuclei that it is about; their lines are thick, all others thin. None: all alike
    """
    canvas: Rgb = np.full((*view.shape_yx, 3), PLAIN, np.uint8)
    if background is not None:
        canvas[...] = view.enlarged(softened(background))
    fill_regions(canvas, drawing, view, plain=background is None)
    strokes = [stroke for side in drawing.sides for stroke in strokes_of(side, view, subject)]
    strokes.sort(key=lambda stroke: (stroke.width, ORDER.index(stroke.state)))
    for edge in (True, False) if background is not None else (False,):  # so that no line lies under another's edge
        for stroke in strokes:
            stamp(canvas, stroke, edge=edge)
    return canvas


def softened(pixels: Rgb) -> Rgb:
    """The image, a third of the way to white, in 16 shades of each colour: lines stand out, and it takes less room."""
    return np.asarray((2 * pixels.astype(np.uint16) + 255) // 3 // 16 * 16 + 8, np.uint8)


def fill_regions(canvas: Rgb, drawing: Drawing, view: View, *, plain: bool) -> None:
    """Hatch the ignore region, fill contested pixels, and on a plain background the nuclei of the reference."""
    width = drawing.shape_yx[1]
    if plain:
        canvas[view.covered(drawing.nuclei.run_start, drawing.nuclei.run_stop, width)] = BODY
    y, x = np.ogrid[: canvas.shape[0], : canvas.shape[1]]
    contested = view.covered(drawing.contested.run_start, drawing.contested.run_stop, width)
    canvas[contested] = mixed(canvas[contested], COLOURS[STATES.index("contested")])
    hatched = view.covered(drawing.ignore.run_start, drawing.ignore.run_stop, width) & ((x + y) % HATCH < 2)
    canvas[hatched] = mixed(canvas[hatched], COLOURS[STATES.index("ignored")])


def mixed(pixels: Rgb, colour: tuple[int, int, int]) -> Rgb:
    """Pixels under three parts of a colour and one part of themselves."""
    return np.asarray((pixels.astype(np.uint16) + 3 * np.array(colour, np.uint16)) // 4, np.uint8)


# --- lines ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Stroke:
    """Pixels along lines of one colour, int64 (n,) each; some may be outside of the picture."""

    row: Int64
    column: Int64
    state: int
    width: int


def strokes_of(side: DrawnSide, view: View, subject: Mapping[Side, int] | None) -> list[Stroke]:
    """The lines of one side in the picture, by state and width."""
    if side.points_xy is not None:
        return strokes_along(*marker_pixels(side.points_xy, view, side.side), side, view, subject)
    found = []
    for index, outlines in side.traced(view):
        row, column, nucleus = line_pixels(outlines, view, is_broken=side.side == "prediction")
        found += strokes_along(row, column, index[nucleus], side, view, subject)
    return found


def strokes_along(
    row: Int64, column: Int64, nucleus: Int64, side: DrawnSide, view: View, subject: Mapping[Side, int] | None
) -> list[Stroke]:
    """Pixels of lines, and the nucleus of each, as strokes."""
    inside = (row >= -EDGE_PX) & (row < view.shape_yx[0] + EDGE_PX)
    inside &= (column >= -EDGE_PX) & (column < view.shape_yx[1] + EDGE_PX)
    row, column, nucleus = row[inside], column[inside], nucleus[inside]
    state = side.state[nucleus]
    is_subject = nucleus == (subject or {}).get(side.side, -1)
    found = []
    for index in ORDER:
        thin = 1 if subject or index == MATCHED else 2  # mistakes are seen first
        for chosen, width in ((is_subject, 3), (~is_subject, thin)):
            wanted = (state == index) & chosen
            if wanted.any():
                found.append(Stroke(row[wanted], column[wanted], index, width))
    return found


def line_pixels(outlines: Outlines, view: View, *, is_broken: bool) -> tuple[Int64, Int64, Int64]:
    """Row, column and nucleus of each pixel along outlines, (n,); every edge is horizontal or vertical."""
    size = np.diff(outlines.ring_start)
    ring = np.repeat(np.arange(len(size)), size)
    following = np.arange(1, len(ring) + 1)
    following[outlines.ring_start[1:] - 1] = outlines.ring_start[:-1]
    begin = view.place(outlines.points_xy)
    end = begin[following]
    length = np.abs(end - begin).sum(axis=1)
    along = np.concatenate([[0.0], np.cumsum(length)])
    along = along[:-1] - along[outlines.ring_start[ring]]  # from the first corner of the ring
    height, width = view.shape_yx
    seen = (np.maximum(begin, end) >= 0).all(axis=1) & (np.minimum(begin, end) <= (width, height)).all(axis=1)
    begin, end, length, along, ring = begin[seen], end[seen], length[seen], along[seen], ring[seen]
    steps = np.maximum(np.ceil(length), 1).astype(np.int64)
    edge = np.repeat(np.arange(len(steps)), steps)
    step = np.arange(len(edge)) - np.repeat(np.cumsum(steps) - steps, steps)
    part = (step / steps[edge])[:, np.newaxis]
    point = np.floor(begin[edge] + (end - begin)[edge] * part).astype(np.int64)
    point -= point == (width, height)  # the far border of the image is seen, too
    nucleus = outlines.ring_instance[ring[edge]].astype(np.int64)
    if is_broken:
        drawn = (along[edge] + part[:, 0] * length[edge]) % (DASH + GAP) < DASH
        point, nucleus = point[drawn], nucleus[drawn]
    return point[:, 1], point[:, 0], nucleus


def marker_pixels(points_xy: Float64, view: View, side: Side) -> tuple[Int64, Int64, Int64]:
    """The same for points: a ring around one of the reference, a cross on a prediction."""
    marker = MARKERS[side]
    place = np.floor(view.place(points_xy)).astype(np.int64)
    nucleus = np.repeat(np.arange(len(place)), len(marker))
    row, column = (np.add.outer(place[:, axis], marker[:, 1 - axis]).reshape(-1) for axis in (1, 0))
    return row, column, nucleus


def ring_of(radius: int) -> Int64:
    """The pixels of a circle around 0, (n, 2)."""
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    return np.argwhere(np.abs(np.hypot(y, x) - radius) < 0.5) - radius


MARKERS: Mapping[Side, Int64] = {
    "reference": ring_of(7),
    "prediction": np.array([(i, sign * i) for i in range(-4, 5) for sign in (-1, 1)]),
}


def stamp(canvas: Rgb, stroke: Stroke, *, edge: bool) -> None:
    """Put a square of the stroke's width, or of its dark edge, on each of its pixels."""
    width = stroke.width + 2 * edge
    colour = EDGE if edge else COLOURS[stroke.state]
    for y in range(-(width // 2), width - width // 2):
        for x in range(-(width // 2), width - width // 2):
            row, column = stroke.row + y, stroke.column + x
            seen = (row >= 0) & (row < canvas.shape[0]) & (column >= 0) & (column < canvas.shape[1])
            canvas[row[seen], column[seen]] = colour
