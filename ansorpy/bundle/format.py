"""Names of the files of a bundle, in order, and the version of its manifest."""

import zipfile
from pathlib import Path
from typing import Final

from ansorpy.artifact.stored_zip import ZipKind
from ansorpy.graph.aliases import ALIGN_BYTES

MANIFEST: Final = "model.json"
RUNNER: Final = "model.py"
HEADER: Final = "model.h"
LIBRARY: Final = "libmodel.so"
WEIGHTS: Final = "weights.safetensors"
SAMPLES: Final = "selftest.safetensors"
HOSTED: Final = "hosted.py"
GRAPH: Final = "graph.json"  # in bundles without weights only
NAMES: Final = (RUNNER, HOSTED, HEADER, LIBRARY, GRAPH, SAMPLES, MANIFEST, WEIGHTS)
BUNDLE: Final = ZipKind("bundle", NAMES, MANIFEST, format=1, align_bytes=ALIGN_BYTES)


def is_bundle(path: Path) -> bool:
    """Return True if a file is a zip with the manifest of a bundle; nothing else is checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False
