"""A reference as it is scored: outlines to pixels, then overlaps, then ignore regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely

from evaluation.findings import Finding
from evaluation.instances.ignore import apply_ignore_region
from evaluation.instances.overlap import ResolvedOverlaps, resolve_overlaps
from evaluation.instances.rasterise import cover_outlines, placed_vertices, settle_vanished
from evaluation.instances.runs import join_regions, select_instances, union_region
from evaluation.model import (
    Bool,
    IgnorePolicy,
    Instances,
    OriginRule,
    Outlines,
    OverlapRule,
    OverlapScope,
    RasterisationReport,
    Region,
    VanishedRule,
    VerticesRule,
)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedReference:
    """The reference of one image, ready to be matched.

    instances  of scored classes, in document order, every one with a pixel
    ignore     the pixels where nothing is scored
    report     what happened on the way; None for instances that were no outlines
    findings   the warnings of the reader
    """

    instances: Instances
    ignore: Region
    report: RasterisationReport | None = None
    findings: tuple[Finding, ...] = ()


def prepare_reference(
    outlines: Outlines,
    shape_yx: tuple[int, int],
    *,
    overlap: OverlapRule,
    overlap_scope: OverlapScope,
    vanished: VanishedRule,
    vertices: VerticesRule,
    origin: OriginRule,
    ignore_policy: IgnorePolicy | None = None,
    ignore_fraction: float | None = None,
    with_geometry_report: bool = False,
    where: str = "reference",
) -> PreparedReference:
    """Rasterise outlines and apply the reference rules of a challenge, in this order.

    1. Every outline becomes pixels; outlines without pixels are treated as ``vanished`` says.
    2. Outlines of ignore classes become the ignore region; they contest with no one.
    3. The overlap rule decides among the outlines of scored classes; under ``ignore`` the contested pixels join the
       ignore region.
    4. The ignore policy acts on the reference as it will on predictions (``apply_ignore_region``), so that a perfect
       submission stays perfect.

    with_geometry_report  also count self-intersecting outlines (GEOS: about 0.1 s for a million vertices); else that
                          count in the report is None
    where                 the file, for messages

    Raises InputFault as ``rasterise_outlines`` does.
    """
    points = placed_vertices(outlines.points_xy, vertices=vertices, origin=origin)
    covered = cover_outlines(outlines, points, shape_yx, where=where)
    is_vanished = covered.areas_px() == 0
    settled = settle_vanished(covered, outlines, points, vanished, where=where)
    scored = select_instances(settled, settled.class_id >= 0)
    region = union_region(select_instances(settled, settled.class_id < 0))
    resolved = resolve_overlaps(scored, overlap, overlap_scope)
    region = join_regions([region, resolved.ignored], shape_yx[1])
    instances = resolved.instances
    if ignore_policy is not None:
        instances = apply_ignore_region(instances, region, ignore_policy, ignore_fraction)
    return PreparedReference(
        instances=instances,
        ignore=region,
        report=report_of(outlines, shape_yx, is_vanished, scored, resolved, with_geometry_report),
        findings=outlines.findings,
    )


def report_of(
    outlines: Outlines,
    shape_yx: tuple[int, int],
    is_vanished: Bool,
    scored: Instances,
    resolved: ResolvedOverlaps,
    with_geometry_report: bool,
) -> RasterisationReport:
    """Collect the facts of one file; ``scored`` are the instances before the overlap rule."""
    outside = vertices_outside(outlines, shape_yx)
    outer_rings = np.bincount(outlines.ring_instance[~outlines.ring_is_hole], minlength=len(outlines))
    return RasterisationReport(
        outlines=int((outlines.class_id >= 0).sum()),
        ignore_outlines=int((outlines.class_id < 0).sum()),
        contested_px=resolved.contested.area_px(),
        contested_px_by_cover=resolved.contested_px_by_cover,
        outlines_that_lost_pixels=int(resolved.lost_pixels.sum()),
        outlines_lost_whole=tuple(str(source) for source in scored.source_id[resolved.lost_whole]),
        outlines_vanished=tuple(str(source) for source in outlines.source_id[is_vanished]),
        outlines_self_intersecting=count_self_intersecting(outlines) if with_geometry_report else None,
        outlines_outside=len(np.unique(outlines_of_vertices(outlines)[outside])),
        vertices_outside=int(outside.sum()),
        outlines_with_holes=len(np.unique(outlines.ring_instance[outlines.ring_is_hole])),
        outlines_multi_part=int((outer_rings > 1).sum()),
    )


def outlines_of_vertices(outlines: Outlines) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The outline that each vertex belongs to, int32 (V,)."""
    return np.repeat(outlines.ring_instance, np.diff(outlines.ring_start))


def vertices_outside(outlines: Outlines, shape_yx: tuple[int, int]) -> Bool:
    """Whether each vertex, in the coordinates of the file, is outside ``0 <= x < width, 0 <= y < height``, (V,)."""
    size_xy = shape_yx[::-1]
    return np.asarray(((outlines.points_xy < 0) | (outlines.points_xy >= size_xy)).any(axis=1))


def count_self_intersecting(outlines: Outlines) -> int:
    """Outlines of which a ring crosses or touches itself (``shapely.is_simple``); fewer than three vertices cannot."""
    count = np.diff(outlines.ring_start)
    chosen = count >= 3
    if not chosen.any():
        return 0
    points = outlines.points_xy[np.repeat(chosen, count)]
    rings = shapely.linearrings(points, indices=np.repeat(np.arange(chosen.sum()), count[chosen]))
    return len(np.unique(outlines.ring_instance[chosen][~shapely.is_simple(rings)]))
