"""``evaluation.compare``: scores of arrays, or of paths, in one line of Python."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.authoring.class_plan import Plan, distinct, named_class, parsed_classes
from evaluation.authoring.compare import Comparison, compare_paths, comparison_of, model_names
from evaluation.authoring.made_challenge import CONFIDENCE, Wanted
from evaluation.authoring.pieces import VOLUMES, Array, axis_of_masks, meaning_of
from evaluation.authoring.source import NAMELESS, Size
from evaluation.challenge import Challenge, LimitRules, is_safe_name
from evaluation.challenge.documents import RECOMMENDED
from evaluation.decoding.label_array import find_binary_mask, label_components, values_of_masks
from evaluation.execution.workers import check_workers
from evaluation.findings import Finding, counted, fault, listed, quote
from evaluation.instances.labels import (
    EXACT_UP_TO,
    are_records,
    as_array,
    instances_from_labels,
    instances_from_masks,
    instances_from_runs,
    majority_classes,
    whole_labels,
)
from evaluation.instances.runs import empty_region, union_region
from evaluation.model import Instances, LabelRuns, Region
from evaluation.model.intervals import expand
from evaluation.model.label_runs import runs_of
from evaluation.scoring.from_arrays import score_instances
from evaluation.study.hints import IMAGES_TRIED, Seen, classes_hint, hints_about

PATHS = (str, PathLike)
SEVERAL = 4  # nuclei, each with a class of its own: no class map
Classes = Any  # a sequence in ascending order of the labels, a table by label, or an image of the same shape
Images = Mapping[str, Any]


def compare(
    reference: Any,
    prediction: Any,
    *,
    classes: Sequence[str] | str | None = None,
    groups: Mapping[str, str] | None = None,
    ignore: Sequence[str | int] = (),
    iou: float = 0.5,
    families: Sequence[str] = (),
    workers: int | None = None,
) -> Comparison:
    """Score predictions against a reference, without a challenge, by the rules of the preset ``recommended``.

    reference   labels of an image (H, W), a list of such or (N, H, W), a table of them by the names of the images, or
                a path. In the place of the labels of an image: a list of masks (H, W) of single nuclei, an array of
                them, or SAM's list of records
    prediction  the same; for several models a table of such by the names of the models, or a list of paths

    Labels are whole numbers of any type, 0 is background. With classes an image is a pair (labels, classes), these
    being a list in ascending order of the labels, a table by label, or an image of the same shape; each is a name, or
    a number from 1. Without classes all nuclei are of one class.

    classes  the classes in order, and how else they are written: "tumour=neoplastic=1,stroma", or a list of such names
    groups   the patient of each image; for arrays
    ignore   labels or classes of the reference that mark what is not annotated, such as [-1, 255]
    iou      nuclei with an IoU above it match
    families further families of metrics, such as "objects"

    Raises ValueError for arrays that cannot be labels and for what fits together with nothing, and EvaluationError for
    paths that cannot be read or paired and for faulty files.

    >>> import numpy as np
    >>> compare(np.array([[1, 1, 0, 2]]), np.array([[7, 7, 0, 0]]))
    Comparison of 1 image
      prediction: detection F1 0.667, IoU 1.000, PQ 0.667
    """
    check_workers(workers)
    given, ignored = classes_text(classes), ignored_names(ignore)
    if isinstance(reference, PATHS):
        if groups is not None:
            raise ValueError("groups are for arrays; with files, each patient is a folder")
        return compare_paths(
            Path(reference),
            paths_in(prediction),
            classes=given,
            ignore=ignored,
            iou=iou,
            families=families,
            workers=workers,
        )
    if isinstance(prediction, PATHS):
        raise ValueError("the prediction is a path, the reference is none: both are paths, or both are arrays")
    given_models = models_in(reference, prediction)
    images = images_by_name(reference, "reference", set().union(*map(sizes_of, given_models.values())))
    sizes = set() if len(images) > 1 and not isinstance(reference, Mapping) else sizes_of(images)
    models = {name: images_by_name(of_model, f"{name!r}, image", sizes) for name, of_model in given_models.items()}
    if not (images and models):
        raise ValueError(f"nothing to compare: no {'model in the prediction' if images else 'image in the reference'}")
    for name in (*images, *models, *(name for of_model in models.values() for name in of_model)):
        if not isinstance(name, str):
            raise ValueError(f"{name!r} cannot be the name of an image or of a model; expected text")
    of_reference = {name: annotated_of(image, ignored) for name, image in images.items()}
    regions = {name: annotated.region for name, annotated in of_reference.items()}
    images = {name: annotated.image for name, annotated in of_reference.items()}
    met = set().union(*(annotated.met for annotated in of_reference.values()))
    if strange := [name for name in ignored if name.casefold() not in met]:
        raise ValueError(f"ignore: {strange[0]!r} is no label and no class of the reference")
    models = {
        model: {name: annotated_of(image, ignored, is_reference=False).image for name, image in of_model.items()}
        for model, of_model in models.items()
    }
    findings: dict[Finding, None] = {}
    sides = numbered({"reference": images} | {f"{model!r}, image": models[model] for model in models}, findings)
    images, *of_models = sides.values()
    models = dict(zip(models, of_models, strict=True))
    plan = plan_of([images, *models.values()], given)
    ids = ids_of(plan)
    known_ids = ids_in(images, ids)
    challenge = challenge_of(
        plan, set() if given is not None else set(ids.values()) - known_ids, Wanted(iou, tuple(families), ignored)
    )

    def side(of_side: Images, where: str, known: Mapping[str, Instances]) -> dict[str, Instances]:
        made = {}
        for name, image in of_side.items():
            labels, _ = parts_of(image)
            if isinstance(labels, list) and not labels and name in known:  # records, or masks, of no nucleus
                labels = image = np.zeros(known[name].shape_yx, np.uint8)
            made[name] = instances_of(image, ids, f"{where} {name!r}")
            if not isinstance(labels, Instances | Masks):
                found = find_binary_mask(runs_of(whole_labels(labels)), where=f"{where} {name!r}")
                findings.update(dict.fromkeys([*found, *about_class_map(image, f"{where} {name!r}")]))
        return made

    known = side(images, "reference", {})
    results = {}
    for model, of_model in models.items():
        if set(of_model) - set(known):
            got = f"{model!r} has images that the reference has not: {sorted(set(of_model) - set(known))[:3]}"
            expected = "two images, two lists, or two tables with the same names; several models are a table by name"
            if isinstance(given_models[model], list):
                expected += "; masks of single nuclei are arrays of True and False"
            raise ValueError(f"{got}; expected {expected}")
        if not isinstance(reference, Mapping) and 1 < len(known) != len(of_model):
            raise ValueError(
                f"{counted(len(known), 'image')} in the reference, {len(of_model)} in {model!r}: give tables by name"
            )
        if lacking := [f"prediction {quote(model)}, {quote(name)}" for name in known if name not in of_model]:
            findings[fault("not-paired", *lacking, names=[])] = None
        names = [plan[own - 1][0] for own in sorted(known_ids)]
        for own in sorted(ids_in(of_model, ids) - known_ids) if names else []:
            name = plan[own - 1][0]
            findings[
                fault(
                    "classes-differ",
                    f"prediction {quote(model)}",
                    got=f"the class {quote(name)} is not in the reference",
                    known=names,
                    example=f"{names[0]}={name}",
                )
            ] = None
        made = side(of_model, f"{model!r}, image", known)
        pairs = {name: (instances, made.get(name)) for name, instances in known.items()}
        results[model] = result = score_instances(challenge, pairs, groups=groups, regions=regions)
        some = [Seen(n, r, (p,)) for n, (r, p) in pairs.items() if p is not None and len(p) and len(r)]
        for hint in (*hints_about(partial(list, some[:IMAGES_TRIED]), result), *classes_hint(result)):
            findings[replace(hint, where=f"prediction {model!r}")] = None
    return comparison_of(results, (), tuple(findings))


def classes_text(classes: Any) -> str | None:
    """The classes as the option ``--classes`` has them. Raises ValueError."""
    if classes is None or isinstance(classes, str):
        return classes
    names = [] if isinstance(classes, Mapping | Set | bytes) or not isinstance(classes, Iterable) else list(classes)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"classes are {classes!r}; expected names in order, such as ['tumour', 'stroma'] for 1 and 2")
    return ",".join(names)


def ignored_names(ignore: Any) -> tuple[str, ...]:
    """Labels and classes as the option ``--ignore`` has them. Raises ValueError."""
    given = [ignore] if isinstance(ignore, str | int) else list(ignore) if isinstance(ignore, Iterable) else [None]
    if not all(isinstance(name, str | int | np.integer) for name in given):
        raise ValueError(f"ignore is {ignore!r}; expected labels or classes of the reference, such as [-1, 255]")
    return tuple(map(str, given))


def paths_in(prediction: Any) -> dict[str, Path]:
    """The paths of models by name. Raises ValueError."""
    paths = prediction if isinstance(prediction, list | tuple | Mapping) else [prediction]
    if not all(isinstance(path, PATHS) for path in (paths.values() if isinstance(paths, Mapping) else paths)):
        raise ValueError("the reference is a path, the prediction is none: both are paths, or both are arrays")
    if not paths:
        raise ValueError("nothing to compare: no path in the prediction")
    if not isinstance(paths, Mapping):
        return model_names([Path(path) for path in paths])
    if wrong := [name for name in paths if not is_safe_name(name)]:
        raise ValueError(f"{wrong[0]!r} cannot be the name of a model; expected letters, digits and any of ' _-.+@'")
    return {name: Path(path) for name, path in paths.items()}


def models_in(reference: Any, prediction: Any) -> dict[str, Any]:
    """The models of a prediction by name: it is a table of what the reference is, or one such thing."""
    if isinstance(prediction, Mapping):
        several = isinstance(reference, Mapping) and any(isinstance(of, Mapping) for of in prediction.values())
        if several or not isinstance(reference, Mapping):
            return dict(prediction)
    return {"prediction": prediction}


def class_keys(classes: Classes) -> list[str]:
    """What stands for a class among the classes of an image; 0 and "" stand for none."""
    if classes is None:
        return []
    try:
        values = (
            list(classes.values()) if isinstance(classes, Mapping) else np.unique(as_array(classes, "classes")).tolist()
        )
    except TypeError:  # that cannot be sorted
        raise ValueError("classes are neither all names nor all numbers") from None
    return [key_of(value) for value in values if not isinstance(value, Hashable) or value not in (0, "", None)]


def key_of(value: Any) -> str:
    """The name of a class, or its number as text.

    >>> key_of("tumour"), key_of(np.uint8(3)), key_of(2.0)
    ('tumour', '3', '2')
    """
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, int | float | np.number) or not 1 <= value < inf or value != int(value):
        raise ValueError(f"{value!r} is no class; expected names or whole numbers from 1")
    return str(int(value))


def ids_in(side: Images, ids: Mapping[str, int]) -> set[int]:
    """The classes that occur on a side."""
    keys = {key.casefold() for image in side.values() for key in class_keys(parts_of(image)[1])}
    return {ids[key] for key in keys if key in ids}


def plan_of(sides: Sequence[Images], given: str | None) -> Plan:
    """The classes that occur, names in the order in which they are met and numbers by size, or those that are given."""
    keys = dict.fromkeys(key for side in sides for image in side.values() for key in class_keys(parts_of(image)[1]))
    ordered = sorted(keys, key=lambda key: int(key) if key.isdecimal() else 0)
    met = {key.casefold(): key for key in distinct(ordered)}
    if given == "none" or not (met or given is not None):
        return [(NAMELESS, [*met.values()])]
    if given is None:
        return [named_class(key) for key in met.values()]
    plan = parsed_classes(given)
    known = ids_of(plan)
    if all(key.isdecimal() for key in met) and not met.keys() & known.keys():
        plan = [(name, [*aliases, str(number)]) for number, (name, aliases) in enumerate(plan, start=1)]
        known = ids_of(plan)
    if unknown := sorted(met[key] for key in met.keys() - known.keys()):
        names = [word for name, more in plan for word in (name, *more)]
        raise ValueError(f"{unknown[:3]} are not among the classes {', '.join(names)}")
    return plan


def ids_of(plan: Plan) -> dict[str, int]:
    """The id of each class by all its spellings, in small letters."""
    return {word.casefold(): index for index, (name, more) in enumerate(plan, start=1) for word in (name, *more)}


def challenge_of(plan: Plan, foreign: Set[int], wanted: Wanted) -> Challenge:
    """The rules for classes of which some, by their ids, the reference has not."""
    of_ignore = {"policy": "drop_unmatched", "fraction": 0.5} if wanted.ignore else {}
    regions = {"classes": list(wanted.ignore), **of_ignore}
    sides: dict[str, Any] = {
        "reference": {"format": "label_image", "files": "reference/{case}.tif", "ignore": regions},
        "submission": {"format": "label_image", "files": "{case}.tif"},
    }
    if len(plan) > 1:
        numbers = {name: number for number, (name, _) in enumerate(plan, start=1)}
        for side, below in (("reference", "reference/"), ("submission", "")):
            sides[side] |= {"class_map": f"{below}{{case}}_class.tif", "class_values": numbers}
    return Challenge.from_preset(
        RECOMMENDED,
        name="Comparison",
        classes=[
            {"name": name, "aliases": aliases, "only_predicted": number in foreign and len(foreign) < len(plan)}
            for number, (name, aliases) in enumerate(plan, start=1)
        ],
        confidence=CONFIDENCE,
        **sides,
        **wanted.tables(len(plan), foreign=len(foreign) if len(foreign) < len(plan) else 0),
    )


def numbered(sides: Mapping[str, Images], findings: dict[Finding, None]) -> dict[str, dict[str, Any]]:
    """Sides of masks with a label for each region of touching pixels, which is told; other sides as they are.

    If all sides are class maps, their values are the classes.
    """
    runs = {where: runs_of_labels(images) for where, images in sides.items()}
    values = {where: values_of_masks(of_side.values()) for where, of_side in runs.items()}
    have_classes = all(len(of_side) > 1 for of_side in values.values())
    made = {where: dict(images) for where, images in sides.items()}
    for where in filter(values.get, sides):
        for name, mask in runs[where].items():
            place, limit = f"{where} {name!r}", LimitRules().bytes_per_file
            regions, told = label_components(mask, 8, where=place, bytes_limit=limit)
            findings.update(dict.fromkeys(told))
            plane = np.zeros(mask.shape_yx, np.int32)
            plane.ravel()[expand(regions.start, regions.stop)] = np.repeat(regions.value, regions.stop - regions.start)
            made[where][name] = (plane, whole_labels(sides[where][name])) if have_classes else plane
    return made


def runs_of_labels(images: Images) -> dict[str, LabelRuns]:
    """The runs of images that are labels alone; nothing if one is anything else (what is wrong is told later)."""
    if not all(isinstance(image, np.ndarray) for image in images.values()):
        return {}
    try:
        return {name: runs_of(whole_labels(image)) for name, image in images.items()}
    except ValueError:
        return {}


def instances_of(image: Any, ids: Mapping[str, int], where: str) -> Instances:
    """The nuclei of an image with the ids of their classes. Raises ValueError."""
    labels, classes = parts_of(image)
    try:
        if isinstance(labels, Instances):
            return labels
        if classes is None:
            if len(set(ids.values())) > 1:
                raise ValueError("no classes, although there are several; give pairs (labels, classes)")
            if isinstance(labels, Masks):
                return with_classes(labels, [1] * labels.number)
            return instances_from_labels(labels, class_id=1)
        if isinstance(labels, Masks):
            of_masks = as_array(classes, "classes")
            if isinstance(classes, Mapping) or of_masks.shape != (labels.number,):
                raise ValueError(f"classes of shape {of_masks.shape} for {labels.number} masks; expected one for each")
            return with_classes(labels, [ids[key_of(value).casefold()] for value in of_masks.tolist()])
        whole = whole_labels(labels)
        present = [int(label) for label in np.unique(whole) if label]
        if getattr(classes, "ndim", 0) == 1 and hasattr(classes, "to_dict") and set(present) <= set(classes.index):
            classes = classes.to_dict()  # a column of pandas that is indexed by label
        if isinstance(classes, Mapping):
            try:
                of_label = {int(label): value for label, value in classes.items()}
            except (TypeError, ValueError):
                raise ValueError(f"a table of classes has labels as keys, not {listed(classes, 3)}") from None
            if lacking := [label for label in present if label not in of_label]:
                raise ValueError(f"no class for the labels {lacking[:3]}")
            return instances_from_labels(whole, [ids[key_of(of_label[label]).casefold()] for label in present])
        given = as_array(classes, "classes")
        if given.shape == whole.shape and given.ndim == 2:
            return instances_from_labels(whole, majority(whole, given, ids))
        if given.shape != (len(present),):
            expected = "one for each label in ascending order, a table by label, or an image of the same shape"
            raise ValueError(
                f"classes of shape {given.shape} for {counted(len(present), 'label')}; expected {expected}"
            )
        return instances_from_labels(whole, [ids[key_of(value).casefold()] for value in given.tolist()])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def with_classes(masks: Masks, class_of_mask: Sequence[int]) -> Instances:
    """The nuclei of masks with the id of the class of each mask; a mask without pixels is no nucleus."""
    instances = masks.instances
    return replace(instances, class_id=np.array(class_of_mask, np.int16)[instances.source_id - 1])


def about_class_map(image: Any, where: str) -> list[Finding]:
    """A warning if the second image of a pair has signs of being labels of another one.

    Such signs: each nucleus of the first, of which there are four or more, has a value of its own; most nuclei have
    several values; or most of the second lies outside the nuclei.
    """
    labels, classes = parts_of(image)
    if classes is None or isinstance(classes, Mapping) or isinstance(labels, Instances | Masks):
        return []
    of_labels, of_classes = whole_labels(labels), as_array(classes, "classes")
    if of_classes.ndim != 2 or of_classes.shape != of_labels.shape or of_classes.dtype.kind not in "biuf":
        return []
    is_nucleus, has_class = of_labels != 0, of_classes != 0
    pairs = np.unique(np.stack([of_labels[is_nucleus], of_classes[is_nucleus]]).astype(np.int64), axis=1)
    nuclei, values = np.unique(pairs[0], return_counts=True)
    got = ""
    if len(nuclei) >= SEVERAL and len(set(pairs[1].tolist())) >= len(nuclei) and (values == 1).all():
        got = f"the second of the pair has another value for each of the {len(nuclei)} nuclei of the first"
    elif 2 * np.count_nonzero(values > 1) > len(nuclei):
        several = np.count_nonzero(values > 1)
        got = f"the second of the pair has several values in {several} of {counted(len(nuclei), 'nucleus', 'nuclei')}"
    elif 2 * np.count_nonzero(has_class & ~is_nucleus) > np.count_nonzero(has_class):
        got = (
            f"most of the second of the pair lies outside the {counted(len(nuclei), 'nucleus', 'nuclei')} of the first"
        )
    return [fault("no-class-map", where, got=got)] if got else []


def majority(labels: Any, class_map: Any, ids: Mapping[str, int]) -> list[int]:
    """The class of most pixels of each label that have one, as files with a class map are read."""
    values, index = np.unique(class_map, return_inverse=True)
    table = np.array([0 if value in (0, "") else ids[key_of(value).casefold()] for value in values.tolist()], np.int16)
    classes = majority_classes(instances_from_runs(runs_of(labels), 0), runs_of(table[index.reshape(labels.shape)]))
    if (classes == 0).any():
        without = counted(int((classes == 0).sum()), "nucleus has", "nuclei have")
        got = f"{without} no class in the class map, the second of the pair"
        raise ValueError(f"{got}; several images are a list, not a pair")
    return [int(value) for value in classes]


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
        return {name: read_image(image, f"{where} {name!r}", sizes) for name, image in by_number(images).items()}
    if isinstance(images, list) and not images:
        return {}
    if not isinstance(images, Instances | list | tuple) and len(getattr(images, "shape", ())) > 2:
        try:
            planes = unstacked(as_array(images, "labels"), sizes)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return by_number(planes) if isinstance(planes, list) else {"image": planes}
    return {"image": read_image(images, where, sizes)}


def by_number(images: list[Any]) -> dict[str, Any]:
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
    meaning, content = meaning_of(array, sizes)
    if meaning == "nothing":
        words = f"an array of shape {shape} is {content}"
        if VOLUMES in content:
            words += (
                "; evaluation.instances_from_masks makes masks of single nuclei that overlap one image, a list of its"
            )
            words += " planes several"
        raise ValueError(f"{words}; expected labels (H, W), a number for each nucleus")
    if meaning == "channels":
        content = np.moveaxis(array, 2, 0)
    return Masks(content) if meaning in ("masks", "channels") else content


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
