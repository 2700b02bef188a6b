"""The virtual environments of the peers: made once, found by name, each optional.

python -m benchmarks.suite.environments [--peers .peers] [NAME ...]
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ansorpy.measure.workers.pool import THREAD_COUNTS
from benchmarks.common import say
from benchmarks.suite.contestants import BASE, HALIDE, OWN, TVM, Contestant

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDER: Final = ROOT / ".peers"
NAMES: Final = (BASE, TVM, HALIDE)
COUNTS: Final = (*THREAD_COUNTS, "TVM_NUM_THREADS", "HL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def pythons(folder: Path, given: Sequence[str] = ()) -> dict[str, Path]:
    """Return the interpreter of every existing environment; `given` holds NAME=FOLDER.

    Raises:
        SystemExit: a given environment has no interpreter, or its name is unknown.
    """
    found = {OWN: Path(sys.executable)}
    for name in NAMES:
        if (folder / name / "bin" / "python").exists():
            found[name] = folder / name / "bin" / "python"
    for one in given:
        name, _, path = one.partition("=")
        python = Path(path) / "bin" / "python"
        if name not in NAMES or not python.exists():
            raise SystemExit(f"--env {one}: want NAME=FOLDER, NAME of {NAMES}, with bin/python")
        found[name] = python
    return found


def settings_of(who: Contestant, threads: int) -> Mapping[str, str]:
    """Return the environment variables of a contestant's process."""
    path = [str(ROOT)]
    if who.environment == TVM:
        path.insert(0, str(HERE / "peers" / "tvm_site"))
    many = "true" if threads > 1 else "false"
    own = {name: text.format(threads=threads, many=many) for name, text in who.settings.items()}
    counts = dict.fromkeys(COUNTS, str(threads))
    return {**os.environ, **counts, "PYTHONPATH": os.pathsep.join(path), **own}


def make(name: str, folder: Path) -> bool:
    """Make an environment if it does not exist; return whether it is usable."""
    place = folder / name
    wanted = HERE / "requirements" / f"{name}.txt"
    stamp = place / "requirements.ok"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return True
    commands = (
        [sys.executable, "-m", "venv", str(place)],
        [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(wanted)],
    )
    say(f"{name}: installing into {place}")
    for command in commands:
        if subprocess.run(command, check=False).returncode != 0:
            say(f"{name}: failed: {' '.join(command)}")
            return False
    stamp.write_text(wanted.read_text())
    return True


def main() -> None:
    """Make the missing environments; contests leave out a peer that cannot be installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--peers", type=Path, default=FOLDER, help="folder of the environments")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        raise SystemExit(f"no {', '.join(unknown)}: there are {', '.join(NAMES)}")
    made = {name: make(name, args.peers) for name in args.names or NAMES}
    print("; ".join(f"{name}: {'ready' if good else 'left out'}" for name, good in made.items()))


if __name__ == "__main__":
    main()
