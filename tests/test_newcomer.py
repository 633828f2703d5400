"""What new users try first, each with at most two commands, and what they are told when it goes wrong."""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from pycocotools import mask as coco_masks
from scipy.io import savemat

import evaluation
from evaluation.commands.main import run
from evaluation.results.version import __version__

LABELS = np.zeros((40, 60), np.uint16)
LABELS[2:12, 3:13], LABELS[20:30, 32:44], LABELS[15:19, 3:9] = 1, 2, 3
TWO = np.where(LABELS == 3, 0, LABELS)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, labels: np.ndarray = LABELS) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    tifffile.imwrite(name, labels)


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr()
    return printed.out + printed.err


# --- two commands at most ---------------------------------------------------------------------------------------------


def test_from_two_folders_to_scores(capsys):
    for name in "ab":
        put(f"mine/{name}.tif")
        put(f"cellpose/{name}_cp_masks.tif", TWO)
    assert "0.6667" in said(capsys, "compare", "mine", "cellpose")


def test_from_a_reference_to_a_challenge_and_a_score(capsys):
    for name in "ab":
        put(f"mine/reference/{name}.tif")
        put(f"sent/{name}.tif", TWO)
    said(capsys, "init", "mine")
    said(capsys, "score", "--challenge", "mine", "--submission", "sent", "--output", "out")
    assert json.loads(Path("out/metrics.json").read_text())["detection"]["recall"]["pooled"] == 0.666667


def test_from_python_in_one_line():
    assert evaluation.compare(LABELS, TWO).value("detection.recall.pooled") == 0.666667


def test_from_qupath_to_label_images(capsys):
    put("a.tif")
    said(capsys, "convert", "a.tif", "a", "--to", "geojson")
    said(capsys, "convert", "a.geojson", "b", "--to", "label_tiff", "--size", "40x60")
    assert np.array_equal(tifffile.imread("b.tif") > 0, LABELS > 0)


def test_from_a_published_challenge_to_its_rules(capsys):
    said(capsys, "init", "--preset", "monusac2020", "mine")
    assert Path("mine/challenge.toml").read_text().count("\n") < 15
    assert "class_order: the later class in the list" in said(capsys, "explain", "presets", "monusac2020")


def test_from_two_models_to_a_page_and_a_challenge(capsys):
    for name in "ab":
        put(f"mine/{name}.tif")
        put(f"cellpose/{name}_cp_masks.tif", TWO)
        put(f"stardist/{name}.tif")
    options = ("--report", "--output", "out", "--save-challenge", "kept")
    printed = said(capsys, "compare", "mine", "cellpose", "stardist", *options)
    assert "paired by another spelling" in printed
    assert "'stardist' is first of 2 models" in printed
    assert "cellpose" in Path("out/compare.html").read_text() and Path("kept/challenge.toml").is_file()


def test_from_classes_of_arrays_to_a_page_and_tables():
    pytest.importorskip("pandas")
    found = evaluation.compare((LABELS, ["tumour", "stroma", "stroma"]), (LABELS, ["tumour", "tumour", "stroma"]))
    found.report("page.html")
    assert "balanced_accuracy" in Path("page.html").read_text()
    lengths = [len(found.to_frame(level)) for level in ("cases", "nuclei")]
    assert lengths == [1, 3] and {"path", "value"} <= set(found.to_frame().columns)
    assert found.plot().axes and "<table>" in found._repr_html_()


def test_from_new_reference_files_to_rows_of_cases(capsys):
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    Path("mine/cases.csv").write_text("case,group,height,width\na,patient 1,40,60\n")  # edited by hand
    put("mine/reference/b.tif")
    said(capsys, "init", "--refresh", "mine")
    assert Path("mine/cases.csv").read_text() == "case,group,height,width\na,patient 1,40,60\nb,b,40,60\n"


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
    assert "nearly-nothing-matches" in printed and "ransposed" in printed and "100 %" in printed


# --- convert loses nothing --------------------------------------------------------------------------------------------


def test_classes_of_hovernet_are_kept(capsys):
    savemat("a.mat", {"inst_map": LABELS, "inst_type": np.array([[3], [1], [3]])})
    said(capsys, "convert", "a.mat", "a", "--to", "geojson")
    features = json.loads(Path("a.geojson").read_text())["features"]
    assert [feature["properties"]["classification"]["name"] for feature in features] == ["3", "1", "3"]
    said(capsys, "convert", "a.mat", "b", "--to", "label_tiff")
    assert set(np.unique(tifffile.imread("b_class.tif"))) == {0, 1, 3}
    said(capsys, "convert", "a.mat", "c", "--to", "geojson", "--classes", "tumour,stroma,immune")
    features = json.loads(Path("c.geojson").read_text())["features"]
    assert [f["properties"]["classification"]["name"] for f in features] == ["immune", "tumour", "immune"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pycocotools
def test_polygons_of_coco_cover_the_pixels_that_pycocotools_gives_them(capsys):
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack([30.3 + 8 * np.cos(angle), 20.7 + 6 * np.sin(angle)], axis=1).round(2).ravel().tolist()
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "segmentation": [ring], "iscrowd": 0}
    images = [{"id": 1, "file_name": "a.png", "height": 40, "width": 60}]
    document = {"images": images, "annotations": [annotation], "categories": [{"id": 1, "name": "cell"}]}
    Path("a.json").write_text(json.dumps(document))
    said(capsys, "convert", "a.json", "a", "--to", "label_tiff")
    ours = tifffile.imread("a.tif") > 0
    theirs = coco_masks.decode(coco_masks.frPyObjects([ring], 40, 60))[..., 0] > 0
    assert (ours & theirs).sum() / (ours | theirs).sum() > 0.96


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pycocotools
def test_real_outlines_as_coco_cover_the_pixels_that_pycocotools_gives_them(shared_data, capsys):
    """From pixel centres the mean IoU is .88. What is left is pycocotools' grid of a fifth of a pixel."""
    tree = ElementTree.parse(shared_data / "monusac" / "A9K0_1.xml")
    regions = [[float(vertex.get(axis)) for vertex in region.iter("Vertex") for axis in "XY"]
               for region in tree.iter("Region")]  # fmt: skip
    whole = [ring for ring in regions if len(ring) > 4]
    rings = [ring for index, ring in enumerate(whole) if all(apart(ring, other) for other in whole[:index])]
    annotations = [{"id": index, "image_id": 1, "category_id": 1, "segmentation": [ring], "iscrowd": 0}
                   for index, ring in enumerate(rings, 1)]  # fmt: skip
    height, width = (int(max(max(ring[axis::2]) for ring in rings)) + 2 for axis in (1, 0))
    images = [{"id": 1, "file_name": "a.png", "height": height, "width": width}]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cell"}]}
    Path("a.json").write_text(json.dumps(document))
    said(capsys, "convert", "a.json", "a", "--to", "label_tiff")
    labels, iou = tifffile.imread("a.tif"), []
    for ring in rings:
        theirs = coco_masks.decode(coco_masks.frPyObjects([ring], height, width))[..., 0] > 0
        ours = labels == np.bincount(labels[theirs])[1:].argmax() + 1
        iou.append((ours & theirs).sum() / (ours | theirs).sum())
    assert len(rings) > 100 and np.mean(iou) > 0.98


def apart(ring, other):
    """Whether the boxes of two outlines are more than two pixels apart."""
    return any(max(a[axis::2]) + 2 < min(b[axis::2]) for axis in (0, 1) for a, b in ((ring, other), (other, ring)))


@pytest.mark.parametrize("version", ["0.2", "0.4"])
def test_arrays_of_qupath_are_known_without_their_format(version, capsys):
    """``[Feature, …]`` of 0.2 and 0.3, a FeatureCollection of 0.4 and later, with the suffix .json."""
    ring = [[3, 2], [13, 2], [13, 12], [3, 12], [3, 2]]
    old = {"classification": {"name": "Tumor", "colorRGB": -3670016}, "measurements": [{"name": "Area", "value": 9}]}
    new = {"objectType": "detection", "classification": {"name": "Tumor", "color": [200, 0, 0]}}
    item = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}}
    item |= {"id": "PathDetectionObject", "properties": old} if version == "0.2" else {"id": "0f1c", "properties": new}
    put("mine/a.tif", np.where(LABELS == 1, 1, 0).astype(np.uint16))
    Path("qupath").mkdir()
    document = [item] if version == "0.2" else {"type": "FeatureCollection", "features": [item]}
    Path("qupath/a.json").write_text(json.dumps(document))
    said(capsys, "convert", "qupath/a.json", "a", "--to", "geojson")
    (feature,) = json.loads(Path("a.geojson").read_text())["features"]
    assert feature["properties"]["classification"]["name"] == "Tumor"
    assert "1.0000" in said(capsys, "compare", "mine", "qupath")


def test_objects_of_qupath_without_a_classification_are_of_no_class(capsys):
    ring = [[3, 2], [13, 2], [13, 12], [3, 12], [3, 2]]
    item = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}}
    Path("a.json").write_text(json.dumps([item | {"properties": {"objectType": "annotation"}}]))
    said(capsys, "convert", "a.json", "a", "--to", "geojson")
    (feature,) = json.loads(Path("a.geojson").read_text())["features"]
    assert feature["properties"]["classification"]["name"] == "nucleus"


def test_two_arrays_of_one_npz_are_labels_and_classes(capsys):
    classes = np.array([0, 4, 2, 4])[LABELS]
    np.savez("a.npz", inst=LABELS, type=classes)
    said(capsys, "convert", "a.npz", "a", "--to", "geojson")
    features = json.loads(Path("a.geojson").read_text())["features"]
    assert [feature["properties"]["classification"]["name"] for feature in features] == ["4", "2", "4"]
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
    assert "the probabilities of 2 nuclei; expected what has a place in label_tiff" in printed
    assert "probabilities" not in said(capsys, *arguments[:3], "--to", "geojson", "--size", "40x60")


def test_class_probabilities_are_kept_or_asked_for(capsys):
    ring = [[3, 2], [13, 2], [13, 12], [3, 12], [3, 2]]
    properties = {"classification": {"name": "a"}, "class_probabilities": {"a": 0.75, "b": 0.25}}
    item = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [ring]}, "properties": properties}
    Path("a.geojson").write_text(json.dumps([item]))
    assert "name the classes in order with --classes" in said(capsys, "convert", "a.geojson", "b", "--to", "geojson")
    assert "left-out" not in said(capsys, "convert", "a.geojson", "b", "--to", "geojson", "--classes", "a,b")
    (feature,) = json.loads(Path("b.geojson").read_text())["features"]
    assert feature["properties"]["class_probabilities"] == {"a": 0.75, "b": 0.25}
    printed = said(capsys, "convert", "a.geojson", "b", "--to", "platform", "--classes", "a,b")
    assert "the class probabilities of 1 nucleus;" in printed


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.dcm", "a DICOM file, which is not read; export as"),
        ("a.db", "an SQLite database, such as TIAToolbox's .db, which is not read; export as GeoJSON"),
        ("a.dat", "a pickle, such as TIAToolbox's .dat, which is not read; export as GeoJSON"),
        ("a.bmp", "a BMP image, which is not read; export as"),
        ("a.jpg", "a JPEG image, which is not read; export as"),
    ],
)
def test_files_of_other_tools_are_named_by_their_content(name, words, capsys):
    path = foreign(name)
    assert words in said(capsys, "convert", path, "out", "--to", "geojson", code=2)
    Path("folder").mkdir()
    path.rename(f"folder/{name}")
    put("mine/a.tif")
    assert words in said(capsys, "compare", "mine", "folder", code=2)
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    handed_in = ("score", "--challenge", "mine", "--submission", f"folder/{name}", "--output", "out")
    assert f"[not-a-zip] '{name}': {words}" in said(capsys, *handed_in, code=1)
    in_folder = said(capsys, "score", "--challenge", "mine", "--submission", "folder", "--output", "out", code=1)
    assert "[no-case-found]" in in_folder
    assert f"'{name}' is {words}" in in_folder


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
    assert "[empty-submission] 'empty': no file" in said(capsys, "compare", "mine", "empty", code=2)


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


def test_a_label_image_of_another_format_is_named_by_its_content(capsys):
    put("mine/reference/a.tif")
    said(capsys, "init", "mine")
    Path("sent").mkdir()
    Path("mine/challenge.toml").write_text(
        Path("mine/challenge.toml").read_text().replace('files = "{case}.tif"', 'files = "{case}.*"')
    )
    foreign("a.bmp").rename("sent/a.bmp")
    printed = said(capsys, "score", "--challenge", "mine", "--submission", "sent", "--output", "out", code=1)
    assert "a BMP image, which is not read; export as" in printed


def test_a_table_may_be_handed_in_as_it_is(shared_data, capsys):
    challenge = Path("dsb")
    (challenge / "reference").mkdir(parents=True)
    (challenge / "reference" / "solution.csv").write_bytes((shared_data / "dsb2018/stage1_solution.csv").read_bytes())
    said(capsys, "init", "--preset", "dsb2018", challenge)
    sent = shared_data / "dsb2018" / "submission_DatName.csv"
    assert "Valid" in said(capsys, "validate", "--challenge", challenge, "--submission", sent)
    said(capsys, "score", "--challenge", challenge, "--submission", sent, "--output", "out")
    assert json.loads(Path("out/metrics.json").read_text())["detection"]["f1"]["pooled"] == pytest.approx(
        0.4582, abs=5e-5
    )


def test_the_name_of_kaggle_for_the_reference_is_taken(shared_data, capsys):
    (Path("dsb") / "reference").mkdir(parents=True)
    source = shared_data / "dsb2018/stage1_solution.csv"
    Path("dsb/reference/stage1_solution.csv").write_bytes(source.read_bytes())
    assert "65 cases" in said(capsys, "init", "--preset", "dsb2018", "dsb")


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
    assert f"pipx install nuclei-evaluation=={__version__}" in guide
    assert "- `detection.f1.group_mean` (higher is better): " in guide  # what each ranked column means, in words
    said(capsys, "kit", "--challenge", own_demo.challenge, "--output", "kit3", "--source", "git+https://a.example/b")
    assert "`pipx install git+https://a.example/b`" in Path("kit3/GUIDE.md").read_text()
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
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    listed = [{"name": f"Point {n}", "point": [x, y, 0.5]} for n, (x, y) in enumerate(xy)]
    document = {"name": "x", "type": "Multiple points", "points": listed, "version": {"major": 1, "minor": 0}}
    Path(name).write_text(json.dumps(document))


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


@pytest.mark.parametrize("names", [["mouse_liver", "mouse_lung"], ["a_one", "b_two"], ["a_gt", "b_pred"], ["a", "a_b"]])
def test_names_that_tell_no_classes_are_names_of_images(names, capsys):
    for name in names:
        put(f"mine/{name}.tif")
        put(f"theirs/{name}.tif")
    assert f"{len(names)} images as label_image, no classes" in said(capsys, "compare", "mine", "theirs")
