"""Challenges that score numbers of nuclei only, as task 2 of CoNIC: from files to metrics.json."""

from __future__ import annotations

import csv
import io
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_format import small_document, toml
from sklearn.metrics import mean_absolute_error, r2_score

from evaluation import Challenge, instances_from_labels, score_instances, score_submission
from evaluation.commands.main import run
from evaluation.findings import render_findings
from evaluation.findings.errors import ChallengeBroken, SubmissionRejected
from evaluation.platform.kit import write_kit
from evaluation.report.result import ResultDocuments
from evaluation.report.skills import SKILLS, side_by_side
from evaluation.scoring.street import check_submission
from nuclei_metrics.model import Case

CLASSES = ("epithelial", "plasma", "other")
SIZE = (40, 50)
COUNTS = {"format": "counts_csv"}
LABELS = {
    "format": "label_image", "files": "reference/{case}.npy", "class_map": "reference/{case}_class.npy",
    "class_values": {"epithelial": [3, 4], "plasma": 1, "other": 2}, "overlap": "keep", "overlap_scope": "image",
}  # fmt: skip
POINTS = {"format": "points_csv", "files": "reference/points.csv", "origin": "pixel_centre", "units": "px"}


def document(**tables: Any) -> dict[str, Any]:
    """Rules of a challenge whose two sides are counts; ``tables`` are merged in."""
    rules = small_document({**COUNTS, "files": "counts.csv"}, name="Counts", classes=CLASSES, families=["counting"])
    for name, table in tables.items():
        merged = isinstance(table, dict) and "format" not in table
        rules[name] = {**rules.get(name, {}), **table} if merged else table
    return rules


def written(names: list[str], counts: np.ndarray) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", *CLASSES])
    writer.writerows([name, *row] for name, row in zip(names, counts.tolist(), strict=True))
    return text.getvalue()


class Bench:
    """A challenge and a submission in a folder, ready to be scored."""

    def __init__(self, folder: Path, cases: int = 6, **tables: Any) -> None:
        self.challenge, self.submission = folder / "challenge", folder / "submission"
        (self.challenge / "reference").mkdir(parents=True)
        self.submission.mkdir()
        self.names = [f"image_{index}" for index in range(cases)]
        (self.challenge / "challenge.toml").write_text(toml(document(**tables)))
        rows = [f"{name},P{index // 2},{SIZE[0]},{SIZE[1]}" for index, name in enumerate(self.names)]
        (self.challenge / "cases.csv").write_text("\n".join(["case,group,height,width", *rows, ""]))
        rng = np.random.default_rng(cases)
        self.reference = rng.integers(0, 9, (cases, len(CLASSES)))
        self.prediction = np.maximum(self.reference + rng.integers(-2, 3, self.reference.shape), 0)
        self.write("reference", self.names, self.reference)
        self.write("submission", self.names, self.prediction)

    def write(self, side: str, names: list[str], counts: np.ndarray) -> None:
        folder = self.challenge / "reference" if side == "reference" else self.submission
        (folder / "counts.csv").write_text(written(names, counts))

    def score(self):
        return score_submission(self.challenge, self.submission, workers=1)

    def check(self, prediction: np.ndarray | None = None) -> None:
        """What is scored is what scikit-learn says."""
        result = self.score()
        predicted = self.prediction if prediction is None else prediction
        errors = mean_absolute_error(self.reference, predicted)
        assert result.value("counting.mean_absolute_error.pooled") == pytest.approx(errors, abs=1e-6)
        scores = r2_score(self.reference, predicted, multioutput="raw_values")
        for name, expected in zip(CLASSES, scores, strict=True):
            assert result.value(f"counting.per_class.{name}.r2.pooled") == pytest.approx(expected, abs=1e-6)
        assert result.value("counting.r2.pooled") == pytest.approx(scores.mean(), abs=1e-6)


# --- both sides are numbers -------------------------------------------------------------------------------------------


def test_rows_belong_to_the_cases_that_they_name(tmp_path):
    bench = Bench(tmp_path)
    bench.write("submission", bench.names[::-1], bench.prediction[::-1])
    bench.check()


def test_without_names_rows_belong_to_the_index_of_cases(tmp_path):
    """The published form: CoNIC's tables have a column for each class and nothing else."""
    bench = Bench(tmp_path)
    index = [3, 0, 5, 1, 4, 2]
    rows = [f"{name},{SIZE[0]},{SIZE[1]},{place}" for name, place in zip(bench.names, index, strict=True)]
    (bench.challenge / "cases.csv").write_text("\n".join(["case,height,width,index", *rows, ""]))
    lines = [",".join(map(str, row)) for row in bench.prediction[np.argsort(index)].tolist()]
    (bench.submission / "counts.csv").write_text("\n".join([",".join(CLASSES), *lines, ""]))
    bench.check()


def test_documents_tell_the_numbers_and_claim_no_pairs(tmp_path):
    """metrics.json has one family and no alternatives, objects.csv a header."""
    bench = Bench(tmp_path)
    result = bench.score()
    result.write(tmp_path / "out")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert set(metrics) == {"challenge", "software", "counting", "standard_deviations", "undefined"}
    assert set(metrics["counting"]) == {"r2", "mean_absolute_error", "per_class"}
    assert metrics["undefined"]["counting"]["r2"]["case_mean"] == "constant-reference"
    (header,) = (tmp_path / "out" / "objects.csv").read_text().splitlines()
    assert header.startswith("case,group,rule,outcome")
    (entry,) = result.details["cases"]["image_2"]["rules"].values()
    assert {key: number for key, number in entry["counts"].items() if key != "sums"} == {
        "cases": 1,
        "missing_cases": 0,
        "reference": bench.reference[2].tolist(),
        "prediction": bench.prediction[2].tolist(),
    }
    counts = result.details["pooled"]["rules"]["counted"]["counts"]
    assert counts["reference"] == bench.reference.sum(axis=0).tolist()
    table = side_by_side("", {"all pooled": (ResultDocuments(result.metrics), "pooled")}, SKILLS)
    assert [row[0] for row in table.rows] == ["counting.mean_absolute_error ↓", "counting.r2 ↑"]


def test_a_case_without_a_row_counts_as_no_nuclei_or_is_refused_as_the_challenge_says(tmp_path):
    bench = Bench(tmp_path)
    bench.write("submission", bench.names[1:], bench.prediction[1:])
    prediction = bench.prediction.copy()
    prediction[0] = 0
    bench.check(prediction)
    (warning,) = render_findings(bench.score().findings)
    assert warning.startswith("[missing-case-worst] case 'image_0': no entry")
    assert bench.score().details["cases"]["image_0"]["submitted"] is False
    (bench.challenge / "challenge.toml").write_text(toml(document(submission={"missing_case": "reject"})))
    with pytest.raises(SubmissionRejected, match="missing-case"):
        bench.score()
    bench.write("submission", [*bench.names[1:], "image_9"], bench.prediction)
    with pytest.raises(SubmissionRejected, match="unknown-case"):
        bench.score()
    bench.write("submission", bench.names, bench.prediction)
    bench.write("reference", bench.names[1:], bench.reference[1:])
    with pytest.raises(ChallengeBroken, match=r"no entry for case 'image_0'"):
        bench.score()


def test_what_is_no_number_of_nuclei_is_refused_with_its_line(tmp_path):
    bench = Bench(tmp_path)
    lines = (bench.submission / "counts.csv").read_text().splitlines()
    for value in ["-1", "2.5", "", "nan", "inf", "1e300", "1000000001", "9" * 400, "0x10", "=1+1"]:
        lines[3] = f"image_2,1,{value},3"
        (bench.submission / "counts.csv").write_text("\n".join(lines))
        with pytest.raises(SubmissionRejected) as caught:
            bench.score()
        (line,) = render_findings(caught.value.findings)
        assert line.startswith("[invalid-count] 'counts.csv', line 4: 'plasma' is ")
        assert len(line) < 400


def test_absurd_numbers_are_as_bad_as_they_are_and_never_wrap_round_to_a_good_score(tmp_path):
    """40 squares of 10^9 do not fit into 64 bits. What is the same everywhere has no R2, however large."""
    cases = 40
    bench = Bench(tmp_path, cases)
    bench.write("submission", bench.names, np.full_like(bench.reference, 10**9))
    value = bench.score().value("counting.per_class.plasma.r2.pooled")
    numbers = [int(number) for number in bench.reference[:, 1]]
    rss = sum((number - 10**9) ** 2 for number in numbers)
    tss = sum((number - Fraction(sum(numbers), cases)) ** 2 for number in numbers)
    assert value == pytest.approx(float(1 - rss / tss), rel=1e-12)
    assert value < -1e15
    reference = np.full_like(bench.reference, 999_999_937)
    reference[:, 0] = np.arange(40) * 10**7
    bench.write("reference", bench.names, reference)
    result = bench.score()
    assert result.metrics["undefined"]["counting"]["per_class"]["plasma"]["r2"]["pooled"] == "constant-reference"
    expected = r2_score(reference[:, 0].astype(float), np.full(cases, 10.0**9))
    assert result.value("counting.per_class.epithelial.r2.pooled") == pytest.approx(expected, abs=1e-6)


# --- the other side has nuclei ----------------------------------------------------------------------------------------


def draw(counts: np.ndarray, numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Label image and class map: nuclei of one pixel, as many of each class as asked for."""
    labels, classes = np.zeros(SIZE, np.uint16), np.zeros(SIZE, np.uint16)
    of_nucleus = np.repeat(numbers, counts)
    places = np.arange(len(of_nucleus)) * 3
    labels.flat[places] = np.arange(1, len(of_nucleus) + 1)
    classes.flat[places] = of_nucleus
    return labels, classes


def test_a_reference_of_label_images_is_counted(tmp_path):
    bench = Bench(tmp_path, reference=LABELS)
    for index, (name, counts) in enumerate(zip(bench.names, bench.reference, strict=True)):
        labels, classes = draw(counts, (3 + index % 2, 1, 2))
        np.save(bench.challenge / "reference" / f"{name}.npy", labels)
        np.save(bench.challenge / "reference" / f"{name}_class.npy", classes)
    bench.check()


def test_a_submission_of_points_is_counted_against_numbers(tmp_path):
    points = {**POINTS, "files": "points.csv", "missing_case": "worst", "missing_class_file": "empty"}
    bench = Bench(tmp_path, submission=points)
    rows = [
        [name, 1, index, of_class]
        for name, counts in zip(bench.names, bench.prediction, strict=True)
        for index, of_class in enumerate(np.repeat(CLASSES, counts))
    ]
    rows += [[name, "", "", ""] for name in bench.names]
    (bench.submission / "counts.csv").unlink()
    text = "\n".join(["case,x,y,class", *(",".join(map(str, row)) for row in rows), ""])
    (bench.submission / "points.csv").write_text(text)
    bench.check()


def test_instances_in_memory_are_counted():
    reference, prediction = np.random.default_rng(3).integers(0, 6, (2, 5, 3))
    images = {}
    for index, pair in enumerate(zip(reference, prediction, strict=True)):
        sides = [instances_from_labels(draw(counts, (1, 2, 3))[0], np.repeat([1, 2, 3], counts)) for counts in pair]
        images[f"i{index}"] = sides[0], sides[1]
    result = score_instances(Challenge.build(document()), images)
    assert result.value("counting.r2.pooled") == pytest.approx(r2_score(reference, prediction), abs=1e-6)


# --- intervals, rankings, strata --------------------------------------------------------------------------------------


def test_intervals_and_rankings_read_the_numbers_at_their_paths(tmp_path):
    confidence = {"level": 0.9, "samples": 200, "seed": 1, "method": "percentile", "resample": "groups"}
    columns = [{"path": "counting.r2.pooled", "direction": "descending"}]
    ranking = {"method": "sum_of_ranks", "ties": "min", "significance_level": 0.05, "columns": columns}
    bench = Bench(tmp_path, 12, confidence=confidence, ranking=ranking)
    interval = bench.score().metrics["confidence_intervals"]["counting"]["r2"]["pooled"]
    assert interval["low"] < bench.score().value("counting.r2.pooled") < interval["high"]
    columns[0]["path"] = "detection.f1.pooled"
    (bench.challenge / "challenge.toml").write_text(toml(document(ranking=ranking)))
    with pytest.raises(ChallengeBroken, match=r"\[invalid-rule\] challenge.toml: ranking.columns: 'detection"):
        bench.score()


# --- rules ------------------------------------------------------------------------------------------------------------

RULE = {"name": "iou", "rule": "iou_above", "threshold": 0.5, "class_aware": False, "ties": "first_pixel"}


def fault_of(rules: dict[str, Any]) -> str:
    with pytest.raises(ChallengeBroken) as caught:
        Challenge.build({**rules, "cases": (Case("a", "P", 5, 5),)})
    (line,) = render_findings(caught.value.findings)
    return line.removeprefix("[").replace("] challenge.toml:", "")


@pytest.mark.parametrize("tables, line", [
    ({"matching": {"rules": [RULE]}},
     "contradictory-rules matching.rules: given although reference.format is 'counts_csv'; expected no "
     "matching, since numbers cannot be paired."),
    ({"metrics": {"families": ["counting", "detection"]}},
     "contradictory-rules metrics.families: 'counting' and 'detection', given although reference.format is "
     "'counts_csv'; expected 'counting' alone, since only numbers of nuclei can be compared."),
    ({"reference": {**LABELS, "ignore": {"classes": ["unclear"], "policy": "clip"}}},
     "contradictory-rules reference.ignore.classes: given although submission.format is 'counts_csv'; expected "
     "no such key, since numbers of nuclei have no positions."),
    ({"reference": {**LABELS, "overlap": "ignore", "ignore": {"policy": "clip"}}},
     "contradictory-rules reference.overlap: given although submission.format is 'counts_csv'; expected "
     "no such key, since numbers of nuclei have no positions."),
    ({"reference": {**COUNTS, "files": "reference/counts.csv", "overlap": "keep"}},
     "contradictory-rules reference.overlap: given for counts; expected no such key, since counts do not "
     "overlap."),
    ({"reference": {**COUNTS, "files": "reference/{class}.csv"}},
     "invalid-rule reference.files: a pattern with {class}; expected one without, since each class has "
     "a column."),
    ({"reference": {**COUNTS, "files": "reference/{case}.csv"}},
     "invalid-rule reference.files: a pattern with {case}; expected no {case}, since a "
     "file of this format contains all cases."),
    ({"reference": {**COUNTS, "files": "reference/counts.csv", "units": "px"}},
     "contradictory-rules reference.units: given with the format 'counts_csv'; expected only keys of "
     "this format."),
])  # fmt: skip
def test_what_numbers_of_nuclei_cannot_do_is_told(tables, line):
    assert fault_of(document(**tables)) == line


def test_counts_have_no_matching_rules_and_nuclei_need_one():
    for matching in ({}, {"rules": []}):
        assert Challenge.build(document(matching=matching)).hash == Challenge.build(document()).hash
    points = {**POINTS, "files": "points.csv"}
    rules = document(reference=points, submission={**points, "missing_case": "worst", "missing_class_file": "empty"})
    assert fault_of(rules).startswith("missing-rule matching: missing; expected a value")
    assert "matching.rules" in fault_of({**rules, "matching": {"rules": []}})


# --- commands ---------------------------------------------------------------------------------------------------------


def test_the_kit_holds_an_example_that_validates(tmp_path):
    bench = Bench(tmp_path)
    write_kit(bench.challenge, kit := tmp_path / "kit")
    text = (kit / "example_submission" / "counts.csv").read_text()
    assert text.splitlines()[:2] == ["case,epithelial,plasma,other", "image_0,1,1,1"]
    _, findings = check_submission(kit, kit / "example_submission.zip", workers=1)
    assert findings == ()
    guide = (kit / "GUIDE.md").read_text()
    assert "a column for each class" in guide and "Their positions do not matter" in guide


def test_commands_score_counts_and_refuse_to_draw_them(tmp_path, capsys):
    bench = Bench(tmp_path)
    given = ["--challenge", str(bench.challenge), "--submission", str(bench.submission)]
    assert run(["validate", *given]) == 0
    assert run(["score", *given, "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "metrics.json").is_file()
    capsys.readouterr()
    assert run(["rasterise", *given[:2], "--output", str(tmp_path / "drawn")]) == 0
    assert "The reference contains numbers of nuclei; there is nothing to rasterise." in capsys.readouterr().out
    for source, where in (("reference", given[:2]), (str(bench.submission), given[:2])):
        assert run(["convert", *where, source, str(tmp_path / "converted"), "--to", "geojson"]) == 1
        told = capsys.readouterr().err
        assert "[unsupported-shape] case 'image_0', " in told and "numbers of nuclei; expected outlines" in told
    file = str(bench.submission / "counts.csv")
    assert run(["convert", file, str(tmp_path / "one.geojson"), "--from", "counts_csv", "--to", "geojson"]) == 1
    assert "[unsupported-shape] 'counts.csv': numbers of nuclei" in capsys.readouterr().err
    assert not (tmp_path / "converted").exists()


def test_the_page_of_conic_shows_a_whole_challenge_for_task_2(tmp_path):
    pages = (Path(__file__).resolve().parents[1] / "docs/presets.md").read_text()
    page = pages.split("## conic2022\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "reference").mkdir()
    (tmp_path / "submission").mkdir()
    (tmp_path / "challenge.toml").write_text(block)
    (tmp_path / "cases.csv").write_text("case,height,width,index\na,256,256,1\nb,256,256,0\nc,256,256,2\n")
    challenge = Challenge.load(tmp_path)
    conic = Challenge.from_preset("conic2022", name="x")
    assert (challenge.class_names, challenge.aggregation) == (conic.class_names, conic.aggregation)
    reference = np.array([[0, 1, 2, 3, 4, 5], [1, 1, 2, 9, 4, 2], [3, 7, 7, 7, 7, 7]])
    prediction = reference + np.array([[1, 0, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0], [0, 0, 0, 0, 0, 1]])
    for name, numbers in (("reference/counts.csv", reference), ("submission/predictions.csv", prediction)):
        lines = [",".join(map(str, row)) for row in (conic.class_names, *numbers.tolist())]
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    result = score_submission(tmp_path, tmp_path / "submission", workers=1)
    assert result.value("counting.r2.pooled") == pytest.approx(r2_score(reference, prediction), abs=1e-6)
