"""Drawings of tiny cases: what QuPath is told of every nucleus."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely
import shapely.geometry
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.challenge import Challenge
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.prepare import PreparedReference, prepare_reference
from evaluation.model import Case, Instances, Points
from evaluation.report.pictures import STATE_COLOURS, State, overlay_geojson
from evaluation.report.scenes import JudgedCase, View, judge_case
from evaluation.scoring.match import match_case

CLASSES = ("small", "LARGE")


def colour(state: State) -> tuple[int, ...]:
    return tuple(bytes.fromhex(STATE_COLOURS[state][1:]))


def challenge_of(
    policy: str | None = None, rule: dict[str, Any] | None = None, files: dict[str, Any] | None = None
) -> Challenge:
    masks = {"format": "label_image", "files": "{case}/{class}.tif"}
    reference = files or {**masks, "overlap": "keep", "overlap_scope": "image"}
    matching = rule or {"rule": "iou_above", "threshold": 0.5, "class_aware": False}
    return Challenge.build(
        {
            "format_version": 1,
            "name": "tiny",
            "classes": [{"name": name} for name in CLASSES],
            "reference": {**reference, **({"ignore": {"policy": policy}} if policy else {})},
            "submission": {**(files or masks), "missing_case": "worst", "missing_class_file": "empty"},
            "matching": {"rules": [{"name": "first", "ties": "first_pixel", **matching}]},
            "metrics": {"families": ["detection"], "boundary": "closed"},
            "aggregation": {"unit": "pooled", "undefined": "skip"},
        }
    )


def states_of(case: JudgedCase) -> dict[str, int]:
    """How many detections there are of each classification."""
    return dict(Counter(feature["properties"]["classification"]["name"] for feature in features_of(case)))


def letters(rows: list[str]) -> npt.NDArray[np.str_]:
    return np.array([list(row) for row in rows])


def nuclei(characters: npt.NDArray[np.str_]) -> Instances:
    """Every letter is a nucleus: small letters of the first class, capitals of the second."""
    labels = np.where(np.char.isalpha(characters), characters.view(np.uint32), 0).astype(np.int64)
    return instances_from_labels(labels, [2 if chr(v).isupper() else 1 for v in np.unique(labels) if v])


def judged_case(reference: str, prediction: str, policy: str | None = None, **rule: Any) -> JudgedCase:
    """A case of two drawings; ``#`` in the reference is an ignore region."""
    left, right = (letters([line.strip() for line in side.strip().splitlines()]) for side in (reference, prediction))
    region = instances_from_labels(left == "#")
    scored = nuclei(left)
    joined = Instances(
        scored.shape_yx,
        np.concatenate([scored.class_id, np.full(len(region), -1, np.int16)]),
        np.concatenate([scored.source_id, region.source_id]),
        np.concatenate([scored.run_start, region.run_start]),
        np.concatenate([scored.run_stop, region.run_stop]),
        np.concatenate([scored.run_instance, region.run_instance + len(scored)]).astype(np.int32),
    )
    prepared = prepare_reference(
        [joined],
        scored.shape_yx,
        overlap="keep",
        overlap_scope="image",
        vanished=None,
        vertices=None,
        origin=None,
        ignore_policy=policy,  # type: ignore[arg-type]
    )
    return judged(challenge_of(policy, rule or None), prepared, nuclei(right))


def judged(challenge: Challenge, reference: PreparedReference, prediction: Instances | None) -> JudgedCase:
    case = Case("tiny", "P1", *reference.instances.shape_yx)
    return judge_case(challenge, match_case(challenge, case, reference, prediction), prediction)


# --- states -----------------------------------------------------------------------------------------------------------

FIVE = (
    """
    .........................
    .aaa..bbb.........ddd....
    .aaa..bbb.........ddd....
    .aaa..bbb.........ddd....
    .........................
    """,
    """
    .........................
    .aaa........ccc...DDD....
    .aaa........ccc...DDD....
    .aaa........ccc...DDD....
    .........................
    """,
)


def test_every_nucleus_has_the_state_of_what_became_of_it() -> None:
    pairs = ("Matched: reference", "Matched: prediction", "Wrong class: reference", "Wrong class: prediction")
    assert states_of(judged_case(*FIVE)) == dict.fromkeys((*pairs, "False negative", "False positive"), 1)


def test_names_decide_under_a_rule_that_looks_at_classes() -> None:
    """The rule finds no pair, but the overlay tells what is the matter."""
    case = judged_case(*FIVE, rule="iou_above", threshold=0.5, class_aware=True)
    assert states_of(case)["Wrong class: reference"] == states_of(case)["Wrong class: prediction"] == 1


def test_what_left_because_of_the_ignore_region_is_ignored() -> None:
    reference = "..........\n.####.....\n.####..aa.\n.####..aa.\n.........."
    prediction = "..........\n..........\n..bb...aa.\n..bb...aa.\n.........."
    states = states_of(judged_case(reference, prediction, "drop_centroid"))
    assert states == {"Ignore region": 1, "Matched: reference": 1, "Matched: prediction": 1, "Ignored": 1}


def test_a_case_that_was_not_submitted_is_all_missed() -> None:
    prepared = PreparedReference(
        nuclei(letters([".....", ".aa..", ".aa.."])), judged_case(*FIVE).matched.reference.ignore
    )
    assert states_of(judged(challenge_of(), prepared, None)) == {"False negative": 1}


def test_contested_pixels_are_a_region() -> None:
    two = [nuclei(letters(rows)) for rows in (["......", ".aaa..", "......"], ["......", "...bb.", "......"])]
    options: dict[str, Any] = {"vanished": None, "vertices": None, "origin": None}
    prepared = prepare_reference(two, (3, 6), overlap="last", overlap_scope="image", **options)
    contested, *_ = features_of(judged(challenge_of(), prepared, two[0]))
    assert contested["properties"]["classification"]["name"] == "Contested"
    assert shapely.geometry.shape(contested["geometry"]).bounds == (3, 1, 4, 2)


@pytest.mark.parametrize("reference", ["....\n....", "a...\n....", "....\n...a", "aaaa\naaaa", "a.a.\n.a.a"])
@pytest.mark.parametrize("prediction", ["....\n....", "b...\n....", "bbbb\nbbbb"])
def test_empty_sides_single_pixels_and_nuclei_that_fill_the_image(reference: str, prediction: str) -> None:
    number = ("a" in reference) + ("b" in prediction)
    assert len(features_of(judged_case(reference, prediction))) == number


def prepared_of(labels: npt.NDArray[np.int64]) -> PreparedReference:
    instances = instances_from_labels(labels, np.ones(len(np.unique(labels[labels > 0])), int))
    nothing = prepare_reference(
        [], labels.shape, overlap="keep", overlap_scope="image", vanished=None, vertices=None, origin=None
    )  # type: ignore[arg-type]
    return PreparedReference(instances, nothing.ignore)


# --- views ------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 4000), st.integers(1, 4000), st.data())
@settings(max_examples=200, deadline=None)
def test_views_hold_their_box_and_stay_in_the_image(height: int, width: int, data: st.DataObject) -> None:
    y0, x0 = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    y1, x1 = data.draw(st.integers(y0 + 1, height)), data.draw(st.integers(x0 + 1, width))
    view = View.around((y0, x0, y1, x1), (height, width), 256)
    assert 0 <= view.y0 <= y0 and y1 <= view.y1 <= height
    assert 0 <= view.x0 <= x0 and x1 <= view.x1 <= width
    assert max(view.shape_yx) <= 256


# --- points -----------------------------------------------------------------------------------------------------------


def points(*places_xy: tuple[float, float]) -> Points:
    count = len(places_xy)
    places = np.array(places_xy, np.float64).reshape(count, 2)
    return Points(places, np.ones(count, np.int16), np.arange(count).astype(object))


def test_points_are_points() -> None:
    options: dict[str, Any] = {
        "overlap": None,
        "overlap_scope": None,
        "vanished": None,
        "vertices": None,
        "origin": "pixel_centre",
    }
    sides = [
        prepare_reference([side], (40, 60), **options)
        for side in (points((10, 10), (30, 20)), points((11, 10), (50, 30)))
    ]
    table = {"format": "points_csv", "files": "{case}.csv", "units": "px", "origin": "pixel_centre"}
    near = {"rule": "centroid_closest_first", "radius_px": 3.0, "class_aware": False}
    case = judged(challenge_of(rule=near, files=table), sides[0], sides[1].instances)
    shapes = {f["properties"]["classification"]["name"]: f["geometry"]["coordinates"] for f in features_of(case)}
    assert set(shapes) == {"Matched: reference", "Matched: prediction", "False negative", "False positive"}
    assert shapes["False negative"] == [30.5, 20.5] and shapes["False positive"] == [50.5, 30.5]


# --- GeoJSON ----------------------------------------------------------------------------------------------------------


def features_of(case: JudgedCase) -> list[dict[str, Any]]:
    document = json.loads(overlay_geojson(case, CLASSES))
    assert document["type"] == "FeatureCollection"
    features: list[dict[str, Any]] = document["features"]
    return features


def test_every_nucleus_is_a_detection_with_its_state_colour_class_and_area() -> None:
    features = features_of(judged_case(*FIVE))
    told = [
        (f["properties"]["classification"]["name"], f["properties"]["name"], f["properties"]["measurements"])
        for f in features
    ]
    assert told == [
        ("Matched: reference", "small", {"Area px^2": 9, "IoU": 1}),
        ("False negative", "small", {"Area px^2": 9}),
        ("Wrong class: reference", "small", {"Area px^2": 9, "IoU": 1}),
        ("Wrong class: prediction", "LARGE", {"Area px^2": 9, "IoU": 1}),
        ("Matched: prediction", "small", {"Area px^2": 9, "IoU": 1}),
        ("False positive", "small", {"Area px^2": 9}),
    ]
    for feature in features:
        state = feature["properties"]["classification"]
        name = state["name"].split(":")[0]
        wanted = {"False negative": "missed", "False positive": "spurious"}.get(name, name.lower())
        assert state["color"] == list(colour(wanted.replace(" ", "_")))
        assert feature["properties"]["objectType"] == "detection"
        assert feature["properties"]["metadata"]["Error"] == (
            "none" if wanted == "matched" else wanted.replace("_", " ")
        )
        assert feature["type"] == "Feature"


def test_shapes_are_valid_and_cover_the_pixels() -> None:
    """A hole, two parts, and two parts that touch at a corner."""
    reference = "aaa..b.\na.a...b\naaa....\n...c..b"
    shapes = [shapely.geometry.shape(f["geometry"]) for f in features_of(judged_case(reference, reference))]
    assert all(shape.is_valid for shape in shapes)
    assert [shape.area for shape in shapes] == [8, 3, 1] * 2
    assert [shape.geom_type for shape in shapes] == ["Polygon", "MultiPolygon", "Polygon"] * 2
    assert shapes[0].bounds == (0, 0, 3, 3) and shapes[2].bounds == (3, 3, 4, 4)


def test_regions_are_annotations() -> None:
    case = judged_case("##..\n#.aa", "....\n..aa", "clip")
    region = features_of(case)[0]
    assert region["properties"]["objectType"] == "annotation"
    assert region["properties"]["classification"]["name"] == "Ignore region"
    assert shapely.geometry.shape(region["geometry"]).area == 3


def test_the_iou_of_a_pair_stands_although_a_piece_beside_it_has_another() -> None:
    told = [
        (f["properties"]["metadata"]["Error"], f["properties"]["measurements"]["IoU"])
        for f in features_of(judged_case("aaaaaaaaaa", "dddddd.eee"))
    ]
    assert told == [("none", 0.6), ("none", 0.6), ("split", 0.3)]


def test_an_iou_below_one_is_told() -> None:
    features = features_of(judged_case("aaaa", "aaa."))
    assert [f["properties"]["measurements"]["IoU"] for f in features] == [0.75, 0.75]


# --- size -------------------------------------------------------------------------------------------------------------


def test_ten_thousand_nuclei_in_one_go() -> None:
    row = np.arange(100)
    labels = np.kron(row[:, np.newaxis] * 100 + row + 1, np.pad(np.ones((14, 14), np.int64), 3))
    prepared = prepared_of(labels)
    case = judged(challenge_of(), prepared, prepared.instances)
    assert overlay_geojson(case, CLASSES).count(b'"Matched: reference"') == 10_000
