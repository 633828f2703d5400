"""Who keeps contested pixels. The oracle paints dense masks, one outline after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import instances_of, masks_of
from skimage.draw import polygon
from xml_files import CASE, xml_request

from evaluation.formats.annotation_xml import read_aperio_xml
from evaluation.instances.overlap import highest_on_each, resolve_overlaps
from evaluation.instances.prepare import prepare_reference
from evaluation.model import Instances, Region

RULES = ["keep", "last", "first", "smallest", "class_order", "ignore"]
SCOPES = ["image", "class"]


@st.composite
def heaps(draw):
    """Up to seven rectangles with up to three classes, so that three and more often lie on a pixel."""
    height, width = draw(st.integers(1, 7)), draw(st.integers(1, 8))
    count = draw(st.integers(0, 7))
    masks = np.zeros((count, height, width), bool)
    for mask in masks:
        top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
        mask[top : draw(st.integers(top + 1, height)), left : draw(st.integers(left + 1, width))] = True
        mask[draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))] = True
    return masks, draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))


def painting_order(masks: np.ndarray, classes: list[int], rule: str) -> list[int]:
    """Who is painted first, …, last."""
    order = list(range(len(masks)))
    if rule == "first":
        return order[::-1]
    if rule == "smallest":
        return sorted(order, key=lambda index: -masks[index].sum())
    if rule == "class_order":
        return sorted(order, key=lambda index: classes[index])
    return order


def paint(masks: np.ndarray, classes: list[int], rule: str, scope: str) -> tuple[np.ndarray, np.ndarray]:
    """The masks after the rule, and the ignored pixels."""
    result, ignored = masks.copy(), np.zeros(masks.shape[1:], bool)
    groups = (
        [set(range(len(masks)))]
        if scope == "image"
        else [{index for index, other in enumerate(classes) if other == one} for one in set(classes)]
    )
    for group in groups:
        mine = sorted(group)
        if rule == "ignore":
            ignored |= masks[mine].sum(axis=0) > 1
        elif rule != "keep":
            canvas = np.full(masks.shape[1:], -1)
            for index in painting_order(masks, classes, rule):
                if index in group:
                    canvas[masks[index]] = index
            for index in mine:
                result[index] = canvas == index
    return result & ~ignored, ignored


def mask_of(region: Region, shape_yx) -> np.ndarray:
    mask = np.zeros(shape_yx[0] * shape_yx[1], int)
    for start, stop in zip(region.run_start, region.run_stop, strict=True):
        assert start // shape_yx[1] == (stop - 1) // shape_yx[1]
        mask[start:stop] += 1
    assert mask.max(initial=0) <= 1
    return mask.reshape(shape_yx).astype(bool)


def assert_tidy(instances: Instances) -> None:
    """Runs are sorted, and no two of an instance touch inside a row."""
    runs = list(zip(instances.run_start.tolist(), instances.run_instance.tolist(), strict=True))
    assert instances.run_start.tolist() == sorted(instances.run_start.tolist())
    ends = set(zip(instances.run_stop.tolist(), instances.run_instance.tolist(), strict=True))
    assert not [run for run in runs if run in ends and run[0] % instances.shape_yx[1]]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", RULES)
@given(heap=heaps())
def test_rules_do_what_painting_does(rule, scope, heap):
    masks, classes = heap
    instances = instances_of(masks, classes)
    resolved = resolve_overlaps(instances, rule, scope)
    expected, ignored = paint(masks, classes, rule, scope)
    kept = expected.any(axis=(1, 2))

    assert np.array_equal(masks_of(resolved.instances), expected[kept])
    assert resolved.instances.source_id.tolist() == np.flatnonzero(kept).tolist()
    assert resolved.instances.class_id.tolist() == np.array(classes, int)[kept].tolist()
    assert np.array_equal(mask_of(resolved.ignored, masks.shape[1:]), ignored)
    assert np.array_equal(resolved.lost_whole, ~kept)
    assert np.array_equal(resolved.lost_pixels, kept & (expected.sum(axis=(1, 2)) < masks.sum(axis=(1, 2))))
    assert_tidy(resolved.instances)


@given(heap=heaps(), rule=st.sampled_from(RULES), scope=st.sampled_from(SCOPES))
def test_contested_pixels_are_those_under_two_outlines_whatever_the_rule(heap, rule, scope):
    masks, classes = heap
    resolved = resolve_overlaps(instances_of(masks, classes), rule, scope)
    cover = masks.sum(axis=0)
    assert np.array_equal(mask_of(resolved.contested, masks.shape[1:]), cover > 1)
    expected = {int(n): int((cover == n).sum()) for n in np.unique(cover) if n > 1}
    assert resolved.contested_px_by_cover == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_highest_value_on_each_stretch_is_that_of_a_loop(intervals):
    first = np.array([begin for begin, *_ in intervals])
    stop = np.array([begin + length for begin, length, _ in intervals])
    value = np.array([value for *_, value in intervals])
    expected = [max([v for b, n, v in intervals if b <= place < b + n], default=-1) for place in range(80)]
    assert highest_on_each(first, stop, value, 80).tolist() == expected


def row(*masks: str, classes=None) -> Instances:
    """Outlines on an image of one row, '#' where they are."""
    dense = np.array([[[pixel == "#" for pixel in mask]] for mask in masks])
    return instances_of(dense, [1] * len(masks) if classes is None else classes)


def shown(instances: Instances) -> list[str]:
    return ["".join(".#"[pixel] for pixel in mask[0].astype(int)) for mask in masks_of(instances)]


def test_the_last_of_two_equally_small_outlines_is_on_top():
    assert shown(resolve_overlaps(row("##..", ".##."), "smallest", "image").instances) == ["#...", ".##."]


def test_the_smaller_area_wins_also_if_it_comes_first():
    assert shown(resolve_overlaps(row("##..", ".###"), "smallest", "image").instances) == ["##..", "..##"]


def test_the_later_class_wins_also_if_it_comes_first():
    overlapping = row("##..", ".##.", classes=[2, 1])
    assert shown(resolve_overlaps(overlapping, "class_order", "image").instances) == ["##..", "..#."]


def test_outlines_of_other_classes_do_not_contest_inside_a_class():
    overlapping = row("##..", ".##.", classes=[2, 1])
    assert shown(resolve_overlaps(overlapping, "last", "class").instances) == ["##..", ".##."]


def test_an_outline_under_another_is_lost_whole():
    resolved = resolve_overlaps(row(".#..", "###."), "last", "image")
    assert (resolved.lost_whole.tolist(), resolved.lost_pixels.tolist()) == ([True, False], [False, False])


def test_pixels_contested_inside_a_class_leave_the_other_classes_too_when_ignored():
    resolved = resolve_overlaps(row("##..", ".##.", ".###", classes=[1, 1, 2]), "ignore", "class")
    assert shown(resolved.instances) == ["#...", "..#.", "..##"]


# --- a real file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vertices", ["exact", "truncate"])
@pytest.mark.parametrize("rule", RULES)
def test_label_maps_of_a_real_file_are_those_painted_with_skimage(shared_data, rule, vertices):
    with (shared_data / "monuseg" / "TCGA-50-5931-01Z-00-DX1.xml.gz").open("rb") as stream:
        (outlines,) = read_aperio_xml(stream, xml_request({"": 1}), CASE).parts
    prepared = prepare_reference(
        [outlines],
        (1000, 1000),
        overlap=rule,
        overlap_scope="image",
        vanished="drop",
        vertices=vertices,
        origin="pixel_centre",
        ignore_policy="clip",
    )
    points = np.trunc(outlines.points_xy) if vertices == "truncate" else outlines.points_xy
    rings = np.split(points, outlines.ring_start[1:-1])
    pixels = [polygon(ring[:, 1], ring[:, 0], (1000, 1000)) for ring in rings]
    order = {"first": range(len(rings))[::-1], "smallest": sorted(range(len(rings)), key=lambda k: -len(pixels[k][0]))}
    canvas, cover = np.zeros((1000, 1000), int), np.zeros((1000, 1000), int)
    for index in order.get(rule, range(len(rings))):
        canvas[pixels[index]] = index + 1
        cover[pixels[index]] += 1
    if rule == "ignore":
        canvas[cover > 1] = 0
        assert np.array_equal(mask_of(prepared.ignore, (1000, 1000)), cover > 1)
    label = {source: index + 1 for index, source in enumerate(outlines.source_id)}
    if rule == "keep":
        assert prepared.instances.areas_px().tolist() == [len(r) for r, _ in pixels if len(r)]
    else:
        drawn = np.zeros(1_000_000, int)
        instances = prepared.instances
        for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
            drawn[start:stop] = label[instances.source_id[index]]
        assert np.array_equal(drawn.reshape(1000, 1000), canvas)
    assert (cover > 1).sum() == prepared.report.contested_px
