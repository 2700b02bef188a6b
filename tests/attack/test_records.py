"""The attack by records: 4 files in `make test`, 1,000 in `make test-all`."""

from collections.abc import Mapping
from typing import NoReturn

import pytest

from tests.attack import records
from tests.attack.forge import MM, Attack, attack, good, text
from tests.attack.records import check, main
from tests.night import night

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.mark.night
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("count", night((4, 1000), [4]))
def test_no_hostile_file_does_harm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    monkeypatch.setattr("sys.argv", ["attack", "--count", str(count), "--every", "12"])
    status = main()
    told = capsys.readouterr().out
    assert status == 0, told
    assert "0 tracebacks, 0 answers or tunings harmed" in told


@pytest.mark.night
@pytest.mark.parametrize("files", night((1, 4), [1]))
def test_hostile_files_harm_no_tuning_of_real_kernels(files: int) -> None:
    assert records.harm_with_real_kernels([attack(seed) for seed in range(files)]) == ""


def test_a_file_depends_on_its_seed_only() -> None:
    assert [attack(seed) for seed in (3, 4)] == [attack(seed) for seed in (3, 4)]
    assert len({attack(seed).content for seed in range(9)}) == 9


@pytest.mark.parametrize(
    ("patches", "harm"),
    [
        ({"record_lookup.is_trusted": lambda record, dag: True}, "answered from the store"),
        ({"warm.SEEDS": 99, "warm.SHARE": 1}, "programs of the file would be measured"),
        ({"Task.load_records": lambda t, known: setattr(t.history, "known", 1)}, "took times"),
    ],
)
def test_the_attack_sees_harm(
    monkeypatch: pytest.MonkeyPatch, patches: Mapping[str, object], harm: str
) -> None:
    for place, harmful in patches.items():
        monkeypatch.setattr(f"tests.attack.records.{place}", harmful)
    lines = "\n".join(map(text, good(MM.name, ()))) + "\n"
    assert harm in check(Attack(0, "none", MM, lines.encode()), whole=False).harm


def test_any_exception_is_reported_as_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(content: bytes) -> NoReturn:
        raise ZeroDivisionError("a row of zeros")

    monkeypatch.setattr(records, "taken", raising)
    found = records._found(attack(0), whole=False)
    assert found.harm == "Traceback: ZeroDivisionError: a row of zeros"
