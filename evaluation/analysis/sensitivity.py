"""How much scores change with a pixel: the reference is compared with itself, drawn slightly differently.

Each nucleus is compared with its changed copy alone. Matching rules get the changed reference as a submission,
neighbours included, and should match every nucleus with its copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from evaluation.analysis.advice import give_advice
from evaluation.analysis.sensitivity_document import (
    AT_HALF,
    MEASURES,
    ONE_PIXEL,
    PERTURBATIONS,
    AtDiameter,
    Effect,
    Sensitivity,
    Spread,
    Stratum,
    TriedRule,
    sensitivity_csv,
    sensitivity_json,
)
from evaluation.challenge import AnyMatchingRule, Challenge
from evaluation.challenge.matching_rules import MatchingRules, Sides
from evaluation.execution.workers import Progress, plan_workers, run_tasks
from evaluation.findings import Finding, fault
from evaluation.findings.errors import ChallengeBroken, InputFault, WrongUsage, faults_as
from evaluation.instances.ignore import apply_ignore_region
from evaluation.instances.perturb import (
    dilate_instances,
    double_instances,
    erode_instances,
    halve_instances,
    shared_px,
    shift_instances,
)
from evaluation.instances.prepare import PreparedReference
from evaluation.matching import overlap_table
from evaluation.metrics.counts import overlap_measures
from evaluation.model import Annotations, BorderRule, Case, Float64, Instances, Int16, Int64, Matches
from evaluation.results.files import write_atomically
from evaluation.results.metrics_json import identity
from evaluation.scoring.measure import measure_outlines, outlined_image
from evaluation.scoring.memory import memory_needs
from evaluation.scoring.read import read_reference, read_shared_reference

TOLERANCES_PX = (1, 2)  # of surface Dice
SIZES_PX = (0, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # where bins of the diameter begin; the last one has no end
LARGEST_PX = 200  # larger nuclei are counted as this in the curve of IoU by diameter
QUANTILES = (0.1, 0.5, 0.9)
FOUND, MISSED, TAKEN = 0, 1, 2  # by itself, by none, by what became of another

COMMON_RULES: tuple[Mapping[str, Any], ...] = (
    *({"name": f"iou_{percent}", "rule": "iou_above", "threshold": percent / 100} for percent in (50, 60, 70, 80, 90)),
    {"name": "any_iou", "rule": "iou_assignment", "threshold": 0},
    {"name": "surest_iou_50", "rule": "confidence_first", "threshold": 0.5},
    {"name": "centroid_inside", "rule": "best_iou_centroid_inside"},
    {"name": "any_overlap", "rule": "best_iou_any_overlap"},
    *({"name": f"centroid_{px}px", "rule": "centroid_closest_first", "radius_px": px} for px in (3, 6, 12)),
    {"name": "assigned_12px", "rule": "centroid_assignment", "radius_px": 12},
    {"name": "hausdorff_3px", "rule": "hausdorff_closest_first", "radius_px": 3},
)


def study_sensitivity(
    challenge_folder: Path | str, *, workers: int | None = None, progress: Progress | None = None
) -> Sensitivity:
    """Compare the reference of a challenge with itself. Raises WrongUsage where it has no outlines, ChallengeBroken."""
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    if challenge.reference.are_points or challenge.reference.are_counts:
        raise WrongUsage(fault("no-outlines", "challenge.toml: reference.format", format=challenge.reference.format))
    with faults_as(ChallengeBroken):
        shared = read_shared_reference(challenge, folder)
    rules = rules_to_try(challenge)
    tasks = [
        (challenge, rules, folder, case, None if shared is None else shared.cases[case.name])
        for case in challenge.cases
    ]
    needs = memory_needs(challenge, challenge.cases, folder=folder, shared=shared)
    outcomes = list(run_tasks(study_case, tasks, plan_workers(workers, challenge.cases, needs), progress))
    faults = [finding for outcome in outcomes if isinstance(outcome, tuple) for finding in outcome]
    if faults:
        raise ChallengeBroken(*faults)
    studies = [outcome for outcome in outcomes if not isinstance(outcome, tuple)]
    return summarise_studies(challenge, rules, studies)


def rules_to_try(challenge: Challenge) -> tuple[AnyMatchingRule, ...]:
    """The matching rules of the challenge, then the common ones that it has not, under names of their own."""

    def parameters(rule: AnyMatchingRule) -> dict[str, Any]:
        return rule.model_dump(exclude={"name", "class_aware", "ties"})

    def free(name: str) -> str:
        return free(f"{name}_") if name in names else name

    own = challenge.matching.rules
    known = [parameters(rule) for rule in own]
    names = {rule.name for rule in own}
    written = tuple(
        {**keys, "name": free(keys["name"]), "class_aware": False, "ties": "first_pixel"} for keys in COMMON_RULES
    )
    common = MatchingRules.model_validate({"rules": written}).rules
    return *own, *(rule for rule in common if parameters(rule) not in known)


def write_sensitivity(folder: Path, found: Sensitivity) -> None:
    """Write sensitivity.csv and sensitivity.json, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "sensitivity.csv", sensitivity_csv(found))
    write_atomically(folder / "sensitivity.json", sensitivity_json(found))


# --- one case ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CaseStudy:
    """The N nuclei of a case, or of all cases, against their changed copies.

    neighbour_px  float64 (N,), from centroid to the nearest other one; NaN if there is none
    values        float64 (perturbations, measures, N), NaN: undefined
    outcome       uint8 (perturbations at full resolution, rules, N): FOUND, MISSED or TAKEN
    ignored       int64 (perturbations at full resolution,), nuclei that left because of an ignore region
    """

    class_id: Int16
    area_px: Int64
    neighbour_px: Float64
    values: Float64
    outcome: npt.NDArray[np.uint8]
    ignored: Int64


def study_case(
    challenge: Challenge,
    rules: Sequence[AnyMatchingRule],
    folder: Path,
    case: Case,
    content: Annotations | None,
) -> CaseStudy | tuple[Finding, ...]:
    """Change the reference of a case in every way, and compare. Faults of its files come back as data."""
    try:
        reference = read_reference(challenge, folder, case, content)
    except InputFault as error:
        return error.findings
    return study_reference(challenge, rules, case, reference)


def study_reference(
    challenge: Challenge, rules: Sequence[AnyMatchingRule], case: Case, reference: PreparedReference
) -> CaseStudy:
    """The same for a reference that is read."""
    count = len(reference.instances)
    instances = replace(reference.instances, source_id=np.arange(count))
    at_full = len(PERTURBATIONS) - len(AT_HALF)
    values = np.full((len(PERTURBATIONS), len(MEASURES), count), np.nan)
    outcome = np.zeros((at_full, len(rules), count), np.uint8)
    ignored = np.zeros(at_full, np.int64)
    border, ignore = challenge.metrics.boundary, challenge.reference.ignore
    for index, (name, before, after) in enumerate(changed_references(instances) if count else ()):
        values[index][:, before.source_id] = compare_with_itself(before, after, border)
        if name in AT_HALF:
            continue
        scored = after
        if ignore.policy is not None:
            scored = apply_ignore_region(after, reference.ignore, ignore.policy, ignore.fraction)
        ignored[index] = len(after) - len(scored)
        table = overlap_table(instances, scored)
        sides = Sides(case, table, instances, scored, border)
        for number, rule in enumerate(rules):
            found = rule.match(sides)
            is_own = scored.source_id[found.prediction_index] == found.reference_index
            outcome[index, number] = MISSED
            outcome[index, number, found.reference_index] = np.where(is_own, FOUND, TAKEN)
    return CaseStudy(
        reference.instances.class_id, instances.areas_px(), neighbour_distances(instances), values, outcome, ignored
    )


def changed_references(instances: Instances) -> Iterator[tuple[str, Instances, Instances]]:
    """Name of each perturbation, the nuclei, and their changed copies; ids are kept. In the order of PERTURBATIONS.

    Nuclei go on beyond the image border: who draws them a pixel tighter still draws them up to the border.
    """
    eroded, dilated = erode_instances(instances, border="open"), dilate_instances(instances)
    half = halve_instances(instances)
    yield "eroded_1", instances, eroded
    yield "eroded_2", instances, erode_instances(eroded, border="open")
    yield "dilated_1", instances, dilated
    yield "dilated_2", instances, dilate_instances(dilated)
    yield "shifted_1", instances, shift_instances(instances, 1, 0)
    yield "shifted_2", instances, shift_instances(instances, 2, 0)
    yield "halved", instances, double_instances(half, instances.shape_yx)
    yield "half_eroded_1", half, erode_instances(half, border="open")
    yield "half_dilated_1", half, dilate_instances(half)
    yield "half_shifted_1", half, shift_instances(half, 1, 0)


def compare_with_itself(before: Instances, after: Instances, border: BorderRule) -> Float64:
    """The measures of each nucleus and its changed copy, float64 (M, N), in the order of MEASURES.

    One that is gone shares nothing: IoU, Dice and surface Dice are 0, distances are undefined (NaN).
    """
    index = np.searchsorted(before.source_id, after.source_id)
    intersection = shared_px(before, after, index)
    union = before.areas_px()[index] + after.areas_px() - intersection
    pairs = Matches(index.astype(np.int32), np.arange(len(after), dtype=np.int32), intersection, union)
    image = outlined_image(before, after, [pairs])
    wanted = {"hausdorff_px", "hausdorff95_px", "surface_dice"}
    found = overlap_measures(pairs)
    for tolerance in TOLERANCES_PX:
        (measured,) = measure_outlines([image], wanted, border=border, tolerances_px=[tolerance])
        found |= {f"surface_dice_{tolerance}px": measured[0]["surface_dice"]}
        found |= {name: measured[0][name] for name in ("hausdorff_px", "hausdorff95_px")}
    values = np.zeros((len(MEASURES), len(before)))
    for number, name in enumerate(MEASURES):
        if name.startswith("hausdorff"):
            values[number] = np.nan
        values[number, index] = found[name]
    return values


def neighbour_distances(instances: Instances) -> Float64:
    """Distance of each centroid to the nearest other one, px, float64 (N,)."""
    if len(instances) < 2:
        return np.full(len(instances), np.nan)
    centroids = instances.centroids_yx()
    return np.asarray(scipy.spatial.cKDTree(centroids).query(centroids, k=2)[0][:, 1])


# --- all cases --------------------------------------------------------------------------------------------------------


def summarise_studies(
    challenge: Challenge, rules: Sequence[AnyMatchingRule], studies: Sequence[CaseStudy]
) -> Sensitivity:
    """Medians and shares over the nuclei of all cases: all together, and by class and size."""
    everything = join_studies(studies, len(rules))
    diameter_px = diameters_px(everything.area_px)
    size = np.searchsorted(SIZES_PX, diameter_px, "right") - 1
    classes: list[str | None] = [None, *challenge.class_names]
    bins: list[tuple[int, int | None]] = list(zip(SIZES_PX, (*SIZES_PX[1:], None), strict=True))
    names = [rule.name for rule in rules]
    strata = []
    for (class_id, class_name), index in product(enumerate(classes), range(-1, len(bins))):
        chosen = np.flatnonzero(
            ((everything.class_id == class_id) | (class_id == 0)) & ((size == index) | (index == -1))
        )
        if len(chosen) or index == -1:
            size_px = bins[index] if index >= 0 else None
            strata.append(summarise_stratum(class_name, size_px, everything, chosen, names))
    found = Sensitivity(
        identity=identity(challenge),
        cases=len(studies),
        empty_cases=sum(len(study.class_id) == 0 for study in studies),
        one_pixel_nuclei=int((everything.area_px == 1).sum()),
        ignored=dict(zip(PERTURBATIONS, everything.ignored.tolist(), strict=False)),
        rules=tuple(TriedRule(rule, index < len(challenge.matching.rules)) for index, rule in enumerate(rules)),
        strata=tuple(strata),
        by_diameter=by_diameter(diameter_px, everything.values),
    )
    return replace(found, advice=give_advice(found))


def join_studies(studies: Sequence[CaseStudy], rules: int) -> CaseStudy:
    """The nuclei of all cases, case after case."""
    at_full = len(PERTURBATIONS) - len(AT_HALF)
    return CaseStudy(
        np.concatenate([np.empty(0, np.int16), *(study.class_id for study in studies)]),
        np.concatenate([np.empty(0, np.int64), *(study.area_px for study in studies)]),
        np.concatenate([np.empty(0), *(study.neighbour_px for study in studies)]),
        np.concatenate(
            [np.empty((len(PERTURBATIONS), len(MEASURES), 0)), *(study.values for study in studies)], axis=2
        ),
        np.concatenate([np.empty((at_full, rules, 0), np.uint8), *(study.outcome for study in studies)], axis=2),
        np.sum([np.zeros(at_full, np.int64), *(study.ignored for study in studies)], axis=0),
    )


def diameters_px(area_px: Int64) -> Float64:
    """Diameter of the disc that is as large, px."""
    return np.asarray(np.sqrt(4 * area_px / math.pi))


def summarise_stratum(
    class_name: str | None,
    size_px: tuple[int, int | None] | None,
    everything: CaseStudy,
    chosen: Int64,
    rules: Sequence[str],
) -> Stratum:
    """The effects of all changes on the chosen nuclei."""
    values = everything.values[:, :, chosen]
    spreads = quantiles(values)
    compared = ~np.isnan(values[:, 0])  # by IoU: what is not there at half the resolution has none
    vanished = compared & np.isnan(values[:, MEASURES.index("hausdorff_px")])
    effects = []
    for index, name in enumerate(PERTURBATIONS):
        lost: dict[str, float] = {}
        taken: dict[str, float] = {}
        left = chosen[~vanished[index]]
        if name not in AT_HALF and len(left):
            outcome = everything.outcome[index][:, left]
            lost = dict(zip(rules, (outcome != FOUND).mean(axis=1).tolist(), strict=True))
            taken = dict(zip(rules, (outcome == TAKEN).mean(axis=1).tolist(), strict=True))
        measures = {measure: spread_of(spreads[index, number]) for number, measure in enumerate(MEASURES)}
        effects.append(Effect(name, int(compared[index].sum()), int(vanished[index].sum()), measures, lost, taken))
    return Stratum(
        class_name=class_name,
        size_px=size_px,
        nuclei=len(chosen),
        diameter_px=spread_of(quantiles(diameters_px(everything.area_px[chosen]))),
        neighbour_px=spread_of(quantiles(everything.neighbour_px[chosen])),
        effects=tuple(effects),
    )


def quantiles(values: Float64) -> Float64:
    """``QUANTILES`` along the last axis by linear interpolation, (…, 3); NaN are left out, and come where all are."""
    if values.shape[-1] == 0:
        return np.full((*values.shape[:-1], len(QUANTILES)), np.nan)
    ordered = np.sort(values, axis=-1)  # NaN last
    last = np.maximum((~np.isnan(values)).sum(axis=-1, keepdims=True) - 1, 0)
    position = np.array(QUANTILES) * last
    below = np.floor(position).astype(np.int64)
    low = np.take_along_axis(ordered, below, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(below + 1, last), axis=-1)
    return np.asarray(low + (high - low) * (position - below))


def spread_of(values: Float64) -> Spread:
    low, median, high = (None if np.isnan(value) else float(value) for value in values)
    return Spread(low, median, high)


def by_diameter(diameter_px: Float64, values: Float64) -> tuple[AtDiameter, ...]:
    """Median IoU under one pixel for each whole diameter that occurs."""
    whole = np.minimum(np.floor(diameter_px + 0.5), LARGEST_PX).astype(np.int64)
    indices = [list(PERTURBATIONS).index(name) for name in ONE_PIXEL]
    found = []
    for diameter in np.unique(whole).tolist():
        chosen = whole == diameter
        medians = np.median(values[indices, 0][:, chosen], axis=1).tolist()
        found.append(AtDiameter(diameter, int(chosen.sum()), dict(zip(ONE_PIXEL, medians, strict=True))))
    return tuple(found)
