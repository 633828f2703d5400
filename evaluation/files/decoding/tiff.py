"""TIFF images of numbers: strips or tiles, TIFF or BigTIFF, without compression or with a lossless one.

Strips and tiles are decoded here from the checked header, so that no second reader can understand it differently. Each
must decode to exactly the bytes of its pixels. TIFF Revision 6.0; TIFF Technical Note 3
(floating point predictor).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from itertools import product
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.label_array import Pixels, check_dtype
from evaluation.files.decoding.streams import CutOff, Damaged, Plain, check_bytes
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Int64

NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS, LZMA, ZSTD = 1, 5, 8, 32946, 32773, 34925, 50000
STOP_SILENTLY = (LZW, LZMA)  # where there is no room for more
LOSSLESS = {NONE, LZW, DEFLATE, OLD_DEFLATE, PACKBITS, LZMA, ZSTD}
NO_PREDICTOR, HORIZONTAL, FLOATING_POINT = 1, 2, 3
SEPARATE_PLANES = 2
KINDS_OF_NUMBERS = {1: "u", 2: "i", 3: "f", 4: "u", 5: "c", 6: "c"}  # by sample format
PADDED_PIXELS = 1 << 24  # tiles may reach this far over the edges of the image
BAND_PX = 1 << 23  # of an image that is decoded in bands of rows
_BEYOND_ANY_FILE = np.uint64(1 << 62)


@dataclass(frozen=True, slots=True)
class _PageLayout:
    """How the pixels of a page are in the file.

    samples   adjacent numbers of a pixel; ``planes``: number of planes for separate samples
    bits      of a number; ``dtype`` contains it, in the byte order of the file
    segment_yx, segments_yx   size of a strip or tile, px, and their numbers in y and x
    """

    shape_yx: tuple[int, int]
    samples: int
    planes: int
    bits: int
    dtype: np.dtype[Any]
    compression: int
    predictor: int
    is_tiled: bool
    segment_yx: tuple[int, int]

    @property
    def segments_yx(self) -> tuple[int, int]:
        (height, width), (down, across) = self.shape_yx, self.segment_yx
        return math.ceil(height / down), math.ceil(width / across)

    @property
    def segments(self) -> int:
        return self.planes * math.prod(self.segments_yx)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a strip or tile."""
        return (self.segment_yx[1] * self.samples * self.bits + 7) // 8

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile as an array; 0 for strips, which are no larger than the image."""
        return math.prod(self.segment_yx) * self.samples * self.dtype.itemsize if self.is_tiled else 0

    @property
    def array_bytes(self) -> int:
        return math.prod(self.shape_yx) * self.samples * self.planes * self.dtype.itemsize


def peek_tiff(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """Describe the image of a TIFF file: of one page (H, W), (H, W, S) or (S, H, W), of several (pages, H, W, …).

    Further pages may be smaller copies of it (a pyramid), which do not count. Nothing is scaled: grey, inverted grey
    and numbers of a palette are read as they are. Bands have about BAND_PX pixels, or a strip; ``bytes_limit`` is
    for a band then, so that a slide may be larger.

    Raises InputFault (several-images), CutOff, Damaged; reading unsupported-format, not-numeric, too-large, too.
    """
    first, *others = TiffFile(stream).pages()
    pages = [first, *(page for page in others if not page.is_reduced)]
    if len(pages) == 1 and (stacked := first.images()) > 1:
        raise refused("several-images", where, got=f"a stack of {stacked:,} images")

    def layouts() -> list[_PageLayout]:
        if any(page.shape != first.shape for page in pages):
            raise Damaged("pages of different sizes")
        of_pages = [_page_layout(page, where) for page in pages]
        if of_pages[0].dtype != of_pages[-1].dtype:
            raise unsupported(where, f"{of_pages[0].dtype.name} and {of_pages[-1].dtype.name} side by side")
        check_bytes(max(layout.tile_bytes for layout in of_pages), "a tile", where, bytes_limit)  # wider than it
        return of_pages

    def read() -> npt.NDArray[Any]:
        of_pages = layouts()
        check_bytes(sum(layout.array_bytes for layout in of_pages), "an image", where, bytes_limit)
        arrays = [
            _decode_rows(page, layout, _find_segments(page, layout), 0, _empty_rows(layout, page.height))
            for page, layout in zip(pages, of_pages, strict=True)
        ]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays)

    def bands() -> Iterator[npt.NDArray[Any]]:
        (layout,) = layouts()
        layout, segments = _cut_strip(layout, _find_segments(first, layout))
        rows = max(1, BAND_PX // (first.width * layout.segment_yx[0])) * layout.segment_yx[0]
        check_bytes(layout.array_bytes // first.height * min(rows, first.height), "a strip", where, bytes_limit)
        if layout.segments == layout.samples == 1 and not layout.is_tiled:  # nothing to put together
            offset, size = segments[:, 0].tolist()
            data = _read_segment(first, layout, offset, size, first.height)
            yield numbers(data, layout, first.height)[..., 0].astype(layout.dtype.newbyteorder("="), copy=False)
            return
        band = _empty_rows(layout, min(rows, first.height))  # gone when the next one is asked for
        for row in range(0, first.height, rows):
            yield _decode_rows(first, layout, segments, row, band[:, : first.height - row])

    shape = first.shape if len(pages) == 1 else (len(pages), *first.shape)
    return Pixels(where, shape, read, pages=len(pages), bands=bands)


def _page_layout(page: TiffPage, where: str) -> _PageLayout:
    """Return how a page of the right size is stored. Raises InputFault if it is not supported, Damaged if
    impossible."""
    compression, predictor = page.value(Tag.COMPRESSION, NONE), page.value(Tag.PREDICTOR, NO_PREDICTOR)
    bits = page.value(Tag.BITS_PER_SAMPLE, 1)
    kind = KINDS_OF_NUMBERS.get(page.value(Tag.SAMPLE_FORMAT, 1))
    if compression not in LOSSLESS:
        raise unsupported(where, f"compression {compression}")
    if kind == "c":
        check_dtype(np.dtype(np.complex64), where=where)
    is_packed = bits in (1, 2, 4) and kind == "u"
    if kind is None or not (is_packed or bits in (16, 32, 64) or (bits == 8 and kind != "f")):
        raise unsupported(where, f"{bits} bits a pixel")
    dtype = np.dtype("u1" if is_packed else f"{page.file.order}{kind}{bits // 8}")
    fits = {NO_PREDICTOR: True, HORIZONTAL: not is_packed and kind != "f", FLOATING_POINT: kind == "f"}
    if not fits.get(predictor, False):
        raise unsupported(where, f"predictor {predictor} for {bits} bits")
    if page.value(Tag.FILL_ORDER, 1) != 1:
        raise unsupported(where, "bits in reversed order")
    is_tiled = Tag.TILE_WIDTH in page.entries or Tag.TILE_HEIGHT in page.entries
    shape_yx = page.height, page.width
    if is_tiled:
        segment_yx = page.value(Tag.TILE_HEIGHT, 0), page.value(Tag.TILE_WIDTH, 0)
    else:
        segment_yx = min(page.value(Tag.ROWS_PER_STRIP, page.height), page.height), page.width
    if is_tiled:
        _check_tile_size(page, shape_yx, segment_yx)
    elif segment_yx[0] < 1:
        raise Damaged("strips without rows")
    samples, planes = (1, page.samples) if page.is_separate else (page.samples, 1)
    return _PageLayout(shape_yx, samples, planes, bits, dtype, compression, predictor, is_tiled, segment_yx)


def _check_tile_size(page: TiffPage, shape_yx: tuple[int, int], segment_yx: tuple[int, int]) -> None:
    """Refuse tiles far larger than the image, and tiny tiles that would take too long."""
    multiples = all(size >= 16 and size % 16 == 0 for size in segment_yx)
    padded = [math.ceil(size / max(tile, 1)) * tile for size, tile in zip(shape_yx, segment_yx, strict=True)]
    far = math.prod(padded) > 4 * math.prod(shape_yx) + PADDED_PIXELS
    if not multiples or far or page.value(Tag.TILE_DEPTH, 1) != 1:
        raise Damaged(f"tiles of {segment_yx[1]:,} x {segment_yx[0]:,} pixels")


def unsupported(where: str, what: str) -> InputFault:
    return refused("unsupported-format", where, wording="tiff", what=what)


def _find_segments(page: TiffPage, layout: _PageLayout) -> Int64:
    """Return offsets and sizes in bytes of the strips or tiles of a page, int64 (2, S); plane by plane, row by row.
    Raises CutOff if the header lacks any.
    """
    tags = (Tag.TILE_OFFSETS, Tag.TILE_BYTES) if layout.is_tiled else (Tag.STRIP_OFFSETS, Tag.STRIP_BYTES)
    number = layout.segments
    places = np.empty((2, number), np.uint64)
    for place, tag in zip(places, tags, strict=True):
        values = page.values(tag, number)
        if len(values) != number:
            raise CutOff
        place[:] = values
    return np.minimum(places, _BEYOND_ANY_FILE, out=places).view(np.int64)


def _cut_strip(layout: _PageLayout, segments: Int64) -> tuple[_PageLayout, Int64]:
    """Cut an image that is one strip of plain numbers into several strips; any other stays as it is."""
    height, width = layout.shape_yx
    rows = max(1, BAND_PX // width)
    if layout.is_tiled or layout.compression != NONE or segments.shape[1] != 1 or rows >= height:
        return layout, segments
    first = np.arange(0, height, rows) * layout.row_bytes
    offset, size = segments
    offsets = offset + first if offset[0] else np.zeros_like(first)
    return replace(layout, segment_yx=(rows, width)), np.stack([offsets, size - first])


def _empty_rows(layout: _PageLayout, rows: int) -> npt.NDArray[Any]:
    """Create an array for rows of a page, (planes, rows, W, samples), without the last axis if that is one number.

    (An axis of one number would slow down every copy.)
    """
    shape = (layout.planes, rows, layout.shape_yx[1], layout.samples)
    return np.empty(shape[:3] if layout.samples == 1 else shape, layout.dtype.newbyteorder("="))


def _decode_rows(
    page: TiffPage, layout: _PageLayout, segments: Int64, first: int, image: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Fill an image with the rows of a page from the ``first`` on, in the byte order of the machine; without its axis
    of planes if there is one.

    The rows begin and end with strips or tiles, or with the image. Raises CutOff if a strip or tile is missing or
    damaged.
    """
    (down, across), (below, beside) = layout.segment_yx, layout.segments_yx
    rows_of_segments = range(first // down, math.ceil((first + image.shape[1]) / down))
    for plane, i, j in product(range(layout.planes), rows_of_segments, range(beside)):
        area = image[plane, i * down - first : (i + 1) * down - first, j * across : (j + 1) * across]
        rows = down if layout.is_tiled else len(area)
        offset, size = segments[:, (plane * below + i) * beside + j].tolist()
        data = _read_segment(page, layout, offset, size, rows)
        area[...] = numbers(data, layout, rows).reshape(rows, across, *image.shape[3:])[: len(area), : area.shape[1]]
    return image[0] if layout.planes == 1 else image


def _read_segment(page: TiffPage, layout: _PageLayout, offset: int, size: int, rows: int) -> bytes:
    """Read the bytes of the rows of a strip or tile, decompressed.

    The last strip may have been written at its full height. Raises CutOff if there are fewer or more bytes; compressed
    data of more than twice the bytes of the pixels are damaged, and not looked at.
    """
    needed, most = rows * layout.row_bytes, layout.segment_yx[0] * layout.row_bytes
    if offset == 0:  # left out by the writer
        raise CutOff
    if layout.compression == NONE:
        if size < needed:
            raise CutOff
        return page.file.read(offset, needed)
    if size > 2 * most + 1024:
        raise CutOff
    data = decompress(page.file.read(offset, size), layout.compression, most)
    if not needed <= len(data) <= most:
        raise CutOff
    return data[:needed]


def decompress(data: bytes, compression: int, most: int) -> bytes:
    """Decompress data to at most a byte more than ``most``. Raises CutOff."""
    import imagecodecs  # slow to import, and few need it

    decode = {
        LZW: imagecodecs.lzw_decode,
        PACKBITS: imagecodecs.packbits_decode,
        LZMA: imagecodecs.lzma_decode,
        ZSTD: imagecodecs.zstd_decode,
    }.get(compression, imagecodecs.deflate_decode)
    try:
        return bytes(decode(data, out=most + (compression in STOP_SILENTLY)))
    except RuntimeError:  # as all codecs say that data are damaged
        raise CutOff from None


def numbers(data: bytes, layout: _PageLayout, rows: int) -> npt.NDArray[Any]:
    """Create the numbers of a strip or tile, (rows, width of it, samples), with the predictor undone."""
    width = layout.segment_yx[1]
    if layout.bits < 8:
        packed = np.frombuffer(data, np.uint8).reshape(rows, layout.row_bytes)
        return unpack_samples(packed, layout.bits, width * layout.samples).reshape(rows, width, layout.samples)
    array = np.frombuffer(data, layout.dtype).reshape(rows, width, layout.samples)
    if layout.predictor == NO_PREDICTOR:
        return array
    import imagecodecs  # slow to import, and few need it

    if layout.predictor == FLOATING_POINT:
        return np.asarray(imagecodecs.floatpred_decode(array.view(layout.dtype.newbyteorder("=")), axis=1))
    return np.asarray(imagecodecs.delta_decode(array.astype(layout.dtype.newbyteorder("="), copy=False), axis=1))


def unpack_samples(packed: npt.NDArray[np.uint8], bits: int, width: int) -> npt.NDArray[np.uint8]:
    """Unpack samples of 1, 2 or 4 bits from bytes, the first in the highest bits; uint8 (H, width).

    >>> unpack_samples(np.array([[0b00_01_10_11, 0b11_000000]], np.uint8), 2, 5)
    array([[0, 1, 2, 3, 3]], dtype=uint8)
    """
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    samples = (packed[..., np.newaxis] >> shifts) & np.uint8((1 << bits) - 1)
    return samples.reshape(len(packed), -1)[:, :width]


# --- The headers of the pages of a TIFF or BigTIFF file. TIFF Revision 6.0; BigTIFF (AWare Systems, 2014). ------------


MAX_PAGES = 64
MAX_TAGS = 256
DESCRIPTION_BYTES = 4096
WHOLE_NUMBERS = {1: "u1", 3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}
_BYTES_OF_KIND = {kind: int(dtype[1:]) for kind, dtype in WHOLE_NUMBERS.items()}
_IMAGEJ_STACK = re.compile(rb"ImageJ=.*?^images=(\d{1,9})$", re.DOTALL | re.MULTILINE)
_TIFFFILE_SHAPE = re.compile(rb'\{"shape": \[([\d, ]{1,100})\]')
_SMALL_FILE_BYTES = 1 << 20  # up to which a file is read at once


# The tags that are looked at.
Tag = IntEnum("Tag", {
    "NEW_SUBFILE_TYPE": 254, "SUBFILE_TYPE": 255, "WIDTH": 256, "HEIGHT": 257, "BITS_PER_SAMPLE": 258,
    "COMPRESSION": 259, "PHOTOMETRIC": 262, "FILL_ORDER": 266, "DESCRIPTION": 270, "STRIP_OFFSETS": 273,
    "SAMPLES_PER_PIXEL": 277, "ROWS_PER_STRIP": 278, "STRIP_BYTES": 279, "PLANAR_CONFIGURATION": 284,
    "PREDICTOR": 317, "TILE_WIDTH": 322, "TILE_HEIGHT": 323, "TILE_OFFSETS": 324, "TILE_BYTES": 325,
    "SAMPLE_FORMAT": 339, "DEPTH": 32997, "TILE_DEPTH": 32998,
})  # fmt: skip


class _Entry(NamedTuple):
    """Where the values of a tag are in the file."""

    kind: int
    number: int
    position: int


class TiffPage:
    """The tags of a page. Every method raises Damaged or CutOff if the file does not contain what it claims."""

    def __init__(self, file: TiffFile, entries: dict[int, _Entry], next_offset: int) -> None:
        self.file = file
        self.entries = entries
        self.next_offset = next_offset

    def value(self, tag: Tag, default: int) -> int:
        """Read the value of a tag, which must be one and the same if there are several."""
        entry = self.entries.get(tag)
        if entry is None:
            return default
        if entry.number == 1 and entry.kind in WHOLE_NUMBERS:
            number = self.file.read(entry.position, _BYTES_OF_KIND[entry.kind])
            return int.from_bytes(number, "little" if self.file.order == "<" else "big")
        values = self.values(tag, 64)
        if not len(values) or (values != values[0]).any():
            raise Damaged(f"tag {int(tag)} has no value, or several")
        return int(values[0])

    def values(self, tag: Tag, most: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Read all values of a tag of integers; empty if it is missing."""
        entry = self.entries.get(tag, _Entry(1, 0, 0))
        if entry.kind not in WHOLE_NUMBERS:
            raise Damaged(f"tag {int(tag)} of type {entry.kind}")
        if entry.number > most:
            raise Damaged(f"tag {int(tag)} with {entry.number:,} values")
        dtype = np.dtype(self.file.order + WHOLE_NUMBERS[entry.kind])
        return np.frombuffer(self.file.read(entry.position, entry.number * dtype.itemsize), dtype)

    @cached_property
    def height(self) -> int:
        return self.value(Tag.HEIGHT, 0)

    @cached_property
    def width(self) -> int:
        return self.value(Tag.WIDTH, 0)

    @cached_property
    def samples(self) -> int:
        return self.value(Tag.SAMPLES_PER_PIXEL, 1)

    @property
    def is_separate(self) -> bool:
        """Return whether the samples of a pixel are in separate planes."""
        return self.value(Tag.PLANAR_CONFIGURATION, 1) == SEPARATE_PLANES

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the image as an array, without axes for a single sample or plane."""
        shape: tuple[int, ...] = (self.height, self.width)
        if self.samples != 1:
            shape = (self.samples, *shape) if self.is_separate else (*shape, self.samples)
        depth = self.value(Tag.DEPTH, 1)
        return (depth, *shape) if depth != 1 else shape

    @property
    def is_reduced(self) -> bool:
        """Return whether it is a smaller copy of the page before it."""
        return bool(self.value(Tag.NEW_SUBFILE_TYPE, 0) & 1) or self.value(Tag.SUBFILE_TYPE, 1) == 2

    def images(self) -> int:
        """Return how many images the page stands for: ImageJ and tifffile write stacks with one header and a note on
        the number."""
        entry = self.entries.get(Tag.DESCRIPTION, _Entry(2, 0, 0))
        text = self.file.read(entry.position, min(entry.number, DESCRIPTION_BYTES))
        imagej = _IMAGEJ_STACK.match(text)
        if imagej:
            return int(imagej[1])
        shaped = _TIFFFILE_SHAPE.match(text)
        if not shaped:
            return 1
        pixels = math.prod(int(size) for size in re.findall(rb"\d+", shaped[1]))
        return max(1, pixels // max(1, self.height * self.width * self.samples))


class TiffFile:
    """A TIFF file from its byte order on. Offsets are compared with the size of the file before anything is read."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.size = stream.seek(0, 2)
        self.content: bytes | None = None
        if self.size <= _SMALL_FILE_BYTES:
            stream.seek(0)
            self.content = stream.read(self.size)
        head = self.read(0, 8)
        self.order = "<" if head[:2] == b"II" else ">"
        self.is_big = head[2:4] in (b"+\0", b"\0+")
        if self.is_big and struct.unpack_from(f"{self.order}HH", head, 4) != (8, 0):
            raise Damaged("offsets that have not 8 bytes")
        self.number, self.number_bytes = (f"{self.order}Q", 8) if self.is_big else (f"{self.order}I", 4)
        self.first_offset = self.number_at(8 if self.is_big else 4)

    def read(self, position: int, size: int) -> bytes:
        """Read the bytes at an offset. Raises CutOff if the file ends before."""
        if position + size > self.size:
            raise CutOff
        if self.content is not None:
            if position + size > len(self.content):  # the file has become shorter
                raise CutOff
            return self.content[position : position + size]
        self.stream.seek(position)
        return Plain(self.stream).read(size)

    def number_at(self, position: int) -> int:
        """Read the number at an offset; it has the size of an offset."""
        return int(struct.unpack(self.number, self.read(position, self.number_bytes))[0])

    def pages(self) -> list[TiffPage]:
        """Return the first 64 pages, in order; there is one at least."""
        pages: list[TiffPage] = []
        offsets_seen: set[int] = set()
        offset = self.first_offset
        while offset and len(pages) < MAX_PAGES:
            if offset in offsets_seen:
                raise Damaged("a page that follows itself")
            offsets_seen.add(offset)
            pages.append(self.page_at(offset))
            offset = pages[-1].next_offset
        if not pages:
            raise Damaged("no page")
        return pages

    def page_at(self, offset: int) -> TiffPage:
        count_type, count_bytes, entry_bytes = (self.number, 8, 20) if self.is_big else (f"{self.order}H", 2, 12)
        (tags,) = struct.unpack(count_type, self.read(offset, count_bytes))
        if tags > MAX_TAGS:
            raise Damaged(f"{tags:,} tags")
        start = offset + count_bytes
        table = self.read(start, tags * entry_bytes)
        next_offset = self.number_at(start + len(table))
        entries: dict[int, _Entry] = {}
        for index, (tag, kind, count, offset) in enumerate(
            struct.iter_unpack(f"{self.order}HH{self.number[1:] * 2}", table)
        ):
            if tag not in KNOWN_TAGS:
                continue
            if tag in entries:
                raise Damaged(f"tag {tag} twice")
            is_inline = count * _BYTES_OF_KIND.get(kind, 1) <= self.number_bytes
            inline = start + (index + 1) * entry_bytes - self.number_bytes
            entries[tag] = _Entry(kind, count, inline if is_inline else offset)
        return TiffPage(self, entries, next_offset)


KNOWN_TAGS = frozenset(Tag)
