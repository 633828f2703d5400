"""Made nuclei and a prediction with mistakes, as label maps: what benchmarks and tests score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.synthesis import MONUSAC_WEIGHTS, Mistakes, draw_nuclei, label_map, perturb
from nuclei_metrics.model import LabelMaps


def draw_label_maps(
    rng: np.random.Generator,
    shape_yx: tuple[int, int],
    count: int,
    mistakes: Mistakes,
    class_weights: Sequence[float] = MONUSAC_WEIGHTS,
) -> LabelMaps:
    """A reference of ``count`` nuclei and a prediction with mistakes, as label maps.

    >>> from benchmarks.synthesis import seeded
    >>> maps = draw_label_maps(seeded(1), (120, 150), 12, Mistakes(missed=0.3))
    >>> maps.reference.shape, int(maps.reference.max()), len(maps.reference_class)
    ((120, 150), 12, 12)
    """
    outlines = draw_nuclei(rng, shape_yx, count, class_weights)
    reference, reference_class = label_map(outlines, shape_yx)
    prediction, prediction_class = label_map(perturb(rng, outlines, shape_yx, mistakes), shape_yx)
    return LabelMaps(reference, prediction, reference_class, prediction_class)
