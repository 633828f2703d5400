"""Keys that an object of JSON has twice. Parsers keep the last value and do not tell."""

from __future__ import annotations

import json

import numpy as np

from evaluation.model import Int64

OPENING, CLOSING, QUOTATION_MARK, COLON = b'{}":'
IS_MARK = bytes(byte in b'{}":' for byte in range(256))
WORD = 8
FIRST_BYTES = np.array([(1 << 8 * length) - 1 for length in range(WORD + 1)], np.uint64)
FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


def repeated_key(text: bytes | bytearray) -> str | None:
    """A key that stands twice in an object of a text of JSON, or of a part of it; None if there is none.

    >>> repeated_key(b'[{"x": 1, "y": {"x": 2}}, {"x": 3, "\\\\u0078": 4}]')
    'x'
    """
    start, stop, owner = find_keys(text)
    compared = np.arange(len(start))
    if b"\\" not in text:  # with escapes there are several ways to write one key
        number = number_of(text, start, stop - start) + owner.astype(np.uint64) * FACTORS[3]
        order = np.argsort(number)
        is_equal = np.diff(number[order]) == 0
        compared = np.unique(order[np.flatnonzero(is_equal)[:, None] + [0, 1]])
    seen = set()
    for at in compared.tolist():
        key = text[start[at] : stop[at]]
        name = (json.loads(b'"' + key + b'"') if b"\\" in key else key.decode(), int(owner[at]))
        if name in seen:
            return str(name[0])
        seen.add(name)
    return None


def find_keys(text: bytes | bytearray) -> tuple[Int64, Int64, Int64]:
    """Where the keys in a text start and stop, and a number for the object that each belongs to. Nesting: 32,767."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    data = np.frombuffer(text, np.uint8)
    position = np.flatnonzero(np.frombuffer(text.translate(IS_MARK), np.bool_)).astype(np.int32)
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


def number_of(text: bytes | bytearray, start: Int64, length: Int64) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A number for each part of a text, of its first and last eight bytes and its length; of equal parts the same."""
    padded = np.frombuffer(bytes(WORD) + bytes(text) + bytes(WORD), np.uint8)
    words = np.ndarray(len(padded) - WORD + 1, np.dtype("<u8"), padded, strides=(1,))
    first = words[start + WORD] & FIRST_BYTES[np.minimum(length, WORD)]
    last = words[np.where(length < WORD, start + WORD, start + length)] & FIRST_BYTES[np.minimum(length, WORD)]
    number: np.ndarray[tuple[int], np.dtype[np.uint64]] = (
        first * FACTORS[0] ^ (last + length.astype(np.uint64)) * FACTORS[1]
    ) * FACTORS[2]
    return number
