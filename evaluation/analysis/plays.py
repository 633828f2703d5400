"""A trick that a team played: where it stood before and after, and whether it became worse."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.analysis.tricks import Kind

LOSS = 0.005  # of pooled F1, or of the pooled class score: a submission that lost more is worse


@dataclass(frozen=True, slots=True)
class Play:
    """What became of a team that played a trick; positions are NaN where it was not ranked.

    before, after  its position among the same other teams
    f1, class_score  how much they changed
    """

    trick: str
    team: str
    kind: Kind
    before: float
    after: float
    f1: float
    class_score: float

    @property
    def climbs(self) -> bool:
        return self.after < self.before

    @property
    def pays(self) -> bool:
        return self.climbs and min(self.f1, self.class_score) < -LOSS
