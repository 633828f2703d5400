"""The exception tree. Each exception carries findings (data) and knows the exit code of the command it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from evaluation.findings import Finding, fault


class EvaluationError(Exception):
    """Base of every error this package raises on purpose. ``findings`` say what is wrong, one entry per fault."""

    exit_code: ClassVar[int] = 70
    intro: ClassVar[str] = "Cannot run:"

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)
        self.findings = findings

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))

    def __reduce__(self) -> tuple[type[EvaluationError], tuple[Finding, ...]]:
        return type(self), self.findings  # survives the way back from a worker process


class InputFault(EvaluationError):
    """A file cannot be used, with a finding at least. Raised by readers, which do not know on whose side it lies."""

    def __init__(self, *findings: Finding) -> None:
        if not findings:
            raise ValueError("a fault without a finding would make its file vanish")
        super().__init__(*findings)


def refused(code: str, *where: str, **words: Any) -> InputFault:
    """The error of a file with one thing wrong with it, in the words of ``fault``."""
    return InputFault(fault(code, *where, **words))


class SubmissionRejected(EvaluationError):
    """The submission is at fault; nothing is scored. The findings are for the participant.

    ``hidden_names`` are names of cases and groups that participants must not read.
    """

    exit_code = 1
    intro = "Submission rejected:"
    hidden_names: frozenset[str] = frozenset()

    def hiding(self, names: Iterable[str]) -> Self:
        """The error itself, which keeps these names from participants."""
        self.hidden_names = frozenset(names)
        return self


class ConversionRefused(EvaluationError):
    """A file cannot be converted: it is at fault, or the other format has no place for what is in it."""

    exit_code = 1
    intro = "Cannot convert:"


class WrongUsage(EvaluationError):
    """The command line is at fault."""

    exit_code = 2


class ChallengeBroken(EvaluationError):
    """challenge.toml, cases.csv or the reference is at fault. The findings are for the organisers only.

    ``last`` is the last line, which participants read.
    """

    exit_code = 3
    last = "The challenge itself has a fault; this is not about the submission. Organisers: see the lines above."


class ReferenceBroken(ChallengeBroken):
    """A reference that predictions are compared with is at fault, and nobody organises a challenge."""

    last = "The reference has a fault, or does not fit the options: see the lines above."


class ResultsNotWritten(EvaluationError):
    """The results have no place: the disk is full, or the platform's folder cannot be written to. ``why``: in words."""

    def __init__(self, why: str, *findings: Finding) -> None:
        super().__init__(*findings)
        self.why = why


class WorkerDied(EvaluationError):
    """A worker process ended without an answer (killed, out of memory). No result is written."""


class WorkersLost(EvaluationError):
    """An executor or a cluster cannot go on. Results that are complete are kept."""


@contextmanager
def faults_as(kind: type[EvaluationError]) -> Iterator[None]:
    """Raise the findings of an InputFault as an error of another kind, such as WrongUsage for files of an option."""
    try:
        yield
    except InputFault as fault:
        raise kind(*fault.findings) from None


class NoRoomBeside(MemoryError):
    """A file needs more memory than there is beside other work: what it belongs to is done once more, alone."""


class TooManyPairs(ValueError):
    """More pairs than may be compared; they were counted, not looked at.

    what          what was counted
    pairs, most   how many there are, and how many there may be
    by_reference  whether the reference against itself has too many, so that no good submission has room
    """

    def __init__(self, what: str, pairs: int, most: int, *, by_reference: bool) -> None:
        super().__init__(what, pairs, most)
        self.what, self.pairs, self.most, self.by_reference = what, pairs, most, by_reference

    def __str__(self) -> str:
        return f"{self.pairs:,} {self.what}; at most {self.most:,}"
