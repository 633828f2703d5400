"""The pictures of pages in README and docs: three pages of the demo with made tissue, as Chromium shows them.

python -m benchmarks.screenshots          writes docs/pictures/*.webp
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
from imagecodecs import webp_encode
from PIL import Image
from scipy.ndimage import gaussian_filter

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
MOST_BYTES = 200_000
# name: page and the part that is shown
PICTURES = {
    "leaderboard": ("leaderboard.html", "#places"),
    "nuclei": ("results/namer/report.html", "#browser-section"),
    "case": ("cases/P1_1.html", "#browser-section"),
}


def made_tissue(challenge: Path, labels: Path) -> None:
    """An image for each case of a challenge: its nuclei dark on pink, with noise."""
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


def main() -> None:
    from playwright.sync_api import sync_playwright

    from evaluation.commands.main import run

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        demo = Path(scratch) / "demo"
        if code := run(["demo", "--output", str(demo)]):
            raise SystemExit(code)
        made_tissue(demo / "challenge", Path(scratch) / "labels")
        where = ["--challenge", str(demo / "challenge"), "--submissions", str(demo / "submissions")]
        if code := run(["leaderboard", *where, "--output", str(Path(scratch) / "board"), "--report"]):
            raise SystemExit(code)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name, (path, part) in PICTURES.items():
            page = browser.new_page(viewport={"width": 1280, "height": 1100}, reduced_motion="reduce")
            page.goto((Path(scratch) / "board" / path).as_uri())
            page.wait_for_selector("html[data-drawn]", state="attached")
            page.locator(part).evaluate("part => part.scrollIntoView()")
            page.wait_for_timeout(1500)
            pixels = np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
            content = webp_encode(pixels, level=80, lossless=False)
            assert len(content) < MOST_BYTES, name
            (FOLDER / f"{name}.webp").write_bytes(content)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
