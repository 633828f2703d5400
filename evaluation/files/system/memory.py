"""Free memory, in bytes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

UNLIMITED = sys.maxsize


@dataclass(frozen=True, slots=True)
class MemoryLeft:
    """Bytes that all processes ``together`` can still take, and ``each`` of them; ``UNLIMITED`` if unknown."""

    together: int = UNLIMITED
    each: int = UNLIMITED
