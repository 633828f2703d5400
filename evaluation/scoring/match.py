"""Pair the nuclei of a case: instances -> overlap table -> matches, under every matching rule of the challenge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.challenge import (
    AnyMatchingRule,
    BestIouAnyOverlap,
    BestIouCentroidInside,
    CentroidAssignment,
    CentroidClosestFirst,
    Challenge,
    ConfidenceFirst,
    IouAbove,
    IouAssignment,
)
from evaluation.findings import Finding, quote
from evaluation.findings.annotations import TooManyPossiblePairs, TooManyPredictions
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.instances.boundary import RunsByInstance, boundaries_of, runs_by_instance
from evaluation.instances.ignore import apply_ignore_region
from evaluation.instances.parts import join_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.matching import (
    MOST_PAIRS,
    TooManyPairs,
    boundary_boxes,
    match_best_iou_any_overlap,
    match_best_iou_centroid_inside,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first,
    match_confidence_first_iou,
    match_hausdorff_closest_first,
    match_iou_above,
    match_iou_assignment,
    overlap_table,
)
from evaluation.metrics.hausdorff import hausdorff_distances
from evaluation.metrics.measure import class_counts
from evaluation.model import BorderRule, Case, Float64, Instances, Int32, Int64, Matches, OverlapTable

BOUNDARIES_AT_ONCE = 2048  # pairs, or instances, whose boundaries are held together


@dataclass(frozen=True, slots=True, eq=False)
class MatchedCase:
    """A case whose nuclei are paired, by the name of the matching rule, and not yet measured.

    prediction  what is scored: instances in ignore regions have left
    submitted   number of instances before, or None if the case was not submitted
    reference_counts, prediction_counts   nuclei of each class, int64 (C,), also where nothing else is known of them
    """

    case: Case
    reference: PreparedReference
    prediction: Instances
    submitted: int | None
    table: OverlapTable
    matches: dict[str, Matches]
    reference_counts: Int64
    prediction_counts: Int64


def match_case(
    challenge: Challenge,
    case: Case,
    reference: PreparedReference,
    prediction: Instances | None,
    predicted_counts: Int64 | None = None,
) -> MatchedCase:
    """Match one case under all rules of the challenge. ``prediction`` None: not submitted.

    predicted_counts   nuclei of each class, int64 (C,), if the submission tells nothing else
    """
    submitted = join_instances([], case.shape_yx) if prediction is None else prediction
    ignore = challenge.reference.ignore
    predicted = submitted
    if ignore.policy is not None:
        predicted = apply_ignore_region(submitted, reference.ignore, ignore.policy, ignore.fraction)
    table = overlap_table(reference.instances, predicted)
    classes = len(challenge.classes)
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=table,
        matches={
            rule.name: match(rule, case, table, reference.instances, predicted, border=challenge.metrics.boundary)
            for rule in challenge.matching.rules
        },
        reference_counts=(
            class_counts(reference.instances, classes) if reference.class_counts is None else reference.class_counts
        ),
        prediction_counts=class_counts(predicted, classes) if predicted_counts is None else predicted_counts,
    )


def match(
    rule: AnyMatchingRule,
    case: Case,
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    *,
    border: BorderRule,
) -> Matches:
    """Apply one matching rule of the challenge. ``border``: what a boundary is, for the rule that compares them."""
    aware = rule.class_aware
    if isinstance(rule, IouAbove):
        return match_iou_above(table, reference, prediction, threshold=rule.threshold, class_aware=aware)
    if isinstance(rule, IouAssignment):
        return match_iou_assignment(table, reference, prediction, threshold=rule.threshold, class_aware=aware)
    if isinstance(rule, BestIouCentroidInside):
        return match_best_iou_centroid_inside(table, reference, prediction, class_aware=aware)
    if isinstance(rule, BestIouAnyOverlap):
        return match_best_iou_any_overlap(table, reference, prediction, class_aware=aware)
    if isinstance(rule, ConfidenceFirst) and rule.threshold is not None:
        return match_confidence_first_iou(table, reference, prediction, threshold=rule.threshold, class_aware=aware)
    radius_px = rule.radius_in_px(case)
    if isinstance(rule, CentroidClosestFirst):
        return match_centroid_closest_first(reference, prediction, radius_px=radius_px, class_aware=aware, table=table)
    if isinstance(rule, CentroidAssignment):
        try:
            return match_centroid_assignment(
                reference, prediction, radius_px=radius_px, class_aware=aware, cutoff=rule.cutoff, table=table
            )
        except TooManyPairs as error:
            if error.references**2 <= MOST_PAIRS:  # a good submission has room
                raise InputFault(too_many_predictions(rule, case, error)) from error
            raise ChallengeBroken(too_many_pairs(rule, case, error)) from error
    if isinstance(rule, ConfidenceFirst):
        return match_confidence_first(reference, prediction, radius_px=radius_px, class_aware=aware, table=table)
    left, right = runs_by_instance(reference), runs_by_instance(prediction)
    return match_hausdorff_closest_first(
        reference,
        prediction,
        boxes=(boxes_of(left, border), boxes_of(right, border)),
        distances=lambda i, j: distances_of(left, right, i, j, border),
        radius_px=radius_px,
        class_aware=aware,
        table=table,
    )


def too_many_pairs(rule: CentroidAssignment, case: Case, error: TooManyPairs) -> Finding:
    """The finding about a case in which not all nuclei can be assigned."""
    fault = TooManyPossiblePairs(error.references, error.predictions, MOST_PAIRS)
    return fault.at(f"case {quote(case.name)}, matching rule {quote(rule.name)}")


def too_many_predictions(rule: CentroidAssignment, case: Case, error: TooManyPairs) -> Finding:
    """The finding for a participant who predicts far too many nuclei; it tells nothing of the reference."""
    return TooManyPredictions(error.predictions, rule.name).at(f"case {quote(case.name)}")


def boxes_of(runs: RunsByInstance, border: BorderRule) -> Int32:
    """``boundary_boxes`` of all instances; only some boundaries are in memory at a time."""
    instances = len(runs.bound) - 1
    parts = [boundary_boxes(boundaries_of(runs, part, border=border)) for part in parts_of(np.arange(instances))]
    return np.concatenate([np.empty((0, 4), np.int32), *parts])


def distances_of(
    left: RunsByInstance, right: RunsByInstance, reference_index: Int32, prediction_index: Int32, border: BorderRule
) -> Float64:
    """Hausdorff distances of pairs, px; only some boundaries are in memory at a time."""
    parts = [
        hausdorff_distances(boundaries_of(left, i, border=border), boundaries_of(right, j, border=border))[0]
        for i, j in zip(parts_of(reference_index), parts_of(prediction_index), strict=True)
    ]
    return np.concatenate([np.empty(0), *parts])


def parts_of(index: npt.NDArray[np.integer[Any]]) -> Iterator[npt.NDArray[np.integer[Any]]]:
    for first in range(0, len(index), BOUNDARIES_AT_ONCE):
        yield index[first : first + BOUNDARIES_AT_ONCE]
