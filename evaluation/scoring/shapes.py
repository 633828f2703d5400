"""Shapes of nuclei, by scikit-image: columns of objects.csv, and no scores."""

from __future__ import annotations

import warnings

import numpy as np

from nuclei_metrics.model import Float64, Instances

SHAPES = ("eccentricity", "solidity")
AT_ONCE = 256
MOST_PX = 1 << 26  # that the boxes of the nuclei which are measured at once may have together


def measure_shapes(instances: Instances) -> dict[str, Float64]:
    """The eccentricity and the solidity of each nucleus, float64 (N,); NaN without pixels, or if its box is too large.

    eccentricity  of the ellipse with the same second moments, 0 (circle) to 1
    solidity      pixels of the nucleus / pixels of its convex hull

    Nuclei may overlap: each nucleus is drawn separately, below the previous nucleus.
    """
    count, width = len(instances), instances.shape_yx[1]
    shapes = {name: np.full(count, np.nan) for name in SHAPES}
    row, column, stop = instances.run_start // width, instances.run_start % width, instances.run_stop % width
    stop[stop == 0] = width
    low = np.full((count, 2), np.iinfo(np.int64).max)
    high = np.zeros((count, 2), np.int64)
    np.minimum.at(low, instances.run_instance, np.stack([row, column], axis=1))
    np.maximum.at(high, instances.run_instance, np.stack([row + 1, stop], axis=1))
    size = np.maximum(high - low, 0)
    order = np.argsort(instances.run_instance, kind="stable")
    first_run = np.searchsorted(instances.run_instance[order], np.arange(count + 1))
    for first in range(0, count, AT_ONCE):
        chosen = np.arange(first, min(first + AT_ONCE, count))
        chosen = chosen[size[chosen].prod(axis=1) <= MOST_PX // AT_ONCE]
        top = np.zeros(count, np.int64)
        top[chosen] = np.cumsum(size[chosen, 0]) - size[chosen, 0]
        canvas = np.zeros((int(size[chosen, 0].sum()), int(size[chosen, 1].max(initial=0))), np.int32)
        for instance in chosen:
            for run in order[first_run[instance] : first_run[instance + 1]]:
                y, first_column = row[run] - low[instance, 0] + top[instance], low[instance, 1]
                canvas[y, column[run] - first_column : stop[run] - first_column] = instance + 1
        for name, values in _shapes_on_canvas(canvas).items():
            shapes[name][values[0]] = values[1]
    return shapes


def _shapes_on_canvas(canvas: np.typing.NDArray[np.int32]) -> dict[str, tuple[np.typing.NDArray[np.int64], Float64]]:
    """The nuclei of a label map, and the values of each shape; NaN for values that are not finite."""
    from skimage.measure import regionprops_table  # slow to import, and few need it

    if not canvas.any():
        return {}
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):  # about hulls of single lines
        table = regionprops_table(canvas, properties=("label", *SHAPES))
    index = table["label"].astype(np.int64) - 1
    return {name: (index, np.where(np.isfinite(table[name]), table[name], np.nan)) for name in SHAPES}
