"""A real input for every code of the catalogue, and the line that the program prints about it."""

from findings import of_challenges, of_files
from findings.bench import FIXTURES, Bench, line_with

__all__ = ["FIXTURES", "Bench", "line_with", "of_challenges", "of_files"]
