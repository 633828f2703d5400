"""MATLAB files: n-ary masks and HoVer-Net's, also as MATLAB 7.3 (HDF5), compared with what h5py and scipy read."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from label_pictures import picture
from test_label_formats import LABELS, ONE_CLASS, SHAPE, TWO_CLASSES, image_of
from test_label_formats import mat_file as mat

from evaluation.challenge import LimitRules, format_rules
from evaluation.decoding.mat_file import MatFile, read_mat_labels
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.guarded import begin_annotations
from evaluation.formats.mat_files import read_hovernet_mat, read_nary_mat
from evaluation.instances.labels import instances_from_label_image
from evaluation.model import Annotations, Case, ClassTable, LabelImage

LIMIT = 10_000_000
HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
MATLAB_CLASSES = {"f8": "double", "f4": "single", "b1": "logical"}


def request(
    kind: str = "nary_mat", classes: ClassTable = ONE_CLASS, limit: int = LIMIT, file_class: int = 0
) -> Request:
    return Request(
        where="case 'a', 'a.mat'",
        name="a.mat",
        rules=format_rules(format=kind, files="{case}.mat"),
        classes=classes,
        limits=LimitRules(bytes_per_file=limit),
        file_class=file_class,
    )


def mat_7_3(
    variables: dict[str, Any], write: Callable[[h5py.File], Any] | None = None, libver: str = "earliest", **options: Any
) -> io.BytesIO:
    """A file as MATLAB 7.3 writes it: axes in reverse order, the class as an attribute, a header in the user block."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", userblock_size=512, libver=libver) as file:
        for name, value in variables.items():
            array = np.asarray(value)
            kind = array.dtype.str[1:]
            stored = array.view(np.uint8) if kind == "b1" else array
            dataset = file.create_dataset(name, data=stored.T, **options)
            dataset.attrs["MATLAB_class"] = np.bytes_(MATLAB_CLASSES.get(kind, array.dtype.name))
        if write is not None:
            write(file)
    return with_header(stream)


def with_header(stream: io.BytesIO) -> io.BytesIO:
    stream.seek(0)
    stream.write(HEADER.ljust(124) + b"\0\2IM")
    return stream


def read(stream: io.BytesIO, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    return read_mat_labels(stream, where="case 'a', 'a.mat'", shape_yx=shape_yx, bytes_limit=limit)


def read_guarded(stream: io.BytesIO, kind: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Annotations:
    """In a child process: scipy.io and HDF5 do not survive every file."""
    asked = request(kind, TWO_CLASSES, limit=limit)
    return begin_annotations(stream, asked, Case("a", "a", *shape_yx), owner="tests")()


def refusals(function: Callable[[], Any]) -> list[str]:
    with pytest.raises(InputFault) as error:
        function()
    lines = [str(finding) for finding in error.value.findings]
    assert all(line.isprintable() for line in lines)
    return lines


def refusal(stream: io.BytesIO, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> str:
    (line,) = refusals(lambda: read_guarded(stream, "nary_mat", shape_yx, limit))
    return line.replace(" case 'a', 'a.mat':", "")


# --- MATLAB 7.3 -------------------------------------------------------------------------------------------------------

STORED: dict[str, dict[str, Any]] = {
    "in one piece": {},
    "in chunks": {"chunks": (8, 7)},
    "deflated": {"chunks": (8, 7), "compression": "gzip"},
    "deflated and shuffled": {"chunks": (5, 20), "compression": "gzip", "shuffle": True},
    "with check sums": {"chunks": (31, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "with check sums only": {"chunks": (3, 3), "fletcher32": True},
    "in chunks that may grow": {"chunks": (40, 40), "maxshape": (None, None)},
}
STORAGES = pytest.mark.parametrize("options", STORED.values(), ids=STORED)
DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "b1", ">i4", ">f8"]


@STORAGES
@pytest.mark.parametrize("dtype", DTYPES)
def test_7_3_equals_what_was_written(dtype: str, options: dict[str, Any]) -> None:
    array = (LABELS % 100).astype(dtype)
    labels = read(mat_7_3({"n_ary_mask": array}, **options))
    np.testing.assert_array_equal(labels, array)
    if array.dtype.kind in "iu":
        assert labels.dtype == array.dtype.newbyteorder("=")


def test_7_3_of_matlab_itself_equals_what_h5py_reads() -> None:
    path = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data" / "testhdf5_7.4_GLNX86.mat"
    if not path.is_file():
        pytest.skip("this build of scipy comes without its test data")
    with path.open("rb") as stream, h5py.File(path) as file:
        mat_file = MatFile(stream, where="'a.mat'", bytes_limit=LIMIT)
        (variable,) = mat_file.variables
        assert (variable.name, variable.shape, variable.kind) == ("testdouble", (1, 9), None)
        np.testing.assert_array_equal(mat_file.read(variable), file["testdouble"][()].T)
        np.testing.assert_allclose(mat_file.read(variable), np.linspace(0, 2 * np.pi, 9)[None])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_small_7_3_equals_what_h5py_reads(data: Any) -> None:
    dtype = data.draw(st.sampled_from(["u1", "u2", "i4", "<u8", ">i2"]))
    elements = st.integers(0, 120)
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=elements))
    chunks = tuple(data.draw(st.integers(1, size)) for size in array.T.shape)
    stream = mat_7_3(
        {"n_ary_mask": array}, chunks=chunks, shuffle=data.draw(st.booleans()), fletcher32=data.draw(st.booleans())
    )
    with h5py.File(stream) as file:
        expected = file["n_ary_mask"][()].T
    np.testing.assert_array_equal(read(stream, array.shape), expected)


def test_pixels_that_were_never_written_have_the_fill_value() -> None:
    def write(file: h5py.File) -> None:
        dataset = file.create_dataset("n_ary_mask", SHAPE[::-1], "i4", chunks=(4, 4), fillvalue=5, compression="gzip")
        dataset[8:12, 4:8] = 9

    expected = np.full(SHAPE, 5)
    expected[4:8, 8:12] = 9
    np.testing.assert_array_equal(read(mat_7_3({}, write)), expected)
    empty = mat_7_3({}, lambda file: file.create_dataset("n_ary_mask", SHAPE[::-1], "i4"))
    np.testing.assert_array_equal(read(empty), np.zeros(SHAPE))


def test_numbers_in_the_header_are_read() -> None:
    def write(file: h5py.File) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(SHAPE[::-1])
        dataset = h5py.h5d.create(file.id, b"n_ary_mask", h5py.h5t.STD_I32LE, space, plist)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(LABELS.T))

    np.testing.assert_array_equal(read(mat_7_3({}, write)), LABELS)


def test_a_file_of_another_program_in_the_newest_hdf5_is_read() -> None:
    np.testing.assert_array_equal(read(mat_7_3({"n_ary_mask": LABELS, "b": LABELS}, libver="latest")), LABELS)


def test_hundreds_of_variables_and_thousands_of_chunks_are_read() -> None:
    array = np.arange(40 * 41).reshape(40, 41)
    names = {f"variable_{index:03}": np.array([[index]]) for index in range(300)}
    stream = mat_7_3(names, lambda file: file.create_dataset("n_ary_mask", data=array.T, chunks=(1, 1)))
    np.testing.assert_array_equal(read(stream, array.shape), array)
    mat_file = MatFile(stream, where="'a.mat'", bytes_limit=LIMIT)
    assert {variable.name for variable in mat_file.variables} == {*names, "n_ary_mask"}
    for variable in mat_file.variables:
        if variable.name in names:
            assert mat_file.read(variable).item() == names[variable.name].item()


def test_more_than_a_thousand_variables_are_refused() -> None:
    stream = mat_7_3({f"v{index}": np.array([[index]]) for index in range(1001)})
    assert refusal(stream).startswith("[wrong-format] a damaged header (more than 1,000 variables); expected a MATLAB")


def of_class(name: str, **attributes: Any) -> Callable[[h5py.File], None]:
    def write(file: h5py.File) -> None:
        dataset = file.create_dataset("n_ary_mask", data=LABELS.T.astype("u8"))
        dataset.attrs["MATLAB_class"] = np.bytes_(name)
        for key, value in attributes.items():
            dataset.attrs[key] = value

    return write


def sparse(file: h5py.File) -> None:
    group = file.create_group("n_ary_mask")
    group.attrs["MATLAB_class"] = np.bytes_("double")
    group.attrs["MATLAB_sparse"] = np.uint64(5)


def complex_numbers(file: h5py.File) -> None:
    dataset = file.create_dataset("n_ary_mask", SHAPE[::-1], [("real", "f8"), ("imag", "f8")])
    dataset.attrs["MATLAB_class"] = np.bytes_("double")


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (of_class("cell"), "a cell array"),
        (of_class("struct"), "a struct"),
        (of_class("char"), "a text"),
        (of_class("function_handle"), "a function"),
        (of_class("table"), "an object"),
        (lambda file: file.create_group("n_ary_mask"), "a struct"),
        (sparse, "a sparse matrix"),
        (complex_numbers, "an array of complex numbers"),
        (lambda file: file.create_dataset("n_ary_mask", data=np.bytes_("x")), "a text"),
    ],
)
def test_7_3_without_plain_numbers_is_refused(write: Callable[[h5py.File], None], what: str) -> None:
    assert refusal(mat_7_3({}, write)).startswith(f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole")


def test_what_matlab_keeps_beside_the_variables_does_not_matter() -> None:
    stream = mat_7_3({"labels": LABELS}, lambda file: file.create_dataset("#refs#/a", data=LABELS))
    np.testing.assert_array_equal(read(stream), LABELS)


def test_an_empty_7_3_array_has_the_size_that_it_says() -> None:
    def write(file: h5py.File) -> None:
        dataset = file.create_dataset("n_ary_mask", data=np.array([0, 31], "u8"))
        dataset.attrs["MATLAB_class"] = np.bytes_("double")
        dataset.attrs["MATLAB_empty"] = np.uint8(1)

    assert refusal(mat_7_3({}, write)).startswith("[wrong-shape] an empty array; expected 20 rows x 31 columns")
    assert MatFile(mat_7_3({}, write), where="", bytes_limit=LIMIT).variables[0].shape == (0, 31)


# --- hostile HDF5 -----------------------------------------------------------------------------------------------------

HOW_TO_SAVE = (
    "expected a MATLAB file of version 6 or 7. Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat."
)


def external(path: Path) -> Callable[[h5py.File], None]:
    return lambda file: file.create_dataset("n_ary_mask", SHAPE[::-1], "u1", external=[(str(path), 0, 620)])


def virtual(path: Path) -> Callable[[h5py.File], None]:
    def write(file: h5py.File) -> None:
        layout = h5py.VirtualLayout(SHAPE[::-1], "i4")
        layout[:] = h5py.VirtualSource(str(path), "n_ary_mask", SHAPE[::-1])
        file.create_virtual_dataset("n_ary_mask", layout)

    return write


@pytest.mark.parametrize("make", [external, virtual])
def test_data_in_other_files_are_never_read(make: Callable[[Path], Any], tmp_path: Path) -> None:
    secret = tmp_path / "reference.h5"
    with h5py.File(secret, "w") as file:
        file["n_ary_mask"] = LABELS.T
    line = refusal(mat_7_3({}, make(secret)))
    assert line == f"[unsupported-format] a MATLAB 7.3 file (HDF5) with data in another file; {HOW_TO_SAVE}"


@pytest.mark.parametrize("link", [h5py.SoftLink("/other"), h5py.ExternalLink("reference.h5", "n_ary_mask")])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_links_are_never_followed(link: Any, libver: str) -> None:
    stream = mat_7_3({}, lambda file: file.__setitem__("n_ary_mask", link), libver)
    assert refusal(stream).startswith("[not-numeric] 'n_ary_mask' is a link; expected an array of whole numbers.")


@pytest.mark.parametrize(
    ("options", "libver", "what"),
    [
        ({"chunks": (8, 8), "compression": "lzf"}, "earliest", "the filter 32000"),
        ({"chunks": (8, 8), "scaleoffset": 0}, "earliest", "the filter 6"),
    ],
)
def test_what_is_not_supported_is_told_with_how_to_save_it(options: dict[str, Any], libver: str, what: str) -> None:
    line = refusal(mat_7_3({"n_ary_mask": LABELS}, libver=libver, **options))
    assert line == f"[unsupported-format] a MATLAB 7.3 file (HDF5) with {what}; {HOW_TO_SAVE}"


def test_what_is_not_supported_in_other_variables_does_not_matter() -> None:
    stream = mat_7_3({"n_ary_mask": LABELS}, lambda file: file.create_dataset("b", data=LABELS, compression="lzf"))
    np.testing.assert_array_equal(read(stream), LABELS)


def test_hdf5_that_is_not_matlab_is_refused_since_its_axes_are_not_known() -> None:
    without_header = io.BytesIO()
    with h5py.File(without_header, "w", userblock_size=512) as file:
        file["n_ary_mask"] = LABELS
    plain = io.BytesIO()
    with h5py.File(plain, "w") as file:
        file["n_ary_mask"] = LABELS
    for stream in (without_header, plain):
        assert refusal(stream) == (
            "[unsupported-format] an HDF5 file that is not MATLAB's, so the order of its axes is not known; "
            f"{HOW_TO_SAVE}"
        )


BOMB = zlib.compress(bytes(40_000_000), 9)


@pytest.mark.parametrize("compression", ["gzip", None])
def test_a_chunk_that_decompresses_to_far_more_than_its_pixels_gives_no_more(compression: str | None) -> None:
    shape = (200, 310)

    def write(file: h5py.File) -> None:
        dataset = file.create_dataset("n_ary_mask", shape[::-1], "i4", chunks=shape[::-1], compression=compression)
        dataset.id.write_direct_chunk((0, 0), BOMB)

    assert refusal(mat_7_3({}, write), shape).startswith("[unreadable-file] the data stop before their end, or are dam")


def test_a_small_array_with_huge_chunks_is_refused() -> None:
    def write(file: h5py.File) -> None:
        options: dict[str, Any] = {"maxshape": (None, None), "compression": "gzip"}
        dataset = file.create_dataset("n_ary_mask", SHAPE[::-1], "i4", chunks=(20_000, 20_000), **options)
        dataset.id.write_direct_chunk((0, 0), zlib.compress(bytes(2480)))

    line = refusal(mat_7_3({}, write))
    expected = "[wrong-format] a damaged header (chunks of 1,600,000,000 bytes for an array of 2,480); expected"
    assert line.startswith(expected)


def test_a_header_of_a_huge_7_3_image_takes_no_memory() -> None:
    huge = (200_000, 200_000)
    for options in ({}, {"chunks": (1000, 1000)}):
        stream = mat_7_3({}, lambda file, options=options: file.create_dataset("n_ary_mask", huge, "i4", **options))
        assert refusal(stream).startswith("[wrong-shape] 200,000 rows x 200,000 columns; expected 20 rows")
        assert refusal(stream, huge).startswith(
            "[too-large] an array of 160,000,000,000 bytes (int32); expected at most"
        )


def replaced(content: bytes, place: int, new: bytes) -> io.BytesIO:
    return io.BytesIO(content[:place] + new + content[place + len(new) :])


def test_trees_that_meet_themselves_are_refused() -> None:
    content = mat_7_3({"n_ary_mask": LABELS}, chunks=(4, 4)).getvalue()
    group, chunks = (content.index(b"TREE" + bytes([kind])) for kind in (0, 1))
    in_group = replaced(content, group + 32, struct.pack("<Q", group - 512))
    assert refusal(in_group).startswith(("[wrong-format] a damaged header", "[unreadable-file]"))
    one = content[: chunks + 5] + struct.pack("<BH", 1, 1) + content[chunks + 8 :]  # its only chunk is a tree
    in_chunks = replaced(one, chunks + 24 + 8 + 24, struct.pack("<Q", chunks - 512))
    assert refusal(in_chunks).startswith(("[wrong-format] a damaged header", "[unreadable-file]"))


def test_headers_that_continue_in_themselves_are_refused() -> None:
    content = mat_7_3({"n_ary_mask": LABELS}).getvalue()
    with h5py.File(io.BytesIO(content)) as file:
        header = 512 + h5py.h5o.get_info(file["n_ary_mask"].id).addr
    message = struct.pack("<HHB3xQQ", 16, 16, 0, header - 512 + 16, 24)
    stream = io.BytesIO(content[: header + 16] + message + content[header + 40 :])
    assert refusal(stream).startswith(("[wrong-format] a damaged header", "[unreadable-file]"))


def test_a_chunk_twice_or_beside_the_others_is_refused() -> None:
    content = mat_7_3({"n_ary_mask": LABELS}, chunks=(16, 20)).getvalue()
    tree = content.index(b"TREE\1")
    second_offset = tree + 24 + (8 + 24 + 8) + 8
    assert struct.unpack_from("<Q", content, second_offset) == (16,)
    for offset in (0, 1, 32):
        line = refusal(replaced(content, second_offset, struct.pack("<Q", offset)))
        assert line.startswith(
            ("[wrong-format] a damaged header (a chunk beside", "[wrong-format] a damaged header (bad coordinate")
        )


# --- n-ary masks ------------------------------------------------------------------------------------------------------


def test_real_nary_masks_keep_their_labels_and_have_the_class_of_their_path(shared_data: Path) -> None:
    for path in sorted((shared_data / "monusac_challenge" / "submission").rglob("*.mat")):
        expected = scipy.io.loadmat(path)["n_ary_mask"]
        with path.open("rb") as stream:
            asked = request(classes=TWO_CLASSES, file_class=2, limit=100_000_000)
            image = image_of(read_nary_mat(stream, asked, Case("a", "a", *expected.shape)))
        np.testing.assert_array_equal(picture(image.labels), expected)
        assert (image.class_id, image.class_map, image.class_of_instance) == (2, None, None)
        as_7_3 = mat_7_3({"n_ary_mask": expected}, compression="gzip")
        np.testing.assert_array_equal(read(as_7_3, expected.shape, 100_000_000), expected)


def test_a_mask_whose_nuclei_all_have_the_label_1_gives_a_warning() -> None:
    said = read_nary_mat(mat({"n_ary_mask": LABELS > 0}), request(), Case("a", "a", *SHAPE))
    assert [finding.code for finding in said.findings] == ["binary-mask"]


# --- HoVer-Net --------------------------------------------------------------------------------------------------------


def hovernet(variables: dict[str, Any], *, new: bool = False, **options: Any) -> LabelImage:
    stream = mat_7_3(variables) if new else mat(variables)
    return image_of(read_hovernet_mat(stream, request("hovernet_mat", TWO_CLASSES, **options), Case("a", "a", *SHAPE)))


def hovernet_refusals(variables: dict[str, Any]) -> list[str]:
    return refusals(lambda: hovernet(variables))


@pytest.mark.parametrize("new", [False, True])
def test_types_belong_to_the_ids_in_ascending_order(new: bool) -> None:
    image = hovernet({"inst_map": LABELS, "inst_type": np.array([[20], [10], [30]])}, new=new)
    np.testing.assert_array_equal(picture(image.labels), LABELS)
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [2, 1, -1]
    assert (image.class_id, image.class_map, image.source) == (0, None, "a.mat")


@pytest.mark.parametrize("shape", [(3, 1), (1, 3)])
def test_types_may_be_a_row_or_a_column_of_floats(shape: tuple[int, int]) -> None:
    image = hovernet({"inst_map": LABELS.astype(float), "inst_type": np.array([20.0, 0, 10]).reshape(shape)})
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [2, 0, 1]


def test_types_with_ids_belong_to_these_and_others_have_none() -> None:
    types = {"inst_uid": np.array([[300], [2], [4]]), "inst_type": np.array([[20], [10], [30]])}
    image = hovernet({"inst_map": LABELS, **types})
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [1, 0, 2]


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(1, 13)), st.sets(st.integers(1, 12)))
def test_types_with_ids_may_come_in_any_order(order: list[int], listed: set[int]) -> None:
    labels = np.zeros(SHAPE, np.int32)
    labels[3, 1:13] = range(1, 13)
    type_of = {label: 10 * (label % 4) for label in listed}
    uids = [label for label in order if label in listed]
    types = {"inst_uid": np.array([uids]).T, "inst_type": np.array([[type_of[label] for label in uids]]).T}
    image = hovernet({"inst_map": labels, **types})
    assert image.class_of_instance is not None
    expected = [{0: 0, 10: 1, 20: 2, 30: -1}[type_of.get(label, 0)] for label in range(1, 13)]
    assert image.class_of_instance.tolist() == expected


@pytest.mark.parametrize("new", [False, True])
def test_a_type_map_gives_the_class_of_most_pixels(new: bool) -> None:
    types = np.zeros(SHAPE, np.uint8)
    types[LABELS == 2], types[LABELS == 7] = 30, 10
    types[2:5, 5:20] = 20
    image = hovernet({"inst_map": LABELS, "type_map": types}, new=new)
    assert image.class_of_instance is None
    assert instances_from_label_image(image).class_id.tolist() == [-1, 1, 0]


def test_types_count_before_a_type_map() -> None:
    image = hovernet({"inst_map": LABELS, "inst_type": [[10], [10], [10]], "type_map": np.full(SHAPE, 20)})
    assert instances_from_label_image(image).class_id.tolist() == [1, 1, 1]


def test_no_types_are_needed_where_the_path_tells_the_class() -> None:
    image = hovernet({"inst_map": LABELS, "inst_type": [[99]]}, file_class=2)
    assert instances_from_label_image(image).class_id.tolist() == [2, 2, 2]
    one = read_hovernet_mat(mat({"inst_map": LABELS}), request("hovernet_mat"), Case("a", "a", *SHAPE))
    assert instances_from_label_image(image_of(one)).class_id.tolist() == [1, 1, 1]
    assert instances_from_label_image(hovernet({"inst_map": LABELS})).class_id.tolist() == [0, 0, 0]


@pytest.mark.parametrize("new", [False, True])
def test_an_image_without_nuclei_has_an_empty_list_of_types(new: bool) -> None:
    nothing = {"inst_uid": np.zeros((0, 1)), "inst_type": np.zeros((0, 1)), "inst_centroid": np.zeros((0, 0))}
    image = hovernet({"inst_map": np.zeros(SHAPE, np.int32), **nothing}, new=new)
    assert len(instances_from_label_image(image)) == 0
    only_without_outline = hovernet({"inst_map": LABELS, **nothing}, new=new)
    assert instances_from_label_image(only_without_outline).class_id.tolist() == [0, 0, 0]


def test_lists_that_do_not_fit_are_refused() -> None:
    assert hovernet_refusals({"inst_map": LABELS, "inst_uid": [[2], [2], [7]], "inst_type": [[10], [10], [10]]}) == [
        "[wrong-length] case 'a', 'a.mat': 1 repeated ids in 'inst_uid'; expected each id once. Write 'inst_type' in "
        "the order of numpy.unique(inst_map)[1:], or write their ids as 'inst_uid'."
    ]
    (line,) = hovernet_refusals({"inst_map": np.arange(620).reshape(SHAPE) % 5, "inst_type": [[10, 10], [10, 10]]})
    assert line.startswith("[wrong-length] case 'a', 'a.mat', 'inst_type': an array of 2 x 2; expected one column of")


def test_types_that_are_no_classes_are_told_with_an_id() -> None:
    assert hovernet_refusals({"inst_map": LABELS, "inst_type": np.array([[4], [10], [4]])}) == [
        "[unknown-class-value] case 'a', 'a.mat', 'inst_type': the value 4 for 2 nuclei (first for the id 2); expected "
        "0 for no class, 10 ('tumour'), 20 ('stroma'), 30 ('debris'). Write the values that the challenge gives to its "
        "classes."
    ]
    (line, *_) = hovernet_refusals({"inst_map": LABELS, "type_map": LABELS})
    assert line.startswith("[unknown-class-value] case 'a', 'a.mat', 'type_map': the value 2 in 1 pixel")
    (line,) = hovernet_refusals({"inst_map": LABELS, "inst_type": np.array([[10], [20], [0.5]])})
    assert line.startswith("[fractional-label] case 'a', 'a.mat', 'inst_type': 1 of 3 pixels is not a whole number")


def test_many_wrong_types_are_counted() -> None:
    labels = np.arange(620).reshape(SHAPE)
    with pytest.raises(InputFault) as error:
        hovernet({"inst_map": labels, "inst_type": np.arange(101, 720)[:, None]})
    assert len(error.value.findings) == 8
    assert sum(finding.count for finding in error.value.findings) == 619


@pytest.mark.parametrize("ids", ["id", "nuclei_id"])
def test_class_and_id_of_lizard_are_types_and_their_ids(ids: str) -> None:
    # scripts/README of the data set: id, class, bbox and centroid, one row for each nucleus, beside inst_map
    boxes = {"bbox": np.zeros((3, 4)), "centroid": np.zeros((3, 2))}
    lizard = {"inst_map": LABELS, ids: np.array([[300], [2], [7]]), "class": np.array([[20], [10], [30]]), **boxes}
    image = hovernet(lizard)
    assert image.class_of_instance is not None
    assert image.class_of_instance.tolist() == [1, -1, 2]
    assert hovernet_refusals({**lizard, "class": [[10]]}) == [
        "[wrong-length] case 'a', 'a.mat': 1 class in 'class' for 3 nuclei; expected one class for each nucleus. "
        "Write 'class' in the order of numpy.unique(inst_map)[1:], or write their ids as 'id'."
    ]


def test_a_file_without_the_map_of_instances_is_refused() -> None:
    assert hovernet_refusals({"n_ary_mask": LABELS, "type_map": LABELS}) == [
        "[no-mask-variable] case 'a', 'a.mat': the variables 'n_ary_mask' and 'type_map'; expected a variable "
        "'inst_map'. Save the label image as 'inst_map'."
    ]
    (line,) = hovernet_refusals({"inst_map": "text"})
    assert line.startswith("[not-numeric] case 'a', 'a.mat': 'inst_map' is a text; expected an array of whole numbers.")
    one = mat({"inst_map": LABELS}).getvalue()
    twice = io.BytesIO(one + one[128:])
    (line,) = refusals(lambda: read_hovernet_mat(twice, request("hovernet_mat"), Case("a", "a", *SHAPE)))
    assert line.startswith("[no-mask-variable] case 'a', 'a.mat': the variable 'inst_map' 2 times; expected each")


def test_real_types_belong_to_the_nuclei_with_the_same_centroids(shared_data: Path) -> None:
    folder = shared_data / "consep" / "tests" / "resources" / "consep"
    classes = ClassTable(("b", "c", "d"), {"b": 1, "c": 2, "d": 3}, {2: 1, 3: 2, 4: 3})
    paths = sorted((folder / "inst" / "test").glob("*.npy"))
    assert len(paths) == 4
    for path in paths:
        types = scipy.io.loadmat(folder / "type_mat" / "test" / f"{path.stem}.mat")
        labels = np.load(path)
        stream = mat({"inst_map": labels, "inst_type": types["inst_type"], "inst_centroid": types["inst_centroid"]})
        said = read_hovernet_mat(stream, request("hovernet_mat", classes), Case("a", "a", 256, 256))
        instances = instances_from_label_image(image_of(said))
        assert instances.source_id.tolist() != list(range(1, len(instances) + 1))  # the ids have gaps
        assert (instances.class_id + 1).tolist() == types["inst_type"].ravel().tolist()
        for label, (x, y) in zip(instances.source_id, types["inst_centroid"], strict=True):
            np.testing.assert_allclose(np.argwhere(labels == label).mean(axis=0), (y, x), atol=1e-6)


def test_real_stitched_reference_has_865_nuclei_of_3_types(shared_data: Path) -> None:
    stitched = np.load(shared_data / "consep" / "test_1_gt_stitched.npz")
    classes = ClassTable(("b", "c", "d"), {"b": 1, "c": 2, "d": 3}, {2: 1, 3: 2, 4: 3})
    stream = mat({"inst_map": stitched["inst"], "type_map": stitched["type"]})
    said = read_hovernet_mat(stream, request("hovernet_mat", classes, limit=10**8), Case("a", "a", 1000, 1000))
    instances = instances_from_label_image(image_of(said))
    assert len(instances) == 865
    votes = np.zeros((866, 5), np.int64)
    np.add.at(votes, (stitched["inst"].ravel(), stitched["type"].ravel()), 1)
    assert instances.source_id.tolist() == list(range(1, 866))
    assert (instances.class_id + 1).tolist() == votes[1:].argmax(axis=1).tolist()


def test_a_named_type_among_the_variables_is_no_array():
    """Found by mutation: HDF5 has types of a name beside arrays and groups."""
    labels = np.array([[0, 1], [2, 2]], np.int32)
    named = mat_7_3({"n_ary_mask": labels}, lambda file: file.create_group("s").file.__setitem__("t", np.dtype("f8")))
    np.testing.assert_array_equal(read(named, labels.shape), labels)
    with pytest.raises(InputFault) as raised:
        read(mat_7_3({}, lambda file: file.__setitem__("n_ary_mask", np.dtype("f8"))))
    assert [finding.code for finding in raised.value.findings] == ["not-numeric"]
