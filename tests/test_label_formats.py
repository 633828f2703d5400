"""Label images read equal what scipy, tifffile, numpy and SimpleITK read, from real files and from made ones."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import scipy.io
import scipy.ndimage
import SimpleITK
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from label_pictures import picture
from PIL import Image

from evaluation.challenge import LimitRules, format_rules
from evaluation.decoding.label_array import check_labels, check_shape, find_binary_mask
from evaluation.findings.errors import InputFault
from evaluation.formats import Request, read_annotations
from evaluation.formats.label_image import read_class_map, read_label_image
from evaluation.instances.labels import instances_from_label_image
from evaluation.model import Annotations, Case, ClassTable, LabelImage
from evaluation.model.annotations import runs_of

SHAPE = (20, 31)
LIMIT = 1_000_000
LABELS = np.zeros(SHAPE, np.int32)
LABELS[2:9, 5:20] = 7
LABELS[12:19, 3:4] = 300
LABELS[0, 30] = 2
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


def mat_file(variables: dict[str, Any], **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, **options)
    return stream


def npy_file(array: Any) -> io.BytesIO:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream


def tiff_file(array: Any, **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream


def npz_file(*, compressed: bool = True, **arrays: Any) -> io.BytesIO:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream


def png_file(array: Any, **options: Any) -> io.BytesIO:
    return io.BytesIO(imagecodecs.png_encode(array, **options))


def mha_file(path: Path, array: Any, *, compressed: bool = False, is_vector: bool = False) -> io.BytesIO:
    image = SimpleITK.GetImageFromArray(array, isVector=is_vector)
    SimpleITK.WriteImage(image, str(path / "made.mha"), compressed)
    return io.BytesIO((path / "made.mha").read_bytes())


ONE_CLASS = ClassTable(("nucleus",), {"nucleus": 1})
TWO_CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2, "debris": -1}, {10: 1, 20: 2, 30: -1})


def request(
    suffix: str,
    classes: ClassTable = ONE_CLASS,
    *,
    format: str = "label_image",
    limit: int = LIMIT,
    file_class: int = 0,
    **rules: Any,
) -> Request:
    if {"class_map", "class_channel"} & set(rules) and "class_values" not in rules:
        rules["class_values"] = {"tumour": 10, "stroma": 20, "debris": 30}
    return Request(
        where=f"case 'a', 'a{suffix}'",
        name=f"a{suffix}",
        rules=format_rules(format=format, files="{case}" + suffix, **rules),
        classes=classes,
        limits=LimitRules(bytes_per_file=limit),
        file_class=file_class,
    )


def case_of(shape_yx: tuple[int, int]) -> Case:
    return Case("a", "a", *shape_yx)


def image_of(annotations: Annotations) -> LabelImage:
    (part,) = annotations.parts
    assert isinstance(part, LabelImage)
    return part


def read(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    return picture(image_of(read_label_image(stream, request(suffix, limit=limit), case_of(shape_yx))).labels)


def read_mat(stream: Any, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    asked = request(".mat", format="nary_mat", limit=limit)
    return picture(image_of(read_annotations(stream, asked, case_of(shape_yx))).labels)


# --- real files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "nuclei"),
    [
        ("stardist/mask2d.tif", (512, 512), 125),
        ("neurips_cellseg/cell_00528_label.tiff", (200, 200), 44),
        ("neurips_cellseg/cell_00849_label.tiff", (512, 512), 187),
        ("neurips_cellseg/cell_00225_label.tiff", (1024, 1024), 6),
    ],
)
def test_real_tiffs_equal_what_tifffile_reads(
    shared_data: Path, name: str, shape: tuple[int, int], nuclei: int
) -> None:
    with (shared_data / name).open("rb") as stream:
        labels = read(stream, name, shape, 10_000_000)
    np.testing.assert_array_equal(labels, tifffile.imread(shared_data / name))
    assert len(np.unique(labels)) - 1 == nuclei


def test_a_real_npz_holds_ids_and_classes(shared_data: Path) -> None:
    path = shared_data / "consep" / "test_1_gt_stitched.npz"
    with np.load(path) as arrays:
        ids, classes = arrays["inst"], arrays["type"]
    table = ClassTable(("a",), {"a": 1}, {int(value): 1 for value in np.unique(classes) if value})
    asked = request(".npz", table, class_map="{case}.npz", class_values={"a": 1}, limit=10_000_000)
    with path.open("rb") as stream, path.open("rb") as again:
        annotations = read_label_image(stream, asked, case_of((1000, 1000)), class_map=(again, "'a.npz'"))
    np.testing.assert_array_equal(picture(image_of(annotations).labels), ids)
    np.testing.assert_array_equal(picture(image_of(annotations).class_map), classes > 0)


def test_a_real_png_is_a_binary_mask(shared_data: Path) -> None:
    path = shared_data / "monuseg" / "TCGA-21-5784-01Z-00-DX1_mask.png"
    with path.open("rb") as stream:
        annotations = read_label_image(stream, request(".png", limit=10_000_000), case_of((1000, 1000)))
    expected = scipy.ndimage.label(pixels_of(path), np.ones((3, 3)))[1]
    np.testing.assert_array_equal(picture(image_of(annotations).labels), pixels_of(path))
    (finding,) = annotations.findings
    assert finding.got == f"{expected:,} separate regions that all have the label 1"


def test_a_real_tissue_map_of_a_platform_job_is_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "puma" / "submission").rglob("*.tif"))
    assert len(paths) == 2
    for path in paths:
        expected = tifffile.imread(path)
        with path.open("rb") as stream:
            labels = read(stream, ".tif", expected.shape, 10_000_000)
        np.testing.assert_array_equal(labels, expected)


def pixels_of(path: Path) -> Any:
    with Image.open(path) as image:
        return np.array(image)


# --- MATLAB -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", [*INTEGERS, "f4", "f8", "?"])
def test_mat_5_equals_what_scipy_reads(dtype: str, compressed: bool) -> None:
    array = (LABELS % 100).astype(dtype)
    stream = mat_file({"n_ary_mask": array}, do_compression=compressed)
    labels = read_mat(stream)
    np.testing.assert_array_equal(labels, scipy.io.loadmat(stream)["n_ary_mask"])
    if np.dtype(dtype).kind in "iu":
        assert labels.dtype == dtype


@given(hnp.arrays(st.sampled_from(INTEGERS), hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)), st.booleans())
def test_any_small_mat_equals_what_scipy_reads(array: Any, compressed: bool) -> None:
    array = np.where(array < 0, array * 0, array) & np.array(127, array.dtype)
    stream = mat_file({"n_ary_mask": array}, do_compression=compressed)
    np.testing.assert_array_equal(read_mat(stream, array.shape), scipy.io.loadmat(stream)["n_ary_mask"])


def test_mat_written_by_other_programs_on_other_machines_equals_what_scipy_reads() -> None:
    folder = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data"
    paths = sorted(folder.glob("testmatrix_*.mat"))
    if not paths:
        pytest.skip("this build of scipy comes without its test data")
    for path in paths:
        if "_4.2c_" in path.name:
            continue
        with path.open("rb") as stream:
            labels = read_mat(stream, (3, 5))
        np.testing.assert_array_equal(labels, scipy.io.loadmat(path)["testmatrix"])


def test_the_variable_n_ary_mask_is_taken_among_others() -> None:
    stream = mat_file({"a": np.ones(SHAPE), "n_ary_mask": LABELS, "z": np.ones(SHAPE), "text": "x", "cell": {"k": 1}})
    np.testing.assert_array_equal(read_mat(stream), LABELS)


def test_the_only_2d_array_of_numbers_is_taken_whatever_its_name() -> None:
    stream = mat_file({"inst_map": LABELS, "text": "x", "struct": {"k": 1}, "stack": np.ones((2, 3, 4))})
    np.testing.assert_array_equal(read_mat(stream), LABELS)


# --- label images -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*INTEGERS, "f2", "f4", "f8", ">i4", ">f4", "?"])
def test_npy_equals_what_numpy_reads(dtype: str) -> None:
    array = (LABELS % 100).astype(dtype)
    np.testing.assert_array_equal(read(npy_file(array), ".npy"), array)


def test_npy_in_fortran_order_is_not_transposed() -> None:
    np.testing.assert_array_equal(read(npy_file(np.asfortranarray(LABELS)), ".npy"), LABELS)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version_is_read(version: tuple[int, int]) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, LABELS, version=version)
    np.testing.assert_array_equal(read(stream, ".npy"), LABELS)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", [*INTEGERS, "f4", ">i4"])
def test_npz_equals_what_numpy_reads(dtype: str, compressed: bool) -> None:
    stream = npz_file(any_name=(LABELS % 100).astype(dtype), compressed=compressed)
    labels = read(stream, ".npz")
    stream.seek(0)
    np.testing.assert_array_equal(labels, np.load(stream)["any_name"])


@pytest.mark.parametrize("name", ["labels", "inst_map", "arr_0"])
def test_the_array_with_a_known_name_is_taken_among_others_of_an_npz(name: str) -> None:
    arrays = {name: LABELS, "type": np.ones(SHAPE), "objects": np.array([{"a": 1}, 2], object)}
    np.testing.assert_array_equal(read(npz_file(**arrays), ".npz"), LABELS)


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_png_equals_what_was_written(dtype: str) -> None:
    array = (LABELS % 1000).astype(dtype)
    np.testing.assert_array_equal(read(png_file(array), ".png"), array)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", [*INTEGERS, "f4", "f8"])
def test_mha_equals_what_simpleitk_reads(tmp_path: Path, dtype: str, compressed: bool) -> None:
    stream = mha_file(tmp_path, (LABELS % 100).astype(dtype), compressed=compressed)
    expected = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "made.mha")))
    np.testing.assert_array_equal(read(stream, ".mha"), expected)


def test_mha_of_one_slice_equals_what_simpleitk_reads(tmp_path: Path) -> None:
    stream = mha_file(tmp_path, LABELS[np.newaxis])
    np.testing.assert_array_equal(read(stream, ".mha"), LABELS)


def test_mha_of_the_other_byte_order_equals_what_simpleitk_reads(tmp_path: Path) -> None:
    header = mha_file(tmp_path, LABELS).getvalue()[: -LABELS.nbytes].replace(b"MSB = False", b"MSB = True")
    (tmp_path / "made.mha").write_bytes(header + LABELS.astype(">i4").tobytes())
    np.testing.assert_array_equal(SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "made.mha"))), LABELS)
    np.testing.assert_array_equal(read(io.BytesIO((tmp_path / "made.mha").read_bytes()), ".mha"), LABELS)


def test_suffix_is_the_same_in_upper_and_lower_case() -> None:
    np.testing.assert_array_equal(read(tiff_file(LABELS), ".TIF"), LABELS)


def test_format_of_the_challenge_decides_how_a_file_is_read() -> None:
    with pytest.raises(InputFault, match=r"\[wrong-format\] case 'a', 'a.npy': not a MATLAB file"):
        read_annotations(npy_file(LABELS), request(".npy", format="nary_mat"), case_of(SHAPE))


# --- values -----------------------------------------------------------------------------------------------------------


def check(array: Any, shape_yx: tuple[int, int] = SHAPE) -> Any:
    return check_labels(np.asarray(array), where="'a'", shape_yx=shape_yx)


def test_integers_are_handed_on_without_a_copy() -> None:
    for dtype in INTEGERS:
        array = (LABELS % 100).astype(dtype)
        assert check(array).dtype == dtype
        assert np.shares_memory(check(array), array)


def test_whole_floats_become_integers_that_hold_them() -> None:
    assert check([[0.0, 2.0**31 - 1]], (1, 2)).dtype == np.int32
    assert check([[0.0, 2.0**40]], (1, 2)).tolist() == [[0, 2**40]]
    assert check(np.array([[-0.0, 5]], np.float16), (1, 2)).tolist() == [[0, 5]]


def test_ids_above_two_billion_survive() -> None:
    ids = [[0, 2**31 + 5, 2**32 + 5, 2**63 - 1]]
    for dtype in (np.int64, np.uint64):
        assert check(np.array(ids, dtype), (1, 4)).tolist() == ids
    assert read(npy_file(np.array(ids)), ".npy", (1, 4)).tolist() == ids
    assert read_mat(mat_file({"n_ary_mask": np.array(ids)}), (1, 4)).tolist() == ids


def test_a_mask_of_booleans_is_one_instance() -> None:
    assert check([[True, False]], (1, 2)).tolist() == [[1, 0]]
    assert check([[True, False]], (1, 2)).dtype == np.uint8


@pytest.mark.parametrize("shape", [(20, 31), (1, 20, 31), (20, 31, 1), (1, 1, 20, 31, 1)])
def test_axes_of_length_one_at_either_end_do_not_count(shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(check(LABELS.reshape(shape)), LABELS)


def test_axes_of_length_one_may_be_those_of_the_image() -> None:
    assert check_shape((1, 5), where="'a'", shape_yx=(1, 5)) == (1, 5)
    assert check_shape((1, 5, 1), where="'a'", shape_yx=(5, 1)) == (5, 1)
    assert check_shape((1, 5, 1), where="'a'", shape_yx=(1, 5)) == (1, 5)


def test_input_is_never_changed() -> None:
    array = LABELS.astype(">f8")
    before = array.copy()
    array.setflags(write=False)
    check(array)
    np.testing.assert_array_equal(array, before)


def test_regions_that_share_the_label_one_are_a_warning() -> None:
    (finding,) = find_binary_mask(runs_of((LABELS > 0).astype(np.uint8)), where="case 'a', 'a.npy'")
    assert finding.severity == "warning"
    assert str(finding) == (
        "[binary-mask] case 'a', 'a.npy': 3 separate regions that all have the label 1; expected a label of its own "
        "for each nucleus. They count as one nucleus. Number them, for example with scipy.ndimage.label or bwlabel."
    )


def test_masks_of_255_are_binary_too() -> None:
    assert find_binary_mask(runs_of(np.array([[255, 0, 255]], np.uint8)), where="'a'")[0].code == "binary-mask"


def test_labels_that_are_classes_are_told() -> None:
    nuclei = np.kron(np.arange(1, 26).reshape(5, 5), np.pad(np.ones((6, 6), int), 1))
    (finding,) = find_binary_mask(runs_of(np.where(nuclei, nuclei % 3 + 1, 0)), where="'a.npy'")
    assert str(finding) == (
        "[binary-mask] 'a.npy': 3 labels with 25 separate regions; expected a label of its own for each nucleus. "
        "Labels look like classes, not nuclei: each counts as one nucleus. Number the regions of each, for example "
        "with scipy.ndimage.label or bwlabel."
    )
    assert find_binary_mask(runs_of(nuclei), where="'a.npy'") == ()


@pytest.mark.parametrize("number", [2, 5, 10, 11])
def test_nuclei_that_are_cut_now_and_then_are_no_classes(number: int) -> None:
    nuclei = np.kron(np.arange(1, number + 1)[None], np.pad(np.ones((9, 9), int), 1))
    nuclei[4] = 0  # every one in two
    nuclei[:, 1:10:2] = 0  # the first in ten
    assert find_binary_mask(runs_of(nuclei), where="'a.npy'") == ()


def test_one_region_or_another_label_or_none_is_no_warning() -> None:
    one_diagonal = np.eye(3, dtype=int)
    for labels in (one_diagonal, np.zeros((2, 2), int), np.array([[2, 0, 1]]), LABELS):
        assert find_binary_mask(runs_of(labels), where="'a'") == ()


# --- classes ----------------------------------------------------------------------------------------------------------


def test_the_class_of_a_file_comes_from_its_path_or_is_the_only_one() -> None:
    for classes, file_class, expected in ((ONE_CLASS, 0, 1), (TWO_CLASSES, 0, 0), (TWO_CLASSES, 2, 2)):
        asked = request(".npy", classes, file_class=file_class)
        image = image_of(read_label_image(npy_file(LABELS), asked, case_of(SHAPE)))
        assert (image.class_id, image.class_map, image.class_of_instance) == (expected, None, None)
        assert image.source == "a.npy"


def test_a_binary_mask_is_told_with_what_was_read() -> None:
    annotations = read_label_image(npy_file((LABELS > 0).astype(np.uint8)), request(".npy"), case_of(SHAPE))
    assert [finding.code for finding in annotations.findings] == ["binary-mask"]
    assert len(annotations.parts) == 1


def read_map(array: Any, suffix: str = ".npy", classes: ClassTable = TWO_CLASSES) -> Any:
    stream = {".npy": npy_file, ".mat": lambda array: mat_file({"n_ary_mask": array}), ".png": png_file}[suffix](array)
    asked = request(".npy", classes, class_map=f"{{case}}_class{suffix}")
    return picture(read_class_map(stream, asked, case_of(np.shape(array)), where=f"case 'a', 'a_class{suffix}'"))


@pytest.mark.parametrize("suffix", [".npy", ".mat"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f8", "i8"])
def test_class_values_become_class_ids(dtype: str, suffix: str) -> None:
    array = np.array([[0, 10, 20], [20, 30, 0]], dtype)
    assert read_map(array, suffix).tolist() == [[0, 1, 2], [2, -1, 0]]
    swapped = ClassTable(("stroma", "tumour"), {"stroma": 1, "tumour": 2}, {10: 2, 20: 1, 30: 1})
    assert read_map(array, suffix, swapped).tolist() == [[0, 2, 1], [1, 1, 0]]
    assert read_map(array, suffix).dtype == np.int16


def test_a_class_map_goes_with_its_label_image() -> None:
    values = np.where(LABELS > 5, 20, 10).astype(np.uint8)
    asked = request(".npy", TWO_CLASSES, class_map="{case}_class.png")
    annotations = read_label_image(
        npy_file(LABELS), asked, case_of(SHAPE), class_map=(png_file(values), "case 'a', 'a_class.png'")
    )
    image = image_of(annotations)
    assert image.class_id == 0
    np.testing.assert_array_equal(picture(image.class_map), np.where(LABELS > 5, 2, 1))


def test_faults_of_a_label_image_and_of_its_class_map_come_together() -> None:
    asked = request(".npy", TWO_CLASSES, class_map="{case}_class.npy")
    with pytest.raises(InputFault) as error:
        read_label_image(
            npy_file(LABELS - 1), asked, case_of(SHAPE), class_map=(npy_file(LABELS), "case 'a', 'a_class.npy'")
        )
    assert [finding.code for finding in error.value.findings] == ["negative-label", *["unknown-class-value"] * 3]


def test_a_class_map_of_an_npz_is_told_from_its_ids_by_the_name() -> None:
    content = npz_file(inst_map=LABELS, type_map=np.where(LABELS > 5, 20, 10)).getvalue()
    asked = request(".npz", TWO_CLASSES, class_map="{case}.npz")
    image = image_of(
        read_label_image(io.BytesIO(content), asked, case_of(SHAPE), class_map=(io.BytesIO(content), "'a.npz'"))
    )
    np.testing.assert_array_equal(picture(image.labels), LABELS)
    np.testing.assert_array_equal(picture(image.class_map), np.where(LABELS > 5, 2, 1))


@pytest.mark.parametrize("value", [-1, 3, 32768, 2**40])
def test_a_class_value_that_is_not_known_is_told(value: int) -> None:
    with pytest.raises(InputFault) as error:
        read_map(np.array([[0, 10, 10], [20, value, value]]))
    assert [str(finding) for finding in error.value.findings] == [
        f"[unknown-class-value] case 'a', 'a_class.npy': the value {value} in 2 pixels (first at row 1, column 1); "
        "expected 0 for no class, 10 ('tumour'), 20 ('stroma'), 30 ('debris'). Write the values that the challenge "
        "gives to its classes."
    ]


def test_many_unknown_class_values_are_counted_not_listed() -> None:
    with pytest.raises(InputFault) as error:
        read_map(np.arange(1000).reshape(10, 100))
    assert len(error.value.findings) == 8
    assert sum(finding.count for finding in error.value.findings) == 996


CLASS_NUMBERS = np.where(LABELS > 5, 20, 10).astype(np.int32)


@pytest.mark.parametrize("class_channel", [0, 1])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".png", ".tif", ".mha"])
def test_one_channel_has_the_ids_and_the_other_the_classes(
    tmp_path: Path, suffix: str, axis: int, class_channel: int
) -> None:
    planes = (LABELS, CLASS_NUMBERS) if class_channel else (CLASS_NUMBERS, LABELS)
    array = np.stack(planes, axis).astype(np.uint16)
    if suffix == ".png":
        stream = png_file(np.stack(planes, 2).astype(np.uint16))  # always the last axis
    elif suffix == ".tif":
        stream = tiff_file(array, photometric="minisblack", planarconfig="separate" if axis == 0 else "contig")
    elif suffix == ".mha":
        stream = mha_file(tmp_path, array, is_vector=axis == 2)
    else:
        stream = npy_file(array) if suffix == ".npy" else npz_file(arr_0=array)
    asked = request(suffix, TWO_CLASSES, class_channel=class_channel)
    image = image_of(read_label_image(stream, asked, case_of(SHAPE)))
    np.testing.assert_array_equal(picture(image.labels), LABELS)
    np.testing.assert_array_equal(picture(image.class_map), np.where(LABELS > 5, 2, 1))
    assert image.class_id == 0


def test_the_two_channels_of_a_tiff_may_be_two_pages() -> None:
    stream = tiff_file(np.stack([LABELS, CLASS_NUMBERS]), photometric="minisblack")
    image = image_of(read_label_image(stream, request(".tif", TWO_CLASSES, class_channel=1), case_of(SHAPE)))
    np.testing.assert_array_equal(picture(image.labels), LABELS)
    np.testing.assert_array_equal(picture(image.class_map), np.where(LABELS > 5, 2, 1))


def test_an_image_without_the_second_channel_is_told() -> None:
    for stream, suffix in ((npy_file(LABELS), ".npy"), (tiff_file(LABELS), ".tif"), (npz_file(a=LABELS), ".npz")):
        with pytest.raises(InputFault) as error:
            read_label_image(stream, request(suffix, TWO_CLASSES, class_channel=1), case_of(SHAPE))
        assert error.value.findings[0].code == "wrong-shape"
        assert str(error.value.findings[0]).endswith(
            "20 rows x 31 columns; expected 20 rows x 31 columns, the height and width of the image, with 2 channels. "
            "Write the ids of the nuclei in one channel and their classes in the other."
        )


def test_a_class_in_a_channel_that_is_not_known_is_told_with_the_channel() -> None:
    with pytest.raises(InputFault, match=r"'a.npy', channel 1: the value 7 in 105 pixels \(first at row 2, column 5\)"):
        read_label_image(
            npy_file(np.stack([LABELS, np.where(LABELS == 7, 7, 0)])),
            request(".npy", TWO_CLASSES, class_channel=1),
            case_of(SHAPE),
        )


def table_of(rows: str) -> tuple[io.BytesIO, str]:
    return io.BytesIO(f"id,class\n{rows}".encode()), "'a.csv'"


@pytest.mark.parametrize("factor", [1, 10**15])
def test_a_table_gives_each_id_its_class(factor: int) -> None:
    table = table_of(f"{7 * factor},stroma\n{300 * factor},debris\n{2 * factor},tumour\n5,stroma\n")
    asked = request(".npy", TWO_CLASSES, class_table="{case}.csv")
    image = image_of(
        read_label_image(npy_file(LABELS.astype(np.int64) * factor), asked, case_of(SHAPE), class_table=table)
    )
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [1, 2, -1]  # of the ids 2, 7 and 300
    assert image.class_of_instance.dtype == np.int16
    assert (image.class_id, image.class_map) == (0, None)


def test_labels_of_a_skipped_class_in_the_table_become_background() -> None:
    asked = request(".npy", replace(TWO_CLASSES, skipped=frozenset({"region"})), class_table="{case}.csv")
    table = table_of("7,region\n300,tumour\n2,tumour\n")
    found = read_label_image(npy_file(LABELS), asked, case_of(SHAPE), class_table=table)
    image = image_of(found)
    assert np.array_equal(picture(image.labels), np.where(LABELS == 7, 0, LABELS))
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [1, 1]


def test_ids_without_a_class_in_the_table_are_told() -> None:
    with pytest.raises(InputFault) as error:
        asked = request(".npy", TWO_CLASSES, class_table="{case}.csv")
        read_label_image(npy_file(LABELS), asked, case_of(SHAPE), class_table=table_of("7,tumour\n"))
    assert [str(finding) for finding in error.value.findings] == [
        "[instance-without-class] case 'a', 'a.npy': 2 nuclei have no class in the class table (ids '2', '300'); "
        "expected a class for every nucleus. Write the id and the class of every nucleus into the table."
    ]


@given(
    hnp.arrays(np.int32, (4, 6), elements=st.integers(0, 4)), hnp.arrays(np.int16, (4, 6), elements=st.integers(-2, 3))
)
def test_a_nucleus_has_the_class_of_most_of_its_pixels(labels, class_map) -> None:
    """Pixels without a class do not vote; of equal numbers the smaller class wins, ignore classes after all others."""
    found = instances_from_label_image(LabelImage(runs_of(labels), class_map=runs_of(class_map)))
    for label, class_id in zip(found.source_id, found.class_id, strict=True):
        votes = Counter(class_map[(labels == label) & (class_map != 0)].tolist())
        best = sorted(votes, key=lambda c: (-votes[c], c < 0, abs(c)))
        assert class_id == (best[0] if best else 0)
