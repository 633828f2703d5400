"""From cases to groups to the data set."""

from evaluation.aggregation.units import pool_counts, unit_mean

__all__ = ["pool_counts", "unit_mean"]
