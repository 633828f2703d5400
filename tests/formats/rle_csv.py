"""CSV of run-length codes: what they mean, and what is refused."""

from __future__ import annotations

from formats import Table
from nuclei_metrics.model import Case, ClassTable

WIDE = Case("a", "P1", 3, 5)  # 3 rows of 5 px
CASES = {"a": WIDE, "b": Case("b", "P2", 4, 2)}
TWO = {"classes": ClassTable(("Tumour", "Stroma"), {"tumour": 1, "stroma": 2, "vague": -1}, skipped=frozenset({"roi"}))}
MANY = {f"c{index}": Case(f"c{index}", "P", 3, 5) for index in range(30)}
CODE = "ImageId,EncodedPixels\na,2 2 7 1\n"
LIMIT = {"limits": {"instances_per_case": 2}}

TABLE = Table(
    {"format": "rle_csv", "cases": CASES, "pixel_order": "column", "first_pixel": 1},
    [
        *(("pixel order and first pixel say where a code lies", CODE, {"pixel_order": order, "first_pixel": first},
           {"a": {"masks": [mask]}}) for order, first, mask in (
            ("column", 1, ["..#..", "#....", "#...."]), ("column", 0, [".#...", "..#..", "#...."]),
            ("row", 1, [".##..", ".#...", "....."]), ("row", 0, ["..##.", "..#..", "....."]))),
        ("rows of an image may lie anywhere and are told by their lines",
         "ImageId,EncodedPixels\na,1 1\nb,3 2\na,5 1\n", {},
         {"a": {"source_id": [2, 4], "shape_yx": (3, 5)}, "b": {"source_id": [3], "shape_yx": (4, 2)}}),
        ("an empty code mentions its case and is no nucleus", "ImageId,EncodedPixels\nb,\na,1 1\na,  \n", {},
         {"b": {"source_id": []}, "a": {"source_id": [3]}}),
        ("a case without a row has no entry", CODE, {}, {"a": {"source_id": [2]}}),
        ("images that are no cases are counted and not looked into",
         "ImageId,EncodedPixels\nc,9 9 9\nc,\nd,x\na,1 1\n", {},
         {"a": {"source_id": [5]}, "unknown": {"c": 2, "d": 1}}),
        ("an image may be named with its folder and a key with a suffix",
         "image,rle\ntest/x/a.png,1 1\na.png,2 1\n", {"cases": {"a.png": WIDE}}, {"a": {"source_id": [2, 3]}}),
        ("image_id wins over id", "id,image_id,rle\nb,a,1 1\n", {}, {"a": {"source_id": [2]}}),
        ("classes come by name and others are left out",
         "id,annotation,cell_type\na,1 1,STROMA\na,2 1, tumour\na,3 1,ROI\na,4 1,vague\na,5 1,\n", TWO,
         {"a": {"class_id": [2, 1, -1, 0], "source_id": [2, 3, 5, 6]}}),
        ("without a class column the only class is meant", CODE, {}, {"a": {"class_id": [1]}}),
        ("or none of several", CODE, TWO, {"a": {"class_id": [0]}}),
        ("probabilities are read", "id,rle,score\na,1 1,0.25\nb,1 1,1\n", {},
         {"a": {"probability": [0.25]}, "b": {"probability": [1.0]}}),
        ("and need not be there", CODE, {}, {"a": {"probability": None}}),
        ("probabilities of the classes are read, and name the class where no column does",
         "id,rle,probability_Tumour,probability_stroma\na,1 1,0.25,0.5\na,3 1,0.5,0.5\n", TWO,
         {"a": {"class_probability": [[0.25, 0.5], [0.5, 0.5]], "class_id": [2, 1]}}),
        ("sizes that fit are fine", "id,rle,Height,Width\na,1 1,3,5\nb,1 1,4,2\n", {},
         {"a": {"source_id": [2]}, "b": {"source_id": [3]}}),
    ],
    [
        ("id,rle,Height,Width\na,1 1,5,3\na,2 1,5,3\nb,1 1,4,2\n", {},
         [f"[wrong-shape] line {line}: an image of height '5' and width '3'; expected 3 and 5, the height and width of "
          "the image. Write the codes for the size of the image." for line in (2, 3)]),
        *((f"id,rle\na,1 1\na,{code}\n", {}, ["[invalid-rle] line 3: "])
          for code in ("1", "0 1", "16 1", "15 2", "1 2 2 2", "a b", "9" * 40 + " 1")),
        ("id,rle,class,score,height,width\na,0 1,Tumor,2,3,4\na,1 1,Tumour,,3,5\n", TWO,
         ["[unknown-class] line 2: 'Tumor'", "[invalid-probability] line 2", "[missing-probability] line 3",
          "[wrong-shape] line 2", "[invalid-rle] line 2"]),
        ("ImageId,Pixels\na,1 1\n", {}, "[missing-column] no such column among"),
        ("id,rle\na,1 1\na,2 1\na,3 1\n", LIMIT,
         ["[too-large] case 'a': 3 nuclei; expected at most 2. Remove some, or raise limits.instances_per_case in "
          "challenge.toml."]),
        ("id,rle\n" + "z,1 1\n" * 5, LIMIT, "[too-large] more than 4 rows"),
        ("id,rle\na,1 1\n", {"limits": {"bytes_per_file": 8}}, "[too-large]"),
        ("id,rle\n" + "a,2 3599999999\n" * 1000, {"cases": {"a": Case("a", "P", 60_000, 60_000)}},
         ["[too-complex-runs]"]),
    ],
    [("id,rle\n" + "".join(f"c{index},0 1\n" * 2 for index in range(30)), {"cases": MANY}, 20, 60)],
)  # fmt: skip
