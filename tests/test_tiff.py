"""Label TIFFs read equal what tifffile reads; hostile ones are refused before they cost anything."""

from __future__ import annotations

import io
import math
import random
import zlib
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from endless import memory_below
from formats import lines_of, picture, read_part
from formats.pixels import CUT_OFF, INTEGERS, LABELS, SHAPE, TWO, png_file, tiff_file
from hostile.make import SHAPE as MADE
from hostile.make import big_tiff
from hostile.make import tiff as made

from evaluation.files.decoding import tiff
from evaluation.files.decoding.pixels import read_image_size
from evaluation.files.decoding.streams import CutOff
from evaluation.files.decoding.tiff import LZW, decompress
from evaluation.findings.errors import InputFault

ENCODERS: dict[str, tuple[int, Any]] = {
    "none": (1, bytes), "zlib": (8, zlib.compress), "lzw": (5, imagecodecs.lzw_encode),
    "packbits": (32773, imagecodecs.packbits_encode), "zstd": (50000, imagecodecs.zstd_encode),
    "lzma": (34925, imagecodecs.lzma_encode),
}  # fmt: skip


def strips(
    array: Any = LABELS, compression: str = "none", rows: int = 5, tags: Mapping[int, list[int]] | None = None
) -> bytes:
    """A TIFF of 20 x 31 px in strips of so many rows; ``tags``: other values of tags, by number."""
    code, encode = ENCODERS[compression]
    pieces = [bytes(encode(array[row : row + rows].tobytes())) for row in range(0, len(array), rows)]
    sizes = [len(piece) for piece in pieces]
    usual = {
        256: [SHAPE[1]], 257: [SHAPE[0]], 258: [8 * array.itemsize], 259: [code],
        273: list(accumulate(sizes[:-1], initial=8)), 278: [rows], 279: sizes, 339: [2],
    }  # fmt: skip
    return made(b"".join(pieces), {tag: ("I", values) for tag, values in (usual | dict(tags or {})).items()})


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


OPTIONS: list[dict[str, Any]] = [
    {}, {"compression": "zlib"}, {"compression": "packbits"}, {"compression": "lzw", "rowsperstrip": 7},
    {"compression": "lzw", "tile": (16, 16), "byteorder": ">"}, {"compression": "lzma"},
    {"compression": "zstd", "tile": (16, 16)}, {"tile": (16, 32)}, {"bigtiff": True}, {"byteorder": ">"},
    {"rowsperstrip": 3}, {"description": '{"shape": [20, 31]}', "metadata": None},
    *({"compression": compression, "predictor": True, **more} for compression in ("zlib", "lzw")
      for more in ({}, {"byteorder": ">"}, {"tile": (16, 32)}, {"rowsperstrip": 3})),
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.usefixtures("bands")
def test_tiff_equals_what_tifffile_reads(options: dict[str, Any]) -> None:
    integers = [dtype for dtype in INTEGERS if not ("predictor" in options and dtype[1] == "8")]
    for dtype in (*integers, "f2", "f4", "f8"):
        content = tiff_file((LABELS % 100).astype(dtype), **options)
        np.testing.assert_array_equal(read(content), tifffile.imread(io.BytesIO(content)), dtype)


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


def test_a_slide_is_never_in_memory_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "BAND_PX", 1 << 20)
    side, tile = 5000, np.zeros((512, 512), np.uint32)
    tile[100:120, 200:230] = 1

    def tiles() -> Iterator[np.ndarray]:
        for number in range(10 * 10):
            yield tile * np.uint32(number + 1)

    options: dict[str, Any] = {"tile": tile.shape, "compression": "zlib", "metadata": None, "bigtiff": True}
    tifffile.imwrite(tmp_path / "slide.tif", tiles(), shape=(side, side), dtype=np.uint32, **options)
    content = (tmp_path / "slide.tif").read_bytes()
    with memory_below(14_000_000):  # the picture has 4 bytes a pixel
        labels = read_part(content, format="label_image", suffix=".tif", shape_yx=(side, side)).labels
    assert len(labels.start) == 10 * 10 * 20
    assert int((labels.stop - labels.start).sum()) == 10 * 10 * 20 * 30


@pytest.mark.usefixtures("bands")
def test_smaller_copies_and_the_marks_of_other_programs_are_left_alone() -> None:
    behind, inside = io.BytesIO(), io.BytesIO()
    with tifffile.TiffWriter(behind) as writer:
        writer.write(LABELS, metadata=None)
        writer.write(LABELS[::2, ::2], subfiletype=1, metadata=None)
    with tifffile.TiffWriter(inside) as writer:
        writer.write(LABELS, subifds=2, tile=(16, 16), compression="lzw")
        for step in (2, 4):
            writer.write(LABELS[::step, ::step], subfiletype=1, tile=(16, 16))
    padded = np.zeros((21, 31), np.int32)  # rows behind the last one of the image
    padded[:20] = LABELS
    of_imagej = tiff_file(LABELS.astype(np.uint16), imagej=True)
    for content in (behind.getvalue(), inside.getvalue(), strips(padded, "zlib", 7), of_imagej):
        np.testing.assert_array_equal(read(content), LABELS)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_tiff_of_packed_bits_keeps_its_values(bits: int) -> None:
    stored = np.random.default_rng(bits).integers(0, 1 << bits, SHAPE).astype(np.uint8)
    columns = np.pad(stored, ((0, 0), (0, 1)))
    packed = np.packbits(np.unpackbits(columns[..., np.newaxis], axis=2)[..., 8 - bits :].reshape(SHAPE[0], -1), axis=1)
    array = np.ascontiguousarray(packed[:, : math.ceil(31 * bits / 8)])
    np.testing.assert_array_equal(read(strips(array, rows=20, tags={258: [bits], 339: [1]})), stored)


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


def tiles(width: int = 16, height: int = 16, letter: str = "I", tag: int = 0) -> bytes:
    sizes = {322: ("I", [width]), 323: ("I", [height]), 324: ("I", [8] * 4), 325: ("I", [9] * 4)}
    return made(b"", sizes | ({tag: (letter, [16])} if tag else {}), leave_out=[273, 278, 279])


def page_of(**tags: tuple[str, int]) -> bytes:
    return made(tags={int(tag[1:]): (letter, [value]) for tag, (letter, value) in tags.items()})


STACK = np.zeros((3, *MADE), np.uint16)
DAMAGED, ALONE = "[wrong-format] a damaged header", "expected one image, alone in its file. Write only the label image."
LOSSLESS = (
    "expected whole numbers of 8, 16, 32 or 64 bits, without compression or with a lossless one (deflate, LZW, zstd). "
    "Write it again, for example with tifffile.imwrite(path, labels, compression='zlib')."
)

REFUSED = [
    *((tiles(letter=letter, tag=tag) if tag in (322, 323) else page_of(**{f"t{tag}": (letter, 16)}),
       f"{DAMAGED} (tag {tag} of type {kind});")
      for letter, kind in (("h", 8), ("i", 9)) for tag in (256, 257, 258, 259, 277, 278, 322, 323)),
    *((made(twice=[tag]), f"{DAMAGED} (tag {tag} twice); expected") for tag in (256, 259, 273, 279)),
    *((tiles(width, height), f"{DAMAGED} (tiles of {width:,} x {height:,} pixels)")
      for width, height in ((1 << 31, 16), (16, 0), (0, 16), (1, 1), (17, 16), (60_000, 60_000))),
    (tiles(16, 60_000), f"{DAMAGED} (tag 324 with 4 values)"),  # reaches less than 2^24 px over the edge
    (page_of(t278=("H", 0)), f"{DAMAGED} (strips without rows)"),
    *((page_of(**{f"t{tag}": ("H", value)}), f"[unsupported-format] a TIFF file with {what}; {LOSSLESS}")
      for tag, value, what in (
          (258, 24, "24 bits a pixel"), (258, 0, "0 bits a pixel"), (259, 6, "compression 6"),
          (259, 7, "compression 7"), (259, 34712, "compression 34712"), (259, 65000, "compression 65000"),
          (266, 2, "bits in reversed order"), (317, 3, "predictor 3 for 16 bits"),
          (317, 9, "predictor 9 for 16 bits"))),
    *((big_tiff(1, offset)[:end], CUT_OFF) for offset in (1 << 50, (1 << 62) - 1, (1 << 64) - 1) for end in (None, 12)),
    (made(next_page=8 + 2 * MADE[0] * MADE[1]), f"{DAMAGED} (a page that follows itself); expected a TIFF file."),
    (tiff_file(STACK, photometric="minisblack", metadata=None), f"[several-images] 3 pages; {ALONE}"),
    *((tiff_file(STACK, photometric="minisblack", truncate=True, **options),
       f"[several-images] a stack of 3 images; {ALONE}") for options in ({}, {"imagej": True})),
]  # fmt: skip


def test_a_file_is_refused_with_this_line() -> None:
    wrong = []
    for content, line in REFUSED:
        with memory_below(8_000_000):
            told = refusal(content, shape_yx=MADE)
        wrong += [] if told.startswith(line) else [(told, line)]
    assert wrong == []


@pytest.mark.parametrize("compression", ENCODERS)
@pytest.mark.usefixtures("bands")
def test_a_strip_that_is_missing_is_never_filled_with_zeros(compression: str) -> None:
    np.testing.assert_array_equal(read(strips(compression=compression)), LABELS)
    for tag, value in ((279, 0), (279, 5), (273, 0), (273, 60_000)):
        with tifffile.TiffFile(io.BytesIO(strips(compression=compression))) as file:
            page = file.pages.first
            values = list(page.dataoffsets if tag == 273 else page.databytecounts)
        values[1] = value
        assert refusal(strips(compression=compression, tags={tag: values})).startswith(CUT_OFF)


@pytest.mark.parametrize("tag", [273, 279])
@pytest.mark.usefixtures("bands")
def test_too_few_strips_or_sizes_of_them_are_told(tag: int) -> None:
    assert refusal(strips(tags={tag: [8] * 3})).startswith(CUT_OFF)
    assert refusal(strips(tags={tag: [8] * 5})).startswith(f"{DAMAGED} (tag {tag} with 5 values)")


@pytest.mark.parametrize("compression", sorted(ENCODERS.keys() - {"none"}))
@pytest.mark.usefixtures("bands")
def test_a_strip_with_fewer_or_more_rows_than_the_image_is_told(compression: str) -> None:
    for rows in (19, 21):
        content = strips(np.zeros((rows, 31), np.int32), compression, rows, {278: [20]})
        assert refusal(content).startswith(CUT_OFF)


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
    bomb = strips(np.zeros((400_000, 10), np.int32), "zlib", 400_000, {278: [20]})
    with memory_below(8_000_000):
        assert refusal(bomb).startswith(CUT_OFF)


# --- sizes of images --------------------------------------------------------------------------------------------------


def test_the_size_of_an_image_comes_from_its_header(tmp_path: Path) -> None:
    for suffix, content in ((".svs", tiff_file(LABELS)), (".png", png_file(np.zeros(SHAPE, np.uint8)))):
        (tmp_path / f"a{suffix}").write_bytes(content)
        assert read_image_size(tmp_path / f"a{suffix}") == SHAPE


def test_the_size_of_a_real_slide_is_read(shared_data: Path) -> None:
    for name, size in (("A9K0_1", (1153, 1307)), ("A9K0_3", (185, 497))):
        (path,) = (shared_data / "monusac").rglob(f"*{name}.svs")
        assert read_image_size(path) in (size, size[::-1])


@pytest.mark.parametrize("content", [
    b"", b"II*\0", b"II*\0" + bytes(100), b"II*\0\xff\xff\xff\xff", b"\x89PNG\r\n\x1a\n" + bytes(100), b"hello",
    *(strips(tags={tag: [0]}) for tag in (256, 257)),
])  # fmt: skip
def test_the_size_of_a_damaged_image_is_told_and_nothing_printed(tmp_path, capfd, content: bytes) -> None:
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    with pytest.raises(InputFault) as error:
        read_image_size(path)
    assert [str(finding) for finding in error.value.findings] == [
        "[unreadable-image] 'a.tif': not an image that can be read; expected an SVS, TIFF or PNG file."
    ]
    assert capfd.readouterr() == ("", "")
