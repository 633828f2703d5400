"""The formats: a model of the rules of each, and the list of all of them.

A format is a file here with its rules, and a file of the same name in ``evaluation.formats`` with its reader, its
words and its example. ``docs/development.md`` says how to add one.
"""

from __future__ import annotations

from typing import Any, get_args

from evaluation.challenge.formats.aperio_xml import AperioXmlRules
from evaluation.challenge.formats.asap_xml import AsapXmlRules
from evaluation.challenge.formats.coco_json import CocoJsonRules
from evaluation.challenge.formats.coco_panoptic import CocoPanopticRules
from evaluation.challenge.formats.colour_map import ColourMapRules
from evaluation.challenge.formats.conic_array import ConicArrayRules
from evaluation.challenge.formats.contours_json import ContoursJsonRules
from evaluation.challenge.formats.counts_csv import CountsCsvRules
from evaluation.challenge.formats.geojson import GeojsonRules
from evaluation.challenge.formats.geometry_table import GeometryTableRules
from evaluation.challenge.formats.hovernet_mat import HovernetMatRules
from evaluation.challenge.formats.imagej_roi import ImagejRoiRules
from evaluation.challenge.formats.label_image import LabelImageRules
from evaluation.challenge.formats.midog_json import MidogJsonRules
from evaluation.challenge.formats.nary_mat import NaryMatRules
from evaluation.challenge.formats.nucls_csv import NuclsCsvRules
from evaluation.challenge.formats.pannuke_masks import PannukeMasksRules
from evaluation.challenge.formats.points_csv import PointsCsvRules
from evaluation.challenge.formats.points_json import PointsJsonRules
from evaluation.challenge.formats.polygons_json import PolygonsJsonRules
from evaluation.challenge.formats.rle_csv import RleCsvRules
from evaluation.challenge.formats.rules import FormatRules
from evaluation.challenge.formats.yolo_txt import YoloTxtRules

FORMATS: dict[str, type[FormatRules]] = {
    get_args(rules.model_fields["format"].annotation)[0]: rules
    for rules in (  # the registry: a new format adds its line here
        AperioXmlRules,
        AsapXmlRules,
        GeojsonRules,
        PolygonsJsonRules,
        PointsJsonRules,
        PointsCsvRules,
        NuclsCsvRules,
        MidogJsonRules,
        CocoJsonRules,
        CocoPanopticRules,
        RleCsvRules,
        LabelImageRules,
        NaryMatRules,
        HovernetMatRules,
        ConicArrayRules,
        PannukeMasksRules,
        ColourMapRules,
        ContoursJsonRules,
        ImagejRoiRules,
        YoloTxtRules,
        GeometryTableRules,
        CountsCsvRules,
    )
}
KEYS_OF_FORMATS = frozenset().union(*(rules.model_fields for rules in FORMATS.values())) - set(FormatRules.model_fields)


def format_rules(**keys: Any) -> FormatRules:
    """The rules of one side in the format that they name. Raises pydantic's ValidationError."""
    return FORMATS[keys["format"]].model_validate(keys)
