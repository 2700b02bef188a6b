"""Rule files: their rules, and the message for each file that cannot be loaded."""

import re
from pathlib import Path

import pytest

from ansorpy import tune
from ansorpy.errors import RuleError, SpecError
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.state.rule import name_of
from ansorpy.topi.workloads import matmul
from ansorpy.tuner.rule_sets.files import load_rules, rule_folder
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name

pytestmark = pytest.mark.usefixtures("few_candidates")

GOOD = """
from ansorpy.state.rule import Rule
from ansorpy.state.transform import tile

class TwoLevels(Rule):
    def explain(self, at):
        return at.facts.needs_tiling(at.name)

    def rewrite(self, at):
        yield at.before(tile(at.state, at.name, "SRS").state)
"""
RAISES = GOOD.replace("yield", "1 / 0; yield").replace("TwoLevels", "Raises")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def refusal(path: Path, text: str) -> str:
    with pytest.raises(SpecError) as refused:
        load_rules(written(path, text))
    return str(refused.value)


def test_the_rules_of_a_file_are_its_classes(tmp_path: Path) -> None:
    found = load_rules(written(tmp_path / "mine.py", GOOD))
    assert ([name_of(rule) for rule in found.rules], found.kinds) == (["TwoLevels"], ("cpu",))
    assert found.name == "mine"


def test_rules_with_parameters_and_kinds_are_named_by_the_file(tmp_path: Path) -> None:
    text = """
from ansorpy.rules import Skip, Tiling
RULES = (Tiling("SRS"), Skip())
KINDS = ("cpu", "cuda")
"""
    found = load_rules(written(tmp_path / "mine.py", text))
    assert ([name_of(rule) for rule in found.rules], found.kinds) == (
        ["Tiling", "Skip"], ("cpu", "cuda"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "cannot use rule file mine.py because it has no rule; expected a class derived"
         " from ansorpy.state.rule.Rule, or RULES = (MyRule(...),)"),
        ("RULES = ()", "cannot use rule file mine.py because it has no rule; expected a class"
         " derived from ansorpy.state.rule.Rule, or RULES = (MyRule(...),)"),
        ("RULES = [1]", "cannot use RULES of mine.py because it is [1]; expected a tuple of rules"),
        ("import math\n1 / 0", "cannot load rule file mine.py because line 2 raised"
         " ZeroDivisionError: division by zero; expected a Python file that defines rules"),
        ("def f(:\n", "cannot load rule file mine.py because line 1 raised SyntaxError: invalid"
         " syntax; expected a Python file that defines rules"),
        ("import sys\nsys.exit(3)", "cannot load rule file mine.py because line 2 raised"
         " SystemExit: 3; expected a Python file that defines rules"),
        ("import nothing_of_this_name", "cannot load rule file mine.py because line 1 raised"
         " ModuleNotFoundError: No module named 'nothing_of_this_name'; expected a Python file that"
         " defines rules"),
        (GOOD + GOOD, "cannot use two rules named TwoLevels, both of mine.py; expected another"
         " name of one class"),
        (GOOD + "KINDS = ('tpu',)", "cannot use rule file mine.py because its KINDS are ('tpu',);"
         " expected a tuple of cpu and cuda"),
        (GOOD.replace("def rewrite", "def rewrit"), "cannot use rule TwoLevels of mine.py because"
         " it does not define rewrite; expected explain and rewrite"),
        (GOOD.replace("(Rule):", "(Rule):\n    def __init__(self, x): pass\n"), "cannot make rule"
         " TwoLevels of mine.py because TwoLevels() raised TypeError:"
         " TwoLevels.__init__() missing 1 required positional argument: 'x'; expected a class that"
         " takes no arguments, or RULES = (TwoLevels(...),)"),
    ],
)  # fmt: skip
def test_a_file_without_usable_rules_is_refused_with_the_reason(
    tmp_path: Path, text: str, told: str
) -> None:
    found = refusal(tmp_path / "mine.py", text)
    assert found.replace(str(tmp_path) + "/", "") == told


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    told = "cannot read rule file nothing.py because of 'No such file or directory'"
    with pytest.raises(SpecError, match=told):
        load_rules(tmp_path / "nothing.py")


def test_a_folder_offers_its_files_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir(mode=0o755)
    written(folder / "mine.py", GOOD)
    written(folder / "broken.py", "1 / 0")
    written(folder / "_helper.py", "1 / 0")
    written(folder / "notes.txt", "")
    assert set(rule_folder(folder)) == {"mine", "broken"}
    assert rule_folder(None) == {}
    first, *rest = find_rules("cpu", ("mine",), folder=folder)
    assert (name_of(first), tuple(rest)) == ("TwoLevels", CPU)
    assert find_rules("cpu", folder=folder) == CPU, "a broken file concerns its own users only"
    with pytest.raises(SpecError, match=r"cannot load rule file broken.py because line 1 raised"):
        find_rules("cpu", ("broken",), folder=folder)
    known = "expected broken, mine, winograd2, winograd4"
    with pytest.raises(
        SpecError, match=f"'other' because no rules for cpu have this name; {known}"
    ):
        find_rules("cpu", ("other",), folder=folder)
    with pytest.raises(SpecError, match="rules of mine for cuda because its KINDS are cpu"):
        find_rules("cuda", ("mine",), folder=folder)
    assert find_rules("cpu", ("mine",), ("TwoLevels",), folder) == CPU


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir(mode=0o755)
    written(folder / "a.py", GOOD)
    written(folder / "b.py", GOOD + "\nOTHER = 1\n")
    written(folder / "c.py", GOOD.replace("TwoLevels", "Tiling"))
    with pytest.raises(SpecError, match=r"two rules named TwoLevels, of a.py and b.py; expected"):
        find_rules("cpu", ("a", "b"), folder=folder)
    told = r"two rules named Tiling, of c.py and ansorpy.rules.tiling; expected another name"
    with pytest.raises(SpecError, match=told):
        find_rules("cpu", ("c",), folder=folder)
    written(folder / "winograd2.py", GOOD)
    told = "cannot offer rule file winograd2.py because a registered rule set has this name"
    with pytest.raises(SpecError, match=told):
        find_rules("cpu", folder=folder)


def test_a_folder_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    folder.chmod(0o777)
    path = written(folder / "mine.py", GOOD)
    with pytest.raises(SpecError, match="because every user may write to rules; expected no write"):
        find_rules("cpu", folder=folder)
    folder.chmod(0o755)
    path.chmod(0o666)
    with pytest.raises(SpecError, match=r"because every user may write to mine.py; expected no"):
        find_rules("cpu", folder=folder)


@pytest.mark.parametrize("name", ["my rule.py", "a" * 41 + ".py", "naïve.py"])
def test_a_file_whose_name_no_request_can_contain_is_refused(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o755)
    written(tmp_path / name, GOOD)
    with pytest.raises(SpecError, match=r"cannot offer rule file .* because of its name; expected"):
        rule_folder(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    told = "cannot read ANSORPY_RULES_DIR because of 'No such file or directory'; expected a folder"
    with pytest.raises(SpecError, match=told):
        find_rules("cpu", folder=tmp_path / "nothing")


def test_an_edited_file_is_another_version_of_the_rules(tmp_path: Path) -> None:
    """Records of the old file do not answer requests: the digest is part of the version."""
    path = tmp_path / "mine.py"
    first = load_rules(written(path, GOOD)).rules
    again = load_rules(path).rules
    assert rules_name("cpu", first) == rules_name("cpu", again)
    later = load_rules(written(path, GOOD.replace("SRS", "SSRS"))).rules
    assert rules_name("cpu", later) != rules_name("cpu", first)
    assert re.fullmatch(r"cpu@[0-9a-f]{12}", rules_name("cpu", later))


def test_no_byte_code_is_written_into_the_folder(tmp_path: Path) -> None:
    load_rules(written(tmp_path / "mine.py", GOOD))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_a_rule_that_raises_ends_a_search_as_its_own_failure(tmp_path: Path) -> None:
    mine = load_rules(written(tmp_path / "mine.py", RAISES)).rules
    told = (
        "cannot derive 'matmul' because rule Raises raised ZeroDivisionError in rewrite at stage"
        " 'C': division by zero; expected a rule without errors, or a request without the rule"
    )
    with pytest.raises(RuleError) as failed:
        tune(
            matmul(8, 8, 8),
            trials=4,
            rules=(*mine, *CPU),
            store=MemoryStore(),
            out=tmp_path / "out",
        )
    assert (str(failed.value), failed.value.rule, failed.value.stage) == (told, "Raises", "C")
    assert failed.value.state.splitlines()[-1] == "C: i:8s j:8s k:8r"
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
