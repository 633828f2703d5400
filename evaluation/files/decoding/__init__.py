"""Untrusted bytes to arrays and records, within limits that are checked before memory is taken.

In: streams. Out: numpy arrays, records, cells of tables. Knows bytes, not nuclei; ``formats`` and those who read
tables import it.
"""
