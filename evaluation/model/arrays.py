"""Types of arrays, by what is in them, and blocks of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer[Any]]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")
BLOCK = 1 << 18  # elements; what is computed of a block stays in the cache, and its memory is used again


def blocks(elements: int, size: int = BLOCK) -> list[slice]:
    """The slices that cut so many elements into blocks: new memory for all at once costs more than most arithmetic.

    >>> blocks(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(first, min(first + size, elements)) for first in range(0, elements, size)]


def concatenated(records: Sequence[Record]) -> Record:
    """Records of arrays as one: each field is that of all of them, one after the other."""
    if len(records) == 1:
        return records[0]
    names = [field.name for field in fields(records[0])]
    return type(records[0])(*(np.concatenate([getattr(record, name) for record in records]) for name in names))


def um_to_px(um: float | Float64, spacing_um: float | Float64) -> Any:
    """``um / spacing_um`` as one would write it down: 0.7 um at 0.2 um/px are 3.5 px, not 3.4999999999999996.

    A quotient that differs by rounding alone from a number of six decimals is that number. Where an edge lies exactly
    at half a pixel, or a pair exactly at the radius, the last digit would decide.

    >>> float(um_to_px(0.7, 0.2)), um_to_px(np.array([0.3, 1.1, np.inf]), 0.1).tolist()
    (3.5, [3.0, 11.0, inf])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        quotient = np.asarray(um / spacing_um, np.float64)
        short = np.round(quotient, 6)
        return np.where(np.abs(quotient - short) <= 4 * np.spacing(np.abs(quotient)), short, quotient)[()]


# --- random numbers ---------------------------------------------------------------------------------------------------


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
