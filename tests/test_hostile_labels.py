"""Files that are broken or meant to break: one clear line each, no memory taken, nothing read from elsewhere."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import SimpleITK
from label_pictures import picture
from test_label_formats import (
    LABELS,
    SHAPE,
    case_of,
    image_of,
    mat_file,
    mha_file,
    npy_file,
    npz_file,
    png_file,
    request,
    tiff_file,
)

from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.formats import read_annotations
from evaluation.formats.guarded import begin_annotations
from evaluation.formats.label_image import read_label_image

LIMIT = 50_000_000
CUT_OFF = "[unreadable-file] the data stop before their end, or are damaged; expected a complete file. Write or copy"
WHOLE = "expected 0 for background and 1, 2, 3, … for nuclei."


def read(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> Any:
    stream = io.BytesIO(stream) if isinstance(stream, bytes) else stream
    asked = request(suffix, format="nary_mat" if suffix == ".mat" else "label_image", limit=limit)
    if suffix == ".mat":  # scipy.io and HDF5 may crash
        return picture(image_of(begin_annotations(stream, asked, case_of(shape_yx), owner="tests")()).labels)
    return picture(image_of(read_annotations(stream, asked, case_of(shape_yx))).labels)


def refusals(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> list[str]:
    """The lines for which a file is refused, without the place that they all start with."""
    with pytest.raises(InputFault) as error:
        read(stream, suffix, shape_yx, limit)
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
        ".npz": npz_file(a=LABELS).getvalue(),
        ".png": png_file(LABELS.astype(np.uint16)).getvalue(),
        "_lzw.tif": tiff_file(LABELS, compression="lzw", rowsperstrip=7).getvalue(),
        "_packbits.tif": tiff_file(LABELS, compression="packbits", tile=(16, 16)).getvalue(),
        "_float.tif": tiff_file(LABELS.astype(np.float32), compression="lzma", predictor=True).getvalue(),
        ".mat": mat_file({"n_ary_mask": LABELS}).getvalue(),
        "_compressed.mat": mat_file({"n_ary_mask": LABELS}, do_compression=True).getvalue(),
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
        "Does -1 stand for background, or for what is not annotated? If it is the background, write 0."
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


def huge_png() -> bytes:
    content = png_file(LABELS.astype(np.uint16)).getvalue()
    header = b"IHDR" + struct.pack(">II", HUGE, HUGE) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


def huge_npz() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", huge_npy() + bytes(1_000_000))
    return stream.getvalue()


HUGE_FILES = pytest.mark.parametrize(
    ("make", "suffix"),
    [
        (huge_npy, ".npy"),
        (huge_npz, ".npz"),
        (huge_mha, ".mha"),
        (huge_mat, ".mat"),
        (huge_tiff, ".tif"),
        (huge_png, ".png"),
    ],
)


@HUGE_FILES
@pytest.mark.usefixtures("little_memory")
def test_a_header_of_a_huge_image_takes_no_memory(make: Callable[[], bytes], suffix: str) -> None:
    assert "200,000 rows x 200,000 columns; expected 20 rows" in refusal(make(), suffix)


@HUGE_FILES
@pytest.mark.usefixtures("little_memory")
def test_a_header_of_a_huge_image_takes_no_memory_where_the_case_is_huge(
    make: Callable[[], bytes], suffix: str
) -> None:
    (line,) = refusals(make(), suffix, (HUGE, HUGE))
    read_in_bands = ("[unreadable-file] the data stop before their end",) if suffix == ".tif" else ()
    assert line.startswith(("[too-large]", "[wrong-format]", *read_in_bands))


@pytest.mark.parametrize("suffix", [".mat", ".npy", ".tif", ".mha"])
def test_a_file_above_the_limit_is_refused(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    read(content, suffix, limit=len(content))
    expected = f"[too-large] a file of {len(content):,} bytes; expected at most {len(content) - 1:,} bytes."
    assert refusal(content, suffix, limit=len(content) - 1).startswith(expected)


@pytest.mark.parametrize("suffix", ["_compressed.mat", "_deflate.tif", "_lzw.tif", "_compressed.mha", ".npz"])
def test_an_array_above_the_limit_is_refused_however_small_its_file(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    assert len(content) < 2000 < LABELS.nbytes
    line = refusal(content, suffix[suffix.index(".") :], limit=2000)
    assert line.startswith("[too-large]")
    assert line.endswith("or raise limits.bytes_per_file in challenge.toml.")


FEW_BYTES = """
import io, resource, sys
import numpy as np
import imagecodecs, scipy.io
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from test_hostile_labels import refusal
for path, shape in ((sys.argv[1], (12_000, 20_000)), (sys.argv[2], (12_000, 20_000)), (sys.argv[3], (12_000, 20_000))):
    suffix = path[path.rindex("."):]
    print(refusal(open(path, "rb"), suffix, shape, 2_000_000_000))
"""


def test_an_image_that_the_memory_does_not_hold_is_told(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<i8", "fortran_order": False, "shape": (12_000, 20_000)})
    mha = b"NDims = 2\nDimSize = 20000 12000\nElementType = MET_DOUBLE\nElementDataFile = LOCAL\n"
    tiff = bytearray(tiff_file(LABELS.astype(np.int64), compression="zlib", metadata=None).getvalue())
    for tag, value in ((256, 20_000), (257, 12_000), (278, 12_000)):
        place = tiff.index(struct.pack("<H", tag))
        tiff[place : place + 12] = struct.pack("<HHII", tag, 4, 1, value)
    paths = []
    for suffix, content in ((".npy", stream.getvalue()), (".mha", mha), (".tif", bytes(tiff))):
        paths.append(tmp_path / f"a{suffix}")
        paths[-1].write_bytes(content)
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", FEW_BYTES, *paths],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder.parent), str(folder)]),
            "OPENBLAS_NUM_THREADS": "1",  # each takes address space, and there are as many as processors
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    fix = "Write a smaller type of integers, such as int32."
    line = f"[too-large] more than the memory holds; expected a smaller file. {fix}"
    assert done.stdout.splitlines() == [line, line, line]


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
    assert refusal(bomb, ".mat").startswith("[wrong-format] a damaged header of a variable; expected")


@pytest.mark.usefixtures("little_memory")
def test_mat_with_a_name_of_gigabytes_is_refused() -> None:
    head = mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *SHAPE))
    bomb = compressed_mat(head + struct.pack("<II", 1, 4_000_000_000) + bytes(1_000_000))
    assert refusal(bomb, ".mat").startswith("[wrong-format] a damaged header of a variable; expected")


def test_mat_whose_other_variable_claims_more_than_it_has_is_refused() -> None:
    data = mat_element(5, bytes(1_000_000), claimed=4_000_000_000)
    bomb = compressed_mat(mat_head(b"other", (100_000, 10_000)) + data)
    content = bomb + mat_file({"n_ary_mask": LABELS}).getvalue()[128:]
    assert refusal(content, ".mat").startswith("[wrong-format] a damaged header of a variable; expected")


def test_mat_with_thousands_of_variables_is_refused() -> None:
    one = mat_file({"x": np.zeros((1, 1))}).getvalue()
    assert refusal(one + one[128:] * 1000, ".mat").startswith("[wrong-format] more than 1,000 variables; expected")


def test_npy_with_a_description_of_gigabytes_is_refused() -> None:
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 4_000_000_000) + b"{" * 1000
    assert refusal(content, ".npy").startswith("[wrong-format] a damaged header (a description of 4,000,000,000 bytes)")


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("(0x" + "f" * 9000 + ",)", "no usable shape"),
        ("[[0x" + "f" * 9000 + "]]", "no description of the array"),
        ("(" + "1," * 4000 + ")", "no usable shape"),
        ("(-1, 31)", "no usable shape"),
        ("(True, 31)", "no usable shape"),
        ("(20, " + "9" * 4400 + ")", "no description of the array"),
    ],
    ids=range(6),
)
def test_npy_with_a_shape_of_huge_numbers_is_refused(shape: str, why: str) -> None:
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}}}".encode()
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    assert refusal(content, ".npy").startswith(f"[wrong-format] a damaged header ({why})")


@pytest.mark.parametrize("text", ["(" * 9000, "{'descr': " * 900, "9" * 9000, "__import__('os')", "{}", "\0" * 50])
def test_npy_with_a_strange_description_is_refused(text: str) -> None:
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    assert refusal(content, ".npy").startswith("[wrong-format] a damaged header (no description of the array)")


# --- .npz -------------------------------------------------------------------------------------------------------------


def test_an_npz_of_which_the_array_cannot_be_told_is_refused() -> None:
    expected = (
        "expected one array, or one with a name such as 'labels'. Save the label image alone: "
        "numpy.savez_compressed(path, labels=labels)."
    )
    both = npz_file(labels=LABELS, inst_map=LABELS)
    assert refusal(both, ".npz") == f"[no-mask-variable] the arrays 'labels' and 'inst_map'; {expected}"
    neither = npz_file(a=LABELS, b=LABELS)
    assert refusal(neither, ".npz") == f"[no-mask-variable] the arrays 'a' and 'b'; {expected}"
    assert refusal(npz_file(), ".npz") == f"[no-mask-variable] no array; {expected}"


def test_an_npz_with_another_size_names_the_array() -> None:
    line = refusal(npz_file(inst_map=LABELS[1:], other=LABELS), ".npz")
    assert line.startswith("[wrong-shape] case 'a', 'a.npz', 'inst_map.npy': 19 rows x 31 columns; expected 20 rows")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_npz_compressed_in_another_way_is_refused(method: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("labels.npy", npy_file(LABELS).getvalue())
    assert refusal(stream, ".npz").startswith("[wrong-format] a damaged header (an array that is encrypted, or")


@pytest.mark.usefixtures("little_memory")
def test_an_npz_with_a_list_of_gigabytes_is_refused() -> None:
    content = bytearray(npz_file(labels=LABELS).getvalue())
    struct.pack_into("<I", content, content.rindex(b"PK\5\6") + 12, 3_000_000_000)
    assert refusal(bytes(content), ".npz").startswith("[wrong-format] a damaged header (a list of members that")


def test_an_npz_whose_check_sum_is_wrong_is_refused() -> None:
    content = bytearray(npz_file(compressed=False, labels=LABELS).getvalue())
    content[1000] ^= 1
    assert refusal(bytes(content), ".npz").startswith(CUT_OFF)


def test_an_npz_with_more_than_its_array_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("labels.npy", npy_file(LABELS).getvalue() + b"more")
    assert refusal(stream, ".npz").startswith(CUT_OFF)


# --- what is not a label image ----------------------------------------------------------------------------------------

PICKLE = (
    "[pickle] a pickled Python object; never unpickled from a submission; expected an array of whole numbers. Save the "
    "label image alone, such as numpy.save('name.npy', labels)."
)


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (open, (str(tmp_path / "run"), "w"))  # type: ignore[return-value]

    stream = io.BytesIO()
    np.save(stream, np.array([[Trap()]], object), allow_pickle=True)
    assert refusal(stream, ".npy") == PICKLE
    assert refusal(npz_file(labels=np.array([[Trap()]], object)), ".npz") == PICKLE.replace(
        "[pickle]", "[pickle] case 'a', 'a.npz', 'labels.npy':"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("suffix", [".pkl", ".PICKLE", ".dat", ".npy", ".tif", ".png", ".npz", ".mha", ""])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_are_told_whatever_their_suffix(suffix: str, protocol: int) -> None:
    assert refusal(pickle.dumps({"inst_map": [1, 2]}, protocol), suffix) == PICKLE


def test_a_file_of_data_without_a_pickle_is_an_unknown_suffix() -> None:
    assert refusal(b"1 2 3", ".dat").startswith("[unsupported-format] a file with the suffix '.dat'; expected one of")


def test_real_pickled_npy_is_refused(shared_data: Path) -> None:
    paths = sorted((shared_data / "nucls_tiles").rglob("*.npy"))
    assert len(paths) == 2
    for path in paths:
        assert refusal(path.read_bytes(), ".npy") == PICKLE


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
        (scipy.sparse.csc_array(LABELS.astype(float)), "a sparse matrix", "Save full(n_ary_mask)."),
    ],
    ids=["struct", "cell", "text", "sparse"],
)
def test_mat_without_plain_numbers_is_refused(value: Any, what: str, fix: str) -> None:
    stream = mat_file({"n_ary_mask": value, "other": LABELS})
    assert refusal(stream, ".mat") == f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole numbers. {fix}"


def test_mat_with_complex_numbers_is_refused() -> None:
    line = refusal(mat_file({"n_ary_mask": LABELS * 1j, "other": LABELS}), ".mat")
    assert line.startswith("[not-numeric] an array of complex numbers; expected an array of whole numbers.")


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
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"hello", "not a MATLAB file"),
        (bytes(1000), "not a MATLAB file"),
        (mat_file({"n_ary_mask": LABELS}, format="4").getvalue(), "a MATLAB file of version 4"),
        (b"# Created by Octave 6.4.0", "a text file of Octave"),
    ],
)
def test_other_files_are_no_mat(content: bytes, what: str) -> None:
    assert refusal(content, ".mat") == (
        f"[wrong-format] {what}; expected a MATLAB file of version 6 or 7. Save it with save(…, '-v7')."
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
        (".bmp", "a file with the suffix '.bmp'", "Write the labels as .npy, .png, .tif or .mha."),
        (".mhd", "a file with the suffix '.mhd'", "Write one .mha file, which holds header and data."),
        (".nhdr", "a file with the suffix '.nhdr'", "Write one .nrrd file, which holds header and data."),
        ("", "a file without a suffix", "Write the labels as .npy, .png, .tif or .mha."),
    ],
)
def test_other_suffixes_are_refused(suffix: str, got: str, fix: str) -> None:
    assert refusal(b"\x89PNG", suffix) == (
        f"[unsupported-format] {got}; expected one of '.npy', '.npz', '.png', '.tif', '.tiff', '.mha', '.nii', "
        f"'.nii.gz' or '.nrrd'. {fix}"
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
    "kind",
    [
        ".mat",
        "_compressed.mat",
        ".npy",
        ".npz",
        ".png",
        ".tif",
        "_deflate.tif",
        "_lzw.tif",
        "_packbits.tif",
        "_float.tif",
        "_tiled.tif",
        "_big.tif",
        ".mha",
    ],
)
def test_a_file_without_its_last_bytes_is_told(tmp_path: Path, kind: str) -> None:
    content = made_files(tmp_path)[kind]
    assert refusal(content[:-9], kind[kind.index(".") :]).startswith(CUT_OFF)


@pytest.mark.parametrize("kind", ["_compressed.mat", "_compressed.mha"])
def test_damaged_compressed_data_are_told_by_their_check_sum(tmp_path: Path, kind: str) -> None:
    content = bytearray(made_files(tmp_path)[kind])
    content[-1] ^= 1
    assert refusal(bytes(content), kind[kind.index(".") :]).startswith(CUT_OFF)


def test_nothing_is_printed_about_damaged_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for kind, content in made_files(tmp_path).items():
        for end in (-9, -40, len(content) // 2):
            refusals(content[:end], kind[kind.index(".") :])
    assert capfd.readouterr() == ("", "")


def test_messages_of_readers_quote_strangers_texts(tmp_path: Path) -> None:
    content = mha_file(tmp_path, LABELS).getvalue().replace(b"MET_INT", b"\x1b[31m\xff")
    assert refusal(content, ".mha").startswith("[wrong-format] a damaged header (ElementType '?[31m")


def test_what_scipy_keeps_as_test_files_equals_what_scipy_reads_or_is_refused() -> None:
    paths = sorted((Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("*.mat"))
    if not paths:
        pytest.skip("this build of scipy comes without its test data")
    same = 0
    for path in paths:
        shape = (1, 9) if "double" in path.name else (3, 5)
        try:
            labels = read(path.read_bytes(), ".mat", shape)
        except InputFault as fault:
            is_named = "a MATLAB file of version 4" in str(fault.findings[0])
            assert is_named == (scipy.io.matlab.matfile_version(path)[0] == 0)
            continue
        same += 1
        variables = scipy.io.loadmat(path)
        assert any(np.array_equal(labels, value) for name, value in variables.items() if not name.startswith("__"))
    assert same >= 4


def test_names_inside_a_file_cannot_write_a_line_of_their_own() -> None:
    finding = Finding("not-numeric", "'a.mat'", "x\nYour score: 1.0\x1b[1m", "numbers", "Save full(\nx).")
    assert str(finding).isprintable()


def test_a_suffix_is_that_of_the_name_not_of_the_place() -> None:
    asked = replace(request(".npy"), where="case 'a', 'a_very_long_name….tif'")
    np.testing.assert_array_equal(
        picture(image_of(read_label_image(npy_file(LABELS), asked, case_of(SHAPE))).labels), LABELS
    )


def test_a_fault_without_a_finding_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="vanish"):
        InputFault()
