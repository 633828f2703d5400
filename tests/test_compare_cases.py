"""What people really have in their folders: layouts of public threads, none of which may get a wrong score.

The scene is always the same: an image of 40 x 60 px with three nuclei, of which two are predicted exactly: F1 is 0.8.
``../shared/data/compare_cases`` holds the inputs of the threads; ``LAYOUTS`` has other members of each kind.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roifile
import scipy.ndimage
import SimpleITK
import tifffile
from every_format import write_files
from PIL import Image
from scipy.ndimage import gaussian_filter, grey_dilation
from scipy.ndimage import grey_erosion as erosion

import evaluation
from evaluation.commands.main import run
from evaluation.files.formats.format import image_bytes

pytestmark = pytest.mark.usefixtures("in_folder")

H, W = 40, 60
R = np.zeros((H, W), np.uint16)
R[5:15, 5:15], R[5:15, 30:42], R[25:33, 10:18] = 1, 2, 3
P = np.where(R == 3, 0, R).astype(np.uint16)
GREY = np.clip(30 + 150 * (R > 0) + np.random.default_rng(0).normal(0, 5, R.shape), 0, 255).astype(np.uint8)
PICTURE = np.dstack([GREY, GREY[::-1], GREY])
SMOOTH = gaussian_filter(180.0 * (R > 0) + 20, 2).astype(np.uint8)
Files = dict[str, Any]
OfSide = dict[str, Files]


# --- files, made of the labels of a side ------------------------------------------------------------------------------


def put(path: str, array: np.ndarray) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith((".tif", ".TIF", ".tiff")):
        is_rgb = array.ndim == 3 and array.shape[2] in (3, 4)
        tifffile.imwrite(path, array, photometric="rgb" if is_rgb else "minisblack")
    elif path.endswith(".npy"):
        np.save(path, array)
    elif path.endswith(".npz"):
        np.savez_compressed(path, labels=array)
    else:
        Image.fromarray(array).save(path)


def lay_out(sides: OfSide) -> None:
    """Files of each side: arrays, or what ``write_files`` writes, or what makes one of these from the labels."""
    for side, files in sides.items():
        labels = R if side == "ref" else P
        for name, content in files.items():
            made = content(labels) if callable(content) else content
            if isinstance(made, np.ndarray):
                put(f"{side}/{name}", made)
            else:
                write_files(Path(side), {name: made})


def both(files: Files) -> OfSide:
    return {"ref": files, "pred": files}


def pred(files: Files, *names: str) -> OfSide:
    """Beside a reference of label images."""
    return {"ref": {f"{name}.tif": as_is for name in names or "a"}, "pred": files}


def ref(files: Files, *names: str) -> OfSide:
    return {"ref": files, "pred": {f"{name}.tif": as_is for name in names or "a"}}


def as_is(labels: np.ndarray) -> np.ndarray:
    return labels


def byte(labels: np.ndarray) -> np.ndarray:
    return labels.astype(np.uint8)


def mask(labels: np.ndarray) -> np.ndarray:
    return (255 * (labels > 0)).astype(np.uint8)


def ones(labels: np.ndarray) -> np.ndarray:
    return (labels > 0).astype(np.uint8)


def nothing(labels: np.ndarray) -> np.ndarray:
    return 0 * labels


def planes(labels: np.ndarray) -> np.ndarray:
    """A mask of each nucleus, (N, H, W)."""
    return np.stack([labels == own for own in np.unique(labels)[1:]])


def last(stack: np.ndarray) -> np.ndarray:
    return np.moveaxis(stack, 0, 2)


def moved(labels: np.ndarray) -> np.ndarray:
    return np.roll(np.where(labels, labels % 3 + 1, 0), (6, 14), (0, 1)).astype(labels.dtype)


def three_images(labels: np.ndarray) -> np.ndarray:
    return np.stack([labels, moved(labels), labels[::-1, ::-1]])


def volume(labels: np.ndarray) -> np.ndarray:
    return np.stack([labels, np.roll(labels, 1, 0), np.roll(labels, 1, 1)])


def paged_tiff(labels: np.ndarray) -> bytes:
    """A volume whose planes are pages."""
    file = BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for plane in (*volume(labels), labels, labels):
            writer.write(plane, contiguous=False)
    return file.getvalue()


def of_itk(suffix: str) -> Callable[[np.ndarray], bytes]:
    def write(labels: np.ndarray) -> bytes:
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.stack([labels] * 4)), f"made{suffix}")
        return Path(f"made{suffix}").read_bytes()

    return write


def rgb(labels: np.ndarray, channels: int = 3) -> np.ndarray:
    """Labels in equal channels; the last one of two or four is opacity."""
    grey, opaque = labels.astype(np.uint8), np.full((H, W), 255, np.uint8)
    return np.dstack([grey] * 3 if channels == 3 else [*[grey] * (channels - 1), opaque])


def coloured(labels: np.ndarray) -> np.ndarray:
    return np.array([[0, 0, 0], [200, 40, 40], [40, 90, 220]], np.uint8)[np.minimum(labels, 2)]


def cells_of(labels: np.ndarray) -> np.ndarray:
    return np.where(cells := grey_dilation(labels, size=(5, 5)), 7 - cells, 0).astype(labels.dtype)


def class_of(labels: np.ndarray) -> np.ndarray:
    return np.where(labels == 0, 0, np.where(labels == 2, 5, 4)).astype(np.uint16)


def pannuke(labels: np.ndarray) -> np.ndarray:
    channels = [np.where(labels == own, own, 0) for own in (1, 2, 3, 4, 5)]
    return np.stack([np.dstack([*channels, labels == 0])] * 2).astype(np.float64)


def counts(flat: np.ndarray) -> list[int]:
    """Lengths of the runs, that of background first."""
    edges = np.flatnonzero(np.diff(flat.astype(int), prepend=0, append=1 - int(flat[-1])))
    return np.diff(edges, prepend=0).tolist()


def pairs(of_nucleus: np.ndarray) -> str:
    lengths = counts(of_nucleus.ravel(order="F"))
    starts = np.cumsum([1, *lengths])
    return " ".join(f"{starts[index]} {lengths[index]}" for index in range(1, len(lengths), 2))


def codes(*names: str) -> Callable[[np.ndarray], str]:
    def write(labels: np.ndarray) -> str:
        rows = [f"{n},{pairs(labels == own)},{H},{W}\n" for n in names for own in np.unique(labels)[1:]]
        return "ImageId,EncodedPixels,Height,Width\n" + "".join(rows)

    return write


def points(*names: str) -> Callable[[np.ndarray], str]:
    def write(labels: np.ndarray) -> str:
        middle = [(n, *np.argwhere(labels == own).mean(axis=0)) for n in names for own in np.unique(labels)[1:]]
        return "image,x,y\n" + "".join(f"{name},{x},{y}\n" for name, y, x in middle)

    return write


def coco_of(labels: np.ndarray, names: tuple[str, ...], first: int = 7, **more: object) -> dict[str, list]:
    images = [{"id": first + n, "file_name": name, "height": H, "width": W} for n, name in enumerate(names)]
    annotations = [
        {
            "id": 100 * image["id"] + int(value),
            "image_id": image["id"],
            "category_id": 1,
            "segmentation": {"size": [H, W], "counts": counts((labels == value).ravel(order="F"))},
            **more,
        }
        for image in images
        for value in np.unique(labels)[1:]
    ]
    return {"images": images, "categories": [{"id": 1, "name": "nucleus"}], "annotations": annotations}


def coco(*names: str, first: int = 7) -> Callable[[np.ndarray], dict]:
    return lambda labels: coco_of(labels, names, first)


def results(*names: str, first: int = 7) -> Callable[[np.ndarray], list]:
    keys = ("image_id", "category_id", "segmentation", "score")
    return lambda labels: [{k: a[k] for k in keys} for a in coco_of(labels, names, first, score=0.5)["annotations"]]


def with_two_categories(labels: np.ndarray) -> dict[str, list]:
    """By their place, the upper nuclei are of one class."""
    made = coco_of(labels, ("a.tif", "b.tif"), score=0.5)
    for one in made["annotations"]:
        one["category_id"] = 9 if one["segmentation"]["counts"][0] > 1000 else 4
    return {**made, "categories": [{"id": 4, "name": "tumour"}, {"id": 9, "name": "stroma"}]}


def segmentations(labels: np.ndarray) -> list[dict]:
    return [{"segmentation": a["segmentation"], "bbox": [0, 0, 9, 9]} for a in coco_of(labels, ("a",))["annotations"]]


def box(labels: np.ndarray, value: int) -> list[list[int]]:
    (y0, x0), (y1, x1) = (extreme(np.argwhere(labels == value), axis=0).tolist() for extreme in (np.min, np.max))
    return [[x0, y0], [x1 + 1, y0], [x1 + 1, y1 + 1], [x0, y1 + 1]]


def yolo(labels: np.ndarray) -> str:
    shares = ([c / side for x, y in box(labels, v) for c, side in ((x, W), (y, H))] for v in np.unique(labels)[1:])
    return "".join(f"0 {' '.join(f'{share:.6f}' for share in outline)}\n" for outline in shares)


def roi_of(value: int) -> Callable[[np.ndarray], bytes]:
    return lambda labels: roifile.ImagejRoi.frompoints(np.array(box(labels, value))).tobytes()


def of_qupath(kind: str, geometry: dict, old: bool = False, **properties: object) -> dict:
    """An object as QuPath writes it, or as QuPath 0.2 did, whose ids are types."""
    written = {"type": "Feature", "geometry": geometry, "properties": properties}
    if old:
        return {**written, "id": f"Path{kind.capitalize()}Object"}
    return {**written, "properties": {"objectType": kind, **properties}}


def collection(*features: dict) -> dict:
    return {"type": "FeatureCollection", "features": features}


def polygon(ring: list[list[float]]) -> dict:
    return {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}


def square(x0: int, y0: int, x1: int, y1: int) -> dict:
    return polygon([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])


def nuclei_of(labels: np.ndarray) -> list[dict]:
    return [polygon(box(labels, value)) for value in np.unique(labels)[1:]]


def outlines(labels: np.ndarray) -> dict:
    return collection(*(of_qupath("annotation", nucleus) for nucleus in nuclei_of(labels)))


def zipped(name: str, content: object) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, json.dumps(content))
    return file.getvalue()


# --- comparisons ------------------------------------------------------------------------------------------------------


def metrics_in(folder: str) -> Any:
    return json.loads(Path(folder, "metrics.json").read_text())


def f1_in(folder: str) -> float:
    return float(metrics_in(folder)["detection"]["f1"]["group_mean"])


def compared(capsys: pytest.CaptureFixture[str], more: str = "") -> tuple[float | str, str]:
    """F1 of a comparison, or the lines that say why there is none; and all that is printed."""
    arguments = more if more.startswith("ref") else f"ref pred {more}"
    capsys.readouterr()
    code = run(["compare", *shlex.split(arguments)])
    output = capsys.readouterr()
    told = " ".join(f"{output.out} {output.err}".split())
    shown = re.search(r"Detection: F1 ↑ ([0-9.]+)", told)
    return (" ".join(output.err.split()) if code or not shown else float(shown[1])), told


def differences(capsys: pytest.CaptureFixture[str], sides: OfSide, expected: Any, more: str = "", told: Any = None):
    """What is not as expected, which is: F1, or means of metrics by path, or a part of why there is no score.

    more   further arguments; a challenge that is kept must score as the comparison did
    told   how often each text is printed; None: once or more
    """
    lay_out(sides)
    found, printed = compared(capsys, f"{more} --output out" if isinstance(expected, dict) and expected else more)
    for text, times in (told or {}).items():
        if printed.count(text) != times and (times is not None or text not in printed):
            yield f"{text!r} {printed.count(text)} times in {printed}"
    if isinstance(expected, str) or isinstance(found, str):
        if not isinstance(expected, str) or not isinstance(found, str) or expected not in found:
            yield f"{found}, not {expected}"
        if isinstance(found, str) and Path("kept").exists():
            yield "a challenge is kept"
        return
    if isinstance(expected, float) and found != pytest.approx(expected, abs=5e-5):
        yield f"{found}, not {expected}"
    for path, mean in expected.items() if isinstance(expected, dict) else ():
        family, name = path.split(".")
        got = metrics_in("out").get(family, {}).get(name, {}).get("group_mean")
        if got != (mean if mean is None else pytest.approx(mean, abs=1e-6)):
            yield f"{path} is {got}, not {mean}"
    if Path("kept").exists():
        assert run(["score", "--challenge", "kept", "--submission", "kept/submissions/pred", "--output", "again"]) == 0
        if f1_in("again") != pytest.approx(found, abs=5e-5):
            yield f"kept challenge scores {f1_in('again')}"


# --- the inputs of public threads -------------------------------------------------------------------------------------

# What each input gives: F1, or a part of the line that says what to do.
OF_THREADS: dict[str, float | str] = {
    **dict.fromkeys(("picture_both", "picture_pred", "picture_ref"), 0.8),
    "picture_only": "'a.tif', a picture: unlike labels, its values change",
    **dict.fromkeys(("coco_results", "coco_results_polygons", "livecell"), 0.8),
    **dict.fromkeys(("shared_case", "shared_ending", "shared_rle_png", "shared_roboflow"), 0.8),
    **dict.fromkeys(("file_per_nucleus", "file_per_nucleus_flat", "masks_nhw", "category_instance"), 0.8),
    **dict.fromkeys(("stack_bhw", "stack_bhw1", "zarr_sharded"), 0.8),
    "volume": "three-dimensional labels are not scored",
    "rgb_png": "If each colour is a nucleus",
    "rgba_first_channel": "If each colour is a nucleus",
    "copies": 4 / 7,
    "qupath_region": 0.8,
    "off_by_one": "Aligned with the upper left corner of the reference, IoU > 0.5 for 67%",
    "void_minus1": "Is -1 the background, or an unannotated region?",
    "zarr_two_labels": "expected one array at full size. Name it",
    "cvat": "an XML export of CVAT, which is not read; export as COCO",
    "via": "a project of the VGG Image Annotator, which is not read; export as COCO",
    "labelstudio": "a JSON export of Label Studio, which is not read; export as COCO",
    "darwin": "an export of V7 Darwin, which is not read; export as COCO",
    **dict.fromkeys(("napari_points", "cellprofiler"), 0.8),
    "qupath_table": "measurements of QuPath in µm, not read; export GeoJSON",
}


@pytest.mark.parametrize("case", OF_THREADS)
def test_a_layout_of_a_public_thread_gets_its_score_or_is_told(case: str, shared_data: Path, capsys) -> None:
    with zipfile.ZipFile(shared_data / "compare_cases" / f"{case}.zip") as archive:
        archive.extractall()
    assert [*differences(capsys, {}, OF_THREADS[case])] == []


# The second collection: what each input gives, and a text that is printed beside a score.
MORE_OF_THREADS: dict[str, tuple[float | str, str]] = {
    **dict.fromkeys(("bg1", "rle_background", "three_123"), (17 / 21, "touches all four borders")),
    "bg1_ref": (32 / 41, "touches all four borders"),
    **dict.fromkeys(("inverted", "ilastik_simple"), (1.0, "touches all four borders")),
    **dict.fromkeys(("inverted_ref", "ilastik_ref"), (0.0, "touches all four borders")),
    **dict.fromkeys(
        ("qp_noclass", "qp_star", "qp_roi_part", "labelme_roi", "qp_star_both"), (0.8, "around more than five nuclei")
    ),
    "coco_nuc_cell": (0.5, "48 of 48 outlines of 'Nucleus' are inside outlines of 'Cell'"),
    "wrap_pred": (0.747934, "ids stored in 8 bits"),
    "wrap_ref": (0.742857, "ids stored in 8 bits"),
    "clip_pred": (0.721868, "ids stored in 8 bits"),
    "shared_track_ids": (0.675676, "ids may restart in each tile, or be tracks."),
    "tiles_restart": (0.050279, "ids may restart in each tile, or be tracks."),
    **dict.fromkeys(
        ("vertex_xy", "vertex_vs_labels", "pixel_rows"), ("a row for each vertex or pixel of a nucleus", "")
    ),
    "cosmx_csv": ("outlines by their vertices, as CosMx's", ""),
    **dict.fromkeys(("soft_pred", "soft_both", "antialias"), ("Threshold the mask: 0 below 128", "")),
    **dict.fromkeys(("three_class", "three_class_pred", "border_ref"), ("If it is a contour", "")),
    "outlines_ref": ("Fill the outlines", ""),
    **dict.fromkeys(
        ("ctc_tra", "instanseg_trio", "mesmer_two", "visiumhd"), ("There are two label images for one image", "")
    ),
    "tiles_vs_whole": ("may be tiles of 'cell01'", ""),
    "ls_brush": ("names of Label Studio do not contain the image", ""),
    **dict.fromkeys(("nii_both", "palette_white_both", "list_12"), (0.8, "")),
    "neg16": ("16 bits with a sign overflowed", ""),
    "cellvit_fold": ("[pickle]", ""),
    "counts_table": ("numbers of nuclei only", ""),
    "mixed_formats": ("files of two formats: geojson, and 'cell01.tif' of another format", ""),
    "hovernet_patch4": ("Compare its channel 3", ""),
    **dict.fromkeys(("bilinear_pred", "jpeg_mask_png"), ("edges, as resizing and JPEG leave them", "")),
    "mesmer_nhw2": ("Compare one channel, such as channel", ""),
    "cases_csv_named": (0.8, "'ref/cases.csv'"),
    "labelme_xml": ("an XML file of LabelMe", ""),
    "lfs_pointer": ("a Git LFS pointer instead of the file: run git lfs pull", ""),
    "gz_tif": ("a gzip file, which is not opened: unpack it", ""),
    "csv_gz_points": ("a table in a gzip file, which is not opened: unpack it", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", MORE_OF_THREADS)
def test_a_layout_of_the_second_collection_gets_its_score_or_is_told(case: str, shared_data: Path, capsys) -> None:
    assert {path.stem for path in (shared_data / "compare_cases2").glob("*.zip")} == {*MORE_OF_THREADS}
    with zipfile.ZipFile(shared_data / "compare_cases2" / f"{case}.zip") as archive:
        archive.extractall()
    expected, told = MORE_OF_THREADS[case]
    assert [*differences(capsys, {}, expected, told={told: None})] == []


HINT = re.compile(r"evaluation (convert [^;]*?--to \w+(?: --set [\w=]+)?)|(--(?:ignore|leave-out) (?:'[^']+'|\w+))")
PYTHON = re.compile(r"scipy\.ndimage\.(?:label\(labels != \d+\)\[0\]|binary_fill_holes)|numpy\.save\('labels[^;]*\)")


def follow_hint(hint: str, side: str, told: str) -> None:
    """Do with the files of a side what a hint in Python says."""
    if hint.startswith("numpy.save"):
        with contextlib.chdir(side):
            exec(hint, {"numpy": np})
            Path("y.npy").unlink()
        return
    for path in sorted(Path(side).iterdir()) if side == "ref" or "] case" in told else []:
        expression = hint if "(" in hint else f"scipy.ndimage.label({hint}(labels))[0]"
        made = eval(expression, {"scipy": scipy, "labels": np.asarray(Image.open(path))})
        Image.fromarray(made.astype(np.uint16)).save(path)


def test_hints_of_the_second_collection_do_what_they_say(
    shared_data: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    """Calls of ``convert`` run, and what is left out by an option gives the F1 of the labels without it."""
    tried = set()
    for case in MORE_OF_THREADS:
        with zipfile.ZipFile(shared_data / "compare_cases2" / f"{case}.zip") as archive:
            archive.extractall(tmp_path / case)
        monkeypatch.chdir(tmp_path / case)
        for call, option in sorted({match.groups() for match in HINT.finditer(compared(capsys)[1])}, key=str):
            tried.add(case)
            if call:
                words = ["made.tif" if word == "OUTPUT" else word for word in shlex.split(call)]
                assert run(words) == 0, (case, call, capsys.readouterr().err)
            else:
                assert compared(capsys, option)[0] == pytest.approx(0.8), (case, option)
        told = compared(capsys)[1]
        for hint in sorted({*PYTHON.findall(told)}):
            tried.add(case)
            for side in ("ref", "pred"):
                follow_hint(hint, side, told)
            assert compared(capsys)[0] == pytest.approx(0.8), (case, hint)
    assert len(tried) >= 10


# --- other members of each kind ---------------------------------------------------------------------------------------


def one_of(own: int, value: int = 255) -> Callable[[np.ndarray], np.ndarray]:
    return lambda labels: (value * (labels == own)).astype(np.uint8)


def a_file_each(layout: str, value: int = 255) -> OfSide:
    """Files with one nucleus each; the hash is another one for each file."""

    def of_side(order: tuple[int, ...]) -> Files:
        return {
            layout.format(image=image, n=n, hash=f"{n * 7919:x}{image[-1]}".rjust(32, "a")): one_of(own, value)
            for image in ("img1", "img2")
            for n, own in enumerate(order, start=1)
        }

    return {"ref": of_side((1, 2, 3)), "pred": of_side((2, 1))}


def foreground(masks: str, labels: str, empty: bool = False) -> Files:
    """Labels beside a folder of masks of their foreground; the first image may be empty."""
    return {
        f"{masks}/a.png": (lambda n: mask(n * (not empty))), f"{masks}/b.png": mask,
        f"{labels}/a.tif": (lambda n: n * (not empty)), f"{labels}/b.tif": as_is,
    }  # fmt: skip


DOTS = np.kron(np.arange(25), np.pad([[1]], 1))  # 24 nuclei of a pixel
TEN = np.zeros((20, 100), np.uint8)
for number in range(10):
    TEN[5:12, 10 * number + 2 : 10 * number + 9] = number + 1
CLASSES = np.where(TEN > 0, 1 + TEN % 2, 0).astype(np.uint8)
FOUND_CLASSES = byte(np.where(TEN == 4, 3 - CLASSES, CLASSES) * (TEN != 9))
DENSE = np.kron(np.arange(1, 20 * 20 + 1).reshape(20, 20), np.ones((3, 3), int))
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + H.to_bytes(2) + W.to_bytes(2) + bytes(10)
BOXES = [
    {"image_id": 7, "category_id": 1, "score": 0.9, "area": width * height, "bbox": [x, y, width, height]}
    for x, y, width, height in ((5, 5, 10, 10), (30, 5, 12, 10))
]
VOC = "<bndbox><xmin>5</xmin><ymin>5</ymin><xmax>15</xmax><ymax>15</ymax></bndbox>"
REGIONS = "each region of touching pixels a nucleus"
PICTURES_TOLD = "a picture: unlike labels, its values change"
VOLUME = "three-dimensional labels are not scored"
COLOURS = "If each colour is a nucleus"
CHANNELS = "labels of two kinds in two channels"

LAYOUTS: dict[str, list[tuple]] = {
    "pictures": [
        *(
            (f"{picture} beside {mask_file}", sides({picture: GREY, mask_file: byte}), 0.8)
            for picture, mask_file, sides in (
                ("a.png", "a_seg.png", both), ("a.tif", "a_label.png", both), ("a_raw.tif", "a_mask.tif", pred),
                ("images/a.tif", "masks/a.tif", both), ("P1/Images/a.tif", "P1/Labels/a.tif", pred),
                ("img/a.png", "gt/a.tif", both), ("photo_of_it.npy", "labels_of_it.npy", pred),
            )
        ),
        ("bytes alone", pred({"a.tif": GREY}), PICTURES_TOLD),
        ("16 bits alone", pred({"a.tif": GREY.astype(np.uint16) * 200}), PICTURES_TOLD),
        ("fractions alone", pred({"a.tif": GREY.astype(np.float32)}), PICTURES_TOLD),
        ("smooth", pred({"a.tif": SMOOTH}), "edges, as resizing and JPEG leave them"),
        ("in a MetaImage", pred({"a.mha": image_bytes(GREY.astype(np.uint16), "a.mha")}), PICTURES_TOLD),
        ("of 3 x 3 px with ids in 8 bits is none", both({"a.tif": (DENSE % 256).astype(np.uint16)}), 1.0),
        ("of 3 x 3 px with scattered ids is none", both({"a.tif": (DENSE * 3000 % 65536).astype(np.uint16)}), 1.0),
        ("beside masks in RGB", both({"masks/a.png": lambda n: rgb(mask(n)), "images/a.png": PICTURE}), 0.8),
        ("images named by a folder above the last", both({f"{k}/out/mask.tif": as_is for k in "ab"}), 0.8),
        ("a thumbnail of labels", both({"a.tif": as_is, "thumbnails/a.png": lambda n: byte(n[::2, ::2])}), 0.8),
    ],
    "labels and masks": [
        ("a folder of masks beside", both(foreground("binary", "instance")), 0.8),
        ("the first is empty", both(foreground("liver/mask binary", "liver/label masks", empty=True)), 0.8),
        ("in the prediction", pred(foreground("semantic", "z"), "a", "b"), 0.8),
        ("in the reference, the first is empty",
         {"ref": foreground("binary", "instance", empty=True), "pred": {"a.tif": nothing, "b.tif": as_is}}, 0.8),
        ("the mask in one folder with them", both({"a.tif": as_is, "a_mask.png": mask}), 0.8),
        # Also if the first image has one nucleus, by which masks cannot be told from labels.
        *((f"masks of {value}", {
            "ref": {"0.png": byte(value * (R == 1)), "a.png": of_reference},
            "pred": {"0.png": byte(value * (R == 1)), "a.png": of_prediction},
        }, 0.9, "", {REGIONS: times, "[components]": None}) for value, of_reference, of_prediction, times in (
            (255, mask, mask, 2), (1, ones, as_is, 1), (255, as_is, mask, 1),
        )),
        ("one nucleus in every image", both({"a.png": byte(R == 1)}), 1.0, "", {"touching pixels": 0}),
        ("a label in two parts is one nucleus", {"ref": {"a.png": np.where(R == 3, 1, R)}, "pred": {"a.png": P}}, 1.0),
        # Ten nuclei of two classes, of which nine are found, one of them as the other class.
        ("class maps", {"ref": {"a.png": CLASSES}, "pred": {"a.png": FOUND_CLASSES}},
         {"detection.f1": 18 / 19, "classification.accuracy": 8 / 9}),
        ("a class map of the reference", {"ref": {"a.png": CLASSES}, "pred": {"a.png": TEN * (TEN != 9)}},
         {"detection.f1": 18 / 19, "classification.accuracy": None}),
        ("a class map of the prediction", {"ref": {"a.png": TEN}, "pred": {"a.png": FOUND_CLASSES}},
         {"detection.f1": 18 / 19, "classification.accuracy": None}),
        ("three suffixes", both({"a.png": byte, "b.tif": as_is, "c.npy": as_is}), 0.8),
        ("two suffixes, with class maps",
         both({"a.png": byte, "a_class.png": ones, "b.tif": as_is, "b_class.tif": ones}), 0.8),
        ("parts of a data set at the end of names",
         both({f"{n}_{part}.tif": as_is for n in "ab" for part in ("train", "test")}), 0.8),
        *((f"names that tell no classes, {names}", both({f"{name}.tif": as_is for name in names.split()}), 0.8, "",
           {"2 images as label_image, no classes": None})
          for names in ("mouse_liver mouse_lung", "a_one b_two", "a_gt b_pred", "a a_b")),
        ("two annotators", ref({f"{who}/labels/{n}.tif": as_is for who in ("Miller", "Smith") for n in "ab"}, "a", "b"),
         "Files with the same name are in several folders: pass one folder, such as 'Miller'"),
        # A fault names the file that lies there: two suffixes are written as arrays, a TIFF is one by its content.
        *(
            (f"a fault in {name}", {
                "ref": {first: byte, name: byte},
                "pred": {first: byte, name: image_bytes(np.where(P == 2, -1, P.astype(np.int32)), "a.tif")},
            }, f"[negative-label] case '{name.partition('.')[0]}', 'pred/{name}': ")
            for first, name in (("a.png", "b.tif"), ("a.png", "b.png"), ("a_masks.png", "b_masks.tif"))
        ),
        *((f"{told} image without a prediction", {
            "ref": {"a {b}.tif": as_is, "empty.tif": nothing}, "pred": {"a {b}.tif": made, "empty.tif": nothing}
        }, {}, "", {"No nucleus of 'pred' in 1 of 1 image": told}) for told, made in ((1, nothing), (0, as_is))),
    ],
    "channels and planes": [
        *(
            (f"labels in {number} channels, {suffix}", sides({f"a.{suffix}": lambda n, c=number: rgb(n, c)}), 0.8)
            for number, suffix, sides in (
                (2, "png", both), (3, "png", pred), (4, "png", both), (3, "tif", pred), (3, "npy", both),
            )
        ),
        ("a mask in RGB for each nucleus",
         both({f"a/masks/{v}.png": lambda n, v=v: rgb(255 * (n == v)) for v in (1, 2, 3)}), 0.8),
        ("masks, npy", both({"a.npy": planes}), 0.8),
        ("masks as bytes, npy", pred({"a.npy": lambda n: byte(planes(n))}), 0.8),
        ("masks behind", pred({"a.npy": lambda n: last(planes(n))}), 0.8),
        ("masks behind, npz", both({"a.npz": lambda n: byte(last(planes(n)))}), 0.8),
        ("masks, tif", both({"a.tif": lambda n: 255 * byte(planes(n))}), 0.8),
        *((f"masks of {kind}", pred({"a.npy": lambda n, k=kind: planes(n)[:, None].astype(k)}), 0.8)
          for kind in ("float32", "bool", "int64")),
        ("mesmer, one channel", pred({"a.npy": lambda n: n[None, ..., None].astype(np.int32)}), 0.8),
        ("mesmer, equal channels", pred({"a.npy": lambda n: np.dstack([n, n])[None].astype(np.int32)}), 0.8),
        ("equal planes", pred({"a.tif": lambda n: np.stack([n, n])}), 0.8),
        *((f"images, {suffix}", {side: {f"{side}{suffix}": three_images} for side in ("ref", "pred")}, 0.8, "",
           {"3 images as label_image": None}) for suffix in (".npy", ".npz", ".tif")),
        ("images on one side", pred({"all.npy": lambda n: np.stack([n, n])}, "a", "b"),
         "an array of 2 images without names"),
        ("a volume", both({"a.npy": volume}), VOLUME),
        ("a volume of five pages", both({"a.tif": paged_tiff}), VOLUME),
        *((f"a volume, {suffix}", both({f"a{suffix}": of_itk(suffix)}), VOLUME)
          for suffix in (".nii.gz", ".nrrd", ".mha")),
        ("probabilities, which are no volume",
         pred({"a.tif": lambda n: np.dstack([(n > 0) * 0.9 + 0.05, (n == 0) * 0.9 + 0.05]).astype(np.float32)}),
         "numbers that are not whole, as probabilities are"),
        ("ids and classes", both({"a.npy": lambda n: np.stack([n, class_of(n)])}),
         {"detection.f1": 0.8, "classification.accuracy": 1}),
        ("classes and ids behind", both({"a.npy": lambda n: np.dstack([class_of(n), n])}),
         {"detection.f1": 0.8, "classification.accuracy": 1}),
        *((f"cells and nuclei in the {side}", {
            own: {"y.npy": lambda n, is_it=own == side: np.stack([np.dstack([cells_of(n), n]) if is_it else n] * 2)}
            for own in ("ref", "pred")
        }, CHANNELS) for side in ("ref", "pred")),
        ("colours, npy", pred({"a.npy": coloured}), COLOURS),
        ("colours, tif", pred({"a.tif": coloured}), COLOURS),
        ("one colour, two nuclei", pred({"a.png": lambda n: byte(np.dstack([0 * n, 200 * (n > 0), 0 * n]))}),
         "Each colour occurs in many regions"),
        ("colours of classes", pred({"a.png": coloured(ones(R))}), "like the colours of classes"),
        ("cvat's colours of classes and objects", pred({
            "SegmentationClass/a.png": lambda n: byte(np.dstack([200 * (n > 0), 0 * n, 0 * n])),
            "SegmentationObject/a.png": lambda n: byte(np.dstack([100 * n, 9 * n, 0 * n])),
        }), "'SegmentationObject/a.png', a picture in colour"),
        *((f"pictures of pannuke, {name}", both({
            name.replace("images", "masks"): pannuke, name: np.repeat(PICTURE[None].astype(float), 2, axis=0),
        }), 0.8) for name in ("images.npy", "images/fold1/images.npy")),
        ("folds of pannuke", both({f"Fold {n}/masks.npy": pannuke for n in (1, 2)}),
         "each with any number of images"),
    ],
    "a file for each nucleus": [
        *((layout, a_file_each(layout), 0.8) for layout in (
            "{image}/masks/{n}.png", "{image}/mask_{n}.png", "train/{image}/Masks/{hash}.png", "{image}_{n:03}.tif",
            "{image}-nucleus{n}.npy", "masks/{image}_cell_{n}.tif",
        )),
        ("of ones", a_file_each("{image}/masks/{n}.png", 1), 0.8),
        ("of ones in the prediction", {**a_file_each("{image}_{n:03}.tif", 1),
                                       "ref": {"img1.tif": as_is, "img2.tif": as_is}}, 0.8),
        ("they may share pixels", pred({
            "a/1.png": lambda n: mask(np.maximum(n == 1, np.pad(np.ones((1, 2)), ((5, 34), (15, 43))))),
            "a/2.png": lambda n: mask(np.maximum(n == 2, np.pad(np.ones((1, 15)), ((5, 34), (15, 30))))),
        }), 0.8),
        # Crops with a nucleus in the middle of each.
        ("an image for each nucleus", {
            side: {f"tile_{n}.png": np.pad(np.full((10, 10 - n * less), 255, np.uint8), ((5, 5), (5, 5 + n * less)))
                   for n in range(3)}
            for side, less in (("ref", 0), ("pred", 1))
        }, 1.0, "", {"3 images as label_image": None}),
    ],
    "files of all images": [
        ("results for one image", {"ref": {"instances.json": coco("a.tif", first=139)},
                                   "pred": {"segm.json": results("a.tif", first=139)}}, 0.8),
        ("results as a file", {"ref": {"instances.json": coco("a.tif", "b.tif", first=139)},
                               "pred": {"segm.json": results("a.tif", "b.tif", first=139)}}, 0.8, "ref pred/segm.json"),
        ("results in a ZIP", {"ref": {"instances.json": coco("a.tif", "b.tif")},
                              ".": {"pred.zip": lambda n: zipped("segm.json", results("a.tif", "b.tif")(n))}},
         0.8, "ref pred.zip"),
        ("a reference with nothing in the second image", {
            "ref": {"gt.json": {**coco_of(R, ("a.tif",)), "images": coco_of(R, ("a.tif", "b.tif"))["images"]}},
            "pred": {"r.json": results("a.tif")},
        }, 0.8),
        ("classes of results are categories of the reference",
         {"ref": {"gt.json": with_two_categories}, "pred": {"r.json": lambda n: with_two_categories(n)["annotations"]}},
         {"detection.f1": 0.8, "classification.accuracy": 1}),
        ("annotations by their ids, as LIVECell has them", pred({"p.json": lambda n: {
            **coco_of(n, ("a.tif",)), "annotations": {one["id"]: one for one in coco_of(n, ("a.tif",))["annotations"]},
        }}), 0.8),
        ("each nucleus twice", pred({"p.json": lambda n: {
            **coco_of(n, ("a.tif",)), "annotations": 2 * coco_of(n, ("a.tif",))["annotations"],
        }}), 4 / 7),
        ("results without their data set", pred({"r.json": results("cell01.tif", "cell02.tif")}, "cell01", "cell02"),
         "These are image ids"),
        *((f"images that the reference has not, {name}", {
            "ref": {"gt.json": coco("cell01.tif")}, "pred": {name: of_all("cell01.tif", "cell02.tif")},
        }, 0.8, "--save-challenge kept", {"no reference;": None})
          for name, of_all in (("all.json", coco), ("results.json", results), ("all.csv", codes))),
        *((f"{form}, {names[0]}", {"ref": {f"all.{suffix}": of_all("cell01", "cell02")},
                                   "pred": {f"all.{suffix}": of_all(*names)}}, 0.8)
          for form, suffix, of_all, first in (
              ("coco", "json", coco, 9), ("codes", "csv", codes, 2), ("points", "csv", points, 2),
          )
          for names in (
              ("CELL01.PNG", "Cell02.PNG"),
              ("images/cell01.jpg", "images/cell02.jpg"),
              ("cell01_cp_masks.png", "cell02_cp_masks.png"),
              (f"cell01_jpg.rf.{'0123' * 8}.jpg", f"cell02_jpg.rf.{'fedc' * 8}.jpg"),
              ("cell01-mask.ome.tiff", "cell02-mask.ome.tiff"),
              ("pred_01", "pred_02"),
              ("cell1.png", "cell2.png"),
              ("cell0001.tif", "cell0002.tif"),
              ("1a2b3c4d-cell01.png", "9f8e7d6c-cell02.png"),
          )[:first]),
        ("boxes in a data set", {"ref": {"gt.json": coco("a.tif")},
                                 "pred": {"r.json": {**coco_of(P, ("a.tif",)), "annotations": BOXES}}},
         "boxes without outlines"),
        ("boxes in results", {"ref": {"gt.json": coco("a.tif")}, "pred": {"r.json": BOXES}}, "boxes without outlines"),
        ("dsb without sizes", both({"train.csv": lambda n: f"ImageId,EncodedPixels\na,{pairs(n > 0)}\n"}),
         "add the columns 'Height' and 'Width'"),
        *((f"an empty list {text!r} is an image without nuclei",
           pred({"a.json": segmentations, "b.json": text}, "a", "b"), 0.4, "",
           {"No nucleus of 'pred' in 1 of 2 images with nuclei, such as 'b'.": 1}) for text in ("[]", " [ ]\n")),
    ],
    "outlines": [
        ("yolo with pictures in their folder",
         both({"images/val/x.png": PICTURE, "labels/val/x.txt": yolo, "data.yaml": "nc: 1"}), 0.8),
        ("yolo with jpeg", both({"train/images/x.jpg": JPEG, "train/labels/x.txt": yolo}), 0.8),
        ("yolo alone", both({"labels/x.txt": yolo}), "coordinates in shares of the image"),
        ("puma with tissue",
         both({"x_nuclei.geojson": outlines, "x_tissue.geojson": outlines(np.ones((H, W), int))}), 0.8),
        ("an empty list beside outlines", pred({"a/a.geojson": outlines, "a/b.json": []}), 0.8),
        ("rois in files", pred({f"a/{own:04}-0010-0010.roi": roi_of(own) for own in (1, 2)}), 0.8),
        ("drawn by hand, one is large", pred({"a.geojson": collection(
            *(of_qupath("annotation", one) for one in (*nuclei_of(P), square(0, 0, 60, 40))))}), 4 / 6),
        ("drawn beside detections", pred({"a.geojson": collection(
            of_qupath("detection", nuclei_of(P)[0]), of_qupath("annotation", nuclei_of(P)[1]))}), 0.8),
        ("drawn around a detection of much the same size", pred({"a.geojson": collection(
            of_qupath("detection", square(6, 6, 14, 14)), *outlines(P)["features"])}), 4 / 6),
    ],
    "files of other tools": [
        *((tool, pred({name: content}), told) for tool, name, content, told in (
            ("panoptic", "p.json", {"images": [], "annotations": [{"segments_info": []}]}, "panoptic JSON of COCO"),
            ("stardist's details", "a.json", {"coord": [], "points": [], "prob": []}, "details of StarDist"),
            ("snappy", "a.json.snappy", b"\xff\x06\0\0sNaPpY" + bytes(9), "packed by Snappy"),
            ("vertices", "a.csv", "cell_id,vertex_x,vertex_y\n1,2,3\n", "outlines by their vertices"),
            ("cvat", "annotations.xml", "<annotations><version>1.1</version><image id='0' name='a.tif'/></annotations>",
             "an XML export of CVAT, which is not read; export as COCO"),
            ("via, json", "v.json", {"a.tif9": {"filename": "a.tif", "size": 9, "regions": [{"shape_attributes": {}}]}},
             "a project of the VGG Image Annotator, which is not read; export as COCO"),
            ("darwin", "a.json", {"version": "2.0", "item": {"name": "a.tif", "slots": []}, "annotations": []},
             "an export of V7 Darwin, which is not read; export as COCO"),
            ("label studio, json", "p.json", [{"id": 1, "annotations": [{"result": [{"type": "polygonlabels"}]}]}],
             "a JSON export of Label Studio, which is not read; export as COCO"),
            ("wkt", "a.csv", 'id,geometry\n1,"POLYGON ((1 1, 2 2, 1 2, 1 1))"\n', "a table of shapes (WKT)"),
            ("supervisely", "a.tif.json", {"tags": [], "size": {"height": H}, "objects": [{"classTitle": "n"}]},
             "Supervisely"),
            ("superannotate", "a.json", {"metadata": {"name": "a.tif"}, "instances": [{"type": "polygon"}]},
             "SuperAnnotate"),
            ("encord", "e.json", [{"label_hash": "x", "data_title": "a.tif", "data_units": {}}], "an export of Encord"),
            ("labelbox", "e.ndjson", {"data_row": {"external_id": "a.tif"}, "projects": {}}, "an export of Labelbox"),
            ("label studio", "p.json", [{"image": "a.tif", "label": [{"polygonlabels": ["n"]}]}], "Label Studio"),
            ("label studio far", "p.json", [{"id": 1, "data": "x" * 900, "label": [{"brushlabels": ["n"]}]}],
             "Label Studio"),
            ("via", "v.csv", "filename,file_size,region_count,region_shape_attributes\na.tif,9,1,x\n",
             "VGG Image Annotator"),
            ("voc", "a.xml", f"<annotation><filename>a</filename><object>{VOC}</object></annotation>",
             "boxes and no outlines"),
            ("yolo", "labels/a.txt", "0 0.158 0.2375 0.1667 0.25\n", "boxes of YOLO without outlines"),
            ("cellpose", "a_cp_outlines.txt", "5,5,14,5,14,14,5,14\n30,5,41,5,41,14,30,14\n",
             "outlines of cellpose as text"),
        )),
        *((told, pred({f"a.{suffix}": rows}), f"no labels, but 'a.{suffix}', {told}") for suffix, rows, told in (
            ("csv", "index,axis-0,axis-1,axis-2\n0,0,9.5,9.5\n", "points of napari with more than two axes"),
            ("csv", "label,centroid-0,centroid-1,centroid-2\n1,0,9.5,9.5\n",
             "a table of scikit-image with more than two axes"),
            ("csv", "index,shape-type,vertex-index,axis-0,axis-1\n0,polygon,0,5,5\n", "shapes of napari"),
            ("csv", "ID,TRACK_ID,POSITION_X,POSITION_Y\n1,1,9.5,9.5\n", "spots of TrackMate"),
            ("csv", "Image,Centroid X µm,Centroid Y µm\na.tif,1,1\n", "measurements of QuPath in µm"),
            ("csv", "ImageNumber,ObjectNumber,Area\n1,1,100\n", "a table of CellProfiler without coordinates"),
            ("csv", "image,xmin,ymin,xmax,ymax\na,5,5,15,15\n", "a table of boxes without outlines"),
            ("csv", "labelimage_oid,Predicted Class\n1,N\n", "a table of ilastik without coordinates"),
            ("txt", "labelimage_oid,Predicted Class\n1,N\n", "a table of ilastik without coordinates"),
        )),
    ],
    "tables of points": [
        # The scene is not the same with x and y swapped, so that these two cannot be mixed up.
        *((header, pred({file: f"{header}\n{row.format(n=1, x=9.5, y=9.5)}\n{row.format(n=2, x=35.5, y=9.5)}\n"}),
           0.8, "", {"classes 'a.tif": 0})
          for file, header, row in (
              ("a.csv", "index,axis-0,axis-1", "{n},{y},{x}"),
              ("Nuclei.csv", "ImageNumber,ObjectNumber,AreaShape_Center_X,AreaShape_Center_Y", "1,{n},{x},{y}"),
              ("Nuclei.csv", "ImageNumber,ObjectNumber,Location_Center_X,Location_Center_Y", "3,{n},{x},{y}"),
              ("a.csv", "label,area,centroid-0,centroid-1", "{n},100,{y},{x}"),
              ("q.csv", "Image,Object ID,Classification,Centroid X px,Centroid Y px", "a.tif,{n},Tumor,{x},{y}"),
              ("Results.csv", " ,Area,Mean,X,Y", "{n},100,{n},{x},{y}"),
              ("a_table.csv", "labelimage_oid,Predicted Class,Center of the object_0,Center of the object_1",
               "{n},N,{x},{y}"),
              ("a.csv", "axis-2,x,y", "0,{x},{y}"),
              ("q.tsv", "Image\tObject ID\tClassification\tCentroid X px\tCentroid Y px",
               "a.tif\t{n}\tTumor, big\t{x}\t{y}"),
              ("q.txt", '"Image"\t"Class"\t"Centroid X px"\t"Centroid Y px"', 'a.tif\t"Tumor, ""b"""\t{x}\t{y}'),
              ("Results.xls", " \tLabel\tArea\tX\tY", "{n}\ta.tif\t100\t{x}\t{y}"),
              ("Results.csv", " ,Label,Area,Mean,X,Y", "{n},a.tif:000{n}-0010,100,1,{x},{y}"),
              ("Results.csv", " ,Label,Area,XM,YM", "{n},a:{n},100,{x},{y}"),
              ("Results.csv", " ,Label,Area,X,Y", "{n},cell {n},100,{x},{y}"),
              ("a.txt", "x,y", "{x},{y}"),
          )),
        *((f"images that are counted by {column}", pred({"all.csv": f"{column},x,y\n1,9.5,9.5\n2,35.5,9.5\n"}),
           f"2 images by number (in the column '{column}')") for column in ("ImageNumber", "Frame", "Slice")),
        ("the number of the only image", pred({"all.csv": "Frame,x,y\n1,9.5,9.5\n1,35.5,9.5\n"}), 0.8),
        ("imagej's results of several images", pred({
            "Results.csv": " ,Label,Area,X,Y\n1,a.tif:1,9,9.5,9.5\n2,b.tif:1,9,35.5,9.5\n3,b.tif:2,9,9,9\n",
        }), "2 images (in the column 'Label')"),
        ("points have no region to leave out", both({"a.csv": "x,y,class\n3,4,a\n8,9,b\n"}), "which mark no region",
         "--ignore b"),
    ],
}  # fmt: skip


# --- annotations of QuPath around detections --------------------------------------------------------------------------

WHOLE = square(0, 0, 60, 40)
HALVES = {
    "type": "MultiPolygon",
    "coordinates": [square(0, 0, 20, 40)["coordinates"], square(21, 0, 60, 40)["coordinates"]],
}
CROSSED = polygon([[0, 0], [60, 0], [60, 40], [2, 40], [4, 38], [0, 40]])
AROUND = {
    "before": [WHOLE],
    "behind": [WHOLE],
    "two, one in the other": [WHOLE, square(0, 0, 50, 39)],
    "of two parts": [HALVES],
    "crosses itself": [CROSSED],
}


def around(form: str) -> Files:
    def write(labels: np.ndarray) -> dict:
        kind, old = ("cell" if form == "cells" else "detection"), form == "old ids"
        inner = [of_qupath(kind, geometry, old) for geometry in nuclei_of(labels)]
        if form == "children":
            return collection(of_qupath("annotation", WHOLE, childObjects=inner))
        kind = {"tiles": "tile", "cores": "tma_core"}.get(form, "annotation")
        regions = [of_qupath(kind, one, old) for one in AROUND.get(form, [WHOLE])]
        if form == "with a class":
            regions[0]["properties"]["classification"] = {"name": "Tumor"}
        return collection(*inner, *regions) if form == "behind" else collection(*regions, *inner)

    return {"a.geojson": write}


LAYOUTS["regions of QuPath"] = [
    *((form, both(around(form)), 0.8, "", {"which is a region": None, "geojson, no classes": 2})
      for form in (*AROUND, "cells", "old ids", "children", "tiles", "cores", "with a class")),
    ("in the reference", ref(around("before")), 0.8, "", {"which is a region": 1}),
    ("in the prediction", pred(around("cells")), 0.8, "", {"which is a region": 1}),
]  # fmt: skip


# --- what is not annotated, and a background that is not 0 ------------------------------------------------------------

VOID = np.zeros((H, W), bool)
VOID[22:, 25:] = True
FOUND = P.copy()
FOUND[25:35, 30:45] = 9  # in the void
OVER_THE_EDGE = P.copy()
OVER_THE_EDGE[20:30, 28:40] = 9  # an eighth of it lies outside
REGION = square(25, 22, 60, 40)


def with_void(value: int, kind: str) -> np.ndarray:
    return np.where(VOID, value, R.astype(np.int64)).astype(kind)


def not_annotated(kind: str, *regions: tuple[str, dict]) -> Files:
    """Nuclei of a kind, one of them in the first region, and regions with names of classes."""
    nuclei = [of_qupath(kind, geometry) for geometry in [*nuclei_of(R), square(30, 25, 34, 28)]]
    drawn = [of_qupath("annotation", shape, classification={"name": name}) for name, shape in regions]
    return {"a.geojson": collection(*nuclei, *drawn)}


def coco_with_void() -> dict[str, list]:
    made = coco_of(with_void(50, "uint8"), ("a.tif",))
    made["categories"].append({"id": 2, "name": "Not annotated"})
    for annotation in made["annotations"]:
        annotation["category_id"] = 2 if annotation["id"] % 100 == 50 else 1
    return made


ASKED: dict[str, tuple[int, str, np.ndarray]] = {
    "a.png": (255, "uint8", OVER_THE_EDGE),
    "wide.npy": (255, "int64", FOUND),
    "a.npy": (-1, "float32", OVER_THE_EDGE),
    "a.tif": (-1, "int16", FOUND),
    "wide.tif": (65535, "uint16", FOUND),
    "a.npz": (2**32 - 1, "uint32", FOUND),
}
STACKED = {"ref": {"all.npy": np.stack([with_void(-1, "int32")] * 2)}, "pred": {"all.npy": np.stack([FOUND] * 2)}}
TWO_LABELS = {
    "ref": {"a.npy": with_void(-1, "int32"), "b.npy": with_void(255, "int32")},
    "pred": {"a.tif": FOUND, "b.tif": FOUND},
}
CORNER = np.pad(np.full((5, 8), 255, np.uint8), ((H - 5, 0), (W - 8, 0)))
MASKED = both({"a.png": lambda labels: np.maximum(ones(labels), CORNER)})
CLASSED = {"a.png": with_void(50, "uint8"), "a.csv": "id,class\n1,nucleus\n2,nucleus\n3,nucleus\n50,Not annotated\n"}
REGION_OF_CLASS = ("Not annotated", REGION)
NECROSIS = ("Necrosis", square(50, 0, 60, 6))
NO_SUCH = "nothing in the reference has it"

LAYOUTS["not annotated"] = [
    *((f"asked about {value} in {name}", {"ref": {name: with_void(value, kind)}, "pred": {"a.tif": predicted}},
       "an unannotated region? If" if value < 0 else {}, "",
       {f"an unannotated region? {'If' if value < 0 else 'It counts'}": None,
        f"If it is not annotated: --ignore {value}.": None})
      for name, (value, kind, predicted) in ASKED.items()),
    *((f"left out: {value} in {name}", {"ref": {name: with_void(value, kind)}, "pred": {"a.tif": predicted}}, 0.8,
       f"--ignore {value}{' --save-challenge kept' * (name == 'a.npy')}", {"not annotated": 0})
      for name, (value, kind, predicted) in ASKED.items()),
    ("asked about, stacked", STACKED, "an unannotated region? If"),
    ("left out, stacked", STACKED, 0.8, "--ignore -1"),
    ("a mask with a region is one", MASKED, {}, "", {"Is 255 a nucleus, the background": 1}),
    ("a mask without its region", MASKED, 0.8, "--ignore 255"),
    ("a copy", both(TWO_LABELS["ref"]), 1.0, "--ignore -1 --ignore 255"),
    ("a number that is a nucleus in the prediction",
     {"ref": {"a.png": with_void(255, "uint8")}, "pred": {"a.tif": np.where(FOUND == 2, 255, FOUND).astype(np.uint16)}},
     0.8, "--ignore 255"),
    *((f"nuclei {labels}", both({"a.tif": np.kron(np.array([*labels, 0], np.uint16)[:, None], np.pad(
        np.ones((5, 10), np.uint16), ((0, 5), (5, 45))))}), 1.0, "", {"annotated": 0})
      for labels in ([3, 255], [1, 200, 255], [255], [1, 2, 254])),
    *((f"a class, {form}", {"ref": files, "pred": {"a.tif": FOUND}}, 0.8, f"--ignore '{name}'")
      for form, name, files in (
          ("annotations", "not ANNOTATED", not_annotated("annotation", REGION_OF_CLASS)),
          ("region around detections", "not ANNOTATED", not_annotated("detection", REGION_OF_CLASS)),
          ("coco", "not ANNOTATED", {"a.json": coco_with_void()}),
          ("table", "not ANNOTATED", CLASSED),
          ("class map", "7", {"a.png": with_void(50, "uint8"), "a_class.png": byte(np.where(VOID, 7, R > 0))}),
      )),
    ("a class that is not left out", {"ref": CLASSED, "pred": {"a.tif": FOUND}}, 4 / 7),
    ("no such class", {"ref": CLASSED, "pred": {"a.tif": FOUND}}, f"--ignore 'not ANNOTATEDs': {NO_SUCH}",
     "--ignore 'not ANNOTATEDs'"),
    ("two labels", TWO_LABELS, 0.8, "--ignore -1 --ignore 255"),
    *((f"of {ignore}", TWO_LABELS, f"--ignore '{wrong}': {told}", " ".join(f"--ignore {one}" for one in ignore.split()))
      for ignore, wrong, told in (
          ("-1 254", "254", NO_SUCH), ("-1 -2 255", "-2", NO_SUCH), ("255 -1 7", "7", NO_SUCH),
          ("stroma", "stroma", NO_SUCH), ("0", "0", "the background of label images"),
          ("255 -1 00", "00", "the background of label images"),
      )),
    *((f"two regions, {second}",
       {"ref": not_annotated("detection", REGION_OF_CLASS, NECROSIS), "pred": {"a.tif": FOUND}}, expected,
       f"--ignore 'not annotated' --ignore {second}")
      for second, expected in (("Necrosis", 0.8), ("Necrosys", f"--ignore 'Necrosys': {NO_SUCH}"))),
    # A background of another value is told once.
    ("a background of 255", pred({"a.tif": lambda n: np.where(n > 0, n, 255).astype(np.uint8)}), {}, "",
     {"If it is the background, set it to 0": 1, "nearly-nothing-matches": 0}),
    ("a mask of the background", pred({"a.tif": lambda n: np.where(n > 0, 0, 255).astype(np.uint8)}), {}, "",
     {"If it is the background, write 0 there": 1, "nearly-nothing-matches": 0}),
    ("255 everywhere", pred({"a.tif": np.full((H, W), 255, np.uint8)}), {}, "", {"Is the background": 0}),
    ("a large outline", pred({"a.geojson": lambda n: collection(
        *(of_qupath("annotation", one) for one in (WHOLE, *nuclei_of(n))))}), {}, "", {"Is the background": 0}),
]  # fmt: skip


# --- classes ----------------------------------------------------------------------------------------------------------

TWO = np.array([0, 1, 1, 2], np.uint8)[R]  # the class of each pixel
LOWEST = R * (R == 3)


def table(*classes: str) -> str:
    return "\n".join(("id,class", *(f"{label},{of_class}" for label, of_class in enumerate(classes, start=1))))


def tabled(*classes: str, images: str = "a") -> Files:
    """Label images and the class of each nucleus."""
    return {f"{image}{end}": of for image in images for end, of in ((".tif", R), (".csv", table(*classes)))}


def named(*classes: str) -> Files:
    """Outlines beside each other, with their classes."""
    squares = [square(11 * place, 5, 11 * place + 10, 15) for place in range(len(classes))]
    both_of = zip(squares, classes, strict=True)
    return {"a.geojson": collection(*(of_qupath("annotation", of, classification={"name": n}) for of, n in both_of))}


def coded(*classes: str) -> Files:
    rows = [f"a,{10 * place + 1} 3,{name},5,9\n" for place, name in enumerate(classes)]
    return {"all.csv": f"ImageId,EncodedPixels,class,height,width\n{''.join(rows)}"}


OF_TWO = "classes 'Tumour' and 'Stroma'"
ONE_CLASS = "All nuclei are taken as one class."
ALONE, MAPPED = {"a.tif": R}, {"a.tif": R, "a_class.tif": TWO}
TTS = tabled("Tumour", "Tumour", "Stroma")
ONE_NAME = {"ref": tabled(*["Tumour"] * 3), "pred": tabled("tumour", "Stroma", "Stroma")}
AMBIGUOUS = tabled("Ambiguous", "ambiguous", "Tumour")
NOT_SCORED = {"ref": named("Ambiguous", "tumour", "stroma"), "pred": named("tumour", "Ambiguous", "stroma")}
NOT_SCORED_AS_CODES = {"ref": coded("stroma", "Ambiguous", "tumour"), "pred": coded("Ambiguous", "tumour", "stroma")}
PLAIN = {**NOT_SCORED, "ref": named("tumour", "tumour", "stroma")}
NO_TABLE = "a table of ids and classes, but"
MISSED = {"detection.recall": 0.5, "detection.precision": 1}

LAYOUTS["classes"] = [
    ("maps", {"ref": MAPPED, "pred": {"a.tif": R, "a_class.tif": ones(R)}}, {"classification.accuracy": 2 / 3}, "",
     {"classes '1' and '2'": None}),
    ("one more in the prediction", {"ref": {"a.tif": R, "a_class.tif": ones(R)}, "pred": MAPPED}, 1.0, "",
     {"[classes-differ] prediction 'pred': the class '2' is not in the reference": 1}),
    ("none in the prediction", {"ref": MAPPED, "pred": ALONE}, {"classification.accuracy": None}, "",
     {ONE_CLASS: 1, "classification": 0}),
    ("tables", {"ref": TTS, "pred": tabled("tumour", "stroma", "stroma")}, {"classification.accuracy": 2 / 3}, "",
     {OF_TWO: None, "format": 0}),
    ("tables of a part of the images", {
        "ref": tabled("Tumour", "Tumour", "Stroma", images="ab"), "pred": {**TTS, "b.tif": R},
    }, 1.0, "", {f"[file-not-read] 'pred/a.csv': {NO_TABLE} 'b.tif' has no table next to it": 1, ONE_CLASS: 1}),
    ("one name of two", ONE_NAME, "'pred/a.csv', line 3, line 4: 'Stroma' is not a class that is compared",
     "--classes Tumour",
     {"Name all classes in --classes, or take all nuclei as one class: --classes none.": None}),
    ("a new name for one of two", ONE_NAME, "'Stroma' is not a class", "--classes nucleus=Tumour"),
    *((f"one name for both: {names}", ONE_NAME, 1.0, f"--classes {names}") for names in ("Tumour=Stroma", "none")),
    ("a name for a prediction without", {**ONE_NAME, "pred": ALONE}, 1.0, "--classes Tumour"),
    ("capitals", both(tabled("Tumour", "tumour", "Stroma")), {"classification.accuracy": 1}, "", {OF_TWO: None}),
    ("capitals without classes", both(tabled("Tumour", "tumour", "Stroma")), 1.0, "--classes none"),
    *(("what is ambiguous is not scored if one class is left", {"ref": AMBIGUOUS, "pred": files}, 1.0, options)
      for files, options in (
          ({"a.tif": LOWEST, "a.csv": "id,class\n3,Tumour\n"}, ""),
          ({"a.tif": LOWEST, "a.csv": "id,class\n3,Tumour\n"}, "--classes none"), ({"a.tif": LOWEST}, ""),
      )),
    *(("who calls a nucleus ambiguous misses it", sides, MISSED, options) for sides, options in (
        (NOT_SCORED, ""), (NOT_SCORED, "--classes none"), (NOT_SCORED_AS_CODES, "--classes none"),
    )),
    ("more that is ambiguous", {
        **NOT_SCORED, "pred": named("tumour", "tumour", "stroma", "ambiguous", "Ambiguous"),
    }, 1.0, "", {"2 of 5 nuclei of a class that is not scored ('Ambiguous')": 1}),
    ("ambiguous in the prediction alone", PLAIN, 1.0, "",
     {"the class 'Ambiguous' is not in the reference": 1, "--classes 'tumour=Ambiguous,stroma'": 1}),
    ("ambiguous as another name", PLAIN, {"classification.accuracy": 1}, "--classes tumour=ambiguous,stroma"),
    *(("ambiguous as a class", NOT_SCORED, "biguous', which marks unscored regions in the reference",
       f"--classes {classes}") for classes in ("tumour,stroma,Ambiguous", "tumour=ambiguous,stroma")),
    ("a class called 0", {"ref": MAPPED, "pred": tabled("1", "1", "0")}, {"classification.accuracy": 2 / 3}, "",
     {"the class '0' is not in the reference": 1}),
    ("a class called 0 by another name", {"ref": MAPPED, "pred": tabled("1", "1", "0")},
     {"classification.accuracy": 1}, "--classes one=1,two=2=0"),
    ("maps go before tables", both({**MAPPED, **TTS}), 1.0, "", {
        f"[file-not-read] 'pred/a.csv', 'ref/a.csv': {NO_TABLE} class maps such as 'a_class.tif' go before tables": 1,
        "classes '1' and '2'": None,
    }),
    ("line ends of an old Mac", both({"a.tif": R, "a.csv": str(TTS["a.csv"]).replace("\n", "\r")}), 1.0, "",
     {OF_TWO: None}),
    ("a table that cannot be read", {
        "ref": {"a.tif": R, "a.csv": "id,class\n1,A\n2,A\n1,B\n"}, "pred": ALONE,
    }, 1.0, "", {
        f"[file-not-read] 'ref', 'a.csv', line 4: {NO_TABLE} the id '1' again, with another class": 1,
        "No class table of this side is used; correct it if its classes are to count.": 1,
        "One class: the reference has no classes.": 1,
    }),
    *((f"tables of something else {options}", {
        "ref": {"a.tif": R, "b.tif": R}, "pred": {"a.tif": R, "b.tif": R, "a.csv": rows, "b.csv": rows},
    }, 1.0, options, {f"[file-not-read] 'pred', 'a.csv', line 2: {NO_TABLE} the id": 1 - bool(options)})
      for rows in ("id,class\ncell-1,tumour\ncell-2,stroma", "label,area,type\n0,9,\n1,9,\n2,9,")
      for options in ("", "--classes none")),
    ("a fault of a table names its file", both(TTS), "'ref/a.csv', line 2, line 3: 'Tumour' is not a class",
     "--classes Stroma,Immune",
     {"The reference has a fault, or does not fit the options: see the lines above.": 1, "rganiser": 0}),
    ("a fault names the file as it is", both({f"a_mask{end}": TTS[f"a{end}"] for end in (".tif", ".csv")}),
     "'ref/a_mask.csv', line 2, line 3: 'Tumour' is not a class", "--classes Stroma,Immune", {}),
    *((f"an empty class in the {side}", {**both(TTS), side: tabled("Tumour", "Tumour", "")}, expected, options,
       {"Or ignore classes: --classes none.": None} if not options else {})
      for side in ("ref", "pred")
      for expected, options in (("1 nucleus has no class in the class table (ids '3')", ""), (1.0, "--classes none"))),
    ("a name twice", both(ALONE), "the classes 'a=b,B' with 'B' twice; expected names, each once", "--classes a=b,B"),
]  # fmt: skip


FORMS_OF_CLASSES = (
    "{image}/{name}.tif", "{name}/{image}.tif", "{image}_{name}.tif", "{name}_{image}.tif", "{image}/{name}/1.tif",
    "{image}/{name}/{image}_{name}.tif", "{name}/P1/{image}.tif", "P1/{image}/{name}.tif",
    "{image}/{name}_{image}.tif",
)  # fmt: skip
TWO = ("lymphocyte", "epithelial")  # of nucleus 2, and of the others
ASSUMED = "is an image, and not a class of one, name it otherwise: "


def doubled(labels: np.ndarray, image: str) -> np.ndarray:
    """Each nucleus twice, so that no file has the mask of a single one; turned for the second image."""
    both = np.hstack([labels, np.where(labels, labels + 10, 0)]).astype(labels.dtype)
    return np.fliplr(both) if image == "b" else both


def of_classes(form: str, names: tuple[str, str] = TWO, write: Callable[..., Any] = as_is, *images: str) -> OfSide:
    """A file for each image and class."""

    def part(image: str, labels: np.ndarray, name: str) -> Any:
        labels = doubled(labels, image)
        return write(np.where((labels % 10 == 2) == (name == names[0]), labels, 0).astype(labels.dtype))

    paths = {form.format(image=image, name=name): (image, name) for image in images or "ab" for name in names}
    both_sides = (("ref", R), ("pred", P))
    return {
        side: {path: part(image, labels, name) for path, (image, name) in paths.items()} for side, labels in both_sides
    }


def enlarged(labels: np.ndarray) -> np.ndarray:
    return np.kron(labels, np.ones((4, 4), labels.dtype))


def whole(labels: np.ndarray) -> OfSide:
    return {"pred": {f"{image}.tif": doubled(labels, image) for image in "ab"}}


WITH_CLASSES = {"detection.f1": 0.8, "classification.balanced_accuracy": 1}
LAYOUTS["a file for each class"] = [
    *((form, of_classes(form), WITH_CLASSES, more, {"classes 'epithelial' and 'lymphocyte'": 2})
      for form in FORMS_OF_CLASSES for more in ("", "--save-challenge kept")),
    *((f"{form} as one class", of_classes(form), 0.8, "--classes none", {"share": 0}) for form in FORMS_OF_CLASSES),
    *((f"{form} beside a reference without classes", {**of_classes(form), "ref": whole(R)["pred"]}, 0.8, "",
       {"the prediction has classes, the reference does not": 1}) for form in FORMS_OF_CLASSES[:4]),
    *((f"{form} beside a prediction without classes", {**of_classes(form), **whole(P)}, 0.8, "",
       {"the reference has classes, the prediction does not": 1}) for form in FORMS_OF_CLASSES[:4]),
    ("other words, by their pixels", of_classes("{image}/{name}.tif", ("positive", "negative"), enlarged), WITH_CLASSES,
     "", {f"If 'a/negative.tif' {ASSUMED}'a-negative'": 1}),
    ("named otherwise", of_classes("{image}-{name}.tif"), 5 / 6, "", {"4 images as label_image, no": 2}),
    ("other words, of which pixels say nothing", of_classes("{image}/{name}.tif", ("positive", "negative")), 0.8, "",
     {"4 images as": 2, "'negative' and 'positive' are read as images. If they are classes: --classes 'neg": 1}),
    ("the same, which are asked for", of_classes("{image}/{name}.tif", ("positive", "negative")), WITH_CLASSES,
     "--classes positive,negative", {"are read as images": 0}),
    ("names with numbers", of_classes("{image}/{name}.tif", ("CD8", "CD3")), WITH_CLASSES, "--classes CD8,CD3"),
    *(("a nucleus of each class in each image", both({
        form.format(image=image, name=name): lambda n, own=own: np.where(n == own, n, 0)
        for image in "ab" for own, name in ((1, "tumour"), (3, "stroma"))
    }), 2 / 3) for form in FORMS_OF_CLASSES),
    ("patients", of_classes("{name}/{image}.tif", ("P1", "P2")), 5 / 6, "", {"means over 2 patients": 1}),
    ("images of two patients, whose nuclei share pixels", both({
        f"{patient}/{place}.tif": lambda n, y=y: np.roll(enlarged(n), y, 0) for patient in ("anna", "bert")
        for place, y in (("left", 0), ("right", 9))
    }), 0.8, "", {"4 images as": 2, "are read as images": 0}),
    ("one class alone is found", {
        "ref": of_classes("{image}/{name}.tif")["ref"],
        "pred": {path: of for path, of in of_classes("{image}/{name}.tif")["pred"].items() if TWO[1] in path},
    }, {"detection.recall": 1 / 3, "detection.precision": 1}),
    ("two of three classes are one", both({
        f"{image}_{name}.tif": lambda n, number=number: np.where(n == number, n, 0)
        for image in "ab" for number, name in ((1, "tumour"), (2, "stroma"), (3, "plasma"))
    }), {"detection.f1": 0.8, "classification.balanced_accuracy": 1}, "--classes one=tumour=stroma,plasma"),
    ("all classes are one, and not scored what is ambiguous", {
        "ref": {"a_tumour.tif": np.where(R == 1, R, 0), "a_stroma.tif": np.where(R == 2, R, 0),
                "a_ambiguous.tif": np.where(R == 3, R, 0), "b_tumour.tif": R},
        "pred": {"a_tumour.tif": np.where(R == 1, R, 0), "a_stroma.tif": np.where(R == 1, 0, R), "b_tumour.tif": R},
    }, 1.0, "--classes none"),
    ("classes that share pixels as one", {
        "ref": {"a.tif": R}, "pred": {"a_tumour.tif": np.where(R == 2, 0, R), "a_stroma.tif": R[::1] * (R < 3)},
    }, 1.0, "--classes none", {"taken as one share 100 pixels: the first has them": 1}),
    *((f"outlines in {form}", both({form.format(image=image, name=name): lambda n, k=k: outlines(np.where(n == k, n, 0))
       for image in "ab" for k, name in ((1, "tumour"), (2, "stroma"))}), WITH_CLASSES | {"detection.f1": 1}, "",
       {"classes 'stroma' and 'tumour'": None})
      for form in ("{image}/{name}/1.geojson", "{image}/{name}.geojson", "{name}/{image}.geojson")),
]  # fmt: skip


# --- what does not fit ------------------------------------------------------------------------------------------------


def download(folder: str, *outputs: str) -> Files:
    """What the platform offers: a list of jobs, and a folder named by the key of each job."""
    jobs, files = [], {}
    for pk, name, labels in (("80873d95", "a.tif", R), ("d112c34d", "b.tif", P)):
        image = {"image": {"pk": "532ea0ef", "name": name}, "interface": {"slug": "tissue"}}
        jobs.append({"pk": pk, "inputs": [image], "outputs": [], "status": "Succeeded"})
        files |= {f"{folder}{pk}/output/{output}": labels for output in outputs}
    return {f"{folder}predictions.json": jobs, **files}


NO_FIT = "Save the prediction at the size of the annotated image."
LAYOUTS["what does not fit"] = [
    *((advice, {"ref": {"a.tif": R}, "pred": {"a.tif": labels}},
       f"{labels.shape[0]} x {labels.shape[1]} px; expected 40 x 60 px", "--save-challenge kept",
       {advice: None, " tried): ": 0 if advice == NO_FIT else None})
      for labels, advice in (
          (R.T, "Transposed, IoU > 0.5 for 100% of the nuclei (1 image was tried): height and width are swapped."),
          (np.kron(R, np.ones((2, 2), np.uint16)), "Resized, IoU > 0.5 for 100%"),
          (np.kron(R, np.ones((3, 2), np.uint16)), "Resized, IoU > 0.5 for 100%"),
          (np.pad(R, ((0, 1), (0, 1))), "Aligned with the upper left corner of the reference, IoU > 0.5 for"),
          (np.pad(R, ((4, 4), (3, 3))), "Centred on the reference, IoU > 0.5 for 100%"),
          (np.pad(R, ((0, 3), (9, 0))), "Moved by -9 px in x and 0 px in y, IoU > 0.5 for 100%"),
          (R[1:], "Aligned with the lower right corner of the reference, IoU > 0.5 for 100%"),
          (np.ones((61, 41), np.uint16), NO_FIT), (np.zeros((61, 41), np.uint16), NO_FIT),
      )),
    ("images of one side", {"ref": {"a.tif": R, "b.tif": R}, "pred": {"a.tif": R, "stranger.tif": R}},
     {"detection.recall": 0.5}, "", {
         "[not-paired] prediction 'pred', 'b': no prediction": 1, "missing-case": 0,
         "[not-paired] prediction 'pred', 'stranger': no reference": 1,
     }),
    ("names without anything in common", pred({"xaya.tif": R, "xbyb.tif": R}, "a", "b"),
     "names such as 'xaya' or 'xbyb'; expected names of the reference, such as 'a' or 'b'"),
    ("nothing there", {"ref": {"a.tif": R}}, "[missing-option]"),
    ("half of a list of jobs", {
        "ref": {"a.tif": R, "b.tif": R}, "pred": download("", "nuclei.tif") | {"predictions.json": b'[{"pk": "80'},
    }, "[not-json] 'predictions.json'"),
    ("pictures beside the labels, and notes", {
        "ref": {"a.tif": R}, "pred": {"a.tif": R, "overlay/a.png": rgb(0 * R), "notes.txt": "made on Monday"},
    }, 1.0, "", {"[file-not-read] 'pred/overlay/a.png': a picture in colour": 1, "notes": 0}),
    *((told, pred({name: content}), f"no labels, but '{name}', {told}") for name, content, told in (
        ("a.png", rgb(0 * R), "a picture in colour"), ("a.tif", b"", "an empty file"),
        ("a.tif", b"<!DOCTYPE html><p>", "a web page (HTML), such as the error of a"),
        ("inner.zip", zipped("a", []), "a ZIP, which is not opened"),
    )),
    ("one of several predictions is rejected", {
        "ref": {"a.tif": R}, "good": {"a.tif": R}, "bad": {"a.tif": -R.astype(np.int16)},
    }, "Prediction rejected: [negative-label] prediction 'bad', case 'a', 'bad/a.tif':", "ref good bad"),
    ("the only prediction is rejected", {"ref": {"a.tif": R}, "bad": {"a.tif": -R.astype(np.int16)}},
     "Prediction rejected: [negative-label] case 'a', 'bad/a.tif':", "ref bad"),
    *((f"a download {folder}", {"ref": {"a.tif": R, "b.tif": R}, "pred": download(folder, "nuclei.tif")}, 0.9, "",
       {"[": 0}) for folder in ("", "download/")),
    ("a download with several outputs", pred(download("", "nuclei.tif", "tissue.tif")),
     "several outputs of each job, such as 'nuclei.tif' and 'tissue.tif'; expected one output"),
]  # fmt: skip


BORDERS = {"[background-is-nucleus]": None}
TESSELLATION = np.kron(np.arange(1, 31).reshape(5, 6), np.ones((8, 10), int)).astype(np.uint16)
RING = np.where(grey_dilation(R, (3, 3)) > 0, np.where(R > 0, 1, 2), 0).astype(np.uint8)
GREY_EDGES = np.where(RING == 2, 100, np.where(RING == 1, 255, 0)).astype(np.uint8)
DRAWN = np.where(RING == 2, 255, 0).astype(np.uint8)
APART = np.zeros((H, W), np.uint8)
APART[2:6, 2:6] = APART[2:6, 40:44] = 7
APART[20:24, 20:24] = 9
VERTICES = [(x, y, cell) for cell, (x, y) in enumerate(((5, 5), (30, 5), (10, 25)), 1) for x, y in
            ((x, y), (x + 6, y), (x + 6, y + 6), (x, y + 6))]  # fmt: skip


def npz(**arrays: np.ndarray) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def rows_of(header: str, *rows: tuple) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


def with_region(where: dict[str, Any], *classes: str) -> Callable[[np.ndarray], str]:
    """Six and more squares of nuclei, and an outline round all of them; the classes of both."""
    squares = [square(4 + 8 * n, 4, 8 + 8 * n, 8) for n in range(7)]
    names = [{"classification": {"name": name}} for name in classes] or [{}, {}]
    properties = [*names[:1] * len(squares), names[1]]
    features = [
        {"type": "Feature", "properties": own, "geometry": one}
        for own, one in zip(properties, (*squares, where), strict=True)
    ]
    return lambda labels: json.dumps({"type": "FeatureCollection", "features": features})


def cells_and_nuclei(labels: np.ndarray) -> str:
    """A cell of 2 px more on each side round each nucleus."""
    features = []
    for label in np.unique(labels)[1:]:
        y, x = np.nonzero(labels == label)
        for name, px in (("Nucleus", 0), ("Cell", 2)):
            box = square(int(x.min()) - px, int(y.min()) - px, int(x.max()) + 1 + px, int(y.max()) + 1 + px)
            features.append({"type": "Feature", "properties": {"classification": {"name": name}}, "geometry": box})
    return json.dumps({"type": "FeatureCollection", "features": features})


LAYOUTS["labels that are no nuclei"] = [
    *((f"a background of {value} in {name}", both({name: lambda n, v=value: np.where(n, n, v).astype(np.uint8)}),
       {}, "", BORDERS) for value, name in ((9, "a.tif"), (200, "a.png"), (4, "a.npy"))),
    ("inverted on both sides", both({"a.png": lambda n: 255 - mask(n)}), {}, "", BORDERS),
    ("inverted in the reference", {"ref": {"a.png": lambda n: 255 - mask(n)}, "pred": {"a.tif": as_is}}, {}, "",
     BORDERS),
    ("a background that is left out", both({"a.tif": lambda n: np.where(n, n, 9).astype(np.uint8)}), 0.8, "--ignore 9",
     {"borders": 0}),
    ("two values, one of them the background", both({"a.png": lambda n: np.where(n, 1, 2).astype(np.uint8)}), {}, "",
     {"scipy.ndimage.label(labels != 2)[0]": None, "--ignore": 0}),
    ("nuclei and cells of several images", both({"y.npy": lambda n: np.stack([np.dstack([cells_of(n), n])] * 2)}),
     "such as channel 1 with the smaller labels: numpy.save('labels.npy', numpy.load('y.npy')[..., 1])"),
    *((f"background {value} in predictions alone", pred({"a.tif": lambda n, v=value: np.where(n, n + (v == 1), v)}),
       0.8, f"--ignore {value} --save-challenge kept", {"of predictions is their background": 1})
      for value in (1, 3, 99)),
    ("a tessellation has no background", both({"a.tif": TESSELLATION}), 1.0, "", {"borders": 0}),
    ("an id in two places", pred({"a.tif": lambda n: APART}), {}, "", {"[scattered-id]": 1, "8 bits": 0}),
    ("a contour", both({"a.png": np.tile(RING, (2, 2))}), "If it is a contour"),
    ("a contour of 4 px", both({"a.png": np.tile(byte(np.where(RING, 2 - (erosion(R, (7, 7)) > 0), 0)), (2, 2))}),
     "the value '2', around the regions of other values"),
    ("two models in a folder", pred({f"a.{model}.tif": as_is for model in ("cellpose", "stardist")}),
     "two files for one image, 'a.cellpose.tif' and 'a.stardist.tif'"),
    ("names of columns that no tool has", pred({"a.csv": rows_of("x_in_image,y_in_image", (3, 4))}),
     "the columns 'x_in_image' and 'y_in_image', not read; name the columns of points x and y"),
    *((f"a file of {what}", pred({f"a.{suffix}": head + bytes(64)}), what) for suffix, head, what in (
        ("nhdr", b"NRRD0004\n", "an NRRD header without its data"), ("webp", b"RIFF\0\0\0\0WEBP", "a WebP image"),
        ("pgm", b"P5\n40 60\n255\n", "a PGM or PPM image"), ("tif", b".git/annex/objects/x", "a git-annex pointer"),
        ("png", b"../.git/annex/objects/x", "a symbolic link saved as text"),
    )),
    ("a grey edge", both({"a.png": GREY_EDGES}), "Threshold the mask: 0 below 128", "", {"[mask-edges]": 1}),
    ("outlines that are drawn", ref({"a.png": DRAWN}), "Fill the outlines"),
    ("a row for each vertex", pred({"a.csv": rows_of("x,y,polygon_id", *VERTICES)}), "('polygon_id' repeats)"),
    ("points of three classes", both({"a.csv": rows_of("x,y,label", *VERTICES)}), 1.0),
    ("a region round seven nuclei", both({"a.geojson": with_region(square(0, 0, 60, 40))}), 1.0, "",
     {"around more than five nuclei": None}),
    ("cells round nuclei", {"ref": {"a.geojson": cells_and_nuclei}, "pred": {"a.tif": P}}, 0.5, "",
     {"[nested-classes]": 1}),
    ("nuclei alone", {"ref": {"a.geojson": cells_and_nuclei}, "pred": {"a.tif": P}}, 0.8, "--leave-out Cell",
     {"[nested-classes]": 0}),
    ("a class that is called nucleus", both({"a.geojson": lambda n: cells_and_nuclei(n).replace("Nucleus", "nucleus")}),
     0.8, "", {"classes 'nucleus' and 'Cell'": None}),
    ("a region of another class", both({"a.geojson": with_region(square(0, 0, 60, 40), "Nucleus", "Tumor")}), 1.0, "",
     {"around more than five nuclei": None, "[nested-classes]": 0}),
    *((f"two label images for one image, {form}", both({form.format("a", kind): as_is for kind in kinds}), 0.8, "",
       {"are read as two images. If they are nuclei and cells of one image": 1})
      for form, *kinds in (("{}_{}.tif", "nuclear", "whole_cell"), ("{1}/{0}.tif", "nuclei", "cells"))),
    *((f"a text in {code}", ref({"a.csv": rows_of("x,y", (3, 4)).encode(code)}), "text in UTF-16: save it as UTF-8")
      for code in ("utf-16", "utf-16-le", "utf-16-be")),
    ("NaN as background", both({"a.npy": lambda n: np.where(DOTS, DOTS, np.nan)}), "[not-finite] case 'a', 'ref/a"),
    ("pixels by row and column", ref({"a.csv": rows_of("row,col,label", (3, 4, 1), (3, 5, 1))}),
     "places by row and column, not read; name the columns y and x"),
    ("a data set of TissueNet", both({"a.npz": lambda n: npz(X=np.dstack([n, n]), y=n)}),
     "'X' has the pictures and 'y' the labels, as in TissueNet: numpy.save('labels.npy', numpy.load(path)['y'])"),
    ("several kinds of files, none of which has labels", both({
        "dataset.json": {"channel_names": {}}, "a.png": rgb(0 * R), "b.png": rgb(0 * R)
    }), "no labels, but 'a.png', a picture in colour (1 more alike and 1 of other kinds)"),
    ("a stain each", {"ref": {"a1.tif": R, "a2.tif": R}, "pred": {f"a{n}_{stain}.tif": P for n in (1, 2) for stain in
     ("dapi", "actin")}}, "If 'a1_actin.tif' and 'a1_dapi.tif' are two label images for one image"),
    ("tiles", {"ref": {"slide.tif": R}, "pred": {f"slide_x0_y{n}.tif": P for n in (0, 20)}}, "may be tiles of 'slide'"),
]  # fmt: skip


@pytest.mark.parametrize("subject", LAYOUTS)
def test_layouts_get_their_score_or_are_told(subject: str, tmp_path: Path, monkeypatch, capsys) -> None:
    wrong = []
    for number, (why, *row) in enumerate(LAYOUTS[subject]):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        wrong += [f"{why}: {difference}" for difference in differences(capsys, *row)]
    assert not wrong, "\n".join(wrong)


# --- more than a score ------------------------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What is printed of a comparison that gives scores."""
    assert run(["compare", "ref", "pred", *more]) == 0
    return "".join(capsys.readouterr())


def run_call(told: str, output: str) -> None:
    """Run the command that was told, with this output."""
    call = re.search(r"This converts a file: evaluation (convert .*)$", told)
    assert call, told
    words = shlex.split(call[1])
    assert run([output if word == "OUTPUT" else word for word in words]) == 0
    Path(words[1]).unlink()


def test_explain_says_as_what_each_file_was_read_and_why(capsys) -> None:
    told = {
        "  2 files read as label_image (it begins like an image), such as 'ref/000_masks.tif'",
        "  2 files not read (a picture, next to its masks), such as 'ref/000_img.tif'",
    }
    lay_out(both({f"{n}_{end}.tif": of for n in ("000", "001") for end, of in (("img", GREY), ("masks", as_is))}))
    assert not told & set(printed(capsys).splitlines())
    assert told <= set(printed(capsys, "--explain").splitlines())


@pytest.mark.parametrize("with_index", [False, True])
def test_validate_and_score_look_results_up_as_well(with_index: bool, capsys) -> None:
    """With the ids of the reference, or without it by ``index`` of cases.csv."""
    lay_out(both({"all.json": coco("a.tif", "b.tif")}) | {"results": {"all.json": results("a.tif", "b.tif")}})
    printed(capsys, "--save-challenge", "challenge")
    if with_index:
        cases = Path("challenge/cases.csv").read_text().splitlines()
        rows = [f"{row},{index}" for row, index in zip(cases, ("index", 7, 8), strict=True)]
        Path("challenge/cases.csv").write_text("\n".join(rows) + "\n")
        Path("challenge/reference/all.json").rename("hidden.json")
    assert run(["validate", "--challenge", "challenge", "--submission", "results"]) == 0, capsys.readouterr()
    if with_index:
        Path("hidden.json").rename("challenge/reference/all.json")
    assert run(["score", "--challenge", "challenge", "--submission", "results", "--output", "out"]) == 0
    assert f1_in("out") == 0.8


@pytest.mark.parametrize("name, content", [
    ("P1/a.png", coloured),
    ("a.png", lambda n: np.dstack([byte(n), np.zeros((H, W, 2), np.uint8), np.full((H, W), 255, np.uint8)])),
])  # fmt: skip
def test_what_colours_could_mean_is_said_with_a_call_that_does_it(name: str, content, capsys) -> None:
    lay_out(pred({name: content}))
    run_call(str(compared(capsys)[0]), "pred/a.tif")
    assert compared(capsys)[0] == 0.8


@pytest.mark.parametrize("name, channel, stacked", [
    ("a.tif", 0, lambda n: np.stack([n, cells_of(n)]).astype(np.float32)),  # of InstanSeg
    ("a.npy", 0, lambda n: np.stack([n, cells_of(n)])[None].astype(np.float32)),
    ("a.npy", 1, lambda n: np.dstack([cells_of(n), n])[None].astype(np.int32)),  # of Mesmer
    ("a.npy", 1, lambda n: np.dstack([cells_of(n), n])),
])  # fmt: skip
def test_of_nuclei_and_cells_the_call_that_is_told_takes_the_nuclei(name, channel, stacked, capsys):
    lay_out(pred({name: stacked}))
    told = str(compared(capsys)[0])
    assert f"{CHANNELS}, as InstanSeg's and Mesmer's of nuclei and cells; expected" in told
    assert f"such as channel {channel} with the smaller labels" in told
    run_call(told, "pred/b.tif")
    Path("pred/b.tif").rename("pred/a.tif")
    Path("pred/b_class.tif").unlink(missing_ok=True)
    assert compared(capsys)[0] == 0.8


@pytest.mark.parametrize("scale", [0.25, 0.5])
def test_um_are_asked_about_with_the_call_that_makes_px(scale: float, capsys) -> None:
    shapes = [polygon([[x * scale, y * scale] for x, y in box(P, own)]) for own in (1, 2)]
    lay_out(pred({"a.geojson": collection(*(of_qupath("annotation", shape) for shape in shapes))}))
    told = " ".join(printed(capsys).split())
    assert f"are these µm? If so, multiply them by {1 / scale:g}. This converts a file: " in told
    run_call(re.search(f"This converts a file: .* scale={1 / scale:g}", told)[0], "pred/b.geojson")
    assert compared(capsys)[0] == 0.8


OF_ONE_FILE = {
    "equal channels": ("a.png", rgb, ""),
    "masks of nuclei": ("a.npy", planes, ""),
    "ids and classes": ("a.npy", lambda n: np.dstack([n, np.where(n > 0, 5 - n, 0)]), ""),
    "codes as Kaggle counts them": ("a.csv", codes("a"), ""),
    "a picture": ("a.tif", GREY, "its values change from pixel to pixel"),
    "two images": ("a.npy", lambda n: np.stack([n, moved(n)]), "2 images: 'image_0' and 'image_1'"),
}


@pytest.mark.parametrize("form", OF_ONE_FILE)
def test_convert_reads_of_a_file_what_compare_reads(form: str, capsys) -> None:
    name, content, refused = OF_ONE_FILE[form]
    lay_out(pred({name: content}))
    code = run(["convert", f"pred/{name}", "out/a.tif", "--to", "label_tiff"])
    told = "".join(capsys.readouterr())
    assert (code != 0) == bool(refused) and refused in told
    if not refused:
        assert compared(capsys, "ref/a.tif out/a.tif")[0] == 0.8
    if form == "ids and classes":
        assert np.array_equal(tifffile.imread("out/a_class.tif"), np.where(P > 0, 5 - P, 0))


def test_where_the_page_goes_is_told_to_those_who_name_one(capsys) -> None:
    lay_out(both({"a.tif": as_is}))
    for place in ("ref pred --report cmp.html", "--report cmp.html ref pred"):
        assert run(["compare", *place.split()]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert "the page is compare.html in the folder of --output, or here. Remove 'cmp.html'" in told


@pytest.mark.parametrize("images", [1, 2])
def test_of_one_image_no_mean_is_spoken_of(images: int, capsys) -> None:
    lay_out(both({f"{number}.tif": as_is for number in range(images)}))
    assert ("mean" in printed(capsys)) == (images > 1)
    assert ("mean" in repr(evaluation.compare(Path("ref"), Path("pred")))) == (images > 1)


# --- init looks by the same reader ------------------------------------------------------------------------------------


@pytest.mark.parametrize("picture, mask_file, pattern", [
    ("{}.tif", "{}_masks.tif", "{case}_masks.tif"),
    ("{}_img.tif", "{}_label.tif", "{case}_label.tif"),
    ("images/{}.tif", "masks/{}.tif", "masks/{case}.tif"),
    ("{0}/image.tif", "{0}/{0}.tif", "{case}/{case}.tif"),
])  # fmt: skip
def test_init_takes_no_picture_for_a_reference(picture: str, mask_file: str, pattern: str, capsys) -> None:
    files = {form.format(name): of for form, of in ((picture, GREY), (mask_file, R)) for name in "ab"}
    lay_out({"mine/reference": files})
    assert run(["init", "mine"]) == 0, capsys.readouterr()
    rows = Path("mine/cases.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["a", "b"]
    assert f'files = "reference/{pattern}"' in Path("mine/challenge.toml").read_text()


@pytest.mark.parametrize("form", FORMS_OF_CLASSES)
def test_init_writes_the_pattern_of_files_of_classes(form: str, capsys) -> None:
    sides = of_classes(form)
    lay_out({"mine/reference": sides["ref"], "pred": sides["pred"]})
    assert run(["init", "mine"]) == 0, capsys.readouterr()
    assert run(["score", "--challenge", "mine", "--submission", "pred", "--output", "out"]) == 0, capsys.readouterr()
    assert f1_in("out") == pytest.approx(0.8)
    assert metrics_in("out")["classification"]["balanced_accuracy"]["group_mean"] == 1


@pytest.mark.parametrize("files, told", [
    ({"a_nuclei.tif": as_is, "a_cells.tif": as_is}, "'a_cells' and 'a_nuclei' are read as two images."),
    ({"a.npy": lambda n: np.where(n, n.astype(np.int32), -1)}, "[negative-label] case 'a', 'reference/a.npy'"),
])  # fmt: skip
def test_init_tells_what_it_assumes_and_what_cannot_be_scored(files: Files, told: str, capsys) -> None:
    lay_out({"mine/reference": {name: make(R) for name, make in files.items()}})
    assert run(["init", "mine"]) == 0
    assert told in capsys.readouterr().out


def test_init_says_how_pieces_become_a_challenge(capsys) -> None:
    lay_out({"mine/reference": a_file_each("{image}/masks/{n}.png")["ref"]})
    assert run(["init", "mine"]) == 2
    assert "evaluation compare REFERENCE REFERENCE --save-challenge DIR" in capsys.readouterr().err


def test_a_kept_challenge_without_what_is_not_annotated_is_refused(capsys) -> None:
    lay_out({"ref": {"a.npy": with_void(-1, "int32")}, "pred": {"a.tif": FOUND}})
    printed(capsys, "--ignore", "-1", "--save-challenge", "kept")
    rules = Path("kept/challenge.toml")
    rules.write_text(re.sub(r"ignore = \{.*", "ignore = { classes = [] }", rules.read_text()))
    assert run(["validate", "--challenge", "kept", "--submission", "kept/submissions/pred"]) == 3
    assert "reference.not_annotated" in capsys.readouterr().err


NAMES = np.array(["", "a", "b", "a", "Void"])
VOIDED = {
    "label": (with_void(255, "int32"), FOUND, [255]),
    "label below 0": (with_void(-1, "int32"), np.where(FOUND == 9, -1, FOUND.astype(np.int32)), -1),
    "two labels": (np.where(VOID & (np.indices(VOID.shape)[1] > 40), 77, with_void(-1, "int32")), FOUND, ["-1", 77]),
    "background of predictions": (R, np.where(P, P + 1, 1), 1),
    "background of a number that is none of the reference": (R, np.where(P, P, 99), "99"),
    "class of labels": ((with_void(4, "int32"), ["a", "b", "a", "Void"]), (FOUND, ["a", "b", "a"]), ["VOID"]),
    "class by label": (
        (with_void(4, "int32"), {1: "a", 2: "b", 3: "a", 4: "Void"}), (FOUND, {1: "a", 2: "b", 9: "a"}), "void",
    ),
    "class of pixels": (
        (with_void(4, "int32"), NAMES[with_void(4, "int32")]), (FOUND, NAMES[np.minimum(FOUND, 3)]), ["Void"],
    ),
    "number of a class": ((with_void(4, "int32"), [1, 2, 1, 6]), (FOUND, [1, 2, 1]), [6]),
    "list of images": ([with_void(255, "int32"), R], [FOUND, P], [255]),
}  # fmt: skip


def test_arrays_and_paths_leave_out_what_is_not_annotated() -> None:
    lay_out({"ref": {"a.npy": with_void(-1, "int32")}, "pred": {"a.tif": FOUND}})
    for form, (reference, prediction, ignore) in {**VOIDED, "paths": ("ref", "pred", -1)}.items():
        found = evaluation.compare(reference, prediction, ignore=ignore)
        assert found.value("detection.f1.group_mean") == pytest.approx(0.8), form


def test_what_is_nothing_to_leave_out_is_refused() -> None:
    lay_out(both({"a.tif": as_is}))
    for sides, ignore, words in (
        *((VOIDED["label"][:2], ignore, "0 is the background") for ignore in (0, ["255", "0"])),
        (VOIDED["label"][:2], [255, "lymph"], "'lymph' is no label and no class of the reference"),
        (VOIDED["class of pixels"][:2], ["Void", "lymph"], "'lymph' is no label and no class of the reference"),
        (("ref", "pred"), 0.5, "expected labels or classes of the reference"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluation.compare(*sides, ignore=ignore)


# --- files before words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["compare", "leaderboard"])
def test_a_reader_who_closes_the_pipe_loses_no_file(command: str) -> None:
    lay_out(both({"a.tif": as_is}))
    if command == "leaderboard":
        assert run(["compare", "ref", "pred", "--save-challenge", "kept"]) == 0
        ask = ["--challenge", "kept", "--submissions", "kept/submissions", "--output", "out", "--store", "stored"]
        expected = {"out/leaderboard.html", "out/leaderboard.json", "stored/pred.json"}
    else:
        ask = ["ref", "pred", "--output", "out", "--save-challenge", "kept"]
        expected = {"out/compare.html", "out/metrics.json", "out/images.csv", "kept/challenge.toml"}
    reading, writing = os.pipe()
    os.close(reading)
    asked = [sys.executable, "-m", "evaluation", command, *ask, "--report"]
    done = subprocess.run(asked, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert {name for name in expected if not Path(name).is_file()} == set()


# --- the inside does not show -----------------------------------------------------------------------------------------

INSIDE = re.compile(r"1,?048,?576|\b3000\d\b|cases\.csv|challenge\.toml|limits\.|[Oo]rganisers")


def hostile_inputs() -> Files:
    """What a side may be, beside one label image of the same name."""
    deep = "[" * 100 + "]" * 100
    ring = [[1, 1], [9, 1], [9, 9], [1, 1]]
    feature = {"type": "Feature", "properties": {}, "geometry": polygon(ring)}
    many = {**feature, "geometry": {"type": "MultiPolygon", "coordinates": [[ring]] * 12}}
    return {
        "a.npy": np.full((H, W), 0.5),
        "a.tif": np.zeros((H, W + 9), np.uint8),
        "a.png": np.zeros((H, W), np.uint8),
        "a.json": {"type": "Multiple polygons", "polygons": 7},
        "a.geojson": collection({**feature, "geometry": polygon([[2**21, 1], [2**21 + 9, 1], [2**21, 9]])}),
        "tiny/a.geojson": collection({**feature, "geometry": polygon([[1.1, 1.1], [1.2, 1.1], [1.1, 1.2]])}),
        "many/a.geojson": collection(many, feature),
        "deep/a.geojson": f'{{"type": "FeatureCollection", "features": {deep}}}',
        "none/a.geojson": collection({**feature, "geometry": None}),
        "rle/all.csv": "ImageId,EncodedPixels\na,1 99999999\n",
        "long/all.csv": "ImageId,EncodedPixels,Height,Width\na,2390 60,40,60\n",
        "points/a.csv": "x,y\n1,2\nnan,3\n",
        "bare/a.csv": "12,7\n1,2\n",
        "other/b.tif": P,
        "pannuke/all.npy": np.zeros((1, H, W, 2), np.int32),
        "masks/all.npy": np.zeros((1, H, W, 6), np.int32),
        "masks/a.npy": np.zeros((H, W, 3), np.int32),
        "colour/a.png": np.zeros((H, W, 3), np.uint8),
        "a.mat": b"MATLAB 5.0 MAT-file",
        "coco/a.json": {**coco_of(P, ("a.tif",)), "images": [{"id": 7, "file_name": "a.tif", "height": 3, "width": 2}]},
        "results/a.json": [{"image_id": 1, "category_id": 1, "segmentation": {"size": [4, 4], "counts": [4, 12]}}],
        "asap/a.xml": "<ASAP_Annotations><Annotations><Annotation Type='Spline'/></Annotations></ASAP_Annotations>",
        "aperio/a.xml": "<Annotations><Annotation><Regions><Region/></Regions></Annotation></Annotations>",
    }


@pytest.mark.parametrize(
    "side, options", [("ref", ""), ("pred", ""), ("pred", "--classes x=1,y=2 --metrics curves,objects")]
)
def test_what_is_told_of_any_files_speaks_of_no_challenge(side, options, tmp_path, monkeypatch, capsys) -> None:
    showing = []
    for number, (name, content) in enumerate(hostile_inputs().items()):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        lay_out((ref if side == "ref" else pred)({name.rpartition("/")[2]: content}))
        told = compared(capsys, options)[1]
        showing += [f"{name}: {told}"] if INSIDE.search(told) else []
    assert not showing


@pytest.mark.parametrize("form", ["points", "labels"])
def test_notes_and_the_page_of_a_comparison_speak_of_no_challenge_that_was_made(form: str, capsys) -> None:
    models = ["pred"]
    if form == "points":
        lay_out({"ref": {"a.csv": "x,y\n9,9\n35,9\n14,29\n"}, "pred": {"a.csv": "x,y\n9,9\n36,9\n"}})
    else:
        models += ["other", "shifted"]
        shifted = [of_qupath("annotation", square(x + 1, y + 1, x + 11, y + 11)) for y, x in ((5, 5), (5, 30))]
        lay_out({
            "ref": {"a.tif": as_is, "b.tif": as_is},
            "pred": {"a.tif": as_is, "strange.tif": as_is},
            "other": {"a_masks.tif": byte(np.where(R == 1, 255, R))},
            "shifted": {"a.geojson": collection(*shifted)},
        })  # fmt: skip
    assert run(["compare", "ref", *models, "--report", "--output", "out"]) == 0
    page = re.sub(r"(?s)<(script|style).*?</\1>|base64,[A-Za-z0-9+/=]*", "", Path("out/compare.html").read_text())
    assert not INSIDE.search(capsys.readouterr().out)
    assert not INSIDE.search(re.sub("<[^>]*>", " ", page))


@pytest.mark.parametrize("command", ["validate", "score --output o"])
def test_a_wrong_folder_for_the_challenge_is_named(command: str, capsys) -> None:
    lay_out({"photos": {"a.tif": R}})
    assert run([*command.split(), "--challenge", "photos", "--submission", "photos"]) == 2
    told = capsys.readouterr().err
    assert "'photos': it contains no challenge" in told
    assert not INSIDE.search(told)
