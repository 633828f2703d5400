"""The page of ``compare``: scores of the models, then every image from the worst to the best with what each found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from evaluation.findings import counted
from evaluation.leaderboard.verdict import metric_title, verdict_sentences
from evaluation.report.leaderboard import board_table, folded_sections
from evaluation.report.nuclei import NucleusTable, TeamNuclei, browser_of
from evaluation.report.page import Page, Section, Text, Value, identify_document
from evaluation.report.result import ResultDocuments, is_lower_better
from evaluation.report.scenes import Scene
from evaluation.report.skills import side_by_side
from evaluation.report.submission import ReadResult, badness, main_score, submission_page
from evaluation.report.tables import bar_cell, table_of

PICTURES_UP_TO = 24  # of whole images; the others can be chosen


def comparison_page(
    results: Mapping[str, ResultDocuments],
    board: Mapping[str, Any] | None,
    nuclei: Mapping[str, NucleusTable | None],
    scenes: Mapping[str, Mapping[str, Scene]],
    *,
    title: str,
    unit: str,
) -> Page:
    """Make the page of ``compare``: the scores of the models, the images, and folded below whatever else is known.

    results  of each model, with details.json
    board    the content of leaderboard.json, of several models
    nuclei   of each model, from objects.csv
    scenes   of each model by the name of the image; may be empty
    unit     what means are over, such as "images"
    """
    first = next(iter(results.values()))
    caption = f"Mean over {unit}" if len(first.groups) > 1 else "Scores of the image"
    table = side_by_side(caption, {name: (result, "group_mean") for name, result in results.items()})
    answer: list[Text] = []
    if board is None:
        known = {"skills", "cases-section", *(("classes",) if len(first.classes) == 1 else ())}
        alone = submission_page(ReadResult(first))
        folded = [of_images(replace(one, folded=True)) for one in alone.sections if one.anchor not in known]
    else:
        verdict = verdict_sentences(board, who="model", units=unit)
        answer = [Text((" ".join(verdict[:2]),))]
        ranking = Section("places", "Ranking", (Text((" ".join(verdict),)), board_table(board)), folded=True)
        folded = [ranking, *(of_images(section) for section in folded_sections(board) if section.anchor != "values")]
    images = counted(len(first.cases), "image")
    return Page(
        title,
        f"{counted(len(results), 'model')}, {images}",
        identify_document(first.metrics if board is None else board),
        (Section("compared", "Scores", (*answer, table)), *image_sections(results, nuclei, scenes), *folded),
    )


def of_images(section: Section) -> Section:
    """Call the cases in the title of a section images."""
    return replace(section, title=section.title.replace(" case", " image"))


def image_sections(
    results: Mapping[str, ResultDocuments],
    nuclei: Mapping[str, NucleusTable | None],
    scenes: Mapping[str, Mapping[str, Scene]],
) -> list[Section]:
    """Images from the worst to the best: drawn, and as a table."""
    first = next(iter(results.values()))
    score = main_score(first)
    values = {name: {unit.name: unit.value(score) for unit in result.cases} for name, result in results.items()}

    means: dict[str, float | None] = {}
    for image in next(iter(values.values())):
        known = [value for of_model in values.values() if (value := of_model[image]) is not None]
        means[image] = float(np.mean(known)) if known else None
    order = sorted(means, key=lambda image: badness(score, means[image], image))
    title, is_bar = metric_title(score), not is_lower_better(score)
    rows: list[list[Value]] = [
        [image, *(bar_cell(of_model[image], is_bar=is_bar) for of_model in values.values())] for image in order
    ]
    caption = f"{title} of each image, the worst first"
    table = table_of("images", caption, ["image", *results], rows, help={}, rest="images of details.json")
    teams = [TeamNuclei(name, table, scenes.get(name, {})) for name, table in nuclei.items() if table is not None]
    if not any(len(one.nuclei.case) for one in teams):
        return [Section("image-section", "Images", (table,))]
    lead = f"From the worst to the best {title}. A click on a nucleus shows it larger."
    drawn = browser_of(teams, order=order, overview=max(1, PICTURES_UP_TO // len(results)))
    return [
        Section("image-section", "Images", (drawn,), lead),
        Section("image-table", "Scores of each image", (table,), folded=True),
    ]
