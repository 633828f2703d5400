"""PNG images of 1 to 16 bits a sample, also with a palette.

The chunks are read and checked here: their check sums, and that the compressed data give exactly the bytes of the image
that the header describes. Only then are they handed to libpng, as a file of nothing but header and data, which undoes
the filters. So no other chunk (profiles, texts, transparency) is looked at, and nothing is scaled or printed.
W3C, "Portable Network Graphics (PNG) Specification (Second Edition)", ISO/IEC 15948:2003.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import PNG_MAGIC, check_content
from evaluation.decoding.label_array import check_shape
from evaluation.decoding.streams import CutOff, Damaged, Plain, check_bytes, damage_told, stream_size
from evaluation.findings.errors import refusal

MAX_CHUNKS = 300_000  # encoders write data chunks of 8 kB or more
MAX_SIDE = 1_000_000  # as many as libpng itself allows
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, RGB, palette, grey and alpha, RGB and alpha
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
GREY, PALETTE = 0, 3


@dataclass(frozen=True, slots=True)
class PngHeader:
    """What the header of a PNG says; ``bits`` are those of a sample, ``palette`` are red, green, blue, red, …"""

    height: int
    width: int
    bits: int
    colour_type: int
    palette: bytes = b""

    @property
    def shape(self) -> tuple[int, ...]:
        channels = CHANNELS[self.colour_type]
        return (self.height, self.width, channels) if channels > 1 else (self.height, self.width)

    @property
    def row_bytes(self) -> int:
        return (self.width * CHANNELS[self.colour_type] * self.bits + 7) // 8

    @property
    def array_bytes(self) -> int:
        return math.prod(self.shape) * max(self.bits // 8, 1)


def read_png(
    stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int, channels: int | None = None
) -> npt.NDArray[Any]:
    """The samples of a PNG as they stand in the file, uint8 or uint16: (H, W) if grey, else (H, W, channels).

    stream       seekable, read from its start
    where        the file, for messages
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have
    channels     how many there must be; None: any

    Grey of 1, 2 or 4 bits keeps its values (0 and 1, 0…3, 0…15). Channels are grey and alpha (2), RGB (3) or RGB and
    alpha (4). A palette gives its indices where one channel is asked for, of which 0 must be black, else RGB.
    Raises InputFault: too-large, wrong-format, unsupported-format (a palette of other colours, interlaced),
    wrong-shape, unreadable-file.
    """
    stream_size(stream, where=where, bytes_limit=bytes_limit)
    check_content(stream, where=where, magics=(PNG_MAGIC,), name="a PNG file")
    with damage_told(where, "a PNG file"):
        header, data = read_chunks(stream, where, bytes_limit, shape_yx, channels)
        samples = decode(header, b"".join(data))
        if header.colour_type != PALETTE:
            return samples
        if samples.size and 3 * int(samples.max()) >= len(header.palette):
            raise Damaged("a number without a colour in the palette")
        if channels is None:
            colours = np.frombuffer(header.palette, np.uint8).reshape(-1, 3)
            return np.take(colours, samples, axis=0)
        if any(header.palette[:3]):
            got = f"a PNG with a palette whose number 0 is #{header.palette[:3].hex()}"
            advice = "Let 0 be the background, and black; or write grey values of 8 or 16 bits."
            raise refusal("unsupported-format", where, wording="png", got=got, fix=advice)
        return samples


def read_chunks(
    stream: BinaryIO, where: str, bytes_limit: int, shape_yx: tuple[int, int], channels: int | None
) -> tuple[PngHeader, list[bytes]]:
    """The header and the compressed data in the pieces in which they lie in the file."""
    left = stream.seek(0, 2) - len(PNG_MAGIC)
    stream.seek(len(PNG_MAGIC))
    header: PngHeader | None = None
    data: list[bytes] = []
    for _ in range(MAX_CHUNKS):
        size, kind = struct.unpack(">I4s", Plain(stream).read(8))
        left -= 12 + size
        if left < 0:
            raise CutOff
        content = Plain(stream).read(size)
        if Plain(stream).read(4) != struct.pack(">I", zlib.crc32(content, zlib.crc32(kind))):
            raise CutOff
        if header is None:
            header = read_header(kind, content, where)
            there = header.shape if channels is not None else header.shape[:2]
            check_shape(there, where=where, shape_yx=shape_yx, channels=channels or 1)
            needed = header.array_bytes * (3 if header.colour_type == PALETTE and channels is None else 1)
            check_bytes(needed, "an array", where, bytes_limit)
        elif kind == b"IDAT":
            data.append(content)
        elif kind == b"IEND":
            return header, data
        elif kind == b"PLTE" and header.colour_type == PALETTE:
            if len(content) % 3 or not 3 <= len(content) <= 768 or data or len(header.palette):
                raise Damaged("no usable palette")
            header = replace(header, palette=content)
        elif kind != b"PLTE" and not kind[0] & 32:
            raise Damaged("an unknown critical chunk")
    raise Damaged(f"more than {MAX_CHUNKS:,} chunks")


def read_header(kind: bytes, content: bytes, where: str) -> PngHeader:
    """The first chunk of the file."""
    if kind != b"IHDR" or len(content) != 13:
        raise Damaged("no header chunk")
    width, height, bits, colour_type, compression, filters, interlaced = struct.unpack(">IIBBBBB", content)
    if bits not in DEPTHS.get(colour_type, ()) or (compression, filters) != (0, 0) or interlaced > 1:
        raise Damaged("an unknown kind of pixels")
    if interlaced:
        raise refusal(
            "unsupported-format", where, wording="png", got="an interlaced PNG", fix="Write it without interlacing."
        )
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise Damaged(f"{height:,} rows x {width:,} columns; 1 to {MAX_SIDE:,} are possible")
    return PngHeader(height, width, bits, colour_type)


def decode(header: PngHeader, data: bytes) -> npt.NDArray[Any]:
    """The samples. Raises CutOff unless the data decompress to the rows of the image, each behind its filter."""
    from imagecodecs import DeflateError, PngError, deflate_decode, png_decode  # slow to import, and few need it

    width, bits = header.width, header.bits
    colour_type = GREY if header.colour_type == PALETTE else header.colour_type
    if bits < 8:
        width, bits = header.row_bytes, 8  # bytes of packed samples, which libpng would scale to 0…255
    ihdr = struct.pack(">IIBBBBB", width, header.height, bits, colour_type, 0, 0, 0)
    needed = header.height * (1 + header.row_bytes)
    try:
        rows = deflate_decode(data, out=needed)
        if len(rows) != needed or not data.endswith(zlib.adler32(rows).to_bytes(4, "big")):
            raise CutOff
        del rows
        samples: npt.NDArray[Any] = png_decode(
            b"".join([PNG_MAGIC, chunk(b"IHDR", ihdr), chunk(b"IDAT", data), chunk(b"IEND", b"")])
        )
    except (DeflateError, PngError):
        raise CutOff from None
    return unpack_samples(samples, header.bits, header.width) if header.bits < 8 else samples.reshape(header.shape)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(kind)))


def unpack_samples(packed: npt.NDArray[np.uint8], bits: int, width: int) -> npt.NDArray[np.uint8]:
    """Samples of 1, 2 or 4 bits from bytes, the first in the highest bits; uint8 (H, width).

    >>> unpack_samples(np.array([[0b00_01_10_11, 0b11_000000]], np.uint8), 2, 5)
    array([[0, 1, 2, 3, 3]], dtype=uint8)
    """
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    samples = (packed[..., np.newaxis] >> shifts) & np.uint8((1 << bits) - 1)
    return samples.reshape(len(packed), -1)[:, :width]
