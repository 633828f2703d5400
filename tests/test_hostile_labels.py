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
    stream = io.BytesIO(stream) if isinstance(stream, bytes | bytearray) else stream
    asked = request(suffix, format="nary_mat" if suffix == ".mat" else "label_image", limit=limit)
    if suffix == ".mat":  # scipy.io and HDF5 may crash
        return picture(image_of(begin_annotations(stream, asked, case_of(shape_yx), owner="tests")()).labels)
    return picture(image_of(read_annotations(stream, asked, case_of(shape_yx))).labels)


def refusals(stream: Any, suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = LIMIT) -> list[str]:
    """The lines for which a file is refused, without the place that they all start with."""
    with pytest.raises(InputFault) as error:
        read(stream, suffix, shape_yx, limit)
    lines = [str(finding) for finding in error.value.findings]
    assert all(line.isprintable() for line in lines)
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


# --- values and shapes ------------------------------------------------------------------------------------------------

WRITERS = {
    ".npy": lambda array, _: npy_file(array),
    ".mat": lambda array, _: mat_file({"n_ary_mask": array}),
    ".tif": lambda array, _: tiff_file(array),
    ".mha": lambda array, folder: mha_file(folder, array),
}
PLANES = (
    "expected 20 rows x 31 columns, the height and width of the image. These are several planes, such as colours or "
    "one per class: write one plane of labels."
)
EMPTY = (
    "[wrong-shape] an empty array; expected 20 rows x 31 columns, the height and width of the image. For an image "
    "without nuclei write an image of zeros."
)


def changed(place: Any, values: Any, dtype: Any = np.int32) -> np.ndarray:
    array = LABELS.astype(dtype)
    array[place] = values
    return array


WRONG = [
    (changed((slice(3, 5), 8), [-1, -7]), WRITERS,
     f"[negative-label] 2 of 620 pixels are below 0 (lowest -7, first at row 3, column 8); {WHOLE} Does -7 stand for "
     "background, or for what is not annotated? If it is the background, write 0."),
    (changed((19, 30), 0.25, np.float64), WRITERS,
     f"[fractional-label] 1 of 620 pixels is not a whole number (0.25, first at row 19, column 30); {WHOLE} "
     "Write labels of instances, not probabilities; do not interpolate when you resize."),
    *((changed(([1, 5], [2, 5]), value, np.float32), WRITERS,
       f"[not-finite] 2 of 620 pixels are not a number or infinite ({value}, first at row 1, column 2); {WHOLE} "
       "Write 0 where there is no nucleus.") for value in (np.nan, np.inf, -np.inf)),
    (changed((0, 1), 2**64 - 1, np.uint64), [".npy"],
     "[label-too-large] 1 of 620 pixels is above 2^63 - 1 (highest 18446744073709551615, first at row 0, column 1); "
     f"{WHOLE} Number the nuclei 1, 2, 3, …; a negative number in an unsigned type also looks like this."),
    (LABELS.T.copy(), WRITERS,
     "[wrong-shape] 31 rows x 20 columns; expected 20 rows x 31 columns, the height and width of the image. Height "
     "and width are swapped: write the transposed array (labels.T in numpy, labels.' in MATLAB)."),
    (LABELS[:, :-1].copy(), WRITERS,
     "[wrong-shape] 20 rows x 30 columns; expected 20 rows x 31 columns, the height and width of the image. "
     "Write the labels at the size of the image, without resizing or cropping."),
    (np.zeros((20, 31, 3), np.uint8), [".npy", ".mat"], f"[wrong-shape] an array of 20 x 31 x 3; {PLANES}"),
    (np.zeros((4, 20, 31), np.uint8), [".npy", ".mat", ".mha"], f"[wrong-shape] an array of 4 x 20 x 31; {PLANES}"),
    (np.zeros((0, 0)), [".npy", ".mat"], EMPTY),
    (np.int64(5), [".npy"], "[wrong-shape] a single number; expected 20 rows"),
    (np.arange(620), [".npy"], "[wrong-shape] an array of 620; expected 20 rows"),
    (np.zeros(SHAPE, np.complex64), [".npy", ".tif"], "[not-numeric] an array of complex numbers; expected"),
    (LABELS * 1j, [".mat"], "[not-numeric] an array of complex numbers; expected an array of whole numbers."),
    (np.full(SHAPE, "a"), [".npy"], "[not-numeric] an array of texts; expected an array of whole"),
    (np.zeros(SHAPE, [("a", "i4")]), [".npy"], "[not-numeric] an array of records; expected an array of whole"),
    (np.zeros(SHAPE, "M8[s]"), [".npy"], "[not-numeric] an array of another kind of values; expected an array of"),
]  # fmt: skip


@pytest.mark.parametrize(
    "array, suffix, line", [(array, suffix, line) for array, kinds, line in WRONG for suffix in kinds]
)
def test_what_is_no_array_of_labels_is_told_in_any_format(array, suffix, line, tmp_path):
    assert refusal(WRITERS[suffix](array, tmp_path), suffix).startswith(line)


def test_all_faults_of_the_values_are_told_in_one_pass() -> None:
    lines = refusals(npy_file(np.array([[np.nan, 0.5, -1.0, 2.0**63]])), ".npy", (1, 4))
    codes = ["[not-finite", "[fractional-label", "[negative-label", "[label-too-large"]
    assert [line.partition("]")[0] for line in lines] == codes


def test_colours_in_a_tiff_and_an_mha_are_told(tmp_path: Path) -> None:
    colours = np.zeros((*SHAPE, 3), np.uint8)
    expected = "[wrong-shape] an array of 20 x 31 x 3; expected 20 rows x 31 columns"
    assert refusal(tiff_file(colours, photometric="rgb"), ".tif").startswith(expected)
    assert refusal(mha_file(tmp_path, colours, is_vector=True), ".mha").startswith(expected)
    planar = tiff_file(np.zeros((3, *SHAPE), np.uint8), photometric="rgb", planarconfig="separate")
    assert refusal(planar, ".tif").startswith("[wrong-shape] an array of 3 x 20 x 31; expected")


# --- sizes that are claimed -------------------------------------------------------------------------------------------

HUGE = 200_000


def npy_header(descr: str, shape: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def huge_mat() -> bytes:
    content = bytearray(mat_file({"n_ary_mask": LABELS}).getvalue())
    place = content.index(struct.pack("<ii", *SHAPE))
    content[place : place + 8] = struct.pack("<ii", HUGE, HUGE)
    return bytes(content)


def tiff_that_claims(content: bytes, **tags: int) -> bytes:
    changed = bytearray(content)
    for tag, value in tags.items():
        place = changed.index(struct.pack("<H", int(tag[1:])))
        changed[place : place + 12] = struct.pack("<HHII", int(tag[1:]), 4, 1, value)
    return bytes(changed)


def huge_png() -> bytes:
    content = png_file(LABELS.astype(np.uint16)).getvalue()
    header = b"IHDR" + struct.pack(">II", HUGE, HUGE) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("labels.npy", content)
    return stream.getvalue()


HUGE_FILES = {
    ".npy": lambda: npy_header("<i4", (HUGE, HUGE)),
    ".npz": lambda: zipped(npy_header("<i4", (HUGE, HUGE)) + bytes(1_000_000)),
    ".mha": lambda: f"NDims = 2\nDimSize = {HUGE} {HUGE}\nElementType = MET_INT\nElementDataFile = LOCAL\n".encode(),
    ".mat": huge_mat,
    ".tif": lambda: tiff_that_claims(tiff_file(LABELS, compression="zlib").getvalue(), t256=HUGE, t257=HUGE),
    ".png": huge_png,
}


@pytest.mark.parametrize("suffix", HUGE_FILES)
@pytest.mark.usefixtures("little_memory")
def test_a_header_of_a_huge_image_takes_no_memory_also_where_the_case_is_huge(suffix: str) -> None:
    content = HUGE_FILES[suffix]()
    assert "200,000 rows x 200,000 columns; expected 20 rows" in refusal(content, suffix)
    read_in_bands = ("[unreadable-file] the data stop before their end",) if suffix == ".tif" else ()
    assert refusal(content, suffix, (HUGE, HUGE)).startswith(("[too-large]", "[wrong-format]", *read_in_bands))


@pytest.mark.parametrize("suffix", [".mat", ".npy", ".tif", ".mha", ".png"])
def test_a_file_above_the_limit_is_refused(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    if suffix != ".png":  # its array is larger than the file
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
import resource, sys
import imagecodecs, scipy.io
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from test_hostile_labels import refusal
for path in sys.argv[1:]:
    print(refusal(open(path, "rb"), path[path.rindex("."):], (12_000, 20_000), 2_000_000_000))
"""


def test_an_image_that_the_memory_does_not_hold_is_told(tmp_path: Path) -> None:
    tiff = tiff_file(LABELS.astype(np.int64), compression="zlib", metadata=None).getvalue()
    contents = {
        ".npy": npy_header("<i8", (12_000, 20_000)),
        ".mha": b"NDims = 2\nDimSize = 20000 12000\nElementType = MET_DOUBLE\nElementDataFile = LOCAL\n",
        ".tif": tiff_that_claims(tiff, t256=20_000, t257=12_000, t278=12_000),
    }
    paths = [tmp_path / f"a{suffix}" for suffix in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    folder = Path(__file__).parent
    places = os.pathsep.join([str(folder.parent), str(folder)])
    threads = {"OPENBLAS_NUM_THREADS": "1"}  # each takes address space, and there are as many as processors
    done = subprocess.run(
        [sys.executable, "-c", FEW_BYTES, *paths],
        env={**os.environ, "PYTHONPATH": places, **threads}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    fix = "Write a smaller type of integers, such as int32."
    line = f"[too-large] more than the memory holds; expected a smaller file. {fix}"
    assert done.stdout.splitlines() == [line, line, line]


# --- what is broken ---------------------------------------------------------------------------------------------------


def mat_element(kind: int, data: bytes, claimed: int | None = None) -> bytes:
    return struct.pack("<II", kind, len(data) if claimed is None else claimed) + data + bytes(-len(data) % 8)


def compressed_mat(matrix: bytes) -> bytes:
    packed = zlib.compress(mat_element(14, matrix))
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(packed)) + packed


def mat_head(name: bytes = b"n_ary_mask", shape: tuple[int, int] = SHAPE) -> bytes:
    return mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *shape)) + mat_element(1, name)


def npy_with(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def mha_with(old: bytes, new: bytes) -> Any:
    def make(folder: Path) -> bytes:
        content = mha_file(folder, LABELS).getvalue()
        assert old in content
        return content.replace(old, new)

    return make


def patched(content: bytes, place: int, value: bytes) -> bytes:
    return content[:place] + value + content[place + len(value) :]


def many_variables() -> bytes:
    one = mat_file({"x": np.zeros((1, 1))}).getvalue()
    return one + one[128:] * 1000


TWICE = mat_file({"n_ary_mask": LABELS}).getvalue()
SAVED = npz_file(labels=LABELS).getvalue()
ONE_ARRAY = (
    "expected one array, or one with a name such as 'labels'. Save the label image alone: "
    "numpy.savez_compressed(path, labels=labels)."
)
NO_VARIABLE = (
    "expected one variable 'n_ary_mask', or only one 2-D array of numbers. Save the label image alone: "
    "save(file, 'n_ary_mask', '-v7')."
)
SAVE_ALONE = "Save the label image alone: save(file, 'n_ary_mask', '-v7')."
VERSION = "expected a MATLAB file of version 6 or 7. Save it with save(…, '-v7')."
DAMAGED = "[wrong-format] a damaged header"
NAMES = {".npy": "NumPy", ".tif": "TIFF", ".mha": "MetaImage"}
SUFFIXES = "expected one of '.npy', '.npz', '.png', '.tif', '.tiff', '.mha', '.nii', '.nii.gz' or '.nrrd'."

BROKEN = [  # a suffix, the bytes of a file or how they are made in a folder, and how the line begins
    # --- MATLAB
    (".mat", compressed_mat(mat_head() + mat_element(5, bytes(1_000_000), claimed=4_000_000_000)),
     f"{DAMAGED} of a variable; expected"),
    (".mat", compressed_mat(mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *SHAPE))
                            + struct.pack("<II", 1, 4_000_000_000) + bytes(1_000_000)),
     f"{DAMAGED} of a variable; expected"),
    (".mat", compressed_mat(mat_head(b"other", (100_000, 10_000)) + mat_element(5, bytes(10**6), 4_000_000_000))
     + TWICE[128:], f"{DAMAGED} of a variable; expected"),
    (".mat", lambda _: many_variables(), "[wrong-format] more than 1,000 variables; expected"),
    *((".mat", mat_file({"n_ary_mask": value, "other": LABELS}).getvalue(),
       f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole numbers. {fix}")
      for value, what, fix in (
          ({"a": 1}, "a struct", SAVE_ALONE), (np.array([[LABELS]], object), "a cell array", SAVE_ALONE),
          ("text", "a text", SAVE_ALONE),
          (scipy.sparse.csc_array(LABELS.astype(float)), "a sparse matrix", "Save full(n_ary_mask)."))),
    (".mat", mat_file({"a": LABELS, "b": LABELS, "text": "x"}).getvalue(),
     f"[no-mask-variable] 2 2-D arrays of numbers among the variables 'a', 'b' and 'text'; {NO_VARIABLE}"),
    (".mat", mat_file({}).getvalue(), f"[no-mask-variable] no variable; {NO_VARIABLE}"),
    (".mat", TWICE + TWICE[128:], f"[no-mask-variable] the variable 'n_ary_mask' 2 times; {NO_VARIABLE}"),
    *((".mat", content, f"[wrong-format] {what}; {VERSION}") for content, what in (
        (b"", "an empty file"), (b"hello", "not a MATLAB file"), (bytes(1000), "not a MATLAB file"),
        (mat_file({"n_ary_mask": LABELS}, format="4").getvalue(), "a MATLAB file of version 4"),
        (b"# Created by Octave 6.4.0", "a text file of Octave"))),
    # --- NumPy
    (".npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 4_000_000_000) + b"{" * 1000,
     f"{DAMAGED} (a description of 4,000,000,000 bytes)"),
    *((".npy", npy_with(f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}}}"), f"{DAMAGED} ({why})")
      for shape, why in (
          ("(0x" + "f" * 9000 + ",)", "no usable shape"), ("[[0x" + "f" * 9000 + "]]", "no description of the array"),
          ("(" + "1," * 4000 + ")", "no usable shape"), ("(-1, 31)", "no usable shape"),
          ("(True, 31)", "no usable shape"), ("(20, " + "9" * 4400 + ")", "no description of the array"))),
    *((".npy", npy_with(text), f"{DAMAGED} (no description of the array)") for text in (
        "(" * 9000, "{'descr': " * 900, "9" * 9000, "__import__('os')", "{}", "\0" * 50)),
    (".npz", npz_file(labels=LABELS, inst_map=LABELS).getvalue(),
     f"[no-mask-variable] the arrays 'labels' and 'inst_map'; {ONE_ARRAY}"),
    (".npz", npz_file(a=LABELS, b=LABELS).getvalue(), f"[no-mask-variable] the arrays 'a' and 'b'; {ONE_ARRAY}"),
    (".npz", npz_file().getvalue(), f"[no-mask-variable] no array; {ONE_ARRAY}"),
    (".npz", npz_file(inst_map=LABELS[1:], other=LABELS).getvalue(),
     "[wrong-shape] case 'a', 'a.npz', 'inst_map.npy': 19 rows x 31 columns; expected 20 rows"),
    *((".npz", zipped(npy_file(LABELS).getvalue(), method), f"{DAMAGED} (an array that is encrypted, or")
      for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
    (".npz", patched(SAVED, SAVED.rindex(b"PK\5\6") + 12, struct.pack("<I", 3_000_000_000)),
     f"{DAMAGED} (a list of members that"),
    (".npz", patched(npz_file(compressed=False, labels=LABELS).getvalue(), 1000, b"\x99"), CUT_OFF),
    (".npz", zipped(npy_file(LABELS).getvalue() + b"more", zipfile.ZIP_STORED), CUT_OFF),
    # --- other files
    (".dat", b"1 2 3", "[unsupported-format] a file with the suffix '.dat'; expected one of"),
    *((suffix, content, f"[wrong-format] {what}; expected a {name} file, as its suffix says. Write the file again in "
       "this format.") for suffix, name in NAMES.items() for content, what in (
           (b"", "an empty file"), (b"\x89PNG\r\n", "a PNG file"), (b"PK\x03\x04", "a ZIP file"),
           (b"hello", "something else"))),
    *((suffix, b"\x89PNG", f"[unsupported-format] {got}; {SUFFIXES} {fix}") for suffix, got, fix in (
        (".bmp", "a file with the suffix '.bmp'", "Write the labels as .npy, .png, .tif or .mha."),
        (".mhd", "a file with the suffix '.mhd'", "Write one .mha file, which holds header and data."),
        (".nhdr", "a file with the suffix '.nhdr'", "Write one .nrrd file, which holds header and data."),
        ("", "a file without a suffix", "Write the labels as .npy, .png, .tif or .mha."))),
    # --- MetaImage
    *((".mha", mha_with(b"ElementDataFile = LOCAL", f"ElementDataFile = {target}".encode()),
       f"[external-data] a header whose data are in another file, '{target}'; expected 'ElementDataFile = LOCAL', with "
       "the data behind the header. Write one .mha file; with SimpleITK: WriteImage(image, 'name.mha').")
      for target in ("secret.raw", "../secret.raw", "LIST", "secret%d.raw 1 2 1", "/etc/passwd")),
    *((".mha", mha_with(old, new), f"{DAMAGED} ({why}); expected") for old, new, why in (
        (b"NDims = 2\n", b"NDims = 2\nNDims = 2\n", "the line 'NDims = 2'"),
        (b"DimSize = 31 20", b"DimSize = 31", "DimSize does not fit NDims"),
        (b"DimSize = 31 20", b"DimSize = 31 -20", "DimSize is '-20'"),
        (b"DimSize = 31 20", b"DimSize = 31 2e1", "DimSize is '2e1'"), (b"NDims = 2", b"NDims = ", "NDims is ''"),
        (b"MET_INT", b"MET_STRING", "ElementType 'MET_STRING'"),
        (b"ElementDataFile", b"HeaderSize = 8\nElementDataFile", "HeaderSize"),
        (b"NDims = 2", b"NDims 2", "the line 'NDims 2'"))),
    (".mha", mha_with(b"MET_INT", b"\x1b[31m\xff"), f"{DAMAGED} (ElementType '?[31m"),
    (".mha", mha_with(b"BinaryData = True", b"BinaryData = False"),
     "[unsupported-format] pixels written as text (BinaryData = False)"),
    (".mha", b"NDims = 2\n" + b"x" * 100_000,
     f"{DAMAGED} (no ElementDataFile in the first 65,536 bytes); expected"),
]  # fmt: skip


@pytest.mark.parametrize("suffix, content, line", BROKEN, ids=[f"{row[0]} {index}" for index, row in enumerate(BROKEN)])
def test_what_is_broken_is_told_and_takes_no_memory(suffix, content, line, tmp_path):
    made = content if isinstance(content, bytes) else content(tmp_path)
    (tmp_path / "secret.raw").write_bytes(LABELS.tobytes())
    tracemalloc.start()
    said = refusal(made, suffix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said.startswith(line)
    assert peak < 8_000_000


def test_mat_with_an_object_is_refused() -> None:
    paths = sorted((Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("testobject_*.mat"))
    if not paths:
        pytest.skip("this build of scipy comes without its test data")
    for path in paths:
        assert refusal(path.read_bytes(), ".mat").startswith("[not-numeric] 'testobject' is an object; expected")


PICKLE = (
    "[pickle] a pickled Python object; never unpickled from a submission; expected an array of whole numbers. Save the "
    "label image alone, such as numpy.save('name.npy', labels)."
)


def test_pickles_are_refused_and_never_run(tmp_path: Path, shared_data: Path) -> None:
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
    paths = sorted((shared_data / "nucls_tiles").rglob("*.npy"))
    assert [refusal(path.read_bytes(), ".npy") for path in paths] == [PICKLE] * 2


@pytest.mark.parametrize("suffix", [".pkl", ".PICKLE", ".dat", ".npy", ".tif", ".png", ".npz", ".mha", ""])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_are_told_whatever_their_suffix(suffix: str, protocol: int) -> None:
    assert refusal(pickle.dumps({"inst_map": [1, 2]}, protocol), suffix) == PICKLE


def test_simpleitk_itself_would_have_read_the_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.raw").write_bytes(LABELS.tobytes())
    (tmp_path / "evil.mha").write_bytes(mha_with(b"= LOCAL", b"= secret.raw")(tmp_path)[: -LABELS.nbytes])
    stolen = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "evil.mha")))
    np.testing.assert_array_equal(stolen, LABELS)


# --- damaged files ----------------------------------------------------------------------------------------------------


def test_files_without_their_last_bytes_are_told_and_nothing_is_printed(tmp_path: Path, capfd) -> None:
    for kind, content in made_files(tmp_path).items():
        suffix = kind[kind.index(".") :]
        if kind != "_compressed.mha":
            assert refusal(content[:-9], suffix).startswith(CUT_OFF), kind
        for end in (-9, -40, len(content) // 2):
            refusals(content[:end], suffix)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["_compressed.mat", "_compressed.mha"])
def test_damaged_compressed_data_are_told_by_their_check_sum(tmp_path: Path, kind: str) -> None:
    content = bytearray(made_files(tmp_path)[kind])
    content[-1] ^= 1
    assert refusal(bytes(content), kind[kind.index(".") :]).startswith(CUT_OFF)


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
    found = image_of(read_label_image(npy_file(LABELS), asked, case_of(SHAPE)))
    np.testing.assert_array_equal(picture(found.labels), LABELS)


def test_a_fault_without_a_finding_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="vanish"):
        InputFault()
