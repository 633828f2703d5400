"""Which prediction found which reference nucleus: one overlap table, one file per matching rule.

In: two ``Instances``. Out: an ``OverlapTable``, ``Matches``. The rules in ``challenge`` import it; so may the
rooms above that.
"""

from evaluation.matching.best_iou_any_overlap import match_best_iou_any_overlap
from evaluation.matching.best_iou_centroid_inside import match_best_iou_centroid_inside
from evaluation.matching.centroid_assignment import match_centroid_assignment
from evaluation.matching.centroid_closest_first import match_centroid_closest_first
from evaluation.matching.confidence_first import (
    match_confidence_first,
    match_confidence_first_iou,
    match_confidence_first_iou_many,
)
from evaluation.matching.hausdorff_closest_first import boundary_boxes, match_hausdorff_closest_first
from evaluation.matching.iou_above import match_iou_above, match_iou_above_many
from evaluation.matching.iou_assignment import match_iou_assignment
from evaluation.matching.label_maps import compare_label_maps
from evaluation.matching.table import overlap_table

__all__ = [
    "boundary_boxes",
    "compare_label_maps",
    "match_best_iou_any_overlap",
    "match_best_iou_centroid_inside",
    "match_centroid_assignment",
    "match_centroid_closest_first",
    "match_confidence_first",
    "match_confidence_first_iou",
    "match_confidence_first_iou_many",
    "match_hausdorff_closest_first",
    "match_iou_above",
    "match_iou_above_many",
    "match_iou_assignment",
    "overlap_table",
]
