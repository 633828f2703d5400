"""Bytes of files as strangers make them: valid where nothing else is asked for, wrong where it is."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from formats.pixels import mat_7_3

SHAPE = (20, 30)  # of the images of tests/every_format.py
MIB = 1 << 20


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def gzip_bomb(piece: bytes, repeat: int = 4, *, before: bytes = b"") -> bytes:
    """``piece`` over and over, 24 MiB of it in each of some members that are a thousandth of that."""
    member = gzip.compress(piece * (24 * MIB // len(piece)), 9)
    return gzip.compress(before) + member * repeat


# --- ZIP --------------------------------------------------------------------------------------------------------------


@dataclass
class Raw:
    """A member of a ZIP file that may say of itself what it likes."""

    name: bytes = b"1.mat"
    packed: bytes = b"content"
    size: int = -1
    method: int = 0
    checksum: int = -1
    extra: bytes = b""
    start: int = -1
    packed_bytes: int = -1


def zip_of(*members: Raw, comment: bytes = b"", end_64: bytes = b"") -> bytes:
    content, listed = bytearray(), bytearray()
    for raw in members:
        size = len(raw.packed) if raw.size < 0 else raw.size
        packed_bytes = len(raw.packed) if raw.packed_bytes < 0 else raw.packed_bytes
        checksum = zlib.crc32(raw.packed) if raw.checksum < 0 else raw.checksum
        start = len(content) if raw.start < 0 else raw.start
        facts = (raw.method, 0, 0, checksum, packed_bytes, size, len(raw.name))
        if raw.start < 0:
            content += struct.pack("<4s2H3H3L2H", b"PK\3\4", 20, 0, *facts, 0) + raw.name + raw.packed
        listed += struct.pack("<4s3H3H3L5H2L", b"PK\1\2", 20, 20, 0, *facts, len(raw.extra), 0, 0, 0, 0, start)
        listed += raw.name + raw.extra
    count = len(members) & 0xFFFF
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(listed), len(content), len(comment)) + comment
    return bytes(content + listed) + end_64 + end


def deflated(content: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(content) + deflater.flush()


# --- NumPy ------------------------------------------------------------------------------------------------------------


def npy_saying(shape: str, descr: str = "'<u2'", data: bytes = b"\0" * 1200, *, fortran: str = "False") -> bytes:
    """A .npy file whose header says something, whatever its data are."""
    return npy_header(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}") + data


def npy_header(text: str) -> bytes:
    header = text.encode("latin-1").ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header


def labels(dtype: Any = np.uint16) -> np.ndarray:
    """Two nuclei on the image, where the example of the kit has its first two."""
    array = np.zeros(SHAPE, dtype)
    array[0:6, 0:6], array[0:6, 12:18] = 1, 2
    return array


# --- PNG --------------------------------------------------------------------------------------------------------------


def png(
    rows: bytes | None = None,
    *,
    width: int = SHAPE[1],
    height: int = SHAPE[0],
    bits: int = 16,
    colour: int = 0,
    interlaced: int = 0,
    more: Iterable[tuple[bytes, bytes]] = (),
    data: Sequence[bytes] | None = None,
) -> bytes:
    """A PNG file: ``rows`` are its filtered rows (None: all 0), ``data`` the compressed ones, ``more`` other chunks."""
    if rows is None:
        samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(colour, 1)
        rows = b"\0" * (SHAPE[0] * (1 + SHAPE[1] * samples * max(bits, 8) // 8))
    header = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, bits, colour, 0, 0, interlaced)
    pieces = [zlib.compress(rows)] if data is None else data
    chunks = [(b"IHDR", header), *more, *((b"IDAT", piece) for piece in pieces), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, content) for kind, content in chunks)


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def rgb_png(colours: np.ndarray) -> bytes:
    """uint8 (H, W, 3) as PNG."""
    return png(b"".join(b"\0" + row.tobytes() for row in colours.astype(np.uint8)), bits=8, colour=2)


# --- TIFF -------------------------------------------------------------------------------------------------------------

TYPES = {"B": 1, "H": 3, "I": 4, "h": 8, "i": 9, "Q": 16}


def tiff(
    data: bytes | None = None,
    tags: Mapping[int, tuple[str, Sequence[int]]] | None = None,
    *,
    leave_out: Iterable[int] = (),
    twice: Iterable[int] = (),
    next_page: int = 0,
    count: Mapping[int, int] | None = None,
) -> bytes:
    """A TIFF file of one page of uint16 in one strip; ``tags`` replace those that such a file has.

    tags   by number: type and values
    count  what the number of values of a tag is said to be
    """
    data = labels().astype("<u2").tobytes() if data is None else data
    entries: dict[int, tuple[str, Sequence[int]]] = {
        256: ("I", [SHAPE[1]]), 257: ("I", [SHAPE[0]]), 258: ("H", [16]), 259: ("H", [1]), 262: ("H", [1]),
        273: ("I", [8]), 277: ("H", [1]), 278: ("I", [SHAPE[0]]), 279: ("I", [len(data)]), 339: ("H", [1]),
    }  # fmt: skip
    entries |= dict(tags or {})
    listed = sorted([*(set(entries) - set(leave_out)), *twice])
    start = 8 + len(data) + len(data) % 2
    outside = start + 2 + 12 * len(listed) + 4
    table, rest = b"", b""
    for tag in listed:
        letter, values = entries[tag]
        packed = struct.pack(f"<{len(values)}{letter}", *values)
        number = (count or {}).get(tag, len(values))
        if len(packed) > 4:
            place, rest = struct.pack("<I", outside + len(rest)), rest + packed + b"\0" * (len(packed) % 2)
        else:
            place = packed.ljust(4, b"\0")
        table += struct.pack("<HHI", tag, TYPES[letter], number) + place
    head = b"II*\0" + struct.pack("<I", start) + data + b"\0" * (len(data) % 2)
    return head + struct.pack("<H", len(listed)) + table + struct.pack("<I", next_page) + rest


def big_tiff(tags: int, first: int = 16) -> bytes:
    return b"II+\0\x08\0\0\0" + struct.pack("<Q", first) + struct.pack("<Q", tags) + b"\0" * 100


# --- MetaImage --------------------------------------------------------------------------------------------------------


def mha(data: bytes | None = None, **header: str) -> bytes:
    """An .mha file of uint16 with two channels; ``header`` replaces or adds lines."""
    data = b"\0" * (SHAPE[0] * SHAPE[1] * 4) if data is None else data
    lines = {
        "ObjectType": "Image", "NDims": "2", "DimSize": f"{SHAPE[1]} {SHAPE[0]}", "ElementNumberOfChannels": "2",
        "ElementType": "MET_USHORT", "ElementDataFile": "LOCAL",
    }  # fmt: skip
    lines = {**lines, **header}
    lines["ElementDataFile"] = lines.pop("ElementDataFile")  # always the last line
    return "".join(f"{key} = {value}\n" for key, value in lines.items()).encode() + data


# --- MATLAB -----------------------------------------------------------------------------------------------------------


def mat_5(*elements: bytes) -> bytes:
    """Elements behind the header of a level 5 file."""
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(elements)


def element(kind: int, data: bytes, *, size: int | None = None) -> bytes:
    """An element of a level 5 file, which may say another size than it has."""
    return struct.pack("<II", kind, len(data) if size is None else size) + data + b"\0" * (-len(data) % 8)


def matrix(dims: Sequence[int], data: bytes, *, name: bytes = b"n_ary_mask", mx_class: int = 11) -> bytes:
    """A matrix element of unsigned 16-bit numbers."""
    flags = element(6, struct.pack("<II", mx_class, 0))
    sizes = element(5, struct.pack(f"<{len(dims)}i", *dims))
    return element(14, flags + sizes + element(1, name) + element(4, data))


hdf5 = partial(mat_7_3, {})  # a MATLAB 7.3 file; what writes into it gets the open h5py.File


# --- lists of nuclei --------------------------------------------------------------------------------------------------


def aperio(*regions: str, name: str = "Epithelial", head: str = "<?xml version='1.0'?>") -> bytes:
    inner = "".join(
        f'<Region Id="{index}"><Vertices>{text}</Vertices></Region>' for index, text in enumerate(regions, 1)
    )
    text = (
        f'<Annotation Id="1"><Attributes><Attribute Name="{name}"/></Attributes><Regions>{inner}</Regions></Annotation>'
    )
    return f"{head}<Annotations>{text}</Annotations>".encode()


def vertices(*points: tuple[Any, Any]) -> str:
    return "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in points)


def asap(*annotations: str) -> bytes:
    return f"<ASAP_Annotations><Annotations>{''.join(annotations)}</Annotations></ASAP_Annotations>".encode()


def asap_annotation(*points: tuple[Any, Any], kind: str = "Polygon", group: str = "Epithelial") -> str:
    inner = "".join(f'<Coordinate Order="{i}" X="{x}" Y="{y}"/>' for i, (x, y) in enumerate(points))
    return f'<Annotation Name="a" Type="{kind}" PartOfGroup="{group}"><Coordinates>{inner}</Coordinates></Annotation>'


SQUARE = [[1, 1], [7, 1], [7, 7], [1, 7], [1, 1]]


def feature(
    coordinates: Any = None, *, kind: str = "Polygon", name: Any = "Epithelial", **geometry: Any
) -> dict[str, Any]:
    inner = {"type": kind, "coordinates": [SQUARE] if coordinates is None else coordinates, **geometry}
    return {"type": "Feature", "geometry": inner, "properties": {"classification": {"name": name}}}


def geojson(*features: Any) -> bytes:
    return as_json({"type": "FeatureCollection", "features": list(features)})


def polygon(points: Any = None, name: Any = "Epithelial", **more: Any) -> dict[str, Any]:
    return {"name": name, "path_points": [[1, 1, 0.5], [7, 1, 0.5], [7, 7, 0.5]] if points is None else points, **more}


def polygons(*items: Any) -> bytes:
    return as_json({"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": list(items)})


def point(xyz: Any = (1, 1, 0.5), name: Any = "Epithelial", **more: Any) -> dict[str, Any]:
    return {"name": name, "point": xyz, **more}


def points(*items: Any) -> bytes:
    return as_json({"type": "Multiple points", "version": {"major": 1, "minor": 0}, "points": list(items)})


def coco(*annotations: Any, size: tuple[int, int] = SHAPE, **more: Any) -> bytes:
    document = {
        "images": [{"id": 1, "file_name": "c1", "height": size[0], "width": size[1]}],
        "annotations": [{"id": i, "image_id": 1, "category_id": 1, **a} for i, a in enumerate(annotations, 1)],
        "categories": [{"id": 1, "name": "Epithelial"}, {"id": 2, "name": "Lymphocyte"}],
    }
    return as_json({**document, **more})


def rle(counts: Any, size: tuple[int, int] = SHAPE) -> dict[str, Any]:
    return {"segmentation": {"size": list(size), "counts": counts}}


def compressed_counts(counts: Sequence[int]) -> str:
    """Counts as COCO compresses them (rleToString in maskApi.c)."""
    text = ""
    for index, count in enumerate(counts):
        value = count - counts[index - 2] if index > 2 else count
        more = True
        while more:
            piece, value = value & 0x1F, value >> 5
            more = value != (-1 if piece & 0x10 else 0)
            text += chr(48 + (piece | 0x20 if more else piece))
    return text
