"""Arrays of CoNIC and PanNuke: whole data sets in one file, decoded case by case."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from label_pictures import picture
from test_label_formats import image_of
from test_label_formats import npy_file as npy
from test_mat_formats import refusals

from evaluation.challenge import LimitRules, format_rules
from evaluation.formats.arrays import read_conic_array_collection, read_pannuke_masks, read_pannuke_masks_collection
from evaluation.formats.format import Request
from evaluation.instances.labels import instances_from_label_image
from evaluation.model import Annotations, Case, ClassTable, Collection, LabelImage

SHAPE = (5, 7)
CASES = {f"key_{name}": Case(name, "P", *SHAPE, index=index) for name, index in (("c", 2), ("a", 0), ("b", 1))}
VALUES = {"tumour": 1, "stroma": 4, "debris": 9}
CONIC = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2, "debris": -1}, {1: 1, 4: 2, 9: -1})
CHANNELS = {"tumour": 0, "stroma": 2}
PANNUKE = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {0: 1, 2: 2})
ONE_CLASS = ClassTable(("nucleus",), {"nucleus": 1}, {1: 1})
LIMIT = 10_000_000


def request(kind: str, classes: ClassTable, *, limit: int = LIMIT, file_class: int = 0, shared: bool = True) -> Request:
    values = VALUES if kind == "conic_array" else CHANNELS
    files = "all.npy" if shared else "{case}.npy"
    return Request(
        where="'all.npy'" if shared else "case 'a', 'a.npy'",
        name="all.npy" if shared else "a.npy",
        rules=format_rules(format=kind, files=files, class_values=values),
        classes=classes,
        limits=LimitRules(bytes_per_file=limit),
        file_class=file_class,
    )


# --- CoNIC ------------------------------------------------------------------------------------------------------------


def conic(array: Any, classes: ClassTable = CONIC, **options: Any) -> Collection:
    return read_conic_array_collection(npy(array), request("conic_array", classes, **options), CASES)


def conic_example() -> Any:
    """Three images: a nucleus of 3 pixels, 2 of class 4 and 1 of class 1, and others."""
    array = np.zeros((3, *SHAPE, 2), np.int32)
    array[0, 1, 1:4, 0], array[0, 1, 1:4, 1] = 17, [1, 4, 4]
    array[0, 4, 6] = [3, 9]
    array[1, 2:4, 0, 0] = 5
    array[2, 0, 0] = [1, 1]
    return array


def test_cases_are_found_by_their_index_and_named_by_their_name() -> None:
    array = conic_example()
    collection = conic(array)
    assert list(collection.cases) == ["a", "b", "c"]
    assert (len(collection.cases), collection.unknown, collection.findings) == (3, {}, ())
    for index, name in enumerate("abc"):
        image = image_of(collection.cases[name])
        np.testing.assert_array_equal(picture(image.labels), array[index, ..., 0])
    with pytest.raises(KeyError):
        collection.cases["d"]


def test_the_class_of_a_nucleus_is_that_of_most_of_its_pixels() -> None:
    cases = conic(conic_example()).cases
    instances = {name: instances_from_label_image(image_of(cases[name])) for name in cases}
    assert {name: found.source_id.tolist() for name, found in instances.items()} == {"a": [3, 17], "b": [5], "c": [1]}
    assert {name: found.class_id.tolist() for name, found in instances.items()} == {"a": [-1, 2], "b": [0], "c": [1]}


@settings(deadline=None)
@given(
    hnp.arrays(
        st.sampled_from(["u1", "i2", "<i4", ">i4", "u8", "f8"]), (3, *SHAPE, 2), elements=st.sampled_from([0, 1, 4])
    )
)
def test_any_array_gives_its_planes_in_every_order_of_its_axes(array: Any) -> None:
    for ordered in (np.ascontiguousarray(array), np.asfortranarray(array)):
        cases = conic(ordered).cases
        for index, name in enumerate("abc"):
            image = image_of(cases[name])
            np.testing.assert_array_equal(picture(image.labels), array[index, ..., 0])
            np.testing.assert_array_equal(
                picture(image.class_map), np.array([0, 1, 0, 0, 2])[array[index, ..., 1].astype(int)]
            )


def test_ids_alone_are_enough_where_the_class_is_known() -> None:
    ids = conic_example()[..., 0]
    assert instances_from_label_image(image_of(conic(ids, ONE_CLASS).cases["a"])).class_id.tolist() == [1, 1]
    assert instances_from_label_image(image_of(conic(ids, file_class=2).cases["a"])).class_id.tolist() == [2, 2]
    (line,) = refusals(lambda: conic(ids))
    assert line == (
        "[wrong-shape] 'all.npy': an array of 3 x 5 x 7; expected images x rows x columns x 2, of ids and classes. "
        "Write numpy.stack([ids, classes], axis=-1) of all images."
    )


def test_the_class_of_the_path_counts_before_the_map() -> None:
    array = conic_example()
    array[0, 0, 0, 1] = 77
    assert instances_from_label_image(image_of(conic(array, file_class=1).cases["a"])).class_id.tolist() == [1, 1]


def test_images_that_are_not_scored_do_not_matter() -> None:
    array = np.concatenate([conic_example(), np.full((2, *SHAPE, 2), -5)])
    assert list(conic(array).cases) == ["a", "b", "c"]
    for name in "abc":
        conic(array).cases[name]


def test_too_few_images_are_refused() -> None:
    (line,) = refusals(lambda: conic(conic_example()[:2]))
    assert line == (
        "[wrong-shape] 'all.npy': an array of 2 images; expected at least 3, since the case 'c' has the index 2. "
        "Write the images in the order of the column index of cases.csv, also those without nuclei."
    )


def test_faults_are_those_of_a_case() -> None:
    array = conic_example()
    array[1, 0, 3] = [-1, 0]
    array[2, 0, 0] = [1, 3]
    cases = conic(array).cases
    assert picture(image_of(cases["a"]).labels).any()
    (line,) = refusals(lambda: cases["b"])
    assert line.startswith("[negative-label] 'all.npy', case 'b': 1 of 35 pixels is below 0 (lowest -1, first at row 0")
    (line,) = refusals(lambda: cases["c"])
    assert line.startswith("[unknown-class-value] 'all.npy', case 'c': the value 3 in 1 pixel (first at row 0, column")


def test_a_case_of_another_size_is_refused() -> None:
    cases = conic(np.zeros((3, 7, 5, 2), np.int32)).cases
    (line,) = refusals(lambda: cases["b"])
    assert line.startswith("[wrong-shape] 'all.npy', case 'b': 7 rows x 5 columns; expected 5 rows x 7 columns")


@pytest.mark.parametrize("content, code", [
    (npy(conic_example()).getvalue()[:-1], "unreadable-file"),
    (npy(conic_example().astype(complex)).getvalue(), "not-numeric"),
    (npy(np.array([{}], object)).getvalue(), "pickle"),
    (b"PK\3\4", "wrong-format"),
    (b"", "wrong-format"),
    (npy(np.int32(3)).getvalue(), "wrong-shape"),
    (npy(np.zeros((3, 5, 7, 3))).getvalue(), "wrong-shape"),
    (npy(np.zeros((0, 5, 7, 2))).getvalue(), "wrong-shape"),
])  # fmt: skip
def test_other_files_are_refused(content: bytes, code: str) -> None:
    (line,) = refusals(lambda: read_conic_array_collection(io.BytesIO(content), request("conic_array", CONIC), CASES))
    assert line.startswith(f"[{code}] 'all.npy': ")


def test_memory_is_that_of_one_case() -> None:
    cases = {str(index): Case(str(index), "P", 256, 256, index=index) for index in range(100)}
    stream = npy(np.ones((100, 256, 256, 2), np.int32))
    imported = read_conic_array_collection(stream, request("conic_array", CONIC, limit=10**8), cases)
    picture(image_of(imported.cases["0"]).labels)
    stream.seek(0)
    tracemalloc.start()  # what is imported at first use does not count
    collection = read_conic_array_collection(stream, request("conic_array", CONIC, limit=10**8), cases)
    pixels = sum(int(picture(image_of(collection.cases[name]).labels).sum()) for name in collection.cases)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pixels == 100 * 256 * 256
    assert peak < 4_000_000 < stream.getbuffer().nbytes / 10


def test_a_file_above_the_limit_is_refused() -> None:
    (line,) = refusals(lambda: conic(conic_example(), limit=500))
    assert line.startswith("[too-large] 'all.npy': a file of 968 bytes; expected at most 500 bytes.")


# --- PanNuke ----------------------------------------------------------------------------------------------------------


def pannuke_example() -> Any:
    """An image of PanNuke's kind: float64, six channels, the last one 1 where there is no nucleus."""
    array = np.zeros((*SHAPE, 6))
    array[1, 1:4, 0] = 2
    array[3, 0, 0] = 9
    array[3:5, 0, 2] = 2
    array[..., 5] = ~array.any(axis=2)
    return array


def pannuke(array: Any, classes: ClassTable = PANNUKE, **options: Any) -> Annotations:
    asked = request("pannuke_masks", classes, shared=False, **options)
    return read_pannuke_masks(npy(array), asked, Case("a", "P", *SHAPE))


def test_each_channel_of_a_class_is_a_label_image() -> None:
    array = pannuke_example()
    parts = pannuke(array).parts
    assert [part.class_id for part in parts if isinstance(part, LabelImage)] == [1, 2]
    assert [part.source for part in parts if isinstance(part, LabelImage)] == ["channel 0", "channel 2"]
    for part, channel in zip(parts, (0, 2), strict=True):
        assert isinstance(part, LabelImage)
        np.testing.assert_array_equal(picture(part.labels), array[..., channel])
    first, second = (instances_from_label_image(part) for part in parts if isinstance(part, LabelImage))
    assert (first.source_id.tolist(), second.source_id.tolist()) == ([2, 9], [2])
    assert (first.areas_px().tolist(), second.areas_px().tolist()) == ([3, 1], [2])


def test_a_last_channel_with_a_class_is_read() -> None:
    array = pannuke_example()[..., :3]
    assert len(pannuke(array).parts) == 2
    assert len(pannuke(pannuke_example()[..., [0, 1, 2, 5]]).parts) == 2
    (line,) = refusals(lambda: pannuke(array[..., :2]))
    assert line == (
        "[wrong-shape] case 'a', 'a.npy': an array of 5 x 7 x 2; expected rows x columns x channels, of which there "
        "are at least 3. Write one channel of ids for each class, as the last axis."
    )


def test_the_class_of_the_path_counts_before_the_channel() -> None:
    parts = pannuke(pannuke_example(), file_class=2).parts
    assert [part.class_id for part in parts if isinstance(part, LabelImage)] == [2, 2]


def test_faults_of_all_channels_are_told() -> None:
    array = pannuke_example()
    array[0, 0, 0], array[0, 1, 2], array[0, 2, 3], array[0, 3, 5] = -1, 0.5, np.nan, np.nan
    assert [line.split(":")[0] for line in refusals(lambda: pannuke(array))] == [
        "[negative-label] case 'a', 'a.npy', channel 0",
        "[fractional-label] case 'a', 'a.npy', channel 2",
        "[not-finite] case 'a', 'a.npy', channel 3",
    ]


@pytest.mark.parametrize("order", ["C", "F"])
def test_one_file_may_hold_all_images(order: Any) -> None:
    array = np.stack([pannuke_example() * scale for scale in (1, 2, 3)])
    stream = npy(np.asarray(array, order=order))
    cases = read_pannuke_masks_collection(stream, request("pannuke_masks", PANNUKE), CASES).cases
    for index, name in enumerate("abc"):
        alone = pannuke(array[index])
        assert list(cases) == ["a", "b", "c"]
        for part, expected in zip(cases[name].parts, alone.parts, strict=True):
            assert isinstance(part, LabelImage) and isinstance(expected, LabelImage)
            np.testing.assert_array_equal(picture(part.labels), picture(expected.labels))
            assert part.class_id == expected.class_id


def test_faults_in_one_file_of_all_images_are_those_of_a_case() -> None:
    array = np.stack([pannuke_example()] * 3)
    array[1, 0, 0, 4] = 1
    cases = read_pannuke_masks_collection(npy(array), request("pannuke_masks", PANNUKE), CASES).cases
    (line,) = refusals(lambda: cases["b"])
    assert line.startswith(
        "[unnamed-channel] 'all.npy', case 'b', channel 4: 1 nucleus in a channel that has no class;"
    )
    assert len(cases["c"].parts) == 2
    few = npy(array[:1])
    (line,) = refusals(lambda: read_pannuke_masks_collection(few, request("pannuke_masks", PANNUKE), CASES))
    assert line.startswith("[wrong-shape] 'all.npy': an array of 1 image; expected at least 3, since the case 'c'")


@pytest.mark.parametrize("shape", [(7, 5, 6), (6, 5, 7), (5, 7), (1, 5, 7, 6), ()])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    (line,) = refusals(lambda: pannuke(np.zeros(shape)))
    assert line.startswith("[wrong-shape] case 'a', 'a.npy': ")
