"""Submissions that are nearly the same, such as one entry submitted twice.

A nucleus has a *twin* if the nucleus of the other submission with the nearest centroid has the same shape: moved onto
it by whole pixels, at most 3 px, their IoU is at least 0.97. Of points only the same place is a twin: good teams agree
about centroids to a pixel. Submissions are nearly the same if at least half of the nuclei of each have a twin.

Why 0.97 and a half, as measured. Honest teams share at most 0.40 of their nuclei: this is the most alike pair of the
nine made fields of ``benchmarks.gaming``, few nuclei with made outlines; the demo's teams share less than 0.01, two
real ones (Data Science Bowl 2018) 0.01. Copies of which every nucleus is moved by up to 2 px in both directions, where
those in its way cut it, share at least 0.60, and 0.55 if one nucleus in thirty is left out and three pixels of each
are cut as well. At an IoU of 0.9 these are 0.66 and 0.69. A copy with a pixel more around every nucleus is not found,
nor one that leaves out more than half. Teams that both have the very pixels of the reference cannot be told from
copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from evaluation.model import Bool, Instances, Int64
from evaluation.model.intervals import expand, overlaps

SHIFT_PX, SAME_SHAPE, NEARLY_THE_SAME = 3, 0.97, 0.5


def twin_share(one: Sequence[Instances | None], other: Sequence[Instances | None]) -> float:
    """Share of the nuclei of a submission that have a twin in the other one, of both the smaller; 0 without nuclei."""
    return min(share_with_twin(one, other), share_with_twin(other, one))


def share_with_twin(one: Sequence[Instances | None], other: Sequence[Instances | None]) -> float:
    number = sum(len(nuclei) for nuclei in one if nuclei is not None)
    pairs = [(left, right) for left, right in zip(one, other, strict=True) if left is not None and right is not None]
    return sum(int(have_twin(left, right).sum()) for left, right in pairs) / number if number else 0.0


def have_twin(nuclei: Instances, others: Instances) -> Bool:
    """Which nuclei have a twin among the others of the image, bool (N,). A nucleus without pixels has none."""
    found = np.zeros(len(nuclei), np.bool_)
    centre, other_centre = nuclei.centroids_yx(), others.centroids_yx()
    here, there = (np.flatnonzero(~np.isnan(of).any(axis=1)) for of in (centre, other_centre))
    if not len(here) or not len(there):
        return found
    distance, index = scipy.spatial.cKDTree(other_centre[there]).query(centre[here])
    if nuclei.point_yx is not None:
        found[here] = distance == 0
        return found
    partner, area, other_area = there[index], nuclei.areas_px()[here], others.areas_px()[there[index]]
    kept = (distance <= SHIFT_PX) & (np.minimum(area, other_area) >= SAME_SHAPE * np.maximum(area, other_area))
    here, partner = here[kept], partner[kept]
    moved_yx = np.rint(centre[here] - other_centre[partner]).astype(np.int64)
    start, stop = runs_apart(nuclei, here, np.zeros_like(moved_yx))
    first, _, begin, end = overlaps(start, stop, *runs_apart(others, partner, moved_yx))
    common = np.bincount(start[first] // stretch_px(nuclei), end - begin, len(here))
    found[here] = common >= SAME_SHAPE * (area[kept] + other_area[kept] - common)
    return found


def stretch_px(nuclei: Instances) -> int:
    """Pixels of the image with a margin on all sides, so that no nucleus that is moved leaves it."""
    height, width = nuclei.shape_yx
    return (height + 2 * SHIFT_PX) * (width + 2 * SHIFT_PX)


def runs_apart(nuclei: Instances, index: Int64, moved_yx: Int64) -> tuple[Int64, Int64]:
    """Starts and stops of the runs of chosen nuclei, each moved, and each on a stretch of the number line of its own.

    index     int64 (K,), may name a nucleus several times
    moved_yx  px, int64 (K, 2), by at most ``SHIFT_PX``
    """
    number = np.bincount(nuclei.run_instance, minlength=len(nuclei))
    last = np.cumsum(number)
    run = np.argsort(nuclei.run_instance, kind="stable")[expand((last - number)[index], last[index])]
    stretch = np.repeat(np.arange(len(index)), number[index])
    y, x = np.divmod(nuclei.run_start[run], nuclei.shape_yx[1])
    y, x = np.stack([y, x]) + moved_yx[stretch].T + SHIFT_PX
    start = stretch * stretch_px(nuclei) + y * (nuclei.shape_yx[1] + 2 * SHIFT_PX) + x
    return start, start + nuclei.run_stop[run] - nuclei.run_start[run]
