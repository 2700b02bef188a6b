"""The commands of bundles: run and bench, with real bundles and wrong input."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ansorpy.bundle.container import write_bundle
from ansorpy.bundle.steps import KernelStep
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


def test_bench_profile_has_the_times_inside_and_alone_of_every_kernel(
    bundle: Path, made: Model
) -> None:
    asked = ["bench", str(bundle), "--seconds", "0.1", "--rounds", "1", "--profile"]
    done = RUN.invoke(app, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["name"]: row for row in json.loads(done.stdout)["profile"]}
    steps = [step.kernel for step in made.plan.steps if isinstance(step, KernelStep)]
    assert {n: row["calls"] for n, row in rows.items() if row["alone_s"] is not None} == Counter(
        steps
    )
    assert all(row["inside_s"] > 0 for row in rows.values())
    assert not any(row["hosted"] for row in rows.values())
    done = RUN.invoke(app, asked)
    assert "hosted by NumPy: 0.0% of the time" in done.stdout
    assert all(name[:24] in done.stdout for name in steps)


def test_bench_profile_tells_the_share_of_hosted_functions(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "hosted.zip", with_self_test(model(hosted=True)))
    asked = ["bench", str(path), "--seconds", "0.1", "--rounds", "1", "--profile", "--json"]
    done = RUN.invoke(app, asked)
    assert done.exit_code == 0, done.output
    hosted = [row for row in json.loads(done.stdout)["profile"] if row["hosted"]]
    assert [(row["name"], row["calls"], row["alone_s"]) for row in hosted] == [
        ("sort_along", 1, None)
    ]
    assert hosted[0]["nodes"] == ["TopK_7"]


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
