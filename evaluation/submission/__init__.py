"""Which file is which case: the files of a submission, and what of them belongs where."""

from evaluation.submission.files import SubmissionFiles, open_submission
from evaluation.submission.layout import CaseFile, Layout, find_case_files

__all__ = ["CaseFile", "Layout", "SubmissionFiles", "find_case_files", "open_submission"]
