"""What the browser of nuclei draws of a case: the tissue, and the outline and the error of every nucleus."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from evaluation.challenge import Challenge
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.runs import select_instances
from evaluation.metrics.counts import KINDS, WRONG_CLASS, ErrorKinds
from evaluation.model import Bool, Instances, Int64
from evaluation.report.tissue import Tissue, open_tissue
from evaluation.scoring.match import MatchedCase
from evaluation.study.error_costs import sort_case


@dataclass(frozen=True, slots=True)
class Window:
    """Rows y0 to y1 - 1 and columns x0 to x1 - 1 of an image, and its tissue, of which ``step`` pixels become one.

    webp   the picture; b"": there is none
    """

    y0: int
    x0: int
    y1: int
    x1: int
    step: int = 1
    webp: bytes = b""

    @classmethod
    def around(cls, box: tuple[int, int, int, int], shape_yx: tuple[int, int], side_px: int) -> Self:
        """A square around a box (y0, x0, y1, x1) with as much again beside it; at the border it moves into the image.

        >>> Window.around((0, 90, 20, 100), (100, 120), 60)
        Window(y0=0, x0=60, y1=60, x1=120, step=1, webp=b'')
        """
        step = -(-2 * max(box[2] - box[0], box[3] - box[1]) // side_px)
        side = side_px * step
        y0, x0 = (
            min(max((low + high - side) // 2, 0), max(size - side, 0))
            for low, high, size in zip(box[:2], box[2:], shape_yx, strict=True)
        )
        return cls(y0, x0, min(y0 + side, shape_yx[0]), min(x0 + side, shape_yx[1]), step)

    def draw(self, tissue: Tissue) -> Self:
        """The window with its picture. Raises InputFault for pixels that cannot be decoded."""
        from imagecodecs import webp_encode  # slow to import, and few need it

        pixels = np.ascontiguousarray(tissue.window(self.y0, self.x0, self.y1, self.x1, self.step))
        return replace(self, webp=bytes(webp_encode(pixels, level=QUALITY, lossless=False)))


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


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What is drawn of a case; rows are those of objects.csv under the first matching rule, (R,) each.

    windows    the whole case, or parts of it; the tissue of either may be reduced
    is_whole   whether it is the whole case
    reference, prediction  outlines as ``outline_texts`` writes them; "": no such nucleus, or not inside the windows
    kinds      of errors, as in ``metrics.errors``
    findings   why the tissue is not shown
    """

    case: str
    shape_yx: tuple[int, int]
    windows: tuple[Window, ...]
    is_whole: bool
    reference: tuple[str, ...]
    prediction: tuple[str, ...]
    kinds: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def scene_of(judged: JudgedCase, image: Path | None, pixels: int) -> Scene:
    """The scene of a judged case. ``pixels``: how many of its image may be shown."""
    matched = judged.matched
    sides = (matched.reference.instances, matched.prediction)
    rows = scene_rows(judged)
    windows, is_whole = choose_windows(judged, rows, pixels)
    texts = []
    for side, index in zip(sides, rows, strict=True):
        chosen = np.ones(len(side), np.bool_) if is_whole else inside_windows(side, windows)
        own = [*outline_texts(side, chosen), ""]  # the last one stands for no nucleus
        texts.append(tuple(own[number] for number in index.tolist()))
    kind = np.where(rows[0] >= 0, np.append(judged.kinds.reference, 0)[rows[0]], 0)
    kind = np.where(rows[0] >= 0, kind, np.append(judged.kinds.prediction, 0)[rows[1]])
    findings = []
    try:
        with nullcontext() if image is None else open_tissue(image) as tissue:
            if tissue is not None:
                tissue.check_size(matched.case.shape_yx)
                windows = [window.draw(tissue) for window in windows]
    except InputFault as error:
        height, width = matched.case.shape_yx
        where = f"case {quote(matched.case.name)}, {quote(image.name if image else '')}"
        findings.append(fault("image-left-out", where, got=error.findings[0].got, height=height, width=width))
    return Scene(
        case=matched.case.name,
        shape_yx=matched.case.shape_yx,
        windows=tuple(windows),
        is_whole=is_whole,
        reference=texts[0],
        prediction=texts[1],
        kinds=tuple(KINDS[code] for code in kind.tolist()),
        findings=tuple(findings),
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


def choose_windows(judged: JudgedCase, rows: tuple[Int64, Int64], pixels: int) -> tuple[list[Window], bool]:
    """The whole case if it has no more than ``pixels``, or half as fine; else windows around the worst mistakes."""
    height, width = judged.matched.case.shape_yx
    for step in (1, 2):
        if height * width <= pixels * step**2:
            return [Window(0, 0, height, width, step)], True
    order = np.argsort(-lost_in_rows(judged, rows), kind="stable")[: pixels // WINDOW_PX**2]
    sides = (judged.matched.reference.instances, judged.matched.prediction)
    boxes = [boxes_of_instances(side) for side in sides]
    windows = []
    for number in order.tolist():
        pair = [box[index[number]] for box, index in zip(boxes, rows, strict=True) if index[number] >= 0]
        (y0, x0), (y1, x1) = np.min(pair, axis=0)[:2].tolist(), np.max(pair, axis=0)[2:].tolist()
        windows.append(Window.around((y0, x0, y1, x1), (height, width), WINDOW_PX))
    return list(dict.fromkeys(windows)), False


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
    for column, values in enumerate((row, begin)):
        np.minimum.at(boxes[:, column], instances.run_instance, values)
    for column, values in enumerate((row + 1, end), start=2):
        np.maximum.at(boxes[:, column], instances.run_instance, values)
    return boxes


def inside_windows(instances: Instances, windows: Sequence[Window]) -> Bool:
    """Which instances have their box in some of the windows, bool (N,)."""
    y0, x0, y1, x1 = boxes_of_instances(instances).T
    parts = [(y0 < one.y1) & (y1 > one.y0) & (x0 < one.x1) & (x1 > one.x0) for one in windows]
    return np.any(parts, axis=0) if parts else np.zeros(len(instances), np.bool_)


# --- outlines ---------------------------------------------------------------------------------------------------------


def outline_texts(instances: Instances, chosen: Bool) -> list[str]:
    """The outlines of the chosen instances, "" for the others.

    A ring is "x y" and the lengths of its sides, but for the last, in turn to the right and down; rings are joined by
    ";". A point has no sides, and one half pixel more.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> outline_texts(instances_from_labels(np.array([[0, 5, 5], [0, 5, 0]])), np.array([True]))
    ['1 0 2 1 -1 1 -1']
    """
    if instances.point_yx is not None:
        points = (instances.point_yx[:, ::-1] + 0.5).tolist()
        return [f"{x:g} {y:g}" if is_chosen else "" for (x, y), is_chosen in zip(points, chosen.tolist(), strict=True)]
    outlines = trace_outlines(select_instances(instances, chosen))
    corners = outlines.points_xy.astype(np.int64)
    sides = np.diff(corners, axis=0, append=0)
    lengths, is_down = sides.sum(axis=1).tolist(), (sides[:, 0] == 0).tolist()
    rings: list[list[str]] = [[] for _ in range(int(chosen.sum()))]
    for instance, (first, last) in zip(
        outlines.ring_instance.tolist(), pairwise(outlines.ring_start.tolist()), strict=True
    ):
        ring = [*corners[first].tolist(), *[0] * is_down[first], *lengths[first : last - 1]]
        rings[instance].append(" ".join(map(str, ring)))
    texts = np.full(len(instances), "", object)
    texts[chosen] = [";".join(one) for one in rings]
    return list(texts)
