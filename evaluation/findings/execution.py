"""Workers and clusters."""

from __future__ import annotations

from evaluation.findings.kind import Kind

SAME = "Install the same version, or use the same image, on every machine."


class WorkerDied(Kind):
    """A worker process ended without an answer.

    It was killed, as a rule because the machine ran out of memory. A result without its cases would be wrong, so none
    is written.

    Run again with '--workers 1', or with more memory.

    [worker-died] one of 2 workers: ended without an answer, most often killed for memory; expected enough memory for
    all workers at once. Run again with '--workers 1' or with more memory.
    """

    code = "worker-died"
    got = "ended without an answer, most often killed for memory"
    expected = "enough memory for all workers at once"
    fix = "Run again with '--workers 1' or with more memory."


class OnlyWorkerDied(WorkerDied):
    expected = "enough memory for the largest case, by our estimate {case_megabytes:,.0f} MB"
    fix = "Run with more memory."

    case_megabytes: float


class OutOfMemory(OnlyWorkerDied):
    got = "ran out of memory"
    fix = "Run with more memory, or with a higher limit for each process."


class NoCluster(Kind):
    """A cluster or an executor does not work.

    No scheduler answers at the address, its workers have another version of the program, which may give other numbers,
    or it stopped before the work was done.

    Start the scheduler and its workers with the same version, or the same image, on every machine; docs/cluster.md
    shows how. What was complete is kept: the same command goes on.

    [no-cluster] --cluster 'login1': no address of a scheduler; expected the address of a running Dask scheduler, such
    as tcp://login1:8786. docs/cluster.md shows how to start one.
    """

    code = "no-cluster"


class NoAddress(NoCluster):
    got = "no address of a scheduler"
    expected = "the address of a running Dask scheduler, such as tcp://login1:8786"
    fix = "docs/cluster.md shows how to start one."


class NoScheduler(NoAddress):
    got = "no scheduler answered within {seconds} s"

    seconds: int


class NoWorkers(NoCluster):
    got = "no workers for {seconds} s"
    expected = "workers that are connected to the scheduler"
    fix = "Start workers. What is complete is kept: the same command goes on."

    seconds: int


class SchedulerLost(NoCluster):
    got = "the scheduler was lost"
    expected = "a scheduler to the end"
    fix = "Start it and its workers again. What is complete is kept: the same command goes on."


class OtherProgram(NoCluster):
    got = "runs the version {version}"
    expected = "the version {own_version}"
    fix = SAME

    version: str
    own_version: str


class PackageNotFound(NoCluster):
    got = "{error:quoted 120}"
    expected = "the program and its packages"
    fix = SAME

    error: object


class FolderNotShared(NoCluster):
    got = "does not see {path:quoted 120}"
    expected = "folders that all machines share, under the same path"

    path: object


class ExecutorStopped(NoCluster):
    got = "takes no more tasks, {why:quoted 120}"
    expected = "workers to the end"
    fix = "What is complete is kept: run again with workers to go on."

    why: str


KINDS = (
    WorkerDied,
    NoCluster,
)
