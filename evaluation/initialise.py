"""Start a challenge folder: challenge.toml from a preset, and cases.csv from what lies in the reference folder."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, is_safe_name, preset_text
from evaluation.errors import ChallengeBroken, InputFault, WrongUsage
from evaluation.findings import Finding, quote
from evaluation.formats.image_size import IMAGE_SUFFIXES, read_image_size
from evaluation.model import Case
from evaluation.report.files import write_atomically


@dataclass(frozen=True, slots=True)
class StartedChallenge:
    """What ``initialise_challenge`` found: cases with a size, and reference files without an image beside them."""

    folder: Path
    cases: tuple[Case, ...]
    without_image: tuple[str, ...]
    reference_files: str

    def lines(self) -> list[str]:
        """What to do next, in words."""
        lines = [f"Written: {self.folder / CHALLENGE_FILE} and {self.folder / CASES_FILE} ({len(self.cases)} cases)."]
        if self.without_image:
            names = ", ".join(map(quote, self.without_image[:3]))
            lines.append(
                f"No image beside {len(self.without_image)} reference files ({names}): their height and width are left "
                f"open in {CASES_FILE}; fill them in, in px."
            )
        if not self.cases and not self.without_image:
            lines.append(f"Next: put the reference files at {self.reference_files} and list the cases in {CASES_FILE}.")
        lines.append("Then: 'evaluation rasterise' shows what the overlap rules do to your reference.")
        return lines


def initialise_challenge(folder: Path, *, preset: str, name: str | None = None) -> StartedChallenge:
    """Write challenge.toml (all rules of the preset, commented) and cases.csv into a folder.

    Reference files that are there already become cases; their sizes come from the header of an image of the same name
    beside them (SVS, TIFF). Existing files are never overwritten: raises WrongUsage.
    """
    text = preset_text(preset)
    for file in (CHALLENGE_FILE, CASES_FILE):
        if (folder / file).exists():
            raise WrongUsage(
                Finding("file-exists", quote(folder / file), "there already", "a folder without it", "Remove it first.")
            )
    folder.mkdir(parents=True, exist_ok=True)
    pattern = tomllib.loads(text)["reference"]["files"]
    cases, without_image = [], []
    for path, case, group in reference_files(folder, pattern):
        image = image_beside(path)
        if image is None:
            without_image.append((case, group))
        else:
            try:
                cases.append(Case(case, group, *read_image_size(image)))
            except InputFault as fault:
                raise ChallengeBroken(*fault.findings) from fault
    (folder / pattern.split("{")[0]).mkdir(parents=True, exist_ok=True)
    heading = (
        f"# Made by 'evaluation init --preset {preset}'. Every rule that can change a score is in this file; change "
        f'it to suit.\nformat_version = 1\nname = {toml_string(name or folder.resolve().name)}\nversion = "1"\n\n'
    )
    write_atomically(folder / CHALLENGE_FILE, heading + text)
    write_atomically(folder / CASES_FILE, cases_csv(cases, without_image))
    return StartedChallenge(folder, tuple(cases), tuple(case for case, _ in without_image), pattern)


def reference_files(folder: Path, pattern: str) -> list[tuple[Path, str, str]]:
    """Files that fit the pattern of the reference, with the case and group in their path, sorted."""
    expression = re.escape(pattern).replace(r"\{case\}", "(?P<case>[^/]+)").replace(r"\{group\}", "(?P<group>[^/]+)")
    found: list[tuple[Path, str, str]] = []
    for path in sorted(folder.rglob("*")):
        match = re.fullmatch(expression + r"(?:\.gz)?", path.relative_to(folder).as_posix())
        if match and path.is_file():
            case = match["case"]
            group = match.groupdict().get("group", case)
            if not (is_safe_name(case) and is_safe_name(group)):
                fix = "Rename the file: letters, digits and any of ' _-.+@'."
                raise ChallengeBroken(Finding("invalid-cases", quote(path), f"case {quote(case)}", "a plain name", fix))
            if any(case == known for _, known, _ in found):
                fix = "Keep one file for each case, and give cases of different groups different names."
                raise ChallengeBroken(
                    Finding("invalid-cases", quote(path), f"case {quote(case)} again", "every case once", fix)
                )
            found.append((path, case, group))
    return found


def image_beside(path: Path) -> Path | None:
    stem = path.name.split(".xml")[0]
    return next((p for suffix in IMAGE_SUFFIXES if (p := path.with_name(stem + suffix)).is_file()), None)


def cases_csv(cases: list[Case], without_image: list[tuple[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "group", "height", "width"])
    rows: list[tuple[str, str, object, object]] = [(c.group, c.name, c.height, c.width) for c in cases]
    rows += [(group, case, "", "") for case, group in without_image]
    writer.writerows((case, group, height, width) for group, case, height, width in sorted(rows))
    return text.getvalue()


def toml_string(text: str) -> str:
    escaped = "".join(
        {"\\": "\\\\", '"': '\\"'}.get(c, c if c.isprintable() else f"\\u{min(ord(c), 0xFFFF):04x}") for c in text
    )
    return f'"{escaped}"'
