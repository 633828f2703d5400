"""Which prediction found which reference nucleus: one overlap table, and the matching rules.

In: two ``Instances``. Out: an ``OverlapTable``, ``Matches``. The rules in ``challenge`` import it; so may the
rooms above that.
"""

from evaluation.matching.rules import (
    boundary_boxes,
    match_best_iou_any_overlap,
    match_best_iou_centroid_inside,
    match_centroid_assignment,
    match_centroid_closest_first,
    match_confidence_first,
    match_confidence_first_iou,
    match_confidence_first_iou_many,
    match_hausdorff_closest_first,
    match_iou_above,
    match_iou_above_many,
    match_iou_assignment,
)
from evaluation.matching.table import compare_label_maps, overlap_table
