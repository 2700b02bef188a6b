"""Database row of a kernel zip."""

import zipfile
from hashlib import sha256
from pathlib import Path

from ansorpy.server.db.models import PackageRow


def package_of(path: Path, now_s: float) -> PackageRow:
    """Return the row of the zip at `path`."""
    content = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        manifest = file.read("manifest.json").decode()
    return PackageRow(
        sha256=sha256(content).hexdigest(), size_bytes=len(content), content=content,
        manifest=manifest, created_s=now_s,
    )  # fmt: skip
