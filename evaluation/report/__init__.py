"""Pages and pictures for people: page.py contains the parts of a page as data, html.py and terminal.py draw them.

In: documents of results. Out: HTML, lines of a terminal, pictures on the tissue. ``folders`` and the rooms above
import this room.
"""
