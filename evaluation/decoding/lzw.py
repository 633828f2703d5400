"""LZW as in TIFF: codes of 9 to 12 bits, the highest bit first, 256 empties the table, 257 ends the data.

Decoded here, since damaged data make the decoder of imagecodecs 2026.3.6 crash. TIFF Revision 6.0, section 13.
"""

from __future__ import annotations

from evaluation.decoding.streams import CutOff

CLEAR, END = 256, 257
SINGLE_BYTES = [bytes([value]) for value in range(256)] + [b"", b""]
TABLE_SIZE = 4096
WIDER_AT = {511: 10, 1023: 11, 2047: 12}  # one entry earlier than needed: the encoder is one ahead


def decode_lzw(data: bytes, limit: int) -> bytes:
    """The bytes that the codes stand for; stops as soon as there are ``limit`` or more. Raises CutOff if damaged.

    At most 4,096 bytes more than ``limit`` are given, so that the caller sees that there are too many.

    >>> decode_lzw(bytes.fromhex("800b60502808"), 100)  # codes 256, 45, 258, 258, 257
    b'-----'
    """
    table = SINGLE_BYTES[:]
    pieces: list[bytes] = []
    size, width, buffer, bits = 0, 9, 0, 0
    previous = b""
    for byte in data:  # a code has more than 8 bits, so that no byte ends two of them
        buffer = buffer << 8 | byte
        bits += 8
        if bits < width:
            continue
        bits -= width
        code = buffer >> bits
        buffer &= (1 << bits) - 1
        if code == CLEAR:
            table, width, previous = SINGLE_BYTES[:], 9, b""
            continue
        if code == END:
            break
        if code < len(table):
            piece = table[code]
        elif code == len(table) and previous:
            piece = previous + previous[:1]
        else:
            raise CutOff
        if previous and len(table) < TABLE_SIZE:
            table.append(previous + piece[:1])
            width = WIDER_AT.get(len(table), width)
        pieces.append(piece)
        previous = piece
        size += len(piece)
        if size >= limit:
            break
    return b"".join(pieces)
