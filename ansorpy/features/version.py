"""The version of the features: a digest of the code that computes them."""

from functools import cache
from hashlib import sha256
from pathlib import Path

from ansorpy.features.extract import NAMES

_KEEP = 16  # characters of the digest, 64 bits


@cache
def version() -> str:
    """Return the digest of the names of the features and of the code that computes them."""
    digest = sha256("\n".join(NAMES).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_KEEP]
