"""Matches between the nuclei of an image, and the nearest candidates of unmatched nuclei."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nuclei_metrics.matching.nearest import nearest_candidates
from nuclei_metrics.matching.rules import (
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first_iou_many,
    match_iou_above_many,
)
from nuclei_metrics.matching.table import find_twins
from nuclei_metrics.metrics.counts import KINDS, join_cases, sort_errors
from nuclei_metrics.model import Bool, Float64, Matches
from nuclei_metrics.pair import Array, Classes, ImagePair, Side, read_pair

Labels = npt.NDArray[np.generic]


class Nearest(NamedTuple):
    """The best candidate on the other side of each of K nuclei: the highest IoU, otherwise the nearest centroid.

    label        of the candidate, (K,); 0 if the other side is empty
    iou          float64 (K,), 0 if nothing overlaps
    distance_px  float64 (K,), between centroids; NaN without a candidate
    taken        bool (K,), whether the candidate is matched to another nucleus: a split or a merge
    """

    label: Labels
    iou: Float64
    distance_px: Float64
    taken: Bool


@dataclass(frozen=True, eq=False, repr=False)
class Matching:
    """Which prediction found which nucleus of an image; all by label.

    pairs     (tp, 2), labels of the reference and of the prediction, by ascending label of the reference
    iou       float64 (tp,), of the pairs; 0 for points
    missed    (fn,), labels of the reference
    spurious  (fp,), labels of the prediction
    """

    pairs: Labels
    iou: Float64
    missed: Labels
    spurious: Labels
    image: ImagePair
    matches: Matches

    @property
    def true_positives(self) -> int:
        return len(self.pairs)

    @property
    def false_positives(self) -> int:
        return len(self.spurious)

    @property
    def false_negatives(self) -> int:
        return len(self.missed)

    def nearest(self, of: Literal["missed", "spurious"] = "missed") -> Nearest:
        """Return the best candidate of each missed nucleus, or of each spurious prediction: why it is in no pair.

        >>> found = match(np.array([[1, 1, 0, 4, 0]]), np.array([[7, 7, 7, 0, 0]]), iou=0.6)
        >>> why = found.nearest()
        >>> found.missed.tolist(), why.label.tolist(), why.iou.tolist(), why.distance_px.tolist(), why.taken.tolist()
        ([4], [7], [0.0], [2.0], [True])
        """
        swapped = of == "spurious"
        if of not in ("missed", "spurious"):
            raise ValueError(f"nearest of {of!r}; expected 'missed' or 'spurious'")
        sides = self.image.with_pixels()
        own, other = sides[:: -1 if swapped else 1]
        labels, taken = (self.spurious, self.pairs[:, 0]) if swapped else (self.missed, self.pairs[:, 1])
        found = nearest_candidates(join_cases([(*sides, self.image.table)]), swapped=swapped)
        place = np.flatnonzero(np.isin(own.source_id, labels))
        index = found.index[place]
        label = np.where(index < 0, 0, np.append(other.source_id, 0)[index])
        return Nearest(label, found.iou[place], found.distance_px[place], np.isin(label, taken))

    def kinds(self, of: Literal["reference", "prediction"]) -> npt.NDArray[np.str_]:
        """Return the kind of each nucleus of a side, by ascending label, (N,).

        "right", "wrong_class" (a pair of two classes), "split", "merged", "poor_outline" (an overlap with IoU of 1/10
        or more that is no pair), "duplicate" (it covers a matched prediction, or half of it), "missed" or "spurious":
        every nucleus has exactly one kind (``sort_errors``).

        >>> found = match(np.array([[1, 1, 1, 1, 0, 4]]), np.array([[5, 5, 6, 6, 0, 0]]))
        >>> found.kinds("reference").tolist(), found.kinds("prediction").tolist()
        (['split', 'missed'], ['split', 'split'])
        """
        if of not in ("reference", "prediction"):
            raise ValueError(f"kinds of {of!r}; expected 'reference' or 'prediction'")
        sides = self.image.with_pixels()
        sorted_errors = sort_errors(*sides, self.image.table, self.matches, twins=find_twins(sides[1]))
        return np.array(KINDS)[sorted_errors.reference if of == "reference" else sorted_errors.prediction]

    def __repr__(self) -> str:
        counts = self.true_positives, self.false_positives, self.false_negatives
        return "Matching(tp={}, fp={}, fn={})".format(*counts)


def match(
    reference: Side | ImagePair,
    prediction: Side | None = None,
    *,
    iou: float = 0.5,
    strict: bool = True,
    class_aware: bool = False,
    reference_class: Classes | None = None,
    prediction_class: Classes | None = None,
) -> Matching:
    """Match nuclei with IoU > ``iou``, or with IoU >= ``iou`` if not ``strict``, as StarDist and Cellpose do.

    IoU is compared in integers: a pair at exactly 1/2 is decided by ``strict`` and never by rounding. Above 1/2 a pair
    is unique among nuclei that do not overlap on their own side (Kirillov et al., CVPR 2019). Otherwise the most pairs
    are taken, and of these the pairs of the greatest total IoU, the same for any labels.

    reference, prediction   two sides, or an ``ImagePair`` alone
    iou                     from 0 to 1, at most six decimals
    class_aware             whether only nuclei of one class can be a pair

    Raises ValueError for other thresholds, and for sides that do not fit.

    >>> found = match(np.array([[1, 1, 0, 4, 4]]), np.array([[7, 7, 7, 8, 0]]))
    >>> found.pairs.tolist(), found.iou.tolist(), found.missed.tolist(), found.spurious.tolist()
    ([[1, 7]], [0.6666666666666666], [4], [8])
    >>> match(np.array([[1, 1, 0, 4, 4]]), np.array([[7, 7, 7, 8, 0]]), strict=False)
    Matching(tp=2, fp=0, fn=0)
    """
    pair = read_pair(reference, prediction, reference_class=reference_class, prediction_class=prediction_class)
    return matching_of(pair, match_at_thresholds(pair, [iou], strict=strict, class_aware=class_aware)[0])


def match_at_thresholds(
    pair: ImagePair, iou: Sequence[float], *, strict: bool, class_aware: bool = False
) -> list[Matches]:
    """Match an image at each IoU threshold. Raises ValueError for a threshold outside 0 to 1."""
    if not iou or not all(0 <= threshold <= 1 for threshold in iou):
        raise ValueError(f"IoU thresholds {iou}; expected numbers from 0 to 1, such as 0.5")
    unique = min(iou) > 0.5 or (min(iou) == 0.5 and strict)  # then no two label maps have rivals, and need no pixels
    sides = pair.sides if unique else pair.with_pixels()
    return match_iou_above_many(pair.table, *sides, iou, class_aware=class_aware, strict=strict)


def match_centroids(
    reference: Side | ImagePair,
    prediction: Side | None = None,
    *,
    radius_px: float,
    method: Literal["closest_first", "assignment"] = "closest_first",
    class_aware: bool = False,
    reference_class: Classes | None = None,
    prediction_class: Classes | None = None,
) -> Matching:
    """Match nuclei whose centroids are at most ``radius_px`` apart, as MIDOG, MONKEY and PUMA do.

    method   "closest_first": of all pairs the closest matches, both nuclei leave, and so on. "assignment": the most
             pairs, and of these the least total distance
    Sides may be points: ``instances_from_points``. Nuclei without overlap can match.

    Raises ValueError for a radius that is negative or not finite, and ``TooManyPairs`` for far too many pairs in it.

    >>> match_centroids(np.array([[1, 0, 0, 2]]), np.array([[0, 0, 7, 0]]), radius_px=1).pairs.tolist()
    [[2, 7]]
    """
    rules: dict[str, Callable[..., Matches]] = {
        "closest_first": match_centroid_closest_first,
        "assignment": match_centroid_assignment,
    }
    if method not in rules:
        raise ValueError(f"method {method!r}; expected 'closest_first' or 'assignment'")
    classes = {"reference_class": reference_class, "prediction_class": prediction_class}
    pair = read_pair(reference, prediction, pixels=True, **classes)
    sides = pair.with_pixels()
    return matching_of(pair, rules[method](*sides, radius_px=radius_px, class_aware=class_aware, table=pair.table))


def match_confidence(
    reference: Side | ImagePair,
    prediction: Side | None = None,
    *,
    confidence: Array | None = None,
    iou: float = 0.5,
    class_aware: bool = False,
    reference_class: Classes | None = None,
    prediction_class: Classes | None = None,
) -> Matching:
    """Match as COCO does: the most confident prediction first takes the free nucleus with the highest IoU >= ``iou``.

    confidence   of each prediction by ascending label, (M,); an ``ImagePair`` has its own

    Raises ValueError without a confidence. Lin et al., ECCV 2014.

    >>> sides = np.array([[1, 1, 1, 0]]), [np.array([[1, 1, 0, 0]]), np.array([[1, 1, 1, 1]])]
    >>> match_confidence(*sides, confidence=[0.9, 0.8]).pairs.tolist()
    [[1, 1]]
    """
    classes = {"reference_class": reference_class, "prediction_class": prediction_class}
    pair = read_pair(reference, prediction, pixels=True, confidence=confidence, **classes)
    sides = pair.with_pixels()
    if sides[1].probability is None and len(sides[1]):
        raise ValueError("predictions without confidence; expected a number for each, by ascending label")
    (found,) = match_confidence_first_iou_many(pair.table, *sides, [iou], class_aware=class_aware)
    return matching_of(pair, found)


def matching_of(pair: ImagePair, found: Matches) -> Matching:
    """Return matches by label."""
    left, right = found.reference_index, found.prediction_index
    reference, prediction = (side.source_id for side in pair.sides)
    iou = found.intersection_px / np.maximum(found.union_px, 1)
    pairs = np.stack([reference[left], prediction[right]], axis=1)
    return Matching(pairs, iou, np.delete(reference, left), np.delete(prediction, right), pair, found)
