"""Annotations to instances: runs from labels and outlines, overlap rules, ignore regions, boundaries."""
