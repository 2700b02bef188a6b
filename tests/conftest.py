"""Fixtures that every floor shares."""

import atexit
import gc
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ansorpy.measure.local import LocalBackEnd, LocalProcesses, Open
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.peers import guest
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.plan import choices
from ansorpy.search import EvolutionSettings, evolve, strategy
from ansorpy.target import Target
from ansorpy.tuner import tune
from ansorpy.tuner.options import tune_options as options
from ansorpy.tuner.parts import pools
from ansorpy.tuner.race import calm_race, first_answer

SKETCHES = 64  # sketches whose plans are kept at most
LIBRARIES = guest.LIBRARIES
FEW = 128, 2  # candidates and iterations of a round; tunings through a service have all of them

# A busy machine is slow: no deadline of an example, and none of making examples.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Background jobs of a shell ignore Ctrl-C, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A tuning of this process has one thread unless its test names more: results of tests must not
# depend on the cores of the machine. Commands in processes of their own have the real default.
pytest.MonkeyPatch().setattr(options, "granted_cores", lambda: 1)

# The tests of a run are half a million objects that live to its end, and every full collection
# walks them all: the collector pauses while they are made, and leaves them out afterwards. Shared
# plans and features of plans are half a million objects more: their collections are a tenth as
# frequent as by default.
gc.disable()
THRESHOLDS = 20_000, 20, 20  # new objects of a collection; collections of an older generation


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:  # also in the process that starts the workers of xdist
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests, then those with many tests first: the last ones are short."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -count[item.path], item.path))


@pytest.fixture(scope="session", autouse=True)
def known_plans() -> Iterator[None]:
    """Lower a sketch once for all tests that tune it: its plans are immutable.

    The features of a plan, which take most of the time of a short search, live as long as the plan.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "plans", lru_cache(SKETCHES)(choices.plans))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_libraries() -> Iterator[None]:
    """Race without installed libraries: their imports take longer than a short tuning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest, "LIBRARIES", ())
        yield


@pytest.fixture(scope="session", autouse=True)
def calm_machine() -> Iterator[None]:
    """Take the machine for a calm one: other tests run beside, and fakes race at any speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "crowd", lambda: "")
        patch.setattr(calm_race, "RACES", 1)
        yield


class Lent(LocalBackEnd[MeasurePool]):
    """A back end whose processes outlive it."""

    def __init__(
        self, target: Target, settings: MeasureSettings, open_pool: Open[MeasurePool]
    ) -> None:
        self._settings, self._open = settings, open_pool
        whole = replace(settings, runner=True, builders=MeasureSettings().builders)
        self._processes = processes(target.host_threads, whole)

    def close(self) -> None:
        """Leave the processes to the next tuning."""


@lru_cache
def processes(threads: int, settings: MeasureSettings) -> LocalProcesses:
    """Return the processes of every tuning on `threads` threads."""
    made = LocalProcesses(Target(cores=threads), settings)
    atexit.register(made.close)
    return made


@pytest.fixture(scope="session", autouse=True)
def shared_processes() -> Iterator[None]:
    """Measure every tuning of this process with the same processes: to start them takes seconds.

    A tuning that is interrupted kills them, and the next one starts them again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "LocalBackEnd", Lent)
        yield


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Race with the libraries that are installed, ONNX Runtime at least."""
    monkeypatch.setattr(guest, "LIBRARIES", LIBRARIES)


@pytest.fixture
def few_candidates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search with few candidates, for tests that assert nothing of how good a candidate is.

    A test that needs more has a pair like FEW as an indirect parameter.
    """
    population, iterations = getattr(request, "param", FEW)
    small = EvolutionSettings(population=population, iterations=iterations)
    monkeypatch.setattr(strategy, "evolve", partial(evolve, settings=small))
    first = replace(first_answer.SETTINGS, population=population, iterations=iterations)
    monkeypatch.setattr(first_answer, "SETTINGS", first)


class Golden:
    """Compares a text with `tests/golden/<test file>/<test>.txt`; a missing file fails."""

    def __init__(self, path: Path, update: bool) -> None:
        self.path, self.update = path, update

    def check(self, actual: str) -> None:
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(actual + "\n")
        assert self.path.exists(), f"no golden file {self.path}; run this test with --update-golden"
        assert actual + "\n" == self.path.read_text()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    here = Path(__file__).parent
    test = Path(request.node.path).relative_to(here).with_suffix("")
    name = here / "golden" / test / f"{request.node.name}.txt"
    return Golden(name, bool(request.config.getoption("--update-golden")))
