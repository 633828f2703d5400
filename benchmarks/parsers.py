"""Which parser reads a long list of nuclei best: megabytes a second, and the memory on top of the file's text.

    python -m pip install pysimdjson ijson                 (in the environment of the benchmarks)
    python -m benchmarks.parsers slide.geojson
    python -m benchmarks.parsers slide.xml                 (Aperio)

Each parser, in a process of its own, gives the coordinates of every feature as Python lists, as our reader needs them;
expat by itself gives nothing.
"""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from evaluation.challenge import LimitRules
from evaluation.files.decoding.json import JsonText
from evaluation.files.decoding.xml import Vertices, read_elements
from evaluation.files.formats.annotation_xml import APERIO, REGION
from evaluation.files.formats.geojson import _decode_features


def parse_as_the_program(path: Path) -> int:
    """msgspec for the features, orjson for the numbers, in batches (``files/formats/geojson.py``)."""
    return sum(len(rings.size) for _, rings in pieces_of(path, _decode_features))


def parse_in_batches(path: Path) -> int:
    """What the program does with other features: orjson, in batches (``files/decoding/json.py``)."""
    return sum(len(feature["geometry"]["coordinates"]) for piece in pieces_of(path) for feature in piece)


def pieces_of(path: Path, decode: Callable[[bytes], Any] | None = None) -> Iterator[Any]:
    with path.open("rb") as stream:
        yield from (
            JsonText(stream, "file", LimitRules(), nan_is_null=True).find_records("features", decode).pieces or ()
        )


def parse_whole(path: Path) -> int:
    return count(importlib.import_module("orjson").loads(path.read_bytes()))


def parse_simdjson(path: Path) -> int:
    """The whole file, since pysimdjson has no other way; a feature becomes Python objects when it is looked at."""
    parser = importlib.import_module("simdjson").Parser()
    features = parser.parse(path.read_bytes())["features"]
    return sum(len(feature["geometry"]["coordinates"].as_list()) for feature in features)


def parse_simdjson_arrays(path: Path) -> int:
    """The same, with the vertices of a ring handed over as a buffer, without Python objects."""
    numpy = importlib.import_module("numpy")
    features = importlib.import_module("simdjson").Parser().parse(path.read_bytes())["features"]
    rings = 0
    for feature in features:
        numpy.frombuffer(feature["geometry"]["coordinates"].as_buffer(of_type="d"))
        rings += 1
    return rings


def parse_ijson(path: Path) -> int:
    """Event by event: yajl2 in C."""
    ijson = importlib.import_module("ijson.backends.yajl2_c")
    with path.open("rb") as stream:
        features = ijson.items(stream, "features.item", use_float=True)
        return sum(len(feature["geometry"]["coordinates"]) for feature in features)


def parse_xml_as_the_program(path: Path) -> int:
    """Plain vertices are taken out, expat parses the rest (``evaluation/files/decoding/xml.py``)."""
    regions: list[object] = []
    with path.open("rb") as stream:
        read_elements(stream, APERIO, Vertices(APERIO.columns, "file", LimitRules()), {REGION: regions.append})
    return len(regions)


def parse_by_expat(path: Path, handle: Callable[..., None] | None = None) -> int:
    """Expat alone, or with a handler in Python for the start and the end of every element."""
    parser = importlib.import_module("xml.parsers.expat").ParserCreate()
    parser.StartElementHandler = parser.EndElementHandler = handle
    with path.open("rb") as stream:
        parser.ParseFile(stream)
    return 0


def count(root: Any) -> int:
    return sum(len(feature["geometry"]["coordinates"]) for feature in root["features"])


XML_PARSERS: dict[str, Callable[[Path], int]] = {
    "the vertices at once, expat for the rest": parse_xml_as_the_program,
    "expat alone": parse_by_expat,
    "expat with empty handlers in Python": lambda path: parse_by_expat(path, lambda *_: None),
}
JSON_PARSERS: dict[str, Callable[[Path], int]] = {
    "msgspec and orjson, in batches": parse_as_the_program,
    "orjson, in batches": parse_in_batches,
    "orjson, the whole file": parse_whole,
    "pysimdjson, the whole file, coordinates only": parse_simdjson,
    "pysimdjson, the whole file, coordinates as buffers": parse_simdjson_arrays,
    "ijson (yajl2 in C), event by event": parse_ijson,
}


def peak_bytes() -> int:
    """The most memory this process held."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def main() -> None:
    path = Path(sys.argv[1])
    parsers = XML_PARSERS if path.suffix == ".xml" else JSON_PARSERS
    if len(sys.argv) > 2:
        gc.disable()  # it finds nothing in what a parser makes, and would take most of the time
        before, start = peak_bytes(), time.process_time()
        found = parsers[sys.argv[2]](path)
        seconds = time.process_time() - start
        speed, memory = path.stat().st_size / 1e6 / seconds, (peak_bytes() - before) / 1e6
        print(f"| {sys.argv[2]} | {speed:.0f} | {memory:,.0f} | {found:,} |")
        return
    print("| parser | MB/s | peak memory, MB | rings |\n| --- | --- | --- | --- |", flush=True)
    for name in parsers:
        subprocess.run([sys.executable, "-m", "benchmarks.parsers", str(path), name], check=False, env=os.environ)


if __name__ == "__main__":
    main()
