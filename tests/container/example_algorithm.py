"""The container of the example algorithm: built from the kit, run without network, and scored on the demo's board.

    PYTHONPATH=.:library:tests python -m container.example_algorithm podman [options of 'build']

Its outputs must be those of inference.py here, to the byte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import baseline

from container.engine import Engine
from evaluation.folders.demo import write_demo

IMAGE = "localhost/example-algorithm:test"


def main(name: str, *options: str) -> None:
    os.umask(0o022)  # the image's user reads the folders
    with tempfile.TemporaryDirectory(prefix="algorithm-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        write_demo(folder)
        (folder / "phase").mkdir()
        challenge = baseline.write_kit_and_inputs(folder, folder / "phase", "Multiple polygons")
        engine = Engine.of(name, IMAGE, folder)
        program = folder / "phase" / baseline.ALGORITHM
        engine.call("build", "--platform", "linux/amd64", *options, "--tag", IMAGE, str(program))

        def contained(given: Path, output: Path) -> None:
            output.chmod(0o777)
            ended = engine.run(mounts={"/input": given}, output=output)
            if ended.code != 0:
                raise SystemExit(f"The example algorithm failed with exit code {ended.code}: {ended.err}")
            here = output.with_name("here")
            here.mkdir()
            subprocess.run([sys.executable, program / "inference.py", given, here], check=True)
            for path in here.iterdir():
                if (output / path.name).read_bytes() != path.read_bytes():
                    raise SystemExit(f"{given.name}: the image writes another {path.name} than inference.py here.")

        tree = baseline.write_jobs(challenge, folder / "phase", contained)
        board = baseline.board_with_baseline(folder, folder / "phase", challenge, tree)
    (entry,) = board["shown"]
    print(f"The example algorithm was built from the kit, run and scored: {entry['name']}, without a rank.")


if __name__ == "__main__":
    main(*sys.argv[1:])
