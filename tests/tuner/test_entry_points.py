"""Entry points are read again after an installation, and only then."""

import sys
from pathlib import Path

import pytest

from ansorpy.tuner.options.entry_points import points_of
from tests.tuner.test_plugins import installer

GROUP = "ansorpy.searches"


def names() -> set[str]:
    return {point.name for point in points_of(GROUP)}


def test_a_package_is_seen_once_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names()
    install = installer(tmp_path / "site", monkeypatch)
    assert names() == before
    install("first", f"[{GROUP}]\none = first:Mine\n")
    assert names() == before | {"one"}
    site = install("second", f"[{GROUP}]\ntwo = second:Mine\n")
    assert names() == before | {"one", "two"}
    for file in (site / "first-1.0.dist-info").iterdir():
        file.unlink()
    (site / "first-1.0.dist-info").rmdir()
    assert names() == before | {"two"}


def test_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # a folder that no other process changes
    assert points_of(GROUP) is points_of(GROUP)
