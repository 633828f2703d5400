"""Pairs taken one after the other: a pair matches if both of its instances are still free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.matching.pairs import has_rival
from evaluation.model import Bool

Integers = npt.NDArray[np.integer[Any]]


def take_in_order(left: Integers, right: Integers, keys: Sequence[npt.NDArray[Any]]) -> Bool:
    """Which pairs are taken, bool (P,), if they are gone through in the order of ``keys``.

    left, right  the two instances of each pair, integers from 0 on, (P,)
    keys         as for ``np.lexsort``: the last one counts first; together they leave no two pairs equal

    Pairs without a rival are taken all at once, the others one by one.

    >>> left, right = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    >>> take_in_order(left, right, [np.array([3, 1, 2, 4])]).tolist()
    [False, True, False, True]
    """
    contested = has_rival(left, right)
    taken = ~contested
    rivals = np.flatnonzero(contested)
    if len(rivals) == 0:
        return taken
    rivals = rivals[np.lexsort([key[rivals] for key in keys])]
    free_left = bytearray(b"\1") * (int(left[rivals].max()) + 1)
    free_right = bytearray(b"\1") * (int(right[rivals].max()) + 1)
    chosen = []
    for pair, i, j in zip(rivals.tolist(), left[rivals].tolist(), right[rivals].tolist(), strict=True):
        if free_left[i] and free_right[j]:
            free_left[i] = free_right[j] = 0
            chosen.append(pair)
    taken[chosen] = True
    return taken
