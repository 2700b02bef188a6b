"""Hostile models are refused by name, in bounded memory and time.

Every model is refused in this process, and one in twelve by a child as well; `make test-all`
gives all of them to a child.
"""

import re
import resource
from pathlib import Path

import pytest

from ansorpy.errors import GraphError
from ansorpy.importers.child import ReadLimits
from ansorpy.importers.limits import check_file
from ansorpy.importers.model_file import read_model
from tests.importers.hostile import CASES, VALID, files
from tests.night import night

MOST_TEXT = 2000  # characters of a message: names of strangers are cut


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    return {name: (path, text) for name, path, text in files(tmp_path_factory.mktemp("hostile"))}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_model_is_refused_by_name(
    hostile: dict[str, tuple[Path, str]], name: str
) -> None:
    path, text = hostile[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(GraphError) as refusal:
        read_model(path)
    message = str(refusal.value)
    assert re.search(text, message, re.DOTALL), message[:500]
    assert len(message) < MOST_TEXT
    # KiB; the parser holds some copies of files of up to 16 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.slow
@pytest.mark.parametrize("name", night(CASES, list(CASES)[::12]))
def test_a_child_refuses_a_hostile_model(hostile: dict[str, tuple[Path, str]], name: str) -> None:
    with pytest.raises(GraphError):
        check_file(hostile[name][0])


def test_a_child_reads_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(VALID)
    check_file(tmp_path / "m.onnx")


def test_a_child_tells_the_refusal_of_the_importer(hostile: dict[str, tuple[Path, str]]) -> None:
    with pytest.raises(GraphError, match=r"'Frob_node' \(Frob\).*no kernel"):
        check_file(hostile["unknown operator"][0])


def test_a_child_that_goes_beyond_its_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(VALID)
    with pytest.raises(GraphError, match=r"its reader ended with status|MemoryError"):
        check_file(tmp_path / "m.onnx", limits=ReadLimits(memory_bytes=50 << 20))


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="it is no file of at most"):
        check_file(tmp_path)
