"""A worked example for each page of the metrics: a drawing, the sum done by hand, and the number of the program.

They are doctests of this module: ``__test__`` is where doctest looks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A drawing that ``score_pictures`` scores.

    path     of the number in metrics.json
    by_hand  how it comes about; one sum or two
    gives    the number, as Python writes it, six decimals
    """

    path: str
    picture: str
    by_hand: str
    gives: float
    options: Mapping[str, Any] = field(default_factory=dict)

    def doctest(self) -> str:
        """The example as it is typed into Python."""
        rows = self.picture.strip().splitlines()
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        call = [
            f'>>> score_pictures("{self.path}", """',
            *(f"... {row}".rstrip() for row in rows),
            f'... """{options})',
        ]
        return "\n".join(
            [">>> from evaluation.authoring.handbook.pictures import score_pictures", *call, repr(self.gives)]
        )


FOUND = """
aa.BB  aa...
aa.BB  aa...
.....  .....
.....  c.d..
"""
NAMED = """
aa.bb  aa.BB
aa.bb  aa.BB
.....  .....
CC.dd  cc...
CC.dd  cc...
"""
PAIRS = """
a.b.c  a.b.C
.....  .....
D.E.f  D.E.f
"""
UNSURE = """
a.b.c  a.b.c
.....  .....
D....  D....
"""
UNSURE_OF = {"confidence": {"a": 0.9, "b": 0.4, "c": 0.7, "D": 0.5}}
OUTLINED = """
aaaaa  aaa..
.....  .....
BBB..  BB...
BBB..  BB...
BBB..  BB...
"""
ALL_IN_ONE = """
aaaaa  aaa..
.....  .....
BBB.c  BB...
BBB..  BB.D.
BBB.e  BB...
"""
LOOSE = """
aaaaa  aaa..
.....  .....
bbbb.  bbbb.
.....  .....
.....  ....c
"""
LOOSE_NAMES = """
aaaaa  aaa..
.....  .....
bbbb.  BBBB.
.....  .....
.....  ....c
"""
RANKED = """
a.b.c  a.b..
.....  .....
.....  d.e..
"""
RANKED_BY = {"confidence": {"a": 0.9, "d": 0.8, "b": 0.7, "e": 0.2}}
RANKED_NAMES = """
a.b.C  a.b.C
.....  .....
.....  d.E..
"""
NAMES_RANKED_BY = {"confidence": {"a": 0.9, "d": 0.8, "b": 0.7, "E": 0.6, "C": 0.5}}
FROC_AT = {"false_positives": (0.25, 1.0)}
COCO = """
aaaa.  aaa..
.....  .....
BBBBB  BBB..
"""
COCO_BY = {"confidence": {"a": 0.9, "B": 0.8}}
TOUCHING = """
aaabb  aaaa.
.....  .....
.....  c....
"""
GLANDS = "aaa.b  aa..."
COUNTED = """
a.b.c  a.b.c

a....  a.b..
"""

OF_NAMED = "Of the lymphocytes a, b and d only a is found and named (tp = 1); c is no lymphocyte (fp = 1), so fn = 2"
MATRIX = "The pairs of lymphocytes are named right 3 times and wrong once (c), those of tumor cells right twice"
AT_TWO = "At 0.5 both a (3/5) and b (1) match, tp = 2, fp = 1; at 0.75 only b, tp = 1, fp = 2, fn = 1"
AT_TWO_NAMED = "At 0.5 a is found and named, tp = 1, c spurious, b a tumor cell here, fp = fn = 1; at 0.75 tp = 0"
IN_ORDER = "Of three nuclei; from the surest on a is right, d wrong, b right, e wrong"
IN_ORDER_NAMED = "Of two lymphocytes; from the surest on a is right, d wrong, b right"
AJI_PAIRS = "a shares 3 px with the prediction a and their union has 4; b shares 1 px with it and their union has 5"
GLAND_PAIR = "a has 3 px, of which 2 are covered, b 1 px and nothing"
SPREAD = "The images have 3 and 1 lymphocytes, 3 and 2 were predicted"

EXAMPLES: dict[str, Example] = {
    # detection
    "detection.precision": Example(
        "detection.precision.pooled", FOUND, "a is found (tp = 1), c and d are spurious (fp = 2): 1 / 3.", 0.333333
    ),
    "detection.recall": Example(
        "detection.recall.pooled", FOUND, "a is found (tp = 1), B is missed (fn = 1): 1 / 2.", 0.5
    ),
    "detection.f1": Example(
        "detection.f1.pooled", FOUND, "tp = 1 (a), fp = 2 (c, d), fn = 1 (B): 2 / (2 + 2 + 1) = 2/5.", 0.4
    ),
    "detection.threat_score": Example(
        "detection.threat_score.pooled", FOUND, "tp = 1 (a), fp = 2 (c, d), fn = 1 (B): 1 / (1 + 2 + 1) = 1/4.", 0.25
    ),
    "detection.macro_f1": Example(
        "detection.macro_f1.pooled",
        FOUND,
        "Lymphocytes: tp = 1 (a), fp = 2 (c, d), F1 = 2/4. Tumor cells: fn = 1 (B), F1 = 0. Mean: 1/4.",
        0.25,
    ),
    "detection.per_class.precision": Example(
        "detection.per_class.lymphocyte.precision.pooled", NAMED, f"{OF_NAMED}: 1 / (1 + 1) = 1/2.", 0.5
    ),
    "detection.per_class.recall": Example(
        "detection.per_class.lymphocyte.recall.pooled", NAMED, f"{OF_NAMED}: 1 / (1 + 2) = 1/3.", 0.333333
    ),
    "detection.per_class.f1": Example(
        "detection.per_class.lymphocyte.f1.pooled", NAMED, f"{OF_NAMED}: 2 / (2 + 1 + 2) = 2/5.", 0.4
    ),
    "detection.per_class.f_c": Example(
        "detection.per_class.lymphocyte.f_c.pooled",
        NAMED,
        "t = 1 (a), f = 1 (C was named lymphocyte), g = 1 (b was not), s = 0, m = 1 (d): 2 / (2 + 2 + 2 + 0 + 1) = "
        "2/7.",
        0.285714,
    ),
    # classification
    "classification.balanced_accuracy": Example(
        "classification.balanced_accuracy.pooled", PAIRS, f"{MATRIX}: (3/4 + 2/2) / 2 = 7/8.", 0.875
    ),
    "classification.accuracy": Example(
        "classification.accuracy.pooled", PAIRS, f"{MATRIX}: (3 + 2) / 6 = 5/6.", 0.833333
    ),
    "classification.mcc": Example(
        "classification.mcc.pooled",
        PAIRS,
        f"{MATRIX}: s = 6, c = 5, t = (4, 2), p = (3, 3), (5 * 6 - 12 - 6) / sqrt((36 - 18) (36 - 20)) = 12 / "
        "sqrt(288).",
        0.707107,
    ),
    "classification.kappa": Example(
        "classification.kappa.pooled",
        PAIRS,
        f"{MATRIX}: p_o = 5/6, p_e = (4 * 3 + 2 * 3) / 36 = 1/2, (5/6 - 1/2) / (1 - 1/2) = 2/3.",
        0.666667,
    ),
    "classification.macro_f1": Example(
        "classification.macro_f1.pooled",
        PAIRS,
        f"{MATRIX}: lymphocytes 2 * 3 / (4 + 3) = 6/7, tumor cells 2 * 2 / (2 + 3) = 4/5. Mean: 29/35.",
        0.828571,
    ),
    "classification.weighted_f1": Example(
        "classification.weighted_f1.pooled",
        PAIRS,
        f"{MATRIX}: F1 is 6/7 for 4 references and 4/5 for 2: (4 * 6/7 + 2 * 4/5) / 6 = 88/105.",
        0.838095,
    ),
    "classification.auroc": Example(
        "classification.auroc.pooled",
        UNSURE,
        "The probabilities of lymphocyte are 0.9, 0.4 and 0.7 for a, b and c, and 1 - 0.5 for D: a and c are above "
        "D, b is not, 2/3. Those of tumor cell are 1 minus these: D is above a and c, again 2/3. Mean: 2/3.",
        0.666667,
        UNSURE_OF,
    ),
    "classification.per_class.precision": Example(
        "classification.per_class.tumor.precision.pooled",
        PAIRS,
        f"{MATRIX}: N has the rows (3/4, 1/4) and (0, 1), 1 / (1/4 + 1) = 4/5.",
        0.8,
    ),
    "classification.per_class.recall": Example(
        "classification.per_class.lymphocyte.recall.pooled", PAIRS, f"{MATRIX}: 3 / (3 + 1) = 3/4.", 0.75
    ),
    "classification.per_class.f1": Example(
        "classification.per_class.tumor.f1.pooled",
        PAIRS,
        f"{MATRIX}: N has the rows (3/4, 1/4) and (0, 1), 2 * 1 / (1 + 5/4) = 8/9.",
        0.888889,
    ),
    "classification.per_class.counted_precision": Example(
        "classification.per_class.tumor.counted_precision.pooled",
        PAIRS,
        f"{MATRIX}: of the three that were named tumor cell two are, 2/3.",
        0.666667,
    ),
    "classification.per_class.counted_f1": Example(
        "classification.per_class.tumor.counted_f1.pooled", PAIRS, f"{MATRIX}: 2 * 2 / (2 + 3) = 4/5.", 0.8
    ),
    "classification.per_class.auroc": Example(
        "classification.per_class.lymphocyte.auroc.pooled",
        UNSURE,
        "The probabilities of lymphocyte are 0.9, 0.4 and 0.7 for a, b and c, and 1 - 0.5 for D: of the three pairs "
        "with D two are in order, 2/3.",
        0.666667,
        UNSURE_OF,
    ),
    # segmentation
    "segmentation.iou": Example(
        "segmentation.iou.pooled", OUTLINED, "a: I = 3, U = 5. B: I = 6, U = 9. (3/5 + 6/9) / 2 = 19/30.", 0.633333
    ),
    "segmentation.dice": Example(
        "segmentation.dice.pooled",
        OUTLINED,
        "a: 2 * 3 / (5 + 3) = 3/4. B: 2 * 6 / (9 + 6) = 4/5. Mean: 31/40.",
        0.775,
    ),
    "segmentation.boundary_iou": Example(
        "segmentation.boundary_iou.pooled",
        OUTLINED,
        "Tolerance 1 px: the bands are the boundary pixels. a: all pixels, 3/5. B: 8 in the reference, all but the "
        "middle; 6 in the prediction; 5 in both: 5 / (8 + 6 - 5) = 5/9. Mean: 26/45.",
        0.577778,
    ),
    "segmentation.surface_dice": Example(
        "segmentation.surface_dice.pooled",
        OUTLINED,
        "Tolerance 1 px. a: of 5 + 3 boundary pixels one, 2 px away, is not within it: 7/8. B: all are. (7/8 + 1) / "
        "2 = 15/16.",
        0.9375,
    ),
    "segmentation.hausdorff_px": Example(
        "segmentation.hausdorff_px.pooled",
        OUTLINED,
        "a: the last of 5 pixels is 2 px from the prediction. B: the third column is 1 px from the second. (2 + 1) / "
        "2.",
        1.5,
    ),
    "segmentation.hausdorff95_px": Example(
        "segmentation.hausdorff95_px.pooled",
        OUTLINED,
        "a: the distances are 0, 0, 0, 1, 2; at 95 %, place 0.95 * 4 = 3.8, is 1.8; back they are 0. B: 0 five times "
        "and 1 three times; place 6.65 is 1. (1.8 + 1) / 2.",
        1.4,
    ),
    "segmentation.mean_surface_distance_px": Example(
        "segmentation.mean_surface_distance_px.pooled",
        OUTLINED,
        "a: (0 + 0 + 0 + 1 + 2) / (5 + 3) = 3/8. B: three of 8 boundary pixels are 1 px away, and back one of 6, the "
        "one in the middle: 4/14. Mean: 37/112.",
        0.330357,
    ),
    "segmentation.centroid_distance_px": Example(
        "segmentation.centroid_distance_px.pooled",
        OUTLINED,
        "a: the mean columns are 2 and 1, 1 px. B: 1 and 1/2, 1/2 px. Mean: 3/4.",
        0.75,
    ),
    "segmentation.hausdorff_um": Example(
        "segmentation.hausdorff_um.pooled", OUTLINED, "2 px and 1 px at 0.5 um: (1 + 0.5) / 2 = 3/4.", 0.75
    ),
    "segmentation.hausdorff95_um": Example(
        "segmentation.hausdorff95_um.pooled", OUTLINED, "1.8 px and 1 px at 0.5 um: (0.9 + 0.5) / 2 = 7/10.", 0.7
    ),
    "segmentation.mean_surface_distance_um": Example(
        "segmentation.mean_surface_distance_um.pooled",
        OUTLINED,
        "3/8 px and 4/14 px at 0.5 um: (3/16 + 1/7) / 2 = 37/224.",
        0.165179,
    ),
    "segmentation.centroid_distance_um": Example(
        "segmentation.centroid_distance_um.pooled", OUTLINED, "1 px and 1/2 px at 0.5 um: (1/2 + 1/4) / 2 = 3/8.", 0.375
    ),
    "segmentation.area_ratio": Example(
        "segmentation.area_ratio.pooled", OUTLINED, "a: 3 / 5. B: 6 / 9. Mean: 19/30, too small.", 0.633333
    ),
    # panoptic
    "panoptic.pq": Example(
        "panoptic.pq.pooled",
        ALL_IN_ONE,
        "Lymphocytes: a has IoU 3/5, c and e are missed, (3/5) / (1 + 2/2) = 3/10. Tumor cells: B has IoU 6/9, D is "
        "spurious, (2/3) / (1 + 1/2) = 4/9. Mean: 67/180.",
        0.372222,
    ),
    "panoptic.sq": Example(
        "panoptic.sq.pooled", ALL_IN_ONE, "Lymphocytes 3/5 (a), tumor cells 6/9 (B). Mean: 19/30.", 0.633333
    ),
    "panoptic.rq": Example(
        "panoptic.rq.pooled",
        ALL_IN_ONE,
        "Lymphocytes: a found, c and e missed, 1 / (1 + 2/2) = 1/2. Tumor cells: B found, D spurious, 1 / (1 + 1/2) "
        "= 2/3. Mean: 7/12.",
        0.583333,
    ),
    "panoptic.binary.pq": Example(
        "panoptic.binary.pq.pooled",
        ALL_IN_ONE,
        "tp = 2 (a, B), fp = 1 (D), fn = 2 (c, e): (3/5 + 6/9) / (2 + 1/2 + 2/2) = 38/105.",
        0.361905,
    ),
    "panoptic.binary.sq": Example("panoptic.binary.sq.pooled", ALL_IN_ONE, "(3/5 + 6/9) / 2 = 19/30.", 0.633333),
    "panoptic.binary.rq": Example(
        "panoptic.binary.rq.pooled",
        ALL_IN_ONE,
        "tp = 2 (a, B), fp = 1 (D), fn = 2 (c, e): 2 / (2 + 1/2 + 2/2) = 4/7.",
        0.571429,
    ),
    "panoptic.per_class.pq": Example(
        "panoptic.per_class.lymphocyte.pq.pooled",
        ALL_IN_ONE,
        "a has IoU 3/5, c and e are missed: (3/5) / (1 + 2/2) = 3/10.",
        0.3,
    ),
    "panoptic.per_class.sq": Example(
        "panoptic.per_class.lymphocyte.sq.pooled", ALL_IN_ONE, "The only pair, a, has IoU 3/5.", 0.6
    ),
    "panoptic.per_class.rq": Example(
        "panoptic.per_class.lymphocyte.rq.pooled", ALL_IN_ONE, "a found, c and e missed: 1 / (1 + 2/2) = 1/2.", 0.5
    ),
    # covered
    "covered.score": Example(
        "covered.iou_class_mean.pooled",
        ALL_IN_ONE,
        "Of three lymphocytes the better 2 count: a has IoU 3/5, one of the missed ones 0, mean 3/10. Of one tumor "
        "cell 1: B has 6/9. Mean: 29/60. That D is spurious costs nothing here.",
        0.483333,
    ),
    "covered.distance": Example(
        "covered.hausdorff_px_class_mean.pooled",
        ALL_IN_ONE,
        "The cap is 4 px. Lymphocytes: a is 2 px off, the better one of those that are missed counts 4, mean 3. Tumor "
        "cells: B is 1 px off. (3 + 1) / 2.",
        2.0,
    ),
    "covered.class_recall": Example(
        "covered.class_recall.pooled",
        ALL_IN_ONE,
        "Of three lymphocytes a is found and named, c and e are missed and count 1/2 each: (1 + 1/2 + 1/2) / 3 = 2/3. "
        "Tumor cells: 1 of 1. Mean: 5/6.",
        0.833333,
    ),
    # overall
    "overall.score": Example(
        "overall.iou.pooled",
        ALL_IN_ONE,
        "Two pairs (a, B), two missed (c, e), one spurious (D): (3/5 + 6/9) / 5 = 19/75.",
        0.253333,
    ),
    "overall.distance": Example(
        "overall.hausdorff_px.pooled",
        ALL_IN_ONE,
        "The cap is 4 px. a is 2 px off, B 1 px; c, e and D count 4 each: (2 + 1 + 12) / 5 = 3.",
        3.0,
    ),
    "overall.accuracy": Example(
        "overall.accuracy.pooled",
        ALL_IN_ONE,
        "a and B are found and named; c and e are missed, D is spurious: 2/5.",
        0.4,
    ),
    # thresholds
    "thresholds.precision_range": Example(
        "thresholds.precision_iou50_75.pooled", LOOSE, f"{AT_TWO}: (2/3 + 1/3) / 2 = 1/2.", 0.5
    ),
    "thresholds.precision_at": Example("thresholds.precision_iou75.pooled", LOOSE, f"{AT_TWO}: 1/3.", 0.333333),
    "thresholds.per_class.precision_range": Example(
        "thresholds.per_class.lymphocyte.precision_iou50_75.pooled",
        LOOSE_NAMES,
        f"{AT_TWO_NAMED}: (1/2 + 0) / 2 = 1/4.",
        0.25,
    ),
    "thresholds.recall_range": Example(
        "thresholds.recall_iou50_75.pooled", LOOSE, f"{AT_TWO}: (2/2 + 1/2) / 2 = 3/4.", 0.75
    ),
    "thresholds.recall_at": Example("thresholds.recall_iou75.pooled", LOOSE, f"{AT_TWO}: 1/2.", 0.5),
    "thresholds.per_class.recall_range": Example(
        "thresholds.per_class.lymphocyte.recall_iou50_75.pooled",
        LOOSE_NAMES,
        f"{AT_TWO_NAMED}: (1/2 + 0) / 2 = 1/4.",
        0.25,
    ),
    "thresholds.f1_range": Example("thresholds.f1_iou50_75.pooled", LOOSE, f"{AT_TWO}: (4/5 + 2/5) / 2 = 3/5.", 0.6),
    "thresholds.f1_at": Example("thresholds.f1_iou75.pooled", LOOSE, f"{AT_TWO}: 2 / (2 + 2 + 1) = 2/5.", 0.4),
    "thresholds.per_class.f1_range": Example(
        "thresholds.per_class.lymphocyte.f1_iou50_75.pooled", LOOSE_NAMES, f"{AT_TWO_NAMED}: (2/4 + 0) / 2 = 1/4.", 0.25
    ),
    "thresholds.threat_score_range": Example(
        "thresholds.threat_score_iou50_75.pooled", LOOSE, f"{AT_TWO}: (2/3 + 1/4) / 2 = 11/24.", 0.458333
    ),
    "thresholds.threat_score_at": Example(
        "thresholds.threat_score_iou75.pooled", LOOSE, f"{AT_TWO}: 1 / (1 + 2 + 1) = 1/4.", 0.25
    ),
    "thresholds.per_class.threat_score_range": Example(
        "thresholds.per_class.lymphocyte.threat_score_iou50_75.pooled",
        LOOSE_NAMES,
        f"{AT_TWO_NAMED}: (1/3 + 0) / 2 = 1/6.",
        0.166667,
    ),
    # curves
    "curves.average_precision": Example(
        "curves.average_precision.pooled",
        RANKED,
        f"{IN_ORDER}: precision is 1 at the first and 2/3 at the second, c is never found, (1 + 2/3) / 3 = 5/9.",
        0.555556,
        RANKED_BY,
    ),
    "curves.mean_average_precision": Example(
        "curves.mean_average_precision.pooled",
        RANKED_NAMES,
        "Lymphocytes: a right, d wrong, b right, (1 + 2/3) / 2 = 5/6. Tumor cells: E wrong, C right, 1/2. Mean: 2/3.",
        0.666667,
        NAMES_RANKED_BY,
    ),
    "curves.per_class.average_precision": Example(
        "curves.per_class.lymphocyte.average_precision.pooled",
        RANKED_NAMES,
        f"{IN_ORDER_NAMED}: (1 + 2/3) / 2 = 5/6.",
        0.833333,
        NAMES_RANKED_BY,
    ),
    "curves.average_precision_101": Example(
        "curves.average_precision_101.pooled",
        RANKED,
        f"{IN_ORDER}: precision is 1 at the recalls 0 … 0.33, 2/3 at 0.34 … 0.66, 0 beyond, (34 + 33 * 2/3) / 101 = "
        "56/101.",
        0.554455,
        RANKED_BY,
    ),
    "curves.mean_average_precision_101": Example(
        "curves.mean_average_precision_101.pooled",
        RANKED_NAMES,
        "Lymphocytes: 1 at the recalls 0 … 0.5, 2/3 beyond, (51 + 50 * 2/3) / 101 = 253/303. Tumor cells: 1/2. Mean: "
        "809/1212.",
        0.667492,
        NAMES_RANKED_BY,
    ),
    "curves.per_class.average_precision_101": Example(
        "curves.per_class.lymphocyte.average_precision_101.pooled",
        RANKED_NAMES,
        f"{IN_ORDER_NAMED}: precision is 1 at the recalls 0 … 0.5, 2/3 beyond, (51 + 50 * 2/3) / 101 = 253/303.",
        0.834983,
        NAMES_RANKED_BY,
    ),
    "curves.coco_map": Example(
        "curves.coco_map_iou50_75.pooled",
        COCO,
        "At 0.5 both are found, 1 and 1. At 0.75 a is, since 3/4 is enough, and B is not, 1 and 0. Mean of the four: "
        "3/4.",
        0.75,
        COCO_BY,
    ),
    "curves.coco_map_at": Example(
        "curves.coco_map_iou75.pooled",
        COCO,
        "a is found, since an IoU of 3/4 is enough, B (3/5) is not: (1 + 0) / 2 = 1/2.",
        0.5,
        COCO_BY,
    ),
    "curves.per_class.coco_ap": Example(
        "curves.per_class.tumor.coco_ap_iou50_75.pooled",
        COCO,
        "B has an IoU of 3/5: found at 0.5, not at 0.75, (1 + 0) / 2 = 1/2.",
        0.5,
        COCO_BY,
    ),
    "curves.froc": Example(
        "curves.froc.pooled",
        RANKED,
        f"{IN_ORDER}: with 1/4 false positive there is room for a only, 1/3; with 1 for a, d, b, 2/3. Mean: 1/2.",
        0.5,
        {**RANKED_BY, **FROC_AT},
    ),
    "curves.sensitivity_at": Example(
        "curves.sensitivity_at_1_per_image.pooled",
        RANKED,
        f"{IN_ORDER}: with one false positive, d, two of three are found, 2/3.",
        0.666667,
        {**RANKED_BY, **FROC_AT},
    ),
    "curves.per_class.froc": Example(
        "curves.per_class.lymphocyte.froc.pooled",
        RANKED_NAMES,
        f"{IN_ORDER_NAMED}: with 1/4 false positive only a is found, 1/2; with 1 both, 1. Mean: 3/4.",
        0.75,
        {**NAMES_RANKED_BY, **FROC_AT},
    ),
    # overlap
    "overlap.aji": Example(
        "overlap.aji.pooled",
        TOUCHING,
        f"{AJI_PAIRS}; c, 1 px, is nobody's partner: (3 + 1) / (4 + 5 + 1) = 4/10.",
        0.4,
    ),
    "overlap.aji_plus": Example(
        "overlap.aji_plus.pooled",
        TOUCHING,
        "a is paired with the prediction a, I = 3, U = 4; b (2 px) and c (1 px) are in no pair: 3 / (4 + 2 + 1) = 3/7.",
        0.428571,
    ),
    "overlap.dice1": Example(
        "overlap.dice1.pooled", TOUCHING, "5 px in the reference, 5 in the prediction, 4 in both: 8/10.", 0.8
    ),
    "overlap.dice2": Example(
        "overlap.dice2.pooled",
        TOUCHING,
        "a and the prediction a share 3 px of 3 + 4, b and it 1 px of 2 + 4; c touches nothing: 2 * 4 / (7 + 6) = "
        "8/13.",
        0.615385,
    ),
    "overlap.splits": Example(
        "overlap.splits.pooled",
        "aaaaa  aaabb",
        "Both predictions lie in the nucleus a, so both are assigned to it: 1.",
        1.0,
    ),
    "overlap.merges": Example(
        "overlap.merges.pooled",
        "aaabb  aaaaa",
        "Both nuclei lie in the prediction a, so both are assigned to it: 1.",
        1.0,
    ),
    # objects
    "objects.f1": Example(
        "objects.f1.pooled",
        GLANDS,
        f"{GLAND_PAIR}: the prediction covers more than half of a, 2 * 1 / (2 + 1).",
        0.666667,
    ),
    "objects.dice": Example(
        "objects.dice.pooled",
        GLANDS,
        f"{GLAND_PAIR}: Dice is 2 * 2 / (3 + 2) = 4/5 for a and 0 for b, 1/2 [(3 * 4/5 + 1 * 0) / 4 + 4/5] = 7/10.",
        0.7,
    ),
    "objects.hausdorff_px": Example(
        "objects.hausdorff_px.pooled",
        GLANDS,
        f"{GLAND_PAIR}: a is 1 px from the prediction, and b, which has no best one, 4 px, 1/2 [(3 * 1 + 1 * 4) / 4 + "
        "1] = 11/8.",
        1.375,
    ),
    # counting
    "counting.r2": Example(
        "counting.r2.pooled",
        COUNTED,
        f"{SPREAD}: RSS = 0 + 1, TSS = 1 + 1, 1 - 1/2 = 1/2. There is no tumor cell, so that class is left out.",
        0.5,
    ),
    "counting.mean_absolute_error": Example(
        "counting.mean_absolute_error.pooled",
        COUNTED,
        f"{SPREAD}; tumor cells have no errors: (0 + 1 + 0 + 0) / 4 = 1/4.",
        0.25,
    ),
    "counting.per_class.r2": Example(
        "counting.per_class.lymphocyte.r2.pooled", COUNTED, f"{SPREAD}: RSS = 0 + 1, TSS = 1 + 1, 1 - 1/2.", 0.5
    ),
    "counting.per_class.mean_absolute_error": Example(
        "counting.per_class.lymphocyte.mean_absolute_error.pooled", COUNTED, f"{SPREAD}: (0 + 1) / 2 = 1/2.", 0.5
    ),
}

__test__ = {page: example.doctest() for page, example in EXAMPLES.items()}
