"""``python -m evaluation``."""

from evaluation.commands.main import main

main()
