"""Several cases as one image: what is counted in a hundred small images then costs no more than in a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import Instances, Int64, OverlapTable


@dataclass(frozen=True, slots=True, eq=False)
class JoinedCases:
    """K cases below each other. Instances and pairs are numbered through, case by case; points lose their positions.

    reference, prediction, table   of all cases
    reference_rank, prediction_rank   int64 (N,) and (M,): ``Instances.position_rank``; it decides ties
    shapes_yx                      (H, W) px of each case, int64 (K, 2)
    reference_bound, prediction_bound   int64 (K + 1,): instances of case k are those from ``bound[k]`` to
                                        ``bound[k + 1]``
    """

    reference: Instances
    prediction: Instances
    table: OverlapTable
    reference_rank: Int64
    prediction_rank: Int64
    shapes_yx: Int64
    reference_bound: Int64
    prediction_bound: Int64

    def __len__(self) -> int:
        return len(self.shapes_yx)

    def reference_case(self) -> Int64:
        """The case of each reference instance, int64 (N,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.reference_bound))

    def prediction_case(self) -> Int64:
        """The case of each predicted instance, int64 (M,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.prediction_bound))

    def pair_bound(self) -> Int64:
        """Where the pairs of each case begin in the table, and where the last ones end, int64 (K + 1,)."""
        return np.searchsorted(self.table.reference_index, self.reference_bound)


def join_cases(cases: Sequence[tuple[Instances, Instances, OverlapTable]]) -> JoinedCases:
    """Reference, prediction and overlap table of each case as one image; at least one.

    The order of pixels inside a case stays, so ties are decided as before.

    >>> one = Instances((1, 2), np.array([1]), np.arange(1), np.array([1]), np.array([2]), np.array([0]))
    >>> table = OverlapTable(np.array([0]), np.array([0]), np.array([1]), np.array([1]), np.array([1]))
    >>> joined = join_cases([(one, one, table)] * 3)
    >>> joined.reference.run_start.tolist(), joined.table.prediction_index.tolist()
    ([1, 3, 5], [0, 1, 2])
    """
    references, predictions, tables = zip(*cases, strict=True)
    bounds = [np.cumsum([0, *(len(of_case) for of_case in side)]) for side in (references, predictions)]
    table = OverlapTable(
        numbered_through([of_case.reference_index for of_case in tables], bounds[0]),
        numbered_through([of_case.prediction_index for of_case in tables], bounds[1]),
        np.concatenate([of_case.intersection_px for of_case in tables]),
        np.concatenate([of_case.reference_area_px for of_case in tables]),
        np.concatenate([of_case.prediction_area_px for of_case in tables]),
    )
    reference, prediction = join_images(references), join_images(predictions)
    return JoinedCases(
        reference,
        prediction,
        table,
        reference.position_rank(),
        prediction.position_rank(),
        np.array([reference.shape_yx for reference in references], np.int64),
        *bounds,
    )


def join_images(images: Sequence[Instances]) -> Instances:
    """The instances of several images as those of one image, in which they lie below each other."""
    if len(images) == 1:
        return images[0]
    heights, widths = np.array([image.shape_yx for image in images], np.int64).T
    width, tops = int(widths.max()), np.cumsum(heights) - heights
    moved = [
        image.run_start // max(image.shape_yx[1], 1) * (width - image.shape_yx[1]) + top * width
        for image, top in zip(images, tops.tolist(), strict=True)
    ]
    probability, class_probability = (
        given if all(part is not None for part in given) else None
        for given in (
            [getattr(image, name) for image in images if len(image)] for name in ("probability", "class_probability")
        )
    )
    return Instances(
        shape_yx=(int(heights.sum()), width),
        class_id=np.concatenate([image.class_id for image in images]),
        source_id=np.arange(sum(len(image) for image in images)),
        run_start=np.concatenate([image.run_start + by for image, by in zip(images, moved, strict=True)]),
        run_stop=np.concatenate([image.run_stop + by for image, by in zip(images, moved, strict=True)]),
        run_instance=numbered_through(
            [image.run_instance for image in images], np.cumsum([0, *(len(image) for image in images)])
        ),
        probability=np.concatenate(probability) if probability else None,
        class_probability=np.concatenate(class_probability) if class_probability else None,
    )


def numbered_through(indices: Sequence[npt.NDArray[Any]], bounds: Int64) -> npt.NDArray[Any]:
    """Numbers of instances, from 0 in each case, as numbers of the instances of all cases."""
    return np.concatenate([index + index.dtype.type(first) for index, first in zip(indices, bounds, strict=False)])


def sum_cases(values: npt.NDArray[Any], bound: Int64) -> Int64:
    """Sums of whole numbers, those of case k from ``bound[k]`` to ``bound[k + 1]``; int64 (K,)."""
    return np.diff(np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[bound])
