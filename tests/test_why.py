"""Why a nucleus is not matched: the reasons in objects.csv, computed again on dense masks."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import real_challenges as real
from literal import iou, masks_of
from test_errors import literal_kinds

from evaluation import Challenge, instances_from_labels, score_instances, score_submission
from evaluation.commands.main import run
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
        assert [float(row["row"]), float(row["column"])] == pytest.approx(centroid(masks[side][place]), abs=1e-6)
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


# --- in words ---------------------------------------------------------------------------------------------------------


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(["explain", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_nucleus_is_explained_by_its_id_and_by_its_place(pages, capsys):
    folder = pages / "results" / "finder"
    rows = rows_of((folder / "objects.csv").read_text(), "iou_above")
    unmatched = [row for row in rows if row["outcome"] != "matched"][:30]
    for row in unmatched:
        side, word = ("prediction", "positive") if row["outcome"] == "spurious" else ("reference", "negative")
        text = explained(capsys, "--results", folder, "--case", row["case"], "--at", row[f"{side}_id"])
        assert f"'{row[f'{side}_id']}'" in text
        assert f"is a false {word}." in text
        assert f"'{row['nearest_id']}'" in text
        assert f"IoU {float(row['nearest_iou']):.3f}, centroids {float(row['nearest_distance_px']):.1f} px" in text
        assert (f"matched to {'predicted' if side == 'prediction' else 'reference'} nucleus '{row['taken_by']}'" in text
                if row["taken_by"] else "That is matched to nothing." in text)  # fmt: skip
        lacks = 0.5 - float(row["nearest_iou"])
        assert ("lacks" in text) == (lacks >= 0)
        assert lacks < 0 or f"lacks {lacks:.3f} of IoU" in text
        assert f"Kind of error: {row['kind'].replace('_', ' ')}:" in text
        place = f"{float(row['row']) + 0.001},{row['column']}"
        assert f"'{row[f'{side}_id']}'" in explained(
            capsys, "--results", folder, "--case", row["case"], "--at", place
        )  # fmt: skip


def test_a_team_is_told_in_which_columns_it_is_behind_whom(pages, capsys):
    board = json.loads((pages / "leaderboard.json").read_text())
    for team in board["teams"]:
        text = explained(capsys, "--results", pages, "--team", team["name"])
        assert f"rank {team['position']:g} of 3 teams" in text
        for index, column in enumerate(board["columns"]):
            own = team["columns"][index]
            for other in board["teams"]:
                value, rank = (other["columns"][index][key] for key in ("value", "rank"))
                p_value, units = next(
                    ((pair["p_value"], pair["units"]) for pair in column["differences"]
                     if {pair["first"], pair["second"]} == {team["name"], other["name"]}), (0, 0))  # fmt: skip
                words = (
                    f"'{other['name']}' by {abs(value - own['value']):.4f} (p = {p_value:.3g}, n = {units} patients)"
                )
                assert (words in text) == (rank < own["rank"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--results", "{}", "--case", "P4_9", "--at", "1/7"], "--case: 'P4_9'; expected 'P1_1'"),
        (["--results", "{}", "--case", "P4_2", "--at", "9/99"], "--at: '9/99'; expected '"),
        (["--results", "{}", "--case", "P4_2"], "--at: not given, but --results is"),
        (["--case", "P4_2", "--at", "1/7"], "--results: not given, but --case is"),
        (["--results", "{}", "--case", "P4_2", "--at", "1,1", "--team", "finder"], "--case: "),
        (["panoptic.pq", "--results", "{}", "--team", "finder"], "unexpected extra argument (panoptic.pq)"),
        (["--results", "{}/../..", "--team", "fnder"], "Did you mean 'finder'?"),
    ],
)
def test_what_cannot_be_explained_is_said(pages, capsys, arguments, said):
    folder = pages / "results" / "finder"
    assert run(["explain", *(part.format(folder) for part in arguments)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
