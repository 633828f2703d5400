"""Small drawings of nuclei, scored by the real program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from every_format import small_document

from evaluation.challenge import Challenge
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.score import Result, summarise
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.metrics import FAMILIES
from nuclei_metrics.model import Case, Instances, Measure, Region

CLASSES = ("lymphocyte", "tumor")  # small letters, capitals
SPACING_UM = 0.5
MEASURES: tuple[Measure, ...] = get_args(Measure)
METRICS: Mapping[str, Any] = {
    "families": FAMILIES,
    "boundary": "closed",
    "measures": MEASURES,
    "tolerance_px": 1.0,
    "iou_thresholds": (0.5, 0.75),
    "false_positives": (0.25, 0.5),
    "per": "image",
    "class_probabilities": True,
    "sizes_px": {"small": (0, 4)},
    "coverage": 0.5,
    "distance_cap_px": 4.0,
    "distance_cap_um": 0.75,
}
Confidence = Mapping[str, float]
Characters = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """The two sides of one image, character by character, (H, W)."""

    reference: Characters
    prediction: Characters


def score_pictures(path: str, picture: str, **options: Any) -> float | str:
    """The number at a path of metrics.json, or the reason why there is none, for nuclei that are drawn.

    A picture has the reference on the left and the prediction on the right; an empty line begins the next image. Every
    letter is a nucleus, small ones lymphocytes, capitals tumor cells; ``.`` is background. ``options`` are those of
    ``score_all``.

    >>> score_pictures("detection.recall.pooled", '''
    ... aa.BB  aa...
    ... aa.BB  aa...
    ... ''')
    0.5
    >>> score_pictures("detection.recall.pooled", "...  a..")
    'no-reference'
    """
    families = options.pop("families", (path.partition(".")[0],))
    result = score_all(picture, families=families, **options)
    value = result.value(path)
    if value is not None:
        return value
    reason: Any = result.metrics["undefined"]
    for key in path.split("."):
        reason = reason[key]
    return str(reason)


def score_all(picture: str, *, confidence: Confidence | None = None, as_points: bool = False, **metrics: Any) -> Result:
    """Score a picture with all families.

    Pairs match above an IoU of 1/2, whatever their classes; the image border is outside of every nucleus; a pixel has
    0.5 um. ``#`` in the reference marks an ignore region, whose pixels leave both sides.

    confidence   of each predicted nucleus, by its letter; it is the probability of its class too. None: not given
    as_points    nuclei are points at their centroids, and pairs match within 1 px
    metrics      keys of the table ``metrics`` of challenge.toml that win over those of ``METRICS``

    Raises ValueError for a drawing that is not one, KeyError for a predicted letter without confidence.
    """
    drawings = read_drawings(picture)
    challenge = challenge_of(as_points, tuple(sorted(metrics.items())))
    names = [f"image_{number}" for number in range(1, len(drawings) + 1)]
    sides = [
        (nuclei(drawing.reference), with_confidence(nuclei(drawing.prediction), confidence)) for drawing in drawings
    ]
    if as_points:
        sides = [(at_centroids(reference), at_centroids(prediction)) for reference, prediction in sides]
    regions = [ignore_region(drawing.reference) for drawing in drawings]
    if not any(len(region.run_start) for region in regions):
        return score_instances(challenge, dict(zip(names, sides, strict=True)), spacing_um=SPACING_UM)
    cases = [Case(name, name, *side[0].shape_yx, SPACING_UM) for name, side in zip(names, sides, strict=True)]
    complete = challenge.model_copy(update={"cases": tuple(cases)})
    matched = [
        match_case(complete, case, PreparedReference(reference, region), prediction)
        for case, (reference, prediction), region in zip(cases, sides, regions, strict=True)
    ]
    return summarise(complete, measure_cases(complete, matched))


def challenge_of(as_points: bool, metrics: tuple[tuple[str, Any], ...]) -> Challenge:
    """The rules by which pictures are scored."""
    side = {"format": "label_image", "files": "{case}/{class}.tif"}
    rule: dict[str, Any] = {"name": "iou_above", "rule": "iou_above", "threshold": 0.5}
    if as_points:
        side = {"format": "points_csv", "files": "{case}.csv", "units": "px", "origin": "pixel_centre"}
        rule = {"name": "closest_first", "rule": "centroid_closest_first", "radius_px": 1.0}
    measured = without_idle_keys({**METRICS, **dict(metrics)})
    document = small_document(side, rule, name="pictures", classes=CLASSES, metrics=measured)
    document["reference"]["ignore"] = {"policy": "clip"}
    return Challenge.build(document)


def without_idle_keys(metrics: dict[str, Any]) -> dict[str, Any]:
    """The table ``metrics`` without keys that none of its families knows."""
    users = {
        "iou_thresholds": {"thresholds", "curves", "sizes"},
        "sizes_px": {"sizes"},
        "false_positives": {"curves"},
        "coverage": {"covered"},
        "distance_cap_px": {"covered", "overall"},
        "distance_cap_um": {"covered", "overall"},
    }
    chosen = {name.partition(".")[0] for name in metrics["families"]}
    idle = {key for key, families in users.items() if not families & chosen}
    return {key: value for key, value in metrics.items() if key not in idle}


def read_drawings(picture: str) -> list[Drawing]:
    """The images of a picture."""
    images: list[list[list[str]]] = [[]]
    for line in picture.strip().splitlines():
        parts = line.split()
        if parts:
            images[-1].append(parts)
        else:
            images.append([])
    drawings = []
    for rows in images:
        widths = {len(part) for parts in rows for part in parts}
        if len(widths) != 1 or {len(parts) for parts in rows} != {2}:
            raise ValueError(f"the rows {rows} are no reference beside a prediction of the same size")
        left, right = (np.array([list(parts[side]) for parts in rows]) for side in (0, 1))
        drawings.append(Drawing(left, right))
    return drawings


def nuclei(characters: Characters) -> Instances:
    """Each letter is a nucleus; its source id is the letter as a number."""
    labels = np.where(np.char.isalpha(characters), characters.view(np.uint32), 0).astype(np.int64)
    letters = [chr(value) for value in np.unique(labels) if value]
    return instances_from_labels(labels, [2 if letter.isupper() else 1 for letter in letters])


def with_confidence(instances: Instances, confidence: Confidence | None) -> Instances:
    """Instances with their confidences, and the probabilities of both classes that follow."""
    if confidence is None:
        return instances
    own = np.array([confidence[chr(value)] for value in instances.source_id], np.float64)
    lymphocyte = np.where(instances.class_id == 1, own, np.round(1 - own, 6))
    both = np.stack([lymphocyte, np.round(1 - lymphocyte, 6)], axis=1).astype(np.float64)
    return replace(instances, probability=own.astype(np.float64), class_probability=both)


def at_centroids(instances: Instances) -> Instances:
    """Nuclei as points."""
    none = np.empty(0, np.int64)
    return replace(
        instances, run_start=none, run_stop=none, run_instance=none.astype(np.int32), point_yx=instances.centroids_yx()
    )


def ignore_region(characters: Characters) -> Region:
    """The pixels that are drawn as ``#``."""
    marked = instances_from_labels((characters == "#").astype(np.int64), class_id=1)
    return Region(marked.run_start, marked.run_stop)
