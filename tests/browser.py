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
from typing import TYPE_CHECKING, Literal, cast

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import BrowserContext, Locator, Page

EXECUTABLE = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
STAYS_HERE = ("file:", "data:", "blob:", "about:")
WITHIN_MS = 300_000  # no test is decided by a busy machine
SERIOUS = {"serious", "critical"}


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
        """Click a link that leads to another page, a file of this name, and wait for it."""
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
        hash: str = "",
        before: str = "",
        phone: bool = False,
    ) -> Iterator[OpenedPage]:
        """A file in a window. ``script`` False: without JavaScript; ``before``: a function that runs first.

        phone  fingers instead of a mouse, and three points of the screen for each px
        """
        context: BrowserContext = self.chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=script,
            locale="en-GB",
            has_touch=phone,
            is_mobile=phone,
            device_scale_factor=3 if phone else 1,
        )
        context.set_default_timeout(WITHIN_MS)
        try:
            opened = OpenedPage(context.new_page(), self.folder)
            if before:
                opened.page.add_init_script(f"({before})()")
            opened.page.goto(path.resolve().as_uri() + hash)
            if script:
                opened.wait_until_drawn()
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
