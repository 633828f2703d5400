"""CSV of points, NuCLS and counts: what columns and rows mean, and what is refused."""

from __future__ import annotations

from evaluation.files.formats.headers import CASE_COLUMNS, CLASS_COLUMNS
from formats import Table
from nuclei_metrics.model import Case, ClassTable

CASES = {"a": Case("a", "P1", 20, 30, 0.25, 1), "b": Case("b", "P2", 20, 30, 0.5, 0)}
TWO = ClassTable(
    ("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "str": 2, "vague": -1}, {0: 1, 7: 2}, frozenset({"fov"})
)
POINTS = {"format": "points_csv", "case": CASES["a"]}
SHARED = {"format": "points_csv", "cases": CASES}
NUCLS = {"format": "nucls_csv", "case": CASES["a"], "classes": TWO, "class_column": "main_classification"}
COUNTS = {"format": "counts_csv", "classes": TWO, "cases": CASES}
NOTHING_TOLD = ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "": 2})
NO_HEADER = {"columns": ("x", "y")}
NUCLS_HEADER = (
    ",raw_classification,main_classification,super_classification,type,xmin,ymin,xmax,ymax,coords_x,coords_y\n"
)
NUCLS_FILE = NUCLS_HEADER + (
    '0,lymphocyte,stroma,sTIL,rectangle,4,6,9,8,"4,9,9,4,4","6,6,8,8,6"\n'
    '1,tumor,tumour,tumor_any,polyline,10,11,14,17,"10,14,12","11,12,17"\n'
    "2,tumor,tumour,tumor_any,rectangle,1,2,3,5,,\n"
    '3,fov_basic,fov,AMBIGUOUS,rectangle,0,0,30,20,"0,30,30,0,0","0,0,20,20,0"\n'
    '4,unlabeled,vague,AMBIGUOUS,Polyline,-2,0,1,3.5," -2 , 1,1","0,0,3.5"\n'
)
LEVELS = ("tumour", "stroma", "lymphocyte", "tumor", "sTIL", "tumor_any")
LEVELS_OF = ClassTable(LEVELS, {name.casefold(): index for index, name in enumerate(LEVELS, start=1)})
FIRST_TWO = "".join(NUCLS_FILE.splitlines(keepends=True)[:3])
POLYLINE = 'main_classification,type,coords_x,coords_y\nstroma,polyline,"1,5,1","1,1,5"\n'
SEVEN = "x,y,class\n1,1,tumour\n1,1,STR\n1,1, 7\n1,1,0\n1,1,7.0\n1,1,vague\n1,1,\n"
UNKNOWN = "is not a class of this challenge"
GOOD = ',,stroma,,polyline,,,,,"1,2,3","1,2,5"\n'
TWO_COUNTS = {"z": Case("z", "z", 5, 5, index=0), "y": Case("y", "y", 5, 5)}
FEW = {"limits": {"instances_per_case": 2}}
BOX = "0,,stroma,,rectangle,4,6,9,8,"

READ = [
    ("points are found by the names of columns", " Y ,note,X\n2.5,hello,-1\n1e1,,4\n", POINTS,
     {"points_xy": [[-1, 2.5], [4, 10]], "class_id": [1, 1], "source_id": [2, 3], "probability": None}),
    ("a header alone is a case without points", "x,y,class,score\n", POINTS, {"points_xy": []}),
    *(("units become px by the spacing of the case", "x,y\n0.5,2\n", POINTS | {"units": units},
       {"points_xy": [[0.5 * factor, 2 * factor]]}) for units, factor in (("px", 1), ("um", 4), ("mm", 4000))),
    ("bounds hold in px", "x,y\n300000,1\n", POINTS | {"units": "um"}, {"class_id": [1]}),
    ("classes come by name, alias or number", SEVEN, POINTS | {"classes": TWO}, {"class_id": [1, 2, 2, 1, 2, -1, 0]}),
    ("skipped classes are left out whatever else they say",
     "x,y,class,score\n1,1,Fov,\nnan,1,fov,7\n2,3,stroma,0.5\n", POINTS | {"classes": TWO},
     {"source_id": [4], "class_id": [2], "probability": [0.5]}),
    ("the class of a path wins over the file", "x,y,class\n1,1,unheard\n", POINTS | {"classes": TWO, "file_class": 2},
     {"class_id": [2]}),
    ("an empty class is the alias of nothing", "x,y,class\n1,1,\n1,1,tumour\n", POINTS | {"classes": NOTHING_TOLD},
     {"class_id": [2, 1]}),
    ("no class is the alias of nothing", "x,y\n1,1\n", POINTS | {"classes": NOTHING_TOLD}, {"class_id": [2]}),
    *(("probabilities are for all or for none", f"x,y,{column}\n1,1,{one}\n1,1,{other}\n", POINTS,
       {"probability": found}) for column in ("probability", "Score", "confidence")
      for one, other, found in (("0.5", "1", [0.5, 1]), ("", " ", None))),
    ("a file without a header is read if its columns are named", "1,?,2,0,\n3,?,4,7,\n",
     POINTS | {"classes": TWO, "columns": ("y", "_", "x", "class", "_")},
     {"points_xy": [[2, 1], [4, 3]], "class_id": [1, 2], "source_id": [1, 2]}),
    *(("without a header an empty file has no points", text, POINTS | NO_HEADER, {"points_xy": []})
      for text in ("", "\r\n")),
    *(("a case column in a file of one case must fit", f"image,x,y\n{key},1,2\n",
       POINTS | {"case_key": "{group}-{case}.png"}, {"points_xy": [[1, 2]]})
      for key in ("a", "P1-a.png", "images/P1-a.png", "C:\\images\\a")),
    # --- NuCLS
    ("outlines and boxes are nuclei", NUCLS_FILE, NUCLS,
     {"rings": [[[4, 6], [9, 6], [9, 8], [4, 8], [4, 6]], [[10, 11], [14, 12], [12, 17]],
                [[1, 2], [3, 2], [3, 5], [1, 5]], [[-2, 0], [1, 0], [1, 3.5]]],
      "class_id": [2, 1, 1, -1], "source_id": [2, 3, 4, 6], "ring_instance": [0, 1, 2, 3],
      "ring_is_hole": [False] * 4, "probability": None}),
    *(("the class level is that of the rules", FIRST_TWO, NUCLS | {"classes": LEVELS_OF, "class_column": column},
       {"class_id": ids}) for column, ids in (
        ("raw_classification", [3, 4]), ("main_classification", [2, 1]), ("super_classification", [5, 6]))),
    ("predictions may have a probability", POLYLINE.replace("\n", ",score\n", 1)[:-1] + ",0.25\n", NUCLS,
     {"probability": [0.25]}),
    ("the class of the path needs no class column", 'type,coords_x,coords_y\npolyline,"1,5,1","1,1,5"\n',
     NUCLS | {"file_class": 2}, {"class_id": [2]}),
    ("outlines need no columns of boxes", POLYLINE, NUCLS, {"class_id": [2]}),
    *(("a box is the same with and without its vertices", f"{NUCLS_HEADER}{BOX}{vertices}\n", NUCLS,
       {"rings": [[[4, 6], [9, 6], [9, 8], [4, 8]]]}) for vertices in (",", '"4,9,9,4","6,6,8,8"')),
    # --- files of all cases
    ("rows go to their cases, each with its spacing", "case,x,y\nb,1,1\na,1,1\nb,2,3\n", SHARED | {"units": "um"},
     {"b": {"points_xy": [[2, 2], [4, 6]], "source_id": [2, 4]}, "a": {"points_xy": [[4, 4]]}}),
    ("rows of other images are counted, and a case whose rows are skipped has no nuclei",
     "image_id,x,y,class,score\nq/b.png,1,2,stroma,0.5\nz.png,oops,,,\na.png,5,6,fov,\n",
     SHARED | {"classes": TWO, "cases": {"a.png": CASES["a"], "b.png": CASES["b"]}},
     {"b": {"points_xy": [[1, 2]], "probability": [0.5]}, "a": {"points_xy": []}, "unknown": {"z.png": 1}}),
    ("a file without a header may have a column of cases", "b,1,2\na,3,4\n",
     SHARED | {"columns": ("case", "x", "y")}, {"b": {"points_xy": [[1, 2]]}, "a": {"points_xy": [[3, 4]]}}),
    *(("each header of the case", f"{name},{columns}\na,{values}\n",
       {"classes": TWO, "cases": CASES, "format": format, **keys}, {"a": {}})
      for name in CASE_COLUMNS for format, columns, values, keys in (
        ("points_csv", "x,y", "1,2", {"file_class": 1}), ("counts_csv", "Tumour,Stroma", "1,2", {}),
        ("rle_csv", "EncodedPixels", "1 2", {"file_class": 1, "pixel_order": "row", "first_pixel": 1}))),
    *(("each header of the class", f"case,{columns},{name}\na,{values},stroma\n",
       {"classes": TWO, "cases": CASES, "format": format, **keys}, {"a": {"class_id": [2]}})
      for name in CLASS_COLUMNS for format, columns, values, keys in (
        ("points_csv", "x,y", "1,2", {}),
        ("rle_csv", "EncodedPixels", "1 2", {"pixel_order": "row", "first_pixel": 1}))),
    ("an id in the points of one case is that of the point", "id,x,y,class\n1,1,2,Stroma\n",
     POINTS | {"classes": TWO}, {"class_id": [2]}),
    # --- counts
    ("counts are in the order of the index", "Tumour,Stroma\n1,2\n0,9\n", COUNTS,
     {"b": {"per_class": [1, 2], "type": "Counts"}, "a": {"per_class": [0, 9]}}),
    ("or have names", "Str,Tumour,note,case,vague\n1,2.0,?,b,-7\n", COUNTS, {"b": {"per_class": [2, 1]}}),
    ("counts of other images are not looked into", "case,Tumour,Stroma\nc,1,2\na,3,4\nc,?,2\n", COUNTS,
     {"a": {"per_class": [3, 4]}, "unknown": {"c": 2}}),
]  # fmt: skip

REFUSED = [
    ("x,y,class\n1,1,tumor\n1,1,Tumour\n1,1,tumor\n1,1,9\n", POINTS | {"classes": TWO},
     [f"[unknown-class] line 2, line 4: 'tumor' {UNKNOWN}; expected 'str', 'stroma' or 'tumour', or one of the numbers "
      "0, 7. Did you mean 'tumour'?", f"[unknown-class] line 5: '9' {UNKNOWN}"]),
    *((f"x,y,score\n1,1,0.5\n1,1,{value}\n", POINTS,
       f"[invalid-probability] line 3: 'score' is '{value}'; expected a number from 0 to 1.")
      for value in ("-0.01", "1.01", "nan", "inf", "high", "50%")),
    ("x,y,score\n1,1,0.5\n1,1,\n1,1,\n", POINTS,
     ["[missing-probability] line 3: no 'score'; expected", "[missing-probability] line 4"]),
    *((f"{axis},{'yx'['xy'.index(axis)]}\n{value},1\n", POINTS,
       "[invalid-coordinate] line 2: {} is '{}'; expected plain numbers between -1e9 and 1e9 px, with a point "
       "as decimal mark.".format(axis, value.strip('"')))
      for axis in "xy" for value in ("", "nan", "inf", "1e10", "-1000000001", "a", '"12,5"', "1e999")),
    *((f"x,y\n{x},1\n", POINTS | {"units": "mm"}, "[invalid-coordinate]") for x in ("300000", "1e308")),
    ("x,y\n1,2\n", POINTS | NO_HEADER, "[invalid-coordinate] line 1: x is 'x'"),
    ("1,2,3\n", POINTS | NO_HEADER, "[invalid-csv] line 1: 3 cells"),
    ("117,130,1\n95,156,1\n", POINTS,
     "[missing-column] no such column among '117', '130' and '1'; expected a column 'x'. If the file has no "
     "header, its columns must be named in challenge.toml ('columns')."),
    ("x,y\n1,1\n2,1\n3,1\n", POINTS | FEW, "[too-large] more than 2 rows; expected at most 2."),
    ("x,y\n1,2\n", SHARED, "[missing-column] no such column among 'x' and 'y'"),
    ("case,x,y\na,1,1\na,2,1\na,3,1\n", SHARED | FEW,
     "[too-large] case 'a': 3 nuclei; expected at most 2."),
    # --- NuCLS
    *((f"{NUCLS_HEADER}{GOOD}{row}\n{GOOD}", NUCLS, line) for row, line in (
        (',,stroma,,polyline,,,,,"1,2,3","1,2"', "[invalid-coordinate] line 3: 3 numbers in coords_x and"),
        (",,stroma,,polyline,1,2,3,4,,", "[invalid-coordinate] line 3: 0 numbers in coords_x and 0 in"),
        (',,stroma,,rectangle,1,2,3,4,"1,2",', "[invalid-coordinate] line 3: 2 numbers in coords_x and 0 in"),
        (',,stroma,,polyline,,,,,"1,2,x","1,2,3"', "[invalid-coordinate] line 3, vertex 3: coords_x is 'x';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,,3"', "[invalid-coordinate] line 3, vertex 2: coords_y is '';"),
        (',,stroma,,polyline,,,,,"1,2,3","1,2,2e9"', "[invalid-coordinate] line 3, vertex 3: coords_y is '2e"),
        (",,stroma,,rectangle,1,2,,4,,", "[invalid-coordinate] line 3: xmax is '';"),
        (',,stroma,,ellipse,,,,,"1,2,3","1,2,3"', "[unsupported-shape] line 3: the type 'ellipse'; expected"),
        (',,strma,,polyline,,,,,"1,2,3","1,2,3"', "[unknown-class] line 3: 'strma' is not a class"))),
    *((NUCLS_FILE.replace(column, f"{column}_"), NUCLS, "[missing-column] no such column among")
      for column in ("main_classification", "type", "coords_x", "coords_y")),
    (POLYLINE + "stroma,rectangle,,\n", NUCLS, "[missing-column] no such column among"),
    (NUCLS_FILE, NUCLS | {"limits": {"vertices_per_file": 10}},
     "[too-large] more than 10 vertices; expected at most 10. Make the file smaller; organisers can raise "
     "limits.vertices_per_file in challenge.toml."),
    # --- counts
    ("Stroma,Tumour\n1,2\n3,4\n", COUNTS | {"cases": TWO_COUNTS},  # their order by name could be another one
     "[missing-column] no column for the case, and cases of the challenge without an index; expected a "
     "column 'case'. Add it."),
    ("Tumour,Stroma\n1,2\n", COUNTS, "[row-count] 1 row; expected 2, one per case in"),
    ("Tumour,Stroma\n1,2\n3,4.5\n", COUNTS,
     "[invalid-count] line 3: 'Stroma' is '4.5'; expected a whole number"),
    ("Tumour,Stroma\n1,2\n3,\n", COUNTS, "[invalid-count] line 3: 'Stroma' is ''"),
    ("Tumour,Stroma\n1,2\n3,1000000001\n", COUNTS, "[invalid-count]"),
    ("Tumour,Strom\n1,2\n3,4\n", COUNTS,
     "[missing-column] no column 'Stroma' among 'Tumour' and 'Strom'"),
    ("Tumour,Stroma,STR\n1,2,3\n", COUNTS,
     "[invalid-csv] two columns of one class, 'Stroma' and 'STR'"),
    ("case,Tumour,Stroma\nb,0,0\na,1,2\nb,3,4\n", COUNTS,
     "[duplicate-row] line 4: 'b' again, after line 2; expected one row for each case."),
]  # fmt: skip
REFUSED += [  # hostile tables
    (b"x,y\n" + text, POINTS, "[") for text in (
        b"," * 2_000_000, b"\n" * 3_000_000, b'"' * 2_000_000, b'",' * 1_000_000, b'"\n' * 1_000_000, b"9" * 4_000_000)
]  # fmt: skip

TABLE = Table(
    {},
    READ,
    REFUSED,
    [("x,y,class\n" + "".join(f"1,1,c{index}\n" * 2 for index in range(300)), POINTS | {"classes": TWO}, 20, 600)],
)
