"""ROIs of ImageJ as roifile writes them, or as RoiDecoder.java says where roifile cannot."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import pytest
import tifffile

from evaluation.authoring.convert import convert_file
from evaluation.challenge import LimitRules, format_rules
from evaluation.commands.main import run
from evaluation.findings.errors import InputFault
from evaluation.formats import Request, read_annotations
from evaluation.formats.detect import detect_format
from evaluation.formats.imagej_roi import roi_bytes
from evaluation.model import Case, ClassTable, Outlines

CASE = Case("a", "a", 40, 60)
CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {3: 1, 4: 2})
RING = [[5, 4], [15, 4], [15, 9], [5, 9]]


def header(
    kind: int, box: Any, count: int = 0, path: int = 0, subtype: int = 0, options: int = 0, arc: int = 0
) -> bytes:
    """The first 64 bytes, by the offsets of RoiDecoder.java; box is top, left, bottom, right."""
    data = bytearray(64)
    struct.pack_into(">4shBx4hH", data, 0, b"Iout", 228, kind, *box, count)
    struct.pack_into(">i", data, 36, path)
    struct.pack_into(">hh", data, 48, subtype, options)
    struct.pack_into(">h", data, 54, arc)
    return bytes(data)


def whole(ring: Any, kind: int = 0) -> bytes:
    xy = np.array(ring)
    left, top = xy.min(axis=0)
    right, bottom = xy.max(axis=0)
    return header(kind, (top, left, bottom, right), len(xy)) + (xy - (left, top)).astype(">i2").T.tobytes()


def path(*numbers: float) -> bytes:
    data = np.array(numbers, ">f4").tobytes()
    return header(1, (0, 0, 40, 60), path=len(numbers)) + data


def square(x: float, y: float, side: float, *, back: bool = False) -> list[float]:
    corners = [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
    first, *others = reversed(corners) if back else corners
    return [0, *first, *(value for corner in others for value in (1, *corner)), 4]


def zipped(*rois: bytes, **named: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, roi in enumerate(rois):
            archive.writestr(f"{number:04d}-0001.roi", roi)
        for name, roi in named.items():
            archive.writestr(name, roi)
    return file.getvalue()


def read(content: bytes, shape: str = "outline", **more: Any) -> Any:
    keys = {"vertices": "exact", "vanished": "drop"} if shape == "outline" else {}
    rules = format_rules(format="imagej_roi", files="{case}.zip", shape=shape, origin="pixel_corner", **keys, **more)
    request = Request(where="'a.zip'", name="a.zip", rules=rules, classes=CLASSES, limits=LimitRules())
    return read_annotations(io.BytesIO(content), request, CASE)


def outlines(*rois: bytes, **more: Any) -> Outlines:
    (part,) = read(zipped(*rois), **more).parts
    assert isinstance(part, Outlines)
    return part


def rings(part: Outlines) -> list[Any]:
    return [ring.tolist() for ring in np.split(part.points_xy, part.ring_start[1:-1])]


def pixels(tmp_path: Any, *rois: bytes) -> np.ndarray:
    (tmp_path / "a.zip").write_bytes(zipped(*rois))
    file, *_ = convert_file(tmp_path / "a.zip", tmp_path / "a", "label_tiff", size_yx=CASE.shape_yx).files
    return tifffile.imread(file)


@pytest.mark.parametrize("kind", [0, 7, 8])
def test_polygons_count_from_their_box(kind: int) -> None:
    part = outlines(whole(RING, kind))
    assert rings(part) == [RING]
    assert (part.class_id.tolist(), part.source_id.tolist()) == ([0], ["0000-0001"])


def test_fractions_of_pixels_count_from_the_image() -> None:
    ring = np.array([[5.5, 4.25], [15, 4], [7, 9.75]])
    assert rings(outlines(roi_bytes(ring, 0, 3))) == [ring.tolist()]


def test_groups_are_classes_and_others_are_told() -> None:
    ring = np.array(RING, float)
    assert outlines(*(roi_bytes(ring, 0, group) for group in (3, 4, 0))).class_id.tolist() == [1, 2, 0]
    with pytest.raises(InputFault, match=r"unknown-class.*'a.zip', ROI 1: '9' is not a class"):
        read(zipped(roi_bytes(ring, 0, 9)))


def test_roifile_writes_what_is_read() -> None:
    roifile = pytest.importorskip("roifile")
    ring = np.array([[5.5, 4.25], [15, 4], [7, 9.75]], np.float32)
    first = roifile.ImagejRoi.frompoints(ring, name="nucleus 1")
    first.group = 4
    second = roifile.ImagejRoi.frompoints(np.array(RING), name="é")
    part = outlines(first.tobytes(), second.tobytes())
    assert rings(part) == [ring.tolist(), RING]
    assert (part.class_id.tolist(), part.source_id.tolist()) == ([2, 0], ["nucleus 1", "é"])
    ours = roifile.ImagejRoi.frombytes(roi_bytes(ring.astype(float), 0, 3))
    np.testing.assert_array_equal(ours.coordinates(), ring)
    assert (ours.group, ours.roitype) == (3, roifile.ROI_TYPE.POLYGON)
    points = roifile.ImagejRoi.frompoints(ring)
    points.roitype = roifile.ROI_TYPE.POINT
    (part,) = read(zipped(points.tobytes()), "point").parts
    assert part.points_xy.tolist() == ring.tolist()


def test_rectangles_and_ovals_fill_their_box(tmp_path: Any) -> None:
    labels = pixels(tmp_path, header(1, (4, 5, 9, 15)), header(2, (10, 20, 30, 50)))
    assert (labels[4:9, 5:15] == 1).all()
    assert (labels == 1).sum() == 50
    y, x = np.mgrid[:40, :60] + 0.5
    inside = ((x - 35) / 15) ** 2 + ((y - 20) / 10) ** 2
    assert (labels[inside < 0.998] == 2).all()
    assert (labels[inside > 1] != 2).all()


def test_boxes_of_fractions() -> None:
    data = bytearray(header(1, (0, 0, 1, 1), options=128))
    struct.pack_into(">4f", data, 18, 2.5, 3.25, 4, 2)
    assert rings(outlines(bytes(data))) == [[[2.5, 3.25], [6.5, 3.25], [6.5, 5.25], [2.5, 5.25]]]


def test_a_composite_roi_is_one_nucleus_with_holes_and_parts(tmp_path: Any) -> None:
    labels = pixels(tmp_path, path(*square(2, 2, 20), *square(5, 5, 6, back=True), *square(30, 3, 4)))
    expected = np.zeros(CASE.shape_yx, int)
    expected[2:22, 2:22] = 1
    expected[5:11, 5:11] = 0
    expected[3:7, 30:34] = 1
    np.testing.assert_array_equal(labels, expected)


def test_curves_of_a_composite_roi_are_followed() -> None:
    part = outlines(path(0, 0, 0, 1, 8, 0, 2, 8, 8, 0, 8, 3, 0, 6, 0, 4, 0, 0, 4))
    (ring,) = rings(part)
    assert len(ring) == 2 + 16 + 16 - 1  # the last vertex is the first
    assert ring[1 + 8] == [6, 6]  # the middle of a quadratic curve: (start + 2 control + end) / 4


@pytest.mark.parametrize(
    ("roi", "what"),
    [
        (header(3, (0, 0, 5, 5)), "a line"),
        (whole(RING, 5), "a polyline"),
        (whole(RING, 9), "an angle"),
        (header(1, (0, 0, 5, 5), subtype=1), "a text"),
        (header(1, (0, 0, 5, 5), arc=4), "a rounded rectangle"),
        (whole(RING, 10), "a point"),
    ],
)
def test_what_cannot_be_a_nucleus_is_a_finding(roi: bytes, what: str) -> None:
    told = rf"\[unsupported-shape\] 'a.zip', ROI 1: {what} \('0000-0001.roi'\); expected areas"
    with pytest.raises(InputFault, match=told):
        read(zipped(roi))
    said = read(zipped(roi, whole(RING)), other_shapes="skip")
    assert [finding.code for finding in said.findings] == ["left-out"]
    assert len(said.parts[0]) == 1


def test_each_point_is_a_nucleus_where_nuclei_are_points() -> None:
    (part,) = read(zipped(whole(RING, 10)), "point").parts
    assert part.points_xy.tolist() == RING


@pytest.mark.parametrize(
    "roi",
    [
        *(b"", b"Iout", whole(RING)[:-1], b"Jout" + whole(RING)[4:], header(99, (0, 0, 1, 1))),
        *(path(7), path(1, 2, 3), path(0, 1), path(1e30), path(float("nan")), path(0, 1, 1, 2.5, 1, 1)),
        *(header(1, (0, 0, 1, 1), path=2**31 - 1), header(0, (0, 0, 1, 1))[:18] + b"\xff" * 46),
        *(path(*[0, 1, 1] * 1001), path(*[0, 1, 1] * 33_334)),
    ],
)
def test_damaged_rois_are_told_by_their_names(roi: bytes) -> None:
    with pytest.raises(InputFault, match=r"\[invalid-annotation\] 'a.zip', ROI 2: '0001-0001.roi': "):
        read(zipped(whole(RING), roi))


def test_litter_does_not_count_and_no_roi_is_no_nucleus() -> None:
    assert len(read(zipped(**{"__MACOSX/._a.roi": b"x", "a/": b"", ".DS_Store": b"x"})).parts[0]) == 0
    assert len(read(whole(RING)).parts[0]) == 1  # a .roi file alone


def test_a_zip_of_rois_is_found_by_its_content(tmp_path: Any) -> None:
    for content, keys in ((zipped(whole(RING)), {"shape": "outline"}), (whole(RING, 10), {"shape": "point"})):
        (tmp_path / "a").write_bytes(content)
        found = detect_format(tmp_path / "a")
        assert found is not None
        assert (found.format, found.keys) == ("imagej_roi", keys)
    (tmp_path / "a").write_bytes(zipped(**{"labels.npy": b""}))
    assert detect_format(tmp_path / "a").format == "label_image"  # type: ignore[union-attr]


def test_compare_reads_roi_sets_beside_labels(tmp_path: Any) -> None:
    labels = np.zeros(CASE.shape_yx, np.uint16)
    labels[4:9, 5:15] = 1
    labels[20:26, 30:37] = 2
    rois = zipped(whole(RING), header(1, (20, 30, 26, 37)))
    for case in ("a", "b"):
        (tmp_path / "ref").mkdir(exist_ok=True)
        (tmp_path / "pred").mkdir(exist_ok=True)
        tifffile.imwrite(tmp_path / "ref" / f"{case}.tif", labels)
        (tmp_path / "pred" / f"{case}_RoiSet.zip").write_bytes(rois)
    (tmp_path / "one.zip").write_bytes(rois)
    for index, (left, right) in enumerate([("ref", "pred"), ("ref/a.tif", "one.zip")]):
        out = tmp_path / f"out{index}"
        assert run(["compare", str(tmp_path / left), str(tmp_path / right), "--output", str(out)]) == 0
        metrics = json.loads(next(out.rglob("metrics.json")).read_text())
        assert metrics["segmentation"]["iou"]["pooled"] == 1.0
        assert metrics["detection"]["f1"]["pooled"] == 1.0
