"""A decoder that dies, hangs or fills its memory is a finding about its file, and nothing else changes."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import misbehaving_readers
import numpy as np
import pytest
from every_format import CASES, write_challenge
from signals import fields_of, left_of

from evaluation.files.decoding import guard
from evaluation.files.decoding.guard import Bounds, decode
from evaluation.files.decoding.plain_values import from_plain, to_plain
from evaluation.files.system import MemoryLeft, confinement
from evaluation.files.system.confinement import missing_here
from evaluation.findings.errors import InputFault, NoRoomBeside, SubmissionRejected
from evaluation.scoring import executors, processes, read
from evaluation.scoring.street import check_submission, score_submission
from evaluation.scoring.workers import Work, run_work

pytestmark = pytest.mark.skipif(not guard.IS_AVAILABLE, reason="processes are not guarded here")
BOUNDS = Bounds(memory_bytes=1 << 28, seconds=5)


@pytest.fixture(autouse=True)
def launcher_of_its_own() -> Iterator[None]:
    """Decoders that know the readers of this test."""
    assert misbehaving_readers
    kept, guard.launchers[:] = list(guard.launchers), []
    guard.of_thread.idle.clear()
    yield
    guard.of_thread.stop_all()
    guard.launchers[:] = kept


def ask(reader: str, *arguments: Any, streams: Any = (), owner: str = "a", bounds: Bounds = BOUNDS) -> list[Any]:
    name = f"misbehaving_readers:{reader}"
    return list(decode(name, streams, arguments, where="'a.png'", owner=owner, bounds=bounds))


def refusal(reader: str, *arguments: Any, **options: Any) -> str:
    with pytest.raises(InputFault) as fault:
        ask(reader, *arguments, **options)
    return str(fault.value)


def process() -> int:
    """The decoder that answers now; asking does not break it."""
    ((_, number),) = ask("content")
    return int(number)


def test_files_and_bytes_arrive_from_their_start(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as opened, tempfile.TemporaryFile() as unpacked:
        unpacked.write(bytes(100_000))
        unpacked.seek(0)
        opened.read(2)
        for _ in range(2):
            (((first, second, third), number),) = ask("content", streams=[opened, io.BytesIO(b"de"), unpacked])
            assert (first.tobytes(), second.tobytes(), third.size) == (b"abc", b"de", 100_000)
    assert number != os.getpid()


def test_one_decoder_serves_many_files_of_an_owner_and_none_of_another():
    first = process()
    assert {process() for _ in range(5)} == {first}
    assert refusal("fault") == "[not-json] 'a': a comma; expected no comma.; [wrong-format] 'b': b; expected c. d"
    assert process() == first
    (_, other) = ask("content", owner="b")[0]
    assert other != first
    assert process() == first
    (_, third) = ask("content", owner="c")[0]
    assert process() == first
    (_, again) = ask("content", owner="b")[0]
    assert len({first, other, third, again}) == 4


def test_a_decoder_that_dies_is_a_finding_about_its_file():
    process()
    assert refusal("crash", int(signal.SIGABRT)) == (
        "[unreadable-file] 'a.png': the library that decodes it ended with SIGABRT; expected a complete file. "
        "Write or copy the file again."
    )
    assert "ended with SIGSEGV" in refusal("read_address_0")
    assert "ended with no answer" in refusal("end")
    process()


def test_a_file_is_not_to_blame_for_what_the_one_before_it_did():
    ask("poison")
    assert ask("crash_if_poisoned") == ["read"]


def test_a_decoder_that_computes_for_ever_is_stopped():
    assert refusal("compute_forever", bounds=Bounds(1 << 28, 1)).startswith(
        "[too-slow] 'a.png': more than 1 s to decode; expected a file that decodes faster."
    )
    process()


def test_a_decoder_that_waits_for_ever_is_stopped(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(guard, "WAITED", 0.5)
        assert refusal("wait_forever", bounds=Bounds(1 << 28, 1)).startswith("[too-slow]")
    process()


def test_a_decoder_that_fills_its_memory_is_a_finding():
    room = 2 * (guard.LIBRARY_BYTES + BOUNDS.memory_bytes)
    assert refusal("take_memory", room).startswith("[too-large] 'a.png': more than 256 MiB of memory to decode;")
    assert ask("take_memory", BOUNDS.memory_bytes) == [BOUNDS.memory_bytes]


def test_a_decoder_that_is_killed_from_outside_is_no_fault_of_the_file():
    """The file is decoded once more, and nothing is yielded twice."""
    results = decode("misbehaving_readers:slowly", (), (), where="'a.png'", owner="a", bounds=BOUNDS)
    first = next(results)
    os.kill(first, signal.SIGKILL)
    rest = list(results)
    assert rest[0] == 2
    assert len(rest) == 2
    assert rest[1] != first
    assert process() == rest[1]


def test_a_decoder_that_is_killed_twice_is_a_finding_about_its_file():
    assert refusal("crash", int(signal.SIGKILL)).startswith(
        "[too-large] 'a.png': decoding was stopped twice, the second time running alone (probably out of memory); "
        "expected a file that needs less."
    )
    process()


@pytest.mark.parametrize(
    "reader, argument", [("take_memory", 9 << 27), ("answer_with", 1 << 25), ("crash", int(signal.SIGKILL))]
)
def test_what_has_no_room_beside_other_work_says_nothing_of_the_file(monkeypatch, reader, argument):
    """Else it would depend on the number of workers."""
    bounds = Bounds(memory_bytes=1 << 31, seconds=20)
    monkeypatch.setattr(guard.of_thread, "share", 1 << 24)
    with pytest.raises(NoRoomBeside):
        ask(reader, argument, bounds=bounds)
    monkeypatch.setattr(guard.of_thread, "share", None)
    if reader == "answer_with":
        assert len(ask(reader, argument, bounds=bounds)) == 1


def ask_all_in_worker(reader: str, arguments: Sequence[int]) -> list[int]:
    bounds = Bounds(memory_bytes=1 << 31, seconds=20)
    return [len(ask(reader, argument, bounds=bounds)[0]) for argument in arguments]


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_what_has_no_room_beside_other_work_is_done_alone(monkeypatch, kind):
    sizes = [1 << 10, 1 << 28, 1 << 12, 1 << 28]
    for module in (executors, processes):
        monkeypatch.setattr(module, "memory_left", lambda: MemoryLeft(1 << 26))
    monkeypatch.setattr(processes, "can_fork", lambda: True)  # copies find the reader, whatever threads are left
    executor = ThreadPoolExecutor(2) if kind == "threads" else None
    assert run_work(Work(ask_all_in_worker, ("answer_with",), sizes, [0] * 4, at_once=1), 2, executor) == sizes


DEADLY = """
import os, signal, sys
from evaluation.findings.errors import SubmissionRejected
from evaluation.files import formats
from evaluation.scoring.street import score_submission

plain = formats.yield_annotations

def deadly(streams, request, case, wheres):
    if case.name == "c2":
        os.kill(os.getpid(), int(sys.argv[3]))
    yield from plain(streams, request, case, wheres)

formats.yield_annotations = deadly
try:
    score_submission(sys.argv[1], sys.argv[2], workers=2)
except SubmissionRejected as error:
    print(*error.findings, sep="\\n")
"""


@pytest.mark.parametrize("number, finding", [
    (signal.SIGKILL, "[too-large] case 'c2', 'c2.tif': decoding was stopped twice"),
    (signal.SIGSEGV, "[unreadable-file] case 'c2', 'c2.tif': the library that decodes it ended with SIGSEGV"),
])  # fmt: skip
def test_a_file_that_ends_every_decoder_is_rejected_and_those_beside_it_are_not(tmp_path, number, finding):
    """In a process without threads, whose workers are copies of it."""
    challenge, submission = write_challenge("label_image class map tif", tmp_path)
    command = [sys.executable, "-c", DEADLY, str(challenge), str(submission), str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(finding)


def test_a_launcher_that_is_killed_is_no_fault_of_the_file_and_is_started_again():
    number = process()
    launcher = int(Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(launcher, signal.SIGKILL)
    os.waitpid(launcher, 0)
    with pytest.raises(MemoryError):
        ask("end")
    guard.of_thread.idle.clear()
    process()


@pytest.mark.parametrize("reader, name, trace", [
    ("wrong", "KeyError", "KeyError: 'a key'"),
    ("foreign", "TypeError", "a PosixPath among the answers"),
])  # fmt: skip
def test_what_readers_must_not_raise_is_a_finding_with_its_traceback_for_the_log(reader, name, trace):
    with pytest.raises(InputFault) as fault:
        ask(reader)
    assert str(fault.value).startswith(
        f"[unreadable-file] 'a.png': a damaged file, or a fault of its reader ({name}); expected a complete file."
    )
    assert trace in fault.value.findings[0].trace
    assert trace not in str(fault.value)
    process()


def test_only_plain_values_come_back():
    for value in (["pickle", []], ["array", "|O", [1], 0], ["array", "<f8", [2], 0], ["Path", ["a"]]):
        with pytest.raises((ValueError, TypeError, LookupError)):
            from_plain(value, [np.zeros(8, np.uint8)])


def test_arrays_come_back_as_they_were():
    for dtype in ("?", "i1", "<u2", ">i4", "u8", "f4", "f8"):
        array = np.arange(12).reshape(3, 4).astype(dtype)
        buffers: list[np.ndarray] = []
        plain = to_plain({"a": (array, array[:0])}, buffers)
        back = from_plain(plain, [buffer.reshape(-1).view(np.uint8) for buffer in buffers])["a"]
        assert [part.dtype for part in back] == [array.dtype] * 2
        np.testing.assert_array_equal(back[0], array)
        assert back[1].shape == (0, 4)


def test_a_decoder_cannot_read_write_connect_or_touch_what_others_have(tmp_path):
    secret = tmp_path / "reference.tif"
    secret.write_bytes(b"secret")
    path = f"{secret}.socket"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as by_path:
        by_path.bind(path)
        by_path.listen()
        with secret.open("rb") as stream:
            (told,) = ask("attempts", str(secret), server.getsockname(), os.getpid(), streams=[stream])
    assert told.pop("open many") == "OSError"
    assert missing_here() == []  # the kernel of the tests has both confinements
    assert told == dict.fromkeys(told, "PermissionError")
    assert (secret.read_bytes(), secret.stat().st_mode & 0o777) == (b"secret", 0o644)


def test_a_decoder_can_import_modules_of_the_program_late():
    assert ask("import_late") == ["evaluation.commands.prepare", "nuclei_metrics.ranking.stability"]


@pytest.mark.parametrize("column, header", [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")])
def test_the_filter_of_calls_knows_each_call_once_and_by_its_number(column, header):
    """Compared with the header files of the kernel, where they are."""
    header = f"/usr/include/{header}"
    words = confinement.REFUSED.split()
    numbers = [number for number in words[1 + column :: 3] if number != "-"]
    assert len(words) % 3 == 0 and len(set(numbers)) == len(numbers)
    if not Path(header).exists():
        pytest.skip("no header files of the kernel")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text()))
    recent = {"fchmodat2", "setxattrat", "removexattrat"}
    for name, number in zip(words[::3], words[1 + column :: 3], strict=True):
        if name in known or name not in recent:
            assert known.get(name, "-") == number, name
    others = {"clone": confinement.CLONE, "prlimit64": confinement.PRLIMIT, "socketpair": confinement.SOCKETPAIR}
    others |= {"sched_setaffinity": confinement.AFFINITY, "fcntl": confinement.FCNTL[0], "ioctl": confinement.IOCTL[0]}
    assert {name: known[name] for name in others} == {name: str(pair[column]) for name, pair in others.items()}
    assert [known[name] for name in ("kill", "tkill", "tgkill")] == list(map(str, confinement.SIGNALS[column]))


def test_libraries_may_have_threads():
    assert ask("threads") == [(1,)]


def test_an_answer_that_drips_ends_with_its_deadline(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(guard, "WAITED", 1)
        began = time.monotonic()
        assert refusal("drip", bounds=Bounds(1 << 28, 1)).startswith("[too-slow] 'a.png': more than 1 s")
    assert time.monotonic() - began < 10


def test_all_answers_about_a_file_share_the_time_that_it_has(monkeypatch):
    now, remaining = [0.0], []

    def receive(_, __, deadline):
        remaining.append(deadline - now[0])
        now[0] += 1.5
        return "result", len(remaining)

    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(guard, "receive_answer", receive)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answers = guard.Decoder(None, ours, 0).ask(b"request", [], Bounds(1 << 20, seconds=1))
        assert list(islice(answers, 4)) == [None, 1, 2, 3]
    assert remaining == [4.0, 2.5, 1.0]


def test_what_is_left_over_is_no_answer_about_the_next_file():
    assert ask("answer_twice") == ["read"]
    time.sleep(0.2)
    (((), number),) = ask("content")
    assert number == process()


def test_a_request_is_sent_with_its_own_time_out():
    """The time-out of the answer before it may be all but over."""
    first = process()
    guard.of_thread.idle["a", False].connection.settimeout(1e-9)
    (((read,), number),) = ask("content", streams=[io.BytesIO(bytes(1 << 24))])
    assert (read.size, number) == (1 << 24, first)


BAD_ANSWERS = [
    ("fault", []), ("fault", None), ("fault", ["tuple", ["x"]]), ("full", 1), ("full", None), ("memory", 1),
    ("error", ["tuple", [1]]), ("end", 1), ("result",), ("result", 1, 2), (1, 2),
]  # fmt: skip
NO_ANSWERS = {
    "text": b"x" * 100,
    "huge": guard.MESSAGE_SIZES.pack(1 << 40, 0),
    "not packed": guard.MESSAGE_SIZES.pack(3, 0) + b"abc",
    "unknown": guard.MESSAGE_SIZES.pack(6, 0) + b"\x92\x92\xa1a\x01\x90",
    "buffers": guard.MESSAGE_SIZES.pack(3, 9) + b"\x92\xc0\x90",
}


def test_an_answer_of_another_kind_or_content_is_a_finding():
    messages = NO_ANSWERS | {str(answer): misbehaving_readers.packed_answer(*answer) for answer in BAD_ANSWERS}
    told = {name: refusal("garbage", message) for name, message in messages.items()}
    assert {name: line for name, line in told.items() if "ended with no answer" not in line} == {}


RING = (
    "np.zeros((3, 2)), np.array([0, 3]), np.zeros(1, np.int32), np.zeros(1, bool), np.ones(1, np.int16), np.array([7])"
)
BAD_RECORDS = [
    "Annotations((1,))", "Annotations((), ('text',))", "Annotations(None)", "Finding('no-such-code', 'a', 'b', 'c')",
    "Finding('not-json', 1, 'b', 'c')", "Finding('not-json', 'a', 'b', 'c', count=-1)", "Counts(np.array([-1]))",
    "Counts(np.array([0.5]))", "Counts(None)", f"Outlines({RING.replace('[0, 3]', '[0, 4]')})",
    f"Outlines({RING.replace('[0, 3]', '[0, 9, 3]')})",
    f"Outlines({RING.replace('np.zeros(1, np.int32)', 'np.full(1, 5, np.int32)')})",
    f"Outlines({RING.replace('np.zeros((3, 2))', 'np.full((3, 2), np.nan)')})",
    f"Outlines({RING.replace('np.zeros((3, 2))', 'np.zeros((3, 3))')})",
    "Points(np.zeros((2, 2)), np.ones(1, np.int16), np.array([1, 2]))",
    "Points(np.zeros((2, 2)), np.ones(2, np.int16), np.array(['a', ['b']], object))",
    "LabelRuns((2, 2), np.array([0]), np.array([3]), np.array([1]))",
    "LabelRuns((2, 2), np.array([0]), np.array([9]), np.array([1]))",
    "LabelRuns((2, 2), np.array([1, 0]), np.array([2, 1]), np.array([1, 1]))",
    "LabelRuns('ab', np.array([0]), np.array([1]), np.array([1]))", "LabelImage(1)",
    "Instances((2, 2), np.ones(1, np.int16), np.array([1]), np.array([0]), np.array([1]), np.array([1]))",
]  # fmt: skip


def test_a_record_that_its_class_does_not_describe_is_a_finding_and_others_are_given():
    taken = []
    for record in BAD_RECORDS:
        with suppress(InputFault):
            taken += [(record, given) for given in ask("made", record)]
    assert taken == []
    for record in (f"Outlines({RING})", "Annotations(())", "Finding('not-json', 'a', 'b', 'c')"):
        assert len(ask("made", record)) == 1


OTHER_SIZE = "LabelRuns((9, 9), np.array([0]), np.array([1]), np.array([1]))"


def test_annotations_that_are_not_of_this_case_are_a_finding(tmp_path, monkeypatch):
    challenge, submission = write_challenge("label_image class map tif", tmp_path)
    point = "Points(np.zeros((1, 2)), np.full(1, {}, np.int16), np.array([1]){})"
    for answer in (
        "1", "Counts(np.array([1]))", "Annotations((Counts(np.zeros(99, np.int64)),))",
        *(f"Annotations(({point.format(*of)},))" for of in ((99, ""), (-99, ""), (1, ", None, np.zeros((1, 99))"))),
        f"Annotations((LabelImage({OTHER_SIZE}),))",
    ):  # fmt: skip
        given = partial(misbehaving_readers.made, text=answer)
        monkeypatch.setattr("evaluation.files.formats.yield_annotations", lambda of, *_, given=given: given(of))
        _, findings = check_submission(challenge, submission, workers=1)
        assert {finding.code for finding in findings} == {"unreadable-file"}, answer


@pytest.mark.parametrize(("kind", "workers"), [("label_image class map tif", 2), ("aperio_xml", 1)])
def test_after_some_files_that_are_too_slow_nothing_more_is_decoded(tmp_path, monkeypatch, kind, workers):
    """How many cases were not looked at is said, the same for any workers."""
    challenge, submission = write_challenge(kind, tmp_path)
    monkeypatch.setattr(guard, "WAITED", 1e-9)
    monkeypatch.setattr(processes, "can_fork", lambda: True)  # copies have it, whatever threads are left
    for most, codes in ((3, ["too-slow"] * 3), (2, ["too-slow"] * 3), (1, ["too-slow"] * 2)):
        for module in ("read", "street"):
            monkeypatch.setattr(f"evaluation.scoring.{module}.SLOW_FILES", most)
        _, checked = check_submission(challenge, submission, workers=workers)
        with pytest.raises(SubmissionRejected) as rejected:
            score_submission(challenge, submission, workers=workers)
        for findings in (checked, rejected.value.findings):
            assert [finding.code for finding in findings] == codes
            rest = [str(finding) for finding in findings if finding.where == "submission"]
            files = f"{most} file{'s' * (most > 1)}"
            line = f"[too-slow] submission: after {files} that took too long, {3 - most} of 3 cases not looked at"
            assert rest == ([f"{line}; expected files that decode in time."] if most < 3 else [])


@pytest.mark.parametrize(("kind", "workers"), [("label_image class map tif", 2), ("aperio_xml", 1)])
def test_the_files_of_a_submission_share_a_budget_of_processor_time(tmp_path, monkeypatch, kind, workers):
    """Where it is spent, nothing more is decoded; how many cases were not looked at is said."""
    challenge, submission = write_challenge(kind, tmp_path)
    assert read.seconds_for(CASES) == 100
    slides = [replace(case, height=5000, width=4000) for case in CASES]
    assert read.seconds_for(slides * 4) == 12 * (10 + 2)
    monkeypatch.setattr(guard, "LEAST_SECONDS", 1e-9)
    _, checked = check_submission(challenge, submission, workers=workers)
    with pytest.raises(SubmissionRejected) as rejected:
        score_submission(challenge, submission, workers=workers)
    for findings in (checked, rejected.value.findings):
        (line,) = map(str, findings)
        assert line.startswith("[too-slow] submission: more than 1e-09 s of processor time to decode, all files ")
        assert re.search(r"together, [12] of 3 cases not looked at; expected files that decode faster\.", line)


def test_the_processor_time_of_a_decoder_is_measured_from_outside():
    before = guard.seconds_of("busy")
    ask("compute", owner="busy")
    assert guard.seconds_of("busy") - before > 0.2
    refusal("compute_and_die", owner="dies")
    assert 0.2 < guard.seconds_of("dies") < BOUNDS.seconds  # it has not all that it may take
    waited = guard.seconds_of("a")
    ask("slowly")
    assert guard.seconds_of("a") - waited < 1  # it sleeps for two


def test_each_decoder_that_a_file_breaks_counts_at_least_a_second():
    """Else a submission of thousands of such files would use no budget, though each costs a new process."""
    for number, (reader, arguments) in enumerate((("end", ()), ("crash", (int(signal.SIGABRT),)), ("end", ())), 1):
        refusal(reader, *arguments, owner="breaks")
        assert number <= guard.seconds_of("breaks") < number + 1
    guard.forget_seconds("breaks")
    ask("content", owner="breaks")
    assert guard.seconds_of("breaks") < 1


def test_the_limit_of_memory_that_is_named_is_the_lowest_one(monkeypatch):
    monkeypatch.setattr("evaluation.files.system.memory_limit", lambda: 200 << 20)
    room = 2 * (guard.LIBRARY_BYTES + BOUNDS.memory_bytes)
    assert refusal("take_memory", room).startswith("[too-large] 'a.png': more than 200 MiB of memory to decode;")


NO_PROCESS = """
import resource
from evaluation.files.decoding import guard
from evaluation.files.system import confinement
from pathlib import Path
import os, sys, tempfile
if {what!r} == "folder":
    tempfile.tempdir = "/nowhere"
else:
    plain = os.fork
    def fork():
        if os.getpid() != parent:
            raise OSError(11, "Resource temporarily unavailable")
        return plain()
    parent, os.fork = os.getpid(), fork
bounds = guard.Bounds(1 << 28, 5)
try:
    list(guard.decode("misbehaving_readers:content", [], (), where="", owner="a", bounds=bounds, writes=True))
except OSError as error:
    print(type(error).__name__, error.errno, error.strerror)
"""


@pytest.mark.parametrize("what, reason", [
    ("folder", "FileNotFoundError 2 no temporary folder can be created: No such file or directory"),
    ("fork", "BlockingIOError 11 Resource temporarily unavailable"),
])  # fmt: skip
def test_where_no_decoder_can_be_started_the_reason_comes_back(what, reason):
    code = NO_PROCESS.format(what=what)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == reason


@pytest.mark.parametrize(
    "kind, most, form",
    [(resource.RLIMIT_NOFILE, 40, "label_image class map png"), (resource.RLIMIT_FSIZE, 1 << 20, "nary_mat")],
)
def test_lower_limits_of_the_machine_are_no_fault_of_a_submission(tmp_path, kind, most, form):
    """A process that has lower limits than a decoder asks for cannot raise them, and need not."""
    challenge, submission = write_challenge(form, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", "score", "--challenge", challenge, "--submission", submission,
         "--output", tmp_path / "out", "--workers", "1", "--quiet"],
        preexec_fn=lambda: resource.setrlimit(kind, (most, most)),
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_told_as_such_and_not_as_a_fault_of_the_file():
    with pytest.raises(OSError, match="No space left on device") as full:
        ask("find_the_disk_full")
    assert full.value.filename is None


def children_of(pid: int) -> set[int]:
    """The children of a process, also those that have ended and nobody asked how."""
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def test_launchers_that_end_at_once_are_gone_at_the_next_order():
    process()
    launcher = guard.launchers[0]
    before, started = children_of(launcher.child), set[int]()
    for _ in range(100):
        connections = [guard.another_launcher() for _ in range(4)]
        started |= children_of(launcher.child) - before
        for connection in connections:
            assert connection is not None
            connection.close()
    assert len(started) == 400
    until = time.monotonic() + 30
    while started & children_of(launcher.child) and time.monotonic() < until:
        guard.of_thread.stop_all()
        process()
    assert not started & children_of(launcher.child)
    os.kill(launcher.child, signal.SIGKILL)
    with pytest.raises(MemoryError):
        guard.another_launcher()
    assert launcher.child not in children_of(os.getpid())
    process()


def test_decoders_end_with_a_parent_that_is_killed():
    code = (
        "import sys, time, misbehaving_readers\n"
        "from evaluation.files.decoding import guard\n"
        "results = guard.decode('misbehaving_readers:compute_forever', [], (), where='', owner='',"
        " bounds=guard.Bounds(1 << 28, 100))\n"
        "next(results)\n"
        "pid = next(iter(open(f'/proc/self/task/{guard.os.getpid()}/children').read().split()))\n"
        "print(pid, open(f'/proc/{pid}/task/{pid}/children').read().split()[0], flush=True)\n"
        "time.sleep(100)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = parent.stdout.readline().split()
    assert len(children) == 2
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 60
    while any(map(runs, children)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [runs(child) for child in children] == [False, False]


def runs(child: str) -> bool:
    with suppress(OSError):
        return fields_of(int(child))[0] != "Z"
    return False


def test_no_process_is_left_behind_a_command(tmp_path):
    challenge, submission = write_challenge("label_image class map tif", tmp_path)
    command = [sys.executable, "-m", "evaluation", "score", "--challenge", challenge, "--submission", submission]
    done = subprocess.run(
        [*command, "--output", tmp_path / "out", "--quiet"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert left_of(-1, str(tmp_path)) == []


def test_threads_have_decoders_of_their_own():
    found: list[int] = []
    everybody = threading.Barrier(3)

    def work() -> None:
        found.append(process())
        everybody.wait()
        found.append(process())
        guard.of_thread.stop_all()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 3


NIFTI_IN_ANOTHER_PROCESS = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
import misbehaving_readers
from pathlib import Path
from evaluation.files.decoding.guard import Bounds, decode
bounds = Bounds(1 << 28, 5)
(path,) = decode("misbehaving_readers:write_a_file", [], (), where="", owner="a", bounds=bounds, writes=True)
assert Path(sys.argv[1]).exists() and path.startswith(sys.argv[1]), path
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
if sys.argv[2] == "killed with its group":
    os.killpg(0, 9)
if sys.argv[2] == "without cleaning up":
    os._exit(0)
"""


@pytest.mark.parametrize("end", ["", "without cleaning up", "killed", "killed with its group"])
def test_no_file_is_left_behind(end, tmp_path):
    run = [sys.executable, "-c", NIFTI_IN_ANOTHER_PROCESS, str(tmp_path), end]
    subprocess.run(run, check=not end, start_new_session=True)
    deadline = time.monotonic() + 60
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
