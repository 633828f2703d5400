"""Files that are broken or meant to break: one clear line each, no memory taken, nothing read from elsewhere."""

from __future__ import annotations

import io
import pickle
import random
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import SimpleITK
import tifffile
from test_label_formats import LABELS, SHAPE, mat_file, mha_file, npy_file, tiff_file

from evaluation.errors import InputFault
from evaluation.findings import Finding
from evaluation.formats import read_labels

LIMIT = 50_000_000
CUT_OFF = "[unreadable-file] the data stop before their end, or are damaged; expected a complete file. Write or copy"
WHOLE = "expected 0 for background and 1, 2, 3, … for nuclei."


def refusals(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> list[str]:
    """The lines for which a file is refused, without the place that they all start with."""
    stream = io.BytesIO(stream) if isinstance(stream, bytes) else stream
    kind: Any = "nary_mat" if suffix == ".mat" else "label_image"
    with pytest.raises(InputFault) as error:
        read_labels(kind, stream, where=f"case 'a', 'a{suffix}'", shape_yx=shape_yx, bytes_limit=limit)
    lines = [str(finding) for finding in error.value.findings]
    for line in lines:
        assert line.isprintable()
    return [line.replace(f" case 'a', 'a{suffix}':", "") for line in lines]


def refusal(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> str:
    (line,) = refusals(stream, suffix, shape_yx, limit)
    return line


@pytest.fixture
def little_memory() -> Any:
    """Fails the test if it takes more than 8 MB at a time."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def made_files(folder: Path) -> dict[str, bytes]:
    return {
        ".mat": mat_file({"n_ary_mask": LABELS}).getvalue(),
        "_compressed.mat": mat_file({"n_ary_mask": LABELS}, do_compression=True).getvalue(),
        "_4.mat": mat_file({"n_ary_mask": LABELS}, format="4").getvalue(),
        ".npy": npy_file(LABELS).getvalue(),
        ".tif": tiff_file(LABELS).getvalue(),
        "_deflate.tif": tiff_file(LABELS, compression="zlib").getvalue(),
        "_tiled.tif": tiff_file(LABELS, tile=(16, 16), compression="zstd").getvalue(),
        "_big.tif": tiff_file(LABELS, bigtiff=True, byteorder=">").getvalue(),
        ".mha": mha_file(folder, LABELS).getvalue(),
        "_compressed.mha": mha_file(folder, LABELS, compressed=True).getvalue(),
    }


# --- values -----------------------------------------------------------------------------------------------------------


def as_npy(array: Any, _: Path) -> tuple[Any, str]:
    return npy_file(array), ".npy"


def as_mat(array: Any, _: Path) -> tuple[Any, str]:
    return mat_file({"n_ary_mask": array}), ".mat"


def as_tiff(array: Any, _: Path) -> tuple[Any, str]:
    return tiff_file(array), ".tif"


def as_mha(array: Any, folder: Path) -> tuple[Any, str]:
    return mha_file(folder, array), ".mha"


FORMATS = pytest.mark.parametrize("write", [as_npy, as_mat, as_tiff, as_mha])
Write = Callable[[Any, Path], tuple[Any, str]]


@FORMATS
def test_negative_labels_are_told_with_their_place(write: Write, tmp_path: Path) -> None:
    array = LABELS.copy()
    array[3:5, 8] = [-1, -7]
    assert refusal(*write(array, tmp_path)) == (
        f"[negative-label] 2 of 620 pixels are below 0 (lowest -7, first at row 3, column 8); {WHOLE} "
        "If -1 is your background, write 0."
    )


@FORMATS
def test_fractions_are_told_with_their_place(write: Write, tmp_path: Path) -> None:
    array = LABELS.astype(np.float64)
    array[19, 30] = 0.25
    assert refusal(*write(array, tmp_path)) == (
        f"[fractional-label] 1 of 620 pixels is not a whole number (0.25, first at row 19, column 30); {WHOLE} "
        "Write labels of instances, not probabilities; do not interpolate when you resize."
    )


@FORMATS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_told_with_their_place(write: Write, tmp_path: Path, value: float) -> None:
    array = LABELS.astype(np.float32)
    array[1, 2] = array[5, 5] = value
    assert refusal(*write(array, tmp_path)) == (
        f"[not-finite] 2 of 620 pixels are not a number or infinite ({value}, first at row 1, column 2); {WHOLE} "
        "Write 0 where there is no nucleus."
    )


def test_all_faults_of_the_values_are_told_in_one_pass() -> None:
    array = np.array([[np.nan, 0.5, -1.0, 2.0**63]])
    assert [line.partition("]")[0] for line in refusals(npy_file(array), ".npy", (1, 4))] == [
        "[not-finite",
        "[fractional-label",
        "[negative-label",
        "[label-too-large",
    ]


def test_labels_above_the_largest_integer_are_told() -> None:
    array = np.array([[0, 2**64 - 1]], np.uint64)
    assert refusal(npy_file(array), ".npy", (1, 2)) == (
        "[label-too-large] 1 of 2 pixels is above 2^63 - 1 (highest 18446744073709551615, first at row 0, column 1); "
        f"{WHOLE} Number the nuclei 1, 2, 3, …; a negative number in an unsigned type also looks like this."
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


@FORMATS
def test_a_transposed_image_is_told_as_such(write: Write, tmp_path: Path) -> None:
    assert refusal(*write(LABELS.T.copy(), tmp_path)) == (
        "[wrong-shape] 31 rows x 20 columns; expected 20 rows x 31 columns, the height and width of the image. Height "
        "and width are swapped: write the transposed array (labels.T in numpy, labels.' in MATLAB)."
    )


@FORMATS
def test_another_size_is_told(write: Write, tmp_path: Path) -> None:
    assert refusal(*write(LABELS[:, :-1].copy(), tmp_path)) == (
        "[wrong-shape] 20 rows x 30 columns; expected 20 rows x 31 columns, the height and width of the image. "
        "Write the labels at the size of the image, without resizing or cropping."
    )


@pytest.mark.parametrize("shape", [(20, 31, 3), (4, 20, 31)])
def test_several_planes_are_told_as_such(shape: tuple[int, ...]) -> None:
    expected = (
        f"[wrong-shape] an array of {' x '.join(map(str, shape))}; expected 20 rows x 31 columns, the height and width "
        "of the image. These are several planes, such as colours or one per class: write one plane of labels."
    )
    assert refusal(npy_file(np.zeros(shape, np.uint8)), ".npy") == expected
    assert refusal(mat_file({"n_ary_mask": np.zeros(shape)}), ".mat") == expected


def test_colours_in_a_tiff_and_an_mha_are_told(tmp_path: Path) -> None:
    colours = np.zeros((*SHAPE, 3), np.uint8)
    expected = "[wrong-shape] an array of 20 x 31 x 3; expected 20 rows x 31 columns"
    assert refusal(tiff_file(colours, photometric="rgb"), ".tif").startswith(expected)
    assert refusal(mha_file(tmp_path, colours, is_vector=True), ".mha").startswith(expected)
    planar = tiff_file(np.zeros((3, *SHAPE), np.uint8), photometric="rgb", planarconfig="separate")
    assert refusal(planar, ".tif").startswith("[wrong-shape] an array of 3 x 20 x 31; expected")


def test_an_empty_array_is_told_with_what_to_write() -> None:
    for stream, suffix in ((npy_file(np.zeros((0, 0))), ".npy"), (mat_file({"n_ary_mask": np.zeros((0, 0))}), ".mat")):
        assert refusal(stream, suffix) == (
            "[wrong-shape] an empty array; expected 20 rows x 31 columns, the height and width of the image. "
            "For an image without nuclei write an image of zeros."
        )


def test_a_single_number_and_a_row_are_told() -> None:
    assert refusal(npy_file(np.int64(5)), ".npy").startswith("[wrong-shape] a single number; expected 20 rows")
    assert refusal(npy_file(np.arange(620)), ".npy").startswith("[wrong-shape] an array of 620; expected 20 rows")


# --- sizes that are claimed -------------------------------------------------------------------------------------------

HUGE = 200_000


def huge_npy() -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<i4", "fortran_order": False, "shape": (HUGE, HUGE)})
    return stream.getvalue()


def huge_mha() -> bytes:
    return (
        f"ObjectType = Image\nNDims = 2\nDimSize = {HUGE} {HUGE}\nElementType = MET_INT\nElementDataFile = LOCAL\n"
    ).encode()


def huge_mat() -> bytes:
    content = bytearray(mat_file({"n_ary_mask": LABELS}).getvalue())
    place = content.index(struct.pack("<ii", *SHAPE))
    content[place : place + 8] = struct.pack("<ii", HUGE, HUGE)
    return bytes(content)


def huge_tiff() -> bytes:
    content = bytearray(tiff_file(LABELS, compression="zlib").getvalue())
    for tag in (256, 257):
        place = content.index(struct.pack("<H", tag))
        content[place : place + 12] = struct.pack("<HHII", tag, 4, 1, HUGE)
    return bytes(content)


HUGE_FILES = pytest.mark.parametrize(
    ("make", "suffix"), [(huge_npy, ".npy"), (huge_mha, ".mha"), (huge_mat, ".mat"), (huge_tiff, ".tif")]
)


@HUGE_FILES
@pytest.mark.usefixtures("little_memory")
def test_a_header_of_a_huge_image_takes_no_memory(make: Callable[[], bytes], suffix: str) -> None:
    assert refusal(make(), suffix).startswith("[wrong-shape] 200,000 rows x 200,000 columns; expected 20 rows")


@HUGE_FILES
@pytest.mark.usefixtures("little_memory")
def test_a_header_of_a_huge_image_takes_no_memory_where_the_case_is_huge(
    make: Callable[[], bytes], suffix: str
) -> None:
    (line,) = refusals(make(), suffix, (HUGE, HUGE))
    assert line.startswith(("[too-large]", "[wrong-format]"))


@pytest.mark.parametrize("suffix", [".mat", ".npy", ".tif", ".mha"])
def test_a_file_above_the_limit_is_refused(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    options: dict[str, Any] = {"where": f"'a{suffix}'", "shape_yx": SHAPE}
    kind: Any = "nary_mat" if suffix == ".mat" else "label_image"
    read_labels(kind, io.BytesIO(content), bytes_limit=len(content), **options)
    expected = f"[too-large] a file of {len(content):,} bytes; expected at most {len(content) - 1:,} bytes."
    assert refusal(content, suffix, limit=len(content) - 1).startswith(expected)


@pytest.mark.parametrize("suffix", ["_compressed.mat", "_deflate.tif", "_compressed.mha"])
def test_an_array_above_the_limit_is_refused_however_small_its_file(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    assert len(content) < 2000 < LABELS.nbytes
    assert refusal(content, suffix[suffix.index(".") :], limit=2000).startswith("[too-large]")


def mat_element(kind: int, data: bytes, claimed: int | None = None) -> bytes:
    return struct.pack("<II", kind, len(data) if claimed is None else claimed) + data + bytes(-len(data) % 8)


def compressed_mat(matrix: bytes, claimed: int | None = None) -> bytes:
    packed = zlib.compress(mat_element(14, matrix, claimed))
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(packed)) + packed


def mat_head(name: bytes = b"n_ary_mask", shape: tuple[int, int] = SHAPE) -> bytes:
    return mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *shape)) + mat_element(1, name)


@pytest.mark.usefixtures("little_memory")
def test_mat_with_more_data_than_its_dimensions_is_refused_before_they_are_decompressed() -> None:
    bomb = compressed_mat(mat_head() + mat_element(5, bytes(1_000_000), claimed=4_000_000_000))
    expected = "[wrong-format] 4,000,000,000 bytes of data for an array of 2,480; expected"
    assert refusal(bomb, ".mat").startswith(expected)


@pytest.mark.usefixtures("little_memory")
def test_mat_with_a_name_of_gigabytes_is_refused() -> None:
    head = mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *SHAPE))
    bomb = compressed_mat(head + struct.pack("<II", 1, 4_000_000_000) + bytes(1_000_000))
    assert refusal(bomb, ".mat").startswith("[wrong-format] a damaged header of a variable; expected")


@pytest.mark.usefixtures("little_memory")
def test_mat_whose_other_variable_is_a_bomb_is_read() -> None:
    data = mat_element(5, bytes(1_000_000), claimed=4_000_000_000)
    bomb = compressed_mat(mat_head(b"other", (100_000, 10_000)) + data)
    content = bomb + mat_file({"n_ary_mask": LABELS}).getvalue()[128:]
    labels = read_labels("nary_mat", io.BytesIO(content), where="'a.mat'", shape_yx=SHAPE, bytes_limit=LIMIT)
    np.testing.assert_array_equal(labels, LABELS)


def test_mat_with_thousands_of_variables_is_refused() -> None:
    one = mat_file({"x": np.zeros((1, 1))}).getvalue()
    assert refusal(one + one[128:] * 1000, ".mat").startswith("[wrong-format] more than 1,000 variables; expected")


def test_npy_with_a_description_of_gigabytes_is_refused() -> None:
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 4_000_000_000) + b"{" * 1000
    assert refusal(content, ".npy").startswith("[wrong-format] a damaged header (a description of 4,000,000,000 bytes)")


@pytest.mark.parametrize("text", ["(" * 9000, "{'descr': " * 900, "9" * 9000, "__import__('os')", "{}", "\0" * 50])
def test_npy_with_a_strange_description_is_refused(text: str) -> None:
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    assert refusal(content, ".npy").startswith("[wrong-format] a damaged header (no description of the array)")


@pytest.mark.usefixtures("little_memory")
def test_tiff_with_huge_tiles_is_refused() -> None:
    content = bytearray(tiff_file(LABELS, tile=(16, 16), compression="zlib").getvalue())
    for tag in (322, 323):
        place = content.index(struct.pack("<H", tag))
        content[place : place + 12] = struct.pack("<HHII", tag, 4, 1, 60_000)
    expected = "[wrong-format] a damaged header (tiles of 60,000 x 60,000 pixels); expected"
    assert refusal(bytes(content), ".tif").startswith(expected)


def test_tiff_whose_strip_decompresses_to_far_more_than_the_image_gives_no_more() -> None:
    stream = tiff_file(LABELS, compression="zlib", rowsperstrip=20, metadata=None)
    content = bytearray(stream.getvalue())
    with tifffile.TiffFile(io.BytesIO(stream.getvalue())) as tiff:
        tags = tiff.pages.first.tags
        offset, count = tags["StripOffsets"].valueoffset, tags["StripByteCounts"].valueoffset
        types = [tags[name].dtype for name in ("StripOffsets", "StripByteCounts")]
    bomb = zlib.compress(bytes(40_000_000))
    for place, kind, value in ((offset, types[0], len(content)), (count, types[1], len(bomb))):
        struct.pack_into("<H" if kind == 3 else "<I", content, place, value)
    assert refusal(bytes(content) + bomb, ".tif").startswith(CUT_OFF)


def test_tiff_with_a_page_that_follows_itself_is_refused() -> None:
    content = bytearray(tiff_file(LABELS, metadata=None).getvalue())
    (first,) = struct.unpack_from("<I", content, 4)
    (tags,) = struct.unpack_from("<H", content, first)
    struct.pack_into("<I", content, first + 2 + 12 * tags, first)
    assert refusal(bytes(content), ".tif").startswith("[wrong-format] a damaged header (a page that follows itself)")


# --- what is not a label image ----------------------------------------------------------------------------------------


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (open, (str(tmp_path / "run"), "w"))  # type: ignore[return-value]

    stream = io.BytesIO()
    np.save(stream, np.array([[Trap()]], object), allow_pickle=True)
    expected = (
        "[not-numeric] an array of Python objects (a pickle); expected an array of whole numbers. Write the label "
        "image alone, for example numpy.save(path, labels.astype(numpy.int32))."
    )
    assert refusal(stream, ".npy") == expected
    assert refusal(pickle.dumps(Trap()), ".npy").startswith("[wrong-format] a Python pickle; expected a NumPy file")
    assert not (tmp_path / "run").exists()


def test_real_pickled_npy_is_refused(shared_data: Path) -> None:
    paths = sorted((shared_data / "nucls_tiles").rglob("*.npy"))
    assert paths
    for path in paths:
        assert refusal(path.read_bytes(), ".npy").startswith("[not-numeric] an array of Python objects (a pickle)")


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.zeros(SHAPE, np.complex64), "complex numbers"),
        (np.full(SHAPE, "a"), "texts"),
        (np.zeros(SHAPE, [("a", "i4")]), "records"),
        (np.zeros(SHAPE, "M8[s]"), "another kind of values"),
    ],
)
def test_npy_without_numbers_is_refused(array: Any, what: str) -> None:
    assert refusal(npy_file(array), ".npy").startswith(f"[not-numeric] an array of {what}; expected an array of whole")


@pytest.mark.parametrize(
    ("value", "what", "fix"),
    [
        ({"a": 1}, "a struct", "Save the label image alone: save(file, 'n_ary_mask', '-v7')."),
        (np.array([[LABELS]], object), "a cell array", "Save the label image alone: save(file, 'n_ary_mask', '-v7')."),
        ("text", "a text", "Save the label image alone: save(file, 'n_ary_mask', '-v7')."),
        (LABELS * 1j, "an array of complex numbers", "Save the label image alone: save(file, 'n_ary_mask', '-v7')."),
        (scipy.sparse.csc_array(LABELS.astype(float)), "a sparse matrix", "Save full(n_ary_mask)."),
    ],
    ids=["struct", "cell", "text", "complex", "sparse"],
)
def test_mat_without_plain_numbers_is_refused(value: Any, what: str, fix: str) -> None:
    stream = mat_file({"n_ary_mask": value, "other": LABELS})
    assert refusal(stream, ".mat") == f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole numbers. {fix}"


def test_mat_with_an_object_is_refused() -> None:
    paths = sorted((Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("testobject_*.mat"))
    if not paths:
        pytest.skip("this build of scipy comes without its test data")
    for path in paths:
        assert refusal(path.read_bytes(), ".mat").startswith("[not-numeric] 'testobject' is an object; expected")


NO_VARIABLE = (
    "expected one variable 'n_ary_mask', or only one 2-D array of numbers. Save the label image alone: "
    "save(file, 'n_ary_mask', '-v7')."
)


def test_mat_with_two_candidates_is_refused() -> None:
    stream = mat_file({"a": LABELS, "b": LABELS, "text": "x"})
    assert refusal(stream, ".mat") == (
        f"[no-mask-variable] 2 2-D arrays of numbers among the variables 'a', 'b' and 'text'; {NO_VARIABLE}"
    )


def test_mat_without_variables_is_refused() -> None:
    assert refusal(mat_file({}), ".mat") == f"[no-mask-variable] no variable; {NO_VARIABLE}"


def test_mat_with_the_variable_twice_is_refused() -> None:
    one = mat_file({"n_ary_mask": LABELS}).getvalue()
    assert refusal(one + one[128:], ".mat") == f"[no-mask-variable] the variable 'n_ary_mask' 2 times; {NO_VARIABLE}"


@pytest.mark.parametrize(
    "content",
    [
        b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(384) + b"\x89HDF\r\n\x1a\n",
        b"\x89HDF\r\n\x1a\n" + bytes(50),
    ],
)
def test_mat_7_3_is_refused_with_how_to_save_it(content: bytes) -> None:
    assert refusal(content, ".mat") == (
        "[unsupported-format] a MATLAB 7.3 file (HDF5); expected a MATLAB file of version 4, 6 or 7. Save it with "
        "'-v7' instead of '-v7.3'; from Python use scipy.io.savemat."
    )


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"hello", "not a MATLAB file"),
        (bytes(1000), "not a MATLAB file"),
        (b"# Created by Octave 6.4.0", "a text file of Octave"),
    ],
)
def test_other_files_are_no_mat(content: bytes, what: str) -> None:
    assert refusal(content, ".mat") == (
        f"[wrong-format] {what}; expected a MATLAB file of version 4, 6 or 7. Save it with save(…, '-v7')."
    )


@pytest.mark.parametrize("suffix", [".npy", ".tif", ".mha"])
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n", "a PNG file"),
        (b"PK\x03\x04", "a ZIP file"),
        (b"hello", "something else"),
    ],
)
def test_content_that_contradicts_the_suffix_is_told(suffix: str, content: bytes, what: str) -> None:
    name = {".npy": "NumPy", ".tif": "TIFF", ".mha": "MetaImage"}[suffix]
    assert refusal(content, suffix) == (
        f"[wrong-format] {what}; expected a {name} file, as its suffix says. Write the file again in this format."
    )


@pytest.mark.parametrize(
    ("suffix", "got", "fix"),
    [
        (".png", "a file with the suffix '.png'", "Write the labels as .npy, .tif or .mha."),
        (".mhd", "a file with the suffix '.mhd'", "Write one .mha file, which holds header and data."),
        ("", "a file without a suffix", "Write the labels as .npy, .tif or .mha."),
    ],
)
def test_other_suffixes_are_refused(suffix: str, got: str, fix: str) -> None:
    assert refusal(b"\x89PNG", suffix) == (
        f"[unsupported-format] {got}; expected one of '.npy', '.tif', '.tiff' or '.mha'. {fix}"
    )


def test_tiff_with_several_pages_is_refused() -> None:
    stack = np.zeros((3, *SHAPE), np.uint16)
    expected = "expected one image, alone in its file. Write only the label image."
    pages = tiff_file(stack, photometric="minisblack", metadata=None)
    assert refusal(pages, ".tif") == f"[several-images] 3 pages; {expected}"


@pytest.mark.parametrize("options", [{"truncate": True}, {"imagej": True, "truncate": True}])
def test_tiff_of_a_stack_with_a_single_header_is_refused(options: dict[str, Any]) -> None:
    stream = tiff_file(np.zeros((3, *SHAPE), np.uint16), photometric="minisblack", **options)
    assert refusal(stream, ".tif") == (
        "[several-images] a stack of 3 images; expected one image, alone in its file. Write only the label image."
    )


def test_tiff_with_lossy_compression_is_refused() -> None:
    stream = tiff_file(np.zeros((32, 32), np.uint8), compression="jpeg")
    assert refusal(stream, ".tif", (32, 32)) == (
        "[unsupported-format] a TIFF file with compression 7; expected whole numbers of 8, 16, 32 or 64 bits, without "
        "compression or with a lossless one (deflate, zstd). Write it again, for example with "
        "tifffile.imwrite(path, labels, compression='zlib')."
    )


# --- data that lie elsewhere ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["secret.raw", "../secret.raw", "LIST", "secret%d.raw 1 2 1", "/etc/passwd"])
def test_mha_with_data_elsewhere_is_refused(tmp_path: Path, target: str) -> None:
    header = mha_file(tmp_path, LABELS).getvalue()[: -LABELS.nbytes]
    (tmp_path / "secret.raw").write_bytes(LABELS.tobytes())
    evil = header.replace(b"ElementDataFile = LOCAL", f"ElementDataFile = {target}".encode())
    assert refusal(evil, ".mha") == (
        f"[external-data] a header whose data are in another file, '{target}'; expected 'ElementDataFile = LOCAL', "
        "with the data behind the header. Write one .mha file; with SimpleITK: WriteImage(image, 'name.mha')."
    )


def test_simpleitk_itself_would_have_read_the_other_file(tmp_path: Path) -> None:
    header = mha_file(tmp_path, LABELS).getvalue()[: -LABELS.nbytes]
    (tmp_path / "secret.raw").write_bytes(LABELS.tobytes())
    (tmp_path / "evil.mha").write_bytes(header.replace(b"= LOCAL", b"= secret.raw"))
    stolen = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "evil.mha")))
    np.testing.assert_array_equal(stolen, LABELS)


def test_mha_that_names_its_data_twice_is_never_followed(tmp_path: Path) -> None:
    content = mha_file(tmp_path, LABELS).getvalue()
    twice = content.replace(b"NDims = 2\n", b"NDims = 2\nNDims = 2\n")
    assert refusal(twice, ".mha").startswith("[wrong-format] a damaged header (the line 'NDims = 2')")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"DimSize = 31 20", b"DimSize = 31", "DimSize does not fit NDims"),
        (b"DimSize = 31 20", b"DimSize = 31 -20", "DimSize is '-20'"),
        (b"DimSize = 31 20", b"DimSize = 31 2e1", "DimSize is '2e1'"),
        (b"NDims = 2", b"NDims = ", "NDims is ''"),
        (b"MET_INT", b"MET_STRING", "ElementType 'MET_STRING'"),
        (b"ElementDataFile", b"HeaderSize = 8\nElementDataFile", "HeaderSize"),
        (b"NDims = 2", b"NDims 2", "the line 'NDims 2'"),
    ],
)
def test_mha_with_a_damaged_header_is_refused(tmp_path: Path, old: bytes, new: bytes, why: str) -> None:
    content = mha_file(tmp_path, LABELS).getvalue()
    assert old in content
    assert refusal(content.replace(old, new), ".mha").startswith(f"[wrong-format] a damaged header ({why}); expected")


def test_mha_with_pixels_as_text_is_refused(tmp_path: Path) -> None:
    content = mha_file(tmp_path, LABELS).getvalue().replace(b"BinaryData = True", b"BinaryData = False")
    assert refusal(content, ".mha").startswith("[unsupported-format] pixels written as text (BinaryData = False)")


def test_mha_with_an_endless_header_is_refused() -> None:
    content = b"NDims = 2\n" + b"x" * 100_000
    expected = "[wrong-format] a damaged header (no ElementDataFile in the first 65,536 bytes); expected"
    assert refusal(content, ".mha").startswith(expected)


def test_mha_with_two_slices_is_refused(tmp_path: Path) -> None:
    line = refusal(mha_file(tmp_path, np.stack([LABELS, LABELS])), ".mha")
    assert line.startswith("[wrong-shape] an array of 2 x 20 x 31; expected")


# --- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [".mat", "_compressed.mat", "_4.mat", ".npy", ".tif", "_deflate.tif", "_tiled.tif", "_big.tif", ".mha"]
)
def test_a_file_without_its_last_bytes_is_told(tmp_path: Path, kind: str) -> None:
    content = made_files(tmp_path)[kind]
    assert refusal(content[:-9], kind[kind.index(".") :]).startswith(CUT_OFF)


@pytest.mark.parametrize("kind", ["_compressed.mat", "_compressed.mha"])
def test_damaged_compressed_data_are_told_by_their_check_sum(tmp_path: Path, kind: str) -> None:
    content = bytearray(made_files(tmp_path)[kind])
    content[-1] ^= 1
    assert refusal(bytes(content), kind[kind.index(".") :]).startswith(CUT_OFF)


def test_any_damage_gives_labels_or_a_finding(tmp_path: Path) -> None:
    chance = random.Random(20_20)
    refused = 0
    for kind, content in made_files(tmp_path).items():
        suffix = kind[kind.index(".") :]
        for _ in range(150):
            damaged = bytearray(content)
            if chance.random() < 0.2:
                del damaged[chance.randrange(len(damaged)) :]
            for _ in range(chance.choice([0, 1, 1, 3])):
                if damaged:
                    damaged[chance.randrange(min(len(damaged), chance.choice([200, 10_000])))] = chance.randrange(256)
            reader: Any = "nary_mat" if suffix == ".mat" else "label_image"
            try:
                labels = read_labels(
                    reader, io.BytesIO(bytes(damaged)), where=f"'a{suffix}'", shape_yx=SHAPE, bytes_limit=LIMIT
                )
            except InputFault as error:
                refused += 1
                assert all(str(finding).isprintable() for finding in error.findings)
            else:
                assert labels.shape == SHAPE
                assert labels.min() >= 0
    assert refused > 100


def test_nothing_is_printed_about_a_damaged_tiff(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = made_files(tmp_path)["_deflate.tif"]
    refusal(content[:-9], ".tif")
    assert capfd.readouterr() == ("", "")


def test_messages_of_readers_quote_strangers_texts(tmp_path: Path) -> None:
    content = mha_file(tmp_path, LABELS).getvalue().replace(b"MET_INT", b"\x1b[31m\xff")
    assert refusal(content, ".mha").startswith("[wrong-format] a damaged header (ElementType '?[31m")


def test_what_scipy_keeps_as_test_files_equals_what_scipy_reads_or_is_refused() -> None:
    paths = sorted((Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("*.mat"))
    if not paths:
        pytest.skip("this build of scipy comes without its test data")
    read = 0
    for path in paths:
        shape = (1, 9) if "double" in path.name else (3, 5)
        try:
            with path.open("rb") as stream:
                labels = read_labels("nary_mat", stream, where="'a.mat'", shape_yx=shape, bytes_limit=LIMIT)
        except InputFault:
            continue
        read += 1
        variables = scipy.io.loadmat(path)
        assert any(np.array_equal(labels, value) for name, value in variables.items() if not name.startswith("__"))
    assert read >= 5


def test_names_inside_a_file_cannot_write_a_line_of_their_own() -> None:
    finding = Finding("not-numeric", "'a.mat'", "x\nYour score: 1.0\x1b[1m", "numbers", "Save full(\nx).")
    assert str(finding).isprintable()


def test_a_fault_without_a_finding_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="vanish"):
        InputFault()
