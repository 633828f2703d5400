"""Windows of the image of a case, for pictures: SVS and TIFF (by tiles or strips) and PNG.

The images belong to the person who runs the program, and do not affect scores. So tifffile decodes them, with all
compressions of imagecodecs. Sizes are still bounded before memory is taken.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.files.decoding.pixels import read_image, read_image_size
from evaluation.files.decoding.streams import PNG_MAGIC
from evaluation.files.decoding.tiff import SEPARATE_PLANES
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused

Rgb = npt.NDArray[np.uint8]

MOST_BYTES = 1 << 28  # of a strip or tile, and of a PNG: these cannot be read in part
MOST_PIXELS = 1 << 28  # that a window may cover where it is read: about the tissue of 3 s
BAND_PIXELS = 1 << 22  # that are averaged at a time
MIN_IS_WHITE, MIN_IS_BLACK, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6  # how numbers become colours
JPEG = (6, 7, 34892, 33007)
PICTURES = "an SVS, TIFF or PNG file with grey or RGB pixels of 8 or 16 bits"


@dataclass(frozen=True, slots=True)
class Tissue:
    """An open image.

    shape_yx  its full size, px
    pixels    reads rows y0 to y1 - 1 and columns x0 to x1 - 1, which are inside the image, uint8 (h, w, 3)
    """

    path: Path
    shape_yx: tuple[int, int]
    pixels: Callable[[int, int, int, int], Rgb]

    def check_size(self, shape_yx: tuple[int, int]) -> None:
        """Raise InputFault if the image has another size than its case."""
        if self.shape_yx != shape_yx:
            raise _unreadable_tissue(self.path, "{:,} rows x {:,} columns".format(*self.shape_yx))

    def window(self, y0: int, x0: int, y1: int, x1: int, step: int = 1) -> Rgb:
        """The pixels of rows y0 to y1 - 1 and columns x0 to x1 - 1, uint8 (h, w, 3), each the mean of step x step.

        Blocks at the lower and right end may be smaller. Raises InputFault for undecodable or too much data, ValueError
        for a window that is empty or not inside the image.
        """
        if not (0 <= y0 < y1 <= self.shape_yx[0] and 0 <= x0 < x1 <= self.shape_yx[1] and step >= 1):
            raise ValueError(f"no window of an image of {self.shape_yx} px: rows {y0} to {y1}, columns {x0} to {x1}")
        if (pixels := (y1 - y0) * (x1 - x0)) > MOST_PIXELS:
            raise _too_large_tissue(self.path, f"{pixels:,} px to be looked at")
        if step == 1:
            return self.pixels(y0, x0, y1, x1)
        band = step * max(1, BAND_PIXELS // (step * (x1 - x0)))
        bands = [(y, min(y + band, y1)) for y in range(y0, y1, band)]
        return np.concatenate([mean_of_blocks(self.pixels(low, x0, high, x1), step) for low, high in bands])


@contextmanager
def open_tissue(path: Path) -> Iterator[Tissue]:
    """Open the image of a case. Raises InputFault (unreadable-image, too-large)."""
    import tifffile

    shape_yx = read_image_size(path)
    with path.open("rb") as stream:
        is_png = stream.read(8).startswith(PNG_MAGIC)
    if is_png:
        if 4 * math.prod(shape_yx) > MOST_BYTES:
            raise _too_large_tissue(path, f"a PNG of {shape_yx[0]:,} x {shape_yx[1]:,} px")
        wanted = {"shape_yx": shape_yx, "bytes_limit": 2 * MOST_BYTES, "channels": None}
        with path.open("rb") as stream:
            samples = read_image(stream, suffix=".png", where=quote(path.name), as_colours=True, **wanted)
        whole = _as_rgb(samples if samples.ndim == 3 else samples[..., np.newaxis])
        yield Tissue(path, shape_yx, lambda y0, x0, y1, x1: whole[y0:y1, x0:x1])
        return
    with _tissue_damage_told(path):
        file = tifffile.TiffFile(path)
    with file:
        with _tissue_damage_told(path):
            tiff = _TissuePage(path, file.pages[0].keyframe)
            shape_yx = tiff.page.imagelength, tiff.page.imagewidth
            tiff.check()
        yield Tissue(path, shape_yx, tiff.pixels)


@contextmanager
def _tissue_damage_told(path: Path) -> Iterator[None]:
    """Turn the many exceptions of tifffile and imagecodecs about damaged files into one finding."""
    import tifffile

    of_files = (tifffile.TiffFileError, struct.error, ValueError, RuntimeError, OSError, MemoryError)
    try:
        yield
    except (*of_files, LookupError, TypeError, AttributeError, ArithmeticError):
        raise _unreadable_tissue(path, "not an image that can be read") from None


def _unreadable_tissue(path: Path, got: str) -> InputFault:
    return refused("unreadable-image", quote(path.name), got=got, expected=PICTURES)


def _too_large_tissue(path: Path, got: str) -> InputFault:
    return refused("too-large", quote(path.name), wording="no-parts", got=got)


def mean_of_blocks(pixels: npt.NDArray[np.integer[Any]], step: int) -> Rgb:
    """The rounded mean of each block of step x step pixels, (h, w, 3); the last blocks may be smaller.

    >>> mean_of_blocks(np.array([[[0], [4], [9]], [[8], [8], [9]]]), 2)[..., 0].tolist()
    [[5, 9]]
    """
    rows, columns = (np.arange(0, size, step) for size in pixels.shape[:2])
    total = np.add.reduceat(np.add.reduceat(pixels, rows, axis=0, dtype=np.int64), columns, axis=1)
    height, width = (np.diff(np.append(at, size)) for at, size in zip((rows, columns), pixels.shape[:2], strict=True))
    count = (height[:, np.newaxis] * width)[..., np.newaxis]
    return np.asarray((2 * total + count) // (2 * count), np.uint8)


def _as_rgb(samples: npt.NDArray[Any]) -> Rgb:
    """Samples (H, W, S) as colours: grey, grey and alpha, RGB, or RGB and alpha; of 16 bits the upper 8."""
    if samples.dtype.itemsize == 2:
        samples = samples >> 8
    colours = samples[..., :3] if samples.shape[2] > 2 else np.repeat(samples[..., :1], 3, axis=2)
    return colours.astype(np.uint8)


# --- TIFF -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TissuePage:
    """The first image of an SVS or TIFF file, as tifffile has it."""

    path: Path
    page: Any

    @property
    def segment_yx(self) -> tuple[int, int]:
        """Height and width of a tile, or of a strip."""
        if self.page.is_tiled:
            return self.page.tilelength, self.page.tilewidth
        return min(self.page.rowsperstrip, self.page.imagelength), self.page.imagewidth

    def check(self) -> None:
        """Refuse files that cannot be read in parts, or are not pictures. Raises InputFault."""
        page = self.page
        if page.photometric not in (MIN_IS_WHITE, MIN_IS_BLACK, RGB, PALETTE, YCBCR) or page.imagedepth != 1:
            raise _unreadable_tissue(self.path, "pixels that are not grey or RGB")
        if page.dtype is None or page.dtype.kind not in "bu" or page.dtype.itemsize > 2:
            raise _unreadable_tissue(self.path, f"pixels of the type {page.dtype}")
        if math.prod(self.segment_yx) * page.samplesperpixel * page.dtype.itemsize > MOST_BYTES:
            raise _too_large_tissue(self.path, f"a strip or tile of {' x '.join(map(str, self.segment_yx))} px")

    def pixels(self, y0: int, x0: int, y1: int, x1: int) -> Rgb:
        """A window; only the strips or tiles under it are decoded. Missing parts are white."""
        with _tissue_damage_told(self.path):
            page, (down, across) = self.page, self.segment_yx
            planes = page.samplesperpixel if page.planarconfig == SEPARATE_PLANES else 1
            grid = planes, -(-page.imagelength // down), -(-page.imagewidth // across)
            rows, columns = range(y0 // down, -(-y1 // down)), range(x0 // across, -(-x1 // across))
            samples = np.full((y1 - y0, x1 - x0, page.samplesperpixel), np.iinfo(page.dtype).max, page.dtype)
            for plane, row, column in product(range(planes), rows, columns):
                segment = self.segment(int(np.ravel_multi_index((plane, row, column), grid)))
                if segment is not None:
                    top, left = row * down - y0, column * across - x0  # in the window
                    segment = segment[max(-top, 0) : y1 - y0 - top, max(-left, 0) : x1 - x0 - left]
                    channels = slice(plane, plane + 1) if planes > 1 else slice(None)
                    top, left = max(top, 0), max(left, 0)
                    samples[top : top + segment.shape[0], left : left + segment.shape[1], channels] = segment
            return self.colours_of(samples)

    def segment(self, index: int) -> npt.NDArray[Any] | None:
        """A decoded strip or tile, (h, w, samples); None if the file leaves it out."""
        page = self.page
        size = page.databytecounts[index]
        if size == 0:
            return None
        tables = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader} if page.compression in JPEG else {}
        decode, file = page.decode, page.parent.filehandle  # decode looks into the file, as the tables do
        file.seek(page.dataoffsets[index])
        data, _, _ = decode(file.read(min(size, 2 * MOST_BYTES)), index, **tables)
        return None if data is None else np.asarray(data[0])

    def colours_of(self, samples: npt.NDArray[Any]) -> Rgb:
        """Turn the numbers of the page into colours, by its photometric interpretation."""
        page = self.page
        if samples.dtype == np.bool_:
            samples = samples * np.uint8(255)
        if page.photometric == PALETTE:
            return np.asarray(page.colormap.reshape(3, -1).T[samples[..., 0]] >> 8, np.uint8)
        if page.photometric == MIN_IS_WHITE:
            samples = ~samples
        if page.dtype.itemsize == 2 and page.bitspersample < 16:
            samples = samples << (16 - page.bitspersample)
        return _as_rgb(samples)
