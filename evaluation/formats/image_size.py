"""The size of an image from its header; its pixels are not read."""

from __future__ import annotations

from pathlib import Path

import tifffile

from evaluation.errors import InputFault
from evaluation.findings import Finding, quote

IMAGE_SUFFIXES = (".svs", ".tif", ".tiff", ".SVS", ".TIF", ".TIFF")


def read_image_size(path: Path) -> tuple[int, int]:
    """Height and width of the full-resolution image of an SVS or TIFF file, px. Raises InputFault."""
    try:
        with tifffile.TiffFile(path) as tiff:
            page = tiff.pages.first
            return int(page.imagelength), int(page.imagewidth)
    except (tifffile.TiffFileError, OSError, ValueError, IndexError) as error:
        raise InputFault(
            Finding("unreadable-image", quote(path.name), "not a TIFF that can be read", "an SVS or TIFF file")
        ) from error
