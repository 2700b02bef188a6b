"""The folder of answers: bundles and kernels by the digest of their work."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ansorpy.artifact.load import load
from ansorpy.artifact.package import DIGEST_PREFIX
from ansorpy.bundle.format import is_bundle
from ansorpy.bundle.load import load_model
from ansorpy.errors import PackageError
from ansorpy.folders import data_dir
from ansorpy.tracing.work import TracedWork

INDEX: Final = "answer.json"
FIRST: Final = "first answer"
TUNED: Final = "tuned"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """A verified bundle of a work.

    Args:
        path: of the zip, whose name is the sha256 of its bytes.
        state: FIRST or TUNED.
        trials: candidates that were measured for it.
        gain: the time of the first answer over its own, in their race; 1 without one.
    """

    path: Path
    state: str
    trials: int
    gain: float = 1.0

    @property
    def digest(self) -> str:
        """The digest that `config` of `ansorpy.jit` takes."""
        return f"{DIGEST_PREFIX}{self.path.stem}"

    def open(self) -> Callable[..., Any]:
        """Return the loaded bundle or kernel.

        Raises:
            PackageError: it is damaged, or made for another machine.
        """
        if is_bundle(self.path):
            return load_model(self.path)
        return load(self.path)


def folder_of(work: TracedWork) -> Path:
    """Return the folder of the answers of a work, which need not exist."""
    return data_dir() / "jit" / work.digest


def known(folder: Path) -> KeptAnswer | None:
    """Return the answer that a folder names; None if there is none, or its file is gone."""
    try:
        facts = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        found = KeptAnswer(folder / facts.pop("path"), **facts)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if found.path.exists() else None


def kept(folder: Path, bundle: Path, state: str, trials: int, gain: float = 1.0) -> KeptAnswer:
    """Move a new bundle to a folder, and let the folder name it; return the answer."""
    with bundle.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    answer = KeptAnswer(folder / f"{digest}.zip", state, trials, gain)
    bundle.replace(answer.path)
    facts = {**asdict(answer), "path": answer.path.name}
    new = folder / f"{INDEX}.{os.getpid()}"
    new.write_text(json.dumps(facts), encoding="utf-8")
    new.replace(folder / INDEX)
    return answer


def compiled(
    work: TracedWork,
    folder: Path,
    trials: int,
    seconds: float | None,
    progress: bool | None = False,
) -> KeptAnswer:
    """Compile a work and keep the answer; `TracedWork.compile` tells the errors."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="new-") as place:
        made = work.compile(Path(place), trials, seconds, progress)
        return kept(folder, made, TUNED if trials else FIRST, trials)


def pinned(work: TracedWork, digest: str) -> KeptAnswer:
    """Return the answer of a digest.

    Raises:
        PackageError: it is no answer of this work on this machine, or its bytes changed.
    """
    path = folder_of(work) / f"{digest.removeprefix(DIGEST_PREFIX)}.zip"
    try:
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise PackageError(
            f"cannot use config={digest[:80]!r} because {data_dir() / 'jit'} has no such bundle of"
            " this function and signature; expected a digest of `.status()`, on the same machine"
        ) from error
    if found != path.stem:
        raise PackageError(
            f"cannot use config={digest[:80]!r} because its bytes have digest {found[:16]}...;"
            " expected the bundle as it was written"
        )
    return KeptAnswer(path, TUNED, 0)
