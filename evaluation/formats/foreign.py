"""Files of other tools that are not read: what they are, by their first bytes, and what to export instead."""

from __future__ import annotations

HEAD_BYTES = 352
LABELS = "label images (.tif, .png, .npy)"
SHAPES = "GeoJSON, or as label images"
PICKLED = f"{SHAPES}; 'evaluation convert --trust-pickle' does so with your own"
CONTENTS = (  # where the bytes stand, the bytes, what the file is, and what to export
    (0, b"PAR1", "a Parquet file", SHAPES),
    (128, b"DICM", "a DICOM file", LABELS),
    (0, b"SQLite format 3\0", "an SQLite database", SHAPES),
    (0, b"BM", "a BMP image", LABELS),
    (0, b"\xff\xd8\xff", "a JPEG image", "label images (.tif, .png, .npy), since JPEG changes labels"),
    (0, b"GIF8", "a GIF image", LABELS),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image", LABELS),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", LABELS),
    (0, b"Iout", "an ImageJ ROI", "label images, or put all ROIs through QuPath as GeoJSON"),
    *((0, bytes([0x80, protocol]), "a pickle", PICKLED) for protocol in (2, 3, 4, 5)),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "a ZIP or a folder"),
    (0, b"Rar!", "a RAR archive", "a ZIP or a folder"),
)


def foreign_content(head: bytes) -> str:
    """What a file is and what to export instead, "" if its first bytes say nothing.

    >>> foreign_content(b"BM" + bytes(10))
    'a BMP image, which is not read; export as label images (.tif, .png, .npy)'
    """
    for place, magic, name, instead in CONTENTS:
        if head[place : place + len(magic)] == magic:
            return f"{name}, which is not read; export as {instead}"
    return ""
