"""Parts of a tuning from installed packages: loaded by name, checked, resumed, named in errors."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

import ansorpy
from ansorpy.errors import PluginError, SpecError
from ansorpy.events import Derived, Event, Finished, Plugged, Started
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.backend import DEVICE
from ansorpy.measure.estimates import EstimatePool
from ansorpy.measure.local import LocalPool
from ansorpy.measure.measured_by import MeasurerSlot
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.progress import as_line
from ansorpy.records import MEASURED_BY, MemoryStore, RecordStore
from ansorpy.sketch import derive
from ansorpy.target import Target, cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d
from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts
from ansorpy.tuner.options.plugins import (
    COST_MODELS,
    GROUPS,
    MEASURERS,
    SEARCHES,
    chosen_part,
    plugins,
)
from ansorpy.tuner.options.tune_options import TuneOptions
from ansorpy.tuner.parts.plugged import generator_of, measurer_of, strategy_of
from ansorpy.tuner.parts.pools import Pools, back_end_of
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tune import run
from tests.fakes import FakePool, fake_pools, pools_of
from tests.tuner.test_checkpoint import Killed, Ledger
from tests.tuner.test_checkpoint import events as ledger_events
from tests.tuner.test_device_delivery import manifest_of

pytestmark = pytest.mark.usefixtures("few_candidates")

MM = "def mm(float(24,32) A, float(32,16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
EXAMPLE = Path(__file__).parents[2] / "examples" / "parts"
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path / "site", monkeypatch)


def installer(site: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that lays a package into a folder of the module path, as pip does."""
    site.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(str(site))

    def laid(name: str, points: str, code: str = "") -> Path:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        if code:
            (site / f"{name}.py").write_text(code)
        return site

    return laid


def install_example(install: Install) -> None:
    """Install the package of `examples/parts` with the entry points of its pyproject.toml."""
    import tomllib

    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {place}" for name, place in points.items()))
    ]
    site = install("example_parts", "\n".join(lines))
    shutil.copytree(EXAMPLE / "example_parts", site / "example_parts", dirs_exist_ok=True)


def request(**options: Any) -> Request:
    return Request(parse(MM), Target(cores=2), **{"trials": 16, **options})


def events(
    out: Path,
    store: RecordStore | None = None,
    **options: Any,
) -> Iterator[Event]:
    asked = request(**options)
    store = MemoryStore() if store is None else store
    pools = fake_pools() if asked.measurer == MEASURERS.default else measurer_pools(asked)
    return run(asked, find_rules("cpu"), store, out, pools=pools)


def measurer_pools(asked: Request) -> Callable[[], Pools]:
    """Return pools in this process whose trials the measuring back end of a request times."""
    measurer = measurer_of(asked, chosen_part(MEASURERS, asked))

    def open_pool(dag: Dag, target: Target) -> MeasurePool:
        pool = FakePool(dag, target)
        pool.batches.slot = MeasurerSlot(measurer, dag, pool.batches.slot)
        return pool

    return pools_of(open_pool)


def test_parts_of_the_example_have_less_than_50_lines() -> None:
    for path in (EXAMPLE / "example_parts").glob("*.py"):
        assert len(path.read_text().splitlines()) < 50, path


@pytest.mark.slow
def test_the_example_tunes_a_kernel_that_is_verified(install: Install, tmp_path: Path) -> None:
    install_example(install)
    told: list[Event] = []
    store = MemoryStore()
    result = ansorpy.tune(
        MM, trials=16, cost_model="neighbours", search="annealing", space="few-steps",
        measurer="code-size", out=tmp_path / "out", store=store, progress=False,
        on_event=told.append,
    )  # fmt: skip
    (task,) = result.tasks
    assert task.verified
    assert task.trials == 16
    lines = [as_line(one) for one in told if isinstance(one, Plugged)]
    assert lines == [
        "cost_model neighbours of example_parts 1.0",
        "search annealing of example_parts 1.0",
        "space few-steps of example_parts 1.0",
        "measurer code-size of example_parts 1.0",
    ]
    trials = [one for one in store.export() if one.race is None]
    sizes = [one.best_s / 1e-9 for one in trials if one.best_s is not None]
    assert len(sizes) == 16
    assert all(size > 500 and abs(size - round(size)) < 1e-6 for size in sizes), "whole bytes"
    assert task.kernel is not None
    assert manifest_of(task.kernel)["parts"] == {
        "cost_model": {"name": "neighbours", "package": "example_parts 1.0"},
        "measurer": {"name": "code-size", "package": "example_parts 1.0"},
        "search": {"name": "annealing", "package": "example_parts 1.0"},
        "space": {"name": "few-steps", "package": "example_parts 1.0"},
    }


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, ()),
        ({"search": "random"}, (("search", "random", f"ansorpy {version('ansorpy')}"),)),
        ({"search": "annealing"}, (("search", "annealing", "example_parts 1.0"),)),
    ],
)
def test_records_tell_the_parts_that_were_chosen(
    install: Install, tmp_path: Path, options: dict[str, Any], parts: tuple[object, ...]
) -> None:
    install_example(install)
    store = MemoryStore()
    told = run(request(**options, trials=4), find_rules("cpu"), store, tmp_path, pools=fake_pools())
    *_, end = told
    assert isinstance(end, Finished)
    (task,) = end.results
    assert {record.parts for record in store.all(task.key)} == {parts}


def test_plugins_are_listed_after_ours_and_without_an_import(install: Install) -> None:
    points = "[ansorpy.searches]\nmine = bad_part:Mine\nrandom = bad_part:Random\n"
    install("bad_part", points, "1 / 0")
    found = [(one.name, one.package) for one in plugins(SEARCHES)]
    ours = [("evolution", "ansorpy"), ("random", "ansorpy")]
    assert found == [*ours, ("mine", "bad_part 1.0")], "a built-in name is not replaced"
    assert [one.name for one in plugins(COST_MODELS)] == ["trees", "analytic"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search": "mine"}, "with search 'mine' because no search strategy of this name is"
         " installed; expected evolution, random"),
        ({"cost_model": "../x"}, "with cost_model '../x'; expected a name like"),
        ({"measurer": "mine"}, "with measurer 'mine' because no measuring back end of this name is"
         " installed; expected auto, estimates"),
        ({"measurer": "estimates"}, "with measurer estimates for cpu because only kernels for a GPU"
         " are estimated; expected measurer auto"),
    ],
)  # fmt: skip
def test_a_choice_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        request(**options)
    assert f"cannot tune {message}" in str(caught.value)


def test_a_search_of_a_package_is_refused_with_deterministic(install: Install) -> None:
    install_example(install)
    with pytest.raises(SpecError) as caught:
        request(search="annealing", deterministic=True)
    assert str(caught.value) == (
        "cannot tune with search of a package and deterministic because nothing shows that code of"
        " packages repeats itself; expected evolution or random"
    )
    assert request(search="random", deterministic=True).search == "random"


def test_a_name_of_two_packages_is_refused(install: Install) -> None:
    for name in ("part_a", "part_b"):
        install(name, f"[ansorpy.searches]\nmine = {name}:Mine\n", "class Mine: ...")
    with pytest.raises(SpecError, match=r"part_a 1\.0 and part_b 1\.0 offer this name"):
        request(search="mine")


PROPOSES = """
from ansorpy.search import Candidate
class Mine:
    def __init__(self, target, seed): ...
    def propose(self, view, count, rng):
        """
SCORES = """
class Mine:
    def __init__(self, target, seed): ...
    def update(self, samples): ...
    def predict(self, batches, task=""):
        """
TIMES = """
from ansorpy.measure.outcome import Failed, Measured
class Mine:
    def __init__(self, target, seed): ...
    def measure(self, trial, dag):
        """
HANGS = "import time; time.sleep(1e6)\n    timeout_s = 0.2"
MAKES = """
from dataclasses import replace
from ansorpy.sketch import derive
class Mine:
    def __init__(self, target, seed): ...
    def sketches(self, dag, target, rules):
        """
REPEATS = "return [one] if (one := next(iter(view.costs_s), None)) else view.random(count, rng)"


@pytest.mark.parametrize(
    ("option", "code", "why"),
    [
        ("search", "1 / 0", "its import raised ZeroDivisionError: division by zero"),
        ("search", "import no_such_module", "its import raised ModuleNotFoundError: No module"),
        ("search", "class Other: ...", "its import raised AttributeError: module"),
        ("search", "raise SystemExit(3)", "its import raised SystemExit: 3"),
        ("search", "def Mine(): ...", "its factory raised TypeError: Mine() takes 0"),
        ("search", "def Mine(target, seed): ...", "its factory returned NoneType, which has no"
         " method propose"),
        ("search", PROPOSES + "return view.plans[999]", "propose raised IndexError"),
        ("search", PROPOSES + "return 5", "propose raised TypeError"),
        ("search", PROPOSES + "return [(0, 1)]", "propose returned tuple, not a Candidate"),
        ("search", PROPOSES + "return [Candidate(-1, ())]", "propose returned a candidate of plan"
         " -1, and there are"),
        ("search", PROPOSES + "return [Candidate(0, (1,) * 99)]", "propose returned a row that is"
         " no tuple of"),
        ("search", PROPOSES + "return [Candidate(0, (7,) * len(view.plans[0].sizes))]",
         "propose returned row (7,"),
        ("search", PROPOSES + "return view.random(2 * count, rng)", "propose returned"),
        ("search", PROPOSES + "return view.random(1, rng) * 2", "propose returned a candidate"
         " twice"),
        ("search", PROPOSES + REPEATS, "propose returned a candidate that was proposed before"),
        ("cost_model", SCORES + "return [b[:, 0, 0].astype(str) + 'x' for b in batches]",
         "predict raised ValueError"),
        ("cost_model", SCORES + "return []", "predict returned 0 arrays for"),
        ("cost_model", SCORES + "return [b[:, 0] for b in batches]", "predict returned scores of"
         " shape"),
        ("cost_model", SCORES + "return [0 * b[:, 0, 0] - float('inf') for b in batches]",
         "predict returned a score that is not finite"),
        ("space", "class Mine:\n    def __init__(self, target, seed): ...",
         "its factory returned Mine, which has no method sketches"),
        ("space", MAKES + "return 1 / 0", "sketches raised ZeroDivisionError"),
        ("space", MAKES + "return 5", "sketches raised TypeError"),
        ("space", MAKES + "return []", "sketches returned 0 sketches; expected 1 to 2048"),
        ("space", MAKES + "return [dag]", "sketches returned sketch 0, which is Dag, not a State"),
        ("space", MAKES + "return [replace(one, steps=()) for one in derive(dag, target, rules)"
         ".sketches]", "sketches returned sketch 0, which its steps do not make of 'mm'"),
        ("space", MAKES + "return replace(derive(dag, target, rules), visits=())", "sketches raised"
         " IndexError"),
        ("measurer", "class Mine:\n    def __init__(self, target, seed): ...",
         "its factory returned Mine, which has no method measure"),
        ("measurer", TIMES + "return 1 / 0", "measure raised ZeroDivisionError"),
        ("measurer", TIMES + "return 1e-3", "measure returned 0.001, neither Measured nor Failed"),
        ("measurer", TIMES + "return Failed('slow', '')", "measure returned Failed(kind='slow'"),
        ("measurer", TIMES + "return Measured(())", "measure returned samples [], which are no"),
        ("measurer", TIMES + "return Measured((0.0,))", "measure returned samples [0.0], which"),
        ("measurer", TIMES + "return Measured((1e-3, float('nan')))", "measure returned samples"),
        ("measurer", TIMES + "return Measured(('x',))", "measure raised ValueError"),
        ("measurer", TIMES + HANGS, "measure gave no answer in 0.2 s"),
        ("measurer", TIMES + "...\n    timeout_s = '9'", "timeout_s is 9, no number of"),
        ("measurer", TIMES + "...\n    timeout_s = 0", "timeout_s is 0, no number of"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_named_with_its_package_and_stage(
    install: Install, tmp_path: Path, option: str, code: str, why: str
) -> None:
    (group,) = (one for one in GROUPS if one.option == option)
    name = f"wrong_{abs(hash((option, code)))}"
    install(name, f"[{group.points}]\nmine = {name}:Mine\n", code)
    with pytest.raises(PluginError) as caught:
        list(events(tmp_path / "out", **cast(dict[str, Any], {option: "mine"})))
    assert f"cannot tune with {group.kind} mine of {name} 1.0 because {why}" in str(caught.value)
    assert str(caught.value).endswith(f"or {option} {group.default}")


def test_the_memory_of_a_strategy_is_restored_from_the_checkpoint(
    install: Install, tmp_path: Path
) -> None:
    install_example(install)
    options: dict[str, Any] = {"search": "annealing", "cost_model": "neighbours"}
    whole, ledger = Ledger(), Ledger()
    list(ledger_events(whole, tmp_path / "a", MM, **options))
    assert len(whole.rounds) > 2
    ledger.calls_left = 3  # the second round is stored, and the process dies after it
    with pytest.raises(Killed):
        list(ledger_events(ledger, tmp_path / "b", MM, **options))
    (memory,) = json.loads(ledger.checkpoint)["searches"].values()
    assert 0 < memory < 1
    ledger.calls_left = 10**9
    list(ledger_events(ledger, tmp_path / "c", MM, **options))
    assert ledger.trials() == whole.trials()


def test_a_strategy_without_memory_is_told_to_start_anew(install: Install, tmp_path: Path) -> None:
    code = PROPOSES + "return view.random(count, rng)"
    install("plain_part", "[ansorpy.searches]\nplain = plain_part:Mine\n", code)
    told = list(events(tmp_path, search="plain", trials=8))
    (event,) = [one for one in told if isinstance(one, Plugged)]
    assert as_line(event) == (
        "search plain of plain_part 1.0; after an interruption it starts without its memory"
    )
    assert isinstance(told[-1], Finished)
    assert told[-1].results[0].trials == 8


def test_each_task_has_a_strategy_of_its_own(install: Install) -> None:
    install_example(install)
    asked = request(search="annealing")
    assert strategy_of(asked) is not strategy_of(asked)


@pytest.mark.parametrize("name", ["evolution", "random"])
def test_built_in_searches_measure_every_trial(tmp_path: Path, name: str) -> None:
    *_, end = events(tmp_path, search=name, trials=16)
    assert isinstance(end, Finished)
    assert end.results[0].trials == 16


def install_clock(install: Install) -> None:
    code = TIMES + "return Measured((1e-9 * len(trial.built.text),))"
    install("clock_part", "[ansorpy.measurers]\nclock = clock_part:Mine\n", code)


def test_times_of_another_back_end_and_ours_stay_apart(install: Install, tmp_path: Path) -> None:
    install_clock(install)
    store = MemoryStore()
    options: dict[str, Any] = {"store": store, "trials": 16}
    list(events(tmp_path, **options, measurer="clock"))
    (key,) = {one.key for one in store.export()}
    assert MEASURED_BY in key
    assert len(key) <= 128, "the column of a key"

    started, *_, end = events(tmp_path, **options)
    assert isinstance(started, Started)
    assert isinstance(end, Finished)
    assert started.known == (0,)
    assert (end.stopped, end.results[0].trials) == ("trials", 16)
    (own,) = {one.key for one in store.export()} - {key}
    assert own == key.partition(MEASURED_BY)[0]

    *_, end = events(tmp_path, **options, measurer="clock")
    assert isinstance(end, Finished)
    assert end.stopped == "store", "the same back end answers the same request"


def test_a_measuring_back_end_takes_code_of_processors(install: Install) -> None:
    install_clock(install)
    with pytest.raises(SpecError) as caught:
        Request(parse(MM), cuda_target("sm_80"), measurer="clock")
    assert str(caught.value) == (
        "cannot tune with measurer of a package for cuda because plug-ins take machine code of"
        " processors; expected target cpu"
    )


def test_a_request_for_estimates_does_not_use_the_present_gpu() -> None:
    target = cuda_target("sm_80")
    with patch("ansorpy.tuner.requests.request.device_of", lambda _: DEVICE):
        asked = [
            Request.of(TuneOptions(measurer=m), parse(MM), target) for m in ("auto", "estimates")
        ]
    kinds = []
    for one in asked:
        with closing(back_end_of(one, MeasureSettings())) as back_end:
            pool = back_end.open(one.dags[0], target, 0)
            kinds.append(type(pool))
            pool.close()
    assert kinds == [LocalPool, EstimatePool]
    assert [one.estimated for one in asked] == [False, True]


def test_a_measuring_back_end_times_no_whole_model() -> None:
    with pytest.raises(SpecError) as caught:
        check_conflicts(TuneOptions(measurer="estimates"), RequestKind(model=True))
    assert str(caught.value) == (
        "cannot tune a model with measurer because times of this machine choose its parts; expected"
        " measurer auto"
    )


def test_a_measuring_back_end_needs_trials(install: Install) -> None:
    install_clock(install)
    with pytest.raises(SpecError, match="with measurer and 0 trials because it measures"):
        request(measurer="clock", trials=0)


def test_a_space_has_the_sketches_of_its_generator_and_records_of_its_own(
    install: Install, tmp_path: Path
) -> None:
    install_example(install)
    options: dict[str, Any] = {"store": MemoryStore(), "trials": 8}
    ours = list(events(tmp_path, **options))
    few = list(events(tmp_path, **options, space="few-steps"))
    counts = [
        next(one.sketches or 0 for one in told if isinstance(one, Derived)) for told in (ours, few)
    ]
    assert counts[1] == (counts[0] + 1) // 2
    for told in (ours, few):
        assert isinstance(told[0], Started)
        assert told[0].known == (0,), "records of the other space start nothing"
        assert isinstance(told[-1], Finished)
        assert (told[-1].stopped, told[-1].results[0].trials) == ("trials", 8)
    *_, end = events(tmp_path, **options, space="few-steps")
    assert isinstance(end, Finished)
    assert end.stopped == "store"
    names = {one.rules.partition("@")[0] for one in options["store"].export()}
    assert names == {"cpu", "few-steps"}


def test_a_generator_changes_rounding_only_with_the_consent_of_the_request(
    install: Install,
) -> None:
    code = MAKES + "return derive(dag, target, rules)"
    install("round_part", "[ansorpy.spaces]\nmine = round_part:Mine\n", code)
    rules = find_rules("cpu", ["winograd2"])
    dag = conv2d(1, 8, 8, 8, 8, 3, Window(padding=1))
    refused = Request((dag,), Target(vector_bits=256, registers=16), space="mine")
    with pytest.raises(PluginError, match=r"sketches returned sketch \d+, which changes rounding"):
        generator_of(refused)(dag, refused.target, rules)
    allowed = Request(
        (dag,), Target(vector_bits=256, registers=16), space="mine", allow=["winograd2"]
    )
    found = generator_of(allowed)(dag, allowed.target, rules)
    assert found == derive(dag, allowed.target, rules)


def test_a_generated_space_is_of_one_task_in_mode_auto(install: Install) -> None:
    install_example(install)
    with pytest.raises(SpecError, match="space in mode manual because its candidates"):
        request(space="few-steps", mode="manual", schedule="C.split(i, inner=[2])")
    with pytest.raises(SpecError, match="a model with space because rules choose its"):
        check_conflicts(TuneOptions(space="few-steps"), RequestKind(model=True))
