"""CSV from strangers: all cells are found at once, and counted before any of them becomes an object.

UTF-8, with or without a byte order mark; commas, or tabs if the first line has no comma; lines that end in LF, CR LF or
CR. A cell may be quoted, with quotation marks inside doubled (RFC 4180). Blanks around the content of a cell, and
empty lines, are ignored.
Read here: Python's csv took 4.2 s and 750 MB for a file that takes 2.6 s and 360 MB.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, TypeVar

import numpy as np

from evaluation.files.decoding.streams import BYTE_ORDER_MARK, stream_size
from evaluation.findings import FAULTS_NAMED, Finding, did_you_mean, fault, with_rest
from evaluation.findings.errors import InputFault, refused
from nuclei_metrics.model import Bool, Float64, Int64

COLUMNS_LIMIT = 1000
CSV_CHUNK_BYTES = 1 << 22
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
OTHER_SEPARATORS = {b";": "semicolons", b"|": "bars"}
QUOTE, COMMA, LF, BLANK, TAB = b'",\n \t'
IN_NUMBERS = b"0123456789+-.eE \t\r\n"  # float() also takes "1_000", "nan" and the digits of other scripts

Text = TypeVar("Text", str, bytes)
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
        """Return the location of a row, for messages."""
        return f"{self.where}, line {self.line[row]:,}"

    def take(self, rows: Int64 | Bool | slice) -> Table:
        return replace(self, start=self.start[rows], stop=self.stop[rows], line=self.line[rows])

    def find(self, names: Iterable[str]) -> int | None:
        """Find the column that has the first of these names that occurs; upper and lower case are the same."""
        columns = {name.casefold(): index for index, name in enumerate(self.names)}
        return next((columns[name.casefold()] for name in names if name.casefold() in columns), None)

    def need(self, *names: str, fix: str = "", of_points: bool = False) -> int:
        """Find a column that must be there. Raises InputFault ("missing-column") otherwise."""
        if (column := self.find(names)) is not None:
            return column
        headers = [name for name in self.names if name]
        hint = did_you_mean(names[0], headers) or fix
        raise refused(
            "missing-column", self.where, wording="of-points" if of_points else "named",
            names=names, seen=headers, suggestion=hint,
        )  # fmt: skip

    def cells(self, column: int) -> list[bytes]:
        """Return the cells of a column, without the quotation marks around them."""
        data = self.data
        bounds = zip(self.start[:, column].tolist(), self.stop[:, column].tolist(), strict=True)
        cells = [data[start:stop] for start, stop in bounds]
        return [_unquoted(cell) for cell in cells] if b'"' in data else cells

    def text(self, row: int, column: int) -> str:
        """Return one cell, without blanks around it."""
        return _unquoted(self.data[self.start[row, column] : self.stop[row, column]]).decode().strip()

    def categories(self, column: int) -> Categories:
        """Return the categories of the texts in a column."""
        different, cell_of_row = categories(self.cells(column))
        texts, text_of_cell = categories([cell.decode().strip() for cell in different])
        return texts, text_of_cell[cell_of_row]


def categories(values: Sequence[Text]) -> tuple[list[Text], Int64]:
    """Return the distinct values in order of first appearance, and the index of each row's value, int64 (R,).

    >>> categories(["b", "a", "b"])
    (['b', 'a'], array([0, 1, 0]))
    """
    numbers: dict[Text, int] = {}
    number_of = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), np.array(number_of, np.int64)


def read_table(
    stream: BinaryIO, *, where: str, bytes_limit: int, rows_limit: int, names: Sequence[str] | None = None
) -> Table:
    """Read the table in a CSV file; every row must have as many cells as the header.

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
    data = _plain_text(stream.read(), where)
    rows = _find_rows(data, where, None if names is None else len(names), rows_limit)
    if names is not None:
        return replace(rows, names=tuple(names))
    header = tuple(rows.text(0, column) for column in range(rows.start.shape[1]))
    if end := re.search("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", "".join(header)):
        raise refused("invalid-csv", rows.place(0), wording="line-ends", sign=f"U+{ord(end[0]):04X}")
    folded = [name.casefold() for name in header]
    for name in header:
        if name and folded.count(name.casefold()) > 1:
            raise refused("invalid-csv", rows.place(0), wording="column-twice", name=name)
    return replace(rows.take(slice(1, None)), names=header)


def _unquoted(cell: bytes) -> bytes:
    return cell[1:-1].replace(b'""', b'"') if cell.startswith(b'"') else cell


def _plain_text(data: bytes, where: str) -> bytes:
    """Return the same bytes without a byte order mark, with LF at the end of every line. Refuses anything that is
    not UTF-8."""
    if data.startswith(UTF_16_MARKS) or b"\0" in data:
        raise refused("invalid-csv", where, wording="not-utf8", got="text in UTF-16, or a binary file")
    if not data.isascii():
        _check_utf_8(data, where)
    data = data.removeprefix(BYTE_ORDER_MARK)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data if data.endswith(b"\n") or not data else data + b"\n"


def _check_utf_8(data: bytes, where: str) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(data), CSV_CHUNK_BYTES):
        try:
            decoder.decode(data[begin : begin + CSV_CHUNK_BYTES], begin + CSV_CHUNK_BYTES >= len(data))
        except UnicodeDecodeError as error:
            place = _line_at(data, begin + error.start, where)
            raise refused("invalid-csv", place, wording="not-utf8", got="bytes that are not UTF-8") from None


def _find_rows(data: bytes, where: str, width: int | None, rows_limit: int) -> Table:
    """Find all lines that are not empty, as a table without names; ``width`` None: as wide as the first of them."""
    values = np.frombuffer(data, np.uint8)
    blank = len(data) - len(data.lstrip())
    begin = data.rfind(b"\n", 0, blank) + 1
    if blank == len(data):
        if width is None:
            raise refused("invalid-csv", where, wording="empty")
        nothing = np.empty((0, width), np.int64)
        return Table(where, data, (), nothing, nothing, np.empty(0, np.int64))
    separator = _separator_of(data[begin : data.find(b"\n", begin)], _line_at(data, begin, where))
    separators, quoted_ends = _find_separators(data, begin, where, width, rows_limit, separator)

    end = np.flatnonzero(values[separators] == LF)
    width = width or int(end[0]) + 1
    cells = np.diff(end, prepend=-1)
    start = np.concatenate([[begin], separators + 1])[:-1]
    first = end - cells + 1
    line = data.count(LF, 0, begin) + 1 + np.arange(len(end)) + np.searchsorted(quoted_ends, start[first])
    is_blank = (cells == 1) & (start[first] == separators[end])
    for row in np.flatnonzero((cells == 1) & ((values[start[first]] == BLANK) | (values[start[first]] == TAB))):
        is_blank[row] = not data[start[first[row]] : separators[end[row]]].strip()
    filled = np.flatnonzero(~is_blank)
    if len(ragged := filled[cells[filled] != width]):
        places = {f"{where}, line {line[row]:,}": int(cells[row]) for row in ragged[:FAULTS_NAMED]}
        named = [
            fault("invalid-csv", place, wording="wrong-cells", cells=count, width=width)
            for place, count in places.items()
        ]
        raise InputFault(*with_rest(named, len(ragged)))
    position = first[filled][:, None] + np.arange(width)
    return Table(where, data, (), start[position], separators[position], line[filled])


def _separator_of(first_line: bytes, place: str) -> int:
    """Find the separator: a comma, or a tab if the first line has only tabs. Refuses other separators."""
    if b"," in first_line:
        return COMMA
    for separator, name in OTHER_SEPARATORS.items():
        if separator in first_line:
            raise refused("invalid-csv", place, wording="other-separator", name=name)
    return TAB if b"\t" in first_line.strip() else COMMA


def _line_at(data: bytes, position: int, where: str) -> str:
    """Return the file and the line of a position, for messages."""
    return f"{where}, line {data.count(LF, 0, position) + 1:,}"


def _find_separators(
    data: bytes, begin: int, where: str, width: int | None, rows_limit: int, separator: int
) -> tuple[Int64, Int64]:
    """Return where cells end, int64, and where lines end inside of cells, int64.

    Commas and line ends count after an even number of quotation marks. Works piece by piece, so that too many or too
    long lines are refused before they take memory.
    """
    values = np.frombuffer(data, np.uint8)
    separators: list[Int64] = []
    quoted_ends: list[Int64] = [np.empty(0, np.int64)]
    lines, count, odd = 0, 0, False
    for index in range(begin, len(data), CSV_CHUNK_BYTES):
        chunk = values[index : index + CSV_CHUNK_BYTES]
        is_end = chunk == LF
        is_separator = is_end | (chunk == separator)
        is_quote = chunk == QUOTE
        if odd or is_quote.any():
            _check_quotes(data, np.flatnonzero(is_quote) + index, odd, where, separator)
            inside = np.logical_xor.accumulate(is_quote) ^ odd
            odd = bool(inside[-1])
            quoted_ends.append(np.flatnonzero(is_end & inside) + index)
            is_separator &= ~inside
        ends = np.flatnonzero(is_separator) + index
        separators.append(ends)
        end = np.flatnonzero(values[ends] == LF)
        if width is None and len(end):
            width = count + int(end[0]) + 1
        count += len(ends)
        lines += int(np.count_nonzero(is_end))
        if lines > rows_limit + 1:
            raise refused("too-large", where, wording="too-many-rows", limit=rows_limit)
        if (count if width is None else width) > COLUMNS_LIMIT:
            place = _line_at(data, begin, where)
            raise refused("invalid-csv", place, wording="too-many-columns", limit=COLUMNS_LIMIT)
        if width is not None and count > (lines + 1) * width:
            raise InputFault(_too_long_line(data, begin, np.concatenate(separators), where, width))
    if odd:
        raise refused("invalid-csv", _line_at(data, data.rfind(QUOTE), where), wording="lone-quotation-mark")
    return np.concatenate(separators), np.concatenate(quoted_ends)


def _check_quotes(data: bytes, positions: Int64, odd: bool, where: str, separator: int) -> None:
    """Reject quotation marks that are not around a cell or doubled inside it; ``odd``: the first mark ends a cell."""
    values = np.frombuffer(data, np.uint8)
    opening, closing = positions[int(odd) :: 2], positions[1 - int(odd) :: 2]
    around = np.array([separator, LF, QUOTE], np.uint8)
    wrong = np.concatenate(
        [opening[(opening > 0) & ~np.isin(values[opening - 1], around)], closing[~np.isin(values[closing + 1], around)]]
    )
    if len(wrong):
        raise refused("invalid-csv", _line_at(data, int(wrong.min()), where), wording="quotation-mark-inside")


def _too_long_line(data: bytes, begin: int, separators: Int64, where: str, width: int) -> Finding:
    """Create the finding about the first line with more cells than the header."""
    end = np.flatnonzero(np.frombuffer(data, np.uint8)[separators] == LF)
    cells = np.diff(end, prepend=-1, append=len(separators) - 1)
    first = int((cells > width).argmax())
    position = begin if first == 0 else int(separators[end[first - 1]]) + 1
    return fault("invalid-csv", _line_at(data, position, where), wording="more-cells", cells=width, width=width)


def count_rest(faults: Iterable[Finding]) -> list[Finding]:
    """Keep the first findings of each code; the last finding counts the rest."""
    named: dict[str, list[Finding]] = {}
    for problem in faults:
        of_code = named.setdefault(problem.code, [])
        if len(of_code) < FAULTS_NAMED:
            of_code.append(problem)
        else:
            of_code[-1] = replace(of_code[-1], count=of_code[-1].count + problem.count)
    return [problem for of_code in named.values() for problem in of_code]


# --- what columns mean ------------------------------------------------------------------------------------------------


def numbers_of(texts: Sequence[Any]) -> Float64:
    """Create float64 (N,) of plain decimal numbers in ASCII, as texts or as bytes; NaN of everything else. "-0" may
    be 0.

    >>> numbers_of([b" 1.5", b"-2e3"]).tolist(), numbers_of(["7", "1_000", "nan", "１", ""]).tolist()
    ([1.5, -2000.0], [7.0, nan, nan, nan, nan])
    """
    import msgspec  # few need it

    joined = b",".join(texts) if texts and isinstance(texts[0], bytes) else ",".join(texts).encode()
    if not joined.translate(None, IN_NUMBERS + b","):
        try:  # as a list of JSON: a third of the time of float()
            numbers = msgspec.json.decode(b"[%b]" % joined, type=list[float])
        except msgspec.MsgspecError:  # such as "+1" and ".5"
            numbers = []
        if len(numbers) == len(texts):
            return np.array(numbers, np.float64)
    return np.array([_float_or_nan(text if isinstance(text, bytes) else text.encode()) for text in texts], np.float64)


def _float_or_nan(text: bytes) -> float:
    try:
        return float("nan" if text.translate(None, IN_NUMBERS) else text)
    except ValueError:
        return float("nan")
