"""Label images and masks in every format of pixels: values, classes, and files that are broken or meant to break."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from evaluation.files.formats.headers import CLASS_COLUMNS, ID_COLUMNS
from formats import Table
from formats.pixels import (
    CUT_OFF,
    INTEGERS,
    LABELS,
    SHAPE,
    TWO,
    itk_file,
    mat_file,
    mha_file,
    npy_file,
    npz_file,
    png_file,
    tiff_file,
)

NARY = {"format": "nary_mat"}
VALUES = {"class_values": {"tumour": 10, "stroma": 20, "debris": 30}}
CLASSED = {"classes": TWO, **VALUES}
CLASS_NUMBERS = np.where(LABELS > 5, 20, 10).astype(np.int32)
CLASSES_OF_PIXELS = np.where(LABELS > 5, 2, 1)
WHOLE = "expected 0 for background and 1, 2, 3, … for nuclei."


def of_suffix(suffix: str) -> dict[str, Any]:
    return NARY if suffix == ".mat" else {"suffix": suffix}


WRITTEN: list[tuple[str, str, Any, list[str]]] = [  # what writes an array, the suffix, and types of pixels
    *((f"MATLAB 5, compressed: {packed}", ".mat",
       lambda array, _, packed=packed: mat_file({"n_ary_mask": array}, do_compression=packed),
       [*INTEGERS, "f4", "f8"] if packed else ["u2", "f8"]) for packed in (True, False)),
    ("npy", ".npy", lambda array, _: npy_file(array), [*INTEGERS, "f2", "f4", "f8", ">i4", ">f4"]),
    ("npy in Fortran order", ".npy", lambda array, _: npy_file(np.asfortranarray(array)), ["i4"]),
    *((f"npy of version {version}", ".npy", lambda array, _, version=version: npy_file(array, version=version), ["i4"])
      for version in ((1, 0), (2, 0), (3, 0))),
    *((f"npz, compressed: {packed}", ".npz",
       lambda array, _, packed=packed: npz_file(any_name=array, compressed=packed), ["u2", "i8", "f4", ">i4"])
      for packed in (True, False)),
    ("PNG", ".png", lambda array, _: png_file(array), ["u1", "u2"]),
    *((f"SimpleITK, compressed: {packed}", suffix,
       lambda array, folder, packed=packed, suffix=suffix: itk_file(folder, suffix, array, compressed=packed),
       ["u1", "i1", "u2", "i2", "u4", "i4", "f4", "f8", *(["u8", "i8"] if suffix == ".mha" else [])])
      for packed, suffix in ((True, ".mha"), (False, ".mha"), (False, ".nii"), (True, ".nii.gz"), (True, ".nrrd"))),
    ("NRRD as it is", ".nrrd", lambda array, folder: itk_file(folder, ".nrrd", array), ["u2"]),
    ("MetaImage of one slice", ".mha", lambda array, folder: mha_file(folder, array[np.newaxis]), ["i4"]),
    ("suffix in upper case", ".TIF", lambda array, _: tiff_file(array), ["i4"]),
]  # fmt: skip


def swapped(folder: Path) -> bytes:
    """A MetaImage of the other byte order."""
    header = mha_file(folder, LABELS)[: -LABELS.nbytes].replace(b"MSB = False", b"MSB = True")
    return header + LABELS.astype(">i4").tobytes()


def channels(suffix: str, axis: int, planes: Any) -> Any:
    """A file of two channels along an axis; the last one in PNG."""
    array = np.stack(planes, axis).astype(np.uint16)
    if suffix == ".png":
        return png_file(np.stack(planes, 2).astype(np.uint16))
    if suffix == ".tif":
        return tiff_file(array, photometric="minisblack", planarconfig="separate" if axis == 0 else "contig")
    if suffix == ".mha":
        return lambda folder: mha_file(folder, array, is_vector=axis == 2)
    return npy_file(array) if suffix == ".npy" else npz_file(arr_0=array)


TYPE_MAP = npz_file(inst_map=LABELS, type_map=CLASS_NUMBERS)
IDS, OTHER_IDS = np.array([[7, 0, 900, 3, 5]]), np.array([[7, 0, 900, 3, 0]])
SAME = {"labels": OTHER_IDS, "class_of_instance": [-1, 2, 1], "class_id": 0, "class_map": None}
OF_TABLE = {
    "classes": replace(TWO, ids={**TWO.ids, "str": 2, "vague": -1}, values={0: 1, 7: 2}, skipped=frozenset({"fov"}))
}
DEBRIS = {"classes": replace(OF_TABLE["classes"], skipped=frozenset({"debris"}))}
ONE_CLASS = {"classes": {"tumour": 1}}

BIG = [0, 2**31 + 5, 2**32 + 5, 2**63 - 1]

READ: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    *((f"{why} ({dtype})", lambda folder, write=write, dtype=dtype: write((LABELS % 100).astype(dtype), folder),
       of_suffix(suffix), {"labels": (LABELS % 100).astype(dtype).astype(int)})
      for why, suffix, write, dtypes in WRITTEN for dtype in dtypes),
    *(("a mask of booleans is one nucleus", made, options,
       {"labels": (LABELS > 0).astype(int), "findings": ["[binary-mask]"]})
      for made, options in ((npy_file(LABELS > 0), {"suffix": ".npy"}), (mat_file({"n_ary_mask": LABELS > 0}), NARY))),
    ("the other byte order of MetaImage", swapped, {"suffix": ".mha"}, {"labels": LABELS}),
    ("n_ary_mask is taken among other variables",
     mat_file({"a": np.ones(SHAPE), "n_ary_mask": LABELS, "z": np.ones(SHAPE), "text": "x", "cell": {"k": 1}}), NARY,
     {"labels": LABELS}),
    ("the only 2-D array of numbers is taken whatever its name",
     mat_file({"inst_map": LABELS, "text": "x", "struct": {"k": 1}, "stack": np.ones((2, 3, 4))}), NARY,
     {"labels": LABELS}),
    *(("the array with a known name is taken among others",
       npz_file(**{name: LABELS, "type": np.ones(SHAPE), "objects": np.array([{"a": 1}, 2], object)}),
       {"suffix": ".npz"}, {"labels": LABELS}) for name in ("labels", "inst_map", "arr_0")),
    *(("ids above two billion survive", made, options | {"shape_yx": (1, 4)}, {"labels": [BIG]})
      for made, options in ((npy_file([BIG]), {"suffix": ".npy"}), (mat_file({"n_ary_mask": np.array([BIG])}), NARY))),
    *(("the spacing of a file is that of the case, or not given",
       lambda folder, suffix=suffix, mm=mm: itk_file(folder, suffix, spacing_mm=mm),
       {"suffix": suffix, "spacing_um": um}, {"labels": LABELS})
      for suffix, mm, um in (
          (".nii", 0.0005, 0.5), (".nii.gz", 1, 0.25), (".nrrd", 0.0005, None), (".mha", 0.0005, 0.5))),
    # --- classes
    *(("the class comes from the path, or is the only one", npy_file(LABELS), options | {"suffix": ".npy"},
       {"class_id": class_id, "class_map": None, "class_of_instance": None, "source": "a.npy"})
      for options, class_id in (({}, 1), ({"classes": TWO}, 0), ({"classes": TWO, "file_class": 2}, 2))),
    ("a binary mask is told and counts as one nucleus", npy_file((LABELS > 0).astype(np.uint8)), {"suffix": ".npy"},
     {"labels": (LABELS > 0).astype(int), "findings": ["[binary-mask] 3 separate regions"]}),
    *(("a class map has the values of the rules", npy_file(LABELS),
       CLASSED | {"suffix": ".npy", "class_map": (f"{{case}}_class{suffix}", made)},
       {"class_id": 0, "class_map": CLASSES_OF_PIXELS}) for suffix, made in (
        *((".npy", npy_file(CLASS_NUMBERS.astype(dtype))) for dtype in ("u1", "i2", "f8", "i8")),
        *((".mat", mat_file({"n_ary_mask": CLASS_NUMBERS.astype(dtype)})) for dtype in ("u1", "i2", "f8", "i8")),
        (".png", png_file(CLASS_NUMBERS.astype(np.uint8))))),
    ("ignore classes and other orders of classes are in the map, too", npy_file([[1, 2, 3]]),
     {"classes": replace(TWO, values={10: 2, 20: 1, 30: -1}), **VALUES, "suffix": ".npy", "shape_yx": (1, 3),
      "class_map": ("{case}_class.npy", npy_file([[10, 20, 30]]))}, {"class_map": [[2, 1, -1]]}),
    ("a class map of an npz is told from its ids by the name", TYPE_MAP,
     CLASSED | {"suffix": ".npz", "class_map": ("{case}.npz", TYPE_MAP)},
     {"labels": LABELS, "class_map": CLASSES_OF_PIXELS}),
    *(("one channel has the ids and the other the classes",
       channels(suffix, axis, (LABELS, CLASS_NUMBERS)[:: 1 if channel else -1]),
       CLASSED | {"suffix": suffix, "class_channel": channel},
       {"labels": LABELS, "class_map": CLASSES_OF_PIXELS, "class_id": 0})
      for suffix in (".npy", ".npz", ".png", ".tif", ".mha") for axis in (0, 2) for channel in (0, 1)),
    ("two channels of a TIFF may be two pages", tiff_file(np.stack([LABELS, CLASS_NUMBERS]), photometric="minisblack"),
     CLASSED | {"suffix": ".tif", "class_channel": 1}, {"labels": LABELS, "class_map": CLASSES_OF_PIXELS}),
    # --- tables of classes
    *(("the same table of classes in all its forms", npy_file(ids),
       options | {"suffix": ".npy", "shape_yx": np.shape(ids), "class_table": (f"{{case}}{suffix}", text)}, expected)
      for text, suffix, ids, options, expected in (
        ("id,class\n7,Stroma\n900,0\n3,vague\n5,fov\n", ".csv", IDS, OF_TABLE, SAME),  # skipped: no nucleus
        ("Class,ID\nSTR, 7.0\ntumour,900\nvague,003\nfov,5\nstroma,7\n", ".CSV", IDS, OF_TABLE, SAME),
        ("id,class\n", ".csv", [[0]], OF_TABLE, {"class_of_instance": []}),
        ("id,class\n1,stroma\n2,\n3,debris\n", ".csv", [[1, 3]], DEBRIS, {"labels": [[1, 0]]}),
        ("id,class\n1,tumour\n2,\n", ".csv", [[1, 2]], ONE_CLASS, {"class_of_instance": [1, 1]}),
        (f"id,class\n{2**53 + 1},stroma\n", ".csv", [[2**53 + 1]], OF_TABLE, {"class_of_instance": [2]}),
        *((f"{key},{name}\n7,Stroma\n", ".csv", [[7]], OF_TABLE, {"class_of_instance": [2]})
          for name in CLASS_COLUMNS for key in ID_COLUMNS if key != name),
        ("label,type\n7,Stroma\n", ".csv", [[7]], OF_TABLE, {"class_of_instance": [2]}))),
    *(("a table gives each id its class", npy_file(LABELS.astype(np.int64) * factor),
       {"classes": TWO, "suffix": ".npy", "class_table": ("{case}.csv",
        f"id,class\n{7 * factor},stroma\n{300 * factor},debris\n{2 * factor},tumour\n5,stroma\n")},
       {"class_of_instance": [1, 2, -1]}) for factor in (1, 10**15)),
]  # fmt: skip

# --- values and shapes

WRITERS: dict[str, Callable[[Any, Path], bytes]] = {
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


WRONG: list[tuple[Any, Any, str]] = [  # an array, the formats that it is written in, and how the line begins
    (changed((slice(3, 5), 8), [-1, -7]), WRITERS,
     f"[negative-label] 2 of 620 pixels are below 0 (lowest -7, first at row 3, column 8); {WHOLE} Is -7 the "
     "background, or an unannotated region? If it is the background, write 0."),
    (changed((19, 30), 0.25, np.float64), WRITERS,
     f"[fractional-label] 1 of 620 pixels is not a whole number (0.25, first at row 19, column 30); {WHOLE} "
     "Save labels, not probabilities; resize with nearest-neighbour interpolation."),
    *((changed(([1, 5], [2, 5]), value, np.float32), WRITERS,
       f"[not-finite] 2 of 620 pixels are not a number or infinite ({value}, first at row 1, column 2); {WHOLE} "
       "Use 0 for the background.") for value in (np.nan, np.inf, -np.inf)),
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

# --- what is broken


def mat_element(kind: int, data: bytes, claimed: int | None = None) -> bytes:
    return struct.pack("<II", kind, len(data) if claimed is None else claimed) + data + bytes(-len(data) % 8)


def compressed_mat(matrix: bytes) -> bytes:
    packed = zlib.compress(mat_element(14, matrix))
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(packed)) + packed


def mat_head(name: bytes = b"n_ary_mask", shape: tuple[int, int] = SHAPE) -> bytes:
    return mat_element(6, struct.pack("<II", 12, 0)) + mat_element(5, struct.pack("<ii", *shape)) + mat_element(1, name)


def npy_with(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def mha_with(old: bytes, new: bytes) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        (folder / "secret.raw").write_bytes(LABELS.tobytes())  # which must never be read
        content = mha_file(folder, LABELS)
        assert old in content
        return content.replace(old, new)

    return make


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("labels.npy", content)
    return stream.getvalue()


def patched(content: bytes, place: int, value: bytes) -> bytes:
    return content[:place] + value + content[place + len(value) :]


def many_variables() -> bytes:
    one = mat_file({"x": np.zeros((1, 1))})
    return one + one[128:] * 1000


TWICE = mat_file({"n_ary_mask": LABELS})
SAVED = npz_file(labels=LABELS)
ONE_ARRAY = (
    "expected one array, or one with a name such as 'labels'. Save the label image alone: "
    "numpy.savez_compressed(path, labels=labels)."
)
NO_VARIABLE = (
    "expected one variable 'n_ary_mask', or a single 2-D array of numbers. Save the label image alone: "
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
    (".mat", lambda _: many_variables(), "[wrong-format] more than 1,000 variables; expected"),
    *((".mat", mat_file({"n_ary_mask": value, "other": LABELS}),
       f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole numbers. {fix}")
      for value, what, fix in (
          ({"a": 1}, "a struct", SAVE_ALONE), (np.array([[LABELS]], object), "a cell array", SAVE_ALONE),
          ("text", "a text", SAVE_ALONE),
          (scipy.sparse.csc_array(LABELS.astype(float)), "a sparse matrix", "Save full(n_ary_mask)."))),
    (".mat", mat_file({"a": LABELS, "b": LABELS, "text": "x"}),
     f"[no-mask-variable] 2 2-D arrays of numbers among the variables 'a', 'b' and 'text'; {NO_VARIABLE}"),
    (".mat", mat_file({}), f"[no-mask-variable] no variable; {NO_VARIABLE}"),
    (".mat", TWICE + TWICE[128:], f"[no-mask-variable] the variable 'n_ary_mask' 2 times; {NO_VARIABLE}"),
    *((".mat", content, f"[wrong-format] {what}; {VERSION}") for content, what in (
        (b"", "an empty file"), (b"hello", "not a MATLAB file"), (bytes(1000), "not a MATLAB file"),
        (mat_file({"n_ary_mask": LABELS}, format="4"), "a MATLAB file of version 4"),
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
    (".npz", npz_file(labels=LABELS, inst_map=LABELS),
     f"[no-mask-variable] the arrays 'labels' and 'inst_map'; {ONE_ARRAY}"),
    (".npz", npz_file(a=LABELS, b=LABELS), f"[no-mask-variable] the arrays 'a' and 'b'; {ONE_ARRAY}"),
    (".npz", npz_file(), f"[no-mask-variable] no array; {ONE_ARRAY}"),
    (".npz", npz_file(inst_map=LABELS[1:], other=LABELS),
     "[wrong-shape] 'a.npz', 'inst_map.npy': 19 rows x 31 columns; expected 20 rows"),
    *((".npz", zipped(npy_file(LABELS), method), f"{DAMAGED} (an array that is encrypted, or")
      for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)),
    (".npz", patched(SAVED, SAVED.rindex(b"PK\5\6") + 12, struct.pack("<I", 3_000_000_000)),
     "[unreadable-file] 'a.npz': truncated or damaged data"),
    (".npz", patched(npz_file(compressed=False, labels=LABELS), 1000, b"\x99"), CUT_OFF),
    (".npz", zipped(npy_file(LABELS) + b"more", zipfile.ZIP_STORED), CUT_OFF),
    # --- other files
    (".dat", b"1 2 3", "[unsupported-format] a file with the suffix '.dat'; expected one of"),
    *((suffix, content, f"[wrong-format] {what}; expected a {name} file, because of its suffix. Write the file again "
       "in this format.") for suffix, name in NAMES.items() for content, what in (
           (b"", "an empty file"), (b"\x89PNG\r\n", "a PNG file"), (b"PK\x03\x04", "a ZIP file"),
           (b"hello", "something else"))),
    *((suffix, b"\x89PNG", f"[unsupported-format] {got}; {SUFFIXES} {fix}") for suffix, got, fix in (
        (".bmp", "a file with the suffix '.bmp'", "Write the labels as .npy, .png, .tif or .mha."),
        (".mhd", "a file with the suffix '.mhd'", "Write one .mha file with header and data."),
        (".nhdr", "a file with the suffix '.nhdr'", "Write one .nrrd file with header and data."),
        ("", "a file without a suffix", "Write the labels as .npy, .png, .tif or .mha."))),
    # --- MetaImage
    *((".mha", mha_with(b"ElementDataFile = LOCAL", f"ElementDataFile = {target}".encode()),
       f"[external-data] a header with its data in another file, '{target}'; expected 'ElementDataFile = LOCAL', with "
       "the data after the header. Write one .mha file; with SimpleITK: WriteImage(image, 'name.mha').")
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


PICKLE = (
    "[pickle] a pickled Python object, which is never loaded; expected an array of whole numbers. Save the "
    "label image alone, such as numpy.save('name.npy', labels)."
)
UNKNOWN_VALUES = "expected 0 for no class, 10 ('tumour'), 20 ('stroma'), 30 ('debris')."
OF_MAP = CLASSED | {"suffix": ".npy", "shape_yx": (2, 3)}
COLOURS = np.zeros((*SHAPE, 3), np.uint8)

REFUSED: list[tuple[Any, dict[str, Any], Any]] = [
    *((lambda folder, array=array, suffix=suffix: WRITERS[suffix](array, folder), of_suffix(suffix), [line])
      for array, suffixes, line in WRONG for suffix in suffixes),
    *((content, NARY if suffix == ".mat" else {"files": f"{{case}}{suffix}"}, [line])
      for suffix, content, line in BROKEN),
    (npy_file(np.array([[np.nan, 0.5, -1.0, 2.0**63]])), {"suffix": ".npy", "shape_yx": (1, 4)},
     ["[not-finite]", "[fractional-label]", "[negative-label]", "[label-too-large]"]),
    *((made, {"suffix": suffix}, [f"[wrong-shape] an array of {shape}; expected 20 rows x 31 columns"])
      for made, suffix, shape in (
        (tiff_file(COLOURS, photometric="rgb"), ".tif", "20 x 31 x 3"),
        (lambda folder: mha_file(folder, COLOURS, is_vector=True), ".mha", "20 x 31 x 3"),
        (tiff_file(np.zeros((3, *SHAPE), np.uint8), photometric="rgb", planarconfig="separate"), ".tif",
         "3 x 20 x 31"))),
    (npy_file(LABELS), NARY, ["[wrong-format] not a MATLAB file"]),
    *((lambda folder, suffix=suffix, array=array: itk_file(folder, suffix, array), {"suffix": suffix},
       [f"[wrong-shape] {line}"]) for suffix in (".nii", ".nii.gz", ".nrrd", ".mha") for array, line in (
        (LABELS.T, "31 rows x 20 columns;"), (np.stack([LABELS, LABELS]), "an array of 2 x 20 x 31"))),
    *((lambda folder, suffix=suffix: itk_file(folder, suffix, spacing_mm=0.0005),
       {"suffix": suffix, "spacing_um": 0.25},
       ["[wrong-spacing] pixels of 0.5 x 0.5 µm; expected 0.25 µm, as cases.csv has it. Write the labels at the "
        "resolution of the image, with its spacing in mm."]) for suffix in (".nii", ".nii.gz", ".nrrd", ".mha")),
    *((lambda folder, name=name: itk_file(folder, ".nrrd").replace(b"\nencoding", f"\n{name}\nencoding".encode()),
       {"suffix": ".nrrd"}, ["[external-data]"])
      for name in ("data file: /etc/passwd", "datafile: b.raw", "data file: LIST", "DATA FILE: b.raw")),
    *((lambda folder, packed=packed: packed(patched(itk_file(folder, ".nii"), 344, b"ni1\0")), {"suffix": suffix},
       ["[external-data]"]) for packed, suffix in ((bytes, ".nii"), (gzip.compress, ".nii.gz"))),
    (lambda folder: gzip.compress(itk_file(folder, ".nii")), {"suffix": ".nii.gz", "limits": {"bytes_per_file": 1000}},
     ["[too-large] more after decompression; expected at most 1,000"]),
    (lambda folder: gzip.compress(itk_file(folder, ".nii") + bytes(20_000_000)),
     {"suffix": ".nii.gz"}, ["[wrong-format] a damaged header (more data than its pixels need)"]),
    *((pickle.dumps({"inst_map": [1, 2]}, protocol), {"files": f"{{case}}{suffix}"}, [PICKLE])
      for suffix, protocol in ((".pkl", 2), (".PICKLE", 3), (".dat", 4), (".npy", 5), (".tif", 2), (".mha", 4), ("", 5))
      ),
    (npy_file(np.array([[{"a": 1}]], object)), {"suffix": ".npy"}, [PICKLE]),
    (npz_file(labels=np.array([[{"a": 1}]], object)), {"suffix": ".npz"},
     [PICKLE.replace("[pickle]", "[pickle] 'a.npz', 'labels.npy':")]),
    # --- classes
    (npy_file(LABELS - 1), CLASSED | {"suffix": ".npy", "class_map": ("{case}_class.npy", npy_file(LABELS))},
     ["[negative-label] ", *["[unknown-class-value] 'a_class.npy'"] * 3]),
    *((npy_file([[0, 1, 2], [3, 4, 5]]),
       OF_MAP | {"class_map": ("{case}_class.npy", npy_file([[0, 10, 10], [20, value, value]]))},
       [f"[unknown-class-value] 'a_class.npy': the value {value} in 2 pixels (first at row 1, column 1); "
        f"{UNKNOWN_VALUES} Write the values that the challenge gives to its classes."])
      for value in (-1, 3, 32768, 2**40)),
    *((made, CLASSED | {"suffix": suffix, "class_channel": 1},
       ["[wrong-shape] 20 rows x 31 columns; expected 20 rows x 31 columns, the height and width of the image, with 2 "
        "channels. Write the ids of the nuclei in one channel and their classes in the other."])
      for made, suffix in ((npy_file(LABELS), ".npy"), (tiff_file(LABELS), ".tif"))),
    (npz_file(a=LABELS), CLASSED | {"suffix": ".npz", "class_channel": 1}, ["…with 2 channels. Write the ids"]),
    (npy_file(np.stack([LABELS, np.where(LABELS == 7, 7, 0)])), CLASSED | {"suffix": ".npy", "class_channel": 1},
     "[unknown-class-value] 'a.npy', channel 1: the value 7 in 105 pixels (first at row 2, column 5)"),
    (npy_file(LABELS), CLASSED | {"suffix": ".npy", "class_table": ("{case}.csv", "id,class\n7,tumour\n")},
     ["[instance-without-class] 2 nuclei have no class in the class table (ids '2', '300'); expected a class for every "
      "nucleus. Write the id and the class of every nucleus into the table."]),
    *((npy_file([[7, 0]]),
       OF_TABLE | {"suffix": ".npy", "shape_yx": (1, 2), "class_table": (f"{{case}}{suffix}", text)}, line)
      for suffix, text, line in (
        (".csv", "id,class\n0,stroma\n", "[invalid-class-table] line 2: the id '0'; expected a whole"),
        (".csv", "id,class\n-1,stroma\n", "[invalid-class-table]"),
        (".csv", "id,class\n1.5,stroma\n", "[invalid-class-table]"),
        (".csv", "id,class\n" + "9" * 5000 + ",stroma\n", "[invalid-class-table]"),
        (".csv", "id,class\n7,stroma\n7,tumour\n", "[duplicate-row] line 3: the id '7' again, with"),
        (".csv", "id,class\n7,strom\n", "[unknown-class] line 2: 'strom' is not a class of this challenge"),
        (".csv", "id,klass\n7,stroma\n", "[missing-column]"), (".csv", "label,area\n7,20\n", "[missing-column]"))),
    *((npy_file([[1, 2, 3]]),
       OF_TABLE | {"suffix": ".npy", "shape_yx": (1, 3), "class_table": (f"{{case}}{suffix}", text),
                   "limits": {"instances_per_case": 2}}, "[too-large]") for suffix, text in (
        (".csv", "id,class\n1,str\n2,str\n3,str\n"),)),
]  # fmt: skip

MANY_CLASSES = ("{case}_class.npy", npy_file(np.arange(1000).reshape(10, 100)))

TABLE = Table(
    {"format": "label_image", "shape_yx": SHAPE},
    READ,
    REFUSED,
    [(npy_file(np.ones((10, 100), int)), CLASSED | {"suffix": ".npy", "shape_yx": (10, 100), "class_map": MANY_CLASSES},
      8, 996)],
    little_memory=True,
)  # fmt: skip
