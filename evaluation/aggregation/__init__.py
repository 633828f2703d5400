"""From cases to groups to the data set."""

from evaluation.aggregation.intervals import Bootstrap, bootstrap
from evaluation.aggregation.resampling import Column
from evaluation.aggregation.table import stack_cases, unite
from evaluation.aggregation.units import charge, mean_of_units

__all__ = ["Bootstrap", "Column", "bootstrap", "charge", "mean_of_units", "stack_cases", "unite"]
