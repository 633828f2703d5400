"""A phase of the platform: requests to its support, settings of the organiser, and contents of the archive.

Support alone creates sockets, interfaces, evaluation outputs and the archive, and sets the kind of a phase and its time
limit; the organiser sets the rest. ``phase_of`` finds all of it in the rules of a challenge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from evaluation.board.rules import ranking_of
from evaluation.board.titles import short_titles
from evaluation.challenge import Challenge, FormatRules
from evaluation.challenge.formats import usual_suffix
from evaluation.challenge.rules import RankingRules
from evaluation.files.formats import format_of
from evaluation.files.formats.format import Example
from evaluation.files.results.documents import ABSENT, DEVIATIONS, encoded
from evaluation.files.results.files import write_atomically
from evaluation.files.schemas import json_schema, name_of_schema
from evaluation.folders.made_challenge import table_text
from nuclei_metrics.ranking.methods import needs_units

SUPPORT = "support@grand-challenge.org"
SITE = "https://grand-challenge.org"
MINUTES = 60  # of an evaluation, unless support changes it
MEMORY_GB = 8  # the platform's default; up to 32
PROPOSED_INPUT = "he-image"  # for a challenge whose jobs have one input
ITEMS_SHOWN = 3
TITLE_CHARACTERS = 64  # of a title on the platform
SUBMISSIONS, DAYS = 1, 7  # of a participant in a period, to begin with: each is a question to the reference
ORDERS = {"ascending": "asc", "descending": "desc"}
SCORING = {"absolute": "abs", "median_of_ranks": "med"}
SCORING_WORDS = {
    "abs": "Use the absolute value of the score column",
    "avg": "Use the mean of the relative ranks of the score and extra result columns",
    "med": "Use the median of the relative ranks of the score and extra result columns",
}


class _Kind(NamedTuple):
    """A kind of socket, as the platform spells it, and the suffix of its output files."""

    name: str
    super_kind: str
    suffix: str


IMAGE = _Kind("Image", "Image", "")
JSON_FILE, CSV_FILE = _Kind("Anything", "File", ".json"), _Kind("CSV file", "File", ".csv")
KINDS = {  # of formats, otherwise of usual suffixes
    "polygons_json": _Kind("Multiple polygons", "File", ".json"),
    "points_json": _Kind("Multiple points", "File", ".json"),
    **dict.fromkeys((".mha", ".png"), IMAGE),
    **dict.fromkeys((".json", ".geojson"), JSON_FILE),
    ".csv": CSV_FILE,
}


def _kind_of(rules: FormatRules) -> _Kind | None:
    """Return the kind of the output of one case; None if the platform has none for the format."""
    if rules.file_holds == "all cases":
        return None
    return KINDS.get(rules.format) or KINDS.get(usual_suffix(rules.format))


@dataclass(frozen=True, slots=True)
class Socket:
    """An input or output that support creates.

    relative_path  where its file is in ``/input`` or ``/output``; unique on the whole platform, as its title is
    kept_out       of the database: there a file would be printed to everybody who sees the result
    """

    slug: str
    relative_path: str
    kind: str
    super_kind: str
    kept_out: bool = False

    def words(self) -> str:
        kind = f"{self.kind}, not stored in the database" if self.kept_out else self.kind
        return f"{self.slug}: {kind}; {self.relative_path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SupportRequest:
    """Set up by support. A predictions phase has no inputs, outputs or archive."""

    kind: str
    inputs: tuple[Socket, ...] = ()
    outputs: tuple[Socket, ...] = ()
    evaluation_outputs: tuple[Socket, ...] = ()
    archive_items: int = 0
    time_limit_minutes: int = MINUTES


class _ArchiveItem(NamedTuple):
    """An item of the archive: its case, and the name that its image or file must have."""

    case: str
    name: str


@dataclass(frozen=True, slots=True)
class _ExtraColumn:
    """An extra results column of a phase; ``error_path``: the path of its standard deviation, if any."""

    title: str
    path: str
    order: str
    error_path: str = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseSettings:
    """The settings that the organiser makes, by the names that the platform has for them."""

    score_title: str
    score_jsonpath: str
    score_error_jsonpath: str = ""
    score_default_sort: str
    score_decimal_places: int = 4
    scoring_method_choice: str
    display_all_metrics: bool = True
    evaluation_requires_memory_gb: int = MEMORY_GB
    submissions_limit_per_user_per_period: int = SUBMISSIONS
    submission_limit_period: int = DAYS
    extra_results_columns: list[_ExtraColumn]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """All that the platform needs for a challenge.

    schemas      JSON Schemas of outputs, by slug
    pack_context of the platform's grand-challenge-forge
    explanation  sentences, also about what the platform cannot do
    """

    name: str
    support: _SupportRequest
    settings: _PhaseSettings
    archive: tuple[_ArchiveItem, ...]
    schemas: Mapping[str, Any]
    pack_context: Mapping[str, Any]
    explanation: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {
            "support": asdict(self.support),
            "settings": encoded(self.settings),
            "archive": [item._asdict() for item in self.archive],
            "schemas": self.schemas,
            "pack_context": self.pack_context,
            "explanation": list(self.explanation),
        }

    def message(self) -> list[str]:
        """Write the message to support, ready to send."""
        asked = self.support
        lines = [f'Please set up a phase of our challenge "{self.name}".', "", f"Kind of phase: {asked.kind}"]
        if asked.inputs:
            lines += ["Inputs (new sockets, if they do not exist):", *_indented(asked.inputs)]
            lines += ["Outputs (new sockets, if they do not exist):", *_indented(asked.outputs)]
            outputs = ", ".join(socket.slug for socket in asked.outputs)
            lines += [f"Interface: {socket.slug} -> {outputs}" for socket in asked.inputs]
            only = " or ".join(socket.slug for socket in asked.inputs)
            lines += [f"Archive: {asked.archive_items} items; the input of each is {only} and no other"]
        lines += ["Evaluation outputs besides metrics.json:", *_indented(asked.evaluation_outputs)]
        return [*lines, f"Time limit of an evaluation: {asked.time_limit_minutes} minutes"]

    def lines(self) -> Iterator[str]:
        """Write everything except schemas and ``pack_context`` as text."""
        yield from (f"# Message to support ({SUPPORT})", "", *self.message(), "", "# Settings of the phase", "")
        for key, value in encoded(self.settings).items():
            yield f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        if self.archive:
            yield from ("", f"# Archive: {len(self.archive)} items", "")
            yield from (f"{item.name} is case {item.case}" for item in self.archive[:ITEMS_SHOWN])
            if more := len(self.archive) - ITEMS_SHOWN:
                yield f"and {more} more: --output writes the whole list" if more > 0 else ""
        yield from ("", "# Notes", "", *(f"- {line}" for line in self.explanation))

    def write(self, folder: Path) -> list[str]:
        """Write message.txt, settings.json, pack-context.json, archive.csv and schemas; returns their names."""
        texts = {"message.txt": "\n".join([*self.message(), ""])}
        documents = {"settings.json": encoded(self.settings), "pack-context.json": self.pack_context}
        documents |= {f"schemas/{slug}.json": schema for slug, schema in self.schemas.items()}
        texts |= {name: json.dumps(each, indent=1, ensure_ascii=False) + "\n" for name, each in documents.items()}
        if self.archive:
            texts["archive.csv"] = table_text([_ArchiveItem._fields, *self.archive])
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, text)
        return sorted(texts)


def _indented(sockets: Sequence[Socket]) -> list[str]:
    return [f"  {socket.words()}" for socket in sockets]


def phase_of(challenge: Challenge) -> _Phase:
    """Find all that the platform needs in the rules of a challenge. Raises ChallengeBroken ("no-ranking")."""
    support, settings = _support_request(challenge), _phase_settings(challenge)
    archive: tuple[_ArchiveItem, ...] = ()
    if support.inputs:
        rules = challenge.submission
        archive = tuple(_ArchiveItem(case.name, rules.key_of(case)) for case in challenge.cases)
    schemas = {}
    if (name := schema_of_submission(challenge)) is not None:
        schemas = {socket.slug: json_schema(name) for socket in support.outputs}
    return _Phase(
        name=challenge.name,
        support=support,
        settings=settings,
        archive=archive,
        schemas=schemas,
        pack_context=_pack_context(challenge, support),
        explanation=tuple(_explain(challenge, support, settings)),
    )


def schema_of_submission(challenge: Challenge) -> str | None:
    """Return the name of the schema of submitted files, None if they are no JSON and no CSV."""
    rules = challenge.submission
    return name_of_schema(rules.format, are_points=rules.are_points, tool=rules.value("tool"))


# --- support ----------------------------------------------------------------------------------------------------------


def _slug_of(name: str) -> str:
    """Return a name as a slug.

    >>> _slug_of("Demo: nuclei of four patients")
    'demo-nuclei-of-four-patients'
    """
    return re.sub("[^a-z0-9]+", "-", name.casefold()).strip("-")


def _support_request(challenge: Challenge) -> _SupportRequest:
    evaluation_outputs = _evaluation_outputs(challenge)
    rules = challenge.submission
    if rules.socket is None:
        return _SupportRequest(kind="Predictions", evaluation_outputs=evaluation_outputs)
    kind = _kind_of(rules) or JSON_FILE
    slugs = [rules.socket]
    if "{class}" in rules.socket:
        slugs = [rules.socket.replace("{class}", _slug_of(name)) for name in challenge.class_names]
    images = [Socket(slug, f"images/{slug}", *IMAGE[:2]) for slug in rules.inputs or (PROPOSED_INPUT,)]
    outputs = [
        Socket(slug, f"images/{slug}" if kind is IMAGE else f"{slug}{kind.suffix}", *kind[:2], kind is JSON_FILE)
        for slug in slugs
    ]
    return _SupportRequest(
        kind="Algorithm",
        inputs=tuple(images),
        outputs=tuple(outputs),
        evaluation_outputs=evaluation_outputs,
        archive_items=len(challenge.cases),
    )


def _evaluation_outputs(challenge: Challenge) -> tuple[Socket, ...]:
    return (
        Socket("nuclei-evaluation-details", challenge.publish.details, *JSON_FILE[:2], kept_out=True),
        Socket("nuclei-evaluation-objects", challenge.publish.objects, *CSV_FILE[:2]),
    )


def _pack_context(challenge: Challenge, support: _SupportRequest) -> dict[str, Any]:
    """Create the input of grand-challenge-forge, which writes an example of each container and an upload script."""
    slug = _slug_of(challenge.name)
    archive = {"slug": f"{slug}-test", "url": f"{SITE}/archives/{slug}-test/"}
    example = _example_value(challenge)

    def described(sockets: Sequence[Socket], **more: Any) -> list[dict[str, Any]]:
        keys = ("slug", "relative_path", "kind", "super_kind")
        return [{**{key: getattr(socket, key) for key in keys}, **more} for socket in sockets]

    outputs = described(support.outputs, **({} if example is None else {"example_value": example}))
    interfaces = [{"inputs": described([socket]), "outputs": outputs} for socket in support.inputs]
    phase = {
        "slug": f"{slug}-test",
        "archive": archive,
        "algorithm_interfaces": interfaces,
        "evaluation_additional_inputs": [],
        "evaluation_additional_outputs": described(support.evaluation_outputs),
    }
    site = f"https://{slug}.grand-challenge.org/"
    return {"challenge": {"slug": slug, "url": site, "archives": [archive], "phases": [phase]}}


def _example_value(challenge: Challenge) -> Any:
    """Create a valid file of an output; None for images and tables."""
    rules = challenge.submission
    if (_kind_of(rules) or IMAGE).suffix != ".json" or not challenge.cases:
        return None
    made = Example(rules, challenge.class_names)
    class_name = challenge.class_names[0] if "{class}" in rules.files else None
    return orjson.loads(format_of(rules.format).example(made, challenge.cases[:1], class_name))


# --- the organiser ----------------------------------------------------------------------------------------------------


def _phase_settings(challenge: Challenge) -> _PhaseSettings:
    """Return the settings of a phase. Raises ChallengeBroken ("no-ranking").

    The score is the first column of [ranking]; the other columns are extra results columns.
    """
    rules = ranking_of(challenge)
    titles = phase_titles(rules.paths)
    score, *extra = zip(rules.columns, titles, strict=True)
    return _PhaseSettings(
        score_title=score[1],
        score_jsonpath=score[0].path,
        score_error_jsonpath=_error_path(challenge, score[0].path),
        score_default_sort=ORDERS[score[0].direction],
        scoring_method_choice=SCORING.get(rules.method, "avg"),
        extra_results_columns=[
            _ExtraColumn(title, column.path, ORDERS[column.direction], _error_path(challenge, column.path) or ABSENT)
            for column, title in extra
        ],
    )


def _error_path(challenge: Challenge, path: str) -> str:
    """Return where metrics.json has the standard deviation over the patients or cases of a column, "" if nowhere."""
    mean, units = path.rpartition(".")[2], {case.group for case in challenge.cases}
    number = {"group_mean": len(units), "case_mean": len(challenge.cases)}.get(mean, 0)
    return f"{DEVIATIONS}.{path}" if number >= 3 and challenge.publish.metrics == "scores" else ""


def phase_titles(paths: Sequence[str]) -> list[str]:
    """Return the title of each column on the pages, with the aggregation where two are alike.

    >>> phase_titles(["detection.f1.group_mean", "panoptic.per_class.Epithelial.pq.pooled"])
    ['Detection F1', 'PQ, Epithelial']
    """
    titles = [title[:1].upper() + title[1:] for title in short_titles(paths)]
    return [
        title if len(title) <= TITLE_CHARACTERS else f"{title[: TITLE_CHARACTERS - 4].rstrip()} {index}"
        for index, title in enumerate(titles, start=1)
    ]


def _explain_settings(rules: RankingRules, scoring: str, *, ranked_only: bool) -> list[str]:
    """Explain the settings, and differences between the order on the platform and [ranking]."""
    lines = [
        "The score is the first column of [ranking]; the other columns are extra results columns. Each path names a "
        "number in metrics.json, and 'desc' means that higher is better.",
        f"Scoring method '{scoring}': {SCORING_WORDS[scoring]}.",
        f"Mean rank on the platform x {len(rules.columns)} (columns) = sum of ranks among all teams.",
        "The platform does not rank a submission in which one of these numbers is undefined.",
        'To show a number that does not rank, add a column with "exclude_from_ranking": true'
        + (' and write metrics = "scores" under [publish], now "ranked".' if ranked_only else "."),
        f"Limit of attempts: {SUBMISSIONS} submission for each participant in {DAYS} days. Every score reveals "
        "something about the reference: choose the fewest that your participants can work with.",
    ]
    if rules.require:
        lines.append(
            "The platform ignores the minimum and ranks a submission below it like any other. Also publish the table "
            "of 'evaluation leaderboard', and announce this on the page of the challenge."
        )
    differs = {
        f"method = '{rules.method}': the platform ranks by the means alone. Publish the table of 'evaluation "
        "leaderboard' instead, and announce this on the page of the challenge.": needs_units(rules.method),
        "weights: on the platform all columns count the same.": len({column.weight for column in rules.columns}) > 1,
        f"ties = '{rules.ties}': on the platform equal values share the better rank, \"1, 2, 2, 4\".": rules.ties
        != "min",
        "missing = 'worst': the platform leaves a submission without a value unranked.": rules.missing == "worst",
        "ex_aequo: the platform tests nothing; teams share a rank only if their numbers are equal.": rules.ex_aequo,
    }
    return lines + [f"Not on the platform: {words}" for words, is_so in differs.items() if is_so]


def _explain(challenge: Challenge, support: _SupportRequest, settings: _PhaseSettings) -> list[str]:
    """Return explanations of the whole phase."""
    rules, ranked_only = challenge.submission, challenge.publish.metrics == "ranked"
    lines = [
        *_explain_settings(ranking_of(challenge), settings.scoring_method_choice, ranked_only=ranked_only),
        "Titles and paths of sockets are unique on the whole platform: if a name is taken, choose a different name. "
        "The paths of the evaluation outputs are details and objects under [publish].",
        "If an evaluation output is configured but not written, the evaluation fails. Other files in /output, except "
        "metrics.json, are deleted.",
        f"Memory: {MEMORY_GB} GB by default, up to 32 GB on request (docs/organisers.md lists the memory per case).",
    ]
    if not support.inputs:
        return lines
    lines += [
        "The platform silently skips archive items with inputs that differ from the interface: check that the "
        f"page 'Linked archive' of the phase shows {support.archive_items} jobs.",
        "The name of a case is the name of the uploaded file, with its suffix; two items never have the same name.",
    ]
    if support.archive_items and not any("." in rules.key_of(case) for case in challenge.cases):
        lines.append('Here case_key has no suffix. For images such as case.tif write case_key = "{case}.tif".')
    if rules.input is None:
        lines.append(f"submission.input is not set, so each job must have one input; {PROPOSED_INPUT} is a proposal.")
    if _kind_of(rules) is None:
        known = "take label_image, polygons_json and points_json"
        lines.append(f"The platform has no kind of output for {rules.format}: {known}.")
    if schema_of_submission(challenge) is not None:
        lines.append(
            "A JSON Schema can be set for an output. The platform then rejects an invalid file before the evaluation, "
            "and participants only see that the algorithm failed. Without a schema, they see every error."
        )
    return lines
