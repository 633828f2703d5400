"""The bytes of text files, plain or compressed with gzip, piece by piece and within limits."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from evaluation.findings import Finding, fault
from evaluation.findings.errors import InputFault

CHUNK_BYTES = 1 << 18
COMPRESSED_CHUNK_BYTES = 1 << 14
GZIP_MAGIC = b"\x1f\x8b"
INFLATED_FREELY = 1 << 22
INFLATION_LIMIT = 100  # annotations shrink to a tenth, at the most to a fiftieth


def plain_chunks(stream: BinaryIO, where: str, bytes_limit: int) -> Iterator[bytes]:
    """The bytes of a file from its start, piece by piece, decompressed if they begin as gzip does.

    Raises InputFault: too-large (the file, or what comes out of it), unreadable-file (damaged gzip).
    """
    size = stream.seek(0, 2)
    if size > bytes_limit:
        raise InputFault(too_large(where, f"a file of {size:,} bytes", f"at most {bytes_limit:,} bytes"))
    limit = min(bytes_limit, max(INFLATED_FREELY, INFLATION_LIMIT * size))
    total = 0
    for chunk in unbounded_chunks(stream, where):
        total += len(chunk)
        if total > limit:
            got = f"more than {limit:,} bytes after decompression"
            expected = f"at most {bytes_limit:,}, and {INFLATION_LIMIT} times the size of a compressed file"
            raise InputFault(too_large(where, got, expected))
        yield chunk


def unbounded_chunks(stream: BinaryIO, where: str) -> Iterator[bytes]:
    """The bytes of a stream, decompressed if they begin as gzip does; never more than CHUNK_BYTES at once."""
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
        raise InputFault(fault("unreadable-file", where, wording="broken-gzip", got=str(error))) from None
    if not inflate.eof:
        raise InputFault(
            fault("unreadable-file", where, wording="broken-gzip", got="the compressed data stop before their end")
        )


def gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, at least CHUNK_BYTES at a time but for the last: gzip may give them one by one."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


@contextmanager
def memory_told(where: str) -> Iterator[None]:
    """Turn MemoryError into a finding: the limits of a challenge may be wider than the memory of a machine."""
    try:
        yield
    except MemoryError:
        raise InputFault(fault("too-large", where, wording="more-than-memory", fix="Split the file.")) from None


def too_large(where: str, found: str, allowed: str) -> Finding:
    return fault("too-large", where, got=found, expected=allowed)


def too_many(where: str, what: str, limit: int, key: str) -> Finding:
    """More than ``limit`` of ``what``; ``key`` is the name of the limit."""
    return fault("too-large", where, wording="too-many", what=what, limit=limit, key=key)
