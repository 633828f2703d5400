"""Every format: its files become the annotations, or are refused with the lines, that the tables of ``formats`` say."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import formats
import pytest
from endless import memory_below, not_endless
from every_format import CASES, CLASSES, rules_of, write_challenge
from formats import Table, check, check_lines, faults_of, file_of, lines_of, read

from evaluation.challenge.formats import FORMATS
from evaluation.files.decoding import csv as bounded_csv
from evaluation.files.decoding import json as bounded_json
from evaluation.files.decoding import streams
from evaluation.files.decoding import xml as bounded_xml
from evaluation.scoring.street import check_submission
from nuclei_metrics.model import ClassTable

TABLES: dict[str, Table] = {
    module.name: imported.TABLE
    for module in pkgutil.iter_modules(formats.__path__)
    if hasattr(imported := importlib.import_module(f"formats.{module.name}"), "TABLE")
}
READ = [
    pytest.param(content, {**table.options, **options}, expected, id=f"{name}: {why}")
    for name, table in TABLES.items()
    for why, content, options, expected in table.read
]
TEXTS = [row for row in READ if not FORMATS[row.values[1]["format"]].dense]
REFUSED = [
    pytest.param(content, {**table.options, **options}, lines, table.little_memory, id=f"{name} {number}")
    for name, table in TABLES.items()
    for number, (content, options, lines) in enumerate(table.refused)
]
COUNTED = [
    pytest.param(content, {**table.options, **options}, findings, faults, id=f"{name} {number}")
    for name, table in TABLES.items()
    for number, (content, options, findings, faults) in enumerate(table.counted)
]
NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2}
CAN_BE_MET = ("instances_per_case", "vertices_per_file")


@pytest.mark.parametrize(("content", "options", "expected"), READ)
def test_a_file_becomes_these_annotations(content: Any, options: Any, expected: Any, tmp_path: Path) -> None:
    check(read(content, folder=tmp_path, **options), expected)


@pytest.mark.parametrize(("content", "options", "expected"), TEXTS)
def test_it_becomes_the_same_if_it_comes_in_small_pieces(
    content: Any, options: Any, expected: Any, tmp_path: Path
) -> None:
    size = 64 if file_of(content, folder=tmp_path)[:2] != b"\x1f\x8b" else 1 << 12  # what is packed may be large
    with (
        mock.patch.object(bounded_json, "BATCH_BYTES", 50),
        mock.patch.object(streams, "CHUNK_BYTES", size),
        mock.patch.object(bounded_xml, "CHUNK_BYTES", size),
        mock.patch.object(bounded_csv, "CSV_CHUNK_BYTES", size),
    ):
        check(read(content, folder=tmp_path, **options), expected)


@pytest.mark.parametrize(("content", "options", "lines", "little_memory"), REFUSED)
def test_a_file_is_refused_with_these_lines(
    content: Any, options: Any, lines: Any, little_memory: bool, tmp_path: Path
) -> None:
    made = content(tmp_path) if callable(content) else content
    with not_endless(), memory_below(8_000_000) if little_memory else nullcontext():
        check_lines(lines_of(made, folder=tmp_path, **options), lines)
    limits = {key: value + 1 for key, value in options.get("limits", {}).items() if key in CAN_BE_MET}
    assert not limits or read(content, folder=tmp_path, **{**options, "limits": limits})


@pytest.mark.parametrize(("content", "options", "findings", "faults"), COUNTED)
def test_many_faults_are_counted_and_a_few_are_named(
    content: Any, options: Any, findings: int, faults: int, tmp_path: Path
) -> None:
    found = faults_of(content, folder=tmp_path, **options)
    assert (len(found), sum(finding.count for finding in found)) == (findings, faults)


def test_a_format_without_files_of_one_case_is_told_by_name() -> None:
    with pytest.raises(ValueError, match="counts_csv has no files of one case"):
        read("", format="counts_csv", files="all.csv")


@pytest.mark.parametrize("kind", [
    "aperio_xml", "asap_xml points", "geojson outlines", "polygons_json", "points_json", "points_csv shared",
    "nucls_csv", "midog_json", "coco_json shared", "rle_csv", "nary_mat", "hovernet_mat", "conic_array",
    "pannuke_masks", "contours_json labelme", "yolo_txt", "colour_map", "label_image channel npz",
])  # fmt: skip
def test_validate_says_of_a_damaged_file_what_its_reader_says(kind: str, tmp_path: Path) -> None:
    challenge, submission = write_challenge(kind, tmp_path)
    path = min(path for path in submission.rglob("*") if path.is_file())
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    rules = rules_of(kind)
    named = {rules.get("case_key", "{case}").replace("{case}", case.name): case for case in CASES}
    options = {"case": CASES[0], "files": f"{{case}}{path.suffix}"} if "{" in rules["files"] else {"cases": named}
    classes = ClassTable(CLASSES, {name.casefold(): number for number, name in enumerate(CLASSES, start=1)}, NUMBERS)
    expected = faults_of(path.read_bytes(), **{**rules, **options, "classes": classes})
    _, said = check_submission(challenge, submission, workers=1)
    assert {(finding.code, finding.got) for finding in said if finding.severity == "error"} >= {
        (finding.code, finding.got) for finding in expected
    }
