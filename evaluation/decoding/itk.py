"""NIfTI (.nii, .nii.gz) and NRRD images through SimpleITK, which reads files of a name only: a copy is made for it.

Its readers follow names in headers and give pixels for damaged data. So compressed data are inflated here, up to their
check sum, the copy holds them plain, and a header that names another file, or has fewer data than it says, is refused.
NIfTI-1 and -2 Data Format, https://nifti.nimh.nih.gov; NRRD File Format, https://teem.sourceforge.net/nrrd/format.html.
"""

from __future__ import annotations

import math
import re
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.label_array import check_dtype, check_shape, check_spacing
from evaluation.decoding.streams import GZIP, CutOff, Damaged, check_bytes, inflated, too_large, unbounded_chunks
from evaluation.findings import Finding, fault, quote
from evaluation.findings.errors import InputFault, refusal

NRRD_MAGIC = b"NRRD000"
NIFTI_MAGICS = (b"\x5c\x01\0\0", b"\0\0\x01\x5c", b"\x1c\x02\0\0", b"\0\0\x02\x1c", b"\x1f\x8b")  # sizes of headers
NRRD_HEADER_BYTES = 1 << 16


def read_nifti(
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int = 1,
    spacing_um: float | None = None,
) -> npt.NDArray[Any]:
    """The pixels of a NIfTI file, if it has the shape of the image: its first axis is x, its second y.

    spacing_um   side of a pixel that the case has; compared with the file's, which is in mm (1 mm: not given)

    Raises InputFault: external-data, wrong-shape, wrong-spacing, not-numeric, too-large, unreadable-file; CutOff,
    Damaged.
    """
    content = bytearray()
    for chunk in unbounded_chunks(stream, where):
        content += chunk
        if len(content) > bytes_limit:
            raise too_large(where, "more after decompression", bytes_limit)
    head = bytes(content[:544])
    if len(head) < 348:
        raise CutOff
    is_second = struct.unpack_from("<i", head)[0] == 540 or struct.unpack_from(">i", head)[0] == 540
    magic = head[4:8] if is_second else head[344:348]
    if magic in (b"ni1\0", b"ni2\0"):
        raise InputFault(external(where, "an image file beside it"))
    if magic not in (b"n+1\0", b"n+2\0"):
        raise Damaged("no NIfTI header")
    return read_copy(
        bytes(content), ".nii", "NiftiImageIO", where, shape_yx, bytes_limit, channels, spacing_um, least_header=348
    )


def read_nrrd(
    stream: BinaryIO,
    *,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int = 1,
    spacing_um: float | None = None,
) -> npt.NDArray[Any]:
    """The pixels of an NRRD file; otherwise as ``read_nifti``. Its data are raw, or compressed with gzip."""
    content = stream.read()
    head, blank, data = content.partition(b"\n\n")
    if b"\r\n\r\n" in content[:NRRD_HEADER_BYTES]:
        head, blank, data = content.partition(b"\r\n\r\n")
    if not blank or len(head) > NRRD_HEADER_BYTES:
        raise CutOff
    if match := re.search(rb"^(?:data ?file|datafile) *:=?(.*)$", head, re.IGNORECASE | re.MULTILINE):
        raise InputFault(external(where, f"another file, {quote(match[1].decode('latin-1').strip())}"))
    if re.search(rb"^(?:line|byte) ?skip *:", head, re.IGNORECASE | re.MULTILINE):
        raise Damaged("data that do not begin behind the header")
    encodings = re.findall(rb"^encoding *: *(\S+) *\r?$", head, re.IGNORECASE | re.MULTILINE)
    if len(encodings) != 1 or encodings[0].lower() not in (b"raw", b"gzip", b"gz"):
        got = f"the encoding {quote(encodings[0].decode('latin-1'))}" if encodings else "no encoding"
        raise refusal("unsupported-format", where, got=got, expected="raw or gzip")
    if encodings[0].lower() != b"raw":
        data = inflated(data, bytes_limit, GZIP)
        if len(data) > bytes_limit:
            raise too_large(where, "more after decompression", bytes_limit)
        head = re.sub(rb"^(encoding *: *)\S+", rb"\1raw", head, flags=re.IGNORECASE | re.MULTILINE)
    copy = head + blank + data
    return read_copy(
        copy, ".nrrd", "NrrdImageIO", where, shape_yx, bytes_limit, channels, spacing_um, least_header=len(head)
    )


def external(where: str, what: str) -> Finding:
    return fault("external-data", where, wording="beside-header", what=what)


def read_copy(
    copy: bytes,
    suffix: str,
    image_io: str,
    where: str,
    shape_yx: tuple[int, int],
    bytes_limit: int,
    channels: int,
    spacing_um: float | None,
    *,
    least_header: int,
) -> npt.NDArray[Any]:
    """The pixels of an image whose bytes are checked, as SimpleITK reads them; its header is looked at first."""
    import SimpleITK

    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(image_io)
    with file_of(copy, suffix) as path:
        reader.SetFileName(str(path))
        try:
            reader.ReadImageInformation()
            dtype = dtype_of(reader.GetPixelID())
            check_dtype(dtype, where=where)
            samples = reader.GetNumberOfComponents()
            shape = (*reversed(reader.GetSize()), *((samples,) if samples != 1 else ()))
            check_shape(shape, where=where, shape_yx=shape_yx, channels=channels)
            stored = math.prod(shape)  # bytes, at least: the header may scale small numbers
            check_bytes(stored * dtype.itemsize, "an array", where, bytes_limit)
            if len(copy) < least_header + stored * stored_bytes(copy, suffix, dtype):
                raise CutOff
            check_spacing(reader.GetSpacing(), spacing_um, where)
            return np.asarray(SimpleITK.GetArrayFromImage(reader.Execute()))
        except RuntimeError as error:
            raise Damaged(str(error).strip().rpartition("\n")[2][-80:]) from None


def dtype_of(pixel_id: int) -> np.dtype[Any]:
    """The type of the numbers of an image; a type that is no number for those that numpy has none for."""
    import SimpleITK

    names = {
        getattr(SimpleITK, f"sitk{vector}{name}"): numpy_name
        for vector in ("", "Vector")
        for name, numpy_name in (
            ("UInt8", "u1"), ("Int8", "i1"), ("UInt16", "u2"), ("Int16", "i2"), ("UInt32", "u4"), ("Int32", "i4"),
            ("UInt64", "u8"), ("Int64", "i8"), ("Float32", "f4"), ("Float64", "f8"),
        )
    }  # fmt: skip
    return np.dtype(names.get(pixel_id, "c8"))


def stored_bytes(copy: bytes, suffix: str, dtype: np.dtype[Any]) -> int:
    """Bytes of a number in the file: NIfTI may store fewer than it has when it is scaled."""
    if suffix != ".nii":
        return dtype.itemsize
    order = "<" if copy[:1] in (b"\x5c", b"\x1c") else ">"
    bits = struct.unpack_from(f"{order}h", copy, 14 if copy[:4] in NIFTI_MAGICS[2:4] else 72)[0]
    return max(int(bits) // 8, 1)


@contextmanager
def file_of(content: bytes, suffix: str) -> Iterator[Path]:
    """A file with this content, which is gone at the end."""
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(content)
        file.flush()
        yield Path(file.name)
