"""Entries that share their errors, such as one entry under two names, and entries that are the reference itself.

Good teams agree with each other where both agree with the reference, so only the rest is compared: the nuclei that both
teams matched and that at least one of them outlined unlike the reference. They share such a nucleus if they outlined it
with nearly the same area: a nucleus that is moved keeps its area.

As measured, honest teams share at most 0.40 of these nuclei (made fields of ``benchmarks.gaming``), copies whose nuclei
are each moved by a pixel 0.9 and more. A copy that is a pixel larger is not found, nor are points compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evaluation.findings import percent, quote
from evaluation.model import Bool, Float64

SAME_AREA = 0.98
ALIKE = 0.6
LEAST = 20  # nuclei to compare
NUCLEI_UP_TO = 20_000
PAIRS_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """How a team outlined each of N reference nuclei; NaN: not matched, or not known.

    area  float64 (N,), px
    iou   float64 (N,), with the reference
    """

    area: Float64
    iou: Float64


@dataclass(frozen=True, slots=True)
class Alike:
    """What entries share, for organisers.

    pairs      (team, team, share), the largest share first
    reference  (team, share of its matched nuclei that have the very pixels of the reference)
    others     the largest share among the other pairs; None if there are none
    """

    pairs: tuple[tuple[str, str, float], ...] = ()
    reference: tuple[tuple[str, float], ...] = ()
    others: float | None = None

    def lines(self) -> list[str]:
        """Which entries are to be asked about, at most ``PAIRS_NAMED`` pairs of them."""
        lines = [
            f"For organisers only: {quote(name)} has the very pixels of the reference in {percent(share)} of the "
            "nuclei that it matched: ask where they come from."
            for name, share in self.reference
        ]
        if self.pairs:
            rest = len(self.pairs) - PAIRS_NAMED
            shown = "; ".join(
                f"{quote(one)} and {quote(other)} share {percent(share)} of their outlines"
                for one, other, share in self.pairs[:PAIRS_NAMED]
            )
            others = "" if self.others is None else f", other pairs {percent(self.others)} at most"
            lines.append(
                f"For organisers only: {shown}{f'; and {rest:,} more pairs' if rest > 0 else ''} (equal areas, of the "
                f"nuclei that both matched and one outlined unlike the reference{others}): ask them."
            )
        return lines


def compare_outlines(reference_area: Float64, teams: Mapping[str, Outlines]) -> Alike:
    """Which teams share their errors, and which are the reference. Areas are float64 (N,), px.

    A pair is named if it shares ``ALIKE`` or more, and twice as much as the pairs outside the tenth (one pair at least)
    that share most. Where these share as much, no pair can share twice that: the sign means nothing there.
    """
    step = max(1, -(-len(reference_area) // NUCLEI_UP_TO))
    areas = {name: team.area[::step] for name, team in teams.items()}
    shares = [
        (share, one, other)
        for one, other in combinations(sorted(teams), 2)
        if (share := share_of_errors(areas[one], areas[other], reference_area[::step])) is not None
    ]
    shares.sort(key=lambda pair: (-pair[0], *pair[1:]))
    ordinary = [share for share, *_ in shares[max(1, len(shares) // 10) :]]
    least = max([ALIKE, *(2 * share for share in ordinary)])
    pairs = tuple((one, other, share) for share, one, other in shares if share >= least)
    others = max((share for share, *_ in shares if share < least), default=None)
    reference: list[tuple[str, float]] = []
    for name, team in sorted(teams.items()):
        known = team.iou[~np.isnan(team.iou)]
        if len(known) >= LEAST and (very := float((known == 1).mean())) >= ALIKE:
            reference.append((name, very))
    return Alike(pairs, tuple(reference), others)


def share_of_errors(one: Float64, other: Float64, reference: Float64) -> float | None:
    """Share of the nuclei that both matched, and one outlined unlike the reference, that have nearly the same area.

    Areas are float64 (N,), NaN: not matched. None for fewer than ``LEAST`` such nuclei.

    >>> reference = np.full(40, 100.0)
    >>> areas = np.where(np.arange(40) < 30, 110.0, reference)
    >>> share_of_errors(areas, areas, reference), share_of_errors(areas, reference, reference)
    (1.0, 0.0)
    >>> share_of_errors(reference, reference, reference) is None
    True
    """
    compared = ~(same_area(one, reference) & same_area(other, reference)) & ~np.isnan(one + other)
    number = int(compared.sum())
    return float((same_area(one, other) & compared).sum() / number) if number >= LEAST else None


def same_area(one: Float64, other: Float64) -> Bool:
    return np.asarray(np.minimum(one, other) >= SAME_AREA * np.maximum(one, other))
