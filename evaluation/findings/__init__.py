"""What is wrong with an input, as data: findings, the pages of their codes, the errors that carry them, exit codes.

In: nothing; every room may import this one. Out: ``Finding``, and the sentences made of findings.
"""

from evaluation.findings.finding import (
    EXAMPLES_SHOWN,
    FAULTS_NAMED,
    Finding,
    at_places,
    did_you_mean,
    join_places,
    listed,
    quote,
    render_findings,
    render_summary,
    with_rest,
)

__all__ = [
    "EXAMPLES_SHOWN",
    "FAULTS_NAMED",
    "Finding",
    "at_places",
    "did_you_mean",
    "join_places",
    "listed",
    "quote",
    "render_findings",
    "render_summary",
    "with_rest",
]
