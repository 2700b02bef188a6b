"""Fixtures that every floor shares."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow: no deadline of an example, and none of making examples.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Background jobs of a shell ignore Ctrl-C, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, so that no worker has a long file left at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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
