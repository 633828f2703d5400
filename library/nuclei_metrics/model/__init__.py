"""The frozen dataclasses that travel down the street, and the names of the rules they obey.

Conventions: arguments and fields come as reference, prediction. Arrays index ``yx``, outlines ``xy``; the order is in
the name. A *run* is a half-open interval ``[start, stop)`` of the row-major flat pixel index of an image; it never
crosses the end of a row. Instances are tables of runs, so that two nuclei may lie on one pixel.

In: nothing. Out: dataclasses. Every other room may import this one.
"""

from nuclei_metrics.model.annotations import (
    AGGREGATIONS,
    WITH_FRACTION,
    Aggregate,
    AggregationUnit,
    BorderRule,
    Case,
    ClassPresence,
    ClassTable,
    Counts,
    IgnorePolicy,
    LabelImage,
    LabelRuns,
    Missing,
    MissingValues,
    OriginRule,
    Outlines,
    OverlapRule,
    OverlapScope,
    Part,
    Points,
    RankingMethod,
    Ties,
    UndefinedRule,
    VanishedRule,
    VerticesRule,
)
from nuclei_metrics.model.arrays import Bool, Float64, Int16, Int32, Int64, um_to_px
from nuclei_metrics.model.counts import (
    UNDEFINED_REASONS,
    Better,
    CaseResult,
    CaseTable,
    Gaps,
    Interval,
    MatchCounts,
    Matches,
    Measure,
    MetricChoice,
    MetricScores,
    ObjectList,
    OverlapTable,
    Pairs,
    Scores,
    ScoreTable,
    UndefinedReason,
    Units,
    UnitScores,
)
from nuclei_metrics.model.instances import Boundaries, Contours, Instances, RasterisationReport, Region
