"""What is reported while submissions are scored: a bar or a line every 30 s, and JSON lines on demand."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import click

from evaluation.commands.options import writing_to
from evaluation.commands.screen import Advance, progress_bar, tell
from evaluation.decoding.confinement import missing_here

LINE_SECONDS = 30
Log = click.option("--log", type=click.Path(path_type=Path), metavar="FILE",
                   help="File that gets a JSON line for each submission that is done; lines are appended.")  # fmt: skip


class SubmissionsProgress:
    """Counts what is done, and reports it.

    bar   is called with what is done, of how many, and the words about it; None where there is no terminal
    log   gets a JSON line for each submission
    """

    def __init__(
        self,
        bar: Advance | None,
        log: TextIO | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
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

    def note(self, name: str, outcome: str) -> None:
        self.outcomes[outcome] += 1
        if self.log:
            number, seconds = self.outcomes.total(), round(self.clock() - self.began, 3)
            line = {"submission": name, "outcome": outcome, "number": number, "seconds": seconds, **self.unconfined}
            self.log.write(json.dumps(line) + "\n")
            self.log.flush()

    def say(self, line: str) -> None:
        tell(line)
        self.last = self.clock()

    def words(self) -> str:
        """How many were scored, kept and not ranked; how fast, and how long it will take.

        What is kept takes nearly no time, so it does not count for the speed.
        """
        found = [", ".join(f"{self.outcomes[outcome]:,} {outcome}" for outcome in ("scored", "kept", "not ranked"))]
        minutes = (self.clock() - self.began) / 60
        worked_on = self.done - self.outcomes["kept"] * self.done / max(self.outcomes.total(), 1)
        if worked_on > 0 and minutes > 0:
            speed = worked_on / minutes
            found.append(f"{speed:,.{0 if speed >= 10 else 1}f} a minute")
            if self.done < self.total:
                found.append(f"{duration(60 * (self.total - self.done) / speed)} left")
        return "; ".join(found)

    def end(self) -> None:
        seconds = self.clock() - self.began
        if self.outcomes:
            number = self.outcomes.total()
            self.say(f"{number:,} submission{'s' * (number > 1)} in {duration(seconds)}: {self.words()}")


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(4.2), duration(130), duration(7400)
    ('4 s', '2 min', '2 h 3 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def submissions_progress(label: str, log: Path | None) -> Iterator[SubmissionsProgress]:
    """Report how many submissions are done; at the end a line about all."""
    with ExitStack() as stack:
        stream = None
        if log is not None:
            with writing_to(log):
                log.parent.mkdir(parents=True, exist_ok=True)
                stream = stack.enter_context(log.open("a", encoding="utf-8"))
        progress = SubmissionsProgress(stack.enter_context(progress_bar(label)), stream)
        yield progress
        stack.pop_all().close()  # the bar goes first
        progress.end()
