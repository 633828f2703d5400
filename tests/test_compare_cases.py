"""What people really have in their folders: layouts of public threads, none of which may get a wrong score.

The scene is always the same: an image of 40 x 60 px with three nuclei, of which two are predicted exactly: F1 is 0.8.
``../shared/data/compare_cases`` holds the inputs; the second half makes other members of each kind.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import tifffile
from every_format import write_files
from PIL import Image

import evaluation
from evaluation.authoring.compare import for_files
from evaluation.commands.main import run
from evaluation.findings import Finding, entry, texts, wording_of
from evaluation.formats.format import image_bytes

CASES = Path(__file__).parents[2] / "shared" / "data" / "compare_cases"
H, W = 40, 60
R = np.zeros((H, W), np.uint16)
R[5:15, 5:15], R[5:15, 30:42], R[25:33, 10:18] = 1, 2, 3
P = np.where(R == 3, 0, R).astype(np.uint16)
GREY = np.clip(30 + 150 * (R > 0) + np.random.default_rng(0).normal(0, 5, R.shape), 0, 255).astype(np.uint8)

# What each input gives: F1, or a part of the line that says what to do.
EXPECTED: dict[str, float | str] = {
    **dict.fromkeys(("picture_both", "picture_pred", "picture_ref"), 0.8),
    "picture_only": "'a.tif', a picture, since its values change from pixel to pixel",
    **dict.fromkeys(("coco_results", "coco_results_polygons", "livecell"), 0.8),
    **dict.fromkeys(("shared_case", "shared_ending", "shared_rle_png", "shared_roboflow"), 0.8),
    **dict.fromkeys(("file_per_nucleus", "file_per_nucleus_flat", "masks_nhw", "category_instance"), 0.8),
    **dict.fromkeys(("stack_bhw", "stack_bhw1", "zarr_sharded"), 0.8),
    "volume": "three-dimensional labels are not scored",
    "rgb_png": "If each colour is a nucleus",
    "rgba_first_channel": "If each colour is a nucleus",
    "copies": 4 / 7,
    "qupath_region": 0.8,
    "off_by_one": "Laid with its upper left corner on that of the reference, IoU > 0.5 for 67 %",
    "void_minus1": "Does -1 stand for background, or for what is not annotated?",
    "zarr_two_labels": "expected one array at full size. Name it",
    "cvat": "an XML export of CVAT, which is not read; export as COCO",
    "via": "a project of the VGG Image Annotator, which is not read; export as COCO",
    "labelstudio": "a JSON export of Label Studio, which is not read; export as COCO",
    "darwin": "an export of V7 Darwin, which is not read; export as COCO",
    **dict.fromkeys(("napari_points", "cellprofiler"), 0.8),
    "qupath_table": "measurements of QuPath in um, not read; export GeoJSON",
}


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> float | str:
    """F1 of a comparison, or the lines that say why there is none."""
    code = run(["compare", *(arguments or ("ref", "pred")), "--output", "out"])
    return capsys.readouterr().err if code else f1_in("out")


def f1_in(folder: str) -> float:
    return float(json.loads(Path(folder, "metrics.json").read_text())["detection"]["f1"]["group_mean"])


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What is printed of a comparison that gives scores."""
    assert run(["compare", "ref", "pred", *more]) == 0
    return "".join(capsys.readouterr())


def check(found: float | str, expected: float | str) -> None:
    if isinstance(expected, str):
        assert isinstance(found, str), f"a score of {found} where there is none"
        assert expected in found
    else:
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.skipif(not CASES.is_dir(), reason=f"no inputs in {CASES}: none of the layouts of public threads is tried")
@pytest.mark.parametrize("case", EXPECTED)
def test_a_layout_of_a_public_thread_gets_its_score_or_is_told(case: str, capsys) -> None:
    with zipfile.ZipFile(CASES / f"{case}.zip") as archive:
        archive.extractall()
    check(compared(capsys), EXPECTED[case])


@pytest.mark.parametrize("told", [
    "  2 files read as label_image (its first bytes are those of an image), such as 'ref/000_masks.tif'",
    "  2 files not read (a picture, beside which its masks lie), such as 'ref/000_img.tif'",
])  # fmt: skip
def test_explain_says_as_what_each_file_was_read_and_why(told: str, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        for image in ("000", "001"):
            put(f"{side}/{image}_img.tif", GREY)
            put(f"{side}/{image}_masks.tif", labels)
    assert told not in printed(capsys)
    assert told in printed(capsys, "--explain").splitlines()


# --- other members of each kind ---------------------------------------------------------------------------------------


def put(path: str, array: np.ndarray) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith((".tif", ".TIF", ".tiff")):
        tifffile.imwrite(
            path, array, photometric="rgb" if array.ndim == 3 and array.shape[2] in (3, 4) else "minisblack"
        )
    elif path.endswith(".npy"):
        np.save(path, array)
    elif path.endswith(".npz"):
        np.savez_compressed(path, labels=array)
    else:
        Image.fromarray(array).save(path)


def counts(mask: np.ndarray) -> list[int]:
    flat = mask.flatten(order="F")
    found, value = [0], False
    for pixel in flat:
        if pixel != value:
            found, value = [*found, 0], not value
        found[-1] += 1
    return found


def coco(labels: np.ndarray, names: tuple[str, ...], first: int = 7, **more: object) -> dict[str, list]:
    images = [{"id": first + n, "file_name": name, "height": H, "width": W} for n, name in enumerate(names)]
    annotations = [
        {
            "id": 100 * image["id"] + int(value),
            "image_id": image["id"],
            "category_id": 1,
            "segmentation": {"size": [H, W], "counts": counts(labels == value)},
            **more,
        }
        for image in images
        for value in np.unique(labels)[1:]
    ]
    return {"images": images, "categories": [{"id": 1, "name": "nucleus"}], "annotations": annotations}


def dump(path: str, thing: object) -> None:
    write_files(Path(), {path: thing})


def results(labels: np.ndarray, names: tuple[str, ...], first: int = 7) -> list[dict]:
    keys = ("image_id", "category_id", "segmentation", "score")
    return [{k: a[k] for k in keys} for a in coco(labels, names, first, score=0.5)["annotations"]]


@pytest.mark.parametrize("picture, mask", [
    ("a.png", "a_seg.png"),
    ("a.tif", "a_label.png"),
    ("a_raw.tif", "a_mask.tif"),
    ("images/a.tif", "masks/a.tif"),
    ("P1/Images/a.tif", "P1/Labels/a.tif"),
    ("img/a.png", "gt/a.tif"),
    ("photo_of_it.npy", "labels_of_it.npy"),
])  # fmt: skip
@pytest.mark.parametrize("sides", [("ref", "pred"), ("pred",)])
def test_masks_win_over_their_pictures(picture: str, mask: str, sides: tuple[str, ...], capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        put(f"{side}/{mask}" if side in sides else f"{side}/a.tif", labels.astype(np.uint8))
        if side in sides:
            put(f"{side}/{picture}", GREY)
    check(compared(capsys), 0.8)


@pytest.mark.parametrize("folders, sides, empty", [
    (("binary", "instance"), ("ref", "pred"), False),
    (("liver/mask binary", "liver/label masks"), ("ref", "pred"), True),
    (("semantic", "z"), ("ref", "pred"), False),
    (("binary", "instance"), ("ref",), True),
    (("semantic", "z"), ("pred",), True),
])  # fmt: skip
def test_labels_beside_a_folder_of_masks_of_their_foreground_are_taken(folders, sides, empty, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        for name in "ab":
            own = labels * (name == "b" or not empty)
            put(f"{side}/{folders[1]}/{name}.tif" if side in sides else f"{side}/{name}.tif", own)
            if side in sides:
                put(f"{side}/{folders[0]}/{name}.png", (255 * (own > 0)).astype(np.uint8))
    check(compared(capsys), 0.8)


@pytest.mark.parametrize("sides", [("ref", "pred"), ("ref",), ("pred",)])
@pytest.mark.parametrize("value", [1, 255])
def test_regions_of_masks_of_one_value_are_nuclei(sides, value: int, capsys) -> None:
    """Also if the first image has one nucleus, by which masks cannot be told from labels."""
    for side, labels in (("ref", R), ("pred", P)):
        put(f"{side}/0.png", value * (R == 1).astype(np.uint8))
        put(f"{side}/a.png", value * (labels > 0).astype(np.uint8) if side in sides else labels)
    told = printed(capsys, "--output", "out")
    assert f1_in("out") == pytest.approx(0.9)
    assert told.count("each region of touching pixels a nucleus") == len(sides)
    assert "[components]" in told


@pytest.mark.parametrize("sides", [("ref", "pred"), ("ref",), ("pred",)])
def test_regions_of_class_maps_are_nuclei_of_their_classes(sides, capsys) -> None:
    """Ten nuclei of two classes, of which nine are found, one of them as the other class."""
    labels = np.zeros((20, 100), np.uint8)
    for number in range(10):
        labels[5:12, 10 * number + 2 : 10 * number + 9] = number + 1
    of_class = np.where(labels > 0, 1 + labels % 2, 0).astype(np.uint8)
    other = np.where(labels == 4, 3 - of_class, of_class) * (labels != 9)
    for side, numbers in (("ref", of_class), ("pred", other.astype(np.uint8))):
        put(f"{side}/a.png", numbers if side in sides else labels * (numbers > 0))
    check(compared(capsys), 18 / 19)
    scores = json.loads(Path("out/metrics.json").read_text())
    assert ("classification" in scores) == (len(sides) == 2)
    if len(sides) == 2:
        assert scores["classification"]["accuracy"]["pooled"] == pytest.approx(8 / 9, abs=1e-6)


def test_a_mask_with_a_region_that_is_not_annotated_is_one(capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        mask = (labels > 0).astype(np.uint8)
        mask[-5:, -8:] = 255
        put(f"{side}/a.png", mask)
    assert "Does 255 stand for a nucleus" in printed(capsys)
    check(compared(capsys, "ref", "pred", "--ignore", "255"), 0.8)


def test_one_nucleus_in_every_image_is_no_mask(capsys) -> None:
    for side in ("ref", "pred"):
        put(f"{side}/a.png", (R == 1).astype(np.uint8))
    assert "touching pixels" not in printed(capsys)


def test_a_label_in_two_parts_beside_others_is_one_nucleus(capsys) -> None:
    put("ref/a.png", np.where(R == 3, 1, R))
    put("pred/a.png", np.where(R == 3, 1, R))
    assert compared(capsys, "ref", "pred") == 1
    lines = Path("out/objects.csv").read_text().splitlines()
    assert {line.split(",")[4] for line in lines if ",matched," in line} == {"1", "2"}


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "smooth"])
def test_a_picture_alone_is_refused(kind: str, capsys) -> None:
    put("ref/a.tif", R)
    picture = (GREY * (200 if kind == "uint16" else 1)).astype("uint8" if kind == "smooth" else kind)
    if kind == "smooth":
        from scipy.ndimage import gaussian_filter

        picture = gaussian_filter(180.0 * (R > 0) + 20, 2).astype(np.uint8)
    put("pred/a.tif", picture)
    check(compared(capsys), "a picture, since its values change")


@pytest.mark.parametrize("many", [1, 3000])
def test_dense_labels_are_no_picture(many: int, capsys) -> None:
    """Nuclei of 3 x 3 px that touch each other, also with ids in 8 bits."""
    dense = np.kron(np.arange(1, 20 * 20 + 1).reshape(20, 20), np.ones((3, 3), int))
    labels = (dense % 256 if many == 1 else dense * many % 65536).astype(np.uint16)
    put("ref/a.tif", labels)
    put("pred/a.tif", labels)
    check(compared(capsys), 1.0)


@pytest.mark.parametrize("names", [("a.tif",), ("a.tif", "b.tif")])
@pytest.mark.parametrize("zipped", [False, True])
def test_results_of_coco_are_looked_up_in_the_images_of_the_reference(names, zipped, capsys) -> None:
    dump("ref/instances.json", coco(R, names, first=139))
    dump("pred/segm.json", results(P, names, first=139))
    if zipped:
        with zipfile.ZipFile("pred.zip", "w") as archive:
            archive.write("pred/segm.json", "segm.json")
    check(compared(capsys, "ref", "pred.zip" if zipped else "pred/segm.json"), 0.8)


def test_results_of_coco_in_another_order_belong_to_the_image_of_their_id(capsys) -> None:
    both = coco(R, ("a.tif", "b.tif"))
    both["annotations"] = [a for a in both["annotations"] if a["image_id"] == 7]  # nothing in the second one
    dump("ref/gt.json", both)
    dump("pred/r.json", [{**one, "image_id": 7} for one in results(P, ("a.tif",))])
    check(compared(capsys), 0.8)


def test_classes_of_results_are_looked_up_in_the_categories_of_the_reference(capsys) -> None:
    reference = coco(R, ("a.tif", "b.tif"))
    reference["categories"] = [{"id": 4, "name": "tumour"}, {"id": 9, "name": "stroma"}]
    predicted = results(P, ("a.tif", "b.tif"))
    for one in (*reference["annotations"], *predicted):
        one["category_id"] = 9 if one["segmentation"]["counts"][0] > 1000 else 4
    dump("ref/gt.json", reference)
    dump("pred/r.json", predicted)
    check(compared(capsys), 0.8)
    assert json.loads(Path("out/metrics.json").read_text())["classification"]["accuracy"]["group_mean"] == 1


@pytest.mark.parametrize("form", ["data set", "results", "rle"])
def test_images_in_a_file_that_the_reference_has_not_are_left_out(form: str, capsys) -> None:
    both = ("cell01.tif", "cell02.tif")
    dump("ref/gt.json", coco(R, both[:1]))
    if form == "rle":
        rows = [f"{name},{pairs(own == P)},{H},{W}\n" for name in both for own in (1, 2)]
        dump("pred/all.csv", "ImageId,EncodedPixels,Height,Width\n" + "".join(rows))
    else:
        dump("pred/all.json", results(P, both) if form == "results" else coco(P, both))
    assert "no reference for it" in printed(capsys, "--output", "out", "--save-challenge", "kept")
    assert f1_in("out") == 0.8
    assert run(["score", "--challenge", "kept", "--submission", "kept/submissions/pred", "--output", "again"]) == 0


@pytest.mark.parametrize("keeps_images", [False, True])
def test_boxes_without_outlines_are_said_to_be_boxes(keeps_images: bool, capsys) -> None:
    dump("ref/gt.json", coco(R, ("a.tif",)))
    boxes = [
        {"image_id": 7, "category_id": 1, "score": 0.9, "area": width * height, "bbox": [x, y, width, height]}
        for x, y, width, height in ((5, 5, 10, 10), (30, 5, 12, 10))
    ]
    dump("pred/r.json", {**coco(P, ("a.tif",)), "annotations": boxes} if keeps_images else boxes)
    check(compared(capsys), "boxes without outlines")


@pytest.mark.parametrize("with_index", [False, True])
def test_validate_and_score_look_results_up_as_well(with_index: bool, capsys) -> None:
    """With the ids of the reference, or without it by ``index`` of cases.csv."""
    dump("ref/gt.json", coco(R, ("a.tif", "b.tif")))
    dump("pred/p.json", coco(P, ("a.tif", "b.tif")))
    assert run(["compare", "ref", "pred", "--save-challenge", "challenge"]) == 0
    dump("results/all.json", results(P, ("a.tif", "b.tif")))
    if with_index:
        cases = Path("challenge/cases.csv").read_text().splitlines()
        rows = [f"{row},{index}" for row, index in zip(cases, ("index", 7, 8), strict=True)]
        Path("challenge/cases.csv").write_text("\n".join(rows) + "\n")
        Path("challenge/reference/all.json").rename("hidden.json")
    capsys.readouterr()
    assert run(["validate", "--challenge", "challenge", "--submission", "results"]) == 0, capsys.readouterr()
    if with_index:
        Path("hidden.json").rename("challenge/reference/all.json")
    assert run(["score", "--challenge", "challenge", "--submission", "results", "--output", "out"]) == 0
    assert f1_in("out") == 0.8


OTHER_NAMES = (
    ("CELL01.PNG", "Cell02.PNG"),
    ("images/cell01.jpg", "images/cell02.jpg"),
    ("cell01_cp_masks.png", "cell02_cp_masks.png"),
    ("cell01_jpg.rf.00112233445566778899aabbccddeeff.jpg", "cell02_jpg.rf.ffeeddccbbaa99887766554433221100.jpg"),
    ("cell01-mask.ome.tiff", "cell02-mask.ome.tiff"),
    ("pred_01", "pred_02"),
    ("cell1.png", "cell2.png"),
    ("cell0001.tif", "cell0002.tif"),
    ("1a2b3c4d-cell01.png", "9f8e7d6c-cell02.png"),
)


@pytest.mark.parametrize("form, names", [
    *(("coco", names) for names in OTHER_NAMES), *product(("rle", "points"), OTHER_NAMES[:3])
])  # fmt: skip
def test_names_in_files_of_all_images_are_paired_as_file_names_are(form, names, capsys) -> None:
    for side, labels, of_side in (("ref", R, ("cell01", "cell02")), ("pred", P, names)):
        rows = [(name, labels == value) for name in of_side for value in np.unique(labels)[1:]]
        if form == "coco":
            dump(f"{side}/all.json", coco(labels, of_side))
            continue
        if form == "rle":
            text = "".join(f"{name},{pairs(mask)},{H},{W}\n" for name, mask in rows)
            dump(f"{side}/all.csv", f"ImageId,EncodedPixels,Height,Width\n{text}")
        else:
            middle = [(name, *np.argwhere(mask).mean(axis=0)) for name, mask in rows]
            dump(f"{side}/all.csv", "image,x,y\n" + "".join(f"{n},{x},{y}\n" for n, y, x in middle))
    check(compared(capsys), 0.8)


def pairs(mask: np.ndarray) -> str:
    start, found = 1, []
    for index, length in enumerate(counts(mask)):
        found += [f"{start} {length}"] if index % 2 else []
        start += length
    return " ".join(found)


@pytest.mark.parametrize("layout, value, sides", [
    *((layout, 255, ("ref", "pred")) for layout in (
        "{image}/masks/{n}.png", "{image}/mask_{n}.png", "train/{image}/Masks/{hash}.png", "{image}_{n:03}.tif",
        "{image}-nucleus{n}.npy", "masks/{image}_cell_{n}.tif",
    )),
    ("{image}/masks/{n}.png", 1, ("ref", "pred")), ("{image}_{n:03}.tif", 1, ("pred",)),
    ("{image}/mask_{n}.png", 255, ("pred",)),
])  # fmt: skip
def test_a_file_for_each_nucleus_is_an_image_with_all_of_them(layout, value, sides, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        for image in ("img1", "img2"):
            if side not in sides:
                put(f"{side}/{image}.tif", labels)
                continue
            order = np.unique(labels)[1:] if side == "ref" else np.unique(labels)[:0:-1]
            for n, own in enumerate(order, start=1):
                code = f"{n * 7919:x}{'0' if image == 'img1' else 'f'}".rjust(32, "a")
                put(f"{side}/{layout.format(image=image, n=n, hash=code)}", (value * (labels == own)).astype(np.uint8))
    check(compared(capsys), 0.8)


def test_masks_of_nuclei_may_share_pixels(capsys) -> None:
    put("ref/a.tif", R)
    for n, own in enumerate((1, 2), start=1):
        mask = own == P
        mask[5, 15 : 30 if own == 2 else 17] = True  # two pixels are on both
        put(f"pred/a/{n}.png", (255 * mask).astype(np.uint8))
    check(compared(capsys), 0.8)


def test_an_image_for_each_nucleus_and_place_is_no_piece_of_one(capsys) -> None:
    """Crops with a nucleus in the middle of each."""
    for side in ("ref", "pred"):
        for n in range(3):
            labels = np.zeros((20, 20), np.uint8)
            labels[5:15, 5 : 15 - n * (side == "pred")] = 255
            put(f"{side}/tile_{n}.png", labels)
    check(compared(capsys), 1.0)
    assert len(json.loads(Path("out/details.json").read_text())["cases"]) == 3


@pytest.mark.parametrize("kind, last, suffix, sides", [
    (bool, False, ".npy", ("ref", "pred")), (np.uint8, False, ".npy", ("pred",)), (bool, True, ".npy", ("pred",)),
    (np.uint8, True, ".npz", ("ref", "pred")), (bool, False, ".npz", ("pred",)),
    (np.uint8, False, ".tif", ("ref", "pred")), (np.uint8, False, ".tif", ("pred",)),
])  # fmt: skip
def test_planes_with_a_nucleus_each_are_an_image(kind, last, suffix, sides, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        if side not in sides:
            put(f"{side}/a.tif", labels)
            continue
        masks = np.stack([labels == own for own in np.unique(labels)[1:]]).astype(kind)
        put(f"{side}/a{suffix}", np.moveaxis(masks, 0, 2) if last else masks * (255 if suffix == ".tif" else 1))
    check(compared(capsys), 0.8)


def moved(labels: np.ndarray) -> np.ndarray:
    return np.roll(np.where(labels, labels % 3 + 1, 0), (6, 14), (0, 1)).astype(labels.dtype)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".tif"])
def test_an_array_of_images_on_both_sides_is_as_many_images(suffix: str, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        stack = np.stack([labels, moved(labels), labels[::-1, ::-1]])
        put(f"{side}/{side}{suffix}", stack)
    check(compared(capsys), 0.8)
    assert len(json.loads(Path("out/details.json").read_text())["cases"]) == 3


def test_an_array_of_images_on_one_side_is_told(capsys) -> None:
    for image in ("a", "b"):
        put(f"ref/{image}.tif", R)
    put("pred/all.npy", np.stack([P, P]))
    check(compared(capsys), "an array of 2 images without names")


@pytest.mark.parametrize("suffix", [".npy", ".tif"])
@pytest.mark.parametrize("planes", [3, 5])
def test_a_volume_is_said_to_be_three_dimensional(suffix: str, planes: int, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        volume = np.stack([labels, np.roll(labels, 1, 0), np.roll(labels, 1, 1), labels, labels][:planes])
        put(f"{side}/a{suffix}", volume) if suffix == ".npy" else tifffile_planes(f"{side}/a.tif", volume)
    check(compared(capsys), "three-dimensional labels are not scored")


def tifffile_planes(path: str, volume: np.ndarray) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tifffile.TiffWriter(path) as writer:
        for plane in volume:
            writer.write(plane, contiguous=False)


@pytest.mark.parametrize("ids_first", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_ids_and_classes_in_two_channels_are_both_read(ids_first: bool, last: bool, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        classes = np.where(labels == 0, 0, np.where(labels == 2, 5, 4)).astype(np.uint16)
        planes = np.stack([labels, classes] if ids_first else [classes, labels])
        put(f"{side}/a.npy", np.moveaxis(planes, 0, 2) if last else planes)
    check(compared(capsys), 0.8)
    assert json.loads(Path("out/metrics.json").read_text())["classification"]["accuracy"]["group_mean"] == 1


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("below", ["", "P1/"])
def test_what_colours_could_mean_is_said_with_a_call_that_does_it(alpha: bool, below: str, capsys) -> None:
    colours = np.array([[0, 0, 0], [200, 40, 40], [40, 90, 220]], np.uint8)[P]
    if alpha:
        colours = np.dstack([P.astype(np.uint8), np.zeros((H, W, 2), np.uint8), np.full((H, W), 255, np.uint8)])
    put("ref/a.tif", R)
    put(f"pred/{below}a.png", colours)
    run_call(compared(capsys))
    check(compared(capsys), 0.8)


@pytest.mark.parametrize("suffix", [".npy", ".tif"])
def test_colours_in_other_files_than_png_are_no_channels_of_classes(suffix: str, capsys) -> None:
    put("ref/a.tif", R)
    colours = np.array([[0, 0, 0], [200, 40, 40], [40, 90, 220]], np.uint8)[P]
    Path("pred").mkdir()
    np.save("pred/a.npy", colours) if suffix == ".npy" else tifffile.imwrite("pred/a.tif", colours, photometric="rgb")
    check(compared(capsys), "If each colour is a nucleus")


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd", ".mha"])
def test_images_of_three_axes_are_told(suffix: str, capsys) -> None:
    import SimpleITK

    for side, labels in (("ref", R), ("pred", P)):
        Path(side).mkdir()
        SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.stack([labels] * 4)), f"{side}/a{suffix}")
    check(compared(capsys), "three-dimensional labels are not scored")


@pytest.mark.parametrize("images", ["images.npy", "images/fold1/images.npy"])
def test_pictures_beside_the_masks_of_pannuke_are_left_out(images: str, capsys) -> None:
    for side, labels in (("ref", R), ("pred", P)):
        channels = [np.where(labels == own, own, 0) for own in (1, 2, 3, 4, 5)]
        masks = np.stack([np.dstack([*channels, labels == 0])] * 2)
        put(f"{side}/{images.replace('images', 'masks')}", masks.astype(np.float64))
        put(f"{side}/{images}", np.random.default_rng(0).integers(0, 255, (2, H, W, 3)).astype(np.float64))
    check(compared(capsys), 0.8)


def test_ids_of_images_without_their_data_set_are_told(capsys) -> None:
    for name in ("cell01", "cell02"):
        put(f"ref/{name}.tif", R)
    dump("pred/r.json", results(P, ("cell01.tif", "cell02.tif")))
    check(compared(capsys), "These are ids of images")


# --- members that a walk through some 130 layouts found --------------------------------------------------------------


def rgb(labels: np.ndarray, channels: int = 3) -> np.ndarray:
    """Labels in equal channels; the last one of two or four is opacity."""
    grey, opaque = labels.astype(np.uint8), np.full((H, W), 255, np.uint8)
    return np.dstack([grey] * 3 if channels == 3 else [*[grey] * (channels - 1), opaque])


def cells_of(labels: np.ndarray) -> np.ndarray:
    from scipy.ndimage import grey_dilation

    return np.where(cells := grey_dilation(labels, size=(5, 5)), 7 - cells, 0).astype(labels.dtype)


def yolo(labels: np.ndarray) -> str:
    shares = ([c / side for x, y in box(labels, v) for c, side in ((x, W), (y, H))] for v in np.unique(labels)[1:])
    return "".join(f"0 {' '.join(f'{share:.6f}' for share in outline)}\n" for outline in shares)


def box(labels: np.ndarray, value: int) -> list[list[int]]:
    (y0, x0), (y1, x1) = (extreme(np.argwhere(labels == value), axis=0).tolist() for extreme in (np.min, np.max))
    return [[x0, y0], [x1 + 1, y0], [x1 + 1, y1 + 1], [x0, y1 + 1]]


def outlines(labels: np.ndarray, scale: float = 1) -> dict:
    rings = [[[x * scale, y * scale] for x, y in box(labels, value)] for value in np.unique(labels)[1:]]
    shapes = [{"type": "Polygon", "coordinates": [[*ring, ring[0]]]} for ring in rings]
    return {"type": "FeatureCollection", "features": [of_qupath("annotation", shape) for shape in shapes]}


def single_rois(folder: str, labels: np.ndarray) -> None:
    roifile = pytest.importorskip("roifile")
    Path(folder).mkdir(parents=True)
    for value in np.unique(labels)[1:]:
        roi = roifile.ImagejRoi.frompoints(np.array(box(labels, value)))
        Path(folder, f"{value:04}-0010-0010.roi").write_bytes(roi.tobytes())


JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + H.to_bytes(2) + W.to_bytes(2) + bytes(10)
DSB_ROWS = "ImageId,EncodedPixels\na,{}\n"
# Each: which sides have it (both, or the prediction beside a.tif), the files of a side, and what comes of it.
LAYOUTS: dict[str, tuple[str, dict[str, object], float | str]] = {
    **{
        f"labels in {number} channels, {suffix}, {sides}": (sides, {f"a.{suffix}": lambda n, c=number: rgb(n, c)}, 0.8)
        for number, suffix in ((2, "png"), (3, "png"), (4, "png"), (3, "tif"), (3, "npy"))
        for sides in ("both", "pred")
    },
    "masks in RGB beside pictures": (
        "both", {"masks/a.png": lambda n: rgb(255 * (n > 0)), "images/a.png": lambda n: PICTURE}, 0.8
    ),
    "a mask in RGB for each nucleus": (
        "both", {f"a/masks/{v}.png": lambda n, v=v: rgb(255 * (n == v)) for v in (1, 2, 3)}, 0.8
    ),
    "one colour, two nuclei": ("pred", {"a.png": lambda n: np.dstack([0 * n, 200 * (n > 0), 0 * n]).astype(np.uint8)},
                               "Its colours come back in many places"),
    "cvat's colours of classes and objects": (
        "pred",
        {
            "SegmentationClass/a.png": lambda n: np.dstack([200 * (n > 0), 0 * n, 0 * n]).astype(np.uint8),
            "SegmentationObject/a.png": lambda n: np.dstack([100 * n, 9 * n, 0 * n]).astype(np.uint8),
        },
        "'SegmentationObject/a.png', a picture in colour",
    ),
    "mesmer, one channel": ("pred", {"a.npy": lambda n: n[None, ..., None].astype(np.int32)}, 0.8),
    "mesmer, equal channels": ("pred", {"a.npy": lambda n: np.dstack([n, n])[None].astype(np.int32)}, 0.8),
    "equal planes": ("pred", {"a.tif": lambda n: np.stack([n, n])}, 0.8),
    "a thumbnail": ("both", {"a.tif": lambda n: n, "thumbnails/a.png": lambda n: n[::2, ::2].astype(np.uint8)}, 0.8),
    "three suffixes": (
        "both", {"a.png": lambda n: n.astype(np.uint8), "b.tif": lambda n: n, "c.npy": lambda n: n}, 0.8
    ),
    "two suffixes, with class maps": (
        "both",
        {
            "a.png": lambda n: n.astype(np.uint8), "a_class.png": lambda n: (n > 0).astype(np.uint8),
            "b.tif": lambda n: n, "b_class.tif": lambda n: (n > 0).astype(np.uint8),
        },
        0.8,
    ),
    "yolo with pictures in their folder": (
        "both", {"images/val/x.png": lambda n: PICTURE, "labels/val/x.txt": yolo, "data.yaml": "nc: 1"}, 0.8
    ),
    "yolo with jpeg": ("both", {"train/images/x.jpg": JPEG, "train/labels/x.txt": yolo}, 0.8),
    "yolo alone": ("both", {"labels/x.txt": yolo}, "coordinates in shares of the image"),
    "dsb without sizes": (
        "both", {"train.csv": lambda n: DSB_ROWS.format(pairs(n > 0))}, "add the columns 'Height' and 'Width'"
    ),
    "puma with tissue": (
        "both",
        {"x_nuclei.geojson": outlines, "x_tissue.geojson": lambda n: outlines(np.ones((H, W), int))},
        0.8,
    ),
    "an empty list beside outlines": ("pred", {"a/a.geojson": outlines, "a/b.json": []}, 0.8),
    "rois in files": ("pred", {"a": single_rois}, 0.8),
    "parts of a data set at the end of names": (
        "both", {f"{n}_{part}.tif": lambda n: n for n in "ab" for part in ("train", "test")}, 0.8
    ),
    "folds of pannuke": (
        "both",
        {f"Fold {n}/masks.npy": lambda n: np.stack([np.dstack([n, 0 * n, n == 0])] * 2).astype(float) for n in (1, 2)},
        "each of which may hold many images",
    ),
    "two annotators": (
        "ref", {f"{who}/labels/{n}.tif": lambda n: n for who in ("Miller", "Smith") for n in "ab"},
        "Files of one name lie in several folders: name one of them, such as 'Miller'",
    ),
    "panoptic": ("pred", {"p.json": {"images": [], "annotations": [{"segments_info": []}]}}, "panoptic JSON of COCO"),
    "stardist's details": ("pred", {"a.json": {"coord": [], "points": [], "prob": []}}, "details of StarDist"),
    "snappy": ("pred", {"a.json.snappy": b"\xff\x06\0\0sNaPpY" + bytes(9)}, "packed by Snappy"),
    "vertices": ("pred", {"a.csv": "cell_id,vertex_x,vertex_y\n1,2,3\n"}, "outlines by their vertices"),
    "labels beside the mask of their foreground": (
        "both", {"a.tif": lambda n: n, "a_mask.png": lambda n: (255 * (n > 0)).astype(np.uint8)}, 0.8
    ),
    "a picture in a MetaImage": (
        "pred", {"a.mha": image_bytes(GREY.astype(np.uint16), "a.mha")}, "a picture, since its values change"
    ),
    "colours of classes": (
        "pred", {"a.png": np.array([[0, 0, 0], [200, 40, 40]], np.uint8)[(R > 0).astype(int)]}, "as those of classes do"
    ),
    "probabilities, which are no volume": (
        "pred", {"a.tif": lambda n: np.dstack([(n > 0) * 0.9 + 0.05, (n == 0) * 0.9 + 0.05]).astype(np.float32)},
        "numbers that are not whole, as probabilities are",
    ),
    **{
        f"masks of {kind}": ("pred", {"a.npy": lambda n, k=kind: np.stack([n == 1, n == 2])[:, None].astype(k)}, 0.8)
        for kind in ("float32", "bool", "int64")
    },
    "imagej's results of several images": (
        "pred", {"Results.csv": " ,Label,Area,X,Y\n1,a.tif:1,9,9.5,9.5\n2,b.tif:1,9,35.5,9.5\n3,b.tif:2,9,9,9\n"},
        "2 images (in the column 'Label')",
    ),
    "wkt": ("pred", {"a.csv": 'id,geometry\n1,"POLYGON ((1 1, 2 2, 1 2, 1 1))"\n'}, "a table of shapes (WKT)"),
}  # fmt: skip


OF_ONE_FILE = {
    "equal channels": ("a.png", lambda n: rgb(n)),
    "masks of nuclei": ("a.npy", lambda n: np.stack([n == 1, n == 2])),
    "ids and classes": ("a.npy", lambda n: np.dstack([n, np.where(n > 0, 5 - n, 0)])),
    "codes as Kaggle counts them": (
        "a.csv", "".join(("ImageId,EncodedPixels,Height,Width\n", *(f"a,{{{v}}},{H},{W}\n" for v in (1, 2))))
    ),
    "a picture": ("a.tif", GREY),
    "two images": ("a.npy", lambda n: np.stack([n, moved(n)])),
}  # fmt: skip


@pytest.mark.parametrize("form", OF_ONE_FILE)
def test_convert_reads_of_a_file_what_compare_reads(form: str, capsys) -> None:
    name, content = OF_ONE_FILE[form]
    for side, labels in (("ref", R), ("pred", P)):
        Path(side).mkdir()
        if isinstance(content, str):
            Path(side, name).write_text(content.format("", pairs(labels == 1), pairs(labels == 2)))
        else:
            put(f"{side}/{name}", content(labels) if callable(content) else content)
    put("ref.tif", R)
    code = run(["convert", f"pred/{name}", "out/a.tif", "--to", "label_tiff"])
    told = "".join(capsys.readouterr())
    if form in ("a picture", "two images"):
        said = {"a picture": "its values change from pixel to pixel", "two images": "2 images: 'image_0' and 'image_1'"}
        assert code in (1, 2) and said[form] in told
        return
    assert code == 0
    check(compared(capsys, "ref.tif", "out/a.tif"), 0.8)
    if form == "ids and classes":
        assert np.array_equal(tifffile.imread("out/a_class.tif"), np.where(P > 0, 5 - P, 0))


TWO_PLANES = {
    "instanseg": ("a.tif", 0, lambda nuclei, cells: np.stack([nuclei, cells]).astype(np.float32)),
    "instanseg, an array": ("a.npy", 0, lambda nuclei, cells: np.stack([nuclei, cells])[None].astype(np.float32)),
    "mesmer": ("a.npy", 1, lambda nuclei, cells: np.dstack([cells, nuclei])[None].astype(np.int32)),
    "cells and nuclei, an array": ("a.npy", 1, lambda nuclei, cells: np.dstack([cells, nuclei])),
}


@pytest.mark.parametrize("tool", TWO_PLANES)
def test_of_labels_of_nuclei_and_of_cells_the_call_that_is_told_takes_the_nuclei(tool: str, capsys) -> None:
    name, channel, planes = TWO_PLANES[tool]
    put("ref/a.tif", R)
    put(f"pred/{name}", planes(P, cells_of(P)))
    told = compared(capsys)
    check(told, "labels of two kinds in two channels, as InstanSeg's and Mesmer's of nuclei and cells; expected")
    check(told, f"For channel {channel}, whose labels are smaller")
    run_call(told)
    check(compared(capsys), 0.8)


def run_call(told: float | str) -> None:
    """Run the Python call at the end of what was told."""
    call = re.search(r'python (-c ".*?") (\S+)$', " ".join(str(told).split()))
    assert call, told
    files = [str(path) for path in Path().glob(call[2])]
    subprocess.run([sys.executable, *shlex.split(call[1]), *files], check=True)


@pytest.mark.parametrize("scale", [0.25, 0.5])
def test_um_are_asked_about_with_the_call_that_makes_px(scale: float, capsys) -> None:
    put("ref/a.tif", R)
    dump("pred/a.geojson", outlines(P, scale))
    told = " ".join(printed(capsys).split())
    assert "are these um? If so, this writes px into a folder px: python -c" in told
    run_call(re.split(r"(?<=\.geojson) ", told.partition("into a folder px: ")[2])[0])
    check(compared(capsys, "ref", "px"), 0.8)


@pytest.mark.parametrize("place", ["--report cmp.html ref pred", "ref pred --report cmp.html"])
def test_where_the_page_goes_is_told_to_those_who_name_one(place: str, capsys) -> None:
    put("ref/a.tif", R)
    put("pred/a.tif", P)
    assert run(["compare", *place.split()]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "it takes no value: the page is compare.html in the folder of --output, or here. Leave out 'cmp.html'" in told
    )


@pytest.mark.parametrize(("names", "damaged", "told"), [
    (("a.png", "b.tif"), "b.tif", "case 'b', 'b.tif'"),  # written as arrays, since they have two suffixes
    (("a.png", "b.png"), "b.png", "case 'b', 'b.png'"),  # a TIFF by its content
    (("a_masks.png", "b_masks.tif"), "b_masks.tif", "case 'b_masks', 'b_masks.tif'"),
])  # fmt: skip
def test_a_fault_names_the_file_that_lies_there(names, damaged: str, told: str, capsys) -> None:
    for name in names:
        put(f"ref/{name}", R)
        put(f"pred/{name}", P)
    put("pred/below_0.tif", np.where(P.max() == P, -1, P.astype(np.int32)))
    Path("pred/below_0.tif").replace(f"pred/{damaged}")
    assert f"[negative-label] {told}: " in compared(capsys)


# --- init looks by the same reader ------------------------------------------------------------------------------------


@pytest.mark.parametrize("picture, mask, pattern", [
    ("{}.tif", "{}_masks.tif", "{case}_masks.tif"),
    ("{}_img.tif", "{}_label.tif", "{case}_label.tif"),
    ("images/{}.tif", "masks/{}.tif", "masks/{case}.tif"),
])  # fmt: skip
def test_init_takes_no_picture_for_a_reference(picture: str, mask: str, pattern: str, capsys) -> None:
    for name in ("a", "b"):
        put(f"mine/reference/{picture.format(name)}", GREY)
        put(f"mine/reference/{mask.format(name)}", R)
    assert run(["init", "mine"]) == 0, capsys.readouterr()
    rows = Path("mine/cases.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["a", "b"]
    assert f'files = "reference/{pattern}"' in Path("mine/challenge.toml").read_text()


def test_init_says_how_pieces_become_a_challenge(capsys) -> None:
    for image in ("a", "b"):
        for own in (1, 2, 3):
            put(f"mine/reference/{image}/masks/{own}.png", (255 * (own == R)).astype(np.uint8))
    assert run(["init", "mine"]) == 2
    assert "evaluation compare REFERENCE REFERENCE --save-challenge DIR" in capsys.readouterr().err
    assert run(["compare", "mine/reference", "mine/reference", "--save-challenge", "kept"]) == 0
    assert run(["score", "--challenge", "kept", "--submission", "kept/submissions/reference", "--output", "out"]) == 0
    assert f1_in("out") == 1


def square(x0: int, y0: int, x1: int, y1: int) -> dict:
    ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]
    return {"type": "Polygon", "coordinates": [ring]}


def of_qupath(kind: str, geometry: dict, old: bool = False, **properties: object) -> dict:
    """An object as QuPath writes it, or as QuPath 0.2 did, whose ids are types."""
    written = {"type": "Feature", "geometry": geometry, "properties": properties}
    if old:
        return {**written, "id": f"Path{kind.capitalize()}Object"}
    return {**written, "properties": {"objectType": kind, **properties}}


NUCLEI = {"R": [square(5, 5, 15, 15), square(30, 5, 42, 15), square(10, 25, 18, 33)]}
NUCLEI["P"] = NUCLEI["R"][:2]
WHOLE = square(0, 0, 60, 40)
HALVES = {
    "type": "MultiPolygon",
    "coordinates": [square(0, 0, 20, 40)["coordinates"], square(21, 0, 60, 40)["coordinates"]],
}
CROSSED = {"type": "Polygon", "coordinates": [[[0, 0], [60, 0], [60, 40], [2, 40], [4, 38], [0, 40], [0, 0]]]}


def regions_and_nuclei(form: str, nuclei: list[dict]) -> list[dict]:
    kind, old = ("cell" if form == "cells" else "detection"), form == "old ids"
    inner = [of_qupath(kind, geometry, old) for geometry in nuclei]
    if form == "children":
        return [of_qupath("annotation", WHOLE, childObjects=inner)]
    regions = {
        "before": [WHOLE],
        "behind": [WHOLE],
        "two, one in the other": [WHOLE, square(0, 0, 50, 39)],
        "of two parts": [HALVES],
        "crosses itself": [CROSSED],
    }.get(form, [WHOLE])
    around = [of_qupath({"tiles": "tile", "cores": "tma_core"}.get(form, "annotation"), one, old) for one in regions]
    if form == "with a class":
        around[0]["properties"]["classification"] = {"name": "Tumor"}
    return [*inner, *around] if form == "behind" else [*around, *inner]


REGIONS = ("before", "behind", "cells", "old ids", "children", "two, one in the other", "of two parts")


@pytest.mark.parametrize("form, side", [
    *product((*REGIONS, "crosses itself", "tiles", "cores", "with a class"), ("both",)),
    ("before", "ref"),
    ("cells", "pred"),
])  # fmt: skip
def test_an_annotation_of_qupath_around_detections_is_a_region(form: str, side: str, capsys) -> None:
    for name, labels, nuclei in (("ref", R, NUCLEI["R"]), ("pred", P, NUCLEI["P"])):
        if side in (name, "both"):
            features = regions_and_nuclei(form, nuclei)
            dump(f"{name}/a.geojson", {"type": "FeatureCollection", "features": features})
        else:
            put(f"{name}/a.tif", labels)
    assert "around" in (told := printed(capsys, "--output", "out")) and "which is a region" in told
    assert "classes" not in told.replace("no classes", "").replace("whatever their classes", "")
    assert f1_in("out") == 0.8


@pytest.mark.parametrize("form", ["annotations only", "beside detections", "the same again"])
def test_other_annotations_of_qupath_are_nuclei(form: str, capsys) -> None:
    """Drawn by hand: all of them, one that the tool did not find, or one around a detection of much the same size."""
    drawn = [of_qupath("annotation", geometry) for geometry in NUCLEI["P"]]
    if form == "annotations only":
        drawn.append(of_qupath("annotation", WHOLE))
    else:
        drawn[0] = of_qupath("detection", square(6, 6, 14, 14) if form == "the same again" else NUCLEI["P"][0])
    if form == "the same again":
        drawn.append(of_qupath("annotation", NUCLEI["P"][0]))
    put("ref/a.tif", R)
    dump("pred/a.geojson", {"type": "FeatureCollection", "features": drawn})
    check(compared(capsys), 0.8 if form == "beside detections" else 2 * 2 / (3 + 3))


# --- what is not annotated --------------------------------------------------------------------------------------------

VOID = np.zeros((H, W), bool)
VOID[22:, 25:] = True
FOUND = P.copy()
FOUND[25:35, 30:45] = 9  # in the void
OVER_THE_EDGE = P.copy()
OVER_THE_EDGE[20:30, 28:40] = 9  # an eighth of it lies outside


def with_void(value: int, kind: str) -> np.ndarray:
    return np.where(VOID, value, R.astype(np.int64)).astype(kind)


@pytest.mark.parametrize("name, value, kind, predicted", [
    ("a.png", 255, "uint8", FOUND),
    ("a.png", 255, "uint8", OVER_THE_EDGE),
    ("a.npy", 255, "int64", FOUND),
    ("a.npy", -1, "float32", OVER_THE_EDGE),
    ("a.tif", -1, "int16", FOUND),
    ("a.tif", 65535, "uint16", FOUND),
    ("a.npz", 2**32 - 1, "uint32", FOUND),
    ("all.npy", -1, "int32", FOUND),
])  # fmt: skip
def test_a_label_of_what_is_not_annotated_is_asked_about_and_left_out_if_told(name, value, kind, predicted, capsys):
    stacked = (lambda labels: np.stack([labels, labels])) if name == "all.npy" else (lambda labels: labels)
    put(f"ref/{name}", stacked(with_void(value, kind)))
    put(f"pred/{name if name == 'all.npy' else 'a.tif'}", stacked(predicted))
    assert run(["compare", "ref", "pred"]) == (3 if value < 0 else 0)
    asked = " ".join(capsys.readouterr()[value < 0].split())
    assert f"for what is not annotated? {'If' if value < 0 else 'It counts'}" in asked
    assert f"If it is not annotated: --ignore {value}." in asked
    assert compared(capsys, "ref", "pred", "--ignore", str(value)) == 0.8
    assert "not annotated" not in printed(capsys, "--ignore", str(value))


def test_a_copy_of_a_reference_that_is_not_annotated_everywhere_scores_1(capsys) -> None:
    for side in ("ref", "pred"):
        put(f"{side}/a.npy", with_void(-1, "int32"))
        put(f"{side}/b.npy", with_void(255, "int32"))
    assert compared(capsys, "ref", "pred", "--ignore", "-1", "--ignore", "255") == 1


def test_a_number_that_is_no_nucleus_in_the_reference_is_one_in_the_prediction(capsys) -> None:
    put("ref/a.png", with_void(255, "uint8"))
    put("pred/a.tif", np.where(FOUND == 2, 255, FOUND).astype(np.uint16))
    assert compared(capsys, "ref", "pred", "--ignore", "255") == 0.8


@pytest.mark.parametrize("labels", [[3, 255], [1, 200, 255], [255], [1, 2, 254]])
def test_a_label_that_may_well_be_a_nucleus_is_not_asked_about(labels: list[int], capsys) -> None:
    reference = np.zeros((H, W), np.uint16)
    for row, label in enumerate(labels):
        reference[10 * row : 10 * row + 5, 5:15] = label
    put("ref/a.tif", reference)
    put("pred/a.tif", reference)
    assert "annotated" not in printed(capsys)


def coco_with_void(labels: np.ndarray) -> dict[str, list]:
    made = coco(labels, ("a.tif",))
    made["categories"].append({"id": 2, "name": "Not annotated"})
    for annotation in made["annotations"]:
        annotation["category_id"] = 2 if annotation["id"] % 100 == 50 else 1
    return made


@pytest.mark.parametrize("form", ["annotations", "region around detections", "coco", "class map", "table"])
def test_a_class_of_regions_that_are_not_annotated_is_left_out_if_told(form: str, capsys) -> None:
    name, region = "not ANNOTATED", square(25, 22, 60, 40)
    classes = {"classification": {"name": "Not annotated"}}
    if form in ("annotations", "region around detections"):
        kind = "annotation" if form == "annotations" else "detection"
        nuclei = [of_qupath(kind, geometry) for geometry in [*NUCLEI["R"], square(30, 25, 34, 28)]]
        dump(
            "ref/a.geojson",
            {"type": "FeatureCollection", "features": [*nuclei, of_qupath("annotation", region, **classes)]},
        )
    elif form == "coco":
        dump("ref/a.json", coco_with_void(with_void(50, "uint8")))
    else:
        put("ref/a.png", with_void(50, "uint8"))
        if form == "class map":
            name = "7"
            put("ref/a_class.png", np.where(VOID, 7, R > 0).astype(np.uint8))
        else:
            Path("ref/a.csv").write_text("id,class\n1,nucleus\n2,nucleus\n3,nucleus\n50,Not annotated\n")
    put("pred/a.tif", FOUND)
    assert compared(capsys, "ref", "pred", "--ignore", name) == 0.8
    assert compared(capsys, "ref", "pred") != 0.8
    assert f"--ignore '{name}s': nothing in the reference has it" in str(
        compared(capsys, "ref", "pred", "--ignore", f"{name}s")
    )


def test_what_is_not_annotated_is_kept_in_the_challenge_that_is_saved(capsys) -> None:
    put("ref/a.npy", with_void(-1, "int32"))
    put("pred/a.tif", FOUND)
    assert run(["compare", "ref", "pred", "--ignore", "-1", "--save-challenge", "kept"]) == 0
    assert run(["score", "--challenge", "kept", "--submission", "kept/submissions/pred", "--output", "out"]) == 0
    assert f1_in("out") == 0.8
    text = Path("kept/challenge.toml").read_text()
    Path("kept/challenge.toml").write_text(re.sub(r"ignore = \{.*", "ignore = { classes = [] }", text))
    capsys.readouterr()
    assert run(["validate", "--challenge", "kept", "--submission", "kept/submissions/pred"]) == 3
    assert "reference.not_annotated" in capsys.readouterr().err


@pytest.mark.parametrize("ignore, told", [
    (("-1", "255"), None),
    (("-1", "254"), "--ignore '254': nothing in the reference has it"),
    (("-1", "-2", "255"), "--ignore '-2': nothing in the reference has it"),
    (("255", "-1", "7"), "--ignore '7': nothing in the reference has it"),
    (("0",), "--ignore '0': the background of label images"),
    (("255", "-1", "00"), "--ignore '00': the background of label images"),
    (("stroma",), "--ignore 'stroma': nothing in the reference has it"),
])  # fmt: skip
def test_each_of_several_labels_to_leave_out_is_looked_for(ignore, told, capsys) -> None:
    put("ref/a.npy", with_void(-1, "int32"))
    put("ref/b.npy", with_void(255, "int32"))
    for name in "ab":
        put(f"pred/{name}.tif", FOUND)
    said = compared(capsys, "ref", "pred", *(part for value in ignore for part in ("--ignore", value)))
    check(said, 0.8 if told is None else told)


NAMES = np.array(["", "a", "b", "a", "Void"])
VOIDED = {
    "label": (with_void(255, "int32"), FOUND, [255]),
    "label below 0": (with_void(-1, "int32"), np.where(FOUND == 9, -1, FOUND.astype(np.int32)), -1),
    "two labels": (np.where(VOID & (np.indices(VOID.shape)[1] > 40), 77, with_void(-1, "int32")), FOUND, ["-1", 77]),
    "class of labels": ((with_void(4, "int32"), ["a", "b", "a", "Void"]), (FOUND, ["a", "b", "a"]), ["VOID"]),
    "class by label": (
        (with_void(4, "int32"), {1: "a", 2: "b", 3: "a", 4: "Void"}),
        (FOUND, {1: "a", 2: "b", 9: "a"}),
        "void",
    ),
    "class of pixels": (
        (with_void(4, "int32"), NAMES[with_void(4, "int32")]),
        (FOUND, np.array(["", "a", "b", "a"])[np.minimum(FOUND, 3)]),
        ["Void"],
    ),
    "number of a class": ((with_void(4, "int32"), [1, 2, 1, 6]), (FOUND, [1, 2, 1]), [6]),
    "list of images": ([with_void(255, "int32"), R], [FOUND, P], [255]),
}  # fmt: skip


@pytest.mark.parametrize("form", VOIDED)
def test_arrays_leave_out_what_is_not_annotated(form: str) -> None:
    reference, prediction, ignore = VOIDED[form]
    found = evaluation.compare(reference, prediction, ignore=ignore)
    assert found.value("detection.f1.group_mean") == pytest.approx(0.8)
    several = ignore if isinstance(ignore, list) else [ignore]
    with pytest.raises(ValueError, match="'lymph' is no label and no class of the reference"):
        evaluation.compare(reference, prediction, ignore=[*several, "lymph"])


@pytest.mark.parametrize("ignore", [0, ["-1", "0"]])
def test_the_background_is_nothing_to_leave_out_of_arrays(ignore) -> None:
    with pytest.raises(ValueError, match="0 is the background"):
        evaluation.compare(with_void(-1, "int32"), P, ignore=ignore)


def test_paths_leave_out_what_is_not_annotated() -> None:
    put("ref/a.npy", with_void(-1, "int32"))
    put("pred/a.tif", FOUND)
    assert evaluation.compare("ref", "pred", ignore=-1).value("detection.f1.group_mean") == pytest.approx(0.8)
    with pytest.raises(ValueError, match="expected labels or classes of the reference"):
        evaluation.compare("ref", "pred", ignore=0.5)


@pytest.mark.parametrize("second", ["Necrosis", "Necrosys"])
def test_each_of_several_regions_to_leave_out_is_looked_for(second: str, capsys) -> None:
    regions = [("Not annotated", square(25, 22, 60, 40)), ("Necrosis", square(50, 0, 60, 6))]
    drawn = [of_qupath("annotation", shape, classification={"name": name}) for name, shape in regions]
    nuclei = [of_qupath("detection", geometry) for geometry in NUCLEI["R"]]
    dump("ref/a.geojson", {"type": "FeatureCollection", "features": [*nuclei, *drawn]})
    put("pred/a.tif", FOUND)
    said = compared(capsys, "ref", "pred", "--ignore", "not annotated", "--ignore", second)
    check(said, 0.8 if second == "Necrosis" else "--ignore 'Necrosys': nothing in the reference has it")


@pytest.mark.parametrize("images", [1, 2])
def test_of_one_image_no_mean_is_spoken_of(images: int, capsys) -> None:
    for number in range(images):
        put(f"ref/{number}.tif", R)
        put(f"pred/{number}.tif", P)
    assert ("mean" in printed(capsys)) == (images > 1)
    assert ("mean" in repr(evaluation.compare(Path("ref"), Path("pred")))) == (images > 1)


def test_points_have_no_region_to_leave_out(capsys) -> None:
    for side in ("ref", "pred"):
        Path(side).mkdir()
        Path(side, "a.csv").write_text("x,y,class\n3,4,a\n8,9,b\n")
    assert "which mark no region" in str(compared(capsys, "ref", "pred", "--ignore", "b"))


@pytest.mark.parametrize("file, header, row", [
    ("a.csv", "index,axis-0,axis-1", "{n},{y},{x}"),
    ("Nuclei.csv", "ImageNumber,ObjectNumber,AreaShape_Center_X,AreaShape_Center_Y", "1,{n},{x},{y}"),
    ("Nuclei.csv", "ImageNumber,ObjectNumber,Location_Center_X,Location_Center_Y", "3,{n},{x},{y}"),
    ("a.csv", "label,area,centroid-0,centroid-1", "{n},100,{y},{x}"),
    ("q.csv", "Image,Object ID,Classification,Centroid X px,Centroid Y px", "a.tif,{n},Tumor,{x},{y}"),
    ("Results.csv", " ,Area,Mean,X,Y", "{n},100,{n},{x},{y}"),
    ("a_table.csv", "labelimage_oid,Predicted Class,Center of the object_0,Center of the object_1", "{n},N,{x},{y}"),
    ("a.csv", "axis-2,x,y", "0,{x},{y}"),
    ("q.tsv", "Image\tObject ID\tClassification\tCentroid X px\tCentroid Y px", "a.tif\t{n}\tTumor, big\t{x}\t{y}"),
    ("q.txt", '"Image"\t"Class"\t"Centroid X px"\t"Centroid Y px"', 'a.tif\t"Tumor, ""b"""\t{x}\t{y}'),
    ("Results.xls", " \tLabel\tArea\tX\tY", "{n}\ta.tif\t100\t{x}\t{y}"),
    ("Results.csv", " ,Label,Area,Mean,X,Y", "{n},a.tif:000{n}-0010,100,1,{x},{y}"),
    ("Results.csv", " ,Label,Area,XM,YM", "{n},a:{n},100,{x},{y}"),
    ("Results.csv", " ,Label,Area,X,Y", "{n},cell {n},100,{x},{y}"),
    ("a.txt", "x,y", "{x},{y}"),
])  # fmt: skip
def test_tables_of_points_of_other_tools_are_read(file: str, header: str, row: str, capsys) -> None:
    """On a scene that is not the same with x and y swapped, so that these two cannot be mixed up."""
    put("ref/a.tif", R)
    rows = [row.format(n=n, x=x, y=y) for n, (y, x) in enumerate(((9.5, 9.5), (9.5, 35.5)), start=1)]
    dump(f"pred/{file}", "\n".join([header, *rows]) + "\n")
    assert "classes 'a.tif" not in printed(capsys, "--output", "out")
    assert f1_in("out") == 0.8


@pytest.mark.parametrize("header, row, told", [
    ("index,axis-0,axis-1,axis-2", "0,0,9.5,9.5", "points of napari with more than two axes"),
    ("label,centroid-0,centroid-1,centroid-2", "1,0,9.5,9.5", "a table of scikit-image with more than two axes"),
    ("index,shape-type,vertex-index,axis-0,axis-1", "0,polygon,0,5,5", "shapes of napari"),
    ("ID,TRACK_ID,POSITION_X,POSITION_Y", "1,1,9.5,9.5", "spots of TrackMate"),
    ("Image,Centroid X µm,Centroid Y µm", "a.tif,1,1", "measurements of QuPath in um"),
    ("ImageNumber,ObjectNumber,AreaShape_Area", "1,1,100", "a table of CellProfiler without places"),
    ("image,xmin,ymin,xmax,ymax", "a,5,5,15,15", "a table of boxes without outlines"),
    ("labelimage_oid,Predicted Class", "1,N", "a table of ilastik without places"),
])  # fmt: skip
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_other_tables_are_named_with_what_to_do(header: str, row: str, told: str, suffix: str, capsys) -> None:
    put("ref/a.tif", R)
    dump(f"pred/a{suffix}", f"{header}\n{row}\n")
    check(compared(capsys), f"no labels, but 'a{suffix}', {told}")


BOX = "<bndbox><xmin>5</xmin><ymin>5</ymin><xmax>15</xmax><ymax>15</ymax></bndbox>"
OF_OTHER_TOOLS = {
    "supervisely": ("a.tif.json", {"tags": [], "size": {"height": H}, "objects": [{"classTitle": "n"}]}, "Supervisely"),
    "superannotate": ("a.json", {"metadata": {"name": "a.tif"}, "instances": [{"type": "polygon"}]}, "SuperAnnotate"),
    "encord": ("e.json", [{"label_hash": "x", "data_title": "a.tif", "data_units": {}}], "an export of Encord"),
    "labelbox": ("e.ndjson", {"data_row": {"external_id": "a.tif"}, "projects": {}}, "an export of Labelbox"),
    "label studio": ("p.json", [{"image": "a.tif", "label": [{"polygonlabels": ["n"]}]}], "Label Studio"),
    "label studio far": ("p.json", [{"id": 1, "data": "x" * 900, "label": [{"brushlabels": ["n"]}]}], "Label Studio"),
    "via": ("v.csv", "filename,file_size,region_count,region_shape_attributes\na.tif,9,1,x\n", "VGG Image Annotator"),
    "voc": ("a.xml", f"<annotation><filename>a</filename><object>{BOX}</object></annotation>", "boxes and no outlines"),
    "yolo": ("labels/a.txt", "0 0.158 0.2375 0.1667 0.25\n", "boxes of YOLO without outlines"),
    "cellpose": ("a_cp_outlines.txt", "5,5,14,5,14,14,5,14\n30,5,41,5,41,14,30,14\n", "outlines of cellpose as text"),
}
LAYOUTS |= {tool: ("pred", {name: content}, told) for tool, (name, content, told) in OF_OTHER_TOOLS.items()}
PICTURE = np.dstack([GREY, GREY[::-1], GREY])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_gets_its_score_or_is_told(layout: str, capsys) -> None:
    sides, files, expected = LAYOUTS[layout]
    for side, labels in (("ref", R), ("pred", P)):
        if sides not in ("both", side):
            for name in "ab" if sides == "ref" else "a":
                put(f"{side}/{name}.tif", labels)
            continue
        for name, content in files.items():
            path = Path(side, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is single_rois:
                single_rois(str(path), labels)
                continue
            made = content(labels) if callable(content) else content
            (put if isinstance(made, np.ndarray) else dump)(str(path), made)
    check(compared(capsys), expected)


@pytest.mark.parametrize("column", ["ImageNumber", "Frame", "Slice"])
@pytest.mark.parametrize("second", [1, 2])
def test_points_of_images_that_are_only_counted_are_not_put_on_one(column: str, second: int, capsys) -> None:
    put("ref/a.tif", R)
    dump("pred/all.csv", f"{column},x,y\n1,9.5,9.5\n{second},35.5,9.5\n")
    check(compared(capsys), 0.8 if second == 1 else f"2 images by number (in the column '{column}')")


@pytest.mark.parametrize("side", ["ref", "pred"])
def test_labels_of_cells_and_nuclei_are_not_taken_for_ids_and_classes(side: str, capsys) -> None:
    from scipy.ndimage import grey_dilation

    for own, labels in (("ref", R), ("pred", P)):
        cells = grey_dilation(labels, size=(5, 5))
        np.save(put_folder(own) / "y.npy", np.stack([np.dstack([cells, labels])] * 2 if own == side else [labels] * 2))
    check(compared(capsys), "labels of two kinds in two channels")


def put_folder(name: str) -> Path:
    Path(name).mkdir()
    return Path(name)


@pytest.mark.parametrize("text", ["[]", " [ ]\n"])
def test_an_empty_list_of_masks_is_an_image_without_nuclei(text: str, capsys) -> None:
    for name in "ab":
        put(f"ref/{name}.tif", R)
        records = [{"segmentation": a["segmentation"], "bbox": [0, 0, 9, 9]} for a in coco(P, ("a",))["annotations"]]
        dump(f"pred/{name}.json", records)
    Path("pred/b.json").write_text(text)
    assert "'pred' has no nucleus in 1 of 2 images with nuclei, such as 'b'." in printed(capsys, "--output", "out")
    assert f1_in("out") == 0.4


@pytest.mark.parametrize("also", [False, True])
def test_of_a_prediction_without_nuclei_it_is_told(also: bool, capsys) -> None:
    put("ref/a {b}.tif", R)
    put("ref/empty.tif", 0 * R)
    put("pred/a {b}.tif", P * also)
    put("pred/empty.tif", 0 * P)
    assert ("has no nucleus in 1 of 1 image with nuclei" in printed(capsys)) != also


# --- files before words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["compare", "leaderboard"])
def test_a_reader_who_closes_the_pipe_loses_no_file(command: str) -> None:
    put("ref/a.tif", R)
    put("pred/a.tif", P)
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
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(asked, stdout=writing, stderr=subprocess.PIPE, check=False, env=environment)
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert {name for name in expected if not Path(name).is_file()} == set()


# --- the inside does not show -----------------------------------------------------------------------------------------

INSIDE = re.compile(r"1,?048,?576|\b3000\d\b|cases\.csv|challenge\.toml|limits\.|[Oo]rganisers")


def test_no_wording_of_a_finding_speaks_of_a_challenge_when_folders_are_compared() -> None:
    showing = []
    for code in texts():
        page = entry(code)
        for wording in ("", *(word for word in page if isinstance(page[word], dict))):
            (told,) = for_files([Finding(code, "challenge.toml: limits.pixels_per_image", *wording_of(code, wording))])
            said = (told.where, told.got, told.expected, told.fix)
            is_whole = all(text.count("(") == text.count(")") and "  " not in text for text in said)
            showing += [(code, wording, said)] if any(map(INSIDE.search, said)) or not is_whole else []
    assert not showing


def hostile_inputs() -> dict[str, object]:
    """What a prediction may be, beside a reference of one label image of the same name."""
    deep = "[" * 100 + "]" * 100
    ring = [[1, 1], [9, 1], [9, 9], [1, 1]]
    feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    far = {**feature, "geometry": {"type": "Polygon", "coordinates": [[[2**21, 1], [2**21 + 9, 1], [2**21, 9]]]}}
    tiny = {**feature, "geometry": {"type": "Polygon", "coordinates": [[[1.1, 1.1], [1.2, 1.1], [1.1, 1.2]]]}}
    many = {**feature, "geometry": {"type": "MultiPolygon", "coordinates": [[ring]] * 12}}
    return {
        "a.npy": np.full((H, W), 0.5),
        "a.tif": np.zeros((H, W + 9), np.uint8),
        "a.png": np.zeros((H, W), np.uint8),
        "a.json": {"type": "Multiple polygons", "polygons": 7},
        "a.geojson": {"type": "FeatureCollection", "features": [far]},
        "tiny/a.geojson": {"type": "FeatureCollection", "features": [tiny]},
        "many/a.geojson": {"type": "FeatureCollection", "features": [many, feature]},
        "deep/a.geojson": f'{{"type": "FeatureCollection", "features": {deep}}}',
        "none/a.geojson": {"type": "FeatureCollection", "features": [{**feature, "geometry": None}]},
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
        "coco/a.json": {**coco(P, ("a.tif",)), "images": [{"id": 7, "file_name": "a.tif", "height": 3, "width": 2}]},
        "results/a.json": [{"image_id": 1, "category_id": 1, "segmentation": {"size": [4, 4], "counts": [4, 12]}}],
        "asap/a.xml": "<ASAP_Annotations><Annotations><Annotation Type='Spline'/></Annotations></ASAP_Annotations>",
        "aperio/a.xml": "<Annotations><Annotation><Regions><Region/></Regions></Annotation></Annotations>",
    }


@pytest.mark.parametrize("name", hostile_inputs())
@pytest.mark.parametrize(
    "side, options", [("ref", ()), ("pred", ()), ("pred", ("--classes", "x=1,y=2", "--metrics", "curves,objects"))]
)
def test_what_is_told_of_any_files_speaks_of_no_challenge(name, side, options, capsys) -> None:
    other = "pred" if side == "ref" else "ref"
    content, path = hostile_inputs()[name], f"{side}/{name.rpartition('/')[2]}"
    put(f"{other}/a.tif", R)
    if isinstance(content, np.ndarray):
        put(path, content)
    else:
        dump(path, content)
    run(["compare", "ref", "pred", *options])
    told = "".join(capsys.readouterr())
    assert not INSIDE.search(told), told


@pytest.mark.parametrize("form", ["labels", "points", "two models", "shifted outlines"])
def test_notes_and_the_page_of_a_comparison_speak_of_no_challenge_that_was_made(form: str, capsys) -> None:
    if form == "points":
        dump("ref/a.csv", "x,y\n9,9\n35,9\n14,29\n")
        dump("pred/a.csv", "x,y\n9,9\n36,9\n")
    else:
        for name in "ab":
            put(f"ref/{name}.tif", R)
        put("pred/a.tif", P)
        put("pred/strange.tif", P)
        put("other/a_masks.tif", np.where(R == 1, 255, R).astype(np.uint8))
        features = [of_qupath("annotation", square(x + 1, y + 1, x + 11, y + 11)) for y, x in ((5, 5), (5, 30))]
        dump("outlines/a.geojson", {"type": "FeatureCollection", "features": features})
    models = {"two models": ["pred", "other"], "shifted outlines": ["outlines"]}.get(form, ["pred"])
    assert run(["compare", "ref", *models, "--report", "--output", "out"]) == 0
    page = re.sub(r"(?s)<(script|style).*?</\1>|base64,[A-Za-z0-9+/=]*", "", Path("out/compare.html").read_text())
    assert not INSIDE.search(capsys.readouterr().out)
    assert not INSIDE.search(re.sub("<[^>]*>", " ", page))


@pytest.mark.parametrize("command", ["validate", "score"])
def test_a_wrong_folder_for_the_challenge_is_named(command: str, capsys) -> None:
    put("photos/a.tif", R)
    assert (
        run([command, "--challenge", "photos", "--submission", "photos", *(["--output", "o"] * (command == "score"))])
        == 2
    )
    told = capsys.readouterr().err
    assert "'photos': no challenge lies in it" in told
    assert not INSIDE.search(told)


# --- a background that is not 0 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form, is_told", [("labels", True), ("mask of the background", True), ("nothing fits", False), ("outlines", False)]
)
def test_a_background_of_another_value_is_told_only_if_nuclei_match_without_it(form, is_told, capsys) -> None:
    put("ref/a.tif", R)
    if form == "outlines":
        features = [of_qupath("annotation", geometry) for geometry in (WHOLE, *NUCLEI["P"])]
        dump("pred/a.geojson", {"type": "FeatureCollection", "features": features})
    else:
        labels = np.where(P > 0, 0 if form == "mask of the background" else P, 255)
        put("pred/a.tif", (labels if form != "nothing fits" else np.full((H, W), 255)).astype(np.uint8))
    assert ("Is the background a value such as 255?" in printed(capsys)) == is_told
