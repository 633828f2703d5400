"""CSV formats: how tables are read, points, NuCLS, counts, class tables; and what is wrong with them."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from endless import not_endless
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from evaluation.challenge import LimitRules, format_rules
from evaluation.decoding import csv as bounded_csv
from evaluation.decoding.csv import numbers_of, read_table
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault
from evaluation.formats import read_annotations, read_collection
from evaluation.formats.format import Request
from evaluation.formats.label_image import read_class_table
from evaluation.formats.tables import (
    CASE_COLUMNS,
    CLASS_COLUMNS,
    ID_COLUMNS,
    read_counts_csv_collection,
    read_nucls_csv,
    read_points_csv,
    read_points_csv_collection,
    write_counts_csv,
)
from evaluation.model import Case, ClassTable, Collection, Counts, Outlines, Points

CASE = Case("a", "P1", 20, 30, 0.25, 1)
OTHER = Case("b", "P2", 20, 30, 0.5, 0)
CASES = {"a": CASE, "b": OTHER}
TWO = ClassTable(
    ("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "str": 2, "vague": -1}, {0: 1, 7: 2}, frozenset({"fov"})
)
ONE = ClassTable(("Nucleus",), {"nucleus": 1})
POINTS = {"format": "points_csv", "files": "{case}.csv", "origin": "pixel_centre", "units": "px"}
NUCLS = {
    "format": "nucls_csv", "files": "{case}.csv", "origin": "pixel_centre", "vertices": "exact", "vanished": "drop",
    "class_column": "main_classification",
}  # fmt: skip
TABLE = {"format": "label_image", "files": "{case}.png", "class_table": "{case}.csv"}


def request(where: str, rules: dict[str, Any], classes: ClassTable, **how) -> Request:
    return Request(
        where=where, name=where.strip("'"), rules=format_rules(**rules), classes=classes,
        limits=LimitRules(**how.pop("limits", {})), **how,
    )  # fmt: skip


def stream(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(text.encode() if isinstance(text, str) else text)


def table_of(text: str | bytes, **how) -> bounded_csv.Table:
    return read_table(stream(text), **{"where": "'a.csv'", "bytes_limit": 10**9, "rows_limit": 10**6, **how})


def cells_of(text: str | bytes, **how) -> list[list[str]]:
    table = table_of(text, **how)
    return [[table.text(row, column) for column in range(len(table.names))] for row in range(len(table))]


def points(text: str | bytes, classes=ONE, case=CASE, *, file_class=0, limits=None, **rules) -> Points:
    how = request("'a.csv'", {**POINTS, **rules}, classes, file_class=file_class, limits=limits or {})
    (found,) = read_points_csv(stream(text), how, case).parts
    assert isinstance(found, Points)
    return found


def shared_points(text: str | bytes, classes=ONE, cases=CASES, *, limits=None, **rules) -> Collection:
    how = request("'all.csv'", {**POINTS, "files": "all.csv", **rules}, classes, limits=limits or {})
    return read_points_csv_collection(stream(text), how, cases)


def nucls(text: str | bytes, classes=TWO, *, file_class=0, limits=None, **rules) -> Outlines:
    how = request("'a.csv'", {**NUCLS, **rules}, classes, file_class=file_class, limits=limits or {})
    (found,) = read_nucls_csv(stream(text), how, CASE).parts
    assert isinstance(found, Outlines)
    return found


def counts(text: str | bytes, classes=TWO, cases=CASES) -> dict[str, tuple[int, ...]]:
    found = shared_counts(text, classes, cases)
    assert found.unknown == {}
    parts = {name: said.parts for name, said in found.cases.items()}
    assert all(isinstance(part, Counts) and part.per_class.dtype == np.int64 for (part,) in parts.values())
    return {name: tuple(part.per_class.tolist()) for name, (part,) in parts.items()}


def shared_counts(text: str | bytes, classes=TWO, cases=CASES) -> Collection:
    return read_counts_csv_collection(stream(text), request("'counts.csv'", TABLE, classes), cases)


def classes(text: str | bytes, where="'classes.csv'", table=TWO, **limits) -> dict[int, int]:
    return read_class_table(stream(text), request("'a.png'", TABLE, table, limits=limits), where)


def faults_of(read: Callable[..., object], *arguments, **how) -> list[str]:
    with pytest.raises(InputFault) as caught:
        read(*arguments, **how)
    return render_findings(caught.value.findings)


# --- tables -----------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x;y\n1;2\n", "line 1: columns separated by semicolons; expected columns separated by commas."),
        ("\nx|y\n1|2\n", "line 2: columns separated by bars"),
        ("x|y\n", "line 1: columns separated by bars"),
        ("x,y\n1,2\n3\n", "line 3: 1 cell; expected 2, one for each column."),
        ("x,y\n1,2,3\n3,4\n", "line 2: 3 cells; expected 2"),
        ("x,y\n1,2,3\n3\n", "line 2: 3 cells; expected 2, one for each column (also 'a.csv', line 3: 1 cell)"),
        ('x,y\n1,"2\n', "line 2: a quotation mark without a partner; expected quotation marks at both ends of a cell."),
        ('x,y\n1,2"\n3,"4"\n', "line 2: a quotation mark inside a cell; expected quotation marks around whole cells"),
        ('x,y\n1,"2" \n', "line 2: a quotation mark inside a cell"),
        ('x,y\n"1"2,3\n', "line 2: a quotation mark inside a cell"),
        ("x,X\n1,2\n", "line 1: the column 'x' twice; expected every column once."),
        (b"x,y\n1,\xe9\n", "line 2: bytes that are not UTF-8; expected text in UTF-8. Save it as 'CSV UTF-8'."),
        (b"x,y\n1,2\0\n", "text in UTF-16, or a binary file; expected text in UTF-8."),
        ("x,y\n1,2\n".encode("utf-16"), "text in UTF-16, or a binary file"),
        (b"PK\x03\x04\0\0", "text in UTF-16, or a binary file"),
        ("", "an empty file; expected a line with the names of the columns."),
        (" \n\r\n\ufeff"[:3], "an empty file"),
        ("x," * 1001 + "\n", "line 1: more than 1,000 cells; expected at most 1,000 columns."),
        ("x,y\n1,2\n,,,", "line 3: 4 cells; expected 2"),
    ],
)
def test_what_is_no_plain_table_is_told_with_its_line(text, line):
    (found,) = faults_of(table_of, text)
    start = "[invalid-csv] 'a.csv'"
    assert found.startswith(start)
    if "(also" in line:
        assert found == f"{start}, line 2: 3 cells (also 'a.csv', line 3: 1 cell); expected 2, one for each column."
    else:
        assert found.removeprefix(start).lstrip(",: ").startswith(line)


def test_long_lines_are_refused_piece_by_piece(monkeypatch):
    monkeypatch.setattr(bounded_csv, "CSV_CHUNK_BYTES", 16)
    (line,) = faults_of(table_of, "x,y\n1,2\n3,4" + "," * 1000 + "\n5,6\n")
    assert line == "[invalid-csv] 'a.csv', line 3: more than 2 cells; expected 2, one for each column."


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("x,y\n" + "1,2\n" * 11, {"rows_limit": 10}),
        ("x,y\n" + "\n" * 30, {"rows_limit": 10}),
        ("x,y\n1,2\n", {"bytes_limit": 5}),
    ],
)
def test_limits_come_before_memory(text, how):
    (line,) = faults_of(table_of, text, **how)
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


@pytest.mark.parametrize(
    "text",
    [b"," * 2_000_000, b"\n" * 3_000_000, b'"' * 2_000_000, b'",' * 1_000_000, b'"\n' * 1_000_000, b"9" * 4_000_000],
    ids=["commas", "lines", "quotes", "cells in quotes", "lines in quotes", "a number"],
)
def test_hostile_tables_take_no_time(text):
    with not_endless():
        lines = faults_of(points, b"x,y\n" + text)
    assert len(lines) == 1


# --- points, nuclei and counts ----------------------------------------------------------------------------------------

NOTHING_TOLD = ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 2})
NO_HEADER = {"columns": ("x", "y")}
NUCLS_HEADER = (
    ",raw_classification,main_classification,super_classification,type,xmin,ymin,xmax,ymax,coords_x,coords_y\n"
)
NUCLS_FILE = NUCLS_HEADER + (
    '0,lymphocyte,stroma,sTIL,rectangle,4,6,9,8,"4,9,9,4,4","6,6,8,8,6"\n'
    '1,tumor,tumour,tumor_any,polyline,10,11,14,17,"10,14,12","11,12,17"\n'
    "2,tumor,tumour,tumor_any,rectangle,1,2,3,5,,\n"
    '3,fov_basic,fov,AMBIGUOUS,rectangle,0,0,30,20,"0,30,30,0,0","0,0,20,20,0"\n'
    '4,unlabeled,vague,AMBIGUOUS,Polyline,-2,0,1,3.5," -2 , 1,1","0,0,3.5"\n'
)
LEVELS = ("tumour", "stroma", "lymphocyte", "tumor", "sTIL", "tumor_any")
LEVELS_OF = ClassTable(LEVELS, {name.casefold(): index for index, name in enumerate(LEVELS, start=1)})
FIRST_TWO = "".join(NUCLS_FILE.splitlines(keepends=True)[:3])
POLYLINE = 'main_classification,type,coords_x,coords_y\nstroma,polyline,"1,5,1","1,1,5"\n'
SEVEN = "x,y,class\n1,1,tumour\n1,1,STR\n1,1, 7\n1,1,0\n1,1,7.0\n1,1,vague\n1,1,\n"

READ = [
    ("points are found by the names of columns", points, " Y ,note,X\n2.5,hello,-1\n1e1,,4\n", {},
     {"points_xy": [[-1, 2.5], [4, 10]], "class_id": [1, 1], "source_id": [2, 3], "probability": None}),
    ("a header alone is a case without points", points, "x,y,class,score\n", {}, {"points_xy": []}),
    *(("units become px by the spacing of the case", points, "x,y\n0.5,2\n", {"units": units},
       {"points_xy": [[0.5 * factor, 2 * factor]]}) for units, factor in (("px", 1), ("um", 4), ("mm", 4000))),
    ("bounds hold in px", points, "x,y\n300000,1\n", {"units": "um"}, {"class_id": [1]}),
    ("classes come by name, alias or number", points, SEVEN, {"classes": TWO}, {"class_id": [1, 2, 2, 1, 2, -1, 0]}),
    ("skipped classes are left out whatever else they say", points,
     "x,y,class,score\n1,1,Fov,\nnan,1,fov,7\n2,3,stroma,0.5\n", {"classes": TWO},
     {"source_id": [4], "class_id": [2], "probability": [0.5]}),
    ("the class of a path wins over the file", points, "x,y,class\n1,1,unheard\n", {"classes": TWO, "file_class": 2},
     {"class_id": [2]}),
    ("an empty class is the alias of nothing", points, "x,y,class\n1,1,\n1,1,tumour\n", {"classes": NOTHING_TOLD},
     {"class_id": [2, 1]}),
    ("no class is the alias of nothing", points, "x,y\n1,1\n", {"classes": NOTHING_TOLD}, {"class_id": [2]}),
    *(("probabilities are for all or for none", points, f"x,y,{column}\n1,1,{one}\n1,1,{other}\n", {},
       {"probability": found}) for column in ("probability", "Score", "confidence")
      for one, other, found in (("0.5", "1", [0.5, 1]), ("", " ", None))),
    ("a file without a header is read if its columns are named", points, "1,?,2,0,\n3,?,4,7,\n",
     {"classes": TWO, "columns": ("y", "_", "x", "class", "_")},
     {"points_xy": [[2, 1], [4, 3]], "class_id": [1, 2], "source_id": [1, 2]}),
    *(("without a header an empty file has no points", points, text, NO_HEADER, {"points_xy": []})
      for text in ("", "\r\n")),
    *(("a case column in a file of one case must fit", points, f"image,x,y\n{key},1,2\n",
       {"case_key": "{group}-{case}.png"}, {"points_xy": [[1, 2]]})
      for key in ("a", "P1-a.png", "images/P1-a.png", "C:\\images\\a")),
    # --- NuCLS
    ("outlines and boxes are nuclei", nucls, NUCLS_FILE, {},
     {"rings": [[[4, 6], [9, 6], [9, 8], [4, 8], [4, 6]], [[10, 11], [14, 12], [12, 17]],
                [[1, 2], [3, 2], [3, 5], [1, 5]], [[-2, 0], [1, 0], [1, 3.5]]],
      "class_id": [2, 1, 1, -1], "source_id": [2, 3, 4, 6], "ring_instance": [0, 1, 2, 3],
      "ring_is_hole": [False] * 4, "probability": None}),
    *(("the class level is that of the rules", nucls, FIRST_TWO, {"classes": LEVELS_OF, "class_column": column},
       {"class_id": ids}) for column, ids in (
        ("raw_classification", [3, 4]), ("main_classification", [2, 1]), ("super_classification", [5, 6]))),
    ("predictions may have a probability", nucls, POLYLINE.replace("\n", ",score\n", 1)[:-1] + ",0.25\n", {},
     {"probability": [0.25]}),
    ("the class of the path needs no class column", nucls,
     'type,coords_x,coords_y\npolyline,"1,5,1","1,1,5"\n', {"file_class": 2}, {"class_id": [2]}),
    ("outlines need no columns of boxes", nucls, POLYLINE, {}, {"class_id": [2]}),
]  # fmt: skip


def rings(outlines: Outlines) -> list[list[list[float]]]:
    return [ring.tolist() for ring in np.split(outlines.points_xy, outlines.ring_start[1:-1])]


@pytest.mark.parametrize(("why", "read", "text", "options", "expected"), READ, ids=[row[0] for row in READ])
def test_a_file_becomes_these_nuclei(why, read, text, options, expected):
    part = read(text, **options)
    found = {key: rings(part) if key == "rings" else getattr(part, key) for key in expected}
    assert {key: value.tolist() if hasattr(value, "tolist") else value for key, value in found.items()} == expected
    assert part.probability is None or part.probability.dtype == np.float64


UNKNOWN = "is not a class of this challenge"
GOOD = ',,stroma,,polyline,,,,,"1,2,3","1,2,5"\n'
TWO_COUNTS = {"z": Case("z", "z", 5, 5, index=0), "y": Case("y", "y", 5, 5)}
FEW = {"limits": {"instances_per_case": 2}}

REFUSED = [  # how the only line begins
    (points, "x,y,class\n1,1,tumor\n1,1,Tumour\n1,1,tumor\n1,1,9\n", {"classes": TWO},
     f"[unknown-class] 'a.csv', line 2, line 4: 'tumor' {UNKNOWN} (also 'a.csv', line 5: '9' {UNKNOWN}); expected "
     "'str', 'stroma' or 'tumour', or one of the numbers 0, 7. Did you mean 'tumour'?"),
    *((points, f"x,y,score\n1,1,0.5\n1,1,{value}\n", {},
       f"[invalid-probability] 'a.csv', line 3: score is '{value}'; expected a number from 0 to 1.")
      for value in ("-0.01", "1.01", "nan", "inf", "high", "50%")),
    (points, "x,y,score\n1,1,0.5\n1,1,\n1,1,\n", {}, "[missing-probability] 'a.csv', line 3, line 4: no probability"),
    *((points, f"{axis},{'yx'['xy'.index(axis)]}\n{value},1\n", {},
       "[invalid-coordinate] 'a.csv', line 2: {} is '{}'; expected plain numbers between -1e9 and 1e9 px, with a point "
       "as decimal mark.".format(axis, value.strip('"')))
      for axis in "xy" for value in ("", "nan", "inf", "1e10", "-1000000001", "a", '"12,5"', "1e999")),
    *((points, f"x,y\n{x},1\n", {"units": "mm"}, "[invalid-coordinate]") for x in ("300000", "1e308")),
    (points, "x,y\n1,2\n", NO_HEADER, "[invalid-coordinate] 'a.csv', line 1: x is 'x'"),
    (points, "1,2,3\n", NO_HEADER, "[invalid-csv] 'a.csv', line 1: 3 cells"),
    (points, "117,130,1\n95,156,1\n", {},
     "[missing-column] 'a.csv': no such column among '117', '130' and '1'; expected a column 'x'. If the file has no "
     "header, its columns must be named in challenge.toml ('columns')."),
    (points, "x,y\n1,1\n2,1\n3,1\n", FEW, "[too-large] 'a.csv': more than 2 rows; expected at most 2."),
    (shared_points, "x,y\n1,2\n", {}, "[missing-column] 'all.csv': no such column among 'x' and 'y'"),
    (shared_points, "case,x,y\na,1,1\na,2,1\na,3,1\n", FEW,
     "[too-large] 'all.csv', case 'a': 3 nuclei; expected at most 2."),
    # --- NuCLS
    *((nucls, f"{NUCLS_HEADER}{GOOD}{row}\n{GOOD}", {}, line) for row, line in (
        (',,stroma,,polyline,,,,,"1,2,3","1,2"', "[invalid-coordinate] 'a.csv', line 3: 3 numbers in coords_x and"),
        (",,stroma,,polyline,1,2,3,4,,", "[invalid-coordinate] 'a.csv', line 3: 0 numbers in coords_x and 0 in"),
        (',,stroma,,rectangle,1,2,3,4,"1,2",', "[invalid-coordinate] 'a.csv', line 3: 2 numbers in coords_x and 0 in"),
        (',,stroma,,polyline,,,,,"1,2,x","1,2,3"', "[invalid-coordinate] 'a.csv', line 3, vertex 3: coords_x is 'x';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,,3"', "[invalid-coordinate] 'a.csv', line 3, vertex 2: coords_y is '';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,2,2e9"', "[invalid-coordinate] 'a.csv', line 3, vertex 3: coords_y is '2e"),
        (",,stroma,,rectangle,1,2,,4,,", "[invalid-coordinate] 'a.csv', line 3: xmax is '';"),
        (',,stroma,,ellipse,,,,,"1,2,3","1,2,3"', "[unsupported-shape] 'a.csv', line 3: the type 'ellipse'; expected"),
        (',,strma,,polyline,,,,,"1,2,3","1,2,3"', "[unknown-class] 'a.csv', line 3: 'strma' is not a class"))),
    *((nucls, NUCLS_FILE.replace(column, f"{column}_"), {}, "[missing-column] 'a.csv': no such column among")
      for column in ("main_classification", "type", "coords_x", "coords_y")),
    (nucls, POLYLINE + "stroma,rectangle,,\n", {}, "[missing-column] 'a.csv': no such column among"),
    (nucls, NUCLS_FILE, {"limits": {"vertices_per_file": 10}},
     "[too-large] 'a.csv': more than 10 vertices; expected at most 10. Make the file smaller; organisers can raise "
     "limits.vertices_per_file in challenge.toml."),
    # --- counts
    (counts, "Stroma,Tumour\n1,2\n3,4\n", {"cases": TWO_COUNTS},  # their order by name could be another one
     "[missing-column] 'counts.csv': no column for the case, and cases of the challenge without an index; expected a "
     "column 'case'. Add it."),
    (counts, "Tumour,Stroma\n1,2\n", {}, "[row-count] 'counts.csv': 1 row; expected 2, one for each case, in"),
    (counts, "Tumour,Stroma\n1,2\n3,4.5\n", {},
     "[invalid-count] 'counts.csv', line 3: 'Stroma' is '4.5'; expected a whole number"),
    (counts, "Tumour,Stroma\n1,2\n3,\n", {}, "[invalid-count] 'counts.csv', line 3: 'Stroma' is ''"),
    (counts, "Tumour,Stroma\n1,2\n3,1000000001\n", {}, "[invalid-count]"),
    (counts, "Tumour,Strom\n1,2\n3,4\n", {},
     "[missing-column] 'counts.csv': no column 'Stroma' among 'Tumour' and 'Strom'"),
    (counts, "Tumour,Stroma,STR\n1,2,3\n", {},
     "[invalid-csv] 'counts.csv': two columns of one class, 'Stroma' and 'STR'"),
    (counts, "case,Tumour,Stroma\nb,0,0\na,1,2\nb,3,4\n", {},
     "[duplicate-row] 'counts.csv', line 4: 'b' again, after line 2; expected one row for each case."),
    # --- tables of classes
    *((classes, text, {"where": where}, line) for text, where, line in (
        ("id,class\n0,stroma\n", "'t.csv'", "[invalid-class-table] 't.csv', line 2: the id '0'; expected a whole"),
        ("id,class\n-1,stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n1.5,stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n" + "9" * 5000 + ",stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n7,stroma\n7,tumour\n", "'t.csv'", "[duplicate-row] 't.csv', line 3: the id '7' again, with"),
        ("id,class\n7,strom\n", "'t.csv'", f"[unknown-class] 't.csv', line 2: 'strom' {UNKNOWN}"),
        ("id,klass\n7,stroma\n", "'t.csv'", "[missing-column]"),
        ("3", "'t.json'", "[invalid-class-table] 't.json': the JSON value '3'; expected an object"),
        ('{"7": ["stroma"]}', "'t.json'", "[invalid-class-table] 't.json', '7': no id and class as texts"),
        ('[{"id": 7, "class": "stroma"}, 5]', "'t.json'", "[invalid-class-table] 't.json', [1]: no id and class"),
        ('[{"id": true, "class": "stroma"}]', "'t.json'", "[invalid-class-table]"),
        ('[{"id": 1e40, "class": "stroma"}]', "'t.json'", "[invalid-class-table]"),
        ('{"7": "stroma"', "'t.json'", "[not-json]"), ("[" * 100 + "]" * 100, "'t.json'", "[too-deep]"))),
    (classes, '{"1": "str", "2": "str", "3": "str"}', {"where": "'t.json'", "instances_per_case": 2}, "[too-large]"),
    (classes, "id,class\n1,str\n2,str\n3,str\n", {"instances_per_case": 2}, "[too-large]"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "text", "options", "line"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_file_is_refused_with_this_line(read, text, options, line):
    assert faults_of(read, text, **options)[0].startswith(line)
    for key, number in options.get("limits", {}).items():
        assert read(text, **{**options, "limits": {key: number + 1}})


def test_hundreds_of_unknown_classes_are_counted():
    with pytest.raises(InputFault) as caught:
        points("x,y,class\n" + "".join(f"1,1,c{index}\n" * 2 for index in range(300)), TWO)
    assert len(caught.value.findings) == 20
    assert sum(finding.count for finding in caught.value.findings) == 600


def part(found: Collection, case: str) -> Points:
    (one,) = found.cases[case].parts
    assert isinstance(one, Points)
    return one


def test_rows_of_shared_files_go_to_their_cases_each_with_its_spacing():
    found = shared_points("case,x,y\nb,1,1\na,1,1\nb,2,3\n", units="um")
    assert part(found, "a").points_xy.tolist() == [[4.0, 4.0]]
    assert part(found, "b").points_xy.tolist() == [[2.0, 2.0], [4.0, 6.0]]
    assert part(found, "b").source_id.tolist() == [2, 4]
    found = shared_points(
        "image_id,x,y,class,score\nq/b.png,1,2,stroma,0.5\nz.png,oops,,,\na.png,5,6,fov,\n", TWO,
        {"a.png": CASE, "b.png": OTHER},
    )  # fmt: skip
    assert part(found, "b").points_xy.tolist() == [[1.0, 2.0]]
    assert part(found, "b").probability.tolist() == [0.5]
    assert len(part(found, "a")) == 0
    assert found.unknown == {"z.png": 1}
    found = shared_points("b,1,2\na,3,4\n", columns=("case", "x", "y"))
    assert part(found, "a").points_xy.tolist() == [[3.0, 4.0]]


def test_a_box_is_the_same_with_and_without_its_vertices():
    with_vertices = nucls(NUCLS_HEADER + '0,,stroma,,rectangle,4,6,9,8,"4,9,9,4","6,6,8,8"\n')
    without = nucls(NUCLS_HEADER + "0,,stroma,,rectangle,4,6,9,8,,\n")
    assert with_vertices.points_xy.tolist() == without.points_xy.tolist()
    picture = Image.new("1", (12, 12))
    ImageDraw.Draw(picture).polygon([tuple(xy) for xy in without.points_xy.tolist()], fill=1)
    assert np.argwhere(np.asarray(picture)).min(axis=0).tolist() == [6, 4]
    assert np.asarray(picture).sum() == 6 * 3  # pixel centres on the border count here


def test_counts_are_in_the_order_of_the_index_or_have_names():
    assert counts("Tumour,Stroma\n1,2\n0,9\n") == {"b": (1, 2), "a": (0, 9)}
    assert counts("Str,Tumour,note,case,vague\n1,2.0,?,b,-7\n") == {"b": (2, 1)}
    found = shared_counts("case,Tumour,Stroma\nc,1,2\na,3,4\nc,?,2\n")
    assert (list(found.cases), found.unknown) == (["a"], {"c": 2})


@given(st.dictionaries(st.sampled_from("ab"), st.tuples(*[st.integers(0, 10**9)] * 2)))
def test_written_counts_are_read_as_they_were(written):
    assert counts(write_counts_csv(written, TWO.names)) == written


# --- class tables -----------------------------------------------------------------------------------------------------

DEBRIS = replace(TWO, skipped=frozenset({"debris"}))
SAME = {7: 2, 900: 1, 3: -1}


@pytest.mark.parametrize(
    ("text", "where", "table", "found"),
    [
        ("id,class\n7,Stroma\n900,0\n3,vague\n5,fov\n", "'t.csv'", TWO, SAME | {5: 0}),  # skipped: no nucleus
        ("Class,ID\nSTR, 7.0\ntumour,900\nvague,003\nfov,5\nstroma,7\n", "case 'a', 't.CSV'", TWO, SAME | {5: 0}),
        ('{"7": "stroma", "900": 0, "3": "vague", "5": "fov"}', "case 'a', 't.json'", TWO, SAME | {5: 0}),
        ('[{"id": 7, "class": 7}, {"class": " Tumour", "id": "900"}, {"id": 3, "class": "vague"}]', "'t.JSON'", TWO,
         SAME),
        (gzip.compress(b'{"7": "stroma"}'), "'a.json.gz'", TWO, {7: 2}),
        ("id,class\n", "'a.csv'", TWO, {}), ("{}", "'a.json'", TWO, {}), ("[]", "'a.json'", TWO, {}),
        ("id,class\n1,stroma\n2,\n3,debris\n", "'a.csv'", DEBRIS, {1: 2, 3: 0}),
        ('{"1": "stroma", "2": " ", "3": "debris"}', "'a.json'", DEBRIS, {1: 2, 3: 0}),
        ("id,class\n1,tumour\n2,\n", "'a.csv'", ClassTable(("tumour",), {"tumour": 1}), {1: 1, 2: 1}),
        (f"id,class\n{2**53 + 1},stroma\n", "'a.csv'", TWO, {2**53 + 1: 2}),
    ],
)  # fmt: skip
def test_the_same_table_of_classes_in_all_its_forms(text, where, table, found):
    assert classes(text, where, table) == found


# --- one table of headers ---------------------------------------------------------------------------------------------

ALL_CASES = {
    "points_csv": ({**POINTS, "files": "all.csv"}, "x,y", "1,2"),
    "rle_csv": (
        {"format": "rle_csv", "files": "all.csv", "pixel_order": "row", "first_pixel": 1}, "EncodedPixels", "1 2"
    ),
    "counts_csv": ({"format": "counts_csv", "files": "all.csv"}, "Tumour,Stroma", "1,2"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASE_COLUMNS)
@pytest.mark.parametrize("format", ALL_CASES)
def test_every_reader_of_all_cases_takes_each_header_of_the_case(format, name):
    rules, columns, values = ALL_CASES[format]
    asked = request("'all.csv'", rules, TWO, **({"file_class": 1} if format != "counts_csv" else {}))
    assert list(read_collection(stream(f"{name},{columns}\na,{values}\n"), asked, CASES).cases) == ["a"]


@pytest.mark.parametrize("name", CLASS_COLUMNS)
def test_every_reader_takes_each_header_of_the_class(name):
    for format in ("points_csv", "rle_csv"):
        rules, columns, values = ALL_CASES[format]
        text = f"case,{columns},{name}\na,{values},stroma\n"
        (part,) = read_collection(stream(text), request("'all.csv'", rules, TWO), CASES).cases["a"].parts
        assert part.class_id.tolist() == [2]
    for of_id in set(ID_COLUMNS) - {name}:
        assert read_class_table(stream(f"{of_id},{name}\n7,Stroma\n"), request("'a'", TABLE, TWO), "'a.csv'") == {7: 2}


def test_the_header_label_is_the_id_of_a_class_table_where_no_other_column_is():
    asked = request("'a.png'", TABLE, TWO)
    assert read_class_table(stream("label,type\n7,Stroma\n"), asked, "'a.csv'") == {7: 2}
    with pytest.raises(InputFault, match="missing-column"):
        read_class_table(stream("label,area\n7,20\n"), asked, "'a.csv'")


def test_an_id_in_the_points_of_one_case_is_that_of_the_point():
    (points,) = read_annotations(stream("id,x,y,class\n1,1,2,Stroma\n"), request("'a.csv'", POINTS, TWO), CASE).parts
    assert points.class_id.tolist() == [2]


def test_a_format_without_files_of_one_case_is_told_by_name():
    with pytest.raises(ValueError, match="counts_csv has no files of one case"):
        read_annotations(stream(""), request("'all.csv'", ALL_CASES["counts_csv"][0], TWO), CASE)
