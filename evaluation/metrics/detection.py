"""Detection: were the nuclei found, whatever their outline?"""

from __future__ import annotations

from evaluation.metrics.counts import Hits, class_hits, hits
from evaluation.metrics.undefined import mean_of, ratio
from evaluation.model import Scores, Units


def precision(units: Units) -> Scores:
    """Share of the predictions that found a nucleus, tp / (tp + fp), in [0, 1]; classes are ignored.

    Undefined "no-prediction" without predictions ("no-instances" if there is no reference either).
    """
    return precision_of(hits(units))


def recall(units: Units) -> Scores:
    """Share of the reference nuclei that were found, tp / (tp + fn), in [0, 1]; classes are ignored.

    Undefined "no-reference" without reference nuclei ("no-instances" if there is no prediction either).
    """
    return recall_of(hits(units))


def f1(units: Units) -> Scores:
    """Harmonic mean of precision and recall, 2 tp / (2 tp + fp + fn), in [0, 1]; classes are ignored.

    0 if one side is empty; undefined "no-instances" if both sides are. The F_d of HoVer-Net (Graham et al., Medical
    Image Analysis 58, 2019) under ``centroid_assignment`` with a radius of 12 px and ``cutoff = "after"``.
    """
    return f1_of(hits(units))


def threat_score(units: Units) -> Scores:
    """Critical success index, tp / (tp + fp + fn), in [0, 1]; classes are ignored.

    0 if one side is empty; undefined "no-instances" if both sides are. Called "accuracy" or "average precision" by
    others; it is neither (Hirling et al., Nature Methods 21, 2024).
    """
    return threat_score_of(hits(units))


def class_precision(units: Units, class_id: int) -> Scores:
    """Share of the predictions of a class that found a nucleus of that class, tp / (tp + fp), in [0, 1].

    A matched pair is a true positive if both sides have the class. Undefined without predictions of the class.
    """
    return precision_of(class_hits(units, class_id))


def class_recall(units: Units, class_id: int) -> Scores:
    """Share of the reference nuclei of a class that were found and named, tp / (tp + fn), in [0, 1].

    A matched pair is a true positive if both sides have the class. Undefined without reference nuclei of the class.
    """
    return recall_of(class_hits(units, class_id))


def class_f1(units: Units, class_id: int) -> Scores:
    """F1 of finding and naming a class, 2 tp / (2 tp + fp + fn), in [0, 1].

    A matched pair is a true positive if both sides have the class; a pair with two classes is a false positive of one
    and a false negative of the other. The same number as RQ, and defined for points too. Undefined "no-instances" if
    the class is on neither side.
    """
    return f1_of(class_hits(units, class_id))


def macro_f1(units: Units) -> Scores:
    """Mean over classes of their F1 of finding and naming, in [0, 1].

    A class counts in a unit if it occurs in reference or prediction. Undefined "no-instances" if none does. The
    "macro F1" of PUMA 2024.
    """
    classes = range(1, units.sum("confusion").shape[1])
    return mean_of([class_f1(units, class_id) for class_id in classes], hits(units).undefined)


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


def precision_of(of: Hits) -> Scores:
    """Precision, tp / (tp + fp)."""
    return ratio(of.tp, of.tp + of.fp, of.undefined)


def recall_of(of: Hits) -> Scores:
    """Recall, tp / (tp + fn)."""
    return ratio(of.tp, of.tp + of.fn, of.undefined)


def f1_of(of: Hits) -> Scores:
    """F1, 2 tp / (2 tp + fp + fn)."""
    return ratio(2 * of.tp, 2 * of.tp + of.fp + of.fn, of.undefined)


def threat_score_of(of: Hits) -> Scores:
    """Threat score, tp / (tp + fp + fn)."""
    return ratio(of.tp, of.tp + of.fp + of.fn, of.undefined)
