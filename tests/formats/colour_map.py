"""Colour-coded maps: nuclei restored as in the publication, and images that are none."""

from __future__ import annotations

from typing import Any

import numpy as np

from formats import Table
from formats.pixels import npy_file, png_file, tiff_file

RED, BLUE, BROWN, BLACK = (255, 0, 0), (0, 0, 255), (139, 69, 19), (0, 0, 0)
LETTERS = {".": BLACK, "#": BROWN, "t": RED, "s": BLUE}
DILATED = {"border": "remove_and_dilate"}
BLANK = np.zeros((4, 5, 3), np.uint8)


def drawn(picture: str) -> Any:
    return np.array([[LETTERS[letter] for letter in row] for row in picture.split()], np.uint8)


def size(picture: str) -> dict[str, Any]:
    return {"shape_yx": drawn(picture).shape[:2]}


def rgb(image: Any, **options: Any) -> bytes:
    return tiff_file(image, photometric="rgb", **options)


def with_alpha(opacity: int) -> Any:
    return np.dstack([IMAGE, np.full(IMAGE.shape[:2], opacity, np.uint8)])


PICTURE = """
    #####.......
    #tt#######..
    #tt#ss#tt#..
    ####ss#tt#..
    ...#######..
"""
IMAGE = drawn(PICTURE)
NUMBERED = ["............", ".11.........", ".11.33.22...", "....33.22...", "............"]
FOUND = {"digits": NUMBERED}
MANY_COLOURS = np.zeros((4, 50, 3), np.uint8)
MANY_COLOURS[0, :, 1] = np.arange(1, 51)
MANY_COLOURS[1:, :5, 2] = 9
HTML = "a web page (HTML)"

TABLE = Table(
    {
        "format": "colour_map", "colours": {"tumour": "#ff0000", "stroma": "#0000ff"}, "border_colour": "#8b4513",
        "border": "remove", "classes": {"tumour": 1, "stroma": 2}, "suffix": ".png", "shape_yx": IMAGE.shape[:2],
    },
    [
        ("nuclei without borders are numbered class by class", png_file(IMAGE), {},
         {"digits": NUMBERED, "class_of_instance": [1, 1, 2], "source": "a.png", "class_id": 0, "class_map": None}),
        *(("dilated nuclei grow by one pixel to each side and later classes win, whatever the order of the rules",
           png_file(IMAGE), DILATED | options,
           {"digits": [".11.........", "111133.22...", "1113333222..", ".113333222..", "....33.22..."]})
          for options in ({}, {"colours": {"stroma": "#0000ff", "tumour": "#ff0000"}})),
        *((why, png_file(drawn(picture)), options | size(picture), {"digits": digits, "class_of_instance": classes})
          for why, picture, options, digits, classes in (
            ("pixels that touch at a corner are one nucleus", "t...\n.t.t", {}, ["1...", ".1.2"], [1, 1]),
            ("a border pixel between two nuclei goes to the later one", "t#t#s#s#t", DILATED, ["122445553"],
             [1, 1, 1, 2, 2]),
            ("without a border a later class grows over an earlier one", "tts\n...\ntt.", DILATED,
             ["133", "223", "222"], [1, 1, 2]),
            ("and may take it whole", "ts", DILATED, ["22"], [2]),
            ("a map without nuclei has none", "....\n.##.", {}, ["....", "...."], []))),
        ("the class of the path counts before the colour", png_file(IMAGE), {"file_class": 2},
         {"class_of_instance": [2, 2, 2]}),
        *(("TIFF and npy give the same as PNG, whatever the layout and opacity", content, {"suffix": suffix}, FOUND)
          for content, suffix in (
            *((png_file(with_alpha(opacity)), ".png") for opacity in (0, 255)),
            *((rgb(with_alpha(opacity), extrasamples=[1]), ".tif") for opacity in (0, 255)),
            (rgb(IMAGE), ".tif"), (rgb(IMAGE, compression="zlib"), ".tif"),
            (rgb(np.moveaxis(IMAGE, 2, 0), planarconfig="separate"), ".tif"), (rgb(IMAGE, tile=(16, 16)), ".tiff"),
            (npy_file(IMAGE), ".npy"), (npy_file(np.asfortranarray(IMAGE)), ".npy"))),
    ],
    [
        *((content, {"suffix": suffix, "shape_yx": (4, 5)}, [line]) for content, suffix, line in (
            (png_file(BLANK[..., 0]), ".png", "[unsupported-format] 1 channel of uint8; expected 3"),
            (png_file(BLANK.astype(np.uint16)), ".png", "[unsupported-format] 3 channels of uint16;"),
            (npy_file(BLANK.astype(float)), ".npy", "[unsupported-format] 3 channels of float64; expected 3"),
            (npy_file(BLANK[..., :2]), ".npy", "[wrong-shape] an array of 4 x 5 x 2; expected"),
            (rgb(BLANK.transpose(1, 0, 2)), ".tif", "[wrong-shape] an array of 5 x 4 x 3; expected"),
            (png_file(BLANK.transpose(1, 0, 2)), ".png", "[wrong-shape] 5 rows x 4 columns; expected 4 r"),
            (b"\xff\xd8\xff", ".jpg", "[unsupported-format] a file with the suffix '.jpg'; ex"),
            (b"\xff\xd8\xff", ".png", "[wrong-format] a JPEG file; expected a PNG file, because of its suffix"),
            (b"\xff\xd8\xff", ".tif", "[wrong-format] a JPEG file; expected a TIFF file, because"),
            (b"<!DOCTYPE html><html>", ".tif",
             f"[wrong-format] {HTML}, such as the error of a download; expected a TIFF"),
            (b"\n<!Doctype HTML PUBLIC", ".png", f"[wrong-format] {HTML}, such as"),
            (b"<HTML>", ".png", f"[wrong-format] {HTML}"),
            (b" ", ".png", "[wrong-format] something else; expected"),
            (b"II*\0", ".tif", "[unreadable-file] truncated or damaged data"))),
        *((content, {"suffix": suffix, "limits": {"bytes_per_file": 50}}, ["[too-large]"])
          for content, suffix in ((png_file(IMAGE), ".png"), (rgb(IMAGE), ".tif"))),
        (png_file(MANY_COLOURS), {"shape_yx": (4, 50)},
         "[unknown-colour] the colour '#000009' in 15 pixels (first at row 1, column 0)"),
    ],
    [(png_file(MANY_COLOURS), {"shape_yx": (4, 50)}, 8, 51)],
)  # fmt: skip
