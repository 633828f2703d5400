"""A file for each family of formats: readers, what participants hand in, examples; rules are in ``challenge.formats``.

Readers turn decoded values into annotations, and check everything on the way in.

In: streams and a ``Request``. Out: ``Annotations`` or a ``Collection``; bytes where a format is written.
Execution and the rooms above may import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import BinaryIO

from evaluation.formats.format import Format, Request
from evaluation.model import Annotations, Case, Collection

__all__ = ["Format", "Request", "format_of", "module_of", "read_annotations", "read_collection"]

Companions = Mapping[str, tuple[BinaryIO, str]]
NO_COMPANIONS: Companions = MappingProxyType({})
FAMILIES = {
    name: module
    for module, names in (
        ("annotation_xml", "aperio_xml asap_xml"),
        ("listed_nuclei", "polygons_json points_json contours_json yolo_txt"),
        ("coco", "coco_json midog_json"),
        ("tables", "points_csv nucls_csv counts_csv"),
        ("run_lengths", "rle_csv"),
        ("label_image", "label_image colour_map"),
        ("arrays", "conic_array pannuke_masks"),
        ("mat_files", "nary_mat hovernet_mat"),
    )
    for name in names.split()
}


def module_of(name: str) -> str:
    """The module that a format is in: its family, or a module of its own name."""
    return f"evaluation.formats.{FAMILIES.get(name, name)}"


def format_of(name: str) -> Format:
    """A format, imported on first use, so that a challenge pays only for the formats that it has."""
    formats: Mapping[str, Format] = import_module(module_of(name)).FORMATS
    return formats[name]


def read_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS
) -> Annotations:
    """What a file says of its case, in the format that the rules name. Raises InputFault with all that is wrong.

    companions  streams of the files that go with it, and their names for messages, by the key that has their pattern
    """
    read = format_of(request.rules.format).read
    if read is None:
        raise ValueError(f"{request.rules.format} has no files of one case")
    return read(stream, request, case, **companions)


def read_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """What a file says of all cases. ``cases`` by their names in such files. Raises InputFault with all that is wrong.

    The stream stays open as long as the collection is read from: large arrays are decoded case by case.
    """
    read_all = format_of(request.rules.format).read_all
    if read_all is None:
        raise ValueError(f"{request.rules.format} has no files of all cases")
    return read_all(stream, request, cases)
