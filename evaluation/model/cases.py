"""What is scored: the images, and the classes of their nuclei."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Case:
    """One image that is scored: a row of cases.csv. ``group`` is the patient (the case itself if none is given).

    ``index`` is the number of the case in files that hold all cases: its place from 0 in arrays, the id of its image in
    COCO's results; None if there are no such files.
    ``offset_xy`` is the upper left corner of the image in the slide it was cut from, px.
    ``stratum`` is what groups belong to (tissue, organ, centre), "" if cases.csv names none.
    ``area_mm2`` is the area that was annotated, if it is not the image.
    """

    name: str
    group: str
    height: int
    width: int
    spacing_um: float | None = None
    index: int | None = None
    offset_xy: tuple[float, float] = (0.0, 0.0)
    stratum: str = ""
    area_mm2: float | None = None

    @property
    def shape_yx(self) -> tuple[int, int]:
        return self.height, self.width


@dataclass(frozen=True, slots=True)
class ClassTable:
    """How the files of one side name the classes.

    names    names of the scored classes; class id c is ``names[c - 1]``
    ids      class id by case-folded name or alias: 1…C scored, -1…-I ignore classes; "" stands for no name
    values   class id by the number that stands for it in files; empty if the challenge gives no numbers
    skipped  case-folded names of annotations that are left out, such as regions of interest
    """

    names: tuple[str, ...]
    ids: Mapping[str, int]
    values: Mapping[int, int] = field(default_factory=dict)
    skipped: frozenset[str] = frozenset()

    @property
    def of_nameless(self) -> int:
        """The class of a nucleus whose file names none: the only class of the challenge, or 0 if it has several."""
        return 1 if len(self.names) == 1 else self.ids.get("", 0)


# --- The names of the rules that the stages obey. ---------------------------------------------------------------------


OverlapRule = Literal["keep", "last", "first", "smallest", "class_order", "ignore"]
OverlapScope = Literal["class", "image"]
VanishedRule = Literal["drop", "pixel", "error"]
VerticesRule = Literal["exact", "truncate", "nearest"]
OriginRule = Literal["pixel_centre", "pixel_corner"]
IgnorePolicy = Literal["clip", "drop_overlapping", "drop_centroid", "drop_unmatched"]
BorderRule = Literal["open", "closed"]
AggregationUnit = Literal["pooled", "group", "case"]
UndefinedRule = Literal["skip", "worst"]
ClassPresence = Literal["either", "reference"]
WITH_FRACTION: tuple[IgnorePolicy, ...] = ("drop_overlapping", "drop_unmatched")  # policies that need one
AGGREGATIONS = ("pooled", "group_mean", "case_mean")
STRATUM_MEAN = "stratum_mean"  # beside them if cases.csv names strata
WORST_GROUP, WORST_STRATUM = "worst_group", "worst_stratum"  # if the challenge asks for one
OF_STRATA = (STRATUM_MEAN, WORST_STRATUM)
RankingMethod = Literal[
    "sum_of_ranks",
    "mean_of_ranks",
    "median_of_ranks",
    "absolute",
    "aggregate_then_rank",
    "rank_then_aggregate",
    "test_then_rank",
    "ranked_pairs",
    "better_teams",
]
Aggregate = Literal["mean", "median"]
Ties = Literal["min", "average", "dense"]
Missing = Literal["worst", "unranked"]  # of ranks
MissingValues = Literal["worst", "unranked", "complete_cases"]
