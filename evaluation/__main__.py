"""``python -m evaluation``."""

from evaluation.cli import main

main()
