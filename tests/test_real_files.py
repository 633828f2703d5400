"""Real files of every format are read as other programs, or a literal decoder, read them. See ../shared/data."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.io
import scipy.ndimage
import shapely
import tifffile
from formats import check_lines, lines_of, picture, read, read_part, shown
from formats.coco import MIDOG
from formats.pixels import TWO, mat_file
from literal import masks_of
from PIL import Image

from nuclei_metrics.instances.runs import instances_from_label_image
from nuclei_metrics.model import Case, ClassTable

# --- Data Science Bowl 2018 -------------------------------------------------------------------------------------------


def decoded(code: str, case: Case) -> Any:
    """A code painted pixel by pixel, down the columns from 1, bool (H, W)."""
    mask = np.zeros((case.height, case.width), np.bool_)
    words = code.split()
    for start, length in zip(words[::2], words[1::2], strict=True):
        for pixel in range(int(start) - 1, int(start) - 1 + int(length)):
            mask[pixel % case.height, pixel // case.height] = True
    return mask


@pytest.fixture(scope="module")
def bowl_rows(shared_data: Path) -> list[dict[str, str]]:
    with (shared_data / "dsb2018/stage1_solution.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def bowl(bowl_rows: list[dict[str, str]]) -> dict[str, Any]:
    """How the files are read."""
    cases = {
        row["ImageId"]: Case(row["ImageId"], row["ImageId"], int(row["Height"]), int(row["Width"])) for row in bowl_rows
    }
    return {"format": "rle_csv", "cases": cases, "pixel_order": "column", "first_pixel": 1}


def test_the_reference_of_the_bowl_is_what_a_literal_decoder_paints(shared_data, bowl, bowl_rows):
    found = read((shared_data / "dsb2018/stage1_solution.csv").read_bytes(), **bowl)
    nuclei = {name: said.parts[0] for name, said in found.cases.items()}
    assert (len(nuclei), sum(map(len, nuclei.values())), found.unknown) == (65, 4152, {})
    cases = bowl["cases"]
    smallest = sorted(cases, key=lambda name: sum(row["ImageId"] == name for row in bowl_rows))[:3]
    not_square = next(name for name, case in cases.items() if case.height != case.width)
    for name in {*smallest, not_square}:
        painted = [decoded(row["EncodedPixels"], cases[name]) for row in bowl_rows if row["ImageId"] == name]
        assert np.array_equal(masks_of(nuclei[name]), np.array(painted))


def test_every_image_of_gray53_has_an_empty_row_that_is_no_nucleus(shared_data, bowl):
    data = (shared_data / "dsb2018/submission_gray53.csv").read_bytes()
    lines = data.splitlines()[1:]
    assert sum(line.endswith(b",") for line in lines) == 65
    assert sum(len(said.parts[0]) for said in read(data, **bowl).cases.values()) == len(lines) - 65


# --- Aperio and ASAP: ElementTree is the oracle -----------------------------------------------------------------------

MONUSAC = {"epithelial": 1, "lymphocyte": 2, "neutrophil": 3, "macrophage": 4, "": 1}
MONKEY = {"lymphocytes": 1, "monocytes": 2}
DOTS, OUTLINES = {"format": "asap_xml", "shape": "point"}, {"format": "asap_xml", "shape": "outline"}
TILES = {"aberrant_positive_columnar": 1, "unsure": 2}


def test_real_files_of_aperio_are_read_as_elementtree_reads_them(shared_data):
    files = sorted([*shared_data.glob("monusac/*.xml"), *shared_data.glob("monuseg/*.xml.gz")])
    assert len(files) == 11
    numbers = {}
    for path in files:
        data = path.read_bytes()
        outlines = read_part(data, format="aperio_xml", classes=MONUSAC)
        tree = ElementTree.fromstring(gzip.decompress(data) if path.suffix == ".gz" else data)
        regions = [
            (f"{annotation.get('Id')}/{element.get('Id')}", element)
            for annotation in tree.findall("Annotation")
            for element in annotation.findall("Regions/Region")
        ]
        assert outlines.source_id.tolist() == [name for name, _ in regions]
        for (_, element), (begin, end) in zip(regions, pairwise(outlines.ring_start), strict=True):
            expected = [[float(v.get("X")), float(v.get("Y"))] for v in element.findall("Vertices/Vertex")]
            assert np.array_equal(outlines.points_xy[begin:end], np.array(expected).reshape(-1, 2))
        numbers[path.stem] = np.bincount(outlines.class_id, minlength=5).tolist()
    assert (numbers["A9K0_1"], numbers["A9K0_3"]) == ([0, 314, 0, 0, 7], [0, 0, 0, 5, 0])


def elements_of(data: bytes, groups) -> list[tuple[str, str, list[list[float]]]]:
    """Position, group and coordinates of the annotations in these groups, as ElementTree reads them."""
    return [
        (str(index), element.get("PartOfGroup"), [[float(c.get("X")), float(c.get("Y"))] for c in element[0]])
        for index, element in enumerate(ElementTree.fromstring(data).iterfind("Annotations/Annotation"), start=1)
        if element.get("PartOfGroup") in groups
    ]


def test_the_dots_of_monkey_are_told_from_its_regions_of_interest_and_have_their_boxes(shared_data):
    folder = shared_data / "monkey"
    data = (folder / "A_P000001.xml").read_bytes()
    dots = read_part(data, classes=MONKEY, skipped=["roi"], **DOTS)
    assert np.bincount(dots.class_id).tolist() == [0, 469, 771]
    expected = elements_of(data, MONKEY)
    assert dots.source_id.tolist() == [name for name, _, _ in expected]
    assert dots.class_id.tolist() == [MONKEY[group] for _, group, _ in expected]
    assert dots.points_xy.tolist() == [point for _, _, (point,) in expected]

    annotations = read(data, classes=MONKEY, **DOTS, other_shapes="skip")
    assert np.array_equal(annotations.parts[0].points_xy, dots.points_xy)
    assert [(finding.got, finding.count) for finding in annotations.findings] == [("Type 'Polygon'", 1)] * 2
    check_lines(lines_of(data, classes=MONKEY, **DOTS), ["[unsupported-shape]"] * 2)

    boxes = (folder / "A_P000001_region.xml").read_bytes()
    outlines = read_part(boxes, classes=MONKEY, skipped=["roi"], **OUTLINES)
    assert np.array_equal(outlines.class_id, dots.class_id)
    assert (np.diff(outlines.ring_start) == 4).all()
    assert np.abs(outlines.points_xy.reshape(-1, 4, 2).mean(axis=1) - dots.points_xy).max() < 1e-3


def test_tiles_xml_equals_tiles_geojson(shared_data):
    folder = shared_data / "asap_geojson"
    outlines = read_part((folder / "tiles.xml").read_bytes(), classes=TILES, **OUTLINES)
    features = json.loads((folder / "tiles.geojson").read_text())["features"]
    assert len(outlines) == len(features) == 136
    assert np.bincount(outlines.class_id).tolist() == [0, 116, 20]
    for feature, class_id, (begin, end) in zip(
        features, outlines.class_id.tolist(), pairwise(outlines.ring_start), strict=True
    ):
        (ring,) = feature["geometry"]["coordinates"]
        assert TILES[feature["properties"]["classification"]["name"]] == class_id
        assert outlines.points_xy[begin:end].tolist() == (ring[:-1] if ring[0] == ring[-1] else ring)


@pytest.mark.parametrize(
    "name", ["asap_geojson/tiles.xml", "asap_geojson/xml_example.xml", "monkey/A_P000001_region.xml"]
)
def test_real_outlines_of_asap_are_read_as_elementtree_reads_them(shared_data, name):
    data = (shared_data / name).read_bytes()
    classes = {**TILES, **{group: index + 2 for group, index in MONKEY.items()}}
    outlines = read_part(data, classes=classes, skipped=["roi"], **OUTLINES)
    expected = elements_of(data, classes)
    assert outlines.source_id.tolist() == [name for name, _, _ in expected]
    assert outlines.class_id.tolist() == [classes[group] for _, group, _ in expected]
    assert outlines.ring_start.tolist() == np.cumsum([0, *(len(points) for _, _, points in expected)]).tolist()
    assert outlines.points_xy.tolist() == [point for _, _, points in expected for point in points]


# --- GeoJSON and the platform's JSON ----------------------------------------------------------------------------------

PUMA_CLASSES = [
    f"nuclei_{name}"
    for name in (
        "tumor", "lymphocyte", "plasma_cell", "histiocyte", "melanophage",
        "neutrophil", "stroma", "epithelium", "endothelium", "apoptosis",
    )
]  # fmt: skip


def read_real(path: Path, classes: Sequence[str] = PUMA_CLASSES, **options: Any) -> Any:
    ids = {name.casefold(): index for index, name in enumerate(classes, start=1)}
    options = {"format": "geojson", "shape": "outline"} | options if "format" not in options else options
    return read_part(path.read_bytes(), **{"classes": ids, **options})


def shapely_geometries(path: Path) -> list[shapely.Geometry]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    content = json.loads(text)
    return [shapely.from_geojson(json.dumps(one["geometry"])) for one in content["features"]]


@pytest.mark.parametrize("name, nuclei", [
    ("metastatic_roi_029_nuclei.geojson.gz", 546), ("metastatic_roi_102_nuclei.geojson", 302),
    ("primary_roi_101_nuclei.geojson", 382), ("primary_roi_102_nuclei.geojson", 471),
])  # fmt: skip
def test_puma_is_read_as_shapely_reads_it(shared_data, name, nuclei):
    path = shared_data / "puma/reference" / f"training_set_{name}"
    outlines = read_real(path)
    theirs = shapely_geometries(path)
    polygons = shapely.get_parts(theirs)
    assert len(outlines) == len(theirs) == nuclei
    assert int((~outlines.ring_is_hole).sum()) == len(polygons)
    assert int(outlines.ring_is_hole.sum()) == shapely.get_num_interior_rings(polygons).sum() > 0
    assert (outlines.points_xy.min(), outlines.points_xy.max()) == (0, 1024)
    rings = [shapely.Polygon(ring).area if len(ring) > 2 else 0.0 for ring in shown(outlines, "rings")]
    area = np.bincount(outlines.ring_instance, np.where(outlines.ring_is_hole, -1, 1) * rings)
    assert area == pytest.approx(shapely.area(theirs))


def test_cellvit_points_are_nuclei(shared_data):
    path = shared_data / "cellvit/cell_detection.geojson"
    points = read_real(path, ["Neoplastic", "Inflammatory", "Connective"], shape="point")
    assert np.bincount(points.class_id).tolist() == [0, 36, 3562, 34329]
    assert points.points_xy[0].tolist() == [20290, 9161]
    assert len(set(points.source_id.tolist())) == 37927


def test_annotations_of_qupath_without_a_classification_have_no_class(shared_data):
    outlines = read_real(shared_data / "asap_geojson/tests/files/qupath05.geojson")
    assert outlines.class_id.tolist() == [0, 0, 0]
    assert len(outlines.points_xy) == sum(
        len(geometry.exterior.coords) - 1
        for geometry in shapely_geometries(shared_data / "asap_geojson/tests/files/qupath05.geojson")
    )


# --- MIDOG++ ----------------------------------------------------------------------------------------------------------


def test_midog_has_26286_boxes_in_553_images_of_which_78_have_no_mitosis(shared_data):
    path = shared_data / "midog" / "databases" / "MIDOG++.json.gz"
    database = json.loads(gzip.decompress(path.read_bytes()))
    cases = {
        image["file_name"]: Case(image["file_name"][:-5], "", image["height"], image["width"])
        for image in database["images"]
    }
    figures = read(path.read_bytes(), **MIDOG | {"cases": cases})
    both = {"mitotic figure": 1, "not mitotic figure": 2}
    everything = read(path.read_bytes(), **MIDOG | {"cases": cases, "classes": both})
    assert sum(len(part) for said in everything.cases.values() for part in said.parts) == 26_286
    assert len(figures.cases) == 553
    assert sum(not said.parts for said in figures.cases.values()) == 78
    assert figures.unknown == {}
    assert everything.cases["001"].parts[0].points_xy[0].tolist() == [4361, 371]  # of the box 4336, 346, 4386, 396
    points = np.concatenate([part.points_xy for said in figures.cases.values() for part in said.parts])
    middles = [
        [(x1 + x2) / 2, (y1 + y2) / 2]
        for x1, y1, x2, y2 in (one["bbox"] for one in database["annotations"] if one["category_id"] == 1)
    ]
    assert sorted(points.tolist()) == sorted(middles)


# --- pixels -----------------------------------------------------------------------------------------------------------

CONSEP = {
    "format": "hovernet_mat",
    "classes": ClassTable(("b", "c", "d"), {"b": 1, "c": 2, "d": 3}, {2: 1, 3: 2, 4: 3}),
}


def labels_of(path: Path, shape_yx: tuple[int, int]) -> Any:
    found = read_part(path.read_bytes(), format="label_image", suffix=path.suffix, shape_yx=shape_yx)
    return picture(found.labels)


def test_real_tiffs_equal_what_tifffile_reads(shared_data: Path) -> None:
    cells = [f"neurips_cellseg/cell_{name}_label.tiff" for name in ("00225", "00528", "00849")]
    for path in (shared_data / name for name in ("stardist/mask2d.tif", *cells)):
        theirs = tifffile.imread(path)
        np.testing.assert_array_equal(labels_of(path, theirs.shape), theirs)


def test_a_real_npz_holds_ids_and_classes(shared_data: Path) -> None:
    path = shared_data / "consep" / "test_1_gt_stitched.npz"
    with np.load(path) as arrays:
        ids, classes = arrays["inst"], arrays["type"]
    table = ClassTable(("a",), {"a": 1}, {int(value): 1 for value in np.unique(classes) if value})
    content = path.read_bytes()
    options = {"class_map": ("{case}.npz", content), "class_values": {"a": 1}, "classes": table}
    found = read_part(content, format="label_image", suffix=".npz", shape_yx=(1000, 1000), **options)
    np.testing.assert_array_equal(picture(found.labels), ids)
    np.testing.assert_array_equal(picture(found.class_map), classes > 0)


def test_a_real_png_is_a_binary_mask(shared_data: Path) -> None:
    path = shared_data / "monuseg" / "TCGA-21-5784-01Z-00-DX1_mask.png"
    with Image.open(path) as image:
        pixels = np.array(image)
    annotations = read(path.read_bytes(), format="label_image", suffix=".png", shape_yx=(1000, 1000))
    np.testing.assert_array_equal(picture(annotations.parts[0].labels), pixels)
    regions = scipy.ndimage.label(pixels, np.ones((3, 3)))[1]
    assert [finding.got for finding in annotations.findings] == [
        f"{regions:,} separate regions that all have the label 1"
    ]


def test_a_real_tissue_map_of_a_platform_job_is_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "puma" / "submission").rglob("*.tif"))
    assert len(paths) == 2
    for path in paths:
        expected = tifffile.imread(path)
        np.testing.assert_array_equal(labels_of(path, expected.shape), expected)


def test_real_nary_masks_keep_their_labels_and_have_the_class_of_their_path(shared_data: Path) -> None:
    for path in sorted((shared_data / "monusac_challenge" / "submission").rglob("*.mat")):
        expected = scipy.io.loadmat(path)["n_ary_mask"]
        options = {"classes": TWO, "file_class": 2, "shape_yx": expected.shape}
        image = read_part(path.read_bytes(), format="nary_mat", **options)
        np.testing.assert_array_equal(picture(image.labels), expected)
        assert (image.class_id, image.class_map, image.class_of_instance) == (2, None, None)


def test_real_types_belong_to_the_nuclei_with_the_same_centroids(shared_data: Path) -> None:
    folder = shared_data / "consep" / "tests" / "resources" / "consep"
    paths = sorted((folder / "inst" / "test").glob("*.npy"))
    assert len(paths) == 4
    for path in paths:
        types = scipy.io.loadmat(folder / "type_mat" / "test" / f"{path.stem}.mat")
        labels = np.load(path)
        of_nuclei = {name: types[name] for name in ("inst_type", "inst_centroid")}
        content = mat_file({"inst_map": labels, **of_nuclei})
        instances = instances_from_label_image(read_part(content, **CONSEP, shape_yx=(256, 256)))
        assert instances.source_id.tolist() != list(range(1, len(instances) + 1))  # the ids have gaps
        assert (instances.class_id + 1).tolist() == types["inst_type"].ravel().tolist()
        for label, (x, y) in zip(instances.source_id, types["inst_centroid"], strict=True):
            np.testing.assert_allclose(np.argwhere(labels == label).mean(axis=0), (y, x), atol=1e-6)


def test_real_stitched_reference_has_865_nuclei_of_3_types(shared_data: Path) -> None:
    stitched = np.load(shared_data / "consep" / "test_1_gt_stitched.npz")
    content = mat_file({"inst_map": stitched["inst"], "type_map": stitched["type"]})
    instances = instances_from_label_image(read_part(content, **CONSEP, shape_yx=(1000, 1000)))
    assert len(instances) == 865
    votes = np.zeros((866, 5), np.int64)
    np.add.at(votes, (stitched["inst"].ravel(), stitched["type"].ravel()), 1)
    assert instances.source_id.tolist() == list(range(1, 866))
    assert (instances.class_id + 1).tolist() == votes[1:].argmax(axis=1).tolist()
