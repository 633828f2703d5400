"""challenge.toml as a document: reading it, and merging it with its preset."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from evaluation.challenge.formats import KEYS_OF_FORMATS
from evaluation.findings import Finding, did_you_mean, listed, quote
from evaluation.findings.errors import ChallengeBroken, WrongUsage

CHALLENGE_FILE = "challenge.toml"
CASES_FILE = "cases.csv"
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
        raise WrongUsage(unknown_preset(name, "preset"))
    return resources.files("evaluation.challenge.presets").joinpath(f"{name}.toml").read_text("utf-8")


def unknown_preset(name: object, where: str) -> Finding:
    names = preset_names()
    return Finding("unknown-preset", where, quote(name), listed(names), did_you_mean(str(name), names))


def read_rules(path: Path) -> dict[str, Any]:
    """challenge.toml as a document, its preset merged in."""
    if not path.is_file():
        raise ChallengeBroken(
            Finding(
                "missing-file",
                CHALLENGE_FILE,
                "no such file",
                "the file that defines the challenge",
                "Run 'evaluation init --preset NAME DIR' to make one.",
            )
        )
    try:
        document = tomllib.loads(read_text(path))
    except ValueError as error:  # TOMLDecodeError, and whole numbers of thousands of digits
        raise ChallengeBroken(
            Finding(
                "invalid-toml", CHALLENGE_FILE, str(error), "TOML 1.0", "Correct the line; texts need quotation marks."
            )
        ) from None
    if "cases" in document:
        raise ChallengeBroken(
            Finding("unknown-key", f"{CHALLENGE_FILE}: cases", "a key that is not known", f"the cases in {CASES_FILE}")
        )
    return resolve_preset(document)


def read_text(path: Path) -> str:
    """A text file of the challenge. Raises ChallengeBroken if it cannot be read or is not UTF-8."""
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        got = f"bytes that are not UTF-8 (the first at {error.start:,})"
        raise ChallengeBroken(
            Finding("invalid-text", path.name, got, "text in UTF-8", "Save it as 'CSV UTF-8' or plain UTF-8.")
        ) from None
    except OSError as error:
        raise ChallengeBroken(Finding("invalid-text", path.name, str(error.strerror), "a readable file")) from None


def resolve_preset(document: dict[str, Any]) -> dict[str, Any]:
    """The document with its preset merged in; tables are merged key by key, all else is replaced.

    Where a side has another format than in the preset, the preset's keys about its own format are left out.
    """
    if "preset" not in document:
        return document
    name = document["preset"]
    if name not in preset_names():
        raise ChallengeBroken(unknown_preset(name, f"{CHALLENGE_FILE}: preset"))

    def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
        merged = dict(below)
        for key, value in above.items():
            both_tables = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = merge(below[key], value) if both_tables else value
        return merged

    below = tomllib.loads(preset_text(name))
    for side in ("reference", "submission"):
        changed = document.get(side, {})
        if isinstance(changed, dict) and changed.get("format", below[side]["format"]) != below[side]["format"]:
            below[side] = {key: value for key, value in below[side].items() if key not in KEYS_OF_FORMATS}
    return merge(below, {key: item for key, item in document.items() if key != "preset"})
