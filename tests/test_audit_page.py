"""The page of an audit: every number on it is one of audit.json, or counted from it by hand here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.commands import main as cli
from evaluation.leaderboard.stored import Unranked
from evaluation.report.html import page_html
from evaluation.report.leaderboard import leaderboard_page
from evaluation.report.page import Cell, Figure, Page, Table, Text
from evaluation.report.studies import audit_page
from evaluation.results.documents import as_json
from evaluation.study.variants import Audit, Dimension, audit_document, audit_positions

NAN = float("nan")
IDENTITY = {"name": "Made", "version": "1", "hash": "00"}

# Rules of a made challenge, the first value of each its own. A leads but where the last nucleus wins; there C wins if
# the matching is loose. D is not ranked where both are changed.
RULES = (Dimension("matching", ("strict", "loose"), "strict"), Dimension("overlap", ("none", "last"), "none"))
SETTINGS = [[0, 0], [0, 1], [1, 0], [1, 1]]
PLACES = [[1, 2, 3, 4], [2, 1, 3, 4], [1, 2, 2, 4], [2, 3, 1, NAN]]


def document_of(audit: Audit) -> dict[str, Any]:
    """What audit.json holds, read back."""
    found: dict[str, Any] = json.loads(as_json(audit_document(audit)), parse_constant=pytest.fail)
    return found


def made(places: Any = PLACES, names: Any = ("A", "B", "C", "D"), better: Any = None, **more: Any) -> dict[str, Any]:
    position = np.array(places, float)
    audit = audit_positions(names, RULES, SETTINGS, position, position, published=0, better=better)
    return document_of(replace(audit, identity=IDENTITY, **more))


def part(page: Page, anchor: str) -> Any:
    """The table or figure with an anchor."""
    (found,) = (b for section in page.sections for b in section.blocks if getattr(b, "anchor", "") == anchor)
    return found


def values_of(row: tuple[Any, ...]) -> list[Any]:
    return [cell.value if isinstance(cell, Cell) else cell for cell in row]


def test_the_answer_stands_first_and_looks_like_what_it_is() -> None:
    document = made()
    first = audit_page(document).sections[0].blocks[0]
    assert first == Text(tuple(document["first_place"]["answer"]), "bad")
    assert first.paragraphs[0].startswith("The first rank of 'A' cannot be defended: it is first in 2 of 4 variants")
    always = made([[1, 2, 3, 4]] * 4, better={("A", name) for name in "BCD"})
    assert audit_page(always).sections[0].blocks[0] == Text(tuple(always["first_place"]["answer"]), "good")


def test_the_table_of_teams_is_that_of_the_document() -> None:
    """A, B and C are first in 2, 1 and 1 variants; D has no place in one."""
    rows = [values_of(row) for row in part(audit_page(made()), "audit-teams").rows]
    assert rows == [
        ["A", 1, 1, 2, 0.5, 2, 0],
        ["B", 2, 1, 1, 0.25, 1, 0],
        ["C", 3, 1, 1, 0.25, 1, 0],
        ["D", 4, 4, 0, 0, 0, 1],
    ]


def test_effects_stand_from_the_strongest_to_the_weakest() -> None:
    """Of six pairs matching turns B-C; and A-B, A-C and B-C where the last nucleus wins. Overlap turns A-B; and A-C and
    B-C where matching is loose, with another first place both times."""
    rows = [values_of(row) for row in part(audit_page(made()), "effects").rows]
    assert [row[:2] for row in rows] == [["matching", 1], ["overlap", 2]]
    assert [row[2] for row in rows] == pytest.approx([(1 / 6 + 3 / 6) / 2, (1 / 6 + 2 / 6) / 2], abs=1e-6)


def test_who_is_first_under_each_value_is_counted_by_hand() -> None:
    rows = [values_of(row) for row in part(audit_page(made()), "varied").rows]
    assert rows == [
        ["matching", "strict (own)", 2, "A 50 % and B 50 %"],
        ["matching", "loose", 2, "A 50 % and C 50 %"],
        ["overlap", "none (own)", 2, "A 100 %"],
        ["overlap", "last", 2, "B 50 % and C 50 %"],
    ]


def test_the_effect_of_a_rule_counts_boards_on_which_all_teams_share_a_place() -> None:
    """Of three pairs of teams none, all and all stand otherwise."""
    three = Dimension("threshold", ("0.5", "0.6", "0.9"), "0.5")
    position = np.array([[1, 2, 3], [1, 2, 3], [1, 1, 1.0]])
    document = document_of(audit_positions(("A", "B", "C"), (three,), [[0], [1], [2]], position, position, published=0))
    (effect,) = document["effects"]
    assert effect["first_changes"] == 2
    assert effect["pairs_changed"] == pytest.approx(2 / 3, abs=1e-6)


def test_shared_first_places_are_counted_in_parts() -> None:
    position = np.array([[1, 2], [1, 1], [1, 1], [2, 1.0]])
    rules = (Dimension("threshold", ("0.4", "0.5", "0.6", "0.7"), "0.4"),)
    document = document_of(audit_positions(("A", "B"), rules, [[0], [1], [2], [3]], position, position, published=0))
    assert [(of["first"], of["first_alone"], of["first_share"]) for of in document["teams"]] == [
        (3, 1, 0.5),
        (3, 1, 0.5),
    ]
    assert "'B' is first in 3 (shared in 2) of 4" in document["first_place"]["answer"][1]


def test_nothing_is_green_without_a_test() -> None:
    position = np.array([[1, 2], [1, 2.0]])
    rules = (Dimension("matching", ("strict", "loose"), "strict"),)
    found = [
        document_of(audit_positions(("A", "B"), rules, [[0], [1]], position, position, published=0, better=better))
        for better in (None, set(), {("B", "A")}, {("B", "A"), ("A", "B")})
    ]
    verdicts = [of["first_place"]["defended"] for of in found]
    assert verdicts == ["untested", "undecided", "undecided", "yes"]
    tones = [next(b for b in audit_page(of).sections[0].blocks if isinstance(b, Text)).tone for of in found]
    assert tones == ["warning", "warning", "warning", "good"]


def test_one_team_and_no_team_have_a_page() -> None:
    one = made([[1]] * 4, ["A"])
    assert len(part(audit_page(one), "audit-teams").rows) == 1
    nobody = made(np.empty((4, 0)), [], unranked=[Unranked("A", "no-value", "no rank in any variant")])
    page = audit_page(nobody)
    assert [row[0] for row in part(page, "unranked").rows] == ["A"]
    for found in (one, nobody):
        assert page_html(audit_page(found)).startswith("<!DOCTYPE html>")


def test_an_audit_stands_on_the_page_of_its_leaderboard() -> None:
    from boards import SEPARATE, ranked, table_of

    from evaluation.leaderboard.document import leaderboard_document

    board: Mapping[str, Any] = leaderboard_document(ranked(table_of([SEPARATE]))) | {"challenge": IDENTITY}
    page = leaderboard_page(board, audit=made())
    assert "effects" in {block.anchor for s in page.sections for block in s.blocks if isinstance(block, Table)}
    blocks = [block for section in page.sections for block in section.blocks]
    known = [block.anchor for block in blocks if isinstance(block, Table | Figure)]
    assert len(set(known)) == len(known)
    assert Text(tuple(made()["first_place"]["answer"]), "bad") in blocks


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_the_page_is_accessible_and_fits(browser, tmp_path: Path, width, scheme) -> None:
    names = ["<img src=x onerror=alert(1)>", "<b>B</b>", "'C' & \u202eco", "D" * 120]
    path = tmp_path / "audit.html"
    path.write_text(page_html(audit_page(made(names=names))), encoding="utf-8")
    with browser.open(path, width=width, scheme=scheme) as opened:
        opened.check()
        opened.screenshot("audit")
        assert names[0] in opened.page.locator("#audit-teams").inner_text()
        assert opened.page.locator("img[src=x]").count() == 0


def test_report_writes_the_page_beside_the_audit(tmp_path: Path) -> None:
    from test_audit import make

    challenge, submissions = make(tmp_path, audit={"overlap": [], "units": [], "methods": []})
    arguments = ["--challenge", challenge, "--submissions", submissions, "--output", tmp_path / "out"]
    assert cli.run(["audit", *map(str, arguments), "--workers", "1", "--report"]) == 0
    document = json.loads((tmp_path / "out/audit.json").read_text())
    assert (tmp_path / "out/audit.html").read_text() == page_html(audit_page(document))
