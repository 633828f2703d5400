"""CSV files, and tables of classes."""

from __future__ import annotations

import io

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.tables import read_counts_csv_collection
from evaluation.model import Case, ClassTable
from findings.bench import Bench
from findings.registry import example_of


def converted(bench: Bench, name: str, text: str) -> str:
    bench.write(name, text)
    return bench.convert(name, "--from", "points_csv", to="platform")


def class_table(bench: Bench, text: str) -> str:
    bench.make("label_image class table", submission={"class_table": "{case}_classes.csv"})
    bench.write("submission/case_017_classes.csv", text)
    return bench.validate()


def counts(text: str) -> str:
    """What is said about a table of counts, which no challenge asks for yet: the reader is asked itself."""
    rules = format_rules(format="rle_csv", files="counts.csv", pixel_order="row", first_pixel=0)
    classes = ClassTable(("plasma", "tumour"), {"plasma": 1, "tumour": 2})
    request = Request(where="'counts.csv'", name="counts.csv", rules=rules, classes=classes, limits=LimitRules())
    cases = {f"case_{number}": Case(f"case_{number}", "P1", 20, 30) for number in ("017", "018", "019")}
    try:
        read_counts_csv_collection(io.BytesIO(text.encode()), request, cases)
    except InputFault as fault:
        return "\n".join(render_findings(fault.findings))
    return ""


@example_of("invalid-csv")
def cell_that_is_missing(bench: Bench) -> str:
    return converted(bench, "nuclei.csv", "x,y,class\n1,2,plasma\n1,2\n")


@example_of("missing-column")
def misspelt_column(bench: Bench) -> str:
    return converted(bench, "points.csv", "x,yy\n1,2\n")


@example_of("other-case")
def row_of_another_case(bench: Bench) -> str:
    bench.make("points_csv")
    bench.write("submission/case_017.csv", "case,x,y,class\ncase_017,1,2,Epithelial\ncase_018,1,2,Epithelial\n")
    return bench.validate()


@example_of("duplicate-row")
def two_classes_of_an_id(bench: Bench) -> str:
    return class_table(bench, "id,class\n1,Epithelial\n2,Lymphocyte\n3,Epithelial\n2,Epithelial\n")


@example_of("invalid-class-table")
def name_as_an_id(bench: Bench) -> str:
    return class_table(bench, "id,class\nnucleus 7,Epithelial\n")


@example_of("row-count")
def row_too_few(bench: Bench) -> str:
    return counts("plasma,tumour\n1,2\n3,4\n")


@example_of("invalid-count")
def count_below_nought(bench: Bench) -> str:
    return counts("case,plasma,tumour\ncase_017,-1,2\n")
