"""The HTML of a page: in a real browser, and read by Python's own parser of HTML."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser, OpenedPage
from hypothesis import given
from hypothesis import strategies as st
from made_page import CLASSES, F1, PATIENTS, made_page

from evaluation.findings.errors import WrongUsage
from evaluation.report.html import TEMPLATES, page_html, require_extra
from evaluation.report.page import Column, Figure, Page, Section, Table, Text
from evaluation.report.pictures.states import STATE_COLOURS
from evaluation.report.plots import Axis, Dot, Series, plot, tabulate
from evaluation.report.shown import shown_value

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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "page.html"
    path.write_text(page_html(made_page()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def without_plots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same page, which a browser reads in no time."""
    page = made_page()
    sections = [
        replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Figure)))
        for section in page.sections
    ]
    path = tmp_path_factory.mktemp("without") / "page.html"
    path.write_text(page_html(replace(page, sections=tuple(sections))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(chromium, made, tmp_path_factory) -> Iterator[OpenedPage]:
    """The page in a wide, light window, for all tests that only look at it."""
    with Browser(chromium, tmp_path_factory.mktemp("opened")).open(made) as page:
        yield page


def one_block(*blocks: Text | Table | Figure) -> Page:
    return Page("A page", "", (), (Section("part", "A part", blocks),))


# --- the file ---------------------------------------------------------------------------------------------------------


def test_equal_pages_give_equal_bytes() -> None:
    assert page_html(made_page()) == page_html(made_page())


def test_nothing_in_the_file_leads_out_of_it(made: Path) -> None:
    leads = Reader(made.read_text(encoding="utf-8")).leads
    assert {lead for lead in leads if not lead.startswith("#")} == {"data:"}


def test_plotly_is_in_the_file_once_and_only_if_there_is_a_plot(made: Path) -> None:
    assert made.read_text(encoding="utf-8").count("* plotly.js v") == 1
    assert len(page_html(one_block(Text(("No plot.",))))) < 60_000


@pytest.mark.parametrize("names", [PATIENTS, tuple(HOSTILE)])
def test_the_documents_are_embedded_as_they_are(names: tuple[str, ...]) -> None:
    page = made_page(names)
    scripts = Reader(page_html(page)).scripts
    assert set(scripts) == {"page_browser", "page_data", "page_figures", "script"}
    assert json.loads(scripts["page_data"]) == page.data


def test_names_of_strangers_add_no_element() -> None:
    assert Reader(page_html(made_page(tuple(HOSTILE)))).tags == Reader(page_html(made_page())).tags


def test_names_from_right_to_left_leave_the_numbers_beside_them_in_their_order() -> None:
    """Without isolation "פריק 2.95. 2 bars" is drawn as "2 .2.95 פריק bars"."""
    text = Text(("b 1.05, פריק שני 2.95. 2 <bars>",))
    shown = page_html(Page("t", "", (), (Section("a", "A", (text,)),)))
    assert "b 1.05, <bdi>פריק שני</bdi> 2.95. 2 &lt;bars&gt;" in shown


def test_an_anchor_that_stands_twice_and_numbers_that_are_none_are_faults_of_the_maker() -> None:
    twice = [Table("same", "One", (Column("a"),), ()), Table("same", "Other", (Column("a"),), ())]
    with pytest.raises(ValueError, match="stand twice on the page"):
        page_html(one_block(*twice))
    with pytest.raises(ValueError, match="not JSON compliant"):
        page_html(replace(one_block(), data={"metrics": {"f1": float("nan")}}))


def test_a_cell_that_leads_nowhere_is_a_text() -> None:
    page = made_page()
    assert "#table-of-patients" not in Reader(page_html(page)).leads


@pytest.mark.parametrize(("package", "plots"), [("jinja2", False), ("plotly", True), ("plotly", False)])
def test_without_the_extra_the_line_says_what_to_install(package: str, plots: bool) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from evaluation.report.html import page_html\n"
        "from evaluation.report.page import Figure, Page, Section\n"
        f"plots = (Figure('plot', 'A plot', 'Of nothing.', ()),) * {int(plots)}\n"
        "print(len(page_html(Page('A page', '', (), (Section('part', 'A part', plots),)))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = (
        f"[missing-extra] HTML report: '{package}' is not installed; expected the packages of the extra 'report'. "
        "Install them: pip install '.[report]' in the folder of this program."
    )
    if package == "plotly" and not plots:
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.stderr.splitlines()[-1] == f"evaluation.findings.errors.WrongUsage: {told}"


@pytest.mark.parametrize("package", ["jinja2", "plotly.offline"])
def test_the_extra_can_be_asked_for_before_long_work(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_extra()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(WrongUsage, match="missing-extra"):
        require_extra()


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_without_fault(browser, made, scheme) -> None:
    with browser.open(made, scheme=scheme) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        opened.page.wait_for_selector('[data-figure="critical"].js-plotly-plot')
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
        embedded = "JSON.parse(document.getElementById('page_data').textContent).names"
        assert opened.page.evaluate(embedded)[:3] == list(HOSTILE)[:3]
        for point, name in enumerate(HOSTILE.values()):
            told = opened.hover("f1-by-patient", 0, point)
            assert told.replace("\n", "") == f"{name}F1 {F1[point]}".replace("\n", "")
        opened.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        opened.page.wait_for_selector('[data-figure="critical"].js-plotly-plot')
        places = opened.plot("places").locator(".ytick text").all_text_contents()
        assert set(places) == {"<script>alert(1…/script>", "</script ><!--<…lert(1)>", "\"'`{{7*7}}{% ra…amp;%{x}"}
        assert opened.page.locator("svg a, svg img, svg script").count() == 0
        opened.screenshot("hostile")
        opened.check()
        assert dialogs == []


def test_the_browser_itself_lets_nothing_else_run_and_nothing_out(browser, without_plots) -> None:
    script = """async () => {
      document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hit = true'}));
      document.body.append(Object.assign(document.createElement('img'), {src: 'https://example.org/seen.png'}));
      const answer = await fetch('https://example.org/').then(() => 'sent', () => 'refused');
      return [window.hit === undefined, answer];
    }"""
    with browser.open(without_plots) as opened:
        assert opened.page.evaluate(script) == [True, "refused"]
        refused = [error for error in opened.errors if "Content Security Policy" in error]
        for directive in ("script-src 'sha256-", "img-src data:", "default-src 'none'"):
            assert any(directive in error for error in refused)


def test_tables_sort_by_click_and_by_keyboard_with_what_is_undefined_last(browser, without_plots) -> None:
    def order(opened) -> list[int]:
        names = opened.page.locator("#table-of-patients tbody th").all_text_contents()
        return [PATIENTS.index(name) for name in names]

    with browser.open(without_plots) as opened:
        heads = opened.page.locator("#table-of-patients thead th")
        for column, keys, expected in [
            (3, "click", [5, 1, 0, 4, 2, 3]),
            (3, "click", [2, 4, 0, 1, 5, 3]),  # PQ of patient 3 is undefined: last both ways
            (2, "Enter", [3, 5, 1, 0, 4, 2]),
            (2, " ", [2, 4, 0, 1, 5, 3]),
            (0, "Enter", [0, 3, 1, 2, 4, 5]),  # numbers inside names count: 5P is before 49
            (4, "click", [3, 5, 1, 0, 4, 2]),
        ]:
            head = heads.nth(column).get_by_role("button")
            if keys == "click":
                head.click()
            else:
                head.press(keys)
            assert order(opened) == expected
        states = [heads.nth(column).get_attribute("aria-sort") for column in range(5)]
        assert states == [None, None, None, None, "ascending"]
        opened.check()


def test_every_plot_has_its_marks(opened) -> None:
    expected = {
        "f1-by-patient": 6 + 5,
        "f1-and-pq": 5,
        "confusion": 20,
        "by-threshold": 40,
        "errors": 8,
        "cost": 3,
        "places": 12,
        "taus": 8,
    }
    opened.page.evaluate("document.querySelector('#stability details').open = true")
    opened.page.wait_for_selector('[data-figure="critical"].js-plotly-plot')
    assert {anchor: opened.marks(anchor) for anchor in expected} == expected


def test_hover_shows_what_a_mark_stands_for(opened) -> None:
    assert opened.hover("f1-by-patient", 0, 2) == "TCGA-50-5931\nF1 0.912345"
    assert opened.hover("f1-and-pq", 0, 0) == "TCGA-2Z-A9JG\nF1 0.8125, PQ 0.6"
    assert opened.hover("confusion", 0, 7) == "Lymphocyte, Neutrophil: 0.011194"
    assert opened.hover("by-threshold", 2, 4) == "Neutrophil\n0.7: 0.59"
    assert opened.hover("errors", 0, 1) == "missed\nLymphocyte: 17 (15 to 21)"


def test_a_click_on_a_mark_leads_to_its_row(opened) -> None:
    opened.hover("f1-by-patient", 0, 2)
    opened.page.mouse.down()
    opened.page.mouse.up()
    opened.page.wait_for_selector(":target")
    assert opened.page.locator(":target").text_content() == "TCGA-50-5931"
    assert opened.page.evaluate("document.activeElement === document.querySelector(':target')")


def test_a_link_to_a_folded_part_opens_it(browser, without_plots) -> None:
    with browser.open(without_plots) as opened:
        assert not opened.page.is_visible("#table-of-rules")
        opened.page.click(".contents a[href='#rules']")
        opened.page.wait_for_selector("#table-of-rules", state="visible")


def test_the_numbers_of_a_plot_can_be_read_and_lead_on(browser, made) -> None:
    with browser.open(made, script=False) as opened:  # all of this without JavaScript
        opened.page.click("#f1-by-patient .numbers summary")
        rows = opened.page.locator("#f1-by-patient .numbers tbody tr")
        assert rows.count() == 11
        assert rows.nth(2).locator("td").all_inner_texts() == [
            "detection F1", "0.912345", "TCGA-50-5931; F1 0.912345"
        ]  # fmt: skip
        target = rows.nth(2).locator("a").get_attribute("href")
        assert opened.page.locator(str(target)).inner_text() == "TCGA-50-5931"
        assert opened.overflow() <= 0


def test_plots_are_saved_as_svg_and_png(opened, tmp_path) -> None:
    for text, name, begin in (("Save SVG", "cost.svg", b"<svg"), ("Save PNG", "cost.png", b"\x89PNG")):
        with opened.page.expect_download() as waiting:
            opened.page.locator("#cost").get_by_role("button", name=text).click()
        waiting.value.save_as(tmp_path / name)
        assert waiting.value.suggested_filename == name
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert opened.errors == opened.requests == []


def test_the_button_changes_all_colours_and_nothing_is_kept(browser, made) -> None:
    def colours(opened) -> list[str]:
        script = "plot => [plot.data[0].marker.color, plot.layout.font.color, getComputedStyle(document.body).color]"
        return list(opened.plot("f1-by-patient").evaluate(script))

    with browser.open(made) as light, browser.open(made, scheme="dark") as dark:
        of_light, of_dark = colours(light), colours(dark)
        assert all(one != other for one, other in zip(of_light, of_dark, strict=True))
        light.page.get_by_role("button", name="Dark colours").click()
        dark.page.get_by_role("button", name="Light colours").click()
        assert (colours(light), colours(dark)) == (of_dark, of_light)
        assert light.page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert (light.errors, light.requests) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_plots_stand_out(browser, without_plots, scheme) -> None:
    """WCAG 1.4.11: 3:1 against the ground for marks; 4.5:1 for words on the ends of colour scales."""
    names = [*map(str, range(1, 9)), "accent", "muted", "matched", "missed", "spurious", "wrong-class", "contested"]
    script = """names => names.map(name => {
      const made = document.body.appendChild(document.createElement('i'));
      made.style.color = `var(--${name})`;
      return getComputedStyle(made).color.match(/\\d+/g).map(Number);
    })"""
    with browser.open(without_plots, scheme=scheme) as opened:
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
        opened.page.wait_for_selector('[data-figure="critical"].js-plotly-plot')
        opened.screenshot("phone")
        opened.check()
        box = opened.page.locator("#wide .scroll")
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        box.focus()
        assert opened.page.evaluate("document.activeElement.closest('#wide') !== null")


def test_on_paper_all_is_open_light_and_drawn_and_afterwards_as_before(browser, made, tmp_path) -> None:
    def state(opened) -> Mapping[str, object]:
        script = """() => {
          const all = (selector) => [...document.querySelectorAll(selector)];
          return {
            open: all('details.folded[open]').length,
            widest: Math.max(...all('.plot .main-svg').map(drawn => drawn.clientWidth)),
            words: getComputedStyle(document.body).color,
            buttons: all('button').filter(one => one.offsetWidth && !one.closest('th, .card')).length,
          };
        }"""
        return dict(opened.page.evaluate(script))

    with browser.open(made, scheme="dark") as opened:
        before = state(opened)
        opened.page.emulate_media(media="print")
        opened.page.wait_for_selector('[data-figure="critical"].js-plotly-plot')
        on_paper = state(opened)
        assert on_paper == {"open": 2, "widest": 640, "words": "rgb(27, 31, 36)", "buttons": 0}
        opened.screenshot("print")
        opened.page.emulate_media(media="screen", color_scheme="dark")
        opened.page.wait_for_selector("details.folded:not([open])")
        after = state(opened)
        assert after["buttons"] >= before["buttons"]  # of plots that were not in sight before
        assert {**after, "buttons": 0} == {**before, "buttons": 0}
        opened.page.pdf(path=tmp_path / "page.pdf", format="A4")
        text = (tmp_path / "page.pdf").read_bytes()
        assert text.count(b"/Type /Page\n") >= 5
        assert opened.errors == []


# --- parts ------------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_plot_are_bounded() -> None:
    dots = tuple(Dot(float(n), n / 8) for n in range(1000))
    many = plot("many", "Many", "A thousand points.", [Series("points", dots)], x=Axis("n"), y=Axis("eighths"))
    numbers = tabulate(many)
    assert numbers.columns == ("n", "eighths")
    assert numbers.rows[3] == ("3", "0.375")
    assert (len(numbers.rows), numbers.left_out) == (200, 800)
    assert "800 more values are in the plot and left out here." in page_html(one_block(many))


def test_the_numbers_of_a_heat_map_are_a_table() -> None:
    (confusion,) = [figure for figure in made_page().figures() if figure.anchor == "confusion"]
    numbers = tabulate(confusion)
    assert numbers.columns == ("", *CLASSES, "none")
    assert numbers.rows[1] == ("Lymphocyte", "0.023321", "0.880597", "0.011194", "0.002799", "0.08209")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(0, 4))
def test_a_number_is_rounded_to_the_digits_of_its_column(value: float, digits: int) -> None:
    shown = shown_value(value, digits)
    assert float(shown.replace(",", "").replace("−", "-")) == round(value, digits)
    assert shown not in {"−0", "-0"}


def test_the_legend_of_pictures_has_the_colours_of_the_pictures() -> None:
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    for state, colour in STATE_COLOURS.items():
        assert f"  --picture-{state.replace('_', '-')}: {colour};\n" in style


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
