"""Regions of masks, planes as runs and changed outlines, against scipy and scikit-image."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endless import memory_below
from every_format import VALUES, challenge_document, write_both
from formats import picture
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import ndimage
from test_runs import planes

from evaluation.challenge import LimitRules, format_rules
from evaluation.files.decoding.label_array import label_components
from evaluation.files.formats.format import Request
from evaluation.files.formats.label_image import read_label_image
from evaluation.findings.errors import InputFault
from evaluation.scoring.street import score_submission
from nuclei_metrics.instances.runs import instances_from_label_image
from nuclei_metrics.model import Case, ClassTable
from nuclei_metrics.model import arrays as model_arrays
from nuclei_metrics.model.annotations import count_regions, present_labels, runs_of, runs_of_bands, split_labels

# --- binary and semantic masks become nuclei by connected components --------------------------------------------------


MASK = np.zeros((12, 17), np.uint8)
MASK[1:4, 2:5] = 1
MASK[4:6, 5:8] = 1  # touches the one above by a corner
MASK[1:4, 5:7] = 2  # another class, beside the first
MASK[8, 15] = 2
TWO = ClassTable(("tumour", "stroma"), {"tumour": 1, "stroma": 2}, {1: 1, 2: 2})


ONE = ClassTable(("nucleus",), {"nucleus": 1})


def read(mask: Any, classes: ClassTable = ONE, **rules: Any) -> Any:
    stream = io.BytesIO()
    np.save(stream, mask)
    asked = Request(
        where="'a.npy'",
        name="a.npy",
        rules=format_rules(format="label_image", files="{case}.npy", **rules),
        classes=classes,
        limits=LimitRules(),
    )
    return read_label_image(stream, asked, Case("a", "a", *mask.shape))


@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 2)))
def test_components_are_those_of_scipy(mask: Any) -> None:
    for connectivity, structure in ((4, ndimage.generate_binary_structure(2, 1)), (8, np.ones((3, 3)))):
        labels, _ = label_components(runs_of(mask), connectivity, where="", bytes_limit=10**6)
        found = picture(labels)
        expected = sum(ndimage.label(mask == value, structure)[1] for value in (1, 2))
        assert len(np.unique(found[found > 0])) == expected == found.max(initial=0)
        for number in range(1, expected + 1):
            inside = found == number
            assert len(np.unique(mask[inside])) == 1
            assert ndimage.label(inside, structure)[1] == 1
        np.testing.assert_array_equal(found > 0, mask > 0)


@pytest.mark.parametrize(("connectivity", "nuclei"), [(4, 4), (8, 3)])
def test_a_semantic_mask_has_the_classes_of_its_values(connectivity: int, nuclei: int) -> None:
    said = read(MASK, TWO, components=connectivity, class_values={"tumour": 1, "stroma": 2})
    instances = instances_from_label_image(said.parts[0])
    assert sorted(instances.class_id.tolist()) == sorted([1] * (nuclei - 2) + [2, 2])
    assert int(instances.areas_px().sum()) == int((MASK > 0).sum())
    assert [finding.code for finding in said.findings] == ["components"]


def test_a_binary_mask_of_one_class_needs_no_values_and_is_no_single_nucleus() -> None:
    for components, nuclei in ((8, 1), (4, 2)):
        said = read((MASK == 1) * np.uint8(255), components=components)
        instances = instances_from_label_image(said.parts[0])
        assert instances.class_id.tolist() == [1] * nuclei
    assert said.findings[0].got == (
        "2 regions of touching pixels, each a nucleus; 1 if corners touched, 0 of one pixel"
    )
    said = read(np.zeros((4, 5), np.uint8), components=4)
    assert (len(instances_from_label_image(said.parts[0])), said.findings) == (0, ())


def test_a_value_that_is_no_class_and_a_mask_that_is_too_large_are_refused() -> None:
    with pytest.raises(InputFault, match="unknown-class-value"):
        read(MASK + (MASK == 2), TWO, components=4, class_values={"tumour": 1, "stroma": 2})
    with pytest.raises(InputFault, match="too-large"):
        label_components(runs_of(MASK), 4, where="", bytes_limit=1000)


@pytest.mark.parametrize(
    "rules", [{"components": 6}, {"components": 4, "class_map": "{case}_class.npy", "class_values": {"tumour": 1}}]
)
def test_rules_that_contradict_components_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="components"):
        format_rules(format="label_image", files="{case}.npy", **rules)


@pytest.mark.parametrize("side", [
    {"files": "{case}.png", "components": 4, "class_values": VALUES},
    {"files": "{case}.tif", "components": 8, "class_values": VALUES},
    {"files": "{case}/{class}.png", "components": 8},
    {"files": "{case}/{class}.nii.gz"},
    {"files": "{case}.nrrd", "class_map": "{case}_class.nii", "class_values": VALUES},
])  # fmt: skip
def test_the_example_of_a_challenge_is_scored_as_perfect(side: dict[str, Any], tmp_path: Path) -> None:
    document = challenge_document("label_image by class")
    document["submission"] = {key: document["submission"][key] for key in ("missing_case", "missing_class_file")}
    document["submission"] |= {"format": "label_image", **side}
    document["reference"] |= {"files": "reference/{case}/{class}.tif"}
    result = score_submission(*write_both(document, tmp_path), workers=1)
    assert result.value("detection.f1.pooled") == 1.0
    assert result.value("classification.accuracy.pooled") == 1.0


@given(planes, st.lists(st.integers(0, 7), max_size=3))
def test_a_plane_in_bands_has_the_runs_of_the_plane(plane, cuts):
    edges = sorted({0, len(plane), *(cut for cut in cuts if cut < len(plane))})
    bands = [plane[first:last] for first, last in pairwise(edges)]
    whole, in_bands = runs_of(plane), runs_of_bands(iter(bands), plane.shape)
    for name in ("start", "stop", "value"):
        np.testing.assert_array_equal(getattr(in_bands, name), getattr(whole, name))
    np.testing.assert_array_equal(picture(whole), plane)
    assert present_labels(whole) == sorted({int(value) for value in plane.flat} - {0})


def test_counting_regions_takes_the_memory_of_some_rows(monkeypatch):
    """A chequered image has as many runs as there can be, in one region."""
    runs = runs_of(np.indices((1500, 1000)).sum(axis=0) % 2)
    monkeypatch.setattr(model_arrays, "RUNS_AT_ONCE", 1 << 16)
    with memory_below(40 * len(runs.start)):  # 200 bytes a run if all rows are looked at in one go
        assert count_regions(runs) == 1


@given(planes)
def test_labels_that_are_left_out_become_background(plane):
    kept, left_out = map(picture, split_labels(runs_of(plane), [1, 9]))
    is_left_out = np.isin(plane, [1, 9])
    np.testing.assert_array_equal(kept, np.where(is_left_out, 0, plane))
    np.testing.assert_array_equal(left_out, np.where(is_left_out, plane, 0))
