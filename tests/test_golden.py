"""Golden results: frozen files, scored to six decimals. A difference is a change of rules; see CHANGELOG.md.

``tests/golden/frozen`` holds the files that the demo wrote on 2026-11-22. The demo may change since; these files may
not. Every value that stands in a golden file must be found again at its path; further paths are no difference.
``./test.sh tests/test_golden.py --renew-golden`` writes the results anew; review them as a diff.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation import score_submission
from evaluation.results.documents import as_json

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
        path.write_text(as_json(found))
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
