"""How long large pages take in a real browser: the page of 101 images with 15,000 nuclei and their tissue.

The set of ``benchmarks.files`` is scored once, with tissue that is made from its labels; Chromium opens the page from
disk. Times are those of the browser's own clock: until the browser of nuclei answers, until the plots in the window
are drawn, and from a filter to the next picture on the screen (the longest and the median of several).

    python -m benchmarks.pages [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import tifffile
from scipy.ndimage import gaussian_filter

from benchmarks.files import files

ROUNDS = 5
FILTERS = """async () => {
  const form = document.querySelector('.browser form');
  const times = [];
  const ask = [['state', ''], ['class', '1'], ['sort', 'iou'], ['class', ''], ['low', '300'], ['state', '2'],
               ['case', '7'], ['case', ''], ['sort', 'small'], ['low', ''], ['state', '0'], ['state', 'errors']];
  for (const [name, value] of ask) {
    form.elements[name].value = value;
    const start = performance.now();
    form.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    times.push(performance.now() - start);
  }
  return times;
}"""


MARKS = "Object.fromEntries(performance.getEntriesByType('mark').map(mark => [mark.name, mark.startTime]))"


def made_tissue(reference: Path, image: Path, seed: int) -> None:
    """Something like stained tissue: nuclei dark on pink, with noise of the size of chromatin."""
    is_nucleus = tifffile.imread(reference) > 0
    random = np.random.default_rng(seed)
    noise = gaussian_filter(random.normal(0, 12, (*is_nucleus.shape, 3)), (1, 1, 0))
    pixels = np.where(is_nucleus[..., np.newaxis], (120, 80, 150), (226, 180, 210)) + noise
    tifffile.imwrite(image, np.clip(pixels, 0, 255).astype(np.uint8), compression="zlib", photometric="rgb")


def make_page(folder: Path) -> Path:
    from evaluation.commands.main import run

    source = files()
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for seed, reference in enumerate(sorted((source / "challenge" / "reference").glob("*.tif"))):
        made_tissue(reference, folder / "images" / reference.name, seed)
    where = ["--challenge", str(source / "challenge"), "--submission", str(source / "submission")]
    if code := run(["score", *where, "--output", str(folder / "results")]):
        raise SystemExit(code)
    page = folder / "page.html"
    given = ["--results", str(folder / "results"), "--output", str(page), "--images", str(folder / "images")]
    if code := run(["report", *where, *given]):
        raise SystemExit(code)
    return page


def measure(page: Path) -> dict[str, float]:
    """Milliseconds, the median of some rounds; each in a new window."""
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for _ in range(ROUNDS):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            opened = context.new_page()
            opened.goto(page.resolve().as_uri())
            opened.wait_for_selector("html[data-drawn]", state="attached", timeout=60_000)
            marks = opened.evaluate(MARKS)
            times = opened.evaluate(FILTERS)
            row = {
                "nuclei can be filtered": marks["nuclei"],
                "the plots that are seen are drawn": marks["drawn"],
                "a filter, median": statistics.median(times),
                "a filter, longest": max(times),
            }
            for name, value in row.items():
                found.setdefault(name, []).append(value)
            context.close()
        browser.close()
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder for the page")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        page = make_page(chosen.keep or Path(scratch))
        print(f"page: {page.stat().st_size / 1e6:.1f} MB")
        for name, value in measure(page).items():
            print(f"{name}: {value:.0f} ms")


if __name__ == "__main__":
    main()
