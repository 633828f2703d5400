"""The form of metrics.json: what the platform, rankings and notebooks may rely on."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints
from typing_extensions import TypeAliasType

Key = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^.]+$")]
Scores = TypeAliasType("Scores", "dict[Key, Scores | FiniteFloat | None]")
Reasons = TypeAliasType("Reasons", "dict[Key, Reasons | str]")


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ChallengeIdentity(Part):
    """Which rules the scores were made with: equal hashes, equal rules and cases."""

    name: str
    version: str
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Software(Part):
    version: str


class Families(Part):
    """``<family>.<metric>.<aggregation>``; a family that the challenge does not ask for is absent."""

    detection: Scores | None = None
    classification: Scores | None = None
    segmentation: Scores | None = None
    panoptic: Scores | None = None
    covered: Scores | None = None
    overall: Scores | None = None
    thresholds: Scores | None = None
    curves: Scores | None = None
    sizes: Scores | None = None
    calibration: Scores | None = None
    overlap: Scores | None = None
    objects: Scores | None = None
    counting: Scores | None = None


class Leaderboard(Part):
    """The place of this result among earlier ones of the same challenge; under ``rank`` the paths of the columns."""

    position: FiniteFloat | None
    sum_of_ranks: FiniteFloat | None
    submissions: Annotated[int, Field(ge=0)]
    rank: Scores


class MetricsFile(Families):
    """metrics.json: finite numbers, or null with the reason at the same path under ``undefined``; no dot in a key."""

    challenge: ChallengeIdentity
    software: Software
    leaderboard: Leaderboard | None = None
    alternatives: dict[Key, Families] = {}
    confidence_intervals: Scores | None = None
    undefined: Reasons
