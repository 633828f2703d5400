"""Label images as .npy, .tif or .mha, and images that hold the class of every pixel.

The size in a file's header is compared with the image's before anything of that size is read. Nothing is unpickled, and
no file is opened but the one that is given: the data of an .mha must follow its header (SimpleITK would fetch them
from any path that the header names), and of a TIFF only the first page is decoded, without its OME metadata.
"""

from __future__ import annotations

import ast
import io
import logging
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.errors import InputFault
from evaluation.findings import Finding, listed, quote
from evaluation.formats.bounded import CutOff, Inflated, Plain, Source, cut_off, read_array, stream_size, too_large
from evaluation.formats.label_array import check_dtype, check_integers, check_labels, check_shape
from evaluation.formats.nary_mat import read_nary_mat

Integers = npt.NDArray[np.integer[Any]]

VALUES_NAMED = 8
MAX_CLASS_VALUE = 32767
MAGICS = {
    b"\x93NUMPY": "a NumPy file",
    b"II*\0": "a TIFF file",
    b"MM\0*": "a TIFF file",
    b"II+\0": "a TIFF file",
    b"MM\0+": "a TIFF file",
    b"\x89PNG": "a PNG file",
    b"PK\x03\x04": "a ZIP file",
    b"\x1f\x8b": "a gzip file",
    b"\xff\xd8\xff": "a JPEG file",
    b"\x89HDF": "an HDF5 file",
    b"MATLAB": "a MATLAB file",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
    b"ObjectType": "a MetaImage file",
}


def read_label_image(stream: BinaryIO, *, where: str, shape_yx: tuple[int, int], bytes_limit: int) -> Integers:
    """The label image of a .npy, .tif, .tiff or .mha file, integer (H, W).

    stream       seekable, read from its start
    where        the file, for messages; the last part of its name says which format it has
    shape_yx     (H, W) px that it must have
    bytes_limit  the most bytes that the file, and the array in it, may have

    Raises InputFault: too-large, wrong-format, unsupported-format, unreadable-file, several-images, external-data,
    not-numeric, and those of ``check_labels``.

    >>> file = io.BytesIO()
    >>> np.save(file, np.array([[0, 5, 5]], np.uint16))
    >>> read_label_image(file, where="'a.npy'", shape_yx=(1, 3), bytes_limit=1000)
    array([[0, 5, 5]], dtype=uint16)
    """
    array = read_image(stream, where, shape_yx, bytes_limit)
    return check_labels(array, where=where, shape_yx=shape_yx)


def read_class_map(
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    class_values: Mapping[str, int],
    class_names: Sequence[str],
) -> npt.NDArray[np.int16]:
    """The class id (1…C, 0 none) of every pixel, int16 (H, W); the image may also be a .mat file.

    class_values  the value that stands for each class in the file, by class name; 0 is none
    class_names   names of the classes; the id of a class is its position, from 1

    Raises InputFault: unknown-class-value, and those of ``read_label_image``.
    """
    if suffix_of(where) == ".mat":
        values = read_nary_mat(stream, where=where, shape_yx=shape_yx, bytes_limit=bytes_limit)
    else:
        expected = describe_class_values(class_values, class_names)
        array = read_image(stream, where, shape_yx, bytes_limit)
        values = check_integers(array, where=where, shape_yx=shape_yx, expected=expected)
    table = np.full(MAX_CLASS_VALUE + 1, -1, np.int16)
    table[0] = 0
    for class_id, name in enumerate(class_names, start=1):
        table[class_values[name]] = class_id
    if int(values.min(initial=0)) >= 0 and int(values.max(initial=0)) <= MAX_CLASS_VALUE:
        class_map: npt.NDArray[np.int16] = table[values]
    else:
        in_table = (values >= 0) & (values <= MAX_CLASS_VALUE)
        class_map = np.where(in_table, table[np.where(in_table, values, 0)], np.int16(-1))
    if class_map.min(initial=0) < 0:
        raise InputFault(*unknown_values(values, class_map < 0, where, class_values, class_names))
    return class_map


def unknown_values(
    values: Integers,
    unknown: npt.NDArray[np.bool_],
    where: str,
    class_values: Mapping[str, int],
    class_names: Sequence[str],
) -> Iterator[Finding]:
    """A finding for each value that is not a class; those after the first eight are counted with the eighth."""
    found, counts = np.unique(values[unknown], return_counts=True)
    for index, (value, count) in enumerate(zip(found[:VALUES_NAMED], counts, strict=False)):
        row, column = divmod(int((values == value).argmax()), values.shape[1])
        last = index == VALUES_NAMED - 1
        yield Finding(
            "unknown-class-value",
            where,
            f"the value {value} in {count:,} pixels (first at row {row}, column {column})",
            describe_class_values(class_values, class_names),
            "Write the values that the challenge gives to its classes.",
            count=1 + (len(found) - VALUES_NAMED if last else 0),
        )


def describe_class_values(class_values: Mapping[str, int], class_names: Sequence[str]) -> str:
    named = [f"{class_values[name]} ({quote(name)})" for name in class_names[:20]]
    return ", ".join(["0 for no class", *named])


def suffix_of(where: str) -> str:
    """The suffix, in lower case, of the file that a place ends with.

    >>> suffix_of("case 'P1_1', 'P1/labels.TIF'")
    '.tif'
    """
    return PurePosixPath(where.rstrip("'")).suffix.lower()


def read_image(stream: BinaryIO, where: str, shape_yx: tuple[int, int], bytes_limit: int) -> npt.NDArray[Any]:
    """The array of an image file of the right shape and of numbers; its values are not looked at."""
    suffix = suffix_of(where)
    if suffix not in READERS:
        fix = "Write the labels as .npy, .tif or .mha."
        if suffix == ".mhd":
            fix = "Write one .mha file, which holds header and data."
        got = f"a file with the suffix {quote(suffix)}" if suffix else "a file without a suffix"
        raise InputFault(Finding("unsupported-format", where, got, f"one of {listed(READERS)}", fix))
    reader, magics, name = READERS[suffix]
    stream_size(stream, where=where, bytes_limit=bytes_limit)
    head = stream.read(16)
    stream.seek(0)
    if not head.startswith(magics):
        seen = next((kind for magic, kind in MAGICS.items() if head.startswith(magic)), "something else")
        got = seen if head else "an empty file"
        raise InputFault(
            Finding("wrong-format", where, got, f"{name}, as its suffix says", "Write the file again in this format.")
        )
    try:
        return reader(stream, where, shape_yx, bytes_limit)
    except CutOff:
        raise InputFault(cut_off(where)) from None
    except Damaged as error:
        got = f"a damaged header ({error})"
        raise InputFault(Finding("wrong-format", where, got, name, "Write or copy the file again.")) from None


class Damaged(Exception):
    """The header of a file contradicts its format. Never leaves this module."""


# --- .npy -------------------------------------------------------------------------------------------------------------

NPY_HEADER_BYTES = 10_000  # as many as numpy itself allows
# What ast.literal_eval is documented to raise; then it is not the header that numpy writes.
LITERAL_FAULTS = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


def read_npy(stream: BinaryIO, where: str, shape_yx: tuple[int, int], bytes_limit: int) -> npt.NDArray[Any]:
    """The array of a .npy file. Python objects are refused by their type, never unpickled."""
    source = Plain(stream)
    major = source.read(8)[6]
    header_bytes = int.from_bytes(source.read(2 if major == 1 else 4), "little")
    if header_bytes > NPY_HEADER_BYTES:
        raise Damaged(f"a description of {header_bytes:,} bytes")
    shape, fortran, dtype = parse_npy_header(source.read(header_bytes))
    check_dtype(dtype, where=where)
    check_shape(shape, where=where, shape_yx=shape_yx)
    return read_array(source, shape, dtype, where=where, bytes_limit=bytes_limit, fortran=fortran)


def parse_npy_header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis runs fastest, and type, from the dictionary that a .npy file starts with."""
    try:
        header = ast.literal_eval(text.decode("latin-1").strip())
    except LITERAL_FAULTS:
        raise Damaged("no description of the array") from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise Damaged("no description of the array")
    shape, fortran, description = header["shape"], header["fortran_order"], header["descr"]
    if not (isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)):
        raise Damaged(f"the shape {quote(shape)}")
    if isinstance(description, list | tuple):
        return shape, bool(fortran), np.dtype("V1")  # records: their fields do not matter
    if not (isinstance(description, str) and re.fullmatch(r"[<>=|]?[a-zA-Z?]\d{0,6}(\[\w{1,9}\])?", description)):
        raise Damaged(f"the type {quote(description)}")
    try:
        return shape, bool(fortran), np.dtype(description)
    except TypeError:
        raise Damaged(f"the type {quote(description)}") from None


# --- .mha -------------------------------------------------------------------------------------------------------------

MHA_HEADER_BYTES = 1 << 16
MHA_DTYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG": "i4",
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}


def read_mha(stream: BinaryIO, where: str, shape_yx: tuple[int, int], bytes_limit: int) -> npt.NDArray[Any]:
    """The pixels of a MetaImage whose data follow its header, plain or compressed with zlib."""
    header = read_mha_header(stream)
    data_file = header["elementdatafile"]
    if data_file.upper() != "LOCAL":
        raise InputFault(
            Finding(
                "external-data",
                where,
                f"a header whose data are in another file, {quote(data_file)}",
                "'ElementDataFile = LOCAL', with the data behind the header",
                "Write one .mha file; with SimpleITK: WriteImage(image, 'name.mha').",
            )
        )
    if header.get("binarydata", "True").lower() == "false":
        got = "pixels written as text (BinaryData = False)"
        raise InputFault(Finding("unsupported-format", where, got, "binary data", "Write the file with SimpleITK."))
    sizes_xy = [whole_number(size, "DimSize") for size in header.get("dimsize", "").split()]
    if len(sizes_xy) != whole_number(header.get("ndims", ""), "NDims") or not 1 <= len(sizes_xy) <= 8:
        raise Damaged("DimSize does not fit NDims")
    channels = whole_number(header.get("elementnumberofchannels", "1"), "ElementNumberOfChannels")
    shape = (*reversed(sizes_xy), channels) if channels != 1 else tuple(reversed(sizes_xy))
    check_shape(shape, where=where, shape_yx=shape_yx)
    if header.get("elementtype", "").upper() not in MHA_DTYPES:
        raise Damaged(f"ElementType {quote(header.get('elementtype', ''))}")
    if header.get("headersize", "0") not in ("0", ""):
        raise Damaged("HeaderSize")
    big_endian = "true" in (
        header.get("binarydatabyteordermsb", "False").lower(),
        header.get("elementbyteordermsb", "False").lower(),
    )
    dtype = np.dtype((">" if big_endian else "<") + MHA_DTYPES[header["elementtype"].upper()])
    compressed = header.get("compresseddata", "False").lower() == "true"
    source: Source = Inflated(stream, bytes_limit) if compressed else Plain(stream)
    return read_array(source, shape, dtype, where=where, bytes_limit=bytes_limit)


def read_mha_header(stream: BinaryIO) -> dict[str, str]:
    """The header as values by key in lower case; the stream is left behind ElementDataFile, its last line."""
    header: dict[str, str] = {}
    left = MHA_HEADER_BYTES
    while "elementdatafile" not in header:
        line = stream.readline(left)
        left -= len(line)
        if not line.endswith(b"\n"):
            if left <= 0:
                raise Damaged(f"no ElementDataFile in the first {MHA_HEADER_BYTES:,} bytes")
            if not line.strip().lower().startswith(b"elementdatafile"):
                raise CutOff
        key, equals, value = line.decode("latin-1").partition("=")
        key = key.strip().lower()
        if not equals or key in header:
            raise Damaged(f"the line {quote(line.decode('latin-1').strip())}")
        header[key] = value.strip()
    return header


def whole_number(text: str, key: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        raise Damaged(f"{key} is {quote(text)}")
    return int(text)


# --- .tif -------------------------------------------------------------------------------------------------------------

# None, deflate, PackBits, deflate, LZMA, zstd. Not LZW: damaged data make the decoder of imagecodecs 2026.3.6 crash.
TIFF_LOSSLESS = {1, 8, 32773, 32946, 34925, 50000}
TIFF_LIMIT_TAGS = 256
TIFF_LIMIT_PAGES = 64
TIFF_LIMIT_TAG_BYTES = 1 << 22
TIFF_TYPE_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}  # all others: 1
TIFF_SEGMENT_TAGS = {273, 279, 324, 325}
TIFF_TILE_PX = 1 << 24
TIFF_VENDORS = ("ome", "lsm", "scanimage", "ndpi", "mmstack", "philips")  # their metadata are not looked at

# tifffile documents TiffFileError (a ValueError) only; on fuzzed files it and the codecs behind it raise these too.
TIFF_FAULTS = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    RuntimeError,  # all errors of imagecodecs, and NotImplementedError
    OSError,
    ArithmeticError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class TiffPage:
    """What the header of a TIFF page says: the first value of each tag of whole numbers, and how many each tag has."""

    values: dict[int, int]
    counts: dict[int, int]
    description: bytes
    next_offset: int

    def value(self, tag: int, default: int) -> int:
        return self.values.get(tag, default)

    @property
    def is_reduced(self) -> bool:
        return bool(self.value(254, 0) & 1)


def read_tiff(stream: BinaryIO, where: str, shape_yx: tuple[int, int], bytes_limit: int) -> npt.NDArray[Any]:
    """The first page of a TIFF file. Further pages may only be smaller copies of it (a pyramid)."""
    pages = tiff_pages(stream)
    page = pages[0]
    if (more := [other for other in pages[1:] if not other.is_reduced]) or tiff_planes(page) > 1:
        got = f"{len(more) + 1} pages" if more else f"a stack of {tiff_planes(page):,} images"
        raise InputFault(
            Finding("several-images", where, got, "one image, alone in its file", "Write only the label image.")
        )
    check_tiff_shape(page, where, shape_yx)
    check_tiff_segments(page, where, bytes_limit)
    stream.seek(0)
    data = io.BytesIO(stream.read(bytes_limit))  # reads beyond the end give what is there, and take no memory

    import tifffile  # slow to import, and not every challenge needs it

    no_vendor: dict[str, Any] = {f"is_{vendor}": False for vendor in TIFF_VENDORS}
    try:
        with silenced("tifffile"), tifffile.TiffFile(data, _multifile=False, **no_vendor) as tiff:
            first = tiff.pages.first
            if first.dtype is None:
                raise InputFault(unsupported_tiff(where, f"{page.value(258, 1)} bits a pixel"))
            check_dtype(first.dtype, where=where)
            check_shape(first.shape, where=where, shape_yx=shape_yx)
            array: npt.NDArray[Any] = first.asarray(maxworkers=1)
    except TIFF_FAULTS:
        raise InputFault(cut_off(where)) from None
    return array


def check_tiff_shape(page: TiffPage, where: str, shape_yx: tuple[int, int]) -> None:
    """Refuse colours and wrong sizes."""
    height, width, samples = page.value(257, 0), page.value(256, 0), page.value(277, 1)
    depth = page.value(32997, 1)
    planes = (samples,) if samples != 1 or page.value(262, 1) == 2 else ()
    shape = (height, width, *planes) if page.value(284, 1) == 1 else (*planes, height, width)
    check_shape((depth, *shape) if depth != 1 else shape, where=where, shape_yx=shape_yx)


def check_tiff_segments(page: TiffPage, where: str, bytes_limit: int) -> None:
    """Refuse what would be lossy, or would need far more memory than the image has."""
    compression = page.value(259, 1)
    if compression not in TIFF_LOSSLESS:
        raise InputFault(unsupported_tiff(where, f"compression {compression}"))
    height, width, bits = page.value(257, 0), page.value(256, 0), page.value(258, 1)
    if bits not in (1, 2, 4, 8, 16, 32, 64):
        raise InputFault(unsupported_tiff(where, f"{bits} bits a pixel"))
    if (needed := height * width * bits // 8) > bytes_limit:
        raise InputFault(too_large(where, f"an image of {needed:,} bytes", bytes_limit))
    segments = height
    if 322 in page.values or 323 in page.values:
        tile_width, tile_height = page.value(322, 0), page.value(323, 0)
        if not 1 <= tile_width * tile_height <= max(TIFF_TILE_PX, 4 * height * width) or page.value(32998, 1) != 1:
            raise Damaged(f"tiles of {tile_width:,} x {tile_height:,} pixels")
        segments = math.ceil(height / tile_height) * math.ceil(width / tile_width)
    if any(page.counts.get(tag, 0) > segments for tag in TIFF_SEGMENT_TAGS):
        raise Damaged("more strips or tiles than the image has room for")
    if not any(page.counts.get(tag, 0) for tag in (273, 324)):
        raise Damaged("no strips and no tiles")


def unsupported_tiff(where: str, got: str) -> Finding:
    return Finding(
        "unsupported-format",
        where,
        f"a TIFF file with {got}",
        "whole numbers of 8, 16, 32 or 64 bits, without compression or with a lossless one (deflate, zstd)",
        "Write it again, for example with tifffile.imwrite(path, labels, compression='zlib').",
    )


def tiff_pages(stream: BinaryIO) -> list[TiffPage]:
    """The headers of the pages of a TIFF or BigTIFF file, in order; at most 64. Raises Damaged or CutOff."""
    size = stream.seek(0, 2)
    stream.seek(0)
    start = stream.read(4)
    order = "<" if start[:2] == b"II" else ">"
    big = start[2:] in (b"+\0", b"\0+")
    stream.seek(8 if big else 4)
    (offset,) = struct.unpack(f"{order}{'Q' if big else 'I'}", Plain(stream).read(8 if big else 4))
    pages: list[TiffPage] = []
    seen: set[int] = set()
    while offset and len(pages) < TIFF_LIMIT_PAGES:
        if offset in seen:
            raise Damaged("a page that follows itself")
        seen.add(offset)
        pages.append(read_tiff_page(stream, offset, size, order, big))
        offset = pages[-1].next_offset
    if not pages:
        raise Damaged("no page")
    return pages


def read_tiff_page(stream: BinaryIO, offset: int, file_bytes: int, order: str, big: bool) -> TiffPage:
    """The header of the page at an offset. Tags that are too long to be true are refused."""
    if offset >= file_bytes:
        raise CutOff
    stream.seek(offset)
    entry_bytes, inline_bytes = (20, 8) if big else (12, 4)
    (tags,) = struct.unpack(f"{order}{'Q' if big else 'H'}", Plain(stream).read(8 if big else 2))
    if tags > TIFF_LIMIT_TAGS:
        raise Damaged(f"{tags:,} tags")
    entries = Plain(stream).read(tags * entry_bytes)
    (next_offset,) = struct.unpack(f"{order}{'Q' if big else 'I'}", Plain(stream).read(8 if big else 4))
    page = TiffPage({}, {}, b"", next_offset)
    description = b""
    for index in range(tags):
        entry = entries[index * entry_bytes : (index + 1) * entry_bytes]
        tag, kind, count = struct.unpack_from(f"{order}HH{'Q' if big else 'I'}", entry)
        size = TIFF_TYPE_BYTES.get(kind, 1) * count
        if size > TIFF_LIMIT_TAG_BYTES and tag not in TIFF_SEGMENT_TAGS:
            raise Damaged(f"tag {tag} of {size:,} bytes")
        data = entry[-inline_bytes:]
        if size > inline_bytes:
            (place,) = struct.unpack(f"{order}{'Q' if big else 'I'}", data)
            if place >= file_bytes:
                raise CutOff
            stream.seek(place)
            data = stream.read(min(size, 4096))
        letter = {1: "B", 3: "H", 4: "I", 16: "Q"}.get(kind)
        page.counts[tag] = count
        if letter and count and len(data) >= struct.calcsize(f"={letter}"):
            page.values[tag] = struct.unpack_from(f"{order}{letter}", data)[0]
        if tag == 270:
            description = data
    return TiffPage(page.values, page.counts, description, next_offset)


def tiff_planes(page: TiffPage) -> int:
    """How many images the page stands for: ImageJ and tifffile write stacks with one header and a note about it."""
    imagej = re.match(rb"ImageJ=.*?^images=(\d{1,9})$", page.description, re.DOTALL | re.MULTILINE)
    if imagej:
        return int(imagej[1])
    shaped = re.match(rb'\{"shape": \[([\d, ]{1,100})\]', page.description)
    if shaped:
        pixels = math.prod(int(size) for size in re.findall(rb"\d+", shaped[1]))
        one = page.value(256, 0) * page.value(257, 0) * page.value(277, 1) * page.value(32997, 1)
        return max(1, pixels // max(one, 1))
    return 1


@contextmanager
def silenced(name: str) -> Iterator[None]:
    """What a library logs about a stranger's file would end up on stderr, whose last line is for the summary."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


Reader = Callable[[BinaryIO, str, tuple[int, int], int], npt.NDArray[Any]]

READERS: dict[str, tuple[Reader, tuple[bytes, ...], str]] = {
    ".npy": (read_npy, (b"\x93NUMPY",), "a NumPy file"),
    ".tif": (read_tiff, (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "a TIFF file"),
    ".tiff": (read_tiff, (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "a TIFF file"),
    ".mha": (read_mha, (b"ObjectType", b"NDims", b"Comment"), "a MetaImage file"),
}
