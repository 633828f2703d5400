"""What grand-challenge.org and a publication need: a phase, the kit for participants, the archive of a challenge.

In: a challenge, a board. Out: folders and archives. Only ``commands`` imports this room.
"""
