"""YOLO's text files for segmentation, written as ``Results.save_txt`` of Ultralytics does it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import tifffile
from skimage.draw import polygon2mask
from skimage.measure import find_contours

from evaluation.authoring.convert import convert_file
from evaluation.challenge import LimitRules, format_rules
from evaluation.commands.main import run
from evaluation.findings.errors import ConversionRefused, InputFault, WrongUsage
from evaluation.formats import Request, read_annotations
from evaluation.instances.prepare import convert_parts
from evaluation.model import Case, ClassTable

CASE = Case("a", "a", 40, 60)
CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {0: 1, 3: 2}, frozenset({"region"}))
ONE = ClassTable(("nucleus",), {"nucleus": 1})
VALUES = {"tumour": 0, "stroma": 3}
DISCS = [(12.3, 15.8, 7.0), (25.5, 40.25, 5.5), (30.0, 8.0, 4.0)]  # y, x and radius, px


def rings() -> list[np.ndarray]:
    """Contours of discs as x and y, from the corner of the image."""
    y, x = np.mgrid[:40, :60]
    masks = [(y - cy) ** 2 + (x - cx) ** 2 < radius**2 for cy, cx, radius in DISCS]
    return [find_contours(mask.astype(float), 0.4)[0][:-1, ::-1] + 0.5 for mask in masks]


def save_txt(rings, classes, confidences=None) -> str:
    """``"%g " * len(line)`` of the class and the shares, as in Ultralytics."""
    lines = []
    for index, (ring, number) in enumerate(zip(rings, classes, strict=True)):
        line = (number, *(ring / (60, 40)).ravel(), *([confidences[index]] if confidences else []))
        lines.append(("%g " * len(line)).rstrip() % line)
    return "\n".join(lines) + "\n"


def read(text, classes=CLASSES, values=VALUES, **more):
    keys = {"vertices": "exact", "vanished": "drop", "origin": "pixel_corner", "class_values": values}
    rules = format_rules(format="yolo_txt", files="{case}.txt", **keys)
    request = Request(where="'a.txt'", name="a.txt", rules=rules, classes=classes, limits=LimitRules(), **more)
    return read_annotations(io.BytesIO(text.encode()), request, CASE)


def test_outlines_cover_the_pixels_that_skimage_gives_them():
    (part,) = read(save_txt(rings(), [0, 3, 0], [0.9, 0.8, 0.75])).parts
    assert part.class_id.tolist() == [1, 2, 1]
    assert part.source_id.tolist() == [1, 2, 3]
    assert part.probability.tolist() == pytest.approx([0.9, 0.8, 0.75])
    rules = {"vertices": "exact", "origin": "pixel_corner", "vanished": "drop", "where": "a"}
    instances = convert_parts([part], (40, 60), **rules).instances
    for index, ring in enumerate(rings()):
        mask = np.zeros(40 * 60, bool)
        of_nucleus = instances.run_instance == index
        for start, stop in zip(instances.run_start[of_nucleus], instances.run_stop[of_nucleus], strict=True):
            mask[start:stop] = True
        assert np.array_equal(mask.reshape(40, 60), polygon2mask((40, 60), ring[:, ::-1] - 0.5))
        assert mask.any()


def test_an_even_number_of_coordinates_has_no_confidence():
    (part,) = read(save_txt(rings(), [0, 3, 0])).parts
    assert part.probability is None


def test_lines_without_words_are_counted_and_no_nuclei():
    (part,) = read("\n\n" + save_txt(rings()[:1], [3]) + "\n").parts
    assert part.source_id.tolist() == [3]
    (none,) = read("").parts
    assert len(none) == 0


def test_numbers_do_not_matter_in_a_challenge_of_one_class():
    (part,) = read(save_txt(rings(), [0, 5, 0]), ONE, None).parts
    assert part.class_id.tolist() == [1, 1, 1]
    with pytest.raises(InputFault, match="'5' is not a class"):
        read(save_txt(rings(), [0, 5, 0]), ClassTable(("nucleus",), {"nucleus": 1}, {0: 1}), {"nucleus": 0})


def test_everything_that_is_wrong_is_told_by_its_line():
    text = "0 0.5 0.5 0.1 0.2\n9 0 0 1 0 1 1\n0 0 0 30 0 1 1\n0 0 0 1 0 1 1 1.5\n"
    with pytest.raises(InputFault) as raised:
        read(text)
    said = {finding.code: str(finding) for finding in raised.value.findings}
    assert "line 1" in said["invalid-annotation"] and "a box" in said["invalid-annotation"]
    assert "line 2" in said["unknown-class"] and "numbers 0, 3" in said["unknown-class"]
    assert "line 3" in said["invalid-coordinate"] and "'30'" in said["invalid-coordinate"]
    assert "line 4" in said["invalid-probability"]


def test_a_file_is_converted_once_its_size_is_known(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text(save_txt(rings(), [0, 1, 0]))
    with pytest.raises(WrongUsage, match="--size"):
        convert_file(source, tmp_path / "out", "geojson")
    convert_file(source, tmp_path / "out", "label_tiff", size_yx=(40, 60), class_names=["tumour", "stroma"])
    labels, classes = tifffile.imread(tmp_path / "out.tif"), tifffile.imread(tmp_path / "out_class.tif")
    assert [set(classes[labels == number].tolist()) for number in (1, 2, 3)] == [{1}, {2}, {1}]
    with pytest.raises(ConversionRefused, match="unknown-class"):
        convert_file(source, tmp_path / "out", "label_tiff", size_yx=(40, 60), class_names=["tumour"])


def test_a_folder_of_yolo_is_compared_with_label_images(tmp_path, capsys):
    for name, number in (("a", 3), ("b", 0)):
        labels = np.zeros((40, 60), np.uint16)
        for index, ring in enumerate(rings()[:number], start=1):
            labels[polygon2mask((40, 60), ring[:, ::-1] - 0.5)] = index
        Path(tmp_path / "mine").mkdir(exist_ok=True)
        tifffile.imwrite(tmp_path / "mine" / f"{name}.tif", labels)
    labels = tmp_path / "runs" / "labels"
    labels.mkdir(parents=True)
    (labels / "a.txt").write_text(save_txt(rings(), [0, 0, 0]))
    (labels / "b.txt").write_text("")
    assert run(["compare", str(tmp_path / "mine"), str(labels)]) == 0
    printed = capsys.readouterr()
    assert "2 images as yolo_txt" in printed.out + printed.err
    assert "1.0000" in printed.out
    assert run(["compare", str(labels), str(labels)]) == 2
    assert "Put the images beside the files" in capsys.readouterr().err
