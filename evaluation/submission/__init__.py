"""Which file is which case: the files of a submission, and the case and class of each.

In: a folder, a ZIP or a list of jobs, and a challenge. Out: the files of each case, and findings about the rest.
Execution and the rooms above may import it.
"""

from evaluation.submission.by_pattern import collection_findings
from evaluation.submission.files import CaseFile, Layout, SubmissionFiles, open_submission
from evaluation.submission.jobs import find_case_files
