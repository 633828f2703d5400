"""From a path to the files of a submission."""

from __future__ import annotations

import stat
from pathlib import Path

from evaluation.challenge import LimitRules
from evaluation.findings import fault, quote
from evaluation.findings.errors import WrongUsage
from evaluation.submission.archive import ZipFiles
from evaluation.submission.files import CsvFile, FolderFiles, SubmissionFiles
from evaluation.submission.names import why_unreadable


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
