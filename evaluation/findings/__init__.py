"""What is wrong with an input, as data: findings, the pages of their codes, the errors that carry them, exit codes.

In: nothing; every room may import this one. Out: ``Finding``, and the sentences made of findings.

What does the message [unknown-class] say? ``class UnknownClass`` in the file of its subject, here ``annotations``.
"""

from evaluation.findings.finding import (
    EXAMPLES_SHOWN,
    FAULTS_NAMED,
    Finding,
    for_each,
    render_findings,
    render_summary,
    with_rest,
)
from evaluation.findings.words import counted, did_you_mean, listed, percent, quote

__all__ = [
    "EXAMPLES_SHOWN",
    "FAULTS_NAMED",
    "Finding",
    "counted",
    "did_you_mean",
    "for_each",
    "listed",
    "percent",
    "quote",
    "render_findings",
    "render_summary",
    "with_rest",
]
