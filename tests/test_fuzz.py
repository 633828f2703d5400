"""A short run of the fuzzers, in a process of its own with a limit on memory; docs/development.md has long ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from processes import run_in_group

ROOT = Path(__file__).parent.parent


def test_mutated_files_are_read_or_refused_but_never_break_a_reader(tmp_path):
    command = [sys.executable, "-m", "fuzz", "--inputs", "150", "--workers", "1"]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = run_in_group(command, cpu_seconds=600, cwd=tmp_path, env=environment)
    assert done.stdout.endswith("0 failures\n"), done.stdout[-4000:] + done.stderr[-2000:]
