"""Instructions that kernels have and lack: GET /v1/capabilities, and the line of the doctor."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ansorpy import rules
from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.rewrites.capabilities import UNUSED, capabilities
from ansorpy.rewrites.intrinsics import INTRINSICS
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import WorkerRow
from ansorpy.server.doctor import machine
from ansorpy.sketch import derive
from ansorpy.state.steps import Tensorize
from ansorpy.target import CpuTarget, Target
from tests.rules.test_tensorize import KINDS, matmul
from tests.server.service import Service, service

VNNI = ("avx512bw", "avx512f", "avx512vl", "avx512vnni")
DIGEST = "5f2b9c0d1e3a4b6c"


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def told(running: Service) -> Mapping[str, Mapping[str, Any]]:
    reply = running.client.get("/v1/capabilities")
    assert reply.status_code == 200, reply.text
    return {one["target"]: one for one in reply.json()["targets"]}


def register(running: Service, target: str, facts: Mapping[str, Any]) -> None:
    running.worker(target)
    with transaction(running.engine) as tx:
        tx.query(WorkerRow).update({"facts": json.dumps(facts)})


def test_a_service_without_workers_tells_its_own_processor(running: Service) -> None:
    (one,) = told(running).values()
    own = local_target(None)
    assert (one["target"], one["name"]) == (target_digest(own), own.names[-1])
    assert (one["service"], one["workers"]) == (True, 0)
    assert [each["available"] for each in one["instructions"]] == [
        not each.lacks for each in capabilities(own)
    ]


def test_a_worker_tells_the_instructions_that_it_lacks(running: Service) -> None:
    facts = {
        "target": {"kind": "cpu", "cpu": "cascadelake", "vector_bits": 512, "features": VNNI},
        "estimates": ["cuda:sm_80", "cuda"],
        "gpus": [{"name": "old", "arch": "sm_75", "memory_bytes": 1}],
    }
    register(running, DIGEST, facts)
    found = told(running)
    assert found[DIGEST]["name"] == "cpu:cascadelake"
    assert {name: one["workers"] for name, one in found.items() if not one["service"]} == {
        DIGEST: 1, "cuda:sm_80": 1, "cuda:sm_75": 1,
    }  # fmt: skip
    by_name = {one["name"]: one for one in found[DIGEST]["instructions"]}
    assert by_name["vpdpbusd"] == {
        "name": "vpdpbusd", "computes": "int32 += uint8 * int8, 4 steps", "available": True,
        "reason": "", "in_source": True,
    }  # fmt: skip
    assert by_name["tdpbssd"]["reason"] == "the processor lacks amx-int8 and amx-tile"
    assert not by_name["tdpbssd"]["available"]
    assert by_name["sdot"]["reason"] == "no rule uses it"
    new, old = found["cuda:sm_80"]["instructions"], found["cuda:sm_75"]["instructions"]
    assert [(one["name"], one["available"], one["in_source"]) for one in new] == [
        ("mma.sync bf16", True, False), ("mma.sync tf32", True, False),
        *((name, False, False) for name, _ in UNUSED["cuda"]),
    ]  # fmt: skip
    assert old[0]["reason"] == "the architecture is older than sm_80"


def test_a_worker_on_the_machine_of_the_service_is_not_listed_twice(running: Service) -> None:
    digest = target_digest(local_target(None))
    running.worker(digest)
    (one,) = told(running).values()
    assert (one["target"], one["service"], one["workers"]) == (digest, True, 1)


@pytest.mark.parametrize("bits", [512, 256, 128])
@pytest.mark.parametrize(
    "features",
    [(), VNNI, ("avx512bf16", "avx512vl"), ("avxvnni",), ("amx-int8", "amx-tile")],
    ids=lambda found: found[0] if found else "none",
)
def test_the_list_is_that_of_the_tensorize_rule(features: tuple[str, ...], bits: int) -> None:
    target = replace(CpuTarget(), features=features, vector_bits=bits)
    used = {
        step.intrinsic
        for kind in KINDS
        for sketch in derive(matmul(64, 64, 64, kind), target, rules.CPU).sketches
        for step in sketch.steps
        if isinstance(step, Tensorize)
    }
    available = {one.name for one in capabilities(target) if not one.lacks}
    assert used <= available
    assert bool(used) == bool(available)


def test_an_instruction_of_another_width_says_so() -> None:
    narrow = replace(CpuTarget(), features=("amx-int8", "amx-tile", "avxvnni"), vector_bits=256)
    lacks = {one.name: one.lacks for one in capabilities(narrow)}
    assert lacks["vpdpbusd"] == ""
    assert lacks["tdpbssd"] == "vectors have 256 bits; expected 512, with amx-tile and amx-int8"
    assert lacks["vdpbf16ps"] == "the processor lacks avx512bf16 and avx512vl"


def test_no_instruction_is_both_used_and_unused() -> None:
    names = {one.name for one in INTRINSICS}
    for target in (Target("cpu"), Target("cuda")):
        found = [one.name for one in capabilities(target)]
        assert len(found) == len(set(found))
    assert not names & {name for name, _ in UNUSED["cpu"]}


def test_the_doctor_tells_those_of_this_machine() -> None:
    told = machine.instructions()
    here, missing = told.text, told.details
    for one in capabilities(local_target(None)):
        assert (one.name in missing) if one.lacks else (one.name in here)
