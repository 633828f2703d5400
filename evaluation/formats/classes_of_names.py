"""Classes as annotations name them."""

from __future__ import annotations

from collections.abc import Iterable

from evaluation.findings import Finding, did_you_mean, listed, quote
from evaluation.formats.request import Request
from evaluation.model import ClassTable

UNKNOWN, SKIPPED = 0, -32768  # stand for the class of what has none, and of what is no nucleus


def class_of_names(names: Iterable[str], is_nameless: bool, request: Request) -> int:
    """The class of the first name that is known; UNKNOWN, or SKIPPED if it marks what is no nucleus.

    is_nameless  whether the names say nothing: only then no name counts, so that a misspelt name is never taken for it
    """
    classes = request.classes
    folded = filter(None, (name.strip().casefold() for name in names))
    for name in [*folded, ""] if is_nameless else folded:
        if name in classes.skipped:
            return SKIPPED
        if name in classes.ids:
            return request.file_class or classes.ids[name]
    return request.file_class or (classes.of_nameless if is_nameless else UNKNOWN)


def unknown_class(place: str, name: str, nameless: str, classes: ClassTable, count: int) -> Finding:
    """A name that is no class of the challenge; ``nameless`` says what is the matter if there is none."""
    known = sorted(known for known in classes.ids if known)
    got = f"{quote(name)} is not a class of this challenge" if name else nameless
    return Finding("unknown-class", place, got, listed(known), did_you_mean(name, known), count)
