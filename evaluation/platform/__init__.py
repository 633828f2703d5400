"""What grand-challenge.org and a publication need: the kit for participants, and the archive of a challenge.

In: a challenge, a board. Out: folders and archives. Only ``commands`` imports this room.
"""
