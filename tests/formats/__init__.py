"""What the files of each format mean, as tables: how a file is made, and the annotations or the lines that come of it.

Each module of this folder has the tables of a family of formats; ``test_formats.py`` plays every row through the
program's own reader, files of libraries that may crash inside the guard.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation.challenge import LimitRules, format_rules
from evaluation.challenge.formats import FORMATS
from evaluation.files.decoding.annotations import Annotations, Collection
from evaluation.files.formats import Request, begin_annotations, read_annotations, read_collection
from evaluation.files.formats.format import image_bytes
from evaluation.findings import Finding
from evaluation.findings.errors import InputFault
from nuclei_metrics.instances.runs import instances_from_label_image
from nuclei_metrics.model import Case, ClassTable, LabelImage, LabelRuns

RULES = {"vertices": "exact", "vanished": "drop", "origin": "pixel_centre", "units": "px"}  # of formats that have them
CRASHING = (".mat", ".nii", ".nii.gz", ".nrrd")  # scipy.io, HDF5 and SimpleITK do not survive every file


@dataclass(frozen=True)
class Table:
    """The rows of a family of formats.

    options        what ``read`` is called with; the options of a row are added to these
    read           rows of a sentence, the content of a file, options, and what ``check`` compares the result with
    refused        rows of a content, options, and what ``check_lines`` compares the lines with. A file that a limit of
                   nuclei or vertices refuses is read if the limit is one higher
    counted        rows of a content, options, the number of findings, and the number of faults that these count
    little_memory  refusing a file takes at most 8 MB at a time
    """

    options: Mapping[str, Any]
    read: Sequence[tuple[str, Any, Mapping[str, Any], Mapping[str, Any]]]
    refused: Sequence[tuple[Any, Mapping[str, Any], str | list[str]]]
    counted: Sequence[tuple[Any, Mapping[str, Any], int, int]] = ()
    little_memory: bool = False


def class_table(classes: ClassTable | Mapping[str, int], skipped: Sequence[str] = ()) -> ClassTable:
    """Classes by their names and aliases in files; the first name of each is its name."""
    if isinstance(classes, ClassTable):
        return classes
    names = {class_id: name for name, class_id in reversed(classes.items()) if class_id > 0}
    return ClassTable(tuple(names[key] for key in sorted(names)), classes, skipped=frozenset(skipped))


def request(
    format: str,
    suffix: str = "",
    files: str = "",
    classes: ClassTable | Mapping[str, int] = {"nucleus": 1},  # noqa: B006
    skipped: Sequence[str] = (),
    limits: Mapping[str, int] | None = None,
    file_class: int = 0,
    **rules: Any,
) -> Request:
    """How a file 'a.SUFFIX' is asked for; the rules that say nothing are the usual ones."""
    files = files or "{case}" + (suffix or f".{format.rpartition('_')[2]}")
    fields = FORMATS[format].model_fields
    usual = {key: value for key, value in RULES.items() if key in fields}
    if rules.get("shape") == "point":
        usual = {"origin": usual["origin"]}
    name = files.replace("{case}", "a")
    return Request(
        where=f"'{name}'",
        name=name,
        rules=format_rules(format=format, files=files, **usual | rules),
        classes=class_table(classes, skipped),
        limits=LimitRules(**(limits or {})),
        file_class=file_class,
    )


def file_of(content: Any, suffix: str = "", folder: Path | None = None) -> bytes:
    """Bytes of a file: as they are, of a text, of an array in the format of the suffix, or of a value as JSON."""
    made = content(folder) if callable(content) else content
    if isinstance(made, io.BytesIO):
        return made.getvalue()
    if hasattr(made, "dtype"):
        return image_bytes(made, suffix)
    text = made if isinstance(made, str | bytes | bytearray) else json.dumps(made)
    return text.encode() if isinstance(text, str) else bytes(text)


def read(
    content: Any,
    *,
    format: str,
    shape_yx: tuple[int, int] = (100, 120),
    spacing_um: float | None = None,
    case: Case | None = None,
    cases: Mapping[str, Case] | None = None,
    folder: Path | None = None,
    guarded: bool = False,
    **options: Any,
) -> Any:
    """The annotations of a file of one case; with ``cases``, by their names in the file, the collection of all.

    options  of ``request``; ``class_map`` and ``class_table`` may be a pattern and the content of such a file
    """
    if cases is not None:
        options = {"files": f"all.{format.rpartition('_')[2]}"} | options
    companions = {}
    for key in {"class_map", "class_table"} & options.keys():
        pattern, made = options[key]
        options, name = options | {key: pattern}, pattern.replace("{case}", "a")
        companions[key] = io.BytesIO(file_of(made, name, folder)), f"'{name}'"
    asked = request(format, **options)
    stream = io.BytesIO(file_of(content, asked.name, folder))
    if cases is not None:
        found = read_collection(stream, asked, cases)
        return Collection({name: found.cases[name] for name in found.cases}, found.unknown, found.findings)
    one = case or Case("a", "a", *shape_yx, spacing_um)
    if guarded or asked.name.endswith(CRASHING):
        return begin_annotations(stream, asked, one, companions, owner="tests")()
    return read_annotations(stream, asked, one, companions)


def read_part(content: Any, **options: Any) -> Any:
    """The only part of a file."""
    (part,) = read(content, **options).parts
    return part


def faults_of(content: Any, **options: Any) -> list[Finding]:
    """What is wrong with a file."""
    with pytest.raises(InputFault) as fault:
        read(content, **options)
    return list(fault.value.findings)


def lines_of(content: Any, **options: Any) -> list[str]:
    """The lines of what is wrong with a file, without its name."""
    return [without_name(str(fault)) for fault in faults_of(content, **options)]


def without_name(line: str) -> str:
    return re.sub(r"\] '(a|all)(\.[a-z0-9.]+)?'[,:] ", "] ", line, flags=re.IGNORECASE)


def picture(runs: LabelRuns | None) -> Any:
    """The plane of runs, (H, W)."""
    assert runs is not None
    height, width = runs.shape_yx
    plane = np.zeros(height * width, runs.value.dtype)
    for start, stop, value in zip(runs.start.tolist(), runs.stop.tolist(), runs.value, strict=True):
        assert start // width == (stop - 1) // width, "a run leaves its row"
        plane[start:stop] = value
    return plane.reshape(runs.shape_yx)


def shown(part: Any, key: str) -> Any:
    """A column of a part as a row of a table has it, or what is made of it."""
    if key == "type":
        return type(part).__name__
    if key == "rings":
        return [ring.tolist() for ring in np.split(part.points_xy, part.ring_start[1:-1])]
    if key == "masks":
        from literal import masks_of  # of the library's tests, which pytest alone finds

        return [["".join(".#"[int(pixel)] for pixel in row) for row in mask] for mask in masks_of(part)]
    if key == "digits":
        return ["".join(".123456789"[number] for number in row) for row in picture(part.labels).tolist()]
    if key == "final_class":
        return instances_from_label_image(part).class_id.tolist()
    value = getattr(part, key)
    if isinstance(part, LabelImage) and isinstance(value, LabelRuns):
        value = picture(value)
    return value.tolist() if hasattr(value, "tolist") else value


def check(found: Annotations | Collection, expected: Mapping[str, Any]) -> None:
    """Compare the annotations of a file with what a row says of them.

    expected  columns of the only part as ``shown`` gives them; or ``parts``, a list of such; of a collection one or the
              other for each case, in the order of the file, and ``unknown``. ``findings`` are the beginnings of the
              warnings; there are none if the row has none
    """
    expected = dict(expected)
    check_lines([without_name(str(finding)) for finding in found.findings], expected.pop("findings", []))
    if isinstance(found, Collection):
        assert found.unknown == expected.pop("unknown", {})
        assert list(found.cases) == list(expected)
        for name, of_case in expected.items():
            check(found.cases[name], of_case)
        return
    rows = expected.pop("parts", [expected])
    assert len(found.parts) == len(rows)
    for part, row in zip(found.parts, rows, strict=True):
        wanted = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in row.items()}
        assert {key: shown(part, key) for key in wanted} == wanted
        probability = getattr(part, "probability", None)
        assert probability is None or probability.dtype == np.float64


def check_lines(said: Sequence[str], expected: str | Sequence[str]) -> None:
    """Compare lines with their beginnings: of every line in a list, of the first ones in a text.

    A text behind "…" may stand anywhere in them.
    """
    if not isinstance(expected, str):
        assert len(said) == len(expected), said
    for line, begin in [("\n".join(said), expected)] if isinstance(expected, str) else zip(said, expected, strict=True):
        wanted = "\n".join(map(without_name, begin.split("\n")))
        assert wanted[1:] in line if wanted.startswith("…") else line.startswith(wanted), said
