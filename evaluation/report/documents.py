"""What identifies the document that a page shows: challenge, versions, how to cite it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.report.page import Page, Section


def document_page(
    name: str,
    document: Mapping[str, Any],
    sections: Iterable[Section | None],
    *,
    subtitle: str,
    title: str = "",
    teams: Sequence[str] = (),
) -> Page:
    """The page of a document. Without ``title``: challenge and ``name``."""
    identity = document["challenge"] or {}
    return Page(
        title=title or (f"{identity['name']}: {name}" if identity else name.capitalize()),
        subtitle=subtitle,
        facts=identify_document(document),
        sections=tuple(section for section in sections if section is not None),
        teams=tuple(teams),
    )


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
