"""JSON from strangers: its size and depth are known before it is parsed, and it is strict.

The parser is orjson: NaN, Infinity, numbers beyond float64 and half surrogates are refused as the standard says; of a
key that occurs twice in an object the last one counts (a second list of records is refused, if the first one is long).
orjson takes up to forty times the memory of the text, does not survive when there is none left, and the garbage
collector would look at all objects again and again. So what is parsed at once is bounded, the collector rests
meanwhile, and long lists of records are parsed in pieces of a megabyte, each of which may be forgotten before the next
one is made.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.challenge import LimitRules
from evaluation.errors import InputFault
from evaluation.findings import Finding, quote
from evaluation.formats.bounded_xml import plain_chunks
from evaluation.model import Int64

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PIECE_BYTES = 1 << 20
PART_BYTES = 1 << 25  # of what is parsed at once: up to 1.3 GB of Python objects
SCAN_BYTES = 1 << 22
KEY_BYTES = 200  # from a key to its value, with the blanks between them
QUOTATION_MARK, OPENING_BRACKET = b'"['
IS_MARK = np.zeros(256, np.bool_)
IS_MARK[list(b'[]{}"')] = True
STEP = np.zeros(256, np.int8)
STEP[list(b"[{")], STEP[list(b"]}")] = 1, -1


@dataclass(frozen=True, slots=True)
class Records:
    """A JSON file that holds a list of records.

    root    the value of the file; a list of records is empty in it
    pieces  the items of the list, some at a time, to be gone through once; None if the file has no such list
    """

    root: Any
    pieces: Iterator[list[Any]] | None


def read_json(stream: BinaryIO, *, where: str, limits: LimitRules) -> Any:
    """The value of a JSON file in UTF-8, compressed with gzip or not.

    Raises InputFault: too-large (also for any file above 32 MiB), too-deep, not-json.

    >>> import io
    >>> read_json(io.BytesIO(b'{"a": [1, 2.5]}'), where="'a.json'", limits=LimitRules())
    {'a': [1, 2.5]}
    """
    data = read_text(stream, where, limits)
    check_depth(max((int(depth.max()) for _, depth in find_brackets(data)), default=0), where, limits)
    return parse(data, data, 0, where)


# A text without end is taken as a whole, too: to try again at each mark in it would take quadratic time.
NOT_NUMBERS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|-?(?:NaN|Infinity)\b', re.DOTALL)


def null_for_number(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"null"


def read_records(stream: BinaryIO, *, key: str, where: str, limits: LimitRules, nan_is_null: bool = False) -> Records:
    """The value of a JSON file that is a list of records, or an object with such a list under ``key``.

    nan_is_null   read NaN, Infinity and -Infinity, which are not JSON, as null: QuPath writes them as measurements

    Besides the text, it needs memory only for the records of one piece. Raises InputFault as ``read_json`` does, also
    while the pieces are gone through; the 32 MiB hold for each record and for all that is not in the list.

    >>> import io
    >>> file = io.BytesIO(b'{"kind": "b", "nuclei": [{"x": 1}, {"x": 2}]}')
    >>> records = read_records(file, key="nuclei", where="'a.json'", limits=LimitRules())
    >>> records.root, [record["x"] for piece in records.pieces for record in piece]
    ({'kind': 'b', 'nuclei': []}, [1, 2])
    """
    data = read_text(stream, where, limits)
    if nan_is_null and (b"NaN" in data or b"Infinity" in data):
        data = bytearray(NOT_NUMBERS.sub(null_for_number, data))
    begin, *ends = find_cuts(data, key, where, limits)
    if ends:  # a 0 stands for what is cut out, so that a comma too many or too few is still noticed
        root = parse(data[:begin] + b"0" + data[ends[-1] :], data, 0, where, ends[-1])
    else:
        root = parse(data, data, 0, where)
    found = root.get(key) if isinstance(root, dict) else root
    if ends and not (isinstance(found, list) and found[:1] == [0]):
        fix = "Write one list of all nuclei."
        raise InputFault(Finding("not-json", where, f"the key {quote(key)} twice", "every key once", fix))
    if not isinstance(found, list):
        return Records(root, None)
    last = found[1:] if ends else found[:]
    found.clear()

    def pieces() -> Iterator[list[Any]]:
        for start, stop in zip([begin, *ends], ends, strict=False):
            opening = b"[" if start == begin else b"[0"
            piece = parse(opening + data[start:stop] + b"]", data, start - len(opening), where)
            yield piece if start == begin else piece[1:]
        yield last

    return Records(root, pieces())


def read_text(stream: BinaryIO, where: str, limits: LimitRules) -> bytearray:
    """The bytes of a file, decompressed if need be, without a byte order mark. Raises InputFault: too-large."""
    data = bytearray()
    for chunk in plain_chunks(stream, where, limits.bytes_per_file):
        data += chunk
    if data.startswith(BYTE_ORDER_MARK):
        del data[: len(BYTE_ORDER_MARK)]
    return data


def find_brackets(data: bytearray) -> Iterator[tuple[Int64, Int64]]:
    """Where the brackets and braces outside of strings are, and how deep one is behind each of them, block by block."""
    plain = data
    if b"\\" in data:
        plain = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    depth, inside = 0, False
    for begin in range(0, len(plain), SCAN_BYTES):
        block = np.frombuffer(plain, np.uint8, min(SCAN_BYTES, len(plain) - begin), begin)
        place = np.flatnonzero(IS_MARK[block])
        mark = block[place]
        is_quote = mark == QUOTATION_MARK
        quoted = np.logical_xor.accumulate(is_quote) ^ inside
        inside = bool(quoted[-1]) if len(quoted) else inside
        outside = ~(is_quote | quoted)
        place, mark = place[outside], mark[outside]
        if len(place):
            after = np.cumsum(STEP[mark], dtype=np.int64) + depth
            depth = int(after[-1])
            yield place + begin, after


def find_cuts(data: bytearray, key: str, where: str, limits: LimitRules) -> list[int]:
    """Where the list of records begins, and the ends of items in it that lie a piece apart.

    Only one number, without meaning, if the file has one piece or no such list. In a file that is not JSON the cuts may
    lie anywhere; its parts are not JSON either. Raises InputFault: too-deep.
    """
    begin, item_depth, is_open = 0, 0, True
    ends: list[int] = []
    deepest = 0
    for place, depth in find_brackets(data):
        deepest = max(deepest, int(depth.max()))
        if not is_open or len(data) <= PIECE_BYTES:
            continue
        if not item_depth:
            begin, item_depth = find_list(data, place, depth, key.encode())
        if item_depth:
            inner = place >= begin
            place, depth = place[inner], depth[inner]
            closing = np.flatnonzero(depth < item_depth)
            is_open = not len(closing)
            stop = len(place) if is_open else closing[0]
            behind = place[:stop][depth[:stop] == item_depth] + 1
            while (index := int(np.searchsorted(behind, (ends or [begin])[-1] + PIECE_BYTES))) < len(behind):
                ends.append(int(behind[index]))
    check_depth(deepest, where, limits)
    return [begin, *ends]


def find_list(data: bytearray, place: Int64, depth: Int64, key: bytes) -> tuple[int, int]:
    """Where the items of the list of records begin, and how deep they lie; 0, 0 if it does not open here."""
    if place[0] < PART_BYTES and data[place[0]] == OPENING_BRACKET and not data[: place[0]].strip():
        return int(place[0]) + 1, 1
    before = re.compile(rb'(?<!\\)"' + re.escape(key) + rb'"\s*:\s*\Z')
    for index in np.flatnonzero((depth == 2) & (place < PART_BYTES)):
        opening = int(place[index])
        if data[opening] == OPENING_BRACKET and before.search(data, max(0, opening - KEY_BYTES), opening):
            return opening + 1, 2
    return 0, 0


def parse(text: bytes | bytearray, data: bytearray, offset: int, where: str, resume: int | None = None) -> Any:
    """The value of a text of JSON. Raises InputFault: not-json, too-large.

    data    the file, for the place in messages, and where the text begins in it
    resume  where the file goes on behind what is cut out of the text
    """
    if len(text) > PART_BYTES:
        got = f"{len(text):,} bytes that are no list of annotations, or are a single one"
        fix = "Write each nucleus as an annotation of its own, in one list, and nothing else that is long."
        raise InputFault(Finding("too-large", where, got, f"at most {PART_BYTES:,} bytes", fix))
    try:
        with resting_collector():
            return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        place = error.pos + offset
        if resume is not None and error.pos > len(text) - (len(data) - resume):
            place = error.pos - len(text) + len(data)
        line, column = data.count(b"\n", 0, place) + 1, place - data.rfind(b"\n", 0, max(place, 0))
        got = f"{error.msg} (line {line:,}, column {column:,})" if data.strip() else "an empty file"
        fix = "Write it with a JSON library; NaN and Infinity are not JSON."
        raise InputFault(Finding("not-json", where, got, "well-formed JSON in UTF-8", fix)) from None


@contextmanager
def resting_collector() -> Iterator[None]:
    """Without the garbage collector, which finds nothing in what a parser makes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check_depth(depth: int, where: str, limits: LimitRules) -> None:
    if depth > limits.json_depth:
        expected = f"at most {limits.json_depth} (limits.json_depth in challenge.toml)"
        got = f"arrays and objects nested {depth:,} deep"
        raise InputFault(Finding("too-deep", where, got, expected, "Write the plain structure of the format."))
