"""The order of turns, on a clock of the test."""

from collections import Counter
from collections.abc import Sequence

import pytest

from ansorpy.cluster.share import ClusterUser, own_share, share_variables
from ansorpy.cluster.turns import ACTIVE_S, ANTICIPATE_S, SlotTurn, Turns
from ansorpy.errors import SpecError


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def share(tenant: str, priority: int = 0, driver: str = "") -> ClusterUser:
    return ClusterUser(driver or tenant, tenant, priority)


def used(
    users: Sequence[tuple[ClusterUser, float]], total_s: float, pause_s: float
) -> Counter[str]:
    """Return the seconds by tenant of tunings that ask again, after a pause, whenever answered."""
    clock, found = Clock(), Counter[str]()
    turns, waiting = Turns(clock), dict[SlotTurn, float]()
    due = [(clock.now_s, one, seconds) for one, seconds in users]
    while clock.now_s < 100.0 + total_s:
        for entry in [one for one in due if one[0] <= clock.now_s]:
            due.remove(entry)
            waiting[turns.enter(entry[1])] = entry[2]
        turn, wait_s = turns.next()
        if turn is None:
            clock.now_s += wait_s if wait_s else pause_s
            if wait_s and due:
                clock.now_s = min(clock.now_s, *(one[0] for one in due))
            continue
        turns.begin(turn)
        seconds = waiting.pop(turn)
        clock.now_s += seconds
        turns.end(turn)
        found[turn.share.tenant] += seconds  # type: ignore[assignment]
        due.append((clock.now_s + pause_s, turn.share, seconds))
    return found


@pytest.mark.parametrize("seconds", [(1.0, 1.0), (4.0, 1.0), (0.3, 7.0)])
def test_two_tenants_have_half_each_however_long_their_questions(
    seconds: tuple[float, float],
) -> None:
    found = used([(share("a"), seconds[0]), (share("b"), seconds[1])], 1000.0, 0.02)
    part = found["a"] / found.total()
    assert 0.49 < part < 0.51


def test_tunings_of_one_tenant_share_its_part() -> None:
    users = [(share("a", driver=f"a{k}"), 1.0) for k in range(3)]
    found = used([*users, (share("b"), 1.0)], 1000.0, 0.02)
    assert 0.49 < found["b"] / found.total() < 0.51


def test_a_pause_that_is_long_gives_the_slot_to_others() -> None:
    found = used([(share("a"), 0.1), (share("b"), 1.0)], 1000.0, 0.5)
    assert found["b"] > 3 * found["a"]


def test_a_tenant_that_comes_late_is_owed_nothing() -> None:
    clock = Clock()
    turns = Turns(clock)
    for _ in range(50):
        turn = turns.enter(share("old"))
        assert turns.next() == (turn, 0.0)
        turns.begin(turn)
        clock.now_s += 1.0
        turns.end(turn)
    order = list[str]()
    turns.enter(share("new"))
    turns.enter(share("old"))
    for _ in range(4):
        granted, wait_s = turns.next()
        if granted is None:
            clock.now_s += wait_s + 0.001
            granted, _ = turns.next()
        assert granted
        turns.begin(granted)
        clock.now_s += 1.0
        turns.end(granted)
        order.append(granted.share.tenant)
        turns.enter(granted.share)
    assert sorted(order) == ["new", "new", "old", "old"]


def test_a_higher_priority_is_first_and_urgent() -> None:
    clock = Clock()
    turns = Turns(clock)
    low = turns.enter(share("a"))
    turns.begin(low)
    assert not turns.urgent()
    others = [turns.enter(share("a")), turns.enter(share("b", 5))]
    assert turns.urgent()
    turns.end(low)
    assert turns.next() == (others[1], 0.0)


def test_a_tenant_is_waited_for_a_moment_only() -> None:
    clock = Clock()
    turns = Turns(clock)
    for tenant, seconds in (("a", 1.0), ("b", 9.0), ("a", 1.0)):
        turn = turns.enter(share(tenant))
        turns.begin(turn)
        clock.now_s += seconds
        turns.end(turn)
    turn = turns.enter(share("b"))
    granted, wait_s = turns.next()
    assert granted is None
    assert wait_s == pytest.approx(ANTICIPATE_S)
    clock.now_s += 2 * ANTICIPATE_S
    assert turns.next() == (turn, 0.0)
    turns.leave(turn)
    turns.leave(turn)
    assert turns.next() == (None, 0.0)
    clock.now_s += ACTIVE_S + 1
    turns.enter(share("c"))
    assert turns.waiting == 1


def test_a_share_is_told_by_the_environment() -> None:
    found = own_share(share_variables("7", -3, "0123"))
    assert (found.tenant, found.priority, found.job) == ("7", -3, "0123")
    assert found.driver != own_share({}).driver
    assert own_share({}).tenant
    with pytest.raises(SpecError, match="cannot use ANSORPY_CLUSTER_PRIORITY='high' because"):
        own_share({"ANSORPY_CLUSTER_PRIORITY": "high"})
