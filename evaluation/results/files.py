"""Writing results: a file is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name in the same folder, then rename it over ``path``."""
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def remove_results(folder: Path) -> None:
    """Remove the files of an earlier result, metrics.json first; others stay."""
    for name in ("metrics.json", "details.json", "objects.csv"):
        (folder / name).unlink(missing_ok=True)
