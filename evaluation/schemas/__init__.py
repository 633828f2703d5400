"""Pydantic models of the files that other tools read or write."""
