"""XML whose vertices are taken out before it is parsed is read as by expat alone, for every way to write it."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from evaluation.challenge import LimitRules, format_rules
from evaluation.decoding import streams, xml
from evaluation.decoding.xml import VERTICES_OF_A_HOLDER, PlainVertices
from evaluation.findings.errors import InputFault
from evaluation.formats.annotation_xml import read_aperio_xml, read_asap_xml
from evaluation.formats.format import Request
from evaluation.model import Case, ClassTable

NUMBERS = ["1", "2.5", "-3", "1e2", "0", "-0.0", "123.456789012345678", "99", "7.25", "1.5E+1"]
ODD_NUMBERS = [
    "", " 4 ", "+1", ".5", "1.", "nan", "1e999", "2e9", "1,2", "1;2", "1|2", "1,2;3", "１", "&#49;", "0x1", "1_0", "a",
    '1" Y="2', '1" Y="2;3', "\t5", "1\n", "\x01", "<", "01", "1 2", '"', "-",
]  # fmt: skip
ODD_TEXTS = [
    "<!-- a -->", "<![CDATA[<Vertices>]]>", "<?a b?>", "<Vertices>", "</Vertices>", "<Vertices/>", "&amp;", "text", "é",
    '<Vertices><Vertex X="1" Y="2"/></Vertices>', '<Vertex taken-out="0"/>', '<Vertices a="1"><Vertex X="1" Y="2"/>',
    "<!--", "-->", '<Vertex X="1" Y="2"/>', "<Plots/>", "<!DOCTYPE a>", "]]>", "|", ";", "<Vertices >", "</Vertex>",
    '<!-- <Vertices><Vertex X="1" Y="2"/></Vertices> -->', "<Coordinates>", '<Coordinate Order="0" X="1" Y="2"/>',
    "<Vertices></Vertices>", "\0", "taken-out", "<a b='", "<a b='>", "'/>",
]  # fmt: skip
ENDS = ["/>", " />", ' Z="0"/>', ' Z="0" />', "></Vertex>", '  Z="0"/>', ' Z="a"/>', ' X="1"/>', ">", '" />']


class Writer:
    """Documents in one layout; ``oddity`` is the share of what is written in another way."""

    def __init__(self, seed: int, vertex: str, columns: tuple[str, ...]) -> None:
        self.random = Random(seed)
        self.oddity = self.random.choice([0, 0, 0.003, 0.03])
        self.vertex, self.columns = vertex, columns
        self.blank = self.random.choice(["", "\n", "\n\t\t", "\r\n  "])
        self.end = self.random.choice(ENDS[:4])

    def odd(self, usual: str, others: list[str]) -> str:
        return self.random.choice(others) if self.random.random() < self.oddity else usual

    def positions(self, order: int) -> str:
        values = [str(order), *self.random.choices(NUMBERS, k=2)][-len(self.columns) :]
        columns = list(self.columns)
        if self.odd("", ["swap"]):
            columns.reverse()
        named = "".join(
            f' {name}="{self.odd(value, ODD_NUMBERS)}"' for name, value in zip(columns, values, strict=True)
        )
        return self.odd("", ODD_TEXTS) + f"<{self.vertex}{named}{self.odd(self.end, ENDS)}"

    def holder(self, name: str) -> str:
        count = self.random.choice([0, 1, 8, 12, 20])
        vertices = [self.odd(self.blank, [" ", "\t"]) + self.positions(order) for order in range(count)]
        body = "".join([*vertices, self.blank if vertices else self.odd("", [" "])])
        return self.odd("", ODD_TEXTS) + f"<{name}>{body}</{name}>" + self.odd("", ODD_TEXTS)

    def cut(self, text: str) -> bytes:
        data = text.encode()
        data = data[: self.random.randrange(len(data))] if self.odd("", ["cut"]) else data
        return gzip.compress(data) if self.random.random() < 0.1 else data


def aperio(seed: int) -> bytes:
    writer = Writer(seed, "Vertex", ("X", "Y"))
    regions = [
        f'<Region Id="{number}" NegativeROA="{int(writer.random.random() < 0.2)}">{writer.holder("Vertices")}</Region>'
        for number in range(writer.random.randrange(12))
    ]
    layer = f'<Annotation Name="a"><Regions>{"".join(regions)}</Regions></Annotation>'
    return writer.cut(writer.odd('<?xml version="1.0"?>\n', ODD_TEXTS) + f"<Annotations>{layer}</Annotations>")


def asap(seed: int) -> bytes:
    writer = Writer(seed, "Coordinate", ("Order", "X", "Y"))
    annotations = [
        f'<Annotation Type="Polygon" PartOfGroup="a">{writer.holder("Coordinates")}</Annotation>'
        for _ in range(writer.random.randrange(12))
    ]
    return writer.cut(f"<ASAP_Annotations><Annotations>{''.join(annotations)}</Annotations></ASAP_Annotations>")


COMMON = {"files": "{case}.xml", "vertices": "exact", "vanished": "drop", "origin": "pixel_centre"}
APERIO = read_aperio_xml, format_rules(format="aperio_xml", **COMMON), aperio
ASAP = read_asap_xml, format_rules(format="asap_xml", shape="outline", **COMMON), asap


def said_of(read: Any, rules: Any, data: bytes, limits: LimitRules) -> Any:
    """The outlines of a file, or what is wrong with it."""
    request = Request(where="'a.xml'", name="a.xml", rules=rules, classes=ClassTable(("a",), {"a": 1}), limits=limits)
    try:
        annotations = read(io.BytesIO(data), request, Case("a", "a", 100, 100))
    except InputFault as fault:
        return [str(finding) for finding in fault.findings]
    (part,) = annotations.parts
    columns = part.points_xy.tobytes(), part.ring_start.tolist(), part.ring_is_hole.tolist(), part.source_id.tolist()
    return *columns, [str(finding) for finding in annotations.findings]


def as_written(_: PlainVertices, pieces: Iterator[bytes]) -> Iterator[bytes]:
    return pieces


@pytest.mark.parametrize("seeds", [range(start, start + 200) for start in range(0, 600, 200)])
@pytest.mark.parametrize(("read", "rules", "write"), [APERIO, ASAP], ids=["aperio", "asap"])
def test_every_way_to_write_a_file_is_read_as_by_expat_alone(read: Any, rules: Any, write: Any, seeds: range) -> None:
    for seed in seeds:
        data, size = write(seed), Random(seed).choice([1, 7, 64, 1 << 18])
        limits = LimitRules(vertices_per_file=20 if size > len(data) and seed % 9 == 0 else 1000)
        with mock.patch.object(PlainVertices, "shorten", as_written):
            expected = said_of(read, rules, data, limits)
        with mock.patch.multiple(streams, CHUNK_BYTES=size), mock.patch.object(xml, "HELD_BYTES", 4 * size):
            assert said_of(read, rules, data, limits) == expected, data


VERTICES = '<Vertex X="1" Y="2"/><Vertex X="9" Y="2"/><Vertex X="9" Y="8"/><Vertex X="1" Y="8"/>'


@pytest.mark.parametrize(
    "body",
    [VERTICES, VERTICES + '<Vertex X="1" Y="2|3" Y="4"/>', VERTICES + '<Vertex X="1" Y="2;3" Y="4"/>',
     VERTICES + '<Vertex X="1,2;3" Y="4"/>', VERTICES + "<Vertices></Vertices>", VERTICES + '<Vertex taken-out="0"/>',
     VERTICES + '<Vertex X="1" Y="2e9"/>', f"<!-- {VERTICES} -->", f"<a><Vertices>{VERTICES}</Vertices></a>"],
)  # fmt: skip
def test_what_looks_plain_and_is_not_is_read_as_by_expat_alone(body: str) -> None:
    read, rules, _ = APERIO
    regions = f"<Region><Vertices>{body}</Vertices></Region><Region><Vertices>{3 * VERTICES}</Vertices></Region>"
    data = f'<Annotations><Annotation Name="a"><Regions>{regions}</Regions></Annotation></Annotations>'.encode()
    with mock.patch.object(PlainVertices, "shorten", as_written):
        expected = said_of(read, rules, data, LimitRules())
    assert said_of(read, rules, data, LimitRules()) == expected


@pytest.mark.parametrize(
    "dialect, write",
    [(("Vertices", "Vertex", ("X", "Y")), aperio), (("Coordinates", "Coordinate", ("Order", "X", "Y")), asap)],
)
def test_all_vertices_of_plain_files_are_taken_out(dialect: tuple[str, str, tuple[str, ...]], write: Any) -> None:
    files = 0
    for seed in range(300):
        data, plain = write(seed), PlainVertices(*dialect)
        vertices, holders = data.count(b' X="'), data.count(b"<%b>" % dialect[0].encode())
        if vertices >= VERTICES_OF_A_HOLDER * holders > 0 and not Writer(seed, *dialect[1:]).oddity:
            for piece in plain.shorten(iter([data])):
                assert b' X="' not in piece
                vertices -= sum(map(len, plain.taken.values()))
            assert vertices == 0
            files += 1
    assert files > 50


def test_a_text_that_comes_byte_by_byte_is_looked_at_in_large_pieces() -> None:
    text = b"<Annotations><Vertices>" + b'<Vertex X="1" Y="2"/>' * 40_000
    pieces = list(PlainVertices("Vertices", "Vertex", ("X", "Y")).shorten(bytes([byte]) for byte in text))
    assert b"".join(pieces) == text
    assert len(pieces) < 8


def test_numbers_are_those_of_float() -> None:
    random = np.random.default_rng(3)
    values = [repr(value) for value in random.normal(0, 10.0 ** random.integers(-8, 8, 4000)).tolist()]
    pairs = list(zip(values[::2], values[1::2], strict=True))
    body = "".join(f'<Vertex X="{x}" Y="{y}" Z="0" />' for x, y in pairs).encode()
    (found,) = PlainVertices("Vertices", "Vertex", ("X", "Y")).parse([body]) or []
    assert found.tolist() == [[float(x), float(y)] for x, y in pairs]
