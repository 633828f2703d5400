"""What ``compare`` and ``convert`` import: what zarr, h5py, cellpose, roifile and geopandas write comes back."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pyarrow
import pytest
import roifile
import shapely
import tifffile
import zarr
from every_format import write_files
from formats.pixels import mat_7_3, mat_file
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import parquet
from zarr import codecs

from evaluation import Challenge
from evaluation.commands.main import run
from evaluation.files.decoding import guard
from evaluation.files.formats.imports import READERS, Asked, kind_of, read_cellpose
from evaluation.files.formats.imports import read_import as read_here
from evaluation.findings.errors import ChallengeBroken, InputFault
from evaluation.folders.convert import convert_file, parse_options
from evaluation.folders.source import imported

pytestmark = pytest.mark.usefixtures("in_folder")

SHAPE = (21, 34)
LABELS = np.arange(21 * 34, dtype=np.uint16).reshape(SHAPE) // 5
RING = [[5, 4], [15, 4], [15, 9], [5, 9]]


def read(content: bytes, dataset: str | None = None) -> Any:
    """The array, or the features, that a file becomes."""
    Path("file").write_bytes(content)
    made = imported(Path("file"), Path.cwd(), dataset=dataset)
    assert made != Path("file"), "no import"
    return np.load(made) if made.suffix == ".npy" else json.loads(made.read_text())["features"]


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def rejected(command: list[str], capsys: pytest.CaptureFixture[str], code: int) -> str:
    capsys.readouterr()
    assert run(command) == code
    return capsys.readouterr().err


# --- Zarr -------------------------------------------------------------------------------------------------------------


def by_hand(array: Any, prefix: str = "", chunk: tuple[int, int] = (8, 10), **more: Any) -> dict[str, bytes]:
    """The files of an array of version 2, chunks of zlib."""
    metadata = {"zarr_format": 2, "shape": array.shape, "chunks": chunk, "dtype": array.dtype.str, "order": "C",
                "compressor": {"id": "zlib", "level": 1}, "fill_value": 0, "filters": None, **more}  # fmt: skip
    files = {f"{prefix}.zarray": json.dumps(metadata).encode()}
    for row in range(0, array.shape[0], chunk[0]):
        for column in range(0, array.shape[1], chunk[1]):
            full = np.zeros(chunk, array.dtype)
            part = array[row : row + chunk[0], column : column + chunk[1]]
            full[: part.shape[0], : part.shape[1]] = part
            files[f"{prefix}{row // chunk[0]}.{column // chunk[1]}"] = zlib.compress(full.tobytes())
    return files


def ome_zarr(path: str, labels: np.ndarray, format: int = 2) -> None:
    """As OME-Zarr lays a label out: below labels/, beside the image, with a smaller scale."""
    group = zarr.open_group(path, mode="w", zarr_format=format)
    group.create_array("0", shape=labels.shape, dtype="u1", chunks=(16, 16))[:] = 7
    for scale in (0, 1):
        level = labels[:: scale + 1, :: scale + 1]
        group.create_array(f"labels/cells/{scale}", shape=level.shape, dtype="u2", chunks=(16, 16))[:] = level


@pytest.mark.parametrize("format, codec, dtype", [
    *((format, codec, "<i4") for format in (2, 3) for codec in ("none", "default", "blosc", "gzip", "zstd")),
    *((format, "default", dtype) for format in (2, 3) for dtype in ("u1", "f8", "?")),
    (3, "sharded", "u1"),
])  # fmt: skip
def test_what_zarr_writes_is_read(format: int, codec: str, dtype: str) -> None:
    options: dict[str, Any] = {
        "none": {"compressors": None},
        "default": {},
        "blosc": {"compressors": codecs.BloscCodec() if format == 3 else numcodecs.Blosc()},
        "gzip": {"compressors": codecs.GzipCodec() if format == 3 else numcodecs.GZip()},
        "zstd": {"compressors": codecs.ZstdCodec() if format == 3 else numcodecs.Zstd()},
        "sharded": {"shards": (16, 20)},
    }[codec]
    array = LABELS.astype(dtype)
    array[:8, :10] = 0  # a chunk that is not written
    with zarr.storage.ZipStore("a.zarr.zip", mode="w") as store:
        group = zarr.create_group(store, zarr_format=format)
        group.create_array("0", shape=(3, *SHAPE), chunks=(1, *SHAPE), dtype="u1")[:] = 9
        for scale in (1, 2):
            level = array[::scale, ::scale]
            path = f"labels/nuclei/{scale - 1}"
            made = group.create_array(path, shape=level.shape, chunks=(8, 10), dtype=level.dtype, **options)
            made[:] = level
    content = Path("a.zarr.zip").read_bytes()
    for dataset in (None, "/labels/nuclei/0"):
        found = read(content, dataset)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_chunks_that_were_never_written_have_the_fill_value() -> None:
    for prefix in ("", "a.zarr/", "a.zarr/labels/nuclei/0/"):
        files = by_hand(LABELS, prefix, fill_value=7)
        np.testing.assert_array_equal(read(zipped(files)), LABELS)
        del files[f"{prefix}1.2"]
        assert (read(zipped(files))[8:16, 20:30] == 7).all()


@pytest.mark.parametrize("changes", [
    {"shape": [-1, 34]},
    {"shape": 5},
    {"chunks": [0, 10]},
    {"chunks": [8]},
    {"chunks": [1 << 30, 1 << 30]},
    {"chunks": [8, 11]},
    {"dtype": "|O", "filters": [{"id": "pickle"}]},
    {"dtype": [["a", "<u2"]]},
    {"fill_value": "x"},
    {"compressor": {"id": "blosc"}},
    {"compressor": {"id": "zstd"}},
    {"compressor": None},
    {"compressor": 5},
    {"zarr_format": 3},
])  # fmt: skip
def test_metadata_that_do_not_fit_the_chunks_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputFault, match=r"\[(wrong-format|unreadable-file|too-large|not-numeric)\] 'file': "):
        read(zipped(by_hand(LABELS, **changes)))


class Evil:
    """A pickle of this ends the process if it is loaded."""

    def __reduce__(self) -> Any:
        return os._exit, (42,)


def test_no_codec_unpickles() -> None:
    """zarr's codec "pickle" would; in this process, so that it would end the tests."""
    metadata = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C", "compressor": None,
                "fill_value": 0, "filters": [{"id": "pickle"}]}  # fmt: skip
    for changes in ({}, {"filters": None, "compressor": {"id": "pickle"}}):
        content = zipped({".zarray": json.dumps({**metadata, **changes}).encode(), "0": pickle.dumps(Evil())})
        with pytest.raises(InputFault, match="the codec 'pickle', which is not read"):
            list(read_here([io.BytesIO(content)], "ome_zarr", "a", None, 1000))
    nested = {"name": "sharding_indexed", "configuration": {"codecs": [{"name": "numcodecs.pickle"}]}}
    content = zipped({"zarr.json": json.dumps({"node_type": "array", "codecs": [nested]}).encode()})
    with pytest.raises(InputFault, match="the codec 'pickle', which is not read"):
        list(read_here([io.BytesIO(content)], "ome_zarr", "a", None, 1000))


def test_a_chunk_that_gives_more_or_fewer_bytes_is_refused() -> None:
    for data in (zlib.compress(bytes(159)), zlib.compress(bytes(161)), zlib.compress(bytes(1 << 24)), b"", b"\0" * 99):
        with pytest.raises(InputFault, match=r"\[wrong-format\] 'file': an unreadable file: "):
            read(zipped({**by_hand(LABELS), "0.0": data}))


@pytest.mark.parametrize("claimed", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFF])
def test_a_chunk_of_blosc_that_claims_gigabytes_is_a_fault_of_its_file(claimed: int, capsys) -> None:
    header = struct.pack("<4B3I", 2, 1, 0, 2, claimed, claimed, 48)
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 0, "blocksize": 0}
    files = by_hand(LABELS, chunk=SHAPE, compressor=compressor)
    Path("lie.zip").write_bytes(zipped(files | {"0.0": header + bytes(32)}))
    Path("both").mkdir()
    shutil.copy("lie.zip", "both/lie.zip")
    np.save("both/a.npy", LABELS)
    told = rejected(["convert", "lie.zip", "out.tif", "--to", "label_tiff"], capsys, 1)
    assert "lie.zip" in told and told.count("\n") < 5
    assert run(["compare", "both", "both"]) == 0  # the other image is compared
    assert "lie.zip" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["import", "pixels"])
def test_files_that_are_looked_at_share_a_budget_of_processor_time(kind: str, capsys, monkeypatch) -> None:
    """An image of real size that was decoded allows ten seconds more; small ones allow nothing here."""
    monkeypatch.setattr(guard, "LEAST_SECONDS", 1e-9)
    Path("side").mkdir()
    for size, code in ((20, 2), (1000, 0)):
        labels = np.zeros((size, size), np.uint16)
        labels[2:5, 2:9], labels[9:12, 2:9] = 1, 2
        for name in "ab":
            if kind == "import":
                Path(f"side/{name}.zarr.zip").write_bytes(zipped(by_hand(labels, chunk=(size, size))))
            else:
                tifffile.imwrite(f"side/{name}.tif", labels)
        told = rejected(["compare", "side", "side"], capsys, code)
        assert ("more than 1e-09 s of processor time together; expected files that decode faster" in told) == (
            code == 2
        )


def test_which_array_is_read_must_be_clear() -> None:
    two = {**by_hand(LABELS, "labels/a/0/"), **by_hand(LABELS * 2, "labels/b/0/")}
    two[".zgroup"] = b'{"zarr_format": 2}'
    with pytest.raises(InputFault, match=r"no-mask-variable.*'labels/a/0' and 'labels/b/0'; expected one array"):
        read(zipped(two))
    np.testing.assert_array_equal(read(zipped(two), "labels/b/0"), LABELS * 2)
    with pytest.raises(InputFault, match=r"no-mask-variable.*no array"):
        read(zipped({".zgroup": b"{}"}))
    for content in (b"[]", b"{", b"{" * 9, b" " * (2 << 20)):
        with pytest.raises(InputFault, match="wrong-format"):
            read(zipped({"zarr.json": content}))


def test_a_store_that_is_a_folder_is_converted() -> None:
    for format in (2, 3):
        ome_zarr(f"a{format}.zarr", LABELS, format=format)
        written = convert_file(Path(f"a{format}.zarr"), Path(f"out{format}"), "label_tiff").files
        np.testing.assert_array_equal(tifffile.imread(written[0]), LABELS)


def test_stores_are_compared_alone_in_folders_and_in_a_zip(capsys) -> None:
    few = np.where(LABELS < 100, LABELS, 0)
    for case in ("a", "b"):
        ome_zarr(f"ref/{case}.ome.zarr", LABELS)
        ome_zarr(f"pred/{case}.zarr", few, format=3)
    shutil.make_archive("pred", "zip", "pred")
    for left, right in (("ref", "pred"), ("ref", "pred.zip"), ("ref/a.ome.zarr", "pred/a.zarr")):
        assert run(["compare", left, right, "--output", "out"]) == 0
        metrics = json.loads(next(Path("out").rglob("metrics.json")).read_text())
        assert metrics["detection"]["recall"]["pooled"] == pytest.approx(99 / 142, abs=1e-6)
        assert "as label_image (from a Zarr store)" in capsys.readouterr().out
        shutil.rmtree("out")


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def hdf5(build: Any) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        build(file)
    return stream.getvalue()


def fill(**arrays: Any) -> bytes:
    def build(file: Any) -> None:
        for name, array in arrays.items():
            file[name.replace("__", "/")] = array

    return hdf5(build)


def test_the_dataset_that_is_named_or_the_only_one_or_that_with_a_usual_name_is_read() -> None:
    for dataset in ("/a/b/labels", "a/b/labels"):
        np.testing.assert_array_equal(read(fill(a__b__labels=LABELS, a__labels=LABELS * 2), dataset), LABELS)
    np.testing.assert_array_equal(read(fill(exported_data=LABELS[..., None], note="text", number=3)), LABELS)
    np.testing.assert_array_equal(read(fill(image=LABELS * 3, volumes__labels=LABELS)), LABELS)


def test_convert_takes_the_path_of_a_dataset() -> None:
    Path("a.h5").write_bytes(fill(a=LABELS * 0 + 7, b=LABELS))
    options = parse_options(["dataset=b"])
    written = convert_file(Path("a.h5"), Path("out"), "label_tiff", options=options).files
    np.testing.assert_array_equal(tifffile.imread(written[0]), LABELS)


@pytest.mark.parametrize("content, dataset, told", [
    (fill(a=LABELS, b__c=LABELS), None, r"\[no-mask-variable\] 'file': the datasets 'a' and 'b/c'; expected one"),
    (fill(a=LABELS), "/labels", r"\[no-mask-variable\] 'file': the datasets 'a'; expected the dataset '/labels'"),
    (fill(), None, r"\[no-mask-variable\] 'file': no dataset"),
    (fill(labels="text"), "labels", r"\[no-mask-variable\] 'file': the datasets 'labels'; expected the dataset"),
    (fill(a__labels=LABELS), "a", r"\[no-mask-variable\] 'file': the datasets 'a/labels'; expected the dataset 'a'"),
    (hdf5(lambda file: file.create_dataset("a", (2, 2), "i4", external=[("b", 0, 16)])), None, "data in another file"),
    (fill(a=LABELS)[:-9], None, r"unreadable-file|wrong-format"),
])  # fmt: skip
def test_what_cannot_be_a_dataset_of_labels_is_told(content: bytes, dataset: str | None, told: str) -> None:
    with pytest.raises(InputFault, match=told):
        read(content, dataset)


def test_links_to_other_files_are_not_followed() -> None:
    Path("secret.h5").write_bytes(fill(labels=LABELS))
    secret = str(Path("secret.h5").resolve())
    with pytest.raises(InputFault, match="no dataset"):
        read(hdf5(lambda file: file.__setitem__("labels", h5py.ExternalLink(secret, "labels"))), "labels")


def test_groups_in_groups_and_files_of_matlab_are_read() -> None:
    """A group that contains itself is gone through once; MATLAB writes axes in reverse order, and "#refs#" beside."""
    cyclic = hdf5(lambda file: (file.__setitem__("l", LABELS), file.__setitem__("a", file["/"])))
    np.testing.assert_array_equal(read(cyclic), LABELS)
    content = mat_7_3({"inst_map": LABELS}, lambda file: file.create_dataset("#refs#/a", data=LABELS), chunks=(8, 7))
    np.testing.assert_array_equal(read(content), LABELS)
    Path("ref.mat").write_bytes(content)
    Path("pred.mat").write_bytes(mat_file({"inst_map": LABELS}))
    assert run(["compare", "ref.mat", "pred.mat", "--output", "out"]) == 0
    metrics = json.loads(next(Path("out").rglob("metrics.json")).read_text())
    assert metrics["detection"]["f1"]["pooled"] == 1


# --- cellpose ---------------------------------------------------------------------------------------------------------


def saved(content: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(content, object), allow_pickle=True)
    return file.getvalue()


@settings(max_examples=30, deadline=None)
@given(hnp.arrays(st.sampled_from(["u1", ">u2", "<i4", "u8", "f4", "f8", "?"]), hnp.array_shapes(max_side=6)))
def test_any_array_of_numbers_is_what_numpy_unpickles(array: Any) -> None:
    for made in (array, np.asfortranarray(array)):
        content = saved({"masks": made, "flows": [array, None], "name": "é", "filename": Path("a.tif")})
        found = read_cellpose(io.BytesIO(content), Asked("'a'", "a", None, 1000))
        expected = np.load(io.BytesIO(content), allow_pickle=True).item()["masks"]
        assert found.dtype.newbyteorder("=") == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_what_a_pickle_calls_is_not_called() -> None:
    """In this process, so that a call would end the tests."""

    def here(content: Any) -> Any:
        return next(read_here([io.BytesIO(saved(content))], "cellpose", "a", None, 10_000))

    np.testing.assert_array_equal(here({"masks": LABELS, "filename": Evil()}), LABELS)
    complexes, texts, records = LABELS.astype(complex), LABELS.astype("U3"), np.zeros(2, "u1,u2")
    for masks in (Evil(), [1], None, np.array([[None]]), complexes, texts, records):
        with pytest.raises(InputFault, match=r"\[wrong-format\] 'a': an unreadable file: "):
            here({"masks": masks})
    for other in (Evil(), [1], {"inst_map": LABELS}, [LABELS, None]):
        with pytest.raises(InputFault) as fault:
            here(other)
        assert str(fault.value) == (
            "[pickle] 'a': pickled Python objects without 'masks', as cellpose's '_seg.npy' has them; expected an "
            "array of whole numbers. Save the label image alone, such as numpy.save('name.npy', labels)."
        )


def test_masks_of_another_size_than_they_say_and_files_that_are_cut_off_are_refused() -> None:
    content = saved({"masks": np.arange(35, dtype=np.uint16).reshape(5, 7)})
    assert content.count(b"K\x05K\x07\x86") == 1
    wrong = (b"K\x05K\x08\x86", b"K\x05J\xff\xff\xff\xff\x86")
    damaged = [content.replace(b"K\x05K\x07\x86", shape) for shape in wrong]
    for data in (*damaged, *(content[:size] for size in range(8, len(content) - 1))):
        with pytest.raises(InputFault):
            list(read_here([io.BytesIO(data)], "cellpose", "a", None, 10_000))


# --- ImageJ -----------------------------------------------------------------------------------------------------------


def header(kind: int, box: Any, count: int = 0, path: int = 0, options: int = 0, arc: int = 0) -> bytes:
    """The first 64 bytes, by the offsets of RoiDecoder.java; box is top, left, bottom, right."""
    data = bytearray(64)
    struct.pack_into(">4shBx4hH", data, 0, b"Iout", 228, kind, *box, count)
    struct.pack_into(">i", data, 36, path)
    struct.pack_into(">h", data, 50, options)
    struct.pack_into(">h", data, 54, arc)
    return bytes(data)


def whole(ring: Any, kind: int = 0) -> bytes:
    xy = np.array(ring)
    left, top = xy.min(axis=0)
    right, bottom = xy.max(axis=0)
    return header(kind, (top, left, bottom, right), len(xy)) + (xy - (left, top)).astype(">i2").T.tobytes()


def path(*numbers: float) -> bytes:
    return header(1, (0, 0, 40, 60), path=len(numbers)) + np.array(numbers, ">f4").tobytes()


def square(x: float, y: float, side: float, *, back: bool = False) -> list[float]:
    corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
    first, *others = reversed(corners) if back else corners
    return [0, *first, *(value for corner in others for value in (1, *corner)), 4]


def rois(*content: bytes) -> bytes:
    return zipped({f"{number:04d}-0001.roi": roi for number, roi in enumerate(content)})


def pixels(*content: bytes) -> np.ndarray:
    Path("a.zip").write_bytes(rois(*content))
    return tifffile.imread(convert_file(Path("a.zip"), Path("a"), "label_tiff", size_yx=(40, 60)).files[0])


def test_polygons_count_from_their_box() -> None:
    for number, feature in enumerate(read(rois(*(whole(RING, kind) for kind in (0, 7, 8))))):
        assert feature["geometry"] == {"type": "Polygon", "coordinates": [RING]}
        assert (feature["id"], feature["properties"]) == (f"000{number}-0001", {})


def test_names_groups_fractions_and_points_of_roifile_are_kept() -> None:
    ring = np.array([[5.5, 4.25], [15, 4], [7, 9.75]], np.float32)
    first = roifile.ImagejRoi.frompoints(ring, name="nucleus é")
    first.group = 4
    points = roifile.ImagejRoi.frompoints(ring)
    points.roitype = roifile.ROI_TYPE.POINT
    outline, several = read(rois(first.tobytes(), points.tobytes()))
    assert outline["geometry"]["coordinates"] == [ring.tolist()]
    assert (outline["id"], outline["properties"]) == ("nucleus é", {"classification": {"name": "4"}})
    assert several["geometry"] == {"type": "MultiPoint", "coordinates": ring.tolist()}


def test_rectangles_and_ovals_fill_their_box() -> None:
    labels = pixels(header(1, (4, 5, 9, 15)), header(2, (10, 20, 30, 50)))
    assert (labels[4:9, 5:15] == 1).all()
    assert (labels == 1).sum() == 50
    y, x = np.mgrid[:40, :60] + 0.5
    inside = ((x - 35) / 15) ** 2 + ((y - 20) / 10) ** 2
    assert (labels[inside < 0.998] == 2).all()
    assert (labels[inside > 1] != 2).all()


def test_boxes_of_fractions() -> None:
    data = bytearray(header(1, (0, 0, 1, 1), options=128))
    struct.pack_into(">4f", data, 18, 2.5, 3.25, 4, 2)
    (feature,) = read(rois(bytes(data)))
    assert feature["geometry"]["coordinates"] == [[[2.5, 3.25], [6.5, 3.25], [6.5, 5.25], [2.5, 5.25]]]


def test_a_composite_roi_is_one_nucleus_with_holes_and_parts() -> None:
    labels = pixels(path(*square(2, 2, 20), *square(5, 5, 6, back=True), *square(30, 3, 4)))
    expected = np.zeros((40, 60), int)
    expected[2:22, 2:22] = 1
    expected[5:11, 5:11] = 0
    expected[3:7, 30:34] = 1
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("roi, type", [
    (header(3, (0, 0, 5, 5)), "LINE"),
    (whole(RING, 5), "POLYLINE"),
    (whole(RING, 9), "ANGLE"),
    (header(1, (0, 0, 5, 5), arc=4), "ROUNDED_RECT"),
])  # fmt: skip
def test_what_cannot_be_a_nucleus_is_refused_or_left_out(roi: bytes, type: str, capsys) -> None:
    assert read(rois(roi))[0]["geometry"] == {"type": type}
    Path("a.zip").write_bytes(rois(whole(RING), roi))
    convert = ["convert", "a.zip", "out", "--to", "geojson"]
    assert f"'{type}'" in rejected(convert, capsys, 1)
    assert run([*convert, "--set", "other_shapes=skip"]) == 0
    assert len(json.loads(Path("out.geojson").read_text())["features"]) == 1


@pytest.mark.parametrize("roi", [
    *(b"", b"Iout", whole(RING)[:-1], b"Jout" + whole(RING)[4:]),
    *(path(7), path(1, 2, 3), path(0, 1), path(1e30), path(float("nan")), path(0, 1, 1, 2.5, 1, 1)),
    *(header(1, (0, 0, 1, 1), path=2**31 - 1), header(0, (0, 0, 1, 1))[:18] + b"\xff" * 46),
    path(0, 0, 0, 1, 8, 0, 2, 8, 8, 0, 8, 4),  # a curve, which roifile does not follow
])  # fmt: skip
def test_damaged_rois_are_told_by_their_names(roi: bytes) -> None:
    with pytest.raises(InputFault, match=r"\[wrong-format\] 'file': an unreadable file: '0001-0001.roi', "):
        read(rois(whole(RING), roi))


def test_a_roi_that_is_cut_off_anywhere_is_refused() -> None:
    ring = np.array([[5.5, 4.25], [15, 4], [7, 9.75]], np.float32)
    data = roifile.ImagejRoi.frompoints(ring, name="nucleus 1").tobytes()
    for size in range(len(data)):
        with pytest.raises(InputFault):
            list(read_here([io.BytesIO(rois(data[:size]))], "imagej_roi", "a", None, 10_000))


def test_litter_does_not_count_and_a_roi_file_alone_is_read() -> None:
    files = {"__MACOSX/._a.roi": b"x", "a/": b"", ".DS_Store": b"x", "a.roi": whole(RING)}
    assert len(read(zipped(files))) == len(read(whole(RING))) == 1
    Path("other.zip").write_bytes(zipped({"a.roi": whole(RING), "labels.npy": b""}))
    assert kind_of(Path("other.zip")) is None


# --- GeoParquet -------------------------------------------------------------------------------------------------------

SQUARE, HOLED = shapely.box(1, 2, 9, 8), shapely.box(20, 20, 40, 36) - shapely.box(24, 24, 30, 30)
TWO_PARTS = shapely.MultiPolygon([shapely.box(0, 0, 3, 3), shapely.box(5, 0, 8, 3)])


def geoparquet(shapes: Any, encoding: str = "WKB", **columns: Any) -> bytes:
    """GeoParquet 1.0 by its specification."""
    geo = {"version": "1.0.0", "primary_column": "shape", "columns": {"shape": {"encoding": encoding}}}
    wkb = [None if shape is None else shape.wkb for shape in shapes]
    table = pyarrow.table({**columns, "shape": pyarrow.array(wkb, pyarrow.binary())})
    file = io.BytesIO()
    table = table.replace_schema_metadata({"geo": json.dumps(geo)})
    parquet.write_table(table, file, compression="none", write_page_checksum=True, write_statistics=False)
    return file.getvalue()


def test_geoparquet_keeps_outlines_classes_and_probabilities() -> None:
    shapes = [SQUARE, HOLED, TWO_PARTS]
    columns = {"id": ["x", "y", "z"], "cell_type": ["tumour", "7", "tumour"], "score": [0.5, 1.0, 0.25]}
    features = read(geoparquet(shapes, **columns))
    assert all(shapely.geometry.shape(f["geometry"]).equals(s) for f, s in zip(features, shapes, strict=True))
    assert [feature["id"] for feature in features] == ["x", "y", "z"]
    assert [f["properties"]["type"] for f in features] == ["tumour", "7", "tumour"]
    assert [f["properties"]["score"] for f in features] == [0.5, 1.0, 0.25]


def test_qupath_through_geopandas_keeps_its_classes() -> None:
    said = {"name": "stroma", "color": [1, 2, 3]}
    for column in ([json.dumps(said)], pyarrow.array([said])):
        (feature,) = read(geoparquet([SQUARE], classification=column))
        assert feature["properties"]["classification"]["name"] == "stroma"


def test_geoparquet_is_converted_and_compared(capsys) -> None:
    Path("a.parquet").write_bytes(geoparquet([SQUARE, HOLED], type=["tumour", "stroma"]))
    convert_file(Path("a.parquet"), Path("a"), "geojson")
    assert run(["compare", "a.geojson", "a.parquet", "--output", "out"]) == 0
    assert "1 image as geojson (from GeoParquet), classes 'tumour' and 'stroma'" in capsys.readouterr().out
    metrics = json.loads(next(Path("out").rglob("metrics.json")).read_text())
    assert metrics["segmentation"]["iou"]["pooled"] == 1.0


def test_parquet_without_geometries_or_damaged_is_refused() -> None:
    good = geoparquet([SQUARE] * 99)
    page = bytearray(good)
    page[good.index(SQUARE.wkb[:20]) + 9] ^= 1  # is noticed by the check sum of its page alone
    plain = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": [1]}), plain)
    bad_wkb, stream = pyarrow.table({"geometry": [b"\1\3\0\0\0\xff\xff\xff\xff"]}), io.BytesIO()
    parquet.write_table(bad_wkb, stream)
    other = geoparquet([SQUARE], "point")
    for content in (bytes(page), plain.getvalue(), stream.getvalue(), other, good[:-9], b"PAR1"):
        with pytest.raises(InputFault, match=r"\[wrong-format\] 'file': an unreadable file: "):
            read(content)


@pytest.mark.parametrize("kind", READERS)
def test_who_has_outlines_is_not_told_to_write_smaller_integers(kind: str, monkeypatch) -> None:
    def fills_memory(stream: Any, asked: Asked) -> Any:
        raise MemoryError

    monkeypatch.setitem(READERS, kind, (READERS[kind][0], fills_memory))
    with pytest.raises(InputFault) as told:
        next(read_here([io.BytesIO()], kind, "a", None, 1000))
    has_outlines = kind in ("imagej_roi", "geoparquet")
    assert ("Split the file." in str(told.value), "integers" in str(told.value)) == (has_outlines, not has_outlines)


def test_nested_wkb_ends_nothing_but_its_file() -> None:
    """GEOS calls itself for a collection in a collection, until the stack is full."""
    nested = b"\1\7\0\0\0\1\0\0\0" * 1_000_000
    stream = io.BytesIO()
    parquet.write_table(pyarrow.table({"geometry": [nested]}), stream)
    with pytest.raises(InputFault, match=r"unreadable-file|wrong-format"):
        read(stream.getvalue())


# --- where they are read, and where not -------------------------------------------------------------------------------


def all_imports() -> dict[str, bytes]:
    return {
        "a.zarr.zip": zipped(by_hand(LABELS)),
        "a.h5": fill(labels=LABELS),
        "a_seg.npy": saved({"masks": LABELS}),
        "a.roi": whole(RING),
        "a.parquet": geoparquet([SQUARE]),
    }


def test_an_import_is_no_submission(capsys) -> None:
    """Nor a reference: neither ``score`` nor ``init`` reads one, and each says what to do."""
    write_files(Path(), {"mine/reference/a.tif": LABELS})
    assert run(["init", "mine"]) == 0
    for name, content in all_imports().items():
        write_files(Path(name[2:]), {f"sent/{name}": content, f"only/reference/{name}": content})
        submission = ["--submission", f"{name[2:]}/sent", "--output", "out"]
        assert "[no-case-found]" in rejected(["score", "--challenge", "mine", *submission], capsys, 1)
        told = rejected(["init", f"{name[2:]}/only"], capsys, 2)
        assert "which only 'compare' and 'convert' read: evaluation convert FILE OUTPUT --to" in told


OF_IMPORTS = [
    *((side, "files", pattern, f'format = "label_image"\nfiles = "{pattern}"')
      for pattern in ("{case}.h5", "{case}.zarr", "{case}.zarr.zip", "{case}_seg.npy", "{case}.roi")
      for side in ("reference", "submission")),
    *(("submission", "format", name, f'format = "{name}"\nfiles = "{{case}}"')
      for name in ("imagej_roi", "hdf5", "zarr", "ome_zarr", "cellpose", "geoparquet")),
]  # fmt: skip


def test_a_challenge_that_names_files_or_the_format_of_an_import_is_refused() -> None:
    for side, key, value, rules in OF_IMPORTS:
        with pytest.raises(ChallengeBroken) as broken:
            load({side: rules})
        (finding,) = broken.value.findings
        assert finding.where == f"challenge.toml: {side}.{key}"
        assert finding.got == f"'{value}', which only 'compare' and 'convert' read"
        assert finding.fix.startswith("Convert such files first: evaluation convert FILE OUTPUT --to label_tiff")


def load(tables: dict[str, str]) -> Any:
    sides = {"reference": 'format = "label_image"\nfiles = "reference/{case}.tif"', "submission": "", **tables}
    text = "".join(f"[{name}]\n{rules}\n" for name, rules in sides.items())
    head = 'format_version = 1\npreset = "recommended"\nname = "mine"\nclasses = [{name = "a"}]'
    Path("challenge.toml").write_text(f"{head}\n{text}")
    Path("cases.csv").write_text("case,group,height,width\na,a,21,34\n")
    return Challenge.load(Path.cwd())


def test_a_library_that_is_not_there_is_told_with_the_command_that_brings_it(monkeypatch) -> None:
    for module, name in (("roifile", "a.roi"), ("zarr", "a.zarr.zip"), ("pyarrow", "a.parquet")):
        Path(name).write_bytes(all_imports()[name])
        kind = kind_of(Path(name))
        assert kind is not None
        with monkeypatch.context() as without:
            without.setitem(sys.modules, module, None)
            with pytest.raises(InputFault) as fault:
                list(read_here([io.BytesIO(all_imports()[name])], kind, name, None, 10_000))
        (finding,) = fault.value.findings
        assert (finding.code, finding.where) == ("missing-extra", f"'{name}'")
        assert finding.got == f"'{module}' is not installed"
        assert finding.fix.startswith("Run 'setup/imports.sh' in the folder of this program")
