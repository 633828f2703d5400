"""The documents agree with the program, and the rooms with the house that they describe."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from notebook import executed_notebook
from processes import run_in_group
from pydantic import BaseModel

import evaluation
from benchmarks import screenshots
from evaluation.board.titles import METRIC_NAMES, metric_title
from evaluation.challenge import MATCHING_RULES, Challenge, FormatRules, preset_names, rules
from evaluation.challenge.formats import FORMATS
from evaluation.commands.main import run
from evaluation.findings.errors import SubmissionRejected
from evaluation.findings.metric_pages import anchor
from evaluation.folders.demo import DemoPaths
from evaluation.report.folders import read_result
from evaluation.scoring.street import score_submission
from nuclei_metrics.metrics import FAMILIES, metrics_of
from nuclei_metrics.model import AGGREGATIONS, UNDEFINED_REASONS, Case
from nuclei_metrics.model.annotations import STRATUM_MEAN

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([ROOT / "README.md", ROOT / "examples/README.md", *(ROOT / "docs").glob("*.md")])


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize(
    "path", [path for path in DOCS if "```console\n" in path.read_text()], ids=lambda path: path.name
)
def test_commands_in_the_documents_run(path, tmp_path):
    """Every line that begins with '$ ./evaluate.sh' or '$ evaluation' in a console block, in one folder.

    Each section of the presets has a folder of its own.
    """
    text = path.read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE) if path.name == "presets.md" else [text]
    blocks = [
        (n, block) for n, of in enumerate(sections) for block in re.findall(r"```console\n(.*?)```", of, re.DOTALL)
    ]
    for section, block in blocks:
        folder = tmp_path / str(section)
        folder.mkdir(exist_ok=True)
        for line in block.splitlines():
            command = re.match(r"\$ (?:\./evaluate\.sh|evaluation) (.*?)(?:\s+# exits with (\d+))?$", line)
            if command is None:
                continue
            arguments = [sys.executable, "-m", "evaluation", *shlex.split(command[1])]
            done = run_in_group(arguments, cpu_seconds=300, cwd=folder)
            assert done.returncode == int(command[2] or 0), (line, done.stderr)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    """Also to the heading that they name, where that is a document of ours."""
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text()):
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not heading or page.suffix != ".md" or heading in anchors_of(page), f"{target}#{heading}"


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors that the headings of a document get; of equal ones the second has a number, and so on."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: Counter[str] = Counter()
    anchors = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = anchor(heading)
        anchors.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return anchors


def test_the_site_builds_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    if not (ROOT / ".venv-docs/.lock-stamp").exists():
        pytest.skip("the site was NOT built: mkdocs is not installed (setup/docs.sh installs it)")
    done = subprocess.run([ROOT / "setup/docs.sh", tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "docs/compare.html").read_text()
    assert 'href="metrics.html#readings-of-ap-and-map"' in page


def test_the_notebook_is_the_page_on_python_and_what_its_code_gives(tmp_path, monkeypatch, pytestconfig):
    monkeypatch.chdir(tmp_path)
    notebook = executed_notebook(text_of("docs/python.md"))
    if pytestconfig.getoption("--renew-golden"):
        (ROOT / "docs/python.ipynb").write_text(notebook)
    assert text_of("docs/python.ipynb") == notebook
    assert "<table>" in notebook and Path("compare.html").is_file()


def test_the_overview_of_the_metrics_names_every_family_aggregation_and_reason():
    """Each metric has a section of its own; see test_metric_pages.py."""
    page = text_of("docs/metrics.md")
    for word in (*UNDEFINED_REASONS, *AGGREGATIONS, STRATUM_MEAN):
        assert f"`{word}`" in page, word
    assert re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE) == list(FAMILIES)


def test_every_rule_is_described():
    page = text_of("docs/challenge.md")
    tables = [Challenge, *MATCHING_RULES.values()]
    tables += [of for of in vars(rules).values() if isinstance(of, type) and of.__module__ == rules.__name__]
    names = {(of.__name__, name) for of in tables if issubclass(of, BaseModel) for name in of.model_fields}
    assert len(names) > 80
    lacking = {(of, name) for of, name in names if f"`{name}`" not in page and f"`ignore.{name}`" not in page}
    assert {name for _, name in lacking} <= {"cases"}, lacking


def test_every_format_has_a_section_that_names_its_keys():
    page = text_of("docs/formats.md")
    sections = dict(re.findall(r"^### (\S+)$\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(FORMATS)
    for name, of_format in FORMATS.items():
        for key in of_format.model_fields.keys() - FormatRules.model_fields.keys():
            assert re.search(rf"\b{key}\b", sections[name]), (name, key)


def test_the_whole_example_is_a_challenge():
    case = Case("a", "P1", 100, 120, spacing_um=0.24)
    (block,) = re.findall(r"```toml\n(.*?)```", text_of("docs/challenge.md"), re.DOTALL)
    document = tomllib.loads(block)
    assert Challenge.from_preset(document.pop("preset"), cases=[case], **document)


def presets_pages() -> dict[str, str]:
    """The sections of docs/presets.md."""
    return dict(re.findall(r"^## (\S+)$\n(.*?)(?=^## |\Z)", text_of("docs/presets.md"), re.MULTILINE | re.DOTALL))


def test_every_preset_has_a_section_and_a_row_in_the_table():
    rows = re.findall(r"^\| \[(\S+)\]\(#(\S+)\) \|", text_of("docs/presets.md"), re.MULTILINE)
    assert rows == [(name, name) for name in preset_names()]
    pages = presets_pages()
    assert list(pages) == preset_names()
    for name, page in pages.items():
        headings = r"Published rules\n(The rules\n)?The numbers? that ranks?\nDifferences\nUse it"
        assert re.fullmatch(headings, "\n".join(re.findall(r"^### (.*)$", page, re.MULTILINE))), name


@pytest.mark.parametrize("name", preset_names())
def test_every_number_that_the_page_of_a_preset_names_is_written(name):
    """Also what is under [ranking] of the preset stands on its page, or on that of a preset to which it leads."""
    challenge = Challenge.from_preset(name, name="test")
    page = presets_pages()[name]
    aggregations = "pooled|group_mean|case_mean|stratum_mean"
    known = {
        ".".join((*prefix, *metric.path))
        for index, rule in enumerate(challenge.matching.rules)
        for prefix in [("alternatives", rule.name) if index else ()]
        for metric in metrics_of(challenge.metric_choice(), class_aware=rule.class_aware, primary=index == 0)
    }
    first = challenge.class_names[0]
    for path in re.findall(rf"`([a-z_]+\.[^` ]+)\.(?:{aggregations})`", page):
        assert path.replace("<class>", first) in known, path
    linked = [presets_pages()[other] for other in re.findall(r"\]\(#(\w+)\)", page)]
    page = "\n".join([page, *linked])
    columns = challenge.ranking.columns if challenge.ranking else ()
    for column in columns:
        assert f"`{column.path}`" in page or f"`{column.path.rpartition('.')[0]}`" in page, column.path


def test_the_public_face_is_described_and_has_docstrings():
    page = text_of("docs/python.md")
    for name in evaluation.__all__:
        assert f"`{name}`" in page, name
        assert name == "__version__" or getattr(evaluation, name).__doc__, name
    typed = re.findall(r"import (\w+) as \1$", Path(evaluation.__file__).read_text(), re.MULTILINE)
    assert dir(evaluation) == evaluation.__all__ == sorted(typed)


def test_the_scores_in_the_readme_are_those_that_the_demo_prints():
    done = subprocess.run([sys.executable, "-m", "evaluation", "demo"], capture_output=True, text=True, check=True)
    printed = [line.strip().replace("\u00a0", " ") for line in done.stdout.splitlines()]
    shown = [line.strip() for line in text_of("README.md").splitlines() if re.match(r" +[a-z]+\.[a-z_0-9]+ [↑↓]", line)]
    assert [line.split()[0] for line in shown] == [
        "detection.f1", "classification.balanced_accuracy", "segmentation.iou_class_mean", "panoptic.pq"
    ]  # fmt: skip
    assert set(shown) <= set(printed)


def test_the_calls_in_the_readme_print_what_it_shows(tmp_path, monkeypatch, capsys):
    """Of `compare` each line that is shown, which may end with an ellipsis; of Python all."""
    monkeypatch.chdir(tmp_path)
    assert run(["demo", "--output", "demo"]) == 0
    command, shown = re.findall(
        r"^\$ \./evaluate\.sh (compare .*)\n```\n\n```\n(.*?)^```", text_of("README.md"), re.MULTILINE | re.DOTALL
    )[0]
    capsys.readouterr()
    assert run(shlex.split(command)) == 0
    printed = [line.rstrip().replace("\u00a0", " ") for line in capsys.readouterr().out.splitlines()]
    for line in shown.splitlines():
        assert any(of.startswith(line[:-2]) if line.endswith(" …") else of == line for of in printed), line

    (session,) = re.findall(r"```python\n(>>> .*?)```", text_of("README.md"), re.DOTALL)
    test = doctest.DocTestParser().get_doctest(session, {}, "README.md", None, None)
    assert len(test.examples) == 3 and doctest.DocTestRunner().run(test).failed == 0


@pytest.fixture(scope="module")
def pictured_board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return screenshots.made_board(tmp_path_factory.mktemp("pictured"))


@pytest.mark.parametrize("name", screenshots.PICTURES)
def test_a_picture_has_the_words_of_todays_page(name: str, chromium: Any, pictured_board: Path) -> None:
    """If not: python -m benchmarks.screenshots."""
    page, words = screenshots.opened(chromium, pictured_board, name)
    page.close()
    assert len(words) > 200
    assert words == text_of(f"docs/pictures/{name}.txt")


def test_the_pictures_of_the_documents_are_those_that_the_command_makes() -> None:
    shown = {name for path in DOCS for name in re.findall(r"pictures/(\w+)\.webp\)", path.read_text())}
    assert shown == {*screenshots.PICTURES, screenshots.ANIMATION}
    files = list((ROOT / "docs/pictures").iterdir())
    assert {path.stem for path in files if path.suffix != ".svg"} == shown
    drawn = {name for path in DOCS for name in re.findall(r"pictures/([\w-]+\.svg)\)", path.read_text())}
    assert {path.name for path in files if path.suffix == ".svg"} == drawn  # tests/test_why.py draws them again


# --- rooms ------------------------------------------------------------------------------------------------------------


def test_each_room_says_what_comes_in_what_goes_out_and_who_may_import_it() -> None:
    files = [*ROOT.glob("evaluation/*/__init__.py"), *ROOT.glob("library/nuclei_metrics/*/__init__.py")]
    rooms = {path.parent.name: ast.parse(path.read_text()) for path in files}
    modules = {path.stem for path in ROOT.glob("library/nuclei_metrics/*.py")}  # which are layers by themselves
    assert set(rooms) == set(DEPTH) - modules
    for room, tree in rooms.items():
        words = ast.get_docstring(tree) or ""
        assert all(word in words for word in ("In: ", "Out: ", "import")), room


# --- every page spells the name of a metric in one way, and shows no key of metrics.json in its place -----------------


NOT_SHOWN = ("script", "style", "code")


class ShownTexts(HTMLParser):
    """What a page shows as text, and the words in its plots."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in NOT_SHOWN:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in NOT_SHOWN:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not self.open:
            self.texts.append(data)


@pytest.fixture(scope="module")
def of_each_kind(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, of the demo."""
    folder = tmp_path_factory.mktemp("spelling")
    where = ["--challenge", str(pages / "challenge"), "--output", str(folder), "--report"]
    teams = ["--submissions", str(pages / "submissions"), "--workers", "1"]
    public = ["--results", str(pages / "results/finder"), "--public", "--output", str(folder / "public.html")]
    for command in (["audit", *where, *teams], ["sensitivity", *where]):
        assert run(command) == 0
    assert run(["report", *public]) == 0
    found = {"board": "leaderboard.html", "team": "results/finder/report.html", "case": "cases/P1_1.html"}
    made = {path.stem: path for path in folder.glob("*.html")}
    assert made.keys() == {"audit", "sensitivity", "public"}
    return made | {name: pages / path for name, path in found.items()}


def test_every_page_spells_a_metric_in_one_way(of_each_kind: dict[str, Path]) -> None:
    result = read_result(of_each_kind["team"].parent)
    names = {metric_title(path) for path in result.paths if ".per_class." not in path}
    long_names = [name for name in names if len(name) > 3]
    keys = {name for path in result.paths if "_" in (name := path.rpartition(".")[2])}
    short = {name.lower(): name for name in METRIC_NAMES.values() if re.fullmatch(r"[A-Z][A-Za-z]*[A-Z0-9]\w*", name)}
    seen, wrong = set(), set()
    as_written = ", ".join(result.rules["metrics"]["measures"])  # in challenge.toml, in the table of rules
    for kind, path in of_each_kind.items():
        for text in set(ShownTexts(path.read_text(encoding="utf-8")).texts) - {as_written}:
            for name in long_names:
                for found in re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
                    seen.add(name)
                    if found[1:] != name[1:] or found[0].lower() != name[0].lower():
                        wrong.add((kind, found, name))
            for word in re.findall(r"(?<![\w./-])[A-Za-z]\w*(?![\w./-])", text):
                if word in keys or (word.lower() in short and word != short[word.lower()]):
                    wrong.add((kind, word, text[:80]))
            for other in re.findall(r"class mean (?:IoU|Dice)|(?:IoU|Dice),? class mean|mean (?:IoU|Dice) of", text):
                wrong.add((kind, other, text[:80]))
    assert wrong == set()
    assert {"detection F1", "balanced accuracy", "IoU (class mean)", "detection macro F1"} <= seen


# --- a submission goes down the house: few calls lead from a room up to one above it, and each has a reason -----------


CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [layer for contract in (CONTRACTS[0], CONTRACTS[2]) for layer in contract["layers"]]
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer.split(" | ")}
CLIMBS = {("scoring", "board")}  # of a challenge with a leaderboard, the result's metrics have the rank


class Trace:
    """The calls between functions of the program while it runs: which of them go up."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.climbs: set[tuple[str, str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        room = room_of(frame) if event == "call" else None
        if room is None or frame.f_code.co_name == "<module>":
            return
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        caller = frame.f_back
        while caller is not None and room_of(caller) is None:
            caller = caller.f_back
        above = None if caller is None else room_of(caller)
        if caller is not None and above is not None and DEPTH[room] < DEPTH[above]:
            self.climbs.add((above, caller.f_code.co_qualname, room, frame.f_code.co_qualname))


def room_of(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    homes = [home for home in (ROOT / "evaluation", ROOT / "library/nuclei_metrics") if path.is_relative_to(home)]
    room = path.relative_to(homes[0]).parts[0].removesuffix(".py") if homes else ""
    return room if room in DEPTH else None


@pytest.mark.parametrize("rejected", [False, True])
def test_a_submission_goes_up_at_most_fifteen_times(own_demo: DemoPaths, rejected: bool, tmp_path: Path) -> None:
    submission = next(iter(sorted(own_demo.challenge.parent.glob("submissions/*"))))
    cases = own_demo.challenge / "cases.csv"
    cases.write_text("".join(cases.read_text().splitlines(True)[:4]))
    for patient in ("P3", "P4"):
        shutil.rmtree(submission / patient)
    if rejected:
        next(path for path in submission.rglob("*") if path.is_file()).write_text("[")
    trace = Trace()
    sys.setprofile(trace)
    try:
        score_submission(own_demo.challenge, submission, workers=1)
    except SubmissionRejected:
        assert rejected
    else:
        assert not rejected
    finally:
        sys.setprofile(None)
    assert len(trace.functions) > 300
    assert len(trace.climbs) <= 15
    assert {(caller, room) for caller, _, room, _ in trace.climbs} <= CLIMBS


# --- the programs of examples/ ----------------------------------------------------------------------------------------


EXAMPLES = ROOT / "examples"
SHOWN = {  # what is printed, and the files that are written
    "compare_two_models.py": ("AJI of finder: 0.7933\nAJI of namer: 0.6115\n", ["compare.html"]),
    "challenge_from_qupath.py": (
        "Rasterisation of the reference",
        ["qupath_challenge/challenge.toml", "qupath_challenge/cases.csv", "board/leaderboard.html"],
    ),
    "validation_loop.py": ("epoch 3: PQ 1.000, mean over patients 1.000, F1 1.000\n", []),
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_runs_and_shows_what_its_page_says(name: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / name)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed, files = SHOWN[name]
    assert printed in done.stdout
    for path in files:
        assert (tmp_path / path).stat().st_size > 0, path
        assert f"`{Path(path).name}`" in text() or f"`{path}`" in text(), path


def test_the_page_of_the_examples_names_each_of_them() -> None:
    assert set(re.findall(r"`python examples/(\w+\.py)`", text())) == set(SHOWN)
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWN)


def text() -> str:
    return (EXAMPLES / "README.md").read_text()
