"""Which part of an image a picture shows, and how large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from evaluation.model import Bool, Int64


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
