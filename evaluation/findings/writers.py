"""What a file that is written cannot hold, and a picture cannot show."""

from __future__ import annotations

from evaluation.findings.kind import Kind


class OverlapInLabelMap(Kind):
    """Nuclei that overlap cannot be written as a label image.

    A label image has one number for each pixel: one of the nuclei would lose its pixels silently.

    Write a format in which nuclei may overlap, such as GeoJSON, or decide who keeps the pixels: convert with --overlap
    and one of the rules for reference.overlap.

    [overlap-in-label-map] case 'P1_1': 1 pixel belongs to two nuclei or more; expected nuclei that do not overlap,
    since a label image has one number for each pixel. Write GeoJSON, or resolve the overlaps by a rule such as 'last'
    or 'smallest'. The option is --overlap.
    """

    code = "overlap-in-label-map"
    got = "{pixels:,} {pixels:pixel belongs/pixels belong} to two nuclei or more"
    expected = "nuclei that do not overlap, since a label image has one number for each pixel"
    fix = "Write GeoJSON, or resolve the overlaps by a rule such as 'last' or 'smallest'."

    pixels: int


class ImageLeftOut(Kind):
    """The image of a case is not shown.

    It cannot be read, or has another size than cases.csv says, so that outlines would lie in wrong places. Scores do
    not depend on it.

    Check that the file is the image of this case, at full resolution.

    [image-left-out] case 'case_017', 'case_017.png': 10 rows x 15 columns; expected an SVS, TIFF or PNG image of 20
    rows x 30 columns, as in cases.csv. The nuclei are drawn on a plain background.
    """

    code = "image-left-out"
    severity = "warning"
    got = "{why}"
    expected = "an SVS, TIFF or PNG image of {height:,} rows x {width:,} columns, as in cases.csv"
    fix = "The nuclei are drawn on a plain background."

    why: str
    height: int
    width: int


KINDS = (
    OverlapInLabelMap,
    ImageLeftOut,
)
