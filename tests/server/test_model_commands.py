"""The commands of bundles: run and bench, with real bundles and wrong input."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ansorpy.bundle.container import write_bundle
from ansorpy.server.cli import app
from tests.bundle.models import Model, model, with_self_test

RUN = CliRunner()


@pytest.fixture(scope="module")
def made() -> Model:
    return model(hosted=False)


@pytest.fixture(scope="module")
def bundle(made: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("bundle") / "model.zip", with_self_test(made))


def test_run_checks_the_sample(bundle: Path, tmp_path: Path) -> None:
    done = RUN.invoke(app, ["run", str(bundle), "--outputs", str(tmp_path / "out.npz")])
    assert done.exit_code == 0, done.output
    assert "as expected" in done.stderr
    with np.load(tmp_path / "out.npz") as file:
        assert file.files


def test_run_takes_arrays_of_a_file(bundle: Path, made: Model, tmp_path: Path) -> None:
    arrays = made.inputs(1)
    names = made.plan.inputs
    np.savez(tmp_path / "in.npz", **dict(zip(names, arrays, strict=True)))  # type: ignore[arg-type]
    out = tmp_path / "out.npz"
    done = RUN.invoke(
        app, ["run", str(bundle), "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out)]
    )
    assert done.exit_code == 0, done.output
    with np.load(out) as file:
        for name, wanted in zip(file.files, made.expected(*arrays), strict=True):
            np.testing.assert_allclose(file[name], wanted, rtol=1e-4, atol=1e-4)


def test_run_names_the_inputs_that_it_wants(bundle: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", frob=np.zeros(3))
    done = RUN.invoke(app, ["run", str(bundle), "--inputs", str(tmp_path / "in.npz")])
    assert done.exit_code == 2
    assert "because it has frob; expected" in done.stderr


def test_run_refuses_a_file_that_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK\3\4 but not ours")
    done = RUN.invoke(app, ["run", str(tmp_path / "model.zip")])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_bench_times_the_bundle_in_a_process_of_its_own(bundle: Path) -> None:
    done = RUN.invoke(app, ["bench", str(bundle), "--seconds", "0.1", "--rounds", "2", "--json"])
    assert done.exit_code == 0, done.output
    (ours,) = json.loads(done.stdout)["runtimes"]
    assert ours["failed"] is None
    assert len(ours["visits_s"]) == 2
    assert 0 < ours["least_s"] <= ours["median_s"]
    assert ours["ratio"] == 1


def test_bench_profile_lists_every_kernel(bundle: Path, made: Model) -> None:
    done = RUN.invoke(app, ["bench", str(bundle), "--seconds", "0.1", "--rounds", "1", "--profile"])
    assert done.exit_code == 0, done.output
    for kernel in made.plan.kernels:
        assert kernel.name[:24] in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--against", "frob"], "cannot race against 'frob'"),
        (["--against", "ort"], "expected --model FILE"),
        (["--model", "absent.onnx"], "cannot read absent.onnx"),
    ],
)
def test_bench_says_the_mistake(bundle: Path, arguments: list[str], reason: str) -> None:
    done = RUN.invoke(app, ["bench", str(bundle), *arguments])
    assert done.exit_code == 2
    assert reason in done.stderr
