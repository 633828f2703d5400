"""Files of pixels: the container, the header, and the image after checks.

A container has one function. It reads the header of a stream and returns ``Pixels``, before memory for the image is
taken; ``read_image`` compares them with the case and reads. PNG and NumPy files are read here.
"""

from __future__ import annotations

import math
import posixpath
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding import itk, streams, tiff
from evaluation.files.decoding.label_array import Pixels, check_dtype, check_shape, check_spacing
from evaluation.files.decoding.streams import (
    IN_PARTS,
    SMALLER_INTEGERS,
    ZIP_FAULTS,
    CutOff,
    Damaged,
    Plain,
    check_bytes,
    damage_told,
    list_zip_members,
    read_array,
    stream_size,
)
from evaluation.findings import quote
from evaluation.findings.errors import refused

# --- NumPy files: .npy, and .npz (a ZIP of them). NumPy Enhancement Proposal 1. Nothing is unpickled. -----------------


NPY_HEADER_BYTES = 10_000  # as many as numpy itself allows
MAX_AXES = 32
MAX_SIDE = 1 << 62
DIRECTORY_BYTES = 1 << 20
ID_NAMES = ("labels", "label", "inst_map", "inst", "instances", "n_ary_mask", "mask", "masks", "arr_0")
CLASS_NAMES = ("classes", "class_map", "type_map", "type", "types")

# What numpy raises for headers that it does not write: ValueError by itself, the others from what it calls.
HEADER_FAULTS = (
    ValueError, TypeError, SyntaxError, LookupError, MemoryError, RecursionError, OverflowError, TokenError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _NpyHeader:
    """Header of a .npy file. ``fortran``: the first axis runs fastest."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def holds_object(self) -> bool:
        """Return whether the array is a single Python object, as in files of Cellpose."""
        return self.dtype.kind == "O" and self.shape == ()


def _peek_npy(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """Describe the array of a .npy file. Raises CutOff, Damaged; to read it InputFault: too-large, unreadable-file."""
    source = Plain(stream)
    header = read_npy_header(source)

    def read() -> npt.NDArray[Any]:
        return read_array(
            source, header.shape, header.dtype, where=where, bytes_limit=bytes_limit, fortran=header.fortran
        )

    return Pixels(where, header.shape, read, header.dtype)


def read_npy_header(source: Plain) -> _NpyHeader:
    """Read shape and type from the dictionary that a .npy file starts with; the source is left at the data."""
    start = source.read(8)
    if not start.startswith(streams.NPY_MAGIC):
        raise Damaged("not an array header")
    version = 1 if start[6] == 1 else 2
    size = source.read(2 * version)
    header_bytes = int.from_bytes(size, "little")
    if header_bytes > NPY_HEADER_BYTES:
        raise Damaged(f"a description of {header_bytes:,} bytes")
    read_header = np.lib.format.read_array_header_1_0 if version == 1 else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings(action="ignore"):  # about headers of Python 2
            shape, fortran, dtype = read_header(BytesIO(size + source.read(header_bytes)))
    except HEADER_FAULTS:
        raise Damaged("no description of the array") from None
    if len(shape) > MAX_AXES or not all(type(size) is int and 0 <= size < MAX_SIDE for size in shape):
        raise Damaged("no usable shape")
    return _NpyHeader(shape, dtype, fortran)


def _peek_npz(stream: BinaryIO, where: str, bytes_limit: int, *, names: Sequence[str] = ID_NAMES) -> Pixels:
    """Describe the only array of an .npz file, or the only array with one of the names. It is read in place.

    Raises InputFault (no-mask-variable), CutOff, Damaged; reading as ``_peek_npy``.
    """
    check_directory(stream)
    with _zip_damage_told():
        archive = zipfile.ZipFile(stream)
        member = _choose_member(archive, where, names)
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Damaged("an array that is encrypted, or compressed in another way than numpy does")
        array_file: Any = archive.open(member)  # it only has to read
        pixels = _peek_npy(array_file, f"{where}, {quote(member.filename)}", bytes_limit)

    def read() -> npt.NDArray[Any]:
        with _zip_damage_told():
            array = pixels.read()
            if array_file.read(1):  # at its end the check sum is compared
                raise CutOff
            return array

    return replace(pixels, read=read)


@contextmanager
def _zip_damage_told() -> Iterator[None]:
    """Convert errors of zipfile to CutOff."""
    try:
        yield
    except ZIP_FAULTS:
        raise CutOff from None


def check_directory(stream: BinaryIO, most: int = DIRECTORY_BYTES) -> list[zipfile.ZipInfo]:
    """Return the members of a ZIP.

    Raises CutOff, Damaged: the list of members has more bytes than ``most``, repeats a member, or lets members share
    bytes.
    """
    members = list_zip_members(stream, most, most)
    if len({member.filename for member in members}) < len(members):
        raise Damaged("a list that names a member twice")
    stream.seek(0)
    return members


def _choose_member(archive: zipfile.ZipFile, where: str, names: Sequence[str]) -> zipfile.ZipInfo:
    """Find the array to read. Raises InputFault if it is ambiguous."""
    members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    named = [member for member in members if member.filename.removesuffix(".npy") in names]
    chosen = named if len(members) > 1 else members
    if len(chosen) == 1:
        return chosen[0]
    names_there = [member.filename.removesuffix(".npy") for member in members]
    if set(names_there) >= {"X", "y"}:
        raise refused("no-mask-variable", where, wording="labels-in-y", names=names_there)
    expected = f"one array, or one with a name such as {quote(names[0])}"
    raise refused("no-mask-variable", where, wording="no-array-in-npz", expected=expected, names=names_there)


# --- PNG images of 1 to 16 bits a sample, also with a palette. --------------------------------------------------------
#
# The chunks are read and checked here: their check sums, and that the compressed data give exactly the bytes of the
# image that the header describes. Only then are they handed to libpng, as a file of nothing but header and data, which
# undoes the filters. So no other chunk (profiles, texts, transparency) is looked at, and nothing is scaled or printed.
# W3C, "Portable Network Graphics (PNG) Specification (Second Edition)", ISO/IEC 15948:2003.


PNG_CHUNKS = 300_000  # encoders write data chunks of 8 kB or more
PNG_SIDE = 1_000_000  # as many as libpng itself allows
PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type: grey, RGB, palette, grey and alpha, RGB and alpha
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
GREY, PALETTE = 0, 3


@dataclass(frozen=True, slots=True)
class _PngHeader:
    """Header of a PNG; ``bits``: per sample."""

    height: int
    width: int
    bits: int
    colour_type: int

    @property
    def shape(self) -> tuple[int, ...]:
        channels = PNG_CHANNELS[self.colour_type]
        return (self.height, self.width, *([channels] if channels > 1 else []))

    @property
    def row_bytes(self) -> int:
        return (self.width * PNG_CHANNELS[self.colour_type] * self.bits + 7) // 8


def _peek_png(stream: BinaryIO, where: str, bytes_limit: int, *, as_colours: bool = False) -> Pixels:
    """Describe the samples of a PNG as they are in the file, uint8 or uint16: (H, W) if grey, otherwise (H, W,
    channels).

    as_colours  a palette gives RGB, otherwise its indices, and index 0 must be black or white

    Grey of 1, 2 or 4 bits keeps its values (0 and 1, 0…3, 0…15). Channels are grey and alpha (2), RGB (3) or RGB and
    alpha (4). Raises CutOff, Damaged, and InputFault: unsupported-format (interlaced); reading also too-large, and
    unsupported-format for a palette of other colours.
    """
    remaining_bytes = stream.seek(0, 2) - len(streams.PNG_MAGIC)
    stream.seek(len(streams.PNG_MAGIC))
    kind, payload, remaining_bytes = _read_png_chunk(stream, remaining_bytes)
    header = _read_png_header(kind, payload, where)
    shape = (*header.shape, 3) if as_colours and header.colour_type == PALETTE else header.shape
    dtype = np.dtype(f"u{max(header.bits // 8, 1)}")

    def read() -> npt.NDArray[Any]:
        check_bytes(math.prod(shape) * dtype.itemsize, "an array", where, bytes_limit)
        data, palette = _read_png_data(stream, remaining_bytes, header)
        samples = _decode_png(header, data)
        if header.colour_type != PALETTE:
            return samples
        if samples.size and 3 * int(samples.max()) >= len(palette):
            raise Damaged("a number without a colour in the palette")
        if as_colours:
            return np.take(np.frombuffer(palette, np.uint8).reshape(-1, 3), samples, axis=0)
        if palette[:3] not in (b"\0\0\0", b"\xff\xff\xff"):
            got = f"a PNG with the palette colour 0 set to #{palette[:3].hex()}"
            advice = "Use black, colour 0, for the background, or write 8-bit or 16-bit grey values."
            raise refused("unsupported-format", where, wording="png", got=got, fix=advice)
        return samples

    return Pixels(where, shape, read, dtype)


def _read_png_chunk(stream: BinaryIO, remaining_bytes: int) -> tuple[bytes, bytes, int]:
    """Read kind and payload of the next chunk, and the number of remaining bytes of the file."""
    size, kind = struct.unpack(">I4s", Plain(stream).read(8))
    remaining_bytes -= 12 + size
    if remaining_bytes < 0:
        raise CutOff
    payload = Plain(stream).read(size)
    if Plain(stream).read(4) != struct.pack(">I", zlib.crc32(payload, zlib.crc32(kind))):
        raise CutOff
    return kind, payload, remaining_bytes


def _read_png_data(stream: BinaryIO, remaining_bytes: int, header: _PngHeader) -> tuple[bytes, bytes]:
    """Read the compressed data, and the palette: red, green, blue, red, …; from the chunks after the header."""
    data: list[bytes] = []
    palette = b""
    for _ in range(PNG_CHUNKS - 1):
        kind, payload, remaining_bytes = _read_png_chunk(stream, remaining_bytes)
        if kind == b"IDAT":
            data.append(payload)
        elif kind == b"IEND":
            return b"".join(data), palette
        elif kind == b"PLTE" and header.colour_type == PALETTE:
            if len(payload) % 3 or not 3 <= len(payload) <= 768 or data or palette:
                raise Damaged("no usable palette")
            palette = payload
        elif kind != b"PLTE" and not kind[0] & 32:
            raise Damaged("an unknown critical chunk")
    raise Damaged(f"more than {PNG_CHUNKS:,} chunks")


def _read_png_header(kind: bytes, payload: bytes, where: str) -> _PngHeader:
    """Read the first chunk of the file."""
    if kind != b"IHDR" or len(payload) != 13:
        raise Damaged("no header chunk")
    width, height, bits, colour_type, compression, filters, interlaced = struct.unpack(">IIBBBBB", payload)
    if bits not in PNG_DEPTHS.get(colour_type, ()) or (compression, filters) != (0, 0) or interlaced > 1:
        raise Damaged("an unknown kind of pixels")
    if interlaced:
        advice = "Write it without interlacing."
        raise refused("unsupported-format", where, wording="png", got="an interlaced PNG", fix=advice)
    if not (1 <= width <= PNG_SIDE and 1 <= height <= PNG_SIDE):
        raise Damaged(f"{height:,} rows x {width:,} columns; 1 to {PNG_SIDE:,} are possible")
    return _PngHeader(height, width, bits, colour_type)


def _decode_png(header: _PngHeader, data: bytes) -> npt.NDArray[Any]:
    """Return the samples. Raises CutOff unless the data decompress to the rows of the image, each after its filter
    byte.
    """
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
            b"".join(
                [streams.PNG_MAGIC, _png_chunk(b"IHDR", ihdr), _png_chunk(b"IDAT", data), _png_chunk(b"IEND", b"")]
            )
        )
    except (DeflateError, PngError):
        raise CutOff from None
    return tiff.unpack_samples(samples, header.bits, header.width) if header.bits < 8 else samples.reshape(header.shape)


def _png_chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(payload, zlib.crc32(kind)))


# --- The containers. --------------------------------------------------------------------------------------------------


PICKLE_SUFFIXES = (".pkl", ".pickle")
DETACHED = {".mhd": ".mha", ".nhdr": ".nrrd"}  # headers of files with data, which they name
TISSUE_SUFFIXES = (".svs", ".tif", ".tiff", ".png", ".SVS", ".TIF", ".TIFF", ".PNG")  # of whole images
DOUBLE_SUFFIXES = (".nii.gz", ".zarr.zip")


@dataclass(frozen=True, slots=True)
class _Container:
    """Reader for files with a suffix: first bytes, name, and advice for files that do not fit into memory."""

    peek: Callable[..., Pixels]
    magics: tuple[bytes, ...]
    name: str
    fix: str = SMALLER_INTEGERS


CONTAINERS = {
    ".npy": _Container(_peek_npy, (streams.NPY_MAGIC,), "a NumPy file"),
    ".npz": _Container(_peek_npz, (streams.ZIP_MAGIC, streams.EMPTY_ZIP_MAGIC), "a NumPy file of arrays (.npz)"),
    ".png": _Container(_peek_png, (streams.PNG_MAGIC,), "a PNG file"),
    ".tif": _Container(tiff.peek_tiff, streams.TIFF_MAGICS, "a TIFF file"),
    ".tiff": _Container(tiff.peek_tiff, streams.TIFF_MAGICS, "a TIFF file"),
    ".mha": _Container(itk.peek_mha, streams.MHA_MAGICS, "a MetaImage file"),
    ".nii": _Container(itk.peek_nifti, itk.NIFTI_MAGICS, "a NIfTI file", IN_PARTS),
    ".nii.gz": _Container(itk.peek_nifti, itk.NIFTI_MAGICS, "a NIfTI file", IN_PARTS),
    ".nrrd": _Container(itk.peek_nrrd, (itk.NRRD_MAGIC,), "an NRRD file", IN_PARTS),
}


def peek(stream: BinaryIO, suffix: str, where: str, bytes_limit: int, **options: Any) -> Pixels:
    """Describe the image of a file. Raises InputFault: unsupported-format, pickle, too-large and faults of its header.

    suffix    of the file, in lower case
    options special options of this container
    """
    stream_size(stream, where=where, bytes_limit=bytes_limit)
    if suffix not in CONTAINERS:
        _refuse_suffix(suffix, stream.read(streams.HEAD_BYTES), where)
    container = CONTAINERS[suffix]
    streams.check_content(stream, where=where, magics=container.magics, name=container.name)
    with damage_told(where, container.name):
        return container.peek(stream, where, bytes_limit, **options)


def open_image(
    stream: BinaryIO,
    *,
    suffix: str,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int | None = 1,
    spacing_um: float | None = None,
    **options: Any,
) -> Pixels:
    """Open the image of a file, without reading it yet, if it has the right shape, numbers, and the spacing of the
    case.

    channels    required number of channels; None: any number, after the other axes
    spacing_um  pixel size of the case; None: unknown

    Raises InputFault: several-images, not-numeric, wrong-shape, wrong-spacing, and as ``peek``.
    """
    pixels = peek(stream, suffix, where, bytes_limit, **options)
    if pixels.pages not in (1, channels):
        raise refused("several-images", where, got=f"{pixels.pages} pages")
    if pixels.dtype is not None:
        check_dtype(pixels.dtype, where=pixels.where)
    shape = pixels.shape if channels is not None else pixels.shape[:2]
    check_shape(shape, where=pixels.where, shape_yx=shape_yx, channels=channels or 1)
    if pixels.spacing_mm is not None:
        check_spacing(pixels.spacing_mm, spacing_um, where)
    return pixels


def read_image(stream: BinaryIO, *, suffix: str, where: str, **wanted: Any) -> npt.NDArray[Any]:
    """Read the image of a file, as it is there, if it is as ``open_image`` wants it. Raises InputFault."""
    pixels = open_image(stream, suffix=suffix, where=where, **wanted)
    with damage_told(where, CONTAINERS[suffix].name, fix=CONTAINERS[suffix].fix):
        return pixels.read()


def suffix_of(name: str) -> str:
    """Return the suffix of a file name, in lower case.

    >>> suffix_of("P1/labels.TIF"), suffix_of("P1/labels.nii.gz")
    ('.tif', '.nii.gz')
    """
    double = next((suffix for suffix in DOUBLE_SUFFIXES if name.lower().endswith(suffix)), "")
    return double or posixpath.splitext(name)[1].lower()


def _refuse_suffix(suffix: str, head: bytes, where: str) -> NoReturn:
    if suffix in PICKLE_SUFFIXES or head.startswith(streams.PICKLES):
        raise refused("pickle", where)
    fix = "Write the labels as .npy, .png, .tif or .mha."
    if suffix in DETACHED:
        fix = f"Write one {DETACHED[suffix]} file with header and data."
    got = streams.foreign_content(head) or file_with(suffix)
    raise refused("unsupported-format", where, wording="other-suffix", got=got, fix=fix, known=CONTAINERS)


def file_with(suffix: str) -> str:
    return f"a file with the suffix {quote(suffix)}" if suffix else "a file without a suffix"


def read_image_size(path: Path) -> tuple[int, int]:
    """Read height and width of the full-resolution image of an SVS, TIFF or PNG file, px. Raises InputFault."""
    height = width = 0
    try:
        with path.open("rb") as stream:
            head = stream.read(24)
            if head.startswith(streams.TIFF_MAGICS):
                page = tiff.TiffFile(stream).pages()[0]
                height, width = page.height, page.width
            elif head.startswith(streams.PNG_MAGIC) and len(head) == 24:
                width, height = struct.unpack_from(">II", head, 16)
    except (CutOff, Damaged, OSError):
        height = width = 0
    if height < 1 or width < 1:
        raise refused("unreadable-image", quote(path.name), expected="an SVS, TIFF or PNG file")
    return height, width
