"""The catalogue: every code has a page, and a real input that gives exactly the line that the page shows."""

from __future__ import annotations

import ast
import pickle
import re
import tomllib
import zipfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from findings import FIXTURES, Bench, line_with
from findings.of_challenges import n_ary_masks
from findings.of_files import aperio, region

from evaluation.findings import CODES_DOCUMENT, FILE, Finding, catalogue, codes_document, entry, fault, render, texts

ROOT = Path(__file__).resolve().parents[1]
MANY = 50_000


# --- a fixture for every code -----------------------------------------------------------------------------------------


def test_every_code_has_a_fixture() -> None:
    assert set(FIXTURES) == set(catalogue())


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_the_example_of_a_page_is_the_line_that_its_fixture_gives(code: str, bench: Bench) -> None:
    assert line_with(code, FIXTURES[code](bench)) == catalogue()[code].example


def test_examples_have_the_form_of_all_lines() -> None:
    """``[code] where: what we got; what we expected. What to do.``"""
    for code in sorted(catalogue()):
        assert re.fullmatch(rf"\[{code}\] \S.*: \S.*; expected \S.*[.?]", catalogue()[code].example), code


# --- what calls say, and what wordings need ---------------------------------------------------------------------------

PAGE = {"part", "title", "why", "what_to_do", "example"}
SAYS = ("got", "expected", "fix")  # of a wording, or of a call
SOURCES = sorted(path for path in (ROOT / "evaluation").rglob("*.py") if path.parent.name != "findings")
HANDED_ON = {"FileFaults.fault", "Sheet.fault", "FeatureReader.add"}


def fields_in(template: str) -> set[str]:
    """The data that a template is filled with, also those behind a colon."""
    parts = [(field, spec) for _, field, spec, _ in Formatter().parse(template) if field is not None]
    return {re.split(r"[.\[]", field)[0] for field, _ in parts}.union(*(fields_in(spec or "") for _, spec in parts))


def wordings(code: str) -> dict[str, dict[str, str]]:
    """What each wording says, "" for the usual one."""
    usual = {key: text for key, text in entry(code).items() if key in SAYS}
    named = {key: usual | words for key, words in entry(code).items() if isinstance(words, dict)}
    return {"": usual, **named}


def complaint(code: str, chosen: Collection[str], given: Collection[str]) -> str:
    """What is wrong with a call: a wording that there is not, words that nobody says, data that lack or go nowhere."""
    known, needed = wordings(code), set()
    for name in chosen:
        if name not in known:
            return f"no wording {name!r}"
        said = {key: text for key, text in known[name].items() if key not in given}
        if silent := {"got", "expected"} - set(said) - set(given):
            return f"nobody says {sorted(silent)} of {name!r}"
        needed |= set().union(*map(fields_in, said.values()))
    own = set(given) - set(SAYS)
    return "" if needed == own else f"lacks {sorted(needed - own)}, has no use for {sorted(own - needed)}"


@dataclass(frozen=True)
class Call:
    """Where a finding is made: ``fault(…)``, ``refused(…)``, ``partial(fault, …)``, or a method of that name."""

    place: str
    function: str
    codes: frozenset[str]
    wordings: frozenset[str] | None  # None if they come from elsewhere
    given: frozenset[str]
    hands_on: bool


def calls_in(path: Path) -> Iterator[Call]:
    def visit(node: ast.AST, around: tuple[ast.AST, ...]) -> Iterator[Call]:
        if isinstance(node, ast.Call) and (arguments := of_fault(node)) is not None:
            yield made(node, arguments, around)
        inside = (*around, node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else around
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inside)

    def of_fault(call: ast.Call) -> list[ast.expr] | None:
        name = ast.unparse(call.func).rpartition(".")[2]
        if name == "Malformed":
            return [ast.Constant("invalid-annotation")]
        is_partial = name == "partial" and bool(call.args) and ast.unparse(call.args[0]) == "fault"
        return call.args[is_partial:] if name in ("fault", "refused") or is_partial else None

    def made(call: ast.Call, arguments: list[ast.expr], around: tuple[ast.AST, ...]) -> Call:
        functions = [scope for scope in around if isinstance(scope, ast.FunctionDef)]
        nearby = {node.value for scope in functions[-1:] for node in ast.walk(scope) if isinstance(node, ast.Constant)}

        def texts_of(node: ast.expr) -> set[str]:
            """The texts that an expression may be; of a name, those of its function."""
            if isinstance(node, ast.Constant):
                return {node.value}
            if isinstance(node, ast.IfExp):
                return texts_of(node.body) | texts_of(node.orelse)
            return {text for text in nearby if isinstance(text, str)}

        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        code = arguments[0] if arguments else ast.Constant("")
        codes = texts_of(code) if isinstance(code, ast.Constant | ast.IfExp) else texts_of(code) & set(texts())
        wording = keywords.get("wording", ast.Constant(""))
        known = set().union(*(wordings(each) for each in codes if each in texts()))
        chosen = texts_of(wording) if isinstance(wording, ast.Constant | ast.IfExp) else texts_of(wording) & known
        return Call(
            f"{path.name}:{call.lineno}",
            ".".join(scope.name for scope in around[-2:]),
            frozenset(codes),
            frozenset(chosen) or None,
            frozenset(name for name in keywords if name not in (None, "wording", "total")),
            None in keywords,
        )

    yield from visit(ast.parse(path.read_text()), ())


@cache
def calls() -> list[Call]:
    return [call for path in SOURCES for call in calls_in(path)]


def test_every_call_has_the_data_that_its_wording_is_filled_with() -> None:
    assert len(calls()) > 200
    wrong = []
    for call in calls():
        for code in () if call.hands_on else sorted(call.codes & set(texts())) or ("",):
            whole = {name for name, words in wordings(code).items() if {"got", "expected"} <= set(words) | call.given}
            said = complaint(code, call.wordings or whole, call.given) if code else "its code is not known"
            wrong += [f"{call.place}: {said}"] if said else []
    assert wrong == []


def test_data_are_named_at_every_call_but_in_methods_that_hand_them_on() -> None:
    assert {call.function for call in calls() if call.hands_on} == HANDED_ON


def test_every_wording_is_used() -> None:
    used = {(code, name) for call in calls() for code in call.codes for name in call.wordings or wordings(code)}
    known = {(code, name) for code in texts() for name in wordings(code) if name}
    assert sorted(known - used) == []
    assert sorted(set(texts()) - {code for code, _ in used}) == []


@pytest.mark.parametrize(
    ("code", "chosen", "given", "said"),
    [
        ("unknown-class", {""}, {"name", "known"}, ""),
        ("unknown-class", {""}, {"name"}, "lacks ['known'], has no use for []"),
        ("unknown-class", {""}, {"name", "known", "nmae"}, "lacks [], has no use for ['nmae']"),
        ("unknown-class", {"of-number"}, {"name", "known"}, "no wording 'of-number'"),
        ("not-coco", {""}, set(), "nobody says ['got'] of ''"),
        ("not-coco", {""}, {"got", "fix"}, ""),
    ],
)
def test_what_is_wrong_with_a_call_is_told(code: str, chosen: set[str], given: set[str], said: str) -> None:
    assert complaint(code, chosen, given) == said


def test_codes_that_findings_are_compared_with_exist() -> None:
    compared = {
        text.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "code"
        for text in node.comparators
        if isinstance(text, ast.Constant)
    }
    assert compared and compared <= {*texts(), None}


def test_findings_are_made_by_fault_only() -> None:
    assert len(SOURCES) > 100
    assert [path.name for path in SOURCES if re.search(r"(?<!\w)Finding\(", path.read_text())] == []


def test_the_tables_of_each_code_are_those_of_the_whole_file() -> None:
    """One is read as soon as a finding is made, without the others."""
    assert {code: entry(code) for code in texts()} == tomllib.loads(FILE.read_text())


def test_a_code_has_its_page_and_wordings_say_what_they_can() -> None:
    for code in sorted(catalogue()):
        own = {key for key, value in entry(code).items() if isinstance(value, str)}
        assert PAGE <= own <= PAGE | {"severity", *SAYS}, code
        assert entry(code).get("severity", "warning") == "warning", code
        assert all(set(words) <= set(SAYS) for words in entry(code).values() if isinstance(words, dict)), code


def test_a_wording_is_filled_with_data() -> None:
    data = {"name": "Lymphocytes", "known": ["epithelial", "lymphocyte"]}
    words = "'Lymphocytes' is not a class of this challenge", "'epithelial' or 'lymphocyte'"
    finding = Finding("unknown-class", "'a', region 1", *words, "Did you mean 'lymphocyte'?")
    assert fault("unknown-class", "'a', region 1", **data) == finding
    assert pickle.loads(pickle.dumps(finding)) == finding
    assert fault("unknown-class", *(f"'a', region {n}" for n in range(5)), **data) == replace(
        finding, where="'a', region 0, region 1, region 2", count=5, named=3
    )
    assert fault("unknown-class", "a", total=7, **data).count == 7
    assert fault("unknown-class", "'a', region 1", fix="Look.", **data) == replace(finding, fix="Look.")


@pytest.mark.parametrize(
    ("template", "data", "text"),
    [
        ("{name:quoted 6}", {"name": "Lymphocytes"}, "'Lymp…es'"),
        ("{known:listed}", {"known": ["a", "b", "c"]}, "'a', 'b' or 'c'"),
        ("{known:listed 1}", {"known": ["a", "b"]}, "'a' or one of 1 more"),
        ("{known:joined}", {"known": ["a", "b"]}, "'a' and 'b'"),
        ("{known:named}", {"known": ["a", "b", "c", "d"]}, "'a', 'b', 'c' and 1 more"),
        ("{known:first}", {"known": ["a", "b"]}, "'a'"),
        ("{known:first}", {"known": []}, "''"),
        ("{known:closest {name}}", {"known": ["lymphocyte"], "name": "lymphocytes"}, "Did you mean 'lymphocyte'?"),
        ("{known:closest {name}}", {"known": ["lymphocyte"], "name": "{known}"}, ""),
        ("{count:,} {count:nucleus has/nuclei have}", {"count": 1}, "1 nucleus has"),
        ("{count:,} {count:nucleus has/nuclei have}", {"count": 1000}, "1,000 nuclei have"),
        ("{known:,} {known:case/cases}", {"known": ["a"]}, "1 case"),
        ("{known}", {"known": ["a"]}, "['a']"),
        ("{known:if among {known:joined}|none}", {"known": ["a|b", "c"]}, "among 'a|b' and 'c'"),
        ("{known:if among {known:joined}|none}", {"known": []}, "none"),
    ],
)
def test_words_behind_the_colon(template: str, data: dict[str, Any], text: str) -> None:
    assert render(template, data) == text


@pytest.mark.parametrize("number", [0, 1])
def test_numbers_and_words_of_every_wording_agree(number: int) -> None:
    """Every wording, with that number wherever one is written or counted."""
    faults = []
    for code in catalogue():
        for name, words in wordings(code).items():
            for template in words.values():
                text = render(template, numbers_in(template, number))
                one_as_many = (
                    r"\b1 (?!class\b|nucleus\b|is\b)[a-z]+s\b|\b1 (nuclei|vertices|are|have)\b|\b(all|the) 1\b"
                )
                many_as_one = r"\b0 (nucleus|case|class|file|image|row|annotation)\b"
                if re.search(one_as_many if number else many_as_one, text):
                    faults.append((code, name, text))
    assert faults == []


def numbers_in(template: str, number: int) -> dict[str, Any]:
    """Data for a template: a number wherever one is counted or written with commas, so many names, else a word."""
    data: dict[str, Any] = {}
    for _, field, spec, _ in Formatter().parse(template):
        if field is not None:
            name = re.split(r"[.\[]", field)[0]
            is_number = spec == "," or "/" in spec.partition(" ")[0] or spec.endswith(("d", "f", "g", "x"))
            are_names = spec.partition(" ")[0] in ("listed", "joined", "named", "first", "closest")
            value = ["word"] * number if are_names else number if is_number else "word"
            value = [number, number] if "[" in field else value
            data = {name: value, **numbers_in(spec, number), **data} | ({name: value} if are_names else {})
    return data


def test_what_is_not_there_is_an_error_of_the_program() -> None:
    for code, wording, data in (
        ("no-such", "", {}),
        ("unknown-class", "no-such", {}),
        ("unknown-class", "", {"name": "a"}),
    ):
        with pytest.raises(LookupError):
            fault(code, "a", wording=wording, **data)


# --- its pages --------------------------------------------------------------------------------------------------------


def test_each_code_has_one_section_of_the_document() -> None:
    assert sorted(re.findall(r"^### `(\S+)`$", codes_document(), re.MULTILINE)) == sorted(catalogue())


def test_explain_tells_what_why_and_how_and_where_the_page_is(bench: Bench) -> None:
    page = catalogue()["unknown-class"]
    for argument in ("unknown-class", "[unknown-class]", "UNKNOWN-CLASS"):
        printed = bench.run("explain", argument)
        for text in (
            page.title,
            page.why,
            page.what_to_do,
            page.example,
            f"{CODES_DOCUMENT}#unknown-class",
            "An error",
        ):
            assert text in printed
    assert "A warning" in bench.run("explain", "unused-file")


def test_explain_without_a_code_lists_all(bench: Bench) -> None:
    codes = bench.run("explain").partition("Metrics: ")[0]
    assert re.findall(r"^  (\S+)  +\S", codes, re.MULTILINE) == list(catalogue())


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
        for index in range(MANY // 10):
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
        ("unknown-case", files_of_an_unknown_case, "/1.mat', 'P1/P1_9/Epithelial/10.mat' and 4,997 more: 'P1_9'"),
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
