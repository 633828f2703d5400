"""Scores over many images: counts add up, and one formula closes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from nuclei_metrics.aggregation import mean_of_units, stack_cases, unite
from nuclei_metrics.aggregation.units import PenalisedScores
from nuclei_metrics.measure import MatchedImage, measure_images
from nuclei_metrics.metrics import METRIC_FAMILIES, metrics_of, unknown_metrics
from nuclei_metrics.model import BorderRule, MatchCounts, Measure, MetricChoice, Units
from nuclei_metrics.model.counts import Score, SharedCounts
from nuclei_metrics.pair import Array, Classes, ImagePair, Side, read_pair
from nuclei_metrics.pairing import Matching, match, match_centroids
from nuclei_metrics.papers import meanings_of

COCO_THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
OVER = {"pooled": "pooled", "groups": "group_mean", "images": "case_mean"}  # what names in papers call it
OUTLINES: tuple[Measure, ...] = ("iou", "dice", "hausdorff_px", "hausdorff95_px", "mean_surface_distance_px")
WITHIN: tuple[Measure, ...] = ("boundary_iou", "surface_dice", "surface_dice_length")  # that need a tolerance
NEED_MORE = ("covered", "overall", "sizes")  # families with rules of a challenge

Over = Literal["pooled", "groups", "images"]


class Summary(Mapping[str, Score]):
    """Scores by name, such as ``summary["panoptic.pq"]``, or by the name of a paper, ``summary["mPQ+"]``.

    over   unit of the scores: "pooled", "groups" or "images"
    """

    def __init__(self, scores: Mapping[str, Score], units: Mapping[str, int], over: Over) -> None:
        self._scores, self._units, self.over = dict(scores), dict(units), over

    def __getitem__(self, name: str) -> Score:
        """Return a score. Raises KeyError with the readings of a name that has several, or with none at all."""
        return self._scores[self._path(name)]

    def _path(self, name: str) -> str:
        if name in self._scores:
            return name
        readings = meanings_of(name)
        found = [path for path in readings if self._path_here(path)]
        if len(found) == 1:
            return self._path_here(found[0])
        if readings:
            listed = "; ".join(f"{path} ({what})" for path, what in readings.items())
            raise KeyError(f"{name!r} over {self.over!r} is {len(found)} of these readings: {listed}")
        raise KeyError(f"no score {name!r}; expected one of {', '.join(self._scores)}")

    def _path_here(self, path: str) -> str:
        """Return the path of a reading without its aggregation if it is here, otherwise ""."""
        metric, _, last = path.rpartition(".")
        if last not in OVER.values():
            metric, last = path, OVER[self.over]
        return metric if metric in self._scores and last == OVER[self.over] else ""

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def units(self, name: str) -> int:
        """Return how many groups or images entered a mean; undefined ones are left out."""
        return self._units[self._path(name)]

    def to_dict(self, undefined: float | None = None) -> dict[str, float | None]:
        """Return the values by name, for loggers; ``undefined`` replaces undefined scores."""
        return {name: undefined if score.value is None else score.value for name, score in self._scores.items()}

    def __repr__(self) -> str:
        width = max(map(len, self._scores), default=0)
        shown = (
            f"{score.value:.4f}" if score.value is not None else score.undefined for score in self._scores.values()
        )
        return "\n".join(f"{name:{width}}  {value}" for name, value in zip(self._scores, shown, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Image:
    """The counts of one image; ``digest`` orders images, so that sums have the same digits whatever their order."""

    group: Hashable
    counts: MatchCounts
    shared: SharedCounts
    digest: bytes


class Evaluation:
    """Scores over many images, as in a validation loop: counts add, and nothing is averaged early.

    ``a + b`` adds the images of two evaluations with the same rules, such as those of workers or of the ranks of
    torch.distributed; an evaluation can be pickled. Neither the order of images nor of parts changes a digit.

    classes         names of the classes; class c of a nucleus is the c-th
    metrics         families ("detection", "classification", "panoptic", "segmentation", "overlap", "objects", "curves",
                    "thresholds", "counting"), single metrics ("overlap.aji") or names in papers ("mPQ+"); the fewer,
                    the faster
    iou, strict     a pair matches with IoU > ``iou``, or with IoU >= ``iou`` if not ``strict``
    radius_px       match by centroids at most so far apart instead (``match_centroids``)
    class_aware     whether only nuclei of one class can be a pair
    iou_thresholds  of "thresholds" and "curves", ascending
    tolerance_px    of the surface Dice; with it "segmentation" has boundary IoU and surface Dice
    border          whether the border of the image is part of a boundary: "closed" if it is, "open" if nuclei go on

    >>> import numpy as np
    >>> val = Evaluation(classes=["epithelial", "lymphocyte"], metrics=["panoptic"])
    >>> labels = np.array([[1, 1, 0, 4, 4, 4]])
    >>> image = val.update(labels, np.array([[7, 7, 0, 0, 9, 9]]), reference_class=[1, 2], prediction_class=[1, 2])
    >>> val.compute()["panoptic.binary.pq"], val.compute()["mPQ+"]  # (1 + 2/3) / 2, in both ways
    (Score(0.8333333333333333), Score(0.8333333333333333))

    Raises ValueError for unknown metrics, and for names of papers with several readings.
    """

    def __init__(
        self,
        *,
        classes: Sequence[str] = ("nucleus",),
        metrics: Sequence[str] = ("detection", "classification", "panoptic", "overlap"),
        iou: float = 0.5,
        strict: bool = True,
        radius_px: float | None = None,
        class_aware: bool = False,
        iou_thresholds: Sequence[float] = COCO_THRESHOLDS,
        tolerance_px: float | None = None,
        border: BorderRule = "closed",
    ) -> None:
        rule = {"iou": iou, "strict": strict} if radius_px is None else {"radius_px": radius_px}
        self._rule: dict[str, Any] = {**rule, "class_aware": class_aware}
        self._choice = _choose(metrics, tuple(classes), tuple(sorted(iou_thresholds)), tolerance_px)
        self._tolerance_px, self._border = tolerance_px, border
        self._images: list[_Image] = []

    def update(
        self,
        reference: Side | ImagePair,
        prediction: Side | None = None,
        *,
        reference_class: Classes | None = None,
        prediction_class: Classes | None = None,
        confidence: Array | None = None,
        group: Hashable | None = None,
    ) -> Matching:
        """Add an image, and return its matches under the rule of this evaluation.

        group   the patient or slide of the image; without it an image is a group by itself

        The rest is as for ``ImagePair``. An empty prediction is a map of zeros or an empty list.
        Raises ValueError for sides that do not fit, and for a class beyond ``classes``.
        """
        given = {"reference_class": reference_class, "prediction_class": prediction_class, "confidence": confidence}
        pair = read_pair(reference, prediction, pixels=_needs_pixels(self._choice), **given)
        found = (match_centroids if "radius_px" in self._rule else match)(pair, **self._rule)
        (counts, shared) = _count_image(found, self._choice, border=self._border, tolerance_px=self._tolerance_px)
        self._images.append(_Image(group, counts, shared, _digest(counts, shared)))
        return found

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._images)

    def __add__(self, other: Evaluation) -> Evaluation:
        """Return an evaluation with the images of both. Raises ValueError if their rules differ."""
        if not isinstance(other, Evaluation):
            return NotImplemented
        if self._rules() != other._rules():
            raise ValueError("evaluations with different rules do not add up")
        total = object.__new__(Evaluation)
        total.__dict__ = {**self.__dict__, "_images": [*self._images, *other._images]}
        return total

    def _rules(self) -> tuple[Any, ...]:
        return self._rule, self._choice, self._tolerance_px, self._border

    def compute(self, over: Over = "pooled") -> Summary:
        """Return the scores of all images as one ("pooled"), or their means over "groups" or "images".

        Undefined scores are left out of a mean: ``Summary.units`` counts what entered.
        Raises ValueError if there is no image.
        """
        if over not in OVER:
            raise ValueError(f"over {over!r}; expected 'pooled', 'groups' or 'images'")
        images, metrics = self._in_order(), metrics_of(self._choice, class_aware=self._rule["class_aware"])
        units = _units(images, self._choice, _members(images, over))
        scores, entered = dict[str, Score](), dict[str, int]()
        for metric in metrics:
            name, of_units = ".".join(metric.path), metric.evaluate(units)
            mean = mean_of_units(PenalisedScores(of_units.value, np.zeros(len(units), np.bool_), of_units))
            scores[name], entered[name] = (of_units.at(0) if over == "pooled" else mean.score), mean.units
        return Summary(scores, entered, over)

    def compute_each(self, by: Literal["groups", "images"] = "groups") -> dict[Hashable, Summary]:
        """Return the pooled scores of each group (patient), or of each image by its number from 0, not averaged.

        For statistics of your own. Raises ValueError if an image has no group, or if there is no image.
        """
        images = self._in_order()
        if by == "groups" and any(image.group is None for image in images):
            raise ValueError("an image has no group; expected update(…, group=…) for every image, or by='images'")
        members = _members(images, by)
        place = {id(image): index for index, image in enumerate(self._images)}
        names = [images[rows[0]].group if by == "groups" else place[id(images[rows[0]])] for rows in members]
        units, metrics = _units(images, self._choice, members), metrics_of(self._choice, class_aware=False)
        scores = {".".join(metric.path): metric.evaluate(units) for metric in metrics}
        each = {
            name: Summary({path: of.at(unit) for path, of in scores.items()}, dict.fromkeys(scores, 1), "pooled")
            for unit, name in enumerate(names)
        }
        return each if by == "groups" else dict(sorted(each.items()))

    def _in_order(self) -> list[_Image]:
        """Return the images in an order that their counts alone decide."""
        if not self._images:
            raise ValueError("no image; update() adds one")
        return sorted(self._images, key=lambda image: image.digest)


def _count_image(
    found: Matching, choice: MetricChoice, *, border: BorderRule = "closed", tolerance_px: float | None = None
) -> tuple[MatchCounts, SharedCounts]:
    """Count the inputs of the chosen metrics in one image under one matching."""
    pair = found.image
    sides = pair.with_pixels() if _needs_pixels(choice) else pair.sides
    image = MatchedImage(
        *sides, pair.table, {"rule": found.matches}, spacing_um=pair.spacing_um, tolerance_px=tolerance_px
    )
    points = any(side.point_yx is not None for side in sides)
    (measured,) = measure_images([image], choice, border=border, points=points)
    return measured.counts["rule"], measured.shared


def _needs_pixels(choice: MetricChoice) -> bool:
    return not {"overlap", "objects", "thresholds", "curves", "segmentation", "partition"}.isdisjoint(choice.families)


def units_of_image(found: Matching, choice: MetricChoice) -> Units:
    """Return one image as the only unit, for a formula."""
    counts, shared = _count_image(found, choice)
    return _units([_Image(None, counts, shared, b"")], choice, [[0]])


def _units(images: Sequence[_Image], choice: MetricChoice, members: Sequence[Sequence[int]]) -> Units:
    table = stack_cases(
        [image.counts for image in images],
        [image.shared for image in images],
        measures=choice.measures,
        areas_mm2=[None] * len(images),
    )
    return unite(table, members)


def _members(images: Sequence[_Image], over: Over) -> list[list[int]]:
    """Return the images of each unit; an image without group is a group by itself."""
    if over == "pooled":
        return [list(range(len(images)))]
    groups = dict[Hashable, list[int]]()
    for index, image in enumerate(images):
        key = ("", index) if over == "images" or image.group is None else ("group", image.group)
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def _choose(
    metrics: Sequence[str], classes: tuple[str, ...], iou_thresholds: tuple[float, ...], tolerance_px: float | None
) -> MetricChoice:
    """Return the chosen metrics. Raises ValueError for unknown metrics and for names with several readings."""
    if isinstance(metrics, str) or not metrics:
        raise ValueError(f"metrics are {metrics!r}; expected a list, such as ['detection', 'overlap.aji', 'mPQ+']")
    if not classes or len(set(classes)) < len(classes):
        raise ValueError(f"classes are {classes}; expected at least one, with different names")
    paths = [name if name in METRIC_FAMILIES or "." in name else _path_of_paper(name) for name in metrics]
    families = tuple(dict.fromkeys(path.partition(".")[0] for path in paths))
    if lost := [family for family in families if family not in METRIC_FAMILIES or family in NEED_MORE]:
        offered = ", ".join(family for family in METRIC_FAMILIES if family not in NEED_MORE)
        raise ValueError(f"no family {lost[0]!r}; expected one of {offered}, or a metric of them")
    measures: tuple[Measure, ...] = ("iou", "dice")
    if "segmentation" in families:
        measures = OUTLINES + (WITHIN if tolerance_px is not None else ())
    singles = tuple(path for path in paths if "." in path and path.partition(".")[0] not in paths)
    choice = MetricChoice(families, classes, measures, iou_thresholds=iou_thresholds, metrics=singles)
    if unknown := unknown_metrics(choice):
        name, known = next(iter(unknown.items()))
        raise ValueError(f"no metric {name!r}; expected one of {', '.join(known)}")
    return choice


def _path_of_paper(name: str) -> str:
    """Return the metric that a name in papers stands for, without its aggregation."""
    readings = meanings_of(name)
    paths = dict.fromkeys(path.removesuffix(f".{mean}") for path in readings for mean in OVER.values() if mean in path)
    if len(paths := paths or dict.fromkeys(readings)) != 1:
        listed = ", ".join(paths) or "no metric and no family"
        raise ValueError(f"{name!r} is {listed}; expected one of them" if paths else f"{name!r} is {listed}")
    return next(iter(paths))


def _digest(*parts: Any) -> bytes:
    """Return a key of counts: equal counts have equal keys."""
    state = blake2b(digest_size=16)

    def add(part: Any) -> None:
        if is_dataclass(part):
            for field in fields(part):
                add(getattr(part, field.name))
        elif isinstance(part, Mapping):
            for name in sorted(part):
                add(name)
                add(part[name])
        elif isinstance(part, np.ndarray):
            state.update(f"{part.dtype.str}{part.shape}".encode())
            state.update(np.ascontiguousarray(part).tobytes())
        else:
            state.update(repr(part).encode())

    for part in parts:
        add(part)
    return state.digest()
