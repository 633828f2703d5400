"""What most metrics start from: how many were found, missed and spurious, in each unit, int64 (B,)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluation.metrics.undefined import Reasons, code, why_undefined
from evaluation.model import ClassPresence, Int64, Scores, Units


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """True positives, false positives and false negatives of each unit, int64 (B,).

    undefined  why a score that needs a true positive, or one side, has no value there, int8 (B,)
    """

    tp: Int64
    fp: Int64
    fn: Int64
    undefined: Reasons


def hits(units: Units) -> Hits:
    """Classes ignored: ``tp`` matched pairs, ``fp`` spurious predictions, ``fn`` missed nuclei."""
    return kept_hits(units, 0, lambda m: (m[:, 1:, 1:].sum(axis=(1, 2)), m[:, 0].sum(axis=1), m[:, :, 0].sum(axis=1)))


def class_hits(units: Units, class_id: int) -> Hits:
    """Of one class: a matched pair is a true positive if both sides have the class.

    A pair with two classes is a false positive of one and a false negative of the other.
    """

    def count(confusion: Int64) -> tuple[Int64, ...]:
        tp = confusion[:, class_id, class_id]
        return tp, confusion[:, :, class_id].sum(axis=1) - tp, confusion[:, class_id].sum(axis=1) - tp

    return kept_hits(units, class_id, count)


def kept_hits(units: Units, class_id: int, count: Callable[[Int64], tuple[Int64, ...]]) -> Hits:
    """Hits that are counted once and for all, from the confusion matrices of the units."""
    name = f"hits/{class_id}"
    if name not in units.cache:
        tp, fp, fn = count(units.sum("confusion"))
        units.cache[name] = np.stack([tp, fp, fn])
        units.cache[f"{name}/undefined"] = why_undefined(tp + fn, tp + fp)
    tp, fp, fn = units.cache[name]
    return Hits(tp, fp, fn, units.cache[f"{name}/undefined"])


def if_present(units: Units, found: Scores, present: ClassPresence, class_id: int = 0) -> Scores:
    """A score of a class, or of all (0), that counts only where the class occurs.

    present   "either": as it is, since a class that is in neither side has no score; "reference": undefined
              "no-reference" where the reference has no nucleus of the class, so that predictions of it cost nothing
    """
    if present == "either":
        return found
    confusion = units.sum("confusion")
    references = confusion[:, class_id].sum(axis=1) if class_id else confusion[:, 1:].sum(axis=(1, 2))
    absent = (references == 0) & (found.reason == 0)
    return Scores(np.where(absent, np.nan, found.value), np.where(absent, code("no-reference"), found.reason))


def matched(units: Units) -> Int64:
    """Confusion matrix of the matched pairs, (B, C, C): rows reference, columns prediction."""
    matrix: Int64 = units.sum("confusion")[:, 1:, 1:]
    return matrix
