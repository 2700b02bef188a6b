"""`ansorpy.tune` and `ansorpy.load` for every kind of request and file."""

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ansorpy
from ansorpy.artifact import LoadedKernel, unpack
from ansorpy.bundle.load import LoadedModel
from ansorpy.errors import PackageError, SpecError
from ansorpy.frontends.json.write import dumps
from ansorpy.frontends.tc.text import parse
from ansorpy.importers.model_file import read_model
from ansorpy.model import entry, torch_compile
from ansorpy.model.compile import ModelResult
from ansorpy.records import MemoryStore
from tests.artifact.test_pack import packed
from tests.model.test_judge import model_file

MM = "def mm(float(8,9) A, float(9,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
DAG = parse(MM, {"N": 16})[0]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The Dags and options of every tuning of Dags, which is not begun."""
    seen: list[Any] = []

    def record(dags: Any, options: Any, *_: object, **__: object) -> None:
        seen.append((dags, options))

    monkeypatch.setattr(entry, "tune_dags", record)
    return seen


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "what",
    [
        lambda _: DAG,
        lambda _: [DAG],
        lambda _: MM,
        lambda _: dumps(DAG),
        lambda folder: written(folder, "mm.te", MM),
        lambda folder: str(written(folder, "mm.te", MM)),
        lambda folder: written(folder, "mm.json", dumps(DAG)),
    ],
    ids=["dag", "dags", "text", "json", "path", "path as text", "json file"],
)
def test_every_form_of_a_dag_is_one_request(
    asked: list[Any], tmp_path: Path, what: Callable[[Path], Any]
) -> None:
    ansorpy.tune(what(tmp_path), bind={"N": 16}, trials=7)
    (dags, options) = asked[0]
    assert dags == (DAG,)
    assert options.trials == 7


def test_trials_per_task_count_the_dags(asked: list[Any]) -> None:
    ansorpy.tune(f"{MM} {MM.replace('mm', 'other')}", bind={"N": 16}, trials_per_task=5)
    assert asked[0][1].trials == 10


@pytest.mark.parametrize("as_graph", [False, True])
def test_a_model_becomes_a_bundle_that_load_opens(tmp_path: Path, as_graph: bool) -> None:
    path = model_file(tmp_path)
    result = ansorpy.tune(
        read_model(path) if as_graph else str(path), trials=0, race=False, store=MemoryStore(),
        out=tmp_path / "out.zip", progress=False,
    )  # fmt: skip
    assert isinstance(result, ansorpy.ModelResult)
    with ansorpy.load(result.bundle) as model:
        assert isinstance(model, LoadedModel)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(model(x=x), x)
    with ansorpy.load(str(result.bundle), threads=1, verify=False) as model:
        assert model.threads == 1


class Module:
    """Stands for `torch.nn.Module`."""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of every tuning of a module, which is not begun."""
    seen: list[Any] = []
    export = SimpleNamespace(ExportedProgram=SimpleNamespace)
    torch = SimpleNamespace(nn=SimpleNamespace(Module=Module), export=export)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(torch_compile, "tune_module", lambda *given, **_: seen.append(given))
    return seen


def test_a_module_goes_to_the_tuning_of_modules(modules: list[Any]) -> None:
    module, x = Module(), np.ones((2, 3))
    ansorpy.tune(module, args=x, kwargs={"y": x}, trials=3)
    (given,) = modules
    assert given[0] is module
    assert given[1] is x
    assert given[5].trials == 3


def test_the_signature_of_the_tuning_of_modules_is_that_of_its_call() -> None:
    names = list(inspect.signature(torch_compile.tune_module).parameters)
    assert names[:5] == ["module", "args", "kwargs", "dynamic_shapes", "bind"]
    assert names[5:7] == ["options", "target"]


@pytest.mark.parametrize(
    ("what", "options", "message"),
    [
        (DAG, {"shapes": {"x": (1,)}}, "cannot tune Dags with shapes because models alone take it;"
         " expected a call without shapes"),
        (DAG, {"args": np.ones(3)}, "cannot tune Dags with args because modules alone take it;"
         " expected a call without args"),
        (DAG, {"hosted": True}, "cannot tune Dags with hosted because models alone take it;"
         " expected a call without hosted"),
        ("m.zip", {}, "cannot tune m.zip because it is tuned already; expected"
         " ansorpy.load('m.zip')"),
        ("none.te", {}, "cannot tune none.te because there is no such file; expected a Dag,"
         " several Dags, a text of definitions, the path of such a text, of an ONNX model or of a"
         " .graph.json, a graph, or a module of PyTorch"),
        (Path("/"), {}, "cannot tune / because it is a folder; expected a Dag, several Dags, a"
         " text of definitions, the path of such a text, of an ONNX model or of a .graph.json, a"
         " graph, or a module of PyTorch"),
        (3, {}, "cannot tune int '3'; expected a Dag, several Dags, a text, a file, a graph or a"
         " module of PyTorch"),
        (MM, {"bind": {"N": 1.5}}, "bind: N is 1.5, not an integer 1 to 2147483647"),
    ],
)  # fmt: skip
def test_a_request_of_a_wrong_kind_is_told(
    what: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        ansorpy.tune(what, **options)
    assert str(caught.value) == message


def test_a_model_takes_no_options_of_dags(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    with pytest.raises(SpecError, match="a model with own because its tasks end without a race"):
        ansorpy.tune(path, own=len)
    with pytest.raises(SpecError, match="because there is no such file"):
        ansorpy.tune(tmp_path / "none.onnx")
    with pytest.raises(SpecError, match="because there is no such file"):
        ansorpy.tune("x" * 100_000)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="because it is no text; expected a Dag"):
        ansorpy.tune(path)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(DAG, tmp_path_factory.mktemp("mm"))[0]


def operands() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.random((8, 9), np.float32), rng.random((9, 16), np.float32)


def test_a_kernel_is_loaded_from_its_zip_and_from_its_folder(kernel: Path, tmp_path: Path) -> None:
    unpack(kernel, tmp_path)
    a, b = operands()
    zipped, unpacked = ansorpy.load(kernel), ansorpy.load(tmp_path)
    assert isinstance(zipped, LoadedKernel)
    assert isinstance(unpacked, LoadedKernel)
    assert unpacked.digest == zipped.digest
    np.testing.assert_allclose(unpacked(a, b), a @ b, rtol=1e-5)


def test_a_changed_folder_and_other_files_are_refused(kernel: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    folder.mkdir()
    with pytest.raises(PackageError, match=r"because it has no manifest\.json; expected the fold"):
        ansorpy.load(folder)
    unpack(kernel, folder)
    (folder / "kernel.py").write_text((folder / "kernel.py").read_text() + "\n")
    with pytest.raises(PackageError, match="a file differs from the packed one"):
        ansorpy.load(folder)
    (folder / "manifest.json").write_text("[]")
    with pytest.raises(PackageError, match=r"manifest\.json: 'list' object"):
        ansorpy.load(folder)
    with pytest.raises(PackageError, match="with threads=2 because a kernel has those of its tun"):
        ansorpy.load(kernel, threads=2)
    other = written(tmp_path, "other.zip", json.dumps({}))
    with pytest.raises(PackageError, match=r"other\.zip: not a kernel package"):
        ansorpy.load(other)


def test_a_kernel_takes_names_and_out(kernel: Path) -> None:
    mm = ansorpy.load(kernel)
    a, b = operands()
    wanted, out = mm(a, b), np.zeros((8, 16), np.float32)
    np.testing.assert_array_equal(mm(A=a, B=b), wanted)
    np.testing.assert_array_equal(mm({"B": b, "A": a}), wanted)
    assert mm(B=b, A=a, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: mm(a, B=b), "positional arrays, B were given; expected A, B"),
        (lambda: mm(A=a), "A were given; expected A, B"),
        (lambda: mm(A=a, b=b), "A, b were given; expected A, B"),
    ]
    for call, told in wrong:
        with pytest.raises(TypeError, match=f"^cannot run mm because {told}$"):
            call()
    with pytest.raises(ValueError, match="C"):
        mm(a, b, out=np.zeros((8, 15), np.float32))
    assert ModelResult is ansorpy.ModelResult
