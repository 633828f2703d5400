"""Which prediction found which reference nucleus: one overlap table, and the matching rules.

In: two ``Instances``. Out: an ``OverlapTable``, ``Matches``. The rules in ``challenge`` import it; so may the
rooms above that.
"""

from nuclei_metrics.matching.rules import match_iou_above
from nuclei_metrics.matching.table import overlap_table
