"""The whole design of a challenge as a dated document, under the headings of the BIAS checklist.

Maier-Hein et al., "BIAS: Transparent reporting of biomedical image analysis challenges", Medical Image Analysis 2020.
What the program knows is filled in; the rest is marked, for the organisers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluation.challenge import Challenge
from evaluation.findings.command_line import FileExists
from evaluation.findings.errors import WrongUsage
from evaluation.formats import format_of
from evaluation.leaderboard.board import load_ranked, method_in_words
from evaluation.leaderboard.registration import REGISTRATION_FILE, registration_document
from evaluation.leaderboard.teams import file_hash
from evaluation.report.rules_in_words import rules_in_words
from evaluation.results.files import write_together
from evaluation.results.metrics_json import as_json
from evaluation.results.version import __version__

DOCUMENT_FILE = "registration.md"
OPEN = "*To be written by the organisers.*"
HEADINGS = {
    "Challenge organisation": (
        "Title", "Abstract", "Keywords", "Organizers", "Life cycle type", "Challenge venue and platform",
        "Participation policies", "Submission method", "Missing and late submissions", "Challenge schedule",
        "Ethics approval", "Data usage agreement", "Code availability", "Conflicts of interest", "Author contributions",
    ),
    "Mission of the challenge": (
        "Field(s) of application", "Task category(ies)", "Cohorts", "Imaging modality(ies)", "Context information",
        "Target entity(ies)", "Assessment aim(s)",
    ),
    "Challenge data sets": (
        "Data source(s)", "Training and test case characteristics", "Annotation characteristics",
        "Data pre-processing method(s)", "Sources of error",
    ),
    "Assessment methods": ("Metric(s)", "Ranking method(s)", "Statistical analyses", "Further analyses"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Registered:
    """The document, and the SHA-256 of registration.json, by which readers know that nothing was changed."""

    path: Path
    sha256: str
    left_open: int


def register_challenge(folder: Path, *, date: str, late: str = "") -> Registered:
    """Write registration.json and registration.md into the folder of a challenge.

    late  what happens to late submissions, in words

    Raises ChallengeBroken, and WrongUsage if there is a registration already.
    """
    challenge, _ = load_ranked(folder)
    if (folder / REGISTRATION_FILE).exists():
        raise WrongUsage(FileExists().at(repr(REGISTRATION_FILE)))
    known = known_answers(challenge, late)
    identity = (
        f"Version {challenge.version}. Rules and cases: `{challenge.hash}`. Ranking and audit: "
        f"`{challenge.ranking_hash}`. nuclei-evaluation {__version__}."
    )
    lines = [f"# {challenge.name}: design, registered on {date}", "", identity, ""]
    for part, headings in HEADINGS.items():
        lines += [f"## {part}", ""]
        for heading in headings:
            lines += [f"### {heading}", "", known.get(heading) or OPEN, ""]
    document = as_json(registration_document(challenge, date))
    write_together(folder, {DOCUMENT_FILE: "\n".join(lines), REGISTRATION_FILE: document})
    return Registered(folder / DOCUMENT_FILE, file_hash(folder / REGISTRATION_FILE), lines.count(OPEN))


def known_answers(challenge: Challenge, late: str) -> dict[str, str]:
    """What challenge.toml and cases.csv say under the headings."""
    rows = dict(rules_in_words(challenge.model_dump(mode="json", exclude={"cases"})))
    ranking = challenge.ranking
    assert ranking is not None
    groups = {case.group for case in challenge.cases}
    strata = sorted({case.stratum for case in challenge.cases if case.stratum})
    of_strata = f", {len(strata)} strata ({', '.join(strata)})" if strata else ""
    annotation = [rows[name] for name in ("Reference", "Not scored") if name in rows]
    metrics = [
        row for row in rows.items() if row[0] not in ("Classes", "Reference", "Not scored", "Ranking", "Intervals")
    ]
    columns = [
        f"`{column.path}`, {column.direction}, weight {column.weight:g}, margin {ranking.margin_of(column):g}"
        for column in ranking.columns
    ]
    intervals = f" Confidence intervals: {rows['Intervals']}" if "Intervals" in rows else ""
    return {
        "Title": challenge.name,
        "Submission method": f"Files `{challenge.submission.files}`, {format_of(challenge.submission.format).words}.",
        "Missing and late submissions": f"A missing case: {rows['A missing case']} Late submissions: {late or OPEN}",
        "Task category(ies)": f"Instance segmentation and classification: {', '.join(challenge.metrics.families)}.",
        "Target entity(ies)": f"Nuclei: {', '.join(challenge.class_names)}.",
        "Training and test case characteristics": f"Scored are {len(challenge.cases)} cases of {len(groups)} groups "
        f"(patients){of_strata}; training cases: {OPEN}",
        "Annotation characteristics": f"{' '.join(annotation)} Annotators: {OPEN}".strip(),
        "Metric(s)": "\n".join(f"- {name}: {words}" for name, words in metrics),
        "Ranking method(s)": "\n".join(
            [method_in_words(ranking, len(groups), "groups"), "", *(f"- {c}" for c in columns)]
        ),
        "Statistical analyses": f"Test: {ranking.test.replace('_', ' ')}, level {ranking.significance_level:g}; "
        f"{ranking.samples:,} bootstrap samples of groups, seed {ranking.seed}, show how stable places are.{intervals}",
        "Further analyses": "`evaluation audit` ranks under other rules, as [audit] says.",
    }
