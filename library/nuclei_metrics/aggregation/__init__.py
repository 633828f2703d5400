"""From cases to groups to the data set.

In: counts of each case, scores of each unit. Out: sums, means, what is penalised, intervals. Scoring imports it, and
what compares teams; of the engine it knows the model alone.
"""

from nuclei_metrics.aggregation.units import (
    Bootstrap,
    Column,
    bootstrap,
    join_tables,
    mean_of_units,
    penalise,
    stack_cases,
    unite,
)
