"""How much scores change with a pixel: the reference is compared with itself, drawn slightly differently.

Each nucleus is compared with its changed copy alone. Matching rules get the whole changed reference as a
submission and should match every nucleus with its copy. Advice for organisers is written next to the numbers;
docs/sensitivity.md gives the reasons for the thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import scipy

from evaluation.challenge import AnyMatchingRule, Challenge
from evaluation.challenge.matching_rules import IouAbove, MatchingRules, Sides
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.results import __version__
from evaluation.files.results.documents import DECIMALS, encoded, identity, rounded_list
from evaluation.findings import Finding, counted, fault, percent, quote
from evaluation.findings.errors import InputFault, WrongUsage
from evaluation.scoring.rasterise import of_every_case
from evaluation.scoring.read import read_reference
from evaluation.scoring.workers import Progress, run_work
from nuclei_metrics.instances import runs
from nuclei_metrics.instances.prepare import PreparedReference, apply_ignore_region
from nuclei_metrics.matching import overlap_table
from nuclei_metrics.measure import measure_outlines, outlined_image
from nuclei_metrics.metrics.counts import overlap_measures
from nuclei_metrics.model import Bool, BorderRule, Case, Float64, Instances, Int16, Int64, Matches
from nuclei_metrics.model.arrays import concatenated

PERTURBATIONS: Mapping[str, str] = {  # in words that follow "nuclei"
    "eroded_1": "eroded by 1 px",
    "eroded_2": "eroded by 2 px",
    "dilated_1": "dilated by 1 px",
    "dilated_2": "dilated by 2 px",
    "shifted_1": "shifted by 1 px",
    "shifted_2": "shifted by 2 px",
    "halved": "drawn at half the resolution",
    "halved_eroded_1": "at half resolution, then eroded by 1 px",
    "halved_dilated_1": "at half resolution, then dilated by 1 px",
    "halved_shifted_1": "at half resolution, then shifted by 1 px",
}
ONE_PIXEL = ("eroded_1", "dilated_1", "shifted_1")
TWO_PIXELS = ("eroded_2", "dilated_2", "shifted_2")
ONE_PIXEL_AT_HALF = tuple(f"halved_{change}" for change in ONE_PIXEL)
TOLERANCES_PX = (1, 2)  # of surface Dice
HAUSDORFF_DISTANCES = ("hausdorff_px", "hausdorff95_px")
COMPARED_MEASURES = ("iou", "dice", *HAUSDORFF_DISTANCES, *(f"surface_dice_{px}px" for px in TOLERANCES_PX))
SIZES_PX = (0, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # where bins of the diameter begin; the last one has no end
QUANTILES = (0.1, 0.5, 0.9)

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

    Raises WrongUsage if the reference has no outlines, ChallengeBroken.
    """
    folder = Path(challenge_folder)
    challenge = Challenge.load(folder)
    if challenge.reference.are_points or challenge.reference.are_counts:
        raise WrongUsage(fault("no-outlines", "challenge.toml: reference.format", format=challenge.reference.format))
    rules = rules_to_try(challenge)
    run = partial(run_work, workers=workers)
    studies = of_every_case(partial(study_case, rules), challenge, folder, progress, run)
    return summarise_studies(challenge, rules, studies)


def rules_to_try(challenge: Challenge) -> tuple[AnyMatchingRule, ...]:
    """List the matching rules of the challenge, then other common rules under new names."""

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

    neighbour_px  float64 (N,), from centroid to the nearest other one; NaN if missing
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
    values = np.tile(_values_of_gone(), (count, len(PERTURBATIONS), 1))
    lost = np.ones((count, len(PERTURBATIONS), len(rules)), np.bool_)
    border, ignore = challenge.metrics.boundary, challenge.reference.ignore
    for index, (before, changed) in enumerate(_changed_references(instances) if count else ()):
        values[before.source_id, index] = _compare_with_itself(before, changed, border)
        if ignore.policy is not None:
            changed = apply_ignore_region(changed, reference.ignore, ignore.policy, ignore.fraction)
        sides = Sides(case, overlap_table(before, changed), before, changed, border)
        for number, rule in enumerate(rules):
            matches = rule.match(sides)
            source_id = before.source_id[matches.reference_index]
            is_own = changed.source_id[matches.prediction_index] == source_id
            lost[source_id[is_own], index, number] = False
    return CaseStudy(instances.class_id, instances.areas_px(), neighbour_distances(instances), values, lost)


def _changed_references(instances: Instances) -> Iterator[tuple[Instances, Instances]]:
    """Yield the nuclei and their changed copies, with their ids, in the order of PERTURBATIONS.

    Nuclei extend beyond the image border: who draws them a pixel tighter still draws them up to the border.
    A pixel of half the resolution is changed there, and compared with the nuclei at half the resolution; both are
    drawn on the pixels of the image again, so that distances and radii keep their unit.
    """
    eroded, dilated = runs.erode_instances(instances, border="open"), runs.dilate_instances(instances)
    yield instances, eroded
    yield instances, runs.erode_instances(eroded, border="open")
    yield instances, dilated
    yield instances, runs.dilate_instances(dilated)
    yield instances, runs.shift_instances(instances, 1, 0)
    yield instances, runs.shift_instances(instances, 2, 0)
    half = runs.halve_instances(instances)
    before, *changed = (
        runs.double_instances(nuclei, instances.shape_yx)
        for nuclei in (
            half,
            runs.erode_instances(half, border="open"),
            runs.dilate_instances(half),
            runs.shift_instances(half, 1, 0),
        )
    )
    yield instances, before
    for nuclei in changed:
        yield before, nuclei


def _compare_with_itself(before: Instances, after: Instances, border: BorderRule) -> Float64:
    """Measure each nucleus against its changed copy, float64 (N, M), in the order of MEASURES.

    A nucleus without a pixel left shares nothing: IoU, Dice and surface Dice are 0, distances are undefined (NaN).
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
    values = np.tile(_values_of_gone(), (len(before), 1))
    values[index] = np.stack([measures[name] for name in COMPARED_MEASURES], axis=1)
    return values


def _values_of_gone() -> Float64:
    """Return the measures of a nucleus without a pixel left, float64 (M,)."""
    return np.array([np.nan if name in HAUSDORFF_DISTANCES else 0.0 for name in COMPARED_MEASURES])


def neighbour_distances(instances: Instances) -> Float64:
    """Measure the distance of each centroid to the nearest other one, px, float64 (N,); NaN for a single nucleus."""
    if len(instances) < 2:
        return np.full(len(instances), np.nan)
    centroids = instances.centroids_yx()
    return np.asarray(scipy.spatial.cKDTree(centroids).query(centroids, k=2)[0][:, 1])


# --- all cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """The 10% quantile, the median and the 90% quantile of values, to six decimals; NaN if missing."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Float64) -> Self:
        """Compute the quantiles of the values that are not NaN."""
        known = values[~np.isnan(values)]
        return cls(*rounded_list(np.quantile(known, QUANTILES)) if len(known) else [math.nan] * len(QUANTILES))


@dataclass(frozen=True, slots=True)
class _ChangeEffect:
    """The effect of a change on some nuclei.

    vanished  number of nuclei without a pixel left
    measures  by their names
    lost      by rule: share of the remaining nuclei that are not paired with their copies; empty without nuclei
    """

    perturbation: str
    vanished: int
    measures: Mapping[str, Spread]
    lost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _SizeRange:
    """Diameters in px, without ``below``; None: no limit."""

    from_: int
    below: int | None


@dataclass(frozen=True, slots=True)
class _Stratum:
    """The nuclei of a class and size (None: all), and the effects of all changes.

    one_pixel_costs  the largest loss of the median IoU by a change of one pixel; NaN: not known
    """

    class_: str | None
    size_px: _SizeRange | None
    nuclei: int
    diameter_px: Spread
    neighbour_px: Spread
    one_pixel_costs: float
    effects: Sequence[_ChangeEffect]

    def of_changes(self, perturbations: Iterable[str]) -> list[_ChangeEffect]:
        return [effect for effect in self.effects if effect.perturbation in perturbations]

    def most_lost(self, rule: str, perturbations: Iterable[str]) -> float:
        """Return the largest share of the nuclei that a rule loses under one of some perturbations."""
        return max(effect.lost.get(rule, 0.0) for effect in self.of_changes(perturbations))


def summarise_studies(
    challenge: Challenge, rules: Sequence[AnyMatchingRule], studies: Sequence[CaseStudy]
) -> dict[str, Any]:
    """Create the content of sensitivity.json: all nuclei first, then each size, then the same for each class.

    Names of classes are values, never keys; there are no names of cases.
    """
    nuclei, names = join_studies(studies, len(rules)), [rule.name for rule in rules]
    size = np.searchsorted(SIZES_PX, _diameters_px(nuclei.area_px), "right") - 1
    strata = []
    for class_id, name in enumerate([None, *challenge.class_names]):
        of_class = (nuclei.class_id == class_id) | (class_id == 0)
        strata.append(_stratum_of(nuclei, of_class, names, name, None))
        for index, (low, high) in enumerate(zip(SIZES_PX, (*SIZES_PX[1:], None), strict=True)):
            if (chosen := of_class & (size == index)).any():
                strata.append(_stratum_of(nuclei, chosen, names, name, _SizeRange(low, high)))
    single = int((nuclei.area_px == 1).sum())
    advice = _Adviser(strata, rules, len(challenge.matching.rules), single)
    tried = [
        {**rule.model_dump(exclude_none=True), "words": rule.short, "is_own": index < len(challenge.matching.rules)}
        for index, rule in enumerate(rules)
    ]
    return cast(dict[str, Any], encoded({
        "challenge": identity(challenge),
        "software": {"version": __version__},
        "cases": len(studies),
        "empty_cases": sum(len(study.class_id) == 0 for study in studies),
        "nuclei": len(nuclei.class_id),
        "one_pixel_nuclei": single,
        "perturbations": [{"name": name, "words": words} for name, words in PERTURBATIONS.items()],
        "rules": tried,
        "strata": strata,
        "advice": advice.give(),
        "advised_radius_px": advice.radius(),
    }))  # fmt: skip


def join_studies(studies: Sequence[CaseStudy], rules: int) -> CaseStudy:
    """Join the nuclei of all cases, case after case."""
    values = np.empty((0, len(PERTURBATIONS), len(COMPARED_MEASURES)))
    lost = np.empty((0, len(PERTURBATIONS), rules), np.bool_)
    return concatenated([CaseStudy(np.empty(0, np.int16), np.empty(0, np.int64), np.empty(0), values, lost), *studies])


def _diameters_px(area_px: Int64) -> Float64:
    """Compute the diameter, px, of the disc that is as large as each nucleus."""
    return np.asarray(np.sqrt(4 * area_px / math.pi))


def _stratum_of(
    nuclei: CaseStudy, chosen: Bool, rules: Sequence[str], class_name: str | None, size_px: _SizeRange | None
) -> _Stratum:
    """Summarise the effects of all changes on the chosen nuclei."""
    effects, values = [], nuclei.values[chosen]
    for index, name in enumerate(PERTURBATIONS):
        vanished = np.isnan(values[:, index, COMPARED_MEASURES.index("hausdorff_px")])
        lost = nuclei.lost[chosen, index][~vanished]
        spreads = {measure: Spread.of(values[:, index, place]) for place, measure in enumerate(COMPARED_MEASURES)}
        shares = rounded_list(lost.mean(axis=0)) if len(lost) else ()
        effects.append(
            _ChangeEffect(name, int(vanished.sum()), spreads, dict(zip(rules, shares, strict=bool(len(lost)))))
        )
    costs = [1 - effect.measures["iou"].median for effect in effects if effect.perturbation in ONE_PIXEL]
    return _Stratum(
        class_name,
        size_px,
        int(chosen.sum()),
        Spread.of(_diameters_px(nuclei.area_px[chosen])),
        Spread.of(nuclei.neighbour_px[chosen]),
        round(max(costs), DECIMALS),
        effects,
    )


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


class _Advice(NamedTuple):
    """A sentence or two, and whether something should be done."""

    text: str
    is_warning: bool


class _Adviser:
    """Advice for organisers from the numbers.

    everything  the stratum of all nuclei
    classes     the strata of the classes that have nuclei
    decisive    the class with enough nuclei that a pixel costs most; all nuclei if every class is too rare
    safe        IoU thresholds at which one pixel loses nearly no nucleus
    """

    def __init__(self, strata: Sequence[_Stratum], rules: Sequence[AnyMatchingRule], own: int, single: int) -> None:
        """``own``: how many of the first rules belong to the challenge; ``single``: nuclei of a single pixel."""
        self.everything, *others = strata
        self.own, self.others, self.single = rules[0] if own else None, rules[1 if own else 0 :], single
        self.classes = [stratum for stratum in others if stratum.size_px is None and stratum.nuclei]
        self.with_enough = [stratum for stratum in self.classes if stratum.nuclei >= FEW_NUCLEI]
        self.decisive = max(self.with_enough, key=attrgetter("one_pixel_costs"), default=self.everything)
        self.safe = [
            rule.threshold
            for rule in rules
            if isinstance(rule, IouAbove) and self.everything.most_lost(rule.name, ONE_PIXEL) <= BREAKS
        ]

    def give(self) -> list[_Advice]:
        """Return the advice, the most important first."""
        if not self.everything.nuclei:
            return [_Advice("The reference has no nuclei, so there is nothing to advise.", True)]
        return [
            self.on_size(),
            *self.on_rules(),
            *self.on_classes(),
            self.on_resolution(),
            *self.on_small_nuclei(),
            *self.on_rare_classes(),
        ]

    def radius(self) -> int | None:
        """Advise the radius, px, for matching nuclei of this size, as in ``on_size``.

        None if IoU suits them, or for few nuclei.
        """
        cost = self.decisive.one_pixel_costs
        is_costly = cost >= CHEAP and (cost >= COSTLY_IOU or not self.safe)
        return self.radius_px if is_costly and self.decisive.class_ is not None else None

    @property
    def radius_px(self) -> int:
        """Half the diameter, or half the distance to the next nucleus (exceeded by nine tenths of the nuclei), rounded
        down.
        """
        limits = self.decisive.diameter_px.median, self.everything.neighbour_px.low
        return max(LEAST_RADIUS_PX, int(np.nanmin(limits) / 2))

    def on_size(self) -> _Advice:
        """Return the largest cost of a pixel, how to match these nuclei, and how to score their outlines."""
        decisive, own, safe = self.decisive, self.own, self.safe
        cost, diameter = decisive.one_pixel_costs, decisive.diameter_px.median
        start = f"At this size ({diameter:.0f} px across)"
        if len(self.classes) > 1 and decisive.class_ is not None:
            nuclei = counted(decisive.nuclei, "nucleus", "nuclei")
            start = f"At the size of {quote(decisive.class_)} ({nuclei}, {diameter:.0f} px across)"
        start = f"{start} a one-pixel difference costs {cost:.2f} of IoU"
        if cost < CHEAP:
            return _Advice(f"{start}: IoU can match and score.", False)
        how = f"centroid within {self.radius_px} px"
        if isinstance(own, IouAbove) and own.threshold >= 0.5 and own.threshold in safe:
            how = f"{own.short} and by {how}"  # by the former no nucleus has two partners
        if cost < COSTLY_IOU and safe:
            how = f"IoU with a threshold of at most {max(safe):g}"
        outlines = "report Hausdorff distances"
        if (tolerance := _advised_tolerance(decisive)) is not None:
            outlines = f"report surface Dice at {tolerance} px"
        elif WIDEST * diameter < 1:
            outlines = "do not rank by outlines, since a tolerance of a pixel forgives nearly all"
        return _Advice(f"{start}: match by {how}, {outlines}.", cost >= COSTLY_IOU)

    def on_rules(self) -> Iterator[_Advice]:
        """Return how many nuclei the first rule of the challenge loses, and which other rules lose too many."""
        if self.own is not None:
            one, two = (self.everything.most_lost(self.own.name, changes) for changes in (ONE_PIXEL, TWO_PIXELS))
            text = f"Your matching rule ({self.own.short}) loses {percent(one, 1)} of the nuclei for one pixel"
            yield _Advice(f"{text}, {percent(two, 1)} for two{': it breaks' * (one > BREAKS)}.", one > BREAKS)
        lost = sorted((-self.everything.most_lost(rule.name, ONE_PIXEL), rule.short) for rule in self.others)
        broken = _first_names([words for share, words in lost if -share > BREAKS]) or "none"
        yield _Advice(f"Other rules that lose more than {percent(BREAKS)} of the nuclei to one pixel: {broken}.", False)

    def on_classes(self) -> Iterator[_Advice]:
        """Warn if a pixel costs some classes much more than others."""
        least = min(self.with_enough, key=attrgetter("one_pixel_costs"), default=self.decisive)
        if self.decisive.one_pixel_costs - least.one_pixel_costs >= UNEQUAL:
            pair = (self.decisive, least)
            costs = (f"{quote(str(stratum.class_))} {stratum.one_pixel_costs:.2f}" for stratum in pair)
            text = "a mean of IoU or PQ over classes compares sizes, so report them class by class."
            yield _Advice(f"One pixel costs {' of IoU and '.join(costs)}: {text}", True)

    def on_resolution(self) -> _Advice:
        """Return the cost of half the resolution, and of a one-pixel difference there."""
        (halved,) = self.decisive.of_changes(("halved",))
        cost = 1 - halved.measures["iou"].median
        pixel = 1 - min(effect.measures["iou"].median for effect in self.decisive.of_changes(ONE_PIXEL_AT_HALF))
        text = f"Half the resolution costs {cost:.2f} of IoU, and a one-pixel difference there {pixel:.2f}"
        is_much = cost >= CHEAP
        return _Advice(f"{text}{': annotate and score at full resolution' * is_much}.", is_much)

    def on_small_nuclei(self) -> Iterator[_Advice]:
        """Warn of nuclei that vanish if they are drawn a pixel smaller."""
        (eroded,) = self.everything.of_changes(("eroded_1",))
        if eroded.vanished:
            which = f" ({self.single:,} of them a single pixel)" * (self.single > 0)
            nuclei = counted(self.everything.nuclei, "nucleus", "nuclei")
            text = f"Eroding by a pixel removes {eroded.vanished:,} of {nuclei}{which}"
            hint = "check whether they are annotation errors; instances.csv of 'evaluation rasterise' lists all areas"
            yield _Advice(f"{text}: {hint}.", True)

    def on_rare_classes(self) -> Iterator[_Advice]:
        """Name the classes that are too rare for advice."""
        rare = [stratum for stratum in self.classes if stratum.nuclei < FEW_NUCLEI]
        if rare:
            names = [f"{quote(str(stratum.class_))} ({stratum.nuclei})" for stratum in rare]
            yield _Advice(f"Too few nuclei for advice on {_first_names(names)}.", False)


def _advised_tolerance(stratum: _Stratum) -> int | None:
    """Choose the tolerance of surface Dice, px: the smallest that forgives a pixel, up to an eighth of the diameter."""
    for tolerance in TOLERANCES_PX:
        lowest = [effect.measures[f"surface_dice_{tolerance}px"].low for effect in stratum.of_changes(ONE_PIXEL)]
        if tolerance <= WIDEST * stratum.diameter_px.median and min(lowest) >= FORGIVEN:
            return tolerance
    return None


def _first_names(words: Sequence[str]) -> str:
    """Write the first of many names, and how many more there are."""
    more = f" and {len(words) - NAMES_UP_TO:,} more" * (len(words) > NAMES_UP_TO)
    return ", ".join(words[:NAMES_UP_TO]) + more
