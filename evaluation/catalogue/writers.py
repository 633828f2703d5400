"""What a file that is written cannot hold."""

from evaluation.catalogue.explanation import Explanation

WRITERS: dict[str, Explanation] = {
    "overlap-in-label-map": Explanation(
        title="Nuclei that overlap cannot be written as a label image",
        why="A label image has one number for each pixel: one of the nuclei would lose its pixels without a word.",
        fix="Write a format in which nuclei may overlap, such as GeoJSON, or decide who keeps the pixels: "
        "convert with --overlap and one of the rules for reference.overlap.",
        example="[overlap-in-label-map] case 'P1_1': 1 pixel belongs to two nuclei or more; expected nuclei that do "
        "not overlap, since a label image has one number for each pixel. Write GeoJSON, or resolve the "
        "overlaps by a rule such as 'last' or 'smallest'. The option is --overlap.",
    ),
}
