"""Why a nucleus is not matched and why a team is behind, in words; the reasons of real nuclei from dense masks."""

from __future__ import annotations

import csv
import gzip
import json
import random
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import shapely
import skimage.draw

from evaluation.commands.main import run
from evaluation.report.folders import read_result
from evaluation.report.reasons import nuclei_of_columns

Ring = list[tuple[float, float]]
Key = tuple[int, str]
Pixels = npt.NDArray[np.int64]


def explained(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert (run(["explain", *map(str, arguments)]) == 0) == (code == 0)
    output = capsys.readouterr()
    return output.out + output.err


def rows_of(folder: Path, rule: str) -> dict[str, dict[str, str]]:
    """The reference nuclei of P1_1 in objects.csv under a rule, by their ids."""
    with (folder / "objects.csv").open() as stream:
        return {
            row["reference_id"]: row
            for row in csv.DictReader(stream)
            if row["case"] == "P1_1" and row["rule"] == rule and row["reference_id"]
        }


def test_a_nucleus_is_explained_under_every_matching_rule(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pages / "results" / "outliner"
    by_iou, by_centroid = (rows_of(folder, rule) for rule in ("iou_above", "centroid_closest_first"))
    missed = next(id for id, row in by_iou.items() if row["outcome"] == "missed")
    words = explained(capsys, "--results", folder, "--case", "P1_1", "--at", missed)
    row = by_iou[missed]
    assert f"reference nucleus '{missed}'" in words and "is a false negative" in words
    assert f"{float(row['nearest_distance_px']):.1f} px" in words and row["nearest_id"] in words
    other = by_centroid[missed]
    is_matched = other["outcome"] == "matched"
    became = f"matched to predicted nucleus '{other['prediction_id']}'" if is_matched else "not matched"
    assert (
        f"'centroid_closest_first' needs centroids at most 12 px apart: reference nucleus '{missed}' is {became}"
        in (" ".join(words.split()))
    )


def test_a_place_outside_has_no_nucleus(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pages / "results" / "outliner"
    row = next(iter(rows_of(folder, "iou_above").values()))
    near = f"{float(row['row']):.0f},{float(row['column']):.0f}"
    assert row["reference_id"] in explained(capsys, "--results", folder, "--case", "P1_1", "--at", near)
    for place in ("5000,20", "20,5000", "-900,-900"):
        words = explained(capsys, "--results", folder, "--case", "P1_1", f"--at={place}", code=2)
        assert "The nuclei of the case are in" in " ".join(words.split())


def test_a_team_reads_what_one_more_percent_would_change(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From objects.csv: a hundredth of the reference nuclei of each patient would be true positives, too."""
    words = explained(capsys, "--results", pages, "--team", "outliner")
    with (pages / "results/outliner/objects.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above"]
    patients = sorted({row["group"] for row in rows})
    means = []
    for share in (0, Fraction(1, 100)):
        f1 = []
        for patient in patients:
            counts = Counter(row["outcome"] for row in rows if row["group"] == patient)
            more = min(share * (counts["matched"] + counts["missed"]), counts["missed"])
            hits = counts["matched"] + more
            f1.append(2 * hits / (2 * hits + counts["missed"] - more + counts["spurious"]))
        means.append(float(sum(f1) / len(f1)))
    assert f"would be {means[1]:.4f} instead of {means[0]:.4f}: rank" in " ".join(words.split())


def test_a_team_reads_what_one_more_percent_of_each_class_would_change(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From objects.csv, for each patient: F1 of each class, from shares of its reference nuclei."""
    words = " ".join(explained(capsys, "--results", pages, "--team", "outliner").split())
    with (pages / "results/outliner/objects.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above" and row["reference_id"]]
    rows = [row for row in rows if row["outcome"] in ("matched", "missed")]
    means = []
    for share in (0, Fraction(1, 100)):
        of_patients = []
        for patient in sorted({row["group"] for row in rows}):
            pairs = Counter((r["reference_class"], r["prediction_class"]) for r in rows if r["group"] == patient)
            names = sorted({reference for reference, _ in pairs})
            number = {name: sum(count for (one, _), count in pairs.items() if one == name) for name in names}
            more = {name: min(share * number[name], pairs[name, ""]) for name in names}
            of_classes = []
            for name in names:
                named = sum(Fraction(pairs[one, name], number[one]) for one in names) + more[name] / number[name]
                of_classes.append(2 * (pairs[name, name] + more[name]) / number[name] / (1 + named))
            of_patients.append(sum(of_classes) / len(of_classes))
        means.append(float(sum(of_patients) / len(of_patients)))
    assert f"`covered.class_f1.group_mean` would be {means[1]:.4f} instead of {means[0]:.4f}: rank" in words
    assert "Not computed for `covered.surface_dice.group_mean`." in words


def test_an_organiser_reads_how_many_nuclei_each_column_rests_on(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From objects.csv; outlines rest on the better half of the nuclei of each patient."""
    with (pages / "results/outliner/objects.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above" and row["outcome"] != "ignored"]
    numbers = Counter(row["group"] for row in rows if row["reference_id"]).values()
    halves = [-(-number // 2) for number in numbers]
    words = " ".join(explained(capsys, "--results", pages, "--team", "outliner").split())
    for paths, each, what in (
        ("`detection.f1.group_mean` and `covered.class_f1.group_mean`", [*numbers], "reference nuclei"),
        ("`covered.surface_dice.group_mean`", halves, "reference nuclei, the best 50%"),
    ):
        assert f"{paths}: {sum(each)} {what} ({min(each)} to {max(each)} in each of 4 patients)." in words
    of_a_part = ("panoptic.per_class.Epithelial.pq.pooled", "alternatives.centroid.segmentation.iou.pooled")
    assert nuclei_of_columns(of_a_part, read_result(pages / "results/outliner")) == []


def test_results_that_are_not_there_are_told(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no 'not there'" in explained(capsys, "--results", "not there", "--team", "outliner", code=2)


def test_what_an_ignore_region_took_says_so(pages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = pages / "results" / "outliner"
    with (folder / "objects.csv").open() as stream:
        (row, *_) = [row for row in csv.DictReader(stream) if row["outcome"] == "ignored" and row["prediction_id"]]
    words = explained(capsys, "--results", folder, "--case", row["case"], "--at", row["prediction_id"])
    assert (row["kind"], row["nearest_id"]) == ("ignored", "")
    assert "is ignored: all of it lies in an ignore region. It is in no score." in " ".join(words.split())


def test_distances_are_in_micrometres_where_the_size_of_a_pixel_is_known(
    pages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pixels of the demo are 0.25 µm wide."""
    folder = pages / "results" / "outliner"
    row = next(row for row in rows_of(folder, "iou_above").values() if row["outcome"] == "missed")
    words = explained(capsys, "--results", folder, "--case", "P1_1", "--at", row["reference_id"])
    px, area = float(row["nearest_distance_px"]), int(row["reference_area_px"])
    assert f"{px:.1f} px = {px / 4:.2f} µm" in " ".join(words.split())
    assert f", {area:,} px = {area / 16:.1f} µm²) at row" in " ".join(words.split())


# --- the same reasons from dense masks --------------------------------------------------------------------------------

SIDE = 1200  # px of the dense images
FREE = ("missed", "spurious")


class Dense:
    """Kinds, partners and candidates of the nuclei of an image by the words of docs/report.md, from sets of pixels.

    Nuclei match by an IoU above 1/2, the highest first, whatever their classes. Keys are side (0: reference) and id.

    pixels   flat indices of each nucleus
    region   where nothing is scored, bool (SIDE ** 2,)
    """

    def __init__(self, pixels: dict[Key, Pixels], classes: dict[Key, str], region: npt.NDArray[np.bool_]) -> None:
        inside = {key: float(region[own].mean()) for key, own in pixels.items()}
        self.pixels = {key: own[~region[own]] for key, own in pixels.items()}
        self.kinds = {key: "ignored" if inside[key] == 1 else FREE[key[0]] for key in pixels}
        self.centre = {key: np.array(np.divmod(own, SIDE)).mean(axis=1) for key, own in self.pixels.items() if len(own)}
        owners = defaultdict[int, list[Key]](list)
        for key, own in self.pixels.items():
            for pixel in own.tolist():
                owners[pixel].append(key)
        pairs = (pair for found in owners.values() for pair in combinations(found, 2))
        self.shared = Counter(pair[:: 1 if pair[0] <= pair[1] else -1] for pair in pairs)
        across = [(one, other) for one, other in self.shared if one[0] < other[0]]
        across.sort(key=lambda pair: -self.iou(*pair))
        given_up = self.given_up(across)
        self.partner = self.matches([pair for pair in across if pair[1] not in given_up])
        for one, other in self.partner.items():
            self.kinds[one] = "right" if classes[one] == classes[other] else "wrong_class"
        self.kinds |= {key: "ignored" for key in self.free(1) if inside[key] > 0.5}
        for one, other in self.twins():
            if (one in self.partner) != (other in self.partner):
                self.kinds[other if one in self.partner else one] = "duplicate"
        self.cover("split", 0, across)
        self.cover("merged", 1, across)
        for one, other in across:
            if self.iou(one, other) >= 0.1 and (self.kinds[one], self.kinds[other]) == FREE:
                self.kinds[one] = self.kinds[other] = "poor_outline"

    def matches(self, pairs: list[tuple[Key, Key]]) -> dict[Key, Key]:
        """Take pairs with an IoU above 1/2, which come in falling order, one to one."""
        partner = dict[Key, Key]()
        for one, other in pairs:
            if self.iou(one, other) > 0.5 and not {one, other} & partner.keys():
                partner |= {one: other, other: one}
        return partner

    def twins(self) -> list[tuple[Key, Key]]:
        """Predictions that share more than half of the smaller one."""
        smaller = {pair: min(len(self.pixels[key]) for key in pair) for pair in self.shared}
        return [pair for pair in self.shared if pair[0][0] == pair[1][0] == 1 and 2 * self.shared[pair] > smaller[pair]]

    def given_up(self, across: list[tuple[Key, Key]]) -> set[Key]:
        """Of twins that would not both match, the one that lies worse on a nucleus takes part (docs/matching.md)."""
        partner, fit = self.matches(across), dict[Key, float]()
        for one, other in across:
            if self.iou(one, other) > 0.5:
                fit.setdefault(other, self.iou(one, other))
        twins = [pair for pair in self.twins() if not (pair[0] in partner and pair[1] in partner)]
        given_up = set[Key]()
        for key in sorted({key for pair in twins for key in pair}, key=lambda key: fit.get(key, 2.0)):
            others = {one for pair in twins if key in pair for one in pair if one != key}
            given_up |= {key} if any(fit.get(one, 2.0) < fit.get(key, 2.0) for one in others - given_up) else set()
        return given_up

    def free(self, side: int) -> list[Key]:
        return [key for key, kind in self.kinds.items() if kind == FREE[side]]

    def iou(self, one: Key, other: Key) -> float:
        both = self.shared[min(one, other), max(one, other)]
        return both / (len(self.pixels[one]) + len(self.pixels[other]) - both)

    def cover(self, kind: str, side: int, across: list[tuple[Key, Key]]) -> None:
        """Find nuclei of a side that are covered in pieces, each of the nucleus with which it shares most."""
        most = dict[Key, tuple[Key, Key]]()
        for pair in across:
            whole, piece = pair[:: -1 if side else 1]
            is_open = self.kinds[piece] == FREE[1 - side] or self.partner.get(whole) == piece
            is_half = 2 * self.shared[pair] > len(self.pixels[piece])
            if is_open and is_half and 10 * self.shared[pair] >= len(self.pixels[whole]):
                most[piece] = max(most.get(piece, pair), pair, key=lambda pair: self.shared[pair])
        for whole in {pair[1 if side else 0] for pair in most.values()}:
            parts = [piece for piece, pair in most.items() if whole in pair]
            shared = sum(self.shared[min(whole, part), max(whole, part)] for part in parts)
            is_whole = self.kinds[whole] == FREE[side] or self.partner.get(whole) in parts
            if is_whole and len(parts) > 1 and 2 * shared > len(self.pixels[whole]):
                self.kinds |= {key: kind for key in (whole, *parts) if self.kinds[key] in FREE}

    def check(self, row: dict[str, str]) -> None:
        """Hold a row of a nucleus without a match to its best candidate; of equal ones any will do."""
        own = (0, row["reference_id"]) if row["reference_id"] else (1, row["prediction_id"])
        others = [key for key in self.centre if key[0] != own[0] and self.kinds[key] != "ignored"]
        apart = {key: float(np.hypot(*(self.centre[key] - self.centre[own]))) for key in others}
        best = max(others, key=lambda key: (self.iou(own, key), -apart[key]))
        named = 1 - own[0], row["nearest_id"]
        assert float(row["nearest_iou"]) == pytest.approx(self.iou(own, best), abs=1e-6)
        assert self.iou(own, named) == pytest.approx(self.iou(own, best), abs=1e-9)
        assert float(row["nearest_distance_px"]) == pytest.approx(apart[named], abs=1e-5)
        assert self.iou(own, best) > 0 or apart[named] == pytest.approx(apart[best], abs=1e-5)
        assert row["taken_by"] == self.partner.get(named, (0, ""))[1]
        assert (float(row["row"]), float(row["column"])) == pytest.approx(tuple(self.centre[own]), abs=1e-5)


def with_errors(rings: list[Ring], classes: list[str]) -> dict[str, tuple[Ring, str]]:
    """Predictions of nuclei that are right, absent, aside, in two parts, twice, misnamed, or joined."""
    made: dict[str, tuple[Ring, str]] = {}
    outlines = [shapely.Polygon(ring) for ring in rings]
    for number, (shape, name) in enumerate(zip(outlines, classes, strict=True)):
        what = number % 8
        (x0, y0, x1, y1), middle = shape.bounds, shape.centroid.x
        halves = [shapely.box(x0, y0, middle, y1), shapely.box(middle, y0, x1, y1)]
        near = min((other for other in outlines if other is not shape), key=shape.distance)
        aside = [shapely.affinity.translate(shape, by) for by in ((x1 - x0) / 2, 1)]
        shapes = {
            1: [], 2: aside[:1], 3: [shape.intersection(half) for half in halves], 4: [shape, aside[1]],
            6: [shape.union(near).convex_hull],
            7: [shape, shapely.Point(13 * number % 900, 29 * number % 900).buffer(5)],
        }.get(what, [shape])  # fmt: skip
        name = classes[0] if what == 5 else name
        parts = [one for one in shapes if one.geom_type == "Polygon" and one.area > 20]
        made |= {f"p{number}.{part}": ([*one.exterior.coords][:-1], name) for part, one in enumerate(parts)}
    return made


def outlined(folder: Path, name: str) -> tuple[list[str], dict[str, Dense]]:
    """Files of an image of ``rings_of`` with errors and a region that is not scored, and its dense masks."""
    rings, classes = rings_of(folder / name)
    inside = [at for at, ring in enumerate(rings) if np.min(ring) > 1 and np.max(ring) < 980][:160]
    reference = {f"r{at}": (rings[at], classes[at]) for at in inside}
    prediction = with_errors([rings[at] for at in inside], [classes[at] for at in inside])
    corner: Ring = [(990, 990), (999, 990), (999, 999), (990, 999)]  # the images end here
    region: Ring = [(400, 300), (700, 300), (700, 600), (400, 600)]
    sides = {**reference, "corner": (corner, "end")}, {**prediction, "corner": (corner, "end")}
    Path("reference.geojson").write_text(geojson({**sides[0], "void": (region, "void")}))
    Path("prediction.geojson").write_text(geojson(sides[1]))
    drawn = {(side, id): drawn_pixels(ring) for side, of in enumerate(sides) for id, (ring, _) in of.items()}
    named = {(side, id): name for side, of in enumerate(sides) for id, (_, name) in of.items()}
    void = np.zeros(SIDE**2, np.bool_)
    void[drawn_pixels(region)] = True
    return ["reference.geojson", "prediction.geojson", "--ignore", "void"], {"reference": Dense(drawn, named, void)}


def drawn_pixels(ring: Ring) -> Pixels:
    """Pixels whose centres lie in an outline that counts from the corner of the first pixel."""
    y, x = np.array(ring).T[::-1] - 0.5
    return np.ravel_multi_index(skimage.draw.polygon(y, x, (SIDE, SIDE)), (SIDE, SIDE))


def rings_of(path: Path) -> tuple[list[Ring], list[str]]:
    """Outlines of PUMA's GeoJSON (polygons of one ring) or of MoNuSeg's XML, which has no classes."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".xml" in path.name:
        regions = ElementTree.fromstring(data).iter("Region")
        read = [
            ([(float(v.attrib["X"]), float(v.attrib["Y"])) for v in region.iter("Vertex")], "") for region in regions
        ]
    else:
        read = [
            ([(x, y) for x, y, *_ in one["geometry"]["coordinates"][0]], one["properties"]["classification"]["name"])
            for one in json.loads(data)["features"] if one["geometry"]["type"] == "Polygon"
        ]  # fmt: skip
    usable = [
        (ring, name) for ring, name in read
        if len(ring) > 4 and shapely.Polygon(ring).is_valid and shapely.Polygon(ring).area > 40
    ]  # fmt: skip
    return [ring for ring, _ in usable], [name for _, name in usable]


def geojson(nuclei: Mapping[str, tuple[Ring, str]]) -> str:
    features = [
        {
            "type": "Feature", "id": id, "properties": {"classification": {"name": name}} if name else {},
            "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
        }
        for id, (ring, name) in nuclei.items()
    ]  # fmt: skip
    return json.dumps({"type": "FeatureCollection", "features": features})


def rows_of_dsb(folder: Path, name: str) -> tuple[list[str], dict[str, Dense]]:
    """Four images of the Data Science Bowl with the predictions of a team, and their dense masks.

    Ids are lines of the files.
    """
    texts = [(folder / file).read_text() for file in ("stage1_solution.csv", name)]
    tables = [[line.split(",") for line in text.splitlines()] for text in texts]
    of_image = Counter(image for image, *_ in tables[1])
    chosen = sorted(image for image, number in of_image.items() if 40 < number < 80)[:4]
    pixels = {image: dict[Key, Pixels]() for image in chosen}
    heights = {image: int(height) for image, _, height, *_ in tables[0][1:]}
    for side, file in enumerate(("reference.csv", "prediction.csv")):
        rows = [row for row in tables[side] if row[0] in {"ImageId", *chosen}]
        Path(file).write_text("".join(",".join(row) + "\n" for row in rows))
        for line, (image, text, *_) in enumerate(rows[1:], start=2):  # starts, from 1 and down the columns, and lengths
            runs = np.array(text.split(), np.int64).reshape(-1, 2)
            at = np.concatenate([np.arange(start - 1, start - 1 + length) for start, length in runs])
            pixels[image][side, str(line)] = at % heights[image] * SIDE + at // heights[image]
    void = np.zeros(SIDE**2, np.bool_)
    denses = {image: Dense(of_image, dict.fromkeys(of_image, ""), void) for image, of_image in pixels.items()}
    return ["reference.csv", "prediction.csv"], denses


IN_OUTLINES = {*FREE, "right", "poor_outline", "split", "merged", "duplicate", "ignored"}


@pytest.mark.parametrize("files_of, name, kinds", [
    (rows_of_dsb, "dsb2018/submission_DatName.csv", {*FREE, "right", "poor_outline", "merged"}),
    (outlined, "puma/reference/training_set_primary_roi_102_nuclei.geojson", IN_OUTLINES | {"wrong_class"}),
    (outlined, "monuseg/TCGA-21-5784-01Z-00-DX1.xml.gz", IN_OUTLINES),
])  # fmt: skip
def test_reasons_are_those_of_dense_masks(
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files_of: Callable[[Path, str], tuple[list[str], dict[str, Dense]]],
    name: str,
    kinds: set[str],
) -> None:
    """The kind of every nucleus, and candidate, IoU, distance and taker of 30 errors."""
    monkeypatch.chdir(tmp_path)
    folder, _, file = name.rpartition("/")
    arguments, denses = files_of(shared_data / folder, file)
    assert run(["compare", *arguments, "--output", "out"]) == 0
    with Path("out/objects.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["rule"] == "iou_above"]
    sides = ("reference_id", "prediction_id")
    found = {
        case: {(side, row[key]): row["kind"] for row in rows if row["case"] == case for side, key in enumerate(sides)
               if row[key]} for case in denses
    }  # fmt: skip
    assert found == {case: dense.kinds for case, dense in denses.items()}
    assert {kind for of_case in found.values() for kind in of_case.values()} == kinds
    errors = [row for row in rows if row["outcome"] in FREE]
    for row in random.Random(50).sample(errors, 30):
        denses[row["case"]].check(row)
