"""Made nuclei and a prediction with mistakes, as label maps: what benchmarks and tests score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.synthesis import MONUSAC_WEIGHTS, Mistakes, draw_nuclei, label_map, perturb
from nuclei_metrics import ImagePair, match
from nuclei_metrics.measure import measure_outlines, outlined_image
from nuclei_metrics.metrics import count_matches
from nuclei_metrics.metrics.counts import overlap_measures
from nuclei_metrics.model import Int16, MatchCounts


@dataclass(frozen=True, slots=True, eq=False)
class LabelMaps:
    """Reference and prediction of one image as label maps, 0 background; instances of a side do not overlap.

    reference, prediction              integer (H, W)
    reference_class, prediction_class  int16 (N,) and (M,), class ids in ascending order of the labels
    """

    reference: npt.NDArray[np.integer[Any]]
    prediction: npt.NDArray[np.integer[Any]]
    reference_class: Int16
    prediction_class: Int16

    def pair(self, *, pixels: bool) -> ImagePair:
        return ImagePair(
            self.reference,
            self.prediction,
            reference_class=self.reference_class,
            prediction_class=self.prediction_class,
            pixels=pixels,
        )


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


def count_label_maps(images: Sequence[LabelMaps], *, hausdorff: bool = True) -> list[MatchCounts]:
    """Counts of each image, matched by IoU above 1/2 whatever the classes; outlines of all images are measured at once.

    >>> labels = np.array([[1, 1, 0, 4, 4]])
    >>> maps = LabelMaps(labels, 10 * labels, np.array([1, 2]), np.array([1, 1]))
    >>> count_label_maps([maps])[0].confusion.tolist()
    [[0, 0, 0], [0, 1, 0], [0, 1, 0]]
    """
    found = [match(maps.pair(pixels=hausdorff)) for maps in images]
    surfaces: Any = [[{}]] * len(found)
    if hausdorff:
        outlined = [outlined_image(*one.image.with_pixels(), [one.matches]) for one in found]
        wanted, tolerances = {"hausdorff_px", "hausdorff95_px"}, [None] * len(found)
        surfaces = measure_outlines(outlined, wanted, border="open", tolerances_px=tolerances)
    return [
        count_matches(
            *one.image.sides,
            one.matches,
            classes=max(int(side.class_id.max(initial=1)) for side in one.image.sides),
            measures={**overlap_measures(one.matches), **measures},
        )
        for one, (measures,) in zip(found, surfaces, strict=True)
    ]
