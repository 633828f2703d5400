"""What a file really holds, recognised by its first bytes."""

from __future__ import annotations

from typing import BinaryIO

from evaluation.findings import fault
from evaluation.findings.errors import InputFault

PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP_MAGIC = b"PK\x05\x06"
TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MHA_MAGICS = (b"ObjectType", b"NDims", b"Comment")
PARQUET_MAGIC = b"PAR1"
MAGICS = {
    (NPY_MAGIC,): "a NumPy file",
    TIFF_MAGICS: "a TIFF file",
    (b"\x89PNG",): "a PNG file",
    (ZIP_MAGIC, EMPTY_ZIP_MAGIC): "a ZIP file",
    (b"\x1f\x8b",): "a gzip file",
    (b"\xff\xd8\xff",): "a JPEG file",
    (b"GIF8",): "a GIF file",
    (HDF5_MAGIC,): "an HDF5 file",
    (b"MATLAB",): "a MATLAB file",
    MHA_MAGICS: "a MetaImage file",
}


def check_content(stream: BinaryIO, *, where: str, magics: tuple[bytes, ...], name: str) -> None:
    """Refuse a file that does not start as its format does; the stream is left at its start.

    magics, name   the first bytes of the format, and what it is called, such as "a TIFF file"

    Raises InputFault: pickle, wrong-format.
    """
    stream.seek(0)
    head = stream.read(16)
    stream.seek(0)
    if head.startswith(magics):
        return
    if head.startswith(PICKLES):
        raise InputFault(fault("pickle", where))
    raise InputFault(
        fault("wrong-format", where, wording="other-content", got=what_it_is(head) or "something else", name=name)
    )


def what_it_is(head: bytes) -> str:
    """What a file is by its first 16 bytes; "" if they say nothing.

    >>> what_it_is(b"GIF89a"), what_it_is(b"")
    ('a GIF file', 'an empty file')
    """
    if not head:
        return "an empty file"
    if head.lstrip().lower().startswith((b"<!doctype htm", b"<html")):
        return "a web page (HTML), such as the error of a download"
    return next((kind for starts, kind in MAGICS.items() if head.startswith(starts)), "")
