"""Pair the nuclei of a case: instances -> overlap table -> matches, under every matching rule of the challenge."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.challenge import Challenge
from evaluation.challenge.matching_rules import Sides
from evaluation.instances.ignore import apply_ignore_region
from evaluation.instances.parts import join_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.matching.table import overlap_table
from evaluation.metrics.measure import class_counts
from evaluation.model import Case, Instances, Int64, Matches, OverlapTable


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
    sides = Sides(case, table, reference.instances, predicted, challenge.metrics.boundary)
    classes = len(challenge.classes)
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=table,
        matches={rule.name: rule.match(sides) for rule in challenge.matching.rules},
        reference_counts=(
            class_counts(reference.instances, classes) if reference.class_counts is None else reference.class_counts
        ),
        prediction_counts=class_counts(predicted, classes) if predicted_counts is None else predicted_counts,
    )
