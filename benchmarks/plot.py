"""The plot of benchmarks/README.md: seconds and memory of this program and of its peers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.files import CONTENDERS, Measured, least_of

OURS, FLOOR, PEER = "#1f6fb4", "#8c8c8c", "#d9781f"
LEFT_OUT = {"empty", "version"}  # of the rows from files: no work that a peer does


def draw(from_memory: Mapping[str, Any], from_files: Measured, path: Path) -> None:
    """Three panels, all on logarithmic axes: seconds from memory, seconds from files, memory from files.

    from_memory  the outcomes of one set by their labels; those that failed are left out
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "benchmarks", "svg.fonttype": "none", "font.size": 10})
    least = {CONTENDERS[job]: one for job, one in least_of(from_files).items() if job not in LEFT_OUT}
    panels = {
        "Seconds from label maps in memory": {label: min(of.times) for label, of in from_memory.items() if of.times},
        "Seconds from files, with the start of each program": {label: one["seconds"] for label, one in least.items()},
        "Peak memory from files, MB": {label: one["memory"] for label, one in least.items()},
    }
    rows = [len(panel) for panel in panels.values()]
    figure, axes = plt.subplots(len(panels), figsize=(10, 0.3 * sum(rows) + 2.4), height_ratios=rows, layout="tight")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        labels = [label.replace("`", "") for label in panel]
        axis.scatter(list(panel.values()), labels, color=list(map(colour_of, labels)), zorder=2)
        for label, value in zip(labels, panel.values(), strict=True):
            axis.annotate(f"{value:.3g}", (value, label), xytext=(7, 0), textcoords="offset points", va="center")
        axis.set(xscale="log", title=title)
        axis.margins(x=0.1, y=0.1)
        axis.grid(axis="x", color="#dddddd", zorder=1)
        axis.invert_yaxis()
        axis.spines[:].set_visible(False)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def colour_of(label: str) -> str:
    if label.startswith(("np.sum", "tifffile")):
        return FLOOR
    return OURS if label.startswith(("this program", "evaluation")) else PEER
