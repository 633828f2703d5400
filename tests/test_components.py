"""Binary and semantic masks become nuclei by connected components, as scipy.ndimage finds them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import CASES, VALUES, challenge_document, toml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from label_pictures import picture
from scipy import ndimage

from evaluation.authoring.examples import example_files
from evaluation.challenge import Challenge, LimitRules, format_rules
from evaluation.decoding.label_array import label_components
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.label_image import read_label_image
from evaluation.instances.labels import instances_from_label_image
from evaluation.model import Case, ClassTable
from evaluation.model.label_runs import runs_of
from evaluation.scoring.street import score_submission

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


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 2)))
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
    said = read((MASK == 1) * np.uint8(255), components=8)
    assert len(instances_from_label_image(said.parts[0])) == 1
    said = read((MASK == 1) * np.uint8(255), components=4)
    instances = instances_from_label_image(said.parts[0])
    assert (len(instances), instances.class_id.tolist()) == (2, [1, 1])
    assert said.findings[0].got == (
        "2 regions of touching pixels, each a nucleus; 1 if corners touched, 0 of one pixel"
    )


def test_a_value_that_is_no_class_is_told() -> None:
    with pytest.raises(InputFault, match="unknown-class-value"):
        read(MASK + (MASK == 2), TWO, components=4, class_values={"tumour": 1, "stroma": 2})


def test_an_empty_mask_has_no_nuclei_and_no_warning() -> None:
    said = read(np.zeros((4, 5), np.uint8), components=4)
    assert len(instances_from_label_image(said.parts[0])) == 0
    assert said.findings == ()


def test_a_mask_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(InputFault, match="too-large"):
        label_components(runs_of(MASK), 4, where="", bytes_limit=1000)


@pytest.mark.parametrize(
    "rules",
    [{"components": 6}, {"components": 4, "class_map": "{case}_class.npy", "class_values": {"tumour": 1}}],
)
def test_rules_that_contradict_components_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="components"):
        format_rules(format="label_image", files="{case}.npy", **rules)


@pytest.mark.parametrize(
    "side",
    [
        {"files": "{case}.png", "components": 4, "class_values": VALUES},
        {"files": "{case}.tif", "components": 8, "class_values": VALUES},
        {"files": "{case}/{class}.png", "components": 8},
        {"files": "{case}/{class}.nii.gz"},
        {"files": "{case}.nrrd", "class_map": "{case}_class.nii", "class_values": VALUES},
    ],
)
def test_the_example_of_a_challenge_is_scored_as_perfect(side: dict[str, Any], tmp_path: Path) -> None:
    document = challenge_document("label_image by class")
    document["submission"] = {key: document["submission"][key] for key in ("missing_case", "missing_class_file")}
    document["submission"] |= {"format": "label_image", **side}
    document["reference"] |= {"files": "reference/{case}/{class}.tif"}
    challenge = Challenge.build(document)
    for rules, folder in ((challenge.reference, tmp_path), (challenge.submission, tmp_path / "submission")):
        for name, content in example_files(challenge, rules, challenge.cases).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    rows = [f"{c.name},{c.group},{c.height},{c.width},{c.spacing_um},{c.index}" for c in CASES]
    (tmp_path / "cases.csv").write_text("\n".join(["case,group,height,width,spacing_um,index", *rows, ""]))
    (tmp_path / "challenge.toml").write_text(toml({key: value for key, value in document.items() if key != "cases"}))
    result = score_submission(tmp_path, tmp_path / "submission", workers=1)
    assert result.value("detection.f1.pooled") == 1.0
    assert result.value("classification.accuracy.pooled") == 1.0
