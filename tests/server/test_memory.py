"""Memory of accepted tasks, against the memory that the reply declares."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ansorpy.errors import SpecError
from ansorpy.frontends.tc.text import parse
from ansorpy.server.service.limits import RequestLimits, check_dags
from ansorpy.tuner.rounds.preflight import CHECKING_TIMES
from tests.server.databases import ON_SQLITE
from tests.server.hostile import body, nodes, shaped
from tests.server.process import Live, process
from tests.server.service import service
from tests.server.test_hostile import MAX_GROWTH_BYTES

MIB = 1 << 20
FLOAT = 4
ENDED = ("succeeded", "failed", "cancelled")

# Tasks of the largest accepted size, each with the bytes of its tensors.
GENTLE: Mapping[str, tuple[bytes, int]] = {
    "one dimension": (shaped(2**25), 2 * 2**25 * FLOAT),
    "two dimensions": (shaped(2**12, 2**13), 2 * 2**25 * FLOAT),
    "eight dimensions": (shaped(*[2**3] * 7, 2**4), 2 * 2**25 * FLOAT),
    "512 nodes": (nodes(512, 2**17), 512 * 2**17 * FLOAT),
    "text": (
        body({"text": "def f(float(4096,8192) A) -> (B) { B(i,j) = A(i,j) + 1 }"}),
        2 * 2**25 * FLOAT,
    ),
    "64 tasks": (
        body(
            {
                "text": "".join(
                    f"def f{n}(float(33554432) A) -> (B) {{ B(i) = A(i) }}\n" for n in range(64)
                )
            }
        ),
        2 * 2**25 * FLOAT,
    ),
}


@ON_SQLITE
def test_the_service_keeps_no_tensor_in_memory(url: str) -> None:
    limit = RequestLimits().tensor_bytes
    with process(url, ANSORPY_TUNE_RATE="1000000/minute") as live:
        before = live.resident_bytes()
        for name, (content, wanted) in GENTLE.items():
            reply = live.post("/v1/jobs", content=content)
            assert reply.status_code == 202, (name, reply.text)
            assert reply.json()["memory_bytes"] == wanted == limit, name
            for path in ("", "/explain", "/events?format=jsonl"):
                found = live.get(f"/v1/jobs/{reply.json()['id']}{path}")
                assert found.status_code == 200, (name, path, found.text)
        grown = live.resident_bytes() - before
    assert grown < MAX_GROWTH_BYTES, f"{grown / MIB:.0f} MiB"


@ON_SQLITE
def test_one_byte_more_is_refused(url: str) -> None:
    # Each has exactly the size of the limit, so that a limit lower by a byte refuses it.
    with service(url, max_tensor_bytes=RequestLimits().tensor_bytes - 1) as running:
        for name, (content, _) in GENTLE.items():
            assert running.client.post("/v1/jobs", content=content).status_code == 422, name


def test_a_range_beyond_the_limit_is_refused_with_the_largest_range() -> None:
    (dag,) = parse("def f(float(N in 1..1000, 4) A) -> (B) { B(i,j) = A(i,j) }")
    check_dags([dag], RequestLimits(tensor_bytes=32_000))
    with pytest.raises(
        SpecError, match=r"N in 1\.\.1000 needs 32000 bytes .* N in 1\.\.999, within"
    ):
        check_dags([dag], RequestLimits(tensor_bytes=31_999))


def peaks(root: int) -> Iterator[tuple[int, int]]:
    """Yield every process below `root` with its peak memory, in bytes."""
    below = [root]
    while below:
        pid = below.pop()
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
            below += [int(c) for t in tasks for c in (t / "children").read_text().split()]
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue  # the process has ended
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                yield pid, int(line.split()[1]) * 1024


def tuned(live: Live, text: str, trials: int) -> tuple[Mapping[str, Any], int]:
    """Tune a text; return the job, and the peak memory of any process of the service."""
    asked = {"text": text, "budget": {"trials": trials}, "fresh": True}
    job = live.post("/v1/jobs", json=asked).json()
    most: dict[int, int] = {}
    while job["state"] not in ENDED:
        most.update(peaks(live.pid))
        time.sleep(0.05)
        job = live.get(f"/v1/jobs/{job['id']}").json()
    return job, max(most.values())


@pytest.mark.night
@pytest.mark.timeout(600)
def test_the_memory_of_a_job_is_within_its_factor(tmp_path: Path) -> None:
    def relu(rows: int) -> str:
        return f"def f(float({rows},1024) A) -> (B) {{ B(i,j) = max(A(i,j), 0) }}"

    with process(f"sqlite:///{tmp_path}/m.db", ANSORPY_EMBEDDED_WORKER="1") as live:
        small, base = tuned(live, relu(16), 0)
        large, most = tuned(live, relu(4096), 2)
    assert (small["state"], large["state"]) == ("succeeded", "succeeded")
    times = (most - base) / large["memory_bytes"]
    assert times <= CHECKING_TIMES, f"{times:.1f}"
