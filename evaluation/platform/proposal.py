"""The paragraphs of a challenge proposal (MICCAI, BIAS) that the rules of a challenge answer."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.board.rules import gameable_ranking, method_in_words
from evaluation.board.titles import metric_title
from evaluation.challenge import Challenge
from evaluation.challenge.rules import RankingColumn
from evaluation.files.results import __version__
from evaluation.findings import counted
from evaluation.findings.metric_pages import page_of, summary

_OVERLAPS = {
    "keep": "Overlapping nuclei keep all their pixels.",
    "last": "A pixel in several outlines belongs to the outline that comes last in the file.",
    "first": "A pixel in several outlines belongs to the outline that comes first in the file.",
    "smallest": "A pixel in several outlines belongs to the smallest nucleus.",
    "class_order": "A pixel in several outlines belongs to the class that comes last in the list of classes; inside a "
    "class, to the outline that comes last in the file.",
    "ignore": "Pixels in several outlines are not scored.",
}


def proposal_text(challenge: Challenge) -> str:
    """Write PROPOSAL.md: metrics, their reasons, ranking, missing data, statistics, annotations, code."""
    sections = {
        "Assessment methods: metrics": _metrics(challenge),
        "Assessment methods: justification of the metrics": _reasons(challenge),
        "Ranking method": _ranking(challenge),
        "Missing data": _missing_data(challenge),
        "Statistical analyses": _statistics(challenge),
        "Annotations and test cases": _annotations(challenge),
        "Code": [
            f"Submissions are scored by nuclei-evaluation {__version__}, which is open source. The same program "
            "validates and scores on the computers of participants. The rules and cases have the SHA-256 "
            f"{challenge.hash}, which is part of every result."
        ],
    }
    head = [
        f"# {challenge.name}: paragraphs for the challenge proposal",
        "From challenge.toml and cases.csv, with the headings of the structured MICCAI proposal (BIAS, "
        "Maier-Hein et al. 2020). Check each paragraph, and add what the rules do not contain: sponsors, dates, "
        "awards, the data agreement.",
    ]
    body = [text for title, paragraphs in sections.items() if paragraphs for text in (f"## {title}", *paragraphs)]
    return "\n\n".join([*head, *body]) + "\n"


def column_line(column: RankingColumn) -> str:
    """Explain a ranked column: its title, the better values, and the first sentence of the metric's page."""
    page, better = page_of(column.path), "higher" if column.direction == "descending" else "lower"
    title = metric_title(column.path)
    return f"- {title} (`{column.path}`), {better} is better.{f' {summary(page)}' if page else ''}"


def _metrics(challenge: Challenge) -> list[str]:
    columns = challenge.ranking.columns if challenge.ranking else ()
    lines = list(map(column_line, columns))
    found = [f"Predicted and reference nuclei are matched by the rule `{rule.rule}`. {rule.words}"
             for rule in challenge.matching.rules[:1]]  # fmt: skip
    families = _joined(challenge.metrics.families)
    shown = f"The families {families} are computed for every submission, pooled and as means, overall and by class."
    return [*found, *(["These scores rank:\n\n" + "\n".join(lines)] if lines else []), shown]


def _reasons(challenge: Challenge) -> list[str]:
    if challenge.ranking is None or not challenge.ranking.columns:
        return []
    families = list(dict.fromkeys(column.path.partition(".")[0] for column in challenge.ranking.columns))
    reasons = []
    if "panoptic" not in families:
        reasons.append(
            "Detection, classification and segmentation are scored separately, since panoptic quality mixes the three: "
            "submissions with very different errors have equal values (Foucart, Debeir and Decaestecker, Scientific "
            "Reports 13, 8614, 2023)."
        )
    warned = gameable_ranking(challenge)
    if not warned:
        reasons.append("Every ranked score counts false negatives.")
    reasons += [f"Known limit: {finding.got}." for finding in warned]
    return [" ".join(reasons)] if reasons else []


def _ranking(challenge: Challenge) -> list[str]:
    if challenge.ranking is None or not challenge.ranking.columns:
        return []
    groups, unit = len({case.group for case in challenge.cases}), "patients"
    return [method_in_words(challenge.ranking, groups, unit)]


def _missing_data(challenge: Challenge) -> list[str]:
    rules, undefined = challenge.submission, challenge.aggregation.undefined
    missing = {
        "worst": "A case without predictions is scored as a case in which no nucleus was found.",
        "reject": "A submission that lacks a case is not scored.",
    }[rules.missing_case]
    value = {
        "worst": "A score that is undefined although the reference has nuclei has its worst value.",
        "skip": "A score that is undefined in a case or patient is excluded from the mean.",
    }[undefined]
    return [f"{missing} {value}"]


def _statistics(challenge: Challenge) -> list[str]:
    lines = []
    if challenge.confidence is not None:
        level, samples = challenge.confidence.level, challenge.confidence.samples
        lines.append(f"Scores have {100 * level:g}% confidence intervals from {samples:,} bootstrap samples.")
    if challenge.ranking is not None and challenge.ranking.columns:
        lines.append(
            "The leaderboard shows how often each team has each rank over bootstrap samples of patients, and the test "
            "of the ranking for each pair of teams. Before the results are published, an audit ranks all teams under "
            "other matching rules, thresholds and averaging units, and reports each change of the first rank."
        )
    return [" ".join(lines)] if lines else []


def _annotations(challenge: Challenge) -> list[str]:
    cases = challenge.cases
    count = f"{counted(len(cases), 'case')} of {counted(len({case.group for case in cases}), 'patient')}"
    classes = _joined(challenge.class_names)
    lines = [f"The test set has {count}. The classes are {classes}."]
    if challenge.reference.overlap is not None:
        lines.append(_OVERLAPS[challenge.reference.overlap])
    if ignored := challenge.reference.ignore.classes:
        lines.append(f"Regions that are annotated as {_joined(ignored)} are not scored.")
    return [" ".join(lines)]


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
