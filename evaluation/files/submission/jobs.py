"""The platform's algorithm phase: predictions.json lists jobs, and every job has the image of one case as its input.

The list has no order, and its keys change between releases of the platform: values are found by the slug of their
socket, never by index, and unknown keys are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO
from urllib.parse import unquote

from evaluation.challenge import Challenge, LimitRules
from evaluation.files.decoding.json import read_json
from evaluation.files.schemas import places_at_fault
from evaluation.files.submission import by_pattern
from evaluation.files.submission.by_pattern import composed, wrapping_folders
from evaluation.files.submission.files import CaseFile, Layout, SubmissionFiles, what_is_unsafe
from evaluation.findings import EXAMPLES_SHOWN, Finding, counted, did_you_mean, fault, listed, quote
from evaluation.findings.errors import ChallengeBroken, InputFault, refused
from nuclei_metrics.model import Case

JOBS_FILE = "predictions.json"
JOB_SUFFIXES = (".mha", ".tif", ".tiff")
SUCCEEDED = "Succeeded"


def find_case_files(files: SubmissionFiles, challenge: Challenge) -> Layout:
    """Assign the files of a submission to the cases of the challenge, and report missing, extra or ambiguous files.

    The list of jobs of the platform's algorithm phase decides if there is one and the challenge names a socket;
    otherwise the patterns of the challenge do. Enclosing folders are ignored if the patterns fit only without them.

    Faults are findings of the layout. Raises ChallengeBroken for mistakes in an algorithm phase.
    """
    rules = challenge.submission
    folder = jobs_folder(files.names)
    if folder is not None and rules.socket is not None:
        return _find_by_jobs(files, folder, challenge)
    names = [name for name in files.names if name != INPUTS_FILE or not _platform_inputs(files, challenge.limits)]
    layout = (by_pattern.find_shared_files if rules.is_shared else by_pattern.find_by_pattern)(names, challenge)
    if folder is not None and not layout.files and not layout.shared_files:
        _check_no_jobs(files, folder, challenge)
    return layout


def jobs_folder(names: Sequence[str]) -> str | None:
    """The folder that predictions.json is in: "", or folders around everything; None if there is no such file."""
    known = set(names)
    return next((folder for folder in wrapping_folders(names) if folder + JOBS_FILE in known), None)


def _find_by_jobs(files: SubmissionFiles, folder: str, challenge: Challenge) -> Layout:
    """The files of each case by the predictions.json in ``folder``.

    Raises ChallengeBroken if phase and challenge differ: an input or output without jobs, a job that is not a case, a
    case with two jobs or no job. The platform writes the list when all jobs have succeeded. A list that the platform
    cannot have written comes from the participant, with all faults, and so does a list in a ZIP.
    """
    where = quote(folder + JOBS_FILE, 120)
    all_cases = frozenset(case.name for case in challenge.cases)
    try:
        with files.open(folder + JOBS_FILE) as stream:
            jobs = read_jobs(stream, where=where, limits=challenge.limits)
    except InputFault as error:
        return Layout({}, all_cases, error.findings)
    reader = _JobReader(challenge, files.names, folder, where)
    reader.read(jobs)
    of_phase = reader.faults_of_phase()
    is_forged = not _FORGED.isdisjoint(problem.code for problem in reader.faults)
    if of_phase and not is_forged and not _is_of_zip(files, challenge.limits):
        raise ChallengeBroken(*of_phase)
    case_files = {name: reader.files[name] for name in sorted(reader.files)}
    own_fix = fault("invalid-job", where, got="").fix
    of_zip = (replace(problem, fix=own_fix, data={**problem.data, "fix": own_fix}) for problem in of_phase)
    findings = tuple(sorted((*reader.faults, *of_zip)))
    return Layout(case_files, all_cases - set(case_files), findings, inputs=frozenset(reader.inputs))


_FORGED = frozenset({"invalid-job", "forged-path", "failed-job"})  # the platform writes none of these
INPUTS_FILE, _ZIP_SOCKET = "inputs.json", "predictions-zip-file"


def _check_no_jobs(files: SubmissionFiles, folder: str, challenge: Challenge) -> None:
    """Raise ChallengeBroken if the platform passes jobs, but the challenge names no socket."""
    where = quote(folder + JOBS_FILE, 120)
    try:
        with files.open(folder + JOBS_FILE) as stream:
            jobs = read_jobs(stream, where=where, limits=challenge.limits)
    except InputFault:
        return
    if _is_of_zip(files, challenge.limits):
        return
    outputs = (socket_of(value).get("slug") for job in jobs for value in job["outputs"])
    slugs = sorted({slug for slug in outputs if isinstance(slug, str)})
    raise ChallengeBroken(
        fault("missing-rule", "challenge.toml: submission.socket", wording="socket", list=where, jobs=jobs, slugs=slugs)
    )


def _is_of_zip(files: SubmissionFiles, limits: LimitRules) -> bool:
    """Return whether the submission is a ZIP of a participant; on the platform inputs.json reports it."""
    return files.is_archive or _ZIP_SOCKET in _platform_inputs(files, limits)


def _platform_inputs(files: SubmissionFiles, limits: LimitRules) -> list[str]:
    """List the slugs in inputs.json, which the platform writes next to a submission; empty without such a file."""
    if INPUTS_FILE not in files.names:
        return []
    try:
        with files.open(INPUTS_FILE) as stream:
            values = read_json(stream, where=quote(INPUTS_FILE), limits=limits)
    except InputFault:
        return []
    values = values if isinstance(values, list) else []
    slugs = (socket_of(value).get("slug") for value in values if isinstance(value, dict))
    return [slug for slug in slugs if isinstance(slug, str)]


def read_jobs(stream: BinaryIO, *, where: str, limits: LimitRules) -> list[dict[str, Any]]:
    """Read the list of jobs and check it by its model. Raises InputFault, with a finding for each job at fault."""
    jobs = read_json(stream, where=where, limits=limits)
    if not isinstance(jobs, list) or not jobs:
        raise refused("invalid-job", where, got="an empty list" if jobs == [] else "a value that is not a list")
    wrong: dict[int, str] = {}
    for location in places_at_fault("predictions.json", jobs):
        wrong.setdefault(int(location[0]), _what_is_wrong(location))
    if wrong:
        raise InputFault(*(fault("invalid-job", _place(where, jobs, index), got=got) for index, got in wrong.items()))
    return jobs


def _place(where: str, jobs: Sequence[Any], index: int) -> str:
    """Name a job by its pk, otherwise by its number."""
    pk = jobs[index].get("pk") if isinstance(jobs[index], dict) else None
    return f"{where}, job {quote(pk) if isinstance(pk, str) else f'{index + 1:,}'}"


def _what_is_wrong(location: Sequence[int | str]) -> str:
    """Describe the fault at a place in the list of jobs."""
    keys = list(location[1:])
    if not keys:
        return "a value that is not an object"
    if keys == ["pk"]:
        return "a job without a pk"
    if keys[0] in ("inputs", "outputs") and len(keys) < 3:
        return f"no list of {keys[0]}"
    return f"{'.'.join(map(str, keys))} with another value than the platform writes"


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that belongs to a case. ``where`` names it in messages; ``pk`` is the name of its folder."""

    where: str
    pk: str
    case: Case
    status: Any
    outputs: list[Mapping[str, Any]]


class _PhaseFault(InputFault):
    """The faults of a job although the platform wrote it: the phase and the challenge differ."""


class _JobReader:
    """Assigns jobs to cases. ``files``: the files of every case with a usable job.

    ``faults`` of the list and of outputs, and those ``of_phase``, grow on the way.
    """

    def __init__(self, challenge: Challenge, names: Sequence[str], folder: str, where: str) -> None:
        self.challenge = challenge
        self.folder = folder
        self.where = where
        self.names = frozenset(names)
        self.images: dict[str, list[str]] = {}
        for name in names:
            if name.lower().endswith(JOB_SUFFIXES):
                self.images.setdefault(name.rpartition("/")[0], []).append(name)
        self.cases = {composed(challenge.submission.key_of(case)): case for case in challenge.cases}
        self.classes = classes_by_slug(challenge)
        self.jobs: dict[str, list[_Job]] = {}
        self.unknown: dict[str, list[str]] = {}
        self.inputs: set[str] = set()
        self.has_refused_jobs = False
        self.files: dict[str, tuple[CaseFile, ...]] = {}
        self.faults: list[Finding] = []
        self.of_phase: list[Finding] = []

    def read(self, jobs: list[Any]) -> None:
        for job in jobs:
            with self.collecting():
                self.add(job)
        placed = sum(map(len, self.jobs.values())) + sum(map(len, self.unknown.values()))
        self.has_refused_jobs = placed < len(jobs)
        with self.collecting():
            self.check_sockets()
            for name, of_case in self.jobs.items():
                with self.collecting():
                    self.files[name] = self.files_of_case(of_case)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the findings of an error, and continue."""
        try:
            yield
        except _PhaseFault as error:
            self.of_phase += error.findings
        except InputFault as error:
            self.faults += error.findings

    def add(self, job: Mapping[str, Any]) -> None:
        """Find the case of a job. Raises InputFault if the job is not one that the platform writes."""
        pk = job["pk"]
        where = f"{self.where}, job {quote(pk)}"
        if (why := what_is_unsafe(pk)) or "/" in pk:
            raise refused("forged-path", where, what="the pk", why=why or "a path")
        name = self.input_name(job, where)
        self.inputs.add(name)
        case = self.cases.get(composed(name))
        if case is None:
            self.unknown.setdefault(name, []).append(where)
            return
        self.jobs.setdefault(case.name, []).append(_Job(where, pk, case, job.get("status", SUCCEEDED), job["outputs"]))

    def input_name(self, job: Mapping[str, Any], where: str) -> str:
        """The name of the image or file that a job had as its input."""
        slugs, inputs = self.challenge.submission.inputs, job["inputs"]
        there = [socket_of(value).get("slug") for value in inputs]
        chosen = [value for value, slug in zip(inputs, there, strict=True) if not slugs or slug in slugs]
        if len(chosen) != 1:
            number, among = counted(len(chosen), "input"), f" ({listed(there, last='and')})" if there else ""
            what = f"{number} {listed(slugs)} among {len(inputs)}{among}" if slugs else f"{number}{among}"
            raise _PhaseFault(fault("invalid-job", where, wording="several-inputs", got=what))
        if name := name_in(chosen[0]):
            return name
        raise refused("invalid-job", where, got="an input without an image name and without a file")

    def files_of_case(self, jobs: Sequence[_Job]) -> tuple[CaseFile, ...]:
        """The outputs of the job of a case, in the order of their classes. Raises InputFault."""
        job, *others = sorted(jobs, key=lambda job: job.pk)
        where = f"case {quote(job.case.name)}"
        if others:
            raise _PhaseFault(fault("duplicate-case", where, jobs=[each.pk for each in (job, *others)]))
        if job.status != SUCCEEDED:
            raise refused("failed-job", where, status=job.status)
        outputs: dict[int, str] = {}
        for value in job.outputs:
            socket = socket_of(value)
            slug = socket.get("slug")
            class_id = self.classes.get(slug.casefold()) if isinstance(slug, str) else None
            if class_id is None:
                continue
            if class_id in outputs:
                raise refused("duplicate-file", where, wording="several-outputs", socket=slug)
            outputs[class_id] = self.locate(socket, job)
        self.check_outputs(job, outputs)
        return tuple(CaseFile(name, class_id) for class_id, name in sorted(outputs.items()))

    def check_sockets(self) -> None:
        """Raise _PhaseFault if no job has an output that the challenge needs: it names another socket."""
        rules = self.challenge.submission
        slugs = {socket_of(value).get("slug") for jobs in self.jobs.values() for job in jobs for value in job.outputs}
        there = sorted(slug for slug in slugs if isinstance(slug, str))
        classes = {self.classes[slug.casefold()] for slug in there if slug.casefold() in self.classes}
        is_complete = classes == set(self.classes.values())
        if self.jobs and not (is_complete or (classes and rules.missing_class_file == "empty")):
            wording, socket = "in-no-job", rules.socket
            raise _PhaseFault(fault("missing-output", self.where, wording=wording, socket=socket, outputs=there))

    def check_outputs(self, job: _Job, usable: Mapping[int, str]) -> None:
        """Raise InputFault if outputs are missing: all, or some if the challenge requires every class."""
        rules = self.challenge.submission
        if usable and rules.missing_class_file == "empty":
            return
        slugs = {class_id: slug for slug, class_id in reversed(self.classes.items())}
        there = [socket_of(value).get("slug") for value in job.outputs]
        lacking = [slug for class_id, slug in slugs.items() if class_id not in usable]
        places = [f"case {quote(job.case.name)}, {quote(slug)}" for slug in lacking]
        wording, socket = "not-among-outputs", rules.socket
        if places:
            raise InputFault(
                *(fault("missing-output", where, wording=wording, socket=socket, outputs=there) for where in places)
            )

    def locate(self, socket: Mapping[str, Any], job: _Job) -> str:
        """The file of an output. Only listed files are found, whatever the paths in the list of jobs."""
        slug, relative = socket.get("slug"), socket.get("relative_path")
        if not isinstance(relative, str):
            raise refused("invalid-job", job.where, got=f"an output {quote(slug)} without a relative_path")
        if why := what_is_unsafe(relative):
            raise refused("forged-path", job.where, what=f"the relative_path of {quote(slug)}", why=why)
        path = f"{self.folder}{job.pk}/output/{relative}"
        if path in self.names:
            return path
        where = f"case {quote(job.case.name)}, {quote(relative, 120)}"
        images = self.images.get(path, [])
        if len(images) == 1:
            return images[0]
        if images:
            raise refused("duplicate-file", where, wording="several-images-in-folder", count=len(images))
        if socket.get("super_kind") == "Value":
            raise _PhaseFault(fault("unsupported-output", where, socket=slug))
        if socket.get("super_kind") == "Image":
            raise refused("missing-output", where, wording="no-image-in-folder")
        raise refused("missing-output", where, socket=slug)

    def faults_of_phase(self) -> list[Finding]:
        """All in which the phase and the challenge differ.

        Cases without a job are not reported if jobs of unknown cases, or refused jobs, explain them.
        """
        faults, known, patterns = list(self.of_phase), list(self.cases), set[str]()
        for index, (name, places) in enumerate(sorted(self.unknown.items())):
            near = did_you_mean(name, known) if index < EXAMPLES_SHOWN else ""
            patterns.add(pattern := self.pattern_of(name))
            where, total = min(places), len(places)
            faults.append(
                fault(
                    "unknown-case",
                    where,
                    wording="input-with-suffix",
                    total=total,
                    name=name,
                    known=known,
                    pattern=pattern,
                )
                if pattern
                else fault("unknown-case", where, wording="input", total=total, name=name, known=known, suggestion=near)
            )
        if not self.of_phase and not self.has_refused_jobs and patterns <= {""}:
            without = [(key, case) for key, case in self.cases.items() if case.name not in self.jobs]
            faults += [fault("missing-case", f"case {quote(c.name)}", wording="no-job", key=key) for key, c in without]
        return sorted(faults)

    def pattern_of(self, name: str) -> str:
        """Return the ``case_key`` under which an input would be a case, "" if there is none."""
        inside = [case.name for case in self.challenge.cases if case.name in name]
        longest = max(inside, key=len, default="")
        return name.replace(longest, "{case}", 1) if longest and not set(name) & set("{}") else ""


def classes_by_slug(challenge: Challenge) -> dict[str, int]:
    """Map the slug of each output to the class of its nuclei, 0 if its file has classes. Names precede aliases.

    Slugs have hyphens where names of classes have blanks and underscores.
    """
    socket = challenge.submission.socket or ""
    if "{class}" not in socket:
        return {socket.casefold(): 0 if challenge.submission.tells_class else 1}
    slugs: dict[str, int] = {}
    names = {name.casefold() for name in challenge.class_names}
    for spelling, class_id in sorted(challenge.class_ids().items(), key=lambda item: item[0] not in names):
        if class_id > 0 and spelling:
            slugs.setdefault(socket.replace("{class}", spelling).casefold(), class_id)
            slugs.setdefault(socket.replace("{class}", re.sub("[^a-z0-9]+", "-", spelling)).casefold(), class_id)
    return slugs


def name_in(value: Mapping[str, Any]) -> str:
    """The name of the image or file of an input, or ""."""
    image, file = value.get("image"), value.get("file")
    if isinstance(image, dict) and isinstance(name := image.get("name"), str):
        return name
    return unquote(file.partition("?")[0].rpartition("/")[2]) if isinstance(file, str) else ""


def socket_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description of an input or output, which the platform renames from "interface" to "socket"."""
    described = (value.get(key) for key in ("socket", "interface"))
    return next((socket for socket in described if isinstance(socket, dict)), {})
