"""`ansorpy.load("sha256:...")`: exactly that kernel, or none."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

from platformdirs import user_cache_path

from ansorpy.artifact.load import LoadedKernel, check_machine, load_package
from ansorpy.artifact.package import DIGEST_PREFIX, parse_digest, read_bytes, unbox
from ansorpy.client.connection import place_of
from ansorpy.client.service import Client

SUFFIX: Final = ".zip"


class Source(Protocol):
    """Where packages come from: a `Client`, or anything like it."""

    def package(self, digest: str) -> bytes:
        """Return the package of a digest."""
        ...


class KernelCache:
    """Packages in a folder, each under its digest; what is read from it is checked anew."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = user_cache_path("ansorpy") / "kernels" if folder is None else folder

    def path(self, digest: str) -> Path:
        """Return where the package of a digest lies, or would."""
        return self.folder / f"{digest}{SUFFIX}"

    def get(self, digest: str) -> bytes | None:
        """Return a package; None where it is not there.

        Raises:
            PackageError: the file is not what its name says.
        """
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        unbox(data, str(path), digest)
        return data

    def put(self, data: bytes, digest: str) -> Path:
        """Keep a package; PackageError where it is not that of the digest."""
        unbox(data, digest[:12], digest)
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
    source: Source | None = None,
) -> LoadedKernel:
    """Return a kernel that can be called with NumPy arrays or those of any DLPack library.

    This runs the code of the package. A digest says which code: it comes from the cache, else from
    the service, and is refused unless every byte is right. A path says only where it lies.

    Args:
        what: `sha256:` and 64 hex digits, or the path of a package.
        url, key: the service; ANSORPY_URL and ANSORPY_API_KEY unless given.
        cache: where packages are kept; the user's cache folder unless given.
        source: asked in place of the service.

    Raises:
        PackageError: a byte is wrong, or this machine lacks what the kernel was made for.
        ServiceError: the package is not in the cache and the service does not give it.
    """
    if isinstance(what, Path) or not what.startswith(DIGEST_PREFIX):
        path = Path(what)
        return load_package(read_bytes(path), path.name)
    digest = parse_digest(what)
    kept = KernelCache() if cache is None else cache
    data = kept.get(digest)
    if data is None:
        data = _fetch(digest, url, key, source)
        check_machine(unbox(data, what[:19], digest), what[:19])
        kept.put(data, digest)
    return load_package(data, what[:19], digest)


def _fetch(digest: str, url: str | None, key: str | None, source: Source | None) -> bytes:
    if source is not None:
        return source.package(digest)
    place = place_of(url, key)
    with Client(place.url, place.key) as client:
        return client.package(digest)
