"""Where work runs: workers of this machine, pools that are shared, a cluster.

In: functions and their tasks. Out: outcomes in the order of the tasks. Knows nothing of what the tasks do;
scoring and the rooms above may import it.
"""
