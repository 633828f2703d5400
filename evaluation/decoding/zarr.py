"""Label images in zipped Zarr and OME-Zarr stores, versions 2 and 3: metadata in JSON and a file for each chunk.

A store is read from the ZIP alone; nothing in it names another file. Sizes are known before a chunk is read, and each
chunk must give exactly its numbers. Not by zarr: 3.1.6 makes 839 MB of a chunk of 0.8 MB before it finds that 256 bytes
were to come. https://zarr-specs.readthedocs.io, https://ngff.openmicroscopy.org
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from evaluation.decoding.label_array import check_shape
from evaluation.decoding.npy import ZIP_FAULTS, check_directory
from evaluation.decoding.streams import ZLIB_OR_GZIP, CutOff, Damaged, inflated, too_large
from evaluation.findings import quote
from evaluation.findings.errors import InputFault
from evaluation.findings.labels import NoArray, UnsupportedZarr

DIRECTORY_BYTES = 1 << 24
METADATA_BYTES = 1 << 20
MAX_CHUNKS, MAX_AXES = 1 << 16, 8
PADDED_BYTES, PADDED_RATIO = 1 << 24, 8  # chunks may be so much larger than a small array, or times larger than a large
MAX_SIDE = 1 << 40
ALL_ONES = b"Td\x1fd"  # behind these four bytes a check sum that began with 0 is all ones
DTYPE = re.compile(r"[<>|](b1|[iu][1248]|f[48])")
TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")


class Unsupported(Exception):
    """A part of Zarr that is not read. Never leaves this module."""


@dataclass(frozen=True, slots=True)
class ZarrArray:
    """What the metadata say of an array.

    codecs   are undone from the last to the first
    key      what the names of its chunks start with
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]
    fill: int | float
    key: str
    separator: str
    is_fortran: bool = False

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize


def read_zarr(
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int = 1,
    dataset: str | None = None,
) -> npt.NDArray[Any]:
    """The array of a store at the path ``dataset``; None: the only one at full size, labels before images.

    Raises InputFault: no-mask-variable, wrong-shape, too-large, unsupported-format; CutOff, Damaged.
    """
    check_directory(stream, DIRECTORY_BYTES)
    try:
        with zipfile.ZipFile(stream) as archive:
            array = find_array(archive, dataset, where)
            check_shape(array.shape, where=where, shape_yx=shape_yx, channels=channels)
            if (needed := math.prod(array.shape) * array.dtype.itemsize) > bytes_limit:
                raise InputFault(too_large(where, f"an array of {needed:,} bytes", bytes_limit))
            return read_chunks(archive, array, needed)
    except ZIP_FAULTS:
        raise CutOff from None
    except Unsupported as error:
        raise InputFault(UnsupportedZarr(str(error)).at(where)) from None


def shape_in_zarr(stream: BinaryIO, where: str, dataset: str | None) -> tuple[int, ...] | None:
    """The shape of the array that ``read_zarr`` reads; None if it cannot be read.

    Raises InputFault, CutOff, Damaged.
    """
    check_directory(stream, DIRECTORY_BYTES)
    try:
        with zipfile.ZipFile(stream) as archive:
            return find_array(archive, dataset, where).shape
    except ZIP_FAULTS:
        raise CutOff from None
    except Unsupported:
        return None


def is_zarr(stream: BinaryIO) -> bool:
    """Whether a ZIP holds a store; the stream is left at its start."""
    try:
        check_directory(stream, DIRECTORY_BYTES)
        with zipfile.ZipFile(stream) as archive:
            return any(PurePosixPath(name).name in (".zarray", "zarr.json") for name in archive.namelist())
    except (CutOff, Damaged, *ZIP_FAULTS):
        return False
    finally:
        stream.seek(0)


# --- metadata ---------------------------------------------------------------------------------------------------------


def find_array(archive: zipfile.ZipFile, dataset: str | None, where: str) -> ZarrArray:
    """The array to read. Raises InputFault ("no-mask-variable") if it cannot be told."""
    found: dict[str, Mapping[str, Any]] = {}
    for info in archive.infolist():
        folder, _, file = info.filename.rpartition("/")
        if file == ".zarray" or file == "zarr.json":
            metadata = json_of(archive, info)
            if file == ".zarray" or metadata.get("node_type") == "array":
                found[folder] = metadata
    names = list(found)
    if dataset is not None:
        wanted = dataset.strip("/")
        names = [name for name in names if name == wanted or name.endswith(f"/{wanted}")]
    else:
        names = [name for name in names if not re.fullmatch(r"(.*/)?[1-9][0-9]*", name)] or names  # not smaller scales
        names = [name for name in names if "labels" in name.split("/")] or names
    if len(names) != 1:
        wanted = f"the array {quote(dataset)}" if dataset is not None else "one array at full size"
        raise InputFault(NoArray(found, wanted).at(where))
    prefix = f"{names[0]}/" if names[0] else ""
    metadata = found[names[0]]
    try:
        array = version_3(metadata, prefix) if metadata.get("zarr_format") == 3 else version_2(metadata, prefix)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise Damaged("metadata that do not describe an array") from None
    sides = (*array.shape, *array.chunk)
    if len(array.shape) != len(array.chunk) or not 1 <= len(array.shape) <= MAX_AXES or min(array.chunk) < 1:
        raise Damaged("no usable shape")
    if not all(type(side) is int and 0 <= side < MAX_SIDE for side in sides) or not is_number(array.fill):
        raise Damaged("no usable shape")
    return array


def is_number(value: object) -> bool:
    return type(value) in (int, float, bool) and abs(value) < 1 << 63  # type: ignore[arg-type]


def json_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Mapping[str, Any]:
    if info.file_size > METADATA_BYTES:
        raise Damaged(f"metadata of {info.file_size:,} bytes")
    try:
        found = orjson.loads(archive.read(info))
    except orjson.JSONDecodeError:
        raise Damaged("metadata that are no JSON") from None
    if type(found) is not dict:
        raise Damaged("metadata that are no object")
    return found


def version_2(metadata: Mapping[str, Any], prefix: str) -> ZarrArray:
    if not isinstance(metadata["dtype"], str) or not DTYPE.fullmatch(metadata["dtype"]):
        raise Unsupported("values that are no numbers")
    if metadata.get("filters"):
        raise Unsupported("filters")
    compressor = metadata["compressor"]
    return ZarrArray(
        tuple(metadata["shape"]),
        tuple(metadata["chunks"]),
        np.dtype(metadata["dtype"]),
        () if compressor is None else (str(compressor["id"]),),
        metadata["fill_value"] or 0,
        prefix,
        str(metadata.get("dimension_separator", ".")),
        metadata["order"] == "F",
    )


def version_3(metadata: Mapping[str, Any], prefix: str) -> ZarrArray:
    if metadata["data_type"] not in TYPES:
        raise Unsupported("values that are no numbers")
    first, *others = metadata["codecs"]
    if first["name"] != "bytes" or metadata["chunk_grid"]["name"] != "regular":
        raise Unsupported(f"the codec {quote(first['name'])}")
    big = first.get("configuration", {}).get("endian") == "big"
    keys = metadata["chunk_key_encoding"]
    is_default = keys["name"] == "default"
    return ZarrArray(
        tuple(metadata["shape"]),
        tuple(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
        np.dtype(metadata["data_type"]).newbyteorder(">" if big else "<"),
        tuple(str(codec["name"]) for codec in others),
        metadata["fill_value"] or 0,
        f"{prefix}c/" if is_default else prefix,
        str(keys.get("configuration", {}).get("separator", "/" if is_default else ".")),
    )


# --- chunks -----------------------------------------------------------------------------------------------------------


def read_chunks(archive: zipfile.ZipFile, array: ZarrArray, needed: int) -> npt.NDArray[Any]:
    """The numbers of all chunks; those that were never written have the fill value."""
    grid = [-(-side // step) for side, step in zip(array.shape, array.chunk, strict=True)]
    if math.prod(grid) > MAX_CHUNKS:
        raise Unsupported(f"{math.prod(grid):,} chunks")
    if math.prod(grid) * array.chunk_bytes > max(PADDED_BYTES, PADDED_RATIO * needed):
        raise Damaged(f"chunks of {array.chunk_bytes:,} bytes for an array of {needed:,}")
    with np.errstate(all="ignore"):
        fill = np.array(array.fill).astype(array.dtype)
    if fill != array.fill:
        raise Damaged("a fill value that is none of its numbers")
    numbers = np.full(array.shape, fill)
    members = {info.filename: info for info in archive.infolist()}
    for of_chunk in product(*map(range, grid)):
        info = members.get(array.key + array.separator.join(map(str, of_chunk)))
        if info is None:
            continue
        if info.file_size > 2 * array.chunk_bytes + 1024:
            raise Damaged("a chunk that is too long")
        data = unpacked(archive.read(info), array.codecs, array.chunk_bytes)
        chunk = np.frombuffer(data, array.dtype).reshape(array.chunk, order="F" if array.is_fortran else "C")
        starts = [index * step for index, step in zip(of_chunk, array.chunk, strict=True)]
        part = numbers[tuple(slice(start, start + step) for start, step in zip(starts, array.chunk, strict=True))]
        part[...] = chunk[tuple(map(slice, part.shape))]
    return numbers


def unpacked(data: bytes, codecs: Sequence[str], size: int) -> bytes:
    """The bytes of a chunk. Raises CutOff unless there are exactly ``size``, Unsupported."""
    import imagecodecs

    for codec in reversed(codecs):
        try:
            if codec == "crc32c":
                if len(data) < 4 or crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
                    raise CutOff
                data = data[:-4]
            elif codec in ("gzip", "zlib"):
                data = inflated(data, size, ZLIB_OR_GZIP)
            elif codec == "zstd":
                data = bytes(imagecodecs.zstd_decode(data, out=bytearray(size)))
            elif codec == "blosc":
                if len(data) < 16 or struct.unpack_from("<I4xI", data, 4) != (size, len(data)):
                    raise CutOff
                data = bytes(imagecodecs.blosc_decode(data, out=bytearray(size)))
            else:
                raise Unsupported(f"the codec {quote(codec)}")
        except (RuntimeError, ValueError):
            raise CutOff from None
    if len(data) != size:
        raise CutOff
    return data


def crc32c(data: bytes) -> int:
    """Castagnoli's check sum; no library that is here has it. RFC 3720, section 12.1.

    The data are cut into pieces, whose sums are computed side by side and then put together: a sum is linear, so it
    goes on over a piece as the sums of its bits do (M. Adler, ``crc32_combine`` of zlib).

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table, bits = crc32c_table(), np.arange(32, dtype=np.uint32)
    content = np.frombuffer(ALL_ONES + data, np.uint8)
    length = math.isqrt(len(content)) + 1
    pieces = np.zeros((-(-len(content) // length), length), np.uint8)
    pieces.reshape(-1)[-len(content) :] = content  # zeros at the start change nothing
    sums, moved = np.zeros(len(pieces), np.uint32), np.uint32(1) << bits
    for column in pieces.T:
        sums = sums >> 8 ^ table[(sums ^ column) & 255]
        moved = moved >> 8 ^ table[moved & 255]
    total = np.uint32(0)
    for of_piece in sums:
        total = of_piece ^ np.bitwise_xor.reduce(moved * (total >> bits & 1))
    return int(~total)


@cache
def crc32c_table() -> npt.NDArray[np.uint32]:
    """What each byte does to the check sum, uint32 (256,)."""
    table, one = np.arange(256, dtype=np.uint32), np.uint32(1)
    for _ in range(8):
        table = table >> one ^ np.uint32(0x82F63B78) * (table & one)
    return table
