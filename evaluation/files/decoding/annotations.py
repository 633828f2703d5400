"""Content of a file, as readers return it: parts in the types of the library, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from evaluation.findings import Finding, quote
from evaluation.findings.errors import refused
from nuclei_metrics.errors import UnusableOutlines
from nuclei_metrics.model import Part


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Content of a file for one case: parts in file order, and warnings about ignored content."""

    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """Content of a file for many cases.

    cases     by the name of the case; no entry for a case that the file does not mention; a case that it mentions
              without nuclei has an empty one
    unknown   number of entries per name of an image that is not a case
    findings  warnings about ignored content
    """

    cases: Mapping[str, Annotations]
    unknown: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@contextmanager
def library_faults() -> Iterator[None]:
    """Raise errors of the library as faults of the file, in the words of the findings."""
    try:
        yield
    except UnusableOutlines as error:
        where, data = error.where, error.data
        if error.reason == "vanished-outline":
            place = f"{where}, outline {quote(data['outline'])}"
            raise refused("vanished-outline", place, total=data["total"]) from None
        if error.reason == "too-complex-outlines":
            crossings, limit, vertices = data["crossings"], data["limit"], data["vertices"]
            raise refused("too-complex-outlines", where, crossings=crossings, limit=limit, vertices=vertices) from None
        raise refused("unsupported-shape", where, wording="points-beside-outlines") from None
