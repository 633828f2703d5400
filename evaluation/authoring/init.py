"""Start a challenge folder: challenge.toml from a preset, and cases.csv from what lies in the reference folder."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.authoring.challenge_text import challenge_text, heading_of, table_text, tables_above, toml_value
from evaluation.authoring.names import patients_of
from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, is_safe_name, preset_text
from evaluation.challenge.documents import RECOMMENDED, parse_toml, read_rules, read_text, resolve_preset
from evaluation.decoding.pixels import IMAGE_SUFFIXES, read_image_size
from evaluation.findings import Finding, counted, fault, quote, render_findings
from evaluation.findings.errors import ChallengeBroken, EvaluationError, InputFault, WrongUsage, faults_as
from evaluation.formats import Request
from evaluation.formats.images import DOCUMENTS, find_image, list_images
from evaluation.leaderboard.gameable import gameable_ranking
from evaluation.model import OF_STRATA
from evaluation.results.files import write_atomically
from evaluation.study.sensitivity import advised_radius, study_sensitivity
from evaluation.submission.by_pattern import compile_pattern

PIXELS_LOOKED_AT = 50_000_000  # of all images together: more would take minutes
PUBLISH = """
[publish]
# What metrics.json holds on the platform, where everybody may read it: ranked (columns and minimum scores, with
# their parts) | all (every score). details.json, for administrators, holds all. What scores reveal:
# docs/security.md.
metrics = "ranked"
"""

if TYPE_CHECKING:
    from evaluation.authoring.init_by_looking import Looked

COLUMNS = {  # of cases.csv that not every challenge needs, and what they hold
    "spacing_um": "the size of a pixel in um",
    "index": "the position of the case, from 0, in arrays that hold all cases",
    "offset_x": "the left edge of the image in its slide, px",
    "offset_y": "the upper edge of the image in its slide, px",
    "stratum": "what patients belong to, such as the tissue, the organ or the centre",
    "area_mm2": "the annotated area in mm2; where it is empty that of the image counts",
}


@dataclass(frozen=True, slots=True)
class FoundCase:
    """A case of the reference. ``size_yx`` is None if nothing tells it; ``index`` is that in arrays of all cases."""

    name: str
    group: str
    size_yx: tuple[int, int] | None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class StartedChallenge:
    """What ``initialise_challenge`` wrote.

    columns  of cases.csv that the rules need and that are to be filled in
    drawn    whether the reference has outlines or pixels, so that there is something to rasterise
    findings  warnings about the ranking of the preset, and what was not read
    notes     what was found, in words, if the rules follow from it
    """

    folder: Path
    cases: tuple[FoundCase, ...]
    reference_files: str
    columns: tuple[str, ...]
    drawn: bool
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """What to do next, in words."""
        number = f"{len(self.cases)} {'case' if len(self.cases) == 1 else 'cases'}"
        written = f"Written: {self.folder / CHALLENGE_FILE} and {self.folder / CASES_FILE} ({number})."
        lines = [*self.notes, written]
        without_size = [case.name for case in self.cases if case.size_yx is None]
        if without_size:
            names = ", ".join(map(quote, without_size[:3]))
            what = "No image beside" if "{case}" in self.reference_files else "No size for"
            of = "reference file" if "{case}" in self.reference_files else "image"
            of += "s" * (len(without_size) > 1)
            lines.append(
                f"{what} {len(without_size)} {of} ({names}): their height and width are left "
                f"open in {CASES_FILE}; fill them in, in px."
            )
        if not self.cases:
            lines.append(f"Next: put the reference files at {self.reference_files} and list the cases in {CASES_FILE}.")
        lines += [f"Fill in the column {column} of {CASES_FILE}: {COLUMNS[column]}." for column in self.columns]
        if self.drawn:
            lines.append("Then: 'evaluation rasterise' shows what the overlap rules do to your reference.")
        lines += render_findings(self.findings)
        return lines


def initialise_challenge(
    folder: Path, *, preset: str, name: str | None = None, sample: Path | None = None
) -> StartedChallenge:
    """Write challenge.toml (the preset, and what differs from it) and cases.csv into a folder.

    What differs is what is found, if ``reference/`` holds files in another form than the preset's, or a sample of a
    submission is given.

    What is in the reference already becomes cases. Their sizes come from the reference itself where it tells, as label
    images do, or from the header of an image beside it (SVS, TIFF, PNG) that is called like the file or the case.
    cases.csv has the columns that the rules need; what is not known is left empty. Existing files are never
    overwritten: raises WrongUsage. Raises ChallengeBroken for files that cannot be read, and for names that cases
    cannot have.
    """
    preset_rules = parse_toml(preset_text(preset))
    for file in (CHALLENGE_FILE, CASES_FILE):
        if (folder / file).exists():
            raise WrongUsage(fault("file-exists", quote(folder / file)))
    folder.mkdir(parents=True, exist_ok=True)
    challenge = Challenge.from_preset(preset, name=preset)
    title = name or folder.resolve().name
    looked: Looked | None = None
    cases = () if sample else find_cases(challenge, folder)
    if sample or has_files(folder / "reference"):
        from evaluation.authoring.init_by_looking import has_other_content, text_by_looking

    if sample or (has_files(folder / "reference") and (not cases or has_other_content(folder, challenge))):
        looked = text_by_looking(folder, preset, title, sample, in_place=bool(cases))
        challenge = Challenge.build(resolve_preset(parse_toml(looked.text)))
        sizes = looked.sizes
        cases = tuple(
            replace(case, size_yx=case.size_yx or sizes.get(case.name)) for case in find_cases(challenge, folder)
        )
    pattern = challenge.reference.files
    columns = needed_columns(challenge, cases)
    (folder / pattern.partition("{")[0].rpartition("/")[0]).mkdir(parents=True, exist_ok=True)
    text = looked.text if looked else challenge_text(heading_of(preset), tables_above(preset, title))
    write_atomically(folder / CHALLENGE_FILE, text + ("" if "publish" in preset_rules else PUBLISH))
    write_atomically(folder / CASES_FILE, cases_csv(cases, columns))
    notes = list(looked.notes if looked else ())
    if preset == RECOMMENDED and challenge.reference.overlap is not None and cases:
        notes += suit_to_sizes(folder, challenge, cases)
    open_columns = tuple(column for column in columns if column != "index" or not cases)
    return StartedChallenge(
        folder,
        cases,
        pattern,
        open_columns,
        drawn=challenge.reference.overlap is not None,
        findings=(*(looked.findings if looked else ()), *gameable_ranking(challenge)),
        notes=tuple(notes),
    )


def suit_to_sizes(folder: Path, challenge: Challenge, cases: Sequence[FoundCase]) -> list[str]:
    """Write the radius that ``sensitivity`` advises for nuclei of this size into challenge.toml; what was done, or why
    not, in words."""
    pixels = [math.prod(case.size_yx) if case.size_yx else 0 for case in cases]
    unknown = "" if all(pixels) else "not all sizes of images are known"
    if unknown or sum(pixels) > PIXELS_LOOKED_AT or needed_columns(challenge, cases):
        why = unknown or f"not looked at here, where images have more than {PIXELS_LOOKED_AT:,} px in all"
        if not unknown and needed_columns(challenge, cases):
            why = f"{CASES_FILE} is to be filled in first"
        return [f"Whether the matching rules suit the sizes of your nuclei 'evaluation sensitivity' says ({why})."]
    try:
        document = study_sensitivity(folder)
    except (EvaluationError, InputFault):
        return ["Whether the matching rules suit the sizes is not known: the reference cannot be scored as it is."]
    radius = advised_radius(document)
    if radius is None:
        return []
    first, *others = challenge.matching.rules
    near = next((rule for rule in others if rule.rule == "centroid_closest_first"), None)
    if near is None:
        return []
    rules = [first, near.model_copy(update={"radius_px": float(radius)})]
    text = read_text(folder / CHALLENGE_FILE)
    tables = [
        "\n".join(["", "[[matching.rules]]", *(f"{key} = {toml_value(value)}" for key, value in table.items()), ""])
        for table in (rule.model_dump(exclude_none=True) for rule in rules)
    ]
    heading = "\n# The second radius suits the sizes of your nuclei: 'evaluation sensitivity'."
    write_atomically(folder / CHALLENGE_FILE, text + heading + "".join(tables))
    return [
        f"The second matching rule has a radius of {radius} px, as 'evaluation sensitivity' advises for nuclei of this "
        f"size. {first.short} stays the first: it gives no nucleus two partners."
    ]


def has_files(folder: Path) -> bool:
    return any(path.is_file() and not path.name.startswith(".") for path in folder.rglob("*"))


def refresh_cases(folder: Path) -> list[str]:
    """Look into the reference again: cases that are new are added to cases.csv, and open sizes filled in.

    What stands in the file stays, also the rows of cases that are not in the reference. Gives what was done, in words.
    Raises ChallengeBroken.
    """
    challenge = Challenge.build(read_rules(folder / CHALLENGE_FILE))
    found = {case.name: case for case in find_cases(challenge, folder)}
    path = folder / CASES_FILE
    known = list(csv.DictReader(read_text(path).splitlines())) if path.is_file() else []
    columns = list(known[0]) if known else ["case", "group", "height", "width"]
    columns += [column for column in needed_columns(challenge, found.values()) if column not in columns]
    filled = 0
    for row in known:
        case = found.pop(row["case"], None)
        if case is None or case.size_yx is None:
            continue
        for column, size in zip(("height", "width"), case.size_yx, strict=True):
            if not (row.get(column) or "").strip():
                row[column] = str(size)
                filled += 1
    gone = len(known) - len({row["case"] for row in known} & {case.name for case in find_cases(challenge, folder)})
    for case in found.values():
        height, width = case.size_yx or ("", "")
        index = "" if case.index is None else str(case.index)
        row = {"case": case.name, "group": case.group, "height": str(height), "width": str(width), "index": index}
        known.append(row)
    rows = [[(row.get(column) or "") for column in columns] for row in known]
    write_atomically(path, table_text([columns, *rows]))
    kept = counted(len(known) - len(found), "row")
    lines = [f"{path}: {counted(len(found), 'case')} added, {counted(filled, 'size')} filled in, {kept} kept."]
    if gone:
        lines.append(f"{gone} of its cases have no reference file; remove their rows if they are not scored.")
    return lines


def needed_columns(challenge: Challenge, cases: Iterable[FoundCase]) -> tuple[str, ...]:
    """The columns of ``COLUMNS`` that a challenge needs."""
    sides, metrics = (challenge.reference, challenge.submission), challenge.metrics
    paths = [column.path for column in challenge.ranking.columns] if challenge.ranking else []
    paths += challenge.confidence.columns if challenge.confidence else ()
    slide = any(rules.coordinates == "slide" for rules in sides)
    needed = {
        "spacing_um": any(rules.value("units") not in (None, "px") for rules in sides)
        or any(rule.needs_spacing for rule in challenge.matching.rules)
        or any(measure.endswith("_um") for measure in metrics.measures)
        or metrics.tolerance_um is not None,
        "index": any(rules.needs_index for rules in sides) or any(case.index is not None for case in cases),
        "offset_x": slide,
        "offset_y": slide,
        "stratum": any(path.endswith(OF_STRATA) for path in paths),
        "area_mm2": bool(metrics.false_positives) and metrics.per == "mm2",
    }
    return tuple(column for column in COLUMNS if needed[column])


# --- what is in the reference -----------------------------------------------------------------------------------------


def find_cases(challenge: Challenge, folder: Path) -> tuple[FoundCase, ...]:
    """The cases of the reference in a folder, sorted by group and name. Raises ChallengeBroken."""
    find = shared_cases if challenge.reference.is_shared else own_cases
    with faults_as(ChallengeBroken):
        found = list(find(challenge, folder))
    if all(case.group == case.name for case in found):  # nothing tells of patients but the names
        patients = patients_of([case.name for case in found])
        found = [replace(case, group=patient or case.name) for case, patient in zip(found, patients, strict=True)]
    return tuple(sorted(found, key=lambda case: (case.group, case.name)))


def request_of(challenge: Challenge, path: Path) -> Request:
    rules = challenge.reference
    return Request(
        where=quote(path.name, 120),
        name=path.name,
        rules=rules,
        classes=challenge.class_table(rules),
        limits=challenge.limits,
    )


def reference_files(challenge: Challenge, folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Files that fit the pattern of the reference, sorted, with the case and group that their path tells."""
    rules = challenge.reference
    spellings = {spelling.casefold(): spelling for spelling in challenge.class_spellings()}
    known = {"class": spellings}
    read = compile_pattern(rules.files, known)
    companions = [
        compile_pattern(pattern, known) for pattern in map(rules.value, rules.companions) if pattern is not None
    ]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        name = name if rules.is_shared else name.removesuffix(".gz")
        fields = read(name)
        if fields is None or not path.is_file() or any(fits(name) is not None for fits in companions):
            continue
        exact = rules.files
        for field, text in fields.items():
            exact = exact.replace(f"{{{field}}}", text)
        if exact == name and fields.get("class", next(iter(spellings))).casefold() in spellings:
            yield path, fields


def own_cases(challenge: Challenge, folder: Path) -> Iterator[FoundCase]:
    """The cases of a reference that has a file, or one for each class, for each of them."""
    files: dict[str, list[tuple[Path, Mapping[str, str]]]] = {}
    for path, fields in reference_files(challenge, folder):
        files.setdefault(fields["case"], []).append((path, fields))
    for case, of_case in files.items():
        first = of_case[0][0]
        groups = sorted({fields.get("group", case) for _, fields in of_case})
        classes = [fields.get("class", "").casefold() for _, fields in of_case]
        if len(groups) > 1 or len(set(classes)) < len(classes):
            fix = "Keep one file for each case, and give cases of different groups different names."
            raise invalid_case(of_case[-1][0], f"case {quote(case)} again", "every case once", fix)
        check_names(first, case, groups[0], "Rename the file")
        sizes = (size_of(path, case, request_of(challenge, path)) for path, _ in of_case)
        yield FoundCase(case, groups[0], next(filter(None, sizes), None))


def size_of(path: Path, case: str, request: Request) -> tuple[int, int] | None:
    """Height and width of an image beside a reference file, else what the file itself tells. Raises InputFault."""
    stem = Path(path.name.removesuffix(".gz")).stem
    beside = (path.with_name(name + suffix) for name in (case, stem) for suffix in IMAGE_SUFFIXES)
    image = next((image for image in beside if image.is_file()), None)
    if image is not None:
        return read_image_size(image)
    with path.open("rb") as stream:
        return find_image(path, stream, request, case).size_yx


def shared_cases(challenge: Challenge, folder: Path) -> Iterator[FoundCase]:
    """The cases that the files of all cases name, or hold at some place."""
    key = challenge.reference.case_key
    case_of = {} if isinstance(key, str) else {name: {"case": case} for case, name in key.items()}
    read_key = compile_pattern(key if isinstance(key, str) else "{case}", {})
    of_results = challenge.submission.format in DOCUMENTS
    seen = set()
    for path, _ in reference_files(challenge, folder):
        with path.open("rb") as stream:
            images = list_images(stream, request_of(challenge, path))
        digits = len(str(len(images)))
        for image in images:
            fields = next((case_of[name] for name in image.names if name in case_of), None)
            fields = fields or next(filter(None, map(read_key, image.names)), None)
            if not image.names:
                fields = {"case": f"image_{image.index:0{digits}}"}
            if fields is None or fields["case"] in seen:
                continue
            seen.add(fields["case"])
            group = fields.get("group", fields["case"])
            check_names(path, fields["case"], group, "Rename the image")
            index = int(image.id) if of_results and image.id and re.fullmatch("[0-9]{1,9}", image.id) else image.index
            yield FoundCase(fields["case"], group, image.size_yx, index)


def check_names(path: Path, case: str, group: str, what: str) -> None:
    """Refuse a case, or group, that has no plain name. Raises ChallengeBroken."""
    if not (is_safe_name(case) and is_safe_name(group)):
        fix = f"{what}: letters, digits and any of ' _-.+@'."
        raise invalid_case(path, f"case {quote(case)}", "a plain name", fix)


def invalid_case(path: Path, got: str, expected: str, fix: str) -> ChallengeBroken:
    return ChallengeBroken(fault("invalid-cases", quote(path), got=got, expected=expected, fix=fix))


# --- what is written --------------------------------------------------------------------------------------------------


def cases_csv(cases: Iterable[FoundCase], columns: Iterable[str]) -> str:
    rows = []
    for row, case in enumerate(cases):
        known = {"index": row if case.index is None else case.index}
        rows.append([case.name, case.group, *(case.size_yx or ("", "")), *(known.get(c, "") for c in columns)])
    return table_text([["case", "group", "height", "width", *columns], *rows])
