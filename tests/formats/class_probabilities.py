"""Probabilities of the classes in CSV and JSON: columns, or objects, with a number for each class."""

from __future__ import annotations

import json
from typing import Any

from formats import Table
from formats.json_outlines import GEOJSON, PATH, feature, point, points, polygon, polygons
from formats.json_outlines import POINTS as GEOJSON_POINTS
from formats.tables import NUCLS, POINTS, SHARED, TWO
from nuclei_metrics.model import ClassTable

CSV = POINTS | {"classes": TWO}
NAMELESS = {"classes": ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 1})}
JSON_CLASSES = ClassTable(
    ("Epithelial", "Lymphocyte"), {"epithelial": 1, "epi": 1, "lymphocyte": 2, "ambiguous": -1}, {}, frozenset({"roi"})
)
HEADER = "x,y,class,probability_Tumour,probability_Stroma\n"
NO_CLASS = "x,y,probability_Tumour,probability_Stroma\n"
OUTLINE = 'polyline,"1,5,1","1,1,5"'
THIRDS = ["1,1,Tumour,0.5,0.5", "1,1,Tumour,,", "1,1,Tumour,0.5, ", "1,1,Tumour,2,", "1,1,Tumour,0,1"]
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "geojson outlines": (GEOJSON, "feature"),
    "geojson points": (GEOJSON_POINTS, "feature"),
    "polygons_json": ({"format": "polygons_json"}, "polygon"),
    "points_json": ({"format": "points_json"}, "point"),
}
OF_EPITHELIAL, OF_LYMPHOCYTE = "'class_probabilities.Epithelial'", "'class_probabilities.Lymphocyte'"
GOOD, LACKING = {"Epithelial": 0.5, "Lymphocyte": 0.5}, {"Lymphocyte": 0.5, "Epitelial": 0.5}


def item(kind: str, probabilities: Any = ..., name: str | None = "Epithelial") -> dict[str, Any]:
    """A nucleus with class probabilities; ``...``: without."""
    more: dict[str, Any] = {} if probabilities is ... else {"class_probabilities": probabilities}
    if kind.startswith("geojson"):
        geometry = {"type": "Point", "coordinates": [1, 2]} if kind == "geojson points" else None
        return feature(geometry, name, properties=more)
    return polygon(PATH, name, **more) if kind == "polygons_json" else point(1, 2, name=name, **more)


def document(kind: str, *probabilities: Any) -> Any:
    """A file of nuclei with these class probabilities, or of these whole nuclei."""
    items = [
        value if isinstance(value, dict) and {"name", "type"} & value.keys() else item(kind, value)
        for value in probabilities
    ]
    return items if kind.startswith("geojson") else (polygons if kind == "polygons_json" else points)(*items)


def in_words(value: Any) -> str:
    return "1e+30" if value == 10**30 else json.dumps(value)


TABLE = Table(
    {"classes": JSON_CLASSES},
    [
        *(("columns are found by name or alias", f"{header}\n1,2,Stroma,0.25,1\n3,4,Tumour,0,.5\n", CSV,
           {"class_probability": [[0.25, 1], [0, 0.5]], "class_id": [2, 1], "probability": None}) for header in (
            "x,y,class,probability_Tumour,probability_Stroma", "x,y,class,PROBABILITY_tumour,Probability_STR",
            'x,y,class, probability_Tumour ,"probability_ stroma"')),
        ("the order of the columns does not matter",
         "probability_stroma,y,probability_vague,x,class,probability_tumour\n0.1,2,?,1,Tumour,0.9\n", CSV,
         {"class_probability": [[0.9, 0.1]], "points_xy": [[1, 2]]}),
        *(("a file without them has none", text, CSV, {"class_probability": None}) for text in (
            "x,y,class,probability\n1,2,Stroma,0.5\n",
            "x,y,class,probability_vague,probability_\n1,2,Stroma,0.5,7\n", HEADER + "1,2,Stroma,, \n")),
        ("without a class column the largest tells the class, and of equal ones the first",
         "probability_Stroma,probability_Tumour,x,y\n0.7,0.2,1,1\n0.5,0.5,2,2\n0.1,0.3,3,3\n", CSV,
         {"class_id": [2, 1, 1]}),
        *(("the class column and the class of the path win over the largest", text, CSV | options, {"class_id": ids})
          for text, options, ids in (
            (HEADER + "1,1,Stroma,0.9,0.1\n", {}, [2]), (HEADER + "1,1,,0.9,0.1\n", {}, [0]),
            (NO_CLASS + "1,1,0.9,0.1\n", {"file_class": 2}, [2]), (NO_CLASS + "1,1,0.9,0.1\n", NAMELESS, [1]),
            (NO_CLASS + "1,1,0.1,0.9\n", NAMELESS, [2]))),
        ("a challenge of one class may have its probability", "x,y,probability_nucleus,probability\n1,1,0.5,0.75\n",
         POINTS | {"classes": {"nucleus": 1}},
         {"class_probability": [[0.5]], "probability": [0.75], "class_id": [1]}),
        ("skipped rows and rows without a nucleus need none", HEADER + "1,1,FOV,,\n,,,,\n2,2,Stroma,0.5,1\n", CSV,
         {"class_probability": [[0.5, 1]], "source_id": [4]}),
        *(("a file without a row needs no class column", text, options, {"class_probability": []})
          for text, options in ((NO_CLASS, CSV), (NO_CLASS.replace("x,y", "type,coords_x,coords_y"), NUCLS))),
        ("each case of a shared file has its own",
         "case,x,y,probability_Tumour,probability_Stroma\nb,1,1,0.1,0.2\na,2,2,0.3,0.4\nc,1,1,?,?\nb,3,3,0.5,0.25\n",
         SHARED | {"classes": TWO},
         {"b": {"class_probability": [[0.1, 0.2], [0.5, 0.25]], "class_id": [2, 1]},
          "a": {"class_probability": [[0.3, 0.4]], "class_id": [2]}, "unknown": {"c": 1}}),
        *(("NuCLS may have them", text, NUCLS, {"class_probability": numbers, "class_id": ids})
          for text, numbers, ids in (
            ("main_classification,probability_Stroma,type,coords_x,coords_y,probability_Tumour\n"
             f"stroma,0.25,{OUTLINE},0.75\nfov,,{OUTLINE},\n", [[0.75, 0.25]], [2]),
            (f"type,coords_x,coords_y,probability_Stroma,probability_Tumour\n{OUTLINE},0.25,0.75\n", [[0.75, 0.25]],
             [1]),
            (f"main_classification,type,coords_x,coords_y\nstroma,{OUTLINE}\n", None, [2]))),
        # --- JSON
        *((f"objects have a number for each class ({kind})",
           document(kind, first, second, second, first), options,
           {"class_probability": [[0.9, 0.05], [0, 1], [0, 1], [0.9, 0.05]], "class_id": [1, 2, 2, 1],
            "probability": None})
          for kind, (options, _) in KINDS.items() for first, second in [(
              {"Epithelial": 0.9, "Lymphocyte": 0.05},
              item(kind, {" LYMPHOCYTE": 1, "background": "?", "epi": 0, "ambiguous": 7}, "lymphocyte"))]),
        *((f"a file without them has none ({kind})", content, options, {"class_probability": None})
          for kind, (options, _) in KINDS.items() for content in (document(kind), document(kind, ..., None))),
        *((f"what is skipped needs none ({kind})",
           document(kind, item(kind, name="ROI"), {"Epi": 1, "Lymphocyte": 0}), options,
           {"class_probability": [[1, 0]]}) for kind, (options, _) in KINDS.items()),
        ("every point of a feature has those of the feature",
         [item("geojson points", {"Epithelial": 1, "Lymphocyte": 0}),
          item("geojson points", {"Epithelial": 0.25, "Lymphocyte": 0.75})
          | {"geometry": {"type": "MultiPoint", "coordinates": [[1, 1], [2, 2], [3, 3]]}}], GEOJSON_POINTS,
         {"class_probability": [[1, 0], *[[0.25, 0.75]] * 3]}),
    ],
    [
        *((HEADER.replace("Stroma", "Str") + f"1,1,Tumour,0.5,0.5\n1,1,Tumour,0.5,{value}\n", CSV,
           [f"[invalid-probability] line 3: 'probability_Str' is '{value}'; expected a number from 0 to 1."])
          for value in ("1.5", "-0.1", "nan", "inf", "1e999", "50%", "0x1", "1_0")),
        (HEADER.replace("Stroma", "Stromal") + "1,1,Tumour,0.5,0.5\n", CSV,
         ["[missing-column] no column 'probability_Stroma' among 'x', 'y', 'class', 'probability_Tumour' and "
          "'probability_Stromal'; expected a column 'probability_…' for each class, or no column. Did you mean "
          "'probability_Stromal'?"]),
        ("x,y,class,probability_Tumour,probability_Stroma,probability_STR\n1,1,Tumour,1,0,0\n", CSV,
         ["[invalid-csv] two columns of one class, 'probability_Stroma' and 'probability_STR'"]),
        ("\n".join([HEADER.strip(), *THIRDS]), CSV,
         ["[invalid-probability] line 5: 'probability_Tumour' is '2'; expected a number from 0 to 1.",
          *(f"[missing-probability] line {line}: no {lacking}; expected probabilities of each class for all nuclei, "
            "or for no nucleus." for line, lacking in (
                (3, "'probability_Tumour' and 'probability_Stroma'"), (4, "'probability_Stroma'"),
                (5, "'probability_Stroma'")))]),
        ("x,y,class,probability,probability_Tumour,probability_Stroma\n?,1,x,7,7,1\n", CSV,
         ["[unknown-class]", "[invalid-probability]", "[invalid-probability]", "[invalid-coordinate]"]),
        (f"type,coords_x,coords_y,probability_Stroma,probability_Tumour\n{OUTLINE},,\n", NUCLS,
         ["[missing-column] no such column among 'type', 'coords_x', 'coords_y', 'probability_Stroma' and "
          "'probability_Tumour'; expected a column 'main_classification'"]),
        (f"type,coords_x,coords_y,probability_Stroma\n{OUTLINE},1\n", NUCLS, "…no column 'probability_Tumour'"),
        # --- JSON
        *((document(kind, GOOD, {"Lymphocyte": value, "Epithelial": 0.5}), options,
           [f"[invalid-probability] {place} 2: {OF_LYMPHOCYTE} is '{in_words(value)}'; exp"])
          for kind, (options, place) in KINDS.items() for value in (1.5, -0.1, "0.5", True, [0.5], 10**30)),
        *((document(kind, GOOD, LACKING, {}), options,
           [f"[missing-probability] {place} 2: no {OF_EPITHELIAL}; expected probabilities of each class for all "
            "nuclei, or for no nucleus.", f"[missing-probability] {place} 3: no {OF_EPITHELIAL} and {OF_LYMPHOCYTE};"])
          for kind, (options, place) in KINDS.items()),
        *((document(kind, GOOD, {"Lymphocyte": None, "Epithelial": 1}), options,
           [f"[missing-probability] {place} 2: no {OF_LYMPHOCYTE};"])
          for kind, (options, place) in KINDS.items()),
        *((document(kind, *values), options, [f"[missing-probability] {place} {number}: no {OF_EPITHELIAL} and "])
          for kind, (options, place) in KINDS.items() for values, number in (((GOOD, ...), 2), ((..., GOOD), 1))),
        *((document(kind, value), options, [f"[invalid-annotation] {place} 1: "])
          for kind, (options, place) in KINDS.items() for value in (
              [0.5, 0.5], 0.5, "Epithelial", {"Epithelial": 0.5, "epi": 0.5, "Lymphocyte": 0})),
    ],
    [
        (HEADER + "1,1,Tumour,7,8\n" * 500, CSV, 20, 1000),
        (HEADER + "1,1,Tumour,7,8\n" * 500 + "1,1,Tumour,,1\n" * 300, CSV, 40, 1300),
        *((document(kind, *[...] * 50, GOOD, *[...] * 50), options, 20, 100) for kind, (options, _) in KINDS.items()),
        (document("points_json", *[{"Epithelial": 7, "Lymphocyte": 0.5}] * 10_000), {"format": "points_json"}, 20,
         10_000),
    ],
)  # fmt: skip
