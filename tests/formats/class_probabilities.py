"""Probabilities of the classes in CSV: a column for each class."""

from __future__ import annotations

from formats import Table
from formats.tables import NUCLS, POINTS, SHARED, TWO
from nuclei_metrics.model import ClassTable

CSV = POINTS | {"classes": TWO}
NAMELESS = {"classes": ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 1})}
HEADER = "x,y,class,probability_Tumour,probability_Stroma\n"
NO_CLASS = "x,y,probability_Tumour,probability_Stroma\n"
OUTLINE = 'polyline,"1,5,1","1,1,5"'
THIRDS = ["1,1,Tumour,0.5,0.5", "1,1,Tumour,,", "1,1,Tumour,0.5, ", "1,1,Tumour,2,", "1,1,Tumour,0,1"]

TABLE = Table(
    {},
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
    ],
    [
        (HEADER + "1,1,Tumour,7,8\n" * 500, CSV, 20, 1000),
        (HEADER + "1,1,Tumour,7,8\n" * 500 + "1,1,Tumour,,1\n" * 300, CSV, 40, 1300),
    ],
)  # fmt: skip
