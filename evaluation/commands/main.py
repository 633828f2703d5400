"""Arguments in, exit code out: the list of commands, and the one place where the program ends."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from importlib import import_module

import click

from evaluation.commands.watch import INTERNAL, Stopped, end_early, out_of_memory
from evaluation.execution.limits import process_limit
from evaluation.findings import render_findings, render_summary
from evaluation.findings.errors import (
    ChallengeBroken,
    EvaluationError,
    ResultsNotWritten,
    SubmissionRejected,
    WorkerDied,
)
from evaluation.results.version import __version__

COMMANDS = (
    "compare",
    "score",
    "validate",
    "rasterise",
    "leaderboard",
    "rank",
    "audit",
    "sensitivity",
    "report",
    "phase",
    "archive",
    "verify",
    "init",
    "kit",
    "convert",
    "explain",
    "demo",
)


class LazyCommands(click.Group):
    """Imports the module of a command when it is asked for: ``evaluation.commands.<name>`` holds ``<name>``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"evaluation.commands.{cmd_name}"), cmd_name)
        return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evaluation")
def cli() -> None:
    """Score instance segmentation and classification of cell nuclei: detection, classification, segmentation apart."""


def run(arguments: list[str]) -> int:
    """The exit code of a command: 0 done, 1 submission rejected, 2 wrong usage, 3 challenge broken, 70 internal error.

    One that was stopped by a signal ends with 128 + its number.
    """
    try:
        return run_to_the_end(arguments)
    except Stopped as stopped:
        return end_early(stopped)


def run_to_the_end(arguments: list[str]) -> int:
    try:
        code: int | None = cli.main(arguments, prog_name="evaluation", standalone_mode=False)  # of ``Context.exit``
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except EvaluationError as error:
        explain_failure(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        raise Stopped(signal.SIGINT) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        why = error.strerror or "a file or folder could not be used"
        print(no_process() if error.errno == errno.EAGAIN else f"Cannot run: {why}.", file=sys.stderr)
        traceback.print_exc(file=sys.stdout)
        return INTERNAL
    except MemoryError:
        print(out_of_memory(), file=sys.stderr)
        return INTERNAL
    except Exception as error:
        traceback.print_exc()
        is_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
        print(
            no_process()
            if is_thread
            else "The evaluation failed by a fault of its own; the organisers find the details in the log.",
            file=sys.stderr,
        )
        return INTERNAL
    return code or 0


def no_process() -> str:
    limit = process_limit()
    words = "" if limit is None else f" (limit: {limit})"
    return f"No more processes or threads can be started{words}; this is not about the submission."


def explain_failure(error: EvaluationError) -> None:
    """Each finding once: on a terminal a line each, elsewhere those that are not in the last line.

    The last line is for participants: it says what to do, and nothing of the reference.
    """
    lines = render_findings(error.findings)
    if isinstance(error, ChallengeBroken):
        last = error.last
    elif isinstance(error, WorkerDied):
        last = out_of_memory()
    elif isinstance(error, ResultsNotWritten):
        last = f"The results could not be written ({error.why}); this is not about the submission."
    else:
        from evaluation.submission.redact import redact_findings  # imports what commands that succeed may not need

        hidden = error.hidden_names if isinstance(error, SubmissionRejected) else ()
        last = render_summary(redact_findings(error.findings, hidden), intro=error.intro)
        if len(lines) > 1 and sys.stderr.isatty():
            lines, last = [error.intro, *lines[:-1]], lines[-1]
        lines = [line for line in lines if line not in last]
    for line in [*lines, last]:
        print(line, file=sys.stderr)
    sys.stderr.flush()
