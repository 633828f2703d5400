"""What is missing in a submission and what is extra, in the same words for all layouts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from evaluation.challenge import Challenge
from evaluation.findings import EXAMPLES_SHOWN, Finding, did_you_mean, fault, quote
from evaluation.model import Case
from evaluation.submission.names import ROOT
from evaluation.submission.patterns import case_key, fill_pattern


def collection_findings(challenge: Challenge, mentioned: Collection[str], unknown: Mapping[str, int]) -> list[Finding]:
    """What is missing and extra in files of all cases.

    mentioned   names of the cases that they say something about
    unknown     names in them that stand for no case, and the number of entries of each
    """
    found = [
        missing_case(challenge, case, "no entry", f"entries for {quote(case_key(challenge, case), 120)}")
        for case in challenge.cases
        if case.name not in mentioned
    ]
    keys = [case_key(challenge, case) for case in challenge.cases]
    lacking = [case_key(challenge, case) for case in challenge.cases if case.name not in mentioned]
    unknown = {name: entries for name, entries in unknown.items() if name not in challenge.submission.skip_cases}
    for index, (name, entries) in enumerate(sorted(unknown.items())[:EXAMPLES_SHOWN]):
        uncounted = max(0, len(unknown) - EXAMPLES_SHOWN) if index == EXAMPLES_SHOWN - 1 else 0
        found.append(
            fault(
                "unknown-case",
                f"{entries:,} entries for {quote(name, 120)}",
                wording="entries",
                total=1 + uncounted,
                known=keys,
                suggestion=did_you_mean(name, lacking),
            )
        )
    return sorted(found)


def missing_case(challenge: Challenge, case: Case, got: str, needed: str) -> Finding:
    """A case without predictions: an error or a warning, as the challenge says. ``needed`` is what to add."""
    where = f"case {quote(case.name)}"
    if challenge.submission.missing_case == "reject":
        return fault("missing-case", where, got=got, right=needed, empty=empty_file(challenge))
    return fault("missing-case-worst", where, got=got, right=needed)


def empty_file(challenge: Challenge) -> str:
    """What to write for an image without nuclei."""
    rules = challenge.submission
    if rules.is_shared:
        return "as well"
    return "write an image of zeros" if rules.dense else "write a file without any"


def missing_class_files(challenge: Challenge, present: Mapping[str, Collection[int]]) -> Iterator[Finding]:
    """Classes without a file where the challenge asks for all of them.

    present   by name of the case: the classes that it has a file for; "" stands for files of all cases
    """
    if challenge.submission.missing_class_file == "empty":
        return
    cases = {case.name: case for case in challenge.cases}
    for name, class_ids in sorted(present.items()):
        for class_id, class_name in enumerate(challenge.class_names, start=1):
            if class_id not in class_ids:
                case = cases[name] if name else challenge.cases[0]
                right = fill_pattern(challenge.submission.files, challenge, case, class_name)
                where = f"case {quote(name)}, class {quote(class_name)}" if name else f"class {quote(class_name)}"
                yield fault("missing-class-file", where, right=right, empty=empty_file(challenge))


def unknown_class(challenge: Challenge, where: str, spelling: str, *, suggest: bool = True) -> Finding:
    """A class in the name of a file that is not scored. Looking for a close name takes time: ``suggest`` it or not."""
    wording = "" if suggest else "no-suggestion"
    return fault("unknown-class", where, wording=wording, name=spelling, known=challenge.class_names)


def unused_files(names: Sequence[str], challenge: Challenge) -> Iterator[Finding]:
    """A warning about files that no pattern fits: three are named, the others counted."""
    for index, name in enumerate(names[:EXAMPLES_SHOWN]):
        uncounted = len(names) - EXAMPLES_SHOWN if index == EXAMPLES_SHOWN - 1 else 0
        yield fault("unused-file", quote(name, 120), total=1 + uncounted, pattern=challenge.submission.files)


def no_case_found(names: Sequence[str], challenge: Challenge) -> Finding:
    """The finding for a submission without any file at a path where a prediction is expected."""
    case, class_name = likely_example(names, challenge)
    pattern = challenge.submission.files
    right = "" if case is None else fill_pattern(pattern, challenge, case, class_name)
    if not names:
        return fault("no-case-found", ROOT, example=right or pattern, pattern=pattern)
    return fault("no-case-found", ROOT, wording="among-files", example=right or pattern, pattern=pattern, names=names)


def likely_example(names: Iterable[str], challenge: Challenge) -> tuple[Case | None, str | None]:
    """A case, and a class, whose name occurs in the name of a file; else the first case."""
    cases = {case.name: case for case in challenge.cases}
    class_ids = challenge.class_ids()
    for name in names:
        words = [word for part in name.split("/") for word in (part, part.rpartition(".")[0])]
        case = next((cases[word] for word in words if word in cases), None)
        if case is not None:
            class_id = next((id for word in words if (id := class_ids.get(word.casefold(), 0)) > 0), 1)
            return case, challenge.class_names[class_id - 1]
    return (challenge.cases[0] if challenge.cases else None), None
