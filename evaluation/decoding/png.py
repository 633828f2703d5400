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
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import PNG_MAGIC
from evaluation.decoding.label_array import Pixels
from evaluation.decoding.streams import CutOff, Damaged, Plain, check_bytes
from evaluation.findings.errors import refused

PNG_CHUNKS = 300_000  # encoders write data chunks of 8 kB or more
PNG_SIDE = 1_000_000  # as many as libpng itself allows
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, RGB, palette, grey and alpha, RGB and alpha
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
GREY, PALETTE = 0, 3


@dataclass(frozen=True, slots=True)
class PngHeader:
    """What the header of a PNG says; ``bits`` are those of a sample."""

    height: int
    width: int
    bits: int
    colour_type: int

    @property
    def shape(self) -> tuple[int, ...]:
        channels = CHANNELS[self.colour_type]
        return (self.height, self.width, channels) if channels > 1 else (self.height, self.width)

    @property
    def row_bytes(self) -> int:
        return (self.width * CHANNELS[self.colour_type] * self.bits + 7) // 8


def peek_png(stream: BinaryIO, where: str, bytes_limit: int, *, as_colours: bool = False) -> Pixels:
    """The samples of a PNG as they stand in the file, uint8 or uint16: (H, W) if grey, else (H, W, channels).

    as_colours  a palette gives RGB, else its indices, of which 0 must be black then

    Grey of 1, 2 or 4 bits keeps its values (0 and 1, 0…3, 0…15). Channels are grey and alpha (2), RGB (3) or RGB and
    alpha (4). Raises CutOff, Damaged, and InputFault: unsupported-format (interlaced); reading also too-large, and
    unsupported-format for a palette of other colours.
    """
    left = stream.seek(0, 2) - len(PNG_MAGIC)
    stream.seek(len(PNG_MAGIC))
    kind, content, left = read_chunk(stream, left)
    header = read_header(kind, content, where)
    shape = (*header.shape, 3) if as_colours and header.colour_type == PALETTE else header.shape
    dtype = np.dtype(f"u{max(header.bits // 8, 1)}")

    def read() -> npt.NDArray[Any]:
        check_bytes(math.prod(shape) * dtype.itemsize, "an array", where, bytes_limit)
        data, palette = read_data(stream, left, header)
        samples = decode(header, data)
        if header.colour_type != PALETTE:
            return samples
        if samples.size and 3 * int(samples.max()) >= len(palette):
            raise Damaged("a number without a colour in the palette")
        if as_colours:
            return np.take(np.frombuffer(palette, np.uint8).reshape(-1, 3), samples, axis=0)
        if any(palette[:3]):
            got = f"a PNG with a palette whose number 0 is #{palette[:3].hex()}"
            advice = "Let 0 be the background, and black; or write grey values of 8 or 16 bits."
            raise refused("unsupported-format", where, wording="png", got=got, fix=advice)
        return samples

    return Pixels(where, shape, read, dtype)


def read_chunk(stream: BinaryIO, left: int) -> tuple[bytes, bytes, int]:
    """Kind and content of the next chunk, and how many bytes of the file are left behind it."""
    size, kind = struct.unpack(">I4s", Plain(stream).read(8))
    left -= 12 + size
    if left < 0:
        raise CutOff
    content = Plain(stream).read(size)
    if Plain(stream).read(4) != struct.pack(">I", zlib.crc32(content, zlib.crc32(kind))):
        raise CutOff
    return kind, content, left


def read_data(stream: BinaryIO, left: int, header: PngHeader) -> tuple[bytes, bytes]:
    """The compressed data, and the palette: red, green, blue, red, …; from the chunks behind the header."""
    data: list[bytes] = []
    palette = b""
    for _ in range(PNG_CHUNKS - 1):
        kind, content, left = read_chunk(stream, left)
        if kind == b"IDAT":
            data.append(content)
        elif kind == b"IEND":
            return b"".join(data), palette
        elif kind == b"PLTE" and header.colour_type == PALETTE:
            if len(content) % 3 or not 3 <= len(content) <= 768 or data or palette:
                raise Damaged("no usable palette")
            palette = content
        elif kind != b"PLTE" and not kind[0] & 32:
            raise Damaged("an unknown critical chunk")
    raise Damaged(f"more than {PNG_CHUNKS:,} chunks")


def read_header(kind: bytes, content: bytes, where: str) -> PngHeader:
    """The first chunk of the file."""
    if kind != b"IHDR" or len(content) != 13:
        raise Damaged("no header chunk")
    width, height, bits, colour_type, compression, filters, interlaced = struct.unpack(">IIBBBBB", content)
    if bits not in DEPTHS.get(colour_type, ()) or (compression, filters) != (0, 0) or interlaced > 1:
        raise Damaged("an unknown kind of pixels")
    if interlaced:
        raise refused(
            "unsupported-format", where, wording="png", got="an interlaced PNG", fix="Write it without interlacing."
        )
    if not (1 <= width <= PNG_SIDE and 1 <= height <= PNG_SIDE):
        raise Damaged(f"{height:,} rows x {width:,} columns; 1 to {PNG_SIDE:,} are possible")
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
