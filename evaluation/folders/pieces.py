"""Images other than one plane of labels: pictures, masks of single nuclei, several images, volumes.

A side is gone through before its format is chosen. Each decision is a sign with its reason, which notes and
``compare --explain`` print; nothing is decided by a suffix.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import pairwise, permutations
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.challenge import LimitRules
from evaluation.files.decoding.guard import prepare
from evaluation.files.decoding.pixels import peek
from evaluation.files.decoding.tiff import TiffFile, TiffPage, peek_tiff
from evaluation.files.formats import BY_NAME
from evaluation.files.formats.detect import Detected
from evaluation.findings import Finding, counted, listed, quote
from evaluation.findings.errors import InputFault, refused
from evaluation.folders import source as sides
from evaluation.folders.pairs import without_ending
from evaluation.folders.source import Size, SourceFile, bare_parts
from evaluation.scoring.read import SUFFIX_LIBRARIES

Array = npt.NDArray[Any]

MOST_PIXELS_READ = 1 << 26  # of files whose pixels are looked at
MOST_FOLDERS = 30  # that are compared with each other
SAMPLE = 3  # files of each form of name whose pixels are looked at
CHANNELS = (3, 4)
PICTURE_VALUES, PICTURE_CHANGES = 16, 0.35  # touching labels of 3 x 3 px change at a third of their pixels
WHOLE_SHARE, SHARED_PIXELS = 0.8, 0.1
PICTURE_ENDING = re.compile(rf"(?:(?:^|[ _.-]+)(?:{'|'.join(sides.PICTURE_WORDS)}))+$", re.IGNORECASE)
NUMBER_OF_NUCLEUS = re.compile(
    r"[ _.-]*(?:mask|nucleus|nuclei|nuc|cell|object|obj|instance|inst|id|label)?s?[ _.-]*(?:[0-9]+|[0-9a-f]{16,})$",
    re.IGNORECASE,
)
EACH_A_MASK = "one mask per nucleus"
VOLUMES = "three-dimensional labels are not scored"
VOLUME = f"a volume of {{planes}} planes with labels that continue from plane to plane; {VOLUMES}"
OF_PLANES = "Write a file for each plane, on both sides, to compare the planes as images."
COLOURED = "a picture in colour"
FEW_COLOURS = 1 << 16
OF_IDS = "If each colour is a nucleus, and black the background:"
PLANE = "plane"  # the key of ``convert`` that chooses it
OF_CLASSES = (
    "Each colour occurs in many regions, like the colours of classes. Write ids, one number per nucleus. Challenges "
    "can read class maps: see 'colour_map' in docs/formats.md."
)
FRACTIONS = "an array of numbers that are not whole, as probabilities are: write labels, a number for each nucleus"
TWO_KINDS = "labels of two kinds in two channels, as InstanSeg's and Mesmer's of nuclei and cells"
OF_TWO = "Compare one channel, such as channel {channel} with the smaller labels:"
COLOURS = "colours"  # of ``plane_of``: each colour is a nucleus
EQUAL_CHANNELS = "the same values in all channels, read as one"
THUMBNAILS = {"thumbs", "thumb", "thumbnails", "thumbnail", "previews", "preview"}
PATCH = "a colour picture with an extra channel of ids, as in HoVer-Net's patches"
SOFT = (
    "a mask or labels with interpolated or compressed edges, as resizing and JPEG leave them: threshold a mask at "
    "half, resize labels by nearest neighbour"
)
FLAT = 0.6  # share of the pixels of such images that equal their right neighbours,
NEAR, MOSTLY = 0.07, 0.9  # or the share of their values that lie near the lowest or the highest one
GREY_PICTURE = "a picture: unlike labels, its values change from pixel to pixel"


@dataclass(slots=True)
class Files:
    """The files of a side during inspection.

    read          files with a known format; combined or split files are in the workspace
    left_out      names and types of ignored files; ``pictures``: images next to labels
    coloured      images with several samples per pixel; equal samples are labels
    blank         empty files, which YOLO writes for images without nuclei
    forms         original formats of imported or combined files
    not_imported  faults of failed imports
    notes         combined files, in sentences
    is_stack      images of an array have numbers as names
    """

    workspace: Path
    read: list[SourceFile] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    pictures: dict[str, str] = field(default_factory=dict)
    coloured: list[SourceFile] = field(default_factory=list)
    blank: list[SourceFile] = field(default_factory=list)
    forms: set[str] = field(default_factory=set)
    not_imported: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_stack: bool = False


def unfold(
    files: Files, sizes: Collection[Size], name_classes: Callable[[Sequence[SourceFile]], bool] = lambda images: False
) -> None:
    """Look into the images among the files of a side.

    sizes         of the images of the other side, if available
    name_classes  whether the paths of images name classes; then no image is the mask of a single nucleus
    """
    folder = Path(tempfile.mkdtemp(dir=files.workspace))
    images = [file for file in files.read if _may_be_images(file)]
    files.read = [file for file in files.read if not _may_be_images(file)]
    for file in [file for file in files.read if file.detected.format == "conic_array"]:
        array = pixels_of(file)
        if array is None or array.ndim != 4:
            continue
        if (array[..., 0] == array[..., 1]).all() and array.max(initial=0) > 1:
            files.read.remove(file)
            images.append(_one_channel(file, array[..., 0], files, folder))
        elif _are_two_kinds(array, 3):
            files.read.remove(file)
            files.left_out.append((file.name, TWO_KINDS))
    images += _equal_channels(files, folder)
    stacks = [file for file in images if _has_planes(file)]
    for stack in stacks:
        _unstack(stack, files, folder, sizes, alone=len(stacks) == 1)
    flat = [file for file in images if file not in stacks]
    files.pictures = _pictures_among(flat)
    files.left_out += files.pictures.items()
    labels = [file for file in flat if file.name not in files.pictures]
    labels = labels if name_classes(labels) else _join_masks(labels, files, folder)
    files.read += _with_one_suffix(labels, files, folder)


def _are_two_kinds(array: Array, axis: int) -> bool:
    """Return whether two channels are labels of two kinds, not ids and classes: the nuclei differ in more than a tenth
    of their pixels. Without further channels, the smaller nuclei must be inside the larger nuclei.
    """
    if array.shape[axis] != 2 or not _are_whole(array) or _is_picture(array.take(0, axis)):
        return False
    first, second = (array.take(channel, axis) != 0 for channel in (0, 1))
    if axis != 3 and int((first & second).sum()) < WHOLE_SHARE * min(int(first.sum()), int(second.sum())):
        return False
    return int((first != second).sum()) > SHARED_PIXELS * int((first | second).sum())


def _one_channel(one: SourceFile, plane: Array, files: Files, folder: Path) -> SourceFile:
    """Take one of several equal channels as the label image, and report it."""
    files.notes.append(f"{quote(one.name, 80)} has {EQUAL_CHANNELS}.")
    path = _write_array(folder, _stem_of(one), plane)
    return SourceFile(one.name, path, Detected("label_image", sign=EQUAL_CHANNELS), ".npy")


def _equal_channels(files: Files, folder: Path) -> list[SourceFile]:
    """Colour images with only grey pixels, as label images; other images are ignored.

    Of names in a folder that differ only in numbers, the first few decide whether all are checked.
    """
    labels = []
    for alike in _forms_of(files.coloured):
        some = [_grey_plane(pixels_of(one)) for one in alike[:SAMPLE]]
        are_labels = any(plane is not None and plane.any() for plane in some)  # black ones beside no others: pictures
        for one in alike:
            plane = _grey_plane(pixels_of(one)) if are_labels else None
            if plane is None:
                files.left_out.append((one.name, COLOURED))
            else:
                labels.append(_one_channel(one, plane, files, folder))
    return labels


def _grey_plane(array: Array | None) -> Array | None:
    """Return one of the channels (last axis) if they are equal and no picture; the last of two or four is opacity."""
    if array is None or array.ndim != 3 or array.shape[2] not in (2, *CHANNELS):
        return None
    plane: Array = array[..., 0]
    is_grey = (array[..., : 3 if array.shape[2] > 2 else 1] == plane[..., None]).all()
    return plane if is_grey and not _is_picture(plane) else None


def _forms_of(images: Iterable[SourceFile]) -> list[list[SourceFile]]:
    """Group images with paths that differ only in numbers."""
    forms: dict[str, list[SourceFile]] = {}
    for one in images:
        forms.setdefault(re.sub("[0-9]+", "0", _stem_of(one)), []).append(one)
    return list(forms.values())


def _may_be_images(one: SourceFile) -> bool:
    return one.detected.format in ("label_image", "pannuke_masks")


# --- pixels -----------------------------------------------------------------------------------------------------------


def pixels_of(one: SourceFile, *, as_colours: bool = True) -> Array | None:
    """All numbers of an image file, with all its axes; None if they are too many, or if it cannot be read.

    as_colours  of a palette, instead of its numbers

    Raises WrongUsage if the files of its side took too long (``decode_one``).
    """
    name, call = quote(one.name, 120), f"{__name__}:_yield_pixels"
    asked, writes = (one.suffix, name, as_colours), one.suffix in BY_NAME
    prepare(*filter(None, [SUFFIX_LIBRARIES.get(one.suffix)]))
    try:
        pixels = sides.decode_one(call, one.path, asked, name=name, pixels=MOST_PIXELS_READ, writes=writes)
    except InputFault:  # told where it is read
        return None
    return pixels  # type: ignore[no-any-return]


def _yield_pixels(streams: Sequence[BinaryIO], suffix: str, where: str, as_colours: bool) -> Iterator[Array | None]:
    """Yield the results of ``pixels_of`` from the confined process."""
    (stream,) = streams
    try:
        shape, read = _look_at_pixels(stream, suffix, where, as_colours)
        is_long = suffix == ".npy" and len(shape) == 4  # the first image tells what they are
        array = read() if 0 < math.prod(shape[is_long:]) <= MOST_PIXELS_READ and 0 not in shape else None
        yield None if array is None or array.dtype.kind not in "biuf" else array
    except Exception:  # noqa: BLE001 (libraries raise classes of their own; it is told where the file is read)
        yield None


def _look_at_pixels(
    stream: BinaryIO, suffix: str, where: str, as_colours: bool = True
) -> tuple[tuple[int, ...], Callable[[], Array]]:
    """The axes of an image file from its header, and its reader; for TIFF all pages and ImageJ stacks."""
    if suffix != ".tif":
        options = {"as_colours": as_colours} if suffix == ".png" else {}
        pixels = peek(stream, suffix, where, LimitRules().bytes_per_file, **options)
        return pixels.shape, pixels.read
    axes = axes_of_tiff(pages := TiffFile(stream).pages())

    def read() -> Array:
        with suppress(InputFault):  # of a compression that only tifffile knows
            if len(pages) == 1 and len(axes) == 2:
                return peek_tiff(stream, where, LimitRules().bytes_per_file).read()
        import tifffile

        stream.seek(0)
        with tifffile.TiffFile(BytesIO(stream.read())) as file:  # it wants a name of files
            first, *others = file.series
            arrays = [series.asarray() for series in (first, *(o for o in others if o.shape == first.shape))]
        return arrays[0] if len(arrays) == 1 else np.stack(arrays)

    return axes, read


def axes_of_tiff(pages: Sequence[TiffPage]) -> tuple[int, ...]:
    """Return the axes of an image with all pages and ImageJ stacks, without smaller copies."""
    pages = [page for page in pages if not page.is_reduced]
    planes = max(len(pages), pages[0].images())
    return (planes, *pages[0].shape) if planes > 1 else pages[0].shape


def _has_planes(one: SourceFile) -> bool:
    """Return whether an image file has more than two axes longer than 1; false for PNG files in colour."""
    if one.suffix == ".png":
        return False
    if one.axes_yx is not None:
        return sum(side > 1 for side in one.axes_yx[0]) > 2
    try:
        with one.path.open("rb") as stream:
            shape, _ = _look_at_pixels(stream, one.suffix, quote(one.name, 120))
            return sum(side > 1 for side in shape) > 2
    except Exception:  # noqa: BLE001 (as above)
        return False


def _is_picture(array: Array | None) -> bool:
    """Return whether an image is a picture: values change from pixel to pixel, which labels of nuclei do not.

    >>> many = np.arange(10_000).reshape(100, 100)
    >>> _is_picture(many), _is_picture(np.kron(many[:20, :20], np.ones((9, 9))))
    (True, False)
    """
    if array is None or array.ndim < 2:
        return False
    plane = array[..., 0] if array.ndim == 3 and array.shape[2] in CHANNELS else array.reshape(-1, array.shape[-1])
    values, counts = np.unique(plane, return_counts=True)
    if len(values) < PICTURE_VALUES or not np.isfinite(values[-1]):  # NaN is last: a background, told when it is read
        return False
    inside = plane != values[counts.argmax()]
    for ahead, behind in ((np.s_[1:, :], np.s_[:-1, :]), (np.s_[:, 1:], np.s_[:, :-1])):
        both = inside[ahead] & inside[behind]
        if int((both & (plane[ahead] != plane[behind])).sum()) <= PICTURE_CHANGES * int(both.sum()):
            return False
    return True


def remedy(one: SourceFile, why: str, side: Path) -> str | None:
    """A remedy for an image that is not a label image, if there is one. ``side``: the compared path."""
    if VOLUMES in why:
        return OF_PLANES
    if why == TWO_KINDS and (array := pixels_of(one)) is not None:
        planes = np.moveaxis(array, -1, 0) if array.squeeze().ndim > 3 else _planes_of(array)
        first, second = (np.count_nonzero(plane) for plane in planes)
        channel = int(second < first)
        if array.squeeze().ndim > 3:  # of several images: one call writes one image
            call = f"numpy.save('labels.npy', numpy.load({PurePosixPath(one.name).name!r})[..., {channel}])."
            return f"{OF_TWO.format(channel=channel)} {call}"
        call = sides.convert_call(side, one.name, "--to", "label_tiff", "--set", f"{PLANE}={channel}")
        return f"{OF_TWO.format(channel=channel)} {call}".rstrip(" :")
    if why == PATCH:
        call = sides.convert_call(side, one.name, "--to", "label_tiff", "--set", f"{PLANE}=3")
        return f"Compare its channel 3. {call}".rstrip(" :")
    if why != COLOURED:
        return None
    array = pixels_of(one)
    if array is None or array.ndim != 3 or array.shape[2] not in CHANNELS or array.dtype.itemsize > 1:
        return None
    ids = _ids_of_colours(array)
    values = np.unique(ids[ids > 0])
    if _is_picture(ids) or not 0 < len(values) < FEW_COLOURS or (ids == 0).sum() == 0:
        return None
    some = values[:20]
    if sum(_count_regions_of(ids == value) for value in some) >= 2 * len(some):
        return OF_CLASSES
    call = sides.convert_call(side, one.name, "--to", "label_tiff", "--set", f"{PLANE}={COLOURS}")
    return f"{OF_IDS} {call}".rstrip(" :")


def _ids_of_colours(array: Array) -> Array:
    """Return a number for each colour, 0 for black."""
    ids: Array = array[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
    return ids


def _planes_of(array: Array) -> list[Array]:
    """Return the planes of an image with several: along the first or the last axis, whichever is shorter."""
    squeezed = array.squeeze()
    return list(np.moveaxis(squeezed, 0 if squeezed.shape[0] <= squeezed.shape[-1] else -1, 0))


def plane_of(one: SourceFile, plane: object, folder: Path) -> SourceFile:
    """Return one plane of an image file as a label image: a channel or page by its number from 0, or its colours.

    Raises InputFault if there is no such plane.
    """
    array = pixels_of(one)
    planes = [] if array is None else _planes_of(array) if array.squeeze().ndim == 3 else [array]
    if plane == COLOURS and array is not None and array.ndim == 3 and array.shape[2] in CHANNELS:
        chosen = _ids_of_colours(array).astype(np.int32)
    elif type(plane) is int and 0 <= plane < len(planes):
        chosen = planes[plane]
    else:
        got = f"no plane {quote(plane)} among {counted(len(planes), 'plane')}"
        raise refused(
            "no-mask-variable", quote(one.name, 120), got=got, expected=f"a number from 0, or {COLOURS}", fix=""
        )
    path = _write_array(folder, _stem_of(one), chosen)
    return SourceFile(one.name, path, Detected("label_image", sign=f"{PLANE} {plane}"), ".npy")


# --- pictures beside labels -------------------------------------------------------------------------------------------


def _pictures_among(images: Sequence[SourceFile]) -> dict[str, str]:
    """The names of the pictures among images, each with the first sign that shows it."""
    signs: dict[str, str] = {}
    for tell in (thumbnails, _in_folders, _beside_masks, _foregrounds, _by_values):
        signs |= tell([one for one in images if one.name not in signs])
    return signs


def _by_values(images: Sequence[SourceFile]) -> dict[str, str]:
    """Find pictures by their pixels; of names that differ only in numbers, a few decide whether all are checked."""
    pictures: list[SourceFile] = []
    for alike in _forms_of(images):
        some = [one for one in alike[:SAMPLE] if _is_picture(pixels_of(one))]
        pictures += some + [one for one in alike[SAMPLE:] if some and _is_picture(pixels_of(one))]
    words = _picture_words(pixels_of(pictures[0])) if pictures else ""
    return {one.name: words for one in pictures}


def _picture_words(array: Array | None) -> str:
    """Describe an image without labels."""
    if array is None or array.ndim != 2:
        return GREY_PICTURE
    low, high = float(array.min()), float(array.max())
    near = NEAR * (high - low)
    has_two_values = ((array <= low + near) | (array >= high - near)).mean() > MOSTLY
    is_flat = (array[:, 1:] == array[:, :-1]).mean() > FLAT
    return SOFT if has_two_values or is_flat else GREY_PICTURE


def _beside_masks(images: Sequence[SourceFile]) -> dict[str, str]:
    """Find pictures by their partners: "a" next to "a_cp_masks", "a_img" next to "a_masks"."""
    by_image: dict[tuple[str, ...], list[SourceFile]] = {}
    for one in images:
        *folders, stem = bare_parts(one.name)
        if stem.endswith(sides.CLASS_MAPS):
            continue
        bare = PICTURE_ENDING.sub("", sides.MASK_ENDING.sub("", stem))
        by_image.setdefault((*folders, bare.casefold()), []).append(one)
    signs: dict[str, str] = {}
    for of_image in by_image.values():
        masks = [one for one in of_image if sides.MASK_ENDING.search(bare_parts(one.name)[-1])]
        others = [one for one in of_image if one not in masks]
        if masks and others and _are_labels_of(others[:1], masks[:1]):
            signs |= dict.fromkeys((one.name for one in masks), "a mask of all nuclei, next to their labels")
        elif masks and others:
            signs |= dict.fromkeys((one.name for one in others), "a picture, next to its masks")
    return signs


def _are_labels_of(labels: Sequence[SourceFile], masks: Sequence[SourceFile]) -> bool:
    """Return whether images are labels, and the other images their masks: one value for all nuclei."""
    numbers = []
    for one, mask in zip(labels, masks, strict=True):
        of_labels, foreground = pixels_of(one), pixels_of(mask)
        if of_labels is None or foreground is None or of_labels.shape != foreground.shape or _is_picture(of_labels):
            return False
        if len(np.unique(foreground)) > 2 or ((of_labels > 0) != (foreground > 0)).any():
            return False
        numbers.append(len(np.unique(of_labels)))
    return max(numbers) > 2


def thumbnails(images: Sequence[SourceFile]) -> dict[str, str]:
    """Thumbnails by their folders, if other images are outside."""
    small = [one.name for one in images if THUMBNAILS & {part.casefold() for part in bare_parts(one.name)}]
    return dict.fromkeys(small if len(small) < len(images) else [], "a thumbnail, judged by its folder or name")


def _in_folders(images: Sequence[SourceFile]) -> dict[str, str]:
    """Find pictures by their folders: ``images`` next to ``masks``."""
    folders = {one.name: [part.casefold() for part in bare_parts(one.name)[:-1]] for one in images}
    of_masks = [one.name for one in images if sides.MASK_FOLDERS & set(folders[one.name])]
    if not of_masks:
        return {}
    in_pictures = (name for name, parts in folders.items() if sides.PICTURE_FOLDERS & set(parts))
    pictures = [name for name in in_pictures if not sides.MASK_FOLDERS & set(folders[name])]
    return dict.fromkeys(pictures, f"a picture: the masks are in another folder ({quote(of_masks[0], 80)})")


def _foregrounds(images: Sequence[SourceFile]) -> dict[str, str]:
    """Find masks of all nuclei with labels of the same images in a sibling folder: ``binary``, ``instances``."""
    around: dict[str, dict[str, dict[str, SourceFile]]] = {}
    for one in images:
        *folders, stem = bare_parts(one.name)
        around.setdefault("/".join(folders[:-1]), {}).setdefault("/".join(folders), {})[stem] = one
    signs: dict[str, str] = {}
    for beside in around.values():
        for masks, labels in permutations(beside.values(), 2) if len(beside) <= MOST_FOLDERS else ():
            some = sorted(masks)[:SAMPLE]
            if masks.keys() <= labels.keys() and _are_labels_of(
                *([files[stem] for stem in some] for files in (labels, masks))
            ):
                why = f"a mask of all nuclei; their labels are in {quote(labels[some[0]].name, 80)}"
                signs |= dict.fromkeys((one.name for one in masks.values()), why)
    return signs


# --- planes -----------------------------------------------------------------------------------------------------------


def _unstack(one: SourceFile, files: Files, folder: Path, sizes: Collection[Size], *, alone: bool) -> None:
    """Add the contents of an image file with several planes to the files, or the reason for ignoring it."""
    whole, has_channels = pixels_of(one), one.detected.format == "pannuke_masks"
    array: Array = np.empty(0) if whole is None else whole.reshape([side for side in whole.shape if side != 1])
    content: Any = None
    meaning = "channels"
    if one.suffix == ".mha":
        meaning, content = "nothing", f"an image of three axes; {VOLUMES}"
    elif has_channels and _is_picture(whole if whole is None or whole.ndim < 4 else whole[0]):
        is_patch = whole is not None and whole.ndim == 3 and whole.shape[2] in (4, 5) and not _is_picture(whole[..., 3])
        meaning, content = "nothing", PATCH if is_patch else GREY_PICTURE
    elif whole is not None and array.ndim == 3 and not (has_channels and whole.ndim == 4 and 1 not in whole.shape[1:]):
        is_open = has_channels and whole.ndim == 3
        meaning, content = meaning_of(array, sizes, equal_too=one.suffix == ".tif", has_channels=is_open)
    said = quote(one.name, 80) + (f" ({' x '.join(map(str, whole.shape))})" if whole is not None else "")
    if meaning == "nothing":
        files.left_out.append((one.name, content))
    elif meaning == "channels":
        files.read.append(one)
    elif meaning == "labels":
        files.read.append(_one_channel(one, content, files, folder))
    elif meaning == "masks":
        files.read.append(_write_masks(_stem_of(one), content != 0, folder))
        files.forms.add(EACH_A_MASK)
        files.notes.append(f"{said} is read as {len(content)} masks of single nuclei.")
    elif meaning == "classes":
        ids, classes = (
            _write_array(folder, _stem_of(one) + end, plane) for end, plane in zip(("", "_class"), content, strict=True)
        )
        files.read.append(SourceFile(one.name, ids, Detected("label_image", sign="ids and classes"), ".npy", classes))
        files.notes.append(f"{said} has ids of nuclei in one channel and classes in a second channel.")
    else:
        for index, plane in enumerate(content):
            number = f"{index:0{len(str(len(content) - 1))}}"
            name = f"image_{number}" if alone else f"{_stem_of(one)}_{number}"
            path, sign = _write_array(folder, name, plane), f"a plane of {said}"
            files.read.append(SourceFile(f"{name}.npy", path, Detected("label_image", sign=sign), ".npy"))
        files.is_stack = True
        files.notes.append(f"{said} is read as {counted(len(content), 'image')}, in their order.")


def meaning_of(
    array: Array, sizes: Collection[Size], *, equal_too: bool = False, has_channels: bool = False
) -> tuple[str, Any]:
    """Return the meaning of an array of three axes, by the first fitting sign, and its content in that form.

    "masks" (N, H, W) of single nuclei; "labels" of equal planes; "classes", a pair of ids and classes; "channels" of
    classes; "images", a list of labels; or "nothing", with the reason.

    equal_too     planes that are all the same are one image, or a volume
    has_channels  it may be one image with a channel of ids for each class, as PanNuke's are
    """
    axis, channel = axis_of_masks(array, sizes), class_channel(array)
    has_background = _is_background_last(array)
    if axis is not None:
        return ("channels", None) if axis == 2 and has_background else ("masks", np.moveaxis(array, axis, 0))
    is_grey = array.shape[2] in (2, *CHANNELS) and (array[..., :1] == array).all()
    if is_grey or (equal_too and len(array) == 2 and (array[0] == array[1]).all()):
        plane = array[..., 0] if is_grey else array[0]
        return ("nothing", GREY_PICTURE) if _is_picture(plane) else ("labels", plane)
    if channel is not None:
        planes = np.moveaxis(array, channel[0], 0)
        return "classes", (planes[1 - channel[1]], planes[channel[1]])
    if has_channels and (array.shape[2] not in CHANNELS or array.dtype != np.uint8 or has_background):
        return "channels", None
    signs: dict[str, Callable[[], bool]] = {
        FRACTIONS: lambda: not _are_whole(array),
        PATCH: lambda: array.shape[2] in (4, 5) and not _is_picture(array[..., 3]) and _is_picture(array[..., :3]),
        GREY_PICTURE: lambda: _is_picture(array),
        COLOURED: lambda: array.shape[2] in CHANNELS and array.shape[0] > CHANNELS[1],
        TWO_KINDS: lambda: _are_two_kinds(array, 0) or _are_two_kinds(array, 2),
        VOLUME.format(planes=len(array)): lambda: _is_volume(array, equal_too=equal_too),
    }
    why = next((why for why, is_so in signs.items() if is_so()), None)
    return ("images", list(array)) if why is None else ("nothing", why)


def _with_one_suffix(images: list[SourceFile], files: Files, folder: Path) -> list[SourceFile]:
    """The images with one suffix; images with several suffixes, of different images, as arrays."""
    names = {without_ending(_stem_of(one)) for one in images}
    suffixes = sorted({one.suffix for one in images})
    if len(suffixes) < 2 or len(names) < len(images) or any(one.classes for one in images):
        return images
    together = []
    for one in images:  # one at a time: all may be more than the memory
        if (array := pixels_of(one, as_colours=False)) is None:
            return images
        together.append(replace(one, path=_write_array(folder, _stem_of(one), array), suffix=".npy"))
    files.notes.append(f"Label images with the suffixes {listed(suffixes, last='and')} are read together.")
    return together


def _stem_of(one: SourceFile) -> str:
    return "/".join(bare_parts(one.name))


def _write_array(folder: Path, name: str, plane: Array) -> Path:
    path = folder / f"{name}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.ascontiguousarray(plane), allow_pickle=False)
    return path


def axis_of_masks(array: Array, sizes: Collection[Size]) -> int | None:
    """Return the axis along which each plane is the mask of one nucleus; None if there is no such axis.

    Each plane has one value besides 0 and, for numbers, one region; booleans may have several.
    """
    if array.min(initial=0) < 0 or not _are_whole(array):
        return None
    for axis in sorted((0, 2), key=lambda axis: _size_across(array, axis) not in sizes):
        planes = np.moveaxis(array, axis, 0)
        if array.dtype.kind == "b" and array.any() and _size_across(array, axis) in sizes:
            return axis
        if len(planes) > 1 and _are_apart(planes):
            return axis
    return None


def _are_whole(array: Array) -> bool:
    return array.dtype.kind != "f" or bool((array == np.rint(array)).all())


def _size_across(array: Array, axis: int) -> Size:
    """The size of the planes along an axis."""
    height, width = np.moveaxis(array, axis, 0).shape[1:]
    return height, width


def _are_apart(planes: Iterable[Array | None], *, alone: bool = False) -> bool:
    """Return whether nearly each plane has one value and one region, and the regions are next to each other.

    planes  (H, W) of one size; anything else is not separate masks
    alone   there is only one plane, which may be empty
    """
    total: npt.NDArray[np.int32] | None = None
    regions: list[int] = []
    for plane in planes:
        if plane is None or plane.ndim != 2 or (total is not None and plane.shape != total.shape):
            return False
        mask = plane != 0
        if mask.any() and (plane[mask] != plane[mask].flat[0]).any():
            return False
        total = mask.astype(np.int32) if total is None else total + mask
        regions.append(_count_regions_of(mask))
        if sum(count > 1 for count in regions) > max(1, (1 - WHOLE_SHARE) * len(regions)):
            return False
    if total is None or alone:
        return max(regions, default=2) <= 1
    whole = sum(count == 1 for count in regions)
    shared, covered = int((total > 1).sum()), int((total > 0).sum())
    return 0 < whole >= WHOLE_SHARE * sum(count > 0 for count in regions) and shared <= SHARED_PIXELS * covered


def _count_regions_of(mask: npt.NDArray[np.bool_]) -> int:
    from scipy.ndimage import label

    return int(label(mask, np.ones((3, 3), np.int8))[1])


def _is_background_last(array: Array) -> bool:
    """Return whether the last channel is the background, all pixels that no other channel has, as in PanNuke's
    masks."""
    return bool(((array[..., -1] != 0) != (array[..., :-1] != 0).any(axis=2)).all())


def class_channel(array: Array) -> tuple[int, int] | None:
    """The axis of two channels and which of them has classes; None if they are not ids and classes of nuclei."""
    for axis in (2, 0):
        if array.shape[axis] != 2 or array.dtype.kind == "f":
            continue
        first, second = np.moveaxis(array, axis, 0)
        if ((first != 0) != (second != 0)).any() or not first.any():
            continue
        values = [np.unique(plane[plane != 0]) for plane in (first, second)]
        numbers = [len(of_plane) for of_plane in values]
        pairs = len(np.unique(np.stack([first.ravel(), second.ravel()])[:, first.ravel() != 0], axis=1).T)
        if pairs == max(numbers) and (axis == 2 or (first != second).any()):
            if numbers[0] != numbers[1]:
                return axis, int(numbers[1] < numbers[0])
            return axis, int(values[0][-1] == numbers[0] or values[1][-1] != numbers[1])  # ids are 1, 2, 3, …
    return None


def _is_volume(array: Array, *, equal_too: bool) -> bool:
    """Return whether the labels of a plane overlap the same labels in the previous plane, as in a volume.

    equal_too  planes that are all the same are a volume, too: pages of a file, but not images of an array
    """
    if (array[1:] == array[:-1]).all():
        return equal_too
    same = both = 0
    for before, after in pairwise(array):
        inside = (before != 0) & (after != 0)
        both += int(inside.sum())
        same += int((inside & (before == after)).sum())
    covered = int((array != 0).sum()) / len(array)
    return same > 0.5 * both and both > 0.25 * covered * (len(array) - 1)


# --- masks of single nuclei -------------------------------------------------------------------------------------------


def _join_masks(images: Sequence[SourceFile], files: Files, folder: Path) -> list[SourceFile]:
    """The images, with the masks of single nuclei put together to one file for each image."""
    for key in (_image_of_mask, _folder_of_mask):
        groups: dict[str, list[SourceFile]] = {}
        for one in images:
            groups.setdefault(key(one.name), []).append(one)
        if max(map(len, groups.values()), default=0) < 2 or not all(
            _are_apart(map(pixels_of, masks), alone=len(masks) == 1) for masks in groups.values()
        ):
            continue
        joined = []
        for name, masks in groups.items():
            planes = (array != 0 for array in map(pixels_of, masks) if array is not None)
            joined.append(_write_masks(name, planes, folder))
        files.forms.add(EACH_A_MASK)
        first = max(groups, key=lambda name: len(groups[name]))
        files.notes.append(
            f"{len(images):,} files with masks of single nuclei are read as {counted(len(groups), 'image')}: "
            f"{quote(groups[first][0].name, 80)} is of {quote(first)}."
        )
        return joined
    return list(images)


def _image_of_mask(name: str) -> str:
    """The image that a mask belongs to, by its name without its number.

    >>> _image_of_mask("img1/masks/001.png"), _image_of_mask("img1_001.png"), _image_of_mask("7.png")
    ('img1', 'img1', 'image')
    """
    *folders, stem = bare_parts(name)
    bare = NUMBER_OF_NUCLEUS.sub("", stem)
    return "/".join([*_without_mask_folders(folders), *([bare] if bare else [])]) or "image"


def _folder_of_mask(name: str) -> str:
    return "/".join(_without_mask_folders(bare_parts(name)[:-1])) or "image"


def _without_mask_folders(folders: Sequence[str]) -> list[str]:
    return [folder for folder in folders if folder.casefold() not in sides.MASK_FOLDERS]


def _write_masks(name: str, masks: Iterable[npt.NDArray[np.bool_]], folder: Path) -> SourceFile:
    """Masks as the run-length codes of a COCO file, in which nuclei may share pixels."""
    annotations: list[dict[str, Any]] = []
    height = width = 0
    for number, mask in enumerate(masks, start=1):
        height, width = mask.shape
        if mask.any():
            segmentation = {"size": [height, width], "counts": _coco_counts(mask)}
            annotations.append({"id": number, "image_id": 1, "category_id": 1, "segmentation": segmentation})
    document = {
        "images": [{"id": 1, "file_name": PurePosixPath(name).name, "height": height, "width": width}],
        "categories": [{"id": 1, "name": sides.NAMELESS}],
        "annotations": annotations,
    }
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(document).encode())
    return SourceFile(
        f"{name}.json", path, Detected("coco_json", sign="one value and one region in each mask"), ".json"
    )


def _coco_counts(mask: npt.NDArray[np.bool_]) -> list[int]:
    """The lengths of runs of 0 and 1 in turn, column by column, as COCO counts them.

    >>> _coco_counts(np.array([[False, True], [True, True]]))
    [1, 3]
    """
    flat = np.concatenate([[False], mask.ravel(order="F"), [False]])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    counts: list[int] = np.diff(np.concatenate([[0], edges, [mask.size]])).tolist()
    return counts[:-1] if counts[-1] == 0 else counts
