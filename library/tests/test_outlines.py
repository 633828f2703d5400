"""Outlines become exactly the pixels that skimage.draw.polygon sets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from literal import images, instances_of, masks_of, points_of
from skimage.draw import polygon
from skimage.measure import label

from nuclei_metrics.instances import rasterise
from nuclei_metrics.instances.outlines import trace_outlines
from nuclei_metrics.instances.prepare import prepare_reference
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.instances.runs import instances_from_labels
from nuclei_metrics.model import Instances, Outlines

AS_IS = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}
AS_THEY_ARE = {**AS_IS, "overlap": "keep", "overlap_scope": "image"}


def outlines_of(rings, instance=None, holes=(), classes=None) -> Outlines:
    """Rings as lists of (x, y); each its own outline unless ``instance`` says otherwise."""
    instance = list(range(len(rings))) if instance is None else instance
    count = max(instance, default=-1) + 1
    return Outlines(
        points_xy=np.array([point for ring in rings for point in ring], float).reshape(-1, 2),
        ring_start=np.cumsum([0, *map(len, rings)]),
        ring_instance=np.array(instance, np.int32),
        ring_is_hole=np.isin(np.arange(len(rings)), list(holes)),
        class_id=np.ones(count, np.int16) if classes is None else np.array(classes, np.int16),
        source_id=np.array([f"1/{i}" for i in range(count)] + [None], object)[:-1],
    )


def covered_pixels(instances: Instances) -> list[list[int]]:
    """Flat pixel indices of each instance."""
    pixels: list[list[int]] = [[] for _ in range(len(instances))]
    for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
        pixels[index] += range(start, stop)
    return pixels


def polygon_pixels(ring, shape_yx) -> list[int]:
    """The pixels that scikit-image fills; it refuses rings without vertices, which fill none."""
    ring = np.asarray(ring, float).reshape(-1, 2)
    if len(ring) == 0:
        return []
    row, column = polygon(ring[:, 1], ring[:, 0], shape_yx)
    return sorted(row * shape_yx[1] + column)


def by_source(instances: Instances) -> dict[str, list[int]]:
    return dict(zip(instances.source_id, covered_pixels(instances), strict=True))


def picture(outlines: Outlines, shape_yx, **rules) -> list[str]:
    """Number of instances on each pixel; '.' for none."""
    cover = np.zeros(shape_yx[0] * shape_yx[1], int)
    for pixels in covered_pixels(rasterise_outlines(outlines, shape_yx, **{**AS_IS, **rules})):
        cover[pixels] += 1
    return ["".join(str(n) if n else "." for n in row) for row in cover.reshape(shape_yx)]


def coordinates(step: float):
    return st.integers(-round(4 / step), round(14 / step)).map(lambda number: number * step)


FINE = st.one_of(
    coordinates(1),
    st.floats(-4, 14, allow_subnormal=False).map(lambda value: value if abs(value) > 1e-100 else 0.0),
    st.builds(float.__add__, st.integers(-1, 11).map(float), st.sampled_from([1e-13, -1e-13, 1e-12, 2e-12, 1e-9])),
    st.sampled_from([1e9, -1e9, 999_999_999.5, -123_456_789.25]),
)


def rings_of(coordinate):
    """Rings of 0 to 9 vertices, so also points, lines, and outlines that cross themselves or repeat a vertex."""
    return st.lists(st.lists(st.tuples(coordinate, coordinate), max_size=9), min_size=1, max_size=8)


@pytest.mark.parametrize("rings", [
    rings_of(coordinates(1)), st.sampled_from([0.5, 0.25, 0.1]).flatmap(lambda step: rings_of(coordinates(step))),
    rings_of(FINE),
], ids=["whole", "finer grid", "awkward"])  # fmt: skip
@given(data=st.data(), height=st.integers(1, 12), width=st.integers(1, 11), chunks=st.sampled_from([(), (3, 4)]))
def test_outlines_have_the_pixels_of_skimage_however_many_at_once(rings, data, height, width, chunks):
    drawn = data.draw(rings)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("CHUNK_VERTICES", "CHUNK_CROSSINGS"), chunks, strict=False):
            patch.setattr(rasterise, name, size)
        found = by_source(rasterise_outlines(outlines_of(drawn), (height, width), **AS_IS))
    for index, ring in enumerate(drawn):
        assert found.get(f"1/{index}", []) == polygon_pixels(ring, (height, width))


@given(rings_of(coordinates(0.5)), st.data())
def test_an_instance_is_the_union_of_its_outer_rings_minus_their_holes(rings, data):
    owner = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(rings), max_size=len(rings))))
    holes = data.draw(st.sets(st.integers(0, len(rings) - 1)))
    outlines = outlines_of(rings, instance=owner, holes=holes)
    found = by_source(rasterise_outlines(outlines, (11, 9), **AS_IS))
    for instance in range(len(outlines)):
        mine = [k for k, o in enumerate(owner) if o == instance]
        parts: list[set[int]] = [set()]  # holes before any outer ring take nothing away
        for k in mine:
            pixels = set(polygon_pixels(rings[k], (11, 9)))
            if k in holes:
                parts[-1] -= pixels
            else:
                parts.append(pixels)
        assert found.get(f"1/{instance}", []) == sorted(set().union(*parts))


@given(rings_of(coordinates(1)), st.integers(1, 4))
def test_runs_are_sorted_maximal_and_inside_one_row(rings, parts):
    outlines = outlines_of(rings, instance=sorted(k % parts for k in range(len(rings))))
    instances = rasterise_outlines(outlines, (11, 9), **AS_IS)
    runs = list(zip(instances.run_start, instances.run_instance, instances.run_stop, strict=True))
    assert runs == sorted(runs)
    for start, index, stop in runs:
        assert start < stop and start // 9 == (stop - 1) // 9
        if stop % 9:
            assert stop not in [other for other, owner, _ in runs if owner == index]


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vertices, origin, expected", [
    ("exact", "pixel_centre", ["......", "...11.", "...11.", "......"]),
    ("truncate", "pixel_centre", ["..111.", "..111.", "..111.", "......"]),
    ("exact", "pixel_corner", ["......", "..111.", "......", "......"]),
    ("truncate", "pixel_corner", ["..11..", "..11..", "......", "......"]),
])  # fmt: skip
def test_vertices_and_origin_move_the_pixels(vertices, origin, expected):
    square = [(2.5, 0.75), (4.75, 0.75), (4.75, 2.25), (2.5, 2.25)]
    assert picture(outlines_of([square]), (4, 6), vertices=vertices, origin=origin) == expected


def test_below_zero_truncation_goes_towards_zero():
    around_zero = outlines_of([[(-0.9, -0.9), (1.9, -0.9), (1.9, 1.9)]])
    assert picture(around_zero, (3, 3), vertices="truncate")[0] == "11."


THIN = [(2.2, 1.1), (2.4, 1.1), (2.3, 1.4)]


def test_a_vanished_outline_is_dropped_or_gets_its_nearest_pixel_if_that_is_in_the_image():
    assert len(rasterise_outlines(outlines_of([THIN, [(0, 0), (2, 0), (0, 2)]]), (4, 5), **AS_IS)) == 1
    pixel = {**AS_IS, "vanished": "pixel"}
    assert covered_pixels(rasterise_outlines(outlines_of([THIN]), (4, 5), **pixel)) == [[1 * 5 + 2]]
    assert len(rasterise_outlines(outlines_of([[(8, 1), (9, 1), (9, 2)], []]), (4, 5), **pixel)) == 0
    assert len(rasterise_outlines(outlines_of([]), (4, 5), **AS_IS)) == 0


def test_classes_and_ids_stay_with_their_outlines_when_one_before_them_vanishes():
    outlines = outlines_of([THIN, [(0, 0), (2, 0), (0, 2)], [(3, 3), (4, 3), (4, 2)]], classes=[1, -2, 3])
    instances = rasterise_outlines(outlines, (4, 5), **AS_IS)
    assert instances.class_id.tolist() == [-2, 3]
    assert instances.source_id.tolist() == ["1/1", "1/2"]


# --- size ------------------------------------------------------------------------------------------------------------


def test_an_outline_of_a_billion_pixels_costs_what_is_inside_the_image():
    far = 1e9
    outlines = outlines_of([[(-far, -far), (far, -far), (far, far), (-far, far)]])
    assert rasterise_outlines(outlines, (40, 30), **AS_IS).areas_px().tolist() == [1200]


def test_distance_between_outlines_is_not_taken_for_complexity():
    corners = [[(1, y), (3, y), (3, y + 2)] for y in [0, 29_990] * 8_000]
    assert len(rasterise_outlines(outlines_of(corners), (30_000, 10), **AS_IS)) == 16_000


# --- the report ------------------------------------------------------------------------------------------------------


def report_of(outlines: Outlines, shape_yx, **options):
    return prepare_reference([outlines], shape_yx, **AS_THEY_ARE, **options).report


def test_holes_and_parts_are_counted():
    square = [(0, 0), (5, 0), (5, 5), (0, 5)]
    for holes, expected in (([1], (1, 0)), ([], (0, 1))):
        report = report_of(outlines_of([square] * 4, instance=[0, 0, 1, 2], holes=holes), (9, 9))
        assert (report.outlines_with_holes, report.outlines_multi_part) == expected


def test_vertices_outside_are_those_left_of_above_or_not_before_the_far_edges():
    outlines = outlines_of([[(-0.5, 0), (8.5, 0), (9, 3)], [(0, 6), (1, 6.5), (2, 7)], [(0, 0), (1, 1), (2, 0)]])
    report = report_of(outlines, (7, 9))
    assert (report.outlines_outside, report.vertices_outside) == (2, 3)


# --- outlines of instances: right by shapely and scikit-image, and rasterising them gives the same pixels -------------


shapes = st.tuples(st.integers(1, 9), st.integers(1, 11))
noise = st.integers(1, 3).flatmap(lambda most: arrays(np.int32, shapes, elements=st.integers(0, most)))


@st.composite
def frames(draw) -> np.ndarray:
    """Frames inside of frames, of one or two instances, with some pixels changed."""
    labels = np.zeros(draw(st.tuples(st.integers(5, 13), st.integers(5, 13))), np.int32)
    for depth in range(0, min(labels.shape) // 2, draw(st.integers(1, 3))):
        inner = slice(depth, labels.shape[0] - depth), slice(depth, labels.shape[1] - depth)
        labels[inner] = 0 if depth % 2 else draw(st.integers(1, 2))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, labels.shape[0] - 1)), draw(st.integers(0, labels.shape[1] - 1))
        labels[place] = draw(st.integers(0, 2))
    return labels


label_maps = noise | frames()


def labels_of_picture(text: str) -> np.ndarray:
    return np.array([[int(c) if c.isdigit() else 0 for c in row.strip()] for row in text.strip().splitlines()])


def rasterised(outlines: Outlines, shape_yx) -> Instances:
    return rasterise_outlines(outlines, shape_yx, vertices="exact", origin="pixel_corner", vanished="error")


def polygons_of(outlines: Outlines) -> list[tuple[int, shapely.Polygon]]:
    """Instance and polygon of each outer ring, with the holes behind it."""
    found: list[tuple[int, np.ndarray, list[np.ndarray]]] = []
    for k, instance in enumerate(outlines.ring_instance.tolist()):
        ring = outlines.points_xy[outlines.ring_start[k] : outlines.ring_start[k + 1]]
        if outlines.ring_is_hole[k]:
            assert found[-1][0] == instance
            found[-1][2].append(ring)
        else:
            found.append((instance, ring, []))
    return [(instance, shapely.Polygon(ring, holes)) for instance, ring, holes in found]


@given(label_maps.map(instances_from_labels) | images(overlap=True).map(lambda side: instances_of(*side)))
def test_rasterising_the_outlines_of_instances_gives_them_back(instances):
    found = rasterised(trace_outlines(instances), instances.shape_yx)
    assert np.array_equal(masks_of(found), masks_of(instances))


@given(label_maps)
def test_polygons_are_valid_and_as_large_as_their_parts(labels):
    """Each polygon is one 4-connected part: its own pixels, no others, by area and by where they lie."""
    instances = instances_from_labels(labels)
    polygons = polygons_of(trace_outlines(instances))
    expected = []
    for index, value in enumerate(instances.source_id):
        parts = label(labels == value, connectivity=1)
        expected += [(index, parts == part) for part in range(1, parts.max() + 1)]
    assert [instance for instance, _ in polygons] == [instance for instance, _ in expected]
    assert shapely.is_valid([polygon for _, polygon in polygons]).all()
    y, x = np.indices(labels.shape) + 0.5
    for (_, traced), (_, mask) in zip(polygons, expected, strict=True):
        assert traced.area == mask.sum()
        assert np.array_equal(shapely.contains_xy(traced, x, y), mask)
        background = label(np.pad(~mask, 1, constant_values=True), connectivity=1)
        assert len(traced.interiors) == background.max() - 1


@given(label_maps)
def test_rings_have_corners_only_and_one_direction(labels):
    outlines = trace_outlines(instances_from_labels(labels))
    for k, is_hole in enumerate(outlines.ring_is_hole):
        ring = outlines.points_xy[outlines.ring_start[k] : outlines.ring_start[k + 1]]
        steps = np.roll(ring, -1, axis=0) - ring
        assert (np.count_nonzero(steps, axis=1) == 1).all()
        assert ((steps[:, 0] == 0) != (np.roll(steps, 1, axis=0)[:, 0] == 0)).all()  # every vertex is a turn
        assert shapely.LinearRing(ring).is_ccw != is_hole
        assert min(map(tuple, ring[:, ::-1])) == tuple(ring[0, ::-1])
        assert len(np.unique(ring, axis=0)) == len(ring)  # no ring touches itself


def rings_of_traced(text: str) -> list[tuple[bool, list[tuple[int, int]]]]:
    outlines = trace_outlines(instances_from_labels(labels_of_picture(text)))
    rings = [[(int(x), int(y)) for x, y in outlines.points_xy[a:b]] for a, b in pairwise(outlines.ring_start)]
    return list(zip(outlines.ring_is_hole.tolist(), rings, strict=True))


def test_a_pixel_is_a_square_between_pixel_corners_and_two_that_touch_at_a_corner_are_two_parts():
    assert rings_of_traced("...\n..1") == [(False, [(2, 1), (3, 1), (3, 2), (2, 2)])]
    squares = [[(0, 0), (1, 0), (1, 1), (0, 1)], [(1, 1), (2, 1), (2, 2), (1, 2)]]
    assert rings_of_traced("1.\n.1") == [(False, square) for square in squares]


NESTED = """
    1111111.
    1.....1.
    1.111.1.
    1.1.1.1.
    1.111.1.
    1.....1.
    1111111.
"""


def test_an_island_in_a_hole_comes_with_its_own_hole_after_the_hole():
    sizes = [(is_hole, len(ring), ring[0]) for is_hole, ring in rings_of_traced(NESTED)]
    assert sizes == [(False, 4, (0, 0)), (True, 4, (1, 1)), (False, 4, (2, 2)), (True, 4, (3, 3))]


def test_what_is_known_of_the_instances_stays_with_them():
    labels = labels_of_picture("2.7\n2.7")
    instances = replace(
        instances_from_labels(labels, [3, 1]),
        source_id=np.array(["b", "a"], object),
        probability=np.array([0.5, 1], np.float32),
    )
    outlines = trace_outlines(instances)
    assert outlines.class_id.tolist() == [3, 1]
    assert outlines.source_id.tolist() == ["b", "a"]
    assert outlines.probability is not None and outlines.probability.tolist() == [0.5, 1]


def test_points_and_instances_without_pixels_have_no_ring():
    outlines = trace_outlines(instances_from_labels(np.zeros((3, 4), int)))
    assert (len(outlines), outlines.points_xy.shape, outlines.ring_start.tolist()) == (0, (0, 2), [0])
    outlines = trace_outlines(points_of([(1.0, 2.0)], shape_yx=(5, 6)))
    assert (len(outlines), len(outlines.ring_instance)) == (1, 0)
    masks = np.zeros((3, 2, 4), bool)
    masks[0, 0, 0] = masks[2, 1, 3] = True
    assert trace_outlines(instances_of(masks, [1, 1, 1])).ring_instance.tolist() == [0, 2]


def test_a_long_border_is_followed_to_its_end():
    comb = np.zeros((60, 4001), int)
    comb[:, ::2] = 1
    comb[-1] = 1
    outlines = trace_outlines(instances_from_labels(comb))
    assert np.diff(outlines.ring_start).tolist() == [4 * 2001]
    assert shapely.Polygon(outlines.points_xy).area == comb.sum()
