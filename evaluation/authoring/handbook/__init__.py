"""What each metric is, says and shows: the pages of docs/metrics and of ``evaluation explain``.

``pictures`` scores small drawings by the real program, ``situations`` says what each metric says when, ``examples``
has a worked example for each page, ``sources`` the literature, and ``pages`` makes text of them.
"""
