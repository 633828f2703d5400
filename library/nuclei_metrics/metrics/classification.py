"""Classification: of the nuclei that were found, were the classes right? Only matched pairs count.

The confusion matrix M of the matched pairs has rows for the class of the reference and columns for that of the
prediction; N is M with each row divided by its sum (a row without pairs stays 0), which takes the frequency of the
classes out. With ``groups``, lists of class ids, rows and columns of the classes of a group are added up first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from nuclei_metrics.metrics import metric
from nuclei_metrics.metrics.counts import class_ids, hits, matched
from nuclei_metrics.metrics.order_statistics import weighted_auroc
from nuclei_metrics.model import Float64, Int64, MetricChoice, Scores, Units

Groups = Sequence[Sequence[int]]


def accuracy(units: Units, groups: Groups | None = None) -> Scores:
    """Share of the matched pairs with equal classes, trace(M) / sum(M), in [0, 1]. Undefined if nothing matched."""
    matrix = grouped(units, groups)
    return metric.ratio(_diagonal(matrix).sum(axis=1), matrix.sum(axis=(1, 2)), nothing_matched(units, groups))


def balanced_accuracy(units: Units, groups: Groups | None = None) -> Scores:
    """Mean of the recalls of the classes that have a matched reference, trace(N) / rows of N in use, in [0, 1].

    Undefined if nothing matched. The "overall NCM accuracy" of "lessons from MoNuSAC 2020"; scikit-learn's
    ``balanced_accuracy_score``.
    """
    normalised = _row_normalised(grouped(units, groups))
    in_use = normalised.any(axis=2).sum(axis=1)
    return metric.ratio(_diagonal(normalised).sum(axis=1), in_use, nothing_matched(units, groups))


def matthews_correlation(units: Units, groups: Groups | None = None) -> Scores:
    """Matthews correlation of several classes (R_K), in [-1, 1]; 0 is no better than chance.

    ``(c s - sum_k t_k p_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))`` with s pairs, c of them right, t_k
    references and p_k predictions of class k. 0 if all predictions have one class but the references do not.
    Undefined "one-class" if all references do, and if nothing matched. Gorodkin, Comput. Biol. Chem. 28, 2004.
    """
    matrix = _safe_to_multiply(grouped(units, groups))
    total, right = matrix.sum(axis=(1, 2)), _diagonal(matrix).sum(axis=1)
    references, predictions = matrix.sum(axis=2), matrix.sum(axis=1)
    spread_references = total**2 - (references**2).sum(axis=1)
    spread_predictions = total**2 - (predictions**2).sum(axis=1)
    covariance = right * total - (references * predictions).sum(axis=1)
    root = np.sqrt(spread_references.astype(np.float64)) * np.sqrt(spread_predictions.astype(np.float64))
    value = np.clip(covariance / np.where(root == 0, 1, root), -1, 1)
    return metric.scores(value, spread_references > 0, _one_class(units, total, groups))


def cohen_kappa(units: Units, groups: Groups | None = None) -> Scores:
    """Cohen's kappa, (p_o - p_e) / (1 - p_e), in [-1, 1]; 0 is no better than chance.

    p_o is the accuracy, ``p_e = sum_k t_k p_k / s^2`` what chance would give with the same numbers of references t_k
    and predictions p_k of each class among s pairs. Undefined "one-class" if both sides have one class only (p_e = 1),
    and if nothing matched. Cohen, Educ. Psychol. Meas. 20, 1960.
    """
    matrix = _safe_to_multiply(grouped(units, groups))
    total, right = matrix.sum(axis=(1, 2)), _diagonal(matrix).sum(axis=1)
    chance = (matrix.sum(axis=2) * matrix.sum(axis=1)).sum(axis=1)
    return metric.ratio(right * total - chance, total**2 - chance, _one_class(units, total, groups))


def macro_f1(units: Units, groups: Groups | None = None) -> Scores:
    """Mean over classes of 2 M_kk / (row_k + column_k) from the counts M, in [0, 1].

    A class counts if a matched reference or prediction has it. Undefined if nothing matched. scikit-learn's
    ``f1_score(average="macro")``; note that the F1 per class beside it is from N, as published.
    """
    matrix = grouped(units, groups)
    both = matrix.sum(axis=2) + matrix.sum(axis=1)
    reason = nothing_matched(units, groups)
    return metric.mean_of(
        [metric.ratio(2 * matrix[:, k, k], both[:, k], metric.code("nothing-matched")) for k in range(matrix.shape[1])],
        reason,
    )


def weighted_f1(units: Units, groups: Groups | None = None) -> Scores:
    """Mean of the F1 from the counts M, each class weighted by its matched references, in [0, 1].

    ``sum_k row_k 2 M_kk / (row_k + column_k) / sum(M)``. Undefined if nothing matched. scikit-learn's
    ``f1_score(average="weighted")``.
    """
    matrix = grouped(units, groups)
    rows, both = matrix.sum(axis=2), matrix.sum(axis=2) + matrix.sum(axis=1)
    f1 = 2 * _diagonal(matrix) / np.maximum(both, 1)
    return metric.ratio((rows * f1).sum(axis=1), rows.sum(axis=1), nothing_matched(units, groups))


def class_precision(units: Units, class_id: int) -> Scores:
    """N_kk / column k of N, in [0, 1]: how pure the class is if all classes were equally frequent.

    Undefined if no matched pair was predicted as this class.
    """
    normalised = _row_normalised(matched(units))
    k = class_id - 1
    return metric.ratio(normalised[:, k, k], normalised[:, :, k].sum(axis=1), hits(units, class_id).undefined)


def class_recall(units: Units, class_id: int) -> Scores:
    """N_kk = M_kk / row k of M, the share of the matched references of a class that got the right class, in
    [0, 1].

    Undefined if no matched reference has this class.
    """
    matrix, k = matched(units), class_id - 1
    return metric.ratio(matrix[:, k, k], matrix[:, k].sum(axis=1), hits(units, class_id).undefined)


def _class_f1(units: Units, class_id: int) -> Scores:
    """2 N_kk / (row k + column k of N), in [0, 1]. Undefined if no matched pair has this class on either side."""
    normalised, k = _row_normalised(matched(units)), class_id - 1
    both = normalised[:, k].sum(axis=1) + normalised[:, :, k].sum(axis=1)
    return metric.ratio(2 * normalised[:, k, k], both, hits(units, class_id).undefined)


def _counted_class_precision(units: Units, class_id: int) -> Scores:
    """M_kk / column k of M, in [0, 1]: how pure the class is with the classes as frequent as they are here.

    Undefined if no matched pair was predicted as this class.
    """
    matrix, k = matched(units), class_id - 1
    return metric.ratio(matrix[:, k, k], matrix[:, :, k].sum(axis=1), hits(units, class_id).undefined)


def _counted_class_f1(units: Units, class_id: int) -> Scores:
    """2 M_kk / (row k + column k of M), in [0, 1]. Undefined if no matched pair has this class on either side."""
    matrix, k = matched(units), class_id - 1
    both = matrix[:, k].sum(axis=1) + matrix[:, :, k].sum(axis=1)
    return metric.ratio(2 * matrix[:, k, k], both, hits(units, class_id).undefined)


def _class_auroc(units: Units, class_id: int) -> Scores:
    """Area under the ROC curve of a class against the rest, in [0, 1]; 1/2 is no better than chance.

    The share of the pairs (a matched nucleus of the class, a matched nucleus of another one) in which the first one has
    the higher probability of the class; equal ones count one half. Undefined "no-probability" if predictions give no
    class probabilities, "one-class" if the matched references are all of the class or none is, and if nothing matched.
    Hanley and McNeil, Radiology 143, 1982.
    """
    pairs, total = units.table.pairs, hits(units).tp
    if pairs.class_probability is None:
        return _without_probability(units)
    positive = pairs.class_id[:, 0] == class_id
    value = weighted_auroc(pairs.class_probability[:, class_id - 1], positive, pairs.case, units)
    return metric.scores(value, ~np.isnan(value), _one_class(units, total))


def auroc(units: Units) -> Scores:
    """Mean over classes of the area under the ROC curve of each class against the rest, in [0, 1].

    A class counts if some, but not all, matched references have it. Undefined as for a class. scikit-learn's
    ``roc_auc_score(multi_class="ovr", average="macro")``.
    """
    if units.table.pairs.class_probability is None:
        return _without_probability(units)
    return metric.mean_of(
        [_class_auroc(units, class_id) for class_id in class_ids(units)], _one_class(units, hits(units).tp)
    )


def grouped(units: Units, groups: Groups | None) -> Int64:
    """Take the confusion matrix M of each unit, (B, C, C); with groups of classes add these up, (B, G, G)."""
    matrix = matched(units)
    if groups is None:
        return matrix
    member = np.zeros((len(groups), matrix.shape[1]), np.int64)
    for index, group in enumerate(groups):
        member[index, np.array(group, np.int64) - 1] = 1
    return np.asarray(member @ matrix @ member.T)


def _safe_to_multiply(matrix: metric.Numbers) -> metric.Numbers:
    """The counts as Python's whole numbers, which cannot overflow, if some unit has 2^31 pairs or more."""
    return matrix.astype(object) if matrix.sum(axis=(1, 2)).max(initial=0) >= 2**31 else matrix


def _diagonal(matrix: metric.Numbers) -> metric.Numbers:
    return np.diagonal(matrix, axis1=1, axis2=2)


def _row_normalised(matrix: Int64) -> Float64:
    return np.asarray(matrix / np.maximum(matrix.sum(axis=2, keepdims=True), 1))


def nothing_matched(units: Units, groups: Groups | None = None) -> metric.Reasons:
    """Give the reason where no pair was matched, or with groups of classes none in a group."""
    if groups is None:
        return hits(units).undefined
    members = np.array([class_id for group in groups for class_id in group], np.int64)
    confusion = units.sum("confusion")
    return metric.why_undefined(confusion[:, members].sum(axis=(1, 2)), confusion[:, :, members].sum(axis=(1, 2)))


def _one_class(units: Units, total: Int64, groups: Groups | None = None) -> metric.Reasons:
    """Give the reason "one-class" where pairs exist, but of one class only."""
    return np.where(total > 0, metric.code("one-class"), nothing_matched(units, groups))


def _without_probability(units: Units) -> Scores:
    """Leave a score undefined: "no-probability" where nuclei were matched, elsewhere why none was."""
    reason = np.where(hits(units).tp > 0, metric.code("no-probability"), nothing_matched(units))
    return Scores(np.full(len(units), np.nan), reason)


# --- records ----------------------------------------------------------------------------------------------------------


def _if_probabilities(choice: MetricChoice) -> Iterable[metric.Variant]:
    return [metric.Variant()] if choice.class_probabilities else []


def _of_matrix(
    name: str, formula: metric.Evaluate, *, lowest: float = 0.0, symmetric: bool = False
) -> Iterable[metric.Metric]:
    """A score of all classes, and the same score of the groups of each grouping of classes."""
    for path in ((name,), ("grouped", "<grouping>", name)):
        yield metric.Metric(
            path=("classification", *path),
            page=f"classification.{name}",
            evaluate=formula,
            judges_class=True,
            lowest=lowest,
            worst=lowest,
            symmetric=symmetric,
        )


CLASSIFICATION = (
    *_of_matrix("balanced_accuracy", balanced_accuracy),
    *_of_matrix("accuracy", accuracy, symmetric=True),
    *_of_matrix("mcc", matthews_correlation, lowest=-1.0),
    *_of_matrix("kappa", cohen_kappa, lowest=-1.0, symmetric=True),
    *_of_matrix("macro_f1", macro_f1, symmetric=True),
    *_of_matrix("weighted_f1", weighted_f1),
    metric.Metric(path=("classification", "auroc"), evaluate=auroc, judges_class=True, each=(_if_probabilities,)),
    *(
        metric.Metric(
            path=("classification", "per_class", "<class>", name),
            evaluate=formula,
            judges_class=True,
            each=(_if_probabilities,) if name == "auroc" else (),
            symmetric=name == "counted_f1",
        )
        for name, formula in (
            ("precision", class_precision),
            ("recall", class_recall),
            ("f1", _class_f1),
            ("counted_precision", _counted_class_precision),
            ("counted_f1", _counted_class_f1),
            ("auroc", _class_auroc),
        )
    ),
)
