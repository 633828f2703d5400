"""Golden results and pages of frozen files, to the byte, and hashes of challenges.

``tests/golden/frozen`` holds the files that the demo wrote on 2026-11-22. The demo may change since; these files may
not. Every value that stands in a golden file must be found again at its path; further paths are no difference.
``./test.sh tests/test_golden.py --renew-golden`` writes the results anew; review them as a diff.
"""

from __future__ import annotations

import io
import json
import pickle
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from every_format import SIDES, challenge_document
from rich.console import Console

from evaluation import score_submission
from evaluation.challenge import Challenge, preset_names
from evaluation.commands.main import run
from evaluation.files.results import __version__
from evaluation.files.results.documents import as_json
from evaluation.report.folders import Sources, page_of_result, read_again
from evaluation.report.leaderboard import leaderboard_page, standing_of
from evaluation.report.page import Page
from evaluation.report.skills import read_results
from evaluation.report.studies import audit_page
from evaluation.report.terminal import block_renderables

GOLDEN = Path(__file__).parent / "golden"
FROZEN = GOLDEN / "frozen"
TEAMS = ("outliner", "finder", "namer")
MAY_DIFFER = {("software", "version")}


def values_by_path(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value below nested tables, with its path."""
    if isinstance(document, dict):
        for key, inner in document.items():
            yield from values_by_path(inner, (*path, key))
    else:
        yield path, document


def changes(golden: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What the golden file says and what was found, by path, where the two differ. A path that is gone is a change."""
    now = dict(values_by_path(found))
    return {
        ".".join(path): (value, now.get(path, "no such path"))
        for path, value in values_by_path(golden)
        if path not in MAY_DIFFER and (path not in now or now[path] != value)
    }


def compare_or_renew(name: str, found: dict[str, Any], request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    if request.config.getoption("--renew-golden"):
        path.write_text(json.dumps(json.loads(as_json(found)), indent=1, sort_keys=True) + "\n")
    assert changes(json.loads(path.read_text()), found) == {}


@pytest.mark.parametrize("team", TEAMS)
def test_metrics_of_the_frozen_challenge_are_golden(team: str, request: pytest.FixtureRequest) -> None:
    result = score_submission(FROZEN / "challenge", FROZEN / "submissions" / team)
    compare_or_renew(f"demo_{team}.json", result.metrics, request)


def test_every_matching_rule_family_and_measure_is_golden(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shutil.copytree(FROZEN / "challenge", tmp_path / "challenge")
    shutil.copy(FROZEN / "everything.toml", tmp_path / "challenge" / "challenge.toml")
    result = score_submission(tmp_path / "challenge", FROZEN / "submissions" / "finder")
    compare_or_renew("everything_finder.json", result.metrics, request)


def test_a_changed_value_and_a_path_that_is_gone_are_told_and_a_further_path_is_not() -> None:
    golden = {"a": {"b": 1.0, "c": None}, "d": 2, "software": {"version": "1"}}
    assert changes(golden, {**golden, "e": 3, "software": {"version": "2"}}) == {}
    assert changes(golden, {"a": {"b": 1.1}, "d": 2}) == {"a.b": (1.0, 1.1), "a.c": (None, "no such path")}


# --- golden pages: what the pages of a team, a board and an audit of the frozen demo say, part by part, folded on -----

# A difference is a change of what people read. ``./test.sh tests/test_golden.py --renew-golden`` writes the texts
# anew; review them as a diff. How a page looks is for the tests in a browser.


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
def test_a_page_says_what_the_golden_one_says(pages, name, request):
    path = GOLDEN / "pages" / f"{name}.txt"
    if request.config.getoption("--renew-golden"):
        path.write_text(text_of(pages[name]), encoding="utf-8")
    assert text_of(pages[name]) == path.read_text(encoding="utf-8")


# --- hashes of challenges, frozen: a change here means that results before and after cannot be compared ---------------

# ``./test.sh tests/test_golden.py --renew-golden`` adds those of new presets and formats; nothing else may change.


FROZEN_HASHES = Path(__file__).parent / "golden" / "challenge_hashes.json"
GROUND_TRUTH = Path(__file__).parents[1] / "ground_truth"
RULES = {
    "iou_above": {"threshold": 0.5},
    "iou_assignment": {"threshold": 0},
    "best_iou_centroid_inside": {},
    "best_iou_any_overlap": {},
    "centroid_closest_first": {"radius_px": 2.5},
    "centroid_assignment": {"radius_px": 2.5},
    "centroid_assignment after": {"radius_px": 2.5, "cutoff": "after"},
    "hausdorff_closest_first": {"radius_px": 3},
    "confidence_first": {"radius_px": 2.5},
    "confidence_first iou": {"threshold": 0.3},
}
COUNTS = {
    "reference": {"format": "counts_csv", "files": "counts.csv"},
    "submission": {
        "format": "counts_csv", "files": "counts.csv", "missing_case": "worst", "missing_class_file": "empty"
    },
    "matching": {"rules": ()},
    "metrics": {"families": ("counting",), "boundary": "open"},
}  # fmt: skip


def with_rule(name: str) -> Challenge:
    rule = {"name": "a", "rule": name.split()[0], "class_aware": True, "ties": "first_pixel", **RULES[name]}
    return Challenge.from_preset("monusac2020", name="frozen", matching={"rules": [rule]})


def challenges() -> dict[str, Challenge]:
    counts = {**challenge_document("geojson outlines"), **COUNTS}
    return {
        **{f"preset {name}": Challenge.from_preset(name, name="frozen") for name in preset_names()},
        **{f"format {kind}": Challenge.build(challenge_document(kind)) for kind in SIDES},
        **{f"rule {name}": with_rule(name) for name in RULES},
        "format counts_csv": Challenge.build(counts),
        "ground_truth": Challenge.load(GROUND_TRUTH),
    }


def test_the_hashes_of_challenges_are_what_they_were(request):
    found = {name: challenge.hash for name, challenge in challenges().items()}
    if request.config.getoption("--renew-golden"):
        FROZEN_HASHES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(FROZEN_HASHES.read_text())


def test_a_challenge_comes_back_from_a_worker_as_it_was():
    for challenge in (Challenge.build(challenge_document(kind)) for kind in SIDES):
        returned = pickle.loads(pickle.dumps(challenge))
        assert returned == challenge
        assert type(returned.reference) is type(challenge.reference)
