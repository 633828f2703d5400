"""What tables cannot say of formats of pixels: any array, bounds of memory, damage, PNG, and what values become."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
import zlib
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import scipy.io
from endless import memory_below
from formats import arrays, lines_of, picture, read_part, request
from formats.label_image import PICKLE, zipped
from formats.pixels import (
    CUT_OFF,
    INTEGERS,
    LABELS,
    SHAPE,
    itk_file,
    mat_file,
    mha_file,
    npy_file,
    npz_file,
    png_file,
    tiff_file,
)
from hostile.make import mat_5, matrix, mha, npy_saying, png, png_chunk, tiff
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from skimage.measure import label
from skimage.morphology import dilation
from skimage.morphology import disk as footprint

from evaluation.files.decoding.label_array import check_labels, check_shape, find_binary_mask
from evaluation.files.decoding.pixels import read_image
from evaluation.files.formats import read_annotations, read_collection
from evaluation.files.formats.detect import find_image
from evaluation.files.formats.label_image import restore_nuclei
from evaluation.findings.errors import InputFault
from nuclei_metrics.instances.runs import instances_from_label_image
from nuclei_metrics.model import Case, LabelImage
from nuclei_metrics.model.annotations import runs_of

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


def test_integers_are_handed_on_without_a_copy_and_nothing_is_changed() -> None:
    for dtype in INTEGERS:
        array = (LABELS % 100).astype(dtype)
        assert check(array).dtype == dtype
        assert np.shares_memory(check(array), array)
    array = LABELS.astype(">f8")
    array.setflags(write=False)
    np.testing.assert_array_equal(check(array), LABELS)


@pytest.mark.parametrize(("values", "dtype"), [
    (np.array([[0.0, 2.0**31 - 1]]), np.int32), (np.array([[0.0, 2.0**40]]), np.int64),
    (np.array([[-0.0, 5]], np.float16), np.int32), (np.array([[True, False]]), np.uint8),
])  # fmt: skip
def test_whole_floats_and_booleans_become_integers_that_hold_them(values: Any, dtype: Any) -> None:
    assert check(values, (1, 2)).dtype == dtype
    assert check(values, (1, 2)).tolist() == values.astype(np.int64).tolist()


def test_axes_of_length_one_at_either_end_do_not_count_but_may_be_those_of_the_image() -> None:
    for shape in ((20, 31), (1, 20, 31), (20, 31, 1), (1, 1, 20, 31, 1)):
        np.testing.assert_array_equal(check(LABELS.reshape(shape)), LABELS)
    for shape, expected in (((1, 5), (1, 5)), ((1, 5, 1), (5, 1)), ((1, 5, 1), (1, 5))):
        assert check_shape(shape, where="'a'", shape_yx=expected) == expected


def cut_now_and_then(number: int) -> Any:
    """So many nuclei, of which every one is in two parts, and some in more."""
    nuclei = np.kron(np.arange(1, number + 1)[None], np.pad(np.ones((9, 9), int), 1))
    nuclei[4] = 0
    nuclei[:, 1:10:2] = 0
    return nuclei


NUCLEI = np.kron(np.arange(1, 26).reshape(5, 5), np.pad(np.ones((6, 6), int), 1))
NUMBER_THEM = "expected one label per nucleus."


@pytest.mark.parametrize(("labels", "line"), [
    ((LABELS > 0).astype(np.uint8), f"3 separate regions that all have the label 1; {NUMBER_THEM} They are scored as "
     "one nucleus. Relabel them, for example with scipy.ndimage.label or bwlabel."),
    (np.array([[255, 0, 255]], np.uint8), "2 separate regions that all have the label 255"),
    (np.where(NUCLEI, NUCLEI % 3 + 1, 0), f"3 labels with 25 separate regions; {NUMBER_THEM} Labels look like "
     "classes: each label is scored as one nucleus. Relabel the regions of each class, for "
     "example with scipy.ndimage.label or bwlabel."),
    *((labels, "") for labels in (
        NUCLEI, np.eye(3, dtype=int), np.zeros((2, 2), int), np.array([[2, 0, 1]]), LABELS,
        *map(cut_now_and_then, (2, 5, 10, 11)))),
])  # fmt: skip
def test_labels_that_are_no_numbers_of_nuclei_are_a_warning(labels: Any, line: str) -> None:
    found = find_binary_mask(runs_of(labels), where="case 'a', 'a.npy'")
    assert [finding.severity for finding in found] == ["warning"] * bool(line)
    assert "".join(map(str, found)).startswith(f"[binary-mask] case 'a', 'a.npy': {line}" if line else "")
    assert line or not found


# --- bounds -----------------------------------------------------------------------------------------------------------

HUGE = 200_000
HUGE_FILES = {
    ".npy": npy_saying(f"({HUGE}, {HUGE})"),
    ".npz": zipped(npy_saying(f"({HUGE}, {HUGE})", data=bytes(1_000_000))),
    ".mha": mha(DimSize=f"{HUGE} {HUGE}", ElementNumberOfChannels="1"),
    ".mat": mat_5(matrix([HUGE, HUGE], bytes(1000))),
    ".tif": tiff(zlib.compress(LABELS), {259: ("H", [8]), 256: ("I", [HUGE]), 257: ("I", [HUGE])}),
    ".png": png(width=HUGE, height=HUGE),
}


@pytest.mark.parametrize("suffix", HUGE_FILES)
def test_a_header_of_a_huge_image_takes_no_memory_also_where_the_case_is_huge(suffix: str) -> None:
    with memory_below(8_000_000):
        assert "200,000 rows x 200,000 columns; expected 20 rows" in refusal(HUGE_FILES[suffix], suffix)
    read_in_bands = ("[unreadable-file] truncated or damaged data",) if suffix == ".tif" else ()
    with memory_below(8_000_000):
        line = refusal(HUGE_FILES[suffix], suffix, (HUGE, HUGE))
    assert line.startswith(("[too-large]", "[wrong-format]", *read_in_bands))


def test_a_file_and_an_array_above_the_limit_are_refused(tmp_path: Path) -> None:
    contents = made_files(tmp_path)
    for suffix in (".mat", ".npy", ".tif", ".mha", ".png"):
        content = contents[suffix]
        if suffix != ".png":  # its array is larger than the file
            read(content, suffix, SHAPE, len(content))
        expected = f"[too-large] a file of {len(content):,} bytes; expected at most {len(content) - 1:,} bytes."
        assert refusal(content, suffix, SHAPE, len(content) - 1).startswith(expected)
    for kind in ("_compressed.mat", "_deflate.tif", "_lzw.tif", "_compressed.mha", ".npz"):
        assert len(contents[kind]) < 2000 < LABELS.nbytes
        line = refusal(contents[kind], kind[kind.index(".") :], SHAPE, 2000)
        assert line.startswith("[too-large]")
        assert line.endswith("or raise limits.bytes_per_file in challenge.toml.")


FEW_BYTES = """
import resource, sys
import imagecodecs, scipy.io
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
from formats import lines_of
options = {"format": "label_image", "shape_yx": (12_000, 20_000), "limits": {"bytes_per_file": 2_000_000_000}}
for path in sys.argv[1:]:
    print(*lines_of(open(path, "rb").read(), suffix=path[path.rindex("."):], **options))
"""


def test_an_image_that_the_memory_does_not_hold_is_told(tmp_path: Path) -> None:
    sizes = {256: ("I", [20_000]), **dict.fromkeys((257, 278), ("I", [12_000]))}
    packed = zlib.compress(LABELS.astype(np.int64))
    contents = {
        ".npy": npy_saying("(12000, 20000)", "'<i8'"),
        ".mha": b"NDims = 2\nDimSize = 20000 12000\nElementType = MET_DOUBLE\nElementDataFile = LOCAL\n",
        ".tif": tiff(packed, {**sizes, 258: ("H", [64]), 259: ("H", [8]), 339: ("H", [2])}),
    }
    paths = [tmp_path / f"a{suffix}" for suffix in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    threads = {"OPENBLAS_NUM_THREADS": "1"}  # each takes address space, and there are as many as processors
    done = subprocess.run(
        [sys.executable, "-c", FEW_BYTES, *paths],
        env={**os.environ, **threads}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    fix = "Write a smaller type of integers, such as int32."
    line = f"[too-large] more than fits into memory; expected a smaller file. {fix}"
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


def test_the_size_of_an_image_is_told_without_a_case(tmp_path: Path) -> None:
    for suffix in (".nii", ".nii.gz", ".nrrd", ".mha"):
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


@pytest.mark.parametrize("suffix", [".nii.gz", ".nrrd"])
def test_more_data_than_those_of_the_pixels_are_refused_before_they_are_unpacked(suffix: str, tmp_path: Path) -> None:
    """64 MB of zeros, which are 64 kB of the file; a few bytes are none, as some programs write them."""
    content = itk_file(tmp_path, suffix)
    head, blank, data = (b"", b"", content) if suffix == ".nii.gz" else content.partition(b"\n\n")
    head = head.replace(b"encoding: raw", b"encoding: gzip")
    plain = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    assert read_part(head + blank + gzip.compress(plain + bytes(60)), **options_of(suffix)) is not None
    bomb = head + blank + gzip.compress(plain + bytes(1 << 26))
    with memory_below(40_000_000):
        line = refusal(bomb, suffix)
    assert "more data than its pixels need" in line


def test_nifti_may_have_extensions_before_its_pixels_but_no_gap(tmp_path: Path) -> None:
    plain = gzip.decompress(itk_file(tmp_path, ".nii.gz"))
    as_it_was = picture(read_part(gzip.compress(plain), **options_of(".nii.gz")).labels)

    def moved(start: float, gap: int) -> bytes:
        head = bytearray(plain[:352])
        struct.pack_into("<f", head, 108, start)
        return gzip.compress(bytes(head) + bytes(gap) + plain[352:])

    extended = read_part(moved(352 + 4096, 4096), **options_of(".nii.gz"))
    assert (picture(extended.labels) == as_it_was).all()
    for start, gap in ((1 << 21, (1 << 21) - 352), (float("nan"), 0)):
        assert "pixels that do not follow the header" in refusal(moved(start, gap), ".nii.gz")


def test_files_without_their_last_bytes_are_told_and_nothing_is_printed(tmp_path: Path, capfd) -> None:
    for kind, content in made_files(tmp_path).items():
        suffix = kind[kind.index(".") :]
        if kind != "_compressed.mha":
            assert refusal(content[:-9], suffix).startswith(CUT_OFF), kind
        for end in (-9, -40, len(content) // 2):
            assert lines_of(content[:end], **options_of(suffix))
        if kind.startswith("_compressed"):  # a check sum
            assert refusal(content[:-1] + bytes([content[-1] ^ 1]), suffix).startswith(CUT_OFF), kind
    assert capfd.readouterr() == ("", "")


def test_a_suffix_is_that_of_the_name_not_of_the_place() -> None:
    asked = replace(request("label_image", ".npy"), where="case 'a', 'a_very_long_name….tif'")
    (part,) = read_annotations(io.BytesIO(npy_file(LABELS)), asked, Case("a", "a", *SHAPE)).parts
    assert isinstance(part, LabelImage)
    np.testing.assert_array_equal(picture(part.labels), LABELS)


def test_a_fault_without_a_finding_cannot_be_raised() -> None:
    with pytest.raises(ValueError, match="vanish"):
        InputFault()


# --- PNG --------------------------------------------------------------------------------------------------------------

PNG_SHAPE = (20, 30)
PIXELS = np.add.outer(np.arange(20), np.arange(30)).astype(np.uint8)
ROWS = b"".join(b"\0" + row.tobytes() for row in PIXELS)
GREY = png(ROWS, bits=8)


def read_png(content: bytes, shape_yx: tuple[int, int] = PNG_SHAPE, limit: int = 1_000_000, **options: Any) -> Any:
    """The colours of a PNG, or its grey values."""
    options = {"channels": None, "as_colours": True} | options
    return read_image(
        io.BytesIO(content), suffix=".png", where="'a.png'", shape_yx=shape_yx, bytes_limit=limit, **options
    )


@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.uint16]),
        st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
            lambda size: st.sampled_from([size, *((*size, channels) for channels in (2, 3, 4))])
        ),
    ),
    st.sampled_from([8, 16, 32, 64, 128]),
)
def test_what_was_written_is_read_whatever_the_filter(array: Any, filter_flag: int) -> None:
    found = read_png(imagecodecs.png_encode(array, filter=filter_flag), (array.shape[0], array.shape[1]))
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_few_bits_keep_their_values_and_are_not_scaled(bits: int) -> None:
    stored = np.random.default_rng(bits).integers(0, 1 << bits, PNG_SHAPE).astype(np.uint8)
    packed = np.packbits(np.unpackbits(stored[..., np.newaxis], axis=2)[..., 8 - bits :].reshape(20, -1), axis=1)
    rows = b"".join(b"\0" + row.tobytes() for row in packed)
    np.testing.assert_array_equal(read_png(png(rows, bits=bits)), stored)


def test_other_chunks_are_left_alone_and_data_may_come_in_many_pieces() -> None:
    for extra in ((b"tRNS", b"\0\5"), (b"gAMA", bytes(4)), (b"iCCP", b"bomb"), (b"zTXt", b"x" * 99)):
        np.testing.assert_array_equal(read_png(png(ROWS, bits=8, more=[extra])), PIXELS)
    data = zlib.compress(ROWS)
    pieces = [b"", *(data[place : place + 7] for place in range(0, len(data), 7))]
    np.testing.assert_array_equal(read_png(png(bits=8, data=pieces)), PIXELS)


def test_real_panoptic_png_equal_what_pillow_reads(shared_data: Path) -> None:
    paths = sorted((shared_data / "panopticapi").rglob("*.png"))
    assert len(paths) == 4
    for path in paths:
        expected = np.array(Image.open(path))
        np.testing.assert_array_equal(read_png(path.read_bytes(), expected.shape[:2], 10_000_000), expected)


def palette_png(bits: int, first: tuple[int, int, int] = (0, 0, 0)) -> tuple[bytes, Any]:
    """A PNG with a palette as Pillow writes it, and its numbers."""
    numbers = (np.arange(20 * 30).reshape(PNG_SHAPE) % (1 << bits)).astype(np.uint8)
    image = Image.fromarray(numbers, "P")
    image.putpalette([*first, *(value for index in range(1, 1 << bits) for value in (index, 255 - index, 7))])
    stream = io.BytesIO()
    image.save(stream, "PNG", bits=bits)
    return stream.getvalue(), numbers


NUMBERS = {"channels": 0, "as_colours": False}


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_a_palette_gives_its_numbers_or_its_colours_as_pillow_does(bits: int) -> None:
    content, numbers = palette_png(bits)
    assert content[24:26] == bytes([bits, 3])
    np.testing.assert_array_equal(read_png(content, **NUMBERS), numbers)
    np.testing.assert_array_equal(read_png(content), np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))


def with_header(*fields: int) -> bytes:
    return GREY[:8] + png_chunk(b"IHDR", struct.pack(">IIBBBBB", *fields)) + GREY[33:]


BAD_HEADER = "[wrong-format] a damaged header"
BOMB = png(bytes(30_000_000), bits=8)
DEEP = png(bytes(20 * (1 + 30 * 8)), bits=16, colour=6)
PNG_REFUSED: list[tuple[bytes, dict[str, Any], str]] = [
    *((with_header(30, 20, *fields), {}, f"{BAD_HEADER} (an unknown kind of pixels") for fields in (
        (3, 0, 0, 0, 0), (4, 2, 0, 0, 0), (8, 1, 0, 0, 0), (8, 0, 1, 0, 0), (8, 0, 0, 1, 0), (8, 0, 0, 0, 2))),
    (with_header(0, 20, 8, 0, 0, 0, 0), {}, f"{BAD_HEADER} (20 rows x 0 columns; 1 to 1,000,000 are possible"),
    (with_header(2**31, 1, 8, 0, 0, 0, 0), {}, f"{BAD_HEADER} (1 rows x 2,147,483,648 columns; 1 to 1,000,000 are"),
    (GREY[:8] + png_chunk(b"IHDR", b"short") + GREY[33:], {}, f"{BAD_HEADER} (no header chunk"),
    (png(ROWS, bits=8, more=[(b"ABCD", b"")]), {}, f"{BAD_HEADER} (an unknown critical chunk)"),
    (png(ROWS, bits=8, more=[(b"teXt", b"")] * 300_000), {"limit": 10_000_000},
     f"{BAD_HEADER} (more than 300,000 chunks)"),
    (png(ROWS, bits=8, interlaced=1), {}, "[unsupported-format] an interlaced PNG; expected"),
    (png(width=20, height=30, bits=8), {}, "[wrong-shape] 30 rows x 20 columns; expected 20 rows x 30 columns"),
    (palette_png(8, first=(255, 0, 16))[0], NUMBERS, "[unsupported-format] a PNG with the palette "
     "colour 0 set to #ff0010; expected a PNG of grey values, a palette or RGB, of up to 16 bits, not interlaced. "
     "Use black, colour 0, for the background, or write 8-bit or 16-bit grey values."),
    (palette_png(8)[0], {"limit": 1799}, "[too-large]"),
    (DEEP, {"limit": 4799}, "[too-large] an array of 4,800 bytes; expected at most 4,799 bytes."),
    *((content, {}, CUT_OFF) for content in (
        BOMB, GREY[:33] + struct.pack(">I4s", 2**32 - 1, b"IDAT"), png(bits=8, data=[zlib.compress(ROWS) + b"more"]))),
    *((png(rows, bits=8), {}, CUT_OFF) for rows in (
        ROWS[:-1], ROWS[:-31], ROWS + b"\0", ROWS + ROWS, b"\5" + ROWS[1:], ROWS[:-31] + b"\x09" + ROWS[-30:], b"")),
    (png(bits=8, data=[zlib.compress(ROWS), *[b"x" * 100] * 50_000]), {"limit": 10_000_000}, CUT_OFF),
    *((GREY[:place] + bytes([GREY[place] ^ 1]) + GREY[place:][1:], {}, "[") for place in (20, 30, 45, -20, -6, -1)),
]  # fmt: skip


def test_a_png_is_refused_with_this_line_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    for content, options, line in PNG_REFUSED:
        with memory_below(8_000_000) if content is BOMB else nullcontext(), pytest.raises(InputFault) as error:
            read_png(content, **options)
        (finding,) = error.value.findings
        assert str(finding).replace(" 'a.png':", "").startswith(line)
    assert read_png(DEEP, limit=4800).shape == (20, 30, 4)
    assert capfd.readouterr() == ("", "")
