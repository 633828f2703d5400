"""What a file says of a case, in its parts, as one table of instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.findings.errors import refused
from evaluation.instances.labels import instances_from_label_image
from evaluation.instances.rasterise import cover_outlines, placed_vertices, settle_vanished
from evaluation.model.annotations import LabelImage, Outlines, Part, Points
from evaluation.model.arrays import Bool, Float64
from evaluation.model.cases import OriginRule, VanishedRule, VerticesRule
from evaluation.model.instances import Instances


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedParts:
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
) -> ConvertedParts:
    """All parts as instances of one image: outlines become pixels, label images runs; points stay points.

    vertices, origin, vanished  as in ``rasterise_outlines``; needed for outlines, ``origin`` for points too
    where                       the file, for messages

    Ids of label images that come from several files are distinguished by the name of the file. The probability of the
    instances is None if a part with nuclei has none; so are their class probabilities. Raises InputFault as
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
                outside += int((is_vanished & lies_outside(part, points, shape_yx)).sum())
            converted.append(settle_vanished(covered, part, points, vanished, where=where))
        elif isinstance(part, Points):
            if origin is None:
                raise ValueError("points need the rule origin")
            converted.append(instances_from_points(part, shape_yx, origin=origin))
            outside += int((~lies_in_image(converted[-1].centroids_yx()[:, ::-1], shape_yx)).sum())
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
        raise refused("unsupported-shape", where, wording="points-beside-outlines")
    return ConvertedParts(
        join_instances(converted, shape_yx), tuple(ids), sum(map(len, classes)) - ignored, ignored, outside
    )


def lies_outside(outlines: Outlines, points_xy: Float64, shape_yx: tuple[int, int]) -> Bool:
    """Whether each outline has vertices and all of them lie outside the image, bool (N,)."""
    owner = np.repeat(outlines.ring_instance, np.diff(outlines.ring_start))
    inside = np.bincount(owner[lies_in_image(points_xy, shape_yx)], minlength=len(outlines))
    return np.asarray((np.bincount(owner, minlength=len(outlines)) > 0) & (inside == 0))


def lies_in_image(points_xy: Float64, shape_yx: tuple[int, int]) -> Bool:
    """Whether each point lies in a pixel of the image, bool (V,); whole numbers are pixel centres."""
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


def join_instances(parts: Sequence[Instances], shape_yx: tuple[int, int]) -> Instances:
    """Instances of several parts of one image, one part after the other; those of different parts may overlap."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    start = joined([part.run_start for part in parts], np.int64)
    order = np.argsort(start, kind="stable")
    instance = [part.run_instance + np.int32(offset) for part, offset in zip(parts, offsets[:-1], strict=True)]
    points = [part.point_yx for part in parts if part.point_yx is not None]
    return Instances(
        shape_yx=shape_yx,
        class_id=joined([part.class_id for part in parts], np.int16),
        source_id=joined([part.source_id for part in parts], object),
        run_start=start[order],
        run_stop=joined([part.run_stop for part in parts], np.int64)[order],
        run_instance=joined(instance, np.int32)[order],
        probability=joined_or_none([part.probability for part in parts if len(part)]),
        point_yx=np.concatenate(points) if parts and len(points) == len(parts) else None,
        class_probability=joined_or_none([part.class_probability for part in parts if len(part)]),
    )


def joined_or_none(arrays: Sequence[Float64 | None]) -> Float64 | None:
    """Arrays one after the other; None if there are none, or if one of them is None."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if known and len(known) == len(arrays) else None


def joined(arrays: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *(array.astype(dtype, copy=False) for array in arrays)])
