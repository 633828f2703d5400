"""MATLAB files: n-ary masks as MATLAB 7.3 (HDF5) has them, and HoVer-Net's; and what HDF5 could be abused for."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from formats import Table
from formats.pixels import INTEGERS, LABELS, SHAPE, TWO, mat_7_3, mat_file

STORED: dict[str, dict[str, Any]] = {
    "in one piece": {},
    "in chunks": {"chunks": (8, 7)},
    "deflated": {"chunks": (8, 7), "compression": "gzip"},
    "deflated and shuffled": {"chunks": (5, 20), "compression": "gzip", "shuffle": True},
    "with check sums": {"chunks": (31, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "with check sums only": {"chunks": (3, 3), "fletcher32": True},
    "in chunks that may grow": {"chunks": (40, 40), "maxshape": (None, None)},
}
DTYPES = [*INTEGERS, "f4", "f8", ">i4", ">f8"]
HOVERNET = {"format": "hovernet_mat", "classes": TWO, "class_values": None}
HOW_TO_SAVE = (
    "expected a MATLAB file of version 6 or 7. Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat."
)
HUGE = (200_000, 200_000)
MANY_CHUNKS = np.arange(40 * 41).reshape(40, 41)
NO_NUCLEUS = {"inst_uid": np.zeros((0, 1)), "inst_type": np.zeros((0, 1)), "inst_centroid": np.zeros((0, 0))}
TYPE_MAP = np.zeros(SHAPE, np.uint8)
TYPE_MAP[LABELS == 2], TYPE_MAP[LABELS == 7] = 30, 10
TYPE_MAP[2:5, 5:20] = 20
BOXES = {"bbox": np.zeros((3, 4)), "centroid": np.zeros((3, 2))}
ALL_TYPES = np.arange(101, 720)[:, None]


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


def external(path: Path) -> Callable[[h5py.File], None]:
    return lambda file: file.create_dataset("n_ary_mask", SHAPE[::-1], "u1", external=[(str(path), 0, 620)])


def virtual(path: Path) -> Callable[[h5py.File], None]:
    def write(file: h5py.File) -> None:
        layout = h5py.VirtualLayout(SHAPE[::-1], "i4")
        layout[:] = h5py.VirtualSource(str(path), "n_ary_mask", SHAPE[::-1])
        file.create_virtual_dataset("n_ary_mask", layout)

    return write


def secret(folder: Path) -> Path:
    with h5py.File(folder / "reference.h5", "w") as file:
        file["n_ary_mask"] = LABELS.T
    return folder / "reference.h5"


def dataset(*arguments: Any, **options: Any) -> Callable[[h5py.File], Any]:
    return lambda file: file.create_dataset("n_ary_mask", *arguments, **options)


def plain_hdf5(**options: Any) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w", **options) as file:
        file["n_ary_mask"] = LABELS
    return stream.getvalue()


def partly_written(file: h5py.File) -> None:
    made = file.create_dataset("n_ary_mask", SHAPE[::-1], "i4", chunks=(4, 4), fillvalue=5, compression="gzip")
    made[8:12, 4:8] = 9


def compact(file: h5py.File) -> None:
    """Numbers in the header."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple(SHAPE[::-1])
    made = h5py.h5d.create(file.id, b"n_ary_mask", h5py.h5t.STD_I32LE, space, plist)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(LABELS.T))


def empty(file: h5py.File) -> None:
    made = file.create_dataset("n_ary_mask", data=np.array([0, 31], "u8"))
    made.attrs["MATLAB_class"] = np.bytes_("double")
    made.attrs["MATLAB_empty"] = np.uint8(1)


def bomb(compression: str | None) -> Callable[[h5py.File], None]:
    """A chunk that decompresses to far more than its pixels."""

    def write(file: h5py.File) -> None:
        made = file.create_dataset("n_ary_mask", (310, 200), "i4", chunks=(310, 200), compression=compression)
        made.id.write_direct_chunk((0, 0), zlib.compress(bytes(40_000_000), 9))

    return write


def huge_chunks(file: h5py.File) -> None:
    options: dict[str, Any] = {"maxshape": (None, None), "compression": "gzip"}
    made = file.create_dataset("n_ary_mask", SHAPE[::-1], "i4", chunks=(20_000, 20_000), **options)
    made.id.write_direct_chunk((0, 0), zlib.compress(bytes(2480)))


def replaced(content: bytes, place: int, new: bytes) -> bytes:
    return content[:place] + new + content[place + len(new) :]


def cyclic(kind: int) -> bytes:
    """A tree of groups (0) or of chunks (1) that meets itself."""
    content = mat_7_3({"n_ary_mask": LABELS}, chunks=(4, 4))
    tree = content.index(b"TREE" + bytes([kind]))
    if kind == 0:
        return replaced(content, tree + 32, struct.pack("<Q", tree - 512))
    one = content[: tree + 5] + struct.pack("<BH", 1, 1) + content[tree + 8 :]  # its only chunk is a tree
    return replaced(one, tree + 24 + 8 + 24, struct.pack("<Q", tree - 512))


def continued_in_itself() -> bytes:
    content = mat_7_3({"n_ary_mask": LABELS})
    with h5py.File(io.BytesIO(content)) as file:
        header = 512 + h5py.h5o.get_info(file["n_ary_mask"].id).addr
    message = struct.pack("<HHB3xQQ", 16, 16, 0, header - 512 + 16, 24)
    return content[: header + 16] + message + content[header + 40 :]


def misplaced_chunk(offset: int) -> bytes:
    content = mat_7_3({"n_ary_mask": LABELS}, chunks=(16, 20))
    second_offset = content.index(b"TREE\1") + 24 + (8 + 24 + 8) + 8
    assert struct.unpack_from("<Q", content, second_offset) == (16,)
    return replaced(content, second_offset, struct.pack("<Q", offset))


ONE_MAP = mat_file({"inst_map": LABELS})

READ: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    *((f"7.3 {how} ({dtype})", mat_7_3({"n_ary_mask": (LABELS % 100).astype(dtype)}, **options), {},
       {"labels": (LABELS % 100).astype(dtype).astype(int)}) for how, options in STORED.items()
      for dtype in (DTYPES if "shuffle" in options else ["u2", ">f8"])),
    ("pixels that were never written have the fill value", mat_7_3({}, partly_written), {},
     {"labels": np.pad(np.full((4, 4), 9), ((4, 12), (8, 19)), constant_values=5)}),
    ("or 0", mat_7_3({}, dataset(SHAPE[::-1], "i4")), {}, {"labels": LABELS * 0}),
    ("numbers in the header are read", mat_7_3({}, compact), {}, {"labels": LABELS}),
    ("a file of another program in the newest HDF5", mat_7_3({"n_ary_mask": LABELS, "b": LABELS}, libver="latest"), {},
     {"labels": LABELS}),
    ("hundreds of variables and thousands of chunks",
     mat_7_3({f"variable_{index:03}": np.array([[index]]) for index in range(300)},
             dataset(data=MANY_CHUNKS.T, chunks=(1, 1))), {"shape_yx": MANY_CHUNKS.shape}, {"labels": MANY_CHUNKS}),
    ("what MATLAB keeps beside the variables does not matter",
     mat_7_3({"labels": LABELS}, lambda file: file.create_dataset("#refs#/a", data=LABELS)), {}, {"labels": LABELS}),
    ("what is not supported in other variables does not matter",
     mat_7_3({"n_ary_mask": LABELS}, lambda file: file.create_dataset("b", data=LABELS, compression="lzf")), {},
     {"labels": LABELS}),
    ("a named type among the variables is no array", mat_7_3({"n_ary_mask": LABELS}, lambda file: (
        file.create_group("s"), file.__setitem__("t", np.dtype("f8")))), {}, {"labels": LABELS}),
    ("a mask whose nuclei all have the label 1 gives a warning", mat_file({"n_ary_mask": LABELS > 0}), {},
     {"findings": ["[binary-mask]"]}),
    ("the class of the path is that of a mask", mat_file({"n_ary_mask": LABELS}), {"classes": TWO, "file_class": 2},
     {"class_id": 2, "class_map": None, "class_of_instance": None}),
    *((f"other variables are not decompressed ({name})", mat_file({name: LABELS, "b": np.zeros((3000, 1000))},
       do_compression=True), {**rules, "limits": {"bytes_per_file": 100_000}}, {"labels": LABELS})
      for name, rules in (("n_ary_mask", {}), ("inst_map", HOVERNET))),
    # --- HoVer-Net
    *(("types belong to the ids in ascending order",
       write({"inst_map": LABELS, "inst_type": np.array([[20], [10], [30]])}), HOVERNET,
       {"labels": LABELS, "class_of_instance": [2, 1, -1], "class_id": 0, "class_map": None, "source": "a.mat"})
      for write in (mat_file, mat_7_3)),
    *(("types may be a row or a column of floats",
       mat_file({"inst_map": LABELS.astype(float), "inst_type": np.array([20.0, 0, 10]).reshape(shape)}), HOVERNET,
       {"class_of_instance": [2, 0, 1]}) for shape in ((3, 1), (1, 3))),
    ("types with ids belong to these, and others have none",
     mat_file({"inst_map": LABELS, "inst_uid": [[300], [2], [4]], "inst_type": [[20], [10], [30]]}), HOVERNET,
     {"class_of_instance": [1, 0, 2]}),
    *(("a type map gives the class of most pixels", write({"inst_map": LABELS, "type_map": TYPE_MAP}), HOVERNET,
       {"class_of_instance": None, "final_class": [-1, 1, 0]}) for write in (mat_file, mat_7_3)),
    ("types count before a type map",
     mat_file({"inst_map": LABELS, "inst_type": [[10], [10], [10]], "type_map": np.full(SHAPE, 20)}), HOVERNET,
     {"final_class": [1, 1, 1]}),
    *(("no types are needed where the class is known, and without them there is none", content, options,
       {"final_class": ids}) for content, options, ids in (
        (mat_file({"inst_map": LABELS, "inst_type": [[99]]}), HOVERNET | {"file_class": 2}, [2, 2, 2]),
        (ONE_MAP, {"format": "hovernet_mat"}, [1, 1, 1]), (ONE_MAP, HOVERNET, [0, 0, 0]))),
    *(("an image without nuclei has an empty list of types", write({"inst_map": labels, **NO_NUCLEUS}), HOVERNET,
       {"final_class": classes}) for write in (mat_file, mat_7_3)
      for labels, classes in ((LABELS * 0, []), (LABELS, [0, 0, 0]))),
    *(("class and id of Lizard are types and their ids",  # scripts/README of the data set
       mat_file({"inst_map": LABELS, ids: [[300], [2], [7]], "class": [[20], [10], [30]], **BOXES}), HOVERNET,
       {"class_of_instance": [1, -1, 2]}) for ids in ("id", "nuclei_id")),
]  # fmt: skip

REFUSED: list[tuple[Any, dict[str, Any], Any]] = [
    *((mat_7_3({}, write), {}, [f"[not-numeric] 'n_ary_mask' is {what}; expected an array of whole"])
      for write, what in (
        (of_class("cell"), "a cell array"), (of_class("struct"), "a struct"), (of_class("char"), "a text"),
        (of_class("function_handle"), "a function"), (of_class("table"), "an object"),
        (lambda file: file.create_group("n_ary_mask"), "a struct"), (sparse, "a sparse matrix"),
        (complex_numbers, "an array of complex numbers"), (dataset(data=np.bytes_("x")), "a text"))),
    (mat_7_3({}, lambda file: file.__setitem__("n_ary_mask", np.dtype("f8"))), {}, ["[not-numeric]"]),
    (mat_7_3({f"v{index}": np.array([[index]]) for index in range(1001)}), {},
     ["[wrong-format] a damaged header (more than 1,000 variables); expected a MATLAB"]),
    (mat_7_3({}, empty), {}, ["[wrong-shape] an empty array; expected 20 rows x 31 columns"]),
    # --- hostile HDF5
    *((lambda folder, make=make: mat_7_3({}, make(secret(folder))), {},
       [f"[unsupported-format] a MATLAB 7.3 file (HDF5) with data in another file; {HOW_TO_SAVE}"])
      for make in (external, virtual)),
    *((mat_7_3({}, lambda file, link=link: file.__setitem__("n_ary_mask", link), libver), {},
       ["[not-numeric] 'n_ary_mask' is a link; expected an array of whole numbers."])
      for link in (h5py.SoftLink("/other"), h5py.ExternalLink("reference.h5", "n_ary_mask"))
      for libver in ("earliest", "latest")),
    *((mat_7_3({"n_ary_mask": LABELS}, chunks=(8, 8), **options), {},
       [f"[unsupported-format] a MATLAB 7.3 file (HDF5) with the filter {number}; {HOW_TO_SAVE}"])
      for options, number in (({"compression": "lzf"}, 32000), ({"scaleoffset": 0}, 6))),
    *((plain_hdf5(**options), {},
       ["[unsupported-format] an HDF5 file that is not MATLAB's, so the order of its axes is unknown; "
        f"{HOW_TO_SAVE}"]) for options in ({}, {"userblock_size": 512})),
    *((mat_7_3({}, bomb(compression)), {"shape_yx": (200, 310)},
       ["[unreadable-file] truncated or damaged data"]) for compression in ("gzip", None)),
    (mat_7_3({}, huge_chunks), {},
     ["[wrong-format] a damaged header (chunks of 1,600,000,000 bytes for an array of 2,480); expected"]),
    *((mat_7_3({}, dataset(HUGE, "i4", **options)), {"shape_yx": shape}, [line])
      for options in ({}, {"chunks": (1000, 1000)}) for shape, line in (
        (SHAPE, "[wrong-shape] 200,000 rows x 200,000 columns; expected 20 rows"),
        (HUGE, "[too-large] an array of 160,000,000,000 bytes (int32); expected at most"))),
    *((content, {}, ["…; expected a "])  # as HDF5 tells it, or dies of it
      for content in (cyclic(0), cyclic(1), continued_in_itself())),
    *((misplaced_chunk(offset), {}, ["[wrong-format] a damaged header ("]) for offset in (0, 1, 32)),
    # --- HoVer-Net
    (mat_file({"inst_map": LABELS, "inst_uid": [[2], [2], [7]], "inst_type": [[10], [10], [10]]}), HOVERNET,
     ["[wrong-length] 1 repeated ids in 'inst_uid'; expected each id once. Write 'inst_type' in the order of "
      "numpy.unique(inst_map)[1:], or write their ids as 'inst_uid'."]),
    *((mat_file({"inst_map": labels, "inst_type": [[10, 10], [10, 10]]}), HOVERNET,
       ["[wrong-length] 'inst_type': an array of 2 x 2; expected one column of"])
      for labels in (LABELS, np.arange(620).reshape(SHAPE) % 5)),  # as many classes as nuclei, or more
    (mat_file({"inst_map": LABELS, "id": [[300], [2], [7]], "class": [[10]], **BOXES}), HOVERNET,
     ["[wrong-length] 1 class in 'class' for 3 nuclei; expected one class for each nucleus. Write 'class' in the order "
      "of numpy.unique(inst_map)[1:], or write their ids as 'id'."]),
    (mat_file({"inst_map": LABELS, "inst_type": [[4], [10], [4]]}), HOVERNET,
     ["[unknown-class-value] 'inst_type': the value 4 for 2 nuclei (first for the id 2); expected 0 for no class, 10 "
      "('tumour'), 20 ('stroma'), 30 ('debris'). Write the values that the challenge gives to its classes."]),
    (mat_file({"inst_map": LABELS, "type_map": LABELS}), HOVERNET,
     "[unknown-class-value] 'type_map': the value 2 in 1 pixel"),
    (mat_file({"inst_map": LABELS, "inst_type": np.array([[10], [20], [0.5]])}), HOVERNET,
     ["[fractional-label] 'inst_type': 1 of 3 pixels is not a whole number"]),
    (mat_file({"n_ary_mask": LABELS, "type_map": LABELS}), HOVERNET,
     ["[no-mask-variable] the variables 'n_ary_mask' and 'type_map'; expected a variable 'inst_map'. Save the label "
      "image as 'inst_map'."]),
    (mat_file({"inst_map": "text"}), HOVERNET,
     ["[not-numeric] 'inst_map' is a text; expected an array of whole numbers."]),
    (ONE_MAP + ONE_MAP[128:], HOVERNET, ["[no-mask-variable] the variable 'inst_map' 2 times; expected each"]),
]  # fmt: skip

TABLE = Table(
    {"format": "nary_mat", "shape_yx": SHAPE},
    READ,
    REFUSED,
    [(mat_file({"inst_map": np.arange(620).reshape(SHAPE), "inst_type": ALL_TYPES}), HOVERNET, 8, 619)],
)
