"""Numba: the cost of compilation, which a user pays once, apart from the time of a call."""

import json
from pathlib import Path

import pytest

from ansorpy.artifact.package import unbox
from tests.systems.stage import Stage


@pytest.mark.night
def test_the_time_of_compilation_is_apart_from_the_latency(stage: Stage, tmp_path: Path) -> None:
    """A user reads both times in the reply, on the page, in the manifest and in the record."""
    (task,) = stage.auto["tasks"]
    assert task["compile_s"] > 0
    manifest = unbox(stage.package(stage.auto, tmp_path).read_bytes(), "mm").manifest
    assert manifest["compile_s"] == task["compile_s"]
    assert manifest["latency_s"]["min"] == task["best_s"]
    lines = stage.client.get("/v1/records", params={"job": stage.auto["id"]}).text.splitlines()
    (raced,) = [one for one in map(json.loads, lines) if one["race"]]
    assert raced["outcome"]["build_s"] == task["compile_s"]
    assert raced["outcome"]["times_s"] == raced["race"][raced["race"]["delivered"] + "_s"]
    page = stage.client.get(f"/jobs/{stage.auto['id']}").text
    assert "The first call of kernel.py; a part of no other time" in page
