"""Information on a ranking: at most six facts, each a number with its evidence.

They are built from the content of leaderboard.json, are in it, and are the table that terminal, page and Python show.
The words significant, better and too few rest on the declared test alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.board.titles import METHODS, TESTS, Document, in_words, names_of, short_titles, unit_of
from evaluation.findings import counted, quote

NO_SAMPLES = {
    "no-units": "per-patient scores are not available",
    "one-unit": "there is one patient only",
    "no-teams": "no team is ranked",
    "not-resampled": "{columns} cannot be computed again for samples of the patients",
    "ranked-by-tests": "tests rank the teams, and a patient that a sample contains twice would count as two patients",
}
COUNTED_AS = {
    "worst": "counted as the worst",
    "no-value": "without a rank in the column",
    "complete_cases": "excluded for all teams",
}
WITHOUT = {
    "minimum": "without the minimum",
    "weights": "with equal weights",
    "gaps": "on the {kind} that all teams have",
}
COLUMNS_UP_TO = 4  # with a line of their own
RUNNERS_UP = 2  # teams that the first one is tested against by name


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact of a ranking: its subject, the number in words, and the evidence."""

    fact: str
    value: str
    rests_on: str


def facts_of(document: Document) -> list[_Fact]:
    """List the facts of the content of a leaderboard.json: without empty facts."""
    if not document["teams"]:
        return []
    facts = [*_first(document)]
    if len(document["teams"]) > 1:
        for part in (_test, _columns, _rank_set, _methods, _decisions):
            facts += part(document)
    return facts


def _leaders(document: Document) -> list[str]:
    teams = document["teams"]
    return [team["name"] for team in teams if team["position"] == teams[0]["position"]]


def p_text(value: float | None) -> str:
    """Write a p-value with two significant digits.

    >>> p_text(0.03125), p_text(0.5), p_text(3e-9), p_text(None)
    ('p = 0.031', 'p = 0.5', 'p = 3e-09', 'p unknown')
    """
    return "p unknown" if value is None else f"p = {value:.2g}"


# --- the facts --------------------------------------------------------------------------------------------------------


def are_too_few(document: Document) -> bool:
    """Return whether the units are too few for the declared test, so that no results of samples are shown either."""
    tested = [column["significance"] for column in document["columns"] if column["significance"]]
    return bool(tested) and max(column["units"] for column in tested) < tested[0]["least_units"]


def _first(document: Document) -> Iterator[_Fact]:
    """The first team, the rule, and the values of the next teams."""
    teams, first = document["teams"], _leaders(document)
    method = document["ranking"]["method"]
    rule = METHODS[method].name or f"mean rank, {method.replace('_', ' ')}"

    def combined(team: Document) -> str:
        return "–" if team["combined"] is None else f"{team['combined']:.3f}".rstrip("0").rstrip(".")

    behind = [f"{quote(team['name'], 40)} {combined(team)}" for team in teams[len(first) :]]
    shared = "share the first rank: " if len(first) > 1 else ""
    value = f"{names_of(first)} {shared}{rule} {combined(teams[0])}" + (f" ({in_words(behind)})" if behind else "")
    without = len(document["not_ranked"])
    rests_on = [
        counted(len(teams), "team"),
        counted(len(document["columns"]), "column"),
        *([counted(document["units"]["number"], unit_of(document))] if document["units"]["number"] else []),
        *([f"{counted(without, 'entry', 'entries')} not ranked"] if without else []),
    ]
    yield _Fact("first", value, ", ".join(rests_on))


def _test(document: Document) -> Iterator[_Fact]:
    """Differences between the first and the next teams over the columns together, or why there is no test."""
    columns = [column["significance"] for column in document["columns"] if column["significance"]]
    what = "significance" if len(document["columns"]) == 1 else "columns together"
    units, kind = document["units"]["number"], document["units"]["kind"]
    if not columns:
        yield _Fact(what, "not tested", f"scores per {unit_of(document)} are not available")
        return
    least, most = columns[0]["least_units"], max(column["units"] for column in columns)
    if are_too_few(document):
        common = "common " if most < units else ""
        few = counted(most, f"{common}{unit_of(document)}", f"{common}{kind}")
        yield _Fact(what, "too few for the test", f"{few}; the test needs {least}")
        return
    together, first = document.get("together"), _leaders(document)[0]
    if not together:
        return
    tested = {team["name"]: team for team in together["teams"]}
    order = [team["name"] for team in together["teams"]]
    parts = []
    for other in [team["name"] for team in document["teams"] if team["name"] != first][:RUNNERS_UP]:
        p_value = tested[first]["p_values"][order.index(other)]
        end = ", significant" if other in tested[first]["better_than"] else ""
        level = document["ranking"]["significance_level"]
        if not end and p_value is not None and p_value <= level:
            end = f" (the values favour {quote(other, 40)}, so no claim)"
        parts.append(f"{p_text(p_value)} against {quote(other, 40)}{end}")
    yield _Fact(what, "; ".join(parts), f"{_test_in_words(document)}; {most:,} {kind}")


def _test_in_words(document: Document) -> str:
    return TESTS[document["ranking"]["test"]][0].format(units=document["units"]["kind"])


def _columns(document: Document) -> Iterator[_Fact]:
    """Per column: the first team compared with the best other team."""
    first = _leaders(document)[0]
    titles = short_titles([column["path"] for column in document["columns"]])
    for index, (title, column) in enumerate(zip(titles, document["columns"], strict=True)):
        if index < COLUMNS_UP_TO and column.get("differences"):
            yield from _column(document, title, column, index, first)


def _column(document: Document, title: str, column: Document, index: int, first: str) -> Iterator[_Fact]:
    values = {team["name"]: team["columns"][index]["value"] for team in document["teams"]}
    if values[first] is None:
        return
    sign = 1 if column["direction"] == "descending" else -1
    others = [name for name, value in values.items() if name != first and value is not None]
    if not others:
        return
    other = max(others, key=lambda name: sign * values[name])
    pair = next((pair for pair in column["differences"] if {pair["first"], pair["second"]} == {first, other}), None)
    if pair is None or pair["mean"] is None:
        return
    turned = -1 if (pair["first"] == first) != (pair["mean"] >= 0) else 1  # towards the team that is ahead
    ahead, behind = (first, other) if turned == 1 else (other, first)
    is_turned = pair["first"] != ahead
    share = 1 - pair["ahead"] if is_turned else pair["ahead"]
    value = f"{quote(ahead, 40)} {abs(pair['mean']):z.4f} ahead of {quote(behind, 40)}"
    if pair["low"] is not None:
        low, high = sorted((-pair["low"], -pair["high"]) if is_turned else (pair["low"], pair["high"]))
        value += f" ({_signed(low)} to {_signed(high)})"
    if pair["mean"] == 0:
        value = f"{quote(first, 40)} and {quote(other, 40)} have the same mean"
    least, kind = column["significance"]["least_units"], document["units"]["kind"]
    if pair["units"] >= least and not column["significance"]["undefined"]:
        value += f", {p_text(pair['p_value'])}"
        better = {"better": pair["first"], "worse": pair["second"]}.get(pair["verdict"], "")
        value += (
            ", significant" if better == ahead else f", significant: {quote(better, 40)} is better" if better else ""
        )
        value += ", within the margin" * (pair["verdict"] == "equivalent" and column["margin"] > 0)
    is_equal = pair["mean"] == pair["low"] == pair["high"] == 0
    wins = "equal in all" if is_equal else f"ahead in {round(share * pair['units'], 1):g}"
    ranking, by = document["ranking"], ""
    if ranking["aggregate"] == "median" and ranking["method"] in ("aggregate_then_rank", "rank_then_aggregate"):
        by = "; ranked by the median"
    both = " that both have" * (pair["units"] < document["units"]["number"])
    over = f"mean difference over {counted(pair['units'], kind[:-1], kind)}{both}"
    yield _Fact(title, value, f"{over}; {wins}{by}")


def _signed(value: float) -> str:
    return f"{value:z.4f}".replace("-", "−")


def _rank_set(document: Document) -> Iterator[_Fact]:
    """The ranks that the first team can have, with a guarantee for all teams together."""
    team, teams = document["teams"][0], len(document["teams"])
    ranks = team.get("rank_set")
    if not ranks or are_too_few(document):
        return
    low, high = ranks["low"], ranks["high"]
    value = f"{quote(team['name'], 40)}: rank {low}" + (f" to {high}" if high != low else "") + f" of {teams}"
    yield _Fact(
        "rank set",
        value,
        f"{counted(low - 1, 'team')} significantly better, {counted(teams - high, 'team')} significantly worse",
    )


def _methods(document: Document) -> Iterator[_Fact]:
    """Under how many other methods of ranking the same team is first."""
    own, first = document["ranking"]["method"], set(_leaders(document))
    names = [team["name"] for team in document["teams"]]
    every = [entry for entry in document.get("methods") or () if entry["method"] != own]
    others = [entry for entry in every if any(place is not None for place in entry["places"])]
    if not others:
        return
    against: dict[str, list[str]] = {}
    for entry in others:
        best = min(place for place in entry["places"] if place is not None)
        leading = {name for name, place in zip(names, entry["places"], strict=True) if place == best}
        if leading != first:
            what = names_of(sorted(leading)) + (" share it" if len(leading) > 1 else "")
            against.setdefault(what, []).append(entry["method"].replace("_", " "))
    same = len(others) - sum(map(len, against.values()))
    value = f"in {same} of {len(others)}" + "".join(
        f"; {who} in {len(methods)} ({in_words(methods)})" for who, methods in sorted(against.items())
    )
    yield _Fact("first in other methods", value, "the same scores, other rules as they are")


def _decisions(document: Document) -> Iterator[_Fact]:
    """What decides the first rank by itself: a minimum, weights, gaps, or one unit."""
    parts, kind = [], document["units"]["kind"]
    for decision in document.get("decided_by") or ():
        parts.append(f"{WITHOUT[decision['rule']].format(kind=kind)} {names_of(decision['first'])} first")
    stability = document["stability"]
    without = stability["first_changes_without"] if stability["undefined"] is None else []
    if without:
        one = unit_of(document)
        parts.append(
            f"without {one} {without[0]} the first rank changes"
            if len(without) == 1
            else f"without any one of {len(without):,} {kind} ({in_words(without)}) the first rank changes"
        )
    gaps, rests_on = document.get("gaps"), "the same scores, ranked again"
    if gaps:
        lacking = sorted(gaps["teams"], key=lambda team: -team["lacking"])
        each = [f"{quote(team['name'], 40)} lacks {team['lacking']:,} of {gaps['values']:,} values" for team in lacking]
        parts.append(f"{in_words(each)}, {COUNTED_AS[gaps['rule']]}")
    if parts:
        yield _Fact("decided by", "; ".join(parts), rests_on)


# --- samples ----------------------------------------------------------------------------------------------------------


def why_no_samples(document: Document) -> str:
    """Return why no bootstrap sample was drawn."""
    stability = document["stability"]
    reason: str = stability["undefined"]
    columns = in_words(short_titles(stability.get("columns") or ["a column"]))
    return NO_SAMPLES.get(reason, reason).replace("patient", unit_of(document)).format(columns=columns)
