"""What kinds of findings are made of: a page, and templates that are filled with the data of one fault.

``UnknownClass(name="Lymphocytes", known=names).at("'a.xml', region 1")`` is a ``Finding``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from string import Formatter
from typing import Any, ClassVar, dataclass_transform

from evaluation.findings.finding import EXAMPLES_SHOWN, Finding, Severity
from evaluation.findings.words import did_you_mean, join_places, listed, quote


@dataclass(frozen=True, slots=True)
class Page:
    """What is explained about a code: what it means, why it matters, what to do, and how the line looks."""

    title: str
    why: str
    fix: str
    example: str
    severity: Severity = "error"


WORDS: dict[str, Callable[..., str]] = {"quoted": quote, "listed": listed, "joined": partial(listed, last="and")}


class Templates(Formatter):
    """``str.format`` on the attributes of a finding's kind, with some more words behind the colon.

    ``{name:quoted}``, ``{name:quoted 120}``   a value from a file, safe to print
    ``{known:listed}``, ``{known:listed 20}``  quoted names, with "or" before the last
    ``{twice:joined}``                         the same with "and"
    ``{count:nucleus has/nuclei have}``        the first for 1, else the second
    """

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> str:
        word, _, limit = format_spec.partition(" ")
        if word in WORDS:
            return WORDS[word](value, *map(int, limit.split()))
        one, is_plural, many = format_spec.partition("/")
        return (one if value == 1 else many) if is_plural else format(value, format_spec)


@dataclass_transform(eq_default=False)
class Kind:
    """One kind of finding. Annotated attributes are the data of a fault; properties may say what follows from them.

    The docstring is the page of the code: title, why it matters, what to do, and the line as it is printed, each a
    paragraph. ``got``, ``expected`` and ``fix`` are templates. Other wordings of a code are subclasses, or classes of
    the same code where the data differ.
    """

    code: ClassVar[str]
    severity: ClassVar[Severity] = "error"
    got: ClassVar[str]
    expected: ClassVar[str]
    fix: ClassVar[str] = ""

    data: ClassVar[tuple[str, ...]] = ()  # names of the attributes that have the data of a fault, in order

    def __init_subclass__(cls) -> None:
        own = (name for name, hint in inspect.get_annotations(cls).items() if not hint.startswith("ClassVar"))
        cls.data = tuple(dict.fromkeys((*cls.data, *own)))

    def __init__(self, *values: Any, **named: Any) -> None:
        """As a dataclass has it, which would compile code for each of some 300 kinds when the program starts."""
        given = {**dict(zip(self.data, values, strict=False)), **named}
        lacking = [name for name in self.data if name not in given and not hasattr(type(self), name)]
        if lacking or given.keys() - set(self.data) or len(given) < len(values) + len(named):
            raise TypeError(f"{type(self).__name__} is made of {', '.join(self.data)}; got {values}, {named}")
        vars(self).update(given)

    def at(self, *where: str, count: int | None = None) -> Finding:
        """The finding at one place or more: the first three are named. ``count`` is that of the places if not given."""
        named = where[:EXAMPLES_SHOWN]
        got, expected, fix = (Templates().vformat(text, [self], {}) for text in (self.got, self.expected, self.fix))
        total = len(where) if count is None else count
        return Finding(self.code, join_places(named), got, expected, fix, total, len(named))

    @classmethod
    def page(cls) -> Page:
        """The page of the code, as the docstring has it."""
        paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
        title, why, fix, example = (" ".join(paragraph.split()) for paragraph in paragraphs)
        return Page(title.removesuffix("."), why, fix, example, cls.severity)


class FoundNotAllowed(Kind):
    """What was found, and what is allowed, in words that the caller gives."""

    got = "{found}"
    expected = "{allowed}"
    fix = "{advice}"

    found: str
    allowed: str
    advice: str = ""


class NotAmong(Kind):
    """A name that is not among those that are known, of which the closest is suggested."""

    expected = "{known:listed}"
    fix = "{suggestion}"

    name: str
    known: Collection[str]

    @property
    def suggestion(self) -> str:
        return did_you_mean(self.name, self.known)
