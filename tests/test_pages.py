"""Pages for people, in HTML and on a terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser, OpenedPage
from hypothesis import given
from hypothesis import strategies as st
from made_page import PATIENTS, made_page
from rich.console import Console

from evaluation.findings.errors import WrongUsage
from evaluation.report.figures import COLOURS, MARKS_UP_TO, picture_of, svg_of, tabulate
from evaluation.report.html import TEMPLATES, page_html, require_extra
from evaluation.report.page import Axis, Cell, Column, Dot, Figure, Page, Section, Series, Table, Text
from evaluation.report.pictures import STATE_COLOURS
from evaluation.report.tables import shown_value
from evaluation.report.terminal import page_renderables

HOSTILE = {
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "</script ><!--<script><img src=x onerror=alert(1)>": "</script ><!--<script><img src=x onerror=alert(1)>",
    "\"'`{{7*7}}{% raw %}&amp;%{x}": "\"'`{{7*7}}{% raw %}&amp;%{x}",
    "\u202egnp.exe\x00\x1b[31m\ud800": "‹U+202E›gnp.exe‹U+0000›‹U+001B›[31m‹U+D800›",
    "@1 <a href='https://example.org'>שלום</a>": "@1 <a href='https://example.org'>שלום</a>",
    "long" * 150: "long" * 150,
}


class Reader(HTMLParser):
    """The texts of scripts by id, and where attributes lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str | None, str] = {}
        self.leads: set[str] = set()
        self.tags: list[str] = []
        self.inside: str | None = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.tags.append(tag)
        self.leads |= {(given.get(name) or "").partition(",")[0] for name in ("src", "href", "action") if name in given}
        self.inside = given.get("id", "script") if tag == "script" else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data


def without_plots(page: Page) -> Page:
    """The same page, which is drawn and read in no time."""
    sections = [
        replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Figure)))
        for section in page.sections
    ]
    return replace(page, sections=tuple(sections))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "page.html"
    path.write_text(page_html(made_page()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("without") / "page.html"
    path.write_text(page_html(without_plots(made_page())), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(chromium, made, tmp_path_factory) -> Iterator[OpenedPage]:
    """The page in a wide, light window, for all tests that only look at it."""
    with Browser(chromium, tmp_path_factory.mktemp("opened")).open(made) as page:
        yield page


def one_block(*blocks: Text | Table | Figure) -> Page:
    return Page("A page", "", (), (Section("part", "A part", blocks),))


# --- the file ---------------------------------------------------------------------------------------------------------


def test_equal_pages_give_equal_bytes_which_are_few_and_lead_nowhere_else(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    assert page_html(made_page()) == text and len(text) < 150_000
    assert {lead for lead in Reader(text).leads if not lead.startswith("#")} == {"data:"}
    assert "#table-of-patients" not in Reader(text).leads  # of a cell that leads nowhere
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert len(page_html(one_block(Text(("No plot.",))))) < 45_000


def test_names_of_strangers_add_no_element(plain: Path) -> None:
    with_strangers = page_html(without_plots(made_page(tuple(HOSTILE))))
    assert Reader(with_strangers).tags == Reader(plain.read_text(encoding="utf-8")).tags


def test_names_from_right_to_left_leave_the_numbers_beside_them_in_their_order() -> None:
    """Without isolation "פריק 2.95. 2 bars" is drawn as "2 .2.95 פריק bars"."""
    shown = page_html(one_block(Text(("b 1.05, פריק שני 2.95. 2 <bars>",))))
    assert "b 1.05, <bdi>פריק שני</bdi> 2.95. 2 &lt;bars&gt;" in shown


def test_an_anchor_that_stands_twice_is_a_fault_of_the_maker() -> None:
    twice = [Table("same", "One", (Column("a"),), ()), Table("same", "Other", (Column("a"),), ())]
    with pytest.raises(ValueError, match="anchors used twice"):
        page_html(one_block(*twice))


def test_without_the_extra_the_line_says_what_to_install_also_before_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra()
    plot = one_block(Figure("plot", "A plot", "Of nothing.", ()))
    for package, needs in (("jinja2", lambda: page_html(one_block())), ("matplotlib", lambda: page_html(plot))):
        told = f"[missing-extra] HTML report: '{package}' is not installed; expected the packages of the extra 'report'"
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            for call in (require_extra, needs):
                with pytest.raises(WrongUsage, match=re.escape(told)):
                    call()
            assert package == "jinja2" or page_html(one_block())  # without plots nothing draws


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_without_fault(browser, made, scheme) -> None:
    with browser.open(made, scheme=scheme) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        opened.screenshot(scheme)
        opened.check()


def test_names_of_strangers_are_shown_as_text(browser, tmp_path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page_html(made_page(tuple(HOSTILE), title="<b>\u202e{{7*7}}</b>")), encoding="utf-8")
    with browser.open(path) as opened:
        dialogs: list[str] = []
        opened.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        assert opened.page.title() == opened.page.inner_text("h1") == "<b>‹U+202E›{{7*7}}</b>"
        assert opened.page.locator("#table-of-patients tbody th").all_text_contents() == list(HOSTILE.values())
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        words = opened.page.locator("#places svg text").all_text_contents()
        assert {"<script>alert(1…/script>", "</script ><!--<…lert(1)>", "\"'`{{7*7}}{% ra…amp;%{x}"} <= set(words)
        assert opened.page.locator("svg a, svg img, svg script, svg style").count() == 0
        opened.screenshot("hostile")
        opened.check()
        assert dialogs == []


def test_the_browser_itself_lets_nothing_else_run_and_nothing_out(browser, plain) -> None:
    script = """async () => {
      document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = true'}));
      document.body.append(Object.assign(document.createElement('img'), {src: 'https://example.org/seen.png'}));
      const answer = await fetch('https://example.org/').then(() => 'sent', () => 'refused');
      return [window.hit === undefined, answer];
    }"""
    with browser.open(plain) as opened:
        assert opened.page.evaluate(script) == [True, "refused"]
        refused = [error for error in opened.errors if "Content Security Policy" in error]
        for directive in ("script-src 'sha256-", "img-src data:", "default-src 'none'"):
            assert any(directive in error for error in refused)


def test_tables_sort_by_click_and_by_keyboard_with_what_is_undefined_last(browser, plain) -> None:
    def order(opened) -> list[int]:
        names = opened.page.locator("#table-of-patients tbody th").all_text_contents()
        return [PATIENTS.index(name) for name in names]

    with browser.open(plain) as opened:
        heads = opened.page.locator("#table-of-patients thead th")
        for column, keys, expected in [
            (3, "click", [5, 1, 0, 4, 2, 3]), (3, "click", [2, 4, 0, 1, 5, 3]),  # undefined PQ is last both ways
            (2, "Enter", [3, 5, 1, 0, 4, 2]), (2, " ", [2, 4, 0, 1, 5, 3]),
            (0, "Enter", [0, 3, 1, 2, 4, 5]),  # numbers inside names count: 5P is before 49
            (4, "click", [3, 5, 1, 0, 4, 2]),
        ]:  # fmt: skip
            head = heads.nth(column).get_by_role("button")
            if keys == "click":
                head.click()
            else:
                head.press(keys)
            assert order(opened) == expected
        states = [heads.nth(column).get_attribute("aria-sort") for column in range(5)]
        assert states == [None, None, None, None, "ascending"]
        assert not opened.page.is_visible("#table-of-rules")
        opened.page.click(".contents a[href='#rules']")  # a link to a folded part opens it
        opened.page.wait_for_selector("#table-of-rules", state="visible")
        opened.check()


def test_the_numbers_of_a_plot_can_be_read_and_lead_on(browser, made) -> None:
    with browser.open(made, script=False) as opened:  # all of this without JavaScript
        opened.page.click("#f1-by-patient .numbers summary")
        rows = opened.page.locator("#f1-by-patient .numbers tbody tr")
        assert rows.count() == 11
        assert rows.nth(2).locator("th, td").all_inner_texts() == ["detection F1", "0.9123", "TCGA-50-5931"]
        target = rows.nth(2).locator("a").get_attribute("href")
        assert opened.page.locator(str(target)).inner_text() == "TCGA-50-5931"
        assert opened.overflow() <= 0


def test_a_figure_is_saved_as_svg_in_colours_that_every_program_knows(opened, tmp_path) -> None:
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Save SVG: F1 by IoU").click()
    waiting.value.save_as(tmp_path / "saved.svg")
    saved = (tmp_path / "saved.svg").read_text(encoding="utf-8")
    assert waiting.value.suggested_filename == "by-threshold.svg"
    assert saved.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert COLOURS["2"] in saved
    assert "var(" not in saved
    assert opened.errors == opened.requests == []


def test_the_button_changes_all_colours_and_nothing_is_kept(browser, made) -> None:
    def colours(opened) -> list[str]:
        script = """() => ['body', '#f1-by-patient svg text'].map(one => {
          const style = getComputedStyle(document.querySelector(one));
          return `${style.color} ${style.fill}`;
        })"""
        return list(opened.page.evaluate(script))

    with browser.open(made) as light, browser.open(made, scheme="dark") as dark:
        of_light, of_dark = colours(light), colours(dark)
        assert all(one != other for one, other in zip(of_light, of_dark, strict=True))
        light.page.get_by_role("button", name="Dark colours").click()
        dark.page.get_by_role("button", name="Light colours").click()
        assert (colours(light), colours(dark)) == (of_dark, of_light)
        assert light.page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert (light.errors, light.requests) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_plots_stand_out(browser, plain, scheme) -> None:
    """WCAG 1.4.11: 3:1 against the ground for marks; 4.5:1 for words on the ends of colour scales."""
    names = [*map(str, range(1, 9)), "accent", "muted", "matched", "missed", "spurious", "wrong-class", "contested"]
    script = """names => names.map(name => {
      const made = document.body.appendChild(document.createElement('i'));
      made.style.color = `var(--${name})`;
      return getComputedStyle(made).color.match(/\\d+/g).map(Number);
    })"""
    with browser.open(plain, scheme=scheme) as opened:
        surface, ink, *colours = opened.page.evaluate(script, ["surface", "ink", *names])
        too_weak = {n: contrast(c, surface) for n, c in zip(names, colours, strict=True) if contrast(c, surface) < 3}
        assert too_weak == {}
        for end in opened.page.evaluate(script, ["low", "middle", "high", "negative"]):
            assert contrast(end, ink) >= 4.5
        assert len({tuple(colour) for colour in colours[:8]}) == 8


def contrast(one: list[int], other: list[int]) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour: list[int]) -> float:
        parts = [part / 255 for part in colour]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_a_phone_shows_all_of_it_without_sideways_scrolling(browser, tmp_path) -> None:
    page = made_page(tuple(HOSTILE))
    wide = Table("wide", "A wide table", tuple(Column(f"column {n}", 3) for n in range(30)), ((0.5,) * 30,))
    path = tmp_path / "wide.html"
    path.write_text(page_html(replace(page, sections=(*page.sections, Section("more", "More", (wide,))))))
    with browser.open(path, width=360, height=740) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        opened.screenshot("phone")
        opened.check()
        box = opened.page.locator("#wide .scroll")
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        box.focus()
        assert opened.page.evaluate("document.activeElement.closest('#wide') !== null")


def test_titles_of_64_letters_leave_room_for_each_other(browser, tmp_path) -> None:
    columns = (Column("score"), *(Column(f"{index:064x}", 3) for index in range(3)))
    path = tmp_path / "page.html"
    path.write_text(page_html(one_block(Table("scores", "Scores", columns, (("F1", 0.5, 0.25, 0.75),)))))
    with browser.open(path, width=1440) as opened:
        assert opened.page.locator("#scores .scroll").evaluate("box => box.scrollWidth <= box.clientWidth")


def test_on_paper_the_numbers_of_a_plot_stay_in_their_columns(browser, tmp_path) -> None:
    """Names of 64 letters, as the Data Science Bowl has."""
    dots = tuple(Dot(number / 9, 0.5, f"{number:064x}") for number in range(9))
    figure = Figure("plot", "A plot", "", (Series("a", dots),), x=Axis("x", (0, 1)), y=Axis("y", (0, 1)))
    path = tmp_path / "page.html"
    path.write_text(page_html(one_block(figure)))
    with browser.open(path, width=680) as opened:  # A4 without its margins
        opened.page.emulate_media(media="print")
        ends = "rows => rows.map(row => row.getBoundingClientRect()).map(box => [box.left, box.right])"
        rows = opened.page.locator(".numbers tbody tr").evaluate_all(ends)
        left, right = ([row for row in rows if (row[0] < 300) == is_left] for is_left in (True, False))
        assert left and right and max(end for _, end in left) < min(start for start, _ in right)


def test_on_paper_all_is_open_light_and_drawn_and_afterwards_as_before(browser, made, tmp_path) -> None:
    def state(opened) -> Mapping[str, object]:
        script = """() => {
          const all = (selector) => [...document.querySelectorAll(selector)];
          return {
            open: all('details.folded[open]').length,
            words: getComputedStyle(document.body).color,
            buttons: all('button').filter(one => one.offsetWidth && !one.closest('th, .card')).length,
          };
        }"""
        return dict(opened.page.evaluate(script))

    with browser.open(made, scheme="dark") as opened:
        before = state(opened)
        opened.page.emulate_media(media="print")
        opened.page.wait_for_selector("details.folded[open]")
        on_paper = state(opened)
        assert on_paper == {"open": 2, "words": "rgb(27, 31, 36)", "buttons": 0}
        opened.screenshot("print")
        opened.page.emulate_media(media="screen", color_scheme="dark")
        opened.page.wait_for_selector("details.folded:not([open])")
        after = state(opened)
        assert after == before
        opened.page.pdf(path=tmp_path / "page.pdf", format="A4")
        text = (tmp_path / "page.pdf").read_bytes()
        assert text.count(b"/Type /Page\n") >= 5
        assert opened.errors == []


# --- parts ------------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_plot_are_bounded() -> None:
    dots = tuple(Dot(float(n), n / 8) for n in range(1000))
    many = Figure("many", "Many", "A thousand points.", [Series("points", dots)], x=Axis("n"), y=Axis("eighths"))
    numbers = tabulate(many)
    assert [column.title for column in numbers.columns] == ["n", "eighths"]
    assert numbers.rows[3] == ("3", Cell("0.375"))
    assert len(numbers.rows) == 100
    assert "900 more values are shown only in the plot." in page_html(one_block(many))


def test_of_two_series_the_one_without_a_name_is_told_from_the_other_in_the_numbers() -> None:
    series = [Series("", (Dot("a", 1.0),), kind="discs"), Series("published", (Dot("a", 2.0),))]
    assert [row[0] for row in tabulate(Figure("ranks", "Ranks", "", series)).rows] == ["–", "published"]
    assert [column.title for column in tabulate(Figure("ranks", "Ranks", "", series[:1])).columns] == ["Name", "Name"]


# --- figures ----------------------------------------------------------------------------------------------------------


def texts_in(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_name_in_a_figure_stays_as_it_is_even_if_it_is_a_formula_a_colour_or_hidden() -> None:
    names = ["$x^2$", "#0068a8", "_hidden", "a\\b", "x" * 200]
    lines = [Series(name, (Dot(0.0, place), Dot(1.0, place))) for place, name in enumerate(names)]
    words = texts_in(svg_of(Figure("names", "", "", lines)))
    assert {"$x^2$", "#0068a8", " _hidden", "a\\b"} <= set(words)
    assert max(map(len, words)) <= 40


def test_a_figure_has_the_colours_of_the_page() -> None:
    for figure in made_page().figures():
        drawn = svg_of(figure)
        assert not re.search("#[0-9a-f]{6}", drawn)
        assert "var(--ink)" in drawn
        assert "<metadata" not in drawn and "<style" not in drawn and "DejaVu" not in drawn


def test_colours_of_figures_and_pictures_are_those_of_the_style_sheet() -> None:
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    of_figures = {name: colour for name, colour in COLOURS.items() if name not in ("missed", "spurious")}
    lines = [f"  --{name}: light-dark({colour}," for name, colour in of_figures.items()]
    lines += [f"  --picture-{state.replace('_', '-')}: {colour};\n" for state, colour in STATE_COLOURS.items()]
    assert [line for line in lines if line not in style] == []


def test_marks_stand_where_their_numbers_say() -> None:
    """Two dots a half and a whole along an axis from 0 to 1: the second lies twice as far from its beginning."""
    figure = Figure("two", "", "", [Series("", (Dot(0.0, 0.5), Dot(0.5, 0.5), Dot(1.0, 1.0)))], x=Axis("x", (0, 1)))
    places = [
        (float(x), float(y)) for x, y in re.findall(r'<use href="#m\w+" x="([\d.]+)" y="([\d.]+)"', svg_of(figure))
    ]
    first, second, third = places[-3:]
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.11)
    assert first[1] == second[1] > third[1]


def test_of_many_marks_those_are_drawn_that_are_evenly_spread_and_the_extremes_among_them() -> None:
    dots = tuple(Dot(float(n % 97), float(n)) for n in range(20_000))
    figure = Figure("many", "", "", [Series("points", dots)])
    assert len(svg_of(figure)) < 120_000
    (drawn,) = picture_of(figure).axes[0].patches
    heights = drawn.get_path().vertices[:, 1]
    assert (len(heights), heights.min(), heights.max()) == (2 * MARKS_UP_TO, 0, 19_999)


def test_a_box_is_the_quartiles_of_all_values() -> None:
    values = [0.0, 1.0, 2.0, 3.0, 10.0]
    axes = picture_of(Figure("box", "", "", [Series("a", tuple(Dot("a", y) for y in values), kind="boxes")])).axes[0]
    assert [line.get_ydata().tolist() for line in axes.lines[:4]] == [[1, 1, 3, 3, 1], [1, 0], [3, 10], [2, 2]]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(0, 4))
def test_a_number_is_rounded_to_the_digits_of_its_column(value: float, digits: int) -> None:
    shown = shown_value(value, digits)
    assert float(shown.replace(",", "").replace("−", "-")) == round(value, digits)
    assert shown not in {"−0", "-0"}


def test_long_names_in_a_table_show_what_tells_them_apart(browser: Browser, tmp_path: Path) -> None:
    """Names are whole in the file, for search, sorting and files; what all begin and end with is not shown."""
    names = [f"TCGA-E2-A1B5-01Z-00-DX1 a very long name of a slide {number}.ome.tiff" for number in (1, 2, 12)]
    columns = (Column("case"), Column("value", 1))
    rows = tuple((name, index) for index, name in enumerate(names))
    (tmp_path / "page.html").write_text(page_html(one_block(Table("cases", "Cases", columns, rows))))
    with browser.open(tmp_path / "page.html", width=390) as opened:
        cells = opened.page.locator("#cases tbody th")
        assert cells.all_text_contents() == names
        shown = "node => [...node.childNodes].filter(part => part.nodeType === 3).map(part => part.data).join('')"
        assert [cells.nth(index).evaluate(shown).strip() for index in range(3)] == ["slide 1", "slide 2", "slide 12"]
        assert cells.nth(0).locator(".cut").first.evaluate("node => node.offsetHeight") < 40
        with opened.page.expect_download() as waiting:
            opened.page.get_by_role("button", name="CSV: Cases").click()
        assert names[2] in waiting.value.path().read_text()
        opened.check()


# --- a page in the terminal: the same numbers, no markup of strangers, long tables cut --------------------------------


def printed(page: Page, rows: int = 20) -> str:
    console = Console(file=io.StringIO(), width=140, highlight=False, force_terminal=True, color_system=None)
    for part in page_renderables(page, rows=rows):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_page(*rows: tuple[Cell | float | str | None, ...]) -> Page:
    return one_block(Table("table", "A table", (Column("name"), Column("value", 2)), rows, note="A note."))


def test_tiles_tables_texts_and_plots_in_words_are_there() -> None:
    lines = [" ".join(line.split()) for line in printed(made_page()).splitlines()]
    expected = {
        "Nuclei in four classes: team Aurora", "Detection: F1 0.782 95%: 0.731 to 0.829 · place 2 of 14",
        "! AUROC – no class probabilities were submitted", "TCGA-5P-A9K0 303 0.641 – ✕ −0.159",
        "! Two images have no prediction at all. They count as empty.",
        "Median F1 is 0.781; the lowest patient has 0.641.",
        "Only on the page: How stable the ranks are; The rules that were applied.",
    }  # fmt: skip
    assert expected - set(lines) == set()
    assert "Ranks in 1,000 samples" not in "\n".join(lines)  # in a folded section


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
    for names, shown in (
        ([f"{long}_{index}.tif" for index in range(3)], ["…region_0…", "…region_1…", "…region_2…"]),
        (["region_1", "region_2"], ["region_1", "region_2"]),  # short ones
    ):
        text = printed(table_page(*((name, 0.5) for name in names)))
        assert [line.split()[0] for line in text.splitlines() if "0.50" in line] == shown
    assert printed(table_page((f"{'x' * 300}a", 0.5))).count("x") == 300  # one name alone is not cut


@pytest.mark.parametrize("title", ["path", "key", "column of the ranking"])
def test_paths_are_never_cut_since_people_copy_them(title: str) -> None:
    paths = [f"detection.per_class.a class with a long name {number}.f1.group_mean" for number in (1, 2)]
    rows = tuple((path, 0.5) for path in paths)
    page = one_block(Table("paths", "Paths", (Column(title), Column("value", 2)), rows))
    assert all(path in printed(page) for path in paths)
    assert "cut" not in page_html(page).partition("<main")[2]
