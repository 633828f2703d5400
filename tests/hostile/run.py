"""Check hostile submissions one after the other, within limits of processor time and memory.

    PYTHONPATH=.:library:tests python -m hostile.run [--part 0/2] [--name TEXT] [--show]

Prints one line of JSON for each submission when it begins, and one when it ends.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from endless import SECONDS, limit_memory
from processes import end_with_parent

from evaluation.files.decoding.guard import of_thread
from evaluation.findings import render_findings, render_summary
from evaluation.findings.errors import SubmissionRejected
from evaluation.scoring.read import read_prediction
from evaluation.scoring.receive import receive_submission
from evaluation.scoring.street import check_submission
from hostile.corpus import CORPUS
from hostile.record import Hostile, example_files_of

MEMORY_BYTES = 2 << 30  # address space beyond what the libraries take
LAST_LINE = 1000
LINE = 2500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="0/1", help="which of how many parts of the corpus")
    parser.add_argument("--name", default="", help="only submissions whose name holds this")
    parser.add_argument("--show", action="store_true", help="show what is said about them")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    end_with_parent()
    prepare()
    for record in [record for record in CORPUS if options.name in record.name][part::parts]:
        print(json.dumps({"name": record.name}), flush=True)
        folder = Path(tempfile.mkdtemp(prefix="hostile-"))
        try:
            outcome = check(record, folder)
        finally:
            shutil.rmtree(folder)
        if options.show:
            print(f"{outcome['seconds']:.2f} s", *outcome["lines"], sep="\n  ")
        print(
            json.dumps({"name": record.name, "wrong": judge(record, outcome), "seconds": outcome["seconds"]}),
            flush=True,
        )


def prepare() -> None:
    """Load what is loaded on first use, and then limit the memory."""
    for name in ("h5py", "imagecodecs", "scipy.io", "shapely", "SimpleITK"):
        import_module(name)
    for kind in {record.kind for record in CORPUS}:
        example_files_of(kind)
    limit_memory(MEMORY_BYTES)


def limit_time(limit: float, waiting: float) -> None:
    """Seconds of processor time; and by the clock, for what waits without working. 0: no limit."""
    signal.setitimer(signal.ITIMER_PROF, limit)
    signal.setitimer(signal.ITIMER_REAL, waiting)


def check(record: Hostile, folder: Path) -> dict[str, Any]:
    """What ``check_submission`` says of a submission: findings, or the traceback of what must not have happened."""
    challenge_folder, submission = record.write(folder)
    outcome: dict[str, Any] = {"crash": "", "nuclei": None, "codes": [], "warnings": [], "lines": [], "last": ""}
    limit_time(SECONDS, waiting=900)
    of_thread.stop_all()
    began = time.process_time()
    try:
        challenge, findings = check_submission(challenge_folder, submission, workers=1)
    except SubmissionRejected as error:
        findings = error.findings
    except BaseException:  # noqa: BLE001 (whatever it is, it must not have happened)
        findings, outcome["crash"] = (), traceback.format_exc()[-300:]
    finally:
        limit_time(0, waiting=0)
    outcome["lines"] = render_findings(findings)
    outcome["last"] = render_summary(findings, intro="Submission rejected:")
    outcome["seconds"] = time.process_time() + decoder_seconds() - began
    outcome["codes"] = sorted({finding.code for finding in findings if finding.severity == "error"})
    outcome["warnings"] = sorted({finding.code for finding in findings if finding.severity == "warning"})
    if not outcome["codes"] and not outcome["crash"] and record.nuclei is not None:
        received = receive_submission(challenge, submission)
        case = challenge.cases[0]
        outcome["nuclei"] = len(
            read_prediction(challenge, received.files, case, received.contents[case.name]).instances
        )
    return outcome


def decoder_seconds() -> float:
    """Processor time of the child process that decodes; each submission has one of its own."""
    seconds = 0.0
    for decoder in of_thread.idle.values():
        times = Path(f"/proc/{decoder.process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        seconds += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return seconds


def judge(record: Hostile, outcome: dict[str, Any]) -> list[str]:
    """What is not as it must be."""
    if outcome["crash"]:
        return [outcome["crash"]]
    wrong = []
    expected = [] if record.code is None else [record.code]
    if outcome["codes"] != expected:
        wrong.append(f"errors {outcome['codes']}, expected {expected}: {outcome['lines'][:3]}")
    if outcome["warnings"] != list(record.warns):
        wrong.append(f"warnings {outcome['warnings']}, expected {list(record.warns)}: {outcome['lines'][:3]}")
    if outcome["nuclei"] != record.nuclei:
        wrong.append(f"{outcome['nuclei']} nuclei, expected {record.nuclei}")
    if outcome["seconds"] > SECONDS:
        wrong.append(f"{outcome['seconds']:.1f} s")
    if not any(record.says in line for line in outcome["lines"] or [""]):
        wrong.append(f"{record.says!r} is in none of {outcome['lines'][:3]}")
    if len(outcome["last"]) > LAST_LINE:
        wrong.append(f"the last line has {len(outcome['last']):,} characters")
    for line in [*outcome["lines"], outcome["last"]]:
        if not line.isprintable() or len(line) > LINE:
            wrong.append(f"a line of {len(line):,} characters, printable: {line.isprintable()}: {line[:200]!r}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
