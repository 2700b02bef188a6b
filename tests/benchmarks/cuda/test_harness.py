"""The harness of a GPU whole, on the emulated driver: every section, and sections that fail."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansorpy.codegen.simt.device.kernel import DeviceCode
from ansorpy.target import cuda_target
from benchmarks.cuda.harness import SECTIONS, main
from benchmarks.cuda.kernels import Candidate, Prebuilt, candidates
from benchmarks.cuda.operators import OPERATORS, operators_of
from tests.codegen.simt.device.texts import PARTED
from tests.emulation import device as emulated

FIGURES = ("median_s", "least_s", "best_s", "trials_per_s", "flop_per_s")
FIRST = OPERATORS["matmul"][0]


def read(out: Path, section: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / f"{section}.json").read_text())
    return found


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from keys(part)


@pytest.mark.night
def test_every_section_runs_without_a_card_and_has_no_figure(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--emulated"]) == 0
    summary = json.loads((tmp_path / "harness.json").read_text())
    assert list(summary) == list(SECTIONS)
    found = {name: read(tmp_path, name) for name in SECTIONS}
    for name, section in found.items():
        assert (section["section"], section["state"]) == (name, "complete")
        assert section["emulated"]
        assert section["device"]["name"] == "Emulated GPU"
        assert not {*FIGURES} & {*keys(section["rows"])}
        assert all(row["size"] == "small" and set(row["card"]) for row in section["rows"])
    answers = {row["name"]: row for row in found["answers"]["rows"]}
    assert answers["module built"]["loads"]
    for name in ("matmul", "softmax", "argmax"):
        assert answers[name]["right"]
        assert answers[name]["other_bits"] == 0
    assert answers["behind the walls"] == {**answers["behind the walls"], "right": True}
    assert found["floors"]["rows"][-1]["name"] == "launch"
    for name in ("matmul", "rows", "convolutions"):
        own = [row for row in found[name]["rows"] if row.get("who") == "own"]
        peers = [row for row in found[name]["rows"] if row.get("who") != "own"]
        assert {row["name"] for row in own} == {one.name for one in operators_of(name, True)}
        assert all(row["missing"] for row in peers)
        timed = [row for row in own if "error" not in row]
        assert timed
        assert all(row["checked"] == "first case" and row["facts"] for row in timed)
        assert all(row["control"]["samples"] == 2 * row["warm"]["samples"] + 1 for row in timed)
    (tuned,) = found["tune"]["rows"]
    assert tuned["trials"] == tuned["measured"] + sum(tuned["failures"].values()) > 0
    (fit,) = found["fit"]["rows"]
    assert fit["candidates"] > 0


def test_a_fault_ends_its_section_and_no_other(tmp_path: Path) -> None:
    """A kernel that faults poisons its process; the section after it has a new one."""
    store = Prebuilt(tmp_path / "kernels")
    (right,) = candidates(FIRST.name, FIRST.small(), cuda_target("sm_90"), 1, emulated.build_texts)
    parameters = ", ".join(f"ptr addrspace(1) %p{k}" for k in range(len(right.code.buffers)))
    text = PARTED.replace("ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y", parameters)
    launch = replace(right.code.launches[0], threads=64, blocks=1, ahead=False)
    launch = replace(launch, name="phase0")
    bad = DeviceCode((text.encode(),), (launch,), right.code.buffers)
    store.write(FIRST.name, (Candidate("bad", bad, right.facts), replace(right, name="late")))
    out = tmp_path / "out"
    given = ["--emulated", "--prebuilt", str(tmp_path / "kernels"), "--sections", "matmul,fit"]
    assert main([str(out), *given]) == 1
    summary = json.loads((out / "harness.json").read_text())
    assert (summary["matmul"]["state"], summary["fit"]["state"]) == ("failed", "complete")
    assert "CUDA_ERROR_LAUNCH_FAILED" in summary["matmul"]["told"]
    rows = read(out, "matmul")
    assert rows["state"] == "running"
    assert rows["rows"][-1]["candidate"] == "bad"
    assert "a kernel failed" in rows["rows"][-1]["error"]
    assert read(out, "fit")["rows"][0]["error"] == "no measured candidates in the folder of results"


def test_a_wrong_kernel_has_no_times(tmp_path: Path) -> None:
    store = Prebuilt(tmp_path / "kernels")
    (right,) = candidates(FIRST.name, FIRST.small(), cuda_target("sm_90"), 1, emulated.build_texts)
    halved = replace(
        right.code, launches=tuple(
            replace(one, blocks=max(1, one.blocks // 2)) for one in right.code.launches
        ),
    )  # fmt: skip
    assert halved.launches != right.code.launches
    store.write(FIRST.name, (Candidate("half", halved, right.facts), right))
    given = ["--emulated", "--prebuilt", str(tmp_path / "kernels"), "--sections", "matmul"]
    assert main([str(tmp_path), *given]) == 0
    rows = [row for row in read(tmp_path, "matmul")["rows"] if row["name"] == FIRST.name]
    half = next(row for row in rows if row.get("candidate") == "half")
    assert half["error"].startswith("wrong: ")
    assert "warm" not in half
    good = next(row for row in rows if row.get("candidate") == right.name)
    assert "error" not in good


def test_kernels_in_a_folder_are_those_that_were_stored(tmp_path: Path) -> None:
    target = cuda_target("sm_90")
    made = candidates(FIRST.name, FIRST.small(), target, 2, emulated.build_texts)
    again = candidates(FIRST.name, FIRST.small(), target, 2, emulated.build_texts)
    assert made == again
    assert len(made) == 2
    Prebuilt(tmp_path).write(FIRST.name, made)
    store = Prebuilt(tmp_path)
    assert store.has(FIRST.name)
    assert not store.has("other")
    assert store.read(FIRST.name) == made


def test_a_real_harness_says_that_there_is_no_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if main([str(tmp_path), "--sections", "floors"]) == 0:
        pytest.skip("a GPU is here")
    summary = json.loads((tmp_path / "harness.json").read_text())
    assert summary["floors"]["status"] == 2
    assert "cannot use a GPU because" in summary["floors"]["told"]
    assert "floors: failed" in capsys.readouterr().out


def test_an_unknown_section_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--sections", "floors,walls"])
    assert "no section walls; expected answers, floors" in capsys.readouterr().err
