"""``python -m evaluation``, and the command ``evaluation``."""

import sys
from typing import NoReturn

from evaluation.commands.watch import run_watched


def program() -> int:
    from evaluation.commands.main import run

    return run(sys.argv[1:])


def main() -> NoReturn:
    """Run a command and leave with its exit code; the last line on stderr is what a participant may read."""
    sys.exit(run_watched(program))


if __name__ == "__main__":
    main()
