"""Reading from strangers: sizes are known before memory is taken, and compressed data give no more than asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.findings import Finding, fault
from evaluation.findings.errors import InputFault

GZIP, ZLIB_OR_GZIP = 16 + zlib.MAX_WBITS, 32 + zlib.MAX_WBITS


class CutOff(Exception):
    """The data stop before their end, or cannot be decompressed. Never leaves the readers of this package."""


class Damaged(Exception):
    """The header of a file contradicts its format. Never leaves the readers of this package."""


@contextmanager
def damage_told(where: str, name: str) -> Iterator[None]:
    """Turn CutOff, Damaged and MemoryError into findings: "unreadable-file", "wrong-format", "too-large".

    where   the file, for messages
    name    what it should be, such as "a TIFF file"
    """
    try:
        yield
    except CutOff:
        raise InputFault(cut_off(where)) from None
    except Damaged as error:
        raise InputFault(
            fault("wrong-format", where, wording="damaged-header", expected=name, why=str(error))
        ) from None
    except MemoryError:
        advice = "Write a smaller type of integers, such as int32."
        raise InputFault(fault("too-large", where, wording="more-than-memory", fix=advice)) from None


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
    """What data decompress to, up to their check sum; a byte more than ``most`` if that is more.

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
    """Number of bytes of a stream, which is left at its start. Raises InputFault ("too-large") above the limit."""
    size = stream.seek(0, 2)
    stream.seek(0)
    if size > bytes_limit:
        raise InputFault(too_large(where, f"a file of {size:,} bytes", bytes_limit))
    return size


def read_array(
    source: Plain, shape: tuple[int, ...], dtype: np.dtype[Any], *, where: str, bytes_limit: int, fortran: bool = False
) -> npt.NDArray[Any]:
    """An array of ``shape`` and ``dtype`` from the next bytes. Raises InputFault if it is too large or cut off.

    fortran   the first axis runs fastest
    """
    count = int(np.prod(shape, dtype=object))
    needed = count * dtype.itemsize
    if needed > bytes_limit:
        raise InputFault(too_large(where, f"an array of {needed:,} bytes ({dtype.name})", bytes_limit))
    array = np.empty(count, dtype)
    try:
        source.fill(array.view(np.uint8).data)
    except CutOff:
        raise InputFault(cut_off(where)) from None
    return array.reshape(shape, order="F" if fortran else "C")


def too_large(where: str, got: str, bytes_limit: int) -> Finding:
    return fault("too-large", where, wording="more-than-bytes", got=got, limit=bytes_limit)


def cut_off(where: str) -> Finding:
    return fault("unreadable-file", where, wording="cut-off")
