"""A data folder for each test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANSORPY_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("ANSORPY_TUNE", raising=False)
    return tmp_path
