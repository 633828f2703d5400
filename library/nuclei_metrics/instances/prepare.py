"""A reference as it is scored: annotations to instances, then overlaps, then ignore regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from nuclei_metrics.errors import UnusableOutlines
from nuclei_metrics.instances.rasterise import cover_outlines, placed_vertices, settle_vanished
from nuclei_metrics.instances.runs import (
    Cover,
    cover_depth,
    empty_region,
    flat_indices,
    instances_from_label_image,
    join_regions,
    positions,
    region_of_positions,
    select_instances,
    subtract_region,
    union_region,
    with_runs,
)
from nuclei_metrics.model import Int32
from nuclei_metrics.model.annotations import (
    IgnorePolicy,
    LabelImage,
    OriginRule,
    Outlines,
    OverlapRule,
    OverlapScope,
    Part,
    Points,
    VanishedRule,
    VerticesRule,
)
from nuclei_metrics.model.arrays import Bool, Float64, Int64, concatenated, distinct, row_bands
from nuclei_metrics.model.instances import Instances, RasterisationReport, Region, join_instances


@dataclass(frozen=True, slots=True, eq=False)
class _ResolvedOverlaps:
    """Instances after an overlap rule, and its effects. N is the number of instances before.

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


def resolve_overlaps(instances: Instances, rule: OverlapRule, scope: OverlapScope) -> _ResolvedOverlaps:
    """Apply an overlap rule, so that no pixel has two instances (of the same class, or at all).

    ``keep`` changes nothing. ``last`` and ``first`` in document order win; ``smallest``: the smaller area wins, and of
    equal areas the last; ``class_order``: the later class wins, inside a class the last. ``ignore``: contested pixels
    leave all instances and become an ignore region. Areas are those inside the image, before the rule.

    scope  ``image``: all instances contest with each other; ``class``: only those of one class do, and those of
           different classes may still overlap afterwards

    Instances without pixels leave. The cost is that of sorting the runs, however many lie on each other; bands of rows
    are resolved one after the other.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> apart = instances_from_labels(np.array([[1, 1, 2, 2]]))
    >>> overlapping = with_runs(apart, np.array([0, 1]), np.array([3, 4]), np.array([0, 1], np.int32))
    >>> resolved = resolve_overlaps(overlapping, "first", "image")
    >>> resolved.instances.areas_px().tolist(), resolved.contested_px_by_cover
    ([3, 1], {2: 2})
    """
    if instances.is_disjoint():  # as the nuclei of a label image are
        nobody = np.zeros(len(instances), np.bool_)
        with_pixels = select_instances(instances, instances.areas_px() > 0)
        return _ResolvedOverlaps(with_pixels, empty_region(), empty_region(), {}, nobody, nobody)
    width = instances.shape_yx[1]
    priority = None if rule in ("keep", "ignore") else _priorities(instances, rule)
    by_priority = None if priority is None else np.argsort(priority).astype(np.int32)
    bands: list[Instances] = []
    ignored: list[Region] = [empty_region()]
    contested: list[Region] = []
    by_cover: Counter[int] = Counter()
    for (runs,) in row_bands([instances.run_start], width):
        band = instances.part(runs)
        everywhere = _find_contest(band, "image")
        contest = _find_contest(band, scope) if scope == "class" and rule != "keep" else everywhere
        contested.append(everywhere.contested_region(width))
        pixels = np.zeros(int(everywhere.cover.depth.max(initial=1)) + 1, np.int64)
        np.add.at(pixels, everywhere.cover.depth, everywhere.cover.stop - everywhere.cover.start)
        by_cover.update({depth: number for depth, number in enumerate(pixels.tolist()) if depth > 1 and number})
        if rule == "ignore":
            ignored.append(contest.contested_region(width))
            band = subtract_region(band, ignored[-1])
        elif priority is not None and by_priority is not None:
            band = _give_to_winners(band, contest, priority, by_priority)
        bands.append(band)
    resolved = instances if rule == "keep" else _join_bands(bands)
    before, after = instances.areas_px(), resolved.areas_px()
    return _ResolvedOverlaps(
        instances=select_instances(resolved, after > 0),
        ignored=concatenated(ignored),
        contested=concatenated(contested),
        contested_px_by_cover=dict(sorted(by_cover.items())),
        lost_pixels=(after > 0) & (after < before),
        lost_whole=(after == 0) & (before > 0),
    )


def _join_bands(bands: Sequence[Instances]) -> Instances:
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
class _Contest:
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


def _find_contest(instances: Instances, scope: OverlapScope) -> _Contest:
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
    return _Contest(span, order[touched], start[touched], stop[touched], cover_depth(start[touched], stop[touched]))


def _priorities(instances: Instances, rule: OverlapRule) -> Int64:
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


def _give_to_winners(instances: Instances, contest: _Contest, priority: Int64, by_priority: Int32) -> Instances:
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


@dataclass(frozen=True, slots=True, eq=False)
class PreparedReference:
    """The reference of one image, ready to be matched.

    instances  of scored classes, in document order, every one with a pixel
    ignore     the pixels where nothing is scored
    report     effects of the rules; None for points
    outside    number of annotations that lie wholly outside the image, of all that there are (``annotations``)
    findings   the warnings of the reader; carried, never looked at
    class_counts  nuclei of each class, int64 (C,), where nothing else is known of them; None: count the instances
    contested  the pixels inside several outlines of scored classes, before the overlap rule; None for points
    ignored    instances of scored classes that left because of the ignore region; None: none did
    """

    instances: Instances
    ignore: Region
    report: RasterisationReport | None = None
    outside: int = 0
    annotations: int = 0
    findings: tuple[Any, ...] = ()
    class_counts: Int64 | None = None
    contested: Region | None = None
    ignored: Instances | None = None


def prepare_reference(
    parts: Sequence[Part],
    shape_yx: tuple[int, int],
    *,
    overlap: OverlapRule | None,
    overlap_scope: OverlapScope | None,
    vanished: VanishedRule | None,
    vertices: VerticesRule | None,
    origin: OriginRule | None,
    ignore_policy: IgnorePolicy | None = None,
    ignore_fraction: float | None = None,
    count_crossed: Callable[[Outlines], int] | None = None,
    where: str = "reference",
) -> PreparedReference:
    """The annotations of a case as instances, after the reference rules of a challenge, in this order.

    1. Every outline becomes pixels; outlines without pixels are treated by the rule ``vanished``. Label images and run
       lengths are pixels already.
    2. Instances of ignore classes become the ignore region; they contest with no one.
    3. The overlap rule decides among the instances of scored classes; under ``ignore`` the contested pixels join the
       ignore region.
    4. The ignore policy acts on the reference as it will on predictions (``apply_ignore_region``), so that a perfect
       submission stays perfect.

    Points have no pixels: they are taken as they are, and there is no report.

    count_crossed  counts the outlines that intersect themselves, which needs a library for geometry; else that count in
                   the report is None
    where          the file, for messages

    Raises UnusableOutlines as ``rasterise_outlines`` does.
    """
    converted = convert_parts(parts, shape_yx, vertices=vertices, origin=origin, vanished=vanished, where=where)
    everything = converted.instances
    if overlap is None or overlap_scope is None:
        return PreparedReference(everything, empty_region(), outside=converted.outside, annotations=len(everything))
    is_scored = everything.class_id >= 0
    scored = select_instances(everything, is_scored)
    region = empty_region() if is_scored.all() else union_region(select_instances(everything, ~is_scored))
    resolved = resolve_overlaps(scored, overlap, overlap_scope)
    region = join_regions([region, resolved.ignored], shape_yx[1])
    instances, ignored = resolved.instances, None
    if ignore_policy is not None:
        instances, places = split_by_region(instances, region, ignore_policy, ignore_fraction)
        ignored = left_out(resolved.instances, places)
    return PreparedReference(
        instances=instances,
        ignore=region,
        report=_report_of(parts, converted, scored, resolved, count_crossed),
        outside=converted.outside,
        annotations=converted.scored_before + converted.ignored_before,
        contested=resolved.contested,
        ignored=ignored,
    )


def _report_of(
    parts: Sequence[Part],
    converted: _ConvertedParts,
    scored: Instances,
    resolved: _ResolvedOverlaps,
    count_crossed: Callable[[Outlines], int] | None,
) -> RasterisationReport:
    """Collect the facts of one case; ``scored`` are the instances before the overlap rule."""
    drawn = [part for part in parts if isinstance(part, Outlines)]
    shape_yx = converted.instances.shape_yx
    outside = [vertices_outside(outlines, shape_yx) for outlines in drawn]
    holes = [distinct(outlines.ring_instance[outlines.ring_is_hole]) for outlines in drawn]
    outer = [np.bincount(o.ring_instance[~o.ring_is_hole], minlength=len(o)) for o in drawn]
    return RasterisationReport(
        outlines=converted.scored_before,
        ignore_outlines=converted.ignored_before,
        contested_px=resolved.contested.area_px(),
        contested_px_by_cover=resolved.contested_px_by_cover,
        outlines_that_lost_pixels=int(resolved.lost_pixels.sum()),
        outlines_lost_whole=tuple(str(source) for source in scored.source_id[resolved.lost_whole]),
        outlines_vanished=converted.vanished,
        outlines_self_intersecting=None if count_crossed is None else sum(map(count_crossed, drawn)),
        outlines_outside=sum(
            len(distinct(_outlines_of_vertices(o)[is_outside])) for o, is_outside in zip(drawn, outside, strict=True)
        ),
        vertices_outside=int(sum(is_outside.sum() for is_outside in outside)),
        outlines_with_holes=sum(map(len, holes)),
        outlines_multi_part=int(sum((count > 1).sum() for count in outer)),
    )


def _outlines_of_vertices(outlines: Outlines) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The outline that each vertex belongs to, int32 (V,)."""
    return np.repeat(outlines.ring_instance, np.diff(outlines.ring_start))


def vertices_outside(outlines: Outlines, shape_yx: tuple[int, int]) -> Bool:
    """Whether each vertex, in the coordinates of the file, is outside ``0 <= x < width, 0 <= y < height``, (V,)."""
    size_xy = shape_yx[::-1]
    return np.asarray(((outlines.points_xy < 0) | (outlines.points_xy >= size_xy)).any(axis=1))


# --- ignore regions ---------------------------------------------------------------------------------------------------


def apply_ignore_region(
    instances: Instances, region: Region, policy: IgnorePolicy, fraction: float | None = None
) -> Instances:
    """The instances that are still scored, in the same order.

    ``clip``              the pixels in the region leave, on both sides; instances without pixels leave with them
    ``drop_overlapping``  instances with more than ``fraction`` of their pixels in the region leave; the others keep
                          all their pixels
    ``drop_centroid``     instances whose centroid pixel lies in the region leave; the others keep all their pixels
    ``drop_unmatched``    as ``clip``; what matches nothing is known later

    Points that lie in a pixel of the region leave under every policy. It acts on both sides alike. ``fraction`` is the
    decimal number as it is written (0.29 of 100 px is exactly 29 px), taken to nine decimals. An empty region changes
    nothing. Raises ValueError for ``drop_overlapping`` without it.

    >>> from nuclei_metrics.instances.runs import instances_from_labels
    >>> instances = instances_from_labels(np.array([[1, 1, 2, 0]]))
    >>> region = Region(np.array([1]), np.array([3]))
    >>> apply_ignore_region(instances, region, "clip").areas_px().tolist()
    [1]
    >>> apply_ignore_region(instances, region, "drop_overlapping", 0.5).areas_px().tolist()
    [2]
    """
    if len(region.run_start) == 0:
        return instances
    if instances.point_yx is not None:
        return select_instances(instances, ~_pixels_in_region(_points_as_pixels(instances), instances, region))
    if policy in ("clip", "drop_unmatched"):
        instances = subtract_region(instances, region)
        dropped = instances.areas_px() == 0
    elif policy == "drop_overlapping":
        if fraction is None:
            raise ValueError("the policy 'drop_overlapping' needs a fraction")
        dropped = more_than_fraction_inside(instances, region, fraction)
    else:
        dropped = _pixels_in_region(instances.centroid_pixels_yx(), instances, region)
    return select_instances(instances, ~dropped)


def split_by_region(
    instances: Instances, region: Region, policy: IgnorePolicy, fraction: float | None = None
) -> tuple[Instances, Int64]:
    """``apply_ignore_region``, and the places of what is still scored among the instances before, int64 (M,)."""
    if len(region.run_start) == 0:
        return instances, np.arange(len(instances))
    numbered = replace(instances, source_id=np.arange(len(instances)))
    scored = apply_ignore_region(numbered, region, policy, fraction)
    return replace(scored, source_id=instances.source_id[scored.source_id]), scored.source_id


def left_out(instances: Instances, places: Int64) -> Instances | None:
    """Return the instances whose indices are not in ``places``; None if there are no such instances."""
    has_left = np.ones(len(instances), np.bool_)
    has_left[places] = False
    return select_instances(instances, has_left) if has_left.any() else None


def more_than_fraction_inside(instances: Instances, region: Region, fraction: float) -> Bool:
    """Return whether ``inside / area > fraction``, compared in whole numbers, bool (N,)."""
    exact = Fraction(str(fraction)).limit_denominator(10**9)
    return np.asarray(region.pixels_of(instances) * exact.denominator > instances.areas_px() * exact.numerator)


def _points_as_pixels(instances: Instances) -> Int64:
    """The pixel that each point lies in, int64 (N, 2); -1 outside the image."""
    pixel = np.floor(instances.centroids_yx() + 0.5)
    outside = ((pixel < 0) | (pixel >= instances.shape_yx)).any(axis=1)
    pixel[outside] = -1
    return pixel.astype(np.int64)


def _pixels_in_region(pixel_yx: Int64, instances: Instances, region: Region) -> Bool:
    """Return whether each pixel, int64 (N, 2), lies in the region, bool (N,); False for -1."""
    flat = pixel_yx[:, 0] * instances.shape_yx[1] + pixel_yx[:, 1]
    run = np.searchsorted(region.run_start, flat, "right") - 1
    return np.asarray((run >= 0) & (pixel_yx[:, 0] >= 0) & (flat < region.run_stop[run]))


# --- annotations as instances -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _ConvertedParts:
    """Instances in the order of the parts, and what became of outlines that cover no pixel of the image.

    vanished                        their ids
    scored_before, ignored_before   number of instances of scored and of ignore classes, with those that vanished
    outside                         number of them that lie wholly outside the image
    """

    instances: Instances
    vanished: tuple[str, ...]
    scored_before: int
    ignored_before: int
    outside: int


def convert_parts(
    parts: Sequence[Part],
    shape_yx: tuple[int, int],
    *,
    vertices: VerticesRule | None,
    origin: OriginRule | None,
    vanished: VanishedRule | None,
    where: str,
) -> _ConvertedParts:
    """All parts as instances of one image: outlines become pixels, label images runs; points stay points.

    vertices, origin, vanished  as in ``rasterise_outlines``; needed for outlines, ``origin`` for points too
    where                       the file, for messages

    Ids of label images that come from several files are distinguished by the name of the file. The probability of the
    instances is None if a part with nuclei has none; so are their class probabilities. Raises UnusableOutlines as
    ``rasterise_outlines`` does, and for points beside outlines; ValueError for counts, which lie nowhere.
    """
    several = sum(not isinstance(part, LabelImage) or part.class_id >= 0 for part in parts) > 1
    converted: list[Instances] = []
    ids: list[str] = []
    classes: list[npt.NDArray[np.int16]] = []
    outside = 0
    for part in parts:
        if isinstance(part, Outlines):
            if vertices is None or origin is None or vanished is None:
                raise ValueError("outlines need the rules vertices, origin and vanished")
            points = placed_vertices(part.points_xy, vertices=vertices, origin=origin)
            covered = cover_outlines(part, points, shape_yx, where=where)
            is_vanished = covered.areas_px() == 0
            ids += [str(source) for source in part.source_id[is_vanished]]
            if is_vanished.any():
                outside += int((is_vanished & _lies_outside(part, points, shape_yx)).sum())
            converted.append(settle_vanished(covered, part, points, vanished, where=where))
        elif isinstance(part, Points):
            if origin is None:
                raise ValueError("points need the rule origin")
            converted.append(instances_from_points(part, shape_yx, origin=origin))
            outside += int((~_lies_in_image(converted[-1].centroids_yx()[:, ::-1], shape_yx)).sum())
        elif isinstance(part, Instances):
            converted.append(part)
        elif isinstance(part, LabelImage):
            converted.append(instances_from_label_image(part, with_source=several))
        else:
            raise ValueError("counts are no instances")
        classes.append(part.class_id if isinstance(part, Outlines) else converted[-1].class_id)
    ignored = sum(int((class_id < 0).sum()) for class_id in classes)
    are_points = [part.point_yx is not None for part in converted]
    if any(are_points) and not all(are_points):
        raise UnusableOutlines("points-beside-outlines", where)
    return _ConvertedParts(
        join_instances(converted, shape_yx), tuple(ids), sum(map(len, classes)) - ignored, ignored, outside
    )


def _lies_outside(outlines: Outlines, points_xy: Float64, shape_yx: tuple[int, int]) -> Bool:
    """Return whether each outline has vertices and all of them lie outside the image, bool (N,)."""
    owner = _outlines_of_vertices(outlines)
    inside = np.bincount(owner[_lies_in_image(points_xy, shape_yx)], minlength=len(outlines))
    return np.asarray((np.bincount(owner, minlength=len(outlines)) > 0) & (inside == 0))


def _lies_in_image(points_xy: Float64, shape_yx: tuple[int, int]) -> Bool:
    """Return whether each point lies in a pixel of the image, bool (V,); whole numbers are pixel centres."""
    return np.asarray(((points_xy >= -0.5) & (points_xy < np.array(shape_yx[::-1]) - 0.5)).all(axis=1))


def instances_from_points(points: Points, shape_yx: tuple[int, int], *, origin: OriginRule) -> Instances:
    """Points as instances without pixels; they may lie outside the image."""
    placed = placed_vertices(points.points_xy, vertices="exact", origin=origin)
    none = np.empty(0, np.int64)
    return Instances(
        shape_yx=shape_yx,
        class_id=points.class_id,
        source_id=points.source_id,
        run_start=none,
        run_stop=none,
        run_instance=np.empty(0, np.int32),
        probability=points.probability,
        point_yx=placed[:, ::-1],
        class_probability=points.class_probability,
    )
