"""docs/coverage.md and the tests of the systems name each other."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path("tests/systems")
SYSTEMS = (
    "TVM", "AutoTVM", "Ansor", "Ansor, scheduler", "Ansor's limits", "MetaSchedule", "XLA",
    "nGraph", "Tensor Comprehensions", "Glow", "InfiniTensor", "TensorRT", "ONNX Simplifier",
    "CUDA Graph", "torch.fx", "Halide", "Numba", "Autodiff, scale-out", "Clusters", "Robustness",
)  # fmt: skip


def rows() -> list[tuple[str, str, list[str], str]]:
    """Return each row: the system, the state, the named tests, and the part that is missing."""
    found = []
    for line in (ROOT / "docs" / "coverage.md").read_text().splitlines()[8:]:
        system, _, state, last = (cell.strip() for cell in line.strip("|").split(" | "))
        tests = re.findall(r"`([\w/]+\.py::\w+)`", last)
        paths = [name if "/" in name else f"{HERE}/{name}" for name in tests]
        found.append((system, state, paths, last.rpartition("`: ")[2]))
    return found


def defined_in(path: Path) -> dict[str, str]:
    """Return the tests of a file, with the reason of those that are left."""
    found = {}
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = [one for one in node.decorator_list if isinstance(one, ast.Call)]
            reasons = [one.args[0] for one in marks if getattr(one.func, "id", "") == "left"]
            found[node.name] = "".join(ast.literal_eval(reason) for reason in reasons)
    return found


def test_every_named_test_exists_and_left_rows_have_their_reason() -> None:
    for system, state, paths, missing in rows():
        assert state in ("passes", "left"), system
        assert paths or state == "left", f"a row of {system} passes without a test"
        for path in paths:
            file, _, name = path.partition("::")
            reasons = defined_in(Path(file))
            assert name in reasons, path
            assert reasons[name] == ("" if state == "passes" else missing), path


def test_every_test_of_a_system_is_on_the_page() -> None:
    named = {path for _, _, paths, _ in rows() for path in paths}
    files = [one for one in (ROOT / HERE).glob("test_*.py") if one.name != Path(__file__).name]
    for file in files:
        for name in defined_in(HERE / file.name):
            assert f"{HERE}/{file.name}::{name}" in named


def test_every_system_has_its_rows() -> None:
    assert {system for system, _, _, _ in rows()} == set(SYSTEMS)
