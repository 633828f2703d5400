"""What files say of images: outlines, points, counts, labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.findings import Finding
from evaluation.model.arrays import Bool, Float64, Int16, Int32, Int64
from evaluation.model.instances import Instances


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Polygons as a file describes them, before any rule is applied: rings of vertices that belong to instances.

    points_xy      float64 (V, 2)  vertices of all rings, one after the other, in the file's own coordinates
    ring_start     int64 (K + 1,)  ring k has the vertices ``points_xy[ring_start[k]:ring_start[k + 1]]``; it closes
                   by itself, and a last vertex that repeats the first changes nothing
    ring_instance  int32 (K,)      0…N-1, ascending; an instance has one outer ring or more, and holes
    ring_is_hole   bool (K,)       True: its pixels are taken away from the outer ring of the instance before it
    class_id       int16 (N,)      1…C scored class, 0 not given, -1…-I ignore class; instances are in document order
    source_id      object (N,)     the id or index in the file, for messages and the object table
    probability    float64 (N,)    confidence of each instance in 0…1, or None
    class_probability  float64 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    ring_start: Int64
    ring_instance: Int32
    ring_is_hole: Bool
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float64 | None = None
    class_probability: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Nuclei that are points, as a file describes them, before any rule is applied.

    points_xy    float64 (N, 2)  in the file's own coordinates, but in px
    class_id     int16 (N,)      as in ``Outlines``; points are in document order
    source_id    object (N,)
    probability  float64 (N,)    confidence of each point in 0…1, or None
    class_probability  float64 (N, C)  probability of each class, or None
    """

    points_xy: Float64
    class_id: Int16
    source_id: npt.NDArray[Any]
    probability: Float64 | None = None
    class_probability: Float64 | None = None

    def __len__(self) -> int:
        return len(self.class_id)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How many nuclei of each class an image has, as a file tells that does not say where they are.

    per_class  int64 (C,)  in the order of the classes
    """

    per_class: Int64

    def __len__(self) -> int:
        return int(self.per_class.sum())


@dataclass(frozen=True, slots=True, eq=False)
class LabelRuns:
    """A plane of whole numbers as runs of equal values; where there is no run, it is 0.

    shape_yx      (H, W) px
    start, stop   int64 (R,), half-open intervals of the row-major flat index, ascending, disjoint, each in one row
    value         integer (R,), not 0
    """

    shape_yx: tuple[int, int]
    start: Int64
    stop: Int64
    value: npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class LabelImage:
    """One decoded label image: every positive value is one instance.

    labels     of the pixels, none of them negative
    class_id   the class of all its instances (one file per class), 0 if ``class_map`` tells it
    class_map  the class id (1…C) of every pixel, 0 not given, below 0 for ignore classes, or None
    source     name of the file, for messages; goes before the ids in the object table when a case has several files
    class_of_instance  int16 (N,), the class id of each label in ascending order of the labels, or None
    """

    labels: LabelRuns
    class_id: int = 0
    class_map: LabelRuns | None = None
    source: str = ""
    class_of_instance: Int16 | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelMaps:
    """Reference and prediction of one image as label maps, 0 background; instances of a side do not overlap.

    reference, prediction              integer (H, W)
    reference_class, prediction_class  int16 (N,) and (M,), class ids in ascending order of the labels
    """

    reference: npt.NDArray[np.integer[Any]]
    prediction: npt.NDArray[np.integer[Any]]
    reference_class: Int16
    prediction_class: Int16


Part = Outlines | Points | LabelImage | Instances | Counts


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """What a file says about one case: parts in the order of the file, and warnings about what was left out."""

    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """What a file says about many cases.

    cases     by the name of the case; a case that the file does not mention has no entry, one that it mentions without
              nuclei has an empty one
    unknown   what the file says of images that are no cases: how many entries each name has
    findings  warnings about what was left out
    """

    cases: Mapping[str, Annotations]
    unknown: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
