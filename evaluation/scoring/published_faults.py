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

from evaluation.model import Instances, Int64, MatchCounts, Matches


def keep_faults(
    counts: MatchCounts, faults: Collection[str], reference: Instances, prediction: Instances, matches: Matches
) -> MatchCounts:
    """The counts of a case with the false positives of the published code. The matching rule is class-aware.

    For a class with predicted labels P, and M the numbers of its matched reference nuclei, there are ``|P| - |P & M|``
    false positives instead of ``|P| - |M|``: one more for each matched reference whose number is not a label in P. Ids
    are those numbers: in the reference the place of the outline in its file, in the prediction the label in its file.
    An id that is no number is the number of no nucleus.
    """
    confusion = counts.confusion.copy()
    labels, numbers = ids_as_numbers(prediction), ids_as_numbers(reference)
    is_matched = np.zeros(len(reference), np.bool_)
    is_matched[matches.reference_index] = True
    for class_id in range(1, len(confusion)):
        of_class = reference.class_id == class_id
        if "reference_index" in faults:
            in_use = labels[(prediction.class_id == class_id) & (labels >= 0)]
            confusion[0, class_id] += np.count_nonzero(~np.isin(numbers[of_class & is_matched], in_use))
        if "unopened_masks" in faults and not of_class.any():
            confusion[0, class_id] = 0
    return replace(counts, confusion=confusion)


def ids_as_numbers(instances: Instances) -> Int64:
    """The number in each id, which may follow the name of a file, int64 (N,); -1 for an id that is none."""
    ids = [str(source).rpartition(":")[2] for source in instances.source_id.tolist()]
    return np.array([int(text) if text.isdecimal() and len(text) < 19 else -1 for text in ids], np.int64)
