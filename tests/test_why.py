"""Every number of docs/why.md is that of the demo."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.why import experiments, pictures, removed_area, standalone
from evaluation import score_submission
from evaluation.board.sensitivity import study_sensitivity
from evaluation.folders.demo import DemoPaths

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
TEXT = (PICTURES.parent / "why.md").read_text(encoding="utf-8")


def tables() -> list[list[list[str]]]:
    """The cells of each table, its titles first."""
    blocks = re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)
    rows = ([re.split(r" *\| *", line.strip("| ")) for line in block.splitlines()] for block in blocks)
    return [[row for row in table if not row[0].startswith("---")] for table in rows]


def value_at(document: Any, path: str) -> float:
    for key in path.split("."):
        document = document[key]
    return float(document if not isinstance(document, dict) else document["group_mean"])


def numbers_of(demo: DemoPaths) -> dict[tuple[str, str], float]:
    """By the first cell of a row and the title of a column."""
    found: dict[tuple[str, str], float] = {}
    for team, submission in demo.submissions.items():
        document = score_submission(demo.challenge, submission, workers=1).metrics
        for table in tables():
            if table[0][0] == "team":
                found |= {(team, title): value_at(document, title.strip("`")) for title in table[0][1:]}
    for what, scores in experiments(demo).items():
        kind, _, amount = what.rpartition(" ")
        title = f"{amount} px" if kind == "eroded" else f"{100 * float(amount):.0f}%"
        found[kind, title] = scores["panoptic.pq"]
    for stratum in study_sensitivity(demo.challenge, workers=1)["strata"]:
        if stratum["size_px"] is None:
            for effect in stratum["effects"]:
                found[stratum["class"], f"`{effect['perturbation']}`"] = effect["measures"]["iou"]["median"]
    return found


@pytest.fixture(scope="module")
def numbers(demo: DemoPaths) -> dict[tuple[str, str], float]:
    return numbers_of(demo)


def test_the_page_has_the_numbers_of_the_demo(numbers: dict[tuple[str, str], float]) -> None:
    shown = [(row[0], title, cell) for table in tables() for row in table[1:]
             for title, cell in zip(table[0][1:], row[1:], strict=True)]  # fmt: skip
    assert len(shown) == 12 + 4 + 10 + 4 + 8 + 9
    assert [(row, title, cell) for row, title, cell in shown if f"{numbers[row, title]:.3f}" != cell] == []


def test_what_the_page_says_of_its_numbers_is_so(numbers: dict[tuple[str, str], float]) -> None:
    spread = {
        title: max(numbers[team, title] for team in ("finder", "namer", "outliner"))
        - min(numbers[team, title] for team in ("finder", "namer", "outliner"))
        for title in ("`panoptic.pq`", "`detection.f1`", "`segmentation.iou`")
    }
    assert spread["`panoptic.pq`"] < 0.01 and 0.235 < max(spread.values()) < 0.245
    assert numbers["outliner", "`panoptic.pq.pooled`"] > numbers["namer", "`panoptic.pq.pooled`"]
    assert numbers["outliner", "`panoptic.pq.case_mean`"] < numbers["namer", "`panoptic.pq.case_mean`"]
    assert numbers["Lymphocyte", "`eroded_1`"] < numbers["Lymphocyte", "`dilated_1`"]


def test_a_wrong_class_costs_more_than_a_missed_nucleus_and_erosion_as_much(
    numbers: dict[tuple[str, str], float],
) -> None:
    """With a share p missed PQ is RQ, 2 (1 - p) / (2 - p); a wrong class is a false positive, too."""
    assert all(numbers["wrong class", f"{p}%"] < numbers["missed", f"{p}%"] for p in (10, 20, 30, 40, 50))
    assert abs(numbers["missed", "40%"] - 0.6 / 0.8) < 0.02
    assert abs(numbers["missed", "40%"] - numbers["eroded", "2 px"]) < 0.005


def test_the_pictures_are_those_of_the_demo(demo: DemoPaths) -> None:
    drawn = {name: standalone(figure) for name, figure in pictures(demo).items()}
    assert [name for name in drawn if f"pictures/{name}.svg" not in TEXT] == []
    assert [name for name, text in drawn.items() if (PICTURES / f"{name}.svg").read_text("utf-8") != text] == []
    assert removed_area(demo, 2) == pytest.approx(0.24, abs=0.005)
