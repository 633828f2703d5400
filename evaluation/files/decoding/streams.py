"""Reading untrusted files: sizes are checked before memory is taken, and decompression is bounded.

Also detects the type of a file from its first bytes.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.challenge import LimitRules
from evaluation.findings.errors import InputFault, refused

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SMALLER_INTEGERS = "Write a smaller type of integers, such as int32."
SPLIT = "Split the file."
IN_PARTS = "Write a format that is read in parts, such as tiled TIFF."
COORDINATE_LIMIT = 1e9  # px from the origin
GZIP, ZLIB_OR_GZIP = 16 + zlib.MAX_WBITS, 32 + zlib.MAX_WBITS


class CutOff(Exception):
    """The data stop before their end, or cannot be decompressed. Never leaves the readers of this package."""


class Damaged(Exception):
    """The header of a file contradicts its format. Never leaves the readers of this package."""


@contextmanager
def damage_told(where: str, name: str, *, fix: str = SMALLER_INTEGERS) -> Iterator[None]:
    """Turn CutOff, Damaged and MemoryError into findings: "unreadable-file", "wrong-format", "too-large".

    where   the file, for messages
    name    the expected type, such as "a TIFF file"
    fix     how to make it fit into memory: the limits of a challenge may be wider
    """
    try:
        yield
    except CutOff:
        raise cut_off(where) from None
    except Damaged as error:
        raise refused("wrong-format", where, wording="damaged-header", expected=name, why=str(error)) from None
    except MemoryError:
        raise refused("too-large", where, wording="more-than-memory", fix=fix) from None


class Plain:
    """A stream from its current position."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        if len(data) < size:
            raise CutOff
        return data

    def fill(self, buffer: memoryview) -> None:
        filled = 0
        while filled < len(buffer):
            data = self.stream.read(min(len(buffer) - filled, 1 << 24))
            if not data:
                raise CutOff
            buffer[filled : filled + len(data)] = data
            filled += len(data)


def inflated(data: bytes, most: int, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Decompress data up to their check sum; returns one byte more than ``most`` if there are more.

    wbits   of zlib: ``GZIP`` or ``ZLIB_OR_GZIP`` for other headers

    Raises CutOff if the data are damaged or stop before their end.
    """
    inflate = zlib.decompressobj(wbits)
    try:
        plain = inflate.decompress(data, most + 1)
    except zlib.error:
        raise CutOff from None
    if len(plain) <= most and not inflate.eof:
        raise CutOff
    return plain


def stream_size(stream: BinaryIO, *, where: str, bytes_limit: int) -> int:
    """Count the bytes of a stream, which is left at its start. Raises InputFault ("too-large") above the limit."""
    size = stream.seek(0, 2)
    stream.seek(0)
    check_bytes(size, "a file", where, bytes_limit)
    return size


def check_bytes(count: int, what: str, where: str, limit: int, kind: str = "") -> None:
    """Refuse a size in bytes above the limit, before the memory is allocated. Raises InputFault ("too-large")."""
    if count > limit:
        raise too_large(where, f"{what} of {count:,} bytes{kind and f' ({kind})'}", limit)


def read_array(
    source: Plain, shape: tuple[int, ...], dtype: np.dtype[Any], *, where: str, bytes_limit: int, fortran: bool = False
) -> npt.NDArray[Any]:
    """Read an array of ``shape`` and ``dtype`` from the next bytes. Raises InputFault if it is too large or cut off.

    fortran   the first axis runs fastest
    """
    count = int(np.prod(shape, dtype=object))
    check_bytes(count * dtype.itemsize, "an array", where, bytes_limit, dtype.name)
    array = np.empty(count, dtype)
    try:
        source.fill(array.view(np.uint8).data)
    except CutOff:
        raise cut_off(where) from None
    return array.reshape(shape, order="F" if fortran else "C")


def too_large(where: str, got: str, bytes_limit: int) -> InputFault:
    return refused("too-large", where, wording="more-than-bytes", got=got, limit=bytes_limit)


def cut_off(where: str) -> InputFault:
    return refused("unreadable-file", where, wording="cut-off")


# --- The bytes of text files, plain or compressed with gzip, piece by piece and within limits. ------------------------


CHUNK_BYTES = 1 << 18
COMPRESSED_CHUNK_BYTES = 1 << 14
GZIP_MAGIC = b"\x1f\x8b"
INFLATED_FREELY = 1 << 22
INFLATION_LIMIT = 100  # annotations shrink to a tenth, at the most to a fiftieth


def plain_chunks(stream: BinaryIO, where: str, bytes_limit: int) -> Iterator[bytes]:
    """Yield the bytes of a file from its start, piece by piece, decompressed if they begin as gzip does.

    Raises InputFault: too-large (the file, or its decompressed data), unreadable-file (damaged gzip).
    """
    size = stream_size(stream, where=where, bytes_limit=bytes_limit)
    limit = min(bytes_limit, max(INFLATED_FREELY, INFLATION_LIMIT * size))
    total = 0
    for chunk in unbounded_chunks(stream, where):
        total += len(chunk)
        if total > limit:
            got = f"more than {limit:,} bytes after decompression"
            expected = f"at most {bytes_limit:,}, and {INFLATION_LIMIT} times the size of a compressed file"
            raise refused("too-large", where, got=got, expected=expected)
        yield chunk


def unbounded_chunks(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """Yield the bytes of a stream, decompressed if they begin as gzip does; never more than CHUNK_BYTES at once."""
    stream.seek(0)
    is_gzip = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    stream.seek(0)
    if not is_gzip:
        while data := stream.read(CHUNK_BYTES):
            yield data
        return
    inflate = zlib.decompressobj(wbits=31)
    data = stream.read(COMPRESSED_CHUNK_BYTES)
    try:
        while data:
            if inflate.eof:  # what follows is another member, or padding
                data = data.lstrip(b"\0")
                if data:
                    inflate = zlib.decompressobj(wbits=31)
            if data and (plain := inflate.decompress(data, CHUNK_BYTES)):
                yield plain
            data = data and (inflate.unused_data if inflate.eof else inflate.unconsumed_tail)
            data = data or stream.read(COMPRESSED_CHUNK_BYTES)
        while rest := inflate.decompress(b"", CHUNK_BYTES):
            yield rest
    except zlib.error as error:
        raise refused("unreadable-file", where, wording="broken-gzip", got=str(error)) from None
    if not inflate.eof:
        raise refused("unreadable-file", where, wording="broken-gzip", got="truncated compressed data")


def gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Merge small chunks into blocks of at least CHUNK_BYTES: gzip may yield single bytes."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def check_number(number: int, what: str, key: str, where: str, limits: LimitRules) -> None:
    """Refuse a number above the limit called ``key``. Raises InputFault ("too-large")."""
    if number > (limit := getattr(limits, key)):
        raise refused("too-large", where, wording="too-many", what=what, limit=limit, key=key)


# --- The list of members of a ZIP file. -------------------------------------------------------------------------------


# What zipfile raises for damaged files: BadZipFile by itself, the others from what it calls.
ZIP_FAULTS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, OverflowError,
    struct.error,
)  # fmt: skip
MEMBER_HEADER_BYTES, LISTED_MEMBER_BYTES = 30, 46
# zipfile takes a long time for many short extra fields: bytes of those of a member, and their share of the longest list
MOST_EXTRA_BYTES, EXTRA_SHARE = 1024, 4


class LongList(Damaged):
    """A list of members that is too long, or has too much beside them; its bytes, or 0 for too many members."""

    def __init__(self, list_bytes: int = 0) -> None:
        super().__init__("a list of members that is too long")
        self.list_bytes = list_bytes


class SharedBytes(Damaged):
    """Two members that share bytes: a small file can then unpack to any size."""

    def __init__(self, before: zipfile.ZipInfo, member: zipfile.ZipInfo) -> None:
        super().__init__("members that share bytes")
        self.before, self.member = before, member


@dataclass
class _ZipList:
    """A ZIP file from which ``zipfile`` reads the list of members, unless it is too long."""

    stream: BinaryIO
    most_bytes: int
    most_members: int

    def __post_init__(self) -> None:
        self.seek, self.tell = self.stream.seek, self.stream.tell

    def read(self, size: int = -1) -> bytes:
        if size > self.most_bytes:
            raise LongList(size)
        data = self.stream.read(size)
        position = members = extra_bytes = 0
        while size > 0 and data.startswith(b"PK\1\2", position):
            lengths = struct.unpack_from("<3H", data, position + 28)  # of name, extra field and comment
            position += LISTED_MEMBER_BYTES + sum(lengths)
            members += 1
            extra_bytes += lengths[1]
            if lengths[1] > MOST_EXTRA_BYTES or EXTRA_SHARE * extra_bytes > self.most_bytes:
                raise LongList(size)
        if members > self.most_members:
            raise LongList
        return data


def list_zip_members(stream: BinaryIO, most_bytes: int, most_members: int) -> list[zipfile.ZipInfo]:
    """List the members of a ZIP file by their places. Raises CutOff, LongList, SharedBytes."""
    content: Any = _ZipList(stream, most_bytes, most_members)
    try:
        archive = zipfile.ZipFile(content)
    except ZIP_FAULTS:
        raise CutOff from None
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    stops = [one.header_offset + MEMBER_HEADER_BYTES + len(one.orig_filename) + one.compress_size for one in members]
    for before, stop, member in zip(members, stops, members[1:], strict=False):
        if member.header_offset < stop:
            raise SharedBytes(before, member)
    if stops and stops[-1] > archive.start_dir:
        raise CutOff
    return members


# --- what a file really holds, by its first bytes ---------------------------------------------------------------------


PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP_MAGIC = b"PK\x05\x06"
TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MHA_MAGICS = (b"ObjectType", b"NDims", b"Comment")
PARQUET_MAGIC = b"PAR1"
UTF_16 = "text in UTF-16: save it as UTF-8"
UNMARKED_UTF_16 = re.compile(rb"([\t\n\r -~]\0){4}|(\0[\t\n\r -~]){4}")
MAGICS = {
    (NPY_MAGIC,): "a NumPy file",
    TIFF_MAGICS: "a TIFF file",
    (b"\x89PNG",): "a PNG file",
    (ZIP_MAGIC, EMPTY_ZIP_MAGIC): "a ZIP file",
    (b"\x1f\x8b",): "a gzip file, which is not opened: unpack it",
    (b"\xff\xd8\xff",): "a JPEG file",
    (b"version https:/",): "a Git LFS pointer instead of the file: run git lfs pull",
    (b"/annex/objects/", b".git/annex/"): "a git-annex pointer instead of the file: run git annex get",
    (b"../",): "a symbolic link saved as text, as of git-annex, instead of the file",
    (b"GIF8",): "a GIF file",
    (b"\xff\xfe", b"\xfe\xff"): UTF_16,
    (HDF5_MAGIC,): "an HDF5 file",
    (b"MATLAB",): "a MATLAB file",
    MHA_MAGICS: "a MetaImage file",
}


def check_content(stream: BinaryIO, *, where: str, magics: tuple[bytes, ...], name: str) -> None:
    """Refuse a file that does not start as its format does; the stream is left at its start.

    magics, name   the first bytes of the format, and its name, such as "a TIFF file"

    Raises InputFault: pickle, wrong-format.
    """
    stream.seek(0)
    head = stream.read(16)
    stream.seek(0)
    if head.startswith(magics):
        return
    if head.startswith(PICKLES):
        raise refused("pickle", where)
    raise refused("wrong-format", where, wording="other-content", got=what_it_is(head) or "something else", name=name)


def what_it_is(head: bytes) -> str:
    """Return the type of a file from its first 16 bytes; "" if unknown.

    >>> what_it_is(b"GIF89a"), what_it_is(b"")
    ('a GIF file', 'an empty file')
    """
    if not head:
        return "an empty file"
    if head.lstrip().lower().startswith((b"<!doctype htm", b"<html")):
        return "a web page (HTML), such as the error of a download"
    if UNMARKED_UTF_16.match(head):
        return UTF_16
    return next((kind for starts, kind in MAGICS.items() if head.startswith(starts)), "")


# --- Files of other tools that are not read: what they are, by their first bytes, and what to export instead. ---------


HEAD_BYTES = 4096
LABELS = "label images (.tif, .png, .npy)"
AS_SHAPES = "GeoJSON, or as label images"
CONTENTS = (  # where the bytes stand, the bytes, what the file is, and what to export
    (128, b"DICM", "a DICOM file", LABELS),
    (0, b"SQLite format 3\0", "an SQLite database, such as TIAToolbox's .db", "GeoJSON"),
    (0, b"BM", "a BMP image", LABELS),
    (0, b"\xff\xd8\xff", "a JPEG image", "label images (.tif, .png, .npy), since JPEG changes labels"),
    (0, b"GIF8", "a GIF image", LABELS),
    (8, b"WEBP", "a WebP image", LABELS),
    *((0, kind, "a PGM or PPM image", LABELS) for kind in (b"P2\n", b"P3\n", b"P5\n", b"P6\n")),
    (0, b"NRRD", "an NRRD header without its data, or an NRRD file under another name", "one .nrrd file"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image", LABELS),
    *((0, bytes([0x80, protocol]), "a pickle, such as TIAToolbox's .dat", AS_SHAPES) for protocol in (2, 3, 4, 5)),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "a ZIP or a folder"),
    (0, b"Rar!", "a RAR archive", "a ZIP or a folder"),
    (0, b"\xff\x06\0\0sNaPpY", "a file packed by Snappy, as CellViT's", "GeoJSON or JSON that is not packed"),
)
COCO = "COCO (its JSON with images, annotations and categories)"
EXPORTS = (  # texts that all stand in the beginning, what the file is, and what to export
    ((b"<annotations>", b"<version>"), "an XML export of CVAT", COCO),
    ((b'"shape_attributes"',), "a project of the VGG Image Annotator", COCO),
    ((b"_via_settings",), "a project of the VGG Image Annotator", COCO),
    ((b'"result"', b'"original_width"'), "a JSON export of Label Studio", COCO),
    ((b'"result"', b'"completed_by"'), "a JSON export of Label Studio", COCO),
    ((b'"polygonlabels"',), "a JSON export of Label Studio", COCO),
    ((b'"brushlabels"',), "a JSON export of Label Studio", COCO),
    ((b'"item"', b'"slots"'), "an export of V7 Darwin", COCO),
    ((b'"classTitle"',), "an export of Supervisely", COCO),
    ((b'"metadata"', b'"instances"'), "an export of SuperAnnotate", COCO),
    ((b'"label_hash"', b'"data_units"'), "an export of Encord", COCO),
    ((b'"data_row"',), "an export of Labelbox", COCO),
    ((b'"Labeled Data"',), "an export of Labelbox", COCO),
    ((b'"segments_info"',), "panoptic JSON of COCO", "COCO's instances (panopticapi's converter makes them)"),
    ((b'"coord"', b'"points"', b'"prob"'), "details of StarDist", "label images (.tif, .png, .npy)"),
    ((b"region_shape_attributes",), "a CSV export of the VGG Image Annotator", COCO),
    ((b"<annotation>", b"<polygon>", b"<pt>"), "an XML file of LabelMe", COCO),
    ((b"<annotation>", b"<filename>"), "a file of Pascal VOC, which has boxes and no outlines", COCO),
)
CONVERT = "which only 'compare' and 'convert' read: evaluation convert FILE OUTPUT --to"
IMPORTS = (  # first bytes of formats of ``formats.imports``, what the file is, and what it is converted to
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "label_tiff"),
    (b"Iout", "a ROI of ImageJ", "geojson"),
    (b"PAR1", "a Parquet file", "geojson"),
)
ZARR = (".zarray", ".zgroup", "zarr.json")
ZARR_FOLDER = f"a part of a Zarr store, {CONVERT} label_tiff, where FILE is the folder of the store"
PARENTS = 5  # folders above a chunk that may be the store


def foreign_file(path: Path) -> str:
    """Return the type of a file, or of its folder, and what to export instead; "" if unknown."""
    folders = (path, *path.parents[:PARENTS])
    if any(isfile(f"{folder}/{name}") for folder in folders for name in ZARR):  # noqa: PTH113, Path takes far longer
        return ZARR_FOLDER
    if path.is_dir():
        return ""
    with path.open("rb") as stream:
        return foreign_content(stream.read(HEAD_BYTES))


def is_of_zarr(name: str) -> bool:
    """Return whether a file of this name makes its folder a Zarr store."""
    return name.rpartition("/")[2] in ZARR


def foreign_content(head: bytes) -> str:
    """Return the type of a file from its first bytes, and what to export instead; "" if unknown.

    >>> foreign_content(b"BM" + bytes(10))
    'a BMP image, which is not read; export as label images (.tif, .png, .npy)'
    """
    for magic, name, target in IMPORTS:
        if head.startswith(magic):
            return f"{name}, {CONVERT} {target}"
    for offset, magic, name, instead in CONTENTS:
        if head[offset : offset + len(magic)] == magic:
            return f"{name}, which is not read; export as {instead}"
    for texts, name, instead in EXPORTS:
        if all(text in head for text in texts):
            return f"{name}, which is not read; export as {instead}"
    return ""
