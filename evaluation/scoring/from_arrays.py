"""From arrays in memory to scores: what notebooks call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.challenge import Challenge, RuleFault, is_safe_name
from evaluation.findings import quote
from evaluation.findings.errors import SubmissionRejected
from evaluation.findings.submission import NoPrediction
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.prepare import PreparedReference
from evaluation.matching import compare_label_maps, match_iou_above, overlap_table
from evaluation.metrics import count_matches
from evaluation.metrics.measure import overlap_measures
from evaluation.model import (
    Case,
    Float64,
    Instances,
    LabelMaps,
    MatchCounts,
    Matches,
    OverlapTable,
    Region,
)
from evaluation.scoring.columns import check_columns
from evaluation.scoring.match import match_case
from evaluation.scoring.measure import measure_cases, measure_outlines, outlined_image
from evaluation.scoring.rasterise import with_sizes_of
from evaluation.scoring.score import Result, summarise


def score_instances(
    challenge: Challenge,
    images: Mapping[str, tuple[Instances | npt.ArrayLike, Instances | npt.ArrayLike | None]],
    *,
    groups: Mapping[str, str] | None = None,
    strata: Mapping[str, str] | None = None,
    spacing_um: float | None = None,
) -> Result:
    """Score instances in memory: for each case name its reference and its prediction (None: not submitted).

    Labels (H, W) may stand for instances if the challenge has one class.

    ``groups`` names the group (patient) of each case; a case without one is a group of its own. ``strata`` names the
    stratum of each case, if there are strata; ``spacing_um`` is the size of the pixels of all images, if it matters.
    The cases of the challenge are replaced by these. Instances are taken as they are: rules on how files become
    instances, overlap and ignore rules among them, do not apply. Raises ValueError for no images, unusable names and
    classes, and what the rules contradict in the cases, and
    SubmissionRejected for a missing prediction if the challenge rejects those.
    """
    if not images:
        raise ValueError("no images to score")
    sides = {
        name: (as_instances(challenge, reference), None if prediction is None else as_instances(challenge, prediction))
        for name, (reference, prediction) in images.items()
    }
    missing = sorted(name for name, (_, prediction) in sides.items() if prediction is None)
    if missing and challenge.submission.missing_case == "reject":
        raise SubmissionRejected(*(NoPrediction().at(f"case {quote(name)}") for name in missing))
    cases = [
        Case(name, (groups or {}).get(name, name), *of[0].shape_yx, spacing_um, stratum=(strata or {}).get(name, ""))
        for name, of in sides.items()
    ]
    stratum_of = {case.group: case.stratum for case in cases}
    for case in cases:
        if stratum_of[case.group] != case.stratum:
            raise ValueError(f"group {case.group!r} is in two strata")
        if not all(is_safe_name(name) for name in (case.name, case.group, case.stratum or "none")):
            raise ValueError(f"{case.name!r} in {case.group!r} cannot be the name of a case and its group")
    cases.sort(key=lambda case: (case.group, case.name))
    complete = challenge.model_copy(update={"cases": tuple(cases)})
    try:
        complete.check_metrics()
    except RuleFault as fault:
        raise ValueError(str(fault)) from None
    check_columns(complete)
    complete = with_sizes_of(complete, [reference.areas_px() for reference, _ in sides.values()])
    nothing = Region(np.empty(0, np.int64), np.empty(0, np.int64))
    matched = [
        match_case(complete, case, PreparedReference(sides[case.name][0], nothing), sides[case.name][1])
        for case in cases
    ]
    return summarise(complete, measure_cases(complete, matched))


def as_instances(challenge: Challenge, image: Instances | npt.ArrayLike) -> Instances:
    """Instances as they are, labels as instances of the only class. Raises ValueError if there are several."""
    if isinstance(image, Instances):
        return image
    if len(challenge.classes) > 1:
        names = ", ".join(challenge.class_names)
        raise ValueError(f"labels without classes, but the challenge has several ({names}): use instances_from_labels")
    return instances_from_labels(image, class_id=1)


def count_label_maps(images: Sequence[LabelMaps], *, hausdorff: bool = True) -> list[MatchCounts]:
    """Counts of each image from its two label maps, matched by IoU above 1/2 whatever the classes.

    The engine without files and rules, for those who have dense arrays and want numbers fast.

    >>> import numpy as np
    >>> labels = np.array([[1, 1, 0, 4, 4]])
    >>> maps = LabelMaps(labels, 10 * labels, np.array([1, 2]), np.array([1, 1]))
    >>> count_label_maps([maps])[0].confusion.tolist()
    [[0, 0, 0], [0, 1, 0], [0, 1, 0]]
    """
    matched: list[tuple[Instances, Instances, list[Matches]]] = []
    for maps in images:
        reference, prediction, table = instances_and_overlaps(maps, with_runs=hausdorff)
        found = match_iou_above(table, reference, prediction, threshold=0.5, class_aware=False)
        matched.append((reference, prediction, [found]))
    surfaces: Sequence[Sequence[Mapping[str, Float64]]] = [[{}]] * len(matched)
    if hausdorff:
        wanted, tolerances = {"hausdorff_px", "hausdorff95_px"}, [None] * len(matched)
        outlined = [outlined_image(*of_image) for of_image in matched]
        surfaces = measure_outlines(outlined, wanted, border="open", tolerances_px=tolerances)
    return [
        count_matches(
            reference,
            prediction,
            found[0],
            classes=int(max(reference.class_id.max(initial=1), prediction.class_id.max(initial=1))),
            measures={**overlap_measures(found[0]), **of_image[0]},
        )
        for (reference, prediction, found), of_image in zip(matched, surfaces, strict=True)
    ]


def instances_and_overlaps(maps: LabelMaps, *, with_runs: bool) -> tuple[Instances, Instances, OverlapTable]:
    """Both sides and their overlap table, in one pass over the pixels where the labels allow it.

    Without runs the instances have classes and ids only; nothing that matches at an IoU above 1/2 asks for more.
    """
    pair = compare_label_maps(maps.reference, maps.prediction, with_runs=with_runs)
    if pair is None:
        reference = instances_from_labels(maps.reference, maps.reference_class)
        prediction = instances_from_labels(maps.prediction, maps.prediction_class)
        return reference, prediction, overlap_table(reference, prediction)
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
    height, width = maps.reference.shape

    def side(ids: npt.NDArray[np.int64], classes: npt.NDArray[np.int16], runs: Any) -> Instances:
        return Instances((height, width), classes.astype(np.int16), ids, *(runs or none))

    return (
        side(pair.reference_ids, maps.reference_class, pair.reference_runs),
        side(pair.prediction_ids, maps.prediction_class, pair.prediction_runs),
        pair.table,
    )
