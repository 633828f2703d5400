"""Annotations to instances: runs from labels and outlines, overlap rules, ignore regions, boundaries.

In: annotations, or arrays. Out: ``Instances``. Every room but model, findings and metrics may import it.
"""
