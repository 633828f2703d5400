"""The pictures of README and docs: parts of three pages of the demo with synthetic tissue, as Chromium shows them.

python -m benchmarks.screenshots          writes docs/pictures/*.webp, and the words of each picture to *.txt

tests/test_docs.py compares these words with those of today's pages. ``compare.webp`` is an animation: the command of
the README is typed, the page opens, and the right arrow key leads through errors in the viewer.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from imagecodecs import webp_encode
from PIL import Image
from scipy.ndimage import gaussian_filter

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
MOST_BYTES = 200_000
ANIMATION, MOST_ANIMATED_BYTES, ERRORS_SHOWN = "compare", 1_500_000, 5
COMMAND = "$ ./evaluate.sh compare demo/challenge/reference demo/submissions/finder demo/submissions/namer --report"
TERMINAL = "<body style='background:#111;color:#eee;font:19px monospace;padding:24px'>{}<b>▌</b></body>"
# name: page, and the part of it that is shown
PICTURES = {
    "leaderboard": ("leaderboard.html", "#places"),
    "nuclei": ("results/namer/report.html", "#browser-section"),
    "case": ("cases/P1_1.html", "#browser-section"),
}


def made_tissue(challenge: Path, labels: Path) -> None:
    """Write an image for each case of a challenge: dark nuclei on pink, with noise."""
    import tifffile

    from evaluation.commands.main import run

    if code := run(["rasterise", "--challenge", str(challenge), "--output", str(labels)]):
        raise SystemExit(code)
    (challenge / "images").mkdir()
    for seed, path in enumerate(sorted(labels.rglob("*_labels.tif")) or sorted(labels.rglob("*.tif"))):
        is_nucleus = tifffile.imread(path) > 0
        noise = gaussian_filter(np.random.default_rng(seed).normal(0, 40, (*is_nucleus.shape, 3)), (1.5, 1.5, 0))
        pixels = np.where(is_nucleus[..., np.newaxis], (120, 80, 150), (228, 186, 212)) + noise
        name = path.name.removesuffix(".tif").removesuffix("_labels")
        image = np.clip(pixels, 0, 255).astype(np.uint8)
        tifffile.imwrite(challenge / "images" / f"{name}.tif", image, photometric="rgb")


def made_board(folder: Path) -> Path:
    """Score and rank the demo with synthetic tissue, and return the folder of its pages."""
    from evaluation.commands.main import run

    demo, board = folder / "demo", folder / "board"
    if code := run(["demo", "--output", str(demo)]):
        raise SystemExit(code)
    made_tissue(demo / "challenge", folder / "labels")
    where = ["--challenge", str(demo / "challenge"), "--submissions", str(demo / "submissions")]
    if code := run(["leaderboard", *where, "--output", str(board), "--workers", "1", "--report"]):
        raise SystemExit(code)
    return board


def opened(browser: Browser, board: Path, name: str) -> tuple[Page, str]:
    """Open the page of a picture at the part that is shown; return the page and the words of this part."""
    path, part = PICTURES[name]
    page = browser.new_page(viewport={"width": 1280, "height": 1100}, reduced_motion="reduce", locale="en-GB")
    page.goto((board / path).as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    page.locator(part).evaluate("part => part.scrollIntoView()")
    return page, " ".join(page.locator(part).inner_text().split()) + "\n"


def animate(browser: Browser, demo: Path) -> list[tuple[Image.Image, int]]:
    """Return the frames of the animation, and how long each is shown, ms."""
    from evaluation.commands.main import run

    for image in (demo / "challenge/images").iterdir():
        shutil.copy(image, demo / "challenge/reference" / image.name.partition("_")[0])
    models = [str(demo / "submissions" / name) for name in ("finder", "namer")]
    page_of = ["--report", "--output", str(demo / "compared")]
    if code := run(["compare", str(demo / "challenge/reference"), *models, *page_of]):
        raise SystemExit(code)
    page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce", locale="en-GB")
    frames = []

    def shoot(milliseconds: int) -> None:
        page.wait_for_timeout(500)
        frame = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frames.append((frame.resize((960, 600), Image.Resampling.LANCZOS), milliseconds))

    for end in range(2, len(COMMAND) + 8, 8):
        page.set_content(TERMINAL.format(COMMAND[:end]))
        shoot(120)
    page.goto((demo / "compared/compare.html").as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    shoot(2000)
    page.locator("button[name=view]").dispatch_event("click")
    shoot(1600)
    for _ in range(ERRORS_SHOWN):
        page.keyboard.press("ArrowRight")
        shoot(1600)
    page.close()
    return frames


def main() -> None:
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        board = made_board(Path(scratch))
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name in PICTURES:
            page, words = opened(browser, board, name)
            page.wait_for_timeout(1500)
            pixels = np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            content = webp_encode(pixels, level=80, lossless=False)
            assert len(content) < MOST_BYTES, name
            (FOLDER / f"{name}.webp").write_bytes(content)
            (FOLDER / f"{name}.txt").write_text(words)
            page.close()
        (first, _), *_ = frames = animate(browser, Path(scratch) / "demo")
        rest, shown = [frame for frame, _ in frames[1:]], [milliseconds for _, milliseconds in frames]
        path = FOLDER / f"{ANIMATION}.webp"
        first.save(path, save_all=True, append_images=rest, duration=shown, loop=0, quality=70, method=6)
        assert path.stat().st_size < MOST_ANIMATED_BYTES
        browser.close()


if __name__ == "__main__":
    main()
