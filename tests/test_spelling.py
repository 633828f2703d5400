"""Every page spells the name of a metric in one way, and shows no key of metrics.json in its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from evaluation.commands.main import run
from evaluation.leaderboard.titles import NAMES, metric_title
from evaluation.report.folders import read_result

NOT_SHOWN = ("script", "style", "code")


class ShownTexts(HTMLParser):
    """What a page shows as text, and the words in its plots."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_SHOWN:
            self.open.append("plots" if dict(attrs).get("id") == "page_figures" else tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in NOT_SHOWN:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open == ["plots"]:
            self.texts += words_of_plots(json.loads(data))
        elif not self.open:
            self.texts.append(data)


def words_of_plots(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from words_of_plots(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ("id", "anchor", "name_of_file"):
                yield from words_of_plots(item)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, of the demo."""
    folder = tmp_path_factory.mktemp("spelling")
    assert run(["demo", "--output", str(folder), "--workers", "1"]) == 0
    challenge = ["--challenge", str(folder / "challenge")]
    teams = [*challenge, "--submissions", str(folder / "submissions"), "--workers", "1", "--report"]
    board = folder / "board"
    assert run(["leaderboard", *teams, "--output", str(board)]) == 0
    assert run(["audit", *teams, "--output", str(folder / "audit")]) == 0
    assert run(["audit", "--tricks", *teams, "--output", str(folder / "audit")]) == 0
    assert run(["sensitivity", *challenge, "--output", str(folder / "sensitivity"), "--report"]) == 0
    public = ["report", "--results", str(board / "results/finder"), "--public", "--output", str(folder / "public.html")]
    assert run(public) == 0
    found = {
        "board": board / "leaderboard.html",
        "team": board / "results/finder/report.html",
        "case": board / "cases/P1_1.html",
        "audit": folder / "audit/audit.html",
        "tricks": folder / "audit/tricks.html",
        "sensitivity": folder / "sensitivity/sensitivity.html",
        "public": folder / "public.html",
    }
    assert all(path.is_file() for path in found.values())
    return found


def test_every_page_spells_a_metric_in_one_way(pages: dict[str, Path]) -> None:
    result = read_result(pages["team"].parent)
    names = {metric_title(path) for path in result.paths if ".per_class." not in path}
    long_names = [name for name in names if len(name) > 3]
    keys = {name for path in result.paths if "_" in (name := path.rpartition(".")[2])}
    short = {name.lower(): name for name in NAMES.values() if re.fullmatch(r"[A-Z][A-Za-z]*[A-Z0-9]\w*", name)}
    seen, wrong = set(), set()
    as_written = ", ".join(result.rules["metrics"]["measures"])  # in challenge.toml, in the table of rules
    for kind, path in pages.items():
        for text in set(ShownTexts(path.read_text(encoding="utf-8")).texts) - {as_written}:
            for name in long_names:
                for found in re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
                    seen.add(name)
                    if found[1:] != name[1:] or found[0].lower() != name[0].lower():
                        wrong.add((kind, found, name))
            for word in re.findall(r"(?<![\w./-])[A-Za-z]\w*(?![\w./-])", text):
                if word in keys or (word.lower() in short and word != short[word.lower()]):
                    wrong.add((kind, word, text[:80]))
            for other in re.findall(r"class mean (?:IoU|Dice)|(?:IoU|Dice),? class mean|mean (?:IoU|Dice) of", text):
                wrong.add((kind, other, text[:80]))
    assert wrong == set()
    assert {"detection F1", "balanced accuracy", "IoU (class mean)", "detection macro F1"} <= seen
