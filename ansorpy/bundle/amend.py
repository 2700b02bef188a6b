"""Further facts in the manifest of a bundle that is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansorpy.artifact.stored_zip import write_zip
from ansorpy.bundle.format import BUNDLE
from ansorpy.bundle.weightless import opened_bundle


def amend(bundle: Path, facts: Mapping[str, Any]) -> None:
    """Replace a bundle by one with further fields in its manifest, all other files as they are.

    Raises:
        PackageError: a bit of it is not as it was packed.
    """
    told, files = opened_bundle(bundle)
    content = {name: [part] for name, part in files.items()}
    write_zip(bundle, content, {**told, **facts}, BUNDLE)
