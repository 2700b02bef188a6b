"""The environment of measuring processes: an allow-list, since settings may be secrets."""

from collections.abc import Mapping
from typing import Final

NAMES: Final = frozenset({
    "PATH", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "TZ",  # programs and how they write
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",  # the choice of a GPU
    "GOMP_SPINCOUNT", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES",
})  # fmt: skip
PREFIXES: Final = ("LC_", "OMP_", "KMP_", "OPENBLAS_", "MKL_", "BLIS_", "NUMBA_")


def harmless(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a compiler, a linker or a thread runtime needs."""
    return {
        name: value for name, value in environ.items() if name in NAMES or name.startswith(PREFIXES)
    }
