"""Golden pages: what the pages of a team, a board and an audit of the frozen demo say, part by part, folded ones too.

A difference is a change of what people read. ``./test.sh tests/test_golden_pages.py --renew-golden`` writes the texts
anew; review them as a diff. How a page looks is for the tests in a browser.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evaluation.commands.main import run
from evaluation.report.folders import Sources, page_of_result, read_again
from evaluation.report.leaderboard import leaderboard_page, standing_of
from evaluation.report.page import Page
from evaluation.report.skills import read_results
from evaluation.report.studies import audit_page
from evaluation.report.terminal import block_renderables
from evaluation.results.version import __version__

GOLDEN = Path(__file__).parent / "golden"
AUDIT = '\n[audit]\nthresholds = [0.5, 0.7]\noverlap = []\nunits = []\nmethods = ["mean_of_ranks"]\n'


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Page]:
    """The pages of the frozen demo, by name."""
    folder, submissions = tmp_path_factory.mktemp("golden"), GOLDEN / "frozen/submissions"
    challenge = Path(shutil.copytree(GOLDEN / "frozen/challenge", folder / "challenge", copy_function=shutil.copyfile))
    rules = challenge / "challenge.toml"
    rules.write_text(rules.read_text().partition("\n[audit]")[0] + AUDIT)
    where = ["--challenge", str(challenge), "--submissions", str(submissions), "--workers", "1"]
    for command in ("leaderboard", "audit"):
        assert run([command, *where, "--output", str(folder / "out")]) == 0
    board, audit = (json.loads((folder / "out" / f"{name}.json").read_text()) for name in ("leaderboard", "audit"))
    read = read_again(folder / "out/results/finder", Sources(challenge, submissions / "finder"), workers=1)
    return {
        "team": page_of_result(read, standing=standing_of(board, "finder")),
        "board": leaderboard_page(board, results=read_results(folder / "out", board)),
        "audit": audit_page(audit),
    }


def text_of(page: Page) -> str:
    """Everything on a page but its version, of tables twelve rows, and where its columns are explained."""
    console = Console(file=io.StringIO(), width=170, highlight=False, color_system=None)
    for section in page.sections:
        console.print(
            f"{'▸' if section.folded else '#'} {section.title} ({section.anchor})\n{section.lead}", markup=False
        )
        for block in section.blocks:
            parts: list[Any] = block_renderables(block, 12)
            console.print(*parts, sep="\n")
    console.print(*(f"{name}: {value}" for name, value in page.facts), sep="\n", markup=False)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().replace(__version__, "VERSION").splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


@pytest.mark.parametrize("name", ["team", "board", "audit"])
def test_a_page_says_what_the_golden_one_says(
    pages: Mapping[str, Page], name: str, request: pytest.FixtureRequest
) -> None:
    path = GOLDEN / "pages" / f"{name}.txt"
    if request.config.getoption("--renew-golden"):
        path.write_text(text_of(pages[name]), encoding="utf-8")
    assert text_of(pages[name]) == path.read_text(encoding="utf-8")
