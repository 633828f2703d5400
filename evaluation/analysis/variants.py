"""The audit of a ranking under other rules, from the places of teams in many variants.

Nothing is scored here. A variant has one value in each dimension (a rule that is varied); what a dimension does is read
off from all pairs of variants that differ in it only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from evaluation.analysis.audit_document import (
    ORDERS_UP_TO,
    Agreement,
    Audit,
    Difference,
    Dimension,
    Effect,
    Swap,
    TeamTrust,
    Verdict,
)
from evaluation.findings import counted, quote
from evaluation.leaderboard.team_scores import Unranked
from evaluation.model import Bool, Float64, Int64, Ties
from evaluation.ranking.kendall import count_pairs, kendall_tau
from evaluation.ranking.ranks import ROUNDING, rank_values

APART = {  # dimensions that are no rules, and what they do
    "predictions": "With the predictions of all teams changed by one pixel",
    "patients": "Without one of the patients",
}
NAMED_UP_TO = 4  # patients without whom the first place changes, values in a condition
PAIRED_UP_TO = 50  # teams, the first of the published ranking: of more, pairs that swap are too many to be read
ALL_ORDERS_UP_TO = 2000  # different orders that are all compared with each other
PAIRS_AT_ONCE = 4096


def audit_scores(
    teams: Sequence[str],
    dimensions: Sequence[Dimension],
    settings: npt.ArrayLike,
    scores: Float64,
    *,
    higher_is_better: bool = True,
    ties: Ties = "min",
    published: int | None = None,
) -> Audit:
    """The audit of scores that are known under several conditions, float64 (V, T); NaN: a team has none.

    settings   for each variant the index of its value in each dimension, (V, D)
    published  the variant that was published; None: the first place is that of the team which is first most often

    >>> conditions = [Dimension("matching", ("strict", "loose"))]
    >>> audit_scores(["A", "B"], conditions, [[0], [1]], np.array([[0.6, 0.5], [0.6, 0.7]])).verdict
    'no'
    """
    position = rank_values(scores, higher_is_better=higher_is_better, ties=ties, tolerance=ROUNDING)
    return audit_positions(teams, dimensions, settings, position, position, published=published)


def audit_positions(
    teams: Sequence[str],
    dimensions: Sequence[Dimension],
    settings: npt.ArrayLike,
    position: Float64,
    combined: Float64,
    *,
    published: int | None = None,
    identity: Mapping[str, str] | None = None,
    differences: Sequence[Difference] = (),
    unranked: Sequence[Unranked] = (),
    notes: Sequence[str] = (),
    tested: bool = False,
) -> Audit:
    """The audit of the places of teams in several variants, float64 (V, T); NaN: a team is not ranked.

    settings and published as in ``audit_scores``. tested: whether differences between teams could be tested at all.
    Dimensions ``predictions`` (what is done to them) and ``patients`` (who is left out) are no rules, and count apart.
    Every variant must differ from every other in a dimension at least. Raises ValueError for none, and for two that
    are the same.
    """
    chosen = np.asarray(settings, np.int64).reshape(len(position), len(dimensions))
    if len(chosen) == 0 or len(np.unique(chosen, axis=0)) < len(chosen):
        raise ValueError("variants must differ from each other, and there must be one")
    dimensions = tuple(dimensions)
    finite = np.where(np.isnan(position), np.inf, position)
    distinct, inverse = np.unique(finite, axis=0, return_inverse=True)
    orders, order_of = np.where(np.isinf(distinct), np.nan, distinct), inverse.reshape(-1).astype(np.int64)
    by_rules = as_published(dimensions, chosen, APART, published)
    pairs = [neighbours(chosen, index) for index in range(len(dimensions))]
    pairs = [
        of if dimension.name in APART else of[by_rules[of].all(axis=1)]
        for dimension, of in zip(dimensions, pairs, strict=True)
    ]
    first = is_first(position)
    to_published = np.full(len(position), np.nan)
    if published is not None:
        to_published = kendall_tau(orders[order_of[published]], orders)[order_of]
    own = None if published is None else int(by_rules[:published].sum())
    trust = team_trust(teams, dimensions, chosen[by_rules], position[by_rules], first[by_rules], own)
    better = {(of.better, of.worse) for of in differences if of.significant > of.opposite} if tested else None
    verdict, answer = judge(trust, first[by_rules], own, better)
    return Audit(
        identity=dict(identity or {}),
        verdict=verdict,
        answer=tuple(answer),
        robustness=tuple(tell_robustness(teams, dimensions, chosen, first, published or 0)),
        by_rules=by_rules,
        dimensions=dimensions,
        settings=chosen,
        published=published,
        teams=tuple(teams),
        position=position,
        combined=combined,
        order_of=order_of,
        orders=orders,
        to_published=to_published,
        agreement=agree(orders, order_of[by_rules]),
        effects=tuple(
            effect_of(dimension.name, of_pairs, orders, order_of, first)
            for dimension, of_pairs in zip(dimensions, pairs, strict=True)
        ),
        trust=trust,
        swaps=find_swaps(
            teams, dimensions, chosen[by_rules], orders, order_of[by_rules], inside_of(pairs, by_rules), own
        ),
        differences=tuple(differences),
        unranked=tuple(unranked),
        notes=tuple(notes),
    )


# --- variants and places ----------------------------------------------------------------------------------------------


def neighbours(settings: Int64, dimension: int) -> Int64:
    """All pairs of variants that differ in one dimension only, int64 (P, 2).

    >>> neighbours(np.array([[0, 0], [0, 1], [1, 0]]), 1).tolist()
    [[0, 1]]
    """
    _, alike = np.unique(np.delete(settings, dimension, axis=1), axis=0, return_inverse=True)
    order = np.argsort(alike.reshape(-1), kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(alike.reshape(-1)[order])) + 1)
    pairs = [pair for group in members for pair in combinations(group.tolist(), 2)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def as_published(dimensions: Sequence[Dimension], settings: Int64, names: Iterable[str], published: int | None) -> Bool:
    """The variants in which these dimensions have the published value (that of the first variant), bool (V,)."""
    varied = [index for index, dimension in enumerate(dimensions) if dimension.name in names]
    return np.asarray((settings[:, varied] == settings[published or 0, varied]).all(axis=1))


def inside_of(pairs: Sequence[Int64], kept: Bool) -> list[Int64]:
    """Those pairs of variants of which both are kept, by their indices among the kept ones."""
    index = np.cumsum(kept) - 1
    return [index[of[kept[of].all(axis=1)]] for of in pairs]


def is_first(position: Float64) -> Bool:
    """Whether a team is first in a variant, alone or with others, bool (V, T)."""
    if position.shape[1] == 0:
        return np.zeros(position.shape, np.bool_)
    finite = np.where(np.isnan(position), np.inf, position)
    return np.asarray((finite == finite.min(axis=1, keepdims=True)) & np.isfinite(finite))


def agree(orders: Float64, order_of: Int64) -> Agreement:
    """Kendall's tau-b between all pairs of variants, each pair once."""
    distinct, order_of = np.unique(order_of, return_inverse=True)
    orders = orders[distinct]
    count = np.bincount(order_of.reshape(-1)).astype(np.float64)
    if len(orders) > ALL_ORDERS_UP_TO:
        return Agreement(None, None, None, None)
    matrix = np.stack([kendall_tau(row, orders) for row in orders])
    times = np.outer(count, count)
    np.fill_diagonal(times, count * (count - 1))
    known = ~np.isnan(matrix) & (times > 0)
    total = times[known].sum()
    few = matrix if len(orders) <= ORDERS_UP_TO else None
    if total == 0:
        return Agreement(None, None, 0.0 if times.sum() else None, few)
    mean = math.fsum((matrix[known] * times[known]).tolist()) / float(total)
    return Agreement(mean, float(matrix[known].min()), float(total / times.sum()), few)


def effect_of(name: str, pairs: Int64, orders: Float64, order_of: Int64, first: Bool) -> Effect:
    """What a dimension does alone."""
    if len(pairs) == 0:
        return Effect(name, 0, None, None, None, 0)
    of_orders, times = np.unique(np.sort(order_of[pairs], axis=1), axis=0, return_counts=True)
    last = np.where(np.isnan(orders), np.inf, orders)
    taus, changed = [], []
    for part in np.split(of_orders, range(PAIRS_AT_ONCE, len(of_orders), PAIRS_AT_ONCE)):
        taus.append(kendall_tau(orders[part[:, 0]], orders[part[:, 1]]))
        counts = count_pairs(last[part[:, 0]], last[part[:, 1]])
        changed.append(counts.changed() / np.maximum(counts.pairs, 1))
    tau = np.concatenate(taus)
    known = ~np.isnan(tau)
    same = times[of_orders[:, 0] == of_orders[:, 1]].sum() / len(pairs)
    changes = (first[pairs[:, 0]] != first[pairs[:, 1]]).any(axis=1).sum()
    mean = math.fsum((tau[known] * times[known]).tolist()) / float(times[known].sum()) if known.any() else None
    low = float(tau[known].min()) if known.any() else None
    otherwise = math.fsum((np.concatenate(changed) * times).tolist()) / len(pairs)
    return Effect(name, len(pairs), mean, low, float(same), int(changes), int(times[~known].sum()), otherwise)


# --- the first place --------------------------------------------------------------------------------------------------


def team_trust(
    teams: Sequence[str],
    dimensions: Sequence[Dimension],
    settings: Int64,
    position: Float64,
    first: Bool,
    published: int | None,
) -> tuple[TeamTrust, ...]:
    """Where every team stands, from the first place to the last: as published, else by how often it is first."""
    sharing = first.sum(axis=1)[:, None]
    alone, credit = first & (sharing == 1), first / np.maximum(sharing, 1)
    found = []
    for team, name in enumerate(teams):
        places = position[:, team][~np.isnan(position[:, team])]
        place = np.nan if published is None else position[published, team]
        times = int(first[:, team].sum())
        found.append(
            TeamTrust(
                name=name,
                published=None if np.isnan(place) else float(place),
                low=float(places.min()) if len(places) else None,
                high=float(places.max()) if len(places) else None,
                first=times,
                alone=int(alone[:, team].sum()),
                credit=float(credit[:, team].sum()),
                unranked=len(position) - len(places),
                when=tell_variants(dimensions, settings, first[:, team]) if 0 < times < len(position) else "",
            )
        )
    return tuple(sorted(found, key=standing))


def standing(team: TeamTrust) -> tuple[float, int, float, str]:
    place = np.inf if team.published is None else team.published
    return place, -team.first, np.inf if team.low is None else team.low, team.name


def judge(
    trust: Sequence[TeamTrust], first: Bool, published: int | None, better: AbstractSet[tuple[str, str]] | None
) -> tuple[Verdict, list[str]]:
    """Can the first place be defended? The answer as a code and in sentences.

    better  the teams of which a test finds the first one better than the second in some column; None: nothing is tested
    """
    variants = len(first)
    ranked = [team for team in trust if team.low is not None]
    if not ranked:
        return "no-teams", ["No team is ranked, so that there is no first place to defend."]
    if len(ranked) == 1:
        return "one-team", [f"{quote(ranked[0].name, 40)} is the only team: its first place says nothing."]
    lowest = min((team.published for team in ranked if team.published is not None), default=None)
    most = max(team.first for team in ranked)
    champions = [t for t in ranked if (t.first == most if published is None else t.published == lowest is not None)]
    if not champions:
        return "no-teams", ["No team is ranked by the published rules, so that there is no first place to defend."]
    names = " and ".join(quote(team.name, 40) for team in champions)
    if variants == 1:
        known = f"Whether the first place of {names} can be defended is not known: nothing is varied."
        return "nothing-varied", [known]
    others = sorted((team for team in ranked if team.first and team not in champions), key=lambda t: (-t.first, t.name))
    together = [also_first(team, variants) for team in others]
    if len(champions) > 1:
        each = [
            f"{quote(t.name, 40)} is first in {t.first:,} of {variants:,}, alone in {t.alone:,}." for t in champions
        ]
        always = all(team.first == variants for team in champions) and not others
        what = (
            "share it in all variants"
            if always
            else "share it as published"
            if published is not None
            else "are first equally often"
        )
        verdict: Verdict = "shared" if always else "no"
        return verdict, [f"The first place cannot be defended by one team: {names} {what}.", *each, *few(together)]
    champion = champions[0]
    start = f"The first place of {names}"
    if champion.alone == variants:
        held = f"it is first in {variants:,} of {variants:,} variants."
        if better is None:
            unknown = "Whether it would hold with other patients is not known: no difference can be tested."
            return "untested", [f"{start} holds under all rules: {held}", unknown]
        alike = [team.name for team in ranked if team is not champion and (champion.name, team.name) not in better]
        if alike:
            shown = ", ".join(quote(name, 40) for name in alike[:NAMED_UP_TO])
            rest = f" and {len(alike) - NAMED_UP_TO:,} more" if len(alike) > NAMED_UP_TO else ""
            unknown = (
                f"Whether it would hold with other patients is not shown: no test finds it better than {shown}{rest}."
            )
            return "undecided", [f"{start} holds under all rules: {held}", unknown]
        return "yes", [f"{start} can be defended: {held}"]
    if champion.first == variants:
        shared = variants - champion.alone
        words = (
            f"{start} cannot be defended alone: it is first in all {variants:,} variants, but shares it in {shared:,}."
        )
        return "shared", [words, *few(together)]
    words = f"{start} cannot be defended: it is first in {champion.first:,} of {variants:,} variants."
    nobody = int((~first.any(axis=1)).sum())
    last = [f"Nobody is ranked in {nobody:,} of {variants:,}."] if nobody else []
    return "no", [words, *few(together), *last]


def also_first(team: TeamTrust, variants: int) -> str:
    shared = f" (shared in {team.first - team.alone:,})" if team.first > team.alone else ""
    when = f", {team.when}" if team.when else ""
    return f"{quote(team.name, 40)} is first in {team.first:,}{shared} of {variants:,}{when}."


def tell_robustness(
    teams: Sequence[str], dimensions: Sequence[Dimension], settings: Int64, first: Bool, published: int
) -> list[str]:
    """What each dimension that is no rule does to the first place alone; and the patients that change it."""
    words = []
    for index, dimension in enumerate(dimensions):
        others = [name for name in APART if name != dimension.name]
        varied = as_published(dimensions, settings, others, published) & (
            settings[:, index] != settings[published, index]
        )
        own = first[as_published(dimensions, settings, APART, published)]
        if dimension.name not in APART or not varied.any() or not own.any():
            continue
        changed = (first[varied] != first[published]).any(axis=1)
        number, same = len(changed), int((~changed).sum())
        words.append(
            f"{APART[dimension.name]} the first place is as published in {same:,} of {number:,} variants. "
            "This is no choice of rules, and counts apart."
        )
        if dimension.name == "patients" and changed.any():
            at = np.flatnonzero(varied)[changed][:NAMED_UP_TO]
            each = [
                f"{dimension.values[settings[row, index]]}: {first_names(teams, first[row])}" for row in at.tolist()
            ]
            rest = [f"{len(changed.nonzero()[0]) - len(at):,} more"] if changed.sum() > len(at) else []
            words.append(f"Another first place {', '.join([*each, *rest])}.")
    return words


def first_names(teams: Sequence[str], first: Bool) -> str:
    return " and ".join(quote(name, 40) for name, is_in in zip(teams, first, strict=True) if is_in) or "nobody"


def few(lines: list[str], limit: int = 3) -> list[str]:
    rest = len(lines) - limit
    verb = "is" if rest == 1 else "are"
    return lines if rest <= 0 else [*lines[:limit], f"So {verb} {counted(rest, 'more team')} in some variants."]


def tell_variants(dimensions: Sequence[Dimension], settings: Int64, chosen: Bool) -> str:
    """Which variants are chosen (some, not all), as a condition on their values as narrow as single values can tell.

    >>> rules = [Dimension("matching", ("strict", "loose")), Dimension("unit", ("pooled", "group", "case"))]
    >>> settings = np.array([[m, u] for m in range(2) for u in range(3)])
    >>> tell_variants(rules, settings, settings[:, 0] == 1)
    'whenever matching is loose'
    >>> tell_variants(rules, settings, (settings == [1, 2]).all(axis=1))
    'whenever matching is loose and unit is case'
    >>> tell_variants(rules, settings, settings.sum(axis=1) > 1)
    'only if unit is not pooled (3 of 4)'
    """
    conditions, inside = [], np.ones(len(settings), np.bool_)
    for index, dimension in enumerate(dimensions):
        there, taken = np.unique(settings[:, index]), np.unique(settings[chosen, index])
        if len(taken) < len(there):
            conditions.append(condition(dimension, there, taken))
            inside &= np.isin(settings[:, index], taken)
    times, of = int(chosen.sum()), int(inside.sum())
    if conditions:
        words = " and ".join(conditions)
        return f"whenever {words}" if times == of else f"only if {words} ({times:,} of {of:,})"
    shares = []
    for index in range(len(dimensions)):
        for value in np.unique(settings[:, index]).tolist():
            members = settings[:, index] == value
            if not members.all():
                inside_it, size = int((chosen & members).sum()), int(members.sum())
                shares.append((-inside_it / size, -inside_it, index, value, size))
    if not shares:
        return ""
    _, minus, index, value, size = min(shares)
    return f"most often if {dimensions[index].name} is {dimensions[index].values[value]} ({-minus:,} of {size:,})"


def condition(dimension: Dimension, there: Int64, taken: Int64) -> str:
    left = [dimension.values[value] for value in there.tolist() if value not in taken]
    if len(left) == 1 and len(there) > 2:
        return f"{dimension.name} is not {left[0]}"
    if len(taken) > NAMED_UP_TO:
        return f"{dimension.name} is one of {len(taken):,} values"
    return f"{dimension.name} is {' or '.join(dimension.values[value] for value in taken.tolist())}"


# --- teams that swap --------------------------------------------------------------------------------------------------


def find_swaps(
    teams: Sequence[str],
    dimensions: Sequence[Dimension],
    settings: Int64,
    orders: Float64,
    order_of: Int64,
    pairs: Sequence[Int64],
    published: int | None,
) -> tuple[Swap, ...]:
    """Pairs of teams that stand in both orders, those that are turned most often first."""
    if published is None:
        start = np.argsort(np.nanmean(np.where(np.isnan(orders), len(teams), orders)[order_of], axis=0), kind="stable")
    else:
        start = np.argsort(np.where(np.isnan(orders), np.inf, orders)[order_of[published]], kind="stable")
    kept = start[:PAIRED_UP_TO]
    left, right = (kept[index] for index in np.triu_indices(len(kept), 1))
    ahead = (orders[:, left] < orders[:, right]).astype(np.float32)  # (O, pairs of teams)
    behind = (orders[:, left] > orders[:, right]).astype(np.float32)
    tied = orders[:, left] == orders[:, right]
    count = np.bincount(order_of, minlength=len(orders))
    times_ahead, times_behind = count @ ahead, count @ behind
    shares = [turned_share(of_pairs, order_of, ahead, behind) for of_pairs in pairs]
    found = []
    for number in np.flatnonzero((times_ahead > 0) & (times_behind > 0)).tolist():
        names = teams[left[number]], teams[right[number]]
        is_published = published is not None and bool(ahead[order_of[published], number])
        is_turned = published is not None and bool(behind[order_of[published], number])
        if is_turned or (not is_published and times_ahead[number] < times_behind[number]):
            names, turned = names[::-1], ahead[:, number] > 0
        else:
            turned = behind[:, number] > 0
        by_rule = tuple(
            (dimension.name, float(share[number]))
            for dimension, share, of_pairs in zip(dimensions, shares, pairs, strict=True)
            if len(of_pairs)
        )
        rule, largest = max(by_rule, key=lambda item: item[1], default=("", 0.0))
        found.append(
            Swap(
                ahead=names[0],
                behind=names[1],
                turned=int(turned[order_of].sum()),
                tied=int(tied[order_of, number].sum()),
                rule=rule if largest > 0 else None,
                share_by_rule=by_rule,
                turned_when=tell_variants(dimensions, settings, turned[order_of]),
            )
        )
    return tuple(sorted(found, key=lambda swap: (-swap.turned, swap.ahead, swap.behind)))


def turned_share(
    pairs: Int64, order_of: Int64, ahead: npt.NDArray[np.float32], behind: npt.NDArray[np.float32]
) -> Float64:
    """In which share of the comparisons of a dimension each pair of teams is turned, float64 (pairs of teams,)."""
    if len(pairs) == 0:
        return np.zeros(ahead.shape[1])
    one, other = order_of[pairs[:, 0]], order_of[pairs[:, 1]]
    weights = csr_array((np.ones(len(pairs)), (one, other)), shape=(len(ahead), len(ahead)))
    turned = (ahead * (weights @ behind)).sum(axis=0) + (behind * (weights @ ahead)).sum(axis=0)
    return np.asarray(turned / len(pairs), np.float64)


# --- significant differences ------------------------------------------------------------------------------------------


def find_differences(
    columns: Sequence[str], teams: Sequence[str], tables: Int64, wins: Int64, same: Int64
) -> tuple[Difference, ...]:
    """The differences between teams that are significant in any variant of the scores.

    tables  int64 (K,), in how many variants a test could be made
    wins    int64 (K, T, T), in how many of them the team of the row is significantly better
    same    int64 (K, T, T), in how many of them its value is the better one

    >>> none = np.zeros((1, 2, 2), np.int64)
    >>> wins, same = none + [[0, 3], [0, 0]], none + [[0, 4], [0, 0]]
    >>> found, = find_differences(["pq"], ["A", "B"], np.array([4]), wins, same)
    >>> found.better, found.significant, found.survives, found.is_robust
    ('A', 3, False, True)
    """
    found = []
    for index, column in enumerate(columns):
        times, direction = wins[index], same[index]
        more = (times > times.T) | ((times == times.T) & (direction > direction.T))
        equal = np.triu((times == times.T) & (direction == direction.T), 1)
        for row, other in np.argwhere((more | equal) & (times + times.T > 0)).tolist():
            found.append(
                Difference(
                    column=column,
                    better=teams[row],
                    worse=teams[other],
                    tables=int(tables[index]),
                    significant=int(times[row, other]),
                    opposite=int(times[other, row]),
                    same_direction=int(direction[row, other]),
                )
            )
    order = {name: index for index, name in enumerate(columns)}
    return tuple(sorted(found, key=lambda d: (order[d.column], -d.significant, -d.same_direction, d.better, d.worse)))
