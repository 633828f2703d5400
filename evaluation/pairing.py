"""Pair the nuclei of a case: instances -> overlap table -> matches, under every matching rule of the challenge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from evaluation.errors import ChallengeBroken, InputFault, TooManyPairs
from evaluation.findings import Finding, quote
from evaluation.instances.boundary import RunsByInstance, boundaries_of, runs_by_instance
from evaluation.instances.ignore import apply_ignore_region, more_than_fraction_inside
from evaluation.instances.parts import join_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.instances.runs import cover_depth, select_instances
from evaluation.matching import (
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
    kept        places of the prediction in what was submitted, int64 (M,); None: all of it, in its order
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
    kept: Int64 | None = None


def match_case(
    challenge: Challenge,
    case: Case,
    reference: PreparedReference,
    prediction: Instances | None,
    predicted_counts: Int64 | None = None,
) -> MatchedCase:
    """Match one case under all rules of the challenge. ``prediction`` None: not submitted.

    Under the ignore policy ``drop_unmatched`` a prediction leaves that the first rule matches with nothing, and of
    whose pixels more than the fraction lay in the region, before its pixels there left: the void rule of panoptic
    quality (Kirillov et al., CVPR 2019, "void labels"). Then all rules match what is left.

    predicted_counts   nuclei of each class, int64 (C,), if the submission tells nothing else
    """
    submitted = join_instances([], case.shape_yx) if prediction is None else prediction
    ignore = challenge.reference.ignore
    predicted, kept = submitted, None
    if ignore.policy is not None:
        numbered = replace(submitted, source_id=np.arange(len(submitted)))
        numbered = apply_ignore_region(numbered, reference.ignore, ignore.policy, ignore.fraction)
        kept = numbered.source_id
        predicted = replace(numbered, source_id=submitted.source_id[kept])
    classes = len(challenge.classes)
    try:
        table = overlap_table(reference.instances, predicted, most=challenge.limits.overlaps_per_case)
    except TooManyPairs as error:
        raise refusal(error, too_many_overlaps(case, error), too_many_on_each_other(case, predicted)) from error
    rules, border = challenge.matching.rules, challenge.metrics.boundary
    if ignore.policy == "drop_unmatched" and kept is not None and rules:
        found = match(rules[0], case, table, reference.instances, predicted, border=border)
        stays = ~more_than_fraction_inside(submitted, reference.ignore, ignore.fraction or 0.0)[kept]
        stays[found.prediction_index] = True
        predicted, kept = select_instances(predicted, stays), kept[stays]
        table = overlap_table(reference.instances, predicted)
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=table,
        matches={rule.name: match(rule, case, table, reference.instances, predicted, border=border) for rule in rules},
        reference_counts=(
            class_counts(reference.instances, classes) if reference.class_counts is None else reference.class_counts
        ),
        prediction_counts=class_counts(predicted, classes) if predicted_counts is None else predicted_counts,
        kept=kept,
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
    """Apply one matching rule of the challenge. ``border``: what a boundary is, for the rule that compares them.

    Raises InputFault, or ChallengeBroken if the reference alone is to blame, where too many pairs would be compared.
    """
    try:
        return apply_rule(rule, case, table, reference, prediction, border=border)
    except TooManyPairs as error:
        where = f"case {quote(case.name)}, matching rule {quote(rule.name)}"
        raise refusal(error, too_many_pairs(where, error), too_many_predictions(where, len(prediction))) from error


def apply_rule(
    rule: AnyMatchingRule,
    case: Case,
    table: OverlapTable,
    reference: Instances,
    prediction: Instances,
    *,
    border: BorderRule,
) -> Matches:
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
        return match_centroid_assignment(
            reference, prediction, radius_px=radius_px, class_aware=aware, cutoff=rule.cutoff, table=table
        )
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


def refusal(error: TooManyPairs, to_organisers: Finding, to_participants: Finding) -> ChallengeBroken | InputFault:
    """Who is told: participants, unless no good submission has room; what they read says nothing of the reference."""
    return ChallengeBroken(to_organisers) if error.by_reference else InputFault(to_participants)


def too_many_overlaps(case: Case, error: TooManyPairs) -> Finding:
    """The finding about a case whose reference nuclei lie on each other in such numbers that no one can match them."""
    return Finding(
        "too-many-overlaps",
        f"case {quote(case.name)}",
        f"{error.pairs:,} {error.what}",
        f"at most {error.most:,}",
        "Remove nuclei of the reference that lie on each other, or raise 'overlaps_per_case' under [limits].",
    )


def too_many_on_each_other(case: Case, prediction: Instances) -> Finding:
    """The same for a participant; it tells nothing of the reference."""
    deepest = int(cover_depth(prediction.run_start, prediction.run_stop).depth.max(initial=0))
    return Finding(
        "too-many-overlaps",
        f"case {quote(case.name)}",
        f"{len(prediction):,} nuclei, up to {deepest:,} of them on one pixel",
        "fewer that lie on each other",
        "Leave out nuclei that were found several times.",
    )


def too_many_pairs(where: str, error: TooManyPairs) -> Finding:
    """The finding about a case with more pairs than may be compared."""
    return Finding(
        "case-too-costly",
        where,
        f"{error.pairs:,} {error.what}",
        f"at most {error.most:,}",
        'Choose a smaller radius or cutoff = "before", or cut the images into smaller ones.',
    )


def too_many_predictions(where: str, predictions: int) -> Finding:
    """The finding for a participant who predicts far too many nuclei; it tells nothing of the reference."""
    return Finding(
        "case-too-costly",
        where,
        f"{predictions:,} nuclei, which make too many pairs with those of the reference",
        "fewer, or nuclei that lie where those of the image are",
        "Leave out what is no nucleus, such as single pixels, and what was found several times.",
    )


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
