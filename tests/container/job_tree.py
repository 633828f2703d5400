"""A folder of predictions as an algorithm phase hands it over: predictions.json, and a folder for each job."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.challenge import Challenge
from evaluation.files.submission import find_case_files, open_submission
from evaluation.files.submission.files import CaseFile, SubmissionFiles
from evaluation.files.submission.jobs import JOBS_FILE
from evaluation.findings import fault
from evaluation.findings.errors import SubmissionRejected, WrongUsage
from evaluation.platform.phase import Socket, phase_of


def write_job_tree(challenge: Challenge, submission: Path, folder: Path) -> None:
    """Write predictions of all cases as jobs into a folder. Raises WrongUsage for a challenge without a socket.

    ``submission.files`` finds the files of the submission. Raises SubmissionRejected for a case without files.
    """
    outputs = phase_of(challenge).support.outputs
    if not outputs:
        raise WrongUsage(fault("missing-rule", "challenge.toml: submission.socket"))
    laptop = challenge.submission.model_copy(update={"socket": None, "input": None})
    files = open_submission(submission, challenge.limits)
    layout = find_case_files(files, challenge.model_copy(update={"submission": laptop}))
    if layout.missing:
        raise SubmissionRejected(*layout.findings)
    jobs = []
    for case in challenge.cases:
        pk = str(uuid.uuid5(uuid.NAMESPACE_URL, case.name))
        name = challenge.submission.key_of(case)
        jobs.append(_job(pk, next(iter(challenge.submission.inputs), "input"), name, outputs))
        for file in layout.files[case.name]:
            _place(files, file, outputs[max(file.class_id - 1, 0) if len(outputs) > 1 else 0], folder / pk / "output")
    (folder / JOBS_FILE).write_bytes(json.dumps(jobs, indent=1).encode())
    kind = {"slug": "predictions-json-file", "relative_path": JOBS_FILE, "kind": "Anything", "super_kind": "File"}
    (folder / "inputs.json").write_bytes(json.dumps([{"socket": kind, "file": JOBS_FILE}], indent=1).encode())


def _job(pk: str, slug: str, name: str, outputs: Sequence[Socket]) -> dict[str, Any]:
    given = {"slug": slug, "relative_path": f"images/{slug}", "kind": "Image", "super_kind": "Image"}
    keys = ("slug", "relative_path", "kind", "super_kind")
    made = [{key: getattr(socket, key) for key in keys} for socket in outputs]
    return {
        "pk": pk,
        "status": "Succeeded",
        "inputs": [{"socket": given, "image": {"pk": pk, "name": name}, "file": None, "value": None}],
        "outputs": [{"socket": socket, "image": None, "file": None, "value": None} for socket in made],
    }


def _place(files: SubmissionFiles, file: CaseFile, socket: Socket, folder: Path) -> None:
    """Copy a file to the path of an output; an image gets a unique name in the folder of the output."""
    target = folder / socket.relative_path
    if socket.super_kind == "Image":
        target /= f"{uuid.uuid5(uuid.NAMESPACE_URL, file.name)}{Path(file.name).suffix}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with files.open(file.name) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy)
