"""Own duplicates: two predictions that share more than half of the smaller one never both take part in matching."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from findings import Bench
from literal import instances_of
from test_twins import APART, SHAPE, points, squares, together

from evaluation import Challenge
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.match import SeenNuclei, match_case, own_duplicates, see_nuclei, suspicious_content
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.instances.runs import dilate_instances, empty_region, erode_instances, union_region
from nuclei_metrics.matching.table import count_copies, find_twins
from nuclei_metrics.model import Case, Instances


def recommended(duplicates: str = "false_positive") -> Challenge:
    challenge = Challenge.from_preset("recommended", name="test")
    submission = challenge.submission.model_copy(update={"duplicates": duplicates})
    return challenge.model_copy(update={"submission": submission})


def value_of(prediction: Instances, reference: Instances, path: str, duplicates: str = "false_positive") -> float:
    value = score_instances(recommended(duplicates), {"a": (reference, prediction)}).value(path)
    assert value is not None
    return value


def matched(reference: Instances, prediction: Instances, challenge: Challenge | None = None) -> Any:
    side = PreparedReference(reference, empty_region())
    return match_case(challenge or recommended(), Case("a", "a", *SHAPE), side, prediction)


@pytest.mark.parametrize("duplicates", ["keep", "false_positive"])
def test_an_ignore_region_decides_nothing_about_a_stack_of_predictions(duplicates: str) -> None:
    """What is refused, and in which words, depends on the submission alone: the region would take the stack away."""
    stack = together(*[squares(*APART)] * 40)
    rules = recommended(duplicates)
    ignore = rules.reference.ignore.model_copy(update={"policy": "clip"})
    limits = rules.limits.model_copy(update={"overlaps_per_case": 10})
    changes = {"reference": rules.reference.model_copy(update={"ignore": ignore}), "limits": limits}
    told = set()
    for region in (empty_region(), union_region(squares(*APART)), union_region(squares(APART[0]))):
        with pytest.raises(InputFault) as error:
            side = PreparedReference(squares(*APART), region)
            match_case(rules.model_copy(update=changes), Case("a", "a", *SHAPE), side, stack)
        told.update(map(str, error.value.findings))
    assert told == {
        "[too-many-overlaps] case 'a': 200 nuclei, up to 40 of them on one pixel; expected less overlap"
        ". Remove duplicate detections."
    }


@pytest.mark.parametrize("sure", [None, (0.9, 0.8), (0.8, 0.9)])
@pytest.mark.parametrize("change, classes", [(dilate_instances, (1, 1, 2, 3, 4)), (erode_instances, (2, 3, 4, 1, 1))])
def test_a_copy_of_every_nucleus_that_fits_better_never_helps(change: Any, classes: Any, sure: Any) -> None:
    """The reference has the size of the copies: under "keep" they are matched, whatever was found."""
    found = squares(*APART, classes=(1, 1, 2, 3, 4))
    reference = change(found)
    copies = together(found, replace(change(found), class_id=np.array(classes, np.int16)))
    if sure is not None:
        copies = replace(copies, probability=np.repeat(sure, 5))
    path = "covered.iou_class_mean.pooled"
    assert value_of(copies, reference, path, "keep") == 1 > value_of(found, reference, path)
    assert value_of(copies, reference, path) == value_of(found, reference, path)
    assert value_of(copies, reference, "detection.f1.pooled") == pytest.approx(2 / 3, abs=1e-6)
    named = value_of(copies, reference, "detection.macro_f1.pooled")
    assert named < value_of(found, reference, "detection.macro_f1.pooled")


def test_a_twin_that_matches_nothing_costs_no_more_than_a_false_positive() -> None:
    """A fragment inside a nucleus that was found: the nucleus stays matched."""
    nuclei = squares(*APART)
    fragments = together(nuclei, squares((6, 6), (46, 51), side=2))
    assert value_of(fragments, nuclei, "detection.recall.pooled") == 1
    assert value_of(fragments, nuclei, "detection.precision.pooled") == pytest.approx(5 / 7, abs=1e-6)


@pytest.mark.parametrize("duplicates", ["keep", "false_positive"])
def test_a_copy_of_a_reference_with_nuclei_on_each_other_scores_1(duplicates: str) -> None:
    """One annotated twice, one inside another, the same pixels as two classes."""
    large = squares((40, 40), side=16, classes=(3,))
    reference = together(squares(*APART[:4], (5, 6), classes=(1, 1, 2, 3, 1)), squares((5, 30), classes=(2,)), large)
    reference = together(reference, squares((44, 44), classes=(4,)))
    assert len(find_twins(reference)[0]) == 3
    result = score_instances(recommended(duplicates), {"a": (reference, reference)})
    assert result.challenge.ranking is not None
    for column in result.challenge.ranking.columns:
        assert result.value(column.path) == (0 if "hausdorff" in column.path else 1)


def test_no_rule_and_no_family_pairs_two_twins() -> None:
    reference = squares(*APART, classes=(1, 1, 2, 3, 4))
    prediction = together(*(replace(reference, class_id=np.full(5, of, np.int16)) for of in (1, 2, 3)))
    found = matched(reference, prediction)
    assert len(found.matches) == 2
    for matches in found.matches.values():
        assert len(matches) == 5 and len(set((matches.prediction_index % 5).tolist())) == 5
    assert len(found.prediction) == 15 and len(found.table.prediction_index) == 5
    assert {int(area) for area in found.table.prediction_area_px} == {64}


def test_a_twin_that_matches_another_nucleus_within_the_radius_only_is_a_duplicate() -> None:
    """The second rule pairs centroids within 12 px: it must not pair a copy with a nucleus nearby that was missed."""
    sides = squares((5, 5), (5, 14)), together(squares((5, 5)), squares((5, 6)))
    assert [len(of) for of in matched(*sides).matches.values()] == [1, 1]
    assert [len(of) for of in matched(*sides, recommended("keep")).matches.values()] == [1, 2]


def discs(*centres_yx: tuple[float, float], radius: float = 4) -> Instances:
    y, x = np.indices(SHAPE)
    return instances_of(
        np.stack([(y - row) ** 2 + (x - column) ** 2 <= radius**2 for row, column in centres_yx]),
        np.ones(len(centres_yx), int),
    )


def test_an_honest_prediction_of_small_nuclei_on_each_other_loses_nothing_by_centroids() -> None:
    """A row of nuclei of radius 4 px, 3 px apart, each predicted 2 px beside its place: no IoU is above 1/2."""
    reference, prediction = (discs(*((20 + off, 8 + off / 2 + 3 * step) for step in range(12))) for off in (0, 2))
    assert len(find_twins(prediction)[0]) == 11
    assert [len(of) for of in matched(reference, prediction).matches.values()] == [0, 12]


def test_a_copy_whose_centroid_lies_outside_the_nucleus_that_it_matches_is_a_duplicate_by_centroids_too() -> None:
    """The copy lies within 12 px of a nucleus that was missed, and not on it."""
    reference, prediction = discs((20, 10), (20, 19)), discs((20, 10), (20, 11))
    assert [len(of) for of in matched(reference, prediction).matches.values()] == [1, 1]
    inside = discs((20, 10), (20, 15.5))  # on the second nucleus: another find, if it shares less than half, or more
    assert len(list(matched(reference, inside).matches.values())[1]) == 2


def test_a_fragment_of_a_large_nucleus_beyond_the_radius_of_its_centroid_does_not_take_its_place() -> None:
    """The fragment's centroid lies inside the nucleus, but no rule by centroids could match it."""
    reference = squares((10, 10), side=40)
    prediction = together(reference, squares((12, 12), side=8))
    found = matched(reference, prediction)
    assert [matches.prediction_index.tolist() for matches in found.matches.values()] == [[0], [0]]


def test_pairs_name_predictions_by_their_places_among_all() -> None:
    found = matched(squares((5, 5), (30, 5)), squares((5, 5), (5, 6), (30, 5)))
    assert [matches.prediction_index.tolist() for matches in found.matches.values()] == [[1, 2]] * 2


def test_of_two_points_near_one_nucleus_the_one_that_matches_takes_part() -> None:
    challenge = recommended()
    centroids = challenge.matching.model_copy(update={"rules": challenge.matching.rules[1:]})
    prediction = points((14, 11), (10, 11), (40, 40))
    found = matched(points((10, 10)), prediction, challenge.model_copy(update={"matching": centroids}))
    (matches,) = found.matches.values()
    assert matches.prediction_index.tolist() == [1]


def test_the_rule_is_in_the_hash_and_off_in_published_presets() -> None:
    assert recommended().hash != recommended("keep").hash
    presets = {name: Challenge.from_preset(name, name="x").submission for name in ("recommended", "monusac2020")}
    assert [of.duplicates for of in presets.values()] == ["false_positive", "keep"]


# --- what is said -----------------------------------------------------------------------------------------------------


def label_images(bench: Bench, duplicates: str) -> None:
    """Two classes, a file each: every nucleus of the first class is in the second file, too."""
    bench.make("label_image by class", submission={"duplicates": duplicates})
    first, second, *_ = sorted(Path("submission").rglob("*.tif*"))
    second.write_bytes(first.read_bytes())


@pytest.mark.parametrize(
    "duplicates, said",
    [("keep", "All of them take part in matching."), ("false_positive", "One of each pair counts as a false positive")],
)
def test_validate_and_score_tell_how_many(bench: Bench, duplicates: str, said: str) -> None:
    label_images(bench, duplicates)
    lines = [line for line in bench.validate().splitlines() if "[own-duplicates]" in line]
    assert len(lines) == 1 and "4 of 7 nuclei, in 1 of 2 cases, overlap another" in lines[0] and said in lines[0]
    assert ", 4 of them identical to it to the pixel;" in lines[0]
    bench.score()
    findings = json.loads(Path("out/details.json").read_text())["findings"]
    assert [of for of in findings if "[own-duplicates]" in of] == lines


def test_one_line_tells_of_all_cases_of_a_submission_from_arrays_too() -> None:
    twice, once = squares((5, 5), (6, 5), (30, 30)), squares((5, 5), (30, 30))
    images = {name: (once, twice if name < "d" else once) for name in "abcde"} | {"f": (once, None)}
    (line,) = render_findings(score_instances(recommended("keep"), images).findings)
    assert line.startswith(
        "[own-duplicates] case 'a', case 'b', case 'c': 6 of 13 nuclei, in 3 of 5 cases, overlap another "
        "nucleus by more than half of the smaller one; "
    )
    assert score_instances(recommended(), {"a": (twice, once)}).findings == ()


def test_few_twins_of_many_nuclei_are_no_warning_but_copies_are() -> None:
    seen = SeenNuclei("a", nuclei=326, twins=4)
    assert own_duplicates(recommended(), [seen]) == []
    assert own_duplicates(recommended(), [replace(seen, copies=2)])
    assert own_duplicates(recommended(), [replace(seen, twins=17)])


def test_only_nuclei_that_are_equal_to_the_pixel_are_called_equal() -> None:
    """Three times the same, one beside it by a pixel, one of the same area and corner but another form; and points."""
    squares_yx = ((5, 5), (30, 30), (5, 5), (6, 5), (5, 5))
    masks = np.zeros((6, *SHAPE), bool)
    for mask, (y, x) in zip(masks, (*squares_yx, (5, 5)), strict=True):
        mask[y : y + 8, x : x + 8] = True
    masks[5, 12, 12], masks[5, 12, 13] = False, True
    made = instances_of(masks, (1, 1, 2, 1, 1, 1))  # whatever the classes
    seen = see_nuclei(recommended("keep"), Case("a", "a", *SHAPE), made, 6)
    assert (seen.twins, seen.copies) == (5, 3)
    at = points((10, 10), (10, 10.5), (10, 10), (30, 30))
    assert count_copies(at, np.arange(4)) == 2


def test_points_are_told_by_their_distance() -> None:
    at = see_nuclei(recommended(), Case("a", "a", *SHAPE), points((10, 10), (10, 14)), 2)
    assert at.twins == 0  # no radius without a rule that has one
    (found,) = own_duplicates(recommended(), [replace(at, twins=2)])
    assert found.got == "2 of 2 nuclei, in 1 of 1 case, are within half the matching radius of another nucleus"


@pytest.mark.parametrize("sides, said", [
    ([80, 80], True),
    ([80, 20], False),  # a nucleus of an image
    ([80, 80, 80], True),
    ([80], False),
])  # fmt: skip
def test_one_large_nucleus_in_every_image_is_told(sides: list[int], said: bool, bench: Bench) -> None:
    for number, side in enumerate(sides):
        labels = np.zeros((100, 100), np.uint8)
        labels[20 : 20 + side, 10 : 10 + side] = 7
        bench.write(f"masks/{number}.npy", labels)
        labels[:] = 0
        labels[5:9, 5:9], labels[5:9, 15:19] = 1, 2
        bench.write(f"nuclei/{number}.npy", labels)

    def told(*command: str) -> list[str]:
        printed = " ".join(bench.run(*command).split())
        return re.findall(r"\[suspicious-content\] (\w+): one nucleus in each of", printed)

    assert told("compare", "nuclei", "masks") == ["submission"] * said
    assert told("compare", "masks", "nuclei") == ["reference"] * said
    Path("begun").mkdir()
    Path("masks").rename(Path("begun/reference"))
    assert told("init", "begun") == ["reference"] * said
    assert told("rasterise", "--challenge", "begun", "--output", "maps") == ["reference"] * said
    Path("nuclei").rename(Path("begun/submission"))
    assert (
        told("score", "--challenge", "begun", "--submission", "begun/submission", "--output", "out")
        == ["reference"] * said
    )


def test_compare_tells_how_many_of_which_prediction(tmp_path: Path, bench: Bench) -> None:
    def outlines(*corners: tuple[int, int]) -> dict[str, Any]:
        rings = [[[x, y], [x + 9, y], [x + 9, y + 9], [x, y + 9], [x, y]] for x, y in corners]
        shapes = [{"type": "Polygon", "coordinates": [ring]} for ring in rings]
        features = [{"type": "Feature", "properties": {}, "geometry": shape} for shape in shapes]
        return {"type": "FeatureCollection", "features": features}

    bench.write("reference/a.geojson", outlines((5, 5), (40, 40)))
    bench.write("twice/a.geojson", outlines((5, 5), (6, 5), (40, 40)))
    printed = bench.run("compare", "reference", "twice")
    assert "[own-duplicates]" in printed and "2 of 3 nuclei, in 1 of 1 case, overlap another nucleus" in printed, (
        printed
    )
    assert printed.count("case 'a'") == 1 and "equal" not in printed


@pytest.mark.parametrize("reach, nuclei, cases, said", [
    (0.25, 20, 1, "top left 25% of the width"),
    (0.001, 400, 3, "top left 0.1% of the width"),
    (0.25, 19, 1, ""),  # few nuclei may lie in one corner
    (0.51, 400, 1, ""),
    (0, 0, 2, "no nucleus in any of 2 cases"),
    (0, 0, 1, ""),  # an image may be empty
])  # fmt: skip
def test_what_is_suspicious_content_is_told(reach: float, nuclei: int, cases: int, said: str) -> None:
    seen = [SeenNuclei("a", nuclei, reach=reach / 2)] + [SeenNuclei("b", 0, reach=reach)] * (cases - 1)
    seen[0] = replace(seen[0], reach=reach)
    assert said in "".join(render_findings(suspicious_content(seen))) and bool(said) == bool(suspicious_content(seen))
