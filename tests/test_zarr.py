"""Zipped Zarr stores: written by zarr itself where it is installed, and by hand."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Any

import numpy as np
import pytest

from evaluation.decoding.streams import CutOff, damage_told
from evaluation.decoding.zarr import crc32c, is_zarr, read_zarr, unpacked
from evaluation.findings.errors import InputFault

SHAPE = (21, 34)
LABELS = np.arange(21 * 34, dtype=np.uint16).reshape(SHAPE) // 5
ZLIB = {"id": "zlib", "level": 1}


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def by_hand(array: Any, prefix: str = "", chunk: tuple[int, int] = (8, 10), **more: Any) -> dict[str, bytes]:
    """The files of an array of version 2, chunks of zlib."""
    metadata = {"zarr_format": 2, "shape": array.shape, "chunks": chunk, "dtype": array.dtype.str, "order": "C",
                "compressor": ZLIB, "fill_value": 0, "filters": None, **more}  # fmt: skip
    files = {f"{prefix}.zarray": json.dumps(metadata).encode()}
    for row in range(0, array.shape[0], chunk[0]):
        for column in range(0, array.shape[1], chunk[1]):
            full = np.zeros(chunk, array.dtype)
            part = array[row : row + chunk[0], column : column + chunk[1]]
            full[: part.shape[0], : part.shape[1]] = part
            files[f"{prefix}{row // chunk[0]}.{column // chunk[1]}"] = zlib.compress(full.tobytes())
    return files


def read(content: bytes, dataset: str | None = None, limit: int = 100_000) -> Any:
    with damage_told("'a'", "a zipped Zarr store"):
        return read_zarr(io.BytesIO(content), where="'a'", shape_yx=SHAPE, bytes_limit=limit, dataset=dataset)


@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.parametrize("codec", ["none", "default", "blosc", "gzip", "zstd"])
@pytest.mark.parametrize("dtype", ["u1", "<i4", "f8", "?"])
def test_what_zarr_writes_is_read(format: int, codec: str, dtype: str, tmp_path: Any) -> None:
    zarr = pytest.importorskip("zarr")
    import numcodecs
    from zarr import codecs

    made = {
        "none": None,
        "default": "auto",
        "blosc": codecs.BloscCodec() if format == 3 else numcodecs.Blosc(),
        "gzip": codecs.GzipCodec() if format == 3 else numcodecs.GZip(),
        "zstd": codecs.ZstdCodec() if format == 3 else numcodecs.Zstd(),
    }[codec]
    array = LABELS.astype(dtype)
    array[:8, :10] = 0  # a chunk that is not written
    with zarr.storage.ZipStore(tmp_path / "a.zarr.zip", mode="w") as store:
        group = zarr.create_group(store, zarr_format=format)
        image = group.create_array("0", shape=(3, *SHAPE), chunks=(1, *SHAPE), dtype="u1")
        image[:] = 9
        for scale in (1, 2):
            level = array[::scale, ::scale]
            written = group.create_array(
                f"labels/nuclei/{scale - 1}", shape=level.shape, chunks=(8, 10), dtype=level.dtype, compressors=made
            )
            written[:] = level
    content = (tmp_path / "a.zarr.zip").read_bytes()
    assert is_zarr(io.BytesIO(content))
    for dataset in (None, "/labels/nuclei/0"):
        found = read(content, dataset)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_an_array_by_hand_is_read_with_chunks_that_were_never_written() -> None:
    for prefix in ("", "a.zarr/", "a.zarr/labels/nuclei/0/"):
        files = by_hand(LABELS, prefix)
        np.testing.assert_array_equal(read(zipped(files)), LABELS)
        del files[f"{prefix}1.2"]
        assert (read(zipped(files))[8:16, 20:30] == 0).all()
    values = by_hand(LABELS, fill_value=7)
    del values["0.0"]
    assert (read(zipped(values))[:8, :10] == 7).all()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"shape": [20, 34]}, "wrong-shape"),
        ({"shape": [34, 21]}, "wrong-shape"),
        ({"shape": [-1, 34]}, "wrong-format"),
        ({"shape": [21.0, 34]}, "wrong-format"),
        ({"shape": 5}, "wrong-format"),
        ({"chunks": [0, 10]}, "wrong-format"),
        ({"chunks": [8]}, "wrong-format"),
        ({"chunks": [1 << 30, 1 << 30]}, "wrong-format"),
        ({"chunks": [8, 11]}, "unreadable-file"),
        ({"dtype": "|O"}, "unsupported-format"),
        ({"dtype": [["a", "<u2"]]}, "unsupported-format"),
        ({"fill_value": 1e9}, "wrong-format"),
        ({"fill_value": 10**18}, "wrong-format"),
        ({"fill_value": 10**30}, "wrong-format"),
        ({"fill_value": -1}, "wrong-format"),
        ({"fill_value": "NaN"}, "wrong-format"),
        ({"fill_value": [1]}, "wrong-format"),
        ({"filters": [{"id": "delta"}]}, "unsupported-format"),
        ({"compressor": {"id": "pickle"}}, "unsupported-format"),
        ({"compressor": {"id": "blosc"}}, "unreadable-file"),
        ({"compressor": {"id": "zstd"}}, "unreadable-file"),
        ({"compressor": None}, "unreadable-file"),
        ({"compressor": 5}, "wrong-format"),
        ({"zarr_format": 3}, "wrong-format"),
    ],
)
def test_other_metadata_are_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(InputFault, match=rf"\[{code}\]"):
        read(zipped(by_hand(LABELS, **changes)))


def test_a_chunk_that_gives_more_or_fewer_bytes_is_refused() -> None:
    for data in (zlib.compress(bytes(159)), zlib.compress(bytes(161)), zlib.compress(bytes(1 << 24)), b"", b"\0" * 99):
        with pytest.raises(InputFault, match=r"unreadable-file|wrong-format"):
            read(zipped({**by_hand(LABELS), "0.0": data}))


def test_check_sums_of_chunks_are_compared() -> None:
    with_sum = b"123456789" + (0xE3069283).to_bytes(4, "little")  # the usual check value of CRC-32C
    assert unpacked(with_sum, ["crc32c"], 9) == b"123456789"
    compressed = zlib.compress(b"123456789")
    for codec, data in [("crc32c", b"123456788" + with_sum[9:]), ("crc32c", b"123"), ("zlib", compressed[:-1])]:
        with pytest.raises(CutOff):
            unpacked(data, [codec], 9)


@pytest.mark.parametrize("size", [*range(20), 4095, 4096, 4097, 50_000])
def test_check_sums_are_those_of_the_definition_bit_by_bit(size: int) -> None:
    data, remainder = np.random.default_rng(size).bytes(size), 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    assert crc32c(data) == remainder ^ 0xFFFFFFFF


def test_which_array_is_read_must_be_clear() -> None:
    two = {**by_hand(LABELS, "labels/a/0/"), **by_hand(LABELS * 2, "labels/b/0/")}
    with pytest.raises(InputFault, match=r"no-mask-variable.*'labels/a/0' and 'labels/b/0'; expected one array"):
        read(zipped(two))
    np.testing.assert_array_equal(read(zipped(two), "labels/b/0"), LABELS * 2)
    for files in ({".zgroup": b"{}"}, {"zarr.json": b'{"node_type": "group"}'}):
        with pytest.raises(InputFault, match=r"no-mask-variable.*no array"):
            read(zipped(files))
    for content in (b"[]", b"{", b"{" * 9, b" " * (2 << 20)):
        with pytest.raises(InputFault, match="wrong-format"):
            read(zipped({".zarray": content}))


def test_an_array_above_the_limit_is_refused() -> None:
    with pytest.raises(InputFault, match="too-large"):
        read(zipped(by_hand(LABELS)), limit=1000)


def test_any_other_file_is_no_store() -> None:
    assert not is_zarr(io.BytesIO(b"PK\3\4 "))
    assert not is_zarr(io.BytesIO(zipped({"a.npy": b""})))
