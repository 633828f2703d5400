"""Which prediction found which reference nucleus: one overlap table, one file per matching rule."""

from evaluation.matching.best_iou_centroid_inside import match_best_iou_centroid_inside
from evaluation.matching.centroid_assignment import match_centroid_assignment
from evaluation.matching.centroid_closest_first import match_centroid_closest_first
from evaluation.matching.iou_above import match_iou_above
from evaluation.matching.label_maps import compare_label_maps
from evaluation.matching.table import overlap_table

__all__ = [
    "compare_label_maps",
    "match_best_iou_centroid_inside",
    "match_centroid_assignment",
    "match_centroid_closest_first",
    "match_iou_above",
    "overlap_table",
]
