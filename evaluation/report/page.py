"""A page as data, before it is drawn. HTML and the terminal show the same page.

Builders (of a submission, a leaderboard, an audit, a sensitivity study) make a ``Page`` from documents such as
metrics.json, with the findings first and the method last; ``html.py`` and ``terminal.py`` draw it. Texts are plain and
are escaped where they are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["plain", "good", "warning", "bad"]
Colour = Literal["matched", "missed", "spurious", "wrong_class", "ignored", "contested", "accent", "muted"]


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs."""

    paragraphs: tuple[str, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline number, such as detection F1 with its interval.

    value   as it stands in the JSON; None: undefined, and ``detail`` says why
    path    of the value in metrics.json, if it stands there
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

    text    what is shown instead of the value; it is sorted by the value
    anchor  of the section, table or figure of the page that it links to
    shade   0…1, how strongly its background is coloured; None: not at all
    name    the anchor of its row
    page    a file that it links to instead, as a relative URL
    """

    value: float | int | str | None
    text: str = ""
    anchor: str = ""
    shade: float | None = None
    tone: Tone = "plain"
    name: str = ""
    page: str = ""


Value = Cell | float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """``digits`` of a number; None: texts. ``help`` is a sentence on what the column holds.

    of   what the column holds of an item: a function of it, or its key (for ``table_of``)
    """

    title: str
    digits: int | None = None
    help: str = ""
    of: Callable[[Any], Value] | str = field(default="", compare=False)


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
class Figure:
    """A plot, as traces and layout of plotly (https://plotly.com/javascript/reference/), plain JSON.

    description  what the plot shows, in a sentence or two, with its main numbers: for people who cannot see it
    traces       colours are names of ``Colour`` with an @ before them ("@missed"), or "@1" … "@8" for classes and
                 teams; "@low", "@middle", "@high" and "@negative" for scales; "@ink", "@surface" and "@line" for lines
                 and words; "@1/0.3" has an opacity. The page puts in what fits light and dark, here and in the layout.
                 All strings are plain text: of the markup of plotly only a line break is left, "\\n".
                 With ``meta: {"links": true}`` a click on a mark leads to its ``customdata``: "#anchor", or "".
                 At most some 5,000 marks: say in the caption if they are a part.
    height       px
    """

    anchor: str
    caption: str
    description: str
    traces: tuple[Mapping[str, Any], ...]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 360


@dataclass(frozen=True, slots=True)
class Widget:
    """An interactive part of the page; ``templates/<kind>.html.j2`` and ``.js`` draw it from its data.

    kind   "browser": nuclei to look through (browser.py)
    words  what a terminal shows instead
    note   what is left out
    """

    kind: Literal["browser"]
    data: Mapping[str, Any]
    words: str
    note: str = ""


Block = Text | Tiles | Table | Figure | Widget


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading; ``lead``: in a sentence or two what one sees; ``folded``: closed at first."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A report.

    facts   names and values that identify it: challenge, version, hash, software; they stand at the end
    data    the documents that its numbers come from, by name ("metrics", "leaderboard", …); embedded once as JSON
    pages   texts and relative URLs of the pages around it, if it is one of a folder
    teams   their names and how they are written beside plots: one of them can be highlighted everywhere
    """

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[tuple[str, str], ...] = ()
    teams: tuple[tuple[str, str], ...] = ()

    def figures(self) -> Sequence[Figure]:
        """All plots in the order of the page."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]
