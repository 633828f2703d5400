"""Run-length codes: pycocotools and a literal decoding, pixel by pixel, are the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from endless import not_endless
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as coco_mask

from evaluation.files.formats import run_lengths
from evaluation.files.formats.run_lengths import instances_of_codes, runs_of_counts, runs_of_pairs
from evaluation.findings import catalogue
from evaluation.findings.errors import InputFault
from nuclei_metrics.model import Instances
from nuclei_metrics.model.arrays import merge_runs, outside

MASKS = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=3, max_dims=3, max_side=9), elements=st.integers(0, 1))


def place(code: int) -> str:
    return f"'a.csv', line {code + 2}"


def convert(runs, shape_yx, pixel_order, instances=None) -> Instances:
    count = instances or int(runs.instance.max(initial=-1)) + 1
    return instances_of_codes(
        runs,
        shape_yx=shape_yx,
        pixel_order=pixel_order,
        class_id=np.ones(count, np.int16),
        source_id=np.arange(count),
        probability=None,
        where="'a.json'",
    )


def painted(instances: Instances, count: int) -> np.ndarray:
    """The number of runs on each pixel, (N, H, W)."""
    height, width = instances.shape_yx
    canvas = np.zeros((count, height * width), int)
    for start, stop, instance in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
        canvas[instance, start:stop] += 1
    return canvas.reshape(count, height, width)


def check_model_form(instances: Instances, masks: np.ndarray) -> None:
    width = instances.shape_yx[1]
    assert (painted(instances, len(masks)) == masks).all()
    assert (np.diff(instances.run_start) >= 0).all()
    assert (instances.run_start // width == (instances.run_stop - 1) // width).all()
    begins = (np.diff(masks.astype(int), axis=2, prepend=0) == 1).sum(axis=(1, 2))  # joined runs are as few as possible
    assert np.bincount(instances.run_instance, minlength=len(masks)).tolist() == begins.tolist()


def fault_of(read, *args, **options) -> list[str]:
    with pytest.raises(InputFault) as fault:
        read(*args, **options)
    return [str(finding) for finding in fault.value.findings]


# --- COCO's counts ----------------------------------------------------------------------------------------------------


def compressed(mask: np.ndarray) -> str:
    return coco_mask.encode(np.asfortranarray(mask))["counts"].decode()


def counted(mask: np.ndarray) -> list[int]:
    """Lengths of background and nucleus in turn, down the columns, one pixel after the other."""
    counts, value = [0], 0
    for pixel in mask.ravel(order="F").tolist():
        if pixel != value:
            counts.append(0)
            value = pixel
        counts[-1] += 1
    return counts


@given(MASKS)
def test_codes_of_pycocotools_and_lists_beside_them_give_their_masks(masks):
    codes = [compressed(mask) if index % 2 else counted(mask) for index, mask in enumerate(masks)]
    for mixed in (codes, [compressed(mask) for mask in masks]):
        runs = runs_of_counts(mixed, place, pixels=masks[0].size)
        check_model_form(convert(runs, masks.shape[1:], "column", len(masks)), masks)


def test_a_code_of_huge_counts_is_decoded_as_pycocotools_decodes_it():
    counts = [123_456_789, 40_000, 3_000_000_000, 1, 2, 987_654_321, 0]
    size = [sum(counts), 1]
    string = coco_mask.frPyObjects({"size": size, "counts": counts}, *size)["counts"].decode()
    runs = runs_of_counts([string], place, pixels=size[0])
    assert runs.start.tolist() == [123_456_789, 3_123_496_789, 3_123_496_792]
    assert runs.length.tolist() == [40_000, 1, 987_654_321]


def test_codes_of_images_of_different_sizes_are_read_together_and_in_batches(monkeypatch):
    runs = runs_of_counts([[1, 2], [0, 5]], place, pixels=np.array([3, 5]))
    assert (runs.start.tolist(), runs.length.tolist()) == ([1, 0], [2, 5])
    masks = (np.random.default_rng(5).random((40, 7, 6)) < 0.4).astype(np.uint8)
    monkeypatch.setattr(run_lengths, "BATCH_CHARACTERS", 30)
    monkeypatch.setattr(run_lengths, "BATCH_RUNS", 9)
    found = convert(runs_of_counts([compressed(mask) for mask in masks], place, pixels=42), (7, 6), "column")
    check_model_form(found, masks)


NO_NUMBER, NO_CODE = "a count that is not a whole number", "a string that is not a compressed code"


@pytest.mark.parametrize("code, got", [
    ([1, 2], "counts that add up to 3, not 6"), ([], "counts that add up to 0, not 6"),
    ("", "counts that add up to 0, not 6"), ([1, -1, 6], "a count of -1"), ([0, 7], "a count of 7"),
    ([0, 6.0], NO_NUMBER), ([0, "6"], NO_NUMBER), ([True, 5], NO_NUMBER), ([0, 1 << 63], NO_NUMBER),
    ([[0], 6], NO_NUMBER), ("06\n", NO_CODE), ("06é", NO_CODE),
    ("0V", NO_CODE),  # the last character says that more follow
    ("0" + "P" * 7 + "1", NO_CODE),  # 40 bits
    ("p0", NO_CODE),  # beyond the last character
    ("0O7", "a count of -1"),
])  # fmt: skip
def test_wrong_counts_are_told_and_right_ones_beside_them_are_not(code, got):
    assert fault_of(runs_of_counts, [[0, 6], code, "06"], place, pixels=6) == [
        f"[invalid-rle] 'a.csv', line 3: {got}; expected counts of background and nucleus in turn that add up to the "
        "pixels of the image. Check the pixel order, the index of the first pixel and the image size."
    ]


# --- pairs ------------------------------------------------------------------------------------------------------------


def paired(mask: np.ndarray, order: str, first_pixel: int) -> str:
    flat = mask.ravel(order="C" if order == "row" else "F")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat, [0]]).astype(int)))
    return " ".join(f"{start + first_pixel} {stop - start}" for start, stop in edges.reshape(-1, 2))


@given(MASKS, st.sampled_from(["row", "column"]), st.sampled_from([0, 1]), st.randoms())
def test_pairs_give_their_masks_in_whatever_order_and_however_cut(masks, order, first_pixel, random):
    codes, cut = [paired(mask, order, first_pixel) for mask in masks], []
    for mask in masks:
        flat = mask.ravel(order="C" if order == "row" else "F")
        pixels = [f"{pixel + first_pixel} 1" for pixel in np.flatnonzero(flat).tolist()]
        random.shuffle(pixels)
        cut.append("\t ".join(pixels))
    for written in (codes, cut):
        runs = runs_of_pairs(written, place, pixels=masks[0].size, first_pixel=first_pixel)
        check_model_form(convert(runs, masks.shape[1:], order, len(masks)), masks)


@pytest.mark.parametrize("code, got", [
    ("1 2 3", "an odd number of numbers (3)"), ("0 2", "the start 0"), ("-3 2", "the start -3"),
    ("1 0", "the length 0"), ("1 -1", "the length -1"), ("20 2", "a run to pixel 21"), ("21 1", "a run to pixel 21"),
    ("1 999999999999999999", "a run to pixel 999,999,999,999,999,999"), ("8 3 2 7", "two runs that contain pixel 8"),
    *((f"1 {word}", f"'{word}' is not a whole number of at most 18 digits")
      for word in ("x", "2.0", "1_0", "1234567890123456789", "2,3", "٣")),
])  # fmt: skip
def test_wrong_pairs_are_told_with_their_place(code, got):
    (line,) = fault_of(runs_of_pairs, ["1 20", code, "3 1 4 1"], place, pixels=20, first_pixel=1)
    assert line.startswith(f"[invalid-rle] 'a.csv', line 3: {got}; expected pairs of start (from 1) and length")


def test_the_last_pixel_is_the_number_of_pixels_if_the_first_is_1_else_one_less():
    assert runs_of_pairs(["20 1"], place, pixels=20, first_pixel=1).start.tolist() == [19]
    assert fault_of(runs_of_pairs, ["20 1"], place, pixels=20, first_pixel=0)


def test_twenty_codes_are_named_and_the_others_counted():
    with pytest.raises(InputFault) as fault:
        runs_of_pairs(["7"] * 50, place, pixels=20, first_pixel=1)
    assert len(fault.value.findings) == 20
    assert sum(finding.count for finding in fault.value.findings) == 50


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_small_codes_of_huge_areas_are_refused_at_once():
    runs = runs_of_counts([[0, 4_000_000_000]] * 3, place, pixels=4_000_000_000)
    shape = (4_000_000_000 // 100, 100)
    for order in ("row", "column"):
        with not_endless():
            (line,) = fault_of(convert, runs, shape, order)
        assert line == catalogue()["too-complex-runs"].example.replace("'codes.csv', case 'case_017'", "'a.json'")


def test_the_cost_of_a_column_code_goes_with_rows_not_with_pixels():
    shape = (1000, 4_000_000)
    runs = runs_of_counts([[1000, 3_999_998_000, 1000]] * 100, place, pixels=4_000_000_000)
    instances = convert(runs, shape, "column")
    assert len(instances.run_start) == 100_000
    assert (instances.run_start[0], instances.run_stop[0]) == (1, 3_999_999)


# --- intervals --------------------------------------------------------------------------------------------------------


@given(*[st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=8)] * 2)
def test_merged_intervals_and_what_lies_outside_of_others_hold_the_integers_of_sets(first, second):
    sets, merged = [], []
    for runs in (first, second):
        sets.append({pixel for start, length in runs for pixel in range(start, start + length)})
        start = np.array([start for start, _ in runs], np.int64)
        merged.append(merge_runs(start, start + np.array([length for _, length in runs], np.int64)))
    left = outside(*merged[0], *merged[1])
    for (start, stop), expected in ((merged[0], sets[0]), (left, sets[0] - sets[1])):
        found = [pixel for a, b in zip(start, stop, strict=True) for pixel in range(a, b)]
        assert found == sorted(expected)
        assert (start < stop).all()
