"""What is wrong with an input, as data: findings, the pages of their codes, the errors that carry them, exit codes.

In: nothing; every room may import this one. Out: ``fault`` makes a ``Finding``; sentences are made of findings.

What does the message [unknown-class] say? The table of that name in ``findings.toml``.
"""

from evaluation.findings.finding import (
    EXAMPLES_SHOWN,
    FAULTS_NAMED,
    Finding,
    counted,
    did_you_mean,
    fault,
    for_each,
    listed,
    percent,
    quote,
    render_findings,
    render_summary,
    with_rest,
)
