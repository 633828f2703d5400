"""File patterns: ``{group}/{case}/{class}/*.mat`` is compared part by part; '/' separates the parts.

Classes are the same in upper and lower case, and so is the fixed text of a pattern; cases and groups are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.challenge import Challenge
from evaluation.model import Case

MAX_WRAPPERS = 5
PIECE = re.compile(r"\{(case|group|class)\}|(\*+)")
PACKED = re.compile(r"\.gz\Z", re.IGNORECASE)
NOTE = re.compile(r"(readme|license|licence)[^/]*|[^/]*\.(txt|md)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedName:
    """The key of the pattern that a file fits, and its texts for {case}, {group} and {class}."""

    name: str
    key: str
    fields: Mapping[str, str]


class Patterns:
    """The file patterns of a challenge, ready to be compared with names."""

    def __init__(self, challenge: Challenge) -> None:
        rules = challenge.submission
        self.known: dict[str, dict[str, str]] = {
            "case": {composed(case.name): case.name for case in challenge.cases},
            "group": {composed(case.group): case.group for case in challenge.cases},
            "class": {composed(name): name for name in challenge.class_ids() if name},
        }
        self.texts: dict[str, str] = {
            key: text for key in (*rules.companions, "files") if (text := rules.value(key)) is not None
        }
        self.compiled = {key: compile_pattern(text, self.known) for key, text in self.texts.items()}

    def read(self, name: str, inner: str) -> ParsedName | None:
        """The name of a file with its fields, ``inner`` being its name without wrapping folders.

        A pattern that gives a known case goes before one that does not, then what goes with a file before the file.
        """
        inner = composed(inner)
        found_names = []
        for key, read in self.compiled.items():
            if (fields := read(inner)) is not None:
                fields = {field: self.known[field].get(text, text) for field, text in fields.items()}
                found_names.append(ParsedName(name, key, fields))
        return next(filter(self.is_known, found_names), found_names[0] if found_names else None)

    def is_known(self, parsed: ParsedName) -> bool:
        """Whether a name belongs to a case that is scored, or to all cases."""
        return "case" not in parsed.fields or composed(parsed.fields["case"]) in self.known["case"]

    def fits(self, inner: str) -> bool:
        parsed = self.read(inner, inner)
        return parsed is not None and self.is_known(parsed)


def composed(name: str) -> str:
    """A name with accents as part of their letters: file systems of macOS take them apart."""
    return unicodedata.normalize("NFC", name)


def compile_pattern(pattern: str, known: Mapping[str, Mapping[str, str]]) -> Callable[[str], dict[str, str] | None]:
    """A function from a name to the fields of the pattern, or None if the name does not fit.

    Behind names of JSON and XML, which are read packed too, ``.gz`` may stand, as behind those of references.
    """
    parts = [compile_part(part, known) for part in pattern.split("/")]
    may_be_packed = pattern.lower().endswith((".json", ".geojson", ".xml"))

    def read(name: str) -> dict[str, str] | None:
        texts = (PACKED.sub("", name) if may_be_packed else name).split("/")
        if len(texts) != len(parts):
            return None
        fields: dict[str, str] = {}
        for text, expressions in zip(texts, parts, strict=True):
            match = next(filter(None, (expression.fullmatch(text) for expression in expressions)), None)
            if match is None:
                return None
            for key, value in match.groupdict().items():
                if fields.setdefault(key, value) != value:
                    return None
        return fields

    return read


def compile_part(part: str, known: Mapping[str, Mapping[str, str]]) -> list[re.Pattern[str]]:
    """Expressions for one part of a pattern, the first that fits counts.

    With one open field in it there is one way to read a name. With several, as in ``{group}_{case}*.tif``, names that
    the challenge knows are tried first, the longest first; then any.
    """
    open_places = len(PIECE.findall(part))
    choices = (True, False) if open_places > 1 else (False,)
    return [re.compile(part_expression(part, known if only_known else {}), re.IGNORECASE) for only_known in choices]


def part_expression(part: str, known: Mapping[str, Mapping[str, str]]) -> str:
    expression, end = "", 0
    used: set[str] = set()
    for piece in PIECE.finditer(part):
        expression += re.escape(part[end : piece.start()])
        end = piece.end()
        key = piece[1]
        if key is None:
            expression += ".*"
        elif key in used:
            expression += f"(?P={key})"
        else:
            used.add(key)
            names = sorted(known.get(key, ()), key=lambda name: (-len(name), name))
            alternatives = "|".join(map(re.escape, names)) or ".+"
            if names and key != "class":
                alternatives = f"(?-i:{alternatives})"
            expression += f"(?P<{key}>{alternatives})"
    return expression + re.escape(part[end:])


def fill_pattern(pattern: str, challenge: Challenge, case: Case, class_name: str | None = None) -> str:
    """The pattern with the names of a case in it, and of a class (the first one if none is given)."""
    fields = {"case": case.name, "group": case.group, "class": class_name or challenge.class_names[0]}
    return PIECE.sub(lambda piece: fields.get(piece[1] or "", piece[0]), pattern)


def case_key(challenge: Challenge, case: Case) -> str:
    """The name of a case in files of all cases and in lists of jobs."""
    return challenge.submission.key_of(case)


def wrapping_folders(names: Sequence[str]) -> Iterator[str]:
    """ "", then the folder around everything, then the one inside it, …; notes may lie beside them.

    >>> list(wrapping_folders(["README.md", "a/b/1.mat", "a/b/2.mat", "a/notes.txt"]))
    ['', 'a/', 'a/b/']
    """
    wrapper = ""
    for _ in range(MAX_WRAPPERS + 1):
        yield wrapper
        inner = [name[len(wrapper) :] for name in names if name.startswith(wrapper)]
        folders = {name.partition("/")[:2] for name in inner if not NOTE.fullmatch(name)}
        if len(folders) != 1 or not (folder := folders.pop())[1]:
            return
        wrapper += "".join(folder)


def find_wrapper(names: Sequence[str], fits: Callable[[str], bool]) -> str:
    """The folders around everything that are ignored, "" if none: names must fit without them and not with them."""
    return next((wrapper for wrapper in wrapping_folders(names) if any(map(fits, inside(names, wrapper)))), "")


def inside(names: Iterable[str], wrapper: str) -> Iterator[str]:
    """Names below wrapping folders, without these."""
    return (name[len(wrapper) :] for name in names if name.startswith(wrapper))
