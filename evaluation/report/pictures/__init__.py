"""Pictures of a scored submission: the worst nuclei, whole cases, overlays. A second pass over what was scored."""

from evaluation.report.pictures.images import find_images
from evaluation.report.pictures.second_pass import SecondPass, illustrate_cases

__all__ = ["SecondPass", "find_images", "illustrate_cases"]
