"""Scores over all nuclei or the best share of them."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from every_format import write_challenge
from hypothesis import given
from hypothesis import strategies as st
from literal import instances_of, iou_of_all, sides
from made_counts import counts_of, units_of
from pictures import score_all, score_pictures
from scipy.sparse import csr_array

from evaluation import Challenge, score_submission
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.scoring.from_arrays import score_instances
from evaluation.scoring.street import check_submission
from nuclei_metrics.metrics import every_nucleus
from nuclei_metrics.model import Units

CAP = 3.0


# --- against exact fractions ------------------------------------------------------------------------------------------


@st.composite
def cases(draw):
    """Confusion matrices of three classes with values on each pair, in quarters and thirds so that many are equal."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        cells = draw(st.lists(st.integers(0, 3), min_size=16, max_size=16))
        confusion = np.array(cells).reshape(4, 4)
        confusion[0, 0] = 0
        number = int(confusion[1:, 1:].sum())
        values = st.sampled_from([Fraction(1, 4), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(1)])
        distances = st.sampled_from([Fraction(half, 2) for half in (0, 1, 2, 5, 6, 18)])
        ious = draw(st.lists(values, min_size=number, max_size=number))
        hausdorff = draw(st.lists(distances, min_size=number, max_size=number))
        found.append((confusion, ious, hausdorff))
    weights = draw(st.lists(st.integers(0, 3), min_size=len(found), max_size=len(found)))
    return found, weights if any(weights) else [1] * len(weights)


def units_with(found, weights) -> Units:
    counted = []
    for confusion, ious, hausdorff in found:
        iou, distance = (np.array([float(value) for value in values]) for values in (ious, hausdorff))
        measures = {"iou": iou, "dice": iou, "hausdorff_px": distance, "hausdorff95_px": iou}
        counted.append(counts_of(confusion, measures=measures))
    return Units(units_of(*counted).table, csr_array(np.array([weights, [1] * len(weights), [5] * len(weights)])))


def nuclei_of(found, weights, place):
    """Each nucleus of the unit: class of the reference (0: spurious), of the prediction (0: missed), its value."""
    for case, weight in zip(found, weights, strict=True):
        confusion = case[0]
        pairs = [(i, j) for i in range(1, 4) for j in range(1, 4) for _ in range(confusion[i, j])]
        listed = [(i, j, value) for (i, j), value in zip(pairs, case[place], strict=True)]
        listed += [(i, 0, None) for i in range(1, 4) for _ in range(confusion[i, 0])]
        listed += [(0, j, None) for j in range(1, 4) for _ in range(confusion[0, j])]
        yield from listed * weight


def literal_best(nuclei, coverage, worst, class_id=0):
    values = [worst if value is None else value for i, _, value in nuclei if (i == class_id if class_id else i > 0)]
    values = sorted(min(value, worst) for value in values) if worst else sorted(values, reverse=True)
    wanted = math.ceil(coverage * len(values))
    return sum(values[:wanted], Fraction(0)) / wanted if values else None


def literal_mean(values):
    known = [value for value in values if value is not None]
    return sum(known, Fraction(0)) / len(known) if known else None


def literal_all(nuclei, worst, class_id=0):
    chosen = [(i, j, value) for i, j, value in nuclei if not class_id or i == class_id or (i == 0 and j == class_id)]
    values = [worst if value is None else value if worst == 0 else min(value, worst) for _, _, value in chosen]
    return sum(values, Fraction(0)) / len(values) if values else None


def compare(found, expected):
    assert found.value == (None if expected is None else pytest.approx(float(expected), abs=1e-11))


@given(cases(), st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(3, 4), Fraction(1)]))
def test_means_are_those_of_exact_fractions(made, coverage):
    found, weights = made
    units, share = units_with(found, weights), float(coverage)
    for place, measure, worst, cap in ((1, "iou", 0, None), (2, "hausdorff_px", 3, CAP)):
        for row, of in enumerate((weights, [1] * len(weights), [5] * len(weights))):
            nuclei = list(nuclei_of(found, of, place))
            of_classes = [literal_best(nuclei, coverage, worst, class_id) for class_id in (1, 2, 3)]
            best, best_of_classes = (
                function(units, measure, share, cap).at(row)
                for function in (every_nucleus.best_mean, every_nucleus.best_class_mean)
            )
            compare(best, literal_best(nuclei, coverage, worst))
            compare(best_of_classes, literal_mean(of_classes))
            compare(every_nucleus.all_mean(units, measure, cap).at(row), literal_all(nuclei, worst))
            of_classes = [literal_all(nuclei, worst, class_id) for class_id in (1, 2, 3)]
            compare(every_nucleus.all_class_mean(units, measure, cap).at(row), literal_mean(of_classes))


@given(cases())
def test_class_scores_are_those_of_exact_fractions(made):
    found, weights = made
    units = units_with(found, weights)
    nuclei = list(nuclei_of(found, weights, 1))
    recalls, shares = [], []
    for class_id in (1, 2, 3):
        predicted = [j for i, j, _ in nuclei if i == class_id]
        right = sum(j == class_id for j in predicted)
        if predicted:
            recalls.append((right + Fraction(predicted.count(0), 3)) / len(predicted))
        spurious = sum(i == 0 and j == class_id for i, j, _ in nuclei)
        if predicted or spurious:
            shares.append(Fraction(right, len(predicted) + spurious))
    compare(every_nucleus.recall_with_guesses(units).at(0), literal_mean(recalls))
    compare(every_nucleus.class_mean_accuracy(units).at(0), literal_mean(shares))
    right = sum(i == j for i, j, _ in nuclei)
    compare(every_nucleus.share_named_right(units).at(0), Fraction(right, len(nuclei)) if nuclei else None)


def test_many_samples_of_the_same_cases_are_counted_as_few_are():
    """Many units go through blocks of entries, few are written out (``metrics.ranks``)."""
    random = np.random.default_rng(4)
    made = []
    for _ in range(6):
        confusion = random.integers(0, 12, (4, 4))
        confusion[0, 0] = 0
        number = int(confusion[1:, 1:].sum())
        made.append(counts_of(confusion, iou_of_pairs=random.choice([0.6, 0.7, 0.71, 0.9], number)))
    table = units_of(*made).table
    weights = random.multinomial(6, [1 / 6] * 6, size=500)
    together = every_nucleus.best_mean(Units(table, csr_array(weights)), "iou", 0.5).value
    alone = [every_nucleus.best_mean(Units(table, csr_array(row[None])), "iou", 0.5).value[0] for row in weights]
    assert together.tolist() == alone


# --- shares, by hand --------------------------------------------------------------------------------------------------


def test_the_share_is_rounded_up_to_whole_nuclei():
    assert every_nucleus.share_of(np.array([1, 2, 3, 10, 30]), 0.1).tolist() == [1, 1, 1, 1, 3]
    assert every_nucleus.share_of(np.array([3, 7]), 0.333333).tolist() == [1, 3]


def test_the_curve_falls_with_the_coverage_and_ends_in_the_mean_over_all():
    result = score_all("aaaaa  aaaa.\n.....  .....\nbbb.c  bb...\n.....  .....\nD....  D....", families=("covered",))
    curves = result.details["coverage_curves"]
    (of_rule,) = curves["rules"].values()
    assert (curves["coverage"][0], curves["coverage"][-1]) == (0.05, 1.0)
    assert of_rule["iou"][9] == result.value("covered.iou.pooled")
    assert of_rule["iou_class_mean"][9] == result.value("covered.iou_class_mean.pooled")
    assert all(one >= other for one, other in zip(of_rule["iou"], of_rule["iou"][1:], strict=False))
    assert all(one <= other for one, other in zip(of_rule["hausdorff_px"], of_rule["hausdorff_px"][1:], strict=False))
    assert of_rule["iou"][-1] == pytest.approx((1 + 0.8 + 2 / 3 + 0) / 4, abs=1e-6)
    assert "coverage_curves" not in score_all("a a", families=("detection",)).details


def test_one_class_has_no_recall_and_what_has_no_spacing_no_um():
    assert every_nucleus.recall_with_guesses(units_of(counts_of([[0, 1], [1, 4]]))).at(0).undefined == "one-class"
    case = counts_of([[0, 0], [0, 1]])
    lacking = replace(case, measures={**case.measures, "hausdorff_um": np.array([np.nan])})
    units = units_of(lacking, measures=("iou", "hausdorff_um"))
    assert every_nucleus.best_mean(units, "hausdorff_um", 0.5, 1.0).at(0).undefined == "no-spacing"


# --- silence and guessing do not pay ----------------------------------------------------------------------------------


@st.composite
def images_of_blocks(draw):
    """Rectangles, disjoint on each side; those of the prediction often lie near those of the reference."""
    reference, classes = draw(sides(12, 12, overlap=False).filter(lambda side: len(side[0])))
    near = [np.roll(mask, (draw(st.integers(-1, 1)), draw(st.integers(-1, 1))), (0, 1)) for mask in reference]
    prediction: list[np.ndarray] = []
    for mask in (*near, *draw(sides(12, 12, overlap=False, most=4))[0]):
        prediction.append(mask & ~np.any([np.zeros_like(mask), *prediction], axis=0))
    masks = np.array([mask for mask in prediction if mask.any()]).reshape(-1, 12, 12)
    return (reference, classes), (masks, draw(st.lists(st.integers(1, 3), min_size=len(masks), max_size=len(masks))))


def challenge_of(threshold: float = 0.5) -> Challenge:
    rule = {"name": "iou", "rule": "iou_above", "threshold": threshold, "class_aware": False, "ties": "first_pixel"}
    return Challenge.from_preset(
        "monusac2020",
        name="silence",
        classes=[{"name": name} for name in "abc"],
        matching={"rules": [rule]},
        metrics={
            "families": ["covered", "overall"],
            "measures": ["iou", "dice", "hausdorff_px"],
            "coverage": 0.5,
            "distance_cap_px": 5.0,
        },
        ranking=None,
    )


def scored(reference, prediction, kept=None, threshold: float = 0.5) -> dict[str, float]:
    """The pooled scores, the higher the better; with some of the predictions only."""
    masks, classes = prediction
    kept = range(len(masks)) if kept is None else kept
    chosen = instances_of(masks[list(kept)], [classes[index] for index in kept])
    challenge = challenge_of(threshold)
    metrics = score_instances(challenge, {"image": (instances_of(*reference), chosen)}).metrics
    values = {
        f"{family}.{name}": of["pooled"] for family in ("covered", "overall") for name, of in metrics[family].items()
    }
    return {path: -value if "hausdorff" in path else value for path, value in values.items() if value is not None}


@given(images_of_blocks(), st.data())
def test_leaving_out_nuclei_never_raises_a_score_over_the_best_share(image, data):
    reference, prediction = image
    number = len(prediction[0])
    kept = [index for index in range(number) if data.draw(st.booleans())]
    before, after = scored(reference, prediction), scored(reference, prediction, kept)
    for path in before:
        if path.startswith("covered.") and path != "covered.class_recall":
            assert after[path] <= before[path] + 1e-9, path


@given(images_of_blocks(), st.data(), st.sampled_from([0.5, 0.7]))
def test_leaving_out_a_pair_or_adding_a_spurious_nucleus_never_raises_a_score_over_all(image, data, threshold):
    """Leaving out a spurious one does. What is left out here are predictions of pairs."""
    reference, prediction = image
    masks = prediction[0]
    paired = {int(index) for index in np.flatnonzero((iou_of_all(reference[0], masks) > threshold).any(axis=0))}
    left_out = {index for index in paired if data.draw(st.booleans())}
    spurious = set(range(len(masks))) - paired
    everything = scored(reference, prediction, threshold=threshold)
    silent = scored(reference, prediction, sorted(set(range(len(masks))) - left_out), threshold)
    quiet = scored(reference, prediction, sorted(paired), threshold) if paired else {}
    for path in everything:
        if path.startswith("overall."):
            assert silent[path] <= everything[path] + 1e-9, path
            if spurious and "class_mean" not in path and path in quiet:
                assert everything[path] <= quiet[path] + 1e-9, path


def test_a_second_overlapping_prediction_can_raise_both():
    """A nucleus with two predictions, IoU 3/5 and 4/5, and one that is missed, or five.

    Over all nuclei the second one adds 1/5 and is one nucleus more: it pays where the mean is below 1/5.
    """

    def of(missed: int, lengths: tuple[int, ...]) -> dict[str, float]:
        reference = np.zeros((1 + missed, 3, 5 + 2 * missed), bool)
        reference[0, 1, :5] = True
        for index in range(1, 1 + missed):
            reference[index, 1, 4 + 2 * index] = True
        prediction = np.zeros((len(lengths), *reference.shape[1:]), bool)
        for index, length in enumerate(lengths):
            prediction[index, 1, :length] = True
        return scored((reference, [1] * len(reference)), (prediction, [1] * len(prediction)))

    assert (of(1, (3,))["covered.iou"], of(1, (3, 4))["covered.iou"]) == pytest.approx((3 / 5, 4 / 5))
    assert (of(1, (3,))["overall.iou"], of(1, (3, 4))["overall.iou"]) == pytest.approx((3 / 10, 4 / 15), abs=1e-6)
    assert (of(5, (3,))["overall.iou"], of(5, (3, 4))["overall.iou"]) == pytest.approx((3 / 30, 4 / 35), abs=1e-6)


def test_below_an_iou_of_one_half_leaving_a_prediction_out_can_raise_a_score():
    """A nucleus in two predictions of IoU 2/5 and 3/5, at a threshold of 0.3: both could be its partner."""
    reference = np.ones((1, 1, 10), bool)
    parts = np.zeros((2, 1, 10), bool)
    parts[0, :, :4], parts[1, :, 4:] = True, True
    both, one = (scored((reference, [1]), (parts, [1, 1]), kept, threshold=0.3) for kept in ([0, 1], [1]))
    assert one["overall.iou"] > both["overall.iou"]


def test_averaged_inside_patients_never_predicting_a_rare_class_pays_and_pooled_it_costs():
    """The rare class C: in image 1 half of it is found, in two images without it one is predicted each."""
    named = "a.b.C.D a.b.C..\n\na.b.... a.b.E..\n\na.b.... a.b.F.."
    silent = "a.b.C.D a.b....\n\na.b.... a.b....\n\na.b.... a.b...."

    def of(picture: str, mean: str) -> float:
        value = score_pictures(f"overall.accuracy_class_mean.{mean}", picture)
        assert isinstance(value, float)
        return value

    assert of(silent, "case_mean") > of(named, "case_mean")
    assert of(silent, "pooled") < of(named, "pooled")


# --- rules ------------------------------------------------------------------------------------------------------------

METRICS = {
    "families": ["covered", "overall"],
    "measures": ["iou", "hausdorff_px"],
    "coverage": 0.5,
    "distance_cap_px": 10.0,
}


@pytest.mark.parametrize("metrics, code, where, got", [
    ({"coverage": None}, "contradictory-rules", "metrics.coverage", "missing"),
    ({"coverage": 0}, "invalid-rule", "metrics.coverage", "0"),
    ({"coverage": 1.5}, "invalid-rule", "metrics.coverage", "1.5"),
    ({"coverage": 1 / 3}, "invalid-rule", "metrics.coverage", "0.333"),
    ({"families": ["overall"]}, "contradictory-rules", "metrics.coverage", "without the family"),
    ({"distance_cap_px": None}, "contradictory-rules", "metrics.distance_cap_px", "missing"),
    ({"distance_cap_px": -1.0}, "invalid-rule", "metrics.distance_cap_px", "-1"),
    ({"distance_cap_um": 3.0}, "contradictory-rules", "metrics.distance_cap_um", "without a distance in um"),
    ({"measures": ["iou"]}, "contradictory-rules", "metrics.distance_cap_px", "without a distance in px"),
])  # fmt: skip
def test_values_that_make_no_sense_are_refused(metrics, code, where, got):
    given = {key: value for key, value in {**METRICS, **metrics}.items() if value is not None}
    with pytest.raises(ChallengeBroken) as broken:
        Challenge.from_preset("monusac2020", name="rules", metrics=given, ranking=None)
    (finding,) = broken.value.findings
    assert (finding.code, finding.where) == (code, f"challenge.toml: {where}")
    assert got in finding.got


# --- every nucleus of a file counts once: none vanishes, counts twice, or is refused without being at fault -----------


def change(challenge, old, new):
    path = challenge / "challenge.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def move_polygons(folder, place):
    """``place`` gives the vertices of nucleus k from those it has."""
    for path in folder.glob("c*.json"):
        document = json.loads(path.read_text())
        for k, polygon in enumerate(document["polygons"]):
            polygon["path_points"] = place(k, polygon["path_points"])
        path.write_text(json.dumps(document))


def test_outlines_that_vanish_are_told_unless_they_get_their_nearest_pixel(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    for folder in (challenge / "reference", submission):
        move_polygons(folder, lambda k, _: [[5 * k + 0.1, 3.1, 0], [5 * k + 0.3, 3.1, 0], [5 * k + 0.3, 3.3, 0]])
    with pytest.raises(SubmissionRejected, match="everything-outside"):
        score_submission(challenge, submission, workers=1)
    change(challenge, 'vanished = "drop"', 'vanished = "pixel"')
    result = score_submission(challenge, submission, workers=1)
    assert (result.value("detection.f1.pooled"), result.findings) == (1.0, ())


def test_reference_files_of_a_class_count_in_other_letters_and_only_once(tmp_path):
    challenge, submission = write_challenge("label_image by class", tmp_path)
    change(challenge, '{name = "Epithelial"}', '{name = "Epithelial", aliases = ["Epi"]}')
    before = "Epithelial.tif"
    for name in ("epithelial.tif", "EPITHELIAL.tif", "Epi.tif"):
        for path in list((challenge / "reference").rglob(before)):
            path.rename(path.with_name(name))
        assert score_submission(challenge, submission, workers=1).value("detection.f1.pooled") == 1.0
        before = name
    shutil.copy(challenge / "reference" / "c1" / "Epi.tif", challenge / "reference" / "c1" / "Epithelial.tif")
    with pytest.raises(ChallengeBroken, match="duplicate-file"):
        score_submission(challenge, submission, workers=1)


def test_validate_says_no_more_than_is_known_when_a_case_cannot_be_read(tmp_path):
    challenge, submission = write_challenge("polygons_json", tmp_path)
    move_polygons(submission, lambda k, xyz: [[x + 900, y, z] for x, y, z in xyz])
    _, before = check_submission(challenge, submission, workers=1)
    assert "everything-outside" in {finding.code for finding in before}
    (submission / "c1.json").write_text("{")
    _, findings = check_submission(challenge, submission, workers=1)
    assert {finding.code for finding in findings} == {"not-json", "outside-image"}


def test_a_submission_of_which_all_is_left_out_is_refused(tmp_path):
    challenge, submission = write_challenge("geojson points", tmp_path)
    change(challenge, 'shape = "point"', 'shape = "point", other_shapes = "skip"')
    assert score_submission(challenge, submission, workers=1)
    for path in submission.glob("*.geojson"):
        text = json.loads(path.read_text())
        for feature in text["features"]:
            feature["geometry"] = {"type": "Polygon", "coordinates": [[[1, 1], [3, 1], [3, 3], [1, 1]]]}
        path.write_text(json.dumps(text))
    with pytest.raises(SubmissionRejected, match=r"everything-outside.*no nuclei; .* annotations were ignored"):
        score_submission(challenge, submission, workers=1)
    assert "everything-outside" in {finding.code for finding in check_submission(challenge, submission, workers=1)[1]}


def test_files_of_crowds_alone_hold_no_nucleus_and_are_scored(tmp_path):
    challenge, submission = write_challenge("coco_json", tmp_path)
    documents = {path: json.loads(path.read_text()) for path in submission.glob("*.json")}
    for path, document in documents.items():
        for annotation in document["annotations"]:
            annotation["iscrowd"] = 1
        path.write_text(json.dumps(document))
    assert score_submission(challenge, submission, workers=1).value("detection.recall.pooled") == 0
    for path, document in documents.items():
        height, width = (document["images"][0][side] for side in ("height", "width"))
        nothing = {"segmentation": {"size": [height, width], "counts": [height * width]}, "iscrowd": 0, "id": 99}
        document["annotations"].append({**document["annotations"][0], **nothing})
        path.write_text(json.dumps(document))
    with pytest.raises(SubmissionRejected, match="everything-outside"):
        score_submission(challenge, submission, workers=1)
