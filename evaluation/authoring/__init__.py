"""From people's files to scores, challenges and other files: look, compare, init, convert, kit, and the demo.

In: folders as they are, presets. Out: what is in them, folders that people open. Only ``commands`` imports this room.
"""
