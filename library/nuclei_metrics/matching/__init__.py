"""Which prediction found which reference nucleus: one overlap table, and the matching rules.

In: two ``Instances``. Out: an ``OverlapTable``, ``Matches``. The rules in ``challenge`` import it; so may the
rooms above that.
"""

from collections.abc import Callable

from nuclei_metrics.matching import rules
from nuclei_metrics.matching.rules import match_iou_above
from nuclei_metrics.matching.table import overlap_table
from nuclei_metrics.model import Matches

ALGORITHMS: dict[str, Callable[..., Matches]] = {
    "iou_above": match_iou_above,
    "iou_assignment": rules.match_iou_assignment,
    "best_iou_any_overlap": rules.match_best_iou_any_overlap,
    "best_iou_centroid_inside": rules.match_best_iou_centroid_inside,
    "centroid_closest_first": rules.match_centroid_closest_first,
    "centroid_assignment": rules.match_centroid_assignment,
    "hausdorff_closest_first": rules.match_hausdorff_closest_first,
    "confidence_first": rules.match_confidence_first,
    "confidence_first_iou": rules.match_confidence_first_iou,
}
