"""The reference nuclei that each team matched, read from the files objects.csv, and which entries are alike in them.

Entries are alike if they share their errors, such as one entry under two names, or if they copy the reference. Good
teams agree because both agree with the reference. So only nuclei are compared that both teams matched, and that
at least one team outlined unlike the reference. The teams share such a nucleus if their areas are nearly equal, since
a moved nucleus keeps its area.

Honest teams share at most 0.40 of these nuclei (simulated fields of ``benchmarks.gaming``); copies with nuclei
moved by a pixel share 0.9 and more. A copy that is a pixel larger is not detected, and points are not compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.board.stored import read_objects, rows_with
from evaluation.board.team_scores import groups_of
from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.files.decoding.csv import numbers_of
from evaluation.files.results.documents import Value, number
from evaluation.findings import percent, quote, render_summary
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.metrics.segmentation import is_distance
from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.model.counts import MEASURES
from nuclei_metrics.ranking.stability import COMMON_SHARE, FEWEST_COMMON, CommonPairs, compare_on_common

NUCLEUS = ("case", "reference_class", "reference_id", "reference_area_px")

Nucleus = tuple[bytes, ...]  # the cells of ``NUCLEUS``


@dataclass(frozen=True, slots=True, eq=False)
class _MatchedNuclei:
    """What T teams matched under one rule: N reference nuclei that any of them matched, K measures of them.

    teams           in ascending order
    case            of each nucleus, and ``reference_area``, px, float64 (N,)
    matched         bool (T, N); a team has NaN for an unmatched nucleus
    area            float64 (T, N), of the predicted nucleus, px; NaN for points
    iou             float64 (T, N), with the reference nucleus; NaN if it was not measured
    values          float64 (K, T, N)
    without         teams without stored nuclei, and the reason
    """

    rule: str
    measures: tuple[str, ...]
    teams: tuple[str, ...]
    case: Sequence[bytes]
    reference_area: Float64
    matched: Bool
    area: Float64
    iou: Float64
    values: Float64
    without: Mapping[str, str]

    def outlines(self) -> dict[str, MatchedOutlines]:
        """Return how each team outlined the nuclei."""
        return {name: MatchedOutlines(*numbers) for name, *numbers in zip(self.teams, self.area, self.iou, strict=True)}


def read_matched_nuclei(
    challenge: Challenge, measures: tuple[str, ...], objects: Mapping[str, Path | bytes | None]
) -> _MatchedNuclei:
    """Read the matches of teams under the first matching rule of a challenge, which must exist.

    objects  the objects.csv of each team; None if missing

    The last of several rows for the same nucleus counts.
    """
    (rule, _), *_ = challenge.matching.passes
    cases = {case.name.encode() for case in challenge.cases}
    index_of: dict[Nucleus, int] = {}
    rows, without = {}, {}
    for name, path in sorted(objects.items()):
        try:
            rows[name] = _read_matched(path, rule, measures, cases, index_of)
        except InputFault as error:
            without[name] = render_summary(error.findings, intro="").strip()
    matched = np.zeros((len(rows), len(index_of)), np.bool_)
    numbers = np.full((2 + len(measures), *matched.shape), np.nan)
    for team, (nucleus, numbers_of_rows) in enumerate(rows.values()):
        matched[team, nucleus], numbers[:, team, nucleus] = True, numbers_of_rows
    case, *_, reference_area = zip(*index_of, strict=True) if index_of else [()] * len(NUCLEUS)
    area, iou, values = numbers[0], numbers[1], numbers[2:]
    areas = numbers_of(reference_area)
    return _MatchedNuclei(rule, measures, tuple(rows), case, areas, matched, area, iou, values, without)


def _read_matched(
    objects: Path | bytes | None, rule: str, measures: Sequence[str], cases: set[bytes], index_of: dict[Nucleus, int]
) -> tuple[Int64, Float64]:
    """Read the matched rows of a team: the index of each nucleus, int64 (M,), and area, IoU and measures, (2 + K, M).

    New nuclei get the next index. Raises InputFault, OSError.
    """
    if (table := read_objects(objects)) is None:
        raise refused("not-metrics", "'objects.csv'", got="not there")
    rows = table.take(np.flatnonzero(rows_with(table, "rule", rule) & rows_with(table, "outcome", "matched")))
    columns = [rows.cells(rows.need(name)) for name in NUCLEUS]
    if not cases.issuperset(columns[0]):
        raise refused("not-metrics", "'objects.csv'", got="of other cases")
    unknown = np.full(len(rows), np.nan)
    numbers = [
        unknown if (column := rows.find([name])) is None else numbers_of(rows.cells(column))
        for name in ("prediction_area_px", "iou")
    ]
    numbers += [numbers_of(rows.cells(rows.need(name))) for name in measures]
    nucleus = [index_of.setdefault(nucleus, len(index_of)) for nucleus in zip(*columns, strict=True)]
    return np.array(nucleus, np.int64), np.array(numbers)


# --- entries that are alike -------------------------------------------------------------------------------------------


SAME_AREA = 0.98
ALIKE = 0.6
FEWEST_COMPARED = 20  # nuclei to compare
COMPARED_UP_TO = 20_000
PAIRS_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class MatchedOutlines:
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
    reference  (team, share of its matched nuclei with exactly the pixels of the reference)
               others     the largest share among the other pairs; None without other pairs
    """

    pairs: tuple[tuple[str, str, float], ...] = ()
    reference: tuple[tuple[str, float], ...] = ()
    others: float | None = None

    def lines(self) -> list[str]:
        """Return lines about suspicious entries; at most ``PAIRS_NAMED`` pairs are named."""
        lines = [
            f"For organisers only: {quote(name)} has exactly the pixels of the reference in {percent(share)} of "
            "its matched nuclei: ask how they were made."
            for name, share in self.reference
        ]
        if self.pairs:
            rest = len(self.pairs) - PAIRS_NAMED
            shown = "; ".join(
                f"{quote(one)} and {quote(other)} share {percent(share)} of their outlines"
                for one, other, share in self.pairs[:PAIRS_NAMED]
            )
            others = "" if self.others is None else f"; other pairs: at most {percent(self.others)}"
            lines.append(
                f"For organisers only: {shown}{f'; and {rest:,} more pairs' if rest > 0 else ''} (equal areas, among "
                f"nuclei that both matched and at least one outlined unlike the reference{others}): ask both teams."
            )
        return lines


def compare_outlines(reference_area: Float64, teams: Mapping[str, MatchedOutlines]) -> Alike:
    """Find teams that share their errors, and copies of the reference. Areas are float64 (N,), px.

    A pair is reported if it shares ``ALIKE`` or more, and twice as much as the pairs outside the top tenth (at least
    one pair). If ordinary pairs share that much, no pair can share twice as much, and nothing is reported.
    """
    step = max(1, -(-len(reference_area) // COMPARED_UP_TO))
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
        if len(known) >= FEWEST_COMPARED and (very := float((known == 1).mean())) >= ALIKE:
            reference.append((name, very))
    return Alike(pairs, tuple(reference), others)


def share_of_errors(one: Float64, other: Float64, reference: Float64) -> float | None:
    """Return the share of common errors in which two teams have outlines of equal area.

    Areas are float64 (N,), NaN: not matched. None for fewer than ``FEWEST_COMPARED`` such nuclei.

    >>> reference = np.full(40, 100.0)
    >>> areas = np.where(np.arange(40) < 30, 110.0, reference)
    >>> share_of_errors(areas, areas, reference), share_of_errors(areas, reference, reference)
    (1.0, 0.0)
    >>> share_of_errors(reference, reference, reference) is None
    True
    """
    compared = ~(_same_area(one, reference) & _same_area(other, reference)) & ~np.isnan(one + other)
    number = int(compared.sum())
    return float((_same_area(one, other) & compared).sum() / number) if number >= FEWEST_COMPARED else None


def _same_area(one: Float64, other: Float64) -> Bool:
    return np.asarray(np.minimum(one, other) >= SAME_AREA * np.maximum(one, other))


# --- teams in pairs on the nuclei that both matched -------------------------------------------------------------------


COMPARED_FAMILIES = frozenset({"segmentation", "covered", "overall"})  # whose columns say what is compared


def compared_measures(challenge: Challenge, rules: RankingRules) -> tuple[str, ...]:
    """Choose the measures of the ranked columns; by default IoU or the first measure. Empty for points."""
    if not challenge.matching.rules or challenge.reference.are_points or challenge.submission.are_points:
        return ()
    measured = [name for name in MEASURES if name in challenge.metrics.measures and name != "area_ratio"]
    ranked = [path[-2] for column in rules.columns if COMPARED_FAMILIES & set(path := column.path.split("."))]
    return tuple(
        [name for name in measured if any(ranked_name.startswith(name) for ranked_name in ranked)] or measured[:1]
    )


class _ComparedMeasure(NamedTuple):
    """A measure of matched nuclei, and whether "higher" or "lower" is better."""

    name: str
    better: str


@dataclass(frozen=True, slots=True)
class _MatchingTeam:
    """How many reference nuclei a team matched, and in how many pairs it is ahead, by each measure."""

    name: str
    matched: int
    ahead: list[int]


class _TeamWithoutNuclei(NamedTuple):
    """A team without stored nuclei, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class _MeasureOfPair:
    """The difference, first team minus second, with its interval; NaN for pairs that are not compared.

    ahead  by the difference, to six decimals, or if the pair is not compared by the nuclei that each matched; None:
           neither
    """

    difference: Value
    low: Value
    high: Value
    ahead: str | None


@dataclass(frozen=True, slots=True)
class _PairOnCommon:
    """Two teams on their ``common`` nuclei, the higher-ranked team first.

    shares  of the matched nuclei of each team; NaN without matches
            by      "quality" if outlines are compared, otherwise "matched": by the number of matches
    """

    first: str
    second: str
    common: int
    shares: list[Value]
    by: str
    measures: list[_MeasureOfPair]


@dataclass(frozen=True, slots=True)
class CommonNuclei:
    """The table ``common_nuclei`` of leaderboard.json: pairs of teams, compared on their common nuclei.

    pairs  neighbours come first, then pairs two ranks apart, and so on
    """

    rule: str
    measures: list[_ComparedMeasure]
    teams: list[_MatchingTeam]
    without: list[_TeamWithoutNuclei]
    pairs: list[_PairOnCommon]
    least: int = FEWEST_COMMON
    share: float = COMMON_SHARE


def compare_teams_on_common(
    challenge: Challenge, rules: RankingRules, nuclei: _MatchedNuclei, order: Sequence[str]
) -> CommonNuclei:
    """Compare ranked teams, given in ``order`` from the first rank on, in pairs on the nuclei that both matched."""
    groups, teams, rank = groups_of(challenge), nuclei.teams, {name: index for index, name in enumerate(order)}
    group_of = {case.name.encode(): groups.index(case.group) for case in challenge.cases}
    group = np.array([group_of[case] for case in nuclei.case], np.int64)
    common = compare_on_common(nuclei.matched, nuclei.values, group, groups=len(groups))
    number_of = dict(zip(teams, common.matched.tolist(), strict=True))
    known = [(teams[one], teams[two]) for one, two in zip(common.first, common.second, strict=True)]
    pairs = [
        _pair_on_common(common, pair, names, number_of, nuclei.measures, is_turned=rank[names[0]] > rank[names[1]])
        for pair, names in enumerate(known)
        if rank.keys() >= {*names}
    ]
    pairs.sort(key=lambda pair: (rank[pair.second] - rank[pair.first], rank[pair.first]))
    ahead = Counter((index, measure.ahead) for pair in pairs for index, measure in enumerate(pair.measures))
    return CommonNuclei(
        nuclei.rule,
        [_ComparedMeasure(name, "lower" if is_distance(name) else "higher") for name in nuclei.measures],
        [
            _MatchingTeam(name, number_of[name], [ahead[index, name] for index in range(len(nuclei.measures))])
            for name in order
            if name in number_of
        ],
        [_TeamWithoutNuclei(name, reason) for name, reason in nuclei.without.items() if name in rank],
        pairs,
    )


def _pair_on_common(
    common: CommonPairs,
    pair: int,
    names: tuple[str, str],
    number_of: Mapping[str, int],
    measures: Sequence[str],
    *,
    is_turned: bool,
) -> _PairOnCommon:
    """Compare two teams on their common nuclei; ``is_turned``: the second of ``names`` ranks higher."""
    first, second = names[::-1] if is_turned else names
    both, is_compared, sign = int(common.common[pair]), bool(common.compared[pair]), -1 if is_turned else 1
    of_measures = []
    for index, name in enumerate(measures):
        low, high = sorted(sign * float(bound[pair, index]) for bound in (common.low, common.high))
        difference = sign * float(common.difference[pair, index])
        lead = (number(difference) or 0) * (-1 if is_distance(name) else 1)
        lead = lead if is_compared else number_of[first] - number_of[second]
        ahead = first if lead > 0 else second if lead < 0 else None
        of_measures.append(_MeasureOfPair(difference, low, high, ahead))
    shares = [both / number_of[name] if number_of[name] else math.nan for name in (first, second)]
    return _PairOnCommon(first, second, both, shares, "quality" if is_compared else "matched", of_measures)
