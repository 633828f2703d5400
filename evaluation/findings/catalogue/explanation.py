"""What a page of the catalogue holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Explanation:
    """A page of the catalogue: what a code means, why it matters, what to do, and how the line looks."""

    title: str
    why: str
    fix: str
    example: str
    severity: Literal["error", "warning"] = "error"
