"""Made nuclei: the one seeded generator behind the demo, the tests and the benchmarks.

Nuclei are closed outlines with whole-number vertices, as annotation tools write them: ellipses with a few harmonics, in
crowds, some touching, some overlapping. ``perturb`` makes a team's prediction from them, ``label_map`` the
pixels.

The same seed gives the same nuclei on any machine: only ``Generator.random`` is drawn from, cosines and logarithmic
sizes are rounded far above their last bit, all else is elementwise arithmetic in a fixed order or in integers, and
vertices are whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nuclei_metrics.model import Bool, Float64, Int16, Int32, Int64, Outlines

ANGLES = 1024  # directions in which an outline may have a vertex
COSINE = np.round(np.cos(2 * np.pi * np.arange(ANGLES) / ANGLES) * 2**20) / 2**20
HARMONICS = (2, 3, 5)
SMALLEST_AREA_PX = 40
CROWDING = 0.06  # how far neighbours in a crowd reach into each other, as a fraction of their radii


@dataclass(frozen=True, slots=True)
class NucleusKind:
    """How the nuclei of one class look.

    area_px    median area
    spread     standard deviation of the logarithm of the area
    amplitude  largest amplitude of each harmonic of ``HARMONICS``, as a fraction of the radius: 2 makes a nucleus
               long, 3 makes it three-cornered or lobed, 5 makes it rough
    """

    name: str
    area_px: float
    spread: float
    amplitude: tuple[float, float, float]


# Areas at 40x (0.25 um a pixel), the order of the preset monusac2020.
MONUSAC_KINDS = (
    NucleusKind("Epithelial", 650, 0.35, (0.22, 0.05, 0.03)),
    NucleusKind("Lymphocyte", 350, 0.25, (0.10, 0.04, 0.02)),
    NucleusKind("Neutrophil", 350, 0.30, (0.18, 0.14, 0.05)),
    NucleusKind("Macrophage", 1750, 0.40, (0.20, 0.08, 0.04)),
)
# Nuclei in the reference of MoNuSAC 2020's test set.
MONUSAC_WEIGHTS = (7209.0, 7803.0, 172.0, 307.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistakes:
    """What a team does wrong. The default is a perfect prediction.

    missed          fraction of nuclei left out
    spurious        nuclei that are not there, as a fraction of those that are
    confusion       (C, C) rows of probabilities: class in the reference to class in the prediction; None: always right
    grow_px         how far outlines lie outside (below 0: inside) the true ones
    grow_spread_px  how much that differs from nucleus to nucleus, up or down
    shift_px        whole nuclei lie up to this far from their place, in each axis
    roughen_px      vertices lie up to this far outside or inside
    split           fraction of nuclei cut in two
    merged          fraction of nuclei joined with their nearest neighbour
    """

    missed: float = 0.0
    spurious: float = 0.0
    confusion: Sequence[Sequence[float]] | None = None
    grow_px: float = 0.0
    grow_spread_px: float = 0.0
    shift_px: int = 0
    roughen_px: float = 0.0
    split: float = 0.0
    merged: float = 0.0


def seeded(*seed: int) -> np.random.Generator:
    """The generator of random numbers for a seed, the same whatever numpy's default becomes.

    Several numbers, such as seed and image, give streams of their own: one more image changes no other.
    """
    return np.random.Generator(np.random.PCG64(seed))


# --- nuclei ---------------------------------------------------------------------------------------------------------


def draw_nuclei(
    rng: np.random.Generator,
    shape_yx: tuple[int, int],
    count: int,
    class_weights: Sequence[float] = MONUSAC_WEIGHTS,
    *,
    kinds: Sequence[NucleusKind] = MONUSAC_KINDS,
    vertex_step_px: float = 2.5,
) -> Outlines:
    """``count`` nuclei in an image of ``shape_yx`` px, in crowds that leave other places empty, class by class.

    class_weights   how often each class occurs, in the order of ``kinds``; need not add up to 1
    vertex_step_px  distance between vertices along the outline

    Class ids are 1…C; vertices are whole numbers inside the image. Time grows with ``count``: about 20 us a nucleus.

    >>> nuclei = draw_nuclei(seeded(1), (200, 300), 25)
    >>> len(nuclei), bool((nuclei.points_xy % 1 == 0).all()), nuclei.points_xy.max(axis=0).tolist() <= [299, 199]
    (25, True, True)
    """
    class_id = draw_classes(rng, count, class_weights)
    area = draw_areas(rng, class_id, kinds)
    centre_yx = place_centres(rng, shape_yx, np.sqrt(area / math.pi))
    order = np.argsort(class_id, kind="stable")
    return draw_outlines(rng, shape_yx, centre_yx[order], class_id[order], area[order], kinds, vertex_step_px)


def draw_classes(rng: np.random.Generator, count: int, weights: Sequence[float]) -> Int16:
    """``count`` class ids 1…C with the given weights."""
    total = math.fsum(weights)
    limits = [math.fsum(weights[: k + 1]) / total for k in range(len(weights) - 1)]
    return (1 + np.searchsorted(limits, rng.random(count), side="right")).astype(np.int16)


def draw_areas(rng: np.random.Generator, class_id: Int16, kinds: Sequence[NucleusKind]) -> Float64:
    """Target areas, px, lognormal within each class, whole numbers."""
    normal = np.full(len(class_id), -6.0)
    for _ in range(12):  # nearly normal, from sums alone
        normal += rng.random(len(class_id))
    median = np.array([kind.area_px for kind in kinds])[class_id - 1]
    spread = np.array([kind.spread for kind in kinds])[class_id - 1]
    area: Float64 = np.round(median * np.exp(spread * np.clip(normal, -3, 3)))
    return np.maximum(area, SMALLEST_AREA_PX)


def place_centres(rng: np.random.Generator, shape_yx: tuple[int, int], radius_px: Float64) -> Float64:
    """Centres (N, 2) for nuclei of the given radii: crowds on a jittered grid, then pushed apart.

    The grid has about one cell for a nucleus of mean size. A smooth random field says where crowds are.
    """
    height, width = shape_yx
    count = len(radius_px)
    if count == 0:
        return np.empty((0, 2))
    pitch = max(1.9 * float(radius_px.sum()) / count, 1.0)
    while (rows := max(1, int(height / pitch))) * (columns := max(1, int(width / pitch))) < count:
        pitch *= 0.97
    crowd = smooth_field(rng, rows, columns, 5) + 0.35 * rng.random((rows, columns))
    cell = np.sort(np.argsort(-crowd.ravel(), kind="stable")[:count])
    radius = np.zeros((rows, columns))
    radius.ravel()[cell] = radius_px
    y = (np.arange(rows)[:, None] + 0.5 + 0.5 * (rng.random((rows, columns)) - 0.5)) * (height / rows)
    x = (np.arange(columns)[None] + 0.5 + 0.5 * (rng.random((rows, columns)) - 0.5)) * (width / columns)
    for _ in range(16):
        push_apart(y, x, radius, 1 - CROWDING)
        np.clip(y, 0.4 * radius, height - 1 - 0.4 * radius, out=y)
        np.clip(x, 0.4 * radius, width - 1 - 0.4 * radius, out=x)
    return np.stack([y.ravel()[cell], x.ravel()[cell]], axis=1)


def smooth_field(rng: np.random.Generator, rows: int, columns: int, step: int) -> Float64:
    """Random numbers in [0, 1] at every ``step``-th cell, linear in between, (rows, columns)."""
    coarse = rng.random((rows // step + 2, columns // step + 2))
    row, row_part = np.divmod(np.arange(rows), step)
    column, column_part = np.divmod(np.arange(columns), step)
    down, right = (row_part / step)[:, None], (column_part / step)[None]
    above = coarse[row][:, column] * (1 - right) + coarse[row][:, column + 1] * right
    below = coarse[row + 1][:, column] * (1 - right) + coarse[row + 1][:, column + 1] * right
    field: Float64 = above * (1 - down) + below * down
    return field


def push_apart(y: Float64, x: Float64, radius: Float64, closest: float) -> None:
    """Move neighbours of the grid that are closer than ``closest`` times the sum of their radii, in place.

    Cells with radius 0 are empty. Neighbours are at most two rows and columns apart.
    """
    rows, columns = radius.shape
    for down in range(3):
        for right in range(-2 if down else 1, 3):
            if down >= rows or abs(right) >= columns:
                continue
            a = np.s_[: rows - down, max(0, -right) : columns - max(0, right)]
            b = np.s_[down:, max(0, right) : columns - max(0, -right)]
            dy, dx = y[b] - y[a], x[b] - x[a]
            distance = np.maximum(np.sqrt(dy * dy + dx * dx), 0.5)
            wanted = (radius[a] + radius[b]) * closest
            both = (radius[a] > 0) & (radius[b] > 0)
            push = np.where(both, np.maximum(wanted - distance, 0), 0) * 0.5 / distance
            y[a] -= dy * push
            x[a] -= dx * push
            y[b] += dy * push
            x[b] += dx * push


def draw_outlines(
    rng: np.random.Generator,
    shape_yx: tuple[int, int],
    centre_yx: Float64,
    class_id: Int16,
    area_px: Float64,
    kinds: Sequence[NucleusKind],
    vertex_step_px: float,
) -> Outlines:
    """One star-shaped outline around each centre, of about the given area.

    In the direction t its distance from the centre is ``r * (1 + sum(a_k * cos(k * t + p_k)))``, k in ``HARMONICS``.
    """
    count = len(class_id)
    limit = np.array([kind.amplitude for kind in kinds])[class_id - 1].T
    amplitude = [limit[k] * (0.3 + 0.7 * rng.random(count)) for k in range(len(HARMONICS))]
    phase = [np.floor(rng.random(count) * ANGLES).astype(np.int64) for _ in HARMONICS]
    stretch = 1 + sum((a * a for a in amplitude), np.zeros(count)) / 2
    radius = np.sqrt(area_px / (math.pi * stretch))
    vertices = np.clip(np.round(2 * math.pi * radius / vertex_step_px), 8, ANGLES).astype(np.int64)
    owner = np.repeat(np.arange(count), vertices)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(vertices) - vertices, vertices)
    angle = nth * ANGLES // vertices[owner]
    reach = np.ones(len(owner))
    for k, a, p in zip(HARMONICS, amplitude, phase, strict=True):
        reach += a[owner] * COSINE[(k * angle + p[owner]) % ANGLES]
    reach *= radius[owner]
    points = np.empty((len(owner), 2))
    points[:, 0] = centre_yx[owner, 1] + reach * COSINE[angle]
    points[:, 1] = centre_yx[owner, 0] + reach * COSINE[(angle - ANGLES // 4) % ANGLES]
    return whole_outlines(points, owner, class_id, shape_yx)


# --- outlines as tables ---------------------------------------------------------------------------------------------


def whole_outlines(points_xy: Float64, owner: Int64, class_id: Int16, shape_yx: tuple[int, int]) -> Outlines:
    """One ring an instance from vertices in order of their instances: rounded, inside, none twice in a row."""
    points = np.floor(points_xy + 0.5)
    np.clip(points, 0, [shape_yx[1] - 1, shape_yx[0] - 1], out=points)
    is_whole = np.ones(len(points), np.bool_)
    is_whole[1:] = (owner[1:] != owner[:-1]) | (points[1:] != points[:-1]).any(axis=1)
    return ring_table(points[is_whole], np.bincount(owner[is_whole], minlength=len(class_id)), class_id)


def ring_table(points_xy: Float64, vertices: Int64, class_id: Int16) -> Outlines:
    """One ring an instance, from all vertices and their number in each ring."""
    count = len(class_id)
    return Outlines(
        points_xy=points_xy,
        ring_start=np.concatenate([np.zeros(1, np.int64), np.cumsum(vertices, dtype=np.int64)]),
        ring_instance=np.arange(count, dtype=np.int32),
        ring_is_hole=np.zeros(count, np.bool_),
        class_id=class_id,
        source_id=np.array([str(index + 1) for index in range(count)], object),
    )


def owners(outlines: Outlines) -> Int64:
    """The instance of each vertex, (V,)."""
    return np.repeat(np.arange(len(outlines)), np.diff(outlines.ring_start))


def centres_xy(outlines: Outlines) -> Float64:
    """Mean of the vertices of each outline, (N, 2)."""
    if len(outlines) == 0:
        return np.empty((0, 2))
    totals = np.add.reduceat(outlines.points_xy, outlines.ring_start[:-1], axis=0)  # whole numbers: exact
    return totals / np.diff(outlines.ring_start)[:, None]


def select_outlines(outlines: Outlines, chosen: Bool) -> Outlines:
    """The outlines that are marked, in their order."""
    points = outlines.points_xy[chosen[owners(outlines)]]
    return ring_table(points, np.diff(outlines.ring_start)[chosen], outlines.class_id[chosen])


def join_outlines(first: Outlines, second: Outlines) -> Outlines:
    """All outlines of both, one after the other."""
    return ring_table(
        np.concatenate([first.points_xy, second.points_xy]),
        np.concatenate([np.diff(first.ring_start), np.diff(second.ring_start)]),
        np.concatenate([first.class_id, second.class_id]),
    )


# --- mistakes -------------------------------------------------------------------------------------------------------


def perturb(rng: np.random.Generator, outlines: Outlines, shape_yx: tuple[int, int], mistakes: Mistakes) -> Outlines:
    """A team's prediction: the outlines with mistakes. Spurious nuclei come before all others."""
    prediction = miss_nuclei(rng, outlines, mistakes.missed)
    prediction = merge_nuclei(rng, prediction, mistakes.merged)
    prediction = split_nuclei(rng, prediction, mistakes.split)
    prediction = grow_outlines(rng, prediction, shape_yx, mistakes.grow_px, mistakes.grow_spread_px)
    prediction = roughen_outlines(rng, prediction, shape_yx, mistakes.roughen_px)
    prediction = shift_outlines(rng, prediction, shape_yx, mistakes.shift_px)
    prediction = add_spurious(rng, prediction, shape_yx, round(mistakes.spurious * len(outlines)))
    if mistakes.confusion is not None:
        prediction = confuse_classes(rng, prediction, mistakes.confusion)
    return prediction


def miss_nuclei(rng: np.random.Generator, outlines: Outlines, fraction: float) -> Outlines:
    """Leave out each nucleus with this probability.

    >>> nuclei = draw_nuclei(seeded(1), (400, 500), 100)
    >>> [len(miss_nuclei(seeded(2), nuclei, fraction)) for fraction in (0, 0.3, 1)]
    [100, 68, 0]
    """
    return select_outlines(outlines, rng.random(len(outlines)) >= fraction)


def add_spurious(rng: np.random.Generator, outlines: Outlines, shape_yx: tuple[int, int], count: int) -> Outlines:
    """Nuclei that are not there, anywhere, before all others; classes as often as they occur in ``outlines``.

    None are added to an empty image, where nothing tells their classes.

    >>> nuclei = draw_nuclei(seeded(1), (400, 500), 100)
    >>> added = add_spurious(seeded(2), nuclei, (400, 500), 7)
    >>> len(added), bool((added.class_id[7:] == nuclei.class_id).all())
    (107, True)
    """
    if count == 0 or len(outlines) == 0:
        return outlines
    weights = np.bincount(outlines.class_id, minlength=len(MONUSAC_KINDS) + 1)[1:].astype(float).tolist()
    return join_outlines(draw_nuclei(rng, shape_yx, count, weights), outlines)


def confuse_classes(rng: np.random.Generator, outlines: Outlines, confusion: Sequence[Sequence[float]]) -> Outlines:
    """Draw a new class for each nucleus from the row of its class.

    >>> nuclei = draw_nuclei(seeded(1), (100, 100), 3, (1, 0))
    >>> confuse_classes(seeded(2), nuclei, [[0, 1], [0, 1]]).class_id.tolist()
    [2, 2, 2]
    """
    limits = np.array([[math.fsum(row[: k + 1]) for k in range(len(row) - 1)] for row in confusion])
    drawn = rng.random(len(outlines))[:, None] >= limits[outlines.class_id - 1]
    return ring_table(outlines.points_xy, np.diff(outlines.ring_start), (1 + drawn.sum(axis=1)).astype(np.int16))


def grow_outlines(
    rng: np.random.Generator, outlines: Outlines, shape_yx: tuple[int, int], px: float, spread_px: float = 0.0
) -> Outlines:
    """Move the vertices of each nucleus ``px`` away from its centre (below 0: inwards), give or take ``spread_px``.

    >>> nuclei = draw_nuclei(seeded(1), (200, 200), 1)
    >>> grown = [grow_outlines(seeded(2), nuclei, (200, 200), px) for px in (-2, 0, 2)]
    >>> [int(label_map(outlines, (200, 200))[0].sum()) for outlines in grown]
    [244, 372, 526]
    """
    px_of_nucleus = px + spread_px * (2 * rng.random(len(outlines)) - 1)
    return move_radially(outlines, shape_yx, px_of_nucleus[owners(outlines)])


def roughen_outlines(rng: np.random.Generator, outlines: Outlines, shape_yx: tuple[int, int], px: float) -> Outlines:
    """Move each vertex up to ``px`` away from the centre or towards it.

    >>> nuclei = draw_nuclei(seeded(1), (200, 200), 1)
    >>> moved = roughen_outlines(seeded(2), nuclei, (200, 200), 0)
    >>> bool((moved.points_xy == nuclei.points_xy).all())
    True
    """
    return move_radially(outlines, shape_yx, px * (2 * rng.random(len(outlines.points_xy)) - 1))


def move_radially(outlines: Outlines, shape_yx: tuple[int, int], px: Float64) -> Outlines:
    """Move vertex v by ``px[v]`` along the ray from the centre of its outline; it never crosses the centre."""
    owner = owners(outlines)
    centre = centres_xy(outlines)[owner]
    ray = outlines.points_xy - centre
    length = np.maximum(np.sqrt(ray[:, 0] * ray[:, 0] + ray[:, 1] * ray[:, 1]), 1.0)
    stretched = ray * (np.maximum(length + px, 1.0) / length)[:, None]
    return whole_outlines(centre + stretched, owner, outlines.class_id, shape_yx)


def shift_outlines(rng: np.random.Generator, outlines: Outlines, shape_yx: tuple[int, int], px: int) -> Outlines:
    """Move each nucleus by -px…px whole pixels in each axis.

    >>> nuclei = draw_nuclei(seeded(1), (200, 200), 1)
    >>> moved = shift_outlines(seeded(2), nuclei, (200, 200), 3)
    >>> np.unique(moved.points_xy - nuclei.points_xy, axis=0).tolist()
    [[-2.0, -1.0]]
    """
    owner = owners(outlines)
    shift = np.floor(rng.random((len(outlines), 2)) * (2 * px + 1)) - px
    return whole_outlines(outlines.points_xy + shift[owner], owner, outlines.class_id, shape_yx)


def split_nuclei(rng: np.random.Generator, outlines: Outlines, fraction: float) -> Outlines:
    """Cut nuclei in two, from one vertex to the one half-way round; the second half comes right after the first.

    >>> nuclei = draw_nuclei(seeded(1), (400, 500), 100)
    >>> len(split_nuclei(seeded(2), nuclei, 1))
    200
    """
    cut = rng.random(len(outlines)) < fraction
    first_vertex = rng.random(len(outlines))
    if not cut.any():
        return outlines
    rings: list[Float64] = []
    classes: list[int] = []
    for index, ring in enumerate(np.split(outlines.points_xy, outlines.ring_start[1:-1])):
        parts = [ring]
        if cut[index] and len(ring) >= 8:
            turned = np.roll(ring, int(first_vertex[index] * len(ring)), axis=0)
            parts = [turned[: len(ring) // 2 + 1], np.concatenate([turned[len(ring) // 2 :], turned[:1]])]
        rings.extend(parts)
        classes.extend([int(outlines.class_id[index])] * len(parts))
    return outlines_from_rings(rings, classes)


def merge_nuclei(rng: np.random.Generator, outlines: Outlines, fraction: float) -> Outlines:
    """Join chosen nuclei with their nearest neighbour: one convex outline around both.

    The class is that of the chosen one. A nucleus is joined at most once. Time grows with the nuclei that are joined
    times all nuclei.

    >>> nuclei = draw_nuclei(seeded(1), (400, 500), 100)
    >>> len(merge_nuclei(seeded(2), nuclei, 0.2))
    81
    """
    import shapely  # not needed by the demo, which starts faster

    chosen = np.flatnonzero(rng.random(len(outlines)) < fraction)
    if len(chosen) == 0 or len(outlines) < 2:
        return outlines
    centre = centres_xy(outlines)
    rings: list[Float64] = np.split(outlines.points_xy, outlines.ring_start[1:-1])
    gone = np.zeros(len(outlines), np.bool_)
    touched = np.zeros(len(outlines), np.bool_)
    for index in chosen.tolist():
        away = centre - centre[index]
        distance = away[:, 0] * away[:, 0] + away[:, 1] * away[:, 1]
        distance[index] = np.inf
        other = int(distance.argmin())
        if not (touched[index] or touched[other]):
            hull = shapely.MultiPoint(np.concatenate([rings[index], rings[other]])).convex_hull
            # From its least vertex on, counterclockwise, without the closing one, in whatever order GEOS has it.
            rings[index] = shapely.get_coordinates(shapely.normalize(hull))[:0:-1]
            touched[[index, other]] = gone[other] = True
    remaining = np.flatnonzero(~gone)
    return outlines_from_rings([rings[index] for index in remaining], outlines.class_id[remaining].tolist())


def outlines_from_rings(rings: Sequence[Float64], class_id: Sequence[int]) -> Outlines:
    """Outlines from a list of rings (V, 2), one an instance, and their classes."""
    vertices = np.array([len(ring) for ring in rings], np.int64)
    return ring_table(np.concatenate([np.empty((0, 2)), *rings]), vertices, np.array(class_id, np.int16))


# --- label maps -----------------------------------------------------------------------------------------------------


def label_map(outlines: Outlines, shape_yx: tuple[int, int]) -> tuple[Int32, Int16]:
    """Dense labels 1…N, int32 (H, W), and the class of each, int16 (N,).

    Contested pixels go to the smaller nucleus, so that hardly any is lost whole; one that has no pixel gets no label.
    """
    labels = np.zeros(shape_yx, np.int32)
    row, start, stop, instance = outline_runs(outlines)
    area = np.zeros(len(outlines), np.int64)
    np.add.at(area, instance, stop - start)
    rank = np.empty(len(outlines), np.int64)
    rank[np.lexsort((np.arange(len(outlines)), -area))] = np.arange(len(outlines))
    order = np.argsort(rank[instance], kind="stable")
    flat = labels.reshape(-1)
    for first in range(0, len(order), 1 << 17):  # in pieces, so that memory stays small
        piece = order[first : first + (1 << 17)]
        length = (stop - start)[piece]
        begin = row[piece] * shape_yx[1] + start[piece]
        pixel = np.repeat(begin - (np.cumsum(length) - length), length) + np.arange(length.sum())
        flat[pixel] = np.repeat(instance[piece] + 1, length).astype(np.int32)
    present = np.zeros(len(outlines) + 1, np.bool_)
    present[flat] = True
    present[0] = False
    dense = np.cumsum(present, dtype=np.int32) * present
    np.take(dense.astype(np.int32), flat, out=flat, mode="clip")
    return labels, outlines.class_id[present[1:]]


def outline_runs(outlines: Outlines) -> tuple[Int64, Int64, Int64, Int64]:
    """Pixels inside the outlines by the even-odd rule: row, first column, column after the last, instance (R,) each.

    Exact, in integers. Pixels on an upper or left-hand edge are inside, those on a lower one are not; the engine's
    rasterisation has rules of its own, this one is independent of it.

    >>> square = outlines_from_rings([np.array([[1, 1], [4, 1], [4, 3], [1, 3]])], [1])
    >>> [column.tolist() for column in outline_runs(square)]
    [[1, 2], [1, 1], [4, 4], [0, 0]]
    """
    points = outlines.points_xy.astype(np.int64)
    following = np.arange(1, len(points) + 1)
    following[outlines.ring_start[1:] - 1] = outlines.ring_start[:-1]
    (x0, y0), (x1, y1) = points.T, points[following].T
    upwards = y0 > y1
    x0, y0, x1, y1 = (np.where(upwards, a, b) for a, b in ((x1, x0), (y1, y0), (x0, x1), (y0, y1)))
    rows = y1 - y0  # an edge crosses the rows y0…y1 - 1
    edge = np.repeat(np.arange(len(points)), rows)
    row = y0[edge] + np.arange(len(edge)) - np.repeat(np.cumsum(rows) - rows, rows)
    column = x0[edge] - ((row - y0[edge]) * (x0 - x1)[edge] // rows[edge])  # crossing, rounded up
    instance = owners(outlines)[edge]
    order = np.lexsort((column, row, instance))
    first, last = order[0::2], order[1::2]
    filled = column[last] > column[first]
    first, last = first[filled], last[filled]
    return row[first], column[first], column[last], instance[first]
