"""How MIDOG 2021 paired: the published fault ``file_order``, with the library that it counted with."""

from __future__ import annotations

import numpy as np
import scipy
from grand_challenge_metrics.scorers import find_hits_for_targets  # slow to import: scikit-learn

from nuclei_metrics.matching.rules import RADIUS_ROUNDING, batches_of_pairs, centroid_places, in_order, refuse_crowds
from nuclei_metrics.matching.table import matches_of
from nuclei_metrics.model import Instances, Matches, OverlapTable


def match_in_file_order(
    reference: Instances,
    prediction: Instances,
    *,
    radius_px: float,
    class_aware: bool,
    table: OverlapTable | None = None,
) -> Matches:
    """Each reference, in the order of the file, takes the nearest unmatched prediction.

    ``score_detection`` of evalutils returns the number of these pairs. Predictions that are equally near are taken in
    the order in which the library finds them.
    """
    radius_px *= RADIUS_ROUNDING
    left, right = (in_order(centroid_places(side)) for side in (reference, prediction))
    refuse_crowds([left.at, right.at], radius_px)
    count = scipy.spatial.cKDTree(right.at).query_ball_point(left.at, radius_px, return_length=True)
    is_free = np.ones(len(right.index), np.bool_)
    pairs = []
    for part in batches_of_pairs(count if len(is_free) else count[:0]):
        near = find_hits_for_targets(targets=left.at[part], predictions=right.at, radius=radius_px)
        for i, hits in enumerate(near, start=part.start):
            may = is_free[hits]
            if class_aware:
                may &= right.class_id[hits] == left.class_id[i]
            if may.any():
                j = hits[may.argmax()]
                is_free[j] = False
                pairs.append((left.index[i], right.index[j]))
    chosen = np.array(pairs, np.int64).reshape(-1, 2)
    return matches_of(chosen[:, 0], chosen[:, 1], reference, prediction, table)
