"""Which file is which case: the files of a submission, and the case and class of each.

In: a folder, a ZIP or a list of jobs, and a challenge. Out: the files of each case, and findings about the rest.
Execution and the rooms above may import it.
"""

from evaluation.submission.completeness import collection_findings
from evaluation.submission.files import SubmissionFiles
from evaluation.submission.found import CaseFile, Layout, SharedFile
from evaluation.submission.layout import find_case_files
from evaluation.submission.opening import open_submission

__all__ = [
    "CaseFile",
    "Layout",
    "SharedFile",
    "SubmissionFiles",
    "collection_findings",
    "find_case_files",
    "open_submission",
]
