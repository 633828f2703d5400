"""What the tests of JSON formats share: how a file is asked for."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from evaluation.challenge import LimitRules, format_rules
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request
from evaluation.formats.geojson import read_geojson
from evaluation.formats.listed_nuclei import read_points_json, read_polygons_json
from evaluation.model import Annotations, Case, ClassTable

OUTLINES = {"origin": "pixel_corner", "vertices": "exact", "vanished": "drop"}
RULES: dict[str, dict[str, Any]] = {
    "geojson": {"shape": "outline", **OUTLINES},
    "polygons_json": {"units": "px", **OUTLINES},
    "points_json": {"units": "px", "origin": "pixel_centre"},
}
READERS = {"geojson": read_geojson, "polygons_json": read_polygons_json, "points_json": read_points_json}
CLASSES = ("Epithelial", "Lymphocyte")
IDS = {"epithelial": 1, "epi": 1, "lymphocyte": 2, "ambiguous": -1}


def json_request(
    format: str,
    *,
    classes: Sequence[str] = CLASSES,
    ids: Mapping[str, int] = IDS,
    skipped: Sequence[str] = (),
    file_class: int = 0,
    limits: Mapping[str, int] | None = None,
    where: str = "'nuclei.json'",
    **rules: Any,
) -> Request:
    keys = RULES[format] | rules
    if keys.get("shape") == "point":
        keys = {key: value for key, value in keys.items() if key not in ("vertices", "vanished")}
    return Request(
        where=where,
        name="nuclei.json",
        rules=format_rules(format=format, files="{case}.json", **keys),
        classes=ClassTable(tuple(classes), ids, skipped=frozenset(skipped)),
        limits=LimitRules(**(limits or {})),
        file_class=file_class,
    )


def read_json_file(content: Any, format: str, *, spacing_um: float | None = None, **options: Any) -> Annotations:
    """What a file holds; ``content`` is its bytes, or a value to be written as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    case = Case("a", "a", 100, 120, spacing_um)
    return READERS[format](io.BytesIO(data), json_request(format, **options), case)


def faults_of(content: Any, format: str, **options: Any) -> list[Finding]:
    with pytest.raises(InputFault) as fault:
        read_json_file(content, format, **options)
    return list(fault.value.findings)
