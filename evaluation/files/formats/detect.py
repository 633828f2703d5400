"""Detection of files from beginnings, headers, tables and lists: format, images and their sizes.

Signs are in the records of the formats. The name of a file matters only to state the faults of a ``.mat`` file.
``init`` makes cases.csv of the images; ``convert`` needs the only image of a file without a challenge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from evaluation.challenge import LimitRules
from evaluation.files.decoding.guard import reader_faults_told
from evaluation.files.decoding.mat_file import MatFile
from evaluation.files.decoding.pixels import TISSUE_SUFFIXES, read_image_size, read_npy_header
from evaluation.files.decoding.streams import (
    EMPTY_ZIP_MAGIC,
    MHA_MAGICS,
    NPY_MAGIC,
    PNG_MAGIC,
    TIFF_MAGICS,
    ZIP_MAGIC,
    Plain,
    damage_told,
    plain_chunks,
)
from evaluation.files.formats import all_formats, format_of
from evaluation.files.formats.format import Beginning, Format, ListedImage, Request, SizeYx, Word
from evaluation.files.formats.headers import header_names
from evaluation.findings import listed, quote
from evaluation.findings.errors import refused

IMAGE_MAGICS = (PNG_MAGIC, *TIFF_MAGICS, *MHA_MAGICS, ZIP_MAGIC, EMPTY_ZIP_MAGIC)
MATLAB_MAGIC = b"MATLAB"
CUT = 64  # bytes of a chunk that are looked at again with the next one, for words that are cut
WORDS_OF_FILE = "a file that can be read"


@dataclass(frozen=True, slots=True)
class Detected:
    """A format, keys of its rules from the file, such as ``shape``, and the sign of detection."""

    format: str
    keys: Mapping[str, str] = field(default_factory=dict)
    sign: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FoundImage:
    """The only image of a file.

    name           its name in the file, otherwise the name of the file
    size_yx        height and width, px; None if unknown
    in_collection  the file has the form for several images, but contains one image
    """

    name: str
    size_yx: SizeYx | None = None
    in_collection: bool = False


def detect_format(path: Path) -> Detected | None:
    """Detect the format of a file; None if unknown. Text may be compressed with gzip.

    Label images and class maps look the same, as do maps of colours: all are label images here.
    Raises InputFault for damaged files, OSError for unreadable files.
    """
    with path.open("rb") as stream:
        chunks = plain_chunks(stream, quote(path.name, 120), LimitRules().bytes_per_file)
        file = _beginning(path, stream, chunks)
        for name, format in all_formats():
            if format.detect and (sign := format.detect(file)):
                return Detected(name, sign=sign)
            if format.root and file.kind == "xml" and format.root in file.head:
                root = Detected(name, sign=f"{format.root.decode()}>")
                return _first_word(file.head, chunks, {name: format}) or root
        if file.kind != "json":
            return None
        return _first_word(file.head, chunks, {name: format for name, format in all_formats() if not format.root})


def _beginning(path: Path, stream: BinaryIO, chunks: Iterator[bytes]) -> Beginning:
    where = quote(path.name, 120)
    head = stream.read(16)
    stream.seek(0)
    if head.startswith(IMAGE_MAGICS):
        return Beginning("image", "it begins like an image")
    if head.startswith(NPY_MAGIC):
        with damage_told(where, "a NumPy file"):
            shape = read_npy_header(Plain(stream)).shape
        return Beginning("array", f"an array of {' x '.join(map(str, shape))}", shape=shape)
    if head.startswith(MATLAB_MAGIC) or path.suffix.lower() == ".mat":
        mat = MatFile(stream, where=where, bytes_limit=LimitRules().bytes_per_file)
        names = {variable.name for variable in mat.variables}
        return Beginning("matlab", f"a MATLAB file with {listed(sorted(names), 3, last='and')}", names=names)
    head = next(chunks, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith((b"{", b"[")):
        return Beginning("json", head=head)
    return Beginning("xml", head=head) if head.startswith(b"<") else Beginning("text", "", head, header_names(head))


def _first_word(head: bytes, chunks: Iterator[bytes], formats: Mapping[str, Format]) -> Detected | None:
    """Find the first decisive word in quotes, and its meaning."""
    known: dict[str, tuple[Word, Detected]] = {}
    for name, format in formats.items():
        for word in format.told_by:
            signs = ((text, f"the {'key' if word.is_key else 'word'} '{text}'") for text in word.texts)
            known |= {text: (word, Detected(name, word.keys, sign)) for text, sign in signs}
    pattern = re.compile(f'"({"|".join(known) or "(?!)"})"(\\s*:)?'.encode())
    late: dict[str, Detected] = {}
    text = head
    while text:
        for found, colon in pattern.findall(text):
            word, detected = known[found.decode()]
            if word.is_key and not colon:
                continue
            if not word.is_late:
                return detected
            late[found.decode()] = detected
        chunk = next(chunks, b"")
        text = chunk and text[-CUT:] + chunk
    return next((late[text] for text in known if text in late), None)


def list_images(stream: BinaryIO, request: Request) -> list[ListedImage]:
    """List the images of a file of all cases, in its order; empty for other formats.

    Raises InputFault as the readers do.
    """
    found = format_of(request.rules.format).list_images
    with reader_faults_told(request.where), damage_told(request.where, WORDS_OF_FILE):
        return [image for image in found(stream, request) if image.names != ("",)] if found else []


def find_image(source: Path, stream: BinaryIO, request: Request, name: str) -> FoundImage:
    """Find the only image of a file; the stream is left anywhere.

    name   the name of the image if the file has no name

    Raises InputFault: "other-case" for several images in a table or an array, and as the readers do.
    """
    format = format_of(request.rules.format)
    with reader_faults_told(request.where), damage_told(request.where, WORDS_OF_FILE):
        if request.rules.dense and source.suffix in TISSUE_SUFFIXES:
            return FoundImage(name, read_image_size(source))
        if format.find_size:
            return FoundImage(name, format.find_size(stream, request, name))
        images = format.list_images(stream, request) if format.list_images else []
    if len(images) > 1:
        names = [image.names[0] for image in images if image.names]
        raise refused("other-case", request.where, wording="several-images-in-file", count=len(images), names=names)
    if not images:
        return FoundImage(name, in_collection=request.rules.file_holds == "all cases")
    (image,) = images
    return FoundImage([*image.names, name][0], image.size_yx, bool(image.names) or image.index is not None)
