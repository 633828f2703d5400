"""Mutations that break files where readers are weak: numbers, lengths, nesting, ends."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

NUMBERS = [
    b"-1", b"0", b"1", b"1e999", b"-1e308", b"NaN", b"Infinity", b"0.5", b"99999999999999999999", b"2147483648",
    b"4294967295", b"9223372036854775807", b"9223372036854775808", b"1" * 400, b"1_0", b"", b"null", b'"x"',
]  # fmt: skip
TOKENS = [
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"<", b">", b"&", b"<!DOCTYPE a>", b"\0", b"\n", b"\r", b"\xff\xfe",
    b"\xef\xbb\xbf", b"../", b"null", b"true", b"[" * 600, b"\\u0000", b"\x1b[31m", b"1e999", b"a" * 5000,
]  # fmt: skip
EXTREMES = [
    0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The data with one to four mutations."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


def place(data: bytes, chance: random.Random) -> int:
    """An index; half of them in the header, where formats keep their lengths."""
    return chance.randrange(min(len(data), 400) if chance.random() < 0.5 else len(data)) if data else 0


def flip_bit(data: bytes, chance: random.Random) -> bytes:
    at = place(data, chance)
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if data else data


def set_byte(data: bytes, chance: random.Random) -> bytes:
    at = place(data, chance)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def set_integer(data: bytes, chance: random.Random) -> bytes:
    """An extreme value where an integer of the file may be."""
    at, order, letter = place(data, chance), chance.choice("<>"), chance.choice("BHIQ")
    size = struct.calcsize(f"={letter}")
    value = chance.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return data[:at] + struct.pack(f"{order}{letter}", value) + data[at + size :]


def delete(data: bytes, chance: random.Random) -> bytes:
    at = place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 4, 16, 100)) :]


def repeat(data: bytes, chance: random.Random) -> bytes:
    at, size = place(data, chance), chance.choice((1, 4, 16, 100, 400))
    return data[:at] + data[at : at + size] * chance.choice((2, 3, 50)) + data[at:]


def move(data: bytes, chance: random.Random) -> bytes:
    at, to, size = place(data, chance), place(data, chance), chance.choice((1, 4, 16, 100))
    return data[:to] + data[at : at + size] + data[to:]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: place(data, chance)]


def insert_token(data: bytes, chance: random.Random) -> bytes:
    at = place(data, chance)
    return data[:at] + chance.choice(TOKENS) + data[at:]


def replace_number(data: bytes, chance: random.Random) -> bytes:
    """A number written as text becomes another one."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[:200_000]))
    if not found:
        return set_integer(data, chance)
    number = chance.choice(found)
    return data[: number.start()] + chance.choice(NUMBERS) + data[number.end() :]


def swap_word(data: bytes, chance: random.Random) -> bytes:
    """A word of the file takes the place of another one."""
    words = list(re.finditer(rb"[A-Za-z_]{2,}", data[:200_000]))
    if len(words) < 2:
        return flip_bit(data, chance)
    target, source = chance.sample(words, 2)
    return data[: target.start()] + source[0] + data[target.end() :]


VALUES = [
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**64 - 1, 0.5, -1e308, 1e308, "", "x" * 300, "\0", "../a", "1e999", [],
    {}, [[]], [None], [[1, 2]], [[[0, 0], [1, 0], [1, 1]]], {"a": 1}, [1e9, -1e9], [0] * 5000,
]  # fmt: skip


def change_json(data: bytes, chance: random.Random) -> bytes:
    """A JSON document with another value, or another place, for one of its values; other data as another mutation."""
    try:
        document = json.loads(data)
    except ValueError:
        return chance.choice(MUTATIONS[:-3])(data, chance)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        places += [(node, key) for key in keys]
        waiting += [node[key] for key in keys if isinstance(node[key], dict | list)]
    if not places:
        return json.dumps(chance.choice(VALUES)).encode()
    node, key = chance.choice(places)
    action = chance.randrange(4)
    if action == 0:
        del node[key]
    elif action == 1 and isinstance(node, list):
        node += [node[key]] * chance.choice((1, 3, 500))
    elif action == 2:
        other, other_key = chance.choice(places)
        node[key] = json.loads(json.dumps(other[other_key])) if other_key in other or isinstance(other, list) else None
    else:
        node[key] = chance.choice(VALUES)
    return json.dumps(document).encode()


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip_bit, set_byte, set_integer, set_integer, delete, repeat, move, cut, insert_token, replace_number,
    replace_number, swap_word, change_json, change_json, change_json,
)  # fmt: skip
