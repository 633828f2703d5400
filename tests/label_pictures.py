"""The dense picture of label runs, for tests that compare it with an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.model import LabelRuns


def picture(runs: LabelRuns | None) -> npt.NDArray[Any]:
    """The plane of runs, (H, W)."""
    assert runs is not None
    height, width = runs.shape_yx
    plane = np.zeros(height * width, runs.value.dtype)
    for start, stop, value in zip(runs.start.tolist(), runs.stop.tolist(), runs.value, strict=True):
        assert start // width == (stop - 1) // width, "a run leaves its row"
        plane[start:stop] = value
    return plane.reshape(runs.shape_yx)
