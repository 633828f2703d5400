"""What participants get: the rules, the list of cases, an example submission that is valid, and a guide."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, FormatRules
from evaluation.challenge.formats import filled
from evaluation.files.formats import format_of
from evaluation.files.formats.format import Example
from evaluation.files.formats.label_image import example_companion
from evaluation.files.results import __version__
from evaluation.files.results.files import write_atomically
from evaluation.files.schemas import json_schema
from evaluation.findings import fault, listed, quote
from evaluation.findings.errors import WrongUsage
from evaluation.folders.made_challenge import table_text
from evaluation.platform.algorithm import example_algorithm
from evaluation.platform.phase import schema_of_submission
from evaluation.platform.proposal import column_line, proposal_text
from evaluation.platform.wheel import WHEEL_FILE, wheel_files
from nuclei_metrics.model import Case

GUIDE_FILE = "GUIDE.md"
EXAMPLE_FOLDER = "example_submission"
EXAMPLE_CASES = (Case("example_1", "P1", 96, 128, 0.25, 0), Case("example_2", "P2", 64, 100, 0.25, 1))
CASES_SHOWN = 5
SCHEMA_FILE = "submission.schema.json"
ALGORITHM_FOLDER = "example_algorithm"
PROPOSAL_FILE = "PROPOSAL.md"


def write_kit(challenge_folder: Path, output: Path) -> tuple[str, ...]:
    """Write the files for participants, and PROPOSAL.md for the organiser; return their names. The reference is not
    opened.

    The rules, the cases, an example submission, its schema, the program as a wheel, in an algorithm phase an example
    algorithm, and a guide.

    If case names are hidden, cases.csv lists placeholders: the rules can still be checked. Raises
    ChallengeBroken, and WrongUsage if the folder has files already.
    """
    challenge = Challenge.load(challenge_folder)
    if output.is_dir() and any(output.iterdir()):
        raise WrongUsage(fault("file-exists", quote(output), wording="folder-not-empty"))
    hidden = challenge.submission.case_names == "hidden"
    shown = challenge.model_copy(update={"cases": EXAMPLE_CASES}) if hidden else challenge
    output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(challenge_folder / CHALLENGE_FILE, output / CHALLENGE_FILE)
    if hidden:
        rows = [[c.name, c.group, c.height, c.width, c.spacing_um, c.index] for c in EXAMPLE_CASES]
        header = ["case", "group", "height", "width", "spacing_um", "index"]
        write_atomically(output / CASES_FILE, table_text([header, *rows]))
    else:
        shutil.copyfile(challenge_folder / CASES_FILE, output / CASES_FILE)
    files = example_files(shown, shown.submission, shown.cases)
    for name, content in files.items():
        write_atomically(output / EXAMPLE_FOLDER / name, content)
    write_atomically(output / f"{EXAMPLE_FOLDER}.zip", packed(files))
    write_atomically(output / WHEEL_FILE, packed(wheel_files()))
    more = [WHEEL_FILE]
    if (schema := schema_of_submission(challenge)) is not None:
        write_atomically(output / SCHEMA_FILE, json.dumps(json_schema(schema), indent=1) + "\n")
        more.append(SCHEMA_FILE)
    for name, text in example_algorithm(challenge).items():
        write_atomically(output / ALGORITHM_FOLDER / name, text)
        more = [*more, f"{ALGORITHM_FOLDER}/"] if f"{ALGORITHM_FOLDER}/" not in more else more
    write_atomically(output / GUIDE_FILE, _guide(shown, sorted(files), tuple(more)))
    write_atomically(output / PROPOSAL_FILE, proposal_text(challenge))
    own = (GUIDE_FILE, CHALLENGE_FILE, CASES_FILE, f"{EXAMPLE_FOLDER}/", f"{EXAMPLE_FOLDER}.zip")
    return (*own, *more, PROPOSAL_FILE)


def packed(files: dict[str, bytes]) -> bytes:
    """A ZIP with bytes that depend only on names and contents."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in sorted(files):
            zipped.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), files[name], zipfile.ZIP_DEFLATED)
    return archive.getvalue()


# --- the guide --------------------------------------------------------------------------------------------------------


def _guide(challenge: Challenge, files: Sequence[str], more: Sequence[str]) -> str:
    """One page in Markdown: what to submit, how to check it, and how it will be scored.

    more  further files of the kit
    """
    rules = challenge.submission
    schema = f" `{SCHEMA_FILE}` is the JSON Schema of such a file." if SCHEMA_FILE in more else ""
    algorithm = ""
    if f"{ALGORITHM_FOLDER}/" in more:
        algorithm = (
            f"`{ALGORITHM_FOLDER}/` is a baseline to start from: `inference.py` reads the input and writes the output, "
            "and its Dockerfile makes the container."
        )
    sections = [
        f"# {challenge.name}: how to submit",
        _what_to_submit(challenge, files),
        algorithm,
        "## Classes\n\n" + "\n".join(_class_lines(challenge)),
        _how_numbers_are_meant(rules),
        "## Check it before you submit\n\n"
        "```\nevaluation validate --challenge . --submission your_folder_or.zip\n```\n\n"
        f"`evaluation` is the program that scores, version {__version__}, for Python 3.11 to 3.14 on Linux, macOS and "
        f"Windows: `pipx install ./{WHEEL_FILE}`.\n\n"
        f"The files in `{EXAMPLE_FOLDER}/` are valid.{schema} `validate` reports all errors in "
        "one run, in the words of the platform. `evaluation explain CODE` describes the code in square brackets.",
        _how_it_is_scored(challenge),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _what_to_submit(challenge: Challenge, files: Sequence[str]) -> str:
    rules = challenge.submission
    what = "one file for all cases" if rules.is_shared else "one file for each case"
    if "{class}" in rules.files:
        what += " and class"
    cost = {
        "worst": "A case without a file is scored as if nothing had been found in it.",
        "reject": "A submission that lacks a case is rejected.",
    }[rules.missing_case]
    words, any_name = format_of(rules.format).words, "; `*` matches any name" if "*" in rules.files else ""
    lines = ["## What to submit", ""]
    if rules.socket is not None:
        lines += [
            f"A container with an algorithm. The platform runs it once for each case, and reads its output "
            f"`{rules.socket}`: {words}.",
            "",
            f"To check predictions on your computer, put {what} into a folder, at `{rules.files}`{any_name}:",
            "",
        ]
    else:
        lines += [f"A folder, or a ZIP of it, with {what}: {words}. The paths are `{rules.files}`{any_name}, for "
                  "example:", ""]  # fmt: skip
    lines += [
        *[f"- `{name}`" for name in files[:CASES_SHOWN]],
        *([f"- and so on, {len(files):,} files in all"] if len(files) > CASES_SHOWN else []),
        "",
    ]
    for key, kind in rules.companions.items():
        if (pattern := rules.value(key)) is not None:
            lines.append(f"`{pattern}` is the {kind}, with the class of each nucleus.")
    if rules.case_names == "hidden":
        lines.append(f"The cases in `{CASES_FILE}` are examples; the scored cases are hidden.")
    else:
        lines.append(f"`{CASES_FILE}` lists all cases that are scored. {cost}")
    if "{class}" in rules.files:
        meaning = "is an error" if rules.missing_class_file == "reject" else "means that it has no nucleus of the class"
        lines.append(f"A class without a file in a case {meaning}.")
    return "\n".join(lines)


def _class_lines(challenge: Challenge) -> list[str]:
    rules = challenge.submission
    lines = []
    numbers, colours = rules.value("class_values"), rules.value("colours")
    for entry in challenge.classes:
        line = f"- {entry.name}"
        if aliases := [alias for alias in entry.aliases if alias]:
            line += f" (also {listed(aliases)})"
        if numbers is not None:
            line += f" = {' or '.join(map(str, numbers[entry.name]))}"
        lines.append(line if colours is None else f"{line} = {colours[entry.name]}")
    return lines


def _how_numbers_are_meant(rules: FormatRules) -> str:
    words = []
    if (units := rules.value("units")) is not None:
        words.append(f"Coordinates are x, y in {units}.")
    if (origin := rules.value("origin")) is not None:
        words.append(
            "Integer coordinates are pixel centres: the centre of the first pixel is 0, 0."
            if origin == "pixel_centre"
            else "Integer coordinates are pixel corners: the first pixel extends from 0, 0 to 1, 1."
        )
    if rules.coordinates == "slide":
        words.append("They count from the corner of the slide.")
    if (explain := format_of(rules.format).explain) is not None:
        words += explain(rules)
    if rules.is_shared:  # in an algorithm phase the name is that of the archive's file
        key = rules.case_key
        names = f"`{key}`" if isinstance(key, str) else ", ".join(f"`{key[case]}` ({case})" for case in key)
        words.append(f"A case is called {names}, where `{{case}}` is its name in `{CASES_FILE}`.")
    if rules.skip_classes:
        words.append(f"Annotations called {listed(rules.skip_classes)} are ignored.")
    return "## How numbers are read\n\n" + " ".join(words) if words else ""


def _how_it_is_scored(challenge: Challenge) -> str:
    how = "The nuclei of each class are counted per case. Their positions do not matter."
    if challenge.matching.rules:
        first = challenge.matching.rules[0]
        how = f"Nuclei are matched by `{first.rule}`. {first.words}"
    lines = ["## How it is scored", "", how]
    if challenge.ranking is not None and challenge.ranking.columns:
        columns = map(column_line, challenge.ranking.columns)
        lines += ["", "Ranked by:", "", *columns, "", "`evaluation explain PATH` describes a score."]
    return "\n".join(lines)


def example_files(challenge: Challenge, rules: FormatRules, cases: Sequence[Case]) -> dict[str, bytes]:
    """Create valid files for all cases by the rules of a side, by relative name."""
    format, made = format_of(rules.format), Example(rules, challenge.class_names)
    files: dict[str, bytes] = {}
    for file_cases in _files_of(rules.files, cases):
        for class_name in made.names if "{class}" in rules.files else ("",):
            name = filled(rules.files.replace("*", "1"), file_cases[0], class_name)
            files[name] = format.example(made, file_cases, class_name or None)
    for key in rules.companions:
        if (pattern := rules.value(key)) is not None:
            for file_cases in _files_of(pattern, cases):
                files[filled(pattern, file_cases[0])] = example_companion(made, key, file_cases)
    return files


def _files_of(pattern: str, cases: Sequence[Case]) -> list[Sequence[Case]]:
    """The cases of each file of a pattern."""
    return [[case] for case in cases] if "{case}" in pattern else [cases]
