"""The nuclei of one image, as runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.model.arrays import Bool, Float64, Int16, Int32, Int64, blocks


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """The instances of one image as runs.

    Runs are sorted by ``run_start``; those of different instances may overlap (equal starts come in any order),
    those of one instance neither overlap nor touch in a row.

    shape_yx      (H, W) px
    class_id      int16 (N,)    1…C, 0 = class not given
    source_id     int64 or object (N,)   the id in the file, for messages and the object table
    run_start, run_stop   int64 (R,)     half-open intervals of the row-major flat index
    run_instance  int32 (R,)    0…N-1
    probability   float64 (N,)  confidence of each instance in 0…1, or None
    point_yx      float64 (N, 2), for nuclei that are points without pixels; whole numbers are pixel centres; or None
    class_probability  float64 (N, C)  probability of each class in 0…1, in the order of the classes, or None
    """

    shape_yx: tuple[int, int]
    class_id: Int16
    source_id: npt.NDArray[Any]
    run_start: Int64
    run_stop: Int64
    run_instance: Int32
    probability: Float64 | None = None
    point_yx: Float64 | None = None
    class_probability: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)

    def part(self, runs: slice) -> Instances:
        """All instances, each with only those of its runs that are given."""
        return replace(
            self, run_start=self.run_start[runs], run_stop=self.run_stop[runs], run_instance=self.run_instance[runs]
        )

    def runs_by_instance(self) -> npt.NDArray[np.integer[Any]]:
        """The runs in the order of their instances, those of each row by row: indices, (R,)."""
        if len(self) <= 1 << 16:  # NumPy sorts numbers of 16 bits without comparing them
            return np.argsort(self.run_instance.astype(np.uint16), kind="stable")
        from scipy.sparse import csr_array  # counts instead of sorting; its import is worth it for very many only

        runs = len(self.run_instance)
        number = np.arange(runs, dtype=np.int32 if runs < 1 << 31 else np.int64)
        return np.asarray(csr_array((number, self.run_instance, [0, runs]), shape=(1, len(self))).tocsc().data)

    def is_disjoint(self) -> bool:
        """Whether no pixel belongs to two instances."""
        return bool((self.run_start[1:] >= self.run_stop[:-1]).all())

    def areas_px(self) -> Int64:
        """Number of pixels of each instance, int64 (N,). Summed as integers, so exact."""
        totals = np.zeros(len(self), np.int64)
        for runs in blocks(len(self.run_start)):
            np.add.at(totals, self.run_instance[runs], self.run_stop[runs] - self.run_start[runs])
        return totals

    def first_pixels(self) -> Int64:
        """Flat index of the first pixel of each instance, int64 (N,); H * W for an instance without pixels.

        It orders instances without looking at their ids: ties are decided by it first.
        """
        first = np.full(len(self), self.shape_yx[0] * self.shape_yx[1], np.int64)
        for runs in blocks(len(self.run_start))[::-1]:
            first[self.run_instance[runs][::-1]] = self.run_start[runs][::-1]
        return first

    def position_order(self) -> Int64:
        """All instances in the order of their positions: the tie rule ``first_pixel``, int64 (N,).

        It owes nothing to ids or to the order of a file. Outlines by their first pixel (row by row), then by area, then
        the one that has the first pixel in which they differ; points by y, then x. Instances in exactly one place: by
        class, then the more probable one first. Only those that agree in everything but their ids keep the order of
        the file.

        >>> one = {"shape_yx": (2, 3), "class_id": np.ones(2, np.int16), "source_id": np.array([3, 7])}
        >>> runs = np.array([1, 3]), np.array([3, 5]), np.array([1, 0], np.int32)
        >>> Instances(**one, run_start=runs[0], run_stop=runs[1], run_instance=runs[2]).position_order().tolist()
        [1, 0]
        """
        if self.point_yx is not None:
            y, x = self.point_yx.T
            return np.lexsort((*_keys_of_nature(self), x, y))
        first = self.first_pixels()
        order = np.argsort(first, kind="stable")
        same = (first[order[1:]] == first[order[:-1]]) & (first[order[1:]] < self.shape_yx[0] * self.shape_yx[1])
        if same.any():
            areas = self.areas_px()
            order = np.lexsort((areas, first))
            same &= areas[order[1:]] == areas[order[:-1]]
        if not same.any():
            return order
        tied = np.zeros(len(self), np.bool_)
        tied[order[1:][same]] = tied[order[:-1][same]] = True
        return np.lexsort((*_keys_of_nature(self), _rank_of_pixels(self, tied), areas, first))

    def position_rank(self) -> Int64:
        """The index of each instance in ``position_order``, int64 (N,)."""
        rank = np.empty(len(self), np.int64)
        rank[self.position_order()] = np.arange(len(self))
        return rank

    def centroids_yx(self, top: Int64 | int = 0) -> Float64:
        """Centroid of each instance, px, float64 (N, 2): the mean of its pixel centres, or its point.

        top   row from which rows are counted, or one for each instance, int64 (N,)

        Pixel centres are whole numbers and summed as such; the one division is the only rounding. NaN for an instance
        that has neither pixels nor a point.
        """
        if self.point_yx is not None:
            return self.point_yx
        sums_twice, area = self.coordinate_sums_twice_yx()
        sums_twice[0] -= 2 * top * area
        with np.errstate(invalid="ignore"):
            return np.asarray((sums_twice / (2 * area)).T)

    def centroid_pixels_yx(self) -> Int64:
        """Pixel that holds the centroid of each instance, int64 (N, 2), computed in integers.

        The centroid is the mean of the pixel centres; exactly between two pixels it belongs to the later one
        (``floor(mean + 1/2)``), which does not change when an image is shifted. Instances without pixels get -1.
        """
        sums_twice, area = self.coordinate_sums_twice_yx()
        pixels = (sums_twice + area) // np.maximum(2 * area, 1)
        pixels[:, area == 0] = -1
        return pixels.T

    def coordinate_sums_twice_yx(self) -> tuple[Int64, Int64]:
        """Twice the sums of rows and of columns of the pixels of each instance, int64 (2, N), and its area, (N,)."""
        width = self.shape_yx[1]
        sums_twice = np.zeros((2, len(self)), np.int64)
        for runs in blocks(len(self.run_start)):
            start, length = self.run_start[runs], self.run_stop[runs] - self.run_start[runs]
            row = start // width
            column_twice = 2 * (start - row * width) + length - 1
            np.add.at(sums_twice[0], self.run_instance[runs], 2 * row * length)
            np.add.at(sums_twice[1], self.run_instance[runs], column_twice * length)
        return sums_twice, self.areas_px()


def join_instances(parts: Sequence[Instances], shape_yx: tuple[int, int]) -> Instances:
    """Instances of several parts of one image, one part after the other; those of different parts may overlap."""
    if len(parts) == 1:
        return parts[0]

    def joined(name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, dtype), *(getattr(part, name) for part in parts)])

    start, sizes = joined("run_start", np.int64), [len(part) for part in parts]
    order = np.argsort(start, kind="stable")
    first = np.repeat(np.cumsum([0, *sizes])[:-1], [len(part.run_start) for part in parts]).astype(np.int32)
    points = [part.point_yx for part in parts if part.point_yx is not None]
    return Instances(
        shape_yx=shape_yx,
        class_id=joined("class_id", np.int16),
        source_id=joined("source_id", np.int64),
        run_start=start[order],
        run_stop=joined("run_stop", np.int64)[order],
        run_instance=(joined("run_instance", np.int32) + first)[order],
        probability=concatenated_or_none([part.probability for part in parts if len(part)]),
        point_yx=np.concatenate(points) if parts and len(points) == len(parts) else None,
        class_probability=concatenated_or_none([part.class_probability for part in parts if len(part)]),
    )


def concatenated_or_none(arrays: Sequence[Float64 | None]) -> Float64 | None:
    """Arrays one after the other; None if there are none, or if one of them is None."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if known and len(known) == len(arrays) else None


def _keys_of_nature(instances: Instances) -> list[npt.NDArray[Any]]:
    """Keys of ``np.lexsort`` that order instances with the same position: the last one counts first."""
    keys: list[npt.NDArray[Any]] = [instances.class_id]
    if instances.probability is not None:
        keys.insert(0, -instances.probability)
    if instances.class_probability is not None:
        keys[:0] = [-column for column in instances.class_probability.T[::-1]]
    return keys


def _rank_of_pixels(instances: Instances, wanted: Bool) -> Int64:
    """A rank of each instance by its pixels, equal for equal sets of pixels, int64 (N,); 0 where it is not needed.

    Of two sets the one that has the first pixel in which they differ comes first.
    """
    runs = np.flatnonzero(wanted[instances.run_instance])
    runs = runs[np.argsort(instances.run_instance[runs], kind="stable")]
    # Big-endian numbers compare as their bytes do; the run that stops later has the pixel.
    left_over = instances.shape_yx[0] * instances.shape_yx[1] - instances.run_stop[runs]
    bounds = np.stack([instances.run_start[runs], left_over], axis=1).astype(">i8")
    last = np.cumsum(np.bincount(instances.run_instance[runs], minlength=len(instances)))
    chosen = np.flatnonzero(wanted)
    pixels = [bounds[0 if i == 0 else last[i - 1] : last[i]].tobytes() for i in chosen.tolist()]
    rank_of = {key: rank for rank, key in enumerate(sorted(set(pixels)))}
    rank = np.zeros(len(instances), np.int64)
    rank[chosen] = [rank_of[key] for key in pixels]
    return rank


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A set of pixels of one image: sorted, disjoint runs, int64 (R,) each."""

    run_start: Int64
    run_stop: Int64

    def area_px(self) -> int:
        return int((self.run_stop - self.run_start).sum())

    def pixels_before(self, pixel: Int64) -> Int64:
        """Return how many pixels of the region come before each pixel (a flat index), int64."""
        before = np.concatenate([[0], np.cumsum(self.run_stop - self.run_start)])
        runs = np.searchsorted(self.run_start, pixel)
        beyond = np.append(0, self.run_stop)[runs] - pixel  # of the last run that begins before the pixel
        return np.asarray(before[runs] - np.maximum(beyond, 0))

    def pixels_of(self, instances: Instances) -> Int64:
        """Return how many pixels of each instance lie in the region, int64 (N,)."""
        pixels = np.zeros(len(instances), np.int64)
        of_runs = self.pixels_before(instances.run_stop) - self.pixels_before(instances.run_start)
        np.add.at(pixels, instances.run_instance, of_runs)
        return pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class RasterisationReport:
    """Effects of turning the outlines of one file into pixels.

    outlines                        outlines of scored classes in the file
    ignore_outlines                 outlines of ignore classes
    contested_px                    pixels covered by two or more outlines of scored classes
    contested_px_by_cover           the same by the number of outlines: {2: …, 3: …}
    outlines_that_lost_pixels       outlines whose pixels went, in part, to another one under the overlap rule
    outlines_lost_whole             outlines that covered pixels and keep none under the overlap rule (source ids)
    outlines_vanished               outlines that cover no pixel centre of the image (source ids)
    outlines_self_intersecting      outlines of which a ring crosses or touches itself; None: not looked for
    outlines_outside                outlines with a vertex outside 0 <= x < width, 0 <= y < height
    vertices_outside                those vertices, as in the file
    outlines_with_holes, outlines_multi_part

    The last five count outlines of ignore classes too.
    """

    outlines: int
    ignore_outlines: int
    contested_px: int
    contested_px_by_cover: dict[int, int]
    outlines_that_lost_pixels: int
    outlines_lost_whole: tuple[str, ...]
    outlines_vanished: tuple[str, ...]
    outlines_self_intersecting: int | None
    outlines_outside: int
    vertices_outside: int
    outlines_with_holes: int
    outlines_multi_part: int


@dataclass(frozen=True, slots=True, eq=False)
class Boundaries:
    """Boundary pixels of instances: those of instance i are ``points_yx[:, first[i] : first[i] + size[i]]``.

    points_yx    int32 (2, B)
    first, size  int64 (K,)
    """

    points_yx: Int32
    first: Int64
    size: Int64

    def points_of(self, index: int) -> Int32:
        """Points of one instance, int32 (n, 2)."""
        return self.points_yx[:, self.first[index] : self.first[index] + self.size[index]].T


@dataclass(frozen=True, slots=True, eq=False)
class Contours:
    """Contours of instances in pieces: where each piece is, and how long.

    points    corners of pixels; corner (y, x) is the upper left one of pixel (y, x)
    straight  int64 (P,), how many pieces of length 1 are at each point: 0 or 1
    diagonal  int64 (P,), how many of length 1 / sqrt(2): 0, 1 or 2
    """

    points: Boundaries
    straight: Int64
    diagonal: Int64
