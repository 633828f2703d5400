"""Arrays of CoNIC and PanNuke: whole data sets in one file."""

from __future__ import annotations

from typing import Any

import numpy as np

from formats import Table
from formats.pixels import npy_file
from nuclei_metrics.model import Case, ClassTable

SHAPE = (5, 7)
CASES = {f"key_{name}": Case(name, "P", *SHAPE, index=index) for name, index in (("c", 2), ("a", 0), ("b", 1))}
CONIC = {
    "format": "conic_array", "files": "all.npy", "cases": CASES,
    "classes": ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2, "debris": -1}, {1: 1, 4: 2, 9: -1}),
    "class_values": {"tumour": 1, "stroma": 4, "debris": 9},
}  # fmt: skip
PANNUKE = {
    "format": "pannuke_masks", "files": "{case}.npy", "case": Case("a", "P", *SHAPE),
    "classes": ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {0: 1, 2: 2}),
    "class_values": {"tumour": 0, "stroma": 2},
}  # fmt: skip
ALL_PANNUKE = PANNUKE | {"files": "all.npy", "cases": CASES}
ONE_CLASS = {"classes": ClassTable(("nucleus",), {"nucleus": 1}, {1: 1})}


def with_values(array: Any, *values: Any) -> Any:
    """A copy with other values: (index, value), …"""
    copy = array.copy()
    for index, value in values:
        copy[index] = value
    return copy


# Three images: a nucleus of 3 pixels, 2 of class 4 and 1 of class 1, and others.
IMAGES = with_values(
    np.zeros((3, *SHAPE, 2), np.int32), ((0, 1, slice(1, 4), 0), 17), ((0, 1, slice(1, 4), 1), [1, 4, 4]),
    ((0, 4, 6), [3, 9]), ((1, slice(2, 4), 0, 0), 5), ((2, 0, 0), [1, 1]),
)  # fmt: skip
OF_NUMBER = np.array([0, 1, 0, 0, 2, 0, 0, 0, 0, -1])
# An image of PanNuke's kind: float64, six channels, the last one 1 where there is no nucleus.
MASKS = with_values(np.zeros((*SHAPE, 6)), ((1, slice(1, 4), 0), 2), ((3, 0, 0), 9), ((slice(3, 5), 0, 2), 2))
MASKS[..., 5] = ~MASKS.any(axis=2)
ALL_MASKS = np.stack([MASKS * scale for scale in (1, 2, 3)])


def of_cases(*columns: Any) -> dict[str, Any]:
    return dict(zip("abc", columns, strict=True))


def masks_of(array: Any) -> dict[str, Any]:
    """What is read of an array of PanNuke: the channels of the classes."""
    return {
        "parts": [
            {"labels": array[..., channel], "class_id": class_id, "source": f"channel {channel}"}
            for class_id, channel in ((1, 0), (2, 2))
        ]
    }


TABLE = Table(
    {},
    [
        *((f"cases are found by their index in arrays of any order and type ({order} {dtype})",
           npy_file(IMAGES.astype(dtype, order=order)), CONIC,
           of_cases(*({"labels": image[..., 0], "class_map": OF_NUMBER[image[..., 1]]} for image in IMAGES)))
          for order in "CF" for dtype in ("u1", "i2", "<i4", ">i4", "u8", "f8")),
        ("the class of a nucleus is that of most of its pixels", npy_file(IMAGES), CONIC,
         of_cases({"final_class": [-1, 2]}, {"final_class": [0]}, {"final_class": [1]})),
        *(("ids alone are enough where the class is known", npy_file(IMAGES[..., 0]), CONIC | options,
           of_cases({"final_class": [number] * 2}, {"final_class": [number]}, {"final_class": [number]}))
          for options, number in ((ONE_CLASS, 1), ({"file_class": 2}, 2))),
        ("the class of the path counts before the map", npy_file(with_values(IMAGES, ((0, 0, 0, 1), 77))),
         CONIC | {"file_class": 1}, of_cases({"final_class": [1, 1]}, {"final_class": [1]}, {"final_class": [1]})),
        ("images that are not scored do not matter",
         npy_file(np.concatenate([IMAGES, np.full((2, *SHAPE, 2), -5)])), CONIC, of_cases({}, {}, {})),
        # --- PanNuke
        ("each channel of a class is a label image", npy_file(MASKS), PANNUKE, masks_of(MASKS)),
        *(("a last channel with a class is read, and fewer channels, too", npy_file(array), PANNUKE, masks_of(array))
          for array in (MASKS[..., :3], MASKS[..., [0, 1, 2, 5]])),
        ("the class of the path counts before the channel", npy_file(MASKS), PANNUKE | {"file_class": 2},
         {"parts": [{"class_id": 2}, {"class_id": 2}]}),
        *(("one file may hold all images", npy_file(np.asarray(ALL_MASKS, order=order)), ALL_PANNUKE,
           of_cases(*map(masks_of, ALL_MASKS))) for order in "CF"),
    ],
    [
        *((content, CONIC, [line]) for content, line in (
            (npy_file(IMAGES[..., 0]), "[wrong-shape] an array of 3 x 5 x 7; expected images x rows x columns x 2, of "
             "ids and classes. Write numpy.stack([ids, classes], axis=-1) of all images."),
            (npy_file(IMAGES[:2]), "[wrong-shape] an array of 2 images; expected at least 3, since the case 'c' has "
             "the index 2. Write the images in the order of the column index of cases.csv, including images without "
             "nuclei."),
            (npy_file(with_values(IMAGES, ((1, 0, 3), [-1, 0]))),
             "[negative-label] case 'b': 1 of 35 pixels is below 0 (lowest -1, first at row 0"),
            (npy_file(with_values(IMAGES, ((2, 0, 0), [1, 3]))),
             "[unknown-class-value] case 'c': the value 3 in 1 pixel (first at row 0, column"),
            (npy_file(np.zeros((3, 7, 5, 2), np.int32)),
             "[wrong-shape] case 'a': 7 rows x 5 columns; expected 5 rows x 7 columns"),
            (npy_file(IMAGES)[:-1], "[unreadable-file] "), (npy_file(IMAGES.astype(complex)), "[not-numeric] "),
            (npy_file(np.array([{}], object)), "[pickle] "), (b"PK\3\4", "[wrong-format] "),
            (b"", "[wrong-format] "), (npy_file(np.int32(3)), "[wrong-shape] "),
            (npy_file(np.zeros((3, 5, 7, 3))), "[wrong-shape] "),
            (npy_file(np.zeros((0, 5, 7, 2))), "[wrong-shape] "))),
        (npy_file(IMAGES), CONIC | {"limits": {"bytes_per_file": 500}},
         ["[too-large] a file of 968 bytes; expected at most 500 bytes."]),
        # --- PanNuke
        (npy_file(MASKS[..., :2]), PANNUKE,
         ["[wrong-shape] an array of 5 x 7 x 2; expected rows x columns x channels, at least 3 channels. "
          "Write one channel of ids for each class, as the last axis."]),
        (npy_file(with_values(
            MASKS, ((0, 0, 0), -1), ((0, 1, 2), 0.5), ((0, 2, 3), np.nan), ((0, 3, 5), np.nan))), PANNUKE,
         ["[negative-label] channel 0", "[fractional-label] channel 2", "[not-finite] channel 3"]),
        (npy_file(with_values(ALL_MASKS, ((1, 0, 0, 4), 1))), ALL_PANNUKE,
         ["[unnamed-channel] case 'b', channel 4: 1 nucleus in a channel that has no class;"]),
        (npy_file(ALL_MASKS[:1]), ALL_PANNUKE,
         ["[wrong-shape] an array of 1 image; expected at least 3, since the case 'c'"]),
        *((npy_file(np.zeros(shape)), PANNUKE, ["[wrong-shape] "])
          for shape in ((7, 5, 6), (6, 5, 7), (5, 7), (1, 5, 7, 6), ())),
    ],
)  # fmt: skip
