"""The exception tree. Each exception carries findings (data) and knows the exit code of the command it ends."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

from evaluation.findings import Finding, fault


class EvaluationError(Exception):
    """Base of every error this package raises on purpose. ``findings`` state the fault, one entry per fault."""

    exit_code: ClassVar[int] = 70
    intro: ClassVar[str] = "Cannot run:"
    rest: ClassVar[str] = "see the lines above"  # where further faults are reported

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)
        self.findings = findings

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))

    def __reduce__(self) -> tuple[type[EvaluationError], tuple[Finding, ...]]:
        return type(self), self.findings  # survives the way back from a worker process


class InputFault(EvaluationError):
    """A file cannot be used, with at least one finding. Raised by readers, which do not know the side of the file."""

    def __init__(self, *findings: Finding) -> None:
        if not findings:
            raise ValueError("a fault without a finding would make its file vanish")
        super().__init__(*findings)


def refused(code: str, *where: str, **words: Any) -> InputFault:
    """Create the error for a single fault of a file, in the words of ``fault``."""
    return InputFault(fault(code, *where, **words))


class SubmissionRejected(EvaluationError):
    """The submission is at fault; nothing is scored. The findings are for the participant.

    ``hidden_names`` are names of cases and groups that participants must not read.
    """

    exit_code = 1
    intro = "Submission rejected:"
    rest = "'evaluation validate' lists them"
    hidden_names: frozenset[str] = frozenset()

    def hiding(self, names: Iterable[str]) -> Self:
        """The error itself, which keeps these names from participants."""
        self.hidden_names = frozenset(names)
        return self


class PredictionRejected(SubmissionRejected):
    """A prediction that is compared with a reference is at fault, and there is no submission."""

    intro = "Prediction rejected:"
    rest = EvaluationError.rest


class ConversionRefused(EvaluationError):
    """A file cannot be converted: it is invalid, or the other format cannot contain its content."""

    exit_code = 1
    intro = "Cannot convert:"


class WrongUsage(EvaluationError):
    """The command line is at fault."""

    exit_code = 2


class ChallengeBroken(EvaluationError):
    """challenge.toml, cases.csv or the reference is at fault. The findings are for the organisers only.

    ``last`` is the last line, which participants read; {aside} says that their submission is not at fault.
    """

    exit_code = 3
    last = "The challenge itself has a fault{aside}. Organisers: see the lines above."


class ReferenceBroken(ChallengeBroken):
    """A reference that predictions are compared with is at fault, and nobody organises a challenge."""

    last = "The reference has a fault, or does not fit the options: see the lines above."


class ResultsNotWritten(EvaluationError):
    """Results cannot be written: the disk is full, or the folder of the platform is not writable. ``why``: in words."""

    def __init__(self, why: str, *findings: Finding) -> None:
        super().__init__(*findings)
        self.why = why


class WorkerDied(EvaluationError):
    """A worker process ended without an answer (killed, out of memory). No result is written."""


class WorkersLost(EvaluationError):
    """An executor or a cluster stopped. Results that are complete are kept."""


@contextmanager
def faults_as(kind: type[EvaluationError]) -> Iterator[None]:
    """Raise the findings of an InputFault as an error of another kind, such as WrongUsage for files of an option."""
    try:
        yield
    except InputFault as fault:
        raise kind(*fault.findings) from None


class NoRoomBeside(MemoryError):
    """A file needs more memory than is free: its case is processed again, alone."""


# --- names that participants must not read ----------------------------------------------------------------------------


# They are taken out of messages. A name counts where it stands by itself: its first letter or digit does not go on a
# word or a number, nor does one go on after it. Short and plain names, which are words of messages as well, count
# inside quotation marks only, where the names of files and cases are. Long values are shown with "…" in the middle;
# what is left of a name beside it goes, too.


STAND_IN = "‹case›"
TEXTS = ("where", "got", "expected", "fix")  # of a finding
LEAST_PART = 3  # characters of a name that is cut off; fewer tell nothing
QUOTED = re.compile(r"(?:(?<=[\s(])|^)'.*?(?:'(?=[\s,;:.)?…]|$)|$)", re.DOTALL)
PLAIN = re.compile(r"[^\W\d_]+|\d+|..?", re.DOTALL)


def redact(text: str, names: Iterable[str]) -> str:
    """The text with ``‹case›`` instead of every name.

    >>> redact("case 'P1_1', 'P1/P1_1.mat': not a MATLAB file", ["a", "P1", "P1_1"])
    "case '‹case›', '‹case›/‹case›.mat': not a MATLAB file"
    """
    return _Redactor(names).redact(text)


def redact_findings(findings: Iterable[Finding], names: Iterable[str]) -> tuple[Finding, ...]:
    """The findings with ``‹case›`` instead of every name, to be grouped and cut to length afterwards."""
    redactor = _Redactor(names)

    def redacted(finding: Finding) -> Finding:
        texts: dict[str, Any] = {key: redactor.redact(getattr(finding, key)) for key in TEXTS}
        return replace(finding, **texts, wording="", data={})

    return tuple(map(redacted, findings))


class _Redactor:
    """Names to be taken out, ready for many texts."""

    def __init__(self, names: Iterable[str]) -> None:
        # File systems of macOS take accents apart: each name is looked for in both of its forms.
        forms = (unicodedata.normalize(form, name) for name in names for form in ("NFC", "NFD"))
        self.names = frozenset(filter(None, forms))
        self.telling = frozenset(name for name in self.names if not PLAIN.fullmatch(name))
        self.lengths = sorted({len(name) for name in self.names}, reverse=True)
        self.forwards = sorted(self.names)
        self.backwards = sorted(name[::-1] for name in self.names)

    def redact(self, text: str) -> str:
        if not self.names:
            return text
        pieces, end = [], 0
        for match in QUOTED.finditer(text):
            pieces += [self.without(text[end : match.start()], self.telling)]
            pieces += [self.without(self.without_remains(match[0]), self.names)]
            end = match.end()
        return "".join([*pieces, self.without(text[end:], self.telling)])

    def without(self, text: str, names: frozenset[str]) -> str:
        """The text without whole names, the longest first."""
        pieces, done, position = [], 0, 0
        while position < len(text):
            stop = 0
            if not _goes_on(text, position):
                stops = (position + length for length in self.lengths)
                stop = next((s for s in stops if text[position:s] in names and not _goes_on(text, s)), 0)
            if stop and not (
                text[position - 1 : position] == "{" and text[stop : stop + 1] == "}"
            ):  # a field of a pattern
                pieces += [text[done:position], STAND_IN]
                done = position = stop
            else:
                position += 1
        return "".join([*pieces, text[done:]])

    def without_remains(self, text: str) -> str:
        """The text without the remains of names around "…"."""
        first, *others = text.split("…")
        parts = [first]
        for part in others:
            parts[-1] = self.without_beginning(parts[-1])
            parts.append(self.without_beginning(part[::-1], self.backwards)[::-1])
        return "…".join(parts)

    def without_beginning(self, text: str, names: Sequence[str] | None = None) -> str:
        """The text without its longest end that may be the beginning of a name."""
        names = self.forwards if names is None else names
        for position in range(max(0, len(text) - self.lengths[0]), len(text) - LEAST_PART + 1):
            part = text[position:]
            index = bisect_left(names, part)
            if not _goes_on(text, position) and index < len(names) and names[index].startswith(part):
                return text[:position] + (STAND_IN if names is self.forwards else STAND_IN[::-1])
        return text


def _goes_on(text: str, position: int) -> bool:
    """Return whether two neighbouring characters belong to one word or number."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    return (before.isalpha() and after.isalpha()) or (before.isdigit() and after.isdigit())
