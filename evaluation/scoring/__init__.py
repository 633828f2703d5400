"""The street: read, match, measure, count, score, from files and from arrays; and the workers that run it.

In: a challenge and a submission. Out: a ``Result``. Only this room knows the order of the stages; ``board`` and the
rooms above import it.
"""
