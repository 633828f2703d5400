"""Annotations as XML: outlines and points."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from evaluation.decoding import guard
from evaluation.matching import rules as matching_rules
from findings.bench import PATIENTS, Bench
from findings.registry import example_of

CLASSES = ("--classes", "epithelial,lymphocyte")
CORNERS = ((1, 2), (9, 2), (9, 8))


def region(number: int, *corners: tuple[object, object], **attributes: object) -> str:
    vertices = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in corners or CORNERS)
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f'<Region Id="{number}"{given}><Vertices>{vertices}</Vertices></Region>'


def aperio(*regions: str, class_name: str = "epithelial", layer: int = 1) -> str:
    name = f'<Attributes><Attribute Name="{class_name}"/></Attributes>'
    return (
        f'<Annotations><Annotation Id="{layer}">{name}<Regions>{"".join(regions)}</Regions></Annotation></Annotations>'
    )


def converted(bench: Bench, text: str) -> str:
    bench.write("P1_1.xml", text)
    return bench.convert("P1_1.xml", *CLASSES, "--from", "aperio_xml")


def submitted(bench: Bench, *regions: str, limits: Mapping[str, int] | None = None, **rules: str) -> str:
    bench.make("aperio_xml", cases=PATIENTS, submission={"files": "{case}.xml", **rules}, limits=limits or {})
    bench.write("submission/P1_1.xml", aperio(*regions, class_name="Epithelial"))
    return bench.validate()


@example_of("not-xml")
def file_that_is_cut_off(bench: Bench) -> str:
    return converted(bench, "<Annotations>" + "\n" * 811)


@example_of("forbidden-xml")
def document_type(bench: Bench) -> str:
    return converted(bench, "<!DOCTYPE Annotations>" + aperio(region(1)))


@example_of("unreadable-file")
def gzip_that_is_cut_off(bench: Bench) -> str:
    bench.write("P1_1.xml.gz", gzip.compress(aperio(region(1)).encode())[:-9])
    return bench.convert("P1_1.xml.gz", *CLASSES, "--from", "aperio_xml")


@example_of("too-large")
def too_many_vertices(bench: Bench) -> str:
    return submitted(bench, *(region(index) for index in range(400)), limits={"vertices_per_file": 1000})


@example_of("too-slow")
def endless_to_decode(bench: Bench) -> str:
    """No time at all is waited for the answer."""
    bench.patch.setattr(guard, "WAITED", 1e-9)
    return submitted(bench, region(1))


@example_of("unknown-class")
def plural(bench: Bench) -> str:
    return converted(bench, aperio(*(region(index) for index in range(1, 19)), class_name="Lymphocytes", layer=2))


@example_of("not-scored")
def ambiguous_nucleus(bench: Bench) -> str:
    nuclei = [
        aperio(region(1), class_name=name, layer=layer) for layer, name in enumerate(("Ambiguous", "Epithelial"), 1)
    ]
    layers = "".join(text.removeprefix("<Annotations>").removesuffix("</Annotations>") for text in nuclei)
    ignore = {"ignore": {"classes": ["Ambiguous"], "policy": "clip"}}
    bench.make("aperio_xml", cases=PATIENTS, submission={"files": "{case}.xml"}, reference=ignore)
    bench.write("submission/P1_1.xml", f"<Annotations>{layers}</Annotations>")
    return bench.validate()


@example_of("invalid-coordinate")
def not_a_number(bench: Bench) -> str:
    return converted(bench, aperio(region(3, *[(1, 2)] * 11, (1, "NaN"))))


@example_of("unsupported-shape")
def ellipse(bench: Bench) -> str:
    return converted(bench, aperio(region(3, Type=2)))


@example_of("left-out")
def regions_of_interest_among_points(bench: Bench) -> str:
    def annotation(kind: str, *corners: tuple[int, int]) -> str:
        points = "".join(f'<Coordinate Order="{i}" X="{x}" Y="{y}"/>' for i, (x, y) in enumerate(corners))
        group = "nucleus" if kind == "Dot" else "ROI"
        return f'<Annotation Type="{kind}" PartOfGroup="{group}"><Coordinates>{points}</Coordinates></Annotation>'

    annotations = [annotation("Polygon", *CORNERS), annotation("Dot", (2, 3)), annotation("Polygon", *CORNERS)]
    text = f"<ASAP_Annotations><Annotations>{''.join(annotations)}</Annotations></ASAP_Annotations>"
    nucleus = [{"name": "nucleus"}]
    bench.make("asap_xml points", cases=PATIENTS, classes=nucleus, submission={"other_shapes": "skip"})
    bench.write("submission/P1_1.xml", text)
    return bench.validate()


@example_of("hole-without-outline")
def lost_hole(bench: Bench) -> str:
    return submitted(bench, region(9, NegativeROA=1))


@example_of("vanished-outline")
def outline_between_pixel_centres(bench: Bench) -> str:
    return submitted(bench, region(3, (1.6, 1.6), (1.9, 1.6), (1.9, 1.9)), vanished="error")


@example_of("too-many-overlaps")
def one_nucleus_forty_times(bench: Bench) -> str:
    bench.make("aperio_xml", cases=PATIENTS, submission={"files": "{case}.xml"}, limits={"overlaps_per_case": 0})
    stacked = (region(number) for number in range(1, 41))
    bench.write("submission/P1_1.xml", aperio(*stacked, class_name="Epithelial"))
    return bench.score()


@example_of("case-too-costly")
def table_of_more_pairs_than_allowed(bench: Bench) -> str:
    """Four points against the three of the reference, with room for the three alone."""
    rule = {"name": "after", "rule": "centroid_assignment", "radius_px": 3.0, "cutoff": "after"}
    rules = [{**rule, "class_aware": False, "ties": "first_pixel"}]
    bench.make("points_csv", cases=PATIENTS, matching={"rules": rules})
    points = [f"{x},2,Epithelial" for x in (1, 2, 3, 4)]
    bench.write("submission/P1_1.csv", "\n".join(["x,y,class", *points, ""]))
    bench.patch.setattr(matching_rules, "MOST_PAIRS", 9)
    return bench.score("--workers", 1)


@example_of("too-complex-outlines")
def endless_zigzag(bench: Bench) -> str:
    corners = [(x, y * 1_000_000) for x in range(450) for y in (0, 1)]
    bench.write("P1_1.xml", aperio(region(3, *corners)))
    size = ("--size", "2000000x500")
    return bench.convert("P1_1.xml", *CLASSES, "--from", "aperio_xml", *size, to="label_tiff")
