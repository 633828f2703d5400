"""Entries that are nearly the same, such as one entry under two names, found from the stored tables of nuclei.

Two teams agree in a reference nucleus if both matched it and their nuclei have nearly the same area: a nucleus that is
moved keeps its area. Two teams are nearly the same if they agree in at least ``NEARLY_THE_SAME`` of the nuclei that
each of them matched.

As measured: honest teams agree in at most 0.41 (the most alike pair of nine made fields of ``benchmarks.gaming``; two
real ones, Data Science Bowl 2018: 0.06). Copies of which every nucleus is moved by up to 2 px, one in thirty is left
out and three pixels of each are cut agree in at least 0.81, one that leaves out three nuclei of ten in 0.70. Not found
is a copy that is a pixel larger or leaves out half. Teams that both have the pixels of the reference look like copies.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from itertools import combinations

import numpy as np

from evaluation.findings import percent, quote
from evaluation.leaderboard.document import AlikeTeams, Board
from evaluation.leaderboard.matched_nuclei import MatchedNuclei
from evaluation.model import Float64

SAME_AREA, NEARLY_THE_SAME = 0.98, 0.6
LEAST = 20  # nuclei that both matched
PAIRS_NAMED = 10
NUCLEI_UP_TO = 20_000  # of the reference that are compared, those with the lowest check sums


def with_alike_teams(board: Board, found: MatchedNuclei) -> Board:
    """The board with the pairs of ranked teams that are nearly the same.

    Teams of which the nuclei, their areas or a measure that the board compares are not known are left out.
    """
    areas = areas_of_teams(found)
    shares = {(one, other): share_alike(areas[one], areas[other]) for one, other in combinations(areas, 2)}
    alike = (AlikeTeams(*pair, share) for pair, share in shares.items() if share >= NEARLY_THE_SAME)
    return replace(board, alike=tuple(sorted(alike, key=lambda of: -of.share)))


def areas_of_teams(found: MatchedNuclei) -> dict[str, Float64]:
    """Area of the nucleus with which each team matched each of N reference nuclei, px, float64 (N,); NaN: none."""
    known = {name: team.area > 0 for name, team in found.teams.items()}
    has_area = np.zeros(len(found.nuclei), np.bool_)
    for name, team in found.teams.items():
        has_area[team.nucleus[known[name]]] = True
    nuclei = np.flatnonzero(has_area)
    sums = np.array([zlib.crc32(b"\0".join(found.nuclei[nucleus])) for nucleus in nuclei.tolist()], np.int64)
    nuclei = nuclei[np.argsort(sums, kind="stable")[:NUCLEI_UP_TO]]
    areas = {}
    for name, team in found.teams.items():
        area = np.full(len(found.nuclei), np.nan)
        area[team.nucleus[known[name]]] = team.area[known[name]]
        areas[name] = area[nuclei]
    return areas


def share_alike(one: Float64, other: Float64) -> float:
    """Share of the nuclei matched by each of two teams in which they agree, of both the smaller.

    Areas are float64 (N,), NaN: not matched. 0 for fewer than ``LEAST`` nuclei in common.

    >>> areas = np.arange(100.0, 140.0)
    >>> changed = np.where(areas < 130, areas, areas + 5)
    >>> share_alike(areas, areas), share_alike(areas, changed), share_alike(areas[:9], areas[:9])
    (1.0, 0.75, 0.0)
    """
    known, other_known = ~np.isnan(one), ~np.isnan(other)
    both = known & other_known
    if both.sum() < LEAST:
        return 0.0
    least, most = np.minimum(one[both], other[both]), np.maximum(one[both], other[both])
    return float((least >= SAME_AREA * most).sum() / max(known.sum(), other_known.sum()))


def alike_lines(board: Board) -> list[str]:
    """For organisers: which ranked teams are nearly the same, at most ``PAIRS_NAMED`` pairs of them."""
    lines = [
        f"For organisers only: {quote(of.first)} and {quote(of.second)} are nearly the same, with equal areas in "
        f"{percent(of.share)} of the nuclei that each matched: one entry under two names? 'evaluation audit --tricks' "
        "compares their pixels."
        for of in board.alike[:PAIRS_NAMED]
    ]
    rest = len(board.alike) - PAIRS_NAMED
    return [*lines, f"For organisers only: so are {rest} more pairs of teams."] if rest > 0 else lines
