"""JSON from strangers: its size and depth are known before it is parsed, and it is strict.

The parser is orjson: NaN, Infinity, numbers beyond float64 and half surrogates are refused according to the
standard, and so is a key that an object has twice. orjson takes up to forty times the memory of the text, does
not survive when there is none left, and the garbage collector would look at all objects again and again. So what
is parsed at once is bounded, and the collector rests meanwhile. A file with a long list of records is gone
through twice: first brackets are counted, to find out how deep they are and where the list may be cut; then the
list is parsed in pieces of a megabyte, each may be forgotten before the next one is made. The text as a whole is
never in memory. Where a reader may begin again, the file is gone through once: cuts are guessed, and the parser
proves them.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import orjson

from evaluation.challenge import LimitRules
from evaluation.files.decoding.streams import BYTE_ORDER_MARK, plain_chunks
from evaluation.findings.errors import refused
from nuclei_metrics.model import Int64

PIECE_BYTES = 1 << 20
GUESSED_BYTES = 1 << 18  # so little stays in the cache of a core
PART_BYTES = 1 << 25  # of what is parsed at once: up to 1.3 GB of Python objects
SCAN_BYTES = 1 << 20
KEY_BYTES = 200  # from a key to its value, with the blanks between them
QUOTATION_MARK, OPENING_BRACKET = b'"['
BEGINNING_OF_RECORD = re.compile(rb'\s*(\{\s*"[^"\\]{0,50}")')
IS_MARK = bytes(byte in b'[]{}"' for byte in range(256))  # bytes.translate is twice as fast as an array of NumPy
STEP = np.zeros(256, np.int8)
STEP[list(b"[{")], STEP[list(b"]}")] = 1, -1


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
    data = read_whole_text(stream, where, limits)
    return parse(data, where, lambda position: _line_and_column(data, position))


# A text without end is taken as a whole, too: to try again at each mark in it would take quadratic time.
NOT_NUMBERS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|(:?\s*)(-?(?:NaN|Infinity)\b)', re.DOTALL)


def _as_json(match: re.Match[bytes]) -> bytes:
    """Write null for the value of a key that is not JSON, and its word for an item of a list, so that a fault names it.

    >>> NOT_NUMBERS.sub(_as_json, b'{"NaN": NaN, "at": [NaN, -Infinity, 1]}')
    b'{"NaN": null, "at": ["NaN", "-Infinity", 1]}'
    """
    before, word = match[1], match[2]
    if word is None:
        return match[0]
    return before + (b"null" if before.startswith(b":") else b'"%b"' % word)


def read_records(stream: BinaryIO, *, key: str, where: str, limits: LimitRules, nan_is_null: bool = False) -> Records:
    """Read the value of a JSON file that is a list of records, or an object with such a list under ``key``.

    nan_is_null   read NaN, Infinity and -Infinity, which are not JSON, as null: QuPath writes them as measurements

    It needs memory only for the records of one piece, and for all that is not in the list; the file must stay open, and
    nothing else may read it, while the pieces are gone through. Raises InputFault as ``read_json`` does, also
    meanwhile; the 32 MiB apply to each record and for all that is not in the list.

    >>> import io
    >>> file = io.BytesIO(b'{"kind": "b", "nuclei": [{"x": 1}, {"x": 2}]}')
    >>> records = read_records(file, key="nuclei", where="'a.json'", limits=LimitRules())
    >>> records.root, [record["x"] for piece in records.pieces for record in piece]
    ({'kind': 'b', 'nuclei': []}, [1, 2])
    """
    text = RecordText(stream, where, limits, nan_is_null=nan_is_null)
    cuts = find_cuts(text.chunks(), key, where, limits)
    root = text.parse_around(cuts) if cuts.ends else text.parse(cuts.behind, 0, size=cuts.size)
    value = root.get(key) if isinstance(root, dict) else root
    if cuts.ends and not (isinstance(value, list) and value[:1] == [0]):
        raise refused("duplicate-key", where, key=key)
    if not isinstance(value, list):
        return Records(root, None)
    last = value[1:] if cuts.ends else value[:]
    value.clear()

    def pieces() -> Iterator[list[Any]]:
        opening = b"["
        for start, piece in text.slices([len(cuts.head), *cuts.ends]):
            yield text.parse(piece, start, opening=opening, closing=b"]")[len(opening) - 1 :]
            opening = b"[0"
        yield last

    return Records(root, pieces())


class Unproven(Exception):
    """A file may have its records elsewhere than they were looked for, or it is not JSON."""


class RecordText:
    """The text of a file, which is read from its start as often as need be, and what is parsed of it."""

    def __init__(self, stream: BinaryIO, where: str, limits: LimitRules, *, nan_is_null: bool) -> None:
        self.stream = stream
        self.where = where
        self.limits = limits
        self.nan_is_null = nan_is_null

    def chunks(self) -> Iterator[bytes]:
        """Decompressed if need be, without a byte order mark. Raises InputFault: too-large, unreadable-file."""
        start = b""
        chunks = plain_chunks(self.stream, self.where, self.limits.bytes_per_file)
        for chunk in chunks:
            start += chunk
            if len(start) >= len(BYTE_ORDER_MARK):
                break
        yield start.removeprefix(BYTE_ORDER_MARK)
        yield from chunks

    def slices(self, bounds: list[int]) -> Iterator[tuple[int, bytearray]]:
        """Return each bound, and the text from there to the next one."""
        text, begin = bytearray(), 0
        chunks = self.chunks()
        for start, stop in pairwise(bounds):
            while begin + len(text) < stop:
                try:
                    text += next(chunks)
                except StopIteration:
                    raise refused("unreadable-file", self.where, wording="changing") from None
            yield start, text[start - begin : stop - begin]
            del text[: stop - begin]
            begin = stop

    def guessed_pieces(self, key: str) -> Iterator[bytes]:
        """Yield the texts between the brackets of the list of records under ``key``, cut behind records, read only
        once.

        Where the list and its records begin and end is a guess. If all pieces are JSON when brackets are put around
        them, the guess was right and so is the file: what is around them is parsed here. Raises Unproven and
        InputFault; both mean that the file has to be read in another way, which shows the fault.
        """
        chunks, text = self.chunks(), bytearray()
        while len(text) < GUESSED_BYTES and (chunk := next(chunks, b"")):
            text += chunk
        opening = re.match(rb"\s*\[", text) or re.search(b'"' + re.escape(key.encode()) + rb'"\s*:\s*\[', text)
        record = opening and BEGINNING_OF_RECORD.match(text, opening.end())
        if opening is None or record is None:
            raise Unproven
        head = text[: opening.end()]
        between = re.compile(rb"\}\s*,\s*(?=" + re.escape(record[1]) + b")")
        del text[: len(head)]
        begin, least = 0, GUESSED_BYTES - 1
        while True:
            if (cut := between.search(text, least)) is not None:
                end = cut.start() + 1
                yield bytes(memoryview(text)[begin:end])
                del text[:end]
                begin, least = cut.end() - end, GUESSED_BYTES - 1
            elif chunk := next(chunks, b""):
                least = max(least, len(text) - KEY_BYTES)
                text += chunk
                _check_part(len(text), self.where)
            else:
                break
        stop = text.rfind(b"]")
        yield bytes(text[begin : max(stop, begin)])
        around = head + b"0" + text[stop:]
        _check_nesting(around, 0, self.where, self.limits)
        root = self.parse(around, 0)
        if (root.get(key) if isinstance(root, dict) else root) != [0]:
            raise Unproven

    def parse_piece(self, text: bytes) -> list[Any]:
        """Return the records in the text of a guessed piece. Raises InputFault."""
        _check_nesting(text, 2, self.where, self.limits)
        return list(self.parse(text, 0, opening=b"[", closing=b"]"))

    def parse(
        self,
        text: bytes | bytearray,
        start: int,
        *,
        opening: bytes = b"",
        closing: bytes = b"",
        size: int | None = None,
    ) -> Any:
        """The value of what begins at ``start`` in the file, put between ``opening`` and ``closing``.

        size   its length, if ``text`` is only the beginning of something long
        """
        _check_part(len(text) if size is None else size, self.where)
        text = self.without_nan(text)
        return parse(
            opening + text + closing, self.where, lambda position: self.locate(text, position - len(opening), start)
        )

    def parse_around(self, cuts: _Cuts) -> Any:
        """Return the value of the file with a 0 instead of the records between the first cut and the last.

        So a comma too many or too few is still noticed.
        """
        _check_part(len(cuts.head) + cuts.behind_size, self.where)
        head, behind = self.without_nan(cuts.head) + b"0", self.without_nan(cuts.behind)

        def locate(position: int) -> tuple[int, int]:
            if position <= len(head):
                return self.locate(head, position, 0)
            return self.locate(behind, position - len(head), cuts.ends[-1])

        return parse(head + behind, self.where, locate)

    def without_nan(self, text: bytes | bytearray) -> bytes | bytearray:
        if self.nan_is_null and (b"NaN" in text or b"Infinity" in text):
            return NOT_NUMBERS.sub(_as_json, text)
        return text

    def locate(self, text: bytes | bytearray, position: int, start: int) -> tuple[int, int]:
        """Return line and column in the file of a position in a text that begins at ``start`` there."""
        line, column = _line_and_column(text, position)
        lines, remaining, since = 0, start, 0
        for chunk in self.chunks():
            before = chunk[:remaining]
            lines += before.count(b"\n")
            since = len(before) - 1 - before.rfind(b"\n") if b"\n" in before else since + len(before)
            remaining -= len(before)
            if not remaining:
                break
        return lines + line, column + (since if line == 1 else 0)


def read_whole_text(stream: BinaryIO, where: str, limits: LimitRules) -> bytearray:
    """Read the text of a file, decompressed, without a byte order mark. Raises InputFault: too-large, too-deep."""
    data = bytearray()
    scan = _BracketScan()
    for block in _blocks_of(RecordText(stream, where, limits, nan_is_null=False).chunks()):
        _check_depth(scan.find(block)[1], where, limits)
        data += block
    return data


# --- where brackets are -----------------------------------------------------------------------------------------------


class _BracketScan:
    """Finds the brackets and braces outside of strings in a text that comes block by block."""

    def __init__(self) -> None:
        self.scanned = 0
        self.depth = 0
        self.inside = False  # a string
        self.held = b""  # a backslash whose other half comes with the next block

    def find(self, block: bytes) -> tuple[Int64, Int64]:
        """Find the brackets of the next block: their positions in the text, and how many are open after each."""
        if self.held or b"\\" in block:
            block = self.held + block
            self.held = b"\\" * ((len(block) - len(block.rstrip(b"\\"))) % 2)
            block = block[: len(block) - len(self.held)].replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        data = np.frombuffer(block, np.uint8)
        position = np.flatnonzero(np.frombuffer(block.translate(IS_MARK), np.bool_))
        mark = data[position]
        is_quote = mark == QUOTATION_MARK
        quoted = np.logical_xor.accumulate(is_quote) ^ self.inside
        self.inside = bool(quoted[-1]) if len(quoted) else self.inside
        outside = ~(is_quote | quoted)
        position, mark = position[outside] + self.scanned, mark[outside]
        depth = np.cumsum(STEP[mark], dtype=np.int64) + self.depth
        self.depth = int(depth[-1]) if len(depth) else self.depth
        self.scanned += len(block)
        return position, depth


def _blocks_of(chunks: Iterable[bytes | bytearray]) -> Iterator[bytes]:
    """Yield the same bytes, a bounded number at a time."""
    for chunk in chunks:
        for begin in range(0, max(len(chunk), 1), SCAN_BYTES):
            yield bytes(chunk[begin : begin + SCAN_BYTES])


@dataclass
class _Cuts:
    """Where a file with a list of records may be cut, and what of it is outside the pieces.

    head       what comes before the first record; empty if there are no pieces
    ends       the ends of records that are a piece apart; none if the file has one piece, or no such list
    behind     what follows the last of them; the whole file if missing. No more than ``PART_BYTES``
    behind_size, size   bytes of that, and of the file
    """

    head: bytearray
    ends: list[int]
    behind: bytearray
    behind_size: int
    size: int


def find_cuts(chunks: Iterator[bytes], key: str, where: str, limits: LimitRules) -> _Cuts:
    """Return where the list of records begins, and if it may be cut. Raises InputFault ("too-deep") as soon as it is
    known.

    In a file that is not JSON the cuts may be anywhere; its parts are not JSON either.
    """
    scan = _BracketScan()
    cuts = _Cuts(bytearray(), [], bytearray(), 0, 0)
    begin, item_depth, is_open = 0, 0, True
    for block in _blocks_of(chunks):
        cuts.size += len(block)
        cuts.behind_size += len(block)
        cuts.behind += block[: max(0, PART_BYTES + 1 - len(cuts.behind))]
        position, depth = scan.find(block)
        _check_depth(depth, where, limits)
        if is_open and not item_depth and len(position):
            begin, item_depth = _find_records(cuts.behind, position, depth, key.encode())
        if not (is_open and item_depth):
            continue
        inner = position >= begin
        position, depth = position[inner], depth[inner]
        closing = np.flatnonzero(depth < item_depth)
        is_open = not len(closing)
        stop = len(position) if is_open else closing[0]
        behind = position[:stop][depth[:stop] == item_depth] + 1
        last = cuts.ends[-1] if cuts.ends else begin
        while (index := int(np.searchsorted(behind, last + PIECE_BYTES))) < len(behind):
            last = int(behind[index])
            cuts.head = cuts.head if cuts.ends else cuts.behind[:begin]
            cuts.ends.append(last)
        if cuts.ends and cuts.size - last < cuts.behind_size:
            cuts.behind_size = cuts.size - last
            cuts.behind = bytearray(block[len(block) - cuts.behind_size :])
    return cuts


def _find_records(text: bytearray, position: Int64, depth: Int64, key: bytes) -> tuple[int, int]:
    """Return where the items of the list of records begin, and how deep they are; 0, 0 if it does not open here."""
    if position[0] < PART_BYTES and text[position[0]] == OPENING_BRACKET and not text[: position[0]].strip():
        return int(position[0]) + 1, 1
    before = re.compile(rb'(?<!\\)"' + re.escape(key) + rb'"\s*:\s*\Z')
    for index in np.flatnonzero((depth == 2) & (position < PART_BYTES)):
        opening = int(position[index])
        if text[opening] == OPENING_BRACKET and before.search(text, max(0, opening - KEY_BYTES), opening):
            return opening + 1, 2
    return 0, 0


# --- parsing ----------------------------------------------------------------------------------------------------------


def parse(text: bytes | bytearray, where: str, locate: Callable[[int], tuple[int, int]]) -> Any:
    """The value of a text of JSON. Raises InputFault: not-json, too-large, duplicate-key.

    locate   gives line and column in the file of a position in the text, for messages
    """
    _check_part(len(text), where)
    try:
        with resting_collector():
            value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        why, position = error.msg, error.pos
        try:
            text.decode()
        except UnicodeDecodeError as not_utf_8:
            why, position = "bytes that are not UTF-8", not_utf_8.start
        line, column = locate(position)
        why = f"{why} (line {line:,}, column {column:,})" if text.strip() else "an empty file"
        raise refused("not-json", where, got=why) from None
    check_keys(text, where)
    return value


def check_keys(text: bytes | bytearray, where: str) -> None:
    """Refuse an object that has a key twice, in the text of a value or of a few items of a list."""
    if (key := repeated_key(text)) is not None:
        raise refused("duplicate-key", where, key=key)


def _check_part(size: int, where: str) -> None:
    """Raise InputFault if a text is too large to be parsed at once."""
    if size > PART_BYTES:
        raise refused("too-large", where, wording="too-long-part", size=size, limit=PART_BYTES)


def _line_and_column(text: bytes | bytearray, position: int) -> tuple[int, int]:
    """Return the line and the column of a position in a text, both counted from 1."""
    return text.count(b"\n", 0, position) + 1, position - text.rfind(b"\n", 0, max(position, 0))


@contextmanager
def resting_collector() -> Iterator[None]:
    """Stop the garbage collector for a while: it finds nothing in what a parser makes."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_nesting(text: bytes | bytearray, depth: int, where: str, limits: LimitRules) -> None:
    """Refuse a text inside of ``depth`` brackets if those in it are nested too deep."""
    scan = _BracketScan()
    scan.depth = depth
    for block in _blocks_of([text]):
        _check_depth(scan.find(block)[1], where, limits)


def _check_depth(depth: Int64, where: str, limits: LimitRules) -> None:
    """Refuse a text if one of its brackets is too deep."""
    if depth.max(initial=0) > limits.json_depth:
        raise refused("too-deep", where, limit=limits.json_depth)


# --- Keys that an object of JSON has twice. Parsers keep the last value and do not tell. ------------------------------


OPENING, CLOSING, COLON = b"{}:"
IS_MARK_OF_KEYS = bytes(byte in b'{}":' for byte in range(256))
WORD = 8
FIRST_BYTES = np.array([(1 << 8 * length) - 1 for length in range(WORD + 1)], np.uint64)
HASH_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


def repeated_key(text: bytes | bytearray) -> str | None:
    """Find a key that stands twice in an object of a text of JSON, or of a part of it; None if missing.

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
