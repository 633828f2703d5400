"""Many submissions: teams, stored results, tables of scores from elsewhere, the board, its audit, sensitivity.

In: a challenge, and a folder of submissions or of results. Out: a board, and documents that pages are built from.
``report`` and the rooms above import this room.
"""
