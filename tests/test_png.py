"""PNG images read equal what Pillow reads, or what was written; damaged and hostile ones are refused."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from endless import memory_below
from formats.pixels import CUT_OFF
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from evaluation.decoding.pixels import read_image
from evaluation.findings.errors import InputFault

SHAPE = (23, 37)
MAGIC = b"\x89PNG\r\n\x1a\n"
GREY, RGB, PALETTE, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6


def read(content: bytes, shape_yx: tuple[int, int] = SHAPE, limit: int = 1_000_000) -> Any:
    """The colours of a PNG, or its grey values."""
    wanted = {"shape_yx": shape_yx, "bytes_limit": limit, "channels": None, "as_colours": True}
    return read_image(io.BytesIO(content), suffix=".png", where="'a.png'", **wanted)


def refusal(content: bytes, shape_yx: tuple[int, int] = SHAPE, limit: int = 1_000_000) -> str:
    with pytest.raises(InputFault) as error:
        read(content, shape_yx, limit)
    (finding,) = error.value.findings
    return str(finding).replace(" 'a.png':", "")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def made(rows: bytes, *, bits: int = 8, kind: int = GREY, shape: tuple[int, int] = SHAPE, tail: bytes = b"") -> bytes:
    """A PNG of rows that each start with the number of their filter."""
    header = struct.pack(">IIBBBBB", shape[1], shape[0], bits, kind, 0, 0, 0)
    return MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows) + tail) + chunk(b"IEND", b"")


ROWS = b"".join(bytes([0, *range(row, row + 37)]) for row in range(23))
PIXELS = np.add.outer(np.arange(23), np.arange(37)).astype(np.uint8)


# --- good files -------------------------------------------------------------------------------------------------------


@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.uint16]),
        st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
            lambda size: st.sampled_from([size, *((*size, channels) for channels in (2, 3, 4))])
        ),
    ),
    st.sampled_from([8, 16, 32, 64, 128]),
)
def test_what_was_written_is_read_whatever_the_filter(array: Any, filter_flag: int) -> None:
    found = read(imagecodecs.png_encode(array, filter=filter_flag), (array.shape[0], array.shape[1]))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "I;16"])
def test_what_pillow_writes_is_read_as_pillow_reads_it(mode: str) -> None:
    chance = np.random.default_rng(3)
    shape = (*SHAPE, len(mode)) if len(mode) > 1 and mode != "I;16" else SHAPE
    array = chance.integers(0, 60_000 if mode == "I;16" else 256, shape).astype("u2" if mode == "I;16" else "u1")
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, "PNG", optimize=True)
    np.testing.assert_array_equal(read(stream.getvalue()), array)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_bits_keep_their_values_and_are_not_scaled(bits: int) -> None:
    stored = np.random.default_rng(bits).integers(0, 1 << bits, SHAPE).astype(np.uint8)
    text = ["".join(f"{value:0{bits}b}" for value in row) for row in stored]
    rows = b"".join(
        b"\0" + bytes(int(row[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(row), 8)) for row in text
    )
    np.testing.assert_array_equal(read(made(rows, bits=bits)), stored)


def test_rows_with_every_filter_are_undone_as_the_standard_says() -> None:
    previous = [0] * 37
    rows = b""
    for row, values in enumerate(PIXELS.tolist()):
        left = [0, *values[:-1]]
        corner = [0, *previous[:-1]]
        paeth = [
            min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            for a, b, c in zip(left, previous, corner, strict=True)
        ]
        mean = [(a + b) // 2 for a, b in zip(left, previous, strict=True)]
        guess = [[0] * 37, left, previous, mean, paeth][row % 5]
        rows += bytes([row % 5, *((value - g) % 256 for value, g in zip(values, guess, strict=True))])
        previous = values
    np.testing.assert_array_equal(read(made(rows)), PIXELS)


def test_other_chunks_are_left_alone_and_transparency_changes_nothing() -> None:
    content = made(ROWS)
    for extra in (
        chunk(b"tRNS", b"\0\5"),
        chunk(b"gAMA", bytes(4)),
        chunk(b"iCCP", b"bomb"),
        chunk(b"zTXt", b"x" * 99),
    ):
        np.testing.assert_array_equal(read(content[:33] + extra + content[33:]), PIXELS)


def test_data_may_come_in_many_pieces() -> None:
    data = zlib.compress(ROWS)
    pieces = b"".join(chunk(b"IDAT", data[place : place + 7]) for place in range(0, len(data), 7))
    content = made(ROWS)
    np.testing.assert_array_equal(read(content[:33] + chunk(b"IDAT", b"") + pieces + chunk(b"IEND", b"")), PIXELS)


def test_real_panoptic_png_equal_what_pillow_reads(shared_data: Path) -> None:
    paths = sorted((shared_data / "panopticapi").rglob("*.png"))
    assert len(paths) == 4
    for path in paths:
        expected = np.array(Image.open(path))
        np.testing.assert_array_equal(read(path.read_bytes(), expected.shape[:2], 10_000_000), expected)


# --- refused ----------------------------------------------------------------------------------------------------------


def indices(content: bytes) -> Any:
    return read_image(io.BytesIO(content), suffix=".png", where="'a.png'", shape_yx=SHAPE, bytes_limit=1_000_000)


def palette_png(bits: int, first: tuple[int, int, int] = (0, 0, 0)) -> tuple[bytes, Any]:
    """A PNG with a palette as Pillow writes it, and its numbers."""
    numbers = (np.arange(23 * 37).reshape(23, 37) % (1 << bits)).astype(np.uint8)
    image = Image.fromarray(numbers, "P")
    image.putpalette([*first, *(value for index in range(1, 1 << bits) for value in (index, 255 - index, 7))])
    stream = io.BytesIO()
    image.save(stream, "PNG", bits=bits)
    return stream.getvalue(), numbers


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_palette_gives_its_numbers_or_its_colours_as_pillow_does(bits: int) -> None:
    content, numbers = palette_png(bits)
    assert content[24:26] == bytes([bits, 3])
    np.testing.assert_array_equal(indices(content), numbers)
    np.testing.assert_array_equal(read(content), np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))


def test_a_palette_whose_background_is_not_black_is_refused_with_what_to_write() -> None:
    with pytest.raises(InputFault) as error:
        indices(palette_png(8, first=(255, 0, 16))[0])
    assert str(error.value.findings[0]).replace(" 'a.png':", "") == (
        "[unsupported-format] a PNG with a palette whose number 0 is #ff0010; expected a PNG of grey values, a palette "
        "or RGB, of up to 16 bits, not interlaced. Let 0 be the background, and black; or write grey values of 8 or 16 "
        "bits."
    )


def test_a_palette_in_colour_needs_three_times_the_memory() -> None:
    content, _ = palette_png(8)
    with pytest.raises(InputFault, match="too-large"):
        read(content, SHAPE, 2500)


def test_an_interlaced_png_is_refused_with_what_to_write() -> None:
    header = struct.pack(">IIBBBBB", 37, 23, 8, 0, 0, 0, 1)
    content = MAGIC + chunk(b"IHDR", header) + made(ROWS)[33:]
    assert refusal(content).startswith("[unsupported-format] an interlaced PNG; expected")


def test_another_size_is_told() -> None:
    assert refusal(made(ROWS), (37, 23)).startswith("[wrong-shape] 23 rows x 37 columns; expected 37 rows x 23 columns")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (struct.pack(">IIBBBBB", 37, 23, 3, 0, 0, 0, 0), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 37, 23, 4, 2, 0, 0, 0), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 37, 23, 8, 1, 0, 0, 0), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 37, 23, 8, 0, 1, 0, 0), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 37, 23, 8, 0, 0, 1, 0), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 37, 23, 8, 0, 0, 0, 2), "an unknown kind of pixels"),
        (struct.pack(">IIBBBBB", 0, 23, 8, 0, 0, 0, 0), "23 rows x 0 columns; 1 to 1,000,000 are possible"),
        (struct.pack(">IIBBBBB", 2**31, 1, 8, 0, 0, 0, 0), "1 rows x 2,147,483,648 columns; 1 to 1,000,000 are"),
        (b"short", "no header chunk"),
    ],
)
def test_impossible_headers_are_refused(header: bytes, why: str) -> None:
    content = MAGIC + chunk(b"IHDR", header) + made(ROWS)[33:]
    assert refusal(content).startswith(f"[wrong-format] a damaged header ({why}")


@pytest.mark.parametrize(
    ("rows", "tail"),
    [
        (ROWS[:-1], b""),
        (ROWS[:-38], b""),
        (ROWS + b"\0", b""),
        (ROWS + ROWS, b""),
        (b"\5" + ROWS[1:], b""),
        (ROWS[:-38] + b"\x09" + ROWS[-37:], b""),
        (ROWS, b"more"),
        (b"", b""),
    ],
)
def test_data_that_do_not_fit_the_header_are_told_and_nothing_printed(
    capfd: pytest.CaptureFixture[str], rows: bytes, tail: bytes
) -> None:
    assert refusal(made(rows, tail=tail)).startswith(CUT_OFF)
    assert capfd.readouterr() == ("", "")


BOMB = made(bytes(30_000_000))


def test_data_that_decompress_to_far_more_than_the_image_take_no_memory() -> None:
    with memory_below(8_000_000):
        assert refusal(BOMB).startswith(CUT_OFF)


@pytest.mark.parametrize("place", [20, 30, 45, -20, -6, -1])
def test_one_wrong_bit_is_told_by_the_check_sums(place: int) -> None:
    content = bytearray(made(ROWS))
    content[place] ^= 1
    assert refusal(bytes(content)).startswith(("[unreadable-file]", "[wrong-format]"))


def test_an_array_above_the_limit_is_refused() -> None:
    content = made(bytes(23 * (1 + 37 * 8)), bits=16, kind=RGB_ALPHA)
    assert read(content, limit=23 * 37 * 8).shape == (23, 37, 4)
    assert refusal(content, limit=23 * 37 * 8 - 1).startswith(
        "[too-large] an array of 6,808 bytes; expected at most 6,807 bytes."
    )


def test_a_chunk_that_claims_gigabytes_is_cut_off() -> None:
    assert refusal(made(ROWS)[:33] + struct.pack(">I4s", 2**32 - 1, b"IDAT")).startswith(CUT_OFF)


def test_chunks_that_must_be_understood_are_refused() -> None:
    content = made(ROWS)
    line = refusal(content[:33] + chunk(b"ABCD", b"") + content[33:])
    assert line.startswith("[wrong-format] a damaged header (an unknown critical chunk)")


def test_an_endless_row_of_chunks_is_refused() -> None:
    content = made(ROWS)
    line = refusal(content[:33] + chunk(b"teXt", b"") * 300_000 + content[33:], limit=10_000_000)
    assert line.startswith("[wrong-format] a damaged header (more than 300,000 chunks)")


def test_data_behind_their_end_do_not_pile_up() -> None:
    content = made(ROWS)
    line = refusal(content[:-12] + chunk(b"IDAT", b"x" * 100) * 50_000 + content[-12:], limit=10_000_000)
    assert line.startswith(CUT_OFF)
