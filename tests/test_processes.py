"""What tests start ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from processes import run_in_group

TESTS = Path(__file__).parent
SPIN = "while True: pass"


def test_a_process_that_uses_too_much_processor_time_is_killed() -> None:
    done = run_in_group([sys.executable, "-c", SPIN], cpu_seconds=1)
    assert done.returncode in (-signal.SIGKILL, -signal.SIGXCPU)


def test_what_a_process_prints_and_returns_is_there() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_in_group([sys.executable, "-c", code], cpu_seconds=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_grandchildren_are_gone_when_the_call_returns() -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid)"
    done = run_in_group([sys.executable, "-c", code], cpu_seconds=60)
    assert is_gone(int(done.stdout))


def test_a_process_that_ends_with_its_parent_is_gone_when_the_parent_is_killed() -> None:
    """The parent is killed while its child spins; nothing of the parent runs any more."""
    child = f"from processes import end_with_parent; end_with_parent(); print('ready', flush=True)\n{SPIN}"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        try:
            running.kill()
            running.wait()
            assert is_gone(pid)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    """Whether a process that was killed has ended; it may take the kernel a moment."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("only Linux tells what is running")
    handle = None
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
    if handle is None:
        return True
    import select

    ended = bool(select.select([handle], [], [], 60)[0])
    os.close(handle)
    return ended
