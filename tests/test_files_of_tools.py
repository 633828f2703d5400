"""Files as tools write them, through ``convert``, ``compare`` and challenges: no pixel and no class is lost."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile
from PIL import Image
from scipy.io import savemat

from evaluation.authoring.convert import convert_file
from evaluation.commands.main import run

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


FILES: dict[str, Any] = {
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
def test_pixels_come_back_as_they_were(name, tmp_path):
    FILES[name](tmp_path / name)
    written = convert_file(tmp_path / name, tmp_path / "out", "label_tiff").files
    np.testing.assert_array_equal(ids(tifffile.imread(written[0])), ids(LABELS))
    if name.endswith(".mat"):
        expected = np.vectorize(lambda label: NUMBERS.get(label, 0))(LABELS)
        np.testing.assert_array_equal(tifffile.imread(written[1]), expected)


@pytest.mark.parametrize("name", FILES)
def test_compare_finds_out_what_they_are(name, tmp_path):
    for case in ("a", "b"):
        (tmp_path / "ref").mkdir(exist_ok=True)
        (tmp_path / "pred").mkdir(exist_ok=True)
        tifffile.imwrite(tmp_path / "ref" / f"{case}.tif", LABELS)
        FILES[name](tmp_path / "pred" / name.replace("a", case, 1))
    arguments = ["compare", str(tmp_path / "ref"), str(tmp_path / "pred"), "--output", str(tmp_path / "out")]
    assert run(arguments) == 0
    metrics = json.loads(next((tmp_path / "out").rglob("metrics.json")).read_text())
    assert metrics["detection"]["f1"]["pooled"] == 1.0
    assert metrics["segmentation"]["iou"]["pooled"] == 1.0
