"""What the benchmarks print, from made-up measurements. Nothing here is timed."""

from __future__ import annotations

import json

import pytest

from benchmarks import files, run

MEASURED = {
    "floor": [
        {"seconds": 0.3, "processor": 0.25, "memory": 57.0},
        {"seconds": 0.26, "processor": 0.26, "memory": 57.5},
    ],
    "one": [{"seconds": 1.3, "processor": 1.6, "memory": 84.0}, {"seconds": 1.4, "processor": 1.5, "memory": 85.0}],
    "stardist": [{"seconds": 4.0, "processor": 4.0, "memory": 1600.0}] * 2,
}


def test_ratios_from_files_are_of_the_shortest_rounds():
    rows = [line.split(" | ") for line in files.table(MEASURED).splitlines()[4:]]
    last = str(json.loads(files.LAST_RELEASE.read_text())["ratios"]["one"])
    assert rows == [
        ["| `tifffile.imread` of both sides", "0.26 (0.28)", "0.25", "1.0", "1.0", "57 |"],
        ["| `evaluation score --workers 1`", "1.30 (1.35)", "1.50", "6.0", last, "84 |"],
        ["| stardist, `imread` and `matching_dataset`", "4.00 (4.00)", "4.00", "16.0", "", "1,600 |"],
    ]


def test_a_contender_that_failed_keeps_its_row():
    outcomes = {
        "counts": run.Outcome(times=(0.1, 0.2), ratios=(2.0,), peak=1.1, pairs=9, description="made up"),
        "cellpose": run.Outcome(times=(1.0,), ratios=(20.0,), peak=2.0, pairs=9),
        "hover_net": run.Outcome(failure="not done after 3 minutes"),
    }
    lines = run.table("set", outcomes, rounds=1).splitlines()
    assert [line.split(" | ")[1:4] for line in lines[-3:-1]] == [
        ["0.100 (0.150)", "2.0, goal: at most 2", ""],
        ["1.000 (1.000)", "20.0", "10.0"],
    ]
    assert lines[-1].startswith("| HoVer-Net") and "not done after 3 minutes" in lines[-1]


def test_only_what_stands_between_the_markers_is_renewed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")
    run.write_between_markers(page, "new")
    assert page.read_text() == f"before\n{run.BEGIN}\n\nnew\n\n{run.END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="has no lines"):
        run.write_between_markers(page, "new")
