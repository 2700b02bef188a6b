"""Load a checked package as a callable kernel."""

import importlib.util
import os
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ansorpy.artifact import manifest
from ansorpy.artifact.arrays import importer_of, in_order, to_arrays
from ansorpy.artifact.elf import check_library
from ansorpy.artifact.folder import new_folder, remove
from ansorpy.artifact.needs import lacking
from ansorpy.artifact.package import (
    DIGEST_PREFIX,
    LIBRARY,
    MANIFEST,
    Package,
    read_bytes,
    repacked,
    unbox,
)
from ansorpy.errors import PackageError
from ansorpy.units import duration

NATIVE: Final = "native.py"  # calls the exported library
DRIVER: Final = "driver.py"  # launches kernels for a GPU
DIGITS: Final = 12  # hex digits of a digest in the repr of a kernel
UNPICKLED: Final = 16  # kernels that a process keeps: a worker gets one of them with every call


class LoadedKernel:
    """A kernel of this process.

    Calling it takes arrays of NumPy or of any library that speaks DLPack, and returns the same
    kind. `run` and `prepare` are the file's own: NumPy only, and `prepare` once, then its result
    many times, is the fastest way. `file` is the imported file: `driver.py` of kernels for a GPU,
    `kernel.py`, or `native.py` for the exported library; unless given, the first of them that is
    there. Kernels for a GPU take arrays of the device as well (see `DeviceRunner.run`).
    A pickle of a kernel holds its digest, and the path of its file; its package if it has no file.
    A copy of a kernel is the kernel itself.

    Raises:
        PackageError: the manifest or the library is damaged, or the file cannot be imported here.
    """

    def __init__(self, package: Package, file: str | None = None, path: Path | None = None) -> None:
        names = (DRIVER, "kernel.py", NATIVE)
        file = file or next((name for name in names if name in package.files), NATIVE)
        self._on_gpu = DRIVER in package.files
        fields = manifest.GPU if self._on_gpu else manifest.KERNEL
        manifest.check_fields(package.manifest, fields, package.place)
        if package.manifest.get("timed"):
            manifest.check_fields(package.manifest, manifest.TIMED, package.place)
        if file == NATIVE:
            check_native(package)
        self.digest, self._file = package.digest, file
        self._path = None if path is None else path.absolute()
        self.manifest: Mapping[str, Any] = package.manifest
        self._tensors = [(tensor["name"], tensor["dtype"]) for tensor in self.manifest["inputs"]]
        self._names = [name for name, _ in self._tensors]
        module = _imported(package, file)
        self._folder = Path(str(module.__file__)).parent
        self.run: Callable[..., Any] = module.run
        self.prepare: Callable[..., Callable[[], Any]] = module.prepare
        self.selftest: Callable[[], list[str]] = module.RUNNER.selftest

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Return the output array, or a tuple where there are several.

        Args:
            inputs: arrays in order, or one mapping of names to arrays.
            out: NumPy array (or tuple of arrays) to write to and return; new ones unless given.
                Beside arrays by keyword it is the input of this name, if there is one.
            named: arrays by name of the input.

        Raises:
            TypeError: a missing or unknown input, another dtype, or memory that cannot be read.
            ValueError: another shape; `out` is read-only or overlaps an input.
        """
        if out is not None and not inputs and "out" in self._names:
            out, named = None, {**named, "out": out}
        given = in_order(self.manifest["name"], self._names, inputs, named)
        out = tuple(out) if isinstance(out, list) else out
        if self._on_gpu:
            return self.run(*given, out=out)
        result = self.run(*to_arrays(self._tensors, given), out=out)
        if out is not None:
            return result
        imported = importer_of(given)
        return tuple(map(imported, result)) if isinstance(result, tuple) else imported(result)

    def as_torch_op(self) -> Callable[..., Any]:
        """Return the kernel as an operator of PyTorch, usable in `torch.compile(fullgraph=True)`.

        The operator takes and returns strided CPU tensors of the shapes and dtypes of the
        manifest, of each size of its dims; torch may trace it with symbolic sizes. Contiguous ones
        are not copied. torch knows it by a name that follows from the digest of the package; equal
        packages give one operator. It has no gradient: `backward` raises RuntimeError. Calls raise
        TypeError and ValueError, as calls of the kernel do.

        Raises:
            PackageError: torch is not installed.
        """
        from ansorpy.artifact.torch_op import torch_op

        return torch_op(self, f"ansorpy::{self._file.removesuffix('.py')}_{self.digest}")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes | str, str, str]]:
        """Pickle the path of the file; the bytes of the package if it came from no file."""
        source = repacked(self._folder) if self._path is None else str(self._path)
        return _unpickled, (source, self.digest, self._file)

    def __copy__(self) -> "LoadedKernel":
        """Return the kernel itself: it has no state that a call changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "LoadedKernel":
        """Return the kernel itself, as `copy.copy` does."""
        return self

    def __repr__(self) -> str:
        given, results = (
            ", ".join(f"{t['name']}: {t['dtype']}[{', '.join(_extents(t))}]" for t in tensors)
            for tensors in (self.manifest["inputs"], self.manifest["outputs"])
        )
        timed = not self._on_gpu or self.manifest["timed"]
        facts = (
            f"{results}{' for a GPU' if self._on_gpu else ''}",
            duration(self.manifest["latency_s"]["min"]) if timed else "not timed",
            f"{DIGEST_PREFIX}{self.digest[:DIGITS]}",
        )
        return f"<kernel {self.manifest['name']}({given}) -> {', '.join(facts)}>"


def _extents(tensor: Mapping[str, Any]) -> list[str]:
    """Return the extents of an entry of a manifest as text, dims by their names."""
    names = tensor.get("dims") or [""] * len(tensor["shape"])
    return [name or str(size) for name, size in zip(names, tensor["shape"], strict=True)]


@lru_cache(UNPICKLED)
def _unpickled(source: bytes | str, digest: str, file: str) -> LoadedKernel:
    """Import the kernel of a pickle, once; raise the errors of `load_package`.

    Args:
        source: its package, or the path of its file.
    """
    place, data, path = f"pickled kernel {digest[:12]}", source, None
    if isinstance(source, str):
        path = Path(source)
        if not path.exists():
            raise PackageError(
                f"cannot unpickle a kernel because {path} is gone; expected the file that it came"
                " from"
            )
        place, data = f"{place} ({path})", read_bytes(path)
    assert isinstance(data, bytes)
    package = unbox(data, place, digest)
    if file != NATIVE:  # the library checks the processor itself, without LLVM
        check_machine(package, package.place)
    return LoadedKernel(package, file, path)


def load_package(data: bytes, place: str, digest: str | None = None) -> LoadedKernel:
    """Import the kernel of a package. This runs its code: load only trusted packages.

    Args:
        place: the name of the package in messages.
        digest: sha256 of the package in hex; with it, exactly these bytes are loaded or none.

    Raises:
        PackageError: a byte is damaged, or this machine lacks features that the kernel needs.
    """
    package = unbox(data, place, digest)
    check_machine(package, place)
    return LoadedKernel(package)


def load(path: Path) -> LoadedKernel:
    """Import the kernel of a file, which its pickles name; see `load_package`."""
    package = _read(path)
    check_machine(package, package.place)
    return LoadedKernel(package, path=path)


def load_folder(folder: Path) -> LoadedKernel:
    """Import the kernel of a folder in which a package was unpacked; see `load_package`.

    Raises:
        PackageError: there is no kernel, or a file differs from the packed one.
    """
    if not (folder / MANIFEST).is_file():
        raise PackageError(
            f"cannot load {folder} because it has no {MANIFEST}; expected the folder of an unpacked"
            " kernel, its zip, or the bundle of a model"
        )
    return load_package(repacked(folder), folder.name)


def check_machine(package: Package, place: str, present: tuple[str, ...] | None = None) -> None:
    """Refuse a kernel made for features that this machine lacks.

    Args:
        present: LLVM feature names; this machine's unless given.

    Raises:
        PackageError: names the missing features.
    """
    manifest.check_fields(package.manifest, manifest.MACHINE, place)
    needed: tuple[str, ...] = tuple(package.manifest["target"]["needs"])
    if present is None:
        from ansorpy.measure.host import local_host  # loads LLVM, which `load_native` does without

        present = local_host().features
    missing = lacking(needed, present)
    if missing:
        raise PackageError(
            f"{place}: made for a processor with {', '.join(missing)}, which this one lacks;"
            " tune it here"
        )


def load_native(path: PathLike[str] | str) -> LoadedKernel:
    """Open the exported library of a file, without numba. Load only trusted files.

    Raises:
        PackageError: a byte is not as it was packed, there is no library, or this processor lacks
            a feature that its code needs; says why.
    """
    return LoadedKernel(_read(Path(path)), NATIVE, Path(path))


def check_native(package: Package) -> None:
    """Raise PackageError unless a package has a whole library, and a manifest that describes it."""
    told = package.manifest.get("native")
    note = told.get("note") if isinstance(told, Mapping) else "made by an older version"
    if LIBRARY not in package.files or NATIVE not in package.files:
        raise PackageError(f"{package.place}: no library: {note}")
    manifest.check_fields(package.manifest, manifest.LIBRARY, package.place)
    check_library(package.files[LIBRARY], f"{package.place}: {LIBRARY}")


def unpack(path: Path, folder: Path) -> Mapping[str, Any]:
    """Write the checked files of a package into `folder` and return its manifest.

    Raises:
        PackageError: a byte is not as it was packed.
    """
    package = _read(path)
    for name, data in package.files.items():
        (folder / name).write_bytes(data)
    return package.manifest


def _read(path: Path) -> Package:
    return unbox(read_bytes(path), path.name)


def _imported(package: Package, file: str) -> ModuleType:
    """Return the module of a file of the package; its folder lasts as long as its RUNNER."""
    folder = new_folder()
    name = f"ansorpy_{file.removesuffix('.py')}_{package.digest[:16]}"
    try:
        for other, data in package.files.items():
            (folder / other).write_bytes(data)
        spec = importlib.util.spec_from_file_location(name, folder / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        # Every function of the module holds RUNNER; numba writes beside the file at a first call.
        weakref.finalize(module.RUNNER, remove, folder, os.getpid())
    except Exception as error:  # the file is code of the package: it may raise anything
        remove(folder, os.getpid())
        raise PackageError(f"cannot load {package.place}: {file}: {error}") from error
    return module
