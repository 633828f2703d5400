"""Vertices that are written as software writes them are taken out of XML before it is parsed.

Most of such a text are elements that differ in their numbers alone. Where the text between the numbers of a piece of a
file is always the same, the numbers are parsed as one list, and expat sees a text that is a twentieth as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec
import numpy as np

from evaluation.decoding.chunks import gathered
from evaluation.model import Float64

COORDINATE_LIMIT = 1e9
IN_NUMBERS = b"0123456789+-.eE \t\r\n"  # float() also takes "1_000", "nan" and the digits of other scripts
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
        """The text of a file, in pieces, without the vertices in ``taken``."""
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
        """The text without the vertices of all holders; as it is if some are written in another way."""
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
        """The vertices of each holder; None if the text around their numbers is not the same, or one is too large.

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
