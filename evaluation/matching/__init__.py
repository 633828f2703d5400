"""Which prediction found which reference nucleus: one overlap table, one file per matching rule."""

from evaluation.matching.best_iou_centroid_inside import match_best_iou_centroid_inside
from evaluation.matching.iou_above import match_iou_above
from evaluation.matching.label_maps import compare_label_maps
from evaluation.matching.table import overlap_table

__all__ = [
    "compare_label_maps",
    "match_best_iou_centroid_inside",
    "match_iou_above",
    "overlap_table",
]
