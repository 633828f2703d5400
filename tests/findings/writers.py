"""What a file that is written cannot hold."""

from __future__ import annotations

from findings.annotations import CLASSES, aperio, region
from findings.bench import Bench
from findings.registry import example_of


@example_of("overlap-in-label-map")
def outlines_that_overlap(bench: Bench) -> str:
    bench.write("P1_1.xml", aperio(region(1, (1, 2), (4, 2), (1, 5)), region(2, (4, 2), (9, 2), (9, 7))))
    return bench.convert("P1_1.xml", *CLASSES, "--from", "aperio_xml", "--size", "20x30", to="label_tiff")
