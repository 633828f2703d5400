"""Pair the nuclei of a case: instances -> overlap table -> matches, under every matching rule of the challenge."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from evaluation.challenge import Challenge
from evaluation.challenge.matching_rules import InFileOrder, MatchingRule, Sides
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import ChallengeBroken, InputFault, TooManyPairs
from evaluation.instances.ignore import apply_ignore_region, more_than_fraction_inside
from evaluation.instances.parts import join_instances
from evaluation.instances.prepare import PreparedReference
from evaluation.instances.runs import cover_depth, select_instances
from evaluation.matching.table import overlap_table
from evaluation.metrics.counts import class_counts
from evaluation.model import Case, Instances, Int64, Matches, OverlapTable


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
        where = f"case {quote(case.name)}"
        deepest = int(cover_depth(predicted.run_start, predicted.run_stop).depth.max(initial=0))
        to_organisers = fault(
            "too-many-overlaps", where, wording="reference", pairs=error.pairs, what=error.what, limit=error.most
        )
        raise refusal(
            error, to_organisers, fault("too-many-overlaps", where, nuclei=len(predicted), deepest=deepest)
        ) from error
    rules = challenge.matching.rules
    if "file_order" in challenge.matching.published_faults:
        rules = (InFileOrder(**rules[0].model_dump()), *rules[1:])
    sides = Sides(case, table, reference.instances, predicted, challenge.metrics.boundary)
    if ignore.policy == "drop_unmatched" and kept is not None and rules:
        found = match(rules[0], sides)
        stays = ~more_than_fraction_inside(submitted, reference.ignore, ignore.fraction or 0.0)[kept]
        stays[found.prediction_index] = True
        predicted, kept = select_instances(predicted, stays), kept[stays]
        table = overlap_table(reference.instances, predicted)
        sides = replace(sides, table=table, prediction=predicted)
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=table,
        matches={rule.name: match(rule, sides) for rule in rules},
        reference_counts=(
            class_counts(reference.instances, classes) if reference.class_counts is None else reference.class_counts
        ),
        prediction_counts=class_counts(predicted, classes) if predicted_counts is None else predicted_counts,
        kept=kept,
    )


def match(rule: MatchingRule, sides: Sides) -> Matches:
    """Apply one matching rule of the challenge.

    Raises InputFault, or ChallengeBroken if the reference alone is to blame, where too many pairs would be compared.
    """
    try:
        return rule.match(sides)
    except TooManyPairs as error:
        where = f"case {quote(sides.case.name)}, matching rule {quote(rule.name)}"
        to_organisers = fault(
            "case-too-costly",
            where,
            wording="too-many-possible-pairs",
            pairs=error.pairs,
            what=error.what,
            limit=error.most,
        )
        raise refusal(
            error, to_organisers, fault("case-too-costly", where, predictions=len(sides.prediction))
        ) from error


def refusal(error: TooManyPairs, to_organisers: Finding, to_participants: Finding) -> ChallengeBroken | InputFault:
    """Who is told: participants, unless no good submission has room; what they read says nothing of the reference."""
    return ChallengeBroken(to_organisers) if error.by_reference else InputFault(to_participants)
