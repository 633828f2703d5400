"""What was fetched from storage, kept on this machine: a folder for each key, the least used are removed.

A folder is filled under a temporary name and renamed. Who uses one holds a shared lock on it; who removes one needs the
lock alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CACHE_BYTES = 10_000_000_000  # of all that is kept, and no more than half of what the disk has for it
VARIABLE = "EVALUATION_CACHE"


def cache_folder() -> Path:
    """``$EVALUATION_CACHE``, else a folder among the temporary files of this machine that only its user can read."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).absolute()
    return Path(tempfile.gettempdir()).absolute() / f"evaluation-cache-{os.getuid()}"


@contextmanager
def cached(key: str, size: int, fill: Callable[[Path], None], *, root: Path | None = None) -> Iterator[Path]:
    """The folder of a key, filled if it is not there; nobody removes it until the end.

    key    its name, with its size in bytes behind the last hyphen
    fill   is called with an empty folder
    """
    root = root or cache_folder()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if VARIABLE not in os.environ and (root.is_symlink() or root.stat().st_uid != os.getuid()):
        with tempfile.TemporaryDirectory(prefix="evaluation-") as own:  # somebody else made this folder
            fill(Path(own))
            yield Path(own)
        return
    folder = root / key
    while (handle := locked(folder, fcntl.LOCK_SH)) is None:
        remove_unused(root, size)
        new = Path(tempfile.mkdtemp(prefix=".", dir=root))
        try:
            fill(new)
            with suppress(OSError):  # another process was faster
                new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    try:
        os.utime(folder)
        yield folder
    finally:
        os.close(handle)


def locked(folder: Path, lock: int) -> int | None:
    """A handle that locks a folder; None if it is not there, or in use."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, lock)
        if folder.stat().st_ino == os.fstat(handle).st_ino:
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


def remove_unused(root: Path, coming: int) -> None:
    """Remove what was not used for the longest time until there is room for as many bytes."""
    kept = []
    for folder in root.iterdir():
        with suppress(OSError, ValueError):
            kept.append((folder.stat().st_mtime, int(folder.name.rpartition("-")[2]), folder))
    total = sum(size for _, size, _ in kept)
    room = min(CACHE_BYTES, (total + shutil.disk_usage(root).free) // 2)
    for _, size, folder in sorted(kept):
        if total + coming <= room:
            break
        handle = locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if handle is not None:
            gone = root / f".{folder.name}"
            folder.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            os.close(handle)
            total -= size
