"""Scores of matched nuclei, one file per family; ``registry`` lists them all."""

from evaluation.metrics.hausdorff import hausdorff_distances
from evaluation.metrics.measure import count_matches
from evaluation.metrics.registry import Metric, metrics_of

__all__ = ["Metric", "count_matches", "hausdorff_distances", "metrics_of"]
