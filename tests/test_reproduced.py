"""docs/reproduced.md is what its command writes, and its numbers are the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reproduced import Row, page, reproduced

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reproduced.md"


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[Row]:
    return reproduced(shared_data)


def test_the_page_is_what_the_command_writes(rows: list[Row]) -> None:
    assert page(rows) == PAGE.read_text(encoding="utf-8")


def test_published_numbers_are_reached_unless_a_reason_is_given(rows: list[Row]) -> None:
    assert [row for row in rows if not row.is_equal and not row.reason] == []
    with_reason = {"lessons, Table 2", "MoNuSAC's forms, with the published faults"}
    assert {row.table for row in rows if row.reason} == with_reason
    assert all(abs(row.ours - row.published) <= 0.025 for row in rows if row.reason)


def test_a_number_that_differs_in_the_last_decimal_is_a_difference() -> None:
    row = Row("a", "b", 0.5793, 0.57936, 4, "paper")
    assert not row.is_equal and "| +0.0001 |" in row.text()
    assert Row("a", "b", 0.5793, 0.57934, 4, "paper").is_equal
