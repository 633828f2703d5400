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
from evaluation.formats.class_table import read_class_table
from evaluation.formats.counts_csv import read_counts_csv_collection, write_counts_csv
from evaluation.formats.csv_columns import CASE_COLUMNS, CLASS_COLUMNS, ID_COLUMNS
from evaluation.formats.nucls_csv import read_nucls_csv
from evaluation.formats.points_csv import read_points_csv, read_points_csv_collection
from evaluation.formats.request import Request
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
        patch.setattr(bounded_csv, "CHUNK_BYTES", chunk)
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
        ("\nx\ty\n1\t2\n", "line 2: columns separated by tabs"),
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
    monkeypatch.setattr(bounded_csv, "CHUNK_BYTES", 16)
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


# --- points -----------------------------------------------------------------------------------------------------------


def test_points_are_found_by_the_names_of_columns():
    found = points(" Y ,note,X\n2.5,hello,-1\n1e1,,4\n")
    assert found.points_xy.tolist() == [[-1.0, 2.5], [4.0, 10.0]]
    assert found.class_id.tolist() == [1, 1]
    assert found.source_id.tolist() == [2, 3]
    assert found.probability is None


def test_a_header_alone_is_a_case_without_points():
    assert len(points("x,y,class,score\n")) == 0
    assert points("x,y\n").points_xy.shape == (0, 2)


@pytest.mark.parametrize(("units", "factor"), [("px", 1.0), ("um", 4.0), ("mm", 4000.0)])
def test_units_become_px_by_the_spacing_of_the_case(units, factor):
    assert points("x,y\n0.5,2\n", units=units).points_xy.tolist() == [[0.5 * factor, 2 * factor]]


def test_each_case_of_a_shared_file_has_its_spacing():
    found = shared_points("case,x,y\nb,1,1\na,1,1\nb,2,3\n", units="um")
    assert part(found, "a").points_xy.tolist() == [[4.0, 4.0]]
    assert part(found, "b").points_xy.tolist() == [[2.0, 2.0], [4.0, 6.0]]
    assert part(found, "b").source_id.tolist() == [2, 4]


def part(found: Collection, case: str) -> Points:
    (one,) = found.cases[case].parts
    assert isinstance(one, Points)
    return one


def test_classes_come_by_name_alias_or_number():
    text = "x,y,class\n1,1,tumour\n1,1,STR\n1,1, 7\n1,1,0\n1,1,7.0\n1,1,vague\n1,1,\n"
    assert points(text, TWO).class_id.tolist() == [1, 2, 2, 1, 2, -1, 0]


def test_skipped_classes_are_left_out_whatever_else_they_say():
    found = points("x,y,class,score\n1,1,Fov,\nnan,1,fov,7\n2,3,stroma,0.5\n", TWO)
    assert (found.source_id.tolist(), found.class_id.tolist(), found.probability.tolist()) == ([4], [2], [0.5])


def test_the_class_of_a_path_wins_over_the_file():
    assert points("x,y,class\n1,1,unheard\n", TWO, file_class=2).class_id.tolist() == [2]


def test_an_empty_class_is_the_alias_of_nothing():
    table = ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 2})
    assert points("x,y,class\n1,1,\n1,1,tumour\n", table).class_id.tolist() == [2, 1]
    assert points("x,y\n1,1\n", table).class_id.tolist() == [2]


def test_unknown_classes_are_one_finding_each():
    lines = faults_of(points, "x,y,class\n1,1,tumor\n1,1,Tumour\n1,1,tumor\n1,1,9\n", TWO)
    assert lines == [
        "[unknown-class] 'a.csv', line 2, line 4: 'tumor' is not a class of this challenge (also 'a.csv', line 5: '9' "
        "is not a class of this challenge); expected 'str', 'stroma' or 'tumour', or one of the numbers 0, 7."
        " Did you mean 'tumour'?"
    ]


def test_hundreds_of_unknown_classes_are_counted():
    with pytest.raises(InputFault) as caught:
        points("x,y,class\n" + "".join(f"1,1,c{index}\n" * 2 for index in range(300)), TWO)
    assert len(caught.value.findings) == 20
    assert sum(finding.count for finding in caught.value.findings) == 600


@pytest.mark.parametrize("column", ["probability", "Score", "confidence"])
def test_probabilities_are_for_all_or_for_none(column):
    assert points(f"x,y,{column}\n1,1,0.5\n1,1,1\n").probability.tolist() == [0.5, 1.0]
    assert points(f"x,y,{column}\n1,1,\n1,1, \n").probability is None
    assert points(f"x,y,{column}\n1,1,1\n").probability.dtype == np.float64


@pytest.mark.parametrize("value", ["-0.01", "1.01", "nan", "inf", "high", "50%"])
def test_probabilities_are_from_0_to_1(value):
    (line,) = faults_of(points, f"x,y,score\n1,1,0.5\n1,1,{value}\n")
    assert line == f"[invalid-probability] 'a.csv', line 3: score is '{value}'; expected a number from 0 to 1."


def test_a_missing_probability_is_told():
    (line,) = faults_of(points, "x,y,score\n1,1,0.5\n1,1,\n1,1,\n")
    assert line.startswith("[missing-probability] 'a.csv', line 3, line 4: no probability")


@pytest.mark.parametrize("value", ["", "nan", "inf", "1e10", "-1000000001", "a", '"12,5"', "1e999"])
@pytest.mark.parametrize("axis", ["x", "y"])
def test_coordinates_are_finite_and_within_bounds(value, axis):
    text = f"{axis},{'yx'['xy'.index(axis)]}\n{value},1\n"
    (line,) = faults_of(points, text)
    shown = value.strip('"')
    assert line == (
        f"[invalid-coordinate] 'a.csv', line 2: {axis} is '{shown}'; expected plain numbers between -1e9 and 1e9 px, "
        "with a point as decimal mark."
    )


def test_bounds_hold_in_px():
    assert faults_of(points, "x,y\n300000,1\n", units="mm")[0].startswith("[invalid-coordinate]")
    assert faults_of(points, "x,y\n1e308,1\n", units="mm")[0].startswith("[invalid-coordinate]")
    assert len(points("x,y\n300000,1\n", units="um")) == 1


def test_a_file_without_a_header_is_read_if_its_columns_are_named():
    columns = ("y", "_", "x", "class", "_")
    found = points("1,?,2,0,\n3,?,4,7,\n", TWO, columns=columns)
    assert found.points_xy.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert (found.class_id.tolist(), found.source_id.tolist()) == ([1, 2], [1, 2])


def test_without_a_header_an_empty_file_is_a_case_without_points():
    assert len(points("", columns=("x", "y"))) == 0
    assert len(points("\r\n", columns=("x", "y"))) == 0


def test_a_header_that_should_not_be_there_is_no_point():
    assert faults_of(points, "x,y\n1,2\n", columns=("x", "y"))[0].startswith(
        "[invalid-coordinate] 'a.csv', line 1: x is 'x'"
    )


def test_without_a_header_the_number_of_cells_must_fit():
    assert faults_of(points, "1,2,3\n", columns=("x", "y"))[0].startswith("[invalid-csv] 'a.csv', line 1: 3 cells")


def test_a_file_that_lacks_its_header_is_told_how_to_name_columns():
    (line,) = faults_of(points, "117,130,1\n95,156,1\n")
    assert line == (
        "[missing-column] 'a.csv': no such column among '117', '130' and '1'; expected a column 'x'. If the file has "
        "no header, its columns must be named in challenge.toml ('columns')."
    )


def test_rows_of_shared_files_go_to_their_cases():
    found = shared_points(
        "image_id,x,y,class,score\nq/b.png,1,2,stroma,0.5\nz.png,oops,,,\na.png,5,6,fov,\n", TWO,
        {"a.png": CASE, "b.png": OTHER},
    )  # fmt: skip
    assert part(found, "b").points_xy.tolist() == [[1.0, 2.0]]
    assert part(found, "b").probability.tolist() == [0.5]
    assert len(part(found, "a")) == 0
    assert found.unknown == {"z.png": 1}


def test_a_shared_file_needs_a_column_for_the_case():
    assert faults_of(shared_points, "x,y\n1,2\n")[0].startswith(
        "[missing-column] 'all.csv': no such column among 'x' and 'y'"
    )


def test_the_case_column_may_be_named_without_a_header():
    found = shared_points("b,1,2\na,3,4\n", columns=("case", "x", "y"))
    assert part(found, "a").points_xy.tolist() == [[3.0, 4.0]]


def test_the_most_instances_are_for_each_case():
    assert len(shared_points("case,x,y\na,1,1\na,2,1\nb,1,1\n", limits={"instances_per_case": 2}).cases) == 2
    (line,) = faults_of(shared_points, "case,x,y\na,1,1\na,2,1\na,3,1\n", limits={"instances_per_case": 2})
    assert line.startswith("[too-large] 'all.csv', case 'a': 3 nuclei; expected at most 2.")
    (line,) = faults_of(points, "x,y\n1,1\n2,1\n3,1\n", limits={"instances_per_case": 2})
    assert line.startswith("[too-large] 'a.csv': more than 2 rows; expected at most 2.")


@pytest.mark.parametrize("key", ["a", "P1-a.png", "images/P1-a.png", "C:\\images\\a"])
def test_a_case_column_in_a_file_of_one_case_must_fit(key):
    assert len(points(f"image,x,y\n{key},1,2\n", case_key="{group}-{case}.png")) == 1


# --- NuCLS ------------------------------------------------------------------------------------------------------------

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


def rings(outlines: Outlines) -> list[list[list[float]]]:
    return [ring.tolist() for ring in np.split(outlines.points_xy, outlines.ring_start[1:-1])]


def test_outlines_and_boxes_of_a_nucls_file_are_nuclei():
    found = nucls(NUCLS_FILE)
    assert rings(found) == [
        [[4, 6], [9, 6], [9, 8], [4, 8], [4, 6]],
        [[10, 11], [14, 12], [12, 17]],
        [[1, 2], [3, 2], [3, 5], [1, 5]],
        [[-2, 0], [1, 0], [1, 3.5]],
    ]
    assert found.class_id.tolist() == [2, 1, 1, -1]
    assert found.source_id.tolist() == [2, 3, 4, 6]
    assert found.ring_instance.tolist() == [0, 1, 2, 3]
    assert not found.ring_is_hole.any()
    assert found.probability is None


def test_a_box_is_the_same_with_and_without_its_vertices():
    with_vertices = nucls(NUCLS_HEADER + '0,,stroma,,rectangle,4,6,9,8,"4,9,9,4","6,6,8,8"\n')
    without = nucls(NUCLS_HEADER + "0,,stroma,,rectangle,4,6,9,8,,\n")
    assert with_vertices.points_xy.tolist() == without.points_xy.tolist()
    picture = Image.new("1", (12, 12))
    ImageDraw.Draw(picture).polygon([tuple(xy) for xy in without.points_xy.tolist()], fill=1)
    assert np.argwhere(np.asarray(picture)).min(axis=0).tolist() == [6, 4]
    assert np.asarray(picture).sum() == 6 * 3  # pixel centres on the border count here


@pytest.mark.parametrize(
    ("column", "ids"),
    [("raw_classification", [3, 4]), ("main_classification", [2, 1]), ("super_classification", [5, 6])],
)
def test_the_class_level_is_that_of_the_rules(column, ids):
    names = ("tumour", "stroma", "lymphocyte", "tumor", "sTIL", "tumor_any")
    table = ClassTable(names, {name.casefold(): index for index, name in enumerate(names, start=1)})
    text = "".join(NUCLS_FILE.splitlines(keepends=True)[:3])
    assert nucls(text, table, class_column=column).class_id.tolist() == ids


def test_predictions_may_have_a_probability():
    text = 'main_classification,type,coords_x,coords_y,score\nstroma,polyline,"1,5,1","1,1,5",0.25\n'
    assert nucls(text).probability.tolist() == [0.25]


def test_the_class_of_the_path_needs_no_class_column():
    assert nucls('type,coords_x,coords_y\npolyline,"1,5,1","1,1,5"\n', file_class=2).class_id.tolist() == [2]


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (',,stroma,,polyline,,,,,"1,2,3","1,2"', "[invalid-coordinate] 'a.csv', line 3: 3 numbers in coords_x and"),
        (",,stroma,,polyline,1,2,3,4,,", "[invalid-coordinate] 'a.csv', line 3: 0 numbers in coords_x and 0 in"),
        (',,stroma,,rectangle,1,2,3,4,"1,2",', "[invalid-coordinate] 'a.csv', line 3: 2 numbers in coords_x and 0 in"),
        (',,stroma,,polyline,,,,,"1,2,x","1,2,3"', "[invalid-coordinate] 'a.csv', line 3, vertex 3: coords_x is 'x';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,,3"', "[invalid-coordinate] 'a.csv', line 3, vertex 2: coords_y is '';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,2,2e9"', "[invalid-coordinate] 'a.csv', line 3, vertex 3: coords_y is '2e"),
        (",,stroma,,rectangle,1,2,,4,,", "[invalid-coordinate] 'a.csv', line 3: xmax is '';"),
        (',,stroma,,ellipse,,,,,"1,2,3","1,2,3"', "[unsupported-shape] 'a.csv', line 3: the type 'ellipse'; expected"),
        (',,strma,,polyline,,,,,"1,2,3","1,2,3"', "[unknown-class] 'a.csv', line 3: 'strma' is not a class"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_nucls_rows_is_told(row, line):
    good = ',,stroma,,polyline,,,,,"1,2,3","1,2,5"\n'
    (found,) = faults_of(nucls, f"{NUCLS_HEADER}{good}{row}\n{good}")
    assert found.startswith(line)


@pytest.mark.parametrize("column", ["main_classification", "type", "coords_x", "coords_y"])
def test_nucls_columns_must_be_there(column):
    text = NUCLS_FILE.replace(column, f"{column}_")
    assert faults_of(nucls, text)[0].startswith("[missing-column] 'a.csv': no such column among")


def test_boxes_need_their_columns_and_outlines_do_not():
    text = 'main_classification,type,coords_x,coords_y\nstroma,polyline,"1,5,1","1,1,5"\n'
    assert len(nucls(text)) == 1
    assert "expected a column 'xmin'" in faults_of(nucls, text + "stroma,rectangle,,\n")[0]


def test_vertices_are_bounded():
    assert len(nucls(NUCLS_FILE, limits={"vertices_per_file": 11})) == 4
    (line,) = faults_of(nucls, NUCLS_FILE, limits={"vertices_per_file": 10})
    assert line == (
        "[too-large] 'a.csv': more than 10 vertices; expected at most 10. Make the file smaller; organisers can raise "
        "limits.vertices_per_file in challenge.toml."
    )


# --- counts -----------------------------------------------------------------------------------------------------------

CONIC = ("neutrophil", "epithelial", "lymphocyte", "plasma", "eosinophil", "connective")
CONIC_CLASSES = ClassTable(CONIC, {name: index for index, name in enumerate(CONIC, start=1)})


def test_counts_without_case_names_are_in_the_order_of_the_index():
    text = ",".join(CONIC) + "\n1,2,3,4,5,6\n0,0,0,0,0,9\n"
    assert counts(text, CONIC_CLASSES) == {"b": (1, 2, 3, 4, 5, 6), "a": (0, 0, 0, 0, 0, 9)}


def test_counts_without_names_of_cases_need_their_index_since_an_order_by_name_could_be_another():
    cases = {"z": Case("z", "z", 5, 5, index=0), "y": Case("y", "y", 5, 5)}
    assert faults_of(counts, "Stroma,Tumour\n1,2\n3,4\n", cases=cases) == [
        "[missing-column] 'counts.csv': no column for the case, and cases of the challenge without an index; expected "
        "a column 'case'. Add it."
    ]


def test_counts_with_case_names_may_come_in_any_order_and_lack_a_case():
    assert counts("Str,Tumour,note,case,vague\n1,2.0,?,b,-7\n") == {"b": (2, 1)}


def test_counts_of_other_images_are_told_with_their_rows():
    found = shared_counts("case,Tumour,Stroma\nc,1,2\na,3,4\nc,?,2\n")
    assert (list(found.cases), found.unknown) == (["a"], {"c": 2})


@given(st.dictionaries(st.sampled_from("ab"), st.tuples(*[st.integers(0, 10**9)] * 2)))
def test_written_counts_are_read_as_they_were(written):
    assert counts(write_counts_csv(written, TWO.names)) == written


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Tumour,Stroma\n1,2\n", "[row-count] 'counts.csv': 1 rows; expected 2, one for each case, in their order."),
        ("Tumour,Stroma\n1,2\n3,4.5\n",
         "[invalid-count] 'counts.csv', line 3: 'Stroma' is '4.5'; expected a whole number"),
        ("Tumour,Stroma\n1,2\n3,\n", "[invalid-count] 'counts.csv', line 3: 'Stroma' is ''"),
        ("Tumour,Stroma\n1,2\n3,1000000001\n", "[invalid-count]"),
        ("Tumour,Strom\n1,2\n3,4\n", "[missing-column] 'counts.csv': no column 'Stroma' among 'Tumour' and 'Strom'"),
        ("Tumour,Stroma,STR\n1,2,3\n", "[invalid-csv] 'counts.csv': two columns of one class, 'Stroma' and 'STR'"),
        ("case,Tumour,Stroma\nb,0,0\na,1,2\nb,3,4\n",
         "[duplicate-row] 'counts.csv', line 4: 'b' again, after line 2; expected one row for each case."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_counts_is_told(text, line):
    assert faults_of(counts, text)[0].startswith(line)


# --- class tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("id,class\n7,Stroma\n900,0\n3,vague\n5,fov\n", "'t.csv'"),
        ("Class,ID\nSTR, 7.0\ntumour,900\nvague,003\nfov,5\nstroma,7\n", "case 'a', 't.CSV'"),
        ('{"7": "stroma", "900": 0, "3": "vague", "5": "fov"}', "case 'a', 't.json'"),
        ('[{"id": 7, "class": 7}, {"class": " Tumour", "id": "900"}, {"id": 3, "class": "vague"}]', "'t.JSON'"),
    ],
)
def test_the_same_table_in_all_its_forms(text, name):
    found = classes(text, name)
    assert found.pop(5, 0) == 0  # skipped: the label is no nucleus
    assert found == {7: 2, 900: 1, 3: -1}


def test_empty_tables_are_tables():
    assert classes(gzip.compress(b'{"7": "stroma"}'), "'a.json.gz'") == {7: 2}
    assert classes("id,class\n") == classes("{}", "'a.json'") == classes("[]", "'a.json'") == {}


def test_an_id_whose_class_is_empty_is_not_in_the_table_and_one_of_a_skipped_class_is():
    table = replace(TWO, skipped=frozenset({"debris"}))
    assert classes("id,class\n1,stroma\n2,\n3,debris\n", table=table) == {1: 2, 3: 0}
    assert classes('{"1": "stroma", "2": " ", "3": "debris"}', "'a.json'", table) == {1: 2, 3: 0}
    assert classes("id,class\n1,tumour\n2,\n", table=ClassTable(("tumour",), {"tumour": 1})) == {1: 1, 2: 1}


def test_labels_beyond_float_precision_stay_what_they_are():
    assert classes(f"id,class\n{2**53 + 1},stroma\n") == {2**53 + 1: 2}


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("id,class\n0,stroma\n", "'t.csv'", "[invalid-class-table] 't.csv', line 2: the id '0'; expected a whole"),
        ("id,class\n-1,stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n1.5,stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n" + "9" * 5000 + ",stroma\n", "'t.csv'", "[invalid-class-table]"),
        ("id,class\n7,stroma\n7,tumour\n", "'t.csv'", "[duplicate-row] 't.csv', line 3: the id '7' again, with"),
        ("id,class\n7,strom\n", "'t.csv'", "[unknown-class] 't.csv', line 2: 'strom' is not a class of this challenge"),
        ("id,klass\n7,stroma\n", "'t.csv'", "[missing-column]"),
        ("3", "'t.json'", "[invalid-class-table] 't.json': the JSON value '3'; expected an object"),
        ('{"7": ["stroma"]}', "'t.json'", "[invalid-class-table] 't.json', '7': no id and class as texts"),
        ('[{"id": 7, "class": "stroma"}, 5]', "'t.json'", "[invalid-class-table] 't.json', [1]: no id and class"),
        ('[{"id": true, "class": "stroma"}]', "'t.json'", "[invalid-class-table]"),
        ('[{"id": 1e40, "class": "stroma"}]', "'t.json'", "[invalid-class-table]"),
        ('{"7": "stroma"', "'t.json'", "[not-json]"),
        ("[" * 100 + "]" * 100, "'t.json'", "[too-deep]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_class_tables_is_told(text, name, line):
    (found,) = faults_of(classes, text, name)
    assert found.startswith(line)


def test_class_tables_are_bounded():
    assert faults_of(classes, '{"1": "str", "2": "str", "3": "str"}', "'t.json'", instances_per_case=2)[0].startswith(
        "[too-large]"
    )
    assert faults_of(classes, "id,class\n1,str\n2,str\n3,str\n", instances_per_case=2)[0].startswith("[too-large]")


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
