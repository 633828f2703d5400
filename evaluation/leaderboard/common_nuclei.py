"""The second table of a leaderboard: teams in pairs, on the reference nuclei that both matched, from objects.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.leaderboard.matched_nuclei import MatchedNuclei
from evaluation.leaderboard.team_scores import groups_of
from evaluation.metrics.every_nucleus import DISTANCES, SCORES
from evaluation.ranking.common_nuclei import COMMON_SHARE, FEWEST_COMMON, CommonPairs, compare_on_common
from evaluation.results.documents import number

FAMILIES = frozenset({"segmentation", "covered", "overall"})  # whose columns say what is compared


def compared_measures(challenge: Challenge, rules: RankingRules) -> tuple[str, ...]:
    """What the columns of segmentation are made of; without any, IoU or the first measured. None of points."""
    if not challenge.matching.rules or challenge.reference.are_points or challenge.submission.are_points:
        return ()
    measured = [name for name in (*SCORES, *DISTANCES) if name in challenge.metrics.measures]
    ranked = [path[-2] for column in rules.columns if FAMILIES & set(path := column.path.split("."))]
    return tuple(
        [name for name in measured if any(ranked_name.startswith(name) for ranked_name in ranked)] or measured[:1]
    )


def common_entry(
    challenge: Challenge, rules: RankingRules, nuclei: MatchedNuclei, order: Sequence[str]
) -> dict[str, Any]:
    """The table ``common_nuclei`` of leaderboard.json: teams in pairs, by what was measured on the nuclei of both.

    order   the ranked teams, the first rank first

    Neighbours come first, then pairs two places apart, and so on; in each pair the team that stands higher comes first.
    """
    groups, teams, rank = groups_of(challenge), list(nuclei.teams), {name: index for index, name in enumerate(order)}
    group_of = {case.name.encode(): groups.index(case.group) for case in challenge.cases}
    group = np.array([group_of[nucleus[0]] for nucleus in nuclei.nuclei], np.int64)
    matched = np.zeros((len(teams), len(nuclei.nuclei)), np.bool_)
    values = np.zeros((len(nuclei.measures), *matched.shape))
    for index, team in enumerate(nuclei.teams.values()):
        matched[index, team.nucleus] = True
        values[:, index, team.nucleus] = team.values.T
    pairs = compare_on_common(matched, values, group, groups=len(groups), samples=rules.samples, seed=rules.seed)
    known = [(teams[one], teams[two]) for one, two in zip(pairs.first, pairs.second, strict=True)]
    entries = [
        pair_entry(pairs, pair, teams, nuclei.measures, is_turned=rank[one] > rank[two])
        for pair, (one, two) in enumerate(known)
        if one in rank and two in rank
    ]
    entries.sort(key=lambda entry: (rank[entry["second"]] - rank[entry["first"]], rank[entry["first"]]))
    ahead = Counter((index, measure["ahead"]) for entry in entries for index, measure in enumerate(entry["measures"]))
    number_of = dict(zip(teams, pairs.matched.tolist(), strict=True))
    return {
        "rule": nuclei.rule,
        "least": FEWEST_COMMON,
        "share": COMMON_SHARE,
        "measures": [{"name": name, "better": "higher" if name in SCORES else "lower"} for name in nuclei.measures],
        "teams": [
            {"name": name, "matched": number_of[name], "ahead": [ahead[k, name] for k in range(len(nuclei.measures))]}
            for name in order
            if name in number_of
        ],
        "without": [{"name": name, "reason": reason} for name, reason in nuclei.without.items() if name in rank],
        "pairs": entries,
    }


def pair_entry(
    common: CommonPairs, pair: int, teams: Sequence[str], kinds: Sequence[str], *, is_turned: bool
) -> dict[str, Any]:
    """Two teams on their common nuclei; differences are those of the first less the second.

    ahead  in each measure: by the difference, six decimals, or if the pair is not compared by the nuclei that each
           matched; None: neither
    """
    sides = [int(common.first[pair]), int(common.second[pair])][:: -1 if is_turned else 1]
    names, matched = [teams[side] for side in sides], [int(common.matched[side]) for side in sides]
    both, is_compared = int(common.common[pair]), bool(common.compared[pair])
    sign = -1 if is_turned else 1
    measures = []
    for kind, name in enumerate(kinds):
        ends = sorted(sign * float(bound[pair, kind]) for bound in (common.low, common.high))
        difference, low, high = (number(bound) for bound in (sign * float(common.difference[pair, kind]), *ends))
        lead = matched[0] - matched[1] if not is_compared else (difference or 0) * (1 if name in SCORES else -1)
        ahead = names[0] if lead > 0 else names[1] if lead < 0 else None
        measures.append({"difference": difference, "low": low, "high": high, "ahead": ahead})
    return {
        "first": names[0],
        "second": names[1],
        "common": both,
        "shares": [number(both / bound) if bound else None for bound in matched],
        "by": "quality" if is_compared else "matched",
        "measures": measures,
    }
