"""The two sides of one image: the arguments of the functions of the library, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from nuclei_metrics.instances.runs import (
    as_array,
    checked_class_ids,
    instances_from_labels,
    instances_from_masks,
    majority_classes,
    whole_labels,
)
from nuclei_metrics.matching.table import compare_label_maps, overlap_table
from nuclei_metrics.model import Float64, Instances, Int16, Int64, OverlapTable
from nuclei_metrics.model.annotations import runs_of
from nuclei_metrics.model.instances import join_instances


class _SupportsDLPack(Protocol):
    """An array on the CPU that has DLPack alone; nothing is copied, and no library is imported for it."""

    def __dlpack__(self, **options: Any) -> object: ...


Array: TypeAlias = npt.ArrayLike | _SupportsDLPack
"""NumPy, torch on the CPU, JAX, pandas, …: whatever has ``__array__`` or DLPack. A tensor on a GPU, or with a gradient,
is a ValueError that names the remedy, ``tensor.detach().cpu()``: nothing moves between devices unasked."""

Side: TypeAlias = Array | Sequence[Array] | Instances
"""A label map (H, W) of whole numbers (0 is background, gaps are allowed), masks (N, H, W) or a list of masks (H, W),
which may overlap, or ``Instances``. Masks get the labels 1, 2, …; a volume is a ValueError."""

Classes: TypeAlias = Array | Mapping[int, int]
"""The class of each nucleus, 1…C: (N,) by ascending label, ``{label: class}``, or a class map (H, W), of which a
nucleus has the class of most of its pixels."""


class ImagePair:
    """The two sides of one image, read once, with their overlaps: for several functions on the same image.

    reference, prediction   the sides: label maps, masks or ``Instances``
    reference_class, prediction_class   classes of the nuclei; without them every nucleus has class 1
    confidence   of each predicted nucleus by ascending label, (M,), finite; for ``average_precision`` and curves
    spacing_um   size of a pixel in um, for measures in um
    pixels       whether outlines, centroids or AJI will be needed: pixels of label maps are read faster now than later

    >>> import numpy as np
    >>> pair = ImagePair(np.array([[1, 1, 0, 4]]), np.array([[7, 7, 7, 0]]), reference_class=[2, 1])
    >>> pair.reference.class_id.tolist(), pair.table.intersection_px.tolist()
    ([2, 1], [2])

    Raises ValueError for sides, classes and confidences that do not fit, with their shapes.
    """

    table: OverlapTable

    def __init__(
        self,
        reference: Side,
        prediction: Side,
        *,
        reference_class: Classes | None = None,
        prediction_class: Classes | None = None,
        confidence: Array | None = None,
        spacing_um: float | None = None,
        pixels: bool = False,
    ) -> None:
        given = _read("reference", reference), _read("prediction", prediction)
        maps = [side for side in given if isinstance(side, np.ndarray)]
        shapes = [side.shape if isinstance(side, np.ndarray) else side.shape_yx for side in given if side is not None]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            sizes = f"reference is {tuple(shapes[0])} px, prediction {tuple(shapes[1])} px (height, width)"
            raise ValueError(f"{sizes}; expected one size")
        quick = compare_label_maps(*maps) if len(maps) == 2 and not pixels else None
        self._maps = maps if quick else []  # whose runs are made when somebody asks for pixels
        if quick:
            ids, self.table = (quick.reference_ids, quick.prediction_ids), quick.table
            self._sides = _without_runs(ids[0], shapes[0]), _without_runs(ids[1], shapes[0])
        else:
            self._sides = _as_instances(given[0], shapes), _as_instances(given[1], shapes)
            self.table = overlap_table(*self._sides)
        self._sides = (
            self._with_classes(0, "reference", reference_class),
            self._with_classes(1, "prediction", prediction_class),
        )
        if confidence is not None:
            probability = _confidences(confidence, len(self._sides[1]))
            self._sides = self._sides[0], replace(self._sides[1], probability=probability)
        self.spacing_um = spacing_um

    @property
    def sides(self) -> tuple[Instances, Instances]:
        """Both sides; of two label maps with labels and classes, but perhaps without pixels (``with_pixels``)."""
        return self._sides

    def with_pixels(self) -> tuple[Instances, Instances]:
        """Return both sides with their pixels, which ties, centroids and outlines need; made at the first call."""
        if self._maps:
            first, second = (_with_runs(*of_side) for of_side in zip(self._sides, self._maps, strict=True))
            self._sides, self._maps = (first, second), []
        return self._sides

    @property
    def reference(self) -> Instances:
        """The nuclei of the reference."""
        return self.with_pixels()[0]

    @property
    def prediction(self) -> Instances:
        """The predicted nuclei."""
        return self.with_pixels()[1]

    def _with_classes(self, index: int, name: str, classes: Classes | None) -> Instances:
        """Return a side with its classes."""
        side = self._sides[index]
        if classes is None:
            return side
        if isinstance(classes, Mapping):
            if lost := [label for label in side.source_id.tolist() if label not in classes]:
                raise ValueError(f"{name}: no class for label {lost[0]} ({len(lost)} of {len(side)} labels)")
            classes = np.array([classes[label] for label in side.source_id.tolist()], np.int64)
        values = as_array(classes, f"{name}: classes")
        if values.ndim == 2:
            return replace(side, class_id=self._classes_in_map(index, name, values))
        try:
            return replace(side, class_id=checked_class_ids(values, len(side)))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def _classes_in_map(self, index: int, name: str, class_map: npt.NDArray[Any]) -> Int16:
        side = self.with_pixels()[index]
        if class_map.shape != side.shape_yx:
            raise ValueError(f"{name}: a class map of {class_map.shape} px for an image of {side.shape_yx} px")
        class_id = majority_classes(side, runs_of(whole_labels(class_map)))
        if (class_id < 1).any():
            lost = side.source_id[class_id < 1]
            raise ValueError(
                f"{name}: the class map has no class at label {lost[0]} ({len(lost)} of {len(side)} labels)"
            )
        return class_id


def read_pair(reference: Side | ImagePair, prediction: Side | None, *, pixels: bool = False, **given: Any) -> ImagePair:
    """Return the image of a call: the ``ImagePair`` that was given alone, or the two sides as a pair."""
    if isinstance(reference, ImagePair):
        if prediction is not None or any(value is not None for value in given.values()):
            raise ValueError("an ImagePair has both sides and their classes; expected no other side and no classes")
        return reference
    if prediction is None:
        raise ValueError("no prediction; expected two sides, or an ImagePair. An empty prediction is a map of zeros")
    return ImagePair(reference, prediction, pixels=pixels, **given)


def instances_from_points(
    points_yx: Array, shape_yx: tuple[int, int], class_ids: Array | None = None, *, confidence: Array | None = None
) -> Instances:
    """Return nuclei that are points, for ``match_centroids``.

    points_yx   (N, 2) rows and columns, px; whole numbers are pixel centres
    shape_yx    height and width of the image, px
    class_ids   class of each point (N,), 1…C; all 1 if not given
    confidence  of each point (N,), or None

    Labels are 1, 2, … in the order of the points. Raises ValueError for other shapes and numbers.

    >>> instances_from_points([(0, 3), (2.5, 1)], (4, 5)).centroids_yx().tolist()
    [[0.0, 3.0], [2.5, 1.0]]
    """
    points = as_array(points_yx, "points").astype(np.float64)
    points = points.reshape(0, 2) if points.size == 0 else points
    if points.ndim != 2 or points.shape[1] != 2 or not np.isfinite(points).all():
        raise ValueError(f"points of shape {points.shape}; expected finite rows and columns, (N, 2)")
    number, none = len(points), np.empty(0, np.int64)
    classes = np.ones(number, np.int16) if class_ids is None else checked_class_ids(as_array(class_ids, ""), number)
    probability = None if confidence is None else _confidences(confidence, number)
    height, width = int(shape_yx[0]), int(shape_yx[1])
    ids = np.arange(1, number + 1)
    return Instances((height, width), classes, ids, none, none, none.astype(np.int32), probability, points)


def _read(name: str, side: Side) -> Instances | npt.NDArray[np.integer[Any]] | None:
    """Return a side as instances, or as a label map; None for an empty list, which has no size of its own."""
    if isinstance(side, Instances):
        return side
    try:
        if isinstance(side, list | tuple):
            if not side:
                return None
            if isinstance(side[0], Mapping) or as_array(side[0], "labels").ndim > 1:
                return instances_from_masks(side, class_id=1)
        values = as_array(side, "labels")
        return instances_from_masks(values, class_id=1) if values.ndim > 2 else whole_labels(values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _as_instances(side: Instances | npt.NDArray[Any] | None, shapes: Sequence[tuple[int, ...]]) -> Instances:
    if side is None:
        if not shapes:
            raise ValueError("both sides are empty lists, so the size of the image is not known; expected label maps")
        return join_instances([], (shapes[0][0], shapes[0][1]))
    return side if isinstance(side, Instances) else instances_from_labels(side, class_id=1)


def _without_runs(ids: Int64, shape: tuple[int, ...]) -> Instances:
    none = np.empty(0, np.int64)
    return Instances((shape[0], shape[1]), np.ones(len(ids), np.int16), ids, none, none, none.astype(np.int32))


def _with_runs(side: Instances, labels: npt.NDArray[np.integer[Any]]) -> Instances:
    runs = runs_of(labels)
    index = np.searchsorted(side.source_id, runs.value).astype(np.int32)
    return replace(side, run_start=runs.start, run_stop=runs.stop, run_instance=index)


def _confidences(confidence: Array, number: int) -> Float64:
    """Check the confidence of each of so many predictions."""
    values = as_array(confidence, "confidence").astype(np.float64)
    if values.shape != (number,) or not np.isfinite(values).all():
        raise ValueError(
            f"confidence of shape {values.shape} for {number} predictions; expected a finite number for each"
        )
    return values
