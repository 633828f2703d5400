"""What programs read: metrics.json, details.json, objects.csv, label maps of the reference, and their schema.

In: scores and counts. Out: text of files, and files that are there whole or not at all. Execution and
the rooms above may import it.
"""
