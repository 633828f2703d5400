"""One ZIP of a finished challenge, and its verification years later.

The public archive omits files that reveal the reference: the reference itself, details.json and objects.csv, and
cases.csv if the names of cases are hidden. The same files and the same date make the same bytes.
"""

from __future__ import annotations

import csv
import io
import math
import platform
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

from evaluation.board import stored as store
from evaluation.board import team_scores
from evaluation.board.board import rank_folder
from evaluation.board.document import leaderboard_json, read_board
from evaluation.board.rules import load_ranked
from evaluation.board.teams import ResultFolder, reference_names, score_teams
from evaluation.challenge import CASES_FILE, CHALLENGE_FILE, Challenge, LimitRules
from evaluation.challenge.documents import CSV_BYTES
from evaluation.files.results import __version__
from evaluation.files.results.documents import ABSENT, as_json
from evaluation.files.results.files import write_atomically
from evaluation.files.submission import SubmissionFiles, open_submission
from evaluation.findings import fault, quote
from evaluation.findings.errors import ChallengeBroken, EvaluationError, InputFault, SubmissionRejected, WrongUsage

SUMS_FILE = "SHA256SUMS"
BOARD_FILE = "leaderboard.json"
LOCK_FILE = "requirements/run.lock"
NOT_COMPARED = ("software", "findings")  # of leaderboard.json: programs of other versions may differ in them
DIGITS = 1e-6  # results have six decimals
COUNT_OF_OUTCOME = {"matched": "true_positives", "missed": "false_negatives", "spurious": "false_positives"}

Agreement = Literal["same to the byte", "same to the digit", "differs", "cannot be checked"]


@dataclass(frozen=True, slots=True)
class _Checked:
    """One check of an archive: its subject, outcome, and reason."""

    what: str
    outcome: Agreement
    why: str = ""

    @classmethod
    def bytes_of(cls, what: str, other: Sequence[str]) -> _Checked:
        """Create the outcome of a comparison byte by byte, from the names of the files that differ."""
        return cls(what, "differs" if other else "same to the byte", ", ".join(other[:10]))


# --- writing ----------------------------------------------------------------------------------------------------------


def write_archive(
    challenge_folder: Path,
    results: Path,
    output: Path,
    *,
    date: str,
    creators: Sequence[str],
    image: str = "",
    private: bool = False,
) -> list[str]:
    """Write the ZIP and return the names of its files.

    results  the output folder of ``leaderboard``: ``results/<team>/`` and leaderboard.json
    date     of publication, YYYY-MM-DD
    image    digest of the image that scored
    private  for the organisers: with the reference, details.json and objects.csv

    Raises ChallengeBroken, WrongUsage.
    """
    challenge = Challenge.load(challenge_folder)
    folder = ResultFolder(results)
    folder.find()  # raises if there is nothing
    paths = {f"challenge/{CHALLENGE_FILE}": challenge_folder / CHALLENGE_FILE}
    if private or challenge.submission.case_names != "hidden":
        paths[f"challenge/{CASES_FILE}"] = challenge_folder / CASES_FILE
    if private:
        names = sorted(reference_names(challenge, challenge_folder))
        paths |= {f"challenge/{name}": challenge_folder / name for name in names}
    published = (store.KEY_FILE, *(store.RESULT_FILES if private else ("metrics.json",)))
    for path in sorted(results.rglob("*"), key=lambda path: path.parts):
        if path.is_file() and (path.name in published or path == results / BOARD_FILE):
            paths[path.relative_to(results).as_posix()] = path
    lock = Path(__file__).parents[2] / LOCK_FILE
    if lock.is_file():
        paths[LOCK_FILE] = lock
    contents = {name: path.read_bytes() for name, path in paths.items()}
    left_out = [] if private else ["reference", "details.json", "objects.csv"]
    left_out += [] if f"challenge/{CASES_FILE}" in paths else [CASES_FILE]
    contents["archive.json"] = as_json(_made_by(date, image, left_out)).encode()
    contents |= metadata(challenge, date, creators, __version__)
    sums = [f"{store.hashed(io.BytesIO(contents[name]))}  {name}\n" for name in sorted(contents)]
    contents[SUMS_FILE] = "".join(sums).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(contents):
            archive.writestr(zipfile.ZipInfo(name), contents[name], zipfile.ZIP_DEFLATED)
    write_atomically(output, packed.getvalue())
    return sorted(contents)


def _made_by(date: str, image: str, left_out: Sequence[str]) -> dict[str, Any]:
    """Describe the software and machine that created the results."""
    packages = sorted(f"{package.metadata['Name']}=={package.version}" for package in distributions())
    software = {"version": __version__, "python": platform.python_version(), "packages": packages, "image": image}
    return {"date": date, "left_out": list(left_out), "software": software}


def metadata(challenge: Challenge, date: str, creators: Sequence[str], program: str) -> dict[str, bytes]:
    """Write the three files that describe the results, and return them by name.

    datacite.json is of DataCite 4 (the DOI is given at publication), zenodo.json fits the deposit interface of
    Zenodo. The values in CITATION.cff 1.2.0 are JSON, which is YAML.
    """
    name, version, title = challenge.name, challenge.version, f"{challenge.name}: results"
    words = (
        f"Results of the challenge {name}, version {version}: rules, scores and ranking, with checksums. Rules "
        f"{challenge.hash}, ranking {challenge.ranking_hash}, nuclei-evaluation {program}."
    )
    datacite = {
        "schemaVersion": "http://datacite.org/schema/kernel-4",
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Challenge results"},
        "titles": [{"title": title}],
        "creators": [{"name": creator} for creator in creators],
        "publicationYear": date[:4],
        "dates": [{"date": date, "dateType": "Issued"}],
        "version": version,
        "descriptions": [{"description": words, "descriptionType": "Abstract"}],
    }
    zenodo = {
        "upload_type": "dataset",
        "title": title,
        "creators": [{"name": creator} for creator in creators],
        "publication_date": date,
        "version": version,
        "description": words,
    }
    named = [dict(zip(("family-names", "given-names"), creator.split(", ", 1), strict=False)) for creator in creators]
    citation = {
        "cff-version": "1.2.0",
        "message": "Cite these results by this file.",
        "type": "dataset",
        "title": title,
        "authors": [
            parts if len(parts) == 2 else {"name": creator} for parts, creator in zip(named, creators, strict=True)
        ],
        "date-released": date,
        "version": version,
    }
    return {
        "datacite.json": as_json(datacite).encode(),
        "zenodo.json": as_json(zenodo).encode(),
        "CITATION.cff": b"".join(f"{key}: ".encode() + orjson.dumps(value) + b"\n" for key, value in citation.items()),
    }


# --- checking ---------------------------------------------------------------------------------------------------------


def verify_archive(
    path: Path, work: Path, submissions: Path | None = None, *, workers: int | None = None
) -> list[_Checked]:
    """Recompute an archive (a ZIP or its folder) as far as its files allow.

    work         an empty folder that it is unpacked to
    submissions  as ``leaderboard`` takes them, which are scored again if the archive has the reference

    Files are unpacked if all sizes are within their limits; reference files only with ``submissions``.
    Raises WrongUsage if it cannot be unpacked or there are no submissions, and WorkersLost.
    """
    archive = work / "archive"
    try:
        files = open_submission(path, LimitRules())
        large = [name for name in files.names if files.size(name) > _most_bytes(name)]
        if large:
            name, size, most = large[0], files.size(large[0]), _most_bytes(large[0])
            got, expected = f"{size:,} bytes", f"at most {most:,} bytes in a file of this kind"
            raise WrongUsage(fault("too-large", quote(name), got=got, expected=expected, fix=""))
        sums = _check_sums(files)
        for name in files.names:
            if submissions is not None or not _is_of_reference(name):
                with files.open(name) as stream:
                    write_atomically(archive / name, stream.read())
    except (SubmissionRejected, InputFault) as error:
        raise WrongUsage(*error.findings) from None
    content = [*_check_metadata(archive), *_check_results_of_teams(archive)]
    return [sums, *content, *_check_scores(archive, submissions, work / "again", workers)]


def _most_bytes(name: str) -> int:
    """Return the maximum unpacked size of a file in an archive; files of the reference have no maximum."""
    file = name.rpartition("/")[2]
    if _is_of_reference(name) or file == "objects.csv":
        return LimitRules().bytes_per_file
    most = {"metrics.json": store.METRICS_BYTES, "details.json": store.DETAILS_BYTES, BOARD_FILE: store.DETAILS_BYTES}
    return most.get(file, CSV_BYTES)


def _is_of_reference(name: str) -> bool:
    return name.startswith("challenge/") and name not in (f"challenge/{CHALLENGE_FILE}", f"challenge/{CASES_FILE}")


def _check_sums(files: SubmissionFiles) -> _Checked:
    """Check that SHA256SUMS lists exactly the files, with their checksums. Nothing is written."""
    what = f"{len(files.names)} files, by {SUMS_FILE}"
    if SUMS_FILE not in files.names:
        return _Checked(what, "cannot be checked", f"there is no {SUMS_FILE}")
    with files.open(SUMS_FILE) as stream:
        lines = [line.split("  ", 1) for line in stream.read().decode("utf-8", "replace").splitlines()]
    sums = {line[1]: line[0] for line in lines if len(line) == 2}
    wrong = []
    for name in files.names:
        with files.open(name) as stream:
            if name != SUMS_FILE and sums.get(name) != store.hashed(stream):
                wrong.append(name)
    wrong += [f"{name} (missing)" for name in sums if name not in files.names]
    return _Checked.bytes_of(what, wrong)


def _check_metadata(folder: Path) -> Iterator[_Checked]:
    """Write the metadata again, and compare; notes about the machine cannot be checked."""
    what = ", ".join(names := ("CITATION.cff", "datacite.json", "zenodo.json"))
    try:
        stored = {name: (folder / name).read_bytes() for name in names}
        made, cited = (orjson.loads((folder / name).read_bytes()) for name in ("archive.json", "datacite.json"))
        creators, version = [each["name"] for each in cited["creators"]], made["software"]["version"]
        expected = metadata(Challenge.load(folder / "challenge"), made["date"], creators, version)
    except (OSError, EvaluationError, KeyError, TypeError, AttributeError, orjson.JSONDecodeError):
        yield _Checked(what, "cannot be checked", "archive.json or a file of the challenge is missing or damaged")
        return
    yield _Checked.bytes_of(what, [name for name in names if stored[name] != expected[name]])
    believed = f"software, image and date in archive.json, and the key in every {store.KEY_FILE}"
    yield _Checked(believed, "cannot be checked", "no other file contains them")


def _check_results_of_teams(folder: Path) -> Iterator[_Checked]:
    """Check the rules, the ranking, and the files, scores and nucleus counts of each team."""
    results = _result_folder_in(folder)
    try:
        challenge = Challenge.load(folder / "challenge")
        files = results.find()[0]
        hashes = {
            store.read_metrics(result.metrics, where=results.where(result.metrics))["challenge"]["hash"]
            for result in files
        }
    except EvaluationError as error:
        yield _Checked("the rules, the ranking and the scores", "cannot be checked", str(error.findings[0]))
        return
    why = [] if hashes == {challenge.hash} else ["results were computed with other rules or cases"]
    yield _Checked.bytes_of("the hash of rules and cases", why)
    yield _check_board(folder, results)
    for file in files:
        table, details = file.metrics.with_name("objects.csv"), file.details
        yield _check_key(file.name, file.metrics.parent)
        yield _check_numbers(file.name, challenge, file.metrics, details)
        what = f"counts of {file.name}, from its nuclei"
        if details is None or not table.is_file():
            yield _Checked(what, "cannot be checked", "objects.csv or details.json is not in the archive")
        else:
            yield _check_counts(what, table, details)


def _check_scores(folder: Path, submissions: Path | None, again: Path, workers: int | None) -> Iterator[_Checked]:
    """Score each team again from its submission, into the folder ``again``, and compare the results."""
    what = "the scores, from the submissions"
    if submissions is None:
        yield _Checked(what, "cannot be checked", "submissions are not in the archive; give them with --submissions")
        return
    results = _result_folder_in(folder)
    try:
        challenge, rules = load_ranked(folder / "challenge")
        files, rejected = results.find()
        columns = team_scores.plan_columns(challenge, rules.paths)
        rescored = score_teams(folder / "challenge", challenge, submissions, again, columns=columns, workers=workers)
    except ChallengeBroken as error:
        yield _Checked(what, "cannot be checked", str(error.findings[0]))
        return
    no_submission: tuple[Agreement, str] = "cannot be checked", "there is no such submission"
    scored, refused = {team.name for team in rescored.scores}, {team.name: team for team in rescored.unranked}
    for file in files:
        of_team = f"scores of {file.name}, from its submission"
        if file.name in scored:
            yield _check_results(of_team, file.metrics.parent, again / store.RESULTS / file.name)
        elif file.name in refused:
            yield _Checked(of_team, "differs", f"rejected now: {refused[file.name].reason}")
        else:
            yield _Checked(of_team, *no_submission)
    for team in rejected:
        of_team, now = f"the rejection of {team.name}, from its submission", refused.get(team.name)
        if now is not None:
            yield _Checked.bytes_of(of_team, [] if now == team else [now.reason])
        else:
            yield _Checked(of_team, *(("differs", "it is scored now") if team.name in scored else no_submission))


def _check_results(what: str, stored: Path, again: Path) -> _Checked:
    """Compare the files of a result in the archive with recomputed files."""
    names = [name for name in store.RESULT_FILES if (stored / name).is_file()]
    other = [name for name in names if (stored / name).read_bytes() != (again / name).read_bytes()]
    if not other:
        return _Checked(what, "same to the byte", ", ".join(names))
    for name in other:
        read = orjson.loads if name.endswith(".json") else _table_rows
        try:
            before, after = (read((folder / name).read_bytes()) for folder in (stored, again))
            different = _first_difference(before, after)
        except (orjson.JSONDecodeError, UnicodeDecodeError, csv.Error, RecursionError):
            return _Checked(what, "differs", f"{name} is damaged")
        if different:
            return _Checked(what, "differs", f"{name}: {different}")
    return _Checked(what, "same to the digit", f"different bytes in {', '.join(other)}")


def _table_rows(table: bytes) -> dict[str, list[str]]:
    """Read the cells of a CSV file, by their line."""
    rows = csv.reader(io.StringIO(table.decode(), newline=""))
    return {f"line {number}": row for number, row in enumerate(rows, start=1)}


def _result_folder_in(folder: Path) -> ResultFolder:
    return ResultFolder(folder / store.RESULTS if (folder / store.RESULTS).is_dir() else folder)


def _check_board(folder: Path, results: ResultFolder) -> _Checked:
    """Compute the ranking again from the stored results, and compare."""
    what = f"the ranking in {BOARD_FILE}"
    if not (folder / BOARD_FILE).is_file():
        return _Checked(what, "cannot be checked", f"there is no {BOARD_FILE}")
    stored = (folder / BOARD_FILE).read_bytes()
    try:
        before: Any = read_board(folder / BOARD_FILE)
        older = before.get("before", ABSENT)  # the older board is not here
        again = leaderboard_json(replace(rank_folder(folder / "challenge", results, {}), before=older)).encode()
        after = orjson.loads(again)
        if stored == again:
            return _Checked(what, "same to the byte")
        why = f"{' and '.join(NOT_COMPARED)} are not compared"
        if all(file.details is None for file in results.find()[0]):
            before, after = (_without_details(each) for each in (before, after))
            why = "ranks and values alone; tests and samples need details.json"
    except EvaluationError as error:
        return _Checked(what, "cannot be checked", str(error.findings[0]))
    except (KeyError, TypeError):
        return _Checked(what, "differs", f"{BOARD_FILE} is damaged")
    different = _first_difference(before, after)
    return _Checked(what, "differs" if different else "same to the digit", different or why)


def _without_details(board: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce a leaderboard to the parts that follow from the rules and the metrics.json of the teams."""
    kept_keys = {
        "columns": ("path", "direction", "weight"),
        "teams": ("name", "position", "combined", "equal", "floors", "below_floor"),
        "not_ranked": ("name", "code", "reason"),
        "shown": ("name",),
    }
    shortened = {
        name: [{key: entry.get(key) for key in keys} for entry in board[name]] for name, keys in kept_keys.items()
    }
    cells = [
        [{key: cell[key] for key in ("path", "value", "rank")} for cell in entry["columns"]] for entry in board["teams"]
    ]
    rules = {key: value for key, value in board["ranking"].items() if key != "in_words"}
    return {"challenge": board["challenge"], "ranking": rules, "cells": cells, **shortened}


def _first_difference(before: Any, after: Any, path: str = "") -> str | None:
    """Describe the first difference between two documents; None if they agree. Programs and findings may differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = (before.keys() | after.keys()) - (set() if path else set(NOT_COMPARED))
        pairs = [(f"{path}.{key}".lstrip("."), before.get(key), after.get(key)) for key in sorted(keys)]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{path}[{i}]", one, other) for i, (one, other) in enumerate(zip(before, after, strict=True))]
    elif before == after or _are_close(before, after):
        return None
    else:
        return f"{path}: {str(before)[:60]} in the archive, {str(after)[:60]} now"
    differences = (_first_difference(one, other, where) for where, one, other in pairs)
    return next(filter(None, differences), None)


def _are_close(one: Any, other: Any) -> bool:
    """Return whether two numbers, or two texts that are numbers, are the same to the digit."""
    try:
        return math.isclose(float(one), float(other), abs_tol=DIGITS)
    except (TypeError, ValueError):
        return False


def _check_key(name: str, folder: Path) -> _Checked:
    """Check by key.json that the files of a team are as they were when it was scored."""
    hashes = store.read_key(folder).get("files")
    names = [file for file in store.RESULT_FILES if (folder / file).is_file()]
    what = f"{', '.join(names)} of {name}, by {store.KEY_FILE}"
    if not isinstance(hashes, dict):
        return _Checked(what, "cannot be checked", f"there is no {store.KEY_FILE}, or it is damaged")
    return _Checked.bytes_of(what, [file for file in names if hashes.get(file) != store.file_hash(folder / file)])


def _check_numbers(name: str, challenge: Challenge, metrics: Path, details: Path | None) -> _Checked:
    """Recompute the numbers of metrics.json that follow from details.json and objects.csv."""
    what = f"numbers of {name} in metrics.json, from details.json and objects.csv"
    if details is None:
        return _Checked(what, "cannot be checked", "details.json is not in the archive")
    try:
        stored = store.read_metrics(metrics, where="'metrics.json'")
        cases = store.read_details(details, where="'details.json'")
        columns, every = team_scores.every_column(challenge), store.all_metrics(stored, cases)
        tables = team_scores.stored_tables(challenge, cases, metrics.with_name("objects.csv"))
        values = partial(team_scores.values_of_units, challenge, cases)
        once = np.ones((1, len(team_scores.groups_of(challenge))), np.int64)
        recomputed = team_scores.columns_in_samples(challenge, columns, values, tables, once)[0].tolist()
        published, detailed = (
            [store.score_or_nan(document, column.path) for column in columns] for document in (stored, every)
        )
    except InputFault as error:
        return _Checked(what, "cannot be checked", str(error))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return _Checked(what, "cannot be checked", "metrics.json or details.json has a different form")
    for column, *numbers in zip(columns, published, detailed, recomputed, strict=True):
        known = [value for value in numbers if not math.isnan(value)]
        if known and not math.isclose(min(known), max(known), rel_tol=2 * DIGITS, abs_tol=2 * DIGITS):
            return _Checked(what, "differs", f"{column.path}: {known[0]:g} in the archive, {known[-1]:g} now")
    total = sum(not math.isnan(value) for value in detailed)
    again = sum(not math.isnan(one) and not math.isnan(other) for one, other in zip(detailed, recomputed, strict=True))
    more = "" if again == total else "; the remaining numbers cannot be computed from these files"
    return _Checked(what, "same to the digit", f"{again:,} of {total:,}{more}")


def _check_counts(what: str, table: Path, path: Path) -> _Checked:
    """Count true positives, false negatives and false positives per case and rule in objects.csv; compare with
    details.json.
    """
    try:
        details = store.read_details(path, where="'details.json'")
        with table.open(encoding="utf-8", newline="") as stream:
            rows = Counter((row["case"], row["rule"], row["outcome"]) for row in csv.DictReader(stream))
        for case, entry in details["cases"].items():
            for rule, of_rule in entry["rules"].items():
                for outcome, name in COUNT_OF_OUTCOME.items():
                    stored, counted = of_rule["counts"][name], rows[case, rule, outcome]
                    if stored != counted:
                        why = f"{case}, {rule}: {stored} {outcome} in details.json, {counted} rows"
                        return _Checked(what, "differs", why)
    except InputFault as error:
        return _Checked(what, "cannot be checked", str(error))
    except (KeyError, TypeError, csv.Error, UnicodeDecodeError):
        return _Checked(what, "cannot be checked", "objects.csv or details.json has a different form")
    return _Checked(what, "same to the byte")
