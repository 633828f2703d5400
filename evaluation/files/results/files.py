"""Writing results: a file is there whole or not at all, and so are files that belong together."""

from __future__ import annotations

import mmap
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from evaluation.files.system import STOPPING, held_signals, lock_handle, long_path

# How many metrics.json, and how many files in all, were put in place: what a program that is stopped can say, and the
# process that watches it and was forked from this one.
_placed_counts = memoryview(mmap.mmap(-1, 16)).cast("Q")


def _count_placed(names: Iterable[str]) -> None:
    for name in names:
        _placed_counts[0] += name == "metrics.json"
        _placed_counts[1] += 1


def note_of_placed() -> str:
    """Name the complete results or files; "" if there are none."""
    results, files = _placed_counts
    what = f"results that were complete before are kept: {results}" if results else ""
    return what or (f"files that were complete before are kept: {files}" if files else "")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name in the same folder, then rename it over ``path``."""
    write_together(path.parent, {path.name: content})


def write_together(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files that belong together under temporary names, then rename them in order.

    So the last file exists only if all files of the same run exist, even if two programs write into the folder. After a
    fault, such as a full disk or (on Windows) a file open in another program, the earlier files remain, and no new file
    exists.
    """
    folder = long_path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = {name: folder / f".{name}.{secrets.token_hex(4)}" for name in contents}
    names = [*contents][::-1] if len(contents) > 1 else []  # one file is replaced in one step
    old = {name: folder / f".{name}.{secrets.token_hex(4)}" for name in names}
    undo: list[tuple[Path, Path]] = []
    with _alone_in(folder) as is_alone:
        try:
            for path in _unfinished(folder, contents) if is_alone and len(contents) > 1 else ():
                path.unlink()
            for name, content in contents.items():
                write_new(temporary[name], content.encode() if isinstance(content, str) else content)
            with held_signals(STOPPING):
                for name, before in old.items():  # of an earlier call, the last first
                    if (target := folder / name).is_symlink() or target.is_file():
                        target.rename(before)
                        undo.append((before, target))
                for name, path in temporary.items():
                    path.replace(target := folder / name)
                    undo.append((target, path))
                _count_placed(contents)
                undo.clear()
        except BaseException:
            for now, then in reversed(undo):
                with suppress(OSError):
                    now.replace(then)
            raise
        finally:
            for path in (*temporary.values(), *(old.values() if not undo else ())):
                with suppress(OSError):
                    path.unlink(missing_ok=True)


@contextmanager
def all_or_none(folder: Path) -> Iterator[Callable[[str, bytes], None]]:
    """Gives a function that keeps a file by its name; at the end of the block all are renamed into ``folder``.

    They are kept in a hidden folder on the same file system, in ``folder`` or the first of its parents that exists.
    After a fault, in the block or of a rename, the files that were there before are there, and nothing else.
    """
    folder = long_path(folder)
    new = list(takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    near = (folder, *folder.parents)[len(new)]
    names: list[str] = []
    with TemporaryDirectory(prefix=".evaluation-", dir=near) as workspace:

        def keep(name: str, content: bytes) -> None:
            write_new(Path(workspace) / str(len(names)), content)
            names.append(name)

        yield keep
        undo: list[tuple[Path, Path]] = []
        with held_signals(STOPPING):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for number, name in enumerate(names):
                    path_there, target = Path(workspace) / str(number), folder / name
                    if os.path.lexists(target):
                        target.rename(before := path_there.with_suffix(".before"))
                        undo.append((before, target))
                    path_there.rename(target)
                    undo.append((target, path_there))
            except BaseException:
                for now, then in reversed(undo):
                    with suppress(OSError):
                        now.rename(then)
                for path in new:
                    with suppress(OSError):
                        path.rmdir()
                raise
            _count_placed(names)


def _unfinished(folder: Path, names: Iterable[str]) -> list[Path]:
    """Find temporary files that a killed program left while writing these files."""
    known = re.compile(rf"\.({'|'.join(map(re.escape, names))})\.[0-9a-f]{{8}}")
    return [path for path in folder.iterdir() if known.fullmatch(path.name) and path.is_file()]


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, to the disk."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    path.chmod(0o644)


@contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Lock the folder against other runs of this program; False if the file system has no locks."""
    from filelock import lock_descriptor  # late: most commands write once, some never

    handle = lock_handle(folder)
    is_alone = False
    try:
        with suppress(OSError):  # some network file systems
            is_alone = lock_descriptor(handle)
        yield is_alone
    finally:
        os.close(handle)


RESULTS = ("metrics.json", "details.json", "objects.csv")


def remove_results(folder: Path) -> None:
    """Remove the files of an earlier result, metrics.json first, and unfinished files; other files stay."""
    if not folder.is_dir():
        return
    for name in RESULTS:
        (folder / name).unlink(missing_ok=True)
    if _unfinished(folder, RESULTS):
        with _alone_in(folder) as is_alone:
            for path in _unfinished(folder, RESULTS) if is_alone else ():
                path.unlink()
