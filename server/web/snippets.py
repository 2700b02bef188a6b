"""Code to load and call a delivered kernel or bundle."""

import ast
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, Final

HELPERS: Final = ("beside", "simd")  # names of a kernel.py that are no loops
NUMBERS: Final = 24  # characters of an extent or a type at most, in a comment


def call_of(manifest: Mapping[str, Any], file: str) -> str:
    """Return Python that loads a package and calls it.

    Args:
        manifest: of the package.
        file: name of the downloaded zip.
    """
    inputs = [one for one in manifest["inputs"] if not one.get("constant")]
    outputs = manifest["outputs"]
    given = _names(inputs, "x")
    lines = [f"{name}: {_shape(one)}" for name, one in zip(given, inputs, strict=True)]
    results = _names(outputs, "y")
    told = [f"{name}: {_shape(one)}" for name, one in zip(results, outputs, strict=True)]
    return "\n".join(
        (
            "import ansorpy",
            "",
            f'kernel = ansorpy.load("{file}")',
            f"# {'; '.join(lines)}",
            f"# -> {'; '.join(told)}",
            f"{', '.join(results)} = kernel({', '.join(given)})",
        )
    )


def bundle_calls(file: str) -> Mapping[str, str]:
    """Return code that loads and runs a bundle, by language.

    Args:
        file: name of the downloaded zip.
    """
    python = (
        "import ansorpy",
        "",
        f'with ansorpy.load("{file}") as model:',
        "    print(model.inputs, model.outputs)  # names, dtypes and shapes",
        "    result = model(x)  # arrays in the order of model.inputs, or by name",
    )
    c = (
        f"/* unzip {file} && cc -std=gnu11 -O2 -I. call.c ./libmodel.so -o call */",
        '#include "model.h"',
        "",
        "model_args args = {.in0 = input, .out0 = output, .weights = weights, .packed = packed,",
        "                   .arena = arena, .scratch = scratch}; /* sizes: MODEL_..._BYTES */",
        "model_prepare(args.weights, args.packed, args.scratch); /* once */",
        "ansorpy_pool *pool = model_pool_open(1);",
        "model_run(&args, pool); /* as often as you like */",
        "model_pool_close(pool);",
    )
    shell = (
        f"ansorpy run {file}",
        f"ansorpy bench {file} --model model.onnx --against ort",
    )
    return {"Python": "\n".join(python), "C": "\n".join(c), "Shell": "\n".join(shell)}


def c_call_of(manifest: Mapping[str, Any]) -> str:
    """Return C that calls the library of a package, with `kernel.h`."""
    given = [one for one in manifest["inputs"] if not one.get("constant")]
    tensors = [*_numbered(given, "in"), *_numbered(manifest["outputs"], "out")]
    names = ", ".join(name for name, _ in tensors)
    return "\n".join(
        (
            '#include "kernel.h" /* cc call.c libkernel.so -lm -lpthread */',
            "#include <stdlib.h>",
            "",
            "if (!kernel_supported()) abort(); /* this processor cannot run it */",
            "void *workspace = KERNEL_WORKSPACE_BYTES",
            "    ? aligned_alloc(64, (KERNEL_WORKSPACE_BYTES + 63) / 64 * 64) : NULL;",
            *(f"/* {name}: {shape} */" for name, shape in tensors),
            f"kernel_args args = {{{names}, workspace}};",
            "kernel_ahead(&args); /* once, and after weights changed */",
            "kernel_run(&args);",
        )
    )


def kernel_body(source: str) -> str:
    """Return the phases of a `kernel.py`, then their tiles: no imports and no reference."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a kernel of another version
        return ""
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "launch":
            break
        if isinstance(node, ast.FunctionDef):
            name = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            continue
        if name not in HELPERS:
            kept.append(node)
    lines = source.splitlines()
    kept.sort(key=lambda node: not isinstance(node, ast.FunctionDef))  # the loops come first
    parts = ["\n".join(lines[_begin(node) - 1 : node.end_lineno]) for node in kept]
    return "\n\n".join(parts)


def _begin(node: ast.stmt) -> int:
    """Return the line in which a statement begins, with its decorators."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min((one.lineno for one in decorators), default=node.lineno)


def _numbered(tensors: Sequence[Mapping[str, Any]], word: str) -> list[tuple[str, str]]:
    return [(f"{word}{n}", _shape(one)) for n, one in enumerate(tensors)]


def _names(tensors: Sequence[Mapping[str, Any]], letter: str) -> list[str]:
    """Return the names of tensors if Python takes all of them, else numbered ones."""
    names = [str(one["name"]) for one in tensors]
    good = all(name.isidentifier() and not iskeyword(name) for name in names)
    return names if good else [f"{letter}{n}" for n in range(len(names))]


def _shape(tensor: Mapping[str, Any]) -> str:
    extents = ", ".join(str(one)[:NUMBERS] for one in tensor["shape"])
    return f"{str(tensor['dtype'])[:NUMBERS]}[{extents}]"
