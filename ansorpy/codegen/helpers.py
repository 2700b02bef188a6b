"""The block of SIMD helpers that every kernel file carries."""

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from ansorpy.codegen import simd

RULE: Final = "-" * 30
MARKS: Final = re.compile(r"  # (type: ignore|noqa|fmt:).*")  # for our own tools only


@lru_cache(maxsize=1)
def simd_block() -> str:
    """Return the modules of `simd` joined: their imports once, then what they define."""
    imports: set[str] = set()
    bodies = []
    folder = Path(simd.__file__).parent
    for name in simd.MODULES:
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        doc, *statements = ast.parse(text).body
        heads = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
        imports |= {ast.unparse(node) for node in heads if not _is_own(node)}
        lines = text.splitlines()
        comment = "\n".join(f"# {line}".rstrip() for line in _text_of(doc).splitlines())
        first = (heads[-1].end_lineno or 0) if heads else (doc.end_lineno or 0)
        code = MARKS.sub("", "\n".join(lines[first:]).strip("\n"))
        bodies.append(f"# {RULE} {name}\n{comment}\n\n{code}")
    return "\n\n\n".join(["\n".join(sorted(imports)), *bodies])


def _is_own(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ansorpy")


def _text_of(doc: ast.stmt) -> str:
    assert isinstance(doc, ast.Expr)
    assert isinstance(doc.value, ast.Constant)
    return str(doc.value.value)
