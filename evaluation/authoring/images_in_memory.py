"""What stands for images in memory: labels, stacks of them, masks of single nuclei, records of Segment Anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.authoring.pieces import VOLUMES, Array, axis_of_masks, class_channel, goes_on, is_picture
from evaluation.authoring.source import Size
from evaluation.findings import counted
from evaluation.instances.labels import EXACT_UP_TO, are_records, as_array, instances_from_labels, instances_from_masks
from evaluation.instances.runs import empty_region, union_region
from evaluation.model import Instances, Region

Classes = Any  # a sequence in ascending order of the labels, a table by label, or an image of the same shape
Images = Mapping[str, Any]


class Masks:
    """The nuclei of an image that was given as ``number`` masks, without classes."""

    def __init__(self, masks: Any) -> None:
        self.instances, self.number = instances_from_masks(masks), len(masks)


def images_by_name(images: Any, where: str, sizes: Collection[Size] = ()) -> dict[str, Any]:
    """Images as a table; a single one is "image", those of a list or a stack "image_0", "image_1", …

    sizes   of the images of the other side, as far as known: those of masks

    Each is labels, a pair of these and classes, ``Instances`` or ``Masks``, the last perhaps in a pair. Raises
    ValueError for arrays that are neither labels nor masks; ``where`` stands before it.
    """
    if isinstance(images, Mapping):
        return {name: read_image(image, f"{where} {name!r}", sizes) for name, image in images.items()}
    if isinstance(images, list) and not (are_records(images) or are_rows(images)):
        stack = stack_of(images)
        if stack is not None and axis_of_masks(stack, sizes) == 0:
            return {"image": Masks(stack)}
        return {name: read_image(image, f"{where} {name!r}", sizes) for name, image in numbered(images).items()}
    if isinstance(images, list) and not images:
        return {}
    if not isinstance(images, Instances | list | tuple) and len(getattr(images, "shape", ())) > 2:
        try:
            planes = unstacked(as_array(images, "labels"), sizes)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return numbered(planes) if isinstance(planes, list) else {"image": planes}
    return {"image": read_image(images, where, sizes)}


def numbered(images: list[Any]) -> dict[str, Any]:
    digits = len(str(len(images) - 1))
    return {f"image_{index:0{digits}}": image for index, image in enumerate(images)}


def read_image(image: Any, where: str, sizes: Collection[Size]) -> Any:
    """One image. Raises ValueError."""
    labels, classes = parts_of(image)
    if isinstance(labels, Instances) or (isinstance(labels, list) and not are_records(labels) and are_rows(labels)):
        return image
    try:
        if isinstance(labels, list):
            read: Any = Masks(labels)
        else:
            array = as_array(labels, "labels")
            if array.ndim < 3:
                return image
            read = Masks(array) if array.dtype.kind == "b" else unstacked(array, sizes)
            if isinstance(read, list):
                raise ValueError(
                    f"labels of shape {array.shape} are {counted(len(read), 'image')}; expected one, (H, W)"
                )
            if isinstance(read, tuple) and classes is not None:
                raise ValueError(f"labels of shape {array.shape}, with classes; expected labels (H, W)")
    except ValueError as error:
        pair = "; labels with classes are a pair, (labels, classes)" * (isinstance(labels, list) and len(labels) == 2)
        raise ValueError(f"{where}: {error}{pair}") from None
    return read if classes is None else (read, classes)


def unstacked(array: Array, sizes: Collection[Size]) -> Any:
    """What an array of three axes holds, by the signs that files of arrays are read by.

    ``Masks``, a pair of ids and classes, or a list of labels. Raises ValueError for pictures and volumes.
    """
    shape = array.shape
    if not array.size and len(shape) == 3:
        return Masks(array)
    array = array.reshape(long_sides(array))
    if array.ndim == 2:
        return array
    if array.ndim != 3 or array.dtype.kind not in "biuf":
        raise ValueError(f"labels are {array.dtype} of shape {shape}; expected (H, W), (N, H, W), or a list of images")
    if array.dtype.kind == "f":
        if not (np.abs(array) <= EXACT_UP_TO).all() or not np.array_equal(array, array.astype(np.int64)):
            got = f"labels of shape {shape} are not all whole numbers"
            raise ValueError(f"{got}; of probabilities of masks give masks > 0.5")
        array = array.astype(np.int64)
    if (axis := axis_of_masks(array, sizes)) is not None:
        return Masks(np.moveaxis(array, axis, 0))
    if (channel := class_channel(array)) is not None:
        planes = np.moveaxis(array, channel[0], 0)
        return planes[1 - channel[1]], planes[channel[1]]
    if is_picture(array) or shape[2] in (3, 4):
        raise ValueError(f"an array of shape {shape} is a picture; expected labels (H, W), a number for each nucleus")
    if goes_on(array, equal_too=False):
        one = "evaluation.instances_from_masks makes masks of single nuclei that overlap one image"
        raise ValueError(f"an array of shape {shape} is a volume, and {VOLUMES}; {one}, a list of its planes several")
    return list(array)


def long_sides(array: Any) -> tuple[int, ...]:
    """The sides of an array that are longer than 1, if these are two or more."""
    shape = tuple(getattr(array, "shape", ()))
    sides = tuple(side for side in shape if side != 1)
    return sides if len(sides) > 1 else shape


def stack_of(images: list[Any]) -> Array | None:
    """Booleans (N, H, W) of a list of such (H, W) of one size; None if they are anything else."""
    shapes = {tuple(getattr(one, "shape", ())) for one in images}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or isinstance(images[0], Instances):
        return None
    planes = [as_array(one, "labels") for one in images]
    return np.stack(planes) if all(plane.dtype.kind == "b" for plane in planes) else None


def sizes_of(images: Any) -> set[Size]:
    """The sizes of images that have names, or of a single one, where they are clear at first sight."""
    if isinstance(images, list):
        return set()
    sizes: set[Size] = set()
    for image in images.values() if isinstance(images, Mapping) else [images]:
        labels = image[0] if isinstance(image, tuple) and image else image
        if isinstance(labels, Masks):
            labels = labels.instances
        shape: tuple[int, ...] = labels.shape_yx if isinstance(labels, Instances) else getattr(labels, "shape", ())
        if len(shape) == 2:
            sizes.add((int(shape[0]), int(shape[1])))
    return sizes


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """An image without the labels and classes that mark what is not annotated, where they were, and which it had."""

    image: Any
    region: Region
    met: frozenset[str] = frozenset()


def annotated_of(image: Any, ignore: Collection[str], *, is_reference: bool = True) -> Annotated:
    """An image without what is not annotated: pixels of a label, nuclei of a class, as ``ignore`` has them.

    A number above 0 is a label of the reference alone: in a prediction it is the id of a nucleus. Raises ValueError for
    0, the background.
    """
    labels, classes = parts_of(image)
    if not ignore or isinstance(labels, Instances | Masks):
        return Annotated(image, empty_region())
    array, names = as_array(labels, "labels"), {name.casefold() for name in ignore}
    numbers = {int(name) for name in names if name.removeprefix("-").isdecimal()}
    if 0 in numbers and classes is None:
        raise ValueError("ignore: 0 is the background of labels; mark what is not annotated with another number")
    numbers = {number for number in numbers if is_reference or number < 0}
    is_void = np.isin(array, sorted(numbers))
    met = {str(number) for number in numbers if (array == number).any()}
    is_map = not isinstance(classes, Mapping | None) and np.shape(classes) == array.shape
    if is_map:
        given = as_array(classes, "classes")
        out = [value for value in np.unique(given).tolist() if str(value).casefold() in names]
        is_void |= np.isin(given, out)
        met |= {str(value).casefold() for value in out}
        classes = np.where(is_void, np.zeros((), given.dtype), given)
    elif classes is not None:
        present = np.unique(array[~is_void & (array != 0)]).tolist()
        of_label = classes if isinstance(classes, Mapping) else dict(zip(present, classes, strict=False))
        out = [label for label, name in of_label.items() if str(name).casefold() in names]
        is_void |= np.isin(array, out)
        met |= {str(of_label[label]).casefold() for label in out}
        classes = {label: name for label, name in of_label.items() if label not in out} if out else classes
    kept = np.where(is_void, 0, array)
    return Annotated(kept if classes is None else (kept, classes), region_of(is_void), frozenset(met))


def region_of(is_inside: npt.NDArray[np.bool_]) -> Region:
    return union_region(instances_from_labels(is_inside.astype(np.uint8), class_id=1))


def are_rows(parts: list[Any]) -> bool:
    """Whether the parts of a list are the rows of one image, and not images or masks."""

    def is_row(part: Any) -> bool:
        if isinstance(part, Mapping | Instances) or are_records(part):
            return False
        try:
            return as_array(part, "labels").ndim == 1
        except ValueError:  # a pair of labels and classes
            return False

    return all(map(is_row, parts))


def parts_of(image: Any) -> tuple[Any, Classes]:
    """The labels and the classes of an image."""
    if isinstance(image, tuple):
        if len(image) != 2:
            raise ValueError(f"an image is labels, or a pair of labels and classes, not {len(image)} things")
        return image
    return image, None
