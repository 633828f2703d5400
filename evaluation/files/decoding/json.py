"""JSON from strangers: strict, and bounded in size and depth.

The parser is orjson: NaN, Infinity, numbers beyond float64 and half surrogates are refused according to the
standard, and so is a key that an object has twice. orjson takes up to forty times the memory of the text, does
not survive when there is none left, and the garbage collector would look at all objects again and again. So what
is parsed at once is bounded, and the collector rests meanwhile. A long list of records is split by msgspec into the
texts of its records, and decoded in batches; each may be forgotten before the next one is made.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, pairwise
from operator import add
from typing import Any, BinaryIO

import msgspec
import numpy as np
import orjson

from evaluation.challenge import LimitRules
from evaluation.files.decoding.streams import BYTE_ORDER_MARK, SPLIT, plain_chunks
from evaluation.findings.errors import refused
from nuclei_metrics.model import Int64

BATCH_BYTES = 1 << 17  # of records: so little stays in the cache of a core
PART_BYTES = 1 << 25  # of what is parsed at once: up to 1.3 GB of Python objects
MOST_RECORDS = 8_000_000  # of a longer text; a record takes 100 bytes beside its text
QUOTATION_MARK = ord('"')
NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
STEP = np.full(256, -1, np.int8)
STEP[list(b"[{")] = 1


@dataclass(frozen=True, slots=True)
class Records:
    """A JSON file that contains a list of records.

    root    the value of the file; a list of records is empty in it
    pieces  the items of the list, some at a time, to be gone through once; None if the file has no such list
    """

    root: Any
    pieces: Iterator[list[Any]] | None


def read_json(stream: BinaryIO, *, where: str, limits: LimitRules) -> Any:
    """Read the value of a JSON file in UTF-8, compressed with gzip or not.

    Raises InputFault: too-large (also for any file above 32 MiB), too-deep, not-json, duplicate-key.

    >>> import io
    >>> read_json(io.BytesIO(b'{"a": [1, 2.5]}'), where="'a.json'", limits=LimitRules())
    {'a': [1, 2.5]}
    """
    text = JsonText(stream, where, limits)
    return text.parse(text.text)


def read_records(stream: BinaryIO, *, key: str, where: str, limits: LimitRules, nan_is_null: bool = False) -> Records:
    """Read the value of a JSON file that is a list of records, or an object with such a list under ``key``.

    Raises InputFault as ``read_json`` does, also while the pieces are gone through; the 32 MiB apply to each record and
    for all that is not in the list.

    >>> import io
    >>> file = io.BytesIO(b'{"kind": "b", "nuclei": [{"x": 1}, {"x": 2}]}')
    >>> records = read_records(file, key="nuclei", where="'a.json'", limits=LimitRules())
    >>> records.root, [record["x"] for piece in records.pieces for record in piece]
    ({'kind': 'b', 'nuclei': []}, [1, 2])
    """
    return JsonText(stream, where, limits, nan_is_null=nan_is_null).find_records(key)


# What is before a word, and the word. All of it is consumed: to try again at each mark would take quadratic time.
NOT_NUMBERS = re.compile(rb'((?:[^"NI]++|"(?:[^"\\]++|\\.)*+"?)*+)(NaN\b|Infinity\b|[NI]|\Z)', re.DOTALL)


def _as_json(match: re.Match[bytes]) -> bytes:
    """Replace NaN and Infinity: by null as values of keys, by their words as items of lists, so that faults name them.

    >>> NOT_NUMBERS.sub(_as_json, b'{"NaN": NaN, "at": [NaN, -Infinity, 1]}')
    b'{"NaN": null, "at": ["NaN", "-Infinity", 1]}'
    """
    if len(match[2]) <= 1:
        return match[0]
    before = match[1].removesuffix(b"-")
    return before + (b"null" if before.rstrip().endswith(b":") else b'"%b"' % match[0][len(before) :])


@cache
def _splitter(key: str, records: Any = list[msgspec.Raw]) -> msgspec.json.Decoder[Any]:
    """Create a decoder of a list, or of an object with a list under a key, that leaves the items as texts."""
    collection = msgspec.defstruct("Collection", [("records", records)], rename={"records": key})
    return msgspec.json.Decoder(collection | records)


class JsonText:
    """The text of a JSON file, decompressed, without a byte order mark. Raises InputFault: too-large, unreadable-file.

    nan_is_null   NaN, Infinity and -Infinity, which are not JSON, become null: QuPath writes them as measurements
    """

    def __init__(self, stream: BinaryIO, where: str, limits: LimitRules, *, nan_is_null: bool = False) -> None:
        text = bytearray()
        for chunk in plain_chunks(stream, where, limits.bytes_per_file):
            text += chunk
        if text.startswith(BYTE_ORDER_MARK):
            del text[: len(BYTE_ORDER_MARK)]
        has_words = nan_is_null and (b"NaN" in text or b"Infinity" in text)
        self.text: bytes | bytearray = NOT_NUMBERS.sub(_as_json, text) if has_words else text
        self.where, self.limits = where, limits

    def find_records(self, key: str, decode: Callable[[bytes], Any] | None = None) -> Records:
        """Find the list of records that is the value of the file, or is under a key.

        decode  decodes a list of records; None if it cannot, or if they are too deep or have a key twice

        Raises InputFault: too-large, too-deep, not-json, duplicate-key; also while the pieces are gone through.
        """
        text, records = self.text, list[msgspec.Raw]()
        try:
            if len(text) > PART_BYTES:
                self._count_records(key)
            root = _splitter(key).decode(text)
            records = root if type(root) is list else root.records
        except RecursionError:
            raise refused("too-deep", self.where, limit=self.limits.json_depth) from None
        except msgspec.DecodeError as error:
            if len(text) > PART_BYTES and type(error) is msgspec.DecodeError:
                raise refused("not-json", self.where, got=str(error)) from None
        if not records:
            return _split_value(self.parse(text), key)
        begin, end = self._span(records[0], records[-1])
        root = self.parse(text[:begin] + text[end:], lambda at: at if at < begin else at + end - begin)
        sizes = np.cumsum([memoryview(record).nbytes for record in records])
        cuts = (np.flatnonzero(np.diff(sizes // BATCH_BYTES)) + 1).tolist()

        def pieces() -> Iterator[list[Any]]:
            for first, stop in pairwise([0, *cuts, len(records)]):
                begin, end = self._span(records[first], records[stop - 1])
                batch = b"[" + text[begin:end] + b"]"
                items = decode(batch) if decode and len(batch) <= PART_BYTES else None
                depth = int(type(root) is dict)
                yield self.parse(batch, partial(add, begin - 1), depth) if items is None else items

        return Records(root, pieces())

    def _count_records(self, key: str) -> None:
        """Refuse too many records before they are split, and, as msgspec does, records that are not objects."""
        numbers = count(1)

        def check_number(_: object) -> None:
            if next(numbers) > MOST_RECORDS:
                got, expected = f"more than {MOST_RECORDS:,} annotations", f"at most {MOST_RECORDS:,}"
                raise refused("too-large", self.where, got=got, expected=expected, fix=SPLIT)

        record = msgspec.defstruct("Record", [], frozen=True, namespace={"__post_init__": check_number})
        _splitter.__wrapped__(key, set[record]).decode(self.text)  # type: ignore[valid-type]  # of a set one stays

    def _span(self, first: msgspec.Raw, last: msgspec.Raw) -> tuple[int, int]:
        """Return where records begin and end in the text, of which they are parts."""
        start = _address(self.text)
        return _address(first) - start, _address(last) - start + len(memoryview(last))

    def parse(
        self, part: bytes | bytearray, place: Callable[[int], int] = lambda position: position, depth: int = 0
    ) -> Any:
        """Parse a part of the text. Raises InputFault: not-json, too-large, too-deep, duplicate-key.

        place   gives the position in the text of a position in the part, for messages
        depth   of brackets around the part
        """
        if len(part) > PART_BYTES:
            raise refused("too-large", self.where, wording="too-long-part", size=len(part), limit=PART_BYTES)
        if depth + _depth_of(part) > self.limits.json_depth:
            raise refused("too-deep", self.where, limit=self.limits.json_depth)
        try:
            with resting_collector():
                value = orjson.loads(part)
        except orjson.JSONDecodeError as error:
            why, position = error.msg, error.pos
            try:
                part.decode()
            except UnicodeDecodeError as not_utf_8:
                why, position = "bytes that are not UTF-8", not_utf_8.start
            line, column = _line_and_column(self.text, place(position))
            why = f"{why} (line {line:,}, column {column:,})" if part.strip() else "an empty file"
            raise refused("not-json", self.where, got=why) from None
        check_keys(part, self.where)
        return value


def _split_value(value: Any, key: str) -> Records:
    """Take the list of records out of the value of a file."""
    records = value.get(key) if type(value) is dict else value
    if type(records) is not list:
        return Records(value, None)
    pieces = iter([records[:]])
    records.clear()
    return Records(value, pieces)


def _address(data: Any) -> int:
    """Return the address of the first byte of a buffer."""
    return np.frombuffer(data, np.uint8).ctypes.data


def _line_and_column(text: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return the line and the column of a position in a text, both counted from 1."""
    return text.count(b"\n", 0, position) + 1, position - text.rfind(b"\n", 0, max(position, 0))


@contextmanager
def resting_collector() -> Iterator[None]:
    """Pause the garbage collector, which finds no garbage in the values of a parser."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _depth_of(text: bytes | bytearray) -> int:
    """Return how deep brackets outside of strings are nested.

    >>> _depth_of(b'{"[[[": [{"\\\\\\"[": 1}]}')
    3
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = re.sub(rb'"[^"]*"?', b"", text.translate(None, NO_BRACKETS).replace(b'""', b""))
    return int(np.cumsum(STEP[np.frombuffer(brackets, np.uint8)], dtype=np.int64).max(initial=0))


def check_keys(text: bytes | bytearray, where: str) -> None:
    """Refuse an object that has a key twice, in the text of a value or of a few items of a list."""
    if (key := repeated_key(text)) is not None:
        raise refused("duplicate-key", where, key=key)


# --- Keys that an object of JSON has twice. Parsers keep the last value and do not tell. ------------------------------


OPENING, CLOSING, COLON = b"{}:"
IS_MARK_OF_KEYS = bytes(byte in b'{}":' for byte in range(256))
WORD = 8
FIRST_BYTES = np.array([(1 << 8 * length) - 1 for length in range(WORD + 1)], np.uint64)
HASH_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


def repeated_key(text: bytes | bytearray) -> str | None:
    """Find a key that occurs twice in an object of a JSON text, or of a part of it; None if there is no such key.

    >>> repeated_key(b'[{"x": 1, "y": {"x": 2}}, {"x": 3, "\\\\u0078": 4}]')
    'x'
    """
    start, stop, owner = _find_keys(text)
    compared = np.arange(len(start))
    if b"\\" not in text:  # with escapes there are several ways to write one key
        number = _number_of(text, start, stop - start) + owner.astype(np.uint64) * HASH_FACTORS[3]
        order = np.argsort(number)
        is_equal = np.diff(number[order]) == 0
        compared = np.unique(order[np.flatnonzero(is_equal)[:, None] + [0, 1]])
    names = set()
    for at in compared.tolist():
        key = text[start[at] : stop[at]]
        name = (json.loads(b'"' + key + b'"') if b"\\" in key else key.decode(), int(owner[at]))
        if name in names:
            return str(name[0])
        names.add(name)
    return None


def _find_keys(text: bytes | bytearray) -> tuple[Int64, Int64, Int64]:
    """Find where keys start and stop in a text, and a number for the object that each belongs to. Nesting: 32,767."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    data = np.frombuffer(text, np.uint8)
    position = np.flatnonzero(np.frombuffer(text.translate(IS_MARK_OF_KEYS), np.bool_)).astype(np.int32)
    mark = data[position]
    is_quote = mark == QUOTATION_MARK
    inside = np.logical_xor.accumulate(is_quote)
    kept = is_quote | ~inside
    position, mark, is_closing = position[kept], mark[kept], (is_quote & ~inside)[kept]
    is_key = is_closing.copy()
    is_key[-1:] = False
    is_key[:-1] &= mark[1:] == COLON
    is_opening = mark == OPENING
    depth = np.cumsum(is_opening.astype(np.int8) - (mark == CLOSING), dtype=np.int32)
    at = np.flatnonzero(is_opening | is_key)
    order = at[np.argsort(depth[at].astype(np.int16), kind="stable")]  # of one depth: each object, then its keys
    owner = np.cumsum(is_opening[order], dtype=np.int64)
    keys = order[is_key[order]]
    return position[keys - 1].astype(np.int64) + 1, position[keys].astype(np.int64), owner[is_key[order]]


def _number_of(text: bytes | bytearray, start: Int64, length: Int64) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Number each part of a text by its first and last eight bytes and its length; equal parts have the same number."""
    padded = np.frombuffer(bytes(WORD) + bytes(text) + bytes(WORD), np.uint8)
    words = np.ndarray(len(padded) - WORD + 1, np.dtype("<u8"), padded, strides=(1,))
    first = words[start + WORD] & FIRST_BYTES[np.minimum(length, WORD)]
    last = words[np.where(length < WORD, start + WORD, start + length)] & FIRST_BYTES[np.minimum(length, WORD)]
    number: np.ndarray[tuple[int], np.dtype[np.uint64]] = (
        first * HASH_FACTORS[0] ^ (last + length.astype(np.uint64)) * HASH_FACTORS[1]
    ) * HASH_FACTORS[2]
    return number
