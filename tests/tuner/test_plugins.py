"""Parts of a tuning from installed packages: loaded by name, checked, resumed, named in errors."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ansorpy
from ansorpy.errors import PluginError, SpecError
from ansorpy.events import Event, Finished, Plugged
from ansorpy.frontends.tc.text import parse
from ansorpy.progress import as_line
from ansorpy.records import MemoryStore
from ansorpy.target import Target
from ansorpy.tuner.plugged import strategy_of
from ansorpy.tuner.plugins import COST_MODELS, SEARCHES, plugins
from ansorpy.tuner.request import Request
from ansorpy.tuner.rules import find_rules
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools
from tests.tuner.test_checkpoint import Killed, Ledger
from tests.tuner.test_checkpoint import events as ledger_events

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
    return Request(parse(MM), Target(cores=2), **{"trials": 24, **options})


def events(out: Path, **options: Any) -> Iterator[Event]:
    rules = find_rules("cpu")
    return run(request(**options), rules, MemoryStore(), out, pools=fake_pools())


def test_parts_of_the_example_have_less_than_50_lines() -> None:
    for path in (EXAMPLE / "example_parts").glob("*.py"):
        assert len(path.read_text().splitlines()) < 50, path


@pytest.mark.slow
def test_the_example_tunes_a_kernel_that_is_verified(install: Install, tmp_path: Path) -> None:
    install_example(install)
    told: list[Event] = []
    result = ansorpy.tune(
        MM, trials=16, cost_model="neighbours", search="annealing", out=tmp_path / "out",
        store=MemoryStore(), progress=False, on_event=told.append,
    )  # fmt: skip
    (task,) = result.tasks
    assert task.verified
    assert task.trials == 16
    lines = [as_line(one) for one in told if isinstance(one, Plugged)]
    assert lines == [
        "cost_model neighbours of example_parts 1.0",
        "search annealing of example_parts 1.0",
    ]


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
        ({"cost_model": "analytic", "transfer": True}, "with cost_model analytic and transfer"),
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
        "cannot tune with search annealing and deterministic because nothing shows that code of"
        " example_parts 1.0 repeats itself; expected evolution or random"
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
    ],
)  # fmt: skip
def test_a_wrong_part_is_named_with_its_package_and_stage(
    install: Install, tmp_path: Path, option: str, code: str, why: str
) -> None:
    group = {"search": SEARCHES, "cost_model": COST_MODELS}[option]
    name = f"wrong_{abs(hash((option, code)))}"
    install(name, f"[{group.points}]\nmine = {name}:Mine\n", code)
    with pytest.raises(PluginError) as caught:
        list(events(tmp_path / "out", **{option: "mine"}))
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
