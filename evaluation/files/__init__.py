"""Files: bytes of strangers to arrays, formats to annotations, which file is which case, and what programs read.

``decoding`` knows bytes, ``formats`` nuclei, ``submission`` cases; ``results`` writes metrics.json,
details.json and objects.csv. ``scoring`` and the rooms above import this one.
"""
