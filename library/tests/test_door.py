"""The functions of one image: values by hand, slow literal versions, and other people's libraries."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_sides import NOTHING, PREDICTION, REFERENCE, label_maps, labels_of, picture
from skimage.metrics import adapted_rand_error
from skimage.metrics import variation_of_information as skimage_vi

import nuclei_metrics as nm
from nuclei_metrics import (
    ImagePair,
    Matching,
    Score,
    adapted_rand,
    aji,
    aji_plus,
    average_precision,
    boundary_iou,
    confusion_matrix,
    detection_scores,
    dice,
    ensemble_dice,
    hausdorff,
    instances_from_labels,
    instances_from_points,
    match,
    match_centroids,
    match_confidence,
    mean_surface_distance,
    object_dice,
    object_f1,
    object_hausdorff,
    pair_dice,
    panoptic_quality,
    panoptic_scores,
    seg,
    surface_dice,
    threat_score,
    variation_of_information,
)

OF_SIDES = (
    aji, aji_plus, dice, ensemble_dice, object_f1, object_dice, object_hausdorff, seg, panoptic_quality, threat_score,
)  # fmt: skip


def literal_iou(reference: np.ndarray, prediction: np.ndarray) -> dict[tuple[int, int], Fraction]:
    found = {}
    for a in labels_of(reference):
        for b in labels_of(prediction):
            shared = int(((reference == a) & (prediction == b)).sum())
            if shared:
                found[a, b] = Fraction(shared, int(((reference == a) | (prediction == b)).sum()))
    return found


# --- matches ----------------------------------------------------------------------------------------------------------


@given(label_maps(), st.sampled_from([0.5, 0.6, 0.75]), st.booleans())
def test_pairs_above_one_half_are_those_of_a_loop_over_all_pairs(maps, iou, strict):
    limit = Fraction(str(iou))
    expected = {p: q for p, q in literal_iou(*maps).items() if q > limit or (q == limit and not strict)}
    found = match(*maps, iou=iou, strict=strict)
    pairs = [tuple(pair) for pair in found.pairs.tolist()]
    if iou > 0.5 or strict:
        assert dict(zip(pairs, found.iou.tolist(), strict=True)) == {p: float(q) for p, q in expected.items()}
    else:
        assert set(pairs) <= set(expected)
    assert sorted([a for a, _ in pairs] + found.missed.tolist()) == labels_of(maps[0])
    assert sorted([b for _, b in pairs] + found.spurious.tolist()) == labels_of(maps[1])
    counts = found.true_positives, found.false_negatives, found.false_positives
    assert counts == (len(pairs), len(found.missed), len(found.spurious))


def test_exactly_at_the_threshold_strict_decides():
    two_thirds, half = (picture("aab"), picture("cc.")), (picture("aa.."), picture("c..."))
    for sides, iou in ((two_thirds, 1.0), (half, 0.5)):
        assert match(*sides, iou=iou).true_positives == 0
        assert match(*sides, iou=iou, strict=False).true_positives == 1
    sides = picture("aa."), picture("ccc")
    assert [match(*sides, iou=2 / 3, strict=strict).true_positives for strict in (True, False)] == [0, 1]


def test_of_two_rivals_at_exactly_one_half_the_first_by_position_matches():
    assert match(picture("bbaa"), picture("cccc"), strict=False).pairs.tolist() == [[2, 3]]


def test_below_one_half_the_most_pairs_are_taken_and_then_the_greatest_iou():
    found = match(picture("aaaabb"), picture("cddddd"), iou=0.1)
    assert found.pairs.tolist() == [[1, 3], [2, 4]]


@given(label_maps())
def test_relabelling_changes_no_pair(maps):
    reference, prediction = maps
    found, renamed = (
        match(reference, prediction, iou=0.2),
        match(7 * reference, (prediction > 0) * (30 - prediction), iou=0.2),
    )
    assert {(7 * a, 30 - b) for a, b in found.pairs.tolist()} == {tuple(pair) for pair in renamed.pairs.tolist()}


def test_class_aware_pairs_have_one_class():
    sides = picture("aa.bb"), picture("cc.dd")
    classes = {"reference_class": [1, 2], "prediction_class": {3: 1, 4: 1}}
    assert match(*sides, class_aware=True, **classes).pairs.tolist() == [[1, 3]]
    assert match(*sides, **classes).pairs.tolist() == [[1, 3], [2, 4]]


def test_the_nearest_candidate_of_what_was_missed_and_of_what_is_spurious():
    found = match(REFERENCE, PREDICTION)
    assert found.pairs.tolist() == [[1, 4], [3, 5]]
    missed, spurious = found.nearest(), found.nearest("spurious")
    assert (found.missed.tolist(), missed.label.tolist(), missed.iou.tolist()) == ([2], [6], [0.0])
    assert missed.distance_px.tolist() == [1.5]  # row 1/2, column 4 to row 2, column 4
    assert missed.taken.tolist() == [False]
    assert (found.spurious.tolist(), spurious.label.tolist()) == ([6], [2])
    poor = match(REFERENCE, PREDICTION, iou=0.9).nearest()
    assert (poor.label[0], poor.iou[0]) == (4, 5 / 6)


def test_a_candidate_that_another_nucleus_has_is_taken():
    found = match(picture("aaaab"), picture("ccccc"))
    assert (found.missed.tolist(), found.nearest().label.tolist()) == ([2], [3])
    assert (found.nearest().iou.tolist(), found.nearest().taken.tolist()) == ([0.2], [True])


def test_a_spurious_prediction_on_a_nucleus_that_has_another_is_told():
    nearest = match(picture("ccccc"), picture("aaaab")).nearest("spurious")
    assert (nearest.label.tolist(), nearest.taken.tolist()) == ([3], [True])


def test_the_candidate_with_the_highest_iou_comes_before_a_nearer_one():
    nearest = match(picture("aaaaaaaa"), picture("ddd.e...")).nearest()
    assert (nearest.label.tolist(), nearest.iou.tolist(), nearest.distance_px.tolist()) == ([4], [0.375], [2.5])


def test_the_nearest_candidate_is_found_whatever_the_order_of_labels():
    assert match(picture("...c.."), picture("..b..a")).nearest().label.tolist() == [2]


def test_without_the_other_side_there_is_no_candidate():
    nearest = match(REFERENCE, NOTHING).nearest()
    assert nearest.label.tolist() == [0, 0, 0]
    assert np.isnan(nearest.distance_px).all()
    assert not nearest.taken.any()


def test_kinds_of_errors():
    found = match(picture("aaaa.bbcc"), picture("ddee.ffff"))
    assert found.kinds("reference").tolist() == ["split", "merged", "merged"]
    assert found.kinds("prediction").tolist() == ["split", "split", "merged"]
    named = match(picture("aa"), picture("cc"), reference_class=[1], prediction_class=[2])
    assert named.kinds("reference").tolist() == ["wrong_class"]
    with pytest.raises(ValueError, match="kinds of 'missed'"):
        found.kinds("missed")


def test_centroids_match_within_a_radius():
    sides = picture("a....b"), picture(".c...d")
    assert match_centroids(*sides, radius_px=1).pairs.tolist() == [[1, 3], [2, 4]]
    assert match_centroids(*sides, radius_px=0.5).pairs.tolist() == [[2, 4]]
    row = [(0, 0), (0, 3)], [(0, 2), (0, 5)]
    points = [instances_from_points(side, (1, 6)) for side in row]
    assert match_centroids(*points, radius_px=2).pairs.tolist() == [[2, 1]]
    assert match_centroids(*points, radius_px=2, method="assignment").pairs.tolist() == [[1, 1], [2, 2]]


def test_the_most_confident_prediction_chooses_first():
    masks = [picture("aa.."), picture("aaa.")]
    by = [match_confidence(picture("aaa."), masks, confidence=c).pairs.tolist() for c in ([0.9, 0.1], [0.1, 0.9])]
    assert by == [[[1, 1]], [[1, 2]]]


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_of_detection_by_hand():
    found = detection_scores(REFERENCE, PREDICTION)  # tp 2, fp 1, fn 1
    assert found == (Score(2 / 3), Score(2 / 3), Score(2 / 3), Score(0.5))
    assert threat_score(REFERENCE, PREDICTION, iou=(0.5, 0.9)) == Score((2 / 4 + 1 / 5) / 2)
    assert panoptic_scores(REFERENCE, PREDICTION) == (Score((5 / 6 + 1) / 3), Score((5 / 6 + 1) / 2), Score(2 / 3))


@pytest.mark.parametrize("function", OF_SIDES)
def test_two_empty_sides_have_no_score_and_a_copy_has_the_best(function):
    assert function(NOTHING, NOTHING) == Score(None, "no-instances")
    assert function(REFERENCE, REFERENCE) == Score(0.0 if function is object_hausdorff else 1.0)


def test_an_undefined_score_is_no_number():
    nothing = panoptic_quality(NOTHING, NOTHING)
    with pytest.raises(ValueError, match="no-instances"):
        float(nothing)
    assert (nothing.value_or(0.5), Score(0.25).value_or(0.5), float(Score(0.25))) == (0.5, 0.25, 0.25)
    assert detection_scores(REFERENCE, NOTHING) == (Score(0.0), Score(None, "no-prediction"), Score(0.0), Score(0.0))
    assert detection_scores(NOTHING, PREDICTION).recall == Score(None, "no-reference")


@given(label_maps())
def test_aji_is_its_first_algorithm(maps):
    reference, prediction = maps
    iou, used = literal_iou(*maps), set()
    top = bottom = 0
    for a in labels_of(reference):
        rivals = {b: q for (other, b), q in iou.items() if other == a}
        if not rivals:
            bottom += int((reference == a).sum())
            continue
        best = [b for b, q in rivals.items() if q == max(rivals.values())]
        if len(best) > 1:
            return  # the partner is a matter of taste
        used.add(best[0])
        top += int(((reference == a) & (prediction == best[0])).sum())
        bottom += int(((reference == a) | (prediction == best[0])).sum())
    bottom += sum(int((prediction == b).sum()) for b in labels_of(prediction) if b not in used)
    assert aji(*maps) == (Score(top / bottom) if bottom else Score(None, "no-instances"))


@given(label_maps())
def test_seg_is_a_loop_over_the_reference(maps):
    reference, prediction = maps
    values = []
    for a in labels_of(reference):
        own = reference == a
        covering = [b for b in labels_of(prediction) if 2 * (own & (prediction == b)).sum() > own.sum()]
        values.append(max([float(literal_iou(*maps)[a, b]) for b in covering], default=0.0))
    empty = "no-reference" if prediction.any() else "no-instances"
    assert seg(*maps) == (Score(math.fsum(values) / len(values)) if values else Score(None, empty))


@given(label_maps())
def test_the_adapted_rand_error_is_that_of_scikit_image(maps):
    reference, prediction = maps
    found = adapted_rand(reference, prediction)
    if not reference.any():
        assert found.error == Score(None, "no-reference" if prediction.any() else "no-instances")
        return
    with np.errstate(invalid="ignore"):
        error, recall, precision = adapted_rand_error(reference, prediction)
    for score, expected in ((found.error, error), (found.precision, precision), (found.recall, recall)):
        assert score.value_or(math.nan) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_precision_falls_with_merges_and_recall_with_splits():
    whole, cut = picture("aaaa"), picture("bbcc")
    assert adapted_rand(whole, cut) == (Score(0.5), Score(1.0), Score(4 / 12))
    assert adapted_rand(cut, whole) == (Score(0.5), Score(4 / 12), Score(1.0))
    assert variation_of_information(whole, cut) == (Score(1.0), Score(0.0))
    assert variation_of_information(cut, whole) == (Score(0.0), Score(1.0))


@given(label_maps())
def test_the_variation_of_information_is_that_of_scikit_image(maps):
    reference, prediction = maps
    found = variation_of_information(reference, prediction)
    if reference.any():
        expected = skimage_vi(reference, prediction, ignore_labels=(0,))
        assert [found.split.value, found.merge.value] == pytest.approx(expected.tolist(), abs=1e-12)
    else:
        assert found.merge == Score(None, "no-reference" if prediction.any() else "no-instances")


@given(label_maps())
def test_dice_is_that_of_two_masks(maps):
    a, b = (side > 0 for side in maps)
    both = int(a.sum() + b.sum())
    assert dice(*maps) == (Score(2 * int((a & b).sum()) / both) if both else Score(None, "no-instances"))


def test_average_precision_needs_a_confidence_and_says_what_needs_none():
    with pytest.raises(ValueError, match="threat_score"):
        average_precision(REFERENCE, PREDICTION)
    assert average_precision(REFERENCE, NOTHING) == Score(0.0)


def test_average_precision_takes_the_confident_first():
    first, last = ([0.9, 0.8, 0.1], [0.1, 0.2, 0.9])
    # recall 1/3 and 2/3 at precision 1: 67 of 101 recalls; with the false positive first, at 1/2 and 2/3
    assert average_precision(REFERENCE, PREDICTION, confidence=first, iou=0.5) == Score(67 / 101)
    late = average_precision(REFERENCE, PREDICTION, confidence=last, iou=0.5)
    assert late.value == pytest.approx(67 * (2 / 3) / 101)


def test_the_confusion_matrix_by_hand():
    classes = {"reference_class": [1, 2, 2], "prediction_class": [2, 2, 1]}
    expected = [[0, 1, 0], [0, 0, 1], [1, 0, 1]]
    assert confusion_matrix(REFERENCE, PREDICTION, **classes).tolist() == expected
    assert confusion_matrix(REFERENCE, PREDICTION, **classes, classes=3).shape == (4, 4)
    with pytest.raises(ValueError, match="class ids are 1 to 2, not 1 to 1"):
        confusion_matrix(REFERENCE, PREDICTION, **classes, classes=1)


# --- outlines ---------------------------------------------------------------------------------------------------------


def test_distances_of_pairs_have_the_unit_of_the_spacing():
    found = match(picture("aaaa"), picture("ccc."))
    assert hausdorff(found).tolist() == [1.0]
    assert hausdorff(found, spacing=0.25).tolist() == [0.25]
    assert mean_surface_distance(found, spacing=7.0).tolist() == [1.0]  # 1 px over 4 + 3 pixels
    assert surface_dice(found, tolerance=0.0, by="pixels").tolist() == [6 / 7]
    assert surface_dice(found, tolerance=0.25, spacing=0.25, by="pixels").tolist() == [1.0]
    assert surface_dice(found, tolerance=0.25, spacing=0.5, by="pixels").tolist() == [6 / 7]
    assert 0 < surface_dice(found, tolerance=0.0)[0] < 1
    assert (pair_dice(found).tolist(), boundary_iou(found, width_px=1).tolist()) == ([6 / 7], [0.75])


def test_an_open_border_is_no_boundary():
    reference, prediction = np.ones((5, 9), int), np.ones((5, 9), int)
    prediction[:, 6:] = 0
    found = match(reference, prediction)
    assert hausdorff(found).tolist() == [3.0]
    assert boundary_iou(found, width_px=1, border="open").tolist() != boundary_iou(found, width_px=1).tolist()


def test_hd95_is_below_the_distance_of_an_outlier():
    reference, prediction = np.zeros((2, 24, 30), int)
    reference[2:20, 2:20] = prediction[2:20, 2:20] = 1
    prediction[10, 20:26] = 1
    found = match(reference, prediction)
    assert hausdorff(found).tolist() == [6.0]
    assert hausdorff(found, percentile=95)[0] < 6


def test_what_has_no_outlines_is_refused():
    points = [instances_from_points([(0, 0)], (2, 2))] * 2
    found = match_centroids(*points, radius_px=1)
    with pytest.raises(ValueError, match="points have no outlines"):
        hausdorff(found)
    assert aji(*points) == Score(None, "points-only")


# --- sides ------------------------------------------------------------------------------------------------------------


class OnlyDlpack:
    """An array with DLPack alone, as of a library that NumPy does not know."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


class OnTheGpu(OnlyDlpack):
    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        raise BufferError("a CUDA tensor")


MASKS = np.stack([label == REFERENCE for label in (1, 2, 3)])
SAME_SIDE = {
    "labels": REFERENCE,
    "labels with gaps": np.array([0, 5, 900, 2**40])[REFERENCE],
    "float": REFERENCE.astype(float),
    "uint8": REFERENCE.astype(np.uint8),
    "rows": REFERENCE.tolist(),
    "masks": MASKS,
    "list of masks": list(MASKS),
    "instances": instances_from_labels(REFERENCE, class_id=1),
    "dlpack": OnlyDlpack(REFERENCE),
    "dlpack masks": [OnlyDlpack(mask.astype(np.uint8)) for mask in MASKS],
    "not contiguous": np.asfortranarray(REFERENCE),
}


@pytest.mark.parametrize("kind", SAME_SIDE)
def test_a_side_may_come_in_many_forms(kind):
    values = [function(SAME_SIDE[kind], PREDICTION) for function in OF_SIDES]
    assert values == [function(REFERENCE, PREDICTION) for function in OF_SIDES]
    back = [function(PREDICTION, SAME_SIDE[kind]) for function in OF_SIDES]
    assert back == [function(PREDICTION, REFERENCE) for function in OF_SIDES]


def test_an_empty_list_is_an_empty_prediction():
    assert match(REFERENCE, []).missed.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="size of the image is not known"):
        match([], [])


def test_masks_may_overlap():
    masks = np.stack([picture("aaa..") > 0, picture(".aaa.") > 0])
    assert match(masks, masks).pairs.tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("reference", "prediction", "classes", "message"),
    [
        (REFERENCE, PREDICTION[:2], {}, r"is \(3, 5\) px, prediction \(2, 5\) px \(height, width\); expected one size"),
        (REFERENCE, PREDICTION + 0.5, {}, "prediction: labels are not all whole numbers"),
        (REFERENCE, OnTheGpu(PREDICTION), {}, r"prediction: .*a CUDA tensor; expected .* tensor.detach\(\).cpu\(\)"),
        (np.stack([REFERENCE] * 2), PREDICTION, {}, "reference: mask 1 has several labels"),
        (REFERENCE, None, {}, "no prediction; expected two sides"),
        (REFERENCE, PREDICTION, {"reference_class": [1, 2]}, r"reference: \(2,\) classes of int64 for 3 instances"),
        (REFERENCE, PREDICTION, {"prediction_class": {4: 1, 6: 1}}, r"prediction: no class for label 5 \(1 of 3"),
        (
            REFERENCE,
            PREDICTION,
            {"reference_class": NOTHING},
            r"reference: the class map has no class at label 1 \(3 of 3",
        ),
        (REFERENCE, PREDICTION, {"reference_class": NOTHING[:2]}, "class map of"),
        (ImagePair(REFERENCE, PREDICTION), PREDICTION, {}, "an ImagePair has both sides"),
    ],
)
def test_what_does_not_fit_is_a_value_error_that_names_it(reference, prediction, classes, message):
    with pytest.raises(ValueError, match=message):
        match(reference, prediction, **classes)


@pytest.mark.parametrize("iou", [-0.1, 1.5, math.nan])
def test_a_threshold_is_from_0_to_1(iou):
    with pytest.raises(ValueError, match="IoU thresholds"):
        match(REFERENCE, PREDICTION, iou=iou)


def test_a_class_map_gives_each_nucleus_the_class_of_most_of_its_pixels():
    class_map = np.where(PREDICTION > 0, 1, 0)
    class_map[0, :3] = 2
    pair = ImagePair(REFERENCE, PREDICTION, prediction_class=class_map)
    assert pair.prediction.class_id.tolist() == [2, 1, 1]


@pytest.mark.parametrize("pixels", [False, True])
def test_a_pair_is_read_once_and_gives_the_same_scores(pixels):
    pair = ImagePair(REFERENCE, PREDICTION, confidence=[0.5, 0.6, 0.7], pixels=pixels)
    assert match(pair).iou.tolist() == match(REFERENCE, PREDICTION).iou.tolist()
    assert [function(pair) for function in OF_SIDES] == [function(REFERENCE, PREDICTION) for function in OF_SIDES]
    assert average_precision(pair) == average_precision(REFERENCE, PREDICTION, confidence=[0.5, 0.6, 0.7])


def test_average_precision_of_a_pair_with_classes_is_a_mean_over_classes():
    pair = ImagePair(
        REFERENCE, PREDICTION, reference_class=[1, 2, 2], prediction_class=[1, 2, 2], confidence=[0.5, 0.6, 0.7]
    )
    half = 51 / 101 * 0.5  # of two nuclei one is found, behind a false positive
    assert average_precision(pair, iou=0.5).value == pytest.approx((1 + half) / 2)


def test_no_function_changes_its_input():
    reference, prediction = REFERENCE.copy(), PREDICTION.copy()
    reference.flags.writeable = prediction.flags.writeable = False
    for function in OF_SIDES:
        function(reference, prediction)
    assert np.array_equal(reference, REFERENCE)


def test_every_function_is_typed_documented_and_shows_an_example():
    for name in nm.__all__:
        thing = getattr(nm, name)
        if not inspect.isfunction(thing):
            continue
        assert ">>> " in (thing.__doc__ or ""), name
        signature = inspect.signature(thing)
        assert signature.return_annotation is not signature.empty, name
        assert all(p.annotation is not p.empty for p in signature.parameters.values()), name
        positional = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert len(positional) <= 3, name
    assert "tp=" in repr(match(REFERENCE, PREDICTION))
    assert isinstance(match(REFERENCE, PREDICTION), Matching)


@settings(max_examples=30)
@given(label_maps())
def test_one_more_spurious_nucleus_never_raises_a_score(maps):
    reference, prediction = (np.pad(side, ((0, 2), (0, 0))) for side in maps)
    more = prediction.copy()
    more[-1, 0] = 99
    for function in (panoptic_quality, threat_score, aji, aji_plus, dice, seg):
        before, after = function(reference, prediction), function(reference, more)
        assert after.value_or(0) <= before.value_or(1)


# --- a published example ----------------------------------------------------------------------------------------------

# From the documentation of torchmetrics' PanopticQuality: category and instance of each pixel. 0.5463 is the mean over
# the categories 0 and 1 (things), 6 and 7 (stuff).
OF_TORCHMETRICS = (
    ("60 01 60 01", "01 01 60 01", "01 01 60 10", "01 70 10 10", "01 70 70 70"),
    ("60 00 60 60", "00 00 60 01", "00 00 60 01", "00 70 60 10", "00 70 70 70"),
)


def test_the_published_example_of_torchmetrics_has_its_published_value():
    codes = [np.array([row.split() for row in rows]) for rows in OF_TORCHMETRICS]
    names = sorted({code for side in codes for code in side.ravel().tolist()})
    labels = [np.vectorize(lambda code: 1 + names.index(code))(side) for side in codes]
    of_label = {1 + index: 1 + "0167".index(code[0]) for index, code in enumerate(names)}
    val = nm.Evaluation(classes=["0", "1", "6", "7"], metrics=["panoptic"], class_aware=True)
    val.update(*labels, reference_class=of_label, prediction_class=of_label)
    assert val.compute()["panoptic.pq"].value == pytest.approx(0.5463, abs=5e-5)
