"""What is wrong in a file, by its format."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import SimpleITK
import tifffile
from scipy.io import loadmat, savemat

from evaluation.challenge import LimitRules, format_rules
from evaluation.decoding import guard
from evaluation.decoding.pixels import read_image
from evaluation.findings import render_findings
from evaluation.findings.errors import InputFault
from evaluation.formats.format import Request, image_bytes
from evaluation.formats.tables import read_counts_csv_collection
from evaluation.matching import rules as matching_rules
from evaluation.model import Case, ClassTable
from evaluation.report.pictures import illustrate_cases
from findings.bench import PATIENTS, Bench, example_of, examples_of

# --- XML: outlines and points -----------------------------------------------------------------------------------------


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


def converted_xml(bench: Bench, content: str | bytes, name: str = "P1_1.xml") -> str:
    bench.write(name, content)
    return bench.convert(name, *CLASSES, "--from", "aperio_xml")


def submitted(bench: Bench, *regions: str, limits: Mapping[str, int] | None = None, **rules: str) -> str:
    bench.make("aperio_xml", cases=PATIENTS, submission={"files": "{case}.xml", **rules}, limits=limits or {})
    bench.write("submission/P1_1.xml", aperio(*regions, class_name="Epithelial"))
    return bench.validate()


@example_of("too-slow")
def endless_to_decode(bench: Bench) -> str:
    """No time at all is waited for the answer."""
    bench.patch.setattr(guard, "WAITED", 1e-9)
    return submitted(bench, region(1))


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


examples_of(
    {
        "not-xml": lambda bench: converted_xml(bench, "<Annotations>" + "\n" * 811),  # file that is cut off
        "forbidden-xml": lambda bench: converted_xml(
            bench, "<!DOCTYPE Annotations>" + aperio(region(1))
        ),  # document type
        # gzip that is cut off
        "unreadable-file": lambda bench: converted_xml(
            bench, gzip.compress(aperio(region(1)).encode())[:-9], "P1_1.xml.gz"
        ),
        # too many vertices
        "too-large": lambda bench: submitted(
            bench, *(region(index) for index in range(400)), limits={"vertices_per_file": 1000}
        ),
        # plural
        "unknown-class": lambda bench: converted_xml(
            bench, aperio(*(region(index) for index in range(1, 19)), class_name="Lymphocytes", layer=2)
        ),
        # not a number
        "invalid-coordinate": lambda bench: converted_xml(bench, aperio(region(3, *[(1, 2)] * 11, (1, "NaN")))),
        "unsupported-shape": lambda bench: converted_xml(bench, aperio(region(3, Type=2))),  # ellipse
        "hole-without-outline": lambda bench: submitted(bench, region(9, NegativeROA=1)),  # lost hole
        # outline between pixel centres
        "vanished-outline": lambda bench: submitted(
            bench, region(3, (1.6, 1.6), (1.9, 1.6), (1.9, 1.9)), vanished="error"
        ),
    }
)

# --- JSON -------------------------------------------------------------------------------------------------------------


PATH = [[1, 1, 0.5], [9, 1, 0.5], [9, 8, 0.5]]


def polygon(path: list[list[float]] = PATH, **keys: Any) -> dict[str, Any]:
    return {"name": "Epithelial", "path_points": path, **keys}


def converted(bench: Bench, format: str, document: Any) -> str:
    """What is said about a file of one case, to whoever converts it."""
    name = "nuclei.geojson" if format == "geojson" else "nuclei.json"
    bench.write(name, document)
    return bench.convert(name, "--from", format)


def polygons(bench: Bench, *items: Any) -> str:
    document = {"type": "Multiple polygons", "version": {"major": 1, "minor": 0}, "polygons": items}
    return converted(bench, "polygons_json", document)


@example_of("invalid-annotation")
def ring_without_its_list(bench: Bench) -> str:
    geometry = {"type": "Polygon", "coordinates": [[1, 2], [5, 2], [1, 6]]}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": "Epithelial"}}}
    return converted(bench, "geojson", {"type": "FeatureCollection", "features": [feature]})


@example_of("many-parts")
def all_nuclei_in_one_feature(bench: Bench) -> str:
    parts = [[[[x, 1], [x + 1, 1], [x + 1, 9], [x, 1]]] for x in range(1, 23, 2)]
    geometry = {"type": "MultiPolygon", "coordinates": parts}
    feature = {"type": "Feature", "geometry": geometry, "properties": {"classification": {"name": "Epithelial"}}}
    return converted(bench, "geojson", {"type": "FeatureCollection", "features": [feature]})


examples_of(
    {
        # number that json does not know
        "not-json": lambda bench: converted(bench, "points_json", '{"type": "Multiple points", "points": [  NaN]}'),
        "too-deep": lambda bench: converted(bench, "polygons_json", "[" * 40 + "]" * 40),  # forty brackets
        # two lists
        "duplicate-key": lambda bench: converted(
            bench, "polygons_json", '{"type": "Multiple polygons", "polygons": [], "polygons": []}'
        ),
        "empty-polygon": lambda bench: polygons(bench, polygon(), polygon([])),  # contour that came out empty
        "invalid-probability": lambda bench: polygons(
            bench, polygon(probability=1), polygon(probability=1.5)
        ),  # logits
        # half of the probabilities
        "missing-probability": lambda bench: polygons(bench, polygon(probability=1), polygon()),
    }
)

# --- COCO and run-length codes ----------------------------------------------------------------------------------------


def codes(bench: Bench, height: int, width: int, *codes: str) -> str:
    """What is said about run-length codes of the only case."""
    bench.make("rle_csv", cases=(Case("case_017", "P1", height, width, 0.25, 0),))
    rows = [f"case_017,{code},Epithelial" for code in codes]
    bench.write("submission/codes.csv", "\n".join(["image_id,rle,class", *rows, ""]))
    return bench.validate()


examples_of(
    {
        "invalid-rle": lambda bench: codes(bench, 4, 5, "1 2 3"),  # start without length
        "too-complex-runs": lambda bench: codes(bench, 300_000, 2, *["1 600000"] * 3),  # codes of the background
        # geojson as coco
        "not-coco": lambda bench: converted(bench, "coco_json", {"type": "FeatureCollection", "features": []}),
    }
)

# --- CSV files, and tables of classes ---------------------------------------------------------------------------------


def converted_csv(bench: Bench, name: str, text: str) -> str:
    bench.write(name, text)
    return bench.convert(name, "--from", "points_csv", to="platform")


def class_table(bench: Bench, text: str) -> str:
    bench.make("label_image class table", submission={"class_table": "{case}_classes.csv"})
    bench.write("submission/case_017_classes.csv", text)
    return bench.validate()


def counts(text: str) -> str:
    """What is said about a table of counts, which no challenge asks for yet: the reader is asked itself."""
    rules = format_rules(format="rle_csv", files="counts.csv", pixel_order="row", first_pixel=0)
    classes = ClassTable(("plasma", "tumour"), {"plasma": 1, "tumour": 2})
    request = Request(where="'counts.csv'", name="counts.csv", rules=rules, classes=classes, limits=LimitRules())
    cases = {f"case_{number}": Case(f"case_{number}", "P1", 20, 30) for number in ("017", "018", "019")}
    try:
        read_counts_csv_collection(io.BytesIO(text.encode()), request, cases)
    except InputFault as fault:
        return "\n".join(render_findings(fault.findings))
    return ""


@example_of("other-case")
def row_of_another_case(bench: Bench) -> str:
    bench.make("points_csv")
    bench.write("submission/case_017.csv", "case,x,y,class\ncase_017,1,2,Epithelial\ncase_018,1,2,Epithelial\n")
    return bench.validate()


examples_of(
    {
        # cell that is missing
        "invalid-csv": lambda bench: converted_csv(bench, "nuclei.csv", "x,y,class\n1,2,plasma\n1,2\n"),
        "missing-column": lambda bench: converted_csv(bench, "points.csv", "x,yy\n1,2\n"),  # misspelt column
        # two classes of an id
        "duplicate-row": lambda bench: class_table(
            bench, "id,class\n1,Epithelial\n2,Lymphocyte\n3,Epithelial\n2,Epithelial\n"
        ),
        "invalid-class-table": lambda bench: class_table(bench, "id,class\nnucleus 7,Epithelial\n"),  # name as an id
        "row-count": lambda bench: counts("plasma,tumour\n1,2\n3,4\n"),  # row too few
        "invalid-count": lambda bench: counts("case,plasma,tumour\ncase_017,-1,2\n"),  # count below nought
    }
)

# --- label images -----------------------------------------------------------------------------------------------------


SHAPE = (20, 31)
LABELS = np.zeros(SHAPE, np.uint16)


def label_image(bench: Bench, suffix: str, content: Any, shape_yx: tuple[int, int] = SHAPE) -> str:
    """What is said about a label image of the only case and class."""
    case = Case("case_017", "P1", *shape_yx, 0.25, 0)
    nucleus = [{"name": "nucleus"}]
    bench.make("label_image by class", cases=(case,), classes=nucleus, submission={"files": f"{{case}}{suffix}"})
    bench.write(f"submission/case_017{suffix}", content)
    return bench.validate()


def n_ary_mask(bench: Bench, shape_yx: tuple[int, int], **variables: Any) -> str:
    """What is said about a MATLAB file of P1_1."""
    bench.make("nary_mat", cases=(Case("P1_1", "P1", *shape_yx, 0.25, 0),))
    savemat("submission/P1/P1_1/Epithelial/1.mat", variables)
    return bench.validate()


@example_of("components")
def mask_with_corners(bench: Bench) -> str:
    case, mask = Case("case_017", "P1", *SHAPE, 0.25, 0), np.zeros(SHAPE, np.uint8)
    mask[2:5, 3:6] = mask[5:8, 6:9] = mask[12:15, 20:22] = mask[18, 1] = 255
    rules = {"files": "{case}.png", "components": 8}
    bench.make("label_image by class", cases=(case,), classes=[{"name": "nucleus"}], submission=rules)
    bench.write("submission/case_017.png", image_bytes(mask, ".png"))
    return bench.validate()


@example_of("wrong-spacing")
def other_resolution(bench: Bench) -> str:
    image = SimpleITK.GetImageFromArray(LABELS)
    image.SetSpacing([0.0005, 0.0005])
    SimpleITK.WriteImage(image, "a.nii.gz")
    return label_image(bench, ".nii.gz", Path("a.nii.gz").read_bytes())


@example_of("pickle")
def pickled_dictionary(bench: Bench) -> str:
    np.save("pickled.npy", np.array([{"inst_map": LABELS}], object), allow_pickle=True)
    return label_image(bench, ".npy", Path("pickled.npy").read_bytes())


@example_of("several-images")
def three_pages(bench: Bench) -> str:
    file = io.BytesIO()
    tifffile.imwrite(file, np.stack([LABELS] * 3), photometric="minisblack")
    return label_image(bench, ".tif", file.getvalue())


@example_of("external-data")
def header_alone(bench: Bench) -> str:
    header = "NDims = 2\nDimSize = 31 20\nElementType = MET_INT\nElementDataFile = case_017.raw\n"
    return label_image(bench, ".mha", header)


@example_of("negative-label")
def background_of_minus_one(bench: Bench) -> str:
    labels = np.zeros((1024, 1024), np.int16)
    labels[0, 517:] = labels[1, :777] = -1
    header = "NDims = 2\nDimSize = 1024 1024\nElementType = MET_SHORT\nElementDataFile = LOCAL\n"
    return label_image(bench, ".mha", header.encode() + labels.tobytes(), labels.shape)


@example_of("binary-mask")
def threshold(bench: Bench) -> str:
    labels = np.zeros((10, 74), np.uint8)
    labels[5, ::2] = 1
    return label_image(bench, ".npy", labels, labels.shape)


@example_of("not-annotated")
def void_of_255(bench: Bench) -> str:
    labels = np.zeros((40, 60), np.uint8)
    labels.reshape(-1)[:1284] = 255
    labels[30, :12] = np.arange(1, 13)
    return label_image(bench, ".png", image_bytes(labels, "a.png"), labels.shape)


@example_of("unknown-class-value")
def class_of_another_challenge(bench: Bench) -> str:
    bench.make("label_image class map npy", submission={"class_map": "{case}_classes.npy"})
    classes = np.load("submission/case_017_classes.npy")
    classes[0, 3:15] = 7
    bench.write("submission/case_017_classes.npy", classes)
    return bench.validate()


examples_of(
    {
        "wrong-format": lambda bench: label_image(bench, ".tif", image_bytes(LABELS, ".png")),  # renamed png
        "unsupported-format": lambda bench: label_image(bench, ".bmp", b"BM"),  # bitmap
        "no-mask-variable": lambda bench: n_ary_mask(bench, SHAPE, a=LABELS, b=LABELS),  # two variables
        "not-numeric": lambda bench: label_image(bench, ".npy", LABELS * 1j),  # complex numbers
        # transposed
        "wrong-shape": lambda bench: n_ary_mask(bench, (1153, 1307), n_ary_mask=np.zeros((1307, 1153), np.uint8)),
        # result of a division
        "not-finite": lambda bench: label_image(bench, ".npy", np.array([[0, 1, np.nan], [np.inf, 0, 0]]), (2, 3)),
        # probabilities
        "fractional-label": lambda bench: label_image(bench, ".npy", np.array([[0, 1, 0], [0.5, 0.5, 0.5]]), (2, 3)),
        # minus one as unsigned
        "label-too-large": lambda bench: label_image(
            bench, ".npy", np.array([[0, 2**64 - 1, 0], [0, 0, 0]], np.uint64), (2, 3)
        ),
    }
)

# --- MATLAB files, arrays of all cases, colours -----------------------------------------------------------------------


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


# --- what cannot be written or drawn ----------------------------------------------------------------------------------


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
