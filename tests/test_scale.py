"""Whole slides: the same results in pieces as at once, memory that goes with the nuclei, and limits that hold."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from endless import memory_below
from hypothesis import given
from hypothesis import strategies as st
from literal import instances_of, pairs_of_images

from benchmarks import families, scale, slides
from benchmarks.label_maps import LabelMaps
from benchmarks.scale import predict_slide
from benchmarks.slides import Slide, write_slide
from evaluation.challenge import Challenge, LimitRules
from evaluation.files.decoding import json as bounded_json
from evaluation.files.decoding.json import read_records
from evaluation.files.results import documents as csv_files
from evaluation.findings.errors import ChallengeBroken, InputFault, SubmissionRejected
from evaluation.scoring.score import Result
from evaluation.scoring.street import score_submission
from nuclei_metrics.instances import rasterise
from nuclei_metrics.model import Instances, arrays
from nuclei_metrics.model.arrays import distinct, row_bands

SMALL = Slide(rows=2, columns=3, tile_px=240, nuclei=30)
IN_PIECES = (  # what is done at once, far below what a slide of this size has
    (bounded_json, {"BATCH_BYTES": 3000}),
    (rasterise, {"CHUNK_VERTICES": 200}),
    (arrays, {"RUNS_AT_ONCE": 150}),
    (arrays, {"BLOCK": 70}),
    (csv_files, {"OBJECTS_AT_ONCE": 7}),
)


def score(folder: Path) -> Result:
    return score_submission(folder / "challenge", folder / "submission", workers=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """Slides as one case and cut into tiles, in both formats."""
    found = {}
    for kind in slides.KINDS:
        for is_cut in (False, True):
            found[kind, is_cut] = tmp_path_factory.mktemp(f"{kind}_{is_cut}")
            write_slide(found[kind, is_cut], SMALL, kind=kind, is_cut=is_cut)
    return found


# --- the same in pieces ---------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_files(folders, tmp_path):
    write_slide(tmp_path, SMALL)
    again = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    first = folders["geojson", False]
    assert again == {path.relative_to(first): path.read_bytes() for path in first.rglob("*.*") if path.is_file()}
    features = json.loads((tmp_path / "submission/slide.geojson").read_bytes())["features"]
    assert len(features) > 160
    assert len({feature["id"] for feature in features}) == len(features)


@pytest.mark.parametrize("kind", list(slides.KINDS))
def test_a_slide_scores_as_its_tiles_do_in_one_group(folders, kind):
    whole, tiles = score(folders[kind, False]), score(folders[kind, True])
    assert len(whole.cases) == 1
    assert len(tiles.cases) == 6
    of_group = whole.details["groups"]["slide"]["rules"]
    assert of_group["iou_above"]["counts"]["true_positives"] > 100
    for rule, entry in tiles.details["groups"]["slide"]["rules"].items():
        assert entry["scores"] == of_group[rule]["scores"]
        assert entry["undefined"] == of_group[rule]["undefined"]
        assert entry["counts"]["confusion_matrix"] == of_group[rule]["counts"]["confusion_matrix"]
    assert numbers_of(whole.metrics, "pooled") == numbers_of(tiles.metrics, "pooled")
    assert numbers_of(whole.metrics, "group_mean") == numbers_of(tiles.metrics, "group_mean")


def numbers_of(node: dict[str, Any], aggregation: str) -> list[Any]:
    """All numbers of an aggregation, in the order of their paths."""
    found = [node[aggregation]] if aggregation in node else []
    for key in sorted(node):
        found += numbers_of(node[key], aggregation) if isinstance(node[key], dict) and key != "undefined" else []
    return found


@pytest.mark.parametrize("kind", list(slides.KINDS))
def test_the_files_are_the_same_however_little_is_done_at_once(folders, kind):
    at_once = score(folders[kind, False]).texts()
    with ExitStack() as stack:
        for module, values in IN_PIECES:
            stack.enter_context(mock.patch.multiple(module, **values))
        assert score(folders[kind, False]).texts() == at_once


@given(pairs_of_images(overlap=True), st.integers(1, 4))
def test_bands_are_whole_rows_that_hold_every_run_once(pair, at_once):
    width = pair[0][0].shape[2]
    starts = [instances_of(*side).run_start for side in pair]
    with mock.patch.object(arrays, "RUNS_AT_ONCE", at_once):
        bands = list(row_bands(starts, width))
    for side, start in enumerate(starts):
        parts = [start[band[side]] for band in bands]
        assert np.concatenate(parts).tolist() == start.tolist()
        assert all(len(part) <= at_once + width * len(pair[side][0]) for part in parts)
    rows = [{int(row) for side in (0, 1) for row in starts[side][band[side]] // width} for band in bands]
    assert sum(map(len, rows)) == len(set().union(*rows))


@given(st.lists(st.integers(-3, 3)))
def test_distinct_values_are_those_of_numpy(values):
    array = np.array(values, np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()


# --- memory ---------------------------------------------------------------------------------------------------------


def test_the_records_of_a_long_file_are_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "slide.json"
    path.write_bytes(b'{"a": 1, "nuclei": [' + b",".join([b'{"x": [' + b"[1],[2]," * 999 + b"3]}"] * 2000) + b"]}")
    with memory_below(3 * path.stat().st_size // 2), path.open("rb") as stream:  # whole, 20 times the text
        records = read_records(stream, key="nuclei", where="'a.json'", limits=LimitRules())
        assert records.pieces is not None
        assert sum(len(piece) for piece in records.pieces) == 2000


SCORE_WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from evaluation.scoring.street import score_submission
folder = Path(sys.argv[1])
import scipy.sparse.csgraph, shapely, orjson
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(sys.argv[2]), resource.RLIM_INFINITY))
result = score_submission(folder / "challenge", folder / "submission", workers=1)
result.write(folder / "output")
print(result.value("detection.f1.pooled"))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="only Linux tells how large a process is")
def test_a_slide_of_ten_thousand_million_pixels_takes_memory_for_its_nuclei_alone(tmp_path):
    with mock.patch.object(slides, "DRAWN", 1):
        write_slide(tmp_path, Slide(10, 10, 10_000, 80))
    command = [sys.executable, "-c", SCORE_WITH_LITTLE_MEMORY, str(tmp_path), str(250_000_000)]  # a picture: 10 GB
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert 0.8 < float(done.stdout) < 0.95
    rows = (tmp_path / "output" / "objects.csv").read_text().splitlines()
    assert len(rows) > 2 * 8_000


def test_the_model_of_time_and_memory_holds_at_the_three_sizes_that_were_measured():
    page = (Path(__file__).resolve().parents[1] / "docs" / "scale.md").read_text()

    def row(name: str) -> list[tuple[float, float]]:
        line = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        return [(float(us), float(gb)) for us, gb in re.findall(r"([\d.]+)\**, ([\d.]+) GB", line)]

    measured, model = row("**all**"), row("the model")
    assert len(measured) == len(model) == 3
    for nuclei, found, expected in zip((10_000, 100_000, 1_000_000), measured, model, strict=True):
        seconds, memory = predict_slide(nuclei)
        assert expected == (round(1e6 * seconds / nuclei, 1), round(memory / 1e9, 2))
        assert expected == pytest.approx(found, rel=0.25)
    assert measured[2][0] < 1.5 * measured[0][0]
    assert measured[2][1] < 4


# --- what is read twice ---------------------------------------------------------------------------------------------

RECORDS = [f'{{"id": {index}, "text": "a \\\\ [{{ \\" {index}"}}' for index in range(200)]
TEXT = '{"before": ["[", 1],\n"nuclei": [\n' + ",\n".join(RECORDS) + '\n], "behind": {"x": "]}"}}\n'


def pieces_of(data: bytes, **options: Any) -> tuple[Any, list[Any]]:
    with mock.patch.object(bounded_json, "BATCH_BYTES", 300):
        found = read_records(io.BytesIO(data), key="nuclei", where="'a'", limits=LimitRules(), **options)
        assert found.pieces is not None
        return found.root, [record for piece in found.pieces for record in piece]


def test_compressed_files_and_marked_ones_are_read_in_pieces_too():
    whole = json.loads(TEXT)
    for data in (TEXT.encode(), gzip.compress(TEXT.encode()), b"\xef\xbb\xbf" + TEXT.encode()):
        root, records = pieces_of(data)
        assert records == whole["nuclei"]
        assert root == whole | {"nuclei": []}


def test_the_line_of_a_fault_is_that_of_the_file():
    for key, line in (('"id": 150', 153), ('"before": ', 1), ('"behind": ', 203)):
        broken = TEXT.replace(key, key.replace(": ", ": ?"))
        column = broken.splitlines()[line - 1].index("?") + 1
        for data in (broken.encode(), gzip.compress(broken.encode())):
            with pytest.raises(InputFault) as fault:
                pieces_of(data)
            assert f"(line {line}, column {column})" in str(fault.value.findings[0])


def test_numbers_that_are_none_are_null_in_every_piece_and_words_in_lists():
    text = TEXT.replace('"id": 7,', '"id": NaN,').replace('"id": 190,', '"id": -Infinity,').replace(" 1]", " NaN]")
    root, records = pieces_of(text.encode(), nan_is_null=True)
    assert [index for index, record in enumerate(records) if record["id"] is None] == [7, 190]
    assert root["before"] == ["[", "NaN"]


# --- limits ---------------------------------------------------------------------------------------------------------


def with_limits(folder: Path, tmp_path: Path, limits: str) -> Path:
    """The same slide under other limits."""
    challenge = tmp_path / "challenge"
    challenge.mkdir()
    text = (folder / "challenge/challenge.toml").read_text().partition("[limits]")[0]
    (challenge / "challenge.toml").write_text(f"{text}\n[limits]\n{limits}\n")
    (challenge / "cases.csv").write_text((folder / "challenge/cases.csv").read_text())
    (challenge / "reference").symlink_to(folder / "challenge/reference")
    (tmp_path / "submission").symlink_to(folder / "submission")
    return tmp_path


def test_outlines_may_lie_on_a_slide_of_any_size_and_label_images_when_the_organiser_says_so(folders, tmp_path):
    folder = with_limits(folders["geojson", False], tmp_path, "")
    (folder / "challenge/cases.csv").write_text("case,group,height,width\nslide,slide,100000,100000\n")
    assert score(folder).metrics["detection"]["f1"]["pooled"] > 0.8
    limits = LimitRules()
    assert limits.instances_per_case >= 10**6
    assert limits.vertices_per_file >= 25 * 10**6
    path = folder / "challenge/challenge.toml"
    head, submission = path.read_text().split("[submission]")
    outlines = 'format = "geojson"\nfiles = "{case}.geojson"\nshape = "outline"\nvertices = "exact"\n'
    assert outlines in submission
    labels = submission.replace(outlines, 'format = "label_image"\nfiles = "{case}_{class}.tif"\n')
    labels = labels.replace('origin = "pixel_centre"\nvanished = "drop"\n', "")
    path.write_text(f"{head}[submission]{labels}")
    with pytest.raises(ChallengeBroken, match="pixels_per_image"):
        Challenge.load(folder / "challenge")
    path.write_text(path.read_text().replace("[limits]", "[limits]\npixels_per_image = 10_000_000_000"))
    assert Challenge.load(folder / "challenge").limits.pixels_per_image == 10**10


@pytest.mark.parametrize(
    "limit", ["instances_per_case = 100", "vertices_per_file = 2000", "bytes_per_file = 20000", "json_depth = 5"]
)
def test_limits_refuse_what_is_larger(folders, tmp_path, limit):
    folder = with_limits(folders["geojson", False], tmp_path, limit)
    with pytest.raises((ChallengeBroken, SubmissionRejected), match=r"too-large|too-deep"):
        score(folder)


def test_nuclei_of_both_sides_times_pixels_fit_into_a_number():
    most = {
        name: field.metadata[1].le
        for name, field in LimitRules.model_fields.items()
        if name in ("pixels_per_image", "instances_per_case")
    }
    assert np.prod(list(most.values()), dtype=object) * 2.2 < 2**63
    for name, limit in most.items():
        with pytest.raises(ValueError, match=name):
            LimitRules(**{name: limit + 1})


def test_the_benchmark_finds_every_stage_and_measures_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUCLEI_BENCHMARK_CACHE", str(tmp_path))
    found = scale.measure(scale.slide_folder(1_000, "geojson"))
    assert [stage for stage, seconds in found["seconds"].items() if seconds <= 0] == []
    assert found["whole"] > sum(found["seconds"].values())
    assert "| outlines to runs | " in scale.stage_table({1_000: found})


def test_the_benchmark_of_all_families_runs() -> None:
    labels = np.zeros((20, 30), np.int32)
    labels[2:8, 2:9], labels[10:16, 12:20] = 1, 2
    classes = np.array([1, 2], np.int16)
    asked = families.ask_for_intervals([LabelMaps(labels, np.roll(labels, 1, axis=1), classes, classes)] * 4)
    assert {metric.path[0] for metric in asked.metrics} >= {"detection", "sizes", "curves"}


def test_runs_in_the_order_of_their_instances() -> None:
    for nuclei, runs in ((100, 1_000), (70_000, 200_000), (70_000, 1), (70_000, 0)):
        index = np.random.default_rng(0).integers(0, nuclei, runs).astype(np.int32)
        start, ids = np.arange(runs) * 3, np.full(nuclei, None, object)
        instances = Instances((1_000, 1_000), np.ones(nuclei, np.int16), ids, start, start + 1, index)
        assert instances.runs_by_instance().tolist() == np.argsort(index, kind="stable").tolist()
