"""Archives of arrays by name, as `numpy.savez` writes them; names are data, never arguments."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

STAMP: Final = (1980, 1, 1, 0, 0, 0)  # no time of day: equal arrays give equal archives
SUFFIX: Final = ".npy"
MOST_BYTES: Final = (1 << 16) - 1 - len(SUFFIX)  # bytes of a name that a zip has room for

Arrays = Mapping[str, np.ndarray[Any, Any]]


def npz(arrays: Arrays) -> bytes:
    """Return a compressed archive."""
    buffer = io.BytesIO()
    _write(buffer, arrays, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def write_npz(path: Path, arrays: Arrays) -> None:
    """Write an archive without compression.

    Raises:
        OSError: the file cannot be written.
        ValueError: a zip cannot hold a name.
    """
    for name in arrays:
        if "\0" in name or len(name.encode()) > MOST_BYTES:
            raise ValueError(f"name {name[:80]!r} has a zero or more than {MOST_BYTES} bytes")
    with path.open("wb") as file:
        _write(file, arrays, zipfile.ZIP_STORED)


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an archive by name: `numpy.load` takes "x.npy" for "x".

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no archive of arrays of numbers.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                with archive.open(info) as entry:
                    array = np.lib.format.read_array(entry, allow_pickle=False)
                arrays[info.filename.removesuffix(SUFFIX)] = array
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(str(error)) from error
    return arrays


def _write(file: Any, arrays: Arrays, how: int) -> None:
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}{SUFFIX}", STAMP)
            info.compress_type = how
            info.file_size = array.nbytes  # decides if sizes have 64 bits
            with archive.open(info, "w") as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
