"""Processes of tests: limited by processor time, never by the clock, and gone when the test is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

IS_LINUX = sys.platform == "linux"
if IS_LINUX:
    import resource

SET_PARENT_DEATH_SIGNAL = 1  # prctl of Linux


def run_in_group(command: Sequence[str], *, cpu_seconds: int, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process group of its own; whatever happens, nothing of the group is left.

    cpu_seconds  processor time of each of its processes, after which the kernel kills it
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=IS_LINUX, **options)
        try:
            if IS_LINUX:
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
            process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL) if IS_LINUX else process.kill()
            process.wait()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(list(command), process.returncode, *texts)


def end_with_parent() -> None:
    """Called in a process: the kernel kills it when the process that started it has ended, however that ended."""
    with suppress(AttributeError, OSError):  # only Linux has it
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
