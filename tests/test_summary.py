"""Why the PQ is below 1, the viewer of a notebook, and tables on terminals of any width."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import evaluation
from evaluation.commands.main import run
from evaluation.folders.compare import Comparison
from evaluation.report.page import Cell, Column, Table
from evaluation.report.terminal import block_renderables


def squares(*places: tuple[int, int], side: int = 12, shape: tuple[int, int] = (60, 60)) -> np.ndarray:
    labels = np.zeros(shape, np.uint16)
    for number, (row, column) in enumerate(places, start=1):
        labels[row : row + side, column : column + side] = number
    return labels


REFERENCE = squares((4, 4), (4, 40), (40, 4), (40, 40))
SHIFTED = np.roll(REFERENCE, 2, axis=1)  # each has an IoU of 10 / 14
TWO_MISSED = np.where(REFERENCE > 2, 0, REFERENCE)


def rows_of(found: Comparison) -> dict[str, list[str]]:
    """The rows of the summary by their first cell, as they are printed."""
    lines = [re.split(r" {2,}", line.strip()) for line in repr(found.summary()).splitlines()]
    return {name: cells for name, *cells in lines if cells}


@pytest.fixture
def found() -> Comparison:
    return evaluation.compare([REFERENCE] * 2, {"shifted": [SHIFTED] * 2, "missing": [TWO_MISSED] * 2})


def test_what_errors_cost_is_what_the_score_gains_if_they_are_gone(found: Comparison) -> None:
    """PQ of the shifted model is 10/14; two of four nuclei missed make 2 / (2 + 2/2) = 2/3."""
    rows = rows_of(found)
    assert rows["PQ"] == ["0.7143", "0.6667"]
    assert rows["Outlines: all of them as in the reference"] == [f"! {4 / 14:.3f}", "0.000"]
    assert rows["Detection: false negatives"] == ["0.000 (0)", f"! {1 / 3:.3f} (4)"]
    assert "Classes: wrong class" not in rows and "Detection: split nuclei" not in rows


def test_outlines_stand_beside_those_of_one_pixel(found: Comparison) -> None:
    """A disc of 144 px has a radius of 6.77 px; one pixel less all around leaves 0.726 of it, more than 10/14."""
    rows = rows_of(found)
    disc = (1 - 1 / np.sqrt(144 / np.pi)) ** 2
    assert rows["Matched nuclei: mean IoU, pooled"] == ["0.7143", "1.0000"]
    assert rows["IoU of one pixel"] == [f"{disc:.4f}"] * 2
    assert rows["Matched nuclei with at least this IoU"] == ["0%", "100%"]


def test_a_notebook_shows_the_rows_of_the_terminal(found: Comparison) -> None:
    html = found._repr_html_()
    for row in found.scores().rows:
        assert f">{row[0]}</th>" in html
    assert "Why PQ is below 1" in html


def test_a_notebook_has_the_viewer_in_a_frame(found: Comparison, browser, tmp_path: Path) -> None:
    shown = found.show(found.challenge.cases[1].name)
    (tmp_path / "notebook.html").write_text(f"<html data-drawn><body>{shown._repr_html_()}")
    with browser.open(tmp_path / "notebook.html", width=1000) as opened:
        frame = opened.page.frame_locator("iframe")
        viewer = frame.locator("dialog.viewer")
        viewer.wait_for()
        name = found.challenge.cases[1].name
        assert viewer.locator(".why").inner_text() == name and "4 errors" not in viewer.inner_text()
        viewer.locator("canvas").press("2")
        viewer.locator("canvas").press("1")
        assert [box.is_checked() for box in viewer.locator("[name=model]").all()] == [False, True]
        viewer.get_by_role("button", name="Next", exact=True).click()
        assert viewer.locator(".why").inner_text().startswith("False negative. No predicted nucleus overlaps it.")
        assert opened.errors == [] and opened.requests == []
    with pytest.raises(ValueError, match="no image 'x'; expected"):
        found.show("x")


def test_files_are_shown_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, labels in (("reference", REFERENCE), ("model_a", SHIFTED), ("model_b", TWO_MISSED)):
        Path(folder).mkdir()
        np.save(f"{folder}/one.npy", labels)
    found = evaluation.compare("reference", ["model_a", "model_b"])
    assert list(found.results) == ["a", "b"] and found.show().page.sections[0].title == "Images"
    assert "srcdoc" in found.show()._repr_html_()


# --- names ------------------------------------------------------------------------------------------------------------


def test_models_have_the_names_that_are_given_and_lose_what_all_names_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("reference", "submission_alpha", "submission_beta", "x"):
        Path(folder).mkdir()
        np.save(f"{folder}/one.npy", REFERENCE)
    given = ["compare", "reference", "submission_alpha", "submission_beta"]
    assert run([*given, "--name", "My net=x", "--output", "out"]) == 0
    assert sorted(path.name for path in Path("out/results").iterdir()) == ["My net", "alpha", "beta"]
    assert re.search(r"score +alpha +beta +My net", capsys.readouterr().out)
    assert run([*given, "--annotator", "x"]) == 0
    assert re.search(r"score +alpha +beta +○ x", capsys.readouterr().out)
    assert run([*given, "--name", "alpha=x"]) != 0 and "two predictions have the same name" in capsys.readouterr().err
    assert run([*given, "--name", "x"]) != 0 and "expected a unique name of letters" in capsys.readouterr().err
    assert run(["compare", "reference"]) != 0 and "PREDICTIONS" in capsys.readouterr().err
    assert run(["compare", "reference", "--name", "only=x"]) == 0


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("m_1.csv", "m_2.csv"), ("m_1", "m_2")),  # a number says nothing
        (("sub_a_x.csv", "sub_a_y.csv"), ("x", "y")),
        (("alpha.csv", "alpine.csv"), ("alpha", "alpine")),  # no word is cut
        (("sub_a.csv",), ("sub_a",)),
    ],
)
def test_a_name_is_shortened_at_words_only(paths: tuple[str, ...], names: tuple[str, ...]) -> None:
    from evaluation.folders.compare import model_names

    assert tuple(model_names([Path(path) for path in paths])) == names


# --- terminals --------------------------------------------------------------------------------------------------------


def printed(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    for part in block_renderables(table, 99):
        console.print(part)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("width", "blocks"), [(140, 1), (84, 2), (60, 3)])
def test_a_terminal_cuts_no_name_and_wraps_no_interval(width: int, blocks: int) -> None:
    models = ("convolutional_net", "transformer_large", "annotators_2")
    interval = Cell(0.5, "0.5000 (0.400\u00a0to\u00a00.600)")
    rows = (("Detection: F1 ↑", *[interval] * 3), ("Threat score at IoU 0.75 ↑", *[interval] * 3))
    lines = printed(Table("", "", (Column("mean over images"), *(Column(model, 3) for model in models)), rows), width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert all(text.count(model) == 1 for model in models)
    assert text.count("0.5000 (0.400\u00a0to\u00a00.600)") == 6
    assert text.count("Threat score at IoU 0.75 ↑") == text.count("mean over images") == blocks
