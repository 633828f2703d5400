"""JSON of HoVer-Net, CellViT and labelme, imitated from the code that writes it."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from skimage.draw import polygon2mask

from evaluation.authoring.convert import convert_file
from evaluation.challenge import LimitRules, format_rules
from evaluation.commands.main import run
from evaluation.findings.errors import InputFault
from evaluation.formats import Request, read_annotations
from evaluation.formats.detect import detect_format
from evaluation.model import Case, ClassTable

CASE = Case("a", "a", 20, 30)
CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {5: 1, 2: 2}, frozenset({"region"}))
CONTOUR = [[3, 2], [3, 6], [8, 6], [8, 2]]  # of 6 x 5 px, as OpenCV's CHAIN_APPROX_SIMPLE gives it
NUCLEUS = {"bbox": [[2, 3], [7, 9]], "centroid": [5.5, 4.0], "contour": CONTOUR, "type_prob": 0.75, "type": 5}


def read(document, tool, *, shape="outline", classes=CLASSES, **more):
    keys = {"vertices": "exact", "vanished": "drop"} if shape == "outline" else {}
    origin = "pixel_corner" if tool == "labelme" else "pixel_centre"
    rules = format_rules(
        format="contours_json", files="{case}.json", tool=tool, shape=shape, origin=origin, **keys, **more
    )
    request = Request(where="'a.json'", name="a.json", rules=rules, classes=classes, limits=LimitRules())
    return read_annotations(io.BytesIO(json.dumps(document).encode()), request, CASE)


def hovernet(**nuclei):
    return {"mag": 40, "nuc": {key.lstrip("n"): value for key, value in nuclei.items()}}


def shape(points, label="tumour", group_id=None, shape_type="polygon"):
    return {"label": label, "points": points, "group_id": group_id, "shape_type": shape_type, "flags": {}}


def labelme(*shapes):
    return {"version": "5.5.0", "flags": {}, "shapes": shapes, "imageHeight": 20, "imageWidth": 30, "imageData": "QUJD"}


def test_a_contour_of_opencv_covers_the_pixels_that_it_was_taken_from():
    (part,) = read(hovernet(n7=NUCLEUS), "hovernet").parts
    assert (part.class_id.tolist(), part.source_id.tolist(), part.probability.tolist()) == ([1], ["7"], [0.75])
    mask = polygon2mask(CASE.shape_yx, np.array(CONTOUR)[:, ::-1])
    assert mask.sum() == 30
    assert mask[2:7, 3:9].all()


def test_centroids_are_the_points():
    (part,) = read(hovernet(n1=NUCLEUS), "hovernet", shape="point").parts
    assert part.points_xy.tolist() == [[5.5, 4.0]]


def test_no_type_and_the_type_0_are_no_class():
    nuclei = {f"n{i}": {**NUCLEUS, "type": kind, "type_prob": None} for i, kind in enumerate([None, 0, 2])}
    (part,) = read(hovernet(**nuclei), "hovernet").parts
    assert part.class_id.tolist() == [0, 0, 2]
    assert part.probability is None


@pytest.mark.parametrize("types", [{"1": "Tumour", "2": "Stroma"}, {"Tumour": 1, "Stroma": 2}])
def test_names_of_cellvit_go_before_numbers(types):
    cells = [{**NUCLEUS, "type": number} for number in (1, 2, 5)]
    (part,) = read({"wsi_metadata": {}, "type_map": types, "cells": cells}, "cellvit").parts
    assert part.class_id.tolist() == [1, 2, 1]
    assert part.source_id.tolist() == [1, 2, 3]


def test_a_type_that_is_no_class_is_told_by_its_name():
    document = {"type_map": {"9": "Dead"}, "cells": [{**NUCLEUS, "type": 9}]}
    with pytest.raises(InputFault, match="'Dead' is not a class"):
        read(document, "cellvit")


def test_cell_detection_has_points_only():
    cell = {key: NUCLEUS[key] for key in ("bbox", "centroid", "type")}
    (part,) = read({"cells": [cell]}, "cellvit", shape="point").parts
    assert part.points_xy.tolist() == [[5.5, 4.0]]
    with pytest.raises(InputFault, match="It has no contours"):
        read({"cells": [cell]}, "cellvit")


def test_a_group_of_labelme_is_one_nucleus_and_a_rectangle_has_two_corners():
    square, other = [[1, 1], [4, 1], [4, 4], [1, 4]], [[10, 1], [12, 1], [12, 3]]
    document = labelme(
        shape(square, group_id=3),
        shape([[20, 5], [24, 9]], "stroma", shape_type="rectangle"),
        shape(other, group_id=3),
        shape(square, "region"),
    )
    (part,) = read(document, "labelme").parts
    assert part.class_id.tolist() == [1, 2]
    assert part.ring_instance.tolist() == [0, 0, 1]
    assert part.points_xy[7:].tolist() == [[20, 5], [24, 5], [24, 9], [20, 9]]


def test_other_shapes_are_refused_or_left_out():
    document = labelme(shape([[1, 1], [4, 1]], shape_type="circle"))
    with pytest.raises(InputFault, match="unsupported-shape"):
        read(document, "labelme")
    said = read(document, "labelme", other_shapes="skip")
    assert [finding.code for finding in said.findings] == ["left-out"]
    (part,) = read(labelme(shape([[4, 5]], shape_type="point")), "labelme", shape="point").parts
    assert part.points_xy.tolist() == [[4, 5]]


@pytest.mark.parametrize(
    "document, tool", [(hovernet(n1=NUCLEUS), "labelme"), (labelme(), "cellvit"), ([], "hovernet"), ({}, "cellvit")]
)
def test_a_file_of_another_tool_is_refused(document, tool):
    with pytest.raises(InputFault, match="wrong-format"):
        read(document, tool)


@pytest.mark.parametrize("document, keys", [
    (hovernet(n1=NUCLEUS), {"tool": "hovernet", "shape": "outline"}),
    ({"wsi_metadata": {}, "cells": [NUCLEUS]}, {"tool": "cellvit", "shape": "outline"}),
    ({"cells": [{"bbox": [[1, 2]], "centroid": [1, 2], "type": 1}]}, {"tool": "cellvit", "shape": "point"}),
    (labelme(shape([[1, 2]], "Polygon")), {"tool": "labelme", "shape": "outline"}),
])  # fmt: skip
def test_tools_are_found_by_content(document, keys, tmp_path):
    (tmp_path / "a").write_text(json.dumps(document))
    found = detect_format(tmp_path / "a")
    assert (found.format, found.keys) == ("contours_json", keys)


def test_a_category_called_cells_is_no_tool(tmp_path):
    document = {"categories": [{"id": 1, "name": "cells"}], "annotations": [{"bbox": [1, 2, 3, 4]}]}
    (tmp_path / "a").write_text(json.dumps(document))
    assert detect_format(tmp_path / "a").format == "midog_json"


def test_pixels_come_back_from_hovernet_as_they_were(tmp_path):
    import tifffile

    (tmp_path / "a.json").write_text(json.dumps(hovernet(n1=NUCLEUS)))
    convert_file(tmp_path / "a.json", tmp_path / "a", "label_tiff", size_yx=CASE.shape_yx)
    labels = tifffile.imread(tmp_path / "a.tif")
    assert np.argwhere(labels).min(axis=0).tolist() == [2, 3]
    assert (labels > 0).sum() == 30


def test_compare_reads_a_folder_of_hovernet_beside_labels(tmp_path, capsys):
    import tifffile

    for name in ("ref", "pred"):
        (tmp_path / name).mkdir()
    for case in ("a", "b"):
        labels = np.zeros(CASE.shape_yx, np.uint16)
        labels[2:7, 3:9] = 1
        tifffile.imwrite(tmp_path / "ref" / f"{case}.tif", labels)
        (tmp_path / "pred" / f"{case}.json").write_text(json.dumps(hovernet(n1=NUCLEUS)))
    assert run(["compare", str(tmp_path / "ref"), str(tmp_path / "pred"), "--output", str(tmp_path / "out")]) == 0
    metrics = json.loads(next((tmp_path / "out").rglob("metrics.json")).read_text())
    assert metrics["detection"]["f1"]["pooled"] == 1.0
    assert metrics["segmentation"]["iou"]["pooled"] == 1.0
