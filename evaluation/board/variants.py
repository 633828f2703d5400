"""Stability of the first rank over many variants of the rules, and the rules that change it.

Nothing is scored here. A variant has one value in each dimension (a varied rule); the effect of a dimension comes
from all pairs of variants that differ only in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.board.stored import Unranked
from evaluation.board.titles import NAMED_UP_TO, in_words, names_of
from evaluation.files.results import __version__
from evaluation.files.results.documents import csv_table, encoded, number
from evaluation.findings import counted, quote
from nuclei_metrics.model import Bool, Float64, Int64
from nuclei_metrics.model.arrays import blocks
from nuclei_metrics.ranking.stability import find_first, unranked_last

VARIANTS_AT_ONCE = 4096

Verdict = Literal["yes", "untested", "undecided", "shared", "no", "one-team", "nothing-varied", "no-teams"]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A varied rule and its values; ``published``: the value of the challenge, None if no variant has it."""

    name: str
    values: tuple[str, ...]
    published: str | None = None


@dataclass(frozen=True, slots=True)
class _DimensionEffect:
    """Effect of one dimension, from all pairs of variants that differ only in it.

    comparisons    number of pairs of variants
    first_changes  number of pairs with a different winner, or a different tie for first
    pairs_changed  mean share of the pairs of teams that change their order; None without a comparison
    """

    dimension: str
    comparisons: int
    first_changes: int = 0
    pairs_changed: float | None = None


class _PlaceCount(NamedTuple):
    """In how many variants a team has a rank."""

    place: float
    variants: int


@dataclass(frozen=True, slots=True)
class _TeamPlaces:
    """Where a team is in the variants.

    published    its rank in the published variant; None: not ranked there, or no variant is published
    places       the ranks it has, the best first
    first        number of variants in which it is first; ``first_alone``: without a tie
                 first_share  share of the first ranks, ties divided equally: all teams add up to 1
                              not_ranked   number of variants without a rank
    """

    name: str
    published: float | None
    places: tuple[_PlaceCount, ...]
    first: int
    first_alone: int
    first_share: float
    not_ranked: int


class _Share(NamedTuple):
    """Share of the first ranks of a team, ties divided equally."""

    team: str
    share: float


@dataclass(frozen=True, slots=True)
class _ValueShare:
    """Who is first in the variants with a value."""

    value: str
    variants: int
    first: tuple[_Share, ...]


@dataclass(frozen=True, slots=True)
class _Varied:
    """A dimension with who is first under each of its values."""

    name: str
    published: str | None
    values: tuple[_ValueShare, ...]


@dataclass(frozen=True, slots=True)
class PairDifference:
    """How two teams differ in a column under several conditions: as in Table 5 of "lessons from MoNuSAC 2020".

    conditions    number of conditions; all teams have different scores in each
    better        number of conditions in which the first team is better
    significant   number of conditions in which it is significantly better
    holds         better in all conditions, and significantly better in at least half
    """

    team: str
    other: str
    column: str
    conditions: int
    better: int
    significant: int
    holds: bool


class EntryScores(NamedTuple):
    """The scores of an entry in the columns of the ranking, float64 (K,)."""

    name: str
    values: Float64


class BorderScores(NamedTuple):
    """The scores of all entries with one rule for borders and one for matching: Table 1 of "lessons from MoNuSAC"."""

    border: str
    matching: str
    columns: tuple[str, ...]
    entries: tuple[EntryScores, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """A ranking under other rules.

    verdict, answer   can the first rank be defended, as a code and in words
    settings          int64 (V, D), the index of each variant's value in each dimension
    published         the index of the published variant, or None
    teams             (T,) with a rank in any variant
    position, combined  float64 (V, T); NaN if a team is not ranked
    identity          of the challenge, as documents have it; empty without a challenge
    pairs             of teams, in each column, if there are several conditions; the better team is named first
    borders           by border and matching rule; empty without colour maps
    notes             omissions, with reasons
    """

    verdict: Verdict
    answer: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    settings: Int64
    published: int | None
    teams: tuple[str, ...]
    position: Float64
    combined: Float64
    places: tuple[_TeamPlaces, ...]
    effects: tuple[_DimensionEffect, ...]
    varied: tuple[_Varied, ...]
    pairs: tuple[PairDifference, ...] = ()
    borders: tuple[BorderScores, ...] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    unranked: tuple[Unranked, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> int:
        return len(self.settings)

    def setting(self, variant: int) -> dict[str, str]:
        """The values of a variant by the name of the dimension."""
        pairs = zip(self.dimensions, self.settings[variant].tolist(), strict=True)
        return {dimension.name: dimension.values[value] for dimension, value in pairs}


def audit_positions(
    teams: Sequence[str],
    dimensions: Sequence[Dimension],
    settings: npt.ArrayLike,
    position: Float64,
    combined: Float64,
    *,
    published: int | None = None,
    better: Collection[tuple[str, str]] | None = None,
) -> Audit:
    """Audit the ranks of teams in several variants, float64 (V, T); NaN: a team is not ranked.

    settings   for each variant the index of its value in each dimension, (V, D)
    published  the variant that was published; None: the team that is first most often has the first rank
    better     pairs of teams in which the first is significantly better; None without a test

    Every two variants must differ in at least one dimension. Raises ValueError without variants, and for equal
    variants.

    >>> conditions, places = [Dimension("matching", ("strict", "loose"))], np.array([[1.0, 2.0], [2.0, 1.0]])
    >>> audit_positions(["A", "B"], conditions, [[0], [1]], places, places).verdict
    'no'
    """
    chosen = np.asarray(settings, np.int64).reshape(len(position), len(dimensions))
    if len(chosen) == 0 or len(np.unique(chosen, axis=0)) < len(chosen):
        raise ValueError("variants must differ from each other, and there must be one")
    first = find_first(position)
    places = _team_places(teams, position, first, published)
    verdict, answer = judge(places, first, published is not None, better)
    if published is not None:
        answer += _tell_changes(teams, dimensions, chosen, first, published)
    return Audit(
        verdict=verdict,
        answer=tuple(answer),
        dimensions=tuple(dimensions),
        settings=chosen,
        published=published,
        teams=tuple(teams),
        position=position,
        combined=combined,
        places=places,
        effects=tuple(
            _effect_of(dimension.name, _neighbours(chosen, index), position, first)
            for index, dimension in enumerate(dimensions)
        ),
        varied=tuple(
            _Varied(varied.name, varied.published, _value_shares(varied, chosen[:, index], teams, first))
            for index, varied in enumerate(dimensions)
        ),
    )


def compare_conditions(
    teams: Sequence[str], columns: Sequence[str], ahead: Int64, significant: Int64
) -> tuple[PairDifference, ...]:
    """Count for each pair of teams and column in how many of V conditions one is better, and significantly better.

    ahead, significant  (V, K, T, T): 1 if the team of the row is (significantly) better than the team of the column,
                        -1 if it is worse, otherwise 0

    Named first is the team that is better more often; pairs that are better equally often keep the order of the teams.
    """
    rows = []
    for first, second in combinations(range(len(teams)), 2):
        for index, column in enumerate(columns):
            better, worse = ((ahead[:, index, first, second] == sign).sum() for sign in (1, -1))
            one, other = (first, second) if better >= worse else (second, first)
            often, sure = (int((table[:, index, one, other] == 1).sum()) for table in (ahead, significant))
            holds = often == len(ahead) and 2 * sure >= len(ahead)
            rows.append(PairDifference(teams[one], teams[other], column, len(ahead), often, sure, holds))
    return tuple(rows)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _neighbours(settings: Int64, dimension: int) -> Int64:
    """List all pairs of variants that differ in one dimension only, int64 (P, 2).

    >>> _neighbours(np.array([[0, 0], [0, 1], [1, 0]]), 1).tolist()
    [[0, 1]]
    """
    _, alike = np.unique(np.delete(settings, dimension, axis=1), axis=0, return_inverse=True)
    order = np.argsort(alike.reshape(-1), kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(alike.reshape(-1)[order])) + 1)
    pairs = [pair for group in members for pair in combinations(group.tolist(), 2)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _effect_of(name: str, pairs: Int64, position: Float64, first: Bool) -> _DimensionEffect:
    """Measure the effect of a dimension in pairs of variants that differ only in it. Unranked teams are last."""
    if len(pairs) == 0:
        return _DimensionEffect(name, 0)
    changed: list[float] = []
    for part in blocks(len(pairs), VARIANTS_AT_ONCE):
        counts = unranked_last(*(position[pairs[part, side]] for side in (0, 1)))
        changed += (counts.changed() / np.maximum(counts.pairs, 1)).tolist()
    changes = (first[pairs[:, 0]] != first[pairs[:, 1]]).any(axis=1).sum()
    return _DimensionEffect(name, len(pairs), int(changes), math.fsum(changed) / len(pairs))


def _credits(first: Bool) -> Float64:
    """Divide each first rank equally among tied teams, float64 (V, T)."""
    return np.asarray(first / np.maximum(first.sum(axis=1), 1)[:, None])


def _value_shares(dimension: Dimension, value: Int64, teams: Sequence[str], first: Bool) -> tuple[_ValueShare, ...]:
    """Count who is first in the variants with each value of a dimension."""
    values = []
    for index, name in enumerate(dimension.values):
        if len(chosen := first[value == index]):
            shares = sorted(zip((-_credits(chosen).mean(axis=0)).tolist(), teams, strict=True))
            values.append(
                _ValueShare(name, len(chosen), tuple(_Share(team, -share) for share, team in shares if share))
            )
    return tuple(values)


def _team_places(
    teams: Sequence[str], position: Float64, first: Bool, published: int | None
) -> tuple[_TeamPlaces, ...]:
    """Count the ranks of every team. Teams are in published order, otherwise by how often they are first."""
    rows = []
    alone, credit = first & (first.sum(axis=1) == 1)[:, None], _credits(first)
    for team, name in enumerate(teams):
        places = Counter(position[~np.isnan(position[:, team]), team].tolist())
        place = math.nan if published is None else float(position[published, team])
        rows.append(
            _TeamPlaces(
                name=name,
                published=None if math.isnan(place) else place,
                places=tuple(_PlaceCount(*count) for count in sorted(places.items())),
                first=int(first[:, team].sum()),
                first_alone=int(alone[:, team].sum()),
                first_share=math.fsum(credit[:, team].tolist()) / len(position),
                not_ranked=int(np.isnan(position[:, team]).sum()),
            )
        )

    def standing(team: _TeamPlaces) -> tuple[float, int, float, str]:
        best = team.places[0][0] if team.places else math.inf
        return math.inf if team.published is None else team.published, -team.first, best, team.name

    return tuple(sorted(rows, key=standing))


# --- words ------------------------------------------------------------------------------------------------------------


def judge(
    places: Sequence[_TeamPlaces], first: Bool, is_published: bool, better: Collection[tuple[str, str]] | None
) -> tuple[Verdict, list[str]]:
    """Judge if the first rank can be defended, as a code and in sentences. ``better``: as in ``audit_positions``."""
    variants, of_variants = len(first), counted(len(first), "variant")
    ranked = [team for team in places if team.places]
    if not ranked or (is_published and ranked[0].published is None):
        by = " by the published rules" * bool(ranked)
        return "no-teams", [f"No team is ranked{by}, so that there is no first rank to defend."]
    if len(ranked) == 1:
        return "one-team", [f"{quote(ranked[0].name, 40)} is the only team, so its first rank means nothing."]
    best = ranked[0]
    champions = [
        team for team in ranked if (team.published == best.published if is_published else team.first == best.first)
    ]
    names = names_of([team.name for team in champions])
    if variants == 1:
        return "nothing-varied", [f"Cannot tell whether the first rank of {names} can be defended: no rule was varied."]
    others = sorted((team for team in ranked if team.first and team not in champions), key=lambda t: (-t.first, t.name))
    also = [_also_first(team, variants) for team in others[:NAMED_UP_TO]]
    if rest := len(others) - len(also):
        also.append(f"So {'is' if rest == 1 else 'are'} {counted(rest, 'more team')} in some variants.")
    start = f"The first rank of {names}"
    if len(champions) > 1:
        each = [_also_first(team, variants) for team in champions]
        always = all(team.first == variants for team in champions) and not others
        is_shared = "share it in all variants" if always else "share it" if is_published else "are first equally often"
        verdict: Verdict = "shared" if always else "no"
        return verdict, [f"The first rank cannot be defended by one team: {names} {is_shared}.", *each, *also]
    if best.first < variants:
        words = f"{start} cannot be defended: it is first in {best.first:,} of {of_variants}."
        nobody = int((~first.any(axis=1)).sum())
        return "no", [words, *also, *([f"Nobody is ranked in {nobody:,} of {variants:,}."] if nobody else [])]
    if best.first_alone < variants:
        shared = f"it is first in all {of_variants}, but shares it in {variants - best.first_alone:,}."
        return "shared", [f"{start} cannot be defended alone: {shared}", *also]
    held = f"{start} is stable under all tested rules: it is first in {variants:,} of {of_variants}."
    if better is None:
        return "untested", [held, "Stability with other patients is unknown: no test is possible."]
    if alike := [team.name for team in ranked if team is not best and (best.name, team.name) not in better]:
        return "undecided", [held, f"No column shows it significantly better than {names_of(alike, 'or')}."]
    return "yes", [held, "It is significantly better than every other team in some column: it can be defended."]


def _also_first(team: _TeamPlaces, variants: int) -> str:
    shared = f" (shared in {team.first - team.first_alone:,})" if team.first > team.first_alone else ""
    return f"{quote(team.name, 40)} is first in {team.first:,}{shared} of {variants:,}."


def _tell_changes(
    teams: Sequence[str], dimensions: Sequence[Dimension], settings: Int64, first: Bool, published: int
) -> list[str]:
    """Return the single changes of the published rules that change the winner."""
    is_own = settings == settings[published]
    single = np.flatnonzero(is_own.sum(axis=1) == len(dimensions) - 1)
    changed = single[(first[single] != first[published]).any(axis=1)]
    if not len(changed):
        return []
    each = []
    for row in changed.tolist():
        index = int(np.flatnonzero(~is_own[row])[0])
        names = [name for name, is_in in zip(teams, first[row], strict=True) if is_in]
        change = f"{dimensions[index].name} {dimensions[index].values[settings[row, index]]}"
        each.append(f"{change} ({names_of(names) if names else 'nobody'})")
    return [
        f"{len(changed):,} of {len(single):,} single changes of the rules give another first rank: {in_words(each)}."
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def audit_document(audit: Audit) -> dict[str, Any]:
    """Create the content of audit.json. Names of teams and values of rules are values, never keys."""
    return encoded(  # type: ignore[no-any-return]
        {
            "first_place": {"defended": audit.verdict, "answer": audit.answer, "variants": audit.variants},
            "challenge": audit.identity or None,
            "software": {"version": __version__},
            "dimensions": audit.varied,
            "effects": audit.effects,
            "teams": audit.places,
            "pairs": audit.pairs,
            "borders": audit.borders,
            "not_ranked": [{"name": row.name, "code": row.code, "reason": row.reason} for row in audit.unranked],
            "notes": audit.notes,
        }
    )


def audit_csv(audit: Audit) -> str:
    """Write the text of audit.csv: a row for each variant and team."""
    rows = []
    names = [dimension.name for dimension in audit.dimensions]
    for index in range(audit.variants):
        head = [index + 1, *audit.setting(index).values(), "yes" if index == audit.published else ""]
        for team, name in enumerate(audit.teams):
            places = (audit.position[index, team], audit.combined[index, team])
            rows.append([*head, name, *(number(float(value)) for value in places)])
    return csv_table(["variant", *names, "published", "team", "position", "combined"], rows)
