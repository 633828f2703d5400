"""A page in the terminal: the same numbers, no markup of strangers, long tables cut."""

from __future__ import annotations

import io

from made_page import PATIENTS, made_page
from rich.console import Console

from evaluation.report.page import Cell, Column, Page, Section, Table
from evaluation.report.terminal import page_renderables


def printed(page: Page, rows: int = 20) -> str:
    console = Console(file=io.StringIO(), width=140, highlight=False, force_terminal=True, color_system=None)
    for part in page_renderables(page, rows=rows):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_page(*rows: tuple[Cell | float | str | None, ...]) -> Page:
    table = Table("table", "A table", (Column("name"), Column("value", 2)), rows, note="A note.")
    return Page("A page", "", (), (Section("part", "A part", (table,)),))


def test_tiles_tables_texts_and_plots_in_words_are_there() -> None:
    lines = [" ".join(line.split()) for line in printed(made_page()).splitlines()]
    for line in (
        "Nuclei in four classes: team Aurora",
        "Detection: F1 0.782 95 %: 0.731 to 0.829 · place 2 of 14",
        "! AUROC – no class probabilities were submitted",
        "! Two images have no prediction at all. They count as empty.",
        "TCGA-5P-A9K0 303 0.641 – ✕ −0.159",
        "Median F1 is 0.781; the lowest patient has 0.641.",
        "4 nuclei to look through, on the page only.",
        "Only on the page: How stable the ranks are; The rules that were applied.",
    ):
        assert line in lines
    assert "Kendall" not in "\n".join(lines)  # in a folded section


def test_markup_and_control_characters_of_strangers_are_shown() -> None:
    names = ("[bold red]x[/]", "[/]", "\x1b[31mred\x07", "\u202egnp", *PATIENTS[4:])
    text = printed(made_page(names, title="[link=https://example.org]A[/link]"))
    for shown in ("[bold red]x[/]", "‹U+001B›[31mred‹U+0007›", "‹U+202E›gnp", "[link=https://example.org]A[/link]"):
        assert shown in text
    assert not {character for character in text if character < " "} - {"\n"}


def test_a_long_table_is_cut_and_says_so() -> None:
    page = table_page(*((f"row {index}", index / 4) for index in range(1234)))
    text = printed(page, rows=3)
    assert "row 2 " in text and "row 3 " not in text
    assert "and 1,231 more rows on the page" in text
    assert "more rows" not in printed(page, rows=1234)


def test_cells_are_shown_as_in_html() -> None:
    text = printed(table_page(("a", -0.005), ("b", None), (Cell("c", tone="good"), Cell(0.5, text="half"))))
    rows = [line.split() for line in text.splitlines() if line.strip()][-4:-1]
    assert rows == [["a", "−0.01"], ["b", "–"], ["✓", "c", "half"]]
    assert "A note." in text


def test_long_names_are_shown_as_far_as_they_differ() -> None:
    long = "TCGA-E2-A1B5-01Z-00-DX1_preliminary_test_set_of_breast_tumours_region"
    text = printed(table_page(*((f"{long}_{index}.tif", 0.5) for index in range(3))))
    assert [line.split()[0] for line in text.splitlines() if "0.50" in line] == [
        "…region_0…",
        "…region_1…",
        "…region_2…",
    ]
    text = printed(table_page((f"{'x' * 300}a", 0.5)))
    assert text.count("x") == 300  # one name alone is not cut


def test_short_names_are_shown_whole() -> None:
    text = printed(table_page(("region 1", 0.5), ("region 2", 0.5)))
    assert "region 1" in text and "region 2" in text
