"""What the browser of nuclei draws of a case: the tissue, and the outline and the error of every nucleus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.challenge import Challenge
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.runs import select_instances
from evaluation.metrics.counts import KINDS, WRONG_CLASS, ErrorKinds
from evaluation.model import Bool, Instances, Int64, Outlines
from evaluation.report.tissue import Rgb
from evaluation.scoring.match import MatchedCase
from evaluation.study.error_costs import sort_case


@dataclass(frozen=True, slots=True)
class View:
    """Rows y0 to y1 - 1 and columns x0 to x1 - 1 of an image; ``step`` pixels become one."""

    y0: int
    x0: int
    y1: int
    x1: int
    step: int = 1

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


@dataclass(frozen=True, slots=True, eq=False)
class JudgedCase:
    """A matched case with the kind of error of each nucleus.

    ignored   predictions that left because of the ignore region; none of a case that was not submitted
    """

    matched: MatchedCase
    kinds: ErrorKinds
    ignored: Instances


def judge_case(challenge: Challenge, matched: MatchedCase, submitted: Instances | None) -> JudgedCase:
    """Judge a matched case. ``submitted``: the prediction before the ignore region; None: not submitted."""
    ignored = matched.prediction
    if submitted is not None:
        has_left = np.ones(len(submitted), np.bool_)
        has_left[slice(None) if matched.kept is None else matched.kept] = False
        ignored = select_instances(submitted, has_left)
    return JudgedCase(matched, sort_case(challenge, matched), ignored)


# --- scenes -----------------------------------------------------------------------------------------------------------


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
    rows = scene_rows(judged)
    views, is_whole = choose_views(judged, rows, pixels)
    texts = []
    for side, index in zip(sides, rows, strict=True):
        chosen = np.ones(len(side), np.bool_) if is_whole else inside_views(side, views)
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


def scene_rows(judged: JudgedCase) -> tuple[Int64, Int64]:
    """Reference and prediction of each row of objects.csv, -1 for none: matched, missed, then spurious nuclei."""
    pairs = next(iter(judged.matched.matches.values()))
    sides = (judged.matched.reference.instances, judged.matched.prediction)
    matched = (pairs.reference_index.astype(np.int64), pairs.prediction_index.astype(np.int64))
    missed, spurious = (
        np.setdiff1d(np.arange(len(side)), matched_indices)
        for side, matched_indices in zip(sides, matched, strict=True)
    )
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
    boxes = [boxes_of_instances(side) for side in sides]
    views = []
    for number in order.tolist():
        pair = [box[index[number]] for box, index in zip(boxes, rows, strict=True) if index[number] >= 0]
        (y0, x0), (y1, x1) = np.min(pair, axis=0)[:2].tolist(), np.max(pair, axis=0)[2:].tolist()
        views.append(View.around((y0, x0, y1, x1), (height, width), WINDOW_PX))
    return list(dict.fromkeys(views)), False


def lost_in_rows(judged: JudgedCase, rows: tuple[Int64, Int64]) -> Int64:
    """Count the pixels that each row costs, int64 (R,), as ``nuclei.lost_px`` does from objects.csv; 0 for points."""
    pairs, table = next(iter(judged.matched.matches.values())), judged.matched.table
    areas = (table.reference_area_px, table.prediction_area_px)
    own = [np.append(area, 0)[index] for area, index in zip(areas, rows, strict=True)]  # the last one: no nucleus
    loss = np.asarray(own[0] + own[1], np.int64)
    is_wrong = judged.kinds.reference[pairs.reference_index] == WRONG_CLASS
    loss[: len(pairs)] -= np.where(is_wrong, 1, 2) * pairs.intersection_px
    return loss


def boxes_of_instances(instances: Instances) -> Int64:
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


def inside_views(instances: Instances, views: Sequence[View]) -> Bool:
    """Which instances have their box in some of the windows, bool (N,)."""
    boxes, inside = boxes_of_instances(instances), np.zeros(len(instances), np.bool_)
    for view in views:
        inside |= (boxes[:, 0] < view.y1) & (boxes[:, 2] > view.y0) & (boxes[:, 1] < view.x1) & (boxes[:, 3] > view.x0)
    return inside


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
    following = iter(texts)
    return [";".join(next(following)) if is_chosen else "" for is_chosen in chosen.tolist()]


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
    """Write a step as one letter, or a long step as several, with steps of 0 px in the other direction between them.

    >>> letters_of(-3), letters_of(40)
    ('d', '_gp')
    """
    sign = -1 if length < 0 else 1
    parts = [FARTHEST] * (abs(length) // FARTHEST) + [abs(length) % FARTHEST] * bool(abs(length) % FARTHEST)
    return "g".join(chr(LETTERS[ZERO + sign * part]) for part in parts)
