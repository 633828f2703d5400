"""What may be claimed of a leaderboard, in at most five sentences that are computed from leaderboard.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from evaluation.findings import counted, percent, quote
from evaluation.leaderboard.titles import titles_by_path

Document = Mapping[str, Any]

NAMED_UP_TO = 3  # teams, units
FEWEST_UNITS = 5
NO_SAMPLES = {
    "no-units": "only the means are known, not the values of each patient",
    "one-unit": "there is one patient only, so that nothing can be drawn",
    "no-teams": "no team is ranked",
}


def verdict_sentences(document: Document, tricks: str = "") -> list[str]:
    """Who is first; whether that holds for other patients; against which teams; under other methods; by which unit.

    tricks  what ``against_tricks`` says, if tricks were played: it stands beside the methods
    """
    teams = document["teams"]
    if not teams:
        return ["No team is ranked."]
    first = [team["name"] for team in teams if team["position"] == teams[0]["position"]]
    others = [team["name"] for team in teams if team["name"] not in first]
    who = names_of(first) + (" are" if len(first) > 1 else " is")
    sentences = [f"{who} first of {counted(len(teams), 'team')}{without_values(document)}."]
    if len(teams) > 1:
        sentences += [
            *about_patients(document, first),
            *about_differences(document, first, others),
            *about_methods(document, set(first), tricks),
            *about_units(document),
        ]
    return sentences[:5]


def names_of(names: list[str], word: str = "and") -> str:
    shown = [quote(name, 40)[1:-1] for name in names[:NAMED_UP_TO]]
    rest = [f"{len(names) - NAMED_UP_TO:,} more"] if len(names) > NAMED_UP_TO else []
    parts = [*shown, *rest]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def without_values(document: Document) -> str:
    """That the first team has no value in some units in which another one has, the most of any column; else ""."""
    leader, *others = document["teams"]
    most = 0
    for index, column in enumerate(leader["columns"]):
        of_others = zip(*(team["columns"][index].get("by_unit") or () for team in others), strict=False)
        own = column.get("by_unit") or ()
        pairs = zip(own, of_others, strict=False)
        most = max(most, sum(value is None and any(of is not None for of in rest) for value, rest in pairs))
    units = document["units"]
    return f", with no value in {most:,} of {units['number']:,} {units['kind']} where others have one" if most else ""


def about_patients(document: Document, first: list[str]) -> list[str]:
    """Whether the first place holds in samples of the units."""
    stability, kind, units = document["stability"], document["units"]["kind"], document["units"]["number"]
    if stability["undefined"] is not None:
        return [f"How far the places can be trusted is not known: {why_no_samples(document)}."]
    if units < FEWEST_UNITS:
        return [f"{units:,} {kind} are too few to say whether that would hold with others."]
    team = document["teams"][0]
    if len(first) > 1:
        return [
            f"With other {kind} of the same kind all teams would keep their order in {share(stability['same_order'])} "
            "of the samples."
        ]
    among = team["rank_interval"]
    low, high = (f"{among[end]:g}" for end in ("low", "high"))
    places = f"place {low}" if low == high else f"places {low} to {high}"
    chance = share(team["probability_of_first"])
    return [f"With other {kind} of the same kind it would be first in {chance} of the samples ({places})."]


def why_no_samples(document: Document) -> str:
    reason: str = document["stability"]["undefined"]
    unit: str = document["units"]["kind"].removesuffix("s")
    return NO_SAMPLES.get(reason, reason).replace("patient", unit)


def about_differences(document: Document, first: list[str], others: list[str]) -> list[str]:
    """Which teams the first is better than, in any column; and how many units would decide what is open."""
    leader, kind = first[0], document["units"]["kind"]
    unit, subject = kind.removesuffix("s"), "it" if len(first) == 1 else names_of([leader])
    columns = [column for column in document["columns"] if column.get("differences")]
    if all(not column["significance"] or column["significance"]["undefined"] for column in document["columns"]):
        return ["No difference between teams can be tested, so none is claimed."]
    titles = titles_by_path([of["path"] for of in document["columns"]])
    better: dict[str, set[str]] = {}
    equivalent: Counter[str] = Counter()
    worse: dict[str, str] = {}
    needed: dict[str, int] = {}
    for column in columns:
        for of in column["differences"]:
            if leader not in (of["first"], of["second"]):
                continue
            is_first = of["first"] == leader
            other = of["second"] if is_first else of["first"]
            turned = {"better": "worse", "worse": "better"}.get(of["verdict"], of["verdict"])
            found = of["verdict"] if is_first else turned
            if found == "better":
                better.setdefault(other, set()).add(titles[column["path"]])
            elif found == "worse":
                worse.setdefault(other, titles[column["path"]])
            elif found == "equivalent":
                equivalent[other] += 1
            elif of["needed"] is not None:
                needed[other] = min(of["needed"], needed.get(other, of["needed"]))
    parts = []
    order = [*first[1:], *others]
    if not columns:  # pairs of many teams are not written
        parts.append(tested_better(document, leader, titles, subject, len(order)))
    opposed = [name for name in order if name in worse]
    if opposed:
        parts.append(f"but {names_of(opposed)} {'are' if len(opposed) > 1 else 'is'} better in {worse[opposed[0]]}")
    open_ = [name for name in order if name not in better and name not in worse and equivalent[name] < len(columns)]
    alike = [name for name in order if columns and equivalent[name] == len(columns)]
    if alike:
        parts.append(f"{names_of(alike)} {how_alike(columns, len(alike) > 1, names_of([leader]))}")
    if open_:
        which = "the first of these" if len(open_) > 1 else "it"
        lacking = f" (about {needed[open_[0]]:,} {kind} would decide {which})" if open_[0] in needed else ""
        parts.append(f"{subject} cannot be told apart from {names_of(open_)}{lacking}")
    if tested := tested_worse(document, leader, titles, set(opposed)):
        title, found_better = next(iter(tested.items()))
        parts.append(f"but the test, {unit} by {unit}, finds {names_of(found_better)} better in {title}")
    if beaten := better.keys() - set(opposed):
        where = set().union(*(better[name] for name in beaten))
        only = " only" if len(document["columns"]) > 1 else ""
        found_in = "at least one column" if len(where) > 1 else f"{where.pop()}{only}"
        teams = counted(len(order), "team")
        parts.insert(0, f"{subject} is better than {len(beaten):,} of {teams} in {found_in}")
    sentence = "; ".join(parts)
    begins = sentence.startswith(("it ", "but ", "by the test, ", "the test, "))  # names of teams stay as they are
    return [f"{sentence[0].upper() if begins else sentence[0]}{sentence[1:]}."] if sentence else []


def how_alike(columns: list[Document], are_many: bool, leader: str) -> str:
    """How teams that are equivalent to the first one in every column compare with it."""
    if any(column["margin"] for column in columns):
        return f"differ{'' if are_many else 's'} from {leader} by no more than the margin"
    return f"{'are' if are_many else 'is'} equal to {leader}"


def tested_better(document: Document, leader: str, titles: Mapping[str, str], subject: str, others: int) -> str:
    """How many teams the test finds the first one better than, in the column in which these are most."""
    unit = document["units"]["kind"].removesuffix("s")
    found = {titles[path]: how_many(of["better_than"]) for path, of in tests_of(document, leader)}
    title = max(found, key=found.__getitem__)
    if not found[title]:
        return f"the test, {unit} by {unit}, finds {subject} better than no other team"
    beaten = f"{found[title]:,} of {counted(others, 'team')}"
    return f"by the test, {unit} by {unit}, {subject} is better than {beaten} in {title}"


def tested_worse(document: Document, leader: str, titles: Mapping[str, str], named: set[str]) -> dict[str, list[str]]:
    """By the title of a column, the teams that its test finds better than the first one, though no interval does."""
    found = {}
    for path, of in tests_of(document, leader):
        worse, number = of["worse_than"], how_many(of["worse_than"])
        many = [counted(number, "team")] if number else []
        found[titles[path]] = [name for name in worse if name not in named] if isinstance(worse, list) else many
    return {title: names for title, names in found.items() if names}


def tests_of(document: Document, team: str) -> list[tuple[str, Document]]:
    """The path of each column and what its test says of a team."""
    return [
        (column["path"], of)
        for column in document["columns"]
        for of in (column["significance"] or {}).get("teams", ())
        if of["name"] == team
    ]


def how_many(teams: list[str] | int) -> int:
    """Of many teams their number is written in the place of their names."""
    return len(teams) if isinstance(teams, list) else teams


def about_methods(document: Document, first: set[str], tricks: str) -> list[str]:
    """Whether other methods of ranking put the same teams first, and what tricks do, in one sentence.

    Methods that give the same places are one ranking.
    """
    methods = document.get("methods") or ()
    if len(methods) < 2:
        return [f"{tricks[0].upper()}{tricks[1:]}."] if tricks else []
    names = [team["name"] for team in document["teams"]]
    rankings: dict[tuple[float | None, ...], str] = {}
    for of in methods:
        rankings.setdefault(tuple(of["places"]), of["method"].replace("_", " "))
    changed: list[str] = []
    shared: list[str] = []
    for places, method in rankings.items():
        best = min((place for place in places if place is not None), default=None)
        found = {name for name, place in zip(names, places, strict=True) if place == best}
        if found != first:
            (shared if found & first else changed).append(method)
    end = f"; {tricks}." if tricks else "."
    if not changed and not shared:
        return [f"All {len(methods)} methods of ranking agree on the first place{end}"]
    parts = [f"other teams are first under {len(changed)} ({names_of(changed)})"] if changed else []
    parts += [f"the first place is shared otherwise under {len(shared)} ({names_of(shared)})"] if shared else []
    number = counted(len(rankings), "different ranking")
    return [f"The {len(methods)} methods of ranking give {number}: {', '.join(parts)}{end}"]


def about_units(document: Document) -> list[str]:
    """Which single unit decides the first place."""
    stability, kind = document["stability"], document["units"]["kind"]
    if stability["undefined"] is not None or document["units"]["number"] < FEWEST_UNITS:
        return []
    without, unit = stability["first_changes_without"], kind.removesuffix("s")
    if not without:
        return [f"No single {unit} decides the first place."]
    return [f"The first place would change without {unit} {names_of(without)}."]


def share(value: float | None) -> str:
    """A share in percent that is not rounded to all or none.

    >>> share(0.9996), share(1.0), share(0.004)
    ('more than 99 %', '100 %', 'less than 1 %')
    """
    return percent(value).replace(">", "more than").replace("<", "less than")
