"""Count and measure matched cases: matches -> counts, under every matching rule, and what no rule can change."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evaluation.challenge import COUNTED, Challenge
from evaluation.findings import quote
from evaluation.findings.errors import refused
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.shapes import measure_shapes
from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances import boundary
from nuclei_metrics.instances.outlines import contours_of, join_contours
from nuclei_metrics.matching.rules import match_confidence_first_iou_many, match_iou_above_many, match_iou_assignment
from nuclei_metrics.metrics.counts import JoinedCases, count_matches, join_cases, overlap_measures, shape_measures
from nuclei_metrics.metrics.detection import count_errors, count_threshold_nuclei, count_threshold_pairs
from nuclei_metrics.metrics.overlap import count_objects, count_overlaps
from nuclei_metrics.metrics.segmentation import Range, count_sizes, has_size, hits_by_size
from nuclei_metrics.metrics.surfaces import SurfaceMeasures, length_within, surface_measures
from nuclei_metrics.model.annotations import BorderRule, Case
from nuclei_metrics.model.arrays import Bool, Float64, Int64, distinct
from nuclei_metrics.model.counts import (
    CaseResult,
    MatchCounts,
    Matches,
    Measure,
    ObjectList,
    PredictionList,
    SharedCounts,
)
from nuclei_metrics.model.instances import Instances

OUTLINES_AT_ONCE = 2048  # whose boundaries are held together; they stay in the cache
INSTANCES_AT_ONCE = 4096  # of cases that are counted together
OF_SURFACES = tuple(field.name for field in fields(SurfaceMeasures))
OF_OUTLINES = frozenset({*OF_SURFACES, "boundary_iou", "surface_dice_length"})


def measure_cases(challenge: Challenge, matched: Sequence[MatchedCase]) -> list[CaseResult]:
    """Count and measure the pairs of several cases; outlines are compared for all of them together.

    Raises InputFault for a case with too many distant objects (``count_objects``).
    """
    if challenge.metrics.size_quantiles and not challenge.metrics.sizes_px:
        raise ValueError("the sizes of the reference are not known: with_sizes")
    choice = challenge.metric_choice()
    are_points = challenge.reference.are_points or challenge.submission.are_points
    wanted = {_in_px(measure) for measure in choice.measures}
    outlines: Sequence[Sequence[Mapping[str, Float64]]] = [[{}] * len(case.matches) for case in matched]
    images: Sequence[_OutlinedImage] = ()
    if wanted & OF_OUTLINES and not are_points:
        images = [
            outlined_image(case.reference.instances, case.prediction, list(case.matches.values())) for case in matched
        ]
        tolerances = [challenge.tolerance_px(case.case) for case in matched]
        outlines = measure_outlines(images, wanted, border=challenge.metrics.boundary, tolerances_px=tolerances)

    def object_list(instances: Instances, areas_px: Int64) -> ObjectList:
        shapes = measure_shapes(instances) if challenge.metrics.shapes else {}
        return ObjectList(instances.source_id, instances.class_id, areas_px, shapes)

    faults = challenge.matching.published_faults
    results = []
    all_shared = _count_shared(challenge, matched, images, are_points=are_points)
    for case, of_case, shared in zip(matched, outlines, all_shared, strict=True):
        reference, prediction = case.reference.instances, case.prediction
        counts = {}
        for (name, matches), of_pairs in zip(case.matches.items(), of_case, strict=True):
            measures = {**overlap_measures(matches), **of_pairs}
            if wanted & {"area_ratio", "centroid_distance_px"}:
                measures |= shape_measures(reference, prediction, matches)
            counts[name] = count_matches(
                reference,
                prediction,
                matches,
                classes=len(challenge.classes),
                measures={measure: _in_unit(measures, measure, case.case) for measure in choice.measures},
                missing=case.submitted is None,
                spacing_um=case.case.spacing_um,
                areas=bool(choice.sizes_px),
            )
            if faults:
                counts[name] = _keep_faults(counts[name], faults, reference, prediction, matches)
        if challenge.are_counts:
            counts[COUNTED] = _nothing_paired(case, len(challenge.classes))
        results.append(
            CaseResult(
                case=case.case,
                missing=case.submitted is None,
                reference=object_list(reference, case.table.reference_area_px),
                prediction=object_list(prediction, case.table.prediction_area_px),
                ignored_predictions=(case.submitted or 0) - len(prediction),
                matches=case.matches,
                counts=counts,
                shared=shared,
                rasterisation=case.reference.report,
            )
        )
    return results


def _in_px(measure: Measure) -> str:
    return measure.removesuffix("_um") + "_px" if measure.endswith("_um") else measure


def _in_unit(measures: Mapping[str, Float64], measure: Measure, case: Case) -> Float64:
    """Take a measure of the pairs of a case; one in um is the one in px times the spacing, NaN without spacing."""
    values = measures.get(_in_px(measure), np.empty(0))
    if measure.endswith("_um"):
        return values * (np.nan if case.spacing_um is None else case.spacing_um)
    return values


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


# --- outlines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _OutlinedImage:
    """An image whose outlines are compared: the runs of both sides, and the pairs that any of its matchings has.

    reference_index, prediction_index   of the pairs, each once, int64 (P,)
    pairs                               which of them each matching has
    """

    reference: boundary.RunsByInstance
    prediction: boundary.RunsByInstance
    reference_index: Int64
    prediction_index: Int64
    pairs: list[Int64]


def outlined_image(reference: Instances, prediction: Instances, matchings: Sequence[Matches]) -> _OutlinedImage:
    keys = [m.reference_index.astype(np.int64) * len(prediction) + m.prediction_index for m in matchings]
    pair, index = np.unique(np.concatenate(keys), return_inverse=True)
    pairs = np.split(index, np.cumsum([len(key) for key in keys])[:-1])
    sides = boundary.runs_by_instance(reference), boundary.runs_by_instance(prediction)
    return _OutlinedImage(*sides, *np.divmod(pair, max(len(prediction), 1)), pairs)


def _pair_batches(images: Sequence[_OutlinedImage], chosen: Iterable[int]) -> Iterator[list[tuple[int, slice]]]:
    """Yield the pairs of images, about ``OUTLINES_AT_ONCE`` at a time: small images together, large ones in parts.

    So small images cost no more than large ones, and what is made of a large one is never in memory as a whole.
    """
    batch: list[tuple[int, slice]] = []
    held = 0
    for image in chosen:
        number = len(images[image].reference_index)
        for first in range(0, number, OUTLINES_AT_ONCE):
            last = min(first + OUTLINES_AT_ONCE, number)
            batch.append((image, slice(first, last)))
            held += last - first
            if held >= OUTLINES_AT_ONCE:
                yield batch
                batch, held = [], 0
    if batch:
        yield batch


def _chosen_runs(
    images: Sequence[_OutlinedImage], batch: Sequence[tuple[int, slice]]
) -> tuple[boundary.ChosenRuns, boundary.ChosenRuns]:
    """The runs of both sides of the pairs of a batch."""
    sides: tuple[list[boundary.ChosenRuns], list[boundary.ChosenRuns]] = ([], [])
    for index, part in batch:
        image = images[index]
        sides[0].append(boundary.choose_runs(image.reference, image.reference_index[part]))
        sides[1].append(boundary.choose_runs(image.prediction, image.prediction_index[part]))
    return boundary.join_runs(sides[0]), boundary.join_runs(sides[1])


def measure_outlines(
    images: Sequence[_OutlinedImage], wanted: set[str], *, border: BorderRule, tolerances_px: Sequence[float | None]
) -> list[list[dict[str, Float64]]]:
    """The wanted measures of outlines, for each image and each of its matchings.

    A pair that several matchings have is measured once. The bands of the boundary IoU are as wide as the tolerance,
    rounded, and at least 1 px.
    """
    names = [name for name in OF_OUTLINES if name in wanted]
    measured = [{name: np.empty(len(image.reference_index)) for name in names} for image in images]
    surfaces, bands = wanted & set(OF_SURFACES), "boundary_iou" in wanted
    tolerances = np.array([tolerance or 0.0 for tolerance in tolerances_px])
    widths_px = np.maximum(1, np.floor(tolerances + 0.5)) if bands else 0 * tolerances
    for width_px in distinct(widths_px).tolist() if surfaces or bands else ():
        for batch in _pair_batches(images, np.flatnonzero(widths_px == width_px).tolist()):
            sides = _chosen_runs(images, batch)
            if surfaces:
                tolerance = np.repeat(tolerances[[index for index, _ in batch]], [p.stop - p.start for _, p in batch])
                measures = surface_measures(
                    *(boundary.boundaries_of_runs(side, border=border) for side in sides),
                    tolerance_px=tolerance if "surface_dice" in wanted else None,
                    mean="mean_surface_distance_px" in wanted,
                )
                for name in surfaces:
                    _fill_in(measured, name, batch, getattr(measures, name))
            if bands:
                _fill_in(measured, "boundary_iou", batch, boundary_iou(*sides, width_px=int(width_px), border=border))
    if "surface_dice_length" in wanted:
        _measure_contours(measured, images, tolerances_px=tolerances_px)
    return [
        [{name: values[index] for name, values in of_image.items()} for index in image.pairs]
        for image, of_image in zip(images, measured, strict=True)
    ]


def boundary_iou(
    reference: boundary.ChosenRuns, prediction: boundary.ChosenRuns, *, width_px: int, border: BorderRule
) -> Float64:
    """The boundary IoU of each pair, (T,). A pair of nuclei that both fill the image has 1."""
    bands = boundary.band_overlaps(reference, prediction, width_px=width_px, border=border)
    empty = bands.union_px == 0
    return np.where(empty, 1.0, bands.intersection_px / np.where(empty, 1, bands.union_px))


def _measure_contours(
    measured: Sequence[dict[str, Float64]], images: Sequence[_OutlinedImage], *, tolerances_px: Sequence[float | None]
) -> None:
    """Fill in the surface Dice by length of contour of the pairs of each image."""
    for batch in _pair_batches(images, range(len(images))):
        parts = [(images[index], part) for index, part in batch]
        reference = join_contours([contours_of(at.reference, at.reference_index[part]) for at, part in parts])
        prediction = join_contours([contours_of(at.prediction, at.prediction_index[part]) for at, part in parts])
        tolerance = [np.full(part.stop - part.start, tolerances_px[index] or 0.0) for index, part in batch]
        _fill_in(
            measured, "surface_dice_length", batch, length_within(reference, prediction, np.concatenate(tolerance))
        )


def _fill_in(
    measured: Sequence[dict[str, Float64]], name: str, batch: Sequence[tuple[int, slice]], values: Float64
) -> None:
    """Write the values of a batch into the measures of its images."""
    first = 0
    for index, part in batch:
        last = first + part.stop - part.start
        measured[index][name][part] = values[first:last]
        first = last


# --- what no matching rule can change ---------------------------------------------------------------------------------


def _count_shared(
    challenge: Challenge, matched: Sequence[MatchedCase], images: Sequence[_OutlinedImage], *, are_points: bool
) -> list[SharedCounts]:
    """What the families that need no matching rule of the challenge are made of, for each case.

    Cases are counted together, as one image, ``INSTANCES_AT_ONCE`` at a time: so small images cost no more than large
    ones. ``images`` may be empty.
    """
    size = [len(case.reference.instances) + len(case.prediction) for case in matched]
    batch = np.cumsum([0, *size])[:-1] // INSTANCES_AT_ONCE
    counts = []
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(matched)]):
        if first < last:
            counts += _count_together(challenge, matched[first:last], images[first:last], are_points=are_points)
    return counts


def _count_together(
    challenge: Challenge, matched: Sequence[MatchedCase], images: Sequence[_OutlinedImage], *, are_points: bool
) -> list[SharedCounts]:
    """``_count_shared`` for at least one case, all counted together."""
    families, classes = set(challenge.metrics.family_names), len(challenge.classes)
    thresholds, sizes_px = challenge.metrics.iou_thresholds, tuple(challenge.metrics.sizes_px.values())
    sums: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    hits: Sequence[Bool | None] = [None] * len(matched)
    by_size: Sequence[npt.NDArray[np.int8] | None] = [None] * len(matched)
    if "counting" in families:
        reference_counts = np.stack([case.reference_counts for case in matched])
        sums |= count_errors(reference_counts, np.stack([case.prediction_counts for case in matched]))
    if families & {"thresholds", "overlap", "objects", "curves", "sizes"}:
        cases = join_cases([(case.reference.instances, case.prediction, case.table) for case in matched])
        sides = cases.table, cases.reference, cases.prediction
        if "thresholds" in families:
            matches = match_iou_above_many(*sides, [] if are_points else thresholds, class_aware=False)
            no_pairs = np.zeros((len(cases), len(thresholds), classes + 1), np.int64)
            sums["threshold_pairs"] = no_pairs if are_points else count_threshold_pairs(cases, matches, classes=classes)
            sums["threshold_nuclei"] = count_threshold_nuclei(cases, classes=classes)
        if "overlap" in families:
            sums |= count_overlaps(cases, match_iou_assignment(*sides, threshold=0.0, class_aware=False))
        if "objects" in families:
            runs = [*(image.reference for image in images), *(image.prediction for image in images)]
            try:
                sums |= count_objects(cases, runs)
            except TooManyPairs as error:
                largest = max(matched, key=lambda case: len(case.prediction))
                where, predictions = f"case {quote(largest.case.name)}, family 'objects'", len(largest.prediction)
                raise refused("case-too-costly", where, wording="too-many-distant", predictions=predictions) from error
        if "curves" in families and thresholds:
            hits = np.split(_hits_by_confidence(cases, thresholds), cases.prediction_bound[1:-1])
        if "sizes" in families:
            sums["size_nuclei"] = count_sizes(cases, sizes_px, classes=classes)
            if thresholds:
                found_by_size = [_matches_by_size(cases, limits, thresholds) for limits in sizes_px]
                said = hits_by_size(cases, sizes_px, found_by_size)
                by_size = np.split(said, cases.prediction_bound[1:-1])
    return [
        SharedCounts({name: values[index] for name, values in sums.items()}, of_case, sized)
        for index, (of_case, sized) in enumerate(zip(hits, by_size, strict=True))
    ]


def _matches_by_size(cases: JoinedCases, limits: Range, thresholds: Sequence[float]) -> list[tuple[Matches, Matches]]:
    """Match nuclei of a size at each threshold, the most confident first; then what is left with other nuclei."""
    sides, table = (cases.reference, cases.prediction), cases.table
    of_size = has_size(table.reference_area_px[table.reference_index], limits)
    first = match_confidence_first_iou_many(table.part(of_size), *sides, thresholds, class_aware=True)
    matches = []
    for threshold, right in zip(thresholds, first, strict=True):
        of_others = ~of_size & ~np.isin(table.prediction_index, right.prediction_index)
        (ignored,) = match_confidence_first_iou_many(table.part(of_others), *sides, [threshold], class_aware=True)
        matches.append((right, ignored))
    return matches


def _hits_by_confidence(cases: JoinedCases, thresholds: Sequence[float]) -> Bool:
    """Tell at which IoU thresholds each prediction finds a nucleus of its class, the most confident first, bool (M, K).

    None does if the probability of a prediction of these cases is not known.
    """
    hits = np.zeros((len(cases.prediction), len(thresholds)), np.bool_)
    if cases.prediction.probability is not None:
        matches = match_confidence_first_iou_many(
            cases.table, cases.reference, cases.prediction, thresholds, class_aware=True
        )
        for index, of_threshold in enumerate(matches):
            hits[of_threshold.prediction_index, index] = True
    return hits


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
    are those numbers: in the reference the place of the outline in its file, in the prediction the label in its file.
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
    """Read the number in each id, which may stand behind a colon (``a.mat:7``), int64 (N,); -1 where there is none."""
    ids = [str(source).rpartition(":")[2] for source in instances.source_id.tolist()]
    return np.array([int(text) if text.isdecimal() and len(text) < 19 else -1 for text in ids], np.int64)
