"""Scores of the challenge GlaS 2015: F1, Dice and Hausdorff distance of objects. Classes are ignored.

Sirinukunwattana et al., Medical Image Analysis 35, 2017, section 4. G_i are the reference objects of a case, S_j the
segmented ones. ``best(S_j)`` is the G_i that shares the most pixels with S_j, or none, and ``best(G_i)`` the S_j that
shares the most with G_i. Ties: the one whose first pixel comes first (row by row), then the smaller one; in the code
of the challenge, the smaller label.

``count_objects`` makes the sums. Best objects are looked for inside a case; weights run over all objects of the unit,
as published for each test part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evaluation.metrics.metric import OF_ALL, Empty, Metric
from evaluation.metrics.undefined import code, ratio, scores, why_undefined
from evaluation.model import Scores, Units


def object_f1(units: Units) -> Scores:
    """Object-level F1, 2 tp / (number of G_i + number of S_j), in [0, 1].

    A segmented object is a true positive if it covers more than half of the pixels of ``best(S_j)``, strictly as in the
    code (the paper says "at least 50 %"). This is not the IoU: an S_j that is far too large still counts. A reference
    object counts once, even if segmented objects that overlap each other cover it. All others are false positives; a
    reference object that no true positive belongs to is a false negative. Not symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are (1 in published code), "points-only" for points.
    """
    numerator, denominator = units.sum("object_f1").T
    return ratio(numerator, denominator, code("no-instances"))


def object_dice(units: Units) -> Scores:
    """Object-level Dice, 1/2 [sum_i v_i Dice(G_i, best(G_i)) + sum_j w_j Dice(best(S_j), S_j)], in [0, 1].

    ``v_i = |G_i| / sum_k |G_k|`` and ``w_j = |S_j| / sum_k |S_k|`` over all objects of the unit; Dice is 0 where there
    is no best object. Symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are (1 in published code), "points-only" for points.
    """
    areas = units.sum("object_area")
    value = (units.sum("object_dice") / np.maximum(areas, 1)).sum(axis=1) / 2
    return scores(value, areas.sum(axis=1) > 0, code("no-instances"))


def object_hausdorff(units: Units) -> Scores:
    """Object-level Hausdorff distance, 1/2 [sum_i v_i H(G_i, S*_i) + sum_j w_j H(G*_j, S_j)], px, in [0, inf).

    0 is best. Weights as in ``object_dice``. S*_i is ``best(G_i)``, or, where there is none, the S_j of the case with
    the smallest distance H(G_i, S_j); G*_j likewise. With d(a, B) the Euclidean distance from pixel a to the nearest
    pixel of B, ``H(A, B) = max(max_a d(a, B), max_b d(b, A))`` over *all* pixels of A and of B, not of their outlines:
    a square and the ring of its border pixels are apart by the distance of the centre of the square. Symmetric.

    Objects of a case whose other side is empty enter with the diagonal of the image, the largest distance that there
    can be (infinity in published code). Undefined "no-prediction" or "no-reference" if a side is empty in all cases of
    the unit, "no-instances" if both are (0 in published code), "points-only" for points.
    """
    areas = units.sum("object_area")
    value = (units.sum("object_hausdorff") / np.maximum(areas, 1)).sum(axis=1) / 2
    reason = why_undefined(areas[:, 0], areas[:, 1])
    return scores(value, areas.min(axis=1) > 0, reason)


# --- records ----------------------------------------------------------------------------------------------------------

OF_OBJECTS: dict[str, Any] = {"outlines": True, "by_rule": False}
OF_BOTH: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": OF_ALL, **OF_OBJECTS}

METRICS = (
    Metric(path=("objects", "f1"), evaluate=object_f1, **OF_BOTH),
    Metric(path=("objects", "dice"), evaluate=object_dice, symmetric=True, **OF_BOTH),
    Metric(
        path=("objects", "hausdorff_px"),
        evaluate=object_hausdorff,
        better="lower",
        highest=math.inf,
        worst="diagonal_px",
        unit="px",
        empty=Empty("no-instances", "no-prediction", "no-reference", None),
        missed="either",
        spurious="either",
        symmetric=True,
        counts_missing=True,
        **OF_OBJECTS,
    ),
)
