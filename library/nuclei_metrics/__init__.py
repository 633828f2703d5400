"""Scores of instance segmentation and classification of nuclei: arrays in, values out; numpy and scipy only."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
_HOMES = {
    **dict.fromkeys(("Evaluation", "ImagePair", "Matching", "Nearest"), "functional"),
    **dict.fromkeys(("aji", "average_precision", "match", "panoptic_quality"), "functional"),
    **dict.fromkeys(("TooManyPairs", "UnusableOutlines"), "errors"),
    "Instances": "model",
    "Score": "model.counts",
    "instances_from_labels": "instances.runs",
    "instances_from_masks": "instances.runs",
    "instances_from_outlines": "instances.outlines",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import what is asked for on first use: a program pays for nothing else."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nuclei_metrics' has no attribute {name!r}")
    return getattr(import_module(f"nuclei_metrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
