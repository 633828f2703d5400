"""The plan of a challenge from a pilot: power by simulation."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from evaluation.analysis.plan import NUMBERS, plan_column, plan_lines, smallest_of
from evaluation.commands.main import run

KEPT = Path(__file__).parent / "golden" / "kept_0.1"
LEVEL = 0.05 / 45  # ten teams


def theory(units: int, effect: float) -> float:
    """The power of a paired t-test, two-sided level, counted on the right side only: noncentral t."""
    limit = scipy.stats.t.ppf(1 - LEVEL / 2, units - 1)
    return float(scipy.stats.nct.sf(limit, units - 1, effect * np.sqrt(units)))


def test_the_power_is_that_of_the_t_test_for_normal_differences() -> None:
    draw = np.random.default_rng(3)
    values = np.stack([np.zeros(4000), draw.normal(scale=0.1, size=4000)])
    found = plan_column("x", values, 0.05, LEVEL, draw)
    assert found.spread == pytest.approx(0.1, rel=0.05)
    for units, power in zip(NUMBERS, found.power, strict=True):
        assert power == pytest.approx(theory(units, 0.5), abs=0.06), units
    assert found.needed == next(units for units in NUMBERS if theory(units, 0.5) >= 0.8)


def test_the_smallest_difference_has_a_power_of_four_fifths() -> None:
    draw = np.random.default_rng(3)
    smallest = smallest_of(draw.normal(size=4000), 30, LEVEL, draw)
    assert theory(30, smallest) == pytest.approx(0.8, abs=0.05)


def test_a_column_that_no_number_of_groups_decides_is_told() -> None:
    draw = np.random.default_rng(3)
    values = np.stack([np.zeros(40), draw.normal(scale=5, size=40)])
    assert plan_column("x", values, 0.01, LEVEL, draw).needed is None


def test_noisy_columns_are_left_out_of_what_is_proposed() -> None:
    column = {"spread": 0.1, "smallest": 0.05, "direction": "descending"}
    columns = [
        {**column, "path": "detection.f1.pooled", "needed": 10, "noisy": False},
        {**column, "path": "counting.r2.pooled", "needed": None, "noisy": True},
    ]
    lines = plan_lines({"columns": columns, "margin": 0.02, "groups": 12})
    assert "too noisy" in lines[1] and "too noisy" not in lines[0]
    ranking = tomllib.loads("\n".join(lines[3:]))["ranking"]
    assert ranking["columns"] == [{"path": "detection.f1.pooled", "direction": "descending", "margin": 0.02}]


def test_a_pilot_of_two_groups_is_too_small(capfd) -> None:
    places = ["--challenge", str(KEPT / "challenge"), "--results", str(KEPT / "first")]
    assert run(["plan", *places]) == 2
    assert "2 teams with values of 2 groups" in capfd.readouterr().err


def test_the_command_plans_from_results(tmp_path: Path, capfd) -> None:
    """Ten patients, made of two: the details of each team under other names."""
    shutil.copytree(KEPT / "challenge", tmp_path / "challenge")
    rows = [f"P{n}_1,P{n},280,330,0.25" for n in range(1, 11)]
    (tmp_path / "challenge/cases.csv").write_text("case,group,height,width,spacing_um\n" + "\n".join(rows) + "\n")
    from evaluation.challenge import Challenge

    new = Challenge.load(tmp_path / "challenge").hash
    for team in ("finder", "namer"):
        folder = tmp_path / "results" / team
        folder.mkdir(parents=True)
        for name in ("metrics.json", "details.json"):
            document = json.loads((KEPT / "first" / team / name).read_text())
            document["challenge"]["hash"] = new
            if name == "details.json":
                for kind, end in (("cases", "_1"), ("groups", "")):
                    old = document[kind]
                    document[kind] = {f"P{n}{end}": old[f"P{1 + n % 2}{end}"] for n in range(1, 11)}
            (folder / name).write_text(json.dumps(document))
    places = ["--challenge", str(tmp_path / "challenge"), "--results", str(tmp_path / "results")]
    assert run(["plan", *places, "--margin", "0.05", "--teams", "2", "--output", str(tmp_path / "out")]) == 0
    told = capfd.readouterr().out
    document = json.loads((tmp_path / "out/plan.json").read_text())
    assert document["groups"] == 10 and "detection.f1.group_mean: spread" in told
    f1 = [
        json.loads((tmp_path / "results" / team / "details.json").read_text())["groups"] for team in ("finder", "namer")
    ]
    of = [[each[f"P{n}"]["rules"]["iou_above"]["scores"]["detection"]["f1"] for n in range(1, 11)] for each in f1]
    assert document["columns"][0]["spread"] == pytest.approx(np.std(np.subtract(*of), ddof=1), abs=1e-6)
