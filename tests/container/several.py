"""Runs in the image: scores several submissions one after the other, each by the program as the platform starts it.

    python several.py LIST

LIST is a JSON list of ``{"name", "submission", "ground_truth", "arguments", "seconds", "kill_a_worker"}``. For each of
them ``/input``, ``/output`` and the ground truth's folder lead to its own folders, and ``python -m evaluation score``,
the entrypoint of the image, runs in a process of its own under the limits of the container. Prints a line of JSON for
each: exit code, both outputs, files, seconds, and the processes that it left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

INPUT, OUTPUT, GROUND_TRUTH = Path("/tmp/input"), Path("/tmp/output"), Path("/tmp/ground_truth")


def main() -> None:
    for given in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps({"name": given["name"], **run(given)}), flush=True)


def run(given: dict[str, Any]) -> dict[str, Any]:
    for link, target in ((INPUT, given["submission"]), (GROUND_TRUTH, given["ground_truth"])):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    command = [sys.executable, "-m", "evaluation", "score", *given["arguments"]]
    began = time.monotonic()
    with Path("/tmp/out").open("w+b") as out, Path("/tmp/err").open("w+b") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        killed = kill_a_worker(process) if given["kill_a_worker"] else None
        code: int | None
        try:
            code = process.wait(given["seconds"])
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        took = time.monotonic() - began
        left = others()
        out.seek(0)
        err.seek(0)
        texts = out.read().decode("utf-8", "backslashreplace"), err.read().decode("utf-8", "backslashreplace")
    files = {path.name: path.read_bytes().decode() for path in OUTPUT.iterdir()}
    return {
        "code": code, "out": texts[0], "err": texts[1], "files": files, "seconds": took,
        "left": left, "killed": killed,
    }  # fmt: skip


LAUNCHERS = 1
TICKS = 3  # of the processor, 10 ms each: a worker has its first task by then


def kill_a_worker(process: subprocess.Popen[bytes]) -> bool:
    """Kill the first worker that works, as the kernel does where memory runs out; false: there was none.

    A worker is a child of the main process, which is the child of the one that watches it. Before the workers it has
    started the launcher of all that decode; its loss does no harm, nor does that of a worker that has no task yet.
    """
    while process.poll() is None:
        for main in children_of(process.pid):
            for worker in sorted(children_of(main))[LAUNCHERS:]:
                if ticks_of(worker) >= TICKS:
                    os.kill(worker, signal.SIGKILL)
                    return True
        time.sleep(0.002)
    return False


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # gone
        return []


def ticks_of(pid: int) -> int:
    """Return the processor time that a process has used, in ticks of 10 ms; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def others() -> list[int]:
    """Processes beside this one, after those that have just ended were waited for."""
    until = time.monotonic() + 60.0
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        running = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        found = [process for process in running if process != os.getpid()]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


if __name__ == "__main__":
    main()
