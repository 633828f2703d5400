"""Label images that are written: other programs read them, our readers give the same instances, and no byte varies."""

from __future__ import annotations

import io
import json
import time
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import scipy.io
import SimpleITK
import tifffile
from formats import read, read_part
from formats.json_outlines import GEOJSON, HOLE, OTHER, RING, collection, shape
from formats.tables import COUNTS
from hypothesis import given
from hypothesis import strategies as st
from literal import images, instances_of, masks_of
from PIL import Image

from evaluation.challenge import LimitRules, format_rules
from evaluation.files.formats import Request, label_image, read_annotations
from evaluation.files.formats.geojson import write_geojson
from evaluation.files.formats.label_image import write_class_tiff, write_label_tiff, write_nary_mat
from evaluation.files.formats.listed_nuclei import write_points_json, write_polygons_json
from evaluation.files.formats.tables import write_counts_csv
from evaluation.findings.errors import InputFault
from nuclei_metrics.instances.prepare import instances_from_points
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.instances.runs import instances_from_label_image, instances_from_labels
from nuclei_metrics.model import Case, ClassTable, Instances, LabelImage, Outlines, Points

CLASSES = ClassTable(("tumour", "stroma", "immune"), {"tumour": 1, "stroma": 2, "immune": 3}, {10: 1, 20: 2, 30: 3})
NUMBERS = [10, 20, 30]


def read_back(
    data: bytes, format: str, shape_yx: tuple[int, int], *, class_map: bytes | None = None, file_class: int = 0
) -> Instances:
    """What our own readers make of a file."""
    rules = {"files": "{case}.tif"}
    if class_map is not None:
        rules |= {"class_map": "{case}_class.tif", "class_values": {"tumour": 10, "stroma": 20, "immune": 30}}
    request = Request(
        where="'a'",
        name="a.tif" if format == "label_image" else "a.mat",
        rules=format_rules(format=format, **rules),
        classes=CLASSES,
        limits=LimitRules(),
        file_class=file_class,
    )
    companions = {} if class_map is None else {"class_map": (io.BytesIO(class_map), "'a_class.tif'")}
    (part,) = read_annotations(io.BytesIO(data), request, Case("a", "a", *shape_yx), companions).parts
    assert isinstance(part, LabelImage)
    return instances_from_label_image(part)


def assert_same(found: Any, expected: Any) -> None:
    """Of two dataclasses each field."""
    assert type(found) is type(expected)
    for field in fields(expected):
        assert np.array_equal(getattr(found, field.name), getattr(expected, field.name)), field.name


def numbered(side) -> Instances:
    return replace(instances_of(*side), source_id=np.arange(1, len(side[0]) + 1))


@given(images(overlap=False), st.sampled_from([1, 40_000]))
def test_a_label_tiff_and_its_class_tiff_read_back_are_the_same_instances(side, factor):
    instances = numbered(side)
    instances = replace(instances, source_id=factor * instances.source_id)
    classes = write_class_tiff(instances, NUMBERS)
    assert_same(read_back(write_label_tiff(instances), "label_image", instances.shape_yx, class_map=classes), instances)


@given(images(overlap=False), st.integers(1, 3))
def test_nary_masks_read_back_are_the_instances_of_their_class(side, class_id):
    masks, classes = side
    instances = numbered(side)
    chosen = np.array(classes, int) == class_id
    expected = replace(numbered((masks[chosen], [class_id] * chosen.sum())), source_id=instances.source_id[chosen])
    data = write_nary_mat(instances, class_id)
    assert_same(read_back(data, "nary_mat", instances.shape_yx, file_class=class_id), expected)


@pytest.mark.parametrize("largest, dtype", [(65_535, np.uint16), (65_536, np.int32), (2**31 - 1, np.int32)], ids=str)
def test_other_programs_read_the_same_numbers(largest, dtype, tmp_path):
    labels = np.zeros((7, 11), np.int64)
    labels[1:4, 2:9], labels[5, 10], labels[0, 0] = 3, largest, 1
    instances = instances_from_labels(labels)
    path = tmp_path / "labels.tif"
    path.write_bytes(write_label_tiff(instances))
    for found in (
        tifffile.imread(path),
        SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(path))),
        np.asarray(Image.open(path)),
        scipy.io.loadmat(io.BytesIO(write_nary_mat(instances)))["n_ary_mask"],
    ):
        assert np.array_equal(found, labels)
        assert found.dtype.itemsize == np.dtype(dtype).itemsize


def test_nuclei_whose_ids_are_no_labels_are_numbered():
    for source_id in (np.array(["b", "a"], object), *map(np.array, ([5, 5], [0, 1], [-1, 4], [1, 2**31]))):
        instances = replace(instances_from_labels(np.array([[7, 0, 8]])), source_id=source_id)
        assert tifffile.imread(io.BytesIO(write_label_tiff(instances))).tolist() == [[1, 0, 2]], source_id


def test_the_class_tiff_has_the_numbers_of_the_classes():
    labels = np.array([[5, 5, 0, 6, 7, 8]])
    instances = replace(instances_from_labels(labels), class_id=np.array([2, 1, 0, -1], np.int16))
    assert tifffile.imread(io.BytesIO(write_class_tiff(instances))).tolist() == [[2, 2, 0, 1, 0, 0]]
    found = tifffile.imread(io.BytesIO(write_class_tiff(instances, [300, 70_000])))
    assert found.tolist() == [[70_000, 70_000, 0, 300, 0, 0]]


def write_all(instances: Instances) -> list[bytes]:
    return [write_label_tiff(instances), write_class_tiff(instances), write_nary_mat(instances)]


def test_the_same_instances_give_the_same_bytes_at_any_time(monkeypatch):
    instances = instances_from_labels(np.array([[1, 1, 0], [0, 2, 2]]), [1, 2])
    today = write_all(instances)
    monkeypatch.setattr(time, "asctime", lambda *_: "Thu Jan  1 00:00:00 1970")
    assert write_all(instances) == today
    for content in today[:2]:
        tags = {tag.name for tag in tifffile.TiffFile(io.BytesIO(content)).pages[0].tags}
        assert not tags & {"DateTime", "Software", "ImageDescription", "HostComputer"}
    assert today[2].startswith(b"MATLAB 5.0 MAT-file") and b"Created" not in today[2][:128]


@given(images(overlap=True))
def test_overlaps_are_refused_with_the_number_of_contested_pixels(side):
    masks, _ = side
    contested = int((masks.sum(axis=0) > 1).sum())
    if not contested:
        labels = tifffile.imread(io.BytesIO(write_label_tiff(instances_of(*side))))
        assert np.array_equal(np.sort(masks_of(instances_from_labels(labels)), axis=0), np.sort(masks, axis=0))
        return
    for write in (write_label_tiff, write_class_tiff, write_nary_mat):
        with pytest.raises(InputFault, match=f"nuclei: {contested} pixel"):
            write(instances_of(*side))


def overlapping() -> Instances:
    masks = np.zeros((2, 4, 6), bool)
    masks[0, 1, 1:4] = masks[1, 1, 3:6] = True
    return instances_of(masks, [1, 2])


def test_nuclei_of_other_classes_may_overlap_those_of_an_nary_mask_alone():
    with pytest.raises(InputFault, match="case 'P1_1': 1 pixel belongs"):
        write_class_tiff(overlapping(), where="case 'P1_1'")
    found = scipy.io.loadmat(io.BytesIO(write_nary_mat(overlapping(), 2)))["n_ary_mask"]
    assert found[1].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("write", [write_label_tiff, write_class_tiff, write_nary_mat])
def test_points_have_no_place_in_a_label_image(write):
    points = Points(np.array([[1.0, 2.0]]), np.ones(1, np.int16), np.array(["p"], object))
    with pytest.raises(InputFault) as caught:
        write(instances_from_points(points, (5, 6), origin="pixel_centre"))
    assert [finding.code for finding in caught.value.findings] == ["unsupported-shape"]


def test_an_image_that_no_matlab_file_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(label_image, "MAT_BYTES", 100)
    assert write_nary_mat(instances_from_labels(np.ones((5, 10), int)))
    with pytest.raises(InputFault, match=r"too-large.*102 bytes.*at most 100"):
        write_nary_mat(instances_from_labels(np.ones((3, 17), int)))


@given(st.dictionaries(st.sampled_from("ab"), st.tuples(*[st.integers(0, 10**9)] * 2)))
def test_written_counts_are_read_as_they_were(written):
    found = read(write_counts_csv(written, ["Tumour", "Stroma"]), **COUNTS)
    assert {name: tuple(said.parts[0].per_class.tolist()) for name, said in found.cases.items()} == written


# --- GeoJSON and the platform's JSON ----------------------------------------------------------------------------------

CLASSES_OF_JSON = ("Epithelial", "Lymphocyte")
NAMED = {"classes": {"epithelial": 1, "lymphocyte": 2}}


def outlines_of(shapes, class_id, probability=None, source_id=None) -> Outlines:
    """Outlines from lists of parts, which are lists of rings, each as a list of vertices."""
    rings = [
        (index, ring, hole > 0)
        for index, parts in enumerate(shapes)
        for part in parts
        for hole, ring in enumerate(part)
    ]
    points = [vertex for _, ring, _ in rings for vertex in ring]
    return Outlines(
        points_xy=np.array(points, np.float64).reshape(-1, 2),
        ring_start=np.cumsum([0, *(len(ring) for _, ring, _ in rings)]),
        ring_instance=np.array([index for index, _, _ in rings], np.int32),
        ring_is_hole=np.array([hole for _, _, hole in rings], np.bool_),
        class_id=np.array(class_id, np.int16),
        source_id=np.array([*(source_id or map(str, range(len(shapes)))), None], object)[:-1],
        probability=None if probability is None else np.array(probability, np.float64),
    )


ORDINATES = st.one_of(st.integers(-1000, 100000), st.floats(-1e8, 1e8))


@st.composite
def some_outlines(draw) -> Outlines:
    """Rectangles in a row, each with a triangle as a hole or not; the fractions are arbitrary."""
    shapes = []
    count = draw(st.integers(0, 4))
    for _ in range(count):
        parts = []
        for index in range(draw(st.integers(1, 3))):
            x, y = 100 * index + draw(st.floats(0, 10)), draw(ORDINATES)
            ring = [[x, y], [x + 50, y], [x + 50, y + 50], [x, y + 60]]
            holes = [[[x + 10, y + 10], [x + 20, y + 10], [x + 20, y + 30]]] * draw(st.integers(0, 2))
            parts.append([ring, *holes])
        shapes.append(parts)
    probability = st.one_of(st.none(), st.lists(st.floats(0, 1, width=32), min_size=count, max_size=count))
    class_id = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    return outlines_of(shapes, class_id, draw(probability) if count else None)


@given(some_outlines())
def test_what_is_written_is_read_again(outlines):
    data = write_geojson(outlines, ["Epithelial", "Lymphocyte"], ["#ff0080", None])
    assert_same(read_part(data, **NAMED, **GEOJSON), outlines)


def test_a_written_file_has_the_structure_of_qupath(shared_data):
    outlines = outlines_of([[[RING[:-1]]], [[OTHER[:-1], HOLE[:-1]], [RING[:-1]]]], [1, 2], [0.1, 1], ["a", "b"])
    written = json.loads(write_geojson(outlines, ["Epithelial", "Lymphocyte"], ["#ff0080", None]))
    parts = {"type": "MultiPolygon", "coordinates": [[OTHER, HOLE], [RING]]}
    coloured = {"name": "Epithelial", "color": [255, 0, 128]}
    assert written == collection(*(
        {"type": "Feature", "id": name, "geometry": geometry, "properties": {
            "objectType": "annotation", "classification": classification, "measurements": {"Probability": probability},
        }}
        for name, geometry, classification, probability in (
            ("a", shape(RING), coloured, 0.1), ("b", parts, {"name": "Lymphocyte"}, 1.0),
        )
    ))  # fmt: skip
    theirs = json.loads((shared_data / "asap_geojson/tests/files/qupath05.geojson").read_text())
    for item in (written, theirs):
        assert set(item) == {"type", "features"}
        assert {frozenset(one) for one in item["features"]} == {frozenset({"type", "id", "geometry", "properties"})}
        assert {one["properties"]["objectType"] for one in item["features"]} == {"annotation"}


def test_whole_coordinates_are_written_without_a_point():
    square = outlines_of([[[OTHER[:-1]]]], [0])
    assert b'"coordinates":[[[10,10],[20,10],[20,20],[10,20],[10,10]]]' in write_geojson(square, [], [])


def test_holes_go_to_the_smallest_part_around_them_and_strays_to_the_first():
    def square(x, size):
        return [[x, 0], [x + size, 0], [x + size, size], [x, size]]

    def ring(*numbers):
        return [all_rings[number] for number in numbers]

    all_rings = [square(0, 100), square(200, 100), square(1, 50), square(210, 5), square(5, 5), square(400, 5)]
    outlines = outlines_of([[all_rings]], [0])
    outlines = replace(outlines, ring_is_hole=np.array([False, False, False, True, True, True]))
    (item,) = json.loads(write_geojson(outlines, [], []))["features"]
    parts = [[ring[:-1] for ring in part] for part in item["geometry"]["coordinates"]]
    assert parts == [ring(0, 5), ring(1, 3), ring(2, 4)]


def test_rings_of_few_vertices_get_four_positions_and_cover_the_same_pixels():
    outlines = outlines_of([[[[[3, 3]]]], [[[[3, 3], [7, 3]]]], [[[[3, 3], [7, 3], [3, 3]]]]], [1, 1, 1])
    data = write_geojson(outlines, ["Epithelial"], [None])
    sizes = [len(one["geometry"]["coordinates"][0]) for one in json.loads(data)["features"]]
    assert sizes == [4, 4, 4]
    rules = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
    again = read_part(data, **NAMED, **GEOJSON)
    before, after = (rasterise_outlines(one, (10, 10), **rules) for one in (outlines, again))
    assert before.run_start.tolist() == after.run_start.tolist()
    assert before.run_instance.tolist() == after.run_instance.tolist()


def test_nuclei_without_vertices_are_left_out():
    outlines = outlines_of([[[[]]], [[OTHER[:-1], []]]], [0, 0], [0, 1])
    assert read_part(write_geojson(outlines, [], []), **NAMED, **GEOJSON).probability.tolist() == [1]


@pytest.mark.parametrize("class_id", [-1, 3])
def test_ignore_classes_have_no_name_to_write(class_id):
    with pytest.raises(ValueError, match=f"class id {class_id}"):
        write_geojson(outlines_of([[[OTHER]]], [class_id]), ["a", "b"], [None, None])
    with pytest.raises(ValueError, match=f"class id {class_id}"):
        write_points_json(Points(np.array([[1.5, 2]]), np.array([class_id], np.int16), np.array([1], object)), ["a"])


COORDINATES = st.tuples(st.one_of(st.integers(-9, 9), st.floats(-1e9, 1e9)), st.floats(-1e9, 1e9))
PROBABILITIES = st.floats(0, 1, width=32)


NUCLEI = st.lists(st.tuples(st.lists(COORDINATES, min_size=1, max_size=5), st.integers(0, 2), PROBABILITIES))


@given(NUCLEI, st.booleans())
def test_what_is_written_for_the_platform_is_read_again(nuclei, with_probability):
    """The rings as polygons, their first vertices as points."""
    class_id, ids = [of_class for _, of_class, _ in nuclei], list(range(1, len(nuclei) + 1))
    probability = [value for _, _, value in nuclei] if with_probability and nuclei else None
    outlines = outlines_of([[[ring]] for ring, _, _ in nuclei], class_id, probability, ids)
    written = write_polygons_json(outlines, CLASSES_OF_JSON, "nuclei")
    assert_same(read_part(written, **NAMED, format="polygons_json"), outlines)
    first = outlines.points_xy[outlines.ring_start[:-1]]
    points = Points(first, outlines.class_id, outlines.source_id, outlines.probability)
    assert_same(read_part(write_points_json(points, CLASSES_OF_JSON), **NAMED, format="points_json"), points)


def two_rings(*, is_hole: bool) -> Outlines:
    square = [[0.0, 0], [9, 0], [9, 9], [0, 9]]
    return Outlines(
        np.array(square * 3), np.array([0, 4, 8, 12]), np.array([0, 1, 1], np.int32), np.array([False, False, is_hole]),
        np.array([1, 1], np.int16), np.array(["a", "b"], object),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("is_hole", "got"), [(True, "an outline with a hole"), (False, "an outline with several parts")]
)
def test_holes_and_parts_cannot_be_written_as_polygons(is_hole, got):
    with pytest.raises(InputFault) as fault:
        write_polygons_json(two_rings(is_hole=is_hole), CLASSES_OF_JSON, "nuclei")
    assert [str(finding) for finding in fault.value.findings] == [
        f"[unsupported-shape] 'nuclei', nucleus 'b': {got}; expected outlines without holes, of one part, in a "
        "'Multiple polygons' file. Split it, fill its holes, or write another format, such as GeoJSON."
    ]


def test_written_files_have_the_keys_of_the_platform():
    ring = two_rings(is_hole=False)
    outlines = outlines_of([[[ring.points_xy[:4].tolist()]]], [1], [0.1])
    assert json.loads(write_polygons_json(outlines, CLASSES_OF_JSON, "cells")) == {
        "type": "Multiple polygons",
        "name": "cells",
        "version": {"major": 1, "minor": 0},
        "polygons": [
            {
                "name": "Epithelial",
                "seed_point": [0, 0, 0.5],
                "path_points": [[0, 0, 0.5], [9, 0, 0.5], [9, 9, 0.5], [0, 9, 0.5]],
                "sub_type": "",
                "groups": [],
                "probability": 0.1,
            }
        ],
    }
    one = Points(np.array([[1.5, 2]]), np.ones(1, np.int16), np.array([1], object), np.array([0.1], np.float64))
    assert json.loads(write_points_json(one, CLASSES_OF_JSON)) == {
        "type": "Multiple points",
        "version": {"major": 1, "minor": 0},
        "points": [{"name": "Epithelial", "point": [1.5, 2, 0.5], "probability": 0.1}],
    }
