"""Label images of both sides, for napari: TIFF files that it opens as layers of labels."""

from __future__ import annotations

from math import prod

import numpy as np

from evaluation.formats.write_labels import tiff
from evaluation.model import Instances, Int64
from evaluation.report.pictures.judging import JudgedCase

LABELLED_PX = 1 << 27  # of a case; a larger one gets none: its GeoJSON has every outline


def label_tiffs(judged: JudgedCase) -> dict[str, bytes]:
    """``_reference.tif`` and ``_prediction.tif``: 0, or the number of a nucleus; those of a pair have the same number.

    Where nuclei of a side overlap, the later one is seen. Points have no pixels, so cases of points have no such files.
    """
    matched = judged.matched
    sides = (matched.reference.instances, matched.prediction)
    if prod(matched.case.shape_yx) > LABELLED_PX or any(side.point_yx is not None for side in sides):
        return {}
    pairs = next(iter(matched.matches.values()))
    reference = np.arange(1, len(sides[0]) + 1)
    prediction = np.arange(1, len(sides[1]) + 1) + len(sides[0])
    prediction[pairs.prediction_index] = reference[pairs.reference_index]
    return {"_reference.tif": tiff_of(sides[0], reference), "_prediction.tif": tiff_of(sides[1], prediction)}


def tiff_of(side: Instances, number: Int64) -> bytes:
    labels = np.zeros(prod(side.shape_yx), np.int32)
    order = np.argsort(side.run_instance, kind="stable")
    runs = (side.run_start[order], side.run_stop[order], number[side.run_instance[order]])
    for start, stop, value in zip(*(part.tolist() for part in runs), strict=True):
        labels[start:stop] = value
    return tiff(labels.reshape(side.shape_yx))
