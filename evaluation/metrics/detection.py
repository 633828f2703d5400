"""Detection: were the nuclei found, whatever their outline?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from evaluation.metrics.counts import Hits, class_hits, hits
from evaluation.metrics.literature import HIRLING, HOVERNET, KIRILLOV, RIJSBERGEN
from evaluation.metrics.metric import OF_ALL, Empty, Example, Metric, MetricFamily
from evaluation.metrics.undefined import mean_of, ratio
from evaluation.model import Scores, Units

Formula = Callable[[Hits], Scores]


def precision(of: Hits) -> Scores:
    """Precision, tp / (tp + fp)."""
    return ratio(of.tp, of.tp + of.fp, of.undefined)


def recall(of: Hits) -> Scores:
    """Recall, tp / (tp + fn)."""
    return ratio(of.tp, of.tp + of.fn, of.undefined)


def f_beta(of: Hits, beta: int) -> Scores:
    """F-measure, (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp) with b = ``beta``: recall weighs b times as much."""
    found = (1 + beta**2) * of.tp
    return ratio(found, found + beta**2 * of.fn + of.fp, of.undefined)


def f1(of: Hits) -> Scores:
    """F1, 2 tp / (2 tp + fp + fn)."""
    return f_beta(of, beta=1)


def threat_score(of: Hits) -> Scores:
    """Threat score, tp / (tp + fp + fn)."""
    return ratio(of.tp, of.tp + of.fp + of.fn, of.undefined)


# What the formulas above have in common with each other, wherever they are used.
OF_PRECISION: dict[str, Any] = {"spurious": "worse", "empty": Empty("no-instances", "no-prediction", 0, 0)}
OF_RECALL: dict[str, Any] = {"missed": "worse", "empty": Empty("no-instances", 0, "no-reference", 0)}
OF_BOTH: dict[str, Any] = {"missed": "worse", "spurious": "worse", "empty": OF_ALL}


def of_all(units: Units, formula: Formula) -> Scores:
    """A detection score with classes ignored."""
    return formula(hits(units))


def of_class(units: Units, formula: Formula, class_id: int) -> Scores:
    """A detection score of a class: a matched pair is a true positive if both sides have the class."""
    return formula(class_hits(units, class_id))


def macro_f1(units: Units) -> Scores:
    """Mean over classes of their F1 of detection and classification, in [0, 1].

    A class counts in a unit if it occurs in reference or prediction. Undefined "no-instances" if none does. The
    "macro F1" of PUMA 2024.
    """
    classes = range(1, units.sum("confusion").shape[1])
    return mean_of([of_class(units, f1, class_id) for class_id in classes], hits(units).undefined)


def hovernet_class_f1(units: Units, class_id: int) -> Scores:
    """F_c of HoVer-Net: F1 of a class in which a wrong class costs twice what a missed or spurious nucleus does.

    ``2 t / (2 t + 2 f + 2 g + s + m)``, in [0, 1], with t matched pairs of the class on both sides, f pairs in which
    only the prediction has the class, g pairs in which only the reference has it, s spurious predictions and m missed
    nuclei of the class. Undefined "no-instances" if the class is on neither side. Graham et al., Medical Image
    Analysis 58, 2019, section 4.2, with matching by ``centroid_assignment`` within 12 px, ``cutoff = "after"``, pooled.
    """
    confusion = units.sum("confusion")
    both = class_hits(units, class_id)
    spurious, missed = confusion[:, 0, class_id], confusion[:, class_id, 0]
    wrong = both.fp - spurious + both.fn - missed
    return ratio(2 * both.tp, 2 * both.tp + 2 * wrong + spurious + missed, both.undefined)


# --- records ----------------------------------------------------------------------------------------------------------

FOUND = """
aa.BB  aa...
aa.BB  aa...
.....  .....
.....  c.d..
"""
CLASSIFIED = """
aa.bb  aa.BB
aa.bb  aa.BB
.....  .....
CC.dd  cc...
CC.dd  cc...
"""
COUNTED = "Of the lymphocytes a, b and d only a has the right class (tp = 1, fn = 2); c is no lymphocyte (fp = 1)"

FAMILY = MetricFamily(
    "detection",
    "Were the nuclei found?",
    "tp matched pairs, fp spurious predictions, fn missed nuclei. Of a class: a pair is a true positive if both sides "
    "have the class; a pair with two classes is a false positive of one and a false negative of the other.",
    (
        Metric(
            path=("detection", "precision"),
            evaluate=partial(of_all, formula=precision),
            text="""Share of the predictions that found a nucleus, tp / (tp + fp), in [0, 1]; classes are ignored.

            Undefined "no-prediction" without predictions ("no-instances" if there is no reference either).
            """,
            sources=(RIJSBERGEN,),
            example=Example(FOUND, "a is found (tp = 1), c and d are spurious (fp = 2): 1 / 3.", 0.333333),
            **OF_PRECISION,
        ),
        Metric(
            path=("detection", "recall"),
            evaluate=partial(of_all, formula=recall),
            text="""Share of the reference nuclei that were found, tp / (tp + fn), in [0, 1]; classes are ignored.

            Undefined "no-reference" without reference nuclei ("no-instances" if there is no prediction either).
            """,
            sources=(RIJSBERGEN,),
            example=Example(FOUND, "a is found (tp = 1), B is missed (fn = 1): 1 / 2.", 0.5),
            **OF_RECALL,
        ),
        Metric(
            path=("detection", "f1"),
            evaluate=partial(of_all, formula=f1),
            text="""Harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn), in [0, 1]; classes are ignored.

            0 if one side is empty; undefined "no-instances" if both sides are. The F_d of HoVer-Net (Graham et al.,
            Medical Image Analysis 58, 2019) under ``centroid_assignment`` with a radius of 12 px and ``cutoff =
            "after"``.
            """,
            symmetric=True,
            sources=(RIJSBERGEN, HOVERNET),
            example=Example(FOUND, "tp = 1 (a), fp = 2 (c, d), fn = 1 (B): 2 / (2 + 2 + 1) = 2/5.", 0.4),
            **OF_BOTH,
        ),
        Metric(
            path=("detection", "threat_score"),
            evaluate=partial(of_all, formula=threat_score),
            text="""Critical success index, tp / (tp + fp + fn), in [0, 1]; classes are ignored.

            0 if one side is empty; undefined "no-instances" if both sides are. Called "accuracy" or "average precision"
            by others; it is neither (Hirling et al., Nature Methods 21, 2024).
            """,
            symmetric=True,
            sources=(HIRLING,),
            example=Example(FOUND, "tp = 1 (a), fp = 2 (c, d), fn = 1 (B): 1 / (1 + 2 + 1) = 1/4.", 0.25),
            **OF_BOTH,
        ),
        Metric(
            path=("detection", "macro_f1"),
            evaluate=macro_f1,
            symmetric=True,
            sources=(RIJSBERGEN,),
            example=Example(
                FOUND,
                "Lymphocytes: tp = 1 (a), fp = 2 (c, d), F1 = 2/4. Tumor cells: fn = 1 (B), F1 = 0. Mean: 1/4.",
                0.25,
            ),
            **OF_BOTH,
        ),
        Metric(
            path=("detection", "per_class", "<class>", "precision"),
            evaluate=partial(of_class, formula=precision),
            text="""Share of the predictions of a class that found a nucleus of that class, tp / (tp + fp), in [0, 1].

            A matched pair is a true positive if both sides have the class. Undefined without predictions of the class.
            """,
            sources=(RIJSBERGEN,),
            example=Example(CLASSIFIED, f"{COUNTED}: 1 / (1 + 1) = 1/2.", 0.5),
            **OF_PRECISION,
        ),
        Metric(
            path=("detection", "per_class", "<class>", "recall"),
            evaluate=partial(of_class, formula=recall),
            text="""Share of the reference nuclei of a class that were found with that class, tp / (tp + fn), in [0, 1].

            A matched pair is a true positive if both sides have the class. Undefined without reference nuclei of the
            class.
            """,
            sources=(RIJSBERGEN,),
            example=Example(CLASSIFIED, f"{COUNTED}: 1 / (1 + 2) = 1/3.", 0.333333),
            **OF_RECALL,
        ),
        Metric(
            path=("detection", "per_class", "<class>", "f1"),
            evaluate=partial(of_class, formula=f1),
            text="""F1 of detection and classification of a class, 2 tp / (2 tp + fp + fn), in [0, 1].

            A matched pair is a true positive if both sides have the class; a pair with two classes is a false positive
            of one and a false negative of the other. The same number as RQ, and defined for points too. Undefined
            "no-instances" if the class is on neither side.
            """,
            symmetric=True,
            sources=(RIJSBERGEN, KIRILLOV),
            example=Example(CLASSIFIED, f"{COUNTED}: 2 / (2 + 1 + 2) = 2/5.", 0.4),
            **OF_BOTH,
        ),
        Metric(
            path=("detection", "per_class", "<class>", "f_c"),
            evaluate=hovernet_class_f1,
            symmetric=True,
            sources=(HOVERNET,),
            example=Example(
                CLASSIFIED,
                "t = 1 (a), f = 1 (C was predicted a lymphocyte), g = 1 (b was not), s = 0, m = 1 (d): "
                "2 / (2 + 2 + 2 + 0 + 1) = 2/7.",
                0.285714,
            ),
            **OF_BOTH,
        ),
    ),
)
