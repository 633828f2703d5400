"""Hostile, mutated and damaged files: each is refused as it must be, or read right."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import imagecodecs
import numpy as np
import pytest
import tifffile
from formats import picture, read_part
from formats.pixels import entry_place, itk_file, mat_file, npy_file, npz_file, png_file, tiff_file
from hostile.corpus import CORPUS
from hostile.run import SECONDS, check, judge
from processes import run_in_group
from test_imports import by_hand, fill, saved, zipped

from evaluation.challenge.formats import FORMATS
from evaluation.files.decoding.guard import Bounds, decode, of_thread
from evaluation.findings import catalogue
from evaluation.findings.errors import InputFault

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
PARTS = 4
BY_NAME = {record.name: record for record in CORPUS}


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_submissions_are_refused_as_they_must_be(part: int) -> None:
    command = [sys.executable, "-m", "hostile.run", "--part", f"{part}/{PARTS}"]
    done = run_in_group(command, cpu_seconds=600, env=ENVIRONMENT)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [line for line in told if "wrong" in line]
    assert [f"{line['name']}: {fault}" for line in ended for fault in line["wrong"]] == []
    last = told[-1]["name"] if told else "the beginning"
    assert (done.returncode, done.stderr) == (0, ""), last
    assert len(ended) == len(CORPUS[part::PARTS]) > 70


def test_more_memory_than_the_limit_is_not_to_be_had():
    code = "from hostile.run import prepare; prepare(); bytearray(3 << 30)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ended.stderr.strip().endswith("MemoryError")


def test_every_format_meets_hostile_files():
    kinds = {record.kind.split()[0] for record in CORPUS if record.code is not None}
    assert set(FORMATS) - {"counts_csv"} <= kinds


def test_names_of_hostile_submissions_are_different_and_their_codes_known():
    assert len(BY_NAME) == len(CORPUS)
    assert {record.code for record in CORPUS} - {None} <= {
        code for code, page in catalogue().items() if page.severity == "error"
    }


@pytest.mark.parametrize("expected, outcome, told", [
    ({"code": "not-json"}, {}, "errors ['empty-polygon'], expected ['not-json']"),
    ({"code": None}, {}, "errors ['empty-polygon'], expected []"),
    ({"warns": ("left-out",)}, {}, "warnings [], expected ['left-out']"),
    ({"says": "elephant"}, {}, "'elephant' is in none of"), ({"nuclei": 3}, {}, "None nuclei, expected 3"),
    ({}, {"seconds": SECONDS + 0.5}, f"{SECONDS + 0.5} s"), ({}, {"crash": "KeyError"}, "KeyError"),
    ({}, {"last": "a" * 1001}, "the last line has 1,001 characters"),
    ({}, {"last": "a\x1b[31m"}, "a line of 6 characters, printable: False"),
])  # fmt: skip
def test_the_judge_tells_what_is_not_as_expected(expected, outcome, told, tmp_path):
    record = BY_NAME["json polygons without a vertex"]
    found = check(record, tmp_path)
    assert judge(record, found) == []
    (wrong,) = judge(replace(record, **expected), {**found, **outcome})
    assert wrong.startswith(told)


# --- a short run of the fuzzers, in a process of its own with a limit on memory; docs/development.md has long one -----


def test_mutated_files_are_read_or_refused_but_never_break_a_reader(tmp_path):
    command = [sys.executable, "-m", "fuzz", "--inputs", "150", "--workers", "1"]
    done = run_in_group(command, cpu_seconds=600, cwd=tmp_path, env=ENVIRONMENT)
    assert done.stdout.endswith("0 failures\n"), done.stdout[-4000:] + done.stderr[-2000:]


# --- a thousand damages of each kind of file: cut off, bits flipped in each compressed block, strips left out. Ea -----

# Compressions without a check sum (LZW, PackBits, zstd as TIFF has it, blosc) and plain numbers cannot tell a flipped
# bit; they are cut off, and lose strips. A block of a Zarr store is a file of a folder, which is damaged before the
# folder is packed, so that no check sum of a ZIP helps; a zipped one is damaged as a whole.


DAMAGES = 1000
IMPORTS = {".zarr.zip": "ome_zarr", ".h5": "hdf5", "_seg.npy": "cellpose"}
OPTIONS: dict[str, Any] = {
    "blosc": {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0},
    "zstd": {"level": 1, "checksum": False},
    "gzip": {"level": 1},
    "numcodecs.zlib": {"level": 1},
}
CHEQUERED = (np.arange(400 * 300).reshape(400, 300) // 7 * 2654435761 % 97).astype(np.int32)
Blocks = Callable[[bytes], Sequence[range]]


def segments_of_tiff(content: bytes) -> list[range]:
    with tifffile.TiffFile(io.BytesIO(content)) as file:
        page = file.pages[0]
        return [range(start, start + size) for start, size in zip(page.dataoffsets, page.databytecounts, strict=True)]


def members_of_zip(content: bytes) -> list[range]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        starts = [info.header_offset + 30 + len(info.filename) for info in archive.infolist()]
        return [range(at, at + info.compress_size) for at, info in zip(starts, archive.infolist(), strict=True)]


def behind(start: int | bytes) -> Blocks:
    """All that follows so many bytes, or these bytes."""
    return lambda content: [range(start if isinstance(start, int) else content.index(start) + len(start), len(content))]


@dataclass(frozen=True)
class Kind:
    """A kind of file. ``blocks``: in which of them a flipped bit must be noticed; None: it cannot be."""

    suffix: str
    make: Callable[[Path], bytes]
    blocks: Blocks | None = None

    def damaged(self, content: bytes, chance: random.Random) -> bytes:
        if self.suffix == ".tif" and chance.random() < 0.3:
            return with_fewer_segments(content, chance)
        if self.blocks is None or chance.random() < 0.25:
            return content[: chance.randrange(len(content))]
        return changed(content, chance.choice(self.blocks(content)), chance)


class Folder(Kind):
    """A Zarr store of which one chunk is damaged."""

    def damaged(self, content: bytes, chance: random.Random) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        name = chance.choice([name for name in parts if name.startswith("c/")])
        is_cut = self.blocks is None or chance.random() < 0.25
        part = parts[name]
        cut_or_changed = part[: chance.randrange(len(part))] if is_cut else changed(part, range(len(part)), chance)
        return zipped({**parts, name: cut_or_changed})


def changed(content: bytes, block: range, chance: random.Random) -> bytes:
    """The content with bits flipped in a block, or up to 32 of its bytes set to 0."""
    new = bytearray(content)
    if chance.random() < 0.7:
        for _ in range(chance.choice([1, 1, 2, 8])):
            new[chance.choice(block)] ^= 1 << chance.randrange(8)
    else:
        start = chance.choice(block)
        stop = min(start + 32, block.stop)
        new[start:stop] = bytes(stop - start)
    return bytes(new)


def with_fewer_segments(content: bytes, chance: random.Random) -> bytes:
    """A TIFF whose header tells of fewer strips or tiles than there are, or in which one has no place or no bytes."""
    new = bytearray(content)
    is_tiled = tifffile.TiffFile(io.BytesIO(content)).pages[0].is_tiled
    entry = entry_place(new, chance.choice((324, 325) if is_tiled else (273, 279)))
    kind, count, place = struct.unpack_from("<HII", new, entry + 2)
    if chance.random() < 0.3:
        struct.pack_into("<I", new, entry + 4, chance.randrange(count))
    else:
        letter, size = {3: ("H", 2), 4: ("I", 4)}[kind]
        at = place if size * count > 4 else entry + 8
        struct.pack_into(f"<{letter}", new, at + size * chance.randrange(count), 0)
    return bytes(new)


# --- the kinds --------------------------------------------------------------------------------------------------------


def tiff(blocks: Blocks | None = None, array: Any = CHEQUERED, **options: Any) -> Kind:
    options = {"rowsperstrip": 32, "metadata": None} | options
    return Kind(".tif", lambda folder: tiff_file(array, **options), blocks)


def matlab(blocks: Blocks | None, **options: Any) -> Kind:
    return Kind(".mat", lambda folder: mat_file({"n_ary_mask": CHEQUERED}, **options), blocks)


def itk(suffix: str, blocks: Blocks | None, *, compressed: bool) -> Kind:
    return Kind(suffix, lambda folder: itk_file(folder, suffix, CHEQUERED, compressed=compressed), blocks)


def zarr_folder(codecs: Sequence[str], encode: Callable[[bytes], Any], *, is_checked: bool) -> Kind:
    """A store of version 3 with chunks of 64 x 64 px."""
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": CHEQUERED.shape,
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": name, "configuration": OPTIONS.get(name, {})} for name in ("bytes", *codecs)],
        "fill_value": 0,
    }
    padded = np.pad(CHEQUERED, [(0, -side % 64) for side in CHEQUERED.shape])
    parts = {"zarr.json": json.dumps(metadata).encode()}
    for row, column in product(*(range(side // 64) for side in padded.shape)):
        chunk = padded[row * 64 :, column * 64 :][:64, :64]
        parts[f"c/{row}/{column}"] = bytes(encode(chunk.tobytes()))
    return Folder(".zarr.zip", lambda folder: zipped(parts), members_of_zip if is_checked else None)


def zstd_with_crc32c(data: bytes) -> bytes:
    compressed = imagecodecs.zstd_encode(data)
    return bytes(compressed + struct.pack("<I", google_crc32c.value(compressed)))


CHUNKS = {"chunks": (64, 64), "compression": "gzip"}
KINDS = {
    "png": Kind(".png", lambda folder: png_file(CHEQUERED.astype(np.uint16)), behind(8)),
    "npy": Kind(".npy", lambda folder: npy_file(CHEQUERED)),
    "npz": Kind(".npz", lambda folder: npz_file(labels=CHEQUERED), members_of_zip),
    "npz stored": Kind(".npz", lambda folder: npz_file(labels=CHEQUERED, compressed=False), members_of_zip),
    "tiff": tiff(),
    "tiff tiles": tiff(tile=(64, 64)),
    "tiff lzw": tiff(compression="lzw"),
    "tiff packbits": tiff(compression="packbits"),
    "tiff zstd": tiff(compression="zstd"),
    "tiff deflate": tiff(segments_of_tiff, compression="zlib"),
    "tiff deflate differences": tiff(segments_of_tiff, compression="zlib", predictor=True),
    "tiff deflate floats": tiff(segments_of_tiff, CHEQUERED.astype(np.float32), compression="zlib", predictor=True),
    "tiff deflate tiles": tiff(segments_of_tiff, compression="zlib", tile=(64, 64)),
    "tiff lzma": tiff(segments_of_tiff, compression="lzma"),
    "mat 6": matlab(None),
    "mat 7": matlab(behind(128 + 8), do_compression=True),
    "mha": itk(".mha", None, compressed=False),
    "mha zlib": itk(".mha", behind(b"ElementDataFile = LOCAL\n"), compressed=True),
    "nifti": itk(".nii", None, compressed=False),
    "nifti gzip": itk(".nii.gz", behind(0), compressed=True),
    "nrrd": itk(".nrrd", None, compressed=False),
    "nrrd gzip": itk(".nrrd", behind(b"\n\n"), compressed=True),
    "zarr zipped": Kind(".zarr.zip", lambda folder: zipped(by_hand(CHEQUERED, chunk=(64, 64))), members_of_zip),
    "zarr": zarr_folder([], bytes, is_checked=False),
    "zarr blosc": zarr_folder(["blosc"], imagecodecs.blosc_encode, is_checked=False),
    "zarr zstd": zarr_folder(["zstd"], imagecodecs.zstd_encode, is_checked=False),
    "zarr zlib": zarr_folder(["numcodecs.zlib"], zlib.compress, is_checked=True),
    "zarr gzip": zarr_folder(["gzip"], gzip.compress, is_checked=True),
    "hdf5": Kind(".h5", lambda folder: fill(labels=CHEQUERED)),
    "cellpose": Kind("_seg.npy", lambda folder: saved({"masks": CHEQUERED})),
    "zarr zstd check sums": zarr_folder(["zstd", "crc32c"], zstd_with_crc32c, is_checked=True),
}


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_refused_or_give_the_right_pixels(name: str, tmp_path: Path) -> None:
    kind, chance = KINDS[name], random.Random(name)
    content = kind.make(tmp_path)
    suffix = ".npy" if kind.suffix in IMPORTS else kind.suffix
    options = {"format": "nary_mat"} if suffix == ".mat" else {"format": "label_image", "suffix": suffix}

    def read(data: bytes) -> Any:
        if kind.suffix in IMPORTS:
            asked_for, bounds = (IMPORTS[kind.suffix], "a", None, 1 << 30), Bounds(1 << 31, 60)
            (array,) = decode(
                "evaluation.files.formats.imports:read_import",
                [io.BytesIO(data)],
                asked_for,
                where="'a'",
                owner="tests",
                bounds=bounds,
            )
            return array
        limits = {"bytes_per_file": 1_000_000}
        return picture(read_part(data, **options, shape_yx=CHEQUERED.shape, limits=limits, guarded=True).labels)

    np.testing.assert_array_equal(read(content), CHEQUERED)
    refused = 0
    for _ in range(DAMAGES):
        try:
            pixels = read(kind.damaged(content, chance))
        except InputFault:
            refused += 1
        else:
            np.testing.assert_array_equal(pixels, CHEQUERED)
    of_thread.stop_all()
    assert refused > DAMAGES * 0.9
