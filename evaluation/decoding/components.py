"""Masks in which nuclei have no numbers of their own: connected components, by scikit-image."""

from __future__ import annotations

import math

import numpy as np

from evaluation.decoding.streams import too_large
from evaluation.findings import Finding, fault
from evaluation.findings.errors import InputFault
from evaluation.model import LabelRuns
from evaluation.model.label_runs import runs_of

LABEL_BYTES = 8  # of a pixel, for the plane and its components


def label_components(
    runs: LabelRuns, connectivity: int, *, where: str, bytes_limit: int
) -> tuple[LabelRuns, tuple[Finding, ...]]:
    """Every set of touching pixels with equal values other than 0 as a label of its own: 1, 2, 3, … row by row.

    connectivity  4: pixels touch by their sides; 8: also by their corners

    The finding says what this joins and splits: nuclei that touch are one, parts that lie apart are several. Raises
    InputFault (too-large).

    >>> labels, (finding,) = label_components(runs_of(np.array([[1, 0], [0, 1]])), 4, where="'a.png'", bytes_limit=100)
    >>> labels.value.tolist(), finding.got
    ([1, 2], '2 regions of touching pixels, each a nucleus; 1 if corners touched, 2 of one pixel')
    """
    from skimage.measure import label  # slow to import, and few need it

    if (needed := LABEL_BYTES * math.prod(runs.shape_yx)) > bytes_limit:
        raise InputFault(too_large(where, f"a mask of {needed:,} bytes", bytes_limit))
    values = np.unique(runs.value, return_inverse=True)[1].astype(np.int32) + 1
    plane = np.zeros(math.prod(runs.shape_yx), np.int32)
    length = runs.stop - runs.start
    first = np.repeat(runs.start - np.cumsum(length) + length, length)
    plane[first + np.arange(len(first))] = np.repeat(values, length)
    plane = plane.reshape(runs.shape_yx)
    found, count = label(plane, return_num=True, connectivity=1 if connectivity == 4 else 2)
    if not count:
        return runs_of(found.astype(np.int32)), ()
    _, other = label(plane, return_num=True, connectivity=2 if connectivity == 4 else 1)
    specks = int((np.bincount(found.ravel())[1:] == 1).sum())
    corners = "touched" if connectivity == 4 else "did not touch"
    return runs_of(found.astype(np.int32)), (
        fault("components", where, count=count, other=other, corners=corners, specks=specks),
    )
