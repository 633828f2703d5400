"""The street: read, match, measure, count, score; from files and from arrays.

In: a challenge and a submission. Out: a ``Result``. Only this room knows the order of the stages; the
leaderboard and the rooms above may import it.
"""
