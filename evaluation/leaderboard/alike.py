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
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from evaluation.challenge import Challenge
from evaluation.decoding.csv import numbers_of
from evaluation.findings import quote
from evaluation.findings.errors import InputFault
from evaluation.leaderboard.attempts import team_of
from evaluation.leaderboard.common_nuclei import matched_rows
from evaluation.leaderboard.document import PAIRS_UP_TO, AlikeTeams, Board, percent
from evaluation.model import Float64

SAME_AREA, NEARLY_THE_SAME = 0.98, 0.6
LEAST = 20  # nuclei that both matched
PAIRS_NAMED = 10
NUCLEI_UP_TO = 20_000  # of the reference that are compared, those with the lowest check sums


def with_alike_teams(board: Board, challenge: Challenge, objects: Mapping[str, Path | None]) -> Board:
    """The board with the pairs of ranked teams that are nearly the same; attempts of one team may be.

    objects  the objects.csv of each team; teams without it, or without areas, are not compared
    """
    names = sorted(team.name for team in board.teams)
    if not challenge.matching.rules or len(names) > PAIRS_UP_TO:
        return board
    (rule, _), *_ = challenge.matching.passes
    found = {name: areas_of(path, rule) for name in names if (path := objects[name]) is not None and path.is_file()}
    nuclei = np.array(sorted({nucleus for of in found.values() for nucleus in of})[:NUCLEI_UP_TO], np.int64)
    areas = {name: np.array([of.get(nucleus, np.nan) for nucleus in nuclei.tolist()]) for name, of in found.items()}
    shares = {
        (one, other): share_alike(areas[one], areas[other])
        for one, other in combinations(areas, 2)
        if team_of(one) != team_of(other)
    }
    alike = (AlikeTeams(*pair, share) for pair, share in shares.items() if share >= NEARLY_THE_SAME)
    return replace(board, alike=tuple(sorted(alike, key=lambda of: -of.share)))


def areas_of(path: Path, rule: str) -> dict[int, float]:
    """Area of the nucleus with which a reference nucleus was matched, px, by the check sum of the latter.

    Empty for a table that cannot be read, and of points.
    """
    try:
        chosen, nuclei = matched_rows(path, rule)
        areas = numbers_of(chosen.cells(chosen.need("prediction_area_px")))
    except InputFault:
        return {}
    found = zip(map(zlib.crc32, map(b"\0".join, nuclei)), areas.tolist(), strict=True)
    return {nucleus: area for nucleus, area in found if area > 0}


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
