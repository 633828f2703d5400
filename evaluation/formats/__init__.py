"""One module per file format: bytes to values, everything checked on the way in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO

from evaluation.formats.request import Request
from evaluation.model import Annotations, Case, Collection

__all__ = ["Companions", "Request", "read_annotations", "read_collection"]


@dataclass(frozen=True, slots=True)
class Companions:
    """The files that go with the file of a case: streams, and names for messages."""

    class_map: tuple[BinaryIO, str] | None = None
    class_table: tuple[BinaryIO, str] | None = None
    segments: tuple[BinaryIO, str] | None = None


NO_COMPANIONS = Companions()


def read_annotations(
    stream: BinaryIO, request: Request, case: Case, companions: Companions = NO_COMPANIONS
) -> Annotations:
    """What a file says of its case, in the format that the rules name. Raises InputFault with all that is wrong."""
    format = request.rules.format
    read = reader(format, f"read_{format}")
    found: Annotations
    if format == "label_image":
        table = None
        if companions.class_table is not None:
            table_stream, table_name = companions.class_table
            table = reader("class_table", "read_class_table")(table_stream, request, table_name)
        found = read(stream, request, case, class_map=companions.class_map, class_table=table)
    elif format == "nary_mat":
        found = read(stream, request, case, class_map=companions.class_map)
    elif format == "coco_panoptic":
        found = read(stream, request, case, segments=companions.segments)
    else:
        found = read(stream, request, case)
    return found


def read_collection(stream: BinaryIO, request: Request, cases: Mapping[str, Case]) -> Collection:
    """What a file says of all cases. ``cases`` by their names in such files. Raises InputFault with all that is wrong.

    The stream stays open as long as the collection is read from: large arrays are decoded case by case.
    """
    found: Collection = reader(request.rules.format, f"read_{request.rules.format}_collection")(stream, request, cases)
    return found


def reader(module: str, function: str) -> Callable[..., Any]:
    """A reader, imported on first use, so that a challenge pays only for the formats that it has."""
    found: Callable[..., Any] = getattr(import_module(f"evaluation.formats.{module}"), function)
    return found
