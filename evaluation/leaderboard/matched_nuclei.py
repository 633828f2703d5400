"""The reference nuclei that each team matched, read from the files objects.csv, each of them once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.challenge import Challenge
from evaluation.decoding.csv import Table, numbers_of, read_table
from evaluation.findings import render_summary
from evaluation.findings.errors import InputFault, refused
from evaluation.leaderboard.alike import Outlines
from evaluation.model import Bool, Float64, Int64

OBJECTS_BYTES = 500_000_000
OBJECTS_ROWS = 5_000_000
NUCLEUS = ("case", "reference_class", "reference_id", "reference_area_px")

Nucleus = tuple[bytes, ...]  # the cells of ``NUCLEUS``


@dataclass(frozen=True, slots=True, eq=False)
class MatchedByTeam:
    """What one team matched.

    nucleus  int64 (M,)       which of all nuclei; of rows with the same nucleus the last one counts
    area     float64 (M,)     of the predicted nucleus, px; NaN for points
    iou      float64 (M,)     with the reference nucleus; NaN if it was not measured
    values   float64 (M, K)   of the measures
    """

    nucleus: Int64
    area: Float64
    iou: Float64
    values: Float64


@dataclass(frozen=True, slots=True, eq=False)
class MatchedNuclei:
    """What all teams matched under one rule.

    nuclei    matched by any team
    measures  the names of K measures
    teams     in ascending order
    without   teams whose nuclei are not known, and why
    """

    rule: str
    measures: tuple[str, ...]
    nuclei: Sequence[Nucleus]
    teams: Mapping[str, MatchedByTeam]
    without: Mapping[str, str]


def matched_nuclei(
    challenge: Challenge, measures: tuple[str, ...], objects: Mapping[str, Path | None]
) -> MatchedNuclei:
    """Read what teams matched under the first matching rule of a challenge, which must have one.

    objects  the objects.csv of each team; None: there is none
    """
    (rule, _), *_ = challenge.matching.passes
    cases = {case.name.encode() for case in challenge.cases}
    index_of: dict[Nucleus, int] = {}
    teams, without = {}, {}
    for name, path in sorted(objects.items()):
        try:
            teams[name] = read_matched(path, rule, measures, cases, index_of)
        except InputFault as error:
            without[name] = render_summary(error.findings, intro="").strip()
    return MatchedNuclei(rule, measures, list(index_of), teams, without)


def outlines_of(found: MatchedNuclei) -> tuple[Float64, dict[str, Outlines]]:
    """The areas of the reference nuclei, px, float64 (N,), and how each team outlined them."""
    teams = {}
    for name, team in found.teams.items():
        area, iou = np.full((2, len(found.nuclei)), np.nan)
        area[team.nucleus], iou[team.nucleus] = team.area, team.iou
        teams[name] = Outlines(area, iou)
    return numbers_of([nucleus[-1] for nucleus in found.nuclei]), teams


def read_matched(
    path: Path | None, rule: str, measures: Sequence[str], cases: set[bytes], index_of: dict[Nucleus, int]
) -> MatchedByTeam:
    """What a team matched; nuclei that are new get the next index. Raises InputFault, OSError."""
    if path is None or not path.is_file():
        raise refused("not-metrics", "'objects.csv'", got="not there")
    table = read_objects(path)
    rows = table.take(np.flatnonzero(rows_with(table, "rule", rule) & rows_with(table, "outcome", "matched")))
    columns = [rows.cells(rows.need(name)) for name in NUCLEUS]
    if not cases.issuperset(columns[0]):
        raise refused("not-metrics", "'objects.csv'", got="of other cases")
    values = [numbers_of(rows.cells(rows.need(name))) for name in measures]
    area, iou = (
        np.full(len(rows), np.nan) if (column := rows.find([name])) is None else numbers_of(rows.cells(column))
        for name in ("prediction_area_px", "iou")
    )
    nucleus = [index_of.setdefault(nucleus, len(index_of)) for nucleus in zip(*columns, strict=True)]
    return MatchedByTeam(np.array(nucleus, np.int64), area, iou, np.array(values).T.reshape(len(rows), len(measures)))


def read_objects(path: Path) -> Table:
    """The table of an objects.csv. Raises InputFault, OSError."""
    with path.open("rb") as stream:
        return read_table(stream, where="'objects.csv'", bytes_limit=OBJECTS_BYTES, rows_limit=OBJECTS_ROWS)


def rows_with(table: Table, column: str, text: str) -> Bool:
    """The rows with a text in a column."""
    texts, text_of_row = table.categories(table.need(column))
    return np.asarray(text_of_row == (texts.index(text) if text in texts else -1))
