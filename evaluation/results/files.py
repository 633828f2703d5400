"""Writing results: a file is there whole or not at all, and so are files that belong together."""

from __future__ import annotations

import fcntl
import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

written: list[str] = []  # names of the files that this process has put in place: what one that is stopped can say


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name in the same folder, then rename it over ``path``."""
    write_together(path.parent, {path.name: content})


def write_together(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files that belong together under temporary names, then rename them in order.

    So the last one is there only if all are, of the same call, even if two programs write into the folder. After a
    fault, a full disk for instance, no file of this call is there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = {name: folder / f".{name}.{secrets.token_hex(4)}" for name in contents}
    placed: list[str] = []
    try:
        for name, content in contents.items():
            write_new(temporary[name], content.encode() if isinstance(content, str) else content)
        with undisturbed(folder):
            if len(contents) > 1:
                (folder / list(contents)[-1]).unlink(missing_ok=True)  # of an earlier call
            for name, path in temporary.items():
                path.replace(folder / name)
                placed.append(name)
            written.extend(placed)
            placed.clear()
    except BaseException:
        for path in (*temporary.values(), *(folder / name for name in placed)):
            path.unlink(missing_ok=True)
        raise


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, to the disk."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    path.chmod(0o644)


@contextmanager
def undisturbed(folder: Path) -> Iterator[None]:
    """No other program puts files into the folder meanwhile, and signals wait."""
    handle = os.open(folder, os.O_RDONLY)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def remove_results(folder: Path) -> None:
    """Remove the files of an earlier result, metrics.json first; others stay."""
    for name in ("metrics.json", "details.json", "objects.csv"):
        (folder / name).unlink(missing_ok=True)
