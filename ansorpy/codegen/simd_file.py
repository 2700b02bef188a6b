"""The text of `simd.py`, which lies beside every delivered `kernel.py`: the SIMD compiler."""

import ast
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from ansorpy.codegen import simd
from ansorpy.loopir import hints

RULE: Final = "-" * 30
MARKS: Final = re.compile(r"  # (type: ignore|noqa|fmt:).*")  # comments for our own tools
FILE: Final = "simd.py"
DOC: Final = """The SIMD compiler of kernel.py; the same in every zip of one version of ansorpy.

`tile` makes an intrinsic of numba from one line of text; section `parser` describes the text."""


@lru_cache(maxsize=1)
def simd_text() -> str:
    """Return the SIMD compiler as one file, which is all that the source of a kernel needs."""
    return joined(DOC, simd_paths())


def simd_paths() -> list[Path]:
    """Return the files of the SIMD compiler in the order of their definitions."""
    folder = Path(simd.__file__).parent
    return [Path(hints.__file__), *(folder / f"{name}.py" for name in simd.MODULES)]


@lru_cache(maxsize=1)
def simd_version() -> str:
    """Return a short digest of the SIMD compiler, by which a kernel names its compiler."""
    return sha256(simd_text().encode()).hexdigest()[:16]


def joined(doc: str, paths: Sequence[Path]) -> str:
    """Return modules as one file: its docstring, their imports once, then their definitions."""
    imports: dict[str, set[str]] = {}
    bodies = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        about, *statements = ast.parse(text).body
        heads = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in heads:
            _add_names(imports, node)
        lines = text.splitlines()
        comment = "\n".join(f"# {line}".rstrip() for line in _text_of(about).splitlines())
        first = (heads[-1].end_lineno or 0) if heads else (about.end_lineno or 0)
        code = MARKS.sub("", "\n".join(lines[first:]).strip("\n"))
        bodies.append(f"# {RULE} {path.stem}\n{comment}\n\n{code}")
    plain = sorted(f"import {name}" for name in imports.pop("", set()))
    named = [f"from {name} import {', '.join(sorted(imports[name]))}" for name in sorted(imports)]
    head = f'"""{doc}\n"""\n\n' + "\n".join([*plain, *named])
    return "\n\n\n".join([head, *bodies]) + "\n"


def _add_names(imports: dict[str, set[str]], node: ast.Import | ast.ImportFrom) -> None:
    """Note the names of an import by module; our own modules stand in the text itself."""
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    if not module.startswith("ansorpy"):
        imports.setdefault(module, set()).update(ast.unparse(name) for name in node.names)


def _text_of(doc: ast.stmt) -> str:
    assert isinstance(doc, ast.Expr)
    assert isinstance(doc.value, ast.Constant)
    return str(doc.value.value)
