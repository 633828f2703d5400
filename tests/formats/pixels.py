"""How files of pixels are made, by the libraries that other people write them with."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import imagecodecs
import numpy as np
import scipy.io
import SimpleITK
import tifffile

from nuclei_metrics.model import ClassTable

SHAPE = (20, 31)
LABELS = np.zeros(SHAPE, np.int32)
LABELS[2:9, 5:20] = 7
LABELS[12:19, 3:4] = 300
LABELS[0, 30] = 2
INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
TWO = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2, "debris": -1}, {10: 1, 20: 2, 30: -1})
CUT_OFF = "[unreadable-file] truncated or damaged data; expected a complete file. Write or copy"
HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
MATLAB_CLASSES = {"f8": "double", "f4": "single", "b1": "logical"}


def mat_file(variables: dict[str, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, variables, **options)
    return stream.getvalue()


def mat_7_3(
    variables: dict[str, Any], write: Callable[[h5py.File], Any] | None = None, libver: str = "earliest", **options: Any
) -> bytes:
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
    return HEADER.ljust(124) + b"\0\2IM" + stream.getvalue()[128:]


def npy_file(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), **options)
    return stream.getvalue()


def tiff_file(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def npz_file(*, compressed: bool = True, **arrays: Any) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def png_file(array: Any, **options: Any) -> bytes:
    return bytes(imagecodecs.png_encode(np.ascontiguousarray(array), **options))


def itk_file(
    folder: Path,
    suffix: str,
    array: Any = LABELS,
    *,
    spacing_mm: float = 1.0,
    compressed: bool = False,
    is_vector: bool = False,
) -> bytes:
    """A file of SimpleITK: .mha, .nii, .nii.gz or .nrrd."""
    image = SimpleITK.GetImageFromArray(array, isVector=is_vector)
    image.SetSpacing([spacing_mm] * image.GetDimension())
    SimpleITK.WriteImage(image, str(folder / f"made{suffix}"), useCompression=compressed)
    return (folder / f"made{suffix}").read_bytes()


def mha_file(folder: Path, array: Any, **options: Any) -> bytes:
    return itk_file(folder, ".mha", array, **options)


def entry_place(content: bytes | bytearray, tag: int) -> int:
    """Where the entry of a tag begins in a little-endian TIFF of one page."""
    (first,) = struct.unpack_from("<I", content, 4)
    (tags,) = struct.unpack_from("<H", content, first)
    places = range(first + 2, first + 2 + 12 * tags, 12)
    return next(place for place in places if struct.unpack_from("<H", content, place)[0] == tag)
