"""MetaImage and NRRD headers whose data lie in a file beside them (.mhd, .nhdr): for references only.

A header of a submission never names another file. Of a reference, both files become one, as which they are then read.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path

from evaluation.decoding.streams import stream_size
from evaluation.findings.errors import InputFault
from evaluation.findings.labels import OtherDataFile

ATTACHED = {".mhd": ".mha", ".nhdr": ".nrrd"}
HEADER_BYTES = 1 << 16
DATA_FILE = {
    ".mhd": re.compile(rb"^(ElementDataFile *= *)(.*?)\s*\Z", re.MULTILINE | re.IGNORECASE),
    ".nhdr": re.compile(rb"^(data ?file *: *)(.*?)\r?$\n?", re.MULTILINE | re.IGNORECASE),
}


def attached_name(name: str) -> str:
    """What a file is called when its data follow its header.

    >>> attached_name("P1/a.mhd"), attached_name("a.tif")
    ('P1/a.mha', 'a.tif')
    """
    suffix = Path(name).suffix
    return name.removesuffix(suffix) + ATTACHED[suffix] if suffix in ATTACHED else name


def open_attached(path: Path, *, where: str, bytes_limit: int) -> BytesIO:
    """The header with its data behind it. Raises InputFault ("external-data", "too-large"), OSError.

    The header must name one file of the same folder, not a list or pattern of files.
    """
    with path.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
    found = DATA_FILE[path.suffix].search(header)
    name = found[2].decode("latin-1").removeprefix("./") if found else ""
    if found is None or not re.fullmatch(r"(?!LIST)[^%/\\\x00]+", name):
        raise InputFault(OtherDataFile(name).at(where))
    with (path.parent / name).open("rb") as stream:
        stream_size(stream, where=where, bytes_limit=bytes_limit)
        data = stream.read()
    if path.suffix == ".mhd":
        return BytesIO(header[: found.start()] + b"ElementDataFile = LOCAL\n" + data)
    text = (header[: found.start()] + header[found.end() :]).rstrip()
    return BytesIO(text + b"\n\n" + data)
