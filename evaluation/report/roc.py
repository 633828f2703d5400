"""ROC curves of the classes of matched nuclei, with bootstrapped bands, by grand_challenge_metrics (once evalutils)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluation.model import Bool, Float64, Int64, MatchCounts
from evaluation.report.page import Axis, Dot, Section, Series
from evaluation.report.plots import plot, series_colour

LEAST = 10  # nuclei of a class, and of the others: of fewer no curve is worth drawing
MOST_PAIRS = 20_000  # of which a curve is made, evenly spread over all of them
SAMPLES = 200
LEVEL = 0.95


def roc_section(classes: Sequence[str], counts: Sequence[MatchCounts]) -> Section | None:
    """A curve for each class: the share of its nuclei above a probability, against that of all others.

    counts   of the cases under the first matching rule; pairs of known class only

    None if a submission gives no probabilities of the classes, or no class has enough nuclei. The bands say how much
    the curves change with the nuclei, as if they had been drawn anew one by one; nuclei of a patient are alike, so true
    bands are wider. With numpy's generator of the library, seed 40: the same each time.
    """
    paired = [count for count in counts if len(count.pair_class)]
    given = [count.pair_probability for count in paired]
    known = [probability for probability in given if probability is not None]
    if len(known) < len(paired) or not known:
        return None
    reference = np.concatenate([count.pair_class[:, 0] for count in paired])
    probability = np.concatenate(known)[reference > 0]
    reference = reference[reference > 0].astype(np.int64)
    curves = {
        name: series_of(name, series_colour(class_id - 1), probability[:, class_id - 1], reference == class_id)
        for class_id, name in enumerate(classes, start=1)
        if LEAST <= np.count_nonzero(reference == class_id) <= len(reference) - LEAST
    }
    if not curves:
        return None
    areas = ", ".join(f"{name} {low:.3f} to {high:.3f}" for name, (_, low, high) in curves.items())
    figure = plot(
        "roc",
        "Share of the nuclei of a class that a probability finds, against that of the others it takes for it",
        f"Area under the curve, {LEVEL:.0%} band: {areas}. Dashed: the band of {SAMPLES} samples of the matched "
        "nuclei, drawn one by one; nuclei of a patient are alike, so true bands are wider.",
        [one for found, _, _ in curves.values() for one in found],
        x=Axis("others above the probability", (0.0, 1.0)),
        y=Axis("nuclei of the class above it", (0.0, 1.02)),
    )
    lead = f"How well do the probabilities tell the classes of the {len(reference):,} matched nuclei apart?"
    return Section("roc", "Probabilities of the classes", (figure,), lead)


def series_of(name: str, colour: str, probability: Float64, positive: Bool) -> tuple[list[Series], float, float]:
    """The mean curve and both edges of its band, and the ends of the interval of the area under it."""
    from grand_challenge_metrics.roc import get_bootstrapped_roc_ci_curves  # slow to import: scikit-learn

    chosen: Int64 = np.linspace(0, len(positive) - 1, min(len(positive), MOST_PAIRS)).astype(np.int64)
    found = get_bootstrapped_roc_ci_curves(
        probability[chosen].astype(np.float64), positive[chosen], num_bootstraps=SAMPLES, ci_to_use=LEVEL
    )
    edges = (("", found.low_tpr_vals), ("", found.high_tpr_vals), (name, found.mean_tpr_vals))
    series = [
        Series(
            label,
            tuple(Dot(float(x), float(y)) for x, y in zip(found.fpr_vals, shares, strict=True)),
            colour,
            dash="" if label else "dash",
            is_curve=True,
        )
        for label, shares in edges
    ]
    return series, float(found.low_az_val), float(found.high_az_val)
