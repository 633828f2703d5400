"""Probabilities of the classes: read from every format that has them, and carried to the instances that are scored."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from every_format import CASES, challenge_document
from formats import lines_of, read_part
from formats.class_probabilities import CSV, HEADER

from evaluation.challenge import Challenge
from evaluation.files.decoding.annotations import Annotations
from evaluation.files.formats import sheet
from evaluation.files.formats.geojson import write_geojson
from evaluation.files.formats.listed_nuclei import write_points_json, write_polygons_json
from evaluation.files.submission import find_case_files, open_submission
from evaluation.findings.errors import InputFault
from evaluation.folders.convert import convert_file
from evaluation.scoring.read import ReadPrediction, read_prediction, read_reference
from nuclei_metrics.instances.outlines import trace_outlines
from nuclei_metrics.instances.prepare import apply_ignore_region, convert_parts, prepare_reference, resolve_overlaps
from nuclei_metrics.instances.rasterise import rasterise_outlines
from nuclei_metrics.instances.runs import select_instances
from nuclei_metrics.model import Case, Counts, Float64, Instances, Outlines, Points, Region
from nuclei_metrics.model.instances import join_instances

CASE = Case("a", "P1", 100, 120, 0.25)
OTHER = Case("b", "P2", 100, 120, 0.25)


@pytest.mark.parametrize("content, options, numbers", [
    (HEADER + "1,1,Tumour,0,1\n" * 3, CSV, 6),
])  # fmt: skip
def test_the_numbers_of_a_file_are_bounded(content, options, numbers):
    with mock.patch.object(sheet, "PROBABILITIES_LIMIT", numbers):
        assert len(read_part(content, **options)) == numbers / 2
    with mock.patch.object(sheet, "PROBABILITIES_LIMIT", numbers - 1):
        (line,) = lines_of(content, **options)
    assert line.startswith(f"[too-large] probabilities of 2 classes for {numbers // 2} nuclei")


# --- writing ----------------------------------------------------------------------------------------------------------


def outlines_with(probability: Float64 | None, class_id: Sequence[int] = (2, 1)) -> Outlines:
    square = np.array([[0, 0], [3, 0], [3, 3], [0, 3]], float)
    n = len(class_id)
    return Outlines(
        np.concatenate([square + 10 * index for index in range(n)]), np.arange(0, 4 * n + 1, 4),
        np.arange(n, dtype=np.int32), np.zeros(n, np.bool_), np.array(class_id, np.int16),
        np.array([f"n{index}" for index in range(n)], object), class_probability=probability,
    )  # fmt: skip


def test_written_files_have_none_and_conversion_tells_it(tmp_path):
    rows = np.array([[0.1, 0.7], [1, 0]], np.float64)
    names = ("Epithelial", "Lymphocyte")
    assert b"class_prob" not in write_geojson(outlines_with(rows), names, [None] * 2)
    assert b"class_prob" not in write_polygons_json(outlines_with(rows), names, "nuclei")
    nuclei = Points(np.zeros((2, 2)), np.ones(2, np.int16), np.array([1, 2], object), None, rows)
    assert b"class_prob" not in write_points_json(nuclei, names)
    (tmp_path / "a.csv").write_text(HEADER + "1,1,Tumour,0,1\n")
    options = {"format": "points_csv", "class_names": ["Tumour", "Stroma"]}
    (told,) = convert_file(tmp_path / "a.csv", tmp_path / "b", "platform", **options).findings
    assert "the class probabilities of 1 nucleus" in str(told)


# --- the way to the instances -----------------------------------------------------------------------------------------


def follow(instances: Instances) -> list[int]:
    """Which nuclei are left; each must still have its own probabilities."""
    index = [int(str(source).removeprefix("n")) for source in instances.source_id]
    assert instances.class_probability is not None
    assert instances.class_probability.dtype == np.float64
    assert instances.class_probability.tolist() == marks(6)[index].tolist()
    return index


def marks(count: int) -> Float64:
    return (np.arange(2 * count).reshape(count, 2) / 64).astype(np.float64)


def six() -> Outlines:
    """Squares of 4 x 4 px from (0, 0) to (50, 50); the fifth lies on the fourth, the last one outside of the image."""
    outlines = outlines_with(marks(6), [1, 2, 1, 2, 1, 1])
    points_xy = outlines.points_xy.copy()
    points_xy[16:20] = points_xy[12:16]
    points_xy[20:] += 1000
    return replace(outlines, points_xy=points_xy)


def rasterised(shape_yx: tuple[int, int] = (60, 60)) -> Instances:
    return rasterise_outlines(six(), shape_yx, vertices="exact", origin="pixel_centre", vanished="drop")


AT_FOURTH = Region(np.arange(10, 14) * 60 + 10, np.arange(10, 14) * 60 + 14)
RASTERISED = {"vertices": "exact", "origin": "pixel_centre"}


def overlapped(rule: str) -> Instances:
    return resolve_overlaps(rasterised(), rule, "image").instances


def pixels_of_small_outlines() -> Instances:
    between = replace(six(), points_xy=six().points_xy / 8 + 0.4)
    return rasterise_outlines(between, (60, 60), **RASTERISED, vanished="pixel")


def points_beside_a_region() -> Instances:
    drawn = Points(np.array([[5.0, 5], [10, 10], [20, 20]]), np.ones(3, np.int16), np.arange(3), None, marks(3))
    found = convert_parts([drawn], (60, 60), vertices=None, origin="pixel_centre", vanished=None, where="a").instances
    assert follow(found) == [0, 1, 2]
    return apply_ignore_region(found, Region(np.array([610]), np.array([611])), "clip")


def reference_with_an_ignored_outline() -> Instances:
    outlines = replace(six(), class_id=np.array([1, -1, 1, 2, 1, 1], np.int16))
    rules = {"overlap": "first", "overlap_scope": "image", "vanished": "drop", "ignore_policy": "clip"}
    return prepare_reference([outlines], (60, 60), **rules, **RASTERISED).instances


def joined_halves(step: int) -> Instances:
    """A part without a nucleus takes nothing away."""
    nobody, kept = join_instances([], (60, 60)), np.arange(5) < 2
    assert nobody.probability is nobody.class_probability is None
    instances = replace(rasterised(), probability=np.linspace(0, 1, 5))
    halves = [select_instances(instances, chosen) for chosen in (kept, ~kept)][::step]
    joined = join_instances([nobody, *halves], (60, 60))
    assert joined.probability.tolist() == [number for half in halves for number in half.probability.tolist()]
    return joined


@pytest.mark.parametrize("made, left", [
    (rasterised, [0, 1, 2, 3, 4]),
    (partial(rasterised, (25, 25)), [0, 1, 2]),
    (pixels_of_small_outlines, [0, 1, 2, 3, 4]),
    (partial(overlapped, "keep"), [0, 1, 2, 3, 4]),
    *((partial(overlapped, rule), [0, 1, 2, 4]) for rule in ("last", "smallest")),
    *((partial(overlapped, rule), [0, 1, 2, 3]) for rule in ("first", "class_order")),
    (partial(overlapped, "ignore"), [0, 1, 2]),
    *((lambda policy=policy: apply_ignore_region(rasterised(), AT_FOURTH, policy, 0.5), [0, 2, 3, 4])
      for policy in ("clip", "drop_overlapping", "drop_centroid")),
    (points_beside_a_region, [0, 2]),
    (reference_with_an_ignored_outline, [0, 2, 3]),
    (partial(joined_halves, 1), [0, 1, 2, 3, 4]),
    (partial(joined_halves, -1), [2, 3, 4, 0, 1]),
])  # fmt: skip
def test_they_go_with_the_nuclei_that_are_left(made, left):
    assert follow(made()) == left


def test_traced_outlines_have_those_of_their_nuclei_and_parts_without_them_take_them_away():
    instances = rasterised()
    assert trace_outlines(instances).class_probability is instances.class_probability
    mixed = join_instances([instances, replace(instances, class_probability=None)], (60, 60))
    assert mixed.class_probability is None


def test_counts_are_no_instances():
    with pytest.raises(ValueError, match="counts"):
        convert_parts([Counts(np.array([1, 2]))], (9, 9), vertices=None, origin=None, vanished=None, where="a")


# --- whole submissions ------------------------------------------------------------------------------------------------


def challenge_of(kind: str, **submission: Any) -> Challenge:
    document = challenge_document(kind)
    document["submission"] |= submission
    return Challenge.build(document)


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read_submitted(challenge: Challenge, folder: Path, files: Mapping[str, str]) -> ReadPrediction:
    """The prediction of the first case of a ZIP."""
    with zipfile.ZipFile(folder / "s.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    stored = open_submission(folder / "s.zip", challenge.limits)
    layout = find_case_files(stored, challenge)
    return read_prediction(challenge, stored, challenge.cases[0], layout.files[challenge.cases[0].name])


def nuclei_file(*rows: tuple[float, float, float, float]) -> str:
    return csv_text([["x", "y", "probability_epithelial", "probability_lymphocyte"], *rows])


def test_files_of_each_class_are_joined_and_must_all_have_them_or_none(tmp_path):
    """A class without a nucleus does not take them from the others."""
    challenge = challenge_of("points_csv", files="{case}/{class}.csv")
    epithelial = nuclei_file((2, 2, 0.5, 0.25), (3, 3, 1, 0))
    for lymphocyte, expected in (
        (nuclei_file((1, 1, 0.25, 0.75)), {(1, 0.5, 0.25), (1, 1, 0), (2, 0.25, 0.75)}),
        (nuclei_file(), {(1, 0.5, 0.25), (1, 1, 0)}),
    ):
        files = {"c1/Lymphocyte.csv": lymphocyte, "c1/Epithelial.csv": epithelial}
        found = read_submitted(challenge, tmp_path, files).instances
        assert set(zip(found.class_id.tolist(), *found.class_probability.T.tolist(), strict=True)) == expected
    plain = csv_text([["x", "y"], [1, 1]])
    with pytest.raises(InputFault) as fault:
        read_submitted(challenge, tmp_path, {"c1/Lymphocyte.csv": plain, "c1/Epithelial.csv": epithelial})
    assert str(fault.value) == (
        "[missing-probability] case 'c1': class probabilities in 1 of 2 files with nuclei; expected "
        "probabilities of each class for all nuclei, or for no nucleus."
    )


def test_rows_of_a_submitted_csv_file_without_a_class_column_are_scored_classes(tmp_path):
    rows = [["x", "y", "probability_lymphocyte", "probability_EPITHELIAL"], [1, 1, 0.75, 0.5], [2, 2, 0.25, 0.25]]
    found = read_submitted(challenge_of("points_csv"), tmp_path, {"c1.csv": csv_text(rows)})
    assert (found.instances.class_id.tolist(), found.class_counts) == ([2, 1], None)
    assert found.instances.class_probability.tolist() == [[0.5, 0.75], [0.25, 0.25]]


def test_counts_travel_beside_the_instances(tmp_path):
    challenge = challenge_of("points_csv shared")
    said = Annotations((Counts(np.array([3, 0])),))
    found = read_prediction(challenge, mock.Mock(), CASES[0], said)
    seen = found.seen
    assert (found.class_counts.tolist(), len(found.instances), seen.nuclei, seen.outside) == ([3, 0], 0, 3, 0)
    reference = read_reference(challenge, tmp_path, CASES[0], said)
    assert (reference.class_counts.tolist(), len(reference.instances), reference.annotations) == ([3, 0], 0, 3)
    assert len(said.parts[0]) == 3
