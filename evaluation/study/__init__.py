"""What a ranking or a reference is worth: audit, sensitivity, what each kind of error costs.

In: a challenge and results. Out: documents that pages are made of. ``commands``, ``authoring`` and ``report`` import
this room.
"""
