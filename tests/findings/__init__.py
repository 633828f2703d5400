"""A real input for every code of the catalogue, and the line that the program prints about it."""

from findings import (
    annotations,
    challenge,
    coco,
    comparison,
    csv_files,
    json_files,
    labels,
    mat_files,
    rankings,
    submission,
    writers,
)
from findings.bench import Bench, line_with
from findings.registry import FIXTURES

__all__ = [
    "FIXTURES",
    "Bench",
    "annotations",
    "challenge",
    "coco",
    "comparison",
    "csv_files",
    "json_files",
    "labels",
    "line_with",
    "mat_files",
    "rankings",
    "submission",
    "writers",
]
