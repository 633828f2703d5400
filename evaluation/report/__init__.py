"""Pages and pictures for people: what stands on a page (page.py), and who draws it (html.py, terminal.py).

In: documents of results. Out: HTML, lines of a terminal, pictures on the tissue. ``commands`` and ``authoring``
import this room.
"""
