"""Real files of every format are read as other programs, or a literal decoder, read them. See ../shared/data."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from formats import masks_of, read

from evaluation.model import Case

# --- Data Science Bowl 2018 -------------------------------------------------------------------------------------------


def decoded(code: str, case: Case) -> Any:
    """A code painted pixel by pixel, down the columns from 1, bool (H, W)."""
    mask = np.zeros((case.height, case.width), np.bool_)
    words = code.split()
    for start, length in zip(words[::2], words[1::2], strict=True):
        for pixel in range(int(start) - 1, int(start) - 1 + int(length)):
            mask[pixel % case.height, pixel // case.height] = True
    return mask


@pytest.fixture(scope="module")
def bowl_rows(shared_data: Path) -> list[dict[str, str]]:
    with (shared_data / "dsb2018/stage1_solution.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def bowl(bowl_rows: list[dict[str, str]]) -> dict[str, Any]:
    """How the files are read."""
    cases = {
        row["ImageId"]: Case(row["ImageId"], row["ImageId"], int(row["Height"]), int(row["Width"])) for row in bowl_rows
    }
    return {"format": "rle_csv", "cases": cases, "pixel_order": "column", "first_pixel": 1}


def test_the_reference_of_the_bowl_is_what_a_literal_decoder_paints(shared_data, bowl, bowl_rows):
    found = read((shared_data / "dsb2018/stage1_solution.csv").read_bytes(), **bowl)
    nuclei = {name: said.parts[0] for name, said in found.cases.items()}
    assert (len(nuclei), sum(map(len, nuclei.values())), found.unknown) == (65, 4152, {})
    cases = bowl["cases"]
    smallest = sorted(cases, key=lambda name: sum(row["ImageId"] == name for row in bowl_rows))[:3]
    not_square = next(name for name, case in cases.items() if case.height != case.width)
    for name in {*smallest, not_square}:
        painted = [decoded(row["EncodedPixels"], cases[name]) for row in bowl_rows if row["ImageId"] == name]
        assert np.array_equal(masks_of(nuclei[name]), np.array(painted))


def test_every_image_of_gray53_has_an_empty_row_that_is_no_nucleus(shared_data, bowl):
    data = (shared_data / "dsb2018/submission_gray53.csv").read_bytes()
    lines = data.splitlines()[1:]
    assert sum(line.endswith(b",") for line in lines) == 65
    assert sum(len(said.parts[0]) for said in read(data, **bowl).cases.values()) == len(lines) - 65
