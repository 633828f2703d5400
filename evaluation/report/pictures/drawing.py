"""Outlines of both sides on the image: solid ones are the reference, broken ones the prediction.

Lines follow the borders of pixels exactly, at any scale, and have a dark edge, so that they are seen on any tissue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter

from evaluation.instances.runs import select_instances
from evaluation.instances.trace import trace_outlines
from evaluation.model import Bool, Float64, Instances, Int64, Outlines, Region
from evaluation.report.pictures.states import STATE_COLOURS, STATES
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


def overlay_png(drawing: Drawing, view: View, background: Rgb | None = None) -> bytes:
    """The picture as a PNG; see ``draw``."""
    from imagecodecs import png_encode  # slow to import, and few need it

    return bytes(png_encode(draw(drawing, view, background), level=6))


def draw(drawing: Drawing, view: View, background: Rgb | None = None) -> Rgb:
    """The picture, uint8 (H, W, 3).

    background  the image in this view, uint8 (h, w, 3), not yet enlarged; None: plain
    """
    canvas: Rgb = np.full((*view.shape_yx, 3), PLAIN, np.uint8)
    if background is not None:
        canvas[...] = view.enlarged(softened(background))
    fill_regions(canvas, drawing, view, plain=background is None)
    lines = sorted(line_masks(drawing, view).items())
    if background is not None:  # first, so that no line lies under another's edge
        for (width, _), mask in lines:
            canvas[widened(mask, width + 2)] = EDGE
    for (width, order), mask in lines:
        canvas[widened(mask, width)] = COLOURS[ORDER[order]]
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


def line_masks(drawing: Drawing, view: View) -> dict[tuple[int, int], Bool]:
    """The pixels along lines by (width, position of the state in ``ORDER``), with a margin of EDGE_PX around them."""
    shape_yx = tuple(size + 2 * EDGE_PX for size in view.shape_yx)
    masks: dict[tuple[int, int], Bool] = {}
    for side in drawing.sides:
        for row, column, nucleus in pixels_of(side, view):
            row, column = row + EDGE_PX, column + EDGE_PX
            inside = (row >= 0) & (row < shape_yx[0]) & (column >= 0) & (column < shape_yx[1])
            row, column, nucleus = row[inside], column[inside], nucleus[inside]
            state = side.state[nucleus]
            width = np.where(state == MATCHED, 1, 2)  # mistakes are seen first
            for key in {*zip(width.tolist(), state.tolist(), strict=True)}:
                chosen = (width == key[0]) & (state == key[1])
                mask = masks.setdefault((key[0], ORDER.index(key[1])), np.zeros(shape_yx, np.bool_))
                mask[row[chosen], column[chosen]] = True
    return masks


def widened(mask: Bool, width: int) -> Bool:
    """A square of a width on each pixel of lines; without the margin."""
    wide = maximum_filter(mask, width, origin=-1 if width % 2 == 0 else 0)
    return np.asarray(wide[EDGE_PX:-EDGE_PX, EDGE_PX:-EDGE_PX])


def pixels_of(side: DrawnSide, view: View) -> Iterator[tuple[Int64, Int64, Int64]]:
    """Row, column and nucleus of each pixel along the lines of a side, (n,); some may be outside of the picture."""
    if side.points_xy is not None:
        yield marker_pixels(side.points_xy, view, side.side)
        return
    for index, outlines in side.traced(view):
        row, column, nucleus = line_pixels(outlines, view, is_broken=side.side == "prediction")
        yield row, column, index[nucleus]


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
