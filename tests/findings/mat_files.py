"""MATLAB files of HoVer-Net, arrays of all cases, and colour-coded maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, savemat

from evaluation.decoding.pixels import read_image
from findings.bench import Bench
from findings.registry import example_of


def two_classes(**rules: Any) -> dict[str, Any]:
    return {"classes": [{"name": "tumour"}, {"name": "stroma"}], "submission": rules, "reference": rules}


@example_of("wrong-length")
def a_class_too_few(bench: Bench) -> str:
    bench.make("hovernet_mat")
    content = {key: loadmat("submission/case_017.mat")[key] for key in ("inst_map", "inst_type")}
    savemat("submission/case_017.mat", content | {"inst_type": content["inst_type"][:2]})
    return bench.validate()


@example_of("unnamed-channel")
def nuclei_in_another_channel(bench: Bench) -> str:
    bench.make("pannuke_masks", **two_classes(class_values={"tumour": 0, "stroma": 2}))
    masks = np.load("submission/case_017.npy")
    bench.write("submission/case_017.npy", masks[:, :, [1, 0, 2, 3, 4, 5]])
    return bench.validate()


@example_of("unknown-colour")
def another_red(bench: Bench) -> str:
    colours = {"tumour": "#ff0000", "stroma": "#0000ff"}
    bench.make("colour_map", **two_classes(colours=colours, border_colour="#8b4513"))
    with Path("submission/case_017.png").open("rb") as stream:
        picture = read_image(stream, suffix=".png", where="", shape_yx=(20, 30), bytes_limit=10**6, channels=3).copy()
    picture[0, 1:3] = (254, 0, 0)
    bench.write("submission/case_017.png", picture)
    return bench.validate()
