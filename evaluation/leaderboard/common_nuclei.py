"""The second table of a leaderboard: teams in pairs, on the reference nuclei that both matched, from objects.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.decoding.csv import Table, numbers_of, read_table
from evaluation.findings import render_summary
from evaluation.findings.errors import InputFault
from evaluation.findings.rankings import NotMetrics
from evaluation.leaderboard.document import PAIRS_UP_TO, number
from evaluation.leaderboard.team_scores import groups_of
from evaluation.metrics.quality import DISTANCES, SCORES
from evaluation.model import Bool, Float64
from evaluation.ranking.common_nuclei import LEAST, SHARE, CommonPairs, compare_on_common

OBJECTS_BYTES = 500_000_000
OBJECTS_ROWS = 5_000_000
FAMILIES = frozenset({"segmentation", "covered", "overall"})  # whose columns say what is compared

Nucleus = tuple[bytes, ...]  # case, class, id and area of a reference nucleus, as written


@dataclass(frozen=True, slots=True, eq=False)
class CommonNuclei:
    """Teams in pairs on the nuclei that both matched.

    rule      matching rule by which nuclei are matched, the first one of the challenge
    measures  what is compared; of distances less is better
    teams     in ascending order, as in ``pairs``
    without   teams whose nuclei are not known, and why
    """

    rule: str
    measures: tuple[str, ...]
    teams: tuple[str, ...]
    without: Mapping[str, str]
    pairs: CommonPairs


def common_nuclei(challenge: Challenge, rules: RankingRules, objects: Mapping[str, Path | None]) -> CommonNuclei | None:
    """Compare teams in pairs; None where nothing is measured on matched pairs, or for more than ``PAIRS_UP_TO`` teams.

    objects  the objects.csv of each team; None: there is none
    """
    measures = compared_measures(challenge, rules)
    if not measures or len(objects) > PAIRS_UP_TO:
        return None
    (rule, _), *_ = challenge.matching.passes
    group_of = {case.name.encode(): groups_of(challenge).index(case.group) for case in challenge.cases}
    found: dict[str, dict[Nucleus, tuple[float, ...]]] = {}
    without: dict[str, str] = {}
    for name, path in sorted(objects.items()):
        try:
            found[name] = read_matched(path, rule, measures)
            if not {nucleus[0] for nucleus in found[name]} <= group_of.keys():
                raise InputFault(NotMetrics("of other cases").at("'objects.csv'"))
        except InputFault as fault:
            found.pop(name, None)
            without[name] = render_summary(fault.findings, intro="").strip()
    nuclei = list(dict.fromkeys(nucleus for of in found.values() for nucleus in of))
    matched, values = as_arrays(nuclei, list(found.values()), len(measures))
    group = np.array([group_of[nucleus[0]] for nucleus in nuclei], np.int64)
    groups = len(groups_of(challenge))
    pairs = compare_on_common(matched, values, group, groups=groups, samples=rules.samples, seed=rules.seed)
    return CommonNuclei(rule, measures, tuple(found), without, pairs)


def compared_measures(challenge: Challenge, rules: RankingRules) -> tuple[str, ...]:
    """What the columns of segmentation are made of; without any, IoU or the first that is measured."""
    if not challenge.matching.rules:
        return ()
    measured = [name for name in (*SCORES, *DISTANCES) if name in challenge.metrics.measures]
    ranked = [path[-2] for column in rules.columns if FAMILIES & set(path := column.path.split("."))]
    return tuple([name for name in measured if any(of.startswith(name) for of in ranked)] or measured[:1])


# --- objects.csv ------------------------------------------------------------------------------------------------------


def read_matched(path: Path | None, rule: str, measures: Sequence[str]) -> dict[Nucleus, tuple[float, ...]]:
    """The measures of the reference nuclei that were matched under a rule. Raises InputFault.

    Of nuclei with the same case, class, id and area one counts.
    """
    if path is None or not path.is_file():
        raise InputFault(NotMetrics("not there").at("'objects.csv'"))
    chosen, keys = matched_rows(path, rule)
    values = zip(*(numbers_of(chosen.cells(chosen.need(name))).tolist() for name in measures), strict=True)
    return dict(zip(keys, values, strict=True))


def matched_rows(path: Path, rule: str) -> tuple[Table, Iterable[Nucleus]]:
    """The rows of the matched pairs under a rule, with the reference nucleus of each. Raises InputFault, OSError."""
    table = read_objects(path)
    chosen = table.take(np.flatnonzero(rows_with(table, "rule", rule) & rows_with(table, "outcome", "matched")))
    names = ("case", "reference_class", "reference_id", "reference_area_px")
    return chosen, zip(*(chosen.cells(chosen.need(name)) for name in names), strict=True)


def read_objects(path: Path) -> Table:
    """The table of an objects.csv. Raises InputFault, OSError."""
    with path.open("rb") as stream:
        return read_table(stream, where="'objects.csv'", bytes_limit=OBJECTS_BYTES, rows_limit=OBJECTS_ROWS)


def rows_with(table: Table, column: str, text: str) -> Bool:
    """The rows with a text in a column."""
    texts, text_of_row = table.categories(table.need(column))
    return np.asarray(text_of_row == (texts.index(text) if text in texts else -1))


def as_arrays(
    nuclei: Sequence[Nucleus], teams: Sequence[Mapping[Nucleus, tuple[float, ...]]], measures: int
) -> tuple[Bool, Float64]:
    """Which team matched which nucleus, bool (T, N), and what was measured there, float64 (K, T, N)."""
    index_of = {nucleus: index for index, nucleus in enumerate(nuclei)}
    matched, values = np.zeros((len(teams), len(nuclei)), np.bool_), np.zeros((measures, len(teams), len(nuclei)))
    for team, found in enumerate(teams):
        at = np.array([index_of[nucleus] for nucleus in found], np.int64)
        matched[team, at] = True
        values[:, team, at] = np.array(list(found.values())).reshape(len(found), measures).T
    return matched, values


# --- leaderboard.json -------------------------------------------------------------------------------------------------


def common_entry(common: CommonNuclei, order: Sequence[str]) -> dict[str, Any]:
    """The table ``common_nuclei`` of leaderboard.json; ``order``: the ranked teams, the first place first.

    Neighbours come first, then pairs two places apart, and so on; in each pair the team that stands higher comes first.
    """
    pairs, rank = common.pairs, {name: index for index, name in enumerate(order)}
    known = [(common.teams[one], common.teams[two]) for one, two in zip(pairs.first, pairs.second, strict=True)]
    entries = [
        pair_entry(common, pair, is_turned=rank[one] > rank[two])
        for pair, (one, two) in enumerate(known)
        if one in rank and two in rank
    ]
    entries.sort(key=lambda entry: (rank[entry["second"]] - rank[entry["first"]], rank[entry["first"]]))
    ahead = Counter((index, of["ahead"]) for entry in entries for index, of in enumerate(entry["measures"]))
    matched = dict(zip(common.teams, pairs.matched.tolist(), strict=True))
    return {
        "rule": common.rule,
        "least": LEAST,
        "share": SHARE,
        "measures": [{"name": name, "better": "higher" if name in SCORES else "lower"} for name in common.measures],
        "teams": [
            {"name": name, "matched": matched[name], "ahead": [ahead[k, name] for k in range(len(common.measures))]}
            for name in order
            if name in matched
        ],
        "without": [{"name": name, "reason": reason} for name, reason in common.without.items() if name in rank],
        "pairs": entries,
    }


def pair_entry(common: CommonNuclei, pair: int, *, is_turned: bool) -> dict[str, Any]:
    """Two teams on their common nuclei; differences are those of the first less the second.

    ahead  in each measure: by the difference, six decimals, or if the pair is not compared by the nuclei that each
           matched; None: neither
    """
    found = common.pairs
    sides = [int(found.first[pair]), int(found.second[pair])][:: -1 if is_turned else 1]
    names, matched = [common.teams[side] for side in sides], [int(found.matched[side]) for side in sides]
    both, is_compared = int(found.common[pair]), bool(found.compared[pair])
    sign = -1 if is_turned else 1
    measures = []
    for kind, name in enumerate(common.measures):
        ends = sorted(sign * float(of[pair, kind]) for of in (found.low, found.high))
        difference, low, high = (number(of) for of in (sign * float(found.difference[pair, kind]), *ends))
        lead = matched[0] - matched[1] if not is_compared else (difference or 0) * (1 if name in SCORES else -1)
        ahead = names[0] if lead > 0 else names[1] if lead < 0 else None
        measures.append({"difference": difference, "low": low, "high": high, "ahead": ahead})
    return {
        "first": names[0],
        "second": names[1],
        "common": both,
        "shares": [number(both / of) if of else None for of in matched],
        "by": "quality" if is_compared else "matched",
        "measures": measures,
    }
