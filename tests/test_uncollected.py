"""The garbage collector pauses, and goes on as it was."""

import gc

import pytest

from ansorpy.uncollected import uncollected


@uncollected()
def paused() -> bool:
    return gc.isenabled()


@uncollected()
def broken() -> float:
    return 1 / 0


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_left_as_it_was(was_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        assert not paused()
        assert gc.isenabled() is was_on
        with pytest.raises(ZeroDivisionError):
            broken()
        assert gc.isenabled() is was_on
    finally:
        (gc.enable if before else gc.disable)()
