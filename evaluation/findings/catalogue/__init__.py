"""Every code a finding can have, explained: ``evaluation explain CODE`` and docs/findings show these pages.

An example is the line as it is printed. Codes are stable: they are never renamed, only retired.
"""

from evaluation.findings.catalogue.annotations import ANNOTATIONS
from evaluation.findings.catalogue.challenge import CHALLENGE
from evaluation.findings.catalogue.coco import COCO
from evaluation.findings.catalogue.csv_files import CSV_FILES
from evaluation.findings.catalogue.explanation import Explanation
from evaluation.findings.catalogue.json_files import JSON_FILES
from evaluation.findings.catalogue.labels import LABELS
from evaluation.findings.catalogue.mat_files import MAT_FILES
from evaluation.findings.catalogue.rankings import RANKINGS
from evaluation.findings.catalogue.submission import SUBMISSION
from evaluation.findings.catalogue.writers import WRITERS

__all__ = ["CATALOGUE", "PARTS", "Explanation"]

PARTS: dict[str, dict[str, Explanation]] = {
    "The command line, challenge.toml and cases.csv": CHALLENGE,
    "The files of a submission, and which case they belong to": SUBMISSION,
    "Outlines and points, above all as XML": ANNOTATIONS,
    "Annotations and lists as JSON": JSON_FILES,
    "COCO and run-length codes": COCO,
    "CSV files, and tables of classes": CSV_FILES,
    "Label images": LABELS,
    "MATLAB files of HoVer-Net, arrays of all cases, and colour-coded maps": MAT_FILES,
    "What a file that is written cannot hold, and a picture cannot show": WRITERS,
    "Teams, rankings and leaderboards": RANKINGS,
}
CATALOGUE: dict[str, Explanation] = {code: page for part in PARTS.values() for code, page in part.items()}
assert len(CATALOGUE) == sum(map(len, PARTS.values())), "a code twice"
