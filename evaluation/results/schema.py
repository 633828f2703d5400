"""The forms of metrics.json, details.json and leaderboard.json: what the platform, rankings and notebooks may rely on.

A form has a version, ``software.format_version``. New keys do not change it. One whose keys mean something else would
have version 2, and this program would refuse it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypeAliasType

Key = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^.]+$")]
LARGEST_SCORE = 9e18  # no score is larger, and whatever ranks or draws it has room for whole numbers up to 2^63
Number = Annotated[float, Field(ge=-LARGEST_SCORE, le=LARGEST_SCORE)]
Scores = TypeAliasType("Scores", "dict[Key, Scores | Number | None]")
Reasons = TypeAliasType("Reasons", "dict[Key, Reasons | str]")


FormatVersion = Literal[1]
(FORMAT_VERSION,) = get_args(FormatVersion)
Table = dict[str, Any]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class ChallengeIdentity(Part):
    """Which rules the scores were made with: equal hashes, equal rules and cases.

    ``ranking_hash`` is that of [ranking] and [audit].
    """

    name: str
    version: str
    hash: Hash
    ranking_hash: Hash


class Software(Part):
    version: str
    format_version: FormatVersion


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
    overlap: Scores | None = None
    objects: Scores | None = None
    counting: Scores | None = None


class Leaderboard(Part):
    """The rank of this result among earlier ones of the same challenge; under ``rank`` the paths of the columns."""

    position: Number | None
    sum_of_ranks: Number | None
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


class SoftwareOfDetails(Software):
    """``unconfined``: what the system lacks that confines the processes which decode submissions."""

    unconfined: list[str] = []


class RulesOfDetails(ChallengeIdentity):
    rules: Table


class Open(BaseModel):
    """A part in which further keys may stand."""

    model_config = ConfigDict(strict=True, defer_build=True)


class OfUnit(Open):
    """Of a case, a group, or all: by matching rule its counts, scores, and reasons where a score is undefined."""

    rules: dict[str, Table]


class OfCase(OfUnit):
    group: str
    submitted: bool


class DetailsFile(Open):
    """details.json, for administrators; ``metrics`` holds all scores where metrics.json was published with less."""

    challenge: RulesOfDetails
    software: SoftwareOfDetails
    classes: list[str]
    findings: list[str]
    cases: dict[str, OfCase]
    groups: dict[str, OfUnit]
    pooled: OfUnit
    means: dict[str, Any]
    metrics: MetricsFile | None = None


class BoardSoftware(Software):
    scored_with: list[str] = []


class Column(Open):
    path: str
    direction: Literal["ascending", "descending"]
    weight: Number
    significance: Table | None


class Cell(Open):
    path: str
    value: Number | None
    rank: Number | None = None
    ranked_by: Number | None = None
    by_unit: list[Number | None] = []


class ShownEntry(Open):
    name: str
    columns: list[Cell]


class UnrankedTeam(ShownEntry):
    code: str
    reason: str


class RankedTeam(ShownEntry):
    position: Number
    combined: Number | None
    equal: list[str]
    rank_interval: dict[str, Number] | None
    probability_of_first: Number | None
    floors: list[Number | None] = []
    unit_places: list[Number | None] = []


class LeaderboardFile(Open):
    """leaderboard.json."""

    challenge: ChallengeIdentity | None
    software: BoardSoftware
    ranking: Table
    units: Table
    columns: list[Column]
    teams: list[RankedTeam]
    not_ranked: list[UnrankedTeam]
    shown: list[ShownEntry] = []
    stability: Table
    findings: list[str]


class StudyFile(Open):
    """What audit.json, sensitivity.json and tricks.json begin with; only the page of each reads more of them."""

    challenge: ChallengeIdentity | None
    software: dict[str, str]


MODEL_OF_FILE: dict[str, type[BaseModel]] = {
    "metrics.json": MetricsFile,
    "details.json": DetailsFile,
    "leaderboard.json": LeaderboardFile,
}
