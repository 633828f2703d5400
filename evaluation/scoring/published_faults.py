"""Faults of published evaluations, reproduced on purpose, so that organisers can show what correcting them changes.

``reference_index``   MoNuSAC 2020 took the index of the *reference* nucleus out of the list of predictions that are
                      left, whatever prediction had found it: false positives of a class are its predicted labels that
                      are not the number of a matched reference.
``unopened_masks``    MoNuSAC 2020 opened the masks of classes that the reference of an image has; predictions of all
                      other classes were never counted.
``file_order``        MIDOG 2021 went through the reference in the order of its file; each takes the nearest prediction
                      that is left, so that this order can change the count.

Foucart, Debeir, Decaestecker, "Comments on MoNuSAC2020", IEEE TMI 41, 2022. ``score_detection`` of evalutils, now
grand_challenge_metrics.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import scipy

from evaluation.challenge.matching_rules import CentroidClosestFirst, Sides
from evaluation.matching.distances import ROUNDING, Placed, batches, centroid_places, refuse_too_many
from evaluation.matching.pairs import matches_of
from evaluation.model import Instances, Int64, MatchCounts, Matches


class InFileOrder(CentroidClosestFirst):
    """``file_order`` in the place of the rule that is written: the pairs of which ``score_detection`` gives the number.

    Predictions that are equally near are taken in the order in which the library finds them.
    """

    def match(self, sides: Sides) -> Matches:
        from grand_challenge_metrics.scorers import find_hits_for_targets  # slow to import: scikit-learn

        reference, prediction, radius_px = sides.reference, sides.prediction, self.radius_in_px(sides.case) * ROUNDING
        left, right = (in_order(centroid_places(side)) for side in (reference, prediction))
        count = scipy.spatial.cKDTree(right.at).query_ball_point(left.at, radius_px, return_length=True)
        refuse_too_many(count, left.at, radius_px)
        is_free = np.ones(len(right.index), np.bool_)
        pairs = []
        for part in batches(count if len(is_free) else count[:0]):
            near = find_hits_for_targets(targets=left.at[part], predictions=right.at, radius=radius_px)
            for i, hits in enumerate(near, start=part.start):
                may = is_free[hits]
                if self.class_aware:
                    may &= right.class_id[hits] == left.class_id[i]
                if may.any():
                    j = hits[may.argmax()]
                    is_free[j] = False
                    pairs.append((left.index[i], right.index[j]))
        chosen = np.array(pairs, np.int64).reshape(-1, 2)
        return matches_of(chosen[:, 0], chosen[:, 1], reference, prediction, sides.table)


def in_order(placed: Placed) -> Placed:
    """Instances in the order of their file."""
    order = np.argsort(placed.index)
    return Placed(placed.index[order], placed.class_id[order], placed.at[order])


def keep_faults(
    counts: MatchCounts,
    faults: Collection[str],
    reference: Instances,
    prediction: Instances,
    matches: Matches,
) -> MatchCounts:
    """The counts of a case with the false positives of the published code. The matching rule is class-aware.

    For a class with predicted labels P, and M the numbers of its matched reference nuclei, there are ``|P| - |P & M|``
    false positives instead of ``|P| - |M|``: one more for each matched reference whose number is not a label in P. Ids
    are those numbers: in the reference the place of the outline in its file, in the prediction the label in its file.
    An id that is no number is the number of no nucleus.
    """
    confusion = counts.confusion.copy()
    labels, numbers = ids_as_numbers(prediction), ids_as_numbers(reference)
    found = np.zeros(len(reference), np.bool_)
    found[matches.reference_index] = True
    for class_id in range(1, len(confusion)):
        of_class = reference.class_id == class_id
        if "reference_index" in faults:
            in_use = labels[(prediction.class_id == class_id) & (labels >= 0)]
            confusion[0, class_id] += np.count_nonzero(~np.isin(numbers[of_class & found], in_use))
        if "unopened_masks" in faults and not of_class.any():
            confusion[0, class_id] = 0
    return replace(counts, confusion=confusion)


def ids_as_numbers(instances: Instances) -> Int64:
    """The number in each id, which may follow the name of a file, int64 (N,); -1 for an id that is none."""
    ids = [str(source).rpartition(":")[2] for source in instances.source_id.tolist()]
    return np.array([int(text) if text.isdecimal() and len(text) < 19 else -1 for text in ids], np.int64)
