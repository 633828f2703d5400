"""Files that hold all cases: one, or one for each class. Which cases they hold is known when they have been read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.challenge import Challenge
from evaluation.findings import Finding, fault, quote
from evaluation.submission.completeness import missing_class_files, no_case_found, unknown_class, unused_files
from evaluation.submission.found import Layout, SharedFile
from evaluation.submission.names import PLATFORM_CSV
from evaluation.submission.patterns import ParsedName, Patterns, find_wrapper


def find_shared_files(names: Sequence[str], challenge: Challenge) -> Layout:
    """The files that fit a pattern without {case}; ``names`` are sorted."""
    patterns = Patterns(challenge)
    wrapper = find_wrapper(names, patterns.fits)
    found = [patterns.read(name, name[len(wrapper) :]) if name.startswith(wrapper) else None for name in names]
    found_names = [parsed for parsed in found if parsed is not None and has_known_group(parsed, patterns)]
    if not found_names and is_uploaded_csv(names, challenge):
        found_names = [ParsedName(PLATFORM_CSV, "files", {})]
    if not found_names:
        return Layout({}, frozenset(case.name for case in challenge.cases), (no_case_found(names, challenge),))
    files, faults = by_class(found_names, challenge)
    used = {parsed.name for parsed in found_names}
    unused = [name for name in names if name not in used]
    if "{class}" in challenge.submission.files and files:
        faults += missing_class_files(challenge, {"": {file.class_id for file in files}})
    findings = sorted([*faults, *unused_files(unused, challenge)])
    return Layout({}, frozenset(), tuple(findings), tuple(sorted(files, key=lambda file: (file.class_id, file.name))))


def has_known_group(parsed: ParsedName, patterns: Patterns) -> bool:
    return "group" not in parsed.fields or parsed.fields["group"] in patterns.known["group"].values()


def is_uploaded_csv(names: Sequence[str], challenge: Challenge) -> bool:
    """Whether the file that is asked for was handed in as it is, so that the platform gave it another name."""
    pattern = challenge.submission.files.lower()
    at_top = [name for name in names if "/" not in name and name.lower().endswith(".csv")]
    return pattern.endswith(".csv") and "{class}" not in pattern and at_top == [PLATFORM_CSV]


def by_class(found_names: Iterable[ParsedName], challenge: Challenge) -> tuple[list[SharedFile], list[Finding]]:
    """The files with the classes of their names; files of unknown classes and second files are faults."""
    class_ids = challenge.class_ids()
    files: dict[tuple[str | None, int], SharedFile] = {}
    faults = []
    for parsed in found_names:
        class_id = 0 if challenge.submission.tells_class else 1
        if "class" in parsed.fields:
            class_id = class_ids.get(parsed.fields["class"].casefold(), 0)
            if class_id == 0:
                faults.append(unknown_class(challenge, quote(parsed.name, 120), parsed.fields["class"]))
                continue
        file = files.setdefault((parsed.fields.get("group"), class_id), SharedFile(parsed.name, class_id))
        if file.name != parsed.name:
            faults.append(
                fault("duplicate-file", quote(parsed.name, 120), wording="twice-for-all-cases", other=file.name)
            )
    return list(files.values()), faults
