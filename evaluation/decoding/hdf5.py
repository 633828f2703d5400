"""The numbers in an HDF5 file, as far as MATLAB 7.3 and programs that imitate it write them.

Read here, and not by the HDF5 library (which opens other files that a file names, and is C) nor by pyfive (which takes
the memory that damaged data ask for, and reads other numbers than were written if there is a block before the HDF5
part, as MATLAB puts one there). Supported are superblocks 0 to 3, groups as symbol tables or as plain links, whole
numbers and floats of 1 to 8 bytes and enumerations, data in the header, in one piece, or in chunks under a version 1
B-tree, with the filters deflate, shuffle and Fletcher-32. Links, external files and virtual datasets are never
followed. Everything that is visited is counted, so that cycles end.
The HDF Group, "HDF5 File Format Specification Version 3.0".
"""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from evaluation.decoding.streams import CutOff, Damaged, Plain, read_array, too_large
from evaluation.findings.errors import InputFault

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
UNDEFINED = 0xFFFF_FFFF_FFFF_FFFF
MAX_MEMBERS = 1000
MAX_NAME_BYTES = 256
MAX_AXES = 32
MAX_NUMBERS = 1 << 56  # numpy cannot make larger arrays, even if another axis is 0
MAX_HEADER_BYTES = 1 << 23  # of all objects together, and so …
MAX_MESSAGES = 1 << 15
MAX_CHUNKS = 1 << 18
MAX_HEAP_BYTES = 1 << 20
PADDED_BYTES = 1 << 20  # chunks may be so much larger than a small array …
PADDED_RATIO = 8  # … or so many times larger than a large one

DATASPACE, LINK_INFO, DATATYPE, FILL, LINK, EXTERNAL_FILES = 1, 2, 3, 5, 6, 7
LAYOUT, FILTERS, ATTRIBUTE, CONTINUATION, SYMBOL_TABLE = 8, 11, 12, 16, 17
SHARED_FLAG = 2
COMPACT, CONTIGUOUS, CHUNKED = 0, 1, 2
DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
INTEGER, FLOAT, TEXT, ENUMERATION = 0, 1, 3, 8
TYPE_NAMES = {
    TEXT: "a text",
    5: "an object",
    6: "an array of complex numbers",
    7: "a cell array",
    9: "a list of texts",
}
UNKNOWN_TYPE = "an unknown kind of variable"
IEEE = {  # by bytes: bit offset, precision, place and size of exponent, of mantissa, bias of the exponent
    4: (0, 32, 23, 8, 0, 23, 127),
    8: (0, 64, 52, 11, 0, 52, 1023),
}
FLETCHER_WORDS = 1 << 20
NO_NUMBERS = np.dtype("V1")


class Unsupported(Exception):
    """A part of HDF5 that is not read. Never leaves the readers of this package."""


class Fields:
    """The numbers in a block of bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        data = self.data[self.position : self.position + count]
        if len(data) < count:
            raise Damaged("a block that is too short")
        self.position += count
        return data

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def numbers(self, *counts: int) -> tuple[int, ...]:
        return tuple(self.number(count) for count in counts)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the header of an object; ``is_shared``: it only says where the message is."""

    kind: int
    data: bytes
    is_shared: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the numbers of a dataset are.

    address  None if they were never written
    size     bytes, for CONTIGUOUS, if it is said
    chunk    shape of the chunks, for CHUNKED
    data     the numbers themselves, for COMPACT
    """

    kind: int
    address: int | None = None
    size: int | None = None
    chunk: tuple[int, ...] = ()
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the root group.

    kind        None for plain numbers, else what it is
    shape       sizes of the axes as HDF5 has them
    attributes  texts (without padding) and other values (as bytes) by name
    problem     why its numbers cannot be read, or ""
    """

    name: str
    kind: str | None
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = NO_NUMBERS
    layout: Layout | None = None
    filters: tuple[int, ...] = ()
    fill: bytes = b""
    attributes: dict[str, bytes] = field(default_factory=dict)
    problem: str = ""


class Hdf5File:
    """The root group of an HDF5 file and the numbers in it.

    stream   seekable
    base     where the HDF5 part begins; addresses count from there
    members  what the root group holds

    Raises CutOff, Damaged, Unsupported.
    """

    def __init__(self, stream: BinaryIO, base: int) -> None:
        self.stream = stream
        self.base = base
        self.size = stream.seek(0, 2) - base
        self.header_bytes = self.header_messages = 0  # read so far
        self.members = [self.member(name, address) for name, address in self.links(self.root_address())]

    def read_at(self, address: int, count: int) -> bytes:
        if not 0 <= address <= address + count <= self.size:
            raise CutOff
        self.stream.seek(self.base + address)
        return Plain(self.stream).read(count)

    def root_address(self) -> int:
        """Address of the header of the root group, from the superblock."""
        fields = Fields(self.read_at(0, min(self.size, 100)))
        if fields.take(8) != HDF5_MAGIC:
            raise Damaged("no HDF5 part")
        version = fields.number(1)
        if version in (0, 1):
            fields.take(4)
            sizes = fields.numbers(1, 1)
            fields.take(9 + 4 * version + 4 * 8 + 8)
        elif version in (2, 3):
            sizes = fields.numbers(1, 1)
            fields.take(1 + 3 * 8)
        else:
            raise Unsupported(f"superblock {version}")
        if sizes != (8, 8):
            raise Unsupported(f"addresses of {sizes[0] * 8} bits")
        return fields.number(8)

    # --- groups -------------------------------------------------------------------------------------------------------

    def links(self, address: int) -> Iterator[tuple[str, int | None]]:
        """Names and addresses of the members of a group; None stands for soft and external links."""
        count = 0
        messages = self.messages(address)
        if sum(message.kind == SYMBOL_TABLE for message in messages) > 1:
            raise Damaged("a group with two lists of members")
        for message in messages:
            for name, member in self.links_of(message):
                count += 1
                if count > MAX_MEMBERS:
                    raise Damaged(f"more than {MAX_MEMBERS:,} variables")
                yield name, member

    def links_of(self, message: Message) -> Iterator[tuple[str, int | None]]:
        fields = Fields(message.data)
        if message.kind == SYMBOL_TABLE:
            yield from self.symbols(*fields.numbers(8, 8))
        elif message.kind == LINK:
            yield read_link(fields)
        elif message.kind == LINK_INFO:
            flags = fields.numbers(1, 1)[1]
            fields.take(8 * (flags & 1))
            if fields.number(8) != UNDEFINED:
                raise Unsupported("links in a heap")

    def symbols(self, tree: int, heap: int) -> Iterator[tuple[str, int | None]]:
        """The members of a group of the old style: a B-tree of nodes with entries, their names in a heap."""
        names = self.heap(heap)
        seen: set[int] = set()
        waiting = [tree]
        while waiting:
            address = waiting.pop()
            if address in seen or len(seen) + len(waiting) > 2 * MAX_MEMBERS:
                raise Damaged("a group without end")
            seen.add(address)
            fields = Fields(self.read_at(address, 8))
            signature = fields.take(4)
            if signature == b"TREE":
                kind, _, count = fields.numbers(1, 1, 2)
                if kind != 0:
                    raise Damaged("a group that holds no members")
                entries = np.frombuffer(self.read_at(address + 24, 8 + 16 * count), "<u8")
                waiting.extend(reversed(entries[1::2].tolist()))
            elif signature == b"SNOD":
                for entry in range(fields.numbers(2, 2)[1]):
                    name, member, is_link = Fields(self.read_at(address + 8 + 40 * entry, 20)).numbers(8, 8, 4)
                    yield text_at(names, name), None if is_link == 2 else member
            else:
                raise Damaged("a group that holds no members")

    def heap(self, address: int) -> bytes:
        """The names of the members of a group."""
        fields = Fields(self.read_at(address, 32))
        if fields.take(8)[:4] != b"HEAP":
            raise Damaged("a group without names")
        size, _, data = fields.numbers(8, 8, 8)
        if size > MAX_HEAP_BYTES:
            raise Damaged("names of variables that are too long")
        return self.read_at(data, size)

    # --- headers of objects -------------------------------------------------------------------------------------------

    def messages(self, address: int) -> list[Message]:
        """All messages in the header of an object."""
        start = Fields(self.read_at(address, 16))
        if start.data[:4] == b"OHDR":
            return self.messages_2(address)
        if start.number(1) != 1:
            raise Damaged("an object without a header")
        size = start.numbers(1, 2, 4, 4)[3]
        return self.messages_in((address + 16, size), tag_bytes=8, flags_at=4)

    def messages_2(self, address: int) -> list[Message]:
        """All messages in a header of version 2."""
        (flags,) = self.read_at(address + 5, 1)
        start = address + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        size = int.from_bytes(self.read_at(start, 1 << (flags & 3)), "little")
        tag_bytes = 6 if flags & 4 else 4
        return self.messages_in((start + (1 << (flags & 3)), size), tag_bytes=tag_bytes, flags_at=3)

    def messages_in(self, first_block: tuple[int, int], *, tag_bytes: int, flags_at: int) -> list[Message]:
        """The messages of a block of (address, bytes) and those of its continuations."""
        blocks = [first_block]
        messages: list[Message] = []
        while blocks:
            address, size = blocks.pop(0)
            self.header_bytes += size
            if self.header_bytes > MAX_HEADER_BYTES:
                raise Damaged("headers without end")
            fields = Fields(self.read_at(address, size))
            while len(fields.data) - fields.position >= tag_bytes:
                self.header_messages += 1
                if self.header_messages > MAX_MESSAGES:
                    raise Damaged("headers without end")
                tag = fields.take(tag_bytes)
                kind = int.from_bytes(tag[: flags_at - 2], "little")
                data = fields.take(int.from_bytes(tag[flags_at - 2 : flags_at], "little"))
                if kind == CONTINUATION:
                    place, size = Fields(data).numbers(8, 8)
                    blocks.append((place, size) if tag_bytes == 8 else (place + 4, max(size - 8, 0)))
                else:
                    messages.append(Message(kind, data, bool(tag[flags_at] & SHARED_FLAG)))
        return messages

    def member(self, name: str, address: int | None) -> Member:
        """What the header of an object says of it."""
        if address is None:
            return Member(name, "a link")
        messages = self.messages(address)
        attributes = dict(read_attribute(m.data) for m in messages if m.kind == ATTRIBUTE and not m.is_shared)
        found = {message.kind: message for message in messages}
        if DATATYPE not in found or DATASPACE not in found:
            return Member(name, "a struct", attributes=attributes)
        if any(found[kind].is_shared for kind in (DATATYPE, DATASPACE, FILTERS, LAYOUT) if kind in found):
            return Member(name, None, attributes=attributes, problem="a type with a name of its own")
        kind, dtype = read_datatype(Fields(found[DATATYPE].data))
        shape = read_dataspace(Fields(found[DATASPACE].data))
        if kind is not None:
            return Member(name, kind, shape, attributes=attributes)
        try:
            if EXTERNAL_FILES in found:
                raise Unsupported("data in another file")
            layout = read_layout(Fields(found[LAYOUT].data), len(shape)) if LAYOUT in found else Layout(CONTIGUOUS)
            filters = read_filters(Fields(found[FILTERS].data)) if FILTERS in found else ()
        except Unsupported as error:
            return Member(name, None, shape, dtype, attributes=attributes, problem=str(error))
        return Member(name, None, shape, dtype, layout, filters, read_fill(found), attributes)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def read(self, member: Member, *, where: str, bytes_limit: int) -> npt.NDArray[Any]:
        """The numbers of a member, in its shape. Raises InputFault, CutOff, Damaged, Unsupported."""
        if member.layout is None:
            raise Unsupported(member.problem)
        needed = math.prod(member.shape) * member.dtype.itemsize
        if needed > bytes_limit:
            raise InputFault(too_large(where, f"an array of {needed:,} bytes ({member.dtype.name})", bytes_limit))
        layout, stream = member.layout, self.stream
        if layout.kind == COMPACT:
            stream = io.BytesIO(layout.data)
        elif layout.address is None or not needed:
            return filled(member)
        elif layout.kind == CHUNKED:
            return self.read_chunks(member, layout.chunk, layout.address)
        elif layout.size not in (None, needed):
            raise Damaged(f"{layout.size:,} bytes of data for an array of {needed:,}")
        else:
            stream.seek(self.base + min(layout.address, self.size))
        return read_array(Plain(stream), member.shape, member.dtype, where=where, bytes_limit=bytes_limit)

    def read_chunks(self, member: Member, chunk: tuple[int, ...], tree: int) -> npt.NDArray[Any]:
        """The numbers of a dataset in chunks; those that were never written have the fill value."""
        shape, itemsize = member.shape, member.dtype.itemsize
        chunks = math.prod(math.ceil(size / step) for size, step in zip(shape, chunk, strict=True))
        chunk_bytes = math.prod(chunk) * itemsize
        if chunks * chunk_bytes > max(PADDED_BYTES, PADDED_RATIO * math.prod(shape) * itemsize):
            raise Damaged(f"chunks of {chunk_bytes:,} bytes for an array of {math.prod(shape) * itemsize:,}")
        if chunks > MAX_CHUNKS:
            raise Unsupported(f"{chunks:,} chunks")
        array = filled(member)
        done: set[tuple[int, ...]] = set()
        for size, skipped, offset, address in self.chunk_entries(tree, len(shape), chunks):
            if offset in done or any(
                place % step or place >= end for place, step, end in zip(offset, chunk, shape, strict=True)
            ):
                raise Damaged("a chunk beside the others")
            done.add(offset)
            if size > 2 * chunk_bytes + 1024:
                raise Damaged("a chunk that is too long")
            data = undo_filters(self.read_at(address, size), member.filters, skipped, chunk_bytes, itemsize)
            numbers = np.frombuffer(data, member.dtype).reshape(chunk)
            inside = tuple(slice(min(step, end - place)) for place, step, end in zip(offset, chunk, shape, strict=True))
            array[tuple(slice(p, p + step) for p, step in zip(offset, chunk, strict=True))] = numbers[inside]
        return array

    def chunk_entries(self, tree: int, axes: int, chunks: int) -> Iterator[tuple[int, int, tuple[int, ...], int]]:
        """Bytes, filters that were skipped, place of the first number, and address of each chunk."""
        record = np.dtype([("size", "<u4"), ("skipped", "<u4"), ("offset", "<u8", (axes + 1,)), ("child", "<u8")])
        seen: set[int] = set()
        waiting = [tree]
        while waiting:
            address = waiting.pop()
            if address in seen or len(seen) + len(waiting) > 2 * chunks + 256:
                raise Damaged("a tree of chunks without end")
            seen.add(address)
            fields = Fields(self.read_at(address, 8))
            signature, (kind, level, count) = fields.take(4), fields.numbers(1, 1, 2)
            if signature != b"TREE" or kind != 1:
                raise Damaged("a tree that holds no chunks")
            entries = np.frombuffer(self.read_at(address + 24, count * record.itemsize), record)
            if level:
                waiting.extend(entries["child"].tolist())
                continue
            for size, skipped, offset, child in entries.tolist():
                yield size, skipped, tuple(offset[:-1].tolist()), child


# --- parts of headers -------------------------------------------------------------------------------------------------


def text_at(data: bytes, start: int) -> str:
    """The text that begins there and ends before a zero byte."""
    end = data.find(b"\0", start, start + MAX_NAME_BYTES)
    if end < 0:
        raise Damaged("a name that is too long")
    return data[start:end].decode("utf-8", "replace")


def read_link(fields: Fields) -> tuple[str, int | None]:
    """Name and address of a link; None if it is not a hard one."""
    flags = fields.numbers(1, 1)[1]
    kind = fields.number(1) if flags & 8 else 0
    fields.take((8 if flags & 4 else 0) + (1 if flags & 16 else 0))
    length = fields.number(1 << (flags & 3))
    if length > MAX_NAME_BYTES:
        raise Damaged("a name that is too long")
    name = fields.take(length).decode("utf-8", "replace")
    return name, fields.number(8) if kind == 0 else None


def read_attribute(data: bytes) -> tuple[str, bytes]:
    """Name and value of an attribute; a text without what fills it up, no text if it is elsewhere."""
    fields = Fields(data)
    version, _, *sizes = fields.numbers(1, 1, 2, 2, 2)
    if version == 3:
        fields.take(1)
    step = 8 if version == 1 else 1
    name, datatype, _ = (fields.take(size + -size % step)[:size] for size in sizes)
    value = data[fields.position :]
    is_text = bool(datatype) and datatype[0] & 15 == TEXT
    return name.split(b"\0")[0].decode("utf-8", "replace"), value.split(b"\0")[0].strip() if is_text else value


def read_datatype(fields: Fields) -> tuple[str | None, np.dtype[Any]]:
    """The type of numbers; first what it is if it is none."""
    first, bits, _, size = fields.numbers(1, 1, 2, 4)
    kind, order = first & 15, ">" if bits & 1 else "<"
    base = fields.data[fields.position :]  # of an enumeration
    if kind == ENUMERATION and base and base[0] & 15 == INTEGER:
        return read_datatype(Fields(base))
    if kind == INTEGER and size in (1, 2, 4, 8) and fields.numbers(2, 2) == (0, 8 * size):
        return None, np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}")
    if kind == FLOAT and size in IEEE and not bits & 0x40 and fields.numbers(2, 2, 1, 1, 1, 1, 4) == IEEE[size]:
        return None, np.dtype(f"{order}f{size}")
    return TYPE_NAMES.get(kind, UNKNOWN_TYPE), NO_NUMBERS


def read_dataspace(fields: Fields) -> tuple[int, ...]:
    """The sizes of the axes."""
    version, axes, _, kind = fields.numbers(1, 1, 1, 1)
    if version == 1:
        fields.take(4)
    if axes > MAX_AXES or version not in (1, 2):
        raise Damaged("a variable without usable dimensions")
    if version == 2 and kind == 2:
        return (0,)
    shape = fields.numbers(*[8] * axes)
    if math.prod(max(size, 1) for size in shape) > MAX_NUMBERS:
        raise Damaged("a variable without usable dimensions")
    return shape


def read_layout(fields: Fields, axes: int) -> Layout:
    """Where the numbers are."""
    version, kind = fields.numbers(1, 1)
    if version in (1, 2):
        return read_old_layout(fields, axes, sizes_given=kind)
    if kind > CHUNKED:
        raise Unsupported("data in another file")
    if version != 3 and (version != 4 or kind == CHUNKED):
        raise Unsupported(f"a data layout of version {version}")
    if kind == COMPACT:
        return Layout(kind, data=fields.take(fields.number(2)))
    if kind == CONTIGUOUS:
        address, size = fields.numbers(8, 8)
        return Layout(kind, None if address == UNDEFINED else address, size)
    count, address = fields.numbers(1, 8)
    return chunked_layout(address, fields.numbers(*[4] * count), axes)


def read_old_layout(fields: Fields, axes: int, *, sizes_given: int) -> Layout:
    """Where the numbers are, in versions 1 and 2, which MATLAB wrote until about 2010."""
    kind = fields.number(1)
    fields.take(5)
    if kind == COMPACT:
        fields.take(4 * sizes_given)
        return Layout(kind, data=fields.take(fields.number(4)))
    address = fields.number(8)
    sizes = fields.numbers(*[4] * sizes_given)
    if kind == CHUNKED:
        return chunked_layout(address, sizes, axes)
    return Layout(CONTIGUOUS, None if address == UNDEFINED else address)


def chunked_layout(address: int, sizes: tuple[int, ...], axes: int) -> Layout:
    """Data in chunks of the sizes; the last one is that of a number."""
    chunk = sizes[:-1]
    if len(chunk) != axes or 0 in chunk:
        raise Damaged("chunks of another shape")
    return Layout(CHUNKED, None if address == UNDEFINED else address, chunk=chunk)


def read_filters(fields: Fields) -> tuple[int, ...]:
    """The filters that were applied, in this order."""
    version, count = fields.numbers(1, 1)
    if version == 1:
        fields.take(6)
    filters: list[int] = []
    for _ in range(count):
        number = fields.number(2)
        name_bytes = fields.number(2) if version == 1 or number >= 256 else 0
        values = fields.numbers(2, 2)[1]
        if number not in (DEFLATE, SHUFFLE, FLETCHER32) or number in filters:
            raise Unsupported(f"the filter {number}")
        fields.take(name_bytes + 4 * values + (4 * (values % 2) if version == 1 else 0))
        filters.append(number)
    return tuple(filters)


def read_fill(found: dict[int, Message]) -> bytes:
    """The bytes of the number that stands where nothing was written; none for 0."""
    if FILL not in found or found[FILL].is_shared:
        return b""
    fields = Fields(found[FILL].data)
    version, flags = fields.numbers(1, 1)
    is_given = flags & 0x20 if version == 3 else fields.numbers(1, 1)[1]
    return fields.take(fields.number(4)) if is_given else b""


# --- numbers ----------------------------------------------------------------------------------------------------------


def filled(member: Member) -> npt.NDArray[Any]:
    """An array in which nothing was written."""
    if len(member.fill) == member.dtype.itemsize and any(member.fill):
        return np.full(member.shape, np.frombuffer(member.fill, member.dtype)[0], member.dtype)
    return np.zeros(member.shape, member.dtype)


def undo_filters(data: bytes, filters: tuple[int, ...], skipped: int, chunk_bytes: int, itemsize: int) -> bytes:
    """The numbers of a chunk, exactly ``chunk_bytes``. Raises CutOff if it has others.

    skipped   bit i is set if filter i was not applied to this chunk
    """
    applied = [number for index, number in enumerate(filters) if not skipped >> index & 1]
    while applied:
        number = applied.pop()
        if number == DEFLATE:
            expected = chunk_bytes + 4 * applied.count(FLETCHER32)
            inflate = zlib.decompressobj()
            try:
                data = inflate.decompress(data, expected + 1)
            except zlib.error:
                raise CutOff from None
            if not inflate.eof:
                raise CutOff
        elif number == SHUFFLE:
            whole = len(data) // itemsize * itemsize
            planes = np.frombuffer(data, np.uint8, whole).reshape(itemsize, -1)
            data = planes.T.tobytes() + data[whole:]
        else:
            data, check = data[:-4], data[-4:]
            if fletcher32(data) != tuple(part % 65535 for part in np.frombuffer(check.ljust(4, b"\0"), "<u2").tolist()):
                raise CutOff
    if len(data) != chunk_bytes:
        raise CutOff
    return data


def fletcher32(data: bytes) -> tuple[int, int]:
    """The two halves of the check sum of HDF5, modulo 65,535: sum of 16-bit words, and sum of the sums so far.

    >>> fletcher32(bytes([1, 2, 3]))
    (1026, 1284)
    """
    words = np.frombuffer(data + b"\0" * (len(data) % 2), ">u2")
    first = second = 0
    for start in range(0, len(words), FLETCHER_WORDS):
        block = words[start : start + FLETCHER_WORDS].astype(np.uint64)
        falling = np.arange(len(block), 0, -1, dtype=np.uint64)
        second = (second + first * len(block) + int((falling * block).sum())) % 65535
        first = (first + int(block.sum())) % 65535
    return first, second
