"""Names: what no other file uses begins with an underscore, so that a reader tells a room's door from its pipes."""

from __future__ import annotations

import ast
import builtins
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


IN_BACKTICKS = re.compile(r"``([^`]+)``")
FILE_NAME = re.compile(r"[\w/]+\.py\b")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
SUFFIXES = (".py", ".md", ".toml", ".json", ".csv")


def _docstrings(tree: ast.Module) -> dict[int, str]:
    """Return the docstrings of a module by the identity of their nodes."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    described = [node for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)]
    return {id(node.body[0].value): ast.get_docstring(node) or "" for node in described}  # type: ignore[attr-defined]


def _words_of_code(tree: ast.Module, docstrings: dict[int, str]) -> set[str]:
    nodes = [node for node in ast.walk(tree) if id(node) not in docstrings]
    values = [value for node in nodes for _, value in ast.iter_fields(node)]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return {word for text in texts if isinstance(text, str) for word in WORD.findall(text)}


def test_what_a_docstring_names_exists() -> None:
    """Names and files in docstrings are those of code, rules or tests; names of others stand beside an address."""
    trees = {path: ast.parse(path.read_text("utf-8")) for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")}
    prose = re.sub(r"(?s)```.*?```", "", (ROOT / "docs/development.md").read_text("utf-8"))
    texts, known, files = [prose], set(dir(builtins)), set[str]()
    for path, tree in trees.items():
        docstrings = _docstrings(tree)
        texts += docstrings.values()
        known |= {path.stem, path.parent.name} | _words_of_code(tree, docstrings)
    for folder, glob in (
        ("evaluation", "*.toml"),
        ("tests", "*.py"),
        ("library/tests", "*.py"),
        ("benchmarks", "*.py"),
    ):
        known |= {word for path in (ROOT / folder).rglob(glob) for word in WORD.findall(path.read_text("utf-8"))}
    for folder in ("evaluation", "library", "tests", "benchmarks"):
        files |= {path.name for path in (ROOT / folder).rglob("*.py")}
    dead = []
    for text in (text for text in texts if "http" not in text):
        names = [name for name in IN_BACKTICKS.findall(text) if NAME.fullmatch(name) and not name.endswith(SUFFIXES)]
        dead += [name for name in names if not known >= set(WORD.findall(name))]
        dead += [name for name in FILE_NAME.findall(text) if Path(name).name not in files]
    assert not dead, "\n".join(dead)
