"""What is raised where the pairs of a case are more than may be compared."""

from __future__ import annotations


class TooManyPairs(ValueError):
    """More pairs than may be compared; they were counted, not looked at.

    what          what was counted
    pairs, most   how many there are, and how many there may be
    by_reference  whether the reference against itself has too many, so that no good submission has room
    """

    def __init__(self, what: str, pairs: int, most: int, *, by_reference: bool) -> None:
        super().__init__(what, pairs, most)
        self.what, self.pairs, self.most, self.by_reference = what, pairs, most, by_reference

    def __str__(self) -> str:
        return f"{self.pairs:,} {self.what}; at most {self.most:,}"
