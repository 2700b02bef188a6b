"""Further facts in the manifest of a bundle that is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansorpy.artifact.stored_zip import packed
from ansorpy.bundle.format import BUNDLE, MANIFEST
from ansorpy.bundle.weightless import kept, opened_bundle


def amend(bundle: Path, facts: Mapping[str, Any]) -> None:
    """Replace a bundle by one with further fields in its manifest, all other files as they are.

    Raises:
        PackageError: a bit of it is not as it was packed.
    """
    told, files = opened_bundle(bundle)
    content = {name: [part] for name, part in files.items() if name != MANIFEST}
    new = bundle.with_name(f"{bundle.stem}.new.zip")
    try:
        with new.open("wb") as file:
            file.writelines(packed(content, {**kept(told), **facts}, BUNDLE))
        new.replace(bundle)
    finally:
        new.unlink(missing_ok=True)
