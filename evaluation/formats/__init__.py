"""A file for each family of formats: readers, what participants hand in, examples; rules are in ``challenge.formats``.

Readers turn decoded values into annotations, and check everything on the way in.

In: streams and a ``Request``. Out: ``Annotations`` or a ``Collection``; bytes where a format is written.
Execution and the rooms above may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, BinaryIO

from evaluation.decoding.streams import damage_told
from evaluation.formats.format import Request
from evaluation.model import Annotations, Case, Collection

__all__ = ["Format", "Request", "format_of", "module_of", "read_annotations", "read_collection"]

Companions = Mapping[str, tuple[BinaryIO, str]]
NO_COMPANIONS: Companions = MappingProxyType({})
WORDS_OF_FORMATS = {  # of each family: its formats, and what participants hand in
    "annotation_xml": {"aperio_xml": "Aperio ImageScope XML", "asap_xml": "ASAP XML"},
    "geojson": {"geojson": "GeoJSON as QuPath writes it"},
    "listed_nuclei": {
        "polygons_json": 'JSON of the platform\'s kind "Multiple polygons"',
        "points_json": 'JSON of the platform\'s kind "Multiple points"',
        "contours_json": "JSON of HoVer-Net, CellViT or labelme",
        "yolo_txt": "YOLO's text files: a line `class x1 y1 x2 y2 …` for each nucleus, in shares of width and height",
    },
    "coco": {"coco_json": "COCO JSON", "midog_json": "MIDOG JSON, a box for each nucleus"},
    "tables": {
        "points_csv": "CSV with a row for each nucleus",
        "nucls_csv": "NuCLS CSV",
        "counts_csv": "CSV with a row for each image and a column for each class: how many nuclei there are",
    },
    "run_lengths": {"rle_csv": "CSV of run-length codes"},
    "label_image": {
        "label_image": "label image: 0 is background, every other number one nucleus",
        "colour_map": "PNG with a colour for each class and borders between nuclei",
    },
    "arrays": {
        "conic_array": "NumPy array, cases x height x width x 2 (nuclei, classes)",
        "pannuke_masks": "NumPy array, height x width x channels, the nuclei of a class in each channel",
        "nary_mat": "MATLAB file with the labels in `n_ary_mask`",
        "hovernet_mat": "MATLAB file of HoVer-Net (`inst_map`, `inst_type`) or Lizard (`inst_map`, `class`, `id`)",
    },
}


@dataclass(frozen=True, slots=True)
class Format:
    """The functions of a format, which the module of its family has. ``docs/development.md`` says how to add one.

    words     what participants hand in
    example   ``example_of_NAME`` writes a valid file for an ``Example``, its cases (one, unless the file holds all)
              and the name of its class, None if it holds all
    explain   ``explain_NAME`` gives sentences for participants about the keys that only this format has
    read      ``read_NAME`` reads the annotations of a case from a stream, for a ``Request``, the case, and the files
              that go with it, by key
    read_all  ``read_NAME_collection`` reads those of all cases from a stream, for a ``Request`` and the cases by their
              names in such files
    """

    words: str
    example: Callable[..., bytes]
    explain: Callable[[Any], list[str]] | None
    read: Callable[..., Annotations] | None
    read_all: Callable[..., Collection] | None


def module_of(name: str) -> str:
    """The module that a format is in."""
    (family,) = (family for family, formats in WORDS_OF_FORMATS.items() if name in formats)
    return f"{__name__}.{family}"


def format_of(name: str) -> Format:
    """A format, imported on first use, so that a challenge pays only for the formats that it has."""
    module = import_module(module_of(name))
    words = next(formats[name] for formats in WORDS_OF_FORMATS.values() if name in formats)
    names = f"explain_{name}", f"read_{name}", f"read_{name}_collection"
    return Format(words, getattr(module, f"example_of_{name}"), *(getattr(module, each, None) for each in names))


def read_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS
) -> Annotations:
    """What a file says of its case, in the format that the rules name. Raises InputFault with all that is wrong.

    companions  streams of the files that go with it, and their names for messages, by the key that has their pattern
    """
    read = format_of(request.rules.format).read
    if read is None:
        raise ValueError(f"{request.rules.format} has no files of one case")
    with memory_told(request):
        return read(stream, request, case, **companions)


def read_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """What a file says of all cases. ``cases`` by their names in such files. Raises InputFault with all that is wrong.

    The stream stays open as long as the collection is read from: large arrays are decoded case by case.
    """
    read_all = format_of(request.rules.format).read_all
    if read_all is None:
        raise ValueError(f"{request.rules.format} has no files of all cases")
    with memory_told(request):
        return read_all(stream, request, cases)


def memory_told(request: Request) -> AbstractContextManager[None]:
    """Turn MemoryError of a reader of text into a finding; readers of pixels do that themselves."""
    return nullcontext() if request.rules.dense else damage_told(request.where, "a text", fix="Split the file.")
