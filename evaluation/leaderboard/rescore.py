"""An erratum: all teams are scored again, and what changed, who moves and why, old beside new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.findings.errors import WrongUsage, faults_as
from evaluation.leaderboard.document import Board, leaderboard_document, number
from evaluation.leaderboard.registration import differences
from evaluation.leaderboard.team_scores import read_board, read_details
from evaluation.leaderboard.teams import read_key
from evaluation.results.metrics_json import software

RESCORE_FILE = "rescore.json"
UNITS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Before:
    """What was published: leaderboard.json, and the details.json of each team that has one."""

    board: Mapping[str, Any]
    details: Mapping[str, Mapping[str, Any]]
    reference: str | None


def reference_in(folder: Path, teams: Sequence[str]) -> str | None:
    """The hash of the reference that the results of a folder were made with; None if it is not one, or not known."""
    known = {read_key(folder / "results" / team).get("reference") for team in teams}
    return str(known.pop()) if len(known) == 1 and known != {None} else None


def read_before(folder: Path) -> Before:
    """What ``leaderboard`` wrote into a folder. Raises WrongUsage if there is no leaderboard.json."""
    with faults_as(WrongUsage):
        board = read_board(folder)
        teams = [team["name"] for team in board["teams"]]
        return Before(board, details_of(folder, teams), reference_in(folder, teams))


def details_of(folder: Path, teams: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    paths = {name: folder / "results" / name / "details.json" for name in teams}
    return {name: read_details(path, where=repr(name)) for name, path in paths.items() if path.is_file()}


def rescore_document(before: Before, board: Board, output: Path) -> dict[str, Any]:
    """The content of rescore.json.

    ``changed`` says what differs: rules by their keys, cases of which a result differs, programs. ``reference`` is its
    hash before and after, None if it is not known. A team ``moves`` if its place changes; ``columns`` have its value
    and rank before and after, and the groups with the largest changes.
    """
    after = leaderboard_document(board)
    teams = [team.name for team in board.teams]
    details = details_of(output, teams)
    old, new = ({team["name"]: team for team in each["teams"]} for each in (before.board, after))
    names = [*new, *(name for name in old if name not in new)]
    return {
        "software": software(),
        "challenge": after["challenge"],
        "before": before.board["challenge"],
        "registration": after["registration"],
        "reference": [before.reference, reference_in(output, teams)],
        "changed": what_changed(before, after, details),
        "teams": [moved_team(name, old.get(name), new.get(name), before.board, after) for name in names],
    }


def what_changed(before: Before, after: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    common = sorted(before.details.keys() & details.keys())
    rules: list[str] = []
    cases = set[str]()
    for name in common:
        one, other = before.details[name], details[name]
        rules = rules or list(differences(one["challenge"]["rules"], other["challenge"]["rules"]))
        for case in one["cases"].keys() | other["cases"].keys():
            if one["cases"].get(case) != other["cases"].get(case):
                cases.add(case)
    ranking = {key: of for key, of in before.board["ranking"].items() if key != "in_words"}
    ranking_now = {key: of for key, of in after["ranking"].items() if key != "in_words"}
    known = {line.partition(":")[0] for line in rules}
    rules += [
        line
        for line in differences({"ranking": ranking}, {"ranking": ranking_now})
        if line.partition(":")[0] not in known
    ]
    versions = [of["software"]["scored_with"] for of in (before.board, after)]
    programs = [", ".join(of) for of in versions] if versions[0] != versions[1] else []
    return {"rules": rules, "cases": sorted(cases), "programs": programs, "compared": common}


def moved_team(
    name: str,
    old: Mapping[str, Any] | None,
    new: Mapping[str, Any] | None,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> dict[str, Any]:
    positions = [team["position"] if team else None for team in (old, new)]
    cells = [{cell["path"]: cell for cell in team["columns"]} if team else {} for team in (old, new)]
    columns = []
    for path in [*cells[1], *(path for path in cells[0] if path not in cells[1])]:
        one, other = (of.get(path, {}) for of in cells)
        columns.append(
            {
                "path": path,
                "value": [one.get("value"), other.get("value")],
                "rank": [one.get("rank"), other.get("rank")],
                "units": largest_changes(one, other, before.get("unit_names", ()), after["unit_names"]),
            }
        )
    return {"name": name, "position": positions, "moves": positions[0] != positions[1], "columns": columns}


def largest_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Sequence[str], names_now: Sequence[str]
) -> list[dict[str, Any]]:
    """The groups in which a value changed most, by how much; none where they are not known."""
    values, now = (
        dict(zip(of_names, cell.get("by_unit", ()), strict=False))
        for cell, of_names in ((old, names), (new, names_now))
    )
    changes = [
        (abs(after - before), unit, after - before)
        for unit, before in values.items()
        if before is not None and (after := now.get(unit)) is not None and after != before
    ]
    largest = sorted(changes, key=lambda each: (-each[0], each[1]))[:UNITS_SHOWN]
    return [{"name": unit, "change": number(change)} for _, unit, change in largest]
