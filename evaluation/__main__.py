"""``python -m evaluation``, and the command ``evaluation``."""

import os
import sys
from typing import NoReturn

from evaluation.commands.watch import run_watched


def program() -> int:
    from evaluation.commands.main import run

    return run(sys.argv[1:])


def _open_standard_streams() -> None:
    """Open those that were closed, as by ``>&-``, to nowhere: else other files take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> NoReturn:
    """Run a command and leave with its exit code; the last line on stderr is what a participant may read."""
    _open_standard_streams()
    sys.exit(run_watched(program))


if __name__ == "__main__":
    main()
