"""Names: what no other file uses begins with an underscore, so that a reader tells a room's door from its pipes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("evaluation", "library/nuclei_metrics")
OTHERS = ("*.py", "*.md", "*.toml", "*.sh", "*.ipynb")
WORD = re.compile(r"[A-Za-z_]\w*")


def _words_of_files() -> dict[Path, set[str]]:
    folders = ("evaluation", "library", "tests", "benchmarks", "docs", "setup", "examples")
    paths = [path for folder in folders for glob in OTHERS for path in (ROOT / folder).rglob(glob)]
    return {path: set(WORD.findall(path.read_text("utf-8"))) for path in (*paths, ROOT / "pyproject.toml")}


def test_a_function_or_class_that_no_other_file_names_begins_with_an_underscore() -> None:
    words = _words_of_files()
    files_with = Counter(word for found in words.values() for word in found)
    public = []
    for path in (path for path in words if path.suffix == ".py" and path.is_relative_to(ROOT)):
        if not any(path.is_relative_to(ROOT / package) for package in PACKAGES):
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name[0] == "_":
                continue
            if files_with[node.name] == 1 and path.parent.name != "commands":  # commands are chosen by name
                public.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not public, "\n".join(public)
