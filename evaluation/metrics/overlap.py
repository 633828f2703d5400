"""Overlap: how well do the pixels agree, whatever the matching rule? Classes are ignored.

G_i are the reference nuclei and P_j the predicted ones of a case; ``count_overlaps`` makes the sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evaluation.metrics.counts import hits
from evaluation.metrics.metric import OF_ALL, Metric
from evaluation.metrics.undefined import code, ratio, scores
from evaluation.model import Scores, Units


def aggregated_jaccard(units: Units) -> Scores:
    """Aggregated Jaccard index, AJI = I / U, in [0, 1].

    The partner of a reference nucleus G_i is the prediction P_j with the highest IoU, however low, if any touches it.
    ``I = sum |G_i n P_j|`` over nuclei with a partner; ``U = sum |G_i u P_j|`` over them ``+ sum |G_i|`` of the nuclei
    without a partner ``+ sum |P_j|`` of the predictions that are nobody's partner. A prediction may be the partner of
    several nuclei, and then counts in each union. Not symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Kumar et al., IEEE TMI 36(7), 2017, algorithm 1, as in the code of MoNuSeg 2018 and of HoVer-Net. Which of two
    partners with equal IoU is taken changes the value: there the one with the smaller label or the larger union, here
    the one whose first pixel comes first (row by row), then the smaller one. For an empty prediction the first of
    those codes says 0, the second stops with an error; for two empty sides both divide 0 by 0.
    """
    return quotient(units, "aji")


def aggregated_jaccard_plus(units: Units) -> Scores:
    """AJI+: the aggregated Jaccard index with pairs one to one, I / U, in [0, 1].

    Pairs are those with the greatest total IoU (``iou_assignment`` with threshold 0). ``I = sum |G_i n P_j|`` over
    pairs; ``U = sum |G_i u P_j|`` over pairs ``+ sum |G_i| + sum |P_j|`` of the nuclei that are in none.
    Symmetric in reference and prediction.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points. There is no paper: it comes
    from the code of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019), which stops or says NaN if sides are
    empty.
    """
    return quotient(units, "aji_plus")


def dice1(units: Units) -> Scores:
    """DICE1: Dice coefficient of the foregrounds, 2 |G n P| / (|G| + |P|), in [0, 1].

    G and P are the pixels of all nuclei of a side; a pixel under several counts once. Symmetric. How the foreground is
    cut into nuclei does not matter.

    0 if one side is empty; undefined "no-instances" if both are (NaN in published codes), "points-only" for points.
    The "DICE" of HoVer-Net (Graham et al., Medical Image Analysis 58, 2019).
    """
    return quotient(units, "dice1")


def dice2(units: Units) -> Scores:
    """DICE2, "ensemble Dice": 2 sum |G_i n P_j| / sum (|G_i| + |P_j|) over all pairs that share a pixel, in [0, 1].

    A nucleus that touches k others counts k times in the denominator; a missed or a spurious one that touches none
    does not count at all. Symmetric.

    0 if nothing overlaps (there published codes divide 0 by 0), also if one side is empty; undefined "no-instances" if
    both are, "points-only" for points. Vu et al., Frontiers in Bioengineering and Biotechnology 7, 2019 (CPM 2017);
    the "DICE2" of HoVer-Net.
    """
    return quotient(units, "dice2")


def splits(units: Units) -> Scores:
    """Number of reference nuclei that were split, in [0, inf), in all cases of the unit.

    A prediction is assigned to the nucleus that it shares the most pixels with, or to the background if it has at
    least as many pixels outside all nuclei. A nucleus is split if two predictions or more are assigned to it. Missed
    nuclei are no splits. At most as many as there are reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009, with ties between nuclei decided by the first pixel, then the smaller area,
    instead of by the label. Their code counts the background as one more nucleus, and the last two labels as one.
    """
    return total(units, "splits")


def merges(units: Units) -> Scores:
    """Number of predictions that merge nuclei, in [0, inf), in all cases of the unit.

    As ``splits`` with the sides swapped: a reference nucleus is assigned to the prediction that it shares the most
    pixels with, or to the background if it has at least as many pixels outside all predictions; a prediction merges if
    two nuclei or more are assigned to it. Spurious predictions are no merges. At most half as many as there are
    reference nuclei.

    0 if one side is empty; undefined "no-instances" if both are, "points-only" for points.
    Coelho, Shariff, Murphy, ISBI 2009. Their code leaves out the first label and counts the last two as one.
    """
    return total(units, "merges")


def quotient(units: Units, name: str) -> Scores:
    """Numerator over denominator; 0 if there are instances but nothing to divide by."""
    numerator, denominator = units.sum(name).T
    found = ratio(numerator, denominator, code("no-instances"))
    of = hits(units)
    nothing = (denominator == 0) & (of.tp + of.fp + of.fn > 0)
    return scores(np.where(nothing, 0, found.value), (found.reason == 0) | nothing, found.reason)


def total(units: Units, name: str) -> Scores:
    """A number of instances in all cases of a unit."""
    of = hits(units)
    return scores(units.sum(name), of.tp + of.fp + of.fn > 0, code("no-instances"))


# --- records ----------------------------------------------------------------------------------------------------------

OF_PIXELS: dict[str, Any] = {"outlines": True, "by_rule": False, "empty": OF_ALL}
WORSE: dict[str, Any] = {"missed": "worse", "spurious": "worse", **OF_PIXELS}
NUMBER: dict[str, Any] = {"better": "lower", "highest": math.inf, "worst": None, **OF_PIXELS}

METRICS = (
    Metric(path=("overlap", "aji"), evaluate=aggregated_jaccard, **WORSE),
    Metric(path=("overlap", "aji_plus"), evaluate=aggregated_jaccard_plus, symmetric=True, **WORSE),
    Metric(path=("overlap", "dice1"), evaluate=dice1, symmetric=True, **WORSE),
    Metric(path=("overlap", "dice2"), evaluate=dice2, symmetric=True, **OF_PIXELS),
    Metric(path=("overlap", "splits"), evaluate=splits, **NUMBER),
    Metric(path=("overlap", "merges"), evaluate=merges, **NUMBER),
)
