"""No golden file outlives its test."""

import re
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


def test_every_golden_file_belongs_to_a_test() -> None:
    orphans = [
        str(path.relative_to(GOLDEN))
        for path in GOLDEN.rglob("*")
        if path.is_file() and not has_test(path)
    ]
    assert not orphans, f"golden files without a test: {orphans}"


def has_test(path: Path) -> bool:
    """A golden is tests/golden/<test file>/<test>.txt; the test may have parameters."""
    module = (HERE / path.parent.relative_to(GOLDEN)).with_suffix(".py")
    test = path.stem.partition("[")[0]
    if path.suffix != ".txt" or not module.exists():
        return False
    return re.search(rf"^\s*def {re.escape(test)}\(", module.read_text(), re.MULTILINE) is not None
