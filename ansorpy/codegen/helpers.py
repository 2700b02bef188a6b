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
    imports: dict[str, set[str]] = {}
    bodies = []
    folder = Path(simd.__file__).parent
    for name in simd.MODULES:
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        doc, *statements = ast.parse(text).body
        heads = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in heads:
            _add_names(imports, node)
        lines = text.splitlines()
        comment = "\n".join(f"# {line}".rstrip() for line in _text_of(doc).splitlines())
        first = (heads[-1].end_lineno or 0) if heads else (doc.end_lineno or 0)
        code = MARKS.sub("", "\n".join(lines[first:]).strip("\n"))
        bodies.append(f"# {RULE} {name}\n{comment}\n\n{code}")
    plain = sorted(f"import {name}" for name in imports.pop("", set()))
    named = [f"from {name} import {', '.join(sorted(imports[name]))}" for name in sorted(imports)]
    return "\n\n\n".join(["\n".join([*plain, *named]), *bodies])


def _add_names(imports: dict[str, set[str]], node: ast.Import | ast.ImportFrom) -> None:
    """Note what an import brings in, by module; our own modules stand in the block itself."""
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    if not module.startswith("ansorpy"):
        imports.setdefault(module, set()).update(ast.unparse(name) for name in node.names)


def _text_of(doc: ast.stmt) -> str:
    assert isinstance(doc, ast.Expr)
    assert isinstance(doc.value, ast.Constant)
    return str(doc.value.value)
