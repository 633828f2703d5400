"""CSV from strangers: all cells are found at once, and counted before any of them becomes an object.

UTF-8, with or without a byte order mark; commas; lines that end in LF, CR LF or CR. A cell may stand in quotation
marks, a mark inside is then doubled (RFC 4180). Blanks around what is in a cell, and empty lines, do not count.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeVar

import numpy as np
import numpy.typing as npt

from evaluation.errors import InputFault
from evaluation.findings import EXAMPLES_SHOWN, Finding, at_places, did_you_mean, listed, quote
from evaluation.formats.bounded import stream_size
from evaluation.formats.bounded_xml import FAULTS_NAMED, with_rest
from evaluation.formats.request import Request
from evaluation.model import Bool, Case, ClassTable, Float32, Float64, Int16, Int64

COLUMNS_LIMIT = 1000
CHUNK_BYTES = 1 << 22
COORDINATE_LIMIT = 1e9
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_SEPARATORS = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}
CLASS_COLUMNS = ("class", "cell_type", "label", "type")
PROBABILITY_COLUMNS = ("probability", "score", "confidence")
QUOTE, COMMA, LF, BLANK, TAB = b'",\n \t'
BEFORE_OPENING = np.array([COMMA, LF, QUOTE], np.uint8)
AFTER_CLOSING = np.array([COMMA, LF, QUOTE], np.uint8)
NOT_IN_NUMBERS = re.compile(rb"[^0-9eE+\-. \t\n]")
NUMBER = re.compile(rb"\s*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?\s*+")  # never goes back

T = TypeVar("T", str, bytes)
Categories = tuple[list[str], Int64]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows of a CSV file, without its header.

    where        the file, for messages
    data         its bytes
    names        of its K columns, without blanks around them
    start, stop  int64 (R, K)  cell k of row r is ``data[start[r, k]:stop[r, k]]``, with quotation marks and blanks
    line         int64 (R,)    the line on which a row begins, from 1
    """

    where: str
    data: bytes
    names: tuple[str, ...]
    start: Int64
    stop: Int64
    line: Int64

    def __len__(self) -> int:
        return len(self.line)

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"{self.where}, line {self.line[row]:,}"

    def take(self, rows: Int64 | Bool | slice) -> Table:
        return replace(self, start=self.start[rows], stop=self.stop[rows], line=self.line[rows])

    def find(self, names: Iterable[str]) -> int | None:
        """The column that has the first of these names that occurs; upper and lower case are the same."""
        columns = {name.casefold(): index for index, name in enumerate(self.names)}
        return next((columns[name.casefold()] for name in names if name.casefold() in columns), None)

    def need(self, *names: str, fix: str = "") -> int:
        """The same. Raises InputFault ("missing-column") if none of them occurs."""
        if (column := self.find(names)) is not None:
            return column
        seen = [name for name in self.names if name]
        fix = did_you_mean(names[0], seen) or fix or "The first line must hold the names of the columns."
        got = f"no such column among {listed(seen).replace(' or ', ' and ')}" if seen else "no names of columns"
        raise InputFault(Finding("missing-column", self.where, got, f"a column {listed(names)}", fix))

    def cells(self, column: int) -> list[bytes]:
        """The cells of a column, without the quotation marks around them."""
        data = self.data
        places = zip(self.start[:, column].tolist(), self.stop[:, column].tolist(), strict=True)
        cells = [data[start:stop] for start, stop in places]
        return [unquoted(cell) for cell in cells] if b'"' in data else cells

    def text(self, row: int, column: int) -> str:
        """One cell, without blanks around it."""
        return unquoted(self.data[self.start[row, column] : self.stop[row, column]]).decode().strip()

    def categories(self, column: int) -> Categories:
        """The categories of the texts in a column."""
        different, cell_of_row = categories(self.cells(column))
        texts, text_of_cell = categories([cell.decode().strip() for cell in different])
        return texts, text_of_cell[cell_of_row]


def categories(values: Sequence[T]) -> tuple[list[T], Int64]:
    """The different values in order of first appearance, and which of them each one is, int64 (R,).

    >>> categories(["b", "a", "b"])
    (['b', 'a'], array([0, 1, 0]))
    """
    numbers: dict[T, int] = {}
    number_of = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(number_of, np.int64)


def read_table(
    stream: BinaryIO, *, where: str, bytes_limit: int, rows_limit: int, names: Sequence[str] | None = None
) -> Table:
    """The table in a CSV file; every row must have as many cells as the header.

    rows_limit  the most rows it may have
    names       names of the columns of a file without a header; such a file may be empty

    Raises InputFault: too-large, invalid-csv.

    >>> import io
    >>> file = io.BytesIO(b'name, x\\r\\n"a, b",1\\r\\n\\r\\n c ,2.5\\r\\n')
    >>> table = read_table(file, where="'a.csv'", bytes_limit=100, rows_limit=10)
    >>> table.names, table.cells(0), table.text(1, 0), table.line.tolist()
    (('name', 'x'), [b'a, b', b' c '], 'c', [2, 4])
    """
    stream_size(stream, where=where, bytes_limit=bytes_limit)
    data = plain_text(stream.read(), where)
    rows = find_rows(data, where, None if names is None else len(names), rows_limit)
    if names is not None:
        return replace(rows, names=tuple(names))
    header = tuple(rows.text(0, column) for column in range(rows.start.shape[1]))
    folded = [name.casefold() for name in header]
    for name in header:
        if name and folded.count(name.casefold()) > 1:
            raise InputFault(invalid(rows.place(0), f"the column {quote(name)} twice", "every column once"))
    return replace(rows.take(slice(1, None)), names=header)


def invalid(place: str, got: str, expected: str, fix: str = "") -> Finding:
    return Finding("invalid-csv", place, got, expected, fix)


def unquoted(cell: bytes) -> bytes:
    return cell[1:-1].replace(b'""', b'"') if cell.startswith(b'"') else cell


def plain_text(data: bytes, where: str) -> bytes:
    """The same bytes without a byte order mark, with LF at the end of every line. Refuses what is not UTF-8."""
    if data.startswith(UTF_16_MARKS) or b"\0" in data:
        got = "text in UTF-16, or a binary file"
        raise InputFault(invalid(where, got, "text in UTF-8", "Save it as 'CSV UTF-8'; renaming does not convert it."))
    if not data.isascii():
        check_utf_8(data, where)
    data = data.removeprefix(BYTE_ORDER_MARK)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data if data.endswith(b"\n") or not data else data + b"\n"


def check_utf_8(data: bytes, where: str) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(data), CHUNK_BYTES):
        try:
            decoder.decode(data[begin : begin + CHUNK_BYTES], begin + CHUNK_BYTES >= len(data))
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, begin + error.start) + 1
            got = "bytes that are not UTF-8"
            fix = "Save it as 'CSV UTF-8'."
            raise InputFault(invalid(f"{where}, line {line:,}", got, "text in UTF-8", fix)) from None


def find_rows(data: bytes, where: str, width: int | None, rows_limit: int) -> Table:
    """All lines that are not empty, as a table without names; ``width`` None: as wide as the first of them."""
    values = np.frombuffer(data, np.uint8)
    begin = len(data) - len(data.lstrip())
    if begin == len(data):
        if width is None:
            raise InputFault(invalid(where, "an empty file", "a line with the names of the columns"))
        nothing = np.empty((0, width), np.int64)
        return Table(where, data, (), nothing, nothing, np.empty(0, np.int64))
    check_separator(data[begin : data.find(b"\n", begin)], f"{where}, line {data.count(LF, 0, begin) + 1:,}")
    separators, quoted_ends = find_separators(values, data, begin, where, width, rows_limit)

    end = np.flatnonzero(values[separators] == LF)
    width = width or int(end[0]) + 1
    cells = np.diff(end, prepend=-1)
    start = np.concatenate([[begin], separators + 1])[:-1]
    first = end - cells + 1
    line = data.count(LF, 0, begin) + 1 + np.arange(len(end)) + np.searchsorted(quoted_ends, start[first])
    is_blank = (cells == 1) & (start[first] == separators[end])
    for row in np.flatnonzero((cells == 1) & np.isin(values[start[first]], (BLANK, TAB))):
        is_blank[row] = not data[start[first[row]] : separators[end[row]]].strip()
    kept = np.flatnonzero(~is_blank)
    if len(ragged := kept[cells[kept] != width]):
        named = [
            invalid(f"{where}, line {line[row]:,}", cells_in_words(int(cells[row])), f"{width:,}, one for each column")
            for row in ragged[:FAULTS_NAMED]
        ]
        raise InputFault(*with_rest(named, len(ragged)))
    place = first[kept][:, None] + np.arange(width)
    return Table(where, data, (), start[place], separators[place], line[kept])


def cells_in_words(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"


def check_separator(first_line: bytes, place: str) -> None:
    """Refuse a first line that clearly has another separator than commas, as spreadsheets write in some countries."""
    if b"," in first_line:
        return
    for separator, name in OTHER_SEPARATORS.items():
        if separator in first_line:
            got, fix = f"columns separated by {name}", "Save it with commas, and with points as decimal marks."
            raise InputFault(invalid(place, got, "columns separated by commas", fix))


def find_separators(
    values: npt.NDArray[np.uint8], data: bytes, begin: int, where: str, width: int | None, rows_limit: int
) -> tuple[Int64, Int64]:
    """Where cells end, int64, and where lines end inside of cells, int64.

    Commas and line ends count where the number of quotation marks before them is even. Piece by piece, so that lines
    that are too many or too long are refused before they take memory.
    """
    separators: list[Int64] = []
    quoted_ends: list[Int64] = [np.empty(0, np.int64)]
    lines, count, odd = 0, 0, False
    for place in range(begin, len(data), CHUNK_BYTES):
        chunk = values[place : place + CHUNK_BYTES]
        is_end = chunk == LF
        is_separator = is_end | (chunk == COMMA)
        is_quote = chunk == QUOTE
        if odd or is_quote.any():
            check_quotes(values, data, np.flatnonzero(is_quote) + place, odd, where)
            inside = np.logical_xor.accumulate(is_quote) ^ odd
            odd = bool(inside[-1])
            quoted_ends.append(np.flatnonzero(is_end & inside) + place)
            is_separator &= ~inside
        found = np.flatnonzero(is_separator) + place
        separators.append(found)
        end = np.flatnonzero(values[found] == LF)
        if width is None and len(end):
            width = count + int(end[0]) + 1
        count += len(found)
        lines += int(np.count_nonzero(is_end))
        if lines > rows_limit + 1:
            raise InputFault(too_many_rows(where, rows_limit))
        if (count if width is None else width) > COLUMNS_LIMIT:
            line = data.count(LF, 0, begin) + 1
            raise InputFault(invalid(f"{where}, line {line:,}", "more than 1,000 cells", "at most 1,000 columns"))
        if width is not None and count > (lines + 1) * width:
            raise InputFault(too_long_line(values, data, begin, np.concatenate(separators), where, width))
    if odd:
        line = data.count(LF, 0, data.rfind(QUOTE)) + 1
        got = "a quotation mark without a partner"
        raise InputFault(invalid(f"{where}, line {line:,}", got, "quotation marks at both ends of a cell"))
    return np.concatenate(separators), np.concatenate(quoted_ends)


def check_quotes(values: npt.NDArray[np.uint8], data: bytes, places: Int64, odd: bool, where: str) -> None:
    """Refuse quotation marks that neither begin or end a cell nor are doubled in one; ``odd``: the first one ends."""
    opening, closing = places[int(odd) :: 2], places[1 - int(odd) :: 2]
    wrong = np.concatenate(
        [
            opening[(opening > 0) & ~np.isin(values[opening - 1], BEFORE_OPENING)],
            closing[~np.isin(values[closing + 1], AFTER_CLOSING)],
        ]
    )
    if len(wrong):
        line = data.count(LF, 0, int(wrong.min())) + 1
        got, expected = "a quotation mark inside a cell", "quotation marks around whole cells only, and doubled inside"
        raise InputFault(invalid(f"{where}, line {line:,}", got, expected))


def too_long_line(
    values: npt.NDArray[np.uint8], data: bytes, begin: int, separators: Int64, where: str, width: int
) -> Finding:
    """The finding about the first line with more cells than the header."""
    end = np.flatnonzero(values[separators] == LF)
    cells = np.diff(end, prepend=-1, append=len(separators) - 1)
    first = int((cells > width).argmax())
    place = begin if first == 0 else int(separators[end[first - 1]]) + 1
    line = data.count(LF, 0, place) + 1
    return invalid(f"{where}, line {line:,}", f"more than {cells_in_words(width)}", f"{width:,}, one for each column")


def too_many_rows(where: str, rows_limit: int) -> Finding:
    return Finding(
        "too-large",
        where,
        f"more than {rows_limit:,} rows",
        f"at most {rows_limit:,}",
        "Remove rows, or raise limits.instances_per_case in challenge.toml.",
    )


def count_rest(faults: Iterable[Finding]) -> list[Finding]:
    """The first findings of each code; the last of them stands for those that are not named."""
    named: dict[str, list[Finding]] = {}
    for fault in faults:
        of_code = named.setdefault(fault.code, [])
        if len(of_code) < FAULTS_NAMED:
            of_code.append(fault)
        else:
            of_code[-1] = replace(of_code[-1], count=of_code[-1].count + fault.count)
    return [fault for of_code in named.values() for fault in of_code]


# --- what columns mean ------------------------------------------------------------------------------------------------


def numbers_of(cells: Sequence[bytes]) -> Float64:
    """Plain decimal numbers as float64 (R,); NaN for everything else.

    >>> numbers_of([b" 1.5", b"-2e3", b"0x1", b"", b"nan"]).tolist()
    [1.5, -2000.0, nan, nan, nan]
    """
    if not NOT_IN_NUMBERS.search(b"\n".join(cells)):
        try:
            return np.array(cells, np.float64)
        except ValueError:
            pass
    return np.array([float(cell) if NUMBER.fullmatch(cell) else np.nan for cell in cells], np.float64)


def find_case(cases: Mapping[str, Case], key: str) -> Case | None:
    """The case that a file calls ``key``; folders before the name of an image file do not count."""
    return cases.get(key) or cases.get(key.replace("\\", "/").rpartition("/")[2])


@dataclass(frozen=True, slots=True, eq=False)
class CaseRows:
    """The rows of a table that belong to cases, case by case, in the order of the file inside a case.

    cases        that the file names, in order of first appearance
    case_of_row  int64 (R,), ascending: which of them
    unknown      how many rows each name has that is no case
    """

    table: Table
    cases: tuple[Case, ...]
    case_of_row: Int64
    unknown: Mapping[str, int]

    def take(self, kept: Bool) -> CaseRows:
        """The same cases with some of the rows, bool (R,)."""
        return replace(self, table=self.table.take(kept), case_of_row=self.case_of_row[kept])

    def slices(self) -> list[slice]:
        """The rows of each case."""
        edges = np.searchsorted(self.case_of_row, np.arange(len(self.cases) + 1)).tolist()
        return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def rows_of_cases(table: Table, column: int, cases: Mapping[str, Case]) -> CaseRows:
    """Sort the rows of a table by the cases that a column names."""
    keys, key_of_row = table.categories(column)
    found: dict[str, tuple[int, Case]] = {}
    case_of_key = np.full(len(keys), -1, np.int64)
    for index, key in enumerate(keys):
        if (case := find_case(cases, key)) is not None:
            case_of_key[index] = found.setdefault(case.name, (len(found), case))[0]
    count = np.bincount(key_of_row, minlength=len(keys))
    unknown = {keys[index]: int(count[index]) for index in np.flatnonzero(case_of_key < 0)}
    case_of_row = case_of_key[key_of_row]
    order = np.argsort(case_of_row, kind="stable")
    order = order[case_of_row[order] >= 0]
    return CaseRows(table.take(order), tuple(case for _, case in found.values()), case_of_row[order], unknown)


def check_counts(rows: CaseRows, request: Request) -> None:
    """Refuse a case with more rows than the challenge allows nuclei. Raises InputFault ("too-large")."""
    limit = request.limits.instances_per_case
    fix = "Remove some, or raise limits.instances_per_case in challenge.toml."
    counts = [(case, part.stop - part.start) for case, part in zip(rows.cases, rows.slices(), strict=True)]
    faults = [
        Finding(
            "too-large", f"{request.where}, case {quote(case.name)}", f"{count:,} nuclei", f"at most {limit:,}", fix
        )
        for case, count in counts
        if count > limit
    ]
    if faults:
        raise InputFault(*with_rest(faults[:FAULTS_NAMED], len(faults)))


def class_of_text(text: str, classes: ClassTable) -> int | None:
    """The class id that a name or number stands for; nothing stands for no name. None if it is no class."""
    if not text:
        return classes.of_nameless
    if (name := text.casefold()) in classes.ids:
        return classes.ids[name]
    number = re.fullmatch(r"([+-]?[0-9]{1,9})(\.0*)?", text, re.ASCII)
    return classes.values.get(int(number[1])) if number else None


def unknown_class(place: str, text: str, classes: ClassTable, count: int = 1) -> Finding:
    known = sorted(name for name in classes.ids if name)
    expected = listed(known)
    if classes.values:
        expected += f", or one of the numbers {', '.join(map(str, sorted(classes.values)))}"
    got = f"{quote(text)} is not a class of this challenge"
    return Finding("unknown-class", place, got, expected, did_you_mean(text, known), count)


def class_columns(table: Table, request: Request, prefix: str = "") -> tuple[list[int], list[Finding]]:
    """The columns that are called ``prefix`` and the name or an alias of a class, in the order of the classes.

    Also what is wrong with them: a class with two, or with none; no columns at all if nothing is called so.
    """
    by_class: dict[int, int] = {}
    faults = []
    for column, name in enumerate(table.names):
        folded = name.casefold()
        of_class = folded.removeprefix(prefix).strip() if folded.startswith(prefix) else ""
        class_id = request.classes.ids.get(of_class, 0) if of_class else 0
        if class_id > 0 and by_class.setdefault(class_id, column) != column:
            got = f"two columns of one class, {quote(table.names[by_class[class_id]])} and {quote(name)}"
            faults.append(Finding("invalid-csv", request.where, got, "one column for each class"))
    if prefix and not by_class:
        return [], []
    missing = [name for class_id, name in enumerate(request.classes.names, start=1) if class_id not in by_class]
    seen = [name for name in table.names if name]
    named = []
    for name in missing[:FAULTS_NAMED]:
        got = f"no column {quote(prefix + name)} among {listed(seen).replace(' or ', ' and ')}"
        expected = (
            f"a column {quote(prefix + '…')} for each class, or for none" if prefix else "a column for each class"
        )
        named.append(Finding("missing-column", request.where, got, expected, did_you_mean(prefix + name, seen)))
    faults += with_rest(named, len(missing))
    return [by_class[class_id] for class_id in sorted(by_class)], faults


def read_classes(table: Table, column: int | None, request: Request) -> tuple[Int16, Bool, list[Finding]]:
    """The class id of each row, int16 (R,), which rows are nuclei, bool (R,), and what is wrong with the classes."""
    if request.file_class or column is None:
        only = request.file_class or request.classes.of_nameless
        return np.full(len(table), only, np.int16), np.ones(len(table), np.bool_), []
    return find_classes(*table.categories(column), table.place, request.classes)


def find_classes(
    texts: Sequence[str], text_of_row: Int64, place: Callable[[int], str], classes: ClassTable
) -> tuple[Int16, Bool, list[Finding]]:
    """The same for texts; texts that are no class are told with the places of their first rows."""
    skipped = np.array([text.casefold() in classes.skipped for text in texts], np.bool_)
    found = [0 if skip else class_of_text(text, classes) for text, skip in zip(texts, skipped, strict=True)]
    class_id = np.array([-1 if of_text is None else of_text for of_text in found], np.int16)
    unknown = [index for index, of_text in enumerate(found) if of_text is None]
    faults: list[Finding] = []
    if unknown:
        for index in unknown[:FAULTS_NAMED]:
            rows = np.flatnonzero(text_of_row == index)
            places = [place(row) for row in rows[:EXAMPLES_SHOWN].tolist()]
            faults.append(at_places(unknown_class(places[0], texts[index], classes, len(rows)), places))
        faults = with_rest(faults, int(np.isin(text_of_row, unknown).sum()))
    return class_id[text_of_row], ~skipped[text_of_row], faults


def read_probabilities(table: Table) -> tuple[Float32 | None, list[Finding]]:
    """The probability of each row, float32 (R,), None if no row has one, and what is wrong with them."""
    column = table.find(PROBABILITY_COLUMNS)
    if column is None:
        return None, []
    cells = table.cells(column)
    given = np.array([bool(cell.strip()) for cell in cells], np.bool_)
    if not given.any():
        return None, []
    numbers = numbers_of(cells)
    wrong = np.flatnonzero(given & ~((numbers >= 0) & (numbers <= 1)))
    missing = np.flatnonzero(~given)
    out_of_range = [
        Finding(
            "invalid-probability",
            table.place(row),
            f"{table.names[column]} is {quote(table.text(row, column))}",
            "a number from 0 to 1",
        )
        for row in wrong[:FAULTS_NAMED]
    ]
    absent = [
        Finding(
            "missing-probability",
            table.place(row),
            "no probability, although other nuclei have one",
            "a probability for every nucleus, or for none",
        )
        for row in missing[:FAULTS_NAMED]
    ]
    faults = [*with_rest(out_of_range, len(wrong)), *with_rest(absent, len(missing))]
    return (None if faults else numbers.astype(np.float32)), faults


def check_case(table: Table, column: int, request: Request, case: Case) -> None:
    """Refuse rows of other cases in a file that holds one. Raises InputFault ("other-case").

    A row may have the name of the case or, as in shared files, ``case_key``, with folders before it or without.
    """
    key = request.rules.case_key.replace("{case}", case.name).replace("{group}", case.group)
    texts, text_of_row = table.categories(column)
    wrong = [index for index, text in enumerate(texts) if find_case({case.name: case, key: case}, text) is None]
    if wrong:
        rows = np.flatnonzero(np.isin(text_of_row, wrong))
        named = [
            Finding(
                "other-case",
                table.place(row),
                f"a row of {quote(texts[text_of_row[row]])}",
                f"only rows of {quote(key)}, the case that the file is for",
                "Write the rows into the files of their cases.",
            )
            for row in rows[:FAULTS_NAMED]
        ]
        raise InputFault(*with_rest(named, len(rows)))


def rows_limit(request: Request, cases: int) -> int:
    """The most rows that a file of so many cases may have."""
    return request.limits.instances_per_case * max(cases, 1)


def read_coordinates(
    table: Table, columns: Sequence[int], um_per_unit: float = 1.0, spacing_um: Float64 | float = 1.0
) -> tuple[Float64, list[Finding]]:
    """Columns of coordinates in px, float64 (R, K), and what is wrong with them.

    x_px = x * um_per_unit / spacing_um, with one spacing for all rows or one for each.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.stack([numbers_of(table.cells(column)) * um_per_unit / spacing_um for column in columns], axis=1)
    wrong = np.argwhere(~(np.abs(numbers) <= COORDINATE_LIMIT))
    named = [
        invalid_coordinate(table.place(row), f"{table.names[columns[k]]} is {quote(table.text(row, columns[k]))}")
        for row, k in wrong[:FAULTS_NAMED]
    ]
    return numbers, with_rest(named, len(wrong))


def invalid_coordinate(place: str, got: str) -> Finding:
    expected = "plain numbers between -1e9 and 1e9 px, with a point as decimal mark"
    return Finding("invalid-coordinate", place, got, expected)
