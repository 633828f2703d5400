"""What a file that is written cannot hold, and a picture cannot show."""

from evaluation.findings.catalogue.explanation import Explanation

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
    "image-left-out": Explanation(
        title="The image of a case is not shown",
        why="It cannot be read, or has another size than cases.csv says, so that outlines would lie in wrong places. "
        "Scores do not depend on it.",
        fix="Check that the file is the image of this case, at full resolution.",
        example="[image-left-out] case 'case_017', 'case_017.png': 10 rows x 15 columns; expected an SVS, TIFF or "
        "PNG image of 20 rows x 30 columns, as in cases.csv. The nuclei are drawn on a plain background.",
        severity="warning",
    ),
}
