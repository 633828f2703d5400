"""XML from strangers: the parser is fed piece by piece, keeps nothing but numbers, and refuses every declaration.

The parser is expat itself. Files may be compressed with gzip. Coordinates are attributes of many equal elements
("vertices"): uniform elements are removed first (``PlainVertices``); the texts of other elements are collected
and parsed piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO
from xml.parsers import expat

import msgspec
import numpy as np

from evaluation.challenge import LimitRules
from evaluation.files.decoding.csv import IN_NUMBERS, numbers_of
from evaluation.files.decoding.streams import CHUNK_BYTES, COORDINATE_LIMIT, check_number, gathered, plain_chunks
from evaluation.findings import FAULTS_NAMED
from evaluation.findings.errors import refused
from nuclei_metrics.model import Float64

DEPTH_LIMIT = 64  # open elements; expat keeps each of them
NAMES_LIMIT = 1000  # different names of elements and attributes; expat keeps them all
TOKEN_BYTES = 1 << 20  # one tag or comment; expat reads an unfinished one again with every piece
MISSING = "\0"  # stands for an attribute that is absent: no XML can hold this character


Opened = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class Dialect:
    """Information on the elements of a format.

    software    that writes the files, for messages
    root        the root element
    holder      names of the elements down to the parent of the vertices
    vertex      name of the elements in it
    columns     the attributes of a vertex, as most files order them; the last two are X and Y
    """

    software: str
    root: str
    holder: tuple[str, ...]
    vertex: str
    columns: tuple[str, ...]


class Vertices:
    """The vertices parsed so far, and the faults of their X and Y.

    invalid        the first X and Y that are no coordinates: the vertex, the axis and its text, or MISSING
    invalid_count  how many there are
    """

    def __init__(self, columns: tuple[str, ...], where: str, limits: LimitRules) -> None:
        self.columns = columns
        self.where = where
        self.limits = limits
        self.texts: list[str] = []  # of all columns in turn, of the piece at hand
        self.numbers: list[Float64] = []
        self.converted = 0
        self.invalid: list[tuple[int, str, str]] = []
        self.invalid_count = 0

    def __len__(self) -> int:
        return self.converted + len(self.texts) // len(self.columns)

    def add(self, numbers: Float64) -> None:
        """Add the next vertices, float64 (V, C)."""
        if self.texts:
            self.convert()
        self.numbers.append(numbers)
        self.converted += len(numbers)

    def convert(self) -> None:
        """Turn the collected texts into numbers, all at once. Raises InputFault if there are too many vertices."""
        check_number(len(self), "vertices", "vertices_per_file", self.where, self.limits)
        if not self.texts:
            return
        numbers = numbers_of(self.texts).reshape(-1, len(self.columns))
        is_invalid = ~(np.abs(numbers[:, -2:]) <= COORDINATE_LIMIT)
        if is_invalid.any():
            rows, axes = np.nonzero(is_invalid)
            for row, axis in list(zip(rows.tolist(), axes.tolist(), strict=True))[: FAULTS_NAMED - len(self.invalid)]:
                column = len(self.columns) - 2 + axis
                text = self.texts[row * len(self.columns) + column]
                self.invalid.append((self.converted + row, self.columns[column], text))
            self.invalid_count += len(rows)
        self.numbers.append(numbers)
        self.converted += len(numbers)
        self.texts.clear()

    def points_xy(self) -> Float64:
        """Return X and Y of all vertices, float64 (V, 2); NaN for anything that is no number."""
        return np.concatenate([np.empty((0, 2)), *(numbers[:, -2:] for numbers in self.numbers)])

    def column(self, name: str) -> Float64:
        """Return the values of one column for all vertices, float64 (V,); NaN for anything that is no number."""
        index = self.columns.index(name)
        return np.concatenate([np.empty(0), *(numbers[:, index] for numbers in self.numbers)])


def read_elements(
    stream: BinaryIO,
    dialect: Dialect,
    vertices: Vertices,
    opened: Mapping[tuple[str, ...], Opened],
    *,
    as_written: bool = False,
) -> None:
    """Read a file to its end, and collect its vertices in ``vertices``.

    opened      callbacks for opening elements, called with their attributes, by the path of element names
    as_written  let expat parse the whole text, so that messages contain the lines and columns of the file

    Raises InputFault: too-large, unreadable-file (gzip), not-xml, forbidden-xml, wrong-format.
    """
    where, software = vertices.where, dialect.software
    plain = PlainVertices(dialect.holder[-1], dialect.vertex, dialect.columns)
    parser = _make_parser(dialect, vertices, opened, plain)
    chunks = plain_chunks(stream, where, vertices.limits.bytes_per_file)
    fed = 0
    try:
        for chunk in chunks if as_written else plain.shorten(chunks):
            parser.Parse(chunk, False)
            fed += len(chunk)
            if fed - parser.CurrentByteIndex > TOKEN_BYTES + CHUNK_BYTES:
                raise refused("not-xml", where, got="a tag or comment of more than a million bytes", software=software)
            if len(parser.intern) > NAMES_LIMIT:
                why = f"more than {NAMES_LIMIT:,} different names of elements and attributes"
                raise refused("not-xml", where, got=why, software=software)
            vertices.convert()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        if not as_written:
            read_elements(stream, dialect, Vertices(dialect.columns, where, vertices.limits), {}, as_written=True)
        reason = expat.errors.messages.get(error.code, "not XML")
        why = f"{reason} (line {error.lineno:,}, column {error.offset:,})"
        raise refused("not-xml", where, got=why, software=software) from None
    except (LookupError, ValueError) as error:  # what pyexpat raises for encodings that it cannot read
        raise refused("not-xml", where, got=str(error), software=software) from None
    vertices.convert()


class _KnownElement:
    """An element of a dialect: its callback for opening, and its known child elements."""

    __slots__ = ("inner", "opened")

    def __init__(self) -> None:
        self.opened: Opened | None = None
        self.inner: dict[str, _KnownElement] = {}

    def find(self, path: tuple[str, ...]) -> _KnownElement:
        """Find or add the element at a path below."""
        return self.inner.setdefault(path[0], _KnownElement()).find(path[1:]) if path else self


UNKNOWN_ELEMENT = _KnownElement()


def _make_parser(
    dialect: Dialect, vertices: Vertices, opened: Mapping[tuple[str, ...], Opened], plain: PlainVertices
) -> expat.XMLParserType:
    """Create an expat parser that collects vertices, and refuses whatever a stranger could misuse."""
    where, texts = vertices.where, vertices.texts
    parser = expat.ParserCreate()
    parser.ordered_attributes = True  # a list [name, value, …]: a fifth less time than a dictionary for each vertex
    columns, stop = list(dialect.columns), 2 * len(dialect.columns)
    vertex, root = dialect.vertex, dialect.root
    document = _KnownElement()
    holder = document.find(dialect.holder)
    for path, call in opened.items():
        document.find(path).opened = call
    stack = [document]  # the open elements

    def start(name: str, pairs: list[str]) -> None:
        if stack[-1] is holder and name == vertex:
            if pairs[:stop:2] == columns:
                texts.extend(pairs[1:stop:2])
            else:
                attributes = dict(zip(pairs[::2], pairs[1::2], strict=True))
                if (taken := plain.taken.get(attributes.get(TAKEN_OUT))) is not None:
                    vertices.add(taken)
                else:
                    texts.extend([attributes.get(column, MISSING) for column in columns])
            stack.append(UNKNOWN_ELEMENT)
            return
        element = stack[-1].inner.get(name, UNKNOWN_ELEMENT)
        if len(stack) == 1 and name != root:
            raise refused("wrong-format", where, wording="xml", name=name, software=dialect.software, root=root)
        if len(stack) > DEPTH_LIMIT:
            why = f"elements nested more than {DEPTH_LIMIT} deep"
            raise refused("not-xml", where, got=why, software=dialect.software)
        stack.append(element)
        if element.opened is not None:
            element.opened(dict(zip(pairs[::2], pairs[1::2], strict=True)))

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> int:
        raise refused("forbidden-xml", where)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.UnparsedEntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    return parser


# --- Vertices that are written as software writes them are taken out of XML before it is parsed. ----------------------


TAKEN_OUT = "taken-out"  # an attribute of the vertex that stands for those of its holder
VERTICES_OF_A_HOLDER = 4  # with fewer there is little to gain
HELD_BYTES = 1 << 20  # a holder that is longer is left to the parser
OTHER_ATTRIBUTES = rb'(?: Z="[-+.0-9eE]*")?'  # behind X and Y
HOLDER, VERTEX = b"|", b";"  # what stands between holders and between vertices, where only numbers are left
AS_COMMAS = bytes.maketrans(HOLDER + VERTEX, b",,")


class PlainVertices:
    """Takes the vertices of a dialect out of a text.

    taken   the vertices of the piece at hand, float64 (V, C) of each holder, by the value of TAKEN_OUT
    """

    def __init__(self, holder: str, vertex: str, columns: tuple[str, ...]) -> None:
        self.opening, self.closing = f"<{holder}>".encode(), f"</{holder}>".encode()
        self.stand_in = f'{self.opening.decode()}<{vertex} {TAKEN_OUT}="%d"/>{self.closing.decode()}'.encode()
        self.vertex = f"<{vertex} ".encode()
        self.between_columns = [f'" {name}="'.encode() for name in columns[1:]]
        begin = rf'\s*<{vertex} {columns[0]}="'.encode()
        end = b'"' + OTHER_ATTRIBUTES + rb"\s*/>"
        self.head, self.tail = re.compile(begin), re.compile(end + rb"\s*\Z")
        self.between_vertices = re.compile(end + begin)
        self.columns = len(columns)
        self.taken: dict[str | None, Float64] = {}

    def shorten(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the text of a file, in pieces, without the vertices in ``taken``."""
        waiting, chunks = b"", gathered(chunks)
        for chunk in chunks:
            waiting += chunk
            self.taken = {}
            if len(waiting) > HELD_BYTES + len(chunk) or TAKEN_OUT.encode() in waiting:
                break
            open_holder = waiting.rfind(self.opening)
            is_closed = open_holder < 0 or waiting.find(self.closing, open_holder) >= 0
            stop = waiting.rfind(b">") + 1 if is_closed else open_holder
            piece, waiting = waiting[:stop], waiting[stop:]
            yield self.take_out(piece)
        self.taken = {}
        yield waiting
        yield from chunks

    def take_out(self, text: bytes) -> bytes:
        """Take the vertices of all holders out of a text; it stays as it is if some are written in another way."""
        before, *parts = text.split(self.opening)
        if text.count(self.vertex) < VERTICES_OF_A_HOLDER * len(parts):
            return text
        rest, bodies = [before], list[bytes]()
        for part in parts:
            body, is_closed, after = part.partition(self.closing)
            if not is_closed:  # holders in holders
                return text
            if not body or body.isspace():
                rest += [self.opening, part]
            else:
                rest += [self.stand_in % len(bodies), after]
                bodies.append(body)
        numbers = self.parse(bodies) if bodies else None
        if numbers is None:
            return text
        self.taken = {str(index): of_holder for index, of_holder in enumerate(numbers)}
        return b"".join(rest)

    def parse(self, bodies: list[bytes]) -> list[Float64] | None:
        """Parse the vertices of each holder; None if the text around their numbers is not the same, or one is too
        large.

        >>> plain = PlainVertices("Vertices", "Vertex", ("X", "Y"))
        >>> [vertices] = plain.parse([b'<Vertex X="1" Y="2.5"/><Vertex X="3" Y="4"/>'])
        >>> vertices.tolist(), plain.parse([b'<Vertex X="1" Y="2.5"/><Vertex Y="3" X="4"/>'])
        ([[1.0, 2.5], [3.0, 4.0]], None)
        """
        joined = HOLDER.join(bodies)
        head = self.head.match(joined)
        tail = self.tail.search(joined, joined.rfind(self.between_columns[-1]) + len(self.between_columns[-1]))
        if head is None or tail is None or VERTEX in joined or b"," in joined:
            return None
        inner = joined[head.end() : tail.start()].replace(tail[0] + HOLDER + head[0], HOLDER)
        if between := self.between_vertices.search(inner):
            inner = inner.replace(between[0], VERTEX)
        for text in self.between_columns:
            inner = inner.replace(text, b",")
        structure = inner.translate(None, IN_NUMBERS)
        of_vertex = b"," * (self.columns - 1) + VERTEX
        sizes = [(len(of_holder) + 1) // self.columns for of_holder in structure.split(HOLDER)]
        if len(sizes) != len(bodies) or structure.replace(HOLDER, VERTEX) + VERTEX != of_vertex * sum(sizes):
            return None
        try:
            flat = msgspec.json.decode(b"[%b]" % inner.translate(AS_COMMAS), type=list[float])
        except msgspec.MsgspecError:
            return None
        numbers = np.array(flat, np.float64).reshape(-1, self.columns)
        if not (np.abs(numbers[:, -2:]) <= COORDINATE_LIMIT).all():
            return None
        return [numbers[start:stop] for start, stop in pairwise(np.cumsum([0, *sizes]).tolist())]
