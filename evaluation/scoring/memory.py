"""How much memory a case takes, estimated before it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from evaluation.challenge import Challenge, FormatRules
from evaluation.execution.pool import CASE_BYTES
from evaluation.findings.errors import InputFault
from evaluation.model import Annotations, Case, Instances
from evaluation.scoring.read import SharedCases, reference_files
from evaluation.submission import CaseFile, SubmissionFiles

BYTES_PER_PIXEL = 16
BYTES_PER_TEXT_BYTE = 10  # and of a compressed label image, for its runs
ROWS_AT_ONCE = 2048  # of a TIFF of labels; its tiles are seldom higher
GZIP_RATIO = 12  # of annotations as text


def memory_needs(
    challenge: Challenge,
    cases: Sequence[Case],
    *,
    folder: Path | None = None,
    shared: SharedCases | None = None,
    files: SubmissionFiles | None = None,
    contents: Mapping[str, Annotations | Sequence[CaseFile]] | None = None,
) -> list[int]:
    """Bytes of memory that each case takes beyond the program itself, by the formula above.

    folder     of the reference, if it is read
    shared     what reference files that hold all cases say
    files      of the submission, if it is read, with ``contents``: what belongs to each case
    """
    needs = []
    for case in cases:
        sides = [0]
        if shared is not None:
            sides.append(BYTES_PER_TEXT_BYTE * array_bytes(shared.cases[case.name]))
        elif folder is not None:
            of_reference: Sequence[CaseFile] = ()
            with suppress(InputFault):  # told when they are read
                of_reference = reference_files(challenge, folder, case)
            file_bytes = unpacked_bytes(of_reference, partial(size_of, folder))
            sides.append(side_bytes(challenge.reference, case, file_bytes))
        content = (contents or {}).get(case.name)
        if isinstance(content, Annotations):
            sides.append(BYTES_PER_TEXT_BYTE * array_bytes(content))
        elif content is not None and files is not None:
            sides.append(side_bytes(challenge.submission, case, unpacked_bytes(content, files.size)))
        needs.append(CASE_BYTES + 3 * max(sides) // 2)
    return needs


def side_bytes(rules: FormatRules, case: Case, file_bytes: int) -> int:
    """Memory that reading one side of a case takes.

    >>> from evaluation.challenge import Challenge
    >>> rules = Challenge.from_preset("monusac2020", name="an example")
    >>> case = Case("image", "patient", 1000, 1000)
    >>> side_bytes(rules.reference, case, 200_000), side_bytes(rules.submission, case, 200_000)
    (2000000, 16200000)
    """
    if rules.dense:
        needs_plane = rules.value("class_channel") is not None or rules.value("components") is not None
        if rules.files.endswith((".tif", ".tiff")) and not needs_plane:  # decoded in bands
            rows = min(case.height, ROWS_AT_ONCE)
            return BYTES_PER_PIXEL * rows * case.width + BYTES_PER_TEXT_BYTE * file_bytes
        return BYTES_PER_PIXEL * case.height * case.width + file_bytes
    return BYTES_PER_TEXT_BYTE * file_bytes


def size_of(folder: Path, name: str) -> int:
    return (folder / name).stat().st_size


def unpacked_bytes(files: Sequence[CaseFile], size: Callable[[str], int]) -> int:
    """Bytes of the files of a case, up to one that cannot be opened; of one packed with gzip about what is in it."""
    total = 0
    with suppress(InputFault, OSError, RuntimeError):
        for name in (name for file in files for name in file.names):
            total += size(name) * (GZIP_RATIO if name.endswith(".gz") else 1)
    return total


def array_bytes(annotations: Annotations) -> int:
    """Bytes of the coordinates or runs that are in memory already."""
    arrays = (
        part.run_start if isinstance(part, Instances) else getattr(part, "points_xy", None)
        for part in annotations.parts
    )
    return sum(array.nbytes for array in arrays if array is not None)
