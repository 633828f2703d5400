"""Tables as CSV, and objects.csv: one row per matched, missed and spurious nucleus, under every matching rule.

Cells without a value are empty: points have no area, and what has no pixels has no IoU, Dice and Hausdorff distance.
Ids come from untrusted files; see ``cell_texts``.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from evaluation.model import CaseResult, Int32, Int64, MatchCounts, ObjectList
from evaluation.model.arrays import blocks
from evaluation.results.documents import rounded_list

CELL_CHARACTERS = 200
PLAIN_CELL = re.compile(r"\w[\w ./:#-]*")
PLAIN_LINES = re.compile(rf"(?:\w[\w ./:#-]{{0,{CELL_CHARACTERS - 1}}}\n)*+")
FORMULA = re.compile(r"(^|[,;|])(\s*)(?=[=+\-@＝＋－＠])")  # wide signs count, too


def safe_cell(value: object, limit: int = CELL_CHARACTERS) -> object:
    """A cell as it is written. Numbers stay; a text loses its control characters, and its middle if it is long.

    An apostrophe goes before '=', '+', '-' or '@' at the start, or behind what separates cells elsewhere (';', '|').

    >>> safe_cell("12/7"), safe_cell(-5), safe_cell("=HYPERLINK(1)"), safe_cell("a\\nb;@c")
    ('12/7', -5, "'=HYPERLINK(1)", "a?b;'@c")
    """
    if not isinstance(value, str) or (len(value) <= limit and PLAIN_CELL.fullmatch(value)):
        return value
    text = value if len(value) <= limit else f"{value[: limit * 2 // 3]}…{value[-limit // 3 :]}"
    text = "".join(character if character.isprintable() else "?" for character in text)
    return FORMULA.sub(r"\1\2'", text)


def cell_text(value: object) -> str:
    """A safe cell as it stands in a file, between commas.

    >>> cell_text(7), cell_text("a,b"), cell_text(None)
    ('7', '"a,b"', '')
    """
    text = "" if value is None else str(safe_cell(value))
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def cell_texts(values: Sequence[object]) -> Sequence[str]:
    """``cell_text`` of each; of many plain texts at once.

    >>> cell_texts(["12/7", "a"]), cell_texts(["12/7", "a\\nb"]), cell_texts([7, "=1"])
    (['12/7', 'a'], ['12/7', 'a?b'], ['7', "'=1"])
    """
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        lines = "\n".join([*texts, ""])
        if lines.count("\n") == len(texts) and PLAIN_LINES.fullmatch(lines):
            return texts
    return list(map(cell_text, values))


def csv_table(header: Sequence[str], rows: Iterable[Iterable[object]], limit: int = CELL_CHARACTERS) -> str:
    """A table of safe cells, with its header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([safe_cell(cell, limit) for cell in row] for row in rows)
    return text.getvalue()


# --- objects.csv ------------------------------------------------------------------------------------------------------


OBJECT_COLUMNS = (
    "case",
    "group",
    "rule",
    "outcome",
    "reference_id",
    "reference_class",
    "reference_area_px",
    "prediction_id",
    "prediction_class",
    "prediction_area_px",
)
OBJECTS_AT_ONCE = 1 << 16


def objects_csv(results: Sequence[CaseResult], class_names: Sequence[str], measures: Sequence[str]) -> str:
    """The object table as CSV; ``measures`` are its last columns.

    Rows: cases as in ``results``, then rules, then matched, missed and spurious nuclei.
    """
    shapes = list(dict.fromkeys(name for result in results for name in result.reference.shapes))
    of_sides = [f"{side}_{name}" for side in ("reference", "prediction") for name in shapes]
    lines = [",".join((*OBJECT_COLUMNS, *measures, *of_sides))]
    names = np.array(["", *class_names], object)
    for result in results:
        texts = [side_texts(side, names) for side in (result.reference, result.prediction)]
        for rule in result.matches:
            for columns in object_columns(result, rule, texts, measures, shapes):
                lines += map(",".join, zip(*columns, strict=False))
    return "\n".join((*lines, ""))


Cells = Iterable[str]
Indices = Int32 | Int64  # of instances of a side
BLANK: list[Cells] = [repeat("")]
Texts = list[npt.NDArray[Any]]  # id, class and area of each instance of a side


def side_texts(side: ObjectList, names: npt.NDArray[Any]) -> Texts:
    """The id, class and area of each instance of a side as texts, made once for all matching rules."""
    are_numbers = side.source_id.dtype.kind in "iu"
    ids, areas = side.source_id.tolist(), number_texts(side.area_px.tolist())
    texts = number_texts(ids) if are_numbers else cell_texts(ids)
    return [np.array(texts, object), names[side.class_id], np.array(areas, object)]


def object_columns(
    result: CaseResult, rule: str, texts: Sequence[Texts], measures: Sequence[str], shapes: Sequence[str]
) -> Iterator[list[Cells]]:
    """The columns of a case under a rule, for some rows at a time; a text that all rows have is endless."""
    matches, counts = result.matches[rule], result.counts[rule]
    start = ",".join(map(cell_text, (result.case.name, result.case.group, rule)))
    sides = list(zip((result.reference, result.prediction), texts, strict=True))
    matched = matches.reference_index, matches.prediction_index
    missed, spurious = (others(len(side.area_px), index) for (side, _), index in zip(sides, matched, strict=True))
    outcomes: tuple[tuple[str, tuple[Indices | None, Indices | None], int], ...] = (
        ("matched", matched, len(matches)),
        ("missed", (missed, None), len(missed)),
        ("spurious", (None, spurious), len(spurious)),
    )
    for outcome, indices, number in outcomes:
        for rows in blocks(number, OBJECTS_AT_ONCE):
            chosen = [None if index is None else index[rows] for index in indices]
            cells, of_shapes = list[Cells](), list[Cells]()
            for (side, of_side), index in zip(sides, chosen, strict=True):
                cells += side_columns(of_side, side, index, counts)
                of_shapes += shape_columns(side, index, shapes)
            values = measure_columns(counts, rows, measures) if outcome == "matched" else len(measures) * BLANK
            yield [repeat(f"{start},{outcome}"), *cells, *values, *of_shapes]


def others(count: int, matched: Int32) -> Int64:
    """The indices of those of ``count`` instances that are not matched, ascending."""
    is_matched = np.zeros(count, np.bool_)
    is_matched[matched] = True
    return np.flatnonzero(~is_matched)


def side_columns(texts: Texts, side: ObjectList, index: Indices | None, counts: MatchCounts) -> list[Cells]:
    """Id, class and area in px of the chosen instances of a side, empty for None; points have no area."""
    if index is None:
        return 3 * BLANK
    ids, classes, areas = (column[index].tolist() for column in texts)
    are_points = not counts.outlines and not side.area_px.any()
    return [ids, classes, repeat("") if are_points else areas]


def measure_columns(counts: MatchCounts, pairs: slice, measures: Sequence[str]) -> list[Cells]:
    """The measures of some pairs, all written at once; empty cells for what was not measured."""
    number = pairs.stop - pairs.start
    known = [counts.measures[name][pairs] for name in measures if name in counts.measures]
    texts = iter(number_texts(rounded_list(np.concatenate([np.empty(0), *known]))))
    return [list(islice(texts, number)) if name in counts.measures else repeat("") for name in measures]


def shape_columns(side: ObjectList, index: Indices | None, shapes: Sequence[str]) -> list[Cells]:
    """The shapes of the chosen instances of a side, empty for None; what has no pixels has none."""
    if index is None:
        return len(shapes) * BLANK
    columns: list[Cells] = []
    for values in (side.shapes[name][index] for name in shapes if name in side.shapes):
        known = ~np.isnan(values)
        texts = number_texts(rounded_list(np.where(known, values, 0.0)))
        columns.append([text if is_known else "" for text, is_known in zip(texts, known.tolist(), strict=True)])
    return columns


def number_texts(values: Sequence[float]) -> list[str]:
    """Numbers as ``str`` writes them. orjson is faster, but writes exponents, and what is below 0.0001, otherwise.

    >>> number_texts([0.25, 3.0, 1e-05])
    ['0.25', '3.0', '1e-05']
    """
    text = orjson.dumps(values).decode()[1:-1]
    return text.split(",") if text and "e" not in text and "0.0000" not in text else list(map(str, values))
