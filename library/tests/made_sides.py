"""Sides of images for the tests: drawings, and label maps at random."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

NOTHING = np.zeros((3, 5), np.int64)


def picture(*rows: str) -> np.ndarray:
    """A label map: letters are labels 1 to 26, dots are background."""
    return np.array([[0 if letter == "." else ord(letter) - 96 for letter in row] for row in rows])


REFERENCE = picture("aaa.b", "aaa.b", "..c..")
PREDICTION = picture("ddd..", "dd...", "..e.f")


def label_maps(most: int = 6) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    """Two label maps of one size."""
    sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))

    def maps(size: tuple[int, int]) -> st.SearchStrategy[np.ndarray]:
        labels = st.lists(st.integers(0, most), min_size=size[0] * size[1], max_size=size[0] * size[1])
        return labels.map(lambda values: np.array(values, np.int64).reshape(size))

    return sizes.flatmap(lambda size: st.tuples(maps(size), maps(size)))


def labels_of(labels: np.ndarray) -> list[int]:
    return [label for label in np.unique(labels).tolist() if label]
