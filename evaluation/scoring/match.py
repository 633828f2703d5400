"""Pair the nuclei of a case: instances -> overlap table -> matches, under every matching rule of the challenge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from evaluation.challenge import Challenge, FormatRules
from evaluation.challenge.matching_rules import InFileOrder, IouRule, MatchingRule, RadiusRule, Sides
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import ChallengeBroken, InputFault
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances import prepare
from nuclei_metrics.instances.plausible import background_index, scattered_instances
from nuclei_metrics.instances.runs import cover_depth, select_instances
from nuclei_metrics.matching.rules import RADIUS_ROUNDING, centroid_inside, match_iou_above, may_be_refused
from nuclei_metrics.matching.table import count_copies, duplicates_among, find_twins, overlap_table, refuse_overlaps
from nuclei_metrics.metrics.counts import class_counts, join_images
from nuclei_metrics.model import Bool, Case, Instances, Int64, Matches, OverlapTable
from nuclei_metrics.model.arrays import Float64, distinct
from nuclei_metrics.model.instances import join_instances

MANY = 20  # nuclei that do not lie in one corner by chance
_RUNS_OF_SMALL_CASES = 1 << 15
_RUNS_LOOKED_AT_TOGETHER = 1 << 17
_TWINS_OF_NUCLEI = 0.05  # share of the nuclei: up to here twins are told only if some are equal
_LARGE = 0.5  # share of an image that the only nucleus of an image has in no usual image
LOOKED_AT = 64  # shared rows, or close points, for each run or point: a nucleus that is there 64 times is counted


@dataclass(frozen=True, slots=True, eq=False)
class MatchedCase:
    """A case with paired nuclei, by the name of the matching rule, before measuring.

    prediction  the scored instances, without instances in ignore regions
    overlaps    of all nuclei, including duplicates, which are excluded from matching and ``table``
    ignored     predictions removed by the ignore region; None: none
    submitted   number of instances before, or None if the case was not submitted
    reference_counts, prediction_counts   nuclei of each class, int64 (C,), also if only numbers are known
    """

    case: Case
    reference: prepare.PreparedReference
    prediction: Instances
    submitted: int | None
    table: OverlapTable
    matches: dict[str, Matches]
    reference_counts: Int64
    prediction_counts: Int64
    overlaps: OverlapTable
    ignored: Instances | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CaseSides:
    """A case with both sides read. ``prediction`` None: not submitted.

    predicted_counts   nuclei of each class, int64 (C,), if the submission shows nothing else
    """

    case: Case
    reference: prepare.PreparedReference
    prediction: Instances | None
    predicted_counts: Int64 | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether both sides are small and have pixels, nothing is ignored, and no predictions overlap each
        other."""
        reference, prediction = self.reference, self.prediction
        if prediction is None or reference.class_counts is not None or self.predicted_counts is not None:
            return False
        sides = reference.instances, prediction
        return (
            all(side.point_yx is None and len(side.run_start) <= _RUNS_OF_SMALL_CASES for side in sides)
            and not len(reference.ignore.run_start)
            and not may_be_refused(len(prediction))
            and prediction.is_disjoint()
        )


def match_cases(challenge: Challenge, cases: Sequence[CaseSides]) -> list[MatchedCase | InputFault]:
    """Match several cases like ``match_case``: plain cases as one image, but rules of distances case by case.

    The order of pixels in each case stays, so ties are decided as they are in the case alone. The fault of a case is
    returned in its place; if plain cases fail together, each is matched alone. Raises ChallengeBroken.
    """
    plain = [case for case in cases if case.is_plain]
    joined: list[MatchedCase] = []
    with suppress(InputFault, ChallengeBroken, TooManyPairs):
        joined = [*_match_together(challenge, plain)] if plain else []
    together = {id(case): of_case for case, of_case in zip(plain, joined, strict=False)}
    matched: list[MatchedCase | InputFault] = []
    for case in cases:
        sides = case.case, case.reference, case.prediction, case.predicted_counts
        try:
            matched.append(together.get(id(case)) or match_case(challenge, *sides))
        except InputFault as error:
            matched.append(error)
    return matched


def _match_together(challenge: Challenge, cases: Sequence[CaseSides]) -> Iterator[MatchedCase]:
    """Yield plain cases matched as one image."""
    sides = (
        [case.reference.instances for case in cases],
        [case.prediction for case in cases if case.prediction is not None],
    )
    for side in sides[0]:
        refuse_overlaps(side, challenge.limits.overlaps_per_case, by_reference=True)
    reference, prediction = (join_images(side) for side in sides)
    table = overlap_table(reference, prediction)
    rules, boundary = _rules_of(challenge), challenge.metrics.boundary
    together = [rule for rule in rules if rule.joins([case.case for case in cases])]
    are_by_pixels = all(rule.is_by_pixels for rule in together)
    places = None if are_by_pixels else (_places_of(sides[0], reference), _places_of(sides[1], prediction))
    joined = Sides(cases[0].case, table, reference, prediction, boundary, places)
    matches = {rule.name: match(rule, joined) for rule in together}
    bounds = [np.cumsum([0, *map(len, side)]) for side in sides]
    of_table = np.searchsorted(table.reference_index, bounds[0]).tolist()
    of_matches = {name: np.searchsorted(one.reference_index, bounds[0]).tolist() for name, one in matches.items()}
    classes = len(challenge.classes)
    for index, (case, left, right) in enumerate(zip(cases, *sides, strict=True)):
        first, last = ([int(bound[at]) for bound in bounds] for at in (index, index + 1))
        pairs = slice(*of_table[index : index + 2])
        of_case = OverlapTable(
            table.reference_index[pairs] - np.int32(first[0]),
            table.prediction_index[pairs] - np.int32(first[1]),
            table.intersection_px[pairs],
            table.reference_area_px[first[0] : last[0]],
            table.prediction_area_px[first[1] : last[1]],
        )
        yield MatchedCase(
            case=case.case,
            reference=case.reference,
            prediction=right,
            submitted=len(right),
            table=of_case,
            overlaps=of_case,
            matches={
                rule.name: matches[rule.name].part(slice(*of_matches[rule.name][index : index + 2]), *first)
                if rule.name in matches
                else match(rule, Sides(case.case, of_case, left, right, boundary))
                for rule in rules
            },
            reference_counts=class_counts(left, classes),
            prediction_counts=class_counts(right, classes),
        )


def match_case(
    challenge: Challenge,
    case: Case,
    reference: prepare.PreparedReference,
    prediction: Instances | None,
    predicted_counts: Int64 | None = None,
) -> MatchedCase:
    """Match one case under all rules of the challenge. ``prediction`` None: not submitted.

    The ignore policy ``drop_unmatched`` removes predictions that the first rule does not match, if more than the
    fraction of their pixels was in the region: the void rule of panoptic quality (Kirillov et al., CVPR 2019, "void
    labels"). Then all rules match the remaining predictions. Duplicates that are excluded from matching
    (``_part_takers``) stay in the prediction without a pair: they are false positives.

    predicted_counts   nuclei of each class, int64 (C,), if the submission shows nothing else
    """
    submitted = join_instances([], case.shape_yx) if prediction is None else prediction
    ignore = challenge.reference.ignore
    _refuse_overlaps(challenge, case, reference.instances, submitted)  # before the reference changes the submission
    if ignore.policy is not None or challenge.submission.duplicates != "keep":
        _refuse_costly(challenge, case, reference.instances, submitted)
    predicted, taking_part = submitted, None
    if ignore.policy is not None:
        region = reference.ignore
        predicted, taking_part = prepare.split_by_region(submitted, region, ignore.policy, ignore.fraction)
    classes = len(challenge.classes)
    rules, sides = _rules_of(challenge), _sides_of(challenge, case, reference.instances, predicted)
    part_takers = _part_takers(challenge, sides)
    if ignore.policy == "drop_unmatched" and taking_part is not None and rules:
        first_matches = match(rules[0], sides, part_takers.under(rules[0]))
        stays = ~prepare.more_than_fraction_inside(submitted, reference.ignore, ignore.fraction or 0.0)[taking_part]
        stays[first_matches.prediction_index] = True
        predicted, taking_part = select_instances(predicted, stays), taking_part[stays]
        sides = replace(sides, table=overlap_table(reference.instances, predicted), prediction=predicted)
        part_takers = _part_takers(challenge, sides)
    takes_part = part_takers.by_iou
    return MatchedCase(
        case=case,
        reference=reference,
        prediction=predicted,
        submitted=None if prediction is None else len(submitted),
        table=sides.table if takes_part is None else sides.table.part(takes_part[sides.table.prediction_index]),
        matches={rule.name: match(rule, sides, part_takers.under(rule)) for rule in rules},
        reference_counts=(
            class_counts(reference.instances, classes) if reference.class_counts is None else reference.class_counts
        ),
        prediction_counts=class_counts(predicted, classes) if predicted_counts is None else predicted_counts,
        overlaps=sides.table,
        ignored=None if taking_part is None else prepare.left_out(submitted, taking_part),
    )


def own_twins(challenge: Challenge, case: Case, prediction: Instances) -> tuple[Int64, Int64]:
    """Return the pairs of predictions in which one is a duplicate if the other is matched.

    Empty if too many predictions overlap.
    """
    with suppress(InputFault):
        return _twins_of(challenge, case, prediction, challenge.limits.overlaps_per_case)
    return np.empty(0, np.int64), np.empty(0, np.int64)


def match_any_class(
    challenge: Challenge, rule: MatchingRule, case: Case, sides: tuple[OverlapTable, Instances, Instances]
) -> Matches | None:
    """Return the pairs of a case under a rule that ignores classes then; None if that were too many."""
    blind = rule.model_copy(update={"class_aware": False})
    with suppress(TooManyPairs):
        return blind.match(Sides(case, *sides, challenge.metrics.boundary))
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _PartTakers:
    """Masks of the predictions that take part in matching, bool (M,); None: all do.

    by_iou   duplicates are judged by an IoU above 1/2, of points by the first rule
    of_rule  masks of the rules that judge duplicates by their own condition, by name
    """

    by_iou: Bool | None = None
    of_rule: Mapping[str, Bool] = field(default_factory=dict)

    def under(self, rule: MatchingRule) -> Bool | None:
        return self.of_rule.get(rule.name, self.by_iou)


def _part_takers(challenge: Challenge, sides: Sides) -> _PartTakers:
    """Return which predictions take part in matching. All do without ``submission.duplicates``.

    Two that match two different nuclei of the reference are no duplicates: by an IoU above 1/2, under a rule with
    another condition by this rule, if each has such an IoU or its centroid inside the nucleus that it matches. So a
    nucleus and its copy never count as two matches within a radius, and crowded nuclei can all match. Points: by the
    first rule.
    """
    prediction, rules = sides.prediction, challenge.matching.rules
    if challenge.submission.duplicates == "keep" or not rules:
        return _PartTakers()
    twins = _twins_of(challenge, sides.case, prediction, None)  # what was handed in is bounded already
    if not len(twins[0]):
        return _PartTakers()
    matched, fit = np.zeros(len(prediction), np.bool_), np.zeros(len(prediction))
    if prediction.point_yx is not None or sides.reference.point_yx is not None:
        matched[(chosen := match(rules[0], sides).prediction_index)] = True
        fit[chosen] = 1
        return _PartTakers(~duplicates_among(prediction, twins, matched, fit))
    table = sides.table
    left, right, iou = table.reference_index, table.prediction_index, table.intersection_px / table.union_px()
    above = 2 * table.intersection_px > table.union_px()
    matched[match_iou_above(*sides.compared, threshold=0.5, class_aware=False).prediction_index] = True
    np.maximum.at(fit, right[above], iou[above])
    by_iou, of_rule = ~duplicates_among(prediction, twins, matched, fit), {}
    inside = centroid_inside(sides.reference, prediction, left, right)
    for rule in rules:
        if isinstance(rule, IouRule) and rule.threshold >= 0.5:
            continue
        matches = match(rule, sides)
        found = centroid_inside(sides.reference, prediction, matches.reference_index, matches.prediction_index)
        found |= 2 * matches.intersection_px > matches.union_px
        matched_by_rule, fit_of_rule = np.zeros(len(prediction), np.bool_), fit.copy()
        matched_by_rule[matches.prediction_index[found]] = True
        tries = inside & _in_reach(rule, sides)
        np.maximum.at(fit_of_rule, right[tries], iou[tries])
        of_rule[rule.name] = ~duplicates_among(prediction, twins, matched_by_rule, fit_of_rule)
    return _PartTakers(by_iou, of_rule)


def _in_reach(rule: MatchingRule, sides: Sides) -> Bool:
    """Return which pairs of the table are within the radius or above the threshold of a rule that has one, bool
    (P,)."""
    table = sides.table
    threshold = getattr(rule, "threshold", None)
    if threshold is not None or not isinstance(rule, RadiusRule):
        return np.asarray(table.intersection_px >= (threshold or 0) * table.union_px())
    apart = (
        sides.reference.centroids_yx()[table.reference_index] - sides.prediction.centroids_yx()[table.prediction_index]
    )
    return np.asarray(np.hypot(*apart.T) <= rule.radius_in_px(sides.case) * RADIUS_ROUNDING)


def _twins_of(challenge: Challenge, case: Case, prediction: Instances, most: int | None) -> tuple[Int64, Int64]:
    """``find_twins`` of the nuclei of a submission. Raises InputFault for more than ``most`` on each other."""
    rule = next(iter(challenge.matching.rules), None)
    radius_px = rule.radius_in_px(case) if isinstance(rule, RadiusRule) and prediction.point_yx is not None else None
    try:
        return find_twins(prediction, radius_px=radius_px, most=most)
    except TooManyPairs as error:
        raise InputFault(_too_many_overlaps(case, prediction)) from error


def _refuse_overlaps(challenge: Challenge, case: Case, reference: Instances, submitted: Instances) -> None:
    """Raise ChallengeBroken or InputFault ("too-many-overlaps") if too many nuclei of a side overlap."""
    try:
        for side, by_reference in ((reference, True), (submitted, False)):
            refuse_overlaps(side, challenge.limits.overlaps_per_case, by_reference=by_reference)
    except TooManyPairs as error:
        pairs, what, limit = error.pairs, error.what, error.most
        where = f"case {quote(case.name)}"
        to_organisers = fault("too-many-overlaps", where, wording="reference", pairs=pairs, what=what, limit=limit)
        raise _blame(error, to_organisers, _too_many_overlaps(case, submitted)) from error


def _refuse_costly(challenge: Challenge, case: Case, reference: Instances, submitted: Instances) -> None:
    """Raise InputFault ("case-too-costly") if a rule rejects a submission whatever the reference is.

    Raises ChallengeBroken if the rule rejects the reference, too.
    """
    if not may_be_refused(len(submitted)):
        return
    for rule in _rules_of(challenge):
        if not rule.is_by_pixels:
            try:
                match(rule, _sides_of(challenge, case, _none_of(submitted), submitted))
            except InputFault:
                match(rule, _sides_of(challenge, case, reference, _none_of(reference)))
                raise


def _none_of(instances: Instances) -> Instances:
    return select_instances(instances, np.zeros(len(instances), np.bool_))


def _rules_of(challenge: Challenge) -> Sequence[MatchingRule]:
    """Return the matching rules of a challenge, with the published fault that is in their code."""
    rules = challenge.matching.rules
    if "file_order" in challenge.matching.published_faults:
        return (InFileOrder(**rules[0].model_dump()), *rules[1:])
    return rules


def _sides_of(challenge: Challenge, case: Case, reference: Instances, prediction: Instances) -> Sides:
    return Sides(case, overlap_table(reference, prediction), reference, prediction, challenge.metrics.boundary)


def _too_many_overlaps(case: Case, prediction: Instances) -> Finding:
    """Create the finding about too many overlapping predicted nuclei."""
    deepest = int(cover_depth(prediction.run_start, prediction.run_stop).depth.max(initial=0))
    return fault("too-many-overlaps", f"case {quote(case.name)}", nuclei=len(prediction), deepest=deepest)


@dataclass(frozen=True, slots=True)
class SeenNuclei:
    """Data of one case for findings about a whole submission. The reference decides nothing here.

    nuclei, outside   predicted nuclei, and nuclei outside the image or without a pixel in it
    twins, copies     nuclei with a duplicate, and nuclei equal to another nucleus
    reach             share of the width or height of the image from its upper left corner to the last nucleus
    alone             share of the image covered by the only nucleus; 0 if there are several
    """

    case: str
    nuclei: int
    outside: int = 0
    twins: int = 0
    copies: int = 0
    are_points: bool = False
    reach: float = 0
    alone: float = 0


def see_nuclei(challenge: Challenge, case: Case, prediction: Instances, nuclei: int, outside: int = 0) -> SeenNuclei:
    """Count the predicted nuclei of a case, for findings about the whole submission; without their reach.

    If duplicates change no score, they are not counted if too many overlap.
    Otherwise raises InputFault for too many.
    """
    changes = challenge.submission.duplicates != "keep"
    most = challenge.limits.overlaps_per_case
    few = LOOKED_AT * max(len(prediction.run_start), len(prediction))
    try:
        pairs = _twins_of(challenge, case, prediction, most if changes else min(most, few))
    except InputFault:
        if changes:
            raise
        pairs = np.empty(0, np.int64), np.empty(0, np.int64)
    twins = distinct(np.concatenate(pairs)) if len(pairs[0]) else pairs[0]
    copies = count_copies(prediction, twins) if len(twins) else 0
    is_point, alone = prediction.point_yx is not None, share_of_only_nucleus(prediction)
    return SeenNuclei(case.name, nuclei, outside, len(twins), copies, is_point, alone=alone)


def reach_of_images(images: Sequence[Instances]) -> list[float]:
    """Return the share of each image that its centroids reach into from the upper left corner, in x or y."""
    if len(images) > 1 and any(image.point_yx is not None for image in images):
        return [reach for image in images for reach in reach_of_images([image])]
    if not images:
        return []
    size, shapes_yx = np.array([len(image) for image in images]), np.array([image.shape_yx for image in images])
    places = _places_of(images, join_images(images))
    shares = np.fmax(*(places[:, :2] / shapes_yx[places[:, 2].astype(np.int64)]).T)
    reach, some = np.zeros(len(images)), np.flatnonzero(size)
    if len(some):
        reach[some] = np.fmax(0, np.fmax.reduceat(shares, (np.cumsum(size) - size)[some]))
    return [float(share) for share in reach]


def _places_of(images: Sequence[Instances], joined: Instances) -> Float64:
    """Return y and x of the centroid of every nucleus in its image, and the number of the image, float64 (N, 3)."""
    of_image = np.repeat(np.arange(len(images)), [len(image) for image in images])
    heights = np.array([image.shape_yx[0] for image in images])
    return np.column_stack([joined.centroids_yx((np.cumsum(heights) - heights)[of_image]), of_image])


def suspicious_content(cases: Sequence[SeenNuclei]) -> list[Finding]:
    """Warn of a submission that scores nothing with any reference: it has no nucleus, or all are in one corner."""
    nuclei, reach = sum(case.nuclei for case in cases), max((case.reach for case in cases), default=0)
    signs = (  # a wording, and the sign
        ("nothing", nuclei == 0 and len(cases) > 1),
        ("corner", nuclei >= MANY and reach <= 0.5),  # 20 nuclei lie in one quarter by chance once in 4 ** 20
    )
    sign = next((wording for wording, is_so in signs if is_so), None)
    if sign is None:
        return []
    percent = f"{100 * reach:.3g}"
    return [fault("suspicious-content", "submission", wording=sign, nuclei=nuclei, cases=len(cases), percent=percent)]


def share_of_only_nucleus(instances: Instances) -> float:
    """Return the share of the image covered by the only nucleus; 0 for several nuclei or no nucleus."""
    return (
        int(instances.areas_px()[0]) / math.prod(instances.shape_yx)
        if len(instances) == 1 and math.prod(instances.shape_yx) >= 1000
        else 0.0
    )


def only_nuclei(shares: Sequence[float], where: str) -> list[Finding]:
    """Warn of a single large nucleus in several images, as in masks of tissue. ``shares``: of the images."""
    least = min(shares, default=0)
    if len(shares) < 2 or least < _LARGE:
        return []
    return [fault("suspicious-content", where, wording="alone", cases=len(shares), percent=f"{100 * least:.3g}")]


def implausible_labels(instances: Instances, rules: FormatRules | None, where: str) -> list[Finding]:
    """Warn of a nucleus that looks like the background, and of ids that mean several nuclei.

    rules  of the file; None: labels in memory
    """
    findings = []
    if (index := background_index(instances)) is not None:
        label, area = instances.source_id.tolist()[index], int(instances.areas_px()[index])
        wording = "" if rules is None or rules.format == "label_image" else "outline"
        if wording == "" and rules is not None and rules.value("components"):
            wording = "mask"
        elif wording == "" and len(instances) < 3:  # without the background all nuclei would be one
            wording = "two-values"
        shares = f"{100 * area / math.prod(instances.shape_yx):.3g}"
        findings.append(fault("background-is-nucleus", where, wording=wording, label=label, percent=shares))
    if len(instances) > 1 and len(scattered := scattered_instances(instances)):
        ids = instances.source_id.tolist()
        named = ", ".join(quote(ids[index]) for index in scattered[:3].tolist()) + ", …" * (len(scattered) > 3)
        wording, some = "8-bits" if end_in_8_bits(ids) else "", len(scattered)
        findings.append(fault("scattered-id", where, wording=wording, scattered=some, nuclei=len(ids), named=named))
    return findings


def label_signs(images: Sequence[tuple[str, Instances]], rules: FormatRules | None) -> list[list[Finding]]:
    """Return ``implausible_labels`` of images, each after its place in messages; small images are checked together."""
    suspect = zip(images, suspect_labels([image for _, image in images]), strict=True)
    return [implausible_labels(image, rules, where) if is_suspect else [] for (where, image), is_suspect in suspect]


def suspect_labels(images: Sequence[Instances]) -> list[bool]:
    """Return the images of possible ``implausible_labels`` warnings; small images are checked together."""
    suspect = [len(image.run_start) > _RUNS_OF_SMALL_CASES for image in images]
    small = [index for index, image in enumerate(images) if 0 < len(image.run_start) <= _RUNS_OF_SMALL_CASES]
    runs = np.cumsum([0, *(len(images[index].run_start) for index in small)]) // _RUNS_LOOKED_AT_TOGETHER
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(runs[:-1])) + 1).tolist(), len(small)]):
        together = [images[index] for index in small[first:last]]
        if not together:
            continue
        joined, bound = join_images(together), np.cumsum([0, *map(len, together)])
        pixels, areas = np.array([math.prod(image.shape_yx) for image in together]), joined.areas_px()
        has_large = 2 * np.maximum.reduceat(areas, bound[:-1]) > pixels
        shares_all = (np.diff(bound) == 2) & (np.add.reduceat(areas, bound[:-1]) == pixels)
        is_suspect = has_large | shares_all
        is_suspect[np.searchsorted(bound, scattered_instances(joined), "right") - 1] = True
        for index in np.flatnonzero(is_suspect).tolist():
            suspect[small[first + index]] = True
    return suspect


def end_in_8_bits(ids: Iterable[object]) -> bool:
    """Return whether ids may have been stored in 8 bits: the largest is 255, or hardly less."""
    return 250 <= max((number for number in ids if isinstance(number, int)), default=0) <= 255


def own_duplicates(challenge: Challenge, cases: Sequence[SeenNuclei]) -> list[Finding]:
    """Warn once of the duplicates in all cases of a submission."""
    having = [f"case {quote(case.case)}" for case in cases if case.twins]
    twins, copies = sum(case.twins for case in cases), sum(case.copies for case in cases)
    if not copies and twins <= _TWINS_OF_NUCLEI * sum(case.nuclei for case in cases):
        return []
    return [
        fault(
            "own-duplicates", *having, wording="" if challenge.submission.duplicates == "keep" else "false-positive",
            twins=twins, copies=copies,
            nuclei=sum(case.nuclei for case in cases), having=len(having),
            cases=len(cases), points=any(case.are_points for case in cases)
        )
    ]  # fmt: skip


def match(rule: MatchingRule, sides: Sides, takes_part: Bool | None = None) -> Matches:
    """Apply one matching rule of the challenge to the predictions that take part.

    Raises InputFault, or ChallengeBroken if the reference alone is to blame, where too many pairs would be compared.
    """
    if takes_part is not None:
        index = np.flatnonzero(takes_part)
        table = sides.table.part(takes_part[sides.table.prediction_index])
        new_index = (np.cumsum(takes_part) - 1).astype(np.int32)[table.prediction_index]
        table = replace(table, prediction_index=new_index, prediction_area_px=table.prediction_area_px[index])
        matches = match(rule, replace(sides, table=table, prediction=select_instances(sides.prediction, takes_part)))
        return replace(matches, prediction_index=index[matches.prediction_index].astype(np.int32))
    try:
        return rule.match(sides)
    except TooManyPairs as error:
        where = f"case {quote(sides.case.name)}, matching rule {quote(rule.name)}"
        pairs, what, limit = error.pairs, error.what, error.most
        wording = "too-many-possible-pairs"
        to_organisers = fault("case-too-costly", where, wording=wording, pairs=pairs, what=what, limit=limit)
        raise _blame(
            error, to_organisers, fault("case-too-costly", where, pairs=pairs, what=what, limit=limit)
        ) from error


def _blame(error: TooManyPairs, to_organisers: Finding, to_participants: Finding) -> ChallengeBroken | InputFault:
    """Refuse a case with too many pairs; a fault of the reference if it alone has too many, otherwise of the
    submission.
    """
    return ChallengeBroken(to_organisers) if error.by_reference else InputFault(to_participants)
