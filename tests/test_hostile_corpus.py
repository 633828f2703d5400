"""Every submission of the hostile corpus gets the code that it must get, within the limits of time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hostile.corpus import CORPUS
from hostile.run import SECONDS, check, judge
from processes import run_in_group

from evaluation.challenge.formats import FORMATS
from evaluation.findings.pages import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
PARTS = 4
BY_NAME = {record.name: record for record in CORPUS}


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_submissions_are_refused_as_they_must_be(part: int) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "hostile.run", "--part", f"{part}/{PARTS}"]
    done = run_in_group(command, cpu_seconds=600, env=environment)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [line for line in told if "wrong" in line]
    assert [f"{line['name']}: {fault}" for line in ended for fault in line["wrong"]] == []
    last = told[-1]["name"] if told else "the beginning"
    assert (done.returncode, done.stderr) == (0, ""), last
    assert len(ended) == len(CORPUS[part::PARTS]) > 120


def test_more_memory_than_the_limit_is_not_to_be_had():
    code = "from hostile.run import prepare; prepare(); bytearray(3 << 30)"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert ended.stderr.strip().endswith("MemoryError")


def test_every_format_meets_hostile_files():
    kinds = {record.kind.split()[0] for record in CORPUS if record.code is not None}
    assert set(FORMATS) - {"counts_csv"} <= kinds


def test_names_of_hostile_submissions_are_different_and_their_codes_known():
    assert len(BY_NAME) == len(CORPUS)
    assert {record.code for record in CORPUS} - {None} <= {
        code for code, page in CATALOGUE.items() if page.severity == "error"
    }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"code": "not-json"}, "errors ['empty-polygon'], expected ['not-json']"),
        ({"code": None}, "errors ['empty-polygon'], expected []"),
        ({"warns": ("left-out",)}, "warnings [], expected ['left-out']"),
        ({"says": "elephant"}, "'elephant' is in none of"),
        ({"nuclei": 3}, "None nuclei, expected 3"),
    ],
)
def test_the_judge_tells_what_is_not_as_expected(changes, told, tmp_path):
    record = BY_NAME["json polygons without a vertex"]
    outcome = check(record, tmp_path)
    assert judge(record, outcome) == []
    (wrong,) = judge(replace(record, **changes), outcome)
    assert wrong.startswith(told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seconds": SECONDS + 0.5}, f"{SECONDS + 0.5} s"),
        ({"last": "a" * 1001}, "the last line has 1,001 characters"),
        ({"last": "a\x1b[31m"}, "a line of 6 characters, printable: False"),
        ({"crash": "KeyError"}, "KeyError"),
    ],
)
def test_the_judge_sees_time_and_length(changes, told, tmp_path):
    record = BY_NAME["json polygons without a vertex"]
    (wrong,) = judge(record, {**check(record, tmp_path), **changes})
    assert wrong.startswith(told)
