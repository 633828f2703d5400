"""A real browser for pages: Debian's headless Chromium, what it complains of, what it asks for, and axe-core.

``browser`` is a fixture of every test (conftest.py). It lives as long as a test module: while Playwright runs in a
thread, asyncio does not, which other tests need.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import BrowserContext, Locator, Page

EXECUTABLE = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
STAYS_HERE = ("file:", "data:", "blob:", "about:")
WITHIN_MS = 300_000  # no test is decided by a busy machine
SERIOUS = {"serious", "critical"}
# Marks as they are drawn; the cells of a heat map are one picture, so those are counted in its data.
COUNT_MARKS = """plot => {
  const cells = plot.data.filter(trace => trace.type === 'heatmap').flatMap(trace => trace.z.flat());
  const points = plot.querySelectorAll('.scatterlayer .point, .boxlayer .point, .barlayer .point');
  return points.length + cells.filter(value => value !== null).length;
}"""


# Plots are drawn when they are seen; those in folded parts later.
SEE_ALL = """async () => {
  for (const plot of document.querySelectorAll('[data-figure]')) {
    if (!plot.checkVisibility()) continue;  // those in folded parts have a width, too
    plot.scrollIntoView();
    for (let turn = 0; turn < 30000 && !plot.nextElementSibling.matches('.actions'); turn++)
      await new Promise(resolve => setTimeout(resolve, 10));
  }
  scrollTo(0, 0);
}"""


class OpenedPage:
    """A page in a window. ``errors``: of the console, and exceptions. ``requests``: URLs that lead out of the file."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.note_request(request.url))

    def note_request(self, url: str) -> None:
        if not url.startswith(STAYS_HERE):
            self.requests.append(url)

    def follow(self, link: Locator, name: str) -> None:
        """Click a link that leads to another page, a file of this name, and wait for it and for its plots."""
        link.click()
        self.page.wait_for_url(f"**/{name}")
        self.wait_until_drawn()

    def wait_until_drawn(self) -> None:
        self.page.wait_for_selector("html[data-drawn]", state="attached")

    def violations(self) -> list[str]:
        """What axe-core finds serious or critical: the rule and the elements."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        return [
            f"{rule['id']}: {', '.join(str(node['target'][0]) for node in rule['nodes'][:5])}"
            for rule in found
            if rule["impact"] in SERIOUS
        ]

    def screenshot(self, name: str) -> Path:
        """The whole page as PNG: in $SCREENSHOTS, else in the folder of the test."""
        path = self.folder / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path

    def plot(self, anchor: str) -> Any:
        """The plot of a figure."""
        return self.page.locator(f'[data-figure="{anchor}"]')

    def marks(self, anchor: str) -> int:
        """How many points, bars and cells a plot has."""
        return cast(int, self.plot(anchor).evaluate(COUNT_MARKS))

    def hover(self, anchor: str, trace: int = 0, point: int = 0) -> str:
        """What is shown when the pointer is on a mark: on the point or bar itself, or on the cell of a heat map."""
        plot = self.plot(anchor)
        plot.scroll_into_view_if_needed()
        self.page.mouse.move(0, 0)
        label = plot.locator(".hoverlayer .hovertext").first
        label.wait_for(state="detached")
        self.page.mouse.move(*plot.evaluate(FIND_MARK, [trace, point]))
        label.wait_for()
        return "\n".join(label.evaluate(READ_LINES))

    def overflow(self) -> int:
        """px by which the page is wider than its window."""
        return cast(int, self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def check(self) -> None:
        """No error, no request, no fault of accessibility, no sideways scrolling."""
        found = {
            "errors": self.errors, "requests": self.requests, "violations": self.violations(),
            "overflow": max(self.overflow(), 0),
        }  # fmt: skip
        assert found == {"errors": [], "requests": [], "violations": [], "overflow": 0}


# The middle of a mark in the window, by its place in the data of its trace.
FIND_MARK = """(plot, [trace, point]) => {
  const data = plot.data[trace], {xaxis, yaxis} = plot._fullLayout, frame = plot.getBoundingClientRect();
  if (data.type === 'heatmap') {
    const columns = data.z[0].length, [x, y] = [point % columns, Math.floor(point / columns)];
    return [frame.x + xaxis._offset + xaxis.c2p(x), frame.y + yaxis._offset + yaxis.c2p(y)];
  }
  const type = other => other.type || 'scatter';
  const before = plot.data.slice(0, trace).filter(other => type(other) === type(data)).length;
  const drawn = plot.querySelectorAll(`.${type(data)}layer .trace`)[before];
  const marks = [...drawn.querySelectorAll('.point')];  // those of a box stand in the order of their values
  const box = marks.find(mark => mark.__data__.i === point).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""
READ_LINES = """label => {
  const lines = [...label.querySelectorAll('text.nums tspan.line')].map(line => line.textContent);
  return lines.length ? lines : [label.querySelector('text.nums').textContent];
}"""


class Browser:
    """Opens files, each in a window of its own."""

    def __init__(self, chromium: Chromium, folder: Path) -> None:
        self.chromium = chromium
        self.folder = folder

    @contextmanager
    def open(
        self,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        script: bool = True,
    ) -> Iterator[OpenedPage]:
        """A file in a window; plots are drawn when it is there. ``script`` False: without JavaScript."""
        context: BrowserContext = self.chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=script,
            locale="en-GB",
        )
        context.set_default_timeout(WITHIN_MS)
        try:
            opened = OpenedPage(context.new_page(), self.folder)
            opened.page.goto(path.resolve().as_uri())
            if script:
                opened.wait_until_drawn()
                opened.page.evaluate(SEE_ALL)
            yield opened
        finally:
            context.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """One process for the tests of a module."""
    if not EXECUTABLE.is_file():
        text = f"PAGES NOT TESTED IN A BROWSER: there is no {EXECUTABLE}; on Debian, as root: apt-get install chromium"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(text)
        pytest.skip(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        running = playwright.chromium.launch(executable_path=EXECUTABLE, args=[*arguments, "--disable-dev-shm-usage"])
        yield running
        running.close()


@pytest.fixture
def browser(chromium: Chromium, tmp_path: Path, request: pytest.FixtureRequest) -> Browser:
    """Opens pages; pictures of them go to $SCREENSHOTS/<test>, else into the folder of the test."""
    given = os.environ.get("SCREENSHOTS")
    name = re.sub(r"\W+", "_", request.node.name)
    folder = Path(given) / name if given else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return Browser(chromium, folder)
