"""CSV files, and tables of classes."""

from __future__ import annotations

from collections.abc import Collection

from evaluation.findings.kind import Kind, NotAmong
from evaluation.findings.words import did_you_mean, listed


class InvalidCsv(Kind):
    """A file is not CSV in the form that is read.

    Rows that are torn apart, or cells that move to another column, would give other nuclei. CSV is text in UTF-8, with
    commas, as many cells in every row as in the header, and quotation marks only around whole cells.

    Write the file with a CSV library, or save it as 'CSV UTF-8' with commas.

    [invalid-csv] 'nuclei.csv', line 3: 2 cells; expected 3, one for each column.
    """

    code = "invalid-csv"


class ColumnTwice(InvalidCsv):
    got = "the column {name:quoted} twice"
    expected = "every column once"

    name: str


class NotUtf8(InvalidCsv):
    got = "{found}"
    expected = "text in UTF-8"
    fix = "Save it as 'CSV UTF-8'."

    found: str


class EmptyCsv(InvalidCsv):
    got = "an empty file"
    expected = "a line with the names of the columns"


class OtherSeparator(InvalidCsv):
    got = "columns separated by {name}"
    expected = "columns separated by commas"
    fix = "Save it with commas, and with points as decimal marks."

    name: str


class WrongCells(InvalidCsv):
    got = "{cells:,} {cells:cell/cells}"
    expected = "{width:,}, one for each column"

    cells: int
    width: int


class MoreCells(WrongCells):
    got = "more than {cells:,} {cells:cell/cells}"


class TooManyColumns(InvalidCsv):
    got = "more than {limit:,} cells"
    expected = "at most {limit:,} columns"

    limit: int


class LoneQuotationMark(InvalidCsv):
    got = "a quotation mark without a partner"
    expected = "quotation marks at both ends of a cell"


class QuotationMarkInside(InvalidCsv):
    got = "a quotation mark inside a cell"
    expected = "quotation marks around whole cells only, and doubled inside"


class TwoColumnsOfClass(InvalidCsv):
    got = "two columns of one class, {first:quoted} and {second:quoted}"
    expected = "one column for each class"

    first: str
    second: str


class MissingColumn(Kind):
    """A CSV file lacks a column.

    Columns are found by their names in the first line, so that their order cannot swap them.

    Add the column or correct its name. Upper and lower case are the same. The probabilities of the classes need a
    column for each class, or none.

    [missing-column] 'points.csv': no such column among 'x' and 'yy'; expected a column 'y'. Did you mean 'yy'?
    """

    code = "missing-column"


class NoSuchColumn(MissingColumn):
    got = "{found}"
    expected = "a column {names:listed}"
    fix = "{suggestion}"

    names: Collection[str]
    seen: Collection[str]
    advice: str

    @property
    def found(self) -> str:
        return f"no such column among {listed(self.seen, last='and')}" if self.seen else "no names of columns"

    @property
    def suggestion(self) -> str:
        close = did_you_mean(next(iter(self.names)), self.seen)
        return close or self.advice or "The first line must hold the names of the columns."


class NoClassColumn(NotAmong):
    code = MissingColumn.code
    got = "no column {name:quoted} among {known:joined}"
    expected = "a column for each class"


class NoProbabilityColumn(NoClassColumn):
    expected = "a column {pattern:quoted} for each class, or for none"

    pattern: str


class NoCaseColumn(MissingColumn):
    got = "no column for the case, and cases of the challenge without an index"
    expected = "a column 'case'"
    fix = "Add it."


class OtherCase(Kind):
    """A file has rows of another case.

    The file lies where the predictions of one case are expected; rows of other cases would be counted in it.

    Write the rows of each case into its own file.

    [other-case] case 'case_017', 'case_017.csv', line 3: a row of 'case_018'; expected only rows of 'case_017', the
    case that the file is for. Write the rows into the files of their cases.
    """

    code = "other-case"


class RowOfOtherCase(OtherCase):
    got = "a row of {name:quoted}"
    expected = "only rows of {case:quoted}, the case that the file is for"
    fix = "Write the rows into the files of their cases."

    name: str
    case: str


class SeveralImagesInFile(OtherCase):
    got = "{count:,} images{listing}"
    expected = "one image"

    count: int
    names: Collection[str]

    @property
    def listing(self) -> str:
        return f": {listed(self.names, 3, last='and')}" if self.names else ""


class NoImageOfCase(OtherCase):
    got = "{count:,} images: {names:joined}"
    expected = "an image {case:quoted}"

    count: int
    names: Collection[str]
    case: str


class DuplicateRow(Kind):
    """A case or an id has two rows.

    Which of them is meant cannot be known.

    Remove one of them.

    [duplicate-row] case 'case_017', 'case_017_classes.csv', line 5: the id '2' again, with another class; expected one
    class for each id. Remove one of them.
    """

    code = "duplicate-row"


class DuplicateScore(DuplicateRow):
    got = "{path:quoted 120} of {team:quoted} in {case:quoted} again"
    expected = "one value for each team, case and metric"
    fix = "Remove one of them."

    path: str
    team: str
    case: str


class CaseTwice(DuplicateRow):
    got = "{case:quoted} again, after line {line:,}"
    expected = "one row for each case"
    fix = "Remove one of them."

    case: str
    line: int


class IdTwice(DuplicateRow):
    got = "the id {id:quoted} again, with another class"
    expected = "one class for each id"
    fix = "Remove one of them."

    id: str


class RowCount(Kind):
    """A CSV file has more or fewer rows than there are cases.

    Without a column for the case the first row is the first case, and so on: with another number of rows they would be
    counted for other cases.

    Write a row for each case in their order, or add a column 'case'.

    [row-count] 'counts.csv': 2 rows; expected 3, one for each case, in their order. If the rows are not in the order of
    the cases, add a column 'case'.
    """

    code = "row-count"
    got = "{rows:,} rows"
    expected = "{cases:,}, one for each case, in their order"
    fix = "If the rows are not in the order of the cases, add a column 'case'."

    rows: int
    cases: int


class InvalidCount(Kind):
    """A count is not a whole number.

    It is the number of nuclei of a class in an image.

    Write whole numbers from 0; round what a regression gives.

    [invalid-count] 'counts.csv', line 2: 'plasma' is '-1'; expected a whole number from 0 to 1,000,000,000.
    """

    code = "invalid-count"
    got = "{column:quoted} is {text:quoted}"
    expected = "a whole number from 0 to 1,000,000,000"

    column: str
    text: str


class InvalidClassTable(Kind):
    """An entry of a class table has no usable id, or another form.

    The table gives the class of each label of the label image, by its number.

    Write the label as a whole number, and the class by its name.

    [invalid-class-table] case 'case_017', 'case_017_classes.csv', line 2: the id 'nucleus 7'; expected a whole number
    from 1 to 10^18.
    """

    code = "invalid-class-table"


class NoIdAndClass(InvalidClassTable):
    got = "no id and class as texts or whole numbers"
    expected = 'an object {{"1": "name", …}} or a list of objects {{"id": 1, "class": "name"}}'


class NoEntries(NoIdAndClass):
    got = "the JSON value {value:quoted}"

    value: object


class NoId(InvalidClassTable):
    got = "the id {id:quoted}"
    expected = "a whole number from 1 to 10^18"

    id: str


KINDS = (
    InvalidCsv,
    MissingColumn,
    OtherCase,
    DuplicateRow,
    RowCount,
    InvalidCount,
    InvalidClassTable,
)
