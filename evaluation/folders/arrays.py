"""``evaluation.compare``: scores of arrays, or of paths, in one line of Python.

Each image is read once, into nuclei with their given classes (``Nuclei``). Then each side is a ``Source``, as for
files: the same functions plan classes, group models and create rules. Nuclei stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluation.challenge import Challenge, LimitRules, is_safe_name
from evaluation.challenge.documents import resolve_preset
from evaluation.files.decoding.label_array import find_binary_mask, find_edges, label_components, values_of_masks
from evaluation.findings import Finding, counted, fault, listed
from evaluation.folders import made_challenge as challenges
from evaluation.folders.compare import Comparison, compare_paths, comparison_of, model_names, parties_of
from evaluation.folders.hints import IMAGES_TRIED, TriedImage, classes_hint, hints_about
from evaluation.folders.made_challenge import ClassNames, Wanted, distinct_names, plan_classes
from evaluation.folders.pairs import unpaired
from evaluation.folders.pieces import VOLUMES, Array, axis_of_masks, meaning_of
from evaluation.folders.source import Size, Source, SourceCase
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.score import Result
from evaluation.scoring.workers import check_workers
from nuclei_metrics.instances.runs import (
    EXACT_UP_TO,
    are_records,
    as_array,
    empty_region,
    instances_from_masks,
    instances_of_values,
    join_regions,
    majority_classes,
    select_instances,
    union_region,
    whole_labels,
)
from nuclei_metrics.model import Instances, LabelRuns, Region
from nuclei_metrics.model.annotations import runs_of

if TYPE_CHECKING:
    from evaluation.report.pictures import Scene

PATH_TYPES = (str, PathLike)
SEVERAL = 4  # nuclei, each with a class of its own: no class map


def compare(
    reference: Any,
    prediction: Any,
    *,
    classes: Sequence[str] | str | None = None,
    groups: Mapping[str, str] | None = None,
    ignore: Sequence[str | int] = (),
    match: str | None = None,
    annotators: Sequence[str] = (),
    families: Sequence[str] = (),
    workers: int | None = None,
) -> Comparison:
    """Score predictions against a reference, without a challenge, by the rules of the preset ``recommended``.

    reference   labels of an image (H, W), a list of such or (N, H, W), a table of them by the names of the images, or
                a path. Labels of an image can be replaced by a list of masks (H, W) of single nuclei, an array of
                masks, or SAM's list of records
    prediction  the same; for several models a table by the names of the models, or a list of paths

    Labels are whole numbers of any type, 0 is background. With classes an image is a pair (labels, classes), these
    being a list in ascending order of the labels, a table by label, or an image of the same shape; each is a name, or
    a number from 1. Without classes all nuclei are of one class.

    classes  the classes in order, with other spellings: "tumour=neoplastic=1,stroma", or a list of such names
    groups   the patient of each image; for arrays
    ignore   labels or classes of unannotated regions in the reference, such as [-1, 255]
    match    matching rule: "iou=0.7" (a pair has an IoU above it), "centroid=12", "hausdorff=6" (px), "any_overlap",
             "best_iou_centroid_inside"
    annotators  names of models that are second annotations: shown as the ceiling, never best or ranked
    families further families of metrics, such as "objects"

    Raises ValueError for arrays that cannot be labels and for arrays without a counterpart, and EvaluationError for
    paths that cannot be read or paired and for faulty files.

    >>> import numpy as np
    >>> compare(np.array([[1, 1, 0, 2]]), np.array([[7, 7, 0, 0]]))
    Comparison of 1 image
      prediction: detection F1 0.667, IoU 1.000, PQ 0.667
    """
    check_workers(workers)
    option, ignored = _classes_text(classes), _ignored_names(ignore)
    if isinstance(reference, PATH_TYPES):
        if groups is not None:
            raise ValueError("groups are for arrays; with files, each patient is a folder")
        how: dict[str, Any] = {"classes": option, "ignore": ignored, "match": match, "annotators": annotators}
        how |= {"families": families, "workers": workers}
        again = partial(compare_paths, Path(reference), _paths_in(prediction), **how)
        return replace(again(), draw=partial(_draw_paths, again))
    if isinstance(prediction, PATH_TYPES):
        raise ValueError("the prediction is a path, but the reference is not: both are paths, or both are arrays")
    named_models = _models_by_name(reference, prediction)
    numbers = {int(name) for name in ignored if name.removeprefix("-").isdecimal()}
    sizes_of_models = set().union(*map(_sizes_of, named_models.values()))
    images = _SideReader("reference", sizes_of_models, numbers).read(reference)
    may_differ = isinstance(reference, Mapping) or len(images) < 2
    sizes = {name: image.instances.shape_yx for name, image in images.items()}
    below_0 = {number for number in numbers if number < 0}  # others are ids of nuclei in a prediction
    models = {
        name: _SideReader(
            f"{name!r}, image", {*sizes.values()} if may_differ else set(), below_0, sizes, numbers - below_0
        ).read(model)
        for name, model in named_models.items()
    }
    void = {int(label) for read in models.values() for image in read.values() for label in image.ignored_labels}
    if backgrounds := void - below_0:  # of models; in the reference they may be ids of nuclei
        reader = _SideReader("reference", sizes_of_models, numbers - backgrounds, backgrounds=backgrounds)
        images = reader.read(reference)
    if not (images and models):
        raise ValueError(f"nothing to compare: no {'model in the prediction' if images else 'image in the reference'}")
    for name in (*images, *models, *(name for model in models.values() for name in model)):
        if not isinstance(name, str):
            raise ValueError(f"{name!r} cannot be the name of an image or of a model; expected text")
    images = _with_regions(images, "reference")
    models = {model: _with_regions(read, f"{model!r}, image") for model, read in models.items()}
    side, sides = _source_of(images), {model: _source_of(read) for model, read in models.items()}
    not_scored = challenges.ignored_classes(side, ignored)
    known = {name.casefold() for name in side.classes} | {str(label) for label in void}
    known = known.union(*(image.ignored_labels for image in images.values()))
    if strange := [name for name in ignored if name.casefold() not in known]:
        raise ValueError(f"ignore: {strange[0]!r} is no label and no class of the reference")
    images = {name: image.without(not_scored) for name, image in images.items()}
    models = {model: {n: image.without(not_scored) for n, image in read.items()} for model, read in models.items()}
    read_sides = (images, *models.values())
    met = {key for read in read_sides for image in read.values() for key in image.classes}
    option = _option_for_numbers(option, met)
    planned = plan_classes(side, sides, option, not_scored)
    wanted = Wanted(challenges.parsed_match(match) if match else None, tuple(families), tuple(not_scored))
    regions = {name: image.region for name, image in images.items()}
    findings = [finding for read in read_sides for image in read.values() for finding in image.findings]
    findings += planned.findings
    results, parties, drawn = {}, parties_of(side, sides, planned), {}
    for party in parties:
        tables = _array_rules(party.plan, "reference/"), _array_rules(party.plan, "")
        challenge = Challenge.build(resolve_preset(challenges.document_of(side, party, *tables, wanted)))
        of_reference = {name: image.with_ids(party.plan, f"reference {name!r}") for name, image in images.items()}
        for model in party.models:
            _check_images(model, models[model], images, named_models[model], may_differ=may_differ)
            findings += unpaired([name for name in images if name not in models[model]], (), model)
            made = {name: one.with_ids(party.plan, f"{model!r}, image {name!r}") for name, one in models[model].items()}
            pairs = {name: (nuclei, made.get(name)) for name, nuclei in of_reference.items()}
            results[model] = result = score_instances(challenge, pairs, groups=groups, regions=regions)
            drawn[model] = (result, pairs, regions)
            some = [TriedImage(n, r, (p,)) for n, (r, p) in pairs.items() if p is not None and len(p) and len(r)]
            hints = (*hints_about(partial(list, some[:IMAGES_TRIED]), result), *classes_hint(result))
            findings += [replace(hint, where=f"prediction {model!r}") for hint in hints]
    found = comparison_of(results, parties, findings=tuple(dict.fromkeys(findings)), annotators=annotators)
    return replace(found, draw=partial(_draw_arrays, drawn))


def _draw_paths(again: Callable[..., Comparison]) -> Mapping[str, Mapping[str, Scene]]:
    """Read the files once more and draw their nuclei."""
    return again(pictures=True).scenes


def _draw_arrays(models: Mapping[str, tuple[Result, Any, Mapping[str, Region]]]) -> dict[str, dict[str, Scene]]:
    """Draw the nuclei of each model: its result, pairs of instances, and unannotated regions."""
    from evaluation.report.pictures import draw_instances

    return {model: draw_instances(*made) for model, made in models.items()}


# --- arguments --------------------------------------------------------------------------------------------------------


def _classes_text(classes: Any) -> str | None:
    """The classes as the option ``--classes`` has them. Raises ValueError."""
    if classes is None or isinstance(classes, str):
        return classes
    names = [] if isinstance(classes, Mapping | Set | bytes) or not isinstance(classes, Iterable) else list(classes)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"classes are {classes!r}; expected names in order, such as ['tumour', 'stroma'] for 1 and 2")
    return ",".join(names)


def _ignored_names(ignore: Any) -> tuple[str, ...]:
    """Labels and classes as the option ``--ignore`` has them. Raises ValueError."""
    values = [ignore] if isinstance(ignore, str | int) else list(ignore) if isinstance(ignore, Iterable) else [None]
    if not all(isinstance(name, str | int | np.integer) for name in values):
        raise ValueError(f"ignore is {ignore!r}; expected labels or classes of the reference, such as [-1, 255]")
    return tuple(map(str, values))


def _paths_in(prediction: Any) -> dict[str, Path]:
    """The paths of models by name. Raises ValueError."""
    paths = prediction if isinstance(prediction, list | tuple | Mapping) else [prediction]
    if not all(isinstance(path, PATH_TYPES) for path in (paths.values() if isinstance(paths, Mapping) else paths)):
        raise ValueError("the reference is a path, but the prediction is not: both are paths, or both are arrays")
    if not paths:
        raise ValueError("nothing to compare: no path in the prediction")
    if not isinstance(paths, Mapping):
        return model_names([Path(path) for path in paths])
    if wrong := [name for name in paths if not is_safe_name(name)]:
        allowed = "letters, digits and any of ' _-.+@', and a name that Windows allows"
        raise ValueError(f"{wrong[0]!r} cannot be the name of a model; expected {allowed}")
    return {name: Path(path) for name, path in paths.items()}


def _models_by_name(reference: Any, prediction: Any) -> dict[str, Any]:
    """Name the models of a prediction: it is a table of models, or one model of the same form as the reference."""
    if isinstance(prediction, Mapping):
        several = isinstance(reference, Mapping) and any(isinstance(images, Mapping) for images in prediction.values())
        if several or not isinstance(reference, Mapping):
            return dict(prediction)
    return {"prediction": prediction}


def _option_for_numbers(option: str | None, keys: Set[str]) -> str | None:
    """Classes in order, with numbers from 1 as spellings if nuclei only have numbers.

    Raises ValueError for classes of nuclei that are not among them.

    >>> _option_for_numbers("tumour,stroma", {"1", "2"})
    'tumour=1,stroma=2'
    """
    if option is None or challenges.is_none(option):
        return option
    plan = challenges.parsed_classes(option)
    if keys and all(key.isdecimal() for key in keys) and not keys & _ids_of(plan).keys():
        plan = [(name, [*aliases, str(number)]) for number, (name, aliases) in enumerate(plan, start=1)]
    if unknown := sorted(key for key in keys if key.casefold() not in _ids_of(plan)):
        names = [word for name, more in plan for word in (name, *more)]
        raise ValueError(f"{unknown[:3]} are not among the classes {', '.join(names)}")
    return ",".join("=".join([name, *aliases]) for name, aliases in plan)


def _check_images(
    model: str, read: Mapping[str, Nuclei], images: Mapping[str, Nuclei], argument: Any, *, may_differ: bool
) -> None:
    """Refuse images that the reference lacks, and lists of another length. Raises ValueError."""
    if strange := sorted(set(read) - set(images)):
        expected = "two images, two lists, or two tables with the same names; several models are a table by name"
        if isinstance(argument, list):
            expected += "; masks of single nuclei are arrays of True and False"
        raise ValueError(f"{model!r} has images that the reference lacks: {strange[:3]}; expected {expected}")
    if not may_differ and len(images) != len(read):
        raise ValueError(
            f"{counted(len(images), 'image')} in the reference, {len(read)} in {model!r}: give tables by name"
        )


# --- what a side holds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Nuclei:
    """The nuclei of an image that was given as arrays.

    keys            the class of each nucleus, a name or a number as text; None if no classes are given
    classes         all given classes, including classes without nuclei
    runs            its labels, if it was given as labels
    region          unannotated region
    ignored_labels  the labels of this region
    """

    instances: Instances
    keys: tuple[str, ...] | None = None
    classes: tuple[str, ...] = ()
    runs: LabelRuns | None = None
    region: Region = field(default_factory=empty_region)
    ignored_labels: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()
    has_ids: bool = False

    def without(self, ignored: Collection[str]) -> Nuclei:
        """The image without the nuclei of unscored classes; their pixels become unannotated."""
        names = {name.casefold() for name in ignored}
        if names.isdisjoint(map(str.casefold, self.classes)):
            return self
        scored = np.array([key.casefold() not in names for key in self.keys or ()], np.bool_)
        region = union_region(select_instances(self.instances, ~scored))
        return replace(
            self,
            instances=select_instances(self.instances, scored),
            keys=tuple(key for key in self.keys or () if key.casefold() not in names),
            classes=tuple(key for key in self.classes if key.casefold() not in names),
            region=join_regions([self.region, region], self.instances.shape_yx[1]),
        )

    def with_ids(self, plan: ClassNames, where: str) -> Instances:
        """The nuclei with the ids of their classes. Raises ValueError if classes are missing although there are
        several.
        """
        if self.has_ids:
            return self.instances
        if self.keys is None and len(plan) > 1:
            raise ValueError(f"{where}: no classes, although there are several; give pairs (labels, classes)")
        ids = _ids_of(plan)
        of_nuclei = [1] * len(self.instances) if self.keys is None else [ids[key.casefold()] for key in self.keys]
        return replace(self.instances, class_id=np.array(of_nuclei, np.int16))


def _with_regions(images: dict[str, Nuclei], where: str) -> dict[str, Nuclei]:
    """The images of a side of masks with a nucleus for each region of touching pixels, which is reported.

    The values of class maps are the classes. Of other sides, images that look like masks are reported.
    """
    runs = {name: image.runs for name, image in images.items() if image.runs is not None}
    plain = [runs[name] for name in runs if images[name].keys is None]
    values = values_of_masks(plain) if len(plain) == len(images) else set()
    made = dict(images)
    for name, labels in runs.items():
        place, image = f"{where} {name!r}", images[name]
        if not values:
            findings = (*find_binary_mask(labels, where=place), *image.findings)
            made[name] = replace(image, findings=tuple(replace(one, where=place) for one in findings))
            continue
        if edges := find_edges(labels, where=place):
            raise ValueError(str(edges[0]))
        regions, findings = label_components(labels, 8, where=place, bytes_limit=LimitRules().bytes_per_file)
        nuclei = instances_of_values(regions, 1)
        keys = None
        if len(values) > 1:
            first = np.searchsorted(labels.start, nuclei.first_pixels(), side="right") - 1
            keys = tuple(map(str, labels.value[first].tolist()))
        made[name] = replace(image, instances=nuclei, keys=keys, classes=keys or (), findings=findings)
    return made


def _source_of(images: Mapping[str, Nuclei]) -> Source:
    """Describe the content of a side: its classes, names in order of appearance, numbers by size."""
    keys = distinct_names(key for image in images.values() for key in image.classes)
    classes = sorted(keys, key=lambda key: int(key) if key.isdecimal() else 0)
    cases = {name: SourceCase((), size_yx=image.instances.shape_yx) for name, image in images.items()}
    return Source(Path("arrays"), "label_image", ".npy", {}, cases, tuple(classes))


def _ids_of(plan: ClassNames) -> dict[str, int]:
    """Map every spelling of a class, in lower case, to its id."""
    return {word.casefold(): index for index, (name, more) in enumerate(plan, start=1) for word in (name, *more)}


def _array_rules(plan: ClassNames, below: str) -> dict[str, Any]:
    """Write the rules of a side as if its arrays were files with class maps."""
    rules: dict[str, Any] = {"format": "label_image", "files": f"{below}{{case}}.npy"}
    if len(plan) > 1:
        numbers = {name: number for number, (name, _) in enumerate(plan, start=1)}
        rules |= {"class_map": f"{below}{{case}}_class.npy", "class_values": numbers}
    return rules


# --- one image --------------------------------------------------------------------------------------------------------


def _key_of(value: Any) -> str:
    """The name of a class, or its number as text.

    >>> _key_of("tumour"), _key_of(np.uint8(3)), _key_of(2.0)
    ('tumour', '3', '2')
    """
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, int | float | np.number) or not 1 <= value < inf or value != int(value):
        raise ValueError(f"{value!r} is no class; expected names or whole numbers from 1")
    return str(int(value))


class Masks:
    """The nuclei of an image that was given as ``number`` masks, without classes."""

    def __init__(self, masks: Any) -> None:
        self.instances, self.number = instances_from_masks(masks), len(masks)


@dataclass(frozen=True, slots=True)
class _SideReader:
    """How the images of a side are read.

    where    the side, before the fault
    sizes    of the images of the other side, if available, for masks
    void     labels of unannotated regions
    shapes   of the images of the reference, by name, for empty lists of masks
    backgrounds  labels that also mark unannotated regions if they cover more than half of an image
    """

    where: str
    sizes: Collection[Size]
    void: Collection[int]
    shapes: Mapping[str, Size] = field(default_factory=dict)
    backgrounds: Collection[int] = ()

    def read(self, images: Any) -> dict[str, Nuclei]:
        """Images as a table; a single image is "image", the images of a list or stack are "image_0", "image_1", …

        Raises ValueError for arrays other than labels and masks.
        """
        if isinstance(images, list) and not images:
            return {}
        if isinstance(images, list) and not (are_records(images) or _are_rows(images)):
            stack = _stack_of(images)
            is_one = stack is not None and axis_of_masks(stack, self.sizes) == 0
            images = Masks(stack) if is_one else _by_number(images)
        elif not isinstance(images, Mapping | Instances | list | tuple) and len(getattr(images, "shape", ())) > 2:
            try:
                images = _unstacked(as_array(images, "labels"), self.sizes)
            except ValueError as error:
                raise ValueError(f"{self.where}: {error}") from None
            images = _by_number(images) if isinstance(images, list) else images
        if isinstance(images, Mapping):
            return {name: self.image(image, f"{self.where} {name!r}", name) for name, image in images.items()}
        return {"image": self.image(images, self.where, "image")}

    def image(self, image: Any, where: str, name: Any) -> Nuclei:
        """One image. Raises ValueError."""
        labels, classes = _labels_and_classes(image)
        are_two = isinstance(labels, list) and len(labels) == 2
        is_float = getattr(getattr(labels, "dtype", None), "kind", "") == "f"
        try:
            if isinstance(labels, Instances):
                return Nuclei(labels, has_ids=True)
            if isinstance(labels, list) and not labels and name in self.shapes:
                labels, classes = np.zeros(self.shapes[name], np.uint8), None
            elif isinstance(labels, list) and (are_records(labels) or not _are_rows(labels)):
                labels = Masks(labels)
            elif not isinstance(labels, Masks) and (array := as_array(labels, "labels")).ndim > 2:
                labels = Masks(array) if array.dtype.kind == "b" else _unstacked(array, self.sizes)
                if isinstance(labels, list):
                    got = f"labels of shape {array.shape} are {counted(len(labels), 'image')}"
                    raise ValueError(f"{got}; expected one, (H, W)")
                if isinstance(labels, tuple):
                    if classes is not None:
                        raise ValueError(f"labels of shape {array.shape}, with classes; expected labels (H, W)")
                    labels, classes = labels
            if not isinstance(labels, Masks):
                return self.labels(labels, classes, where)
            if classes is None:
                return Nuclei(labels.instances)
            of_masks = as_array(classes, "classes")
            if isinstance(classes, Mapping) or of_masks.shape != (labels.number,):
                raise ValueError(f"classes of shape {of_masks.shape} for {labels.number} masks; expected one per mask")
            keys = [_key_of(value) for value in of_masks.tolist()]
            return Nuclei(labels.instances, tuple(keys[n - 1] for n in labels.instances.source_id), tuple(sorted(keys)))
        except ValueError as error:
            advice = "; labels with classes are a pair, (labels, classes)" * are_two
            advice += "; masks of single nuclei are arrays of True and False" * is_float
            raise ValueError(f"{where}: {error}{advice}") from None

    def labels(self, labels: Any, classes: Any, where: str) -> Nuclei:
        """An image of labels; unannotated regions are not nuclei. Raises ValueError, also for label 0."""
        array = as_array(labels, "labels")
        if 0 in self.void:
            raise ValueError("ignore: 0 is the background of labels; mark unannotated regions with another number")
        void = {*self.void, *(label for label in self.backgrounds if 2 * np.count_nonzero(array == label) > array.size)}
        is_void = np.isin(array, sorted(void))
        whole = whole_labels(np.where(is_void, 0, array) if is_void.any() else array)
        if whole.min(initial=0) < 0 or whole.max(initial=0) > np.iinfo(np.int64).max:
            raise ValueError(f"labels are from {whole.min()} to {whole.max()}, not from 0 to 2^63 - 1")
        runs = runs_of(whole)
        instances = instances_of_values(runs, 0)
        region = union_region(instances_of_values(runs_of(is_void.astype(np.uint8)), 1))
        void_labels = frozenset(str(number) for number in void if (array == number).any())
        read = Nuclei(instances, None, (), runs, region, void_labels)
        if classes is None:
            return read
        keys, met = _keys_of_labels(instances, whole, classes)
        return replace(read, keys=tuple(keys), classes=tuple(met), findings=_about_class_map(whole, classes, where))


def _keys_of_labels(instances: Instances, labels: Array, classes: Any) -> tuple[list[str], list[str]]:
    """The class of each label, and all classes that there are, from a table, a list or a class map. Raises ValueError.

    In a class map a nucleus has the class of most of its pixels that have one.
    """
    present = instances.source_id.tolist()
    if getattr(classes, "ndim", 0) == 1 and hasattr(classes, "to_dict") and set(present) <= set(classes.index):
        classes = classes.to_dict()  # a column of pandas that is indexed by label
    if isinstance(classes, Mapping):
        try:
            of_label = {int(label): value for label, value in classes.items()}
        except (TypeError, ValueError):
            raise ValueError(f"a table of classes has labels as keys, not {listed(classes, 3)}") from None
        if lacking := [label for label in present if label not in of_label]:
            raise ValueError(f"no class for the labels {lacking[:3]}")
        met = [_key_of(value) for value in of_label.values() if value not in (0, "", None)]
        return [_key_of(of_label[label]) for label in present], met
    array = as_array(classes, "classes")
    try:
        values, index = np.unique(array, return_inverse=True)
    except TypeError:  # that cannot be sorted
        raise ValueError("classes mix names and numbers") from None
    is_class = [value not in (0, "") for value in values.tolist()]
    met = [_key_of(value) for value, is_one in zip(values.tolist(), is_class, strict=True) if is_one]
    if array.shape != labels.shape or array.ndim != 2:
        if array.shape != (len(present),):
            expected = "one class per label in ascending order, a table by label, or an image of the same shape"
            got = f"classes of shape {array.shape} for {counted(len(present), 'label')}"
            raise ValueError(f"{got}; expected {expected}")
        return [_key_of(value) for value in array.tolist()], met
    numbers = np.where(is_class, np.cumsum(is_class), 0).astype(np.int16)
    number = majority_classes(instances, runs_of(numbers[index.reshape(labels.shape)]))
    if (number == 0).any():
        without = counted(int((number == 0).sum()), "nucleus has", "nuclei have")
        got = f"{without} no class in the class map, the second of the pair"
        raise ValueError(f"{got}; several images are a list, not a pair")
    return [met[one - 1] for one in number.tolist()], met


def _about_class_map(labels: Array, classes: Any, where: str) -> tuple[Finding, ...]:
    """A warning if the second image of a pair looks like labels of another image.

    Signs: every nucleus of the first image (at least four) has a different value; most nuclei have several values; or
    most of the second image is outside the nuclei.
    """
    class_map = np.zeros(0) if isinstance(classes, Mapping) else as_array(classes, "classes")
    if class_map.ndim != 2 or class_map.shape != labels.shape or class_map.dtype.kind not in "biuf":
        return ()
    is_nucleus, has_class = labels != 0, class_map != 0
    pairs = np.unique(np.stack([labels[is_nucleus], class_map[is_nucleus]]).astype(np.int64), axis=1)
    nuclei, values = np.unique(pairs[0], return_counts=True)
    number, several = counted(len(nuclei), "nucleus", "nuclei"), np.count_nonzero(values > 1)
    if len(nuclei) >= SEVERAL and len(set(pairs[1].tolist())) >= len(nuclei) and not several:
        got = f"the second image has a different value for each of the {number} of the first image"
    elif 2 * several > len(nuclei):
        got = f"the second image has several values in {several} of {number}"
    elif 2 * np.count_nonzero(has_class & ~is_nucleus) > np.count_nonzero(has_class):
        got = f"most of the second image is outside the {number} of the first"
    else:
        return ()
    return (fault("no-class-map", where, got=got),)


def _by_number(images: list[Any]) -> dict[str, Any]:
    digits = len(str(len(images) - 1))
    return {f"image_{index:0{digits}}": image for index, image in enumerate(images)}


def _unstacked(array: Array, sizes: Collection[Size]) -> Any:
    """Return the meaning of an array of three axes, by the same signs as for files of arrays.

    ``Masks``, a pair of ids and classes, or a list of labels. Raises ValueError for pictures and volumes.
    """
    shape = array.shape
    if not array.size and len(shape) == 3:
        return Masks(array)
    array = array.reshape(_long_sides(array))
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


def _long_sides(array: Any) -> tuple[int, ...]:
    """List the axes of an array that are longer than 1, if these are two or more."""
    shape = tuple(getattr(array, "shape", ()))
    sides = tuple(side for side in shape if side != 1)
    return sides if len(sides) > 1 else shape


def _stack_of(images: list[Any]) -> Array | None:
    """Stack a list of boolean masks (H, W) of one size, (N, H, W); None if it is anything else."""
    shapes = {tuple(getattr(one, "shape", ())) for one in images}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or isinstance(images[0], Instances):
        return None
    planes = [as_array(one, "labels") for one in images]
    return np.stack(planes) if all(plane.dtype.kind == "b" for plane in planes) else None


def _sizes_of(images: Any) -> set[Size]:
    """The sizes of images that have names, or of a single one, if they are clear at first sight."""
    if isinstance(images, list):
        return set()
    sizes: set[Size] = set()
    for image in images.values() if isinstance(images, Mapping) else [images]:
        labels = image[0] if isinstance(image, tuple) and image else image
        shape: tuple[int, ...] = labels.shape_yx if isinstance(labels, Instances) else getattr(labels, "shape", ())
        if len(shape) == 2:
            sizes.add((int(shape[0]), int(shape[1])))
    return sizes


def _are_rows(parts: list[Any]) -> bool:
    """Return whether the parts of a list are the rows of one image, and not images or masks."""

    def is_row(part: Any) -> bool:
        if isinstance(part, Mapping | Instances) or are_records(part):
            return False
        try:
            return as_array(part, "labels").ndim == 1
        except ValueError:  # a pair of labels and classes
            return False

    return all(map(is_row, parts))


def _labels_and_classes(image: Any) -> tuple[Any, Any]:
    """The labels and the classes of an image."""
    if isinstance(image, tuple):
        if len(image) != 2:
            raise ValueError(f"an image is labels, or a pair of labels and classes, not {len(image)} things")
        return image
    return image, None
