from collections.abc import Iterator

import pytest

from tests.server.service import service
from tests.systems.stage import Stage
from tests.tuner.test_rule_files import GOOD, written


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("systems")
    (folder / "rules").mkdir(mode=0o755)
    written(folder / "rules" / "mine.py", GOOD)
    url = f"sqlite:///{folder / 'systems.db'}"
    with service(url, data_dir=folder, rules_dir=folder / "rules") as running:
        yield Stage(running, folder)


@pytest.fixture(autouse=True)
def quick_searches(few_candidates: None) -> None:
    """Search with few candidates: no test of a system asserts how good a kernel is."""
