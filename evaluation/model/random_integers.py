"""Whole numbers drawn evenly from a seed, for every bootstrap."""

from __future__ import annotations

import numpy as np

from evaluation.model import Int64


class RandomIntegers:
    """Whole numbers drawn evenly, the same for a seed on every machine and under every version of numpy.

    numpy promises the raw 64-bit words of PCG64 for a seed, not what ``Generator`` makes of them (NEP 19). The upper 32
    bits of one word w become one number, ``w * bound >> 32``. No number is more probable than another by more than one
    part in 2^32 / bound.

    >>> RandomIntegers(seed=1, stream=0).below(np.array([6, 6, 6, 2, 1])).tolist()
    [3, 5, 0, 1, 0]
    """

    def __init__(self, *, seed: int, stream: int) -> None:
        from numpy.random import PCG64  # only now: a run without intervals need not import it

        self._words = PCG64([seed, stream])

    def below(self, bounds: Int64) -> Int64:
        """One number in 0 … bound - 1 for each bound, int64 of the same shape; bounds are 1 … 2^32."""
        words = self._words.random_raw(bounds.size).reshape(bounds.shape)
        return ((words >> np.uint64(32)) * bounds.astype(np.uint64) >> np.uint64(32)).astype(np.int64)
