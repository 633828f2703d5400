"""What tables cannot say of formats of pixels: any array, bounds of memory, damage, and what values become."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
import SimpleITK
from endless import memory_below
from formats import arrays, lines_of, picture, read_part, request
from formats.label_image import PICKLE, mha_with, zipped
from formats.pixels import (
    CUT_OFF,
    INTEGERS,
    LABELS,
    SHAPE,
    itk_file,
    mat_7_3,
    mat_file,
    mha_file,
    npy_file,
    npz_file,
    png_file,
    tiff_file,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.measure import label
from skimage.morphology import dilation
from skimage.morphology import disk as footprint

from evaluation.decoding.label_array import check_labels, check_shape, find_binary_mask
from evaluation.decoding.mat_file import MatFile
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.formats import read_annotations, read_collection
from evaluation.formats.detect import find_image
from evaluation.formats.label_image import restore_nuclei
from evaluation.instances.labels import instances_from_label_image
from evaluation.model import Case, LabelImage
from evaluation.model.annotations import runs_of

SCIPY = sorted((Path(scipy.io.__file__).parent / "matlab" / "tests" / "data").glob("*.mat"))
SCIPY_HAS_ITS_FILES = pytest.mark.skipif(not SCIPY, reason="this build of scipy comes without its test data")


def options_of(suffix: str, shape_yx: tuple[int, int] = SHAPE, limit: int = 50_000_000) -> dict[str, Any]:
    kind = {"format": "nary_mat"} if suffix == ".mat" else {"format": "label_image", "suffix": suffix}
    return {**kind, "shape_yx": shape_yx, "limits": {"bytes_per_file": limit}}


def read(content: bytes, suffix: str, *arguments: Any) -> Any:
    """The labels of a file."""
    return picture(read_part(content, **options_of(suffix, *arguments)).labels)


def refusal(content: bytes, suffix: str, *arguments: Any) -> str:
    """The only line for which a file is refused."""
    (line,) = lines_of(content, **options_of(suffix, *arguments))
    assert line.isprintable()
    return line


def made_files(folder: Path) -> dict[str, bytes]:
    return {
        ".npz": npz_file(a=LABELS),
        ".png": png_file(LABELS.astype(np.uint16)),
        "_lzw.tif": tiff_file(LABELS, compression="lzw", rowsperstrip=7),
        "_packbits.tif": tiff_file(LABELS, compression="packbits", tile=(16, 16)),
        "_float.tif": tiff_file(LABELS.astype(np.float32), compression="lzma", predictor=True),
        ".mat": mat_file({"n_ary_mask": LABELS}),
        "_compressed.mat": mat_file({"n_ary_mask": LABELS}, do_compression=True),
        ".npy": npy_file(LABELS),
        ".tif": tiff_file(LABELS),
        "_deflate.tif": tiff_file(LABELS, compression="zlib"),
        "_tiled.tif": tiff_file(LABELS, tile=(16, 16), compression="zstd"),
        "_big.tif": tiff_file(LABELS, bigtiff=True, byteorder=">"),
        ".mha": mha_file(folder, LABELS),
        "_compressed.mha": mha_file(folder, LABELS, compressed=True),
    }


# --- any array --------------------------------------------------------------------------------------------------------


@given(hnp.arrays(st.sampled_from(INTEGERS), hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)), st.booleans())
def test_any_small_mat_equals_what_scipy_reads(array: Any, compressed: bool) -> None:
    array = np.where(array < 0, array * 0, array) & np.array(127, array.dtype)
    content = mat_file({"n_ary_mask": array}, do_compression=compressed)
    np.testing.assert_array_equal(
        read(content, ".mat", array.shape), scipy.io.loadmat(io.BytesIO(content))["n_ary_mask"]
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_small_7_3_equals_what_h5py_reads(data: Any) -> None:
    dtype = data.draw(st.sampled_from(["u1", "u2", "i4", "<u8", ">i2"]))
    elements = st.integers(0, 120)
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=elements))
    chunks = tuple(data.draw(st.integers(1, size)) for size in array.T.shape)
    content = mat_7_3(
        {"n_ary_mask": array}, chunks=chunks, shuffle=data.draw(st.booleans()), fletcher32=data.draw(st.booleans())
    )
    with h5py.File(io.BytesIO(content)) as file:
        expected = file["n_ary_mask"][()].T
    np.testing.assert_array_equal(read(content, ".mat", array.shape), expected)


@SCIPY_HAS_ITS_FILES
def test_7_3_of_matlab_itself_equals_what_h5py_reads() -> None:
    path = SCIPY[0].with_name("testhdf5_7.4_GLNX86.mat")
    with path.open("rb") as stream, h5py.File(path) as file:
        mat_file = MatFile(stream, where="'a.mat'", bytes_limit=10**7)
        (variable,) = mat_file.variables
        assert (variable.name, variable.shape, variable.kind) == ("testdouble", (1, 9), None)
        np.testing.assert_array_equal(mat_file.read(variable), file["testdouble"][()].T)
        np.testing.assert_allclose(mat_file.read(variable), np.linspace(0, 2 * np.pi, 9)[None])


@SCIPY_HAS_ITS_FILES
def test_what_scipy_keeps_as_test_files_equals_what_scipy_reads_or_is_refused() -> None:
    same = 0
    for path in SCIPY:
        shape = (1, 9) if "double" in path.name else (3, 5)
        try:
            labels = read(path.read_bytes(), ".mat", shape)
        except InputFault as fault:
            assert not path.name.startswith("testobject") or "'testobject' is an object; expected" in str(fault)
            is_named = "a MATLAB file of version 4" in str(fault.findings[0])
            assert is_named == (scipy.io.matlab.matfile_version(path)[0] == 0)
            continue
        same += 1
        variables = scipy.io.loadmat(path)
        assert any(np.array_equal(labels, value) for name, value in variables.items() if not name.startswith("__"))
    assert same >= 4


def literal_labels(pixels: Any, codes: list[int], *, dilate: bool) -> Any:
    """Slow: scikit-image finds the nuclei of each class, and they grow and are painted one after the other."""
    painted = np.zeros(pixels.shape, int)
    first = 1
    for code in codes:
        nuclei = label(pixels == code)
        count = nuclei.max()
        for nucleus in range(1, count + 1):
            if dilate:
                nuclei[dilation(nuclei == nucleus, footprint(1))] = nucleus
        for nucleus in range(1, count + 1):
            painted[nuclei == nucleus] = first
            first += 1
    return painted


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(np.uint32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 4)),
    st.booleans(),
)
def test_any_map_gives_what_scikit_image_gives(pixels: Any, dilate: bool) -> None:
    labels, class_of_instance = restore_nuclei(pixels, {-1: 3, 1: 1, 2: 2}, dilate=dilate)
    expected = literal_labels(pixels, [3, 1, 2], dilate=dilate)
    np.testing.assert_array_equal(labels, expected)
    numbers = np.unique(labels[labels > 0])
    assert len(class_of_instance) == len(numbers)
    if not dilate:
        codes = {-1: 3, 1: 1, 2: 2}
        for number, class_id in zip(numbers, class_of_instance, strict=True):
            assert set(pixels[labels == number]) == {codes[int(class_id)]}


@given(
    hnp.arrays(np.int32, (4, 6), elements=st.integers(0, 4)), hnp.arrays(np.int16, (4, 6), elements=st.integers(-2, 3))
)
def test_a_nucleus_has_the_class_of_most_of_its_pixels(labels, class_map) -> None:
    """Pixels without a class do not vote; of equal numbers the smaller class wins, ignore classes after all others."""
    found = instances_from_label_image(LabelImage(runs_of(labels), class_map=runs_of(class_map)))
    for nucleus, class_id in zip(found.source_id, found.class_id, strict=True):
        votes = Counter(class_map[(labels == nucleus) & (class_map != 0)].tolist())
        best = sorted(votes, key=lambda c: (-votes[c], c < 0, abs(c)))
        assert class_id == (best[0] if best else 0)


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


# --- bounds -----------------------------------------------------------------------------------------------------------

HUGE = 200_000


def npy_header(descr: str, shape: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def huge_mat() -> bytes:
    content = bytearray(mat_file({"n_ary_mask": LABELS}))
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
    content = png_file(LABELS.astype(np.uint16))
    header = b"IHDR" + struct.pack(">II", HUGE, HUGE) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


HUGE_FILES = {
    ".npy": lambda: npy_header("<i4", (HUGE, HUGE)),
    ".npz": lambda: zipped(npy_header("<i4", (HUGE, HUGE)) + bytes(1_000_000)),
    ".mha": lambda: f"NDims = 2\nDimSize = {HUGE} {HUGE}\nElementType = MET_INT\nElementDataFile = LOCAL\n".encode(),
    ".mat": huge_mat,
    ".tif": lambda: tiff_that_claims(tiff_file(LABELS, compression="zlib"), t256=HUGE, t257=HUGE),
    ".png": huge_png,
}


@pytest.mark.parametrize("suffix", HUGE_FILES)
def test_a_header_of_a_huge_image_takes_no_memory_also_where_the_case_is_huge(suffix: str) -> None:
    content = HUGE_FILES[suffix]()
    with memory_below(8_000_000):
        assert "200,000 rows x 200,000 columns; expected 20 rows" in refusal(content, suffix)
    read_in_bands = ("[unreadable-file] the data stop before their end",) if suffix == ".tif" else ()
    with memory_below(8_000_000):
        line = refusal(content, suffix, (HUGE, HUGE))
    assert line.startswith(("[too-large]", "[wrong-format]", *read_in_bands))


@pytest.mark.parametrize("suffix", [".mat", ".npy", ".tif", ".mha", ".png"])
def test_a_file_above_the_limit_is_refused(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    if suffix != ".png":  # its array is larger than the file
        read(content, suffix, SHAPE, len(content))
    expected = f"[too-large] a file of {len(content):,} bytes; expected at most {len(content) - 1:,} bytes."
    assert refusal(content, suffix, SHAPE, len(content) - 1).startswith(expected)


@pytest.mark.parametrize("suffix", ["_compressed.mat", "_deflate.tif", "_lzw.tif", "_compressed.mha", ".npz"])
def test_an_array_above_the_limit_is_refused_however_small_its_file(tmp_path: Path, suffix: str) -> None:
    content = made_files(tmp_path)[suffix]
    assert len(content) < 2000 < LABELS.nbytes
    line = refusal(content, suffix[suffix.index(".") :], SHAPE, 2000)
    assert line.startswith("[too-large]")
    assert line.endswith("or raise limits.bytes_per_file in challenge.toml.")


FEW_BYTES = """
import resource, sys
import imagecodecs, scipy.io
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from test_pixel_formats import refusal
for path in sys.argv[1:]:
    print(refusal(open(path, "rb").read(), path[path.rindex("."):], (12_000, 20_000), 2_000_000_000))
"""


def test_an_image_that_the_memory_does_not_hold_is_told(tmp_path: Path) -> None:
    tiff = tiff_file(LABELS.astype(np.int64), compression="zlib", metadata=None)
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


def test_memory_is_that_of_one_case_and_so_are_faults() -> None:
    cases = {str(index): Case(str(index), "P", 256, 256, index=index) for index in range(100)}
    content = np.ones((100, 256, 256, 2), np.int32)
    content[1, 0, 0] = -1
    stream, options = io.BytesIO(npy_file(content)), {**arrays.CONIC, "limits": {"bytes_per_file": 10**8}}
    asked = request(**{key: value for key, value in options.items() if key != "cases"})
    picture(read_collection(stream, asked, cases).cases["0"].parts[0].labels)  # what is imported does not count
    stream.seek(0)
    with memory_below(4_000_000):
        collection = read_collection(stream, asked, cases)
        for name in collection.cases:
            if name == "1":
                with pytest.raises(InputFault, match="case '1'"):
                    collection.cases[name]
            else:
                assert int(picture(collection.cases[name].parts[0].labels).sum()) == 256 * 256
    with pytest.raises(KeyError):
        collection.cases["x"]
    assert stream.getbuffer().nbytes / 10 > 4_000_000


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz", ".nrrd", ".mha"])
def test_the_size_of_an_image_is_told_without_a_case(suffix: str, tmp_path: Path) -> None:
    content, asked = itk_file(tmp_path, suffix), request("label_image", suffix)
    assert find_image(tmp_path / f"a{suffix}", io.BytesIO(content), asked, "a").size_yx == SHAPE


# --- what is never run, read from elsewhere, or printed ---------------------------------------------------------------


def test_pickles_are_refused_and_never_run(tmp_path: Path, shared_data: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (open, (str(tmp_path / "run"), "w"))  # type: ignore[return-value]

    for content, suffix in ((npy_file([[Trap()]]), ".npy"), (npz_file(labels=np.array([[Trap()]], object)), ".npz")):
        assert refusal(content, suffix).startswith("[pickle]")
    assert not (tmp_path / "run").exists()
    paths = sorted((shared_data / "nucls_tiles").rglob("*.npy"))
    assert [refusal(path.read_bytes(), ".npy") for path in paths] == [PICKLE] * 2


def test_simpleitk_itself_would_have_read_the_other_file(tmp_path: Path) -> None:
    (tmp_path / "evil.mha").write_bytes(mha_with(b"= LOCAL", b"= secret.raw")(tmp_path)[: -LABELS.nbytes])
    stolen = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "evil.mha")))
    np.testing.assert_array_equal(stolen, LABELS)


def test_files_without_their_last_bytes_are_told_and_nothing_is_printed(tmp_path: Path, capfd) -> None:
    for kind, content in made_files(tmp_path).items():
        suffix = kind[kind.index(".") :]
        if kind != "_compressed.mha":
            assert refusal(content[:-9], suffix).startswith(CUT_OFF), kind
        for end in (-9, -40, len(content) // 2):
            assert lines_of(content[:end], **options_of(suffix))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["_compressed.mat", "_compressed.mha"])
def test_damaged_compressed_data_are_told_by_their_check_sum(tmp_path: Path, kind: str) -> None:
    content = bytearray(made_files(tmp_path)[kind])
    content[-1] ^= 1
    assert refusal(bytes(content), kind[kind.index(".") :]).startswith(CUT_OFF)


def test_names_inside_a_file_cannot_write_a_line_of_their_own() -> None:
    finding = Finding("not-numeric", "'a.mat'", "x\nYour score: 1.0\x1b[1m", "numbers", "Save full(\nx).")
    assert str(finding).isprintable()


def test_a_suffix_is_that_of_the_name_not_of_the_place() -> None:
    asked = replace(request("label_image", ".npy"), where="case 'a', 'a_very_long_name….tif'")
    (part,) = read_annotations(io.BytesIO(npy_file(LABELS)), asked, Case("a", "a", *SHAPE)).parts
    assert isinstance(part, LabelImage)
    np.testing.assert_array_equal(picture(part.labels), LABELS)


def test_a_fault_without_a_finding_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="vanish"):
        InputFault()
