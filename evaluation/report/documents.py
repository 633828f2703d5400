"""The facts of a page about its document, and the document itself, embedded as JSON unless it is too large."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.report.page import Page, Section

EMBEDDED_UP_TO = 3_000_000  # characters: a page stays below 10 MB with the library of plots in it


def document_page(
    name: str,
    document: Mapping[str, Any],
    sections: Iterable[Section | None],
    *,
    subtitle: str,
    title: str = "",
    teams: Sequence[tuple[str, str]] = (),
) -> Page:
    """The page of a document, which is embedded if it is not too large. Without ``title``: challenge and ``name``."""
    identity, (data, too_large) = document["challenge"] or {}, embed_document(name, document)
    return Page(
        title=title or (f"{identity['name']}: {name}" if identity else name.capitalize()),
        subtitle=subtitle,
        facts=(*identify_document(document), *([("not embedded", too_large)] if too_large else [])),
        sections=tuple(section for section in sections if section is not None),
        data=data,
        teams=tuple(teams),
    )


def embed_document(name: str, document: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The document by its name, for ``Page.data``; nothing, and a sentence that says so, if it is too large."""
    size = len(json.dumps(document, separators=(",", ":")))
    if size <= EMBEDDED_UP_TO:
        return {name: document}, ""
    return {}, f"{name}.json is too large to be in this page ({size / 1e6:.1f} MB); it lies beside it."


def identify_document(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The challenge and the program as facts of a page."""
    identity = document["challenge"] or {}
    facts = [(key, str(identity[key])) for key in ("version", "hash") if key in identity]
    if identity:
        facts.insert(0, ("challenge", str(identity["name"])))
    software = document["software"]
    facts.append(("software", str(software["version"])))
    if scored_with := [version for version in software.get("scored_with", ()) if version != software["version"]]:
        facts.append(("scored with", ", ".join(map(str, scored_with))))
    facts.append(("cite as", citation_of(document)))
    return tuple(facts)


def citation_of(document: Mapping[str, Any]) -> str:
    """One line with the versions and the hash, for a paper.

    >>> citation_of({"challenge": {"name": "A", "version": "2", "hash": "0f" * 32}, "software": {"version": "0.2.0"}})
    'nuclei-evaluation 0.2.0; A, version 2, rules and cases 0f0f0f0f0f0f'
    """
    identity = document["challenge"] or {}
    made_with = f"nuclei-evaluation {document['software']['version']}"
    if not identity:
        return made_with
    return f"{made_with}; {identity['name']}, version {identity['version']}, rules and cases {identity['hash'][:12]}"
