"""The documents agree with the program: commands run, rules, metrics, exit codes and public names are all described."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

import evaluation
from evaluation.challenge import MATCHING_RULES, Challenge, preset_names
from evaluation.challenge.format_rules import FORMATS
from evaluation.challenge.rules import (
    AggregationRules,
    ClassRules,
    IgnoreRules,
    LimitRules,
    MetricRules,
    RankingColumn,
    RankingRules,
    ReferenceRules,
    SubmissionRules,
)
from evaluation.metrics import metrics_of
from evaluation.model import Case

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_commands_in_the_documents_run(path, tmp_path):
    """Every line that begins with '$ ./evaluate.sh' or '$ evaluation' in a console block, in one folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for block in re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL):
        for line in block.splitlines():
            command = re.match(r"\$ (?:\./evaluate\.sh|evaluation) (.*?)(?:\s+# exits with (\d+))?$", line)
            if command is None:
                continue
            arguments = [sys.executable, "-m", "evaluation", *shlex.split(command[1])]
            done = subprocess.run(
                arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == int(command[2] or 0), (line, done.stderr)


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_python_examples_in_the_documents_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", text_of("docs/python.md"), re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), {"__name__": "documentation"})


def test_every_metric_is_described():
    page = text_of("docs/metrics.md")
    for metric in metrics_of(
        ("detection", "classification", "segmentation", "panoptic"), ("<class>",), class_aware=False
    ):
        path = ".".join(metric.path)
        described = f"`{path}`" in page
        if metric.path[:2] == ("segmentation", "per_class"):
            described = described or f"`.{metric.path[-1]}`" in page
        assert described, path


@pytest.mark.parametrize(
    "table",
    [
        Challenge,
        ClassRules,
        ReferenceRules,
        IgnoreRules,
        SubmissionRules,
        MetricRules,
        AggregationRules,
        RankingRules,
        RankingColumn,
        LimitRules,
        *MATCHING_RULES.values(),
    ],
    ids=lambda table: table.__name__,
)
def test_every_rule_is_described(table: type[BaseModel]):
    page = text_of("docs/challenge.md")
    for name in table.model_fields:
        assert f"`{name}`" in page or f"`ignore.{name}`" in page or name == "cases", name


def test_every_format_has_a_section_that_names_its_keys():
    page = text_of("docs/formats.md")
    sections = dict(re.findall(r"^### (\S+)$\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(FORMATS)
    for name, keys in FORMATS.items():
        for key in keys.required | keys.optional:
            assert re.search(rf"\b{key}\b", sections[name]), (name, key)


def test_the_whole_examples_are_challenges():
    case = Case("a", "P1", 100, 120, spacing_um=0.24)
    blocks = re.findall(r"```toml\n(.*?)```", text_of("docs/challenge.md"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        document = tomllib.loads(block)
        if "preset" in document:
            assert Challenge.from_preset(document.pop("preset"), cases=[case], **document)
        else:
            assert Challenge.build({**document, "cases": (case,)})


def test_every_preset_has_a_section():
    page = text_of("docs/presets.md")
    assert re.findall(r"^## (\S+)$", page, re.MULTILINE) == preset_names()


def test_the_public_face_is_described_and_has_docstrings():
    page = text_of("docs/python.md")
    for name in evaluation.__all__:
        assert f"`{name}`" in page, name
        assert name == "__version__" or getattr(evaluation, name).__doc__, name
    assert set(dir(evaluation)) == set(evaluation.__all__) == set(evaluation.HOMES)


def test_the_table_in_the_readme_is_the_one_that_the_demo_prints():
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", "demo"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    printed = [line.strip() for line in done.stdout.splitlines() if "." in line and ("↑" in line or "↓" in line)]
    assert len(printed) == 11
    assert set(printed) <= {line.strip() for line in text_of("README.md").splitlines()}
