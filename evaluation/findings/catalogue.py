"""Every code a finding can have, explained: ``evaluation explain CODE`` and docs/findings.md show these pages.

An example is the line as it is printed. Codes are stable: they are never renamed, only retired.
"""

from evaluation.findings import (
    annotations,
    challenge,
    coco,
    command_line,
    comparison,
    csv_files,
    execution,
    json_files,
    labels,
    mat_files,
    rankings,
    submission,
    writers,
)
from evaluation.findings.kind import Page

__all__ = ["CATALOGUE", "PARTS", "Page"]

PARTS: dict[str, dict[str, Page]] = {
    title: {kind.code: kind.page() for kind in kinds}
    for title, kinds in {
        "The command line": command_line.KINDS,
        "What is found in folders": comparison.KINDS,
        "challenge.toml, cases.csv and the reference": challenge.KINDS,
        "Workers and clusters": execution.KINDS,
        "The files of a submission, and which case they belong to": submission.KINDS,
        "Outlines and points, above all as XML": annotations.KINDS,
        "Annotations and lists as JSON": json_files.KINDS,
        "COCO and run-length codes": coco.KINDS,
        "CSV files, and tables of classes": csv_files.KINDS,
        "Label images": labels.KINDS,
        "MATLAB files of HoVer-Net, arrays of all cases, and colour-coded maps": mat_files.KINDS,
        "What a file that is written cannot hold, and a picture cannot show": writers.KINDS,
        "Teams, rankings and leaderboards": rankings.KINDS,
    }.items()
}
CATALOGUE: dict[str, Page] = {code: page for part in PARTS.values() for code, page in part.items()}
assert len(CATALOGUE) == sum(map(len, PARTS.values())), "a code twice"
