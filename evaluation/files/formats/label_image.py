"""Label images as .npy, .npz, .png, .tif, .mha, .h5 and others, with the class of every pixel or nucleus next to them.

The size in a file's header is checked against the image before the data is read. Nothing is unpickled, and only the
given files are opened. Colour maps are read, and label images written, at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.challenge.formats import ColourMapRules, LabelImageRules
from evaluation.files.decoding import label_array
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.decoding.csv import read_table
from evaluation.files.decoding.mat_file import read_mat_labels
from evaluation.files.decoding.pixels import CLASS_NAMES, CONTAINERS, file_with, open_image, peek, read_image, suffix_of
from evaluation.files.decoding.streams import damage_told, too_large
from evaluation.files.formats.format import (
    Example,
    Format,
    Request,
    SizeYx,
    csv_bytes,
    image_bytes,
    mat_bytes,
    noting,
    plain_size,
    tiff_bytes,
)
from evaluation.files.formats.headers import CLASS_COLUMNS, ID_COLUMNS
from evaluation.files.formats.sheet import SKIPPED, Sheet
from evaluation.files.formats.tables import rows_limit
from evaluation.findings import Finding, fault, quote, with_rest
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Bool, Case, ClassTable, Instances, Int16, Int32, Int64, LabelImage, LabelRuns
from nuclei_metrics.model.annotations import TooManyRuns, present_labels, runs_of, runs_of_bands, split_labels
from nuclei_metrics.model.arrays import Integers

VALUES_NAMED = 8
MAX_CLASS_VALUE = 32767
NO_CLASS = np.iinfo(np.int16).min
FIRST_IGNORED = -1  # the id of the first ignore class


def read_label_image(
    stream: BinaryIO,
    request: Request[LabelImageRules],
    case: Case,
    *,
    class_map: tuple[BinaryIO, str] | None = None,
    class_table: tuple[BinaryIO, str] | None = None,
) -> Annotations:
    """Read the label image of a .npy, .npz, .png, .tif, .tiff or .mha file: every positive value is one nucleus.

    class_map    an image with the class number of every pixel, and its location, for messages (its file comes last)
    class_table  a table with the class of every nucleus, and its location; labels of skipped classes are ignored,
                 and ids that are not in the image do not matter

    With ``class_channel`` in the rules the image has two channels, the first axis or the last: class numbers in this
    channel, ids in the other. Raises InputFault: unsupported-format, pickle, wrong-format, too-large, unreadable-file,
    several-images, external-data, no-mask-variable, unknown-class-value, instance-without-class, and as
    ``check_labels`` and ``read_class_table``. A warning, "binary-mask", is among the findings.
    """
    rules, where, faults = request.rules, request.where, list[Finding]()
    table = None if class_table is None else read_class_table(class_table[0], request, class_table[1])
    classes: LabelRuns | None = None
    with noting(faults):
        labels, classes = _read_planes(stream, request, case)
        not_annotated = None
        if rules.not_annotated:
            labels, not_annotated = split_labels(labels, rules.not_annotated)
    if class_map is not None:
        with noting(faults):
            classes = read_class_map(class_map[0], request, case, where=class_map[1])
    if faults:
        raise InputFault(*faults)
    if skipped := [label for label, class_id in (table or {}).items() if class_id == 0]:
        labels, _ = split_labels(labels, skipped)
    voids = label_array.find_void(labels, where=where)
    if rules.components is None:
        if table is not None and len(labels.value) and table.get(int(labels.value.max()), 0) < 0:
            voids = ()  # the largest label is a region of an ignore class
        warnings = label_array.find_binary_mask(labels, where=where) + voids
    else:
        if rules.class_values is not None:  # the values of a semantic mask are class numbers
            values = labels.value.astype(np.int64).reshape(1, -1)
            classes = replace(labels, value=_classes_of_values(values, request.classes, where=where).reshape(-1))
            voids = ()
        limit = request.limits.bytes_per_file
        labels, warnings = label_array.label_components(labels, rules.components, where=where, bytes_limit=limit)
        warnings += voids
    class_id = request.file_class or (request.classes.of_nameless if classes is None and table is None else 0)
    of_labels = None if table is None else _classes_of_labels(labels, table, where)
    parts = [LabelImage(labels, class_id, classes, source=request.name, class_of_instance=of_labels)]
    if not_annotated is not None and len(not_annotated.value):
        region = replace(not_annotated, value=np.ones(len(not_annotated.value), np.uint8))
        parts.append(LabelImage(region, FIRST_IGNORED, source=request.name))
    return Annotations(tuple(parts), warnings)


def _read_planes(stream: BinaryIO, request: Request[LabelImageRules], case: Case) -> tuple[LabelRuns, LabelRuns | None]:
    """Read the labels, and the class ids of a second channel if the rules define it."""
    where, channel = request.where, request.rules.class_channel
    check = partial(label_array.check_labels, but=request.rules.not_annotated)
    with damage_told(where, "a label image"):
        if channel is None:
            return _read_runs(stream, check, request, case, suffix=suffix_of(request.name), where=where), None
        array = read_image(stream, suffix=suffix_of(request.name), channels=2, **wanted(request, case, where))
        ids, numbers = _split_channels(array, channel, where, case)
        labels = check(ids, where=where, shape_yx=case.shape_yx)
        place = f"{where}, channel {channel}"
        return runs_of(labels), runs_of(class_ids_in(numbers, request.classes, where=place, shape_yx=case.shape_yx))


def wanted(request: Request, case: Case, where: str) -> dict[str, Any]:
    """Return the arguments of ``open_image`` for the image of a case."""
    limit = request.limits.bytes_per_file
    return {"where": where, "shape_yx": case.shape_yx, "bytes_limit": limit, "spacing_um": case.spacing_um}


def read_class_map(stream: BinaryIO, request: Request, case: Case, *, where: str) -> LabelRuns:
    """Read the class id of every pixel (0: no class) from an image with class numbers; it may also be a .mat file.

    where   the file, for messages; its suffix decides the format

    Raises InputFault: unknown-class-value, and as ``read_label_image``.
    """
    suffix, limit = suffix_of(where.rstrip("'")), request.limits.bytes_per_file
    with damage_told(where, "a class map"):
        if suffix == ".mat":
            values = read_mat_labels(stream, where=where, shape_yx=case.shape_yx, bytes_limit=limit)
            return runs_of(_classes_of_values(values, request.classes, where=where))
        options = {"names": CLASS_NAMES} if suffix == ".npz" else {}
        check = partial(class_ids_in, classes=request.classes)
        return _read_runs(stream, check, request, case, suffix=suffix, where=where, **options)


def _read_runs(
    stream: BinaryIO,
    check: Callable[..., Integers],
    request: Request,
    case: Case,
    *,
    suffix: str,
    where: str,
    **options: Any,
) -> LabelRuns:
    """Read the plane of an image file as runs; a TIFF comes in bands, so that a whole slide is never in memory.

    check   of a band, called with ``where``, its ``shape_yx`` and its ``first_row``; it returns the values. A fault
            in one of several bands names the band
    """
    pixels = open_image(stream, suffix=suffix, **wanted(request, case, where), **options)

    def checked() -> Iterator[Integers]:
        row = 0
        for band in pixels.bands() if pixels.bands else [pixels.read()]:
            rows = band.shape[-2] if pixels.bands else case.height
            yield check(band, where=where, shape_yx=(rows, case.width), first_row=row)
            row += rows

    bytes_limit = request.limits.bytes_per_file
    with damage_told(where, CONTAINERS[suffix].name, fix=CONTAINERS[suffix].fix):
        try:
            return runs_of_bands(checked(), case.shape_yx, bytes_limit=bytes_limit)
        except TooManyRuns:
            raise too_large(where, "runs of equal labels", bytes_limit) from None


def _split_channels(
    array: npt.NDArray[Any], class_channel: int, where: str, case: Case
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Split the planes of ids and of class numbers of an image with two channels."""
    shape = label_array.check_shape(array.shape, where=where, shape_yx=case.shape_yx, channels=2)
    planes = array.reshape(shape)
    if shape != (2, *case.shape_yx):
        planes = np.moveaxis(planes, 2, 0)
    return np.ascontiguousarray(planes[1 - class_channel]), planes[class_channel]


def class_ids_in(
    plane: npt.NDArray[Any], classes: ClassTable, *, where: str, shape_yx: tuple[int, int], first_row: int = 0
) -> Int16:
    """``_classes_of_values`` of a plane of any kind of numbers. Raises InputFault, also if they are not whole."""
    expected = describe_class_values(classes)
    values = label_array.check_integers(plane, where=where, shape_yx=shape_yx, expected=expected, first_row=first_row)
    return _classes_of_values(values, classes, where=where, first_row=first_row)


def _classes_of_values(values: Integers, classes: ClassTable, *, where: str, first_row: int = 0) -> Int16:
    """Return the class ids that class numbers mean, int16 of the same shape (H, W); 0: no class.

    Raises InputFault ("unknown-class-value").
    """
    class_id = known_classes(values, classes)
    if class_id.min(initial=0) == NO_CLASS:
        raise InputFault(*_unknown_values(values, class_id == NO_CLASS, where, classes, first_row))
    return class_id


def known_classes(values: Integers, classes: ClassTable) -> Int16:
    """Return the class ids that class numbers mean; NO_CLASS for other numbers."""
    table = np.full(MAX_CLASS_VALUE + 1, NO_CLASS, np.int16)
    table[0] = 0
    for number, class_id in classes.values.items():
        table[number] = class_id
    if int(values.min(initial=0)) >= 0 and int(values.max(initial=0)) <= MAX_CLASS_VALUE:
        return np.asarray(table[values])
    in_table = (values >= 0) & (values <= MAX_CLASS_VALUE)
    return np.where(in_table, table[np.where(in_table, values, 0)], np.int16(NO_CLASS))


def _unknown_values(values: Integers, unknown: Bool, where: str, classes: ClassTable, first_row: int) -> list[Finding]:
    """Create a finding of each of the first values that are no class."""
    expected = describe_class_values(classes)

    def value_fault(value: int, pixels: int) -> Finding:
        row, column = first_place(values, value)
        code, row = "unknown-class-value", row + first_row
        return fault(code, where, expected=expected, value=value, pixels=pixels, row=row, column=column)

    return for_values(values[unknown], value_fault)


def for_values(values: Integers, finding: Callable[[int, int], Finding], *, most_first: bool = False) -> list[Finding]:
    """Create a finding of each of the first different values and its number of pixels or nuclei; all are counted."""
    each, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable") if most_first else np.arange(len(each))
    pairs = zip(each[order[:VALUES_NAMED]].tolist(), counts[order[:VALUES_NAMED]].tolist(), strict=True)
    return with_rest([finding(*pair) for pair in pairs], len(each))


def first_place(values: Integers, value: int) -> tuple[int, int]:
    """Find the row and the column of the first pixel of a value."""
    row, column = divmod(int((values == value).argmax()), values.shape[1])
    return row, column


def describe_class_values(classes: ClassTable) -> str:
    return ", ".join(["0 for no class", *named_values(classes)[:20]])


def named_values(classes: ClassTable) -> list[str]:
    """Return the numbers that mean classes, with the names of these."""
    ignored = {class_id: name for name, class_id in classes.ids.items() if class_id < 0}
    names = {**dict(enumerate(classes.names, start=1)), **ignored}
    return [f"{number} ({quote(names[class_id])})" for number, class_id in sorted(classes.values.items())]


def _classes_of_labels(labels: LabelRuns, class_table: Mapping[int, int], where: str) -> Int16:
    """Return the class id of each label, int16 (N,), in ascending order of the labels.

    Raises InputFault ("instance-without-class").
    """
    present = present_labels(labels)
    without = [label for label in present if label not in class_table]
    if without:
        count, first_ids = len(without), without[:3]
        raise refused("instance-without-class", where, wording="not-in-table", count=count, first_ids=first_ids)
    return np.array([class_table[label] for label in present], np.int16)


# --- Class tables: CSV with the columns "id" and "class". -------------------------------------------------------------


ID = re.compile(r"\s*0*([1-9][0-9]{0,18})(\.0*)?\s*", re.ASCII)
HIGHEST_ID = 2**63 - 1


def read_class_table(stream: BinaryIO, request: Request, where: str) -> dict[int, int]:
    """Read the class id of each instance id. Classes are names or, if the rules have ``class_values``, numbers.

    where   the table, for messages

    Ids of skipped classes have the class id 0; ids without a class are missing. Raises InputFault with all entries
    that are wrong: too-large, invalid-csv, missing-column, invalid-class-table, duplicate-row, unknown-class.

    >>> import io
    >>> from evaluation.challenge import LimitRules, format_rules
    >>> from nuclei_metrics.model import ClassTable
    >>> rules = format_rules(format="label_image", files="{case}.png", class_table="{case}.csv")
    >>> classes = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2})
    >>> request = Request(where="'a.png'", name="a.png", rules=rules, classes=classes, limits=LimitRules())
    >>> read_class_table(io.BytesIO(b"id,class\\n7,Stroma\\n9,tumour\\n"), request, "'a.csv'")
    {7: 2, 9: 1}
    """
    with damage_told(where, "a class table"):
        limit = request.limits.bytes_per_file
        table = read_table(stream, where=where, bytes_limit=limit, rows_limit=rows_limit(request, 1))
        id_column = table.need(*ID_COLUMNS)
        ids = [cell.decode() for cell in table.cells(id_column)]
        of_classes = [name for name in CLASS_COLUMNS if table.find([name]) != id_column]  # "label" may be either
        sheet = Sheet(replace(request, where=where), lambda row: f"line {table.line[row]:,}")
        class_ids = sheet.classes_of(*table.categories(table.need(*of_classes))).tolist()
    class_of_id: dict[int, int] = {}
    if numbers := _distinct_numbers(ids):
        class_of_id = dict(zip(numbers, class_ids, strict=True))
        ids = []
    for index, (text, class_id) in enumerate(zip(ids, class_ids, strict=False)):
        number = ID.fullmatch(text)
        if number is None or int(number[1]) > HIGHEST_ID:
            sheet.fault("invalid-class-table", index, id=text)
        elif class_of_id.setdefault(int(number[1]), class_id) != class_id:
            sheet.fault("duplicate-row", index, wording="id-twice", id=text)
    sheet.check()
    return {number: 0 if class_id == SKIPPED else class_id for number, class_id in class_of_id.items() if class_id}


def _distinct_numbers(ids: Sequence[str]) -> list[int]:
    """Return the ids as numbers, if all are distinct plain digits; otherwise nothing, and ``ID`` checks each id."""
    text = "".join(ids)
    if not (text.isascii() and text.isdigit()) or not 0 < len(min(ids, key=len)) <= len(max(ids, key=len)) <= 18:
        return []
    numbers = [*map(int, ids)]
    return numbers if min(numbers) > 0 and len(set(numbers)) == len(numbers) else []


def _example_of_label_image(made: Example[LabelImageRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    rules, labels = made.rules, made.labels(cases[0], class_name)
    if rules.components is not None:
        is_semantic = rules.class_values is not None
        mask = made.class_numbers(cases[0]) if is_semantic else np.where(labels > 0, 255, 0).astype(np.uint8)
        return image_bytes(mask, rules.files)
    if rules.class_channel is not None:
        planes = [labels, made.class_numbers(cases[0])]
        labels = np.stack(planes if rules.class_channel else planes[::-1], axis=-1)
    return image_bytes(labels, rules.files)


def example_companion(made: Example, key: str, cases: Sequence[Case]) -> bytes:
    """Create the class map, or the class table, of an example; ``key`` of the rules has its pattern."""
    if key == "class_table":
        return csv_bytes(["id", "class"], made.classes_of(cases[0]))
    return image_bytes(made.class_numbers(cases[0]), made.rules.value(key))


# --- Colour-coded maps: a colour for each class, and borders drawn around the nuclei; MoNuSAC's predictions. ----------


# Nuclei are restored as in "Foucart, Debeir, Decaestecker: Evaluating participating methods in image analysis
# challenges: lessons from MoNuSAC 2020", section 3.2.1 and ``nary_masks_ops.py`` of its supplement
# (https://github.com/adfoucart/disentangled-metrics-suppl):
#
# remove             pixels of a class's colour that touch, by sides or corners, are one nucleus; borders belong to none
# remove_and_dilate  then each nucleus also gets the pixels on the four sides of its own. A pixel beside several nuclei
#                    of a class goes to the one whose first pixel, row by row, comes last; of several classes the last
#                    one gets it, also if it is part of a nucleus of an earlier class that no border separates

UInt32 = npt.NDArray[np.uint32]

COLOUR_SUFFIXES = (".png", ".tif", ".tiff", ".npy")
BLACK = "#000000"
BACKGROUND = 0
TOUCHING = np.ones((3, 3), np.bool_)


def _read_colour_map(stream: BinaryIO, request: Request[ColourMapRules], case: Case) -> Annotations:
    """Read the nuclei of a colour-coded map as one label image: PNG, TIFF or .npy, RGB of 8 bits; alpha does not
    matter.

    Black is background; ``colours`` defines the colours of classes, ``border_colour`` the borders. Nuclei are numbered
    class by class, row by row. A nucleus of a few pixels without a border can be lost to its neighbours. Raises
    InputFault: unknown-colour, unsupported-format, wrong-shape, and as ``read_image``.
    """
    pixels = _pack_colours(_read_colours(stream, request, case))
    rules = request.rules
    ids = {request.classes.ids[name.casefold()]: _code_of(colour) for name, colour in rules.colours.items()}
    is_known = np.zeros(pixels.shape, np.bool_)
    for code in (BACKGROUND, _code_of(rules.border_colour), *ids.values()):
        is_known |= pixels == code
    if not is_known.all():
        raise InputFault(*_unknown_colours(pixels, ~is_known, request))
    labels, class_of_instance = restore_nuclei(
        pixels, dict(sorted(ids.items())), dilate=rules.border == "remove_and_dilate"
    )
    if request.file_class:
        class_of_instance[:] = request.file_class
    return Annotations((LabelImage(runs_of(labels), source=request.name, class_of_instance=class_of_instance),))


def restore_nuclei(pixels: UInt32, codes: dict[int, int], *, dilate: bool) -> tuple[Int32, Int16]:
    """Number the nuclei: returns labels int32 (H, W), and their class ids in ascending order, int16 (N,).

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
            nuclei = _dilate_labels(nuclei)
        np.add(nuclei, len(class_of_label), out=labels, where=nuclei > 0)
        class_of_label = np.append(class_of_label, np.full(count, class_id, np.int16))
    present = np.flatnonzero(np.bincount(labels.ravel())[1:]) + 1
    return labels, class_of_label[present - 1]


def _dilate_labels(labels: Int32) -> Int32:
    """Let labels grow by one pixel to each side; where two meet, the larger one wins.

    Touching regions have the same label, so that no nucleus grows over another nucleus.
    """
    grown = labels.copy()
    np.maximum(grown[1:], labels[:-1], out=grown[1:])
    np.maximum(grown[:-1], labels[1:], out=grown[:-1])
    np.maximum(grown[:, 1:], labels[:, :-1], out=grown[:, 1:])
    np.maximum(grown[:, :-1], labels[:, 1:], out=grown[:, :-1])
    return grown


def _read_colours(stream: BinaryIO, request: Request[ColourMapRules], case: Case) -> npt.NDArray[np.uint8]:
    """Read the colours of an image, uint8 (H, W, 3 or 4)."""
    suffix, where, limit = suffix_of(request.name), request.where, request.limits.bytes_per_file
    if suffix not in COLOUR_SUFFIXES:
        fix, got = "Write the map as a PNG; JPEG changes colours.", file_with(suffix)
        raise refused("unsupported-format", where, wording="other-suffix", got=got, fix=fix, known=COLOUR_SUFFIXES)
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
    shape = label_array.check_shape(array.shape, where=where, shape_yx=case.shape_yx, channels=samples)
    image = array.reshape(shape)
    return image if shape == (*case.shape_yx, samples) else np.moveaxis(image, 0, 2)


def _pack_colours(image: npt.NDArray[np.uint8]) -> UInt32:
    """Write colours as numbers 0xRRGGBB, uint32 (H, W).

    >>> [hex(code) for code in _pack_colours(np.array([[[255, 128, 0, 9]]], np.uint8)).ravel()]
    ['0xff8000']
    """
    pixels: UInt32 = np.zeros(image.shape[:2], np.uint32)
    for channel in range(3):
        pixels = pixels << np.uint32(8) | image[..., channel]
    return pixels


def _code_of(colour: str) -> int:
    """Return the number of a colour such as "#ff8000"."""
    return int(colour[1:], 16)


def _unknown_colours(codes: UInt32, unknown: Bool, request: Request[ColourMapRules]) -> list[Finding]:
    """Create a finding for each of the first colours that have no meaning."""
    rules, where = request.rules, request.where
    colours = [f"{quote(colour)} ({quote(name)})" for name, colour in rules.colours.items()]
    expected = ", ".join([f"{quote(BLACK)} (background)", *colours, f"{quote(rules.border_colour)} (borders)"])

    def colour_fault(colour: int, pixels: int) -> Finding:
        row, column = first_place(codes, colour)
        return fault("unknown-colour", where, expected=expected, colour=colour, pixels=pixels, row=row, column=column)

    return for_values(codes[unknown], colour_fault, most_first=True)


def _example_of_colour_map(made: Example[ColourMapRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    rules, labels = made.rules, made.labels(cases[0])
    colours = [BLACK, *(rules.colours[name] for _, name in made.classes_of(cases[0], class_name))]
    picture = np.array([list(bytes.fromhex(colour[1:])) for colour in colours], np.uint8)[labels]
    border = np.zeros(labels.shape, np.bool_)
    border[:, 1:] = (labels[:, 1:] != labels[:, :-1]) & (labels[:, 1:] > 0) & (labels[:, :-1] > 0)
    picture[border] = list(bytes.fromhex(rules.border_colour[1:]))
    return image_bytes(picture, ".png")


def _explain_colour_map(rules: ColourMapRules) -> list[str]:
    return [f"Nuclei that touch are parted by a border in {rules.border_colour}; the background is #000000."]


# --- Writing: TIFF, and MoNuSAC's n-ary masks for MATLAB. The same instances always give the same bytes. --------------


LARGEST_ID = np.iinfo(np.int32).max
MAT_BYTES = (1 << 32) - 1024  # a little less than a variable in a MATLAB 5 file can have

Labels = npt.NDArray[np.integer[Any]]


def write_label_tiff(instances: Instances, *, where: str = "nuclei") -> bytes:
    """Create a TIFF of (H, W) px, uint16 or, for numbers above 65,535, int32: 0 background, otherwise the number of the
    nucleus.

    The number is the ``source_id`` if these are distinct whole numbers from 1 to 2^31 - 1, otherwise the position in
    ``instances``, 1…N. ``where`` names the output, for messages. Raises InputFault: overlap-in-label-map, and
    unsupported-shape for points.
    """
    return tiff_bytes(_paint_numbers(instances, _instance_numbers(instances.source_id), where))


def write_class_tiff(instances: Instances, numbers: Sequence[int] | None = None, *, where: str = "nuclei") -> bytes:
    """Create a TIFF like ``write_label_tiff``, with the number of the class in every pixel of a nucleus.

    numbers   class id c has the number ``numbers[c - 1]``; None: c itself

    Nuclei without a class (id 0) or with an ignore class (below 0) have the number 0, like the background.
    """
    class_id = np.maximum(instances.class_id.astype(np.int64), 0)
    if numbers is not None:
        class_id = np.array([0, *numbers], np.int64)[class_id]
    return tiff_bytes(_paint_numbers(instances, class_id, where))


def write_nary_mat(instances: Instances, class_id: int | None = None, *, where: str = "nuclei") -> bytes:
    """Create a MATLAB 5 file with the nuclei of a class (None: all classes) in ``n_ary_mask``, integer (H, W), 0
    background.

    Numbers and faults as in ``write_label_tiff``; also too-large for images of 2^30 px and more.
    """
    chosen = np.ones(len(instances), np.bool_) if class_id is None else instances.class_id == class_id
    number = np.zeros(len(instances), np.int64)
    number[chosen] = _instance_numbers(instances.source_id[chosen])
    labels = _paint_numbers(instances, number, where)
    if labels.nbytes > MAT_BYTES:
        raise refused("too-large", where, wording="for-matlab", size=labels.nbytes, limit=MAT_BYTES)
    return mat_bytes(labels)


def _instance_numbers(source_id: npt.NDArray[Any]) -> Int64:
    """Choose the numbers by which instances are in a label image, int64 (N,)."""
    texts = [str(source) for source in source_id]
    if all(re.fullmatch("[1-9][0-9]{0,9}", text) for text in texts) and len(set(texts)) == len(texts):
        number = np.array(texts, dtype=np.int64)
        if number.max(initial=0) <= LARGEST_ID:
            return number
    return np.arange(1, len(source_id) + 1)


def _paint_numbers(instances: Instances, number: Int64, where: str) -> Labels:
    """Paint the number of the nucleus into every pixel, (H, W); nuclei with the number 0 are omitted. Raises
    InputFault.
    """
    if instances.point_yx is not None and len(instances):
        raise refused("unsupported-shape", where, wording="points-in-label-image")
    run = np.flatnonzero(number[instances.run_instance])
    start, stop = instances.run_start[run], instances.run_stop[run]
    if contested := contested_px(start, stop):
        raise refused("overlap-in-label-map", where, pixels=contested)
    height, width = instances.shape_yx
    dtype = np.uint16 if number.max(initial=0) <= np.iinfo(np.uint16).max else np.int32
    # Steps up where runs begin and down where they stop; their sums may wrap around on the way and come out right.
    steps: Labels = np.zeros(height * width + 1, dtype)
    value: Labels = number[instances.run_instance[run]].astype(dtype)
    steps[start] = value
    steps[stop] = steps[stop] - value
    return np.asarray(np.cumsum(steps, dtype=dtype, out=steps)[:-1].reshape(height, width))


def contested_px(start: Int64, stop: Int64) -> int:
    """Count the pixels that are in two runs or more; runs are sorted by start."""
    reach = np.maximum.accumulate(stop)[:-1]  # of all runs before each
    shared_stop = np.minimum(stop[1:], reach)
    is_shared = shared_stop > start[1:]
    shared_start, shared_stop = start[1:][is_shared], shared_stop[is_shared]
    counted_to = np.concatenate([[0], np.maximum.accumulate(shared_stop)])[: len(shared_stop)]
    return int(np.maximum(shared_stop - np.maximum(shared_start, counted_to), 0).sum())


# --- what shows the formats, and the size of the image ----------------------------------------------------------------


COLOUR_CHANNELS = (3, 4)


def _find_size(stream: BinaryIO, request: Request, name: str) -> SizeYx | None:
    """Find the size in the header of an image file; None for suffixes that label images do not have."""
    if (suffix := suffix_of(request.name)) not in CONTAINERS:
        return None
    pixels = peek(stream, suffix, request.where, request.limits.bytes_per_file)
    if pixels.dtype is not None:
        label_array.check_dtype(pixels.dtype, where=request.where)
    has_classes = request.rules.value("class_channel") is not None
    channels = COLOUR_CHANNELS if request.rules.format == "colour_map" else (2,) * has_classes
    return plane_of(pixels.shape, channels)


def plane_of(shape: tuple[int, ...], channels: tuple[int, ...]) -> SizeYx | None:
    """Return the plane size of an array of this shape; ``channels``: allowed numbers per image.

    The first two axes if it is not clear, so that the reader can state the fault.

    >>> plane_of((1, 20, 30), ()), plane_of((2, 20, 30), (2,)), plane_of((20, 30, 4), (3, 4)), plane_of((7,), ())
    ((20, 30), (20, 30), (20, 30), None)
    """
    sizes = shape if len(shape) == 2 + bool(channels) else tuple(size for size in shape if size != 1)
    if channels and len(sizes) == 3 and sizes[2] not in channels and sizes[0] in channels:
        sizes = sizes[1:]
    return plain_size(list((sizes if len(sizes) >= 2 else shape)[:2]))


FORMATS = {
    "label_image": Format(
        "label image: 0 is background, every other number one nucleus",
        _example_of_label_image,
        read=read_label_image,
        detect=lambda file: file.what if file.kind in ("image", "array") else "",
        find_size=_find_size,
    ),
    "colour_map": Format(
        "PNG with a colour for each class and borders between nuclei",
        _example_of_colour_map,
        read=_read_colour_map,
        explain=_explain_colour_map,
        find_size=_find_size,
    ),
}
