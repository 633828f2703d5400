"""The catalogue: every code has a page, whose line is one that the program writes, and is met in a test."""

from __future__ import annotations

import ast
import json
import pickle
import re
import shutil
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pytest
from boards import ranking_by
from every_format import write_files
from findings import Bench
from formats.annotation_xml import aperio, layer, region
from test_written_documents import codes_document

from evaluation.files.decoding.plain_values import from_plain, to_plain
from evaluation.findings import (
    CODES_DOCUMENT,
    FILE,
    Finding,
    catalogue,
    entry,
    fault,
    render,
    render_briefly,
    texts,
    wording_of,
)
from evaluation.findings.errors import redact_findings
from nuclei_metrics.model import Case

ROOT = Path(__file__).resolve().parents[1]


# --- examples ---------------------------------------------------------------------------------------------------------


def pattern_of(template: str) -> str:
    """What a wording may become, whatever it is filled with, as a regular expression."""
    pattern, field_or_text = "", r"(?:[^{}|]|\{[^{}]*\})*"
    of_folders = rf"\{{(?:folders|of_reference):if {field_or_text}\|({field_or_text})\}}"
    template = re.sub(of_folders, r"\1", template).strip()
    for text, field, spec, _ in Formatter().parse(re.sub(r"\s+", " ", template)):
        pattern += re.escape(text)
        word, _, rest = (spec or "").partition(" ")
        if word == "if":
            pattern += f"({'|'.join(map(pattern_of, rest.rpartition('|')[::2]))})"
        elif word == "closest":
            pattern += r"(Did you mean '.+'\?)?"
        elif "/" in word:
            pattern += f"({'|'.join(map(re.escape, spec.split('/')))})"
        elif field is not None:
            pattern += ".+"
    return pattern


def test_every_code_is_met_in_a_test() -> None:
    tests = Path(__file__).parent
    paths = [path for path in tests.rglob("*.py") if "hostile" not in path.relative_to(tests).parts]
    text = "\n".join(map(Path.read_text, paths))
    words = Counter(re.findall(r"[a-z]+(?:-[a-z]+)*", text))
    assert [code for code in catalogue() if not words[code]] == []


CASES = "case,group,height,width\nP1_1,P1,20,30\nP1_2,P1,20,30\n"
RANKING = ranking_by("detection.f1.group_mean")
MASK = np.zeros((20, 30), np.uint8)
for number, (top, left) in enumerate([(1, 2), (1, 20), (8, 3), (12, 22), (14, 10)], start=1):
    MASK[top : top + 4, left : left + 3] = number
RING = {"type": "Polygon", "coordinates": [[[1, 1], [29, 1], [29, 19], [1, 1]]]}
OUTLINES = {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": RING, "properties": {}}]}
BOTH, COMPARE = {"reference/a.png": MASK, "masks/a.png": MASK}, "compare reference masks"


def of_preset(bench: Bench, rules: str = "", cases: str | bytes = CASES) -> str:
    """What is said about a challenge with some rules of its own."""
    bench.write("challenge/cases.csv", cases)
    bench.write("challenge/challenge.toml", f'format_version = 1\nname = "demo"\npreset = "monusac2020"\n{rules}')
    return bench.validate()


def jobs(bench: Bench, *jobs: dict[str, Any]) -> str:
    """What is said about the list that the platform hands over in the algorithm phase, without a file at its place."""
    bench.make("polygons_json", submission={"socket": "nuclei"})
    shutil.rmtree("submission")
    bench.write("submission/predictions.json", jobs)
    return bench.validate()


def job(pk: str = "job-1", super_kind: str = "File", case: str = "case_017") -> dict[str, Any]:
    output = {"slug": "nuclei", "kind": "Multiple polygons", "super_kind": super_kind, "relative_path": "nuclei.json"}
    inputs = [{"image": {"name": case}, "socket": {"slug": "slide"}}]
    return {"pk": pk, "status": "Succeeded", "inputs": inputs, "outputs": [{"socket": output}]}


def micrometres_for_px(bench: Bench) -> str:
    bench.make("points_csv", cases=(Case("case_017", "P1", 1024, 1024, 0.25, 0),))
    rows = [f"{12.5 * (place % 20) + 7},{12 * (place // 20) + 9},Epithelial" for place in range(400)]
    bench.write("submission/case_017.csv", "\n".join(["x,y,class", *rows, "255.5,9,Epithelial", ""]))
    return bench.validate()


def drawn_twice(bench: Bench) -> str:
    bench.make("polygons_json", cases=(Case("case_017", "P1", 64, 64, 0.25, 0),))
    (file,) = Path("challenge").rglob("*.json")
    document = json.loads(file.read_text())
    shapes = document["polygons"]
    bench.write(str(file), {**document, "polygons": [*shapes[:2], shapes[0]]})
    return bench.run("rasterise", "--challenge", "challenge", "--output", "rasterised")


def label_image(bench: Bench, suffix: str, content: Any) -> str:
    """What is said about a label image of the only case and class, an image of 40 x 60 px."""
    case, classes = Case("case_017", "P1", 40, 60, 0.25, 0), [{"name": "nucleus"}]
    bench.make("label_image by class", cases=(case,), classes=classes, submission={"files": f"{{case}}{suffix}"})
    bench.write(f"submission/case_017{suffix}", content)
    return bench.validate()


def void_of_255(bench: Bench) -> str:
    labels = np.zeros((40, 60), np.uint8)
    labels.reshape(-1)[:1284] = 255
    labels[30, :12] = np.arange(1, 13)
    return label_image(bench, ".png", labels)


def ambiguous_nucleus(bench: Bench) -> str:
    rules = {
        "reference": {"ignore": {"classes": ["Ambiguous"], "policy": "clip"}},
        "submission": {"files": "{case}.xml"},
    }
    bench.make("aperio_xml", cases=(Case("P1_1", "P1", 20, 30, 0.25, 0), Case("P1_2", "P1", 20, 30, 0.25, 1)), **rules)
    bench.write("submission/P1_1.xml", aperio(layer(region(), cls="Ambiguous"), layer(region(), id="2")))
    return bench.validate()


def means_only(bench: Bench) -> str:
    bench.make("label_image by class", ranking=RANKING | {"method": "rank_then_aggregate"})
    bench.score("--workers", 1)
    bench.write("results/alpha.json", json.loads(Path("out/metrics.json").read_text()))
    return bench.run("rank", "--challenge", "challenge", "--results", "results", "--output", "board")


def of_two_versions(bench: Bench) -> str:
    bench.make("label_image by class", ranking=RANKING)
    bench.score("--workers", 1)
    metrics = json.loads(Path("out/metrics.json").read_text())
    for team, version in (("alpha", "0.1.0"), ("beta", "0.0.9")):
        bench.write(f"results/{team}.json", {**metrics, "software": metrics["software"] | {"version": version}})
    return bench.run("rank", "--challenge", "challenge", "--results", "results", "--output", "board")


def slip_in_the_name_of_an_entry(bench: Bench) -> str:
    bench.make("label_image by class", ranking=RANKING | {"unranked": ["alhpa"]})
    shutil.copytree("submission", "submissions/alpha")
    options = ("--submissions", "submissions", "--output", "board", "--workers", 1)
    return bench.run("leaderboard", "--challenge", "challenge", *options)


REAL: dict[str, tuple[dict[str, Any], str] | Callable[[Bench], str]] = {  # files and a command, or what makes them
    "invalid-toml": lambda bench: of_preset(bench, "[reference]\noverlap = last\n"),  # unquoted text
    "invalid-text": lambda bench: of_preset(bench, cases=CASES.replace("P1_2", "Größe").encode("latin-1")),
    "file-exists": ({"my_challenge/challenge.toml": "by hand"}, "init --preset monusac2020 my_challenge"),
    "no-outlines": lambda bench: bench.make("points_json") or bench.run("sensitivity", "--challenge", "challenge"),
    "duplicate-case": lambda bench: jobs(bench, job(), job("job-2")),
    "unsupported-output": lambda bench: jobs(bench, job(super_kind="Value"), job("job-2", case="case_018")),
    "suspicious-content": micrometres_for_px,
    "annotated-twice": drawn_twice,
    "not-annotated": void_of_255,
    "unsupported-format": lambda bench: label_image(bench, ".bmp", b"BM"),
    "overlap-in-label-map": (
        {"P1_1.xml": aperio(layer(region((1, 2), (4, 2), (1, 5)), region((4, 2), (9, 2), (9, 7))))},
        "convert P1_1.xml converted --classes epithelial --from aperio_xml --size 20x30 --to label_tiff",
    ),
    "not-scored": ambiguous_nucleus,
    "missing-units": means_only,
    "several-versions": of_two_versions,
    "unknown-entry": slip_in_the_name_of_an_entry,
    "nothing-to-compare": (
        {"reference/a.png": MASK, "photos/a.png": np.zeros((20, 30, 3), np.uint8)}, "compare reference photos",
    ),
    "nothing-to-ignore": (BOTH, f"{COMPARE} --ignore 250"),
    "sizes-differ": ({**BOTH, "masks/a.png": np.ascontiguousarray(MASK.T)}, COMPARE),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(set(catalogue()) - set(REAL)))
def test_the_example_of_a_page_is_a_line_that_a_wording_gives(code: str) -> None:
    """``[code] where: what we got; what we expected. What to do.``"""
    lines = []
    for words in wordings(code).values():
        got, expected, fix = (pattern_of(words.get(key, "{any}")) for key in SAYS)
        fix = f" {fix}" if "fix" in words and not re.fullmatch(fix, "") else f"( {fix})?"
        lines.append(rf"\[{code}\] \S.*: {got}( \(also .+\))?; expected {expected}\.{fix}")
    assert any(re.fullmatch(line, catalogue()[code].example) for line in lines), lines


@pytest.mark.parametrize("code", REAL)
def test_a_real_input_gives_the_line_of_the_page(code: str, bench: Bench) -> None:
    made = REAL[code]
    if isinstance(made, tuple):
        write_files(Path(), made[0])
    printed = made(bench) if callable(made) else bench.run(*made[1].split())
    assert catalogue()[code].example in printed


# --- what calls say, and what wordings need ---------------------------------------------------------------------------

PAGE = {"part", "title", "why", "what_to_do", "example"}


def test_a_submission_without_warnings_is_valid_in_all_its_cases(bench: Bench) -> None:
    bench.make("label_image by class")
    last = bench.run("validate", "--challenge", "challenge", "--submission", "submission").splitlines()[-1]
    assert re.fullmatch(r"Valid: (1 case|all \d+ cases) of '.*' can be scored\.", last), last


def test_a_phrase_for_each_code_counts_what_its_findings_count():
    missing = [fault("missing-case-worst", f"case '{name}'", got="no file", right="'x'") for name in "ab"]
    masks = [fault("binary-mask", f"'{name}'", regions=n, label=1) for n, name in ((37, "a"), (2, "b"), (3, "c"))]
    assert render_briefly([*masks, *missing], cases=7) == [
        "37 separate regions that all have the label 1 (and 2 more)",
        "2 of 7 cases have no file and count as nothing found",
    ]
    assert render_briefly(missing[:1], cases=7) == ["1 of 7 cases has no file and counts as nothing found"]


SAYS = ("got", "expected", "fix")  # of a wording, or of a call
SOURCES = sorted(path for path in (ROOT / "evaluation").rglob("*.py") if path.parent.name != "findings")
HANDED_ON = {"FileFaults.fault", "Sheet.fault", "ListSheet.fault", "FeatureReader.add"}


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
        needed |= set().union(*map(fields_in, said.values())) - {"folders", "of_reference"}
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

    yield from visit(tree_of(path), ())


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


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


@pytest.mark.parametrize(("code", "chosen", "given", "said"), [
    ("unknown-class", {""}, {"name", "known"}, ""),
    ("unknown-class", {""}, {"name"}, "lacks ['known'], has no use for []"),
    ("unknown-class", {""}, {"name", "known", "nmae"}, "lacks [], has no use for ['nmae']"),
    ("unknown-class", {"of-number"}, {"name", "known"}, "no wording 'of-number'"),
    ("not-coco", {""}, set(), "nobody says ['got'] of ''"), ("not-coco", {""}, {"got", "fix"}, ""),
])  # fmt: skip
def test_what_is_wrong_with_a_call_is_told(code: str, chosen: set[str], given: set[str], said: str) -> None:
    assert complaint(code, chosen, given) == said


def test_codes_that_findings_are_compared_with_exist() -> None:
    compared = {
        text.value
        for path in SOURCES
        for node in ast.walk(tree_of(path))
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
        assert PAGE <= own <= PAGE | {"severity", "brief", *SAYS}, code
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


INSIDE = re.compile(r"cases\.csv|challenge\.toml|limits\.|[Oo]rganisers")


def test_no_wording_speaks_of_a_challenge_to_somebody_who_compares_folders() -> None:
    showing = []
    for code in texts():
        for name in wordings(code):
            audience = {"folders": True, "of_reference": True}
            said = [render(text, {**numbers_in(text, 2), **audience}) for text in wording_of(code, name)]
            is_whole = all(text.count("(") == text.count(")") and "  " not in text for text in said)
            is_whole &= not any(re.search("[a-z0][.?][A-Z]", text) for text in said)
            showing += [(code, name, said)] if any(map(INSIDE.search, said)) or not is_whole else []
    assert showing == []


def test_a_finding_is_told_again_to_somebody_who_compares_folders() -> None:
    large = fault("too-large", "'a.xml'", wording="too-many", limit=9, what="vertices", key="vertices_per_file")
    told = large.advised("Or simplify the outlines.").for_folders()
    assert told.fix == "Make the file smaller; a challenge may have a higher limit. Or simplify the outlines."
    assert (told.where, told.got, told.expected) == (large.where, large.got, large.expected)
    own = fault("too-large", "'a.xml'", got="1", expected="limits.json_depth", fix="See cases.csv.")
    assert own.for_folders() == own  # words of the caller
    misfit = replace(large, data={"limit": "much"})  # as a decoder that was taken over might say
    assert misfit.for_folders() == large


def test_the_data_of_a_finding_are_plain_and_short() -> None:
    data = {"limit": np.int32(9), "what": "v" * 10**6, "key": [2**99, {"a": 1}, None, np.float64(0.5)]}
    made = fault("too-large", "'a.xml'", wording="too-many", **data)
    assert made.data == {"limit": 9, "what": "v" * 1000, "key": (str(2**99), ("a",), None, 0.5)}
    assert type(made.data["key"][-1]) is float
    assert from_plain(to_plain(made, []), []) == made
    (hidden,) = redact_findings([made], ["vvv"])
    assert (hidden.wording, hidden.data) == ("", {})


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


# --- thousands of equal mistakes --------------------------------------------------------------------------------------


def unknown_classes(bench: Bench) -> str:
    bench.make("geojson outlines")
    feature = OUTLINES["features"][0] | {"properties": {"classification": {"name": "Lymphocytes"}}}
    bench.write("submission/case_017.geojson", {"type": "FeatureCollection", "features": [feature] * 5000})
    return bench.validate()


def files_of_an_unknown_case(bench: Bench) -> str:
    bench.make("nary_mat")
    with zipfile.ZipFile("submission.zip", "w") as archive:
        for index in range(1000):
            archive.writestr(f"P1/P1_9/Epithelial/{index}.mat", b"")
    return bench.validate("submission.zip")


@pytest.mark.parametrize(("code", "made", "places"), [
    ("unknown-class", unknown_classes, "feature 1, feature 2, feature 3 and 4,997 more: 'Lymphocytes'"),
    ("unknown-case", files_of_an_unknown_case, "/1.mat', 'P1/P1_9/Epithelial/10.mat' and 997 more: 'P1_9'"),
])  # fmt: skip
def test_many_equal_mistakes_give_one_line_with_a_count_and_three_examples(
    code: str, made: Callable[[Bench], str], places: str, bench: Bench
) -> None:
    (line,) = [line for line in made(bench).splitlines() if f"[{code}] " in line]
    assert places in line
    assert len(line) < 1000
