"""Start a challenge folder: challenge.toml from a preset and from the content of the reference folder, and
cases.csv."""

from __future__ import annotations

import csv
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from evaluation.board.rules import gameable_ranking
from evaluation.board.sensitivity import study_sensitivity
from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, is_safe_name, preset_text
from evaluation.challenge.documents import (
    RECOMMENDED,
    read_challenge_text,
    read_rules,
    resolve_preset,
    with_overlap_rule,
)
from evaluation.challenge.formats import FORMATS, PointRules
from evaluation.files.formats import Request
from evaluation.files.formats.detect import find_image, list_images
from evaluation.files.results.files import write_atomically
from evaluation.files.submission.by_pattern import compile_pattern
from evaluation.findings import Finding, counted, fault, listed, quote, render_findings
from evaluation.findings.errors import ChallengeBroken, EvaluationError, InputFault, WrongUsage, faults_as
from evaluation.folders import made_challenge as challenges
from evaluation.folders.from_jobs import ending_of_files, find_jobs_file, find_phase
from evaluation.folders.look import look
from evaluation.folders.made_challenge import ClassNames, ClassPlan, holds_points, table_text
from evaluation.folders.pairs import pair_names
from evaluation.folders.source import NAMELESS, Size, Source, SourceFile, patients_of, size_beside
from evaluation.scoring.rasterise import rasterise_reference, reference_findings
from nuclei_metrics.model.annotations import STRATUM_MEAN

REFERENCE = "reference"
PLACES = ("files", "class_map", "class_table")
TOLD = ("shape", "tool")  # keys that the content of a file decides
PIXELS_LOOKED_AT, IMAGES_LOOKED_AT = 50_000_000, 300  # of all images together: more would take minutes
EXTRA_COLUMNS = {  # of cases.csv that not every challenge needs, and what they hold
    "spacing_um": "the pixel size in µm",
    "index": "the index of the case, from 0, in arrays of all cases",
    "offset_x": "the left edge of the image in its slide, px",
    "offset_y": "the upper edge of the image in its slide, px",
    "stratum": "the stratum of patients, such as the tissue, the organ or the centre",
    "area_mm2": "the annotated area in mm2; if empty, the area of the image",
}


@dataclass(frozen=True, slots=True)
class _ListedCase:
    """A row of cases.csv. ``size_yx`` is None if unknown; ``index`` is the index in arrays of all cases."""

    name: str
    group: str
    size_yx: Size | None
    index: int | None = None


def initialise_challenge(
    folder: Path, *, preset: str, name: str | None = None, sample: Path | None = None
) -> list[str]:
    """Write challenge.toml (the preset, and changes to it) and cases.csv into a folder; return a report in lines.

    Changes come from ``reference/``, if its files differ from the preset, and from a sample submission: files as
    participants submit them, or a predictions.json of an algorithm phase.

    Files of the reference become cases. Their sizes come from label images, or from the header of an image next to the
    reference (SVS, TIFF, PNG) named like the file or the case; otherwise from the outermost nucleus, with a warning.
    cases.csv has the columns that the rules need; unknown values are left empty. Existing files are never overwritten:
    raises WrongUsage. Raises ChallengeBroken for files that cannot be read, and for names that cases cannot have.
    """
    preset_text(preset)  # raises WrongUsage for an unknown one
    for file in (CHALLENGE_FILE, CASES_FILE):
        if (folder / file).exists():
            raise WrongUsage(fault("file-exists", quote(folder / file)))
    folder.mkdir(parents=True, exist_ok=True)
    challenge = Challenge.from_preset(preset, name=preset)
    document = challenges.tables_above(preset, name or folder.resolve().name)
    jobs_file = find_jobs_file(sample) if sample else None
    sample = None if jobs_file else sample
    cases = () if sample else find_cases(challenge, folder)
    looked, extents = _look_at(folder, sample, challenge, is_in_place=bool(cases))
    lines: list[str] = []
    findings: list[Finding] = []
    if looked is not None:
        document |= looked.tables(challenge, preset, is_in_place=bool(cases))
        challenge = Challenge.build(resolve_preset(dict(document)))
        sizes = looked.sizes()
        cases = tuple(replace(c, size_yx=c.size_yx or sizes.get(c.name)) for c in find_cases(challenge, folder))
        lines = [f"Reference {looked.reference.words()}", *_notes_of(looked.reference)]
        if looked.sample:
            named = () if looked.sample.numbers else looked.sample.classes
            lines += [f"Submission {looked.sample.words()}", *_notes_of(looked.sample)]
            lines += [*_foreign_classes(named, challenge)]
        findings = [*looked.reference.findings, *looked.plan.findings]
    reaching = [case.name for case in cases if case.size_yx is None and case.name in extents]
    cases = tuple(replace(case, size_yx=case.size_yx or extents.get(case.name)) for case in cases)
    if jobs_file is not None:
        cases, told = _take_jobs(jobs_file, challenge, cases, document)
        challenge, lines = Challenge.build(resolve_preset(dict(document))), lines + told
    if cases or looked is not None:
        document = with_overlap_rule(document)
        challenge = Challenge.build(resolve_preset(dict(document)))
    pattern, columns = challenge.reference.files, _needed_columns(challenge, cases)
    (folder / pattern.partition("{")[0].rpartition("/")[0]).mkdir(parents=True, exist_ok=True)
    heading = [
        f"Made by 'evaluation init': changes to the preset '{preset}'.",
        f"All rules of the preset, with comments: 'evaluation explain presets {preset}', docs/presets.md#{preset}.",
    ]
    write_atomically(folder / CHALLENGE_FILE, challenges.challenge_text(heading, document))
    write_atomically(folder / CASES_FILE, _cases_csv(cases, columns))
    has_pixels = challenge.reference.overlap is not None
    if preset == RECOMMENDED and has_pixels and cases:
        radius, told = _radius_for_sizes(folder, challenge, cases)
        lines += told
        if radius is not None:
            first, near = (rule.model_dump(exclude_none=True) for rule in challenge.matching.rules)
            document["matching"] = {"rules": [first, {**near, "radius_px": float(radius)}]}
            write_atomically(folder / CHALLENGE_FILE, challenges.challenge_text(heading, document))
    lines.append(f"Written: {folder / CHALLENGE_FILE} and {folder / CASES_FILE} ({counted(len(cases), 'case')}).")
    if reaching:
        names = ", ".join(map(quote, reaching[:3]))
        what = counted(len(reaching), "reference file")
        lines.append(
            f"No image next to {what} ({names}): height and width in {CASES_FILE} end with the outermost nucleus. "
            "Images are usually larger: correct the sizes, in px."
        )
    if without_size := [case.name for case in cases if case.size_yx is None]:
        is_own = "{case}" in pattern
        what = f"{'No image next to' if is_own else 'No size for'} {len(without_size)} "
        what += f"{'reference file' if is_own else 'image'}{'s' * (len(without_size) > 1)}"
        names = ", ".join(map(quote, without_size[:3]))
        todo = f"fill in their height and width in {CASES_FILE}, in px."
        lines.append(f"{what} ({names}): {todo}")
    if not cases:
        lines.append(f"Next: put the reference files at {pattern} and list the cases in {CASES_FILE}.")
    unknown = [column for column in columns if column != "index" or not cases]
    lines += [f"Fill in the column {column} of {CASES_FILE}: {EXTRA_COLUMNS[column]}." for column in unknown]
    if has_pixels:
        lines.append("Then: 'evaluation rasterise' shows how the overlap rule changes your reference.")
    return lines + render_findings([*findings, *gameable_ranking(challenge)])


def _notes_of(side: Source) -> list[str]:
    """Return the assumptions about the files of a side, without advice on options that only ``compare`` has."""
    return [note for note in side.notes if "--" not in note]


def _take_jobs(
    jobs_file: Path, challenge: Challenge, cases: Sequence[_ListedCase], document: dict[str, Any]
) -> tuple[tuple[_ListedCase, ...], list[str]]:
    """Write rules from the jobs of an algorithm phase into ``document``; return the cases, and a report in lines.

    Without a reference, the jobs define the cases.
    """
    if ending := ending_of_files(jobs_file, [case.name for case in cases]):
        pattern = challenge.reference.files.replace("{case}", f"{{case}}{ending}")
        document["reference"] = {**document.get("reference", {}), "files": pattern}
        cases = [_without_ending(case, ending) for case in cases]
    sizes = {case.name: case.size_yx for case in cases}
    found = find_phase(jobs_file, challenge.class_names, sizes, points=challenge.reference.are_points)
    document["submission"] = dict(found.table)
    lines = [*found.lines, *_foreign_classes(found.classes, challenge)]
    if document["preset"] == RECOMMENDED and issubclass(FORMATS[found.table["format"]], PointRules):
        document |= challenges.TABLES_OF_POINTS
    if found.table["format"] == "label_image" and "{class}" not in found.table["socket"] and len(challenge.classes) > 1:
        spellings = [spelling for rules in challenge.classes for spelling in (rules.name, *rules.aliases)]
        document["classes"] = [{"name": NAMELESS, "aliases": list(dict.fromkeys(["", *spellings]))}]
        document |= challenges.ONE_CLASS
        lines.append("Label images contain no classes, so all nuclei have one class.")
    named = () if cases else tuple(_ListedCase(name, name, None) for name in sorted(set(found.cases())))
    return (*cases, *named), lines


def _without_ending(case: _ListedCase, ending: str) -> _ListedCase:
    name = case.name.removesuffix(ending)
    return replace(case, name=name, group=name if case.group == case.name else case.group)


def _radius_for_sizes(
    folder: Path, challenge: Challenge, cases: Sequence[_ListedCase]
) -> tuple[float | None, list[str]]:
    """Return the radius that ``sensitivity`` advises for nuclei of this size, px, and a report in lines."""
    pixels = [math.prod(case.size_yx) if case.size_yx else 0 for case in cases]
    is_known = all(pixels) and not _needed_columns(challenge, cases)
    if not is_known or sum(pixels) > PIXELS_LOOKED_AT or len(pixels) > IMAGES_LOOKED_AT:
        return None, ["Run 'evaluation sensitivity' to check that the matching rules suit your nuclei."]
    try:
        radius = study_sensitivity(folder)["advised_radius_px"]
        _, prepared = rasterise_reference(folder)
    except (EvaluationError, InputFault) as error:
        said = "The matching rules were not checked against the nuclei: the reference cannot be scored as it is."
        return None, [said, *render_findings(error.findings)]
    told = render_findings(reference_findings(prepared))
    if radius is None or len(challenge.matching.rules) < 2:  # those of points have a radius alone
        return None, told
    first = (
        f"The second matching rule has a radius of {radius} px, as 'evaluation sensitivity' advises for nuclei of this "
        f"size. {challenge.matching.rules[0].short} stays the first: it gives no nucleus two partners."
    )
    return radius, [first, *told]


def refresh_cases(folder: Path) -> list[str]:
    """Look into the reference again: cases that are new are added to cases.csv, and open sizes filled in.

    The content of the file stays, also the rows of cases that are not in the reference. Returns a report in lines.
    Raises ChallengeBroken.
    """
    challenge = Challenge.build(read_rules(folder / CHALLENGE_FILE))
    cases = {case.name: case for case in find_cases(challenge, folder)}
    path = folder / CASES_FILE
    rows = list(csv.DictReader(read_challenge_text(path).splitlines())) if path.is_file() else []
    columns = list(rows[0]) if rows else ["case", "group", "height", "width"]
    columns += [column for column in _needed_columns(challenge, cases.values()) if column not in columns]
    number, filled, gone = len(rows), 0, sum(row["case"] not in cases for row in rows)
    for row in rows:
        case = cases.pop(row["case"], None)
        for column, size in zip(("height", "width"), (case and case.size_yx) or (), strict=False):
            if not (row.get(column) or "").strip():
                row[column] = str(size)
                filled += 1
    for case in cases.values():
        height, width = map(str, case.size_yx or ("", ""))
        index = "" if case.index is None else str(case.index)
        rows.append({"case": case.name, "group": case.group, "height": height, "width": width, "index": index})
    write_atomically(path, table_text([columns, *([row.get(column) or "" for column in columns] for row in rows)]))
    added, kept = counted(len(cases), "case"), counted(number, "row")
    lines = [f"{path}: {added} added, {counted(filled, 'size')} filled in, {kept} kept."]
    if gone:
        lines.append(f"{gone} of its cases have no reference file; remove their rows if they are not scored.")
    return lines


def _needed_columns(challenge: Challenge, cases: Iterable[_ListedCase]) -> tuple[str, ...]:
    """The columns of ``EXTRA_COLUMNS`` that a challenge needs."""
    sides, metrics = (challenge.reference, challenge.submission), challenge.metrics
    paths = challenge.ranking.paths if challenge.ranking else ()
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
        "stratum": any(path.endswith(STRATUM_MEAN) for path in paths),
        "area_mm2": bool(metrics.false_positives) and metrics.per == "mm2",
    }
    return tuple(column for column in EXTRA_COLUMNS if needed[column])


# --- rules that follow from what is found -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Looked:
    """Content of the reference and of a sample submission, and the scored classes."""

    reference: Source
    sample: Source | None
    plan: ClassPlan

    def tables(self, expected: Challenge, preset: str, *, is_in_place: bool) -> dict[str, Any]:
        """The tables of challenge.toml that differ from the ``expected`` rules of the preset. Raises WrongUsage.

        is_in_place  the files are where the preset expects them: if they have its format, only their classes differ
        """
        tables = _tables_of(self.reference, self.sample or self.reference, self.plan.classes, preset)
        if is_in_place and not self.reference.has_pictures and _has_form(expected, self.reference):
            ignore = {key: value for key, value in tables["reference"].items() if key == "ignore"}
            tables |= {"reference": ignore, "submission": {}}
        elif self.sample is None and preset != RECOMMENDED and _is_of(expected, self.reference):
            tables = {"reference": {key: tables["reference"][key] for key in PLACES if key in tables["reference"]}}
        return {key: value for key, value in tables.items() if value}

    def sizes(self) -> dict[str, Size]:
        """The sizes of cases that the sample shows."""
        if self.sample is None:
            return {}
        pairs = pair_names(self.reference.cases, self.sample.cases).pairs
        sizes = {name: self.sample.cases[other].size_yx for name, other in pairs.items()}
        return {name: size for name, size in sizes.items() if size is not None}


def _look_at(
    folder: Path, sample: Path | None, expected: Challenge, *, is_in_place: bool
) -> tuple[_Looked | None, Mapping[str, Size]]:
    """Look at ``reference/`` of a folder, and at a sample of a submission; None if the rules of the preset suit both.

    Also returns how far the outlines of each case reach, px, by the name of the case. Raises WrongUsage if nothing
    there can be read.
    """
    files = (folder / REFERENCE).rglob("*")
    if sample is None and not any(path.is_file() and not path.name.startswith(".") for path in files):
        return None, {}
    with tempfile.TemporaryDirectory(prefix="evaluation-init-") as workspace:
        try:
            reference = look(folder / REFERENCE, Path(tempfile.mkdtemp(dir=workspace)))
        except WrongUsage:
            if is_in_place:  # told when it is scored
                return None, {}
            raise
        is_in_px = reference.keys.get("units", "px") == "px"
        extents = {name: of.extent_yx for name, of in reference.cases.items() if is_in_px and of.extent_yx is not None}
        if is_in_place and not reference.has_pictures and _is_of(expected, reference):
            return None, extents
        looked = look(sample, Path(tempfile.mkdtemp(dir=workspace))) if sample else None
        return _Looked(reference, looked, challenges.plan_classes(reference, {}, None)), extents


def _foreign_classes(named: Iterable[str], challenge: Challenge) -> list[str]:
    """Report classes of a sample submission that the reference lacks."""
    foreign = [name for name in named if name != NAMELESS and name.casefold() not in challenge.class_ids()]
    if not foreign:
        return []
    return [
        f"The reference has no class {listed(foreign, 5)}: submissions with it are rejected. In {CHALLENGE_FILE}, add "
        "it to the aliases of the class that it means, or as a class with only_predicted = true."
    ]


def _is_of(challenge: Challenge, source: Source) -> bool:
    known = {*challenge.class_ids(), NAMELESS}
    return _has_form(challenge, source) and (
        bool(source.numbers) or all(name.casefold() in known for name in source.classes)
    )


def _has_form(challenge: Challenge, source: Source) -> bool:
    """Return whether the files of a reference have the format that a challenge expects, its shape, and its files of
    classes.

    Files of classes are not needed for a single class.
    """
    rules, file = challenge.reference, source.class_file
    is_one = len(source.classes) < 2
    is_same = all(source.keys[key] == rules.value(key) for key in TOLD if key in source.keys)
    return (
        source.format == rules.format
        and is_same
        and (file is None or is_one or rules.value(file.class_key) is not None)
    )


def _tables_of(reference: Source, submission: Source, plan: ClassNames, preset: str) -> dict[str, Any]:
    """Collect the tables that differ from the preset."""
    below = resolve_preset({"preset": preset})
    points = holds_points(reference) or holds_points(submission)
    tables: dict[str, Any] = {"classes": []}
    colours = {entry["name"]: entry.get("colour") for entry in below["classes"]}
    for name, aliases in plan:
        entry = {"name": name, "aliases": aliases, "colour": colours.get(name)}
        tables["classes"].append({key: value for key, value in entry.items() if value})
    for name, side, before in (("reference", reference, f"{REFERENCE}/"), ("submission", submission, "")):
        table = challenges.keys_of_side(side, plan, _pattern_of(side, before))
        is_asked = len(plan) > 1 or name == "reference"  # of one class, submissions need not say what is ambiguous
        if is_asked and challenges.needs_classes(side, plan) and (file := side.class_file) is not None:
            table[file.class_key] = _pattern_of(side, before, of_classes=True)
        is_same = table["format"] == below[name]["format"]
        tables[name] = {key: value for key, value in table.items() if not (is_same and below[name].get(key) == value)}
    if below["reference"].get("ignore", {}).get("classes") and not (challenges.has_ignored(reference) or points):
        tables["reference"]["ignore"] = {"classes": []}
    if preset == RECOMMENDED:
        tables |= challenges.TABLES_OF_POINTS if points else challenges.ONE_CLASS if len(plan) == 1 else {}
    return tables


def _pattern_of(side: Source, before: str, *, of_classes: bool = False) -> str:
    """The pattern of the files of a side, or of their files of classes, with {case}, {group} and {class}.

    Raises WrongUsage if they need several.
    """
    files = side.files()
    if of_classes:
        files = [
            replace(file, name=str(PurePosixPath(file.name).with_name(file.classes.name)))
            for file in files
            if file.classes is not None
        ]
    if side.is_shared:
        return before + files[0].name
    has_groups = any(file.group and f"{file.group}/" in file.name for file in files)
    patterns = {_pattern_of_file(file, has_groups) for file in files}
    if len(patterns) > 1 and not has_groups:  # a folder for each patient, with one image
        in_folders = [replace(file, group=PurePosixPath(file.name).parent.name) for file in files]
        of_folders = {_pattern_of_file(file, has_groups=True) for file in in_folders}
        patterns = of_folders if len(of_folders) == 1 else patterns
    if len(patterns) > 1:
        got = f"files that do not follow one pattern, such as {' and '.join(map(quote, sorted(patterns)[:2]))}"
        raise WrongUsage(fault("nothing-to-compare", quote(str(side.path), 200), wording="several-places", got=got))
    return before + patterns.pop()


def _pattern_of_file(file: SourceFile, has_groups: bool) -> str:
    *folders, name = re.sub(r"\.gz$", "", file.name, flags=re.IGNORECASE).split("/")
    fields = {"{class}": file.of_class, "{case}": file.case, "{group}": file.group if has_groups else ""}
    for field, text in fields.items():
        if text and folders and field != "{case}":
            folders = [field if folder == text else folder for folder in folders]
    forms, end = ["{class}_{case}", "{case}_{class}", "{case}"][0 if file.of_class else 2 :], ""
    if file.case in folders:
        folders = ["{case}" if folder == file.case else folder for folder in folders]
        forms, end = [*forms[:-1], *["{class}"] * bool(file.of_class), "{case}"], "(?![0-9A-Za-z])"
    starts = {form: form.format_map({"class": file.of_class, "case": file.case}) for form in forms}
    for form, start in starts.items():
        if re.match(re.escape(start) + end, name):
            return "/".join([*folders, form + name[len(start) :]])
    return "/".join([*folders, name])


# --- what is in the reference -----------------------------------------------------------------------------------------


def find_cases(challenge: Challenge, folder: Path) -> tuple[_ListedCase, ...]:
    """The cases of the reference in a folder, sorted by group and name. Raises ChallengeBroken."""
    find = _shared_cases if challenge.reference.is_shared else _own_cases
    with faults_as(ChallengeBroken):
        cases = list(find(challenge, folder))
    if all(case.group == case.name for case in cases):  # nothing tells of patients but the names
        patients = patients_of([case.name for case in cases])
        cases = [replace(case, group=patient or case.name) for case, patient in zip(cases, patients, strict=True)]
    return tuple(sorted(cases, key=lambda case: (case.group, case.name)))


def _request_of(challenge: Challenge, path: Path) -> Request:
    rules, where = challenge.reference, quote(path.name, 120)
    classes = challenge.class_table(rules)
    return Request(where=where, name=path.name, rules=rules, classes=classes, limits=challenge.limits)


def _fitting_files(challenge: Challenge, folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Files that fit the pattern of the reference, sorted, with the case and group that their path shows."""
    rules = challenge.reference
    spellings = {spelling.casefold(): spelling for spelling in challenge.class_spellings()}
    compiled = partial(compile_pattern, known={"class": spellings})
    read, companions = compiled(rules.files), [*map(compiled, filter(None, map(rules.value, rules.companions)))]
    for path in sorted(folder.rglob("*"), key=lambda path: path.parts):
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


def _own_cases(challenge: Challenge, folder: Path) -> Iterator[_ListedCase]:
    """The cases of a reference with one file, or one file per class, for each case."""
    files: dict[str, list[tuple[Path, Mapping[str, str]]]] = {}
    for path, fields in _fitting_files(challenge, folder):
        files.setdefault(fields["case"], []).append((path, fields))
    for case, parts in files.items():
        first = parts[0][0]
        groups = sorted({fields.get("group", case) for _, fields in parts})
        classes = [fields.get("class", "").casefold() for _, fields in parts]
        if len(groups) > 1 or len(set(classes)) < len(classes):
            fix = "Keep one file for each case, and give cases of different groups different names."
            raise _invalid_case(parts[-1][0], f"case {quote(case)} again", "every case once", fix)
        _check_plain_names(first, case, groups[0], "Rename the file")
        sizes = (_size_of(path, case, _request_of(challenge, path)) for path, _ in parts)
        yield _ListedCase(case, groups[0], next(filter(None, sizes), None))


def _size_of(path: Path, case: str, request: Request) -> Size | None:
    """Height and width of an image next to a reference file, otherwise from the file itself. Raises InputFault."""
    beside = size_beside(path, case, Path(path.name.removesuffix(".gz")).stem)
    if beside is not None:
        return beside
    with path.open("rb") as stream:
        return find_image(path, stream, request, case).size_yx


def _shared_cases(challenge: Challenge, folder: Path) -> Iterator[_ListedCase]:
    """List the cases in files that contain all cases, by name or by index."""
    key = challenge.reference.case_key
    case_of = {} if isinstance(key, str) else {name: {"case": case} for case, name in key.items()}
    read_key = compile_pattern(key if isinstance(key, str) else "{case}", {})
    are_results = challenge.submission.image_ids
    names = set()
    for path, _ in _fitting_files(challenge, folder):
        with path.open("rb") as stream:
            images = list_images(stream, _request_of(challenge, path))
        digits = len(str(len(images)))
        for image in images:
            fields = next((case_of[name] for name in image.names if name in case_of), None)
            fields = fields or next(filter(None, map(read_key, image.names)), None)
            if not image.names:
                fields = {"case": f"image_{image.index:0{digits}}"}
            if fields is None or fields["case"] in names:
                continue
            names.add(fields["case"])
            group = fields.get("group", fields["case"])
            _check_plain_names(path, fields["case"], group, "Rename the image")
            index = int(image.id) if are_results and image.id and re.fullmatch("[0-9]{1,9}", image.id) else image.index
            yield _ListedCase(fields["case"], group, image.size_yx, index)


def _check_plain_names(path: Path, case: str, group: str, what: str) -> None:
    """Refuse a case, or group, that has no plain name. Raises ChallengeBroken."""
    if not (is_safe_name(case) and is_safe_name(group)):
        fix = f"{what}: letters, digits and any of ' _-.+@', and names that Windows allows."
        raise _invalid_case(path, f"case {quote(case)}", "a plain name", fix)


def _invalid_case(path: Path, got: str, expected: str, fix: str) -> ChallengeBroken:
    return ChallengeBroken(fault("invalid-cases", quote(path), got=got, expected=expected, fix=fix))


# --- what is written --------------------------------------------------------------------------------------------------


def _cases_csv(cases: Iterable[_ListedCase], columns: Iterable[str]) -> str:
    rows = []
    for row, case in enumerate(cases):
        known = {"index": row if case.index is None else case.index}
        rows.append([case.name, case.group, *(case.size_yx or ("", "")), *(known.get(c, "") for c in columns)])
    return table_text([["case", "group", "height", "width", *columns], *rows])
