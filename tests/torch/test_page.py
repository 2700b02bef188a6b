"""The snippets of docs/torch.md run, in order, in one namespace, with few trials."""

import re
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:.torch.jit")]

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert SNIPPETS
    names: dict[str, Any] = {"__name__": "page"}
    for number, text in enumerate(SNIPPETS):
        small = re.sub(r"(trials=)\d+", r"\g<1>0", text)
        file = tmp_path / f"snippet_{number}.py"  # torch.compile reads the source of functions
        file.write_text(small)
        exec(compile(small, str(file), "exec"), names)
