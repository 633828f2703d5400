"""Types of arrays, by what is in them, and the memory that very large ones leave behind."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import numpy as np
import numpy.typing as npt

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

VERY_MANY = 1 << 20  # elements
BLOCK = 1 << 18  # elements; what is computed of a block stays in the cache, and its memory is used again


def blocks(elements: int) -> list[slice]:
    """So many elements, a block at a time: new memory for all at once costs more than most arithmetic."""
    return [slice(first, min(first + BLOCK, elements)) for first in range(0, elements, BLOCK)]


def give_memory_back(elements: int) -> None:
    """Give the system what was freed, after work on so many elements in pieces; nothing for fewer than a million.

    The C library keeps what lies between small arrays: with a million nuclei a gigabyte.
    """
    if elements >= VERY_MANY:
        with suppress(AttributeError, OSError, TypeError):  # where there is no glibc
            ctypes.CDLL(None).malloc_trim(0)
