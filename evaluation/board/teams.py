"""Scoring all teams of a folder, each once: results are kept, and taken again as long as nothing changed.

The key of a result identifies its inputs: the program, the rules and cases, and the names and contents of reference
and submission files. The key is written last, with the hashes of the results. So an interrupted run resumes where it
stopped, and a changed or incomplete result is scored again.
"""

from __future__ import annotations

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluation.board import stored as store
from evaluation.board.team_scores import PlannedColumn, TeamScores, refuse_many_teams, stored_tables, team_of_documents
from evaluation.challenge import CHALLENGE_FILE, Challenge, is_safe_name
from evaluation.files.decoding.guard import reader_faults_told
from evaluation.files.results import __version__
from evaluation.files.results.documents import as_json
from evaluation.files.results.files import write_atomically, write_together
from evaluation.files.submission import open_submission, rejection
from evaluation.files.submission.by_pattern import composed
from evaluation.files.submission.files import is_litter
from evaluation.findings import Finding, fault, listed, quote, render_summary
from evaluation.findings.errors import (
    ChallengeBroken,
    EvaluationError,
    InputFault,
    SubmissionRejected,
    WorkersLost,
    WrongUsage,
    faults_as,
    redact_findings,
)
from evaluation.scoring.read import reference_files
from evaluation.scoring.receive import memory_needs
from evaluation.scoring.score import Result
from evaluation.scoring.street import score_then
from evaluation.scoring.workers import Progress, Run, run_many

OTHER_FILES = {f"{name}.json" for name in ("details", "leaderboard", "rasterisation", "reference")}
SUFFIXES = (".zip", ".csv")

TeamOutcome = Literal["scored", "kept", "not ranked"]
Note = Callable[[str, TeamOutcome, str], None]


@dataclass(frozen=True, slots=True)
class _Team:
    """A team and its submission, a folder, a ZIP, or a CSV file of all cases."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class _ScoredTeams:
    """All teams of a folder, with and without scores, and findings about the folder."""

    scores: tuple[TeamScores, ...]
    unranked: tuple[store.Unranked, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """How the scores of a team are stored: its result, or the numbers of an audit under other rules.

    folder  below the output; ``key``: its inputs besides challenge and submission
    finish  the stored content of a result, by the names of the ``files``
    read    the scores in the folder of a team with this name
    """

    folder: str = store.RESULTS
    key: str = ""
    files: tuple[str, ...] = store.RESULT_FILES
    finish: Callable[[Result], dict[str, str]] = Result.texts
    read: Callable[[Path, str], TeamScores] | None = None


# --- which teams there are --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FoundTeams:
    """The teams of a folder in ascending order of their names, teams with unusable names, and other files."""

    teams: list[_Team]
    unranked: list[store.Unranked]
    findings: list[Finding]


def find_teams(folder: Path, *, output: Path) -> _FoundTeams:
    """Find the teams of a folder.

    Every sub-folder is a team, and every ZIP and CSV file; its name is the name of the folder, or of the file
    without its suffix. Hidden files, litter and ``output`` do not count; a team with an unusable name is omitted.
    Raises WrongUsage: no-submission, no-teams, too-large, duplicate-team; invalid-team if no name can be used.
    """
    paths = _entries_of(folder, output)
    submissions = [path for path in paths if path.is_dir() or path.suffix.casefold() in SUFFIXES]
    teams = [_Team(composed(path.name if path.is_dir() else path.stem), path) for path in submissions]
    if not teams:
        raise WrongUsage(fault("no-teams", quote(folder, 120)))
    with faults_as(WrongUsage):
        refuse_many_teams(len(teams), quote(folder, 120))
    unranked = _check_names([(team.name, team.path.name) for team in teams])
    named = [team for team in teams if _is_team_name(team.name)]
    unused = [quote(path.name) for path in paths if path not in submissions]
    findings = [fault("unused-file", name, wording="not-a-submission") for name in unused]
    return _FoundTeams(sorted(named, key=lambda team: team.name), unranked, findings)


def _entries_of(folder: Path, output: Path) -> list[Path]:
    """List everything that may be a submission."""
    try:
        paths = sorted(folder.iterdir(), key=lambda path: path.parts)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        why = "no such folder" if is_missing else (error.strerror or "not readable").lower()
        raise WrongUsage(fault("no-submission", quote(folder, 200), wording="no-folder-of-teams", got=why)) from None
    own = output.resolve()
    return [p for p in paths if p.resolve() != own and not p.name.startswith(".") and not is_litter(p.name)]


def _is_team_name(name: str) -> bool:
    """Return whether the name of a team can be part of a path and of a message."""
    return is_safe_name(name) and name == name.strip()


def _check_names(teams: Iterable[tuple[str, str]]) -> list[store.Unranked]:
    """Find the teams with names that cannot be in a path or message; they are omitted. Raises for duplicate names.

    teams  names, with their files or folders

    Raises WrongUsage: duplicate-team, and invalid-team if no name can be used. Names that differ in upper and lower
    case only are the same: some file systems take them for one.
    """
    teams = list(teams)
    faults = []
    odd = [(name, fault("invalid-team", quote(source), name=name)) for name, source in teams if not _is_team_name(name)]
    if len(odd) == len(teams):
        faults += [finding for _, finding in odd]
    for name, times in Counter(name.casefold() for name, _ in teams).items():
        if times > 1:
            sources = [source for other, source in teams if other.casefold() == name]
            faults.append(fault("duplicate-team", f"team {quote(name)}", sources=sources))
    if faults:
        raise WrongUsage(*faults)
    return [store.Unranked(quote(name)[1:-1], finding.code, str(finding)) for name, finding in odd]


# --- scoring them -----------------------------------------------------------------------------------------------------


def score_teams(
    challenge_folder: Path,
    challenge: Challenge,
    submissions: Path,
    output: Path,
    *,
    columns: Sequence[PlannedColumn] = (),
    workers: int | None = None,
    progress: Progress | None = None,
    note: Note | None = None,
    executor: Executor | None = None,
    kept: Kept = Kept(),
) -> _ScoredTeams:
    """Score every team of a folder without stored results into ``results/<team>`` of the output.

    columns   of the scores, unless ``kept`` reads them
    workers   processes, or tasks that ``executor`` works on at once
    progress  is called with the number of teams that are done, and of all
    note      is called with the name of each team, its outcome, and the traceback of a fault of the program, or ""

    A rejected team does not stop other teams: the faults of its submission are returned with its name. Raises
    WrongUsage, ChallengeBroken and WorkersLost.
    """
    folder_of_teams = find_teams(submissions, output=output)
    teams = folder_of_teams.teams
    of_challenge = challenge_key(challenge_folder, challenge) + kept.key
    results: dict[str, TeamScores | store.Unranked] = {}

    def advance() -> None:
        if progress:
            progress(len(results), len(teams))

    def settle(team: _Team, outcome: TeamOutcome, trace: str = "") -> None:
        folder = output / kept.folder / team.name
        if unranked := store.rejection_in(store.read_key(folder), team.name):
            results[team.name], outcome = unranked, "not ranked"
        elif kept.read:
            results[team.name] = kept.read(folder, team.name)
        else:
            results[team.name] = _read_team(folder, team.name, challenge, columns)
        if note:
            note(team.name, outcome, trace)
        advance()

    advance()
    new = []
    for team in teams:
        folder = output / kept.folder / team.name
        has_key = (folder / store.KEY_FILE).exists()
        if has_key and store.holds_result(folder, _submission_key(of_challenge, challenge, team.path), kept.files):
            settle(team, "kept")
        else:
            store.forget(folder)
            new.append(team)
    needs = memory_needs(challenge, challenge.cases, folder=challenge_folder)
    common = kept.finish, of_challenge, challenge, challenge_folder.absolute()  # workers may be elsewhere
    paths = [team.path.absolute() for team in new]
    outcomes = run_many(_score_team, common, paths, needs=needs, workers=workers, executor=executor, idle=advance)
    with closing(outcomes):  # whatever happens: nobody works on
        for number, answer in outcomes:
            settle(new[number], "scored", _keep(output / kept.folder / new[number].name, answer, kept.files))
    ordered = [results[team.name] for team in teams]
    scores = tuple(of_team for of_team in ordered if isinstance(of_team, TeamScores))
    unranked = tuple(of_team for of_team in ordered if isinstance(of_team, store.Unranked))
    return _ScoredTeams(scores, (*unranked, *folder_of_teams.unranked), tuple(folder_of_teams.findings))


def _score_team(
    finish: Callable[[Result], dict[str, str]],
    of_challenge: str,
    challenge: Challenge,
    folder: Path,
    run: Run,
    submission: Path,
) -> tuple[str, dict[str, str] | SubmissionRejected]:
    """Return the key of a submission and its stored result, or the rejection."""
    key = _submission_key(of_challenge, challenge, submission)
    try:
        return key, score_then(finish, challenge, folder, submission, run)
    except SubmissionRejected as error:
        return key, error


def _keep(folder: Path, answer: Future[Any], files: Sequence[str]) -> str:
    """Write the stored files of a team; return the traceback of a fault of the program, or "".

    Raises ChallengeBroken, WorkersLost, OSError and MemoryError, which stop all teams.
    """
    outcome: Any
    error = answer.exception()
    key, outcome = answer.result() if error is None else ("", error)  # it may be gone the next time
    if isinstance(outcome, ChallengeBroken | WorkersLost | OSError | MemoryError):
        raise outcome
    if isinstance(outcome, Exception):
        refused = _why_unranked(folder.name, outcome)
        content: dict[str, Any] = {"code": refused.code, "reason": refused.reason}
    else:
        write_together(folder, outcome)
        content = {"files": {name: store.file_hash(folder / name) for name in files}}
    write_atomically(folder / store.KEY_FILE, as_json({"key": key, **content}))
    return _trace_of(outcome) if isinstance(outcome, Exception) else ""


def _read_team(folder: Path, name: str, challenge: Challenge, columns: Sequence[PlannedColumn]) -> TeamScores:
    """Read the scores in a result folder. Raises InputFault."""
    file, team = _ResultFile(name, folder / "metrics.json", folder / "details.json"), f"team {quote(name)}"
    metrics = store.read_metrics(file.metrics, where=f"{team}, 'metrics.json'")
    return file.scores(challenge, columns, metrics, where=f"{team}, 'details.json'")


def _why_unranked(name: str, error: Exception) -> store.Unranked:
    """Write the line that the platform would show the team: nothing of the reference, no hidden name."""
    if not isinstance(error, EvaluationError):
        error = EvaluationError(fault("program-failed", "submission", name=type(error).__name__))
    hidden = error.hidden_names if isinstance(error, SubmissionRejected) else ()
    findings = redact_findings((f for f in error.findings if f.severity == "error"), hidden)
    first = min(findings, key=lambda finding: (finding.code, finding.expected))
    reason = render_summary(findings, intro="", rest="'evaluation validate' lists them").strip()
    return store.Unranked(name, first.code, reason)


def _trace_of(error: Exception) -> str:
    """Return the tracebacks of a fault of the program or of its readers, for the log; "" for other errors."""
    if isinstance(error, EvaluationError):
        return "\n".join(dict.fromkeys(finding.trace for finding in error.findings if finding.trace))
    return "".join(traceback.format_exception(error))


# --- what is kept -----------------------------------------------------------------------------------------------------


def challenge_key(folder: Path, challenge: Challenge) -> str:
    """Hash everything but the submission that a result depends on. Raises ChallengeBroken.

    [ranking], [audit] and [publish] are not in it: they are applied to the scores.
    """
    digest = hashlib.sha256()
    store.add_text(
        digest, __version__, challenge.hash, challenge.model_dump_json(exclude={"ranking", "audit", "publish"})
    )
    with _reference_read():
        _add_files(digest, folder, sorted(reference_names(challenge, folder)))
    return digest.hexdigest()


def reference_hashes(folder: Path, challenge: Challenge) -> dict[str, str]:
    """Hash the reference files of each case by name; a file with all cases has one hash under "".

    A hash of few numbers shows the numbers, so these are for organisers only. Raises ChallengeBroken.
    """
    with _reference_read():
        if challenge.reference.is_shared:
            names = {"": sorted(reference_names(challenge, folder))}
        else:
            names = {
                case.name: sorted(name for file in reference_files(challenge, folder, case) for name in file.names)
                for case in challenge.cases
            }
        return {case: _hash_of_files(folder, of_case) for case, of_case in names.items()}


def _hash_of_files(folder: Path, names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    _add_files(digest, folder, names)
    return digest.hexdigest()


def _add_files(digest: Any, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        with (folder / name).open("rb") as stream:
            store.add_file(digest, name, stream)


@contextmanager
def _reference_read() -> Iterator[None]:
    """Raise ChallengeBroken for a reference that cannot be read."""
    try:
        yield
    except InputFault as refusal:
        raise ChallengeBroken(*refusal.findings) from refusal
    except OSError as error:
        why = (error.strerror or "not readable").lower()
        raise ChallengeBroken(fault("missing-file", CHALLENGE_FILE, wording="no-reference", got=why)) from None


def reference_names(challenge: Challenge, folder: Path) -> set[str]:
    """List the files of the reference, below the folder of the challenge. Raises InputFault."""
    if challenge.reference.is_shared:
        pattern = challenge.reference.files.replace("{class}", "*")
        return {path.relative_to(folder).as_posix() for path in folder.glob(pattern)}
    files = [file for case in challenge.cases for file in reference_files(challenge, folder, case)]
    return {name for file in files for name in file.names}


def _submission_key(of_challenge: str, challenge: Challenge, path: Path) -> str:
    """Hash the inputs of a result; "" for unreadable files, which scoring reports."""
    digest = hashlib.sha256()
    store.add_text(digest, of_challenge)
    with suppress(SubmissionRejected, WrongUsage, InputFault, OSError):
        if path.is_dir():
            files = open_submission(path, challenge.limits)
            for name in files.names:
                with files.open(name) as stream:
                    store.add_file(digest, name, stream)
        else:
            with path.open("rb") as stream:
                store.add_file(digest, path.suffix.casefold(), stream)
        return digest.hexdigest()
    return ""


# --- results that are there -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ResultFile:
    """A metrics.json of a team, and the details.json next to it if there is one."""

    name: str
    metrics: Path
    details: Path | None

    @property
    def objects(self) -> Path | None:
        """The objects.csv next to a metrics.json; None for other layouts."""
        return self.metrics.with_name("objects.csv") if self.metrics.name == "metrics.json" else None

    def scores(
        self, challenge: Challenge, columns: Sequence[PlannedColumn], metrics: dict[str, Any], *, where: str
    ) -> TeamScores:
        """Read the scores of a metrics.json and of the details.json named ``where``. Raises InputFault."""
        details = store.read_details(self.details, where=where) if self.details else None
        tables = stored_tables(challenge, details, self.objects) if details else None
        return team_of_documents(self.name, challenge, columns, metrics, details, tables=tables, where=where)


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """A folder with results at any depth: ``<team>/metrics.json``, or ``<team>.json`` as the platform's files are kept.

    Only a details.json next to a metrics.json shows the values of patients.
    """

    path: Path

    def read(self, challenge: Challenge, columns: list[PlannedColumn]) -> tuple[list[TeamScores], list[store.Unranked]]:
        """Read the scores of all teams, and list teams without scores, such as teams with damaged results.

        Raises WrongUsage with all faults if no team can be ranked, or some belong to another challenge: no-submission,
        no-teams, duplicate-team, not-metrics, different-challenges.
        """
        files, rejected = self.find()
        scores: list[TeamScores] = []
        faults: list[Finding] = []
        hashes: dict[str, list[str]] = {}
        for file in files:
            try:
                metrics = store.read_metrics(file.metrics, where=self.where(file.metrics))
                hash_there = metrics["challenge"]["hash"]
                hashes.setdefault(hash_there, []).append(file.name)
                if hash_there == challenge.hash:
                    where = self.where(file.details or file.metrics)
                    with reader_faults_told(where):
                        scores.append(file.scores(challenge, columns, metrics, where=where))
            except InputFault as error:
                faults += error.findings
                rejected.append(_why_unranked(file.name, rejection(challenge, error.findings)))
        others = {hash_there: names for hash_there, names in sorted(hashes.items()) if hash_there != challenge.hash}
        if others:
            named = [f"{hash[:12]}… in {listed(names, 3, last='and')}" for hash, names in list(others.items())[:5]]
            named += [f"and {len(others) - 5} more"] if len(others) > 5 else []
            several = fault("different-challenges", "results", wording="several-hashes", hashes="; ".join(named))
            raise WrongUsage(several, *faults)
        if faults and not scores:
            raise WrongUsage(*faults)
        return scores, rejected

    def objects(self) -> dict[str, Path | None]:
        """The objects.csv next to the metrics.json of each team; None for other layouts."""
        return {file.name: file.objects for file in self.find()[0]}

    def metrics(self) -> dict[str, Path]:
        """The metrics.json of each team."""
        return {file.name: file.metrics for file in self.find()[0]}

    def where(self, path: Path) -> str:
        """A file in messages."""
        return quote(path.relative_to(self.path).as_posix(), 120)

    def find(self) -> tuple[list[_ResultFile], list[store.Unranked]]:
        """Find all results below the folder, in the order of teams, and teams without results or a usable name."""
        if not self.path.is_dir():
            raise WrongUsage(fault("no-submission", quote(self.path, 200), wording="no-results", got="no such folder"))
        files, rejected = [], []
        for path in sorted(self.path.rglob("*.json"), key=lambda path: path.parts):
            if path.name.startswith(".") or path.is_dir() or path.name in OTHER_FILES:
                continue
            if path.name == store.KEY_FILE:
                unranked = store.rejection_in(store.read_key(path.parent), path.parent.name)
                rejected += [unranked] if unranked else []
            elif path.name == "metrics.json":
                details = path.with_name("details.json")
                files.append(_ResultFile(path.parent.resolve().name, path, details if details.is_file() else None))
            else:
                files.append(_ResultFile(path.stem, path, None))
        if not files and not rejected:
            raise WrongUsage(fault("no-teams", quote(self.path, 120), wording="in-results"))
        with faults_as(WrongUsage):
            refuse_many_teams(len(files), quote(self.path, 120))
        rejected += _check_names([(file.name, file.metrics.relative_to(self.path).as_posix()) for file in files])
        return sorted((file for file in files if _is_team_name(file.name)), key=lambda file: file.name), rejected
