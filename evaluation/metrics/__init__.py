"""Scores of nuclei: a file a question, in which each metric is one record; ``registry`` lists the families.

Every metric is a function of ``Units``, unions of cases, and evaluates all of them at once: what adds up is added up
over the cases of each unit, then one formula closes, for a case, a group, all cases and a sample of a bootstrap alike.

In: matches and instances of each case. Out: its counts, and the scores of any units. Every room but model, findings and
instances may import it.
"""

from evaluation.metrics.counts import count_matches
from evaluation.metrics.metric import Metric
from evaluation.metrics.registry import FAMILIES, metrics_of
