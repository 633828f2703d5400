"""A slow, literal version of the engine on dense masks. It shares no code with the package but ``instance_boundaries``.

An image is ``masks`` bool (N, H, W), one picture per instance, and ``classes`` (N,).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product

import numpy as np
from hypothesis import strategies as st

from nuclei_metrics.instances.boundary import boundaries_of_runs, choose_runs, runs_by_instance
from nuclei_metrics.model import Boundaries, Instances, Matches


def instance_boundaries(instances: Instances, chosen, *, border) -> Boundaries:
    """The package's boundaries of the chosen instances of one image."""
    return boundaries_of_runs(choose_runs(runs_by_instance(instances), chosen), border=border)


def points_of(points_yx, classes=None, probability=None, shape_yx=(100, 130)) -> Instances:
    """Points (y, x), of class 1 if nothing else is said; no pixels."""
    points, none = np.array(points_yx, float).reshape(-1, 2), np.empty(0, np.int64)
    return Instances(
        shape_yx,
        np.ones(len(points), np.int16) if classes is None else np.array(classes, np.int16),
        np.arange(len(points)),
        none,
        none,
        none.astype(np.int32),
        point_yx=points,
        probability=None if probability is None else np.array(probability, np.float64),
    )


def instances_of(masks: np.ndarray, classes) -> Instances:
    """Runs of dense masks, pixel by pixel."""
    runs = []
    for index, mask in enumerate(masks):
        for row in range(mask.shape[0]):
            column = 0
            while column < mask.shape[1]:
                if mask[row, column]:
                    begin = column
                    while column < mask.shape[1] and mask[row, column]:
                        column += 1
                    runs.append((row * mask.shape[1] + begin, row * mask.shape[1] + column, index))
                column += 1
    runs.sort()
    columns = np.array(runs, np.int64).reshape(-1, 3).T
    return Instances(
        shape_yx=(masks.shape[1], masks.shape[2]),
        class_id=np.array(classes, np.int16),
        source_id=np.arange(len(masks)),
        run_start=columns[0].copy(),
        run_stop=columns[1].copy(),
        run_instance=columns[2].astype(np.int32),
    )


def masks_of(instances: Instances) -> np.ndarray:
    masks = np.zeros((len(instances), instances.shape_yx[0] * instances.shape_yx[1]), bool)
    for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
        assert not masks[index, start:stop].any()
        masks[index, start:stop] = True
    return masks.reshape(-1, *instances.shape_yx)


def position(mask: np.ndarray) -> tuple[int, int, bytes]:
    """What decides between equals: first pixel, then area, then who has the first pixel in which they differ."""
    return int(np.flatnonzero(mask)[0]), int(mask.sum()), (~mask).tobytes()


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return (a & b).sum() / (a | b).sum()


def iou_of_all(reference: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    """IoU of all against all, (R, P)."""
    values = [[iou(r, p) for p in prediction] for r in reference]
    return np.array(values, float).reshape(len(reference), len(prediction))


def best_pairing(value: np.ndarray) -> tuple[int, float]:
    """Most pairs, then the greatest sum of their values, by trying everything; -inf stands for no pair."""
    lefts, rights = (range(size) for size in value.shape)
    for k in range(min(value.shape), 0, -1):
        tried = product(combinations(lefts, k), permutations(rights, k))
        best = max(float(value[list(rows), list(columns)].sum()) for rows, columns in tried)
        if best > -np.inf:
            return k, best
    return 0, 0.0


def pairs_of(matches: Matches) -> list[tuple[int, int]]:
    return list(zip(matches.reference_index.tolist(), matches.prediction_index.tolist(), strict=True))


Candidates = Mapping[tuple[int, int], float]  # pairs that may match, and how far they are from being the same


def literal_closest_first(candidates: Candidates, left: Sequence, right: Sequence) -> list[tuple[int, int]]:
    """The closest pair of all that are free, again and again; of equal ones that whose positions come first."""
    pairs: list[tuple[int, int]] = []
    for *_, i, j in sorted((distance, left[i], right[j], i, j) for (i, j), distance in candidates.items()):
        if all(i != other and j != another for other, another in pairs):
            pairs.append((i, j))
    return sorted(pairs)


def literal_confidence_first(candidates: Candidates, left: Sequence, order: Sequence[int]) -> list[tuple[int, int]]:
    """Each prediction in order takes the closest reference nucleus that is free."""
    free, pairs = set(range(len(left))), []
    for j in order:
        fitting = [(candidates[i, j], left[i], i) for i in free if (i, j) in candidates]
        if fitting:
            free.remove(min(fitting)[-1])
            pairs.append((min(fitting)[-1], j))
    return sorted(pairs)


def centroid_pixel(mask: np.ndarray) -> tuple[int, int]:
    y, x = np.nonzero(mask)
    return int(np.floor(y.mean() + 0.5)), int(np.floor(x.mean() + 0.5))


def boundary(mask: np.ndarray, border: str) -> np.ndarray:
    padded = np.pad(mask, 1, constant_values=border == "open")
    inner = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return mask & ~inner


def directed_distances(a: np.ndarray, b: np.ndarray) -> list[float]:
    return [min(float(np.hypot(*(p - q))) for q in np.argwhere(b)) for p in np.argwhere(a)]


def literal_curve(probability, right):
    """(tp, fp) at each distinct probability, from the highest on."""
    return [
        (int((right & (probability >= t)).sum()), int((~right & (probability >= t)).sum()))
        for t in sorted(set(probability.tolist()), reverse=True)
    ]


def literal_average_precision_101(probability, right, references):
    """With the recalls of pycocotools, compared in floats."""
    points = literal_curve(probability, right)
    reached = [
        max([t / (t + f) for t, f in points if t / references >= recall], default=0)
        for recall in np.linspace(0, 1, 101)
    ]
    return sum(reached) / 101


def literal_sensitivity(probability, right, references, limit):
    """MONKEY's: a straight line between points, all thresholds kept; the best at or left of the limit on equal fp."""
    points = [(0, 0), *literal_curve(probability, right)]
    return np.interp(limit, [f for _, f in points], [t / references for t, _ in points])


@st.composite
def images(draw, *, overlap: bool, largest: int = 9, most: int = 5, classes: int = 3):
    """Masks and classes of one side: blobs that touch, lie on borders, are one pixel large, and overlap if asked."""
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return draw(sides(height, width, overlap=overlap, most=most, classes=classes))


@st.composite
def sides(draw, height: int, width: int, *, overlap: bool, most: int = 5, classes: int = 3):
    masks = []
    for _ in range(draw(st.integers(0, most))):
        mask = np.zeros((height, width), bool)
        for _ in range(draw(st.integers(1, 2))):
            y, x = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
            h, w = draw(st.integers(1, 5)), draw(st.integers(1, 5))
            mask[y : y + h, x : x + w] = True
        if draw(st.booleans()):
            mask[draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))] = True
        if not overlap:
            for other in masks:
                mask &= ~other
        if mask.any():
            masks.append(mask)
    stack = np.array(masks, bool).reshape(-1, height, width)
    return stack, draw(st.lists(st.integers(1, classes), min_size=len(stack), max_size=len(stack)))


@st.composite
def pairs_of_images(draw, *, overlap: bool, most: int = 5, largest: int = 9):
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return (
        draw(sides(height, width, overlap=overlap, most=most)),
        draw(sides(height, width, overlap=overlap, most=most)),
    )


@st.composite
def look_alikes(draw):
    """Both sides of an image; all masks of a side have the same first pixel and the same area, and overlap there."""
    height, width = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    found = []
    for _ in range(2):
        first = draw(st.integers(0, width - 2))
        others = range(first + 1, height * width)
        extra = draw(st.integers(1, min(4, len(others))))
        masks = np.zeros((draw(st.integers(1, 4)), height * width), bool)
        for mask in masks:
            mask[[first, *draw(st.permutations(others))[:extra]]] = True
        found.append((masks.reshape(-1, height, width), [1] * len(masks)))
    return tuple(found)
