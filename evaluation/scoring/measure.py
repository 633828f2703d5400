"""Count and measure matched cases: matches -> counts, under every matching rule of the challenge.

The engine counts (``nuclei_metrics.measure``). A challenge adds lists of nuclei, cases with only numbers,
and published faults.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from evaluation.challenge import COUNTED, Challenge
from evaluation.challenge.matching_rules import MatchingRule
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused
from evaluation.scoring.match import MatchedCase, match_any_class, own_twins
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.matching.nearest import nearest_candidates
from nuclei_metrics.measure import INSTANCES_AT_ONCE, MatchedImage, MeasuredImage, measure_images
from nuclei_metrics.metrics.counts import IGNORED, ErrorKinds, JoinedCases, join_cases, sort_errors
from nuclei_metrics.model import Instances, Int64, MatchCounts, Matches
from nuclei_metrics.model.counts import CaseResult, ObjectList, PredictionList


def measure_cases(challenge: Challenge, matched: Sequence[MatchedCase]) -> list[CaseResult]:
    """Count and measure the pairs of several cases; outlines are compared for all of them together.

    Raises InputFault where too many distant objects would be compared.
    """
    points = challenge.reference.are_points or challenge.submission.are_points
    images = [_matched_image(challenge, case) for case in matched]
    border = challenge.metrics.boundary
    try:
        measured = measure_images(images, challenge.metric_choice(), border=border, points=points)
    except TooManyPairs as error:
        raise _too_costly(matched[error.image or 0]) from error
    lists = _list_objects(challenge, matched)
    return [_result_of(challenge, *of_case) for of_case in zip(matched, measured, lists, strict=True)]


def _matched_image(challenge: Challenge, case: MatchedCase) -> MatchedImage:
    return MatchedImage(
        case.reference.instances,
        case.prediction,
        case.table,
        case.matches,
        class_counts=(case.reference_counts, case.prediction_counts),
        missing=case.submitted is None,
        spacing_um=case.case.spacing_um,
        tolerance_px=challenge.tolerance_px(case.case),
    )


def _too_costly(case: MatchedCase) -> InputFault:
    """Return the refusal of a case in which too many objects are far from all objects of the other side."""
    where = f"case {quote(case.case.name)}, family 'objects'"
    return refused("case-too-costly", where, wording="too-many-distant", predictions=len(case.prediction))


def _result_of(
    challenge: Challenge, case: MatchedCase, measured: MeasuredImage, objects: tuple[ObjectList, ObjectList]
) -> CaseResult:
    """Return the counts of a case with its lists of nuclei and, if the challenge requires them, published faults."""
    reference, prediction = case.reference.instances, case.prediction
    counts = dict(measured.counts)
    if faults := challenge.matching.published_faults:
        counts = {
            name: _keep_faults(of_rule, faults, reference, prediction, case.matches[name])
            for name, of_rule in counts.items()
        }
    if challenge.are_counts:
        counts[COUNTED] = _nothing_paired(case, len(challenge.classes))
    return CaseResult(
        case=case.case,
        missing=case.submitted is None,
        reference=objects[0],
        prediction=objects[1],
        matches=case.matches,
        counts=counts,
        shared=measured.shared,
        rasterisation=case.reference.report,
        ignored={
            side: _list_ignored(challenge, nuclei)
            for side, nuclei in (("reference", case.reference.ignored), ("prediction", case.ignored))
            if nuclei is not None
        },
    )


def _list_ignored(challenge: Challenge, nuclei: Instances) -> ObjectList:
    """Return the list of nuclei that left a side because of the ignore region; nothing is their candidate."""
    number, unknown = len(nuclei), np.full(len(nuclei), np.nan)
    return ObjectList(
        nuclei.source_id,
        nuclei.class_id,
        nuclei.areas_px(),
        centroid_yx=nuclei.centroids_yx(),
        nearest=np.full(number, -1),
        nearest_iou=unknown,
        nearest_px=unknown,
        kinds={rule.name: np.full(number, IGNORED, np.int8) for rule in challenge.matching.rules},
    )


def _list_objects(challenge: Challenge, matched: Sequence[MatchedCase]) -> Iterator[tuple[ObjectList, ObjectList]]:
    """Yield the lists of nuclei of both sides of each case; small cases are processed together."""
    batch: list[MatchedCase] = []
    held = 0
    for case in matched:
        sides = case.reference.instances, case.prediction
        size = INSTANCES_AT_ONCE if any(side.point_yx is not None for side in sides) else sum(map(len, sides))
        if batch and held + size > INSTANCES_AT_ONCE:
            yield from _list_together(challenge, batch)
            batch, held = [], 0
        batch.append(case)
        held += size
    if batch:
        yield from _list_together(challenge, batch)


def _list_together(challenge: Challenge, matched: Sequence[MatchedCase]) -> Iterator[tuple[ObjectList, ObjectList]]:
    """``_list_objects`` of at least one case, all as one image; points alone."""
    cases = join_cases([(case.reference.instances, case.prediction, case.overlaps) for case in matched])
    twins = _twins_of_cases(challenge, matched, cases)
    kinds = {rule.name: _sort_nuclei(challenge, matched, cases, rule, twins) for rule in challenge.matching.rules}
    sides: tuple[Literal["reference"], Literal["prediction"]] = ("reference", "prediction")
    bounds = cases.reference_bound.tolist(), cases.prediction_bound.tolist()
    near = nearest_candidates(cases), nearest_candidates(cases, swapped=True)
    for number, case in enumerate(matched):
        own = case.reference.instances, case.prediction
        areas = case.table.reference_area_px, case.table.prediction_area_px
        lists = []
        for side in (0, 1):
            part, first_other = slice(*bounds[side][number : number + 2]), bounds[1 - side][number]
            nearest = near[side].index[part]
            lists.append(
                ObjectList(
                    own[side].source_id,
                    own[side].class_id,
                    areas[side],
                    centroid_yx=cases.centroids_yx[side][part],
                    nearest=np.where(nearest < 0, -1, nearest - first_other),
                    nearest_iou=near[side].iou[part],
                    nearest_px=near[side].distance_px[part],
                    kinds={name: getattr(of_rule, sides[side])[part] for name, of_rule in kinds.items()},
                )
            )
        yield lists[0], lists[1]


def _sort_nuclei(
    challenge: Challenge,
    matched: Sequence[MatchedCase],
    cases: JoinedCases,
    rule: MatchingRule,
    twins: tuple[Int64, Int64],
) -> ErrorKinds:
    """Return the kind of every nucleus of joined cases under a matching rule."""
    misnamed = None
    if rule.class_aware and rule.is_by_pixels:
        takers = cases.join_tables([case.table for case in matched])
        misnamed = match_any_class(challenge, rule, matched[0].case, (takers, cases.reference, cases.prediction))
    if rule.class_aware and misnamed is None:
        none = Matches(*np.empty((4, 0), np.int32))
        of_cases = [
            match_any_class(challenge, rule, case.case, (case.table, case.reference.instances, case.prediction))
            for case in matched
        ]
        misnamed = cases.join_matches([none if of_case is None else of_case for of_case in of_cases])
    matches = cases.join_matches([case.matches[rule.name] for case in matched])
    sides = cases.reference, cases.prediction
    return sort_errors(*sides, cases.table, matches, misnamed=misnamed, twins=twins, ranks=cases.ranks)


def _twins_of_cases(challenge: Challenge, matched: Sequence[MatchedCase], cases: JoinedCases) -> tuple[Int64, Int64]:
    """Return ``own_twins`` of all cases, numbered through: none if no predictions overlap."""
    if cases.prediction.is_disjoint() and all(case.prediction.point_yx is None for case in matched):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    pairs = [np.stack(own_twins(challenge, case.case, case.prediction)) for case in matched]
    first, second = np.concatenate(
        [pair + bound for pair, bound in zip(pairs, cases.prediction_bound, strict=False)], axis=1
    )
    return first, second


def _nothing_paired(case: MatchedCase, classes: int) -> MatchCounts:
    """The empty counts of pairs of a case in which a side has only numbers of nuclei, so that nothing can match."""
    none = np.empty(0, np.int16)
    return MatchCounts(
        confusion=np.zeros((classes + 1, classes + 1), np.int64),
        pair_class=np.empty((0, 2), np.int16),
        measures={},
        predictions=PredictionList(none, none, None),
        missing=case.submitted is None,
        diagonal_px=math.hypot(case.case.height - 1, case.case.width - 1),
        spacing_um=case.case.spacing_um,
        outlines=False,
    )


# --- published faults -------------------------------------------------------------------------------------------------

# Faults of published evaluations, reproduced on purpose, so that organisers can show what correcting them changes.
#
# ``reference_index``   MoNuSAC 2020 took the index of the *reference* nucleus out of the list of predictions that are
#                       left, whatever prediction had found it: false positives of a class are its predicted labels that
#                       are not the number of a matched reference.
# ``unopened_masks``    MoNuSAC 2020 opened the masks of classes that the reference of an image has; predictions of all
#                       other classes were never counted.
# ``file_order``        MIDOG 2021 went through the reference in the order of its file; each takes the nearest
#                       prediction that is left, so that this order can change the count (``InFileOrder``).
#
# Foucart, Debeir, Decaestecker, "Comments on MoNuSAC2020", IEEE TMI 41, 2022. ``score_detection`` of evalutils, now
# grand_challenge_metrics.


def _keep_faults(
    counts: MatchCounts, faults: Collection[str], reference: Instances, prediction: Instances, matches: Matches
) -> MatchCounts:
    """Count false positives as the published code of MoNuSAC did. The matching rule is class-aware.

    For a class with predicted labels P, and M the numbers of its matched reference nuclei, there are ``|P| - |P & M|``
    false positives instead of ``|P| - |M|``: one more for each matched reference whose number is not a label in P. Ids
    are these numbers: the index of the outline in the reference file, the label in the prediction file.
    An id that is no number is the number of no nucleus.
    """
    confusion = counts.confusion.copy()
    labels, numbers = _ids_as_numbers(prediction), _ids_as_numbers(reference)
    is_matched = np.zeros(len(reference), np.bool_)
    is_matched[matches.reference_index] = True
    for class_id in range(1, len(confusion)):
        of_class = reference.class_id == class_id
        if "reference_index" in faults:
            in_use = labels[(prediction.class_id == class_id) & (labels >= 0)]
            confusion[0, class_id] += np.count_nonzero(~np.isin(numbers[of_class & is_matched], in_use))
        if "unopened_masks" in faults and not of_class.any():
            confusion[0, class_id] = 0
    return replace(counts, confusion=confusion)


def _ids_as_numbers(instances: Instances) -> Int64:
    """Read the number in each id, possibly after a colon (``a.mat:7``), int64 (N,); -1 if missing."""
    ids = [str(source).rpartition(":")[2] for source in instances.source_id.tolist()]
    return np.array([int(text) if text.isdecimal() and len(text) < 19 else -1 for text in ids], np.int64)
