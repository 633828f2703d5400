"""The size of an image from its header; its pixels are not read."""

from __future__ import annotations

import struct
from pathlib import Path

from evaluation.decoding.content import PNG_MAGIC, TIFF_MAGICS
from evaluation.decoding.streams import CutOff, Damaged
from evaluation.decoding.tiff import TiffFile
from evaluation.findings import quote
from evaluation.findings.errors import refused

IMAGE_SUFFIXES = (".svs", ".tif", ".tiff", ".png", ".SVS", ".TIF", ".TIFF", ".PNG")


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
