"""A small valid file in every format: what the kit shows participants, and what the fuzzers start from.

Three square nuclei stand in a row in the upper left corner of the image, of the first classes in turn.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from evaluation.challenge import Challenge, FormatRules
from evaluation.formats.counts_csv import write_counts_csv
from evaluation.formats.geojson import write_geojson
from evaluation.formats.points_json import write_points_json
from evaluation.formats.polygons_json import write_polygons_json
from evaluation.formats.write_labels import write_class_tiff, write_label_tiff, write_nary_mat
from evaluation.instances.runs import select_instances
from evaluation.instances.trace import trace_outlines
from evaluation.model import Case, Instances, Outlines, Points

SIDE_PX = 6
NUCLEI = 3

Labels = npt.NDArray[np.uint16]


def example_files(challenge: Challenge, rules: FormatRules, cases: Sequence[Case]) -> dict[str, bytes]:
    """Valid files for all cases, by relative name, as the rules of a side ask for them."""
    files: dict[str, bytes] = {}
    writer = Writer(challenge, rules)
    if rules.is_shared:
        for class_name in writer.class_names_in(rules.files):
            files[filled(rules.files, None, class_name)] = writer.collection(cases, class_name)
        return files
    for case in cases:
        for class_name in writer.class_names_in(rules.files):
            name = filled(rules.files, case, class_name)
            files[name] = writer.case_file(case, class_name, name)
        files |= writer.companions(case)
    if rules.segments is not None and "{case}" not in rules.segments:
        files[rules.segments] = writer.segments(cases)
    return files


def filled(pattern: str, case: Case | None, class_name: str | None) -> str:
    """A pattern with names in it; ``*`` becomes 1."""
    name = pattern.replace("*", "1")
    if case is not None:
        name = name.replace("{case}", case.name).replace("{group}", case.group)
    return name.replace("{class}", class_name or "")


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


class Writer:
    """Writes example files under the rules of a side."""

    def __init__(self, challenge: Challenge, rules: FormatRules) -> None:
        self.rules = rules
        self.names = challenge.class_names
        numbers = rules.class_values or {name: (index,) for index, name in enumerate(self.names, start=1)}
        self.values = {name: of_class[0] for name, of_class in numbers.items()}

    def class_names_in(self, pattern: str) -> tuple[str | None, ...]:
        return self.names if "{class}" in pattern else (None,)

    # --- what is in the files -----------------------------------------------------------------------------------------

    def instances(self, case: Case, class_name: str | None) -> Instances:
        """The nuclei of a case; those of one class if its file holds one class."""
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

    def class_numbers(self, case: Case) -> npt.NDArray[np.uint16]:
        """The number of the class of every pixel, 0 background."""
        instances = self.instances(case, None)
        numbers = np.array([0, *(self.values[self.names[index - 1]] for index in instances.class_id)], np.uint16)
        return numbers[self.labels(case)]

    def outlines(self, case: Case, class_name: str | None) -> Outlines:
        """Outlines that cover exactly the pixels, on the grid of the rules."""
        traced = trace_outlines(self.instances(case, class_name))
        shift = 0.5 if self.rules.origin == "pixel_centre" else 0.0
        points = traced.points_xy - shift + self.corner(case)
        return Outlines(points, traced.ring_start, traced.ring_instance, traced.ring_is_hole, traced.class_id,
                        traced.source_id)  # fmt: skip

    def points(self, case: Case, class_name: str | None) -> Points:
        """Centroids, in the units of the rules."""
        instances = self.instances(case, class_name)
        xy = instances.centroid_pixels_yx()[:, ::-1] + (0.5 if self.rules.origin == "pixel_corner" else 0.0)
        xy = (xy + self.corner(case)) * self.unit(case)
        return Points(np.asarray(xy, np.float64), instances.class_id, instances.source_id)

    def corner(self, case: Case) -> tuple[float, float]:
        """Where the image begins, x and y in px, from where coordinates count."""
        return case.offset_xy if self.rules.coordinates == "slide" else (0.0, 0.0)

    def unit(self, case: Case) -> float:
        """Units of the files for a pixel."""
        if self.rules.units in (None, "px") or case.spacing_um is None:
            return 1.0
        return case.spacing_um / (1000 if self.rules.units == "mm" else 1)

    def name_of(self, class_id: int) -> str:
        return self.names[class_id - 1]

    # --- one case to a file ---------------------------------------------------------------------------------------

    def case_file(self, case: Case, class_name: str | None, name: str) -> bytes:
        write: Mapping[str, Callable[[Case, str | None], bytes]] = {
            "aperio_xml": self.aperio_xml,
            "asap_xml": self.asap_xml,
            "geojson": self.geojson,
            "polygons_json": self.polygons_json,
            "points_json": lambda case, class_name: write_points_json(self.points(case, class_name), self.names),
            "points_csv": lambda case, class_name: self.points_csv([case], class_name),
            "nucls_csv": self.nucls_csv,
            "midog_json": lambda case, _: self.midog_json([case]),
            "coco_json": lambda case, _: self.coco_json([case]),
            "coco_panoptic": self.panoptic_png,
            "label_image": lambda case, class_name: self.label_image(case, class_name, name),
            "nary_mat": lambda case, class_name: write_nary_mat(self.instances(case, class_name)),
            "hovernet_mat": self.hovernet_mat,
            "pannuke_masks": lambda case, _: npy(self.pannuke(case)),
            "colour_map": self.colour_map,
        }
        content: bytes = write[self.rules.format](case, class_name)
        return content

    def aperio_xml(self, case: Case, class_name: str | None) -> bytes:
        layers = []
        for class_id, name in enumerate(self.names, start=1):
            regions = "".join(
                f'<Region Id="{label}"><Vertices>'
                + "".join(f'<Vertex X="{x:g}" Y="{y:g}"/>' for x, y in ring)
                + "</Vertices></Region>"
                for label, ring, of_class in self.rings(case, class_name)
                if of_class == class_id
            )
            layers.append(
                f'<Annotation Id="{class_id}"><Attributes><Attribute Name="{name}"/></Attributes>'
                f"<Regions>{regions}</Regions></Annotation>"
            )
        return f"<?xml version='1.0'?>\n<Annotations>{''.join(layers)}</Annotations>\n".encode()

    def asap_xml(self, case: Case, class_name: str | None) -> bytes:
        shapes: list[tuple[str, int, Any]] = [("Polygon", c, ring) for _, ring, c in self.rings(case, class_name)]
        if self.rules.are_points:
            points = self.points(case, class_name)
            shapes = [("Dot", c, [xy]) for xy, c in zip(points.points_xy, points.class_id, strict=True)]
        annotations = "".join(
            f'<Annotation Name="Annotation {index}" Type="{kind}" PartOfGroup="{self.name_of(class_id)}"><Coordinates>'
            + "".join(f'<Coordinate Order="{i}" X="{x:g}" Y="{y:g}"/>' for i, (x, y) in enumerate(ring))
            + "</Coordinates></Annotation>"
            for index, (kind, class_id, ring) in enumerate(shapes)
        )
        text = f"<ASAP_Annotations><Annotations>{annotations}</Annotations><AnnotationGroups/></ASAP_Annotations>\n"
        return f"<?xml version='1.0'?>\n{text}".encode()

    def rings(self, case: Case, class_name: str | None) -> list[tuple[int, npt.NDArray[np.float64], int]]:
        """Id, vertices and class of each nucleus."""
        outlines = self.outlines(case, class_name)
        rings = np.split(outlines.points_xy, outlines.ring_start[1:-1])
        labels = (int(label) for label in outlines.source_id)
        return list(zip(labels, rings, outlines.class_id.tolist(), strict=True))

    def geojson(self, case: Case, class_name: str | None) -> bytes:
        if not self.rules.are_points:
            return write_geojson(self.outlines(case, class_name), self.names, [None] * len(self.names))
        points = self.points(case, class_name)
        features = [
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": xy.tolist()},
                "properties": {"objectType": "annotation", "classification": {"name": self.name_of(class_id)}},
            }
            for xy, class_id in zip(points.points_xy, points.class_id, strict=True)
        ]
        return orjson.dumps({"type": "FeatureCollection", "features": features})

    def polygons_json(self, case: Case, class_name: str | None) -> bytes:
        outlines = self.outlines(case, class_name)
        scaled = Outlines(outlines.points_xy * self.unit(case), outlines.ring_start, outlines.ring_instance,
                          outlines.ring_is_hole, outlines.class_id, outlines.source_id)  # fmt: skip
        return write_polygons_json(scaled, self.names, "nuclei")

    def nucls_csv(self, case: Case, class_name: str | None) -> bytes:
        columns = ["raw_classification", "main_classification", "super_classification", "type"]
        rows = []
        for _, ring, class_id in self.rings(case, class_name):
            coordinates = [",".join(f"{value:g}" for value in ring[:, axis]) for axis in (0, 1)]
            box = [f"{value:g}" for value in (*ring.min(axis=0), *ring.max(axis=0))]
            rows.append([*[self.name_of(class_id)] * 3, "polyline", *box, *coordinates])
        return csv_bytes([*columns, "xmin", "ymin", "xmax", "ymax", "coords_x", "coords_y"], rows)

    def label_image(self, case: Case, class_name: str | None, name: str) -> bytes:
        labels: npt.NDArray[Any] = self.labels(case, class_name)
        channel = self.rules.class_channel
        if channel is not None:
            planes = [labels, self.class_numbers(case)]
            labels = np.stack(planes if channel else planes[::-1], axis=-1)
        elif name.lower().endswith((".tif", ".tiff")):
            return write_label_tiff(self.instances(case, class_name))
        return image_bytes(labels, name)

    def hovernet_mat(self, case: Case, class_name: str | None) -> bytes:
        from scipy import io as scipy_io

        classes = [self.values[self.name_of(class_id)] for class_id in self.instances(case, class_name).class_id]
        file = io.BytesIO()
        content = {"inst_map": self.labels(case), "inst_type": np.array(classes, np.int32).reshape(-1, 1)}
        scipy_io.savemat(file, content, do_compression=True)
        return file.getvalue()

    def pannuke(self, case: Case) -> npt.NDArray[np.uint16]:
        labels = self.labels(case)
        masks = np.zeros((*case.shape_yx, 1 + max(5, *self.values.values())), np.uint16)
        instances = self.instances(case, None)
        for label, class_id in zip(instances.source_id, instances.class_id, strict=True):
            masks[..., self.values[self.name_of(class_id)]] += np.where(labels == label, label, 0).astype(np.uint16)
        return masks

    def colour_map(self, case: Case, class_name: str | None) -> bytes:
        assert self.rules.colours is not None and self.rules.border_colour is not None
        labels = self.labels(case)
        instances = self.instances(case, class_name)
        colours = [(0, 0, 0), *(rgb(self.rules.colours[self.name_of(class_id)]) for class_id in instances.class_id)]
        picture = np.array(colours, np.uint8)[labels]
        border = np.zeros(labels.shape, np.bool_)
        border[:, 1:] = (labels[:, 1:] != labels[:, :-1]) & (labels[:, 1:] > 0) & (labels[:, :-1] > 0)
        picture[border] = rgb(self.rules.border_colour)
        return image_bytes(picture, ".png")

    def panoptic_png(self, case: Case, class_name: str | None) -> bytes:
        ids = self.labels(case).astype(np.uint32)
        return image_bytes(np.stack([ids & 255, ids >> 8 & 255, ids >> 16], axis=-1).astype(np.uint8), ".png")

    # --- what goes with the file of a case ----------------------------------------------------------------------------

    def companions(self, case: Case) -> dict[str, bytes]:
        files = {}
        if self.rules.class_map is not None:
            name = filled(self.rules.class_map, case, None)
            if name.lower().endswith((".tif", ".tiff")):
                files[name] = write_class_tiff(self.instances(case, None), self.numbers())
            else:
                files[name] = image_bytes(self.class_numbers(case), name)
        if self.rules.class_table is not None:
            instances = self.instances(case, None)
            rows = [[label, self.name_of(c)] for label, c in zip(instances.source_id, instances.class_id, strict=True)]
            files[filled(self.rules.class_table, case, None)] = csv_bytes(["id", "class"], rows)
        if self.rules.segments is not None and "{case}" in self.rules.segments:
            files[filled(self.rules.segments, case, None)] = self.segments([case])
        return files

    def numbers(self) -> list[int]:
        """The number of each class."""
        return [self.values[name] for name in self.names]

    def segments(self, cases: Sequence[Case]) -> bytes:
        annotations = [
            {
                "image_id": case.name,
                "file_name": filled(self.rules.files, case, None).rpartition("/")[2],
                "segments_info": [
                    {"id": int(label), "category_id": int(class_id), "iscrowd": 0}
                    for label, class_id in zip(instances.source_id, instances.class_id, strict=True)
                ],
            }
            for case in cases
            for instances in [self.instances(case, None)]
        ]
        return orjson.dumps({"annotations": annotations, "categories": self.categories()})

    def categories(self) -> list[dict[str, Any]]:
        return [{"id": index, "name": name} for index, name in enumerate(self.names, start=1)]

    # --- all cases in a file --------------------------------------------------------------------------------------

    def collection(self, cases: Sequence[Case], class_name: str | None) -> bytes:
        write: Mapping[str, Callable[[], bytes]] = {
            "points_csv": lambda: self.points_csv(cases, class_name),
            "midog_json": lambda: self.midog_json(cases),
            "coco_json": lambda: self.coco_json(cases),
            "rle_csv": lambda: self.rle_csv(cases, class_name),
            "conic_array": lambda: npy(np.stack([self.conic(case) for case in in_order(cases)])),
            "pannuke_masks": lambda: npy(np.stack([self.pannuke(case) for case in in_order(cases)])),
            "counts_csv": lambda: self.counts_csv(cases),
        }
        return write[self.rules.format]()

    def conic(self, case: Case) -> npt.NDArray[np.uint16]:
        return np.stack([self.labels(case), self.class_numbers(case)], axis=-1)

    def counts_csv(self, cases: Sequence[Case]) -> bytes:
        classes = range(1, len(self.names) + 1)
        class_ids = {self.key(case): self.instances(case, None).class_id.tolist() for case in cases}
        counts = {key: [of_case.count(class_id) for class_id in classes] for key, of_case in class_ids.items()}
        return write_counts_csv(counts, self.names)

    def key(self, case: Case) -> str:
        return filled(self.rules.case_key, case, None)

    def points_csv(self, cases: Sequence[Case], class_name: str | None) -> bytes:
        columns = list(self.rules.columns or ["case", "x", "y", "class"])
        rows = []
        for case in cases:
            points = self.points(case, class_name)
            for (x, y), class_id in zip(points.points_xy, points.class_id, strict=True):
                name = self.name_of(class_id)
                of_class = self.values[name] if self.rules.class_values else name
                known = {"case": self.key(case), "x": f"{x:g}", "y": f"{y:g}", "class": of_class, "probability": 1}
                rows.append([known.get(column, "") for column in columns])
        return csv_bytes(None if self.rules.columns else columns, rows)

    def images(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        return [
            {"id": index, "file_name": self.key(case), "height": case.height, "width": case.width}
            for index, case in enumerate(cases, start=1)
        ]

    def midog_json(self, cases: Sequence[Case]) -> bytes:
        annotations: list[dict[str, Any]] = []
        for image_id, case in enumerate(cases, start=1):
            for (x, y), class_id in zip(
                self.points(case, None).points_xy, self.points(case, None).class_id, strict=True
            ):
                box = [float(x) - 25, float(y) - 25, float(x) + 25, float(y) + 25]
                annotations.append(
                    {"id": len(annotations) + 1, "image_id": image_id, "category_id": int(class_id), "bbox": box}
                )
        return orjson.dumps({"images": self.images(cases), "annotations": annotations, "categories": self.categories()})

    def coco_json(self, cases: Sequence[Case]) -> bytes:
        annotations: list[dict[str, Any]] = []
        for image_id, case in enumerate(cases, start=1):
            for _, ring, class_id in self.rings(case, None):
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": image_id,
                        "category_id": class_id,
                        "segmentation": [ring.reshape(-1).tolist()],
                        "iscrowd": 0,
                    }
                )
        return orjson.dumps({"images": self.images(cases), "annotations": annotations, "categories": self.categories()})

    def rle_csv(self, cases: Sequence[Case], class_name: str | None) -> bytes:
        rows = []
        for case in cases:
            labels = self.labels(case, class_name)
            flat = labels.reshape(-1) if self.rules.pixel_order == "row" else labels.T.reshape(-1)
            instances = self.instances(case, class_name)
            for label, class_id in zip(instances.source_id, instances.class_id, strict=True):
                edges = np.flatnonzero(np.diff(flat == label, prepend=False, append=False))
                codes = [
                    f"{start + (self.rules.first_pixel or 0)} {stop - start}"
                    for start, stop in zip(edges[::2], edges[1::2], strict=True)
                ]
                rows.append([self.key(case), " ".join(codes), self.name_of(class_id)])
        return csv_bytes(["image_id", "rle", "class"], rows)


def in_order(cases: Sequence[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: case.index or 0)


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def csv_bytes(header: Sequence[str] | None, rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header] if header else [])
    writer.writerows(rows)
    return text.getvalue().encode()


def npy(array: npt.NDArray[Any]) -> bytes:
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
    return npy(array)
