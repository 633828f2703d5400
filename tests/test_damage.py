"""A thousand damages of each kind of file: cut off, bits flipped in compressed data, strips left out. Each is refused,
or gives the right pixels.

Compressions without a check sum (LZW, PackBits, zstd as TIFF has it) and plain numbers cannot tell a flipped bit; they
are cut off, and lose strips.
"""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_pictures import picture
from test_label_formats import case_of, image_of, mat_file, npz_file, png_file, request, tiff_file
from test_mat_formats import mat_7_3
from test_tiff import segment_tags

from evaluation.decoding.guard import of_thread
from evaluation.findings.errors import InputFault
from evaluation.formats.guarded import begin_annotations

DAMAGES = 1000
CHEQUERED = (np.arange(400 * 300).reshape(400, 300) // 7 * 2654435761 % 97).astype(np.int32)


def mha(folder: Path) -> bytes:
    import SimpleITK

    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(CHEQUERED), str(folder / "a.mha"), useCompression=True)
    return (folder / "a.mha").read_bytes()


def strips(**options: Any) -> Callable[[Path], bytes]:
    return lambda folder: tiff_file(CHEQUERED, metadata=None, **options).getvalue()


CHECKED: dict[str, Callable[[Path], bytes]] = {
    ".png": lambda folder: png_file(CHEQUERED.astype(np.uint16)).getvalue(),
    ".npz": lambda folder: npz_file(labels=CHEQUERED).getvalue(),
    "_deflate.tif": strips(compression="zlib", rowsperstrip=32),
    "_predictor.tif": strips(compression="zlib", rowsperstrip=32, predictor=True),
    "_tiles.tif": strips(compression="zlib", tile=(64, 64)),
    "_lzma.tif": strips(compression="lzma", rowsperstrip=32),
    "_7.mat": lambda folder: mat_file({"n_ary_mask": CHEQUERED}, do_compression=True).getvalue(),
    "_7.3.mat": lambda folder: mat_7_3({"n_ary_mask": CHEQUERED}, chunks=(64, 64), compression="gzip").getvalue(),
    "_shuffled.mat": lambda folder: mat_7_3(
        {"n_ary_mask": CHEQUERED}, chunks=(64, 64), compression="gzip", shuffle=True, fletcher32=True
    ).getvalue(),
    ".mha": mha,
}
UNCHECKED: dict[str, Callable[[Path], bytes]] = {
    ".npy": lambda folder: npy(CHEQUERED),
    "_plain.tif": strips(rowsperstrip=32),
    "_lzw.tif": strips(compression="lzw", rowsperstrip=32),
    "_packbits.tif": strips(compression="packbits", rowsperstrip=32),
    "_zstd.tif": strips(compression="zstd", rowsperstrip=32),
    "_6.mat": lambda folder: mat_file({"n_ary_mask": CHEQUERED}).getvalue(),
    "_4.mat": lambda folder: mat_file({"n_ary_mask": CHEQUERED}, format="4").getvalue(),
    "_plain_7.3.mat": lambda folder: mat_7_3({"n_ary_mask": CHEQUERED}).getvalue(),
}


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def compressed_part(content: bytes, kind: str) -> range:
    """Where the compressed data certainly are: the middle of the file."""
    return range(len(content) // 8, len(content) - len(content) // 8)


def damaged(content: bytes, kind: str, chance: random.Random, *, flips: bool) -> bytes:
    way = chance.choice(["cut", "flip", "flip", "zero"] if flips else ["cut"])
    if kind.endswith(".tif") and "tiles" not in kind and chance.random() < 0.3:
        return with_fewer_strips(content, chance)
    if way == "cut":
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    if way == "flip":
        for _ in range(chance.choice([1, 1, 2, 8])):
            changed[chance.choice(compressed_part(content, kind))] ^= 1 << chance.randrange(8)
    else:
        start = chance.choice(compressed_part(content, kind))
        changed[start : start + 32] = bytes(min(32, len(content) - start))
    return bytes(changed)


def with_fewer_strips(content: bytes, chance: random.Random) -> bytes:
    """A TIFF whose header tells of fewer strips than there are, or in which some have no place or no bytes."""
    changed = bytearray(content)
    tag = chance.choice([273, 279])
    kind, count, place = segment_tags(changed)[tag]
    letter, size = {3: ("H", 2), 4: ("I", 4)}[kind]
    struct.pack_into(f"<{letter}", changed, place + size * chance.randrange(count), 0)
    return bytes(changed)


@pytest.mark.parametrize("kind", [*CHECKED, *UNCHECKED])
def test_damaged_files_are_refused_or_give_the_right_pixels(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    content = {**CHECKED, **UNCHECKED}[kind](tmp_path)
    suffix = kind[kind.rindex(".") :]
    asked = request(suffix, format="nary_mat" if suffix == ".mat" else "label_image")

    def read(data: bytes) -> Any:
        found = begin_annotations(io.BytesIO(data), asked, case_of(CHEQUERED.shape), owner="tests")()
        return picture(image_of(found).labels)

    np.testing.assert_array_equal(read(content), CHEQUERED)
    refused = 0
    for _ in range(DAMAGES):
        try:
            pixels = read(damaged(content, kind, chance, flips=kind in CHECKED))
        except InputFault:
            refused += 1
        else:
            np.testing.assert_array_equal(pixels, CHEQUERED)
    of_thread.stop_all()
    assert refused > DAMAGES * 0.9
