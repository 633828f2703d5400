"""What the tests of XML formats share: how a file is asked for."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.challenge import LimitRules, format_rules
from evaluation.formats.format import Request
from evaluation.model import Case, ClassTable

CASE = Case("a", "a", 100, 100)
AS_DRAWN = {"vertices": "exact", "origin": "pixel_centre", "vanished": "drop"}


def xml_request(
    ids: Mapping[str, int],
    *,
    format: str = "aperio_xml",
    where: str = "'a.xml'",
    skipped=(),
    file_class: int = 0,
    bytes_limit: int = 10**9,
    vertices_limit: int = 10**7,
    instances_limit: int = 10**6,
    **rules,
) -> Request:
    """A request with wide limits; the classes are those that ``ids`` names."""
    names = {class_id: name for name, class_id in reversed(ids.items()) if class_id > 0}
    return Request(
        where=where,
        name="a.xml",
        rules=format_rules(format=format, files="{case}.xml", **(rules or AS_DRAWN)),
        classes=ClassTable(tuple(names[key] for key in sorted(names)), ids, skipped=frozenset(skipped)),
        limits=LimitRules(
            bytes_per_file=bytes_limit, vertices_per_file=vertices_limit, instances_per_case=instances_limit
        ),
        file_class=file_class,
    )
