"""MetaImage files (.mha) whose data follow the header, plain or compressed with zlib.

They are read here and not by SimpleITK, which fetches the data from any path that the header names, and gave other
pixels at each read of damaged zlib data.
ITK, "MetaIO documentation".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.label_array import Pixels
from evaluation.decoding.streams import ZLIB_OR_GZIP, CutOff, Damaged, Plain, inflated, read_array
from evaluation.findings import quote
from evaluation.findings.errors import refused

MHA_HEADER_BYTES = 1 << 16
PADDING_BYTES = 64  # more data than those of the pixels
DTYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG": "i4",
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}


def peek_mha(stream: BinaryIO, where: str, bytes_limit: int) -> Pixels:
    """The image of a MetaImage file.

    Raises InputFault (external-data, unsupported-format), Damaged, CutOff; reading too-large, unreadable-file, CutOff.
    """
    header = read_mha_header(stream)
    data_file = header["elementdatafile"]
    if data_file.upper() != "LOCAL":
        raise refused("external-data", where, wording="elsewhere", name=data_file)
    if header.get("binarydata", "True").lower() == "false":
        got = "pixels written as text (BinaryData = False)"
        raise refused("unsupported-format", where, got=got, expected="binary data")
    sizes_xy = [whole_number(size, "DimSize") for size in header.get("dimsize", "").split()]
    if len(sizes_xy) != whole_number(header.get("ndims", ""), "NDims") or not 1 <= len(sizes_xy) <= 8:
        raise Damaged("DimSize does not fit NDims")
    samples = whole_number(header.get("elementnumberofchannels", "1"), "ElementNumberOfChannels")
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
            plain = inflated(stream.read(), most, ZLIB_OR_GZIP)
            if len(plain) > most:
                raise CutOff
            source = BytesIO(plain)
        return read_array(Plain(source), shape, dtype, where=where, bytes_limit=bytes_limit)

    return Pixels(where, shape, read, dtype, spacing_of(header))


def read_mha_header(stream: BinaryIO) -> dict[str, str]:
    """The header as values by key in lower case; the stream is left behind ElementDataFile, its last line."""
    header: dict[str, str] = {}
    left = MHA_HEADER_BYTES
    while "elementdatafile" not in header:
        line = stream.readline(left)
        left -= len(line)
        if not line.endswith(b"\n"):
            if left <= 0:
                raise Damaged(f"no ElementDataFile in the first {MHA_HEADER_BYTES:,} bytes")
            if not line.strip().lower().startswith(b"elementdatafile"):
                raise CutOff
        key, equals, value = line.decode("latin-1").partition("=")
        key = key.strip().lower()
        if not equals or key in header:
            raise Damaged(f"the line {quote(line.decode('latin-1').strip())}")
        header[key] = value.strip()
    return header


def spacing_of(header: Mapping[str, str]) -> list[float]:
    """The size of a pixel along x and y, mm; 1 if the header does not say it."""
    words = header.get("elementspacing", header.get("elementsize", "1 1")).split()
    try:
        sides = [float(word) for word in words]
    except ValueError:
        sides = []
    if len(sides) < 2 or not all(0 < side < math.inf for side in sides):
        raise Damaged("ElementSpacing")
    return sides


def whole_number(text: str, key: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        raise Damaged(f"{key} is {quote(text)}")
    return int(text)
