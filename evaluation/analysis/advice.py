"""Advice to organisers from a study of sensitivity. docs/sensitivity.md gives the reasons for the thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.analysis.sensitivity_document import (
    AT_HALF,
    ONE_PIXEL,
    TWO_PIXELS,
    Advice,
    Sensitivity,
    Stratum,
    TriedRule,
)
from evaluation.findings import percent, quote

COSTLY = 0.15  # of IoU, for a pixel: three tenths of what a threshold of 0.5 forgives
CHEAP = 0.10
BREAKS = 0.01  # a rule that loses a larger share of the nuclei breaks
FORGIVEN = 0.9  # surface Dice that nine nuclei of ten keep, under a tolerance that forgives a difference
WIDEST = 0.125  # of the diameter: a wider tolerance forgives nearly every outline
UNEQUAL = 0.05  # of IoU, between two classes
FEW = 20  # fewer nuclei of a class decide nothing
LEAST_RADIUS_PX = 3  # more than the two pixels of a shift
NAMES_UP_TO = 8


def give_advice(found: Sensitivity) -> tuple[Advice, ...]:
    """What the numbers say to an organiser, the most important first."""
    if found.everything.nuclei == 0:
        return (Advice("empty", "The reference has no nuclei, so there is nothing to advise.", True),)
    judged = [of for of in found.of_classes if of.nuclei >= FEW] or [found.everything]
    decisive = max(judged, key=cost_of)
    return (
        advise_on_size(found, decisive),
        *advise_on_rules(found),
        *advise_on_classes(judged),
        *advise_on_resolution(decisive),
        *advise_on_small_nuclei(found),
        *advise_on_rare_classes(found),
    )


def cost_of(nuclei: Stratum) -> float:
    """How much IoU a pixel costs; there are some nuclei."""
    return nuclei.cost() or 0.0


def advise_on_size(found: Sensitivity, decisive: Stratum) -> Advice:
    """What a pixel costs the nuclei that it costs most, how to match them, and how to score their outlines."""
    cost, diameter = cost_of(decisive), decisive.diameter_px.median or 0.0
    size = f"{diameter:.0f} px across"
    if len(found.of_classes) > 1 and decisive.class_name is not None:
        start = f"At the size of {quote(decisive.class_name)} ({decisive.nuclei:,} nuclei, {size})"
    else:
        start = f"At this size ({size})"
    start = f"{start} a one-pixel difference costs {cost:.2f} of IoU"
    if cost < CHEAP:
        return Advice("size", f"{start}: IoU can match and score.")
    threshold = None if cost >= COSTLY else highest_threshold(found)
    how = f"centroid within {centroid_radius(found, decisive)} px"
    if threshold is not None:
        how = f"IoU with a threshold of at most {threshold:g}"
    tolerance = advised_tolerance(decisive)
    if tolerance is not None:
        outlines = f"report surface Dice at {tolerance} px"
    elif WIDEST * diameter < 1:
        outlines = "do not rank by outlines, since a tolerance of a pixel forgives nearly all"
    else:
        outlines = "report Hausdorff distances"
    return Advice("size", f"{start}: match by {how}, {outlines}.", cost >= COSTLY)


def advised_tolerance(of: Stratum) -> int | None:
    """The tolerance of surface Dice, px: the wider one that forgives a pixel and still sees what is an eighth off."""
    for tolerance in (2, 1):
        kept = [of.effect(name).measures[f"surface_dice_{tolerance}px"].low or 0.0 for name in ONE_PIXEL]
        if tolerance <= WIDEST * (of.diameter_px.median or 0.0) and min(kept) >= FORGIVEN:
            return tolerance
    return None


def centroid_radius(found: Sensitivity, decisive: Stratum) -> int:
    """Half the diameter, or half the distance that nine tenths of the nuclei keep from the next; px, rounded down."""
    limits = (decisive.diameter_px.median, found.everything.neighbour_px.low)
    return max(LEAST_RADIUS_PX, int(min(limit for limit in limits if limit is not None) / 2))


def highest_threshold(found: Sensitivity) -> float | None:
    """The highest IoU threshold that was tried and does not break for one pixel."""
    safe = [
        float(rule.keys["threshold"])
        for rule in found.rules
        if rule.keys["rule"] == "iou_above" and found.everything.most_lost(rule.name, ONE_PIXEL) <= BREAKS
    ]
    return max(safe, default=None)


def advise_on_rules(found: Sensitivity) -> list[Advice]:
    """How many nuclei the first rule of the challenge loses, and which of all others break."""
    advice = []
    others = list(found.rules)
    if others[0].is_own:
        first = others.pop(0)
        one, two = (percent(found.everything.most_lost(first.name, names), 1) for names in (ONE_PIXEL, TWO_PIXELS))
        breaks = found.everything.most_lost(first.name, ONE_PIXEL) > BREAKS
        text = f"Your matching rule ({first.words}) loses {one} of the nuclei for one pixel, {two} for two"
        advice.append(Advice("rule", f"{text}{': it breaks' * breaks}.", breaks))
    one, two = (broken_rules(found, others, names) for names in (ONE_PIXEL, TWO_PIXELS))
    advice.append(Advice("other_rules", f"Of other rules these break for one pixel: {one}. For two: {two}."))
    return advice


def broken_rules(found: Sensitivity, rules: Sequence[TriedRule], perturbations: Sequence[str]) -> str:
    """The rules that lose too many nuclei, the worst first, in words."""
    lost = {rule.words: found.everything.most_lost(rule.name, perturbations) for rule in rules}
    broken = sorted((words for words in lost if lost[words] > BREAKS), key=lambda words: -lost[words])
    return first_of([f"{words} ({percent(lost[words], 1)})" for words in broken]) or "none"


def advise_on_classes(judged: Sequence[Stratum]) -> list[Advice]:
    """Whether a pixel costs some classes much more than others."""
    least, most = min(judged, key=cost_of), max(judged, key=cost_of)
    if cost_of(most) - cost_of(least) < UNEQUAL:
        return []
    text = (
        f"One pixel costs {quote(most.class_name or '')} {cost_of(most):.2f} of IoU and "
        f"{quote(least.class_name or '')} {cost_of(least):.2f}: a mean of IoU or PQ over classes compares sizes, so "
        "report them class by class."
    )
    return [Advice("classes", text, True)]


def advise_on_resolution(decisive: Stratum) -> list[Advice]:
    """What half the resolution costs."""
    halved, pixel = decisive.cost(("halved",)), decisive.cost(AT_HALF)
    if halved is None or pixel is None:
        return []
    is_warning = halved >= CHEAP
    text = (
        f"Half the resolution costs {halved:.2f} of IoU by itself, and a pixel there {pixel:.2f} instead of "
        f"{cost_of(decisive):.2f}{': annotate and score at full resolution' * is_warning}."
    )
    return [Advice("resolution", text, is_warning)]


def advise_on_small_nuclei(found: Sensitivity) -> list[Advice]:
    """Whether there are nuclei that one pixel removes."""
    gone = found.everything.effect("eroded_1").vanished
    if not gone:
        return []
    single = f" ({found.one_pixel_nuclei:,} of them a single pixel)" * (found.one_pixel_nuclei > 0)
    text = (
        f"Eroding by a pixel removes {gone:,} of {found.everything.nuclei:,} nuclei{single}: look whether they are "
        "slips; instances.csv of 'evaluation rasterise' has all areas."
    )
    return [Advice("vanished", text, True)]


def advise_on_rare_classes(found: Sensitivity) -> list[Advice]:
    """Which classes are too rare to say anything about."""
    few = [f"{quote(of.class_name or '')} ({of.nuclei})" for of in found.of_classes if of.nuclei < FEW]
    return [Advice("few", f"Too few nuclei to say much about {first_of(few)}.")] if few else []


def first_of(words: Iterable[str]) -> str:
    """The first of many, and how many more there are."""
    every = list(words)
    more = f" and {len(every) - NAMES_UP_TO:,} more" * (len(every) > NAMES_UP_TO)
    return ", ".join(every[:NAMES_UP_TO]) + more
