"""From people's files to scores, challenges and other files: look, compare, init, convert, and the demo.

In: folders as they are, presets. Out: their content, folders that people open. ``platform`` and ``commands``
import this room.
"""
