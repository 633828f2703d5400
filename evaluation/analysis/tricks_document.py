"""Which tricks pay under a ranking, in lines and as tricks.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evaluation.analysis.plays import Play
from evaluation.analysis.tricks import Trick
from evaluation.findings import quote
from evaluation.leaderboard.document import number
from evaluation.leaderboard.verdict import against_tricks, names_of
from evaluation.results.metrics_json import as_json
from evaluation.results.version import __version__

LINES_UP_TO = 12
LOSS_IN_WORDS = "its pooled F1 or class score falls by more than 0.005"


@dataclass(frozen=True, slots=True)
class Change:
    """Another ranking, and how many plays still pay under it.

    places  how many teams stand elsewhere than under the challenge's own ranking, without any trick
    """

    words: str
    pays: int
    places: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the presence of a team does.

    without   who is first if it is not there, if another team is first then
    clone_of  another team whose nuclei are nearly all the same, or ""
    clone_makes_first  who is first if the team is there twice, if that is another than before
    """

    team: str
    without: tuple[str, ...] = ()
    clone_of: str = ""
    clone_makes_first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TricksFound:
    """All that was played on the submissions of a challenge."""

    identity: Mapping[str, str]
    tricks: tuple[Trick, ...]
    plays: tuple[Play, ...]
    first: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    entries: tuple[Entry, ...] = ()
    left_out: Mapping[str, str] | None = None
    findings: tuple[str, ...] = ()

    @property
    def paying(self) -> list[Play]:
        """The plays that pay, those first that climb most."""
        paying = [play for play in self.plays if play.pays and play.kind != "calibration"]
        return sorted(paying, key=lambda play: (play.after - play.before, play.trick, play.team))


def tricks_json(found: TricksFound) -> str:
    """The content of tricks.json: strict JSON, sorted keys, six decimals; the same bytes for the same submissions."""
    return as_json(tricks_document(found))


def tricks_document(found: TricksFound) -> dict[str, Any]:
    document = {
        "challenge": dict(found.identity),
        "software": {"version": __version__},
        "first": list(found.first),
        "tricks": [{"name": of.name, "words": of.words, "kind": of.kind} for of in found.tricks],
        "plays": [
            {
                "trick": play.trick,
                "team": play.team,
                "before": number(play.before),
                "after": number(play.after),
                "f1_change": number(play.f1),
                "class_score_change": number(play.class_score),
                "pays": play.pays,
            }
            for play in found.plays
        ],
        "changes": [asdict(of) for of in found.changes],
        "entries": [
            {
                "team": of.team,
                "first_without_it": list(of.without),
                "nearly_the_same_as": of.clone_of,
                "first_if_it_is_there_twice": list(of.clone_makes_first),
            }
            for of in found.entries
        ],
        "left_out": dict(found.left_out or {}),
        "findings": list(found.findings),
    }
    return document | {"verdict": tricks_verdict(document)}


def tricks_verdict(document: Mapping[str, Any]) -> list[str]:
    """Whether tricks pay, under which ranking they do not, and which entries decide the first place."""
    against = against_tricks(document)
    if not against:
        return ["No trick was played."]
    sentences = [f"Against tricks: {against}."]
    closing = next((of["words"] for of in document["changes"] if of["pays"] == 0), None)
    if not against.startswith("no trick"):
        closes = f"under {closing} no trick pays." if closing else "tricks pay under every change that was tried."
        sentences.append(f"{closes[0].upper()}{closes[1:]}")
    without = [
        of["team"] for of in document["entries"] if of["first_without_it"] and of["team"] not in document["first"]
    ]
    twice = [of["team"] for of in document["entries"] if of["first_if_it_is_there_twice"]]
    for names, condition in ((without, "Without"), (twice, "With a second entry of")):
        if names:
            sentences.append(f"{condition} {names_of(names, 'or')} another team would be first.")
    return sentences


def tricks_lines(found: TricksFound) -> list[str]:
    """Which tricks pay, for whom, under which ranking they do not, and which entries decide, in sentences."""
    words = {trick.name: trick.words for trick in found.tricks}
    honest = [play for play in found.plays if play.kind != "calibration"]
    paying = found.paying
    lines = [
        " ".join(tricks_verdict(tricks_document(found))),
        f"Tricks: {len(found.tricks)} were played on {len({play.team for play in found.plays})} teams. "
        f"{len(paying)} of {len(honest)} pay: the team stands higher although {LOSS_IN_WORDS}.",
    ]
    for play in paying[:LINES_UP_TO]:
        by = " (chosen by the reference: an upper bound)" if play.kind == "reference" else ""
        lines.append(
            f"  {quote(play.team)} from {play.before:g} to {play.after:g}: {words[play.trick]}{by}; "
            f"F1 {play.f1:+.3f}, class score {play.class_score:+.3f}."
        )
    if len(paying) > LINES_UP_TO:
        lines.append(f"  and {len(paying) - LINES_UP_TO} more; tricks.json has all of them.")
    lines += change_lines(found, len(paying))
    lines += [*entry_lines(found), *found.findings]
    calibrated = [play for play in found.plays if play.kind == "calibration" and play.climbs]
    lines += [
        f"Calibration, which is honest: {quote(play.team)} would stand at {play.after:g} instead of {play.before:g}: "
        f"{words[play.trick]}."
        for play in calibrated[:3]
    ]
    return lines


def change_lines(found: TricksFound, pays: int) -> list[str]:
    if not pays:
        return []
    lines = []
    for change in found.changes:
        moved = f"{change.places} teams would stand elsewhere" if change.places else "no team would stand elsewhere"
        lines.append(f"  With {change.words} {change.pays} pay; {moved}.")
    closing = next((of for of in found.changes if of.pays == 0), None)
    if closing:
        return ["Under other rankings:", *lines, f"The smallest change under which no trick pays: {closing.words}."]
    return ["Under other rankings:", *lines]


def entry_lines(found: TricksFound) -> list[str]:
    """Which entries decide the first place. No sum of ranks prevents that: rank one entry for each team."""
    lines = []
    for entry in found.entries:
        if entry.clone_of:
            lines.append(f"{quote(entry.team)} and {quote(entry.clone_of)} are nearly the same: rank one of them.")
        if entry.without:
            names = " and ".join(map(quote, entry.without))
            lines.append(f"Without {quote(entry.team)} the first place goes to {names}.")
        if entry.clone_makes_first:
            names = " and ".join(map(quote, entry.clone_makes_first))
            lines.append(f"If {quote(entry.team)} is there twice the first place goes to {names}.")
    return lines


def names_at_first(positions: Mapping[str, float]) -> tuple[str, ...]:
    best = min((value for value in positions.values() if value == value), default=None)
    return tuple(sorted(name for name, value in positions.items() if value == best))


def moved_teams(before: Sequence[float], after: Sequence[float]) -> int:
    return sum(one != other for one, other in zip(before, after, strict=True))
