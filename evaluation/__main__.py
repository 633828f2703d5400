"""``python -m evaluation``, and the command ``evaluation``."""

import codecs
import os
import sys
from io import TextIOWrapper
from typing import NoReturn

from evaluation.commands.watch import run_watched

# What is printed where a terminal's encoding (cp1252, latin-1, ASCII) lacks a character; else a question mark.
_PLAIN = {
    "↑": ">", "↓": "<", "≥": ">=", "∞": "inf", "−": "-", "–": "-", "…": "...", "‹": "<", "›": ">", "’": "'", "“": '"',
    "”": '"', "○": "o", "✓": "v", "✕": "x", "±": "+-", "µ": "u",
}  # fmt: skip


def program() -> int:
    from evaluation.commands.main import run

    return run(sys.argv[1:])


def _open_standard_streams() -> None:
    """Open standard streams that were closed (``>&-``) to the null device: otherwise other files take their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _print_everywhere() -> None:
    """Print plain characters instead of raising UnicodeEncodeError, whatever the encoding of the terminal."""

    def plain(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        lost = error.object[error.start : error.end]
        return "".join(_PLAIN.get(character, " " if character.isspace() else "?") for character in lost), error.end

    codecs.register_error("plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="plain")


def main() -> NoReturn:
    """Run a command and leave with its exit code; participants see only the last line on stderr."""
    _open_standard_streams()
    _print_everywhere()
    sys.exit(run_watched(program))


if __name__ == "__main__":
    main()
