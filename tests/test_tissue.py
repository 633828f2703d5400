"""Windows of images: the same pixels as tifffile and scikit-image decode, and no more of a file than they need."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import io
from skimage.measure import block_reduce

from evaluation.findings.errors import InputFault
from evaluation.report.tissue import mean_of_blocks, open_tissue

HEIGHT, WIDTH = 70, 110
WINDOWS = [(0, 0, HEIGHT, WIDTH), (0, 0, 1, 1), (17, 30, 49, 81), (69, 109, 70, 110), (15, 0, 33, WIDTH)]


def picture(seed: int = 0) -> npt.NDArray[np.uint8]:
    """Smooth colours, so that lossy compressions stay near, with a detail in the middle."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    rgb = np.stack([2 * y, x, (x + y + 40 * seed) % 256], axis=2).astype(np.uint8)
    rgb[30:34, 40:47] = (255, 0, 90)
    return rgb


def agree(path: Path, expected: npt.NDArray[np.uint8]) -> None:
    with open_tissue(path) as tissue:
        assert tissue.shape_yx == expected.shape[:2]
        for y0, x0, y1, x1 in WINDOWS:
            window = tissue.window(y0, x0, y1, x1)
            assert window.dtype == np.uint8
            np.testing.assert_array_equal(window, expected[y0:y1, x0:x1])


# --- what tifffile decodes as a whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [(32, 48), None], ids=["tiles", "strips"])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw", "zstd", "packbits", "jpeg", "jpeg2000"])
def test_windows_are_those_of_the_whole_image(tmp_path, tile, compression):
    path = tmp_path / "a.tif"
    rows = None if tile else 16
    tifffile.imwrite(path, picture(), photometric="rgb", tile=tile, rowsperstrip=rows, compression=compression)
    agree(path, tifffile.imread(path))


@pytest.mark.parametrize(
    "options",
    [
        {"bigtiff": True},
        {"byteorder": ">"},
        {"planarconfig": "separate", "tile": (32, 32)},
        {"predictor": True, "compression": "zlib"},
        {"compression": "jpeg", "subsampling": (2, 2), "tile": (32, 32)},
    ],
    ids=str,
)
def test_other_ways_to_write_the_same_image(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.tif"
    image = np.moveaxis(picture(), 2, 0) if "planarconfig" in options else picture()
    tifffile.imwrite(path, image, photometric="rgb", **options)
    decoded = tifffile.imread(path)
    agree(path, np.moveaxis(decoded, 0, 2) if "planarconfig" in options else decoded)


def test_every_kind_of_pixels_becomes_colours_of_8_bits(tmp_path: Path) -> None:
    """Of 16 bits the upper 8, of white that is the lowest number its opposite, and no opacity."""
    rgb, grey, alpha = picture(), picture()[..., 0], np.full((HEIGHT, WIDTH), 200, np.uint8)
    spread = np.repeat(rgb[..., :1], 3, axis=2)
    palette = np.random.default_rng(5).integers(0, 256, (3, 256)).astype(np.uint16) * 257
    for name, image, expected, options in (
        ("8.tif", grey, spread, {"photometric": "minisblack"}),
        ("16.tif", grey.astype(np.uint16) * 257, spread, {"photometric": "minisblack"}),
        ("be.tif", (grey.astype(np.uint16) * 257).astype(">u2"), spread, {"photometric": "minisblack"}),
        ("white.tif", grey, 255 - spread, {"photometric": "miniswhite"}),
        ("palette.tif", grey, (palette.T[grey] // 257).astype(np.uint8),
         {"photometric": "palette", "colormap": palette}),
        ("alpha.tif", np.dstack([rgb, alpha]), rgb, {"photometric": "rgb", "extrasamples": ["unassalpha"]}),
        ("1.png", grey, spread, None), ("2.png", np.dstack([grey, alpha]), spread, None),
        ("3.png", rgb, rgb, None), ("4.png", np.dstack([rgb, alpha]), rgb, None),
    ):  # fmt: skip
        if options is None:
            io.imsave(tmp_path / name, image, check_contrast=False)
        else:
            tifffile.imwrite(tmp_path / name, image, **options)
        agree(tmp_path / name, expected)


def test_real_slides_are_decoded_as_tifffile_does(shared_data: Path) -> None:
    for name in ("A9K0_1", "A9K0_3"):
        path = shared_data / "monusac" / f"{name}.svs"
        whole = tifffile.imread(path, key=0)
        height, width = whole.shape[:2]
        with open_tissue(path) as tissue:
            np.testing.assert_array_equal(tissue.window(0, 0, height, width), whole)
            np.testing.assert_array_equal(tissue.window(100, 201, 185, 497), whole[100:185, 201:497])


# --- smaller ----------------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_blocks_are_means(data: st.DataObject) -> None:
    height, width, step = (data.draw(st.integers(1, 12)) for _ in range(3))
    pixels = np.random.default_rng(height * width).integers(0, 256, (height, width, 3)).astype(np.uint8)
    expected = [
        [np.floor(pixels[y : y + step, x : x + step].reshape(-1, 3).mean(axis=0) + 0.5) for x in range(0, width, step)]
        for y in range(0, height, step)
    ]
    np.testing.assert_array_equal(mean_of_blocks(pixels, step), expected)


def test_a_smaller_window_is_made_of_means_over_bands_and_tiles(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluation.report.tissue.BAND_PIXELS", 1000)  # several bands
    tifffile.imwrite(tmp_path / "a.tif", picture(), photometric="rgb", tile=(16, 32))
    means = block_reduce(picture(), (7, 7, 1), np.mean)[:9, :14]  # without incomplete blocks
    with open_tissue(tmp_path / "a.tif") as tissue:
        window = tissue.window(0, 0, HEIGHT, WIDTH, 7)
    assert window.shape == (10, 16, 3)
    np.testing.assert_array_equal(window[:9, :14], np.floor(means + 0.5))


def test_pages_that_are_other_images_are_no_reduced_copies(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.stack([picture(0), picture(1)]), photometric="rgb")
    with open_tissue(tmp_path / "a.tif") as tissue:
        np.testing.assert_array_equal(tissue.window(0, 0, HEIGHT, WIDTH), picture(0))
        np.testing.assert_array_equal(tissue.window(0, 0, HEIGHT, WIDTH, 2), mean_of_blocks(picture(0), 2))


# --- no more than is needed -------------------------------------------------------------------------------------------


def test_only_the_tiles_under_a_window_are_decoded(tmp_path: Path) -> None:
    """All other tiles are overwritten with what nothing can decode."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture(), photometric="rgb", tile=(16, 16), compression="zlib")
    with tifffile.TiffFile(path) as file:
        page = file.pages[0].keyframe
        across = -(-WIDTH // 16)
        places = list(zip(page.dataoffsets, page.databytecounts, strict=True))
    data = bytearray(path.read_bytes())
    for index, (offset, size) in enumerate(places):
        if index not in (across + 2, across + 3):
            data[offset : offset + size] = b"\xff" * size
    path.write_bytes(data)
    with open_tissue(path) as tissue:
        np.testing.assert_array_equal(tissue.window(16, 32, 32, 64), picture()[16:32, 32:64])
        with pytest.raises(InputFault, match="unreadable-image"):
            tissue.window(16, 31, 32, 64)


def test_a_window_of_a_huge_slide_takes_the_memory_of_a_window(tmp_path: Path) -> None:
    """100,000 x 100,000 px, of which one tile is there; the others are left out, which is white."""
    path = tmp_path / "a.tif"
    tiles = (b"\x07" * (256 * 256 * 3) if index == 391 * 5 + 5 else b"" for index in range(391 * 391))
    tifffile.imwrite(path, tiles, shape=(100_000, 100_000, 3), dtype=np.uint8, tile=(256, 256), photometric="rgb")
    with open_tissue(path) as tissue:
        import resource  # Windows has none

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        window = tissue.window(1270, 1270, 1400, 1400)
        assert (window[10:, 10:] == 7).all() and (window[:10] == 255).all()
        with pytest.raises(InputFault, match="too-large"):
            tissue.window(0, 0, 100_000, 100_000, 150)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(path: Path) -> str:
    with pytest.raises(InputFault) as raised, open_tissue(path) as tissue:
        tissue.window(0, 0, *tissue.shape_yx)
    return str(raised.value)


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((5, 6), np.float32))
    assert "pixels of the type float32" in refusal(path)
    tifffile.imwrite(path, np.zeros((5, 6), np.int32))
    assert "pixels of the type int32" in refusal(path)
    path.write_bytes(b"GIF89a")
    assert "unreadable-image" in refusal(path)
    assert "unreadable-image" in refusal(tmp_path / "absent.tif")


def test_one_huge_strip_cannot_be_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, picture(), photometric="rgb", rowsperstrip=HEIGHT)
    with tifffile.TiffFile(path, mode="r+b") as file:
        tags = file.pages[0].tags  # type: ignore[union-attr]
        for name in ("ImageLength", "ImageWidth", "RowsPerStrip"):
            tags[name].overwrite(30_000)
    assert "too-large" in refusal(path)


def test_a_huge_png_is_not_decoded(tmp_path: Path) -> None:
    io.imsave(tmp_path / "a.png", picture(), check_contrast=False)
    data = bytearray((tmp_path / "a.png").read_bytes())
    data[16:24] = (30_000).to_bytes(4, "big") * 2
    (tmp_path / "a.png").write_bytes(data)
    assert "too-large" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize("colours", [256, 30])
@pytest.mark.parametrize("step", [1, 2])
def test_a_palette_without_a_colour_for_each_number_is_told(tmp_path: Path, colours: int, step: int) -> None:
    palette = np.zeros((3, 256), np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", picture()[..., 0] | 128, photometric="palette", colormap=palette)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    place = data.index(struct.pack("<HHI", 320, 3, 768))
    data[place + 4 : place + 8] = struct.pack("<I", colours)
    (tmp_path / "a.tif").write_bytes(data)
    with open_tissue(tmp_path / "a.tif") as tissue, pytest.raises(InputFault, match="unreadable-image"):
        tissue.window(0, 0, 20, 20, step)


@given(st.integers(0, 2**31), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_damage_is_told_or_harmless(tmp_path_factory: pytest.TempPathFactory, seed: int, bytes_changed: int) -> None:
    path = tmp_path_factory.mktemp("damaged") / "a.tif"
    tifffile.imwrite(path, picture(), photometric="rgb", tile=(32, 32), compression="zlib")
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    random = np.random.default_rng(seed)
    places = random.integers(0, min(len(data), 600) if seed % 2 else len(data), bytes_changed)
    data[places] = random.integers(0, 256, bytes_changed)
    path.write_bytes(data.tobytes()[: random.integers(8, len(data) + 1)] if seed % 3 == 0 else data.tobytes())
    try:
        with open_tissue(path) as tissue:
            tissue.window(0, 0, min(tissue.shape_yx[0], 99), min(tissue.shape_yx[1], 99))
    except InputFault:
        pass


@pytest.mark.parametrize("window", [(0, 0, 0, 5), (-1, 0, 5, 5), (0, 0, HEIGHT + 1, 5), (5, 9, 9, 9), (0, 0, 5, 5, 0)])
def test_windows_outside_are_a_mistake_of_the_caller(tmp_path: Path, window: tuple[int, ...]) -> None:
    tifffile.imwrite(tmp_path / "a.tif", picture(), photometric="rgb")
    with open_tissue(tmp_path / "a.tif") as tissue, pytest.raises(ValueError, match="no window"):
        tissue.window(*window)
