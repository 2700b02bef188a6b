"""Sizes that the user of a bundle with dims asks for: `--dim` of `run` and `bench`."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ansorpy.artifact.harness import DimSpec
from ansorpy.bundle.container import write_bundle
from ansorpy.errors import SpecError
from ansorpy.server.cli import app
from ansorpy.server.commands.sizes import MOST, sizes_of
from tests.bundle.models import model, with_self_test
from tests.bundle.sized import sized_model, with_self_tests

RUN = CliRunner()
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = sized_model(hosted=False)
    return write_bundle(tmp_path_factory.mktemp("sized") / "sized.zip", with_self_tests(made))


def test_bench_times_every_pair_of_sizes(bundle: Path) -> None:
    asked = ["bench", str(bundle), "--dim", "L=2,24", "--dim", "B=1,3", "--seconds", "0.1"]
    done = RUN.invoke(app, [*asked, "--json", "--profile"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [one["sizes"] for one in told["sizes"]] == [
        {"B": b, "L": n, "M": 24} for b in (1, 3) for n in (2, 24)
    ]
    assert all(one["median_s"]["ansorpy"] > 0 for one in told["sizes"])
    assert told["profile"]
    done = RUN.invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "mean over 4 sizes" in done.stdout
    assert "B 3, L 24, M 24" in done.stdout


def test_run_takes_a_size(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    asked = ["run", str(bundle), "--dim", "B=2", "--dim", "L=7", "--outputs", str(out)]
    done = RUN.invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "self-test" not in done.stderr
    with np.load(out) as file:
        assert {2, 7} <= {n for name in file.files for n in file[name].shape}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--dim", "Z=3"], "has no dim 'Z'; expected B in 1..4, L in 2..24"),
        (["--dim", "L=25"], "cannot take --dim L=25 because of '25'; expected L in 2..24"),
        (["--dim", "L=3,x"], "because of 'x'; expected L in 2..24"),
        (["--dim", "L"], "because of ''; expected L in 2..24"),
        (["--dim", "L=2,3"], "cannot run at 2 sizes"),
        (["--dim", "L=2", "--inputs", "in.npz"], "because the arrays decide the sizes"),
    ],
)
def test_a_wrong_size_is_named(bundle: Path, words: list[str], reason: str) -> None:
    done = RUN.invoke(app, ["run", str(bundle), *words])
    assert done.exit_code == 2
    assert reason in done.stderr


def test_a_bundle_without_dims_takes_no_sizes(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "model.zip", with_self_test(model(hosted=False)))
    done = RUN.invoke(app, ["bench", str(path), "--dim", "N=3"])
    assert done.exit_code == 2
    assert "has no dim 'N'; expected a bundle with dims" in done.stderr


class Dims:
    """The dims of a model whose cache grows."""

    name = "cached"
    dims = (
        DimSpec("past", 0, 8, ()), DimSpec("new", 1, 4, ()),
        DimSpec("total", 1, 10, (), terms=("past", "new")),
    )  # fmt: skip


def test_a_sum_follows_from_its_terms() -> None:
    found = sizes_of(Dims(), ["past=0,6"])  # type: ignore[arg-type]
    assert found == [{"past": p, "new": 4, "total": p + 4} for p in (0, 6)]
    with pytest.raises(SpecError, match=r"past \+ new is 12; expected total in 1..10"):
        sizes_of(Dims(), [])  # type: ignore[arg-type]
    every = ",".join(map(str, range(9)))
    with pytest.raises(SpecError, match=f"72 sizes because each is timed; expected at most {MOST}"):
        sizes_of(Dims(), [f"past={every},{every}", "new=1,2,3,4"])  # type: ignore[arg-type]
