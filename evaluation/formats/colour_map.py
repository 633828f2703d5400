"""Colour-coded maps: a colour for each class, and borders drawn around the nuclei; MoNuSAC's released predictions.

Nuclei are restored as in "Foucart, Debeir, Decaestecker: Evaluating participating methods in image analysis challenges:
lessons from MoNuSAC 2020", section 3.2.1 and ``nary_masks_ops.py`` of its supplement
(https://github.com/adfoucart/disentangled-metrics-suppl):

remove             pixels of a class's colour that touch, by sides or corners, are one nucleus; borders belong to none
remove_and_dilate  then each nucleus also gets the pixels on the four sides of its own. A pixel beside several nuclei of
                   a class goes to the one whose first pixel, row by row, comes last; of several classes the last one
                   gets it, also if it is part of a nucleus of an earlier class that no border separates
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.challenge.formats import ColourMapRules
from evaluation.decoding.label_array import check_shape
from evaluation.decoding.pixels import file_with, peek, read_image, suffix_of
from evaluation.findings import Finding, fault, quote, with_rest
from evaluation.findings.errors import InputFault, refused
from evaluation.formats.example import Example, image_bytes
from evaluation.formats.format import Format, Request
from evaluation.formats.label_image import VALUES_NAMED, first_place, wanted
from evaluation.model import Annotations, Bool, Case, Int16, Int32, LabelImage
from evaluation.model.label_runs import runs_of

UInt32 = npt.NDArray[np.uint32]

SUFFIXES = (".png", ".tif", ".tiff", ".npy")
BLACK = "#000000"
BACKGROUND = 0
TOUCHING = np.ones((3, 3), np.bool_)


def read_colour_map(stream: BinaryIO, request: Request[ColourMapRules], case: Case) -> Annotations:
    """The nuclei of a colour-coded map as one label image: PNG, TIFF or .npy, RGB of 8 bits; alpha does not matter.

    Black is background; classes have the colours of ``colours``, borders that of ``border_colour``. Nuclei are numbered
    class by class, row by row. A nucleus all whose pixels are taken by others, which only a nucleus of a few pixels
    without a border can be, is lost. Raises InputFault: unknown-colour, unsupported-format, wrong-shape, and those of
    ``read_image``.
    """
    pixels = pack_colours(read_colours(stream, request, case))
    rules = request.rules
    ids = {request.classes.ids[name.casefold()]: code_of(colour) for name, colour in rules.colours.items()}
    is_known = np.zeros(pixels.shape, np.bool_)
    for code in (BACKGROUND, code_of(rules.border_colour), *ids.values()):
        is_known |= pixels == code
    if not is_known.all():
        raise InputFault(*unknown_colours(pixels, ~is_known, request))
    labels, class_of_instance = restore_nuclei(
        pixels, dict(sorted(ids.items())), dilate=rules.border == "remove_and_dilate"
    )
    if request.file_class:
        class_of_instance[:] = request.file_class
    return Annotations((LabelImage(runs_of(labels), source=request.name, class_of_instance=class_of_instance),))


def restore_nuclei(pixels: UInt32, codes: dict[int, int], *, dilate: bool) -> tuple[Int32, Int16]:
    """Labels int32 (H, W), and the class id of each label in ascending order, int16 (N,).

    pixels  codes of colours, uint32 (H, W)
    codes   the code of each class's colour by class id, in the order of the classes

    >>> restore_nuclei(np.array([[5, 0, 0, 5]], np.uint32), {1: 5}, dilate=True)[0].tolist()
    [[1, 1, 2, 2]]
    """
    from scipy import ndimage  # slow to import, and few need it

    labels = np.zeros(pixels.shape, np.int32)
    class_of_label = np.empty(0, np.int16)
    for class_id, code in codes.items():
        nuclei, count = ndimage.label(pixels == code, structure=TOUCHING, output=np.int32)
        if dilate:
            nuclei = dilate_labels(nuclei)
        np.add(nuclei, len(class_of_label), out=labels, where=nuclei > 0)
        class_of_label = np.append(class_of_label, np.full(count, class_id, np.int16))
    present = np.flatnonzero(np.bincount(labels.ravel())[1:]) + 1
    return labels, class_of_label[present - 1]


def dilate_labels(labels: Int32) -> Int32:
    """Labels that grow by one pixel to each side, the larger one over the smaller.

    Those that touch have the same label, so that no nucleus grows over another one.
    """
    grown = labels.copy()
    np.maximum(grown[1:], labels[:-1], out=grown[1:])
    np.maximum(grown[:-1], labels[1:], out=grown[:-1])
    np.maximum(grown[:, 1:], labels[:, :-1], out=grown[:, 1:])
    np.maximum(grown[:, :-1], labels[:, 1:], out=grown[:, :-1])
    return grown


def read_colours(stream: BinaryIO, request: Request[ColourMapRules], case: Case) -> npt.NDArray[np.uint8]:
    """The colours of an image, uint8 (H, W, 3 or 4)."""
    suffix, where, limit = suffix_of(request.name), request.where, request.limits.bytes_per_file
    if suffix not in SUFFIXES:
        fix, got = "Write the map as a PNG; JPEG changes colours.", file_with(suffix)
        raise refused("unsupported-format", where, wording="other-suffix", got=got, fix=fix, known=SUFFIXES)
    channels = None
    options = wanted(request, case, where)
    if suffix == ".png":
        options["as_colours"] = True
    else:
        channels = 4 if suffix != ".npy" and peek(stream, suffix, where, limit).shape[-1] == 4 else 3
    array = read_image(stream, suffix=suffix, channels=channels, **options)
    samples = channels or (array.shape[2] if array.ndim == 3 else 1)
    if samples not in (3, 4) or array.dtype != np.uint8:
        raise refused("unsupported-format", where, wording="other-colours", channels=samples, dtype=array.dtype.name)
    shape = check_shape(array.shape, where=where, shape_yx=case.shape_yx, channels=samples)
    image = array.reshape(shape)
    return image if shape == (*case.shape_yx, samples) else np.moveaxis(image, 0, 2)


def pack_colours(image: npt.NDArray[np.uint8]) -> UInt32:
    """Colours as numbers 0xRRGGBB, uint32 (H, W).

    >>> [hex(code) for code in pack_colours(np.array([[[255, 128, 0, 9]]], np.uint8)).ravel()]
    ['0xff8000']
    """
    pixels: UInt32 = np.zeros(image.shape[:2], np.uint32)
    for channel in range(3):
        pixels = pixels << np.uint32(8) | image[..., channel]
    return pixels


def code_of(colour: str) -> int:
    """The number of a colour such as "#ff8000"."""
    return int(colour[1:], 16)


def unknown_colours(codes: UInt32, unknown: Bool, request: Request[ColourMapRules]) -> list[Finding]:
    """A finding for each of the first colours that have no meaning."""
    rules, where = request.rules, request.where
    colours = [f"{quote(colour)} ({quote(name)})" for name, colour in rules.colours.items()]
    expected = ", ".join([f"{quote(BLACK)} (background)", *colours, f"{quote(rules.border_colour)} (borders)"])
    colours_met, counts = np.unique(codes[unknown], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    named = []
    for colour, pixels in zip(colours_met[order][:VALUES_NAMED].tolist(), counts[order].tolist(), strict=False):
        row, column = first_place(codes, colour)
        named.append(
            fault("unknown-colour", where, expected=expected, colour=colour, pixels=pixels, row=row, column=column)
        )
    return with_rest(named, len(colours_met))


def example(made: Example[ColourMapRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    rules, labels = made.rules, made.labels(cases[0])
    colours = [BLACK, *(rules.colours[name] for _, name in made.classes_of(cases[0], class_name))]
    picture = np.array([list(bytes.fromhex(colour[1:])) for colour in colours], np.uint8)[labels]
    border = np.zeros(labels.shape, np.bool_)
    border[:, 1:] = (labels[:, 1:] != labels[:, :-1]) & (labels[:, 1:] > 0) & (labels[:, :-1] > 0)
    picture[border] = list(bytes.fromhex(rules.border_colour[1:]))
    return image_bytes(picture, ".png")


def explain(rules: ColourMapRules) -> list[str]:
    return [f"Nuclei that touch are parted by a border in {rules.border_colour}; the background is #000000."]


FORMATS = {
    "colour_map": Format(
        words="PNG with a colour for each class and borders between nuclei",
        explain=explain,
        read=read_colour_map,
        example=example,
    )
}
