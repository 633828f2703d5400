"""From arguments to the exit code: the list of commands, and the only exit of the program."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib import import_module
from typing import TextIO

import click

from evaluation.commands.screen import wrapped
from evaluation.commands.watch import ASIDE, INTERNAL, Stopped, end_early, out_of_memory
from evaluation.files.results import __version__
from evaluation.files.system import process_limit
from evaluation.findings import errors, quote, render_findings, render_summary

GROUPS = {
    "Compare models": {
        "compare": "Score one or more models against a reference.",
        "convert": "Convert annotations or predictions to another format.",
        "report": "Create an HTML report from results.",
        "explain": "Explain a message, metric, rule or preset.",
        "demo": "Create, score and rank a small example challenge.",
    },
    "Take part in a challenge": {
        "validate": "Check a submission (needs no reference).",
        "score": "Score a submission.",
    },
    "Prepare a challenge": {
        "init": "Create challenge.toml and cases.csv from a reference.",
        "rasterise": "Convert the reference to label images and check overlaps.",
        "sensitivity": "Measure the effect of one pixel on scores and matching.",
        "kit": "Create the files for participants.",
        "phase": "Print the settings for a phase on grand-challenge.org.",
    },
    "Run a challenge": {"leaderboard": "Score and rank all teams.", "rank": "Rank teams from existing scores."},
    "Verify and publish": {
        "audit": "Test the ranking under other rules.",
        "archive": "Pack rules, results and ranking into one ZIP.",
        "verify": "Recompute an archive and compare.",
    },
}
FILE_OF_GROUP = {"Compare models": "look", "Prepare a challenge": "prepare"}  # of other groups: "run"
MODULES = {name: FILE_OF_GROUP.get(group, "run") for group, names in GROUPS.items() for name in names}
COMMANDS = tuple(MODULES)


class _LazyCommands(click.Group):
    """Imports the module of a command when it is requested."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"evaluation.commands.{MODULES[cmd_name]}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = "".join(f" Did you mean '{name}'?" for name in get_close_matches(args[0], COMMANDS, 1))
            raise click.UsageError(error.message + near, ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(11), line) for name, line in commands.items()])


@click.group(cls=_LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="evaluation")
def cli() -> None:
    """Score the detection, classification and segmentation of cell nuclei separately.

    evaluation COMMAND --help explains a command.
    """


def run(arguments: list[str]) -> int:
    """The exit code of a command: 0 done, 1 submission rejected, 2 wrong usage, 3 challenge broken, 70 internal error.

    One that was stopped by a signal ends with 128 + its number.
    """
    try:
        return _run_to_the_end(arguments)
    except Stopped as stopped:
        return end_early(stopped)


def _with_near_options(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return the fault with options similar to the typed option; click treats "--" as a part of the word."""
    from difflib import get_close_matches

    names = {option.lstrip("-"): option for option in error.possibilities or ()}
    near = [names[name] for name in get_close_matches(error.option_name.lstrip("-"), names)]
    return click.NoSuchOption(error.option_name, error.message, near, error.ctx)


def _run_to_the_end(arguments: list[str]) -> int:
    has_submission = MODULES.get(arguments[0] if arguments else "") == "run"
    aside = ASIDE if has_submission else ""
    try:
        return _run_command(arguments)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.NoSuchOption as error:
        _with_near_options(error).show()
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except errors.EvaluationError as error:
        _explain_failure(error, aside)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        raise Stopped(signal.SIGINT) from None
    except SystemExit:  # click's, when nobody reads on: all files are written by then
        return 0
    except OSError as error:
        if error.errno == errno.EINVAL and _nobody_reads():
            return 0
        print(_no_process(aside) if error.errno == errno.EAGAIN else _why_not(error, aside), file=sys.stderr)
        _show_traceback(sys.stdout)
        return INTERNAL
    except MemoryError:
        print(out_of_memory(aside), file=sys.stderr)
        return INTERNAL
    except Exception as error:
        _show_traceback(sys.stderr)
        is_thread = isinstance(error, RuntimeError) and "start new thread" in str(error)
        print(
            _no_process(aside)
            if is_thread
            else "The evaluation failed because of a fault in the program; the organisers find the details in the log.",
            file=sys.stderr,
        )
        return INTERNAL


def _run_command(arguments: list[str]) -> int:
    try:
        return cli.main(arguments, prog_name="evaluation", standalone_mode=False) or 0  # None, or of ``Context.exit``
    except Exception:
        if Stopped.came is not None:
            raise Stopped.came from None
        raise


def _nobody_reads() -> bool:
    """Return whether nobody reads standard output any more, which Windows reports by a general errno; the stream is
    dropped.
    """
    try:
        sys.stdout.flush()  # what could not be written is still there
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _why_not(error: OSError, aside: str) -> str:
    """Return why the program stops. Only the path of a full disk is named: other paths may reveal the reference."""
    why = error.strerror or "a file or folder could not be used"
    where = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        folder = "most often in the folder of temporary files, "
        where = f" ({quote(error.filename, 200) if error.filename else f'{folder}{quote(tempfile.gettempdir(), 200)}'})"
    return f"Cannot run: {why}{where}{aside}."


def _show_traceback(stream: TextIO) -> None:
    with suppress(OSError):  # such as a full disk
        for line in traceback.format_exc().splitlines():
            print(wrapped(line, stream), file=stream)


def _no_process(aside: str) -> str:
    limit = process_limit()
    words = "" if limit is None else f" (limit: {limit})"
    return f"No more processes or threads can be started{words}{aside}."


def _explain_failure(error: errors.EvaluationError, aside: str) -> None:
    """Every finding once: one per line on a terminal, otherwise the findings missing from the last line.

    The last line is for participants: it names the remedy, and nothing of the reference.

    aside  words that the submission is not at fault; "" for commands without a submission
    """
    lines = render_findings(error.findings)
    if isinstance(error, errors.ChallengeBroken):
        last = error.last.format(aside=aside)
    elif isinstance(error, errors.WorkerDied):
        last = out_of_memory(aside)
    elif isinstance(error, errors.ResultsNotWritten):
        last = f"The results could not be written ({error.why}){aside}."
    else:
        from evaluation.findings.errors import redact_findings  # imports what commands that succeed may not need

        hidden = error.hidden_names if isinstance(error, errors.SubmissionRejected) else ()
        last = render_summary(redact_findings(error.findings, hidden), intro=error.intro, rest=error.rest)
        if len(lines) > 1 and sys.stderr.isatty():
            lines, last = [error.intro, *lines[:-1]], lines[-1]
        lines = [line for line in lines if line not in last]
    for line in [*lines, last]:
        print(wrapped(line, sys.stderr), file=sys.stderr)
    sys.stderr.flush()
