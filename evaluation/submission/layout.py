"""Which file is which case and class. What is expected comes from cases.csv and challenge.toml, never from files."""

from __future__ import annotations

from evaluation.challenge import Challenge
from evaluation.submission.by_pattern import find_by_pattern
from evaluation.submission.files import SubmissionFiles
from evaluation.submission.found import Layout
from evaluation.submission.jobs import ReadJson, find_by_jobs, jobs_folder
from evaluation.submission.shared import find_shared_files


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
