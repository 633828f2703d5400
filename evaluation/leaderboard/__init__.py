"""Many submissions: teams, stored results, tables of scores from elsewhere, the platform's phase.

In: a folder of submissions or of results. Out: a board. Rooms above ``scoring`` import this one.
"""
