from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from shutil import copyfile

import pytest
from sqlalchemy import Engine

from ansorpy.server.db.engine import connect
from ansorpy.server.db.upgrade import open_database, upgrade
from tests.night import NIGHT
from tests.server.databases import Cluster, cluster, missing

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.db)]
# Subjects over the statements that the other tests of this folder run on both kinds of database:
# `make test` has them on SQLite, `make test-all` also on PostgreSQL.
OVER_STATEMENTS = {
    "test_access", "test_capabilities", "test_compression", "test_explain", "test_explain_page",
    "test_gpu_jobs", "test_graph_jobs", "test_jobs_route", "test_kernels_route",
    "test_machines_page", "test_manual_jobs", "test_metrics", "test_model_jobs", "test_pages",
    "test_removed", "test_set_state_pages", "test_targets",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in OVER_STATEMENTS and item.get_closest_marker("db"):
            item.add_marker(NIGHT)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    why = missing()
    if why:
        pytest.skip(why)
    with cluster() as running:
        yield running


@pytest.fixture(params=BOTH)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return a function that gives the URL of a new, empty database."""
    if request.param == "postgres":
        running: Cluster = request.getfixturevalue("postgres")
        return running.new_database
    numbers = count()
    return lambda: f"sqlite:///{tmp_path / 'deep' / f'{next(numbers)}.db'}"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Cluster | None], str]:
    """Return a function from a kind to the URL of a template database with current tables."""

    @cache
    def made(running: Cluster | None) -> str:
        folder = tmp_path_factory.mktemp("template")
        place = running.new_database() if running else f"sqlite:///{folder / 'template.db'}"
        engine = connect(place)
        upgrade(engine)
        engine.dispose()
        return place

    return made


@pytest.fixture(params=BOTH)
def url(
    request: pytest.FixtureRequest, tmp_path: Path, template: Callable[[Cluster | None], str]
) -> Iterator[str]:
    """The URL of a database with current tables."""
    if request.param == "postgres":
        running: Cluster = request.getfixturevalue("postgres")
        with running.lent(template(running)) as copy:
            yield copy
        return
    place = tmp_path / "ansorpy.db"
    copyfile(template(None).removeprefix("sqlite:///"), place)
    yield f"sqlite:///{place}"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_database(url)
    yield engine
    engine.dispose()
