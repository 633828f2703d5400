"""How much scores change with a pixel: the reference is compared with itself, drawn slightly differently.

Each nucleus is compared with its changed copy alone. Matching rules get the changed reference as a submission,
neighbours included, and should match every nucleus with its copy. What the numbers say to an organiser is written
beside them; docs/sensitivity.md gives the reasons for the thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from evaluation.challenge import AnyMatchingRule, Challenge
from evaluation.challenge.matching_rules import MatchingRules, Sides
from evaluation.execution.workers import Progress, run_job
from evaluation.findings import Finding, counted, fault, percent, quote
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.instances import runs
from evaluation.instances.prepare import PreparedReference, apply_ignore_region
from evaluation.leaderboard.verdict import Document
from evaluation.matching import overlap_table
from evaluation.metrics.counts import overlap_measures
from evaluation.model import Annotations, Bool, BorderRule, Case, Float64, Instances, Int16, Int64, Matches
from evaluation.model.arrays import concatenated
from evaluation.results import __version__
from evaluation.results.documents import identity, rounded
from evaluation.scoring.measure import measure_outlines, outlined_image
from evaluation.scoring.rasterise import of_every_case
from evaluation.scoring.read import read_reference

PERTURBATIONS: Mapping[str, str] = {  # in words that follow "nuclei"
    "eroded_1": "eroded by 1 px",
    "eroded_2": "eroded by 2 px",
    "dilated_1": "dilated by 1 px",
    "dilated_2": "dilated by 2 px",
    "shifted_1": "shifted by 1 px",
    "shifted_2": "shifted by 2 px",
    "halved": "drawn at half the resolution",
}
ONE_PIXEL = ("eroded_1", "dilated_1", "shifted_1")
TWO_PIXELS = ("eroded_2", "dilated_2", "shifted_2")
TOLERANCES_PX = (1, 2)  # of surface Dice
HAUSDORFF_DISTANCES = ("hausdorff_px", "hausdorff95_px")
MEASURES = ("iou", "dice", *HAUSDORFF_DISTANCES, *(f"surface_dice_{px}px" for px in TOLERANCES_PX))
SIZES_PX = (0, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # where bins of the diameter begin; the last one has no end
QUANTILES = {"low": 0.1, "median": 0.5, "high": 0.9}

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
) -> dict[str, Any]:
    """Compare the reference of a challenge with itself: the content of sensitivity.json.

    Raises WrongUsage where the reference has no outlines, ChallengeBroken.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    if challenge.reference.are_points or challenge.reference.are_counts:
        raise WrongUsage(fault("no-outlines", "challenge.toml: reference.format", format=challenge.reference.format))
    rules = rules_to_try(challenge)
    studies = run_job(of_every_case(partial(study_case, rules), challenge, folder, progress), workers)
    return summarise_studies(challenge, rules, studies)


def rules_to_try(challenge: Challenge) -> tuple[AnyMatchingRule, ...]:
    """List the matching rules of the challenge, then the common ones that it does not have, under other names."""

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


# --- one case ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CaseStudy:
    """The N nuclei of a case, or of all cases, against their changed copies.

    neighbour_px  float64 (N,), from centroid to the nearest other one; NaN if there is none
    values        float64 (N, perturbations, measures), NaN: undefined
    lost          bool (N, perturbations, rules): not paired with its changed copy
    """

    class_id: Int16
    area_px: Int64
    neighbour_px: Float64
    values: Float64
    lost: Bool


def study_case(
    rules: Sequence[AnyMatchingRule], challenge: Challenge, folder: Path, case: Case, content: Annotations | None
) -> CaseStudy | tuple[Finding, ...]:
    """Read the reference of a case, change it in every way, and compare. Faults of its files are returned."""
    try:
        reference = read_reference(challenge, folder, case, content)
    except InputFault as error:
        return error.findings
    return study_reference(challenge, rules, case, reference)


def study_reference(
    challenge: Challenge, rules: Sequence[AnyMatchingRule], case: Case, reference: PreparedReference
) -> CaseStudy:
    """Change a reference that was read in every way, and compare it with itself."""
    count = len(reference.instances)
    instances = replace(reference.instances, source_id=np.arange(count))
    values = np.full((count, len(PERTURBATIONS), len(MEASURES)), np.nan)
    lost = np.ones((count, len(PERTURBATIONS), len(rules)), np.bool_)
    border, ignore = challenge.metrics.boundary, challenge.reference.ignore
    for index, changed in enumerate(changed_references(instances) if count else ()):
        values[:, index] = compare_with_itself(instances, changed, border)
        if ignore.policy is not None:
            changed = apply_ignore_region(changed, reference.ignore, ignore.policy, ignore.fraction)
        sides = Sides(case, overlap_table(instances, changed), instances, changed, border)
        for number, rule in enumerate(rules):
            matches = rule.match(sides)
            is_own = changed.source_id[matches.prediction_index] == matches.reference_index
            lost[matches.reference_index[is_own], index, number] = False
    return CaseStudy(instances.class_id, instances.areas_px(), neighbour_distances(instances), values, lost)


def changed_references(instances: Instances) -> Iterator[Instances]:
    """Yield the changed copies of the nuclei, with their ids, in the order of PERTURBATIONS.

    Nuclei go on beyond the image border: who draws them a pixel tighter still draws them up to the border.
    """
    eroded, dilated = runs.erode_instances(instances, border="open"), runs.dilate_instances(instances)
    yield eroded
    yield runs.erode_instances(eroded, border="open")
    yield dilated
    yield runs.dilate_instances(dilated)
    yield runs.shift_instances(instances, 1, 0)
    yield runs.shift_instances(instances, 2, 0)
    yield runs.double_instances(runs.halve_instances(instances), instances.shape_yx)


def compare_with_itself(before: Instances, after: Instances, border: BorderRule) -> Float64:
    """Measure each nucleus against its changed copy, float64 (N, M), in the order of MEASURES.

    One that is gone shares nothing: IoU, Dice and surface Dice are 0, distances are undefined (NaN).
    """
    index = np.searchsorted(before.source_id, after.source_id)
    intersection = runs.shared_px(before, after, index)
    union = before.areas_px()[index] + after.areas_px() - intersection
    pairs = Matches(index.astype(np.int32), np.arange(len(after), dtype=np.int32), intersection, union)
    image = outlined_image(before, after, [pairs])
    measures = overlap_measures(pairs)
    for tolerance in TOLERANCES_PX:
        wanted = {*HAUSDORFF_DISTANCES, "surface_dice"}
        ((measured,),) = measure_outlines([image], wanted, border=border, tolerances_px=[tolerance])
        measures |= {**measured, f"surface_dice_{tolerance}px": measured["surface_dice"]}
    gone = [np.nan if name in HAUSDORFF_DISTANCES else 0.0 for name in MEASURES]
    values = np.tile(gone, (len(before), 1))
    values[index] = np.stack([measures[name] for name in MEASURES], axis=1)
    return values


def neighbour_distances(instances: Instances) -> Float64:
    """Measure the distance of each centroid to the nearest other one, px, float64 (N,); NaN for a single nucleus."""
    if len(instances) < 2:
        return np.full(len(instances), np.nan)
    centroids = instances.centroids_yx()
    return np.asarray(scipy.spatial.cKDTree(centroids).query(centroids, k=2)[0][:, 1])


# --- all cases --------------------------------------------------------------------------------------------------------


def summarise_studies(
    challenge: Challenge, rules: Sequence[AnyMatchingRule], studies: Sequence[CaseStudy]
) -> dict[str, Any]:
    """Make the content of sensitivity.json: all nuclei first, then those of each size, then the same for each class.

    Names of classes are values, never keys; there are no names of cases.
    """
    nuclei, names = join_studies(studies, len(rules)), [rule.name for rule in rules]
    size = np.searchsorted(SIZES_PX, diameters_px(nuclei.area_px), "right") - 1
    strata = []
    for class_id, name in enumerate([None, *challenge.class_names]):
        of_class = (nuclei.class_id == class_id) | (class_id == 0)
        strata.append({"class": name, "size_px": None, **stratum_of(nuclei, of_class, names)})
        for index, ends in enumerate(pairwise([*SIZES_PX, None])):
            if (chosen := of_class & (size == index)).any():
                size_px = dict(zip(("from", "below"), ends, strict=True))
                strata.append({"class": name, "size_px": size_px, **stratum_of(nuclei, chosen, names)})
    tried = [
        {**rule.model_dump(exclude_none=True), "words": rule.short, "is_own": index < len(challenge.matching.rules)}
        for index, rule in enumerate(rules)
    ]
    document = {
        "challenge": identity(challenge),
        "software": {"version": __version__},
        "cases": len(studies),
        "empty_cases": sum(len(study.class_id) == 0 for study in studies),
        "nuclei": len(nuclei.class_id),
        "one_pixel_nuclei": int((nuclei.area_px == 1).sum()),
        "perturbations": [{"name": name, "words": words} for name, words in PERTURBATIONS.items()],
        "rules": tried,
        "strata": strata,
    }
    return document | {"advice": [{"text": text, "is_warning": warns} for text, warns in give_advice(document)]}


def join_studies(studies: Sequence[CaseStudy], rules: int) -> CaseStudy:
    """Join the nuclei of all cases, case after case."""
    values, lost = np.empty((0, len(PERTURBATIONS), len(MEASURES))), np.empty((0, len(PERTURBATIONS), rules), np.bool_)
    return concatenated([CaseStudy(np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0), values, lost), *studies])


def diameters_px(area_px: Int64) -> Float64:
    """Compute the diameter, px, of the disc that is as large as each nucleus."""
    return np.asarray(np.sqrt(4 * area_px / math.pi))


def stratum_of(nuclei: CaseStudy, chosen: Bool, rules: Sequence[str]) -> dict[str, Any]:
    """Summarise what all changes do to the chosen nuclei.

    vanished  how many have no pixel left
    lost      by the name of a rule: share of the nuclei with pixels left that are not paired with those; empty if none
    """
    effects, values = [], nuclei.values[chosen]
    for index, name in enumerate(PERTURBATIONS):
        vanished = np.isnan(values[:, index, MEASURES.index("hausdorff_px")])
        lost = nuclei.lost[chosen, index][~vanished]
        shares = map(rounded, lost.mean(axis=0).tolist()) if len(lost) else ()
        effects.append(
            {
                "perturbation": name,
                "vanished": int(vanished.sum()),
                "measures": {measure: spread_of(values[:, index, place]) for place, measure in enumerate(MEASURES)},
                "lost": dict(zip(rules, shares, strict=bool(len(lost)))),
            }
        )
    costs = [1 - low for low in medians(effects, "iou", ONE_PIXEL)]
    return {
        "nuclei": int(chosen.sum()),
        "diameter_px": spread_of(diameters_px(nuclei.area_px[chosen])),
        "neighbour_px": spread_of(nuclei.neighbour_px[chosen]),
        "one_pixel_costs": rounded(max(costs, default=None)),
        "effects": effects,
    }


def spread_of(values: Float64) -> dict[str, float | None]:
    """Compute the 10 % quantile, the median and the 90 % quantile. NaN are left out; of none the quantiles are None."""
    known = values[~np.isnan(values)]
    quantiles = np.quantile(known, list(QUANTILES.values())).tolist() if len(known) else [None] * len(QUANTILES)
    return dict(zip(QUANTILES, map(rounded, quantiles), strict=True))


def medians(effects: Sequence[Document], measure: str, perturbations: Iterable[str]) -> list[float]:
    """List the medians of a measure under some perturbations, as far as they are defined."""
    values = [effect["measures"][measure]["median"] for effect in effects if effect["perturbation"] in perturbations]
    return [median for median in values if median is not None]


# --- advice -----------------------------------------------------------------------------------------------------------

COSTLY_IOU = 0.15  # of IoU, for a pixel: three tenths of what a threshold of 0.5 forgives
CHEAP = 0.10
BREAKS = 0.01  # a rule that loses a larger share of the nuclei breaks
FORGIVEN = 0.9  # surface Dice that nine nuclei of ten keep, under a tolerance that forgives a difference
WIDEST = 0.125  # of the diameter: a wider tolerance forgives nearly every outline
UNEQUAL = 0.05  # of IoU, between two classes
FEW_NUCLEI = 20  # fewer nuclei of a class decide nothing
LEAST_RADIUS_PX = 3  # more than the two pixels of a shift
NAMES_UP_TO = 8

Advice = tuple[str, bool]  # a sentence or two, and whether something should be done


@dataclass(frozen=True, slots=True)
class Judged:
    """What advice looks at, from the content of sensitivity.json.

    everything  the stratum of all nuclei
    classes     the strata of the classes that have nuclei
    decisive    that of the class that a pixel costs most, of those with enough nuclei; all nuclei if none has
    safe        thresholds of IoU by which one pixel loses nearly no nucleus
    """

    document: Document
    everything: Document
    classes: Sequence[Document]
    decisive: Document
    safe: Sequence[float]

    @property
    def radius_px(self) -> int:
        """Half the diameter, or half the distance that nine tenths of the nuclei keep from the next, rounded down."""
        limits = (self.decisive["diameter_px"]["median"], self.everything["neighbour_px"]["low"])
        return max(LEAST_RADIUS_PX, int(min(limit for limit in limits if limit is not None) / 2))


def judge_strata(document: Document) -> Judged:
    everything, *others = document["strata"]
    classes = [stratum for stratum in others if stratum["size_px"] is None and stratum["nuclei"]]
    decisive = max(filter(has_enough, classes), key=cost_of, default=everything)
    safe = [
        rule["threshold"]
        for rule in document["rules"]
        if rule["rule"] == "iou_above" and most_lost(everything, rule["name"], ONE_PIXEL) <= BREAKS
    ]
    return Judged(document, everything, classes, decisive, safe)


def has_enough(stratum: Document) -> bool:
    return bool(stratum["nuclei"] >= FEW_NUCLEI)


def give_advice(document: Document) -> list[Advice]:
    """Say what the numbers mean to an organiser, the most important first."""
    if document["nuclei"] == 0:
        return [("The reference has no nuclei, so there is nothing to advise.", True)]
    judged = judge_strata(document)
    return [
        advise_on_size(judged),
        *advise_on_rules(judged),
        *advise_on_classes(judged),
        advise_on_resolution(judged),
        *advise_on_small_nuclei(judged),
        *advise_on_rare_classes(judged),
    ]


def advised_radius(document: Document) -> int | None:
    """Advise the radius, px, by which nuclei of this size should be matched; None if IoU suits them, or for few nuclei.

    It is the radius that ``advise_on_size`` names.
    """
    if document["nuclei"] == 0:
        return None
    judged = judge_strata(document)
    cost = cost_of(judged.decisive)
    is_costly = cost >= CHEAP and (cost >= COSTLY_IOU or not judged.safe)
    return judged.radius_px if is_costly and judged.decisive["class"] is not None else None


def cost_of(stratum: Document) -> float:
    """Return how much IoU a pixel costs the nuclei of a stratum."""
    return float(stratum["one_pixel_costs"] or 0)


def effects_of(stratum: Document, perturbations: Iterable[str]) -> list[Document]:
    return [effect for effect in stratum["effects"] if effect["perturbation"] in perturbations]


def most_lost(stratum: Document, rule: str, perturbations: Iterable[str]) -> float:
    """Return the largest share of the nuclei that a rule loses under one of some perturbations."""
    return float(max(effect["lost"].get(rule, 0) for effect in effects_of(stratum, perturbations)))


def advise_on_size(judged: Judged) -> Advice:
    """Say what a pixel costs the nuclei that it costs most, how to match them, and how to score their outlines."""
    decisive, first, safe = judged.decisive, judged.document["rules"][0], judged.safe
    cost, diameter = cost_of(decisive), decisive["diameter_px"]["median"]
    start = f"At this size ({diameter:.0f} px across)"
    if len(judged.classes) > 1 and decisive["class"] is not None:
        nuclei = counted(decisive["nuclei"], "nucleus", "nuclei")
        start = f"At the size of {quote(decisive['class'])} ({nuclei}, {diameter:.0f} px across)"
    start = f"{start} a one-pixel difference costs {cost:.2f} of IoU"
    if cost < CHEAP:
        return f"{start}: IoU can match and score.", False
    how = f"centroid within {judged.radius_px} px"
    if first["is_own"] and first["rule"] == "iou_above" and first["threshold"] >= 0.5 and first["threshold"] in safe:
        how = f"{first['words']} and by {how}"  # by the former no nucleus has two partners
    if cost < COSTLY_IOU and safe:
        how = f"IoU with a threshold of at most {max(safe):g}"
    outlines = "report Hausdorff distances"
    if (tolerance := advised_tolerance(decisive)) is not None:
        outlines = f"report surface Dice at {tolerance} px"
    elif WIDEST * diameter < 1:
        outlines = "do not rank by outlines, since a tolerance of a pixel forgives nearly all"
    return f"{start}: match by {how}, {outlines}.", cost >= COSTLY_IOU


def advised_tolerance(stratum: Document) -> int | None:
    """Choose the tolerance of surface Dice, px: the widest that forgives a pixel, but not an eighth of the diameter."""
    for tolerance in (2, 1):
        lowest = [effect["measures"][f"surface_dice_{tolerance}px"]["low"] for effect in effects_of(stratum, ONE_PIXEL)]
        if tolerance <= WIDEST * stratum["diameter_px"]["median"] and min(lowest) >= FORGIVEN:
            return tolerance
    return None


def advise_on_rules(judged: Judged) -> Iterator[Advice]:
    """Say how many nuclei the first rule of the challenge loses, and which other rules lose too many."""
    everything, (first, *others) = judged.everything, judged.document["rules"]
    if first["is_own"]:
        one, two = (most_lost(everything, first["name"], names) for names in (ONE_PIXEL, TWO_PIXELS))
        text = f"Your matching rule ({first['words']}) loses {percent(one, 1)} of the nuclei for one pixel"
        yield f"{text}, {percent(two, 1)} for two{': it breaks' * (one > BREAKS)}.", one > BREAKS
    else:
        others = [first, *others]
    broken = []
    for perturbations in (ONE_PIXEL, TWO_PIXELS):
        lost = [(-most_lost(everything, rule["name"], perturbations), rule["words"]) for rule in others]
        worst = [f"{words} ({percent(-share, 1)})" for share, words in sorted(lost) if -share > BREAKS]
        broken.append(first_names(worst) or "none")
    yield f"Of other rules these break for one pixel: {broken[0]}. For two: {broken[1]}.", False


def advise_on_classes(judged: Judged) -> Iterator[Advice]:
    """Warn if a pixel costs some classes much more than others."""
    least = min(filter(has_enough, judged.classes), key=cost_of, default=judged.decisive)
    if cost_of(judged.decisive) - cost_of(least) >= UNEQUAL:
        costs = (f"{quote(stratum['class'])} {cost_of(stratum):.2f}" for stratum in (judged.decisive, least))
        text = "a mean of IoU or PQ over classes compares sizes, so report them class by class."
        yield f"One pixel costs {' of IoU and '.join(costs)}: {text}", True


def advise_on_resolution(judged: Judged) -> Advice:
    """Say what half the resolution costs."""
    cost = max((1 - median for median in medians(judged.decisive["effects"], "iou", ("halved",))), default=0.0)
    text = f"Half the resolution costs {cost:.2f} of IoU"
    return f"{text}{': annotate and score at full resolution' * (cost >= CHEAP)}.", cost >= CHEAP


def advise_on_small_nuclei(judged: Judged) -> Iterator[Advice]:
    """Warn of nuclei that vanish if they are drawn a pixel smaller."""
    (eroded,) = effects_of(judged.everything, ("eroded_1",))
    if eroded["vanished"]:
        single = judged.document["one_pixel_nuclei"]
        which = f" ({single:,} of them a single pixel)" * (single > 0)
        nuclei = counted(judged.everything["nuclei"], "nucleus", "nuclei")
        text = f"Eroding by a pixel removes {eroded['vanished']:,} of {nuclei}{which}"
        yield f"{text}: look whether they are slips; instances.csv of 'evaluation rasterise' has all areas.", True


def advise_on_rare_classes(judged: Judged) -> Iterator[Advice]:
    """Name the classes that are too rare to say anything about."""
    rare = [stratum for stratum in judged.classes if not has_enough(stratum)]
    if rare:
        names = [f"{quote(stratum['class'])} ({stratum['nuclei']})" for stratum in rare]
        yield f"Too few nuclei to say much about {first_names(names)}.", False


def first_names(words: Sequence[str]) -> str:
    """Write the first of many names, and how many more there are."""
    more = f" and {len(words) - NAMES_UP_TO:,} more" * (len(words) > NAMES_UP_TO)
    return ", ".join(words[:NAMES_UP_TO]) + more
