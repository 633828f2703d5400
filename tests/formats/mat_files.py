"""MATLAB files: n-ary masks, and HoVer-Net's."""

from __future__ import annotations

from typing import Any

import numpy as np

from formats import Table
from formats.pixels import LABELS, SHAPE, TWO, mat_7_3, mat_file

HOVERNET = {"format": "hovernet_mat", "classes": TWO, "class_values": None}
HOW_TO_SAVE = (
    "expected a MATLAB file of version 6 or 7. Save it with '-v7' instead of '-v7.3'; from Python use scipy.io.savemat."
)
NO_NUCLEUS = {"inst_uid": np.zeros((0, 1)), "inst_type": np.zeros((0, 1)), "inst_centroid": np.zeros((0, 0))}
TYPE_MAP = np.zeros(SHAPE, np.uint8)
TYPE_MAP[LABELS == 2], TYPE_MAP[LABELS == 7] = 30, 10
TYPE_MAP[2:5, 5:20] = 20
BOXES = {"bbox": np.zeros((3, 4)), "centroid": np.zeros((3, 2))}
ALL_TYPES = np.arange(101, 720)[:, None]
ONE_MAP = mat_file({"inst_map": LABELS})

READ: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("a mask whose nuclei all have the label 1 gives a warning", mat_file({"n_ary_mask": LABELS > 0}), {},
     {"findings": ["[binary-mask]"]}),
    ("the class of the path is that of a mask", mat_file({"n_ary_mask": LABELS}), {"classes": TWO, "file_class": 2},
     {"class_id": 2, "class_map": None, "class_of_instance": None}),
    *((f"other variables are not decompressed ({name})", mat_file({name: LABELS, "b": np.zeros((3000, 1000))},
       do_compression=True), {**rules, "limits": {"bytes_per_file": 100_000}}, {"labels": LABELS})
      for name, rules in (("n_ary_mask", {}), ("inst_map", HOVERNET))),
    # --- HoVer-Net
    ("types belong to the ids in ascending order",
     mat_file({"inst_map": LABELS, "inst_type": np.array([[20], [10], [30]])}), HOVERNET,
     {"labels": LABELS, "class_of_instance": [2, 1, -1], "class_id": 0, "class_map": None, "source": "a.mat"}),
    *(("types may be a row or a column of floats",
       mat_file({"inst_map": LABELS.astype(float), "inst_type": np.array([20.0, 0, 10]).reshape(shape)}), HOVERNET,
       {"class_of_instance": [2, 0, 1]}) for shape in ((3, 1), (1, 3))),
    ("types with ids belong to these, and others have none",
     mat_file({"inst_map": LABELS, "inst_uid": [[300], [2], [4]], "inst_type": [[20], [10], [30]]}), HOVERNET,
     {"class_of_instance": [1, 0, 2]}),
    ("a type map gives the class of most pixels", mat_file({"inst_map": LABELS, "type_map": TYPE_MAP}), HOVERNET,
     {"class_of_instance": None, "final_class": [-1, 1, 0]}),
    ("types count before a type map",
     mat_file({"inst_map": LABELS, "inst_type": [[10], [10], [10]], "type_map": np.full(SHAPE, 20)}), HOVERNET,
     {"final_class": [1, 1, 1]}),
    *(("no types are needed where the class is known, and without them there is none", content, options,
       {"final_class": ids}) for content, options, ids in (
        (mat_file({"inst_map": LABELS, "inst_type": [[99]]}), HOVERNET | {"file_class": 2}, [2, 2, 2]),
        (ONE_MAP, {"format": "hovernet_mat"}, [1, 1, 1]), (ONE_MAP, HOVERNET, [0, 0, 0]))),
    *(("an image without nuclei has an empty list of types", mat_file({"inst_map": labels, **NO_NUCLEUS}), HOVERNET,
       {"final_class": classes}) for labels, classes in ((LABELS * 0, []), (LABELS, [0, 0, 0]))),
    *(("class and id of Lizard are types and their ids",  # scripts/README of the data set
       mat_file({"inst_map": LABELS, ids: [[300], [2], [7]], "class": [[20], [10], [30]], **BOXES}), HOVERNET,
       {"class_of_instance": [1, -1, 2]}) for ids in ("id", "nuclei_id")),
]  # fmt: skip

REFUSED: list[tuple[Any, dict[str, Any], Any]] = [
    *((content, {}, [f"[unsupported-format] an HDF5 file, as MATLAB 7.3 writes it; {HOW_TO_SAVE}"])
      for content in (mat_7_3({"n_ary_mask": LABELS}), mat_7_3({"n_ary_mask": LABELS})[512:])),
    # --- HoVer-Net
    (mat_file({"inst_map": LABELS, "inst_uid": [[2], [2], [7]], "inst_type": [[10], [10], [10]]}), HOVERNET,
     ["[wrong-length] 1 repeated ids in 'inst_uid'; expected each id once. Write 'inst_type' in the order of "
      "numpy.unique(inst_map)[1:], or write their ids as 'inst_uid'."]),
    *((mat_file({"inst_map": labels, "inst_type": [[10, 10], [10, 10]]}), HOVERNET,
       ["[wrong-length] 'inst_type': an array of 2 x 2; expected one column of"])
      for labels in (LABELS, np.arange(620).reshape(SHAPE) % 5)),  # as many classes as nuclei, or more
    (mat_file({"inst_map": LABELS, "id": [[300], [2], [7]], "class": [[10]], **BOXES}), HOVERNET,
     ["[wrong-length] 1 class in 'class' for 3 nuclei; expected one class for each nucleus. Write 'class' in the order "
      "of numpy.unique(inst_map)[1:], or write their ids as 'id'."]),
    (mat_file({"inst_map": LABELS, "inst_type": [[4], [10], [4]]}), HOVERNET,
     ["[unknown-class-value] 'inst_type': the value 4 for 2 nuclei (first for the id 2); expected 0 for no class, 10 "
      "('tumour'), 20 ('stroma'), 30 ('debris'). Write the values that the challenge gives to its classes."]),
    (mat_file({"inst_map": LABELS, "type_map": LABELS}), HOVERNET,
     "[unknown-class-value] 'type_map': the value 2 in 1 pixel"),
    (mat_file({"inst_map": LABELS, "inst_type": np.array([[10], [20], [0.5]])}), HOVERNET,
     ["[fractional-label] 'inst_type': 1 of 3 pixels is not a whole number"]),
    (mat_file({"n_ary_mask": LABELS, "type_map": LABELS}), HOVERNET,
     ["[no-mask-variable] the variables 'n_ary_mask' and 'type_map'; expected a variable 'inst_map'. Save the label "
      "image as 'inst_map'."]),
    (mat_file({"inst_map": "text"}), HOVERNET,
     ["[not-numeric] 'inst_map' is a text; expected an array of whole numbers."]),
    (ONE_MAP + ONE_MAP[128:], HOVERNET, ["[no-mask-variable] the variable 'inst_map' 2 times; expected each"]),
]  # fmt: skip

TABLE = Table(
    {"format": "nary_mat", "shape_yx": SHAPE},
    READ,
    REFUSED,
    [(mat_file({"inst_map": np.arange(620).reshape(SHAPE), "inst_type": ALL_TYPES}), HOVERNET, 8, 619)],
)
