"""The description of a worker process: cores, preloaded modules, environment, limits, sandbox."""

from dataclasses import dataclass

from ansorpy.measure.sandbox.isolation import Mode


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Resource limits of one child; memory counts on top of the mappings of its fork server."""

    memory_bytes: int = 4 << 30  # limit of each process, and of the sum over all processes
    file_bytes: int = 16 << 20  # limit of each file
    folder_bytes: int = 256 << 20  # limit of the sum of all files in the scratch folder
    open_files: int = 256  # limit of file descriptors; a pipe buffers up to a megabyte
    cpu_s: int = -1  # unlimited: the time-outs of the parent count wall time


@dataclass(frozen=True)
class WorkerSpec:
    """The parameters with which a worker starts its fork server."""

    cores: frozenset[int]
    importing: frozenset[int] = frozenset()  # cores used during the imports; empty: `cores`
    preload: tuple[str, ...] = ()  # modules
    warm: tuple[str, ...] = ()  # "module:function", called with the black box before any fork
    env: tuple[tuple[str, str], ...] = ()
    limits: ResourceLimits = ResourceLimits()
    folder: str = "/"  # scratch folder: working directory, TMPDIR, the only writable folder
    reads: tuple[str, ...] = ()  # folders that a child may read as well
    early: str = ""  # a folder that a child may write until its first candidate
    seeds: str = ""  # a folder whose files are copied into the scratch folder of each child
    sandbox: Mode = "auto"
    programs: bool = False  # whether a child may start other programs: the linker
    devices: tuple[str, ...] = ()  # nodes of GPUs that a child may use (`sandbox.devices`)
    binds: bool = False  # whether a child may choose cores: an OpenMP runtime binds its threads
