"""The image under the platform's conditions, with podman or docker.

Folders are mounted read-only under names of their own, and ``/input`` is a symbolic link to one of them, as on the
platform. The container is therefore made first, gets its links, and is then started.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

GROUND_TRUTH = "/opt/ml/input/data/ground_truth"
SUBMISSION = "/opt/ml/input/data/submission"
MEMORY = 7 << 30
SECONDS = 600.0  # for what never ends
LIMITS = (
    "--network", "none",
    "--read-only",
    "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable",
    "--cpus", "2", "--shm-size", str(MEMORY // 2),
    "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
)  # fmt: skip


TMP = ("--tmpfs", "/tmp:rw,mode=1777")


@dataclass(frozen=True)
class Ended:
    """How a container ended. ``code`` None: it did not end in time and was stopped."""

    code: int | None
    out: str
    err: str
    seconds: float
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The line that the platform shows: the last one on stderr that is not empty, its first 1,024 characters."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1][:1024] if lines else ""


@dataclass(frozen=True)
class Engine:
    """A container engine and the image that is proven."""

    command: tuple[str, ...]
    image: str
    scratch: Path

    @classmethod
    def of(cls, name: str, image: str, scratch: Path) -> Engine:
        """``name`` is podman or docker. As root podman uses runc, which also starts where crun does not."""
        command = [name]
        if name == "podman" and os.getuid() == 0:
            command += ["--cgroup-manager", "cgroupfs"]
            command += ["--runtime", "runc"] if shutil.which("runc") else []
        return cls(tuple(command), image, scratch)

    def call(self, *arguments: str, given: bytes | None = None) -> str:
        done = subprocess.run([*self.command, *arguments], input=given, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments[:2])}: {done.stderr.decode(errors='replace')[-500:]}")
        return done.stdout.decode().strip()

    def score(self, submission: Path, ground_truth: Path | None, *arguments: str, **more: object) -> Ended:
        """Score as the platform does: its folders, its entrypoint. ``ground_truth`` None: a dry run."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            output = Path(folder, "output")
            output.mkdir()
            output.chmod(0o777)
            ended = self.run(
                arguments,
                mounts={SUBMISSION: submission} | ({GROUND_TRUTH: ground_truth} if ground_truth else {}),
                output=output,
                links={"input": SUBMISSION},
                **more,  # type: ignore[arg-type]
            )
            files = {path.name: path.read_bytes() for path in output.iterdir()}
        return Ended(ended.code, ended.out, ended.err, ended.seconds, files)

    def run(
        self,
        arguments: Sequence[str] = (),
        *,
        entrypoint: str | None = None,
        mounts: Mapping[str, Path] | None = None,
        output: Path | None = None,
        links: Mapping[str, str] | None = None,
        memory: int = MEMORY,
        data: int | None = None,
        pids: int = 256,
        options: Sequence[str] = TMP,
        then: Callable[[str], None] | None = None,
        seconds: float = SECONDS,
    ) -> Ended:
        """Run the image until it ends.

        mounts      folders that are read-only, by their place in the container
        output      the folder that is writable, as /output
        links       symbolic links in the root of the container
        memory      bytes, of memory and swap together
        data        bytes of each process; None: as many
        pids        processes and threads
        options     more of them for the engine; without others there is a /tmp
        then        called with the name of the container when it has started
        """
        options = [*LIMITS, *options, f"--memory={memory}", f"--memory-swap={memory}"]
        options += [f"--pids-limit={pids}", f"--ulimit=data={data or memory}:{data or memory}"]
        if self.command[0] == "podman":
            options += ["--read-only-tmpfs=false"]  # nothing else is writable, as with docker
        for place, path in (mounts or {}).items():
            options += ["--volume", f"{path}:{place}:ro"]
        if output is not None:
            options += ["--volume", f"{output}:/output"]
        if entrypoint is not None:
            options += ["--entrypoint", entrypoint]
        name = self.call("create", *options, self.image, *arguments).splitlines()[-1]
        try:
            if links:
                self.call("cp", "-", f"{name}:/", given=archive_of_links(links))
            began = time.monotonic()
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                with subprocess.Popen([*self.command, "start", "--attach", name], stdout=out, stderr=err) as running:
                    code: int | None
                    try:
                        if then is not None:
                            then(name)
                        code = running.wait(seconds)
                    except subprocess.TimeoutExpired:
                        self.call("kill", name)
                        running.wait()
                        code = None
                    took = time.monotonic() - began
                texts = []
                for file in (out, err):
                    file.seek(0)
                    texts.append(file.read().decode())  # the platform wants UTF-8
            return Ended(code, texts[0], texts[1], took)
        finally:
            self.call("rm", "--force", name)


def archive_of_links(links: Mapping[str, str]) -> bytes:
    """A tar file with symbolic links, for ``cp``."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return file.getvalue()
