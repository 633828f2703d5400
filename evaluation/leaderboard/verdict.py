"""What may be claimed of a leaderboard, in at most five sentences that are computed from leaderboard.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from evaluation.findings import quote
from evaluation.leaderboard.titles import short_titles

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
    number = f"{len(teams):,} team{'' if len(teams) == 1 else 's'}"
    who = names_of(first) + (" are" if len(first) > 1 else " is")
    sentences = [f"{who} first of {number}."]
    if len(teams) > 1:
        sentences += [
            *about_patients(document, first),
            *about_differences(document, first, others),
            *with_tricks(about_methods(document, set(first)), tricks),
            *about_units(document),
        ]
    return sentences[:5]


def names_of(names: list[str]) -> str:
    shown = [quote(name, 40)[1:-1] for name in names[:NAMED_UP_TO]]
    rest = [f"{len(names) - NAMED_UP_TO:,} more"] if len(names) > NAMED_UP_TO else []
    parts = [*shown, *rest]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def about_patients(document: Document, first: list[str]) -> list[str]:
    """Whether the first place holds in samples of the units."""
    stability, kind, units = document["stability"], document["units"]["kind"], document["units"]["number"]
    if stability["undefined"] is not None:
        reason = NO_SAMPLES.get(stability["undefined"], stability["undefined"])
        return [f"How far the places can be trusted is not known: {reason}."]
    if units < FEWEST_UNITS:
        return [f"{units:,} {kind} are too few to say whether that would hold with others."]
    team = document["teams"][0]
    if len(first) > 1:
        return [
            f"With other {kind} of the same kind all teams would keep their order in {share(stability['same_order'])}."
        ]
    among = team["rank_interval"]
    low, high = (f"{among[end]:g}" for end in ("low", "high"))
    places = f"place {low}" if low == high else f"places {low} to {high}"
    chance = share(team["probability_of_first"])
    return [f"With other {kind} of the same kind it would be first in {chance} of the samples ({places})."]


def about_differences(document: Document, first: list[str], others: list[str]) -> list[str]:
    """Which teams the first is better than, in any column; and how many units would decide what is open."""
    leader, kind = first[0], document["units"]["kind"]
    columns = [column for column in document["columns"] if column.get("differences")]
    if all(not column["significance"] or column["significance"]["undefined"] for column in document["columns"]):
        return ["No difference between teams can be tested, so none is claimed."]
    titles = dict(
        zip(
            [of["path"] for of in document["columns"]],
            short_titles([of["path"] for of in document["columns"]]),
            strict=True,
        )
    )
    better: set[str] = set()
    equivalent: set[str] = set()
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
                better.add(other)
            elif found == "worse":
                worse.setdefault(other, titles[column["path"]])
            elif found == "equivalent":
                equivalent.add(other)
            elif of["needed"] is not None:
                needed[other] = min(of["needed"], needed.get(other, of["needed"]))
    told = []
    order = [*first[1:], *others]
    opposed = [name for name in order if name in worse]
    if opposed:
        told.append(f"but {names_of(opposed)} {'are' if len(opposed) > 1 else 'is'} better in {worse[opposed[0]]}")
    open_ = [name for name in order if name not in better and name not in worse and name not in equivalent]
    alike = [name for name in order if name in equivalent and name not in better and name not in worse]
    if alike:
        told.append(f"{names_of(alike)} differ{'' if len(alike) > 1 else 's'} by no more than the margin")
    if open_:
        lacking = f" (about {needed[open_[0]]:,} {kind} would decide the first of these)" if open_[0] in needed else ""
        told.append(f"it cannot be told apart from {names_of(open_)}{lacking}")
    if better - set(opposed):
        count = len(better - set(opposed))
        told.insert(0, f"it is better than {count:,} of {len(order):,} teams in at least one column")
    sentence = "; ".join(told)
    return [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []


def about_methods(document: Document, first: set[str]) -> list[str]:
    """Whether other methods of ranking put the same teams first."""
    methods = document.get("methods") or ()
    if len(methods) < 2:
        return []
    names = [team["name"] for team in document["teams"]]
    changed = []
    for of in methods:
        places = {name: place for name, place in zip(names, of["places"], strict=True) if place is not None}
        best = min(places.values(), default=None)
        if {name for name, place in places.items() if place == best} != first:
            changed.append(of["method"].replace("_", " "))
    if not changed:
        return [f"All {len(methods)} methods of ranking agree on the first place."]
    return [
        f"Other teams would be first, or share it, under {len(changed)} of {len(methods)} methods: {names_of(changed)}."
    ]


def with_tricks(told: list[str], tricks: str) -> list[str]:
    """The sentence about methods, and what tricks do, in one sentence."""
    if not tricks:
        return told
    return [f"{told[0][:-1]}; {tricks}."] if told else [f"{tricks[0].upper()}{tricks[1:]}."]


def against_tricks(document: Document) -> str:
    """Whether the ranking can be played, from tricks.json, without names of teams; "" if nothing was played."""
    tricks = {of["name"]: of for of in document["tricks"]}
    plays = [play for play in document["plays"] if tricks[play["trick"]]["kind"] != "calibration"]
    paying = Counter(play["trick"] for play in plays if play["pays"])
    if not plays:
        return ""
    if not paying:
        return f"no trick pays ({len(plays):,} were played)"
    often = min(paying, key=lambda name: (-paying[name], name))
    words = tricks[often]["words"]
    return f"{paying.total():,} of {len(plays):,} tricks that were played pay, most often: {words}"


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
    if value is None:
        return "–"
    if value not in (0, 1) and not 0.01 <= value <= 0.99:
        return "more than 99 %" if value > 0.5 else "less than 1 %"
    return f"{100 * value:.0f} %"
