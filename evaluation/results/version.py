"""The version of the program; it goes into every result."""

__version__ = "0.2.0"
