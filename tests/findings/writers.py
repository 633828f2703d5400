"""What a file that is written cannot hold, and a picture cannot show."""

from __future__ import annotations

import numpy as np

from evaluation.findings import render_findings
from evaluation.report.pictures import illustrate_cases
from findings.annotations import CLASSES, aperio, region
from findings.bench import Bench
from findings.registry import example_of


@example_of("overlap-in-label-map")
def outlines_that_overlap(bench: Bench) -> str:
    bench.write("P1_1.xml", aperio(region(1, (1, 2), (4, 2), (1, 5)), region(2, (4, 2), (9, 2), (9, 7))))
    return bench.convert("P1_1.xml", *CLASSES, "--from", "aperio_xml", "--size", "20x30", to="label_tiff")


@example_of("image-left-out")
def image_of_another_size(bench: Bench) -> str:
    bench.make("geojson outlines")
    bench.write("challenge/images/case_017.png", np.zeros((10, 15), np.uint8))
    seen = illustrate_cases("challenge", "submission", drawn=["case_017"])
    return "\n".join(render_findings(seen.findings))
