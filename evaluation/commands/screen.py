"""What commands print: tables, findings, progress."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from evaluation.commands.options import writing_to
from evaluation.files.system import missing_here
from evaluation.findings import Finding, render_findings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evaluation.board.document import Board
    from evaluation.report.page import Block, Page


LINE_CHARACTERS = (64 << 10) // 4  # in UTF-8 a character has up to 4 bytes


class _Advance(Protocol):
    """Moves a progress bar; ``words`` follow the bar."""

    def __call__(self, done: int, total: int, words: str = "", /) -> None: ...


@contextmanager
def progress_bar(label: str) -> Iterator[_Advance | None]:
    """A progress bar on a terminal; silence elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}")
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bar:  # no thread: forks
        task = bar.add_task(label, total=None, words="", visible=False)  # until the total is known

        def advance(done: int, total: int, words: str = "", /) -> None:
            bar.update(task, completed=done, total=total, words=words, visible=True, refresh=True)

        yield advance


def tell(line: str) -> None:
    """Print a line that is no result to stderr."""
    click.echo(wrapped(line, sys.stderr), err=True)


def wrapped(line: str, stream: TextIO) -> str:
    """A line as it is printed: at the width of a terminal, with the following lines indented; elsewhere one line.

    The end of a line of more than 64 KiB, which readers of logs refuse, is omitted.
    """
    line = line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1]}…"
    if not stream.isatty():
        return line
    width = get_terminal_size().columns
    return fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def show(part: RenderableType) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(part)


def show_block(block: Block) -> None:
    """Print a part of a page, of a table all rows."""
    from evaluation.report.terminal import block_renderables

    for part in block_renderables(block, sys.maxsize):
        show(part)


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(wrapped(line, sys.stdout))


def keep_board(
    board: Board, output: Path, *, report: bool, metrics: Mapping[str, Path] | None = None
) -> Callable[[], None]:
    """Write a leaderboard, and return a function that prints it, to be called when all files are written.

    metrics   the metrics.json of each team; None: the results cached by ``leaderboard``
    """
    from evaluation.board.board import write_board
    from evaluation.board.document import leaderboard_document
    from evaluation.report.folders import write_page
    from evaluation.report.leaderboard import leaderboard_page
    from evaluation.report.skills import read_results, results_in, teams_table

    document = leaderboard_document(board)
    with writing_to(output):
        write_board(output, board)
        results = read_results(output, document) if metrics is None else results_in(metrics, document)
        page = leaderboard_page(document, results=results)
        if report:
            write_page(page, output / "leaderboard.html")

    def show_board() -> None:
        show_sections(page, "places", "moves")
        if results:
            show_block(teams_table(document, results))
        show_sections(page, "common")
        show_lines([board.ranking["in_words"], *board.findings, *board.alike.lines()])
        show_written(output, "leaderboard.json", "leaderboard.csv", page="leaderboard.html" * report)

    return show_board


def show_sections(page: Page, *anchors: str) -> None:
    """Print the texts and tables of some sections of a page."""
    from evaluation.report.terminal import section_renderables

    for section in (section for section in page.sections if section.anchor in anchors):
        for part in section_renderables(section):
            show(part)


def write_document(
    output: Path, name: str, document: Mapping[str, Any], page: Callable[[Mapping[str, Any]], Page] | None
) -> None:
    """Write a document of this name, and its page if requested."""
    from evaluation.files.results.documents import as_json
    from evaluation.files.results.files import write_atomically
    from evaluation.report.folders import write_page

    with writing_to(output):
        write_atomically(output / f"{name}.json", as_json(document))
        if page is not None:
            write_page(page(document), output / f"{name}.html")


def show_json(document: Mapping[str, Any], *, sort_keys: bool = False) -> None:
    """Print a document as JSON, whatever the encoding of the terminal."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(document, indent=1, sort_keys=sort_keys, ensure_ascii=not is_unicode))


def show_written(output: Path, *names: str, page: str = "") -> None:
    """Return which files were written; ``page`` is last, if requested."""
    click.echo(f"Written to {output}: {', '.join(filter(None, (*names, page)))}")


def show_findings(findings: Iterable[Finding]) -> None:
    show_lines(render_findings(findings))


# --- progress while submissions are scored: a bar or a line every 30 s, and JSON lines on demand ----------------------


LINE_SECONDS = 30


class SubmissionsProgress:
    """Counts and reports progress.

    bar   is called with progress, total and description; None without a terminal
    log   gets a JSON line for each submission
    """

    def __init__(self, bar: _Advance | None, log: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.bar, self.log, self.clock = bar, log, clock
        self.began = self.last = clock()
        self.done = self.total = 0
        self.outcomes: Counter[str] = Counter()
        self.unconfined = {"unconfined": missing} if log and (missing := missing_here()) else {}

    def progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if self.bar:
            self.bar(done, total, self.words())
        elif self.clock() - self.last >= LINE_SECONDS:
            self.say(f"{done:,} of {total:,} done: {self.words()}")

    def note(self, name: str, outcome: str, trace: str = "") -> None:
        self.outcomes[outcome] += 1
        if self.log:
            number, seconds = self.outcomes.total(), round(self.clock() - self.began, 3)
            line = {"submission": name, "outcome": outcome, "number": number, "seconds": seconds, **self.unconfined}
            line |= {"trace": trace} if trace else {}
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def say(self, line: str) -> None:
        tell(line)
        self.last = self.clock()

    def words(self) -> str:
        """Return how many were scored, kept and not ranked; how fast, and how long it will take.

        Stored results take nearly no time, so they do not count for the speed.
        """
        parts = [", ".join(f"{self.outcomes[outcome]:,} {outcome}" for outcome in ("scored", "kept", "not ranked"))]
        minutes = (self.clock() - self.began) / 60
        worked_on = self.done - self.outcomes["kept"] * self.done / max(self.outcomes.total(), 1)
        if worked_on > 0 and minutes > 0:
            speed = worked_on / minutes
            parts.append(f"{speed:,.{0 if speed >= 10 else 1}f} a minute")
            if self.done < self.total:
                parts.append(f"{_duration(60 * (self.total - self.done) / speed)} left")
        return "; ".join(parts)

    def end(self) -> None:
        seconds = self.clock() - self.began
        if self.outcomes:
            number = self.outcomes.total()
            self.say(f"{number:,} submission{'s' * (number > 1)} in {_duration(seconds)}: {self.words()}")


def _duration(seconds: float) -> str:
    """Seconds in words.

    >>> _duration(4.2), _duration(130), _duration(7400)
    ('4 s', '2 min', '2 h 3 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def scoring(cluster: str | None, log: Path | None, workers: int | None) -> Iterator[dict[str, Any]]:
    """Yield executor, workers and progress for scoring submissions, according to the options; end with a summary
    line."""
    from evaluation.scoring.executors import connect

    with ExitStack() as stack:
        stream = None
        if log is not None:
            with writing_to(log):
                log.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(log.open("a", encoding="utf-8", newline="\n"))
        progress = SubmissionsProgress(stack.enter_context(progress_bar("Scoring")), stream)
        executor = stack.enter_context(connect(cluster, progress.say))
        yield {"executor": executor, "workers": workers, "progress": progress.progress, "note": progress.note}
    progress.end()  # the bar is gone
