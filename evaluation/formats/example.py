"""What the example files of all formats hold: three square nuclei in a row in the upper left corner of each image.

They are of the first classes in turn. The kit shows such files to participants, and the fuzzers start from them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic

import numpy as np
import numpy.typing as npt

from evaluation.formats.format import RulesT
from evaluation.model import Case, Instances, Outlines, Points

SIDE_PX = 6
NUCLEI = 3

Labels = npt.NDArray[np.uint16]


def example_instances(case: Case, classes: int) -> Instances:
    """The made nuclei of a case, squares that end where the image does."""
    height, width = case.shape_yx
    side = max(1, min(SIDE_PX, height, width // NUCLEI))
    count = min(NUCLEI, width // side)
    row, nucleus = np.mgrid[: min(side, height), :count].reshape(2, -1)
    start = row.astype(np.int64) * width + nucleus * side
    return Instances(
        shape_yx=case.shape_yx,
        class_id=(np.arange(count) % classes + 1).astype(np.int16),
        source_id=np.arange(1, count + 1),
        run_start=start,
        run_stop=start + side,
        run_instance=nucleus.astype(np.int32),
    )


class Example(Generic[RulesT]):
    """The made nuclei in the coordinates, units and classes that the rules of a side ask for.

    names   the classes of the challenge
    values  the number of each class: the first of ``class_values``, else 1 for the first class and so on
    """

    def __init__(self, rules: RulesT, class_names: Sequence[str]) -> None:
        self.rules = rules
        self.names = tuple(class_names)
        numbers = rules.value("class_values") or {name: (index,) for index, name in enumerate(self.names, start=1)}
        self.values: dict[str, int] = {name: of_class[0] for name, of_class in numbers.items()}

    def instances(self, case: Case, class_name: str | None = None) -> Instances:
        """The nuclei of a case; those of one class if its file holds one class."""
        from evaluation.instances.runs import select_instances

        everything = example_instances(case, len(self.names))
        if class_name is None:
            return everything
        return select_instances(everything, everything.class_id == self.names.index(class_name) + 1)

    def labels(self, case: Case, class_name: str | None = None) -> Labels:
        instances = self.instances(case, class_name)
        flat = np.zeros(case.height * case.width, np.uint16)
        for start, stop, index in zip(instances.run_start, instances.run_stop, instances.run_instance, strict=True):
            flat[start:stop] = instances.source_id[index]
        return flat.reshape(case.shape_yx)

    def class_numbers(self, case: Case) -> Labels:
        """The number of the class of every pixel, 0 background."""
        numbers = np.array([0, *(self.values[name] for _, name in self.classes_of(case))], np.uint16)
        return numbers[self.labels(case)]

    def classes_of(self, case: Case, class_name: str | None = None) -> list[tuple[int, str]]:
        """Id and class of each nucleus."""
        instances = self.instances(case, class_name)
        pairs = zip(instances.source_id, instances.class_id, strict=True)
        return [(int(label), self.names[class_id - 1]) for label, class_id in pairs]

    def outlines(self, case: Case, class_name: str | None = None) -> Outlines:
        """Outlines that cover exactly the pixels, on the grid of the rules."""
        from evaluation.instances.outlines import trace_outlines

        traced = trace_outlines(self.instances(case, class_name))
        shift = 0.5 if self.rules.value("origin") == "pixel_centre" else 0.0
        points = (traced.points_xy - shift + self.corner(case)) * self.unit(case)
        return Outlines(points, traced.ring_start, traced.ring_instance, traced.ring_is_hole, traced.class_id,
                        traced.source_id)  # fmt: skip

    def rings(self, case: Case, class_name: str | None = None) -> list[tuple[str, npt.NDArray[np.float64]]]:
        """Class and vertices of each nucleus."""
        outlines = self.outlines(case, class_name)
        rings = np.split(outlines.points_xy, outlines.ring_start[1:-1])
        return [(self.names[of_class - 1], ring) for of_class, ring in zip(outlines.class_id, rings, strict=True)]

    def points(self, case: Case, class_name: str | None = None) -> Points:
        """Centroids, in the units of the rules."""
        instances = self.instances(case, class_name)
        shift = 0.5 if self.rules.value("origin") == "pixel_corner" else 0.0
        xy = (instances.centroid_pixels_yx()[:, ::-1] + shift + self.corner(case)) * self.unit(case)
        return Points(np.asarray(xy, np.float64), instances.class_id, instances.source_id)

    def marks(self, case: Case, class_name: str | None = None) -> list[tuple[str, float, float]]:
        """Class, x and y of each centroid."""
        points = self.points(case, class_name)
        names = [self.names[class_id - 1] for class_id in points.class_id]
        return [(name, float(x), float(y)) for name, (x, y) in zip(names, points.points_xy, strict=True)]

    def corner(self, case: Case) -> tuple[float, float]:
        """Where the image begins, x and y in px, from where coordinates count."""
        return case.offset_xy if self.rules.coordinates == "slide" else (0.0, 0.0)

    def unit(self, case: Case) -> float:
        """Units of the files for a pixel."""
        if self.rules.value("units") in (None, "px") or case.spacing_um is None:
            return 1.0
        return case.spacing_um / (1000 if self.rules.value("units") == "mm" else 1)

    def categories(self) -> list[dict[str, Any]]:
        """The classes, as COCO lists them."""
        return [{"id": index, "name": name} for index, name in enumerate(self.names, start=1)]

    def images(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """The images, as COCO lists them."""
        return [
            {"id": index, "file_name": self.rules.key_of(case), "height": case.height, "width": case.width}
            for index, case in enumerate(cases, start=1)
        ]


def csv_bytes(header: Sequence[str] | None, rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header] if header else [])
    writer.writerows(rows)
    return text.getvalue().encode()


def npy_bytes(array: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def image_bytes(array: npt.NDArray[Any], name: str) -> bytes:
    """An array as the image file that its suffix names."""
    suffix = name.lower().rpartition(".")[2]
    if suffix == "png":
        import imagecodecs

        return bytes(imagecodecs.png_encode(array))
    if suffix == "npz":
        file = io.BytesIO()
        np.savez_compressed(file, labels=array)
        return file.getvalue()
    if suffix == "mha":
        height, width = array.shape[:2]
        channels = f"ElementNumberOfChannels = {array.shape[2]}\n" if array.ndim == 3 else ""
        header = f"ObjectType = Image\nNDims = 2\nDimSize = {width} {height}\n{channels}ElementType = MET_USHORT\n"
        return f"{header}ElementDataFile = LOCAL\n".encode() + array.astype("<u2").tobytes()
    if name.lower().endswith((".nii", ".nii.gz", ".nrrd")):
        import SimpleITK

        with TemporaryDirectory() as folder:  # it writes files of a name only
            path = Path(folder, f"labels{''.join(Path(name.lower()).suffixes)}")
            SimpleITK.WriteImage(SimpleITK.GetImageFromArray(array), str(path))
            return path.read_bytes()
    if suffix in ("tif", "tiff"):
        import tifffile

        file = io.BytesIO()
        tifffile.imwrite(file, array, compression="zlib", metadata=None, software=False)
        return file.getvalue()
    if suffix == "mat":
        from scipy import io as scipy_io

        file = io.BytesIO()
        scipy_io.savemat(file, {"n_ary_mask": array}, do_compression=True)
        return file.getvalue()
    return npy_bytes(array)
