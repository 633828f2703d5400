"""Tables of CSV: how cells, numbers and lines are read in every dialect, and what is no table. The oracle is csv."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endless import not_endless
from every_format import write_challenge
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.commands.main import run
from evaluation.files.decoding import csv as bounded_csv
from evaluation.files.decoding.csv import numbers_of, read_table
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault


def table_of(text: str | bytes, **limits: int) -> bounded_csv.Table:
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    return read_table(stream, **{"where": "'a.csv'", "bytes_limit": 10**9, "rows_limit": 10**6, **limits})


def cells_of(text: str | bytes) -> list[list[str]]:
    table = table_of(text)
    return [[table.text(row, column) for column in range(len(table.names))] for row in range(len(table))]


def faults_of(text: str | bytes, **limits: Any) -> list[str]:
    with pytest.raises(InputFault) as caught:
        table_of(text, **limits)
    return render_findings(caught.value.findings)


PLAIN = [["1", "p q"], ["2", ""]]


@pytest.mark.parametrize(
    "text",
    [
        "x,name\n1,p q\n2,\n", "x,name\n1,p q\n2,", "x,name\r\n1,p q\r\n2,\r\n", "x,name\r1,p q\r2,\r",
        "\ufeffx,name\n1,p q\n2,\n", " x , name\n 1,p q \n2 ,  \n", "\n\nx,name\n\n1,p q\n  \n2,\n\n\n",
        '"x","name"\n"1","p q"\n2,""\n', '\ufeff"x",name\r\n1,"p q"\r\n"2",',
    ],
)  # fmt: skip
def test_the_same_table_in_other_dialects(text):
    table = table_of(text)
    assert table.names == ("x", "name")
    assert cells_of(text) == PLAIN
    assert numbers_of(table.cells(0)).tolist() == [1.0, 2.0]


TEXTS = st.text(st.sampled_from('aé€😀 "\n,;-1.'), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(TEXTS, min_size=width, max_size=width), max_size=5)),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    chunk=st.sampled_from([1, 2, 3, 7, 1 << 22]),
)
def test_what_the_csv_module_writes_is_read_as_it_was(rows, quoting, end, chunk):
    width = len(rows[0]) if rows else 2
    file = io.StringIO()
    writer = csv.writer(file, quoting=quoting, lineterminator=end)
    writer.writerows([[f"column {index}" for index in range(width)], *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_csv, "CSV_CHUNK_BYTES", chunk)
        found = cells_of(file.getvalue())
    wanted = [[cell.strip() for cell in row] for row in rows]
    # a line of blanks alone is an empty line
    assert found == [row for row, raw in zip(wanted, rows, strict=True) if len(row) > 1 or is_a_row(raw[0], quoting)]


def is_a_row(cell: str, quoting: int) -> bool:
    return quoting == csv.QUOTE_ALL or bool(cell.strip()) or cell == "" or "\n" in cell


def test_lines_are_counted_through_empty_ones_and_through_line_ends_in_cells():
    table = table_of('\nname,x\n"a\nb\nc",1\n\n"d",2\ne,3\n')
    assert table.line.tolist() == [3, 7, 8]
    assert table.place(1) == "'a.csv', line 7"


def test_a_quotation_mark_is_doubled_inside_a_cell():
    assert cells_of('a,b\n"5"" x","""",\n'.replace('"""",', '""""')) == [['5" x', '"']]


def test_columns_without_a_name_may_occur_twice():
    assert table_of(",x,\n0,1,2\n").find(["X"]) == 1


@pytest.mark.parametrize(("text", "line"), [
    ("x;y\n1;2\n", ", line 1: columns separated by semicolons; expected columns separated by commas."),
    ("\nx|y\n1|2\n", ", line 2: columns separated by bars"), ("x|y\n", ", line 1: columns separated by bars"),
    ("x,y\n1,2\n3\n", ", line 3: 1 cell; expected 2, one per column."),
    ("x,y\n1,2,3\n3,4\n", ", line 2: 3 cells; expected 2"), ("x,y\n1,2\n,,,", ", line 3: 4 cells; expected 2"),
    ("x,y\n1,2,3\n3\n", ", line 2: 3 cells (also 'a.csv', line 3: 1 cell); expected 2, one per column."),
    ('x,y\n1,"2\n', ", line 2: a quotation mark without a partner; expected quotation marks at both ends of a cell."),
    ('x,y\n1,2"\n3,"4"\n', ", line 2: a quotation mark inside a cell; expected quotation marks around whole cells"),
    ('x,y\n1,"2" \n', ", line 2: a quotation mark inside a cell"),
    ('x,y\n"1"2,3\n', ", line 2: a quotation mark inside a cell"),
    ("x,X\n1,2\n", ", line 1: the column 'x' twice; expected every column once."),
    (b"x,y\n1,\xe9\n", ", line 2: bytes that are not UTF-8; expected text in UTF-8. Save it as 'CSV UTF-8'."),
    *((data, ": text in UTF-16, or a binary file; expected text in UTF-8.")
      for data in (b"x,y\n1,2\0\n", "x,y\n1,2\n".encode("utf-16"), b"PK\x03\x04\0\0")),
    *((text, ": an empty file; expected a line with the names of the columns.") for text in ("", " \n\r")),
    ("x," * 1001 + "\n", ", line 1: more than 1,000 cells; expected at most 1,000 columns."),
])  # fmt: skip
def test_what_is_no_plain_table_is_told_with_its_line(text, line):
    (found,) = faults_of(text)
    assert found.startswith(f"[invalid-csv] 'a.csv'{line}")


def test_long_lines_are_refused_piece_by_piece(monkeypatch):
    monkeypatch.setattr(bounded_csv, "CSV_CHUNK_BYTES", 16)
    (line,) = faults_of("x,y\n1,2\n3,4" + "," * 1000 + "\n5,6\n")
    assert line == "[invalid-csv] 'a.csv', line 3: more than 2 cells; expected 2, one per column."


@pytest.mark.parametrize(("text", "how"), [
    ("x,y\n" + "1,2\n" * 11, {"rows_limit": 10}), ("x,y\n" + "\n" * 30, {"rows_limit": 10}),
    ("x,y\n1,2\n", {"bytes_limit": 5}),
])  # fmt: skip
def test_limits_come_before_memory(text, how):
    (line,) = faults_of(text, **how)
    assert line.startswith("[too-large] 'a.csv': ")
    assert "challenge.toml" in line


def test_fifty_thousand_ragged_rows_are_twenty_findings():
    with pytest.raises(InputFault) as caught:
        table_of("x,y\n" + "1\n" * 50_000)
    assert len(caught.value.findings) == 20
    assert sum(finding.count for finding in caught.value.findings) == 50_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0), (" -1.5 ", -1.5), ("+.5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1E-2", 0.01), ("007", 7.0),
        ("1e999", np.inf), ("", None), ("nan", None), ("inf", None), ("1_0", None), ("0x10", None), ("1,5", None),
        ("1 2", None), ("--1", None), ("e", None), (".", None), ("١", None),
    ],
)  # fmt: skip
def test_only_plain_decimal_numbers_are_numbers(text, value):
    (found,) = numbers_of([text.encode()]).tolist()
    assert (None if np.isnan(found) else found) == value
    assert numbers_of([b"x", text.encode()]).tolist()[1:] == pytest.approx([found], nan_ok=True)


@pytest.mark.parametrize("cell", [b"1" * 10**7 + b"x", b" " * 10**7 + b"x", b"0." + b"1" * 10**7 + b"e"])
def test_hostile_numbers_take_no_time(cell):
    with not_endless():
        assert np.isnan(numbers_of([cell])[0])


@pytest.mark.parametrize("rows", ["", "1,2,A\n"])
@pytest.mark.parametrize("header, is_valid", [("x,y,class", True), ("x,y,kind", False), ("x,y,z", False)])
def test_the_class_of_points_is_asked_for_even_without_rows(tmp_path, monkeypatch, header, rows, is_valid):
    monkeypatch.chdir(tmp_path)
    challenge, submission = write_challenge("points_csv", Path())
    (file, *_) = sorted(submission.glob("*.csv"))
    file.write_text(f"{header}\n{rows.replace('A', 'Epithelial')}")
    code = run(["validate", "--challenge", str(challenge), "--submission", str(submission)])
    assert code == (0 if is_valid else 1)
