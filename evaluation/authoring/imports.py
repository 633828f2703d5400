"""Files of formats that are no formats of challenges, as files that are: for ``compare`` and ``convert``."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evaluation.challenge import LimitRules
from evaluation.decoding.guard import bounds_of, decode
from evaluation.findings import quote
from evaluation.formats.imports import kind_of
from evaluation.submission.files import FolderFiles, SubmissionFiles

READER = "evaluation.formats.imports:read_import"
PIXELS = 1 << 26  # for which memory is allowed, since the size of an image is not known before


def imported(path: Path, workspace: Path, *, name: str | None = None, dataset: str | None = None) -> Path:
    """A label image (.npy) or GeoJSON in the workspace, made of a file that is an import; of any other the path itself.

    name     of the file, for messages
    dataset  the path of the array in it

    Raises InputFault.
    """
    if (kind := kind_of(path)) is None:
        return path
    limit, shown = LimitRules().bytes_per_file, name or path.name
    with path.open("rb") as stream:
        bounds = bounds_of(path.stat().st_size, PIXELS, limit)
        asked = (kind, shown, dataset, limit)
        (content,) = decode(READER, [stream], asked, where=quote(shown, 120), owner=READER, bounds=bounds)
    made = Path(tempfile.mkdtemp(dir=workspace)) / "imported"
    if isinstance(content, str):
        made = made.with_suffix(".geojson")
        made.write_text(content)
        return made
    made = made.with_suffix(".npy")
    np.save(made, content, allow_pickle=False)
    return made


def pack(files: SubmissionFiles, parts: Iterable[str], top: str, workspace: Path) -> Path:
    """A Zarr store, whose parts lie below ``top``, as a ZIP in the workspace. Raises InputFault, OSError."""
    target = Path(tempfile.mkdtemp(dir=workspace)) / "store.zarr.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for part in parts:
            member = zipfile.ZipInfo(part.removeprefix(top).lstrip("/"))
            with files.open(part) as opened, archive.open(member, "w", force_zip64=True) as written:
                shutil.copyfileobj(opened, written)
    return target


def pack_folder(folder: Path, workspace: Path) -> Path:
    """A folder that is a Zarr store as a ZIP in the workspace. Raises SubmissionRejected, InputFault."""
    files = FolderFiles(folder, LimitRules())
    return pack(files, files.names, "", workspace)
