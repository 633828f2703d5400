"""The registered design of a challenge, and what differs from it in a later leaderboard.

``registration.json`` lies in the folder of the challenge. It holds the resolved rules, the hashes and the day; that it
was not changed since is shown by its SHA-256, which ``evaluation register`` prints to be published, and boards repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from evaluation.challenge import Challenge, LimitRules
from evaluation.challenge.rules import RankingRules
from evaluation.decoding.json import read_json
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.findings.rankings import NotMetrics
from evaluation.leaderboard.document import Board
from evaluation.leaderboard.teams import file_hash
from evaluation.results.metrics_json import as_json, identity, software

REGISTRATION_FILE = "registration.json"
DIFFERENCES_SHOWN = 10
NO_DESIGN = {"limits", "publish", "name", "version", "cases"}


def registration_document(challenge: Challenge, date: str) -> dict[str, Any]:
    return {
        "date": date,
        "software": software(),
        "challenge": {**identity(challenge), "rules": design(challenge)},
        "cases": len(challenge.cases),
    }


def design(challenge: Challenge) -> dict[str, Any]:
    """The resolved rules, as JSON."""
    found: dict[str, Any] = orjson.loads(as_json(challenge.model_dump(mode="json", exclude=NO_DESIGN)))
    return found


def with_registration(board: Board, challenge: Challenge, rules: RankingRules, folder: Path) -> Board:
    """The board with its differences from the registered design; unchanged without a registration.

    rules  the table [ranking] as it was applied

    Raises ChallengeBroken for a file that is no registration.
    """
    path = folder / REGISTRATION_FILE
    if not path.is_file():
        return board
    try:
        with path.open("rb") as stream:
            registered = read_json(stream, where=repr(REGISTRATION_FILE), limits=LimitRules(bytes_per_file=10_000_000))
        date, of_then = str(registered["date"])[:10], registered["challenge"]
        now = challenge.model_copy(update={"ranking": rules})
        differs = list(differences(of_then["rules"], design(now), was="registered"))
        if of_then["hash"] != now.hash and not any(not key.startswith(("ranking.", "audit.")) for key in differs):
            differs.append("cases.csv: other cases")
    except (KeyError, TypeError, AttributeError):
        fault = NotMetrics("not of the form that 'register' writes").at(repr(REGISTRATION_FILE))
        raise ChallengeBroken(fault) from None
    except InputFault as fault:
        raise ChallengeBroken(*fault.findings) from None
    entry = {"date": date, "sha256": file_hash(path), "follows": not differs, "differs": differs}
    return replace(board, registration=entry, words=f"{board.words} {registration_words(entry)}")


def registration_words(entry: Mapping[str, Any]) -> str:
    """Whether a board follows what was registered, in a sentence.

    >>> registration_words({"date": "2026-11-22", "sha256": "ab" * 32, "follows": True, "differs": []})
    'The design was registered on 2026-11-22 (SHA-256 abababababab…); this board follows it.'
    """
    differs = entry["differs"]
    more = f"; and {len(differs) - DIFFERENCES_SHOWN} more" if len(differs) > DIFFERENCES_SHOWN else ""
    answer = "follows it" if entry["follows"] else f"does not: {'; '.join(differs[:DIFFERENCES_SHOWN])}{more}"
    return f"The design was registered on {entry['date']} (SHA-256 {entry['sha256'][:12]}…); this board {answer}."


def differences(then: Any, now: Any, path: str = "", *, was: str = "before") -> Iterator[str]:
    """Every rule with another value than before, by its key in challenge.toml."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted(then.keys() | now.keys()):
            yield from differences(then.get(key), now.get(key), f"{path}.{key}".lstrip("."), was=was)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{path}.{index}", was=was)
    elif then != now:
        yield f"{path}: {shown(then)} {was}, {shown(now)} now"


def shown(value: Any) -> str:
    if value is None:
        return "none"
    text = as_json({"": value}).partition(":")[2].strip("\n }").replace("\n", " ").strip()
    return text if len(text) <= 60 else f"{text[:57]}…"
