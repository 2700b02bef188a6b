"""A slot that tunings share, with daemons that are processes."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorpy.cluster.hours import Hours
from ansorpy.cluster.messages import SlotFacts, answered, question
from ansorpy.cluster.share import ClusterUser
from ansorpy.cluster.shared_slot import BUSY, LEAVING, SharedSlot
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.nodes import Program
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.values import encode
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from tests.cluster.ordered import TEXT

pytestmark = pytest.mark.slow
OPENING = parse(TEXT)[0], local_target(1), 0, MeasureSettings()
LIMIT_S = 60.0


@cache
def programs() -> list[Program]:
    """Return 12 programs; a slot would time an equal one once."""
    dag, target = OPENING[:2]
    found = list[Program]()
    for sketch in derive(dag, target, CPU).sketches:
        for plan in plans(sketch, target, 12):
            row = sample(plan, 1, np.random.default_rng(0))[0]
            found.append(bind(plan, [int(value) for value in row], target))
    return found[:12]


class Day:
    """A moment that the test chooses."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 12)

    def __call__(self) -> datetime:
        return self.now


def on(
    monkeypatch: pytest.MonkeyPatch,
    do: Callable[[SharedSlot, Day], Awaitable[None]],
    hours: str = "",
    folder: Path | None = None,
    **orders: Any,
) -> None:
    """Run a coroutine with a slot whose daemons follow orders."""
    monkeypatch.setenv("ANSORPY_TEST_SLOT", json.dumps(orders))
    day = Day()
    command = [sys.executable, "-m", "tests.cluster.formula_slot", "0"]

    async def run() -> None:
        await do(SharedSlot(command, Hours(hours), folder, now=day), day)

    asyncio.run(run())


async def joined(slot: SharedSlot, name: str, priority: int = 0) -> ClusterUser:
    """Join a tuning, and open its pool."""
    share = ClusterUser(name, name, priority, f"job of {name}")
    await slot.join(share)
    kind, _ = await slot.ask(name, encode(question("open", 1, *OPENING)), LIMIT_S, "open", 0)
    assert kind == "answer"
    return share


async def measured(slot: SharedSlot, name: str, count: int) -> list[Any]:
    """Return the outcomes of a batch."""
    frame = encode(question("measure", 1, programs()[:count], None))
    kind, data = await slot.ask(name, frame, LIMIT_S, "measure", count)
    assert kind == "answer", data
    return list(answered(data))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_tunings_have_pools_of_their_own_and_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(slot: SharedSlot, _: Day) -> None:
        hello = encode(question("hello"))
        assert (await slot.ask("a", hello, LIMIT_S, "hello", 0))[0] == "returned"
        await joined(slot, "a")
        await joined(slot, "b")
        facts = answered((await slot.ask("b", hello, LIMIT_S, "hello", 0))[1])
        assert isinstance(facts, SlotFacts)
        work = [asyncio.create_task(measured(slot, one, 4)) for one in "ab"]
        await until(lambda: slot.state()["doing"] is not None)
        doing, waiting = slot.state()["doing"], slot.state()["waiting"]
        assert (doing["job"], doing["method"], doing["trials"]) == ("job of a", "measure", 4)
        assert waiting == 1
        for one in work:
            assert all(isinstance(outcome, Measured) for outcome in await one)
        told = slot.state()
        assert (told["trials"], told["drift"], told["state"]) == (8, 1.0, "idle")
        assert 0 < told["busy_s"] <= told["up_s"]
        await slot.leave("a")
        await slot.leave("a")
        assert slot.seen("a") == "unknown"
        assert slot.seen("b") == "known"

    on(monkeypatch, do, sleep=0.05)


def test_a_higher_priority_has_its_turn_before_a_batch_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The outcomes by now come back; candidates that the slot did not come to have none."""

    async def do(slot: SharedSlot, _: Day) -> None:
        await joined(slot, "low")
        await joined(slot, "high", 5)
        begin_s = slot.state()["busy_s"]
        low = asyncio.create_task(measured(slot, "low", 12))
        await until(lambda: slot.state()["busy_s"] > begin_s + 0.4)
        assert None not in await measured(slot, "high", 1)
        found = await low
        done = sum(isinstance(one, Measured) for one in found)
        assert 0 < done < 12
        assert found.count(None) == 12 - done

    on(monkeypatch, do, sleep=0.2)


def test_at_the_end_of_its_hours_a_slot_gives_everything_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def do(slot: SharedSlot, day: Day) -> None:
        await joined(slot, "a")
        await joined(slot, "b")
        assert len([*tmp_path.glob(f"{BUSY}*")]) == 1
        begin_s = slot.state()["busy_s"]
        first, second = (asyncio.create_task(measured(slot, one, 12)) for one in "ab")
        await until(lambda: slot.state()["busy_s"] > begin_s + 0.4)
        day.now = day.now.replace(hour=18)
        found = await first
        assert 0 < sum(isinstance(one, Measured) for one in found) < 12
        with pytest.raises(AssertionError, match="the slot rests"):
            await second
        await until(lambda: slot.seen("a") != "known" and not [*tmp_path.glob(f"{BUSY}*")])
        assert slot.seen("a") == "2026-12-01T09:00"
        assert slot.state()["state"] == "resting"
        waiting = asyncio.create_task(joined(slot, "a"))
        await asyncio.sleep(1.2)
        assert not waiting.done()
        day.now = day.now.replace(day=1, month=12, hour=9)
        await waiting
        assert None not in await measured(slot, "a", 1)
        (tmp_path / LEAVING).touch()
        await until(lambda: not [*tmp_path.glob(f"{BUSY}*")])
        assert slot.seen("a") != "known"

    on(monkeypatch, do, "Mon-Fri 09:00-18:00", tmp_path, sleep=0.2)


def test_a_daemon_that_hangs_or_ends_is_lost_for_its_tuning_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def do(slot: SharedSlot, _: Day) -> None:
        await joined(slot, "a")
        os.environ["ANSORPY_TEST_SLOT"] = "{}"
        await joined(slot, "b")
        frame = encode(question("measure", 1, programs()[:1], None))
        lost, answer = await asyncio.gather(
            slot.ask("a", frame, 1.0, "measure", 1), measured(slot, "b", 1)
        )
        assert lost == ("lost", b"the slot did not answer within 1 s")
        assert isinstance(answer[0], Measured)
        assert slot.seen("a") == "unknown"
        assert (await slot.ask("a", frame, 1.0, "measure", 1))[0] == "returned"
        await joined(slot, "a")
        assert isinstance((await measured(slot, "a", 1))[0], Measured)

    on(monkeypatch, do, hang=1)


def test_a_tuning_without_a_sign_of_life_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do(slot: SharedSlot, _: Day) -> None:
        await slot.join(ClusterUser("a", "a"))
        await asyncio.sleep(1.5)
        assert slot.seen("a") == "unknown"

    monkeypatch.setattr("ansorpy.cluster.shared_slot.ABSENT_S", 0.5)
    on(monkeypatch, do)
