"""The formats: a model of the rules of each, and the list of all of them.

A format is a file here with its rules, and a file of the same name in ``evaluation.formats`` with its reader, its
words and its example. ``docs/development.md`` says how to add one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from evaluation.challenge.formats.rules import FormatRules

NAMES = (  # the registry: a new format adds its line here
    "aperio_xml",
    "asap_xml",
    "geojson",
    "polygons_json",
    "points_json",
    "points_csv",
    "nucls_csv",
    "midog_json",
    "coco_json",
    "rle_csv",
    "label_image",
    "nary_mat",
    "hovernet_mat",
    "conic_array",
    "pannuke_masks",
    "colour_map",
    "contours_json",
    "yolo_txt",
    "counts_csv",
)


class Formats(Mapping[str, type[FormatRules]]):
    """The model of the rules of each format by its name, imported when it is asked for: a challenge has two.

    ``label_image`` has the class ``LabelImageRules`` in its file.
    """

    def __getitem__(self, name: str) -> type[FormatRules]:
        if name not in NAMES:
            raise KeyError(name)
        rules: type[FormatRules] = getattr(import_module(f"{__name__}.{name}"), f"{name.title().replace('_', '')}Rules")
        return rules

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


FORMATS = Formats()


@cache
def keys_of_formats() -> frozenset[str]:
    """The keys that some format has, and not all."""
    return frozenset().union(*(rules.model_fields for rules in FORMATS.values())) - set(FormatRules.model_fields)


def format_rules(**keys: Any) -> FormatRules:
    """The rules of one side in the format that they name. Raises pydantic's ValidationError."""
    return FORMATS[keys["format"]].model_validate(keys)
