"""What becomes of pixels that several outlines cover, and of ignore regions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from literal import centroid_pixel, instances_of, masks_of, points_of

from nuclei_metrics.instances.prepare import apply_ignore_region, highest_on_each, prepare_reference, resolve_overlaps
from nuclei_metrics.instances.runs import join_regions, union_region
from nuclei_metrics.model import Instances, Outlines, Region, arrays

RULES = ["keep", "last", "first", "smallest", "class_order", "ignore"]
SCOPES = ["image", "class"]
AS_DRAWN = {"overlap_scope": "image", "vanished": "drop", "vertices": "exact", "origin": "pixel_centre"}


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


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", RULES)
@given(heap=heaps(), at_once=st.sampled_from([1, 4, 1 << 18]))
def test_rules_do_what_painting_does_in_bands_of_rows_or_at_once(rule, scope, heap, at_once):
    masks, classes = heap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "RUNS_AT_ONCE", at_once)
        resolved = resolve_overlaps(instances_of(masks, classes), rule, scope)
    expected, ignored = paint(masks, classes, rule, scope)
    kept = expected.any(axis=(1, 2))

    assert np.array_equal(masks_of(resolved.instances), expected[kept])
    assert resolved.instances.source_id.tolist() == np.flatnonzero(kept).tolist()
    assert resolved.instances.class_id.tolist() == np.array(classes, int)[kept].tolist()
    assert np.array_equal(mask_of(resolved.ignored, masks.shape[1:]), ignored)
    assert np.array_equal(resolved.lost_whole, ~kept)
    assert np.array_equal(resolved.lost_pixels, kept & (expected.sum(axis=(1, 2)) < masks.sum(axis=(1, 2))))
    runs = list(zip(resolved.instances.run_start.tolist(), resolved.instances.run_instance.tolist(), strict=True))
    ends = set(zip(resolved.instances.run_stop.tolist(), resolved.instances.run_instance.tolist(), strict=True))
    assert [start for start, _ in runs] == sorted(start for start, _ in runs)
    assert not [run for run in runs if run in ends and run[0] % masks.shape[2]]  # no two of an instance touch
    cover = masks.sum(axis=0)
    assert np.array_equal(mask_of(resolved.contested, masks.shape[1:]), cover > 1)
    assert resolved.contested_px_by_cover == {int(n): int((cover == n).sum()) for n in np.unique(cover) if n > 1}


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


@pytest.mark.parametrize("masks, classes, rule, scope, expected", [
    (("##..", ".##."), (1, 1), "smallest", "image", ["#...", ".##."]),  # the last of two equally small ones
    (("##..", ".###"), (1, 1), "smallest", "image", ["##..", "..##"]),
    (("##..", ".##."), (2, 1), "class_order", "image", ["##..", "..#."]),
    (("##..", ".##."), (2, 1), "last", "class", ["##..", ".##."]),
    (("##..", ".##.", ".###"), (1, 1, 2), "ignore", "class", ["#...", "..#.", "..##"]),  # for other classes, too
])  # fmt: skip
def test_who_is_on_top(masks, classes, rule, scope, expected):
    assert shown(resolve_overlaps(row(*masks, classes=classes), rule, scope).instances) == expected


def test_an_outline_under_another_is_lost_whole():
    resolved = resolve_overlaps(row(".#..", "###."), "last", "image")
    assert (resolved.lost_whole.tolist(), resolved.lost_pixels.tolist()) == ([True, False], [False, False])


# --- ignore regions: what leaves, what stays. The oracle works on dense masks and fractions ---------------------------


@st.composite
def images_with_regions(draw):
    """Instances that may overlap, and a region, as masks."""
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    count = draw(st.integers(0, 4))
    bits = draw(st.lists(st.booleans(), min_size=(count + 1) * height * width, max_size=(count + 1) * height * width))
    masks = np.array(bits, bool).reshape(count + 1, height, width)
    masks = np.concatenate([masks[:1], masks[1:][masks[1:].any(axis=(1, 2))]])
    return masks[1:], masks[0]


def region_of(mask: np.ndarray) -> Region:
    return union_region(instances_of(mask[None], [1]))


def apply(masks, region, policy, fraction=None) -> tuple[list[int], np.ndarray]:
    """Which instances stay, and their masks."""
    left = apply_ignore_region(instances_of(masks, [1] * len(masks)), region_of(region), policy, fraction)
    return left.source_id.tolist(), masks_of(left)


@given(images_with_regions(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.6, 0.75, 1.0]))
def test_ignore_policies_equal_their_definitions(image, fraction):
    """Clip takes the pixels inside; the others nuclei with more than the fraction, or with their centroid, inside."""
    masks, region = image
    clipped = masks & ~region
    limit = Fraction(str(fraction)).limit_denominator(10**9)
    with_less, beside = [], []
    for index, mask in enumerate(masks):
        with_less += [index] if Fraction(int((mask & region).sum()), int(mask.sum())) <= limit else []
        beside += [] if region[centroid_pixel(mask)] else [index]
    for policy, kept, left in (
        ("clip", np.flatnonzero(clipped.any(axis=(1, 2))).tolist(), clipped),
        ("drop_overlapping", with_less, masks),
        ("drop_centroid", beside, masks),
    ):
        ids, found = apply(masks, region, policy, fraction if policy == "drop_overlapping" else None)
        assert ids == kept, policy
        assert np.array_equal(found, left[kept]), policy


def test_exactly_the_fraction_is_not_more_than_the_fraction():
    """0.29 * 100 is 28.999999999999996 in floating point."""
    for inside, kept in ((28, [0]), (29, [0]), (30, [])):
        masks, region = np.ones((1, 1, 100), bool), np.zeros((1, 100), bool)
        region[0, :inside] = True
        assert apply(masks, region, "drop_overlapping", 0.29)[0] == kept
    with pytest.raises(ValueError, match="fraction"):
        apply(masks, region, "drop_overlapping")


def test_an_empty_region_changes_nothing():
    for policy in ("clip", "drop_overlapping", "drop_centroid", "drop_unmatched"):
        assert apply(np.ones((2, 2, 3), bool), np.zeros((2, 3), bool), policy, 0.5)[0] == [0, 1]


def test_joined_regions_have_each_pixel_once():
    first, second = (np.array([[1, 1, 0, 0]], bool), np.array([[0, 1, 1, 0]], bool))
    joined = join_regions([region_of(first), region_of(second)], 4)
    assert (joined.run_start.tolist(), joined.run_stop.tolist()) == ([0], [3])


# --- in a reference --------------------------------------------------------------------------------------------------


def squares(*corners_and_classes) -> Outlines:
    """Squares of 3 x 3 pixels: (left, top, class)."""
    points = [
        (left + dx, top + dy) for left, top, _ in corners_and_classes for dx, dy in ((0, 0), (2, 0), (2, 2), (0, 2))
    ]
    count = len(corners_and_classes)
    return Outlines(
        points_xy=np.array(points, float).reshape(-1, 2),
        ring_start=np.arange(count + 1) * 4,
        ring_instance=np.arange(count, dtype=np.int32),
        ring_is_hole=np.zeros(count, bool),
        class_id=np.array([c for _, _, c in corners_and_classes], np.int16),
        source_id=np.array([f"1/{i}" for i in range(count)], object),
    )


def prepare(outlines: Outlines, **rules):
    return prepare_reference([outlines], (6, 8), **{**AS_DRAWN, "overlap": "last", "ignore_policy": "clip", **rules})


def areas(instances: Instances) -> dict[str, int]:
    return dict(zip(instances.source_id, instances.areas_px().tolist(), strict=True))


@pytest.mark.parametrize("drawn, rules, left, ignored, contested", [
    (squares((0, 0, 1), (4, 0, -1), (5, 0, -2)), {}, {"1/0": 9}, 12, 0),  # a region and no instances
    (squares((0, 0, 1), (2, 2, -1)), {"ignore_policy": "drop_centroid"}, {"1/0": 9}, 9, 0),  # which contests nothing
    (squares((0, 0, 1), (1, 1, -1), (1, 1, 1)), {}, {"1/0": 5}, 9, 4),  # clip takes its pixels from the reference
    (squares((0, 0, 1), (2, 2, 1), (5, 3, -1)), {"overlap": "ignore", "ignore_policy": "drop_centroid"},
     {"1/0": 8, "1/1": 8}, 1 + 9, 1),  # contested pixels join it
])  # fmt: skip
def test_outlines_of_ignore_classes_are_a_region(drawn, rules, left, ignored, contested):
    prepared = prepare(drawn, **rules)
    number = int((drawn.class_id < 0).sum())
    assert (areas(prepared.instances), prepared.ignore.area_px()) == (left, ignored)
    report = prepared.report
    assert (report.outlines, report.ignore_outlines, report.contested_px) == (len(drawn) - number, number, contested)


def test_outlines_hidden_by_the_overlap_rule_are_lost_whole_and_others_lose_pixels():
    report = prepare(squares((0, 0, 1), (4, 0, 1), (0, 0, 2), (5, 1, 1))).report
    assert report.outlines_lost_whole == ("1/0",)
    assert report.outlines_that_lost_pixels == 1


def test_the_vanished_rule_reaches_ignore_regions_too():
    point = squares((3, 3, -1))
    outside = squares((20, 20, -1))
    assert prepare(point).ignore.area_px() == 9
    assert prepare(outside).ignore.area_px() == 0
    assert prepare(outside).report.outlines_vanished == ("1/0",)


def test_a_point_lies_in_the_pixel_whose_centre_is_nearest():
    """The region is the pixel in row 2 and column 3 of an image of 5 x 7 px."""
    region = Region(np.array([2 * 7 + 3]), np.array([2 * 7 + 4]))
    for y, x, left in [(1.6, 2.6, 0), (1.4, 2.6, 1), (1.6, 2.4, 1), (2.4, 3.4, 0), (2.6, 3.4, 1)]:
        assert len(apply_ignore_region(points_of([(y, x)], shape_yx=(5, 7)), region, "clip")) == left
