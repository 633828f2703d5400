"""Situations as drawings, and the value of every metric in each, worked out by hand.

Nothing here is computed by the program: a test scores the drawings and compares, and what the records of metrics
declare of empty sides too. ``pictures`` says how drawings are scored: classes lymphocyte (small letters) and tumor
(capital letters), a match above an IoU of 1/2, thresholds 0.5 and 0.75, a tolerance of 1 px, 0.5 um a pixel, FROC at
1/4 and 1/2 false positives per image. A confidence is the probability of the class that was predicted, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Situation:
    """A picture, and what it is called.

    confidence  of the predicted nuclei, by their letters
    as_points   nuclei are points at their centroids
    """

    title: str
    picture: str
    confidence: Mapping[str, float] = field(default_factory=dict)
    as_points: bool = False


BLANK = ".....  .....\n"
SITUATIONS: dict[str, Situation] = {
    "both_empty": Situation("Both sides empty", BLANK * 5),
    "no_prediction": Situation("No prediction: a lymphocyte is missed", "aa...  .....\n" * 2 + BLANK * 3),
    "no_reference": Situation("No reference: a lymphocyte is spurious", ".....  aa...\n" * 2 + BLANK * 3, {"a": 0.9}),
    "nothing_matched": Situation(
        "Nothing matched: a lymphocyte is missed, another one spurious",
        "aa...  .....\n" * 2 + BLANK + ".....  aa...\n" * 2,
        {"a": 0.9},
    ),
    "class_not_in_reference": Situation(
        "No lymphocyte in the reference: a tumor cell is found, a lymphocyte spurious",
        "AA...  AA...\n" * 2 + BLANK + ".....  bb...\n" * 2,
        {"A": 0.9, "b": 0.8},
    ),
    "class_not_in_prediction": Situation(
        "No lymphocyte in the prediction: a tumor cell is found, a lymphocyte missed",
        "AA...  AA...\n" * 2 + BLANK + "bb...  .....\n" * 2,
        {"A": 0.9},
    ),
    "class_on_neither_side": Situation(
        "No lymphocyte on either side: a tumor cell is found", "AA...  AA...\n" * 2 + BLANK * 3, {"A": 0.9}
    ),
    "one_nucleus": Situation(
        "One nucleus: a lymphocyte, detected, classified and segmented without fault",
        "aa...  aa...\n" * 2 + BLANK * 3,
        {"a": 0.9},
    ),
    "points": Situation(
        "One nucleus that is a point on both sides: a lymphocyte, detected with the right class",
        BLANK + ".a...  .a...\n" + BLANK * 3,
        {"a": 0.9},
        as_points=True,
    ),
    "ordinary": Situation(
        "An ordinary case: two images with three lymphocytes and two tumor cells found, one each missed",
        """
aaaaa  aaa..
.....  BBBBB
AAA..  AA...
AAA..  AA...
AAA..  AA...

cccc.  ccc..
.....  .....
DDDDD  dddee
..b..  ...G.
fffG.  ffff.
""",
        {"a": 0.9, "c": 0.7, "B": 0.6, "A": 0.55, "d": 0.5, "f": 0.45, "G": 0.3, "e": 0.2},
    ),
    "everything_ignored": Situation(
        "Everything ignored: the only nuclei lie in an ignore region",
        "####.  aabb.\n" * 2 + "####.  .....\n" + BLANK * 2,
        {"a": 0.9, "b": 0.8},
    ),
}
LIKE_BOTH_EMPTY = "everything_ignored"  # of all metrics, so it has no column of its own below
COLUMNS = tuple(name for name in SITUATIONS if name != LIKE_BOTH_EMPTY)

# The pairs of the ordinary case, reference - prediction: a - a, A - A, c - c, D - d (named wrong), f - f. Missed: b, G;
# spurious: B, e, G. So tp = 5, fp = 3, fn = 2. Of lymphocytes a, c, f are found and named, b is missed, d and e are
# wrong: tp = 3, fp = 2, fn = 1. Of tumor cells tp = 1 (A), fp = 2 (B, G), fn = 2 (D, G).
# IoU of the pairs: 3/5, 6/9, 3/4, 3/5, 3/4. Areas: reference 5 + 9 and 4 + 5 + 1 + 3 + 1, prediction 3 + 5 + 6 and
# 3 + 3 + 2 + 1 + 4. Confusion matrix of the pairs: lymphocytes 3, 0; tumor cells 1, 1.

UNMATCHED = "no-instances no-prediction no-reference nothing-matched"
ABSENT = "no-reference no-prediction no-instances"


def of_pairs(ordinary: str, *, best: str = "1", points: str = "points-only") -> str:
    """A mean over matched pairs: has a value wherever there is a pair."""
    return f"{UNMATCHED} {best} {best} {best} {best} {points} {ordinary}"


def of_class_pairs(ordinary: str, *, best: str = "1", points: str = "points-only") -> str:
    """A mean over the matched pairs of a class: says why there are none."""
    return f"{UNMATCHED} {ABSENT} {best} {points} {ordinary}"


def of_measure(
    measure: str,
    mean: str,
    class_mean: str,
    median: str,
    of_class: str,
    *,
    best: str = "1",
    points: str = "points-only",
) -> dict[str, str]:
    """The four numbers of a measure."""
    return {
        f"segmentation.{measure}": of_pairs(mean, best=best, points=points),
        f"segmentation.{measure}_class_mean": of_pairs(class_mean, best=best, points=points),
        f"segmentation.{measure}_median": of_pairs(median, best=best, points=points),
        f"segmentation.per_class.lymphocyte.{measure}": of_class_pairs(of_class, best=best, points=points),
    }


def of_nuclei(
    measure: str, covered: str, covered_class_mean: str, overall: str, *, cap: str = "", points: str = "points-only"
) -> dict[str, str]:
    """A measure over the better half of the reference nuclei, and over all nuclei.

    cap  of a distance: the cap, and half of it. Then a found nucleus has 0; else it has 1 and a missed one 0. In the
         ordinary case the overall values of both classes have 5 nuclei each, so that their mean is that of all
    """
    worst, half = cap.split() if cap else ("0", "1/2")
    best = "0" if cap else "1"
    covered_row = f"no-instances {worst} no-reference {worst} {best}"
    overall_row = f"no-instances {worst} {worst} {worst} {half} {half} {best} {best} {points} {overall}"
    return {
        f"covered.{measure}": f"{covered_row} {best} {best} {best} {points} {covered}",
        f"covered.{measure}_class_mean": f"{covered_row} {half} {best} {best} {points} {covered_class_mean}",
        f"overall.{measure}": overall_row,
        f"overall.{measure}_class_mean": overall_row,
    }


# In the order of COLUMNS.
WHAT_WHEN: dict[str, str] = {
    # detection
    "detection.precision": "no-instances no-prediction 0 0 1/2 1 1 1 1 5/8",
    "detection.recall": "no-instances 0 no-reference 0 1 1/2 1 1 1 5/7",
    "detection.f1": "no-instances 0 0 0 2/3 2/3 1 1 1 2/3",
    "detection.threat_score": "no-instances 0 0 0 1/2 1/2 1 1 1 1/2",
    "detection.macro_f1": "no-instances 0 0 0 1/2 1/2 1 1 1 1/2",
    "detection.per_class.lymphocyte.precision": "no-instances no-prediction 0 0 0 no-prediction no-instances 1 1 3/5",
    "detection.per_class.lymphocyte.recall": "no-instances 0 no-reference 0 no-reference 0 no-instances 1 1 3/4",
    "detection.per_class.lymphocyte.f1": "no-instances 0 0 0 0 0 no-instances 1 1 2/3",
    "detection.per_class.lymphocyte.f_c": "no-instances 0 0 0 0 0 no-instances 1 1 3/5",
    # classification
    "classification.balanced_accuracy": of_pairs("3/4", points="1"),
    "classification.accuracy": of_pairs("4/5", points="1"),
    "classification.mcc": of_pairs("sqrt(3/8)", best="one-class", points="one-class"),
    "classification.kappa": of_pairs("6/11", best="one-class", points="one-class"),
    "classification.macro_f1": of_pairs("16/21", points="1"),
    "classification.weighted_f1": of_pairs("82/105", points="1"),
    "classification.auroc": of_pairs("3/4", best="one-class", points="one-class"),
    "classification.per_class.lymphocyte.precision": of_class_pairs("2/3", points="1"),
    "classification.per_class.lymphocyte.recall": of_class_pairs("1", points="1"),
    "classification.per_class.lymphocyte.f1": of_class_pairs("4/5", points="1"),
    "classification.per_class.lymphocyte.counted_precision": of_class_pairs("3/4", points="1"),
    "classification.per_class.lymphocyte.counted_f1": of_class_pairs("6/7", points="1"),
    "classification.per_class.lymphocyte.auroc": of_pairs("3/4", best="one-class", points="one-class"),
    # segmentation
    **of_measure("iou", "101/150", "2/3", "2/3", "7/10"),
    **of_measure("dice", "281/350", "447/560", "4/5", "23/28"),
    **of_measure("boundary_iou", "293/450", "23/36", "3/5", "7/10"),
    **of_measure("surface_dice", "19/20", "91/96", "1", "23/24"),
    **of_measure("surface_dice_length", "(144-6r)/140", "(346-15r)/336", "1", "(86-3r)/84"),
    **of_measure("hausdorff_px", "7/5", "17/12", "1", "4/3", best="0"),
    **of_measure("hausdorff95_px", "63/50", "77/60", "1", "7/6", best="0"),
    **of_measure("mean_surface_distance_px", "37/140", "185/672", "2/7", "37/168", best="0"),
    **of_measure("centroid_distance_px", "7/10", "17/24", "1/2", "2/3", best="0", points="0"),
    **of_measure("hausdorff_um", "7/10", "17/24", "1/2", "2/3", best="0"),
    **of_measure("hausdorff95_um", "63/100", "77/120", "1/2", "7/12", best="0"),
    **of_measure("mean_surface_distance_um", "37/280", "185/1344", "1/7", "37/336", best="0"),
    **of_measure("centroid_distance_um", "7/20", "17/48", "1/4", "1/3", best="0", points="0"),
    **of_measure("area_ratio", "79/100", "55/72", "2/3", "161/180"),
    # panoptic
    "panoptic.pq": "no-instances 0 0 0 1/2 1/2 1 1 points-only 31/90",
    "panoptic.sq": of_pairs("41/60"),
    "panoptic.rq": "no-instances 0 0 0 1/2 1/2 1 1 points-only 1/2",
    "panoptic.binary.pq": "no-instances 0 0 0 2/3 2/3 1 1 points-only 101/225",
    "panoptic.binary.sq": of_pairs("101/150"),
    "panoptic.binary.rq": "no-instances 0 0 0 2/3 2/3 1 1 points-only 2/3",
    "panoptic.per_class.lymphocyte.pq": "no-instances 0 0 0 0 0 no-instances 1 points-only 7/15",
    "panoptic.per_class.lymphocyte.sq": of_class_pairs("7/10"),
    "panoptic.per_class.lymphocyte.rq": "no-instances 0 0 0 0 0 no-instances 1 points-only 2/3",
    # covered and overall: of 7 nuclei the best 4 count, of 4 lymphocytes (a, b, c, f) 2 and of 3 tumor cells (A, D, G)
    # 2; over all there are 5 + 2 + 3 nuclei. Caps are 4 px and 3/4 um.
    **of_nuclei("iou", "83/120", "83/120", "101/300"),
    **of_nuclei("dice", "457/560", "457/560", "281/700"),
    **of_nuclei("boundary_iou", "27/40", "239/360", "293/900"),
    **of_nuclei("surface_dice", "31/32", "31/32", "19/40"),
    **of_nuclei("surface_dice_length", "(114-3r)/112", "(114-3r)/112", "(144-6r)/280"),
    **of_nuclei("hausdorff_px", "5/4", "5/4", "27/10", cap="4 2"),
    **of_nuclei("hausdorff95_px", "9/8", "9/8", "263/100", cap="4 2"),
    **of_nuclei("mean_surface_distance_px", "53/224", "53/224", "597/280", cap="4 2"),
    **of_nuclei("centroid_distance_px", "5/8", "5/8", "47/20", cap="4 2", points="0"),
    **of_nuclei("hausdorff_um", "9/16", "9/16", "27/40", cap="3/4 3/8"),
    **of_nuclei("hausdorff95_um", "21/40", "21/40", "33/50", cap="3/4 3/8"),
    **of_nuclei("mean_surface_distance_um", "53/448", "53/448", "247/560", cap="3/4 3/8"),
    **of_nuclei("centroid_distance_um", "5/16", "5/16", "11/20", cap="3/4 3/8", points="0"),
    "covered.class_recall": "no-instances 1/2 no-reference 1/2 1 3/4 1 1 1 11/16",
    "covered.class_f1": "no-instances 0 no-reference 0 1 1/2 1 1 1 61/100",
    "overall.accuracy": "no-instances 0 0 0 1/2 1/2 1 1 1 2/5",
    "overall.accuracy_class_mean": "no-instances 0 0 0 1/2 1/2 1 1 1 2/5",
    # thresholds: an IoU of exactly 3/4 does not match at 0.75, so nothing of the ordinary case does
    "thresholds.precision_iou50": "no-instances no-prediction 0 0 1/2 1 1 1 points-only 5/8",
    "thresholds.precision_iou75": "no-instances no-prediction 0 0 1/2 1 1 1 points-only 0",
    "thresholds.precision_iou50_75": "no-instances no-prediction 0 0 1/2 1 1 1 points-only 5/16",
    "thresholds.recall_iou50": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 5/7",
    "thresholds.recall_iou75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 0",
    "thresholds.recall_iou50_75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 5/14",
    "thresholds.f1_iou50": "no-instances 0 0 0 2/3 2/3 1 1 points-only 2/3",
    "thresholds.f1_iou75": "no-instances 0 0 0 2/3 2/3 1 1 points-only 0",
    "thresholds.f1_iou50_75": "no-instances 0 0 0 2/3 2/3 1 1 points-only 1/3",
    "thresholds.threat_score_iou50": "no-instances 0 0 0 1/2 1/2 1 1 points-only 1/2",
    "thresholds.threat_score_iou75": "no-instances 0 0 0 1/2 1/2 1 1 points-only 0",
    "thresholds.threat_score_iou50_75": "no-instances 0 0 0 1/2 1/2 1 1 points-only 1/4",
    "thresholds.per_class.lymphocyte.precision_iou50_75": (
        "no-instances no-prediction 0 0 0 no-prediction no-instances 1 points-only 3/10"
    ),
    "thresholds.per_class.lymphocyte.recall_iou50_75": (
        "no-instances 0 no-reference 0 no-reference 0 no-instances 1 points-only 3/8"
    ),
    "thresholds.per_class.lymphocyte.f1_iou50_75": "no-instances 0 0 0 0 0 no-instances 1 points-only 1/3",
    "thresholds.per_class.lymphocyte.threat_score_iou50_75": "no-instances 0 0 0 0 0 no-instances 1 points-only 1/4",
    # curves. The ordinary case from the surest on, right (+) or wrong (-): a + c + B - A + d + f + G - e -; of
    # lymphocytes a + c + d - f + e -; of tumor cells B - A + G -. Found: 5 of 7, 3 of 4, 1 of 3.
    "curves.average_precision": "no-instances 0 no-reference 0 1 1/2 1 1 1 9/14",
    "curves.average_precision_101": "no-instances 0 no-reference 0 1 51/101 1 1 1 389/606",
    "curves.mean_average_precision": "no-instances 0 no-reference 0 1 1/2 1 1 1 41/96",
    "curves.mean_average_precision_101": "no-instances 0 no-reference 0 1 1/2 1 1 1 347/808",
    "curves.per_class.lymphocyte.average_precision": (
        "no-instances 0 no-reference 0 no-reference 0 no-instances 1 1 11/16"
    ),
    "curves.per_class.lymphocyte.average_precision_101": (
        "no-instances 0 no-reference 0 no-reference 0 no-instances 1 1 279/404"
    ),
    # at 0.75 c and f of the lymphocytes are found, with exactly that IoU, and no tumor cell
    "curves.coco_map_iou50": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 347/808",
    "curves.coco_map_iou75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 51/404",
    "curves.coco_map_iou50_75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 449/1616",
    "curves.per_class.lymphocyte.coco_ap_iou50_75": (
        "no-instances 0 no-reference 0 no-reference 0 no-instances 1 points-only 381/808"
    ),
    "curves.sensitivity_at_0_25_per_image": "no-instances 0 no-reference 0 1 1/2 1 1 1 2/7",
    "curves.sensitivity_at_0_5_per_image": "no-instances 0 no-reference 0 1 1/2 1 1 1 5/7",
    "curves.froc": "no-instances 0 no-reference 0 1 1/2 1 1 1 1/2",
    "curves.per_class.lymphocyte.froc": "no-instances 0 no-reference 0 no-reference 0 no-instances 1 1 5/8",
    # lymphocytes found 3 of 4 and 2, tumor cells 1 of 3 and 0
    "curves.coco_ar_iou50_75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 19/48",
    # sizes: of at most 4 px are c, b, f and G, of which c and f are found, each with 3/4. At 0.5 a and A take larger
    # nuclei and are ignored, so is B: c + d - f + e -; at 0.75 a is wrong: a - c + d - f + e -. Nothing finds G
    "sizes.small.recall": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 1/2",
    "sizes.small.iou": of_pairs("3/4"),
    "sizes.small.coco_map_iou50_75": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 179/808",
    # overlap: in the ordinary case D is split into d and e, f and G are merged
    "overlap.aji": "no-instances 0 0 0 1/2 1/2 1 1 points-only 19/40",
    "overlap.aji_plus": "no-instances 0 0 0 1/2 1/2 1 1 points-only 18/37",
    "overlap.dice1": "no-instances 0 0 0 2/3 2/3 1 1 points-only 42/55",
    "overlap.dice2": "no-instances 0 0 0 1 1 1 1 points-only 14/19",
    "overlap.splits": "no-instances 0 0 0 0 0 0 0 points-only 1",
    "overlap.merges": "no-instances 0 0 0 0 0 0 0 points-only 1",
    # objects
    "objects.f1": "no-instances 0 0 0 2/3 2/3 1 1 points-only 2/3",
    "objects.dice": "no-instances 0 0 0 3/4 3/4 1 1 points-only 10301/15120",
    "objects.hausdorff_px": "no-instances no-prediction no-reference 3 3/4 3/4 0 0 points-only 529/378",
    # partition: of the pairs of pixels of the reference 130 share a nucleus (20 + 72 and 12 + 20 + 6), 84 a prediction
    # (6 + 30 and 6 + 6 + 2 + 12, and 20 + 2 of the 5 and 2 px without one), 64 both (6 + 2 + 30 + 6 and 6 + 6 + 2 + 6)
    "partition.seg": "no-instances 0 no-reference 0 1 1/2 1 1 points-only 31/60",
    "partition.adapted_rand_error": "no-instances 0 no-reference 0 0 0 0 0 points-only 43/107",
    "partition.adapted_rand_precision": "no-instances 1 no-reference 1 1 1 1 1 points-only 16/21",
    "partition.adapted_rand_recall": "no-instances 1 no-reference 1 1 1 1 1 points-only 32/65",
    # of the 28 px: splits cost 10 log2(5) - 2, merges 5 log2(5) - 6 log2(3) + 8
    "partition.vi_split": "no-instances 0 no-reference 0 0 0 0 0 points-only log2(9765625/4)/28",
    "partition.vi_merge": "no-instances 0 no-reference 0 0 0 0 0 points-only log2(800000/729)/28",
    "partition.variation_of_information": (
        "no-instances 0 no-reference 0 0 0 0 0 points-only log2(1953125000000/729)/28"
    ),
    # counting: one image has no spread; the two of the ordinary case have 1, 3 lymphocytes (predicted 1, 4) and 1, 2
    # tumor cells (2, 1)
    "counting.r2": "constant-reference " * 9 + "-5/4",
    "counting.mean_absolute_error": "0 1/2 1/2 0 1/2 1/2 0 0 0 3/4",
    "counting.per_class.lymphocyte.r2": "constant-reference " * 9 + "1/2",
    "counting.per_class.lymphocyte.mean_absolute_error": "0 1 1 0 1 1 0 0 0 1/2",
}


def says(path: str, situation: str) -> str:
    """What the metric at a path is to be in a situation: a number (see ``number``) or a reason.

    >>> says("panoptic.pq", "ordinary"), says("panoptic.pq", "everything_ignored")
    ('31/90', 'no-instances')
    """
    column = "both_empty" if situation == LIKE_BOTH_EMPTY else situation
    return WHAT_WHEN[path].split()[COLUMNS.index(column)]


def number(word: str) -> float | None:
    """The number that a word stands for, None for a reason.

    >>> number("-5/4"), number("sqrt(1/4)"), number("ln(1/1)/5"), number("(4-0r)/2"), number("no-reference")
    (-1.25, 0.5, 0.0, 2.0, None)
    """
    if word.startswith("("):
        whole, _, rest = word[1:].partition("-")
        roots, _, parts = rest.partition("r)/")
        return (int(whole) - int(roots) * math.sqrt(2)) / int(parts)
    for name, log in (("ln(", math.log), ("log2(", math.log2)):
        if word.startswith(name):
            of, _, parts = word.removeprefix(name).partition(")/")
            return log(Fraction(of)) / int(parts)
    if word.startswith("sqrt("):
        return math.sqrt(Fraction(word[5:-1]))
    return float(Fraction(word)) if word.lstrip("-")[0].isdigit() else None
