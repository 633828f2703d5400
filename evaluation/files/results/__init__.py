"""What programs read: metrics.json, details.json, objects.csv, and their forms.

In: scores and counts. Out: text of files, and files that are there whole or not at all. ``scoring`` and
the rooms above may import it.
"""

# It goes into every result.
__version__ = "0.2.0"
