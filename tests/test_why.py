"""Why a nucleus is not matched: the reasons in objects.csv, computed again on dense masks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import real_challenges as real
from literal import iou, masks_of
from test_errors import literal_kinds

from evaluation import Challenge, instances_from_labels, score_instances, score_submission
from evaluation.scoring.street import read_submission

Row = dict[str, str]
NOTHING = ("", "", "", "")


def rows_of(text: str, rule: str) -> list[Row]:
    return [row for row in csv.DictReader(io.StringIO(text)) if row["rule"] == rule]


def centroid(mask: np.ndarray) -> np.ndarray:
    return np.argwhere(mask).mean(axis=0)


def check_reasons(rows: list[Row], masks: list[np.ndarray], ids: list[list[str]]) -> Counter[str]:
    """Compare the reasons of a case with those that follow from its masks and the pairs in its rows."""
    of_pair = {row["reference_id"]: row["prediction_id"] for row in rows if row["outcome"] == "matched"}
    partner = of_pair, {right: left for left, right in of_pair.items()}
    index = [{name: at for at, name in enumerate(side)} for side in ids]
    pairs = np.array([(index[0][a], index[1][b]) for a, b in of_pair.items()], int).reshape(-1, 2)
    matches = SimpleNamespace(reference_index=pairs[:, 0], prediction_index=pairs[:, 1])
    classes = [[row[f"{side}_class"] for name in names for row in rows if row[f"{side}_id"] == name][: len(names)]
               for side, names in zip(("reference", "prediction"), ids, strict=True)]  # fmt: skip
    kinds = literal_kinds((masks[0], classes[0]), (masks[1], classes[1]), matches, [])
    checked: Counter[str] = Counter()
    for row in rows:
        side = row["outcome"] == "spurious"
        own = row["prediction_id"] if side else row["reference_id"]
        place = index[side][own]
        assert row["kind"] == kinds[side][place]
        reason = tuple(row[name] for name in ("nearest_id", "nearest_iou", "nearest_distance_px", "taken_by"))
        if row["outcome"] == "matched":
            assert reason == NOTHING
            continue
        mask, others = masks[side][place], masks[not side]
        if not len(others):
            assert reason == NOTHING
            continue
        overlaps = [iou(mask, other) for other in others]
        far = [float(np.linalg.norm(centroid(mask) - centroid(other))) for other in others]
        best = index[not side][row["nearest_id"]]
        assert overlaps[best] == max(overlaps)
        assert max(overlaps) > 0 or far[best] == pytest.approx(min(far))
        assert float(row["nearest_iou"]) == pytest.approx(max(overlaps), abs=1e-6)
        assert float(row["nearest_distance_px"]) == pytest.approx(far[best], abs=1e-6)
        assert row["taken_by"] == partner[not side].get(row["nearest_id"], "")
        checked[row["kind"]] += 1
    return checked


def check_submission(challenge: Path, submission: Path, rule: str, most: int) -> Counter[str]:
    rows = rows_of(score_submission(challenge, submission, workers=1).objects, rule)
    checked: Counter[str] = Counter()
    for read in read_submission(challenge, Challenge.load(challenge), submission):
        sides = read.matched.reference.instances, read.matched.prediction
        if max(map(len, sides)) <= most and sum(checked.values()) < 200:
            masks = [masks_of(side) for side in sides]
            own = [row for row in rows if row["case"] == read.matched.case.name]
            checked += check_reasons(own, masks, [list(map(str, side.source_id)) for side in sides])
    return checked


def test_reasons_of_the_demo_are_right(made):
    checked = sum((check_submission(made.challenge, path, "iou_above", 200)
                   for path in made.submissions.values()), Counter())  # fmt: skip
    assert sum(checked.values()) >= 30
    assert {"missed", "spurious", "poor_outline", "split"} <= set(checked)


def test_reasons_of_the_data_science_bowl_are_right(shared_data, tmp_path):
    pair = real.dsb2018(shared_data, tmp_path, "gray53")
    checked = check_submission(pair.challenge, pair.submission, "iou_50", 30)
    assert sum(checked.values()) >= 30


def test_a_nucleus_whose_candidate_is_taken_says_by_what():
    """Prediction 5 covers nuclei 1 and 2, and matches 1."""
    reference = np.array([[1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 0, 0, 0]])
    prediction = np.array([[5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0, 0, 9]])
    challenge = Challenge.from_preset("monusac2020", name="test", matching={"rules": [real.iou_rule(0.5)]})
    one = np.ones(2, np.int16)
    sides = instances_from_labels(reference, one), instances_from_labels(prediction, one)
    rows = rows_of(score_instances(challenge, {"c": sides}).objects, "iou")
    names = ("outcome", "kind", "nearest_id", "nearest_iou", "nearest_distance_px", "taken_by")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("matched", "right", *NOTHING),
        ("missed", "merged", "5", "0.3", "3.5", "1"),
        ("spurious", "spurious", "2", "0.0", "4.0", ""),
    ]
