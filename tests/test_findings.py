"""The catalogue: every code has a page, and a real input that gives exactly the line that the page shows."""

from __future__ import annotations

import ast
import pickle
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pytest
from findings import FIXTURES, Bench, line_with
from findings.annotations import aperio, region
from findings.submission import n_ary_masks

from evaluation.findings import Finding
from evaluation.findings.annotations import UnknownClass
from evaluation.findings.catalogue import CATALOGUE
from evaluation.findings.kind import Kind, NotAmong
from evaluation.findings.pages import DOCUMENT, document

ROOT = Path(__file__).resolve().parents[1]
MANY = 50_000


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, capsys, monkeypatch)


# --- a fixture for every code -----------------------------------------------------------------------------------------


def test_every_code_has_a_fixture() -> None:
    assert set(FIXTURES) == set(CATALOGUE)


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_the_example_of_a_page_is_the_line_that_its_fixture_gives(code: str, bench: Bench) -> None:
    assert line_with(code, FIXTURES[code](bench)) == CATALOGUE[code].example


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_examples_have_the_form_of_all_lines(code: str) -> None:
    """``[code] where: what we got; what we expected. What to do.``"""
    assert re.fullmatch(rf"\[{code}\] \S.*: \S.*; expected \S.*[.?]", CATALOGUE[code].example)


# --- classes and their templates --------------------------------------------------------------------------------------


def all_kinds(kind: type[Kind] = Kind) -> list[type[Kind]]:
    found = [each for below in kind.__subclasses__() for each in (below, *all_kinds(below))]
    return [each for each in found if hasattr(each, "code")]


def test_every_class_is_of_a_code_that_is_listed() -> None:
    assert {kind.code for kind in all_kinds()} == set(CATALOGUE)


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_templates_are_filled_from_the_attributes_of_their_class(kind: type[Kind]) -> None:
    known = {name for each in kind.__mro__ for name in (*vars(each), *vars(each).get("__annotations__", {}))}
    for template in (getattr(kind, key, "") for key in ("got", "expected", "fix")):
        fields = {re.split(r"[.\[]", field)[0] for _, field, _, _ in Formatter().parse(template) if field is not None}
        assert fields <= known


def test_findings_are_made_by_classes_only() -> None:
    files = [path for path in (ROOT / "evaluation").rglob("*.py") if path.parent.name != "findings"]
    assert len(files) > 200
    assert [path.name for path in files if re.search(r"(?<!\w)Finding\(", path.read_text())] == []


def test_a_class_without_all_templates_is_not_used() -> None:
    trees = (ast.parse(path.read_text()) for path in (ROOT / "evaluation").rglob("*.py"))
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = {
        name
        for call in calls
        if ast.unparse(call.func).endswith(").at")
        for name in re.findall(r"\w+", ast.unparse(call))
    }
    incomplete = {kind.__name__ for kind in all_kinds() if not (hasattr(kind, "got") and hasattr(kind, "expected"))}
    assert "NoChallenge" in made
    assert sorted(incomplete & made) == []


def test_a_class_makes_the_finding_that_its_templates_say() -> None:
    kind = UnknownClass(name="Lymphocytes", known=["epithelial", "lymphocyte"])
    words = "'Lymphocytes' is not a class of this challenge", "'epithelial' or 'lymphocyte'"
    finding = Finding("unknown-class", "'a', region 1", *words, "Did you mean 'lymphocyte'?")
    assert kind.at("'a', region 1") == finding
    assert pickle.loads(pickle.dumps(kind.at("'a', region 1"))) == finding
    assert kind.at(*(f"'a', region {n}" for n in range(5))) == replace(
        finding, where="'a', region 0, region 1, region 2", count=5, named=3
    )
    assert kind.at("a", count=7).count == 7


# --- its pages --------------------------------------------------------------------------------------------------------


def test_each_code_has_one_section_of_the_document() -> None:
    assert sorted(re.findall(r"^### `(\S+)`$", document(), re.MULTILINE)) == sorted(CATALOGUE)


def test_explain_tells_what_why_and_how_and_where_the_page_is(bench: Bench) -> None:
    page = CATALOGUE["unknown-class"]
    for argument in ("unknown-class", "[unknown-class]", "UNKNOWN-CLASS"):
        printed = bench.run("explain", argument)
        for text in (page.title, page.why, page.fix, page.example, f"{DOCUMENT}#unknown-class", "An error"):
            assert text in printed
    assert "A warning" in bench.run("explain", "unused-file")


def test_explain_without_a_code_lists_all(bench: Bench) -> None:
    codes = bench.run("explain").partition("Metrics: ")[0]
    assert re.findall(r"^  (\S+)  +\S", codes, re.MULTILINE) == list(CATALOGUE)


# --- 50,000 equal mistakes --------------------------------------------------------------------------------------------


def unknown_classes_in_geojson(bench: Bench) -> None:
    bench.make("geojson outlines")
    ring = [[1, 1], [4, 1], [4, 4], [1, 1]]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": "Lymphocytes"}}}
    bench.write("submission/case_017.geojson", {"type": "FeatureCollection", "features": [feature] * MANY})


def points(bench: Bench, row: str) -> None:
    bench.make("points_csv")
    bench.write("submission/case_017.csv", "\n".join(["x,y,class", *[row] * MANY, ""]))


def bad_rows_in_a_csv_file(bench: Bench) -> None:
    points(bench, "1,n/a,Epithelial")


def unknown_classes_in_a_csv_file(bench: Bench) -> None:
    points(bench, "1,2,Lymphocytes")


def bad_vertices_in_xml(bench: Bench) -> None:
    bench.make("aperio_xml")
    bench.write("submission/P1/case_017.xml", aperio(region(1, *[("NaN", 2)] * MANY), class_name="Epithelial"))


def unknown_layer_in_xml(bench: Bench) -> None:
    bench.make("aperio_xml")
    regions = (region(number) for number in range(1, MANY + 1))
    bench.write("submission/P1/case_017.xml", aperio(*regions, class_name="Lymphocytes"))


def codes_that_are_cut_off(bench: Bench) -> None:
    bench.make("rle_csv")
    rows = ["case_017,1 2 3,Epithelial"] * MANY
    bench.write("submission/codes.csv", "\n".join(["image_id,rle,class", *rows, ""]))


def files_of_an_unknown_case(bench: Bench) -> None:
    n_ary_masks(bench)
    with zipfile.ZipFile("submission.zip", "w") as archive:
        for index in range(MANY):
            archive.writestr(f"P1/P1_9/Epithelial/{index}.mat", b"")


@pytest.mark.parametrize(
    ("code", "fault", "places"),
    [
        ("unknown-class", unknown_classes_in_geojson, "feature 1, feature 2, feature 3 and 49,997 more: 'Lymphocytes'"),
        ("invalid-coordinate", bad_rows_in_a_csv_file, "line 2, line 3, line 4 and 49,997 more: y is 'n/a'"),
        ("unknown-class", unknown_classes_in_a_csv_file, "line 2, line 3, line 4 and 49,997 more: 'Lymphocytes'"),
        ("invalid-coordinate", bad_vertices_in_xml, "vertex 1, vertex 2, vertex 3 and 49,997 more: X is 'NaN'"),
        ("unknown-class", unknown_layer_in_xml, "region '1/1', region '1/2', region '1/3' and 49,997 more"),
        ("invalid-rle", codes_that_are_cut_off, "line 2, line 3, line 4 and 49,997 more"),
        ("unknown-case", files_of_an_unknown_case, "/1.mat', 'P1/P1_9/Epithelial/10.mat' and 49,997 more: 'P1_9'"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_many_equal_mistakes_give_one_line_with_a_count_and_three_examples(
    code: str, fault: Callable[[Bench], str], places: str, bench: Bench
) -> None:
    fault(bench)
    printed = bench.validate("submission.zip" if Path("submission.zip").exists() else "submission")
    line = line_with(code, printed)
    assert sum(other.startswith(f"[{code}]") for other in printed.splitlines()) <= 1
    assert places in line
    assert len(line) < 1000


@pytest.mark.parametrize(
    ("values", "named"),
    [(("a",), {}), (("a", "b", "c"), {}), (("a", "b"), {"name": "c"}), (("a", "b"), {"nmae": "c"})],
    ids=["lacking", "too many", "twice", "unknown"],
)
def test_kinds_take_their_data_and_nothing_else(values: tuple[str, ...], named: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="NotAmong is made of name, known"):
        NotAmong(*values, **named)  # type: ignore[arg-type]
    assert NotAmong("a", known="b").known == "b"
