"""The settings of a phase of the platform, from the table [ranking] of a challenge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingRules
from evaluation.leaderboard.team_scores import ranking_of
from evaluation.leaderboard.titles import short_titles
from evaluation.ranking.methods import needs_units

ORDERS = {"ascending": "asc", "descending": "desc"}
SCORING = {"absolute": "abs", "median_of_ranks": "med"}
SCORING_WORDS = {
    "abs": "Use the absolute value of the score column",
    "avg": "Use the mean of the relative ranks of the score and extra result columns",
    "med": "Use the median of the relative ranks of the score and extra result columns",
}
TITLE_CHARACTERS = 64  # of a title on the platform
DECIMAL_PLACES = 4
SUBMISSIONS, DAYS = 1, 7  # of a participant in a period, to begin with: each is a question to the reference


def phase_settings(challenge: Challenge) -> dict[str, Any]:
    """What to enter in the settings of a phase, by the names that the platform has for them, and why.

    ``settings`` hold the score (the first column of [ranking]), its order, the other columns and how ranks are
    combined; ``explanation`` is a list of sentences, also about what the platform cannot do. Raises ChallengeBroken
    ("no-ranking").
    """
    rules = ranking_of(challenge)
    titles = column_titles([column.path for column in rules.columns])
    score, *extra = zip(rules.columns, titles, strict=True)
    scoring = SCORING.get(rules.method, "avg")
    return {
        "settings": {
            "score_title": score[1],
            "score_jsonpath": score[0].path,
            "score_error_jsonpath": "",
            "score_default_sort": ORDERS[score[0].direction],
            "score_decimal_places": DECIMAL_PLACES,
            "scoring_method_choice": scoring,
            "submissions_limit_per_user_per_period": SUBMISSIONS,
            "submission_limit_period": DAYS,
            "extra_results_columns": [
                {"title": title, "path": column.path, "order": ORDERS[column.direction]} for column, title in extra
            ],
        },
        "explanation": explain_settings(rules, scoring, ranked_only=challenge.publish.metrics == "ranked"),
    }


def explain_settings(rules: RankingRules, scoring: str, *, ranked_only: bool) -> list[str]:
    """What the settings mean, and where the platform's order may differ from that of [ranking]."""
    lines = [
        "The score is the first column of [ranking], the others are extra results columns; each path is that of a "
        "number in metrics.json, and 'desc' means that higher is better.",
        f"Scoring method '{scoring}': {SCORING_WORDS[scoring]}.",
        "A submission in which one of these is no number is not ranked by the platform at all.",
        'To show a number that does not rank, add a column with "exclude_from_ranking": true'
        + (' and write metrics = "all" under [publish]: now metrics.json holds what ranks.' if ranked_only else "."),
        f"Limit of attempts: {SUBMISSIONS} submission for each participant in {DAYS} days. Every score reveals "
        "something about the reference: choose the fewest that your participants can work with.",
    ]
    if rules.require:
        lines.append(
            "The platform knows no minimum: a submission below it is ranked as any other. Publish the table "
            "of 'evaluation leaderboard' as well, and say so on the page of the challenge."
        )
    differs = []
    if needs_units(rules.method):
        differs.append(
            f"method = '{rules.method}': the platform ranks by the means alone. Publish the table of 'evaluation "
            "leaderboard' instead, and say so on the page of the challenge."
        )
    if any(column.weight != rules.columns[0].weight for column in rules.columns):
        differs.append("weights: on the platform all columns count the same.")
    if rules.ties != "min":
        differs.append(f"ties = '{rules.ties}': on the platform equal values share the better rank, \"1, 2, 2, 4\".")
    if rules.missing == "worst":
        differs.append("missing = 'worst': the platform leaves a submission without a value unranked.")
    if rules.ex_aequo:
        differs.append("ex_aequo: the platform tests nothing; teams share a rank only if their numbers are equal.")
    return lines + [f"Not on the platform: {line}" for line in differs]


def column_titles(paths: Sequence[str]) -> list[str]:
    """Titles of columns, each once: those of the pages, with the aggregation where two are alike.

    >>> column_titles(["detection.f1.group_mean", "panoptic.per_class.Epithelial.pq.pooled"])
    ['Detection F1', 'PQ, Epithelial']
    """
    titles = [title[:1].upper() + title[1:] for title in short_titles(paths)]
    return [
        title if len(title) <= TITLE_CHARACTERS else f"{title[: TITLE_CHARACTERS - 4].rstrip()} {index}"
        for index, title in enumerate(titles, start=1)
    ]
