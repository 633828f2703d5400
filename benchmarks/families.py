"""All families of metrics with all measures, from label maps to scores, and intervals of all their numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.label_maps import LabelMaps
from evaluation import Challenge
from evaluation.challenge.matching_rules import Sides
from evaluation.challenge.rules import ConfidenceRules
from evaluation.scoring.match import MatchedCase
from evaluation.scoring.measure import measure_cases
from evaluation.scoring.score import Result, case_table, confidence_intervals, penalised, summarise
from nuclei_metrics.aggregation.units import PenalisedScores, unite
from nuclei_metrics.instances.prepare import PreparedReference
from nuclei_metrics.metrics import FAMILIES, Metric, metrics_of
from nuclei_metrics.metrics.counts import class_counts
from nuclei_metrics.model import Case, CaseTable, Interval, MetricScores, Region

PATIENTS, SAMPLES = 25, 2000
MEASURES = (
    "iou",
    "dice",
    "boundary_iou",
    "surface_dice",
    "hausdorff_px",
    "hausdorff95_px",
    "mean_surface_distance_px",
    "centroid_distance_px",
    "area_ratio",
)


def all_families() -> Challenge:
    """MoNuSAC 2020 with every family and measure, ten IoU thresholds, and a tolerance of 2 px."""
    metrics = {
        "families": FAMILIES,
        "measures": MEASURES,
        "tolerance_px": 2.0,
        "iou_thresholds": tuple(round(0.5 + 0.05 * step, 2) for step in range(10)),
        "false_positives": (1.0, 4.0),
        "boundary": "open",
        "coverage": 0.5,
        "distance_cap_px": 10.0,
        "class_probabilities": True,
        "sizes_px": {"small": (0, 400), "large": (401, 1_000_000)},
    }
    rule = {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}
    ranking = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": []}
    return Challenge.from_preset(
        "monusac2020", name="all families", metrics=metrics, matching={"rules": [rule]}, ranking=ranking
    )


def score_families(images: Sequence[LabelMaps]) -> Result:
    """From label maps to all scores of cases, patients and the data set; probabilities are drawn."""
    challenge, random = all_families(), np.random.default_rng(0)
    (rule,), classes = challenge.matching.rules, len(challenge.classes)
    none = Region(np.empty(0, np.int64), np.empty(0, np.int64))
    matched = []
    for place, maps in enumerate(images):
        pair = maps.pair(pixels=True)
        (reference, prediction), table = pair.with_pixels(), pair.table
        confidence = random.random(len(prediction)).astype(np.float32)
        of_classes = random.dirichlet(np.ones(classes), len(prediction)).astype(np.float32)
        prediction = dataclasses.replace(prediction, probability=confidence, class_probability=of_classes)
        case = Case(f"c{place:04}", f"p{place * PATIENTS // len(images):02}", *maps.reference.shape)
        matched.append(
            MatchedCase(
                case=case,
                reference=PreparedReference(reference, none),
                prediction=prediction,
                submitted=len(prediction),
                table=table,
                matches={rule.name: rule.match(Sides(case, table, reference, prediction, challenge.metrics.boundary))},
                reference_counts=class_counts(reference, classes),
                prediction_counts=class_counts(prediction, classes),
                overlaps=table,
            )
        )
    return summarise(challenge, measure_cases(challenge, matched))


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What confidence intervals are made from."""

    challenge: Challenge
    cases: Sequence[Case]
    table: CaseTable
    metrics: Sequence[Metric]
    scores: Sequence[MetricScores]
    of_cases: Mapping[tuple[str, ...], PenalisedScores]


def ask_for_intervals(images: Sequence[LabelMaps]) -> Scored:
    """Score all families, and ask for an interval of every number that is defined."""
    result = score_families(images)
    (scores,) = result.scores.values()
    columns = tuple(".".join((*metric.path, name)) for metric in scores for name in metric.means)
    settings = {"level": 0.95, "samples": SAMPLES, "seed": 1, "method": "percentile", "resample": "groups"}
    confidence = ConfidenceRules(**settings, columns=columns)
    challenge = result.challenge.model_copy(update={"confidence": confidence})
    (rule,) = challenge.matching.rules
    table = case_table(challenge, result.cases, rule.name, primary=True)
    metrics = metrics_of(challenge.metric_choice(), class_aware=rule.class_aware)
    units = unite(table, [[row] for row in range(len(table))])
    of_cases = {metric.path: penalised(metric, units, challenge) for metric in metrics}
    return Scored(challenge, result.scored.cases, table, metrics, scores, of_cases)


def bootstrap_all(scored: Scored) -> dict[tuple[str, ...], Interval]:
    """The interval of every number, by its path in metrics.json."""
    of_cases = scored.of_cases
    return confidence_intervals(
        scored.challenge, scored.cases, scored.table, scored.metrics, scored.scores, (), of_cases
    )
