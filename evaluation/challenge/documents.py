"""The files of a challenge: challenge.toml, merged with its preset, and cases.csv, the list of scored cases."""

from __future__ import annotations

import csv
import io
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from evaluation.challenge.formats import FORMATS, Overlaps, keys_of_formats
from evaluation.findings import Finding, did_you_mean, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken, WrongUsage
from nuclei_metrics.model import Case

CHALLENGE_FILE = "challenge.toml"
CASES_FILE = "cases.csv"
TOML_BYTES = 1_000_000
CSV_BYTES = 100_000_000
TOML_WORK = 50_000_000  # characters times dots in a line: about a second of tomllib
OF_AREAS = ("overlap", "overlap_scope", "ignore")  # keys of [reference] for nuclei that have pixels
RECOMMENDED = "recommended"  # the preset of new challenges
LONGEST_SIDE_PX, MOST_PIXELS = 4_000_000, 500_000_000_000  # sums of coordinates of all pixels have 63 bits
SMALLEST, LARGEST = 1e-6, 1e6  # sizes: products and quotients of such numbers stay finite


def preset_names() -> list[str]:
    """Names of all presets: published challenges, and the start for new challenges."""
    return sorted(
        entry.name[:-5]
        for entry in resources.files("evaluation.challenge.presets").iterdir()
        if entry.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The file of a preset with comments. Raises WrongUsage for an unknown name."""
    if name not in preset_names():
        raise WrongUsage(fault("unknown-preset", "preset", name=name, known=preset_names()))
    return resources.files("evaluation.challenge.presets").joinpath(f"{name}.toml").read_text("utf-8")


def read_rules(path: Path) -> dict[str, Any]:
    """challenge.toml as a document, its preset merged in."""
    try:
        document = parse_toml(read_challenge_text(path))
    except ValueError as error:
        raise ChallengeBroken(fault("invalid-toml", CHALLENGE_FILE, got=str(error))) from None
    if "cases" in document:
        raise ChallengeBroken(fault("unknown-key", f"{CHALLENGE_FILE}: cases", wording="cases-in-rules"))
    return resolve_preset(document)


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML document. Raises ValueError for invalid TOML, and for documents that tomllib parses slowly.

    A key a.b.c… of n parts takes it time and memory by the square of n, and each key below a table of n parts by n.
    """
    most_dots = max(line.count(".") for line in text.split("\n"))
    if len(text) > TOML_BYTES or len(text) * most_dots > TOML_WORK:
        raise ValueError(f"{len(text):,} characters, with {most_dots:,} dots in a line")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables nested too deeply") from None


def read_challenge_text(path: Path) -> str:
    """A text file of the challenge. Raises ChallengeBroken if it is too large, cannot be read or is not UTF-8."""
    try:
        size, most = path.stat().st_size, TOML_BYTES if path.suffix == ".toml" else CSV_BYTES
        if size > most:
            got, expected = f"{size:,} bytes", f"at most {most:,} bytes"
            raise ChallengeBroken(fault("too-large", path.name, got=got, expected=expected, fix=""))
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChallengeBroken(fault("invalid-text", path.name, position=error.start)) from None
    except (FileNotFoundError, NotADirectoryError):
        is_list = path.name == CASES_FILE
        finding = fault("missing-file", path.name, wording="no-cases-file" if is_list else "no-challenge-file")
        raise ChallengeBroken(finding) from None
    except OSError as error:
        finding = fault("invalid-text", path.name, wording="cannot-read", got=str(error.strerror))
        raise ChallengeBroken(finding) from None


def resolve_preset(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its preset merged in; tables are merged key by key, everything else is replaced.

    Keys of the preset that cannot apply are omitted: format keys if a side has a different format, overlap keys if the
    reference has points or numbers, and costs of false negatives without a family that uses them.
    """
    if "preset" not in document:
        return document
    name = document["preset"]
    if name not in preset_names():
        finding = fault("unknown-preset", f"{CHALLENGE_FILE}: preset", name=str(name), known=preset_names())
        raise ChallengeBroken(finding)

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            both_tables = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_tables else value
        return merged

    below = parse_toml(preset_text(name))
    for side in ("reference", "submission"):
        changed = document.get(side, {})
        if isinstance(changed, dict) and changed.get("format", below[side]["format"]) != below[side]["format"]:
            below[side] = {key: value for key, value in below[side].items() if key not in keys_of_formats()}
    own = document.get("submission")
    if isinstance(own, dict) and "socket" in own and "files" not in own:
        below["submission"].pop("files", None)  # jobs decide, not the preset's folders
    if _has_no_area(document.get("reference")):
        below["reference"] = {key: value for key, value in below["reference"].items() if key not in OF_AREAS}
    _drop_costs(below.get("metrics", {}), document.get("metrics"))
    return merge(below, {key: item for key, item in document.items() if key != "preset"})


def with_overlap_rule(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a new challenge with the rule for overlapping nuclei written out under [reference].

    It is the preset's rule. If the formats differ from the preset, nuclei keep shared pixels if both formats can
    contain them: otherwise a copy of the reference would score below 1. Points and numbers have no rule.
    """
    resolved, below = resolve_preset(document), resolve_preset({"preset": document["preset"]})
    sides = ("reference", "submission")
    reference, submission = (overlaps_of(resolved.get(side)) for side in sides)
    if reference is None or submission is None or "overlap" not in resolved["reference"]:
        return document
    rule: dict[str, str] = {key: resolved["reference"][key] for key in ("overlap", "overlap_scope")}
    if any(resolved[side]["format"] != below[side]["format"] for side in sides):
        if submission >= reference:
            rule = {"overlap": "keep", "overlap_scope": "image"}
        elif submission is Overlaps.BETWEEN_CLASSES and rule["overlap"] != "keep":
            rule = {"overlap": {"class_order": "last"}.get(rule["overlap"], rule["overlap"]), "overlap_scope": "class"}
    return {**document, "reference": {**document.get("reference", {}), **rule}}


def overlaps_of(side: object) -> Overlaps | None:
    """Return which nuclei of a side may share pixels, according to its table."""
    format = FORMATS.get(str(side.get("format"))) if isinstance(side, dict) else None
    if format is None or not isinstance(side, dict):
        return None
    by_class = format.overlaps is Overlaps.NONE and "{class}" in str(side.get("files"))
    return Overlaps.BETWEEN_CLASSES if by_class else format.overlaps


def _has_no_area(reference: object) -> bool:
    """Return whether the nuclei of a reference are points or numbers, according to its table."""
    if not isinstance(reference, dict):
        return False
    format = FORMATS.get(str(reference.get("format")))
    return reference.get("shape") == "point" or (format is not None and format.nuclei != "shapes")


def _drop_costs(below: dict[str, Any], above: object) -> None:
    """Remove the coverage and the distance caps of a preset if other families are chosen that do not use them."""
    families = above.get("families") if isinstance(above, dict) else None
    if not isinstance(families, list):
        return
    chosen = {str(family).partition(".")[0] for family in families}
    for key in ("coverage", "distance_cap_px", "distance_cap_um"):
        if not chosen & ({"covered"} if key == "coverage" else {"covered", "overall"}):
            below.pop(key, None)


# --- cases.csv --------------------------------------------------------------------------------------------------------


def read_cases(text: str) -> tuple[Case, ...]:
    """The rows of cases.csv: case, height, width, and if they are needed the other columns of ``Case``.

    Cases are sorted by group and name, so that the order of rows changes nothing. Raises ChallengeBroken.
    """
    rows = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        header = [name.strip() for name in rows.fieldnames or []]
    except csv.Error as error:
        finding = fault("invalid-cases", f"{CASES_FILE}, line 1", got=str(error), expected="comma-separated values")
        raise ChallengeBroken(finding) from None
    rows.fieldnames = header
    faults: list[Finding] = []

    def fault_at(where: str, got: str, expected: str, fix: str = "") -> None:
        faults.append(fault("invalid-cases", f"{CASES_FILE}{where}", got=got, expected=expected, fix=fix))

    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise ChallengeBroken(fault("invalid-csv", f"{CASES_FILE}, line 1", wording="other-separator", name=name))
    if lacking := [column for column in REQUIRED if column not in header]:
        fault_at(", line 1", f"no column {listed(lacking)}", f"the columns {listed(REQUIRED, last='and')}")
    for column in header:
        if column not in COLUMNS:
            suggestion = did_you_mean(column, COLUMNS)
            fault_at(", line 1", f"column {quote(column)}", f"one of {listed(COLUMNS)}", suggestion)
    if len(set(header)) < len(header):
        fault_at(", line 1", "a column twice", "every column once")
    if faults:
        raise ChallengeBroken(*faults)

    cases: dict[str, Case] = {}
    known: dict[str, str] = {}  # names by what file systems without case make of them
    indices: set[int] = set()
    for row in lines_of(rows, faults):
        where = f", line {rows.line_num}"
        if None in row or None in row.values():
            fault_at(where, "another number of values than the header", "one value for each column")
            continue
        texts = {column: text.strip() for column, text in row.items()}
        values: dict[str, Any] = {}
        for column, (read, expected) in COLUMNS.items():
            if (text := texts.get(column, "")) or column in REQUIRED:
                values[column] = read(text)
                if values[column] is None or (column == "index" and values[column] in indices):
                    fault_at(where, f"{column} {quote(text)}", expected)
        name, height, width = texts["case"], values["height"], values["width"]
        if height and width and height * width > MOST_PIXELS:
            fault_at(where, f"{height * width:,} pixels", f"at most {MOST_PIXELS:,}")
        if (other := known.setdefault(name.casefold(), name)) != name:
            fault_at(where, f"case {quote(name)} beside {quote(other)}", "names that differ in more than case")
        elif name in cases:
            fault_at(where, f"case {quote(name)} again", "every case once")
        if height and width:
            spacing, index, stratum = values.get("spacing_um"), values.get("index"), texts.get("stratum", "")
            offset_xy = values.get("offset_x", 0.0), values.get("offset_y", 0.0)
            area, group = values.get("area_mm2"), texts.get("group") or name
            cases[name] = Case(name, group, height, width, spacing, index, offset_xy, stratum, area)
            indices.update(() if index is None else {index})
    strata: dict[str, set[str]] = {}
    for case in cases.values():
        strata.setdefault(case.group, set()).add(case.stratum)
    for group, stratum in {case.group: case.stratum for case in cases.values()}.items():
        if others := sorted(strata[group] - {stratum}):
            got = f"patient (group) {quote(group)} in the strata {quote(others[0])} and {quote(stratum)}"
            fault_at("", got, "one stratum")
    if any(case.stratum for case in cases.values()) and not all(case.stratum for case in cases.values()):
        fault_at("", "cases with a stratum and cases without", "a stratum for every case, or no strata")
    if not cases and not faults:
        fault_at("", "no rows", "one row for each case that is scored")
    if faults:
        raise ChallengeBroken(*faults)
    return tuple(sorted(cases.values(), key=lambda case: (case.group, case.name)))


def lines_of(rows: csv.DictReader[str], faults: list[Finding]) -> Iterator[dict[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        where = f"{CASES_FILE}, line {rows.line_num}"
        faults.append(fault("invalid-cases", where, got=str(error), expected="comma-separated values"))


def is_safe_name(name: object) -> bool:
    """Return whether a case, a group or a team can have a name: as part of a path, on every system, and of a message.

    >>> [name for name in ("P1_1", "a/b", "aux.1", "a.", "auxiliary") if is_safe_name(name)]
    ['P1_1', 'auxiliary']
    """
    return (
        isinstance(name, str)
        and 0 < len(name) <= 200
        and name[-1] not in " ."  # Windows drops them
        and all(c.isalnum() or c in " _-.+@" for c in name)
        and not _DEVICES_OF_WINDOWS.fullmatch(name)
    )


def _name_if_safe(text: str) -> str | None:
    return text if is_safe_name(text) else None


def _number_from_one(text: str) -> int | None:
    return int(text) if re.fullmatch(r"0*[1-9][0-9]{0,8}", text, re.ASCII) else None


def _length_of_side(text: str) -> int | None:
    number = _number_from_one(text)
    return number if number and number <= LONGEST_SIDE_PX else None


def _case_index(text: str) -> int | None:
    return 0 if text == "0" else _number_from_one(text)


def _positive_number(text: str) -> float | None:
    number = _finite_number(text)
    return number if number is not None and SMALLEST <= number <= LARGEST else None


def _finite_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


NAME = "a name of letters, digits and any of ' _-.+@', up to 200, that Windows allows"
_DEVICES_OF_WINDOWS = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])( *\..*)?", re.IGNORECASE)
SIDE_WORDS = f"a whole number of pixels, 1 to {LONGEST_SIDE_PX:,}"
INDEX = "its index in arrays of all cases: 0, 1, 2, …, without repeats"
OFFSET = "px from the slide's corner"
REQUIRED = ("case", "height", "width")
# How the cells of each column are read, None where that cannot be, and what is expected in them.
COLUMNS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "case": (_name_if_safe, NAME),
    "group": (_name_if_safe, NAME),
    "height": (_length_of_side, SIDE_WORDS),
    "width": (_length_of_side, SIDE_WORDS),
    "spacing_um": (_positive_number, "the pixel size in µm, 0.000001 to 1,000,000"),
    "index": (_case_index, INDEX),
    "offset_x": (_finite_number, OFFSET),
    "offset_y": (_finite_number, OFFSET),
    "stratum": (_name_if_safe, NAME),
    "area_mm2": (_positive_number, "the annotated area in mm2, 0.000001 to 1,000,000"),
}
