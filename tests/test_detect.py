"""Formats found by content, also of files as tools write them."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import tifffile
from every_format import CASES, SIDES, challenge_document
from formats.contours_json import cells, labelme, shape
from formats.contours_json import hovernet as hovernet_json
from formats.json_outlines import cellvit
from PIL import Image
from scipy.io import savemat

from evaluation import compare
from evaluation.challenge import Challenge
from evaluation.commands.main import run
from evaluation.files.formats.detect import Detected, detect_format
from evaluation.files.formats.headers import foreign_table
from evaluation.findings.errors import ConversionRefused, InputFault, WrongUsage
from evaluation.folders.convert import convert_file
from evaluation.platform.kit import example_files

LOOK_LIKE_LABELS = ("colour_map",)


def first_example(kind: str) -> bytes:
    challenge = Challenge.build(challenge_document(kind))
    cases = [replace(case, offset_xy=(0.0, 0.0)) for case in CASES]
    return next(iter(example_files(challenge, challenge.submission, cases).values()))


def detected(tmp_path, content: bytes) -> Detected | None:
    path = tmp_path / "file"
    path.write_bytes(content)
    return detect_format(path)


@pytest.mark.parametrize("kind", [kind for kind in SIDES if kind != "points_csv without header"])
def test_the_example_of_every_format_is_found_by_its_content(kind, tmp_path):
    found = detected(tmp_path, first_example(kind))
    format = kind.split()[0]
    assert found is not None
    assert found.format == ("label_image" if format in LOOK_LIKE_LABELS else format)
    assert {"tool", "shape"} & SIDES[kind].keys() <= found.keys.keys()
    assert found.keys.items() <= SIDES[kind].items()


def test_compressed_text_is_found_too(tmp_path):
    for kind in ("geojson points", "aperio_xml", "coco_json", "points_csv"):
        assert detected(tmp_path, gzip.compress(first_example(kind))) == detected(tmp_path, first_example(kind)), kind


@pytest.mark.parametrize("text, found", [
    ("image,tumour,stroma\na,3,4\n", "counts_csv"),
    ("stroma;Image_ID\n 3;a\n4.0;b\n", "counts_csv"),
    ('image_id,polygon\na,"[[1, 2], [3, 4], [5, 6]]"\nb,"[[1, 2], [3, 4], [5, 6]]"\n', None),
    ("image,class,wkt\na,1,POLYGON ((1 2))\n", None),
    ("case,nucleus,area\na,1,20\na,2,30\n", None),
    ("image,confidence\na,0.5\n", None),
    ("image,tumour\na,-3\n", None),
    ("image,tumour\n", None),
    ('{"type": "FeatureCollection", "features": []}', "geojson"),  # of no shape
    *((text, None) for text in ("", "[1, 2]", "<html></html>", "hello", "name\na\n", "\x00\x01\x02")),
])  # fmt: skip
def test_tables_of_counts_and_what_is_of_no_format(text, found, tmp_path):
    assert detected(tmp_path, text.encode()) == (None if found is None else Detected(found))


def test_outlines_as_texts_in_a_table_are_named(tmp_path):
    (tmp_path / "a.csv").write_text('image_id,polygon\na,"[[1, 2], [3, 4], [5, 6]]"\n')
    assert foreign_table(tmp_path / "a.csv") == "a table of outlines as texts, not read; write GeoJSON"


def test_a_mat_file_that_is_not_read_is_named(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"n_ary_mask": np.eye(3)}, format="4")
    with pytest.raises(InputFault, match=r"a MATLAB file of version 4; .* Save it with save\(…, '-v7'\)"):
        detect_format(tmp_path / "a.mat")


@pytest.mark.parametrize("document, format, keys", [
    (hovernet_json(5), "contours_json", {"tool": "hovernet", "shape": "outline"}),
    (cells(5), "contours_json", {"tool": "cellvit", "shape": "outline"}),
    ({"cells": [{"bbox": [[1, 2]], "centroid": [1, 2], "type": 1}]}, "contours_json",
     {"tool": "cellvit", "shape": "point"}),
    (labelme(shape([[1, 2]], "Polygon")), "contours_json", {"tool": "labelme", "shape": "outline"}),
    ({"categories": [{"id": 1, "name": "cells"}], "annotations": [{"bbox": [1, 2, 3, 4]}]}, "midog_json", {}),
])  # fmt: skip
def test_tools_are_found_by_content(document, format, keys, tmp_path):
    found = detected(tmp_path, json.dumps(document).encode())
    assert found is not None
    assert (found.format, found.keys) == (format, keys)


def test_a_word_behind_the_first_piece_decides(tmp_path):
    images = [{"id": number, "file_name": f"{number:0100}.png"} for number in range(5000)]
    document = {"images": images, "annotations": [{"bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 0, 1, 1]]}]}
    assert detected(tmp_path, json.dumps(document).encode()) == Detected("coco_json")
    del document["annotations"][0]["segmentation"]
    assert detected(tmp_path, json.dumps(document).encode()) == Detected("midog_json")


def test_a_damaged_array_is_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    with pytest.raises(InputFault):
        detect_format(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros((4, 5), np.int32))
    assert detect_format(tmp_path / "a.npy") == Detected("label_image")


# --- files as tools write them, through ``convert``, ``compare`` and challenges: no pixel and no class is lost --------


SHAPE = (20, 31)
LABELS = np.zeros(SHAPE, np.uint16)
LABELS[2:9, 5:20] = 7
LABELS[12:19, 3:6] = 300
LABELS[0:2, 28:31] = 2
NUMBERS = {2: 1, 7: 2, 300: 1}
FEW = np.select([LABELS == 300, LABELS == 7, LABELS == 2], [3, 1, 2]).astype(np.uint8)


def lizard(path: Path) -> None:
    content = {"inst_map": LABELS, "id": np.array([[7], [2], [300]]), "class": np.array([[2], [1], [1]])}
    savemat(path, {**content, "bbox": np.zeros((3, 4)), "centroid": np.zeros((3, 2))})


def palette(path: Path) -> None:
    image = Image.fromarray(FEW, "P")
    image.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    image.save(path, "PNG")


def cellpose(path: Path) -> None:
    """As cellpose.io.masks_flows_to_seg does it."""
    flows = [np.zeros((*SHAPE, 3), np.uint8), np.zeros(SHAPE, np.uint8), np.zeros((2, *SHAPE), np.float32)]
    content = {"outlines": LABELS * 0, "masks": LABELS, "chan_choose": [0, 0], "ismanual": np.zeros(3, bool)}
    np.save(path, {**content, "filename": Path("a.tif"), "flows": flows, "diameter": np.float64(15.0)})


def ilastik(path: Path) -> None:
    """As ilastik exports an object identity image: (H, W, 1) in exported_data."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("exported_data", data=LABELS[..., None], chunks=(8, 8, 1), compression="gzip")
        data.attrs["axistags"] = "{}"


def ome_zarr(path: Path) -> None:
    """As ome-zarr-py lays a label out: axes t, c, z of length 1, and smaller scales."""
    with zipfile.ZipFile(path, "w") as archive:
        for scale in (0, 1):
            array = LABELS[:: scale + 1, :: scale + 1][None, None, None]
            metadata = {"zarr_format": 2, "shape": array.shape, "chunks": array.shape, "dtype": "<u2", "order": "C"}
            metadata |= {"compressor": None, "fill_value": 0, "filters": None, "dimension_separator": "/"}
            archive.writestr(f"a.zarr/labels/cells/{scale}/.zarray", json.dumps(metadata))
            archive.writestr(f"a.zarr/labels/cells/{scale}/0/0/0/0/0", array.tobytes())


BOXES = {7: (5, 2, 20, 9), 300: (3, 12, 6, 19), 2: (28, 0, 31, 2)}  # left, top, right and bottom of LABELS


def hovernet(path: Path) -> None:
    """Contours as OpenCV's CHAIN_APPROX_SIMPLE gives them: the middles of the pixels at the corners."""
    corners = [[[x, y], [x, d - 1], [r - 1, d - 1], [r - 1, y]] for x, y, r, d in BOXES.values()]
    nuclei = {str(number): {"contour": ring, "type": 1} for number, ring in zip(BOXES, corners, strict=True)}
    path.write_text(json.dumps({"mag": 40, "nuc": nuclei}))


def yolo(path: Path) -> None:
    """``%g`` of the class and the shares, as ``Results.save_txt`` of Ultralytics writes them."""
    rings = [(x / 31, y / 20, r / 31, y / 20, r / 31, d / 20, x / 31, d / 20) for x, y, r, d in BOXES.values()]
    path.write_text("".join(f"0 {' '.join(f'{share:g}' for share in ring)}\n" for ring in rings))


FILES: dict[str, Any] = {
    "a.json": hovernet,
    "a.txt": yolo,
    "a.mat": lizard,
    "a.png": palette,
    "a_seg.npy": cellpose,
    "a.h5": ilastik,
    "a.zarr.zip": ome_zarr,
}


def ids(labels: np.ndarray) -> Any:
    """The labels as 1, 2, … in the order of their first pixels."""
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    assert found[0] == 0
    order = np.empty(len(found), int)
    order[1 + np.argsort(first[1:])] = np.arange(1, len(found))
    order[0] = 0
    return order[inverse].reshape(labels.shape)


@pytest.mark.parametrize("name", FILES)
def test_pixels_come_back_as_they_were_and_compare_finds_the_same_nuclei(name, tmp_path):
    FILES[name](tmp_path / name)
    tifffile.imwrite(tmp_path / "reference.tif", LABELS)
    found = compare(tmp_path / "reference.tif", tmp_path / name)
    assert (found.value("detection.f1.pooled"), found.value("segmentation.iou.pooled")) == (1, 1)
    options: dict[str, Any] = {"size_yx": SHAPE} if name in ("a.json", "a.txt") else {}
    written = convert_file(tmp_path / name, tmp_path / "out", "label_tiff", **options).files
    np.testing.assert_array_equal(ids(tifffile.imread(written[0])), ids(LABELS))
    if name.endswith(".mat"):
        expected = np.vectorize(lambda label: NUMBERS.get(label, 0))(LABELS)
        np.testing.assert_array_equal(tifffile.imread(written[1]), expected)


def test_compare_takes_the_parts_of_cellvit_for_nuclei(tmp_path):
    for side in ("reference", "cells"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "slide.geojson").write_text(json.dumps(cellvit(40)))
    found = compare(tmp_path / "reference", tmp_path / "cells")
    assert sum(case.counts["iou_above"].true_positives for case in found.result_of().cases) == 80
    assert found.value("classification.accuracy.pooled") == 1


def test_files_in_shares_of_an_image_need_its_size(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for case in ("a", "b"):
        yolo(tmp_path / "in" / f"{case}.txt")
    with pytest.raises(WrongUsage, match="--size"):
        convert_file(tmp_path / "in" / "a.txt", tmp_path / "out", "geojson")
    with pytest.raises(ConversionRefused, match="unknown-class"):
        source = tmp_path / "in" / "a.txt"
        source.write_text(source.read_text().replace("0 ", "1 ", 1))
        convert_file(source, tmp_path / "out", "label_tiff", size_yx=SHAPE, class_names=["tumour"])
    assert run(["compare", str(tmp_path / "in"), str(tmp_path / "in")]) == 2
    assert "Put the images next to the files" in capsys.readouterr().err
