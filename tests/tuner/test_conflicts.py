"""Each row of the table of conflicts is refused with the same words on every surface."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ansorpy
from ansorpy.errors import SpecError
from ansorpy.server.cli import app
from ansorpy.tuner.options.conflicts import CONFLICTS, Conflict, RequestKind, check_conflicts
from ansorpy.tuner.options.option import definitions
from ansorpy.tuner.options.tune_options import TuneOptions
from tests.server.onnx_models import small
from tests.server.service import MM, Service, service

STEPS = {"steps": [["SP", "C", "i", 2, [2]]]}
KNOBS = {
    "knobs": {"tile": {"split": "C.j", "num_outputs": 2}},
    "steps": [["SP", "C", "j", 2, {"knob": "tile"}]],
}
MANUAL = {"mode": "manual", "schedule": STEPS}
TEMPLATE = {"mode": "template", "template": KNOBS}
SURE = {"deterministic": True}
MANY = {"objective": "throughput", "cores": 2}
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "command-line.md"


@dataclass(frozen=True)
class Case:
    """A request with one conflict."""

    options: Mapping[str, Any] = field(default_factory=dict)
    source: str = "task"
    target: str = "cpu"
    own: bool = False


def gpu(**options: Any) -> Case:
    return Case(options, target="cuda:sm_90")


CASES = {
    "a model with mode {mode}": Case(MANUAL, "model"),
    "a model with measurer": Case({"measurer": "estimates"}, "model"),
    "a model with space": Case({"space": "mine"}, "model"),
    "a model with deterministic": Case(SURE, "model"),
    "a model with weights": Case({"weights": {"mm": 2.0}}, "model"),
    "a model with program_weights_bytes": Case({"program_weights_bytes": 1}, "model"),
    "a model for throughput": Case(MANY, "model"),
    "a model for cuda": Case(source="model", target="cuda:sm_90"),
    "with mode manual": Case({"mode": "manual"}),
    "with mode template": Case({"mode": "template"}),
    "with a schedule in mode {mode}": Case({"schedule": STEPS}),
    "with a template in mode {mode}": Case({"template": KNOBS}),
    "several tasks with mode {mode}": Case(MANUAL, "tasks"),
    "with mode {mode} for cuda": gpu(**MANUAL),
    "with mode template and 0 trials": Case({**TEMPLATE, "trials": 0}),
    "with tuner in mode {mode}": Case({"tuner": "grid"}),
    "with search in mode {mode}": Case({**MANUAL, "search": "random"}),
    "with space in mode {mode}": Case({**MANUAL, "space": "mine"}),
    "with measurer and 0 trials": Case({"measurer": "mine", "trials": 0}),
    "with seconds and deterministic": Case({**SURE, "seconds": 5.0}),
    "with fresh and deterministic": Case({**SURE, "fresh": True}),
    **{
        f"with {name} of a package and deterministic": Case({**SURE, name: "mine"})
        for name in ("cost_model", "search", "space", "measurer")
    },
    "with measurer estimates for cpu": Case({"measurer": "estimates"}),
    "with measurer of a package for cuda": gpu(measurer="mine"),
    "with target_latency_s for this GPU": gpu(target_latency_s=1.0),
    "with stop_if_gain_below for this GPU": gpu(stop_if_gain_below=0.1),
    "with network_targets_s for this GPU": gpu(network_targets_s={"a": 1.0}),
    "with task_targets_s for this GPU": gpu(task_targets_s={"mm": 1.0}),
    "for throughput on cuda": gpu(**MANY),
    "for throughput with target_latency_s": Case({**MANY, "target_latency_s": 1.0}),
    "for throughput with measurer": Case({**MANY, "measurer": "mine"}),
    "for throughput with program_weights_bytes": Case({**MANY, "program_weights_bytes": 1}),
    "for throughput on 1 core": Case({**MANY, "cores": 1}),
    **{
        f"with objective {{objective}} and {name}": Case(
            {"objective": "speedup", name: {"mm": 1.0}}
        )
        for name in ("network_targets_s", "task_targets_s")
    },
    "with network_targets_s and task_targets_s": Case(
        {"network_targets_s": {"a": 1.0}, "task_targets_s": {"mm": 1.0}}
    ),
    "with dims for cuda": Case(source="dims", target="cuda:sm_90"),
    "with dims in mode {mode}": Case(MANUAL, "dims"),
    "with dims and measurer": Case({"measurer": "mine"}, "dims"),
    "with dims and space": Case({"space": "mine"}, "dims"),
    "with dims and program_weights_bytes": Case({"program_weights_bytes": 1}, "dims"),
    "with dims and own": Case(source="dims", own=True),
    "with own for cuda": Case(target="cuda:sm_90", own=True),
    "with own and 0 trials": Case({"trials": 0}, own=True),
    "a model with own": Case(source="model", own=True),
    "with own and program_weights_bytes": Case({"program_weights_bytes": 1}, own=True),
    "for throughput with own": Case(MANY, own=True),
}
TWO = f"{MM} def nn(float(4) A) -> (B) {{ B(i) = A(i) }}"
DIMS = "def nn(float(N in 1..4) A) -> (B) { B(i) = A(i) }"
TEXTS = {"task": MM, "tasks": TWO, "dims": DIMS}


def words(row: Conflict, case: Case) -> str:
    told = {"mode": case.options.get("mode", "auto"), "objective": case.options.get("objective")}
    return f"cannot tune {row.what.format(**told)} because {row.reason}; expected {row.expected}"


def by_python(case: Case, folder: Path) -> str:
    what = small(folder / "model.onnx") if case.source == "model" else TEXTS[case.source]
    own: Callable[..., Any] | tuple[()] = np.matmul if case.own else ()
    options: dict[str, Any] = {"own": own, "target": case.target, **case.options}
    options["bind"] = {"batch": 1} if case.source == "model" else {}
    with pytest.raises(SpecError) as caught:
        ansorpy.tune(what, out=folder / "kernels", **options)
    return str(caught.value)


def by_command(case: Case, folder: Path, package: Path) -> str:
    file = folder / "mm.te"
    if case.source == "model":
        file = small(folder / "model.onnx")
    else:
        file.write_text(TEXTS[case.source])
    arguments = ["tune", str(file), "--target", case.target, "--out", str(folder / "kernels")]
    arguments += ["--own", str(package)] if case.own else []
    arguments += ["--bind", "batch=1"] if case.source == "model" else []
    known = definitions(TuneOptions)
    for name, value in case.options.items():
        flag = "--" + (known[name].option.command or name.replace("_", "-"))
        match value:
            case True:
                arguments.append(flag)
            case {"steps": _}:
                document = folder / f"{name}.json"
                document.write_text(json.dumps(value))
                arguments += [flag, str(document)]
            case dict():
                arguments += [part for key in value for part in (flag, f"{key}={value[key]}")]
            case _:
                arguments += [flag, str(value)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    return done.stderr.strip().removeprefix("ansorpy: ")


def by_rest(case: Case, folder: Path, running: Service) -> tuple[str, str]:
    known = definitions(TuneOptions)
    body: dict[str, Any] = {"target": case.target, "budget": {}}
    for name, value in case.options.items():
        (body["budget"] if known[name].option.budget else body)[name] = value
    if case.source == "model":
        body["model"] = running.put_model(small(folder / "model.onnx").read_bytes())
        body["bind"] = {"batch": 1}
    else:
        body["text"] = TEXTS[case.source]
    reply = running.client.post("/v1/jobs", json=body)
    assert reply.status_code == 422, reply.text
    told = reply.json()
    return told["detail"], told["errors"][0]["place"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(f"sqlite:///{tmp_path_factory.mktemp('service') / 'a.db'}") as found:
        yield found


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.server.service import package as content

    place = tmp_path_factory.mktemp("package") / "mm.zip"
    place.write_bytes(content())
    return place


def test_each_row_has_a_case() -> None:
    whats = [row.what for row in CONFLICTS]
    assert len(set(whats)) == len(whats)
    assert set(CASES) == set(whats)


@pytest.mark.parametrize("row", CONFLICTS, ids=lambda row: row.what)
def test_each_conflict_is_refused_with_the_same_words(
    row: Conflict, running: Service, package: Path, tmp_path: Path
) -> None:
    case = CASES[row.what]
    assert by_python(case, tmp_path) == words(row, case)
    assert by_command(case, tmp_path, package) == words(row, case)
    if row.place:
        assert by_rest(case, tmp_path, running) == (words(row, case), row.place)


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({}, RequestKind("cpu", 3, 2)),
        ({}, RequestKind("cpu", 0, 2, model=True)),
        ({"measurer": "estimates"}, RequestKind("cuda", 1, 2, estimated=True)),
        ({**SURE, "search": "random"}, RequestKind("cpu", 1, 2)),
        (MANUAL, RequestKind("cpu", 1, 1)),
        ({**TEMPLATE, "tuner": "grid"}, RequestKind("cpu", 1, 1)),
        (MANY, RequestKind("cpu", 2, 2)),
        ({"objective": "speedup", "seconds": 5.0}, RequestKind("cpu", 2, 2, own=True)),
        ({"task_targets_s": {"mm": 1.0}}, RequestKind("cpu", 0, 2, model=True)),
    ],
)
def test_a_request_without_a_conflict_passes(options: dict[str, Any], facts: RequestKind) -> None:
    check_conflicts(TuneOptions(**options), facts)


def test_the_table_of_the_documentation_is_current(request: pytest.FixtureRequest) -> None:
    """`--update-golden` writes the table."""
    head, begin, rest = DOCUMENTATION.read_text().partition("<!-- conflicts: begin -->\n")
    _, end, tail = rest.partition("<!-- conflicts: end -->\n")
    rows = ["| cannot tune | because | expected |", "|---|---|---|"]
    for row in CONFLICTS:
        what = row.what.format(mode="MODE", objective="OBJECTIVE")
        rows.append(f"| {what} | {row.reason} | {row.expected} |")
    expected = "".join([head, begin, *(f"{row}\n" for row in rows), end, tail])
    if request.config.getoption("--update-golden"):
        DOCUMENTATION.write_text(expected)
    assert DOCUMENTATION.read_text() == expected, "run with --update-golden"
