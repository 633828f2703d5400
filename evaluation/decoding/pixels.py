"""Files of pixels: which container a file is, what it says of its image, and the image, once that is what it must be.

A container has one function. It looks at the header of a stream and gives ``Pixels``, before memory for the image is
taken; ``read_image`` compares them with the case and reads.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NoReturn

import numpy.typing as npt

from evaluation.decoding.content import (
    EMPTY_ZIP_MAGIC,
    HEAD_BYTES,
    MHA_MAGICS,
    NPY_MAGIC,
    PICKLES,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
    check_content,
    foreign_content,
)
from evaluation.decoding.itk import NIFTI_MAGICS, NRRD_MAGIC, peek_mha, peek_nifti, peek_nrrd
from evaluation.decoding.label_array import Pixels, check_dtype, check_shape, check_spacing
from evaluation.decoding.npy import peek_npy, peek_npz
from evaluation.decoding.png import peek_png
from evaluation.decoding.streams import CutOff, Damaged, damage_told, stream_size
from evaluation.decoding.tiff import TiffFile, peek_tiff
from evaluation.findings import quote
from evaluation.findings.errors import refused

PICKLE_SUFFIXES = (".pkl", ".pickle")
DETACHED = {".mhd": ".mha", ".nhdr": ".nrrd"}  # headers of files with data, which they name
IMAGE_SUFFIXES = (".svs", ".tif", ".tiff", ".png", ".SVS", ".TIF", ".TIFF", ".PNG")  # of whole images
DOUBLE_SUFFIXES = (".nii.gz", ".zarr.zip")


@dataclass(frozen=True, slots=True)
class Container:
    """What looks at files with a suffix, how they start, and what they are called."""

    peek: Callable[..., Pixels]
    magics: tuple[bytes, ...]
    name: str


CONTAINERS = {
    ".npy": Container(peek_npy, (NPY_MAGIC,), "a NumPy file"),
    ".npz": Container(peek_npz, (ZIP_MAGIC, EMPTY_ZIP_MAGIC), "a NumPy file of arrays (.npz)"),
    ".png": Container(peek_png, (PNG_MAGIC,), "a PNG file"),
    ".tif": Container(peek_tiff, TIFF_MAGICS, "a TIFF file"),
    ".tiff": Container(peek_tiff, TIFF_MAGICS, "a TIFF file"),
    ".mha": Container(peek_mha, MHA_MAGICS, "a MetaImage file"),
    ".nii": Container(peek_nifti, NIFTI_MAGICS, "a NIfTI file"),
    ".nii.gz": Container(peek_nifti, NIFTI_MAGICS, "a NIfTI file"),
    ".nrrd": Container(peek_nrrd, (NRRD_MAGIC,), "an NRRD file"),
}


def peek(stream: BinaryIO, suffix: str, where: str, bytes_limit: int, **options: Any) -> Pixels:
    """What a file says of its image. Raises InputFault: unsupported-format, pickle, too-large and those of its header.

    suffix    of the file, in lower case
    options   what only this container needs to know
    """
    stream_size(stream, where=where, bytes_limit=bytes_limit)
    if suffix not in CONTAINERS:
        refuse_suffix(suffix, stream.read(HEAD_BYTES), where)
    container = CONTAINERS[suffix]
    check_content(stream, where=where, magics=container.magics, name=container.name)
    with damage_told(where, container.name):
        return container.peek(stream, where, bytes_limit, **options)


def open_image(
    stream: BinaryIO,
    *,
    suffix: str,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int | None = 1,
    spacing_um: float | None = None,
    **options: Any,
) -> Pixels:
    """The image of a file, not read yet, if it has the right shape, numbers, and the spacing of the case.

    channels    how many it must have; None: any, behind the other axes
    spacing_um  side of a pixel that the case has; None: not known

    Raises InputFault: several-images, not-numeric, wrong-shape, wrong-spacing, and those of ``peek``.
    """
    pixels = peek(stream, suffix, where, bytes_limit, **options)
    if pixels.pages not in (1, channels):
        raise refused("several-images", where, got=f"{pixels.pages} pages")
    if pixels.dtype is not None:
        check_dtype(pixels.dtype, where=pixels.where)
    shape = pixels.shape if channels is not None else pixels.shape[:2]
    check_shape(shape, where=pixels.where, shape_yx=shape_yx, channels=channels or 1)
    if pixels.spacing_mm is not None:
        check_spacing(pixels.spacing_mm, spacing_um, where)
    return pixels


def read_image(stream: BinaryIO, *, suffix: str, where: str, **wanted: Any) -> npt.NDArray[Any]:
    """The image of a file, as it stands there, if it is as ``open_image`` wants it. Raises InputFault."""
    pixels = open_image(stream, suffix=suffix, where=where, **wanted)
    with damage_told(where, CONTAINERS[suffix].name):
        return pixels.read()


def suffix_of(name: str) -> str:
    """The suffix of a file name, in lower case.

    >>> suffix_of("P1/labels.TIF"), suffix_of("P1/labels.nii.gz")
    ('.tif', '.nii.gz')
    """
    double = next((suffix for suffix in DOUBLE_SUFFIXES if name.lower().endswith(suffix)), "")
    return double or PurePosixPath(name).suffix.lower()


def refuse_suffix(suffix: str, head: bytes, where: str) -> NoReturn:
    if suffix in PICKLE_SUFFIXES or head.startswith(PICKLES):
        raise refused("pickle", where)
    fix = "Write the labels as .npy, .png, .tif or .mha."
    if suffix in DETACHED:
        fix = f"Write one {DETACHED[suffix]} file, which holds header and data."
    got = foreign_content(head) or file_with(suffix)
    raise refused("unsupported-format", where, wording="other-suffix", got=got, fix=fix, known=CONTAINERS)


def file_with(suffix: str) -> str:
    return f"a file with the suffix {quote(suffix)}" if suffix else "a file without a suffix"


def read_image_size(path: Path) -> tuple[int, int]:
    """Height and width of the full-resolution image of an SVS, TIFF or PNG file, px. Raises InputFault."""
    height = width = 0
    try:
        with path.open("rb") as stream:
            head = stream.read(24)
            if head.startswith(TIFF_MAGICS):
                page = TiffFile(stream).pages()[0]
                height, width = page.height, page.width
            elif head.startswith(PNG_MAGIC) and len(head) == 24:
                width, height = struct.unpack_from(">II", head, 16)
    except (CutOff, Damaged, OSError):
        height = width = 0
    if height < 1 or width < 1:
        raise refused("unreadable-image", quote(path.name), expected="an SVS, TIFF or PNG file")
    return height, width
