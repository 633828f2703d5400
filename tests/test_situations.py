"""What each metric says when: the table worked out by hand against the program, for every metric and situation."""

from __future__ import annotations

from functools import cache

import pytest
from pictures import CLASSES, score_all, score_pictures
from situations import COLUMNS, LIKE_BOTH_EMPTY, SITUATIONS, WHAT_WHEN, number, says

from evaluation.scoring.score import Result
from nuclei_metrics.metrics import FAMILIES, metrics_of
from nuclei_metrics.model import UNDEFINED_REASONS, MetricScores


@cache
def scored(situation: str) -> Result:
    of = SITUATIONS[situation]
    return score_all(of.picture, confidence=of.confidence, as_points=of.as_points)


@cache
def pooled(situation: str) -> dict[str, MetricScores]:
    (scores,) = scored(situation).scores.values()
    return {".".join(metric.path): metric for metric in scores}


def test_the_table_has_a_row_for_every_path_but_those_of_the_other_class() -> None:
    choice = scored("ordinary").challenge.metric_choice()
    assert set(choice.families) == set(FAMILIES)
    paths = {".".join(metric.path) for metric in metrics_of(choice, class_aware=False) if CLASSES[1] not in metric.path}
    assert set(WHAT_WHEN) == paths


def test_every_row_has_a_word_for_every_situation() -> None:
    for path in WHAT_WHEN:
        words = WHAT_WHEN[path].split()
        assert len(words) == len(COLUMNS), path
        assert all(number(word) is not None or word in UNDEFINED_REASONS for word in words), path


def test_what_each_metric_says_when() -> None:
    for situation in SITUATIONS:
        for path in WHAT_WHEN:
            score, expected = pooled(situation)[path].means["pooled"].score, says(path, situation)
            if number(expected) is None:
                assert (score.value, score.undefined) == (None, expected), (path, situation)
            else:
                assert score.undefined is None, (path, situation)
                assert score.value == pytest.approx(number(expected), abs=1e-12), (path, situation)


def test_everything_ignored_leaves_nothing_on_either_side() -> None:
    (case,) = scored(LIKE_BOTH_EMPTY).cases
    assert (len(case.reference.source_id), len(case.prediction.source_id), case.ignored_predictions) == (0, 0, 2)


@pytest.mark.parametrize("picture", ["aa.", "aa. aa", "aa. aa. aa.", "aa. aa.\naaa aa"])
def test_a_drawing_that_is_none_is_refused(picture: str) -> None:
    with pytest.raises(ValueError, match="no reference beside a prediction"):
        score_all(picture)


def test_a_number_and_a_reason_are_read_at_a_path_of_metrics_json() -> None:
    assert score_pictures("detection.f1.pooled", "a.b  a..") == 0.666667
    assert score_pictures("detection.f1.case_mean", "a.b  a..\n\na.. a..") == 0.833333
    assert score_pictures("classification.mcc.pooled", "a.b  a..") == "one-class"
    assert score_pictures("classification.auroc.pooled", "a.B  a.B") == "no-probability"
    assert score_pictures("classification.auroc.pooled", "a.B  a.B", confidence={"a": 0.6, "B": 0.9}) == 1.0
