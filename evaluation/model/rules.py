"""The names of the rules that the stages obey."""

from __future__ import annotations

from typing import Literal

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
