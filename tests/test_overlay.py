"""Drawings of tiny cases: which pixel has which colour, and what QuPath is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import shapely
import shapely.geometry
from hypothesis import given, settings
from hypothesis import strategies as st
from imagecodecs import png_decode

from evaluation.challenge import Challenge
from evaluation.instances.labels import instances_from_labels
from evaluation.instances.prepare import PreparedReference, prepare_reference
from evaluation.model import Case, Instances, Points
from evaluation.report.pictures import drawing_of, facts_of, overlay_geojson
from evaluation.report.scenes import STATE_COLOURS, STATES, JudgedCase, State, View, draw, judge_case, overlay_png
from evaluation.scoring.match import match_case

CLASSES = ("small", "LARGE")
SCALE = 8


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
    """How many nuclei there are of each state; matched and wrong_class: pairs, as far as there is a pair."""
    sides = [np.bincount(side, minlength=len(STATES)) for side in (case.reference_state, case.prediction_state)]
    counts = dict(zip(STATES, np.max(sides, axis=0).tolist(), strict=True))
    return {**{state: counts[state] for state in BOXES}, "ignored": len(case.ignored)}


def letters(rows: list[str]) -> npt.NDArray[np.str_]:
    return np.array([list(row) for row in rows])


def nuclei(characters: npt.NDArray[np.str_]) -> Instances:
    """Every letter is a nucleus: small letters of the first class, capitals of the second."""
    labels = np.where(np.char.isalpha(characters), characters.view(np.uint32), 0).astype(np.int64)
    return instances_from_labels(labels, [2 if chr(v).isupper() else 1 for v in np.unique(labels) if v])


def judged_case(
    reference: str, prediction: str, policy: str | None = None, *, scale: int = 1, **rule: Any
) -> JudgedCase:
    """A case of two drawings, each letter ``scale`` px wide; ``#`` in the reference is an ignore region."""
    left, right = (
        letters([line.strip() for line in side.strip().splitlines()]).repeat(scale, 0).repeat(scale, 1)
        for side in (reference, prediction)
    )
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


@dataclass
class Seen:
    """A drawing on a plain background, its letters 8 px wide."""

    pixels: npt.NDArray[np.uint8]

    def share(self, state: State, top: int, left: int, bottom: int, right: int) -> float:
        """How much of the border of a box of letters has the colour of a state (pixels just inside)."""
        y0, x0, y1, x1 = SCALE * top, SCALE * left, SCALE * bottom - 1, SCALE * right - 1
        border = [self.pixels[y0, x0 : x1 + 1], self.pixels[y1, x0 : x1 + 1]]
        border += [self.pixels[y0 : y1 + 1, x0], self.pixels[y0 : y1 + 1, x1]]
        return float((np.concatenate(border) == colour(state)).all(axis=1).mean())

    def has(self, state: State) -> bool:
        return bool((self.pixels == colour(state)).all(axis=2).any())


def look(case: JudgedCase) -> Seen:
    return Seen(draw(drawing_of(case), View(0, 0, *case.matched.case.shape_yx)))


# --- colours ----------------------------------------------------------------------------------------------------------

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
BOXES: dict[State, tuple[int, int, int, int]] = {
    "matched": (1, 1, 4, 4),
    "missed": (1, 6, 4, 9),
    "spurious": (1, 12, 4, 15),
    "wrong_class": (1, 18, 4, 21),
}


@pytest.mark.parametrize("state", BOXES)
def test_every_nucleus_has_the_colour_of_what_became_of_it(state: State) -> None:
    seen = look(judged_case(*FIVE, scale=SCALE))
    shares = {other: seen.share(other, *BOXES[state]) for other in BOXES}
    assert {other for other, share in shares.items() if share} == {state}


def test_the_line_of_the_reference_is_solid_and_that_of_the_prediction_broken() -> None:
    seen = look(judged_case(*FIVE, scale=SCALE))
    assert seen.share("missed", *BOXES["missed"]) == 1
    assert 0.4 < seen.share("spurious", *BOXES["spurious"]) < 0.75


def test_a_pair_shows_both_of_its_outlines() -> None:
    sides_of_a = (".....\n.aaa.\n.aaa.\n.....\n.....", ".....\n.aaa.\n.aaa.\n.aaa.\n.....")
    seen = look(judged_case(*sides_of_a, scale=SCALE))
    sides = seen.pixels[SCALE : 3 * SCALE, SCALE], seen.pixels[3 * SCALE - 1, SCALE : 4 * SCALE]  # of the reference
    assert all((side == colour("matched")).all() for side in sides)
    assert 0.2 < (seen.pixels[4 * SCALE - 1, SCALE : 4 * SCALE] == colour("matched")).all(axis=1).mean() < 0.8


def test_counts_of_states() -> None:
    states = states_of(judged_case(*FIVE))
    assert {state: number for state, number in states.items() if number} == {
        "matched": 1, "missed": 1, "spurious": 1, "wrong_class": 1
    }  # fmt: skip


def test_names_decide_under_a_rule_that_looks_at_classes() -> None:
    """The rule finds no pair, but the picture tells what is the matter."""
    case = judged_case(*FIVE, scale=SCALE, rule="iou_above", threshold=0.5, class_aware=True)
    assert look(case).share("wrong_class", *BOXES["wrong_class"]) == 1
    assert states_of(case)["wrong_class"] == 1


def test_the_ignore_region_is_hatched_and_what_left_because_of_it_is_grey() -> None:
    reference = "..........\n.####.....\n.####..aa.\n.####..aa.\n.........."
    prediction = "..........\n..........\n..bb...aa.\n..bb...aa.\n.........."
    case = judged_case(reference, prediction, "drop_centroid", scale=SCALE)
    seen = look(case)
    assert states_of(case)["ignored"] == 1 and states_of(case)["spurious"] == 0
    assert 0.4 < seen.share("ignored", 2, 2, 4, 4) < 0.75
    inside = seen.pixels[SCALE : SCALE * 4, SCALE : SCALE * 5].reshape(-1, 3)
    assert len(np.unique(inside, axis=0)) == 3  # background, hatching, and the line
    assert not seen.has("spurious")


def test_a_case_that_was_not_submitted_is_all_missed() -> None:
    prepared = PreparedReference(
        nuclei(letters([".....", ".aa..", ".aa.."]).repeat(SCALE, 0).repeat(SCALE, 1)),
        judged_case(*FIVE).matched.reference.ignore,
    )
    case = judged(challenge_of(), prepared, None)
    assert states_of(case) == {"matched": 0, "missed": 1, "spurious": 0, "wrong_class": 0, "ignored": 0}
    assert look(case).share("missed", 1, 1, 3, 3) == 1


def test_contested_pixels_are_filled() -> None:
    two = [
        nuclei(letters(rows).repeat(SCALE, 0).repeat(SCALE, 1))
        for rows in (["......", ".aaa..", "......"], ["......", "...bb.", "......"])
    ]
    options: dict[str, Any] = {"vanished": None, "vertices": None, "origin": None}
    prepared = prepare_reference(two, (3 * SCALE, 6 * SCALE), overlap="last", overlap_scope="image", **options)
    pixels = look(judged(challenge_of(), prepared, two[0])).pixels
    inner = pixels[SCALE + 2 : 2 * SCALE - 2, 3 * SCALE + 2 : 4 * SCALE - 2].reshape(-1, 3)
    other = pixels[SCALE + 2 : 2 * SCALE - 2, SCALE + 2 : 2 * SCALE - 2].reshape(-1, 3)
    assert len(np.unique(inner, axis=0)) == 1 and inner[0, 2] < 150 < inner[0, 0]  # yellow
    assert other[0, 2] > 200


def test_a_mistake_lies_over_a_matched_line() -> None:
    case = judged_case("......\n.aabb.\n.aabb.\n......", "......\n.aa...\n.aa...\n......", scale=SCALE)
    seen = look(case)
    assert seen.share("missed", 1, 3, 3, 5) == 1


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["....\n....", "a...\n....", "....\n...a", "aaaa\naaaa", "a.a.\n.a.a"])
@pytest.mark.parametrize("prediction", ["....\n....", "b...\n....", "bbbb\nbbbb"])
def test_empty_sides_single_pixels_and_nuclei_that_fill_the_image(reference: str, prediction: str) -> None:
    case = judged_case(reference, prediction)
    seen = look(case)
    drawn = any(seen.has(state) for state in BOXES)
    assert drawn == ("a" in reference or "b" in prediction)
    assert overlay_geojson(drawing_of(case), CLASSES, facts_of(case))


def test_lines_at_the_border_of_the_image_are_seen() -> None:
    pixels = look(judged_case("aaa\naaa\naaa", "...\n...\n...", scale=SCALE)).pixels
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge == colour("missed")).all()


@pytest.mark.parametrize("step", [2, 3])
def test_a_reduced_picture_has_a_line_where_the_whole_one_has(step: int) -> None:
    """With colours of one state a pixel of the reduced picture is a line exactly if one of its block is."""
    case = judged_case("......\n.aaa..\n.aaa.b\n......", "......\n.aaa..\n.aaa.b\n......", scale=SCALE)
    height, width = case.matched.case.shape_yx
    whole, reduced = (
        (draw(drawing_of(case), View(0, 0, height, width, of)) == colour("matched")).all(axis=2) for of in (1, step)
    )
    padded = np.pad(whole, ((0, -height % step), (0, -width % step)))
    blocks = padded.reshape(padded.shape[0] // step, step, padded.shape[1] // step, step).any(axis=(1, 3))
    np.testing.assert_array_equal(reduced, blocks)


def prepared_of(labels: npt.NDArray[np.int64]) -> PreparedReference:
    instances = instances_from_labels(labels, np.ones(len(np.unique(labels[labels > 0])), int))
    nothing = prepare_reference(
        [], labels.shape, overlap="keep", overlap_scope="image", vanished=None, vertices=None, origin=None
    )  # type: ignore[arg-type]
    return PreparedReference(instances, nothing.ignore)


def test_the_tissue_is_seen_between_the_lines() -> None:
    case = judged_case(*FIVE, scale=SCALE)
    shape = case.matched.case.shape_yx
    image = np.random.default_rng(3).integers(0, 256, (*shape, 3)).astype(np.uint8)
    pixels = draw(drawing_of(case), View(0, 0, *shape), image)
    inside = np.s_[SCALE + 4 : 4 * SCALE - 4, SCALE + 4 : 4 * SCALE - 4]
    np.testing.assert_allclose(pixels[inside].astype(int), (2 * image[inside].astype(int) + 255) / 3, atol=8)
    beside = pixels[SCALE - 1, SCALE : 4 * SCALE]  # of the outline of a matched pair
    assert (beside == 255).all()


def test_the_png_holds_the_drawing_and_the_same_bytes_each_time() -> None:
    drawing, view = drawing_of(judged_case(*FIVE)), View(0, 0, 5, 25)
    png = overlay_png(drawing, view)
    np.testing.assert_array_equal(png_decode(png), draw(drawing, view))
    assert png == overlay_png(drawing_of(judged_case(*FIVE)), view)


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
    whole = View.whole((height, width), 700)
    assert (whole.y0, whole.x0, whole.y1, whole.x1) == (0, 0, height, width)
    assert max(whole.shape_yx) <= 700


# --- points -----------------------------------------------------------------------------------------------------------


def points(*places_xy: tuple[float, float]) -> Points:
    count = len(places_xy)
    places = np.array(places_xy, np.float64).reshape(count, 2)
    return Points(places, np.ones(count, np.int16), np.arange(count).astype(object))


def test_points_are_rings_and_crosses() -> None:
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
    assert {k: v for k, v in states_of(case).items() if v} == {"matched": 1, "missed": 1, "spurious": 1}
    pixels = draw(drawing_of(case), View(0, 0, 40, 60))
    assert (pixels[20, 37] == colour("missed")).all() and not (pixels[20, 30] == colour("missed")).all()  # a ring
    assert (pixels[30, 50] == colour("spurious")).all() and not (pixels[30, 57] == colour("spurious")).all()  # a cross
    document = json.loads(overlay_geojson(drawing_of(case), CLASSES, facts_of(case)))
    shapes = {f["properties"]["classification"]["name"]: f["geometry"]["coordinates"] for f in document["features"]}
    assert shapes["False negative"] == [30.5, 20.5] and shapes["False positive"] == [50.5, 30.5]


# --- GeoJSON ----------------------------------------------------------------------------------------------------------


def features_of(case: JudgedCase) -> list[dict[str, Any]]:
    document = json.loads(overlay_geojson(drawing_of(case), CLASSES, facts_of(case)))
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
    drawing = drawing_of(case)
    whole = png_decode(overlay_png(drawing, View.whole(labels.shape, 700)))
    assert whole.shape == (667, 667, 3)
    assert (whole == colour("matched")).all(axis=2).sum() > 10_000 * 12  # some 4 x 14 / 3 px round each
    features = overlay_geojson(drawing, CLASSES, facts_of(case))
    assert features.count(b'"Matched: reference"') == 10_000
