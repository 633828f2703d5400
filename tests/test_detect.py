"""Formats found by content: every example file that stands alone, under a name that says nothing."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
from every_format import CASES, SIDES, challenge_document

from evaluation.authoring.kit import example_files
from evaluation.challenge import Challenge
from evaluation.findings.errors import InputFault
from evaluation.formats.detect import Detected, detect_format, foreign_table

LOOK_LIKE_LABELS = ("colour_map",)


def first_example(kind: str) -> bytes:
    challenge = Challenge.build(challenge_document(kind))
    cases = [replace(case, offset_xy=(0.0, 0.0)) for case in CASES]
    return next(iter(example_files(challenge, challenge.submission, cases).values()))


def detected(tmp_path, content: bytes) -> Detected | None:
    path = tmp_path / "file"
    path.write_bytes(content)
    return detect_format(path)


@pytest.mark.parametrize("kind", [kind for kind in SIDES if kind != "points_csv without header"])
def test_the_example_of_every_format_is_found_by_its_content(kind, tmp_path):
    found = detected(tmp_path, first_example(kind))
    format = kind.split()[0]
    assert found is not None
    assert found.format == ("label_image" if format in LOOK_LIKE_LABELS else format)
    assert {"tool", "shape"} & SIDES[kind].keys() <= found.keys.keys()
    assert found.keys.items() <= SIDES[kind].items()


@pytest.mark.parametrize("kind", ["geojson points", "aperio_xml", "coco_json", "points_csv"])
def test_compressed_text_is_found_too(kind, tmp_path):
    assert detected(tmp_path, gzip.compress(first_example(kind))) == detected(tmp_path, first_example(kind))


def test_counts_are_found_by_a_column_of_images(tmp_path):
    assert detected(tmp_path, b"image,tumour,stroma\na,3,4\n") == Detected("counts_csv")
    assert detected(tmp_path, b"stroma;Image_ID\n 3;a\n4.0;b\n") == Detected("counts_csv")


@pytest.mark.parametrize(
    "rows",
    [
        'image_id,polygon\na,"[[1, 2], [3, 4], [5, 6]]"\nb,"[[1, 2], [3, 4], [5, 6]]"\n',
        "image,class,wkt\na,1,POLYGON ((1 2))\n",
        "case,nucleus,area\na,1,20\na,2,30\n",
        "image,confidence\na,0.5\n",
        "image,tumour\na,-3\n",
        "image,tumour\n",
    ],
)
def test_a_table_that_has_an_image_and_no_counts_is_none_of_counts(rows, tmp_path):
    assert detected(tmp_path, rows.encode()) is None


def test_outlines_as_texts_in_a_table_are_named(tmp_path):
    (tmp_path / "a.csv").write_text('image_id,polygon\na,"[[1, 2], [3, 4], [5, 6]]"\n')
    assert foreign_table(tmp_path / "a.csv") == "a table of outlines as texts, not read; write GeoJSON"


def test_a_mat_file_that_is_not_read_is_named(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"n_ary_mask": np.eye(3)}, format="4")
    with pytest.raises(InputFault, match=r"a MATLAB file of version 4; .* Save it with save\(…, '-v7'\)"):
        detect_format(tmp_path / "a.mat")


def test_a_word_behind_the_first_piece_decides(tmp_path):
    images = [{"id": number, "file_name": f"{number:0100}.png"} for number in range(5000)]
    document = {"images": images, "annotations": [{"bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 0, 1, 1]]}]}
    assert detected(tmp_path, json.dumps(document).encode()) == Detected("coco_json")
    del document["annotations"][0]["segmentation"]
    assert detected(tmp_path, json.dumps(document).encode()) == Detected("midog_json")


def test_a_collection_without_features_has_no_shape(tmp_path):
    assert detected(tmp_path, b'{"type": "FeatureCollection", "features": []}') == Detected("geojson")


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"<html></html>", b"hello", b"name\na\n", b"\x00\x01\x02"])
def test_what_is_of_no_format_is_none(content, tmp_path):
    assert detected(tmp_path, content) is None


def test_a_damaged_array_is_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    with pytest.raises(InputFault):
        detect_format(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros((4, 5), np.int32))
    assert detect_format(tmp_path / "a.npy") == Detected("label_image")
