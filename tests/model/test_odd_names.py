"""Names of inputs and outputs are data: any text works in calls, archives, races and bundles."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ansorpy.artifact.npz import read_npz, write_npz
from ansorpy.bundle.load import load_model
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array
from ansorpy.measure.host import local_target
from ansorpy.model.compile import compiled
from ansorpy.model.options import ModelOptions
from ansorpy.model.race import Entry, race
from ansorpy.model.request import ModelRequest
from ansorpy.records import MemoryStore
from ansorpy.server.cli import app
from tests.model.test_compile import play

NAMES = (
    "file", "out", "self", "inputs", "args", "allow_pickle", "arr_0", "/", "..", "../../x", "a/b",
    "a:b", "a?b", " ", " arena", "x", "x.npy", "x (output)", "é", "two\nlines", "n" * 60_000,
)  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that gives each input back under its own name, times 1, in another shape."""
    builder = GraphBuilder("../odd")
    shape = builder.constant("~shape", np.array([2, 1]))
    for number, name in enumerate(NAMES):
        builder.input(name, (2,), "float32")
        builder.output(name, builder.add("Reshape", [name, shape], [f"~{number}"])[0])
    out = tmp_path_factory.mktemp("odd") / "odd.zip"
    asked = ModelRequest(builder.graph(), local_target(1), ModelOptions(trials=0), out)
    return play(compiled(asked, MemoryStore()))[1].bundle


def arrays() -> dict[str, Array]:
    return {name: np.array([n, -n], np.float32) for n, name in enumerate(NAMES)}


def test_a_call_takes_any_name(bundle: Path) -> None:
    with load_model(bundle) as model:
        by_mapping, by_keyword = model(arrays()), model(**arrays())
        keys = [one.name for one in model.outputs]
        told = [one["name"] for one in model.manifest["outputs"]]
    assert (tuple(told), len({*keys, *NAMES})) == (NAMES, 2 * len(NAMES))
    for n, found in enumerate(zip(by_mapping, by_keyword, strict=True)):
        np.testing.assert_array_equal(found, [[[n], [-n]]] * 2)


def test_the_command_run_reads_and_writes_any_name(bundle: Path, tmp_path: Path) -> None:
    write_npz(tmp_path / "in.npz", arrays())
    asked = ["run", str(bundle), "--inputs", str(tmp_path / "in.npz")]
    done = CliRunner().invoke(app, [*asked, "--outputs", str(tmp_path / "out.npz")])
    assert done.exit_code == 0, done.output
    found = list(read_npz(tmp_path / "out.npz").values())
    np.testing.assert_array_equal(found, [[[n], [-n]] for n in range(len(NAMES))])


def test_a_race_takes_any_name(bundle: Path) -> None:
    (ours,) = race([Entry("ansorpy", bundle)], [arrays()], 1, 0.01, 1)
    assert not ours.failed


def test_archives_are_those_of_numpy(tmp_path: Path) -> None:
    file = tmp_path / "some.npz"
    given: dict[str, Array] = {"a": np.eye(3), "b": np.array(7, np.int8)}
    write_npz(file, given)
    with np.load(file) as found:
        assert {name: found[name].tolist() for name in found.files} == {
            name: one.tolist() for name, one in given.items()
        }
    np.savez_compressed(file, a=given["a"])
    np.testing.assert_array_equal(read_npz(file)["a"], given["a"])


@pytest.mark.parametrize("name", ["a\0b", "n" * 65_532])
def test_a_name_that_a_zip_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="has a zero or more than 65531 bytes"):
        write_npz(tmp_path / "some.npz", {name: np.eye(3)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"no zip", b"\x93NUMPY\x01\x00"])
def test_a_file_of_other_data_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "some.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not a zip"):
        read_npz(tmp_path / "some.npz")
