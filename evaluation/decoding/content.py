"""What a file really holds, recognised by its first bytes."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from evaluation.findings.errors import refused

PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
EMPTY_ZIP_MAGIC = b"PK\x05\x06"
TIFF_MAGICS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MHA_MAGICS = (b"ObjectType", b"NDims", b"Comment")
PARQUET_MAGIC = b"PAR1"
MAGICS = {
    (NPY_MAGIC,): "a NumPy file",
    TIFF_MAGICS: "a TIFF file",
    (b"\x89PNG",): "a PNG file",
    (ZIP_MAGIC, EMPTY_ZIP_MAGIC): "a ZIP file",
    (b"\x1f\x8b",): "a gzip file",
    (b"\xff\xd8\xff",): "a JPEG file",
    (b"GIF8",): "a GIF file",
    (HDF5_MAGIC,): "an HDF5 file",
    (b"MATLAB",): "a MATLAB file",
    MHA_MAGICS: "a MetaImage file",
}


def check_content(stream: BinaryIO, *, where: str, magics: tuple[bytes, ...], name: str) -> None:
    """Refuse a file that does not start as its format does; the stream is left at its start.

    magics, name   the first bytes of the format, and what it is called, such as "a TIFF file"

    Raises InputFault: pickle, wrong-format.
    """
    stream.seek(0)
    head = stream.read(16)
    stream.seek(0)
    if head.startswith(magics):
        return
    if head.startswith(PICKLES):
        raise refused("pickle", where)
    raise refused("wrong-format", where, wording="other-content", got=what_it_is(head) or "something else", name=name)


def what_it_is(head: bytes) -> str:
    """Tell what a file is by its first 16 bytes; "" if they say nothing.

    >>> what_it_is(b"GIF89a"), what_it_is(b"")
    ('a GIF file', 'an empty file')
    """
    if not head:
        return "an empty file"
    if head.lstrip().lower().startswith((b"<!doctype htm", b"<html")):
        return "a web page (HTML), such as the error of a download"
    return next((kind for starts, kind in MAGICS.items() if head.startswith(starts)), "")


# --- Files of other tools that are not read: what they are, by their first bytes, and what to export instead. ---------


HEAD_BYTES = 4096
LABELS = "label images (.tif, .png, .npy)"
AS_SHAPES = "GeoJSON, or as label images"
CONTENTS = (  # where the bytes stand, the bytes, what the file is, and what to export
    (128, b"DICM", "a DICOM file", LABELS),
    (0, b"SQLite format 3\0", "an SQLite database, such as TIAToolbox's .db", "GeoJSON"),
    (0, b"BM", "a BMP image", LABELS),
    (0, b"\xff\xd8\xff", "a JPEG image", "label images (.tif, .png, .npy), since JPEG changes labels"),
    (0, b"GIF8", "a GIF image", LABELS),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image", LABELS),
    *((0, bytes([0x80, protocol]), "a pickle, such as TIAToolbox's .dat", AS_SHAPES) for protocol in (2, 3, 4, 5)),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "a ZIP or a folder"),
    (0, b"Rar!", "a RAR archive", "a ZIP or a folder"),
    (0, b"\xff\x06\0\0sNaPpY", "a file packed by Snappy, as CellViT's", "GeoJSON or JSON that is not packed"),
)
COCO = "COCO (its JSON with images, annotations and categories)"
EXPORTS = (  # texts that all stand in the beginning, what the file is, and what to export
    ((b"<annotations>", b"<version>"), "an XML export of CVAT", COCO),
    ((b'"shape_attributes"',), "a project of the VGG Image Annotator", COCO),
    ((b"_via_settings",), "a project of the VGG Image Annotator", COCO),
    ((b'"result"', b'"original_width"'), "a JSON export of Label Studio", COCO),
    ((b'"result"', b'"completed_by"'), "a JSON export of Label Studio", COCO),
    ((b'"polygonlabels"',), "a JSON export of Label Studio", COCO),
    ((b'"brushlabels"',), "a JSON export of Label Studio", COCO),
    ((b'"item"', b'"slots"'), "an export of V7 Darwin", COCO),
    ((b'"classTitle"',), "an export of Supervisely", COCO),
    ((b'"metadata"', b'"instances"'), "an export of SuperAnnotate", COCO),
    ((b'"label_hash"', b'"data_units"'), "an export of Encord", COCO),
    ((b'"data_row"',), "an export of Labelbox", COCO),
    ((b'"Labeled Data"',), "an export of Labelbox", COCO),
    ((b'"segments_info"',), "panoptic JSON of COCO", "COCO's instances (panopticapi's converter makes them)"),
    ((b'"coord"', b'"points"', b'"prob"'), "details of StarDist", "label images (.tif, .png, .npy)"),
    ((b"region_shape_attributes",), "a CSV export of the VGG Image Annotator", COCO),
    ((b"<annotation>", b"<filename>"), "a file of Pascal VOC, which has boxes and no outlines", COCO),
)
CONVERT = "which only 'compare' and 'convert' read: evaluation convert FILE OUTPUT --to"
IMPORTS = (  # first bytes of formats of ``formats.imports``, what the file is, and what it is converted to
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "label_tiff"),
    (b"Iout", "a ROI of ImageJ", "geojson"),
    (b"PAR1", "a Parquet file", "geojson"),
)
ZARR = (".zarray", ".zgroup", "zarr.json")
ZARR_FOLDER = f"a part of a Zarr store, {CONVERT} label_tiff, where FILE is the folder of the store"
PARENTS = 5  # folders above a chunk that may be the store


def foreign_file(path: Path) -> str:
    """Tell what a file, or the folder that it is a part of, is and what to export instead; "" if nothing is known."""
    for folder in (path, *path.parents[:PARENTS]):
        if folder.is_dir() and any((folder / name).is_file() for name in ZARR):
            return ZARR_FOLDER
    if path.is_dir():
        return ""
    with path.open("rb") as stream:
        return foreign_content(stream.read(HEAD_BYTES))


def is_of_zarr(name: str) -> bool:
    """Tell whether a file of this name makes its folder a Zarr store."""
    return name.rpartition("/")[2] in ZARR


def foreign_content(head: bytes) -> str:
    """Tell what a file is and what to export instead, "" if its first bytes say nothing.

    >>> foreign_content(b"BM" + bytes(10))
    'a BMP image, which is not read; export as label images (.tif, .png, .npy)'
    """
    for magic, name, target in IMPORTS:
        if head.startswith(magic):
            return f"{name}, {CONVERT} {target}"
    for offset, magic, name, instead in CONTENTS:
        if head[offset : offset + len(magic)] == magic:
            return f"{name}, which is not read; export as {instead}"
    for texts, name, instead in EXPORTS:
        if all(text in head for text in texts):
            return f"{name}, which is not read; export as {instead}"
    return ""
