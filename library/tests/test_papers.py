"""Names in papers: one table, which the README shows and by which scores are found."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from made_sides import PREDICTION, REFERENCE

import nuclei_metrics
from nuclei_metrics import Evaluation, ImagePair, match
from nuclei_metrics.papers import calls, meanings_of, readings

README = Path(__file__).parents[1] / "README.md"
CALLS = [call for row in readings() for call in row.call.split("`; `") if call]


def test_the_readme_shows_the_table() -> None:
    assert calls() in README.read_text("utf-8"), f"library/README.md wants this table:\n{calls()}"


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_the_table_can_be_made(call: str) -> None:
    val = Evaluation(metrics=["panoptic", "detection", "thresholds", "curves", "counting"])
    val.update(REFERENCE, PREDICTION, confidence=[0.9, 0.8, 0.1])
    code = call.replace("Evaluation.compute", "val.compute").replace("confidence=…", "confidence=[0.9, 0.8, 0.1]")
    code = code.replace("<class>", "nucleus")
    known = {name: getattr(nuclei_metrics, name) for name in nuclei_metrics.__all__}
    sides = {"reference": REFERENCE, "prediction": PREDICTION, "matching": match(REFERENCE, PREDICTION)}
    assert eval(code, {**known, **sides, "val": val}) is not None


def test_the_same_name_is_found_whatever_its_case_and_signs() -> None:
    assert list(meanings_of("mPQ+")) == list(meanings_of("m-pq+")) == ["panoptic.pq.pooled"]
    assert list(meanings_of("HD95")) == ["segmentation.hausdorff95_px.pooled"]
    assert list(meanings_of("macro F1")) == ["detection.macro_f1", "classification.macro_f1"]
    assert list(meanings_of("PQ")) == ["panoptic.pq", "panoptic.binary.pq", "panoptic.per_class.pq"]
    assert list(meanings_of("Panoptic quality")) == list(meanings_of("PQ"))
    assert list(meanings_of("F1-score")) == list(meanings_of("f1"))
    assert meanings_of("nothing of the kind") == meanings_of("index") == {}


def test_the_code_of_the_readme_runs() -> None:
    first, second = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    names: dict = {"reference": REFERENCE, "prediction": PREDICTION}
    exec(first, names)
    loader = [type("Image", (), {"labels": REFERENCE, "classes": [1, 2, 3], "patient": n}) for n in "aab"]
    parts = {"loader": loader, "model": lambda image: (PREDICTION, np.array([1, 2, 3]))}
    second = second.replace("first_half + second_half", "val + val")
    exec(second, parts)
    assert len(parts["val"]) == 6
    assert ImagePair(REFERENCE, PREDICTION).reference.class_id.tolist() == [1, 1, 1]
