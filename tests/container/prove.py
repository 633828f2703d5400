"""Prove an image: run it as the platform does, and compare everything it says and writes with what it must.

    PYTHONPATH=.:library:tests python -m container.prove podman localhost/nuclei-evaluation:test [--renew] …

Prints a line for each check, and at last one for all. ``--renew`` writes the expected last lines of stderr anew
(tests/container/expected.json; review them as a diff). The expected metrics.json are what this machine's Python writes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import real_challenges as real
from signals import End, chosen
from test_leaks import planted_in
from test_progress import faults_of_end

from container import machines, submissions
from container.engine import GROUND_TRUTH, MEMORY, SUBMISSION, Ended, Engine
from container.here import scored_here
from container.made_set import write_set
from container.submissions import EXPECTED, Given
from evaluation.files.results import __version__
from evaluation.files.results.documents import as_json
from evaluation.folders.demo import write_demo

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
FAULTS = ROOT / "docs" / "security.md"
OUTPUTS = {"metrics.json", "details.json", "objects.csv"}
WANTED_SECONDS = 3.0  # said, not checked: the machine may be busy
LITTLE_MEMORY = 400 << 20
SECONDS = 600.0  # for what never ends; the platform gives an hour
OURS = ("/proof/", "/tmp/", "/opt/evaluation", "/opt/venv", "Traceback")
PYTHON = "/opt/venv/bin/python"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["podman", "docker"])
    parser.add_argument("image")
    parser.add_argument("--renew", action="store_true", help="write the expected last lines anew")
    parser.add_argument("--whole-corpus", action="store_true", help="all of the hostile corpus, without expected lines")
    options = parser.parse_args()
    os.umask(0o022)  # the image's user reads the folders
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        scratch = Path(folder)
        proof = Proof(Engine.of(options.engine, options.image, scratch), scratch, Expected(options.renew))
        if options.whole_corpus:
            proof.corpus(everything=True)
        else:
            proof.everything()
    return proof.ended()


class Expected:
    """The exit code and the last line of each submission that fails."""

    def __init__(self, renew: bool) -> None:
        self.renew = renew
        self.lines: dict[str, str] = {} if renew or not EXPECTED.exists() else json.loads(EXPECTED.read_text())
        self.met: set[str] = set()

    def faults(self, name: str, line: str) -> list[str]:
        self.met.add(name)
        if self.renew:
            self.lines[name] = line
        return [] if self.lines.get(name) == line else [f"the last line is {line!r}; expected {self.lines.get(name)!r}"]

    def end(self) -> list[str]:
        if self.renew:
            EXPECTED.write_text(json.dumps(self.lines, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        return [f"{name!r} is expected and was not run" for name in sorted(set(self.lines) - self.met)]


@dataclass
class Proof:
    engine: Engine
    scratch: Path
    expected: Expected
    faults: list[str] = field(default_factory=list)
    failing: int = 0
    scored: int = 0
    skipped: list[str] = field(default_factory=list)

    def everything(self) -> None:
        self.image()
        self.conditions()
        self.example()
        self.entrypoint()
        self.organisers()
        self.workers()
        self.signals()
        self.first_process()
        self.faults_of_machines()
        self.corpus()
        self.formats()
        self.real_input()
        self.check("expected.json", self.expected.end())

    def check(self, name: str, faults: Iterable[str], told: str = "") -> None:
        found = list(faults)
        self.faults += [f"{name}: {fault}" for fault in found]
        print(f"  {'FAILED' if found else 'ok'}  {name}{f' ({told})' if told else ''}", flush=True)
        for fault in found:
            print(f"          {fault}", flush=True)

    def ended(self) -> int:
        for line in self.skipped:
            print(f"  NOT TESTED  {line}")
        if self.faults:
            print(f"{len(self.faults)} faults of the image; see above.")
            return 1
        print(f"{self.scored} submissions scored to the byte, {self.failing} refused with the right code and line.")
        return 0

    # --- the image --------------------------------------------------------------------------------------------------

    def image(self) -> None:
        """What the platform and a reader look at: configuration, labels, and nothing that is not needed."""
        about = json.loads(self.engine.call("image", "inspect", self.engine.image))[0]
        config = about["Config"]
        labels = config.get("Labels") or {}
        entrypoint = [PYTHON, "-m", "evaluation", "score"]
        user, _, group = config["User"].partition(":")
        faults = [
            *([] if (about["Os"], about["Architecture"]) == ("linux", "amd64") else ["it is not for linux/amd64"]),
            *([] if user.isdigit() and group.isdigit() and int(user) > 0 else [f"its user is {config['User']!r}"]),
            *([] if config["Entrypoint"] == entrypoint else [f"its entrypoint is {config['Entrypoint']}"]),
            *([f"it has arguments {config['Cmd']}"] if config.get("Cmd") else []),
            *(
                f"its label {name} is {labels.get(name)!r}; expected {start}…"
                for name, start in expected_labels().items()
                if not str(labels.get(name, "")).startswith(start)
            ),
            *(f"the platform removes {entry}" for entry in config["Env"] if entry.startswith("GRAND_CHALLENGE_")),
        ]
        unwanted = self.engine.run(["-c", UNWANTED], entrypoint="/bin/sh")
        faults += [f"it holds {name}" for name in unwanted.out.split()]
        writable = self.engine.run(["-c", WRITABLE], entrypoint="/bin/sh")
        faults += [f"its user may write {name}" for name in writable.out.split()]
        self.check("configuration", faults, f"{about['Size'] // 10**6} MB")

    def conditions(self) -> None:
        """The limits are in force, as the kernel says."""
        output, empty = self.folder("output"), self.folder("empty")
        output.chmod(0o777)
        ended = self.engine.run(
            ["/proof/conditions.py"], entrypoint=PYTHON, output=output, links={"input": SUBMISSION},
            mounts={"/proof": HERE, SUBMISSION: empty, GROUND_TRUTH: empty},
        )  # fmt: skip
        if ended.code != 0:
            self.check("conditions", [f"cannot be read: {ended.err[-500:]}"])
            return
        found = json.loads(ended.out)
        wrong = [f"{key} is {found[key]}; expected {value}" for key, value in CONDITIONS.items() if found[key] != value]
        self.check("conditions", wrong, "user, network, capabilities, memory and swap, pids, CPUs, what is writable")

    # --- what is scored -----------------------------------------------------------------------------------------------

    def example(self) -> None:
        """The demo's submissions, with the ground truth of the image and with uploaded ones; the time to start."""
        demo = write_demo(self.scratch / "demo")
        frozen = shutil.copytree(ROOT / "tests" / "golden" / "frozen", self.scratch / "frozen")
        seconds = []
        for name, submission, ground_truth in (
            *((f"the demo's {team} with its own ground truth", path, None) for team, path in demo.submissions.items()),
            ("the frozen finder with an uploaded ground truth", frozen / "submissions/finder", frozen / "challenge"),
            ("what is published of the demo's finder", demo.submissions["finder"], ROOT / "ground_truth"),
        ):
            ended = self.engine.score(submission, ground_truth)
            seconds.append(ended.seconds)
            used = ground_truth or ROOT / "ground_truth"
            here = scored_here(used, submission).texts(public=ground_truth is not None)
            faults = [
                *self.faults_of_scored(ended, here["metrics.json"].encode()),
                *([] if ended.files.get("details.json") == here["details.json"].encode() else ["other details.json"]),
            ]
            self.check(name, faults, f"{ended.seconds:.1f} s, {len(here['metrics.json'])} bytes")
        print(f"  start, eight small cases and end: {min(seconds):.1f} s (wanted: less than {WANTED_SECONDS} s)")

    def faults_of_scored(self, ended: Ended, expected: bytes) -> list[str]:
        self.scored += 1
        if ended.code != 0:
            return [f"ended with exit code {ended.code}: {ended.err[-500:]}"]
        metrics = ended.files.get("metrics.json", b"")
        return [
            *([f"stderr is not empty: {ended.err[:300]!r}"] if ended.err else []),
            *([f"stdout is not empty: {ended.out[:300]!r}"] if ended.out else []),
            *([f"files {sorted(ended.files)}"] if set(ended.files) != OUTPUTS else []),
            *(["metrics.json is not the expected one to the byte"] if metrics != expected else []),
            *(["metrics.json has more than 100 kB"] if len(metrics) > 100_000 else []),
        ]

    def formats(self) -> None:
        """A perfect submission in every format gets the bytes that this machine's Python writes."""
        given = list(submissions.of_every_format(self.scratch / "formats"))
        results = self.several(self.scratch / "formats", given)
        for one, ended in zip(given, results, strict=True):
            here = scored_here(one.ground_truth, one.path)
            self.check(one.name, self.faults_of_scored(ended, as_json(here.metrics).encode()))

    def real_input(self) -> None:
        """The platform's own /input, against its polygons without every tenth; each of those is spurious then."""
        if not SHARED_DATA.is_dir():
            self.skipped.append(f"the real /input of PUMA: there is no folder {SHARED_DATA}")
            return
        polygons = real.puma_polygons(SHARED_DATA)
        kept = {name: [one for index, one in enumerate(of_case) if index % 10] for name, of_case in polygons.items()}
        pair = real.puma(SHARED_DATA, self.scratch / "puma", kept)
        here = scored_here(pair.challenge, pair.submission)
        ended = self.engine.score(pair.submission, pair.challenge)
        faults = self.faults_of_scored(ended, as_json(here.metrics).encode())
        total, found = (sum(map(len, side.values())) for side in (polygons, kept))
        metrics = json.loads(ended.files.get("metrics.json", b"{}"))
        for family, metric, expected in (
            ("detection", "precision", found / total), ("detection", "recall", 1), ("classification", "accuracy", 1),
            ("segmentation", "iou", 1), ("segmentation", "hausdorff_px", 0),
        ):  # fmt: skip
            value = metrics.get(family, {}).get(metric, {}).get("pooled")
            if value is None or abs(value - expected) > 1e-6:
                faults.append(f"{family}.{metric}.pooled is {value}; expected {expected:.6f}")
        self.check("the real /input of PUMA", faults, f"{total} polygons, {ended.seconds:.1f} s")

    # --- what is refused ----------------------------------------------------------------------------------------------

    def entrypoint(self) -> None:
        """Each in a container of its own, started by the image's own entrypoint without an argument."""
        for given in submissions.through_entrypoint(self.scratch / "entrypoint"):
            ended = self.engine.score(given.path, given.ground_truth, seconds=SECONDS)
            faults = self.faults_of_refused(given.name, ended, 1, given.finding)
            if given.leads_to:
                there = self.engine.run(
                    ["-c", 'test -s "$0"', given.leads_to], entrypoint="/bin/sh", links={"input": SUBMISSION},
                    mounts={SUBMISSION: given.path, GROUND_TRUTH: given.ground_truth},
                )  # fmt: skip
                faults += [] if there.code == 0 else [f"{given.leads_to} leads nowhere, so nothing is shown"]
            self.check(given.name, faults, f"{ended.seconds:.1f} s")

    def organisers(self) -> None:
        """A fault of the ground truth, and memory that does not suffice, are not told as the submission's fault."""
        place = self.scratch / "organisers"
        broken = submissions.nothing(place / "broken")
        (broken.ground_truth / "reference" / "c1.json").write_bytes(b"axolotl 48611")
        for path in (broken.ground_truth / "reference").iterdir():
            (broken.path / path.name).write_bytes((broken.ground_truth / "reference" / "c2.json").read_bytes())
        ended = self.engine.score(broken.path, broken.ground_truth, seconds=SECONDS)
        name = "a broken reference"
        self.check(name, self.faults_of_refused(name, ended, 3, ""), f"{ended.seconds:.1f} s")
        (place / "empty").mkdir()
        ended = self.engine.score(broken.path, place / "empty", seconds=SECONDS)
        name = "an empty ground truth"
        self.check(name, self.faults_of_refused(name, ended, 3, ""), f"{ended.seconds:.1f} s")

    def workers(self) -> None:
        """A worker that is killed while it works, as the kernel does when memory runs out; and little memory.

        Asked for two workers the program tells of the loss; left to itself it goes on with one, and nobody notices.
        """
        folder = self.scratch / "workers"
        place = write_set(folder / "set", 48)  # workers at once, however fast the machine is
        asked, lost = Given("a killed worker", place), Given("a worker that is lost", place)
        (told,) = self.several(folder, [asked], "--workers", "2", kill_a_worker=True)
        self.check(asked.name, self.faults_of_refused(asked.name, told, 70, ""), f"{told.seconds:.1f} s")
        here = as_json(scored_here(lost.ground_truth, lost.path).metrics).encode()
        (ended,) = self.several(folder, [lost], kill_a_worker=True)
        self.check(lost.name, self.faults_of_scored(ended, here), f"{ended.seconds:.1f} s")
        ended = self.engine.score(lost.path, lost.ground_truth, memory=LITTLE_MEMORY)
        faults = self.faults_of_scored(ended, here)
        self.check("memory for fewer workers", faults, f"{LITTLE_MEMORY // 10**6} MB, {ended.seconds:.1f} s")

    def signals(self) -> None:
        """A part of the signals of tests/signals.py, in the image; all of them are in tests/test_progress.py."""
        demo = write_demo(self.scratch / "signals")
        ended = self.engine.run(
            ["/tests/signals.py", "/given/challenge", "/given/submission", "/tmp"], entrypoint=PYTHON,
            mounts={"/given/challenge": demo.challenge, "/given/submission": demo.submissions["finder"],
                    "/tests": HERE.parent}, seconds=3600,
        )  # fmt: skip
        ends = {line["name"]: End(line["code"], line["last"], line["files"], line["left"])
                for line in map(json.loads, ended.out.splitlines())}  # fmt: skip
        faults = [f"ended with {ended.code}: {ended.err[-500:]}"] if ended.code else []
        for run in chosen():
            found = faults_of_end(run, ends[run.name]) if run.name in ends else ["not run"]
            faults += [f"{run.name}: {fault}" for fault in found]
        self.check("signals", faults, f"{len(ends)} of them, {ended.seconds:.0f} s")

    def first_process(self) -> None:
        """Signals to the container: its first process has no other handlers than its own."""
        demo = write_demo(self.scratch / "first")
        for name, code in (("TERM", 143), ("INT", 130)):
            output = self.folder(f"first-{name}")
            output.chmod(0o777)

            def send(container: str, output: Path = output, name: str = name) -> None:
                until = time.monotonic() + SECONDS
                while not (output / "mark").exists() and time.monotonic() < until:
                    time.sleep(0.05)
                self.engine.call("kill", "--signal", name, container)

            ended = self.engine.run(
                ["/tests/held.py", "summary", "/output/mark", "score"], entrypoint=PYTHON, output=output,
                mounts={"/tests": HERE.parent, SUBMISSION: demo.submissions["finder"], GROUND_TRUTH: demo.challenge},
                links={"input": SUBMISSION}, then=send, seconds=SECONDS,
            )  # fmt: skip
            left = sorted({path.name for path in output.iterdir()} - {"mark", "mark.once"})
            wrong = (ended.code, ended.last, left) != (code, "Interrupted; no results were written.", [])
            self.check(f"{name} to the container", [f"{ended.code}, {ended.last!r}, {left}"] if wrong else [])

    def faults_of_machines(self) -> None:
        """Every row of docs/security.md."""
        demo = write_demo(self.scratch / "faults")
        rows = list(machines.rows_of(self.engine, demo, self.scratch))
        text = FAULTS.read_text()
        before, _, rest = text.partition(machines.BEGIN)
        told, _, after = rest.partition(machines.END)
        if self.expected.renew:
            FAULTS.write_text(f"{before}{machines.BEGIN}\n\n{machines.table(rows)}\n\n{machines.END}{after}")
        there = told.strip().splitlines()
        wrong = [f"not in docs/security.md: {row}" for row in rows if not self.expected.renew and str(row) not in there]
        wrong += [
            f"{row.files}: {row}" for row in rows if row.files != (tuple(sorted(OUTPUTS)) if row.code == 0 else ())
        ]
        wrong += [f"no exit code of ours: {row}" for row in rows if row.code not in (0, 1, 2, 3, 70)]
        wrong += [f"a line without a fault, or none: {row}" for row in rows if (row.code == 0) == bool(row.last)]
        wrong += [f"a path: {row}" for row in rows for path in (*OURS, "/output") if path in row.last]
        self.check("faults of machines", wrong, f"{len(rows)} of them")

    def corpus(self, *, everything: bool = False) -> None:
        """Hostile submissions, one process of the program each, in one container; no byte of the reference is told."""
        given = list(submissions.of_corpus(self.scratch / "corpus", everything=everything))
        for one, ended in zip(given, self.several(self.scratch / "corpus", given), strict=True):
            faults = self.faults_of_refused(one.name, ended, 1, one.finding, with_line=not everything)
            self.check(one.name, faults, f"{ended.seconds:.1f} s")

    def faults_of_refused(
        self, name: str, ended: Ended, code: int, finding: str, *, with_line: bool = True
    ) -> list[str]:
        """Everything that is not as it must be about a submission that is not scored."""
        self.failing += 1
        last = ended.last
        told = ended.err.splitlines() if code == 1 else [last]  # what else is told is for the organisers
        return [
            *([] if ended.code == code else [f"exit code {ended.code}; expected {code}: {ended.err[-300:]!r}"]),
            *([] if finding == "" or last.startswith("Submission rejected: [") else [f"the last line is {last!r}"]),
            *([] if finding == "" or f"[{finding}] " in last else [f"[{finding}] is not in {last!r}"]),
            *([] if last.isprintable() and 0 < len(last) <= 1000 else ["the last line is not a line"]),
            *(f"{words} of the reference in {line!r}" for line in told if (words := planted_in(line))),
            *(f"{path} in {line!r}" for line in told for path in OURS if path in line),
            *([f"files {sorted(ended.files)} of one that was not scored"] if ended.files else []),
            *([f"stdout is not empty: {ended.out[:300]!r}"] if ended.out and code == 1 else []),
            *(self.expected.faults(name, last) if with_line else []),
        ]

    # --- many in one container ----------------------------------------------------------------------------------------

    def several(
        self, folder: Path, given: Sequence[Given], *arguments: str, kill_a_worker: bool = False
    ) -> list[Ended]:
        """Score submissions that lie in ``folder``, in one container; see several.py."""
        documents = several_of(folder, given, *arguments, kill_a_worker=kill_a_worker)
        (folder / "list.json").write_text(json.dumps(documents))
        ended = self.engine.run(
            ["/proof/several.py", "/given/list.json"], entrypoint=PYTHON, links=LINKS,
            mounts={"/given": folder, "/proof": HERE}, seconds=len(given) * SECONDS,
        )  # fmt: skip
        if ended.code != 0:
            raise RuntimeError(f"several.py ended with {ended.code}: {ended.err[-1000:]}")
        return [as_ended(json.loads(line)) for line in ended.out.splitlines()]

    def folder(self, name: str) -> Path:
        path = self.scratch / name
        path.mkdir()
        return path


LINKS = {"input": "/tmp/input", "output": "/tmp/output", GROUND_TRUTH.lstrip("/"): "/tmp/ground_truth"}
UNWANTED = """
for tool in gcc cc c++ ld make /opt/venv/bin/pip; do command -v "$tool"; done
ls -d /build /root/.cache /opt/evaluation/tests /opt/evaluation/.git 2>/dev/null
"""
WRITABLE = "find /opt /usr -not -type l -perm /o+w -o -user 10001 2>/dev/null | head -n 3"
CONDITIONS: dict[str, Any] = {
    "uid": 10001,
    "gid": 10001,
    "input": SUBMISSION,
    "capabilities": {"Prm": 0, "Eff": 0, "Bnd": 0, "Amb": 0},
    "no_new_privileges": True,
    "interfaces": ["lo"],
    "memory": MEMORY,
    "memory_and_swap": MEMORY,
    "pids": 256,
    "cpus": 2.0,
    "data": MEMORY,
    "writable": ["/tmp", "/output"],
}


def expected_labels() -> dict[str, str]:
    """How the labels of the image begin."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "rev-parse", "--verify", "HEAD"]
    revision = "unknown"
    if shutil.which("git"):
        revision = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or revision
    title = "org.opencontainers.image"
    return {f"{title}.title": "nuclei-evaluation", f"{title}.version": __version__, f"{title}.revision": revision}


def several_of(folder: Path, given: Sequence[Given], *more: str, kill_a_worker: bool = False) -> list[dict[str, Any]]:
    """The list that several.py reads; a submission that is a file is given as an argument."""
    documents = []
    for one in given:
        place = f"/given/{one.folder.relative_to(folder).as_posix()}"
        submission = f"{place}/{one.submission}"
        arguments = ["--submission", submission] if one.path.is_file() else []
        documents.append({"name": one.name, "submission": submission, "ground_truth": f"{place}/ground_truth",
                          "arguments": [*arguments, *more], "seconds": SECONDS,
                          "kill_a_worker": kill_a_worker})  # fmt: skip
    return documents


def as_ended(line: dict[str, Any]) -> Ended:
    files = {name: text.encode() for name, text in line["files"].items()}
    err = line["err"] + "".join(f"\nprocess {pid} was left behind" for pid in line["left"])
    if line["killed"] is False:
        err += "\nthere was no worker to kill"
    return Ended(line["code"], line["out"], err, line["seconds"], files)


if __name__ == "__main__":
    sys.exit(main())
