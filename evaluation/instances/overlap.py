"""The overlap rules: they decide which nucleus keeps the pixels that several outlines cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.instances.runs import (
    Cover,
    cover_depth,
    empty_region,
    flat_indices,
    positions,
    region_of_positions,
    select_instances,
    subtract_region,
    with_runs,
)
from evaluation.model import Bool, Instances, Int32, Int64, OverlapRule, OverlapScope, Region
from evaluation.model.arrays import concatenated, row_bands


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedOverlaps:
    """Instances after an overlap rule, and what it did. N counts the instances before.

    instances              those that keep a pixel, in the same order
    ignored                the pixels that the rule ``ignore`` took from all; empty under the other rules
    contested              pixels under two or more instances, whatever their classes and the scope
    contested_px_by_cover  how many of them there are by the number of instances: {2: …, 3: …}
    lost_pixels            bool (N,)  lost some pixels and kept others
    lost_whole             bool (N,)  had pixels and kept none
    """

    instances: Instances
    ignored: Region
    contested: Region
    contested_px_by_cover: dict[int, int]
    lost_pixels: Bool
    lost_whole: Bool


def resolve_overlaps(instances: Instances, rule: OverlapRule, scope: OverlapScope) -> ResolvedOverlaps:
    """Apply an overlap rule, so that no pixel has two instances (of the same class, or at all).

    ``keep`` changes nothing. ``last`` and ``first`` in document order win; ``smallest``: the smaller area wins, and of
    equal areas the last; ``class_order``: the later class wins, inside a class the last. ``ignore``: contested pixels
    leave all instances and become an ignore region. Areas are those inside the image, before the rule.

    scope  ``image``: all instances contest with each other; ``class``: only those of one class do, and those of
           different classes may still overlap afterwards

    Instances without pixels leave. The cost is that of sorting the runs, however many lie on each other; bands of rows
    are resolved one after the other.

    >>> from evaluation.instances.labels import instances_from_labels
    >>> apart = instances_from_labels(np.array([[1, 1, 2, 2]]))
    >>> overlapping = with_runs(apart, np.array([0, 1]), np.array([3, 4]), np.array([0, 1], np.int32))
    >>> resolved = resolve_overlaps(overlapping, "first", "image")
    >>> resolved.instances.areas_px().tolist(), resolved.contested_px_by_cover
    ([3, 1], {2: 2})
    """
    width = instances.shape_yx[1]
    priority = None if rule in ("keep", "ignore") else priorities(instances, rule)
    by_priority = None if priority is None else np.argsort(priority).astype(np.int32)
    bands: list[Instances] = []
    ignored: list[Region] = [empty_region()]
    contested: list[Region] = []
    by_cover: Counter[int] = Counter()
    for (runs,) in row_bands([instances.run_start], width):
        band = instances.part(runs)
        everywhere = find_contest(band, "image")
        contest = find_contest(band, scope) if scope == "class" and rule != "keep" else everywhere
        contested.append(everywhere.contested_region(width))
        pixels = np.zeros(int(everywhere.cover.depth.max(initial=1)) + 1, np.int64)
        np.add.at(pixels, everywhere.cover.depth, everywhere.cover.stop - everywhere.cover.start)
        by_cover.update({depth: number for depth, number in enumerate(pixels.tolist()) if depth > 1 and number})
        if rule == "ignore":
            ignored.append(contest.contested_region(width))
            band = subtract_region(band, ignored[-1])
        elif priority is not None and by_priority is not None:
            band = give_to_winners(band, contest, priority, by_priority)
        bands.append(band)
    resolved = instances if rule == "keep" else join_bands(bands)
    before, after = instances.areas_px(), resolved.areas_px()
    return ResolvedOverlaps(
        instances=select_instances(resolved, after > 0),
        ignored=concatenated(ignored),
        contested=concatenated(contested),
        contested_px_by_cover=dict(sorted(by_cover.items())),
        lost_pixels=(after > 0) & (after < before),
        lost_whole=(after == 0) & (before > 0),
    )


def join_bands(bands: Sequence[Instances]) -> Instances:
    """The same instances with the runs of bands of rows, one after the other."""
    if len(bands) == 1:
        return bands[0]
    return replace(
        bands[0],
        run_start=np.concatenate([band.run_start for band in bands]),
        run_stop=np.concatenate([band.run_stop for band in bands]),
        run_instance=np.concatenate([band.run_instance for band in bands]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The runs that share pixels with others, on a number line where only runs that compete for pixels can overlap.

    span    length of the stretch of the number line that an image takes; under the scope ``class`` each class has one
    run     int64 (R,)  which runs of the instances; start, stop int64 (R,) where they lie on the line
    cover   how many of them cover each pixel
    """

    span: int
    run: Int64
    start: Int64
    stop: Int64
    cover: Cover

    def contested_region(self, width: int) -> Region:
        """Pixels under two or more runs."""
        several = self.cover.depth > 1
        start = self.cover.start[several] % self.span
        return region_of_positions(start, start + (self.cover.stop - self.cover.start)[several], width)


def find_contest(instances: Instances, scope: OverlapScope) -> Contest:
    """Find the runs that overlap others."""
    height, width = instances.shape_yx
    span = height * (width + 1)
    start = positions(instances.run_start, width)
    if scope == "class":
        _, stretch = np.unique(instances.class_id, return_inverse=True)
        start = start + stretch[instances.run_instance] * span
    order = np.argsort(start, kind="stable")
    start = start[order]
    stop = start + (instances.run_stop - instances.run_start)[order]
    joined = start[1:] < np.maximum.accumulate(stop)[:-1]
    with_others = np.zeros(len(start), np.bool_)
    with_others[1:] |= joined
    with_others[:-1] |= joined
    touched = np.flatnonzero(with_others)
    return Contest(span, order[touched], start[touched], stop[touched], cover_depth(start[touched], stop[touched]))


def priorities(instances: Instances, rule: OverlapRule) -> Int64:
    """A rank for each instance, int64 (N,), all different: the higher one wins."""
    index = np.arange(len(instances))
    if rule == "first":
        return index[::-1].copy()
    if rule == "last":
        return index
    order = np.lexsort((index, -instances.areas_px() if rule == "smallest" else instances.class_id))
    rank = np.empty(len(instances), np.int64)
    rank[order] = index
    return rank


def give_to_winners(instances: Instances, contest: Contest, priority: Int64, by_priority: Int32) -> Instances:
    """Give every contested pixel to the instance of the highest priority among those that cover it.

    by_priority  the instance of each priority
    """
    if len(contest.run) == 0:
        return instances
    cover = contest.cover
    first = np.searchsorted(cover.start, contest.start, "left")  # every run begins and ends where a stretch does
    stop = np.searchsorted(cover.start, contest.stop, "left")
    winner = highest_on_each(first, stop, priority[instances.run_instance[contest.run]], len(cover.start))

    # Neighbouring stretches of one winner are one run.
    breaks = np.flatnonzero((winner[1:] != winner[:-1]) | (cover.start[1:] != cover.stop[:-1]))
    begin = np.concatenate([[0], breaks + 1])
    end = np.concatenate([breaks, [len(winner) - 1]])
    won_start = cover.start[begin] % contest.span
    width = instances.shape_yx[1]
    flat_start = flat_indices(won_start, width)
    flat_stop = flat_start + (cover.stop[end] - cover.start[begin])
    others = np.ones(len(instances.run_start), np.bool_)
    others[contest.run] = False
    return with_runs(
        instances,
        np.concatenate([instances.run_start[others], flat_start]),
        np.concatenate([instances.run_stop[others], flat_stop]),
        np.concatenate([instances.run_instance[others], by_priority[winner[begin]]]),
    )


def highest_on_each(first: Int64, stop: Int64, value: Int64, stretches: int) -> Int64:
    """The highest value of the intervals that cover each of so many stretches, int64; every stretch is covered.

    first, stop   int64 (R,), interval r covers the stretches ``first[r]`` to ``stop[r] - 1``
    value         int64 (R,), at least 0

    An interval is what two blocks cover whose length is a power of two. Values go to the blocks; from the longest on,
    each block hands its value down to its halves. Cost: intervals, and stretches times the logarithm of the longest

    >>> highest_on_each(np.array([0, 1]), np.array([3, 4]), np.array([7, 9]), 4).tolist()
    [7, 9, 9, 9]
    """
    level = np.frexp(stop - first)[1] - 1  # of the longest power of two that is not longer
    highest = np.full(stretches, -1, np.int64)
    for power in range(int(level.max(initial=0)), -1, -1):
        length = 1 << power
        of_level = level == power
        np.maximum.at(highest, first[of_level], value[of_level])
        np.maximum.at(highest, stop[of_level] - length, value[of_level])
        if power:
            above = highest.copy()
            np.maximum(highest[length // 2 :], above[: -(length // 2)], out=highest[length // 2 :])
    return highest
