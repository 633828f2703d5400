"""XML, read in pieces, and with vertices taken out before it is parsed. Expat alone and float are the oracles."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any
from unittest import mock

import formats
import numpy as np
import pytest
from formats.annotation_xml import CLASSES, aperio, layer, region, square
from hypothesis import given
from hypothesis import strategies as st

from evaluation.files.decoding import streams, xml
from evaluation.files.decoding.xml import VERTICES_OF_A_HOLDER, PlainVertices
from evaluation.files.formats import annotation_xml
from evaluation.files.formats.annotation_xml import by_order
from evaluation.findings.errors import InputFault

read = partial(formats.read_part, format="aperio_xml", classes=CLASSES)
lines_of = partial(formats.lines_of, format="aperio_xml", classes=CLASSES)

# --- size and pieces --------------------------------------------------------------------------------------------------


def test_the_limit_of_bytes_counts_after_decompression():
    text = aperio(layer(region())).encode()
    for data in (text, gzip.compress(text)):
        assert len(read(data, limits={"bytes_per_file": len(text)})) == 1
        (line,) = lines_of(data, limits={"bytes_per_file": len(text) - 1})
        assert line.startswith(f"[too-large] {'more than' if len(data) < len(text) else 'a file of'}")


def test_a_gzip_bomb_is_refused_before_it_expands(monkeypatch):
    produced = []
    chunks = streams.unbounded_chunks

    def watched(stream, where):
        for chunk in chunks(stream, where):
            produced.append(len(chunk))
            yield chunk

    monkeypatch.setattr(streams, "unbounded_chunks", watched)
    bomb = gzip.compress(b"<Annotations>" + b" " * 50_000_000)
    assert "more than 1,000,000 bytes after decompression" in lines_of(bomb, limits={"bytes_per_file": 10**6})[0]
    assert sum(produced) < 2 * 10**6
    produced.clear()
    limit = 100 * len(bomb)
    assert 1 << 22 < limit < 20 * 10**6
    assert f"more than {limit:,} bytes after decompression" in lines_of(bomb, limits={"bytes_per_file": 10**9})[0]
    assert sum(produced) < limit + 10**6


def test_pieces_of_the_file_do_not_change_what_is_read_or_where_a_fault_is(monkeypatch):
    text = aperio(layer(region(), region(id="2")), layer(region(), cls="Lymphocyte", id="2"))
    for data in (text.encode(), gzip.compress(text.encode()), text.encode("utf-16")):
        monkeypatch.setattr(xml, "CHUNK_BYTES", 1 << 18)
        whole = read(data)
        monkeypatch.setattr(xml, "CHUNK_BYTES", 16 * 7)
        parts = read(data)
        assert parts.points_xy.tolist() == whole.points_xy.tolist()
        assert parts.source_id.tolist() == whole.source_id.tolist() == ["1/1", "1/2", "2/1"]
    bad = aperio(layer(region(), region(id="2")), layer(region((1, 2), (3, "x"), (5, 6), id="4"), id="3"))
    assert lines_of(bad)[0].startswith("[invalid-coordinate] region '3/4', vertex 2: Y is 'x';")


def test_texts_become_the_numbers_that_float_makes_of_them():
    def expected(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return np.nan

    rng = np.random.default_rng(0)
    texts = [repr(float(value)) for value in rng.integers(0, 2**63, 2000).view(np.float64) if np.isfinite(value)]
    texts += [f"{value:.{digits}f}" for value in rng.uniform(-3e4, 3e4, 50) for digits in range(30)]
    texts += ["-0", "-0.0", "0", "1e22", "9007199254740993", "123456789012345678901234567890", "5e-324", "1e-400"]
    alone = [[text] for text in (*texts, "", " ")]  # a text that is no JSON sends all others another way
    others = [["", "1"], ["1", ""], ["1 2"], ["+1", ".5"], [], ["1e400", "1"]]
    for some in (texts, ["1.5", "-2e3"], *alone, *others):
        assert np.array_equal(xml.numbers_of(some), np.array([expected(text) for text in some]), equal_nan=True)
    texts = [text for text in texts if 1e-9 < abs(float(text)) < 1e9]  # of places in an image
    body = "".join(f'<Vertex X="{text}" Y="{text}" Z="0" />' for text in texts)
    (found,) = PlainVertices("Vertices", "Vertex", ("X", "Y")).parse([body.encode()]) or []
    assert found.tolist() == [[float(text)] * 2 for text in texts]


def test_holes_are_looked_up_piece_by_piece_and_too_many_pairs_are_refused(monkeypatch):
    row = [region(*square(30 * index, 0, 20)) for index in range(4)]
    holes = [region(*square(30 * index + 5, 5, 2), NegativeROA="1") for index in range(1, 4)]
    twice = [region(*square(0, 0, 9))] * 2 + [region(*square(3, 2, 2), NegativeROA="1")] * 3
    monkeypatch.setattr(annotation_xml, "PAIRS_LIMIT", 4)  # pieces of one hole
    assert read(aperio(layer(*holes, *row))).ring_instance.tolist() == [0, 1, 1, 2, 2, 3, 3]
    (line,) = lines_of(aperio(layer(*twice)))
    assert line.startswith("[too-complex-outlines] 3 holes (NegativeROA), possibly in more than 4 ")


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, np.nan, np.inf]), max_size=4), max_size=5))
def test_vertices_are_ordered_as_annotation_by_annotation(orders):
    start = np.cumsum([0, *map(len, orders)])
    index = np.arange(start[-1])[by_order(np.array([o for some in orders for o in some], float), start)]
    expected = []
    for begin, some in zip(start.tolist(), orders, strict=False):
        places = range(len(some))
        if len(set(some)) == len(some) and not np.isnan(some).any():
            places = sorted(places, key=some.__getitem__)
        expected += [begin + place for place in places]
    assert index.tolist() == expected


# --- vertices that are taken out --------------------------------------------------------------------------------------

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


def random_aperio(seed: int) -> bytes:
    writer = Writer(seed, "Vertex", ("X", "Y"))
    regions = [
        f'<Region Id="{number}" NegativeROA="{int(writer.random.random() < 0.2)}">{writer.holder("Vertices")}</Region>'
        for number in range(writer.random.randrange(12))
    ]
    layer = f'<Annotation Name="a"><Regions>{"".join(regions)}</Regions></Annotation>'
    return writer.cut(writer.odd('<?xml version="1.0"?>\n', ODD_TEXTS) + f"<Annotations>{layer}</Annotations>")


def random_asap(seed: int) -> bytes:
    writer = Writer(seed, "Coordinate", ("Order", "X", "Y"))
    annotations = [
        f'<Annotation Type="Polygon" PartOfGroup="a">{writer.holder("Coordinates")}</Annotation>'
        for _ in range(writer.random.randrange(12))
    ]
    return writer.cut(f"<ASAP_Annotations><Annotations>{''.join(annotations)}</Annotations></ASAP_Annotations>")


def said_of(data: bytes, **options: Any) -> Any:
    """The outlines of a file, or what is wrong with it."""
    try:
        annotations = formats.read(data, classes={"a": 1}, **options)
    except InputFault as fault:
        return [str(finding) for finding in fault.findings]
    (part,) = annotations.parts
    columns = part.points_xy.tobytes(), part.ring_start.tolist(), part.ring_is_hole.tolist(), part.source_id.tolist()
    return *columns, [str(finding) for finding in annotations.findings]


def as_written(_: PlainVertices, pieces: Iterator[bytes]) -> Iterator[bytes]:
    return pieces


@pytest.mark.parametrize(
    ("options", "write"),
    [({"format": "aperio_xml"}, random_aperio), ({"format": "asap_xml", "shape": "outline"}, random_asap)],
    ids=["aperio", "asap"],
)
def test_every_way_to_write_a_file_is_read_as_by_expat_alone(options: Any, write: Any) -> None:
    for seed in range(400):
        data, size = write(seed), Random(seed).choice([1, 7, 64, 1 << 18])
        limits = {"vertices_per_file": 20 if size > len(data) and seed % 9 == 0 else 1000}
        with mock.patch.object(PlainVertices, "shorten", as_written):
            expected = said_of(data, limits=limits, **options)
        with mock.patch.multiple(streams, CHUNK_BYTES=size), mock.patch.object(xml, "HELD_BYTES", 4 * size):
            assert said_of(data, limits=limits, **options) == expected, data


VERTICES = '<Vertex X="1" Y="2"/><Vertex X="9" Y="2"/><Vertex X="9" Y="8"/><Vertex X="1" Y="8"/>'


@pytest.mark.parametrize(
    "body",
    [VERTICES, VERTICES + '<Vertex X="1" Y="2|3" Y="4"/>', VERTICES + '<Vertex X="1" Y="2;3" Y="4"/>',
     VERTICES + '<Vertex X="1,2;3" Y="4"/>', VERTICES + "<Vertices></Vertices>", VERTICES + '<Vertex taken-out="0"/>',
     VERTICES + '<Vertex X="1" Y="2e9"/>', f"<!-- {VERTICES} -->", f"<a><Vertices>{VERTICES}</Vertices></a>"],
)  # fmt: skip
def test_what_looks_plain_and_is_not_is_read_as_by_expat_alone(body: str) -> None:
    regions = f"<Region><Vertices>{body}</Vertices></Region><Region><Vertices>{3 * VERTICES}</Vertices></Region>"
    data = f'<Annotations><Annotation Name="a"><Regions>{regions}</Regions></Annotation></Annotations>'.encode()
    with mock.patch.object(PlainVertices, "shorten", as_written):
        expected = said_of(data, format="aperio_xml")
    assert said_of(data, format="aperio_xml") == expected


@pytest.mark.parametrize("dialect, write", [
    (("Vertices", "Vertex", ("X", "Y")), random_aperio),
    (("Coordinates", "Coordinate", ("Order", "X", "Y")), random_asap),
])  # fmt: skip
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
