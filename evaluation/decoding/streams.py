"""Reading from strangers: sizes are known before memory is taken, and compressed data give no more than asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.challenge import LimitRules
from evaluation.findings.errors import InputFault, refused

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SMALLER_INTEGERS = "Write a smaller type of integers, such as int32."
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
    name    what it should be, such as "a TIFF file"
    fix     what makes it small enough for the memory: the limits of a challenge may be wider
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
    """A stream from its present position on."""

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
    """Decompress data up to their check sum; gives a byte more than ``most`` if they are more.

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
    """Refuse something of more bytes than the limit, before they are taken. Raises InputFault ("too-large")."""
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

    Raises InputFault: too-large (the file, or what comes out of it), unreadable-file (damaged gzip).
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
        raise refused("unreadable-file", where, wording="broken-gzip", got="the compressed data stop before their end")


def gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes, at least CHUNK_BYTES at a time but for the last: gzip may give them one by one."""
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
    """Refuse more of something than the limit with the name ``key`` allows. Raises InputFault ("too-large")."""
    if number > (limit := getattr(limits, key)):
        raise refused("too-large", where, wording="too-many", what=what, limit=limit, key=key)
