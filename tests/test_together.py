"""Many small images are read, matched, measured and written together: each comes out as it does alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation import Challenge, compare
from evaluation.files.results.documents import objects_csv
from evaluation.scoring.match import CaseSides, MatchedCase, implausible_labels, match_cases, suspect_labels
from evaluation.scoring.measure import measure_cases
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import empty_region, instances_from_labels
from nuclei_metrics.matching import nearest
from nuclei_metrics.matching.nearest import nearest_candidates
from nuclei_metrics.matching.table import overlap_table
from nuclei_metrics.metrics.counts import join_cases
from nuclei_metrics.model import Case, Instances

CASES = 30
CLASS_AWARE = {"name": "of_class", "rule": "iou_above", "threshold": 0.5, "class_aware": True, "ties": "first_pixel"}
RULES = [CLASS_AWARE, {"name": "any", "rule": "best_iou_any_overlap", "class_aware": False, "ties": "first_pixel"}]


def image(random: np.random.Generator, shape: tuple[int, int], nuclei: int) -> Instances:
    """Return up to so many rectangles, also at the border, some of them in two parts, of two classes."""
    labels = np.zeros(shape, np.int64)
    for _ in range(nuclei):
        y, x = random.integers(0, shape[0] - 2), random.integers(0, shape[1] - 2)
        height, width = random.integers(2, 9, 2)
        labels[y : y + height, x : x + width] = random.integers(1, nuclei + 2)
    made = instances_from_labels(labels)
    return replace(made, class_id=random.integers(1, 3, len(made)).astype(np.int16))


def sides_of_cases(seed: int) -> list[tuple[Instances, Instances]]:
    """Return both sides of cases of several shapes; some have an empty side."""
    random = np.random.default_rng(seed)
    shapes = [(int(height), int(width)) for height, width in random.integers(20, 60, (CASES, 2))]
    return [(image(random, of, random.integers(0, 12)), image(random, of, random.integers(0, 12))) for of in shapes]


def challenge() -> Challenge:
    measures = ["iou", "dice", "hausdorff_px", "hausdorff95_um", "surface_dice", "boundary_iou", "area_ratio",
                "centroid_distance_px", "mean_surface_distance_px"]  # fmt: skip
    metrics = {"families": ["detection", "segmentation", "overlap", "objects"], "measures": measures,
               "boundary": "open", "tolerance_px": 1.5}  # fmt: skip
    files = {"format": "label_image", "files": "{class}/{case}.tif"}
    return Challenge.from_preset(
        "monusac2020",
        name="together",
        classes=[{"name": "a"}, {"name": "b"}],
        reference={**files, "overlap": "keep", "overlap_scope": "image"},
        submission={**files, "missing_case": "worst", "missing_class_file": "empty"},
        matching={"rules": RULES},
        metrics=metrics,
        cases=[each.case for each in cases_of(0)],
    )


def cases_of(seed: int) -> list[CaseSides]:
    return [
        CaseSides(
            Case(f"c{index}", f"g{index % 4}", *reference.shape_yx, spacing_um=0.25 + index % 2),
            PreparedReference(reference, empty_region()),
            prediction,
        )
        for index, (reference, prediction) in enumerate(sides_of_cases(seed))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_counts_measures_and_lines_of_many_cases_are_those_of_each(seed: int) -> None:
    rules = challenge()

    def matched(cases: list[CaseSides]) -> list[MatchedCase]:
        return [case for case in match_cases(rules, cases) if isinstance(case, MatchedCase)]

    cases = cases_of(seed)
    together = measure_cases(rules, matched(cases))
    alone = [result for case in cases for result in measure_cases(rules, matched([case]))]
    for one, other in zip(together, alone, strict=True):
        assert values_of(one) == values_of(other)
    table = "".join(objects_csv(together, rules.class_names, rules.metrics.measures)).splitlines()
    of_each = ["".join(objects_csv([one], rules.class_names, rules.metrics.measures)).splitlines() for one in alone]
    assert table == [of_each[0][0], *(line for lines in of_each for line in lines[1:])] and len(table) > 4 * CASES


def values_of(record: object) -> object:
    """Return what a record of records and arrays holds, NaN as text."""
    if isinstance(record, np.ndarray):
        return record.shape, [repr(value) for value in record.ravel().tolist()]
    if isinstance(record, dict):
        return {key: values_of(value) for key, value in record.items()}
    if hasattr(record, "__dataclass_fields__"):
        return {name: values_of(getattr(record, name)) for name in record.__dataclass_fields__}
    return record


@pytest.mark.parametrize("seed", range(3))
def test_nearest_candidates_of_many_cases_are_those_of_each_by_pairs_and_in_a_tree(seed, monkeypatch):
    cases = [(*sides, overlap_table(*sides)) for sides in sides_of_cases(seed)]
    for swapped in (False, True):
        joined = join_cases(cases)
        together = nearest_candidates(joined, swapped=swapped)
        bounds = (joined.reference_bound, joined.prediction_bound)[:: -1 if swapped else 1]
        for number, case in enumerate(cases):
            own, other = (slice(*bound[number : number + 2]) for bound in bounds)
            alone = nearest_candidates(join_cases([case]), swapped=swapped)
            index = together.index[own]
            assert np.where(index < 0, -1, index - other.start).tolist() == alone.index.tolist()
            assert (together.iou[own] == alone.iou).all()
            assert np.array_equal(together.distance_px[own], alone.distance_px, equal_nan=True)
        monkeypatch.setattr(nearest, "_COMPARED_AT_ONCE", -1)
        in_tree = nearest_candidates(joined, swapped=swapped)
        assert np.array_equal(in_tree.distance_px, together.distance_px, equal_nan=True)
        monkeypatch.undo()


def test_of_equally_near_nuclei_the_first_one_is_named() -> None:
    labels = np.zeros((9, 9), np.int64)
    labels[4, 4] = 1
    around = np.zeros((9, 9), np.int64)
    around[8, 4], around[4, 0], around[4, 8], around[0, 4] = 1, 2, 3, 4
    sides = instances_from_labels(labels), instances_from_labels(around)
    found = nearest_candidates(join_cases([(*sides, overlap_table(*sides))]))
    assert sides[1].source_id[found.index].tolist() == [4]


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_are_no_nuclei_are_suspect_among_many_images(seed: int) -> None:
    random = np.random.default_rng(seed)
    images = [side for sides in sides_of_cases(seed) for side in sides]
    background = np.ones((40, 40), np.int64)
    background[5:9, 5:9] = 2
    for place in random.integers(0, len(images), 3).tolist():
        images.insert(place, instances_from_labels(background))
        images.insert(place, instances_from_labels(np.repeat([[1, 2]], 40, axis=0).repeat(20, axis=1)))
    apart = np.pad(np.ones((2, 2), np.int64), ((0, 0), (0, 20)))
    mask = instances_from_labels(np.hstack([apart, apart]))
    assert implausible_labels(mask, None, "here") == []  # one label in several regions is told as a mask
    warned = [bool(implausible_labels(one, None, "here")) for one in images]
    suspect = suspect_labels(images)
    assert all(is_suspect or not is_warned for is_suspect, is_warned in zip(suspect, warned, strict=True))
    assert 6 <= sum(warned) <= sum(suspect) < len(images)


def test_images_whose_long_names_are_shown_alike_are_looked_at_one_by_one(tmp_path: Path) -> None:
    """Messages cut names of more than 60 characters in the middle."""
    labels = np.zeros((40, 40), np.uint8)
    labels[5:15, 5:15] = 1
    sides = {
        name: {f"{'a' * 50}{letter}{'b' * 50}": labels for letter in "pqrstuvw"} for name in ("reference", "prediction")
    }
    for side, images in sides.items():
        (tmp_path / side).mkdir()
        for name, image_of_name in images.items():
            np.save(tmp_path / side / name, image_of_name)
    for found in (compare(*sides.values()), compare(*(tmp_path / side for side in sides))):
        assert [case.name for case in found.challenge.cases] == list(sides["reference"])
        assert found.value("detection.f1") == 1
