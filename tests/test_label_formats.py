"""Label images read equal what scipy, tifffile, numpy and SimpleITK read, from real files and from made ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import SimpleITK
import tifffile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evaluation.errors import InputFault
from evaluation.formats import read_class_map, read_labels
from evaluation.formats.label_array import check_labels, check_shape, find_binary_mask
from evaluation.formats.label_image import read_label_image
from evaluation.formats.nary_mat import read_nary_mat

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


def mha_file(path: Path, array: Any, *, compressed: bool = False, is_vector: bool = False) -> io.BytesIO:
    image = SimpleITK.GetImageFromArray(array, isVector=is_vector)
    SimpleITK.WriteImage(image, str(path / "made.mha"), compressed)
    return io.BytesIO((path / "made.mha").read_bytes())


def read(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    return read_label_image(stream, where=f"case 'a', 'a{suffix}'", shape_yx=shape_yx, bytes_limit=limit)


def read_mat(stream: Any, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    return read_nary_mat(stream, where="case 'a', 'a.mat'", shape_yx=shape_yx, bytes_limit=limit)


# --- real files -------------------------------------------------------------------------------------------------------


def test_real_nary_masks_equal_what_scipy_reads(shared_data: Path) -> None:
    paths = sorted((shared_data / "monusac_challenge" / "submission").rglob("*.mat"))
    assert len(paths) == 15
    for path in paths:
        expected = scipy.io.loadmat(path)["n_ary_mask"]
        with path.open("rb") as stream:
            labels = read_mat(stream, expected.shape, 10_000_000)
        np.testing.assert_array_equal(labels, expected)
        assert labels.dtype == expected.dtype


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


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "f4", "f8"])
def test_mat_4_equals_what_scipy_reads(dtype: str) -> None:
    stream = mat_file({"other": "a text", "n_ary_mask": (LABELS % 100).astype(dtype)}, format="4")
    np.testing.assert_array_equal(read_mat(stream), scipy.io.loadmat(stream)["n_ary_mask"])


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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib"},
        {"compression": "packbits"},
        {"compression": "lzma"},
        {"compression": "zstd", "tile": (16, 16)},
        {"tile": (16, 32)},
        {"bigtiff": True},
        {"byteorder": ">"},
        {"rowsperstrip": 3},
        {"metadata": None},
        {"description": '{"shape": [20, 31]}', "metadata": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "f4"])
def test_tiff_equals_what_tifffile_reads(dtype: str, options: dict[str, Any]) -> None:
    stream = tiff_file((LABELS % 100).astype(dtype), **options)
    np.testing.assert_array_equal(read(stream, ".tif"), tifffile.imread(io.BytesIO(stream.getvalue())))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "f4"])
def test_tiff_with_a_predictor_equals_what_tifffile_reads(dtype: str) -> None:
    stream = tiff_file((LABELS % 100).astype(dtype), compression="zlib", predictor=True)
    np.testing.assert_array_equal(read(stream, ".tif"), LABELS % 100)


def test_tiff_of_imagej_is_read() -> None:
    np.testing.assert_array_equal(read(tiff_file(LABELS.astype(np.uint16), imagej=True), ".tif"), LABELS)


def test_smaller_copies_behind_the_first_page_of_a_tiff_are_left_alone() -> None:
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as writer:
        writer.write(LABELS, metadata=None)
        writer.write(LABELS[::2, ::2], subfiletype=1, metadata=None)
    np.testing.assert_array_equal(read(stream, ".tiff"), LABELS)


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
    options: dict[str, Any] = {"shape_yx": SHAPE, "bytes_limit": LIMIT}
    np.testing.assert_array_equal(
        read_labels("nary_mat", mat_file({"n_ary_mask": LABELS}), where="'a.mat'", **options), LABELS
    )
    np.testing.assert_array_equal(read_labels("label_image", npy_file(LABELS), where="'a.npy'", **options), LABELS)
    with pytest.raises(InputFault, match=r"\[wrong-format\] 'a.npy': not a MATLAB file"):
        read_labels("nary_mat", npy_file(LABELS), where="'a.npy'", **options)


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
    (finding,) = find_binary_mask((LABELS > 0).astype(np.uint8), where="case 'a', 'a.npy'")
    assert finding.severity == "warning"
    assert str(finding) == (
        "[binary-mask] case 'a', 'a.npy': 3 separate regions that all have the label 1; expected a label of its own "
        "for each nucleus. They count as one nucleus. Number them, for example with scipy.ndimage.label or bwlabel."
    )


def test_masks_of_255_are_binary_too() -> None:
    assert find_binary_mask(np.array([[255, 0, 255]], np.uint8), where="'a'")[0].code == "binary-mask"


def test_one_region_or_another_label_or_none_is_no_warning() -> None:
    one_diagonal = np.eye(3, dtype=int)
    for labels in (one_diagonal, np.zeros((2, 2), int), np.array([[2, 0, 1]]), LABELS):
        assert find_binary_mask(labels, where="'a'") == ()


# --- class maps -------------------------------------------------------------------------------------------------------


def read_map(array: Any, class_values: dict[str, int], class_names: list[str], suffix: str = ".npy") -> Any:
    stream = npy_file(array) if suffix == ".npy" else mat_file({"n_ary_mask": array})
    return read_class_map(
        stream,
        where=f"case 'a', 'a_class{suffix}'",
        shape_yx=(np.shape(array)[0], np.shape(array)[1]),
        bytes_limit=LIMIT,
        class_values=class_values,
        class_names=class_names,
    )


@pytest.mark.parametrize("suffix", [".npy", ".mat"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f8", "i8"])
def test_class_values_become_class_ids(dtype: str, suffix: str) -> None:
    array = np.array([[0, 10, 20], [20, 20, 0]], dtype)
    assert read_map(array, {"a": 20, "b": 10}, ["a", "b"], suffix).tolist() == [[0, 2, 1], [1, 1, 0]]
    assert read_map(array, {"a": 20, "b": 10}, ["b", "a"], suffix).tolist() == [[0, 1, 2], [2, 2, 0]]
    assert read_map(array, {"a": 10, "b": 20}, ["a", "b"], suffix).tolist() == [[0, 1, 2], [2, 2, 0]]


@pytest.mark.parametrize("value", [-1, 3, 32768, 2**40])
def test_a_class_value_that_is_not_known_is_told(value: int) -> None:
    with pytest.raises(InputFault) as error:
        read_map(np.array([[0, 1, 1], [2, value, value]]), {"tumour": 1, "stroma": 2}, ["tumour", "stroma"])
    assert [str(finding) for finding in error.value.findings] == [
        f"[unknown-class-value] case 'a', 'a_class.npy': the value {value} in 2 pixels (first at row 1, column 1); "
        "expected 0 for no class, 1 ('tumour'), 2 ('stroma'). Write the values that the challenge gives to its classes."
    ]


def test_many_unknown_class_values_are_counted_not_listed() -> None:
    with pytest.raises(InputFault) as error:
        read_map(np.arange(1000).reshape(10, 100), {"a": 1}, ["a"])
    assert len(error.value.findings) == 8
    assert sum(finding.count for finding in error.value.findings) == 998


@pytest.mark.parametrize("offset", [1 << 50, (1 << 62) - 1, (1 << 64) - 1])
def test_a_bigtiff_that_points_far_beyond_its_end_is_cut_off(offset: int, tmp_path: Any) -> None:
    path = tmp_path / "far.tif"
    path.write_bytes(b"II+\0\x08\0\0\0" + offset.to_bytes(8, "little") + bytes(100))
    with path.open("rb") as stream, pytest.raises(InputFault, match=r"\[unreadable-file\]"):
        read_label_image(stream, where="'far.tif'", shape_yx=SHAPE, bytes_limit=LIMIT)
