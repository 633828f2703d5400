"""What most metrics start from: what was found, missed and spurious, from the matches of a case to sums of units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.metrics.metric import OF_POINTS, Reasons, code, why_undefined
from evaluation.model.arrays import Float64, Int64
from evaluation.model.cases import ClassPresence
from evaluation.model.counts import MatchCounts, Matches, OverlapTable, PredictionList, Scores, Units
from evaluation.model.instances import Instances


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """True positives, false positives and false negatives of each unit, int64 (B,).

    undefined  why a score that needs a true positive, or one side, has no value there, int8 (B,)
    """

    tp: Int64
    fp: Int64
    fn: Int64
    undefined: Reasons


def hits(units: Units) -> Hits:
    """Counts without classes: ``tp`` matched pairs, ``fp`` false positives, ``fn`` false negatives."""
    return kept_hits(units, 0, lambda m: (m[:, 1:, 1:].sum(axis=(1, 2)), m[:, 0].sum(axis=1), m[:, :, 0].sum(axis=1)))


def class_hits(units: Units, class_id: int) -> Hits:
    """Of one class: a matched pair is a true positive if both sides have the class.

    A pair with two classes is a false positive of one and a false negative of the other.
    """

    def count(confusion: Int64) -> tuple[Int64, ...]:
        tp = confusion[:, class_id, class_id]
        return tp, confusion[:, :, class_id].sum(axis=1) - tp, confusion[:, class_id].sum(axis=1) - tp

    return kept_hits(units, class_id, count)


def kept_hits(units: Units, class_id: int, count: Callable[[Int64], tuple[Int64, ...]]) -> Hits:
    """Hits, computed once for all metrics from the confusion matrices of the units."""
    name = f"hits/{class_id}"
    if name not in units.cache:
        tp, fp, fn = count(units.sum("confusion"))
        units.cache[name] = np.stack([tp, fp, fn])
        units.cache[f"{name}/undefined"] = why_undefined(tp + fn, tp + fp)
    tp, fp, fn = units.cache[name]
    return Hits(tp, fp, fn, units.cache[f"{name}/undefined"])


def if_present(units: Units, score: Scores, present: ClassPresence, class_id: int = 0) -> Scores:
    """A score of a class, or of all (0), that counts only where the class occurs.

    present   "either": as it is, since a class that is in neither side has no score; "reference": undefined
              "no-reference" where the reference has no nucleus of the class, so that predictions of it cost nothing
    """
    if present == "either":
        return score
    confusion = units.sum("confusion")
    references = confusion[:, class_id].sum(axis=1) if class_id else confusion[:, 1:].sum(axis=(1, 2))
    absent = (references == 0) & (score.reason == 0)
    return Scores(np.where(absent, np.nan, score.value), np.where(absent, code("no-reference"), score.reason))


def matched(units: Units) -> Int64:
    """Confusion matrix of the matched pairs, (B, C, C): rows reference, columns prediction."""
    matrix: Int64 = units.sum("confusion")[:, 1:, 1:]
    return matrix


# --- measure ----------------------------------------------------------------------------------------------------------

# From matches to counts: everything that scores are made of, measured once.

NOTHING: Mapping[str, Float64] = {}


def count_matches(
    reference: Instances,
    prediction: Instances,
    matches: Matches,
    *,
    classes: int,
    measures: Mapping[str, Float64] = NOTHING,
    missing: bool = False,
    spacing_um: float | None = None,
    areas: bool = False,
) -> MatchCounts:
    """Counts of one case, with what was measured on its pairs.

    If the instances of a side are points, measures of outlines are left out.

    classes     C; every instance has a class id of 1…C, else ValueError
    measures    by name, of each matched pair (see ``overlap_measures`` and ``shape_measures``)
    missing     the case was not submitted (``prediction`` is empty)
    spacing_um  size of a pixel, or None
    areas       whether the area of the reference nucleus of each pair is wanted
    """
    pair_class = np.stack(
        [reference.class_id[matches.reference_index], prediction.class_id[matches.prediction_index]], axis=1
    )
    total_reference = class_counts(reference, classes)
    total_prediction = class_counts(prediction, classes)
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (pair_class[:, 0], pair_class[:, 1]), 1)
    confusion[0, 1:] = total_prediction - confusion[1:, 1:].sum(axis=0)
    confusion[1:, 0] = total_reference - confusion[1:, 1:].sum(axis=1)
    outlines = reference.point_yx is None and prediction.point_yx is None
    found_class = np.zeros(len(prediction), np.int16)
    found_class[matches.prediction_index] = pair_class[:, 0]
    class_probability = prediction.class_probability
    probability = prediction.probability
    if probability is None and len(prediction) == 0:
        probability = np.empty(0, np.float64)
    return MatchCounts(
        confusion=confusion,
        pair_class=pair_class,
        measures={name: values for name, values in measures.items() if outlines or name in OF_POINTS},
        pair_probability=None if class_probability is None else class_probability[matches.prediction_index],
        pair_area_px=reference.areas_px()[matches.reference_index] if areas else None,
        predictions=PredictionList(prediction.class_id, found_class, probability),
        missing=missing,
        diagonal_px=float(np.hypot(reference.shape_yx[0] - 1, reference.shape_yx[1] - 1)),
        spacing_um=spacing_um,
        outlines=outlines,
    )


def overlap_measures(matches: Matches) -> dict[str, Float64]:
    """IoU, ``I / U``, and Dice, ``2 I / (A + B) = 2 I / (U + I)``, of each matched pair, float64 (T,)."""
    intersection, union = matches.intersection_px, matches.union_px
    with np.errstate(invalid="ignore"):
        return {"iou": intersection / union, "dice": 2 * intersection / (union + intersection)}


def shape_measures(reference: Instances, prediction: Instances, matches: Matches) -> dict[str, Float64]:
    """Of each matched pair, float64 (T,): area_ratio, ``B / A``, and centroid_distance_px, which points have too."""
    left, right = matches.reference_index, matches.prediction_index
    offset_yx = reference.centroids_yx()[left] - prediction.centroids_yx()[right]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "area_ratio": prediction.areas_px()[right] / reference.areas_px()[left],
            "centroid_distance_px": np.hypot(*offset_yx.T),
        }


def class_counts(instances: Instances, classes: int) -> Int64:
    """Number of instances of each class, int64 (C,)."""
    if len(instances) and not 1 <= instances.class_id.min() <= instances.class_id.max() <= classes:
        raise ValueError(f"class ids are {instances.class_id.min()} to {instances.class_id.max()}, not 1 to {classes}")
    return np.bincount(instances.class_id, minlength=classes + 1)[1:].astype(np.int64)


# --- joined -----------------------------------------------------------------------------------------------------------

# Several cases as one image: what is counted in a hundred small images then costs no more than in a large one.


@dataclass(frozen=True, slots=True, eq=False)
class JoinedCases:
    """K cases below each other. Instances and pairs are numbered through, case by case; points lose their positions.

    reference, prediction, table   of all cases
    reference_rank, prediction_rank   int64 (N,) and (M,): ``Instances.position_rank``; it decides ties
    shapes_yx                      (H, W) px of each case, int64 (K, 2)
    reference_bound, prediction_bound   int64 (K + 1,): instances of case k are those from ``bound[k]`` to
                                        ``bound[k + 1]``
    """

    reference: Instances
    prediction: Instances
    table: OverlapTable
    reference_rank: Int64
    prediction_rank: Int64
    shapes_yx: Int64
    reference_bound: Int64
    prediction_bound: Int64

    def __len__(self) -> int:
        return len(self.shapes_yx)

    def reference_case(self) -> Int64:
        """The case of each reference instance, int64 (N,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.reference_bound))

    def prediction_case(self) -> Int64:
        """The case of each predicted instance, int64 (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.prediction_bound))

    def pair_bound(self) -> Int64:
        """Where the pairs of each case begin in the table, and where the last ones end, int64 (K + 1,)."""
        return np.searchsorted(self.table.reference_index, self.reference_bound)


def join_cases(cases: Sequence[tuple[Instances, Instances, OverlapTable]]) -> JoinedCases:
    """Reference, prediction and overlap table of each case as one image; at least one.

    The order of pixels inside a case stays, so ties are decided as before.

    >>> one = Instances((1, 2), np.array([1]), np.arange(1), np.array([1]), np.array([2]), np.array([0]))
    >>> table = OverlapTable(np.array([0]), np.array([0]), np.array([1]), np.array([1]), np.array([1]))
    >>> joined = join_cases([(one, one, table)] * 3)
    >>> joined.reference.run_start.tolist(), joined.table.prediction_index.tolist()
    ([1, 3, 5], [0, 1, 2])
    """
    references, predictions, tables = zip(*cases, strict=True)
    bounds = [np.cumsum([0, *(len(of_case) for of_case in side)]) for side in (references, predictions)]
    table = OverlapTable(
        numbered_through([of_case.reference_index for of_case in tables], bounds[0]),
        numbered_through([of_case.prediction_index for of_case in tables], bounds[1]),
        np.concatenate([of_case.intersection_px for of_case in tables]),
        np.concatenate([of_case.reference_area_px for of_case in tables]),
        np.concatenate([of_case.prediction_area_px for of_case in tables]),
    )
    reference, prediction = join_images(references), join_images(predictions)
    ranks = reference.position_rank(), prediction.position_rank()
    shapes_yx = np.array([reference.shape_yx for reference in references], np.int64)
    return JoinedCases(reference, prediction, table, *ranks, shapes_yx, *bounds)


def join_images(images: Sequence[Instances]) -> Instances:
    """The instances of several images as those of one image, in which they lie below each other."""
    if len(images) == 1:
        return images[0]
    heights, widths = np.array([image.shape_yx for image in images], np.int64).T
    width, tops = int(widths.max()), np.cumsum(heights) - heights
    moved = [
        image.run_start // max(image.shape_yx[1], 1) * (width - image.shape_yx[1]) + top * width
        for image, top in zip(images, tops.tolist(), strict=True)
    ]
    probability, class_probability = (
        columns if all(part is not None for part in columns) else None
        for columns in (
            [getattr(image, name) for image in images if len(image)] for name in ("probability", "class_probability")
        )
    )
    return Instances(
        shape_yx=(int(heights.sum()), width),
        class_id=np.concatenate([image.class_id for image in images]),
        source_id=np.arange(sum(len(image) for image in images)),
        run_start=np.concatenate([image.run_start + by for image, by in zip(images, moved, strict=True)]),
        run_stop=np.concatenate([image.run_stop + by for image, by in zip(images, moved, strict=True)]),
        run_instance=numbered_through(
            [image.run_instance for image in images], np.cumsum([0, *(len(image) for image in images)])
        ),
        probability=np.concatenate(probability) if probability else None,
        class_probability=np.concatenate(class_probability) if class_probability else None,
    )


def numbered_through(indices: Sequence[npt.NDArray[Any]], bounds: Int64) -> npt.NDArray[Any]:
    """Indices of instances that start at 0 in each case, as indices into the instances of all cases."""
    return np.concatenate([index + index.dtype.type(first) for index, first in zip(indices, bounds, strict=False)])


def sum_cases(values: npt.NDArray[Any], bound: Int64) -> Int64:
    """Sums of whole numbers, those of case k from ``bound[k]`` to ``bound[k + 1]``; int64 (K,)."""
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[bound])
