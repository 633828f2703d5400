"""Windows of the image of a case, for pictures: SVS and TIFF (by tiles or strips) and PNG.

The images are the organiser's own, or the participant's own, and no score is made of them; so tifffile decodes them,
with all compressions that imagecodecs knows. Sizes are bounded before memory is taken all the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from evaluation.decoding.content import PNG_MAGIC, TIFF_MAGICS
from evaluation.decoding.pixels import read_image, read_image_size
from evaluation.decoding.tiff import SEPARATE_PLANES
from evaluation.findings import quote
from evaluation.findings.errors import InputFault, refused

Rgb = npt.NDArray[np.uint8]

MOST_BYTES = 1 << 28  # of a strip or tile, and of a PNG: these cannot be read in part
MOST_PIXELS = 1 << 28  # that a window may cover where it is read: about the tissue of 3 s
BAND_PIXELS = 1 << 22  # that are averaged at a time
MIN_IS_WHITE, MIN_IS_BLACK, RGB, PALETTE, YCBCR = 0, 1, 2, 3, 6  # how numbers become colours
JPEG = (6, 7, 34892, 33007)
PICTURES = "an SVS, TIFF or PNG file with grey or RGB pixels of 8 or 16 bits"


class Tissue:
    """An open image. ``shape_yx`` is its full size, px."""

    path: Path
    shape_yx: tuple[int, int]

    def window(self, y0: int, x0: int, y1: int, x1: int, step: int = 1) -> Rgb:
        """The pixels of rows y0 to y1 - 1 and columns x0 to x1 - 1, uint8 (h, w, 3), each the mean of step x step.

        Blocks at the lower and right end may be smaller. Raises InputFault for what cannot be decoded, or is too much,
        ValueError for a window that is empty or not inside the image.
        """
        if not (0 <= y0 < y1 <= self.shape_yx[0] and 0 <= x0 < x1 <= self.shape_yx[1] and step >= 1):
            raise ValueError(f"no window of an image of {self.shape_yx} px: rows {y0} to {y1}, columns {x0} to {x1}")
        if (pixels := (y1 - y0) * (x1 - x0)) > MOST_PIXELS:
            raise too_large(self.path, f"{pixels:,} px to be looked at")
        if step == 1:
            return self.pixels(y0, x0, y1, x1)
        band = step * max(1, BAND_PIXELS // (step * (x1 - x0)))
        bands = [(y, min(y + band, y1)) for y in range(y0, y1, band)]
        return np.concatenate([mean_of_blocks(self.pixels(low, x0, high, x1), step) for low, high in bands])

    def pixels(self, y0: int, x0: int, y1: int, x1: int) -> Rgb:
        """Read every pixel of a window that lies inside the image."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_tissue(path: Path) -> Tissue:
    """Open the image of a case; close it, or use it as a context. Raises InputFault (unreadable-image, too-large)."""
    shape_yx = read_image_size(path)
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(TIFF_MAGICS):
        return TiffTissue(path)
    assert head.startswith(PNG_MAGIC)  # or its size were not known
    return PngTissue(path, shape_yx)


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Turn the many exceptions of tifffile and imagecodecs about damaged files into one finding."""
    import tifffile

    of_files = (tifffile.TiffFileError, struct.error, ValueError, RuntimeError, OSError, MemoryError)
    try:
        yield
    except (*of_files, LookupError, TypeError, AttributeError, ArithmeticError):
        raise unreadable(path, "not an image that can be read") from None


def unreadable(path: Path, got: str) -> InputFault:
    return refused("unreadable-image", quote(path.name), got=got, expected=PICTURES)


def too_large(path: Path, got: str) -> InputFault:
    return refused("too-large", quote(path.name), wording="no-parts", got=got)


def mean_of_blocks(pixels: npt.NDArray[np.integer[Any]], step: int) -> Rgb:
    """The rounded mean of each block of step x step pixels, (h, w, 3); the last ones may be smaller.

    >>> mean_of_blocks(np.array([[[0], [4], [9]], [[8], [8], [9]]]), 2)[..., 0].tolist()
    [[5, 9]]
    """
    rows, columns = (np.arange(0, size, step) for size in pixels.shape[:2])
    total = np.add.reduceat(np.add.reduceat(pixels, rows, axis=0, dtype=np.int64), columns, axis=1)
    height, width = (np.diff(np.append(at, size)) for at, size in zip((rows, columns), pixels.shape[:2], strict=True))
    count = (height[:, np.newaxis] * width)[..., np.newaxis]
    return np.asarray((2 * total + count) // (2 * count), np.uint8)


# --- PNG --------------------------------------------------------------------------------------------------------------


class PngTissue(Tissue):
    """A PNG, which is decoded as a whole when the first window is read."""

    def __init__(self, path: Path, shape_yx: tuple[int, int]) -> None:
        if 4 * math.prod(shape_yx) > MOST_BYTES:
            raise too_large(path, f"a PNG of {shape_yx[0]:,} x {shape_yx[1]:,} px")
        self.path = path
        self.shape_yx = shape_yx
        self.decoded: Rgb | None = None

    def pixels(self, y0: int, x0: int, y1: int, x1: int) -> Rgb:
        if self.decoded is None:
            wanted = {"shape_yx": self.shape_yx, "bytes_limit": 2 * MOST_BYTES, "channels": None}
            with self.path.open("rb") as stream:
                samples = read_image(stream, suffix=".png", where=quote(self.path.name), as_colours=True, **wanted)
            self.decoded = as_rgb(samples if samples.ndim == 3 else samples[..., np.newaxis])
        return self.decoded[y0:y1, x0:x1].copy()

    def close(self) -> None:
        self.decoded = None


def as_rgb(samples: npt.NDArray[Any]) -> Rgb:
    """Samples (H, W, S) as colours: grey, grey and alpha, RGB, or RGB and alpha; of 16 bits the upper 8."""
    if samples.dtype.itemsize == 2:
        samples = samples >> 8
    colours = samples[..., :3] if samples.shape[2] > 2 else np.repeat(samples[..., :1], 3, axis=2)
    return colours.astype(np.uint8)


# --- TIFF -------------------------------------------------------------------------------------------------------------


class TiffTissue(Tissue):
    """The first image of an SVS or TIFF file, ``page``."""

    def __init__(self, path: Path) -> None:
        import tifffile

        self.path = path
        with damage_told(path):
            self.file = tifffile.TiffFile(path)
        try:
            with damage_told(path):
                page: Any = self.file.pages[0].keyframe
                self.page, self.shape_yx = page, (page.imagelength, page.imagewidth)
                self.check()
        except InputFault:
            self.file.close()
            raise

    def check(self) -> None:
        """Refuse what cannot be read in parts, or is no picture. Raises InputFault."""
        page, segment_yx = self.page, self.segment_yx()
        if page.photometric not in (MIN_IS_WHITE, MIN_IS_BLACK, RGB, PALETTE, YCBCR) or page.imagedepth != 1:
            raise unreadable(self.path, "pixels that are neither grey nor RGB")
        if page.dtype is None or page.dtype.kind not in "bu" or page.dtype.itemsize > 2:
            raise unreadable(self.path, f"pixels of the type {page.dtype}")
        if math.prod(segment_yx) * page.samplesperpixel * page.dtype.itemsize > MOST_BYTES:
            raise too_large(self.path, f"a strip or tile of {' x '.join(map(str, segment_yx))} px")

    def segment_yx(self) -> tuple[int, int]:
        """Height and width of a tile, or of a strip."""
        if self.page.is_tiled:
            return self.page.tilelength, self.page.tilewidth
        return min(self.page.rowsperstrip, self.page.imagelength), self.page.imagewidth

    def close(self) -> None:
        self.file.close()

    def pixels(self, y0: int, x0: int, y1: int, x1: int) -> Rgb:
        """A window; only the strips or tiles under it are decoded. What a file leaves out is white."""
        with damage_told(self.path):
            page = self.page
            planes = page.samplesperpixel if page.planarconfig == SEPARATE_PLANES else 1
            samples = np.full((y1 - y0, x1 - x0, page.samplesperpixel), np.iinfo(page.dtype).max, page.dtype)
            down, across = self.segment_yx()
            per_row = -(-page.imagewidth // across)
            per_plane = per_row * -(-page.imagelength // down)
            for plane in range(planes):
                for row in range(y0 // down, -(-y1 // down)):
                    for column in range(x0 // across, -(-x1 // across)):
                        data = self.segment(plane * per_plane + row * per_row + column)
                        if data is None:
                            continue
                        top, left = row * down, column * across
                        data = data[max(y0 - top, 0) : y1 - top, max(x0 - left, 0) : x1 - left]
                        y, x = max(top - y0, 0), max(left - x0, 0)
                        into = samples[..., plane : plane + 1] if planes > 1 else samples
                        into[y : y + data.shape[0], x : x + data.shape[1]] = data
            return colours_of(samples, page)

    def segment(self, index: int) -> npt.NDArray[Any] | None:
        """A decoded strip or tile, (h, w, samples); None if the file leaves it out."""
        page = self.page
        size = page.databytecounts[index]
        if size == 0:
            return None
        tables = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader} if page.compression in JPEG else {}
        decode = page.decode  # it looks into the file, as the tables do
        self.file.filehandle.seek(page.dataoffsets[index])
        data, _, _ = decode(self.file.filehandle.read(min(size, 2 * MOST_BYTES)), index, **tables)
        return None if data is None else np.asarray(data[0])


def colours_of(samples: npt.NDArray[Any], page: Any) -> Rgb:
    """Turn the numbers of a TIFF page into colours, by its photometric interpretation."""
    if samples.dtype == np.bool_:
        samples = samples * np.uint8(255)
    if page.photometric == PALETTE:
        return np.asarray(page.colormap.reshape(3, -1).T[samples[..., 0]] >> 8, np.uint8)
    if page.photometric == MIN_IS_WHITE:
        samples = ~samples
    if page.dtype.itemsize == 2 and page.bitspersample < 16:
        samples = samples << (16 - page.bitspersample)
    return as_rgb(samples)
