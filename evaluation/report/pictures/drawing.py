"""Outlines of both sides on the image: solid lines are the reference, broken ones the prediction.

Lines are the boundary pixels of nuclei, as the metrics have them, and have a light edge, so that they are seen on any
tissue. Lines are widened, and markers of points drawn, by scikit-image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.instances.boundary import boundaries_of, runs_by_instance
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
WIDER = ((1, 1, 0), (1, 1, 0), (0, 0, 0))  # lines of mistakes: by a pixel to the right and below
DASH = 4  # px along broken lines
NUCLEI_AT_ONCE = 20_000  # whose outlines are held together
HATCH = 6  # px between the lines of an ignore region
ORDER = ("ignored", "matched", "wrong_class", "spurious", "missed")  # last on top
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

    def traced(self) -> Iterator[tuple[Int64, Outlines]]:
        """Indices and outlines of the nuclei with pixels, some at a time: outlines take much room."""
        chosen = np.unique(self.instances.run_instance).astype(np.int64)
        for first in range(0, len(chosen), NUCLEI_AT_ONCE):
            part = chosen[first : first + NUCLEI_AT_ONCE]
            wanted = np.zeros(len(self.instances), np.bool_)
            wanted[part] = True
            yield part, trace_outlines(select_instances(self.instances, wanted))

    def lines(self, state: int) -> Iterator[Int64]:
        """Pixels (2, n) of the lines of the nuclei of a state, some at a time; of points rings and crosses."""
        chosen = np.flatnonzero(self.state == state)
        if (points_xy := self.points_xy) is not None:
            pixels = np.floor(points_xy[chosen, ::-1]).astype(np.int64)
            yield (pixels[:, np.newaxis] + marker_of(self.side)).reshape(-1, 2).T
            return
        runs = runs_by_instance(self.instances)
        for first in range(0, len(chosen), NUCLEI_AT_ONCE):
            part = chosen[first : first + NUCLEI_AT_ONCE]
            yx = boundaries_of(runs, part, border="closed").points_yx.astype(np.int64)
            yield yx if self.side == "reference" else yx[:, yx.sum(axis=0) // DASH % 2 == 0]


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

    view        the whole image
    background  the image in this view, uint8 (H, W, 3); None: plain
    """
    from skimage.morphology import dilation  # slow to import

    canvas: Rgb = np.full((*view.shape_yx, 3), PLAIN, np.uint8)
    if background is not None:
        canvas[...] = softened(background)
    fill_regions(canvas, drawing, view, plain=background is None)
    masks = [(state, line_mask(drawing, view, STATES.index(state))) for state in ORDER]
    if background is not None:  # first, so that no line lies under another's edge
        canvas[dilation(np.any([mask for _, mask in masks], axis=0), np.ones((3, 3)))] = EDGE
    for state, mask in masks:
        canvas[mask] = COLOURS[STATES.index(state)]
    return canvas


def line_mask(drawing: Drawing, view: View, state: int) -> Bool:
    """The pixels of the lines of a state, bool (H, W); those of mistakes are wider, so that they are seen first."""
    from skimage.morphology import dilation

    mask = np.zeros(view.shape_yx, np.bool_)
    for side in drawing.sides:
        for yx in side.lines(state):
            row, column = yx[:, ((yx >= 0) & (yx < np.reshape(drawing.shape_yx, (2, 1)))).all(axis=0)] // view.step
            mask[row, column] = True
    return mask if STATES[state] == "matched" else np.asarray(dilation(mask, np.array(WIDER)))


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


# --- points -----------------------------------------------------------------------------------------------------------


@cache
def marker_of(side: Side) -> Int64:
    """The pixels of a marker around 0, (n, 2): a circle for points of the reference, a cross for the prediction."""
    from skimage.draw import circle_perimeter, line  # slow to import, and few need it

    lines = [circle_perimeter(0, 0, 7)] if side == "reference" else [line(-4, -4, 4, 4), line(-4, 4, 4, -4)]
    return np.concatenate([np.transpose(pixels) for pixels in lines]).astype(np.int64)
