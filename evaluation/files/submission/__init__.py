"""Files of a submission, with the case and class of each file.

In: a folder, a ZIP or a list of jobs, and a challenge. Out: the files of each case, and findings about the rest.
``scoring`` and the rooms above may import it.
"""

from evaluation.files.submission.by_pattern import collection_findings
from evaluation.files.submission.files import (
    CaseFile,
    Layout,
    PlacedFiles,
    SubmissionFiles,
    open_of_challenge,
    open_submission,
    rejection,
)
from evaluation.files.submission.jobs import find_case_files
