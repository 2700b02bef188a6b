"""`ansorpy.load("sha256:...")`: exactly that kernel, or none."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

from platformdirs import user_cache_path

from ansorpy.artifact.load import LoadedKernel, check_machine, load_package
from ansorpy.artifact.package import DIGEST_PREFIX, Package, parse_digest, read_bytes, unbox
from ansorpy.client.connection import address_of
from ansorpy.client.service import Client

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
    what: str | Path,
    *,
    url: str | None = None,
    key: str | None = None,
    cache: KernelCache | None = None,
    source: PackageSource | None = None,
) -> LoadedKernel:
    """Return a kernel that can be called with NumPy arrays or those of any DLPack library.

    The call runs the code of the package. With a digest, the package comes from the cache or from
    the service, and is refused unless every byte is right. With a path, it is trusted.

    Args:
        what: `sha256:` and 64 hex digits, or the path of a package.
        url, key: the service; ANSORPY_URL and ANSORPY_API_KEY unless given.
        cache: the cache of packages; in the user's cache folder unless given.
        source: another source of packages, in place of the service.

    Raises:
        PackageError: a byte is wrong, or this machine lacks features that the kernel needs.
        ServiceError: the package is neither in the cache nor at the service.
    """
    if isinstance(what, Path) or not what.startswith(DIGEST_PREFIX):
        path = Path(what)
        return load_package(read_bytes(path), path.name)
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


def _fetch(digest: str, url: str | None, key: str | None, source: PackageSource | None) -> bytes:
    """Return bytes that are not checked yet."""
    if source is not None:
        return source.package(digest)
    place = address_of(url, key)
    with Client(place.url, place.key) as client:
        return client.package(digest)
