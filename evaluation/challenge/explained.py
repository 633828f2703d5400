"""The page of a matching rule or of a key of challenge.toml, for ``evaluation explain WORD``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc

from pydantic import BaseModel

from evaluation import matching
from evaluation.challenge.definition import Challenge, models_in
from evaluation.challenge.matching_rules import MATCHING_RULES


def rule_names() -> list[str]:
    """All matching rules, and all keys of challenge.toml."""
    return [*MATCHING_RULES, *dict.fromkeys(key for _, table in tables() for key in table.model_fields)]


def explain_rule(word: str) -> str:
    """The page of a matching rule, or what a key of challenge.toml is in each of its tables; empty if there is none.

    >>> print(explain_rule("COVERAGE").splitlines()[0])
    # metrics.coverage, a key of challenge.toml
    """
    wanted = word.strip("[]").casefold().rpartition(".")[2].replace(" ", "_").replace("-", "_")
    parts = []
    if wanted in MATCHING_RULES:
        text = cleandoc(getattr(matching, f"match_{wanted}").__doc__ or "").partition("\n\n>>>")[0].replace("``", "`")
        parts.append(f"# {wanted}, a matching rule\n\n{text}\n\nThis rule: docs/matching.md#{wanted}")
    keys: dict[str, str] = {}
    for name, table in tables():
        path = ".".join(filter(None, (name, wanted)))
        if wanted in table.model_fields and ("." not in word or word.casefold() == path):
            keys[path] = keys.get(path) or entries(table).get(wanted, "")
    for path, entry in keys.items():
        where = f"This table: docs/challenge.md#{path.partition('.')[0] if '.' in path else 'rules'}"
        parts.append("\n\n".join(filter(None, (f"# {path}, a key of challenge.toml", entry, where))))
    return "\n\n".join(parts)


def tables() -> Iterator[tuple[str, type[BaseModel]]]:
    """The tables of challenge.toml by their names, the whole file, "", first; then what stands in them."""
    waiting: list[tuple[str, type[BaseModel]]] = [("", Challenge)]
    while waiting:
        name, table = waiting.pop(0)
        yield name, table
        for key, field in table.model_fields.items():
            waiting += [(".".join(filter(None, (name, key))), kind) for kind in models_in(field.annotation)]


def entries(table: type[BaseModel]) -> Mapping[str, str]:
    """What the docstring of a table says of each of its keys: ``key, key   text``, continued further in."""
    texts: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", cleandoc(table.__doc__ or "")):
        names, _, text = block.partition(" ") if "," not in block.partition("  ")[0] else block.partition("  ")
        for name in re.split(r",\s*", names):
            if name in table.model_fields and text.startswith(" "):
                texts[name] = " ".join(text.split()).replace("``", "`")
    return texts
