"""A page as data, before it is drawn. HTML and the terminal show the same page.

Builders (of a submission, a leaderboard, an audit, a sensitivity study) make a ``Page`` from documents such as
metrics.json, with the findings first and the method last; ``html.py`` and ``terminal.py`` draw it. Texts are plain and
are escaped if they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["plain", "good", "warning", "bad"]
Kind = Literal["points", "lines", "boxes", "discs"]


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs."""

    paragraphs: tuple[str, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number, such as detection F1 with its interval.

    value   as it is in the JSON; None: undefined, and ``detail`` states why
    path    of the value in metrics.json, if it is there
    detail  a line below: the interval, the unit, the reason
    """

    label: str
    value: float | int | str | None
    detail: str = ""
    path: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Numbers side by side."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with more than a value.

    text    shown instead of the value; sorting uses the value
    anchor  of the section, table or figure of the page that it links to
    shade   0…1, strength of the background colour; None: no colour
    bar     a value in 0…1 and the ends of its interval, drawn as a bar; None: no bar
    name    the anchor of its row
    page    a file that it links to instead, as a relative URL
    """

    value: float | int | str | None
    text: str = ""
    anchor: str = ""
    shade: float | None = None
    bar: tuple[float, float, float] | None = None
    tone: Tone = "plain"
    name: str = ""
    page: str = ""


Value = Cell | float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """``digits`` of a number; None: texts. ``help`` describes the column in a sentence."""

    title: str
    digits: int | None = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a header of one line; sortable by each column in HTML, its first column heads the rows.

    rows    a value (rounded to the digits of its column when shown, kept whole for sorting) or a Cell
    """

    anchor: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    sortable: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of a plot.

    x, y       a text is a category, in order of appearance; y None: a gap in a line
    text       additional text in the table of numbers
    anchor     link target of its row in the table of numbers
    low, high  the ends of an interval of y, drawn as whiskers; as a band if all dots of a line have them
    size       the share, 0…1, that the area of a disc is proportional to; also for highlighted symbols
    """

    x: float | str
    y: float | str | None
    text: str = ""
    anchor: str = ""
    low: float | None = None
    high: float | None = None
    size: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Dots of one kind. Symbols and dashes follow the index of the series, so that the plot does not depend on colour.

    colour   a name of the style sheet with an @ before it ("@missed", "@ink"), or "@1" … "@8" for classes and teams
    kind     "boxes": quartiles of y (interpolated, as numpy does) and all dots, at the same x
    """

    name: str
    dots: Sequence[Dot]
    colour: str = "@accent"
    kind: Kind = "points"


@dataclass(frozen=True, slots=True)
class Axis:
    """``ends`` of the axis; ``is_whole``: ticks at whole numbers."""

    title: str = ""
    ends: tuple[float, float] | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot.

    description  the content of the plot in a sentence or two, with its main numbers, for people who cannot see it
    horizontal   x of the dots goes down, y to the right
    """

    anchor: str
    caption: str
    description: str
    series: Sequence[Series]
    x: Axis = Axis()
    y: Axis = Axis()
    horizontal: bool = False

    def names(self, along: Literal["x", "y"]) -> list[str]:
        """The categories of an axis, in order of appearance; empty on an axis of numbers."""
        values = [getattr(dot, along) for one in self.series for dot in one.dots]
        return list(dict.fromkeys(value for value in values if isinstance(value, str)))


@dataclass(frozen=True, slots=True)
class Widget:
    """Nuclei to look through, with the anchor "browser"; ``templates/browser.html.j2`` and ``.js`` draw them.

    words  shown on a terminal instead
    note   about omissions
    """

    data: Mapping[str, Any]
    words: str
    note: str = ""


Block = Text | Tiles | Table | Figure | Widget


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading; ``lead``: describes it in a sentence or two; ``folded``: closed at first."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A report.

    facts   names and values that identify it: challenge, version, hash, software; they are at the end
    pages   texts and relative URLs of the pages around it, if it is one of a folder
    teams   their names: one of them can be highlighted in all tables
    links   relative URLs of the pages of teams, by name; tables of teams lead to them
    """

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    pages: tuple[tuple[str, str], ...] = ()
    teams: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)

    def figures(self) -> Sequence[Figure]:
        """All plots in the order of the page."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]


# --- what identifies a document ---------------------------------------------------------------------------------------


def document_page(
    name: str,
    document: Mapping[str, Any],
    sections: Iterable[Section | None],
    *,
    subtitle: str,
    title: str = "",
    teams: Sequence[str] = (),
) -> Page:
    """The page of a document. Without ``title``: challenge and ``name``."""
    identity = document["challenge"] or {}
    return Page(
        title=title or (f"{identity['name']}: {name}" if identity else name.capitalize()),
        subtitle=subtitle,
        facts=identify_document(document),
        sections=tuple(section for section in sections if section is not None),
        teams=tuple(teams),
    )


def identify_document(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The challenge and the program as facts of a page, and a line with them all to be cited in a paper.

    >>> software = {"version": "0.2.0"}
    >>> identify_document({"challenge": {"name": "A", "version": "2", "hash": "0f" * 32}, "software": software})[-1][1]
    'nuclei-evaluation 0.2.0; A, version 2, rules and cases 0f0f0f0f0f0f'
    """
    identity, software = document["challenge"] or {}, document["software"]
    cited = f"nuclei-evaluation {software['version']}"
    facts = [("software", str(software["version"]))]
    if identity:
        cited += f"; {identity['name']}, version {identity['version']}, rules and cases {identity['hash'][:12]}"
        facts = [
            *(("challenge" if key == "name" else key, str(identity[key])) for key in ("name", "version", "hash")),
            *facts,
        ]
    if scored_with := [version for version in software.get("scored_with", ()) if version != software["version"]]:
        facts.append(("scored with", ", ".join(map(str, scored_with))))
    return (*facts, ("cite as", cited))
