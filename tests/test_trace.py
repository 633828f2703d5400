"""Outlines of instances: right by shapely and scikit-image, and rasterising them gives the same pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from literal import images, instances_of, masks_of
from skimage.measure import label

from evaluation.instances.labels import instances_from_labels
from evaluation.instances.outlines import trace_outlines
from evaluation.instances.prepare import instances_from_points
from evaluation.instances.rasterise import rasterise_outlines
from evaluation.model import Instances, Outlines, Points

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


def picture(text: str) -> np.ndarray:
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


def assert_same_pixels(found: Instances, expected: Instances) -> None:
    assert np.array_equal(masks_of(found), masks_of(expected))


@given(label_maps)
def test_rasterising_the_outlines_of_a_label_map_gives_it_back(labels):
    instances = instances_from_labels(labels)
    assert_same_pixels(rasterised(trace_outlines(instances), labels.shape), instances)


@given(images(overlap=True))
def test_rasterising_the_outlines_of_overlapping_instances_gives_them_back(side):
    instances = instances_of(*side)
    assert_same_pixels(rasterised(trace_outlines(instances), instances.shape_yx), instances)


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
    for (_, polygon), (_, mask) in zip(polygons, expected, strict=True):
        assert polygon.area == mask.sum()
        assert np.array_equal(shapely.contains_xy(polygon, x, y), mask)
        background = label(np.pad(~mask, 1, constant_values=True), connectivity=1)
        assert len(polygon.interiors) == background.max() - 1


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


def rings_of(text: str) -> list[tuple[bool, list[tuple[int, int]]]]:
    outlines = trace_outlines(instances_from_labels(picture(text)))
    return [
        (bool(is_hole), [(int(x), int(y)) for x, y in outlines.points_xy[start:stop]])
        for is_hole, start, stop in zip(
            outlines.ring_is_hole, outlines.ring_start[:-1], outlines.ring_start[1:], strict=True
        )
    ]


def test_a_pixel_is_a_square_between_pixel_corners():
    assert rings_of("...\n..1") == [(False, [(2, 1), (3, 1), (3, 2), (2, 2)])]


def test_pixels_that_touch_at_a_corner_are_two_parts():
    assert rings_of("1.\n.1") == [(False, [(0, 0), (1, 0), (1, 1), (0, 1)]), (False, [(1, 1), (2, 1), (2, 2), (1, 2)])]


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
    sizes = [(is_hole, len(ring), ring[0]) for is_hole, ring in rings_of(NESTED)]
    assert sizes == [(False, 4, (0, 0)), (True, 4, (1, 1)), (False, 4, (2, 2)), (True, 4, (3, 3))]


def test_what_is_known_of_the_instances_stays_with_them():
    labels = picture("2.7\n2.7")
    instances = replace(
        instances_from_labels(labels, [3, 1]),
        source_id=np.array(["b", "a"], object),
        probability=np.array([0.5, 1], np.float32),
    )
    outlines = trace_outlines(instances)
    assert outlines.class_id.tolist() == [3, 1]
    assert outlines.source_id.tolist() == ["b", "a"]
    assert outlines.probability is not None and outlines.probability.tolist() == [0.5, 1]


def test_an_image_without_instances_has_no_outlines():
    outlines = trace_outlines(instances_from_labels(np.zeros((3, 4), int)))
    assert (len(outlines), outlines.points_xy.shape, outlines.ring_start.tolist()) == (0, (0, 2), [0])


def test_points_and_instances_without_pixels_have_no_ring():
    points = Points(np.array([[1.0, 2.0]]), np.ones(1, np.int16), np.array(["p"], object))
    outlines = trace_outlines(instances_from_points(points, (5, 6), origin="pixel_centre"))
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


def assert_area_is_that_of_the_pixels(outlines: Outlines, instances: Instances) -> None:
    ring = np.repeat(np.arange(len(outlines.ring_instance)), np.diff(outlines.ring_start))
    area = shapely.area(shapely.polygons(shapely.linearrings(outlines.points_xy, indices=ring)))
    signed = np.where(outlines.ring_is_hole, -area, area)
    assert np.array_equal(np.bincount(outlines.ring_instance, signed, len(instances)), instances.areas_px())


@pytest.mark.parametrize("folder", ["stardist", "neurips_cellseg"])
def test_real_label_maps_come_back(shared_data, folder):
    import tifffile

    paths = sorted(path for path in (shared_data / folder).rglob("*.tif*"))
    maps = [tifffile.imread(path) for path in paths]
    maps = [labels for labels in maps if labels.ndim == 2 and labels.dtype.kind in "iu"]
    assert maps
    for labels in maps:
        instances = instances_from_labels(labels)
        outlines = trace_outlines(instances)
        assert_area_is_that_of_the_pixels(outlines, instances)
        found = rasterised(outlines, labels.shape)
        for name in ("run_start", "run_stop", "run_instance"):
            assert np.array_equal(getattr(found, name), getattr(instances, name))
