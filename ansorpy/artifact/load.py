"""A package back to something that can be called, after it was checked."""

import importlib.util
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansorpy.artifact.arrays import importer_of, to_numpy
from ansorpy.artifact.needs import lacking
from ansorpy.artifact.package import Package, unbox
from ansorpy.errors import PackageError


class LoadedKernel:
    """A kernel of this process.

    Calling it takes NumPy arrays or those of any library that speaks DLPack, and returns the same
    kind. `run` and `prepare` are those of the file: NumPy only, and `prepare` once, then its
    result many times, is the fastest way. `file` is what is imported: `kernel.py`, or `native.py`
    for the exported library; unless given, the first of the two that is there.
    """

    def __init__(self, package: Package, file: str | None = None) -> None:
        file = file or ("kernel.py" if "kernel.py" in package.files else "native.py")
        folder = Path(tempfile.mkdtemp(prefix="ansorpy-kernel-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for name, data in package.files.items():
            (folder / name).write_bytes(data)
        self.digest = package.digest
        self.manifest: Mapping[str, Any] = package.manifest
        name = f"ansorpy_{file.removesuffix('.py')}_{package.digest[:16]}"
        spec = importlib.util.spec_from_file_location(name, folder / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.run: Callable[..., Any] = module.run
        self.prepare: Callable[..., Callable[[], Any]] = module.prepare
        self.selftest: Callable[[], list[str]] = module.RUNNER.selftest

    def __call__(self, *inputs: Any) -> Any:
        """Return the output array, or a tuple where there are several.

        Raises:
            TypeError: another number of inputs, another dtype, or memory we cannot read.
            ValueError: another shape.
        """
        names = [tensor["name"] for tensor in self.manifest["inputs"]]
        labels = names if len(names) == len(inputs) else [f"input {i}" for i in range(len(inputs))]
        arrays = [to_numpy(a, label) for a, label in zip(inputs, labels, strict=True)]
        result = self.run(*arrays)
        imported = importer_of(inputs)
        return tuple(map(imported, result)) if isinstance(result, tuple) else imported(result)

    def __repr__(self) -> str:
        tensors = ", ".join(
            f"{t['name']}: {t['dtype']}{t['shape']}" for t in self.manifest["inputs"]
        )
        best_s = self.manifest["latency_s"]["min"]
        return f"<kernel {self.manifest['name']}({tensors}), {best_s * 1e6:.1f} us>"


def load_package(data: bytes, place: str, digest: str | None = None) -> LoadedKernel:
    """Import the kernel of a package. This runs its code: load only what you trust.

    Args:
        place: what messages call it.
        digest: sha256 of the package in hex; with it, exactly these bytes are loaded or none.

    Raises:
        PackageError: a byte is not as it was packed, or this machine lacks what it was made for.
    """
    package = unbox(data, place, digest)
    check_machine(package, place)
    return LoadedKernel(package)


def load(path: Path) -> LoadedKernel:
    """Import the kernel of a file; see `load_package`."""
    return load_package(path.read_bytes(), path.name)


def check_machine(package: Package, place: str, present: tuple[str, ...] | None = None) -> None:
    """Refuse a kernel made for features that this machine lacks.

    Args:
        present: LLVM feature names; those of this machine unless given.

    Raises:
        PackageError: names what is lacking.
    """
    try:
        needed = tuple(map(str, package.manifest["target"]["needs"]))
    except (KeyError, TypeError) as error:
        raise PackageError(f"{place}: its manifest does not say what it needs") from error
    if present is None:
        from ansorpy.measure.host import local_host  # loads LLVM, which `load_native` does without

        present = local_host().features
    missing = lacking(needed, present)
    if missing:
        raise PackageError(
            f"{place}: made for a processor with {', '.join(missing)}, which this one lacks;"
            " tune it here"
        )


def load_native(path: Path | str) -> LoadedKernel:
    """Open the exported library of a file, without numba. Load only what you trust.

    Raises:
        PackageError: a byte is not as it was packed, or there is no library; says why.
        RuntimeError: this processor lacks a feature that the code needs.
    """
    path = Path(path)
    package = unbox(path.read_bytes(), path.name)
    if "native.py" not in package.files:
        note = package.manifest.get("native", {}).get("note", "made by an older version")
        raise PackageError(f"{path.name}: no library: {note}")
    return LoadedKernel(package, "native.py")


def unpack(path: Path, folder: Path) -> Mapping[str, Any]:
    """Write the checked files of a package into `folder` and return its manifest.

    Raises:
        PackageError: a byte is not as it was packed.
    """
    package = unbox(path.read_bytes(), path.name)
    for name, data in package.files.items():
        (folder / name).write_bytes(data)
    return package.manifest
