"""A copy of the reference scores 1 (0 for distances): under every preset, in every pair of formats that can hold it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import CASES, COLOURS, SIDES, write_files

from evaluation.challenge import Challenge
from evaluation.challenge.documents import overlaps_of, preset_names, resolve_preset, with_overlap_rule
from evaluation.challenge.formats import FormatRules, Overlaps
from evaluation.files.formats import format as formats
from evaluation.findings.errors import ChallengeBroken
from evaluation.platform.kit import example_files
from evaluation.scoring.read import read_reference
from evaluation.scoring.score import Result
from evaluation.scoring.street import score_submission
from nuclei_metrics.instances.prepare import resolve_overlaps
from nuclei_metrics.metrics import metrics_of
from nuclei_metrics.model import Case, Instances

FAULTY = "monusac2020_as_published"  # reproduces faults of the published code, on purpose
# HoVer-Net's second Dice sums over all pairs that touch: of nuclei that overlap each other each has two partners.
NOT_OF_COPIES = ("dice2",)


def scene(case: Case, classes: int) -> Instances:
    """Squares of 6 px: two of one class overlap, and one of another overlaps both; one lies alone."""
    corners = [(0, 0), (0, 3), (3, 2), (10, 12)]
    rows = sorted(
        ((top + row) * case.width + left, number) for number, (top, left) in enumerate(corners) for row in range(6)
    )
    start = np.array([first for first, _ in rows], np.int64)
    return Instances(
        shape_yx=case.shape_yx,
        class_id=(np.array([0, 0, 1, 1]) % classes + 1).astype(np.int16),
        source_id=np.arange(1, 5),
        run_start=start,
        run_stop=start + 6,
        run_instance=np.array([number for _, number in rows], np.int32),
    )


def apart(case: Case, classes: int) -> Instances:
    return resolve_overlaps(scene(case, classes), "first", "image").instances


def between_classes(case: Case, classes: int) -> Instances:
    return resolve_overlaps(scene(case, classes), "first", "class").instances


SCENES = {Overlaps.NONE: apart, Overlaps.BETWEEN_CLASSES: between_classes, Overlaps.ANY: scene}


def side_of(kind: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The keys of a side, with numbers and colours for the classes of a preset."""
    keys = {"format": kind.split()[0], **SIDES[kind]}
    if "class_values" in keys:
        first = min(keys["class_values"].values())
        keys["class_values"] = {name: number for number, name in enumerate(names, start=first)}
    if "colours" in keys:
        keys["colours"] = {name: f"#{number:02x}0080" for number, name in enumerate(names, start=1)}
        keys["border_colour"] = COLOURS["border_colour"]
    return keys


def challenge_of(preset: str, reference: str, submission: str, cases: Sequence[Case] = CASES) -> Challenge:
    """A preset with other formats. Raises ChallengeBroken if its rules do not go with them, as IoU with points."""
    below = resolve_preset({"preset": preset})
    names = tuple(of_class["name"] for of_class in below["classes"])
    of_reference, of_submission = side_of(reference, names), side_of(submission, names)
    of_reference["files"] = of_reference["files"].replace("*", "1")
    for key in {"files", "class_map", "class_table"} & set(of_reference):
        of_reference[key] = f"reference/{of_reference[key]}"
    tables = {"reference": of_reference, "submission": of_submission}
    document = resolve_preset(with_overlap_rule({"format_version": 1, "name": "x", "preset": preset, **tables}))
    for side, keys in tables.items():
        for key in ("socket", "input", "case_key", "skip_classes"):
            document[side].pop(key, None)
        document[side] |= keys
    return Challenge.build({**document, "cases": tuple(replace(case, stratum="s") for case in cases)})


def held(kind: str, rules: FormatRules) -> Overlaps:
    """Which overlaps the example files of a kind can have."""
    return Overlaps.NONE if kind.split()[0] in ("rle_csv", "pannuke_masks") else overlaps_of(rules.model_dump())


def write_copy(
    preset: dict[str, Any], challenge: Challenge, kinds: tuple[str, str], folder: Path, patch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """A reference with the overlaps that both sides can hold, and a copy of it as a submission: their folders.

    In the formats of the preset itself nuclei do not overlap: what it says of them holds for the reference alone.
    """
    sides = challenge.reference, challenge.submission
    most = min(held(kind, rules) for kind, rules in zip(kinds, sides, strict=True))
    published = [table["format"] for table in (preset["reference"], preset["submission"])]
    if [rules.format for rules in sides] == published:  # its rules of overlaps are those of the reference alone
        most = Overlaps.NONE
    patch.setattr(formats, "example_instances", SCENES[most])
    of_reference, of_submission = (
        folder / f"{side} {kind} {most.name}" for kind, side in zip(kinds, ("reference", "submission"), strict=True)
    )
    for rules, below in zip(sides, (of_reference, of_submission), strict=True):
        if not below.exists():
            write_files(below, example_files(challenge, rules, challenge.cases))
    return of_reference, of_submission


def values_that_are_not_the_best(challenge: Challenge, result: Result) -> dict[str, float]:
    wrong = {}
    for metric in metrics_of(challenge.metric_choice(), class_aware=challenge.matching.rules[0].class_aware):
        best = {"higher": metric.highest, "lower": metric.lowest, "one": 1}[metric.better]
        for aggregation in ("pooled", "group_mean", "case_mean"):
            path = ".".join((*metric.path, aggregation))
            if (value := result.value(path)) is not None and value != best and metric.path[-1] not in NOT_OF_COPIES:
                wrong[path] = value
    return wrong


# In a colour map nuclei lose their borders, so only another one can be a copy of it.
KINDS = [kind for kind in SIDES if kind.split()[0] != "colour_map"]
PRESETS = [name for name in preset_names() if name != FAULTY]


def count_copies(
    preset: str,
    pairs: Iterable[tuple[str, str]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    cases: Sequence[Case] = CASES,
) -> int:
    """How many of the pairs of formats go with the rules of a preset; a copy has the best score in each of them."""
    made, published = 0, resolve_preset({"preset": preset})
    for pair in pairs:
        try:
            challenge = challenge_of(preset, *pair, cases)
        except ChallengeBroken:
            continue
        of_reference, of_submission = write_copy(published, challenge, pair, folder, monkeypatch)
        result = score_submission(of_reference, of_submission, challenge=challenge, workers=1)
        assert values_that_are_not_the_best(challenge, result) == {}, pair
        made += 1
    return made


@pytest.mark.parametrize("preset", PRESETS)
def test_a_copy_of_the_reference_has_the_best_score_in_some_formats_under_every_preset(preset, tmp_path, monkeypatch):
    turn = PRESETS.index(preset)
    pairs = [(KINDS[index], KINDS[(5 * index + turn) % len(KINDS)]) for index in range(turn % 12, len(KINDS), 12)]
    pairs += [pair[::-1] for pair in pairs] + [(one, one) for one, _ in pairs]
    assert count_copies(preset, pairs, tmp_path, monkeypatch) > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_a_copy_of_the_reference_has_the_best_score_in_every_pair_of_formats(preset, tmp_path, monkeypatch):
    assert count_copies(preset, product(KINDS, KINDS), tmp_path, monkeypatch, CASES[:1]) > 100


def test_published_faults_are_why_a_copy_scores_less_under_the_ranking_of_2020():
    """It reproduces what the published code did: see the preset."""
    assert resolve_preset({"preset": FAULTY})["matching"]["published_faults"] == ["reference_index", "unopened_masks"]


# --- no rule of the reference depends on the form of a submission -----------------------------------------------------


def challenge_as_written(preset: str, reference: str, submission: str) -> Challenge:
    """A preset with other formats and no word on overlaps."""
    names = tuple(of_class["name"] for of_class in resolve_preset({"preset": preset})["classes"])
    sides = side_of(reference, names), side_of(submission, names)
    for key in {"files", "class_map", "class_table"} & set(sides[0]):
        sides[0][key] = f"reference/{sides[0][key].replace('*', '1')}"
    document = {"format_version": 1, "name": "x", "preset": preset, "reference": sides[0], "submission": sides[1]}
    resolved = resolve_preset(document)
    for key in ("socket", "input", "case_key", "skip_classes"):
        resolved["submission"].pop(key, None)
    return Challenge.build({**resolved, "cases": tuple(replace(case, stratum="s") for case in CASES[:1])})


def rasterised(folder: Path, challenge: Challenge) -> list[bytes]:
    """The bytes of all runs of a reference, and of what each run belongs to."""
    found = []
    for case in challenge.cases:
        nuclei = read_reference(challenge, folder, case).instances
        found += [getattr(nuclei, name).tobytes() for name in ("run_start", "run_stop", "run_instance", "class_id")]
    return found


@pytest.mark.parametrize("reference", ["geojson outlines", "polygons_json", "aperio_xml"])
@pytest.mark.parametrize("preset", ["recommended", "monusac2020"])
def test_the_rasterised_reference_is_the_same_for_every_format_of_submissions(preset, reference, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "example_instances", scene)
    found, rules = {}, set()
    for submission in SIDES:
        try:
            challenge = challenge_as_written(preset, reference, submission)
        except ChallengeBroken:  # such as points under a rule that compares pixels
            continue
        if not found:
            write_files(tmp_path, example_files(challenge, challenge.reference, challenge.cases))
        found[submission] = rasterised(tmp_path, challenge)
        rules.add(challenge.reference.model_dump_json())
    assert len(found) > 15
    assert len(rules) == 1
    assert [kind for kind, runs in found.items() if runs != next(iter(found.values()))] == []


def test_the_rule_for_overlaps_of_a_new_challenge_is_written_and_lets_a_copy_score_1():
    polygons = {"format": "polygons_json", "files": "{case}.json", "units": "px"}
    for submission, expected in (
        ({"format": "nary_mat"}, ("class_order", "image")),  # of the preset
        (polygons, ("keep", "image")),
        ({"format": "label_image", "files": "{case}.tif"}, ("class_order", "image")),
        ({"format": "label_image", "files": "{case}_{class}.tif"}, ("last", "class")),
    ):
        document = {"format_version": 1, "name": "x", "preset": "recommended", "submission": submission}
        written = with_overlap_rule(document)
        assert (written["reference"]["overlap"], written["reference"]["overlap_scope"]) == expected
        kept = resolve_preset(document)["reference"]
        assert (kept["overlap"], kept["overlap_scope"]) == ("class_order", "image")
