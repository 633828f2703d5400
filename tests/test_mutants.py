"""The list of mutants: every old text is in the program once, and all rooms of the engine have some."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mutants import FILES, MUTANTS


def test_every_mutant_can_be_made():
    assert [f"{mutant}: {fault}" for mutant in MUTANTS if (fault := mutant.fault())] == []


def test_a_mutant_that_cannot_be_made_is_told():
    assert replace(MUTANTS[0], old="no such text").fault() == "the old text is there 0 times"
    assert replace(MUTANTS[0], old="import").fault() != ""
    assert replace(MUTANTS[0], tests=("nothing",)).fault() == "no such tests: nothing"


def test_there_are_at_least_sixty_and_no_two_are_equal():
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= 60
    assert Counter(mutant.file for mutant in MUTANTS).keys() == FILES.keys()
    assert all(mutant.old != mutant.new for mutant in MUTANTS)
