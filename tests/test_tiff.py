"""Label TIFFs read equal what tifffile reads; hostile ones are refused before they cost anything."""

from __future__ import annotations

import io
import math
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from endless import memory_below
from formats import lines_of, picture, read_part
from formats.pixels import CUT_OFF, INTEGERS, LABELS, SHAPE, TWO, entry_place, tiff_file

from evaluation.decoding import tiff
from evaluation.decoding.pixels import read_image_size
from evaluation.decoding.streams import CutOff
from evaluation.decoding.tiff import LZW, decompress
from evaluation.findings.errors import InputFault

ENTRY = {3: "<HHIHxx", 4: "<HHII", 9: "<HHIi", 8: "<HHIhxx", 1: "<HHIBxxx"}


def read(content: bytes, *, limit: int = 50_000_000, shape_yx: tuple[int, int] = SHAPE, **options: Any) -> Any:
    """The labels of a file."""
    options = {"format": "label_image", "suffix": ".tif", "limits": {"bytes_per_file": limit}, **options}
    return picture(read_part(content, shape_yx=shape_yx, **options).labels)


def refusal(content: bytes, *, limit: int = 50_000_000, shape_yx: tuple[int, int] = SHAPE) -> str:
    """The only line for which a file is refused."""
    limits = {"bytes_per_file": limit}
    (line,) = lines_of(bytes(content), format="label_image", suffix=".tif", limits=limits, shape_yx=shape_yx)
    return line


# --- good files -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[tiff.BAND_PX, 50], ids=["whole", "in bands"])
def bands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is decoded at once, or in bands of few rows."""
    monkeypatch.setattr(tiff, "BAND_PX", request.param)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib"},
        {"compression": "packbits"},
        {"compression": "lzw"},
        {"compression": "lzw", "rowsperstrip": 7},
        {"compression": "lzw", "tile": (16, 16), "byteorder": ">"},
        {"compression": "lzma"},
        {"compression": "zstd", "tile": (16, 16)},
        {"tile": (16, 32)},
        {"bigtiff": True},
        {"byteorder": ">"},
        {"rowsperstrip": 3},
        {"metadata": None},
        {"description": '{"shape": [20, 31]}', "metadata": None},
    ],
    ids=str,
)
@pytest.mark.usefixtures("bands")
def test_tiff_equals_what_tifffile_reads(options: dict[str, Any]) -> None:
    for dtype in (*INTEGERS, "f2", "f4", "f8"):
        content = tiff_file((LABELS % 100).astype(dtype), **options)
        np.testing.assert_array_equal(read(content), tifffile.imread(io.BytesIO(content)), dtype)


@pytest.mark.parametrize("options", [{}, {"byteorder": ">"}, {"tile": (16, 32)}, {"rowsperstrip": 3}], ids=str)
@pytest.mark.parametrize("compression", ["zlib", "lzw"])
@pytest.mark.usefixtures("bands")
def test_tiff_with_a_predictor_equals_what_tifffile_reads(compression: str, options: dict[str, Any]) -> None:
    for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "f8"):
        content = tiff_file((LABELS % 100).astype(dtype), compression=compression, predictor=True, **options)
        np.testing.assert_array_equal(read(content), tifffile.imread(io.BytesIO(content)), dtype)


def test_tiff_of_imagej_is_read() -> None:
    np.testing.assert_array_equal(read(tiff_file(LABELS.astype(np.uint16), imagej=True)), LABELS)


def test_a_fault_in_a_band_is_told_with_its_row_in_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "BAND_PX", 1)
    labels = LABELS.astype(np.int32)
    labels[9, 4] = -3
    told = refusal(tiff_file(labels, rowsperstrip=4))
    assert told.startswith(
        f"[negative-label] 1 of {4 * SHAPE[1]} pixels is below 0 (lowest -3, first at row 9, column 4)"
    )


def test_a_slide_larger_than_the_limit_is_read_if_its_bands_and_its_runs_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiff, "BAND_PX", 1)
    labels = np.zeros((200, 300), np.uint32)
    labels[50:60, 20:290] = 7
    content = tiff_file(labels, compression="zlib", rowsperstrip=8)
    assert labels.nbytes > 20_000 > len(content)
    np.testing.assert_array_equal(read(content, limit=20_000, shape_yx=labels.shape), labels)
    chequered = (np.indices(labels.shape).sum(axis=0) % 2).astype(np.uint32)
    content = tiff_file(chequered, compression="zlib", rowsperstrip=8)
    told = refusal(content, limit=20_000, shape_yx=labels.shape)
    assert told.startswith("[too-large] runs of equal labels")


def test_a_slide_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    side, tile = 10_000, np.zeros((512, 512), np.uint32)
    tile[100:120, 200:230] = 1

    def tiles() -> Iterator[np.ndarray]:
        for number in range(20 * 20):
            yield tile * np.uint32(number + 1)

    options: dict[str, Any] = {"tile": tile.shape, "compression": "zlib", "metadata": None, "bigtiff": True}
    tifffile.imwrite(tmp_path / "slide.tif", tiles(), shape=(side, side), dtype=np.uint32, **options)
    content = (tmp_path / "slide.tif").read_bytes()
    tracemalloc.start()
    try:
        labels = read_part(content, format="label_image", suffix=".tif", shape_yx=(side, side)).labels
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * side**2 / 4  # the picture has 4 bytes a pixel
    assert len(labels.start) == 20 * 20 * 20
    assert int((labels.stop - labels.start).sum()) == 20 * 20 * 20 * 30


def test_smaller_copies_behind_the_first_page_of_a_tiff_are_left_alone() -> None:
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(LABELS, metadata=None)
        writer.write(LABELS[::2, ::2], subfiletype=1, metadata=None)
    np.testing.assert_array_equal(read(stream.getvalue()), LABELS)


@pytest.mark.usefixtures("bands")
def test_smaller_copies_inside_the_first_page_of_a_tiff_are_left_alone() -> None:
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(LABELS, subifds=2, tile=(16, 16), compression="lzw")
        for step in (2, 4):
            writer.write(LABELS[::step, ::step], subfiletype=1, tile=(16, 16))
    np.testing.assert_array_equal(read(stream.getvalue()), LABELS)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_tiff_of_packed_bits_keeps_its_values(bits: int) -> None:
    stored = np.random.default_rng(bits).integers(0, 1 << bits, SHAPE).astype(np.uint8)
    columns = np.zeros((SHAPE[0], 32), np.uint8)
    columns[:, :31] = stored
    packed = np.packbits(np.unpackbits(columns[..., np.newaxis], axis=2)[..., 8 - bits :].reshape(SHAPE[0], -1), axis=1)
    row_bytes = math.ceil(31 * bits / 8)
    content = bytearray(tiff_file(np.ascontiguousarray(packed[:, :row_bytes]), metadata=None))
    set_entry(content, 256, (3, 31))
    set_entry(content, 258, (3, bits))
    np.testing.assert_array_equal(read(bytes(content)), stored)


@pytest.mark.usefixtures("bands")
def test_what_lies_behind_the_last_row_of_a_strip_is_left_alone() -> None:
    padded = np.zeros((21, 31), np.int32)
    padded[:20] = LABELS
    content = bytearray(tiff_file(padded, compression="zlib", rowsperstrip=7, metadata=None))
    set_entry(content, 257, (3, 20))
    np.testing.assert_array_equal(read(bytes(content)), LABELS)


def test_lzw_gives_no_more_than_a_table_entry_above_the_limit() -> None:
    data = imagecodecs.lzw_encode(bytes(10_000_000))
    for limit in (1, 1000, 1_000_000):
        assert limit <= len(decompress(data, LZW, limit)) <= limit + 4096


def test_damaged_lzw_is_told_or_decoded_but_never_crashes() -> None:
    chance = random.Random(5)
    content = imagecodecs.lzw_encode(LABELS.tobytes())
    refused = 0
    for _ in range(2000):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            decompress(bytes(damaged), LZW, LABELS.nbytes)
        except CutOff:
            refused += 1
    assert refused > 200


# --- hostile files ----------------------------------------------------------------------------------------------------


def set_entry(content: bytearray, tag: int, *values: tuple[int, int]) -> None:
    """Give a tag, and those after it, another type and value: (type, value)."""
    place = entry_place(content, tag)
    for index, (kind, value) in enumerate(values):
        number = tag if index == 0 else struct.unpack_from("<H", content, place + 12 * index)[0]
        struct.pack_into(ENTRY[kind], content, place + 12 * index, number, kind, 1, value)


def changed(edit: Callable[[bytearray], object], **options: Any) -> bytes:
    """A TIFF of one page, after an edit of its bytes."""
    content = bytearray(tiff_file(LABELS, metadata=None, **options))
    edit(content)
    return bytes(content)


def with_entry(tag: int, *values: tuple[int, int], **options: Any) -> bytes:
    return changed(lambda content: set_entry(content, tag, *values), **options)


def with_tag_262(kind: str, *numbers: int) -> bytes:
    """Another tag in the place of one that nobody needs."""
    return changed(lambda content: struct.pack_into(kind, content, entry_place(content, 262), *numbers))


def with_tag_twice(tag: int) -> bytes:
    def edit(content: bytearray) -> None:
        place, other = entry_place(content, 262), entry_place(content, tag)
        content[place : place + 12] = content[other : other + 12]

    return changed(edit, compression="zlib")


def with_a_page_that_follows_itself() -> bytes:
    def edit(content: bytearray) -> None:
        (first,) = struct.unpack_from("<I", content, 4)
        (tags,) = struct.unpack_from("<H", content, first)
        struct.pack_into("<I", content, first + 2 + 12 * tags, first)

    return changed(edit)


TILED = {"tile": (16, 16), "compression": "zlib"}
STACK = np.zeros((3, *SHAPE), np.uint16)
DAMAGED, ALONE = "[wrong-format] a damaged header", "expected one image, alone in its file. Write only the label image."
LOSSLESS = (
    "expected whole numbers of 8, 16, 32 or 64 bits, without compression or with a lossless one (deflate, LZW, zstd). "
    "Write it again, for example with tifffile.imwrite(path, labels, compression='zlib')."
)

REFUSED = [
    *((with_entry(tag, (kind, 16), **(TILED if tag in (322, 323) else {"compression": "zlib"})),
       f"{DAMAGED} (tag {tag} of type {kind});")
      for kind in (8, 9) for tag in (256, 257, 258, 259, 277, 278, 322, 323)),
    *((with_tag_twice(tag), f"{DAMAGED} (tag {tag} twice); expected") for tag in (256, 259, 273, 279)),
    *((with_entry(322, (4, width), (4, height), **TILED), f"{DAMAGED} (tiles of {width:,} x {height:,} pixels)")
      for width, height in ((1 << 31, 16), (16, 0), (0, 16), (1, 1), (17, 16), (60_000, 60_000))),
    # reaches less than 2^24 px over the edge
    (with_entry(322, (4, 16), (4, 60_000), **TILED), f"{DAMAGED} (tag 324 with 4 values)"),
    (with_entry(278, (3, 0)), f"{DAMAGED} (strips without rows)"),
    *((with_entry(tag, (3, value)), f"[unsupported-format] a TIFF file with {what}; {LOSSLESS}")
      for tag, value, what in (
          (258, 24, "24 bits a pixel"), (258, 0, "0 bits a pixel"), (259, 6, "compression 6"),
          (259, 7, "compression 7"), (259, 34712, "compression 34712"), (259, 65000, "compression 65000"))),
    *((with_tag_262("<HHIHxx", tag, 3, 1, value), f"[unsupported-format] a TIFF file with {what}; {LOSSLESS}")
      for tag, value, what in (
          (266, 2, "bits in reversed order"), (317, 3, "predictor 3 for 32 bits"),
          (317, 9, "predictor 9 for 32 bits"))),
    *((content[:end], CUT_OFF) for offset in (1 << 50, (1 << 62) - 1, (1 << 64) - 1) for end in (None, 12)
      for content in [b"II+\0\x08\0\0\0" + offset.to_bytes(8, "little") + bytes(100)]),
    (with_a_page_that_follows_itself(), f"{DAMAGED} (a page that follows itself); expected a TIFF file."),
    (tiff_file(STACK, photometric="minisblack", metadata=None), f"[several-images] 3 pages; {ALONE}"),
    *((tiff_file(STACK, photometric="minisblack", truncate=True, **options),
       f"[several-images] a stack of 3 images; {ALONE}") for options in ({}, {"imagej": True})),
]  # fmt: skip


@pytest.mark.parametrize(("content", "line"), REFUSED, ids=range(len(REFUSED)))
def test_a_file_is_refused_with_this_line(content: bytes, line: str) -> None:
    with memory_below(8_000_000):
        assert refusal(content).startswith(line)


def segment_tags(content: bytearray) -> dict[int, tuple[int, int, int]]:
    """Type, number of values and place of the values of offsets (273) and byte counts (279)."""
    found = {}
    for tag in (273, 279):
        _, kind, count, place = struct.unpack_from("<HHII", content, entry_place(content, tag))
        size = {3: 2, 4: 4}[kind] * count
        found[tag] = (kind, count, place if size > 4 else entry_place(content, tag) + 8)
    return found


@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "packbits", "zstd", "lzma"])
@pytest.mark.parametrize(("tag", "value"), [(279, 0), (279, 5), (273, 0), (273, 60_000)])
@pytest.mark.usefixtures("bands")
def test_a_strip_that_is_missing_is_never_filled_with_zeros(compression: str | None, tag: int, value: int) -> None:
    options: dict[str, Any] = {"compression": compression, "rowsperstrip": 5, "metadata": None}
    content = bytearray(tiff_file(LABELS, **options))
    kind, _, place = segment_tags(content)[tag]
    step = {3: 2, 4: 4}[kind]
    struct.pack_into("<H" if kind == 3 else "<I", content, place + step, value)  # the second strip
    assert refusal(bytes(content)).startswith(CUT_OFF)


@pytest.mark.parametrize("tag", [273, 279])
@pytest.mark.usefixtures("bands")
def test_too_few_strips_or_sizes_of_them_are_told(tag: int) -> None:
    content = bytearray(tiff_file(LABELS, rowsperstrip=5, metadata=None))
    struct.pack_into("<I", content, entry_place(content, tag) + 4, 3)
    assert refusal(bytes(content)).startswith(CUT_OFF)
    struct.pack_into("<I", content, entry_place(content, tag) + 4, 5)
    assert refusal(bytes(content)).startswith(f"[wrong-format] a damaged header (tag {tag} with 5 values)")


@pytest.mark.parametrize("rows", [19, 21])
@pytest.mark.parametrize("compression", ["zlib", "lzw", "packbits", "zstd", "lzma"])
@pytest.mark.usefixtures("bands")
def test_a_strip_with_fewer_or_more_rows_than_the_image_is_told(compression: str, rows: int) -> None:
    array = np.zeros((rows, 31), np.int32)
    content = bytearray(tiff_file(array, compression=compression, rowsperstrip=rows, metadata=None))
    set_entry(content, 257, (3, 20))
    set_entry(content, 278, (3, 20))
    assert refusal(bytes(content)).startswith(CUT_OFF)


def test_pages_of_two_types_are_not_joined() -> None:
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(LABELS.astype(np.uint64), metadata=None)
        writer.write(LABELS, metadata=None)
    options = {"classes": TWO, "class_channel": 1, "class_values": {"tumour": 10, "stroma": 20, "debris": 30}}
    with pytest.raises(InputFault, match="a TIFF file with uint64 and int32 side by side"):
        read(stream.getvalue(), **options)


def test_a_tile_larger_than_the_limit_is_refused_although_the_image_is_not() -> None:
    content = tiff_file(LABELS, tile=(1024, 1024), compression="zlib")
    assert len(content) < 20_000 < 1024**2 * LABELS.itemsize
    told = refusal(content, limit=20_000)
    assert told.startswith("[too-large]")
    assert f"a tile of {1024**2 * LABELS.itemsize:,} bytes" in told


def test_tiff_whose_strip_decompresses_to_far_more_than_the_image_gives_no_more() -> None:
    content = bytearray(tiff_file(LABELS, compression="zlib", rowsperstrip=20, metadata=None))
    with tifffile.TiffFile(io.BytesIO(content)) as tiff:
        tags = tiff.pages.first.tags
        offset, count = tags["StripOffsets"].valueoffset, tags["StripByteCounts"].valueoffset
        types = [tags[name].dtype for name in ("StripOffsets", "StripByteCounts")]
    bomb = zlib.compress(bytes(40_000_000))
    for place, kind, value in ((offset, types[0], len(content)), (count, types[1], len(bomb))):
        struct.pack_into("<H" if kind == 3 else "<I", content, place, value)
    assert refusal(bytes(content) + bomb).startswith(CUT_OFF)


# --- sizes of images --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".svs", ".png"])
def test_the_size_of_an_image_comes_from_its_header(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    content = imagecodecs.png_encode(np.zeros(SHAPE, np.uint8)) if suffix == ".png" else tiff_file(LABELS)
    path.write_bytes(content)
    assert read_image_size(path) == SHAPE


def test_the_size_of_a_real_slide_is_read(shared_data: Path) -> None:
    for name, size in (("A9K0_1", (1153, 1307)), ("A9K0_3", (185, 497))):
        (path,) = (shared_data / "monusac").rglob(f"*{name}.svs")
        assert read_image_size(path) in (size, size[::-1])


@pytest.mark.parametrize(
    "content",
    [b"", b"II*\0", b"II*\0" + bytes(100), b"II*\0\xff\xff\xff\xff", b"\x89PNG\r\n\x1a\n" + bytes(100), b"hello"],
)
def test_the_size_of_a_damaged_image_is_told_and_nothing_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    with pytest.raises(InputFault) as error:
        read_image_size(path)
    assert [str(finding) for finding in error.value.findings] == [
        "[unreadable-image] 'a.tif': not an image that can be read; expected an SVS, TIFF or PNG file."
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tag", [256, 257])
def test_an_image_of_no_size_is_told(tmp_path: Path, tag: int) -> None:
    content = bytearray(tiff_file(LABELS, metadata=None))
    set_entry(content, tag, (3, 0))
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(InputFault, match="unreadable-image"):
        read_image_size(tmp_path / "a.tif")
