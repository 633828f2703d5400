"""Errors of the library: ValueErrors with their numbers as attributes, so that a program can word its own message."""

from __future__ import annotations

from typing import Any


class TooManyPairs(ValueError):
    """More pairs than may be compared; they were counted, not looked at.

    what          name of the counted quantity
    pairs, most   how many there are, and how many there may be
    by_reference  whether the reference against itself has too many, so that no good submission has room
    image         index of the image, if several images were measured together
    """

    image: int | None = None

    def __init__(self, what: str, pairs: int, most: int, *, by_reference: bool) -> None:
        super().__init__(what, pairs, most)
        self.what, self.pairs, self.most, self.by_reference = what, pairs, most, by_reference

    def __str__(self) -> str:
        return f"{self.pairs:,} {self.what}; at most {self.most:,}"


class UnusableOutlines(ValueError):
    """Annotations that cannot become nuclei.

    reason  "vanished-outline" (data: outline, total), "too-complex-outlines" (crossings, limit, vertices) or
            "points-beside-outlines"
    where   the ``where`` of the caller
    """

    def __init__(self, reason: str, where: str, **data: Any) -> None:
        super().__init__(reason, where, data)
        self.reason, self.where, self.data = reason, where, data

    def __str__(self) -> str:
        numbers = ", ".join(f"{key} {value}" for key, value in self.data.items())
        return f"{self.where}: {self.reason.replace('-', ' ')}{f' ({numbers})' if numbers else ''}"
