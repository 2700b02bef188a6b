"""A zip back to something that can be called, after its digests were checked."""

import importlib.util
import json
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ansorpy.errors import RecordError

NAMES: Final = ("kernel.py", "manifest.json", "constants.npz")
MAX_BYTES: Final = 1 << 30  # unpacked


class LoadedKernel:
    """A kernel of this process: call `run`, or `prepare` once and its result many times."""

    def __init__(self, path: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="ansorpy-kernel-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.manifest = unpack(path, folder)
        file = folder / "kernel.py"
        spec = importlib.util.spec_from_file_location(f"ansorpy_kernel_{path.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.run: Callable[..., Any] = module.run
        self.prepare: Callable[..., Callable[[], Any]] = module.prepare
        self.selftest: Callable[[], list[str]] = module.RUNNER.selftest

    def __call__(self, *inputs: Any) -> Any:
        """Return the output array, or a tuple where there are several."""
        return self.run(*inputs)


def load(path: Path) -> LoadedKernel:
    """Import the kernel of a zip. This runs its code: load only what you trust.

    Raises:
        RecordError: the zip is not one of ours, or a file is not what the manifest says.
    """
    return LoadedKernel(path)


def unpack(path: Path, folder: Path) -> Mapping[str, Any]:
    """Write the files of a zip into `folder` and return its manifest.

    Raises:
        RecordError: an unknown or oversized file, or a digest that does not match.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            wrong = [info.filename for info in infos if info.filename not in NAMES]
            if wrong:
                raise RecordError(f"{path.name}: unexpected file {wrong[0]!r}")
            if sum(info.file_size for info in infos) > MAX_BYTES:
                raise RecordError(f"{path.name}: more than {MAX_BYTES} bytes unpacked")
            content = {info.filename: archive.read(info) for info in infos}
        manifest = json.loads(content["manifest.json"])
        promised = {name: facts["sha256"] for name, facts in manifest["files"].items()}
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError) as error:
        raise RecordError(f"{path.name}: not a kernel zip: {error}") from error
    found = {
        name: sha256(data).hexdigest() for name, data in content.items() if name != "manifest.json"
    }
    if found != promised:
        raise RecordError(f"{path.name}: a file is not what its manifest says")
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return dict(manifest)
