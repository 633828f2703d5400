"""MetaImage (.mha) by itself; NIfTI (.nii, .nii.gz) and NRRD through SimpleITK, which reads files of a name only.

Its readers follow names in headers and return pixels for damaged data. So compressed data is inflated here, up to the
checksum, and headers with other file names or too little data are refused. For NIfTI and NRRD a copy with plain data is
written. For MetaImage a copy would take three to forty times as long as reading the data, which follows the header,
plain or compressed with zlib.
NIfTI-1 and -2 Data Format, https://nifti.nimh.nih.gov; NRRD File Format, https://teem.sourceforge.net/nrrd/format.html;
ITK, "MetaIO documentation".
"""

from __future__ import annotations

import math
import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding import streams
from evaluation.files.decoding.label_array import Pixels
from evaluation.files.decoding.streams import CutOff, Damaged, Plain, check_bytes, inflated, read_array, too_large
from evaluation.findings import quote
from evaluation.findings.errors import refused

MHA_HEADER_BYTES = 1 << 16
PADDING_BYTES = 64  # more data than those of the pixels
DTYPES = {
    "MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2", "MET_INT": "i4", "MET_UINT": "u4",
    "MET_LONG": "i4", "MET_ULONG": "u4", "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}  # fmt: skip


def peek_mha(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """Describe the image of a MetaImage file.

    Raises InputFault (external-data, unsupported-format), Damaged, CutOff; reading too-large, unreadable-file, CutOff.
    """
    header = _read_mha_header(stream)
    data_file = header["elementdatafile"]
    if data_file.upper() != "LOCAL":
        raise refused("external-data", where, wording="elsewhere", name=data_file)
    if header.get("binarydata", "True").lower() == "false":
        got = "pixels written as text (BinaryData = False)"
        raise refused("unsupported-format", where, got=got, expected="binary data")
    sizes_xy = [_whole_number(size, "DimSize") for size in header.get("dimsize", "").split()]
    if len(sizes_xy) != _whole_number(header.get("ndims", ""), "NDims") or not 1 <= len(sizes_xy) <= 8:
        raise Damaged("DimSize does not fit NDims")
    samples = _whole_number(header.get("elementnumberofchannels", "1"), "ElementNumberOfChannels")
    shape = (*reversed(sizes_xy), samples) if samples != 1 else tuple(reversed(sizes_xy))
    if header.get("elementtype", "").upper() not in DTYPES:
        raise Damaged(f"ElementType {quote(header.get('elementtype', ''))}")
    if header.get("headersize", "0") not in ("0", ""):
        raise Damaged("HeaderSize")
    orders = (header.get(key, "False").lower() for key in ("binarydatabyteordermsb", "elementbyteordermsb"))
    dtype = np.dtype((">" if "true" in orders else "<") + DTYPES[header["elementtype"].upper()])
    is_compressed = header.get("compresseddata", "False").lower() == "true"
    most = math.prod(shape) * dtype.itemsize + PADDING_BYTES

    def read() -> npt.NDArray[Any]:
        source = stream
        if is_compressed and most <= bytes_limit + PADDING_BYTES:  # else it is refused below
            plain = inflated(stream.read(), most, streams.ZLIB_OR_GZIP)
            if len(plain) > most:
                raise CutOff
            source = BytesIO(plain)
        return read_array(Plain(source), shape, dtype, where=where, bytes_limit=bytes_limit)

    return Pixels(where, shape, read, dtype, _spacing_of(header))


def _read_mha_header(stream: BinaryIO) -> dict[str, str]:
    """Read the header as values by lower-case key; the stream is left after ElementDataFile, the last line."""
    header: dict[str, str] = {}
    remaining_bytes = MHA_HEADER_BYTES
    while "elementdatafile" not in header:
        line = stream.readline(remaining_bytes)
        remaining_bytes -= len(line)
        if not line.endswith(b"\n"):
            if remaining_bytes <= 0:
                raise Damaged(f"no ElementDataFile in the first {MHA_HEADER_BYTES:,} bytes")
            if not line.strip().lower().startswith(b"elementdatafile"):
                raise CutOff
        key, equals, value = line.decode("latin-1").partition("=")
        key = key.strip().lower()
        if not equals or key in header:
            raise Damaged(f"the line {quote(line.decode('latin-1').strip())}")
        header[key] = value.strip()
    return header


def _spacing_of(header: Mapping[str, str]) -> list[float]:
    """Return the size of a pixel along x and y, mm; 1 if the header does not state it."""
    words = header.get("elementspacing", header.get("elementsize", "1 1")).split()
    try:
        sides = [float(word) for word in words]
    except ValueError:
        sides = []
    if len(sides) < 2 or not all(0 < side < math.inf for side in sides):
        raise Damaged("ElementSpacing")
    return sides


def _whole_number(text: str, key: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        raise Damaged(f"{key} is {quote(text)}")
    return int(text)


# --- NIfTI and NRRD. --------------------------------------------------------------------------------------------------


NRRD_MAGIC = b"NRRD000"
NIFTI_MAGICS = (b"\x5c\x01\0\0", b"\0\0\x01\x5c", b"\x1c\x02\0\0", b"\0\0\x02\x1c", b"\x1f\x8b")  # sizes of headers
NIFTI_HEADER_BYTES = 544  # of the larger kind, with the four bytes behind it
MOST_EXTENSION_BYTES = 1 << 20  # before the pixels
NRRD_HEADER_BYTES = 1 << 16
MORE_THAN_HEADERS = 1 << 12  # bytes behind the least header that are enough to understand it


def peek_nifti(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """Describe the image of a NIfTI file: its first axis is x, its second y. A spacing of 1 mm means unknown.

    Raises InputFault (external-data, too-large), CutOff, Damaged; reading too-large, CutOff, Damaged.
    """
    content, most = bytearray(), bytes_limit
    bits = 0
    for chunk in streams.unbounded_chunks(stream, where):
        before = len(content)
        content += chunk
        if before < NIFTI_HEADER_BYTES <= len(content):
            needed, bits = _nifti_bytes(bytes(content[:NIFTI_HEADER_BYTES]), where)
            most = min(most, needed + PADDING_BYTES)
        if len(content) > bytes_limit:
            raise too_large(where, "more after decompression", bytes_limit)
        if len(content) > most:
            raise Damaged("more data than its pixels need")
    if len(content) < NIFTI_HEADER_BYTES:
        _, bits = _nifti_bytes(bytes(content), where)
    return _peek_copy(bytes(content), ".nii", "NiftiImageIO", where, bytes_limit, 348, max(bits // 8, 1))


def _nifti_bytes(head: bytes, where: str) -> tuple[int, int]:
    """Return how many bytes a NIfTI file needs for header, extensions and pixels, and the bits of a pixel.

    Raises InputFault (external-data), CutOff, Damaged.
    """
    if len(head) < 348:
        raise CutOff
    is_second = struct.unpack_from("<i", head)[0] == 540 or struct.unpack_from(">i", head)[0] == 540
    magic = head[4:8] if is_second else head[344:348]
    if magic in (b"ni1\0", b"ni2\0"):
        raise refused("external-data", where, wording="beside-header", what="a separate image file")
    if magic not in (b"n+1\0", b"n+2\0") or (is_second and len(head) < 540):
        raise Damaged("no NIfTI header")
    order = "<" if head[:1] in (b"\x5c", b"\x1c") else ">"
    (bits,) = struct.unpack_from(f"{order}h", head, 14 if is_second else 72)  # fewer where numbers are scaled
    axes, *sides = struct.unpack_from(f"{order}8{'q' if is_second else 'h'}", head, 16 if is_second else 40)
    (start,) = struct.unpack_from(f"{order}{'q' if is_second else 'f'}", head, 168 if is_second else 108)
    if not 0 <= start <= MOST_EXTENSION_BYTES:
        raise Damaged("pixels that do not follow the header")
    pixels = math.prod(max(side, 1) for side in sides[: max(0, min(axes, 7))])
    return max(int(start), NIFTI_HEADER_BYTES) + pixels * max(bits, 8) // 8, int(bits)


def peek_nrrd(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """Describe the image of an NRRD file; otherwise as ``peek_nifti``. Its data are raw, or compressed with gzip."""
    content = stream.read()
    head, blank, data = content.partition(b"\n\n")
    if b"\r\n\r\n" in content[:NRRD_HEADER_BYTES]:
        head, blank, data = content.partition(b"\r\n\r\n")
    if not blank or len(head) > NRRD_HEADER_BYTES:
        raise CutOff
    if match := re.search(rb"^(?:data ?file|datafile) *:=?(.*)$", head, re.IGNORECASE | re.MULTILINE):
        what = f"another file, {quote(match[1].decode('latin-1').strip())}"
        raise refused("external-data", where, wording="beside-header", what=what)
    if re.search(rb"^(?:line|byte) ?skip *:", head, re.IGNORECASE | re.MULTILINE):
        raise Damaged("data that do not begin after the header")
    encodings = re.findall(rb"^encoding *: *(\S+) *\r?$", head, re.IGNORECASE | re.MULTILINE)
    if len(encodings) != 1 or encodings[0].lower() not in (b"raw", b"gzip", b"gz"):
        got = f"the encoding {quote(encodings[0].decode('latin-1'))}" if encodings else "no encoding"
        raise refused("unsupported-format", where, got=got, expected="raw or gzip")
    if encodings[0].lower() != b"raw":
        sizes = re.findall(rb"^sizes *: *([0-9 ]+?) *\r?$", head, re.IGNORECASE | re.MULTILINE)
        pixels = math.prod(map(int, sizes[0].split())) if len(sizes) == 1 else 0
        most = min(bytes_limit, 8 * pixels + PADDING_BYTES)
        data = inflated(data, most, streams.GZIP)
        if len(data) > bytes_limit:
            raise too_large(where, "more after decompression", bytes_limit)
        if len(data) > most:
            raise Damaged("more data than its pixels need")
        head = re.sub(rb"^(encoding *: *)\S+", rb"\1raw", head, flags=re.IGNORECASE | re.MULTILINE)
    return _peek_copy(head + blank + data, ".nrrd", "NrrdImageIO", where, bytes_limit, len(head))


def _peek_copy(
    copy: bytes, suffix: str, image_io: str, where: str, bytes_limit: int, least_header: int, stored: int | None = None
) -> Pixels:
    """Describe an image with checked bytes, as SimpleITK describes and reads it.

    stored  bytes of a number in the file; None: as in its type
    """
    import SimpleITK

    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO(image_io)
    with _itk_file(copy[: least_header + MORE_THAN_HEADERS], suffix) as name:
        reader.SetFileName(name)
        reader.ReadImageInformation()
    dtype, samples = _dtype_of(reader.GetPixelID()), reader.GetNumberOfComponents()
    shape = (*reversed(reader.GetSize()), *((samples,) if samples != 1 else ()))

    def read() -> npt.NDArray[Any]:
        check_bytes(math.prod(shape) * dtype.itemsize, "an array", where, bytes_limit)
        if len(copy) < least_header + math.prod(shape) * (stored or dtype.itemsize):
            raise CutOff
        with _itk_file(copy, suffix) as name:
            reader.SetFileName(name)
            return np.asarray(SimpleITK.GetArrayFromImage(reader.Execute()))

    return Pixels(where, shape, read, dtype, reader.GetSpacing())


def _dtype_of(pixel_id: int) -> np.dtype[Any]:
    """Return the type of the numbers of an image; a non-numeric type if numpy has no such type."""
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


@contextmanager
def _itk_file(content: bytes, suffix: str) -> Iterator[str]:
    """Write a temporary file with this content, and return its name. Errors of SimpleITK are raised as Damaged, with
    the end of the last line.
    """
    with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:  # Windows opens a file of a name once
        file.write(content)
    try:
        yield file.name
    except RuntimeError as error:
        raise Damaged(str(error).strip().rpartition("\n")[2][-80:]) from None
    finally:
        Path(file.name).unlink()
