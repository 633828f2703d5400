"""From arrays in memory to scores: what notebooks call."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.challenge import Challenge, RuleFault, is_safe_name
from evaluation.challenge.documents import LARGEST, LONGEST_SIDE_PX, MOST_PIXELS, SMALLEST
from evaluation.findings import fault, quote
from evaluation.findings.errors import SubmissionRejected
from evaluation.scoring.match import (
    label_signs,
    match_case,
    only_nuclei,
    own_duplicates,
    see_nuclei,
    share_of_only_nucleus,
)
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.score import Result, check_columns, summarise
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import empty_region, instances_from_labels
from nuclei_metrics.model import Case, Instances, Region


def score_instances(
    challenge: Challenge,
    images: Mapping[str, tuple[Instances | npt.ArrayLike, Instances | npt.ArrayLike | None]],
    *,
    groups: Mapping[str, str] | None = None,
    strata: Mapping[str, str] | None = None,
    spacing_um: float | None = None,
    regions: Mapping[str, Region] | None = None,
) -> Result:
    """Score instances in memory: for each case name its reference and its prediction (None: not submitted).

    Labels (H, W) may mean instances if the challenge has one class.

    ``groups`` names the group (patient) of each case; a case without a group forms its own group. ``strata`` names
    the stratum of each case, if any; ``spacing_um`` is the pixel size of all images, if it matters; ``regions`` are
    the unannotated regions of cases, if the challenge has rules for predictions there.
    They replace the cases of the challenge. Instances are used unchanged: rules for reading files, including overlap
    and ignore rules, do not apply. Raises ValueError without images, for unusable names and classes, and for
    contradictions between rules and cases; SubmissionRejected for a missing prediction if the challenge rejects missing
    predictions.
    """
    if not isinstance(challenge, Challenge):
        raise ValueError(f"the first argument is of type {type(challenge).__name__}; expected the rules, a Challenge")
    if not isinstance(images, Mapping):
        expected = "a table by name, such as {'image': (reference, prediction)}"
        raise ValueError(f"the second argument is of type {type(images).__name__}; expected {expected}")
    if not images:
        raise ValueError("no images to score")
    for table, word, example in ((groups, "groups", "patient 1"), (strata, "strata", "colon")):
        if table is not None and not (isinstance(table, Mapping) and (not table or set(table) & set(images))):
            got = "contain no name of an image" if isinstance(table, Mapping) else f"are of type {type(table).__name__}"
            raise ValueError(f"{word} {got}; expected a table by name, such as {{{next(iter(images))!r}: {example!r}}}")
    if spacing_um is not None and not (isinstance(spacing_um, Real) and SMALLEST <= spacing_um <= LARGEST):
        raise ValueError(f"spacing_um is {spacing_um!r}; expected the pixel size in µm, such as 0.25")
    sides = {name: _sides_of(challenge, name, pair) for name, pair in images.items()}
    missing = sorted(name for name, (_, prediction) in sides.items() if prediction is None)
    if missing and challenge.submission.missing_case == "reject":
        raise SubmissionRejected(
            *(fault("missing-case", f"case {quote(name)}", wording="no-prediction") for name in missing)
        )
    cases = [
        Case(name, (groups or {}).get(name, name), *both[0].shape_yx, spacing_um, stratum=(strata or {}).get(name, ""))
        for name, both in sides.items()
    ]
    stratum_of = {case.group: case.stratum for case in cases}
    for case in cases:
        if stratum_of[case.group] != case.stratum:
            raise ValueError(f"patient (group) {case.group!r} is in two strata")
        for word, known in (("case", case.name), ("group", case.group), ("stratum", case.stratum or "none")):
            if not is_safe_name(known):
                expected = "letters, digits and any of ' _-.+@', up to 200, that Windows allows"
                raise ValueError(f"{known!r} cannot be the name of a {word}; expected {expected}")
    cases.sort(key=lambda case: (case.group, case.name))
    complete = challenge.model_copy(update={"cases": tuple(cases)})
    try:
        complete.check_metrics()
    except RuleFault as error:
        raise ValueError(str(error)) from None
    check_columns(complete)
    references = {
        name: PreparedReference(reference, (regions or {}).get(name, empty_region()))
        for name, (reference, _) in sides.items()
    }
    matched = [match_case(complete, case, references[case.name], sides[case.name][1]) for case in cases]
    nuclei = [see_nuclei(complete, case, own, len(own)) for case in cases if (own := sides[case.name][1]) is not None]
    placed = [(f"reference of case {quote(case.name)}", sides[case.name][0]) for case in cases]
    placed += [(f"case {quote(case.name)}", own) for case in cases if (own := sides[case.name][1]) is not None]
    implausible = [*chain.from_iterable(label_signs(placed, None))]
    implausible += only_nuclei([share_of_only_nucleus(reference) for reference, _ in sides.values()], "reference")
    implausible += only_nuclei([own.alone for own in nuclei], "submission")
    return summarise(complete, measure_cases(complete, matched), [*implausible, *own_duplicates(complete, nuclei)])


def _sides_of(challenge: Challenge, name: str, pair: Any) -> tuple[Instances, Instances | None]:
    """The reference and the prediction of a case. Raises ValueError with its name."""
    if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise ValueError(f"case {name!r} is of type {type(pair).__name__}; expected a pair, (reference, prediction)")
    sides: list[Instances | None] = []
    for word, image in zip(("reference", "prediction"), pair, strict=True):
        where, classes = f"case {name!r}, {word}", len(challenge.classes)
        try:
            side = None if image is None and word == "prediction" else _as_instances(challenge, image)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if side is not None and len(side) and not 1 <= side.class_id.min() <= side.class_id.max() <= classes:
            got = f"class ids are from {side.class_id.min()} to {side.class_id.max()}, not from 1 to {classes}"
            raise ValueError(
                f"{where}: {got}; give instances_from_labels a class for each label, or class_id=1 for all"
            )
        sides.append(side)
    reference, prediction = sides
    assert reference is not None
    if prediction is not None:
        _check_same_shape(f"case {name!r}", reference.shape_yx, prediction.shape_yx)
    return reference, prediction


def _check_same_shape(where: str, reference_yx: tuple[int, ...], prediction_yx: tuple[int, ...]) -> None:
    if reference_yx != prediction_yx:
        sizes = f"the reference is {reference_yx} px, the prediction {prediction_yx} px (height, width)"
        raise ValueError(f"{where}: {sizes}; expected one size")
    if max(reference_yx) > LONGEST_SIDE_PX:
        raise ValueError(f"{where}: a side of {max(reference_yx):,} px; expected {LONGEST_SIDE_PX:,} at most")
    if math.prod(reference_yx) > MOST_PIXELS:
        raise ValueError(f"{where}: {math.prod(reference_yx):,} px; expected {MOST_PIXELS:,} at most")


def _as_instances(challenge: Challenge, image: Instances | npt.ArrayLike) -> Instances:
    """Instances as they are, labels as instances of the only class. Raises ValueError if there are several."""
    if isinstance(image, Instances):
        return image
    if len(challenge.classes) > 1:
        names = ", ".join(challenge.class_names)
        raise ValueError(f"labels without classes, but the challenge has several ({names}): use instances_from_labels")
    return instances_from_labels(image, class_id=1)
