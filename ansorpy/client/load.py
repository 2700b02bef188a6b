"""`ansorpy.load`: the kernel or the model of a file; with a digest exactly that kernel, or none."""

import os
from os import PathLike
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Protocol

from platformdirs import user_cache_path

from ansorpy.artifact.load import LoadedKernel, check_machine, load_folder
from ansorpy.artifact.load import load as load_kernel
from ansorpy.artifact.package import DIGEST_PREFIX, Package, parse_digest, unbox
from ansorpy.bundle.format import is_bundle
from ansorpy.client.connection import address_of
from ansorpy.client.service import Client
from ansorpy.errors import PackageError

SUFFIX: Final = ".zip"


class PackageSource(Protocol):
    """A source of packages: a `Client`, or an object with the same method."""

    def package(self, digest: str) -> bytes:
        """Return the package of a digest."""
        ...


class KernelCache:
    """Packages in a folder, each under its digest; every read checks the digest again."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = user_cache_path("ansorpy") / "kernels" if folder is None else folder

    def path(self, digest: str) -> Path:
        """Return the path of the package of a digest, which need not exist."""
        return self.folder / f"{digest}{SUFFIX}"

    def get(self, digest: str) -> Package | None:
        """Return a checked package; None if it is not in the cache.

        Raises:
            PackageError: the file has another digest than its name.
        """
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        return unbox(data, str(path), digest)

    def put(self, data: bytes, digest: str) -> Path:
        """Keep a package that `unbox` has checked for this digest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self.folder, delete=False) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return Path(file.name).replace(self.path(digest))


def load(
    what: str | PathLike[str],
    threads: int | None = None,
    *,
    verify: bool = True,
    url: str | None = None,
    key: str | None = None,
    cache: KernelCache | None = None,
    source: PackageSource | None = None,
) -> Any:
    """Return a `LoadedKernel` or a `LoadedModel`, called with arrays of NumPy or of DLPack.

    The call runs the code of the file. With a digest, a kernel comes from the cache or from the
    service, and is refused unless every byte is right. With a path, the file is trusted.

    Args:
        what: the path of the zip of a kernel, of the folder where it was unpacked, or of the
            bundle of a model; or `sha256:` and 64 hex digits of a kernel.
        threads: of a model, with the caller's; as tuned unless given, and at most as many.
        verify: whether to check the digest of the weights of a model.
        url: the service; ANSORPY_URL unless given.
        key: its key; ANSORPY_API_KEY unless given.
        cache: the cache of packages; in the user's cache folder unless given.
        source: another source of packages, in place of the service.

    Raises:
        PackageError: a byte is wrong, this machine lacks features that the code needs, or it is
            neither a kernel nor a bundle.
        ServiceError: the package is neither in the cache nor at the service.
    """
    if not isinstance(what, str) or not what.startswith(DIGEST_PREFIX):
        path = Path(what)
        if path.is_file() and is_bundle(path):
            from ansorpy.bundle.load import load_model

            return load_model(path, threads, verify=verify)
        _check_threads(path.name, threads)
        return load_folder(path) if path.is_dir() else load_kernel(path)
    _check_threads(what[:19], threads)
    digest = parse_digest(what)
    kept = KernelCache() if cache is None else cache
    package = kept.get(digest)
    if package is not None:
        check_machine(package, package.place)
        return LoadedKernel(package)
    data = _fetch(digest, url, key, source)
    package = unbox(data, what[:19], digest)
    check_machine(package, package.place)
    kept.put(data, digest)
    return LoadedKernel(package)


def _check_threads(place: str, threads: int | None) -> None:
    """Raise PackageError if threads are asked for that a kernel cannot have."""
    if threads is not None:
        raise PackageError(
            f"cannot load {place} with threads={threads} because a kernel has those of its tuning;"
            " expected the bundle of a model, or a call without threads"
        )


def _fetch(digest: str, url: str | None, key: str | None, source: PackageSource | None) -> bytes:
    """Return bytes that are not checked yet."""
    if source is not None:
        return source.package(digest)
    place = address_of(url, key)
    with Client(place.url, place.key) as client:
        return client.package(digest)
