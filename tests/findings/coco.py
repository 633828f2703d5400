"""COCO and run-length codes."""

from __future__ import annotations

from evaluation.model import Case
from findings.bench import Bench
from findings.registry import example_of


def codes(bench: Bench, height: int, width: int, *codes: str) -> str:
    """What is said about run-length codes of the only case."""
    bench.make("rle_csv", cases=(Case("case_017", "P1", height, width, 0.25, 0),))
    rows = [f"case_017,{code},Epithelial" for code in codes]
    bench.write("submission/codes.csv", "\n".join(["image_id,rle,class", *rows, ""]))
    return bench.validate()


@example_of("invalid-rle")
def start_without_length(bench: Bench) -> str:
    return codes(bench, 4, 5, "1 2 3")


@example_of("too-complex-runs")
def codes_of_the_background(bench: Bench) -> str:
    return codes(bench, 300_000, 2, *["1 600000"] * 3)


@example_of("not-coco")
def geojson_as_coco(bench: Bench) -> str:
    bench.write("nuclei.json", {"type": "FeatureCollection", "features": []})
    return bench.convert("nuclei.json", "--from", "coco_json")
