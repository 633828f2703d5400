"""Starting a challenge: init, kit, examples, convert, and the demo with its seeded nuclei.

In: presets, files of an organiser. Out: folders that people open. Only ``commands`` imports this room.
"""
