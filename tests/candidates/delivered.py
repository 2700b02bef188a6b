"""LLVM text of the stored candidates through the text of their delivered files.

    python -m tests.candidates.delivered                  all candidates (exit code 1: a difference)
    python -m tests.candidates.delivered --only softmax

Every tile is printed as `kernel.py` prints it, read back by the parser of the delivered `simd.py`
and compiled by the compiler of that file; the text must equal the text of the search's path, in
which a tile stays a structure.
"""

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from ansorpy.artifact.kernel_file import helpers_text
from ansorpy.codegen import phase_writer
from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.structured_tile import structured
from ansorpy.codegen.symbols import SymbolTable
from ansorpy.codegen.tile_printer import definition
from ansorpy.loopir.nodes import Tile
from tests.candidates.digests import texts_of
from tests.candidates.stored import OPERATORS, candidates


@cache
def delivered_module() -> ModuleType:
    """Return the module of the `simd.py` that lies beside every delivered kernel."""
    with tempfile.TemporaryDirectory(prefix="ansorpy-test-") as folder:
        path = Path(folder) / "simd.py"
        path.write_text(helpers_text(), encoding="utf-8")
        spec = importlib.util.spec_from_file_location("delivered_simd", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@contextmanager
def through_text() -> Iterator[list[str]]:
    """Compile every tile through its text; yield the list of the texts, which grows."""
    simd, printed = delivered_module(), list[str]()

    def parsed(tile: Tile, table: SymbolTable) -> Any:
        printed.append(definition("made", structured(tile, table)))
        scope: dict[str, Any] = {"tile": simd.parse}
        exec(printed[-1], scope)  # our own text
        return scope["made"]

    def compiler(tile: Any, *given: Any) -> Any:
        return (simd.Expansion if isinstance(tile, simd.SimdTile) else Expansion)(tile, *given)

    with (
        patch.object(phase_writer, "structured", parsed),
        patch.object(phase_writer, "Expansion", compiler),
    ):
        yield printed


def differences(name: str, numbers: Sequence[int]) -> list[int]:
    """Return the candidates of an operator whose text differs between the two paths."""
    found = []
    for number in numbers:
        direct = texts_of(name, number)
        with through_text() as printed:
            again = texts_of(name, number)
        assert printed, f"{name} {number} has no tile"
        if again != direct:
            found.append(number)
    return found


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=list(OPERATORS), choices=list(OPERATORS))
    total = changed = 0
    for name in parser.parse_args().only:
        count = len(list(candidates(name)))
        different = differences(name, range(count))
        total, changed = total + count, changed + len(different)
        for number in different:
            sys.stdout.write(f"{name} {number}: the delivered file gives another text\n")
    sys.stdout.write(f"{total} candidates, {changed} differ\n")
    return bool(changed)


if __name__ == "__main__":
    raise SystemExit(main())
