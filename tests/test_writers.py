"""Label images that are written: other programs read them, our readers give the same instances, and no byte varies."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
import SimpleITK
import tifffile
from formats import read
from formats.tables import COUNTS
from hypothesis import given
from hypothesis import strategies as st
from literal import images, instances_of, masks_of
from PIL import Image

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings.errors import InputFault
from evaluation.formats import Request, label_image, read_annotations
from evaluation.formats.label_image import write_class_tiff, write_label_tiff, write_nary_mat
from evaluation.formats.tables import write_counts_csv
from evaluation.instances.labels import instances_from_label_image, instances_from_labels
from evaluation.instances.prepare import instances_from_points
from evaluation.model import Case, ClassTable, Instances, LabelImage, Points

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


def assert_same(found: Instances, expected: Instances) -> None:
    for name in ("run_start", "run_stop", "run_instance", "class_id", "source_id"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    assert found.shape_yx == expected.shape_yx


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


def test_a_class_of_the_nary_mask_is_a_choice():
    instances = instances_from_labels(np.array([[4, 4, 0], [0, 9, 9]]), [1, 2])

    def mask(*class_id):
        return scipy.io.loadmat(io.BytesIO(write_nary_mat(instances, *class_id)))["n_ary_mask"].tolist()

    assert mask() == [[4, 4, 0], [0, 9, 9]]
    assert mask(2) == [[0, 0, 0], [0, 9, 9]]
    assert mask(3) == [[0, 0, 0], [0, 0, 0]]


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


@pytest.mark.parametrize(
    "source_id",
    [np.array(["b", "a"], object), np.array([5, 5]), np.array([0, 1]), np.array([-1, 4]), np.array([1, 2**31])],
    ids=["text", "twice", "zero", "negative", "too large"],
)
def test_nuclei_whose_ids_are_no_labels_are_numbered(source_id):
    instances = replace(instances_from_labels(np.array([[7, 0, 8]])), source_id=source_id)
    assert tifffile.imread(io.BytesIO(write_label_tiff(instances))).tolist() == [[1, 0, 2]]


def test_the_class_tiff_has_the_numbers_of_the_classes():
    instances = replace(
        instances_from_labels(np.array([[5, 5, 0, 6, 7, 8]])), class_id=np.array([2, 1, 0, -1], np.int16)
    )
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


@pytest.mark.parametrize("write", [write_label_tiff, write_class_tiff, write_nary_mat])
def test_an_image_without_nuclei_is_written_too(write):
    data = write(instances_from_labels(np.zeros((3, 5), int)))
    found = read_back(data, "nary_mat" if write is write_nary_mat else "label_image", (3, 5))
    assert len(found) == 0


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


def test_messages_say_what_is_written():
    with pytest.raises(InputFault, match="case 'P1_1': 1 pixel belongs"):
        write_class_tiff(overlapping(), where="case 'P1_1'")


def test_nuclei_of_other_classes_may_overlap_those_of_an_nary_mask():
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


def test_real_label_maps_are_written_and_read_back(shared_data):
    paths = sorted([*(shared_data / "stardist").rglob("*.tif"), *(shared_data / "neurips_cellseg").rglob("*.tif*")])
    counts = []
    for path in paths:
        labels = tifffile.imread(path)
        if labels.ndim != 2 or labels.dtype.kind not in "iu" or ("label" not in path.name and "mask" not in path.name):
            continue
        expected = instances_from_labels(labels)
        assert_same(read_back(write_label_tiff(expected), "label_image", labels.shape), expected)
        assert_same(read_back(write_nary_mat(expected), "nary_mat", labels.shape), expected)
        counts.append(len(expected))
    assert sorted(counts) == [6, 44, 125, 187]


@given(st.dictionaries(st.sampled_from("ab"), st.tuples(*[st.integers(0, 10**9)] * 2)))
def test_written_counts_are_read_as_they_were(written):
    found = read(write_counts_csv(written, ["Tumour", "Stroma"]), **COUNTS)
    assert {name: tuple(said.parts[0].per_class.tolist()) for name, said in found.cases.items()} == written
