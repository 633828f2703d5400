"""Count and measure matched images: matches -> counts, under every matching rule and independent of rules.

Images are measured together: outlines in batches of pairs, the rest as one image. So a hundred small images cost no
more than a large one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from nuclei_metrics.errors import TooManyPairs
from nuclei_metrics.instances import boundary
from nuclei_metrics.instances.outlines import contours_of, join_contours
from nuclei_metrics.matching.rules import match_confidence_first_iou_many, match_iou_above_many, match_iou_assignment
from nuclei_metrics.metrics.counts import (
    JoinedCases,
    class_counts,
    count_cases,
    join_cases,
    overlap_measures,
    shape_measures,
)
from nuclei_metrics.metrics.detection import count_errors, count_threshold_nuclei, count_threshold_pairs
from nuclei_metrics.metrics.overlap import count_objects, count_overlaps
from nuclei_metrics.metrics.partition import count_partitions
from nuclei_metrics.metrics.segmentation import Range, count_sizes, has_size, hits_by_size
from nuclei_metrics.metrics.surfaces import SurfaceMeasures, length_within, surface_measures
from nuclei_metrics.model import (
    Bool,
    BorderRule,
    Float64,
    Instances,
    Int64,
    MatchCounts,
    Matches,
    Measure,
    MetricChoice,
    OverlapTable,
)
from nuclei_metrics.model.arrays import distinct
from nuclei_metrics.model.counts import SharedCounts

OUTLINES_AT_ONCE = 2048  # whose boundaries are held together; they stay in the cache
INSTANCES_AT_ONCE = 4096  # of images that are counted together
OF_SURFACES = tuple(field.name for field in fields(SurfaceMeasures))
OF_OUTLINES = frozenset({*OF_SURFACES, "boundary_iou", "surface_dice_length"})
OF_JOINED = frozenset(
    {"thresholds", "overlap", "objects", "partition", "curves", "sizes"}
)  # families with matchings of their own


@dataclass(frozen=True, slots=True, eq=False)
class MatchedImage:
    """An image whose nuclei are paired and not yet measured.

    table         the overlaps of the predictions that take part in matching
    matches       by the name of the matching rule
    class_counts  nuclei of each class of the reference and of the prediction, int64 (C,), if unknown from the instances
    missing       the image was not submitted, so the prediction is empty
    spacing_um    size of a pixel, or None: then measures in um are NaN
    tolerance_px  of the surface Dice, or None
    """

    reference: Instances
    prediction: Instances
    table: OverlapTable
    matches: Mapping[str, Matches]
    class_counts: tuple[Int64, Int64] | None = None
    missing: bool = False
    spacing_um: float | None = None
    tolerance_px: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredImage:
    """The counts of an image by the name of the matching rule, and the counts that no rule can change."""

    counts: dict[str, MatchCounts]
    shared: SharedCounts


def measure_images(
    images: Sequence[MatchedImage], choice: MetricChoice, *, border: BorderRule, points: bool = False
) -> list[MeasuredImage]:
    """Count and measure the pairs of images; outlines are compared for all images together.

    border  whether the border of the image is part of a boundary, see ``boundaries_of_runs``
    points  whether nuclei of a side are points, so that there are no outlines to compare

    Raises ``TooManyPairs`` if nuclei would take too many comparisons whatever the matching rule; its ``image`` is the
    index of the image with the most predictions among the images that were counted together.
    """
    measured: list[MeasuredImage] = []
    for batch in _measured_together(images):
        try:
            measured += _measure_together(batch, choice, border=border, points=points)
        except TooManyPairs as error:
            size = [len(image.prediction) for image in batch]
            error.image = len(measured) + size.index(max(size))
            raise
    return measured


def _measured_together(images: Sequence[MatchedImage]) -> Iterator[list[MatchedImage]]:
    """Yield images one after the other, about ``INSTANCES_AT_ONCE``: of one tolerance, and those with points alone."""
    batch: list[MatchedImage] = []
    held = 0
    for image in images:
        sides = image.reference, image.prediction
        size = INSTANCES_AT_ONCE if any(side.point_yx is not None for side in sides) else sum(map(len, sides))
        if batch and (held + size > INSTANCES_AT_ONCE or image.tolerance_px != batch[0].tolerance_px):
            yield batch
            batch, held = [], 0
        batch.append(image)
        held += size
    if batch:
        yield batch


def _measure_together(
    images: Sequence[MatchedImage], choice: MetricChoice, *, border: BorderRule, points: bool
) -> list[MeasuredImage]:
    """``measure_images`` of at least one image, all as one image."""
    wanted = {_in_px(measure) for measure in choice.measures}
    cases = join_cases([(image.reference, image.prediction, image.table) for image in images])
    matchings = {name: cases.join_matches([image.matches[name] for image in images]) for name in images[0].matches}
    outlines: Sequence[Mapping[str, Float64]] = [{}] * len(matchings)
    outlined: Sequence[_OutlinedImage] = ()
    if wanted & OF_OUTLINES and not points and matchings:
        outlined = [_outline(_sorted_runs(cases), list(matchings.values()))]
        (outlines,) = measure_outlines(outlined, wanted, border=border, tolerances_px=[images[0].tolerance_px])
    shared = _count_shared(images, cases, choice, outlined, points=points)
    counts = {
        name: _count_images(images, cases, matches, of_pairs, choice, wanted)
        for (name, matches), of_pairs in zip(matchings.items(), outlines, strict=True)
    }
    return [
        MeasuredImage({name: of_rule[index] for name, of_rule in counts.items()}, of_sides)
        for index, of_sides in enumerate(shared)
    ]


def _count_images(
    images: Sequence[MatchedImage],
    cases: JoinedCases,
    matches: Matches,
    of_pairs: Mapping[str, Float64],
    choice: MetricChoice,
    wanted: set[str],
) -> list[MatchCounts]:
    """Count the pairs of joined images under one matching rule."""
    measures = {**overlap_measures(matches), **of_pairs}
    if wanted & {"area_ratio", "centroid_distance_px"}:
        measures |= shape_measures(cases, matches)
    spacing_um = np.array([np.nan if image.spacing_um is None else image.spacing_um for image in images])
    of_pair = spacing_um[np.searchsorted(cases.reference_bound, matches.reference_index, "right") - 1]
    return count_cases(
        [(image.reference, image.prediction) for image in images],
        matches,
        classes=len(choice.class_names),
        measures={measure: _in_unit(measures, measure, of_pair) for measure in choice.measures},
        missing=[image.missing for image in images],
        spacing_um=[image.spacing_um for image in images],
        areas=bool(choice.sizes_px),
    )


def _in_px(measure: Measure) -> str:
    return measure.removesuffix("_um") + "_px" if measure.endswith("_um") else measure


def _in_unit(measures: Mapping[str, Float64], measure: Measure, spacing_um: Float64) -> Float64:
    """Return a measure of pairs; in um, the measure in px times the spacing of each pair, (T,), NaN if unknown."""
    values = measures.get(_in_px(measure), np.empty(0))
    return values * spacing_um if measure.endswith("_um") and len(values) else values


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
    return _outline((boundary.runs_by_instance(reference), boundary.runs_by_instance(prediction)), matchings)


def _sorted_runs(cases: JoinedCases) -> tuple[boundary.RunsByInstance, boundary.RunsByInstance]:
    """Return the runs of both sides of joined cases, each with the shape and the first row of its case."""
    if len(cases) == 1:
        return boundary.runs_by_instance(cases.reference), boundary.runs_by_instance(cases.prediction)
    return (
        boundary.runs_by_instance(cases.reference, cases.shapes_yx, cases.reference_case()),
        boundary.runs_by_instance(cases.prediction, cases.shapes_yx, cases.prediction_case()),
    )


def _outline(
    sides: tuple[boundary.RunsByInstance, boundary.RunsByInstance], matchings: Sequence[Matches]
) -> _OutlinedImage:
    predictions = len(sides[1].instances)
    keys = [m.reference_index.astype(np.int64) * predictions + m.prediction_index for m in matchings]
    pair, index = np.unique(np.concatenate(keys), return_inverse=True)
    pairs = np.split(index, np.cumsum([len(key) for key in keys])[:-1])
    return _OutlinedImage(*sides, *np.divmod(pair, max(predictions, 1)), pairs)


def _pair_batches(images: Sequence[_OutlinedImage], chosen: Iterable[int]) -> Iterator[list[tuple[int, slice]]]:
    """Yield the pairs of images, about ``OUTLINES_AT_ONCE`` at a time: small images together, large ones in parts.

    So small images cost no more than large ones, and the outlines of a large one are never all in memory.
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
                _fill_in(measured, "boundary_iou", batch, _boundary_iou(*sides, width_px=int(width_px), border=border))
    if "surface_dice_length" in wanted:
        _measure_contours(measured, images, tolerances_px=tolerances_px)
    return [
        [{name: values[index] for name, values in of_image.items()} for index in image.pairs]
        for image, of_image in zip(images, measured, strict=True)
    ]


def _boundary_iou(
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
    images: Sequence[MatchedImage],
    cases: JoinedCases,
    choice: MetricChoice,
    outlined: Sequence[_OutlinedImage],
    *,
    points: bool,
) -> list[SharedCounts]:
    """Count the inputs of the families that need no matching rule, for each image. ``outlined`` may be empty."""
    families, classes = set(choice.families), len(choice.class_names)
    thresholds, sizes_px = choice.iou_thresholds, tuple(choice.sizes_px.values())
    sums: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    hits: Sequence[Bool | None] = [None] * len(images)
    by_size: Sequence[npt.NDArray[np.int8] | None] = [None] * len(images)
    if "counting" in families:
        of_sides = [_counts_of(image, classes) for image in images]
        references, predictions = (np.stack(of_side) for of_side in zip(*of_sides, strict=True))
        sums |= count_errors(references, predictions)
    if families & OF_JOINED:
        sides = cases.table, cases.reference, cases.prediction
        if "thresholds" in families:
            matches = match_iou_above_many(*sides, [] if points else thresholds, class_aware=False)
            no_pairs = np.zeros((len(cases), len(thresholds), classes + 1), np.int64)
            sums["threshold_pairs"] = no_pairs if points else count_threshold_pairs(cases, matches, classes=classes)
            sums["threshold_nuclei"] = count_threshold_nuclei(cases, classes=classes)
        if "overlap" in families:
            sums |= count_overlaps(cases, match_iou_assignment(*sides, threshold=0.0, class_aware=False))
        if "objects" in families:
            sums |= count_objects(cases, [*(one.reference for one in outlined), *(one.prediction for one in outlined)])
        if "partition" in families:
            sums |= count_partitions(cases)
        if "curves" in families and thresholds:
            hits = np.split(_hits_by_confidence(cases, thresholds), cases.prediction_bound[1:-1])
        if "sizes" in families:
            sums["size_nuclei"] = count_sizes(cases, sizes_px, classes=classes)
            if thresholds:
                found_by_size = [_matches_by_size(cases, limits, thresholds) for limits in sizes_px]
                said = hits_by_size(cases, sizes_px, found_by_size)
                by_size = np.split(said, cases.prediction_bound[1:-1])
    return [
        SharedCounts({name: values[index] for name, values in sums.items()}, of_image, sized)
        for index, (of_image, sized) in enumerate(zip(hits, by_size, strict=True))
    ]


def _counts_of(image: MatchedImage, classes: int) -> tuple[Int64, Int64]:
    if image.class_counts is not None:
        return image.class_counts
    return class_counts(image.reference, classes), class_counts(image.prediction, classes)


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
    """Return at which IoU thresholds each prediction finds a nucleus of its class, the most confident first, (M, K).

    None does if a prediction of these images has no probability.
    """
    hits = np.zeros((len(cases.prediction), len(thresholds)), np.bool_)
    if cases.prediction.probability is not None:
        matches = match_confidence_first_iou_many(
            cases.table, cases.reference, cases.prediction, thresholds, class_aware=True
        )
        for index, of_threshold in enumerate(matches):
            hits[of_threshold.prediction_index, index] = True
    return hits
