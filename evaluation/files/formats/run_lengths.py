"""Run-length codes to runs: pairs of start and length (DSB 2018, Sartorius), and the counts of COCO.

A code lists the pixels of one nucleus in the order of the pixels of its image, along rows or down columns:

- pairs     ``start length start length …``; the challenge states whether the first pixel has the number 0 or 1
- counts    ``background nucleus background nucleus …``, lengths that add up to the pixels of the image, down columns
- string    the same counts as COCO compresses them: from the fourth on the difference to the count two before it, in
            pieces of five bits, the lowest first, with a sixth bit for "more follows", as characters from "0" on
            (rleToString in https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c)

CSV files (``rle_csv``) have a row for each nucleus, with its image and its pairs. Both challenges number pixels from 1;
the Data Science Bowl counts down columns, Sartorius along rows.
https://www.kaggle.com/c/data-science-bowl-2018/overview/evaluation
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from evaluation.challenge.formats import RleCsvRules
from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.decoding.csv import numbers_of
from evaluation.files.formats import tables
from evaluation.files.formats.format import Example, Format, Request, csv_bytes, noting, part_of
from evaluation.files.formats.headers import CASE_COLUMNS, CLASS_COLUMNS, columns_among
from evaluation.findings import Finding, fault, for_each, quote
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Bool, Case, Instances, Int32, Int64
from nuclei_metrics.model.arrays import expand, merge_runs, outside

PixelOrder = Literal["row", "column"]
Place = Callable[[int], str]

BATCH_RUNS = 1 << 19  # of whole instances, at once; bounds the memory beside the result
BATCH_CHARACTERS = 1 << 20
PIXEL_ROWS_LIMIT = 1 << 18  # of pixel rows that the nuclei of a case cover, together, and …
ROWS_PER_RUN = 16  # … so many more for each run of their codes
PAIRS = re.compile(r"\s*+(?:[+-]?[0-9]{1,18}+(?:\s++|\Z))*+")
STRING_PIECES = 7  # 35 bits: more than images have pixels
FIRST_CHARACTER, MORE, SIGN, PIECE = 48, 0x20, 0x10, 0x1F


@dataclass(frozen=True, slots=True, eq=False)
class CodeRuns:
    """Runs of codes, in the order of the pixels that the codes go by.

    start, length  int64 (R,)  number of the first pixel, from 0, and number of pixels, at least 1
    instance       int32 (R,)  which code a run belongs to, ascending
    """

    start: Int64
    length: Int64
    instance: Int32


# --- codes to runs ----------------------------------------------------------------------------------------------------


def runs_of_pairs(codes: Sequence[str], place: Place, *, pixels: int, first_pixel: int) -> CodeRuns:
    """Create runs of codes of the form "start length start length …", numbers apart by blanks.

    place        the place of a code, for messages
    pixels       height x width of the image, px
    first_pixel  the number of the first pixel, 0 or 1

    A code without numbers has no runs. Raises InputFault ("invalid-rle", one finding a code): not whole numbers, an odd
    number of them, a start or length too small, runs beyond the image or that overlap.

    >>> runs = runs_of_pairs(["1 3 10 2", "5 1"], str, pixels=20, first_pixel=1)
    >>> runs.start.tolist(), runs.length.tolist(), runs.instance.tolist()
    ([0, 9, 4], [3, 2, 1], [0, 0, 1])
    """
    faults = _CodeFaults(f"pairs of start (from {first_pixel}) and length that do not overlap, in {pixels:,} pixels")
    texts = [code.split() if PAIRS.fullmatch(code) else [] for code in codes]
    for index, words in enumerate(texts):
        if len(words) % 2:
            faults.add(index, "odd-code", len(words))
            texts[index] = []
        elif not words and (
            strange := next((word for word in codes[index].split() if not PAIRS.fullmatch(word)), None)
        ):
            faults.add(index, "no-number-in-code", strange)
    numbers = np.fromiter(map(int, chain.from_iterable(texts)), np.int64)
    instance = np.repeat(np.arange(len(codes), dtype=np.int32), [len(words) // 2 for words in texts])
    start, length = numbers[::2], numbers[1::2]
    faults.add_first(instance, start < first_pixel, "start", start)
    faults.add_first(instance, length < 1, "length", length)
    inside = (start >= first_pixel) & (length >= 1)
    beyond = inside & (start - first_pixel > pixels - length)
    faults.add_first(instance, beyond, "run-beyond-image", start + length - 1)
    if not faults.by_code:
        order = np.lexsort((start, instance))
        meets = np.zeros(len(start), np.bool_)
        meets[1:] = start[order][1:] < (start + length)[order][:-1]
        meets[1:] &= instance[1:] == instance[:-1]  # ascending, so the order does not change it
        faults.add_first(instance, meets, "runs-overlap", start[order])
    faults.raise_all(place)
    return CodeRuns(start - first_pixel, length, instance)


def runs_of_counts(codes: Sequence[str | Sequence[Any]], place: Place, *, pixels: int | Int64) -> CodeRuns:
    """Create runs of COCO codes: lists of counts, or compressed strings.

    place   the place of a code, for messages
    pixels  height x width of the image, px: one number, or int64 (N,) for codes of several images

    Counts of 0 are fine. Raises InputFault ("invalid-rle", one finding a code): counts that are not whole numbers, are
    below 0, or do not add up to the pixels of the image; strings that COCO does not write.

    >>> runs = runs_of_counts([[2, 3, 5], "253"], str, pixels=10)
    >>> runs.start.tolist(), runs.length.tolist(), runs.instance.tolist()
    ([2, 2], [3, 5], [0, 1])
    """
    totals = np.broadcast_to(np.asarray(pixels, np.int64), len(codes))
    faults = _CodeFaults("counts of background and nucleus in turn that add up to the pixels of the image")
    parts = [CodeRuns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]
    for begin, end in _ranges(np.array([len(code) for code in codes], np.int64), BATCH_CHARACTERS):
        counts, sizes = _join_codes(codes[begin:end], begin, faults)
        parts.append(_runs_of_joined_counts(counts, sizes, begin, totals[begin:end], faults))
    faults.raise_all(place)
    return join_parts(parts)


def join_parts(parts: Sequence[CodeRuns]) -> CodeRuns:
    """Join the runs of several parts, one part after the other."""
    columns = zip(*((part.start, part.length, part.instance) for part in parts), strict=True)
    return CodeRuns(*map(np.concatenate, columns))


def _join_codes(codes: Sequence[str | Sequence[Any]], begin: int, faults: _CodeFaults) -> tuple[Int64, Int64]:
    """Join the counts of codes, and return their numbers; faulty codes have no counts."""
    lists = [code for code in codes if not isinstance(code, str)]
    strings = [code for code in codes if isinstance(code, str)]
    is_string = np.array([isinstance(code, str) for code in codes], np.bool_)
    sizes = np.zeros(len(codes), np.int64)
    list_counts, sizes[~is_string], wrong_lists = _counts_of_lists(lists)
    string_counts, sizes[is_string], wrong_strings = _counts_of_strings(strings)
    for index in begin + np.flatnonzero(~is_string)[wrong_lists]:
        faults.add(int(index), "no-run-length")
    for index in begin + np.flatnonzero(is_string)[wrong_strings]:
        faults.add(int(index), "no-compressed-code")
    counts = np.empty(len(list_counts) + len(string_counts), np.int64)
    from_string = np.repeat(is_string, sizes)
    counts[from_string], counts[~from_string] = string_counts, list_counts
    return counts, sizes


def _runs_of_joined_counts(counts: Int64, sizes: Int64, begin: int, pixels: Int64, faults: _CodeFaults) -> CodeRuns:
    """Create runs of joined codes; each has ``sizes`` of the counts, and the first code has the number ``begin``."""
    code = np.repeat(np.arange(len(sizes)), sizes)
    bad = (counts < 0) | (counts > pixels[code])
    faults.add_first(begin + code, bad, "run-length", counts)
    counts = np.where(bad, 0, counts)
    stop = np.concatenate([[0], np.cumsum(counts)])
    first = np.cumsum(sizes) - sizes
    total = stop[first + sizes] - stop[first]
    for index in np.flatnonzero(total != pixels).tolist():
        faults.add(begin + index, "wrong-sum", (total[index], pixels[index]))
    index_in_code = np.arange(len(counts)) - np.repeat(first, sizes)
    run = np.flatnonzero((index_in_code % 2 == 1) & (counts > 0))
    start = stop[run] - stop[first][code[run]]
    return CodeRuns(start, counts[run], (begin + code[run]).astype(np.int32))


def _counts_of_lists(codes: Sequence[Sequence[Any]]) -> tuple[Int64, Int64, Int64]:
    """Join the counts of lists; also return their numbers, and which lists contain other values than integers."""
    if set(map(type, chain.from_iterable(codes))) <= {int}:
        try:
            flat = np.fromiter(chain.from_iterable(codes), np.int64)
            return flat, np.array([len(code) for code in codes], np.int64), np.empty(0, np.int64)
        except OverflowError:
            pass
    usable = [all(type(count) is int and abs(count) < 1 << 62 for count in code) for code in codes]
    counts, sizes, _ = _counts_of_lists([code if fine else [] for code, fine in zip(codes, usable, strict=True)])
    return counts, sizes, np.flatnonzero(~np.array(usable, np.bool_))


def _counts_of_strings(codes: Sequence[str]) -> tuple[Int64, Int64, Int64]:
    """Decode the counts of strings; also returns their numbers, and which strings are not compressed codes.

    >>> _counts_of_strings(["52203", "5R", "5{"])[0].tolist()
    [5, 2, 2, 2, 5]
    """
    usable = [code.isascii() for code in codes]
    data = np.frombuffer("".join([code for code, fine in zip(codes, usable, strict=True) if fine]).encode(), np.uint8)
    length = np.array([len(code) if fine else 0 for code, fine in zip(codes, usable, strict=True)], np.int64)
    piece = data.astype(np.int64) - FIRST_CHARACTER
    code = np.repeat(np.arange(len(codes)), length)
    is_last = piece & MORE == 0
    after = np.flatnonzero(is_last) + 1
    first = np.concatenate([[0], after])[: len(after)]  # the first piece of each number
    pieces = after - first
    code_end = np.cumsum(length)[length > 0] - 1  # the last characters of codes
    bad = np.zeros(len(codes), np.bool_)
    bad[[not fine for fine in usable]] = True
    bad[code[(piece < 0) | (piece > MORE + PIECE)]] = True
    bad[code[code_end[~is_last[code_end]]]] = True
    bad[code[first[pieces > STRING_PIECES]]] = True
    if bad.any():
        counts, sizes, _ = _counts_of_strings(["" if wrong else text for text, wrong in zip(codes, bad, strict=True)])
        return counts, sizes, np.flatnonzero(bad)
    shift = 5 * (np.arange(len(data)) - np.repeat(first, pieces))
    differences = np.add.reduceat((piece & PIECE) << shift, first) if len(first) else np.empty(0, np.int64)
    is_negative = piece[after - 1] & SIGN != 0
    differences[is_negative] -= np.int64(1) << (5 * pieces[is_negative])
    sizes = np.bincount(code[first], minlength=len(codes))
    return _add_differences(differences, sizes), sizes, np.empty(0, np.int64)


def _add_differences(differences: Int64, sizes: Int64) -> Int64:
    """Add to each number of a code, from the fourth on, the number two places before it, after its own addition."""
    code = np.repeat(np.arange(len(sizes)), sizes)
    index = np.arange(len(differences)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    counts = differences.copy()
    for parity in (0, 1):
        chosen = np.flatnonzero((index % 2 == parity) & (index > 0))
        total = np.cumsum(differences[chosen])
        begins = np.flatnonzero(np.diff(code[chosen], prepend=-1))
        before = total[begins] - differences[chosen[begins]]
        counts[chosen] = total - np.repeat(before, np.diff(np.append(begins, len(chosen))))
    return counts


class _CodeFaults:
    """The first fault of each code, by its index."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.by_code: dict[int, tuple[str, object]] = {}  # the wording and its value

    def add(self, code: int, wording: str, value: object = None) -> None:
        """Record a fault, if it is the first of its code."""
        if code not in self.by_code:
            self.by_code[code] = wording, value

    def add_first(self, code: npt.NDArray[np.integer[Any]], bad: Bool, wording: str, value: Int64) -> None:
        """Record the first run of each code for which ``bad`` is true, with its value; codes ascend."""
        runs = np.flatnonzero(bad)
        codes, first = np.unique(code[runs], return_index=True)
        for index, of_run in zip(codes.tolist(), value[runs[first]].tolist(), strict=True):
            self.add(index, wording, of_run)

    def raise_all(self, place: Place) -> None:
        """Raise InputFault if there is a fault."""

        def finding(code: int) -> Finding:
            wording, value = self.by_code[code]
            return fault("invalid-rle", place(code), wording=wording, expected=self.wanted, value=value)

        if self.by_code:
            raise InputFault(*for_each(sorted(self.by_code), finding))


# --- runs to instances ------------------------------------------------------------------------------------------------


def instances_of_codes(
    runs: CodeRuns, *, shape_yx: tuple[int, int], pixel_order: PixelOrder, where: str, **columns: Any
) -> Instances:
    """Create instances of runs of codes: runs of single rows, sorted by start, joined where runs of an instance meet.

    runs         inside the image; runs of an instance in any order
    pixel_order  whether ``start`` counts along rows ("row") or down columns ("column")
    where        the file and case, for messages
    columns      ``class_id``, ``source_id`` and so on, as in ``Instances``, (N,); instances without a run keep no pixel

    The cost grows with the runs and the pixel rows of the nuclei, not with their pixels. Raises InputFault
    ("too-complex-runs") if those are more than 2^18 rows and 16 for each run, which small codes of huge areas can ask
    for.

    >>> down = CodeRuns(np.array([0, 3]), np.array([2, 2]), np.zeros(2, np.int32))  # an image of 3 rows and 2 columns
    >>> found = instances_of_codes(down, shape_yx=(3, 2), pixel_order="column", where="a.csv",
    ...                            class_id=np.ones(1, np.int16), source_id=np.array(["1"], object))
    >>> found.run_start.tolist(), found.run_stop.tolist()
    ([0, 2], [2, 4])
    """
    start, length, instance = runs.start, runs.length, runs.instance
    rows_limit = PIXEL_ROWS_LIMIT + ROWS_PER_RUN * len(start)
    parts, rows = [CodeRuns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))], 0
    for begin, end in _ranges(np.bincount(instance), BATCH_RUNS):
        batch = slice(*np.searchsorted(instance, [begin, end]))
        owner, batch_start = instance[batch].astype(np.int64) - begin, start[batch]
        convert = _rows_of_row_codes if pixel_order == "row" else _rows_of_column_codes
        of_rows = convert(batch_start, batch_start + length[batch], owner, shape_yx, rows_limit - rows)
        if of_rows is None:
            raise refused("too-complex-runs", where, limit=rows_limit, freely=PIXEL_ROWS_LIMIT, per_run=ROWS_PER_RUN)
        rows += len(of_rows.start)
        parts.append(replace(of_rows, instance=of_rows.instance + np.int32(begin)))
    joined = join_parts(parts)
    order = np.argsort(joined.start, kind="stable")
    run_start = joined.start[order]
    return Instances(
        shape_yx=shape_yx,
        run_start=run_start,
        run_stop=run_start + joined.length[order],
        run_instance=joined.instance[order],
        **columns,
    )


def _rows_of_row_codes(
    start: Int64, stop: Int64, instance: Int64, shape_yx: tuple[int, int], rows_limit: int
) -> CodeRuns | None:
    """Cut runs along rows at the ends of the rows, and join runs of an instance that meet; None if too many."""
    height, width = shape_yx
    first_row, stop_row = start // width, (stop - 1) // width + 1
    if int((stop_row - first_row).sum()) > rows_limit:
        return None
    row = expand(first_row, stop_row)
    run = np.repeat(np.arange(len(start)), stop_row - first_row)
    left, right = np.maximum(start[run] - row * width, 0), np.minimum(stop[run] - row * width, width)
    line = (instance[run] * height + row) * (width + 1)
    return _row_runs(*merge_runs(line + left, line + right), shape_yx=shape_yx)


def _rows_of_column_codes(
    start: Int64, stop: Int64, instance: Int64, shape_yx: tuple[int, int], rows_limit: int
) -> CodeRuns | None:
    """Turn runs down columns into runs along rows; None if too many.

    A run of a row starts at each pixel of the instance with a left neighbour outside, and stops at each pixel outside
    with a left neighbour inside. The left neighbour is one height before, so starts are the runs without the runs
    shifted by one height, and stops are the reverse.
    """
    height, width = shape_yx
    span = height * (width + 1) + 1
    start, stop = merge_runs(start + instance * span, stop + instance * span)
    starts = outside(start, stop, start + height, stop + height)
    if int((starts[1] - starts[0]).sum()) > rows_limit:
        return None
    stops = outside(start + height, stop + height, start, stop)
    return _row_runs(
        *(np.sort(_rows_first(expand(*pixels), span, shape_yx)) for pixels in (starts, stops)), shape_yx=shape_yx
    )


def _rows_first(pixel: Int64, span: int, shape_yx: tuple[int, int]) -> Int64:
    """Turn pixels counted down columns into positions, for ``_row_runs``; an instance has ``span`` numbers."""
    height, width = shape_yx
    instance, flat = np.divmod(pixel, span)
    column, row = np.divmod(flat, height)
    return np.asarray((instance * height + row) * (width + 1) + column, np.int64)


def _row_runs(start: Int64, stop: Int64, *, shape_yx: tuple[int, int]) -> CodeRuns:
    """Create runs of single rows, sorted by instance, then by start, whose pixels count along rows.

    start, stop  positions ``(instance * H + row) * (W + 1) + column``: one position after every row stays empty, so
                 that runs of two rows never meet
    """
    height, width = shape_yx
    line, column = np.divmod(start, width + 1)
    instance, row = np.divmod(line, height)
    first = row * width + column
    return CodeRuns(first, stop - start, instance.astype(np.int32))


def _ranges(sizes: npt.NDArray[np.integer[Any]], limit: int) -> Iterator[tuple[int, int]]:
    """Split items into ranges with total sizes of about ``limit``; a single item may be larger."""
    weight = np.maximum(sizes, 1)
    batch = (np.cumsum(weight) - weight) // limit
    edges = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(sizes)]
    return pairwise(edges)


# --- Codes in CSV files -----------------------------------------------------------------------------------------------


CODE_COLUMNS = ("EncodedPixels", "annotation", "rle", "segmentation", "encoded_pixels", "predicted")


def _read_rle_csv_collection(stream: BinaryIO, request: Request[RleCsvRules], cases: Mapping[str, Case]) -> Collection:
    """Read the nuclei of all cases from the rows of a CSV file, one row for each nucleus.

    case         in the first of ``CASE_COLUMNS``
    code         in the first of the columns EncodedPixels, annotation, rle, segmentation, encoded_pixels and predicted;
                 a row without a code is not a nucleus, but mentions its case
    class        in the first of ``CLASS_COLUMNS``, by name or number
    probability  in the first of the columns probability, score and confidence
    probability_<class>  the probability of each class, as in ``read_points_csv``
    size         columns height and width, if present, must equal the size of the case

    ``source_id`` is the line of a row, from 1. Raises InputFault: too-large, invalid-csv, missing-column, wrong-shape,
    unknown-class, invalid-rle, too-complex-runs, invalid-probability, missing-probability.
    """
    table = tables.load_table(stream, request, len(cases))
    code_column = table.need(*CODE_COLUMNS)
    rows = tables.rows_of_cases(table, table.need(*CASE_COLUMNS), cases)
    faults = _faults_of_row_sizes(rows)
    rows = rows.take(np.array([bool(cell.strip()) for cell in rows.table.cells(code_column)], np.bool_))
    tables.check_rows_per_case(rows, request)
    nuclei = tables.NucleusRows(rows.table, request, CLASS_COLUMNS)
    rows = rows.take(nuclei.is_nucleus)
    nuclei.faults.others += faults
    codes = [cell.decode() for cell in rows.table.cells(code_column)]
    rules, runs_of_case, by_case = request.rules, list[CodeRuns](), dict[str, Annotations]()
    parts = list(zip(rows.cases, rows.slices(), strict=True))
    for case, part in parts:
        with noting(nuclei.faults.others):
            place, pixels = rows.table.take(part).place, case.height * case.width
            runs_of_case.append(runs_of_pairs(codes[part], place, pixels=pixels, first_pixel=rules.first_pixel))
    columns = nuclei.columns()
    for (case, part), runs in zip(parts, runs_of_case, strict=True):
        where, order = f"{request.where}, case {quote(case.name)}", rules.pixel_order
        with noting(nuclei.faults.others):
            of_case = part_of(columns, part)
            instances = instances_of_codes(runs, shape_yx=case.shape_yx, pixel_order=order, where=where, **of_case)
            by_case[case.name] = Annotations((instances,))
    nuclei.check()
    return Collection(by_case, rows.unknown)


def _faults_of_row_sizes(rows: tables.CaseRows) -> list[Finding]:
    """Find rows with another height or width than their case."""
    table, cases = rows.table, rows.cases
    columns = [column for side in ("height", "width") if (column := table.find([side])) is not None]
    if len(columns) < 2:
        return []
    sizes = np.stack([numbers_of(table.cells(column)) for column in columns], axis=1)
    expected = np.array([case.shape_yx for case in cases]).reshape(-1, 2)[rows.case_of_row]

    def size_fault(row: int) -> Finding:
        (height, width), (tall, wide) = expected[row].tolist(), [table.text(row, column) for column in columns]
        place, wording = table.place(row), "other-size-of-code"
        return fault(
            "wrong-shape", place, wording=wording, found_height=tall, found_width=wide, height=height, width=width
        )

    return for_each(np.flatnonzero((sizes != expected).any(axis=1)).tolist(), size_fault)


def _example_of_rle_csv(made: Example[RleCsvRules], cases: Sequence[Case], class_name: str | None) -> bytes:
    rows = []
    for case in cases:
        labels = made.labels(case, class_name)
        flat = labels.reshape(-1) if made.rules.pixel_order == "row" else labels.T.reshape(-1)
        for label, name in made.classes_of(case, class_name):
            edges = np.flatnonzero(np.diff(flat == label, prepend=False, append=False))
            codes = [
                f"{start + made.rules.first_pixel} {stop - start}"
                for start, stop in zip(edges[::2], edges[1::2], strict=True)
            ]
            rows.append([made.rules.key_of(case), " ".join(codes), name])
    return csv_bytes(["image_id", "rle", "class"], rows)


def _explain_rle_csv(rules: RleCsvRules) -> list[str]:
    along = "along the rows" if rules.pixel_order == "row" else "down the columns"
    return [f"Run lengths go {along}; the first pixel is {rules.first_pixel}."]


FORMATS = {
    "rle_csv": Format(
        "CSV of run-length codes",
        _example_of_rle_csv,
        read_all=_read_rle_csv_collection,
        explain=_explain_rle_csv,
        detect=lambda file: columns_among(file, {name.casefold() for name in CODE_COLUMNS}),
        list_images=tables.list_images,
        places=("numbers of pixels, counted column by column", " Or add the columns 'Height' and 'Width'."),
    )
}
