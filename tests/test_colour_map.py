"""Colour-coded maps: nuclei restored as in the publication, compared with scikit-image and a slow literal version."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from imagecodecs import png_encode
from label_pictures import picture
from skimage.measure import label
from skimage.morphology import dilation
from skimage.morphology import disk as footprint
from test_label_formats import npy_file as npy
from test_mat_formats import refusals

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.label_image import read_colour_map, restore_nuclei
from evaluation.model import Case, ClassTable, LabelImage

RED, BLUE, BROWN, BLACK = (255, 0, 0), (0, 0, 255), (139, 69, 19), (0, 0, 0)
COLOURS = {"tumour": "#ff0000", "stroma": "#0000ff"}
CLASSES = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2})
LETTERS = {".": BLACK, "#": BROWN, "t": RED, "s": BLUE}
LIMIT = 10_000_000


def request(suffix: str = ".png", border: str = "remove", limit: int = LIMIT, file_class: int = 0) -> Request:
    rules: Any = {"colours": COLOURS, "border_colour": "#8b4513", "border": border}
    return Request(
        where=f"case 'a', 'a{suffix}'",
        name=f"a{suffix}",
        rules=format_rules(format="colour_map", files="{case}" + suffix, **rules),
        classes=CLASSES,
        limits=LimitRules(bytes_per_file=limit),
        file_class=file_class,
    )


def png(image: Any) -> io.BytesIO:
    return io.BytesIO(png_encode(np.ascontiguousarray(image)))


def tiff(image: Any, **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    tifffile.imwrite(stream, image, photometric="rgb", **options)
    return stream


def drawn(picture: str) -> Any:
    return np.array([[LETTERS[letter] for letter in row] for row in picture.split()], np.uint8)


def read(
    image: Any, border: str = "remove", stream: io.BytesIO | None = None, suffix: str = ".png", **options: Any
) -> LabelImage:
    asked = request(suffix, border, **options)
    (part,) = read_colour_map(stream or png(image), asked, Case("a", "a", *image.shape[:2])).parts
    assert isinstance(part, LabelImage)
    return part


def shown(part: LabelImage) -> str:
    return "\n".join("".join(".123456789"[number] for number in row) for row in picture(part.labels).tolist())


def classes(part: LabelImage) -> list[int]:
    assert part.class_of_instance is not None
    return [int(class_id) for class_id in part.class_of_instance]


# --- what is restored -------------------------------------------------------------------------------------------------

PICTURE = """
    #####.......
    #tt#######..
    #tt#ss#tt#..
    ####ss#tt#..
    ...#######..
"""


def test_nuclei_without_borders_are_numbered_class_by_class() -> None:
    part = read(drawn(PICTURE))
    assert shown(part).split() == ["............", ".11.........", ".11.33.22...", "....33.22...", "............"]
    assert (classes(part), part.source, part.class_id, part.class_map) == ([1, 1, 2], "a.png", 0, None)


def test_dilated_nuclei_grow_by_one_pixel_to_each_side_and_later_classes_win() -> None:
    assert shown(read(drawn(PICTURE), "remove_and_dilate")).split() == [
        ".11.........",
        "111133.22...",
        "1113333222..",
        ".113333222..",
        "....33.22...",
    ]


def test_pixels_that_touch_at_a_corner_are_one_nucleus() -> None:
    assert shown(read(drawn("t...\n.t.t"))).split() == ["1...", ".1.2"]


def test_a_border_pixel_between_two_nuclei_goes_to_the_later_one() -> None:
    assert shown(read(drawn("t#t#s#s#t"), "remove_and_dilate")) == "122445553"


def test_without_a_border_a_later_class_grows_over_an_earlier_one_and_may_take_it_whole() -> None:
    assert shown(read(drawn("tts\n...\ntt."), "remove_and_dilate")).split() == ["133", "223", "222"]
    part = read(drawn("ts"), "remove_and_dilate")
    assert (shown(part), classes(part)) == ("22", [2])


def test_the_class_of_the_path_counts_before_the_colour() -> None:
    assert classes(read(drawn(PICTURE), file_class=2)) == [2, 2, 2]


def test_the_order_of_the_colours_in_the_rules_does_not_matter() -> None:
    asked = request(border="remove_and_dilate")
    colours = dict(reversed(COLOURS.items()))
    reversed_colours = replace(asked, rules=asked.rules.model_copy(update={"colours": colours}))
    (part,) = read_colour_map(png(drawn(PICTURE)), reversed_colours, Case("a", "a", 5, 12)).parts
    assert isinstance(part, LabelImage)
    assert shown(part) == shown(read(drawn(PICTURE), "remove_and_dilate"))


def test_a_map_without_nuclei_has_none() -> None:
    part = read(drawn("....\n.##."))
    assert (classes(part), picture(part.labels).any()) == ([], False)


def literal_labels(pixels: Any, codes: list[int], *, dilate: bool) -> Any:
    """Slow: scikit-image finds the nuclei of each class, and they grow and are painted one after the other."""
    painted = np.zeros(pixels.shape, int)
    first = 1
    for code in codes:
        nuclei = label(pixels == code)
        count = nuclei.max()
        for nucleus in range(1, count + 1):
            if dilate:
                nuclei[dilation(nuclei == nucleus, footprint(1))] = nucleus
        for nucleus in range(1, count + 1):
            painted[nuclei == nucleus] = first
            first += 1
    return painted


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(np.uint32, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 4)),
    st.booleans(),
)
def test_any_map_gives_what_scikit_image_gives(pixels: Any, dilate: bool) -> None:
    labels, class_of_instance = restore_nuclei(pixels, {-1: 3, 1: 1, 2: 2}, dilate=dilate)
    expected = literal_labels(pixels, [3, 1, 2], dilate=dilate)
    np.testing.assert_array_equal(labels, expected)
    numbers = np.unique(labels[labels > 0])
    assert len(class_of_instance) == len(numbers)
    if not dilate:
        codes = {-1: 3, 1: 1, 2: 2}
        for number, class_id in zip(numbers, class_of_instance, strict=True):
            assert set(pixels[labels == number]) == {codes[int(class_id)]}


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opacity", [0, 255])
def test_alpha_does_not_matter(opacity: int) -> None:
    image = drawn(PICTURE)
    with_alpha = np.dstack([image, np.full(image.shape[:2], opacity, np.uint8)])
    for stream, suffix in ((png(with_alpha), ".png"), (tiff(with_alpha, extrasamples=[1]), ".tif")):
        np.testing.assert_array_equal(
            picture(read(image, stream=stream, suffix=suffix).labels), picture(read(image).labels)
        )


def test_tiff_and_npy_give_the_same_as_png() -> None:
    image = drawn(PICTURE)
    streams = {
        ".tif": [tiff(image), tiff(image, compression="zlib"), tiff(np.moveaxis(image, 2, 0), planarconfig="separate")],
        ".tiff": [tiff(image, tile=(16, 16))],
        ".npy": [npy(image), npy(np.asfortranarray(image))],
    }
    for suffix in streams:
        for stream in streams[suffix]:
            np.testing.assert_array_equal(
                picture(read(image, stream=stream, suffix=suffix).labels), picture(read(image).labels)
            )


def test_many_colours_are_counted_and_the_most_frequent_are_named() -> None:
    image = np.zeros((4, 50, 3), np.uint8)
    image[0, :, 1] = np.arange(1, 51)
    image[1:, :5, 2] = 9
    with pytest.raises(InputFault) as error:
        read(image)
    findings = error.value.findings
    assert (len(findings), sum(finding.count for finding in findings)) == (8, 51)
    assert findings[0].got == "the colour '#000009' in 15 pixels (first at row 1, column 0)"


@pytest.mark.parametrize("stream, suffix, line", [
    (png(np.zeros((4, 5), np.uint8)), ".png",
     "[unsupported-format] case 'a', 'a.png': 1 channel of uint8; expected 3"),
    (png(np.zeros((4, 5, 3), np.uint16)), ".png", "[unsupported-format] case 'a', 'a.png': 3 channels of uint16;"),
    (npy(np.zeros((4, 5, 3))), ".npy", "[unsupported-format] case 'a', 'a.npy': 3 channels of float64; expected 3"),
    (npy(np.zeros((4, 5, 2), "u1")), ".npy", "[wrong-shape] case 'a', 'a.npy': an array of 4 x 5 x 2; expected"),
    (tiff(np.zeros((5, 4, 3), np.uint8)), ".tif",
     "[wrong-shape] case 'a', 'a.tif': an array of 5 x 4 x 3; expected"),
    (png(np.zeros((5, 4, 3), np.uint8)), ".png",
     "[wrong-shape] case 'a', 'a.png': 5 rows x 4 columns; expected 4 r"),
    (io.BytesIO(b"\xff\xd8\xff"), ".jpg",
     "[unsupported-format] case 'a', 'a.jpg': a file with the suffix '.jpg'; ex"),
    (io.BytesIO(b"\xff\xd8\xff"), ".png", "[wrong-format] case 'a', 'a.png': a JPEG file; expected a PNG file, as"),
    (io.BytesIO(b"\xff\xd8\xff"), ".tif",
     "[wrong-format] case 'a', 'a.tif': a JPEG file; expected a TIFF file, as"),
    (io.BytesIO(b"<!DOCTYPE html><html>"), ".tif",
     "[wrong-format] case 'a', 'a.tif': a web page (HTML), such as the error of a download; expected a TIFF"),
    (io.BytesIO(b"\n<!Doctype HTML PUBLIC"), ".png",
     "[wrong-format] case 'a', 'a.png': a web page (HTML), such as"),
    (io.BytesIO(b"<HTML>"), ".png", "[wrong-format] case 'a', 'a.png': a web page (HTML)"),
    (io.BytesIO(b" "), ".png", "[wrong-format] case 'a', 'a.png': something else; expected"),
    (io.BytesIO(b"II*\0"), ".tif", "[unreadable-file] case 'a', 'a.tif': the data stop before their end"),
])  # fmt: skip
def test_other_images_are_refused(stream: io.BytesIO, suffix: str, line: str) -> None:
    (told,) = refusals(lambda: read(np.zeros((4, 5, 3)), stream=stream, suffix=suffix))
    assert told.startswith(line)


def test_a_file_above_the_limit_is_refused() -> None:
    for stream, suffix in ((png(drawn(PICTURE)), ".png"), (tiff(drawn(PICTURE)), ".tif")):
        (line,) = refusals(
            lambda stream=stream, suffix=suffix: read(drawn(PICTURE), stream=stream, suffix=suffix, limit=50)
        )
        assert line.startswith("[too-large]")
