"""A submission goes down the house: few calls lead from a room up to one above it, and each has a reason."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path
from types import FrameType

import pytest

from evaluation.authoring.demo import DemoPaths
from evaluation.findings.errors import SubmissionRejected
from evaluation.scoring.street import score_submission

ROOT = Path(__file__).resolve().parents[1]
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer.split(" | ")}
CLIMBS = {
    ("execution", "scoring"),  # workers do what scoring gives them
    ("decoding", "formats"),  # the XML parser hands each element to the reader of the format
    ("scoring", "leaderboard"),  # of a challenge with a leaderboard, the result's metrics have the rank
}


class Trace:
    """The calls between functions of the program while it runs: which of them go up."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.climbs: set[tuple[str, str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        room = room_of(frame) if event == "call" else None
        if room is None or frame.f_code.co_name == "<module>":
            return
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        caller = frame.f_back
        while caller is not None and room_of(caller) is None:
            caller = caller.f_back
        above = None if caller is None else room_of(caller)
        if caller is not None and above is not None and DEPTH[room] < DEPTH[above]:
            self.climbs.add((above, caller.f_code.co_qualname, room, frame.f_code.co_qualname))


def room_of(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOT / "evaluation").parts[0] if path.is_relative_to(ROOT / "evaluation") else None


@pytest.mark.parametrize("rejected", [False, True])
def test_a_submission_goes_up_at_most_fifteen_times(own_demo: DemoPaths, rejected: bool, tmp_path: Path) -> None:
    submission = next(iter(sorted(own_demo.challenge.parent.glob("submissions/*"))))
    cases = own_demo.challenge / "cases.csv"
    cases.write_text("".join(cases.read_text().splitlines(True)[:4]))
    for patient in ("P3", "P4"):
        shutil.rmtree(submission / patient)
    if rejected:
        next(path for path in submission.rglob("*") if path.is_file()).write_text("[")
    trace = Trace()
    sys.setprofile(trace)
    try:
        score_submission(own_demo.challenge, submission, workers=1)
    except SubmissionRejected:
        assert rejected
    else:
        assert not rejected
    finally:
        sys.setprofile(None)
    assert len(trace.functions) > 300
    assert len(trace.climbs) <= 15
    assert {(caller, room) for caller, _, room, _ in trace.climbs} <= CLIMBS
