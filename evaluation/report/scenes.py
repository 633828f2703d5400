"""What is drawn of a case: outlines on the image as an overlay, and what the browser of nuclei draws.

Solid lines are the reference, broken ones the prediction. Lines are the boundary pixels of nuclei, as the metrics have
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from evaluation.challenge import Challenge
from evaluation.instances.boundary import boundaries_of, runs_by_instance
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.runs import select_instances
from evaluation.metrics.errors import KINDS, RIGHT, WRONG_CLASS, ErrorKinds
from evaluation.model import Bool, Float64, Instances, Int64, Outlines, Region
from evaluation.scoring.match import MatchedCase
from evaluation.study.error_costs import sort_case

State = Literal["matched", "missed", "spurious", "wrong_class", "ignored", "contested"]
STATES: tuple[State, ...] = get_args(State)
WORDS: Mapping[str, str] = {"missed": "false negative", "spurious": "false positive"}  # as people read them

# Okabe and Ito, "Color Universal Design" (2008), but for wrong_class, where theirs is the colour of stained tissue.
# Pictures keep them on light and on dark pages.
STATE_COLOURS: Mapping[State, str] = {
    "matched": "#009e73",
    "missed": "#e69f00",
    "spurious": "#56b4e9",
    "wrong_class": "#5b2a86",
    "ignored": "#999999",
    "contested": "#f0e442",
}


@dataclass(frozen=True, slots=True)
class View:
    """Rows y0 to y1 - 1 and columns x0 to x1 - 1 of an image; ``step`` pixels become one."""

    y0: int
    x0: int
    y1: int
    x1: int
    step: int = 1

    @classmethod
    def whole(cls, shape_yx: tuple[int, int], side_px: int) -> Self:
        """The whole image, as large as fits into a square, never enlarged.

        >>> View.whole((1153, 1307), 640)
        View(y0=0, x0=0, y1=1153, x1=1307, step=3)
        """
        return cls(0, 0, *shape_yx, step=-(-max(shape_yx) // side_px))

    @classmethod
    def around(cls, box: tuple[int, int, int, int], shape_yx: tuple[int, int], side_px: int) -> Self:
        """A square around a box (y0, x0, y1, x1) with as much again beside it; at the border it moves into the image.

        >>> View.around((0, 90, 20, 100), (100, 120), 60)
        View(y0=0, x0=60, y1=60, x1=120, step=1)
        """
        step = -(-2 * max(box[2] - box[0], box[3] - box[1]) // side_px)
        side = side_px * step
        ends = []
        for low, high, size in ((box[0], box[2], shape_yx[0]), (box[1], box[3], shape_yx[1])):
            begin = min(max((low + high - side) // 2, 0), max(size - side, 0))
            ends.append((begin, min(begin + side, size)))
        (y0, y1), (x0, x1) = ends
        return cls(y0, x0, y1, x1, step)

    @property
    def shape_yx(self) -> tuple[int, int]:
        """Height and width of the picture, px."""
        return -(-(self.y1 - self.y0) // self.step), -(-(self.x1 - self.x0) // self.step)

    def covered(self, run_start: Int64, run_stop: Int64, width: int) -> Bool:
        """Which pixels of the picture show a pixel of some runs, bool; memory and time do not grow with their area.

        width   of the image
        """
        row = run_start // width
        begin = np.maximum(run_start - row * width, self.x0) - self.x0
        end = np.minimum(run_stop - row * width, self.x1) - self.x0
        seen = (row >= self.y0) & (row < self.y1) & (begin < end)
        if not seen.any():
            return np.zeros(self.shape_yx, np.bool_)
        row, begin, end = (row[seen] - self.y0) // self.step, begin[seen] // self.step, (end[seen] - 1) // self.step
        height, across = self.shape_yx
        change = np.zeros((height, across + 1), np.int32)
        np.add.at(change, (row, begin), 1)
        np.add.at(change, (row, end + 1), -1)
        return np.asarray(np.cumsum(change[:, :-1], axis=1) > 0)


# --- the state of each nucleus ----------------------------------------------------------------------------------------


MATCHED_STATE, MISSED_STATE, SPURIOUS_STATE, WRONG_STATE = (
    STATES.index(state) for state in ("matched", "missed", "spurious", "wrong_class")
)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCase:
    """A case with the state of each nucleus. States are indices in ``STATES``.

    kinds     of errors
    reference_state, prediction_state  int8 (N,) and (M,)
    ignored   predictions that left because of the ignore region; none of a case that was not submitted
    """

    matched: MatchedCase
    kinds: ErrorKinds
    reference_state: npt.NDArray[np.int8]
    prediction_state: npt.NDArray[np.int8]
    ignored: Instances


def judge_case(challenge: Challenge, matched: MatchedCase, submitted: Instances | None) -> JudgedCase:
    """Judge a matched case. ``submitted``: the prediction before the ignore region; None: not submitted."""
    kinds = sort_case(challenge, matched)
    return JudgedCase(
        matched=matched,
        kinds=kinds,
        reference_state=states_of(kinds.reference, MISSED_STATE),
        prediction_state=states_of(kinds.prediction, SPURIOUS_STATE),
        ignored=matched.prediction if submitted is None else ignored_of(matched, submitted),
    )


def ignored_of(matched: MatchedCase, submitted: Instances) -> Instances:
    """The predictions that left because of the ignore region, with all their pixels."""
    left = np.ones(len(submitted), np.bool_)
    left[slice(None) if matched.kept is None else matched.kept] = False
    return select_instances(submitted, left)


def states_of(kind: npt.NDArray[np.int8], unmatched: int) -> npt.NDArray[np.int8]:
    """The state of each nucleus of a side by the kind of its error."""
    state = np.full(len(kind), unmatched, np.int8)
    state[kind == RIGHT] = MATCHED_STATE
    state[kind == WRONG_CLASS] = WRONG_STATE
    return state


# --- overlays ---------------------------------------------------------------------------------------------------------


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


# --- scenes for the browser: tissue, and the outline of every nucleus as a short text ---------------------------------


WINDOW_PX = 112  # side of a window of a case that is too large to be drawn as a whole
QUALITY = 55  # of WebP
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
FARTHEST = 31  # px that a letter goes; ZERO stands for 0
ZERO = 32

Background = Callable[[View], Rgb | None]


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a case, rows y0 to y1 - 1 and columns x0 to x1 - 1, with its tissue; b"": there is none."""

    x0: int
    y0: int
    x1: int
    y1: int
    webp: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What is drawn of a case; rows are those of objects.csv under the first matching rule, (R,) each.

    windows    the whole case, or parts of it; the tissue of either may be reduced
    is_whole   whether it is the whole case
    reference, prediction  outlines as ``outline_texts`` writes them; "": no such nucleus, or not inside the windows
    kinds      of errors, as in ``metrics.errors``
    """

    case: str
    shape_yx: tuple[int, int]
    windows: tuple[Window, ...]
    is_whole: bool
    reference: tuple[str, ...]
    prediction: tuple[str, ...]
    kinds: tuple[str, ...]


def scene_of(judged: JudgedCase, background: Background, pixels: int) -> Scene:
    """The scene of a judged case. ``pixels``: how many of the case may be shown."""
    matched = judged.matched
    sides = (matched.reference.instances, matched.prediction)
    rows = rows_of(judged)
    views, is_whole = choose_views(judged, rows, pixels)
    texts = []
    for side, index in zip(sides, rows, strict=True):
        chosen = np.ones(len(side), np.bool_) if is_whole else seen_in(side, views)
        own = [*outline_texts(side, chosen), ""]  # the last one stands for no nucleus
        texts.append(tuple(own[number] for number in index.tolist()))
    kind = np.where(rows[0] >= 0, np.append(judged.kinds.reference, 0)[rows[0]], 0)
    kind = np.where(rows[0] >= 0, kind, np.append(judged.kinds.prediction, 0)[rows[1]])
    return Scene(
        case=matched.case.name,
        shape_yx=matched.case.shape_yx,
        windows=tuple(draw_window(view, background) for view in views),
        is_whole=is_whole,
        reference=texts[0],
        prediction=texts[1],
        kinds=tuple(KINDS[code] for code in kind.tolist()),
    )


def rows_of(judged: JudgedCase) -> tuple[Int64, Int64]:
    """Reference and prediction of each row of objects.csv, -1 for none: matched, missed, then spurious nuclei."""
    pairs = next(iter(judged.matched.matches.values()))
    sides = (judged.matched.reference.instances, judged.matched.prediction)
    matched = (pairs.reference_index.astype(np.int64), pairs.prediction_index.astype(np.int64))
    missed, spurious = (np.setdiff1d(np.arange(len(side)), of) for side, of in zip(sides, matched, strict=True))
    return (
        np.concatenate([matched[0], missed, np.full(len(spurious), -1)]),
        np.concatenate([matched[1], np.full(len(missed), -1), spurious]),
    )


# --- windows ----------------------------------------------------------------------------------------------------------


def choose_views(judged: JudgedCase, rows: tuple[Int64, Int64], pixels: int) -> tuple[list[View], bool]:
    """The whole case if it has no more than ``pixels``, or half as fine; else windows around the worst mistakes."""
    height, width = judged.matched.case.shape_yx
    for step in (1, 2):
        if height * width <= pixels * step**2:
            return [View(0, 0, height, width, step)], True
    order = np.argsort(-lost_in_rows(judged, rows), kind="stable")[: pixels // WINDOW_PX**2]
    sides = (judged.matched.reference.instances, judged.matched.prediction)
    boxes = [boxes_of(side) for side in sides]
    views = []
    for number in order.tolist():
        of = [box[index[number]] for box, index in zip(boxes, rows, strict=True) if index[number] >= 0]
        (y0, x0), (y1, x1) = np.min(of, axis=0)[:2].tolist(), np.max(of, axis=0)[2:].tolist()
        views.append(View.around((y0, x0, y1, x1), (height, width), WINDOW_PX))
    return list(dict.fromkeys(views)), False


def lost_in_rows(judged: JudgedCase, rows: tuple[Int64, Int64]) -> Int64:
    """Pixels that each row costs, int64 (R,), as ``browser.lost_px`` has it of objects.csv; 0 for points."""
    pairs, table = next(iter(judged.matched.matches.values())), judged.matched.table
    areas = (table.reference_area_px, table.prediction_area_px)
    own = [np.append(area, 0)[index] for area, index in zip(areas, rows, strict=True)]  # the last one: no nucleus
    loss = np.asarray(own[0] + own[1], np.int64)
    is_wrong = judged.kinds.reference[pairs.reference_index] == WRONG_CLASS
    loss[: len(pairs)] -= np.where(is_wrong, 1, 2) * pairs.intersection_px
    return loss


def boxes_of(instances: Instances) -> Int64:
    """y0, x0, y1, x1 of each instance, int64 (N, 4); a point is a pixel."""
    if instances.point_yx is not None:
        low = np.floor(instances.point_yx + 0.5).astype(np.int64)
        return np.concatenate([low, low + 1], axis=1)
    width = instances.shape_yx[1]
    row, begin = np.divmod(instances.run_start, width)
    end = begin + (instances.run_stop - instances.run_start)
    boxes = np.tile(np.array([*instances.shape_yx, 0, 0], np.int64), (len(instances), 1))
    for column, values in ((0, row), (1, begin)):
        np.minimum.at(boxes[:, column], instances.run_instance, values)
    for column, values in ((2, row + 1), (3, end)):
        np.maximum.at(boxes[:, column], instances.run_instance, values)
    return boxes


def seen_in(instances: Instances, views: Sequence[View]) -> Bool:
    """Which instances have their box in some of the windows, bool (N,)."""
    boxes, seen = boxes_of(instances), np.zeros(len(instances), np.bool_)
    for view in views:
        seen |= (boxes[:, 0] < view.y1) & (boxes[:, 2] > view.y0) & (boxes[:, 1] < view.x1) & (boxes[:, 3] > view.x0)
    return seen


def draw_window(view: View, background: Background) -> Window:
    from imagecodecs import webp_encode  # slow to import, and few need it

    tissue = background(view)
    webp = b"" if tissue is None else bytes(webp_encode(np.ascontiguousarray(tissue), level=QUALITY, lossless=False))
    return Window(view.x0, view.y0, view.x1, view.y1, webp)


# --- outlines ---------------------------------------------------------------------------------------------------------


def outline_texts(instances: Instances, chosen: Bool) -> list[str]:
    """The outlines of the chosen instances, "" for the others.

    A ring is "x y letters", rings are joined by ";". The letters go from (x, y) along the border in turn to the right
    and down: "A" is -32 px, "g" 0, "_" 31. A point has no letters, and one half pixel more.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> outline_texts(instances_from_labels(np.array([[0, 5, 5], [0, 5, 0]])), np.array([True]))
    ['1 0 ihfhfe']
    """
    if instances.point_yx is not None:
        points = (instances.point_yx[:, ::-1] + 0.5).tolist()
        return [f"{x:g} {y:g}" if is_chosen else "" for (x, y), is_chosen in zip(points, chosen.tolist(), strict=True)]
    outlines = trace_outlines(select_instances(instances, chosen))
    texts: list[list[str]] = [[] for _ in range(int(chosen.sum()))]
    for instance, ring in zip(outlines.ring_instance.tolist(), ring_texts(outlines), strict=True):
        texts[instance].append(ring)
    found = iter(texts)
    return [";".join(next(found)) if is_chosen else "" for is_chosen in chosen.tolist()]


def ring_texts(outlines: Outlines) -> list[str]:
    """Every ring as "x y letters"."""
    points = outlines.points_xy.astype(np.int64)
    size = np.diff(outlines.ring_start)
    following = np.arange(1, len(points) + 1)
    following[outlines.ring_start[1:] - 1] = outlines.ring_start[:-1]
    step = points[following] - points
    is_down = step[:, 0] == 0
    length = np.where(is_down, step[:, 1], step[:, 0])
    codes = LETTERS[np.clip(length + ZERO, 0, len(LETTERS) - 1)].tobytes().decode()
    is_long = np.abs(length) > FARTHEST
    long_in_ring = np.add.reduceat(is_long, outlines.ring_start[:-1]) if len(size) else size
    texts = []
    for first, last, longs in zip(outlines.ring_start[:-1].tolist(), outlines.ring_start[1:].tolist(),
                                  long_in_ring.tolist(), strict=True):  # fmt: skip
        letters = codes[first:last] if not longs else "".join(map(letters_of, length[first:last].tolist()))
        x, y = points[first].tolist()
        texts.append(f"{x} {y} {'g' * bool(is_down[first])}{letters}")
    return texts


def letters_of(length: int) -> str:
    """One letter, or more with zeros of the other direction between them.

    >>> letters_of(-3), letters_of(40)
    ('d', '_gp')
    """
    sign = -1 if length < 0 else 1
    parts = [FARTHEST] * (abs(length) // FARTHEST) + [abs(length) % FARTHEST] * bool(abs(length) % FARTHEST)
    return "g".join(chr(LETTERS[ZERO + sign * part]) for part in parts)
