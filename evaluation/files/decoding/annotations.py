"""What a file says, as readers return it: parts in the terms of the library, and warnings."""

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
    """What a file says about one case: parts in the order of the file, and warnings about what was omitted."""

    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """What a file says about many cases.

    cases     by the name of the case; a case that the file does not mention has no entry, one that it mentions without
              nuclei has an empty one
    unknown   what the file states of images that are no cases: how many entries each name has
    findings  warnings about what was omitted
    """

    cases: Mapping[str, Annotations]
    unknown: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@contextmanager
def library_faults() -> Iterator[None]:
    """Raise what the library refuses as a fault of a file, in the words of the findings."""
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
