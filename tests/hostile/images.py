"""Hostile label images, arrays, MATLAB files and colour maps."""

# ruff: noqa: E501 (one record to a line)

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from formats.pixels import mat_file as mat
from formats.pixels import npy_file as npy

from hostile.make import (
    MIB,
    SHAPE,
    big_tiff,
    element,
    hdf5,
    labels,
    mat_5,
    matrix,
    mha,
    npy_header,
    npy_saying,
    png,
    rgb_png,
    tiff,
)
from hostile.record import Content, Hostile

SIDE = 200_000
GROUND_TRUTH = "../../opt/ml/input/data/ground_truth/c1.mha"


def one(kind: str, file: str) -> Callable[..., Hostile]:
    """Makes records of a kind in which one file is replaced."""

    def record(name: str, code: str | None, content: Content, **more: Any) -> Hostile:
        return Hostile(f"{kind.split()[0]} {file.rpartition('.')[2]} {name}", kind, code, {file: content}, **more)

    return record


def image(dtype: Any = np.float64, **values: Any) -> np.ndarray:
    """A label image with some pixels that are something else: ``at_<row>_<column>``."""
    array = labels(dtype)
    for place, value in values.items():
        _, row, column = place.split("_")
        array[int(row), int(column)] = value
    return array


@cache
def zeros_deflated(size: int) -> bytes:
    packer = zlib.compressobj(9)
    pieces = [packer.compress(b"\0" * MIB) for _ in range(size // MIB)]
    return b"".join([*pieces, packer.flush()])


def unpickled_never(array: np.ndarray | None = None) -> bytes:
    """A pickle that would run a command, and end the process with a code of its own."""
    return b"cposix\n_exit\n(I42\ntR."


# --- NumPy ------------------------------------------------------------------------------------------------------------

npy_file = one("label_image class map npy", "c1.npy")
class_map = one("label_image class map npy", "c1_class.npy")
npz_file = one("label_image channel npz", "c1.npz")


def npz(*members: tuple[str, bytes], **options: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content, **options)
    return file.getvalue()


def shared(data: bytes) -> bytes:
    """Of a ZIP: the last member begins where the first does."""
    first, last = data.index(b"PK\1\2") + 42, data.rindex(b"PK\1\2") + 42
    return data[:last] + data[first : first + 4] + data[last + 4 :]


def object_npy() -> bytes:
    return npy_saying("(20, 30)", "'|O'", unpickled_never())


TWO = np.stack([labels(), labels()], axis=-1)
NPY = [
    npy_file("cut off in the header", "unreadable-file", npy(labels())[:40]),
    npy_file("array of objects", "pickle", object_npy()),
    npy_file("pickle without a header", "pickle", b"\x80\x04\x95\x10\0\0\0\0\0\0\0" + unpickled_never()),
    npy_file("array of records of objects", "not-numeric", npy_saying("(20, 30)", "[('a', '|O')]")),
    npy_file("200,000 x 200,000 px", "wrong-shape", npy_saying(f"({SIDE}, {SIDE})")),
    npy_file("shape that overflows", "wrong-format", npy_saying(f"({2**63}, {2**63})")),
    npy_file("shape whose product overflows", "wrong-shape", npy_saying(f"({2**32}, {2**32})")),
    npy_file("header that is code", "wrong-format", npy_header("__import__('os')._exit(42)")),
    npy_file("version 9", "wrong-format", b"\x93NUMPY\x09\0" + b"\xff" * 200),
    npy_file("type of 10^999 bytes", "wrong-format", npy_saying("(20, 30)", f"'<u{10**300}'")),
    npy_file("type that is none", "wrong-format", npy_saying("(20, 30)", "'<u3'")),
    npy_file("-2^63", "negative-label", npy(image(np.int64, at_3_4=-(2**63)))),
    npy_file("2^64 as float", "label-too-large", npy(image(at_3_4=2.0**64))),
    npy_file("1e-320", "fractional-label", npy(image(at_3_4=1e-320))),
    npy_file("noise", "too-large", npy(np.arange(600).reshape(SHAPE)), limits={"instances_per_case": 100},
             says="limits.instances_per_case"),
    Hostile("label_image npy two million nuclei", "label_image class map npy", "too-large",
            {"c1.npy": lambda: npy(np.arange(2_250_000, dtype=np.uint32).reshape(1500, 1500)),
             "c1_class.npy": lambda: npy(np.ones((1500, 1500), np.uint8))}, size=(1500, 1500), says="at most 2,000,000"),
    npy_file("2^63 - 1", "instance-without-class", npy(image(np.int64, at_15_15=2**63 - 1))),
    npy_file("more bytes behind", None, npy(labels()) + b"\0" * 1000, nuclei=2),
    class_map("class of objects", "pickle", object_npy()),
    class_map("600 classes", "unknown-class-value", npy(np.arange(600).reshape(SHAPE) + 100), says="597 more"),
    npz_file("cut off", "unreadable-file", npz(("labels.npy", npy(TWO)))[:-30]),
    npz_file("array of objects", "pickle", npz(("labels.npy", object_npy()))),
    npz_file("name with escape codes", "pickle", npz(("\x1b[31m\n\u202ex.npy", object_npy()))),
    npz_file("bomb with a lie about the shape", "wrong-shape",
             lambda: npz(("labels.npy", npy_saying(f"({SIDE}, {SIDE}, 2)", data=b"\0" * (16 * MIB))))),
    npz_file("bomb behind the array", "unreadable-file", lambda: npz(("labels.npy", npy(TWO) + b"\0" * (16 * MIB)))),
    npz_file("npz in an npz", "no-mask-variable", npz(("labels.npz", npz(("labels.npy", npy(TWO)))))),
    npz_file("12,000 members", "wrong-format", lambda: npz(*((f"{i:050}.npy", b"") for i in range(12_000)))),
    npz_file("member twice", "wrong-format", npz(("labels.npy", npy(TWO)), ("labelz.npy", b"")).replace(b"labelz", b"labels"), says="names a member twice"),
    npz_file("members that share bytes", "wrong-format", shared(npz(("labels.npy", npy(TWO)), ("a.npy", b"x"))), says="members that share bytes"),
    npz_file("check sum that is wrong", "unreadable-file", npz(("labels.npy", npy(TWO))).replace(zlib.crc32(npy(TWO)).to_bytes(4, "little"), b"\0\0\0\0")),
    npz_file("password", "wrong-format", npz(("labels.npy", npy(TWO))).replace(b"PK\1\2\x14\x03\x14\0\0\0", b"PK\1\2\x14\x03\x14\0\1\0")),
]  # fmt: skip

# --- PNG --------------------------------------------------------------------------------------------------------------

png_file = one("label_image class map png", "c1.png")
BLACK = b"\0" * (SHAPE[0] * (1 + 2 * SHAPE[1]))
PNG = [
    png_file("empty file", "wrong-format", b""), png_file("cut off", "unreadable-file", png()[:-20]),
    png_file("only the first bytes", "unreadable-file", png()[:8]), png_file("TIFF by content", "wrong-format", tiff()),
    png_file("200,000 x 200,000 px", "wrong-shape", png(width=SIDE, height=SIDE)),
    png_file("2^31 rows", "wrong-format", png(height=2**31)), png_file("-1 columns", "wrong-format", png(width=-1)),
    png_file("17 bits", "wrong-format", png(bits=17)),
    png_file("palette", None, png(bits=8, colour=3, more=[(b"PLTE", b"\0" * 768)]), nuclei=0),
    png_file("no palette", "wrong-format", png(bits=8, colour=3)),
    png_file("palette of 257 colours", "wrong-format", png(bits=8, colour=3, more=[(b"PLTE", b"\0" * 771)])),
    png_file("palette twice", "wrong-format", png(bits=8, colour=3, more=[(b"PLTE", b"\0" * 6)] * 2)),
    png_file("palette that is too short", "wrong-format", png(b"\0\5".ljust(31, b"\0") * 20, bits=8, colour=3,
      more=[(b"PLTE", b"\0" * 6)])),
    png_file("bomb", "unreadable-file", lambda: png(data=[zeros_deflated(128 * MIB)])),
    png_file("bomb of many chunks", "wrong-format", lambda: png(data=[zlib.compress(BLACK), *[b""] * 300_001])),
    png_file("bomb of text", None, lambda: png(more=[(b"zTXt", b"a\0\0" + zeros_deflated(64 * MIB))]), nuclei=0),
    png_file("bomb of a profile", None, lambda: png(more=[(b"iCCP", b"a\0\0" + zeros_deflated(64 * MIB))]), nuclei=0),
    png_file("two headers", "wrong-format", png(more=[(b"IHDR", b"\0" * 13)])),
    png_file("something behind the end", None, png() + b"\xff" * 1000, nuclei=0),
]  # fmt: skip

# --- TIFF -------------------------------------------------------------------------------------------------------------

tif_file = one("label_image class map tif", "c1.tif")
DEFLATE = {259: ("H", [8])}
RAW = labels().tobytes()


def deflated(data: bytes, **tags: Any) -> bytes:
    return tiff(data, {**DEFLATE, 279: ("I", [len(data)]), **tags})


TIFF = [
    tif_file("only the first bytes", "unreadable-file", b"II*\0"),
    tif_file("first page nowhere", "unreadable-file", b"II*\0\xff\xff\xff\xff"),
    tif_file("no page", "wrong-format", b"II*\0\0\0\0\0"),
    tif_file("65,535 tags", "wrong-format", b"II*\0\x08\0\0\0\xff\xff" + b"\0" * 100),
    tif_file("2^64 - 1 tags", "wrong-format", big_tiff(2**64 - 1)),
    tif_file("page that follows itself", "wrong-format", tiff(next_page=8 + len(RAW))),
    tif_file("next page nowhere", "unreadable-file", tiff(next_page=2**31)),
    tif_file("200,000 x 200,000 px", "wrong-shape", tiff(tags={256: ("I", [SIDE]), 257: ("I", [SIDE])})),
    tif_file("2^32 - 1 rows", "wrong-shape", tiff(tags={257: ("I", [2**32 - 1])})),
    tif_file("two widths", "wrong-format", tiff(tags={256: ("I", [30, 31])})),
    tif_file("no width", "wrong-shape", tiff(leave_out=[256])),
    tif_file("width of 2^31 values", "wrong-format", tiff(count={256: 2**31})),
    tif_file("strips of 2^32 - 1 values", "wrong-format", tiff(count={273: 2**32 - 1})),
    tif_file("no strips", "unreadable-file", tiff(leave_out=[273])),
    tif_file("strip nowhere", "unreadable-file", tiff(tags={273: ("I", [2**31])})),
    tif_file("strip of 2^32 - 1 bytes", None, tiff(tags={279: ("I", [2**32 - 1])}), nuclei=2),
    tif_file("strip of 2^32 - 1 compressed bytes", "unreadable-file", tiff(tags={**DEFLATE, 279: ("I", [2**32 - 1])})),
    tif_file("deflate bomb", "unreadable-file", lambda: deflated(zeros_deflated(2 * MIB))),
    tif_file("deflate that is none", "unreadable-file", deflated(b"\xff" * 200)),
    tif_file("LZW that is none", "unreadable-file", tiff(b"\xff" * 200, {259: ("H", [5])})),
    tif_file("LZMA that is none", "unreadable-file", tiff(b"\xff" * 200, {259: ("H", [34925])})),
    tif_file("PackBits bomb", "unreadable-file", tiff(b"\x81\0" * 1200, {259: ("H", [32773])})),
    tif_file("65,535 samples", "wrong-shape", tiff(tags={277: ("H", [65535])})),
    tif_file("no samples", "wrong-shape", tiff(tags={277: ("H", [0])})),
    tif_file("a kind of numbers of its own", "unsupported-format", tiff(tags={339: ("H", [99])})),
    tif_file("10^9 slices by ImageJ", "several-images", tiff(tags={270: ("B", [*b"ImageJ=1.5\nimages=999999999\n"])})),
]  # fmt: skip

# --- MetaImage --------------------------------------------------------------------------------------------------------

mha_file = one("label_image channel mha", "c1.mha")
MHA = [
    mha_file("cut off in the header", "unreadable-file", mha()[:50]),
    *(mha_file(f"data at {path[:30]}", "external-data", mha(ElementDataFile=path)) for path in (
        GROUND_TRUTH, "/etc/passwd", "c2.mha", "LIST", "c%d.mha 1 3 1", "", "LOCAL ../../x", "\x1b[31m\x07")),
    mha_file("header without end", "wrong-format", b"ObjectType = Image\nNDims = " + b"2" * 100_000),
    mha_file("data file twice", "external-data", mha(ElementDataFile=f"{GROUND_TRUTH}\nElementDataFile = LOCAL")),
    mha_file("200,000 x 200,000 px", "wrong-shape", mha(DimSize=f"{SIDE} {SIDE}")),
    mha_file("size beyond 64 bits", "wrong-format", mha(DimSize=f"{2**63} {2**63}")),
    mha_file("size of other digits", "wrong-format", mha(DimSize="３０ ２０".encode().decode("latin-1"))),
    mha_file("10^9 dimensions", "wrong-format", mha(NDims="999999999")),
    mha_file("10^9 channels", "wrong-shape", mha(ElementNumberOfChannels="999999999")),
    mha_file("bomb", "unreadable-file", lambda: mha(zeros_deflated(64 * MIB), CompressedData="True", CompressedDataSize="9")),
    mha_file("compressed data that are none", "unreadable-file", mha(b"\xff" * 100, CompressedData="True")),
    Hostile("label_image mhd beside raw", "label_image channel mha", "unsupported-format",
            {**{f"c{i}.mhd": mha(ElementDataFile=GROUND_TRUTH) for i in (1, 2, 3)}, "c1.raw": b"\0" * 2400},
            rules={"files": "{case}.mhd"}, warns=("unused-file",)),
]  # fmt: skip

# --- MATLAB -----------------------------------------------------------------------------------------------------------

nary = one("nary_mat", "P1/c1/Lymphocyte/1.mat")
hovernet = one("hovernet_mat", "c1.mat")


def zeros_in_chunks(file: Any) -> None:
    data = file.create_dataset("n_ary_mask", (8192, 8192), "u2", chunks=(8192, 8192), compression="gzip")
    data.id.write_direct_chunk((0, 0), zeros_deflated(128 * MIB))


def hovernet_file(inst_type: Any, inst_map: Any = None) -> bytes:
    return mat({"inst_map": labels() if inst_map is None else inst_map, "inst_type": inst_type})


MAT = [
    nary("cut off in the header", "unreadable-file", mat({"n_ary_mask": labels()})[:100]),
    nary("element of 4 GB", "unreadable-file", mat_5(element(14, b"", size=2**32 - 1))),
    nary("array of 2^62 numbers", "wrong-shape", mat_5(matrix([2**31 - 1, 2**31 - 1], b""))),
    nary("array of -1 rows", "wrong-format", mat_5(matrix([-1, 30], b""))),
    nary("array of 1,000 axes", "wrong-format", mat_5(matrix([1] * 1000, b"\0\0"))),
    nary("200,000 x 200,000 px", "wrong-shape", mat_5(matrix([SIDE, SIDE], b"\0" * 100))),
    nary("too few numbers", "wrong-format", mat_5(matrix(SHAPE, b"\0" * 100))),
    nary("name of 4 GB", "wrong-format",
         mat_5(element(14, element(6, b"\x0b" + b"\0" * 7) + element(5, struct.pack("<ii", *SHAPE)) + element(1, b"", size=2**32 - 1)))),
    nary("bomb", "wrong-shape", lambda: mat_5(element(15, zlib.compress(matrix([8192, 8192], b"\0" * (16 * MIB)))))),
    nary("compressed element that is none", "unreadable-file", mat_5(element(15, b"\xff" * 100))),
    nary("compressed in compressed", "wrong-format", mat_5(element(15, zlib.compress(element(15, b""))))),
    nary("name with escape codes", "wrong-shape", mat_5(matrix([1, 1], b"\0\0", name=b"\x1b[31m\n"))),
    nary("HDF5 bomb", "unsupported-format", lambda: hdf5(zeros_in_chunks)),
    hovernet("a million classes", "wrong-length", lambda: hovernet_file(np.ones(1_000_000, np.uint8))),
    hovernet("map of objects", "not-numeric", hovernet_file([1, 2], np.array([[1, "a"]], object))),
]  # fmt: skip

# --- arrays of all cases, masks by channel, colours ------------------------------------------------------------------

conic = one("conic_array", "pred.npy")
pannuke = one("pannuke_masks", "c1.npy")
coloured = one("colour_map", "c1.png")


ARRAYS = [
    conic("objects", "pickle", npy_saying("(3, 20, 30, 2)", "'|O'", unpickled_never())),
    conic("10^9 cases", "unreadable-file", npy_saying("(999999999, 20, 30, 2)")),
    conic("case of 2^60 px", "unreadable-file", npy_saying(f"(3, {2**30}, {2**30}, 2)")),
    pannuke("objects", "pickle", npy_saying("(20, 30, 6)", "'|O'", unpickled_never())),
    pannuke("10^9 channels", "unreadable-file", npy_saying("(20, 30, 999999999)")),
    coloured("600 unknown colours", "unknown-colour",
             rgb_png(np.dstack([np.arange(600).reshape(SHAPE) % 250 + 1, np.arange(600).reshape(SHAPE) // 250 + 1, np.full(SHAPE, 9)]))),
]  # fmt: skip

SLIDE = 60_000  # px a side: as many pixels as cases.csv may claim
LARGE_STRIP = tiff(tags={256: ("I", [SLIDE]), 257: ("I", [SLIDE]), 278: ("I", [SLIDE])})
LARGE_MATRIX = mat_5(matrix([SLIDE, SLIDE], b"\0" * 100))
LARGE = [
    Hostile(f"header of {SLIDE:,} x {SLIDE:,} px as in cases.csv, {kind}", kind, code, files, size=(SLIDE, SLIDE))
    for kind, code, files in [
        ("pannuke_masks", "unreadable-file", {"c1.npy": npy_saying(f"({SLIDE}, {SLIDE}, 6)")}),
        ("label_image channel npz", "too-large", {"c1.npz": npz(("labels.npy", npy_saying(f"({SLIDE}, {SLIDE}, 2)")))}),
        ("label_image class table", "too-large", {"c1.png": png(width=SLIDE, height=SLIDE)}),
        ("label_image channel mha", "too-large", {"c1.mha": mha(DimSize=f"{SLIDE} {SLIDE}")}),
        ("label_image by class", "unreadable-file", {f"c1/{name}.tif": LARGE_STRIP for name in ("Epithelial", "Lymphocyte")}),
        ("nary_mat", "wrong-format", {f"P1/c1/{name}/1.mat": LARGE_MATRIX for name in ("Epithelial", "Lymphocyte")}),
        ("hovernet_mat", "wrong-format", {"c1.mat": mat_5(matrix([SLIDE, SLIDE], b"\0" * 100, name=b"inst_map"))}),
        ("colour_map", "too-large", {"c1.png": png(width=SLIDE, height=SLIDE, bits=8, colour=2)}),
    ]
]  # fmt: skip

IMAGES = (*LARGE, *NPY, *PNG, *TIFF, *MHA, *MAT, *ARRAYS)
