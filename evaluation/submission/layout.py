"""Which file is which case and class. What is expected comes from cases.csv and challenge.toml, never from files."""

from __future__ import annotations

import stat
from pathlib import Path

from evaluation.challenge import Challenge, LimitRules
from evaluation.findings import fault, quote
from evaluation.findings.errors import WrongUsage
from evaluation.submission.archive import ZipFiles
from evaluation.submission.by_pattern import find_by_pattern, find_shared_files
from evaluation.submission.files import CsvFile, FolderFiles, Layout, SubmissionFiles, why_unreadable
from evaluation.submission.jobs import ReadJson, find_by_jobs, jobs_folder


def find_case_files(files: SubmissionFiles, challenge: Challenge, read_json: ReadJson) -> Layout:
    """Assign the files of a submission to the cases of the challenge, and say what is missing, extra or unclear.

    The list of jobs of the platform's algorithm phase decides if there is one and the challenge names a socket; else
    the patterns of the challenge do. Folders around everything are ignored if the patterns fit without them, not with.

    read_json   reads the list of jobs: ``read_json(stream, where="…")``, within the limits of the challenge

    Faults are findings of the layout. Raises ChallengeBroken for a list of jobs of other cases whose names are hidden.
    """
    rules = challenge.submission
    folder = jobs_folder(files.names) if rules.socket is not None else None
    if folder is not None:
        return find_by_jobs(files, folder, challenge, read_json)
    return (find_shared_files if rules.is_shared else find_by_pattern)(files.names, challenge)


# --- From a path to the files of a submission. ------------------------------------------------------------------------


def open_submission(path: Path, limits: LimitRules) -> SubmissionFiles:
    """The files of a folder, of a ZIP, which is not unpacked, or a CSV file alone. Litter is left out.

    limits   ``files_per_submission``, ``bytes_per_submission``, ``bytes_per_file`` and ``archive_ratio`` bound what is
             listed and opened

    Raises WrongUsage if there is nothing to read at the path, SubmissionRejected with all that is wrong if there are no
    files, too many, too large ones, or some that are not safe to read.
    """
    why = "neither a folder nor a file"
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return FolderFiles(path, limits)
        if stat.S_ISREG(mode):
            if path.suffix.casefold() == ".csv":
                return CsvFile(path, limits)
            return ZipFiles(path, limits)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a path with a zero byte
        why = "no such folder or file"
    except OSError as error:
        why = why_unreadable(error)
    raise WrongUsage(fault("no-submission", quote(path, 200), got=why))
