"""What a newcomer has in a folder becomes a challenge."""

from __future__ import annotations

import json
import pickle
import sqlite3
import tomllib
from contextlib import closing
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from every_format import write_files
from pycocotools import mask as coco_masks
from scipy.io import savemat

from evaluation import Challenge, score_submission
from evaluation.commands.main import run
from evaluation.files.results import __version__
from evaluation.findings.errors import ChallengeBroken

pytestmark = pytest.mark.usefixtures("in_folder")

LABELS = np.zeros((40, 60), np.uint16)
LABELS[2:12, 3:13], LABELS[20:30, 32:44], LABELS[15:19, 3:9] = 1, 2, 3
TWO = np.where(LABELS == 3, 0, LABELS)


def put(name: str, labels: np.ndarray = LABELS) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(name, labels)


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr()
    return printed.out + printed.err


# --- two commands at most ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [False, True])
def test_score_says_what_it_found_and_what_would_match(capsys, monkeypatch, terminal):
    """In pipes and logs, too: only --quiet stops it."""
    labels = np.zeros((40, 40), np.uint16)
    labels[2:8, 20:30], labels[12:16, 30:39], labels[1:4, 8:14] = 1, 2, 3
    put("mine/reference/a.tif", labels)
    put("sent/a.tif", labels.T)
    said(capsys, "init", "mine")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    score = ("score", "--challenge", "mine", "--submission", "sent", "--output", "out")
    assert said(capsys, *score, "--quiet") == ""
    printed = said(capsys, *score)
    assert "detection.f1" in printed and "Written to out" in printed
    assert "nearly-nothing-matches" in printed and "ransposed" in printed and "100%" in printed


# --- convert loses nothing --------------------------------------------------------------------------------------------


def classes_in(capsys, source: str, *options: str) -> list[str]:
    """Classes of the nuclei in the GeoJSON that a file becomes."""
    said(capsys, "convert", source, "made", "--to", "geojson", *options)
    features = json.loads(Path("made.geojson").read_text())["features"]
    return [feature["properties"]["classification"]["name"] for feature in features]


def test_classes_of_hovernet_are_kept(capsys):
    savemat("a.mat", {"inst_map": LABELS, "inst_type": np.array([[3], [1], [3]])})
    assert classes_in(capsys, "a.mat") == ["3", "1", "3"]
    assert classes_in(capsys, "a.mat", "--classes", "tumour,stroma,immune") == ["immune", "tumour", "immune"]
    said(capsys, "convert", "a.mat", "b", "--to", "label_tiff")
    assert set(np.unique(tifffile.imread("b_class.tif"))) == {0, 1, 3}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pycocotools
def test_polygons_of_coco_cover_the_pixels_that_pycocotools_gives_them(capsys):
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack([30.3 + 8 * np.cos(angle), 20.7 + 6 * np.sin(angle)], axis=1).round(2).ravel().tolist()
    assert ious_with_pycocotools(capsys, [ring], 40, 60)[0] > 0.96


def ious_with_pycocotools(capsys, rings: list[list[float]], height: int, width: int) -> list[float]:
    """IoU of each outline, as 'convert' paints it and as pycocotools does."""
    annotations = [{"id": index, "image_id": 1, "category_id": 1, "segmentation": [ring], "iscrowd": 0}
                   for index, ring in enumerate(rings, 1)]  # fmt: skip
    images = [{"id": 1, "file_name": "a.png", "height": height, "width": width}]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cell"}]}
    Path("a.json").write_text(json.dumps(document))
    said(capsys, "convert", "a.json", "a", "--to", "label_tiff")
    labels, ious = tifffile.imread("a.tif"), []
    for ring in rings:
        theirs = coco_masks.decode(coco_masks.frPyObjects([ring], height, width))[..., 0] > 0
        ours = labels == np.bincount(labels[theirs])[1:].argmax() + 1
        ious.append((ours & theirs).sum() / (ours | theirs).sum())
    return ious


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pycocotools
def test_real_outlines_as_coco_cover_the_pixels_that_pycocotools_gives_them(shared_data, capsys):
    """From pixel centres the mean IoU is .88. What is left is pycocotools' grid of a fifth of a pixel."""
    tree = ElementTree.parse(shared_data / "monusac" / "A9K0_1.xml")
    regions = [[float(vertex.get(axis)) for vertex in region.iter("Vertex") for axis in "XY"]
               for region in tree.iter("Region")]  # fmt: skip
    whole = [ring for ring in regions if len(ring) > 4]
    rings = [ring for index, ring in enumerate(whole) if all(apart(ring, other) for other in whole[:index])]
    height, width = (int(max(max(ring[axis::2]) for ring in rings)) + 2 for axis in (1, 0))
    iou = ious_with_pycocotools(capsys, rings, height, width)
    assert len(rings) > 100 and np.mean(iou) > 0.98


def apart(ring, other):
    """Whether the boxes of two outlines are more than two pixels apart."""
    return any(max(a[axis::2]) + 2 < min(b[axis::2]) for axis in (0, 1) for a, b in ((ring, other), (other, ring)))


RECTANGLE = {"type": "Polygon", "coordinates": [[[3, 2], [13, 2], [13, 12], [3, 12], [3, 2]]]}


@pytest.mark.parametrize("version", ["0.2", "0.4"])
def test_arrays_of_qupath_are_known_without_their_format(version, capsys):
    """``[Feature, …]`` of 0.2 and 0.3, a FeatureCollection of 0.4 and later, with the suffix .json."""
    old = {"classification": {"name": "Tumor", "colorRGB": -3670016}, "measurements": [{"name": "Area", "value": 9}]}
    new = {"objectType": "detection", "classification": {"name": "Tumor", "color": [200, 0, 0]}}
    item = {"type": "Feature", "geometry": RECTANGLE}
    item |= {"id": "PathDetectionObject", "properties": old} if version == "0.2" else {"id": "0f1c", "properties": new}
    put("mine/a.tif", np.where(LABELS == 1, 1, 0).astype(np.uint16))
    Path("qupath").mkdir()
    document = [item] if version == "0.2" else {"type": "FeatureCollection", "features": [item]}
    Path("qupath/a.json").write_text(json.dumps(document))
    assert classes_in(capsys, "qupath/a.json") == ["Tumor"]
    assert "1.0000" in said(capsys, "compare", "mine", "qupath")


def test_objects_of_qupath_without_a_classification_are_of_no_class(capsys):
    item = {"type": "Feature", "geometry": RECTANGLE, "properties": {"objectType": "annotation"}}
    Path("a.json").write_text(json.dumps([item]))
    assert classes_in(capsys, "a.json") == ["nucleus"]


def test_two_arrays_of_one_npz_are_labels_and_classes(capsys):
    classes = np.array([0, 4, 2, 4])[LABELS]
    np.savez("a.npz", inst=LABELS, type=classes)
    assert classes_in(capsys, "a.npz") == ["4", "2", "4"]
    printed = said(capsys, "convert", "a.npz", "b", "--to", "label_tiff", "--classes", "other,tumour,stroma,immune")
    assert "Classes: 1 is other, 2 is tumour, 3 is stroma, 4 is immune" in printed
    assert np.array_equal(tifffile.imread("b_class.tif"), classes)


def test_numbers_of_classes_are_told_and_stay_what_they_are_called(capsys):
    ring = [3, 2, 13, 2, 13, 12, 3, 12]
    results = [
        {"image_id": 1, "category_id": number, "segmentation": [ring], "score": 0.5, "bbox": [3, 2, 10, 10]}
        for number in (4, 2)
    ]
    Path("a.json").write_text(json.dumps(results))
    arguments = ("convert", "a.json", "a", "--to", "label_tiff", "--size", "40x60", "--overlap", "last")
    printed = said(capsys, *arguments)
    assert "Classes: 4 is 4, 2 is 2" in printed
    assert set(np.unique(tifffile.imread("a_class.tif"))) == {0, 2}
    assert "the probabilities of 2 nuclei; expected values that label_tiff can contain" in printed
    assert "probabilities" not in said(capsys, *arguments[:3], "--to", "geojson", "--size", "40x60")


# --- messages ---------------------------------------------------------------------------------------------------------


def foreign(name: str) -> Path:
    path = Path(name)
    if name.endswith(".db"):
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table annotations (id integer)")
    else:
        heads = {
            ".dcm": bytes(128) + b"DICM" + bytes(50),
            ".dat": pickle.dumps({"5a1e": {"type": 2}}),
            ".bmp": b"BM" + bytes(100),
            ".jpg": b"\xff\xd8\xff\xe0" + bytes(100),
        }
        path.write_bytes(heads[path.suffix])
    return path


@pytest.mark.parametrize("name, words", [
    ("a.dcm", "a DICOM file, which is not read; export as"),
    ("a.db", "an SQLite database, such as TIAToolbox's .db, which is not read; export as GeoJSON"),
    ("a.dat", "a pickle, such as TIAToolbox's .dat, which is not read; export as GeoJSON"),
    ("a.bmp", "a BMP image, which is not read; export as"),
    ("a.jpg", "a JPEG image, which is not read; export as"),
])  # fmt: skip
def test_files_of_other_tools_are_named_by_their_content(name, words, capsys):
    path = foreign(name)
    assert words in said(capsys, "convert", path, "out", "--to", "geojson", code=2)
    Path("folder").mkdir()
    path.rename(f"folder/{name}")
    put("mine/reference/a.tif")
    assert words in said(capsys, "compare", "mine/reference", "folder", code=2)
    said(capsys, "init", "mine")
    score = ("score", "--challenge", "mine", "--output", "out", "--submission")
    assert f"[not-a-zip] '{name}': {words}" in said(capsys, *score, f"folder/{name}", code=1)
    in_folder = said(capsys, *score, "folder", code=1)
    assert "[no-case-found]" in in_folder and f"'{name}' is {words}" in in_folder
    if name == "a.bmp":  # as the file of a case
        rules = Path("mine/challenge.toml")
        rules.write_text(rules.read_text().replace('files = "{case}.tif"', 'files = "{case}.*"'))
        assert words in said(capsys, *score, "folder", code=1)


def test_the_tables_of_the_data_science_bowl_are_taken_as_they_are(shared_data, capsys):
    source, sent = (shared_data / "dsb2018" / f"{name}.csv" for name in ("stage1_solution", "submission_DatName"))
    write_files(Path("dsb/reference"), {"stage1_solution.csv": source.read_bytes()})
    assert "65 cases" in said(capsys, "init", "--preset", "dsb2018", "dsb")
    assert "Valid" in said(capsys, "validate", "--challenge", "dsb", "--submission", sent)
    said(capsys, "score", "--challenge", "dsb", "--submission", sent, "--output", "out")
    found = json.loads(Path("out/metrics.json").read_text())["detection"]["f1"]["pooled"]
    assert found == pytest.approx(0.4582, abs=5e-5)


def test_a_part_of_a_zarr_folder_is_named_as_such(capsys):
    put("mine/a.tif")
    Path("a.zarr/0").mkdir(parents=True)
    Path("a.zarr/.zgroup").write_text('{"zarr_format": 2}')
    Path("a.zarr/0/0.0").write_bytes(bytes(range(200)))
    words = "a part of a Zarr store, which only 'compare' and 'convert' read"
    assert "[no-mask-variable]" in said(capsys, "compare", "mine", "a.zarr", code=2)
    assert words in said(capsys, "compare", "mine", "a.zarr/0", code=2)
    assert "[no-mask-variable]" in said(capsys, "convert", "a.zarr", "out", "--to", "geojson", code=1)
    put("ours/reference/a.tif")
    said(capsys, "init", "ours")
    handed_in = ("score", "--challenge", "ours", "--submission", "a.zarr", "--output", "out")
    assert f"'.zgroup' is {words}" in said(capsys, *handed_in, code=1)
    assert "a folder; convert its files one by one" in said(capsys, "convert", "mine", "out", "--to", "geojson", code=2)


def test_a_path_that_is_not_there_is_told_with_its_name(capsys):
    put("mine/a.tif")
    assert "PREDICTIONS: there is no 'yours'; expected a file or folder" in said(
        capsys, "compare", "mine", "yours", code=2
    )
    Path("empty").mkdir()
    assert "[empty-submission] 'empty': empty" in said(capsys, "compare", "mine", "empty", code=2)


def test_each_fault_is_told_once(capsys, monkeypatch):
    for name in "ab":
        put(f"mine/reference/{name}.tif")
        put(f"sent/{name}.tif")
    said(capsys, "init", "mine")
    Path("sent/a.tif").write_text("no image")
    tifffile.imwrite("sent/b.tif", -LABELS.astype(np.int16))
    arguments = ("validate", "--challenge", "mine", "--submission", "sent")
    printed = said(capsys, *arguments, code=1)
    assert (printed.count("[wrong-format]"), printed.count("[negative-label]")) == (1, 1)
    assert printed.splitlines()[-1].startswith("Submission rejected: [")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    printed = said(capsys, *arguments, code=1).rpartition("\x1b[2K")[2]  # behind the bar
    assert [line.split("]")[0] for line in printed.splitlines() if line[0] != " "] == [  # but those that go on
        "Submission rejected:",
        "[negative-label",
        "[wrong-format",
    ]


def test_a_rejected_run_leaves_no_old_scores(own_demo, tmp_path, capsys):
    finder = own_demo.submissions["finder"]
    arguments = ["score", "--challenge", own_demo.challenge, "--submission", finder, "--output", "out"]
    said(capsys, *arguments)
    assert Path("out/metrics.json").exists()
    (finder / "P1/P1_1/Epithelial/1.mat").write_bytes(b"not a mask")
    Path("out/mine.txt").write_text("stays")
    said(capsys, *arguments, code=1)
    assert [path.name for path in Path("out").iterdir()] == ["mine.txt"]


def test_a_case_without_reference_is_the_fault_of_the_organisers(capsys):
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    text = Path("mine/challenge.toml").read_text().replace('"worst"', '"reject"')
    Path("mine/challenge.toml").write_text(text)
    with Path("mine/cases.csv").open("a") as file:
        file.write("EXTRA,EXTRA,40,60\n")
    put("sent/a.tif")
    printed = said(capsys, "score", "--challenge", "mine", "--submission", "sent", "--output", "out", code=3)
    assert "EXTRA.tif" in printed
    assert "the reference of every case in cases.csv" in printed
    assert "add 'EXTRA" not in printed


def test_a_size_in_cases_csv_is_suspected_when_both_sides_agree(capsys):
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    Path("mine/cases.csv").write_text("case,group,height,width\na,a,60,40\n")
    put("sent/a.tif")
    printed = said(capsys, "score", "--challenge", "mine", "--submission", "sent", "--output", "out", code=3)
    assert "cases.csv" in printed


def test_the_guide_of_a_kit_says_how_to_install(own_demo, tmp_path, capsys):
    said(capsys, "kit", "--challenge", own_demo.challenge, "--output", "kit")
    guide = Path("kit/GUIDE.md").read_text()
    assert f"`pipx install ./nuclei_evaluation-{__version__}-py3-none-any.whl`" in guide
    assert "- detection F1 (`detection.f1.group_mean`), higher is better. " in guide  # each column in words
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    said(capsys, "kit", "--challenge", "mine", "--output", "kit2")
    assert "- nucleus\n" in Path("kit2/GUIDE.md").read_text()  # nuclei without a class are of this one


def test_a_ranking_of_a_family_that_is_not_listed_says_so(capsys):
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    with Path("mine/challenge.toml").open("a") as rules:
        rules.write('\n[metrics]\nfamilies = ["segmentation", "covered"]\n')
    printed = said(capsys, "score", "--challenge", "mine", "--submission", "mine/reference", "--output", "out", code=3)
    assert "the family 'detection' is not in metrics.families" in printed


def points(name: str, *xy: tuple[float, float]) -> None:
    listed = [{"name": f"Point {n}", "point": [x, y, 0.5]} for n, (x, y) in enumerate(xy)]
    document = {"name": "x", "type": "Multiple points", "points": listed, "version": {"major": 1, "minor": 0}}
    write_files(Path(), {name: document})


@pytest.mark.parametrize("cases", [["A_P000001"], ["A_P000001", "A_P000002"]])
def test_classes_in_the_names_of_files_are_found_and_shown(cases, capsys):
    for case in cases:
        for side in ("mine/reference", "sent"):
            points(f"{side}/{case}_lymphocytes.json", (10, 10), (50, 10))
            points(f"{side}/{case}_monocytes.json", (90, 90))
    told = said(capsys, "compare", "mine/reference", "sent", "--save-challenge", "made")
    assert "classes 'lymphocytes' and 'monocytes'" in told
    assert "the class in the name ('A_P000001_lymphocytes.json' is of 'A_P000001')" in told
    assert Path("made/cases.csv").read_text().count("\n") == 1 + len(cases)
    said(capsys, "init", "mine")
    assert "{case}_{class}.json" in Path("mine/challenge.toml").read_text()
    cases_csv = Path("mine/cases.csv").read_text()
    sized = [line if n == 0 else line.replace(",,", ",100,100") for n, line in enumerate(cases_csv.splitlines())]
    Path("mine/cases.csv").write_text("\n".join(sized) + "\n")
    said(capsys, "score", "--challenge", "mine", "--submission", "sent", "--output", "out")
    metrics = json.loads(Path("out/details.json").read_text())["cases"]
    assert len(metrics) == len(cases)


# --- ``init`` in a folder with a reference: what it finds there becomes the rules -------------------------------------

NUCLEI = np.zeros((20, 30), np.uint16)
NUCLEI[2:8, 3:9], NUCLEI[10:16, 12:20] = 1, 2


def tiff(pixels: np.ndarray) -> bytes:
    file = BytesIO()
    tifffile.imwrite(file, pixels)
    return file.getvalue()


def mat(**arrays: np.ndarray) -> bytes:
    file = BytesIO()
    savemat(file, arrays)
    return file.getvalue()


def aperio(name: str) -> str:
    """One nucleus, whose region has an attribute."""
    corners = "".join(f'<Vertex X="{x}" Y="{y}"/>' for x, y in ((1, 1), (9, 1), (5, 8)))
    region = f"<Regions><Region><Vertices>{corners}</Vertices></Region></Regions>"
    attribute = f'<Attributes><Attribute Name="{name}"/></Attributes>'
    return f"<Annotations><Annotation>{attribute}{region}</Annotation></Annotations>"


def asap(name: str) -> str:
    corners = ((2, 3), (2, 9), (8, 9), (8, 3))
    points = "".join(f'<Coordinate Order="{at}" X="{x}" Y="{y}"/>' for at, (y, x) in enumerate(corners))
    shape = f'<Annotation Name="n" Type="Polygon" PartOfGroup="{name}"><Coordinates>{points}</Coordinates></Annotation>'
    return f"<ASAP_Annotations><Annotations>{shape}</Annotations></ASAP_Annotations>"


def geojson(kind: str, coordinates: object) -> dict:
    nucleus = {"type": "Feature", "geometry": {"type": kind, "coordinates": coordinates}}
    return {"type": "FeatureCollection", "features": [{**nucleus, "properties": NAMED_BY_PUMA}]}


NAMED_BY_PUMA = {"classification": {"name": "nuclei_tumor"}}
PICTURE = tiff(np.zeros((20, 30, 3), np.uint8))
TYPES = "label,type\n1,tumour\n2,stroma\n"
TYPED = {".tif": NUCLEI, ".csv": TYPES}
TCGA = ("TCGA-50-5931-01Z-00-DX1", "TCGA-50-5931-01Z-00-DX2", "TCGA-21-5784-01Z-00-DX1")
PUMA = Challenge.from_preset("puma2024", name="puma")
# Files of the reference, further arguments, and what the rules say then: attributes of the challenge, keys of its
# reference and submission, and rows of cases.csv, whose sizes are filled in where they are open.
FOLDERS: dict[str, tuple[dict[str, object], str, dict[str, object]]] = {
    "folders of patients": (
        {f"{name}.tif": NUCLEI for name in ("P1/a_mask", "P1/b_mask", "P2/c_mask")}, "", {
            "rows": ["a_mask,P1,20,30", "b_mask,P1,20,30", "c_mask,P2,20,30"],
            "reference.files": "reference/{group}/{case}.tif", "class_names": ("nucleus",),
        },
    ),
    "patients of one image": (
        {"Miller/a.tif": NUCLEI, "Smith/b.tif": NUCLEI}, "",
        {"rows": ["a,Miller,20,30", "b,Smith,20,30"], "reference.files": "reference/{group}/{case}.tif"},
    ),
    "patients of TCGA": (
        {f"{name}.tif": NUCLEI for name in TCGA}, "",
        {"rows": [f"{name},{name[:12]},20,30" for name in sorted(TCGA)]},
    ),
    "one more that is not of TCGA": (
        {f"{name}.tif": NUCLEI for name in (*TCGA, "other")}, "",
        {"rows": [f"{name},{name},20,30" for name in (*sorted(TCGA), "other")]},
    ),
    **{
        f"XML of ASAP where the preset has Aperio's, {name}": (
            {"P1/a.xml": asap(name), "P2/b.xml": asap(name)}, "",
            {"rows": ["a,P1,9,10", "b,P2,9,10"], "class_names": (name,), "reference.format": "asap_xml"},
        )
        for name in ("stroma", "Epithelial")
    },
    "the column that ImageScope names is no class": (
        {"a.xml": aperio("Description"), "a.tif": PICTURE}, "", {"class_names": ("nucleus",)}
    ),
    "another class in files of the preset's form": (
        {"P1/a.xml": aperio("Mitosis"), "P1/a.tif": PICTURE}, "",
        {"class_names": ("Mitosis",), "rows": ["a,P1,20,30"]},
    ),
    "a class of the preset": (
        {"P1/a.xml": aperio("Neutrophil"), "P1/a.tif": PICTURE}, "",
        {"class_names": ("Epithelial", "Lymphocyte", "Neutrophil", "Macrophage")},
    ),
    "hovernet": (
        {"a.mat": mat(inst_map=NUCLEI, inst_type=np.array([[3], [1]]))}, "",
        {"class_names": ("1", "3"), "reference.class_values": {"1": (1,), "3": (3,)}},
    ),
    "tables of classes": (
        {f"{p}/{p}{case}{end}": of for p in ("P1", "P2") for case in "ab" for end, of in TYPED.items()}, "", {
            "class_names": ("tumour", "stroma"), "reference.class_table": "reference/{group}/{case}.csv",
            "submission.class_table": "{group}/{case}.csv",
        },
    ),
    **{
        f"folders of images, {key}": (
            {f"{case}/{name}": of for case in ("a", "b") for name, of in (("mask.tif", NUCLEI), (beside, of_map))}, "",
            {"reference.files": "reference/{case}/mask.tif", f"reference.{key}": f"reference/{{case}}/{beside}",
             "class_names": names},
        )
        for key, beside, of_map, names in (
            ("class_table", "mask.csv", TYPES, ("tumour", "stroma")),
            ("class_map", "mask_class.tif", NUCLEI, ("1", "2")),
        )
    },
    "points": ({"a.csv": "x,y\n3,4\n8,9\n"}, "", {"rows": ["a,a,10,9"], "reference.format": "points_csv"}),
    "files of a preset that lie elsewhere": (
        {"A/a.geojson": geojson("Polygon", [[[1, 1], [9, 1], [5, 8], [1, 1]]]), "A/a.tif": PICTURE},
        "--preset puma2024",
        {"reference.files": "reference/A/{case}.geojson", "classes": PUMA.classes, "submission": PUMA.submission},
    ),
    **{
        f"class maps that the preset has not, {ending}": (
            {f"{case}{name}": NUCLEI for case in "ab" for name in (ending, end_of_map)}, "--preset glas2015",
            {"class_names": ("1", "2"), "reference.class_map": f"reference/{{case}}_class{end_of_map[-4:]}",
             "reference.class_values": {"1": (1,), "2": (2,)}},
        )
        for ending, end_of_map in ((".tif", "_class.tif"), ("_anno.png", "_anno_class.png"))
    },
    "class maps with one class": (
        {"a.tif": NUCLEI, "a_class.tif": (NUCLEI > 0).astype(np.uint8)}, "--preset glas2015",
        {"class_names": ("gland",)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_lies_in_a_folder_becomes_the_rules(folder, capsys):
    files, options, expected = FOLDERS[folder]
    write_files(Path("mine/reference"), files)
    assert "file-not-read" not in said(capsys, "init", "mine", *options.split())
    cases = Path("mine/cases.csv")
    rows = cases.read_text().splitlines()[1:]
    cases.write_text(cases.read_text().replace(",,", ",20,30"))
    challenge = Challenge.load("mine")
    for name, value in expected.items():
        side, _, key = name.rpartition(".")
        rules = getattr(challenge, side) if side else challenge
        if name == "rows":
            assert rows == value
        elif side and key.startswith("class_"):
            assert rules.value(key) == value
        else:
            assert getattr(rules, key) == value
    if not options and challenge.submission.format == challenge.reference.format:
        assert score_submission("mine", "mine/reference").value("detection.f1.pooled") == 1


def test_a_table_that_calls_nuclei_ambiguous_is_part_of_a_challenge_with_one_class(capsys):
    write_files(Path("mine/reference"), {"a.tif": NUCLEI, "a.csv": "id,class\n1,tumour\n2,Ambiguous\n"})
    write_files(Path("submitted"), {"a.tif": np.where(NUCLEI == 1, NUCLEI, 0)})
    said(capsys, "init", "mine")
    assert Challenge.load("mine").reference.value("class_table") == "reference/{case}.csv"
    assert score_submission("mine", "submitted").value("detection.f1.pooled") == 1


@pytest.mark.parametrize("files, options, code, told", [
    *(({name: geojson("Point", [3, 4])}, "--preset puma2024", 3, ["given with the format 'geojson' of points"])
      for name in ("a.geojson", "a_nuclei.geojson")),
    ({"one/a_x.tif": NUCLEI, "b.tif": NUCLEI}, "", 2, [
        "files that do not follow one pattern",
        "Give all files one suffix, and put them into one folder or one folder per patient.",
    ]),
])  # fmt: skip
def test_a_folder_that_becomes_no_rules_is_told(files, options, code, told, capsys):
    write_files(Path("mine/reference"), files)
    printed = said(capsys, "init", "mine", *options.split(), code=code)
    assert all(words in printed for words in told)


def test_the_file_has_what_differs_from_the_preset_and_no_more(capsys):
    put("mine/reference/a.tif")
    assert "1 image as label_image, no classes" in said(capsys, "init", "mine")
    written = tomllib.loads(Path("mine/challenge.toml").read_text())
    assert written["preset"] == "recommended" and len(Path("mine/challenge.toml").read_text().splitlines()) < 35
    assert written["submission"] == {"format": "label_image", "files": "{case}.tif"}
    assert written["reference"] == {"format": "label_image", "files": "reference/{case}.tif", "ignore": {"classes": []},
                                    "overlap": "keep", "overlap_scope": "image"}  # fmt: skip


NUCLEI[2:8, 3:9], NUCLEI[10:16, 12:20] = 1, 2


def test_a_sample_gives_the_form_of_submissions_and_the_sizes(own_demo, tmp_path):
    (tmp_path / "mine").mkdir()
    (own_demo.challenge / "reference").rename(tmp_path / "mine" / "reference")
    assert run(["init", "mine", "--submission", str(own_demo.submissions["finder"])]) == 0
    challenge = Challenge.load("mine")
    assert challenge.submission.format == "nary_mat"
    assert challenge.reference.ignore.classes == ("Ambiguous",)
    assert {case.name: case.shape_yx for case in challenge.cases}["P1_1"] == (280, 330)
    result = score_submission("mine", own_demo.submissions["finder"])
    assert result.value("detection.f1.group_mean") == pytest.approx(0.9581, abs=5e-5)


def test_refresh_adds_what_is_new_and_keeps_what_was_edited(capsys):
    put("mine/reference/a.tif", NUCLEI)
    assert run(["init", "mine"]) == 0
    Path("mine/cases.csv").write_text("case,group,height,width,spacing_um\na,Miller,20,,0.25\ngone,X,5,5,\n")
    put("mine/reference/b.tif", np.zeros((7, 9), np.uint16))
    capsys.readouterr()
    assert run(["init", "--refresh", "mine"]) == 0
    assert Path("mine/cases.csv").read_text().splitlines()[1:] == [
        "a,Miller,20,30,0.25", "gone,X,5,5,", "b,b,7,9,"
    ]  # fmt: skip
    told = capsys.readouterr().out
    assert "1 case added, 1 size filled in, 2 rows kept" in told
    assert "1 of its cases have no reference file" in told
    assert run(["init", "--refresh", "mine"]) == 0
    assert "0 cases added, 0 sizes filled in, 3 rows kept" in capsys.readouterr().out


def test_what_the_platform_gives_is_no_sample_of_a_folder(capsys):
    put("mine/reference/a.tif")
    for job in ("1", "2"):
        put(f"input/{job}/output/labels.tif")
    Path("input/predictions.json").write_text("[]")
    assert run(["init", "mine", "--submission", "input"]) == 2
    told = capsys.readouterr().err
    assert "[invalid-job] 'input/predictions.json': an empty list; expected jobs as the platform writes them" in told
    assert run(["init", "mine"]) == 0


@pytest.mark.parametrize("rules, place", [
    ('preset = "monusac2020"\n[metrics]\nfamilies = ["detection"]\n[[classes]]\nname = "Ambiguous"', "classes"),
    ('preset = "recommended"\n[reference]\noverlap_scope = "class"', "reference"),
    ('preset = "recommended"\n[metrics]\nmeasures = ["iou"]', "metrics.tolerance_px, of the preset 'recommended'"),
])  # fmt: skip
def test_a_fault_says_which_entry_came_from_the_preset(rules, place):
    cases = "case,group,height,width\na,a,5,5\n"
    write_files(Path(), {"challenge.toml": f'format_version = 1\nname = "x"\n{rules}\n', "cases.csv": cases})
    with pytest.raises(ChallengeBroken) as raised:
        Challenge.load(Path())
    places = [fault.where for fault in raised.value.findings if place in fault.where]
    assert places and ("of the preset" in places[0]) == ("of the preset" in place)
