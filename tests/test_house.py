"""The house keeps its own promises: goldens, floors, decisions, imports."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.prose import files

ROOT = Path(__file__).parent.parent


def test_no_golden_file_is_an_orphan() -> None:
    golden = ROOT / "tests" / "golden"
    for path in golden.rglob("*.txt"):
        test = ROOT / "tests" / path.parent.relative_to(golden).with_suffix(".py")
        assert test.exists(), f"{path}: no {test}"
        name = path.stem.split("[")[0]
        assert f"def {name}(" in test.read_text(), f"{path}: no {name} in {test}"


def test_every_test_folder_is_a_package() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert (path.parent / "__init__.py").exists(), path


def test_every_module_of_the_engine_stands_on_a_floor() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = config["tool"]["importlinter"]["contracts"]
    for package in ("ansorpy", "ansorpy.server"):
        (contract,) = [c for c in contracts if c.get("containers") == [package]]
        assert contract["exhaustive"]
        floors = {name.strip(" ()") for row in contract["layers"] for name in row.split("|")}
        modules = {
            path.stem
            for path in (ROOT / package.replace(".", "/")).iterdir()
            if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        assert modules - {"__init__"} <= floors


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


# A function of the user, which is code; everything else that crosses a process border is data.
PICKLING = {"ansorpy/measure/timing/own_kernel.py": {"loads"}}  # in a child


def test_only_functions_of_a_user_are_pickled() -> None:
    found = {}
    for path in ROOT.glob("[ars]*/**/*.py"):
        if imports(path) & {"pickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}:
            found[str(path.relative_to(ROOT))] = {
                node.attr
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "pickle"
            }
    assert found == PICKLING


def test_unpickling_happens_in_children_only() -> None:
    """A child reads functions of its user."""
    callers = {}
    for path, names in PICKLING.items():
        for function in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(function, ast.FunctionDef) and "loads" in names:
                called = {
                    ast.unparse(n.func) for n in ast.walk(function) if isinstance(n, ast.Call)
                }
                if "pickle.loads" in called:
                    callers[path] = function.name
    assert callers == {"ansorpy/measure/timing/own_kernel.py": "_loaded"}


def test_the_service_fetches_nothing() -> None:
    for path in (ROOT / "server").rglob("*.py"):
        assert not imports(path) & {"urllib", "requests", "httpx", "httpx2", "aiohttp"}, path


def decisions() -> list[Path]:
    return sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def test_decisions_have_a_number_of_their_own_and_one_form() -> None:
    for path in decisions():
        text = path.read_text()
        assert re.match(rf"# (ADR[- ])?{path.name[:4]}\b", text), path
        places = [text.find(part) for part in ("Context", "Decision", "Consequences")]
        assert -1 not in places, f"{path}: expected Context, Decision, Consequences"
        assert places == sorted(places), path
    numbers = [path.name[:4] for path in decisions()]
    assert len(set(numbers)) == len(numbers), numbers


def test_the_index_lists_every_decision(request: pytest.FixtureRequest) -> None:
    """`--update-golden` writes the list."""
    index = ROOT / "docs" / "adr" / "README.md"
    head = index.read_text().partition("\n- [")[0]
    rows = []
    for path in decisions():
        title = path.read_text().partition("\n")[0].lstrip("# ").removeprefix("ADR-")
        rows.append(f"- [{title[:4]}]({path.name}) {title[4:].lstrip(': ')}")
    expected = "\n".join([head, *rows]) + "\n"
    if request.config.getoption("--update-golden"):
        index.write_text(expected)
    assert index.read_text() == expected, "run with --update-golden"


def named_decisions(text: str) -> set[str]:
    """The numbers of decisions that a text names: `ADR-0001`, `ADR-0001, 0002`, `docs/adr/0001`."""
    rows = re.findall(r"(?:\bADR[- ]|\badr/)(\d{4}(?:(?:, | and )\d{4}\b)*)", text)
    return {number for row in rows for number in re.findall(r"\d{4}", row)}


def named_files(text: str) -> set[str]:
    """The files of decisions that a text names."""
    return set(re.findall(r"(?<![\w-])(\d{4}-[a-z][\w-]*\.md)\b", text))


def test_names_of_decisions_are_found() -> None:
    text = "ADR-0001, 0002 and 0003; docs/adr/0004; [5](adr/0005-some-title.md)"
    assert named_decisions(text) == {"0001", "0002", "0003", "0004", "0005"}
    assert named_files(text) == {"0005-some-title.md"}


def test_decisions_that_are_named_exist() -> None:
    names = {path.name for path in decisions()}
    numbers = {name[:4] for name in names}
    paths = [*files(), *ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile"]
    for folder in ("docs", "benchmarks", "server", "examples"):
        paths += [p for p in (ROOT / folder).rglob("*.*") if p.suffix in {".md", ".js", ".html"}]
    for path in paths:
        if path != Path(__file__):
            text = path.read_text()
            missing = named_decisions(text) - numbers
            assert not missing, f"{path}: no ADR-{', ADR-'.join(sorted(missing))}"
            assert not named_files(text) - names, f"{path}: {named_files(text) - names}"


def test_a_replaced_decision_is_gone_and_has_one_successor() -> None:
    numbers = {path.name[:4] for path in decisions()}
    successors: dict[str, str] = {}
    for path in decisions():
        row = re.search(r"^Replaces ((?:\d{4}(?:, )?)+)\.$", path.read_text(), re.MULTILINE)
        for number in re.findall(r"\d{4}", row[1]) if row else ():
            assert number not in numbers, f"{path} replaces {number}: delete its file"
            assert number > path.name[:4], f"{path}: keep the number {number}, the lower one"
            assert number not in successors, f"{path} and {successors[number]} replace {number}"
            successors[number] = path.name


def test_nothing_imports_the_linked_folders_by_their_own_names() -> None:
    """`import rules` beside `import ansorpy.rules` would make every class twice."""
    for path in ROOT.glob("[abrst]*/**/*.py"):
        assert not imports(path) & {"rules", "server"}, path


def test_the_engine_contract_lists_every_floor_below_the_service() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = config["tool"]["importlinter"]["contracts"]
    (floors,) = [c for c in contracts if c.get("containers") == ["ansorpy"]]
    below = {name.strip(" ()") for row in floors["layers"] for name in row.split("|")}
    (engine,) = [c for c in contracts if c["name"].startswith("the engine knows no web")]
    assert set(engine["source_modules"]) == {
        f"ansorpy.{name}" for name in below - {"__main__", "server"}
    }


CLOCKS = {"monotonic", "perf_counter", "time", "process_time", "thread_time"}
READS_A_CLOCK = re.compile(rf"\.\s*({'|'.join(CLOCKS)})\s*\(")


def reads_a_clock(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and (
        node.func.attr in CLOCKS
    )  # fmt: skip


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_assertion_compares_a_measured_duration(path: Path) -> None:
    """Deadlines for waiting are allowed: a clock beside a limit, never a difference of clocks."""
    text = path.read_text()
    if not READS_A_CLOCK.search(text):  # most files: to parse them takes seconds
        return
    for check in ast.walk(ast.parse(text)):
        if isinstance(check, ast.Assert):
            for part in ast.walk(check.test):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub):
                    assert not any(map(reads_a_clock, (part.left, part.right))), check.lineno


# A rule and the step that it takes share their name, which is on the wire. At most five names.
SAME_NAME = {"SkipPadding", "SplitGroups", "SplitPhases", "Tensorize", "Winograd"}


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for folder in ("ansorpy", "rules", "server"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    places.setdefault(node.name, []).append(place)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    for name, found in twice.items():
        assert name in SAME_NAME, f"class {name} is in {', '.join(found)}: rename one of them"
    assert twice.keys() == SAME_NAME
    assert len(SAME_NAME) <= 5


MOST_FIELDS = 15  # fields of a dataclass of the tuner; with more it has several owners
MANY_FIELDS = {"TuneOptions"}  # each option is a field (ADR-0105)


def test_no_dataclass_of_the_tuner_has_many_fields() -> None:
    for path in (ROOT / "ansorpy" / "tuner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "dataclass" in map(
                decorator, node.decorator_list
            ):
                fields = sum(isinstance(one, ast.AnnAssign) for one in node.body)
                assert fields <= MOST_FIELDS or node.name in MANY_FIELDS, f"{path}: {node.name}"


def decorator(node: ast.expr) -> str:
    return ast.unparse(node).partition("(")[0]


# Lines of Python at most, by package, without its packages that have a row of their own. A commit
# that needs more raises the row and says why in its body (CONTRIBUTING.md).
LINES = {
    "ansorpy/artifact": 4_230,
    "ansorpy/bundle": 2_920,
    "ansorpy/client": 1_360,
    "ansorpy/cluster": 2_740,
    "ansorpy/codegen": 12_260,
    "ansorpy/cost": 1_540,
    "ansorpy/expr": 2_150,
    "ansorpy/features": 2_550,
    "ansorpy/frontends": 2_280,
    "ansorpy/graph": 7_415,
    "ansorpy/importers": 2_640,
    "ansorpy/loopir": 6_155,
    "ansorpy/measure": 11_030,
    "ansorpy/model": 5_300,
    "ansorpy/oracle": 1_050,
    "ansorpy/plan": 3_285,
    "ansorpy/plot": 920,
    "ansorpy/population": 900,
    "ansorpy/records": 980,
    "ansorpy/rewrites": 1_985,
    "ansorpy/schedule": 1_650,
    "ansorpy/search": 710,
    "ansorpy/state": 1_725,
    "ansorpy/te": 3_375,
    "ansorpy/topi": 3_865,
    "ansorpy/tracing": 2_700,
    "ansorpy/tuner": 10_400,
    "ansorpy": 2_790,
    "rules": 1_985,
    "server": 20_250,
    "tests": 83_450,
    "benchmarks": 19_180,
}


def lines_of(package: str) -> int:
    folder = ROOT / package
    found = folder.glob("*.py") if package == "ansorpy" else folder.rglob("*.py")
    return sum(len(path.read_text().splitlines()) for path in found)


def test_every_package_has_a_budget_of_lines() -> None:
    engine = {f"ansorpy/{one.parent.name}" for one in (ROOT / "ansorpy").glob("*/__init__.py")}
    links = {"ansorpy/rules", "ansorpy/server"}
    assert engine - links == {name for name in LINES if name.startswith("ansorpy/")}


@pytest.mark.parametrize("package", LINES)
def test_a_package_stays_within_its_budget_of_lines(package: str) -> None:
    assert lines_of(package) <= LINES[package], "raise the row, and say why in the commit"
