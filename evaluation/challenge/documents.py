"""challenge.toml as a document: reading it, and merging it with its preset."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from evaluation.challenge.formats import FORMATS, Overlaps, keys_of_formats
from evaluation.findings import fault
from evaluation.findings.errors import ChallengeBroken, WrongUsage

CHALLENGE_FILE = "challenge.toml"
CASES_FILE = "cases.csv"
TOML_BYTES = 1_000_000
CSV_BYTES = 100_000_000
TOML_WORK = 50_000_000  # characters times dots in a line: about a second of tomllib
OF_AREAS = ("overlap", "overlap_scope", "ignore")  # keys of [reference] for nuclei that have pixels
RECOMMENDED = "recommended"  # the preset of new challenges


def preset_names() -> list[str]:
    """Names of the published challenges this program knows, and of the one that new challenges start from."""
    return sorted(
        entry.name[:-5]
        for entry in resources.files("evaluation.challenge.presets").iterdir()
        if entry.name.endswith(".toml")
    )


def preset_text(name: str) -> str:
    """The file of a preset, comments included. Raises WrongUsage if there is none of that name."""
    if name not in preset_names():
        raise WrongUsage(fault("unknown-preset", "preset", name=name, known=preset_names()))
    return resources.files("evaluation.challenge.presets").joinpath(f"{name}.toml").read_text("utf-8")


def presets_document() -> str:
    """docs/presets.md: the overview, then of each preset what was published, what it resolves to and what differs."""
    folder = resources.files("evaluation.challenge.presets")
    pages = [folder.joinpath(f"{name}.md").read_text("utf-8").strip() for name in preset_names()]
    sections = [re.sub(r"^(#+ )", r"#\1", page, flags=re.MULTILINE) for page in pages]
    return "\n\n".join([folder.joinpath("overview.md").read_text("utf-8").strip(), *sections]) + "\n"


def read_rules(path: Path) -> dict[str, Any]:
    """challenge.toml as a document, its preset merged in."""
    with suppress(PermissionError):  # reading says so
        if not path.is_file():
            raise ChallengeBroken(fault("missing-file", CHALLENGE_FILE, wording="no-challenge-file"))
    try:
        document = parse_toml(read_text(path))
    except ValueError as error:
        raise ChallengeBroken(fault("invalid-toml", CHALLENGE_FILE, got=str(error))) from None
    if "cases" in document:
        raise ChallengeBroken(fault("unknown-key", f"{CHALLENGE_FILE}: cases", wording="cases-in-rules"))
    return resolve_preset(document)


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML document. Raises ValueError for what is none, and what tomllib would take long for.

    A key a.b.c… of n parts takes it time and memory by the square of n, and each key below a table of n parts by n.
    """
    most_dots = max(line.count(".") for line in text.split("\n"))
    if len(text) > TOML_BYTES or len(text) * most_dots > TOML_WORK:
        raise ValueError(f"{len(text):,} characters, with {most_dots:,} dots in a line")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("tables nested too deeply") from None


def read_text(path: Path) -> str:
    """A text file of the challenge. Raises ChallengeBroken if it is too large, cannot be read or is not UTF-8."""
    try:
        size, most = path.stat().st_size, TOML_BYTES if path.suffix == ".toml" else CSV_BYTES
        if size > most:
            got, expected = f"{size:,} bytes", f"at most {most:,} bytes"
            raise ChallengeBroken(fault("too-large", path.name, got=got, expected=expected, fix=""))
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ChallengeBroken(fault("invalid-text", path.name, position=error.start)) from None
    except OSError as error:
        raise ChallengeBroken(
            fault("invalid-text", path.name, wording="cannot-read", got=str(error.strerror))
        ) from None


def resolve_preset(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its preset merged in; tables are merged key by key, all else is replaced.

    Left out are the preset's keys that cannot apply: those about a format where a side has another one, on overlap
    where the reference has points or numbers, and on the cost of missed nuclei without a family that has one. What
    the preset says of overlaps gives way where both sides can hold them (``kept_overlaps``).
    """
    if "preset" not in document:
        return document
    name = document["preset"]
    if name not in preset_names():
        raise ChallengeBroken(
            fault("unknown-preset", f"{CHALLENGE_FILE}: preset", name=str(name), known=preset_names())
        )

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            both_tables = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_tables else value
        return merged

    below = parse_toml(preset_text(name))
    published = {side: below[side]["format"] for side in ("reference", "submission")}
    for side in ("reference", "submission"):
        changed = document.get(side, {})
        if isinstance(changed, dict) and changed.get("format", below[side]["format"]) != below[side]["format"]:
            below[side] = {key: value for key, value in below[side].items() if key not in keys_of_formats()}
    if has_no_area(document.get("reference")):
        below["reference"] = {key: value for key, value in below["reference"].items() if key not in OF_AREAS}
    drop_costs(below.get("metrics", {}), document.get("metrics"))
    resolved = merge(below, {key: item for key, item in document.items() if key != "preset"})
    match kept_overlaps(document, resolved, published):
        case Overlaps.ANY:
            resolved["reference"] |= {"overlap": "keep", "overlap_scope": "image"}
        case Overlaps.BETWEEN_CLASSES if (rule := resolved["reference"]["overlap"]) != "keep":
            overlap = {"class_order": "last"}.get(rule, rule)  # inside a class the same
            resolved["reference"] |= {"overlap": overlap, "overlap_scope": "class"}
    return resolved


def kept_overlaps(document: dict[str, Any], resolved: dict[str, Any], published: dict[str, str]) -> Overlaps:
    """Which nuclei of the reference keep the pixels that they share although the preset gives them to one of them.

    If the formats are not those of the preset, and the document says nothing of overlaps: those for which predictions
    can do so, too. A rule for one side alone would score a copy of the reference below 1.
    """
    reference, submission = (overlaps_of(resolved.get(side)) for side in published)
    if reference is None or submission is None or "overlap" not in resolved["reference"]:
        return Overlaps.NONE
    own = document.get("reference", {})
    if {"overlap", "overlap_scope"} & own.keys() or all(
        resolved[side]["format"] == published[side] for side in published
    ):
        return Overlaps.NONE
    return Overlaps.ANY if submission >= reference else submission


def overlaps_of(side: object) -> Overlaps | None:
    """Which nuclei of a side may share pixels, as far as its table tells."""
    format = FORMATS.get(str(side.get("format"))) if isinstance(side, dict) else None
    if format is None or not isinstance(side, dict):
        return None
    by_class = format.overlaps is Overlaps.NONE and "{class}" in str(side.get("files"))
    return Overlaps.BETWEEN_CLASSES if by_class else format.overlaps


def has_no_area(reference: object) -> bool:
    """Whether the nuclei of a reference, as far as its table tells, are points or numbers."""
    if not isinstance(reference, dict):
        return False
    format = FORMATS.get(str(reference.get("format")))
    return reference.get("shape") == "point" or (format is not None and format.nuclei != "shapes")


def drop_costs(below: dict[str, Any], above: object) -> None:
    """Remove the coverage and the distance caps of a preset if other families are chosen that do not use them."""
    families = above.get("families") if isinstance(above, dict) else None
    if not isinstance(families, list):
        return
    chosen = {str(family).partition(".")[0] for family in families}
    for key in ("coverage", "distance_cap_px", "distance_cap_um"):
        if not chosen & ({"covered"} if key == "coverage" else {"covered", "overall"}):
            below.pop(key, None)
