"""A study of sensitivity as files: medians, what matching rules lose, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.challenge.matching_rules import MatchingRule
from evaluation.results.csv_cells import csv_table
from evaluation.results.metrics_json import as_json, rounded
from evaluation.results.version import __version__

PERTURBATIONS: Mapping[str, str] = {  # in words that follow "nuclei"; the last ones are compared on the coarser pixels
    "eroded_1": "eroded by 1 px",
    "eroded_2": "eroded by 2 px",
    "dilated_1": "dilated by 1 px",
    "dilated_2": "dilated by 2 px",
    "shifted_1": "shifted by 1 px",
    "shifted_2": "shifted by 2 px",
    "halved": "drawn at half the resolution",
    "half_eroded_1": "eroded by 1 px at half the resolution",
    "half_dilated_1": "dilated by 1 px at half the resolution",
    "half_shifted_1": "shifted by 1 px at half the resolution",
}
ONE_PIXEL = ("eroded_1", "dilated_1", "shifted_1")
TWO_PIXELS = ("eroded_2", "dilated_2", "shifted_2")
AT_HALF = ("half_eroded_1", "half_dilated_1", "half_shifted_1")
MEASURES = ("iou", "dice", "hausdorff_px", "hausdorff95_px", "surface_dice_1px", "surface_dice_2px")


@dataclass(frozen=True, slots=True)
class Spread:
    """The 10 % quantile, the median and the 90 % quantile of some nuclei; None if it is defined for none."""

    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Effect:
    """What one perturbation does to some nuclei.

    compared  how many there are to compare: at half the resolution those that are still there
    vanished  how many of those have no pixel left
    measures  by name, over the nuclei compared, each with its changed copy
    lost      by the name of a matching rule: share of the nuclei with pixels left that are not paired with those
    taken     the part of it that is paired with the copy of another nucleus; both empty at half the resolution, and
              where all nuclei vanished
    """

    perturbation: str
    compared: int
    vanished: int
    measures: Mapping[str, Spread]
    lost: Mapping[str, float]
    taken: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Nuclei of a class (None: of all), and of a size (None: of all).

    size_px       diameter of the disc of equal area: from, and below (None: no end)
    diameter_px   the same of the nuclei
    neighbour_px  from centroid to the nearest other centroid, of whatever class
    """

    class_name: str | None
    size_px: tuple[int, int | None] | None
    nuclei: int
    diameter_px: Spread
    neighbour_px: Spread
    effects: tuple[Effect, ...]

    def effect(self, perturbation: str) -> Effect:
        return next(effect for effect in self.effects if effect.perturbation == perturbation)

    def lowest(self, measure: str, perturbations: Iterable[str]) -> float | None:
        """The lowest of the medians under some perturbations, None where none is defined."""
        medians = [self.effect(name).measures[measure].median for name in perturbations]
        return min((median for median in medians if median is not None), default=None)

    def cost(self, perturbations: Iterable[str] = ONE_PIXEL) -> float | None:
        """How much IoU the worst of some perturbations takes from the median nucleus."""
        lowest = self.lowest("iou", perturbations)
        return None if lowest is None else 1 - lowest

    def most_lost(self, rule: str, perturbations: Iterable[str]) -> float:
        """The largest share of nuclei that a rule loses under some perturbations."""
        return max(self.effect(name).lost.get(rule, 0.0) for name in perturbations)


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A matching rule that was tried. ``is_own``: it is one of the challenge; ``keys``: as in challenge.toml."""

    rule: MatchingRule
    is_own: bool

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def keys(self) -> dict[str, Any]:
        return self.rule.model_dump(exclude_none=True)

    @property
    def words(self) -> str:
        return self.rule.short


@dataclass(frozen=True, slots=True)
class AtDiameter:
    """The nuclei of a whole diameter, px, and their median IoU under each perturbation by one pixel."""

    diameter_px: int
    nuclei: int
    iou: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Advice:
    """A sentence or two; the code is what it is about, ``is_warning`` whether something should be done."""

    code: str
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """The reference of a challenge against itself, drawn slightly differently.

    empty_cases       cases without nuclei
    one_pixel_nuclei  nuclei that are one pixel
    ignored           by perturbation: nuclei that left because of an ignore region before they were matched
    rules             those of the challenge first, the primary one before all
    strata            all nuclei first, then those of each size, then the same for each class; no empty sizes
    """

    identity: Mapping[str, str]
    cases: int
    empty_cases: int
    one_pixel_nuclei: int
    ignored: Mapping[str, int]
    rules: tuple[TriedRule, ...]
    strata: tuple[Stratum, ...]
    by_diameter: tuple[AtDiameter, ...]
    advice: tuple[Advice, ...] = ()

    @property
    def everything(self) -> Stratum:
        return self.strata[0]

    @property
    def of_classes(self) -> tuple[Stratum, ...]:
        """The classes that have nuclei, all sizes together."""
        return tuple(of for of in self.strata if of.class_name is not None and of.size_px is None and of.nuclei)


# --- files ------------------------------------------------------------------------------------------------------------


def sensitivity_json(found: Sensitivity) -> str:
    """The content of sensitivity.json: strict JSON, sorted keys, six decimals; the same bytes for the same study."""
    return as_json(sensitivity_document(found))


def sensitivity_document(found: Sensitivity) -> dict[str, Any]:
    """The content of sensitivity.json. Names of classes are values, never keys; there are no names of cases."""
    return {
        "advice": [asdict(advice) for advice in found.advice],
        "challenge": dict(found.identity),
        "software": {"version": __version__},
        "cases": found.cases,
        "empty_cases": found.empty_cases,
        "nuclei": found.everything.nuclei,
        "one_pixel_nuclei": found.one_pixel_nuclei,
        "ignored": dict(found.ignored),
        "perturbations": [{"name": name, "words": words} for name, words in PERTURBATIONS.items()],
        "rules": [{**rule.keys, "words": rule.words, "is_own": rule.is_own} for rule in found.rules],
        "strata": [stratum_document(of) for of in found.strata],
        "by_diameter": [
            {
                "diameter_px": at.diameter_px,
                "nuclei": at.nuclei,
                "iou": {name: rounded(value) for name, value in at.iou.items()},
            }
            for at in found.by_diameter
        ],
    }


def stratum_document(of: Stratum) -> dict[str, Any]:
    return {
        "class": of.class_name,
        "size_px": None if of.size_px is None else {"from": of.size_px[0], "below": of.size_px[1]},
        "nuclei": of.nuclei,
        "diameter_px": spread_document(of.diameter_px),
        "neighbour_px": spread_document(of.neighbour_px),
        "one_pixel_costs": rounded(of.cost()),
        "effects": [
            {
                "perturbation": effect.perturbation,
                "compared": effect.compared,
                "vanished": effect.vanished,
                "measures": {name: spread_document(spread) for name, spread in effect.measures.items()},
                "lost": {name: rounded(share) for name, share in effect.lost.items()},
                "taken": {name: rounded(share) for name, share in effect.taken.items()},
            }
            for effect in of.effects
        ],
    }


def spread_document(spread: Spread) -> dict[str, float | None]:
    return {"low": rounded(spread.low), "median": rounded(spread.median), "high": rounded(spread.high)}


def sensitivity_csv(found: Sensitivity) -> str:
    """The content of sensitivity.csv: a row for each stratum and perturbation."""
    table = []
    ends = [f"{measure}_{end}" for measure in MEASURES for end in ("low", "median", "high")]
    rules = [rule.name for rule in found.rules]
    head = ["class", "size_from_px", "size_below_px", "nuclei", "perturbation", "compared", "vanished"]
    for of in found.strata:
        size = of.size_px or (None, None)
        for effect in of.effects:
            spreads = [effect.measures[measure] for measure in MEASURES]
            values = [rounded(value) for spread in spreads for value in (spread.low, spread.median, spread.high)]
            lost = [rounded(effect.lost.get(rule)) for rule in rules]
            line = [of.class_name, *size, of.nuclei, effect.perturbation, effect.compared, effect.vanished]
            table.append([*line, *values, *lost])
    return csv_table([*head, *ends, *(f"lost_{rule}" for rule in rules)], table)
