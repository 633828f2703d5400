"""Rules of a challenge that fit the size of its nuclei and its annotators, from a study of sensitivity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evaluation.analysis.advice import (
    BREAKS,
    COSTLY,
    FEW,
    WIDEST,
    advised_tolerance,
    centroid_radius,
    cost_of,
    highest_threshold,
)
from evaluation.analysis.sensitivity_document import ONE_PIXEL, TWO_PIXELS, Sensitivity

FLOOR_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Fit:
    """What fits the nuclei that a pixel costs most.

    rule       matching rule as in challenge.toml; None: the first rule of the challenge fits
    tolerance  of surface Dice, px; None: none fits
    cap        what a missed nucleus counts in distances, px: the radius of the median nucleus
    floor      on detection F1: half of what the reference itself has, drawn two pixels off
    words      the reasons
    """

    rule: dict[str, Any] | None
    tolerance: int | None
    cap: float
    floor: float
    words: tuple[str, ...]


def fit_rules(found: Sensitivity, apart: Mapping[str, Any]) -> Fit | None:
    """The rules that fit; None without nuclei. docs/sensitivity.md gives the thresholds.

    apart  how far annotators are apart (``annotator_distances``), which a radius and a tolerance do not fall below;
           empty: not known
    """
    if not found.everything.nuclei:
        return None
    judged = [of for of in found.of_classes if of.nuclei >= FEW] or [found.everything]
    decisive = max(judged, key=cost_of)
    cost, diameter = cost_of(decisive), decisive.diameter_px.median or 0.0
    first = found.rules[0]
    threshold = highest_threshold(found)
    by_iou = cost < COSTLY and threshold is not None
    fits = found.everything.most_lost(first.name, ONE_PIXEL) <= BREAKS and (
        "radius" in " ".join(first.keys) or (by_iou and first.keys.get("threshold", 0) <= (threshold or 0))
    )
    shared = {"class_aware": False, "ties": "first_pixel"}
    rule: dict[str, Any] | None = None
    if not fits and by_iou:
        rule = {"name": "planned", "rule": "iou_above", "threshold": threshold, **shared}
    elif not fits:
        radius = max(float(centroid_radius(found, decisive)), apart.get("radius_px") or 0.0)
        rule = {"name": "planned", "rule": "centroid_closest_first", "radius_px": radius, **shared}
    tolerance, contour, cap = (
        advised_tolerance(decisive),
        apart.get("contour_px"),
        max(1.0, math.floor(diameter / 2 + 0.5)),
    )
    if contour is not None:
        wanted = max(tolerance or 1, math.ceil(contour))
        tolerance = wanted if wanted <= WIDEST * diameter else None
    floor = floor_below(1 - found.everything.most_lost(first.name, TWO_PIXELS))
    words = [
        f"A pixel costs {cost:.2f} of IoU at a diameter of {diameter:.0f} px: "
        + ("the first matching rule fits." if rule is None else f"match by {rule['rule']}."),
        f"Tolerance of surface Dice: {f'{tolerance} px' if tolerance else 'none fits'}.",
        f"Cap of distances: {cap:g} px, the radius of the median nucleus.",
        f"Floor on detection F1: {floor:g}, half of what the reference has when it is drawn two pixels off.",
    ]
    if apart.get("pairs"):
        words.append(f"Annotators place 95 % of the nuclei within {apart['share_px']:.3g} px of each other.")
    if contour is not None:
        words.append(f"Annotators have 95 % of the contour of a typical nucleus within {contour:.3g} px of each other.")
    return Fit(rule, tolerance, cap, floor, tuple(words))


def floor_below(reached: float) -> float:
    """Half of what is reached, rounded down to ``FLOOR_STEP``."""
    return round(math.floor(reached / 2 / FLOOR_STEP + 1e-9) * FLOOR_STEP, 2)
