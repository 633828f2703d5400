"""Arguments in, exit code out: the list of commands, and the one place where the program ends."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import click

from evaluation.findings import render_findings, render_summary
from evaluation.findings.errors import ChallengeBroken, EvaluationError, SubmissionRejected, WorkerDied
from evaluation.model.version import __version__

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
    "init",
    "presets",
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


def main() -> NoReturn:
    """Run a command and leave with its exit code; the last line on stderr is what a participant may read."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of a command: 0 done, 1 submission rejected, 2 wrong usage, 3 challenge broken, 70 our fault."""
    try:
        cli.main(arguments, prog_name="evaluation", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except EvaluationError as error:
        explain_failure(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("Interrupted; nothing was written.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"Cannot run: {error.strerror or 'a file or folder could not be used'}.", file=sys.stderr)
        traceback.print_exc(file=sys.stdout)
        return 70
    except MemoryError:
        print("The evaluation ran out of memory; this is not about your submission's scores.", file=sys.stderr)
        return 70
    except Exception:
        traceback.print_exc()
        print(
            "The evaluation failed by a fault of its own; the organisers find the details in the log.", file=sys.stderr
        )
        return 70
    return 0


def explain_failure(error: EvaluationError) -> None:
    """All findings, then one last line that is safe and useful to whoever handed in the submission."""
    lines = render_findings(error.findings)
    if isinstance(error, ChallengeBroken):
        last = "The challenge itself has a fault; this is not about the submission. Organisers: see the lines above."
    elif isinstance(error, WorkerDied):
        last = "The evaluation ran out of memory, or was stopped from outside; nothing was scored."
    else:
        from evaluation.submission.redact import redact_findings  # imports what commands that succeed may not need

        hidden = error.hidden_names if isinstance(error, SubmissionRejected) else ()
        last = render_summary(redact_findings(error.findings, hidden), intro=error.intro)
        lines = [] if lines == [last.removeprefix(f"{error.intro} ")] else lines
    for line in [*lines, last]:
        print(line, file=sys.stderr)
    sys.stderr.flush()
