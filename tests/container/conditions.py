"""Runs in the image: the conditions that are in force, as a line of JSON, read off the kernel."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def main() -> None:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({
        "uid": os.getuid(),
        "gid": os.getgid(),
        "input": str(Path("/input").readlink()),
        "capabilities": {name: int(status[f"Cap{name}"], 16) for name in ("Prm", "Eff", "Bnd", "Amb")},
        "no_new_privileges": status["NoNewPrivs"].strip() == "1",
        "interfaces": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "memory": number("memory/memory.limit_in_bytes", "memory.max"),
        "memory_and_swap": memory_and_swap(),
        "pids": number("pids/pids.max", "pids.max"),
        "cpus": cpus(),
        "data": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "writable": [folder for folder in FOLDERS if is_writable(folder)],
    }))  # fmt: skip


FOLDERS = (
    "/", "/opt", "/opt/evaluation", "/opt/venv", "/etc", "/var/tmp", "/run",
    "/input/", "/opt/ml/input/data/ground_truth", "/tmp", "/output",
)  # fmt: skip


def is_writable(folder: str) -> bool:
    path = Path(folder) / "written-by-the-proof"
    try:
        path.write_bytes(b"")
        path.unlink()
    except OSError:
        return False
    return True


def number(old: str, new: str) -> int | None:
    """A limit of cgroup v1 or v2; None: there is none."""
    for path in (CGROUP / old, CGROUP / new):
        if path.is_file():
            text = path.read_text().strip()
            return int(text) if text.isdigit() else None
    return None


def memory_and_swap() -> int | None:
    if (CGROUP / "memory.max").is_file():
        memory, swap = number("", "memory.max"), number("", "memory.swap.max")
        if not (CGROUP / "memory.swap.max").is_file():
            swap = 0  # the kernel does not swap
        return None if memory is None or swap is None else memory + swap
    return number("memory/memory.memsw.limit_in_bytes", "")


def cpus() -> float | None:
    if (CGROUP / "cpu.max").is_file():
        quota, period = (CGROUP / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    quota, period = number("cpu/cpu.cfs_quota_us", ""), number("cpu/cpu.cfs_period_us", "")
    return quota / period if quota and period else None


if __name__ == "__main__":
    main()
