"""Files: ``decoding`` knows bytes, ``formats`` nuclei, ``submission`` cases; ``results`` writes
what programs read.

In: bytes of strangers; scores. Out: annotations of each case, and findings; metrics.json, details.json, objects.csv.
``scoring`` and the rooms above import this room.
"""
